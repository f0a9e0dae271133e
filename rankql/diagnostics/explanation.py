"""The result of `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rankql import text
from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.results import drop_idle_columns

# Longer tables hide positions without gain.
MAX_ROWS = 40
# NULL if the metric is undefined.
LOSS_COLUMNS = ["contribution", "ideal_contribution", "loss"]


@dataclass(eq=False, repr=False)
class Explanation(EvaluatedTable):
    """The result of `explain`.

    For one query, `positions` has a row per position. For all queries, `queries` and `items` have
    the losses, largest first. `value` and `ideal` are those of the query, or means over the run
    (None for several systems).
    """

    metric: str
    result: Result
    query_sql: str
    query: Any = None
    system: str | None = None
    value: float | None = None
    ideal: float | None = None
    positions: pl.DataFrame | None = None
    queries: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    # The means over the run, by system.
    means: pl.DataFrame | None = None
    worst: int = 10
    formula: str = ""

    @property
    def table(self) -> pl.DataFrame:
        """The positions of the query, or the queries with the largest losses."""
        return self._frames()[0]

    @property
    def notes(self) -> list[str]:
        """Warnings and remarks, in sentences."""
        return self.result.notes

    @property
    def sql(self) -> str:
        """The query that computed the contributions."""
        return self.query_sql

    @property
    def sentences(self) -> list[str]:
        """The formula of the query, and the sum of its losses."""
        if self.positions is None:
            return self._sums()
        left_out = len(self.positions) - len(self.displayed()[0])
        system = "" if self.system is None else f"{self.system}, "
        return [
            *([f"{left_out:,} positions without gain are hidden."] if left_out else []),
            f"{system}query {text.escape_controls(str(self.query))}: {self.formula}",
            *self._sums(),
        ]

    def displayed(self) -> list[pl.DataFrame]:
        """The positions, or the queries and items with the largest losses."""
        frames = self._frames()
        if self.positions is not None and len(self.positions) > MAX_ROWS:
            changed = pl.any_horizontal(pl.col(LOSS_COLUMNS).fill_null(0) != 0)
            frames = [self.positions.filter(changed)]
        return [drop_idle_columns(frame) for frame in frames]

    def _details(self) -> dict[str, Any]:
        names = ("metric", "system", "query", "value", "ideal")
        details = {name: getattr(self, name) for name in names}
        if self.items is not None:
            details["items"] = self.items.head(self.worst).to_dicts()
        return {**details, **super()._details()}

    def _frames(self) -> list[pl.DataFrame]:
        """The positions, or the queries and items with the largest losses."""
        if self.positions is not None:
            return [self.positions]
        return [f.head(self.worst) for f in (self.queries, self.items) if f is not None]

    def _sums(self) -> list[str]:
        """The sums of the losses, by system."""
        if self.positions is not None:
            if self.value is None or self.ideal is None:
                return [f"{self.metric} is undefined for this query: it has no relevant item."]
            loss = float(self.positions["loss"].sum())
            return [f"Losses add up to {_equation(loss, self.ideal, self.metric, self.value)}"]
        assert self.queries is not None
        assert self.means is not None
        return [self._sum(mean) for mean in self.means.to_dicts()]

    def _sum(self, mean: dict[str, Any]) -> str:
        system, value, ideal = mean.get("system", self.system), mean["value"], mean["ideal"]
        of_system = "" if system is None else f" of {system}"
        if value is None:
            return f"{self.metric}{of_system} is undefined for all queries."
        frame = self.queries
        assert frame is not None
        if "system" in mean:
            frame = frame.filter(pl.col("system") == system)
        losses = frame["loss"].drop_nulls()
        return (
            f"The losses of {text.format_queries(len(losses))}{of_system} add up to "
            f"{losses.sum():z,.4f}. "
            f"The mean loss is {_equation(ideal - value, ideal, self.metric, value)}"
        )


def _equation(loss: float, ideal: float, metric: str, value: float) -> str:
    best = f"ideal {ideal:z.4f}" if abs(ideal - 1) > ROUNDING_ERROR else "1"
    return f"{loss:z.4f} = {best} - {metric} {value:z.4f}"
