"""Propensities from logs: by hand, exact logs, others, a simulation."""

import math
import random
from fractions import Fraction
from itertools import product
from statistics import NormalDist
from unittest.mock import ANY

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from support.calls import table_ways
from support.click_simulation import ATTRACTIVE, propensities_covered, random_log
from support.components import optional
from support.parameters import first_light

sm = optional("statsmodels.api")

METHODS = [
    ("randomised_propensity", {}),
    ("harvested_propensity", {}),
    ("harvested_propensity", {"pairs": "adjacent"}),
    ("harvested_propensity", {"pairs": "first"}),
    ("click_model", {}),
]
NAMES = ["randomised_propensity", "harvested_propensity", "click_model"]
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
    """But for rounding, of which an interval without width is the root; iterations may differ."""
    sql, other = (frame.drop("iterations", strict=False) for frame in (sql, other))
    assert_frame_equal(sql, other, abs_tol=1e-7, rel_tol=1e-7)
    assert sql["propensity"].to_list() == pytest.approx(other["propensity"].to_list(), rel=1e-9)


# logs without noise: clicks are what is expected


def exact_log(theta, attractions, n=48):
    cells = []
    for (q, r), (k, t) in product(enumerate(attractions), enumerate(theta, start=1)):
        clicks = n * t * r
        assert clicks.denominator == 1
        cells.append((q, "a", k, n, int(clicks)))
    return log_of(cells)


HALVES = [Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)]


@pytest.mark.parametrize(("name", "options"), METHODS)
@pytest.mark.parametrize("theta", [(1, Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 2), 1)])
def test_propensities_of_logs_without_noise_are_exact(name, options, theta):
    """What comes out is what went in, relative to position 1, above 1 too."""
    result = estimates(name, exact_log([Fraction(t) for t in theta], HALVES), **options)
    for k, t in enumerate(theta, start=1):
        near = 1e-8 if name == "click_model" else 1e-12
        assert result[k]["propensity"] == pytest.approx(float(t / theta[0]), rel=near)
        assert (result[k]["note"], result[k]["component"]) == (FEW if k > 1 else None, 1)
    first = result[1]
    assert (first["propensity"], first["lo"], first["hi"]) == (1.0, 1.0, 1.0)
    assert (first["impressions"], first["clicks"]) == (144, 72 * theta[0])
    assert first.get("converged", True)


# by hand and by others


def test_items_at_different_positions_mislead_click_rates_only():
    """Better items stand higher: click rates mislead, harvesting and the click model do not."""
    theta, n = {1: 1.0, 2: 0.5, 3: 0.25}, 80
    shown = {
        0: (0.8, [(1, 9), (2, 1)]),
        1: (0.4, [(1, 1), (2, 9), (3, 1)]),
        2: (0.2, [(2, 1), (3, 9)]),
    }
    cells = [
        (q, "a", k, n * times, round(n * times * theta[k] * r))
        for q, (r, places) in shown.items()
        for k, times in places
    ]
    log = log_of(cells)
    assert estimates("randomised_propensity", log)[3]["propensity"] < 0.1
    for name, options in METHODS[1:]:
        if options.get("pairs") != "first":
            result = estimates(name, log, **options)
            near = 1e-8 if name == "click_model" else 1e-12
            assert result[3]["propensity"] == pytest.approx(0.25, rel=near), name


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


def em(log, steps, start=0.5):
    """The steps of Wang et al. 2018, both chances from those before.

    Where a step changes no digit, none of those after it would.
    """
    cells = log.group_by("query", "item", "pos").agg(n=pl.len(), c=pl.col("click").sum())
    units = {u: j for j, u in enumerate(sorted(set(cells.select("query", "item").rows())))}
    n, c = np.zeros((2, len(units), cells["pos"].max()))
    for q, i, k, shown, clicks in cells.rows():
        n[units[q, i], k - 1], c[units[q, i], k - 1] = shown, clicks
    theta, r = np.full(n.shape[1], start), np.full((len(units), 1), 0.5)
    for _ in range(steps):
        miss = np.where(n > c, n - c, 0) / np.maximum(1 - theta * r, 1e-300)
        before = theta, r
        theta, r = (
            (c + miss * theta * (1 - r)).sum(0) / np.maximum(n.sum(0), 1),
            ((c + miss * r * (1 - theta)).sum(1) / n.sum(1))[:, None],
        )
        if np.array_equal(theta, before[0]) and np.array_equal(r, before[1]):
            break
    return theta / theta[0]


