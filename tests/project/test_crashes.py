"""Calls with columns named for every role, on tables of every shape: errors are rankql's own."""

import datetime
import inspect
import random

import numpy
import pandas
import polars as pl
import pytest

import rankql
from support.parameters import few

ROWS = pl.DataFrame({
    "query": ["a", "a", "b", "b"], "item": ["x", "y", "x", "z"], "rel": [1.0, 0.0, 2.0, 0.0],
    "score": [3.0, 2.0, 1.0, 0.5], "pos": [1, 2, 1, 2], "system": ["s", "s", "s", "s"],
    "time": [datetime.date(2026, 1, day) for day in (1, 2, 3, 4)], "user": ["u", "u", "v", "v"],
    "event": ["click", "buy", "click", "view"], "click": [0, 1, 1, 0],
})  # fmt: skip
OTHER = {"query": "sid", "item": "art", "rel": "g", "score": "s", "pos": "p"}
SHAPES = {
    "tidy": ROWS,
    "run": ROWS.select("query", "item", "score"),
    "no row": ROWS.head(0),
    "one row": ROWS.head(1),
    "NULL": ROWS.with_columns(rel=None, score=None),
    "text": ROWS.cast(pl.String),
    "upper case": ROWS.rename(str.upper),
    "other names": ROWS.rename(OTHER),
    "lazy": ROWS.lazy(),
    "pandas": ROWS.to_pandas(),
    "arrow": ROWS.to_arrow(),
    "names twice": pandas.concat([ROWS.to_pandas(), ROWS["query", "item"].to_pandas()], axis=1),
    "lists": pl.DataFrame({"query": ["a"], "retrieved": [["x", "y"]], "relevant": [["x"]]}),
    "dict": {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 1}},
    "dict of lists": {"a": ["x", "y"], "b": ["z"]},
    "empty dict": {},
    "records": ROWS.to_dicts(),
    "numbers": [1, 2, 3],
    "series": ROWS["rel"],
    "pandas series": pandas.Series([1.0, 2.0]),
    "array": numpy.arange(6).reshape(3, 2),
    "None": None,
    "number": 7,
    "path": "nowhere.parquet",
}
COLUMNS = [*ROWS.columns, *OTHER.values(), "retrieved", "nope", "", "1"]
ROLES = {
    *(*ROWS.columns, "doc", "product", "by", "cluster", "weight", "annotators", "models", "day"),
    *("metric", "metrics", "key", "outcome", "users", "unit", "label", "annotator", "slice"),
    *("moment", "propensity", "seen", "split", "since", "grades"),
}
OPTIONS = ["query", "item", "rel", "score", "pos", "system", "user", "doc", "product"]
FUNCTIONS = [
    name for name in rankql.__all__
    if inspect.isfunction(function := getattr(rankql, name)) and name != "register"
    and not inspect.isclass(function)
]  # fmt: skip


def draw_call(draw):
    """A function, what it is called with, and the names of the shapes."""
    function = getattr(rankql, draw.choice(FUNCTIONS))
    parameters, count = [*inspect.signature(function).parameters], draw.choice([1, 1, 2, 2, 3])
    tables = [draw.choice([*SHAPES]) for _ in range(count)]
    args = [SHAPES[x] if draw.random() < 0.8 else draw.choice(COLUMNS) for x in tables]
    roles = [x for x in parameters[count:] if x in ROLES]
    roles += OPTIONS * ("options" in parameters)
    named = {}
    for role in draw.sample(roles, min(len(roles), draw.choice([0, 1, 1, 2, 2, 3]))):
        column = draw.choice([*named.values(), *COLUMNS])  # also twice
        others = [[column], [], None, 1, True, {"click": 1}, [column, draw.choice(COLUMNS)]]
        named[role] = column if draw.random() < 0.8 else draw.choice(others)
    return function, args, named, tables


def is_missing_or_unknown(error):
    """Is it an argument that is missing or unknown, as Python says it?"""
    return isinstance(error, TypeError) and "argument" in str(error)


@pytest.mark.filterwarnings("ignore")
@few(4)("seed", [*range(500)])
def test_only_errors_of_rankql_come_out(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write a file
    draw = random.Random(seed)
    for _ in range(60):
        function, args, named, tables = draw_call(draw)
        try:
            result = function(*args, **named)
        except rankql.RankqlError:
            continue
        except Exception as error:
            if not is_missing_or_unknown(error):
                call = f"{function.__name__}({', '.join(tables)}, {named})"
                raise AssertionError(f"{call}: {type(error).__name__}: {error}") from error
        else:
            repr(result)


# What came out of calls like these


@few(6)(
    "call",
    [
        lambda: rankql.most_popular(ROWS, query="user", item="USER"),
        lambda: rankql.ndcg(pandas.Series([1.0]), pandas.Series([1])),
        lambda: rankql.infap(ROWS, ROWS),
        lambda: rankql.evaluate(ROWS, None, ROWS),
        lambda: rankql.compare({"a": ROWS}, None, ROWS),
        lambda: rankql.verify(ROWS),
        lambda: rankql.team_draft(ROWS, ROWS),
        lambda: rankql.translate("SELECT 1", {}),
        lambda: rankql.native_sql(ROWS),
        lambda: rankql.tally(ROWS, None),
        lambda: rankql.combine(ROWS),
        lambda: rankql.combine(["nowhere.parquet"], ROWS),
        lambda: rankql.monitor(ROWS, None, ROWS),
        lambda: rankql.ranked(ROWS, ROWS),
        lambda: rankql.average_popularity("pos", ROWS),
        lambda: rankql.consensus(ROWS, "query", ROWS),
    ],
)
def test_what_is_no_column_and_no_name_is_an_error_of_rankql(call):
    with pytest.raises(rankql.RankqlError):
        call()
