"""A run of TREC 2019 Deep Learning by DuckDB's CSV reader: the published means."""

import pytest

from support import metric_engines
from support.dl19 import JOINED, JUDGMENTS, RUN
from support.paths import DL19

pytestmark = pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")


def test_bm25_has_the_published_means():
    """From scores, and from positions."""
    con = metric_engines.connect()
    for statement in (JUDGMENTS, RUN % "BM25", JOINED):
        con.execute(statement)
    for source in ("ranked('joined', query := 'query')", "(SELECT *, file_pos AS pos FROM joined)"):
        values = con.execute(f"""
            SELECT avg(ndcg), avg(ap), avg(rr), count(*) FROM (
                SELECT ndcg(rel, pos, 10) AS ndcg, ap(rel, pos, denominator := 'R') AS ap,
                       rr(rel, pos, 10) AS rr
                FROM {source} GROUP BY query)
        """).fetchall()[0]
        assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233", "43.0000"]
    values = con.execute("""
        SELECT avg(ndcg), avg(ap), avg(rr) FROM (
            SELECT ndcg_by_score(rel, score, item, 10) AS ndcg,
                   ap_by_score(rel, score, item, denominator := 'R') AS ap,
                   rr_by_score(rel, score, item, 10) AS rr
            FROM joined GROUP BY query)
    """).fetchall()[0]
    assert [f"{value:.4f}" for value in values] == ["0.5058", "0.2993", "0.8233"]
