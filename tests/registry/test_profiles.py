"""Every profile against its peer, on random data with ties, gaps and queries on one side only."""

import random
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql.registry.conventions import PROFILES
from rankql.registry.parse import parse
from support import other_tools, spark_sessions
from support.other_tools import frames

CUTOFFS = "1,3,10,50"


def compare(profile, peer, run, qrels, metrics, leave_out=frozenset(), **options):
    """Value by value, and the mean."""
    names = [name for metric in metrics for name in expanded(metric)]
    theirs = peer(run, qrels, names)
    result = rankql.evaluate(*frames(run, qrels), names, conventions=profile, **options)
    rows = {row["query"]: row for row in result.per_query.to_dicts()}
    compared = 0
    for name, values in theirs.items():
        column = next(m for m in result if rankql_name(m) == rankql_name(name))
        for query, value in values.items():
            if query not in leave_out:
                ours = rows[query][column]
                assert (ours or 0) == pytest.approx(value, abs=1e-12), (name, query)
                compared += 1
        if not leave_out:
            mean = sum(values.values()) / len(values)
            assert result[column] == pytest.approx(mean, abs=1e-12), name
    assert compared > 100
    return result


def rankql_name(name):
    return name.replace(" ", "")


def expanded(metric):
    name, at, cutoffs = metric.partition("@")
    return [f"{name}@{k}" for k in cutoffs.split(",")] if at else [name]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("negative", [False, True])
def test_trec_eval(seed, negative):
    run, qrels = other_tools.random_data(seed, negative=negative)
    cut = [f"{m}@{CUTOFFS}" for m in ("nDCG", "AP", "P", "R", "Success")]
    metrics = ["nDCG", "AP", "RR", "P", "R", "F1", "Rprec", "Bpref", *cut]
    result = compare("trec_eval", other_tools.trec_eval, run, qrels, metrics)
    assert result.conventions["profile"] == "trec_eval"


def test_trec_eval_sample():
    """infAP reads grades below 0, which are unjudged for the metrics beside it."""
    run, qrels = other_tools.random_data(3, negative=True)
    names = ["infAP", "nDCG@10", "AP", "SetAP", "IPrec", "IPrec@0.1"]
    result = rankql.evaluate(*frames(run, qrels), names, conventions="trec_eval")
    theirs = {"infAP": "infAP", "nDCG@10": "ndcg_cut_10", "AP": "map", "SetAP": "set_map",
              "IPrec": "11pt_avg", "IPrec@0.1": "iprec_at_recall_0.10"}  # fmt: skip
    values = pytrec_eval.RelevanceEvaluator(
        qrels, {"infAP", "ndcg_cut", "map", "set_map", "11pt_avg", "iprec_at_recall"}
    ).evaluate(run)
    rows = [row for row in result.per_query.to_dicts() if row["query"] in values]
    assert len(rows) > 10
    for row in rows:
        for name, other in theirs.items():
            assert (row[name] or 0) == pytest.approx(values[row["query"]][other], abs=1e-12)
    without = rankql.evaluate(*frames(run, qrels), "infAP", conventions="trec_eval", threshold=2)
    assert without["infAP"] != result["infAP"]
    with pytest.raises(rankql.RankqlError, match="infAP reads the grades below 0"):
        rankql.evaluate(*frames(run, qrels), ["infAP", "Bpref"], conventions="trec_eval")


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_trec_eval_geometric_mean(missing):
    """Of all queries, those without relevant items and, with -c, those that the run lacks."""
    run, qrels = other_tools.random_data(3)
    each = pytrec_eval.RelevanceEvaluator(qrels, {"gm_map"}).evaluate(run)
    logs = [values["gm_map"] for values in each.values()]
    logs += [np.log(1e-5)] * (len(qrels.keys() - each.keys()) if missing == "zero" else 0)
    names = ["gm_map", "AP"]
    ours = rankql.evaluate(*frames(run, qrels), names, conventions="trec_eval", missing=missing)
    assert ours["gm_map"] == pytest.approx(np.exp(np.mean(logs)), rel=1e-12)
    assert ours.summary["lo"].is_null().to_list() == [True, False]
    halves = {"a": {q: run[q] for q in [*run][:20]}, "b": run}
    halves = {name: frames(part, qrels)[0] for name, part in halves.items()}
    table = rankql.compare(halves, frames(run, qrels)[1], "GMAP").table
    assert table["p"].is_null().all()  # one value for all queries


