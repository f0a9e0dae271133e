"""The first line of the report: whether a new system is better, or may replace an old one."""

import numpy as np
import polars as pl
import pytest

import rankql
from rankql.decisions.answer import answer
from rankql.output import difference_charts
from support import judged_runs

# By system: the change of each query against the old system, by part.
CHANGES = {"old": (0, 0), "up": (0.1, 0.1), "mixed": (0.1, -0.1), "down": (-0.1, -0.1),
           "flat": (0.001, -0.001), "part": (0.1, 0)}  # fmt: skip


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


@pytest.mark.parametrize(("new", "max_drop", "words"), [
    ("up", None, "Is up better than old? Yes: +0.10 AP overall and nowhere significantly worse."),
    ("down", None, "Is down better than old? No: -0.10 AP overall."),
    ("mixed", None, "No: +0.000 AP overall (95% CI "),
    ("mixed", None, "not significant), but -0.10 for b (50 queries)."),
    ("part", None, "Yes: +0.050 AP overall and nowhere significantly worse "
                   "(not shown to be no worse: 1 slice)."),
    ("flat", None, "Undecided: +0.0000 AP overall (95% CI "),
    ("flat", "AP:0.05", "May flat replace old? Yes: +0.0000 AP overall (95% CI "),
    ("flat", "AP:0.05", "not significant). The gate passed: AP drop <= 0.05."),
    ("flat", {"AP": 0.000001}, "The gate is inconclusive: AP drop <= "),
    ("mixed", "AP:0.05", "May mixed replace old? No: "),
    ("mixed", "AP:0.05", "The gate failed: AP drop <= 0.05 [part=b]."),
])  # fmt: skip
def test_the_answer_comes_first_with_its_size(new, max_drop, words):
    assert words in answer(compare("old", new), max_drop)


def table(**changes):
    """Values of 60 queries in two parts: 0.5, some noise, and a change in each part."""
    noise = pl.Series([i // 2 % 5 / 100 - 0.02 for i in range(60)])
    parts = pl.Series([i % 2 for i in range(60)])
    data = {m: 0.5 + (noise + a * (1 - parts) + b * parts) for m, (a, b) in changes.items()}
    return pl.DataFrame({"query": range(60), "part": ["x", "y"] * 30, **data})


@pytest.mark.parametrize(("changes", "words"), [
    ({"AP": (0.1, 0.1), "RR": (-0.1, -0.1)}, "+0.10 AP overall, but -0.10 RR overall."),
    ({"AP": (0.1, 0.1), "RR": (0.1, -0.1)}, "+0.10 AP overall, but -0.10 RR for y (30 queries)."),
    ({"AP": (0.3, -0.1), "RR": (-0.1, -0.1)},
     "+0.10 AP overall, but -0.10 for y (30 queries) and -0.10 RR overall."),
    ({"RMSE": (-0.1, -0.1)},
     "Yes: -0.10 RMSE overall (lower is better) and nowhere significantly worse."),
    ({"RMSE": (0.1, 0.1)}, "No: +0.10 RMSE overall (lower is better)."),
])  # fmt: skip
def test_the_first_metric_comes_first_and_others_are_named(changes, words):
    flat = table(**dict.fromkeys(changes, (0, 0))).with_columns(
        pl.lit(0.5).alias(m) for m in changes
    )
    direction = {m: m != "RMSE" for m in changes}
    runs = {"old": flat, "new": table(**changes)}
    line = answer(rankql.compare(runs, by="part", metrics=[*changes], higher_is_better=direction))
    assert words in line


@pytest.mark.parametrize(("values", "label"), [
    ("ab", "for b ("), (["true", "false"], "for part=false ("), (["1", "2"], "for part=2 ("),
])  # fmt: skip
def test_slices_are_named_by_their_values_if_these_are_words(values, label):
    frames = [table(AP=change).with_columns(
        part=pl.col("part").replace_strict({"x": values[0], "y": values[1]})
    ) for change in ((0, 0), (0.3, -0.1))]  # fmt: skip
    frames[0] = frames[0].with_columns(AP=0.5)
    line = answer(rankql.compare(dict(zip(("old", "new"), frames, strict=True)), by="part"))
    assert label in line


def test_of_several_systems_the_leader_is_named():
    """Limits are for the best one and the baseline."""
    several = compare("old", "down", "up", baseline="old")
    assert answer(several).startswith("up leads on AP")
    line = answer(several, "AP:0.05")
    assert line.startswith("May up replace old? Yes: +0.10 AP") and "up leads on AP" in line
    for comparison in (compare("old", "down", "up"), compare("old")):
        assert "?" not in answer(comparison)
    with pytest.raises(rankql.RankqlError, match="max_drop= needs two systems or a baseline"):
        answer(compare("old", "down", "up"), "AP:0.05")


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
    assert any("weight of the judge for its difference" in note for note in both.notes)
    spec = difference_charts.draw_differences(both, "nDCG@5", "old", "new")
    assert "60 human queries, not corrected" in str(spec)
    assert "(human labels, not corrected)" in str(spec)


def test_a_wrong_limit_is_an_error():
    with pytest.raises(rankql.RankqlError, match="RR"):
        answer(compare("old", "up"), "RR:0.1")
