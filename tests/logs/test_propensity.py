"""Propensities from logs: by hand, exact logs, others, a simulation."""

import math
import random
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support.calls import PROPENSITIES, table_ways
from support.components import optional
from support.parameters import few

sm = optional("statsmodels.api")
NAMES = ["randomised_propensity", "harvested_propensity"]
SCHEMA = {"query": pl.Int64, "item": pl.String, "pos": pl.Int64, "click": pl.Int64}
FEW = "the interval rests on fewer than 30 queries"


def log_of(cells):
    """A row for each impression of (query, item, pos, impressions, clicks), shuffled."""
    rows = [(q, i, k, int(j < c)) for q, i, k, n, c in cells for j in range(n)]
    random.Random(3).shuffle(rows)
    return pl.DataFrame(rows, SCHEMA, orient="row")


def estimates(name, log, **options):
    """position -> its row."""
    return {row["pos"]: row for row in getattr(rankql, name)(log, **options).rows(named=True)}


def assert_same(sql, other):
    """But for rounding, of which an interval without width is the root."""
    assert_frame_equal(sql, other, abs_tol=1e-7, rel_tol=1e-7)
    assert sql["propensity"].to_list() == pytest.approx(other["propensity"].to_list(), rel=1e-9)


# Logs without noise: clicks are what is expected

HALVES = [Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)]


@few(4)(("name", "options"), PROPENSITIES)
@pytest.mark.parametrize("theta", [(1, Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 2), 1)])
def test_propensities_of_logs_without_noise_are_exact(name, options, theta):
    """What comes out is what went in, relative to position 1, above 1 too."""
    cells = []
    for (q, r), (k, t) in product(enumerate(HALVES), enumerate(theta, start=1)):
        clicks = 48 * t * r
        assert clicks.denominator == 1
        cells.append((q, "a", k, 48, int(clicks)))
    result = estimates(name, log_of(cells), **options)
    for k, t in enumerate(theta, start=1):
        assert result[k]["propensity"] == pytest.approx(float(t / theta[0]), rel=1e-12)
        assert (result[k]["note"], result[k]["component"]) == (FEW if k > 1 else None, 1)
    first = result[1]
    assert (first["propensity"], first["lo"], first["hi"]) == (1.0, 1.0, 1.0)
    assert (first["impressions"], first["clicks"]) == (144, 72 * theta[0])


# by hand and by others


def test_interval_of_randomised_rankings_is_that_of_a_ratio():
    """Queries shown once: the delta method of a ratio of two rates."""
    cells = [(j, "a", 1, 1, int(j < 30)) for j in range(100)]
    cells += [(100 + j, "a", 2, 1, int(j < 20)) for j in range(200)]
    result = estimates("randomised_propensity", log_of(cells), confidence=0.9)[2]
    error = math.sqrt((0.7 / 30 + 0.9 / 20) * 300 / 299)
    z = NormalDist().inv_cdf(0.95)
    assert result["propensity"] == pytest.approx(1 / 3)
    assert result["lo"] == pytest.approx(math.exp(math.log(1 / 3) - z * error))
    assert result["hi"] == pytest.approx(math.exp(math.log(1 / 3) + z * error))


HAND = [
    (1, "a", 1, 10, 6), (1, "a", 2, 30, 9), (1, "b", 2, 20, 8), (1, "b", 3, 20, 2),
    (2, "a", 1, 10, 4), (2, "a", 2, 10, 1), (2, "a", 3, 40, 3),
    (3, "a", 2, 6, 3), (3, "a", 3, 12, 5),
]  # fmt: skip


def wins(k, l):  # noqa: E741
    """Of the two positions, the clicks of each, both shown n m / (n + m) times."""
    at = {(q, i, p): (n, c) for q, i, p, n, c in HAND}
    both = [(at[q, i, k], at[q, i, l]) for q, i, p in at if p == k and (q, i, l) in at]
    x = sum(c * m / (n + m) for (n, c), (m, _) in both)
    return x, sum(d * n / (n + m) for (n, _), (m, d) in both)


