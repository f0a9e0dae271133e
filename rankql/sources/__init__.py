"""Files, tables and frames as typed columns with roles, in DuckDB.

`session` opens what a user passes as a run, judgments or attributes: `Session.table` turns it into
a `Table` (`tables`), with the help of `files`, `trec` and `catalog`. `inputs` recognises its
columns as query, item, grade, score or position. `macro_sql` runs SQL that calls our macros;
`messages` rewords the errors of DuckDB. It imports errors and macros; evaluation and all packages
above import it.
"""
