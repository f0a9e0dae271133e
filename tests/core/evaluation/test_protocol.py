"""The table of the columns of a reduction: each form has those that it names, and no others."""

import duckdb
import polars as pl
import pytest

from rankql.core.evaluation.plan.evaluation import SCALES
from rankql.core.evaluation.plan.plan import make_plan
from rankql.core.evaluation.reduce import fetch, protocol
from rankql.core.tables.session import open_session
from support.parameters import few
from support.reductions import make_request
from support.samples import SHAPES, ranked

# A metric that only the first positions matter for, one that reads more, and the ideal of sklearn.
METRICS = {"small": "nDCG@10", "large": "AP", "retrieved": "nDCG(ideal=retrieved)@5", "none": "AUC"}


def reduce(shape, metric, table=None):
    run, qrels = SHAPES[shape](ranked(3) if table is None else table)
    request = make_request(run, qrels, metric)
    with open_session(None) as session:
        return fetch.reduce_tables(make_plan(session, request))


LAYOUTS = {
    ("ranked", "small"): "words",
    ("ranked", "large"): "words",  # of hits
    ("joined", "small"): "joined",
    ("joined by score", "small"): "cuts",
    ("joined by score", "retrieved"): "hashes",
    ("ranked by score", "small"): "hashes",
    ("joined by score", "large"): "lists",
    ("joined", "large"): "lists",
    ("ranked by score", "large"): "lists",
    ("ranked by score", "none"): "counters",
    ("joined by score", "none"): "counters",
}


@few(3)(("shape", "metric"), LAYOUTS)
def test_a_layout_has_the_columns_of_the_table(shape, metric):
    reduction = reduce(shape, METRICS[metric])
    assert reduction.layout == LAYOUTS[shape, metric]
    named = {name for name in protocol.COLUMNS if reduction.has(name)}
    assert named == {*reduction.frame.columns} & {*protocol.COLUMNS}


def test_every_layout_and_column_is_in_use():
    layouts = {*LAYOUTS.values()}
    assert layouts == {"words", *protocol.COUNTING}
    unused = [name for name, column in protocol.COLUMNS.items() if not {*column.layouts} <= layouts]
    assert not unused


@pytest.mark.parametrize("end", SCALES)
def test_counts_of_grades(end):
    grades = [*range(end + 1), end, end, None, 1]
    table = pl.DataFrame({"query": [0] * len(grades) + [1], "rel": [*grades, None]})
    counts = protocol.grade_counts("n", end, among="query < 2")
    columns = ", ".join(f'{sql} AS "{name}"' for name, sql in counts.items())
    with duckdb.connect() as con:
        con.register("rows", table)
        frame = con.sql(f"SELECT {columns} FROM rows GROUP BY query ORDER BY query").pl()
    known = [grade for grade in grades if grade is not None]
    expected = [[sum(x >= least for x in known), 0] for least in range(1, end + 1)]
    assert [column.to_list() for column in protocol.read_counts("n", end, frame)] == expected
