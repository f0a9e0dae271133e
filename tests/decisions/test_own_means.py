"""What a system alone has, beside the means of the queries that all systems have."""

import random

import polars as pl
import pytest
import pytrec_eval

import rankql
from support.parameters import few

METRICS = ["map", "ndcg_cut_10"]
QUERIES = [f"q{i:02}" for i in range(30)]
HEADS = ["own mean", "own queries"]


def system(seed, first, last):
    rng = random.Random(seed)
    return {q: {f"d{i}": rng.random() for i in range(12)} for q in QUERIES[first:last]}


RUNS = {"old": system(1, 0, 26), "new": system(2, 3, 30), "next": system(3, 0, 30)}
JUDGED = random.Random(4)
QRELS = {q: {f"d{i}": JUDGED.choice([0, 0, 1, 2]) for i in range(12)} for q in QUERIES}
SLICES = pl.DataFrame({"query": QUERIES, "kind": ["long", "short", "short"] * 10})


def trec_eval(name, metric, queries=QUERIES):
    """The mean that trec_eval prints, and its number of queries."""
    judgments = {query: QRELS[query] for query in queries}
    values = pytrec_eval.RelevanceEvaluator(judgments, METRICS).evaluate(RUNS[name])
    return sum(x[metric] for x in values.values()) / len(values), len(values)


def compare(*names, **options):
    runs = {name: RUNS[name] for name in names}
    return rankql.compare(runs, QRELS, METRICS, **{"conventions": "trec_eval", **options})


def test_a_pair_has_what_trec_eval_prints():
    comparison = compare("old", "new", by="kind", attributes=SLICES)
    table = comparison.table
    assert table.columns[-4:] == [f"{name} {head}" for name in ("old", "new") for head in HEADS]
    parts = {"all": QUERIES, "kind=long": QUERIES[::3]}
    for row in table.filter(pl.col("slice").is_in([*parts])).to_dicts():
        for name in ("old", "new"):
            expected = trec_eval(name, row["metric"], parts[row["slice"]])
            assert tuple(row[f"{name} {head}"] for head in HEADS) == pytest.approx(expected)
    # Means, differences and verdicts are of the 23 queries of both.
    both = {name: {q: RUNS[name][q] for q in QUERIES[3:26]} for name in ("old", "new")}
    qrels = {q: QRELS[q] for q in QUERIES[3:26]}
    alone = rankql.compare(both, qrels, METRICS, conventions="trec_eval")
    pairs = comparison.pairs.filter(slice="all")
    for name in ("mean_a", "mean_b", "difference", "n"):
        assert pairs[name].to_list() == pytest.approx(alone.pairs[name].to_list())
    assert "own_mean_a" not in alone.pairs.columns and "own mean" not in repr(alone)
    printed = repr(comparison)
    assert "own mean is of the own queries of a system, as evaluate and trec_eval print" in printed
    assert "old own mean  old own queries" in printed.replace("\n", " ")
    assert "all: own mean of old" in comparison.to_latex()


@pytest.mark.report
def test_a_report_has_them(tmp_path):
    compare(*RUNS).save(path := tmp_path / "report.html")
    assert "own queries" in path.read_text("utf-8")


def test_a_table_of_systems_has_them():
    comparison = compare(*RUNS)
    wide = comparison.wide()
    for row in wide.table.to_dicts():
        for metric in METRICS:
            mean, n = trec_eval(row["system"], metric)
            assert row[f"{metric} own mean"] == pytest.approx(mean)
            assert row[f"{metric} own queries"] == n
    assert wide.table.equals(comparison.table)
    # Only means of the same queries compete for bold.
    assert all(wide.higher_is_better[f"{metric} own mean"] is None for metric in METRICS)
    assert "map & map own mean & own queries & " in comparison.to_latex().replace("\\_", "_")
    of_systems = comparison.wide(rows="metric", columns="system").table
    (row,) = of_systems.filter(metric="map").to_dicts()
    letter = dict(wide.table["system", "letter"].rows())["old"]
    assert row[f"{letter} old own mean"] == pytest.approx(trec_eval("old", "map")[0])


def test_across_slices():
    comparison = compare(*RUNS, by="kind", attributes=SLICES, missing="skip")
    table = comparison.wide(rows="system", columns=["kind", "metric"]).table
    for row in table.to_dicts():
        mean, n = trec_eval(row["system"], "map", QUERIES[::3])
        assert row["long map own mean"] == pytest.approx(mean) and row["long map own queries"] == n


@few(1)("options", [{"missing": "zero"}, {"conventions": "rankql"}])
def test_where_missing_queries_count_both_are_one(options):
    comparison = compare("old", "new", **options)
    assert not [name for name in comparison.table.columns if "own" in name]
    assert not [name for name in compare(*RUNS, **options).table.columns if "own" in name]
    assert "own mean" not in repr(comparison)
