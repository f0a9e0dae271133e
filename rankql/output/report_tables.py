"""The tables of means and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rankql.output.chart_selection import order_systems, select_pairs
from rankql.output.panels import shorten_names
from rankql.output.report_elements import ReportTable
from rankql.text import format_interval, format_table

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The largest numbers of rows. Other formats have all rows.
SYSTEMS, ROWS = 60, 200

_VERDICTS = {"better": "▲ better", "worse": "▼ worse", "not significant": "≈ not significant"}


def tabulate_means(comparison: Comparison) -> ReportTable:
    """Tabulate the means of the systems by metric."""
    metrics, order = comparison.metrics, order_systems(comparison)
    short = shorten_names(order)
    rows = comparison.summary.filter(pl.col("slice") == "all")
    means = {
        (system, metric): format_interval(bounds)
        for system, metric, *bounds in rows.select("system", "metric", "mean", "lo", "hi").rows()
    }
    body = [[short[name], *(means[name, m] for m in metrics)] for name in order[:SYSTEMS]]
    more = len(order) - SYSTEMS
    return ReportTable(
        f"Means with {comparison.settings.percent} confidence intervals, best system first",
        [["system", *metrics], *body],
        frozenset(range(1, 1 + len(metrics))),
        f"{more} more systems are in the charts." if more > 0 else "",
    )


def tabulate_differences(comparison: Comparison) -> ReportTable:
    """Tabulate the differences of the pairs that are drawn."""
    rows = comparison.table.filter(pl.col("slice") == "all").to_dicts()
    by_pair = {(row["metric"], row["a"], row["b"]): row for row in rows}
    short = shorten_names(comparison.systems)
    body = [
        [
            row["metric"],
            f"{short[row['b']]} − {short[row['a']]}",
            format_interval([row[name] for name in ("difference", "lo", "hi")], "+"),
            _format_p(row["p_adjusted"]),
            f"{row['wins']:,} / {row['ties']:,} / {row['losses']:,}",
            _VERDICTS.get(row["verdict"], row["verdict"]),
        ]
        for metric in comparison.metrics
        for pair in select_pairs(comparison)
        if (row := by_pair.get((metric, *pair)))
    ]
    header = ["metric", "pair", "difference", "adjusted p", "wins / ties / losses", "verdict"]
    caption = "Differences with confidence intervals; wins, ties and losses count queries"
    return ReportTable(caption, [header, *body], frozenset((2, 3, 4)))


def _format_p(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


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
    (frame,) = comparison.displayed()
    header, *body = format_table(frame)
    more = len(body) - ROWS
    note = f"{more:,} more rows are in .csv and .parquet files." if more > 0 else ""
    numbers = frozenset(i for i, dtype in enumerate(frame.dtypes) if dtype.is_numeric())
    return ReportTable("Every pair", [header, *body[:ROWS]], numbers, note)
