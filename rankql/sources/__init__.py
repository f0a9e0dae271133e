"""Files, tables and frames as typed columns with roles, in DuckDB.

`shapes` lists the shapes of what people pass, each with `matches` and `load`. A loaded shape is a
`Table` (`tables`), read on a `reader` with `files`, `trec`, `json_shapes`, `dicts`, `frames` and
`catalog`. A `session` is a reader that loads all shapes.

`inputs` recognises columns as query, item, grade, score or position; `id_lists` unnests lists of
ids, `computed` adds columns that are SQL expressions, `grades` the grades of judgments that have
none. `private` opens our own databases, and `macro_sql` runs SQL that calls our macros. It imports
errors, macros, registry and text; it is imported by evaluation and the packages above.
"""
