"""Charts: what they show, of which systems, as panels with rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from rankql.core.base.errors import RankqlError, require_known
from rankql.core.base.text import add_slice, format_count, format_queries
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.evaluation.means.means import attribute_columns, slice_queries
from rankql.core.evaluation.plan.meta import compared_value
from rankql.core.metrics.metric_record import AP_DENOMINATOR
from rankql.core.metrics.parse import parse_any, resolve_names, value_range
from rankql.decisions.comparison import CUTOFFS
from rankql.decisions.pair_table import orient_pairs
from rankql.decisions.verdict import BETTER, WORSE
from rankql.diagnostics.min_scores import SHARES
from rankql.pages.panels import (
    GREY,
    GRID,
    LABEL,
    PALETTE,
    ROW_HEIGHT,
    Spec,
    colour_by_name,
    draw_curves,
    draw_panel,
    encode_date,
    inline_data,
    join_panels,
    label_expression,
    make_dot_panel,
    make_tooltips,
    nominal,
    quantitative,
    row_axis,
    shorten_names,
)

if TYPE_CHECKING:
    from rankql.core.evaluation.result.result import Result
    from rankql.decisions.comparison import Comparison
    from rankql.diagnostics.funnel import Funnel
    from rankql.diagnostics.min_scores import MinScores

# The outcome of a check of a gate.
STATUS_COLOURS = {"passed": PALETTE[2], "failed": PALETTE[1], "inconclusive": PALETTE[4],
                  "too few queries": GREY}  # fmt: skip
# The height of a panel by day, and the width of the name of a stage.
DAY_HEIGHT, STAGE_WIDTH = 140, 200
# A line of a title.
TITLE = 60
# Values per query are counted in so many classes.
BINS = 20
# The largest number of each that is drawn: of pairs all of a few systems, or those of the best one.
SLICES, PAIRS, METRICS, MOST_PAIRS = 40, 6, 6, 12
# More lines of values per query hide each other.
LINES = 3
# More bands over time too.
BANDS = 2
# A line at no difference.
ZERO = {"mark": {"type": "rule", "color": GREY}, "encoding": {"y": {"datum": 0}}}

# What charts are drawn of.
Plotted: TypeAlias = "Comparison | Result"
# The kinds of those of a comparison.
KINDS = ("differences", "means", "distribution", "slices", "cutoffs")


def plot_means(plotted: Plotted, metric: str | None) -> Spec:
    """Draw the means, a panel for each metric."""
    names = _select_metrics(plotted, metric)
    return _join([panel for name in names for panel in draw_means(plotted, name)])


def plot_distribution(plotted: Plotted, metric: str | None) -> Spec:
    """Draw the values per query, a panel for each metric."""
    overall = result_of(plotted).overall_metrics
    names = [name for name in _select_metrics(plotted, metric) if name not in overall]
    return _join([draw_distribution(plotted, name) for name in names])


def plot_comparison(
    comparison: Comparison, kind: str, metric: str | None, a: str | None, b: str | None
) -> Spec:
    """Draw a comparison, a panel for each metric and, by query, for each pair."""
    require_known("kind of plot", kind, KINDS)
    metrics = _select_metrics(comparison, metric)
    if kind == "cutoffs":
        ((name, frame),) = compute_cutoffs(comparison, metrics[:1]).items()
        return draw_cutoffs(comparison, name, frame)
    if kind == "means":
        return plot_means(comparison, metric)
    if kind == "distribution":
        return plot_distribution(comparison, metric)
    pairs = select_pairs(comparison)
    if a is not None or b is not None:
        a = comparison.settings.baseline if a is None else a
        for system in (a, b):
            require_known("system", system, comparison.systems)
        pairs = [(str(a), str(b))]
    if kind == "slices":
        drawn = [draw_slices(comparison, name, pairs) for name in metrics if pairs]
        return _join([*itertools.chain(*drawn)])
    overall = comparison.result.overall_metrics
    by_query = [name for name in metrics if name not in overall]
    return _join([draw_differences(comparison, name, *pair) for name in by_query for pair in pairs])


def _join(drawn: Sequence[Spec]) -> Spec:
    """Put panels with rows side by side."""
    drawn = [panel for panel in drawn if panel["data"]["values"]]
    if not drawn:
        raise RankqlError(
            "Nothing to plot: no query has a difference or a value. Compare at least two "
            "systems, pass another metric, or kind='means'"
        )
    if len(drawn) == 1:
        return drawn[0]
    joined = join_panels(drawn, columns=2)
    # Panels with colours of other meanings have their own legends.
    colours = [[x["encoding"].get("color") for x in panel["layer"]] for panel in drawn]
    if any(each != colours[0] for each in colours):
        joined["resolve"] = {"scale": {"color": "independent"}}
    return joined


def _select_metrics(plotted: Plotted, metric: str | None) -> list[str]:
    """Return the metrics that a name stands for; without a name the first ones."""
    if metric is None:
        return plotted.metrics[:METRICS]
    result = result_of(plotted)
    names = resolve_names(metric, result.metrics, result.conventions)
    for name in names:
        if name not in result.metrics:
            evaluated = ", ".join(result.metrics)
            raise RankqlError(f"Metric {name!r} was not evaluated. Evaluated: {evaluated}.")
    return names


def draw_means(plotted: Plotted, metric: str) -> list[Spec]:
    """Draw the mean of every system, best first, or of every slice of one, and means over time."""
    columns = ("mean", "lo", "hi", "queries", "undefined", "missing")
    systems, title = list_chart_systems(plotted), f"{metric}: means"
    frame, lines = draw_means_over_time(plotted, metric)
    if len(systems) == 1 and frame["slice"].n_unique() > 1:
        colour = {"value": PALETTE[0]}
        frame = frame.select(split_slices(plotted), *columns).head(SLICES)
        return [make_dot_panel(frame, title, colour), *lines]
    if len(systems) == 1 and lines:
        return lines
    lower = result_of(plotted).lower_is_better(metric)
    frame = frame.filter(pl.col("slice") == "all").select("system", *columns)
    frame = frame.sort("mean", descending=not lower, maintain_order=True)
    return [make_dot_panel(frame, title, colour_by_system(plotted)), *lines]


def draw_means_over_time(plotted: Plotted, metric: str) -> tuple[pl.DataFrame, list[Spec]]:
    """Draw the means of slices by a date, and return the other means."""
    frame = result_of(plotted).summary.filter(metric=metric).drop_nulls("mean")
    if "system" not in frame.columns:
        frame = frame.with_columns(system=pl.lit(list_chart_systems(plotted)[0]))
    columns = ("mean", "lo", "hi", "queries")
    return draw_times(plotted, f"{metric}: means", frame, "system", *columns)


def draw_times(
    plotted: Plotted, title: str, frame: pl.DataFrame, line: str, *columns: str
) -> tuple[pl.DataFrame, list[Spec]]:
    """Draw the slices by a date over time, and return the other rows.

    A panel has the lines of the systems, or pairs, in one slice by other attributes; of one system
    or pair, the lines of all slices. `columns` are a value, its lo and hi, and its queries.
    """
    name, slices = find_dated_slices(plotted)
    dated = frame.join(slices, on="slice", maintain_order="left")
    frame = frame.join(slices, on="slice", how="anti", maintain_order="left")
    of_slices = dated[line].n_unique() == 1
    key, other = ("part", line) if of_slices else (line, "part")
    panels = []
    for (part,), rows in dated.group_by(other, maintain_order=True):
        rows = rows.select(pl.col(key).str.replace_all("\n", " "), "date", *columns)
        sizes = rows.group_by(key, maintain_order=True).agg(pl.col(columns[-1]).sum())
        names = sizes.sort(columns[-1], descending=True, maintain_order=True)[key].to_list()
        names = [x for x in sizes[key] if x in names[: len(PALETTE)]]
        head = f"{title} by {name}" + f", {part}" * (not of_slices and part != "all")
        if len(sizes) > len(names):
            head += f": the {len(names)} slices with most queries"
        rows = rows.filter(pl.col(key).is_in(names))
        if line == key == "system":
            colour = colour_by_system(plotted, legend=True)
        else:
            colour = colour_by_name(key, names)
        has_band = len(names) <= BANDS and not rows["lo"].null_count()
        is_mean = columns[0] == "mean"
        x = encode_date("date", name, rows["date"].unique().sort().to_list())
        y = quantitative(columns[0], title=columns[0], scale={"zero": not is_mean}, axis=GRID)
        panel = draw_curves(rows, head, has_band, x, y, colour)
        panels.append(panel | {"layer": [*[ZERO] * (not is_mean), *panel["layer"]]})
    return frame, panels[:SLICES]


def find_dated_slices(plotted: Plotted) -> tuple[str, pl.DataFrame]:
    """Return the attribute that is a date or a time, and the slices by it.

    They have columns slice, date and part: the other attributes, or all.
    """
    summary, by = result_of(plotted).summary, result_of(plotted).meta.by
    for name, column in attribute_columns(by).items():
        kind = summary.schema.get(column)
        if isinstance(kind, pl.Date | pl.Datetime):
            # Browsers read a date without a time as one in UTC.
            date = pl.col(column).dt.strftime("%Y-%m-%d" + "T%H:%MZ" * (kind != pl.Date))
            date = date.str.strip_suffix("T00:00Z")
            part = split_slices(plotted).str.replace(f"(?m)^{re.escape(name)}=.*$", "")
            part = part.str.strip_chars("\n").str.replace_all("\n+", ", ").replace("", "all")
            rows = summary.drop_nulls(column).select("slice", date=date, part=part)
            if rows["date"].n_unique() > 1:
                return name, rows.unique("slice", maintain_order=True)
    return "", pl.DataFrame(schema=dict.fromkeys(("slice", "date", "part"), pl.String))


def draw_limit(rows: pl.DataFrame) -> Spec:
    """Draw the slices of a check of a gate, coloured by its outcome, and its limit as a line."""
    check, metric, limit = rows.select("check", "metric", "limit").row(0)
    value = "mean" if rows["difference"].is_null().all() else "difference"
    bound = -limit if check.removeprefix(metric).startswith(" drop") else limit
    ends = (pl.coalesce(end, value).alias(end) for end in ("lo", "hi"))
    frame = rows.select("slice", value, *ends, "n", "status").drop_nulls(value).head(SLICES)
    numbers = [bound, 0.0, *frame["lo"], *frame["hi"]]
    domain = [min(numbers), max(numbers)] if value == "difference" else None
    scale = {"domain": [*STATUS_COLOURS], "range": [*STATUS_COLOURS.values()]}
    colour = nominal("status", scale=scale, legend=None)
    panel = make_dot_panel(frame, f"{check} (dashed)", colour, domain)
    line = {
        "mark": {"type": "rule", "strokeDash": [5, 4], "color": STATUS_COLOURS["failed"]},
        "data": {"values": [{"limit": bound}]},
        "encoding": {"x": quantitative("limit")},
    }
    return panel | {"layer": [line, *panel["layer"]]}


def draw_distribution(plotted: Plotted, metric: str) -> Spec:
    """Draw the share of queries by value: a line for each system, or for each slice of one."""
    result, colours = result_of(plotted), assign_colours(plotted)
    rows = result.frame().with_columns(compared_value(metric, result.meta))
    key, times = result.meta.query, find_dated_slices(plotted)[0]
    group = [names for names in result.meta.groupings if times not in names][:1]
    if len(colours) > 1:  # those with a colour of their own
        shown = order_systems(plotted)[:LINES]
        parts = {x: rows.filter(system=x) for x in colours if x in shown}
    else:
        queries = slice_queries(rows.select(key, *result.meta.by), group)
        parts = {x: rows.filter(pl.col(key).is_in(y)) for x, y in [*queries.items()][len(group) :]}
    values = pl.concat(
        part.select(name=pl.lit(name), value=pl.col(metric).cast(pl.Float64)).drop_nulls("value")
        for name, part in [*parts.items()][: len(PALETTE)]
    )
    names = [*values["name"].unique(maintain_order=True)]
    # The range of the metric, or of the values.
    ends = (*value_range(metric), values["value"].min(), values["value"].max())
    known = [float(x) for x in ends if x is not None] or [0.0]  # type: ignore[arg-type]
    low, width = min(known), (max(known) - min(known)) / BINS or 1.0
    high = low + BINS * width
    place = ((pl.col("value") - low) / width).floor().clip(0, BINS - 1).cast(pl.Int64)
    counts = values.group_by("name", place.alias("bin")).len("queries")
    # A class without queries on either side, so that lines end on the axis.
    bins = pl.DataFrame({"bin": range(-1, BINS + 1)})
    outline = pl.DataFrame({"name": names}, {"name": pl.String}).join(bins, how="cross").join(
        counts, on=["name", "bin"], how="left", maintain_order="left"
    ).select(
        "name", value=low + (pl.col("bin") + 0.5) * width,
        share=pl.col("queries").fill_null(0) / pl.col("queries").sum().over("name"),
    )  # fmt: skip
    frame = outline.filter(pl.col("value").is_between(low, high))
    medians = values.group_by("name", maintain_order=True).agg(pl.col("value").median(), pl.len())
    words = [f"{x}: median {value:.3f} of {format_queries(n)}" for x, value, n in medians.rows()]
    colour = colour_by_system(plotted, "name", names)
    if len(colours) == 1:
        colour = colour_by_name("name", names)
    return draw_panel(
        "distribution", frame, f"{metric}: values per query", words, metric=metric, colour=colour,
        outline=inline_data(outline), domain=[low, high], tooltip=make_tooltips(frame),
    )  # fmt: skip


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
    """Draw the differences of pairs over all queries and in every slice, and those over time."""
    pairs = pairs or select_pairs(comparison)
    word = pl.col("verdict")
    winner = pl.when(word == BETTER).then("b").when(word == WORSE).then("a").alias("better")
    frame = orient_pairs(comparison.pairs, pairs).filter(metric=metric).drop_nulls("difference")
    frame = frame.with_columns(winner)
    grey = {"test": "datum.better === null", "value": GREY}
    colour = {"condition": grey, **colour_by_system(comparison, "better", legend=True)}
    title, label = _title(comparison, metric, *pairs[0]), pl.lit("all")
    if len(pairs) > 1:
        base = pairs[0][0] if len({a for a, _ in pairs}) == 1 else None
        title = f"{metric}: difference"
        title += "" if base is None else f" from {shorten_names([base])[base]}"
        short = shorten_names(comparison.systems)
        other, first = (pl.col(name).replace_strict(short) for name in ("b", "a"))
        longest = max(len(short[a]) + len(short[b]) for a, b in pairs)
        line = "{} − {}" if longest < LABEL else "{}\n− {}"
        label = other if base is not None else pl.format(line, other, first)
    frame = frame.with_columns(pair=label)
    frame, lines = draw_times(comparison, title, frame, "pair", *_COLUMNS[:4])
    slices = frame["slice"].unique(maintain_order=True).head(count_slices(comparison))
    rows, name = frame.filter(pl.col("slice").is_in(slices.implode())), pl.col("pair")
    ends = [x for column in _COLUMNS[:3] for x in frame[column].drop_nulls().to_list()]
    domain, split = [min([0.0, *ends]), max([0.0, *ends])], split_slices(comparison)
    if len(pairs) == 1:
        name = split
    elif len(slices) > 1:
        short = shorten_names(slices.to_frame().select(split).to_series())
        name = pl.format("{}\n{}", split.replace_strict(short), name).alias("pair")
    return [make_dot_panel(rows.select(name, *_COLUMNS), title, colour, domain), *lines]


def _title(comparison: Comparison, metric: str, a: str, b: str) -> str:
    short = shorten_names(comparison.systems)
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
    return draw_panel(
        "differences", rows, _title(comparison, metric, a, b), [words], grid=GRID,
        queries=f"{queries}{', not corrected' * judged}, sorted by gain",
        colour=colour_by_system(comparison, "better", legend=True),
        tooltip=make_tooltips(rows.drop("from", "to", "better")),
        mean=inline_data(pl.DataFrame({"mean": mean})),
    )  # fmt: skip


def count_step(queries: int) -> int:
    """Return n if every n-th query is drawn."""
    return -(-queries // BARS) or 1


def compute_cutoffs(comparison: Comparison, metrics: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Return the means of every system by cutoff, with their intervals, for each metric."""
    # Only the means are shown, so the differences have the test that takes least time.
    settings, places = replace(comparison.settings, test="t"), [*CUTOFFS]
    if source := comparison.source:  # longer cutoffs than the longest list say nothing new
        shown = evaluate(source.runs, source.qrels, "NumRet", **source.keywords, interval=None)
        longest = int(shown.per_query["NumRet"].max() or 1)  # type: ignore[arg-type]
        places = sorted({min(k, longest) for k in CUTOFFS})
    curves = replace(comparison, settings=settings).cutoffs(metrics, places)
    cutoffs = {name: parse_any(name)[0] for name in curves.metrics}
    summary = curves.summary.filter(slice="all").drop_nulls("mean")
    frames = {}
    for metric in metrics:
        own = parse_any(metric)[0].at(None).canonical
        ks = {name: each.k for name, each in cutoffs.items() if each.at(None).canonical == own}
        frame = summary.filter(pl.col("metric").is_in([*ks]))
        k = pl.col("metric").replace_strict(ks, return_dtype=pl.Int64).alias("k")
        frame = frame.select("system", k, "mean", "lo", "hi", "queries")
        frames[metric] = frame.sort("k", maintain_order=True)
    return frames


