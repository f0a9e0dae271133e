"""The command line: `rankql` and `python -m rankql`.

`main` is the entry point; the commands are in `metric_commands`, `compare`, `gate`, `data` and
`reference`. `console` prints results: it prints their `repr`, which `rankql.text` lays out.
`command` lays out the help, `hints` turns arguments in messages into options. It may import every
package, and does so only
when a command runs. Only `__main__` imports it.
"""
