"""Whether past launches moved an offline metric and an online one the same way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.decisions.association_table import AssociationTable
from rankql.decisions.keyed_tables import KeyedTables
from rankql.decisions.rounding import ROUNDING
from rankql.errors import require_package
from rankql.registry.argument_checks import normal_z, require
from rankql.sources.macro_sql import execute
from rankql.sources.session import duckdb_errors
from rankql.sources.session import open_session as open_session
from rankql.sources.tables import Data


def sign_agreement(
    experiments: Data,
    offline: str = "offline",
    online: str = "online",
    experiment: str | None = None,
    *,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> AssociationTable:
    """How often past launches moved the offline metric and the online one the same way.

    `experiments` is a table with a row per launch: the differences `offline` and `online`, of both
    of which more is better. With `experiment`, the column that names the launch, a launch may have
    several rows, such as slices: their means count. Launches in which either did not move are
    counted separately. The share has the exact interval of Clopper and Pearson. `slope` is the
    least-squares slope of online on offline, one point per launch, with Student's interval from 6
    launches on.

    >>> import polars as pl
    >>> past = pl.DataFrame({"offline": [1, 2, -1, 1, 3, 1, -2, 1],
    ...                      "online": [2, 1, -1, 1, 2, -1, 1, 3]})
    >>> print(sign_agreement(past).sentences[0])
    6 of 8 launches agree in sign: 0.75 (0.35 to 0.97), not significantly different from chance
    """
    require_package("scipy", "stats", "sign_agreement")
    normal_z(confidence)  # refused before anything is read
    from scipy.stats import binomtest

    rows = _read_launches(experiments, offline, online, experiment, con)
    kept = rows.drop_nulls(["x", "y"] if experiment is None else ["key", "x", "y"])
    require(len(kept) > 0, "experiments has no row with both differences")
    if experiment is None:
        kept = kept.with_columns(key=pl.int_range(pl.len()))
    means, scale = _average_launches(kept)
    signs = means.select(pl.col("x", "y").sign())
    product = signs["x"] * signs["y"]
    agree, disagree = int((product > 0).sum()), int((product < 0).sum())
    n = agree + disagree
    share, lo, hi = None, None, None
    if n:
        share, (lo, hi) = agree / n, binomtest(agree, n).proportion_ci(confidence, "exact")
    ends = _scaled_slope(means, scale, confidence)
    finite = all(end is None or math.isfinite(end) for end in ends)
    require(finite, f"the slope of {online} on {offline} is beyond all numbers; scale one of them")
    row = {
        "launches": len(means), "agree": agree, "disagree": disagree,
        "unmoved": len(means) - n, "share": share, "lo": lo, "hi": hi,
        "rows": len(kept), "slope": ends[0], "slope_lo": ends[1], "slope_hi": ends[2],
    }  # fmt: skip
    schema = {name: pl.Int64 if name in _COUNTS else pl.Float64 for name in row}
    sentences = list(_describe_launches(row))
    if left_out := len(rows) - len(kept):
        total = show.format_count(len(rows), "row")
        sentences.append(f"{left_out} of {total} left out because of a NULL")
    return AssociationTable(pl.DataFrame([row], schema=schema), sentences)


_COUNTS = ("launches", "agree", "disagree", "unmoved", "rows")


def _read_launches(
    experiments: Data, offline: str, online: str, experiment: str | None,
    con: duckdb.DuckDBPyConnection | None,
) -> pl.DataFrame:  # fmt: skip
    """The differences of every row: `key` (of the launch), `x` (offline) and `y` (online)."""
    with open_session(con, experiments) as session:
        tables = KeyedTables("experiments", {None: session.table(experiments, "experiments")})
        columns = {"offline": offline, "online": online, "experiment": experiment}
        for argument, name in columns.items():
            if name is not None:
                tables.require_column(name, argument)
        key = "NULL" if experiment is None else tables.key_sql(experiment, False)[0]
        ((x,), (y,)) = tables.number_sql(offline), tables.number_sql(online)
        with duckdb_errors():
            sql = f"SELECT {key} AS key, {x} AS x, {y} AS y FROM {tables.tables[None].sql}"
            rows: pl.DataFrame = execute(session, sql).pl()
    return rows


def _average_launches(rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """The mean differences of every launch, and the unit of y over that of x.

    They are in units of the greatest, so that sums and squares exist.
    """
    import numpy as np

    rows = rows.sort("key", "x", "y")
    greatest = {name: float(np.abs(rows[name].to_numpy()).max()) or 1.0 for name in ("x", "y")}
    rows = rows.with_columns(pl.col(name) / unit for name, unit in greatest.items())
    means = rows.group_by("key", maintain_order=True).agg(
        pl.when(pl.col(name).mean().abs() <= ROUNDING * pl.col(name).abs().max())
        .then(0.0)
        .otherwise(pl.col(name).mean())
        .alias(name)
        for name in ("x", "y")
    )
    return means, greatest["y"] / greatest["x"]


def _scaled_slope(means: pl.DataFrame, scale: float, confidence: float) -> list[float | None]:
    """The slope and the ends of its interval."""
    from rankql.decisions.regression import slope

    line = slope(means["x"].to_numpy(), means["y"].to_numpy(), confidence)
    return [end if end is None else end * scale for end in line]


def _describe_launches(row: Mapping[str, Any]) -> Iterator[str]:
    """The findings about past launches, in words."""
    from rankql.decisions.regression import LAUNCHES

    n, share, lo, hi = row["agree"] + row["disagree"], row["share"], row["lo"], row["hi"]
    if n == 0:
        yield "no launch moved both: there are no signs to compare"
    else:
        agree = "agrees" if n == 1 else "agree"
        size = f"{share:.2f} ({lo:.2f} to {hi:.2f})"
        start = f"{row['agree']} of {show.format_count(n, 'launch')} {agree} in sign: {size}"
        if lo <= 0.5 <= hi:
            yield f"{start}, not significantly different from chance"
        else:
            yield f"{start}, {'more' if lo > 0.5 else 'less'} often than by chance"
    if row["unmoved"]:
        total = show.format_count(row["launches"], "launch")
        yield f"{row['unmoved']} of {total} did not move one or both"
    if row["slope"] is None:
        yield "no slope: all offline differences are the same"
    else:
        few = row["launches"] < LAUNCHES
        size = f"no interval: fewer than {LAUNCHES} launches" if few else "all lie on one line"
        if row["slope_lo"] is not None:
            size = f"{show.format_number(row['slope_lo'])} to {show.format_number(row['slope_hi'])}"
        moves = (
            f"{'gains' if row['slope'] >= 0 else 'loses'} {show.format_number(abs(row['slope']))}"
        )
        yield f"a launch that gains 1 offline {moves} online ({size})"
