"""The result of `funnel`: the losses of the stages, in words, and the lost items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.results import draw_chart

if TYPE_CHECKING:
    import altair as alt

# The name of the last loss, which is that of the order of the final ranking.
ORDER = "order"
# Smaller losses are rounding errors.
ROUNDING = 1e-9
_SCHEMA = {
    **{"slice": pl.String, "stage": pl.String},
    **dict.fromkeys(("loss", "lo", "hi", "after", "recall"), pl.Float64),
    **dict.fromkeys(("lost", "added", "queries"), pl.Int64),
}


def loss_of(stage: str) -> str:
    """The name of the loss of a stage among the metrics of the result."""
    return f"loss: {stage}"


def recall_of(stage: str) -> str:
    """The name of the recall of a stage among the metrics of the result."""
    return f"recall: {stage}"


@dataclass(repr=False, eq=False)
class Funnel(EvaluatedTable):
    """The result of `funnel`.

    `table` has one row per slice and stage, and one for the order: the loss with its confidence
    interval, the best nDCG@k that is possible `after` it, the recall of the stage, the number of
    relevant items that it loses, and of items that it adds. `items` has the relevant items, with
    their position in the final ranking and the stage that loses them. `per_query` has all losses.
    """

    result: Result
    stages: Sequence[str]
    k: int
    # query, item, rel, position, lost_by.
    items: pl.DataFrame
    # The number of items that the stage before lacks.
    added: Mapping[str, int]
    _charted = True

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.result.metrics[0]

    @cached_property
    def table(self) -> pl.DataFrame:
        """The losses, one row per slice and stage."""
        means = {(row["slice"], row["metric"]): row for row in self.summary.iter_rows(named=True)}
        names = [*self.stages, ORDER]
        lost = dict(self.items["lost_by"].drop_nulls().value_counts().rows())
        least = self.result.frame().select(pl.col(*map(loss_of, names)).min()).row(0, named=True)
        # With negative grades, nDCG has no lower bound.
        highest = 1.0 if self.result.conventions["negative"] == "zero" else math.inf
        rows = []
        for part in dict.fromkeys(part for part, _ in means):
            losses: list[float] = []
            for stage in names:
                loss = means[part, loss_of(stage)]
                losses.append(loss["mean"] or 0.0)
                lowest = 0.0 if (least[loss_of(stage)] or 0) >= -ROUNDING else -highest
                after = None if loss["mean"] is None else 1 - min(highest, math.fsum(losses))
                rows.append(
                    {
                        "slice": part,
                        "stage": stage,
                        "loss": loss["mean"],
                        "lo": None if loss["lo"] is None else max(lowest, loss["lo"]),
                        "hi": None if loss["hi"] is None else min(highest, loss["hi"]),
                        "after": means[part, self.metric]["mean"] if stage == ORDER else after,
                        "recall": (
                            None if stage == ORDER else means[part, recall_of(stage)]["mean"]
                        ),
                        "lost": lost.get(stage, 0) if part == "all" else None,
                        "added": self.added.get(stage, 0) if part == "all" else None,
                        "queries": loss["queries"] - loss["undefined"],
                    }
                )
        return pl.DataFrame(rows, schema=_SCHEMA)

    @property
    def notes(self) -> list[str]:
        """What to know about the numbers."""
        added = [
            f"{stage} has {text.format_count(count, 'item')} that the stage before lacks"
            for stage, count in self.added.items()
        ]
        more = ["Added items can make the loss of a stage negative"] if added else []
        return [*self.result.notes, *added, *more]

    @property
    def title(self) -> str:
        """Where most is lost, in one line."""
        rows = self.table.filter(pl.col("slice") == "all").drop_nulls("loss")
        if rows.is_empty():
            return f"{self.metric} is undefined: no query has a relevant item"
        value = rows["after"][-1]
        place = int(rows["loss"].arg_max() or 0)
        worst = rows.row(place, named=True)
        start = f"{self.metric} is {_format(value)}"
        if worst["loss"] <= ROUNDING:
            return f"{start}: nothing is lost"
        most = f"{_subject(worst['stage'])} loses most: {_format(worst['loss'])}"
        if (rows["loss"][place:] < -ROUNDING).any():
            return f"{start}. {most}. Later stages gain some of it back"
        if (gained := -math.fsum(min(loss, 0) for loss in rows["loss"])) > ROUNDING:
            return f"{start}. {most}. Earlier stages gain {_format(gained)}"
        return f"{start}. {most} of {_format(1 - value)}"

    @property
    def sentences(self) -> list[str]:
        """What each stage loses, in words."""
        rows = self.table.filter(pl.col("slice") == "all").drop_nulls("loss")
        return [self._describe(row) for row in rows.iter_rows(named=True)]

    def _describe(self, row: Mapping[str, Any]) -> str:
        subject, loss = _subject(row["stage"]), row["loss"]
        relevant = text.format_count(len(self.items), "relevant item")
        where = (
            f"{row['lost']:,} of {relevant} {text.is_or_are(row['lost'])} below position {self.k}"
            if row["stage"] == ORDER
            else f"{row['lost']:,} of {relevant} {text.is_or_are(row['lost'])} gone for good"
        )
        if abs(loss) <= ROUNDING:
            return f"{subject} loses nothing; {where}"
        verb = "loses" if loss > 0 else "gains"
        bounds = [None, None]
        if row["lo"] is not None:
            bounds = sorted(
                (math.copysign(1, loss) * row["lo"], math.copysign(1, loss) * row["hi"])
            )
        level = f"({text.format_percent(self.result.confidence)} CI "
        interval = text.format_interval((abs(loss), *bounds)).replace("(", level)
        return f"{subject} {verb} {interval}; {where}"

    def plot(self) -> alt.TopLevelMixin:
        """A waterfall chart from the ideal to the final ranking, by altair."""
        return draw_chart("mean_charts", "draw_funnel", self)

    def _details(self) -> dict[str, Any]:
        return {"k": self.k, "items": self.items.to_dicts(), **super()._details()}


def _format(value: float) -> str:
    """Three decimals, or three digits of a small number."""
    return f"{value:.3f}" if value >= 0.001 else text.format_number(value)


def _subject(stage: str) -> str:
    return "The order of the final ranking" if stage == ORDER else stage
