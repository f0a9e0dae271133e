"""The systems, pairs, metrics and colours that charts and report show."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

import polars as pl

from rankql.output.specs import GREY, PALETTE

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.evaluation.result import Result

Evaluation: TypeAlias = "Comparison | Result"

# The largest number of each that is drawn.
SLICES, PAIRS, METRICS = 40, 6, 6


def select_pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the pairs to draw: with the baseline or, of many, with the best system."""
    pairs = list(dict.fromkeys(comparison.pairs.select("a", "b").rows()))
    if len(pairs) <= PAIRS and comparison.settings.baseline is None:
        return pairs
    order = order_systems(comparison)
    first = comparison.settings.baseline or order[0]
    either_way = [pair for name in order for pair in ((first, name), (name, first))]
    return [pair for pair in either_way if pair in {*pairs}][:PAIRS]


def select_chart_metrics(comparison: Comparison) -> list[str]:
    """Return the metrics to draw by query: those with a value for each query."""
    overall = comparison.result.overall_metrics
    return [name for name in comparison.metrics if name not in overall][:METRICS]


def list_chart_systems(evaluation: Evaluation) -> list[str]:
    """Return the systems in the order of the summary."""
    if _is_comparison(evaluation):
        return evaluation.systems
    result = result_of(evaluation)
    if not result.meta.system:
        return ["run"]
    return list(result.summary["system"].unique(maintain_order=True))


def order_systems(evaluation: Evaluation) -> list[str]:
    """Return the systems by their means of the first metric, best first."""
    return result_of(evaluation).best_first or list_chart_systems(evaluation)


def assign_colours(evaluation: Evaluation) -> dict[str, str]:
    """Give every system a colour: of many, the baseline and the best; the rest are grey."""
    names = coloured = list_chart_systems(evaluation)
    if len(names) > len(PALETTE):
        base = evaluation.settings.baseline if _is_comparison(evaluation) else None
        best = [name for name in order_systems(evaluation) if name != base]
        coloured = [*([] if base is None else [base]), *best][: len(PALETTE)]
    colours = dict(zip((name for name in names if name in coloured), PALETTE, strict=False))
    return {name: colours.get(name, GREY) for name in names}


def summary_by_system(evaluation: Evaluation) -> pl.DataFrame:
    """Return the summary, with a column system in any case."""
    frame = result_of(evaluation).summary
    if "system" in frame.columns:
        return frame
    return frame.select(pl.lit(list_chart_systems(evaluation)[0]).alias("system"), pl.all())


def result_of(evaluation: Evaluation) -> Result:
    """Return the result that a comparison was made from, or the result itself."""
    return evaluation.result if _is_comparison(evaluation) else cast("Result", evaluation)


def _is_comparison(evaluation: Evaluation) -> TypeGuard[Comparison]:
    return hasattr(evaluation, "settings")
