"""What vector indexes return: ids and numbers, and ids of nothing after the last neighbour."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from rankql.sources.reader import Reader
from rankql.sources.tidy import plain
from rankql.text import format_count


def are_ids_and_numbers(ids: Any, numbers: Any) -> bool:
    """Are they lists, or arrays, of ids and of their scores or distances?"""
    both = [*map(plain.unwrap, (ids, numbers))]
    if not all(isinstance(x, list | tuple) for x in both) or len({*map(len, both)}) > 1:
        return False
    kinds = [{type(plain.unwrap(y)) for y in x} for x in both]
    return kinds[1] == {float} and (kinds[0] <= {int} or kinds[0] <= {str})


_LOWEST = -3.4028234e38  # of float32


def without_padding(
    reader: Reader, label: str, lists: Sequence[Any], numbers: Sequence[Any] = ()
) -> Sequence[Any]:
    """The ids without what fills up the end of lists, as FAISS, implicit and usearch do."""
    ends = []
    for ids, near in zip(lists, numbers or repeat(()), strict=bool(numbers)):
        fills = [is_int(x, -1) for x in ids]
        if near:
            pairs = zip(fills, ids, near, strict=True)
            fills = [f or y <= _LOWEST or (is_int(x, 0) and not y < math.inf) for f, x, y in pairs]
        ends.append(max((i for i, fill in enumerate(fills, 1) if not fill), default=0))
    count = sum(map(len, lists)) - sum(ends)
    if not count or any(isinstance(x, int) and x < -1 for ids in lists for x in ids):
        return lists
    reader.note(
        label,
        f"{format_count(count, 'place')} at the end of lists left out, without an item: "
        "the id -1, 0 without a finite distance, or the lowest score of float32",
    )
    return [ids[:end] for ids, end in zip(lists, ends, strict=True)]


def is_fill(score: Any) -> bool:
    """Is it the highest or the lowest number of float32?"""
    return isinstance(score, float) and abs(score) >= -_LOWEST


def is_int(value: Any, number: int) -> bool:
    """Is it this number, and no text or fraction?"""
    return type(value) is int and value == number


def without_fills(
    reader: Reader, label: str, maps: Sequence[Any]
) -> tuple[list[Mapping[Any, Any]], bool]:
    """The numbers of items without the id -1, and whether they are distances: the lowest is best.

    FAISS gives it the highest distance, or the lowest product.
    """
    fills = [x[-1] for x in maps if is_fill(x.get(-1))]
    nearest = min(fills) > 0
    what = "distances, of which the lowest is best" if nearest else "scores"
    words = f"{format_count(len(fills), 'item')} -1 left out, the fill-in of FAISS. The numbers are"
    reader.note(label, f"{words} {what}")
    return [{i: y for i, y in x.items() if i != -1 or not is_fill(y)} for x in maps], nearest
