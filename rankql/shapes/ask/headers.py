"""Names for the columns of text files without a header: what `columns=` answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankql.core.base.errors import Call, parse_number
from rankql.core.tables.request import Request

# The lines that are read.
_LINES = 200


def headers_call(request: Request) -> list[Call]:
    """The call that names the columns of the run and of the judgments; none if they have others."""
    rows = [_read(x) for x in (request.run, request.qrels)]
    if not rows[0] or len(rows[0][0]) not in (2, 3):
        return []
    names, more = ["query", "item", "score"][: len(rows[0][0])], {}
    if len(names) == 3 and _counts_from_zero(rows[0]):
        names, more = ["query", "item", "rank"], {"pos": "rank + 1"}
    lists = [names]
    if rows[1] and len(rows[1][0]) in (2, 3):
        lists.append(["query", "item", "rel"][: len(rows[1][0])])
    return [{"columns": lists if len(lists) > 1 else names, **more}]


def _read(data: Any) -> list[list[str]]:
    """The first rows of a text file, by tabs where it has them."""
    if not isinstance(data, str | os.PathLike) or not os.path.isfile(data):
        return []
    with open(data, encoding="utf-8", errors="replace") as file:
        lines = [x.rstrip("\r\n") for x, _ in zip(file, range(_LINES), strict=False)]
    mark = next((x for x in "\t,;" if lines and x in lines[0]), " ")
    rows = [x.split(mark) for x in lines if x]
    return rows if len({*map(len, rows)}) == 1 else []


def _counts_from_zero(rows: Sequence[Sequence[str]]) -> bool:
    """Does the third column count 0, 1, 2 for each query?"""
    places: dict[str, list[float | None]] = {}
    for query, _, place in rows:
        places.setdefault(query, []).append(parse_number(place))
    return all(x == [*range(len(x))] for x in places.values())
