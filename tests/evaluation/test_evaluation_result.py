"""The result of an evaluation: its SQL, exports and files."""

import json
import os

import polars as pl
import pytest

import rankql
from support import metric_engines
from support.parameters import slow
from support.random_runs import METRICS, QRELS, RUN, same, with_segments


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {},
        *map(slow, ({"ties": "best"}, {"unjudged": "remove"})),
        {"ties": "expected", "gain": "exp2"},
        {"metrics": {"own": "avg(rel)"}},
    ],
)
def test_sql_that_ran_runs(options):
    """The SQL of a result, pasted into a connection with the macros, returns its values."""
    con = metric_engines.connect()
    con.register("rankql_run", RUN)
    con.register("rankql_qrels", QRELS)
    metrics = [m for m in METRICS if "ERR" not in m]
    result = rankql.evaluate(RUN, QRELS, **{"metrics": metrics, **options})
    same(con.sql(result.sql).pl()[result.per_query.columns], result.per_query)


def test_conventions_are_part_of_every_result():
    result = rankql.evaluate(RUN, QRELS, "AP@10", conventions="trec_eval")
    for printed in (repr(result), result._repr_html_(), result.to_markdown(), result.to_json()):
        assert "ap_denominator" in printed and "trec_eval" in printed and "float32" in printed


def test_conversions():
    options = {"attributes": with_segments(), "by": "segment"}
    result = rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"], **options)
    assert result.table.equals(result.summary)
    plain = json.loads(result.to_json())
    assert plain["table"] == result.summary.to_dicts() and plain["conventions"]["ties"] == "item"
    lines = [line for line in result.to_markdown().split("\n") if line.startswith("| ")]
    assert lines[0].startswith("| slice | metric | mean | lo | hi |")
    assert len(lines) == len(result.summary) + 2
    assert result._repr_html_().count("<tr>") == len(result.summary) + 1
    with pytest.raises(rankql.RankqlError, match="'P@5' was not evaluated"):
        result["P@5"]


def test_parts_in_memory_and_in_files_are_combined(tmp_path):
    metrics, path = [*METRICS, "microR@5"], tmp_path / "values.parquet"
    options = {"by": "segment", "attributes": with_segments()}
    complete = rankql.evaluate(RUN, QRELS, metrics, **options)
    parts = []
    for day in range(3):
        tables = (x.filter(pl.col("query").hash() % 3 == day) for x in (RUN, QRELS))
        file = tmp_path / f"day {day}'s.parquet"
        part = rankql.evaluate(*tables, metrics, output=file, **options)
        assert file.is_file() and part.per_query.height > 0
        parts.append(file if day else part)
    complete.save_values(path)
    for whole in (parts, [path]):
        combined = rankql.combine(whole)
        same(combined.per_query, complete.per_query)
        same(combined.summary, complete.summary)
    listed = rankql.evaluate(RUN, QRELS, "nDCG@5", discounts=[1, 2, 3, 4, 5])
    listed.save_values(path)
    assert rankql.combine(str(path)).conventions == listed.conventions
    other = rankql.evaluate(RUN, QRELS, metrics, ties="best", **options)
    RUN.write_parquet(path)
    for results, message in (
        ([complete, complete], "queries that occur twice"),
        ([complete, other], "different conventions"),
        ([path], "is neither a result nor a file"),
    ):
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.combine(results)


def test_an_error_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "out.parquet"
    rankql.evaluate(RUN, QRELS, "AP", output=path)
    before = path.read_bytes()
    with pytest.raises(rankql.RankqlError, match="undefined='error'"):
        rankql.evaluate(RUN, QRELS, "AP", output=path, undefined="error")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["out.parquet"]
