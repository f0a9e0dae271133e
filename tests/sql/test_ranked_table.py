"""ranked_table(): a run and its judgments as the one table that metrics need."""

import re

import duckdb
import pytest

import rankql
from support import metric_engines
from support.parameters import few

# Of ann's two items the second is liked; bob likes one that he did not see; cem has no judgment.
RUN = "('ann', 'tea', 1), ('ann', 'mug', 2), ('bob', 'mug', 1), ('cem', 'pot', 4)"
LIKED = "('ann', 'mug', 3), ('bob', 'jar', 1)"
ROWS = [
    ("ann", "mug", 3, 2), ("ann", "tea", None, 1),
    ("bob", "jar", 1, None), ("bob", "mug", None, 1), ("cem", "pot", None, 4),
]  # fmt: skip
ONE = "'user'"
NAMES = "query := 'user', item := 'product', rel := 'stars', pos := 'place'"


@pytest.fixture(scope="module")
def con():
    with metric_engines.connect() as con:
        yield con


def ranked_table(con, run=RUN, liked=LIKED, select="*"):
    con.execute(f"CREATE OR REPLACE TABLE run AS FROM (VALUES {run}) t (user, product, place)")
    con.execute(f"CREATE OR REPLACE TABLE liked AS FROM (VALUES {liked}) t (user, product, stars)")
    return con.sql(f"SELECT {select} FROM ranked_table('run', 'liked', {NAMES}) ORDER BY ALL")


def test_every_item_of_the_run_and_the_judgments_has_a_row(con):
    assert ranked_table(con).fetchall() == ROWS


def test_users_whose_items_were_all_missed_count(con):
    """1/2: ann's item is found, bob's is not, and cem is undefined. Without bob's jar it is 1."""
    hits = "SELECT avg(hit) FROM (SELECT hit_at(rel, pos, 10) AS hit FROM t GROUP BY query)"
    ((value,),) = ranked_table(con).query("t", hits).fetchall()
    assert value == 0.5


def test_ids_of_different_case_are_different(con):
    rows = ranked_table(con, f"{RUN}, ('ann', 'MUG', 3)").fetchall()
    assert rows == sorted([*ROWS, ("ann", "MUG", None, 3)], key=str)


@few(2)(
    ("run", "liked", "message"),
    [
        (f"{RUN}, ('ann', 'tea', 5)", LIKED, "run must have one row per .* item tea"),
        (RUN, f"{LIKED}, ('ann', 'mug', 1)", "judgments must have one row per .* item mug"),
        (f"{RUN}, (NULL, 'tea', 5)", LIKED, "user must not be NULL"),
        (RUN, f"{LIKED}, ('ann', NULL, 1)", "product must not be NULL"),
        (f"{RUN}, ('ann', 'jar', 0)", LIKED, "place must be a whole number from 1, not 0"),
    ],
)
def test_repeated_items_missing_ids_and_wrong_positions_are_refused(con, run, liked, message):
    with pytest.raises(duckdb.Error, match=message):
        ranked_table(con, run, liked, "count(rel), count(pos)").fetchall()


# The same words in two countries.
KEYS = [
    ("RUN", ("words", "land", "item", "pos"), "('tea', 'de', 'x', 1), ('tea', 'us', 'x', 2)"),
    ("LIKED", ("Land", "words", "item", "rel"), "('de', 'tea', 'x', 1), ('us', 'tea', 'z', 2)"),
]


@few(2)("names", [("words", "land"), ("query", "land"), ("words", "query")])
def test_a_query_may_have_several_columns(con, names):
    """Under their names, in any order and case; one of them may be called query."""
    renamed = dict(zip(("words", "land"), names, strict=True))
    for table, columns, rows in KEYS:
        columns = ", ".join(renamed.get(name.lower(), name) for name in columns)
        con.execute(f"CREATE OR REPLACE TABLE {table} AS FROM (VALUES {rows}) AS t ({columns})")
    relation = con.sql(f"FROM ranked_table('run', 'liked', query := {[*names]}) ORDER BY ALL")
    assert sorted(relation.columns) == sorted([*names, "item", "rel", "pos"])
    rows = [{**dict(zip(relation.columns, row, strict=True))} for row in relation.fetchall()]
    keys = ("words", "land", "item", "rel", "pos")
    assert sorted(tuple(row[renamed.get(k, k)] for k in keys) for row in rows) == [
        ("tea", "de", "x", 1, 1), ("tea", "us", "x", None, 2), ("tea", "us", "z", 2, None),
    ]  # fmt: skip


