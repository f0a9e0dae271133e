"""Beyond one file: Hive folders, attached databases."""

import sqlite3
from datetime import date, datetime
from types import SimpleNamespace

import duckdb
import numpy
import pandas
import polars as pl
import pyarrow.dataset
import pytest

import rankql
from rankql.cli import demo
from rankql.core.tables import frames as reading
from support.components import optional
from support.parameters import few
from support.reading import read, refused

deltalake = optional("deltalake")

METRICS = ["nDCG@10", "AP", "microR@10"]
DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]


def frames(number):
    """The run and the judgments of a day."""
    log = demo.shop(100, seed=number).with_columns(query=f"{number}-" + pl.col("query"))
    run = log.filter(pl.col("pos").is_not_null()).select("query", "item", "score")
    return run, log.filter(pl.col("rel").is_not_null()).select("query", "segment", "item", "rel")


def write(folder):
    for number, day in enumerate(DAYS):
        for name, frame in zip(("runs", "judgments"), frames(number), strict=True):
            path = folder / name / f"day={day}" / "hour=7"
            path.mkdir(parents=True)
            frame.write_parquet(path / "part.parquet")


def all_days():
    """The frames of all days as one, each with its day."""
    each = [
        [frame.with_columns(day=pl.lit(day).str.to_date()) for frame in frames(number)]
        for number, day in enumerate(DAYS)
    ]
    return [pl.concat(side) for side in zip(*each, strict=True)]


