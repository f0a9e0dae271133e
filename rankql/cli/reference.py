"""The commands that need no data: metrics, sql, versions, demo."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rankql.cli.console import print_frame
from rankql.cli.hints import program_name
from rankql.cli.inputs import keyword_arguments, split_inputs
from rankql.cli.options import (
    FORMAT,
    METRICS,
    column_options,
    convention_options,
)
from rankql.registry.conventions import PROFILES


@click.command("metrics")
@FORMAT
def metrics_command(form: str) -> None:
    """List the metrics.

    Of each its columns, level, direction, range, definition, other names and options.
    """
    from rankql.registry.all_metrics import metrics

    values = PROFILES["rankql"].as_dict().items()
    defaults = ", ".join(f"{k}={v}" for k, v in values if k != "profile" and v is not None)
    print_frame(metrics(), form, [f"Default conventions: {defaults}"])


@click.command("sql")
@click.argument("inputs", nargs=-1, metavar="[RUN... QRELS | QUERY]")
@click.option(
    "--dialect",
    metavar="NAME",
    help="Of another engine: clickhouse, spark, postgres, datafusion, snowflake, ...",
)
@METRICS
@convention_options
@column_options
@click.option("--folder", is_flag=True, help="Print where the SQL lies: a package for dbt.")
def sql_command(
    inputs: Sequence[str], dialect: str | None, metrics: Sequence[str], folder: bool, **options: Any
) -> None:
    """Print the macros, or the query that eval would run on them.

    rankql sql > rankql.sql, then .read rankql.sql

    With --dialect, a QUERY that calls the metrics as that engine runs it; or, without a query, the
    metrics as functions of that engine.
    """
    from rankql import macros
    from rankql.engines import dialects

    if folder:
        click.echo(macros.sql_folder())
        return
    if dialect:
        if len(inputs) > 1 or metrics or keyword_arguments(options):
            raise click.UsageError("--dialect takes one query, such as 'SELECT ...', and no option")
        text = (
            dialects.translate(inputs[0], dialect) if inputs else dialects.create_functions(dialect)
        )
        click.echo(text.rstrip("\n"))
        return
    if not inputs:
        click.echo(macros.read_sql(), nl=False)
        return
    from rankql.evaluation.arguments import DEFAULT_METRICS
    from rankql.evaluation.execution import render_query

    run, qrels = split_inputs(inputs)
    click.echo(
        render_query(run, qrels, list(metrics) or DEFAULT_METRICS, **keyword_arguments(options))
    )


@click.command("versions")
def versions_command() -> None:
    """Show what is installed, for a report of a bug."""
    from rankql.versions import show_versions

    show_versions()


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rankql-demo"),
    help="Where the data goes.",
)
@click.option("--queries", type=click.IntRange(1), default=20_000, help="Queries to simulate.")
@click.pass_context
def demo_command(ctx: click.Context, out: Path, queries: int) -> None:
    """Run the metrics on a simulated shop log, and show the SQL.

    The log is written as Parquet.
    """
    import duckdb

    from rankql import macros
    from rankql.cli import demo
    from rankql.macros import literal

    con = duckdb.connect()
    macros.register(con)
    path = demo.write_shop(out, queries)
    click.echo(f"Simulated {queries} queries of a shop: {path}\n", err=True)
    query = demo.SHOP.format(shop=literal(str(path)))
    click.echo(query)
    con.sql(query).show(max_width=100)
    command = f"{program_name(ctx)} eval {shlex.quote(str(path))} --by segment"
    click.echo(f"Next: {command}", err=True)
