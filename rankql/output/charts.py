"""The plots of a comparison or a result, and the charts of differences by slice and by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from rankql.decisions.verdict import BETTER, WORSE
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.means import attribute_columns
from rankql.output import panels
from rankql.output.panels import GREY, Plotted, Spec, result_of, select_pairs
from rankql.registry.parse import resolve_names
from rankql.text import format_count

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison


KINDS = ("differences", "means", "distribution", "slices", "cutoffs")


def plot_means(plotted: Plotted, metric: str | None) -> Spec:
    """Draw the means, a panel for each metric."""
    names = _select_metrics(plotted, metric)
    return _join([panels.draw_means(plotted, name) for name in names])


def plot_distribution(plotted: Plotted, metric: str | None) -> Spec:
    """Draw the values per query, a panel for each metric."""
    overall = result_of(plotted).overall_metrics
    names = [name for name in _select_metrics(plotted, metric) if name not in overall]
    drawn = [panels.draw_distribution(plotted, name) for name in names]
    return _join([panel for panel in drawn if panel["data"]["values"]])


def plot_comparison(
    comparison: Comparison, kind: str, metric: str | None, a: str | None, b: str | None
) -> Spec:
    """Draw a comparison, a panel for each metric and, by query, for each pair."""
    if kind not in KINDS:
        raise RankqlError(describe_unknown("kind of plot", kind, KINDS))
    metrics = _select_metrics(comparison, metric)
    if kind == "cutoffs":
        ((name, frame),) = panels.compute_cutoffs(comparison, metrics[:1]).items()
        return panels.draw_cutoffs(comparison, name, frame)
    if kind == "means":
        return plot_means(comparison, metric)
    if kind == "distribution":
        return plot_distribution(comparison, metric)
    pairs = select_pairs(comparison)
    if a is not None or b is not None:
        a = comparison.settings.baseline if a is None else a
        if unknown := {a, b} - {*comparison.systems}:
            raise RankqlError(describe_unknown("system", unknown.pop(), comparison.systems))
        pairs = [(str(a), str(b))]
    if kind == "slices":
        return _join([x for name in metrics if pairs for x in draw_slices(comparison, name, pairs)])
    overall = comparison.result.overall_metrics
    by_query = [name for name in metrics if name not in overall]
    return _join([draw_differences(comparison, name, *pair) for name in by_query for pair in pairs])


def _join(drawn: Sequence[Spec]) -> Spec:
    """Put panels side by side."""
    if not drawn:
        raise RankqlError(
            "Nothing to plot: no query has a difference or a value. Compare at least two "
            "systems, pass another metric, or kind='means'"
        )
    return drawn[0] if len(drawn) == 1 else panels.join_panels(drawn, columns=2)


def _select_metrics(plotted: Plotted, metric: str | None) -> list[str]:
    """Return the metrics that a name stands for; without a name the first ones."""
    if metric is None:
        return plotted.metrics[: panels.METRICS]
    result = result_of(plotted)
    names = resolve_names(metric, result.metrics, result.conventions)
    for name in names:
        if name not in result.metrics:
            evaluated = ", ".join(result.metrics)
            raise RankqlError(f"Metric {name!r} was not evaluated. Evaluated: {evaluated}.")
    return names


# Of more queries, every n-th is drawn.
BARS = 300

# Those of `Comparison.differences` after the attributes.
_DIFFERENCES = ("a", "b", "difference")
# Those of the pairs in every slice.
_COLUMNS = ("difference", "lo", "hi", "n", "verdict", "better")


def count_slices(comparison: Comparison) -> int:
    """Return how many slices are drawn: of several pairs fewer."""
    return max(1, panels.SLICES // max(1, len(select_pairs(comparison)) // 2))


def draw_slices(
    comparison: Comparison, metric: str, pairs: Sequence[tuple[str, str]] = ()
) -> list[Spec]:
    """Draw the differences of pairs over all queries and in every slice."""
    pairs = pairs or select_pairs(comparison)
    chosen = pl.DataFrame(pairs, schema=["a", "b"], orient="row")
    word = pl.col("verdict")
    winner = pl.when(word == BETTER).then("b").when(word == WORSE).then("a").alias("better")
    frame = comparison.pairs.filter(metric=metric).drop_nulls("difference").with_columns(winner)
    frame = frame.join(chosen, on=["a", "b"], how="semi", maintain_order="left")
    ends = [x for name in _COLUMNS[:3] for x in frame[name].drop_nulls().to_list()]
    domain = [min([0.0, *ends]), max([0.0, *ends])]
    grey = {"test": "datum.better === null", "value": GREY}
    colour = {"condition": grey, **panels.colour_by_system(comparison, "better", legend=True)}
    slices = frame["slice"].unique(maintain_order=True).head(count_slices(comparison))
    rows = frame.filter(pl.col("slice").is_in(slices.implode()))
    split = name = panels.split_slices(comparison)
    title = _title(comparison, metric, *pairs[0])
    if len(pairs) > 1:
        title, base = f"{metric}: difference", comparison.settings.baseline
        title += "" if base is None else f" from {panels.shorten_names([base])[base]}"
        short = panels.shorten_names(comparison.systems)
        other, first = (pl.col(name).replace_strict(short) for name in ("b", "a"))
        longest = max(len(short[a]) + len(short[b]) for a, b in pairs)
        line = "{} − {}" if longest < panels.LABEL else "{}\n− {}"
        label = other if base is not None else pl.format(line, other, first)
        if len(slices) > 1:
            short = panels.shorten_names(slices.to_frame().select(split).to_series())
            label = pl.format("{}\n{}", split.replace_strict(short), label)
        name = label.alias("pair")
    rows = rows.select(name, *_COLUMNS)
    return [panels.make_dot_panel(rows, title, colour, domain)] if len(rows) else []


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
    weight = difference * 0 + 1
    if name is not None:
        meta = comparison.result.meta
        weight = pl.col(attribute_columns([meta.query, *meta.by], _DIFFERENCES)[name])
    mean = float(frame.select((difference * weight).sum() / weight.sum()).fill_nan(0.0).item())
    judged = comparison.result.judge is not None
    queries = format_count(len(frame), "human query" if judged else "query")
    better, worse = frame.select(better=(gain > 0).sum(), worse=(gain < 0).sum()).row(0)
    words = (
        f"better on {better:,} of {len(frame):,} queries, worse on {worse:,}, "
        f"the same on {len(frame) - better - worse:,}; mean {mean:+z.3f}"
        f"{' (human labels, not corrected)' if judged else ''}"
    )
    return panels.draw_panel(
        "differences", rows, _title(comparison, metric, a, b), [words], grid=panels.grid_axis(),
        queries=f"{queries}{', not corrected' * judged}, sorted by gain",
        colour=panels.colour_by_system(comparison, "better", legend=True),
        tooltip=panels.make_tooltips(rows.drop("from", "to", "better")),
        mean=panels.inline_data(pl.DataFrame({"mean": mean})),
    )  # fmt: skip


def count_step(queries: int) -> int:
    """Return n if every n-th query is drawn."""
    return -(-queries // BARS) or 1
