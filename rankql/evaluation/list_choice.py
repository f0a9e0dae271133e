"""When lists of scores replace a window over the rows, and under which conventions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from rankql.evaluation.best_lists import suit_best_lists
from rankql.evaluation.ctes import can_pack_lists, judged_rows, ranks_before_join
from rankql.evaluation.judged_ranks import suit_lists, suit_top_lists, suit_untied_lists
from rankql.evaluation.metric_columns import (
    last_position,
    metric_calls,
    needs_scores,
    rows_needed,
)
from rankql.evaluation.packed_metrics import pack_metrics
from rankql.evaluation.source_ctes import RunSql
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# Do lists suit the data? It takes a function that runs SQL and the number of rows.
Suit: TypeAlias = Callable[[RunSql, int], bool]


def choose_lists(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, end: int
) -> tuple[Conventions, Suit] | None:
    """Conventions for the query with lists, and the test whether lists suit the data.

    If these are not the conventions of the caller, they give the same values only for rankings
    without ties in which every row has a score. None if lists cannot give the values.
    """
    untied = conventions.ties == "expected"
    simple = replace(conventions, ties="item") if untied else conventions
    if not ranks_before_join(inputs, simple):
        return _choose_best_lists(inputs, metrics, replace(simple, ideal="judged"), end)
    if not inputs.scored:
        return None
    zeroes = can_zero_others(inputs, metrics, simple, end)
    judged = replace(simple, ideal="judged") if zeroes else simple
    k, rows = last_position(metrics, judged), rows_needed(metrics, judged)
    if k is not None:
        untied_lists = partial(suit_untied_lists, keys=inputs.keys, k=k)
        return simple, untied_lists if untied else suit_top_lists
    if untied or rows == "all" or needs_scores(metrics):
        return None
    return simple, partial(suit_lists, keys=inputs.keys, where=judged_rows(rows))


def _choose_best_lists(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, end: int
) -> tuple[Conventions, Suit] | None:
    """The same for a table with grades and scores: lists of the best grades of each ranking."""
    if not can_pack_lists(inputs, conventions):
        return None
    top, packed = pack_metrics(end, metrics, vars(conventions))
    calls, _ = metric_calls(metrics, conventions)
    if packed.keys() != calls.keys():
        return None
    return conventions, partial(suit_best_lists, keys=inputs.keys, k=top.k)


def can_zero_others(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, end: int
) -> bool:
    """Is ideal='retrieved' the same as grade 0 for every item that is not retrieved?

    For packed nDCG and IDCG it is.
    """
    if conventions.ideal != "retrieved" or conventions.undefined == "drop":
        return False
    if not ranks_before_join(inputs, conventions):
        return False
    ideals = (m.record and m.arguments(vars(conventions)).get("ideal") for m in metrics)
    if not all(ideal == "retrieved" for ideal in ideals):
        return False
    _, packed = pack_metrics(end, metrics, vars(replace(conventions, ideal="judged")))
    return len(packed) == len(metrics)
