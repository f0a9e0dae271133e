"""The result of `explain`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rankql import text
from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.evaluation.result import Result

# A longer table leaves out the positions without gain.
MAX_ROWS = 40
# They are undefined where the metric is.
LOSS_COLUMNS = ["contribution", "ideal_contribution", "loss"]
# Columns with values of the user, which keep their digits.
_EXACT = ("rel", "gain", "ideal_rel")


@dataclass(eq=False)
class Explanation(text.Tabular):
    """What was explained, and the tables: `positions` of one query, or `queries` and `items`.

    `value` and `ideal` are those of the query, or means over the run (None for several systems).
    """

    metric: str
    sql: str
    result: Result = field(repr=False)
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
    def conventions(self) -> dict[str, Any]:
        """The conventions in force."""
        return self.result.conventions

    def to_polars(self) -> pl.DataFrame:
        """The positions of the query, or all queries of the run, the costliest first."""
        frame = self.queries if self.positions is None else self.positions
        assert frame is not None
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; of queries and items the worst."""
        frames = {name: frame.to_dicts() for name, frame in self._frames().items()}
        query = {} if self.positions is None else {"query": self.query}
        return {
            "metric": self.metric,
            "system": self.system,
            **query,
            "value": self.value,
            "ideal": self.ideal,
            **frames,
            "conventions": self.conventions,
            "columns": self.result.columns,
            "notes": self.result.notes,
        }

    def to_markdown(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join(text.format_markdown(rows, remarks) for rows, remarks in self._tables())

    def __repr__(self) -> str:
        return "\n\n".join(text.format_text(rows, remarks) for rows, remarks in self._tables())

    def _repr_html_(self) -> str:
        return "".join(text.format_html(rows, remarks) for rows, remarks in self._tables())

    def _frames(self) -> dict[str, pl.DataFrame]:
        if self.positions is not None:
            return {"positions": self.positions}
        frames = {"queries": self.queries, "items": self.items}
        return {name: frame.head(self.worst) for name, frame in frames.items() if frame is not None}

    def _tables(self) -> list[tuple[text.TableRows, list[str]]]:
        """The tables as text, each with its remarks."""
        if self.positions is None:
            queries, items = self._frames().values()
            return [(_cells(queries), []), (_cells(items), [*self._sums(), *self.result.remarks()])]
        frame, notes = self.positions, []
        if len(frame) > MAX_ROWS:
            frame = frame.filter(pl.any_horizontal(pl.col(LOSS_COLUMNS).fill_null(0) != 0))
            left_out = len(self.positions) - len(frame)
            notes = [f"{left_out} positions without gain are not shown"]
        system = "" if self.system is None else f"{self.system}, "
        notes.append(f"{system}query {text.escape_controls(str(self.query))}: {self.formula}")
        return [(_cells(frame), [*notes, *self._sums(), *self.result.remarks()])]

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
        frame = self.to_polars()
        if "system" in mean:
            frame = frame.filter(pl.col("system") == system)
        losses = frame["loss"].drop_nulls()
        return (
            f"losses of {len(losses)} queries{of_system} add up to {losses.sum():z.4f}; "
            f"the mean is {_equation(ideal - value, ideal, self.metric, value)}"
        )


def _equation(loss: float, ideal: float, metric: str, value: float) -> str:
    best = f"ideal {ideal:z.4f}" if abs(ideal - 1) > ROUNDING_ERROR else "1"
    return f"{loss:z.4f} = {best} - {metric} {value:z.4f}"


def _cells(frame: pl.DataFrame) -> text.TableRows:
    """A frame as text: grades with their digits, and no line breaks."""
    exact = [frame.columns.index(name) for name in _EXACT if name in frame.columns]

    def cell(i: int, value: Any) -> str:
        if isinstance(value, float):
            return f"{value:z.6g}" if i in exact else f"{value:z.4f}"
        return text.escape_controls(text.format_cell(value))

    return [frame.columns, *([cell(i, v) for i, v in enumerate(row)] for row in frame.rows())]
