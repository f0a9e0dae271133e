"""Everything people have that is not tidy: foreign files and objects, lists, cells, events.

One road leads from them to tables with a row per item; each folder imports only those before it:

- `open` makes a table with columns of objects, answers, text files and numbered columns;
- `choose` picks one column for each role, and adds expressions;
- `unpack` turns lists, cells and events into rows;
- `doubts` has the rules that ask about a sample of the rows;
- `ask` tries the calls that answer a question.

It imports core; it is imported by features and all packages above.
"""
