"""The bounds over the unjudged, against every judgment that there could be."""

from functools import partial
from itertools import combinations_with_replacement
from math import fsum, log2
from random import Random

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import definitions, metric_engines, strategies
from support.paths import ROOT

METRICS = ["ndcg", "dcg", "cg", "precision_at", "recall_at", "f1_at", "hit_at", "ap"]
METRICS += ["rr", "arhr", "err", "rbp"]
LEVELS = [[0, 1, 2, 3], [0, 0.5, 3], [0, 1], [0, 1.75, 2], [0]]
# So many unjudged items, so that every judgment of them can be tried.
MOST_UNJUDGED = 5


@pytest.fixture(scope="module")
def con():
    con = metric_engines.connect()
    con.execute((ROOT / "sql" / "bounds.sql").read_text("utf-8"))
    return con


def literal(value):
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)


def bounds(con, metric, batch, levels, k=None, ideal="judged", **options):
    """The lowest and the highest value of each ranking of a batch, by the macro."""
    items, judged = [], []
    for rows in batch:
        shown = sorted(definitions.shown(rows), key=lambda row: row[1])
        items.append([{"pos": float(pos), "rel": rel} for rel, pos in shown])
        pool = rows if ideal == "judged" else shown
        judged.append([float(rel) for rel, _ in pool if rel is not None])
    named = "".join(f", {name} := {literal(value)}" for name, value in options.items())
    call = f"items, judged, {literal(k)}, {literal(levels)}::DOUBLE[]{named}"
    query = f"""
        SELECT x.low, x.high FROM (
            SELECT n, rankql_bounds_{metric}({call}) AS x FROM (
                SELECT unnest(range($n)) AS n,
                       unnest($items::STRUCT(pos DOUBLE, rel DOUBLE)[][]) AS items,
                       unnest($judged::DOUBLE[][]) AS judged)) ORDER BY n"""
    return con.execute(query, {"n": len(batch), "items": items, "judged": judged}).fetchall()


def try_all(metric, rows, levels, **options):
    """The lowest and the highest over every judgment, None where none defines the metric."""
    value = partial(getattr(definitions, metric), **options)
    return definitions.extremes(rows, value, levels) or (None, None)


def require_same(values, expected):
    for pair, other in zip(values, expected, strict=True):
        assert [v is None for v in pair] == [v is None for v in other], (pair, other)
        for a, b in zip(pair, other, strict=True):
            assert a is None or abs(a - b) <= 1e-12 * max(1, abs(b)), (pair, other)


def unjudged(rows):
    return sum(1 for rel, pos in rows if rel is None and pos is not None)


GRADES = st.sampled_from([None, None, None, -1, 0, 0.5, 1, 1.75, 2, 3])
# Nothing of use among the judged: metrics are undefined, or have their lowest value.
BARREN = st.sampled_from([None, None, -1, 0])


def batches(grades):
    few = strategies.rankings(grades).filter(lambda rows: unjudged(rows) <= MOST_UNJUDGED)
    return strategies.batches(few, most=6)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@given(batch=batches(GRADES) | batches(BARREN), levels=st.sampled_from(LEVELS), data=st.data())
def test_bounds_are_the_extremes_of_all_judgments(con, metric, batch, levels, data):
    options = data.draw(strategies.options(metric))
    expected = [try_all(metric, rows, levels, **options) for rows in batch]
    require_same(bounds(con, metric, batch, levels, **options), expected)


def chains(rows, levels, k, discounts):
    """The highest ndcg where the unjudged of larger weight have the higher levels, in every way."""
    by = discounts or [log2(pos + 1) for pos in range(1, 200)]
    weigh = [1 / by[pos - 1] if k is None or pos <= k else 0 for _, pos in rows]
    own = fsum(rel * w for (rel, _), w in zip(rows, weigh, strict=True) if rel)
    free = sorted((w for (rel, _), w in zip(rows, weigh, strict=True) if rel is None), reverse=True)
    grades = [rel for rel, _ in rows if rel is not None]
    best = sorted(by[:k]) if discounts else by
    values = []
    for unjudged_levels in combinations_with_replacement(sorted(levels, reverse=True), len(free)):
        pool = sorted([*grades, *unjudged_levels], reverse=True)[:k]
        ideal = fsum(rel / b for rel, b in zip(pool, best, strict=False))
        if ideal > 0:
            dcg = own + fsum(level * w for level, w in zip(unjudged_levels, free, strict=True))
            values.append(dcg / ideal)
    return max(values, default=None)


