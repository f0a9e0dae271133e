"""Whatever computes the values gives those of the readable query: any rankings, metrics, options.

A case draws all of it by its seed: the shape of the tables, grades of a scale or none, ties, rows
that are wrong, systems, attributes or files, metrics with their options, and conventions. The
number of rows that polars reduces is drawn too, so that DuckDB reduces half of them. That the
values are right is for test_formulas.py, and for the macros that the readable query calls.
"""

import random
from itertools import product

import duckdb
import polars as pl
import pytest

from rankql.core.evaluation.reduce import fetch, protocol, reduce
from support.formula_cases import CONVENTIONS, FORMS, draw_metric
from support.parameters import few
from support.reductions import compare
from support.samples import SHAPES, join, ranked, ranked_table, score, written

OTHERS = ["IPrec@0.5", "nDCG(base=3)@5", "own = ndcg(rel, pos, 5)", "items = count(rel)"]
# A whole scale in most cases, or what no scale has, in all rows or in a few.
GRADES = [
    *["rel"] * 8,
    "rel / 2",
    "-rel",
    "rel - 1",
    "rel + 1",
    "rel * 1.4",
    "rel * 0",
    "rel * NULL",
]
GRADES += [f"CASE WHEN item % 97 = 5 THEN {x} ELSE rel END" for x in (0.5, 2.999, 6, 1e300, -1)]
# What replaces the number that ranks some items. Several of +inf are an error.
ODD = [[None, 0.0, -0.0, 1e300, float("-inf")]] * 4 + [[1.0], [None, float("inf"), 2.0]]
# The last position, around those that words of hits hold.
DEPTHS = [22, 60, 61, 62, protocol.MAX_HITS + 1, protocol.MAX_HITS + 2]


def draw_metrics(r, seed):
    """Up to five metrics, mostly with columns, in any order; all take turns."""
    names = [*FORMS]
    drawn = [draw_metric(r, names[(5 * seed + i) % len(names)]) for i in range(r.randint(1, 5))]
    drawn += r.sample(OTHERS, r.choice([0, 0, 1, 2]))
    return r.sample(drawn, len(drawn))


def draw_tables(r):
    """Rankings of a scale, in one of the shapes; some rows are wrong, or tied with others."""
    table = ranked(r.choice([1, 3, 5]), r.random(), r.choice([3, 15]), most=r.choice(DEPTHS))
    table = table.with_columns(rel=pl.sql_expr(r.choice(GRADES)))
    if r.random() < 0.15:  # an item or a position occurs twice
        row = table.filter(pl.col("pos") > 1)[r.randint(0, 5)]
        same = [pl.lit(10**6, pl.Int64).alias("item"), pl.col("pos") - 1, pl.lit(0.0).alias("rel")]
        table = pl.concat([table, row.with_columns(r.choice(same))])
    run, qrels = SHAPES[r.choice([*SHAPES])](table)
    if "score" in run.columns and r.random() < 0.5:
        values, every = r.choice(ODD), r.choice([1, 2, 9])
        odd = pl.Series([r.choice(values) for _ in range(run.height)], dtype=pl.Float64)
        chosen = pl.int_range(pl.len()) % every == 0
        run = run.with_columns(score=pl.when(chosen).then(odd).otherwise("score"))
    if qrels is not None and r.random() < 0.2:  # some judgments say nothing
        known = pl.int_range(pl.len()) % 7 > 0
        qrels = qrels.with_columns(rel=pl.when(known).then("rel"))
    ids = pl.col("^(query|item)$")
    ids = r.choice([ids, ids, ids.cast(pl.Int32), ids.cast(pl.String), ids.cast(pl.String) + "é"])
    run, qrels = (None if x is None else x.with_columns(ids) for x in (run, qrels))
    return run, qrels


def draw_attributes(r, run, qrels):
    """Slices and weights by columns of the queries, which any table may have."""
    ids = (
        pl.concat([x.select("query") for x in (run, qrels) if x is not None]).unique().sort("query")
    )
    number = pl.int_range(pl.len())
    about = ids.with_columns(segment=number % 3, traffic=number % 4 + 1)
    about = about.with_columns(city=pl.when(number % 5 > 0).then(pl.lit("x")))
    options = {"by": r.choice(["segment", ["segment", ["segment", "city"]]])}
    options |= r.choice([{}, {"weight": "traffic"}])
    place = r.choice(["run", "qrels", "attributes"])
    if place == "run":
        run = run.join(about, "query", maintain_order="left")
    elif place == "qrels" and qrels is not None:
        qrels = qrels.join(about, "query", maintain_order="left")
    else:
        options["attributes"] = about
    return run, qrels, options


