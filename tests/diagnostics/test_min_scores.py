"""min_scores: shares of answers by lowest score, against scikit-learn and evaluate."""

import random

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from sklearn.metrics import roc_curve

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few
from support.refusals import refuses


def questions(count=80, seed=3, answerable=0.7):
    """A run with scores, and judgments: of some questions nothing is relevant."""
    rng, run, qrels = random.Random(seed), [], []
    for query in range(count):
        has_answer = rng.random() < answerable
        qrels.append((f"q{query}", "d0", int(has_answer)))
        run += [
            (f"q{query}", f"d{item}", round(rng.gauss(has_answer * (item == 0), 0.6), 2))
            for item in range(4)
        ]
    run = pl.DataFrame(run, ["query", "item", "score"], orient="row")
    return run, pl.DataFrame(qrels, ["query", "item", "rel"], orient="row")


def best_scores(run, qrels):
    best = run.group_by("query").agg(pl.col("score").max())
    return best.join(qrels, on="query").sort("query")


@few(1)("form", ["scores", "distances"])
def test_the_curve_is_that_of_the_best_score(form):
    run, qrels = questions()
    run = run.with_columns(pl.col("score").round(1))
    best = best_scores(run, qrels)
    false, true, thresholds = roc_curve(best["rel"], best["score"], drop_intermediate=False)
    scores, sign = best["score"].unique().to_list(), 1
    if form == "distances":
        run, sign = run.select("query", "item", distance=-pl.col("score")), -1
    report = rankql.min_scores(run, qrels, min_scores=[sign * score for score in scores])
    table = report.table.sort(sign * pl.col("min_score"), descending=True)
    assert np.allclose(sign * table["min_score"], thresholds[1:], atol=1e-12)
    assert np.allclose(table["FalseAnswer"], false[1:], atol=1e-12)
    assert np.allclose(1 - table["FalseAbstention"], true[1:], atol=1e-12)
    counts = [(best["score"] >= x).mean() for x in thresholds[1:]]
    assert np.allclose(table["answered"], counts, atol=1e-12)


@pytest.mark.slow
def test_each_row_is_an_evaluation_with_this_score():
    """Of the metrics, over the queries that have a relevant item, also if the run lacks them."""
    run, qrels = questions()
    qrels = pl.concat([qrels, pl.DataFrame({"query": ["x", "y"], "item": "d0", "rel": [1, 0]})])
    report = rankql.min_scores(run, qrels, ["nDCG@10", "P@1"])
    assert 10 < len(report.table) <= 20
    answerable = qrels.filter(rel=1)["query"].implode()
    for row in report.table[::19].iter_rows(named=True):
        values = rankql.evaluate(
            run, qrels, ["nDCG@10", "P@1", "FalseAnswer"], min_score=row["min_score"]
        ).per_query
        some = values.filter(pl.col("query").is_in(answerable))
        assert row["P@1"] == pytest.approx(some["P@1"].mean(), abs=1e-12)
        assert row["nDCG@10"] == pytest.approx(some["nDCG@10"].mean(), abs=1e-12)
        assert row["FalseAnswer"] == pytest.approx(values["FalseAnswer"].mean(), abs=1e-12)
        assert row["P@1_lo"] is None or row["P@1_lo"] <= row["P@1"] <= row["P@1_hi"]
    assert report.notes[0].startswith("26 of 82 queries have nothing relevant")
    assert not any("NULL" in note for note in report.notes)


@pytest.mark.slow
def test_quantiles_of_the_best_scores_are_the_default():
    run, qrels = questions()
    best = best_scores(run, qrels)["score"]
    scores = rankql.min_scores(run, qrels, "RR").table["min_score"]
    assert (scores[0], scores[-1]) == (best.min(), best.max())
    assert {*scores} <= {*best}
    few = best_scores(*questions(6))
    assert len(rankql.min_scores(*questions(6), "RR").table) == few["score"].n_unique()


