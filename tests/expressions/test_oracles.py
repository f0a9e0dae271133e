"""Our values beside those of other libraries, query by query; each bridge of conventions is named.

Bridges that hold throughout:
- Peers know a run and judgments; ours is one table: an item of the run only is unjudged (rel NULL),
  an item of the judgments only was not retrieved (score NULL).
- A query without a relevant item: peers say 0, ours NULL (`zero` below).
- trec_eval orders equal scores by item descending, as we do; the other peers get runs without ties,
  unless said otherwise.
"""

import random
import re
import warnings
from itertools import product

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval
import scipy.stats
import sklearn.metrics
from ir_measures import ERR, nDCG

import rankql
from support import metric_engines

ENGINES = ["sql score", "polars score streaming"]
ROW_ENGINES = ["sql", "polars", "pipe", "pipe streaming"]


class Data:
    """Judgments and a run of some queries, in the shapes that the peers and we take."""

    def __init__(self, judgments, run):
        self.judgments, self.run = judgments, run
        self.queries = sorted(judgments)
        self.groups = [
            [
                (judgments[q].get(item), run[q].get(item), item)
                for item in {**judgments[q], **run[q]}
            ]
            for q in self.queries
        ]

    def ours(self, name, metric, **options):
        """Our value of each query, 0 where NULL."""
        values = metric_engines.ENGINES[name].run(f"{metric}_by_score", self.groups, options)
        return [zero(value) for value in values]

    def restricted(self, keep):
        kept = [q for q in self.queries if keep(q)]
        assert kept
        return Data({q: self.judgments[q] for q in kept}, {q: self.run[q] for q in kept})


def zero(value):
    return 0.0 if value is None else value


def made(seed, ties):
    """60 queries of 30 items, some unjudged or not retrieved; some queries have no relevant one."""
    rng = random.Random(seed)
    judgments, run = {}, {}
    for q in range(60):
        items = [f"d{i}" for i in range(30)]
        rng.shuffle(items)
        best = rng.choice([0, 1, 3, 3, 3])
        judged = rng.sample(items, rng.randint(1, 20))
        judgments[f"{q:03}"] = {item: rng.randint(0, best) for item in judged}
        retrieved = rng.sample(items, rng.randint(12, 25))
        levels = range(4) if ties else range(1000)
        scores = [
            level / 4 for level in (rng.choices if ties else rng.sample)(levels, k=len(retrieved))
        ]
        run[f"{q:03}"] = dict(zip(retrieved, scores, strict=True))
    return Data(judgments, run)


TIED, UNTIED = made(1, ties=True), made(2, ties=False)


def same(ours, theirs, tolerance=1e-12):
    assert len(ours) == len(theirs) > 0
    assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    assert len(set(np.round(ours, 6))) > 1, "a constant proves nothing"


# trec_eval

# trec_eval's name -> metric, options. `bpref` divides in single precision there.
TREC_EVAL = {
    "ndcg": ("ndcg", {}),
    "ndcg_cut_5": ("ndcg", {"k": 5}),
    "ndcg_cut_10": ("ndcg", {"k": 10}),
    "ndcg_cut_100": ("ndcg", {"k": 100}),
    "map": ("ap", {}),
    "map_cut_5": ("ap", {"k": 5, "denominator": "R"}),
    "map_cut_100": ("ap", {"k": 100, "denominator": "R"}),
    "P_5": ("precision_at", {"k": 5}),
    "P_100": ("precision_at", {"k": 100}),
    "set_P": ("precision_at", {}),
    "recall_5": ("recall_at", {"k": 5}),
    "recall_100": ("recall_at", {"k": 100}),
    "set_recall": ("recall_at", {}),
    "set_F": ("f1_at", {}),
    "success_1": ("hit_at", {"k": 1}),
    "success_5": ("hit_at", {"k": 5}),
    "recip_rank": ("rr", {}),
    "Rprec": ("r_precision", {}),
    "bpref": ("bpref", {}),
    "set_map": ("set_ap", {}),
    "infAP": ("infap", {}),
    "11pt_avg": ("interpolated_precision", {}),
    **{
        f"iprec_at_recall_{x / 10:.2f}": ("interpolated_precision", {"recall": x / 10})
        for x in (0, 1, 3, 7, 10)
    },
}


def trec_eval(data, measure, level=1):
    evaluator = pytrec_eval.RelevanceEvaluator(
        data.judgments, {re.sub(r"_[\d.]+$", "", measure)}, relevance_level=level
    )
    result = evaluator.evaluate(data.run)
    return [result[q][measure] for q in data.queries]


@pytest.mark.parametrize("measure", TREC_EVAL)
def test_trec_eval(measure):
    """Ties are ordered alike. level: relevant from that grade; nDCG takes grades as they are."""
    metric, options = TREC_EVAL[measure]
    tolerance = 1e-6 if metric == "bpref" else 1e-12
    for data, name in product((TIED, UNTIED), ENGINES):
        same(data.ours(name, metric, **options), trec_eval(data, measure), tolerance)
        if metric != "ndcg":
            ours = data.ours(name, metric, **options, threshold=2)
            same(ours, trec_eval(data, measure, level=2), tolerance)


# ir_measures


def ir_measure(data, measure):
    judgments = [
        ir_measures.Qrel(q, i, r) for q in data.queries for i, r in data.judgments[q].items()
    ]
    run = [ir_measures.ScoredDoc(q, i, s) for q in data.queries for i, s in data.run[q].items()]
    result = {m.query_id: m.value for m in ir_measures.iter_calc([measure], judgments, run)}
    return [result[q] for q in data.queries]


