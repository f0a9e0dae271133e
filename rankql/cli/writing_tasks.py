"""The commands that write a table: splits of a log, popular items, judgments of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import command
from rankql.cli.options import DATA
from rankql.core.base.writing import named_paths, output_path, write_file

if TYPE_CHECKING:
    import polars as pl


QUERY = click.option("--query", metavar="COLUMN", help="Column of the user.")
ITEM = click.option("--item", metavar="COLUMN", help="Column of the item.")


@command("split", "split log.parquet --share 0.2 -o train.parquet test.parquet",
         "split log.csv --last 1 --seen drop -o train.csv test.csv")  # fmt: skip
@click.argument("log", type=DATA)
@click.option(
    "--share",
    type=click.FLOAT,
    metavar="SHARE",
    help="Test has the latest rows, at most this share; with --query, of each user.",
)
@click.option("--since", metavar="TIME", help="Test has the rows from a time on.")
@click.option("--last", "n", type=click.INT, help="Test has the last N events of each user.")
@click.option("--basket", is_flag=True, default=None, help="With --last: all events of N times.")
@click.option(
    "--seen", type=click.Choice(["drop"]), help="Leave out events whose user had the item earlier."
)
@QUERY
@ITEM
@click.option("--time", "--moment", "moment", metavar="COLUMN", help="Column of the time.")
@click.option("-o", "--output", "files", type=(DATA, DATA), required=True, metavar="TRAIN TEST",
              help="Files to write: .parquet or .csv.")  # fmt: skip
def split_command(log: str, files: tuple[str, str], **options: Any) -> None:
    """Split a log of users and items into train and test.

    LOG has a row per event. Pass one of --share, --since and --last.
    """
    from rankql.core.base.column_names import recognise_defaults
    from rankql.logs.labels import leave_one_out, time_split
    from rankql.logs.table_macros import find_time, read_rows

    if len(options.keys() & {"share", "since", "n"}) != 1 or files[0] == files[1]:
        raise click.UsageError("Pass one of --share, --since and --last, and two files to write.")
    if "basket" in options and "n" not in options:
        raise click.UsageError("--basket goes with --last: it takes all events of the last times.")
    targets = [output_path(file, (".parquet", ".csv"), inputs=[log]) for file in files]
    rows = read_rows(log).lazy().collect()
    names = {"query": "user", "item": "item", "moment": "time"}
    names |= {name: options[name] for name in names.keys() & options.keys()}
    if time := find_time(rows, names, options):
        names["moment"] = options["moment"] = time
        click.echo(f"Time: {time}, the only column of dates", err=True)
    parts = (leave_one_out if "n" in options else time_split)(rows, **options)
    for part, target in zip(("train", "test"), targets, strict=True):
        _write_rows(parts.filter(split=part).drop("split"), target)
        click.echo(f"{target.name}: {(parts['split'] == part).sum():,} rows of {part}", err=True)
    if "seen" in options:
        click.echo(f"Left out {len(rows) - len(parts):,} rows of seen items", err=True)
    if "n" in options:
        names |= recognise_defaults(names, options, parts.columns)
        for line in _describe_held_out(parts, names["query"], names["moment"]):
            click.echo(line, err=True)


def _describe_held_out(parts: pl.DataFrame, user: str, time: str) -> Iterator[str]:
    """Users of whom a hash chose the events of test, and those without any."""
    import polars as pl

    users = parts.group_by(user).agg(
        tied=pl.col(time).filter(split="train").max() == pl.col(time).filter(split="test").min(),
        none=(pl.col("split") == "train").all(),
    )
    tied, none = int(users["tied"].sum()), int(users["none"].sum())
    total = f"of {len(users):,} users have"
    if tied:
        why = "a hash of user and item chose. --basket takes all of a time"
        yield f"{tied:,} {total} several events at the time of one in test: {why}"
    if none:
        yield f"{none:,} {total} no row of test: nothing would be left to train on"


@command("popular", "popular train.parquet -k 20 -o popular.parquet",
         "popular train.parquet --users test.parquet -o popular.csv")  # fmt: skip
@click.argument("train", type=DATA)
@click.option("-k", "--k", type=click.INT, show_default="10", help="Number of items for each user.")
@click.option("--users", type=DATA, metavar="TABLE", help="Table of the users, if not all.")
@QUERY
@ITEM
@click.option("--no-split", "split", flag_value="all", default=None,
              help="Count all rows, not only those of train, of a split log.")  # fmt: skip
@click.option("-o", "--output", "file", type=DATA, required=True, metavar="FILE",
              help="File to write: .parquet or .csv.")  # fmt: skip
def popular_command(train: str, file: str, **options: Any) -> None:
    """Write the most popular items as a run.

    It is the baseline of every recommender: each user gets the most popular items of TRAIN that the
    user does not have in it.
    """
    from rankql.logs.popular import count_and_rank

    target = output_path(file, (".parquet", ".csv"), inputs=[train, *named_paths(options.values())])
    options |= {"split": None} if "split" in options else {}
    run, count = count_and_rank(train, **options)
    _write_rows(run, target)
    rows = f"{count:,} rows of {'TRAIN' if 'split' in options else 'train'}"
    seen = "items that a user has in them are left out"
    click.echo(f"{target.name}: {len(run):,} rows, from {rows}; {seen}", err=True)


@command("span-judgments", "span-judgments chunks.parquet spans.csv -o judged.parquet",
         "span-judgments chunks.csv spans.csv --cover 0.5 -o judged.parquet",
         function="features.spans.judged_spans:span_judgments")  # fmt: skip
@click.argument("chunks", type=DATA)
@click.argument("spans", type=DATA)
@click.option("-o", "--output", "target", type=DATA, required=True, metavar="FILE",
              help="File to write: .parquet, with the lists of subtopics.")  # fmt: skip
def span_judgments_command(chunks: str, spans: str, target: str, **options: Any) -> None:
    """Write judgments of chunks, from relevant spans.

    CHUNKS is the collection, and SPANS has a query, a document and two ends in each row.
    """
    from rankql.features.spans.judged_spans import span_judgments

    path = output_path(target, (".parquet",), inputs=[chunks, spans])
    rows = span_judgments(chunks, spans, **options)
    _write_rows(rows, path)
    none = rows.filter(rows["share"] == 0, rows["rel"] > 0).height
    lost = f"; {none:,} of relevant spans that no chunk covers" if none else ""
    click.echo(f"{path.name}: {len(rows):,} rows{lost}", err=True)


def _write_rows(rows: pl.DataFrame, target: Path) -> None:
    """Write rows as Parquet or CSV."""
    with write_file(target) as temporary:
        (rows.write_csv if target.suffix == ".csv" else rows.write_parquet)(temporary)
