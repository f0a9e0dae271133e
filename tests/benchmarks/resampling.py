"""Resampling at scale: `rankql.compare` beside ranx' test of the same kind, on the same values.

    python tests/benchmarks/resampling.py --queries 1000000 --resamples 10000

ranx' time grows in proportion to its permutations: it runs fewer of them and is multiplied.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import polars as pl
from ranx.statistical_tests import fisher_randomization_test

import rankql


def main() -> None:
    """Print the seconds of every test, and how many times as many ranx takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--tests", nargs="+", default=["t", "randomisation"])
    parser.add_argument("--peer-resamples", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    rng = np.random.default_rng(7)
    old = rng.beta(2, 2, given.queries).round(3)
    new = np.clip(old + rng.normal(0.001, 0.1, given.queries), 0, 1)
    frames = {
        name: pl.DataFrame({"query": np.arange(given.queries), "nDCG@10": values})
        for name, values in (("old", old), ("new", new))
    }
    few = given.peer_resamples
    fisher_randomization_test(old[:10], new[:10], n_permutations=10)  # compiled once
    theirs = took(lambda: fisher_randomization_test(old, new, n_permutations=few), given.repeat) * (
        given.resamples / few
    )
    print(f"{'ranx, fisher':24} {theirs:6.1f} s")
    for test in given.tests:
        seconds = took(
            lambda test=test: rankql.compare(frames, test=test, resamples=given.resamples),
            given.repeat,
        )
        print(f"rankql, {test:16} {seconds:6.1f} s   {theirs / seconds:.0f} x")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


def took(task: Callable[[], object], repeat: int) -> float:
    """The median of several runs."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
