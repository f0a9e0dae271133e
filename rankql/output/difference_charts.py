"""Charts of differences between two systems: by slice and by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.verdict import BETTER, WORSE
from rankql.evaluation.means import attribute_column
from rankql.output import panels
from rankql.output.panels import SLICES, select_pairs
from rankql.output.specs import GREY, Spec, inline_data, make_layer, quantitative
from rankql.text import format_count

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

# Of more queries, every n-th is drawn.
BARS = 300

# Those of `Comparison.differences` after the attributes.
_DIFFERENCES = ("a", "b", "difference")
# Those of the pairs in every slice.
_COLUMNS = ("difference", "lo", "hi", "n", "verdict", "better")


def count_slices(comparison: Comparison) -> int:
    """Return how many slices are drawn: of several pairs fewer."""
    return max(1, SLICES // max(1, len(select_pairs(comparison)) // 2))


def draw_slices(
    comparison: Comparison, metric: str, pairs: Sequence[tuple[str, str]] = ()
) -> list[Spec]:
    """Draw the differences of pairs over all queries and in every slice, those by date as lines."""
    pairs = pairs or select_pairs(comparison)
    chosen = pl.DataFrame(pairs, schema=["a", "b"], orient="row")
    word = pl.col("verdict")
    winner = pl.when(word == BETTER).then("b").when(word == WORSE).then("a").alias("better")
    frame = comparison.pairs.filter(metric=metric).drop_nulls("difference").with_columns(winner)
    frame = frame.join(chosen, on=["a", "b"], how="semi", maintain_order="left")
    ends = [x for name in _COLUMNS[:3] for x in frame[name].drop_nulls().to_list()]
    domain = [min([0.0, *ends]), max([0.0, *ends])]
    grey = {"test": "datum.better === null", "value": GREY}
    colour = {"condition": grey, **panels.colour_by_system(comparison, "better")}
    rows, series = panels.split_times(frame)
    slices = rows["slice"].unique(maintain_order=True).head(count_slices(comparison))
    rows = rows.filter(pl.col("slice").is_in(slices.implode()))
    row, title = "slice", _title(comparison, metric, *pairs[0])
    if len(pairs) > 1:
        title, base = f"{metric}: difference", comparison.settings.baseline
        title += "" if base is None else f" from {panels.shorten_names([base])[base]}"
        short = panels.shorten_names(comparison.systems)
        other, first = (pl.col(name).replace_strict(short) for name in ("b", "a"))
        longest = max(len(short[a]) + len(short[b]) for a, b in pairs)
        line = "{} − {}" if longest < panels.LABEL else "{}\n− {}"
        label = other if base is not None else pl.format(line, other, first)
        if len(slices) > 1:
            names = panels.shorten_names(slices)
            label = pl.format("{}\n{}", pl.col("slice").replace_strict(names), label)
        row, rows = "pair", rows.with_columns(pair=label)
    rows = rows.select(row, *_COLUMNS)
    drawn = [panels.make_dot_panel(rows, title, colour, domain)] if len(rows) else []
    for attribute, part in series.items():
        for (a, b), each in part.group_by("a", "b", maintain_order=True):
            title = f"{_title(comparison, metric, str(a), str(b))} by {attribute}"
            each = each.select("slice", *_COLUMNS, "time")
            drawn.append(panels.make_time_panel(each, title, colour, domain))
    return drawn


def _title(comparison: Comparison, metric: str, a: str, b: str) -> str:
    short = panels.shorten_names(comparison.systems)
    return f"{metric}: {short[b]} − {short[a]}"


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
    axis = {"format": ",d", "tickMinStep": 1}
    judged = comparison.result.judge is not None
    queries = format_count(len(frame), "human query" if judged else "query")
    title = f"{queries}{', not corrected' * judged}, sorted by gain"
    encoding = {
        "x": quantitative("from", title=title, axis=axis, scale={"nice": False}),
        "x2": {"field": "to"},
        "y": quantitative("difference", title="difference", axis=panels.grid_axis()),
        "y2": {"datum": 0},
        "color": panels.colour_by_system(comparison, "better"),
        "tooltip": panels.make_tooltips(rows.drop("from", "to", "better")),
    }
    line = make_layer("rule", {"y": quantitative("mean")}, strokeDash=[5, 3], strokeWidth=1.5,
                      color=GREY, tooltip=True)  # fmt: skip
    layers = [
        # The stroke covers the gaps between bars.
        make_layer("rect", encoding | {"stroke": encoding["color"]}, strokeWidth=1),
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
