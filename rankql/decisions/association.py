"""What `associate` returns: the table of correlations, and what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.key_join import name_unit
from rankql.errors import RankqlError, describe_unknown
from rankql.registry.argument_checks import require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import resolve_names
from rankql.results import TableResult, draw_chart, drop_idle_columns

if TYPE_CHECKING:
    import altair as alt
import itertools
import re


@dataclass(frozen=True, eq=False, repr=False)
class AssociationTable(TableResult):
    """A table derived from an association, with sentences."""

    table: pl.DataFrame
    sentences: list[str]
    notes: list[str] = field(default_factory=list)

    def _details(self) -> dict[str, Any]:
        return {"sentences": self.sentences}


@dataclass(eq=False, repr=False)
class Association(TableResult):
    """Metrics and outcomes by key, and their correlations.

    `table` has a row per metric, outcome and slice ('all', 'within segment', 'segment=new'): n,
    Pearson's and Spearman's coefficient, each with its interval and p-value, a remark, and a
    sentence. `pairs` has the values of every key; with two systems, their differences.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame
    on: list[str]
    metrics: list[str]
    outcomes: list[str]
    groupings: list[list[str]]
    # The baseline and the other system; None for one system.
    systems: tuple[str, str] | None
    confidence: float
    notes: list[str] = field(default_factory=list)
    # The direction of the metrics, and of the outcomes that the caller named.
    higher_is_better: dict[str, bool] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        rows = self.table.select("slice", "sentence").rows()
        return [words if part == "all" else f"{part}: {words}" for part, words in rows]

    def quadrants(
        self,
        metric: str | None = None,
        outcome: str | None = None,
        band: float | Mapping[str, float] | None = None,
    ) -> AssociationTable:
        """Count the keys by whether metric and outcome went up, stayed the same or went down.

        A change of at most `band`, a number or a dict by column, counts as the same; by default
        that is a tenth of the standard deviation of the changes. `reading` says what each of the
        nine cases means, by the direction of the metric. Outcomes are better when higher, unless
        `higher_is_better=` says otherwise.
        """
        metric, outcome = names = self._choose_pair(metric, outcome)
        if self.systems is None:
            raise RankqlError(
                "quadrants needs two systems. Pass tables with a column 'system', and baseline="
            )
        rows = self.pairs.drop_nulls([metric, outcome])
        unit = name_unit(self.on)
        require(len(rows) > 0, f"No {unit} has values of both {metric!r} and {outcome!r}")
        bands = find_bands(rows, names, band)
        sign_x, sign_y = (1 if self.higher_is_better.get(name, True) else -1 for name in names)
        table = count_cases(rows, names, bands, (sign_x, sign_y))
        a, b = self.systems
        sentences = [
            f"from {a} to {b}, {metric} {i} and {outcome} {j}: {text.format_count(n, unit)} "
            f"({share:.1%}), {reading}"
            for i, j, n, share, reading in table.filter(pl.col("n") > 0).rows()
        ]
        widths = text.join_words(
            [f"{name} within ±{text.format_number(width)}" for name, width in bands.items()]
        )
        default = ", a tenth of its standard deviation" if band is None else ""
        notes = [f"same: a change of {widths}{default}"]
        if outcome not in self.higher_is_better:
            notes.append(f"Higher {outcome} is assumed to be better. If not, set higher_is_better=")
        return AssociationTable(table, sentences, notes)

    def plot(
        self, kind: str = "scatter", metric: str | None = None, outcome: str | None = None
    ) -> alt.TopLevelMixin:
        """An altair chart: 'scatter', 'slices' (their correlations) or 'quadrants'."""
        metric, outcome = self._choose_pair(metric, outcome)
        return draw_chart("charts", "plot_association", self, kind, metric, outcome)

    def called(self, name: str) -> str:
        """The label of a metric or an outcome; with two systems its values are changes."""
        return f"change of {name}" if self.systems else name

    def _choose_pair(self, metric: str | None, outcome: str | None) -> tuple[str, str]:
        if metric is not None:
            metric = resolve_names(metric, self.metrics, Conventions().as_dict())[0]
        return _choose("metric", metric, self.metrics), _choose("outcome", outcome, self.outcomes)

    def displayed(self) -> list[pl.DataFrame]:
        """The table without its sentences and without empty columns."""
        return [drop_idle_columns(self.table.drop("sentence"))]

    def _details(self) -> dict[str, Any]:
        return {
            "on": self.on,
            "systems": self.systems,
            "confidence": self.confidence,
            "higher_is_better": self.higher_is_better,
        }


def _choose(kind: str, name: str | None, known: Sequence[str]) -> str:
    """The one that is named, or the only one."""
    if name is None:
        require(len(known) == 1, f"Several {kind}s: {', '.join(known)}. Pass {kind}= one of them")
        return known[0]
    require(name in known, describe_unknown(kind, name, known))
    return name


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