@pytest.mark.parametrize("weighted", [False, True])
def test_trec_eval_counts(weighted):
    """Sums over the queries, and their values."""
    run, qrels = other_tools.random_data(3)
    names = ["num_ret", "num_rel", "num_rel_ret"]
    each = pytrec_eval.RelevanceEvaluator(qrels, {*names}).evaluate(run)
    run, judged = frames(run, qrels)
    judged = judged.with_columns(w=pl.lit(2.0))
    weight = {"weight": "w"} if weighted else {}
    ours = rankql.evaluate(run, judged, [*names, "AP"], conventions="trec_eval", **weight)
    rows = {row["query"]: row for row in ours.per_query.to_dicts()}
    for name, metric in zip(names, ours.metrics, strict=False):
        total = sum(values[name] for values in each.values())
        assert ours[name] == (2 * total if weighted else total)
        assert all(rows[query][metric] == values[name] for query, values in each.items())
    assert ours.summary["lo"].is_null().to_list() == [True] * 3 + [False]


def test_trec_eval_relative_precision():
    run, qrels = other_tools.random_data(4)
    each = pytrec_eval.RelevanceEvaluator(qrels, {"relative_P"}).evaluate(run)
    ours = rankql.evaluate(*frames(run, qrels), "relative_P_5", conventions="trec_eval").per_query
    for query, value in ours.select("query", ours.columns[-1]).rows():
        if query in each:
            assert value == pytest.approx(each[query]["relative_P_5"], abs=1e-12)


def test_trec_eval_judged_only():
    run, qrels = other_tools.random_data(11)

    def peer(run, qrels, metrics):
        return other_tools.trec_eval(run, qrels, metrics, judged_only=True)

    compare("trec_eval", peer, run, qrels, ["nDCG@10", "AP", "RR", "P@5"], unjudged="remove")


def test_trec_eval_scores_beyond_32_bits():
    run = {"q": {"a": 2e39, "b": 1e39, "c": -3e39, "d": 16777217.0, "e": 16777216.0}}
    qrels = {"q": {"a": 1, "d": 1}}
    theirs = other_tools.trec_eval(run, qrels, ["RR", "AP"])
    ours = rankql.evaluate(*frames(run, qrels), ["RR", "AP"], conventions="trec_eval")
    assert {m: {"q": ours[m]} for m in ours} == theirs


def test_trec_eval_10_does_not_round_scores():
    """trec_eval 9 reads scores as 32 bits, in which the two are equal; version 10 as 64 bits."""
    run = {"q": {"a": 16777217.0, "b": 16777216.0}}
    qrels = {"q": {"a": 1}}
    nine = rankql.evaluate(*frames(run, qrels), "RR", conventions="trec_eval")
    ten = rankql.evaluate(*frames(run, qrels), "RR", conventions="trec_eval_10")
    assert (nine["RR"], ten["RR"]) == (0.5, 1.0)
    assert other_tools.trec_eval(run, qrels, ["RR"]) == {"RR": {"q": 0.5}}
    assert ten.conventions["profile"] == "trec_eval_10"
    # All else is the same: with scores of 32 bits it is the peer's.
    run, qrels = other_tools.random_data(4)
    run = {q: {d: float(np.float32(s)) for d, s in items.items()} for q, items in run.items()}
    compare(
        "trec_eval_10", other_tools.trec_eval, run, qrels, ["nDCG@10", "AP", "RR", "P@5", "Bpref"]
    )


