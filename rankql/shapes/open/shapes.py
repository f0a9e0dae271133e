"""What a thing is: several runs, rows, a dict by query, arrays, or the answer of a search engine.

This is the only place that decides it, for objects of Python and of JSON alike. A shape of one
product is an entry of `SHAPES`, or of `HITS` in `answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from numbers import Real
from operator import is_not
from typing import Any, NamedTuple

import polars as pl

from rankql.core.base import column_names
from rankql.core.base.column_names import find_name, list_side, squash
from rankql.core.base.errors import BY_HAND, RankqlError, require
from rankql.core.base.libraries import is_spark_connect
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.files import DATA, suffix_of
from rankql.core.tables.reader import Reader
from rankql.core.tables.session import Source
from rankql.core.tables.tables import Table
from rankql.shapes.open import plain
from rankql.shapes.open.answers import (
    HITS,
    NAMES,
    OF_ANSWERS,
    QUERIES,
    Rows,
    are_answers,
    find_hits,
    hint_of,
    rated_hits,
    rated_requests,
    read_answers,
)
from rankql.shapes.open.label_tools import are_tasks, rated_tasks
from rankql.shapes.open.padding import are_ids_and_numbers, is_nothing, without_padding
from rankql.shapes.open.plain import DICTS, LISTS

_SCALARS = {str, int, float, type(None)}
# What the list of a query may be called in an object that has nothing else.
_FOUND = {"documents", "docs", "nodes", "contexts", "chunks", "passages", "matches", "points"}


def has_several_runs(data: Mapping[Any, Any]) -> bool:
    """Is it a dict of name: run, and not one run or judgments?

    Text next to rows or arrays names a run only if it is a file.
    """
    kinds = set[str]()
    for kind in map(_kind_of, data.values()):
        if kind not in ("a run", "rows", "arrays", ""):
            return False  # at once, because it is asked often
        kinds.add(kind)
    if not data or kinds == {"a run"}:
        return not data or not (
            all(map(_is_row, data.values())) or find_shape(plain.outline_of(data))
        )
    texts = (suffix_of(x) in DATA for x in data.values() if isinstance(x, str))
    tables = (  # dicts by query, and not averages
        {*kinds_of(x)} <= {"items", "pairs", "objects"}
        for x in data.values()
        if "rows" in kinds and isinstance(x, DICTS)
    )
    named = all(isinstance(name, str) for name in data) and kinds != {""}
    return named and all(texts) and all(tables) and len(_sides(data)) < 2


def _sides(names: Iterable[Any]) -> dict[str, Any]:
    """The names of parts that are a run by their words, or judgments."""
    return {side: name for name in names if (side := list_side(str(name)))}


def _is_row(value: Any) -> bool:
    """Is it an object with several names of columns?"""
    return isinstance(value, DICTS) and len({squash(str(name)) for name in value} & NAMES) > 1


class Look(NamedTuple):
    """What the values of a dict are: see `_kind_of`. They are looked at once."""

    kinds: list[str]
    # The numbers in dicts of them, and their types.
    numbers: list[Any] | None = None
    types: set[type] | None = None


def kinds_of(data: Mapping[Any, Any]) -> list[str]:
    """What the values are: see `_kind_of`."""
    return _look_at(data).kinds


def _look_at(data: Mapping[Any, Any]) -> Look:
    """What the values are.

    Types of all values are compared at once: a question for each query takes longer than all else.
    """
    values = data.values()
    plain_values = [*filter(None, values)] if {*map(type, values)} <= {dict, list} else []
    types = {*map(type, plain_values)}
    if types == {dict}:
        numbers = [*chain.from_iterable(map(dict.values, plain_values))]
        found = {*map(type, numbers)}
        if found <= _SCALARS and all(x.keys().isdisjoint(OF_ANSWERS) for x in plain_values):
            return Look(["numbers"], numbers, found)
    elif types == {list} and (kind := _kind_of_lists(plain_values)):
        return Look([kind])
    return Look(list(dict.fromkeys(filter(None, map(_kind_of, values)))))


def _kind_of_lists(lists: Sequence[list[Any]]) -> str:
    """The kind of lists of ids or of pairs; "" if each is to be looked at."""
    first = [x[0] for x in lists]
    types = {*map(type, first)}
    if types == {tuple} and {*map(len, first)} == {2}:
        ids, numbers = ({*map(type, x)} for x in zip(*first, strict=True))
        return "pairs" * (ids <= _SCALARS and numbers <= {int, float})
    return "items" * (types <= _SCALARS)


def _kind_of(value: Any) -> str:
    """The 'numbers', 'items', 'pairs', 'objects', 'rows by item', 'named' list or 'two lists' of a
    query, or 'an answer'; or 'rows', 'arrays' or 'a run'; 'a value' of another kind; "" if empty.

    'scored objects' are pairs of an object and its score, as LangChain returns them.
    """
    if isinstance(value, DICTS):
        if is_answer(value):
            return (
                "a run"
                if "responses" in value or find_name(map(str, value), "question")
                else "an answer"
            )
        if len(value) == 1 and _names_found(value):
            return "named"
        some = [*islice(value.values(), 3)]
        if some and all(isinstance(x, dict) and x and _has_values(x) for x in some):
            return "rows by item"
        numbers = {*map(type, some)} <= _SCALARS or all(map(_is_scalar, some))
        return ("numbers" if numbers else "a run") * bool(value)
    if isinstance(value, LISTS) and not hasattr(value, "_asdict"):
        if type(value) is tuple and len(value) == 2 and are_ids_and_numbers(*value):
            return "two lists"
        if type(first := next(iter(value), None)) in _SCALARS:
            return "items" if value else ""
        if type(first) is tuple and len(first) == 2 and isinstance(first[1], Real):
            return "pairs" if _is_scalar(first[0]) else "scored objects"
        first = plain.unwrap(first)
        if isinstance(first, dict):
            of_row = (
                squash(str(name)) in QUERIES or (isinstance(x, LISTS) and list_side(str(name)))
                for name, x in first.items()
            )
            return "rows" if any(of_row) else "objects"
        pair = isinstance(first, list) and len(first) == 2 and isinstance(first[1], Real | Decimal)
        return "pairs" if pair else "arrays" if plain.is_array(value) else "items"
    is_array_like = hasattr(value, "tolist") or hasattr(value, "to_list")  # an array, a Series
    if is_spark_connect(value) or not is_array_like:
        if (own := plain.unwrap(value)) is not value:
            return _kind_of(own)
        return "a value" if isinstance(value, Real | None) else "a run"
    first = value.iloc[0] if hasattr(value, "iloc") and len(value) else None
    return "arrays" if plain.is_array(value) else "items" if _is_scalar(first) else "a run"


def _names_found(data: Mapping[Any, Any]) -> bool:
    """Has an object nothing but what was found for a query: a list, or rows or numbers by item?"""
    ((name, found),) = data.items()
    names = list_side(str(name)) == "run" or squash(str(name)) in _FOUND
    return names and (isinstance(found, LISTS) or _kind_of(found) in ("rows by item", "numbers"))


def _has_values(row: Mapping[Any, Any]) -> bool:
    """Are all keys names of columns, with one value each?"""
    return all(squash(str(x)) in NAMES for x in row) and all(map(_is_scalar, row.values()))


def _is_scalar(value: Any) -> bool:
    return isinstance(plain.unwrap(value), Real | Decimal | str | None)


def is_answer(data: Any) -> bool:
    """Is it the answer of a search engine?"""
    if not isinstance(data, DICTS) or data.keys().isdisjoint(OF_ANSWERS):
        return False
    return find_hits(data) == [] or ANSWERS.matches(plain.outline_of(data))


def find_shape(keys: set[tuple[str, ...]]) -> JsonShape | None:
    """The shape of JSON with these keys."""
    return next((shape for shape in SHAPES if shape.matches(keys)), None)


def open_dict(reader: Reader, source: Source) -> Table:
    """The table of a dict that the caller passes."""
    return load_dict(reader, source.label, source.data, source.part)


def open_list(reader: Reader, source: Source) -> Table | None:
    """The table of a list of rows, or of arrays; None of other objects."""
    data = source.data
    is_list = (isinstance(data, list) and bool(data)) or plain.is_array(data)
    return load_list(reader, source.label, data) if is_list else None


def load_dict(reader: Reader, label: str, data: Mapping[Any, Any], part: str = "") -> Table:
    """The table of a dict by query, of columns or of parts, or of an answer."""
    if data and all(isinstance(key, tuple) and len(key) == 2 for key in data):
        return load_list(reader, label, [(*key, value) for key, value in data.items()])
    if label == "qrels" and _has_one_id_each(data):
        data = {query: [item] for query, item in data.items()}
    look = Look([]) if part else _look_at(data)
    kinds = look.kinds
    if kinds == ["named"]:
        return load_dict(
            reader, label, {query: next(iter(x.values())) for query, x in data.items()}
        )
    if kinds == ["two lists"]:
        ids, numbers = ([[*map(plain.unwrap, x[i])] for x in data.values()] for i in (0, 1))
        lists = without_padding(reader, label, ids, numbers)
        return load_dict(reader, label, dict(zip(data, lists, strict=True)))
    if len(kinds) == 1 and kinds[0] in ("numbers", "items", "pairs"):
        return _load_by_query(reader, label, "the dict", [data], look)
    if not part and (shape := find_shape(plain.outline_of(data))):
        return load_shape(reader, label, "the dict", shape, [data])
    table = load_object(reader, label, "the dict", [data], part)
    if table is None and _is_row(data):
        return load_objects(reader, label, [data])
    return table or load_shape(reader, label, "the dict", BY_QUERY, [data])


def _has_one_id_each(data: Mapping[Any, Any]) -> bool:
    """Is it {query: relevant id}? Ids are texts: a number may be a grade."""
    texts = bool(data) and all(isinstance(x, str) for x in data.values())
    return texts and {squash(str(x)) for x in data}.isdisjoint(column_names.COLUMN_NAMES)


def _unwrapped(data: dict[Any, Any]) -> dict[Any, Any]:
    """The dict with lists and dicts of Python as values."""
    if all(issubclass(kind, (*LISTS, *DICTS)) for kind in {*map(type, data.values())}):
        return data
    own = (*LISTS, *DICTS)
    return {name: x if isinstance(x, own) else plain.unwrap(x) for name, x in data.items()}


def _load_by_query(
    reader: Reader,
    label: str,
    source: str,
    objects: Sequence[Mapping[Any, Any]],
    look: Look | None = None,
) -> Table:
    """The table of {query: items}, without what fills up the end of lists."""
    if look and look.numbers is not None:
        shape = BY_QUERY._replace(rows=partial(_by_query, look=look))
        return load_shape(reader, label, source, shape, objects)
    merged = _merge(objects)
    own = _unwrapped(merged)
    lists: list[Any] = [*own.values()]
    arrays = any(map(is_not, lists, merged.values()))
    ends = [x[-1] for x in lists if x] if {*map(type, lists)} == {list} else []
    if -1 in ends or (arrays and any(map(is_nothing, ends))):
        own = dict(zip(own, without_padding(reader, label, lists), strict=True))
    return load_shape(reader, label, source, BY_QUERY, [own])


def load_list(reader: Reader, label: str, data: Any) -> Table:
    """The table of rows, of arrays with a row for each query, or of answers."""
    call = "{q: x for q, (x, _) in enumerate(data)}, {q: y for q, (_, y) in enumerate(data)}"
    twos = (type(x) is tuple and len(x) == 2 and tuple not in map(type, x) for x in data)
    pairs = all(twos) and all(isinstance(plain.unwrap(y), list) for x in data for y in x)
    require(not pairs, f"{label} has pairs of lists, as of Spark. Pass run and judgments: {call}")
    if plain.is_array(data):
        return _load_arrays(reader, label, data)
    if all(isinstance(plain.unwrap(x), list) for x in data):
        queries: dict[Any, Any] = dict(enumerate(data))
        table = load_object(reader, label, "the list", [queries])
        return table or load_objects(reader, label, data)
    rows = [*map(plain.unwrap, data)]
    if isinstance(rows[0], dict):
        shape = find_shape(plain.outline_of(rows[: plain.FEW]))
        if shape in (ANSWERS, TASKS):
            return load_shape(reader, label, "the list", shape, rows)
    return load_objects(reader, label, rows)


def load_objects(reader: Reader, label: str, objects: Sequence[Any]) -> Table:
    """The table of objects. Those with many keys are maps, as from ids to scores."""
    frame, maps = plain.to_frame(objects, label)
    table = reader.register(label, frame)
    entries = ", ".join(f"map_from_entries({quote(x)}) AS {quote(x)}" for x in maps)
    sql = f"(SELECT * REPLACE ({entries}) FROM {table.sql})"
    return reader.describe(label, sql, ordered=True) if maps else table


# How numbers of queries x items are passed.
_DENSE = f"{{q: dict(enumerate(x)) for q, x in enumerate(data)}}. See {BY_HAND('arrays')}"


def _load_arrays(reader: Reader, label: str, data: Any) -> Table:
    """The ids of an array with a row per query, in their order, or of two with distances too.

    So FAISS, hnswlib and implicit return them: row i is query i, from 0. What fills up the end of
    a row is dropped.
    """
    parts = data if isinstance(data, tuple) else [data]
    arrays = [[*map(plain.unwrap, x)] if isinstance(x, list) else plain.unwrap(x) for x in parts]
    may_be_rows = isinstance(data, list) or label == "qrels"
    if may_be_rows and (table := _load_tuples(reader, label, arrays[0])):
        return table
    floats = [any(isinstance(value, float) for row in x for value in row) for x in arrays]
    grades = label == "qrels" and {*map(type, chain(*arrays[0]))} == {int}
    require(
        len(arrays) > 1
        or not (floats[0] or (grades and any(len({*x}) < len(x) for x in arrays[0]))),
        f"{label}: are the {len(arrays[0]):,} rows numbers of all items, and no ids? Pass {_DENSE}",
    )
    require(
        floats.count(False) == 1,
        f"{label}: of two arrays, one must have whole numbers, the ids. Pass the array of the ids "
        "alone",
    )
    ids, near = arrays[floats.index(False)], arrays[floats.index(True)] if len(arrays) > 1 else ()
    rows = dict(enumerate(without_padding(reader, label, ids, near)))
    return load_shape(reader, label, "the array", BY_QUERY, [rows])


def _load_tuples(reader: Reader, label: str, rows: Sequence[Sequence[Any]]) -> Table | None:
    """The table of rows as a cursor returns them; None if they are lists of ids.

    Ids are all text or all whole numbers: other rows of three values are a query, an item and a
    number. Rows that may be either are an error.
    """
    judged, widths = label == "qrels", {*map(len, rows)}
    names = ["query", "item", "rel" if judged else "score"][: max(widths)]
    if len(widths) > 1 or not 2 <= max(widths) <= 4:
        return None
    kinds = [{*map(type, column)} for column in zip(*rows, strict=True)]
    mixed = len(set().union(*kinds) - {type(None)}) > 1
    if mixed and len(kinds) == 3:
        reader.note(label, f"the values of a row are read as {', '.join(names)}")
        table = load_objects(reader, label, [dict(zip(names, row, strict=True)) for row in rows])
        return table if judged else replace(table, shape="map")
    keys = [row[0] for row in rows if row[0] is not None]
    require(
        not (mixed or judged or (len({*keys}) < len(keys) and keys == sorted(keys))),
        f"{label}: are the {len(rows):,} rows of {len(kinds)} values rows of a table, or a list of "
        f"ids for each query? Pass pl.DataFrame(data, schema={names!r}, orient='row'), or "
        f"dict(enumerate(data)). If a row has a number for each item, pass {_DENSE}",
    )
    return None


def load_object(
    reader: Reader, label: str, source: str, objects: Sequence[Mapping[str, Any]], part: str = ""
) -> Table | None:
    """The table of {query: items}, or of the part of an object that is it or rows; else None."""
    data = objects[0]
    name = part or (_find_part(data, label, source) if len(objects) == 1 else "")
    if name:
        head, _, rest = name.partition(".")
        if rest and name not in data and isinstance(data.get(head), Mapping):
            return load_object(reader, label, source, [data[head]], rest)
        if name not in data:
            parts = [repr(x) for x, value in data.items() if isinstance(value, list | dict)]
            known = f"It has {', '.join(parts)}" if parts else "It has no parts"
            raise RankqlError(f"{label}: {source} has no part {name!r}. {known}")
        value = data[name]
        if isinstance(value, Mapping) and kinds_of(value) == ["named"]:
            table: Table | None = load_dict(reader, label, value)
        elif isinstance(value, Mapping):
            table = load_object(reader, label, source, [value]) or _load_keyed(reader, label, value)
        else:
            table = load_list(reader, label, value)
        assert table
        return replace(table, context={**table.context, "part": name})
    kinds = {kind for each in objects for kind in kinds_of(each)}
    queries = [*chain.from_iterable(each.items() for each in objects)]
    if kinds == {"rows by item"}:
        rows = [{"query": q, "item": i, **row} for q, x in queries for i, row in x.items()]
        return load_objects(reader, label, rows)
    if kinds == {"scored objects"}:
        queries = [(q, [{**plain.unwrap(x), "score": y} for x, y in found]) for q, found in queries]
    if kinds in ({"objects"}, {"scored objects"}):
        name = "relevant" if label == "qrels" else "retrieved"
        return load_objects(reader, label, [{"query": q, name: found} for q, found in queries])
    if kinds == {"an answer"}:
        merged = plain.unique_dict(chain(*(each.items() for each in objects)))
        answers = [
            {"query": query, **plain.unwrap(answer)} for query, answer in merged.items() if answer
        ]
        return load_shape(reader, label, source, ANSWERS, answers)
    if (
        len(objects) == 1
        and kinds == {"a run"}
        and all(
            isinstance(x, Mapping) and not {*kinds_of(x)}.isdisjoint(("items", "objects"))
            for x in data.values()
        )
    ):  # a row for each key
        return _load_keyed(reader, label, data)
    same = len(objects) > 1 and [*data] == [*objects[1]]  # rows that have only objects
    if same or len(kinds) > 1 or kinds & {"rows", "a run", "a value"}:
        return None
    return _load_by_query(reader, label, source, objects)


def _find_part(data: Mapping[Any, Any], label: str, source: str) -> str:
    """The part of an object that has the rows or the queries; "" if it is all of it.

    Rows win over a dict by query, which may have averages.
    """
    kinds = kinds_of(data)
    if len(kinds) < 2 and kinds not in (["rows"], ["a run"]):
        return ""
    parts = [name for name, value in data.items() if _kind_of(value) == "rows"]
    parts = parts or [
        name for name, value in data.items()
        if isinstance(value, DICTS) and kinds_of(value) in (["items"], ["pairs"], ["numbers"])
    ]  # fmt: skip
    if len(sides := _sides(parts)) > 1:
        raise RankqlError(
            f"{label}: {source} has a run and judgments. Pass it as both, with "
            f"part=[{sides['run']!r}, {sides['qrels']!r}]"
        )
    if len(parts) > 1 and _are_queries(data):  # each is a query
        return ""
    if len(parts) > 1:
        judged = label == "qrels"
        option = f"[None, {parts[0]!r}]" if judged else repr(parts[0])
        names = f"{label}: in {source}, {' and '.join(map(repr, parts))}"
        raise RankqlError(f"{names} may be the data. Pass one of them, such as part={option}")
    if not parts and len(data) > 1:  # what stands beside it describes it
        lists = [x for x, y in data.items() if isinstance(y, DICTS) and _are_queries(y)]
        parts = lists if len(lists) == 1 else []
    return str(parts[0]) if parts else ""


def _are_queries(data: Mapping[Any, Any]) -> bool:
    """Has each key a list of objects, or an object with the same lists or objects as all?"""
    values = [*data.values()]
    if values and all(_kind_of(x) == "objects" for x in values):
        return True
    nested = [{y for y in x if isinstance(x[y], (*LISTS, *DICTS))} for x in values
              if isinstance(x, dict)]  # fmt: skip
    return 0 < len(values) == len(nested) and all(x and x == nested[0] for x in nested)


def _load_keyed(reader: Reader, label: str, data: Mapping[Any, Any]) -> Table:
    """The table with a row for each key of a dict of objects."""
    return load_objects(reader, label, [{"key": key, **x} for key, x in data.items()])


def open_hits(table: Table) -> Table:
    """The table with the list of hits of answers, which a frame or a file has in a column."""
    for (name, *inner), field in HITS:
        kind = table.columns.get(name, "")
        nested = f"{inner[0]} STRUCT(" in kind if inner else kind.endswith("[]") and field in kind
        if kind.startswith("STRUCT(") and nested and not table.has("retrieved"):
            value = quote(name) + "".join(f"[{literal(x)}]" for x in inner)
            sql = f"(SELECT * EXCLUDE ({quote(name)}), {value} AS retrieved FROM {table.sql})"
            return replace(table, sql=sql, columns=table.describe(sql).columns)
    return table


def _merge(objects: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The dict of all objects, which have different keys."""
    if len(objects) == 1:
        return dict(objects[0])
    return plain.unique_dict(chain(*(each.items() for each in objects)))


