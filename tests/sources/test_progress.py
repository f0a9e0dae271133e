"""The thread that watches queries while they run."""

import signal
import threading

import duckdb
import pytest

from rankql.sources.private import private_connection
from rankql.sources.session import _watch as watch


def test_sessions_on_one_connection_share_one_thread_which_ends():
    handler, before = signal.set_wakeup_fd(-1), threading.active_count()
    signal.set_wakeup_fd(handler)
    with private_connection() as con:
        with watch(con), watch(con):
            assert threading.active_count() == before + 1
        with pytest.raises(duckdb.Error), watch(con):
            con.execute("SELECT error('no')").fetchall()
    assert threading.active_count() == before
    assert signal.set_wakeup_fd(handler) == handler
