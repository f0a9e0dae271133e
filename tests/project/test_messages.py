"""Messages that no other test triggers."""

import decimal
import math
import re
import runpy

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.engines import partitions
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.sources.request import RankingRules
from support import metric_engines
from support.parameters import few
from support.paths import PACKAGE

RUN = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [2.0, 1.0, 1.0]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1, 1]})
POSITIONS_GIVEN = RUN.select("query", "item", pos=pl.Series([1, 2, 1]))


def rr(runs=RUN, *more, **options):
    return rankql.evaluate(runs, QRELS, "RR", *more, interval=None, **options)


def compared(runs=None, **options):
    return rankql.compare(runs or {"one": RUN, "two": RUN}, QRELS, "RR", **options)


def linked(values, clicks=(1, 2, 3), keys="abc"):
    scores = pl.DataFrame({"query": [*"abc"], "RR": values})
    clicks = pl.DataFrame({"query": [*keys], "clicks": clicks})
    return rankql.associate(scores, clicks, on="query")


IN_PYTHON = {
    "gain must map numbers to numbers, not 1 to 'x'": lambda: rr(gain={1: "x"}),
    "float32 must be true or false, not 1": lambda: rr(float32=1),
    ".xlsx": lambda: rankql.convert(RUN, "x.xlsx"),
    "min_score needs scores, and run 'two' has none. Pass score=": lambda: rr(
        {"one": RUN, "two": POSITIONS_GIVEN}, min_score=1
    ),
    "ties='expected' needs scores, and run 'two' has none. Pass ties='item'": lambda: rr(
        {"one": RUN, "two": POSITIONS_GIVEN}, ties="expected"
    ),
    "system= is for a single run. The runs of a dict have their names already": lambda: rr(
        {"one": RUN.with_columns(segment=pl.lit("x"))}, system="segment"
    ),
    "gain must have one value": lambda: rankql.evaluate(RUN, QRELS, "nDCG(gain)@10"),
    "by: segment must have one value per query, but query 'a' has": lambda: rankql.compare(
        [rankql.read_values(pl.DataFrame({"query": "a", "RR": [1.0], "segment": x})) for x in "xy"],
        by="segment",
    ),
    "Two columns of the result would be called 'RR'": lambda: rr(RUN.with_columns(RR=1), by="RR"),
    "combine needs at least one result": lambda: rankql.combine([]),
    "The result 'one' has several systems. Pass it alone": lambda: rankql.compare(
        {"one": rr({"a": RUN, "b": RUN}), "two": rr()}
    ),
    "rels must be a list of grades, not Int64": lambda: QRELS.select(rankql.list_ndcg("rel")),
    # Also where the best scores of a run are looked at first.
    "score must be a number, not nan": lambda: rankql.evaluate(
        RUN.with_columns(score=pl.Series([1.0, math.nan, 1.0])), QRELS, "nDCG@1"
    ),
    "a column must be a name or an expression": lambda: rankql.exp2_gain(pl.DataFrame()),
    "between 0 and 1, not Decimal('0.5')": lambda: rankql.rbp("rel", p=decimal.Decimal("0.5")),
    "'x.parquet' is not a Parquet file": lambda: rankql.combine(["x.parquet"]),
}
OF_PLOTS = {
    "Unknown kind of plot 'pie'": lambda: compared().plot("pie"),
    "Nothing to plot: no query has a difference or a value": lambda: compared({"one": RUN}).plot(),
    "Unknown system None.": lambda: compared().plot("differences", b="two"),
}


