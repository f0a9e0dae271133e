"""by=, cluster=, weight= and day= are columns or SQL expressions of a row."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import rankql
from rankql import RankqlError

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


@pytest.mark.few(4)
@pytest.mark.parametrize(("options", "columns"), [
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


@pytest.mark.parametrize(("by", "message"), [
    ("device-type", "^by='device-type': no column of that name in qrels and run. Available: "),
    ("1", "^by='1': no column of that name"),
    ("sum(traffic)", r"aggregates\)"),
    ("traffic % 2 AS user", "^by: there is a column 'user'. Choose another name after AS"),
    ("upper(query)) ; SELECT (1", "is not valid SQL|must be one SQL expression"),
])  # fmt: skip
def test_what_is_no_expression_is_refused(by, message):
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(RUN, QRELS, "RR", by=by)
