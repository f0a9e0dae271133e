"""Was this process forked? rankql remembers in which process it was imported."""

from __future__ import annotations

import os
import sys

_PROCESS = os.getpid()


def may_lack_threads() -> bool:
    """Was this process forked, or started by multiprocessing, which may fork?

    The threads of polars do not survive a fork: polars would wait for them for ever.
    """
    processes = sys.modules.get("multiprocessing.process")
    is_child = processes is not None and processes.parent_process() is not None
    return is_child or os.getpid() != _PROCESS