def draw_cutoffs(comparison: Comparison, metric: str, frame: pl.DataFrame) -> Spec:
    """Draw the means by cutoff: a line with its band for each system."""
    of_all = parse_any(metric)[0].at(None)
    title = head = f"{of_all.name.rstrip('_')}@k"
    divides = of_all.record and AP_DENOMINATOR in of_all.record.options.values()
    if divides and of_all.value("denominator", result_of(comparison).conventions) == "min":
        head += ", divided by min(k, R): it may fall while k is below R"
    axis = {"values": frame["k"].unique().sort().to_list(), "format": ",d"}
    scale = {"type": "log", "nice": False}
    few = len(comparison.systems) <= len(PALETTE)
    return draw_curves(
        frame, head, few and not frame["lo"].null_count(),
        x=quantitative("k", title="cutoff k", axis=axis, scale=scale),
        y=quantitative("mean", title=title, scale={"zero": False}, axis=GRID),
        colour=colour_by_system(comparison, legend=True),
    )  # fmt: skip


def draw_min_scores(result: MinScores) -> Spec:
    """Draw the shares and the means by lowest score: a line with its band for each."""
    names, ends = [*SHARES, *result.metrics][: len(PALETTE)], ("lo", "hi")
    parts = [
        result.table.select(
            pl.lit(name).alias("name"), "min_score", pl.col(name).alias("mean"),
            *(pl.col(f"{name}_{end}").fill_null(pl.col(name)).alias(end) for end in ends),
        )
        for name in names
    ]  # fmt: skip
    scale = {"domain": names, "range": [*PALETTE[: len(names)]]}
    between = {"zero": False, "nice": False}
    return draw_curves(
        pl.concat(parts).drop_nulls("mean"), "By lowest score shown", True,
        x=quantitative("min_score", title="lowest score shown", scale=between),
        y=quantitative("mean", title="mean", scale={"domain": [0, 1]}, axis=GRID),
        colour=nominal("name", scale=scale, legend={"symbolType": "stroke"}),
    )  # fmt: skip


