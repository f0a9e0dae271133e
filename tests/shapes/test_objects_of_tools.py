"""Objects of other tools are read, or their error has the call that gives their rows."""

import re
import sqlite3
from typing import NamedTuple

import polars as pl
import pytest

from support.reading import read, refused

RUN = pl.DataFrame({"query": ["q1", "q2"], "item": ["d1", "d3"], "score": [1.0, 0.5]})
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}


def exporting(name, method):
    """An object with one method, such as ranx.Run, ItemList of LensKit, RankedResults."""
    return type(name, (), {method: lambda self: RUN.to_dicts()})()


@pytest.mark.parametrize("method", ["to_df", "to_dataframe", "to_pandas", "to_dict"])
def test_the_error_has_their_call(method):
    ranked = exporting("Ranked", method)
    for run, qrels, label in ((ranked, QRELS, "run"), (RUN, ranked, "qrels")):
        refused(run, qrels, match=rf"^{label} must be .*Ranked\. Pass data\.{method}")


def test_a_dict_of_lists_of_items():
    """Of LensKit 2025.8: {user: ItemList}."""
    right = r"dict of ItemList\. Pass pd\.concat\({q: x\.to_df\(\) for q, x in run\.items\(\)}, "
    refused({1: exporting("ItemList", "to_df")}, QRELS, match=right)


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
        assert read(make(), QRELS)["RR"] == 0.5
        assert read({"a": make(), "b": make()}, QRELS).means() == [0.5, 0.5]
    judged = ({"query": q, "item": i, "rel": 1} for q, items in QRELS.items() for i in items)
    assert read(RUN, judged)["RR"] == 0.5


def test_a_sparse_matrix_has_its_expression():
    matrix = type("csr_matrix", (), {"__module__": "scipy.sparse._csr"})()
    right = r"not csr_matrix\. Pass pl\.DataFrame\({'query': m\.row, .* of m = x\.tocoo\(\)"
    refused(matrix, QRELS, match=right)


class Prediction(NamedTuple):
    """Of scikit-surprise 1.1.5: r_ui is the true rating."""

    uid: str
    iid: str
    r_ui: float
    est: float


PREDICTIONS = [Prediction("u1", "a", 1, 3.5), Prediction("u1", "b", 5, 3.1)]
DEEPEVAL = {"input": "q", "context": ["b"], "retrieval_context": ["a", "b"]}  # deepeval 4.3.1
MLFLOW = {"trace_id": "t", "response": ["a", "b"], "expected_docs/value": ["b"]}  # mlflow 3.17.2


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("data", "metric", "call"),
    [
        (PREDICTIONS, "RR(threshold=4)", "rel='r_ui', score='est'"),
        ([DEEPEVAL], "RR", "item=['retrieval_context', 'context']"),
        ([MLFLOW], "RR", "item=['response', 'expected_docs/value']"),
    ],
)
def test_the_first_offer_is_right(data, metric, call):
    error = refused(data, metrics=metric)
    assert re.search(rf"Pass( one of)?:\n    {re.escape(call)}\n", str(error))
    options = eval(f"dict({call})")
    assert read(data, metrics=metric, **options)[metric] == 0.5


def test_a_true_rating_is_no_score():
    refused(PREDICTIONS, {"u1": ["b"]}, match=r"Pass: score='est' The run")
