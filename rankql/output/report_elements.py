"""What the page of the report is made of: sections with figures, cases and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.verdict import BETTER, NOT_SIGNIFICANT, WORSE
from rankql.output.chart_selection import order_systems, select_pairs
from rankql.output.panels import shorten_names
from rankql.output.specs import SCHEMA, Spec
from rankql.text import TableRows, format_interval, format_p, format_table

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# The largest numbers of rows of a chart's data, and of charts in a section.
DATA, PANELS = 100, 12


@dataclass
class Section:
    """A part of the page, in the order in which it is shown."""

    id: str
    title: str
    tables: list[ReportTable] = field(default_factory=list)
    all_pairs: ReportTable | None = None
    remarks: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    # The number of charts that the page leaves out.
    beyond: int = 0

    def draw(self, panels: Sequence[Spec]) -> None:
        """Add the charts that have rows."""
        for panel in panels:
            rows = panel["data"]["values"]
            if not rows:
                continue
            if len(self.figures) == PANELS:
                self.beyond += 1
                continue
            title, finding = panel["title"], panel["description"]
            # The page has the words and the configuration.
            left_out = ("title", "description", "config")
            spec = {name: panel[name] for name in panel if name not in left_out}
            spec["$schema"] = SCHEMA
            # As wide as there is room.
            spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
            data = ReportTable.of(pl.DataFrame(rows, infer_schema_length=None), f"{title}: data")
            name = f"{self.id}-{len(self.figures) + 1}"
            self.figures.append(Figure(name, title, spec, finding, data))


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    id: str
    title: str
    spec: Spec
    finding: str
    data: ReportTable


@dataclass(frozen=True)
class Case:
    """A query, the items that moved its value, and the rankings side by side."""

    query: str
    a: float
    b: float
    difference: float
    tables: list[ReportTable]


@dataclass(frozen=True)
class ReportTable:
    """A table of text, the header first; which columns are numbers, and what is left out."""

    caption: str
    rows: TableRows
    numbers: frozenset[int] = frozenset()
    note: str = ""

    @classmethod
    def of(cls, frame: pl.DataFrame, caption: str, most: int = DATA) -> ReportTable:
        """Make a table of a frame; of too many rows it shows the first and the last."""
        numbers = frozenset(i for i, kind in enumerate(frame.dtypes) if kind.is_numeric())
        count, note = len(frame), ""
        if count > most:
            note = f"{count - most:,} of {count:,} rows, in the middle, are not shown."
            frame = pl.concat([frame.head(most - most // 2), frame.tail(most // 2)])
        return cls(caption, format_table(frame), numbers, note)


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
    rows = comparison.pairs.filter(pl.col("slice") == "all").to_dicts()
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
    count, drawn = comparison.pairs.select("a", "b").n_unique(), len(select_pairs(comparison))
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
    if comparison.pairs.is_empty():
        return None
    return ReportTable.of(comparison.visible_pairs(), "Every pair", ROWS)
