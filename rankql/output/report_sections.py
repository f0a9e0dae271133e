"""The sections of the report."""

from __future__ import annotations

from collections.abc import Callable

from rankql.diagnostics.limits import limits
from rankql.output import difference_charts, mean_charts, report_tables
from rankql.output.chart_selection import (
    METRICS,
    SLICES,
    select_chart_metrics,
    select_pairs,
)
from rankql.output.report_elements import Section
from rankql.output.report_queries import make_queries_section
from rankql.output.report_source import ReportSource, parse_metric
from rankql.output.style import PALETTE

# Of so many metrics the means by cutoff are drawn.
CUTOFF_METRICS = 3


def make_means_section(source: ReportSource) -> Section:
    """Show the means of the systems."""
    comparison, section = source.comparison, Section("means", "Means")
    section.tables = [report_tables.tabulate_means(comparison)]
    section.reading = [
        "Dots are means and bars their confidence intervals. Two bars may overlap although the "
        "systems differ significantly, because systems are compared on the same queries: see "
        "Differences."
    ]
    metrics = comparison.metrics[:METRICS]
    section.draw([mean_charts.draw_means(comparison, metric) for metric in metrics])
    if len(comparison.systems) > len(PALETTE):
        section.notes.append(
            f"{len(PALETTE)} systems have a colour: the baseline and the best. The others are grey."
        )
    return section


def make_ranks_section(source: ReportSource) -> Section | None:
    """Show which systems may be the best, if all pairs of three or more were tested."""
    comparison = source.comparison
    if not comparison.title:
        return None
    section = Section("ranks", "Leaderboard", [report_tables.tabulate_ranks(comparison)])
    section.remarks = [f"{sentence}." for sentence in comparison.title.split("; ")]
    section.reading = [
        "A bar covers the ranks that the tests support: a system is above another one only if it "
        "is significantly better. Systems in colour cannot be distinguished from the best."
    ]
    metrics = comparison.metrics[:METRICS]
    section.draw([mean_charts.draw_ranks(comparison, metric) for metric in metrics])
    return section


def make_differences_section(source: ReportSource) -> Section | None:
    """Show the differences with their intervals, and by query."""
    comparison = source.comparison
    pairs, metrics = select_pairs(comparison), select_chart_metrics(comparison)
    if not pairs:
        return None
    section = Section(
        "differences", "Differences", [report_tables.tabulate_differences(comparison)]
    )
    section.all_pairs = report_tables.tabulate_all_pairs(comparison)
    section.reading = [
        "Each dot is a mean difference and the bar its confidence interval. A bar that does not "
        "cross the line at 0 is significant. In the charts below, each bar is a query, in the "
        "colour of the system that does better on it."
    ]
    section.draw([difference_charts.draw_intervals(comparison, metric) for metric in metrics])
    queries = comparison.result.frame()[comparison.result.meta.query].unique()
    texts = source.texts.find("query", queries)
    section.draw(
        [
            difference_charts.draw_differences(comparison, m, *p, texts)
            for m in metrics
            for p in pairs
        ]
    )
    if len(queries) > difference_charts.BARS:
        section.reading.append(f"There are {len(queries):,} queries, so only every n-th is drawn.")
    section.notes = report_tables.describe_pairs(comparison)
    return section


def make_slices_section(source: ReportSource) -> Section | None:
    """Show the differences by slice; the means of a single system are in Means."""
    comparison, section = source.comparison, Section("slices", "Slices")
    count = comparison.table["slice"].n_unique()
    if count < 2:
        return None
    section.reading = [
        "One chart per pair, one row per slice of the queries. Slices with few queries have wide "
        "intervals. P-values are adjusted for the number of slices too."
    ]
    pairs, metrics = select_pairs(comparison), select_chart_metrics(comparison)
    section.draw(
        [difference_charts.draw_slices(comparison, m, *pair) for m in metrics for pair in pairs]
    )
    if count > SLICES:
        section.notes.append(f"The charts show the first {SLICES} of {count:,} slices.")
    section.notes += report_tables.describe_pairs(comparison)
    return section


def make_cutoffs_section(source: ReportSource) -> Section | None:
    """Show the means by cutoff."""
    comparison = source.comparison
    parsed = filter(None, map(parse_metric, comparison.metrics))
    metrics = [m for m in parsed if m.record and m.record.has_cutoff]
    names = {(m.record, str(m.options)): m.name for m in metrics}.values()
    if not names:
        return None
    section = Section("cutoffs", "Cutoffs")
    if source.runs is None:
        section.notes = [source.reason]
        return section
    section.reading = ["The mean by cutoff k: the number of top positions that count. Bands are "
                       "confidence intervals."]  # fmt: skip
    with source.errors_as_notes(section):
        frames = mean_charts.compute_cutoffs(comparison, [*names][:CUTOFF_METRICS])
        for name, frame in frames.items():
            section.draw([mean_charts.draw_cutoffs(comparison, name, frame)])
            if len(comparison.systems) > 1:
                section.remarks.append(
                    f"{name.rpartition('@')[0] or name}: {mean_charts.describe_order(frame)}."
                )
    return section


def make_limits_section(source: ReportSource) -> Section:
    """Show how far the numbers can be trusted."""
    comparison, section = source.comparison, Section("limits", "Limits")
    if source.runs is None:
        section.notes = [source.reason]
        return section
    if comparison.settings.weight is not None:
        section.notes = ["Not shown: limits counts every query once, but these means are weighted."]
        return section
    with source.errors_as_notes(section):
        metrics = [name for name in comparison.metrics if parse_metric(name)]
        result = source.runs.call(limits, metrics=metrics)
        section.reading = [
            "The charts show how much the metric changes, on average over the queries, if an item "
            "is swapped with the next one. Where the line is high, the metric depends on the order "
            "of two items."
        ]
        section.remarks = list(result.notes)
        names = result.sensitivity["metric"].unique(maintain_order=True)[:METRICS]
        section.draw(
            [mean_charts.draw_sensitivity(comparison, result.sensitivity, name) for name in names]
        )
    return section


SECTIONS: tuple[Callable[[ReportSource], Section | None], ...] = (
    make_means_section,
    make_ranks_section,
    make_differences_section,
    make_slices_section,
    make_cutoffs_section,
    make_queries_section,
    make_limits_section,
)
