"""Notes on grades that the default threshold may misread."""

import polars as pl
import pytest

import rankql

IDS = [(f"u{u}", f"i{i}") for u in range(40) for i in range(10)]
RUN = pl.DataFrame(IDS, schema=["query", "item"], orient="row").with_columns(
    score=pl.int_range(400).hash(1).cast(pl.Float64)
)
# 2.5% are below 1.
RATINGS = [0.5, *[1, 2, 3, 4, 5, 5, 4, 3] * 4, *[2, 3, 4, 3.5, 4.5, 5, 1.5]]


def judgments(grades):
    rel = (grades * 400)[:400]
    return RUN.select("query", "item", rel=pl.Series(rel, dtype=pl.Float64))


def notes(qrels, metrics="AP", run=RUN, **options):
    return rankql.evaluate(run, qrels, metrics, interval=None, **options).notes


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["frame", "csv", "alone", "integers"])
def test_ratings_ask_for_a_threshold(form, tmp_path):
    qrels, run = judgments(RATINGS), RUN
    if form == "csv":
        qrels.write_csv(tmp_path / "ratings.csv")
        qrels = tmp_path / "ratings.csv"
    if form == "integers":
        qrels = judgments([1, 2, 3, 4, 5]).cast({"rel": pl.Int64})
    if form == "alone":
        run, qrels = RUN.join(qrels, on=["query", "item"]), None
    part, least = ("100%", 1) if form == "integers" else ("98%", 0.5)
    (note,) = notes(qrels, ["P@5", "nDCG@5"], run)
    assert note == (
        f"{part} of judged items count as relevant (threshold 1, grades {least} to 5). "
        "For ratings pass threshold=, often 4"
    )
    (finding,) = [f for f in rankql.check(run, qrels).findings if f.kind == "ratings"]
    assert finding.message == note.partition(". For")[0]
    assert "pass threshold=, often 4" in finding.why
    assert notes(qrels, "nDCG@5", run) == notes(qrels, "P(rel=4)@5", run) == []
    for threshold in (1, 4):
        assert notes(qrels, "P@5", run, threshold=threshold) == []


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "grades",
    [
        [1, 2, 3],
        [0, 1, 2, 3, 4],
        [1],
        [1, 1, 1, 5],
        [1, 1, 1, 1, 1, 2, 3, 12, 40],  # counts
    ],
)
def test_other_grades_are_silent(grades):
    assert notes(judgments(grades), ["AP", "P@5"]) == []
    kinds = {finding.kind for finding in rankql.check(RUN, judgments(grades)).findings}
    assert "ratings" not in kinds


def test_grades_of_events_are_silent():
    events = ["buy", "cart", "click", "view", "view"] * 80
    qrels = RUN.select("query", "item", event=pl.Series(events))
    grades = {"buy": 5, "cart": 4, "click": 3, "view": 2}
    assert notes(qrels, rel=grades) == []