def test_systems_that_differ_only_in_silence_are_told_apart():
    """One answers everything, the other is silent where nothing is relevant."""
    run, qrels = questions()
    silent = run.join(qrels.filter(rel=1).select("query"), on="query", how="semi")
    runs = {"all": run, "silent": silent}
    metrics = ["nDCG@10", "FalseAnswer", "FalseAbstention"]
    means = rankql.evaluate(runs, qrels, metrics, interval=None).wide().table
    rows = {row["system"]: row for row in means.iter_rows(named=True)}
    assert rows["all"]["nDCG@10"] == rows["silent"]["nDCG@10"]
    assert (rows["all"]["FalseAnswer"], rows["silent"]["FalseAnswer"]) == (1, 0)
    assert rows["all"]["FalseAbstention"] == rows["silent"]["FalseAbstention"] == 0
    limit = "FalseAnswer:0.02"
    assert not rankql.gate(run, qrels, baseline=silent, max_drop=limit).passed
    assert rankql.gate(silent, qrels, baseline=run, max_drop=limit).passed


QUESTIONS = dict(zip(("run", "qrels"), questions(), strict=True))
test_wrong_calls_are_refused = refuses(
    "min_scores", globals(), "rankql.min_scores(**QUESTIONS | dict(%s))"
)


@pytest.mark.slow
def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, qrels = questions()
    run.write_csv("run.csv")
    qrels.write_csv("qrels.csv")
    command = ["min-scores", "run.csv", "qrels.csv", "-m", "RR", "--min-scores"]
    done = CliRunner().invoke(main, [*command, "0,0.5", "-o", "scores.csv"])
    assert done.exit_code == 0, done.output
    assert done.stdout.split("\n")[0].split() == [
        "min_score", "answered", "FalseAnswer", "FalseAbstention", "RR",
    ]  # fmt: skip
    expected = rankql.min_scores(run, qrels, "RR", min_scores=[0, 0.5]).table
    assert_frame_equal(pl.read_csv("scores.csv"), expected, check_dtypes=False)
    done = CliRunner().invoke(main, [*command, "0,0.88,0.9", "--max-false-answer", "0.2"])
    assert done.exit_code == 0 and done.stdout.startswith(
        "min_score=0.88 is the lowest of those tried with"
    )


@pytest.mark.report
def test_the_report_of_one_run_draws_them_if_false_answers_are_asked_for(tmp_path):
    run, qrels = questions()
    for metrics, drawn in ((["RR", "FalseAnswer"], True), (["RR"], False)):
        path = tmp_path / "report.html"
        rankql.compare({"mine": run}, qrels, metrics).save(path)
        assert ("Lowest scores" in path.read_text()) == drawn
    rankql.compare({"a": run, "b": run}, qrels, ["RR", "FalseAnswer"]).save(path)
    assert "Lowest scores" not in path.read_text()


def test_min_score_is_named_by_its_own_name():
    with pytest.raises(RankqlError, match=r"'min_score'\. Did you mean 'min_scores'\?"):
        rankql.min_scores(*questions(), "RR", min_score=0.5)
    with pytest.raises(RankqlError, match="Unknown option 'weight'"):
        rankql.min_scores(*questions(), "RR", weight="w")


@few(1)(("column", "words"), [("score", "at least"), ("distance", "at most")])
def test_items_that_are_not_shown_are_noted(column, words):
    run = pl.DataFrame({"query": [1, 2], "item": ["a", "a"], column: [0.1, 0.5], "rel": [1, 0]})
    notes = rankql.evaluate(run, metrics="P@1", min_score=0.3).notes
    left_out = f"1 of 2 rows of the run have no score of {words} min_score= and count"
    assert any(note.startswith(left_out) for note in notes)
    assert any(note.startswith("1 of 2 queries has nothing relevant: FalseAnswer is")
               for note in rankql.min_scores(run, metrics="P@1").notes)  # fmt: skip


@few(1)(("sign", "first"), [(1, "lowest"), (-1, "highest")])
def test_of_the_scores_tried_one_with_few_false_answers_is_marked(sign, first):
    """Of distances it is the highest, which shows most."""
    run, qrels = questions()
    if sign < 0:
        run = run.select("query", "item", distance=-pl.col("score"))
    options = {"min_scores": [sign * score for score in (-0.5, 0.5, 0.8, 0.9, 1)]}
    report = rankql.min_scores(run, qrels, "RR", **options, max_false_answer=0.2)
    rows = report.table.filter(pl.col("FalseAnswer") <= 0.2).sort("answered")
    assert report.chosen == rows["min_score"][-1] == report.to_dict()["chosen"]
    assert report.title.startswith(f"min_score={report.chosen:g} is the {first} of those tried ")
    marked = report.displayed()[0].filter(pl.col("chosen") != "")
    assert marked["min_score"].to_list() == [report.chosen]
    plain = rankql.min_scores(run, qrels, "RR", **options)
    assert plain.chosen is None and plain.title == "" and "chosen" not in repr(plain)


