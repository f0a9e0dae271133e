"""Files by path, folder, glob or stream: which there are, and what their first lines say."""

from __future__ import annotations

import csv
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from glob import escape, has_magic
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from rankql.core.base.arrow import require_pyarrow
from rankql.core.base.column_names import COLUMN_NAMES, squash
from rankql.core.base.errors import RankqlError, parse_number, require
from rankql.core.base.writing import expand_glob
from rankql.core.metrics.macros import literal

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".inter")
JSON = (".json", ".jsonl", ".ndjson")
ARROW = (".feather", ".arrow", ".ipc", ".orc")
YAML = (".yaml", ".yml")
COMPRESSED = (".gz", ".zst")
FORMATS = {"parquet": PARQUET, "json": JSON, "arrow": ARROW, "yaml": YAML}
# How text in UTF-16 begins, half of which are zero bytes.
UTF16 = (b"\xff\xfe", b"\xfe\xff")
# The suffixes of files that are no databases.
DATA = (*PARQUET, *CSV, *JSON, *ARROW, *YAML, ".run", ".trec", ".qrel", ".qrels", ".txt")
# Quotes of CSV, as in RFC 4180: DuckDB would infer them from the first 20,480 rows. Or none.
QUOTED, PLAIN = "quote = '\"', escape = '\"'", "quote = '', escape = ''"
# The size of the start of a file that is read to see what is in it.
START = 2**16
# What is not read, by its suffix or its first characters: what it is, and the call that reads it.
_UNREAD = (
    (".xlsx", "\0", "an Excel file", "polars.read_excel({path!r}) (pip install fastexcel)"),
    (".npy", "\ufffdNUMPY", "an array", "numpy.load({path!r})"),
    (".avro", "Obj\x01", "an Avro file", "polars.read_avro({path!r})"),
    (
        *(".sqlite", "SQLite format 3", "a SQLite database"),
        "polars.read_database('SELECT * FROM {table}', sqlite3.connect({path!r}))",
    ),
)
# The streams that were read, which can be read only once, as files in memory.
_STREAMS: dict[str, IO[bytes]] = {}


@dataclass
class File:
    """A file, or several of a folder or glob."""

    label: str
    name: str
    paths: list[str]
    # The pattern with which DuckDB reads them.
    pattern: str
    # The suffix of the format, without that of the compression.
    suffix: str

    @property
    def format(self) -> str:
        """The name in `FORMATS`, or text."""
        return next((name for name, x in FORMATS.items() if self.suffix in x), "text")

    @cached_property
    def start(self) -> str:
        """The first characters of the first file."""
        with _open(self.paths[0]) as file:
            return file.read(START).decode("utf-8-sig", "replace")

    @cached_property
    def lines(self) -> list[str]:
        """Its first lines that are not blank."""
        lines = self.start.splitlines()
        if len(self.start) >= START // 4 and len(lines) > 1:
            lines.pop()  # cut off
        return [line for line in lines if line.strip()]

    @property
    def is_json(self) -> bool:
        """Does it begin as JSON?"""
        return next(iter(self.lines), "").lstrip().startswith(("{", "["))

    def refuse_unread(self) -> None:
        """Refuse a file of another kind, with the call that reads it; of a pickle, without one."""
        if self.suffix in (".pkl", ".pickle"):
            raise self.error("is a pickle, which may run code when it is read. Write Parquet")
        for suffix, start, kind, call in _UNREAD:
            if self.suffix == suffix or self.start.startswith(start):
                table = _first_table(self.paths[0]) if "table" in call else ""
                call = call.format(path=self.paths[0], table=table)
                raise self.error(f"is {kind}, which is not read. Pass {call}")

    def refuse_zero_bytes(self) -> None:
        """Refuse text with zero bytes, which are no part of an id."""
        for path in (x for x in self.paths if not x.endswith(COMPRESSED)):
            with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                if (place := data.find(b"\0")) >= 0 and data[:2] not in UTF16:
                    line = data[:place].count(b"\n") + 1
                    raise self.error(f"has zero bytes (line {line:,}). Write or copy it again")

    def not_utf8(self, path: str, where: str = "") -> RankqlError:
        """The error about text in another encoding."""
        return RankqlError(
            f"{self.label}: {path!r} is not UTF-8 text{where}. Convert it from its "
            "encoding: iconv -f ENCODING -t UTF-8"
        )

    def error(self, problem: str) -> RankqlError:
        """An error about the file."""
        return RankqlError(f"{self.label}: {self.paths[0]!r} {problem}")


def is_pipe(data: object) -> bool:
    """Is it standard input, or a named pipe?"""
    if not isinstance(data, str | os.PathLike):
        return False
    return data == "-" or (os.path.exists(data) and stat.S_ISFIFO(os.stat(data).st_mode))


