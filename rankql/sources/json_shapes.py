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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import (
    COLUMN_NAMES,
    QUESTIONS,
    RELEVANT,
    RETRIEVED,
    find_name,
    squash,
)
from rankql.sources.files import START, File
from rankql.sources.private import in_transaction, private_connection
from rankql.sources.reader import Reader, reword_error
from rankql.sources.tables import Table

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
# An object with more keys is a map, as from ids to scores.
_MOST_KEYS = 200


def load_json_rows(reader: Reader, file: File, options: str = "") -> Table:
    """The rows of a file with one object per row, as text; with types if they have lists."""
    lines = "" if file.suffix == ".json" else ", format = 'newline_delimited'"
    source = f"read_json({literal(file.pattern)}, maximum_depth = 1{lines}{options})"
    with reader.reading(file):
        rows = reader.con.sql(f"FROM {source}")
        kinds = dict(zip(rows.columns, map(str, rows.types), strict=True))
        values = {
            name: _TEXT.format(f"CAST({quote(name)} AS VARCHAR)") if kind == "JSON" else quote(name)
            for name, kind in kinds.items()
        }
        fields = ", ".join(f"{value} AS {quote(name)}" for name, value in values.items())
        text = f"(SELECT {fields} FROM {source})"
        try:
            if in_transaction(reader.con):  # an error would end it
                with private_connection() as con:
                    con.execute(f"SELECT max(hash(COLUMNS(*))) FROM {text}").fetchall()
            return reader.load(file.label, text, ordered=True)
        except duckdb.Error as error:
            if _UNKNOWN_KEY in str(error) and not options:
                every = ", sample_size = -1, maximum_sample_files = 1000000"
                return load_json_rows(reader, file, every)
            if _NESTED not in str(error):
                raise
        names = [name for name, kind in kinds.items() if kind == "JSON"]
        fields = ", ".join(f"json_group_structure({quote(name)})" for name in names)
        ((*structures,),) = reader.con.execute(f"SELECT {fields} FROM {source}").fetchall()
        types = (literal(_kind(json.loads(each) if each else "NULL")) for each in structures)
        pairs = ", ".join(map("{}: {}".format, map(literal, names), types))
        typed = f"{source.removesuffix(')')}, columns = {{{pairs}}})"
        try:
            signed = typed.replace("UBIGINT", "BIGINT")
            return reader.load(file.label, signed, text=False, ordered=True)
        except duckdb.InvalidInputException:  # an integer from 2^63
            return reader.load(file.label, typed, text=False, ordered=True)


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


class Json:
    """A JSON file with the keys at its start."""

    def __init__(self, file: File) -> None:
        self.file = file
        # The keys of the first objects, each after those of the objects around it.
        self.keys = set(_outline(file.start))
        self.columns = {key for key, *inner in self.keys if not inner}
        self.judged = file.label == "qrels"

    def read(self, records: str = "auto", **fields: str) -> str:
        """SQL that reads these fields of its objects."""
        size = max(2**24, *(4 * os.path.getsize(path) for path in self.file.paths))
        columns = ", ".join(f"{literal(key)}: {literal(kind)}" for key, kind in fields.items())
        return (
            f"read_json({literal(self.file.pattern)}, records = {records}, columns = {{{columns}}},"
            f" maximum_object_size = {min(2**32 - 2, size)})"
        )

    @cached_property
    def by_query(self) -> str:
        """How the value of the first query begins that has items: [ or {. Not if its key is the
        name of a column.
        """
        key = r'"((?:[^"\\]|\\.)*)"\s*:\s*'
        empty = rf"(?:{key}(\{{\s*\}}|\[\s*\])\s*,?\s*)*"
        value = r'(\[|\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[-\dnNI"])'
        match = re.match(rf"\s*\{{\s*{empty}(?:{key}{value}|\}}\s*$)", self.file.start)
        if not match or {squash(name) for name in match.group(1, 3) if name} & _NAMES:
            return ""
        return (match[4] or match[2] or "{")[0]

    @cached_property
    def query(self) -> str | None:
        """The key of the query in an answer."""
        query = find_name(self.columns, _QUERY)
        if query or len(self.file.start) < START // 4:
            return query
        with suppress(duckdb.Error), private_connection() as con:  # it may be after long hits
            objects = self.read("false", json="JSON")
            sql = f"SELECT DISTINCT unnest(json_keys(json)) AS key FROM {objects} ORDER BY key"
            return find_name([key for (key,) in con.execute(sql).fetchall()], _QUERY)
        return None


