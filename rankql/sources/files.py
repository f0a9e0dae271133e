"""Find files by path, folder or glob, and read their first lines."""

from __future__ import annotations

import csv
import gzip
import itertools
import os
import re
import stat
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal
from rankql.sources.private import private_connection
from rankql.sources.tables import COLUMN_NAMES, squash

# The table function of DuckDB for each suffix.
READERS = {
    ".parquet": "read_parquet({})",
    ".pq": "read_parquet({})",
    ".csv": "read_csv({}, all_varchar = true)",
    ".tsv": "read_csv({}, all_varchar = true)",
    ".json": "read_json({})",
    ".jsonl": "read_json({}, format = 'newline_delimited')",
    ".ndjson": "read_json({}, format = 'newline_delimited')",
}

# The judgments of Quepid have a line with the query alone if it has no rating.
QUEPID = "query,docid,rating"
READ_QUEPID = (
    "(FROM read_csv({}, all_varchar = true, header = true, delim = ',', quote = '\"', "
    "null_padding = true) WHERE docid IS NOT NULL OR rating IS NOT NULL)"
)

# The streams that were read, which can be read only once, as files in memory.
_STREAMS: dict[str, IO[bytes]] = {}


def is_stream(name: str) -> bool:
    """Is it `-` for stdin, or a pipe, as of process substitution?"""
    return name == "-" or (os.path.exists(name) and stat.S_ISFIFO(os.stat(name).st_mode))


def copy_stream(name: str, label: str) -> tuple[str, str]:
    """Copy a stream into memory, unzipped: the path of the copy, and the suffix of its format."""
    own = name == "-" or name.startswith(("/dev/", "/proc/"))  # the same as long as we run
    file: IO[bytes]
    if not own or name not in _STREAMS:
        with open(name, "rb") if name != "-" else nullcontext(sys.stdin.buffer) as source:
            data = source.read()
        if data[:4] == b"\x28\xb5\x2f\xfd":
            raise RankqlError(f"{label}: {name!r} is compressed. Unzip it first: zstd -dc")
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        if not data.strip():
            raise RankqlError(f"{label}: {name!r} is empty")
        in_memory = hasattr(os, "memfd_create")
        file = open(os.memfd_create("rankql"), "w+b") if in_memory else TemporaryFile()  # noqa: SIM115
        file.write(data)
        file.flush()
        _STREAMS[name if own else f"{name} {len(_STREAMS)}"] = file
    else:
        file = _STREAMS[name]
    path = f"/dev/fd/{file.fileno()}"
    return path, _suffix_of(path)


def _suffix_of(path: str) -> str:
    """The suffix of a format, by the first lines; "" for TREC."""
    with open(path, "rb") as file:
        if file.read(4) == b"PAR1":
            return ".parquet"
    line = next(iter(read_head(path, 1)), "")
    if line.lstrip().startswith(("{", "[")):
        return ".json"
    return "" if ends_with_number(line.split()) or not re.search(r"[,\t]", line) else ".csv"


def ends_with_number(fields: Sequence[str]) -> bool:
    """Are the fields a line of TREC or MS MARCO, and not the names of columns?"""
    place = {3: 2, 4: 3, 6: 4}.get(len(fields))
    return place is not None and reads_as_number(fields[place])


def reads_as_number(word: str) -> bool:
    """Is the word a number, as Python writes them?"""
    try:
        float(word)
    except ValueError:
        return False
    return True


def find_files(name: str, label: str, hint: str) -> tuple[list[str], str]:
    """The files of a path, folder or glob, and the pattern with which DuckDB reads them."""
    if "://" in name:
        if suffix(name) in READERS:
            return [name], name
        pattern = f"{name.rstrip('/')}/**/*.parquet"
        return [pattern], pattern
    paths, pattern = [name], name
    if os.path.exists(name):  # Path refuses names that are too long
        pattern = re.sub(r"([\[*?])", r"[\1]", name)  # a path, not a pattern
    if os.path.isdir(name):
        _refuse_lake(Path(name), label)
        pattern = str(Path(pattern) / "**" / "*.parquet")
    if not os.path.isfile(name) and has_magic(pattern):
        paths = expand_glob(pattern)
    if not paths and os.path.isdir(name):
        raise RankqlError(
            f"{label}: folder {_shortened(name)} has no Parquet files. Name its files, such as "
            f"'{name.rstrip('/')}/*.csv'"
        )
    if not paths or not os.path.isfile(paths[0]):
        raise RankqlError(f"{label}: file {_shortened(name)} does not exist. {hint}")
    return paths, pattern