def draw_funnel(funnel: Funnel) -> Spec:
    """Draw a bar for the loss of every stage, where the bar before ends, and one for the value."""
    frame = funnel.table.filter(pl.col("slice") == "all").drop_nulls("loss")
    start = pl.col("after").shift(1, fill_value=1.0)
    frame = frame.select("stage", "loss", "lo", "hi", "after", before=start)
    words = [f"{row['stage']} loses {row['loss']:.3f}" for row in frame.iter_rows(named=True)]
    value = frame.tail(1).select(
        stage=pl.lit(funnel.metric), loss=None, lo=None, hi=None, after="after", before=0.0
    )
    frame = pl.concat([frame, value], how="vertical_relaxed")
    stages = row_axis("stage", frame["stage"])
    stages["axis"]["labelLimit"] = STAGE_WIDTH
    return draw_panel(
        "funnel", frame, f"{funnel.metric}: where it is lost", words,
        height=ROW_HEIGHT * len(frame), stages=stages, tooltip=make_tooltips(frame),
    )  # fmt: skip


def draw_days(frame: pl.DataFrame, period: str = "day") -> Spec:
    """Draw a panel per series, one below the other."""
    series = frame.partition_by("slice", "metric", "kind", maintain_order=True)
    return join_panels([_draw_series(part, period) for part in series])


