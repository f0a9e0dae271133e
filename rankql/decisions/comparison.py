"""What `compare` returns: the table of pairs, and what is derived from it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.alignment import query_differences
from rankql.decisions.verdict import NO_DIFFERENCE, NOT_SIGNIFICANT, SIGNIFICANT
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.means_result import WideTable, make_wide_table
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.registry.parse import parse, resolve_names
from rankql.results import (
    SUFFIXES,
    draw_chart,
    drop_idle_columns,
    fit_width,
    load_output,
    save_result,
)
from rankql.stats.means import ROUNDING
from rankql.text import format_interval, join_words
from rankql.writing import output_path

if TYPE_CHECKING:
    import altair as alt

    from rankql.decisions.pair_comparisons import Settings

# The default cutoffs of `Comparison.cutoffs`.
CUTOFFS = (1, 3, 5, 10, 20, 50, 100)
# A table that is too wide is printed without these columns, dropped in this order until it fits.
_LEAST_IMPORTANT = (
    ["ties"], ["effect"], ["wins", "losses"], ["p"], ["detectable"], ["n"], ["mean_a", "mean_b"],
)  # fmt: skip


@dataclass(frozen=True)
class ComparedRuns:
    """The compared runs and their options, for functions that need the rankings."""

    runs: Any
    qrels: Any
    keywords: Mapping[str, Any]
    compare: Callable[..., Comparison]


@dataclass(eq=False, repr=False)
class Comparison(EvaluatedTable):
    """Systems compared pair by pair.

    `table` has one row per metric, slice and pair: the means, the difference b - a with its
    interval, p, p_adjusted (for all tests), effect (Cohen's d_z), wins, ties and losses of b, n,
    detectable (the difference that would be detected with 80% power), a verdict ('better', 'worse',
    'not significant' or why it was not tested) and a sentence. The printed table has only the
    columns that fit 100 characters, unless `wide` is set. `result` has the values per query and the
    means of the systems.
    """

    result: Result
    table: pl.DataFrame
    settings: Settings
    systems: list[str]
    notes: list[str] = field(default_factory=list)
    # The compared runs; None if results were compared.
    source: ComparedRuns | None = None

    @property
    def metrics(self) -> list[str]:
        """The metrics, by the names that they were asked for by."""
        return self.result.metrics

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of each metric."""
        return {name: not self.result.lower_is_better(name) for name in self.metrics}

    @property
    def sentences(self) -> list[str]:
        """The findings over all queries, and those of slices that say otherwise."""
        pair = ["metric", "a", "b"]
        overall = self.table.filter(slice="all").select(*pair, overall="verdict")
        rows = self.table.join(overall, on=pair, how="left", maintain_order="left")
        other = pl.col("verdict").is_in(SIGNIFICANT) & pl.col("verdict").ne_missing(
            pl.col("overall")
        )
        return [
            text.escape_controls(f"{text.add_slice(metric, part)}: {sentence}")
            for metric, part, sentence in rows.filter((pl.col("slice") == "all") | other)[
                "metric", "slice", "sentence"
            ].rows()
        ]

    @property
    def title(self) -> str:
        """Which systems are or may be best on which metrics, and slices that say the reverse."""
        means = self.summary.filter(pl.col("slice") == "all").drop_nulls("mean")
        if means.is_empty():
            return "No metric is defined on these queries"
        if len(self.systems) == 1:
            rows = means["metric", "mean", "lo", "hi"].rows()
            values = [f"{name} {format_interval(ends)}" for name, *ends in rows[:NAMES]]
            return f"{self.systems[0]}: {', '.join(values)}"
        findings: dict[tuple[str, str], list[str]] = {}
        for (metric,), group in means.group_by("metric", maintain_order=True):
            name = str(metric)
            findings.setdefault(_describe_lead(self, group, name), []).append(name)
        total = len(self.metrics)
        sentences = []
        for (start, end), metrics in findings.items():
            count = len(metrics)
            named = join_words(metrics) if count <= NAMES else f"{count} of {total} metrics"
            if start and count == total > 1:
                named = "both metrics" if total == 2 else f"all {total} metrics"
            sentences.append(start + named + end)
        # Slices in which the significant finding is the opposite of the overall one.
        pair = ["metric", "a", "b"]
        significant = self.table.filter(pl.col("verdict").is_in(SIGNIFICANT))
        overall = significant.filter(slice="all").select(*pair, overall="verdict")
        reverse = significant.join(overall, on=pair).filter(pl.col("verdict") != pl.col("overall"))
        if slices := reverse["slice"].unique(maintain_order=True).to_list():
            sentences.append(f"The reverse is true for {_join_names(slices, 'slices')}")
        return ". ".join(sentences)

    @property
    def ranked_metrics(self) -> list[str]:
        """The metrics with tests of all pairs of three or more systems over all queries."""
        if len(self.systems) < 3 or self.settings.baseline is not None:
            return []
        tested = pl.col("p").is_not_null() | (pl.col("verdict") == NO_DIFFERENCE)
        rows = self.table.filter(tested, slice="all")
        return rows["metric"].unique(maintain_order=True).to_list()

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        if self.table.is_empty():
            return self.result.caption
        return f"Differences b - a with {self.settings.percent} confidence intervals"

    def differences(self, metric: str, a: str, b: str) -> pl.DataFrame:
        """The difference b - a of each query, the largest loss first, without undefined ones."""
        name = resolve_names(metric, self.metrics, self.result.conventions)[0]
        for kind, value, known in (
            ("metric", name, self.metrics), ("system", a, self.systems), ("system", b, self.systems)
        ):  # fmt: skip
            if value not in known:
                raise RankqlError(describe_unknown(kind, value, known))
        return query_differences(self.result, name, a, b)

    def leaderboard(self) -> pl.DataFrame:
        """The ranks of every system that the tests support, by metric and slice, best first.

        `rank_lo` is 1 + the number of systems that are significantly better, `rank_hi` the number
        of systems minus those that are significantly worse; both are NULL for a system without any
        value. `maybe_best` systems (`rank_lo` = 1) cannot be distinguished from the best. With
        correction='holm' or 'bonferroni' the truly best system is among them with probability
        `confidence`, for all metrics and slices together.
        """
        if self.settings.baseline is not None:
            raise RankqlError("leaderboard needs all pairs. Call compare without baseline=")
        return rank_systems(self.summary, self.table, self.higher_is_better)

    def agreement(self) -> pl.DataFrame:
        """How similarly two metrics order the systems: Kendall's tau-b of their means.

        `swapped` counts the pairs of systems that the two metrics order differently. tau_b is NULL
        if all systems have the same mean.
        """
        means = self.summary.filter(slice="all").pivot("metric", index="system", values="mean")
        rows = []
        for one, other in itertools.combinations(self.metrics, 2):
            x, y = (
                means[name] * (1 if self.higher_is_better[name] else -1) for name in (one, other)
            )
            rows.append((one, other, *compare_orders(x, y)))
        kinds = [pl.String, pl.String, pl.Float64, pl.Int64, pl.Int64]
        names = ["metric", "other", "tau_b", "swapped", "pairs"]
        return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")

    def cutoffs(
        self, metric: str | Sequence[str] | None = None, ks: Sequence[int] = CUTOFFS
    ) -> Comparison:
        """The same comparison at several cutoffs of a metric, or of several, to choose k.

        `summary` has the curves, `table` says at which k the systems differ, and `agreement()`
        whether their order depends on k.
        """
        source, settings, names = self.source, asdict(self.settings), []
        metrics = metric or self.metrics[0]
        if source is None:
            raise RankqlError("cutoffs needs runs, but results were compared. Compare the runs")
        for name in metrics if isinstance(metrics, list | tuple) else [metrics]:
            parsed = parse(name)[0]
            if parsed.record is None or not parsed.record.has_cutoff:
                raise RankqlError(
                    f"cutoffs does not support {parsed.name}. Pass another metric, such as 'nDCG'"
                )
            if not isinstance(ks, list | tuple | range) or not ks:
                raise RankqlError(f"ks= must be a list of cutoffs, such as [5, 10, 20], not {ks!r}")
            names += [parsed.at(k).name for k in ks]
        keywords = {**source.keywords, **settings, "by": ()}
        return source.compare(source.runs, qrels=source.qrels, metrics=names, **keywords)

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
        """An altair chart: differences, means, ranks, intervals, slices or cutoffs.

        "precision-recall" draws `IPrec` by recall. By default a chart shows all metrics, and for
        differences and slices all pairs. Pass `metric`, or `a` and `b`, to choose.
        """
        return draw_chart("charts", "plot_comparison", self, kind, metric, a, b)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        date: str | None = None,
        texts: Mapping[str, Any] | None = None,
        max_drop: str | Sequence[str] | Mapping[str, float] | None = None,
    ) -> None:
        """Write to a file; .html is a report with charts and the queries that changed most.

        `texts` are shown in the report along with ids: `{"query": ..., "item": ...}`. Each value
        is a dict of id: text, a frame or a file with a column of ids and a column of texts.
        The first line says whether the new system may replace the baseline, or the first of two
        systems, as `gate` does with these limits, `max_drop`.
        """
        require_page(path, title=title, date=date, texts=texts, max_drop=max_drop)

        def render_page() -> str:
            return str(load_output("report").render_report(self, title, date, texts, max_drop))

        save_result(self, path, render_page, [texts])

    def wide(self) -> WideTable:
        """The means with systems as rows and metrics as columns, as papers have them.

        The best system is bold. With a baseline, or two systems, † marks those that are
        significantly better than the baseline and ‡ those that are significantly worse.
        """
        baseline = self.settings.baseline
        if baseline is None and len(self.systems) == 2:
            baseline = self.systems[0]
        rows = self.table.filter(a=pl.lit(baseline))["metric", "b", "slice", "verdict"].rows()
        notes, verdicts = [], {tuple(key): verdict for *key, verdict in rows}
        if verdicts:
            notes = [f"† significantly better than {baseline}, ‡ significantly worse (adjusted p "
                     f"at most {self.settings.alpha:g})"]  # fmt: skip
        order = sorted(self.systems, key=lambda name: name != baseline)  # the baseline first
        summary = self.summary.sort(pl.col("system").cast(pl.Enum(order)), maintain_order=True)
        return make_wide_table(
            summary, self.higher_is_better, verdicts=verdicts, notes=notes,
            input_paths=self.input_paths,
        )  # fmt: skip

    def displayed(self, *, complete: bool = False) -> list[pl.DataFrame]:
        """The table without empty columns; the means if there is only one system."""
        if self.table.is_empty():
            return self.result.displayed()
        frame = self.table.drop("sentence")
        if (frame["p"] == frame["p_adjusted"]).all():
            frame = frame.drop("p_adjusted")
        frame = drop_idle_columns(frame)
        if complete:
            return [frame]
        adjusted = "p_adjusted" in frame.columns
        return [fit_width(frame, [x for x in _LEAST_IMPORTANT if x != ["p"] or adjusted])]


