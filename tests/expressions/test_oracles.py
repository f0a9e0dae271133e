"""Our values beside those of other libraries, query by query; each bridge of conventions is named.

They know a run and judgments; ours is one table: an item of the run only is unjudged (rel NULL), an
item of the judgments only was not retrieved (score NULL). A query without a relevant item is 0
there, and NULL here. `tests/registry/test_profiles.py` compares evaluate with them.
"""

import re
from itertools import product

import duckdb
import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval
import scipy.stats
import sklearn.metrics
from ir_measures import ERR, nDCG

import rankql
from support import metric_engines, other_tools
from support.paths import DL19

ENGINES = ["sql score", "polars score streaming"]


def random_data(seed, decimals):
    """A run, with ties if its scores are rounded, and judgments of the same queries."""
    run, qrels = other_tools.random_data(seed, queries=60)
    queries = sorted(run.keys() & qrels.keys())
    run = {q: {item: round(score, decimals) for item, score in run[q].items()} for q in queries}
    for items in run.values():
        if decimals > 6:  # no ties
            items.update({item: n / 64 for n, item in enumerate(items)})
    return run, {q: qrels[q] for q in queries}


TIED, UNTIED = random_data(1, 6), random_data(2, 9)


def ours(engine, data, metric, **options):
    """Our value of each query, 0 where NULL."""
    groups = [
        [(judged.get(item), scores.get(item), item) for item in {**judged, **scores}]
        for scores, judged in zip(*(side.values() for side in data), strict=True)
    ]
    values = metric_engines.ENGINES[engine].run(f"{metric}_by_score", groups, options)
    return [value or 0.0 for value in values]


def assert_same(ours, theirs, tolerance=1e-12):
    assert len(ours) == len(theirs) > 0
    assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    assert len(set(np.round(ours, 6))) > 1, "a constant proves nothing"


# trec_eval's name -> metric, options. `bpref` divides in single precision there.
TREC_EVAL = {
    **{"ndcg": ("ndcg", {}), "map": ("ap", {}), "set_P": ("precision_at", {})},
    **{"set_recall": ("recall_at", {}), "set_F": ("f1_at", {}), "recip_rank": ("rr", {})},
    **{"Rprec": ("r_precision", {}), "bpref": ("bpref", {}), "set_map": ("set_ap", {})},
    **{"infAP": ("infap", {}), "11pt_avg": ("interpolated_precision", {})},
    **{f"ndcg_cut_{k}": ("ndcg", {"k": k}) for k in (5, 100)},
    **{f"P_{k}": ("precision_at", {"k": k}) for k in (5, 100)},
    **{f"success_{k}": ("hit_at", {"k": k}) for k in (1, 5)},
    **{"map_cut_5": ("ap", {"k": 5, "denominator": "R"}), "recall_5": ("recall_at", {"k": 5})},
    **{
        f"iprec_at_recall_{x / 10:.2f}": ("interpolated_precision", {"recall": x / 10})
        for x in (0, 1, 3, 7)
    },
}


@pytest.mark.few(5)
@pytest.mark.parametrize("measure", TREC_EVAL)
def test_trec_eval(measure):
    """Ties are ordered alike. level: relevant from that grade; nDCG takes grades as they are."""
    metric, options = TREC_EVAL[measure]
    tolerance = 1e-6 if metric == "bpref" else 1e-12
    run, qrels = TIED
    for engine, level in product(ENGINES, (1, 2)):
        evaluator = pytrec_eval.RelevanceEvaluator(
            qrels, {re.sub(r"_[\d.]+$", "", measure)}, relevance_level=level
        )
        theirs = evaluator.evaluate(run)
        threshold = {} if metric == "ndcg" else {"threshold": level}
        values = ours(engine, TIED, metric, **options, **threshold)
        assert_same(values, [theirs[q][measure] for q in run], tolerance)


