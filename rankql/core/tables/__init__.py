"""Files, tables and frames as typed columns with roles, in DuckDB.

`session` opens what people pass as a `Table` (`tables`), on a connection of the user or of our own
(`private`). `candidates` says which columns may have a role, by names and types; `numbers` reads
numbers and decides which way they go. `reading` turns tables into `Inputs` (`inputs`) as the
`Request` (`request`) says; doors open what is not tidy, and ask where it cannot.

It imports base and metrics; it is imported by expressions, evaluation and all packages above.
"""