def open_file(name: str, label: str, hint: str) -> File:
    """The file of a path, folder, glob or stream. One that cannot be read is an error."""
    if is_pipe(name):
        path = _copy_stream(name, label)
        file = File(label, name, [path], path, "")
        line = next(iter(file.lines), "")
        is_header = count_known(split_line(line)[1]) > 1
        if file.start.startswith("PAR1"):
            file.suffix = ".parquet"
        elif file.is_json:
            file.suffix = ".json"
        elif is_header or (not ends_with_number(line.split()) and re.search(r"[,\t]", line)):
            file.suffix = ".csv"
        return file  # "" is TREC
    paths, pattern = _find_files(name, label, hint)
    file = File(label, name, paths, pattern, suffix_of(paths[0]))
    if file.suffix not in DATA and file.is_json:
        file.suffix = ".json"
    # Of .zst, DuckDB reads as many lines as there are. Of .gz, it compares no checksum.
    for path in (path for path in paths if path.endswith(COMPRESSED)):
        try:
            with _open(path) as stream:
                while stream.read(2**20):
                    pass
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(label, path, error) from error
    return file


def _copy_stream(name: str, label: str) -> str:
    """Copy stdin or a pipe, as of process substitution, into memory, unzipped; return its path."""
    own = name == "-" or name.startswith(("/dev/", "/proc/"))  # the same as long as we run
    if own and name in _STREAMS:
        return f"/dev/fd/{_STREAMS[name].fileno()}"
    with open(name, "rb") if name != "-" else nullcontext(sys.stdin.buffer) as source:
        data = source.read()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(label, name, error) from error
    require(bool(data.strip()), f"{label}: {name!r} is empty")
    in_memory = hasattr(os, "memfd_create")
    file: IO[bytes] = open(os.memfd_create("rankql"), "w+b") if in_memory else TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    _STREAMS[name if own else f"{name} {len(_STREAMS)}"] = file
    return f"/dev/fd/{file.fileno()}"


def ends_with_number(fields: Sequence[str]) -> bool:
    """Are the fields a line of TREC or MS MARCO, and not the names of columns?"""
    place = {3: 2, 4: 3, 6: 4}.get(len(fields))
    return place is not None and parse_number(fields[place]) is not None


def _find_files(name: str, label: str, hint: str) -> tuple[list[str], str]:
    """The files of a path, folder or glob, and the pattern with which DuckDB reads them."""
    paths, pattern = [name], name
    if os.path.exists(name):  # Path refuses names that are too long
        pattern = escape(name)  # a path, not a pattern
    if os.path.isdir(name):
        logs = ("_delta_log/*.json", "metadata/*.metadata.json")  # which hold deleted rows too
        require(
            not any(any(Path(name).glob(log)) for log in logs),
            f"{label}: {name!r} is a table of Delta or Iceberg. Write it to Parquet, or pass "
            "DeltaTable(...).to_pyarrow_dataset() or table.scan().to_arrow() in Python",
        )
        pattern = str(Path(pattern) / "**" / "*.parquet")
    if not os.path.isfile(name) and has_magic(pattern):
        paths = expand_glob(pattern)
    remedy = f"Name its files, such as '{name.rstrip('/')}/*.csv'"
    empty = f"{label}: folder {name!r} has no Parquet files. {remedy}"
    require(bool(paths) or not os.path.isdir(name), empty)
    call = f'con=con and con.sql("FROM {literal(name[:200])}")'
    remote = f"{label}: {name[:200]!r} is not a local file. Load httpfs on a connection, and pass"
    require(not re.match(r"\w+://", name), f"{remote} {call}")
    if not (paths and os.path.isfile(paths[0])):
        raise RankqlError(f"{label}: file {name[:200]!r} does not exist. {hint}")
    return paths, pattern


def suffix_of(path: str) -> str:
    """The suffix of a file, without that of its compression."""
    return Path(re.sub(r"\.(gz|zst)$", "", path.lower())).suffix


def read_as_text(
    pattern: str, delimiter: str = "\\0", columns: Sequence[str] = ("line",), quotes: str = PLAIN
) -> str:
    """SQL that reads columns of text without a header, or complete lines."""
    kinds = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return (
        f"read_csv({literal(pattern)}, delim = {literal(delimiter)}, header = false, {quotes}, "
        f"auto_detect = false, columns = {{{kinds}}})"
    )


def _open(path: str) -> IO[bytes]:
    """The bytes of a file, which may be compressed."""
    if path.endswith(".gz"):
        return BufferedReader(gzip.open(path))
    if path.endswith(COMPRESSED):
        require_pyarrow(repr(path))
        import pyarrow  # takes 0.3 s, which other files need not wait for

        return BufferedReader(pyarrow.input_stream(path))
    return open(path, "rb")


def read_text(path: str) -> str:
    """The text of a file, which may be compressed."""
    with _open(path) as file:
        return file.read().decode("utf-8-sig")


def split_line(line: str, marks: str = ",\t;|") -> tuple[str, list[str]]:
    """The likeliest character between the values of a line of CSV, and the values."""

    def values(mark: str) -> list[str]:
        return next(csv.reader([line], delimiter=mark), [])

    mark = max(marks, key=lambda mark: (count_known(values(mark)), line.count(mark)))
    return mark, values(mark)


def count_known(names: Sequence[str]) -> int:
    """How many of the names of columns are recognised."""
    return len(COLUMN_NAMES & {*map(squash, names)})


def _first_table(path: str) -> str:
    """The first table of a SQLite database."""
    import sqlite3

    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as con:
        tables = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return next(iter(tables), ("table",))[0]


def _damaged(label: str, path: str, why: object) -> RankqlError:
    what = f"{label}: {path!r} is damaged or cut off"
    return RankqlError(f"{what} ({why}). Write or copy it again")
