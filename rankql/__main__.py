"""`python -m rankql`."""

from rankql.cli import main

main(prog_name="python -m rankql")