@pytest.mark.parametrize("profile", ["rankql", "trec_eval_10"])
def test_missing_queries_have_no_residual(profile):
    """With -c, trec_eval 10 takes 0 for the rbp_resid of a judged query that the run lacks."""
    run = {"a": {"x": 2.0, "y": 1.0}}
    qrels = {"a": {"x": 1}, "b": {"z": 1}}
    names = ["RBP(p=0.8)", "RBPres(p=0.8)", "IDCG", "relevant = sum(rel)"]
    result = rankql.evaluate(*frames(run, qrels), names, conventions=profile, missing="zero")
    # By hand: y is unjudged, and all below it: p + (1 - p) * 0 of a, with y itself (1 - p) * p.
    residual = 0.8**2 + 0.2 * 0.8
    assert result["RBPres(p=0.8)"] == pytest.approx(residual / 2)
    assert result["RBP(p=0.8)"] == pytest.approx(0.2 / 2)
    assert result["IDCG"] == 1 and result["relevant"] == 1  # what is judged is not missing


def test_names_of_set_metrics():
    """SetP, SetR and SetF of ir_measures: over all that is retrieved, whatever the conventions."""
    import ir_measures

    run, qrels = other_tools.random_data(6)
    names = ["SetP", "SetR", "SetF", "SetP(rel=2)", "SetR(rel=2)", "SetF(rel=2)"]
    result = rankql.evaluate(*frames(run, qrels), names, precision_denominator="min")
    ours = {row["query"]: row for row in result.per_query.to_dicts()}
    compared = 0
    for name in names:
        measure = ir_measures.parse_measure(name)
        for row in ir_measures.iter_calc([measure], qrels, run):
            value = ours[row.query_id][parse(name)[0].name]
            assert (value or 0) == pytest.approx(row.value, abs=1e-12)
            compared += 1
    assert compared > 50
    for name, message in {
        "SetP@5": "'SetP@5': SetP has only the option rel. Use P",
        "SetF(k=5)": "'SetF(k=5)': SetF has only the option rel. Use F1",
        "SetP(denominator=k)": "SetP has only the option rel. Use P",
    }.items():
        with pytest.raises(rankql.RankqlError, match=re.escape(message)):
            rankql.evaluate(*frames(run, qrels), name)


@pytest.mark.parametrize("seed", range(3))
def test_sklearn(seed):
    run, qrels = other_tools.random_data(seed)
    compare(
        "sklearn", other_tools.sklearn, run, qrels, ["nDCG", "DCG", f"nDCG@{CUTOFFS}", "DCG@3,10"]
    )


def test_sklearn_refuses_negative_grades():
    run, qrels = other_tools.random_data(1, negative=True)
    with pytest.raises(ValueError, match="negative"):
        other_tools.sklearn(run, qrels, ["nDCG"])
    with pytest.raises(rankql.RankqlError, match="rel must not be negative"):
        rankql.evaluate(*frames(run, qrels), "nDCG", conventions="sklearn")


@pytest.mark.ranx
@pytest.mark.slow
def test_ranx():
    for seed in range(3):
        run, qrels = other_tools.random_data(seed, negative=True)
        cut = [f"{m}@{CUTOFFS}" for m in ("nDCG", "AP", "RR", "P", "R", "F1", "Success")]
        metrics = ["nDCG", "AP", "RR", "P", "R", "F1", "Rprec", "nDCG(gain=exp2)@10", *cut]
        compare("ranx", other_tools.ranx, run, qrels, metrics)
        # Its bpref is NaN where all judged items are relevant.
        only = {q for q, items in qrels.items() if all(r >= 1 for r in items.values())}
        compare("ranx", other_tools.ranx, run, qrels, ["Bpref", "P@1,3,10,50"], leave_out=only)


@pytest.mark.parametrize("seed", range(5))
def test_recbole(seed):
    run, qrels = other_tools.random_data(seed)
    metrics = [f"{m}@{CUTOFFS}" for m in ("nDCG", "AP", "RR", "P", "R", "Success")]
    result = compare("recbole", other_tools.recbole, run, qrels, metrics)
    for metric in result:
        mean = other_tools.recbole_mean(run, qrels, metric)
        assert result[metric] == pytest.approx(mean, abs=5.1e-5)