def _outline(start: str) -> Iterator[tuple[str, ...]]:
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


def _pairs(maps: str, source: str, value: str, condition: str = "true") -> str:
    """SQL of the rows in a map of maps."""
    return (
        f"(SELECT query, i_.key AS item, i_.value AS {value} FROM (SELECT q_.key AS query, "
        f"unnest(map_entries(q_.value)) AS i_ FROM (SELECT unnest(map_entries({maps})) AS q_ "
        f"FROM {source} WHERE {condition})))"
    )


_NUMBERS = "MAP(VARCHAR, MAP(VARCHAR, DOUBLE))"


def _numbers_by_query(data: Json) -> str:
    return _pairs("json", data.read("false", json=_NUMBERS), "rel" if data.judged else "score")


def _items_by_query(data: Json) -> str:
    place = "" if data.judged else ", generate_subscripts(q_.value, 1) AS pos"
    objects = data.read("false", json="MAP(VARCHAR, VARCHAR[])")
    rows = (
        f"SELECT q_.key AS query, unnest(q_.value) AS item{place} FROM "
        f"(SELECT unnest(map_entries(json)) AS q_ FROM {objects})"
    )
    what = "concat('an item of query ', query, ' is ', item, '. Write {query: {item: score}}')"
    is_nested = "item[1] IN ('[', '{') AND json_valid(item)"
    return f"(FROM ({rows}) WHERE CASE WHEN {is_nested} THEN error({what}) ELSE true END)"


def _predictions(data: Json) -> str:
    """{subset: {split: {query: {item: score}}}} and the model."""
    objects = data.read("false", json="MAP(VARCHAR, JSON)")
    subsets = f"SELECT unnest(map_entries(json)) AS s_ FROM {objects}"
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
    return _pairs("p_.value", parts, "score", only)


def _rated_requests(data: Json) -> str:
    """Its ratings, which are judgments."""
    rated = "STRUCT(_index VARCHAR, _id VARCHAR, rating DOUBLE)[]"
    source = data.read(requests=f"STRUCT(id VARCHAR, ratings {rated})[]")
    requests = f"SELECT unnest(requests) AS r_ FROM {source}"
    ratings = f"SELECT r_.id AS query, unnest(r_.ratings) AS i_ FROM ({requests})"
    return f"(SELECT query, i_._id AS item, i_.rating AS rel, i_._index AS _index FROM ({ratings}))"


_HIT = "STRUCT(_index VARCHAR, _id VARCHAR, _score DOUBLE)"


def _hits(hits: str) -> str:
    fields = "query, h_._id AS item, pos, h_._score AS score, h_._index AS _index"
    return f"(SELECT {fields} FROM ({hits}))"


def _rated_hits(data: Json) -> str:
    """Its hits. Their ratings are not all there are."""
    hits = f"MAP(VARCHAR, STRUCT(hits STRUCT(hit {_HIT})[]))"
    source = data.read(details=hits, failures="MAP(VARCHAR, JSON)")
    failed = "error(concat('the search of ', map_keys(failures)[1], ' failed. Repeat it'))"
    queries = (
        f"SELECT unnest(map_entries(details)) AS q_ FROM {source} "
        f"WHERE CASE WHEN len(map_keys(failures)) > 0 THEN {failed} ELSE true END"
    )
    hits = (
        "SELECT q_.key AS query, unnest(q_.value.hits) AS h_, "
        f"generate_subscripts(q_.value.hits, 1) AS pos FROM ({queries})"
    )
    return _hits(f"SELECT query, h_.hit AS h_, pos FROM ({hits})")


_ANSWER = {
    "hits": f"STRUCT(hits {_HIT}[])",
    "error": "JSON",
    "timed_out": "BOOLEAN",
    "_shards": "STRUCT(failed BIGINT)",
}


