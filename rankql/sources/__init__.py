"""Files, tables and frames as typed columns with roles, in DuckDB.

`Session.table` (`session`) turns a run, judgments or attributes into a `Table` (`tables`), with
`files`, `trec`, `dicts` and `catalog`. `inputs` recognises columns as query, item, grade, score or
position, and `grades` adds grades to judgments that have none. `macro_sql` runs SQL that calls our
macros; `messages` rewords errors of DuckDB. It imports errors and macros; it is imported by
evaluation and the packages above.
"""
