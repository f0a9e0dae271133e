"""Simulated judgments and runs of a shop, a folder per day: python simulate.py --days 3."""

from __future__ import annotations

import argparse
from datetime import date, timedelta
from pathlib import Path

import polars as pl

from rankql.cli import demo

FIRST = date(2026, 1, 1)


def write(folder: Path, number: int, queries: int = 2000, bad: bool = False) -> None:
    """Write the day of this number, the same each time; on a bad day the run is upside down."""
    day = FIRST + timedelta(days=number)
    log = demo.shop(queries, seed=number).with_columns(query=f"{day}-" + pl.col("query"))
    score = -pl.col("score") if bad else pl.col("score")
    run = log.filter(pl.col("pos").is_not_null()).select("query", "item", score)
    judged = log.filter(pl.col("rel").is_not_null()).select("query", "segment", "item", "rel")
    # Some queries are judged, but were not answered.
    answered = run.filter(~pl.col("query").str.ends_with("7"))
    for name, table in {"runs": answered, "judgments": judged}.items():
        path = folder / name / f"day={day}"
        path.mkdir(parents=True, exist_ok=True)
        table.write_parquet(path / "part.parquet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--bad", type=int, metavar="NUMBER", help="a day to go wrong, from 0")
    given = parser.parse_args()
    for number in range(given.days):
        write(Path("data"), number, bad=number == given.bad)
