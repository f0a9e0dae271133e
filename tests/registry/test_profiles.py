"""Every profile against its peer, on random data with ties, gaps and queries on one side only."""

import re
from dataclasses import replace
from functools import partial

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql.registry.conventions import PROFILES
from rankql.registry.parse import parse
from support import other_tools, spark_sessions
from support.other_tools import frames

CUTS = (1, 3, 10, 50)


def at(names, cutoffs=CUTS):
    return [f"{name}@{k}" for name in names.split() for k in cutoffs]


def compare(profile, peer, run, qrels, metrics, leave_out=frozenset(), **options):
    """Value by value, and the mean."""
    result = rankql.evaluate(*frames(run, qrels), metrics, conventions=profile, **options)
    rows = {row["query"]: row for row in result.per_query.to_dicts()}
    compared = 0
    for name, values in peer(run, qrels, metrics).items():
        for query in values.keys() - leave_out:
            ours = rows[query][name] or 0
            assert ours == pytest.approx(values[query], abs=1e-12), (name, query)
            compared += 1
        if not leave_out:
            mean = sum(values.values()) / len(values)
            assert result[name] == pytest.approx(mean, abs=1e-12), name
    assert compared > 100
    assert result.conventions["profile"].startswith(profile)
    return result


# Per profile: its peer, and metrics. ranx and Spark are slower to start.
PEERS = {
    "trec_eval": (other_tools.trec_eval, ["nDCG", "AP", "RR", "P", "R", "F1", "Rprec", "Bpref",
                                          "RR(rel=2)", "Bpref(rel=2)", "F1(rel=2)",
                                          *at("nDCG AP P R Success P(rel=2) AP(rel=2)")]),
    "sklearn": (other_tools.sklearn, ["nDCG", "DCG", *at("nDCG"), *at("DCG", (3, 10))]),
    "recbole": (other_tools.recbole, at("nDCG AP RR P R Success")),
    "ranx": (other_tools.ranx, ["nDCG", "AP", "RR", "P", "R", "F1", "Rprec", "nDCG(gain=exp2)@10",
                                *at("nDCG AP RR P R F1 Success")]),
    "spark": (other_tools.spark, ["AP", *at("nDCG", (3, 10)), "AP@3", "P@10", "R@3"]),
}  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("profile", "negative"),
    [("trec_eval", False), ("trec_eval", True), ("sklearn", False), ("recbole", False)],
)
def test_profiles_give_the_values_of_their_tools(profile, negative, seed):
    run, qrels = other_tools.random_data(seed, negative=negative)
    peer, metrics = PEERS[profile]
    if profile == "recbole":  # equal scores are refused
        ranks = {
            q: {item: -i for i, item in enumerate(other_tools.ranked(x))} for q, x in run.items()
        }
        compare(profile, peer, ranks, qrels, metrics)
        with pytest.raises(rankql.RankqlError, match=r"order of torch\.topk"):
            compare(profile, peer, run, qrels, metrics)
    else:
        compare(profile, peer, run, qrels, metrics)


@pytest.mark.ranx
@pytest.mark.slow
def test_ranx():
    peer, metrics = PEERS["ranx"]
    for seed in range(3):
        run, qrels = other_tools.random_data(seed, negative=True)
        compare("ranx", peer, run, qrels, metrics)
        # Its bpref is NaN where all judged items are relevant, and as plain Python where none is.
        only = {q for q, x in qrels.items() if len({grade >= 1 for grade in x.values()}) == 1}
        compare("ranx", peer, run, qrels, ["Bpref", *at("P")], leave_out=only)
    run, qrels = other_tools.random_data(4, longest=12)
    compare("ranx", peer, run, qrels, ["DCG@10", "P(rel=2)@5", "SetP", "SetR"])
    # A sum over the queries here; a sum of grades there.
    for name, theirs, times in (
        ("NumRelRet", "NumRelRet", 1),
        ("RBP(p=0.8, max_rel=3)", "RBP(p=0.8)", 3),
    ):
        ours = rankql.evaluate(*frames(run, qrels), name, conventions="ranx", interval=None)
        values = dict(ours.per_query.rows())
        for query, value in peer(run, qrels, [theirs])[theirs].items():
            assert times * (values[query] or 0) == pytest.approx(value), (name, query)


