"""One id per query as the truth: a list, an array or a Series beside as many rows of ids or scores.

Deep learning has it so: the column that is right in each row of scores, or the id that is right for
each list. Labels, sizes of groups and ranks have as many values, and are not read as ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rankql.core.base.errors import Question, as_arguments
from rankql.core.tables.request import RankingRules
from rankql.shapes.open.plain import DICTS, unwrap

# What rows of whole numbers may be, if they are floats.
_READINGS = (
    ({"order": "list"}, "each row has ids in order"),
    ({"descending": True}, "each row has the scores of the items 0, 1, 2, ..."),
)


def pair_truths(run: Any, qrels: Any, rules: RankingRules) -> tuple[Any, Any] | None:
    """The run or runs, and the judgments, both by the number of the row, or by the query of dicts;
    None of other data.

    Beside scores, a row may have several columns that are true.
    """
    if isinstance(qrels, DICTS):
        if not isinstance(run, DICTS) or {*run} != {*qrels}:
            return None
        both = pair_truths([run[x] for x in qrels], [*qrels.values()], rules)
        if both is None:
            return None
        by_query = (dict(zip(qrels, x.values(), strict=True)) for x in both)
        return next(by_query), next(by_query)
    rows = [_rows_of(x) for x in (run.values() if isinstance(run, DICTS) else [run])]
    truths = [*map(unwrap, unwrap(qrels))]
    if not rows or any(x is None or len(x) != len(truths) for x in rows):
        return None
    single = not any(isinstance(x, list | dict) for x in truths)
    gold = [[x] if single else x for x in truths]
    every = [(row, true) for x in rows for row, true in zip(x or (), gold, strict=True)]
    scored = any(isinstance(value, float) for row, _ in every for value in row)
    if not single and (not scored or any(len({*x}) < len(x) for x in gold)):
        return None  # lists of ids, or a grade for each column
    if not single and all(len(true) == len(row) for row, true in every):
        return None
    ranked = single and _are_ids(every)
    if scored and ranked and rules.order != "list" and rules.descending is None:
        question = Question("run: whole numbers that hold the truth. Are they ids or scores?")
        for call, meaning in _READINGS:
            question.calls.append(call)
            question.meanings[as_arguments(call)] = meaning
        raise question
    scored = scored and not (ranked and rules.order == "list")
    highest = max(len(row) for row, _ in every) - scored
    places = all(type(x) is int and 0 <= x <= highest for x in chain(*gold))
    known = scored or ranked or (not places and any(x in row for row, (x,) in every))
    if (scored and not places) or not known:
        return None  # labels, sizes of groups or ranks
    read = [
        {
            n: dict(enumerate(row)) if scored else [*map(_as_id, row)]
            for n, row in enumerate(x or ())
        }
        for x in rows
    ]
    runs = dict(zip(run, read, strict=True)) if isinstance(run, DICTS) else read[0]
    return runs, dict(enumerate(gold))


def _are_ids(rows: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> bool:
    """Are rows ids in order: whole numbers, different in a row, with the truth in most rows? Sizes
    of groups are not the truth.
    """
    whole = all(_as_id(x) is not x or type(x) is int for row, _ in rows for x in row)
    different = all(len({*row}) == len(row) for row, _ in rows)
    hits = sum(true[0] in row for row, true in rows)
    sizes = all(true[0] == len(row) for row, true in rows)
    return whole and different and 2 * hits > len(rows) and not sizes


def _as_id(value: Any) -> Any:
    """A whole number that is a float, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _rows_of(data: Any) -> Sequence[Sequence[Any]] | None:
    """The rows of an array, of lists in a list, or of a frame whose columns are numbered."""
    if hasattr(data, "columns"):
        names = [*data.columns]
        numbered = names and names == [*range(len(names))] and hasattr(data, "to_numpy")
        data = data.to_numpy() if numbered else ()
    rows = [unwrap(x) for x in unwrap(data)] if hasattr(data, "__len__") else []
    flat = all(type(x) is list and not any(isinstance(y, list | dict) for y in x) for x in rows)
    return rows if rows and flat and not isinstance(data, str) else None
