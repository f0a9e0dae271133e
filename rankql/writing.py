"""Write files that appear complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rankql.errors import RankqlError

PARQUET = (".parquet", ".pq")


def output_path(
    path: str | os.PathLike[str], suffixes: Sequence[str] = PARQUET, inputs: Iterable[Any] = ()
) -> Path:
    """The path of an output file; refuse inputs, devices and other suffixes."""
    if not isinstance(path, str | os.PathLike):
        raise RankqlError(f"output must be a path, not {path!r}")
    target = Path(path).expanduser().resolve()
    if target.suffix.lower() not in suffixes:
        expected = ".parquet" if suffixes == PARQUET else f"one of: {', '.join(suffixes)}"
        raise RankqlError(f"output {str(path)!r} must end in {expected}")
    if not target.parent.is_dir():
        raise RankqlError(f"output {str(path)!r}: folder {str(target.parent)!r} does not exist")
    if os.path.exists(target) and not target.is_file():
        raise RankqlError(f"output {str(path)!r} is not a regular file")
    for data in inputs:
        if isinstance(data, str | os.PathLike) and Path(data).expanduser().resolve() == target:
            raise RankqlError(f"output {str(path)!r} would overwrite an input")
    return target


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path that replaces this one at the end: complete, or not at all."""
    path = path.expanduser()
    if not path.parent.is_dir():
        raise RankqlError(f"Cannot write {path.name!r}: folder {str(path.parent)!r} does not exist")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RankqlError(f"Cannot write {str(path)!r}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
