"""What a process pays that evaluates one dict and ends.

    python tests/benchmarks/cold_start.py

Prints milliseconds of the processor beyond those of `import duckdb, polars`: the least of ten
processes each, after one that wrote the bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

PROCESSES = 10
IMPORTS = "import duckdb, polars"
CALLS = {
    "import rankql": "import rankql",
    "evaluate a dict": "import rankql; rankql.evaluate({'q': {'a': 2, 'b': 1}}, {'q': {'a': 1}})",
}


def least(code: str, environment: dict[str, str]) -> float:
    """The least milliseconds of the processes that run a line of code."""
    line = f"{code}\nimport time; print(time.process_time() * 1000)"
    command = [sys.executable, "-c", line]
    runs = (
        subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        for _ in range(1 + PROCESSES)
    )
    return min([float(run.stdout.splitlines()[-1]) for run in runs][1:])


def main() -> None:
    """Print one line per call."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        imports = least(IMPORTS, environment)
        print(f"{IMPORTS}: {imports:.0f} ms")
        for name, code in CALLS.items():
            print(f"{name}: {least(f'{IMPORTS}; {code}', environment) - imports:.0f} ms more")


if __name__ == "__main__":
    main()
