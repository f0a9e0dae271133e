"""Objects of Python as one frame, column by column: dicts, tuples with names, arrays and Series.

`unwrap` takes one level apart. `to_frame` makes a frame of rows, whose lists and objects are lists
and structs of polars: reading 10,000 rows one by one takes ten times as long.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain, islice, repeat
from numbers import Integral, Real
from typing import Any

import polars as pl

from rankql.core.base.column_names import ROLES, find_name, list_side
from rankql.core.base.errors import RankqlError, parse_number, require
from rankql.core.base.libraries import is_spark_connect
from rankql.core.base.text import join_words

LISTS = (list, tuple, set, frozenset)
DICTS = (dict, Mapping)  # the check of Mapping is slow
# An object with more keys is a map, as from ids to scores.
MOST_KEYS = 200
# So many objects are looked at for their outline, and so deep.
FEW, _DEEP = 20, 4
# The queries of answers without one, counted from 0.
COUNTED = ROW_NUMBER, IN_RESPONSES = "row number", "place in responses"
_KINDS: dict[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
# What a cell may be. polars ends with other objects in a list or an object.
_CELLS = (str, bytes, Real, Decimal, date, time, timedelta, list, dict)
_SIMPLE = {*_KINDS, dict, list, type(None)}


def unwrap(value: Any) -> Any:
    """A value of Python's own types; the values in it are as they were."""
    if type(value) in _SIMPLE or is_spark_connect(value):
        return value
    if hasattr(value, "_asdict"):  # a tuple with names
        return dict(value._asdict())
    if hasattr(value, "columns"):  # a frame
        return value
    if isinstance(value, LISTS):
        return list(value)
    if isinstance(value, DICTS):
        return dict(value)
    if type(value).__module__ == "sqlite3" and hasattr(value, "keys"):  # a row
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name in ("model_dump", "tolist", "to_list", "to_pylist"):  # pydantic, arrays, Series, Arrow
        if callable(method := getattr(value, name, None)):
            return method()
    return value


def is_array(data: Any) -> bool:
    """Is it a matrix, two of them, or a list of lists?"""
    if isinstance(data, tuple) and len(data) == 2:
        return all(map(is_array, data))
    if hasattr(data, "tolist") and not hasattr(data, "columns"):
        return len(getattr(data, "shape", ())) == 2
    return (
        isinstance(data, list)
        and bool(data)
        and all(
            type(row) in (list, tuple) and {*map(type, row)}.isdisjoint((dict, list, tuple))
            for row in data
        )
    )


