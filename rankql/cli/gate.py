"""The command gate: fail in CI if a run is below limits or a baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result, write_junit
from rankql.cli.inputs import keyword_arguments, split_slices
from rankql.cli.options import (
    CLUSTER,
    COLUMNS,
    CONVENTIONS,
    DATA,
    FORMAT,
    JUDGE,
    LOWER_IS_BETTER,
    MISMATCH,
    RANKINGS,
    SLICES,
    WEIGHT,
)


@command(
    "gate",
    "gate my.run my.qrels --min 'nDCG@10>=0.45'",
    "gate new.run my.qrels --baseline old.parquet --max-drop nDCG@10:0.01",
)
@click.argument("run", type=DATA)
@click.argument("qrels", type=DATA, required=False)
@click.option("--baseline", metavar="FILE", help="Run, or file that eval --output wrote.")
@click.option(
    "--min",
    "minimum",
    multiple=True,
    metavar="LIMIT",
    help="Lowest mean allowed, e.g. nDCG@10>=0.45. Repeatable.",
)
@click.option(
    "--max-drop",
    multiple=True,
    metavar="LIMIT",
    help="Largest drop below the baseline allowed, e.g. nDCG@10:0.01. Repeatable.",
)
@click.option(
    "--equivalence",
    multiple=True,
    metavar="LIMIT",
    help="Largest drop and gain allowed, e.g. nDCG@10:0.01: the means are equivalent. Repeatable.",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["fail", "warn"]),
    default="fail",
    help="If there are too few queries to decide: fail with exit code 3, or warn.",
)
@click.option(
    "--min-bound",
    "minimum_bound",
    is_flag=True,
    help="Require that the confidence interval of the mean lies above --min, not the mean alone.",
)
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    help="Significance level; intervals have level 1 - alpha.",
)
@click.option(
    "--min-queries",
    type=int,
    default=10,
    help="A slice with fewer queries cannot pass: it is reported, or fails if the drop is certain.",
)
@CLUSTER
@WEIGHT
@JUDGE
@LOWER_IS_BETTER
@MISMATCH
@SLICES
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@FORMAT
@CONVENTIONS
@COLUMNS
@RANKINGS
def gate_command(
    run: str,
    qrels: str | None,
    max_drop: Sequence[str],
    by: Sequence[str],
    lower_is_better: Sequence[str],
    junit: Path | None,
    form: str,
    **options: Any,
) -> None:
    """Fail if a run is below limits or a baseline.

    Exit code 0: passed, 1: a limit failed, 2: wrong use, 3: inconclusive. RUN may be a file that
    eval --output wrote, without QRELS. In GitHub Actions it also writes annotations and a summary.
    """
    from rankql.decisions.gate import gate

    with open_connection() as con:
        verdict = gate(
            run,
            qrels,
            max_drop=list(max_drop) or None,
            by=split_slices(by),
            higher_is_better=dict.fromkeys(lower_is_better, False) or None,
            con=con,
            **keyword_arguments(options),
        )
    print_result(verdict, form)
    write_junit(verdict, junit)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in verdict.annotations():  # GitHub reads stderr too
            click.echo(line, err=True)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(f"{verdict.to_markdown()}\n\n")
    if verdict and len(verdict.inconclusive):
        click.echo(f"Warning: inconclusive limits: {len(verdict.inconclusive)}", err=True)
    raise SystemExit(verdict.exit_code)
