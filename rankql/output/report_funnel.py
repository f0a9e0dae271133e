"""The section of the report on the stages of a pipeline: where nDCG is lost, by `funnel`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.diagnostics.funnel import funnel
from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.output.chart_selection import PAIRS, order_systems
from rankql.output.funnel_chart import draw_funnel
from rankql.output.panels import shorten_names
from rankql.output.report_elements import ReportTable, Section
from rankql.output.report_source import ReportSource, parse_metric
from rankql.text import format_interval

if TYPE_CHECKING:
    from rankql.diagnostics.funnel_result import Funnel

# The largest number of lost items that are listed.
ITEMS = 10
# Options of compare that a funnel lacks, or has its own rule for.
_LEFT_OUT = ("by", "attributes", "output", "system", "undefined", "missing")


def make_funnel_section(source: ReportSource) -> Section | None:
    """Show what the stages before the compared runs lose, a funnel for each run."""
    if source.stages is None:
        return None
    section = Section("funnel", "Funnel")
    if source.runs is None:
        reason = source.reason.removeprefix("Not shown: ")
        raise RankqlError(f"stages: {reason} Compare the runs, or leave out the stages")
    if source.comparison.settings.weight is not None:
        section.notes = ["Not shown: funnel counts every query once, but these means are weighted."]
        return section
    systems = order_systems(source.comparison)
    funnels = {name: _compute_funnel(source, name) for name in systems[:PAIRS]}
    first = systems[0]
    items = _tabulate_items(source, first, funnels[first])
    section.tables = [_tabulate_losses(funnels), *items]
    section.remarks = [
        f"Pipeline that ends with {name}: {result.title}." for name, result in funnels.items()
    ]
    section.reading = [
        "The losses of a run sum to 1 minus its mean in this section. A stage loses what its items "
        "could have contributed in the best order. The last stage is the run itself, and "
        "order is what its items would gain in the best order."
    ]
    section.draw([draw_funnel(result, name) for name, result in funnels.items()])
    notes = (note for result in funnels.values() for note in result.notes)
    section.notes = list(dict.fromkeys([*_describe_rules(source, funnels), *notes]))
    if len(systems) > PAIRS:
        section.notes.append(f"Funnels of the best {PAIRS} of {len(systems)} systems are shown.")
    return section


def _describe_rules(source: ReportSource, funnels: dict[str, Funnel]) -> list[str]:
    """Say why means of the funnels are not those of the comparison, whose conventions differ."""
    result, rules = source.comparison.result, source.comparison.conventions
    rows = result.summary.filter(pl.col("slice") == "all")
    means = {(row["system"], row["metric"]): row["mean"] for row in rows.to_dicts()}
    others = []
    for name, each in funnels.items():
        metric, value = each.metric, each.result[each.metric]
        mean = means.get((name, metric))
        if value is not None and mean is not None and not math.isclose(value, mean, abs_tol=1e-9):
            others.append(f"{metric} of {name} is {value:.4f} here, but {mean:.4f} in Means")
    if not others:
        return []
    return [
        f"{'; '.join(others)}. A funnel counts every query with a relevant item, and as 0 if the "
        f"run lacks it. Means have undefined={rules['undefined']!r} and "
        f"missing={rules['missing']!r}."
    ]


def _compute_funnel(source: ReportSource, system: str) -> Funnel:
    """The funnel that ends with the run of a system."""
    stages, runs = source.stages or {}, source.runs
    assert runs is not None
    if system in stages:
        raise RankqlError(f"{system!r} is the name of a stage and of a run. Rename the stage")
    run, column = runs.runs, runs.keywords.get("system")
    if isinstance(run, dict):
        run = run[system]
    elif column is not None:
        rows = f"CAST({quote(run.actual_name(column))} AS VARCHAR) = {literal(system)}"
        run = replace(run, sql=f"(SELECT * FROM {run.sql} WHERE {rows})")
    metrics = filter(None, map(parse_metric, source.comparison.metrics))
    cutoffs = [m.k for m in metrics if m.record and m.record.name == "nDCG" and m.k]
    options: dict[str, Any] = {
        name: value for name, value in runs.keywords.items() if name not in _LEFT_OUT
    }
    return funnel({**stages, system: run}, runs.qrels, *cutoffs[:1], **options)


def _tabulate_losses(funnels: dict[str, Funnel]) -> ReportTable:
    short = shorten_names(funnels)
    body = [
        [
            short[name],
            row["stage"],
            format_interval([row[end] for end in ("loss", "lo", "hi")]),
            "" if row["recall"] is None else f"{row['recall']:.3f}",
            f"{row['lost']:,}",
            f"{row['added']:,}",
        ]
        for name, result in funnels.items()
        for row in result.table.filter(pl.col("slice") == "all").to_dicts()
    ]
    header = ["run", "stage", "loss", "recall", "relevant items lost", "items added"]
    metric = next(iter(funnels.values())).metric
    caption = f"The {metric} that each stage loses, with confidence intervals"
    return ReportTable(caption, [header, *body], frozenset((2, 3, 4, 5)))


def _tabulate_items(source: ReportSource, system: str, result: Funnel) -> list[ReportTable]:
    """The relevant items that the costliest stage loses, those with the highest grades."""
    losses = result.table.filter(pl.col("slice") == "all").drop_nulls("loss")
    if losses.is_empty():
        return []
    stage = losses.sort("loss", descending=True, maintain_order=True)["stage"][0]
    lost = result.items.filter(pl.col("lost_by") == stage)
    frame = lost.sort("rel", descending=True, maintain_order=True).head(ITEMS)
    if frame.is_empty():
        return []
    for role in ("query", "item"):
        texts = source.texts.label(role, frame[role])
        column = pl.col(role).cast(pl.String)
        frame = frame.with_columns(column.replace_strict(texts, default=column))
    caption = f"{system}: relevant items lost by {stage}, {len(frame):,} of {len(lost):,}"
    return [ReportTable.of(frame.drop("lost_by"), caption)]
