"""While queries run: a bar after two seconds for those who look, and Ctrl-C at once.

DuckDB returns to Python when a query is done, so a thread reads the signals from a socket
(`signal.set_wakeup_fd`) and interrupts the query: within half a second instead of 15.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

import duckdb

# Shorter work needs no bar. DuckDB says 95% and more until a query is done.
SECONDS, KNOWN = 2, 95
_END = 0
_WATCHED: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


@contextmanager
def watch(con: duckdb.DuckDBPyConnection, *, private: bool) -> Iterator[None]:
    """Interrupt the queries on a connection by Ctrl-C; on one of our own also show progress."""
    if con in _WATCHED:
        yield
        return
    shows = private and _find_screen() is not None
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    arguments = (_watch, con, receiver, shows)
    thread = threading.Thread(target=copy_context().run, args=arguments, daemon=True)
    previous = None
    try:
        thread.start()
        if shows:
            con.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        _WATCHED.add(con)
        with suppress(ValueError):  # in another thread than the main one
            previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        yield
    finally:
        if previous is not None:
            signal.set_wakeup_fd(previous)
        sender.send(bytes([_END]))
        thread.join()
        receiver.close()
        sender.close()
        _WATCHED.discard(con)


def _watch(con: duckdb.DuckDBPyConnection, receiver: socket.socket, shows: bool) -> None:
    start, screen = time.monotonic(), None
    receiver.settimeout(0.2 if shows else None)
    while True:
        numbers = b""
        with suppress(TimeoutError):
            numbers = receiver.recv(64)
        if signal.SIGINT in numbers:
            con.interrupt()
        if _END in numbers:
            break
        seconds = int(time.monotonic() - start)
        if shows and seconds >= SECONDS:
            screen = screen or _find_screen()
            share = int(con.query_progress())
            bar = f" [{'#' * (share // 5):<20}] {share}%" if 0 <= share < KNOWN else ""
            if screen:
                screen(f"rankql: {seconds} s{bar}")
    if screen:
        screen("")


def _find_screen() -> Callable[[str], None] | None:
    """A function that shows a line in the place of the one before; None if nobody looks."""
    if sys.stderr is not None and sys.stderr.isatty():
        return lambda line: print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    handles: list[Any] = []

    def show(line: str) -> None:
        data = {"text/plain": line, "text/html": f"<pre>{line}</pre>" if line else ""}
        if handles:
            handles[0].update(data, raw=True)
        else:
            handles.append(display(data, raw=True, display_id=True))  # type: ignore[no-untyped-call]

    return show
