"""Means under a few human labels, corrected by a judge that labelled all queries."""

import math

import numpy as np
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.judged_runs import corrected, half_width, simulated, student_width
from support.parameters import few
from support.refusals import refuses

METRICS = ["nDCG@5", "P@3"]
RUN, HUMAN, JUDGE, ABOUT = simulated()


def evaluate(metrics=METRICS, run=RUN, human=HUMAN, judge=JUDGE, **options):
    return rankql.evaluate(run, human, metrics, judge=judge, **options)


def of_queries(frame, queries):
    return frame.filter(pl.col("query").is_in(queries))


def arrays(metric):
    """Values under human labels, and under the judge's labels of the same and of other queries."""
    y, f = (
        evaluate(metric, human=x, judge=None).per_query.fill_null(math.nan).sort("query")
        for x in (HUMAN, JUDGE)
    )
    parts = (y, *(f.join(y, on="query", how=how).sort("query") for how in ("semi", "anti")))
    return tuple(part[metric].to_numpy() for part in parts)


@few(1)("metric", [*METRICS, "AP(rel=3)"])
def test_means_are_corrected(metric):
    """With t and the range of the metric; undefined values too, of AP(rel=3)."""
    row = evaluate(metric, interval="t").summary.row(0, named=True)
    expected = corrected(*arrays(metric))
    width = half_width(expected)
    assert row["mean"] == pytest.approx(expected.mean)
    assert row["lo"] == pytest.approx(expected.mean - width)
    assert row["hi"] == pytest.approx(expected.mean + width)
    assert row["lambda"] == pytest.approx(expected.lam)
    assert row["worth"] == expected.worth(student_width)
    assert (row["queries"], row["judged"]) == (60, 160)


def test_the_interval_is_narrower_than_that_of_human_labels():
    alone, result = evaluate(judge=None).summary, evaluate()
    widths = (result.summary["hi"] - result.summary["lo"]) / (alone["hi"] - alone["lo"])
    assert widths.max() < 0.8
    assert result.summary["worth"].min() > 40
    assert result.per_query["query"].n_unique() == 60  # under human labels
    assert result.judge.per_query.height == 160
    assert result["nDCG@5"] == result.summary["mean"][0]
    assert "lambda" in repr(result)


def test_the_judge_may_have_a_column_of_the_same_table():
    both = JUDGE.rename({"rel": "gpt"}).join(
        HUMAN.rename({"rel": "ann"}), on=["query", "item"], how="left"
    )
    result = evaluate(human=both, judge=both, rel="ann", judge_rel="gpt")
    assert result.summary.equals(evaluate().summary)
    assert result.meta.call["options"]["judge_rel"] == "gpt"
    columns = "qrels: rel = ann; judge: rel = gpt; not read: gpt (qrels), ann (judge)"
    assert f"Columns: {columns}" in repr(result)
    with pytest.raises(RankqlError, match="Pass judge="):
        evaluate(human=both, judge=None, rel="ann", judge_rel="gpt")


def test_means_of_several_systems_have_their_intervals():
    result = evaluate(run={"a": RUN, "b": RUN.with_columns(pl.col("score") * -1)})
    assert result.table.equals(result.summary)
    assert "lo" in repr(result).split("\n")[0]


def test_a_useless_judge_changes_nothing():
    alone = evaluate("P@3", judge=None).summary.row(0, named=True)
    row = evaluate("P@3", judge=JUDGE.with_columns(rel=1)).summary.row(0, named=True)
    assert row["lambda"] == 0
    assert {name: row[name] for name in alone} == alone


def near_one(seed):
    """P@1 of 300 queries, 60 of them with human labels; the judge errs for one in twenty."""
    rng = np.random.default_rng(seed)
    people = (rng.random(300) < 0.95).astype(int)
    grades = {"human": people, "judge": np.where(rng.random(300) < 0.05, 1 - people, people)}
    keys = pl.DataFrame({"query": [f"q{i:03}" for i in range(300)], "item": "d"})
    labels = {name: keys.with_columns(rel=pl.Series(x)) for name, x in grades.items()}
    return {"run": keys.with_columns(score=1.0), **labels, "human": labels["human"].head(60)}


@pytest.mark.slow
@few(1)(("seed", "used"), [(3, False), (10, True)])
def test_means_do_not_depend_on_confidence_or_interval(seed, used):
    """At 95%, the corrected interval of one is wider, as it is of the other at 99% only."""
    tables = near_one(seed)
    alone = evaluate("P@1", **tables | {"judge": None})
    rows = [
        evaluate("P@1", **tables, confidence=confidence, interval=interval).summary
        for confidence, interval in [(0.8, "auto"), (0.95, "auto"), (0.99, "auto"), (0.95, "t"),
                                     (0.95, None)]
    ]  # fmt: skip
    for row in rows:
        assert row["mean"].equals(rows[0]["mean"]) and row["lambda"].equals(rows[0]["lambda"])
    assert (rows[0]["lambda"].item() > 0) == used == (rows[0]["mean"].item() != alone["P@1"])
    result = evaluate("P@1", **tables)
    assert any("(lambda 0): 1 of 1 mean" in note for note in result.remarks()) != used
    if not used:
        row, plain = result.summary.row(0, named=True), alone.summary.row(0, named=True)
        assert {name: row[name] for name in plain} == plain
        assert row["worth"] == row["queries"] == 60