def _by_query(objects: Sequence[Any], label: str, look: Look | None = None) -> Rows:
    """The rows of a run, or of judgments if the label is qrels. Python reads no single row."""
    data = _unwrapped(_merge(objects))
    look, hint = look or _look_at(data), hint_of(label)
    kinds, judged, values = look.kinds, label == "qrels", list(data.values())
    columns = (
        kinds == ["items"] and len({str(x).lower() for x in data} & column_names.COLUMN_NAMES) > 1
    )
    types = {*map(type, values)}
    sets = kinds == ["items"] and any(issubclass(x, set | frozenset) for x in types)
    other = len(kinds) > 1 or not {*kinds} <= {"numbers", "items", "pairs"}
    for wrong, why in (
        (other, f"must be one table of queries, not {' and '.join(kinds)}. {hint}"),
        (not kinds, "is empty: the dict has no items"),
        (columns, "looks like a dict of columns, not of queries. Pass polars.DataFrame(...) of it"),
        (sets and not judged, "has a set of items, which has no order. Pass a list"),
    ):
        require(not wrong, f"{label} {why}")
    fields: dict[str, Any] = {"empty": judged and not all(map(len, values))}
    if judged:  # a query without a relevant item is judged too
        nothing: Any = [None] if kinds == ["items"] else {None: 0}
        empty = fields["empty"]
        values = [x if len(x) else nothing for x in values] if empty else values
    lengths = list(map(len, values))
    rows = pl.DataFrame({"query": plain.id_column(list(data), label, "query", hint), "n": lengths})
    rows = rows.filter(pl.col("n") > 0) if 0 in lengths else rows
    # The number of the query of each row: a text that is gathered is not copied.
    number = pl.int_range(pl.len(), dtype=pl.UInt32).repeat_by("n").explode()
    queries = rows.select(pl.col("query").gather(number)).to_series()
    if kinds == ["items"]:
        items = plain.id_column(list(chain.from_iterable(values)), label, "item", hint)
        if judged:
            grades = pl.repeat(1, len(items), dtype=pl.Int32, eager=True).alias("rel")
            fields["origins"] = {"rel": "1 for every row"}
            return pl.DataFrame([queries, items, grades]), fields | {"unit": "ids"}
        pos = rows.select(pl.int_ranges(1, pl.col("n") + 1).explode().alias("pos")).to_series()
        frame = pl.DataFrame([queries, items, pos])
        return frame, fields | {"unit": "ids"}
    types_of_numbers = None
    if {*map(type, values)} == {dict}:
        ids = [*chain.from_iterable(values)]
        if fields["empty"] or look.numbers is None:
            found = [*chain.from_iterable(map(dict.values, values))]
        else:
            found, types_of_numbers = look.numbers, look.types
    else:
        pairs = [*chain.from_iterable(x.items() if isinstance(x, DICTS) else x for x in values)]
        paired = all(issubclass(x, list | tuple) for x in {*map(type, pairs)})
        paired = paired and {*map(len, pairs)} <= {2}
        require(paired, f"{label}: some items are pairs, others are not. {hint}")
        ids, found = map(list, zip(*pairs, strict=True))
    items = plain.id_column(ids, label, "item", hint)
    role = "rel" if judged else "score"
    numbers = plain.number_column(ids, found, queries, label, role, hint, types_of_numbers)
    shape = "map" if kinds == ["numbers"] else "pairs"
    return pl.DataFrame([queries, items, numbers]), fields | {"shape": shape}


