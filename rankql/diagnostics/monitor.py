"""Did a metric get worse? Days or weeks against a baseline, with alarms that can be trusted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from inspect import signature
from typing import Any, Literal, NamedTuple, Unpack, cast

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import Question, RankqlError, normal_z, require
from rankql.core.base.results import TableResult, define_chart, draw_chart, drop_idle_columns
from rankql.core.base.text import join_some
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.macros import literal, quote
from rankql.core.metrics.parse import list_metrics, parse
from rankql.core.tables import request
from rankql.core.tables.reader import count_values, fetch_frame
from rankql.core.tables.request import EvaluationOptions
from rankql.core.tables.session import Session, open_session
from rankql.core.tables.tables import Data, require_named
from rankql.diagnostics import daily_values
from rankql.diagnostics.daily_values import (
    JUDGED,
    KEYS,
    LEAST_QUERIES,
    METRIC,
    QUERIES,
    SHARE,
    UNDEFINED,
    WATCHED,
)
from rankql.features.values import set_directions
from rankql.shapes.choose.computed import add_attribute

_BY_WEEK = re.compile(r"\s*date_trunc\(\s*'week'\s*,(.+)\)\s*", re.IGNORECASE)
# Options that name columns of rankings: a table that needs them has no values.
NO_VALUES = request.Columns.__annotations__.keys() - {"query", "user"}
# A series that is not compared keeps its state for so long. A result that compared nothing in so
# many periods is inconclusive.
KEPT, SILENT = timedelta(28), 7
# A baseline with a larger share of outlying days does not show what is usual: monitor_days.
LARGEST_OUTAGE = 0.25
# Fewer weeks show no drift.
LEAST_WEEKS = 4
# The limit of the mean of 7 days as a part of that of two days in a row: monitor_days.
WEEK_LIMIT = 2.2 / 3.6
# The displayed columns, and the number of alarms of which the last days are.
SHOWN = ("metric", "slice", "day", "mean", "lo", "hi", "queries", "expected", "limit")
SHOWN_ALARMS = 3
COMPARED = pl.col("alarm").is_not_null()
# What values by day do not have, because a row is not a query.
UNKNOWN = ("lo", "hi", "error", "queries")


class Period(NamedTuple):
    """What the means are of: days or weeks."""

    name: Literal["day", "week"]
    step: timedelta
    baseline: int  # by default, in periods
    kinds: int  # the fewest weekdays, which differ, in the baseline, as in sql/monitor.sql
    least: int  # of each of them
    need: str


PERIODS = {
    "day": Period("day", timedelta(1), 28, 5, 3, "five weekdays three times each"),
    "week": Period("week", timedelta(7), 12, 1, 8, "8 complete weeks"),
}


@dataclass(eq=False, repr=False)
class Monitoring(TableResult):
    """Metrics by day or week, what chance explains, and alarms. It is true without an active one.

    `table` has one row per day (or week), slice and series. `kind` is 'metric', 'judged share' (of
    items in the top k) or 'undefined share' (of queries). `mean` has the 95% interval `lo` to `hi`;
    `expected` is the median of the same weekday in the baseline, without `outlying` days. Two days
    in a row beyond the `limit` are an alarm. z_day and z_week are the losses of the day and of the
    last 7 days, in units of the spread of a day. An alarm is `held` until z_week is below half its
    limit. `alarms` has one row per alarm: its cause, 'drop', 'drift' or 'labels', when it began
    (`since`, about), the first and last day on which it is held, whether it is active, and the loss
    in its worst week; `loss_judged` is that on judged items alone, if their share fell too. An
    alarm is active if it was held when the series was last compared, at most 28 days before the
    last day of all. `states` has one row per series: the day on which it was last
    compared, and its state, 'alarm', 'fine', 'not compared' (on the last day), 'ended' (for 28
    days) or 'not watched' (never compared). `conventions` says how it was computed. `exit_code` is
    1 with an active alarm, 3 if no metric was compared on the last 7 days, otherwise 0.
    """

    table: pl.DataFrame
    alarms: pl.DataFrame
    conventions: dict[str, Any]
    notes: list[str]
    _details = ("passed", "conventions", "alarms")
    _page_chart = "draw_days"

    @property
    def active(self) -> pl.DataFrame:
        """The alarms that are on, on the last day or when their series was last compared."""
        return self.alarms.filter("active")

    @property
    def states(self) -> pl.DataFrame:
        """A row per series: when it was last compared, and its state."""
        newest = self._newest
        last = self.table.group_by(KEYS, maintain_order=True).agg(
            pl.max("day").alias("latest"), compared=pl.col("day").filter(COMPARED).max(),
            held=pl.col("held").filter(COMPARED).last())  # fmt: skip
        old = pl.coalesce("compared", "latest") < newest - KEPT
        words = (
            pl.when(old).then(pl.lit("ended"))
            .when(pl.col("compared").is_null()).then(pl.lit("not watched"))
            .when("held").then(pl.lit("alarm"))
            .when(pl.col("compared") < newest).then(pl.lit("not compared"))
            .otherwise(pl.lit("fine"))
        )  # fmt: skip
        return last.with_columns(state=words)

    @property
    def exit_code(self) -> int:
        """1 with an active alarm, 3 if no metric was compared on the last 7 days, otherwise 0."""
        if len(self.active):
            return 1
        last = self._last_compared
        return 0 if last and last > self._newest - SILENT * self._period.step else 3

    @property
    def _last_compared(self) -> date | None:
        """The last day on which a metric was compared."""
        last: date | None = self.states.filter(pl.col("kind") != UNDEFINED)["compared"].max()  # type: ignore[assignment]
        return last

    @property
    def passed(self) -> bool:
        """Was something compared, and is there no active alarm?"""
        return self.exit_code == 0

    def __bool__(self) -> bool:
        return self.passed

    @property
    def title(self) -> str:
        """The active alarms in one line, and the metrics that are not watched."""
        newest, active = self._newest, self.active.to_dicts()
        together = len({row["since"] for row in active}) == 1
        names = [
            f"{_name(row)} ({_name_cause(row)}" + (
                "" if together else f" since {row['since']}") + (
                ")" if row["last"] == newest else f", not compared on {newest})")
            for row in active
        ]  # fmt: skip
        first = f"No alarm on {newest}"
        if active:
            count = "Alarm" if len(active) == 1 else f"{len(active):,} alarms"
            first = f"{count} since {active[0]['since']}" if together else count
        elif self.exit_code == 3:
            first = f"Nothing was compared in the {SILENT} {self._period.name}s to {newest}"
        elif self._last_compared != newest:
            first = f"No alarm on {self._last_compared}; nothing was compared since"
        old = pl.col("latest") < newest - KEPT
        unwatched = pl.col("state").is_in(("not watched", "ended")) & (pl.col("kind") == METRIC)
        others = [*map(_name, self.states.filter(unwatched, ~old).to_dicts())]
        alarmed = f": {join_some(names)}" if names else ""
        unseen = f"; {len(others):,} not watched: {join_some(others)}" if others else ""
        return f"{first}{alarmed}{unseen}"

    @property
    def method(self) -> str:
        """The losses that raise an alarm, of the first metrics and slices."""
        band = (pl.col("expected") - pl.col("limit")).abs().filter(COMPARED).tail(SILENT).mean()
        series = self.table.filter(kind=METRIC).group_by(KEYS, maintain_order=True)
        rows = series.agg(loss=band * WEEK_LIMIT).drop_nulls().head(SHOWN_ALARMS).to_dicts()
        losses = [f"{row['loss']:.4f} of {_name(row)}" for row in rows]
        mean = f"in the mean of {SILENT} {self._period.name}s is an alarm"
        return f"a loss of {text.join_words(losses)} {mean}" if losses else ""

    @property
    def sentences(self) -> list[str]:
        """Each alarm in words, those that are on first."""
        alike = " on the same weekdays of" if self._period.name == "day" else " in"
        return [
            f"{text.escape_controls(_name(row))}: {_name_cause(row)} since about "
            f"{row['since']} (first alarm on "
            f"{row['first']}, last on {row['last']}"
            f"{', when it was last compared' * (row['active'] and row['last'] != self._newest)}). "
            f"{row['mean']:.4f} in its worst week instead of {row['expected']:.4f}"
            f"{alike} the baseline" + (
                "" if row["loss_judged"] is None else
                f". On judged items alone, it lost {row['loss_judged']:.4f}")
            for row in self.alarms.to_dicts()
        ]  # fmt: skip

    def displayed(self) -> list[pl.DataFrame]:
        """The last days of the first alarms and of the metrics, and the last one of each series."""
        main = (pl.col("slice") == "all") & (pl.col("kind") == METRIC)
        few = pl.col("place") < SHOWN_ALARMS
        end = pl.when(few).then("until").when(main).then(pl.max("day"))
        is_last = pl.col("day") == pl.col("latest")
        state = pl.when(is_last).then("state").when("held").then(pl.lit("alarm"))
        skipped = pl.col("alarm").is_null() & (pl.col("day") > pl.col("baseline"))
        word = state.when(skipped).then(pl.lit("not compared")).otherwise(pl.lit(""))
        word = word.replace("fine", "")
        frame = self._alarms_first().join(self.states.select(*KEYS, "latest", "state"), on=KEYS,
                                          maintain_order="left")  # fmt: skip
        shown = frame.filter(is_last | (pl.col("day") > end - SILENT * self._period.step))
        return [drop_idle_columns(shown.select(*SHOWN, alarm=word))]

    def _alarms_first(self) -> pl.DataFrame:
        """The table with the place of the active alarm of each series, and its last day."""
        alarms = self.active.select(*KEYS, until="last").with_row_index("place")
        frame = self.table.join(alarms, on=KEYS, how="left", maintain_order="left")
        return frame.sort("place", nulls_last=True, maintain_order=True)

    def plot(self) -> Any:
        """An altair chart by day or week with a panel per series, those with an alarm first.

        The line is the mean with its interval, the grey area what chance explains; alarms are
        orange.
        """
        return draw_chart(self._page_chart, self._alarms_first(), self._period.name)

    def _charts(self) -> tuple[list[Any], list[Any]]:
        """The series with an active alarm, over all queries or with another one, and the others."""
        charts: tuple[list[Any], list[Any]] = [], []
        for part in self._alarms_first().partition_by(KEYS, maintain_order=True):
            overall = part["slice"][0] == "all" and part["mean"].n_unique() > 1
            folded = not (overall or part["held"].any())
            charts[folded].append(define_chart(self._page_chart, part, self._period.name))
        return charts

    def _assumptions(self) -> list[text.Note]:
        day = self.conventions["day"]
        return [text.Note(f"day = {day}", heading="Columns")] * (day != "day")

    @property
    def _newest(self) -> date:
        newest: date = self.table["day"].to_list()[-1]
        return newest

    @property
    def _period(self) -> Period:
        return PERIODS[self.conventions["period"]]


def _name(row: Mapping[str, Any]) -> str:
    return text.add_slice(row["metric"], row["slice"], brackets=True)


@remember_inputs
def monitor(
    days: Data, qrels: Data | None = None, metrics: str | Sequence[str] | None = None, *,
    higher_is_better: bool | Mapping[str, bool] | None = None, day: str = "day",
    period: Literal["day", "week"] | None = None, baseline: int | str | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None, con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> Monitoring:  # fmt: skip
    """Watch metrics by day or week: was there a sudden drop, a slow drift, or do labels age?

    Watched are the metrics, the judged share of their top k if items are unjudged, and the share of
    undefined queries, each by slice; a note says if the number of queries changed. Each day is
    compared with the median of the same weekday in the baseline. An alarm is a day that is far
    worse, two bad days in a row, or a bad mean of 7 days, compared with how much weekdays or
    weekends vary in the baseline. It holds until the mean of 7 days is below half its limit. Days
    of the baseline that lie outside are named and left out. The limits come from simulations, in
    which at most 5% of years have a false alarm if days are independent with tails of at most
    Student's t with 5 degrees of freedom, or normal with a correlation of neighbouring days of at
    most 0.4. A series that is not compared on the last day, such as a slice with less than 10
    queries, keeps its alarm for 28 days.

    Parameters
    ----------
    days : path, table or frame
        A run, or a ranked table with rel, with a column of days, such as
        'day=2026-11-*/*.parquet'. Or values of your own: the day, numbers, and the query if a day
        has a row per query.
    qrels : table, optional
        Judgments for all days, or with a column of days too.

        Judged queries that a day does not have are left out unless qrels has the day.
    metrics : str or list of str
        Metrics to watch: by default nDCG@10, or all numbers of a table of values.
    higher_is_better : bool or dict, optional
        Direction of values and metrics of your own: True, False or a dict of name: bool. By
        default, higher is assumed to be better, and the print says so.
    day : str
        Column or folders of the day; by default `day`, `date` or the only column of times. A
        timestamp without a zone is cut to its date.
    period : str, optional
        What to compare: "day" or "week". "week" pools the queries of days. By default days, or
        weeks if all have the same weekday.
    baseline : int or str, optional
        Periods to compare with: 12 weeks, another number, or dates such as 2026-09-01:2026-09-28.
        By default the first 28 days, which grow to 84 by weeks without an alarm while 28 follow,
        of each series on its own.
    by, attributes, con, **options
        As in `evaluate`.

    Examples
    --------
    >>> import polars as pl
    >>> from datetime import date, timedelta
    >>> rows = [(date(2026, 9, 1) + timedelta(d), q, (q * 7 + d) % 5 + 3 * (d > 35))
    ...         for d in range(40) for q in range(1, 41)]
    >>> log = pl.DataFrame(rows, schema=["day", "query", "pos"], orient="row")
    >>> log = log.with_columns(item=pl.lit("x"), rel=1, pos=pl.col("pos") + 1)
    >>> print(monitor(log, metrics="RR@10").title)
    Alarm since 2026-10-07: RR@10 (sudden drop)
    """
    for name in ("system", "interval", "confidence", "output", "judge"):
        require(name not in options, f"monitor does not take {name}=. Pass the days of one system, "
                "and leave it out")  # fmt: skip
    require(period in (None, *PERIODS), f"period must be 'day' or 'week', not {period!r}")
    request.require_known_options(options, monitor, more=signature(evaluate).parameters)
    metrics = [metrics] if isinstance(metrics, str) else metrics
    named = isinstance(metrics, Sequence | Mapping | None)
    require(named, f"metrics must be names such as 'nDCG@10', not {metrics!r}")
    with open_session(con, days, qrels, attributes) as session:
        run = session.table(days, "days")
        if isinstance(day, str):
            day = daily_values.find_written_day(run, day) or day
            # The same query on two days of a week is two.
            if by_week := _BY_WEEK.fullmatch(day):
                day, period = f"CAST({by_week[1]} AS DATE)", period or "week"
            ((run,),) = add_attribute(session, day, "day", [[run]])
        query: Any = options.get("query") or options.get("user") or run.find("query") or "query"
        groups, values, notes = request.parse_groupings(by), list[str](), list[str]()
        if day == "day" and not run.has("day"):
            times = ["date"] if run.has("date") else daily_values.find_times(run)
            day = run.actual_name(times[0]) if len(times) == 1 else day
        used = [day, query, *itertools.chain(*groups)]
        is_plain = qrels is attributes is None and not options.keys() & NO_VALUES
        if is_plain and not isinstance(metrics, Mapping) and all(isinstance(x, str) for x in used):
            values = daily_values.find_daily_values(run, used, metrics or [])
        needed = [(day, "day")] + [(query, "query")] * ("query" in options or not values)
        for name, role in needed:
            if not (isinstance(name, str) and run.has(name)):
                if role == "query" and role not in options:
                    daily_values.ask_about_days(run, day, qrels, metrics, options)
                lacks = f"days has no column {name!r}"
                raise Question(lacks, blanks={role: "..."}, found=run.own_columns)
        for name in options.keys() - {"query"} if values else ():
            columns = text.join_words(values)
            raise RankqlError(f"{name}= is for rankings: days has values, {columns}. Leave it out")
        day = run.actual_name(day)
        run, read = daily_values.cut_to_day(run, day)
        total, filled = count_values(run, [day])
        if lacking := total - filled[day]:
            notes.append(f"{day} is NULL in {text.format_count(lacking, 'row')}: left out")
            run = replace(run, sql=f"(SELECT * FROM {run.sql} WHERE {quote(day)} IS NOT NULL)")
        unit, shares, is_query = day, list[str](), True
        if values:
            weekly = period == "week"
            result, is_query = daily_values.read_daily_values(
                run, values, day, query, groups, weekly
            )
        else:
            query = run.actual_name(query)
            names = list_metrics(metrics or ("nDCG@10",))
            sources = {"qrels": qrels, "attributes": attributes}
            tables = {x: daily_values.add_day(session.table(source, x), run, day, query)
                      for x, source in sources.items() if source is not None}  # fmt: skip
            shares = [*dict.fromkeys(daily_values.share_name(x.name) for x in parse(names))]
            if qrels is None and (rel := run.find("rel", options.get("rel"))):
                total, filled = count_values(run, [rel])
                shares = [] if filled[rel] == total else shares  # all items are judged
            if period == "week":
                unit = daily_values.WEEK
                week = f"CAST(date_trunc('week', CAST({quote(day)} AS DATE)) AS DATE)"
                run, *others = (table.with_column(unit, week, "DATE", (day,))
                                for table in (run, *tables.values()))  # fmt: skip
                tables = dict(zip(tables, others, strict=True))
            by = [[unit], *([unit, *group] for group in groups)]
            inputs: dict[str, Any] = {"run": run, **tables, **options, "by": by}
            inputs |= {"con": session.con, "query": [day, query]}
            result = evaluate(metrics=[*names, *shares], **inputs)
            require_named(result.columns)
        result = set_directions(result, higher_is_better)
        daily = daily_values.read_means(result, len(unit))
        if not is_query:  # the values have no error, so only the days say how much they vary
            unknown = (pl.lit(None, daily[x].dtype).alias(x) for x in UNKNOWN)
            daily = daily.filter(kind=METRIC).with_columns(*unknown, days="queries")
        if shares:
            judged = evaluate(metrics=names, **inputs | {"unjudged": "remove"})
            only = daily_values.read_means(judged, len(unit))
            only = only.filter(kind=METRIC).with_columns(kind=pl.lit(JUDGED))
            daily = pl.concat([daily, only])
        if period != "week":
            daily, incomplete = daily_values.drop_incomplete_day(daily)
            notes += incomplete
        require(daily["day"].null_count() == 0, f"days: {day} must be a date such as 2026-11-03. "
                f"It is {run.columns[day]}: cast it to DATE")  # fmt: skip
        result = replace(result, data_notes=[*notes, *result.data_notes])
        return _watch(session, result, daily, read, period, baseline)


def _watch(
    session: Session, result: Result, daily: pl.DataFrame, read: str, period: Any, baseline: Any
) -> Monitoring:
    """Compare the days with those of the baseline; alarms are NULL on those not compared."""
    daily = daily.sort("day", maintain_order=True).with_columns(complete=pl.lit(True))
    if period == "week":
        daily = daily_values.find_complete_weeks(daily, result)
    days = daily["day"].unique()
    months = len(days) > 2 and (days.dt.day() == 1).all()
    require(period == "week" or not months, "day= has months, which are too few to compare. Pass "
            "days with period='week'")  # fmt: skip
    of_weeks = len(days) > 1 and days.dt.weekday().n_unique() == 1
    units = PERIODS["week" if period == "week" or of_weeks else "day"]
    complete = daily.filter("complete")["day"]
    first, last = _find_baseline(complete, str(baseline or units.baseline), units)
    signs = {name: {True: 1.0, False: -1.0, None: None}[result.higher_is_better(name)]
             for name in result.metrics} | {UNDEFINED: -1.0}  # fmt: skip
    sign = pl.col("metric").replace_strict(signs, default=1.0, return_dtype=pl.Float64)
    sign = pl.when(kind=SHARE).then(1.0).otherwise(sign)
    series = pl.concat_str(KEYS, separator="\x1f").alias("series")
    daily = daily.filter(pl.col("day") >= first).with_columns(series)
    known = daily.filter(pl.col("queries").fill_null(LEAST_QUERIES) >= LEAST_QUERIES, "complete")
    known = known.select("day", "series", "error", value=pl.col("mean") * sign)
    known = known.drop_nulls("value")
    # The macro refuses a baseline that is too short for all series.
    old = known.filter(pl.col("day") <= last).partition_by("series")
    is_watched = any(_has_each(part["day"], units) for part in old)
    source = literal(session.table(known, "daily").sql)
    grow = baseline is None and units.name == "day" and is_watched
    until = last if is_watched else date.max
    rule = (f"{source}, DATE '{until}', series := 'series', error := 'error', "
            f"period := '{units.name}', grow := {grow}")  # fmt: skip
    scored = fetch_frame(session, f"FROM monitor_days({rule})").drop("value")
    if not is_watched:  # nothing is expected
        scored = scored.with_columns(
            expected=pl.lit(None, pl.Float64), outlying=pl.lit(None, pl.Boolean))  # fmt: skip
    scored = daily.join(scored, on=["series", "day"], how="left", maintain_order="left")
    own = pl.col("baseline").max().over("series") if grow else None  # a series may have no value
    scored = scored.with_columns(baseline=pl.coalesce(own, pl.lit(last)))
    limit = (pl.col("expected") - pl.col("band")) * sign
    scored = scored.with_columns(pl.col("expected") * sign, limit=limit)
    alarms = _find_alarms(scored, units)
    others = ("z_day", "z_week", "outlying", "alarm", "held", "baseline")
    table = scored.filter(pl.col("kind").is_in(WATCHED))
    table = table.select(*SHOWN[:2], "kind", *SHOWN[2:], *others)
    compared = table.filter(COMPARED)
    ends = compared.group_by(KEYS, maintain_order=True).agg(pl.first("baseline"))
    last = cast("date", ends["baseline"].mode().max() or last)
    conventions = {**result.conventions, "day": read, "period": units.name,
                   "baseline": [str(first), str(last)]}  # fmt: skip
    ends = ends.filter(pl.col("baseline") != last)
    notes = [*_describe(scored, first, last, units, ends.to_dicts()), *result.data_notes]
    return Monitoring(table, alarms, conventions, notes)


def _find_baseline(days: pl.Series, baseline: str, period: Period) -> tuple[date, date]:
    """The first and last day of the baseline, of which the days must be enough."""
    try:
        length = int(baseline) * period.step if baseline.isdecimal() else None
        first, last = ((days[0], days[0] + length - timedelta(1)) if length else
                       map(date.fromisoformat, baseline.split(":")))  # fmt: skip
    except (ValueError, OverflowError):
        raise RankqlError(
            f"baseline= must be a number of {period.name}s or a "
            f"period such as '2026-09-01:2026-09-28', not {baseline!r}"
        ) from None
    old = days.unique().to_frame().filter(pl.col("day").is_between(first, last))["day"]
    require(_has_each(old, period) and days[-1] > last, "No metric can be watched: pass "
            f"{period.name}s after the baseline, {first} to {last}, and in it {period.need}. There "
            f"are {period.name}s from {days[0]} to {days[-1]}")  # fmt: skip
    return first, last


def _has_each(days: pl.Series, period: Period) -> bool:
    """Are there enough days of the baseline of each kind?"""
    counts = days.dt.weekday().value_counts()["count"]
    return (counts >= period.least).sum() >= period.kinds


def _find_alarms(scored: pl.DataFrame, period: Period) -> pl.DataFrame:
    """One row per alarm: the days, without a pause of seven, on which a series is alarmed."""
    series, rows = dict(scored.group_by(KEYS)), []
    schema = {**dict.fromkeys([*KEYS, "cause"], pl.String), "active": pl.Boolean,
              **dict.fromkeys(["since", "first", "last"], pl.Date),
              **dict.fromkeys(["mean", "expected", "loss", "loss_judged"], pl.Float64)}  # fmt: skip
    alarmed = scored.filter("held", pl.col("kind").is_in(WATCHED))
    pause = (pl.col("day").diff() > 7 * period.step).fill_null(True)
    runs = pause.cum_sum().over(KEYS).alias("run")
    for (*key, _), run in alarmed.group_by([*KEYS, runs], maintain_order=True):
        (part, metric, kind), first, last = map(str, key), run["day"][0], run["day"][-1]
        peak = run.sort("z_week", "z_day", nulls_last=False)["day"][-1]
        frame = series[part, metric, kind]
        share = series.get((part, daily_values.share_name(metric), SHARE))
        # Fit a step and a ramp to the days from each possible start on, by least squares.
        back = frame.filter(pl.col("day") <= peak, ~pl.col("outlying"))
        back = back.drop_nulls("loss").tail(182).reverse()
        loss, total, n = pl.col("loss"), pl.col("loss").cum_sum(), pl.int_range(1, pl.len() + 1)
        step, ramp = total**2 / n, total.cum_sum() ** 2 / (n * (n + 1) * (2 * n + 1) / 6)
        if period.name == "week":  # its first week has a part of a drop, which is no drift
            later = (total - loss) / (n - 1)
            is_part = (n > 1) & loss.is_between(later / 4, later)
            begun = pl.when(is_part).then(later**2 * (n - 1) + loss**2)
            step, ramp = pl.max_horizontal(step, begun), (n >= LEAST_WEEKS) * ramp
        fits = back.select("day", drop=(total > 0) * step, drift=(total > 0) * ramp)
        (since, cause), start = fits.unpivot(index="day").sort("value").row(-1)[:2], first
        if len(run) == 1:  # of that day, or of the week before it
            start, cause = since, cause if since < peak else "drop"
        week = pl.col("day").is_between(max(start, peak - 6 * period.step), peak)
        week &= COMPARED
        means = frame.filter(week).select(pl.mean("mean", "expected", "loss")).row(0)
        unjudged = kind == METRIC and share is not None and share.filter(week)["held"].any()
        only = series.get((part, metric, JUDGED), frame).filter(week)["loss"]
        lost = only.mean() or 0.0 if unjudged else None
        if kind == SHARE or (lost is not None and lost < means[-1] / 2):
            cause = "labels"
        compared = frame.drop_nulls("alarm")["day"][-1]
        active = last == compared >= scored["day"][-1] - KEPT
        rows.append((part, metric, kind, cause, active, min(since, first), first, last, *means,
                     lost))  # fmt: skip
    rank = pl.col("kind").replace_strict(WATCHED, [0, 1, 2])
    return pl.DataFrame(rows, schema, orient="row").sort(~pl.col("active"), rank, "first", *KEYS)


def _name_cause(row: Mapping[str, Any]) -> str:
    """The cause of an alarm in words. A metric for which lower is better does not drop."""
    drop = "sudden rise" if row["mean"] > row["expected"] else "sudden drop"
    return {"drift": "slow drift", "labels": "unjudged items"}.get(row["cause"], drop)


def _describe(
    scored: pl.DataFrame, first: date, last: date, period: Period, ends: list[dict[str, Any]]
) -> Iterator[str]:
    """Notes on the baseline, the alarms, and series that are not compared.

    ends: the series of which the baseline has another last day.
    """
    newest, watched = scored["day"][-1], scored.filter(pl.col("kind").is_in(WATCHED))
    unit = period.name
    yield (
        f"Baseline: {first} to {last}; there are {scored['day'].n_unique():,} {unit}s to "
        f"{newest}. To keep it when you add {unit}s, pass this period as baseline="
    )
    if ends:
        others = join_some([f"{_name(row)} on {row['baseline']}" for row in ends])
        yield (f"Baselines that end on another day, before a change: {others}. Pass baseline= to "
               "set one for all")  # fmt: skip
    series = watched.select(KEYS).unique(maintain_order=True)
    # The mean of the seventh day is then beyond its limit, however chance lifts nine of ten weeks.
    seen = pl.col("band") * WEEK_LIMIT + pl.col("spread") * normal_z(0.8) / SILENT**0.5
    metrics = watched.filter(kind=METRIC).group_by(KEYS, maintain_order=True)
    losses = metrics.agg(loss=seen.filter(COMPARED).mean()).drop_nulls()
    price = (max(3, len(series)) / 3) ** 0.125
    for row in losses.head(1).to_dicts():
        shared = (
            f". {len(series)} series share the promise: up to 3 would need {1 - 1 / price:.0%} less"
        )
        yield (f"A loss that lasts is seen within {SILENT} {unit}s in 9 of 10 cases from "
               f"{row['loss']:.4f} of {_name(row)} on{shared * (price > 1)}")  # fmt: skip
    outlying = [f"{_name(row)} on {row['day']}" for row in watched.filter("outlying").to_dicts()]
    if outlying:
        yield f"Far outside, and left out of the baseline: {join_some(outlying)}"
    shares = watched.filter(pl.col("day") <= pl.col("baseline")).group_by(KEYS, maintain_order=True)
    unclear = shares.agg(pl.mean("outlying")).filter(pl.col("outlying") > LARGEST_OUTAGE)
    if unclear.height:
        yield (f"Not watched, because more than a quarter of the days of the baseline lie far "
               f"outside: {join_some([*map(_name, unclear.to_dicts())])}. Pass another period as "
               "baseline=")  # fmt: skip
        series = series.join(unclear, on=KEYS, how="anti", maintain_order="left")
    short = watched.filter(~pl.col("complete"))
    if weeks := [str(day) for day in short["day"].unique().sort()]:
        yield f"Not compared, because days are missing: the weeks of {join_some(weeks)}"
    lacking = ~pl.col("complete") & COMPARED.any().over(KEYS)
    compared = watched.filter(COMPARED | lacking, day=newest)
    gone = series.join(compared, on=KEYS, how="anti", maintain_order="left").to_dicts()
    if gone:
        more = ". A week has more: pass period='week'" * (unit == "day")
        few = f"{LEAST_QUERIES} queries" if scored["queries"].count() else "a value"
        yield (f"Not compared on {newest}: {join_some([*map(_name, gone)])}. A {unit} needs "
               f"{few}, the baseline {period.need}, and the metric a direction{more}")  # fmt: skip
    weekend, overall = pl.col("day").dt.weekday() > 5, pl.col("slice") == "all"
    usual = watched.filter(overall | ~overall.any(), kind=METRIC)  # a row of a slice may be a day
    means = usual.group_by("metric", "slice", maintain_order=True).agg(
        pl.median("spread"), weekends=pl.col("expected").filter(weekend).median(),
        others=pl.col("expected").filter(~weekend).median())  # fmt: skip
    differ = (pl.col("weekends") - pl.col("others")).abs() > pl.col("spread")
    for row in means.filter(differ, unit == "day").head(SHOWN_ALARMS).to_dicts():
        yield (f"{_name(row)} in the baseline: weekends are {row['weekends']:.3f}, other days "
               f"{row['others']:.3f}")  # fmt: skip
    far = (pl.col("mean") - pl.col("expected")).abs() > pl.col("band")
    queries = scored.filter(far, kind=QUERIES, slice="all", day=newest)
    for row in queries.with_columns(pl.col("expected").exp()).to_dicts():
        alike = "on this weekday " * (unit == "day")
        yield (f"The number of queries changed: {row['queries']:,} on {newest}, about "
               f"{row['expected']:,.0f} {alike}in the baseline")  # fmt: skip
