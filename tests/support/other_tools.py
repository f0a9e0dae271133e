"""The five peers that evaluate has a profile for, behind one signature, and data to compare with.

`peer(run, qrels, metrics)` gives the peer's value of each metric, in our spelling, and query. Of
these the peers take the plain mean, where no `<peer>_mean` says otherwise. A peer that knows no
metric of that name raises KeyError. Every peer is imported when it is called, not before.
"""

import os
import re
from functools import cache
from math import log2
from typing import NamedTuple


class Metric(NamedTuple):
    """`nDCG(gain=exp2)@10` in parts; k None: no cutoff; level: relevant from that grade."""

    name: str
    k: int | None
    options: dict[str, str]

    @property
    def level(self):
        return int(self.options.get("rel", 1))


def parse(metric):
    result = re.fullmatch(r"(\w+)(?:\((.+)\))?(?:@(\d+))?", metric)
    assert result, metric
    name, options, k = result.groups()
    pairs = (pair.split("=") for pair in options.split(",")) if options else ()
    return Metric(name, int(k) if k else None, {key.strip(): value for key, value in pairs})


# trec_eval

TREC_EVAL = {"nDCG": "ndcg", "AP": "map", "RR": "recip_rank", "P": "set_P", "R": "set_recall"}
TREC_EVAL |= {"nDCG@k": "ndcg_cut_{}", "AP@k": "map_cut_{}", "P@k": "P_{}", "R@k": "recall_{}"}
TREC_EVAL |= {"F1": "set_F", "Success@k": "success_{}", "Rprec": "Rprec", "Bpref": "bpref"}


def trec_eval(run, qrels, metrics, judged_only=False):
    """trec_eval 9.0.8 through pytrec_eval-terrier 0.5.11; `judged_only` is its flag -J.

    `rel` is its flag -l and says nothing to nDCG. Only queries of both run and qrels have values.
    trec_eval 9 averages these; with -c a judged query that the run lacks counts as 0.
    """
    import pytrec_eval

    values = {}
    for metric in metrics:
        name, k, _ = parsed = parse(metric)
        theirs = TREC_EVAL[f"{name}@k" if k else name].format(k)
        evaluator = pytrec_eval.RelevanceEvaluator(
            qrels, {theirs}, relevance_level=parsed.level, judged_docs_only_flag=judged_only
        )
        values[metric] = {q: result[theirs] for q, result in evaluator.evaluate(run).items()}
    return values


# scikit-learn

SKLEARN = {"nDCG": "ndcg_score", "DCG": "dcg_score"}


def sklearn(run, qrels, metrics):
    """scikit-learn 1.9.1, sklearn.metrics.ndcg_score and dcg_score, one call for each query.

    They know scored items only, so an item that was not retrieved is left out, of the ideal too; an
    unjudged one has grade 0. They refuse one item alone: a worse one of grade 0 joins it here,
    which changes nothing. ndcg_score refuses negative grades, dcg_score keeps their sign.
    """
    import sklearn.metrics

    values = {}
    for metric in metrics:
        name, k, _ = parse(metric)
        score = getattr(sklearn.metrics, SKLEARN[name])
        values[metric] = {}
        for query in [query for query in run if query in qrels]:
            grades = [qrels[query].get(item, 0) for item in run[query]]
            scores = list(run[query].values())
            if len(scores) == 1:
                grades, scores = [*grades, 0], [1.0, 0.0]
            values[metric][query] = score([grades], [scores], k=k)
    return values


# ranx

RANX = {"nDCG": "ndcg", "DCG": "dcg", "AP": "map", "RR": "mrr", "P": "precision", "R": "recall"}
RANX |= {"F1": "f1", "Success": "hit_rate", "Rprec": "r-precision", "Bpref": "bpref", "RBP": "rbp"}
RANX |= {"SetP": "precision", "SetR": "recall", "NumRelRet": "hits"}


def ranx_name(metric):
    """What ranx calls a metric. `gain=exp2` is ndcg_burges, `rel` its suffix -l."""
    name, k, options = parsed = parse(metric)
    theirs = RANX[name] + ("_burges" if options.get("gain") == "exp2" else "")
    theirs += f"@{k}" if k else ""
    theirs += options["p"].removeprefix("0") if "p" in options else ""
    return theirs + (f"-l{parsed.level}" if parsed.level != 1 else "")


@cache
def ranx_library():
    """ranx as plain Python, because numba compiles it for a minute.

    Up to 15 items numba's sort keeps equal scores in order, which that of numpy does not promise.
    """
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    import numpy
    import ranx as library
    from ranx.data_structures import common

    common.typed_list_argosrt = lambda values: numpy.argsort(values, kind="stable")
    return library


