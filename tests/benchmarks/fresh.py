"""The sum or an evaluation of a ranked file in a process of its own, and its peak of memory.

    python tests/benchmarks/fresh.py FILES sum|nDCG@10|"24 metrics" FOLDER_TO_SPILL [MEMORY_LIMIT]

Prints a line of JSON: seconds (no imports), peak (bytes, of the whole process), means of values.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import duckdb
from tasks import evaluated, summed

import rankql


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child may be that of its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Run it once, and say what it took."""
    files, what, spill, *limit = sys.argv[1:]
    con = duckdb.connect()
    con.execute(f"SET temp_directory = '{spill}'")
    for memory in limit:
        con.execute(f"SET memory_limit = '{memory}'")
    task = summed(con, f"'{files}'") if what == "sum" else evaluated(con, files, None, what)
    start = time.perf_counter()
    found = task()
    took = {"seconds": time.perf_counter() - start, "peak": peak()}
    values = {}
    if isinstance(found, rankql.Result):
        # Polars adds in pairs: its means of the same values in another order are the same to 1e-12.
        values = {metric: found.per_query[metric].mean() for metric in found}
    print(json.dumps({**took, "values": values}))


if __name__ == "__main__":
    main()
