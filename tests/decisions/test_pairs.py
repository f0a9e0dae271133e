"""Pairs of systems against their definition on arrays, from values per query."""

import math

import pytest

import rankql
from support.comparisons import draw, expected_rows
from support.parameters import few

KEYS = ("metric", "a", "b", "slice")
FACTS = ("n", "wins", "ties", "losses", "verdict")
NUMBERS = ("mean_a", "mean_b", "difference", "effect", "p", "p_adjusted", "lo", "hi", "detectable")


def numbers(row):
    values = (row.get(name) for name in NUMBERS)
    return {name: math.nan if x is None else x for name, x in zip(NUMBERS, values, strict=True)}


@few(12)("seed", range(240))
def test_pairs_equal_their_definition(seed):
    """Of all metrics, slices, tests and corrections; missing, undefined and weighted queries."""
    drawn = draw(seed)
    rows = rankql.compare(drawn.results(), **drawn.options).pairs.to_dicts()
    pairs = {tuple(row[name] for name in KEYS): row for row in rows}
    expected = expected_rows(drawn)
    assert len(pairs) == len(expected)
    for row in expected:
        pair = pairs[tuple(row[name] for name in KEYS)]
        assert numbers(pair) == pytest.approx(numbers(row), rel=1e-9, abs=1e-12, nan_ok=True)
        assert {name: pair[name] for name in FACTS} == {name: row[name] for name in FACTS}
