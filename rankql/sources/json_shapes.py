"""Dicts, and JSON files: rows as text, nested dicts, and what OpenSearch is asked and answers.

Dicts are {query: {item: number}} or {query: [items in order]}. The keys at the start of a file say
its shape. Dicts and answers are parsed by Python. Rows are read by DuckDB as text, whose numbers
are parsed later, as those of CSV, so that dates and UUIDs stay as they are written: DuckDB infers
types from 20,480 rows, and rounds what does not fit. If rows have lists or objects, types are those
of all rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from itertools import chain, islice
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import duckdb
import polars as pl

from rankql.errors import RankqlError, require
from rankql.macros import literal, quote
from rankql.registry.column_names import (
    COLUMN_NAMES,
    QUESTIONS,
    RELEVANT,
    RETRIEVED,
    ROLES,
    find_name,
    list_side,
    squash,
)
from rankql.sources.files import File, read_text
from rankql.sources.plain import (
    DICTS,
    LISTS,
    MOST_KEYS,
    id_column,
    is_series,
    number_column,
    plain,
    to_frame,
)
from rankql.sources.private import in_transaction, private_connection
from rankql.sources.reader import Reader
from rankql.sources.tables import Table, repeated_names

_QUERIES = {squash(name) for name in ROLES["query"]}


def is_several_runs(data: Any) -> TypeGuard[Mapping[str, Any]]:
    """Is it a dict of name: run, and not one run or judgments?"""
    return (
        isinstance(data, Mapping)
        and not is_answer(data)
        and (kinds_of(data) == ["a run"] or not data)
        and not (data and all(map(_is_row, data.values())))
    )


def _is_row(value: Any) -> bool:
    """Is it an object with several names of columns?"""
    return isinstance(value, DICTS) and len({squash(str(name)) for name in value} & _NAMES) > 1


def kinds_of(data: Mapping[Any, Any]) -> list[str]:
    """What the values are: 'numbers' by item, 'items', 'pairs', 'objects', 'rows' or 'a run'."""
    return list(dict.fromkeys(filter(None, map(_kind_of_value, data.values()))))


def find_part(data: Mapping[Any, Any], place: str) -> Any:
    """The part of an object that has the rows or the queries; None if it is all of it."""
    kinds = kinds_of(data)
    if len(kinds) < 2 and kinds not in (["rows"], ["a run"]):
        return None
    parts = [
        name for name, value in data.items()
        if _kind_of_value(value) == "rows"
        or (isinstance(value, DICTS) and kinds_of(value) in (["items"], ["pairs"], ["numbers"]))
    ]  # fmt: skip
    several = f"{place}, {' and '.join(map(repr, parts))} may be the data. Pass one of them"
    require(len(parts) < 2, several)
    return parts[0] if parts else None


def is_answer(data: Any) -> bool:
    """Is it what _search or _msearch of OpenSearch answers?"""
    if not isinstance(data, DICTS):
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
    if isinstance(value, LISTS):
        first = plain(next(iter(value), None))
        if isinstance(first, DICTS):
            of_row = (
                squash(str(name)) in _QUERIES or (isinstance(x, LISTS) and list_side(str(name)))
                for name, x in first.items()
            )
            return "rows" if any(of_row) else "objects"
        pair = isinstance(first, list) and len(first) == 2 and isinstance(first[1], Real | Decimal)
        return "pairs" if pair else "items" if value else ""
    if isinstance(value, DICTS) and not is_answer(value):
        first = [*islice(value.values(), 3)]
        numbers = all(isinstance(plain(x), Real | Decimal | str | None) for x in first)
        return ("numbers" if numbers else "a run") * bool(value)
    return "items" if is_series(value) else "a run"


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
            isinstance(row, list | tuple) and not any(isinstance(x, DICTS) for x in row)
            for row in data
        )
    )


# The names of columns: an object with such a key is a row, or a column of pandas.
_NAMES = {*COLUMN_NAMES, *map(squash, (*RETRIEVED, *RELEVANT))}
# What the key of a query may be called in an answer.
_QUERY = (*QUESTIONS, "id")
# What the SQL of text rows says of a list or an object, and DuckDB of a key after the sample.
_NESTED, _UNKNOWN_KEY = "a value is a list or an object", "has unknown key"
# A JSON value as text: a number as it is, a text without quotes, 1 and 0 for true and false.
_TEXT = f"""CASE WHEN starts_with({{0}}, '"') AND contains({{0}}, '\\') THEN {{0}} ->> '$'
    WHEN starts_with({{0}}, '"') THEN substring({{0}}, 2, length({{0}}) - 2)
    WHEN {{0}} IN ('true', 'false') THEN CAST({{0}} = 'true' AS INTEGER)::VARCHAR
    WHEN {{0}}[1] IN ('[', '{{{{') THEN error('{_NESTED}') ELSE {{0}} END"""


def load_json(reader: Reader, file: File) -> Table:
    """The rows of a file, of any shape."""
    keys = set(_outline(file.start))
    shape = next((shape for shape in JSON_SHAPES if shape.matches(keys)), None)
    if shape:
        return load_shape(reader, file.label, repr(file.name), shape, _parse(file))
    top = list(dict.fromkeys(path[0] for path in _outline(file.start)))
    objects_in = re.findall(r'"((?:[^"\\]|\\.)*)"\s*:\s*\{', file.start)
    names = [name for name in top if squash(name) in _NAMES]  # of a row, or of a part
    is_row = names and (len(names) == len(top) or not {*names} <= {*objects_in})
    if file.start.lstrip().startswith("{") and not is_row:
        objects = [{k: v for k, v in x.items() if k != "_comment"} for x in _parse(file)]
        if (table := load_object(reader, file.label, repr(file.name), objects)) is not None:
            return table
    return replace(_load_rows(reader, file), repeated=repeated_names(top))


def load_object(
    reader: Reader, label: str, source: str, objects: Sequence[Mapping[str, Any]]
) -> Table | None:
    """The table of {query: items}, or of the part of an object that is it or rows; else None."""
    part = find_part(objects[0], f"{label}: in {source}") if len(objects) == 1 else None
    if part is not None:
        value = objects[0][part]
        table = load_object(reader, label, source, [value]) if isinstance(value, Mapping) else None
        table = table or load_objects(reader, label, value)
        return replace(table, context={**table.context, "part": str(part)})
    kinds = {kind for each in objects for kind in kinds_of(each)}
    if kinds == {"objects"}:
        name = "relevant" if label == "qrels" else "retrieved"
        rows = [{"query": query, name: ids} for each in objects for query, ids in each.items()]
        return load_objects(reader, label, rows)
    if (
        len(objects) == 1
        and kinds == {"a run"}
        and all(
            isinstance(x, Mapping) and not {*kinds_of(x)}.isdisjoint(("items", "objects"))
            for x in objects[0].values()
        )
    ):  # a row for each key
        return load_objects(reader, label, [{"key": key, **x} for key, x in objects[0].items()])
    same = len(objects) > 1 and [*objects[0]] == [*objects[1]]  # rows that have only objects
    if same or len(kinds) > 1 or kinds & {"rows", "a run"}:
        return None
    return load_shape(reader, label, source, BY_QUERY, objects)


def load_objects(reader: Reader, label: str, objects: Sequence[Any]) -> Table:
    """The table of objects. Those with many keys are maps, as from ids to scores."""
    frame, maps = to_frame(objects, label)
    table = reader.register(label, frame)
    entries = ", ".join(f"map_from_entries({quote(x)}) AS {quote(x)}" for x in maps)
    sql = f"(SELECT * REPLACE ({entries}) FROM {table.sql})"
    return reader.describe(label, sql, ordered=True) if maps else table


def _load_rows(reader: Reader, file: File, options: str = "") -> Table:
    """The rows of a file with one object per row, as text; with types if they have lists."""
    lines = "" if file.suffix == ".json" else ", format = 'newline_delimited'"
    source = f"read_json({literal(file.pattern)}, maximum_depth = 1{lines}{options})"
    with reader.reading(file):
        rows = reader.con.sql(f"FROM {source}")
        kinds = dict(zip(rows.columns, map(str, rows.types), strict=True))
        comments = ""
        if kinds.pop("_comment", None) and kinds:
            data = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in kinds)
            comments = f"WHERE coalesce({data}) IS NOT NULL"
        values = {
            name: _TEXT.format(f"CAST({quote(name)} AS VARCHAR)") if kind == "JSON" else quote(name)
            for name, kind in kinds.items()
        }
        fields = ", ".join(f"{value} AS {quote(name)}" for name, value in values.items())
        text = f"(SELECT {fields} FROM {source} {comments})"
        try:
            if in_transaction(reader.con):  # an error would end it
                with private_connection() as con:
                    con.execute(f"SELECT max(hash(COLUMNS(*))) FROM {text}").fetchall()
            return reader.load(file.label, text, ordered=True)
        except duckdb.Error as error:
            if _UNKNOWN_KEY in str(error) and not options:
                all_rows = ", sample_size = -1, maximum_sample_files = 1000000"
                return _load_rows(reader, file, all_rows)
            if _NESTED not in str(error):
                raise
        names = [name for name, kind in kinds.items() if kind == "JSON"]
        fields = ", ".join(f"json_group_structure({quote(name)})" for name in names)
        (*structures,) = reader.row(f"SELECT {fields} FROM {source}")

        def typed(integer: str) -> str:
            kinds = (re.sub('"UBIGINT"(?!:)', f'"{integer}"', x or '"NULL"') for x in structures)
            types = (literal(_kind(json.loads(each))) for each in kinds)
            pairs = ", ".join(map("{}: {}".format, map(literal, names), types))
            return f"{source.removesuffix(')')}, columns = {{{pairs}}}) {comments}"

        with suppress(duckdb.InvalidInputException):  # an integer from 2^63
            return reader.load(file.label, typed("BIGINT"), text=False, ordered=True)
        return reader.load(file.label, typed("UBIGINT"), text=False, ordered=True)


def _kind(structure: Any, in_list: bool = False) -> str:
    """The type of DuckDB for the structure of values."""
    if isinstance(structure, list):
        return f"{_kind(structure[0], True)}[]"
    if isinstance(structure, dict) and 0 < len(structure) <= MOST_KEYS:
        fields = (f"{quote(name)} {_kind(value)}" for name, value in structure.items())
        return f"STRUCT({', '.join(fields)})"
    if isinstance(structure, dict):
        numbers = {"BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "NULL"}
        return f"MAP(VARCHAR, {'DOUBLE' if {*map(str, structure.values())} <= numbers else 'JSON'})"
    if structure == "JSON":  # of several kinds; in a list they may be objects
        return "JSON" if in_list else "VARCHAR"
    return "VARCHAR" if structure == "NULL" else str(structure)


def _outline(start: str) -> Iterator[tuple[str, ...]]:
    """The keys of the first objects, each after those of the objects around it."""
    path: list[str] = []
    last = ""
    for token in re.finditer(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}]', start):
        if token[2]:
            last = token[1]
            yield (*path[1:], last)
        elif token[0] == "{":
            path.append(last)
        elif token[0] == "}" and path:
            last = path.pop()


def _parse(file: File) -> list[Any]:
    """The objects of files, also of lists and of one per line."""
    decoder = json.JSONDecoder(object_pairs_hook=_require_unique)
    objects: list[Any] = []
    for path in file.paths:
        try:
            text, end = read_text(path).strip(), 0
            while end < len(text):
                value, end = decoder.raw_decode(text, end)
                objects += value if isinstance(value, list) else [value]
                while end < len(text) and text[end].isspace():
                    end += 1
        except UnicodeDecodeError as error:
            raise file.not_utf8(file.paths[0]) from error
        except (OSError, ValueError) as error:
            raise RankqlError(f"{file.label}: {path!r} cannot be read: {error}") from error
    return objects


def _require_unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of keys and values. Python alone keeps the last of equal keys."""
    pairs = list(pairs)
    if len(merged := dict(pairs)) < len(pairs):
        raise ValueError("a query, or an item of a query, is repeated. Keep one of them")
    return merged


