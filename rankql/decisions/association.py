"""What `associate` returns: the table of correlations, and what is derived from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.errors import RankqlError, describe_unknown, name_arguments
from rankql.registry.argument_checks import as_number, require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import resolve_names
from rankql.results import TableResult, draw_chart, drop_idle_columns

if TYPE_CHECKING:
    import altair as alt

WORDS = {1: "up", -1: "down", 0: "same"}
# Without band=, changes within this share of their standard deviation count as no change.
SHARE = 0.1
# What it means that metric and outcome got better (1), worse (-1) or stayed the same (0).
READINGS = {
    (1, 1): "better, and noticed",
    (1, -1): "relevant but not attractive",
    (-1, 1): "attractive but not relevant (clickbait?)",
    (-1, -1): "worse",
    (1, 0): "better by the labels, but not noticed",
    (-1, 0): "worse by the labels, but not noticed",
    (0, 1): "better for users, which the labels miss",
    (0, -1): "worse for users, which the labels miss",
    (0, 0): "unchanged",
}


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
        lines = (words if part == "all" else f"{part}: {words}" for part, words in rows)
        return [*map(text.escape_controls, lines)]

    def quadrants(
        self,
        metric: str | None = None,
        outcome: str | None = None,
        band: Mapping[str, float] | None = None,
    ) -> AssociationTable:
        """Count the keys by whether metric and outcome went up, stayed the same or went down.

        A change of at most `band`, a number by column, counts as the same; by default that is a
        tenth of the standard deviation of the changes. `reading` says what each of the nine cases
        means, by the direction of the metric. Outcomes are better when higher, unless
        `higher_is_better=` says otherwise.
        """
        names = self._choose_pair(metric, outcome)
        if self.systems is None:
            raise RankqlError(
                "quadrants needs two systems. Pass tables with a column 'system', and baseline="
            )
        rows = self.pairs.drop_nulls(names)
        unit = name_unit(self.on)
        require(len(rows) > 0, f"No {unit} has values of both {names[0]!r} and {names[1]!r}")
        if band is None:
            deviations = rows.select(pl.col(names).cast(pl.Float64).std().fill_null(0) * SHARE)
            band = deviations.row(0, named=True)
        valid = isinstance(band, Mapping) and {*band} == {*names}
        valid = valid and all(0 <= as_number(x) < math.inf for x in band.values())
        needed = " and for ".join(names)
        require(valid, f"band= must be a dict with a number from 0 for {needed}, not {band!r}")
        moves = [
            pl.when(pl.col(name).abs() > band[name]).then(pl.col(name).sign()).otherwise(0)
            for name in names
        ]
        counts = {(x, y): n for x, y, n in rows.group_by(x=moves[0], y=moves[1]).len().rows()}
        signs = [1 if self.higher_is_better.get(name, True) else -1 for name in names]
        table = pl.DataFrame(
            [
                (WORDS[x], WORDS[y], n := counts.get((x, y), 0), n / len(rows),
                 READINGS[signs[0] * x, signs[1] * y])
                for x, y in READINGS
            ],
            ["metric", "outcome", "n", "share", "reading"],
            orient="row",
        )  # fmt: skip
        sentences = [
            f"from {self.systems[0]} to {self.systems[1]}, {names[0]} {x} and {names[1]} {y}: "
            f"{text.format_count(n, unit)} ({share:.1%}), {reading}"
            for x, y, n, share, reading in table.filter(pl.col("n") > 0).rows()
        ]
        widths = (f"{name} within ±{text.format_number(band[name])}" for name in names)
        notes = [f"same: a change of {' and '.join(widths)}"]
        if names[1] not in self.higher_is_better:
            notes.append(
                f"Higher {names[1]} is assumed to be better. If not, set higher_is_better="
            )
        return AssociationTable(table, sentences, notes)

    @name_arguments
    def plot(
        self, kind: str = "scatter", metric: str | None = None, outcome: str | None = None
    ) -> alt.TopLevelMixin:
        """An altair chart: 'scatter', 'slices' (their correlations) or 'quadrants'."""
        metric, outcome = self._choose_pair(metric, outcome)
        return draw_chart("charts", "plot_association", self, kind, metric, outcome)

    def _choose_pair(self, metric: str | None, outcome: str | None) -> tuple[str, str]:
        return _choose("metric", metric, self.metrics), _choose("outcome", outcome, self.outcomes)

    def displayed(self) -> list[pl.DataFrame]:
        """The table without its sentences and without empty columns."""
        return [drop_idle_columns(self.table.drop("sentence"))]

    def _details(self) -> dict[str, Any]:
        names = ("on", "systems", "confidence", "higher_is_better")
        return {name: getattr(self, name) for name in names}


def name_unit(keys: Sequence[str]) -> str:
    """The noun for a row: the name of the key, or 'key' if it has several columns."""
    return text.row_noun(keys[0] if len(keys) == 1 else "")


def _choose(kind: str, name: str | None, known: Sequence[str]) -> str:
    """The one that is named, or the only one."""
    if name is None:
        require(len(known) == 1, f"Several {kind}s: {', '.join(known)}. Pass {kind}= one of them")
        return known[0]
    (name,) = resolve_names(name, known, Conventions().as_dict())[:1]
    require(name in known, describe_unknown(kind, name, known))
    return name
