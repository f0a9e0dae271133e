"""What `associate` returns: the table of correlations, and what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.key_join import name_unit
from rankql.decisions.nine_cases import count_cases, find_bands
from rankql.errors import RankqlError, describe_unknown
from rankql.registry.argument_checks import require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import resolve_names
from rankql.results import TableResult, draw_chart, drop_idle_columns

if TYPE_CHECKING:
    import altair as alt


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
