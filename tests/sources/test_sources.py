"""Beyond one file: Hive folders, attached databases."""

import os
import sqlite3
from datetime import date, datetime

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.cli import demo
from rankql.sources import frames as reading
from rankql.sources import private
from support import spark_sessions
from support.components import optional

deltalake = optional("deltalake")

# Those that are no part of DuckDB are tried where they have been installed, Postgres where
# RANKQL_POSTGRES says how to reach an empty database.
ATTACH = {
    "duckdb": "ATTACH '{}/shop.duckdb' AS shop",
    "sqlite": "LOAD sqlite; ATTACH '{}/shop.sqlite' AS shop (TYPE sqlite)",
    "ducklake": "LOAD ducklake; ATTACH 'ducklake:{}/shop.ducklake' AS shop (DATA_PATH '{}/lake')",
    "postgres": "LOAD postgres; ATTACH '{postgres}' AS shop (TYPE postgres)",
}
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


def whole():
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
        # What is not here must not be sought on the network.
        con.execute("SET autoinstall_known_extensions = false")
        yield con


@pytest.mark.parametrize(
    "pattern", ["{}", "{}/*/*/*.parquet", "{}/**/*.parquet", "{}/day=*/*/*.parquet"]
)
def test_hive_folders(folder, pattern):
    run, qrels = (pattern.format(folder / name) for name in ("runs", "judgments"))
    assert means(run, qrels) == pytest.approx(means(*whole()), abs=1e-12)


def test_folders_of_whole_numbers_and_several_groupings(folder):
    by = [["day"], ["day", "hour", "segment"]]
    found = means(folder / "runs", folder / "judgments", by=by)
    run, qrels = (frame.with_columns(hour=7) for frame in whole())
    assert found == pytest.approx(means(run, qrels, by=by), abs=1e-12) and len(found) == 39


def test_a_folder_whose_name_looks_like_a_pattern(tmp_path):
    write(tmp_path / "a[b]c")
    run, qrels = tmp_path / "a[b]c" / "runs", tmp_path / "a[b]c" / "judgments"
    assert means(run, qrels) == pytest.approx(means(*whole()), abs=1e-12)


@pytest.mark.parametrize("how", ["folder", "relation", "view", "macro"])
def test_other_days_are_not_opened(tmp_path, con, how):
    write(tmp_path)
    for name in ("runs", "judgments"):
        (tmp_path / name / f"day={DAYS[2]}" / "hour=7" / "part.parquet").write_bytes(b"no Parquet")
    first = whole()
    wanted = means(*(frame.filter(pl.col("day").cast(str) == DAYS[0]) for frame in first))
    sides = []
    for name in ("runs", "judgments"):
        sql = f"FROM read_parquet('{tmp_path}/{name}/*/*/*.parquet') WHERE day = '{DAYS[0]}'"
        con.execute(f"CREATE VIEW {name} AS {sql}")
        path = tmp_path / name / f"day={DAYS[0]}"
        sides.append({"folder": path, "relation": con.sql(sql)}.get(how, name))
    if how == "macro":
        rankql.register(con)
        query = """
            SELECT avg(value) FROM (
                SELECT ndcg_by_score(rel, score, item, 10) AS value
                FROM runs FULL JOIN judgments USING (query, item) GROUP BY query)"""
        assert con.sql(query).fetchall()[0][0] == pytest.approx(wanted["all", "nDCG@10"], abs=1e-12)
    else:
        assert means(*sides, con=None if how == "folder" else con) == pytest.approx(wanted)


@pytest.fixture(params=ATTACH)
def attached(request, con, tmp_path):
    """A connection to which the database `shop` is attached, with the tables."""
    server = os.environ.get("RANKQL_POSTGRES")
    if request.param == "postgres" and not server:
        pytest.skip("RANKQL_POSTGRES is not set")
    try:
        con.execute(ATTACH[request.param].format(tmp_path, tmp_path, postgres=server))
    except duckdb.IOException as error:
        pytest.skip(f"not installed: {str(error).splitlines()[0]}")
    for name, frame in zip(("runs", "judgments"), whole(), strict=True):
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE OR REPLACE TABLE shop.{name} AS FROM frame")
        con.unregister("frame")
    return con


