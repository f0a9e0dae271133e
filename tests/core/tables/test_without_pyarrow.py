"""Beside NumPy 1, the import of pyarrow fails: dicts, lists, files and pandas frames are read."""

import os
import sys

import duckdb
import polars as pl
import pytest

from support import components
from support.environments import run
from support.paths import ROOT

FAILS = 'raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4\\nmore")\n'
SCRIPT = """
import gzip, sys
from datetime import date, datetime, timezone

import duckdb, pandas as pd, polars as pl, rankql

def print_all(count):
    run = pl.DataFrame({
        "query": [f"q{i // 5}" for i in range(count)],
        "item": [f"d{i % 5}" for i in range(count)],
        "score": [float((7 * i) % 11) for i in range(count)],
    })
    qrels = run.select("query", "item", rel=pl.int_range(pl.len()) % 3)
    frames = run, qrels
    pandas = [pd.DataFrame(x.to_dict(as_series=False)) for x in frames]
    dicts = [{}, {}]
    for place, frame in enumerate(frames):
        for query, item, value in frame.rows():
            dicts[place].setdefault(query, {})[item] = value
    run.write_csv("run.csv")
    qrels.write_parquet("qrels.parquet")
    with gzip.open("run.csv.gz", "wb") as file:
        file.write(open("run.csv", "rb").read())
    con = duckdb.connect()
    con.execute("CREATE TABLE run AS FROM 'run.csv'; CREATE TABLE qrels AS FROM 'qrels.parquet'")
    kinds = {"query": pl.Categorical, "item": pl.Enum([f"d{i}" for i in range(5)])}
    more = {"rel": "Int64", "item": "category", "query": "string"}
    moments = {"day": date(2026, 1, 1), "at": datetime(2026, 1, 1, tzinfo=timezone.utc)}
    evaluated = [rankql.evaluate(*data, **options) for data, options in (
        (frames, {}), (pandas, {}), (dicts, {}), ([x.to_dicts() for x in frames], {}),
        (("run.csv", "qrels.parquet"), {"output": "values.parquet"}), (("run.csv.gz", qrels), {}),
        (("run", "qrels"), {"con": con}),
        ((run.cast(kinds), qrels.cast({"rel": pl.Decimal(5, 1)})), {}),
        ((run.lazy(), qrels.cast({"rel": pl.UInt8})), {}),
        ((run.with_columns(**moments), qrels), {"by": ["day", "at"]}),
        ((pandas[0], pandas[1].astype(more)), {}),
    )]
    for each in [*evaluated, rankql.combine(["values.parquet"])]:
        print([round(each[name], 9) for name in ("AP", "nDCG@10")], each.per_query.height)
    print(repr(evaluated[0]), evaluated[0].to_pandas().round(6).to_dict("list"))
    print(rankql.compare({"a": run, "b": run.with_columns(score=-pl.col("score"))}, qrels))
    print(rankql.gate(run, qrels, minimum=["RR>=0.1"]))
    print(rankql.check(run, qrels), rankql.explain(run, qrels, "q1"))
    joined = pandas[0].merge(pandas[1]).assign(
        seen=pd.Timestamp("2026-01-01", tz="Asia/Tokyo"), none=None,
        text=[*"ab", None] * (count // 3),
    )
    print(rankql.ndcg_by_score(joined, by="query").round(6).sort_values("query").to_dict("list"))
    print(rankql.most_popular(joined, query="query").to_dict("list"))
    since = datetime(2025, 12, 31, 15)
    print(rankql.time_split(joined, since=since, moment="seen", query="query").shape)

print_all(60)
print_all(10_500)
"""
REFUSED = """
import rankql
for call in (
    lambda: rankql.evaluate({1: {1: 1.0}}, {1: {1: 1}}).to_arrow(),
    lambda: rankql.evaluate("run.arrow", {1: {1: 1}}),
):
    try:
        call()
    except rankql.RankqlError as error:
        print(error)
"""


def run_in(folder, python, code, *paths):
    path = os.pathsep.join(map(str, [*paths, ROOT]))
    environment = {**os.environ, "PYTHONPATH": path}
    return run(python, "-W", "ignore", "-c", code, cwd=folder, env=environment)


def failing(folder):
    """A folder with a pyarrow whose import fails."""
    (folder / "failing" / "pyarrow").mkdir(parents=True)
    (folder / "failing" / "pyarrow" / "__init__.py").write_text(FAILS)
    return folder / "failing"


def require_refusals(printed):
    remedy = "pip install 'numpy>=2', or where NumPy is pinned, pip install 'pyarrow<22'"
    fails = "needs pyarrow, whose import fails: pyarrow requires NumPy 2.0 or newer, found 1."
    lines = printed.splitlines()
    first = "to_arrow" if duckdb.__version__ >= "2" else "DuckDB"
    assert [line.split()[0] for line in lines] == [first, "'run.arrow'"]
    assert all(fails in line and line.endswith(remedy) for line in lines)


@pytest.mark.package
def test_the_same_is_printed(tmp_path):
    expected = run_in(tmp_path, sys.executable, SCRIPT)
    assert run_in(tmp_path, sys.executable, SCRIPT, failing(tmp_path)) == expected


def test_what_needs_it_says_so(tmp_path):
    pl.DataFrame({"query": [1], "item": [1]}).write_ipc(tmp_path / "run.arrow")
    require_refusals(run_in(tmp_path, sys.executable, REFUSED, failing(tmp_path)))


@pytest.mark.package
def test_beside_numpy_1(tmp_path):
    uv, python = components.program("uv"), tmp_path / "venv" / "bin" / "python"
    run(uv, "venv", "-q", "-p", "3.11", tmp_path / "venv")
    needs = ["numpy<2", "pandas", "scipy", "polars", "duckdb", "pyarrow", "click", "lazy-loader"]
    run(uv, "pip", "install", "-q", "-p", python, *needs)
    expected = run_in(tmp_path, sys.executable, SCRIPT)
    assert run_in(tmp_path, python, SCRIPT) == expected
    pl.DataFrame({"query": [1], "item": [1]}).write_ipc(tmp_path / "run.arrow")
    require_refusals(run_in(tmp_path, python, REFUSED))