@pytest.mark.perl
@pytest.mark.parametrize("k", [5, 20])
def test_gdeval(k):
    """gdeval.pl: a scale up to 4, five decimals, division by zero where nothing is relevant."""
    run, qrels = UNTIED
    qrels = {q: grades for q, grades in qrels.items() if any(grades.values())}
    data = {q: run[q] for q in qrels}, qrels
    number = {q: q.removeprefix("q") for q in qrels}
    judged = [ir_measures.Qrel(number[q], i, r) for q in qrels for i, r in qrels[q].items()]
    scored = [ir_measures.ScoredDoc(number[q], i, s) for q in qrels for i, s in run[q].items()]
    for measure, metric, options in (
        (ERR @ k, "err", {"max_rel": 4}),
        (nDCG(dcg="exp-log2") @ k, "ndcg", {"gain": "exp2"}),
    ):
        result = {m.query_id: m.value for m in ir_measures.iter_calc([measure], judged, scored)}
        for engine in ("sql score", "polars score"):
            values = ours(engine, data, metric, k=k, **options)
            assert_same(values, [result[number[q]] for q in qrels], 6e-6)


def dense(seed, kinds, grades=4):
    """40 rankings of 12 items, all judged and all scored; scores of few or many kinds."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, grades, size=(40, 12)), rng.integers(0, kinds, size=(40, 12)) / 8


@pytest.mark.few(2)
@pytest.mark.parametrize("engine", ["sql score", "polars score"])
@pytest.mark.parametrize("kinds", [2, 10**6])
def test_sklearn_auc(engine, kinds):
    """With ties, heavy or not; NULL where scikit-learn has none."""
    truth, scores = dense(11, kinds, grades=2)
    truth[0] = 1
    groups = [
        [(int(r), float(s), f"i{i}") for i, (r, s) in enumerate(zip(*both, strict=True))]
        for both in zip(truth, scores, strict=True)
    ]
    values = metric_engines.ENGINES[engine].run("auc_by_score", groups, {"ties": "expected"})
    assert values[0] is None
    theirs = [
        sklearn.metrics.roc_auc_score(t, s) if 0 < sum(t) < len(t) else None
        for t, s in zip(truth, scores, strict=True)
    ]
    assert all(map(metric_engines.same, values, theirs))


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
    weighted = np.average(theirs, weights=[*map(len, both)])
    assert_same([result["AUC"], result["GAUC"]], [np.mean(theirs), weighted])
    assert result.summary["undefined"].to_list() == [40 - len(both)] * 2


@pytest.mark.few(4)
@pytest.mark.parametrize("engine", metric_engines.ROWS)
def test_sklearn_rating(engine):
    truth, scores = dense(9, 100)
    pairs = [*zip(truth.tolist(), scores.tolist(), strict=True)]
    groups = [list(zip(*pair, strict=True)) for pair in pairs]
    for metric, theirs in {
        "rmse": sklearn.metrics.root_mean_squared_error,
        "mae": sklearn.metrics.mean_absolute_error,
    }.items():
        values = metric_engines.ENGINES[engine].run(metric, groups, {})
        assert_same(values, [float(theirs(*pair)) for pair in pairs])


@pytest.mark.parametrize("engine", ["sql", "polars", "pipe streaming"])
def test_scipy_kendall(engine):
    """Of grades and positions counted from the end; NaN there where all grades are equal."""
    run, end = metric_engines.ENGINES[engine].run, -np.arange(12)
    truth, _ = dense(10, 10, grades=3)
    truth[0] = 1
    orders = np.array([np.random.default_rng(i).permutation(12) for i in range(40)])
    taus = [[scipy.stats.kendalltau(rels, end).statistic for rels in x] for x in (truth, orders)]
    groups = [[[(int(rel), pos) for pos, rel in enumerate(rels, 1)] for rels in x]
              for x in (truth, orders)]  # fmt: skip
    values = run("kendall_tau_b", groups[0], {})
    assert values[0] is None and np.isnan(taus[0][0])
    assert_same(values[1:], taus[0][1:])
    # With all grades different, tau = 1 - 2 * (share of pairs in the wrong order).
    shares = run("kendall_tau_distance", groups[1], {"normalized": True})
    assert_same([1 - 2 * share for share in shares], taus[1])


# A run of TREC 2019 Deep Learning by DuckDB's CSV reader: the published means.
FORMAT = "delim = ' ', header = false, quote = '', all_varchar = true"
JOINED = f"""
CREATE TEMP TABLE joined AS
SELECT query, item, rel::INTEGER AS rel, score::DOUBLE AS score, file_pos::INTEGER AS pos
FROM read_csv('{DL19}/dl19.qrels', {FORMAT}, names = ['query', 'zero', 'item', 'rel']) AS judged
FULL JOIN read_csv('{DL19}/BM25.run', {FORMAT},
                   names = ['query', 'q0', 'item', 'file_pos', 'score', 'tag']) AS run
