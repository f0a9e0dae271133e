"""Judgments whose grades are not read: every judged item counts alike, and a column says more."""

import random

import polars as pl
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.decisions.gate import gate_comparison
from support.parameters import few

WORDS = {3: "superb", 2: "decent", 1: "weak", 0: "poor"}
CALL = "rel=('opinion', {'decent': ..., 'poor': ..., 'superb': ..., 'weak': ...})"


def judged_world(column="opinion", values=WORDS, foot=0, queries=24, items=11):
    """A ranker by grade, its reverse, and judgments of all items but `foot` ones at the end."""
    draw = random.Random(5)
    judged, good = [], []
    for q in range(queries):
        grades = [draw.choice([0, 0, 1, 2, 3]) for _ in range(items)]
        judged += [(f"t{q}", f"n{q}-{i}", values[g]) for i, g in enumerate(grades)]
        good += [(f"t{q}", f"n{q}-{i}", g + draw.random()) for i, g in enumerate(grades)]
    run = pl.DataFrame(good, ["query", "item", "score"], orient="row")
    last = pl.DataFrame(
        {"query": [f"t{q}" for q in range(queries)] * foot, "item": "other", "score": -99.0},
        schema_overrides={"query": pl.String},
    )
    reverse = pl.concat([run.with_columns(score=-pl.col("score")), last.head(foot * queries)])
    qrels = pl.DataFrame(judged, ["query", "item", column], orient="row")
    return pl.concat([run, last]), reverse, qrels


def unread(result):
    return [note for note in result.notes if "every judged item counts as equally" in note]


def gate_of(run, qrels, baseline=None, metric="nDCG@10", **options):
    limits = {"minimum": f"{metric}>=0.5"} if baseline is None else {"max_drop": f"{metric}:0.2"}
    return rankql.gate(run, qrels, baseline, **limits, **options)


# A gate that would pass what it never measured


@few(1)("foot", [1, 0])
def test_a_reversed_ranker_does_not_pass_where_all_judged_items_count_alike(foot):
    good, reverse, qrels = judged_world(foot=foot)
    for baseline in (None, good):
        verdict = gate_of(reverse, qrels, baseline, rel="1")
        assert verdict.exit_code == 3 and verdict.table["mean"].to_list() == [1.0]
        assert "is not read" in verdict.table["message"][0]
        assert CALL in unread(verdict)[0]
    grades = {word: grade for grade, word in WORDS.items()}
    assert gate_of(reverse, qrels, good, rel=("opinion", grades)).exit_code == 1
    assert gate_of(good, qrels, good, rel=("opinion", grades)).exit_code == 0


def test_only_the_check_that_measured_nothing_is_inconclusive():
    _, reverse, qrels = judged_world()
    verdict = rankql.gate(reverse, qrels, minimum="nDCG@10>=0.5, R@2>=0.1", rel="1")
    assert verdict.table["status"].to_list() == ["inconclusive", "passed"]
    warned = rankql.gate(reverse, qrels, minimum="AP>=0.5", rel="1", inconclusive="warn")
    assert warned.exit_code == 0 and warned.table["status"].to_list() == ["inconclusive"]


def test_numbers_of_few_levels_are_grades():
    _, reverse, qrels = judged_world("stars", {x: x + 1 for x in range(4)})
    verdict = gate_of(reverse, qrels, rel="1")
    assert verdict.exit_code == 3 and "pass rel='stars'" in unread(verdict)[0]


def test_compare_evaluate_judges_and_check_say_what_is_not_read():
    good, reverse, qrels = judged_world()
    for result in (
        rankql.evaluate(reverse, qrels, "nDCG@10", rel="1"),
        rankql.compare({"a": good, "b": reverse}, qrels, "nDCG@10", rel="1"),
        rankql.judges(qrels, qrels.clone(), rel="1"),
    ):
        assert CALL in unread(result)[0], result
    findings = [x for x in rankql.check(reverse, qrels, rel="1") if x.kind == "unread-grades"]
    assert [(x.level, x.table, x.count) for x in findings] == [("warning", "qrels", 24)]
    limited = rankql.compare({"a": good, "b": reverse}, qrels, "nDCG@10", rel="1")
    assert gate_comparison(limited, "nDCG@10:0.2").exit_code == 3


