"""A missing query counts as the worst value of each metric: no run gains by leaving queries out."""

import random

import polars as pl
import pytest

import rankql
from rankql.evaluation.means import COUNTED

HIGHER = [
    "nDCG@10", "DCG@10", "CG@10", "AP", "RR", "P@3", "R@3", "F1@3", "Success@1", "Rprec", "IPrec",
    "RBP(p=0.8)", "ERR(max_rel=3)", "nERR(max_rel=3)", "Bpref", "infAP", "ARHR",
]  # fmt: skip
LOWER = ["RBPres(p=0.8)", "TauDistance", "RMSE", "MSE", "MAE", "FalseAbstention"]


def rankings(seed, signed=False, queries=30):
    """A run and judgments; in some queries nothing is relevant."""
    rng, run, qrels = random.Random(seed), [], []
    grades = [0, 0, 1, 2, 3] + [-1] * signed
    for query in range(queries):
        for item in range(6):
            run.append((f"q{query}", f"d{item}", rng.gauss(0, 1)))
            if item == 5 or rng.random() < 0.8:
                grade = rng.choice(grades) if query % 6 else 0
                qrels.append((f"q{query}", f"d{item}", grade))
    columns = ["query", "item", "score"], ["query", "item", "rel"]
    return tuple(
        pl.DataFrame(rows, names, orient="row")
        for rows, names in zip((run, qrels), columns, strict=True)
    )


def without_worst(run, qrels, metric, count):
    """The run without the queries with the worst values."""
    values = rankql.evaluate(run, qrels, metric, interval=None).per_query.drop_nulls()
    worst = values.sort(metric, descending=metric in LOWER)["query"].head(count)
    return run.filter(~pl.col("query").is_in(worst.implode()))


@pytest.mark.parametrize("metric", HIGHER + LOWER)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_run_gains_by_leaving_out_its_worst_queries(metric, seed):
    run, qrels = rankings(seed)
    part = without_worst(run, qrels, metric, 10)
    full, partial = (rankql.evaluate(x, qrels, metric, interval=None) for x in (run, part))
    comparison = rankql.compare({"full": run, "part": part}, qrels, metric)
    row = comparison.pairs.row(0, named=True)
    sign = -1 if metric in LOWER else 1
    # In evaluate, a metric without a worst value leaves queries out and says so.
    bounded = metric not in ("TauDistance", "RMSE", "MSE", "MAE")
    if bounded:
        assert sign * partial[metric] <= sign * full[metric] + 1e-12
        assert row["mean_b"] == pytest.approx(partial[metric], abs=1e-12)
        assert row["n"] == full.summary["queries"][0] - full.summary["undefined"][0]
    else:
        assert row["n"] == 20 and row["mean_a"] == pytest.approx(row["mean_b"], abs=1e-12)
        assert f"{metric}: " in " ".join(partial.notes) and "left out" in " ".join(partial.notes)
        assert "20 queries that both rank" in repr(comparison).split("\n")[0]
    assert sign * row["mean_b"] <= sign * row["mean_a"] + 1e-12
    limit = rankql.gate(part, qrels, baseline=run, max_drop=f"{metric}:0", min_queries=1)
    mean, baseline = (limit.table[name][0] for name in ("mean", "baseline"))
    assert mean == pytest.approx(row["mean_b"]) and baseline == pytest.approx(row["mean_a"])


@pytest.mark.parametrize("metric", ["DCG@10", "CG@10", "nDCG@10"])
def test_0_is_not_the_worst_of_a_query_with_a_grade_below_0(metric):
    """The query is left out of the sums of gains, as they may be below 0."""
    run, qrels = rankings(3, signed=True)
    negative = qrels.filter(pl.col("rel") < 0)["query"].unique()
    keep = {"negative": "keep"}
    part = run.filter(~pl.col("query").is_in(negative.implode()))
    values = rankql.evaluate(part, qrels, metric, **keep).per_query
    absent = values.filter(pl.col("query").is_in(negative.implode()))
    assert len(absent) == len(negative) and absent[metric].null_count() == len(negative)
    zero = rankql.evaluate(run.filter(pl.col("query") != "q1"), qrels, metric)
    assert "q1" in zero.per_query["query"]


def test_what_a_missing_query_counts():
    """By hand: q is judged and missing, in n nothing is relevant."""
    run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
    qrels = pl.DataFrame({"query": [*"aqn"], "item": [*"xyz"], "rel": [1, 2, 0]})
    names = [
        "nDCG",
        "DCG",
        "RBPres(p=0.8)",
        "IDCG",
        "FalseAnswer",
        "FalseAbstention",
        "TauDistance",
    ]
    for rule in ("zero", "skip"):
        frame = rankql.evaluate(run, qrels, names, missing=rule, interval=None).per_query
        values = {row[0]: row[1:] for row in frame.rows()}
        silent = (None, 1), (0, None)
        assert (values["q"][4:6], values["n"][4:6]) == silent
        if rule == "zero":
            assert values["q"][:4] == (0, 0, 1, 0) and values["q"][6] is None


@pytest.mark.parametrize("undefined", ["skip", "zero"])
def test_undefined_is_0_only_where_higher_is_better(undefined):
    """Of z, nothing that is judged is retrieved; in every sixth query nothing is relevant."""
    run, qrels = rankings(4)
    run = run.vstack(pl.DataFrame({"query": ["z"], "item": ["y"], "score": [1.0]}))
    qrels = qrels.vstack(pl.DataFrame({"query": ["z"], "item": ["x"], "rel": [1]}))
    names = ["AP", "RMSE"]
    result = rankql.evaluate(run, qrels, names, undefined=undefined, interval=None)
    for name, filled in (("AP", undefined == "zero"), ("RMSE", False)):
        values = result.per_query[name]
        counted = len(values) if filled else len(values.drop_nulls())
        assert values.null_count() and result[name] == pytest.approx(values.sum() / counted)
        assert result.means.filter(metric=name)[COUNTED].item() == counted
