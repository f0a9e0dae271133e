"""A comparison as one HTML file: what was found, then what lies behind it, in order of use."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.diagnostics.explanation import EXPLAINED, Explanation, explain
from rankql.diagnostics.limitations import Limits, limits
from rankql.errors import RankqlError, needs
from rankql.evaluation.writing import atomic_path
from rankql.registry.parse import Metric, parse

if TYPE_CHECKING:
    import altair as alt

    from rankql.decisions.comparison import Comparison

ENDINGS = (".html", ".md", ".csv", ".json", ".parquet")
# What the page shows; what is more is counted there, and stands in the other formats.
SENTENCES, SYSTEMS, ROWS, DATA, PANELS = 8, 60, 200, 100, 12
# Of so many pairs the queries that lost and gained most, the items that moved them, the tops.
PAIRS, QUERIES, MOVED, TOP = 3, 5, 8, 10
# What looking into the runs again may meet: they are gone, closed or changed.
GONE = (RankqlError, duckdb.Error, pl.exceptions.PolarsError, OSError)


def save(comparison: Comparison, path: Path, title: str | None, date: str | None) -> None:
    """Write a comparison to a file of the kind that its ending says."""
    kind = path.suffix.lower()
    if kind not in ENDINGS:
        raise RankqlError(f"{str(path)!r} must end in one of: {', '.join(ENDINGS)}")
    text = {
        ".html": lambda: page(comparison, title, date),
        ".md": lambda: _with_limits(comparison).to_markdown() + "\n",
        ".csv": lambda: show.csv(comparison.table),
        ".json": lambda: comparison.to_json() + "\n",
    }
    with atomic_path(path) as beside:
        if kind in text:
            beside.write_text(text[kind](), encoding="utf-8", newline="")
        else:
            comparison.table.write_parquet(beside)


def _with_limits(comparison: Comparison) -> Comparison:
    """The comparison with the limits of its numbers among its notes."""
    found = _limited(comparison)
    more = [] if isinstance(found, str) else found.notes
    return replace(comparison, notes=[*comparison.notes, *more])


def page(comparison: Comparison, title: str | None = None, date: str | None = None) -> str:
    """The report as HTML; the date alone differs from one run to the next."""
    for package in ("altair", "vl_convert"):
        needs(package, "report", "report")
    import altair as alt
    import jinja2

    from rankql.output.charts import CONFIG

    with alt.theme.enable("none"):  # whatever the user has chosen
        sections = [section for make in _SECTIONS if (section := make(comparison))]
    home = files("rankql")
    template, script = (
        (home / name).read_text(encoding="utf-8") for name in ("report.html.j2", "report.js")
    )
    scripts = [_vega(), script]
    specs = {figure.id: figure.spec for section in sections for figure in section.figures}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment.from_string(template).render(
        title=_title(comparison) if title is None else title,
        facts=[*_facts(comparison), date or datetime.now(UTC).date().isoformat(), _version()],
        lines=_lines(comparison),
        most=SENTENCES,
        tables=[*_means(comparison), *_found(comparison)],
        sections=sections,
        whole=_whole(comparison),
        remarks=[_settings(comparison), *(r.partition(": ")[::2] for r in comparison.remarks())],
        sql=comparison.result.sql.strip(),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
        charts={"config": CONFIG, "specs": specs},
    )


def _settings(comparison: Comparison) -> tuple[str, str]:
    given = asdict(comparison.settings).items()
    return "Settings", ", ".join(f"{name}={value}" for name, value in given if value is not None)


@cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed, put together in a few seconds."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle


def _hash(script: str) -> str:
    """What the Content-Security-Policy allows a script by."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _version() -> str:
    try:
        return f"rankql {version('rankql')}"
    except PackageNotFoundError:
        return "rankql"


# What the page is made of


