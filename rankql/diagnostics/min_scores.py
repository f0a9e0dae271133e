"""min_scores: which lowest score to show, so that questions without an answer get none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Unpack

import duckdb
import polars as pl

from rankql.core.base.errors import RankqlError, as_number, require
from rankql.core.base.results import Chart, TableResult, draw_chart
from rankql.core.base.text import has_or_have
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.evaluate import evaluate_in_duckdb
from rankql.core.evaluation.means.means import require_interval
from rankql.core.metrics.parse import parse
from rankql.core.stats.means import ROUNDING
from rankql.core.tables.request import EvaluationOptions, RankingRules, Request
from rankql.core.tables.tables import Data
from rankql.features.values import read_values

ANSWERED, FALSE_ANSWER, FALSE_ABSTENTION = SHARES = ("answered", "FalseAnswer", "FalseAbstention")


@dataclass(repr=False, eq=False)
class MinScores(TableResult):
    """The result of `min_scores`.

    `table` has one row per lowest score: the share of queries for which something is shown, the
    shares of false answers and false abstentions, and the means of the metrics, each with the ends
    of its interval. `per_query` has the values behind them. `chosen` is the lowest score of the run
    (or of `min_scores`) at which FalseAnswer is at most `max_false_answer`; None if there is none,
    or no such limit.
    """

    table: pl.DataFrame
    per_query: pl.DataFrame
    metrics: list[str]
    notes: list[str] = field(default_factory=list)
    max_false_answer: float | None = None
    # What the scores are called in the title, and whether the caller chose them.
    _name: str = "score"
    _tried: bool = False
    caption = "Means by lowest score shown"
    _page_chart = "draw_min_scores"
    _details = ("max_false_answer?", "chosen?")

    @property
    def chosen(self) -> float | None:
        """The score that shows most, of those at which FalseAnswer is within its limit."""
        if self.max_false_answer is None:
            return None
        within = self.table.filter(pl.col(FALSE_ANSWER) <= self.max_false_answer + ROUNDING)
        most = within.filter(pl.col(ANSWERED) == pl.col(ANSWERED).max())["min_score"].to_list()
        return (max if self._name == "distance" else min)(most, default=None)

    @property
    def title(self) -> str:
        """The chosen score in one line, '' without a limit."""
        if self.max_false_answer is None:
            return ""
        limit = f"a FalseAnswer of at most {self.max_false_answer:g}"
        far = self._name == "distance"
        if self.chosen is not None:
            first = "of those tried" if self._tried else self._name
            end = "highest" if far else "lowest"
            return f"min_score={self.chosen:g} is the {end} {first} with {limit}"
        if self._tried:
            least = min(self.table[FALSE_ANSWER].to_list())
            return f"No {self._name} of those tried has {limit}: the least is {least:.4f}"
        last = (min if far else max)(self.table["min_score"].to_list())
        beyond = f"every {self._name} {'below' if far else 'above'} {last:g} shows nothing"
        return f"No {self._name} of the run has {limit}; {beyond}"

    def displayed(self) -> list[pl.DataFrame]:
        """The means without their intervals, and a mark at the chosen score."""
        frame = self.table.select("min_score", *SHARES, *self.metrics)
        if self.chosen is None:
            return [frame]
        is_chosen = pl.col("min_score") == self.chosen
        mark = pl.when(is_chosen).then(pl.lit("<-")).otherwise(pl.lit(""))
        return [frame.with_columns(chosen=mark)]

    def plot(self) -> Chart:
        """The means by score, a line with its band for each. It needs altair."""
        return draw_chart("draw_min_scores", self)


@remember_inputs
def min_scores(
    run: Data,
    qrels: Data | None = None,
    metrics: str | Sequence[str] = ("nDCG@10",),
    *,
    min_scores: Sequence[float] | None = None,
    max_false_answer: float | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> MinScores:
    """Compare lowest scores to show: who gets an answer, and how good it is.

    A question without an answer should get none. The higher the lowest score, the fewer of them get
    one (FalseAnswer), and the more of the others get none either (FalseAbstention). Those two are
    the false positive rate and 1 - the true positive rate of the best score of each query. The
    metrics are means over the queries that have a relevant item.

    Parameters
    ----------
    run : path, table or frame
        One run with scores.
    qrels : path, table or frame, optional
        The judgments. A query of which nothing is relevant has an empty list, or a grade of 0.
    metrics : str or list of str
        Metrics of the queries that have a relevant item.
    min_scores : list of float, optional
        Lowest scores; by default up to 20 quantiles of the best score of each query.
    max_false_answer : float, optional
        Mark the lowest score of the run at which the mean of FalseAnswer is at most this; with
        `min_scores`, the lowest of those.
    interval, confidence, con, **options
        As in `evaluate`.

    Examples
    --------
    >>> run = pl.DataFrame({"query": [*"ab"], "item": [*"xx"], "score": [0.9, 0.4]})
    >>> qrels = pl.DataFrame({"query": [*"ab"], "item": [*"xy"], "rel": [1, 0]})
    >>> table = min_scores(run, qrels, "RR").table
    >>> table.select("min_score", "answered", "FalseAnswer", "RR").rows()
    [(0.4, 1.0, 1.0, 1.0), (0.9, 0.5, 0.0, 1.0)]
    """
    require_interval(interval, confidence)
    limit = as_number(0 if max_false_answer is None else max_false_answer)
    require(0 <= limit <= 1, f"max_false_answer must be from 0 to 1, not {max_false_answer!r}")
    cutoffs = min_scores if min_scores is None else [*min_scores]
    require(cutoffs is None or bool(cutoffs), "min_scores is empty. Pass scores, or leave it out")
    names = [metric.name for metric in parse(metrics) if metric.name not in SHARES]
    columns, rules = [FALSE_ANSWER, FALSE_ABSTENTION, *names], _read_rules(options)
    asked = (cutoffs, max_false_answer)
    request = Request(run, qrels, columns, rules, con=con, min_score=asked, interval=None)
    result = evaluate_in_duckdb(request)
    if not result.per_query[FALSE_ANSWER].count():
        raise RankqlError(
            "Every judged query has a relevant item, so no lowest score is better than none. "
            "Judge queries without an answer too: an empty list of relevant ids, or a grade of 0"
        )
    key = result.meta.query
    abstained, answered = pl.col(FALSE_ABSTENTION), pl.col(FALSE_ANSWER)
    values = result.per_query.with_columns(
        pl.coalesce(answered, 1 - abstained).alias(ANSWERED),
        *(pl.when(abstained.is_not_null()).then(name).alias(name) for name in names),
    ).select("system", key, *SHARES, *names)
    shares = values.select("system", key, Success=ANSWERED)  # in the range of a share
    means = [
        read_values(frame, query=key, metrics=frame.columns[2:], system="system")
        .derive(interval=interval, confidence=confidence).summary
        for frame in (shares, values.drop(ANSWERED))
    ]  # fmt: skip
    rows = pl.concat([means[0].with_columns(metric=pl.lit(ANSWERED)), means[1]], how="diagonal")
    score = pl.col("system").cast(pl.Float64).alias("min_score")
    table = rows.select(score).unique()
    for name in (*SHARES, *names):
        ends = {"mean": name, "lo": f"{name}_lo", "hi": f"{name}_hi"}
        values_of = (pl.col(column).alias(alias) for column, alias in ends.items())
        table = table.join(rows.filter(metric=name).select(score, *values_of), on="min_score")
    unanswerable = values.filter(system=values["system"][0])[FALSE_ANSWER].count()
    nothing = f"{unanswerable:,} of {values[key].n_unique():,} queries "
    nothing += f"{has_or_have(unanswerable)} nothing relevant"
    share = "FalseAnswer is the share of them that get an answer"
    notes = [f"{nothing}: {share}", *result.data_notes]
    per_query = values.with_columns(score).drop("system")
    table = table.sort("min_score")
    far = next(iter(result.columns.values())).get("order") == "ascending"
    return MinScores(
        table, per_query, [*names], notes, max_false_answer,
        _name="distance" if far else "score", _tried=cutoffs is not None,
    )  # fmt: skip


def _read_rules(options: EvaluationOptions) -> RankingRules:
    """The options, of which errors name those of `min_scores`: it has a parameter of this name."""
    return RankingRules.of(options, min_scores)
