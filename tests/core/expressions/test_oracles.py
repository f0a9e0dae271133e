"""Our values beside those of other libraries, query by query; each bridge of conventions is named.

They know a run and judgments; ours is one table: an item of the run only is unjudged (rel NULL), an
item of the judgments only was not retrieved (score NULL). A query without a relevant item is 0
there, and NULL here. `tests/core/metrics/test_profiles.py` compares evaluate with them.
"""

import itertools
import random

import ir_measures
import numpy as np
import polars as pl
import pytest
import scipy.stats
import sklearn.metrics
from ir_measures import ERR, nDCG
from pytest import approx
from scipy.stats import kendalltau

import rankql
from support import definitions, metric_engines, samples
from support.parameters import few
from support.paths import DL19


def untied_data():
    """A run without ties, and judgments of the same queries."""
    run, qrels = samples.random_data(2, queries=60)
    queries = sorted(run.keys() & qrels.keys())
    run = {q: {item: n / 64 for n, item in enumerate(run[q])} for q in queries}
    return run, {q: qrels[q] for q in queries}


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


@pytest.mark.perl
@few(1)("k", [5, 20])
def test_gdeval(k):
    """gdeval.pl: a scale up to 4, five decimals, division by zero where nothing is relevant."""
    run, qrels = untied_data()
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


@few(2)("engine", ["sql score", "polars score"])
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


@few(2)("engine", metric_engines.ROWS)
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


@few(2)("engine", ["sql", "polars", "pipe streaming"])
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
    values = con.execute(f"""
        SELECT avg(ndcg), avg(ap), avg(rr), count(*) FROM (
            SELECT ndcg{suffix}(rel, {by}, 10) AS ndcg, rr{suffix}(rel, {by}, 10) AS rr,
                   ap{suffix}(rel, {by}, denominator := 'R') AS ap
            FROM {source} GROUP BY query)
    """).fetchall()[0]
    assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233", "43.0000"]


# How similar two rankings are: the definitions of the papers, scipy, and evaluate

ENGINES = pytest.mark.parametrize("engine", ["sql", "polars"])


def values(engine, metric, groups, **options):
    return metric_engines.ENGINES[engine].run(metric, groups, options)


def rows(first, second):
    """Two lists of items as rows (reference, pos)."""
    items = dict.fromkeys([*first, *second])
    places = [{item: i for i, item in enumerate(items, 1)} for items in (first, second)]
    return [(places[0].get(item), places[1].get(item)) for item in items]


@pytest.mark.slow
@ENGINES
@pytest.mark.parametrize("p", [0.5, 0.8, 0.9, 0.999])
def test_rbo_of_one_list_with_itself_is_one_to_the_last_bit(engine, p):
    groups = [[(i, i) for i in range(1, n + 1)] for n in [*range(1, 61), 500]]
    assert set(values(engine, "rbo", groups, p=p)) == {1.0}
    # Not if the order or an item differs, or one list is longer; and never more.
    swapped = [[*group[2:], (1, 2), (2, 1)] for group in groups[1:40]]
    longer = [[*group, (None, len(group) + 1)] for group in groups]
    other = [[*group, (None, len(group) + 1), (len(group) + 1, None)] for group in groups]
    assert max(values(engine, "rbo", swapped, p=p)) < 1
    assert max(values(engine, "rbo", longer + other, p=p)) <= 1


@pytest.mark.few(2)
@ENGINES
@pytest.mark.parametrize(("metric", "options"), [("tau_ap", {}), ("rbo", {"p": 0.999})])
def test_lists_of_10_000_items(metric, options, engine):
    random.seed(1)
    group = rows(range(10_000), sorted(range(100, 10_100), key=lambda i: i + 900 * random.random()))
    expected = getattr(definitions, metric)(group, k=500, **options)
    assert values(engine, metric, [group], **options, k=500) == [approx(expected, abs=1e-12)]


@ENGINES
def test_a_tie_beyond_k_is_ignored(engine):
    assert values(engine, "tau_ap", [[(1, 2), (2, 1), (5, 5), (6, 5)]], k=2) == [-1.0]


@few(1)("seed", range(3))
def test_evaluate_averages_them_as_the_page_on_trust_does(seed):
    """The join with the reference gives the definitions, for items of one ranking too."""
    random.seed(seed)
    pool = [f"d{i}" for i in range(12)]
    lists = [[random.sample(pool, random.randint(2, 9)) for _ in range(2)] for _ in range(6)]
    places = [(q, *row) for q, both in enumerate(lists) for row in rows(*both)]
    table = pl.DataFrame(places, ["query", "reference", "pos"], orient="row", strict=False)
    table = table.with_columns(item=pl.int_range(pl.len()).over("query"), odd=pl.col("query") % 2)
    metrics = ["RBO = rbo(reference, pos, p := 0.9)", "TauB", "AP cor = tau_ap(reference, pos)"]
    metrics.append("TauDistance")
    result = rankql.evaluate(table, metrics=metrics, rel="-reference", by="odd")
    for query, *_, rbo, tau, tau_ap, distance in result.per_query.rows():
        group = rows(*lists[query])
        shared = [row for row in group if None not in row]
        assert rbo == approx(definitions.rbo(group, p=0.9))
        assert tau_ap == approx(definitions.tau_ap(group))
        if len(shared) > 1:
            assert tau == approx(kendalltau(*zip(*shared, strict=True)).statistic)
        pairs = itertools.combinations(shared, 2)
        assert distance == sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)
    overall = result.summary.filter(slice="all", metric="RBO").row(0, named=True)
    assert overall["lo"] < result["RBO"] < overall["hi"]
    assert result.summary["slice"].unique().sort().to_list() == ["all", "odd=0", "odd=1"]
