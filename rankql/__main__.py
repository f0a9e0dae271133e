"""`python -m rankql`."""

from rankql.cli.main import run

run("python -m rankql")