def test_fewer_other_queries_than_human_ones_do_not_correct():
    human, alone = HUMAN["query"].unique(), evaluate("P@3", judge=None).summary
    others = JUDGE.filter(~pl.col("query").is_in(human.implode()))["query"].unique().sort()
    for count, corrects in ((59, False), (60, True)):
        judge = of_queries(JUDGE, pl.concat([human, others.head(count)]).implode())
        result = evaluate("P@3", judge=judge)
        assert (result.summary["lambda"].item() > 0) == corrects
        assert (result.summary["mean"].item() != alone["mean"].item()) == corrects
        few = "The judge has labelled 59 queries without human labels, fewer than the 60 with them"
        assert result.notes[0].startswith(few) != corrects
        assert result.notes[0].endswith("Let it label at least 60") != corrects


def test_clusters_count_where_they_are_few():
    options = {"attributes": ABOUT, "cluster": "lang"}
    clustered, plain = evaluate("P@3", **options), evaluate("P@3")
    uncorrected = "Too few human queries or clusters"
    assert uncorrected in repr(clustered) and uncorrected not in repr(plain)
    for result, what in ((clustered, "clusters"), (plain, "human")):
        assert any(note.startswith(f"With fewer than 200 {what}") for note in result.notes)


@pytest.mark.slow
def test_slices_systems_and_weights():
    options = {"attributes": ABOUT, "weight": "traffic", "interval": "t"}
    runs = {"one": RUN, "other": RUN.with_columns(score=-pl.col("score"))}
    result = evaluate(run=runs, by="lang", **options)
    assert result.summary.height == 2 * 3 * 2
    weights = ABOUT.sort("query").select("query", pl.col("traffic").cast(float))
    weights = [weights.join(HUMAN, on="query", how=x)["traffic"] for x in ("semi", "anti")]
    expected = corrected(*arrays("P@3"), weights=tuple(x.to_numpy() for x in weights))
    row = result.summary.filter(system="one", slice="all", metric="P@3").row(0, named=True)
    assert row["mean"] == pytest.approx(expected.mean)
    assert row["hi"] - row["lo"] == pytest.approx(2 * half_width(expected))
    german = ABOUT.filter(lang="de")["query"].implode()
    tables = {"human": of_queries(HUMAN, german), "judge": of_queries(JUDGE, german)}
    alone = evaluate(**tables, **options).summary["mean"].to_list()
    rows = result.summary.filter(system="one", slice="lang=de")
    assert rows["mean"].to_list() == pytest.approx(alone)


def test_a_slice_of_few_human_queries_is_not_corrected():
    run, human, judge, about = simulated(labelled=30)
    tables = {"run": run, "human": human, "attributes": about, "by": "lang"}
    result, alone = (evaluate("P@3", judge=x, **tables) for x in (judge, None))
    small = result.summary.filter(pl.col("queries") < 20)
    assert small.height == small["lambda"].null_count() >= 1
    expected = alone.summary.filter(pl.col("queries") < 20)
    assert small.select(expected.columns).equals(expected)
    assert "does not correct" in result.remarks()[-1]


@pytest.mark.slow
def test_ids_of_different_types():
    run, human, judge = (
        x.with_columns(pl.col("query").str.slice(1).cast(int)) for x in (RUN, HUMAN, JUDGE)
    )
    text = judge.with_columns(pl.col("query").cast(str))
    numbers, mixed = (evaluate(run=run, human=human, judge=x)["P@3"] for x in (judge, text))
    assert mixed == pytest.approx(numbers)


def test_labels_that_are_no_random_sample_or_of_one_only_are_noted():
    values = evaluate("nDCG@5", human=JUDGE, judge=None).per_query.sort("nDCG@5")
    best = of_queries(JUDGE, values["query"].tail(30).implode())
    notes = [" ".join(evaluate("nDCG@5", human=x).notes) for x in (HUMAN, best, HUMAN.slice(1))]
    assert ["not a random sample" in note for note in notes] == [False, True, False]
    assert ["1 of 720" in note for note in notes] == [False, False, True]


def test_two_scales_of_labels_are_noted():
    """0 and 1 next to 0 to 3: a perfect judge would miss the relevant items below 3."""
    yes = pl.col("rel").ge(2).cast(pl.Int64)
    note = "people from 0 to 1 and the judge from 0 to 3: these are two scales"
    for human, judge, noted in (
        (HUMAN.with_columns(yes), JUDGE, True),
        (HUMAN, JUDGE, False),
        (HUMAN.with_columns(yes), JUDGE.with_columns(yes), False),
    ):
        notes = " ".join(evaluate("P@3", human=human, judge=judge).notes)
        agreement = " ".join(rankql.judges(judge, human).notes)
        assert (note in notes) == noted == ("these are two scales" in agreement)


def test_queries_of_the_run_without_any_label_are_noted():
    more = pl.concat([RUN, RUN.head(12).with_columns(query=pl.lit("other"))])
    plain, result = (evaluate("P@3", run=run) for run in (RUN, more))
    assert not [note for note in plain.notes if "left out" in note]
    (note,) = [note for note in result.notes if "left out" in note]
    assert note == "Queries: 1 of 161 not judged and left out ('other')"
    assert plain.summary.equals(result.summary)


NINE = [f"q{i:03}" for i in range(9)]


test_refusals = refuses("judge", globals(), "evaluate(%s)")
