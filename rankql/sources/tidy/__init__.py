"""What makes tables tidy: rows with an item each, and columns of standard names.

People have lists and cells of several ids, numbered columns, the hits of search engines, objects,
events, keys of several columns, expressions and split logs. `rows` is the way in: `make_tidy`
opens the systems, unnests the lists (`lists`, whose columns `candidates` and `choice` find), adds
what is computed (`computed`), and maps events to grades (`events`). `split_logs` comes before it.
While things are opened, `shapes` and `plain` make tables of objects, `row_keys` numbers queries
that repeat, and `wide_columns` makes lists of numbered columns. A tidy table enters none of it.

It imports what the package above it reads with, but not `reading`, which calls it.
"""