@few(1)("form", ["scores", "distances"])
@pytest.mark.parametrize("limit", [0, 0.04, 0.1, 0.5, 1])
@pytest.mark.parametrize("decimals", [1, 3])
def test_the_chosen_score_is_the_lowest_of_all_rows(form, limit, decimals):
    """Against every score of the run, one by one; also with ties, and rows below the best one."""
    run, qrels = questions(60)
    draws = pl.Series(np.random.default_rng(4).normal(0, 0.3, len(run)))
    run = run.with_columns((pl.col("score") + draws).round(decimals))
    absent = pl.DataFrame({"query": ["x"], "item": "d0", "rel": [0]})  # it counts, without a score
    qrels = pl.concat([qrels, absent])
    none = qrels.filter(rel=0)["query"].to_list()
    best = run.filter(pl.col("query").is_in(none)).group_by("query").agg(pl.col("score").max())
    scores = run["score"].unique().sort()
    rates = [(best["score"] >= x).sum() / len(none) for x in scores]
    within = [x for x, rate in zip(scores, rates, strict=True) if rate <= limit + 1e-12]
    sign = -1 if form == "distances" else 1
    if form == "distances":
        run = run.select("query", "item", distance=-pl.col("score"))
    report = rankql.min_scores(run, qrels, "RR", max_false_answer=limit)
    assert report.chosen == (sign * within[0] if within else None)
    assert len(report.table) <= 21
    row = report.table.filter(min_score=report.chosen)
    assert not within or row["FalseAnswer"].item() == pytest.approx(
        rates[scores.index_of(within[0])]
    )
    name = "highest distance" if form == "distances" else "lowest score"
    assert report.title == (
        f"min_score={report.chosen:g} is the {name} with a FalseAnswer of at most {limit:g}"
    )


@pytest.mark.slow
def test_no_score_of_the_run_is_within_the_limit():
    """The best score is that of a question without an answer."""
    run, qrels = questions(40)
    silent = qrels.filter(rel=0)["query"][0]
    score = pl.when(query=silent).then(9.0).otherwise("score").alias("score")
    for form, text in (("scores", "score above 9"), ("distances", "distance below -9")):
        rows = run.with_columns(score)
        if form == "distances":
            rows = rows.select("query", "item", distance=-pl.col("score"))
        report = rankql.min_scores(rows, qrels, "RR", max_false_answer=0)
        name = text.split()[0]
        assert report.chosen is None and report.title == (
            f"No {name} of the run has a FalseAnswer of at most 0; every {text} shows nothing"
        )


def test_intervals_of_answered_are_those_of_a_share():
    table = rankql.min_scores(*questions(8), "RR").table
    assert table.select(pl.col("answered_lo").min() >= 0, pl.col("answered_hi").max() <= 1).row(
        0
    ) == (True, True)


def test_no_score_within_the_limit_is_said_and_a_wrong_limit_refused():
    report = rankql.min_scores(*questions(), "RR", min_scores=[0.1, 0.5], max_false_answer=0.1)
    assert report.title == (
        "No score of those tried has a FalseAnswer of at most 0.1: the least is 0.6800"
    )
    with pytest.raises(RankqlError, match=r"max_false_answer must be from 0 to 1, not 1\.5"):
        rankql.min_scores(*questions(), max_false_answer=1.5)


def test_right_abstentions_are_not_counted_as_the_worst_value():
    """Of queries without an answer, which metrics of answers leave out."""
    run, qrels = questions()
    silent = qrels.filter(rel=0)["query"].head(10).implode()
    systems = {"a": run, "b": run.filter(~pl.col("query").is_in(silent))}
    for metrics, counted in ((["nDCG@10", "FalseAnswer"], False), (["P@1"], True)):
        printed = repr(rankql.compare(systems, qrels, metrics))
        assert ("missing and counted as the worst value" in printed) == counted, metrics
    wrong = {**systems, "b": run.filter(pl.col("query") != qrels.filter(rel=1)["query"][0])}
    for metric in ("nDCG@10", "FalseAbstention"):
        assert "1 of 80 (b) missing and counted" in repr(rankql.compare(wrong, qrels, metric))
