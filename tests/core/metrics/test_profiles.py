"""Every profile against its peer, on random data with ties, gaps and queries on one side only."""

from functools import partial

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql.core.metrics.parse import parse
from support import other_tools, samples, spark_sessions
from support.parameters import few
from support.refusals import refuses
from support.samples import frames

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


@few(1)("seed", range(2))
@pytest.mark.parametrize(
    ("profile", "negative"),
    [("trec_eval", False), ("trec_eval", True), ("sklearn", False), ("recbole", False)],
)
def test_profiles_give_the_values_of_their_tools(profile, negative, seed):
    run, qrels = samples.random_data(seed, negative=negative)
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
    run, qrels = samples.random_data(0, negative=True)
    compare("ranx", peer, run, qrels, metrics)
    # Its bpref is NaN where all judged items are relevant, and as plain Python where none is.
    only = {q for q, x in qrels.items() if len({grade >= 1 for grade in x.values()}) == 1}
    compare("ranx", peer, run, qrels, ["Bpref", *at("P")], leave_out=only)
    run, qrels = samples.random_data(4, longest=12)
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
    run, qrels = samples.random_data(3, queries=20)
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

    run, qrels = samples.random_data(3, negative=True)
    result = compare("trec_eval", peer, run, qrels, [*TREC_EVAL])
    higher = rankql.evaluate(*frames(run, qrels), "infAP", conventions="trec_eval", threshold=2)
    assert higher["infAP"] != result["infAP"]
    with pytest.raises(rankql.RankqlError, match="infAP"):
        rankql.evaluate(*frames(run, qrels), ["infAP", "Bpref"], conventions="trec_eval")


@few(1)("missing", ["skip", "zero"])
def test_trec_eval_geometric_mean(missing):
    """Of all queries, those without relevant items and, with -c, those that the run lacks."""
    run, qrels = samples.random_data(3)
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
    run, qrels = samples.random_data(3)
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
    data = samples.random_data(11)
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
    run, qrels = samples.random_data(4)
    run = {q: {d: float(np.float32(s)) for d, s in items.items()} for q, items in run.items()}
    names = ["nDCG@10", "AP", "RR", "P@5", "Bpref"]
    compare("trec_eval_10", other_tools.trec_eval, run, qrels, names, missing="skip")


def test_trec_eval_10_rounds_recalls_to_the_nearest_item():
    """By its source, m_iprec_at_recall.c: lround(recall * R)."""
    names = ["IPrec@0.3", "IPrec(rounding=nearest)@0.3", "IPrec(rounding=up)@0.3"]
    data = frames(*samples.random_data(4))
    options = {"conventions": "trec_eval_10", "missing": "skip"}
    plain, nearest, up = (rankql.evaluate(*data, name, **options)[name] for name in names)
    assert plain == nearest != up


def test_names_of_set_metrics():
    """SetP, SetR and SetF of ir_measures: over all that is retrieved, whatever the conventions."""
    run, qrels = samples.random_data(6)
    for name in [f"Set{x}{options}" for x in "PRF" for options in ("", "(rel=2)")]:
        result = rankql.evaluate(*frames(run, qrels), name, precision_denominator="min")
        ours = dict(result.per_query.select("query", pl.last().fill_null(0)).rows())
        values = [*ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)]
        assert len(values) > 10
        assert [ours[x.query_id] for x in values] == pytest.approx([x.value for x in values])
    for name, instead in {"SetP@5": "P", "SetF(k=5)": "F1", "SetP(denominator=k)": "P"}.items():
        with pytest.raises(rankql.RankqlError, match=f"Use {instead}$"):
            parse(name)


def test_profiles_refuse_shorter_ideal_rankings():
    """OpenSearch cuts the ideal ranking at the one hit, and gets 1."""
    tool = "opensearch"
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


def test_metrics_that_differ_in_what_undefined_queries_count_are_both_shown():
    """XGBoost counts 1 for ndcg@3 and 0 for ndcg@3-; the other two are spellings of these."""
    judged = {"a": {"x": 1}, "b": {"y": 0}}
    names = ["ndcg@3", "ndcg@3-", "nDCG@3", "ndcg@2-"]
    of_two = {"conventions": "xgboost", "interval": None}
    result = rankql.evaluate(TWO, judged, names, **of_two)
    assert result.metrics == ["ndcg@3", "ndcg@3-", "ndcg@2-"]
    alone = [rankql.evaluate(TWO, judged, name, **of_two)[name] for name in result.metrics]
    assert [result[name] for name in result.metrics] == alone
    assert alone[0] == alone[1] + 0.5
    limits = ["ndcg@3->=0", "ndcg@3>=0", "nDCG@3>=0"]
    gate = rankql.gate(TWO, judged, minimum=limits, conventions="xgboost")
    assert gate.table["mean"].to_list() == [alone[1], alone[0], alone[0]]


test_what_a_tool_lacks_is_refused_under_its_profile = refuses(
    "profiles", globals(), "rankql.evaluate(TWO, {'a': {'x': 1}}, %s)"
)


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


def test_a_changed_profile_says_so():
    data = frames(*samples.random_data(79))
    changed = rankql.evaluate(*data, "AP@10", conventions="trec_eval", ap_denominator="min")
    assert changed.conventions["profile"] == "trec_eval, changed"


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


@few(2)(
    ("denominator", "size", "other_metrics"),  # with a cutoff, they are packed alone
    [("k", 20, ["nDCG"]), ("retrieved", 5, []), ("min", 6, ["nDCG"])],
)
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
    every = rankql.evaluate(run, qrels, ["microP@20", "microP@9"], ties="expected", **options)
    assert [*every.summary["mean"]] == pytest.approx([precision, 3 / min(size, 9)])


def test_parameters_of_catboost_name_its_profile():
    """Under which alone the name is read."""
    with pytest.raises(rankql.RankqlError, match="Set conventions='catboost' to"):
        parse("NDCG:top=5;type=Exp")
