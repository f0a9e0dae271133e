"""Open what is not a table: dicts, lists, answers, JSON, text files and numbered columns.

`shapes` says what an object is.
"""
