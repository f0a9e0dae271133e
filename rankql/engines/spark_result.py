"""The result of `rankql.spark.evaluate`, whose values per query stay in Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.errors import RankqlError
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(eq=False, repr=False, kw_only=True)
class SparkResult(MeansResult):
    """Means by system and slice of values per query that stay in Spark.

    It is printed, saved and converted like a `Result`. `per_query` is a Spark DataFrame, and
    `collect()` the `Result` with all values in memory, which `compare`, `gate` and `combine` need.
    Partitions are added up in their order. Other partitions can change the last bits of the means.
    """

    # The summary, with the column SKEWED.
    means: pl.DataFrame
    # The values per query with the other columns that the means need.
    values: DataFrame
    # The sums of the weights, and what else all queries together must pass.
    counts: dict[str, Any] = field(default_factory=dict)

    @property
    def per_query(self) -> DataFrame:
        """The value of every metric for every query, NULL if undefined, as a Spark DataFrame.

        Nothing is computed before an action, and every action evaluates all rankings again: write
        the values to a table, or call `.cache()`. The rows are not sorted.
        """
        names = (*self.keys, *self.meta.by, *self.metrics)
        return self.values.select(*map(quoted_name, dict.fromkeys(names)))

    def collect(self) -> Result:
        """Evaluate again, and bring the values of all queries into the memory of the driver."""
        values = pl.DataFrame(self.values.toArrow()).sort(self.keys, nulls_last=True)
        return Result(
            meta=self.meta,
            sql=self.sql,
            columns=self.columns,
            notes=[*self.notes],
            interval=self.interval,
            confidence=self.confidence,
            values=values,
        )

    def weight_sums(self) -> dict[str, Any]:
        """Sums of the weights of the queries."""
        sums: dict[str, Any] = self.counts["weights"]
        return sums

    def _missing_interval(self) -> list[str]:
        if self.meta.weight and self.interval is not None:
            return [
                "Note: Weighted means have no confidence interval in Spark, because it needs the "
                "values of all queries. result.collect() has it"
            ]
        return super()._missing_interval()


def require_interval_of_moments(interval: str | None, weight: str | None) -> None:
    """Refuse an interval that needs the values of all queries."""
    if interval == "t" and weight is not None:
        raise RankqlError(
            "interval='t' of weighted means needs the values of all queries, which stay in Spark. "
            "Leave out interval=, then call rankql.combine([result.collect()], interval='t')"
        )


def quoted_name(name: str) -> str:
    """A quoted column name."""
    return "`" + name.replace("`", "``") + "`"
