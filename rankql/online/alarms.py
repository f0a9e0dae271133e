"""Alarms by day: which series, since when, and why: a drop, a drift, or unjudged items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import polars as pl

from rankql import text
from rankql.errors import RankqlError
from rankql.macros import literal
from rankql.online.day_states import JUDGED, SHARE, share_name
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import Session

DROP, DRIFT, LABELS, UNJUDGED = "drop", "drift", "labels", "unjudged"
KEYS = ["slice", "metric", "kind"]
# A slice with fewer queries per day is not watched: its means are too far from normal.
LEAST_QUERIES = 10
# An alarm that is silent for so many days is over.
_SILENCE = timedelta(days=7)
# What a day, the last 7 and the last 28 days lost, in standard errors, by the number of days.
LOOKS = {"z_day": 1, "z_week": 7, "z_month": 28}

ALARMS = {
    **dict.fromkeys((*KEYS, "cause"), pl.String),
    **dict.fromkeys(("since", "first", "last"), pl.Date),
    "active": pl.Boolean,
    "days": pl.Int64,
    **dict.fromkeys(
        ("mean", "expected", "loss", "loss_judged", "judged", "judged_expected"), pl.Float64
    ),
    "sentence": pl.String,
}


def score_days(
    session: Session,
    states: pl.DataFrame,
    baseline: tuple[date, date],
    alpha: float,
    lower: Sequence[str] = (),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The states with what is expected and alarms, and the series that are not watched."""
    known = states.filter(pl.col("day") >= baseline[0]).drop_nulls("mean")
    weekday = pl.col("day").dt.weekday()
    counts = known.filter(pl.col("day") <= baseline[1]).group_by(KEYS).agg(
        pl.len(), weekdays=weekday.n_unique(), least=weekday.value_counts().struct["count"].min(),
        queries=pl.col("queries").mean(),
    )  # fmt: skip
    enough = (pl.col("weekdays") == 7) & (pl.col("least") >= 2)
    watched = counts.filter(enough & (pl.col("queries") >= LEAST_QUERIES)).select(KEYS)
    left_out = known.select(KEYS).unique(maintain_order=True).join(watched, on=KEYS, how="anti")
    if watched.is_empty():
        raise RankqlError(
            f"No metric can be watched: in the baseline, {baseline[0]} to {baseline[1]}, it needs "
            f"each weekday twice, and at least {LEAST_QUERIES} queries per day. Pass more days or "
            "queries"
        )
    few = (pl.col("queries") < LEAST_QUERIES) & (pl.col("day") > baseline[1])
    known = known.filter(~few).join(
        watched.sort(KEYS).with_row_index("series"), on=KEYS, maintain_order="left"
    )
    sign = pl.when(pl.col("metric").is_in(list(lower))).then(-1.0).otherwise(1.0)
    family = watched.filter(pl.col("kind") != JUDGED).height
    daily = known.select("series", "day", "error", "queries", value=pl.col("mean") * sign)
    scored = fetch_frame(
        session,
        f"SELECT * EXCLUDE (value) FROM monitor_days({literal(session.table(daily, 'daily').sql)}, "
        f"DATE '{baseline[1]}', alpha := {alpha}, family := {max(1, family)}, series := 'series', "
        "error := 'error', queries := 'queries')",
    )
    frame = known.join(
        scored.cast({"series": pl.UInt32}), on=["series", "day"], maintain_order="left"
    )
    return frame.with_columns(expected=pl.col("expected") * sign), left_out


def find_alarms(scored: pl.DataFrame) -> pl.DataFrame:
    """One row per alarm: a run of days, without a pause of a week, on which a series is alarmed."""
    series = dict(scored.group_by(KEYS, maintain_order=True))
    newest = scored["day"].max()
    rows = []
    for key, frame in series.items():
        if key[-1] == JUDGED:
            continue
        days = frame.filter("alarm")["day"]
        start = (days.diff() > _SILENCE).fill_null(True)
        for run in days.to_frame("day").with_columns(run=start.cum_sum()).partition_by("run"):
            first, last = run["day"][0], run["day"][-1]
            row = _describe_peak(frame, series, first, last)
            # A slice without rows did not recover: its alarm is on for another week.
            gone = last == frame["day"].max() and last < newest <= last + _SILENCE
            rows.append(dict(zip(KEYS, key, strict=True)) | row | {
                "first": first, "last": last, "active": gone or last == newest, "gone": gone,
            })  # fmt: skip
    rows = [{name: (row | {"sentence": _write_sentence(row)}).get(name) for name in ALARMS}
            for row in rows]  # fmt: skip
    frame = pl.DataFrame(rows, schema=ALARMS)
    order = [True, True, False]  # metrics before shares
    return frame.sort("active", "kind", "first", descending=order, maintain_order=True)


