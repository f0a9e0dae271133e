"""Reword errors of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from rankql.errors import RankqlError, database_message
from rankql.registry.parse import function_of
from rankql.sources.files import first_line_not_utf8, uneven_line

# What is wrong, and what to do about it, by words in DuckDB's message.
_KNOWN_ERRORS = {
    "Map keys must be unique": "a query, or an item of a query, is repeated. Keep one of them",
    "transaction is aborted": "The transaction of con has failed. Call con.rollback(), then retry",
    "Schema mismatch between globbed files": "the files of the glob have different columns. Read "
    "files with the same columns",
    "Connection already closed": "con is closed. Pass an open connection",
    "busy with another call": "con is in use by another thread. Give each thread its own: "
    "con.cursor()",
}


def reword_error(error: duckdb.Error) -> str:
    """One line for an error of DuckDB."""
    line = database_message(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return (
            f"DuckDB is out of memory: {line}. Raise its limit (SET memory_limit = '4GB'), use "
            "fewer threads (SET threads = 1), or make room in temp_directory, where DuckDB spills"
        )
    if (called := _UNKNOWN_FUNCTION.search(line)) and (function := function_of(called[1])):
        return f'{line.partition(" Did you mean")[0]} Did you mean "{function}"?'
    return next((words for sign, words in _KNOWN_ERRORS.items() if sign in line), line)


_UNKNOWN_FUNCTION = re.compile(r"Function with name (\w+) does not exist")


def unreadable_source(label: str, error: duckdb.Error, paths: Sequence[str] = ()) -> RankqlError:
    """The error for a source that DuckDB cannot read, with the line that is not UTF-8."""
    for path in paths:
        if line := first_line_not_utf8(path):
            return RankqlError(
                f"{label}: {path!r} is not UTF-8 text (line {line}). Convert it, for example: "
                "iconv -f LATIN1 -t UTF-8"
            )
        if re.search("CSV Error|sniffing", str(error)) and (uneven := uneven_line(path)):
            return RankqlError(f"{label}: {path!r}: {uneven}")
    what = f"{label}: {paths[0]!r}" if paths else label
    return RankqlError(f"{what} cannot be read: {reword_error(error)}")


def unreadable_shape(label: str, name: str, what: str, error: duckdb.Error) -> RankqlError:
    """The error for a JSON file of a known shape with something else in it."""
    why = re.sub(r'JSON transform error in file ".*", in [^:]*: ', "", reword_error(error))
    why = re.sub(
        "^Failed to cast value to numerical: (.*)$", r"\1 is not a number. Correct it", why
    )
    return RankqlError(f"{label}: {name!r} looks like {what}, but {why.strip(' .')}")
