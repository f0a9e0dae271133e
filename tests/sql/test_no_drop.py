"""The dbt tests `no_drop` and `at_least`: the rule of the gate in SQL, with intervals and Holm."""

import re

import jinja2
import numpy as np
import polars as pl
import pytest
from scipy import stats

from support import metric_engines
from support.paths import ROOT

TEXT = (ROOT / "sql" / "dbt" / "tests.sql").read_text("utf-8")
# The tests as functions that return their query, as dbt makes it.
JINJA = jinja2.Environment(extensions=["jinja2.ext.do"])
JINJA.globals |= {"config": lambda **_: ""}
JINJA.globals["target"] = {"type": "duckdb"}
MODELS = (ROOT / "sql" / "dbt" / "models.sql").read_text("utf-8")
MACROS = re.sub(r"{% (end)?test ?", r"{% \1macro ", MODELS + TEXT)
JINJA.globals["rankql"] = JINJA.from_string(MACROS).module
TESTS = JINJA.from_string(MACROS).module
DEFAULTS = {"model": "t", "column_name": "value", "day": "day"}


@pytest.fixture(scope="module")
def con():
    return metric_engines.connect()


def failing(con, rows, test="no_drop", **options):
    """What does not pass, by slice."""
    t = pl.DataFrame(rows, schema=["day", "slice", "value", "error", "n"], orient="row")
    con.register("t", t)
    options = options if test == "at_least" else {"by": "slice"} | options
    query = getattr(TESTS, test)(**DEFAULTS | options)
    return {row["slice"]: row for row in con.sql(query).pl().to_dicts()}


@pytest.mark.slow
def test_the_interval_is_that_of_scipy(con):
    rng = np.random.default_rng(1)
    a, b = rng.random(12), rng.random(30) - 0.1
    sides = [(x.mean(), stats.sem(x), len(x)) for x in (a, b)]
    rows = [(day, "all", *map(float, side)) for day, side in enumerate(sides)]
    row = failing(con, rows, error="error", queries="n", max_drop=0.1)["all"]
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (row["lo"], row["hi"]) == pytest.approx(tuple(expected)) and row["confidence"] == 0.95
    assert row["lo"] < 0.1 < row["hi"] and row["status"] == "inconclusive"
    lo, hi = expected
    for limit, status in ((hi + 1e-9, None), (lo - 1e-9, "failed" if lo > 0 else "inconclusive")):
        result = failing(con, rows, error="error", queries="n", max_drop=float(max(limit, 0.001)))
        assert result.get("all", {}).get("status") == status
    normal = failing(con, rows, error="error", max_drop=0.1)["all"]
    reach = stats.norm.isf(0.025) * np.hypot(sides[0][1], sides[1][1])
    assert normal["hi"] - normal["dropped"] == pytest.approx(reach)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 0.05])
def test_slices_by_holm(con, limit):
    """As scipy's intervals say, from the clearest slice to the first that is not decided."""
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(12):
        errors = rng.uniform(0.01, 0.04, (2, 5))
        queries = rng.integers(5, 90, (2, 5))
        means = np.array([[0.5] * 5, 0.5 - rng.normal(0.05, 0.08, 5)])
        days = [list(zip(*day, strict=True)) for day in zip(means, errors, queries, strict=True)]
        rows = [
            (n, str(i), *map(float, x)) for n, day in enumerate(days) for i, x in enumerate(day)
        ]
        result = failing(con, rows, error="error", queries="n", max_drop=limit)

        def distance(i, days=days):
            one, other = days[0][i], days[1][i]
            return abs(one[0] - other[0] - limit) / np.hypot(one[1], other[1])

        order = sorted(range(5), key=distance, reverse=True)
        going, level = True, None
        for left, i in zip(range(5, 0, -1), order, strict=True):
            if going:
                level = 0.05 / left
            one, other = days[0][i], days[1][i]
            error = np.hypot(one[1], other[1])
            free = error**4 / (one[1] ** 4 / (one[2] - 1) + other[1] ** 4 / (other[2] - 1))
            reach = stats.t.isf(level / 2, free) * error  # as Welch has it
            lo, hi = one[0] - other[0] - reach, one[0] - other[0] + reach
            going = going and not lo <= limit <= hi
            passed = "passed" if hi <= limit or not limit else "inconclusive"
            status = "failed" if lo > limit else passed
            row = result.get(str(i), {"status": "passed"})
            assert row["status"] == status
            seen.add(status)
            if status != "passed":
                assert (row["lo"], row["hi"]) == pytest.approx((lo, hi))
                assert row["confidence"] == pytest.approx(1 - level)
    assert seen == ({"failed", "passed"} | ({"inconclusive"} if limit else set()))


def test_days_without_error_queries_or_values(con):
    rows = [
        (1, "same", 0.5, 0.0, 9), (2, "same", 0.5, 0.0, 9),
        (1, "constant", 0.5, 0.0, 9), (2, "constant", 0.4, 0.0, 9),
        (1, "one query", 0.9, None, 1), (2, "one query", 0.1, None, 1),
        (1, "gone", 0.9, 0.1, 9), (1, "null", None, None, 0), (2, "null", 0.1, 0.1, 9),
        (2, "new", 0.1, 0.1, 9),
    ]  # fmt: skip
    for limit, constant in ((0, "failed"), (0.05, "failed"), (0.1, None), (0.2, None)):
        result = failing(con, rows, error="error", queries="n", max_drop=limit)
        expected = {"constant": constant, "one query": "inconclusive", "gone": "failed"}
        expected = {name: status for name, status in expected.items() if status}
        assert {name: row["status"] for name, row in result.items()} == expected
    means = failing(con, rows, max_drop=0.1)
    assert {name: row["status"] for name, row in means.items()} == {
        "one query": "failed", "gone": "failed",
    }  # fmt: skip
    assert failing(con, [row for row in rows if row[0] == 1], error="error") == {}


def test_at_least_decides_slices_by_holm(con):
    """Of the newest day, the clearest of three slices at alpha / 3, then alpha / 2, then alpha."""
    rows = [
        (1, "old", 0.1, 0.01, 9),
        (2, "above", 0.9, 0.01, 9),
        (2, "below", 0.4, 0.02, 9),
        (2, "near", 0.52, 0.02, 30),
        (2, "null", None, None, 0),
    ]
    result = failing(con, rows, "at_least", min=0.5, error="error", queries="n")
    assert {name: row["status"] for name, row in result.items()} == {
        "below": "failed", "near": "inconclusive", "null": "failed",
    }  # fmt: skip
    for name, level in (("below", 0.05 / 2), ("near", 0.05)):
        mean, error, n = next(row[2:] for row in rows if row[1] == name)
        expected = stats.t.interval(1 - level, n - 1, mean, error)
        assert (result[name]["lo"], result[name]["hi"]) == pytest.approx(expected)
        assert result[name]["confidence"] == pytest.approx(1 - level)
    assert "near" not in failing(con, rows, "at_least", min=0.47, error="error", queries="n")
    assert set(failing(con, rows, "at_least", min=0.5)) == {"below", "null"}
