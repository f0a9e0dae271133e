"""Real data by DuckDB's CSV reader: three runs of TREC 2019 Deep Learning, beside trec_eval."""

import ir_measures
import polars as pl
import pytest
import pytrec_eval

import rankql
from support import metric_engines
from support.dl19 import JOINED, JUDGMENTS, RUN, RUNS
from support.paths import DL19

pytestmark = pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")


# metric and options -> trec_eval's name
MEASURES = {
    "ndcg(rel, pos, 10)": "ndcg_cut_10",
    "ndcg(rel, pos)": "ndcg",
    "ap(rel, pos)": "map",
    "ap(rel, pos, 10, denominator := 'R')": "map_cut_10",
    "rr(rel, pos)": "recip_rank",
    "precision_at(rel, pos, 5)": "P_5",
    "recall_at(rel, pos, 100)": "recall_100",
    "r_precision(rel, pos)": "Rprec",
    "bpref(rel, pos)": "bpref",
    "hit_at(rel, pos, 1)": "success_1",
    "f1_at(rel, pos)": "set_F",
}


@pytest.fixture(scope="module", params=RUNS)
def con(request):
    con = metric_engines.connect()
    con.execute(JUDGMENTS)
    con.execute(RUN % request.param)
    con.execute(JOINED)
    return con


@pytest.fixture(scope="module")
def bm25():
    con = metric_engines.connect()
    con.execute(JUDGMENTS)
    con.execute(RUN % "BM25")
    con.execute(JOINED)
    return con


def test_published(bm25):
    """What the README of the data says of BM25: from scores, and from positions."""
    for source in ("ranked('joined', query := 'query')", "(SELECT *, file_pos AS pos FROM joined)"):
        values = bm25.execute(f"""
            SELECT avg(ndcg), avg(ap), avg(rr), count(*) FROM (
                SELECT ndcg(rel, pos, 10) AS ndcg, ap(rel, pos, denominator := 'R') AS ap,
                       rr(rel, pos, 10) AS rr
                FROM {source} GROUP BY query)
        """).fetchall()[0]
        assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233", "43.0000"]
    values = bm25.execute("""
        SELECT avg(ndcg), avg(ap), avg(rr) FROM (
            SELECT ndcg_by_score(rel, score, item, 10) AS ndcg,
                   ap_by_score(rel, score, item, denominator := 'R') AS ap,
                   rr_by_score(rel, score, item, 10) AS rr
            FROM joined GROUP BY query)
    """).fetchall()[0]
    assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233"]


def test_published_polars(bm25):
    frame = pl.from_arrow(bm25.sql("FROM joined").to_arrow_table())
    by_query = rankql.ranked(frame, query="query").pipe(rankql.ndcg, by="query", k=10)
    assert f"{by_query['ndcg'].mean():.4f}" == "0.5058"
    values = frame.group_by("query").agg(
        rankql.ndcg_by_score("rel", "score", "item", k=10).alias("ndcg"),
        rankql.ap_by_score("rel", "score", "item", denominator="R").alias("ap"),
        rankql.rr_by_score("rel", "score", "item", k=10).alias("rr"),
    )
    means = values.select(pl.col("ndcg", "ap", "rr").mean()).row(0)
    assert [f"{value:.4f}" for value in means] == ["0.5058", "0.2993", "0.8233"]


def test_trec_eval(con):
    """Query by query; bpref is computed in single precision there."""
    judgments, run = {}, {}
    for query, item, rel in con.execute("SELECT query, item, rel FROM judgments").fetchall():
        judgments.setdefault(query, {})[item] = rel
    for query, item, score in con.execute("SELECT query, item, score FROM run").fetchall():
        run.setdefault(query, {})[item] = score
    names = {name.rstrip("0123456789").rstrip("_") for name in MEASURES.values()}
    theirs = pytrec_eval.RelevanceEvaluator(judgments, names).evaluate(run)
    assert len(theirs) == 43
    ours = con.execute(
        f"SELECT query, {', '.join(MEASURES)} "
        "FROM ranked('joined', query := 'query') GROUP BY query"
    ).fetchall()
    assert len(ours) == 43
    for query, *values in ours:
        for value, name in zip(values, MEASURES.values(), strict=True):
            near = 1e-6 if name == "bpref" else 1e-12
            assert value == pytest.approx(theirs[query][name], rel=near, abs=near), (query, name)


