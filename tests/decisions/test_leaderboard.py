"""The ranks of many systems: by hand, and how often the best is among those that may be it."""

import numpy as np
import polars as pl
import pytest

from rankql.decisions.comparison import rank_systems
from research.simulation import REPEATS, at_most
from support.own_values import compare_values

MEANS = pl.DataFrame(
    {"metric": "AP", "slice": "all", "system": [*"abcd"], "mean": [0.1, 0.5, 0.4, 0.2]}
)


def pairs(*verdicts):
    """Pairs such as "ab better": b is better than a."""
    rows = [("AP", "all", pair[0], pair[1], verdict) for pair, verdict in map(str.split, verdicts)]
    names = ("metric", "slice", "a", "b", "verdict")
    return pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")


@pytest.mark.parametrize(
    ("higher", "verdicts", "expected"),
    [
        (True, ["ab better", "ac better", "bd worse"],
         [("b", 1, 2, True), ("c", 1, 3, True), ("d", 2, 4, False), ("a", 3, 4, False)]),
        (False, ["ab worse", "ac worse"],
         [("a", 1, 2, True), ("d", 1, 4, True), ("c", 2, 4, False), ("b", 2, 4, False)]),
        (True, ["ab no-difference"], [(x, 1, 4, True) for x in "bcda"]),
    ],
)  # fmt: skip
def test_by_hand(higher, verdicts, expected):
    ranks = rank_systems(MEANS, pairs(*verdicts), {"AP": higher})
    assert ranks.select("system", "rank_lo", "rank_hi", "maybe_best").rows() == expected


def test_metrics_and_slices_in_their_order():
    """One after the other, each with its systems best first."""
    rows = [
        (name, part, system, mean) for system, mean in (("a", 0.1), ("b", 0.5))
        for part in ("all", "x=1") for name in ("RR", "AP")
    ]  # fmt: skip
    means = pl.DataFrame(rows, ["metric", "slice", "system", "mean"], orient="row")
    ranks = rank_systems(means, pairs(), {"RR": True, "AP": True})
    parts = [("RR", "all"), ("AP", "all"), ("RR", "x=1"), ("AP", "x=1")]
    expected = [(*part, system) for part in parts for system in "ba"]
    assert ranks["metric", "slice", "system"].rows() == expected


def values(rng, *means, n=40):
    """Skewed values per query of systems with these means."""
    hard = rng.exponential(1, n)
    return {
        f"s{i}": pl.DataFrame({"query": range(n), "revenue": hard + mean * rng.exponential(1, n)})
        for i, mean in enumerate(means)
    }


def test_of_a_comparison():
    three = values(np.random.default_rng(1), 1, 1, 9)
    for higher, first in ((True, ["s2"]), (False, ["s0", "s1"])):
        comparison = compare_values(three, metrics="revenue", higher_is_better=higher)
        assert comparison.title in repr(comparison)
        ranks = comparison.leaderboard()
        assert ranks.filter("maybe_best")["system"].sort().to_list() == first
        assert ranks["system"][0] in comparison.title.partition(" leads ")[0]


def test_a_system_without_any_value():
    three = values(np.random.default_rng(1), 1, 9, 1)
    three["s2"] = three["s2"].with_columns(revenue=pl.lit(None, pl.Float64))
    comparison = compare_values(three, metrics="revenue", higher_is_better=True)
    assert "significantly better than s0, not significantly better than s2" in comparison.title
    ranks = comparison.leaderboard().select("system", "rank_lo", "rank_hi", "maybe_best").rows()
    assert ranks == [("s1", 1, 1, True), ("s0", 2, 2, False), ("s2", None, None, False)]


@pytest.mark.simulation
@pytest.mark.parametrize("means", [(1, 1, 1, 1), (0.5, 1, 2, 2.2)], ids=str)
def test_the_best_is_in_the_set(means):
    """In at least 95% of samples, for one of several best systems too."""
    rng = np.random.default_rng(7)
    best, repeats, lost = f"s{int(np.argmax(means))}", max(20, REPEATS // 20), 0
    for _ in range(repeats):
        comparison = compare_values(values(rng, *means), metrics="revenue", higher_is_better=True)
        ranks = comparison.leaderboard()
        lost += best not in ranks.filter("maybe_best")["system"].to_list()
    assert at_most(lost / repeats, 0.05, repeats)
