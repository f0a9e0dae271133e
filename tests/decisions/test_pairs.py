"""Pairs of systems against their definition on arrays, from values per query."""

import math
from dataclasses import asdict

import numpy as np
import pytest

import rankql
from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import CORRECTIONS, TESTS, run_family
from support.comparisons import draw, expected_rows, together
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
    compared = rankql.compare(drawn.results(), **drawn.options)
    rows = compared.pairs.to_dicts()
    pairs = {tuple(row[name] for name in KEYS): row for row in rows}
    expected = expected_rows(drawn)
    assert len(pairs) == len(expected)
    for row in expected:
        pair = pairs[tuple(row[name] for name in KEYS)]
        assert numbers(pair) == pytest.approx(numbers(row), rel=1e-9, abs=1e-12, nan_ok=True)
        assert {name: pair[name] for name in FACTS} == {name: row[name] for name in FACTS}
        assert "nan" not in pair["sentence"].lower()
        if row["slice"] == "all" and "weight" not in drawn.options:
            changes = compared.differences(*(row[name] for name in KEYS[:3]))["difference"]
            assert len(changes) == row["n"]
            assert changes.mean() == pytest.approx(row["difference"]) or not row["n"]
        if pair["lo"] is not None:
            decided = pair["verdict"] in ("better", "worse")
            assert decided == (not pair["lo"] <= 0 <= pair["hi"])


def test_differences_leave_out_what_a_third_system_lacks():
    """Their mean is the difference of the comparison, which is of the queries of all systems."""
    qrels = {f"q{x}": {"a": 1} for x in range(6)}
    runs = {
        "one": {x: ["a", "b"] for x in qrels},
        "two": {x: ["b", "a"] for x in qrels},
        "three": {x: ["c", "a"] for x in [*qrels][:4]},
    }
    compared = rankql.compare(runs, qrels, "RR", missing="skip")
    assert compared.differences("RR", "one", "two")["query"].to_list() == ["q0", "q1", "q2", "q3"]
    assert {*compared.pairs["n"]} == {4}


@few(4)("name", TESTS)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_families_equal_their_definition(name, correction):
    """Tests of samples in which few queries differ, and of some that cannot be tested."""
    rng, test = np.random.default_rng(len(name)), TESTS[name](resamples=199)
    for _ in range(8):
        samples = []
        for _ in range(rng.integers(0, 12)):
            differ = int(rng.choice([0, 2, 3, 6, 7, 8, 30]))
            values = rng.normal(rng.choice([0, 0.1, 0.3]), rng.choice([0.05, 0.2]), differ)
            values = np.append(values.clip(-1, 1), np.zeros(int(rng.integers(0, 9))))
            samples.append(Sample(values, lowest=-1.0, highest=1.0))
        alpha = float(rng.choice([0.01, 0.05, 0.3]))
        expected = together(samples, test, correction, alpha)
        for i, result in enumerate(run_family(samples, test, correction, alpha)):
            if i in expected:
                own = numbers(asdict(expected[i]))
                assert numbers(asdict(result)) == pytest.approx(own, rel=1e-9, nan_ok=True)
                assert result.level == pytest.approx(expected[i].level)
                assert result.needed == expected[i].needed
            else:
                assert result.p is None and result.reason
