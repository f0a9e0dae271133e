"""A run and its baseline, query by query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.decisions.alignment import compared_value, describe_missing_rule
from rankql.evaluation.result import Result
from rankql.evaluation.summary import slice_queries
from rankql.macros import INTERNAL_PREFIX, MISSING

if TYPE_CHECKING:
    from rankql.decisions.sample import Sample

# Internal columns: no column of a user's has these names.
VALUE, CLUSTER = f"{INTERNAL_PREFIX}value", f"{INTERNAL_PREFIX}cluster"
BASELINE, RUN = f"{INTERNAL_PREFIX}baseline", f"{INTERNAL_PREFIX}run"


@dataclass(frozen=True)
class PairedRuns:
    """The run and its baseline, lined up by query."""

    result: Result
    cluster: str | None

    def differences(self, metric: str) -> pl.DataFrame:
        """The values of every query in both, and run - baseline, the largest loss first."""
        key = self.result.meta["query"]
        gain = pl.col("run") - pl.col("baseline")
        lower = self.result.lower_is_better(metric)
        return (
            self._values(metric)
            .select(key, pl.col(BASELINE).alias("baseline"), pl.col(RUN).alias("run"))
            .with_columns(gain.alias("difference"))
            .sort(-gain if lower else gain, key)
        )

    def _values(self, metric: str) -> pl.DataFrame:
        """The values of every query that has one in both, with its attributes."""
        key, by = self.result.meta["query"], self.result.meta["by"]
        value = compared_value(metric, self.result.conventions)
        rows = self.result.frame()
        baseline, run = (
            rows.filter(pl.col("system") == system).select(key, *by, value.alias(column))
            for system, column in (("baseline", BASELINE), ("run", RUN))
        )
        return baseline.join(run.drop(by), on=key).drop_nulls([BASELINE, RUN]).sort(key)

    def slices(self, metric: str) -> dict[str, pl.DataFrame]:
        """The differences of every slice, in the order of the queries."""
        key, by = self.result.meta["query"], self.result.meta["by"]
        rows = self._values(metric)
        queries = self.result.frame().filter(pl.col("system") == "run").select(key, *by)
        return {
            part: rows.filter(pl.col(key).is_in(members.implode()))
            for part, members in slice_queries(queries, self.result.meta["groupings"]).items()
        }

    def losses(self, metric: str) -> dict[str, Sample]:
        """How much worse the run is on every query, by slice; empty slices are left out."""
        from rankql.decisions.sample import Sample

        sign = 1 if self.result.lower_is_better(metric) else -1
        samples = {}
        for part, frame in self.slices(metric).items():
            if self.cluster is not None:
                frame = frame.with_columns(pl.col(self.cluster).rank("dense").alias(CLUSTER))
            if len(frame):
                loss = sign * (frame[RUN] - frame[BASELINE]).to_numpy()
                samples[part] = Sample(loss, number_clusters(frame))
        return samples

    def notes(self) -> list[str]:
        """Which queries were left out, or counted as 0."""
        rules, rows = self.result.conventions, self.result.frame()
        total = rows[self.result.meta["query"]].n_unique()
        notes = []
        if self.cluster is not None:
            count = rows[self.cluster].n_unique()
            notes.append(
                f"queries are clustered by {self.cluster}: {show.format_count(count, 'cluster')}"
            )
        for system in ("baseline", "run"):
            count = rows.filter(pl.col(MISSING), pl.col("system") == system).height
            if count:
                lower = list(filter(self.result.lower_is_better, self.result.metrics))
                rule = describe_missing_rule(rules, self.result.metrics, lower)
                queries = f"{count:,} of {show.format_queries(total)} {show.is_or_are(count)}"
                notes.append(f"{queries} missing in {system}: {rule}")
        kept = rows if rules["missing"] != "skip" else rows.filter(~pl.col(MISSING))
        for name in self.result.metrics:
            count = kept.filter(pl.col(name).is_null())[self.result.meta["query"]].n_unique()
            if count:
                rule = "counted as 0" if rules["undefined"] == "zero" else "left out"
                queries = f"{count:,} of {show.format_queries(total)} {show.is_or_are(count)}"
                notes.append(f"{name}: {queries} undefined in run or baseline and {rule}")
        return notes


def number_clusters(frame: pl.DataFrame) -> Any:
    """The clusters of the rows as numbers from 0; None without clusters."""
    if CLUSTER not in frame.columns:
        return None
    return frame[CLUSTER].rank("dense").cast(pl.Int64).to_numpy() - 1