# An item always clicked bounds what the others can be.
BOUND = [(1, "a", 1, 20, 20), (1, "a", 2, 20, 11), (2, "a", 1, 9, 4), (2, "a", 2, 30, 8)]


@pytest.mark.parametrize("cells", [HAND, BOUND])
def test_click_model_ends_where_em_ends(cells):
    log = log_of(cells)
    result = estimates("click_model", log)
    values = [row["propensity"] for row in result.values()]
    assert values == pytest.approx(em(log, 20000), rel=1e-6)
    assert result[1]["converged"] and result[1]["iterations"] < 200


@pytest.mark.parametrize(
    ("cells", "propensity"),
    [
        # A thousand clicks bind on one side of the best, a weak pull of few is on the other.
        ([(0, "a", 1, 3000, 1000), (2, "c", 1, 3000, 1364), (3, "c", 1, 1000, 1),
          (4, "b", 1, 1, 0), (4, "b", 2, 3000, 1)], 3000 / 1364),
        ([(1, "a", 1, 1, 1), (1, "a", 2, 1, 0), (2, "b", 2, 2, 1)], 1 / 3),
        ([(0, "1", 2, 1, 0), (0, "2", 3, 2, 1), (0, "3", 1, 3, 2), (1, "0", 2, 1, 1),
          (1, "2", 1, 1, 0), (1, "0", 1, 1, 0), (0, "0", 1, 1, 0)], 2),
    ],
)  # fmt: skip
def test_logs_in_which_a_limit_binds_converge(cells, propensity):
    result = estimates("click_model", log_of(cells), max_iterations=300)
    assert result[2]["propensity"] == pytest.approx(propensity, rel=1e-6)
    assert result[1]["converged"]
    if 3 in result:
        assert result[3]["note"] == "not connected with position 1"


def test_click_model_needs_few_iterations():
    """Where EM needs hundreds."""
    log = exact_log([Fraction(1), Fraction(1, 2), Fraction(1, 4)], [Fraction(1, 50)] * 2, n=400)
    result = estimates("click_model", log)
    assert result[3]["propensity"] == pytest.approx(1 / 4, rel=1e-8)
    assert result[3]["iterations"] < 10


@pytest.mark.parametrize(
    ("clicks", "expected"), [(0, 0.2), (20, 0.2), (50, 0.4368051263), (99, 0.9860541596), (100, 1)]
)
def test_an_item_shown_at_one_position_bounds_its_propensity(clicks, expected):
    """Its attraction is at most 1, so that its position is looked at as often as it is clicked."""
    log = log_of([(1, "a", 1, 100, 50), (1, "a", 2, 100, 10), (2, "b", 2, 100, clicks)])
    result = estimates("click_model", log)[2]
    edge = clicks == 20  # where binding begins: EM creeps, still 5e-4 off after 20,000 steps
    assert result["propensity"] == pytest.approx(expected, rel=1e-9)
    assert result["propensity"] == pytest.approx(em(log, 20000)[1], rel=1e-3 if edge else 1e-6)


def small_log(rng):
    """Dense or sparse, with items shown once and items always clicked."""
    shown, last = int(rng.choice([1, 2, 4, 20])), int(rng.integers(2, 6))
    q = np.repeat(np.arange(int(rng.integers(3, 60))), shown)
    k = rng.integers(0, last, len(q))
    r = rng.uniform(0, 1, len(q)) ** rng.choice([0.2, 1, 3])
    click = (rng.random(len(q)) < r[q] / (1 + k)).astype(int)
    log = pl.DataFrame({"query": q, "item": 0 * q, "pos": k + 1, "click": click})
    return pl.concat([log, pl.DataFrame([(0, 0, 1, 0)], log.schema, orient="row")])


def small_logs(seeds):
    """Many of them, and what the click model says of each: one query asks for all."""
    logs = [small_log(np.random.default_rng(seed)) for seed in seeds]
    slices = pl.concat(log.with_columns(log=pl.lit(i)) for i, log in enumerate(logs))
    rows = rankql.click_model(slices, slice="log").rows(named=True)
    return [(log, {r["pos"]: r for r in rows if r["slice"] == i}) for i, log in enumerate(logs)]


