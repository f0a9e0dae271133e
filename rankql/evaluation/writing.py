"""Files that appear complete or not at all, and the Parquet files of results among them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rankql.errors import RankqlError

SUFFIXES = (".parquet", ".pq")


def parquet_path(path: str | os.PathLike[str], inputs: Iterable[Any] = ()) -> Path:
    """A path to write a Parquet file to: not in place of an input, a device or another kind."""
    target = Path(path).expanduser().resolve()
    if target.suffix not in SUFFIXES:
        raise RankqlError(f"output is a Parquet file: {str(path)!r} must end in .parquet")
    if os.path.exists(target) and not target.is_file():
        raise RankqlError(f"output {str(path)!r} is no regular file")
    for data in inputs:
        if isinstance(data, str | os.PathLike) and Path(data).expanduser().resolve() == target:
            raise RankqlError(f"output {str(path)!r} would overwrite what is evaluated")
    return target


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A path to write to, which then takes the place of this one: complete, or not at all."""
    path = path.expanduser()
    if not path.parent.is_dir():
        raise RankqlError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RankqlError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
