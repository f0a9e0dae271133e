"""Means that need the values in numpy: those of clusters, and those that a judge corrects.

A judge has labelled all queries, people some of them. The checks of both come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rankql.errors import require
from rankql.evaluation.means import (
    NO_INTERVAL,
    SKEWED,
    cluster_codes,
    compared_value,
    describe_interval,
    metric_range,
    slice_queries,
    system_columns,
)
from rankql.evaluation.means_result import MeansResult
from rankql.macros import INTERNAL_PREFIX
from rankql.registry.parse import overall
from rankql.stats.prediction_powered import LEAST_QUERIES, CorrectedSample, correct_sample
from rankql.stats.sample import Array, Sample
from rankql.text import format_queries

# In the queries with human labels, so many pairs of query and item must have both labels.
LEAST_SHARED = 0.95
# So many grades from 2 on are not of a scale that ends at 1.
LEAST_HIGH = 5
# Human queries that differ so from the others, under the judge's labels, are not a random sample.
UNLIKELY = 0.001
# With fewer human queries, too few samples contain what a judge hides in one query in twenty: of 20
# and 50, intervals of differences contain the true one in 64% and 92% of samples.
FEW_QUERIES = 100
# The value under human labels, of a metric whose own column is the value under the judge's.
HUMAN = f"{INTERNAL_PREFIX}human_"
# Is the query labelled by people?
LABELLED = f"{INTERNAL_PREFIX}labelled"


def describe_judge(
    human: MeansResult, judge: MeansResult, labels: Sequence[pl.DataFrame]
) -> list[str]:
    """The notes of a result that a judge corrects. Refuses labels that cannot correct it.

    labels: the judgments of people, and those of the judge.
    """
    names = [*human.overall_metrics, *(x for x in human.metrics if overall(x) == "root")]
    require(
        not names,
        f"judge= needs metrics whose mean is that of values per query, not {', '.join(names)}",
    )
    # Queries of the run that people did not judge count, but not those that the judge did not.
    unjudged = " not judged and left out"
    kept = [note for note in human.notes if unjudged not in note]
    kept += [note for note in judge.notes if unjudged in note]
    scales = note_scales("people", labels[0]["rel"], "the judge", labels[1]["rel"])
    checked = _check_queries(human, pair_values(human, judge))
    return [*checked, *scales, *check_pools(*labels), *kept]


def _check_queries(result: MeansResult, paired: pl.DataFrame) -> Iterator[str]:
    """Refuse too few human queries; note a sample that is not random, and what the judge adds."""
    key = result.meta.query
    n, total = paired.filter(LABELLED)[key].n_unique(), paired[key].n_unique()
    queries = result.frame()[key].n_unique()
    for right, problem in (
        (queries == n, f"only {n:,} of {queries:,} queries with human labels have labels of the "
         "judge. It must label all queries"),
        (n >= LEAST_QUERIES, f"at least {LEAST_QUERIES} queries need human labels, not {n}"),
        (n < total, "all queries with labels of the judge have human labels too, so there is "
         "nothing to correct. Leave out judge=, or call judges to compare the labels"),
    ):  # fmt: skip
        require(right, f"judge: {problem}")
    yield (
        f"Means are those of human labels of {n:,} queries, corrected by the judge's labels of "
        f"{format_queries(total)}. They hold if the human queries are a random sample of them"
    )
    cluster = result.meta.cluster
    if paired.filter(LABELLED)[cluster or key].n_unique() < FEW_QUERIES:
        unit = "clusters of human queries" if cluster else "human queries"
        yield (
            f"With fewer than {FEW_QUERIES} {unit}, intervals are too narrow if the judge hides "
            "large losses of few queries"
        )
    for name in result.metrics:
        for _, rows in paired.group_by("system"):
            known = rows[LABELLED]
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


def check_pools(of_human: pl.DataFrame, of_judge: pl.DataFrame) -> list[str]:
    """Refuse a judge that labelled other items than people; note a few."""
    of_judge = of_judge.join(of_human, on="query", how="semi")
    shared = of_judge.join(of_human, on=["query", "item"], how="semi").height
    total = of_human.height + of_judge.height - shared
    pairs = f"of {total:,} pairs of query and item in the queries with human labels"
    require(
        shared >= LEAST_SHARED * total,
        f"judge: only {shared:,} {pairs} have both labels. Let the judge label the items that "
        "people labelled",
    )
    few = [f"{total - shared:,} {pairs} have a label of only one of people and judge"]
    return few if shared < total else []


def note_scales(who: str, grades: pl.Series, other: str, others: pl.Series) -> list[str]:
    """A note if one labels yes and no, and the other higher grades too."""
    sides = [(who, grades), (other, others)]
    least, most = sorted(sides, key=lambda side: float(side[1].max()))  # type: ignore[arg-type]
    if least[1].max() != 1 or (most[1] >= 2).sum() < LEAST_HIGH:
        return []
    ends = [(name, float(x.min()), float(x.max())) for name, x in sides]  # type: ignore[arg-type]
    scales = " and ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ends)
    return [
        f"{scales}: these are two scales, and one threshold= is not the same grade on both. From "
        f"which grade is an item relevant for {who}, and from which for {other}? Write 1 from "
        "there and 0 below in both tables"
    ]


def pair_values(human: MeansResult, judge: MeansResult) -> pl.DataFrame:
    """The queries of the judge with the values under both labels, NULL if undefined.

    The columns of human values start with `HUMAN`. They are NULL for queries without human labels,
    where `LABELLED` is false. There is a column `system` even of one run.
    """
    key, other = human.meta.query, judge.meta.query
    frames = [human.frame(), judge.frame().rename({other: key} if other != key else {})]
    if frames[0].schema[key] != frames[1].schema[key]:
        frames = [frame.with_columns(pl.col(key).cast(pl.String)) for frame in frames]
    values = {name: compared_value(name, human.conventions) for name in human.metrics}
    labelled = frames[0].select(
        *human.keys,
        pl.lit(True).alias(LABELLED),
        *(value.alias(HUMAN + name) for name, value in values.items()),
    )
    system = [] if human.meta.system else [pl.lit("run").alias("system")]
    return (
        frames[1]
        .select(*human.keys, *human.meta.by, *values.values(), *system)
        .join(labelled, on=human.keys, how="left", maintain_order="left")
        .with_columns(pl.col(LABELLED).fill_null(False))
    )


@dataclass(frozen=True)
class PairedValues:
    """The rows of `pair_values`, and the queries of each slice."""

    frame: pl.DataFrame
    query: str
    weight: str | None
    cluster: str | None
    slices: dict[str, pl.Series]

    @classmethod
    def of(cls, human: MeansResult, judge: MeansResult, cluster: str | None = None) -> PairedValues:
        """The values of both results."""
        frame, meta = pair_values(human, judge), human.meta
        return cls(frame, meta.query, meta.weight, cluster, _slice_queries(frame, human))

    def sample(
        self, metric: str, systems: Sequence[str], label: str,
        lowest: float, highest: float, lam: float | None = None,
    ) -> Sample:  # fmt: skip
        """The values of one system on a slice, or the differences of the second from the first.

        With `lam`, the values of the first system where both are defined.
        """
        rows = self.frame.filter(pl.col(self.query).is_in(self.slices[label].implode()))
        of_systems = [rows.filter(system=name) for name in systems]

        def read(column: str) -> Array:
            values = [x[column].cast(pl.Float64).fill_null(math.nan).to_numpy() for x in of_systems]
            difference = values[-1] - values[0] if len(values) > 1 else values[0]
            chosen = difference if lam is None else values[0]
            return np.where(np.isnan(difference), math.nan, chosen)

        queries, clusters, weights = of_systems[0], None, None
        if self.cluster is not None:
            clusters = cluster_codes(queries, self.query, self.cluster).to_numpy()
        if self.weight is not None:
            weights = queries[self.weight].cast(pl.Float64).to_numpy()
        values, labelled = (read(HUMAN + metric), read(metric)), queries[LABELLED].to_numpy()
        return correct_sample(*values, labelled, clusters, weights, lowest, highest, lam)


def _slice_queries(rows: pl.DataFrame, result: MeansResult) -> dict[str, pl.Series]:
    """The queries of every slice, from rows of several systems."""
    meta = result.meta
    queries = rows.select(meta.query, *meta.by).unique(meta.query, maintain_order=True)
    return slice_queries(queries, meta.groupings)


def cluster_intervals(result: MeansResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with intervals that take the clusters of queries into account."""
    meta, rows = result.meta, result.frame()
    assert meta.cluster
    slices = _slice_queries(rows, result)
    rows = rows.with_columns(compared_value(name, result.conventions) for name in result.metrics)
    if meta.weight is not None:
        rows = rows.filter(pl.col(meta.weight) > 0)
    ends = []
    for row in summary.iter_rows(named=True):
        part = rows.filter(pl.col(meta.query).is_in(slices[row["slice"]].implode()))
        part = part.filter(**{name: row[name] for name in system_columns(meta)})
        part = part.drop_nulls(row["metric"])
        interval = NO_INTERVAL
        if part.height and result.interval and row["metric"] not in result.overall_metrics:
            values = part[row["metric"]].cast(pl.Float64).to_numpy()
            codes = cluster_codes(part, meta.query, meta.cluster).to_numpy()
            weights = None if meta.weight is None else part[meta.weight].cast(float).to_numpy()
            sample = Sample(values, codes, weights, *metric_range(row["metric"]))
            if sample.units > 1:
                interval = describe_interval(sample.moments, result.confidence, result.interval)
        ends.append(interval)
    columns = (pl.Series(name, [row[i] for row in ends], summary.schema[name])
               for i, name in enumerate(("lo", "hi", SKEWED)))  # fmt: skip
    return summary.with_columns(columns)


