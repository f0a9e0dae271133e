"""`python -m rankql`."""

from rankql.cli.commands import main

main(prog_name="python -m rankql")
