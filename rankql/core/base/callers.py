"""Which frames of a traceback a caller sees: those of their own code."""

from __future__ import annotations

import os
import sysconfig
from types import TracebackType

import rankql

# Code of others than the caller: ours, and those of packages and of Python.
_LIBRARIES = (
    f"{os.path.dirname(os.path.abspath(rankql.__file__))}{os.sep}",
    *(f"{sysconfig.get_path(x)}{os.sep}" for x in ("purelib", "platlib", "stdlib")),
)


def shows_all() -> bool:
    """Are all frames shown?"""
    return bool(os.environ.get("RANKQL_DEBUG"))


def skip_libraries(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first of the caller on."""
    while frames and _is_library(frames):
        frames = frames.tb_next
    return frames


def last_of_caller(frames: TracebackType | None) -> TracebackType | None:
    """The last frame of the caller; None if all frames are shown."""
    last = None
    while frames and not shows_all():
        last = last if _is_library(frames) else frames
        frames = frames.tb_next
    return last


def _is_library(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_LIBRARIES)
