"""Write the SQL of an evaluation: every metric of every query of every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rankql.evaluation.best_lists import best_list_ctes
from rankql.evaluation.bounds import bound_calls, select_bounds
from rankql.evaluation.catalogue import is_catalogue, pseudo_values
from rankql.evaluation.compatibility import require_compatible, require_different_names
from rankql.evaluation.ctes import JUDGED, ranking_ctes, score_order
from rankql.evaluation.grouping import DUPLICATES, grouped, key_columns, sums_by_query
from rankql.evaluation.metric_columns import (
    cut_column,
    is_cut,
    last_position,
    mask_undefined,
    metric_calls,
    own_metric,
)
from rankql.evaluation.packed import Top
from rankql.evaluation.packed_metrics import pack_metrics
from rankql.evaluation.packed_sums import PackedSums
from rankql.evaluation.plan import Plan
from rankql.evaluation.source_ctes import source_ctes
from rankql.evaluation.steps import select_from, with_ctes
from rankql.macros import INTERNAL_PREFIX, MISSING, TIED, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# Merged rankings share position 1, also if only rows with gain are read.
ONE_RANKING = ("run", "pos", "WHERE pos = 1")


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation, and the columns it returns after those of the keys."""

    # The named steps in order, and what is selected from them.
    steps: Mapping[str, str]
    select: str
    metrics: list[str]
    weights: dict[str, str]
    # The macros check their arguments, because an expression of the user may pass anything.
    checked: bool = False
    # It selects sums, from which polars computes the values.
    packed: PackedSums | None = None

    @property
    def sql(self) -> str:
        """The complete query."""
        return with_ctes(self.steps) + self.select


def write_query(inputs: Inputs, plan: Plan) -> Query:
    """The query that computes all the metrics, one row per query and system."""
    metrics, conventions, rows = plan.metrics, plan.effective, plan.rows(inputs)
    require_compatible(inputs, metrics, plan.conventions)
    calls, weights = metric_calls(metrics, conventions)
    keys = key_columns(inputs, tied=plan.ranker == "top")
    require_different_names([inputs.query, *inputs.by, MISSING, *calls])
    steps = source_ctes(inputs, conventions)
    steps |= ranking_ctes(inputs, metrics, conventions, rows, plan.ranker, plan.list_length)
    steps = _cut_own_metrics(inputs, metrics, steps, conventions)
    names = [metric.name for metric in metrics]
    order = f"\nORDER BY {_keys(inputs)}"
    if conventions.unjudged == "bounds":
        lists, bounds = bound_calls(metrics, conventions)
        require_different_names([*keys, *calls, *lists])
        columns = keys | mask_undefined(calls, conventions) | lists
        steps["lists"] = grouped(inputs, columns)
        select = select_bounds(names, list(lists), bounds) + order
        names = [f"{name}{side}" for name in names for side in ("", " low", " high")]
        return Query(steps, select, names, {})
    top, packed = pack_metrics(plan.scale, metrics, vars(conventions))
    sums = None
    if packed:
        sums = _pack(inputs, plan, steps, top, packed, keys, calls)
        steps, select = dict(sums.steps), "FROM integers"
    else:
        select = grouped(inputs, keys | mask_undefined(calls, conventions)) + order
    checked = any(metric.record is None for metric in metrics)
    return Query(steps, select, names, weights, checked, sums)


def _cut_own_metrics(
    inputs: Inputs,
    metrics: Sequence[Metric],
    steps: Mapping[str, str],
    conventions: Conventions,
) -> dict[str, str]:
    """The steps; metrics of the user with a cutoff are computed over the first k positions."""
    cut = [metric for metric in metrics if is_cut(metric)]
    if not cut:
        return dict(steps)
    rows, joined = f"{INTERNAL_PREFIX}rows", [f"{INTERNAL_PREFIX}cut_{i}" for i in range(len(cut))]
    steps = {rows if name == "ranked" else name: body for name, body in steps.items()}
    queries, skips = "queries" if inputs.qrels else "", conventions.missing == "skip"
    for name, metric in zip(joined, cut, strict=True):
        if is_catalogue(metric):
            column = cut_column(metric)
            steps[name] = pseudo_values(metric, rows, queries, inputs.keys, column, skips=skips)
            continue
        fields = [inputs.keys, f"{own_metric(metric)} AS {cut_column(metric)}"]
        rest = f"WHERE pos <= {metric.k} GROUP BY {inputs.keys}"
        steps[name] = select_from(rows, fields, rest)
    joins = "".join(f" LEFT JOIN {name} USING ({inputs.keys})" for name in joined)
    return {**steps, "ranked": select_from(rows + joins, ["*"])}