@pytest.mark.spark
@pytest.mark.slow
def test_spark():
    run, qrels = other_tools.random_data(3, queries=20)
    peer, metrics = PEERS["spark"]
    spark_sessions.of_process()
    compare("spark", peer, run, qrels, metrics)


# Our names of metrics of trec_eval, and its own.
TREC_EVAL = {"infAP": "infAP", "nDCG@10": "ndcg_cut_10", "AP": "map", "SetAP": "set_map",
             "IPrec": "11pt_avg", "IPrec@0.1": "iprec_at_recall_0.10",
             "relative_P_5": "relative_P_5"}  # fmt: skip


def trec_eval(run, qrels, names):
    return pytrec_eval.RelevanceEvaluator(qrels, {*names}).evaluate(run)


def test_trec_eval_sample():
    """infAP reads grades below 0, which are unjudged for the metrics beside it."""
    families = {"infAP", "ndcg_cut", "map", "set_map", "11pt_avg", "iprec_at_recall", "relative_P"}

    def peer(run, qrels, names):
        values = trec_eval(run, qrels, families)
        return {name: {q: x[TREC_EVAL[name]] for q, x in values.items()} for name in names}

    run, qrels = other_tools.random_data(3, negative=True)
    result = compare("trec_eval", peer, run, qrels, [*TREC_EVAL])
    higher = rankql.evaluate(*frames(run, qrels), "infAP", conventions="trec_eval", threshold=2)
    assert higher["infAP"] != result["infAP"]
    with pytest.raises(rankql.RankqlError, match="infAP"):
        rankql.evaluate(*frames(run, qrels), ["infAP", "Bpref"], conventions="trec_eval")


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_trec_eval_geometric_mean(missing):
    """Of all queries, those without relevant items and, with -c, those that the run lacks."""
    run, qrels = other_tools.random_data(3)
    each = trec_eval(run, qrels, ["gm_map"])
    logs = [values["gm_map"] for values in each.values()]
    logs += [np.log(1e-5)] * (len(qrels.keys() - each.keys()) if missing == "zero" else 0)
    names = ["gm_map", "AP"]
    ours = rankql.evaluate(*frames(run, qrels), names, conventions="trec_eval", missing=missing)
    assert ours["gm_map"] == pytest.approx(np.exp(np.mean(logs)), rel=1e-12)
    assert ours.summary["lo"].is_null().to_list() == [True, False]
    runs, (_, judged) = {"a": dict([*run.items()][:20]), "b": run}, frames(run, qrels)
    table = rankql.compare(runs, judged, "GMAP").pairs
    assert table["p"].is_null().all()  # one value for all queries


@pytest.mark.parametrize("weight", [1, 2])
def test_trec_eval_counts(weight):
    """Sums over the queries, and their values."""
    run, qrels = other_tools.random_data(3)
    names = ["num_ret", "num_rel", "num_rel_ret"]
    each = trec_eval(run, qrels, names)
    run, judged = frames(run, qrels)
    judged = judged.with_columns(w=pl.lit(float(weight)))
    options = {"conventions": "trec_eval", "weight": "w" if weight > 1 else None}
    ours = rankql.evaluate(run, judged, [*names, "AP"], **options)
    rows = {row["query"]: row for row in ours.per_query.to_dicts()}
    for name, metric in zip(names, ours.metrics, strict=False):
        assert ours[name] == weight * sum(values[name] for values in each.values())
        assert all(rows[query][metric] == values[name] for query, values in each.items())
    assert ours.summary["lo"].is_null().to_list() == [True] * 3 + [False]


def test_trec_eval_judged_only():
    peer = partial(other_tools.trec_eval, judged_only=True)
    data = other_tools.random_data(11)
    compare("trec_eval", peer, *data, ["nDCG@10", "AP", "RR", "P@5"], unjudged="remove")


TOO_LARGE = {"a": 2e39, "b": 1e39, "c": -3e39, "d": 16777217.0, "e": 16777216.0}


@pytest.mark.parametrize("scores", [TOO_LARGE, {"a": 16777217.0, "b": 16777216.0}])
def test_trec_eval_9_reads_scores_as_32_bits(scores):
    run, qrels = {"q": scores}, {"q": {"a": 1, "d": 1}}
    nine, ten = (
        rankql.evaluate(*frames(run, qrels), ["RR", "AP"], conventions=profile)
        for profile in ("trec_eval", "trec_eval_10")
    )
    assert {m: {"q": nine[m]} for m in nine} == other_tools.trec_eval(run, qrels, ["RR", "AP"])
    assert ten["RR"] == 1 and nine["AP"] < ten["AP"]


