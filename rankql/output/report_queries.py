"""The section of the report on single queries: those that lost and gained most, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polars as pl

from rankql.diagnostics.contributions import EXPLAINED
from rankql.diagnostics.explain import explain
from rankql.diagnostics.explanation import Explanation
from rankql.output.chart_selection import select_pairs
from rankql.output.report_elements import Case, ReportTable, Section
from rankql.output.report_source import (
    NO_SOURCE,
    SOURCE_ERRORS,
    describe_source_error,
    parse_metric,
)
from rankql.text import format_cell

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The largest numbers of pairs, of queries that lost or gained, of items that moved a query, and of
# positions of a ranking.
PAIRS, QUERIES, MOVED, TOP = 3, 5, 8, 10

Explain: TypeAlias = Callable[[str, Any], Explanation]


def make_queries_section(comparison: Comparison) -> Section | None:
    """Show the queries that lost and gained most, and why."""
    pairs = select_pairs(comparison)[:PAIRS]
    if not pairs:
        return None
    section = Section("queries", "Which queries, and why?", "Queries")
    source = comparison.source
    if source is None:
        section.notes = [NO_SOURCE]
        return section
    metric = _explainable_metric(comparison)
    if metric is None:
        section.notes = ["None of the metrics is a sum over positions, which could be explained."]
        return section
    section.reading = [
        f"The {QUERIES} queries that lose most and the {QUERIES} that gain most {metric}. An item "
        "contributes to the value by its grade where it stands; its loss is what it would "
        "contribute more in the ideal ranking. No position: it is not retrieved, or does not count."
    ]

    @cache
    def explain_query(system: str, query: Any) -> Explanation:
        explanation: Explanation = source.call(explain, system, of=query, metric=metric)
        return explanation

    try:
        for a, b in pairs:
            for title, rows in _select_queries(comparison, metric, a, b):
                section.cases[title] = [_make_case(row, a, b, explain_query) for row in rows]
    except SOURCE_ERRORS as error:
        section.notes.append(describe_source_error(error))
    count = comparison.table.select("a", "b").n_unique()
    if count > len(pairs):
        section.notes.append(f"Of {count:,} pairs {len(pairs)} are looked into.")
    return section


def _explainable_metric(comparison: Comparison) -> str | None:
    """Return the first metric that is a sum over positions."""
    metrics = filter(None, map(parse_metric, comparison.metrics))
    return next((m.name for m in metrics if m.record and m.record.name in EXPLAINED), None)


def _select_queries(
    comparison: Comparison, metric: str, a: str, b: str
) -> Iterator[tuple[str, list[Any]]]:
    """Return a title and the queries with their values, for those that lost and that gained."""
    frame = comparison.differences(metric, a, b)
    frame = frame.select(frame.columns[0], "a", "b", "difference")
    gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
    yield f"{b} loses most against {a}", frame.filter(gain < 0).head(QUERIES).rows()
    yield f"{b} gains most against {a}", frame.filter(gain > 0).tail(QUERIES).reverse().rows()


def _make_case(row: Any, a: str, b: str, explain_query: Explain) -> Case:
    """Show a query: the items that moved it, and the top of both rankings."""
    query, of_a, of_b, difference = row
    explanations = {system: explain_query(system, query) for system in (a, b)}
    moved = _list_moved(*map(_sum_by_item, explanations.values()))
    more = len(moved) - MOVED
    header = ["item", "grade", f"position in {a}", f"position in {b}", a, b, "change"]
    tables = [
        ReportTable(
            f"Items that moved query {query}: what each contributes",
            [header, *moved[:MOVED]],
            frozenset(range(1, 7)),
            f"Left out as moving it less: {more}." if more > 0 else "",
        ),
        *(_tabulate_top(explanation, system) for system, explanation in explanations.items()),
    ]
    return Case(str(query), of_a, of_b, difference, tables)


class _Contribution(NamedTuple):
    pos: int | None = None
    rel: float | None = None
    value: float = 0.0


def _sum_by_item(explanation: Explanation) -> dict[Any, _Contribution]:
    """Return the first position of each item, its grade, and the sum of its contributions."""
    items: dict[Any, _Contribution] = {}
    columns = ("item", "pos", "rel", "contribution")
    for item, pos, rel, value in explanation.table.select(columns).rows():
        if item is not None:
            first = items.get(item, _Contribution(pos, rel))
            items[item] = first._replace(value=first.value + (value or 0.0))
    return items


def _list_moved(a: dict[Any, _Contribution], b: dict[Any, _Contribution]) -> list[list[str]]:
    """Return a row for each item whose contribution differs, the largest change first."""
    rows = []
    for item in {**a, **b}:
        old, new = a.get(item, _Contribution()), b.get(item, _Contribution())
        change = new.value - old.value
        if abs(change) > 1e-9:
            grade = old.rel if old.rel is not None else new.rel
            row = [str(item), _format_grade(grade), _format_pos(old.pos), _format_pos(new.pos),
                   f"{old.value:.4f}", f"{new.value:.4f}", f"{change:+.4f}"]  # fmt: skip
            rows.append((change, row))
    return [row for _, row in sorted(rows, key=lambda each: -abs(each[0]))]


def _tabulate_top(explanation: Explanation, system: str) -> ReportTable:
    """Tabulate the top of the ranking of a system."""
    columns = ("pos", "item", "rel", "contribution", "loss")
    frame = explanation.table.select(columns).filter(pl.col("item").is_not_null())
    rows = [
        [_format_pos(pos), str(item), _format_grade(rel), format_cell(value), format_cell(loss)]
        for pos, item, rel, value, loss in frame.drop_nulls("pos").sort("pos").head(TOP).rows()
    ]
    value = "undefined" if explanation.value is None else f"{explanation.value:.4f}"
    header = ["position", "item", "grade", "contribution", "loss"]
    caption = f"{system}: {explanation.metric} {value}; {explanation.formula}"
    return ReportTable(caption, [header, *rows], frozenset((0, 2, 3, 4)))


def _format_pos(pos: int | None) -> str:
    return "–" if pos is None else f"{pos:,}"


def _format_grade(rel: Any) -> str:
    return "unjudged" if rel is None else f"{rel:g}" if isinstance(rel, float) else str(rel)
