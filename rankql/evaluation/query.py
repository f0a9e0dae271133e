"""Write the SQL query of an evaluation: every metric of every query of every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rankql.evaluation import packed_sums
from rankql.evaluation.best_lists import best_list_ctes
from rankql.evaluation.bounds import add_bounds, bound_calls
from rankql.evaluation.catalogue import (
    catalogue_meta,
    catalogue_notes,
    is_catalogue,
    pseudo_values,
)
from rankql.evaluation.clauses import CUTS, select_from, with_ctes
from rankql.evaluation.compatibility import require_compatible, require_different_names
from rankql.evaluation.ctes import (
    JUDGED,
    can_pack_lists,
    ranking_ctes,
    ranks_before_join,
    score_order,
)
from rankql.evaluation.grouping import (
    DUPLICATES,
    grouped,
    hits_by_query,
    key_columns,
    overlap_counts,
    sums_by_query,
)
from rankql.evaluation.hit_metrics import hit_values
from rankql.evaluation.judged_ranks import sorted_scores
from rankql.evaluation.list_choice import can_zero_others, choose_lists
from rankql.evaluation.metric_columns import (
    cut_column,
    is_cut,
    last_position,
    mask_undefined,
    metric_calls,
    own_metric,
    rows_needed,
)
from rankql.evaluation.packed import Top
from rankql.evaluation.packed_metrics import pack_metrics
from rankql.evaluation.source_ctes import SqlRunner, source_ctes
from rankql.macros import INTERNAL_PREFIX, JUDGED_ROWS, MISSING, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

SHARED = "several items share a position"
# Merged rankings share position 1, also if only rows with gain are read.
ONE_RANKING = ("run", "pos", "WHERE pos = 1")
# How the packed form refuses data: errors with this remedy. evaluate() then runs the plain form.
INSTEAD = "Use the query of `rankql sql --readable`"
_TOO_MANY = f"items of a query have a gain. {INSTEAD}"
_TIED = f"scores are tied, NULL or NaN. {INSTEAD}"
# What the packed form says about itself.
_PACKED = """\
-- The fast form for grades that are small whole numbers: the step `sums` packs the top of each
-- ranking into one number, from which all metrics follow. `rankql sql --readable` prints the
-- same query with one macro per metric.
"""
# What a query without an average over the orders of tied items says about itself.
_UNTIED = """\
-- This query refuses tied scores. `rankql sql --readable` prints one with the average over all
-- orders of tied items.
"""


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation, and the columns it returns after those of the keys."""

    sql: str
    metrics: list[str]
    weights: dict[str, str]
    # The rows that it reads: those with gain, all judged ones, or unjudged ones too.
    rows: Rows
    # What must be unique within a query: table, column, and a condition on the rows.
    unique_columns: Sequence[tuple[str, str, str]]
    # The macros check their arguments, because an expression of the user may pass anything.
    checked: bool = False
    # All values of a ranking are sums.
    only_sums: bool = False
    # It refuses scores that are tied, NULL or NaN.
    untied: bool = False
    # It checks scores itself.
    validates_scores: bool = False
    # If it counts what runs and judgments have in common: what builds the same without this.
    uncounted: Callable[[], Query] | None = None
    # What its values are, if this is not obvious.
    notes: Sequence[str] = ()
    # What the result must know of the metrics of the user.
    meta: Mapping[str, Any] = field(default_factory=dict)
    # The same in two parts, which are faster unless rows are very many.
    parts: packed_sums.PackedSums | None = None
    # What builds the same query without the packed form.
    plain: Callable[[], Query] | None = None
    # What finds, for the data and its number of rows, what builds the same query with lists of
    # scores, if these suit. It takes counts_overlap=. This one is its plain form.
    by_lists: Callable[[SqlRunner, int], Callable[..., Query] | None] | None = None
    # What builds the query of each metric of the user alone, to find the one that fails.
    alone: Mapping[str, Callable[[], Query]] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The SQL for the user."""
        return (self.uncounted() if self.uncounted else self).sql


def build_query(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    end: int = 0,
    best: str = "",
    untied: bool = False,
    counts_overlap: bool = False,
) -> Query:
    """The SQL that computes all the metrics, one row per query and system.

    end: all grades are whole numbers from 0 to end; 0 if they may be anything. best: the aggregate
    for lists of the scores of each ranking, if the query has lists. untied: these refuse scores
    that are tied, NULL or NaN. counts_overlap: it counts what runs and judgments have in common.
    """
    require_compatible(inputs, metrics, conventions)
    tie_error = _TIED if untied else ""
    original, zeroes = conventions, can_zero_others(inputs, metrics, conventions, end)
    if zeroes:
        conventions = replace(conventions, ideal="judged")
    every_row = conventions.unjudged == "bounds" or not ranks_before_join(inputs, conventions)
    rows: Rows = "all" if every_row else rows_needed(metrics, conventions)
    if untied and rows == "gain":
        rows = "judged"  # to refuse the same duplicates as without lists

    of_all = best and inputs.qrels is not None and last_position(metrics, conventions) is None
    calls, weights = metric_calls(metrics, conventions)
    by_hits = of_all and rows == "gain" and not weights
    hits = hit_values(metrics, conventions, end) if by_hits else {}
    steps = source_ctes(inputs, conventions) | ranking_ctes(
        inputs, metrics, conventions, rows, best, tie_error, zeroes, bool(hits)
    )
    names = [metric.name for metric in metrics]
    steps = _cut_own_metrics(inputs, metrics, steps, conventions)
    counts_overlap &= inputs.qrels is not None and conventions.unjudged != "bounds"
    counts_overlap &= CUTS in steps or not every_row
    counts = overlap_counts(inputs, CUTS in steps, rows) if counts_overlap else {}
    keys = key_columns(inputs) | counts
    require_different_names([inputs.query, *inputs.by, MISSING, *counts, *calls])
    in_order = f"\nORDER BY {_keys(inputs)}"
    if conventions.unjudged == "bounds":
        lists, bounds = bound_calls(metrics, conventions)
        require_different_names([*keys, *calls, *lists])
        columns = keys | mask_undefined(calls, conventions) | lists
        values = with_ctes(steps) + grouped(inputs, columns)
        sql = add_bounds(values, names, list(lists), bounds) + in_order
        names = [f"{name}{side}" for name in names for side in ("", " low", " high")]
        return Query(sql, names, {}, rows, _unique_columns(inputs, conventions, rows, None))
    scale = 0 if hits or conventions.ties == "expected" else end
    top, packed = pack_metrics(scale, metrics, vars(conventions))
    plain = [metric for metric in metrics if metric.name not in packed]
    unique = _unique_columns(
        inputs, conventions, rows, last_position(plain, conventions) if plain else 0
    )
    if packed and _sums_integers(inputs, conventions):
        unique.remove(ONE_RANKING)  # checked by the sums
    sums = None
    if packed:
        sums = _from_top(
            inputs, conventions, steps, top, packed, keys, calls, counts, best, tie_error
        )
        sql = _PACKED + sums.query()
    elif hits:
        hits = mask_undefined(hits, conventions, JUDGED_ROWS)
        sql = with_ctes(steps) + hits_by_query(inputs, hits, counts) + in_order
    else:
        sql = with_ctes(steps) + grouped(inputs, keys | mask_undefined(calls, conventions))
        sql += in_order
    lists_validate = CUTS in steps or (untied and can_pack_lists(inputs, conventions))
    return Query(
        (_UNTIED if untied else "") + sql,
        names,
        weights,
        rows,
        unique,
        checked=any(metric.record is None for metric in metrics),
        only_sums=packed.keys() == calls.keys(),
        untied=untied,
        validates_scores=lists_validate and not any(run.text for run in inputs.runs.values()),
        uncounted=(
            partial(build_query, inputs, metrics, original, end, best, untied) if counts else None
        ),
        notes=catalogue_notes(metrics),
        meta=catalogue_meta(metrics),
        parts=sums,
        plain=partial(build_query, inputs, metrics, original) if packed else None,
        by_lists=partial(_with_lists, inputs, metrics, original, end),
        alone={
            f"{metric.label!r} = {metric.expression!r}": partial(
                build_query, inputs, [metric], conventions
            )
            for metric in metrics
            if metric.record is None
        },
    )


def _with_lists(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    end: int,
    run_sql: SqlRunner,
    number: int,
) -> Callable[..., Query] | None:
    """What builds the query with lists of scores, or None if these do not suit the data."""
    choice = choose_lists(inputs, metrics, conventions, end)
    if choice is None:
        return None
    simple, suit, k = choice
    if not suit(run_sql, number):
        return None
    best = sorted_scores(run_sql, inputs.keys) if k is None else f"max(score, {k + 1})"
    return partial(build_query, inputs, metrics, simple, end, best, simple != conventions)


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


def _from_top(
    inputs: Inputs,
    conventions: Conventions,
    steps: Mapping[str, str],
    top: Top,
    packed: Mapping[str, str],
    keys: Mapping[str, str],
    calls: Mapping[str, str],
    counts: Mapping[str, str],
    best: str,
    tie_error: str,
) -> packed_sums.PackedSums:
    """The CTEs after `steps` up to the integers of the packed tops, and what follows from them."""
    plain = {name: value for name, value in calls.items() if name not in packed}
    steps, grade, place, before = {**steps}, "CAST(rel AS INTEGER)", "pos", "sums"
    sums_integers = _sums_integers(inputs, conventions)
    # Names of the user are replaced by ours until the final SELECT.
    others = {**keys, **mask_undefined(plain, conventions)}
    hidden = {name: f"{INTERNAL_PREFIX}column_{i}" for i, name in enumerate(others)}
    columns = {hidden[name]: value for name, value in others.items()}
    if sums_integers:
        # Integers are faster to compare and to shift than the DOUBLE of the macros.
        grade, place = f"{INTERNAL_PREFIX}rel", f"{INTERNAL_PREFIX}pos"
        steps["run"] = source_ctes(inputs, conventions, integers=True)["run"]
    if best and can_pack_lists(inputs, conventions):
        order, group = score_order(conventions.ties), partial(grouped, inputs)
        steps |= best_list_ctes(top, columns, inputs.keys, order, group, tie_error)
    elif inputs.qrels is not None and not plain:
        before = "rankings"
        steps |= sums_by_query(inputs, top.sums(grade, place, first=sums_integers), hidden, counts)
    else:
        steps["sums"] = grouped(inputs, columns | top.sums(grade, place, first=sums_integers))
    # Sort while rows are small. The following steps keep their order.
    steps[before] += f"\nORDER BY {_ascending(inputs.keys.split(', '))}"
    integers = [f"{value} AS {quote(name)}" for name, value in top.integers().items()]
    steps["integers"] = select_from(before, [*map(quote, hidden.values()), *integers])
    values = mask_undefined(packed, conventions, top.relevant(conventions.threshold))
    values |= {name: quote(column) for name, column in hidden.items()}
    refused = {
        top.repeats_position(): DUPLICATES,
        top.overflows(): f"{top.limit:,} {_TOO_MANY}",
    }
    fields = {name: values[name] for name in {**keys, **calls}}
    return packed_sums.PackedSums(steps, top.steps(), fields, refused)


def _sums_integers(inputs: Inputs, conventions: Conventions) -> bool:
    """Are the packed sums over the rows of a table with grades and positions?"""
    return inputs.qrels is None and not inputs.scored and conventions.unjudged != "remove"


def _unique_columns(
    inputs: Inputs, conventions: Conventions, rows: Rows, k: int | None
) -> list[tuple[str, str, str]]:
    """What must be unique in the tables; positions only up to k."""
    columns = []
    if not inputs.scored:
        columns.append(ONE_RANKING)
    removed = conventions.unjudged == "remove"  # the rows that are left need positions of their own
    if inputs.qrels is not None:
        columns.append(("qrels", "item", "WHERE rel > 0" if rows == "gain" else ""))
        if removed and not inputs.scored:
            columns.append(("run", "pos", f"{JUDGED} AND pos IS NOT NULL"))
        return columns
    if inputs.every("item"):
        columns.append(("run", "item", "WHERE rel > 0"))
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
