"""The readable query of an evaluation: a window, and one macro per metric.

It is what `result.sql` shows, and computes what cannot be reduced. Metrics of the complete
catalogue have one value for all rankings of a slice, none per query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rankql.errors import RankqlError
from rankql.evaluation.means import Meta, grouping_sets, slice_columns, sliced_attributes
from rankql.evaluation.steps import (
    JUDGED,
    attributes_by_query,
    is_ideal_retrieved,
    last_position,
    order_score,
    original_score,
    ranking_ctes,
    ranks_before_join,
    reads_original_scores,
    rows_needed,
    select_from,
    source_ctes,
    with_ctes,
    within,
)
from rankql.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.registry.all_metrics import CATALOGUE_METRICS
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import RELEVANT, Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.text import join_words

# Merged rankings share position 1, also if only rows with gain are read.
ONE_RANKING = ("run", "pos", "WHERE pos = 1")


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation."""

    # The named steps in order, and what is selected from them.
    steps: Mapping[str, str]
    select: str
    # The column with the weights of each metric that has some.
    weights: dict[str, str]
    # The macros check their arguments, because an expression of the user may pass anything.
    checked: bool = False

    @property
    def sql(self) -> str:
        """The complete query."""
        return with_ctes(self.steps) + self.select


def write_query(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> Query:
    """The query that computes all the metrics, one row per query and system."""
    require_compatible(inputs, metrics, conventions)
    ties = conventions.ties
    if ties in ("best", "worst") and all(map(reads_judged, metrics)):
        conventions = replace(conventions, ties=f"{ties} judged")
    rows = rows_read(inputs, metrics, conventions)
    calls, weights = metric_calls(inputs, metrics, conventions)
    require_different_names([inputs.query, *inputs.by, MISSING, *calls])
    steps = source_ctes(inputs, conventions)
    steps |= ranking_ctes(inputs, metrics, conventions, rows)
    if any(map(is_cut, metrics)):
        steps = _cut_own_metrics(inputs, metrics, steps)
    columns = key_columns(inputs) | mask_undefined(calls, conventions)
    select = _select(columns, _join_queries(inputs)) + f"\nGROUP BY {inputs.keys}"
    select += f"\nORDER BY {_ascending(map(quote, _keys(inputs)))}"
    return Query(steps, select, weights, any(metric.record is None for metric in metrics))


def rows_read(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> Rows:
    """The rows that the readable query reads."""
    return rows_needed(metrics, conventions) if ranks_before_join(inputs, conventions) else "all"


def write_catalogue_queries(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    groups: Sequence[Sequence[str]],
) -> dict[str, str]:
    """The query of each metric of the catalogue: its value by system and slice, from their rows."""
    metrics = [metric for metric in metrics if is_catalogue(metric) and not metric.shown]
    if not metrics:
        return {}
    columns, sets = catalogue_slices(inputs, groups)
    rows = join_attributes(inputs)
    queries = {}
    for metric in metrics:
        steps = source_ctes(inputs, conventions)
        steps |= ranking_ctes(inputs, [metric], conventions, "all")
        value = own_metric(metric)
        if inputs.every("item"):
            each = f"({inputs.keys}, encode(CAST(item AS VARCHAR)))"
            repeats = f"{metric.name}: a ranking repeats an item. Keep one row of each"
            value = (
                f"CASE WHEN count(item) > count(DISTINCT {each}) "
                f"THEN rankql_fail({literal(repeats)}) ELSE {value} END"
            )
        rest = f"{within(metric.k)} GROUP BY GROUPING SETS ({sets(())})"
        fields = [columns, f"{value} AS value"]
        queries[metric.name] = with_ctes(steps) + select_from(rows, fields, rest)
    return queries


def catalogue_slices(
    inputs: Inputs, groups: Sequence[Sequence[str]]
) -> tuple[str, Callable[[Sequence[str]], str]]:
    """The columns of systems and slices, and their grouping sets with more columns."""
    meta = Meta("", [], {}, inputs.many, [*inputs.by], [[*group] for group in groups])
    attributes = sliced_attributes(meta)
    slice_, _ = slice_columns(attributes)
    columns = inputs.keys.replace("query", f"{slice_} AS slice")
    return columns, partial(grouping_sets, meta, attributes)


def _cut_own_metrics(
    inputs: Inputs, metrics: Sequence[Metric], steps: Mapping[str, str]
) -> dict[str, str]:
    """The steps; metrics of the user with a cutoff are computed over the first k positions."""
    cut = [metric for metric in metrics if is_cut(metric)]
    rows, joined = f"{INTERNAL_PREFIX}rows", [f"{INTERNAL_PREFIX}cut_{i}" for i in range(len(cut))]
    steps = {rows if name == "ranked" else name: body for name, body in steps.items()}
    for name, metric in zip(joined, cut, strict=True):
        fields = [inputs.keys, f"{own_metric(metric)} AS {cut_column(metric)}"]
        rest = f"{within(metric.k)} GROUP BY {inputs.keys}"
        steps[name] = select_from(rows, fields, rest)
    joins = "".join(f" LEFT JOIN {name} USING ({inputs.keys})" for name in joined)
    return {**steps, "ranked": select_from(rows + joins, ["*"])}


def unique_columns(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, reduced: bool = False
) -> list[tuple[str, str, str]]:
    """What must be unique in the tables; positions only as far as macros read them.

    Judgments come first. reduced: the reduction has looked at positions.
    """
    columns = []
    if inputs.qrels is not None:
        ranked = ranks_before_join(inputs, conventions)
        gain = ranked and rows_needed(metrics, conventions) == "gain"
        columns.append(("qrels", "item", "WHERE rel > 0" if gain else ""))
    if not (inputs.scored or reduced):
        columns.append(ONE_RANKING)
    if inputs.every("item"):
        columns.append(("run", "item", _rows_read(inputs, metrics, conventions)))
    removed = conventions.unjudged == "remove"  # the rows that are left need positions of their own
    if inputs.scored or reduced:
        return columns
    # Bpref and the like read items that are not relevant too.
    every = any(m.record and m.record.rows == "judged" and not m.record.sums_gains for m in metrics)
    if inputs.qrels is not None:
        judged = JUDGED if removed or every else f"{JUDGED[:-1]} AND qrels.rel > 0)"
        return [*columns, ("run", "pos", f"{judged} AND pos IS NOT NULL")]
    k = last_position(metrics, conventions)
    cut = "" if removed or k is None else f" AND pos <= {k}"
    judged = "rel IS NOT NULL" if every else "rel > 0"
    return [*columns, ("run", "pos", f"WHERE {judged} AND pos IS NOT NULL{cut}")]


def _rows_read(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> str:
    """What selects the rows of the run that metrics read, and those tied with the k-th score."""
    place = "score" if inputs.scored else "pos"
    if conventions.unjudged == "remove":
        return JUDGED if inputs.qrels else "WHERE rel IS NOT NULL"
    graded = "" if inputs.qrels else "rel > 0 OR "
    # The ideal ranking of a table with grades has items with a gain only.
    every = inputs.qrels is not None and any(is_ideal_retrieved(m, conventions) for m in metrics)
    if every or any(metric.k is None for metric in metrics):
        return f"WHERE {graded}{place} IS NOT NULL"
    k = max(metric.k or 0 for metric in metrics)
    if not inputs.scored:
        return f"WHERE {graded}pos <= {k}"
    rank = f"rank() OVER (PARTITION BY {inputs.keys} ORDER BY score DESC NULLS LAST)"
    return f"WHERE {graded}score IS NOT NULL QUALIFY {graded}{rank} <= {k}"


def _ascending(keys: Iterable[str]) -> str:
    """An order that does not depend on settings."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def _join_queries(inputs: Inputs) -> str:
    """The rows of all queries that count, with their attributes."""
    if inputs.qrels is not None:
        return f"queries LEFT JOIN ranked USING ({inputs.keys})"
    if inputs.attributes is None:
        return "ranked"
    return f"ranked LEFT JOIN {attributes_by_query(inputs, 'attributes')} USING (query)"


def join_attributes(inputs: Inputs) -> str:
    """The ranked rows of queries that count, with one value of each attribute of a query."""
    own = ", ".join(map(inputs.attribute, inputs.attributes_in("run")))
    rows = f"(SELECT * EXCLUDE ({own}) FROM ranked)" if own and not inputs.qrels else "ranked"
    if inputs.qrels:
        rows += f" JOIN {attributes_by_query(inputs, 'qrels')} USING (query)"
    for home in ("run", "attributes"):
        if inputs.attributes_in(home):
            rows += f" LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
    return rows


def _select(columns: Mapping[str, str], source: str) -> str:
    fields = (f"{value} AS {quote(name)}" for name, value in columns.items())
    return "SELECT " + ",\n    ".join(fields) + f"\nFROM {source}"


def key_columns(inputs: Inputs) -> dict[str, str]:
    """The keys and attributes of a ranking, and whether the run lacks it, as aggregates."""
    missing = "false" if inputs.qrels is None else f"any_value({MISSING})"
    attributes = {name: f"any_value({inputs.attribute(name)})" for name in inputs.by}
    return _keys(inputs) | attributes | {MISSING: missing}


def _keys(inputs: Inputs) -> dict[str, str]:
    """The keys of a ranking, by their names in the result."""
    return {**({"system": "system"} if inputs.many else {}), inputs.query: "query"}


def require_compatible(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics and conventions that cannot be computed together."""
    scores = all("score" in table.roles for table in inputs.runs.values())
    for metric in metrics:
        if metric.record and metric.record.compares_scores and not scores:
            raise RankqlError(
                f"{metric.name} compares grades with scores, but the run has none: score='...'"
            )
    together = [metric.name for metric in metrics if is_catalogue(metric)]
    refuse_weights(together, inputs.weight)
    cut = next((m.name for m in metrics if is_cut(m) or m.shown or m.name in together), None)
    if cut and conventions.ties == "expected":
        raise RankqlError(f"{cut} needs positions, but ties='expected' has none. Use ties='item'")
    if conventions.ties == "expected":
        _refuse_expected_ties(metrics, conventions)
    if inputs.ascending and reads_original_scores(metrics):
        _refuse_orders(inputs, metrics, conventions)
    gains = conventions.gain.items() if isinstance(conventions.gain, Mapping) else ()
    if conventions.ties in ("best", "worst"):
        options = [m.options.get("discounts", ()) for m in metrics]
        falling = any([*d] != sorted(d) for d in (conventions.discounts or (), *options))
        rising = [gain for _, gain in sorted(gains)]
        if falling or rising != sorted(rising):
            raise RankqlError(
                f"ties={conventions.ties!r} orders tied items by grade, so gains must rise with "
                "the grade, and discounts with the position"
            )


def _refuse_expected_ties(metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics whose macros cannot average over the orders of tied items, in their words."""
    for metric in metrics:
        refused = metric.record.no_expected_ties if metric.record else None
        if refused is None or not refused.items() <= metric.arguments(vars(conventions)).items():
            continue
        assert metric.record
        options = "".join(f" with {name} {value!r}" for name, value in refused.items())
        raise RankqlError(
            f"ties 'expected' is not available for {metric.record.macro}{options}. Use 'item'"
        )


def _refuse_orders(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that read scores if it is unclear whether these are -score."""
    name = next(metric.name for metric in metrics if reads_original_scores([metric]))
    if not all(table.ascending for table in inputs.runs.values()):
        raise RankqlError(
            f"{name} reads scores, but the lowest is best in some runs and the highest in others. "
            "Evaluate these runs one by one"
        )
    if conventions.ties == "expected":
        raise RankqlError(
            f"{name} reads scores, and ties='expected' requires that the highest is best. Use "
            "ties='item', or pass -score"
        )


def require_different_names(names: Sequence[str]) -> None:
    """Refuse two columns of the same name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise RankqlError(
                f"Two columns of the result would be called {name!r}. Rename one of them"
            )
        seen.add(name.lower())


_RECORDS = {record.function: record for record in CATALOGUE_METRICS}
_CALL = re.compile(rf"\b({'|'.join(_RECORDS)})\s*\(", re.I)


def gain_sql(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row, as SQL."""
    if isinstance(gain, Mapping):
        cases = " ".join(f"WHEN {grade} THEN {value}" for grade, value in gain.items())
        error = "rankql_fail('gain has no entry for grade ' || rel)"
        other = f"CASE WHEN rel IS NOT NULL THEN {error} END"
        return f"CAST(CASE rel {cases} ELSE {other} END AS DOUBLE)"
    return {
        "linear": "rel",
        "exp2": "exp2_gain(rel)",
        "binary": f"CAST(rel >= {threshold} AS DOUBLE)",
    }[gain]


def metric_calls(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[dict[str, str], dict[str, str]]:
    """The calls of metrics and of their weights, by name; and the weight of each metric."""
    weighed = [m.name for m in metrics if m.record and m.record.weight]
    weights = {name: f"{INTERNAL_PREFIX}weight of {name}" for name in weighed}
    calls = {metric.name: metric_call(inputs, metric, conventions) for metric in metrics}
    calls |= {weights[m.name]: m.weight(vars(conventions)) for m in metrics if m.name in weights}
    return calls, weights


def metric_call(inputs: Inputs, metric: Metric, conventions: Conventions) -> str:
    """A metric as a call of its macro."""
    if is_catalogue(metric) or metric.shown:
        return "CAST(NULL AS DOUBLE)"  # a query has no value of its own, or another query has it
    if metric.record is None:
        return f"any_value({cut_column(metric)})" if is_cut(metric) else own_metric(metric)
    macro = metric.record.macro
    options = metric.arguments(vars(conventions))
    rel = gain_sql(metric.gain(vars(conventions)), metric.threshold(vars(conventions)))
    if metric.record.compares_scores:
        expected = conventions.ties == "expected"  # where `score` is that of the order
        return f"{macro}(rel, {original_score(inputs, conventions) if expected else 'score'})"
    if metric.record.halves_ties and inputs.scored:
        return macro_call(f"{macro}_by_score", [rel, order_score(inputs, conventions)], options)
    columns = [rel, "pos"]
    if conventions.ties == "expected":
        macro, columns = f"{macro}_by_score", [rel, "score", "item"]
        options["ties"] = "expected"
    return macro_call(macro, columns, options)


def own_metric(metric: Metric) -> str:
    """A metric of the user, as SQL."""
    return f"CAST((\n{metric.expression}\n) AS DOUBLE)"


def is_cut(metric: Metric) -> bool:
    """Is it a metric of the user that a CTE of its own computes?"""
    own = metric.record is None and metric.k is not None
    return own and not is_catalogue(metric) and not metric.shown


def reads_judged(metric: Metric) -> bool:
    """Does it read only whether items are judged?"""
    return metric.record is not None and metric.record.reads_judged


def cut_column(metric: Metric) -> str:
    """The column with the value of a metric of the user over the first k positions."""
    return quote(f"{INTERNAL_PREFIX}{metric.name}")


def macro_call(macro: str, columns: Sequence[str], options: Mapping[str, Any]) -> str:
    """A call of a macro: k by position, the other options by name."""
    arguments = [*columns, *([str(options["k"])] if "k" in options else [])]
    for name, value in options.items():
        if name != "k":
            text = str(value).lower() if isinstance(value, bool) else literal(value)
            arguments.append(f"{name} := {text}")
    return f"{macro}({', '.join(arguments)})"


def mask_undefined(
    columns: Mapping[str, str], conventions: Conventions, relevant: str | None = None
) -> dict[str, str]:
    """The columns; NULL without relevant items if undefined='drop'."""
    if conventions.undefined != "drop":
        return dict(columns)
    relevant = relevant or RELEVANT.format(threshold=conventions.threshold)
    return {name: f"CASE WHEN {relevant} > 0 THEN {v} END" for name, v in columns.items()}


def is_catalogue(metric: Metric) -> bool:
    """Is it a metric of the catalogue, or an expression of the user that calls one?"""
    if metric.shown:
        return metric.shown.level == "catalogue"
    return metric.record is None and bool(_CALL.search(metric.expression))


def describe_together(names: Sequence[str]) -> str:
    """Say that metrics have no value for one ranking, for notes and errors."""
    verb = "describes" if len(names) == 1 else "describe"
    return f"{join_words(names)} {verb} all rankings together"


def catalogue_meta(metrics: Sequence[Metric]) -> dict[str, Any]:
    """What a result must know of these metrics: their values, still to compute, and directions."""
    better = {}
    for metric in metrics:
        # One call, not an expression of several.
        call = re.fullmatch(
            rf"\s*{_CALL.pattern}(?:[^()]|\([^()]*\))*\)\s*", metric.expression, re.I
        )
        record = metric.shown or (call and _RECORDS[call[1].lower()])
        if record:
            better[metric.name] = None if record.better == "neither" else record.better == "higher"
    values: dict[str, list[Any]] = {metric.name: [] for metric in filter(is_catalogue, metrics)}
    return {"catalogue": values, "higher_is_better": better}


def refuse_weights(names: Sequence[str], weight: str | None) -> None:
    """Refuse weights of queries, which these metrics cannot respect."""
    if names and weight is not None:
        raise RankqlError(
            f"{describe_together(names)}, so it is not a mean and has no weight= ({weight!r}). "
            "Leave it out"
        )
