"""Write files: complete or not at all, and never over an input. Every file is written here."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from glob import escape, glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from rankql.core.base.errors import RankqlError, require

P = ParamSpec("P")
T = TypeVar("T")
PARQUET = (".parquet", ".pq")
_FULL = os.strerror(errno.ENOSPC)
# Files of data, whose numbers are not rounded.
DATA_SUFFIXES = (*PARQUET, ".csv", ".json")
# An empty folder of a save that is so many seconds old is of one that was killed.
KILLED = 3600
# Standard output as an output file.
STDOUT = Path("-")
# The inputs of the call that is running, as absolute paths: the folder may change after it.
CALL_PATHS: ContextVar[Sequence[str]] = ContextVar("paths", default=())


def output_path(
    path: str | os.PathLike[str], suffixes: Sequence[str] = (), inputs: Iterable[Any] = ()
) -> Path:
    """The path of an output file, links resolved, or STDOUT.

    Refuse devices, and inputs: those passed, and those of the call that is running.
    """
    try:
        name = os.path.expanduser(path)
        target = STDOUT if name in ("-", "/dev/stdout") else Path(name).resolve()
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # a number, a loop of links
        raise RankqlError(f"output must be the path of a file, not {path!r}") from error
    if target == STDOUT:
        return target
    wrong, read = "", [*CALL_PATHS.get(), *named_paths(inputs)]
    if suffixes and target.suffix.lower() not in suffixes:
        wrong = f"must end in one of: {', '.join(suffixes)}"
    elif not target.parent.is_dir():
        wrong = f"is in a folder that does not exist: {str(target.parent)!r}"
    elif target.exists() and not target.is_file():  # a device, or no name at all
        wrong = "is not a regular file"
    elif target.exists() and any(_reads(each, target) for each in read):
        wrong = "would overwrite an input"
    require(not wrong, f"output {str(path)!r} {wrong}")
    return target


def named_paths(arguments: Iterable[Any]) -> Iterator[str]:
    """The paths that arguments may name, also in a dict or a list, and those that results read."""
    for data in arguments:
        values = data.values() if isinstance(data, Mapping) else data
        if isinstance(data, dict | list) and {*map(type, values)} <= {dict, list}:
            continue  # of which a run may have many
        for each in values if isinstance(data, Mapping | list | tuple) else [data]:
            if isinstance(each, dict | list):
                continue
            if isinstance(each, str | os.PathLike):
                yield os.fspath(each)
            else:
                paths = getattr(each, "input_paths", ())  # in Spark Connect any name is a column
                yield from paths if isinstance(paths, list | tuple) else ()


def expand_glob(pattern: str) -> list[str]:
    """The files of a glob, sorted."""
    return sorted(glob(os.path.expanduser(pattern), recursive=True))


def is_path(text: str) -> bool:
    """Does a file of this name or pattern exist?"""
    return os.path.exists(os.path.expanduser(text)) or (has_magic(text) and bool(expand_glob(text)))


def _reads(path: str, target: Path) -> bool:
    """Is a file the one of this path, or one of its glob or folder?"""
    path = os.path.expanduser(path)
    files = [path] if os.path.exists(path) else glob(path, recursive=True)
    for folder in filter(os.path.isdir, [*files]):
        files += glob(os.path.join(escape(folder), "**", "*"), recursive=True)
    return any(os.path.exists(file) and os.path.samefile(file, target) for file in files)


@dataclass(frozen=True)
class HeaderlessPath(os.PathLike[str]):
    """A path, and the names of the columns of text files without a header, for each number of them.

    A file with a known name in its first line has a header.
    """

    path: str
    columns: Sequence[Sequence[str]]

    def __fspath__(self) -> str:
        return self.path


class Part:
    """An object or a file, and the name of its part that has the data."""

    def __init__(self, data: Any, name: str) -> None:
        self.data, self.name = data, name

    @property
    def input_paths(self) -> Sequence[str]:
        """The path of the file."""
        return [*named_paths([self.data])]


def pick_part(data: Any, name: str | None) -> Any:
    """The part of an object or a file, or that of each in a dict or list of them."""
    if not name or data is None:
        return data
    head, _, rest = name.partition(".")
    if isinstance(data, Mapping) and name not in data and isinstance(data.get(head), Mapping):
        return pick_part(data[head], rest)
    if isinstance(data, Mapping) and name not in data:
        return {key: pick_part(each, name) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [pick_part(each, name) for each in data]
    return Part(data, name)


def name_columns(data: Any, columns: Any) -> Any:
    """A path, or those of a dict or list, with the names of columns for files without a header."""
    lists = columns if isinstance(columns, list | tuple) else [columns]
    lists = [columns] if lists and _are_texts(lists) else lists
    named = [isinstance(x, list | tuple) and bool(x) and _are_texts(x) for x in lists]
    names = "the names of the columns, or a list of them for each file"
    require(bool(named) and all(named), f"columns must be {names}, not {columns!r}")
    if isinstance(data, Mapping):
        return {name: name_columns(each, columns) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [name_columns(each, columns) for each in data]
    if not isinstance(data, str | os.PathLike):
        return data
    path = os.path.expanduser(data)
    if not (os.path.exists(path) or (has_magic(path) and glob(path, recursive=True))):
        return data  # such as a table
    return HeaderlessPath(path, lists)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def remember_inputs(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function and its result refuse to write over a file that an argument names.

    If the function has `columns=` and `part=`, its arguments that are data get them here.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    named = any(x.kind == x.VAR_KEYWORD for x in parameters)
    data = {x.name for x in parameters if "Data" in x.annotation or x.kind == x.VAR_POSITIONAL}

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        if named and keywords.keys() & {"columns", "part"}:
            columns, part = keywords.pop("columns", None), keywords.pop("part", None)
            names: Any = [part] if part is None or isinstance(part, str) else part
            named_parts = isinstance(names, list | tuple) and len(names) <= 2
            named_parts = named_parts and all(isinstance(x, str | None) for x in names)
            require(named_parts, f"part must be a name, or those of run and qrels, not {part!r}")
            bound = signature.bind_partial(*args, **keywords)
            for name in data & bound.arguments.keys():
                own = names[1:] if name == "qrels" else names[:1]
                whole = name in ("attributes", "train", "catalogue") or not own
                value = bound.arguments[name]
                value = value if columns is None else name_columns(value, columns)
                bound.arguments[name] = value if whole else pick_part(value, own[0])
            args, keywords = bound.args, bound.kwargs  # type: ignore[assignment]
        read = [value for name, value in keywords.items() if name != "output"]
        paths = map(os.path.expanduser, named_paths([*args, *read]))
        outer = CALL_PATHS.set([*CALL_PATHS.get(), *map(os.path.abspath, paths)])
        try:
            return function(*args, **keywords)
        finally:
            CALL_PATHS.reset(outer)

    return call


@contextmanager
def write_file(
    path: str | os.PathLike[str], suffixes: Sequence[str] = (), inputs: Iterable[Any] = ()
) -> Iterator[Path]:
    """A temporary path whose file replaces `path` at the end: complete, or not at all."""
    target = output_path(path, suffixes, inputs)
    parent = None if target == STDOUT else target.parent
    try:
        for left in parent.glob(".rankql-*") if parent else ():
            with suppress(OSError):  # it has files, or was removed meanwhile
                if time.time() - left.stat().st_mtime > KILLED:
                    left.rmdir()
        with TemporaryDirectory(prefix=".rankql-", dir=parent) as folder:
            temporary = Path(folder, "rankql.tmp")
            yield temporary
            if target == STDOUT:
                sys.stdout.flush()
                sys.stdout.buffer.write(temporary.read_bytes())
                return
            if target.exists():
                before = target.stat()
                with suppress(OSError, AttributeError):  # not ours, or Windows
                    os.chown(temporary, before.st_uid, before.st_gid)
                temporary.chmod(stat.S_IMODE(before.st_mode))
            os.replace(temporary, target)
    except Exception as error:
        words = str(error).partition("\n")[0]  # of DuckDB and polars, which may not name the file
        of_disk = _FULL in words or ".rankql-" in words or "(os error" in words
        if isinstance(error, BrokenPipeError) or not (isinstance(error, OSError) or of_disk):
            raise
        reason = _FULL if _FULL in words else getattr(error, "strerror", None) or words
        raise RankqlError(f"Cannot write {str(path)!r}: {reason}") from error


def public_name(data: Any) -> str:
    """The name of a table for a manifest: the last part of its path; "" of a frame.

    It has no folder, no user or password, and no query of an address.
    """
    if not isinstance(data, str | os.PathLike):
        return ""
    path = re.split(r"[?#]" if "://" in os.fspath(data) else r"\?.*=", os.fspath(data))[0]
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1].rpartition("@")[2]


def name_by_file(path: str | os.PathLike[str]) -> str:
    """The name of a system or a collection that is called after its file."""
    return Path(re.sub(r"\.(gz|zst)$", "", public_name(path))).stem


def names_by_file(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The names of systems by their files, or by their folders: bm25/nq.run and dense/nq.run."""
    paths = [*paths]
    names = [*map(name_by_file, paths)]
    return names if len({*names}) == len(paths) else [Path(path).parent.name for path in paths]