def _refuse_lake(folder: Path, label: str) -> None:
    """Refuse the folder of a Delta or Iceberg table, which also holds deleted rows."""
    for kind, logs, remedy in (
        ("Delta", "_delta_log/*.json", "deltalake.DeltaTable(...).to_pyarrow_dataset()"),
        ("Iceberg", "metadata/*.metadata.json", "table.scan().to_arrow() of pyiceberg"),
    ):
        if any(folder.glob(logs)):
            raise RankqlError(f"{label}: {str(folder)!r} is a table of {kind}. Pass {remedy}")


def _shortened(name: str) -> str:
    """A name for an error; of a long one, only the beginning."""
    return repr(name) if len(name) <= 200 else f"{name[:100]!r}... ({len(name):,} characters)"


def suffix(path: str) -> str:
    """The suffix of a file, without that of its compression."""
    return Path(re.sub(r"\.(gz|zst)$", "", path.lower())).suffix


def expand_home(path: str) -> str:
    """The path with `~` replaced by the user's folder."""
    return os.path.expanduser(path) if path.startswith("~") else path


def expand_glob(pattern: str) -> list[str]:
    """The files of a glob, sorted."""
    return sorted(glob(expand_home(pattern), recursive=True))


def is_path(text: str) -> bool:
    """Does a file of this name or pattern exist?"""
    return os.path.exists(expand_home(text)) or (has_magic(text) and bool(expand_glob(text)))


def read_as_text(pattern: str, delimiter: str = "\\0", columns: Sequence[str] = ("line",)) -> str:
    """SQL that reads columns of text without quotes and headers, or complete lines."""
    kinds = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return (
        f"read_csv({pattern}, delim = {literal(delimiter)}, header = false, quote = '', "
        f"escape = '', auto_detect = false, columns = {{{kinds}}})"
    )


def read_head(path: str, lines: int = 1000) -> list[str]:
    """The first lines of a text file, which may be compressed."""
    if path.endswith(".zst"):
        sql = f"SELECT line FROM {read_as_text(literal(path))} LIMIT {lines}"
        with private_connection() as con:
            return [line for (line,) in con.execute(sql).fetchall() if line and line.strip()]
    try:
        with _open(path) as file:
            decoded = [raw.decode("utf-8-sig", "replace") for raw in itertools.islice(file, lines)]
    except (OSError, EOFError) as error:
        raise RankqlError(f"{path!r} cannot be read: {error}") from error
    return [line.rstrip("\r\n") for line in decoded if line.strip()]


def read_start(path: str, size: int = 2**16) -> str:
    """The first characters of a text file; of one in .zst, the first lines if they are short."""
    if path.endswith(".zst"):
        with suppress(duckdb.Error):
            return "\n".join(read_head(path, 50))[:size]
        return ""
    with suppress(OSError, EOFError), _open(path) as file:
        return file.read(size).decode("utf-8-sig", "replace")
    return ""


def _open(path: str) -> IO[bytes]:
    """The bytes of a file, which may be compressed."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path))
    return open(path, "rb")


def misread_line(path: str, columns: Sequence[str]) -> str:
    """The uneven line because of which DuckDB found no header, or one column; or ''."""
    unnamed = all(re.fullmatch(r"column\d+", name) for name in columns)
    joined = len(columns) == 1 and re.search(r"[,;|\t]", columns[0])
    return uneven_line(path) if unnamed or joined else ""


def uneven_line(path: str) -> str:
    """The first line of a CSV file with more or fewer values than the header, in words; or ''.

    The first line is the header if it has a known name.
    """
    if "://" in path or path.endswith(".zst"):
        return ""
    with suppress(OSError, EOFError, csv.Error), _open(path) as file:
        lines = (raw.decode("utf-8-sig", "replace") for raw in file)
        header = next(lines, "")
        rows = csv.reader(
            itertools.chain([header], lines), delimiter=max(",\t;|", key=header.count)
        )
        names = next(rows)
        if COLUMN_NAMES.isdisjoint(map(squash, names)):
            return ""
        for row in rows:
            if row and len(row) != len(names):
                return (
                    f"line {rows.line_num:,} has {len(row)} instead of {len(names)} values "
                    f"({', '.join(names)}). Correct it"
                )
    return ""


def refuse_utf16(label: str, path: str) -> None:
    """Refuse a local text file that starts with the byte order mark of UTF-16 or UTF-32."""
    if "://" in path or path.endswith(".zst"):
        return
    try:
        with _open(path) as file:
            start = file.read(2)
    except (OSError, EOFError) as error:
        raise RankqlError(f"{path!r} cannot be read: {error}") from error
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise RankqlError(
            f"{label}: {path!r} is UTF-16 text, not UTF-8. Convert it, for example: "
            "iconv -f UTF-16 -t UTF-8"
        )


def first_line_not_utf8(path: str) -> int | None:
    """The number of the first line of a local text file that is not UTF-8."""
    if "://" in path or path.endswith(".zst"):
        return None
    with suppress(OSError, EOFError), _open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None
