"""Messages that no other test triggers."""

import re
import runpy
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.parse import parse
from rankql.core.tables.request import RankingRules
from rankql.engines import partitions
from support import metric_engines
from support.parameters import few
from support.paths import PACKAGE
from support.refusals import REFUSALS, refuses, require_refused

RUN = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [2.0, 1.0, 1.0]})
QRELS = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1, 1]})
POSITIONS_GIVEN = RUN.select("query", "item", pos=pl.Series([1, 2, 1]))
HALF, import_spark = Decimal("0.5"), partial(runpy.run_path, str(PACKAGE / "spark.py"))


def rr(runs=RUN, *more, **options):
    return rankql.evaluate(runs, QRELS, "RR", *more, interval=None, **options)


def compared(runs=None, **options):
    return rankql.compare(runs or {"one": RUN, "two": RUN}, QRELS, "RR", **options)


def linked(values, clicks=(1, 2, 3), keys="abc"):
    scores = pl.DataFrame({"query": [*"abc"], "RR": values})
    clicks = pl.DataFrame({"query": [*keys], "clicks": clicks})
    return rankql.associate(scores, clicks, on="query")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """With a file that is not Parquet."""
    monkeypatch.chdir(tmp_path)
    Path("x.parquet").write_text("no")


test_python_refuses = refuses("messages", globals(), light=7)
test_plots_refuse = pytest.mark.report(refuses("plots", globals()))


@pytest.mark.parametrize(("call", "words"), REFUSALS["packages"].items())
def test_missing_packages(call, words, monkeypatch):
    monkeypatch.setattr("rankql.core.base.errors.find_spec", lambda name: None)
    require_refused(call, words, globals())


def test_packages_missing_later(monkeypatch, tmp_path):
    """To plot and to write a report, which come after scipy was needed."""
    comparison = compared()
    monkeypatch.setattr("rankql.core.base.errors.find_spec", lambda name: None)
    for use in (comparison.plot, lambda: comparison.save(tmp_path / "report.html")):
        with pytest.raises(rankql.RankqlError, match=r"(plot|report) needs"):
            use()


def test_a_report_is_refused_before_the_runs_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr("rankql.core.base.errors.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.run", "b.run", "c.qrels"):
        (tmp_path / name).touch()
    done = CliRunner().invoke(main, ["report", "a.run", "b.run", "c.qrels", "-o", "r.html"])
    assert done.exit_code == 2
    assert "report needs altair: pip install 'rankql[report]'" in done.stderr
    assert "Comparing" not in done.stderr


def test_a_page_without_its_charts_says_so(monkeypatch, tmp_path):
    """Of monitor and funnel, on the page and on the terminal; other pages have no charts."""
    monkeypatch.setattr("rankql.core.base.results.find_spec", lambda name: None)
    note = "The charts are left out, they need altair and vl_convert: pip install"
    RUN.write_parquet(tmp_path / "a.parquet")
    QRELS.write_parquet(tmp_path / "q.parquet")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["funnel", "a=a.parquet", "q.parquet", "-o", "page.html"])
    assert done.exit_code == 0 and note in done.stderr
    assert note in (tmp_path / "page.html").read_text("utf-8")
    rr().save("rr.html")
    assert note not in (tmp_path / "rr.html").read_text("utf-8")


@few(4)(("call", "words"), REFUSALS["in_sql"].items())
def test_sql_refuses(call, words):
    with metric_engines.connect() as con:
        con.execute("CREATE TABLE clicks AS SELECT 1 AS query, 1 AS item, 1 AS pos, NULL AS tapped")
        con.execute("CREATE TEMP TABLE timed AS SELECT TIMESTAMP '2026-01-01' AS time")
        with pytest.raises(duckdb.ConversionException, match=re.escape(words)):
            con.execute(f"SELECT {call}").fetchall()


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