def test_the_command_line_says_the_option_and_exits_with_3(tmp_path):
    good, reverse, qrels = judged_world()
    for name, frame in (("new", reverse), ("old", good), ("pool", qrels)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{x}.parquet") for x in ("new", "old", "pool")]
    words = ["gate", paths[0], paths[2], "--baseline", paths[1], "--max-drop", "nDCG@10:0.2"]
    result = CliRunner().invoke(main, [*words, "--rel", "1"])
    assert result.exit_code == 3, result.output
    assert "--rel opinion=decent:...,poor:...,superb:...,weak:..." in result.output.replace("'", "")


# What stays: exit 0


def golden_set(queries=20):
    """Relevant items alone, with columns that say what they are, and a run that finds them all."""
    rows = [
        (f"t{q}", f"n{q}-{i}", "intro" if i else "body", ("faq", "manual")[(q + i) % 2])
        for q in range(queries)
        for i in range(2)
    ]
    qrels = pl.DataFrame(rows, ["query", "item", "section", "doc_type"], orient="row")
    run = qrels.select("query", "item", score=pl.int_range(pl.len()))
    return run, qrels


def one_answer():
    qrels = pl.DataFrame({"query": range(20), "item": range(20), "state": ["good", "weak"] * 10})
    return qrels.select("query", "item", score=1.0), qrels


def with_others():
    """Relevant items alone, of which a run shows others too."""
    _, reverse, qrels = judged_world(items=5, foot=0)
    more = reverse.select("query", item=pl.col("item") + "x", score=pl.col("score") - 50)
    return pl.concat([reverse, more]), qrels


def with_a_property():
    """One value for each item, of which many stand in two queries."""
    rows = [
        (f"t{q}", f"n{q + i}", ("weak", "good")[(q + i) % 2]) for q in range(20) for i in (0, 1)
    ]
    qrels = pl.DataFrame(rows, ["query", "item", "state"], orient="row")
    return qrels.select("query", "item", score=1.0), qrels


@few(2)(
    "world", [golden_set, one_answer, with_others, with_a_property],
    ids=["golden", "one-answer", "others", "property"],
)  # fmt: skip
def test_a_set_without_unread_grades_passes_without_a_note(world):
    run, qrels = world()
    verdict = gate_of(run, qrels, run, "AP", rel="1")
    assert verdict.exit_code == 0 and not unread(verdict)
    assert not [x for x in rankql.check(run, qrels, rel="1") if x.kind == "unread-grades"]


def test_stars_of_which_ndcg_decides_pass():
    good, _, qrels = judged_world("stars", {x: x + 1 for x in range(4)})
    verdict = gate_of(good, qrels, good, rel="stars")
    assert verdict.exit_code == 0 and not unread(verdict)


@few(2)("metric", ["Judged@10", "Coverage@10"])
def test_metrics_that_read_no_grades_pass(metric):
    _, reverse, qrels = judged_world()
    options = {"catalogue": reverse.select("item")} if metric == "Coverage@10" else {}
    verdict = rankql.gate(reverse, qrels, minimum=f"{metric}>=0.1", rel="1", **options)
    assert verdict.exit_code == 0 and not unread(verdict)


def test_a_metric_that_is_not_1_is_noted_and_passes():
    _, reverse, qrels = judged_world()
    verdict = gate_of(reverse, qrels, reverse, "R@5", rel="1")
    assert verdict.exit_code == 0 and unread(verdict)


@few(1)("values", [{0: "x", 1: "y", 2: "x", 3: "y"}, dict(zip(range(4), "wxyz", strict=True))])
def test_words_that_are_no_grades_hold_a_gate_back_only_after_rel_1(values):
    _, reverse, qrels = judged_world("channel", values)
    note = rankql.evaluate(reverse, qrels, "nDCG@10", rel="1")
    assert "channel, which is not read, has other values within 24 of 24 queries" in unread(note)[0]
    assert gate_of(reverse, qrels, rel="1").exit_code == 3
