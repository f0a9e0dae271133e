"""How far a metric can be trusted: what is undefined, unjudged, twice there, or moved by a swap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.diagnostics.explanation import DUST
from rankql.engines.evaluate import evaluate
from rankql.errors import RankqlError
from rankql.evaluation.arguments import DEFAULT_METRICS
from rankql.evaluation.ctes import ranking_ctes, source_ctes, with_ctes, with_source_ctes
from rankql.evaluation.metric_columns import mask_undefined, metric_call, rows_needed
from rankql.evaluation.overlap import format_examples
from rankql.evaluation.planning import resolve_conventions
from rankql.evaluation.query import build_query
from rankql.evaluation.result import Result
from rankql.evaluation.validation import evaluation_errors
from rankql.macros import MISSING, quoted
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import RATINGS, RELEVANT, Metric, parse
from rankql.sources.inputs import Inputs, open_runs, read_inputs
from rankql.sources.run import execute
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data

# The last swap that is looked at for a metric without a cutoff, and for one with a deep one.
SHALLOW, DEEP = 10, 100


def limits(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Limits:
    """How far the metrics of one or many runs can be trusted, each limit with a count.

    Takes what `evaluate` takes, and refuses what it refuses. The sensitivity of a metric to the
    position i is what a swap of neighbours changes in it::

        loss(i) = mean over the queries of |metric with the items at i and i + 1 swapped - metric|

    for i from 1 to its cutoff (at most 100; to 10 without one). Where nothing stands at i + 1, the
    item moves down to it. Bounds are those of unjudged='bounds', over the queries that
    the mean is over; the undefined queries that a judgment could define are counted.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> limits(run, qrels, "RR@2").sensitivity.rows()
    [('RR@2', 1, 0.5, 1), ('RR@2', 2, 0.5, 1)]
    """
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    chosen = choose(conventions, options)
    if chosen.unjudged == "bounds":
        options["unjudged"], chosen = "zero", replace(chosen, unjudged="zero")
    with open_session(con, run, qrels) as here:
        run = open_runs(here, run)
        qrels = None if qrels is None else here.table(qrels, "qrels")

        def evaluated(names: str | Sequence[str], **changed: Any) -> Result:
            said = {**columns, **options, **changed, "system": system, "conventions": conventions}
            said["descending"] = descending
            return evaluate(run, qrels, names, con=here.con, interval=None, **said)

        result = evaluated(metrics)
        given = read_inputs(here, run, qrels, None, columns, system, descending=descending)
        chosen, wanted = resolve_conventions(here, given, parse(metrics), chosen)
        found = Limits(result, [], *(_framed(result, name) for name in FRAMES))
        found.undefined = result.summary.select(
            *result.keys[:-1], "metric", "queries", "undefined"
        ).with_columns(share=pl.col("undefined") / pl.col("queries"))
        try:
            # As the items stand, those too that a convention would take out.
            ties = "item" if chosen.ties == "expected" else chosen.ties
            counted = {"unjudged": "zero", "undefined": "skip", "ties": ties}
            counts = evaluated(_counts(wanted, chosen), **counted)
            found.judged = _judged(counts, wanted)
            _bound(found, given, wanted, chosen, evaluated)
        except RankqlError as error:  # they look at more rows than the metrics may do
            counts = None
            found.notes.append(f"what is unjudged was not looked at: {error}")
        with evaluation_errors(here, given, chosen):
            _find_duplicates(found, here, given, chosen)
            _swap(found, here, given, wanted, chosen)
    found.notes = [*result.notes, *_notes(found, counts, wanted, chosen), *found.notes]
    return found


# The frames, with their columns.
FRAMES: dict[str, dict[str, Any]] = {
    "sensitivity": {
        "metric": pl.String,
        "position": pl.Int64,
        "loss": pl.Float64,
        "queries": pl.Int64,
    },
    "judged": {
        "k": pl.Int64,
        "judged": pl.Float64,
        "items": pl.Int64,
        "unjudged": pl.Int64,
        "queries": pl.Int64,
    },
    "bounds": {
        "metric": pl.String,
        "lo": pl.Float64,
        "mean": pl.Float64,
        "hi": pl.Float64,
        "undefined": pl.Int64,
    },
    "undefined": {
        "metric": pl.String,
        "queries": pl.Int64,
        "undefined": pl.Int64,
        "share": pl.Float64,
    },
    "duplicates": {"query": pl.String, "item": pl.String, "times": pl.Int64},
}


@dataclass(repr=False, eq=False)
class Limits(show.Plain):
    """How far metrics can be trusted: notes, and the frames that they are taken from.

    All frames have the column `system` first where there are several.
    """

    result: Result
    notes: list[str] = field(default_factory=list)
    # metric, position, loss, and the number of queries in which the swap changes anything.
    sensitivity: pl.DataFrame = field(default_factory=pl.DataFrame)
    # k (NULL: the whole ranking), judged (the metric Judged@k), the number of items there and of
    # those that are unjudged, and the queries that have such.
    judged: pl.DataFrame = field(default_factory=pl.DataFrame)
    # metric, lo, mean, hi, and the undefined queries that a judgment could define.
    bounds: pl.DataFrame = field(default_factory=pl.DataFrame)
    # metric, queries, undefined, share.
    undefined: pl.DataFrame = field(default_factory=pl.DataFrame)
    # query, item, times.
    duplicates: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions in force."""
        return self.result.conventions

    def to_dict(self) -> dict[str, Any]:
        """Notes, frames, conventions and columns as plain values."""
        frames = {name: getattr(self, name).to_dicts() for name in FRAMES}
        about = {"conventions": self.conventions, "columns": self.result.columns}
        return {"notes": self.notes, **frames, **about}

    def to_markdown(self) -> str:
        """The limits of each metric, and the notes, as Markdown."""
        return show.markdown(self.table(), self.remarks())

    def table(self) -> show.Rows:
        """One line per metric: its mean and bounds, the undefined queries, the swap that matters
        most; columns that say nothing are left out."""
        keys = [*self.result.keys[:-1], "metric"]
        bounds = self.bounds.select(*keys, "lo", "hi")
        rows = self.result.summary.select(*keys, "mean").join(
            bounds, on=keys, how="left", maintain_order="left"
        )
        rows = rows.with_columns(self.undefined["undefined"])
        worst = self._worst().select(*keys, swap=_SWAP, loss="loss")
        rows = rows.join(worst, on=keys, how="left", maintain_order="left")
        said = [name for name in rows.columns if rows[name].null_count() < len(rows)]
        return show.cells(rows.select(said))

    def remarks(self) -> list[str]:
        """What belongs under the table: conventions, columns, notes."""
        return replace(self.result, notes=self.notes).remarks()

    def __repr__(self) -> str:
        return show.text(self.table(), self.remarks())

    def _repr_html_(self) -> str:
        return show.as_html(self.table(), self.remarks())

    def _worst(self) -> pl.DataFrame:
        """Of each metric the swap that changes it most."""
        keys = [*self.result.keys[:-1], "metric"]
        most = pl.col("loss").max().over(keys)
        worst = self.sensitivity.filter(pl.col("loss") > 0, pl.col("loss") == most)
        return worst.unique(keys, keep="first", maintain_order=True)


