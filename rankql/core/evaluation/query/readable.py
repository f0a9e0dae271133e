"""The readable query of an evaluation: a window, and one macro per metric.

It is what `result.sql` shows, and computes what cannot be reduced. Metrics of the complete
catalogue have one value for all rankings of a slice, none per query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import RankqlError, require
from rankql.core.base.text import join_words
from rankql.core.evaluation.query import ctes
from rankql.core.evaluation.query.ties import require_extreme, require_positions, tie_order
from rankql.core.metrics.all_metrics import CATALOGUE_METRICS
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.core.metrics.metric_record import IS_RELEVANT, RELEVANT, Metric, Rows
from rankql.core.tables.inputs import Inputs


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation."""

    # The named steps in order, and what is selected from them.
    steps: Mapping[str, str]
    select: str

    @property
    def sql(self) -> str:
        """The complete query."""
        return ctes.with_ctes(self.steps) + self.select


def write_query(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> Query:
    """The query that computes all the metrics, one row per query and system."""
    conventions = tie_order(metrics, conventions)
    # Metrics of the user over the first k positions need no other rows.
    alone = inputs.qrels is not None and conventions.undefined != "drop"
    alone = alone and all(is_cut(m) or is_catalogue(m) for m in metrics)
    rows = "placed" if alone else rows_read(inputs, metrics, conventions)
    weights = weight_columns(metrics)
    calls = {metric.name: metric_call(inputs, metric, conventions) for metric in metrics}
    calls |= {weights[m.name]: m.weight(vars(conventions)) for m in metrics if m.name in weights}
    if conventions.undefined == "drop":
        relevant = RELEVANT.format(threshold=conventions.threshold)
        calls = {name: f"CASE WHEN {relevant} > 0 THEN {x} END" for name, x in calls.items()}
    steps = ctes.source_ctes(inputs, conventions)
    steps |= ctes.ranking_ctes(inputs, metrics, conventions, rows)
    if INTERNAL_PREFIX in (expressions := " ".join(metric.expression for metric in metrics)):
        steps = call_extra("join items", inputs, steps, expressions)
    if any(map(is_cut, metrics)):
        steps = _cut_own_metrics(inputs, metrics, conventions, steps, alone)
    # The keys of a ranking by their names in the result, and the rows of all queries that count.
    keys = {**({"system": "system"} if inputs.many else {}), inputs.query: "query"}
    attributes = {name: f"any_value({inputs.attribute(name)})" for name in inputs.by}
    missing, source = "false", "ranked"
    if inputs.qrels is not None:
        missing, source = f"any_value({MISSING})", f"queries LEFT JOIN ranked USING ({inputs.keys})"
    elif inputs.attributes is not None:
        source += f" LEFT JOIN {ctes.attributes_by_query(inputs, 'attributes')} USING (query)"
    columns = keys | attributes | {MISSING: missing} | calls
    fields = ",\n    ".join(f"{value} AS {quote(name)}" for name, value in columns.items())
    # An order that does not depend on settings.
    order = ", ".join(f"{quote(key)} ASC NULLS LAST" for key in keys)
    select = f"SELECT {fields}\nFROM {source}\nGROUP BY {inputs.keys}\nORDER BY {order}"
    return Query(steps, select)


def weight_columns(metrics: Sequence[Metric]) -> dict[str, str]:
    """The column with the weights of each metric that has some."""
    weighed = (metric.name for metric in metrics if metric.record and metric.record.weight)
    return {name: f"{INTERNAL_PREFIX}weight of {name}" for name in weighed}


def rows_read(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> Rows:
    """The rows that the readable query reads."""
    before_join = ctes.ranks_before_join(inputs, conventions)
    return ctes.rows_needed(metrics, conventions) if before_join else "all"


def _cut_own_metrics(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions,
    steps: Mapping[str, str], alone: bool,
) -> dict[str, str]:  # fmt: skip
    """The steps; metrics of the user with a cutoff are computed over the first k positions.

    alone: the ranked rows are then of no use.
    """
    source = rows = f"{INTERNAL_PREFIX}rows"
    names = []
    if conventions.ties == "expected":  # hidden ones, over the items that may be shown
        pos = f"rank() OVER (PARTITION BY {inputs.keys} ORDER BY score DESC) AS pos"
        source = f"(SELECT *, {pos} FROM {rows} WHERE score IS NOT NULL)"
    steps = {rows if name == "ranked" else name: body for name, body in steps.items()}
    cut = [metric for metric in metrics if is_cut(metric)]
    for k in dict.fromkeys(metric.k for metric in cut):
        some = [metric for metric in cut if metric.k == k]
        fields = [inputs.keys, *(f"{own_metric(m)} AS {cut_column(m)}" for m in some)]
        name = f"{INTERNAL_PREFIX}cut{'' if k is None else f'_{k}'}"
        steps[name] = ctes.select_from(source, fields, f"{ctes.within(k)} GROUP BY {inputs.keys}")
        names.append(name)
    first, *others = names if alone else [rows, *names]
    side = "FULL" if alone else "LEFT"
    joined = first + "".join(f" {side} JOIN {name} USING ({inputs.keys})" for name in others)
    return {**steps, "ranked": ctes.select_from(joined, ["*"])}


def unique_columns(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, reduced: bool = False
) -> list[ctes.Unique]:
    """What must be unique in the tables; positions only as far as a metric reads.

    Judgments come first. reduced: the reduction has looked at positions.
    """
    columns = []
    if inputs.qrels is not None:
        ranked = ctes.ranks_before_join(inputs, conventions)
        gain = ranked and ctes.rows_needed(metrics, conventions) == "gain"
        columns.append(("qrels", "item", "max(rel) > 0" if gain else ""))
    if inputs.every("item"):
        columns.append(("run", "item", _rows_read(inputs, metrics, conventions)))
    if not (inputs.scored or reduced):
        removed = conventions.unjudged == "remove"  # the others move up from any position
        k = None if removed else ctes.last_position(metrics, conventions)
        columns.append(("run", "pos", ctes.within(k)))
    return columns


def _rows_read(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> str:
    """What selects the rows of the run that metrics read, and those tied with the k-th score."""
    place = "score" if inputs.scored else "pos"
    if conventions.unjudged == "remove":
        return ctes.JUDGED if inputs.qrels else "WHERE rel IS NOT NULL"
    graded = "rel > 0 OR " if inputs.every("rel") and not inputs.qrels else ""
    if inputs.qrels and any(ctes.is_ideal_retrieved(m, conventions) for m in metrics):
        graded = f"{ctes.JUDGED.removeprefix('WHERE ')[:-1]} AND qrels.rel > 0) OR "
    if any(metric.k is None for metric in metrics):
        return f"WHERE {graded}{place} IS NOT NULL"
    k = max(metric.k or 0 for metric in metrics)
    if not inputs.scored:
        return f"WHERE {graded}pos <= {k}"
    rank = f"rank() OVER (PARTITION BY {inputs.keys} ORDER BY score DESC NULLS LAST)"
    return f"WHERE {graded}score IS NOT NULL QUALIFY {graded}{rank} <= {k}"


def require_compatible(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics and conventions that cannot be computed together."""
    tables, expected = inputs.runs.values(), conventions.ties == "expected"
    compared = next((m.name for m in metrics if m.record and m.record.compares_scores), None)
    require(
        compared is None or all("score" in table.roles for table in tables),
        f"{compared} compares grades with scores, but the run has none: score='...'",
    )
    together = [metric.name for metric in metrics if is_catalogue(metric)]
    if together:
        refuse_weights(together, inputs.weight)
    placed = {m.name for m in metrics if m.record is None and re.search(r"\bpos\b", m.expression)}
    placed |= {m.name for m in metrics if is_cut(m) or m.shown or m.name in together}
    require_positions(metrics, conventions, placed)
    reading = [metric.name for metric in metrics if ctes.reads_original_scores([metric])]
    if inputs.ascending and reading:
        require(
            all(table.ascending for table in tables),
            f"{reading[0]} reads scores, but the lowest is best in some runs and the highest in "
            "others. Evaluate these runs one by one",
        )
        require(
            not expected,
            f"{reading[0]} reads scores, and ties='expected' requires that the highest is best. "
            "Use ties='item', or pass -score",
        )
    require_extreme(metrics, conventions)
    names = [inputs.query, *inputs.by, MISSING, *(metric.name for metric in metrics)]
    for i, name in enumerate(names):
        several = name.lower() in map(str.lower, names[:i])
        require(
            not several, f"Two columns of the result would be called {name!r}. Rename one of them"
        )


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
        "binary": f"CAST({IS_RELEVANT.format(threshold=threshold)} AS DOUBLE)",
    }[gain]


def metric_call(inputs: Inputs, metric: Metric, conventions: Conventions) -> str:
    """A metric as a call of its macro: k by position, the other options by name."""
    if is_catalogue(metric) or is_apart(inputs, metric, conventions):
        return "CAST(NULL AS DOUBLE)"  # a query has no value of its own, or another query has it
    if metric.record is None:
        return f"any_value({cut_column(metric)})" if is_cut(metric) else own_metric(metric)
    macro = metric.record.macro
    options = metric.arguments(vars(conventions))
    rel = gain_sql(metric.gain(vars(conventions)), metric.threshold(vars(conventions)))
    if metric.record.compares_scores:
        expected = conventions.ties == "expected"  # where `score` is that of the order
        return f"{macro}(rel, {ctes.original_score(inputs, conventions) if expected else 'score'})"
    columns = [rel, "pos"]
    if metric.record.halves_ties and inputs.scored:
        macro, columns = f"{macro}_by_score", [rel, ctes.order_score(inputs, conventions)]
    elif conventions.ties == "expected":
        macro, columns = f"{macro}_by_score", [rel, "score", "item"]
        options["ties"] = "expected"
    arguments = [*columns, *([str(options["k"])] if "k" in options else [])]
    for name, value in options.items():
        if name != "k":
            text = str(value).lower() if isinstance(value, bool) else literal(value)
            arguments.append(f"{name} := {text}")
    return f"{macro}({', '.join(arguments)})"


def is_apart(inputs: Inputs, metric: Metric, conventions: Conventions) -> bool:
    """Is it a metric of forbidden items, for which other grades are read than for others?"""
    reads = metric.record is not None and metric.record.reads_forbidden
    return reads and (bool(inputs.forbidden) or conventions.negative == "unjudged")


def read_apart(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[Inputs, list[Metric], Conventions] | None:
    """What metrics of forbidden items are computed from, if other grades are read for them."""
    apart = [metric for metric in metrics if is_apart(inputs, metric, conventions)]
    if not apart:
        return None
    if inputs.forbidden:
        inputs = replace(
            inputs, qrels=inputs.forbidden, forbidden=None, subtopics=False, by=(), ctes={},
            weight=None,
        )  # fmt: skip
    return inputs, apart, replace(conventions, negative="zero", undefined="skip")


def own_metric(metric: Metric) -> str:
    """A metric of the user, as SQL."""
    return f"CAST((\n{metric.expression}\n) AS DOUBLE)"


def is_cut(metric: Metric) -> bool:
    """Is it a metric of the user that a CTE of its own computes?"""
    cut = metric.k is not None or metric.shown is not None or metric.of_run
    own = metric.record is None and cut
    return own and not (metric.spans or is_catalogue(metric))


def cut_column(metric: Metric) -> str:
    """The column with the value of a metric of the user over the first k positions."""
    return quote(f"{INTERNAL_PREFIX}{metric.name}")


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