@pytest.mark.parametrize("seed", range(12))
def test_highest_ndcg_of_longer_rankings(con, seed):
    """Grades far apart and any discounts: levels between 0 and the top are needed here."""
    random = Random(seed)
    levels = random.choice([[0, 1, 2, 3], [0, 1, 3, 7], [0, 0.01, 1, 100], [0, 5, 6, 7]])
    k = random.choice([None, 5, 10, 20])
    listed = [round(random.uniform(0.2, 5), 3) for _ in range(40)]
    discounts = random.choice([None, listed])
    batch = []
    for _ in range(8):
        grades = [None] * random.randint(3, 9)
        grades += [random.choice([0, 0, 1, 2, 3, 7, 0.3]) for _ in range(random.randint(0, 9))]
        random.shuffle(grades)
        batch.append([(rel, pos) for pos, rel in enumerate(grades, 1)])
    values = bounds(con, "ndcg", batch, levels, k=k, discounts=discounts)
    expected = [chains(rows, levels, k, discounts) for rows in batch]
    require_same([(high,) for _, high in values], [(high,) for high in expected])


@pytest.mark.parametrize(
    ("metric", "rows", "options", "low", "high"),
    [
        ("rr", [(0, 1), (None, 2), (1, 3)], {}, 1 / 3, 1 / 2),
        ("precision_at", [(0, 1), (None, 2), (1, 3)], {"k": 2}, 0, 0.5),
        ("ap", [(0, 1), (None, 2), (1, 3)], {}, 1 / 3, (1 / 2 + 2 / 3) / 2),
        ("rr", [(0, 1), (None, 7)], {}, 1 / 7, 1 / 7),
        ("rr", [(0, 1)], {}, None, None),
        ("rr", [], {}, None, None),
        # What is beyond the cutoff has no share in what was found, but defines it.
        ("ap", [(0, 1), (None, 5)], {"k": 2, "denominator": "found"}, 0, 0),
    ],
)
def test_by_hand(con, metric, rows, options, low, high):
    assert bounds(con, metric, [rows], [0, 1], **options) == [(low, high)]


def test_a_level_between_the_others_is_best(con):
    """At 3 the order is ideal, at 9 the item ought to stand above the first."""
    values = [definitions.ndcg([(3, 1), (rel, 2), (1, 3)]) for rel in (0, 3, 9)]
    assert values[1] == 1 and values[2] < values[0]
    rows = [(3, 1), (None, 2), (1, 3)]
    assert bounds(con, "ndcg", [rows], [0, 3, 9]) == [pytest.approx((values[2], 1))]


def test_signed_gains(con):
    """The dcg is below 0: the lowest ideal makes it worst, the highest ideal makes it best."""
    values = bounds(con, "ndcg", [[(-1, 1), (None, 2)]], [0, 1, 2], negative="keep")
    assert values == [pytest.approx((1 / log2(3) - 1, (2 / log2(3) - 1) / 2))]
    rows, options = [(-3, 1), (None, 2), (None, 3)], {"negative": "keep", "k": 2}
    expected = try_all("ndcg", rows, [0, 1, 2], **options)
    require_same(bounds(con, "ndcg", [rows], [0, 1, 2], **options), [expected])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ap(items, judged, 3, [0, 1], denominator := 'x')", "denominator must be"),
        ("ap(items, judged, 0, [0, 1])", "k must be a whole number from 1"),
        ("rr(items, judged, 3, [0, 1], threshold := 'x')", "threshold must be a finite number"),
        ("ndcg(items, judged, 3, [0, 1], base := 1)", "base must be a finite number above 1"),
        ("ndcg(items, judged, 3, [0, 1], negative := 'x')", "negative must be"),
        ("ndcg(items, judged, 3, [0, 1], discounts := [1, 0, 2])", "discounts must be finite"),
        ("ndcg(items, judged, NULL, [0, 1], discounts := [1])", "discounts has 1 entries, but"),
        ("err(items, judged, 3, [0, 1])", "max_rel must be given"),
        ("err(items, judged, 3, [0, 4], max_rel := 3)", "rel must not exceed max_rel: 4.0 is"),
        ("rbp(items, judged, 3, [0, 1])", "p must be given"),
    ],
)
def test_wrong_options_are_refused(con, call, message):
    items = "[{'pos': 1, 'rel': 1}, {'pos': 2, 'rel': NULL}]"
    with pytest.raises(duckdb.ConversionException, match=message):
        query = f"SELECT rankql_bounds_{call} FROM (SELECT {items} AS items, [1, 0] AS judged)"
        con.execute(query).fetchall()
