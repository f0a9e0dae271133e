"""Means under human labels of some queries, corrected by a judge that labelled all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankql.errors import RankqlError
from rankql.evaluation.result import Result
from rankql.evaluation.summary import compared_value, slice_queries
from rankql.macros import INTERNAL_PREFIX
from rankql.registry.parse import overall, value_range
from rankql.stats.means import Interval, logistic_interval
from rankql.stats.prediction_powered import Codes, CorrectedMean, correct_mean
from rankql.stats.sample import Array
from rankql.text import format_queries, is_or_are, join_words

# Fewer human queries have no reliable interval, whatever the judge.
LEAST_QUERIES = 10
# In the queries with human labels, so many pairs of query and item must have both labels.
LEAST_SHARED = 0.95
# Human queries that differ so from the others, under the judge's labels, are not a random sample.
UNLIKELY = 0.001
# The value under human labels, of a metric whose own column is the value under the judge's.
HUMAN = f"{INTERNAL_PREFIX}human_"
# Is the query labelled by people?
LABELLED = f"{INTERNAL_PREFIX}labelled"


@dataclass(eq=False, repr=False)
class CorrectedResult(Result):
    """Values per query under human labels, and their means, corrected by the judge's labels.

    `summary` has further columns: the number of `judged` queries, `lambda` (from 0 to 1, how much
    the judge counts), and `worth`, the number of human queries that would give the same interval
    without the judge. `judge` has the values under the judge's labels.
    """

    judge: Result | None = None

    @property
    def summary(self) -> pl.DataFrame:
        """The corrected means by system and slice, with their intervals."""
        if self._summary is None:
            self._summary = _correct_summary(self, super().summary)
        return self._summary

    def remarks(self) -> list[str]:
        """The lines below the table."""
        small = self.summary.filter(pl.col("lambda").is_null() & pl.col("mean").is_not_null())
        parts = small["slice"].unique(maintain_order=True).to_list()
        if not parts:
            return super().remarks()
        return [
            *super().remarks(),
            f"Note: Fewer than {LEAST_QUERIES} human queries, so the judge does not correct the "
            f"means of {join_words(parts)}",
        ]

    def save_values(self, path: Any) -> NoReturn:
        """Refuse: a file of values per query has no place for the judge's."""
        raise RankqlError("Values per query cannot be saved with judge=. Use save for the means")


def correct_result(human: Result, judge: Result) -> CorrectedResult:
    """The result under human labels with means that are corrected by the judge."""
    _refuse_metrics(human)
    fields = {name: value for name, value in vars(human).items() if name != "_summary"}
    result = CorrectedResult(**fields, judge=judge)
    paired = pair_values(human, judge)
    # Queries of the run that people did not judge count, but not those that the judge did not.
    unjudged = " not judged and left out"
    kept = [note for note in human.notes if unjudged not in note]
    kept += [note for note in judge.notes if unjudged in note]
    result.notes = [*_check_queries(result, paired), *_check_pools(human, judge), *kept]
    return result


def pair_values(human: Result, judge: Result) -> pl.DataFrame:
    """The queries of the judge with the values under both labels, NULL if undefined.

    The columns of human values start with `HUMAN`. They are NULL for queries without human labels,
    where `LABELLED` is not true.
    """
    frames = [human.frame(), judge.frame()]
    key, other = human.meta.query, judge.meta.query
    frames[1] = frames[1].rename({other: key} if other != key else {})
    if frames[0].schema[key] != frames[1].schema[key]:
        frames = [frame.with_columns(pl.col(key).cast(pl.String)) for frame in frames]
    values = {name: compared_value(name, human.conventions) for name in human.metrics}
    labelled = frames[0].select(
        *human.keys,
        pl.lit(True).alias(LABELLED),
        *(value.alias(HUMAN + name) for name, value in values.items()),
    )
    columns = [*human.keys, *human.meta.by, *values.values()]
    return (
        frames[1].select(columns).join(labelled, on=human.keys, how="left", maintain_order="left")
    )


def correct_values(
    y: Array,
    f: Array,
    known: NDArray[np.bool_],
    weights: Array | None = None,
    clusters: Codes | None = None,
    lam: float | None = None,
) -> CorrectedMean | None:
    """The corrected mean of queries, of which some have human labels; None if these are too few.

    y is the value under human labels, f under the judge's, NaN if undefined.
    """
    kept = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    human, others = known & kept, ~known & kept
    if np.count_nonzero(~np.isnan(y[human])) < LEAST_QUERIES or not others.any():
        return None
    pairs: list[Any] = [None if x is None else (x[human], x[others]) for x in (weights, clusters)]
    return correct_mean(y[human], f[human], f[others], *pairs, lam=lam)


