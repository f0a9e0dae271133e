"""Find files by path, folder or glob, and read their first lines."""

from __future__ import annotations

import gzip
import itertools
import os
import re
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path
from typing import IO, cast

from rankql.errors import RankqlError

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


def read_head(path: str, lines: int = 1000) -> list[str]:
    """The first lines of a text file, which may be compressed."""
    try:
        with _open(path) as file:
            decoded = [raw.decode("utf-8-sig", "replace") for raw in itertools.islice(file, lines)]
    except (OSError, EOFError) as error:
        raise RankqlError(f"{path!r} cannot be read: {error}") from error
    return [line.rstrip("\r\n") for line in decoded if line.strip()]


def _open(path: str) -> IO[bytes]:
    """The bytes of a file, which may be compressed."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path))
    return open(path, "rb")


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
