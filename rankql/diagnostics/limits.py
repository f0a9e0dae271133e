"""limits: how far metrics can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import duckdb
import polars as pl

from rankql import text
from rankql.diagnostics.contributions import ROUNDING_ERROR
from rankql.errors import RankqlError
from rankql.evaluation.arguments import DEFAULT_METRICS, EvaluationOptions, Reading
from rankql.evaluation.chunks import read_rankings
from rankql.evaluation.ctes import ranking_ctes
from rankql.evaluation.evaluate import evaluate, resolve_conventions
from rankql.evaluation.facts import Facts
from rankql.evaluation.metric_columns import mask_undefined, metric_call, rows_needed
from rankql.evaluation.plan import Plan
from rankql.evaluation.query import write_query
from rankql.evaluation.result import EvaluatedTable, Result
from rankql.evaluation.steps import source_ctes, with_ctes
from rankql.evaluation.validation import evaluation_errors
from rankql.macros import MISSING, quote
from rankql.registry.conventions import UNDEFINED_VALUES, Conventions
from rankql.registry.parse import parse
from rankql.registry.relevance import RELEVANT
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs, open_runs
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data
from rankql.writing import remember_inputs

# The last swap that is measured without a cutoff, and with any cutoff.
SHALLOW, DEEP = 10, 100
# The columns of each frame that is measured. Columns without a type here are counts.
_COLUMNS = {
    "sensitivity": ("metric", "position", "loss", "queries"),
    "judged": ("k", "judged", "items", "unjudged", "queries"),
    "bounds": ("metric", "lo", "mean", "hi", "undefined"),
}
_TYPES: dict[str, Any] = {"system": pl.String, "metric": pl.String}
_TYPES |= dict.fromkeys(("loss", "judged", "lo", "mean", "hi"), pl.Float64)


@remember_inputs
def limits(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> Limits:
    """Show how far the metrics of one or more runs can be trusted.

    Counts undefined queries and unjudged items, computes the bounds of each metric over all
    possible judgments of the retrieved items (relevant items that were not retrieved can lower nDCG
    further), and measures how sensitive it is to position i: how much a swap of two neighbours
    changes it::

        loss(i) = mean over the queries of |metric with the items at i and i + 1 swapped - metric|

    for i from 1 to the cutoff, but at most 100, and 10 without a cutoff. If position i + 1 is
    empty, the item moves there. Bounds are those of unjudged='bounds', over the same queries as
    the mean. Undefined queries that a judgment could define are counted.

    Parameters
    ----------
    run, qrels, metrics, con, **options
        As in `evaluate`.

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> limits(run, qrels, "RR@2").sensitivity.rows()
    [('RR@2', 1, 0.5, 1), ('RR@2', 2, 0.5, 1)]
    """
    if options.get("unjudged") == "bounds":
        options["unjudged"] = "zero"
    reading = Reading.of(options, limits)
    arguments = {**options, "interval": None}
    with open_session(con, run, qrels) as session:
        run = open_runs(session, run)
        qrels = None if qrels is None else session.table(qrels, "qrels")

        def evaluate_with(names: str | Sequence[str], **changes: Any) -> Result:
            return evaluate(run, qrels, names, con=session.con, **{**arguments, **changes})

        result = evaluate_with(metrics)
        inputs = read_rankings(session, run, qrels, reading)
        facts = Facts(session, inputs, reading.conventions, packs=False)
        conventions, parsed = resolve_conventions(facts, parse(metrics), reading.conventions)
        # All items in the order of the run, including items that a convention leaves out.
        ties = "item" if conventions.ties == "expected" else conventions.ties
        expressions = count_expressions(parsed, conventions)
        counts = evaluate_with(expressions, unjudged="zero", undefined="skip", ties=ties)
        judged = summarise_judged(counts, parsed)
        bounded, unbounded_notes = _split_by_reason(
            parsed, "bounds", lambda metric: explain_unbounded(inputs, metric, conventions)
        )
        # If all items are judged, the bounds equal the value.
        has_unjudged = bool(judged["unjudged"].sum())
        levels = conventions.levels
        if has_unjudged and bounded:
            possible = replace(reading.conventions, unjudged="bounds")
            levels = resolve_conventions(facts, bounded, possible)[0].levels
        bounds = measure_bounds(result, bounded, levels, evaluate_with if has_unjudged else None)
        sensitive, insensitive_notes = _split_by_reason(
            parsed, "sensitivity", lambda metric: explain_insensitive(metric, conventions)
        )
        with evaluation_errors(session, inputs, conventions):
            sensitivity = measure_swaps(session, inputs, sensitive, conventions, result)
    measured = Limits(result, sensitivity, judged, bounds)
    measured.notes = [
        *result.notes,
        *describe_limits(measured, counts, parsed, replace(conventions, levels=levels)),
        *(unbounded_notes if has_unjudged else []),
        *insensitive_notes,
    ]
    return measured


@dataclass(repr=False, eq=False)
class Limits(EvaluatedTable):
    """The result of `limits`: notes, and the frames behind them.

    If there are several systems, `system` is the first column of each frame.
    """

    result: Result
    # metric, position, loss, and the number of queries that the swap changes.
    sensitivity: pl.DataFrame
    # k (NULL: the complete ranking), judged (the metric Judged@k), the number of items, of unjudged
    # items, and of queries with unjudged items.
    judged: pl.DataFrame
    # Over all judgments of the retrieved items: metric, lo, mean, hi, and the number of undefined
    # queries that a judgment could define.
    bounds: pl.DataFrame
    notes: list[str] = field(default_factory=list)

    @property
    def undefined(self) -> pl.DataFrame:
        """The number and the share of undefined queries, by metric."""
        columns = [*self.result.keys[:-1], "metric", "queries", "undefined"]
        share = pl.col("undefined") / pl.col("queries")
        return self.result.summary.select(*columns, share=share)

    @property
    def table(self) -> pl.DataFrame:
        """One row per metric: mean, bounds, undefined queries, and the most effective swap."""
        keys = [*self.result.keys[:-1], "metric"]
        bounds = self.bounds.select(*keys, "lo", "hi")
        rows = self.result.summary.select(*keys, "mean").join(
            bounds, on=keys, how="left", maintain_order="left"
        )
        rows = rows.with_columns(self.undefined["undefined"])
        swap = pl.format("{}, {}", "position", pl.col("position") + 1)
        worst = largest_losses(self).select(*keys, swap=swap, loss="loss")
        return rows.join(worst, on=keys, how="left", maintain_order="left")

    def _details(self) -> dict[str, Any]:
        names = (*_COLUMNS, "undefined")
        frames = {name: getattr(self, name).to_dicts() for name in names}
        return {**frames, **super()._details()}


def _split_by_reason(
    metrics: Sequence[Metric], subject: str, explain_lack: Callable[[Metric], str]
) -> tuple[list[Metric], list[str]]:
    """The supported metrics, and notes that name the others with the reason."""
    names: dict[str, list[str]] = {}
    reasons = [explain_lack(metric) for metric in metrics]
    for metric, reason in zip(metrics, reasons, strict=True):
        names.setdefault(reason, []).append(metric.name)
    notes = [
        f"No {subject} for {text.join_words(some)}: {reason}."
        for reason, some in names.items()
        if reason
    ]
    return [m for m, reason in zip(metrics, reasons, strict=True) if not reason], notes


def describe_limits(
    limits: Limits, counts: Result, metrics: Sequence[Metric], conventions: Conventions
) -> Iterator[str]:
    """The notes on all limits; notes that hold for all systems come once."""
    systems = list_systems(limits.result)
    systems_by_note: dict[str, list[str | None]] = {}
    for system in systems:
        for notes in (
            _describe_undefined(limits, counts, metrics, conventions, system),
            _describe_unjudged(limits, metrics, conventions.levels or (), system),
            _describe_swaps(limits, metrics, system),
        ):
            for note in notes:
                systems_by_note.setdefault(note, []).append(system)
    for note, names in systems_by_note.items():
        label = ", ".join(text.escape_controls(str(name)) for name in names)
        yield note if names == systems else f"{label}: {note}"


def _describe_undefined(
    limits: Limits,
    counts: Result,
    metrics: Sequence[Metric],
    conventions: Conventions,
    system: str | None,
) -> Iterator[str]:
    values, key = filter_system(limits.result.frame(), system), limits.result.meta.query
    rows = filter_system(limits.undefined, system).to_dicts()
    metrics_by_row: dict[tuple[int, int, str], list[str]] = {}
    for metric, row in zip(metrics, rows, strict=True):
        why = ""
        if row["undefined"]:
            keys = values.filter(values[metric.name].is_null())[key].to_list()
            frame = filter_system(counts.frame(), system)
            relevant = frame.filter(frame[key].is_in(keys))[relevant_label(metric, conventions)]
            why = "" if relevant.sum() else ": no relevant item"
        metrics_by_row.setdefault((row["undefined"], row["queries"], why), []).append(metric.name)
    for (undefined, queries, why), names in metrics_by_row.items():
        if undefined:
            share = (
                f"{undefined:,} of {text.format_queries(queries)} ({_percent(undefined, queries)})"
            )
            yield f"{text.join_words(names)}: undefined for {share}{why}."


def _describe_unjudged(
    limits: Limits, metrics: Sequence[Metric], levels: Sequence[float], system: str | None
) -> Iterator[str]:
    queries = text.format_queries(filter_system(limits.undefined, system)["queries"][0])
    rows = [row for row in filter_system(limits.judged, system).to_dicts() if row["unjudged"]]
    cutoffs = {metric.k for metric in metrics}
    shares = [
        f"{_percent(row['unjudged'], row['items'])} of the items in "
        f"{'the rankings' if row['k'] is None else 'the top ' + str(row['k'])} "
        f"({row['queries']:,} of {queries})"
        # Unjudged items below the cutoffs may belong to the ideal ranking.
        for row in [row for row in rows if row["k"] in cutoffs] or rows
    ]
    bounds = [
        row
        for row in filter_system(limits.bounds, system).to_dicts()
        if row["lo"] is not None and row["hi"] - row["lo"] > ROUNDING_ERROR
    ]
    ranges = [
        f"{row['metric']} is between {text.format_cell(row['lo'])} and "
        f"{text.format_cell(row['hi'])}"
        for row in bounds
    ]
    if ranges:
        openable = max(row["undefined"] for row in bounds)
        further = f" {text.format_queries(openable)} could become defined." if openable else ""
        scale = f"{levels[0]:g} to {levels[-1]:g}"
        given = f"With grades from {scale} of the retrieved items"
        ranges = [f"{given}, {text.join_words(ranges)}.{further}"]
    if shares:
        yield " ".join([f"{text.join_words(shares)} are unjudged.", *ranges])


def _describe_swaps(limits: Limits, metrics: Sequence[Metric], system: str | None) -> Iterator[str]:
    counts = count_scored_queries(limits.result, system)
    parts = [
        f"{row['metric']} by up to {text.format_cell(row['loss'])} (positions "
        f"{row['position']} and {row['position'] + 1}, {row['queries']:,} of "
        f"{text.format_queries(counts[row['metric']])})"
        for row in filter_system(largest_losses(limits), system).to_dicts()
    ]
    if parts:
        yield (
            f"On average over queries, a swap of two neighbours changes {text.join_words(parts)}."
        )
    deep = [metric.name for metric in metrics if metric.k and metric.k > DEEP]
    if deep:
        yield f"{text.join_words(deep)}: swaps beyond position {DEEP} were not measured."


def _percent(part: int, total: int) -> str:
    """A share, where 0% and 100% are exact."""
    if part == total:
        return "100%"
    share = part / total
    return "<1%" if share < 0.01 else ">99%" if share > 0.99 else f"{share:.0%}"


def count_expressions(metrics: Sequence[Metric], conventions: Conventions) -> list[str]:
    """Counts and judged shares per query, as expressions for evaluate.

    DuckDB plans these shares in a fifth of the time of `judged_at`, which is left for the complete
    ranking and checks all positions.
    """
    counts = {}
    for k in _cutoffs(metrics):
        within = "pos IS NOT NULL" if k is None else f"pos <= {k}"
        if k is not None:
            counts[f"judged in {k}"] = f"CAST(count(rel) FILTER (WHERE {within}) AS DOUBLE) / {k}"
        counts[f"items in {k}"] = f"count(*) FILTER (WHERE {within})"
        counts[f"unjudged in {k}"] = f"count(*) FILTER (WHERE {within} AND rel IS NULL)"
    for metric in metrics:
        threshold = metric.threshold(vars(conventions))
        counts[relevant_label(metric, conventions)] = RELEVANT.format(threshold=threshold)
    return ["Judged", *(f"{name} = {sql}" for name, sql in counts.items())]


def summarise_judged(counts: Result, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The share of judged items and the number of unjudged items at each cutoff."""
    rows = []
    for system in list_systems(counts):
        means = dict(filter_system(counts.summary, system).select("metric", "mean").rows())
        frame = filter_system(counts.frame(), system)
        for k in _cutoffs(metrics):
            unjudged = frame[f"unjudged in {k}"]
            items = frame[f"items in {k}"].sum()
            share = means["Judged" if k is None else f"judged in {k}"]
            rows.append((system, k, share, items, unjudged.sum(), (unjudged > 0).sum()))
    return make_frame(counts, "judged", rows)