def test_trec_eval_10_is_version_9_for_scores_of_32_bits():
    run, qrels = other_tools.random_data(4)
    run = {q: {d: float(np.float32(s)) for d, s in items.items()} for q, items in run.items()}
    names = ["nDCG@10", "AP", "RR", "P@5", "Bpref"]
    compare("trec_eval_10", other_tools.trec_eval, run, qrels, names, missing="skip")


def test_trec_eval_10_rounds_recalls_to_the_nearest_item():
    """By its source, m_iprec_at_recall.c: lround(recall * R)."""
    names = ["IPrec@0.3", "IPrec(rounding=nearest)@0.3", "IPrec(rounding=up)@0.3"]
    data = frames(*other_tools.random_data(4))
    options = {"conventions": "trec_eval_10", "missing": "skip"}
    plain, nearest, up = (rankql.evaluate(*data, name, **options)[name] for name in names)
    assert plain == nearest != up


@pytest.mark.parametrize("profile", ["rankql", "trec_eval_10"])
def test_all_of_a_missing_query_is_unknown(profile):
    """Its residual is 1. (With -c, trec_eval 10 takes 0, as if all were known.)"""
    run = {"a": {"x": 2.0, "y": 1.0}}
    qrels = {"a": {"x": 1}, "b": {"z": 1}}
    names = ["RBP(p=0.8)", "RBPres(p=0.8)", "IDCG", "relevant = sum(rel)"]
    result = rankql.evaluate(*frames(run, qrels), names, conventions=profile, missing="zero")
    # By hand: y is unjudged, and all below it: p + (1 - p) * 0 of a, with y itself (1 - p) * p.
    assert result["RBPres(p=0.8)"] == pytest.approx((0.8**2 + 0.2 * 0.8 + 1) / 2)
    assert result["RBP(p=0.8)"] == pytest.approx(0.2 / 2)
    assert result["IDCG"] == 0.5 and result["relevant"] == 1  # an expression is as it is computed


def test_names_of_set_metrics():
    """SetP, SetR and SetF of ir_measures: over all that is retrieved, whatever the conventions."""
    run, qrels = other_tools.random_data(6)
    for name in [f"Set{x}{options}" for x in "PRF" for options in ("", "(rel=2)")]:
        result = rankql.evaluate(*frames(run, qrels), name, precision_denominator="min")
        ours = dict(result.per_query.select("query", pl.last().fill_null(0)).rows())
        values = [*ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)]
        assert len(values) > 10
        assert [ours[x.query_id] for x in values] == pytest.approx([x.value for x in values])
    for name, instead in {"SetP@5": "P", "SetF(k=5)": "F1", "SetP(denominator=k)": "P"}.items():
        with pytest.raises(rankql.RankqlError, match=f"Use {instead}$"):
            parse(name)


def test_sklearn_refuses_negative_grades():
    run, qrels = other_tools.random_data(1, negative=True)
    with pytest.raises(ValueError, match="negative"):
        other_tools.sklearn(run, qrels, ["nDCG"])
    with pytest.raises(rankql.RankqlError, match="negative"):
        rankql.evaluate(*frames(run, qrels), "nDCG", conventions="sklearn")


def test_mlflow():
    """Values of mlflow.metrics 3.17.2: precision_at_k, recall_at_k and ndcg_at_k, for k = 2.

    It also agreed to 3e-16 on 60 random queries at k = 1, 3 and 10.
    """
    retrieved = [["b", "a", "c"], ["c", "d"], ["a", "b"]]
    lists = pl.DataFrame({"retrieved": retrieved, "relevant": [["a", "c", "e"], ["c"], ["x"]]})
    expected = {"P@2": [0.5, 0.5, 0.0], "R@2": [1 / 3, 1.0, 0.0]}
    expected |= {"nDCG@2": [0.38685280723454163, 1.0, 0.0]}
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


@pytest.mark.slow
def test_rank_eval():
    for hits, others, metric, options, value in RANK_EVAL:
        rated = {str(i): grade for i, grade in enumerate([*hits, *others]) if grade is not None}
        run, options = {"q": [str(i) for i in range(len(hits))]}, {"interval": None, **options}
        result = rankql.evaluate(run, {"q": rated}, metric, conventions="opensearch", **options)
        assert result[metric] == pytest.approx(value, abs=1e-14), (hits, metric)
    assert replace(PROFILES["opensearch"], profile="elasticsearch") == PROFILES["elasticsearch"]


