"""Did a metric get worse? Days against a fixed baseline period, with alarms that can be trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.arguments import parse_groupings
from rankql.online.alarms import KEYS, LEAST_QUERIES, find_alarms, score_days
from rankql.online.day_states import JUDGED, SCHEMA, DayStates
from rankql.online.monitor_result import Monitoring
from rankql.registry.argument_checks import (
    is_whole_number,
    require,
    require_flag,
    require_probability,
)
from rankql.registry.parse import value_range
from rankql.sources.session import open_session
from rankql.sources.tables import Data
from rankql.writing import remember_inputs

# The fewest days of a baseline: each weekday twice.
LEAST_BASELINE = 14


@remember_inputs
def monitor(
    days: Data,
    qrels: Data | None = None,
    metrics: str | Sequence[str] = ("nDCG@10",),
    *,
    day: str = "day",
    baseline: int | str = 28,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    states: str | os.PathLike[str] | None = None,
    gaps: bool = False,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    alpha: float = 0.05,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Monitoring:
    """Watch metrics by day: was there a sudden drop, a slow drift, or are items unjudged?

    `days` is a run, or a ranked table with rel, with the column `day`, such as
    'day=2026-11-*/*.parquet'. `qrels` has judgments for all days, or a column `day` too. Judged
    queries that a day does not have are left out unless qrels has the day. `metrics`, `by`,
    `attributes`, `con`, `conventions` and the other options are those of `evaluate`.

    Each day is compared with the same weekday of the `baseline`: the first 28 days, another number
    of days, or a period such as '2026-09-01:2026-09-28'. It is fixed, so slow decay cannot lower
    it. z = (expected - mean) / standard error, for the day, the last 7 and the last 28 days. The
    error holds the variance between days of the baseline, and of its means. An alarm is z above
    Student's t quantile of 1 - alpha / (730 * series), where series are metrics x slices and shares
    of judged items x slices: if nothing changes and days vary independently, all of them together
    raise a false alarm in at most alpha = 5% of years. If the judged share of the top k fell and
    the metric lost less than half as much on judged items alone, the labels age (it fell slowly),
    or items are unjudged at once, such as of a changed ranking. Days of a slice with fewer than 10
    queries are not compared. `higher_is_better` is the direction of your own metrics.

    `states` is a folder for one small Parquet file per day. The days in `days` are computed and
    replace stored ones; all others are read from there. A missing day is an error unless gaps=True.

    >>> import polars as pl
    >>> from datetime import date, timedelta
    >>> rows = [(date(2026, 9, 1) + timedelta(d), q, (q * 7 + d) % 5 + 3 * (d > 35))
    ...         for d in range(40) for q in range(1, 41)]
    >>> log = pl.DataFrame(rows, schema=["day", "query", "pos"], orient="row")
    >>> log = log.with_columns(item=pl.lit("x"), rel=1, pos=pl.col("pos") + 1)
    >>> print(monitor(log, metrics="RR@10").title)
    1 alarm on 2026-10-10: RR@10 (sudden drop)
    """
    require_probability("alpha", alpha)
    require_flag("gaps", gaps)
    require(isinstance(day, str), f"day= must be the name of a column, not {day!r}")
    refused = [name for name in ("system", "interval", "confidence", "output") if options.get(name)]
    require(not refused, f"monitor does not take {', '.join(f'{name}=' for name in refused)}")
    groups = parse_groupings(by)
    require(
        not any(day.lower() == name.lower() for group in groups for name in group),
        f"by= (CLI: --by) names {day!r}, the column of the day, which is a group anyway. Leave it "
        "out",
    )
    require(
        options.get("unjudged") != "bounds",
        "monitor does not take unjudged='bounds'. It watches the share of judged items anyway",
    )
    require(
        states is None or (isinstance(states, str | os.PathLike) and bool(os.fspath(states))),
        f"states= (CLI: --states) must be the path of a folder, not {states!r}",
    )
    folder = None if states is None else Path(states).expanduser()
    if folder is not None and folder.exists() and not folder.is_dir():
        raise RankqlError(
            f"states= (CLI: --states) must be a folder, but {str(states)!r} is a file"
        )
    with open_session(con, days, qrels, attributes) as session:
        run = session.table(days, "days")
        if not run.has(day):
            raise RankqlError(
                f"days has no column {day!r}{did_you_mean(day, [*run.columns])}. Name the column "
                "of the day: day= (CLI: --day), or keep one folder per day, such as day=2026-11-03/"
            )
        judged = None if qrels is None else session.table(qrels, "qrels")
        slices = None if attributes is None else session.table(attributes, "attributes")
        evaluated = {"conventions": conventions, **options}
        stored = DayStates(
            session, run, judged, day, metrics, evaluated, folder, groups, slices, higher_is_better,
            inputs=(days, qrels, attributes),
        )  # fmt: skip
        rows = stored.read()
        period = _find_baseline(rows["day"].unique().sort().to_list(), baseline, gaps)
        scored, left_out = score_days(session, rows, period, alpha, stored.lower)
    alarms = find_alarms(scored)
    settings = {**stored.settings, "day": day, "baseline": [*map(str, period)], "alpha": alpha}
    notes = [*_describe(scored, left_out, rows["day"].to_list()[-1], period, alpha), *stored.notes]
    return Monitoring(_lay_out(rows, scored, alarms), alarms, settings, notes)


def _find_baseline(days: Sequence[date], baseline: int | str, gaps: bool) -> tuple[date, date]:
    """The first and last day of the baseline; errors if days are missing or too few."""
    first = days[0]
    if isinstance(baseline, str):
        match = re.fullmatch(r"(\d{4}-\d\d-\d\d):(\d{4}-\d\d-\d\d)", baseline)
        try:
            first, last = map(date.fromisoformat, match.groups() if match else ("", ""))
        except ValueError:
            raise RankqlError(
                "baseline= (CLI: --baseline) must be a number of days or a period such as "
                f"'2026-09-01:2026-09-28', not {baseline!r}"
            ) from None
    else:
        require(
            is_whole_number(baseline, LEAST_BASELINE),
            "baseline= (CLI: --baseline) must be a whole number of days from "
            f"{LEAST_BASELINE} (each weekday twice), not {baseline!r}",
        )
        last = first + timedelta(baseline - 1)
    require(
        (last - first).days + 1 >= LEAST_BASELINE,
        f"baseline= (CLI: --baseline) must have at least {LEAST_BASELINE} days (each weekday "
        f"twice), not {first} to {last}",
    )
    all_days = {first + timedelta(i) for i in range((max(days[-1], last) - first).days + 1)}
    missing = sorted(all_days - {*days})
    absent = [d for d in missing if d <= last]
    if absent and not (gaps and days[0] <= first):
        raise RankqlError(
            f"The baseline, {first} to {last}, lacks {text.format_count(len(absent), 'day')}, such "
            f"as {absent[0]}. Pass these days too, or another period: baseline= (CLI: --baseline)"
        )
    if missing and not gaps:
        raise RankqlError(
            f"{text.format_count(len(missing), 'day')} of {first} to {days[-1]} "
            f"{text.is_or_are(len(missing))} missing, such as {missing[0]}. Pass "
            f"{'it' if len(missing) == 1 else 'them'}, or gaps=True (CLI: --gaps)"
        )
    require(
        days[-1] > last,
        f"There is no day after the baseline, {first} to {last}. Pass later days, or a shorter "
        "baseline: baseline= (CLI: --baseline)",
    )
    return first, last


def _describe(
    scored: pl.DataFrame,
    left_out: pl.DataFrame,
    newest: date,
    period: tuple[date, date],
    alpha: float,
) -> Iterator[str]:
    """Notes on the baseline, the alarms, and series that are not watched."""
    watched = scored.filter(pl.col("kind") != JUDGED)
    series = watched.select(KEYS).n_unique()
    yield (
        f"Baseline: {period[0]} to {period[1]}. Each day is compared with the same weekday in it. "
        "If you add earlier days, keep it: pass this period as baseline= (CLI: --baseline)"
    )
    if series:
        limit = max(watched["threshold"].to_list())
        yield (
            f"Alarms: a day, 7 days or 28 days that lost more than {limit:.2f} standard errors. If "
            f"nothing changes and days vary independently, at most {text.format_percent(alpha)} of "
            f"years have a false alarm among all {series:,} series (metrics and shares of judged "
            "items, by slice)"
        )
    ends = watched.group_by(KEYS, maintain_order=True).agg(pl.max("day"))
    if count := len(gone := ends.filter(pl.col("day") < newest)):
        row = gone.row(0, named=True)
        yield (
            f"{count:,} series {text.has_or_have(count)} fewer than {LEAST_QUERIES} "
            f"queries with a value on {newest}, {_such_as(row, count)} (last on {row['day']}), so "
            f"{'it is' if count == 1 else 'they are'} not compared there"
        )
    left_out = left_out.filter(pl.col("kind") != JUDGED)
    if count := len(left_out):
        row = left_out.row(0, named=True)
        yield (
            f"{count:,} series {text.is_or_are(count)} not watched, {_such_as(row, count)}: the "
            f"baseline must have each weekday twice, and at least {LEAST_QUERIES} queries per day"
        )


def _such_as(row: Mapping[str, Any], count: int) -> str:
    name = text.add_slice(row["metric"], row["slice"])
    return name if count == 1 else f"such as {name}"


def _lay_out(states: pl.DataFrame, scored: pl.DataFrame, alarms: pl.DataFrame) -> pl.DataFrame:
    """One row per day and series: its mean, the band of chance, and the cause of its alarm."""
    computed = ("expected", "band", "z_day", "z_week", "z_month", "threshold", "alarm")
    keys = ["day", *KEYS]
    frame = states.join(scored.select(*keys, *computed), on=keys, how="left", maintain_order="left")
    causes = alarms.select(*KEYS, "cause", day=pl.date_ranges("first", "last")).explode("day")
    frame = frame.join(causes, on=keys, how="left", maintain_order="left")
    ranges = {name: value_range(name) for name in frame["metric"].unique()}
    lowest, highest = (
        pl.col("metric").replace_strict(
            {name: ends[side] for name, ends in ranges.items()}, return_dtype=pl.Float64
        )
        for side in (0, 1)
    )
    return frame.select(
        *SCHEMA,
        "expected",
        pl.max_horizontal(pl.col("expected") - pl.col("band"), lowest).alias("band_lo"),
        pl.min_horizontal(pl.col("expected") + pl.col("band"), highest).alias("band_hi"),
        *computed[2:-1],
        alarm=pl.when("alarm").then("cause"),
    )