@few(2)(
    ("call", "message"),
    [
        ("'liked', 'liked', query := 'user', item := 'product'",
         "ranked_table needs (pos: run|rel: judgments) has no column '(pos|rel)'. Name a column: "),
        ("'run', 'liked'",
         "ranked_table needs query, item(, rel: judgments|(, pos)?: run) has no column 'query' and "
         "no column 'item'.*Name columns: query :=, item :="),
        ("'run', 'liked', query := 'user'",
         "ranked_table needs item(, rel: judgments has no column 'item' and no column 'rel'"
         "|: run has no column 'item'). Name "),
        ("'run', 'liked', " + NAMES.replace(ONE, "['user', 'land']"),
         "ranked_table needs query: (run|judgments) has no column 'land'"),
        ("'run', 'gaps', " + NAMES.replace(ONE, "['user', 'product']"),
         "user must not be NULL. Leave such rows of the judgments out: WHERE user IS NOT NULL"),
    ],
)  # fmt: skip
def test_a_column_that_is_missing_or_null_is_named(con, call, message):
    ranked_table(con)
    gaps = "SELECT NULL::TEXT AS user, product, stars FROM liked LIMIT 1"
    con.execute(f"CREATE OR REPLACE TABLE gaps AS {gaps}")
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"FROM ranked_table({call})").fetchall()


def test_items_that_were_missed_have_the_attributes_of_their_query(con):
    """bob's jar was not shown, and cem bought nothing; dan was not asked, so has no country."""
    con.execute(
        "CREATE OR REPLACE TABLE shown AS FROM (VALUES ('ann', 'tea', 1, 'DE'), ('ann', 'mug', 2, "
        "'DE'), ('bob', 'mug', 1, 'FR'), ('cem', 'pot', 4, 'DE')) t (user, item, pos, country)"
    )
    con.execute(
        "CREATE OR REPLACE TABLE bought AS "
        "FROM (VALUES ('ann', 'mug'), ('bob', 'jar'), ('dan', 'pot')) t (user, item)"
    )
    for by in ("['Country']", "'country'"):
        table = f"ranked_table('shown', 'bought', query := 'user', by := {by})"
        rows = con.sql(f"SELECT query, item, country, rel, pos FROM {table} ORDER BY ALL")
        assert rows.fetchall() == [
            ("ann", "mug", "DE", 1, 2), ("ann", "tea", "DE", None, 1),
            ("bob", "jar", "FR", 1, None), ("bob", "mug", "FR", None, 1),
            ("cem", "pot", "DE", None, 4), ("dan", "pot", None, 1, None),
        ]  # fmt: skip
    other = "SELECT *, 'XX' AS lang FROM shown UNION ALL SELECT 'ann', 'jar', 3, 'FR', 'XX'"
    con.execute(f"CREATE OR REPLACE TABLE shown AS {other}")
    for by, message in (
        ("['lang', 'country']", "by must have one value per query, but .* of query ann has 2"),
        ("['town']", "ranked_table needs by: run has no column 'town'. Name a column: by :="),
    ):
        with pytest.raises(duckdb.Error, match=message):
            con.sql(f"FROM ranked_table('shown', 'bought', query := 'user', by := {by})").fetchall()


def test_judgments_without_a_grade_count_as_1_if_nothing_may_be_one(con):
    ranked_table(con)
    con.execute("CREATE OR REPLACE TABLE plain AS SELECT user, product FROM liked")
    con.execute(
        "CREATE OR REPLACE TABLE run AS FROM (VALUES ('ann', 'mug', 1)) t (user, product, pos)"
    )
    call = "query := 'user', item := 'product'"
    rows = con.sql(f"SELECT rel FROM ranked_table('run', 'plain', {call})").fetchall()
    assert {*rows} == {(1,)}
    for table, rel in (("liked", ""), ("plain", ", rel := 'stars'")):  # its stars may be the grade
        with pytest.raises(duckdb.Error, match=r"judgments has no column '(rel|stars)'"):
            con.sql(f"FROM ranked_table('run', '{table}', {call}{rel})").fetchall()