def compare_orders(one: pl.Series, other: pl.Series) -> tuple[float | None, int, int]:
    """Kendall's tau-b of two values of systems, the pairs that they order differently, and all."""
    import numpy as np
    from scipy.stats import kendalltau

    x, y = one.round(12).to_numpy(), other.round(12).to_numpy()
    i, j = np.triu_indices(len(x), 1)
    swapped = int(((x[i] - x[j]) * (y[i] - y[j]) < 0).sum())
    tau = float(kendalltau(x, y).statistic)
    return None if math.isnan(tau) else tau, swapped, len(i)


def require_page(path: str | os.PathLike[str], **options: Any) -> None:
    """Refuse options of a page for another file."""
    if output_path(path, SUFFIXES).suffix.lower() not in (".html", ""):
        for name, value in options.items():
            if value is not None:
                raise RankqlError(
                    f"{name}= is only for a report: save as .html, not {os.fspath(path)!r}, or "
                    "leave it out"
                )


def rank_systems(
    means: pl.DataFrame, pairs: pl.DataFrame, higher_is_better: Mapping[str, bool]
) -> pl.DataFrame:
    """The range of ranks of each system, best first: one row per metric, slice and system.

    A system's rank is at least 1 + the number of systems that are significantly better, and at most
    the number of systems minus those that are significantly worse.
    """
    part = ["metric", "slice"]
    better, worse = (pl.col("verdict") == word for word in SIGNIFICANT)
    won = pl.when(better).then("b").when(worse).then("a")
    lost = pl.when(better).then("a").when(worse).then("b")
    beaten, beaten_by = (
        pairs.select(*part, system=column).drop_nulls().group_by(*part, "system").len(name)
        for name, column in (("beaten", won), ("beaten_by", lost))
    )
    sign = pl.col("metric").replace_strict({k: 1 - 2 * x for k, x in higher_is_better.items()})
    known = pl.when(pl.col("mean").is_not_null())
    return (
        means.with_row_index("place")
        .with_columns(pl.col("place").min().over(part))
        .join(beaten, on=[*part, "system"], how="left")
        .join(beaten_by, on=[*part, "system"], how="left")
        .with_columns(
            rank_lo=known.then(1 + pl.col("beaten_by").fill_null(0)).cast(pl.Int64),
            rank_hi=known.then(pl.col("mean").count().over(part) - pl.col("beaten").fill_null(0))
            .cast(pl.Int64),
            order=sign * pl.col("mean"),
        )
        .sort("place", "rank_lo", "rank_hi", "order", nulls_last=True, maintain_order=True)
        .select(*part, "system", "mean", "rank_lo", "rank_hi",
                maybe_best=(pl.col("rank_lo") == 1).fill_null(False))
    )  # fmt: skip


