"""What is said of every metric holds: its level, direction, range, and when it is undefined."""

from itertools import pairwise

import polars as pl
import pytest

import rankql
from rankql.macros import read_comments
from rankql.registry.all_metrics import FUNCTIONS
from support import metric_engines
from support.metric_rows import KINDS, call, columns, draw


@pytest.fixture(scope="module")
def con():
    return metric_engines.connect()


def values(con, name, rankings):
    """The values of several rankings, by one query: planning it takes longer than running it."""
    names = [f'"{column}"' for column in columns(name)]
    kinds = [KINDS.get(column, "DOUBLE") for column in columns(name)]
    typed = ", ".join(f"{n} {kind}" for n, kind in zip(names, kinds, strict=True))
    con.execute(f"CREATE OR REPLACE TEMP TABLE drawn (g INT, {typed})")
    rows = [(g, *row) for g, ranking in enumerate(rankings) for row in ranking]
    if not rows:
        return [con.execute(f"SELECT {call(name)} FROM drawn").fetchone()[0]]
    con.executemany(f"INSERT INTO drawn VALUES (?, {', '.join('?' for _ in names)})", rows)
    found = con.execute(f"SELECT {call(name)} FROM drawn GROUP BY g ORDER BY g").fetchall()
    assert len(found) == len(rankings)
    return [value for (value,) in found]


def test_there_are_facts_of_every_metric():
    other = {"exp2_gain", "ranked"}
    families = ("gain", "precision", "cascade", "order", "rating", "catalogue", "diversity")
    text = "".join(rankql.macros._read_family(family) for family in families)
    ours = {name for name in read_comments() if f"MACRO {name}(" in text} - other
    assert {name for name in ours if not name.startswith("list_")
            and not name.endswith("_by_score")} == {*FUNCTIONS}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_undefined_of_nothing_just_where_it_says_so(con, name):
    assert (values(con, name, []) == [None]) == (not FUNCTIONS[name].undefined.startswith("never"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_lie_within_the_range(con, name):
    lowest, highest = FUNCTIONS[name].lowest, FUNCTIONS[name].highest
    drawn = [draw(name, seed) for seed in range(6)]
    found = [value for value in values(con, name, drawn) if value is not None]
    assert found
    assert lowest is None or min(found) >= lowest - 1e-12
    assert highest is None or max(found) <= highest + 1e-12


@pytest.mark.parametrize(
    "name",
    [name for name in FUNCTIONS if columns(name)[:2] == ["rel", "pos"] and name != "rbp_residual"],
)
def test_the_better_direction_is_that_of_better_items_on_top(con, name):
    """Two neighbours swapped so that the better comes first: no metric of relevance is worse."""
    pairs = []
    for seed in range(6):
        grades = [row[0] for row in sorted(draw(name, seed), key=lambda row: row[1])]
        pairs += [(grades, [*grades[:i], grades[i + 1], grades[i], *grades[i + 2 :]])
                  for i in range(5) if grades[i] < grades[i + 1]]  # fmt: skip
    orders = [order for pair in pairs for order in pair]
    found = values(con, name, [[[g, pos] for pos, g in enumerate(o, 1)] for o in orders])
    both = zip(found[::2], found[1::2], strict=True)
    moved = [new - old for old, new in both if new is not None]
    sign = {"higher": 1, "lower": -1, "neither": 0}[FUNCTIONS[name].better]
    assert moved
    assert all(sign * move >= -1e-12 if sign else abs(move) < 1e-12 for move in moved)


def test_metrics_is_the_table_of_them():
    table = rankql.metrics()
    assert table["name"].is_unique().all()
    assert set(table["function"]) == {*FUNCTIONS}
    micro = table.filter(name="microP").row(0, named=True)
    assert (micro["level"], micro["function"]) == ("rankings", "micro_precision_at")
    assert table.filter(name="microMSE").row(0, named=True)["better"] == "lower"
    assert table.filter(pl.col("better") == "lower")["name"].is_in(["RMSE", "nDCG"]).sum() == 1


def test_the_better_of_a_pair_of_values_is_that_of_the_facts():
    from rankql.registry.parse import lower_is_better

    lower = ("RMSE", "RBPres(p=.5)", "microMAE")
    assert all(map(lower_is_better, lower)) and not any(map(lower_is_better, ("nDCG@10", "a = 1")))


def test_ranges_are_not_empty():
    for facts in FUNCTIONS.values():
        ends = [end for end in (facts.lowest, facts.highest) if end is not None]
        assert all(low < high for low, high in pairwise(ends))