@pytest.mark.parametrize("tool", ["mlflow", "opensearch", "elasticsearch"])
def test_profiles_refuse_shorter_ideal_rankings(tool):
    """They cut the ideal ranking at the one hit, and get 1."""
    run, qrels = {"a": ["x"], "b": ["x", "y"]}, {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 1}}
    for metrics in ("nDCG@10", ["RR", "nDCG"]):
        with pytest.raises(rankql.RankqlError, match=r"cuts the ideal .*1 query, such as 'a'"):
            rankql.evaluate(run, qrels, metrics, conventions=tool)
    assert rankql.evaluate(run, qrels, "nDCG@1", conventions=tool)["nDCG@1"] == 1
    assert rankql.evaluate(run, qrels, "nDCG@2", conventions="ranx")["nDCG@2"] < 1
    lists = pl.DataFrame({"retrieved": [["x"]], "relevant": [["x", "y"]]})
    with pytest.raises(rankql.RankqlError, match="cuts the ideal"):
        rankql.evaluate(lists, None, "nDCG@10", conventions=tool)


TWO = {"a": {"x": 2.0, "y": 1.0}, "b": {"x": 2.0, "y": 1.0}}
MEANS = {"nDCG@2": "one", "AP@2": "zero"}


def test_what_undefined_queries_count_may_depend_on_the_metric():
    """As in CatBoost. Printed, stored, compared and guarded by the value of each metric."""
    names, judged = ["NDCG:top=2", "MAP:top=2"], {"a": {"x": 1}, "b": {"x": 0}}
    result = rankql.evaluate(TWO, judged, names, conventions="catboost", interval=None)
    assert result.summary["mean"].to_list() == [1, 0.5]
    assert result.conventions["undefined"] == dict(zip(names, MEANS.values(), strict=True))
    assert "undefined=one for NDCG:top=2, zero for MAP:top=2" in repr(result)
    one = rankql.evaluate(TWO, judged, names[1], conventions="catboost", interval=None)
    assert one.conventions["undefined"] == "zero"
    same = rankql.evaluate(TWO, judged, names, conventions="catboost", undefined="one")
    assert same.summary["mean"].to_list() == [1, 1]
    other = {"a": {"x": 1.0, "y": 2.0}, "b": TWO["b"]}
    pairs = rankql.compare({"s": TWO, "t": other}, judged, names, conventions="catboost").pairs
    assert pairs["mean_a"].to_list() == [1, 0.5]
    limits = [f"{name}>=0.9" for name in names]
    gate = rankql.gate(TWO, judged, minimum=limits, conventions="catboost")
    assert gate.table["status"].to_list() == ["passed", "failed"]


def test_what_missing_queries_count_may_depend_on_the_metric():
    """As in BEIR, also where values are kept in files."""
    judged = {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}}
    names = ["NDCG@2", "MRR@2", "Accuracy@2", "R_cap@2", "P(denominator=min)@1"]
    result = rankql.evaluate(TWO, judged, names[:4], conventions="beir")
    assert result.summary["mean"].to_list() == pytest.approx([1, 2 / 3, 2 / 3, 2 / 3])
    assert result.summary["missing"].to_list() == [1] * 4
    alone = rankql.evaluate(TWO, judged, names[-1], conventions="beir", interval=None)
    assert alone.summary["mean"].item() == 1  # P leaves them out


@pytest.mark.parametrize(
    ("profile", "metrics", "message"),
    [
        ("xgboost", ["ndcg@3", "ndcg@3-"], "differ only in what undefined queries count"),
        ("xgboost", "auc", "XGBoost's auc of ranked groups"),
        ("lightgbm", "auc", "pools the rows of all groups"),
        ("catboost", "QueryAUC:type=Ranking", "'QueryAUC:type=Ranking' is not supported"),
        ("catboost", "NDCG:type=Foo", "type=Foo is not supported"),
        ("catboost", "NDCG:denominator=Position", "needs a top of at most 1000"),
        ("ranx", "NDCG:top=3", "a name of CatBoost. Set conventions='catboost'"),
        (None, "ndcg@3-", "a name of XGBoost. Set conventions='xgboost'"),
        (None, "pre@3", "a name of XGBoost"),
        ("torchmetrics", "GAUC", "TorchMetrics has no such mean"),
    ],
)
def test_what_a_tool_lacks_is_refused_under_its_profile(profile, metrics, message):
    with pytest.raises(rankql.RankqlError, match=re.escape(message)):
        rankql.evaluate(TWO, {"a": {"x": 1}}, metrics, conventions=profile)