def ranx(run, qrels, metrics):
    """ranx 0.3.21, ranx.evaluate of a Run and a Qrels.

    Of all judged queries: it refuses other queries than those unless make_comparable adds and drops
    them. `rel` of ours, its suffix -l, cuts the gain of nDCG as well.
    Bpref is NaN where all judged items are relevant and one was retrieved.
    """
    library, values = ranx_library(), {}
    theirs_run, theirs_qrels = library.Run(run), library.Qrels(qrels)
    if run.keys() != qrels.keys():
        theirs_run.make_comparable(theirs_qrels)
    for metric in metrics:
        theirs = ranx_name(metric)
        result = library.evaluate(theirs_qrels, theirs_run, [theirs], return_mean=False)
        values[metric] = dict(zip(theirs_run.keys(), map(float, result), strict=True))
    return values


# RecBole


def recbole(run, qrels, metrics):
    """RecBole 1.2.1, recbole/evaluator/metrics.py, class by class; it always has a k.

    Its users are those with a relevant item. Tied scores are left to torch.topk, which promises no
    order: here it is that of the input, so a list exported from RecBole gives RecBole's value.
    """
    values = {}
    for metric in metrics:
        name, k, _ = parsed = parse(metric)
        formula = RECBOLE_FORMULAS[name]
        assert k, f"{metric}: RecBole has no metric without a cutoff"
        values[metric] = {}
        for query, grades in qrels.items():
            positive = {item for item, grade in grades.items() if grade >= parsed.level}
            if positive:
                top = [item in positive for item in ranked(run.get(query, {}))[:k]]
                values[metric][query] = formula(top, len(positive), k)
    return values


# Of: is the item at each position relevant, the number of relevant items, k.
RECBOLE_FORMULAS = {
    "Success": lambda top, total, k: float(any(top)),
    "RR": lambda top, total, k: 1 / (top.index(True) + 1) if any(top) else 0.0,
    "P": lambda top, total, k: sum(top) / k,
    "R": lambda top, total, k: sum(top) / total,
    "AP": lambda top, total, k: (
        sum(sum(top[:pos]) / pos for pos, hit in enumerate(top, 1) if hit) / min(total, k)
    ),
    "nDCG": lambda top, total, k: (
        sum(1 / log2(pos + 1) for pos, hit in enumerate(top, 1) if hit)
        / sum(1 / log2(pos + 1) for pos in range(1, min(total, k) + 1))
    ),
}


def ranked(scores):
    """The items by score, tied ones in the order of the input."""
    return sorted(scores, key=lambda item: -scores[item])


# Spark

SPARK = {"AP": "meanAveragePrecision", "AP@k": "meanAveragePrecisionAt"}
SPARK |= {"nDCG@k": "ndcgAt", "P@k": "precisionAt", "R@k": "recallAt"}


def spark(run, qrels, metrics):
    """Spark 4.3.0, org.apache.spark.mllib.evaluation.RankingMetrics, one for each judged query.

    It takes lists: items by score, tied ones in the order of the input, and the relevant ones. Only
    the Scala class knows grades, which `gain=exp2` hands over, best first: it does not sort them.
    """
    context = spark_session().sparkContext
    jvm = context._jvm
    text, number = jvm.java.lang.Object, jvm.double
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    values = {metric: {} for metric in metrics}
    for metric in metrics:
        name, k, options = parsed = parse(metric)
        theirs = SPARK[f"{name}@k" if k else name]
        for query, grades in qrels.items():
            positive = relevant(grades, parsed.level)
            gains = [float(grades[item]) for item in positive] if "gain" in options else []
            items, rows = ranked(run.get(query, {})), jvm.java.util.ArrayList()
            arrays = [
                java_array(text, items),
                java_array(text, positive),
                java_array(number, gains),
            ]
            rows.add(jvm.scala.Tuple3(*arrays))
            rdd = context._jsc.parallelize(rows, 1).rdd()
            result = jvm.org.apache.spark.mllib.evaluation.RankingMetrics(rdd, tag)
            values[metric][query] = getattr(result, theirs)(*([k] if k else []))
    return values


def relevant(grades, level):
    """The relevant items, best first."""
    return [item for item in ranked(grades) if grades[item] >= level]


def java_array(kind, values):
    array = spark_session().sparkContext._gateway.new_array(kind, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array


def spark_session():
    """The session of this process, which the caller has opened."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
