"""A run of TREC 2019 Deep Learning by DuckDB's CSV reader: the published means."""

import pytest

from support import metric_engines
from support.paths import DL19

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
