"""The metrics in ClickHouse: as functions and in queries; errors."""

import re

import polars as pl
import pytest

import rankql
from rankql import macros
from rankql.engines import clickhouse_functions as clickhouse
from support import case_matrix, clickhouse_sessions, metric_engines, signatures, spark_sessions
from support.metric_engines import same

pytestmark = pytest.mark.clickhouse


@pytest.fixture(scope="module")
def house():
    with case_matrix.clickhouse() as made:
        yield made


def test_every_metric_of_a_ranking_is_a_function():
    made = re.findall(r"FUNCTION (\w+) AS", clickhouse.create_clickhouse_functions())
    assert {name for name in made if not name.startswith("rankql_")} == {*spark_sessions.EVERY}
    assert {*spark_sessions.EVERY} == {*clickhouse.CLICKHOUSE.metrics}


SHOWN = """
    SELECT * FROM values('user String, item String, rel Nullable(Int8), pos Nullable(UInt32)',
        ('ada', 'tea', 3, 1), ('ada', 'mug', 0, 2), ('ada', 'pot', 2, 3),
        ('ada', 'kettle', 3, NULL), ('bob', 'mug', 0, 1), ('bob', 'jar', NULL, 2),
        ('bob', 'tea', 1, 3), ('eve', 'mug', 0, 1), ('eve', 'pot', 0, 2))
"""
QUERY = r'''
SELECT user, ndcg(rel, pos, 10), ap(rel, pos) AS "it's \ ""ap""", 'ndcg(rel, pos) \ it''s' AS text,
       ndcg(CASE rel WHEN 3 THEN 10 ELSE rel END, pos, 3, discounts := [0.8, log2(3), log2(4)])
       AS boosted, max(rel) AS rel, sum(pos) FILTER (WHERE rel > 1) AS none,
       avg(rel) AS mean, count(DISTINCT item) AS items
FROM shown GROUP BY user ORDER BY user DESC
'''
JOINED = """
WITH ranked AS (
    SELECT user, item, row_number() OVER (PARTITION BY user ORDER BY score DESC) AS pos FROM run)
SELECT user, ndcg(rel, pos, 10) AS ndcg, judged_at(rel, pos, 2) AS judged
FROM judged FULL JOIN ranked USING (user, item) GROUP BY user ORDER BY user
"""
TABLES = {
    "run": "SELECT user, item, pos * -0.5 AS score FROM shown WHERE pos IS NOT NULL",
    "judged": "SELECT user, item, rel FROM shown WHERE rel IS NOT NULL",
}


@pytest.mark.parametrize("query", [QUERY, JOINED])
def test_queries_equal_duckdb(house, query):
    """Names, texts and order are DuckDB's, and what a join does not find is NULL."""
    con = metric_engines.connect()
    house.query(f"CREATE OR REPLACE TABLE shown ENGINE = Memory AS {SHOWN}")
    shown = pl.read_ipc(house.query("SELECT * FROM shown", "Arrow").bytes())  # noqa: F841
    con.execute("CREATE TABLE shown AS FROM shown")
    for name, text in TABLES.items():
        con.execute(f"CREATE TABLE {name} AS {text}")
        house.query(f"CREATE OR REPLACE TABLE {name} ENGINE = Memory AS {text}")
    ours = con.sql(query)
    theirs = pl.read_ipc(house.query(rankql.translate(query, "clickhouse"), "Arrow").bytes())
    assert theirs.columns == ours.columns
    for one, other in zip(ours.fetchall(), theirs.rows(), strict=True):
        for a, b in zip(one, other, strict=True):
            assert same(a, b) if isinstance(a, float) else a == b


def test_a_file_is_read(house, tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"rel": [0, 1, None], "pos": [1, 2, 3]}).write_parquet(path)
    query = rankql.translate(f"SELECT ndcg(rel, pos), count(rel) FROM '{path}'", "clickhouse")
    assert same(clickhouse_sessions.rows(house, query)[0][0], 0.6309297535714575)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ndcg(rel, pos, 0)", "k must be a whole number from 1"),
        ("ndcg('a', pos, 10)", "rel must be a number, not text. Cast it first"),
        ("ndcg(CAST('nan' AS DOUBLE), pos, 10)", "rel must be a finite number, not nan"),
        ("ndcg(rel, pos - 1, 10)", "pos must be a whole number from 1, not 0"),
        ("ndcg(rel, pos * 0.5, 10)", "pos must be a whole number from 1, not 0.5"),
        ("err(rel, pos, 10, NULL)", "max_rel must be given: the highest grade of the scale"),
        ("err(rel, pos, 10, 2)", "rel must not exceed max_rel: 3 is above 2"),
        (
            "rbp(rel, pos, 10, NULL)",
            "p must be given: the probability of looking at the next item",
        ),
        ("rbp(rel, pos, 10, 1.5)", "p must lie between 0 and 1, not 1.5"),
        ("rbo(pos, pos * 0 + 1, NULL, 0.5)", "pos must not be the same for two items of a group"),
        ("ndcg_by_score(rel, pos, pos * 0.5, 10)", "item must be text or a whole number"),
        ("ndcg_by_score(rel, 'a', pos, 10)", "score must be a number, not text"),
        ("list_ap([1, 'nan'::DOUBLE], 10)", "rel must be a finite number, not nan"),
        ("list_ap([1, 2], 1.5)", "k must be a whole number from 1"),
    ],
)
def test_input_is_refused_in_the_same_words(house, call, message):
    """The same message, as function and in a query."""
    source = "(SELECT arrayJoin([1, 3]) AS rel, rel AS pos)"
    house.query(f"CREATE OR REPLACE TABLE bad ENGINE = Memory AS SELECT * FROM {source}")
    with pytest.raises(Exception, match="DB::Exception") as error:
        house.query(f"SELECT {call} FROM bad".replace("'nan'::DOUBLE", "nan"))
    assert message in str(error.value)
    with pytest.raises(Exception) as error:  # a wrong option is an error of the translation
        house.query(rankql.translate(f"SELECT {call} AS v FROM bad", "clickhouse"))
    assert message in str(error.value)


def test_dialects():
    assert "transform(" in rankql.translate("SELECT ap(rel, pos) FROM t", "spark")
    assert macros.list_metric_macros("rating") == {*signatures.RATING}


def test_a_setting_of_the_session(house):
    """Whether NULL is in a list is none of it."""
    house.query("CREATE OR REPLACE TABLE t ENGINE = Memory AS SELECT arrayJoin([1, 2, NULL]) AS a")
    house.query("SET transform_null_in = 1")
    try:
        query = rankql.translate("SELECT a FROM t WHERE a NOT IN (1, 3)", "clickhouse")
        assert clickhouse_sessions.rows(house, query) == [(2,)]
    finally:
        house.query("SET transform_null_in = 0")
