"""What vector indexes return: ids and numbers, and ids of nothing after the last neighbour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from rankql.core.base.text import format_count
from rankql.core.tables.numbers.values import LOWEST
from rankql.core.tables.reader import Reader
from rankql.shapes.open import plain


def are_ids_and_numbers(ids: Any, numbers: Any) -> bool:
    """Are they lists, or arrays, of ids and of their scores or distances?"""
    both = [*map(plain.unwrap, (ids, numbers))]
    if not all(isinstance(x, list | tuple) for x in both) or len({*map(len, both)}) > 1:
        return False
    kinds = [{type(plain.unwrap(y)) for y in x} for x in both]
    return kinds[1] == {float} and (kinds[0] <= {int} or kinds[0] <= {str})


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