@pytest.mark.perl
@pytest.mark.parametrize("k", [5, 20])
def test_gdeval(k):
    """gdeval.pl: a scale up to 4, five decimals, division by zero where nothing is relevant."""
    data = UNTIED.restricted(lambda q: any(UNTIED.judgments[q].values()))
    same(data.ours("sql score", "err", k=k, max_rel=4), ir_measure(data, ERR @ k), 6e-6)
    exp2 = ir_measure(data, nDCG(dcg="exp-log2") @ k)
    same(data.ours("sql score", "ndcg", k=k, gain="exp2"), exp2, 6e-6)
    same(data.ours("polars score", "ndcg", k=k, gain="exp2"), exp2, 6e-6)


# scikit-learn


def dense(seed, kinds, grades=4):
    """40 rankings of 12 items, all judged and all scored; scores of few or many kinds."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, grades, size=(40, 12))
    return truth, rng.integers(0, kinds, size=(40, 12)) / 8


def groups_of(truth, scores):
    return [
        [
            (int(rel), float(score), f"i{i}")
            for i, (rel, score) in enumerate(zip(*both, strict=True))
        ]
        for both in zip(truth, scores, strict=True)
    ]


@pytest.mark.parametrize("name", ENGINES)
def test_sklearn_average_precision(name):
    """Without ties it is AP of the whole ranking; nothing relevant is 0 there, with a warning."""
    truth, scores = dense(8, 10**6, grades=2)
    ours = metric_engines.ENGINES[name].run("ap_by_score", groups_of(truth, scores), {})
    with warnings.catch_warnings(action="ignore"):
        theirs = [
            sklearn.metrics.average_precision_score(t, s)
            for t, s in zip(truth, scores, strict=True)
        ]
    same([zero(value) for value in ours], theirs)


@pytest.mark.parametrize("name", ["sql score", "polars score"])
@pytest.mark.parametrize("values", [2, 10**6])
def test_sklearn_auc(name, values):
    """With ties, heavy or not; NULL where scikit-learn has none."""
    truth, scores = dense(11, values, grades=2)
    truth[0] = 1
    groups = groups_of(truth, scores)
    ours = metric_engines.ENGINES[name].run("auc_by_score", groups, {"ties": "expected"})
    assert ours[0] is None
    theirs = [
        sklearn.metrics.roc_auc_score(t, s) if 0 < sum(t) < len(t) else None
        for t, s in zip(truth, scores, strict=True)
    ]
    assert all(map(metric_engines.same, ours, theirs))


def test_sklearn_gauc():
    """Weighted by the judged items of each query; a query with one kind only has no weight."""
    truth, scores = dense(12, 9, grades=2)
    truth[0] = 1
    rows = [
        (q, f"i{i}", int(rel), float(score))
        for q, ranking in enumerate(zip(truth, scores, strict=True))
        for i, (rel, score) in enumerate(zip(*ranking, strict=True))
        if q % 3 or i < 5
    ]
    log = pl.DataFrame(rows, schema=["query", "item", "rel", "score"], orient="row")
    both = [q for _, q in log.group_by("query") if q["rel"].n_unique() == 2]
    theirs = [sklearn.metrics.roc_auc_score(q["rel"], q["score"]) for q in both]
    result = rankql.evaluate(log, metrics=["AUC", "GAUC"], ties="expected", interval=None)
    same(
        [result["AUC"], result["GAUC"]],
        [np.mean(theirs), np.average(theirs, weights=[*map(len, both)])],
    )
    assert result.summary["undefined"].to_list() == [40 - len(both)] * 2


@pytest.mark.parametrize("name", metric_engines.ROWS)
def test_sklearn_rating(name):
    truth, scores = dense(9, 100)
    groups = [
        list(zip(t, s, strict=True)) for t, s in zip(truth.tolist(), scores.tolist(), strict=True)
    ]
    for metric, theirs in {
        "rmse": sklearn.metrics.root_mean_squared_error,
        "mae": sklearn.metrics.mean_absolute_error,
    }.items():
        ours = metric_engines.ENGINES[name].run(metric, groups, {})
        same(ours, [float(theirs(t, s)) for t, s in zip(truth, scores, strict=True)])


# scipy


@pytest.mark.parametrize("name", ROW_ENGINES)
def test_scipy_kendall(name):
    """Of grades and positions counted from the end; NaN there where all grades are equal."""
    truth, _ = dense(10, 10, grades=3)
    truth[0] = 1
    groups = [[(int(rel), pos) for pos, rel in enumerate(rels, 1)] for rels in truth]
    theirs = [scipy.stats.kendalltau(rels, -np.arange(12)).statistic for rels in truth]
    ours = metric_engines.ENGINES[name].run("kendall_tau_b", groups, {})
    assert ours[0] is None and np.isnan(theirs[0])
    same(ours[1:], theirs[1:])
    # With all grades different, tau = 1 - 2 * (share of pairs in the wrong order).
    orders = np.array([np.random.default_rng(i).permutation(12) for i in range(40)])
    groups = [[(int(rel), pos) for pos, rel in enumerate(rels, 1)] for rels in orders]
    ours = metric_engines.ENGINES[name].run("kendall_tau_distance", groups, {"normalized": True})
    taus = [scipy.stats.kendalltau(rels, -np.arange(12)).statistic for rels in orders]
    same([1 - 2 * value for value in ours], taus)