def measure_bounds(
    result: Result,
    metrics: Sequence[Metric],
    levels: Sequence[float] | None,
    evaluate_with: Callable[..., Result] | None,
) -> pl.DataFrame:
    """The bounds of the metrics for these grades; equal to the value without `evaluate_with`."""
    names, source = [metric.name for metric in metrics], result
    if names and evaluate_with:
        source = evaluate_with(names, unjudged="bounds", levels=levels)
    rows = []
    for system in list_systems(result):
        means = dict(filter_system(source.summary, system).select("metric", "mean").rows())
        values = filter_system(source.frame(), system)
        for name in names:
            low, high = (name if source is result else f"{name} {end}" for end in ("low", "high"))
            openable = (values[name].is_null() & values[low].is_not_null()).sum()
            rows.append((system, name, means[low], means[name], means[high], openable))
    return make_frame(result, "bounds", rows)


def explain_unbounded(inputs: Inputs, metric: Metric, conventions: Conventions) -> str:
    """The reason why a metric has no bounds, or ''."""
    if conventions.unjudged == "remove":
        return "with unjudged='remove', rankings have no unjudged items"
    try:
        write_query(inputs, Plan([metric], replace(conventions, unjudged="bounds")))
    except RankqlError as error:
        return str(error).replace(f" for {metric.name}", "")
    return ""


