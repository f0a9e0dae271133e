"""Intervals of propensities and of counterfactual estimates hold as often as they say."""

import math

import numpy as np
import polars as pl
import pytest

import rankql
from support.calls import PROPENSITIES, connected

NAMES = ["randomised_propensity", "harvested_propensity"]


def random_log(rng, queries, items, shown, attraction=(0.1, 0.9)):
    """A log of queries each of their own taste: clicks of a query are alike."""
    theta = 1 / np.arange(1, 5)
    q, i, _ = np.indices((queries, items, shown)).reshape(3, -1)
    k = rng.integers(0, len(theta), len(q))
    r = rng.uniform(*attraction, (queries, items))
    click = rng.random(len(q)) < theta[k] * r[q, i]
    return pl.DataFrame({"query": q, "item": i, "pos": k + 1, "click": click})


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "options"), PROPENSITIES)
def test_copies_within_a_query_do_not_narrow_the_interval(name, options):
    """Four times the rows of each query: the same interval; four times the queries: half of it."""
    log = random_log(np.random.default_rng(5), queries=40, items=2, shown=20)
    copies = pl.concat([log] * 4)
    others = pl.concat([log.with_columns(pl.col("query") + 1000 * j) for j in range(4)])
    each = (getattr(rankql, name)(x, **options).rows(named=True) for x in (log, copies, others))
    queries = log["query"].n_unique()
    factor = math.sqrt((queries - 1) / (4 * queries - 1))
    for row, a, b in zip(*each, strict=True):
        assert row["pos"] == a["pos"] == b["pos"]
        assert a["propensity"] == pytest.approx(row["propensity"], rel=1e-8)
        assert a["hi"] == pytest.approx(row["hi"], rel=1e-7)
        width = math.log(row["hi"] / row["propensity"])
        assert math.log(b["hi"] / b["propensity"]) == pytest.approx(width * factor, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "logs", "drawn", "near"),
    [
        *((name, 1000, {"queries": 100, "items": 2, "shown": 20}, 0.007) for name in NAMES),
        # Few impressions of attractive items, where estimates of attraction would be biased.
        (NAMES[1], 10, {"queries": 500, "items": 1, "shown": 4, "attraction": (0.5, 1)}, 0.02),
    ],
)
def test_intervals_contain_the_truth(name, logs, drawn, near):
    """At position 3, of users who look at position k with probability 1 / k."""
    rng = np.random.default_rng(1)
    log = pl.concat(random_log(rng, **drawn).with_columns(log=pl.lit(j)) for j in range(logs))
    rows = getattr(rankql, name)(log, slice="log").filter(pos=3)
    held = rows.select(pl.lit(1 / 3).is_between("lo", "hi").mean()).item()
    assert 0.935 <= held <= 0.965 or logs < 1000
    assert rows["propensity"].mean() == pytest.approx(1 / 3, abs=near)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """600 logs of 150 queries: 95 of 100 intervals hold the truth; a good guess narrows them."""
    rng = np.random.default_rng(5)
    logs, queries = 600, 150
    mean, chance = np.array([0.5, 0.3, 0.4, 0.2]), np.array([1, 0.6, 0.4, 0.3])
    new = np.array([3, 2, 4, 1])
    r = mean * rng.uniform(0.5, 1.5, (logs, queries, 4))
    frame = pl.DataFrame(
        {
            "log": np.repeat(np.arange(logs), queries * 4),
            "query": np.tile(np.repeat(np.arange(queries), 4), logs),
            "item": np.tile(np.arange(4), logs * queries),
            "click": (rng.random(r.shape) < chance * r).astype(int).ravel(),
            "propensity": np.tile(chance, logs * queries),
            "pos": np.tile(new, logs * queries),
            "predicted": r.ravel(),
        }
    )
    options = "k := 3, clip := 0.5, predicted := 'predicted', slice := 'log'"
    result = connected(frame).sql(f"FROM counterfactual('input_rows', {options})").pl()
    top = new <= 3
    dcg = float((mean / np.log2(new + 1))[top].sum())
    true = {"IPS": dcg, "DR": dcg, "SNIPS": dcg / float(mean.sum())}
    wide = {}
    for estimator, value in true.items():
        rows = result.filter(metric="DCG@3", estimator=estimator)
        covered = rows.select(pl.lit(value).is_between("lo", "hi").mean()).item()
        assert 0.93 <= covered <= 0.97, f"{estimator}: {covered}"
        assert rows["value"].mean() == pytest.approx(value, rel=0.01)
        wide[estimator] = (rows["hi"] - rows["lo"]).mean()
    assert wide["DR"] < 0.8 * wide["IPS"]
    clipped = result.filter(metric="DCG@3", estimator="clipped IPS")["value"].mean()
    assert clipped < 0.95 * dcg
    naive = result.filter(metric="DCG@3", estimator="naive")["value"].mean()
    assert naive < 0.8 * dcg


@pytest.mark.slow
def test_intervals_take_propensities_as_known():
    """Of those from the same small log 89 of 100 intervals hold the truth, of the true ones 94."""
    rng = np.random.default_rng(3)
    log, query, item, _ = np.indices((400, 100, 4, 4)).reshape(4, -1)
    place, mean = rng.integers(0, 4, len(log)), np.array([0.5, 0.3, 0.4, 0.2])
    r = mean * rng.uniform(0.5, 1.5, (400, 100, 4))
    click = rng.random(len(log)) < r[log, query, item] / (1 + place)
    con = connected(pl.DataFrame(
        {"log": log, "query": query, "item": item, "slot": place + 1, "click": click}))  # fmt: skip
    con.execute("""
        CREATE TEMP TABLE slots AS
        FROM harvested_propensity('input_rows', pos := 'slot', slice := 'log');
        CREATE TEMP TABLE replayed AS
        SELECT log, query, item, click, 1 / slot AS known, least(propensity, 1) AS estimated,
               [3, 2, 4, 1][item + 1] AS pos
        FROM input_rows JOIN slots ON slots.slice = input_rows.log AND slots.pos = input_rows.slot
    """)
    dcg = mean[1] / math.log2(3) + mean[0] / 2 + mean[3]
    for propensity, low, high in (("known", 0.92, 0.97), ("estimated", 0.85, 0.92)):
        options = f"k := 3, slice := 'log', propensity := '{propensity}'"
        rows = con.sql(f"FROM counterfactual('replayed', {options})").pl()
        rows = rows.filter(metric="DCG@3", estimator="IPS")
        held = rows.select(pl.lit(float(dcg)).is_between("lo", "hi").mean()).item()
        assert low <= held <= high, f"{propensity}: {held}"
