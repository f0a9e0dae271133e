"""A comparison as an HTML page: its sections, and the page with its scripts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

import rankql
from rankql.core.base import text
from rankql.core.base.errors import RankqlError
from rankql.core.base.results import Block, make_block, require_charts
from rankql.core.metrics.macros import quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import is_metric, parse_any
from rankql.core.stats.means import ROUNDING
from rankql.core.tables.reading import open_runs
from rankql.core.tables.request import EvaluationOptions
from rankql.core.tables.session import open_session
from rankql.decisions.gate import gate_comparison
from rankql.decisions.pair_table import orient_pairs
from rankql.diagnostics.explain import EXPLAINED, explain_items
from rankql.diagnostics.min_scores import FALSE_ABSTENTION, FALSE_ANSWER, min_scores
from rankql.pages import charts
from rankql.pages.charts import METRICS, select_pairs
from rankql.pages.page import bundle_vega, read_file, render_page
from rankql.pages.panels import CONFIG, SCHEMA, Spec, shorten_names

if TYPE_CHECKING:
    from rankql.core.evaluation.result.result import Result
    from rankql.decisions.comparison import Comparison


def render_report(
    comparison: Comparison, title: str | None, date: str | None, texts: Any, max_drop: Any
) -> str:
    """Render the report as HTML, the same on every day except for the date."""
    require_charts()
    import jinja2
    import markupsafe

    with open_source(comparison, Texts(texts)) as source:
        made = [make(source) for make in SECTIONS]
        for make in SECTIONS_OF_RUNS:
            with suppress(*ERRORS):
                made.append(make(source))
    sections = [*filter(None, made)]
    if max_drop:
        gate = gate_comparison(comparison, max_drop)
        sections.insert(0, Section("gate", gate.title, gate._rendered()))
    specs = {figure.id: figure.spec for section in sections for figure in section.figures}
    environment = jinja2.Environment(
        autoescape=True,
        finalize=text.show_controls,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    def format_block(block: Block, **options: Any) -> markupsafe.Markup:
        block = block.cut()
        return markupsafe.Markup(text.format_html(block.rows, block.right, block.title, **options))

    def link(words: str) -> str:
        return str(jinja2.utils.urlize(text.show_controls(words), rel="noreferrer"))

    environment.filters["table"] = format_block
    environment.filters["linked_table"] = lambda block: format_block(block, escape=link)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    queries = comparison.result.frame()[comparison.result.meta.query]
    count, systems = text.format_queries(queries.n_unique()), comparison.systems
    number = text.format_count(len(systems), "system")
    today = datetime.now(UTC).date().isoformat()
    facts = [count, number, date or today, f"rankql {rankql.__version__}"]
    settings = asdict(comparison.settings).items()
    several = "Comparison" if len(systems) > 1 else "Evaluation"
    names = systems if len(systems) < 5 else [number]
    title = f"{several} of {text.join_words(names)}" if title is None else title
    body = environment.from_string(read_file("report.html.j2")).render(
        title=title,
        facts=facts,
        verdict=f"{comparison.title}.",
        sections=sections,
        remarks=[
            ("Settings", ", ".join(f"{k}={v}" for k, v in settings if v is not None)),
            *((remark.heading, remark.words) for remark in comparison.remarks()),
        ],
        sql=comparison.result.sql.strip(),
        charts={"config": CONFIG, "specs": specs},
    )
    return render_page(title, body, [bundle_vega(), read_file("report.js")])


# So many slices are named with their best system.
SLICES_NAMED = 6
# The largest numbers of pairs, of queries that lost or gained, of items that moved a query, and of
# positions of a ranking.
PAIRS, QUERIES, MOVED, TOP = 3, 5, 8, 10


def make_cases_section(source: ReportSource) -> Section | None:
    """Show the queries that lost and gained most, and why."""
    comparison, runs = source.comparison, source.comparison.source
    pairs = select_pairs(comparison)[:PAIRS]
    if not pairs:
        return None
    section = Section("cases", "Largest losses and gains")
    if runs is None:
        section.notes = [source.reason]
        return section if source.reason else None
    metrics = filter(None, map(parse_metric, comparison.metrics))
    metric = next((m.name for m in metrics if m.record and m.record.name in EXPLAINED), None)
    if metric is None:
        return None
    section.reading = [
        f"The {QUERIES} queries that lose most and the {QUERIES} that gain most {metric}. The "
        "contribution of an item depends on its grade and its position. Its loss is how much "
        "more it would contribute in the ideal ranking. A dash as position means not retrieved."
    ]

    gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
    selected = list[Any]()
    for a, b in pairs:
        frame = comparison.differences(metric, a, b)
        frame = frame.select(frame.columns[0], "a", "b", "difference")
        gains = frame.filter(gain > 0).tail(QUERIES).reverse()
        selected.append((a, b, f"{b} loses most against {a}", frame.filter(gain < 0).head(QUERIES)))
        selected.append((a, b, f"{b} gains most against {a}", gains))
    queries = {row[0] for *_, rows in selected for row in rows.rows()}
    if not queries:
        section.notes = ["No query has a different value in two systems."]
        return section
    for option in ("seen", "min_score"):
        if runs.keywords.get(option) is not None:
            left = f"Not shown: {option}= leaves items out. Leave them out of the runs instead."
            section.notes = [left]
            return section
    left_out = ("by", "attributes", "output", "train", "catalogue", "seen", "min_score")
    keywords = {name: x for name, x in runs.keywords.items() if name not in left_out}
    keywords |= {"of": [*queries], "metric": metric}
    items, formula = explain_items(runs.runs, runs.qrels, **keywords)
    items = items.with_columns(pl.col("query", "item").cast(pl.String))
    labels = source.texts.label("item", items["item"].drop_nulls().unique())
    queries_shown = source.texts.label("query", queries)

    def make_case(a: str, b: str, row: tuple[Any, ...]) -> Case:
        """Show a query: the items that moved it, and the top of both rankings."""
        query, of_a, of_b, difference = row
        rankings = [items.filter(system=name, query=str(query)) for name in (a, b)]
        moved, short = _list_moved(labels, *rankings), shorten_names([a, b])
        header = ["item", "grade", *(f"position in {short[name]}" for name in (a, b)),
                  short[a], short[b], "change"]  # fmt: skip
        caption = f"Items that moved query {query}: contributions"
        if (more := len(moved) - MOVED) > 0:
            caption += f"; {text.format_count(more, 'more item')} moved it less"
        tables = [Block([header, *moved[:MOVED]], range(1, 7), caption)]
        for name, ranking, value in zip((a, b), rankings, (of_a, of_b), strict=True):
            frame = ranking.select("pos", "item", "rel", "contribution", "loss")
            rows = [
                [f"{pos:,}", labels[item], _format_grade(rel), *map(text.format_cell, values)]
                for pos, item, rel, *values in frame.drop_nulls(["pos", "item"]).head(TOP).rows()
            ]
            header = ["position", "item", "grade", "contribution", "loss"]
            title = f"{name}: {metric} {value:.4f}; {formula}"
            tables.append(Block([header, *rows], (0, 2, 3, 4), title))
        return Case(queries_shown[str(query)], of_a, of_b, difference, tables)

    for a, b, title, rows in selected:
        section.cases[title] = [make_case(a, b, row) for row in rows.rows()]
    return section


def _list_moved(labels: Mapping[str, str], a: pl.DataFrame, b: pl.DataFrame) -> list[list[str]]:
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
        [labels[item], _format_grade(rel),
         *("–" if pos is None else f"{pos:,}" for pos in (pos_a, pos_b)),
         f"{value_a:.4f}", f"{value_b:.4f}", f"{change:+.4f}"]
        for item, rel, pos_a, pos_b, value_a, value_b, change in rows
    ]  # fmt: skip


def _format_grade(rel: Any) -> str:
    return "unjudged" if rel is None else f"{rel:g}" if isinstance(rel, float) else str(rel)


# Of so many metrics the means by cutoff are drawn.
CUTOFF_METRICS = 3


def make_means_section(source: ReportSource) -> Section | None:
    """Show the means of the systems; those of a pair are in the table of differences."""
    comparison = source.comparison
    if len(comparison.systems) == 2 and select_pairs(comparison):
        return None
    caption = comparison.method.rpartition("; ")[2] if select_pairs(comparison) else ""
    caption = f"{caption[:1].upper()}{caption[1:]}" or comparison.caption
    blocks, best = comparison._rendered(), _describe_best(comparison.result)
    if len(blocks) == 1:
        only = replace(blocks[0], title=blocks[0].title or caption)
        section = Section("means", "Means", [only], reading=best)
    else:
        header = blocks[0].rows[0]  # attributes, the number of queries, and systems
        n = header.index("queries")
        rows = [[text.Name(block.title), *block.rows[1][n:]] for block in blocks]
        every = Block([["metric", *header[n:]], *rows], range(1, len(header)), caption)
        section = Section("means", "Means", [every], blocks, "Means by slice", best)
    for name in comparison.metrics[:METRICS]:
        section.draw(charts.draw_means_over_time(comparison, name)[1])
    return section


def _describe_best(result: Result) -> list[str]:
    """The system with the best mean of the first metric in each slice, where they differ."""
    metric, place = result.metrics[0], {x: i for i, x in enumerate(result.best_first)}
    rows = result.summary.filter(metric=metric).drop_nulls("mean").to_dicts() if place else []
    sign, best = 1 if result.lower_is_better(metric) else -1, dict[str, str]()
    for row in sorted(rows, key=lambda x: (sign * x["mean"], place[x["system"]])):
        best.setdefault(row["slice"], row["system"])
    if len({*best.values()}) < 2 or "all" not in best:
        return []
    named = [f"{best[x]} in {x}" for x in dict.fromkeys(x["slice"] for x in rows) if x != "all"]
    return [f"Best by {metric}: {best['all']}; {text.join_some(named, SLICES_NAMED)}."]


def make_differences_section(source: ReportSource) -> Section | None:
    """Show the differences of pairs and slices with their intervals."""
    comparison = source.comparison
    pairs, count = select_pairs(comparison), comparison.pairs["slice"].n_unique()
    if not pairs:
        return None
    section = Section("differences", "Differences")
    pair = pl.format("{} − {}", "b", "a").alias("pair")
    if len(comparison.systems) == 2:
        section.tables = [replace(x, title=comparison.caption) for x in comparison._rendered()]
    else:
        columns = ["metric", "difference", "lo", "hi", "p_adjusted", "verdict"]
        frame = orient_pairs(comparison.pairs, pairs).filter(slice="all").select(pair, *columns)
        section.tables = [
            make_block(frame.rename({"p_adjusted": "p"}), "Differences over all queries")
        ]
    section.folded = [make_block(comparison.visible_pairs().select(pair, pl.all()), "Every pair")]
    section.folded_title = f"All columns for every pair{' and slice' * (count > 1)}"
    section.reading = [
        "Each dot is a mean difference and the bar its confidence interval. It has the colour of "
        "the system that is significantly better, and is grey if none is."
    ]
    drawn = [name for name in comparison.metrics if name not in source.same][:METRICS]
    section.draw([panel for name in drawn for panel in charts.draw_slices(comparison, name)])
    if source.same:
        section.notes.append(f"The same in all systems, not drawn: {text.join_words(source.same)}.")
    of_dates = len(charts.find_dated_slices(comparison)[1])
    if count - of_dates > (slices := charts.count_slices(comparison)):
        section.notes.append(f"The charts show the first {slices} of {count - of_dates:,} slices.")
    if (total := comparison.pairs.select("a", "b").n_unique()) > len(pairs):
        which = f"each system against {pairs[0][0]}"
        section.notes.append(f"The table and charts show {which}: {len(pairs)} of {total:,} pairs.")
    return section


# Metrics with more different values, NULL among them, have a chart of the values per query.
FEW_VALUES = 3


def make_queries_section(source: ReportSource) -> Section | None:
    """Show the values of the queries, and what every query gained or lost."""
    comparison, directed = source.comparison, source.comparison.higher_is_better
    left_out = {*comparison.result.overall_metrics, *source.same}
    left_out |= {name for name, higher in directed.items() if higher is None}
    metrics = [name for name in comparison.metrics if name not in left_out][:METRICS]
    pairs = select_pairs(comparison)
    if not metrics:
        return None
    section = Section("queries", "Queries")
    # The means say it all of few different values, and what each query gained says more of a pair.
    values = comparison.result.frame()
    spread = [name for name in metrics if values[name].n_unique() > FEW_VALUES]
    spread = spread[:1] if pairs else spread
    section.draw([charts.draw_distribution(comparison, name) for name in spread])
    if spread:
        section.reading = ["A line shows the share of queries by value, in classes of one width."]
    if not pairs:
        return section if spread else None
    section.reading += ["Each bar is a query, in the colour of the system that does better on it."]
    queries = values[comparison.result.meta.query].unique()
    texts = source.texts.find("query", queries)
    drawn = itertools.product(metrics, pairs[: charts.PAIRS])
    section.draw([charts.draw_differences(comparison, x, *pair, texts) for x, pair in drawn])
    if (step := charts.count_step(len(queries))) > 1:
        section.reading.append(
            f"There are {len(queries):,} queries, so one in {step:,} is drawn, by rank of its gain."
        )
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
    if comparison.source is None:
        section.notes = [source.reason]
        return section if source.reason else None
    section.reading = ["The mean by cutoff k: the number of top positions that count. Bands are "
                       "confidence intervals."]  # fmt: skip
    frames = charts.compute_cutoffs(comparison, [*names][:CUTOFF_METRICS])
    section.draw([charts.draw_cutoffs(comparison, *each) for each in frames.items()])
    return section


def make_min_scores_section(source: ReportSource) -> Section | None:
    """Show the means by lowest score, of one run that is asked for false answers."""
    comparison, runs = source.comparison, source.comparison.source
    asked = not {FALSE_ANSWER, FALSE_ABSTENTION}.isdisjoint(comparison.metrics)
    if runs is None or len(comparison.systems) > 1 or not asked:
        return None
    names = {*EvaluationOptions.__optional_keys__, "con"}
    options = {name: value for name, value in runs.keywords.items() if name in names}
    result = min_scores(runs.runs, runs.qrels, comparison.metrics, **options)
    section = Section("min-scores", "Lowest scores", notes=result.notes[:1])
    section.reading = ["The means if only items with at least this score are shown."]
    section.draw([charts.draw_min_scores(result)])
    return section


SECTIONS = (make_means_section, make_differences_section, make_queries_section)
# They evaluate the runs again, and are left out if that fails.
SECTIONS_OF_RUNS = (make_cutoffs_section, make_min_scores_section, make_cases_section)


# The largest number of charts in a section.
PANELS = 12


@dataclass
class Section:
    """A part of the page, in the order in which it is shown."""

    id: str
    title: str
    tables: list[Block] = field(default_factory=list)
    # Tables that are folded, and their title.
    folded: list[Block] = field(default_factory=list)
    folded_title: str = ""
    reading: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    # The number of charts that the page leaves out.
    beyond: int = 0

    def draw(self, panels: Sequence[Spec]) -> None:
        """Add the charts that have rows."""
        drawn = [panel for panel in panels if panel["data"]["values"]]
        room = PANELS - len(self.figures)
        self.beyond += len(drawn[room:])
        for panel in drawn[:room]:
            title, finding = panel["title"], panel["description"]
            # The page has the words and the configuration.
            left_out = ("title", "description", "config")
            spec = {name: panel[name] for name in panel if name not in left_out}
            spec["$schema"] = SCHEMA
            # As wide as there is room.
            spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
            rows = pl.DataFrame(panel["data"]["values"], infer_schema_length=None)
            data = make_block(rows, f"{title}: data")
            name = f"{self.id}-{len(self.figures) + 1}"
            self.figures.append(Figure(name, title, spec, finding, data))


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    id: str
    title: str
    spec: Spec
    finding: str
    data: Block


@dataclass(frozen=True)
class Case:
    """A query, the items that moved its value, and the rankings side by side."""

    query: str
    a: float
    b: float
    difference: float
    tables: list[Block]


# Errors of runs that are read again.
ERRORS = (RankqlError, duckdb.Error, pl.exceptions.PolarsError, OSError)

_NO_RUNS = "Not shown: the runs are needed, but the comparison was made from results."


@dataclass(frozen=True)
class ReportSource:
    """What the sections of a report are made from."""

    comparison: Comparison
    texts: Texts
    # Why the comparison has no runs; '' if they cannot be read again.
    reason: str

    @cached_property
    def same(self) -> list[str]:
        """The metrics that no query has a different value of in two systems."""
        pairs = self.comparison.pairs
        differs = pl.sum_horizontal(pl.col("difference").abs() > ROUNDING, "wins", "losses") > 0
        names = {*pairs.drop_nulls("difference")["metric"]} - {*pairs.filter(differs)["metric"]}
        return [x for x in self.comparison.metrics if x in names]


@contextmanager
def open_source(comparison: Comparison, texts: Texts) -> Iterator[ReportSource]:
    """Open the compared runs once for all sections."""
    runs, reason = comparison.source, _NO_RUNS
    with ExitStack() as stack:
        try:
            if runs:
                con = runs.keywords.get("con")
                session = stack.enter_context(open_session(con, runs.runs, runs.qrels))
                qrels = None if runs.qrels is None else session.table(runs.qrels, "qrels")
                keywords = {**runs.keywords, "con": session.con}
                opened = open_runs(session, runs.runs)
                runs = replace(runs, runs=opened, qrels=qrels, keywords=keywords)
        except ERRORS:
            runs, reason = None, ""
        yield ReportSource(replace(comparison, source=runs), texts, reason)


def parse_metric(name: str) -> Metric | None:
    """Return the metric of a name, None for an expression of the user."""
    return parse_any(name)[0] if is_metric(name) else None


ROLES = ("query", "item")
# Names of the column of texts, the likeliest first.
_COLUMNS = ("text", "title", "name", "query", "question", "description", "url")
# Longer texts are cut.
LENGTH = 160


class Texts:
    """Finds texts by id, in `{"query": ..., "item": ...}`: each a dict, a frame or a file."""

    def __init__(self, sources: Mapping[str, Any] | None) -> None:
        if sources is not None and not (isinstance(sources, Mapping) and {*sources} <= {*ROLES}):
            raise RankqlError(
                f"texts must have the keys 'query' and 'item', not {str(sources)[:99]}. Pass "
                "texts={'query': 'titles.csv'} or texts={'item': 'titles.csv'}: a dict of id: "
                "text, a frame or a file with a column of ids and a column of texts"
            )
        self._sources = sources or {}
        for role, source in self._sources.items():
            if not isinstance(source, Mapping):
                _read(source, role, set())  # an error now, not in a section of the report

    def find(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return the known texts of these ids, each on one line."""
        names, source = {str(each) for each in ids}, self._sources.get(role)
        if source is None or not names:
            return {}
        rows = source.items() if isinstance(source, Mapping) else _read(source, role, names)
        return {
            str(key): line if len(line) <= LENGTH else f"{line[: LENGTH - 1].rstrip()}…"
            for key, text in rows
            if str(key) in names and text is not None and (line := " ".join(str(text).split()))
        }

    def label(self, role: str, ids: Iterable[Any]) -> dict[str, str]:
        """Return each id with its text."""
        ids = [*ids]
        texts = self.find(role, ids)
        return {str(x): f"{x}: {texts[str(x)]}" if str(x) in texts else str(x) for x in ids}


def _read(source: Any, role: str, names: set[str]) -> list[tuple[str, str]]:
    """Read the texts of these ids from a table."""
    label = f"texts[{role!r}]"
    with open_session(None, source) as session:
        table = session.table(source, label)
        columns = [*table.columns]
        if len(columns) < 2:
            raise RankqlError(f"{label} has one column. Expected a column of ids and one of texts.")
        key = table.find(role) or columns[0]
        rest = [name for name in columns if name != key]
        lower = {name.lower(): name for name in rest}
        text = next((lower[name] for name in _COLUMNS if name in lower), rest[0])
        session.con.execute(
            f"SELECT CAST({quote(key)} AS VARCHAR) AS id, CAST({quote(text)} AS VARCHAR) "
            f"FROM {table.sql} WHERE id IN (SELECT unnest($1))", [[*names]]
        )  # fmt: skip
        rows: list[tuple[str, str]] = session.con.fetchall()
        return rows
