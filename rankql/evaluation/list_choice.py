"""When lists of scores replace a window over the rows, and under which conventions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

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
from rankql.evaluation.source_ctes import SqlRunner
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# Do lists suit the data? It takes what runs SQL on the sources, and the number of rows.
Suit: TypeAlias = Callable[[SqlRunner, int], bool]


class ListChoice(NamedTuple):
    """The conventions of the query with lists, the test whether lists suit, and the last position.

    There is none if lists have all scores.
    """

    conventions: Conventions
    suit: Suit
    k: int | None


def choose_lists(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, end: int
) -> ListChoice | None:
    """How lists can give the values; None if they cannot.

    If the conventions are not those of the caller, they give the same values only for rankings
    without ties in which every row has a score.
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
    if k is not None and not untied:
        return ListChoice(simple, suit_top_lists, k)
    if rows == "all" or needs_scores(metrics) or inputs.own:
        return None
    if not untied:
        where = judged_rows(rows)
        return ListChoice(simple, partial(suit_lists, keys=inputs.keys, where=where), None)
    if k is not None:
        return ListChoice(simple, partial(suit_untied_lists, keys=inputs.keys, k=k), k)
    return None


def _choose_best_lists(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, end: int
) -> ListChoice | None:
    """The same for a table with grades and scores: a list of the best items of each ranking."""
    if not can_pack_lists(inputs, conventions):
        return None
    top, packed = pack_metrics(end, metrics, vars(conventions))
    calls, _ = metric_calls(metrics, conventions)
    if packed.keys() != calls.keys():
        return None
    return ListChoice(conventions, partial(suit_best_lists, keys=inputs.keys, k=top.k), top.k)


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
