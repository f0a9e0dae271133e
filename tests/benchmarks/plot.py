"""The tables of docs/speed.md and its appendix from results of run.py, and two charts.

    python tests/benchmarks/plot.py RESULTS.json [MORE.json ...] [--folder DIR]

Prints the tables in Markdown. `scaling.svg` in the results shows seconds by number of rows, and
`peers.svg` the seconds of each tool for nDCG@10. If several files have the same measurement, the
last one counts.
The charts need altair and vl-convert-python.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# Colours of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
BY_PEER = " by a peer"
THREADS = "threads: "


def tables(rows: Sequence[Row]) -> str:
    """The ratios to the baseline of each workload by density, of other tools, and by threads."""
    ours: dict[tuple[str, str], list[Row]] = {}
    tools: dict[str, dict[str, str]] = {}
    threads: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["task"] == row["peer"]:
            ratios = tools.setdefault(row["peer"], {})
            ratios[row["work"].removesuffix(BY_PEER)] = f"{row['ratio']:.2g} ×"
        elif row["work"].startswith(THREADS):
            speed = threads.setdefault(row["work"].removeprefix(THREADS), {})
            speed[row["task"]] = f"{row['median']:.2f} s, {1 / row['ratio']:.2g} ×"
        elif not row["peer"] and row["task"] != row["baseline"] and row["work"] != "scaling":
            ours.setdefault((row["work"], row["task"]), []).append(row)
    lines = ["| workload | task | 30% relevant | 100% relevant | target | met? |"]
    lines.append("|---|---|---|---|---|---|")
    for (work, task), same in ours.items():
        by_density = {row["density"]: cost(row) for row in same}
        values = " | ".join(by_density.get(density, "") for density in (30, 100))
        target = "; ".join(dict.fromkeys(row["target"] for row in same))
        lines.append(f"| {work} | `{task}` | {values} | {target} | {verdict(same)} |")
    lines += ["", "| other tool | nDCG@10 | AP |", "|---|---|---|"]
    for tool, ratios in tools.items():
        lines.append(f"| {tool} | {ratios.get('nDCG@10', '')} | {ratios.get('AP', '')} |")
    counts = list(dict.fromkeys(count for speed in threads.values() for count in speed))
    if counts:
        lines += ["", f"| threads | {' | '.join(counts)} |", "|---" * (len(counts) + 1) + "|"]
    for work, speed in threads.items():
        lines.append(f"| {work} | {' | '.join(speed.get(count, '') for count in counts)} |")
    return "\n".join(lines)


def cost(row: Row) -> str:
    """The cell of a row: a ratio, or seconds where these are what matters."""
    if row["work"] == "few rows":
        return f"{1000 * row['median']:.3g} ms"
    if row["peak"]:
        return f"{row['median']:.1f} s, {row['peak'] / 1e9:.1f} GB"
    return f"{row['ratio']:.2g} ×"


def verdict(rows: Sequence[Row]) -> str:
    """Whether rows meet their targets: yes, no, the part that does, or nothing without a target."""
    met = [within_target(row) for row in rows if row["target"]]
    if not met:
        return ""
    return "✓ yes" if all(met) else f"{sum(met)} of {len(met)}" if any(met) else "✗ **no**"


def within_target(row: Row) -> bool:
    """Compare the ratio, the seconds and the peak memory with a target such as '≤ 10 s, ≤ 4 GB'."""
    measured = {"×": row["ratio"], "s": row["median"], "GB": (row["peak"] or 0) / 1e9}
    limits = re.findall(r"([≤≥]) ([\d.]+) (×|s|GB)", row["target"])
    signs = {"≤": 1, "≥": -1}
    return all(signs[sign] * (measured[unit] - float(n)) <= 0 for sign, n, unit in limits)


def read(paths: Sequence[Path]) -> tuple[list[Row], Row]:
    """The rows of all results, the last of each, and the description of the last file."""
    latest: dict[tuple[Any, ...], Row] = {}
    for path in paths:
        document = json.loads(path.read_text())
        for row in document["results"]:
            latest[tuple(row[key] for key in ("work", "rows", "density", "peer", "task"))] = row
    return [row for row in latest.values() if row["median"] is not None], document


def scaling(rows: Sequence[Row], alt: Any) -> tuple[Any, str]:
    """Seconds by number of rows, both logarithmic; and the title."""
    labels = {"24 metrics": "24 metrics", "nDCG@10": "nDCG@10", "sum": "sum(rel)"}
    values = [{**row, "task": labels[row["task"]]} for row in rows]
    names = "replace(format(datum.value, '~s'), 'G', ' billion')"
    ticks = alt.Axis(values=sorted({row["rows"] for row in rows}), labelExpr=names)
    seconds = alt.Axis(values=[10**n for n in range(-3, 4)], format="~r")
    colours = alt.Scale(domain=[*labels.values()], range=[VERMILION, BLUE, GREY])
    chart = alt.Chart(alt.Data(values=values), width=520, height=320).encode(
        alt.X("rows:Q", title="rows", scale=alt.Scale(type="log", nice=False), axis=ticks),
        alt.Y("median:Q", title="seconds", scale=alt.Scale(type="log"), axis=seconds),
        alt.Color("task:N", scale=colours, legend=alt.Legend(title=None, orient="top-left")),
    )
    lines = chart.mark_line(strokeWidth=2.5, point={"size": 60})
    return lines, "Seconds from Parquet to the values per user, with 4 GB of memory"


def peers(rows: Sequence[Row], alt: Any) -> tuple[Any, str]:
    """The seconds of each tool, the slowest last, and of rankql with its conventions."""
    slowest = sorted((row for row in rows if row["task"] == row["peer"]), key=lambda x: x["median"])
    values = [{**row, "who": "other tool" if row in slowest else "rankql"} for row in rows]
    order = [row["peer"] for row in slowest]
    colours = alt.Scale(domain=["rankql", "other tool"], range=[BLUE, GREY])
    legend = alt.Legend(title=None, orient="top", symbolType="square")
    chart = alt.Chart(alt.Data(values=values), width=520, height=alt.Step(19)).encode(
        alt.Y("peer:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False)),
        alt.YOffset("who:N", sort=colours.domain),
        alt.X("median:Q", title="seconds"),
        alt.Color("who:N", sort=colours.domain, scale=colours, legend=legend),
    )
    millions = rows[0]["rows"] / 1e6
    return chart.mark_bar(), f"Seconds for nDCG@10 of {millions:g} million rows, without imports"


def draw(rows: Sequence[Row], document: Row, folder: Path) -> None:
    """Write the charts, in one style."""
    import altair as alt

    folder.mkdir(parents=True, exist_ok=True)
    about = f"{document['machine']['cpus']} CPUs, {document['machine']['memory']}; " + ", ".join(
        f"{name} {document['versions'][name]}" for name in ("rankql", "duckdb", "polars")
    )
    for of, work in ((scaling, "scaling"), (peers, f"nDCG@10{BY_PEER}")):
        if some := [row for row in rows if row["work"] == work]:
            chart, title = of(some, alt)
            chart = chart.properties(title=alt.Title(title, subtitle=about, anchor="start"))
            chart = chart.configure(background="white", padding=14, font="DejaVu Sans, sans-serif")
            chart.configure_axis(labelFontSize=12).save(folder / f"{of.__name__}.svg")
            print(f"\n{folder / of.__name__}.svg")


def main() -> None:
    """Print and draw what the results have."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    rows, document = read(options.results)
    print(tables(rows))
    draw(rows, document, options.folder)


if __name__ == "__main__":
    main()
