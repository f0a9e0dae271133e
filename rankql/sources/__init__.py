"""Files, tables and frames as typed columns with roles, in DuckDB.

A `session` reads what people pass, and makes a `Table` of it (`tables`). A session is a `reader`: a
connection, what was read on it, and the queries that call our macros. `files` finds files,
`text_files` reads CSV and TREC, `json_files` JSON and YAML, and `frames` has what is in memory.
`private` has our own databases. What is not a row per item goes through the package `tidy`.

`reading` finds the columns of queries, items, grades, scores and positions of what is tidy:
`Inputs`. `judgments` gives those without grades a grade, and `systems` finds their column.
`account` asks about the columns that no role has, or names them; `ask` tries the calls that a
question offers.
It imports errors, macros, registry, text and writing; it is imported by evaluation and the packages
above.
"""
