"""The sum or an evaluation of a ranked file in a process of its own, and its peak of memory.

    python tests/benchmarks/fresh.py FILES sum|nDCG@10|"24 metrics" FOLDER_TO_SPILL MEMORY_LIMIT

Prints a line of JSON: seconds (no imports) and peak (bytes, of the whole process).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import duckdb
from workloads import against_sum


def peak() -> int:
    """The peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child may be that of its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Run it once and print what it took."""
    files, name, spill, limit = sys.argv[1:]
    con = duckdb.connect()
    con.execute(f"SET temp_directory = '{spill}'")
    con.execute(f"SET memory_limit = '{limit}'")
    task = against_sum(con, files)[name]
    start = time.perf_counter()
    task()
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak()}))


if __name__ == "__main__":
    main()