def test_attached_databases(attached):
    assert means("shop.runs", "shop.judgments", attached) == pytest.approx(
        means(*whole()), abs=1e-12
    )
    rankql.register(attached)
    query = """
        SELECT segment, avg(value) FROM (
            SELECT segment, query, ndcg(rel, pos, 10) AS value
            FROM ranked('scored', query := 'query') GROUP BY ALL
        ) GROUP BY ALL ORDER BY ALL"""
    attached.execute("""
        CREATE TEMP TABLE scored AS
        SELECT query, segment, item, rel, score
        FROM (SELECT DISTINCT query, segment FROM shop.judgments)
        JOIN (SELECT query, item, rel, score
              FROM shop.runs FULL JOIN shop.judgments USING (query, item)) USING (query)""")
    wanted = means(*whole(), by="segment")
    for segment, value in attached.sql(query).fetchall():
        assert value == pytest.approx(wanted[f"segment={segment}", "nDCG@10"], abs=1e-12)


@pytest.mark.parametrize("con", [sqlite3.connect(":memory:"), object(), "postgresql://"])
@pytest.mark.parametrize("call", [rankql.evaluate, rankql.compare, rankql.check, rankql.register])
def test_a_connection_to_another_database_is_refused(call, con):
    run = () if call == rankql.register else ("run",)
    message = r"^con must be a DuckDB connection, not \w+\.\w+\. .*pl\.read_database.*translate"
    with pytest.raises(rankql.RankqlError, match=message):
        call(*run, con=con)


def test_names_of_attached_tables(tmp_path, con):
    for name in ("a", "b"):
        con.execute(f"ATTACH '{tmp_path / name}.duckdb' AS {name}")
        con.execute(f"CREATE TABLE {name}.runs AS SELECT 'q' AS query, 'i' AS item, 1 AS score")
    con.execute("CREATE TABLE a.judgments AS SELECT 'q' AS query, 'i' AS item, 1 AS rel")
    for run in ("a.runs", "A.main.Runs", "b.runs"):
        assert rankql.evaluate(run, "judgments", "RR", con=con, interval=None)["RR"] == 1
    with pytest.raises(rankql.RankqlError, match=r"'runs' may be a\.main\.runs or b\.main\.runs"):
        rankql.evaluate("runs", "judgments", con=con)
    con.execute("USE b")
    assert rankql.evaluate("runs", "a.judgments", "RR", con=con, interval=None)["RR"] == 1


def test_persisted_macros_of_an_attached_database(tmp_path, con):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as other:
        rankql.register(other, persist=True)
        other.execute("CREATE VIEW quality AS SELECT rankql.list_ndcg([3, 0, 2], 2) AS q")
    con.execute(f"ATTACH '{path}' (READ_ONLY)")
    (value,) = con.sql("SELECT shop.rankql.list_ndcg([3, 0, 2], 2)").fetchall()
    assert con.sql("FROM shop.quality").fetchall() == [value] and value[0] > 0.6
    con.execute("USE shop")
    assert con.sql("SELECT rankql.list_ndcg([3, 0, 2], 2)").fetchall() == [value]
    with duckdb.connect() as con:  # under another name they are not found, as the page says
        con.execute(f"ATTACH '{path}' AS another (READ_ONLY)")
        # Before DuckDB 2.0.1, and since.
        missing = (duckdb.BinderException, duckdb.CatalogException)
        with pytest.raises(missing, match=r'(Catalog|schema) "shop(\.rankql)?" does not exist'):
            con.sql("SELECT another.rankql.list_ndcg([3, 0, 2], 2)")


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
    for name, frame in zip(("runs", "judgments"), whole(), strict=True):
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
    assert rankql.evaluate(run, qrels, "RR", interval=None)["RR"] == 1


