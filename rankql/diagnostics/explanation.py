"""The result of `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rankql import text
from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.results import drop_idle_columns

# A longer table leaves out the positions without gain.
MAX_ROWS = 40
# They are undefined where the metric is.
LOSS_COLUMNS = ["contribution", "ideal_contribution", "loss"]


@dataclass(eq=False, repr=False)
class Explanation(EvaluatedTable):
    """What was explained, and the tables: `positions` of one query, or `queries` and `items`.

    `table` is `positions`, or the worst of `queries`. `value` and `ideal` are those of the query,
    or means over the run (None for several systems).
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
    # Of each system the means over the run.
    means: pl.DataFrame | None = None
    worst: int = 10
    formula: str = ""

    @property
    def table(self) -> pl.DataFrame:
        """The positions of the query, or the queries of the run that lose most."""
        return self._frames()[0]

    @property
    def notes(self) -> list[str]:
        """What to know about the numbers, in sentences."""
        return self.result.notes

    @property
    def sql(self) -> str:
        """The query that computed the contributions."""
        return self.query_sql

    @property
    def sentences(self) -> list[str]:
        """What the losses add up to."""
        if self.positions is None:
            return self._sums()
        left_out = len(self.positions) - len(self.displayed()[0])
        system = "" if self.system is None else f"{self.system}, "
        return [
            *([f"{left_out:,} positions without gain are not shown"] if left_out else []),
            f"{system}query {text.escape_controls(str(self.query))}: {self.formula}",
            *self._sums(),
        ]

    def displayed(self) -> list[pl.DataFrame]:
        """The positions, of many those that gain or lose; or the worst queries and items."""
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
        """The positions, or the worst queries and items."""
        if self.positions is not None:
            return [self.positions]
        return [f.head(self.worst) for f in (self.queries, self.items) if f is not None]

    def _sums(self) -> list[str]:
        """The sum of the losses, of each system."""
        if self.positions is not None:
            if self.value is None or self.ideal is None:
                return [f"{self.metric} is undefined: there is nothing to be found"]
            loss = float(self.positions["loss"].sum())
            return [f"losses add up to {_equation(loss, self.ideal, self.metric, self.value)}"]
        assert self.queries is not None
        assert self.means is not None
        return [self._sum(mean) for mean in self.means.to_dicts()]

    def _sum(self, mean: dict[str, Any]) -> str:
        system, value, ideal = mean.get("system", self.system), mean["value"], mean["ideal"]
        of_system = "" if system is None else f" of {system}"
        if value is None:
            return f"{self.metric}{of_system} is undefined"
        frame = self.queries
        assert frame is not None
        if "system" in mean:
            frame = frame.filter(pl.col("system") == system)
        losses = frame["loss"].drop_nulls()
        return (
            f"losses of {len(losses):,} queries{of_system} add up to {losses.sum():z.4f}; "
            f"the mean is {_equation(ideal - value, ideal, self.metric, value)}"
        )


def _equation(loss: float, ideal: float, metric: str, value: float) -> str:
    best = f"ideal {ideal:z.4f}" if abs(ideal - 1) > ROUNDING_ERROR else "1"
    return f"{loss:z.4f} = {best} - {metric} {value:z.4f}"
