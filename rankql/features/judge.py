"""Labels that can correct means: a judge has labelled all queries, people some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from rankql.core.base.errors import RankqlError, require, require_package
from rankql.core.base.text import Note, format_queries
from rankql.core.evaluation.evaluate import evaluate_in_duckdb
from rankql.core.evaluation.result.means_result import MeansResult
from rankql.core.evaluation.result.result import Result
from rankql.core.evaluation.result.system_values import LABELLED, pair_values
from rankql.core.metrics.parse import record_of
from rankql.core.stats.prediction_powered import LEAST_QUERIES
from rankql.core.stats.sample import Array
from rankql.core.tables.request import Request

# In the queries with human labels, so many pairs of query and item must have both labels.
LEAST_SHARED = 0.95
# So many grades from 2 on are not of a scale that ends at 1.
LEAST_HIGH = 5
# Human queries that differ so from the others, under the judge's labels, are not a random sample.
UNLIKELY = 0.001
# With fewer human queries, too few samples contain what a judge hides. If it hides the low values
# of Beta(6, 0.3), intervals of 100 and 200 contain the true mean in 89% and 92% of samples.
FEW_QUERIES = 200


def require_judge(request: Request) -> None:
    """Refuse a judge without human labels, and options that do not support it."""
    if request.judge is None:
        require(request.judge_rel is None, "judge_rel= names the grade of a judge. Pass judge=")
        return
    require_package("scipy", "stats", "judge=")
    one = "Leave out one of them"
    counted = request.rules.options.get("unjudged_queries") == "count"
    lacks = "judge= needs human labels of some queries. Pass them as qrels"
    require(request.qrels is not None, lacks)
    require(request.mean is None, f"mean='slices' does not support judge=. {one}")
    require(request.output is None, f"output= does not support judge=. {one}")
    require(not counted, "unjudged_queries='count' does not support judge=. Leave out one")


def correct_means(request: Request, result: Result) -> Result:
    """The result of human labels, whose means the labels of the judge correct."""
    rules = request.rules
    if (rel := request.judge_rel) is not None:
        options = {**rules.options, "rel": rel}
        rules = replace(rules, columns={**rules.columns, "rel": rel}, options=options)
    rules = replace(rules, unjudged_queries="skip")  # no note offers 'count'
    labelled = replace(request, qrels=request.judge, rules=rules, judge=None, judge_rel=None)
    try:
        judged = evaluate_in_duckdb(labelled)
    except RankqlError as error:
        error.text = f"judge: {error.text}"
        raise
    ids = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in ("query", "item"))
    ids += ", CAST(rel AS DOUBLE) AS rel"
    labels = [x.steps.run("qrels", ids) for x in (result, judged) if x.steps]
    columns = {**result.columns, "judge": judged.columns["qrels"]}
    notes = describe_judge(result, judged, labels)
    return result.derive(judge=judged, columns=columns, data_notes=notes)


def describe_judge(
    human: MeansResult, judge: MeansResult, labels: Sequence[pl.DataFrame]
) -> list[str]:
    """The notes of a result that a judge corrects. Refuses labels that cannot correct it.

    labels: the judgments of people, and those of the judge.
    """
    names = [*human.overall_metrics, *(x for x in human.metrics if record_of(x).overall == "root")]
    require(
        not names,
        f"judge= needs metrics whose mean is that of values per query, not {', '.join(names)}",
    )
    # Queries of the run that people did not judge count, but not those that the judge did not.
    unjudged = "unjudged-queries"
    others = [note for note in human.data_notes if Note.of(note).kind != unjudged]
    others += [note for note in judge.data_notes if Note.of(note).kind == unjudged]
    scales = note_scales("people", labels[0]["rel"], "the judge", labels[1]["rel"])
    checked = _check_queries(human, pair_values(human, judge))
    return [*checked, *scales, *check_pools(*labels), *others]


def _check_queries(result: MeansResult, paired: pl.DataFrame) -> Iterator[str]:
    """Refuse too few human queries; note a sample that is not random, and what the judge adds."""
    key, cluster = result.meta.query, result.meta.cluster
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
    both = (paired.filter(pl.col(LABELLED) == x) for x in (True, False))
    units, others = (rows[cluster or key].n_unique() for rows in both)
    if others < units:
        few = f"{others:,} {'clusters of queries' if cluster else 'queries'} without human labels"
        yield (
            f"The judge has labelled {few}, fewer than the {units:,} with them, so means are those "
            f"of people alone. Let it label at least {units:,}"
        )
        return
    yield (
        f"Means are those of human labels of {n:,} queries, corrected by the judge's labels of "
        f"{format_queries(total)}. They hold if the human queries are a random sample of them"
    )
    if units < FEW_QUERIES:
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
            if welch_p(with_human, without) < UNLIKELY:
                yield (
                    f"{name}: the human queries are not a random sample: under the judge's "
                    f"labels their mean is {with_human.mean():.3g}, that of the others "
                    f"{without.mean():.3g} (p < {UNLIKELY}). The corrected mean may be biased"
                )
                break


def welch_p(a: Array, b: Array) -> float:
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
    remedy = "Let the judge label the items that people labelled"
    if of_human.height < of_judge.height:
        remedy = "Draw whole queries, or see Random pairs in the page on judges"
    message = f"judge: only {shared:,} {pairs} have both labels. {remedy}"
    require(shared >= LEAST_SHARED * total, message)
    few = [f"{total - shared:,} {pairs} have a label of only one of people and judge"]
    return few if shared < total else []


def note_scales(who: str, grades: pl.Series, other: str, others: pl.Series) -> list[str]:
    """A note if one labels yes and no, and the other higher grades too."""
    labellers = [(who, grades), (other, others)]
    least, most = sorted(labellers, key=lambda side: float(side[1].max()))  # type: ignore[arg-type]
    if least[1].max() != 1 or (most[1] >= 2).sum() < LEAST_HIGH:
        return []
    ends = [(name, float(x.min()), float(x.max())) for name, x in labellers]  # type: ignore[arg-type]
    scales = " and ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ends)
    return [
        f"{scales}: these are two scales, and one threshold= is not the same grade on both. From "
        f"which grade is an item relevant for {who}, and from which for {other}? Write 1 from "
        "there and 0 below in both tables"
    ]
