"""What vector indexes return: ids and numbers, and ids of nothing after the last neighbour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from rankql.sources.open import plain
from rankql.sources.open.reader import Reader
from rankql.text import format_count


def are_ids_and_numbers(ids: Any, numbers: Any) -> bool:
    """Are they lists, or arrays, of ids and of their scores or distances?"""
    both = [*map(plain.unwrap, (ids, numbers))]
    if not all(isinstance(x, list | tuple) for x in both) or len({*map(len, both)}) > 1:
        return False
    kinds = [{type(plain.unwrap(y)) for y in x} for x in both]
    return kinds[1] == {float} and (kinds[0] <= {int} or kinds[0] <= {str})


# The lowest score of float32.
LOWEST = -3.4028234e38


def without_padding(
    reader: Reader, label: str, lists: Sequence[Any], numbers: Sequence[Any] = ()
) -> Sequence[Any]:
    """The ids without what fills up the end of lists, as FAISS, implicit and usearch do."""
    ends = []
    for ids, near in zip(lists, numbers or repeat(()), strict=bool(numbers)):
        fills = [*map(is_nothing, ids)]
        if near:
            pairs = zip(fills, ids, near, strict=True)
            fills = [f or y <= LOWEST or (is_int(x, 0) and not y < math.inf) for f, x, y in pairs]
        ends.append(max((i for i, fill in enumerate(fills, 1) if not fill), default=0))
    count = sum(map(len, lists)) - sum(ends)
    if not count or any(isinstance(x, int) and x < -1 for ids in lists for x in ids):
        return lists
    reader.note(
        label,
        f"{format_count(count, 'place')} at the end of lists left out, without an item: "
        "the id -1, an empty one, 0 without a finite distance, or the lowest score of float32",
    )
    return [ids[:end] for ids, end in zip(lists, ends, strict=True)]


def is_nothing(item: Any) -> bool:
    """Is it what an array has in place of an id: -1, NULL, NaN or an empty text?"""
    return item is None or item in (-1, "") or item != item


def is_int(value: Any, number: int) -> bool:
    """Is it this number, and no text or fraction?"""
    return type(value) is int and value == number


def is_fill(item: Any, number: Any) -> bool:
    """Is it -1 with the highest or the lowest number of float32, or 0 with NaN?"""
    return isinstance(number, float) and (
        (is_int(item, -1) and abs(number) >= -LOWEST) or (is_int(item, 0) and math.isnan(number))
    )


def has_fill(found: Any) -> bool:
    """Has a map of numbers a fill-in, or a list of pairs, at its end?"""
    if isinstance(found, dict):
        return any(x in found and is_fill(x, found[x]) for x in (-1, 0))
    last = found[-1] if isinstance(found, list) and found else None
    return isinstance(last, list | tuple) and len(last) == 2 and is_fill(*last)


def without_fills(
    reader: Reader, label: str, lists: Sequence[Any]
) -> tuple[list[list[tuple[Any, Any]]], bool]:
    """The items and numbers without fill-ins, and whether they are distances: the lowest is best.

    FAISS gives -1 the highest distance, or the lowest product; usearch gives 0 no distance.
    """
    lists = [x.items() if isinstance(x, dict) else x for x in lists]
    fills = [(item, number) for pairs in lists for item, number in pairs if is_fill(item, number)]
    nearest = not any(number < 0 for _, number in fills)
    note_fills(reader, label, len(fills), fills[0][0], nearest)
    return [[(i, y) for i, y in pairs if not is_fill(i, y)] for pairs in lists], nearest


def note_fills(reader: Reader, label: str, count: int, item: int, nearest: bool) -> None:
    """Note how many fill-ins of a tool are left out, and what they say of the numbers."""
    what = "distances, of which the lowest is best" if nearest else "scores"
    tool = "FAISS" if item else "usearch"
    reader.note(
        label,
        f"{format_count(count, 'item')} {item} left out, the fill-in of {tool}. "
        f"The numbers are {what}",
    )