# The rows of a shape, and other fields of their table.
Rows: TypeAlias = tuple[pl.DataFrame, dict[str, Any]]


def _by_query(objects: Sequence[Any], label: str) -> Rows:
    """The rows of a run, or of judgments if the label is qrels. Python reads no single row."""
    merged = _require_unique(chain(*(each.items() for each in objects)))
    data = {
        query: x if isinstance(x, (*LISTS, *DICTS)) else plain(x) for query, x in merged.items()
    }
    kinds, hint = kinds_of(data), _shapes(label)
    judged, values = label == "qrels", list(data.values())
    columns = kinds == ["items"] and len({str(key).lower() for key in data} & COLUMN_NAMES) > 1
    sets = kinds == ["items"] and any(isinstance(value, set | frozenset) for value in values)
    other = len(kinds) > 1 or kinds in (["a run"], ["rows"], ["objects"])
    for wrong, why in (
        (other, f"must be one table of queries, not {' and '.join(kinds)}. {_shapes(label)}"),
        (not kinds, "is empty: the dict has no items"),
        (columns, "looks like a dict of columns, not of queries. Pass polars.DataFrame(...) of it"),
        (sets and not judged, "has a set of items, which has no order. Pass a list"),
    ):
        require(not wrong, f"{label} {why}")
    fields = {"empty": judged and not all(map(len, values))}
    if judged:  # a query without a relevant item is judged too
        nothing: Any = [None] if kinds == ["items"] else {None: 0}
        values = [value if len(value) else nothing for value in values]
    rows = pl.DataFrame(
        {"query": id_column(list(data), label, "query", hint), "n": list(map(len, values))}
    )
    rows = rows.filter(pl.col("n") > 0)
    queries = rows.select(pl.col("query").repeat_by("n").explode()).to_series()
    if kinds == ["items"]:
        items = id_column(list(chain.from_iterable(values)), label, "item", hint)
        places = rows.select(pl.int_ranges(1, pl.col("n") + 1).explode().alias("pos")).to_series()
        frame = pl.DataFrame([queries, items, *([] if judged else [places])])
        return frame, fields | {"unit": "ids"}
    pairs = [*chain.from_iterable(x.items() if isinstance(x, DICTS) else x for x in values)]
    paired = all(isinstance(x, list | tuple) and len(x) == 2 for x in pairs)
    require(paired, f"{label}: some items are pairs, others are not. {_shapes(label)}")
    items = id_column([item for item, _ in pairs], label, "item", hint)
    numbers = number_column(pairs, queries, label, "rel" if judged else "score", hint)
    return pl.DataFrame([queries, items, numbers]), fields


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