def means(run, qrels, con=None, by="day"):
    result = rankql.evaluate(run, qrels, METRICS, by=by, interval=None, con=con)
    return {(s, m): v for s, m, v in result.summary.select("slice", "metric", "mean").rows()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources")
    write(path)
    return path


@pytest.fixture
def con():
    with duckdb.connect() as con:
        yield con


@few(1)("pattern", ["{}", "{}/*/*/*.parquet", "{}/**/*.parquet", "{}/day=*/*/*.parquet"])
def test_hive_folders_have_columns(folder, pattern):
    run, qrels = (pattern.format(folder / name) for name in ("runs", "judgments"))
    by = [["day"], ["day", "hour", "segment"]]
    expected = means(*(frame.with_columns(hour=7) for frame in all_days()), by=by)
    assert means(run, qrels, by=by) == pytest.approx(expected, abs=1e-12) and len(expected) == 39


@few(1)("form", ["folder", "relation", "view"])
def test_other_days_are_not_opened(tmp_path, con, form):
    write(tmp_path)
    for name in ("runs", "judgments"):
        (tmp_path / name / f"day={DAYS[2]}" / "hour=7" / "part.parquet").write_bytes(b"no Parquet")
    first = (frame.filter(pl.col("day").cast(str) == DAYS[0]) for frame in all_days())
    tables = []
    for name in ("runs", "judgments"):
        sql = f"FROM read_parquet('{tmp_path}/{name}/*/*/*.parquet') WHERE day = '{DAYS[0]}'"
        con.execute(f"CREATE VIEW {name} AS {sql}")
        path = tmp_path / name / f"day={DAYS[0]}"
        tables.append({"folder": path, "relation": con.sql(sql), "view": name}[form])
    result = means(*tables, con=None if form == "folder" else con)
    assert result == pytest.approx(means(*first))


@pytest.mark.slow
def test_a_folder_is_not_a_pattern(tmp_path):
    write(tmp_path / "a[b]c")
    sides = (tmp_path / "a[b]c" / name for name in ("runs", "judgments"))
    assert means(*sides) == pytest.approx(means(*all_days()), abs=1e-12)


@few(4)("con", [sqlite3.connect(":memory:"), object(), "postgresql://"])
@pytest.mark.parametrize("call", [rankql.evaluate, rankql.compare, rankql.check, rankql.register])
def test_a_connection_to_another_database_is_refused(call, con):
    run = () if call == rankql.register else ("run",)
    with pytest.raises(rankql.RankqlError, match=r"^con must be a DuckDB connection, not \w+\.\w+"):
        call(*run, con=con)


def test_attached_databases_are_read(tmp_path, con):
    con.execute(f"ATTACH '{tmp_path}/shop.duckdb' AS shop")
    for name, frame in zip(("runs", "judgments"), all_days(), strict=True):
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE TABLE shop.{name} AS FROM frame")
    expected = pytest.approx(means(*all_days()), abs=1e-12)
    assert means("shop.runs", "shop.judgments", con) == expected


def test_names_of_attached_tables(tmp_path, con):
    for name in ("a", "b"):
        con.execute(f"ATTACH '{tmp_path / name}.duckdb' AS {name}")
        con.execute(f"CREATE TABLE {name}.runs AS SELECT 'q' AS query, 'i' AS item, 1 AS score")
    con.execute("CREATE TABLE a.judgments AS SELECT 'q' AS query, 'i' AS item, 1 AS rel")
    for run in ("a.runs", "A.main.Runs", "b.runs"):
        assert read(run, "judgments", con=con)["RR"] == 1
    refused("runs", "judgments", con=con, match=r"'runs' may be a\.main\.runs or b\.main\.runs")
    con.execute("USE b")
    assert read("runs", "a.judgments", con=con)["RR"] == 1


def delta(folder, name, frame):
    """A table of Delta whose first version is no longer true."""
    for version in (frame.with_columns(query=pl.lit("old")), frame):
        deltalake.write_deltalake(folder / name, version, mode="overwrite", partition_by=["day"])
    return deltalake.DeltaTable(folder / name)


def iceberg(folder, name, frame):
    """The same of Iceberg."""
    sql = optional("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace_if_not_exists("shop")
    # Iceberg has none of the large types.
    rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    table = catalog.create_table(("shop", name), rows.schema)
    table.append(rows)
    table.overwrite(rows)
    return table


def lake(kind, folder):
    """The tables of all days in a lake, in every shape that can be evaluated."""
    for name, frame in zip(("runs", "judgments"), all_days(), strict=True):
        table = {"delta": delta, "iceberg": iceberg}[kind](folder, name, frame)
        if kind == "delta":
            yield table.to_pyarrow_dataset(), table.to_pyarrow_table()
        else:
            yield table.scan().to_arrow_batch_reader(), table.scan().to_arrow()


@pytest.mark.lakes
def test_many_queries_in_a_lake(tmp_path):
    """pyarrow cannot compare their type of text with that of a condition."""
    qrels = pl.DataFrame({"query": [f"q{i}" for i in range(1200)], "item": "a", "rel": 1, "day": 1})
    run = delta(tmp_path, "runs", qrels.with_columns(score=1.0)).to_pyarrow_dataset()
    assert read(run, qrels)["RR"] == 1


@pytest.mark.lakes
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_lakes(tmp_path, kind):
    runs, judgments = lake(kind, tmp_path)
    for run, qrels in zip(runs, judgments, strict=True):
        assert means(run, qrels) == pytest.approx(means(*all_days()), abs=1e-12)


@pytest.mark.lakes
@pytest.mark.parametrize(("kind", "folder"), [("delta", "runs"), ("iceberg", "shop/runs")])
def test_the_folder_of_a_lake_is_not_a_table(tmp_path, kind, folder):
    """The rows of older versions are still there."""
    list(lake(kind, tmp_path))
    assert len(list((tmp_path / folder).glob("**/*.parquet"))) > 1
    refused(tmp_path / folder, all_days()[1], match="is a table of Delta or Iceberg")


KINDS = {
    "text": pl.Series(["a", None, "too long for a view", ""]),
    "code": pl.Series(["a", None, "b", "a"], dtype=pl.Categorical),
    "bytes": pl.Series([b"a", None, b"b", b""]),
    "texts": pl.Series([["a"], None, [None, "too long for a view"], []]),
    "nothing": pl.Series([None] * 4),
    "yes": pl.Series([True, None, False, True]),
    "number": pl.Series([1, None, 3, 4], dtype=pl.UInt64),
    "decimal": pl.Series(["1.5", None, "2.5", "3"]).cast(pl.Decimal(10, 2)),
    "day": pl.Series([date(2026, 11, 23)] * 4),
    "moment": pl.Series([datetime(2026, 11, 23, 7)] * 4),
}


@few(3)("kind", KINDS)
def test_frames_are_read_as_their_copies(kind):
    """Also those whose text is not copied: in chunks, sliced, empty, filtered by DuckDB."""
    con, frame = duckdb.connect(), pl.DataFrame({kind: KINDS[kind], "n": range(4)})
    chunks = pl.concat([frame, frame[1:3], frame[:0], frame[3:]], rechunk=False)
    for part in (frame, chunks, frame[1:], frame[:0]):
        reading.register_frame(con, "read", part)
        con.register("copied", part.to_arrow())
        for sql in (
            "DESCRIBE FROM {}",
            "FROM {} ORDER BY n",
            f"SELECT n FROM {{}} WHERE CAST({kind} AS VARCHAR) >= 'a' ORDER BY n",
            f"SELECT n FROM {{}} WHERE {kind} IN (SELECT {kind} FROM {{}} LIMIT 2) ORDER BY n",
            f"SELECT count(*) FROM {{}} GROUP BY {kind} ORDER BY 1",
        ):
            rows = [con.execute(sql.format(name, name)).fetchall() for name in ("read", "copied")]
            assert repr(rows[0]) == repr(rows[1]), sql


def test_python_objects_are_refused():
    frame = pl.DataFrame({"query": [1], "pos": [1]})
    frame = frame.with_columns(rel=pl.Series([object()], dtype=pl.Object))
    refused(frame, match=r"(?i)object|rel must be a number")


# Frames of other libraries

SCORED = pl.DataFrame({"query": ["q1", "q1"], "item": ["a", "b"], "score": [0.9, 0.5]})


class OnlyArray:
    """What has `__arrow_c_array__` alone, as a record batch of arro3."""

    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def half(frame):
    return frame.with_columns(pl.col("score").cast(pl.Float16))


@few(2)(
    "convert",
    [
        lambda frame: OnlyArray(frame.to_arrow().to_batches()[0]),
        lambda frame: frame.to_arrow().to_batches(),
        lambda frame: pyarrow.dataset.dataset(frame.to_arrow()).scanner(),
        half,
        lambda frame: half(frame).lazy(),
        lambda frame: half(frame).to_arrow(),
        lambda frame: frame.to_numpy(structured=True),
    ],
)
def test_frames_of_other_kinds_are_read(convert):
    assert read(convert(SCORED), {"q1": ["b"]})["RR"] == 0.5


@pytest.mark.frames
def test_frames_of_other_libraries_are_read():
    import ibis
    import narwhals

    for run in (
        ibis.memtable(SCORED.to_pandas()).filter(ibis._.score > 0),
        narwhals.from_native(SCORED.lazy()),
        narwhals.from_native(SCORED.to_pandas()),
    ):
        assert read(run, {"q1": ["b"]})["RR"] == 0.5


@pytest.mark.frames
@pytest.mark.parametrize("library", ["datasets", "dask", "deltalake", "pyiceberg", "scan"])
def test_the_error_writes_the_call_that_reads(library, tmp_path):
    """A dataset that is filtered must not be read by .data.table, which has all rows."""
    table = SCORED.to_arrow().cast(SCORED.to_pandas().pipe(pyarrow.Table.from_pandas).schema)
    if library == "datasets":
        from datasets import Dataset

        data = Dataset.from_pandas(SCORED.to_pandas()).filter(lambda row: row["item"] == "b")
    elif library == "dask":
        import dask.dataframe

        data = dask.dataframe.from_pandas(SCORED.to_pandas(), npartitions=1)
    elif library == "deltalake":
        import deltalake

        deltalake.write_deltalake(tmp_path / "delta", table)
        data = deltalake.DeltaTable(tmp_path / "delta")
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("c", uri="sqlite://", warehouse=f"file://{tmp_path}")
        catalog.create_namespace("n")
        data = catalog.create_table("n.t", schema=table.schema)
        data.append(table)
        data = data.scan() if library == "scan" else data
    error = refused(data, {"q1": ["b"]}, match=r"^run must be a path, .* Pass data\.")
    run = eval(str(error).partition("Pass ")[2], {"data": data})
    expected = 1 if library == "datasets" else 0.5
    assert read(run, {"q1": ["b"]})["RR"] == expected


def test_what_is_no_table_is_named():
    class Fails:
        def __arrow_c_stream__(self, requested_schema=None):
            raise NotImplementedError("object dtype")

    for run, message in (
        (Fails(), "^run: Fails cannot be read as Arrow: object dtype"),
        (duckdb.connect().execute("SELECT 1"), r"^run is a connection\. Pass a relation: con\.sql"),
        ([SCORED, SCORED], "every row must be a dict of names and values"),
        (pandas.Index(["a"]), "not Index"),
        (
            numpy.array([0.5, 0.2]),
            r"not ndarray\. See .*#arrays\. Pass pl\.DataFrame\(\{'query': np\.repeat",
        ),
    ):
        refused(run, {"q1": ["b"]}, match=message)


@pytest.mark.parametrize("count", [0, 3, 1_000, 1_500])
def test_rows_of_lists_are_the_same_without_pyarrow(count, monkeypatch):
    lists = "[range, NULL, 2]::INTEGER[] AS places, [range / 4] AS rels, [range::VARCHAR] AS ids"
    query = f"SELECT {lists}, NULL::DOUBLE[] AS none FROM range({count})"
    with duckdb.connect() as con:
        arrow = reading.read_frame(con, query)
        monkeypatch.setattr(reading, "sys", SimpleNamespace(modules={}))
        fetched = reading.read_frame(con, query)
    assert fetched.equals(arrow) and fetched.schema == arrow.schema and len(arrow) == count