def _correct_summary(result: CorrectedResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with corrected means and intervals."""
    assert result.judge
    paired, weight, rows = pair_values(result, result.judge), result.meta.weight, []
    queries = paired.select(result.meta.query, *result.meta.by).unique(result.meta.query)
    slices = slice_queries(queries, result.meta.groupings)
    for row in summary.iter_rows(named=True):
        part = paired.filter(pl.col(result.meta.query).is_in(slices[row["slice"]].implode()))
        if result.meta.system:
            part = part.filter(pl.col("system") == row["system"])
        name, judged = row["metric"], {"judged": part.height, "lambda": None, "worth": None}
        columns = part[HUMAN + name], part[name], *([part[weight]] if weight else [])
        y, f, *weights = (x.cast(pl.Float64).fill_null(math.nan).to_numpy() for x in columns)
        found = correct_values(y, f, part[LABELLED].fill_null(False).to_numpy(), *weights)
        if found is None:
            rows.append({**row, **judged})
            continue
        worth = found.worth(1 - result.confidence)
        row |= {**judged, "mean": found.mean, "lambda": found.lam, "worth": worth}
        if found.lam and result.interval is not None:
            row["lo"], row["hi"] = _interval(result, name, found, part)
        rows.append(row)
    place = summary.columns.index("queries") + 1
    names = [*summary.columns[:place], "judged", "lambda", "worth", *summary.columns[place:]]
    added = {"judged": pl.Int64, "lambda": pl.Float64, "worth": pl.Int64}
    return pl.DataFrame(rows, schema={n: summary.schema.get(n) or added[n] for n in names})


def _interval(
    result: Result, name: str, found: CorrectedMean, values: pl.DataFrame
) -> tuple[float, float]:
    """The interval of a corrected mean, in the range of the metric if all values are."""
    lowest, highest = value_range(name)
    both = pl.concat([values[name], values[HUMAN + name]]).drop_nulls().to_numpy()
    low = -math.inf if lowest is None or both.min() < lowest - 1e-9 else lowest
    high = math.inf if highest is None or both.max() > highest + 1e-9 else highest
    width = found.width(1 - result.confidence)
    if result.interval != "t" and math.isfinite(high - low):
        return logistic_interval(found.mean, width, low, high)
    return Interval(found.mean - width, found.mean + width).within(low, high)


def _refuse_metrics(result: Result) -> None:
    """Refuse metrics whose mean is not that of values per query."""
    names = [*result.overall_metrics, *(x for x in result.metrics if overall(x) == "root")]
    if result.conventions["unjudged"] == "bounds":
        raise RankqlError("judge= does not support unjudged='bounds'. Leave out one of them")
    if names:
        raise RankqlError(
            f"judge= needs metrics whose mean is that of values per query, not {join_words(names)}"
        )


def _check_pools(human: Result, judge: Result) -> list[str]:
    """Refuse a judge that labelled other items than people; note a few."""
    assert human.steps and judge.steps
    ids = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in ("query", "item"))
    of_human, of_judge = (x.steps.run("qrels", ids) for x in (human, judge) if x.steps)
    of_judge = of_judge.join(of_human, on="query", how="semi")
    shared = of_judge.join(of_human, on=["query", "item"], how="semi").height
    total = of_human.height + of_judge.height - shared
    if shared < LEAST_SHARED * total:
        raise RankqlError(
            f"judge: in the queries with human labels, only {shared:,} of {total:,} pairs of query "
            "and item have both labels. Let the judge label the items that people labelled"
        )
    if shared == total:
        return []
    return [
        f"In the queries with human labels, {total - shared:,} of {total:,} pairs of query and "
        "item have a label of only one of people and judge"
    ]


def _check_queries(result: CorrectedResult, paired: pl.DataFrame) -> Iterator[str]:
    """Refuse too few human queries; note a sample that is not random, and what the judge adds."""
    key = result.meta.query
    n, total = paired.filter(LABELLED)[key].n_unique(), paired[key].n_unique()
    queries = result.frame()[key].unique()
    if lacking := len(queries) - n:
        raise RankqlError(
            f"judge: {lacking:,} of {format_queries(len(queries))} with human labels "
            f"{is_or_are(lacking)} not labelled by the judge. It must label all queries"
        )
    if n < LEAST_QUERIES:
        raise RankqlError(f"judge= needs human labels of at least {LEAST_QUERIES} queries, not {n}")
    if n == total:
        raise RankqlError(
            "judge: all queries with labels of the judge have human labels too, so there is "
            "nothing to correct. Leave out judge=, or call judges to compare the labels"
        )
    yield (
        f"Means are those of human labels of {n:,} queries, corrected by the judge's labels of "
        f"{format_queries(total)}. They hold if the human queries are a random sample of them"
    )
    for name in result.metrics:
        for _, rows in paired.group_by("system" if result.meta.system else pl.lit(0)):
            known = rows[LABELLED].fill_null(False)
            with_human, without = (
                rows.filter(x)[name].drop_nulls().to_numpy() for x in (known, ~known)
            )
            if _welch(with_human, without) < UNLIKELY:
                yield (
                    f"{name}: the human queries are not a random sample: under the judge's "
                    f"labels their mean is {with_human.mean():.3g}, that of the others "
                    f"{without.mean():.3g} (p < {UNLIKELY}). The corrected mean may be biased"
                )
                break


def _welch(a: Array, b: Array) -> float:
    """The p-value of Welch's t test; 1 if it is not defined."""
    from scipy import stats  # importing it takes time

    if min(len(a), len(b)) < 2 or not (a.var() or b.var()):
        return 1.0
    moments = (x for sample in (a, b) for x in (sample.mean(), sample.std(ddof=1), len(sample)))
    return float(stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue)
