"""Runs and judgments as dicts: {query: {item: number}} and {query: [items in order]}."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from numbers import Integral, Real
from typing import Any, TypeGuard

import polars as pl

from rankql.errors import RankqlError
from rankql.registry.argument_checks import parse_number
from rankql.registry.column_names import COLUMN_NAMES
from rankql.text import join_words

_LISTS = (list, tuple, set, frozenset)
_DICTS = (dict, Mapping)  # the check of Mapping is slow


def is_several_runs(data: Any) -> TypeGuard[Mapping[str, Any]]:
    """Is it a dict of name: run, and not one run or judgments?"""
    if not isinstance(data, Mapping) or is_answer(data):
        return False
    with suppress(RankqlError):  # `frame_from_dict` refuses mixed values
        return _kind(data, "run") in ("a run", "")
    return False


def _kind(data: Mapping[Any, Any], label: str) -> str:
    """What the values are: 'a run', or 'numbers' or 'items' of a query; '' in an empty dict."""
    kinds: dict[str, Any] = {}
    for key, value in data.items():
        kinds.setdefault(_kind_of_value(value), key)
    empty = "" in kinds
    kinds.pop("", None)
    if len(kinds) > 1:
        words = {"numbers": "a dict of numbers", "items": "a list of items"}
        seen = [
            f"{key!r} is {words.get(kind, f'a run ({type(data[key]).__name__})')}"
            for kind, key in kinds.items()
        ]
        raise RankqlError(
            f"The values of the dict {label} are mixed: {join_words(seen)}. {_shapes(label)}"
        )
    return next(iter(kinds), "numbers" if empty else "")


def is_answer(data: Any) -> bool:
    """Is it what _search or _msearch of OpenSearch answers?"""
    if not isinstance(data, _DICTS):
        return False
    hits = data.get("hits")
    parts = data.get("responses") or (hits.get("hits") if isinstance(hits, Mapping) else None)
    return isinstance(parts, list) and all(isinstance(part, Mapping) for part in parts)


def _shapes(label: str) -> str:
    if label == "qrels":
        return "Pass {query: {item: grade}}, or {query: [relevant items]}"
    return (
        "Pass {query: {item: score}}, {query: [items in order]}, or {name: run} for several systems"
    )


def _kind_of_value(value: Any) -> str:
    if isinstance(value, _LISTS):
        return "items" if value else ""
    if isinstance(value, _DICTS):
        if not value:
            return ""
        if is_answer(value):
            return "a run"
        first = next(iter(value.values()))
        return "numbers" if first is None or isinstance(first, Real | str) else "a run"
    return "items" if _is_array(value) else "a run"


def _is_array(value: Any) -> bool:
    """Is it a Series of pandas or polars, or an array of numpy?"""
    return hasattr(value, "tolist") or hasattr(value, "to_list")


def _as_list(value: Any) -> Any:
    """A Series or an array as a list; other values as they are."""
    if isinstance(value, (*_LISTS, *_DICTS)) or not _is_array(value):
        return value
    return value.tolist() if hasattr(value, "tolist") else value.to_list()


def frame_from_dict(data: Mapping[Any, Any], label: str) -> pl.DataFrame:
    """The rows of a run, or of judgments if the label is qrels. Python reads no single row."""
    data = {query: _as_list(value) for query, value in data.items()}
    kind = _kind(data, label)
    if kind == "a run":
        raise RankqlError(f"{label} must be one table, not a dict of runs. {_shapes(label)}")
    if not any(data.values()):
        raise RankqlError(f"{label} is empty: the dict has no items")
    judged = label == "qrels"
    values = list(data.values())
    if kind == "items":
        names = {str(key).lower() for key in data}
        if len(names & COLUMN_NAMES) > 1:
            raise RankqlError(
                f"{label} looks like a dict of columns ({', '.join(map(str, data))}), not of "
                "queries. Pass polars.DataFrame(...) of it"
            )
        if not judged and any(isinstance(value, set | frozenset) for value in values):
            raise RankqlError(f"{label}: a set of items has no order. Pass a list")
        if any(isinstance(x, list) and x and x[-1] in (-1, "-1") for x in values):
            raise RankqlError(
                f"{label}: lists end with -1, which is no id. Drop it: "
                "{query: [x for x in ids if x != -1] for query, ids in data.items()}"
            )
    rows = pl.DataFrame(
        {"query": id_column(list(data), label, "query"), "n": list(map(len, values))}
    )
    rows = rows.filter(pl.col("n") > 0)
    columns = [
        rows.select(pl.col("query").repeat_by("n").explode()).to_series(),
        id_column(list(chain.from_iterable(values)), label, "item"),
    ]
    if kind == "numbers":
        numbers = list(chain.from_iterable(value.values() for value in values))
        columns.append(_numbers(numbers, data, label, "rel" if judged else "score"))
    elif not judged:
        pos = pl.int_ranges(1, pl.col("n") + 1).explode().alias("pos")
        columns.append(rows.select(pos).to_series())
    return pl.DataFrame(columns)


def id_column(ids: list[Any], label: str, role: str) -> pl.Series:
    """A column of ids, which are all text or all whole numbers."""
    for kind in (pl.String, pl.Int64):  # fast if all are of this type
        with suppress(TypeError, ValueError, OverflowError):
            return pl.Series(role, ids, dtype=kind, strict=True)
    types = _types(ids)
    if not all(issubclass(each, Integral) for each in types):
        names = join_words(sorted(each.__name__ for each in types))
        raise RankqlError(
            f"{label}: {role} ids must be all text or all whole numbers, not {names}. "
            f"{_shapes(label)}, with ids as text: str(id)"
        )
    return pl.Series(role, [None if each is None else int(each) for each in ids])


def _numbers(
    numbers: list[Any], data: Mapping[Any, Mapping[Any, Any]], label: str, role: str
) -> pl.Series:
    """A column of numbers: Python's int as integers, so that few grades stay fast."""
    types = _types(numbers)
    if str in types:
        parsed = [parse_number(x) if isinstance(x, str) else x for x in numbers]
        if all(x is None or math.isfinite(y or 0) for x, y in zip(numbers, parsed, strict=True)):
            read = all((x is None) == (y is None) for x, y in zip(numbers, parsed, strict=True))
            numbers = parsed if read else numbers
        types = _types(numbers)
    if not all(issubclass(each, Real) for each in types):
        query, item, value = next(
            (query, item, value)
            for query, values in data.items()
            for item, value in values.items()
            if not isinstance(value, Real | None)
        )
        raise RankqlError(
            f"{label}: the {role} of item {item!r} of query {query!r} must be a number, "
            f"not {value!r}. {_shapes(label)}"
        )
    if not types <= {int, float}:  # types of numpy
        numbers = [None if each is None else float(each) for each in numbers]
    try:
        return pl.Series(role, numbers, dtype=pl.Int64 if types == {int} else pl.Float64)
    except (TypeError, OverflowError) as error:
        largest = max((each for each in numbers if isinstance(each, int)), key=abs)
        raise RankqlError(f"{label}: the {role} {largest} is too large. Divide it first") from error


def _types(values: Iterable[Any]) -> set[type]:
    return {*map(type, values)} - {type(None)}
