"""The commands that compare: compare, report, associate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.console import open_connection, print_result
from rankql.cli.inputs import keyword_arguments, split_inputs, split_name, split_slices
from rankql.cli.options import (
    COMPARISON_OPTIONS,
    FORMAT,
    INPUTS,
    LOWER_IS_BETTER,
    METRICS,
    column_options,
    convention_options,
)

if TYPE_CHECKING:
    import duckdb

    from rankql.decisions.comparison import Comparison


@click.command("compare")
@INPUTS
@METRICS
@COMPARISON_OPTIONS
@FORMAT
@convention_options
@column_options
def compare_command(
    inputs: Sequence[str], metrics: Sequence[str], by: Sequence[str], form: str, **options: Any
) -> None:
    """Compare runs on the same queries, with significance tests.

    Without QRELS, files that eval --output wrote are compared, or any tables with one row per query
    and columns of numbers, such as revenue.
    """
    with open_connection() as con:
        comparison = _run_comparison(con, inputs, metrics, by, options)
        print_result(comparison, form)


@click.command("report")
@INPUTS
@METRICS
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where it goes: .html, .md, .tex, .csv, .json or .parquet.",
)
@click.option("--title", help="The title of the page.")
@click.option(
    "--texts",
    multiple=True,
    metavar="query=FILE|item=FILE",
    help="Show texts along with ids, such as --texts item=titles.csv: a table with a column of ids "
    "and a column of texts. Repeatable.",
)
@COMPARISON_OPTIONS
@convention_options
@column_options
def report_command(
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    output: Path,
    title: str | None,
    texts: Sequence[str],
    **options: Any,
) -> None:
    """Write a comparison of runs as one page.

    A verdict in one line, means, differences, slices, the queries that changed most, and limits.
    """
    from rankql.results import SUFFIXES
    from rankql.writing import output_path

    output_path(output, SUFFIXES)  # a wrong path fails at once
    files = {role: path for role, _, path in (text.partition("=") for text in texts)}
    with open_connection() as con:
        click.echo("Comparing the runs ...", err=True)
        comparison = _run_comparison(con, inputs, metrics, by, options)
        click.echo("Writing the report ...", err=True)
        comparison.save(output, title=title, texts=files or None)
    click.echo(f"Wrote {output}", err=True)


def _run_comparison(
    con: duckdb.DuckDBPyConnection,
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    options: dict[str, Any],
) -> Comparison:
    """Run compare with the options of compare and report."""
    from rankql.decisions.compare import compare
    from rankql.evaluation.values import Request, read_result

    lower = dict.fromkeys(options.pop("lower_is_better"), False)
    keywords = keyword_arguments(options)
    request = Request.of(keywords, [*metrics], ",".join(by).split(","), lower)
    last = split_name(inputs[-1])[1]
    are_values = read_result(last, last, request) is not None
    runs, qrels = split_inputs(inputs, are_values)
    return compare(
        runs, qrels=qrels, metrics=list(metrics) or None, by=split_slices(by), con=con,
        higher_is_better=lower or None, **keywords,
    )  # fmt: skip


@click.command("associate")
@click.argument("per_query")
@click.argument("outcomes")
@METRICS
@click.option(
    "--on",
    multiple=True,
    required=True,
    metavar="COLUMN",
    help="The key; LEFT=RIGHT where PER_QUERY and OUTCOMES differ; repeatable.",
)
@click.option(
    "--outcome",
    multiple=True,
    metavar="COLUMN",
    help="An outcome; NAME=COLUMN, or NAME=COLUMN/COLUMN for a ratio of sums; repeatable.",
)
@click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Also by slices.")
@click.option("--baseline", metavar="NAME", help="Of two systems, the one to start from.")
@LOWER_IS_BETTER
@click.option("--confidence", type=float, default=0.95, show_default=True)
@FORMAT
def associate_command(
    per_query: str,
    outcomes: str,
    metrics: Sequence[str],
    on: Sequence[str],
    outcome: Sequence[str],
    by: Sequence[str],
    lower_is_better: Sequence[str],
    form: str,
    **options: Any,
) -> None:
    """Say whether metrics go with what the business counts.

    PER_QUERY is what eval --output wrote, or a table with metrics; OUTCOMES a table of outcomes.
    The key of both joins them.
    """
    from rankql.decisions.associate import associate

    keys = {left: right or left for left, _, right in (key.partition("=") for key in on)}
    pairs = [name.partition("=") for name in outcome]
    outcome_columns = {name: tuple((right or name).split("/")) for name, _, right in pairs}
    with open_connection() as con:
        association = associate(
            per_query, outcomes, on=keys, metrics=list(metrics) or None,
            outcome=outcome_columns or None, by=split_slices(by),
            higher_is_better=dict.fromkeys(lower_is_better, False) or None, con=con, **options,
        )  # fmt: skip
    print_result(association, form)