def _predictions(objects: Sequence[Any], label: str) -> Rows:
    """{subset: {split: {query: {item: score}}}} and the model."""
    subsets = {name: each for name, each in objects[0].items() if name != "mteb_model_meta"}
    parts = {f"{name}/{split}": subsets[name][split] for name in subsets for split in subsets[name]}
    if len(parts) > 1:
        raise ValueError(
            f"it has {len(parts)} subsets or splits ({', '.join(sorted(parts))}). Write one of "
            "them to a file"
        )
    return _by_query([*parts.values()], label)


class JsonShape(NamedTuple):
    """A shape: what errors call it, is it this one, by the outline of its keys, and its rows."""

    name: str
    matches: Callable[[set[tuple[str, ...]]], bool]
    rows: Callable[[Sequence[Any], str], Rows]


BY_QUERY = JsonShape("{query: {item: number}}", bool, _by_query)
ANSWERS = JsonShape("an answer of a search engine", are_answers, read_answers)
TASKS = JsonShape("tasks of Label Studio", are_tasks, rated_tasks)
SHAPES = (
    JsonShape("predictions of MTEB", lambda keys: ("mteb_model_meta",) in keys, _predictions),
    JsonShape(
        "a request to _rank_eval",
        lambda keys: any(("requests", x) in keys for x in ("ratings", "request", "template_id")),
        rated_requests,
    ),
    JsonShape(
        "an answer of _rank_eval",
        lambda keys: (
            {("metric_score",), ("details",)} <= keys
            or any(key[0] == "details" and key[2:4] == ("hits", "hit") for key in keys)
        ),
        rated_hits,
    ),
    TASKS,
    ANSWERS,
)


def load_shape(
    reader: Reader, label: str, source: str, shape: JsonShape, objects: Sequence[Any]
) -> Table:
    """The table of objects of a shape."""
    try:
        frame, fields = shape.rows(objects, label)
    except RankqlError:
        raise
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
        is_value = isinstance(error, ValueError | OverflowError)
        why = error if is_value else f"a part is missing: {error}"
        raise RankqlError(f"{label}: {source} looks like {shape.name}, but {why}") from error
    if note := fields.pop("note", ""):
        reader.note(label, note)
    return replace(reader.register(label, frame), **fields)