@dataclass(frozen=True)
class Table:
    """A table of text, the header first; of the columns of numbers, and what it leaves out."""

    caption: str
    rows: show.Rows
    numbers: frozenset[int] = frozenset()
    note: str = ""

    @classmethod
    def of(cls, frame: pl.DataFrame, caption: str, most: int = DATA) -> Table:
        """The rows of a frame; of too many the first and the last."""
        numbers = frozenset(i for i, kind in enumerate(frame.dtypes) if kind.is_numeric())
        note = ""
        if len(frame) > most:
            note = (
                f"{len(frame) - most:,} of {len(frame):,} rows, those in the middle, are left out."
            )
            frame = pl.concat([frame.head(most - most // 2), frame.tail(most // 2)])
        return cls(caption, show.cells(frame), numbers, note)


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    id: str
    title: str
    spec: dict[str, Any]
    finding: str
    data: Table


@dataclass(frozen=True)
class Case:
    """A query, the items that moved its value, and the rankings side by side."""

    query: str
    a: float
    b: float
    difference: float
    tables: list[Table]


@dataclass
class Section:
    """A part of the page: how to read it, its charts, its queries, and what there is to say."""

    id: str
    title: str
    short: str
    reading: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    # Charts that are not drawn, for there are many.
    beyond: int = 0

    def draw(self, panels: Sequence[alt.LayerChart]) -> None:
        """Add charts, those that have rows."""
        for panel in panels:
            spec = panel.to_dict()
            rows = spec["datasets"].get(spec["data"]["name"])
            if not rows:
                continue
            title, finding = spec.pop("title"), spec.pop("description")
            spec.pop("config")
            if len(self.figures) == PANELS:
                self.beyond += 1
                continue
            # As wide as there is room.
            spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
            data = Table.of(pl.DataFrame(rows, infer_schema_length=None), f"{title}: data")
            name = f"{self.id}-{len(self.figures) + 1}"
            self.figures.append(Figure(name, title, spec, finding, data))


# The first screen


def _title(comparison: Comparison) -> str:
    base = comparison.settings.baseline
    names = [name for name in comparison.systems if name != base]
    if len(comparison.systems) == 1:
        return f"Evaluation of {comparison.systems[0]}"
    listed = show.listed(names) if len(names) <= 3 else f"{len(names)} systems"
    return f"{listed} compared" if base is None else f"{listed} against {base}"


def _facts(comparison: Comparison) -> Iterator[str]:
    result, systems = comparison.result, len(comparison.systems)
    queries = result.frame()[result.meta["query"]].n_unique()
    yield show.queries(queries)
    yield f"{systems} {'system' if systems == 1 else 'systems'}"


def _lines(comparison: Comparison) -> list[tuple[str, str]]:
    """The findings, each with its metric and slice.

    Pairs that are drawn come first; of the slices, those that contradict the overall finding.
    """
    from rankql.output.charts import pairs

    drawn = {*pairs(comparison)}
    rows = comparison.table.select("a", "b", "metric", "slice", "verdict", "sentence").rows()
    whole = {row[:3]: row[4] for row in rows if row[3] == "all"}
    place = {key: i for i, key in enumerate(whole)}
    said = [
        row for row in rows if row[3] == "all" or {row[4], whole[row[:3]]} == {"better", "worse"}
    ]
    said.sort(key=lambda row: (row[:2] not in drawn, place[row[:3]], row[3] != "all"))
    return [(row[2] if row[3] == "all" else f"{row[2]}, {row[3]}", row[5]) for row in said]


def _means(comparison: Comparison) -> Iterator[Table]:
    """The means of the systems by metric."""
    from rankql.output.charts import interval, ordered

    metrics, order = comparison.metrics, ordered(comparison)
    rows = comparison.summary.filter(pl.col("slice") == "all")
    known = {
        (system, metric): interval(bounds)
        for system, metric, *bounds in rows.select("system", "metric", "mean", "lo", "hi").rows()
    }
    level = f"{100 * comparison.settings.confidence:.12g}%"
    more = len(order) - SYSTEMS
    yield Table(
        f"Means with {level} intervals, best first",
        [["system", *metrics], *([s, *(known[s, m] for m in metrics)] for s in order[:SYSTEMS])],
        frozenset(range(1, 1 + len(metrics))),
        f"Left out, and in the charts: {more} systems." if more > 0 else "",
    )


_SIGNS = {"better": "▲ better", "worse": "▼ worse", "not significant": "≈ not significant"}


def _found(comparison: Comparison) -> Iterator[Table]:
    """The differences of the pairs that are drawn."""
    from rankql.output.charts import interval, pairs

    rows = comparison.table.filter(pl.col("slice") == "all").to_dicts()
    known = {(row["metric"], row["a"], row["b"]): row for row in rows}
    body = [
        [
            row["metric"],
            f"{row['b']} − {row['a']}",
            interval([row[name] for name in ("difference", "lo", "hi")], "+"),
            _p(row["p_adjusted"]),
            f"{row['wins']:,} / {row['ties']:,} / {row['losses']:,}",
            _SIGNS.get(row["verdict"], row["verdict"]),
        ]
        for metric in comparison.metrics
        for pair in pairs(comparison)
        if (row := known.get((metric, *pair)))
    ]
    if body:
        header = ["metric", "pair", "difference", "p", "wins / ties / losses", "verdict"]
        caption = "Differences with intervals; p is adjusted, wins are queries"
        note = " ".join(_chosen(comparison))
        yield Table(caption, [header, *body], frozenset((2, 3, 4)), note)


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def _chosen(comparison: Comparison) -> list[str]:
    """Which pairs are drawn, where not all are."""
    from rankql.output.charts import ordered, pairs

    every, drawn = comparison.table.select("a", "b").n_unique(), len(pairs(comparison))
    if every <= drawn:
        return []
    first = comparison.settings.baseline or ordered(comparison)[0]
    which = "those of" if comparison.settings.baseline else "those of the best,"
    return [
        f"Of {every:,} pairs {drawn} are drawn: {which} {first} with the best others by "
        f"{comparison.metrics[0]}. The whole table stands below."
    ]


def _whole(comparison: Comparison) -> Table | None:
    """All pairs and slices."""
    if comparison.table.is_empty():
        return None
    header, *body = comparison.rows()
    more = len(body) - ROWS
    note = f"{more:,} more rows: save the comparison as .csv or .parquet." if more > 0 else ""
    first = header.index("mean_a")
    numbers = frozenset(range(first, header.index("verdict")))
    return Table("Every pair", [header, *body[:ROWS]], numbers, note)


# The sections, in order of use


def _differences(comparison: Comparison) -> Section | None:
    from rankql.output import charts

    pairs, metrics = charts.pairs(comparison), _plain(comparison)
    if not pairs:
        return None
    section = Section("differences", "How large is the difference?", "Differences")
    section.reading = [
        "Each dot is a mean difference, the bar its interval: where it does not cross the line at "
        "0, the difference is significant. Below, each bar is a query: above 0 (or, where less "
        "is better, below) the system compared is better, in its colour; else the other one."
    ]
    section.draw([charts.intervals(comparison, metric) for metric in metrics])
    panels = [charts.differences(comparison, m, *pair) for m in metrics for pair in pairs]
    section.draw(panels)
    count = comparison.result.frame()[comparison.result.meta["query"]].n_unique()
    if count > charts.BARS:
        section.reading.append(
            f"Of {count:,} queries each of the {charts.BARS} bars is the mean of its neighbours."
        )
    section.notes = [*_chosen(comparison), *section.notes]
    return section


def _systems(comparison: Comparison) -> Section:
    from rankql.output import charts

    section = Section("systems", "How good are the systems?", "Systems")
    section.reading = [
        "Dots are means, bars their intervals. Two of these may overlap though the systems differ: "
        "they are compared on the same queries, so it is the intervals of the differences that "
        "tell. Below, a band is thick where many queries have that value; the mark is the median."
    ]
    metrics = comparison.metrics[: charts.METRICS]
    section.draw([charts.means(comparison, metric) for metric in metrics])
    section.draw([charts.distribution(comparison, metric) for metric in metrics])
    if charts.GREY in charts.colours(comparison).values():
        section.notes.append(
            f"{len(charts.PALETTE)} systems have a colour, the baseline and the best; the others "
            "are grey."
        )
    return section


def _slices(comparison: Comparison) -> Section | None:
    from rankql.output import charts

    parts = comparison.table["slice"].n_unique()
    if parts < 2:
        return _sliced_means(comparison)
    section = Section("slices", "Is it the same everywhere?", "Slices")
    section.reading = [
        "A panel per pair, a row per slice of the queries; bars are intervals. Slices with few "
        "queries have wide ones. All of them count in the correction of p."
    ]
    pairs = charts.pairs(comparison)
    section.draw(
        [charts.slices(comparison, m, *pair) for m in _plain(comparison) for pair in pairs]
    )
    if parts > charts.SLICES:
        section.notes.append(f"Of {parts} slices the first {charts.SLICES} are drawn.")
    section.notes += _chosen(comparison)
    return section


def _sliced_means(comparison: Comparison) -> Section | None:
    """Of one system the means by slice."""
    rows = comparison.summary.filter(pl.col("slice") != "all")
    if rows.is_empty() or len(comparison.systems) > 1:
        return None
    frame = rows.select("slice", "metric", "mean", "lo", "hi", "queries")
    section = Section("slices", "Is it the same everywhere?", "Slices")
    section.tables = [Table.of(frame, "Means by slice with their intervals", ROWS)]
    return section


def _cutoffs(comparison: Comparison) -> Section | None:
    from rankql.output import charts

    named = [_parsed(name) for name in comparison.metrics]
    able = [m for m in named if m and m.measure and "k" in m.measure.defaults]
    distinct = {(m.measure, str(m.options)): m.name for m in able}
    if not distinct:
        return None
    section = Section("cutoffs", "Does the cutoff matter?", "Cutoffs")
    source = comparison.source
    if source is None:
        section.notes = [_ABSENT]
        return section
    section.reading = [
        "The mean by the number of positions that count. Where lines cross, the choice of k "
        "decides which system is better."
    ]
    try:
        section.draw([charts.cutoffs(comparison, name) for name in [*distinct.values()][:3]])
    except GONE as error:
        section.notes.append(_gone(error))
    return section


def _queries(comparison: Comparison) -> Section | None:
    """The queries that lost and gained most, and why."""
    from rankql.output import charts

    pairs = charts.pairs(comparison)[:PAIRS]
    named = [_parsed(name) for name in comparison.metrics]
    able = [m.name for m in named if m and m.measure and m.measure.name in EXPLAINED]
    if not pairs:
        return None
    section = Section("queries", "Which queries, and why?", "Queries")
    source = comparison.source
    if source is None:
        section.notes = [_ABSENT]
        return section
    if not able:
        section.notes = ["None of the metrics is a sum over positions, which could be explained."]
        return section
    metric = able[0]
    section.reading = [
        f"The {QUERIES} queries that lose most and the {QUERIES} that gain most {metric}. An item "
        "contributes to the value by its grade where it stands; its loss is what it would "
        "contribute more in the ideal ranking. No position: it is not retrieved, or does not count."
    ]
    seen: dict[tuple[str, Any], Explanation] = {}

    def explained(system: str, query: Any) -> Explanation:
        if (system, query) not in seen:
            seen[system, query] = source.ask(explain, system, of=query, metric=metric)
        return seen[system, query]

    try:
        for a, b in pairs:
            frame = comparison.differences(metric, a, b)
            gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
            lost = frame.filter(gain < 0).head(QUERIES)
            won = frame.filter(gain > 0).tail(QUERIES).reverse()
            for words, part in (("loses", lost), ("gains", won)):
                section.cases[f"{b} {words} most against {a}"] = [
                    _case(row, a, b, explained)
                    for row in part.select(frame.columns[0], "a", "b", "difference").rows()
                ]
    except GONE as error:
        section.notes.append(_gone(error))
    every = comparison.table.select("a", "b").n_unique()
    if every > len(pairs):
        section.notes.append(f"Of {every:,} pairs {len(pairs)} are looked into.")
    return section


def _case(row: Any, a: str, b: str, explained: Callable[[str, Any], Explanation]) -> Case:
    query, of_a, of_b, difference = row
    sides = [_side(explained(system, query)) for system in (a, b)]
    items = dict.fromkeys(item for side in sides for item in side)
    moved = []
    for item in items:
        one, other = (side.get(item, _NOWHERE) for side in sides)
        change = other[2] - one[2]
        grade = one[1] if one[1] is not None else other[1]
        moved.append((change, [str(item), _grade(grade), _place(one[0]), _place(other[0]),
                               f"{one[2]:.4f}", f"{other[2]:.4f}", f"{change:+.4f}"]))  # fmt: skip
    moved = [(change, line) for change, line in moved if abs(change) > 1e-9]
    moved.sort(key=lambda each: -abs(each[0]))
    more = len(moved) - MOVED
    header = ["item", "grade", f"position in {a}", f"position in {b}", a, b, "change"]
    tables = [
        Table(
            f"Items that moved query {query}: what each contributes",
            [header, *(line for _, line in moved[:MOVED])],
            frozenset(range(1, 7)),
            f"Left out as moving it less: {more}." if more > 0 else "",
        ),
        *(_top(explained(system, query), system) for system in (a, b)),
    ]
    return Case(str(query), of_a, of_b, difference, tables)


_NOWHERE = (None, None, 0.0)


def _side(explanation: Explanation) -> dict[Any, tuple[int | None, float | None, float]]:
    """Of each item where it stands, its grade, and what it contributes."""
    found: dict[Any, tuple[int | None, float | None, float]] = {}
    columns = ("item", "pos", "rel", "contribution")
    for item, pos, rel, value in explanation.to_polars().select(columns).rows():
        if item is not None:
            first, grade, sum_ = found.get(item, (pos, rel, 0.0))
            found[item] = (first, grade, sum_ + (value or 0.0))
    return found


def _top(explanation: Explanation, system: str) -> Table:
    """The top of the ranking of a system."""
    columns = ("pos", "item", "rel", "contribution", "loss")
    frame = explanation.to_polars().select(columns).filter(pl.col("item").is_not_null())
    rows = [
        [_place(pos), str(item), _grade(rel), show.cell(value), show.cell(loss)]
        for pos, item, rel, value, loss in frame.drop_nulls("pos").sort("pos").head(TOP).rows()
    ]
    value = "undefined" if explanation.value is None else f"{explanation.value:.4f}"
    header = ["position", "item", "grade", "contribution", "loss"]
    caption = f"{system}: {explanation.metric} {value}; {explanation.formula}"
    return Table(caption, [header, *rows], frozenset((0, 2, 3, 4)))


def _place(pos: int | None) -> str:
    return "–" if pos is None else f"{pos:,}"


def _grade(rel: Any) -> str:
    return "unjudged" if rel is None else f"{rel:g}" if isinstance(rel, float) else str(rel)


def _limited(comparison: Comparison) -> Limits | str:
    """The limits of what was compared, or why there are none."""
    if comparison.source is None:
        return _ABSENT
    metrics = [name for name in comparison.metrics if _parsed(name)]
    try:
        found: Limits = comparison.source.ask(limits, metrics=metrics)
    except GONE as error:
        return _gone(error)
    return found


def _limits(comparison: Comparison) -> Section:
    from rankql.output import charts

    section = Section("limits", "What these numbers cannot say", "Limits")
    found = _limited(comparison)
    if isinstance(found, str):
        section.notes = [found]
        return section
    section.reading = [
        "Lines show what it changes, on average over the queries, to swap two neighbours: where it "
        "is high, the metric hangs on which of two items stands first."
    ]
    section.remarks = list(found.notes)
    drawn = found.sensitivity["metric"].unique(maintain_order=True)[: charts.METRICS]
    section.draw([charts.sensitivity(comparison, found.sensitivity, name) for name in drawn])
    return section


_SECTIONS: tuple[Callable[[Comparison], Section | None], ...] = (
    _differences, _systems, _slices, _cutoffs, _queries, _limits,
)  # fmt: skip

_ABSENT = "Absent: results were compared, not runs; compare the runs to look into them."


def _gone(error: BaseException) -> str:
    return f"Absent: the runs could not be looked into again: {str(error).splitlines()[0]}"


def _plain(comparison: Comparison) -> list[str]:
    """The metrics that are drawn by query: not those that are a mean over all at once."""
    from rankql.output.charts import METRICS

    weights = comparison.result.meta["weights"]
    return [name for name in comparison.metrics if name not in weights][:METRICS]


def _parsed(name: str) -> Metric | None:
    """The metric of a name; None where it is an expression of the user's."""
    try:
        return parse(name)[0]
    except RankqlError:
        return None
