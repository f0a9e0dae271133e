"""What `monitor` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.decisions.junit import JUnitCase, render_junit
from rankql.errors import RankqlError, describe_unknown
from rankql.online.alarms import KEYS, name_cause
from rankql.online.day_states import JUDGED
from rankql.results import TableResult, draw_chart, drop_idle_columns, fit_width

if TYPE_CHECKING:
    import altair as alt

# The number of days that are printed.
_DAYS = 7
_LEAST_IMPORTANT = (["queries"], ["expected"], ["lo", "hi"])


@dataclass(eq=False, repr=False)
class Monitoring(TableResult):
    """Metrics by day, what chance explains, and alarms. It is true without one on the last day.

    `table` has one row per day, slice and metric. `kind` is 'metric', 'judged share' (of items in
    the top k) or 'judged items only' (the metric without the others). `mean` has the 95% interval
    `lo` to `hi`; `expected` is the mean of the same weekday in the baseline. Chance explains means
    from `band_lo` to `band_hi`. z_day, z_week and z_month are the losses of the day, the last 7 and
    the last 28 days in standard errors, alarms above `threshold`; `alarm` is the cause: 'drop',
    'drift', 'labels' or 'unjudged'. `alarms` has one row per alarm: when it began (`since`, about),
    its first and last day, whether it is active on the last day of all (for a week, if its slice
    has no rows any more), the loss on the day on which it was clearest, over 1, 7 or 28 `days`, and
    a sentence. `conventions` says how it was computed.
    """

    table: pl.DataFrame
    alarms: pl.DataFrame
    conventions: dict[str, Any]
    notes: list[str]
    _charted = True

    @property
    def active(self) -> pl.DataFrame:
        """The alarms that are on, on the last day."""
        return self.alarms.filter("active")

    @property
    def passed(self) -> bool:
        """Is there no alarm on the last day?"""
        return self.active.is_empty()

    def __bool__(self) -> bool:
        return self.passed

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0 without an alarm on the last day, 1 with one."""
        return 0 if self.passed else 1

    @property
    def title(self) -> str:
        """The alarms of the last day, in one line."""
        last, past = self.table["day"].to_list()[-1], self.alarms.height - self.active.height
        before = f" ({text.format_count(past, 'alarm')} before)" if past else ""
        if self.passed:
            return f"No alarm on {last}{before}"
        names = [f"{_name(row)} ({name_cause(row)})" for row in self.active.iter_rows(named=True)]
        names = names if len(names) <= 3 else [*names[:3], f"{len(names) - 3} more"]
        count = text.format_count(self.active.height, "alarm")
        return f"{count} on {last}: {text.join_words(names)}{before}"

    @property
    def sentences(self) -> list[str]:
        """Each alarm in words, those that are on first."""
        return self.alarms["sentence"].to_list()

    def displayed(self) -> list[pl.DataFrame]:
        """The last week, and the slices that have an alarm on the last day."""
        days = self.table["day"].unique().sort().tail(_DAYS)
        overall = (pl.col("slice") == "all") & pl.col("day").is_in(days.implode())
        alarmed = pl.col("alarm").is_not_null() & (pl.col("day") == days[-1])
        frame = self.table.filter(pl.col("kind") != JUDGED, overall | alarmed)
        columns = ("metric", "slice", "day", "mean", "lo", "hi", "expected", "band_lo", "band_hi",
                   "queries", "alarm")  # fmt: skip
        frame = frame.sort("kind", "metric", "slice", "day", descending=[True, False, False, False])
        return [fit_width(drop_idle_columns(frame.select(columns)), _LEAST_IMPORTANT)]

    def plot(self, metric: str | None = None, slice: str = "all") -> alt.TopLevelMixin:
        """An altair chart by day: one metric, or all with the shares of judged items.

        The band is what chance explains, the line the mean with its interval; alarms are coloured.
        """
        frame = self.table.filter(pl.col("kind") != JUDGED)
        if slice not in (slices := frame["slice"].unique(maintain_order=True).to_list()):
            raise RankqlError(describe_unknown("slice", slice, slices))
        metrics = frame["metric"].unique(maintain_order=True).to_list()
        if metric is not None and metric not in metrics:
            raise RankqlError(describe_unknown("metric", metric, metrics))
        shown = frame.filter(slice=slice)
        return draw_chart("monitor_chart", "draw_days", shown, [metric] if metric else metrics)

    def junit(self) -> str:
        """JUnit XML with a test per series, which fails if it has an alarm on the last day."""
        keys = self.table.filter(pl.col("kind") != JUDGED).select(KEYS).unique(maintain_order=True)
        rows = keys.join(self.active, on=KEYS, how="left", maintain_order="left")
        return render_junit("monitor", [
            JUnitCase(row["metric"], _name(row), row["sentence"] or "no alarm",
                 "failure" if row["sentence"] else None, row["cause"])
            for row in rows.iter_rows(named=True)
        ])  # fmt: skip

    def _details(self) -> dict[str, Any]:
        return {"passed": self.passed, "conventions": self.conventions,
                "alarms": self.alarms.to_dicts()}  # fmt: skip


def _name(row: dict[str, Any]) -> str:
    return text.add_slice(row["metric"], row["slice"], brackets=True)
