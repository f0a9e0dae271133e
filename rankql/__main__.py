"""`python -m rankql`."""

from rankql.cli.start import run

run("python -m rankql")
