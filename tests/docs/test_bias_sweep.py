"""The sweep over propensities of docs/bias.md equals single calls."""

import re

import duckdb
import polars as pl
import pytest

import rankql
from support import metric_engines
from support.paths import ROOT

PAGE = (ROOT / "docs" / "bias.md").read_text()
FIRST, SWEEP = (
    next(x for x in re.findall("```sql\n(.*?)```", PAGE, re.DOTALL) if f"CREATE TABLE {name} " in x)
    for name in ("clicks", "sweep")
)
POLARS = next(x for x in re.findall("```python\n(.*?)```", PAGE, re.DOTALL) if "etas = " in x)


@pytest.fixture(scope="module")
def log():
    """The log of the page, with a third position and an item that no query has shown."""
    with metric_engines.with_macros(duckdb.connect()) as con:
        con.execute(FIRST)
        con.execute("INSERT INTO clicks SELECT query, 'third', 3, hash(query) % 9 = 0 FROM clicks")
        con.execute("INSERT INTO rankings SELECT 'new', q, 'third', 3 FROM range(500) AS t (q)")
        con.execute("INSERT INTO rankings SELECT 'old', q, 'unseen', 4 FROM range(500) AS t (q)")
        con.sql(SWEEP.replace("rel, pos, 1)", "rel, pos, 3)"))
        yield con


@pytest.mark.slow
def test_each_row_is_the_difference_of_two_calls(log):
    sweep = log.sql("FROM sweep ORDER BY eta").pl()
    assert sweep.height == 21
    for eta, mean, reach, *_ in sweep[[0, 20]].rows():
        weighed = log.sql(f"SELECT query, item, click, pow(pos, -{eta}) AS propensity FROM clicks")
        rankings = log.sql("FROM rankings").pl()
        replayed = rankings.join(weighed.pl(), on=["query", "item"], how="left")
        found = rankql.counterfactual(replayed, k=3, slice="system")
        values = dict(found.filter(metric="DCG@3", estimator="IPS").select("slice", "value").rows())
        assert mean == pytest.approx(values["new"] - values["old"], abs=1e-12)
        grades = rankql.debiased(weighed.pl()).rename({"debiased": "rel"})
        runs = {x: rankings.filter(system=x) for x in ("old", "new")}
        pair = rankql.compare(runs, grades, "DCG@3", test="t").pairs.row(0, named=True)
        assert mean == pytest.approx(pair["difference"], abs=1e-12)
        assert reach == pytest.approx((pair["hi"] - pair["lo"]) / 2, rel=0.005)  # z for t


@pytest.mark.slow
def test_polars_gives_the_same(log):
    names = {"pl": pl, "rankql": rankql}
    names |= {x: log.sql(f"FROM {x}").pl() for x in ("clicks", "rankings")}
    for line in re.findall("^>>> (.*)$", POLARS, re.MULTILINE)[:-2]:
        exec(line.replace('"rel", "pos", 1)', '"rel", "pos", 3)'), names)
    sweep = log.sql("SELECT eta, mean, reach, left_over FROM sweep ORDER BY eta").pl()
    for one, other in zip(sweep.rows(), names["sweep"].rows(), strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12)


def test_few_clicks_are_marked():
    rows = {
        "clicks (query, item, pos, click)": "(1, 'a', 1, true), (2, 'b', 2, true)",
        "rankings (system, query, item, pos)": "('new', 1, 'a', 1), ('old', 2, 'b', 1)",
    }
    with metric_engines.with_macros(duckdb.connect()) as con:
        for name, values in rows.items():
            table = name.split()[0]
            con.execute(f"CREATE TABLE {table} AS FROM (VALUES {values}) AS {name}")
        con.execute(SWEEP)
        found = con.sql("SELECT round(left_over, 12), better FROM sweep WHERE eta IN (0, 1)")
        assert sorted(found.fetchall()) == [(1.8, "too few clicks"), (2, "too few clicks")]
