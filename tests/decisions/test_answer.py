"""The first line of the report: whether a new system may replace an old one."""

import numpy as np
import polars as pl
import pytest

import rankql
from rankql.decisions.answer import answer
from rankql.output import difference_charts
from support import judged_runs

# By system: the change of each query against the old system, by part.
CHANGES = {"old": (0, 0), "up": (0.1, 0.1), "mixed": (0.1, -0.1), "down": (-0.1, -0.1),
           "flat": (0.001, -0.001)}  # fmt: skip


def compare(*systems, **options):
    frames = {
        name: pl.DataFrame(
            [(i, "ab"[i % 2], 0.5 + CHANGES[name][i % 2] + 0.02 * (i % 5 - 2) * (name != "old"))
             for i in range(100)],
            schema=["query", "part", "AP"], orient="row",
        )
        for name in systems
    }  # fmt: skip
    return rankql.compare(frames, by="part", **options)


@pytest.mark.parametrize(("new", "max_drop", "short", "named", "outcome"), [
    ("up", None, "Yes", ["better on AP. The"], "passed"),
    ("down", None, "No", ["worse on AP. The"], "failed"),
    ("mixed", None, "No", ["better on AP for part=a but worse on AP for part=b"], "failed"),
    ("flat", None, "Undecided", ["not significantly better", "can test max_drop='AP:"], "passed"),
    ("flat", "AP:0.05", "Yes", ["not significantly better", "AP drop <= 0.05"], "passed"),
    ("flat", {"AP": 0.000001}, "Undecided", ["AP drop <= "], "is inconclusive"),
])  # fmt: skip
def test_better_where_worse_and_what_the_gate_says(new, max_drop, short, named, outcome):
    line = answer(compare("old", new), max_drop)
    assert line.startswith(f"May {new} replace old? {short}. {new} is ")
    assert [part for part in named if part not in line] == []
    assert f"The gate {outcome}: " in line


def test_an_equivalent_system_is_not_called_undistinguished():
    """A difference can be significant, and too small to matter."""
    line = answer(compare("old", "up", equivalence=0.2))
    assert "up is equivalent within 0.2 on AP. " in line


def test_all_queries_come_before_slices():
    old = pl.DataFrame({"query": range(60), "part": [*"ab"] * 30, "RR": 0.5, "AP": 0.5})
    noise = pl.Series([i % 5 / 100 for i in range(60)])
    new = old.with_columns(RR=pl.col("RR") + noise + 0.1 * (pl.col("part") == "a").cast(int))
    new = new.with_columns(AP=pl.col("AP") + noise, RR=pl.col("RR") - 0.07)
    line = answer(rankql.compare({"old": old, "new": new}, by="part", metrics=["RR", "AP"]))
    assert "better on AP; RR for part=a but worse on RR for part=b" in line


def test_the_best_of_several_is_held_against_the_baseline():
    line = answer(compare("old", "down", "up", baseline="old"))
    assert line.startswith("May up replace old? Yes.") and "up leads on AP" in line
    for undecidable in (compare("old", "down", "up"), compare("old")):
        assert not answer(undecidable).startswith("May")


def test_a_judge_corrects_the_answer():
    """The corrected interval decides, where that of people alone does not."""
    run, human, judge, _ = judged_runs.simulated()
    noise = pl.Series(np.random.default_rng(9).normal(0, 2, run.height))
    runs = {"old": run.with_columns(pl.col("score") + noise), "new": run}
    alone, both = (
        rankql.compare(runs, qrels=human, metrics="nDCG@5", judge=x) for x in (None, judge)
    )
    ends = [-x.pairs["lo"][0] for x in (both, alone)]
    limit = f"nDCG@5:{sum(ends) / 2:.4f}"
    assert ends[0] < ends[1]
    assert "The gate passed: nDCG@5 drop" in answer(both, limit)
    assert "The gate is inconclusive" in answer(alone, limit)
    assert "Not gated" not in answer(both)
    assert any("weight of the judge for its difference" in note for note in both.notes)
    spec = difference_charts.draw_differences(both, "nDCG@5", "old", "new")
    assert "60 human queries, not corrected" in str(spec)
    assert "(human labels, not corrected)" in str(spec)


def test_a_wrong_limit_is_an_error():
    with pytest.raises(rankql.RankqlError, match="RR"):
        answer(compare("old", "up"), "RR:0.1")
