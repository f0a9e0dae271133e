"""Metrics in HAVING, QUALIFY and ORDER BY: that the macros can raise errors forbids none of these.

The same file is run by hand with DuckDB 1.4.3, the oldest version that is supported.
"""

import re

import duckdb
import pytest

from rankql.core.base.errors import database_message
from support import metric_engines
from support.paths import ROOT

ROWS = [
    *(("a", item, rel, pos, 9.0 - pos) for item, rel, pos in [("x", 1, 2), ("y", 0, 1)]),
    *(("b", item, rel, pos, 9.0 - pos) for item, rel, pos in [("x", 2, 1), ("y", 1, 2)]),
]


# A metric of each family and form.
METRICS = [
    "ndcg(rel, pos)",
    "dcg(rel, pos, discounts := [1, 2, 3])",
    "ap(rel, pos, 3)",
    "bpref(rel, pos)",
    "err(rel, pos, max_rel := 4)",
    "rbo(3 - pos, pos, p := 0.9) + sum(rel)",
    "ap_by_score(rel, score, item, ties := 'expected')",
    "list_err(list(rel ORDER BY pos), max_rel := 4)",
    "novelty(rel, users := 10)",
    "consensus(rel, how := 'median')",
    "debiased(CAST(rel > 0 AS INT), 0.5)",
    "sign_test(rel)",
    "weighted_mean(rel, pos).mean",
    "len(team_draft(list(item), list(item || rel), seed := 1))",
]


