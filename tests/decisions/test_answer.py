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


def test_an_equivalent_system_is_not_called_undistinguished():
    """A difference can be significant, and too small to matter."""
    line = answer(compare("old", "up", equivalence=0.2))
    assert "Undecided: +0.1000 AP overall (95% CI " in line and "equivalent within 0.2)" in line


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


@pytest.fixture(scope="module")
def recommended():
    """Two recommenders of 60 users: the second hits more often and shows less popular items."""
    rng = np.random.default_rng(3)
    runs = {}
    for name, skill in (("old", 0.0), ("new", 0.5), ("third", 0.7)):
        order = np.argsort(-skill * (np.arange(12) < 2) - rng.random((60, 12)), axis=1)
        rows = [(u, int(i), p) for u, items in enumerate(order) for p, i in enumerate(items, 1)]
        runs[name] = pl.DataFrame(rows, ["user", "item", "pos"], orient="row")
    test = pl.DataFrame({"user": range(60), "item": [u % 2 for u in range(60)]})
    train = [(u, i) for u in range(60) for i in range(12) if rng.random() < (i + 1) / 14]
    return runs, test, pl.DataFrame(train, ["user", "item"], orient="row")


def compare_recommended(recommended, metrics, names=("old", "new"), **options):
    runs, test, train = recommended
    return rankql.compare({n: runs[n] for n in names}, test, metrics, train=train, **options)


@pytest.mark.parametrize("metrics", [["nDCG@3", "Popularity@3"], ["Popularity@3", "nDCG@3"]])
def test_a_metric_without_a_direction_decides_nothing(recommended, metrics):
    """It keeps the difference and the interval, without p, verdict, bold, and Holm."""
    both = compare_recommended(recommended, metrics)
    alone = compare_recommended(recommended, "nDCG@3")
    rows = {row["metric"]: row for row in both.pairs.to_dicts()}
    row = rows["Popularity@3"]
    assert row["verdict"] == "no direction" and row["p"] is None and row["p_adjusted"] is None
    assert row["lo"] < row["difference"] < row["hi"] < 0
    expected = compare_recommended(
        recommended, "Popularity@3", higher_is_better={"Popularity@3": True})  # fmt: skip
    assert [row["lo"], row["hi"]] == pytest.approx(expected.pairs["lo", "hi"].row(0))
    assert rows["nDCG@3"]["p_adjusted"] == alone.pairs["p_adjusted"][0]
    assert rows["nDCG@3"]["hi"] == alone.pairs["hi"][0]
    assert both.title == alone.title and "Popularity" not in both.title
    assert answer(both).startswith("Is new better than old? Yes: +") and "nDCG@3" in answer(both)
    assert both.to_latex().count("textbf") <= 1 and "textbf{27" not in both.wide().to_latex()


def test_a_direction_of_the_caller_gives_a_verdict(recommended):
    metrics = ["nDCG@3", "Popularity@3"]
    for higher, verdict in ((True, "worse"), (False, "better")):
        result = compare_recommended(
            recommended, metrics, higher_is_better={"Popularity@3": higher})  # fmt: skip
        row = result.pairs.filter(metric="Popularity@3").row(0, named=True)
        assert row["verdict"] == verdict and row["p"] < row["p_adjusted"] < 0.05
        assert answer(result).startswith(f"Is new better than old? {'No' if higher else 'Yes'}")


def test_metrics_without_a_direction_of_more_systems(recommended):
    names = ("old", "new", "third")
    both = compare_recommended(recommended, ["Popularity@3", "nDCG@3"], names)
    assert "Popularity" not in both.title and both.title.startswith("third leads on nDCG@3")
    assert both.leaderboard()["metric"].unique().to_list() == ["nDCG@3"]
    wide = rankql.evaluate(*recommended[:2], ["Popularity@3", "nDCG@3"], train=recommended[2])
    assert wide.wide().to_markdown().count("**") == 2 and "Popularity" not in wide.title
    alone = compare_recommended(recommended, "Popularity@3")
    assert alone.title == "No metric says whether higher or lower is better"


@pytest.mark.parametrize("metric", ["NumRet", "IDCG", "IDCG@5", "NumRel", "Repeats@3"])
def test_other_metrics_without_a_direction(recommended, metric):
    result = compare_recommended(recommended, [metric, "P@1"])
    verdicts = result.pairs.filter(metric=metric)["verdict"].to_list()
    assert verdicts == ["no direction"]


def test_a_gate_on_a_metric_without_a_direction_works_as_before(recommended):
    runs, test, train = recommended
    old = rankql.evaluate(runs["old"], test, "Popularity@3", train=train)
    new = rankql.evaluate(runs["new"], test, "Popularity@3", train=train)
    assert rankql.gate(new, minimum=["Popularity@3>=1"]).passed
    assert rankql.gate(new, baseline=old, max_drop=["Popularity@3:0.1"]).outcome == "failed"