@pytest.mark.slow
def test_click_model_ends_where_em_ends_on_any_log():
    for seed, (log, result) in enumerate(small_logs(range(25))):
        theta = em(log, 20000)
        for k, row in result.items():
            assert row["converged"], seed
            if row["propensity"] is not None:
                assert row["propensity"] == pytest.approx(theta[k - 1], rel=1e-6), seed


def test_a_flat_likelihood_has_no_propensity():
    """Where EM ends depends on where it began."""
    few = "too few clicks compare it with position 1"
    log, result = next(
        (log, rows)
        for log, rows in small_logs(range(10))
        if few in [row["note"] for row in rows.values()]
    )
    ends = [em(log, 20000, start) for start in (0.1, 0.5, 0.9)]
    for k, row in result.items():
        values = [theta[k - 1] for theta in ends]
        if row["note"] == few:
            assert row["propensity"] is None
            assert max(values) > 1.01 * min(values)
        elif row["propensity"] is not None:
            assert max(values) == pytest.approx(min(values), rel=1e-6)


# what cannot be told


def test_positions_without_a_comparison_have_a_note():
    items = [("a", 1, 5), ("a", 2, 2), ("a", 3, 0), ("b", 4, 5), ("b", 6, 1)]
    log = log_of([*two_queries(*items), (9, "c", 7, 10, 4)])
    parted = "not connected with position 1"
    notes = {1: None, 2: FEW, 3: "no click", 4: parted, 6: parted, 7: parted}
    for name, options in METHODS[1:]:
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


ONCE = [(q, "a", 1 + q % 2, 1, int(q % 3 == 0)) for q in range(60)]
MOST = "no interval: it is 1, the most that the model allows"


@pytest.mark.parametrize(
    ("name", "cells", "options", "propensity", "note"),
    [
        *((name, two_queries(("a", 1, 0), ("a", 2, 4)), {}, None, "no click at position 1")
          for name in NAMES),
        *((name, [(1, "a", 1, 10, 5), (1, "a", 2, 10, 2)], {}, 0.4,
           "no interval: it rests on one query") for name in NAMES),
        # Position 2 has clicks, but none where position 1 could have had some.
        (NAMES[1], [*two_queries(("a", 1, 5), ("a", 2, 0)), (3, "b", 2, 10, 5)], {}, None,
         "too few clicks compare it with position 1"),
        # An item that is shown once connects no positions.
        (NAMES[2], ONCE, {}, None, "not connected with position 1"),
        (NAMES[2], [*ONCE, *((q, "b", k, 1, 1) for q in range(2) for k in (1, 2))], {}, 1, MOST),
        (NAMES[2], [(1, "a", 1, 100, 50), (1, "a", 2, 100, 10), (2, "b", 2, 100, 100)], {}, 1,
         MOST),
        (NAMES[2], HAND, {"max_iterations": 1}, ANY,
         "not converged: raise max_iterations or use harvested_propensity"),
    ],
)  # fmt: skip
def test_a_propensity_without_an_interval_has_a_note(name, cells, options, propensity, note):
    first, second = [*estimates(name, log_of(cells), **options).values()][:2]
    assert first["propensity"] == 1
    if propensity is not ANY:
        propensity = propensity and pytest.approx(propensity, rel=1e-8)
    assert (second["propensity"], second["note"]) == (propensity, note)
    assert second["lo"] is second["hi"] is None
    assert first.get("converged", True) == (propensity is not ANY)


# rows


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_were_not_shown_are_left_out(name):
    log = log_of(HAND)
    more = pl.DataFrame([(9, "z", None, None), (9, "z", None, 1)], SCHEMA, orient="row")
    for _, run in table_ways(name, pl.concat([log, more]), {}):
        assert_same(run(), getattr(rankql, name)(log))
    assert getattr(rankql, name)(more).is_empty()


@pytest.mark.parametrize(("name", "options"), first_light(METHODS))
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