# More names are counted.
NAMES = 5


def _join_names(names: Sequence[str], noun: str = "systems") -> str:
    return join_words(names) if len(names) <= NAMES else f"{len(names)} {noun}"


def _describe_lead(comparison: Comparison, means: pl.DataFrame, metric: str) -> tuple[str, str]:
    """Which system has the best mean, and what it beats: the words before and after the metrics.

    If all pairs of several systems were tested, which of them may be the best.
    """
    if metric in comparison.ranked_metrics:
        ranks = comparison.leaderboard().filter(slice="all", metric=metric)
        best = ranks.filter("maybe_best")["system"].to_list()
        if len(best) > 1:
            some = f"{len(best)} of {len(ranks)} systems"
            named = join_words(best) if len(best) <= NAMES else some
            return "", f": {named} cannot be distinguished from the best"
        others = "every other system" + " with a value" * bool(ranks["mean"].null_count())
        return "", f": {best[0]} is significantly better than {others}"
    if means.height == 1:
        return f"Only {means['system'][0]} has a value of ", ""
    higher = comparison.higher_is_better[metric]
    if higher and (means["mean"] == 0).all():
        return "No system has a mean above 0 on ", ""
    top = means["mean"].max() if higher else means["mean"].min()
    best = means.filter((pl.col("mean") - top).abs() <= ROUNDING)["system"].sort().to_list()
    won, verdicts = [], set()
    for a, b, difference, verdict in comparison.table.filter(slice="all", metric=metric)[
        "a", "b", "difference", "verdict"
    ].rows():
        winner, loser = (b, a) if ((difference or 0) > 0) == higher else (a, b)
        if best == [winner] or best == [loser]:
            verdicts.add(verdict)
            if best == [winner] and verdict in SIGNIFICANT:
                won.append(loser)
    if len(best) > 1:
        return f"{_join_names(best)} are tied for best on ", ""
    lead = f"{best[0]} is best on "
    if won:
        return lead, f", and significantly better than {_join_names(won)}"
    if any(verdict.startswith("equivalent") for verdict in verdicts):
        return lead, ", but the lead is too small to matter"
    if verdicts & {*SIGNIFICANT, NOT_SIGNIFICANT}:
        return lead, ", but the lead is not significant"
    return lead, "; the lead was not tested"
