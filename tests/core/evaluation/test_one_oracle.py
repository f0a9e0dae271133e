"""Whatever computes the values gives those of the readable query: any rankings, metrics, options.

A case draws all of it by its seed: the shape of the tables, grades of a scale or none, ties, rows
that are wrong, metrics with their options, and conventions. The number of rows that polars reduces
is drawn too, so that DuckDB reduces half of them.
"""

import random

import polars as pl
import pytest

import rankql
from rankql.core.evaluation.finish import formulas
from rankql.core.evaluation.reduce import in_memory, reduce
from rankql.core.metrics.all_metrics import EVALUATED
from support.formula_cases import BY_HAND, CONVENTIONS, FORMS
from support.parameters import few
from support.reductions import compare
from support.samples import SHAPES, join, ranked, ranked_table, score

RECORDS = {record.name: record for record in EVALUATED}
OTHERS = ["IPrec@0.5", "nDCG(base=3)@5", "own = ndcg(rel, pos, 5)", "items = count(rel)"]
CUTOFFS = ["", "@1", "@2", "@5", "@16", "@50", "@51", "@90"]
# What replaces the number that ranks some items.
ODD = [None, float("inf"), float("-inf"), 0.0, -0.0, 1e300, float("nan")]


def draw_metrics(r, seed):
    """Up to five metrics, mostly with columns; all take turns."""
    names = [*FORMS]
    for i in range(r.randint(1, 5)):
        name = names[(5 * seed + i) % len(names)]
        options = ", ".join(filter(None, map(r.choice, FORMS[name])))
        yield f"{name}({options})" + (r.choice(CUTOFFS) if RECORDS[name].has_cutoff else "")
    yield from r.sample(OTHERS, r.choice([0, 0, 1]))


def draw_tables(r):
    """Rankings of a scale, in one of the shapes; some rows are wrong, or tied with others."""
    table = ranked(r.choice([1, 3, 5]), r.random(), r.choice([3, 30]), most=r.choice([22, 60]))
    table = table.with_columns(pl.col("rel") * r.choice([1, 1, 1, 1, 0.5, -1, 1.4]))
    if r.random() < 0.15:  # an item or a position occurs twice
        table = pl.concat(
            [table, r.choice([table.head(1), table.head(2).with_columns(pos=pl.lit(1, pl.Int64))])]
        )
    shape = r.choice([*SHAPES])
    run, qrels = SHAPES[shape](table)
    if "score" in run.columns and r.random() < 0.5:
        odd = pl.Series([r.choice(ODD[:-1]) for _ in range(run.height)], dtype=pl.Float64)
        chosen = pl.int_range(pl.len()) % r.choice([2, 9]) == 0
        run = run.with_columns(score=pl.when(chosen).then(odd).otherwise("score"))
    if qrels is not None and r.random() < 0.2:
        return {"a": run, "b": run.filter(pl.col("query") % 3 > 0)}, qrels
    return run, qrels


@few(22)("seed", range(400))
def test_any_evaluation(seed, monkeypatch):
    r = random.Random(seed)
    monkeypatch.setattr(in_memory, "MOST_ROWS", r.choice([0, in_memory.MOST_ROWS]))
    monkeypatch.setattr(reduce, "CELLS", r.choice([1, 300, reduce.CELLS]))
    options = r.choice([{}, *CONVENTIONS])
    compare(*draw_tables(r), [*dict.fromkeys(draw_metrics(r, seed))], **options)


@pytest.mark.parametrize("place", range(2, 6))
@pytest.mark.parametrize("rows", [0, 5000])
def test_next_to_a_cutoff(place, rows, monkeypatch):
    """Of k = 3: an item has the score or the position of the one above, or the id of the first."""
    monkeypatch.setattr(in_memory, "MOST_ROWS", rows)
    other = pl.int_range(1, 7) == place
    table = pl.DataFrame({"query": "q", "item": [*"abcdef"], "score": [6.0, 5, 4, 3, 2, 1]})
    qrels = table.select("query", "item", rel=pl.Series([0, 1, 0, 1, 2, 0]))
    run = table.with_columns(pl.col("score") + other.cast(float))
    twice = table.with_columns(item=pl.when(other).then(pl.lit("a")).otherwise("item"))
    placed = run.select("query", "item", pos=7 - pl.col("score").cast(int))
    for each, options in ((run, {}), (run, {"ties": "expected"}), (twice, {}), (placed, {})):
        compare(each, qrels, ["nDCG@3", "AP@3", "P@3"], **options)


@pytest.mark.parametrize(("cutoff", "shape"), [("", "ranked"), ("@2", "ranked"), ("", "joined")])
def test_values_by_hand(cutoff, shape):
    """Grade 2 of two items, of which one is at position 2: the threshold and the cutoff count."""
    data = SHAPES[shape](ranked_table([(1, 0, 1), (1, 2, 2), (1, 2, None)]))
    metrics = {f"{name}{cutoff}": value for name, value in BY_HAND.items()} | {"Rprec": 1 / 2}
    result = rankql.evaluate(*data, [*metrics], threshold=2, interval=None)
    assert {name: result[name] for name in metrics} == pytest.approx(metrics)


def test_forms_are_all():
    assert {RECORDS[name].function for name in FORMS} == {*formulas.METRICS}


def test_more_judged_items_than_columns():
    sizes = (reduce.MAX_LISTED - 1, reduce.MAX_LISTED, reduce.MAX_LISTED + 1, 3)
    rows = [(q, pos % 3 + 1, pos) for q, size in enumerate(sizes) for pos in range(1, size + 1)]
    for data in ((ranked_table(rows), None), join(score(ranked_table(rows), 1))):
        compare(*data, ["AP", "nDCG@1000", "R@205"])
