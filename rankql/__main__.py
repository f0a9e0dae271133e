"""`python -m rankql`."""

from rankql.cli import run

run("python -m rankql")
