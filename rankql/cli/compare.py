"""The commands that compare: compare, report, associate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result
from rankql.cli.inputs import keyword_arguments, split_inputs, split_name, split_slices
from rankql.cli.options import (
    COLUMNS,
    COMPARISON_OPTIONS,
    CONFIDENCE,
    CONVENTIONS,
    DATA,
    FORMAT,
    INPUTS,
    LOWER_IS_BETTER,
    RANKINGS,
    WIDE,
    metrics_option,
)

if TYPE_CHECKING:
    import duckdb

    from rankql.decisions.comparison import Comparison


@command(
    "compare",
    "compare old.run new.run my.qrels -m nDCG@10 -m AP",
    "compare old=a.parquet new=b.parquet --baseline old",
)
@INPUTS
@metrics_option()
@COMPARISON_OPTIONS
@FORMAT
@WIDE
@CONVENTIONS
@COLUMNS
@RANKINGS
def compare_command(
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    form: str,
    wide: bool,
    **options: Any,
) -> None:
    """Compare runs on the same queries, with significance tests.

    Without QRELS, each RUN is a table with one row per query and columns of numbers, such as
    revenue, or a file that eval --output wrote.
    """
    with open_connection() as con:
        comparison = _run_comparison(con, inputs, metrics, by, options)
        print_result(comparison.wide() if wide else comparison, form)


@command(
    "report",
    "report old.run new.run my.qrels -o report.html",
    "report old.run new.run my.qrels -m nDCG@10 -o report.md",
)
@INPUTS
@metrics_option()
@click.option(
    "-o", "--output", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="File to write: .html, .md, .tex, .csv, .json or .parquet.",
)  # fmt: skip
@click.option("--title", help="Title of the page.")
@click.option(
    "--texts", multiple=True, metavar="query=FILE|item=FILE",
    help="Show texts along with ids: a table with a column of ids and a column of texts, such as "
    "--texts item=titles.csv. Repeat --texts for queries and items.",
)  # fmt: skip
@COMPARISON_OPTIONS
@CONVENTIONS
@COLUMNS
@RANKINGS
def report_command(
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    output: Path,
    title: str | None,
    texts: Sequence[str],
    **options: Any,
) -> None:
    """Write a report that compares runs.

    The HTML page has a verdict in one line, charts, the queries that changed most, and the
    limits of the data.
    """
    from rankql.output.vega import bundle_in_background

    if output.suffix.lower() == ".html":  # before the imports below, which take time too
        click.get_current_context().with_resource(bundle_in_background())

    from rankql.decisions.comparison import require_page

    files = {role: path for role, _, path in (text.partition("=") for text in texts)}
    # A wrong path fails at once.
    require_page(output, title=title, texts=files or None)
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
    from rankql.evaluation.values import Request

    lower = dict.fromkeys(options.pop("lower_is_better"), False)
    keywords = keyword_arguments(options)
    request = Request.of(keywords, [*metrics], ",".join(by).split(","), lower)
    runs, qrels = split_inputs(inputs, request)
    if isinstance(runs, str) and qrels is not None and "system" not in keywords:
        runs = dict([split_name(runs)])
    return compare(
        runs, qrels=qrels, metrics=list(metrics) or None, by=split_slices(by), con=con,
        higher_is_better=lower or None, **keywords,
    )  # fmt: skip


@command(
    "associate",
    "associate values.parquet sessions.parquet --on query",
    "associate values.parquet kpis.csv --on user=user_id --outcome revenue",
)
@click.argument("per_query", type=DATA)
@click.argument("outcomes", type=DATA)
@metrics_option("all")
@click.option(
    "--on",
    multiple=True,
    required=True,
    metavar="COLUMN",
    help="Key that joins both tables, or LEFT=RIGHT. Repeatable.",
)
@click.option("--outcome", multiple=True, metavar="COLUMN", show_default="all columns of numbers",
              help="KPI: COLUMN, NAME=COLUMN, or NAME=COLUMN/COLUMN for a ratio of sums. "
                   "Repeatable.")  # fmt: skip
@click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Add slices. Repeatable.")
@click.option("--baseline", metavar="NAME", help="The system to start from, if there are two.")
@LOWER_IS_BETTER
@CONFIDENCE
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
    """Measure how metrics relate to KPIs.

    PER_QUERY is a file that eval --output wrote, or a table with metrics. OUTCOMES is a table of
    KPIs. --on joins them.
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
