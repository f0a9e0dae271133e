"""The commands that need no data: metrics, sql, demo."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from rankql.cli.command import COLUMNS, FORMAT, command, print_frame
from rankql.cli.options import DATA, PATH
from rankql.cli.tasks import split_inputs
from rankql.core.base.errors import RankqlError, require_whole_number
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.parse import describe_unknown_metric
from rankql.core.metrics.profiles import TOOLS


@command("metrics", "metrics", "metrics recall", "metrics --tools", "metrics --format json")
@click.argument("text", default="")
@click.option("--tools", is_flag=True, help="List the tools that --conventions takes.")
@FORMAT
def metrics_command(text: str, tools: bool = False) -> None:
    """List the metrics, or those that match TEXT.

    TEXT is a part of a name or definition. With a --format, prints also the level,
    direction, range, aliases and options of each.
    """
    import polars as pl

    from rankql.core.metrics.all_metrics import metrics

    if tools:
        known = {name: TOOLS[name].version for name in PROFILES if name in TOOLS}
        frame = pl.DataFrame({"conventions": [*known], "tool": [*known.values()]})
        return print_frame(frame, click.get_current_context().meta["format"])
    frame = metrics()
    texts = pl.concat_str("name", "function", "aliases", "definition", separator=" ")
    matches = frame.filter(texts.str.to_lowercase().str.contains(text.lower(), literal=True))
    if matches.is_empty():
        raise RankqlError(describe_unknown_metric(text))
    if (form := click.get_current_context().meta["format"]) != "table":
        return print_frame(matches, form)
    formatter = click.HelpFormatter(width=80)
    rows = matches["name", "function", "columns", "definition"].rows()
    formatter.write_dl([(name, f"{call}({columns}). {text}") for name, call, columns, text in rows])
    click.echo(formatter.getvalue(), nl=False)


@command("sql", "sql --database rankql.duckdb",
         "sql my.run my.qrels -m nDCG@10", "sql --plain -m nDCG@10 my_table",
         function="core.evaluation.evaluate:render_query")  # fmt: skip
@click.argument("inputs", type=DATA, nargs=-1, metavar="[RUN... QRELS | QUERY | TABLE]")
@click.option("--engine", metavar="NAME", help="Print the file that creates the metrics as "
              "functions of postgres, clickhouse, snowflake or bigquery.")  # fmt: skip
@click.option("--schema", metavar="NAME",
              help="Schema of Postgres or dataset of BigQuery for the functions.")  # fmt: skip
@click.option("--prefix", metavar="TEXT", default="",
              help="Beginning of the names of the functions, for ClickHouse.")  # fmt: skip
@click.option("--dialect", metavar="NAME", help="Translate QUERY for spark, or print the query of "
              "RUN and QRELS for postgres, clickhouse, snowflake or bigquery.")  # fmt: skip
@click.option(
    "--temp", is_flag=True, help="Print TEMP macros, for init scripts and read-only files."
)
@click.option("--plain", is_flag=True, help="Print plain SQL for TABLE, which needs no functions. "
              "It takes -m, --query, --item, --rel, and --pos or --score.")  # fmt: skip
@click.option("--folder", is_flag=True, help="Print the path of the SQL files, a dbt package.")
@click.option("--database", type=PATH, metavar="FILE",
              help="Write the macros into a new DuckDB file, to attach AS rankql.")  # fmt: skip
@COLUMNS
def sql_command(
    inputs: Sequence[str],
    folder: bool = False,
    temp: bool = False,
    plain: bool = False,
    dialect: str | None = None,
    engine: str | None = None,
    database: Path | None = None,
    **options: Any,
) -> None:
    """Print the macros, or the query that eval runs.

    Without arguments, prints the macros: run `.read rankql.sql` in DuckDB to store them in the
    open database. With --temp they last as long as the connection, as in an init script. With RUN
    and QRELS, prints the query of eval, with one macro per metric.

    With --engine, prints the functions of another database. With --dialect and RUN and QRELS,
    tables there, prints the query of eval that calls them. With --dialect spark, translates a
    QUERY that calls the metrics.

    With --plain, prints the metrics as SQL for any database with window functions: a statement per
    metric, with the values per query of TABLE. It checks nothing, and SQLite needs its math
    functions, such as ln.

    With --database, writes the macros into a new file. Any DuckDB from 1.4.3 on can use them after
    ATTACH 'rankql.duckdb' AS rankql (READ_ONLY), as rankql.ndcg(rel, pos, 10).
    """
    from rankql.core.metrics import macros
    from rankql.engines import native

    qualifier = {name: options.pop(name) for name in ("schema", "prefix") if name in options}
    if temp and (inputs or plain or dialect or folder or engine or database or options):
        raise click.UsageError("With --temp, pass no other arguments.")
    if plain:
        from rankql.engines.textbook import plain_sql

        others = options.keys() - {"metrics", "query", "item", "rel", "pos", "score"}
        others |= {*filter(None, (folder, dialect, engine, database, *qualifier.values()))}
        if others or len(inputs) > 1 or "metrics" not in options:
            raise click.UsageError(
                "With --plain, pass -m and one TABLE, and of the other options only --query, "
                "--item, --rel, and --pos or --score."
            )
        click.echo(plain_sql(options.pop("metrics"), *inputs, **options))
    elif database is not None:
        from rankql.core.tables.private import write_macro_database

        if inputs or dialect or folder or options:
            raise click.UsageError("With --database, pass no other arguments.")
        write_macro_database(database)
        path = macros.literal(str(database))
        click.echo(f"Next, in DuckDB: ATTACH {path} AS rankql (READ_ONLY);", err=True)
    elif folder:
        click.echo(macros.sql_folder())
    elif engine:
        if inputs or dialect or options:
            raise click.UsageError("With --engine, pass only --schema or --prefix.")
        click.echo(native.native_sql(cast(Any, engine), **qualifier), nl=False)
    elif dialect in native.DIALECTS and len(inputs) == 2:
        run, qrels = inputs
        click.echo(native.render_native_query(str(dialect), run, qrels, **qualifier, **options))
        first = f"Create the functions first: rankql sql --engine {dialect}"
        if dialect == "bigquery":
            first += f" --schema {qualifier.get('schema', 'DATASET')}"
        if dialect == "bigquery" and "schema" not in qualifier:
            first += ". Here `dataset` is a placeholder: pass --schema DATASET too"
        click.echo(first, err=True)
    elif dialect:
        if len(inputs) != 1 or options:
            raise click.UsageError(
                "With --dialect, pass one QUERY, such as 'SELECT ...', and no other options. With "
                "postgres, clickhouse, snowflake or bigquery, pass RUN and QRELS."
            )
        click.echo(native.translate(inputs[0], dialect).rstrip("\n"))
    elif not inputs:
        text = macros.read_sql()
        click.echo(macros.as_temporary(text) if temp else text, nl=False)
    else:
        from rankql.core.evaluation.evaluate import render_query

        click.echo(render_query(*split_inputs(inputs), **options))


@command("demo", "demo", "demo --output data --queries 1000")
@click.option(
    "-o", "--output", "folder", type=PATH, default="rankql-demo", help="Folder for the data."
)
@click.option("--queries", type=click.INT, default=20_000,
              help="Number of queries to simulate.")  # fmt: skip
@click.pass_context
def demo_command(ctx: click.Context, folder: Path, queries: int) -> None:
    """Write a simulated shop log, and run metrics on it.

    Writes Parquet files, and prints the SQL with its result.
    """
    import duckdb

    from rankql.cli import demo
    from rankql.core.metrics import macros

    require_whole_number("queries", queries, 1)
    con = duckdb.connect()
    macros.register(con)
    path = demo.write_shop(folder, queries)
    click.echo(f"Simulated {queries:,} queries of a shop: {path}\n", err=True)
    query = demo.SHOP.format(shop=macros.literal(str(path)))
    click.echo(query)
    con.sql(query).show(max_width=100)
    command = f"{ctx.find_root().command_path} eval {shlex.quote(str(path))} --by segment"
    click.echo(f"Next: {command}", err=True)
