"""Parquet files, of which several are read under the types that all of their values have."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from glob import escape
from typing import Any

from rankql.core.base.errors import RankqlError
from rankql.core.metrics.macros import literal
from rankql.core.tables.files import File
from rankql.core.tables.frames import fetch_rows
from rankql.core.tables.reader import Reader
from rankql.core.tables.tables import Table, repeated_names

# By file: the names of its columns, in order, with the type in which each is stored.
_Stored = dict[str, list[tuple[str, str]]]


def load_parquet(reader: Reader, file: File) -> Table:
    """The rows of a Parquet file, or of all files of a folder or glob."""

    def problem(why: str) -> str:
        return (
            f": {file.name!r} is not a complete Parquet file ({why}). It is damaged, cut off, or "
            "has another format: write or copy it again"
        )

    # Otherwise DuckDB reads all files under the types of the first: 2.4 as 2, '007' as 7.
    several = len(file.paths) > 1
    sql = f"read_parquet({literal(file.pattern)}{', union_by_name = true' if several else ''})"
    table = reader.describe(file.label, sql, problem, ordered=True)
    numbered = any(re.search(r"_\d+$", name) for name in table.columns)
    if not (several or numbered):
        if os.path.getsize(file.paths[0]) <= _BYTES:
            reader.hold(table)
        return table
    pattern = file.pattern if several else escape(file.paths[0])
    stored = _read_columns(reader, pattern)
    if several:
        _require_same_columns(file, stored, sql)
        _note_types(table, stored)
    return replace(table, repeated=repeated_names(name for name, _ in next(iter(stored.values()))))


# A file of so many bytes is read into memory.
_BYTES = 1_000_000


def _read_columns(reader: Reader, pattern: str) -> _Stored:
    """The columns of each file, from its metadata, which list fields of objects behind them."""
    sql = f"SELECT file_name, name, type, num_children FROM parquet_schema({literal(pattern)})"
    stored, inside = _Stored(), 0
    for path, name, kind, fields in fetch_rows(reader.con, sql):
        if path not in stored:  # its first row is the file itself
            stored[path], inside = [], 0
            continue
        if not inside:
            stored[path].append((name, kind))
        inside = max(inside - 1, 0) + (fields or 0)
    return stored


def _require_same_columns(file: File, stored: _Stored, sql: str) -> None:
    """Refuse a column that some files lack, whose values would be NULL."""
    where = {name.lower(): (name, path) for path, columns in stored.items() for name, _ in columns}
    for path, columns in stored.items():
        if lacking := where.keys() - {name.lower() for name, _ in columns}:
            name, other = where[min(lacking)]
            raise RankqlError(
                f"{file.label}: {path!r} has no column {name!r}, which {other!r} has. Write it, "
                f"or fill it with NULL: con=con and con.sql({'FROM ' + sql!r})"
            )


def _note_types(table: Table, stored: _Stored) -> None:
    """A note on each column that is text in some files and numbers in others."""
    kinds: dict[Any, set[bool]] = {}
    for columns in stored.values():
        for name, kind in columns:
            kinds.setdefault(name.lower(), set()).add(kind == "BYTE_ARRAY")
    for name, kind in table.columns.items():
        if kind == "VARCHAR" and len(kinds.get(name.lower(), ())) > 1:
            words = f"{name} is text in some files and a number in others, so it is read as text"
            table.note(words)
