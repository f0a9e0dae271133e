"""The report's section on single queries: the largest losses and gains, and their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.diagnostics.contributions import EXPLAINED
from rankql.diagnostics.explain import explain_items
from rankql.output.chart_selection import select_pairs
from rankql.output.panels import shorten_names
from rankql.output.report_elements import Case, ReportTable, Section
from rankql.output.report_source import ReportSource, parse_metric
from rankql.text import format_cell, format_count

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The largest numbers of pairs, of queries that lost or gained, of items that moved a query, and of
# positions of a ranking.
PAIRS, QUERIES, MOVED, TOP = 3, 5, 8, 10


def make_queries_section(source: ReportSource) -> Section | None:
    """Show the queries that lost and gained most, and why."""
    comparison, runs = source.comparison, source.runs
    pairs = select_pairs(comparison)[:PAIRS]
    if not pairs:
        return None
    section = Section("queries", "Queries")
    if runs is None:
        section.notes = [source.reason]
        return section
    metric = _explainable_metric(comparison)
    if metric is None:
        section.notes = ["Not shown: no metric is a sum over positions, which could be explained."]
        return section
    section.reading = [
        f"The {QUERIES} queries that lose most and the {QUERIES} that gain most {metric}. The "
        "contribution of an item depends on its grade and its position. Its loss is how much "
        "more it would contribute in the ideal ranking. A dash as position means not retrieved."
    ]

    selected = [
        (a, b, title, rows)
        for a, b in pairs
        for title, rows in _select_queries(comparison, metric, a, b)
    ]
    queries = {row[0] for *_, rows in selected for row in rows}
    if not queries:
        section.notes = ["No query has a different value in two systems."]
        return section
    with source.errors_as_notes(section):
        items, formula = runs.call(explain_items, of=[*queries], metric=metric)
        cases = _Cases(
            metric,
            formula,
            items.with_columns(pl.col("query", "item").cast(pl.String)),
            source.texts.label("query", queries),
            source.texts.label("item", items["item"].drop_nulls().unique()),
        )
        for a, b, title, rows in selected:
            section.cases[title] = [cases.make(row, a, b) for row in rows]
    count = comparison.table.select("a", "b").n_unique()
    if count > len(pairs):
        section.notes.append(f"This section covers {len(pairs)} of {count:,} pairs.")
    return section


def _explainable_metric(comparison: Comparison) -> str | None:
    """Return the first metric that is a sum over positions."""
    metrics = filter(None, map(parse_metric, comparison.metrics))
    return next((m.name for m in metrics if m.record and m.record.name in EXPLAINED), None)


def _select_queries(
    comparison: Comparison, metric: str, a: str, b: str
) -> Iterator[tuple[str, list[Any]]]:
    """Return the titles and queries of the largest losses and of the largest gains."""
    frame = comparison.differences(metric, a, b)
    frame = frame.select(frame.columns[0], "a", "b", "difference")
    gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
    yield f"{b} loses most against {a}", frame.filter(gain < 0).head(QUERIES).rows()
    yield f"{b} gains most against {a}", frame.filter(gain > 0).tail(QUERIES).reverse().rows()


@dataclass(frozen=True)
class _Cases:
    """The rankings of the displayed queries, and the labels of queries and items."""

    metric: str
    formula: str
    items: pl.DataFrame
    query_labels: Mapping[str, str]
    item_labels: Mapping[str, str]

    def make(self, row: Sequence[Any], a: str, b: str) -> Case:
        """Show a query: the items that moved it, and the top of both rankings."""
        query, of_a, of_b, difference = row
        rankings = [self.items.filter(system=name, query=str(query)) for name in (a, b)]
        moved = self._list_moved(*rankings)
        more, short = len(moved) - MOVED, shorten_names([a, b])
        header = ["item", "grade", *(f"position in {short[name]}" for name in (a, b)),
                  short[a], short[b], "change"]  # fmt: skip
        caption = f"Items that moved query {query}: contributions"
        note = f"{format_count(more, 'more item')} moved it less." if more > 0 else ""
        tables = [
            ReportTable(caption, [header, *moved[:MOVED]], frozenset(range(1, 7)), note),
            self._tabulate_top(rankings[0], f"{a}: {self.metric} {of_a:.4f}"),
            self._tabulate_top(rankings[1], f"{b}: {self.metric} {of_b:.4f}"),
        ]
        return Case(self.query_labels[str(query)], of_a, of_b, difference, tables)

    def _list_moved(self, a: pl.DataFrame, b: pl.DataFrame) -> list[list[str]]:
        """Return a row for each item whose contribution differs, the largest change first."""
        old, new = (
            ranking.drop_nulls("item")
            .group_by("item", maintain_order=True)
            .agg(pl.col("pos", "rel").first(), pl.col("contribution").sum())
            for ranking in (a, b)
        )
        change = pl.col("contribution_right") - pl.col("contribution")
        rows = (
            old.join(new, on="item", how="full", coalesce=True, maintain_order="left_right")
            .with_columns(pl.col("^contribution.*$").fill_null(0), pl.coalesce("rel", "rel_right"))
            .with_columns(change=change)
            .filter(pl.col("change").abs() > 1e-9)
            # Rounded, because the last bits of a sum depend on the order of its threads.
            .sort(pl.col("change").abs().round(9), descending=True, maintain_order=True)
            .select("item", "rel", "^pos.*$", "^contribution.*$", "change")
            .rows()
        )
        return [
            [self.item_labels[item], _format_grade(rel), _format_pos(pos_a), _format_pos(pos_b),
             f"{value_a:.4f}", f"{value_b:.4f}", f"{change:+.4f}"]
            for item, rel, pos_a, pos_b, value_a, value_b, change in rows
        ]  # fmt: skip

    def _tabulate_top(self, ranking: pl.DataFrame, title: str) -> ReportTable:
        """Tabulate the top of a ranking."""
        frame = ranking.select("pos", "item", "rel", "contribution", "loss")
        rows = [
            [f"{pos:,}", self.item_labels[item], _format_grade(rel), *map(format_cell, values)]
            for pos, item, rel, *values in frame.drop_nulls(["pos", "item"]).head(TOP).rows()
        ]
        header = ["position", "item", "grade", "contribution", "loss"]
        return ReportTable(f"{title}; {self.formula}", [header, *rows], frozenset((0, 2, 3, 4)))


def _format_pos(pos: int | None) -> str:
    return "–" if pos is None else f"{pos:,}"


def _format_grade(rel: Any) -> str:
    return "unjudged" if rel is None else f"{rel:g}" if isinstance(rel, float) else str(rel)
