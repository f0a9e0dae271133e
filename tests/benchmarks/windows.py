"""The window form beside a plain sum, on the engines that run it here: seconds, and times the sum.

python tests/benchmarks/windows.py [--rows 5000000] [--groups 50000] [duckdb postgres ...]
"""

import argparse
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from rankql.engines.window_engines import ENGINES  # noqa: E402
from rankql.engines.windows import translate_to_windows  # noqa: E402
from support import window_databases  # noqa: E402

CALLS = {
    "dcg": "dcg(rel, pos, 10)",
    "ndcg": "ndcg(rel, pos, 10)",
    "ap": "ap(rel, pos)",
    "rr": "rr(rel, pos)",
    "err": "err(rel, pos, max_rel := 3)",
    "rbp": "rbp(rel, pos, p := 0.8)",
    "recall_at": "recall_at(rel, pos, 10)",
}
ROWS = """
SELECT range // {size} AS u, range % {size} + 1 AS pos,
    CASE WHEN hash(range) % 10 < 3 THEN hash(range * 7) % 4 ELSE 0 END::DOUBLE AS rel
FROM range({rows})
"""


def queries():
    """The sum, each metric, and all of them at once."""
    of = {"sum": ["sum(rel)"], **{name: [call] for name, call in CALLS.items()}}
    for name, calls in {**of, "all seven": [*CALLS.values()]}.items():
        listed = ", ".join(f"{call} AS v{i}" for i, call in enumerate(calls))
        sums = ", ".join(f"sum(v{i})" for i in range(len(calls)))
        yield name, f"SELECT {sums} FROM (SELECT u, {listed} FROM shown GROUP BY u) AS each"


def seconds(engine, text):
    began = time.perf_counter()
    engine.ask(text)
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, default=50_000)
    executed = [name for name, engine in ENGINES.items() if engine.executed]
    parser.add_argument("engines", nargs="*", default=executed)
    given = parser.parse_args()
    made = ROWS.format(size=given.rows // given.groups, rows=given.rows)
    kinds = pa.schema([("u", pa.int64()), ("pos", pa.int64()), ("rel", pa.float64())])
    table = duckdb.sql(made).to_arrow_table().cast(kinds)
    for name in given.engines:
        with window_databases.opened(name) as engine:
            engine.load("shown", table)
            base = None
            for metric, query in queries():
                text = translate_to_windows(query, name)
                best = min(seconds(engine, text) for _ in range(2))
                base = base or best
                print(f"{name:10} {metric:10} {best:7.2f} s {best / base:7.1f} x", flush=True)


if __name__ == "__main__":
    main()