_Hit: TypeAlias = tuple[Any, int, Mapping[str, Any], Any]


def _hits(rows: Iterable[_Hit], label: str) -> Rows:
    """Rows of queries, places, hits, and their scores, or grades if they have no place."""
    if not (rows := [*rows]):
        raise ValueError("no query has an item. Check what wrote it")
    for *_, number in rows:
        if not isinstance(number, int | float | None):
            raise ValueError(f"{number!r} is not a number. Correct it")
    ranked, hint = rows[0][1] > 0, _shapes(label)
    places = {"pos": [place for _, place, *_ in rows]} if ranked else {}
    frame = pl.DataFrame(
        {
            "query": id_column([query for query, *_ in rows], label, "query", hint),
            "item": id_column([hit.get("_id") for _, _, hit, _ in rows], label, "item", hint),
            **places,
            "score" if ranked else "rel": pl.Series([row[3] for row in rows], dtype=pl.Float64),
            "_index": [hit.get("_index") for _, _, hit, _ in rows],
        }
    )
    return frame, {"origins": {"pos": "order of the hits"} if ranked else {}}


def _rated_requests(objects: Sequence[Any], label: str) -> Rows:
    """Its ratings, which are judgments."""
    rated = (
        (request["id"], 0, rating, rating.get("rating"))
        for request in objects[0]["requests"]
        for rating in request.get("ratings", ())
    )
    return _hits(rated, label)


