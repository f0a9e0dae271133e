"""The command line: `rankql` and `python -m rankql`.

`main` is the entry point; the commands are in `metric_commands`, `compare`, `gate`, `data` and
`reference`. `console` prints results: their `repr`, which `rankql.text` lays out. `command` lays
out the help. `hints` turns arguments in messages into options. It imports every package, but only
when a command runs, so that --help is fast. Only `__main__` imports it.
"""