def _answer(data: Json) -> str:
    source = data.read(**_ANSWER, **({data.query: "VARCHAR"} if data.query else {}))
    return _answers(source, quote(data.query) if data.query else "row_number() OVER ()")


def _several_answers(data: Json) -> str:
    answer = ", ".join(f"{key} {kind}" for key, kind in _ANSWER.items())
    places = "unnest(responses, max_depth := 2), generate_subscripts(responses, 1) AS n_"
    return _answers(f"(SELECT {places} FROM {data.read(responses=f'STRUCT({answer})[]')})", "n_")


def _answers(source: str, query: str) -> str:
    """The hits of answers. One that is incomplete is an error."""
    answers = f"SELECT {query} AS query, hits.hits AS h_, error, timed_out, _shards FROM {source}"
    partial = "error IS NOT NULL OR coalesce(timed_out, false) OR coalesce(_shards.failed, 0) > 0"
    name = "coalesce('the search of query ' || query, 'a search without query')"
    failed = f"error({name} || ' failed or is incomplete. Repeat it')"
    return _hits(
        "SELECT query, unnest(h_) AS h_, generate_subscripts(h_, 1) AS pos FROM "
        f"({answers}) WHERE CASE WHEN {partial} THEN {failed} ELSE true END"
    )


class JsonShape(NamedTuple):
    """A shape: what errors call it, is it this one, the SQL of its rows, and what is assumed."""

    name: str
    matches: Callable[[Json], bool]
    rows: Callable[[Json], str]
    # What the Columns line says of the positions and queries.
    pos: str = ""
    query: Callable[[Json], str] = lambda data: ""


_BY_HITS = "order of the hits"
JSON_SHAPES = (
    JsonShape("predictions of MTEB", lambda x: "mteb_model_meta" in x.columns, _predictions),
    JsonShape(
        "a request to _rank_eval",
        lambda x: any(("requests", key) in x.keys for key in ("ratings", "request", "template_id")),
        _rated_requests,
    ),
    JsonShape(
        "an answer of _rank_eval",
        lambda x: (
            {"metric_score", "details"} <= x.columns
            or any(key[0] == "details" and key[2:4] == ("hits", "hit") for key in x.keys)
        ),
        _rated_hits,
        _BY_HITS,
    ),
    JsonShape(
        "an answer of _search",
        lambda x: not x.keys.isdisjoint({("responses", "hits", "hits"), ("responses", "error")}),
        _several_answers,
        _BY_HITS,
        lambda x: "place in responses",
    ),
    JsonShape(
        "an answer of _search",
        lambda x: not x.keys.isdisjoint({("hits", "hits"), ("error", "root_cause")}),
        _answer,
        _BY_HITS,
        lambda x: "" if x.query else "row number",
    ),
    JsonShape("{query: {item: number}}", lambda x: x.by_query == "{", _numbers_by_query),
    JsonShape(
        "{query: [items in order]}",
        lambda x: x.by_query == "[",
        _items_by_query,
        "order in the list",
    ),
)


def load_json_shape(reader: Reader, file: File) -> Table | None:
    """The rows of a JSON file without an object per row; None if it has one, as tables have."""
    data, label = Json(file), file.label
    shape = next((shape for shape in JSON_SHAPES if shape.matches(data)), None)
    if shape is None:
        return None
    about = f"{label}: {file.name!r} looks like {shape.name}, but "
    try:
        table = reader.load(label, shape.rows(data), text=False, ordered=True)
    except duckdb.Error as error:
        why = re.sub(r'JSON transform error in file ".*", in [^:]*: ', "", reword_error(error))
        number = r"\1 is not a number. Correct it"
        why = re.sub("^Failed to cast value to numerical: (.*)$", number, why)
        raise RankqlError(about + why.strip(" .")) from error
    if not reader.con.execute(f"FROM {table.sql} LIMIT 1").fetchall():
        raise RankqlError(
            f"{label} is empty: {about.partition(': ')[2]}no query has an item. Check what wrote it"
        )
    assumed = {"query": shape.query(data), "pos": shape.pos}
    assumed = {role: what for role, what in assumed.items() if what}
    return replace(table, assumed=assumed, unit="ids" if shape.rows is _items_by_query else "rows")
