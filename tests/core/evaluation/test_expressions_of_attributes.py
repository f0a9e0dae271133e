"""by=, cluster=, weight= and day= are columns or SQL expressions of a row; own metrics too."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import rankql
from rankql.core.tables.private import create_macros, private_connection
from support.parameters import few
from support.refusals import REFUSALS, refuses, require_refused

DAYS = [datetime(2026, 1, 1) + timedelta(days=i) for i in range(40)]
RUN = pl.DataFrame([
    {"query": f"q{i}", "item": item, "score": score, "timestamp": day, "user": f"U{i % 9}",
     "traffic": i % 7 + 1}
    for i, day in enumerate(DAYS) for item, score in (("x", 2.0), ("y", 1.0))
])  # fmt: skip
QRELS = pl.DataFrame([{"query": f"q{i}", "item": "yxx"[i % 3], "rel": 1} for i in range(40)])
COLUMNS = RUN.with_columns(
    month=pl.col("timestamp").dt.truncate("1mo"),
    lower=pl.col("user").str.to_lowercase(),
    busy=(pl.col("traffic") + 1).log(2),
)


@pytest.fixture(params=["frame", "csv", "parquet"])
def run(request, tmp_path):
    if request.param == "frame":
        return RUN
    path = tmp_path / f"run.{request.param}"
    getattr(RUN, f"write_{request.param}")(path)
    return path


def means(run, **options):
    return rankql.evaluate(run, QRELS, "RR", **options).summary.select("mean", "lo", "hi")


@few(1)(("options", "columns"), [
    ({"by": "date_trunc('month', timestamp)"}, {"by": "month"}),
    ({"by": [["date_trunc('month', timestamp) AS m", "user"]]}, {"by": [["month", "user"]]}),
    ({"weight": "log2(1 + traffic)"}, {"weight": "busy"}),
    ({"cluster": "lower(user)"}, {"cluster": "lower"}),
])  # fmt: skip
def test_expressions_are_columns(run, options, columns):
    assert means(run, **options).equals(means(COLUMNS, **columns))


def test_the_text_or_the_name_after_as_names_the_slice():
    text = "timestamp::date > DATE '2026-01-15'"
    for by, name in ((text, text), (f"{text} AS late", "late")):
        slices = rankql.evaluate(RUN, QRELS, "RR", by=by).summary["slice"].to_list()
        assert slices == ["all", f"{name}=false", f"{name}=true"]
    comparison = rankql.compare({"a": RUN, "b": RUN}, QRELS, "RR", by=f"{text} AS late")
    assert {"late=true"} < {*comparison.pairs["slice"]}


def test_a_column_of_this_name_wins():
    run = RUN.with_columns(pl.lit("own").alias("lower(user)"))
    assert "lower(user)=own" in rankql.evaluate(run, QRELS, "RR", by="lower(user)").summary["slice"]


def test_attributes_and_lists_have_expressions():
    about = QRELS.select("query", seg=pl.lit("s"))
    result = rankql.evaluate(RUN, QRELS, "RR", by="upper(seg)", attributes=about)
    assert result.summary["slice"].to_list() == ["all", "upper(seg)=S"]
    row = {"query": ["a"], "retrieved": [["x"]], "relevant": [["x"]], "ts": ["2026-01-02"]}
    result = rankql.evaluate(pl.DataFrame(row), None, "RR", by="ts::date")
    assert result.summary["slice"][1] == "ts::date=2026-01-02"


test_what_is_no_expression = refuses(
    "by", globals(), "rankql.evaluate(RUN, QRELS, 'RR', by=%s)", light=5
)


# Metrics of the user over columns of the run, also over the first positions

LOG = pl.DataFrame(
    {
        "query": ["a", "a", "a", "b"],
        "item": ["x", "y", "z", "x"],
        "score": [0.3, 0.2, 0.1, 0.5],
        "price": [10.0, 20.0, 60.0, 5.0],
        "judged": [1, 1, 0, 1],
    }
)
BOUGHT = pl.DataFrame({"query": ["a", "a", "b", "c"], "item": ["y", "w", "x", "x"], "rel": [1] * 4})
# By hand: the prices of all items, and those of the first two.
EXPECTED = [("a", 30.0, 15.0, 0.5), ("b", 5.0, 5.0, 1.0), ("c", None, None, 0.0)]


@few(2)("kind", ["frames", "csv", "ranked", "runs"])
def test_columns_of_the_run(kind, tmp_path):
    metrics = [{"price": "avg(price)", "price@2": "avg(price)"}, "RR"]
    data, qrels, expected = LOG, BOUGHT, EXPECTED
    if kind == "csv":
        data, qrels = tmp_path / "data.csv", tmp_path / "qrels.csv"
        LOG.write_csv(data)
        BOUGHT.write_csv(qrels)
    if kind == "ranked":
        data, qrels = LOG.join(BOUGHT, on=["query", "item"], how="left"), None
        data, expected = data.with_columns(pos=pl.Series([1, 2, 3, 1])), EXPECTED[:2]
    if kind == "runs":
        data, expected = {"one": LOG}, [("one", *row) for row in EXPECTED]
    result = rankql.evaluate(data, qrels, metrics)
    assert result.per_query.rows() == expected
    assert result.metrics == ["price", "price@2", "RR"]


@few(1)("options", [{}, {"ties": "best"}, {"undefined": "drop"}])
def test_own_metrics_with_other_conventions(options):
    texts = ["known@2 = sum(judged)", "dear = max(price) FILTER (pos <= 2)", "nDCG@2"]
    values = rankql.evaluate(LOG, BOUGHT, texts, **options).per_query
    assert values["known@2", "dear"].rows()[:2] == [(2, 20), (1, 5)]


@few(3)(("call", "words"), REFUSALS["own_metrics"].items())
def test_metrics_that_cannot_be_right(call, words):
    with private_connection() as con:  # has a macro whose name is like the wrong one
        create_macros(con, "dcg_by_score(rel, score, item)")
    require_refused(f"rankql.evaluate({call})", words, globals())