@pytest.mark.slow
def test_clicks_are_relevant_once_or_by_a_grade_of_1():
    con = duckdb.connect()
    rankql.register(con)
    con.sql("CREATE TABLE shown AS SELECT 'q' AS query, unnest(['x', 'y']) AS item, 1 AS pos")
    con.sql(
        "CREATE TABLE clicks AS SELECT 'q' AS query, 'x' AS item, i AS seen FROM range(3) AS t (i)"
    )
    with pytest.raises(duckdb.ConversionException) as refused:
        con.sql("FROM ranked_table('shown', 'clicks')").fetchall()
    line = re.search("SELECT DISTINCT .* FROM judgments", str(refused.value))
    con.sql(f"CREATE TABLE judged AS {line[0].replace('judgments', 'clicks')}")
    graded = con.sql("FROM ranked_table('shown', 'judged') ORDER BY item").fetchall()
    assert graded == [("q", "x", 1, 1), ("q", "y", None, 1)]
    con.sql("CREATE TABLE one AS SELECT DISTINCT * EXCLUDE (seen), 'web' AS channel FROM clicks")
    assert (
        con.sql("FROM ranked_table('shown', 'one', rel := '1') ORDER BY item").fetchall() == graded
    )


@pytest.mark.slow
def test_each_system_has_all_judgments(con):
    """As evaluate counts them: an item that one system shows alone is missed by the other."""
    con.execute(
        "CREATE OR REPLACE TABLE systems AS FROM (VALUES ('a', 'q', 'x', 1), ('b', 'q', 'y', 1), "
        "('b', 'q', 'x', 2), ('b', 'r', 'z', 1)) AS t (model, query, item, pos)"
    )
    con.execute(
        "CREATE OR REPLACE TABLE qrels AS FROM (VALUES ('q', 'x', 1), ('q', 'y', 2), "
        "('r', 'z', 1)) AS t (query, item, rel)"
    )
    for system in ("'model'", "['Model']"):
        table = f"ranked_table('systems', 'qrels', system := {system})"
        means = con.sql(
            f"SELECT model, avg(v) FROM (SELECT model, query, ap(rel, pos) AS v FROM {table} "
            "GROUP BY model, query) GROUP BY model ORDER BY model"
        ).fetchall()
        runs, qrels = con.table("systems").pl(), con.table("qrels").pl()
        expected = rankql.evaluate(runs, qrels, "AP", system="model").summary
        assert means == list(zip(expected["system"], expected["mean"], strict=True))
    with pytest.raises(duckdb.Error, match="ranked_table needs system: run has no column 'arm'"):
        con.sql("FROM ranked_table('systems', 'qrels', system := 'arm')").fetchall()
    con.execute("CREATE OR REPLACE TABLE none AS FROM systems WHERE false")
    rows = con.sql("SELECT count(*), count(pos) FROM ranked_table('none', 'qrels')").fetchall()
    assert rows == [(3, 0)]


@pytest.mark.parametrize("kinds", [("VARCHAR", "INTEGER"), ("INTEGER", "VARCHAR")])
def test_ids_of_two_types_are_compared_as_text(con, kinds):
    of_run, of_judgments = kinds
    for name, kind, column in (("shown", of_run, "pos"), ("wanted", of_judgments, "rel")):
        con.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT CAST(q AS {kind}) AS query, "
            f"CAST(i AS {kind}) AS item, 1 AS {column}, 'DE' AS land "
            "FROM (VALUES ('1', '10'), ('2', '20')) AS t (q, i)"
        )
    con.execute("UPDATE shown SET item = '30' WHERE query = '2'")
    rows = con.sql("FROM ranked_table('shown', 'wanted', by := 'land') ORDER BY ALL").fetchall()
    assert rows == [
        ("1", "DE", "10", 1, 1), ("2", "DE", "20", 1, None), ("2", "DE", "30", None, 1),
    ]  # fmt: skip


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1 converts the score first")
def test_ranked_names_the_columns_that_it_lacks(con):
    con.execute("CREATE OR REPLACE TABLE raw AS SELECT 'q' AS qid, 'a' AS item, 0.5 AS points")
    lacks = "ranked needs query, score: the table has no column 'query' and no column 'score'"
    with pytest.raises(duckdb.Error, match=lacks):
        con.sql("FROM ranked('raw')").fetchall()
    call = "FROM ranked('raw', query := {}, score := 'POINTS')"
    for query in ("'qid'", "NULL"):
        assert con.sql(call.format(query)).fetchall()[0][-1] == 1
