"""Progress and Ctrl-C while queries run."""

import signal
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from rankql.sources.private import private_connection
from rankql.sources.progress import watch

SLOW = "SELECT max(list_sum(list_sort(range(i % 1000)))) FROM range(30_000_000) AS t (i)"
SCRIPT = f"""
import sys
from rankql.sources.session import open_session
with open_session(None) as session:
    print("ready", flush=True)
    session.con.sql({SLOW!r}).pl()
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_query():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors.endswith("KeyboardInterrupt\n")  # DuckDB alone: after 6 s, RuntimeError


def test_sessions_on_one_connection_share_one_thread_which_ends():
    handler, before = signal.set_wakeup_fd(-1), threading.active_count()
    signal.set_wakeup_fd(handler)
    with private_connection() as con:
        with watch(con, private=True), watch(con, private=True):
            assert threading.active_count() == before + 1
        with pytest.raises(duckdb.Error), watch(con, private=True):
            con.execute("SELECT error('no')").fetchall()
    assert threading.active_count() == before
    assert signal.set_wakeup_fd(handler) == handler
