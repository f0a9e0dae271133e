"""Errors and notes about the data are the same for every form of the tables and both computers."""

import itertools
import re

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.evaluation.checks import duplicates
from support.parameters import cycled, few
from support.reductions import compare, evaluate, require_equal
from support.samples import SHAPES, ranked_table

TIES = ["item", "order", "expected", "best", "worst"]

QRELS = pl.DataFrame(
    {"query": [f"q{i % 6}" for i in range(60)], "item": range(60), "rel": [0, 1, 2] * 20}
)
RUN = QRELS.select("query", "item", score=pl.col("item") * 37 % 61 * 1.0)
NO_NAN = pl.col("score").replace(RUN["score"][7], float("nan"))
FAR = pl.when(pl.col("query") > "q0").then(pl.col("item") + 100).otherwise("item")
DEEP = pl.when(pl.col("query") > "q0").then(-pl.col("score")).otherwise("score")
CASES = {
    "all judged": (RUN, QRELS, {}),
    "some queries only": (RUN.filter(pl.col("query") > "q1"), QRELS, {}),
    "unjudged queries": (RUN, QRELS.filter(pl.col("query") > "q3"), {}),
    "no judged query": (RUN.with_columns(pl.col("query").str.to_uppercase()), QRELS, {}),
    "no judged item": (RUN.with_columns(pl.col("item") + 100), QRELS, {}),
    "judged items in one query": (RUN.with_columns(item=FAR), QRELS, {}),
    "judged items below the cutoff": (RUN.with_columns(score=DEEP), QRELS.filter(rel=2), {}),
    "run twice": (pl.concat([RUN, RUN.head(7)]), QRELS, {}),
    "qrels twice": (RUN, pl.concat([QRELS, QRELS.head(7)]), {}),
    "grade 0 twice": (RUN, pl.concat([QRELS, QRELS.filter(rel=0).head(7)]), {}),
    "two grades": (RUN, pl.concat([QRELS, QRELS[:1].with_columns(rel=pl.lit(1, pl.Int64))]), {}),
    "NaN": (RUN.with_columns(NO_NAN), QRELS, {}),
    "NaN in another query": (RUN.with_columns(NO_NAN), QRELS.filter(pl.col("query") != "q1"), {}),
    "ties, and NaN": (RUN.with_columns(NO_NAN // 10), QRELS, {}),
    "no score": (RUN.with_columns(score=pl.lit(None, pl.Float64)), QRELS, {}),
    "one score": (RUN.with_columns(score=pl.lit(1.0)), QRELS, {}),
    "some scores": (RUN.with_columns(pl.when(pl.col("item") > 9).then("score")), QRELS, {}),
    "grades above 5": (RUN, QRELS.with_columns(pl.col("rel") * 9), {}),
    "unjudged grades": (RUN, QRELS.with_columns(pl.col("rel") - 5), {"negative": "unjudged"}),
    "slices": (RUN.with_columns(market=pl.col("query") > "q2"), QRELS, {"by": "market"}),
    "two slices": (RUN.with_columns(market=pl.col("item") > 9), QRELS, {"by": "market"}),
}


READS = ["all items", "first items", "first items, expected"]


@few(2)(("case", "read"), cycled([*CASES], READS))
def test_values_notes_and_errors_are_the_same(case, read):
    run, qrels, options = CASES[case]
    metrics = ["AP", "RR"] if read == "all items" else ["nDCG@3", "P@5"]
    ties = "expected" if "expected" in read else "item"
    compare(run, qrels, metrics, ties=ties, **options)
    table = run.join(qrels, on=["query", "item"], how="left")
    compare(table, None, metrics, ties=ties, **options)


# Repeated items and positions.


def of_one(*rows):
    """A ranking of these (rel, pos) beside another one."""
    return ranked_table([(8, *row) for row in rows] + [(2, 1, 1)])


def require_refused(run, qrels, metrics, duplicate, **options):
    """Both refuse it and name the duplicate."""
    error = compare(run, qrels, metrics, **options)
    assert isinstance(error, str) and re.search(f"has duplicates: {duplicate}[. ]", error), error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "place"),
    cycled(
        [(1, 90, 60), (3, 30, 20), (5, 22, 15)],
        ["first", "end of a word", "next word", "last", "end of a word", "next word"],
    ),
)
def test_repeated_positions_are_refused(scale, place):
    """Alone, and where all others are full, so that sums carry far."""
    end, last, word = scale
    pos = {"first": 1, "end of a word": word, "next word": word + 1, "last": last}[place]
    others = [(end, other) for other in range(1, last + 3) if other != pos]
    for grades in ([1, end], [end] * 9):
        twice = [(grade, pos) for grade in grades]
        require_refused(of_one(*twice), None, f"P@{last}", f"query 8, pos {pos}")
        run = of_one(*twice, *others)
        for metrics in ([f"P@{pos}", "nDCG@1"], ["AP"]):
            require_refused(run, None, metrics, f"query 8, pos {pos}")
            require_refused(*SHAPES["joined"](run), metrics, f"query 8, pos {pos}")


