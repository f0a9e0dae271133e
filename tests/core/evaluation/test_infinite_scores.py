"""Scores of +inf: padding is left out, several items of a query are an error, one stays on top."""

import math

import duckdb
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import crossed, few

INF = math.inf
RUN = [("q1", "b", 0.8), ("q1", "d", 0.9), ("q2", "c", 0.7)]
QRELS = pl.DataFrame({"query": ["q1", "q2"], "item": ["b", "c"], "rel": [1, 1]})
PADDING = "run: 2 items -1 or NULL with an infinite score left out as padding"
CALL = "if(isfinite(score), score, NULL)"


def frame(*rows, head="query item score"):
    return pl.DataFrame([*rows], schema=head.split(), orient="row")


def evaluate(run, form, folder, qrels=QRELS, **options):
    """The means and notes of a run in a form: a frame, files, or tables of a database."""
    con = None
    if form == "tables":
        con = duckdb.connect()
        con.sql("CREATE TABLE a_run AS FROM run; CREATE TABLE judged AS FROM qrels")
        run, qrels = "a_run", "judged"
    elif form != "frames":
        for name, data in (("run", run), ("qrels", qrels)):
            getattr(data, f"write_{form}")(folder / f"{name}.{form}")
        run, qrels = folder / f"run.{form}", folder / f"qrels.{form}"
    result = rankql.evaluate(run, qrels, "RR", interval=None, con=con, **options)
    return result.summary["mean"].to_list(), [str(x) for x in result.notes]


FORMS = ["frames", "parquet", "csv", "tables"]


NUMBERS = [("q1", -1, INF), ("q1", None, INF), ("q1", 1, 0.8), ("q1", 4, 0.9), ("q2", 3, 0.7)]
DISTANCES = frame(*NUMBERS[:1], *NUMBERS[2:], head="query item distance")
CASES = {
    "no id: text": (frame(*[("q1", "-1", INF)] * 2, *RUN), 0.75, [PADDING]),
    "no id: NULL": (frame(*[("q1", None, INF)] * 2, *RUN), 0.75, [PADDING]),
    "no id: number": (frame(*NUMBERS), 0.75, [PADDING]),
    "no id: distance": (
        DISTANCES, 1, ["run: 1 item -1 or NULL with an infinite distance left out as padding"]
    ),
    "on top": (frame(("q1", "a", INF), ("q2", "x", INF), *RUN), (1 / 3 + 1 / 2) / 2, []),
}  # fmt: skip


@few(6)(("case", "form"), crossed([*CASES], FORMS, ["frames"]))
def test_infinite_scores_without_an_id_are_padding_and_others_on_top(case, form, tmp_path):
    run, mean, notes = CASES[case]
    ids = QRELS if run["item"].dtype == pl.String else QRELS.with_columns(item=pl.Series([1, 3]))
    assert evaluate(run, form, tmp_path, ids) == ([pytest.approx(mean)], notes)


@few(3)("form", FORMS)
def test_infinite_scores_of_several_items_are_refused(form, tmp_path):
    run = frame(("q1", "a", INF), ("q1", "x", INF), *RUN)
    with pytest.raises(RankqlError, match="run is infinite for several items") as error:
        evaluate(run, form, tmp_path)
    assert error.value.calls[0] == {"score": CALL}
    assert evaluate(run, form, tmp_path, score=CALL)[0] == [0.75]
    assert evaluate(run, form, tmp_path, descending=False) == ([1], [])
    lowest = run.with_columns(score=-pl.col("score"))
    assert evaluate(lowest, form, tmp_path, descending=False) == ([0.625], [])
    assert evaluate(run, form, tmp_path, ties="item") == ([0.625], [])  # the caller orders them


@few(3)("form", FORMS)
def test_systems_have_infinite_scores_of_their_own(form, tmp_path):
    both = [(name, *row) for name in "AB" for row in RUN]
    rows = [("A", "q1", "a", INF), ("B", "q1", "x", INF), *both]
    head = "system query item score"
    means = [pytest.approx((1 / 3 + 1) / 2)] * 2
    assert evaluate(frame(*rows, head=head), form, tmp_path, system="system") == (means, [])
    padded = frame(("B", "q1", "-1", INF), ("B", "q1", None, INF), *rows, head=head)
    assert evaluate(padded, form, tmp_path, system="system") == (means, [PADDING])
    several = frame(("B", "q1", "y", INF), *rows, head=head)
    with pytest.raises(RankqlError, match="score of run 'B' is infinite"):
        evaluate(several, form, tmp_path, system="system")


def test_dicts_and_explain_read_infinite_scores_alike():
    run = {"q1": {"-1": INF, "b": 0.8, "d": 0.9}, "q2": {"c": 0.7}}
    qrels = {"q1": {"b": 1}, "q2": {"c": 1}}
    assert rankql.evaluate(run, qrels, "RR", interval=None)["RR"] == 0.75
    explained = rankql.explain(run, qrels, "q1", "RR")
    assert explained.value == 0.5
    assert explained.positions["item"].to_list() == ["d", "b"]
    rows = rankql.compare({"x": run, "y": {**run, "q1": {"a": INF, "b": 1}}}, qrels, "RR").summary
    assert rows["mean"].to_list() == [0.75, 0.75]
    with pytest.raises(RankqlError, match="infinite for several"):
        rankql.explain({**run, "q1": {"a": INF, "b": INF}}, qrels, "q1", "RR")


def test_rows_without_an_id_and_with_a_score_stay_refused():
    run = frame(("q1", None, INF), ("q1", None, 0.3), *RUN)
    with pytest.raises(RankqlError, match="item is NULL in 1 of 4 rows"):
        rankql.evaluate(run, QRELS, "RR")
