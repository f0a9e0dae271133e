"""The commands for data: check, convert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result
from rankql.cli.hints import as_cli_options
from rankql.cli.inputs import keyword_arguments, split_inputs
from rankql.cli.options import COLUMNS, FORMAT, INPUTS


@command("check", "check my.run my.qrels", "check my.run my.qrels -k 20 --format json")
@INPUTS
@click.option("-k", type=click.IntRange(1), default=10, help="Cutoff for ties and unjudged items.")
@FORMAT
@COLUMNS
def check_command(inputs: Sequence[str], k: int, form: str, **options: Any) -> None:
    """Find problems in the data.

    Exit code 1 if there is an error, 0 if there are warnings and notes only.
    """
    run, qrels = split_inputs(inputs)
    from rankql.diagnostics.check import check

    with open_connection() as con:
        report = check(run, qrels, k=k, con=con, **keyword_arguments(options))
    findings = [replace(finding, why=as_cli_options(finding.why)) for finding in report]
    print_result(replace(report, findings=findings), form)
    raise SystemExit(0 if report.ok else 1)


@command("convert", "convert my.run run.parquet", "convert run.parquet my.run --tag bm25")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--tag", default="rankql", help="Last column of a TREC run.")
@COLUMNS
def convert_command(source: str, target: Path, **options: Any) -> None:
    """Convert runs and judgments: TREC, BEIR, Parquet, CSV.

    TARGET is Parquet if its name ends in .parquet, CSV if it ends in .csv, BEIR if it ends in .tsv
    or .json, otherwise TREC.
    """
    from rankql.evaluation.conversion import convert

    with open_connection() as con:
        click.echo(convert(source, target, con=con, **keyword_arguments(options)), err=True)