@pytest.mark.lakes
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_lakes(tmp_path, kind):
    runs, judgments = lake(kind, tmp_path)
    for run, qrels in zip(runs, judgments, strict=True):
        assert means(run, qrels) == pytest.approx(means(*whole()), abs=1e-12)


@pytest.mark.lakes
@pytest.mark.parametrize(
    ("kind", "folder", "message"),
    [
        ("delta", "runs", "is a table of Delta. Pass deltalake.DeltaTable"),
        ("iceberg", "shop/runs", "is a table of Iceberg. Pass table.scan"),
    ],
)
def test_the_folder_of_a_lake_is_no_table(tmp_path, kind, folder, message):
    """The rows of older versions are still there."""
    list(lake(kind, tmp_path))
    assert len(list((tmp_path / folder).glob("**/*.parquet"))) > 1
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(tmp_path / folder, whole()[1])


@pytest.mark.lakes
@pytest.mark.spark
def test_lakes_in_spark(tmp_path):
    """Of Delta the files that are part of it; of Iceberg the rows by Arrow."""
    import rankql.spark

    wanted = rankql.evaluate(*whole(), METRICS, by="day", interval=None).summary
    with spark_sessions.session(**spark_sessions.INTERPRETED) as spark:
        (tmp_path / "delta").mkdir()
        list(lake("delta", tmp_path / "delta"))
        files = []
        for path in (tmp_path / "delta" / "runs", tmp_path / "delta" / "judgments"):
            listed = deltalake.DeltaTable(path).file_uris()
            files.append(spark.read.option("basePath", str(path)).parquet(*listed))
        (tmp_path / "iceberg").mkdir()
        rows = [spark.createDataFrame(side[1]) for side in lake("iceberg", tmp_path / "iceberg")]
        for run, qrels in (files, rows):
            found = rankql.spark.evaluate(run, qrels, METRICS, by="day", interval=None).summary
            assert_frame_equal(found, wanted, abs_tol=1e-12, rel_tol=0)


@pytest.mark.parametrize("rows", [0, 3, 500, 1500, reading.FEW - 1, reading.FEW, reading.FEW + 2])
def test_frames_without_pyarrow(monkeypatch, rows):
    """The values are the same as with it: read from a query, and frames."""
    sql = f"""SELECT i AS big, CAST(i AS INTEGER) AS small, i % 2 = 0 AS even, NULL AS nothing,
        nullif('d' || i, 'd1') AS text,
        CASE i WHEN 0 THEN 'nan' WHEN 1 THEN '-inf' WHEN 2 THEN NULL ELSE i / 3 END::DOUBLE AS real
        FROM range({rows}) AS r (i) ORDER BY i"""
    con = private.private_connection()
    expected, first = con.sql(sql).pl(), reading.read_frame(con, sql)
    monkeypatch.setattr(reading, "has_pyarrow", lambda: False)
    for found in (first, reading.read_frame(con, sql)):
        assert_frame_equal(found, expected)
        assert reading.fits_one_thread(found) == (rows <= reading.ONE_CHUNK)
    for frame in (expected, expected.drop("nothing")):
        reading.register_frame(con, "made", frame)
        for _ in range(2):  # a stream is read anew each time
            assert_frame_equal(con.sql("FROM made").pl().select(frame.columns[:3]), frame[:, :3])
            texts = con.execute("SELECT text, real FROM made").fetchall()
            assert repr(texts) == repr(frame.select("text", "real").rows())


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


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_read_as_their_copies(kind):
    """Also those whose text is not copied: in chunks, sliced, empty, filtered by DuckDB."""
    con, frame = duckdb.connect(), pl.DataFrame({kind: KINDS[kind], "n": range(4)})
    chunks = pl.concat([frame, frame[1:3], frame[:0], frame[3:]], rechunk=False)
    for read in (frame, chunks, frame[1:], frame[:0]):
        reading.register_frame(con, "read", read)
        con.register("copied", read.to_arrow())
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
    with pytest.raises(rankql.RankqlError, match=r"(?i)object|rel must be a number"):
        rankql.evaluate(frame, None, "RR")
