"""Metric and outcome each went up, stayed the same or went down: what the nine cases mean."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import polars as pl

from rankql.errors import RankqlError

WORDS = {1: "up", -1: "down", 0: "same"}
# Without band=, changes within this share of their standard deviation count as no change.
SHARE = 0.1
# What a result is if the outcome is good, by the name of the outcome.
_QUALITIES = {
    r"click|ctr": "attractive",
    r"order|purchas|buy|bought|sold|sale|conver|revenue|cart": "convincing",
    r"dwell|time|watch|read|stay|session": "engaging",
    r"satisf|rating|survey|nps|like": "satisfying",
}
_CLICKS = "attractive"
_SCHEMA = {"metric": pl.String, "outcome": pl.String, "n": pl.Int64, "share": pl.Float64,
           "reading": pl.String}  # fmt: skip


def find_bands(
    rows: pl.DataFrame, names: tuple[str, str], band: float | Mapping[str, float] | None
) -> dict[str, float]:
    """How large a change of each column still counts as none."""
    if band is None:
        return {name: SHARE * (_deviation(rows[name]) or 0.0) for name in names}
    widths = dict.fromkeys(names, band) if not isinstance(band, Mapping) else dict(band)
    for name, width in widths.items():
        if name not in names:
            raise RankqlError(f"band= names {name!r}, but the columns are {' and '.join(names)}")
        if isinstance(width, bool) or not isinstance(width, int | float) or not width >= 0:
            raise RankqlError(f"band= must be a number from 0 for {name}, not {width!r}")
    return dict.fromkeys(names, 0.0) | widths


def _deviation(values: pl.Series) -> float | None:
    deviation = values.cast(pl.Float64).std()
    assert deviation is None or isinstance(deviation, float)
    return deviation


def count_cases(
    rows: pl.DataFrame, names: tuple[str, str], bands: Mapping[str, float], signs: tuple[int, int]
) -> pl.DataFrame:
    """The number and share of keys in each case; sign -1: lower is better."""
    x, y = (
        pl.when(pl.col(name).abs() > bands[name]).then(pl.col(name).sign()).otherwise(0)
        .cast(pl.Int8)
        for name in names
    )  # fmt: skip
    counts = {(i, j): n for i, j, n in rows.group_by(x=x, y=y).len().rows()}
    quality = describe_quality(names[1])
    directions = sorted(itertools.product(WORDS, repeat=2), key=lambda pair: 0 in pair)
    return pl.DataFrame(
        [
            (WORDS[i], WORDS[j], n := counts.get((i, j), 0), n / len(rows),
             read_case(signs[0] * i, signs[1] * j, quality))
            for i, j in directions
        ],
        schema=_SCHEMA,
        orient="row",
    )  # fmt: skip


def describe_quality(outcome: str) -> str:
    """What a result is if this outcome is good: attractive, convincing, ..."""
    qualities = (word for pattern, word in _QUALITIES.items() if re.search(pattern, outcome, re.I))
    return next(qualities, _CLICKS)


def read_case(metric: int, outcome: int, quality: str) -> str:
    """What it means that metric and outcome got better (1), worse (-1) or stayed the same (0)."""
    bait = " (clickbait?)" if quality == _CLICKS else ""
    return {
        (1, 1): "better, and noticed",
        (1, 0): "better by the labels, but not noticed",
        (1, -1): f"relevant but not {quality}",
        (0, 1): "better for users, which the labels miss",
        (0, 0): "unchanged",
        (0, -1): "worse for users, which the labels miss",
        (-1, 1): f"{quality} but not relevant{bait}",
        (-1, 0): "worse by the labels, but not noticed",
        (-1, -1): "worse",
    }[metric, outcome]
