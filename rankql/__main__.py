"""`python -m rankql`."""

from rankql.cli.main import main

main(prog_name="python -m rankql")