# evaluate

CUTOFFS = (1, 5, 10, 20, 100, 1000)
# our spelling -> trec_eval's name
TREC_EVAL = {
    **{f"nDCG@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"AP(denominator=R)@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"P@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"R@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"Success@{k}": f"success_{k}" for k in (1, 5, 10)},
    "nDCG": "ndcg",
    "AP": "map",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "P": "set_P",
    "R": "set_recall",
    "F1": "set_F",
}


def trec_dicts(name):
    run, qrels = {}, {}
    for line in (DL19 / f"{name}.run").read_text().splitlines():
        query, _, item, _, score, _ = line.split()
        run.setdefault(query, {})[item] = float(score)
    for line in (DL19 / "dl19.qrels").read_text().splitlines():
        query, _, item, rel = line.split()
        qrels.setdefault(query, {})[item] = int(rel)
    return run, qrels


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_equals_trec_eval(name):
    """All shared measures, by their names and by ours, per query, to 1e-9."""
    run, qrels = trec_dicts(name)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(TREC_EVAL.values())).evaluate(run)
    paths = DL19 / f"{name}.run", DL19 / "dl19.qrels"
    ours = rankql.evaluate(*paths, list(TREC_EVAL), conventions="trec_eval").per_query
    named = rankql.evaluate(*paths, [n for n in TREC_EVAL.values() if n != "ndcg"]).per_query
    assert len(ours) == len(named) == len(theirs) == 43
    for row in ours.to_dicts():
        for metric, trec_name in TREC_EVAL.items():
            value = row.get(metric, row.get(metric.replace("(denominator=R)", "")))
            assert value == pytest.approx(theirs[row["query"]][trec_name], abs=1e-9), metric
    assert ours.drop("query").mean().row(0) == pytest.approx(
        tuple(sum(q[n] for q in theirs.values()) / 43 for n in TREC_EVAL.values()), abs=1e-9
    )
    by_name = rankql.evaluate(*paths, list(TREC_EVAL.values()), conventions="trec_eval").per_query
    for column in by_name.columns[1:]:
        assert by_name[column].to_list() == pytest.approx(ours[column].to_list(), abs=1e-12)


IR_MEASURES = [
    *(f"{m}@{k}" for m in ("nDCG", "P", "R", "RR", "Success", "Judged") for k in (1, 5, 10, 100)),
    *(f"{m}(rel=2)@{k}" for m in ("P", "R", "RR", "Success") for k in (5, 10)),
    *("nDCG", "AP", "RR", "Rprec", "Bpref", "AP(rel=2)", "RR(rel=2)", "Rprec(rel=2)"),
]


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_equals_ir_measures(name):
    """The same strings are given to both. (Its AP@k divides by R: AP(denominator=R)@k of ours.)"""
    run, qrels = trec_dicts(name)
    paths = DL19 / f"{name}.run", DL19 / "dl19.qrels"
    ours = rankql.evaluate(*paths, [*IR_MEASURES, "AP(denominator=R)@10"]).per_query
    ours = ours.rename({"AP(denominator=R)@10": "AP@10"})
    measures = [ir_measures.parse_measure(m) for m in (*IR_MEASURES, "AP@10")]
    values = {row["query"]: row for row in ours.to_dicts()}
    seen = set()
    for found in ir_measures.iter_calc(measures, qrels, run):
        name = str(found.measure)
        assert values[found.query_id][name] == pytest.approx(found.value, abs=1e-9), name
        seen.add(name)
    assert seen == {*IR_MEASURES, "AP@10"}
