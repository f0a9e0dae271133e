"""JSON files: rows as text, nested dicts, and what OpenSearch is asked and answers.

The keys at the start of a file say its shape. DuckDB then reads the ids as text, so that dates and
UUIDs stay as they are written. Rows are read as text too, whose numbers are parsed later, as those
of CSV: DuckDB infers types from 20,480 rows, and rounds what does not fit. If rows have lists or
objects, types are those of all rows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb

from rankql.macros import literal, quote
from rankql.registry.column_names import squash
from rankql.sources.files import read_start
from rankql.sources.private import private_connection
from rankql.sources.tables import COLUMN_NAMES, QUESTIONS, RELEVANT, RETRIEVED, find_name

# The names of columns: an object with such a key is a row, or a column of pandas.
_NAMES = {*COLUMN_NAMES, *map(squash, (*RETRIEVED, *RELEVANT))}
_NUMBERS = "MAP(VARCHAR, MAP(VARCHAR, DOUBLE))"
_HIT = "STRUCT(_index VARCHAR, _id VARCHAR, _score DOUBLE)"
# What the key of a query may be called in an answer, and the parts of a request to _rank_eval.
_QUERY = (*QUESTIONS, "id")
_REQUEST = {("ratings",), ("request",), ("template_id",)}
# The size of the start of a file that is read for its keys.
_START = 2**16
_RESPONSE = {
    "hits": f"STRUCT(hits {_HIT}[])",
    "error": "JSON",
    "timed_out": "BOOLEAN",
    "_shards": "STRUCT(failed BIGINT)",
}


# What the SQL of `text_rows` says of a list or an object, and DuckDB of a key after the sample.
NESTED, UNKNOWN_KEY = "a value is a list or an object", "has unknown key"
# A JSON value as text: a number as it is, a text without quotes, 1 and 0 for true and false.
_TEXT = f"""CASE WHEN starts_with({{0}}, '"') AND contains({{0}}, '\\') THEN {{0}} ->> '$'
    WHEN starts_with({{0}}, '"') THEN substring({{0}}, 2, length({{0}}) - 2)
    WHEN {{0}} IN ('true', 'false') THEN CAST({{0}} = 'true' AS INTEGER)::VARCHAR
    WHEN {{0}}[1] IN ('[', '{{{{') THEN error('{NESTED}') ELSE {{0}} END"""
# An object with more keys is a map, as from ids to scores.
_MOST_KEYS = 200


def text_rows(source: str, columns: Mapping[str, str]) -> str:
    """The rows of a JSON file as text. A list or an object is an error."""
    values = {
        name: _TEXT.format(f"CAST({quote(name)} AS VARCHAR)") if kind == "JSON" else quote(name)
        for name, kind in columns.items()
    }
    fields = ", ".join(f"{value} AS {quote(name)}" for name, value in values.items())
    return f"(SELECT {fields} FROM {source})"


def typed_rows(con: duckdb.DuckDBPyConnection, source: str, columns: Mapping[str, str]) -> str:
    """The rows of a JSON file with types that hold all of its values."""
    names = [name for name, kind in columns.items() if kind == "JSON"]
    fields = ", ".join(f"json_group_structure({quote(name)})" for name in names)
    ((*found,),) = con.execute(f"SELECT {fields} FROM {source}").fetchall()
    kinds = (_kind(json.loads(structure or '"NULL"')) for structure in found)
    pairs = ", ".join(
        f"{literal(name)}: {literal(kind)}" for name, kind in zip(names, kinds, strict=True)
    )
    return f"{source.removesuffix(')')}, columns = {{{pairs}}})"


def _kind(structure: Any, in_list: bool = False) -> str:
    """The type of DuckDB for the structure of values."""
    if isinstance(structure, list):
        return f"{_kind(structure[0], True)}[]"
    if isinstance(structure, dict) and 0 < len(structure) <= _MOST_KEYS:
        fields = (f"{quote(name)} {_kind(value)}" for name, value in structure.items())
        return f"STRUCT({', '.join(fields)})"
    if isinstance(structure, dict):
        numbers = {"BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "NULL"}
        return f"MAP(VARCHAR, {'DOUBLE' if {*map(str, structure.values())} <= numbers else 'JSON'})"
    if structure == "JSON":  # of several kinds; in a list they may be objects
        return "JSON" if in_list else "VARCHAR"
    return "VARCHAR" if structure == "NULL" else str(structure)


@dataclass(frozen=True)
class JsonShape:
    """A shape: what errors call it, the SQL of its rows, and what the Columns line says."""

    what: str
    rows: str
    assumed: Mapping[str, str] = field(default_factory=dict)


def json_shape(paths: Sequence[str], pattern: str, label: str) -> JsonShape | None:
    """The shape of a JSON file; None if it has a row per object, as tables have."""
    start = read_start(paths[0], _START)
    keys = _outline(start)
    columns = {key for key, *inner in keys if not inner}

    def read(records: str = "auto", **fields: str) -> str:
        size = min(2**32 - 2, max(2**24, *(4 * os.path.getsize(path) for path in paths)))
        columns = ", ".join(f"{literal(key)}: {literal(kind)}" for key, kind in fields.items())
        return (
            f"read_json({literal(pattern)}, records = {records}, columns = {{{columns}}}, "
            f"maximum_object_size = {size})"
        )

    if ("mteb_model_meta",) in keys:
        return _predictions(read("false", json="MAP(VARCHAR, JSON)"))
    if any(key[0] == "requests" and key[1:] in _REQUEST for key in keys):
        rated = "STRUCT(_index VARCHAR, _id VARCHAR, rating DOUBLE)[]"
        return _rated_requests(read(requests=f"STRUCT(id VARCHAR, ratings {rated})[]"))
    is_rated = any(key[0] == "details" and key[2:4] == ("hits", "hit") for key in keys)
    if is_rated or {"metric_score", "details"} <= columns:
        hits = f"MAP(VARCHAR, STRUCT(hits STRUCT(hit {_HIT})[]))"
        return _rated_hits(read(details=hits, failures="MAP(VARCHAR, JSON)"))
    if {("responses", "hits", "hits"), ("responses", "error")} & keys:
        response = ", ".join(f"{key} {kind}" for key, kind in _RESPONSE.items())
        source = read(responses=f"STRUCT({response})[]")
        places = "unnest(responses, max_depth := 2), generate_subscripts(responses, 1) AS n_"
        source = f"(SELECT {places} FROM {source})"
        return _responses(source, "n_", {"query": "place in responses"})
    if ("hits", "hits") in keys or ("error", "root_cause") in keys:
        query = find_name(columns, _QUERY)
        if not query and len(start) >= _START // 4:  # it may be after long hits
            query = find_name(_all_keys(read("false", json="JSON")), _QUERY)
        source = read(**_RESPONSE, **({query: "VARCHAR"} if query else {}))
        if query:
            return _responses(source, quote(query), {})
        return _responses(source, "row_number() OVER ()", {"query": "row number"})
    return _dict(start, read, label == "qrels")


def _outline(start: str) -> set[tuple[str, ...]]:
    """The keys of the first objects, each after those of the objects around it."""
    keys: set[tuple[str, ...]] = set()
    path: list[str] = []
    last = ""
    for token in re.finditer(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}]', start):
        if token[2]:
            last = token[1]
            keys.add((*path[1:], last))
        elif token[0] == "{":
            path.append(last)
        elif token[0] == "}" and path:
            last = path.pop()
    return keys


def _all_keys(source: str) -> list[str]:
    """The keys of all objects in a file, without those of objects in them."""
    with suppress(duckdb.Error), private_connection() as con:
        sql = f"SELECT DISTINCT unnest(json_keys(json)) AS key FROM {source} ORDER BY key"
        return [key for (key,) in con.execute(sql).fetchall()]
    return []


def _pairs(maps: str, source: str, value: str, condition: str = "true") -> str:
    """SQL of the rows in a map of maps."""
    return (
        f"(SELECT query, i_.key AS item, i_.value AS {value} FROM (SELECT q_.key AS query, "
        f"unnest(map_entries(q_.value)) AS i_ FROM (SELECT unnest(map_entries({maps})) AS q_ "
        f"FROM {source} WHERE {condition})))"
    )


def _dict(start: str, read: Callable[..., str], judged: bool) -> JsonShape | None:
    """{query: {item: number}} or {query: [items in order]}, unless the first key is a column."""
    key = r'"((?:[^"\\]|\\.)*)"\s*:\s*'
    empty = rf"(?:{key}(\{{\s*\}}|\[\s*\])\s*,?\s*)*"
    value = r'(\[|\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[-\dnNI"])'
    match = re.match(rf"\s*\{{\s*{empty}(?:{key}{value}|\}}\s*$)", start)
    if not match or {squash(name) for name in match.group(1, 3) if name} & _NAMES:
        return None
    if not (match[4] or match[2] or "").startswith("["):
        rows = _pairs("json", read("false", json=_NUMBERS), "rel" if judged else "score")
        return JsonShape("{query: {item: number}}", rows)
    source = read("false", json="MAP(VARCHAR, VARCHAR[])")
    place = "" if judged else ", generate_subscripts(q_.value, 1) AS pos"
    rows = (
        f"SELECT q_.key AS query, unnest(q_.value) AS item{place} FROM "
        f"(SELECT unnest(map_entries(json)) AS q_ FROM {source})"
    )
    what = "concat('an item of query ', query, ' is ', item, '. Write {query: {item: score}}')"
    is_nested = "item[1] IN ('[', '{') AND json_valid(item)"
    rows = f"(FROM ({rows}) WHERE CASE WHEN {is_nested} THEN error({what}) ELSE true END)"
    return JsonShape("{query: [items in order]}", rows, {"pos": "order in the list"})


def _predictions(source: str) -> JsonShape:
    """A file of predictions of MTEB: {subset: {split: {query: {item: score}}}} and the model."""
    subsets = f"SELECT unnest(map_entries(json)) AS s_ FROM {source}"
    splits = (
        f"SELECT s_, unnest(map_entries(CAST(s_.value AS MAP(VARCHAR, {_NUMBERS})))) AS p_ "
        f"FROM ({subsets}) WHERE s_.key <> 'mteb_model_meta'"
    )
    several = (
        "error(concat('it has ', len(parts_), ' subsets or splits (', "
        "array_to_string(list_sort(parts_), ', '), '). Write one of them to a file'))"
    )
    parts = f"(SELECT p_, list(s_.key || '/' || p_.key) OVER () AS parts_ FROM ({splits}))"
    only = f"CASE WHEN len(parts_) > 1 THEN {several} ELSE true END"
    return JsonShape("predictions of MTEB", _pairs("p_.value", parts, "score", only))


def _rated_requests(source: str) -> JsonShape:
    """The ratings in a request to _rank_eval, which are judgments."""
    requests = f"SELECT unnest(requests) AS r_ FROM {source}"
    rated = f"SELECT r_.id AS query, unnest(r_.ratings) AS i_ FROM ({requests})"
    rows = f"(SELECT query, i_._id AS item, i_.rating AS rel, i_._index AS _index FROM ({rated}))"
    return JsonShape("a request to _rank_eval", rows)


def _rated_hits(source: str) -> JsonShape:
    """The hits in an answer of _rank_eval. Their ratings are not all there are."""
    failed = "error(concat('the search of ', map_keys(failures)[1], ' failed. Repeat it'))"
    queries = (
        f"SELECT unnest(map_entries(details)) AS q_ FROM {source} "
        f"WHERE CASE WHEN len(map_keys(failures)) > 0 THEN {failed} ELSE true END"
    )
    hits = (
        "SELECT q_.key AS query, unnest(q_.value.hits) AS h_, "
        f"generate_subscripts(q_.value.hits, 1) AS pos FROM ({queries})"
    )
    return _hits("an answer of _rank_eval", f"SELECT query, h_.hit AS h_, pos FROM ({hits})", {})


def _responses(source: str, query: str, assumed: Mapping[str, str]) -> JsonShape:
    """Answers of _search and _msearch. One that is incomplete is an error."""
    answers = f"SELECT {query} AS query, hits.hits AS h_, error, timed_out, _shards FROM {source}"
    partial = "error IS NOT NULL OR coalesce(timed_out, false) OR coalesce(_shards.failed, 0) > 0"
    name = "coalesce('the search of query ' || query, 'a search without query')"
    failed = f"error({name} || ' failed or is incomplete. Repeat it')"
    hits = (
        "SELECT query, unnest(h_) AS h_, generate_subscripts(h_, 1) AS pos FROM "
        f"({answers}) WHERE CASE WHEN {partial} THEN {failed} ELSE true END"
    )
    return _hits("an answer of _search", hits, assumed)


def _hits(what: str, hits: str, assumed: Mapping[str, str]) -> JsonShape:
    """The rows of hits in their order."""
    fields = "query, h_._id AS item, pos, h_._score AS score, h_._index AS _index"
    rows = f"(SELECT {fields} FROM ({hits}))"
    return JsonShape(what, rows, {**assumed, "pos": "order of the hits"})
