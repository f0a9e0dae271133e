"""All benchmarks: the cost of rankql as a multiple of a plain sum, and against other tools.

    python tests/benchmarks/run.py [--size small|medium|large] [--only NAME ...] [--repeat 7]
                                   [--json FILE] [--folder DIR] [--peers-python PATH] [--guard]
    python tests/benchmarks/run.py --forms [--guard]

Prints a table (it is Markdown) of medians and their ratios to the first row of each workload, with
the targets. Seconds are those of the processor, in all threads and child processes; the workloads
billion, spill and threads, and other tools, report seconds of the clock. `small` takes seconds,
`medium` has all but the billion rows, which `large` adds: about 1 GB of Parquet in --folder, where
it is found again. Names for --only are those of the workloads, `peers`, or a peer. RecTools and
torchmetrics conflict with our versions: peers.txt makes the environment that --peers-python names.
`--guard` is for CI: exit code 1 where a ratio is two to three times what it was, twice in a row.
`--forms` prints what each form for speed gains, see forms.py; with `--guard` it fails where one is
slower than what it replaces, twice in a row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import forms
from data import RANDOM
from plot import Row, within_target
from timing import measure
from workloads import AP, DEFAULT, FAMILIES, FIVE, NDCG, PANEL, PEERS, SIZES, Setting

# Workload, task: the target, and the ratio at the small size that the guard does not let pass.
LIMITS: dict[tuple[str, str], tuple[str, float | None]] = {
    **{
        (f"macro over Parquet{order}", "ndcg(rel, pos, 10)"): ("≤ 3.5 ×", 12)
        for order in ("", RANDOM)
    },
    ("macro over Parquet", "dcg(rel, pos, 10)"): ("≤ 2.4 ×", 8),
    ("macro over Parquet", "precision_at(rel, pos, 10)"): ("≤ 2.6 ×", 8),
    ("macro over Parquet", "rr(rel, pos, 10)"): ("≤ 3 ×", 8),
    ("macro over Parquet", "recall_at(rel, pos, 10)"): ("≤ 3.2 ×", 8),
    ("macro over Parquet", "ap(rel, pos, 10)"): ("≤ 4.5 ×", 10),
    ("macro", "ndcg(rel, pos, 10)"): ("≤ 3 ×", 12),
    (f"macro{RANDOM}", "ndcg(rel, pos, 10)"): ("≤ 3 ×", 12),
    **{(f"macro over Parquet{order}", FIVE): ("≤ 4.5 ×", 20) for order in ("", RANDOM)},
    **{(f"macro{order}", FIVE): ("≤ 4.2 ×", 20) for order in ("", RANDOM)},
    ("plan", "ndcg(rel, pos, 10)"): ("≤ 14 ×", None),
    ("plan", FIVE): ("≤ 40 ×", None),
    ("ranked", NDCG): ("≤ 1.5 ×", 15),
    (f"ranked{RANDOM}", NDCG): ("≤ 1.8 ×", 15),
    ("ranked", PANEL): ("≤ 3.5 ×", 45),
    (f"ranked{RANDOM}", PANEL): ("≤ 3.5 ×", 45),
    ("by hand", "SQL by hand"): ("≥ 4 ×", None),
    ("few rows", NDCG): ("≤ 0.01 s", 60),
    ("few rows", PANEL): ("≤ 0.02 s", 250),
    ("few rows of a frame", NDCG): ("≤ 16 ×", None),
    ("ranked, in nDCG@10", DEFAULT): ("≤ 2 ×", None),
    ("parquet", NDCG): ("≤ 3 ×", 12),
    ("parquet", PANEL): ("", 28),
    ("joined", NDCG): ("≤ 1.4 ×", 15),
    ("joined", AP): ("≤ 3 ×", 30),
    ("joined", PANEL): ("", 25),
    ("recommender", "with train="): ("≤ 3 ×", 8),
    ("scored", "ndcg_score, from the frame"): ("≥ 2 ×", None),
    ("scored", "ndcg_score, from matrices"): ("≥ 1 ×", None),
    ("scored", "ndcg_score, ignore_ties, from the frame"): ("≥ 2 ×", None),
    ("scored", "ndcg_score, ignore_ties, from matrices"): ("≥ 1 ×", None),
    ("polars", ".agg(ndcg)"): ("≤ 3.5 ×", 20),
    ("polars", ".pipe(ndcg)"): ("≤ 1.2 ×", 12),
    ("polars streaming", ".agg(ndcg)"): ("≤ 3.4 ×", 16),
    ("polars streaming", ".pipe(ndcg)"): ("≤ 1.5 ×", 18),
    ("billion", NDCG): ("≤ 8 s, ≤ 2 GB", None),
    ("billion", PANEL): ("≤ 12 s, ≤ 2 GB", None),
    ("spill", NDCG): ("completes", None),
    ("spill", PANEL): ("completes", None),
    ("command line", "rankql eval"): ("≤ 1.15 ×", 5),
}
# Tools that compute with frames or arrays of all queries at once.
CLOSE = ("scikit-learn", "scikit-learn, ignore_ties", "polars_ds", "torchmetrics", "RecTools")

LINE = "| {:20} | {:12} | {:5} | {:40} | {:10} | {:8} | {:9} | {:24} |"
TITLES = ("work", "rows", "gain", "what", "seconds", "ratio", "peak", "target")


def main() -> None:
    """Run the workloads, print their rows, and save them."""
    # OpenBLAS, which numpy and scikit-learn load, otherwise keeps a core busy for 30 ms after its
    # work is done, and slows down what is measured next.
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"
    # PYTHONDONTWRITEBYTECODE would make each process compile all modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = parse_arguments()
    if options.forms:
        sys.exit(forms.report(options.guard))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        setting = Setting(SIZES[options.size], folder, options.peers_python)
        head = {"size": options.size, "repeat": options.repeat, "machine": machine()}
        print(*(f"{name} {number}" for name, number in versions().items()), sep=", ", end="; ")
        print(f"{head['machine']['cpus']} CPUs, median of {options.repeat}\n")
        print(LINE.format(*TITLES), LINE.format(*["---"] * len(TITLES)), sep="\n")
        results, failures = [], []
        names = families(options.only, options.size)
        for row in measured(setting, names, options.repeat, options.guard):
            print(LINE.format(*cells(row, judged=options.size != "small")), flush=True)
            if row["error"]:
                print(f"{row['work']}: {row['task']}: {row['error']}", file=sys.stderr)
            results.append(row)
            failures += [too_slow(row)] if options.guard and too_slow(row) else []
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                all_versions = versions() | setting.versions
                text = json.dumps({**head, "versions": all_versions, "results": results}, indent=1)
                options.json.write_text(text + "\n")
    if failures:
        sys.exit("\n" + "\n".join(failures))
    if options.guard:
        print("\nThe guard lets it pass: no ratio is two to three times what it was.")


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*FAMILIES, "peers"]
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="keeps the data; by default it is thrown away")
    parser.add_argument("--peers-python", metavar="PATH")
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--forms", action="store_true")
    return parser.parse_args()


def families(only: Sequence[str], size: str) -> list[str]:
    """The families of workloads: those of --only, or those of the size."""
    left_out = SIZES[size].left_out
    names = only or [name for name in [*FAMILIES, "peers"] if name not in (*left_out, *PEERS)]
    names = [*names, *(PEERS if "peers" in names else ())]
    return [name for name in FAMILIES if name in names]


def measured(setting: Setting, names: Sequence[str], repeat: int, guard: bool) -> Iterator[Row]:
    """All tasks of the workloads; with the guard, those that are too slow have another try."""
    for name in names:
        for work in FAMILIES[name](setting):
            rows = measure(work, repeat)
            if guard and any(map(too_slow, rows)):
                rows = measure(work, repeat)
            yield from ({**row, "target": limit(row)[0]} for row in rows)


def limit(row: Row) -> tuple[str, float | None]:
    """The target of a task and the limit of the guard."""
    if row["peer"] == row["task"]:
        return f"≥ {2 if row['peer'] in CLOSE else 5} ×", None
    return LIMITS.get((row["work"], row["task"]), ("", None))


def too_slow(row: Row) -> str | None:
    """The line that says that a ratio is above the limit of the guard."""
    _, most = limit(row)
    if most is None or (row["ratio"] and row["ratio"] <= most):
        return None
    took = row["error"] or f"{row['ratio']:.2f} times as long as {row['baseline']}"
    return f"{row['work']}, {row['density']}% with gain: {row['task']}: {took}; limit {most:g}"


def cells(row: Row, judged: bool) -> list[str]:
    """A row of the table; targets are for the larger sizes, small ones are mostly start-up."""
    missed = judged and row["target"] and (row["error"] or not within_target(row))
    return [
        row["work"],
        f"{row['rows']:,}",
        f"{row['density']}%",
        row["task"],
        "failed" if row["median"] is None else f"{row['median']:.4f}",
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "" if row["peak"] is None else f"{row['peak'] / 1e9:.2f} GB",
        row["target"] + (": missed" if missed else ""),
    ]


def versions() -> dict[str, str]:
    """The versions of rankql, Python and the engines."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    return {
        "rankql": project["version"],
        "python": platform.python_version(),
        **{name: version(name) for name in ("duckdb", "polars", "pyarrow")},
    }


def machine() -> dict[str, Any]:
    """The machine, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = f"{memory / 2**30:.1f} GiB"
    return {"cpus": os.cpu_count(), "memory": size, "system": platform.system()}


if __name__ == "__main__":
    main()