def _describe_peak(
    frame: pl.DataFrame, series: Mapping[Any, pl.DataFrame], first: date, last: date
) -> dict[str, Any]:
    """The cause of an alarm, and the loss on the day on which it is clearest."""
    inside = frame.filter(pl.col("day").is_between(first, last))
    clearest = inside.sort(pl.max_horizontal(*LOOKS), "day").row(-1, named=True)
    days = LOOKS[max(LOOKS, key=lambda look: -1.0 if clearest[look] is None else clearest[look])]
    peak = clearest["day"]
    since, cause = _find_change(frame, peak)
    at_once = days == inside["alarm"].sum() == 1
    if at_once:
        since, cause = peak, DROP
    found: dict[str, Any] = {"since": min(since, first), "cause": cause, "days": days}
    found |= _average(frame, peak, days)
    if clearest["kind"] == SHARE:
        return found | {"cause": _UNJUDGED[cause]}
    part, metric = clearest["slice"], clearest["metric"]
    share = series.get((part, share_name(metric), SHARE))
    only = series.get((part, metric, JUDGED))
    week = pl.col("day").is_between(peak - _SILENCE, peak)
    if share is None or only is None or not share.filter(week)["alarm"].any():
        return found
    judged, lost = _average(share, peak, days), _average(only, peak, days)["loss"] or 0.0
    found |= {"judged": judged["mean"], "judged_expected": judged["expected"], "loss_judged": lost}
    found["judged_alarm"] = bool(only.filter(week)["alarm"].any())
    is_real = lost >= found["loss"] / 2
    if not at_once:
        cause = _find_change(only if is_real else share, peak)[1]
    return found | {"cause": cause if is_real else _UNJUDGED[cause]}


def _average(frame: pl.DataFrame, last: date, days: int) -> dict[str, float | None]:
    """The mean of some days, what was expected of them, and their loss."""
    window = pl.col("day").is_between(last - timedelta(days - 1), last)
    means: dict[str, float | None] = (
        frame.filter(window).select(pl.mean("mean", "expected", "loss")).row(0, named=True)
    )
    return means


def _find_change(frame: pl.DataFrame, last: date) -> tuple[date, str]:
    """The day since which there is a loss, and its shape: at once, or a little more every day.

    A step and a ramp are fitted by least squares to the days from each possible day on.
    """
    back = frame.filter(pl.col("day") <= last).drop_nulls("z_day").tail(182).reverse()
    total, n = pl.col("loss").cum_sum(), pl.int_range(1, pl.len() + 1)
    fits = back.select(
        "day",
        step=pl.when(total > 0).then(total**2 / n).otherwise(0),
        ramp=pl.when(total > 0).then(
            total.cum_sum() ** 2 / (n * (n + 1) * (2 * n + 1) / 6)).otherwise(0),
    )  # fmt: skip
    step, ramp = (fits[name].to_list() for name in ("step", "ramp"))
    cause, best = (DRIFT, ramp) if max(ramp) > max(step) else (DROP, step)
    return fits["day"][best.index(max(best))], cause


# The cause if the share of judged items fell at once, or a little more every day.
_UNJUDGED = {DROP: UNJUDGED, DRIFT: LABELS}
_CAUSES = {
    DROP: "sudden drop",
    DRIFT: "slow drift",
    LABELS: "ageing labels",
    UNJUDGED: "sudden unjudged items",
}


def name_cause(row: Mapping[str, Any]) -> str:
    """The cause of an alarm in words. A metric for which lower is better does not drop."""
    rises = row["cause"] == DROP and row["mean"] > row["expected"]
    return "sudden rise" if rises else _CAUSES[row["cause"]]


def _write_sentence(row: Mapping[str, Any]) -> str:
    """An alarm in words."""
    name = text.add_slice(row["metric"], row["slice"])
    digits = max(3, text.count_decimals(0, row["loss"]))
    loss, mean, expected = (
        text.format_decimal(value, digits)
        for value in (abs(row["loss"]), row["mean"], row["expected"])
    )
    worse = "above" if row["mean"] > row["expected"] else "below"
    over = "on one day" if row["days"] == 1 else f"over {row['days']} days"
    until = "still on" if row["active"] else f"last alarm on {row['last']}"
    until = f"no queries since {row['last']}" if row["gone"] else until
    words = (
        f"{name}: {name_cause(row)} since about {row['since']} (first alarm on "
        f"{row['first']}, {until}). {mean} {over}, {loss} {worse} the {expected} of the same "
        "weekdays in the baseline"
    )
    if row.get("judged") is not None:
        lost = text.format_decimal(max(0.0, row["loss_judged"]), digits)
        top = share_name(row["metric"]).partition("@")[2]
        words += (
            f". {row['judged']:.1%} of the {f'top {top}' if top else 'ranking'} is judged instead "
            f"of {row['judged_expected']:.1%}; on judged items alone, {row['metric']} lost {lost}"
        )
        if row["cause"] in _UNJUDGED.values() and row["judged_alarm"]:
            words += ", which chance does not explain, so the ranking may be worse too"
    if row["cause"] == UNJUDGED:
        return (
            f"{words}. The share of judged items fell at once: were new items shown, are rankings "
            "shorter, or did the ranking change?"
        )
    if row["kind"] == SHARE:
        return f"{words}. Judge the new items, or metrics fall because of them"
    return words
