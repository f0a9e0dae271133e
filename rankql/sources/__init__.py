"""Files, tables and frames as typed columns with roles, in DuckDB.

One road leads from what people pass to `Inputs`; each folder imports only those before it:

- `open` makes a table with columns of everything that people pass;
- `names` lists the candidates for each role, by names and types;
- `choose` picks one column for each role, and adds expressions;
- `unpack` turns lists, cells, events and split logs into rows;
- `numbers` reads numbers, and decides which way they go;
- `doubts` has the rules that ask about a sample of the rows;
- `ask` tries the calls that answer a question.

`tables`, `inputs` and `request` have the types that all of them use. `reading` calls them all.
It imports errors, macros, registry, text and writing; it is imported by evaluation and the packages
above.
"""