def _pack(
    inputs: Inputs,
    plan: Plan,
    steps: Mapping[str, str],
    top: Top,
    packed: Mapping[str, str],
    keys: Mapping[str, str],
    calls: Mapping[str, str],
) -> PackedSums:
    """The steps up to `integers`, the packed tops, and what polars computes from them."""
    conventions = plan.effective
    plain = {name: value for name, value in calls.items() if name not in packed}
    steps, grade, place, before = {**steps}, "CAST(rel AS INTEGER)", "pos", "sums"
    integers = sums_integers(inputs, conventions)
    # Names of the user are replaced by ours until the final SELECT.
    others = {**keys, **mask_undefined(plain, conventions)}
    hidden = {name: f"{INTERNAL_PREFIX}column_{i}" for i, name in enumerate(others)}
    columns = {hidden[name]: value for name, value in others.items()}
    if integers:
        # Integers are faster to compare and to shift than the DOUBLE of the macros.
        grade, place = f"{INTERNAL_PREFIX}rel", f"{INTERNAL_PREFIX}pos"
        steps["run"] = source_ctes(inputs, conventions, integers=True)["run"]
    if plan.ranker == "best":
        order, group = score_order(conventions.ties), partial(grouped, inputs)
        steps |= best_list_ctes(top, columns, inputs.keys, order, group, plan.assumes_no_ties)
        if plan.assumes_no_ties:
            hidden[TIED] = TIED
    elif inputs.qrels is not None and not plain:
        before = "rankings"
        steps |= sums_by_query(inputs, top.sums(grade, place, first=integers), hidden)
    else:
        steps["sums"] = grouped(inputs, columns | top.sums(grade, place, first=integers))
    # Sort while rows are small. The following steps keep their order.
    steps[before] += f"\nORDER BY {_ascending(inputs.keys.split(', '))}"
    fields = [f"{value} AS {quote(name)}" for name, value in top.integers().items()]
    steps["integers"] = select_from(before, [*map(quote, hidden.values()), *fields])
    values = mask_undefined(packed, conventions, top.relevant(conventions.threshold))
    values |= {name: quote(column) for name, column in hidden.items()}
    names = [*keys, *([TIED] if TIED in hidden and TIED not in keys else []), *calls]
    return PackedSums(
        steps,
        top.steps(),
        {name: values[name] for name in names},
        repeated=top.repeats_position(),
        crowded=top.overflows(),
        message=DUPLICATES,
    )


def sums_integers(inputs: Inputs, conventions: Conventions) -> bool:
    """Are the packed sums over the rows of a table with grades and positions?"""
    return inputs.qrels is None and not inputs.scored and conventions.unjudged != "remove"


def unique_columns(inputs: Inputs, plan: Plan) -> list[tuple[str, str, str]]:
    """What must be unique in the tables; positions only as far as macros read them."""
    plain, conventions = plan.readable, plan.conventions
    rows: Rows = plain.rows(inputs)
    columns = []
    _, packed = pack_metrics(plan.scale, plan.metrics, vars(plan.effective))
    # Packed sums check that a ranking has one position 1.
    if not inputs.scored and not (packed and sums_integers(inputs, conventions)):
        columns.append(ONE_RANKING)
    removed = conventions.unjudged == "remove"  # the rows that are left need positions of their own
    if inputs.qrels is not None:
        columns.append(("qrels", "item", "WHERE rel > 0" if rows == "gain" else ""))
        if removed and not inputs.scored:
            columns.append(("run", "pos", f"{JUDGED} AND pos IS NOT NULL"))
        return columns
    if inputs.every("item"):
        columns.append(("run", "item", "WHERE rel > 0"))
    others = [metric for metric in plan.metrics if metric.name not in packed]
    k = last_position(others, conventions) if others else 0
    if not inputs.scored and (removed or k != 0):
        within = "" if removed or k is None else f" AND pos <= {k}"
        columns.append(("run", "pos", f"WHERE rel > 0 AND pos IS NOT NULL{within}"))
    return columns


def _keys(inputs: Inputs) -> str:
    """The order by the keys, with their names in the result."""
    key = quote(inputs.query)
    return _ascending(["system", key] if inputs.many else [key])


def _ascending(keys: Sequence[str]) -> str:
    """An order that does not depend on settings."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)
