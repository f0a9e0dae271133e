"""One ranking of 100,000 items, and many rankings on one thread and on more."""

import random
from bisect import bisect_left, insort
from collections import Counter
from functools import cache
from itertools import accumulate
from math import fsum, sqrt

import api
import engines
import pytest
import reference

N = 100_000
GRADES = {
    "few grades": [None, 0, 0, 0, 0, 1, 2, 3],
    "many grades": [i / 64 for i in range(-999, 9999)],
}
OPTIONS = {"err": {"max_rel": 160}, "rbp": {"p": 0.95}, "rbp_residual": {"p": 0.95}}


@cache
def ranking(kind):
    """One ranking with ties in grades; every tenth item was not retrieved."""
    rng = random.Random(kind)
    places = [pos if pos % 10 else None for pos in range(1, N + 1)]
    return [(rng.choice(GRADES[kind]), pos) for pos in rng.sample(places, N)]


# The reference looks at pairs of items in these metrics. This looks at items, and is checked by it.


def ap(rows):
    found = reference.hits(rows, None, 1)
    return fsum(i / pos for i, pos in enumerate(found, 1)) / reference.relevant(rows, 1)


def bpref(rows):
    ordered = [rel for _, rel in sorted((pos, rel) for rel, pos in rows if None not in (rel, pos))]
    relevant = reference.relevant(rows, 1)
    most = min(relevant, len(reference.judged(rows)) - relevant)
    above = accumulate(rel < 1 for rel in ordered)
    both = zip(ordered, above, strict=True)
    return fsum(1 - min(n, relevant) / most for rel, n in both if rel >= 1) / relevant


def pairs(rows):
    """The numbers of pairs: in the wrong order, of different grades, in all."""
    seen, wrong = [], 0
    for _, rel in sorted((pos, rel) for rel, pos in rows if None not in (rel, pos)):
        wrong += bisect_left(seen, rel)
        insort(seen, rel)
    every = len(seen) * (len(seen) - 1) / 2
    return wrong, every - sum(n * (n - 1) / 2 for n in Counter(seen).values()), every


def kendall_tau_distance(rows):
    return float(pairs(rows)[0])


def kendall_tau_b(rows):
    wrong, different, every = pairs(rows)
    return (different - 2 * wrong) / sqrt(different * every)


QUICK = {
    "ap": ap,
    "bpref": bpref,
    "kendall_tau_distance": kendall_tau_distance,
    "kendall_tau_b": kendall_tau_b,
}


@pytest.mark.parametrize("metric", QUICK)
@pytest.mark.parametrize("kind", GRADES)
def test_quick(kind, metric):
    """The quick ways are right, so far as the reference can follow."""
    rows = ranking(kind)[:400]
    wanted = getattr(reference, metric)(rows)
    assert QUICK[metric](rows) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("metric", api.RANKING)
@pytest.mark.parametrize("kind", GRADES)
def test_large_ranking(kind, metric):
    """Right, and in time that grows with n log n, or this would not end."""
    rows, options = ranking(kind), OPTIONS.get(metric, {})
    wanted = QUICK.get(metric, getattr(reference, metric))(rows, **options)
    for name in ("sql", "polars", "polars streaming", "pipe", "sql list", "polars list"):
        engine = engines.ENGINES[name]
        if engine.cannot(metric, options, rows) is None:
            wrong = engines.differences(engine, metric, [rows], options, [wanted])
            assert not wrong, f"{name}: {wrong[0][-90:]}"
    for cut in ("sql", "polars"):
        if "k" in api.ROWS[metric] and metric not in QUICK:
            given = {**options, "k": 10}
            wanted = getattr(reference, metric)(rows, **given)
            assert not engines.differences(engines.ENGINES[cut], metric, [rows], given, [wanted])


@pytest.mark.parametrize("metric", api.RANKING)
def test_large_scores(metric):
    """SQL and polars agree on 100,000 scores, most of them tied, under both tie rules."""
    rng = random.Random(metric)
    group = [(rng.choice([None, 0, 0, 1, 3]), rng.randint(0, 50), i) for i in range(N)]
    for ties in ("item", "expected"):
        options = {**OPTIONS.get(metric, {}), "ties": ties}
        if ties == "item" or not engines.no_expectation(metric, options):
            sql, polars = (
                engines.ENGINES[name].run(f"{metric}_by_score", [group], options)[0]
                for name in ("sql score", "polars score")
            )
            assert sql == pytest.approx(polars, rel=1e-11)


@pytest.fixture(scope="module")
def many():
    """3,000 rankings of 100 items, in one table."""
    rng = random.Random(11)
    return [
        [(rng.choice(GRADES["few grades"]), pos) for pos in rng.sample(range(1, 130), 100)]
        for _ in range(3000)
    ]


def test_threads(many):
    """One thread or four, DuckDB or polars streaming: the same of 300,000 rows."""
    one, four = (engines.SqlRows(engines.connect(threads=threads)) for threads in (1, 4))
    for metric in api.RANKING:
        options = OPTIONS.get(metric, {})
        wanted = one.run(metric, many, options)
        for engine in (four, engines.ENGINES["polars streaming"]):
            wrong = engines.differences(engine, metric, many, options, wanted)
            assert not wrong, wrong[0][-200:]
