"""Files, tables and frames as typed columns with roles, in DuckDB.

A `session` reads what people pass, and makes a `Table` of it (`tables`). A session is a `reader`: a
connection, what was read on it, and the queries that call our macros. `files` finds files,
`text_files` reads CSV and TREC, and `json_files` JSON and YAML. `shapes` says what an object is,
`plain` takes objects of Python apart, and `frames` has what else is in memory, and `wide_columns`
makes lists of numbered columns. `private` has our own databases.

`reading` finds the columns of queries, items, grades, scores and positions: `Inputs`. `choice`
decides which are those of queries and items, by names, and by values where several have one.
`id_lists` unnests lists of ids, and `computed` adds columns: SQL expressions, keys, and the grades
of judgments that have none. `account` asks about the columns that no role has, or names them;
`ask` tries the calls that a question offers.
It imports errors, macros, registry, text and writing; it is imported by evaluation and the packages
above.
"""