@pytest.mark.parametrize(("name", "options"), METHODS)
@pytest.mark.parametrize(("queries", "note"), [(29, FEW), (30, None)])
def test_fewer_than_30_queries_are_noted(name, options, queries, note):
    cells = [(q, "a", k, 10, 8 // k) for q in range(queries) for k in (1, 2)]
    result = estimates(name, log_of(cells), **options)[2]
    assert (result["note"], result["lo"] is None) == (note, False)


@pytest.mark.parametrize(("name", "options"), first_light(METHODS))
def test_copies_within_a_query_do_not_narrow_the_interval(name, options):
    """Four times the rows of each query: the same interval; four times the queries: half of it."""
    log = random_log(np.random.default_rng(5), queries=40)
    once = estimates(name, log, **options)
    copies = pl.concat([log] * 4)
    others = pl.concat([log.with_columns(pl.col("query") + 1000 * j) for j in range(4)])
    same = getattr(rankql, name)(copies, **options)
    half = getattr(rankql, name)(others, **options)
    queries = log["query"].n_unique()
    factor = math.sqrt((queries - 1) / (4 * queries - 1))
    for a, b in zip(same.rows(named=True), half.rows(named=True), strict=True):
        row = once[a["pos"]]
        assert a["propensity"] == pytest.approx(row["propensity"], rel=1e-8)
        assert a["hi"] == pytest.approx(row["hi"], rel=1e-7)
        width = math.log(row["hi"] / row["propensity"])
        assert math.log(b["hi"] / b["propensity"]) == pytest.approx(width * factor, rel=1e-6)


# at random


def tiny_logs(seed, count):
    """Of up to nine cells each, as slices of one."""
    rng = random.Random(seed)
    for s in range(count):
        for _ in range(rng.randint(1, 9)):
            n = rng.choice([1, 1, 2, 5])
            cell = (rng.randint(0, 2), str(rng.randint(0, 3)), rng.randint(1, 4))
            for _ in range(n):
                yield (s, *cell, int(rng.random() < rng.choice([0.2, 0.5, 1])))
        yield (s, 0, "0", 1, 0)


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_every_row_has_an_interval_or_a_note(name, options):
    """Numbers or NULL, and a note wherever there is none."""
    schema = {"s": pl.Int64, **SCHEMA}
    log = pl.DataFrame([*tiny_logs(1, 120)], schema, orient="row")
    result = getattr(rankql, name)(log, slice="s", **options)
    for row in result.rows(named=True):
        for value in (row["propensity"], row["lo"], row["hi"]):
            assert value is None or 0 < value < math.inf
        assert row["note"] is not None or row["lo"] is not None
        assert row["lo"] is None or row["lo"] <= row["propensity"] <= row["hi"]
        assert row.get("converged", True)


# simulated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "logs", "least"),
    [(NAMES[0], 1000, 0.935), (NAMES[1], 1000, 0.935), (NAMES[2], 60, 0.88)],
)
def test_intervals_contain_the_truth(name, logs, least):
    """With twenty impressions of each query and item."""
    held, bias = propensities_covered(name, logs)
    assert held >= least and (held <= 0.965 or logs < 1000)
    assert bias == pytest.approx(0, abs=0.007)


@pytest.mark.slow
def test_few_impressions_bias_the_click_model_alone():
    drawn = ATTRACTIVE | {"shown": 4}
    assert propensities_covered("click_model", 10, **drawn)[1] > 0.04
    bias = propensities_covered("harvested_propensity", 10, **drawn)[1]
    assert bias == pytest.approx(0, abs=0.02)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("shown", "least", "most"), [(4, 0.4, 0.7), (8, 0.88, 0.98), (12, 0.9, 0.98)]
)
def test_intervals_of_the_click_model_by_impressions(shown, least, most):
    held, _ = propensities_covered("click_model", 200, shown=shown, **ATTRACTIVE)
    assert least <= held <= most


@pytest.mark.parametrize(("shown", "noted"), [(11, True), (12, False)])
def test_few_impressions_of_each_query_and_item_are_noted(shown, noted):
    """As many as its intervals need; items shown at one position do not count."""
    log = random_log(np.random.default_rng(1), queries=300, shown=shown)
    single = pl.DataFrame({"query": range(300), "item": "x", "pos": 1, "click": 1}, SCHEMA)
    log = pl.concat([log.cast(SCHEMA), single])
    note = rankql.click_model(log).filter(pos=3)["note"].item() or ""
    assert note.startswith("biased: fewer than 12 impressions") == noted
    assert rankql.harvested_propensity(log).filter(pos=3)["note"].item() is None
