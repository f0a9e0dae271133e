"""Runs and judgments as dicts: {query: {item: number}} and {query: [items in order]}."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from numbers import Integral, Real
from typing import Any, TypeGuard

import polars as pl

from rankql.errors import RankqlError
from rankql.registry.argument_checks import parse_number
from rankql.registry.column_names import COLUMN_NAMES, ROLES, squash
from rankql.text import join_words

_LISTS = (list, tuple, set, frozenset)
_DICTS = (dict, Mapping)  # the check of Mapping is slow
_QUERIES = {squash(name) for name in ROLES["query"]}
# What errors call the values of a dict.
_WORDS = {
    "": "empty",
    "a run": "not a list or a dict of numbers",
    "items": "a list of items",
    "numbers": "a dict of numbers",
    "objects": "a list of objects",
    "pairs": "a list of pairs",
    "rows": "a list of rows",
}


def is_several_runs(data: Any) -> TypeGuard[Mapping[str, Any]]:
    """Is it a dict of name: run, and not one run or judgments?"""
    return (
        isinstance(data, Mapping)
        and not is_answer(data)
        and (kinds_of(data) == ["a run"] or not data)
    )


def kinds_of(data: Mapping[Any, Any]) -> list[str]:
    """What the values are: 'numbers' by item, 'items', 'pairs', 'objects', 'rows' or 'a run'."""
    return list(dict.fromkeys(filter(None, map(_kind_of_value, data.values()))))


def find_part(data: Mapping[Any, Any]) -> Any:
    """The part of an object that has the rows or the queries; None if it is all of it."""
    kinds = kinds_of(data)
    if len(kinds) < 2 and kinds not in (["rows"], ["a run"]):
        return None
    parts = [
        name for name, value in data.items()
        if _kind_of_value(value) == "rows"
        or (isinstance(value, _DICTS) and kinds_of(value) in (["items"], ["pairs"], ["numbers"]))
    ]  # fmt: skip
    if len(parts) > 1:
        raise ValueError(f"{join_words([*map(repr, parts)])} may be the data. Pass one of them")
    return parts[0] if parts else None


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
        first = next(iter(value), None)
        if isinstance(first, _DICTS):
            of_row = (
                isinstance(x, _LISTS) or squash(str(name)) in _QUERIES for name, x in first.items()
            )
            return "rows" if any(of_row) else "objects"
        pair = isinstance(first, list | tuple) and len(first) == 2 and isinstance(first[1], Real)
        return "pairs" if pair else "items" if value else ""
    if isinstance(value, _DICTS) and not is_answer(value):
        first = [*islice(value.values(), 3)]
        numbers = all(x is None or isinstance(x, Real | str) for x in first)
        return ("numbers" if numbers else "a run") * bool(value)
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
    kinds = kinds_of(data)
    if len(kinds) > 1 or kinds in (["a run"], ["rows"], ["objects"]):
        examples = {_kind_of_value(value): key for key, value in data.items()}
        seen = join_words([f"{key!r} is {_WORDS[kind]}" for kind, key in examples.items()])
        what = (
            "must be one table, not a dict of runs" if kinds == ["a run"] else f"is mixed: {seen}"
        )
        raise RankqlError(f"{label} {what}. {_shapes(label)}")
    if not any(data.values()):
        raise RankqlError(f"{label} is empty: the dict has no items")
    judged = label == "qrels"
    values = list(data.values())
    if kinds == ["items"]:
        names = {str(key).lower() for key in data}
        if len(names & COLUMN_NAMES) > 1:
            raise RankqlError(
                f"{label} looks like a dict of columns ({', '.join(map(str, data))}), not of "
                "queries. Pass polars.DataFrame(...) of it"
            )
        if not judged and any(isinstance(value, set | frozenset) for value in values):
            raise RankqlError(f"{label}: a set of items has no order. Pass a list")
    rows = pl.DataFrame(
        {"query": id_column(list(data), label, "query"), "n": list(map(len, values))}
    )
    rows = rows.filter(pl.col("n") > 0)
    queries = rows.select(pl.col("query").repeat_by("n").explode()).to_series()
    if kinds == ["items"]:
        items = id_column(list(chain.from_iterable(values)), label, "item")
        places = rows.select(pl.int_ranges(1, pl.col("n") + 1).explode().alias("pos")).to_series()
        return pl.DataFrame([queries, items, *([] if judged else [places])])
    pairs = [*chain.from_iterable(x.items() if isinstance(x, _DICTS) else x for x in values)]
    if not all(isinstance(x, list | tuple) and len(x) == 2 for x in pairs):
        raise RankqlError(f"{label}: some items are pairs, others are not. {_shapes(label)}")
    items = id_column([item for item, _ in pairs], label, "item")
    numbers = _numbers(pairs, queries, label, "rel" if judged else "score")
    return pl.DataFrame([queries, items, numbers])


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
    pairs: Sequence[tuple[Any, Any]], queries: pl.Series, label: str, role: str
) -> pl.Series:
    """A column of numbers: Python's int as integers, so that few grades stay fast."""
    numbers = [number for _, number in pairs]
    types = _types(numbers)
    if str in types:
        parsed = [parse_number(x) if isinstance(x, str) else x for x in numbers]
        known = zip(numbers, parsed, strict=True)
        if all((x is None) == (y is None) and math.isfinite(y or 0) for x, y in known):
            numbers, types = parsed, _types(parsed)
    if not all(issubclass(each, Real) for each in types):
        wrong = next(i for i, x in enumerate(numbers) if not isinstance(x, Real | None))
        raise RankqlError(
            f"{label}: the {role} of item {pairs[wrong][0]!r} of query {queries[wrong]!r} must be "
            f"a number, not {numbers[wrong]!r}. {_shapes(label)}"
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