def relevant_label(metric: Metric, conventions: Conventions) -> str:
    """The name of the column that counts relevant items."""
    return f"relevant from {metric.threshold(vars(conventions))}"


def _cutoffs(metrics: Sequence[Metric]) -> list[int | None]:
    """The cutoffs of the metrics; last None, the complete ranking."""
    return [*sorted({m.k for m in metrics if m.k is not None}), None]


def measure_swaps(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    result: Result,
) -> pl.DataFrame:
    """Measure the mean change of each metric by each swap, in one pass over the data."""
    changes: dict[tuple[str | None, int], Sequence[Any]] = {}
    if metrics:
        sums = fetch(session, _swaps_sql(inputs, metrics, conventions))
        changes = {(system, swap): values for system, swap, *values in sums}
    rows = []
    for system in list_systems(result):
        counts = count_scored_queries(result, system)
        for i, metric in enumerate(metrics):
            n = counts[metric.name]
            for swap in range(1, _last(metric) + 1):
                sum_, queries = changes.get((system, swap), [0.0] * 2 * len(metrics))[2 * i :][:2]
                loss = (sum_ or 0.0) / n if n else None
                rows.append((system, metric.name, swap, loss, queries))
    return make_frame(result, "sensitivity", rows)


def explain_insensitive(metric: Metric, conventions: Conventions) -> str:
    """The reason why a metric has no sensitivity to position, or ''."""
    if conventions.ties == "expected":
        return "with ties='expected', tied items have no single position"
    if metric.record and metric.record.compares_scores:
        return "the value depends on scores, not on positions"
    if metric.record and metric.record.weight:
        return "the value is one for all queries together"
    return ""


