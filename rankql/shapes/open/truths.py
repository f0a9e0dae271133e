"""One id per query as the truth: a list, an array or a Series beside as many rows of ids or scores.

Deep learning has it so: the column that is right in each row of scores, or the id that is right for
each list. Labels, sizes of groups and ranks have as many values, and are not read as ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rankql.shapes.open.plain import DICTS, unwrap


def pair_truths(run: Any, qrels: Any) -> tuple[Any, Any] | None:
    """The run or runs, and the judgments, both by the number of the row; None of other data.

    Beside scores, a row may have several columns that are true.
    """
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
    highest = max(len(row) for row, _ in every) - scored
    places = all(type(x) is int and 0 <= x <= highest for x in chain(*gold))
    if places != scored or not (scored or any(x in row for row, (x,) in every)):
        return None  # labels, sizes of groups or ranks
    read = [
        {n: dict(enumerate(row)) if scored else row for n, row in enumerate(x or ())} for x in rows
    ]
    runs = dict(zip(run, read, strict=True)) if isinstance(run, DICTS) else read[0]
    return runs, dict(enumerate(gold))


def _rows_of(data: Any) -> Sequence[Sequence[Any]] | None:
    """The rows of an array, of lists in a list, or of a frame whose columns are numbered."""
    if hasattr(data, "columns"):
        names = [*data.columns]
        numbered = names and names == [*range(len(names))] and hasattr(data, "to_numpy")
        data = data.to_numpy() if numbered else ()
    rows = [unwrap(x) for x in unwrap(data)] if hasattr(data, "__len__") else []
    flat = all(type(x) is list and not any(isinstance(y, list | dict) for y in x) for x in rows)
    return rows if rows and flat and not isinstance(data, str) else None
