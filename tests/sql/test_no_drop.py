"""The dbt test `no_drop`: the rule of the gate in SQL, with intervals by Welch and Holm."""

import duckdb
import jinja2
import numpy as np
import polars as pl
import pytest
from scipy import stats

from rankql import macros
from support.paths import ROOT

TEXT = (ROOT / "sql" / "dbt" / "tests.sql").read_text("utf-8")
DEFAULTS = {
    "model": "t", "column_name": "value", "day": "day", "by": "slice", "max_drop": 0, "error": None,
    "queries": None, "alpha": 0.05, "inconclusive": "fail",
}  # fmt: skip


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as con:
        con.execute(macros.read_sql()).fetchall()
        yield con


def rendered(**options):
    """The query of the test, as dbt makes it."""
    body = TEXT.split("{% test no_drop(", 1)[1].split("%}", 1)[1].split("{% endtest %}")[0]
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    return environment.from_string(body).render(**DEFAULTS | options, config=lambda **_: "")


def found(con, rows, **options):
    """What does not pass, by slice."""
    t = pl.DataFrame(rows, schema=["day", "slice", "value", "error", "n"], orient="row")
    con.register("t", t)
    return {row["slice"]: row for row in con.sql(rendered(**options)).pl().to_dicts()}


def welch(one, other, level):
    """The interval of the drop from one (mean, error, n) to the other."""
    error = np.hypot(one[1], other[1])
    free = error**4 / (one[1] ** 4 / (one[2] - 1) + other[1] ** 4 / (other[2] - 1))
    reach = stats.t.isf(level / 2, free) * error
    return one[0] - other[0] - reach, one[0] - other[0] + reach


def test_the_interval_is_that_of_scipy(con):
    rng = np.random.default_rng(1)
    a, b = rng.random(12), rng.random(30) - 0.1
    sides = [(x.mean(), stats.sem(x), len(x)) for x in (a, b)]
    rows = [(day, "all", *map(float, side)) for day, side in enumerate(sides)]
    row = found(con, rows, error="error", queries="n", max_drop=0.1)["all"]
    theirs = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (row["lo"], row["hi"]) == pytest.approx(tuple(theirs)) and row["confidence"] == 0.95
    assert row["lo"] < 0.1 < row["hi"] and row["status"] == "inconclusive"
    lo, hi = theirs
    for limit, status in ((hi + 1e-9, None), (lo - 1e-9, "failed" if lo > 0 else "inconclusive")):
        got = found(con, rows, error="error", queries="n", max_drop=float(max(limit, 0.001)))
        assert got.get("all", {}).get("status") == status
    normal = found(con, rows, error="error", max_drop=0.1)["all"]
    reach = stats.norm.isf(0.025) * np.hypot(sides[0][1], sides[1][1])
    assert normal["hi"] - normal["dropped"] == pytest.approx(reach)


@pytest.mark.parametrize("limit", [0, 0.05])
def test_slices_by_holm(con, limit):
    """As scipy's intervals say, from the clearest slice to the first that is not decided."""
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(12):
        days = [
            [
                (0.5, *each)
                for each in zip(rng.uniform(0.01, 0.04, 5), rng.integers(5, 90, 5), strict=True)
            ]
            for _ in range(2)
        ]
        days[1] = [
            (0.5 - float(drop), *rest)
            for drop, (_, *rest) in zip(rng.normal(0.05, 0.08, 5), days[1], strict=True)
        ]
        rows = [
            (day, str(i), *map(float, x))
            for day, some in enumerate(days)
            for i, x in enumerate(some)
        ]
        got = found(con, rows, error="error", queries="n", max_drop=limit)

        def distance(i, days=days):
            one, other = days[0][i], days[1][i]
            return abs(one[0] - other[0] - limit) / np.hypot(one[1], other[1])

        order = sorted(range(5), key=distance, reverse=True)
        going, level = True, None
        for left, i in zip(range(5, 0, -1), order, strict=True):
            if going:
                level = 0.05 / left
            lo, hi = welch(days[0][i], days[1][i], level)
            going = going and not lo <= limit <= hi
            status = (
                "failed" if lo > limit else "passed" if hi <= limit or not limit else "inconclusive"
            )
            row = got.get(str(i), {"status": "passed"})
            assert row["status"] == status
            seen.add(status)
            if status != "passed":
                assert (row["lo"], row["hi"]) == pytest.approx((lo, hi))
                assert row["confidence"] == pytest.approx(1 - level)
    assert seen == ({"failed", "passed"} | ({"inconclusive"} if limit else set()))


def test_edges(con):
    rows = [
        (1, "same", 0.5, 0.0, 9), (2, "same", 0.5, 0.0, 9),
        (1, "constant", 0.5, 0.0, 9), (2, "constant", 0.4, 0.0, 9),
        (1, "one query", 0.9, None, 1), (2, "one query", 0.1, None, 1),
        (1, "gone", 0.9, 0.1, 9), (1, "null", None, None, 0), (2, "null", 0.1, 0.1, 9),
        (2, "new", 0.1, 0.1, 9),
    ]  # fmt: skip
    for limit, constant in ((0, "failed"), (0.05, "failed"), (0.1, None), (0.2, None)):
        got = found(con, rows, error="error", queries="n", max_drop=limit)
        wanted = {"constant": constant, "one query": "inconclusive", "gone": "failed"}
        wanted = {name: status for name, status in wanted.items() if status}
        assert {name: row["status"] for name, row in got.items()} == wanted
    means = found(con, rows, max_drop=0.1)
    assert {name: row["status"] for name, row in means.items()} == {
        "one query": "failed", "gone": "failed",
    }  # fmt: skip
    assert found(con, [row for row in rows if row[0] == 1], error="error") == {}
