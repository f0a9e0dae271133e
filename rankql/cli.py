"""The command line: `python -m rankql` or `rankql`."""

from __future__ import annotations

from pathlib import Path

import click
import duckdb

from rankql import demo, macros
from rankql.errors import RankqlError


class _Group(click.Group):
    """Errors of ours and of DuckDB end the program with one line and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (RankqlError, duckdb.Error, OSError) as error:
            click.echo(f"rankql: {str(error).splitlines()[0]}", err=True)
            raise SystemExit(2) from error


@click.group(cls=_Group)
@click.version_option(package_name="rankql")
def main() -> None:
    """Ranking metrics where the data lies."""


@main.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rankql-demo"),
    help="Where the data goes.",
)
@click.option("--queries", type=click.IntRange(1), default=20_000, help="Queries to simulate.")
@click.option("--run", type=click.Path(path_type=Path), help="A TREC run to measure instead.")
@click.option("--qrels", type=click.Path(path_type=Path), help="The TREC judgments for --run.")
def demo_command(out: Path, queries: int, run: Path | None, qrels: Path | None) -> None:
    """Run the metrics on a simulated shop log in Parquet, or on a TREC run, and show the SQL."""
    con = duckdb.connect()
    macros.register(con)
    if run and qrels:
        query = demo.TREC.format(run=_text(run), qrels=_text(qrels))
    elif run or qrels:
        raise click.UsageError("--run and --qrels go together")
    else:
        path = demo.write_shop(out, queries)
        click.echo(f"Simulated {queries} queries of a shop: {path}\n", err=True)
        query = demo.SHOP.format(shop=_text(path))
    click.echo(query)
    con.sql(query).show(max_width=100)


@main.command("sql")
def sql_command() -> None:
    """Print the macros as SQL, for any DuckDB: rankql sql > rankql.sql, then .read rankql.sql."""
    click.echo(macros.sql(), nl=False)


def _text(path: Path) -> str:
    """A path as an SQL text."""
    return "'" + str(path).replace("'", "''") + "'"
