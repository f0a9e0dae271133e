"""What `compare` returns: the table of pairs, and what is derived from it and displayed."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.core.base import results, text
from rankql.core.base.errors import RankqlError, name_arguments, require, require_known
from rankql.core.base.results import Block
from rankql.core.base.writing import output_path
from rankql.core.evaluation.plan.meta import describe_pool
from rankql.core.evaluation.result.means_result import (
    TURNED,
    WideTable,
    find_across,
    make_wide_table,
)
from rankql.core.evaluation.result.result import (
    EvaluatedTable,
    Result,
    find_paper_columns,
    name_means,
)
from rankql.core.metrics.macros import MISSING
from rankql.core.metrics.parse import parse_any, record_of, resolve_names
from rankql.core.stats.means import ROUNDING
from rankql.decisions import alignment
from rankql.decisions.pair_table import MARKS, lay_out_pair, tabulate_pair, typeset_pair
from rankql.decisions.verdict import BETTER, NO_DIFFERENCE, SIGNIFICANT, WORSE

if TYPE_CHECKING:
    from rankql.decisions.pairs import Settings


# The default cutoffs of `Comparison.cutoffs`.
CUTOFFS = (1, 3, 5, 10, 20, 50, 100)


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

    `pairs` has one row per metric, slice and pair: the means, the difference b - a with its
    interval, p, p_adjusted (for all tests), p_floor (the smallest p that so few queries that differ
    can have), effect (Cohen's d_z), wins, ties and losses of b, n,
    detectable (the difference that would be detected with 80% power), a verdict ('better', 'worse',
    'not significant' or why it was not tested) and a sentence. If missing='skip' leaves out queries
    that a system has, it has its own mean and own queries too, which no verdict reads. `table` is
    what is displayed: of two systems a row per metric and slice, of more their means, with letters
    for those that are significantly worse. `result` has the values per query and the means of the
    systems.
    """

    result: Result
    pairs: pl.DataFrame
    settings: Settings
    systems: list[str]
    # The test, the correction and the number of queries.
    tests: str = ""
    notes: list[str] = field(default_factory=list)
    # The compared runs; None if results were compared.
    source: ComparedRuns | None = None
    # The own mean of each system and its own queries, by metric, slice and system, if any.
    own: Mapping[tuple[str, str, str], tuple[float | None, int]] = field(default_factory=dict)
    # Are the rows of pairs displayed?
    _long = False
    _details = ("summary", "settings", "higher_is_better", *EvaluatedTable._details)

    @property
    def metrics(self) -> list[str]:
        """The metrics, by the names that they were asked for by."""
        return self.result.metrics

    @property
    def higher_is_better(self) -> dict[str, bool | None]:
        """The direction of each metric, None if it has none."""
        return {name: self.result.higher_is_better(name) for name in self.metrics}

    @property
    def _is_pair(self) -> bool:
        return self.pairs.select("a", "b").n_unique() == 1

    @property
    def table(self) -> pl.DataFrame:
        """What is displayed: the differences of a pair, or the means of more systems or of one."""
        if self._long:
            return self.pairs
        view = self._view()
        return tabulate_pair(self.pairs) if view is None else view.table

    def _view(self) -> results.TableResult | None:
        if self.pairs.is_empty():
            return self.result.long()
        return None if self._is_pair or self._long else self.wide()

    @property
    def data(self) -> pl.DataFrame:
        """The rows of pairs."""
        return self.pairs

    def long(self) -> Comparison:
        """The same comparison, displayed with a row per metric, slice and pair."""
        comparison = copy.copy(self)
        comparison._long = True
        return comparison

    @property
    def title(self) -> str:
        """Yes, No or Undecided for two systems; of more, which one leads; of one, its means."""
        return text.escape_controls(comparison_title(self))

    @property
    def method(self) -> str:
        """The test, the correction, the number of queries, and how to read the table."""
        if not self.pairs["p"].count():
            return self.tests
        if not (self._is_pair or self._long):
            return f"{self.tests}; {self._legend()}"
        settings, several = self.settings, self.pairs["p"].count() > 1
        level = " at the level of their tests" * (several and settings.correction != "none")
        exactly = f"exclude 0 exactly if p is at most {settings.alpha:g}"
        return f"{self.tests}; {settings.percent} CIs{level} {exactly}"

    def _legend(self) -> str:
        level = f"(adjusted p at most {self.settings.alpha:g})"
        base = self._marked_against
        if base is None:
            return f"letters: systems that are significantly worse {level}"
        return f"† significantly better than {base}, ‡ significantly worse {level}"

    @property
    def _marked_against(self) -> str | None:
        """The system that marks compare with: the baseline, or the first of two."""
        return self.settings.baseline or (self.systems[0] if len(self.systems) == 2 else None)

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        if self._is_pair or self._long:
            return f"Differences with {self.settings.percent} confidence intervals"
        return "Means"

    def differences(self, metric: str, a: str, b: str) -> pl.DataFrame:
        """The difference b - a of each query, the largest loss first, without undefined ones."""
        name = resolve_names(metric, self.metrics, self.result.conventions)[0]
        alignment.require_metrics(self.result, [name])
        for system in (a, b):
            require_known("system", system, self.systems)
        return alignment.query_differences(self.result, name, a, b)

    @name_arguments
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
        higher = {name: x for name, x in self.higher_is_better.items() if x is not None}
        means = self.summary.filter(pl.col("metric").is_in([*higher]))
        return rank_systems(means, self.pairs, higher)

    def cutoffs(
        self, metric: str | Sequence[str] | None = None, ks: Sequence[int] = CUTOFFS
    ) -> Comparison:
        """The same comparison at several cutoffs of a metric, or of several, to choose k.

        `summary` has the curves, and `table` says at which k the systems differ.
        """
        source, settings, names = self.source, asdict(self.settings), []
        metrics = metric or self.metrics[0]
        if source is None:
            raise RankqlError("cutoffs needs runs, but results were compared. Compare the runs")
        for name in metrics if isinstance(metrics, list | tuple) else [metrics]:
            parsed = parse_any(name)[0]
            has_cutoff = parsed.shown or (parsed.record and parsed.record.has_cutoff)
            other = "Pass another metric, such as 'nDCG'"
            require(bool(has_cutoff), f"cutoffs does not support {parsed.name}. {other}")
            if not isinstance(ks, list | tuple | range) or not ks:
                raise RankqlError(f"ks= must be a list of cutoffs, such as [5, 10, 20], not {ks!r}")
            names += [parsed.at(k).name for k in ks]
        keywords = {**source.keywords, **settings, "by": ()}
        return source.compare(source.runs, qrels=source.qrels, metrics=names, **keywords)

    def manifest(self) -> dict[str, Any] | None:
        """What the comparison was computed from, with its numbers."""
        return self.result.manifest(pairs=self.pairs)

    @name_arguments
    def plot(
        self,
        kind: str = "differences",
        metric: str | None = None,
        a: str | None = None,
        b: str | None = None,
    ) -> results.Chart:
        """An altair chart: differences by query, means, distribution, slices or cutoffs.

        "slices" draws the differences over all queries and by slice, "distribution" the values per
        query by system. By default a chart shows all metrics and pairs. Pass `metric`, or `a` and
        `b`, to choose.
        """
        return results.draw_chart("plot_comparison", self, kind, metric, a, b)

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
        The title comes first; with limits, `max_drop`, then the table that `gate` gives for them.
        """
        page = {"title": title, "date": date, "texts": texts, "max_drop": max_drop}
        require_page(path, **page)
        results.save_result(self, path, **page)

    def _render_page(self, **options: Any) -> str:
        if self._long:
            return super()._render_page()
        return str(results.load_output("report").render_report(self, **options))

    def wide(
        self,
        rows: str | None = None,
        columns: str | Sequence[str] | None = None,
        n: bool = False,
        margins: bool = False,
    ) -> WideTable:
        """The means with systems as rows and metrics as columns, as papers have them.

        With `rows` and `columns`, the means of slices by two attributes, or of metrics and the
        values of one, as those of `evaluate`.

        The best system is bold, the best system first or, with a baseline, that one. Of three or
        more systems, letters name those that are significantly worse. With a baseline, or two
        systems, † marks those that are significantly better than the baseline and ‡ those that are
        significantly worse.
        """
        across = find_across(self.result, rows, columns)
        turned = False if across else TURNED.get((rows, str(columns) if columns else None))
        if n or margins or turned is None:
            return self.result.wide(rows, columns, n, margins)
        return self._make_wide(across, turned)

    def _as_paper(self) -> results.TableResult:
        if self._is_pair or self._long or self.pairs.is_empty():
            return self
        across = find_paper_columns(self.result)
        view = self._make_wide(across, False) if across else self.wide()
        return replace(view, caption=name_means(self.result))

    def _make_wide(self, across: Sequence[str], turned: bool) -> WideTable:
        """The means, best first, with what is significant."""
        base = self._marked_against
        order = [name for name in (base, *self.result.best_first) if name is not None]
        letters = {} if base is not None else name_letters(order)
        marks = mark_pairs(self.pairs, letters, base)
        method = f"{self.tests}; {self._legend()}" if self.tests else ""
        return make_wide_table(
            self.result, [*dict.fromkeys(order)], turned, marks, letters, across,
            method=method, notes=self.notes, source=self, own=self.own,
        )  # fmt: skip

    def displayed(self) -> list[pl.DataFrame]:
        """The table without idle columns; the means if there is only one system."""
        if self._view() is not None:
            return super().displayed()
        return [self.visible_pairs() if self._long else self.table]

    def visible_pairs(self) -> pl.DataFrame:
        """The rows of pairs without sentences, idle columns and what p is not adjusted for.

        That is the other p if both are the same, and floors that are below 0.001.
        """
        frame = self.pairs.drop("sentence")
        if (frame["p_floor"].max() or 0) < 0.001:  # type: ignore[operator]
            frame = frame.drop("p_floor")
        if (frame["p"] == frame["p_adjusted"]).all():
            frame = frame.drop("p_adjusted")
        return results.drop_idle_columns(frame)

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """The table for LaTeX with the package booktabs.

        Of two systems it fits a column of 12.2 cm: differences have their interval in brackets and
        † or ‡ for better or worse. p and verdicts are comments, as are findings and notes.
        """
        if self._view() is not None or self._long:
            return super().to_latex(caption, label)
        block = typeset_pair(self.pairs)
        rows = self.pairs.drop_nulls("p")["metric", "slice", "p_adjusted", "verdict"].rows()
        alpha = self.settings.alpha
        tested = [f"{x}, {y}: p {text.format_p_cell(p, alpha)}, {word}" for x, y, p, word in rows]
        tested += [
            f"{metric}, {part}: own mean of {name} {text.format_number(mean)}, own queries {n:,}"
            for (metric, part, name), (mean, n) in self.own.items() if mean is not None
        ]  # fmt: skip
        method = f"{self.tests}; intervals in brackets; {self._legend()}"
        return self._typeset([block], method, tested, caption, label)

    def _headline(self) -> str:
        return "" if self.pairs.is_empty() else self.title

    def _rendered(self) -> list[Block]:
        if self._view() is not None:
            return super()._rendered()
        if self._long:
            return [results.make_block(self.visible_pairs(), wraps=True)]
        return [lay_out_pair(self.pairs, self.settings.percent, self.settings.alpha)]


def require_page(path: str | os.PathLike[str], **options: Any) -> None:
    """Refuse options of a page for another file."""
    is_page = output_path(path, results.SUFFIXES).suffix.lower() in (".html", "")
    for name, value in options.items():
        require(is_page or value is None, f"{name}= is only for a report: save as .html, not "
                f"{os.fspath(path)!r}, or leave it out")  # fmt: skip


def rank_systems(
    means: pl.DataFrame, pairs: pl.DataFrame, higher_is_better: Mapping[str, bool]
) -> pl.DataFrame:
    """The range of ranks of each system, best first: one row per metric, slice and system.

    A system's rank is at least 1 + the number of systems that are significantly better, and at most
    the number of systems minus those that are significantly worse.
    """
    part = ["metric", "slice"]
    won = pl.DataFrame(
        list_wins(pairs), dict.fromkeys([*part, "beaten", "beaten_by"], pl.String), orient="row"
    )
    beaten, beaten_by = (won.group_by(*part, system=x).len(x) for x in ("beaten", "beaten_by"))
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


def list_wins(pairs: pl.DataFrame) -> list[tuple[str, str, str, str]]:
    """Metric and slice of each significant difference, the better system and the worse one."""
    columns = ("metric", "slice", "b", "a")
    better, worse = (pairs.filter(verdict=word)[columns].rows() for word in SIGNIFICANT)
    return [*better, *((metric, part, a, b) for metric, part, b, a in worse)]


# Of more places where a system is worse, and of more systems, the others are counted.
PLACES, NAMES = 2, 5


def comparison_title(comparison: Comparison) -> str:
    """Say whether the second of two systems is better, and by how much; of more, which one leads.

    Yes: better overall on the first metric, and nowhere significantly worse. No: significantly
    worse somewhere, on any metric, overall or in a slice. Undecided: anything else.
    """
    result, pairs, systems = comparison.result, comparison.pairs, comparison.systems
    means = result.summary.filter(slice="all").drop_nulls("mean")
    if means.is_empty():
        every = "No system has runs of all collections"
        return every if result.meta.collections else "No metric is defined on these queries"
    if pairs.is_empty():
        rows = means["metric", "mean", "lo", "hi"].rows()
        values = (f"{name} {text.format_interval(ends)}" for name, *ends in rows[:NAMES])
        return f"{systems[0]}: {', '.join(values)}"
    directed = [name for name in result.metrics if result.higher_is_better(name) is not None]
    if not directed:
        return "No metric says whether higher or lower is better"
    if few := alignment.find_few_ranked(result):
        system, ranked, most = few
        return f"Not comparable: {system!r} ranks {ranked:,} of {text.format_queries(most)}"
    means, pairs = (rows.filter(pl.col("metric").is_in(directed)) for rows in (means, pairs))
    seen = alignment.describe_seen(result, systems) if result.meta.seen else ""
    cutoffs = [x for x in directed if record_of(x).name == record_of(directed[0]).name]
    if len(cutoffs) > 1:
        seen += f"; {directed[0]} is the first of {text.join_words(cutoffs)}"
    if len(systems) > 2:
        metric = means["metric"][0]
        of_metric = pairs.filter(metric=metric, slice="all")
        lower = result.lower_is_better(metric)
        leader = _describe_leader(metric, means.filter(metric=metric), of_metric, lower)
        return leader + seen + describe_pool(result.meta)
    a, b = pairs.select("a", "b").row(0)
    if pairs.filter(slice="all").is_empty():
        return f"Undecided: {a} and {b} do not both have runs of all collections"
    answer = _judge(result, pairs, directed[0], comparison.settings.percent)
    misses = alignment.describe_misses(result, directed[0])
    return f"Is {b} better than {a}? {answer}{misses}{seen}{describe_pool(result.meta)}"


def _judge(result: Result, pairs: pl.DataFrame, first: str, percent: str) -> str:
    """Yes, no or undecided: the size of the difference overall, and where the system is worse."""
    (overall,) = pairs.filter(metric=first, slice="all").to_dicts()
    verdict, everywhere = overall["verdict"], " overall" * (pairs["slice"].n_unique() > 1)
    if overall["difference"] is None:
        size = f"{first}: {verdict}"
    elif verdict in SIGNIFICANT:
        size = f"{_format_size(overall)} {first}{everywhere}"
    else:
        value = [overall[name] for name in ("difference", "lo", "hi")]
        number, ends = text.format_ends(value, "+")
        interval = f"{percent} CI {ends}, " if ends else ""
        size = f"{number} {first}{everywhere} ({interval}{verdict})"
    size += " (lower is better)" * result.lower_is_better(first)
    if record_of(first).worst is None and result.frame()[MISSING].any():
        size += f" on the {text.format_queries(overall['n'])} that both rank"
    if verdict == WORSE:
        return f"No: {size}"
    worse = pairs.filter(verdict=WORSE)
    # A metric that is worse overall needs no slices, and each slice only its first metric.
    overall_worse = pl.col("metric").is_in(worse.filter(slice="all")["metric"].implode())
    worse = worse.filter((pl.col("slice") == "all") | ~overall_worse)
    places = worse.unique("slice", keep="first", maintain_order=True).to_dicts()
    places.sort(key=lambda x: (x["metric"] != first, x["slice"] != "all", -abs(x["difference"])))
    if places:
        named = text.join_some([_format_place(row, first) for row in places], PLACES)
        return f"No: {size}, but {named}"
    if verdict != BETTER:
        return f"Undecided: {size}"
    rest = pairs.filter(pl.col("slice") != "all", metric=first)["verdict"]
    unclear = sum(x not in (BETTER, NO_DIFFERENCE) for x in rest)
    also = " and nowhere significantly worse" * (len(pairs) > 1)
    shown = f" (not shown to be no worse: {text.format_count(unclear, 'slice')})"
    return f"Yes: {size}{also}{shown * (unclear > 0)}"


def _format_place(row: Mapping[str, Any], first: str) -> str:
    metric = f" {row['metric']}" * (row["metric"] != first)
    queries = f"for {row['slice']} ({text.format_queries(row['n'])})"
    return f"{_format_size(row)}{metric} {'overall' if row['slice'] == 'all' else queries}"


def _format_size(row: Mapping[str, Any]) -> str:
    size = row["difference"]
    return f"{'-' if size < 0 else '+'}{text.round_significant(abs(size))}"


def _describe_leader(metric: str, means: pl.DataFrame, pairs: pl.DataFrame, lower: bool) -> str:
    """Which system has the best mean of a metric, and what it is better than."""
    means = means.sort("mean", descending=not lower, maintain_order=True)
    best, value = means["system", "mean"].row(0)
    tied = means.filter((pl.col("mean") - value).abs() <= ROUNDING)["system"].to_list()
    if len(tied) > 1:
        return f"{_join_names(tied)} are tied on {metric} ({value:,.3f})"
    title, tested = f"{best} leads on {metric} ({value:,.3f})", pairs["p"].count() > 0
    won = [loser for _, _, winner, loser in list_wins(pairs) if winner == best]
    both = pairs["a", "b"].rows()
    rest = [x for pair in both if best in pair for x in pair if x not in (best, *won)]
    for word, names in (("", won), ("not ", rest)) if tested else ():
        title += f", {word}significantly better than {_join_names(names)}" if names else ""
    return title if tested else f"{title}, not tested"


def _join_names(names: Sequence[str]) -> str:
    """Join names, or count them if there are many."""
    return text.join_words(names) if len(names) <= NAMES else f"{len(names)} systems"


def mark_pairs(
    pairs: pl.DataFrame, letters: Mapping[str, str], baseline: str | None
) -> dict[tuple[str, str, str], str]:
    """The marks by metric, slice and system: letters of those that are worse, or † and ‡."""
    if baseline is not None:
        rows = pairs["metric", "slice", "b", "verdict"].rows()
        return {(metric, part, b): MARKS[word] for metric, part, b, word in rows if word in MARKS}
    beaten: dict[tuple[str, str, str], list[str]] = {}
    for metric, part, winner, loser in list_wins(pairs):
        beaten.setdefault((metric, part, winner), []).append(loser)
    apart = ", " if len(letters) > 26 else ""
    return {
        key: apart.join(letter for name, letter in letters.items() if name in losers)
        for key, losers in beaten.items()
    }


def name_letters(systems: Sequence[str]) -> dict[str, str]:
    """A letter for each system: a to z, aa, ab, ..."""
    words = (
        "".join(x) for n in itertools.count(1) for x in itertools.product(ascii_lowercase, repeat=n)
    )
    return dict(zip(systems, words, strict=False))
