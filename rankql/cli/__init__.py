"""The command line: `rankql` and `python -m rankql`.

`start.run` is the entry point. `main` has the group of commands; `tasks` has those that call a
function of rankql, `writing_tasks` those that write a table, `reference` the others. `options`
derives options from signatures and docstrings. `command` lays out the help, calls the function and
prints its result, with options instead of arguments in messages. Functions are imported when a
command runs, so that --help is fast. Only `__main__` imports this package.
"""
