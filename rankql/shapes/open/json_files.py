"""JSON files: objects of any shape, and rows.

The keys at the start of a file say its shape. Dicts and answers are parsed by Python, and read as
the same objects: see `shapes`. Rows are read by DuckDB as text, whose numbers are parsed later, as
those of CSV, so that dates and UUIDs stay as they are written: DuckDB infers types from 20,480
rows, and rounds what does not fit. If rows have lists or objects, types are those of all rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import duckdb

from rankql.core.base.column_names import squash
from rankql.core.base.errors import RankqlError, require, require_package
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.files import File, read_text
from rankql.core.tables.private import in_transaction, private_connection
from rankql.core.tables.reader import Reader
from rankql.core.tables.session import Source, is_several_runs
from rankql.core.tables.tables import Table, repeated_names
from rankql.shapes.open import answers, shapes
from rankql.shapes.open.plain import MOST_KEYS, unique_dict

# What the SQL of text rows says of a list or an object, and DuckDB of a key after the sample.
_NESTED, _UNKNOWN_KEY = "a value is a list or an object", "has unknown key"
# A JSON value as text: a number as it is, a text without quotes, 1 and 0 for true and false.
_TEXT = f"""CASE WHEN starts_with({{0}}, '"') AND contains({{0}}, '\\') THEN {{0}} ->> '$'
    WHEN starts_with({{0}}, '"') THEN substring({{0}}, 2, length({{0}}) - 2)
    WHEN {{0}} IN ('true', 'false') THEN CAST({{0}} = 'true' AS INTEGER)::VARCHAR
    WHEN {{0}}[1] IN ('[', '{{{{') THEN error('{_NESTED}') ELSE {{0}} END"""


def several_runs(source: Source) -> Mapping[str, Any] | None:
    """The runs by name of a file that has several."""
    if source.entry is None and may_have_runs(source.file):
        (*objects,) = parse_objects(source.file)
        if len(objects) == 1 and len(objects[0]) > 1 and is_several_runs(objects[0]):
            return objects[0]
    return None


def open_json(reader: Reader, source: Source) -> Table:
    """The rows of a file, of any shape."""
    file, part = source.file, source.part
    keys = dict.fromkeys(_outline(file.start))
    shape = None if part else shapes.find_shape({*keys})
    if shape:
        return shapes.load_shape(reader, file.label, repr(file.name), shape, parse_objects(file))
    top = list(dict.fromkeys(path[0] for path in keys))
    objects_in = re.findall(r'"((?:[^"\\]|\\.)*)"\s*:\s*\{', file.start)
    names = [name for name in top if squash(name) in answers.NAMES]  # of a row, or of a part
    is_row = names and (len(names) == len(top) or not {*names} <= {*objects_in})
    if _COMMENTED.search(file.start):  # DuckDB does not read comments
        objects = parse_objects(file)
        if part or (len(objects) == 1 and not names):
            return shapes.load_dict(reader, file.label, objects[0], part)
        return shapes.load_list(reader, file.label, objects)
    if re.match(r"\s*\[\s*\[", file.start) and not part:  # a list for each query
        return shapes.load_list(reader, file.label, parse_objects(file))
    if part or (file.start.lstrip().startswith("{") and not is_row):
        objects = [{k: v for k, v in x.items() if k != "_comment"} for x in parse_objects(file)]
        table = shapes.load_object(reader, file.label, repr(file.name), objects, part)
        if table is not None:
            return table
    return replace(_load_rows(reader, file), repeated=repeated_names(top))


def may_have_runs(file: File) -> bool:
    """Does it begin as {name: rows} or as {name: {query: items}} do?"""
    text = r'"(?:[^"\\]|\\.)*"\s*:\s*'
    return bool(re.match(rf"\s*\{{\s*{text}(\[\s*\{{|\{{\s*{text}[\[{{])", file.start))


def open_yaml(reader: Reader, source: Source) -> Table:
    """The objects or rows of a YAML file."""
    file, part = source.file, source.part
    require_package("yaml", "yaml", f"{file.label}: {file.name!r}")
    import yaml

    try:
        documents = [*yaml.safe_load_all(read_text(file.paths[0]))]
        data = documents[0] if len(documents) == 1 else documents
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise file.error(f"cannot be read: {' '.join(str(error).split())}") from error
    require(isinstance(data, list | dict), f"{file.label}: {file.name!r} has no objects")
    if isinstance(data, list):
        return shapes.load_list(reader, file.label, data)
    return shapes.load_dict(reader, file.label, data, part)


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
        # Of a row for each structure: of all it takes 12 times the memory of the file.
        first = ", ".join(f"any_value({quote(name)}) AS {quote(name)}" for name in names)
        by = ", ".join(f"json_structure({quote(name)})" for name in names)
        few = f"SELECT {first} FROM {source} GROUP BY {by}"
        (*structures,) = reader.row(f"SELECT {fields} FROM ({few})")

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


_COMMENTED = re.compile(r"(?m)^\s*(//|/\*)")
# A text, which stays, or a comment.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def parse_objects(file: File) -> list[Any]:
    """The objects of files, also of lists and of one per line."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_dict)
    objects: list[Any] = []
    for path in file.paths:
        try:
            text, end = read_text(path), 0
            text = (_COMMENT.sub(r"\1", text) if _COMMENTED.search(text) else text).strip()
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