def _draw_series(frame: pl.DataFrame, period: str) -> Spec:
    metric, is_share = frame["metric"][0], frame["kind"][0] != "metric"
    title = f"{add_slice(metric, frame['slice'][0])} by {period}"
    below = "grey: what chance explains" + ", orange: alarm" * frame["held"].any()
    ends = (0, 1) if is_share else value_range(metric)
    columns = ("day", "mean", "lo", "hi", "expected", "limit", "queries")
    frame = frame.select(*columns, alarm="held").with_columns(pl.col("day").cast(pl.String))
    band = {"worse": pl.col("limit"), "better": 2 * pl.col("expected") - pl.col("limit")}
    data = frame.with_columns(**{name: end.clip(*ends) for name, end in band.items()})
    words = f"{format_count(len(frame), period)}, {frame['alarm'].sum()} with an alarm"
    panel = draw_panel(
        "days", data, title, [words], height=DAY_HEIGHT, grid=GRID,
        day=encode_date("day"), mean=quantitative("mean", scale={"zero": False}),
        tooltip=make_tooltips(frame),
    )  # fmt: skip
    return panel | {"title": {"text": wrap(title, TITLE), "subtitle": below}}


def split_slices(plotted: Plotted) -> pl.Expr:
    """The names of slices by several attributes, a line for each attribute."""
    names = "|".join(map(re.escape, result_of(plotted).meta.by))
    return pl.col("slice").str.replace_all(f", ({names})=", "\n${1}=")


