"""The entry point, which imports all else."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def run(program: str | None = None) -> NoReturn:
    """Run a command and end the process at once, because freeing its memory takes 60 ms.

    Handlers of `atexit` do not run. Until the command runs, an interrupt ends the process quietly.
    """
    gc.set_threshold(1_000_000)  # imports make many objects, of which none is garbage
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdout is None:  # closed, as by >&-
        sys.exit(f"{program or 'rankql'}: stdout is closed. Redirect it, for example to /dev/null")
    from rankql.cli.main import main

    try:
        main(prog_name=program)
    except SystemExit as end:
        if private := sys.modules.get("rankql.core.tables.private"):
            private.remove_temporary_files()
        if isinstance(end.code, int):
            with suppress(OSError, ValueError):  # a closed stream
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
                os._exit(end.code)
        raise
    raise AssertionError("click ends the program")
