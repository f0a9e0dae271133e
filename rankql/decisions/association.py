"""What `associate` gives: the table of correlations, and what can be derived from it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.decisions.association_table import AssociationTable
from rankql.decisions.key_join import name_unit
from rankql.errors import RankqlError, did_you_mean, require_package
from rankql.registry.argument_checks import require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import resolve_names
from rankql.results import TableResult, drop_idle_columns

if TYPE_CHECKING:
    import altair as alt

# What it means that metric and outcome moved up (1) or down (-1), where higher is better.
READINGS = {
    (1, 1): "better, and noticed",
    (1, -1): "relevant but not attractive",
    (-1, 1): "attractive but not relevant (clickbait?)",
    (-1, -1): "worse",
}


@dataclass(eq=False, repr=False)
class Association(TableResult):
    """Metrics and outcomes by key, and how they go together.

    `table` has a row per metric, outcome and slice ('all', 'within segment', 'segment=new'): n,
    Pearson's and Spearman's coefficient each with interval and p, a remark, and a sentence. `pairs`
    has the values of every key; of two systems their differences.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame
    on: list[str]
    metrics: list[str]
    outcomes: list[str]
    groupings: list[list[str]]
    # The baseline and the other; None of one system.
    systems: tuple[str, str] | None
    confidence: float
    notes: list[str] = field(default_factory=list)
    # The direction of the metrics, and of the outcomes that were given one.
    higher_is_better: dict[str, bool] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        rows = self.table.select("slice", "sentence").rows()
        return [text if part == "all" else f"{part}: {text}" for part, text in rows]

    def quadrants(self, metric: str | None = None, outcome: str | None = None) -> AssociationTable:
        """How many keys moved which way, metric and outcome, from one system to the other.

        `reading` goes by their direction: higher is better of an outcome, unless
        `higher_is_better=` says otherwise.
        """
        metric, outcome = self._choose_pair(metric, outcome)
        if self.systems is None:
            raise RankqlError(
                "quadrants needs two systems: associate({'old': ..., 'new': ...}, ...)"
            )
        rows = self.pairs.drop_nulls([metric, outcome])
        unit = name_unit(self.on)
        require(len(rows) > 0, f"No {unit} has a value of both {metric!r} and {outcome!r}.")
        moved = [pl.col(name).sign().cast(pl.Int8) for name in (metric, outcome)]
        counts = dict.fromkeys(itertools.product((1, -1, 0), repeat=2), 0)
        counts |= {(x, y): n for x, y, n in rows.group_by(x=moved[0], y=moved[1]).len().rows()}
        better = [1 if self.higher_is_better.get(x, True) else -1 for x in (metric, outcome)]
        words = {1: "up", -1: "down", 0: "same"}
        quadrants = []
        for (x, y), n in sorted(counts.items(), key=lambda item: 0 in item[0]):
            reading = READINGS.get((better[0] * x, better[1] * y), "unchanged")
            quadrants.append((words[x], words[y], n, n / len(rows), reading))
        schema = {"metric": pl.String, "outcome": pl.String, "n": pl.Int64, "share": pl.Float64,
                  "reading": pl.String}  # fmt: skip
        a, b = self.systems
        sentences = [
            f"from {a} to {b}, {metric} {x} and {outcome} {y}: {show.format_count(n, unit)} "
            f"({share:.1%}), {reading}"
            for x, y, n, share, reading in quadrants if n and reading != "unchanged"
        ]  # fmt: skip
        if unchanged := sum(row[2] for row in quadrants if row[4] == "unchanged"):
            sentences.append(f"{show.format_count(unchanged, unit)} did not move in one or both")
        return AssociationTable(pl.DataFrame(quadrants, schema=schema, orient="row"), sentences)

    def plot(
        self, kind: str = "scatter", metric: str | None = None, outcome: str | None = None
    ) -> alt.TopLevelMixin:
        """An altair chart: scatter, slices (their correlations) or quadrants."""
        require_package("altair", "report", "plot")
        from rankql.output import charts

        metric, outcome = self._choose_pair(metric, outcome)
        return charts.plot_association(self, kind, metric, outcome)

    def called(self, name: str) -> str:
        """What the values of a metric or an outcome are: of two systems, changes."""
        return f"change of {name}" if self.systems else name

    def _choose_pair(self, metric: str | None, outcome: str | None) -> tuple[str, str]:
        if metric is not None:
            metric = resolve_names(metric, self.metrics, Conventions().as_dict())[0]
        return _choose("metric", metric, self.metrics), _choose("outcome", outcome, self.outcomes)

    def displayed(self) -> list[pl.DataFrame]:
        """The table without its sentences, and without columns that say nothing."""
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
        require(len(known) == 1, f"name the {kind}: {kind}= one of {', '.join(known)}")
        return known[0]
    if name not in known:
        raise RankqlError(f"{kind}: there is no {name!r}{did_you_mean(name, known)}")
    return name