def colour_by_system(
    plotted: Plotted, field: str = "system", legend: bool | Sequence[str] = False
) -> Spec:
    """Colour by the system that a column names. `legend` may be the systems that are drawn."""
    colours = assign_colours(plotted)
    named = [name for name, colour in colours.items() if colour != GREY]
    if not isinstance(legend, bool):
        named = [name for name in named if name in legend]
    key = None
    if legend and named[1:]:
        key = {"values": named, "symbolType": "stroke", "labelExpr": label_expression(named)}
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return nominal(field, scale=scale, legend=key)


def select_pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the pairs to draw, each from the better system: all of a few, else those of the best
    one, or of the baseline.
    """
    pairs, base = {*comparison.pairs.select("a", "b").rows()}, comparison.settings.baseline
    if len(comparison.systems) == 2:
        return [*pairs]
    order = order_systems(comparison)
    chosen = [x for x in itertools.combinations(order, 2) if {x, x[::-1]} & pairs]
    few = base is None and len(chosen) <= PAIRS
    return chosen if few else [pair for pair in chosen if pair[0] == order[0]][:MOST_PAIRS]


def list_chart_systems(plotted: Plotted) -> list[str]:
    """Return the systems in the order of the caller."""
    return plotted.systems or ["run"]


def order_systems(plotted: Plotted) -> list[str]:
    """Return the baseline, if any, then the systems by their means of the first metric."""
    base = getattr(getattr(plotted, "settings", None), "baseline", None)
    best = result_of(plotted).best_first or list_chart_systems(plotted)
    return [*dict.fromkeys([base, *best] if base else best)]


def assign_colours(plotted: Plotted) -> dict[str, str]:
    """Give every system a colour: of many, the baseline and the best; the rest are grey."""
    names = coloured = list_chart_systems(plotted)
    if len(names) > len(PALETTE):
        coloured = order_systems(plotted)[: len(PALETTE)]
    colours = dict(zip((name for name in names if name in coloured), PALETTE, strict=False))
    return {name: colours.get(name, GREY) for name in names}


def result_of(plotted: Plotted) -> Result:
    """Return the result that a comparison was made from, or the result itself."""
    result: Any = getattr(plotted, "result", plotted)
    return result  # type: ignore[no-any-return]
