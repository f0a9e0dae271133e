"""Tasks that run in processes of their own, which measure them: no import counts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timing import Task, Took

HERE = Path(__file__).parent


def fresh(files: str, what: str, folder: Path, *limit: str) -> Task:
    """What fresh.py does, each time in a new process."""
    command = [sys.executable, str(HERE / "fresh.py"), files, what, str(folder / "spilled"), *limit]

    def task() -> Took:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            return Took(0, error=said[-1] if said else f"exit code {done.returncode}")
        return Took(**json.loads(done.stdout))

    return task


def statement(code: str) -> Task:
    """A statement in a new interpreter, whose start does not count."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"

    def task() -> Took:
        done = subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True)
        return Took(float(done.stdout))

    return task


def process(*arguments: str) -> Task:
    """A Python process from its start to its end."""

    def task() -> Took:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        return Took(time.perf_counter() - start)

    return task


@contextmanager
def peer(
    python: str, name: str, metric: str, files: Sequence[str]
) -> Iterator[tuple[Task | None, Mapping[str, str]]]:
    """A peer that stands by, None where it is missing; and its version."""
    command = [python, str(HERE / "peer.py"), name, metric, *files]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        assert process.stdin and process.stdout
        ask, answer = process.stdin, process.stdout

        def heard() -> dict[str, Any]:
            line = answer.readline()
            if not line:
                said.seek(0)
                raise SystemExit(f"{name} failed:\n{said.read()[-2000:]}")
            return dict(json.loads(line))

        def task() -> Took:
            print(file=ask, flush=True)
            found = heard()
            return Took(found["seconds"], values={metric: found["value"]})

        version = heard()
        yield (None if "missing" in version else task), version
