"""Errors and notes about the data are the same for every form of the tables and both computers."""

import itertools
import math
import random

import duckdb
import polars as pl
import pytest

import rankql
from rankql.core.evaluation.checks import duplicates
from rankql.core.evaluation.reduce import fetch
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

# Metrics with a cutoff, and those that read all positions.
AT_K = ["nDCG", "nDCG(base=3)", "P", "R", "AP", "RR", "F1", "IDCG", "Judged", "Success"]
WHOLE = ["AP", "nDCG", "RR", "R", "Bpref", "Judged", "NumRet", "IPrec@0.5", "own = sum(rel)"]


def draw_table(r):
    """A ranking of query 8 with an item at a position, mostly the end of a word; and others."""
    end, word = r.choice([(1, 30), (3, 20), (5, 15)])
    pos = r.choice([1, 2, 3, word, word + 1, 2 * word + 1, 90, 130])
    places = r.choice([range(1, pos + 3), [1, 2, pos + 2], [pos + 1]])
    full = r.random() < 0.3  # so that sums carry far
    rows = [(8, end if full else r.choice([0, 1, end, None]), x) for x in {*places, pos}]
    rows += [(2, end, 1), (8, 1, None)]
    rows += [(100 + q, q % (end + 1), x) for q in range(r.choice([0, 300])) for x in (1, 3)]
    return ranked_table(rows), pos


def repeat_position(r, table, row, k, removed):
    """With another item at the position, and whether a metric reads it."""
    again = row.with_columns(item=pl.lit(10**6, pl.Int64), rel=pl.lit(r.choice([None, 0.0, 1.0])))
    shape = SHAPES[r.choice(["ranked", "ranked without items", "joined"])]
    return *shape(pl.concat([table, again])), removed or row["pos"][0] <= k


def repeat_item(r, table, row, k, removed):
    """With the item elsewhere too, and whether metrics read both rows.

    They read the first k of a run and what ties with the k-th, and all that gain next to grades;
    all that is judged if others are removed.
    """
    used = {*table.filter(query=8)["pos"]}
    free = [x for x in range(1, 99) if x not in used]
    grades = pl.Series("rel", [r.choice([None, 0, 1, row["rel"][0]])], pl.Float64)
    again = row.with_columns(grades, pos=pl.lit(r.choice([None, 140, *free[:2]]), pl.Int64))
    shape = SHAPES[r.choice([shape for shape in SHAPES if "without" not in shape])]
    run, qrels = shape(pl.concat([table, again]))[0], shape(table)[1]
    scored = "score" in run.columns
    rank = pl.col("score").rank("min", descending=True) if scored else pl.col("pos")
    read = rank.over("query") <= k
    if removed:
        read = pl.col("rel" if qrels is None else "item").is_not_null()
    elif qrels is None:
        read |= pl.col("rel") > 0
    both = run.with_columns(read=read.fill_null(False)).filter(query=8, item=row["item"][0])
    judged = not removed or qrels is None or row["item"][0] in qrels["item"]
    return run, qrels, both["read"].all() and judged


def repeat_judgment(r, table, row, k, removed):
    """With the judgment twice. Of items without a gain nobody reads which it is."""
    table = table.with_columns(rel=pl.when(item=row["item"]).then(1.0).otherwise("rel"))
    shape = r.choice(["joined", "joined by score", "joined by other scores"])
    run, qrels = SHAPES[shape](table)
    return run, pl.concat([qrels, qrels.filter(item=row["item"])]), True


@few(16)("seed", range(400))
def test_what_occurs_twice_is_refused_as_far_as_metrics_read(seed, monkeypatch):
    """Near the cutoff and far, relevant or not, at the end of a word, in few rows and in many.

    DuckDB or polars reduces the rows, and compares hashes of items.
    """
    r = random.Random(seed)
    monkeypatch.setattr(
        duplicates, "find_equal_rows", lambda *_: 0.0
    )  # as if another column differs
    monkeypatch.setattr(fetch, "MOST_ROWS", r.choice([0, fetch.MOST_ROWS]))
    monkeypatch.setattr(duplicates, "IN_POLARS", r.choice([duplicates.IN_POLARS, range(2000)]))
    table, pos = draw_table(r)
    cutoffs = [max(pos + r.choice([-1, -1, 0, 1, 40]), 1) for _ in range(r.choice([1, 2]))]
    metrics, k = [f"{r.choice(AT_K)}@{x}" for x in cutoffs], max(cutoffs)
    if r.random() < 0.3:
        metrics, k = [*metrics, r.choice(WHOLE)], math.inf
    repeat = r.choice([repeat_position, repeat_item, repeat_item, repeat_judgment])
    row = table.filter(query=8, pos=pos)
    options = {"unjudged": r.choice(["zero", "zero", "zero", "remove"])}
    run, qrels, refused = repeat(r, table, row, k, options["unjudged"] == "remove")
    if "score" in run.columns:
        whole = any(metric.startswith("IPrec") for metric in metrics)  # has none over ties
        options["ties"] = r.choice([x for x in TIES if not (whole and x == "expected")])
    if r.random() < 0.3:
        text = pl.col("^(query|item)$").cast(pl.String)
        run, qrels, row = (x if x is None else x.with_columns(text) for x in (run, qrels, row))
    result = compare(run, qrels, [*dict.fromkeys(metrics)], **options)
    assert isinstance(result, str) == refused
    name = "pos" if repeat is repeat_position else "item"
    if refused:
        assert f"has duplicates: query {row['query'][0]!r}, {name} {row[name][0]!r}." in result
    elif repeat is repeat_item and qrels is not None and options["unjudged"] == "zero":
        # It counts once.
        name, best = ("pos", pl.min) if "pos" in run.columns else ("score", pl.max)
        once = run.filter(
            (pl.col("item") != row["item"]) | (pl.col(name) == best(name).over("query", "item"))
        )
        plain = evaluate(once, qrels, [*dict.fromkeys(metrics)], reduces=False, **options)
        require_equal(result.per_query, plain.per_query)


@few(1)("k", [5, 20, 90])
@pytest.mark.parametrize("items", [2, 3_000_000])
def test_one_position_of_many_items_is_refused(items, k):
    """A sum may exceed what DOUBLE holds exactly, or 64 bits. The user's transaction goes on."""
    con = duckdb.connect()
    rows = f"SELECT 1 AS query, 2::TINYINT AS rel, 1::TINYINT AS pos FROM range({items})"
    con.execute(f"BEGIN; CREATE TABLE merged AS {rows}").fetchall()
    error = compare("merged", None, f"nDCG@{k}", con=con)
    assert "run has duplicates: query 1, pos 1." in error
    assert con.execute("SELECT count(*) FROM merged").fetchall() == [(items,)]


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