def outline_of(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys of the first objects, each after those of the objects around it."""
    if isinstance(value, list):
        return set().union(*(outline_of(x, path) for x in value[:FEW]))
    paths = {(*path, str(name)) for name in value} if isinstance(value, dict) else set()
    if len(path) < _DEEP and isinstance(value, dict):
        inner = ((name, x) for name, x in value.items() if isinstance(x, dict | list))
        paths |= set().union(*(outline_of(x, (*path, str(name))) for name, x in islice(inner, FEW)))
    return paths


def to_frame(objects: Sequence[Any], label: str) -> tuple[pl.DataFrame, list[str]]:
    """The frame of objects, and its columns that are maps: lists of keys and values.

    Cells of a column with lists and plain values are text, as of a file.
    """
    rows = [*map(unwrap, objects)]
    if other := [x for x in rows if type(x) is not dict]:
        text = f"{label}: every row must be a dict of names and values. "
        raise RankqlError(text + _take_dicts(other[0]))
    columns, maps = list[pl.Series](), list[str]()
    for name in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(name) for row in rows]
        types = {*map(type, values)}
        ordered = list_side(str(name)) != "run" or types.isdisjoint((set, frozenset))
        require(ordered, f"{label}: {name} has a set, which has no order. Write a list")
        if types <= {dict, type(None)}:
            keys = {*chain.from_iterable(filter(None, values))}
            if len(keys) > MOST_KEYS:
                maps.append(str(name))
                values = [
                    None if x is None else [{"key": str(k), "value": v} for k, v in x.items()]
                    for x in values
                ]
        columns.append(read_column(str(name), values, label))
    return pl.DataFrame(columns), maps


def _take_dicts(row: Any) -> str:
    """What to pass for objects such as this one, which is a row, or has what a runner measured."""
    fields = {x: y for x, y in getattr(row, "__dict__", {}).items() if x[0] != "_"}
    for name, found in fields.items():
        one = next(iter(found), None) if isinstance(found, list) else None
        if one is not None and {"name", "value"} <= {*_fields_of(one)}:
            values = f"{{y.name: y.value for y in x.{name}}}"
            return f"For read_values, pass [{{'query': i, **{values}}} for i, x in enumerate(data)]"
    return "Pass [vars(x) for x in data]" if fields else "Pass a list of them"


def read_column(name: str, values: list[Any], label: str) -> pl.Series:
    """The column of values of Python, lists and objects too; an error if it cannot be read."""
    try:
        return _column(name, values)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        line = str(error).partition("\n")[0]
        raise RankqlError(f"{label}: the objects cannot be read as rows: {line}") from error


def _column(name: str, values: list[Any]) -> pl.Series:
    """The column of values, of which each may be NULL."""
    types = {*map(type, values)}
    if types - _SIMPLE:
        values = [*map(unwrap, values)]
        types = {*map(type, values)}
    types.discard(type(None))
    if not types:
        return pl.Series(name, values, dtype=pl.Null)
    if types == {dict}:
        return _structs(name, values)
    if types == {list}:
        return _lists(name, values)
    if types & {dict, list}:
        values = [json.dumps(x, default=_text) if isinstance(x, dict | list) else x for x in values]
    if others := sorted(kind.__name__ for kind in types if not issubclass(kind, _CELLS)):
        raise TypeError(f"{name} has values of type {others[0]}. Write text or numbers")
    for kind in types if len(types) == 1 else ():
        with suppress(KeyError, TypeError, OverflowError):
            return pl.Series(name, values, dtype=_KINDS[kind])
    rows = [{name: x} for x in values]
    return pl.from_dicts(rows, infer_schema_length=None, strict=False).to_series()


def _text(value: Any) -> Any:
    """A value that JSON has, of another one in a list or an object."""
    own = unwrap(value)
    return str(value) if own is value else own


def _structs(name: str, values: list[Any]) -> pl.Series:
    keys = dict.fromkeys(chain.from_iterable(filter(None, values)))
    if not keys:
        return pl.Series(name, [None] * len(values), dtype=pl.Null)
    rows = [x or {} for x in values]
    fields = [_column(str(key), [row.get(key) for row in rows]) for key in keys]
    structs = pl.DataFrame(fields).to_struct(name)
    known = pl.Series([x is not None for x in values])
    return structs if known.all() else structs.zip_with(known, structs.clear(1))


def _lists(name: str, values: list[Any]) -> pl.Series:
    flat = [*chain.from_iterable(filter(None, values))]
    if len(types := {*map(type, flat)}) == 1 and (kind := _KINDS.get(types.pop())):
        with suppress(TypeError, OverflowError):
            return pl.Series(name, values, dtype=pl.List(kind))
    lengths = pl.Series([None if x is None else len(x) for x in values], dtype=pl.Int64)
    places = pl.DataFrame({"row": pl.int_range(len(values), eager=True), "n": lengths})
    row = [*chain.from_iterable(map(repeat, range(len(values)), lengths.fill_null(0)))]
    lists = pl.DataFrame({"row": pl.Series(row, dtype=pl.Int64), "x": _column("x", flat)})
    lists = lists.group_by("row", maintain_order=True).agg("x")
    joined = places.join(lists, on="row", how="left", maintain_order="left")
    empty = pl.lit([], dtype=joined.schema["x"])
    return joined.select(pl.when(pl.col("n") == 0).then(empty).otherwise("x").alias(name))[name]


def unique_dict(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of keys and values. Python alone keeps the last of equal keys."""
    pairs = list(pairs)
    if len(merged := dict(pairs)) < len(pairs):
        raise ValueError("a query, or an item of a query, is repeated. Keep one of them")
    return merged


def id_column(ids: list[Any], label: str, role: str, hint: str) -> pl.Series:
    """A column of ids, which are all text or all whole numbers."""
    with suppress(TypeError, ValueError):  # polars looks at each of them too
        return pl.Series(role, ids, dtype=pl.String)
    types = _types(ids)
    if types == {int}:
        with suppress(TypeError, OverflowError):
            return pl.Series(role, ids, dtype=pl.Int64)
    if not all(x is None or isinstance(x, Integral) or _is_whole(x) for x in ids):
        names = join_words(sorted(each.__name__ for each in types))
        text = f"{label}: {role} ids must be all text or all whole numbers, not {names}. "
        raise RankqlError(text + (_take_pairs(ids[0]) or f"{hint}, with ids as text: str(id)"))
    return pl.Series(role, [None if each is None else int(each) for each in ids])


def _take_pairs(value: Any) -> str:
    """What to pass for lists of objects such as this one, which have an id and maybe a score."""
    names = _fields_of(value)
    item, score = (find_name(names, role) for role in (["id", *ROLES["item"]], "score"))
    pair = f"(x.{item}, x.{score})" if score else f"x.{item}"
    pairs = f"{{q: [{pair} for x in xs] for q, xs in data.items()}}"
    return f"Pass {pair} for each object x: {pairs}" if item else ""


def _fields_of(value: Any) -> list[str]:
    """The names of what an object of Python holds."""
    names = [x for x in dir(value) if x[0] != "_"]
    return [x for x in names if not callable(inspect.getattr_static(value, x))]


def _is_whole(value: Any) -> bool:
    """Is it a whole number as a float, as pandas has ids in a column with NULL?"""
    return isinstance(value, float) and value % 1 == 0 and abs(value) < 2**53


def number_column(
    ids: Sequence[Any], numbers: list[Any], queries: pl.Series, label: str, role: str, hint: str,
    types: set[type] | None = None,
) -> pl.Series:  # fmt: skip
    """A column of the numbers of items: Python's int as integers, so that few grades stay fast.

    types: those of the numbers, if they are known.
    """
    types = _types(numbers) if types is None else types - {type(None)}
    if not types <= {int, float, str}:
        numbers = [*map(unwrap, numbers)]
        types = _types(numbers)
    if str in types:
        parsed = [parse_number(x) if isinstance(x, str) else x for x in numbers]
        known = zip(numbers, parsed, strict=True)
        if all((x is None) == (y is None) and math.isfinite(y or 0) for x, y in known):
            numbers, types = parsed, _types(parsed)
    if not all(issubclass(each, Real | Decimal) for each in types):
        wrong = next(i for i, x in enumerate(numbers) if not isinstance(x, Real | Decimal | None))
        raise RankqlError(
            f"{label}: the {role} of item {ids[wrong]!r} of query {queries[wrong]!r} must be "
            f"a number, not {numbers[wrong]!r}. {hint}"
        )
    if not types <= {int, float}:
        kind = int if all(x is None or x % 1 == 0 for x in numbers) else float
        numbers = [None if each is None else kind(each) for each in numbers]
        types = _types(numbers)
    try:
        return pl.Series(role, numbers, dtype=pl.Int64 if types == {int} else pl.Float64)
    except (TypeError, OverflowError) as error:
        largest = max((each for each in numbers if isinstance(each, int)), key=abs)
        raise RankqlError(f"{label}: the {role} {largest} is too large. Divide it first") from error


def _types(values: Iterable[Any]) -> set[type]:
    return {*map(type, values)} - {type(None)}
