"""The text of every error of explain, check, funnel and monitor, once."""

from datetime import date, timedelta

import duckdb
import polars as pl
import pytest

from rankql import explain, funnel, monitor
from support import metric_engines
from support.parameters import few
from support.refusals import refuses

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


test_messages = refuses("diagnostics", globals(), light=9)


@few(4)("engine", ["sql", "polars"])
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