def test_pairs_with_the_first_are_ratios_and_adjacent_pairs_a_chain():
    """Pairs with the first are ratios, adjacent ones a chain."""
    assert wins(1, 2) == (6 * 30 / 40 + 4 / 2, 9 * 10 / 40 + 1 / 2) == (6.5, 2.75)
    ratio = {pair: wins(*pair)[1] / wins(*pair)[0] for pair in [(1, 2), (1, 3), (2, 3)]}
    first = estimates("harvested_propensity", log_of(HAND), pairs="first")
    assert first[2]["propensity"] == pytest.approx(ratio[1, 2], rel=1e-12)
    assert first[3]["propensity"] == pytest.approx(ratio[1, 3], rel=1e-12)
    chain = estimates("harvested_propensity", log_of(HAND), pairs="adjacent")
    assert chain[3]["propensity"] == pytest.approx(ratio[1, 2] * ratio[2, 3], rel=1e-12)


@pytest.mark.statsmodels
def test_all_pairs_equal_a_logistic_regression():
    """Bradley and Terry by statsmodels; the sandwich from its matrices."""
    pairs = [(1, 2), (1, 3), (2, 3)]
    design = np.array([[int(p == a) - int(p == b) for p in (2, 3)] for a, b in pairs])
    model = sm.GLM(np.array([wins(*pair) for pair in pairs]), design, family=sm.families.Binomial())
    fit = model.fit(tol=1e-14, maxiter=200)
    x = dict(zip((1, 2, 3), [0, *fit.params], strict=True))
    result = estimates("harvested_propensity", log_of(HAND))
    for k in (2, 3):
        assert result[k]["propensity"] == pytest.approx(math.exp(x[k]), rel=1e-9)

    scores = {}
    for q, i, k, n, c in HAND:
        for q2, i2, l, m, d in HAND:  # noqa: E741
            if (q, i) == (q2, i2) and k < l:
                p = 1 / (1 + math.exp(x[l] - x[k]))
                u = c * m / (n + m) * (1 - p) - d * n / (n + m) * p
                score = scores.setdefault(q, np.zeros(4))
                score[k], score[l] = score[k] + u, score[l] - u
    meat = sum(np.outer(s[2:], s[2:]) for s in scores.values()) * 3 / 2
    errors = np.sqrt(np.diag(fit.normalized_cov_params @ meat @ fit.normalized_cov_params))
    z = NormalDist().inv_cdf(0.975)
    for k, error in zip((2, 3), errors, strict=True):
        assert result[k]["hi"] == pytest.approx(math.exp(x[k] + z * error), rel=1e-8)
        assert result[k]["lo"] == pytest.approx(math.exp(x[k] - z * error), rel=1e-8)


# what cannot be told


def test_positions_without_a_comparison_have_a_note():
    items = [("a", 1, 5), ("a", 2, 2), ("a", 3, 0), ("b", 4, 5), ("b", 6, 1)]
    log = log_of([*two_queries(*items), (9, "c", 7, 10, 4)])
    parted = "not connected with position 1"
    notes = {1: None, 2: FEW, 3: "no click", 4: parted, 6: parted, 7: parted}
    for name, options in PROPENSITIES[1:]:
        result = estimates(name, log, **options)
        assert result[2]["propensity"] == pytest.approx(0.4), name
        assert {k: row["note"] for k, row in result.items()} == notes
        lowest = {1: 1, 2: 1, 3: 1, 4: 4, 6: 6 if "pairs" in options else 4, 7: 7}
        assert {k: row["component"] for k, row in result.items()} == lowest
        for k in (3, 4, 6, 7):
            assert result[k]["propensity"] is result[k]["lo"] is result[k]["hi"] is None
    result = estimates("randomised_propensity", log)
    assert result[7]["propensity"] == pytest.approx(0.8)
    assert result[3]["note"] == "no click"