_SWAP = pl.format("{}, {}", "position", pl.col("position") + 1)


def _systems(result: Result) -> list[str | None]:
    """The systems that there are; None alone where they have no names."""
    if not result.meta["system"]:
        return [None]
    return result.summary["system"].unique(maintain_order=True).to_list()


def _of(frame: pl.DataFrame, system: str | None) -> pl.DataFrame:
    return frame if system is None else frame.filter(pl.col("system") == system)


def _framed(result: Result, name: str, rows: Iterable[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """The rows of one of the frames; the system only where there are several."""
    systems = {"system": pl.String} if result.meta["system"] else {}
    return pl.DataFrame(list(rows), schema={**systems, **FRAMES[name]})


def _able(
    wanted: Sequence[Metric], what: str, why_not: Callable[[Metric], str]
) -> tuple[list[Metric], list[str]]:
    """The metrics that have something, and the notes on why the others have none."""
    reasons = {metric.name: why_not(metric) for metric in wanted}
    lacking: dict[str, list[str]] = {}
    for name, why in reasons.items():
        lacking.setdefault(why, []).append(name)
    lacking.pop("", None)
    notes = [f"no {what} of {show.listed(names)}: {why}" for why, names in lacking.items()]
    return [metric for metric in wanted if not reasons[metric.name]], notes


# What is unjudged


def _cutoffs(wanted: Sequence[Metric]) -> list[int | None]:
    """The cutoffs of the metrics, the whole ranking (None) last."""
    return [*sorted({m.k for m in wanted if m.k is not None}), None]


def _judged_at(k: int | None) -> str:
    return "Judged" if k is None else f"Judged@{k}"


def _relevant(metric: Metric, chosen: Conventions) -> str:
    return f"relevant from {metric.threshold(vars(chosen))}"


def _counts(wanted: Sequence[Metric], chosen: Conventions) -> list[str]:
    """What is counted in each query, as metrics of our own."""
    counts = {}
    for k in _cutoffs(wanted):
        within = "pos IS NOT NULL" if k is None else f"pos <= {k}"
        counts[f"items in {k}"] = f"count(*) FILTER (WHERE {within})"
        counts[f"unjudged in {k}"] = f"count(*) FILTER (WHERE {within} AND rel IS NULL)"
    for metric in wanted:
        threshold = metric.threshold(vars(chosen))
        counts[_relevant(metric, chosen)] = RELEVANT.format(threshold=threshold)
    names = [_judged_at(k) for k in _cutoffs(wanted)]
    return [*names, *(f"{name} = {sql}" for name, sql in counts.items())]


def _judged(counted: Result, wanted: Sequence[Metric]) -> pl.DataFrame:
    rows = []
    for system in _systems(counted):
        means = dict(_of(counted.summary, system).select("metric", "mean").rows())
        frame = _of(counted.frame(), system)
        for k in _cutoffs(wanted):
            unjudged = frame[f"unjudged in {k}"]
            rows.append(
                {
                    "system": system,
                    "k": k,
                    "judged": means[_judged_at(k)],
                    "items": int(frame[f"items in {k}"].sum()),
                    "unjudged": int(unjudged.sum()),
                    "queries": int((unjudged > 0).sum()),
                }
            )
    return _framed(counted, "judged", rows)


def _bound(
    found: Limits, given: Inputs, wanted: Sequence[Metric], chosen: Conventions, evaluated: Any
) -> None:
    """The bounds of the metrics that have them; why the others have none."""
    result = found.result
    unjudged = bool(found.judged["unjudged"].sum())
    able, lacking = _able(wanted, "bounds", lambda metric: _unbounded(given, metric, chosen))
    names = [metric.name for metric in able]
    if unjudged:
        found.notes += lacking
    # Where all is judged there is but one value, and no need to look for others.
    bounded = evaluated(names, unjudged="bounds") if names and unjudged else None
    rows = []
    for system in _systems(result):
        rows_of = _of((bounded or result).summary, system).to_dicts()
        summary = {row["metric"]: row for row in rows_of}
        for name in names:
            value, low, high = (
                summary[name + side if bounded else name] for side in ("", " low", " high")
            )
            row = {"lo": low["mean"], "mean": value["mean"], "hi": high["mean"]}
            opened = _openable(bounded, system, name) if bounded else 0
            rows.append({"system": system, "metric": name, **row, "undefined": opened})
    found.bounds = _framed(result, "bounds", rows)


def _openable(bounded: Result, system: str | None, name: str) -> int:
    """The number of queries that are undefined, and could be defined by further judgments."""
    frame = _of(bounded.frame(), system)
    return frame.filter(pl.col(name).is_null() & pl.col(f"{name} low").is_not_null()).height


def _unbounded(given: Inputs, metric: Metric, chosen: Conventions) -> str:
    """Why a metric has no bounds, if so: there is no query that finds them."""
    if chosen.unjudged == "remove":
        return "with unjudged='remove' what is unjudged is not in the ranking"
    try:
        build_query(given, [metric], replace(chosen, unjudged="bounds"))
    except RankqlError as error:
        return str(error).replace(f" for {metric.name}", "")
    return ""


# What is there twice


def _find_duplicates(found: Limits, here: Session, given: Inputs, chosen: Conventions) -> None:
    """The items that a ranking holds more than once, also those that cannot inflate a metric."""
    if not given.every("item"):
        found.notes.append("duplicates were not looked for: the run has no column of items")
        return
    place = "score" if given.scored else "pos"
    sql = f"""{with_source_ctes(given, chosen)}
        SELECT {given.keys}, item, count(*) AS times FROM run WHERE {place} IS NOT NULL
        GROUP BY ALL HAVING count(*) > 1 ORDER BY {given.keys}, item"""
    found.duplicates = execute(here, sql).pl()


# What a swap changes


def _swap(
    found: Limits, here: Session, given: Inputs, wanted: Sequence[Metric], chosen: Conventions
) -> None:
    """What each swap of neighbours changes, of all metrics in one pass over the data."""
    moved, lacking = _able(wanted, "sensitivity", lambda metric: _unmoved(metric, chosen))
    found.notes += lacking
    changes: dict[tuple[str | None, int], Sequence[Any]] = {}
    if moved:
        rows = execute(here, _swapped(given, moved, chosen)).fetchall()
        changes = {(system, swap): sums for system, swap, *sums in rows}
    losses = _losses(found.result, moved, changes)
    found.sensitivity = _framed(found.result, "sensitivity", losses)


def _unmoved(metric: Metric, chosen: Conventions) -> str:
    """Why swaps cannot be told, if so."""
    if chosen.ties == "expected":
        return "with ties='expected' tied items stand at no one position"
    if metric.measure and metric.measure.macro in RATINGS:
        return "scores are compared with grades, wherever the items stand"
    if metric.measure and metric.measure.weight:
        return "there is one value of all queries together"
    return ""


def _last(metric: Metric) -> int:
    """The last swap that is looked at."""
    return min(metric.k or SHALLOW, DEEP)


def _swapped(given: Inputs, moved: Sequence[Metric], chosen: Conventions) -> str:
    """For each system and swap: the sum of the changes of each metric, and how many there are."""
    keys = given.keys
    rows = rows_needed(moved, chosen)
    # The item after the last that counts may come in.
    deeper = [replace(metric, k=metric.k and metric.k + 1) for metric in moved]
    known = "" if given.qrels is None else f"SEMI JOIN queries USING ({keys})"
    # An expression of the user may look at anything; all others at grades and positions alone.
    alike = "count(*) = 2 AND count(rel) <> 1 AND min(rel) IS NOT DISTINCT FROM max(rel)"
    alike = "false" if any(metric.measure is None for metric in moved) else alike
    calls = {f"value {i}": metric_call(metric, chosen) for i, metric in enumerate(moved)}
    values = [f"{v} AS {quoted(name)}" for name, v in mask_undefined(calls, chosen).items()]
    before = [f"any_value({quoted(name)}) FILTER (WHERE swap IS NULL) OVER (PARTITION BY {keys})"
              for name in calls]  # fmt: skip
    changes = [f"abs({quoted(name)} - {b}) AS {quoted(name)}"
               for name, b in zip(calls, before, strict=True)]  # fmt: skip
    sums = []
    for name in map(quoted, calls):
        changed = f"FILTER (WHERE {name} > {DUST})"
        # Sorted, they add up to the same in whatever order rows and threads bring them.
        in_order = f"list_sort(list({name}) {changed}, 'ASC', 'NULLS LAST')"
        sums += [f"list_aggregate({in_order}, 'fsum')", f"count(*) {changed}"]
    ctes = source_ctes(given, chosen) | ranking_ctes(given, deeper, chosen, rows)
    only = {"gain": "WHERE rel > 0", "judged": "WHERE rel IS NOT NULL", "all": ""}[rows]
    ctes["rows"] = f"SELECT * FROM ranked {known} {only}"
    # Without a swap (NULL), and with each that brings together what is not alike.
    ctes["swaps"] = f"""
    SELECT DISTINCT {keys}, NULL::BIGINT AS swap FROM rows
    UNION ALL
    SELECT {keys}, swap
    FROM (SELECT {keys}, rel, unnest([pos - 1, pos])::BIGINT AS swap FROM rows
          WHERE pos <= {max(map(_last, moved)) + 1})
    WHERE swap BETWEEN 1 AND {max(map(_last, moved))}
    GROUP BY {keys}, swap HAVING NOT ({alike})"""
    ctes["moved"] = f"""
    SELECT * REPLACE (
        CASE pos WHEN swap THEN swap + 1 WHEN swap + 1 THEN swap ELSE pos END AS pos)
    FROM rows JOIN swaps USING ({keys})"""
    ctes["measured"] = f"""
    SELECT {keys}, swap, {", ".join(values)} FROM moved GROUP BY {keys}, swap"""
    ctes["changes"] = f"""
    SELECT {keys}, swap, {", ".join(changes)} FROM measured"""
    system = "system" if given.many else "NULL"
    return f"""{with_ctes(ctes, kept="rows")}
    SELECT {system}, swap, {", ".join(sums)} FROM changes WHERE swap IS NOT NULL GROUP BY ALL"""


def _losses(
    result: Result,
    moved: Sequence[Metric],
    changes: Mapping[tuple[str | None, int], Sequence[Any]],
) -> Iterator[dict[str, Any]]:
    """The mean change of each metric by each swap."""
    for system in _systems(result):
        counts = _counting(result, system)
        for i, metric in enumerate(moved):
            n = counts[metric.name]
            for swap in range(1, _last(metric) + 1):
                sum_, queries = changes.get((system, swap), [0.0] * 2 * len(moved))[2 * i :][:2]
                loss = (sum_ or 0.0) / n if n else None
                row = {"position": swap, "loss": loss, "queries": int(queries)}
                yield {"system": system, "metric": metric.name, **row}


def _counting(result: Result, system: str | None) -> dict[str, int]:
    """How many queries count in the mean of each metric."""
    frame = _of(result.frame(), system)
    if result.conventions["missing"] == "skip":
        frame = frame.filter(~pl.col(MISSING))
    if result.conventions["undefined"] == "zero":
        return dict.fromkeys(result.metrics, len(frame))
    return {name: frame[name].count() for name in result.metrics}


# What is said of it


def _notes(
    found: Limits, counts: Result | None, wanted: Sequence[Metric], chosen: Conventions
) -> Iterator[str]:
    """The notes, each once where it holds of all systems alike."""
    systems = _systems(found.result)
    holds: dict[str, list[str | None]] = {}
    for system in systems:
        for said in (
            _said_undefined(found, counts, wanted, chosen, system),
            _said_unjudged(found, wanted, system),
            _said_duplicates(found, system),
            _said_swaps(found, wanted, system),
        ):
            for sentence in said:
                holds.setdefault(sentence, []).append(system)
    for sentence, those in holds.items():
        named = ", ".join(show.plain(str(system)) for system in those)
        yield sentence if those == systems else f"{named}: {sentence}"


def _said_undefined(
    found: Limits,
    counts: Result | None,
    wanted: Sequence[Metric],
    chosen: Conventions,
    system: str | None,
) -> Iterator[str]:
    values, key = _of(found.result.frame(), system), found.result.meta["query"]
    alike: dict[tuple[int, int, str], list[str]] = {}
    for metric, row in zip(wanted, _of(found.undefined, system).to_dicts(), strict=True):
        why = ""
        if row["undefined"] and counts is not None:
            those = values.filter(values[metric.name].is_null())[key].to_list()
            frame = _of(counts.frame(), system)
            relevant = frame.filter(frame[key].is_in(those))[_relevant(metric, chosen)].sum()
            why = "" if relevant else ": no relevant item is judged"
        alike.setdefault((row["undefined"], row["queries"], why), []).append(metric.name)
    for (undefined, queries, why), names in alike.items():
        if undefined:
            verb = "is" if undefined == 1 else "are"
            some = f"{undefined:,} of {show.queries(queries)} ({_percent(undefined, queries)})"
            yield f"{some} {verb} undefined for {show.listed(names)}{why}"


def _said_unjudged(found: Limits, wanted: Sequence[Metric], system: str | None) -> Iterator[str]:
    queries = show.queries(_of(found.undefined, system)["queries"][0])
    there = [row for row in _of(found.judged, system).to_dicts() if row["unjudged"]]
    asked = {metric.k for metric in wanted}
    shares = [
        f"{_percent(row['unjudged'], row['items'])} of the items in "
        f"{'the rankings' if row['k'] is None else 'the top ' + str(row['k'])} "
        f"({row['queries']:,} of {queries})"
        # Below a top that is all judged there may be what the ideal ranking lacks.
        for row in [row for row in there if row["k"] in asked] or there
    ]
    bounds = [
        row
        for row in _of(found.bounds, system).to_dicts()
        if row["lo"] is not None and row["hi"] - row["lo"] > DUST
    ]
    ranges = [
        f"{row['metric']} lies between {show.cell(row['lo'])} and {show.cell(row['hi'])}"
        for row in bounds
    ]
    if ranges:
        opened = max(row["undefined"] for row in bounds)
        further = f"; {show.queries(opened)} could become defined" if opened else ""
        ranges = [f"{show.listed(ranges)}, whatever the unjudged items are{further}"]
    if shares:
        yield "; ".join([f"{show.listed(shares)} are unjudged", *ranges])


def _said_duplicates(found: Limits, system: str | None) -> Iterator[str]:
    rows = _of(found.duplicates, system)
    if count := len(rows):
        queries = rows["query"].unique(maintain_order=True)
        some = f"{format_examples(queries[:3].to_list())}{', ...' if len(queries) > 3 else ''}"
        items = "1 item stands" if count == 1 else f"{count:,} items stand"
        where = "query" if len(queries) == 1 else "queries"
        yield f"{items} more than once in a ranking ({where} {some}), at a position each time"


def _said_swaps(found: Limits, wanted: Sequence[Metric], system: str | None) -> Iterator[str]:
    counts = _counting(found.result, system)
    parts = [
        f"{row['metric']} by up to {show.cell(row['loss'])} (positions {row['position']} and "
        f"{row['position'] + 1}, {row['queries']:,} of {show.queries(counts[row['metric']])})"
        for row in _of(found._worst(), system).to_dicts()
    ]
    if parts:
        yield f"on average over the queries, a swap of neighbours changes {show.listed(parts)}"
    deep = [metric.name for metric in wanted if metric.k and metric.k > DEEP]
    if deep:
        yield f"swaps beyond position {DEEP} were not looked at for {show.listed(deep)}"


def _percent(part: int, whole: int) -> str:
    """A share; nothing is 0% or 100% that is not quite."""
    if part < whole:
        return (
            "<1%"
            if part < 0.01 * whole
            else ">99%"
            if part > 0.99 * whole
            else f"{part / whole:.0%}"
        )
    return "100%"
