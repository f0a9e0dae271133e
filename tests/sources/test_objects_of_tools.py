"""Objects of other tools are read, or their error has the call that gives their rows."""

import sqlite3

import polars as pl
import pytest

import rankql
from rankql import RankqlError

RUN = pl.DataFrame({"query": ["q1", "q2"], "item": ["d1", "d3"], "score": [1.0, 0.5]})
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}


def exporting(name, method):
    """An object with one method, such as ranx.Run, ItemList of LensKit, RankedResults."""
    return type(name, (), {method: lambda self: RUN.to_dicts()})()


@pytest.mark.parametrize("method", ["to_df", "to_dataframe", "to_pandas", "to_dict"])
def test_the_error_has_their_call(method):
    ranked = exporting("Ranked", method)
    for run, qrels, label in ((ranked, QRELS, "run"), (RUN, ranked, "qrels")):
        with pytest.raises(RankqlError, match=rf"^{label} must be .*Ranked\. Pass data\.{method}"):
            rankql.evaluate(run, qrels, "RR")


def test_a_dict_of_lists_of_items():
    """Of LensKit 2025.8: {user: ItemList}."""
    right = r"dict of ItemList\. Pass pd\.concat\({q: x\.to_df\(\) for q, x in run\.items\(\)}, "
    with pytest.raises(RankqlError, match=right):
        rankql.evaluate({1: exporting("ItemList", "to_df")}, QRELS, "RR")


@pytest.fixture
def database():
    with sqlite3.connect(":memory:") as con:
        con.row_factory = sqlite3.Row
        con.execute("CREATE TABLE run (query, item, score)")
        con.executemany("INSERT INTO run VALUES (?, ?, ?)", RUN.rows())
        yield con
    con.close()


def test_rows_of_sqlite_and_generators_are_read(database):
    def select():
        return database.execute("SELECT * FROM run")

    def dicts():
        return (row for row in RUN.to_dicts())

    for make in (lambda: select().fetchall(), select, dicts):
        assert rankql.evaluate(make(), QRELS, "RR")["RR"] == 0.5
        result = rankql.evaluate({"a": make(), "b": make()}, QRELS, "RR")
        assert result.summary["mean"].to_list() == [0.5, 0.5]
    judged = ({"query": q, "item": i, "rel": 1} for q, items in QRELS.items() for i in items)
    assert rankql.evaluate(RUN, judged, "RR")["RR"] == 0.5


def test_a_sparse_matrix_has_its_expression():
    matrix = type("csr_matrix", (), {"__module__": "scipy.sparse._csr"})()
    right = r"not csr_matrix\. Pass pl\.DataFrame\({'query': m\.row, .* of m = x\.tocoo\(\)"
    with pytest.raises(RankqlError, match=right):
        rankql.evaluate(matrix, QRELS, "RR")