@pytest.fixture(scope="module")
def con():
    con = metric_engines.connect()
    con.execute("CREATE TABLE t (user VARCHAR, item VARCHAR, rel INT, pos INT, score DOUBLE)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
    return con


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_is_used_again_in_the_query_that_computes_it(con, metric):
    expected = dict(con.execute(f"SELECT user, {metric} FROM t GROUP BY user").fetchall())
    select = f"SELECT user, {metric} AS n FROM t GROUP BY user"
    limit = min(expected.values())
    kept = [(user, value) for user, value in expected.items() if value > limit]
    best = max(expected.items(), key=lambda row: (row[1], row[0]))
    row_number = "row_number() OVER (ORDER BY n DESC, user DESC)"
    ranks = {u: 1 + sum(x > value for x in expected.values()) for u, value in expected.items()}
    for query, rows in {
        f"{select} HAVING n > {limit}": kept,
        f"{select} QUALIFY {row_number} = 1": [best],
        f"{select} QUALIFY count(*) OVER () = 2 AND n > {limit}": kept,
        f"SELECT user, {metric} AS n, n + 1 AS m FROM t GROUP BY user": [
            (user, value, value + 1) for user, value in expected.items()
        ],
        f"SELECT user, rank() OVER (ORDER BY {metric} DESC) FROM t GROUP BY user": ranks.items(),
    }.items():
        assert sorted(con.execute(query).fetchall()) == sorted(rows), query
    split = f"SELECT count(*) OVER (PARTITION BY {metric}) FROM t GROUP BY user"
    assert len(con.execute(split).fetchall()) == 2


VALUES = ["true", "'text'", "[1.0]", "{'a': 1}", "MAP {1: 2}", "7::HUGEINT", "NULL"]


def checked(value, least):
    """The value where pos is at least that, else an error."""
    return f"CASE WHEN pos >= {least} THEN {value} ELSE rankql_fail('no, ' || pos) END"


@pytest.mark.parametrize("value", VALUES)
def test_checked_values_keep_their_type(con, value):
    """An error has no type of its own, raises where it is reached, and nowhere else."""
    same = f"{checked(value, 1)} IS NOT DISTINCT FROM {value}"
    assert con.execute(f"SELECT bool_and({same}) FROM t").fetchall() == [(True,)]
    wrong = checked(value, 9)
    for query in (f"bool_and({wrong} IS NULL)", f"count({wrong})", f"list({wrong})"):
        with pytest.raises(duckdb.ConversionException) as error:
            con.execute(f"SELECT {query} FROM t").fetchall()
        assert re.fullmatch("no, [12]", database_message(error.value))


ONE_K = ["cg", "dcg", "ndcg", "recall_at", "hit_at", "ap", "rr", "arhr", "err", "rbp"]
ONE_K += ["rbp_residual", "kendall_tau_b", "duplicate_share", "tau_ap", "rbo", "micro_recall_at"]


def test_k_is_the_same_in_all_rows_of_a_group(con):
    """A column k must be in GROUP BY, also where each row could be cut at its own."""
    options = {"err": ", max_rel := 4", "rbp": ", p := 0.5", "rbp_residual": ", p := 0.5"}
    for name in ONE_K:
        option = options.get(name, ", p := 0.5" if name == "rbo" else "")
        call = f"SELECT {name}(pos, pos, k := k{option}) FROM (SELECT *, 5 - rel AS k FROM t)"
        with pytest.raises(duckdb.BinderException, match='"k" must appear in the GROUP BY clause'):
            con.sql(f"{call} GROUP BY user")
        assert len(con.execute(f"{call} GROUP BY user, k").fetchall()) == 4


def test_errors_in_branches_not_taken_are_not_raised(con):
    """What is constant and not reached is no error, neither when planned nor when run."""
    for query, expected in {
        "SELECT sum(CASE WHEN pos < 9 THEN 1 ELSE rankql_fail('no') END) FROM t": [(4,)],
        "SELECT CASE WHEN pos > 9 THEN rankql_fail('no') ELSE 1 END FROM t LIMIT 1": [(1,)],
        "SELECT coalesce(pos, CASE WHEN true THEN rankql_fail('no') END) > 0 FROM t LIMIT 1": [
            (True,)
        ],
        "SELECT rankql_fail('no') FROM t WHERE pos > 9": [],
        "SELECT rankql_fail('no: ' || 7) FROM t WHERE pos > 9": [],
        "SELECT user, rbp(rel, pos, 3, p := 2) FROM t WHERE pos > 9 GROUP BY user": [],
        "SELECT graded('view', MAP {'view': 1}) FROM t": [(1.0,)],
    }.items():
        assert con.execute(query).fetchall() == expected, query


def test_raw_message(con):
    """What a user of DuckDB alone reads: whose error it is, and what to do."""
    with pytest.raises(duckdb.Error, match=r"string 'rankql: k must be .* Leave k out") as error:
        con.execute("SELECT ndcg(rel, pos, 0) FROM t").fetchall()
    assert database_message(error.value).startswith("k must be a whole number from 1, not 0")


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("k", ["NULL", 1, 2, 3, 2**53])
def test_unchecked_number_of_retrieved_items(con, kind, k):
    positions = [None, 1, 2, 2, 5]
    if kind in ("BIGINT", "HUGEINT", "UHUGEINT", "DOUBLE"):
        positions += [2**53 - 1, 2**53]
    rows = ", ".join(f"({'NULL' if pos is None else pos}::{kind})" for pos in positions)
    counts = f"rankql_retrieved(pos, {k}), count(rankql_pos(pos, {k}))"
    ((unchecked, checked),) = con.execute(f"SELECT {counts} FROM (VALUES {rows}) t(pos)").fetchall()
    assert unchecked == checked


@pytest.mark.skipif(duckdb.__version__ < "2", reason="from DuckDB 2.0 on")
def test_errors_of_ratings_in_moving_windows(con):
    """As docs/queries.md says: one aggregate may be in a window."""
    rows = "(VALUES (1, 1, 3.0), (2, 2, 2.0), (3, 4, 2.0)) AS t (day, rel, score)"
    frame = "OVER (ORDER BY day ROWS 1 PRECEDING)"
    query = f"SELECT rmse(rel, score) {frame}, mse(rel, score) {frame}, mae(rel, score) {frame}"
    values = con.execute(f"{query} FROM {rows} ORDER BY day").fetchall()
    assert values == [(2, 4, 2), (pytest.approx(2**0.5), 2, 1), (pytest.approx(2**0.5), 2, 1)]


@pytest.mark.skipif(duckdb.__version__ < "2", reason="the words of DuckDB 2")
@pytest.mark.parametrize("query", ["ndcg(rel, pos, 10) OVER ()", "avg(ndcg(rel, pos, 10))"])
def test_what_duckdb_says_of_windows_and_means_is_on_the_page_of_errors(query):
    con = metric_engines.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS rel, 1 AS pos")
    with pytest.raises(duckdb.BinderException) as caught:
        con.sql(f"SELECT {query} FROM t")
    message = str(caught.value).partition("Binder Error: ")[2].partition("\n")[0]
    assert f"`{message}`" in (ROOT / "docs" / "errors.md").read_text("utf-8")