def _last(metric: Metric) -> int:
    """The last swap to measure."""
    return min(metric.k or SHALLOW, DEEP)


def _swaps_sql(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> str:
    """The SQL of the sum and the number of changes of each metric, by system and swap."""
    keys = inputs.keys
    rows = rows_needed(metrics, conventions)
    # The item after the cutoff can move into the top k.
    deeper = [replace(metric, k=metric.k and metric.k + 1) for metric in metrics]
    judged = "" if inputs.qrels is None else f"SEMI JOIN queries USING ({keys})"
    # A swap of equal grades changes nothing, except for expressions of the user.
    equal = "count(*) = 2 AND count(rel) <> 1 AND min(rel) IS NOT DISTINCT FROM max(rel)"
    equal = "false" if any(metric.record is None for metric in metrics) else equal
    calls = {f"value {i}": metric_call(metric, conventions) for i, metric in enumerate(metrics)}
    values = [f"{v} AS {quote(name)}" for name, v in mask_undefined(calls, conventions).items()]
    before = [f"any_value({quote(name)}) FILTER (WHERE swap IS NULL) OVER (PARTITION BY {keys})"
              for name in calls]  # fmt: skip
    changes = [f"abs({quote(name)} - {b}) AS {quote(name)}"
               for name, b in zip(calls, before, strict=True)]  # fmt: skip
    ctes = source_ctes(inputs, conventions) | ranking_ctes(inputs, deeper, conventions, rows)
    only = {"gain": "WHERE rel > 0", "judged": "WHERE rel IS NOT NULL", "all": ""}[rows]
    ctes["rows"] = f"SELECT * FROM ranked {judged} {only}"
    # Each ranking without a swap (NULL), and with each swap of unequal grades.
    ctes["swaps"] = f"""
    SELECT DISTINCT {keys}, NULL::BIGINT AS swap FROM rows
    UNION ALL
    SELECT {keys}, swap
    FROM (SELECT {keys}, rel, unnest([pos - 1, pos])::BIGINT AS swap FROM rows
          WHERE pos <= {max(map(_last, metrics)) + 1})
    WHERE swap BETWEEN 1 AND {max(map(_last, metrics))}
    GROUP BY {keys}, swap HAVING NOT ({equal})"""
    ctes["moved"] = f"""
    SELECT * REPLACE (
        CASE pos WHEN swap THEN swap + 1 WHEN swap + 1 THEN swap ELSE pos END AS pos)
    FROM rows JOIN swaps USING ({keys})"""
    ctes["measured"] = f"""
    SELECT {keys}, swap, {", ".join(values)} FROM moved GROUP BY {keys}, swap"""
    ctes["changes"] = f"""
    SELECT {keys}, swap, {", ".join(changes)} FROM measured"""
    system = "system" if inputs.many else "NULL"
    # Sorted, because the sum depends on the order of rows and threads otherwise.
    sums = ", ".join(
        f"list_aggregate(list_sort(list({c}) {changed}, 'ASC', 'NULLS LAST'), 'fsum'), "
        f"count(*) {changed}"
        for c in map(quote, calls)
        for changed in [f"FILTER (WHERE {c} > {ROUNDING_ERROR})"]
    )
    return f"""{with_ctes(ctes, kept="rows")}
    SELECT {system}, swap, {sums} FROM changes WHERE swap IS NOT NULL GROUP BY ALL"""


def largest_losses(limits: Limits) -> pl.DataFrame:
    """The swap that changes each metric most."""
    keys = [*limits.result.keys[:-1], "metric"]
    largest = pl.col("loss").max().over(keys)
    losses = limits.sensitivity.filter(pl.col("loss") > 0, pl.col("loss") == largest)
    return losses.unique(keys, keep="first", maintain_order=True)


def list_systems(result: Result) -> list[str | None]:
    """The systems of a result, [None] if there is only one."""
    if not result.meta.system:
        return [None]
    return result.summary["system"].unique(maintain_order=True).to_list()


def filter_system(frame: pl.DataFrame, system: str | None) -> pl.DataFrame:
    """The rows of one system; all rows for None."""
    return frame if system is None else frame.filter(pl.col("system") == system)


def make_frame(result: Result, name: str, rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Make a frame of rows that begin with the system, a column only if there are several."""
    names = ("system", *_COLUMNS[name])
    frame = pl.DataFrame(
        [*rows], {name: _TYPES.get(name, pl.Int64) for name in names}, orient="row"
    )
    return frame if result.meta.system else frame.drop("system")


def count_scored_queries(result: Result, system: str | None) -> dict[str, int]:
    """The number of queries in the mean of each metric."""
    frame = filter_system(result.frame(), system)
    if result.conventions["missing"] == "skip":
        frame = frame.filter(~pl.col(MISSING))
    if result.conventions["undefined"] in UNDEFINED_VALUES:
        return dict.fromkeys(result.metrics, len(frame))
    return {name: frame[name].count() for name in result.metrics}
