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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

import duckdb

# Shorter work needs no bar. DuckDB says 95% and more until a query is done.
SECONDS, KNOWN = 2, 95
# The display columns of the line.
ROOM = 45
_END = 0
_WATCHED: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


@contextmanager
def watch(con: duckdb.DuckDBPyConnection, *, private: bool) -> Iterator[None]:
    """Interrupt the queries on a connection by Ctrl-C; on one of our own also show progress."""
    if con in _WATCHED:
        yield
        return
    shows = private and _is_watched()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    arguments = (con, receiver, shows)
    thread = threading.Thread(target=_watch, args=arguments, daemon=True)
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
    start, shown = time.monotonic(), False
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
            share, shown = int(con.query_progress()), True
            bar = f" [{'#' * (share // 5):<20}] {share}%" if 0 <= share < KNOWN else ""
            print(f"\r{f'rankql: {seconds} s{bar}':<{ROOM}}", end="", file=sys.stderr, flush=True)
    if shown:
        print(f"\r{'':<{ROOM}}\r", end="", file=sys.stderr, flush=True)


def _is_watched() -> bool:
    """Does somebody see what is written to stderr: on a terminal, or in a notebook?"""
    in_notebook = "ipykernel" in sys.modules
    return sys.stderr is not None and (sys.stderr.isatty() or in_notebook)
