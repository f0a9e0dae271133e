"""A small evaluation of what is in memory needs no connection; whatever needs one opens it."""

import sys
import threading

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.core.tables import private
from rankql.shapes.open import shapes
from support.parameters import few

RUN = {f"q{i}": {f"d{i * 7 + j}": (j * 37 % 11) / 3 for j in range(9)} for i in range(6)}
QRELS = {f"q{i}": {f"d{i * 7 + j}": j % 3 for j in range(0, 12, 2)} for i in range(6)}


def frame(data, name):
    rows = [(query, item, x) for query, items in data.items() for item, x in items.items()]
    return pl.DataFrame(rows, ["query", "item", name], orient="row")


RUN_FRAME, QRELS_FRAME = frame(RUN, "score"), frame(QRELS, "rel")
ONE_TABLE = RUN_FRAME.join(QRELS_FRAME, on=["query", "item"], how="left")
NUMBERS = [
    x.with_columns(pl.col("query", "item").str.slice(1).cast(pl.Int64) + 5)
    for x in (RUN_FRAME, QRELS_FRAME)
]
OTHER = {query: {item: x * 5 % 3.1 for item, x in items.items()} for query, items in RUN.items()}


@pytest.fixture
def opened(monkeypatch):
    """What was opened and started: connections of our own, databases, threads."""
    events, connect, progress = [], duckdb.connect, private.with_progress
    start = threading.Thread.start

    def noted(name, function):
        def call(*args, **keywords):
            events.append(name)
            return function(*args, **keywords)

        return call

    monkeypatch.setattr(private, "with_progress", noted("connection", progress))
    monkeypatch.setattr(duckdb, "connect", noted("database", connect))
    monkeypatch.setattr(threading.Thread, "start", noted("thread", start))
    return events


def evaluate(run, qrels, metrics="nDCG@10", **options):
    return rankql.evaluate(run, qrels, metrics, **options).summary


SMALL = {
    "dicts": lambda: evaluate(RUN, QRELS),
    "ratings": lambda: evaluate(RUN_FRAME, QRELS_FRAME.rename({"rel": "rating"})),
    "dicts, metrics of all items": lambda: evaluate(RUN, QRELS, ["nDCG@10", "AP", "R@100"]),
    "words as ids, a query without a hit": lambda: evaluate(
        {"q1": {"ann": 2.0, "bob": 1.0}, "q2": {"eve": 1.0}},
        {"q1": {"ann": 1}, "q2": {"zoe": 1, "eve": 0}},
    ),
    "pairs": lambda: evaluate(
        {q: sorted(x.items(), key=lambda y: -y[1]) for q, x in RUN.items()}, QRELS
    ),
    "lists": lambda: evaluate(
        {q: [*x] for q, x in RUN.items()}, {q: [*x] for q, x in QRELS.items()}
    ),
    "rows as dicts": lambda: evaluate(RUN_FRAME.to_dicts(), QRELS_FRAME.to_dicts()),
    "frames": lambda: evaluate(RUN_FRAME, QRELS_FRAME),
    "frames of whole numbers": lambda: evaluate(*NUMBERS),
    "small types": lambda: evaluate(
        RUN_FRAME.cast({"score": pl.Float32}), QRELS_FRAME.cast({"rel": pl.UInt8})
    ),
    "positions": lambda: evaluate(
        RUN_FRAME.select("query", "item", pos=pl.int_range(1, pl.len() + 1).over("query")),
        QRELS_FRAME,
    ),
    "lazy frames": lambda: evaluate(RUN_FRAME.lazy(), QRELS_FRAME.lazy()),
    "one table": lambda: evaluate(ONE_TABLE, None),
    "one table, a query without grades": lambda: evaluate(
        ONE_TABLE.with_columns(rel=pl.when(pl.col("query") != "q2").then("rel")), None
    ),
    "printed": lambda: repr(rankql.evaluate(RUN, QRELS, ["nDCG@10", "AP"])),
    "compare": lambda: rankql.compare({"a": RUN, "b": OTHER}, QRELS, "nDCG@10").table,
    "gate": lambda: rankql.gate(RUN, QRELS, baseline=OTHER, max_drop="nDCG@10:0.1").passed,
}


@few(8)("name", SMALL)
def test_no_connection_and_no_thread(name, opened):
    SMALL[name]()
    assert opened == []


@pytest.mark.parametrize("name", ["dicts", "one table, a query without grades", "compare"])
def test_what_is_in_memory_has_the_values_of_tables(name, monkeypatch):
    from rankql.core.evaluation.reduce import fetch

    values = SMALL[name]()
    monkeypatch.setattr(fetch, "MOST_ROWS", 0)
    other = SMALL[name]()
    assert_frame_equal(values, other, rel_tol=1e-12)