@few(1)("pos", [2, 20, 21, 30])
def test_only_positions_beyond_all_cutoffs_may_repeat(pos):
    table = of_one((3, 1), (1, pos), (2, pos)).drop("item")
    for metrics in ([f"nDCG@{pos - 1}", "P@1"], ["nDCG@1", f"nDCG(base=3)@{pos - 1}"]):
        assert not isinstance(compare(table, None, metrics), str)
    refused = [["P@1", f"nDCG@{pos}"], ["nDCG@1", f"nDCG(base=3)@{pos}"], [f"nDCG@{pos - 1}", "AP"]]
    for metrics in (*refused, ["nDCG@1", "own = sum(rel)"], ["nDCG@1", "IPrec@0.5"]):
        require_refused(table, None, metrics, f"query 8, pos {pos}")


@few(1)("metric", ["Bpref", "Judged", "Judged@9"])
@pytest.mark.parametrize("shape", ["ranked", "joined"])
def test_judged_items_may_not_share_a_position(metric, shape):
    """Relevant or not, if a metric reads both."""
    data = SHAPES[shape](of_one((0, 1), (1, 5), (0, 9), (0, 9)))
    require_refused(*data, metric, "query 8, pos 9")


VERDICTS = [
    "nDCG@10",
    "nDCG",
    "P@10",
    "AP",
    "RR",
    "R@100",
    "Success@10",
    "NumRet",
    "own = sum(rel)",
]


@few(1)(
    ("metric", "twice", "queries"),
    cycled(VERDICTS * 3, [0, None, 1] * 9, [1] * 9 + [300] * 9 + [1] * 9),
)
def test_a_ranked_table_and_a_run_with_judgments_have_one_verdict(metric, twice, queries):
    """Two items at one position, relevant, judged or neither, near the top or far, are refused."""
    for pos in (10, 90, 200):
        run = of_one((0, 1), (3, 2), (twice, pos), (twice, pos), (2, pos + 1))
        more = [(100 + query, rank % 4, rank) for query in range(queries) for rank in range(1, 40)]
        run = pl.concat([run, ranked_table(more)]).with_columns(item=pl.int_range(pl.len()))
        within = "@" not in metric or pos <= int(metric.partition("@")[2])
        for shape in ("ranked", "joined"):
            data = SHAPES[shape](run)
            if within:
                require_refused(*data, metric, f"query 8, pos {pos}")
            else:
                assert not isinstance(compare(*data, metric), str)


@few(1)("k", [5, 20, 90])
@pytest.mark.parametrize("items", [2, 3_000_000])
def test_one_position_of_many_items_is_refused(items, k):
    """A sum may exceed what DOUBLE holds exactly, or 64 bits. The user's transaction goes on."""
    con = duckdb.connect()
    rows = f"SELECT 1 AS query, 2::TINYINT AS rel, 1::TINYINT AS pos FROM range({items})"
    con.execute(f"BEGIN; CREATE TABLE merged AS {rows}").fetchall()
    require_refused("merged", None, f"nDCG@{k}", "query 1, pos 1", con=con)
    assert con.execute("SELECT count(*) FROM merged").fetchall() == [(items,)]


@few(2)(
    ("shape", "unjudged", "metrics"),
    cycled(
        [shape for shape in SHAPES if "without" not in shape] * 2,
        ["zero"] * 6 + ["remove"] * 6,
        ["nDCG@5", "AP", ["nDCG@5", "AP"], ["nDCG@5", "own = sum(rel)"]],
    ),
)
def test_repeated_items_are_refused(shape, unjudged, metrics):
    run, qrels = SHAPES[shape](of_one((1, 1), (0, 2), (3, 3)))
    for table in (run, qrels):
        if table is not None:
            twice = pl.concat([table, table.filter(item=2)])
            if "pos" in table.columns:
                twice = twice.with_columns(pos=pl.int_range(1, pl.len() + 1).over("query"))
            both = (twice, qrels) if table is run else (run, twice)
            require_refused(*both, metrics, "query 8, item 2", unjudged=unjudged)


