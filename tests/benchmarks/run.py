"""All benchmarks: what rankql costs in units of what nobody can do without, and against its peers.

    python tests/benchmarks/run.py [--size small|medium|large] [--only NAME ...] [--repeat 5]
                                   [--json FILE] [--folder DIR] [--peers-python PATH] [--guard]

Prints a table (it is Markdown) of medians and their ratios to the first row of each workload, with
the targets. `small` takes seconds, `medium` has all but the billion rows, which `large` adds: about
1 GB of Parquet in --folder, where it is found again. Names for --only: `macro`, `ranked`,
`by hand`, `few rows`, `parquet`, `joined`, `scored`, `polars`, `billion`, `spill`, `scaling`,
`import`, `command line`, `peers`, or a peer. RecTools and torchmetrics conflict with our versions:
peers.txt makes the environment that --peers-python names. `--guard` is for CI: exit code 1 where a
ratio is far above what it was, twice in a row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from limits import limit
from timing import Measured, measure
from workloads import FAMILIES, PEERS, SIZES, Setting

WIDTHS = (20, 12, 5, 33, 10, 8, 9, 24)
TITLES = ("work", "rows", "gain", "what", "seconds", "ratio", "peak", "target")


def main() -> None:
    """Run what is asked for."""
    # OpenBLAS, which numpy and scikit-learn load, otherwise keeps a core busy for 30 ms after its
    # work is done, and slows down what is measured next.
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"
    # PYTHONDONTWRITEBYTECODE would make each process compile all modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        setting = Setting(SIZES[given.size], folder, given.peers_python)
        head = {"size": given.size, "repeat": given.repeat, "machine": machine()}
        print(*(f"{name} {found}" for name, found in versions().items()), sep=", ", end="; ")
        print(f"{head['machine']['cpus']} CPUs, median of {given.repeat}\n")
        print(line(TITLES), line(["-" * width for width in WIDTHS]), sep="\n")
        results, failures = [], []
        for found in measured(setting, chosen(given.only, given.size), given.repeat, given.guard):
            print(line(cells(found, judged=given.size != "small")), flush=True)
            if found.error:
                print(f"{found.work.name}: {found.task}: {found.error}", file=sys.stderr)
            aim = limit(found)
            results.append({**found.as_dict(), "target": aim.text if aim else ""})
            if given.guard and (failure := too_slow(found)):
                failures.append(failure)
            if given.json:
                given.json.parent.mkdir(parents=True, exist_ok=True)
                said = {**head, "versions": versions() | setting.versions, "results": results}
                given.json.write_text(json.dumps(said, indent=1) + "\n")
    if failures:
        sys.exit("\n" + "\n".join(failures))
    if given.guard:
        print("\nThe guard lets it pass: no ratio is two to three times what it was.")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*FAMILIES, "peers"]
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="keeps the data; by default it is thrown away")
    parser.add_argument("--peers-python", metavar="PATH")
    parser.add_argument("--guard", action="store_true")
    return parser.parse_args()


def chosen(only: Sequence[str], size: str) -> list[str]:
    """The families of workloads: those asked for, or those of the size."""
    left_out = SIZES[size].left_out
    names = only or [name for name in [*FAMILIES, "peers"] if name not in (*left_out, *PEERS)]
    wanted = {*names, *(PEERS if "peers" in names else ())}
    return [name for name in FAMILIES if name in wanted]


def measured(
    setting: Setting, names: Sequence[str], repeat: int, guard: bool
) -> Iterator[Measured]:
    """All tasks of the workloads; with the guard, those that are too slow have another try."""
    for name in names:
        for work in FAMILIES[name](setting):
            found = measure(work, repeat)
            if guard and any(map(too_slow, found)):
                found = measure(work, repeat)
            yield from found


def too_slow(found: Measured) -> str | None:
    """The line that says that a ratio is above that of the guard."""
    known = limit(found)
    if not known or not known.guard or (found.ratio and found.ratio <= known.guard):
        return None
    took = found.error or f"{found.ratio:.2f} times as long as {found.work.baseline}"
    density = f", {found.work.density}% with gain" if found.work.density else ""
    return f"{found.work.name}{density}: {found.task}: {took}; the guard allows {known.guard:g}"


def cells(found: Measured, judged: bool) -> list[str]:
    """A row of the table; targets are for the larger sizes, small ones are mostly start-up."""
    work, known = found.work, limit(found)
    target = known.text if known else ""
    missed = bool(judged and known and target and not known.met(found))
    return [
        work.name,
        "" if work.rows is None else f"{work.rows:,}",
        "" if work.density is None else f"{work.density}%",
        found.task,
        "failed" if found.median is None else f"{found.median:.4f}",
        "" if found.ratio is None else f"{found.ratio:.2f}",
        "" if found.peak is None else f"{found.peak / 1e9:.2f} GB",
        target + ": missed" * missed,
    ]


def line(cells: Sequence[str]) -> str:
    """A line of the table."""
    padded = (cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return f"| {' | '.join(padded)} |"


def versions() -> dict[str, str]:
    """Of what runs here."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    return {
        "rankql": project["version"],
        "python": platform.python_version(),
        **{name: version(name) for name in ("duckdb", "polars", "pyarrow")},
    }


def machine() -> dict[str, Any]:
    """What it is, without its name."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "memory": f"{memory / 2**30:.1f} GiB",
        "processor": model[1] if model else platform.machine(),
        "system": platform.system(),
    }


if __name__ == "__main__":
    main()
