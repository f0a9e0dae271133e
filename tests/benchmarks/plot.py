"""The tables of docs/speed.md from results of run.py, and two charts in tests/benchmarks/results/.

    python tests/benchmarks/plot.py RESULTS.json [MORE.json ...] [--folder DIR]

Prints the tables in Markdown. `scaling.svg` shows seconds by number of rows, and `peers.svg` the
seconds of each tool for nDCG@10. If several files have the same measurement, the last one counts.
The charts need altair and vl-convert-python.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# Colours of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
LABELS = {"24 metrics": "24 metrics", "nDCG@10": "nDCG@10", "sum": "sum(rel)"}


def tables(rows: Sequence[Row]) -> str:
    """The ratios to the baseline of each workload by density, and the ratios of other tools."""
    ours: dict[tuple[str, str], dict[int | None, str]] = {}
    targets: dict[tuple[str, str], dict[str, None]] = {}
    peers_by_metric: dict[str, dict[str, str]] = {}
    for row in rows:
        key, cell = (row["work"], row["task"]), f"{row['ratio']:.2g} ×"
        if row["peer"]:
            if row["task"] == row["peer"]:
                metric = row["work"].removesuffix(" by a peer")
                peers_by_metric.setdefault(row["peer"], {})[metric] = cell
        elif row["task"] != row["baseline"] and row["work"] != "scaling":
            if row["work"] == "few rows":
                cell = f"{1000 * row['median']:.3g} ms"
            elif row["peak"]:
                cell = f"{row['median']:.1f} s, {row['peak'] / 1e9:.1f} GB"
            ours.setdefault(key, {})[row["density"]] = cell
            targets.setdefault(key, {})[row["target"]] = None
    lines = [
        "| workload | task | 30% relevant | 100% relevant | target | met? |",
        "|---|---|---|---|---|---|",
    ]
    for (work, task), cells in ours.items():
        values = (cells.get(density, "") for density in (30, 100))
        target = "; ".join(targets[work, task])
        met = verdict([row for row in rows if (row["work"], row["task"]) == (work, task)])
        lines.append(f"| {work} | `{task}` | {' | '.join(values)} | {target} | {met} |")
    lines += ["", "| other tool | nDCG@10 | AP |", "|---|---|---|"]
    for peer, ratios in peers_by_metric.items():
        lines.append(f"| {peer} | {ratios.get('nDCG@10', '')} | {ratios.get('AP', '')} |")
    return "\n".join(lines)


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


def scaling(rows: Sequence[Row], about: str) -> Any:
    """Seconds by number of rows, both logarithmic."""
    import altair as alt

    names = {5: "100 thousand", 6: "1 million", 7: "10 million", 8: "100 million", 9: "1 billion"}
    text = "".join(f"datum.value == {10**n} ? '{name}' : " for n, name in names.items()) + "''"
    numbers = sorted({row["rows"] for row in rows})
    values = [{**row, "task": LABELS[row["task"]]} for row in rows]
    scale = alt.Scale(type="log", domain=[numbers[0], numbers[-1]], nice=False)
    seconds = alt.Axis(values=[10**n for n in range(-3, 4)], labelExpr="datum.value + ''")
    colours = alt.Scale(domain=list(LABELS.values()), range=[VERMILION, BLUE, GREY])
    base = alt.Chart(alt.Data(values=values)).encode(
        alt.X("rows:Q", title="rows", scale=scale, axis=alt.Axis(values=numbers, labelExpr=text)),
        alt.Y("median:Q", title="seconds", scale=alt.Scale(type="log"), axis=seconds),
        alt.Color("task:N", scale=colours, legend=alt.Legend(title=None, orient="top-left")),
    )
    chart = base.mark_line(strokeWidth=2.5) + base.mark_point(filled=True, size=60, opacity=1)
    subtitle = [
        "Seconds from Parquet to the values per user, with 4 GB of memory;",
        "100 rows per user, 30% of them with gain",
        about,
    ]
    title = "Seconds by number of rows: nDCG@10, 24 metrics and a plain sum"
    return chart.properties(width=520, height=320, title=alt.Title(title, subtitle=subtitle))


def peers(rows: Sequence[Row], about: str) -> Any:
    """The seconds of each tool, the slowest last, and of rankql with its conventions."""
    import altair as alt

    slowest = sorted((row for row in rows if row["task"] == row["peer"]), key=_seconds)
    values = [
        {
            "peer": row["peer"],
            "who": "other tool" if row in slowest else "rankql",
            "median": row["median"],
            "label": f"{row['ratio']:.1f} ×" if row in slowest else "",
        }
        for row in rows
    ]
    seconds, who = [row["median"] for row in rows], ["rankql", "other tool"]
    lowest = 10 ** math.floor(math.log10(min(seconds) / 1.5))
    scale = alt.Scale(type="log", domain=[lowest, max(seconds) * 1.6], nice=False)
    ticks = [digit * 10**n for n in range(-4, 4) for digit in (1, 2, 5)]
    axis = alt.Axis(values=ticks, labelExpr="format(datum.value, '~r')")
    names = alt.Axis(ticks=False, domain=False, labelPadding=8)
    base = alt.Chart(alt.Data(values=values)).encode(
        alt.Y("peer:N", sort=[row["peer"] for row in slowest], title=None, axis=names),
        alt.YOffset("who:N", sort=who),
        alt.X("median:Q", title="seconds", scale=scale, axis=axis),
    )
    legend = alt.Legend(title=None, orient="top", symbolType="square")
    colours = alt.Scale(domain=who, range=[BLUE, GREY])
    bars = base.mark_bar().encode(
        alt.X2(datum=lowest), alt.Color("who:N", sort=who, scale=colours, legend=legend)
    )
    labels = base.mark_text(align="left", dx=5, fontSize=12).encode(text="label:N")
    subtitle = [
        "Seconds from the same Parquet file to the same number, without imports;",
        "×: how many times as long as rankql with the conventions of that tool",
        about,
    ]
    millions = rows[0]["rows"] / 1e6
    title = f"nDCG@10 of {millions:g} million scored rows: rankql and other tools"
    chart = bars + labels
    return chart.properties(
        width=520, height=alt.Step(19), title=alt.Title(title, subtitle=subtitle)
    )


def _seconds(row: Row) -> float:
    return float(row["median"])


def themed(chart: Any) -> Any:
    """The chart in the style of both."""
    return (
        chart.configure(background="white", padding=14, font="DejaVu Sans, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
        .configure_legend(labelFontSize=12)
        .configure_title(
            anchor="start", fontSize=15, subtitleFontSize=12, subtitleColor="#555555", offset=12
        )
    )


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
    about = f"{document['machine']['cpus']} CPUs, {document['machine']['memory']}; " + ", ".join(
        f"{name} {document['versions'][name]}" for name in ("rankql", "duckdb", "polars")
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    for draw, work in ((scaling, "scaling"), (peers, "nDCG@10 by a peer")):
        if some := [row for row in rows if row["work"] == work]:
            chart = themed(draw(some, about))
            for kind in ("svg", "png"):
                path = options.folder / f"{draw.__name__}.{kind}"
                chart.save(path, **({"scale_factor": 2} if kind == "png" else {}))
                print(f"\n{path}")


if __name__ == "__main__":
    main()
