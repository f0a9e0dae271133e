"""A table may have any name, also that of a step of the macro that reads it."""

import re

import pytest

from support import metric_engines
from support.paths import ROOT

STEP = re.compile(r"(?:WITH(?: RECURSIVE)?|\),) (\w+) AS (?:MATERIALIZED )?\(")
READERS = ("common", "debias", "labels", "monitor", "propensity")
STEPS = {x: STEP.findall((ROOT / f"sql/{x}.sql").read_text()) for x in READERS}
TABLE = """
    SELECT i % 3 AS user, i // 2 AS unit, i % 2 AS annotator, i % 5 % 3 AS label, i AS item,
           i AS time, i // 4 AS query, i % 4 + 1 AS pos, i // 2 AS document, i AS q
    FROM range(24) t(i)
"""


def test_steps_of_macros_have_names_of_their_own():
    """DuckDB takes a table for a step of this name that comes before, or refuses it."""
    names = [name for steps in STEPS.values() for name in steps]
    assert len(names) > 70
    assert not [name for name in names if not name.startswith("__rankql_")]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "call",
    [
        "cohen_kappa('{0}')",
        "krippendorff_alpha('{0}')",
        "tally('{0}', label := 'label')",
        "most_popular('{0}')",
        "most_popular('log', users := '{0}', query := 'q')",
        "time_split('{0}', share := 0.5)",
        "leave_one_out('{0}')",
        "collapsed('{0}')",
    ],
)
def test_a_table_is_called_like_a_step(call):
    con = metric_engines.connect()
    con.execute(f"SET threads = 1; CREATE TABLE log AS {TABLE}")
    expected = con.sql(f"FROM {call.format('log')} ORDER BY ALL").fetchall()
    assert expected
    for name in {x.removeprefix("__rankql_") for x in (*STEPS["labels"], *STEPS["common"])}:
        con.execute(f"CREATE TABLE {name} AS FROM log")
        assert con.sql(f"FROM {call.format(name)} ORDER BY ALL").fetchall() == expected