def test_equal_scores_are_refused_only_within_the_cutoff():
    tied = {"a": {"x": 3.0, "y": 2.0, "z": 2.0, "w": 1.0}}
    judged = {"a": {"x": 1, "z": 1}}
    for metrics, refused in (("AP@1", False), ("AP@2", True), (["AP@1", "nDCG"], True)):
        for options in ({}, {"ties": "item"}):
            call = partial(
                rankql.evaluate, tied, judged, metrics, conventions="torchmetrics", **options
            )
            if refused and not options:
                with pytest.raises(rankql.RankqlError, match="permutes equal scores"):
                    call()
            else:
                assert call()
    assert (
        rankql.evaluate(tied, judged, "nDCG", conventions="torchmetrics").conventions["ties"]
        == "expected"
    )


@pytest.mark.parametrize("name", ["accuracy@1", "Accuracy@10", "recall_any@5"])
def test_names_of_success(name):
    assert parse(name)[0].canonical == f"Success@{name.partition('@')[2]}"


def test_a_changed_profile_says_so():
    data = frames(*other_tools.random_data(79))
    changed = rankql.evaluate(*data, "AP@10", conventions="trec_eval", ap_denominator="min")
    assert changed.conventions["profile"] == "trec_eval, changed"


def test_capped_recall_by_name():
    """min(k, R) is the denominator: per query as in BEIR, over all queries as of OTTO."""
    run = {"a": ["x", "y", "z"], "b": ["x"]}
    judged = {"a": {"y": 1, "z": 2, "w": 2}, "b": {"x": 1}}
    names = ["R_cap@2", "r_cap(rel=2)@3", "microR_cap@2"]
    means = rankql.evaluate(run, judged, names, interval=None).summary["mean"].to_list()
    assert means == pytest.approx([(1 / 2 + 1) / 2, (1 / 2 + 0) / 2, 2 / 3])


@pytest.mark.parametrize("value", ["one", 1])
def test_an_undefined_query_may_count_1(value):
    """As in LightGBM, XGBoost and CatBoost; everywhere where means are compared, too."""
    runs = {"s": {"a": ["y", "x"], "b": ["x"]}, "t": {"a": ["x"], "b": ["x"]}}
    judged = {"a": {"x": 1}, "b": {"x": 0}}
    result = rankql.evaluate(runs, judged, ["RR", "microR@1"], undefined=value, interval=None)
    assert result.summary["mean"].to_list() == pytest.approx([0.75, 0, 1, 1])
    comparison = rankql.compare(runs, judged, "RR", undefined=value)
    assert comparison.pairs["difference"].to_list() == [0.25]
    assert "counted as 1" in " ".join(comparison.notes)


@pytest.mark.few(2)
@pytest.mark.parametrize("other_metrics", [[], ["nDCG"]])  # with a cutoff, they are packed alone
@pytest.mark.parametrize(("denominator", "size"), [("k", 20), ("retrieved", 5), ("min", 6)])
def test_f1_is_the_harmonic_mean_of_the_precision_and_the_recall_shown(
    denominator, size, other_metrics
):
    """3 hits among 5 items, 6 relevant ones: of one query, and of all together."""
    run = {"q": {f"d{i}": 9.0 - i for i in range(5)}}
    qrels = {"q": {**dict.fromkeys(["d0", "d1", "d2", "x", "y", "z"], 1), "d3": 0}}
    metrics = ["P@20", "F1@20", "microP@20", "microF1@20", f"F1(denominator={denominator})@20"]
    options = {"precision_denominator": denominator}
    result = rankql.evaluate(run, qrels, [*metrics, *other_metrics], **options)
    precision, recall = 3 / size, 3 / 6
    for kind in ("", "micro"):
        assert result[f"{kind}P@20"] == pytest.approx(precision)
        f1 = 2 * precision * recall / (precision + recall)
        assert result[f"{kind}F1@20"] == pytest.approx(f1)
