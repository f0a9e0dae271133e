"""What `compare` gives: the table of pairs, and what can be derived from it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.decisions.alignment import query_differences
from rankql.errors import RankqlError, did_you_mean, require_package
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.registry.parse import is_metric, parse
from rankql.results import drop_idle_columns, save_result

if TYPE_CHECKING:
    import altair as alt

    from rankql.decisions.pair_comparisons import Settings


# The cutoffs at which `Comparison.cutoffs` looks.
CUTOFFS = (1, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class ComparedRuns:
    """The runs that were compared, and how, to look into them again."""

    runs: Any
    qrels: Any
    keywords: Mapping[str, Any]
    compare: Callable[..., Comparison]

    def call(self, function: Any, **keywords: Any) -> Any:
        """Call a function that has no slices, such as `limits`, on these runs."""
        sliced = ("by", "attributes", "output")
        known = {name: value for name, value in self.keywords.items() if name not in sliced}
        return function(self.runs, self.qrels, **known | keywords)


@dataclass(eq=False, repr=False)
class Comparison(EvaluatedTable):
    """Systems compared, pair by pair.

    `table` has a row per metric, slice and pair: the means, the difference b - a with its interval,
    p, p_adjusted (over the family), effect (Cohen's d_z), wins, ties and losses of b, n, detectable
    (the difference that would be detected with 80% power, about), a verdict ('better', 'worse',
    'not significant' or why it was not tested) and a sentence.
    `result` has the values per query and the means of the systems.
    """

    result: Result
    table: pl.DataFrame
    settings: Settings
    systems: list[str]
    notes: list[str] = field(default_factory=list)
    # The runs, to look into; None where results were compared.
    source: ComparedRuns | None = None

    @property
    def metrics(self) -> list[str]:
        """The metrics, by their canonical names."""
        return self.result.metrics

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of every metric."""
        return {name: not self.result.lower_is_better(name) for name in self.metrics}

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        columns = ("metric", "slice", "sentence")
        return [
            f"{metric}{'' if part == 'all' else f', {part}'}: {sentence}"
            for metric, part, sentence in self.table.select(columns).iter_rows()
        ]

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        if self.table.is_empty():
            return self.result.caption
        return f"Differences b - a with {self.settings.percent} confidence intervals"

    def differences(self, metric: str, a: str, b: str) -> pl.DataFrame:
        """What each query gained from a to b, the most lost first; undefined ones left out."""
        name = metric
        if name not in self.metrics and is_metric(name):  # another spelling of it
            name = parse(metric)[0].under(self.result.conventions).name
        for value, known in ((name, self.metrics), (a, self.systems), (b, self.systems)):
            if value not in known:
                hint = did_you_mean(value, known)
                raise RankqlError(f"nothing was compared by the name {value!r}{hint}")
        return query_differences(self.result, name, a, b)

    def discriminative_power(self) -> pl.DataFrame:
        """By metric, the share of pairs with p <= 1 - confidence, uncorrected (Sakai 2006)."""
        alpha = self.settings.alpha
        return (
            self.table.filter(pl.col("slice") == "all")
            .group_by("metric", maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("pairs"),
                (pl.col("p") <= alpha).fill_null(False).sum().cast(pl.Int64).alias("significant"),
            )
            .with_columns((pl.col("significant") / pl.col("pairs")).alias("share"))
        )

    def agreement(self) -> pl.DataFrame:
        """How alike two metrics order the systems: Kendall's tau-b of their means.

        `swapped` counts the pairs of systems that one has the other way round. NULL where a metric
        tells no two systems apart.
        """
        from scipy.stats import kendalltau

        means = self.summary.filter(pl.col("slice") == "all")
        rows = []
        for one, other in itertools.combinations(self.metrics, 2):
            values = [
                means.filter(pl.col("metric") == name).sort("system")["mean"].round(12)
                * (-1 if self.result.lower_is_better(name) else 1)
                for name in (one, other)
            ]
            pairs = list(itertools.combinations(zip(*values, strict=True), 2))
            swapped = sum((x[0] - y[0]) * (x[1] - y[1]) < 0 for x, y in pairs if None not in x + y)
            tau = float(kendalltau(*values).statistic)
            rows.append((one, other, None if math.isnan(tau) else tau, swapped, len(pairs)))
        kinds = [pl.String, pl.String, pl.Float64, pl.Int64, pl.Int64]
        names = ["metric", "other", "tau_b", "swapped", "pairs"]
        return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")

    def cutoffs(self, metric: str | None = None, ks: Sequence[int] = CUTOFFS) -> Comparison:
        """The same comparison of one metric at several cutoffs: which k to choose.

        Its `summary` are the curves, `discriminative_power()` says at which k the systems are told
        apart, `agreement()` whether their order depends on k.
        """
        if self.source is None:
            raise RankqlError("cutoffs needs the runs; these are results: compare the runs")
        parsed = parse(metric or self.metrics[0])[0]
        if parsed.record is None or not parsed.record.has_cutoff:
            raise RankqlError(f"{parsed.name} has no cutoff")
        if not isinstance(ks, list | tuple | range) or not ks:
            raise RankqlError(f"ks must be a list of cutoffs, such as [5, 10, 20], not {ks!r}")
        names = [f"{replace(parsed, k=None).name}@{k}" for k in ks]
        keywords = {**self.source.keywords, **asdict(self.settings), "by": ()}
        if self.settings.bounds is not None:
            known = [name for name in names if name in self.settings.bounds]
            keywords["bounds"] = {name: self.settings.bounds[name] for name in known}
        return self.source.compare(
            self.source.runs, qrels=self.source.qrels, metrics=names, **keywords
        )

    def _details(self) -> dict[str, Any]:
        return {
            "summary": self.summary.to_dicts(),
            "settings": asdict(self.settings),
            "higher_is_better": self.higher_is_better,
            **super()._details(),
        }

    def plot(
        self,
        kind: str = "differences",
        metric: str | None = None,
        a: str | None = None,
        b: str | None = None,
    ) -> alt.TopLevelMixin:
        """An altair chart: differences, means, intervals, slices or cutoffs.

        Of one metric, or of all; the differences and slices of the pair a, b, or of all.
        """
        require_package("altair", "report", "plot")
        from rankql.output import charts

        return charts.plot_comparison(self, kind, metric, a, b)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        date: str | None = None,
        texts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write to a file; .html is a report with charts and the queries that changed most.

        `texts` are shown in the report along with ids: `{"query": ..., "item": ...}`. Each value
        is a dict of id: text, a frame or a file with a column of ids and a column of texts.
        """

        def render_page() -> str:
            from rankql.output import report

            return report.render_page(self, title, date, texts)

        save_result(self, path, render_page)

    def displayed(self) -> list[pl.DataFrame]:
        """The table without columns that say nothing; the means if there is only one system."""
        if self.table.is_empty():
            return self.result.displayed()
        frame = self.table.drop("sentence", "p_error")
        if (frame["p"] == frame["p_adjusted"]).all():
            frame = frame.drop("p_adjusted")
        return [drop_idle_columns(frame)]
