"""Workloads and their repetitions: baseline and contestants in turn, medians, ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

import rankql


@dataclass(frozen=True)
class Took:
    """One run of a task, where the task itself measures it (in another process)."""

    seconds: float
    peak: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


Task = Callable[[], object]


@dataclass(frozen=True)
class Workload:
    """A baseline, the first of the tasks, and what is compared with it on the same data."""

    name: str
    tasks: Mapping[str, Task]
    rows: int | None = None
    groups: int | None = None
    # How many percent of the rows gain anything.
    density: int | None = None
    # Whom rankql is compared with.
    peer: str | None = None
    # The tasks are not repeated more often than this.
    at_most: int = 100
    # How far apart the values may be that the tasks find.
    tolerance: float = 1e-9

    @property
    def baseline(self) -> str:
        """What the others are compared with."""
        return next(iter(self.tasks))


@dataclass(frozen=True)
class Measured:
    """What a task of a workload took, each time."""

    work: Workload
    task: str
    runs: Sequence[Took]
    # The median of the baseline.
    unit: float | None

    @property
    def error(self) -> str | None:
        """Why there is no more to tell."""
        return next((run.error for run in self.runs if run.error), None)

    @property
    def median(self) -> float | None:
        """Of the seconds."""
        return None if self.error else statistics.median(run.seconds for run in self.runs)

    @property
    def ratio(self) -> float | None:
        """Of the medians."""
        return self.median / self.unit if self.median and self.unit else None

    @property
    def peak(self) -> int | None:
        """The highest peak of memory, in bytes."""
        return max((run.peak for run in self.runs if run.peak), default=None)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "work": self.work.name,
            "peer": self.work.peer,
            "task": self.task,
            "baseline": self.work.baseline,
            "rows": self.work.rows,
            "groups": self.work.groups,
            "density": self.work.density,
            "seconds": [run.seconds for run in self.runs],
            "median": self.median,
            "ratio": self.ratio,
            "peak": self.peak,
            "values": self.runs[-1].values,
            "error": self.error,
        }


def measure(work: Workload, repeat: int) -> list[Measured]:
    """Every task as often as said, all of them in turn; the first turn warms up."""
    turns: dict[str, list[Took]] = {name: [] for name in work.tasks}
    for _ in range(min(repeat, work.at_most) + 1):
        for name, task in work.tasks.items():
            if not (turns[name] and turns[name][-1].error):
                turns[name].append(timed(task))
    found = [
        Measured(work, name, runs if runs[-1].error else runs[1:], None)
        for name, runs in turns.items()
    ]
    agreeing(work, found)
    return [Measured(work, each.task, each.runs, found[0].median) for each in found]


def timed(task: Task) -> Took:
    """What a task took: as it says itself, or by the clock; or why it failed."""
    start = time.perf_counter()
    try:
        found = task()
    except (duckdb.Error, rankql.RankqlError) as error:
        return Took(time.perf_counter() - start, error=str(error).splitlines()[0])
    return found if isinstance(found, Took) else Took(time.perf_counter() - start)


def agreeing(work: Workload, found: Sequence[Measured]) -> None:
    """Stop where two tasks find different values: then their times cannot be compared."""
    first: dict[str, tuple[str, float]] = {}
    for each in found:
        for metric, value in each.runs[-1].values.items():
            task, expected = first.setdefault(metric, (each.task, value))
            if not abs(value - expected) <= work.tolerance:
                raise SystemExit(
                    f"{work.name}: {metric} is {expected!r} by {task}, {value!r} by {each.task}"
                )