LISTED = pl.DataFrame(
    {"query": "q", "item": [*"abcdef"], "score": [6.0, 5, 4, 3, 2, 1], "rel": [0, 1, 0, 0, 2, 0]}
)
# The row that repeats an item, and whether nDCG@3 refuses it in a run and in a table with grades.
REPEATED = {
    "twice in the top": ({"item": "b", "score": 5.5, "rel": None}, True, True),
    "tied with the last": ({"item": "a", "score": 4.0, "rel": 0}, True, True),
    "below the top": ({"item": "f", "score": 0.0, "rel": 0}, False, False),
    "with a gain below the top": ({"item": "e", "score": 0.0, "rel": 2}, False, True),
    "with a gain below only": ({"item": "a", "score": 0.0, "rel": 3}, False, True),
    "without a score": ({"item": "b", "score": None, "rel": 1}, False, True),
}


@few(1)(
    ("case", "ties", "tied", "metrics"),
    cycled(
        [*REPEATED] * 2, TIES, [None, "a", "d", "a", None],
        [["nDCG@3", "R@2", "IDCG@3", "F1@3"], ["nDCG@3"]],
    ),
)  # fmt: skip
def test_only_items_within_the_top_are_compared(case, ties, tied, metrics):
    """With ties above, and with ties across the last position; another ranking has none."""
    row, *refused = REPEATED[case]
    again = pl.DataFrame({"query": "q", **row}, schema_overrides=LISTED.schema)
    level = pl.when(item=tied or "").then({"a": 5.0, "d": 4.0}.get(tied)).otherwise("score")
    others = LISTED.with_columns(query=pl.lit("other"))
    table = pl.concat([LISTED.with_columns(score=level), again, others])
    qrels = pl.concat([LISTED, others]).drop("score")
    datas = [(table.drop("rel"), qrels), (table, None)]
    for data, is_refused in zip(datas, refused, strict=True):
        assert isinstance(compare(*data, metrics, ties=ties), str) == is_refused
        compare(*data, "nDCG@3", ties=ties, ideal="retrieved")
    if ties != "expected":
        values = compare(*datas[0], ["nDCG@3", "own = count(rel)"], ties=ties)
        assert isinstance(values, str) == (case != "without a score")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ties", "shape", "place"),
    cycled(TIES * 2, ["joined", "joined by score", "joined by other scores"], [-1000.0, None]),
)
def test_a_relevant_item_that_occurs_again_counts_once(shape, place, ties):
    """Below the cutoff, or without a position."""
    run, qrels = SHAPES[shape](of_one(*((pos % 3, pos) for pos in range(1, 110))))
    name, kind = run.columns[2], run.dtypes[2]
    again = place and (1000 if name == "pos" else place)
    twice = pl.concat([run, run.filter(item=2).with_columns(pl.lit(again, kind).alias(name))])
    for metrics in (["R@5", "nDCG@5", "F1@5"], ["R@101", "nDCG@101"], ["AP@5", "AP@102"]):
        values = compare(twice, qrels, metrics, ties=ties).per_query
        require_equal(values, evaluate(run, qrels, metrics, reduces=False, ties=ties).per_query)
    if place is None:
        values = compare(twice, qrels, ["AP", "R"], ties=ties).per_query
        require_equal(values, evaluate(run, qrels, ["AP", "R"], reduces=False, ties=ties).per_query)


@few(2)("shape", ["ranked", "ranked without items", "joined"])
@pytest.mark.parametrize("unjudged", ["zero", "remove"])
def test_positions_are_compared_before_unjudged_items_leave_theirs(shape, unjudged):
    data = SHAPES[shape](of_one((1, 2), (2, 2), (None, 1), (3, 3)))
    for metrics in ("nDCG@5", ["nDCG@5", "AP"]):
        require_refused(*data, metrics, "query 8, pos 2", unjudged=unjudged)


@pytest.mark.parametrize(
    ("metrics", "queries"), cycled(["P@5", ["P@5", "nDCG@5"], ["P@5", "nDCG@5", "RR@5"]], [1, 400])
)
def test_rows_without_a_gain_may_not_share_positions(metrics, queries):
    """In few rows and in many, for one metric and for several."""
    rows = [(1, 1), (0, 2), (3, 2), (0, 3), (0, 3), (2, 50), (None, 4)]
    table = ranked_table([(query, *row) for query in range(queries) for row in rows])
    for reduces in (True, False):
        result = evaluate(table, None, metrics, reduces=reduces)
        assert result.startswith("run has duplicates: query 0, pos 2; query")


