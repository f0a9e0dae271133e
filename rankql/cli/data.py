"""The commands for data: check, convert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rankql.cli.console import open_connection, print_result
from rankql.cli.hints import as_cli_options
from rankql.cli.inputs import keyword_arguments, split_inputs
from rankql.cli.options import (
    FORMAT,
    INPUTS,
    column_options,
)


@click.command("check")
@INPUTS
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="The cutoff.")
@FORMAT
@column_options
def check_command(inputs: Sequence[str], k: int, form: str, **options: Any) -> None:
    """Look for what would make numbers wrong; exit code 1 if found."""
    from rankql.diagnostics.check import check

    run, qrels = split_inputs(inputs)
    with open_connection() as con:
        report = check(run, qrels, k=k, con=con, **keyword_arguments(options))
    findings = [replace(finding, why=as_cli_options(finding.why)) for finding in report]
    print_result(replace(report, findings=findings), form)
    raise SystemExit(0 if report.ok else 1)


@click.command("convert")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--tag", default="rankql", show_default=True, help="The last column of a TREC run.")
@column_options
def convert_command(source: str, target: Path, **options: Any) -> None:
    """Convert a run or judgments between TREC and Parquet or CSV.

    By the name of TARGET: .parquet, .csv, or else TREC.
    """
    from rankql.evaluation.conversion import convert

    with open_connection() as con:
        click.echo(convert(source, target, con=con, **keyword_arguments(options)), err=True)