@pytest.mark.spark
@pytest.mark.slow
def test_spark():
    run, qrels = other_tools.random_data(3, queries=20)
    metrics = ["nDCG@3,10", "AP", "AP@3,10", "P@3,10", "R@3,10"]
    with spark_sessions.session():
        result = compare("spark", other_tools.spark, run, qrels, metrics)
        for metric in ("nDCG@10", "AP", "P@3"):
            mean = other_tools.spark_mean(run, qrels, metric)
            assert result[metric] == pytest.approx(mean, abs=1e-12)


def test_mlflow():
    """Values of mlflow.metrics 3.17.2: precision_at_k, recall_at_k and ndcg_at_k, for k = 2.

    It also agreed to 3e-16 on 60 random queries at k = 1, 3 and 10.
    """
    lists = pl.DataFrame(
        {
            "retrieved": [["b", "a", "c"], ["c", "d"], ["a", "b"]],
            "relevant": [["a", "c", "e"], ["c"], ["x"]],
        }
    )
    expected = {
        "P@2": [0.5, 0.5, 0.0],
        "R@2": [0.3333333333333333, 1.0, 0.0],
        "nDCG@2": [0.38685280723454163, 1.0, 0.0],
    }
    result = rankql.evaluate(lists, metrics=list(expected), conventions="mlflow")
    for metric, values in expected.items():
        assert result.per_query[metric].to_list() == pytest.approx(values, abs=1e-15)


# Grades of the hits in order, grades of other rated documents, metric, options, value: of
# DiscountedCumulativeGainTests, PrecisionAtKTests, RecallAtKTests, MeanReciprocalRankTests and
# ExpectedReciprocalRankTests of Elasticsearch, from which OpenSearch has them.
RANK_EVAL = [
    ([3, 2, 3, 0, 1, 2], [], "DCG@10", {}, 13.84826362927298),
    ([3, 2, 3, 0, 1, 2], [], "nDCG@10", {}, 13.84826362927298 / 14.595390756454922),
    ([3, 2, 3, None, 1, None], [], "DCG@10", {}, 12.779642067948913),
    ([3, 2, 3, None, 1, None], [], "nDCG@10", {}, 12.779642067948913 / 13.347184833073591),
    ([3, 2, 3, None], [1], "nDCG@10", {}, 12.392789260714371 / 13.347184833073591),
    ([1, 1, 1, 1, 0], [], "P@10", {}, 4 / 5),
    ([0, 1, 2, 3, 4], [], "P@5", {"threshold": 2}, 3 / 5),
    ([1, 1, None], [], "P@10", {}, 2 / 3),
    ([1, 1, None], [], "P@10", {"unjudged": "remove"}, 1),
    ([1, 1, 0], [1, 1], "R@5", {}, 2 / 4),
    ([0, 1, 2], [3, 4], "R@5", {"threshold": 2}, 1 / 3),
    ([0, 1, 2, 3, 4], [], "RR@10", {"threshold": 2}, 1 / 3),
    ([3, 2, 0, 1], [], "ERR@3", {"max_rel": 3}, 0.8984375),
    ([3, 2, 0, 1], [], "ERR@4", {"max_rel": 3}, 0.8984375 + 0.00244140625),
    ([3, None, 0, 1], [], "ERR@4", {"max_rel": 3}, 0.875 + 0.00390625),
]


def test_rank_eval():
    for hits, others, metric, options, value in RANK_EVAL:
        rated = {str(i): grade for i, grade in enumerate([*hits, *others]) if grade is not None}
        run, options = {"q": [str(i) for i in range(len(hits))]}, {"interval": None, **options}
        found = rankql.evaluate(run, {"q": rated}, metric, conventions="opensearch", **options)
        assert found[metric] == pytest.approx(value, abs=1e-14), (hits, metric)
    assert replace(PROFILES["opensearch"], profile="elasticsearch") == PROFILES["elasticsearch"]


