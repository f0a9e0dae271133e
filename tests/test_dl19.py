"""Real data by DuckDB's CSV reader: three runs of TREC 2019 Deep Learning, beside trec_eval."""

from pathlib import Path

import engines
import polars as pl
import pytest
import pytrec_eval

import rankql

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dl19"
RUNS = ["BM25", "D_BERT_KD_TASB", "SPLADE_P_P_ENSEMBLE_DISTIL"]

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no data: {DATA} is absent")

TREC = "delim = ' ', header = false, quote = '', all_varchar = true"
JUDGMENTS = f"""
CREATE OR REPLACE TEMP TABLE judgments AS
SELECT query, item, rel::INTEGER AS rel
FROM read_csv('{DATA}/dl19.qrels', {TREC}, names = ['query', 'zero', 'item', 'rel'])
"""
RUN = f"""
CREATE OR REPLACE TEMP TABLE run AS
SELECT query, item, pos::INTEGER AS file_pos, score::DOUBLE AS score
FROM read_csv('{DATA}/%s.run', {TREC}, names = ['query', 'q0', 'item', 'pos', 'score', 'tag'])
"""
JOINED = """
CREATE OR REPLACE TEMP TABLE joined AS
SELECT query, item, rel, score, file_pos FROM judgments FULL JOIN run USING (query, item)
WHERE query IN (SELECT query FROM judgments)
"""

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
    con = engines.connect()
    con.execute(JUDGMENTS)
    con.execute(RUN % request.param)
    con.execute(JOINED)
    return con


@pytest.fixture(scope="module")
def bm25():
    con = engines.connect()
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
