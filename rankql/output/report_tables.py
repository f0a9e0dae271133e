"""The tables of means and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.verdict import BETTER, NOT_SIGNIFICANT, WORSE
from rankql.output.chart_selection import order_systems, select_pairs
from rankql.output.panels import shorten_names
from rankql.output.report_elements import ReportTable
from rankql.text import format_interval, format_p

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The largest number of rows of all pairs. Other formats have all rows.
ROWS = 200

_VERDICTS = {BETTER: f"▲ {BETTER}", WORSE: f"▼ {WORSE}", NOT_SIGNIFICANT: f"≈ {NOT_SIGNIFICANT}"}


def tabulate_means(comparison: Comparison) -> ReportTable:
    """Tabulate the means of the systems by metric."""
    metrics, order = comparison.metrics, order_systems(comparison)
    short = shorten_names(order)
    rows = comparison.summary.filter(pl.col("slice") == "all")
    means = {
        (system, metric): format_interval(bounds)
        for system, metric, *bounds in rows.select("system", "metric", "mean", "lo", "hi").rows()
    }
    body = [[short[name], *(means[name, metric] for metric in metrics)] for name in order]
    caption = f"Means with {comparison.settings.percent} confidence intervals, best system first"
    numbers = frozenset(range(1, len(metrics) + 1))
    return ReportTable(caption, [["system", *metrics], *body], numbers)


def tabulate_ranks(comparison: Comparison) -> ReportTable:
    """Tabulate the ranks of the systems that the tests support, by metric."""
    ranks = comparison.leaderboard().filter(pl.col("slice") == "all")
    cells = {
        (system, metric): "" if mean is None else _format_ranks(*bounds)
        for system, metric, mean, *bounds in ranks.select(
            "system", "metric", "mean", "rank_lo", "rank_hi"
        ).rows()
    }
    systems, metrics = ranks["system"].unique(maintain_order=True), comparison.metrics
    short = shorten_names(systems)
    body = [[short[name], *(cells[name, metric] for metric in metrics)] for name in systems]
    caption = "Ranks that the tests support. ▲ cannot be distinguished from the best"
    return ReportTable(caption, [["system", *metrics], *body])


def _format_ranks(first: int, last: int) -> str:
    ranks = f"{first}" if first == last else f"{first} to {last}"
    return f"▲ {ranks}" if first == 1 else ranks


def tabulate_differences(comparison: Comparison) -> ReportTable:
    """Tabulate the differences of the pairs that are drawn."""
    rows = comparison.table.filter(pl.col("slice") == "all").to_dicts()
    by_pair = {(row["metric"], row["a"], row["b"]): row for row in rows}
    short = shorten_names(comparison.systems)
    body = [
        [
            row["metric"],
            f"{short[row['b']]} − {short[row['a']]}",
            _VERDICTS.get(row["verdict"], row["verdict"]),
            ""
            if row["difference"] is None
            else format_interval([row[name] for name in ("difference", "lo", "hi")], "+"),
            "" if row["p_adjusted"] is None else format_p(row["p_adjusted"])[2:].lstrip("= "),
            "" if row["wins"] is None else f"{row['wins']:,} / {row['ties']:,} / {row['losses']:,}",
        ]
        for metric in comparison.metrics
        for pair in select_pairs(comparison)
        if (row := by_pair.get((metric, *pair)))
    ]
    header = ["metric", "pair", "verdict", "difference", "adjusted p", "wins / ties / losses"]
    caption = "Differences with confidence intervals; wins, ties and losses count queries"
    return ReportTable(caption, [header, *body], frozenset((3, 4, 5)))


def describe_pairs(comparison: Comparison) -> list[str]:
    """Say which pairs are drawn, if not all are."""
    count, drawn = comparison.table.select("a", "b").n_unique(), len(select_pairs(comparison))
    if count <= drawn:
        return []
    first = comparison.settings.baseline or order_systems(comparison)[0]
    role = "baseline" if comparison.settings.baseline else "best system"
    return [
        f"The charts show {drawn} of {count:,} pairs: the {role}, {first}, with the best others by "
        f"{comparison.metrics[0]}. The table of all pairs is in Differences."
    ]


def tabulate_all_pairs(comparison: Comparison) -> ReportTable | None:
    """Tabulate all pairs and slices."""
    if comparison.table.is_empty():
        return None
    (frame,) = comparison.displayed(complete=True)
    return ReportTable.of(frame, "Every pair", ROWS)
