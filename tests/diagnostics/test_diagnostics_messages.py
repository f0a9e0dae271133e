"""The text of every error of explain, check, funnel and monitor, once."""

from datetime import date, timedelta

import duckdb
import polars as pl
import pytest

from rankql import RankqlError, check, explain, funnel, monitor
from support import metric_engines
from support.parameters import few

RUN = pl.DataFrame({"query": [*["q"] * 5, "not judged"], "item": [*"xedana"]})
RUN = RUN.with_columns(score=-pl.int_range(pl.len()).cast(pl.Float64))
QRELS = {"q": {"a": 0, "c": 3, "d": 2, "e": 1}, "missing": {"a": 1}}
FRAME = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "pos": [1, 2]})
JUDGED = FRAME.select("query", "item", rel=1)
DAYS = pl.DataFrame({"day": [date(2026, 9, 1) + timedelta(day) for day in range(45)]})
DAYS = DAYS.join(pl.DataFrame({"query": range(12), "item": "x", "rel": 1, "pos": 1}), how="cross")


def of(metric="nDCG@3", query="q", **options):
    return explain(RUN, QRELS, query, metric, **options)


def stages(first, **options):
    return funnel({"first": first, "rank": FRAME}, JUDGED, **options)


def days(frame=DAYS, **options):
    return monitor(frame, **{"metrics": "nDCG@3", **options})


MESSAGES = [
    (lambda: of("Bpref"), "explain does not support Bpref, which is not a sum over positions. Use"),
    (lambda: of("IDCG"), "explain does not support IDCG"),
    (lambda: of("mine = sum(rel)"), "explain does not support mine"),
    (lambda: of("nDCG@5,10"), "explain takes one metric, not 2: nDCG@5, nDCG@10"),
    (lambda: of(ties="expected"), "explain does not support ties='expected', which gives items no"),
    (lambda: of(conventions="sklearn"), "explain does not support ties='expected'"),
    (lambda: of(worst=0), "worst must be a whole number from 1, not 0"),
    (lambda: of(query="mising"), "Unknown query 'mising': qrels has no rows for it. Select"),
    (lambda: of(query="not judged"), "Query 'not judged' is not judged"),
    (lambda: explain({"one": RUN, "two": RUN}, QRELS, "q"), "There are 2 systems. Pass the run of"),
    (lambda: explain(FRAME.drop("item").with_columns(rel=1), None, 1), "No item column in run"),
    (lambda: explain(JUDGED.with_columns(pos=1), None, 98), "Unknown query 98: run has no rows"),
    (lambda: check(FRAME, JUDGED, k=0), "k must be a whole number from 1 to 999998, not 0"),
    (lambda: funnel({}, JUDGED), "stages must be a dict of name: table, or a list of tables, at"),
    (lambda: funnel("final", JUDGED), "stages must be a dict of name: table, or a list of tables"),
    (lambda: funnel({"order": FRAME}, JUDGED), "The name 'order' is taken"),
    (lambda: funnel([FRAME.drop("pos")], JUDGED), "No score column in stage 'stage 1'"),
    (lambda: stages(FRAME.drop("item")), "No item column in stage 'first'"),
    (lambda: stages(FRAME, collapse="#"), "no id of the run contains '#'"),
    (lambda: funnel({"first": FRAME, "rank": FRAME}), "The judgments are missing. Pass qrels="),
    (lambda: stages(FRAME, missing="skip"), "funnel has no option missing="),
    (lambda: days(DAYS.drop("day")), "days has no column 'day'. Name one column: day="),
    (lambda: days(day=3), "days has no column 3"),
    (lambda: days(DAYS.with_columns(pl.col("day").to_physical())), "day must be a date such as 2"),
    (lambda: days(DAYS.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC")))),
     "days: day has times with a zone, of which the day is not known. Pass day="),
    (lambda: days(DAYS.with_columns(day=pl.format("on {}", "day"))), "days: day must be a date"),
    (lambda: days(baseline=45), "No metric can be watched: pass days after the baseline"),
    (lambda: days(baseline=12), "2026-09-12, and in it five weekdays three times each"),
    (lambda: days(period="week"), "No metric can be watched: pass weeks after the baseline"),
    (lambda: days(period="month"), "period must be 'day' or 'week', not 'month'"),
    (lambda: days(baseline="2026-09"), "must be a number of days or a period such as"),
    (lambda: days(baseline=10**12), "not '1000000000000'"),
    (lambda: days(DAYS.rename({"query": "asked"})),
     "has no column 'query'. Name one column: query=. Found: day, asked"),
    (lambda: days(states="folder"), "Unknown option 'states'."),
]  # fmt: skip


@few(9)("call, message", MESSAGES, ids=[message for _, message in MESSAGES])
def test_messages(call, message):
    with pytest.raises(RankqlError) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value)


@few(7)("engine", ["sql", "polars"])
@pytest.mark.parametrize(
    ("metric", "group", "options", "message"),
    [
        *((metric, group, options, message) for metric in ("tau_ap", "rbo")
          for group, options, message in (
              ([(1, 1), (1, 2)], {}, "reference must not be the same for two items of a group"),
              ([(1, 1), (2, 1)], {}, "pos must not be the same for two items of a group"),
              ([(0, 1)], {}, "reference must be a whole number from 1, not 0"),
              ([(1, -1)], {}, "pos must be a whole number from 1, not -1"),
              ([(1, 1)], {"k": 0}, "k must be a whole number from 1"))),
        ("rbo", [(1, 1)], {"p": None}, "p must be given: the probability of looking at the next"),
        ("rbo", [(1, 1)], {"p": 1}, "p must lie between 0 and 1, not 1"),
        ("rbo", [(1, 1)], {"bound": "most"}, "bound must be 'ext', 'min', 'max' or 'residual', no"),
    ],
)  # fmt: skip
def test_messages_of_metrics_of_two_rankings(metric, group, options, message, engine):
    options = {"p": 0.9, **options} if metric == "rbo" else options
    run = metric_engines.ENGINES[engine].run
    assert metric_engines.complaint(lambda: run(metric, [group], options)).startswith(message)


@few(2)(
    ("rows", "options", "message"),
    [
        ([[0.1, "a", 1]] * 2, "", "day 2026-09-01 occurs twice. Name the column of the series"),
        ([[0.1, "a", 1]] * 2, ", series := 's'", "2026-09-01 occurs twice in the series a"),
        ([[0.1, "a", -1]], ", error := 'error'", "error must not be negative, not -1"),
        ([[0.1, "a", 1]], ", period := 'month'", "period must be 'day' or 'week', not month"),
        ([[0.1, "a", 1]], ", baseline := NULL", "baseline must be the last day of the baseline"),
    ],
)
def test_messages_of_monitor_days(rows, options, message):
    con = metric_engines.connect()
    daily = pl.DataFrame(rows, ["value", "s", "error"], orient="row")
    con.register("daily", daily.with_columns(day=date(2026, 9, 1)))
    last = "" if "baseline" in options else ", DATE '2026-09-28'"
    with pytest.raises(duckdb.ConversionException, match=message):
        con.execute(f"FROM monitor_days('daily'{last}{options})").fetchall()