@few(2)("in_polars", [duplicates.IN_POLARS, range(2000)])
@pytest.mark.parametrize("table", ["run", "qrels", None])
@pytest.mark.parametrize("metric", ["nDCG@10", "AP"])
def test_repeated_items_are_refused_in_tables_of_any_size(in_polars, table, metric, monkeypatch):
    """DuckDB or, among many rows, polars compares their hashes."""
    monkeypatch.setattr(duplicates, "IN_POLARS", in_polars)
    items = pl.DataFrame({"item": range(1000)}).with_columns(query=pl.col("item") // 100)
    tables = {
        "run": items.with_columns(score=-(pl.col("item") % 100) / 64),
        "qrels": items.with_columns(rel=pl.col("item") % 3 + 1),
    }
    item = 503
    if table:
        tables[table] = pl.concat([tables[table], tables[table].slice(item, 1)])
    result = evaluate(*tables.values(), metric, reduces=True)
    assert isinstance(result, str) == bool(table)
    if table:
        assert result.startswith(f"{table} has duplicates: query {item // 100}, item {item}.")


@few(2)("metric", ["nDCG@10", "AP"])
@pytest.mark.parametrize("case", ["all judged", "no judged query", "NaN"])
def test_transactions_of_the_user_go_on(case, metric):
    """An error of our checks does not end the transaction, as one of DuckDB would."""
    run, qrels, _ = CASES[case]
    con = duckdb.connect()
    con.execute("CREATE TABLE kept AS SELECT 1 AS x")
    con.execute("BEGIN; INSERT INTO kept VALUES (2)").fetchall()
    result = evaluate(run, qrels, metric, con=con, reduces=True)
    assert isinstance(result, str) == (case != "all judged")
    if case != "NaN":
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(2,)]
    con.execute("ROLLBACK").fetchall()
    assert con.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]


# Data with several faults: every source and plan names the same one

FEW_ROWS = pl.DataFrame(
    {"query": [*"aabb"], "item": [*"xyxz"], "score": [2.0, 1, 2, 1], "day": [1, 1, 2, 2]}
)
FEW_GRADES = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1.0, 2]})


def change_row(row, **values):
    """A fault: other values in one row."""
    other = pl.int_range(pl.len()) == row
    return lambda table: table.with_columns(
        **{name: pl.when(other).then(pl.lit(x)).otherwise(name) for name, x in values.items()}
    )


def repeat_row(**values):
    """A fault: the first row once more, with other values."""
    return lambda table: pl.concat(
        [table, table[:1].with_columns(**{name: pl.lit(x) for name, x in values.items()})]
    )


FAULTS = {
    "run without an id": ("run", change_row(3, item=None)),
    "judgments without an id": ("qrels", change_row(1, item=None)),
    "infinite grade": ("qrels", change_row(1, rel=float("inf"))),
    "two attributes": ("run", change_row(1, day=9)),
    "duplicate item": ("run", repeat_row(score=0.5)),
    "duplicate judgment": ("qrels", repeat_row()),
    "two grades": ("qrels", repeat_row(rel=0.0)),
    "no common query": ("qrels", lambda f: f.with_columns(pl.col("query").str.to_uppercase())),
}


@pytest.mark.slow
@pytest.mark.parametrize("names", [*itertools.combinations(FAULTS, 2)])
def test_sources_and_metrics_name_the_same_fault(names, tmp_path):
    frames = {"run": FEW_ROWS, "qrels": FEW_GRADES}
    for table, fault in map(FAULTS.get, names):
        frames[table] = fault(frames[table])
    run, qrels = frames.values()
    con = duckdb.connect()
    con.execute("CREATE TABLE run AS FROM run; CREATE TABLE qrels AS FROM qrels")
    for name, table in frames.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
    sources = [(run, qrels), (run.to_pandas(), qrels.to_pandas()), ("run", "qrels")]
    messages = set()
    files = [tmp_path / f"{name}.parquet" for name in frames]
    for tables, metrics in cycled([*sources, files], ["nDCG@10", ["AP", "TauB"]]):
        with pytest.raises(rankql.RankqlError) as error:
            rankql.evaluate(*tables, metrics, by="day", con=con)
        messages.add(str(error.value))
    assert len(messages) == 1
