"""Workloads and their repetitions: tasks in turn, medians, ratios; also in other processes."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

import rankql

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Took:
    """One run of a task that measures itself, in another process."""

    seconds: float
    peak: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


Task = Callable[[], object]


@dataclass(frozen=True)
class Workload:
    """A baseline, the first of the tasks, and what is compared with it on the same data.

    density: the percentage of rows that have a grade above 0.
    peer: the tool that rankql is compared with.
    at_most: the number of repetitions, at most.
    tolerance: how far apart the values of the tasks may be.
    """

    name: str
    tasks: Mapping[str, Task]
    rows: int
    groups: int
    density: int
    peer: str | None = None
    at_most: int = 100
    tolerance: float = 1e-9


def measure(work: Workload, repeat: int) -> list[dict[str, Any]]:
    """A row of results for each task. The tasks take turns, and the first turn warms up."""
    turns: dict[str, list[Took]] = {name: [] for name in work.tasks}
    for _ in range(min(repeat, work.at_most) + 1):
        for name, task in work.tasks.items():
            if not (turns[name] and turns[name][-1].error):
                turns[name].append(timed(task))
    require_equal_values(work, turns)
    baseline, unit, rows = next(iter(work.tasks)), None, []
    for name, runs in turns.items():
        error = runs[-1].error
        seconds = [run.seconds for run in runs[1:]]
        median = None if error else statistics.median(seconds)
        unit = median if name == baseline else unit
        rows.append(
            {
                "work": work.name,
                **{key: getattr(work, key) for key in ("peer", "rows", "groups", "density")},
                "task": name,
                "baseline": baseline,
                "seconds": seconds,
                "median": median,
                "ratio": median / unit if median and unit else None,
                "peak": max((run.peak for run in runs if run.peak), default=None),
                "values": runs[-1].values,
                "error": error,
            }
        )
    return rows


def timed(task: Task) -> Took:
    """The time of a task, as it reports it or of the processor; or the error."""
    start = processor_seconds()
    try:
        result = task()
    except (duckdb.Error, rankql.RankqlError) as error:
        return Took(processor_seconds() - start, error=str(error).splitlines()[0])
    return result if isinstance(result, Took) else Took(processor_seconds() - start)


def processor_seconds() -> float:
    """Seconds of the processor so far, of this process and of the children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def require_equal_values(work: Workload, turns: Mapping[str, Sequence[Took]]) -> None:
    """Stop if two tasks have different values: then their times cannot be compared."""
    first: dict[str, tuple[str, float]] = {}
    for name, runs in turns.items():
        for metric, value in runs[-1].values.items():
            task, expected = first.setdefault(metric, (name, value))
            if not abs(value - expected) <= work.tolerance:
                raise SystemExit(
                    f"{work.name}: {metric} is {expected!r} by {task}, {value!r} by {name}"
                )


def fresh(files: str, name: str, folder: Path, limit: str) -> Task:
    """The task of workloads.py, each time in a new process."""
    return _script({}, files, name, str(folder / "spilled"), limit)


def threaded(files: str, name: str, count: int) -> Task:
    """The task of workloads.py in a new process with so many threads of DuckDB and polars."""
    return _script({"POLARS_MAX_THREADS": str(count)}, files, name, str(count))


def _script(environment: Mapping[str, str], *arguments: str) -> Task:
    """A run of workloads.py with these arguments, which reports its seconds."""
    command = [sys.executable, str(HERE / "workloads.py"), *arguments]
    variables = {**os.environ, **environment}

    def task() -> Took:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            return Took(0, error=lines[-1] if lines else f"exit code {done.returncode}")
        return Took(**json.loads(done.stdout))

    return task


def process(*arguments: str) -> Task:
    """A Python process from its start to its end."""
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, capture_output=True, check=True)


@contextmanager
def peer(
    python: str, name: str, metric: str, files: Sequence[str]
) -> Iterator[tuple[Task | None, Mapping[str, str]]]:
    """A task of peer.py, which stands by, or None where the tool is missing; and its version."""
    command = [python, str(HERE / "peer.py"), name, metric, *files]
    with (
        tempfile.TemporaryFile("w+") as messages,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, text=True
        ) as process,
    ):
        assert process.stdin and process.stdout
        requests, answers = process.stdin, process.stdout

        def answer() -> dict[str, Any]:
            line = answers.readline()
            if not line:
                messages.seek(0)
                raise SystemExit(f"{name} failed:\n{messages.read()[-2000:]}")
            return dict(json.loads(line))

        def task() -> Took:
            print(file=requests, flush=True)
            result = answer()
            return Took(result["seconds"], values={metric: result["value"]})

        version = answer()
        yield (None if "missing" in version else task), version