# What needs a statement, and how many connections it opens.
NEEDED = {
    "a typed column": lambda: evaluate(
        RUN_FRAME.cast({"query": pl.Categorical, "score": pl.Decimal(9, 3)}), QRELS_FRAME
    ),
    "grades in text": lambda: evaluate(RUN_FRAME, QRELS_FRAME.cast({"rel": pl.String})),
    "fractions": lambda: evaluate(RUN_FRAME, QRELS_FRAME.with_columns(pl.col("rel") / 4)),
    "a look with a cause": lambda: evaluate(
        {q: {**x, q: 9.0} for q, x in RUN.items()}, QRELS
    ),
    "many rows": lambda: evaluate(
        {f"q{i}": {f"d{j}": j * 37 % 301 / 2 for j in range(300)} for i in range(340)},
        {"q1": {"d1": 1}},
    ),
    "steps": lambda: rankql.evaluate(RUN, QRELS, "AP").steps.run("qrels", "count(*) AS n"),
    "explain": lambda: repr(rankql.explain(RUN, QRELS, "q3")),
}  # fmt: skip


@few(5)("name", NEEDED)
def test_a_statement_opens_the_connection(name, opened):
    NEEDED[name]()
    assert "connection" in opened and "thread" in opened


def test_a_relation_is_read_on_its_connection(opened):
    relation = duckdb.sql("SELECT 'q' AS query, 'd' AS item, 1.0 AS score")
    assert rankql.evaluate(relation, {"q": {"d": 1}}, "RR")["RR"] == 1
    assert "connection" not in opened and "thread" in opened


def test_the_query_of_a_result_needs_no_connection(opened):
    own, con = rankql.evaluate(RUN, QRELS, "nDCG@10"), duckdb.connect()
    assert opened == ["database"]
    assert own.sql == rankql.evaluate(RUN, QRELS, "nDCG@10", con=con).sql
    con.close()


def test_few_rows_of_a_file_stay_lazy(tmp_path, opened):
    RUN_FRAME.write_parquet(tmp_path / "run.parquet")
    run = pl.scan_parquet(tmp_path / "run.parquet")
    assert evaluate(run, QRELS_FRAME).equals(SMALL["dicts"]())
    assert "connection" in opened


def test_a_dict_is_looked_at_once(monkeypatch):
    looked, look_at = [], shapes._look_at
    monkeypatch.setattr(shapes, "_look_at", lambda data: looked.append(data) or look_at(data))
    evaluate(RUN, QRELS)
    assert [sum(x is data for x in looked) for data in (RUN, QRELS)] == [1, 1]


def count_steps(call):
    """The queries of polars and the calls of Python of a second call."""
    counts = {"collect": 0, "call": 0}

    def count(_, event, function):
        if event == "call":
            counts["call"] += 1
        elif event == "c_call" and getattr(function, "__name__", "") == "collect":
            counts["collect"] += 1

    call()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.parametrize(
    ("name", "queries", "calls"),
    [("dicts", 16, 9000), ("frames", 16, 9000), ("dicts, metrics of all items", 35, 16_000)],
)
def test_few_steps(name, queries, calls):
    """A quarter more than are needed, so that another version of polars passes."""
    counts = count_steps(SMALL[name])
    print(name, counts)
    assert counts["collect"] <= 1.25 * queries and counts["call"] <= 1.25 * calls


@few(2)(("rows", "role"), [(3, "item"), (20_001, "query"), (3, "query"), (20_001, "item")])
def test_ids_of_64_bits_without_a_sign(rows, role):
    """As polars' hash() returns them: the values are those of text, at any number of rows."""
    high = [2**63 + i * 3 for i in range(3)]
    ids = pl.Series(role, [*high, *range(rows - 3)], dtype=pl.UInt64)
    run = pl.DataFrame({"query": 7, "item": range(rows), "score": range(rows, 0, -1)})
    run = run.with_columns(ids).cast({"score": float})
    qrels = run[1:3].select("query", "item", rel=1)
    both = {"UInt64": qrels}
    if role == "item":
        low = qrels.clear().cast({"item": pl.Int64})
        both["Int64"] = pl.concat(
            [low, pl.DataFrame({"query": 7, "item": 0, "rel": 1}, low.schema)]
        )
    for judgments in both.values():
        text = [x.with_columns(pl.col("query", "item").cast(pl.String)) for x in (run, judgments)]
        values = [
            rankql.evaluate(*tables, "RR", none_judged="zero").frame()["RR"].to_list()
            for tables in ((run, judgments), text, (run.to_arrow(), judgments.to_arrow()))
        ]
        assert values[0] == values[1] == values[2]


def test_ids_of_128_bits():
    run = pl.DataFrame({"query": "q", "item": [2**70, 5], "score": [2.0, 1.0]})
    run = run.cast({"item": pl.Int128})
    assert rankql.evaluate(run, run.select("query", "item", rel=1)[1:], "RR")["RR"] == 0.5
    run = run.with_columns(item=pl.Series([2**127 - 1, 5], dtype=pl.Int128))
    with pytest.raises(
        rankql.RankqlError, match=r"item has integers.*col\('item'\)\.cast\(pl\.Str"
    ):
        rankql.evaluate(run, run.select("query", "item", rel=1), "RR")