def correct_summary(human: MeansResult, judge: MeansResult, summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with corrected means and intervals.

    Further columns are the number of `judged` queries, `lambda` (from 0 to 1, how much the judge
    counts), and `worth`, the number of human queries that would give the same interval without it.
    """
    values, rows = PairedValues.of(human, judge, human.meta.cluster), []
    for row in summary.iter_rows(named=True):
        name, system = row["metric"], row.get("system", "run")
        sample = values.sample(name, [system], row["slice"], *metric_range(name))
        row |= {"judged": len(values.slices[row["slice"]]), "lambda": None, "worth": None}
        if isinstance(sample, CorrectedSample):
            row |= {"lambda": sample.lam, "worth": sample.worth(1 - human.confidence)}
            if sample.lam:
                moments = sample.moments
                row["mean"] = min(max(sample.mean, moments.range.lo), moments.range.hi)
                if human.interval is not None:
                    ends = describe_interval(moments, human.confidence, human.interval)
                    row["lo"], row["hi"], row[SKEWED] = ends
        rows.append(row)
    place = summary.columns.index("queries") + 1
    names = [*summary.columns[:place], "judged", "lambda", "worth", *summary.columns[place:]]
    added = {"judged": pl.Int64, "lambda": pl.Float64, "worth": pl.Int64}
    return pl.DataFrame(rows, schema={n: summary.schema.get(n) or added[n] for n in names})
