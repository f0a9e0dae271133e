"""The budget of an evaluation: milliseconds of the processor that each of its steps takes.

    python tests/benchmarks/budget.py

Prints a Markdown table of seven inputs, nDCG@10 with its interval: the median of nine calls in one
process, and the seconds of the clock of the first call in a fresh process, with the import.
CONTRIBUTING.md keeps the last one.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import data
import polars as pl
from peer import nested

import rankql
from rankql.core.evaluation import evaluate
from rankql.core.evaluation.finish import compute
from rankql.core.evaluation.plan import plan
from rankql.core.evaluation.result import means_result
from rankql.core.tables import reading

# By step: the functions in which it takes place, where they are called.
STEPS = {
    "reading": [(plan, "read_rankings")],
    "doubts": [(reading, "account_for")],
    "reduction": [(evaluate, "reduce_tables")],
    "looks": [(evaluate, "inspect")],
    "values": [(compute, "finish")],
    "means": [(means_result.MeansResult, "summary")],
}
CALLS = 9


def inputs(folder: Path) -> dict[str, tuple[Any, Any]]:
    """The run and the judgments of each input."""
    files = {n: data.run_and_judgments(folder, n, 30) for n in (50, 5000, 30_000)}
    frames = {n: tuple(map(pl.read_parquet, files[n])) for n in (50, 5000)}
    dicts = {n: tuple(map(nested, files[n], ("score", "rel"))) for n in frames}
    texts = [str(folder / f"{name}.csv") for name in ("run", "qrels")]
    for text, frame in zip(texts, frames[50], strict=True):
        frame.write_csv(text)
    return {
        "50 × 100, frames": frames[50],
        "50 × 100, dicts": dicts[50],
        "50 × 100, Parquet": files[50],
        "50 × 100, CSV": (texts[0], texts[1]),
        "5,000 × 100, frames": frames[5000],
        "5,000 × 100, dicts": dicts[5000],
        "30,000 × 100, Parquet": files[30_000],
    }


@contextmanager
def measured() -> Iterator[Counter[str]]:
    """The seconds of each step, without those of the steps inside it."""
    took: Counter[str] = Counter()
    inside = [0.0]

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            inside.append(0.0)
            start = time.process_time()
            try:
                return function(*args, **options)
            finally:
                whole = time.process_time() - start
                took[step] += whole - inside.pop()
                inside[-1] += whole

        return call

    before = [(place, x, vars(place)[x]) for each in STEPS.values() for place, x in each]
    try:
        for step, places in STEPS.items():
            for place, name in places:
                value = vars(place)[name]
                if function := getattr(value, "fget", None) or getattr(value, "func", None):
                    setattr(place, name, property(timed(step, function)))
                else:
                    setattr(place, name, timed(step, value))
        yield took
    finally:
        for place, name, value in before:
            setattr(place, name, value)


def steps_of(run: Any, qrels: Any) -> dict[str, float]:
    """The median milliseconds of each step, of the rest, and of all."""
    calls: list[dict[str, float]] = []
    with measured() as took:
        for _ in range(CALLS + 1):
            took.clear()
            start = time.process_time()
            rankql.evaluate(run, qrels, "nDCG@10").summary  # noqa: B018
            whole = time.process_time() - start
            rest = whole - sum(took.values())
            calls.append({**{step: took[step] for step in STEPS}, "rest": rest, "all": whole})
    return {step: 1000 * statistics.median(x[step] for x in calls[1:]) for step in calls[0]}


def first_call(pair: tuple[str, str]) -> float:
    """Seconds of the clock of a process that imports rankql and evaluates two files."""
    code = f"import rankql; rankql.evaluate(*{pair!r}, 'nDCG@10').summary"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = inputs(Path(folder))
        names = [*STEPS, "rest", "all"]
        print(f"| queries × items | {' | '.join(names)} |")
        print(f"|---|{'--:|' * len(names)}")
        for name, (run, qrels) in tables.items():
            steps = steps_of(run, qrels)
            print(f"| {name} | {' | '.join(f'{steps[x]:.1f}' for x in names)} |", flush=True)
        seconds = min(first_call(tables["50 × 100, Parquet"]) for _ in range(5))
        print(f"\nThe first call in a fresh process, of two Parquet files: {seconds:.2f} s.")


if __name__ == "__main__":
    main()
