"""Files, tables and frames as typed columns with roles, in DuckDB.

A `session` reads what people pass: it lists the shapes, each with `matches` and `load`. A loaded
shape is a `Table` (`tables`). A session is a `reader`: a connection, what was read on it, and the
queries that call our macros. `files` finds files and `text_files` reads CSV and TREC, `json_shapes`
JSON and dicts, and `frames` what else is in memory. `private` has our own databases.

`inputs` finds the columns of queries, items, grades, scores and positions. `choice` decides which
are those of queries and items, by tiers of names and by values within a tier. `id_lists` unnests
lists of ids, and `computed` adds columns: SQL expressions, keys, and the grades of judgments that
have none.
It imports errors, macros, registry, text and writing; it is imported by evaluation and the packages
above.
"""
