"""Open what people pass: files, frames, dicts, answers and numbered columns become tables.

`Session.table` is the way in; `shapes` says what an object is.
"""
