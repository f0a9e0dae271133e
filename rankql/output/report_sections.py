"""The sections of the report, in the order in which they are of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl

from rankql.output.chart_selection import (
    METRICS,
    SLICES,
    assign_colours,
    select_chart_metrics,
    select_pairs,
)
from rankql.output.difference_charts import BARS, draw_differences, draw_intervals, draw_slices
from rankql.output.mean_charts import draw_cutoffs, draw_distribution, draw_means, draw_sensitivity
from rankql.output.report_elements import ReportTable, Section
from rankql.output.report_queries import make_queries_section
from rankql.output.report_source import (
    NO_SOURCE,
    SOURCE_ERRORS,
    describe_source_error,
    find_limits,
    parse_metric,
)
from rankql.output.report_tables import ROWS, describe_pairs
from rankql.output.style import GREY, PALETTE

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# Of so many metrics the means by cutoff are drawn.
CUTOFF_METRICS = 3


def make_differences_section(comparison: Comparison) -> Section | None:
    """Show the differences with their intervals, and by query."""
    pairs, metrics = select_pairs(comparison), select_chart_metrics(comparison)
    if not pairs:
        return None
    section = Section("differences", "How large is the difference?", "Differences")
    section.reading = [
        "Each dot is a mean difference, the bar its interval: where it does not cross the line at "
        "0, the difference is significant. Below, each bar is a query: above 0 (or, where less "
        "is better, below) the system compared is better, in its colour; else the other one."
    ]
    section.draw([draw_intervals(comparison, metric) for metric in metrics])
    section.draw([draw_differences(comparison, m, *pair) for m in metrics for pair in pairs])
    count = comparison.result.frame()[comparison.result.meta["query"]].n_unique()
    if count > BARS:
        section.reading.append(
            f"Of {count:,} queries each of the {BARS} bars is the mean of its neighbours."
        )
    section.notes = describe_pairs(comparison)
    return section


def make_systems_section(comparison: Comparison) -> Section:
    """Show the means of the systems and the distributions of their values."""
    section = Section("systems", "How good are the systems?", "Systems")
    section.reading = [
        "Dots are means, bars their intervals. Two of these may overlap though the systems differ: "
        "they are compared on the same queries, so it is the intervals of the differences that "
        "tell. Below, a band is thick where many queries have that value; the mark is the median."
    ]
    metrics = comparison.metrics[:METRICS]
    section.draw([draw_means(comparison, metric) for metric in metrics])
    section.draw([draw_distribution(comparison, metric) for metric in metrics])
    if GREY in assign_colours(comparison).values():
        section.notes.append(
            f"{len(PALETTE)} systems have a colour, the baseline and the best; the others are grey."
        )
    return section


def make_slices_section(comparison: Comparison) -> Section | None:
    """Show the differences by slice, or of one system the means."""
    count = comparison.table["slice"].n_unique()
    if count < 2:
        return _tabulate_slices(comparison)
    section = Section("slices", "Is it the same everywhere?", "Slices")
    section.reading = [
        "A panel per pair, a row per slice of the queries; bars are intervals. Slices with few "
        "queries have wide ones. All of them count in the correction of p."
    ]
    pairs, metrics = select_pairs(comparison), select_chart_metrics(comparison)
    section.draw([draw_slices(comparison, m, *pair) for m in metrics for pair in pairs])
    if count > SLICES:
        section.notes.append(f"Of {count} slices the first {SLICES} are drawn.")
    section.notes += describe_pairs(comparison)
    return section


def _tabulate_slices(comparison: Comparison) -> Section | None:
    """Tabulate the means of one system by slice."""
    rows = comparison.summary.filter(pl.col("slice") != "all")
    if rows.is_empty() or len(comparison.systems) > 1:
        return None
    frame = rows.select("slice", "metric", "mean", "lo", "hi", "queries")
    section = Section("slices", "Is it the same everywhere?", "Slices")
    section.tables = [ReportTable.of(frame, "Means by slice with their intervals", ROWS)]
    return section


def make_cutoffs_section(comparison: Comparison) -> Section | None:
    """Show the means by cutoff."""
    parsed = filter(None, map(parse_metric, comparison.metrics))
    metrics = [m for m in parsed if m.record and m.record.has_cutoff]
    names = {(m.record, str(m.options)): m.name for m in metrics}.values()
    if not names:
        return None
    section = Section("cutoffs", "Does the cutoff matter?", "Cutoffs")
    if comparison.source is None:
        section.notes = [NO_SOURCE]
        return section
    section.reading = [
        "The mean by the number of positions that count. Where lines cross, the choice of k "
        "decides which system is better."
    ]
    try:
        section.draw([draw_cutoffs(comparison, name) for name in [*names][:CUTOFF_METRICS]])
    except SOURCE_ERRORS as error:
        section.notes.append(describe_source_error(error))
    return section


def make_limits_section(comparison: Comparison) -> Section:
    """Show how far the numbers can be trusted."""
    section = Section("limits", "What these numbers cannot say", "Limits")
    limits = find_limits(comparison)
    if isinstance(limits, str):
        section.notes = [limits]
        return section
    section.reading = [
        "Lines show what it changes, on average over the queries, to swap two neighbours: where it "
        "is high, the metric hangs on which of two items stands first."
    ]
    section.remarks = list(limits.notes)
    metrics = limits.sensitivity["metric"].unique(maintain_order=True)[:METRICS]
    section.draw([draw_sensitivity(comparison, limits.sensitivity, name) for name in metrics])
    return section


SECTIONS: tuple[Callable[[Comparison], Section | None], ...] = (
    make_differences_section,
    make_systems_section,
    make_slices_section,
    make_cutoffs_section,
    make_queries_section,
    make_limits_section,
)