USING (query, item)
WHERE query IN (SELECT column0 FROM read_csv('{DL19}/dl19.qrels', {FORMAT}))
"""


@pytest.mark.few(1)
@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
@pytest.mark.parametrize(
    ("suffix", "by", "source"),
    [
        ("", "pos", "joined"),
        ("", "pos", "ranked('unranked', query := 'query')"),
        ("_by_score", "score, item", "joined"),
    ],
)
def test_bm25_has_the_published_means(suffix, by, source):
    con = metric_engines.connect()
    con.execute(JOINED)
    con.execute("CREATE TEMP VIEW unranked AS SELECT * EXCLUDE (pos) FROM joined")
    values = con.sql(f"""
        SELECT avg(ndcg), avg(ap), avg(rr), count(*) FROM (
            SELECT ndcg{suffix}(rel, {by}, 10) AS ndcg, rr{suffix}(rel, {by}, 10) AS rr,
                   ap{suffix}(rel, {by}, denominator := 'R') AS ap
            FROM {source} GROUP BY query)
    """).fetchall()[0]
    assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233", "43.0000"]


# A textbook's table of ratings: user, grade, predicted grade, position of the recommended items.
RATED = [
    ("a", 5, 4.5, 1), ("a", 3, 4.0, 2), ("a", 4, 3.0, 3), ("b", 2, 2.5, 1), ("b", 4, 4.5, 2),
]  # fmt: skip


def test_metrics_of_a_textbook_are_over_all_rows():
    """Its RMSE and MAE are those of all ratings, and its precision of all recommended items."""
    rows = pl.DataFrame(RATED, ["user", "rel", "score", "pos"], orient="row")
    rows = rows.with_columns(item=pl.int_range(pl.len()))
    errors = np.array([rel - score for _, rel, score, _ in RATED])
    names = {"microRMSE": np.sqrt(np.mean(errors**2)), "microMAE": np.abs(errors).mean()}
    byuser = [np.sqrt(np.mean(errors[:3] ** 2)), np.sqrt(np.mean(errors[3:] ** 2))]
    found = rankql.evaluate(rows.drop("pos"), metrics=[*names, "RMSE"])
    assert found["RMSE"] == pytest.approx(np.mean(byuser)) != found["microRMSE"]
    for name, value in names.items():
        assert found[name] == pytest.approx(value)
    binary = rows.with_columns(rel=pl.col("rel") >= 4).drop("score")
    micro = rankql.evaluate(binary, metrics=["microP(denominator=retrieved)@5", "microP@5"])
    assert micro["microP(denominator=retrieved)@5"] == pytest.approx(3 / 5)
    assert micro["microP@5"] == pytest.approx(3 / 10)


def test_err_of_probabilities():
    """Chapelle's definition, where a grade is the probability to stop."""
    rows = pl.DataFrame({"query": 1, "item": [*"abc"], "rel": [0.25, 0.5, 1.0], "pos": [1, 2, 3]})
    expected = 0.25 + 0.75 * 0.5 / 2 + 0.75 * 0.5 / 3
    assert rankql.evaluate(rows, metrics="ERR(stop=rel)@5")["ERR(stop=rel)@5"] == pytest.approx(
        expected
    )
    assert rows.select(rankql.err(k=5, stop="rel")).item() == pytest.approx(expected)


def test_micro_recall_takes_the_query_as_micro_precision_does():
    con = duckdb.connect()
    rankql.register(con)
    rows = pl.DataFrame({"user": [1, 1, 2], "rel": [1, 1, 1], "pos": [1, None, 1]})
    con.register("rows", rows)
    for name in ("micro_precision_at", "micro_recall_at", "micro_f1_at"):
        sql = con.sql(f"SELECT {name}(rel, pos, 2, query := user) FROM rows").fetchall()[0][0]
        assert getattr(rankql, name)(rows, k=2, query="user").item() == pytest.approx(sql)
    assert rankql.micro_recall_at(rows, k=2, query="user").item() == pytest.approx(2 / 3)