@few(7)("message", [*IN_PYTHON, *(pytest.param(x, marks=pytest.mark.report) for x in OF_PLOTS)])
def test_python_refuses(message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(rankql.RankqlError, match=re.escape(message)):
        (IN_PYTHON | OF_PLOTS)[message]()


SPARK = str(PACKAGE / "spark.py")
NEEDS = {
    "compare needs scipy: pip install 'rankql[stats]'": compared,
    "gate needs scipy: pip install 'rankql[stats]'": lambda: rankql.gate(RUN, QRELS, baseline=RUN),
    "queries_needed needs scipy: pip install 'rankql[stats]'": lambda: rankql.queries_needed(0.3),
    "associate needs scipy: pip install 'rankql[stats]'": lambda: linked([1.0, 0.5, 0.2]),
    "funnel needs scipy: pip install 'rankql[stats]'": lambda: rankql.funnel(RUN, QRELS, 1),
    "plot needs altair: pip install 'rankql[report]'": lambda: rr().plot(),
    "needs sqlglot: pip install 'rankql[dialects]'": lambda: rankql.translate("SELECT 1", "spark"),
    "rankql.spark needs pyspark: pip install 'rankql[spark]'": lambda: runpy.run_path(SPARK),
}


@pytest.mark.parametrize("message", NEEDS)
def test_missing_packages(message, monkeypatch):
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    with pytest.raises(rankql.RankqlError, match=re.escape(message)):
        NEEDS[message]()


def test_packages_missing_later(monkeypatch, tmp_path):
    """To plot and to write a report, which come after scipy was needed."""
    comparison = compared()
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    for use in (comparison.plot, lambda: comparison.save(tmp_path / "report.html")):
        with pytest.raises(rankql.RankqlError, match=r"(plot|report) needs"):
            use()


def test_a_report_is_refused_before_the_runs_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr("rankql.errors.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.run", "b.run", "c.qrels"):
        (tmp_path / name).touch()
    done = CliRunner().invoke(main, ["report", "a.run", "b.run", "c.qrels", "-o", "r.html"])
    assert done.exit_code == 2
    assert "report needs altair: pip install 'rankql[report]'" in done.stderr
    assert "Comparing" not in done.stderr


def test_a_page_without_its_charts_says_so(monkeypatch, tmp_path):
    """Of monitor and funnel, on the page and on the terminal; other pages have no charts."""
    monkeypatch.setattr("rankql.results.find_spec", lambda name: None)
    note = "The charts are left out, they need altair and vl_convert: pip install"
    RUN.write_parquet(tmp_path / "a.parquet")
    QRELS.write_parquet(tmp_path / "q.parquet")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["funnel", "a=a.parquet", "q.parquet", "-o", "page.html"])
    assert done.exit_code == 0 and note in done.stderr
    assert note in (tmp_path / "page.html").read_text("utf-8")
    rr().save("rr.html")
    assert note not in (tmp_path / "rr.html").read_text("utf-8")


IN_SQL = {
    "reference must be a number, not text. Cast it first": "tau_ap('1'::TEXT, 1)",
    "exposure must be a number, not text. Cast it first": "exposure_disparity('1', 1)",
    "grades must be a MAP of events and their grades, not 3": "graded('view', 3)",
    "since must be a timestamp, as moment is, not 3": (
        "split FROM time_split('timed', since := 3)"
    ),
    "within must be an interval above 0, as moment is a timestamp, not 3": (
        "graded('view', MAP {'view': 1}, moment := TIMESTAMP '2026-01-01', "
        "until := TIMESTAMP '2026-01-02', within := 3)"
    ),
    "tapped must be 0 or 1, not NULL": "* FROM harvested_propensity('clicks', click := 'tapped')",
    "b must not hold NULL": "team_draft(['x'], ['y', NULL], seed := 1)",
}


@few(4)("message", IN_SQL)
def test_sql_refuses(message):
    with metric_engines.connect() as con:
        con.execute("CREATE TABLE clicks AS SELECT 1 AS query, 1 AS item, 1 AS pos, NULL AS tapped")
        con.execute("CREATE TEMP TABLE timed AS SELECT TIMESTAMP '2026-01-01' AS time")
        with pytest.raises(duckdb.ConversionException, match=re.escape(message)):
            con.execute(f"SELECT {IN_SQL[message]}").fetchall()


@pytest.mark.spark
def test_spark_before_its_session(monkeypatch):
    from rankql import spark

    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(rankql.RankqlError, match="ndcg: start a Spark session first"):
        spark.ndcg("rel", "pos")


def test_spark_reads_columns_on_empty_parts():
    """The columns of a part are found out on no rows, where an expression may be wrong."""
    metrics = parse("bought = max(price)")
    task = partitions.Task([None], RankingRules({}, Conventions()), [], metrics)
    empty = {"run": RUN.clear().to_arrow(), "qrels": QRELS.clear().to_arrow()}
    with pytest.raises(rankql.RankqlError, match="price"):
        partitions.evaluate_partition(task, empty)