def draw_systems(r, run):
    """The run of two systems, of which one lacks rows: a dict of runs, or a column of names."""
    runs = {"a": run, "b": run[::2]}
    if r.random() < 0.5:
        return runs, {}
    named = (frame.with_columns(name=pl.lit(name)) for name, frame in runs.items())
    return pl.concat(named), {"system": "name"}


TYPES = ["TINYINT", "UTINYINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"]
TYPES += ["DECIMAL(9,2)", "DECIMAL(38,4)", "FLOAT", "DOUBLE"]


def draw_tables_of_types(r, **frames):
    """A database with the tables, whose numbers are of drawn types; what does not fit is NULL."""
    con = duckdb.connect()
    kinds = {"rel": r.choice([*TYPES, "BOOLEAN"]), "pos": r.choice(TYPES), "score": r.choice(TYPES)}
    for name, frame in frames.items():
        if frame is not None:
            con.register("frame", frame)
            casts = (f"TRY_CAST({x} AS {kinds[x]}) AS {x}" for x in frame.columns if x in kinds)
            con.execute(f"CREATE TABLE {name} AS SELECT * REPLACE ({', '.join(casts)}) FROM frame")
    return [None if frame is None else name for name, frame in frames.items()], con


@few(8)("seed", range(400))
def test_any_evaluation(seed, monkeypatch, tmp_path):
    r = random.Random(seed)
    monkeypatch.setattr(fetch, "MOST_ROWS", r.choice([0, fetch.MOST_ROWS]))
    monkeypatch.setattr(reduce, "CELLS", r.choice([1, 300, reduce.CELLS]))
    monkeypatch.setattr(reduce, "MAX_STEPS", r.choice([50, reduce.MAX_STEPS, reduce.MAX_STEPS]))
    metrics = [*dict.fromkeys(draw_metrics(r, seed))]
    options = dict(r.choice([{}, {}, {"descending": False}, *CONVENTIONS]))
    run, qrels = draw_tables(r)
    if "score" in run.columns and r.random() < 0.3:
        options["ties"] = r.choice(["order", "expected", "best", "worst"])
    kind = r.choice(["plain", "plain", "systems", "attributes", "files", "tables"])
    if kind == "systems":
        run, more = draw_systems(r, run)
        options |= more
    elif kind == "attributes":
        run, qrels, more = draw_attributes(r, run, qrels)
        options |= more
    elif kind == "tables":
        (run, qrels), options["con"] = draw_tables_of_types(r, run=run, qrels=qrels)
    elif kind == "files":
        form = r.choice(["csv", "jsonl", "parquet"])
        run, qrels = (
            None if table is None else str(written(table, form, tmp_path, name)[0])
            for name, table in (("run", run), ("qrels", qrels))
        )
    result = compare(run, qrels, metrics, **options)
    if not isinstance(result, str):
        assert result.metrics == [metric.partition(" = ")[0] for metric in metrics]


@pytest.mark.slow
@few(1)("rows", [0, fetch.MOST_ROWS])
def test_next_to_a_cutoff(rows, monkeypatch):
    """Of k = 3: an item has the score or the position of the one above, or the id of the first.

    In query 2 this is the item at position 2, and so on; positions are looked at query by query.
    """
    monkeypatch.setattr(fetch, "MOST_ROWS", rows)
    other = pl.int_range(1, 7).over("query") == pl.col("query")
    items = {"item": [*"abcdef"], "score": [6.0, 5, 4, 3, 2, 1], "rel": [0, 1, 0, 1, 2, 0]}
    table = pl.concat(pl.DataFrame({"query": query, **items}) for query in range(2, 6))
    run, qrels = table.drop("rel"), table.drop("score")
    tied = run.with_columns(pl.col("score") + other.cast(float))
    metrics = ["nDCG@3", "AP@3", "P@3"]
    for each, ties in product([metrics, [*metrics, "AP", "RR"]], ["item", "expected"]):
        compare(tied, qrels, each, ties=ties)
    twice = run.with_columns(item=pl.when(other).then(pl.lit("a")).otherwise("item"))
    placed = tied.select("query", "item", pos=7 - pl.col("score").cast(int))
    for each in (*twice.partition_by("query"), *placed.partition_by("query")):
        compare(each, qrels.filter(query=each["query"][0]), "nDCG@3")


def test_more_judged_items_than_columns():
    sizes = (reduce.MAX_LISTED - 1, reduce.MAX_LISTED, reduce.MAX_LISTED + 1, 3)
    rows = [(q, pos % 3 + 1, pos) for q, size in enumerate(sizes) for pos in range(1, size + 1)]
    for data in ((ranked_table(rows), None), join(score(ranked_table(rows), 1))):
        compare(*data, ["AP", "nDCG@1000", "R@205"])
