"""Files, tables and frames as typed columns with roles, in DuckDB.

`Session.table` (`session`) turns a run, judgments or attributes into a `Table` (`tables`), with
`files`, `trec`, `dicts`, `frames`, `json_shapes` and `catalog`. `inputs` recognises columns as
query, item, grade, score or position; `computed` adds those that are SQL expressions, and `grades`
the grades of judgments that have none. `private` opens our own databases, `fetching` reads the rows
of a query, `macro_sql` runs SQL that calls our macros; `messages` rewords errors of DuckDB. It
imports errors, macros and text; it is imported by evaluation and the packages above.
"""