def test_profiles_note_shorter_ideal_rankings():
    """MLflow cuts the ideal ranking at the one hit, and gets 1."""
    run, qrels = {"a": ["x"], "b": ["x", "y"]}, {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 1}}
    for options in ({}, {"unjudged": "bounds"}):
        notes = rankql.evaluate(run, qrels, "nDCG@10", conventions="mlflow", **options).notes
        assert notes == [
            "1 ranking has fewer items than the ideal ranking, which mlflow cuts to as many: its "
            "nDCG is higher there"
        ]
    for options in ({"conventions": "ranx"}, {"conventions": "mlflow", "metrics": "nDCG@1"}):
        assert not rankql.evaluate(run, qrels, **{"metrics": "nDCG@2", **options}).notes


def test_a_profile_that_is_changed_says_so():
    run, qrels = frames(*other_tools.random_data(0))
    result = rankql.evaluate(run, qrels, "AP@10", conventions="trec_eval", ap_denominator="min")
    assert result.conventions["profile"] == "trec_eval, changed"
    assert rankql.evaluate(run, qrels, "AP@10").conventions["profile"] == "rankql"


def test_profiles_differ_on_this_data():
    """The data tells the profiles apart, or the tests above would prove nothing."""
    run, qrels = frames(*other_tools.random_data(random.Random(5).randrange(100)))
    means = {
        profile: rankql.evaluate(run, qrels, ["nDCG@10", "AP@10"], conventions=profile)
        for profile in ("rankql", "trec_eval", "sklearn", "ranx", "recbole")
    }
    values = {tuple(result[m] for m in ("nDCG@10", "AP@10")) for result in means.values()}
    assert len(values) == len(means)


def test_capped_recall_by_name():
    """min(k, R) is the denominator: per query as in BEIR, over all queries as of OTTO."""
    run = {"a": ["x", "y", "z"], "b": ["x"]}
    judged = {"a": {"y": 1, "z": 2, "w": 2}, "b": {"x": 1}}
    names = ["R_cap@2", "r_cap(rel=2)@3", "microR_cap@2"]
    found = rankql.evaluate(run, judged, names, interval=None)
    assert found.summary["mean"].to_list() == pytest.approx(
        [(1 / 2 + 1) / 2, (1 / 2 + 0) / 2, 2 / 3]
    )


@pytest.mark.parametrize("value", ["one", 1])
def test_an_undefined_query_may_count_1(value):
    """As in LightGBM, XGBoost and CatBoost; everywhere where means are compared, too."""
    runs = {"s": {"a": ["y", "x"], "b": ["x"]}, "t": {"a": ["x"], "b": ["x"]}}
    judged = {"a": {"x": 1}, "b": {"x": 0}}
    found = rankql.evaluate(runs, judged, ["RR", "microR@1"], undefined=value, interval=None)
    assert found.summary["mean"].to_list() == pytest.approx([0.75, 0, 1, 1])
    compared = rankql.compare(runs, judged, "RR", undefined=value)
    assert compared.table["difference"].to_list() == [0.25]
    assert "counted as 1" in " ".join(compared.notes)


@pytest.mark.parametrize("denominator", ["k", "retrieved", "min"])
def test_f1_is_the_harmonic_mean_of_the_precision_and_the_recall_shown(denominator):
    """3 hits among 5 items, 6 relevant ones: of one query, and of all together."""
    run = {"q": {f"d{i}": 9.0 - i for i in range(5)}}
    qrels = {"q": {**dict.fromkeys(["d0", "d1", "d2", "x", "y", "z"], 1), "d3": 0}}
    metrics = ["P@20", "R@20", "F1@20", "microP@20", "microR@20", "microF1@20"]
    metrics += [f"F1(denominator={denominator})@20"]
    for packs in (True, False):  # other metrics with the cutoff are computed apart
        more = [] if packs else ["nDCG"]
        made = rankql.evaluate(run, qrels, [*metrics, *more], precision_denominator=denominator)
        p = 3 / {"k": 20, "retrieved": 5, "min": 6}[denominator]
        for kind in ("", "micro"):
            assert made[f"{kind}P@20"] == pytest.approx(p)
            assert made[f"{kind}F1@20"] == pytest.approx(2 * p * 0.5 / (p + 0.5))
