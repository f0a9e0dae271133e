"""Charts of differences between two systems: intervals, slices and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from rankql.evaluation.means import attribute_column
from rankql.output import panels
from rankql.output.chart_selection import SLICES, select_pairs
from rankql.output.specs import GREY, Spec, inline_data, make_layer, quantitative

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# Of more queries, every n-th is drawn.
BARS = 300

# Those of `Comparison.differences` after the attributes.
_DIFFERENCES = ("a", "b", "difference")
_COLUMNS = ("difference", "lo", "hi", "n", "verdict", "b")


def draw_intervals(comparison: Comparison, metric: str) -> Spec:
    """Draw the difference of every pair with its interval."""
    base, title = comparison.settings.baseline, f"{metric}: difference"
    first, second = (pl.col(name).str.replace_all("\n", " ") for name in ("b", "a"))
    is_short = first.str.len_chars() + second.str.len_chars() + len(panels.MINUS) < panels.LABEL
    line = pl.when(is_short).then(pl.lit(" ")).otherwise(pl.lit("\n"))
    label = pl.format("{}{}− {}", first, line, second) if base is None else pl.col("b")
    pairs = pl.DataFrame(select_pairs(comparison), schema=["a", "b"], orient="row")
    rows = _select_metric(comparison, metric).filter(pl.col("slice") == "all")
    frame = pairs.join(rows, on=["a", "b"], maintain_order="left")
    title += "" if base is None else f" from {panels.shorten_names([base])[base]}"
    return _draw_rows(comparison, frame.select(label.alias("pair"), *_COLUMNS), title, frame)


def draw_slices(comparison: Comparison, metric: str, a: str, b: str) -> Spec:
    """Draw the difference of one pair in every slice, with its interval."""
    slices = comparison.pairs["slice"].unique(maintain_order=True).head(SLICES).to_list()
    rows = _select_metric(comparison, metric).filter(pl.col("slice").is_in(slices))
    pairs = pl.DataFrame([*select_pairs(comparison), (a, b)], schema=["a", "b"], orient="row")
    frame = rows.filter(pl.col("a") == a, pl.col("b") == b).select("slice", *_COLUMNS)
    scale_rows = rows.join(pairs, on=["a", "b"], how="semi")
    return _draw_rows(comparison, frame, _title(comparison, metric, a, b), scale_rows)


def _title(comparison: Comparison, metric: str, a: str, b: str) -> str:
    short = panels.shorten_names(comparison.systems)
    return f"{metric}: {short[b]} − {short[a]}"


def _select_metric(comparison: Comparison, metric: str) -> pl.DataFrame:
    return comparison.pairs.filter(pl.col("metric") == metric).drop_nulls("difference")


def _draw_rows(
    comparison: Comparison, frame: pl.DataFrame, title: str, scale_rows: pl.DataFrame
) -> Spec:
    """Draw differences on the scale of all panels of the metric, whose rows are `scale_rows`.

    With `equivalence=`, a band covers the differences that do not matter.
    """
    margin = comparison.settings.equivalence or 0.0
    ends = [value for name in _COLUMNS[:3] for value in scale_rows[name].drop_nulls().to_list()]
    domain = [min([-margin, *ends]), max([margin, *ends])]
    colour = panels.colour_by_system(comparison, "b")
    panel = panels.make_dot_panel(frame, title, colour, domain)
    if margin:
        band = make_layer("rect", {"x": quantitative("from"), "x2": {"field": "to"}}, color=GREY,
                          opacity=0.15)  # fmt: skip
        panel["layer"].insert(0, band | {"data": {"values": [{"from": -margin, "to": margin}]}})
        panel["description"] += f" Differences within ±{margin:g} do not matter."
    return panel


def draw_differences(
    comparison: Comparison, metric: str, a: str, b: str, texts: Mapping[str, str] | None = None
) -> Spec:
    """Draw what every query gained from a to b, the largest loss first.

    The tooltip of a bar shows the text of its query, if `texts` has it by id.
    """
    frame = comparison.differences(metric, a, b)
    gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
    winner = pl.when(gain > 0).then(pl.lit(b)).when(gain < 0).then(pl.lit(a)).alias("better")
    step, place = count_step(len(frame)), pl.int_range(pl.len(), dtype=pl.Int64)
    rows = frame.select(
        pl.col(frame.columns[0]).cast(pl.String).alias("query"), "a", "b", "difference",
        place.alias("from"), (place + step).clip(upper_bound=pl.len()).alias("to"),
    ).gather_every(step).with_columns(winner)  # fmt: skip
    if texts:
        text = pl.col("query").replace_strict(texts, default=None, return_dtype=pl.String)
        rows = rows.insert_column(1, rows.select(text=text).to_series())
    name, difference = comparison.settings.weight, pl.col("difference")
    weight = difference * 0 + 1 if name is None else pl.col(attribute_column(name, _DIFFERENCES))
    mean = float(frame.select((difference * weight).sum() / weight.sum()).fill_nan(0.0).item())
    scale = {"domain": _difference_range(comparison, metric, (a, b))}
    axis = {"format": ",d", "tickMinStep": 1}
    judged = comparison.result.judge is not None
    queries = "human queries, not corrected" if judged else "queries"
    title = f"{len(frame):,} {queries}, sorted by gain"
    encoding = {
        "x": quantitative("from", title=title, axis=axis, scale={"nice": False}),
        "x2": {"field": "to"},
        "y": quantitative("difference", title="difference", axis=panels.grid_axis(), scale=scale),
        "y2": {"datum": 0},
        "color": panels.colour_by_system(comparison, "better"),
        "tooltip": panels.make_tooltips(rows.drop("from", "to", "better")),
    }
    line = make_layer("rule", {"y": quantitative("mean")}, strokeDash=[5, 3], strokeWidth=1.5,
                      color=GREY, tooltip=True)  # fmt: skip
    layers = [
        make_layer("rect", encoding, stroke=None),
        panels.make_zero_line("y"),
        line | {"data": inline_data(pl.DataFrame({"mean": mean}))},
    ]
    better, worse = frame.select(better=(gain > 0).sum(), worse=(gain < 0).sum()).row(0)
    words = (
        f"better on {better:,} of {len(frame):,} queries, worse on {worse:,}, "
        f"the same on {len(frame) - better - worse:,}; mean {mean:+z.3f}"
        f"{' (human labels, not corrected)' if judged else ''}"
    )
    return panels.make_panel(layers, rows, _title(comparison, metric, a, b), [words])


def count_step(queries: int) -> int:
    """Return n if every n-th query is drawn."""
    return -(-queries // BARS) or 1


def _difference_range(comparison: Comparison, metric: str, pair: tuple[str, str]) -> list[float]:
    """Return the smallest and largest difference of a query over this pair and all drawn ones."""
    pairs = [*select_pairs(comparison), pair]
    values = {
        name: part.sort(comparison.result.meta.query)[metric]
        for (name,), part in comparison.per_query.group_by("system")
    }
    gains = [(values[b] - values[a]).drop_nulls().to_numpy() for a, b in pairs]
    ends = [0.0, *(float(end) for gain in gains if len(gain) for end in (gain.min(), gain.max()))]
    return [min(ends), max(ends)]