def two_queries(*items):
    """Cells of two queries alike, of (item, pos, clicks of 10)."""
    return [(q, item, k, 10, clicks) for q in (1, 2) for item, k, clicks in items]


@few(2)(
    ("name", "cells", "propensity", "note"),
    [
        *((name, two_queries(("a", 1, 0), ("a", 2, 4)), None, "no click at position 1")
          for name in NAMES),
        *((name, [(1, "a", 1, 10, 5), (1, "a", 2, 10, 2)], 0.4,
           "no interval: it rests on one query") for name in NAMES),
        # Position 2 has clicks, but none where position 1 could have had some.
        (NAMES[1], [*two_queries(("a", 1, 5), ("a", 2, 0)), (3, "b", 2, 10, 5)], None,
         "too few clicks compare it with position 1"),
    ],
)  # fmt: skip
def test_a_propensity_without_an_interval_has_a_note(name, cells, propensity, note):
    first, second = [*estimates(name, log_of(cells)).values()][:2]
    assert first["propensity"] == 1
    propensity = propensity and pytest.approx(propensity, rel=1e-8)
    assert (second["propensity"], second["note"]) == (propensity, note)
    assert second["lo"] is second["hi"] is None


# rows


@few(1)("name", NAMES)
def test_rows_that_were_not_shown_are_left_out(name):
    log = log_of(HAND)
    more = pl.DataFrame([(9, "z", None, None), (9, "z", None, 1)], SCHEMA, orient="row")
    for _, run in table_ways(name, pl.concat([log, more]), {}):
        assert_same(run(), getattr(rankql, name)(log))
    assert getattr(rankql, name)(more).is_empty()


@few(1)(("name", "options"), PROPENSITIES)
def test_columns_have_any_name_and_type_and_slices_are_independent(name, options):
    log = log_of(HAND)
    expected = getattr(rankql, name)(log, **options)
    named = log.select(
        q="query", at=pl.col("pos").cast(pl.Float64), hit=pl.col("click") == 1, it="item"
    )
    named = pl.concat(
        [named.with_columns(seg=pl.lit(s)) for s in ("b", "B", None)], how="vertical_relaxed"
    )
    columns = {"query": "q", "pos": "at", "click": "hit", "slice": "seg"}
    columns |= {} if name == "randomised_propensity" else {"item": "it"}
    for way, run in table_ways(name, named, {**options, **columns}):
        result = run()
        assert result["slice"].unique(maintain_order=True).to_list() == ["B", "b", None], way
        for part in result.partition_by("slice", include_key=False):
            assert_same(part.cast({"pos": pl.Int64}), expected)


# at random


@few(1)(("name", "options"), PROPENSITIES)
def test_every_row_has_an_interval_or_a_note(name, options):
    """Numbers or NULL, and a note wherever there is none; of slices of up to nine cells each."""
    rng, rows = random.Random(1), []
    for s in range(120):
        for _ in range(rng.randint(1, 9)):
            n = rng.choice([1, 1, 2, 5])
            cell = (s, rng.randint(0, 2), str(rng.randint(0, 3)), rng.randint(1, 4))
            rows += [(*cell, rng.random() < rng.choice([0.2, 0.5, 1])) for _ in range(n)]
        rows.append((s, 0, "0", 1, 0))
    log = pl.DataFrame(rows, {"s": pl.Int64, **SCHEMA}, orient="row")
    result = getattr(rankql, name)(log, slice="s", **options)
    for row in result.rows(named=True):
        for value in (row["propensity"], row["lo"], row["hi"]):
            assert value is None or 0 < value < math.inf
        assert row["note"] is not None or row["lo"] is not None
        assert row["lo"] is None or row["lo"] <= row["propensity"] <= row["hi"]
