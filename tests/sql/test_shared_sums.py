"""The sums that metrics of one query share: many rows, repeated positions, other grades."""

import math
import re

import duckdb
import pytest

from rankql.core.base.errors import database_message
from support import metric_engines
from support.parameters import cycled, few

SHARED = "several items share a position"


def value(call, rows):
    query = f"SELECT {call} FROM ({rows}) AS t"
    return metric_engines.connection().execute(query).fetchall()[0][0]


def refusal(call, rows):
    with pytest.raises(duckdb.Error) as error:
        value(call, rows)
    return database_message(error.value)


def discounts(n):
    return math.fsum(1 / math.log2(i + 1) for i in range(1, n + 1))


@pytest.mark.parametrize("n", [5_000, 200_000])
def test_many_rows_in_a_group(n):
    """Grade 2 at the top and grade 1 at every hundredth: counters of 12 bits hold them."""
    rows = f"""SELECT CAST(CASE WHEN i = 1 THEN 2 WHEN i % 100 = 0 THEN 1 ELSE 0 END AS INT) AS rel,
                      CAST(i AS INT) AS pos FROM range(1, {n} + 1) AS r (i)"""
    assert value("ndcg(rel, pos, 10)", rows) == pytest.approx(2 / (1 + discounts(10)))
    assert value("precision_at(rel, pos, 10)", rows) == 0.1
    assert value("recall_at(rel, pos, 10)", rows) == pytest.approx(1 / (1 + n // 100))
    assert value("rr(rel, pos, 10)", rows) == 1


@few(1)("n", [5_000, 200_000])
def test_more_relevant_rows_than_counters_hold(n):
    """An error that names the remedy, never a wrong number. Hits have no such counters."""
    rows = f"""SELECT CAST(1 + i % 3 AS INT) AS rel, CAST(i AS INT) AS pos
               FROM range(1, {n} + 1) AS r (i)"""
    message = refusal("ndcg(rel, pos, 10)", rows)
    assert re.match(
        r"rel has more than 4095 grades above 0 in a group\. Pass CAST\(rel AS DOUBLE\)", message
    )
    actual = math.fsum((1 + i % 3) / math.log2(i + 1) for i in range(1, 11))
    expected = pytest.approx(actual / (3 * discounts(10)))
    assert value("ndcg(CAST(rel AS DOUBLE), pos, 10)", rows) == expected
    for k in ("NULL", 21, 30_000):  # counted with more bits
        by_sort = pytest.approx(value(f"ndcg(CAST(rel AS DOUBLE), pos, {k})", rows))
        assert value(f"ndcg(rel, pos, {k})", rows) == by_sort
    assert value("ndcg(rel, pos, 50)", rows) > 0  # sorted, not counted
    assert value("precision_at(rel, pos, 10)", rows) == 1
    assert value("recall_at(rel, pos, 10)", rows) == pytest.approx(10 / n)
    assert value("ap(rel, pos, 10)", rows) == 1


# Bits carry into those of other positions, of hits, and into the number of items.
REPEATED = [
    [1, 1],
    [1, 1, 2],
    [1, 1, 2, 4],
    [20, 20],
    [19, 19, 20],
    [1, 1, 2, 2],
    [3] * 4,
    [1] * 1024,
]


@few(2)(("positions", "kind"), cycled(REPEATED, ["INT", "DOUBLE"]), ids=str)
def test_carries_of_repeated_positions_do_not_cancel(positions, kind):
    rows = f"SELECT CAST(unnest({positions}) AS INT) AS pos, CAST(1 AS {kind}) AS rel"
    for metric in ("ndcg", "dcg", "precision_at", "recall_at", "f1_at", "hit_at", "rr", "ap"):
        assert refusal(f"{metric}(rel, pos, 20)", rows).startswith(SHARED), metric


@few(2)("call", ["ndcg(rel, pos)", "ap(rel, pos, 400)", "num_ret(rel, pos)"])
@pytest.mark.parametrize(
    ("also", "without"),
    [(299, 300), (300, 125), (126, 400), (124, 0), (400, 0), (9**9, 0), (0, 300)],
)
def test_positions_that_no_bit_holds_may_not_repeat_either(call, also, without):
    """One position twice, with as many rows as before or more, with a gap there or not."""
    positions = [*range(1, 401), *[also] * bool(also)]
    rows = (
        f"""SELECT pos, 1 AS rel FROM (SELECT unnest({positions}) AS pos) WHERE pos <> {without}"""
    )
    if also in range(1, 401):
        assert refusal(call, rows).startswith(SHARED)
    else:
        assert value(call, rows) > 0


def test_positions_beyond_the_cutoff_may_repeat():
    rows = "SELECT * FROM (VALUES (1, 1), (2, 7), (3, 7)) AS t (rel, pos)"
    assert value("precision_at(rel, pos, 5)", rows) == pytest.approx(1 / 5)
    assert value("ndcg(rel, pos, 5)", rows) == pytest.approx(1 / (3 + 2 / math.log2(3) + 1 / 2))


@few(2)(
    ("kind", "options"),
    cycled(
        ["TINYINT", "INTEGER", "BIGINT", "DOUBLE", "HUGEINT"],
        ["", ", negative := 'keep'", ", ideal := 'retrieved'"],
    ),
)
def test_grades_above_5_and_below_0_beside_those_that_are_counted(kind, options):
    """For k up to 20, for others and without; with repeated grades."""
    for k in ("NULL", 21, 30):
        grades = [5, 9, -3, 1, 7, 0, 2, 2, 5, 5, *[3] * 30]
        rows = f"""SELECT CAST(unnest({grades}) AS {kind}) AS rel,
                          CAST(unnest(range(1, {len(grades) + 1})) AS INT) AS pos"""
        by_sort = value(f"ndcg(CAST(rel AS DOUBLE), pos, {k}{options})", rows)
        assert value(f"ndcg(rel, pos, {k}{options})", rows) == pytest.approx(by_sort)

    grades = [5, 9, -3, 1, 7, 0, 2]
    rows = f"""SELECT CAST(unnest({grades}) AS {kind}) AS rel,
                      CAST(unnest(range(1, {len(grades) + 1})) AS INT) AS pos"""
    counted = [grade if "keep" in options else max(grade, 0) for grade in grades]
    dcg = math.fsum(g / math.log2(i + 1) for i, g in enumerate(counted[:6], 1))
    best = sorted((max(grade, 0) for grade in grades), reverse=True)[:6]
    ideal = math.fsum(g / math.log2(i + 1) for i, g in enumerate(best, 1))
    assert value(f"ndcg(rel, pos, 6{options})", rows) == pytest.approx(dcg / ideal, abs=1e-12)
    signed = math.fsum(g / math.log2(i + 1) for i, g in enumerate(grades[:6], 1))
    assert value("dcg(rel, pos, 6)", rows) == pytest.approx(signed, abs=1e-12)


def test_metrics_of_one_query_share_a_sum():
    con = metric_engines.connection()
    metrics = ("ndcg", "precision_at", "rr", "hit_at", "recall_at", "ap", "f1_at")
    calls = ", ".join(f"{metric}(rel, pos, 10)" for metric in metrics)
    rows = "(SELECT i % 2 AS u, i AS rel, i AS pos FROM range(1, 9) AS r (i))"
    query = f"EXPLAIN (FORMAT json) SELECT {calls} FROM {rows} GROUP BY u"
    plan = con.execute(query).fetchall()[0][1]
    aggregates = re.search(r'"Aggregates": \[(.*?)\]', plan, re.DOTALL)[1]
    # Places, counts of grades, rows with other grades, and the number of relevant items.
    assert len(re.findall(r"^\s*\"", aggregates, re.MULTILINE)) == 4, aggregates