def _rated_hits(objects: Sequence[Any], label: str) -> Rows:
    """Its hits. Their ratings are not all there are."""
    for query in objects[0].get("failures") or ():
        raise ValueError(f"the search of {query} failed. Repeat it")
    ranked = (
        (query, place, hit["hit"], hit["hit"].get("_score"))
        for query, details in objects[0]["details"].items()
        for place, hit in enumerate(details["hits"], 1)
    )
    return _hits(ranked, label)


def _answers(objects: Sequence[Any], label: str) -> Rows:
    """The hits of searches. One that failed or is incomplete is an error."""
    parts, what = objects, ""
    if "responses" in objects[0]:
        parts, what = [part for each in objects for part in each["responses"]], "place in responses"
    key = None if what else find_name(list(dict.fromkeys(chain(*parts))), _QUERY)
    what = what or ("" if key else "row number")
    queries = [part.get(key) if key else place for place, part in enumerate(parts, 1)]
    for query, part in zip(queries, parts, strict=True):
        failed = part.get("_shards", {}).get("failed")
        if part.get("error") is not None or part.get("timed_out") or failed:
            name = "a search without query" if query is None else f"the search of query {query}"
            raise ValueError(f"{name} failed or is incomplete. Repeat it")
    ranked = (
        (query, place, hit, hit.get("_score"))
        for query, part in zip(queries, parts, strict=True)
        for place, hit in enumerate(part["hits"]["hits"], 1)
    )
    frame, fields = _hits(ranked, label)
    return frame, {"origins": fields["origins"] | ({"query": what} if what else {})}


class JsonShape(NamedTuple):
    """A shape: what errors call it, is it this one, by the outline of its keys, and its rows."""

    name: str
    matches: Callable[[set[tuple[str, ...]]], bool]
    rows: Callable[[Sequence[Any], str], Rows]


BY_QUERY = JsonShape("{query: {item: number}}", bool, _by_query)
_ANSWERS = {("responses", "hits", "hits"), ("responses", "error"), ("hits", "hits")}
SEARCH = JsonShape(
    "an answer of _search",
    lambda keys: not keys.isdisjoint({*_ANSWERS, ("error", "root_cause")}),
    _answers,
)
JSON_SHAPES = (
    JsonShape("predictions of MTEB", lambda keys: ("mteb_model_meta",) in keys, _predictions),
    JsonShape(
        "a request to _rank_eval",
        lambda keys: any(("requests", x) in keys for x in ("ratings", "request", "template_id")),
        _rated_requests,
    ),
    JsonShape(
        "an answer of _rank_eval",
        lambda keys: (
            {("metric_score",), ("details",)} <= keys
            or any(key[0] == "details" and key[2:4] == ("hits", "hit") for key in keys)
        ),
        _rated_hits,
    ),
    SEARCH,
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
    return replace(reader.register(label, frame), **fields)
