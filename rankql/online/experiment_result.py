"""What `experiment` and `plan_experiment` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rankql.results import TableResult, drop_idle_columns, fit_width
from rankql.text import format_percent

# A table that is too wide is printed without these columns, dropped in this order until it fits.
_LEAST_IMPORTANT = (
    ["detectable"], ["n_a", "n_b"], ["verdict"], ["lift_lo", "lift_hi"], ["mean_a", "mean_b"],
)  # fmt: skip


@dataclass(eq=False, repr=False)
class Experiment(TableResult):
    """The arms of an experiment compared with the control, or the plan of an experiment.

    `table` has one row per metric, slice and arm: the means of the control a and of the arm b, the
    difference b - a with its interval, p, p_adjusted (for all rows), the relative lift with its
    interval, detectable (the difference that would be detected with 80% power), the numbers of
    units, a verdict ('higher', 'lower', 'not significant' or why it was not tested) and a sentence.
    A plan has one row per metric: units, mean and standard deviation of the table; detectable and
    detectable_lift, if its units were split evenly over two arms; the wanted lift, and
    units_needed per arm. `conventions` says how it was computed.
    """

    table: pl.DataFrame
    conventions: dict[str, Any]
    notes: list[str]
    sentences: list[str]

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        if "p" not in self.table.columns:
            return f"What an experiment with each {self.conventions['unit']} as a unit can detect"
        level = format_percent(self.conventions["confidence"])
        return f"Differences b - a with {level} intervals"

    def displayed(self) -> list[pl.DataFrame]:
        """The table without sentences and empty columns."""
        frame = self.table
        if "p" in frame.columns:
            same = (frame["p"] == frame["p_adjusted"]).all()
            frame = frame.drop("p_adjusted" if same else "p", "sentence")
        return [fit_width(drop_idle_columns(frame), _LEAST_IMPORTANT)]

    def _details(self) -> dict[str, Any]:
        return {"conventions": self.conventions, "sentences": self.sentences}
