"""Frames, columns and databases of other libraries, as far as what they lack has its call."""

import pickle

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import rankql
from rankql import RankqlError
from rankql.core.metrics import macros
from rankql.core.tables import reader
from support.parameters import few

RUN = pl.DataFrame({"query": ["u", "u"], "item": ["s", "t"], "score": [3.0, 2.0]})
QRELS = {"u": {"t": 1}}


def of_library(module, **members):
    """An object of a class with this module."""
    return type("Frame", (), {"__module__": module, **members})()


@few(2)(
    ("names", "call"),
    [
        (("to_pandas", "to_polars"), "to_polars"),
        (("to_pandas", "collect"), "collect"),
        (("to_df", "to_arrow"), "to_arrow"),
        (("to_pandas",), "to_pandas"),
        (("to_pandas", "collect", "to_polars"), "to_polars"),
    ],
)
def test_the_call_that_needs_least_is_offered(names, call):
    frame = of_library("lazytool.frame", **{x: lambda self: RUN for x in names})
    with pytest.raises(RankqlError, match=rf"Pass data\.{call}\(\)$"):
        rankql.evaluate(frame, QRELS, "RR")
    assert rankql.evaluate(getattr(frame, call)(), QRELS, "RR")["RR"] == 0.5


def test_columns_of_another_library_are_no_rows():
    column = of_library("dpyr.expr")
    with pytest.raises(RankqlError, match="takes a name or a polars expression") as raised:
        rankql.ndcg(column, column, 10)
    assert "not a Frame of dpyr" in str(raised.value)
    assert "pl.DataFrame(data)" not in str(raised.value)
    with pytest.raises(RankqlError, match=r"pl\.DataFrame\({"):
        rankql.ndcg([1, 0])


def test_a_frame_of_sqlframe_has_its_call():
    class Frame:
        """Any name is a column, as in sqlframe."""

        __module__ = "sqlframe.duckdb.dataframe"

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return of_library("sqlframe.base.column")

    with pytest.raises(RankqlError, match=r"of sqlframe\. Pass data\.toArrow\(\)"):
        rankql.evaluate(Frame(), QRELS, "RR")


def test_a_series_of_fireducks_has_its_call():
    series = of_library("fireducks.pandas.series", ndim=1, to_frame=lambda self: None)
    with pytest.raises(RankqlError, match=r"Series of fireducks\. Pass data\.to_frame") as raised:
        rankql.evaluate(series, QRELS, "RR")
    assert "np.repeat" not in str(raised.value)


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1 reads the bytes of the objects")
def test_objects_of_python_in_a_frame_of_daft_are_named():
    kind = {"ARROW:extension:name": "daft.super_extension", "ARROW:extension:metadata": "x"}
    fields = [
        pa.field("query", pa.string()),
        pa.field("item", pa.binary(), metadata=kind),
        pa.field("score", pa.float64()),
    ]
    cells = [["u", "u"], [pickle.dumps(x) for x in "st"], [3.0, 2.0]]
    table = pa.Table.from_arrays([*map(pa.array, cells)], schema=pa.schema(fields))
    stream = {"__arrow_c_stream__": lambda self, schema=None: table.__arrow_c_stream__(schema)}
    frame = of_library("daft.dataframe", **stream)
    call = r"daft\.super_extension.*cast\(daft\.DataType\.string\(\)\) on daft\.col\('item'\)"
    with pytest.raises(RankqlError, match=call):
        rankql.evaluate(frame, QRELS, "RR")


def test_a_table_that_no_catalogue_lists_is_read(monkeypatch):
    con = duckdb.connect()
    con.execute("ATTACH ':memory:' AS far")
    con.register("rows", RUN)
    con.execute("CREATE TABLE far.shown AS FROM rows")
    monkeypatch.setattr(reader, "_CANDIDATES", f"FROM ({reader._CANDIDATES}) WHERE name = 'none'")
    for name in ("far.shown", "FAR.main.shown"):
        assert rankql.evaluate(name, QRELS, "RR", con=con)["RR"] == 0.5
    for name in ("far.absent", "near.shown", "shown"):
        with pytest.raises(RankqlError, match="does not exist"):
            rankql.evaluate(name, QRELS, "RR", con=con)


def test_two_remote_tables_in_one_query_have_a_remedy():
    text = "Not implemented Error: Multiple streaming scans or streaming scans + CTAS"
    error = duckdb.NotImplementedException(text)
    assert reader.reword_error(error).endswith("as in CREATE TABLE run AS FROM r.run")


@few(2)("version", ["1.4.2", "1.4.10", "1.10.0", "0.10.3", "1.4.3", "2.0.1", "1.5.0.dev7"])
def test_register_compares_versions_as_numbers(version, monkeypatch):
    monkeypatch.setattr(duckdb, "__version__", version)
    con = duckdb.connect()
    if version in ("1.4.2", "0.10.3"):
        with pytest.raises(RankqlError, match=rf"needs DuckDB 1\.4\.3, not {version}: pip install"):
            macros.register(con)
    else:
        macros.register(con)
        ((value,),) = con.sql("SELECT rr(rel, pos) FROM (VALUES (1, 2)) t(rel, pos)").fetchall()
        assert value == 0.5
