"""The charts of a comparison or a result, by altair: a panel each, or all of a kind together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import altair as alt
import polars as pl

from rankql import text as show
from rankql.errors import RankqlError, did_you_mean
from rankql.registry.parse import parse

if TYPE_CHECKING:
    from rankql.decisions.association import Association
    from rankql.decisions.comparison import Comparison
    from rankql.evaluation.result import Result

Shown: TypeAlias = "Comparison | Result"

# About 4:1 on white and on near black, told apart by the colour-blind; further systems are grey.
PALETTE = ("#2b7fc4", "#d1601f", "#12936b", "#b266ad",
           "#97790b", "#2397ab", "#c9506a", "#6f74d6")  # fmt: skip
GREY = "#7d8590"
# Of more queries one bar stands for several; of more slices, pairs and metrics the first are drawn.
BARS, SLICES, PAIRS, METRICS = 300, 40, 6, 6
# Of what a chart shows so much is said in words, too.
SAID = 6
BINS = 20
# Of more keys so many are drawn, taken at random.
POINTS = 2000
WIDTH, HEIGHT, ROW = 480, 260, 36

# Colours in the middle, for there is no telling whether it is drawn on white or on black.
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "color": GREY, "fontSize": 13, "limit": WIDTH},
    "axis": {
        "domain": False, "ticks": False, "grid": False, "gridColor": GREY, "gridOpacity": 0.25,
        "labelColor": GREY, "labelFontSize": 12, "labelPadding": 6, "labelLimit": 180,
        "labelSeparation": 8, "labelFlush": False,
        "titleColor": GREY, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "legend": {"orient": "top", "title": None, "labelColor": GREY, "labelFontSize": 12},
    "text": {"color": GREY, "fontSize": 12},
}  # fmt: skip


def means(shown: Shown, metric: str) -> alt.LayerChart:
    """The mean of every system, the best first, or of every slice of the only one."""
    name = "system"
    frame = _summary(shown).filter(pl.col("metric") == metric).drop_nulls("mean")
    if len(systems(shown)) == 1 and frame["slice"].n_unique() > 1:
        name, frame = "slice", frame.head(SLICES)
    else:
        frame = frame.filter(pl.col("slice") == "all")
        lower = _result(shown).lower_is_better(metric)
        frame = frame.sort("mean", descending=not lower, maintain_order=True)
    frame = frame.select(name, "mean", "lo", "hi", "queries")
    colour = _colour(shown) if name == "system" else alt.value(PALETTE[0])
    said = _listed([f"{row[0]} {interval(row[1:4])}" for row in frame.rows()])
    return _dots(frame, "mean", f"{metric}: means", colour, f"Means of {metric}: {said}")


def intervals(comparison: Comparison, metric: str) -> alt.LayerChart:
    """The difference of every pair, with its interval."""
    base, title = comparison.settings.baseline, f"{metric}: difference"
    label = pl.format("{}\n− {}", "b", "a") if base is None else pl.col("b")
    wanted = pl.DataFrame(pairs(comparison), schema=["a", "b"], orient="row")
    frame = wanted.join(_tested(comparison, metric, "all"), on=["a", "b"], maintain_order="left")
    title += "" if base is None else f" from {base}"
    return _differences(comparison, frame.select(label.alias("pair"), *_SHOWN), title, frame)


def slices(comparison: Comparison, metric: str, a: str, b: str) -> alt.LayerChart:
    """The difference of one pair in every slice, with its interval."""
    parts = comparison.table["slice"].unique(maintain_order=True).head(SLICES).to_list()
    table = _tested(comparison, metric).filter(pl.col("slice").is_in(parts))
    wanted = pl.DataFrame([*pairs(comparison), (a, b)], schema=["a", "b"], orient="row")
    drawn = table.join(wanted, on=["a", "b"], how="semi")
    frame = table.filter(pl.col("a") == a, pl.col("b") == b).select("slice", *_SHOWN)
    return _differences(comparison, frame, f"{metric}: {b} − {a}", drawn)


_SHOWN = ("difference", "lo", "hi", "n", "verdict", "b")


def _tested(comparison: Comparison, metric: str, part: str | None = None) -> pl.DataFrame:
    table = comparison.table.filter(pl.col("metric") == metric).drop_nulls("difference")
    return table if part is None else table.filter(pl.col("slice") == part)


def _differences(
    comparison: Comparison, frame: pl.DataFrame, title: str, alike: pl.DataFrame
) -> alt.LayerChart:
    """Differences on the scale that all alike have."""
    said = _listed([f"{row[0]} {interval(row[1:4], '+')}, {row[5]}" for row in frame.rows()])
    colour = _colour(comparison, "b")
    ends = [0.0, *(v for name in _SHOWN[:3] for v in alike[name].drop_nulls().to_list())]
    reach = [min(ends), max(ends)]
    return _dots(frame, "difference", title, colour, f"{title}: {said}", reach)


def _dots(
    frame: pl.DataFrame,
    value: str,
    title: str,
    colour: Any,
    said: str,
    reach: list[float] | None = None,
) -> alt.LayerChart:
    """A row for each line of the frame: a dot on its interval, and the number above."""
    name = frame.columns[0]
    base = alt.Chart().encode(y=_rows(name, frame[name]), color=colour, tooltip=_tooltip(frame))
    scale = alt.Scale(zero=False, padding=24, domain=alt.Undefined if reach is None else reach)
    bare = frame[value].null_count() == len(frame) or frame["lo"].null_count() == len(frame)
    x = [alt.X(field, type="quantitative", title=None, scale=scale) for field in (value, "lo")]
    text = alt.Text(value, type="quantitative", format=".3f" if reach is None else "+.3f")
    layers = [
        *([] if reach is None else [_line("x")]),
        *([] if bare else [base.mark_rule(strokeWidth=3, opacity=0.5).encode(x[1], x2="hi")]),
        base.mark_point(filled=True, size=70, opacity=1).encode(x[0]),
        base.mark_text(dy=-11).encode(x[0], text=text, color=alt.value(GREY)),
    ]
    return _panel(layers, frame, title, said, ROW * len(frame))


def differences(comparison: Comparison, metric: str, a: str, b: str) -> alt.LayerChart:
    """What every query gained from a to b, the most lost first."""
    frame = comparison.differences(metric, a, b)
    gain = pl.col("difference") * (-1 if comparison.result.lower_is_better(metric) else 1)
    key, count = frame.columns[0], len(frame)
    rows = frame.select(pl.col(key).cast(pl.String).alias("query"), "a", "b", "difference")
    won = rows.select(better=(gain > 0).sum(), worse=(gain < 0).sum()).row(0)
    if count > BARS:
        group = (pl.int_range(pl.len()) * BARS // count).alias("group")
        rows = rows.group_by(group, maintain_order=True).agg(
            pl.len().alias("queries"), pl.col("a", "b", "difference").mean()
        )
    else:
        rows = rows.with_columns(queries=pl.lit(1, pl.Int64))
    to = pl.col("queries").cum_sum()
    rows = rows.with_columns((to - pl.col("queries")).alias("from"), to.alias("to"))
    if count > BARS:
        label = pl.format("{} to {}", pl.col("from") + 1, "to")
        rows = rows.select(label.alias("queries"), "a", "b", "difference", "from", "to")
    winner = pl.when(gain > 0).then(pl.lit(b)).otherwise(pl.lit(a)).alias("better")
    rows = rows.with_columns(winner).drop("queries" if count <= BARS else [])
    mean = 0.0 if count == 0 else float(frame.select(pl.col("difference").mean()).item())
    said = (
        f"{metric}, {b} against {a}: better on {won[0]:,} of {count:,} queries, worse on "
        f"{won[1]:,}, the same on {count - sum(won):,}"
    )
    if count:
        ends = frame.select(least=pl.col("difference").min(), most=pl.col("difference").max())
        least, most = ends.row(0)
        said += f"; from {least:+.3f} to {most:+.3f}, mean {mean:+.3f}"
    place = alt.Axis(format=",d", tickMinStep=1)
    reach = alt.Scale(domain=_reach(comparison, metric, [*pairs(comparison), (a, b)]))
    title = f"{count:,} queries, sorted by what they gain"
    bars = alt.Chart().mark_rect(stroke=None).encode(
        alt.X("from:Q", title=title, axis=place, scale=alt.Scale(nice=False)),
        alt.X2("to"),
        alt.Y("difference:Q", title="difference", axis=_grid(), scale=reach),
        alt.Y2(datum=0),
        color=_colour(comparison, "better"),
        tooltip=_tooltip(rows.drop("from", "to", "better")),
    )  # fmt: skip
    average = alt.Chart(_inline([{"mean": mean, "words": f"mean {mean:+.3f}"}])).encode(y="mean:Q")
    # Beside the bars, which are below 0 at the left and above at the right.
    left: dict[str, Any] = {"align": "left", "dx": 4, "dy": -8}
    right: dict[str, Any] = {"align": "right", "dx": -4, "dy": 12}
    words = average.mark_text(**(left if mean >= 0 else right)).encode(text="words:N")
    layers = [
        bars,
        _line("y"),
        average.mark_rule(strokeDash=[5, 3], strokeWidth=1.5, color=GREY),
        words.encode(x=alt.value(0) if mean >= 0 else alt.value("width")),
    ]
    return _panel(layers, rows, f"{metric}: {b} − {a}", said, HEIGHT)


def _reach(comparison: Comparison, metric: str, drawn: Sequence[tuple[str, str]]) -> list[float]:
    """The least and the greatest difference of a query in all that are drawn."""
    values = {
        name: part.sort(comparison.result.meta["query"])[metric]
        for (name,), part in comparison.per_query.group_by("system")
    }
    gains = [(values[b] - values[a]).drop_nulls().to_numpy() for a, b in drawn]
    ends = [0.0, *(float(end) for gain in gains if len(gain) for end in (gain.min(), gain.max()))]
    return [min(ends), max(ends)]


def distribution(shown: Shown, metric: str) -> alt.LayerChart:
    """How the values of the queries are spread in every system: thick where many are."""
    value = pl.col("value")
    rows = _per_query(shown).select("system", value=pl.col(metric)).filter(value.is_finite())
    ends = rows.select(least=value.min(), most=value.max())
    least, most = ends.row(0) if len(rows) else (0.0, 1.0)
    lo, hi = (0.0, 1.0) if least >= 0 and most <= 1 else (least, max(most, least + 1e-6))
    place = ((value - lo) * BINS / (hi - lo)).floor().clip(0, BINS - 1)
    edge = lo + pl.col("bin") * (hi - lo) / BINS
    bins = (
        rows.group_by("system", bin=place)
        .agg(queries=pl.len())
        .sort("system", "bin")
        .with_columns(share=pl.col("queries") / pl.col("queries").sum().over("system"))
        .select("system", edge.alias("from"), (edge + (hi - lo) / BINS).alias("to"),
                "queries", "share")
    )  # fmt: skip
    frame = (
        rows.group_by("system")
        .agg(
            value.mean().alias("mean"),
            value.min().alias("lowest"),
            value.quantile(0.25, "linear").alias("lower quarter"),
            value.median().alias("median"),
            value.quantile(0.75, "linear").alias("upper quarter"),
            value.max().alias("highest"),
            pl.len().alias("queries"),
        )
        .sort("mean", "system", descending=[not _result(shown).lower_is_better(metric), False])
    )
    said = _listed(
        [
            f"{row['system']} {row['median']:.3f} "
            f"({row['lower quarter']:.3f} to {row['upper quarter']:.3f})"
            for row in frame.to_dicts()
        ]
    )
    y = _rows("system", frame["system"])
    scale = alt.Scale(domain=[lo, hi], nice=False)
    thick = alt.Size("share:Q", scale=alt.Scale(domainMin=0, range=[0, ROW - 4]), legend=None)
    layers = [
        alt.Chart(_inline(bins.to_dicts())).mark_bar(opacity=0.4).encode(
            alt.X("from:Q", title=None, scale=scale), alt.X2("to"), y=y, size=thick,
            color=_colour(shown), tooltip=_tooltip(bins),
        ),
        alt.Chart().mark_tick(thickness=3, size=ROW - 6, opacity=1).encode(
            alt.X("median:Q"), y=y, color=_colour(shown), tooltip=_tooltip(frame)
        ),
    ]  # fmt: skip
    words = f"{metric}, median and middle half of the queries: {said}"
    return _panel(layers, frame, f"{metric}: distribution", words, ROW * len(frame))


def cutoffs(comparison: Comparison, metric: str) -> alt.LayerChart:
    """The means by cutoff."""
    curves = comparison.cutoffs(metric)
    at = {name: parse(name)[0].k for name in curves.metrics}
    k = pl.col("metric").replace_strict(at, return_dtype=pl.Int64).alias("k")
    frame = _summary(curves).filter(pl.col("slice") == "all").drop_nulls("mean")
    frame = frame.select("system", k, "mean", "lo", "hi", "queries").sort("k", maintain_order=True)
    ks = sorted(k for k in at.values() if k is not None)
    named = pl.col("system").is_in([name for name, c in colours(comparison).items() if c != GREY])
    ends = frame.filter(pl.col("k") == ks[-1], named).sort("mean")
    room = max(frame["mean"].to_list(), default=0.0) - min(frame["mean"].to_list(), default=0.0)
    places = pl.Series("place", _apart(ends["mean"].to_list(), room * 0.06), pl.Float64)
    labels = ends.select("system", "k").with_columns(places)
    rows = [
        f"{name} {part['mean'][0]:.3f} at {part['k'][0]}, {part['mean'][-1]:.3f} at {part['k'][-1]}"
        for (name,), part in frame.group_by("system", maintain_order=True)
    ]
    title = metric.rpartition("@")[0] or metric
    share = 0.06 + 0.014 * min(24, max(map(len, systems(comparison))))
    far = ks[-1] * (ks[-1] / ks[0]) ** (share / (1 - share))  # room for the names
    x = alt.X("k:Q", title="cutoff k", axis=alt.Axis(values=ks, format=",d"),
              scale=alt.Scale(type="log", domain=[ks[0], far], nice=False))  # fmt: skip
    y = alt.Y("mean:Q", title=f"{title}@k", scale=alt.Scale(zero=False), axis=_grid())
    base = alt.Chart().encode(x, y, color=_colour(comparison), detail="system:N")
    layers = [
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=_tooltip(frame)),
        alt.Chart(_inline(labels.to_dicts())).mark_text(align="left", dx=9, limit=160).encode(
            x, y="place:Q", text="system:N", color=_colour(comparison)
        ),
    ]  # fmt: skip
    return _panel(layers, frame, f"{title}@k", f"{title} by cutoff: {_listed(rows)}", HEIGHT + 40)


def sensitivity(comparison: Comparison, frame: pl.DataFrame, metric: str) -> alt.LayerChart:
    """What a swap of neighbours changes, by position; the frame is that of `limits`."""
    frame = _with_system(frame, comparison).filter(pl.col("metric") == metric)
    frame = frame.select("system", "position", "loss", "queries").drop_nulls("loss")
    worst = frame.sort("loss", descending=True).group_by("system", maintain_order=True).first()
    said = _listed(
        [
            f"{system} most by a swap of {place} and {place + 1}, {loss:.3f} on average"
            for system, place, loss, _ in worst.rows()
        ]
    )
    last = max([1, *frame["position"]])
    colour = _colour(comparison, legend=True)
    base = alt.Chart().encode(
        alt.X("position:Q", title="position swapped with the next", scale=alt.Scale(nice=False),
              axis=alt.Axis(format=",d", tickMinStep=1, tickCount=min(last, 10))),
        alt.Y("loss:Q", title=f"change of {metric}", axis=_grid()),
        color=colour, detail="system:N", tooltip=_tooltip(frame),
    )  # fmt: skip
    layers = [
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1),
    ]
    return _panel(layers, frame, f"{metric}: swaps", f"{metric} is moved: {said}", HEIGHT)


def scatter(association: Association, metric: str, outcome: str) -> alt.LayerChart:
    """The outcome of every key by its metric, coloured by slice; of many keys a sample."""
    frame = association.pairs.drop_nulls([metric, outcome])
    by = [pl.concat_str(pl.lit(f"{name}="), pl.col(name).cast(pl.String).fill_null("NULL"))
          for name in _first(association.groupings)]  # fmt: skip
    part = pl.concat_str(by, separator=", ") if by else pl.lit("all")
    drawn = frame.select(x=metric, y=outcome, slice=part)
    if len(drawn) > POINTS:
        drawn = drawn.sample(POINTS, seed=7)
    names = drawn["slice"].unique().sort().to_list()
    known = dict(zip(names, PALETTE, strict=False))
    scale = alt.Scale(domain=names, range=[known.get(name, GREY) for name in names])
    key = alt.Legend(values=list(known), columns=4) if len(names) > 1 else None
    points = alt.Chart().mark_point(filled=True, size=35, opacity=0.6).encode(
        alt.X("x:Q", title=association.called(metric), scale=alt.Scale(zero=False), axis=_grid()),
        alt.Y("y:Q", title=association.called(outcome), scale=alt.Scale(zero=False), axis=_grid()),
        color=alt.Color("slice:N", scale=scale, legend=key), tooltip=_tooltip(drawn),
    )  # fmt: skip
    pooled = association.table.filter(metric=metric, outcome=outcome, slice="all")
    return _panel([points], drawn, f"{outcome} by {metric}", pooled["sentence"][0], HEIGHT)


def correlations(association: Association, metric: str, outcome: str) -> alt.LayerChart:
    """Pearson's coefficient over all, within slices, and in every slice."""
    table = association.table.filter(metric=metric, outcome=outcome).drop_nulls("pearson")
    value = pl.col("pearson")
    frame = table.head(SLICES).select(
        "slice", value.alias("r"), lo="pearson_lo", hi="pearson_hi", n="n"
    )
    said = _listed([f"{row[0]} {interval(row[1:4], '+')}" for row in frame.rows()])
    title = f"{metric} and {outcome}: Pearson's r"
    return _dots(frame, "r", title, alt.value(PALETTE[0]), f"{title}: {said}", [-1.0, 1.0])


def quadrants(association: Association, metric: str, outcome: str) -> alt.LayerChart:
    """The share of the keys by which way metric and outcome moved."""
    found = association.quadrants(metric, outcome)
    ways = ["down", "same", "up"]
    base = alt.Chart().encode(
        alt.X("metric:N", title=metric, scale=alt.Scale(domain=ways), axis=alt.Axis(labelAngle=0)),
        alt.Y("outcome:N", title=outcome, scale=alt.Scale(domain=ways[::-1])),
        tooltip=_tooltip(found.table),
    )
    opacity = alt.Opacity("share:Q", scale=alt.Scale(domainMin=0, range=[0.05, 0.4]), legend=None)
    layers = [
        base.mark_rect().encode(opacity, color=alt.value(PALETTE[0])),
        base.mark_text(fontSize=13).encode(text=alt.Text("share:Q", format=".0%")),
    ]
    title = f"Change of {metric} and {outcome}"
    return _panel(layers, found.table, title, "; ".join(found.sentences), HEIGHT)


def _first(groups: Sequence[Sequence[str]]) -> Sequence[str]:
    return groups[0] if groups else []


# All panels of a kind


def of_association(
    association: Association, kind: str, metric: str, outcome: str
) -> alt.TopLevelMixin:
    """The panel of a kind."""
    draw = {"scatter": scatter, "slices": correlations, "quadrants": quadrants}
    _check(kind, list(draw))
    return draw[kind](association, metric, outcome)


def of_comparison(
    comparison: Comparison, kind: str, metric: str | None, a: str | None, b: str | None
) -> alt.TopLevelMixin:
    """The panels of a kind together."""
    kinds = ("differences", "means", "intervals", "distribution", "slices", "cutoffs")
    _check(kind, kinds)
    metrics = _metrics(comparison, metric)
    if kind == "cutoffs":
        return cutoffs(comparison, metrics[0])
    if kind in ("means", "distribution"):
        return of_result(comparison, kind, metric)
    if kind == "intervals":
        return _together([intervals(comparison, name) for name in metrics])
    draw: Callable[[Comparison, str, str, str], alt.LayerChart]
    draw = slices if kind == "slices" else differences
    wanted = pairs(comparison) if a is None and b is None else [_pair(comparison, a, b)]
    return _together([draw(comparison, name, *pair) for name in metrics for pair in wanted])


def of_result(shown: Shown, kind: str, metric: str | None) -> alt.TopLevelMixin:
    """The means or the distributions together."""
    _check(kind, ("means", "distribution"))
    draw = means if kind == "means" else distribution
    return _together([draw(shown, name) for name in _metrics(shown, metric)])


def _check(kind: str, kinds: Sequence[str]) -> None:
    if kind not in kinds:
        raise RankqlError(f"kind: there is no plot {kind!r}{did_you_mean(kind, kinds)}")


def _together(panels: Sequence[alt.LayerChart]) -> alt.TopLevelMixin:
    if not panels:
        raise RankqlError("there is nothing to plot: no pair was compared")
    if len(panels) == 1:
        return panels[0]
    bare = [panel.copy() for panel in panels]
    for panel in bare:
        panel.config = alt.Undefined
    chart: alt.TopLevelMixin = alt.concat(*bare, columns=2).configure(**CONFIG)
    return chart


def _metrics(shown: Shown, metric: str | None) -> list[str]:
    if metric is None:
        return shown.metrics[:METRICS]
    known = _result(shown)
    if metric in known.metrics:
        return [metric]
    names = [each.under(known.conventions).name for each in parse(metric)]
    for name in names:
        if name not in known.metrics:
            raise RankqlError(f"{name!r} was not evaluated{did_you_mean(name, known.metrics)}")
    return names


def _pair(comparison: Comparison, a: str | None, b: str | None) -> tuple[str, str]:
    base = comparison.settings.baseline
    a = base if a is None else a
    if a is None or b is None:
        raise RankqlError("name both systems of the pair: a= and b=")
    return a, b


def pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """The pairs that are drawn: with the baseline or, of many, with the best system."""
    every = list(dict.fromkeys(comparison.table.select("a", "b").rows()))
    if len(every) <= PAIRS and comparison.settings.baseline is None:
        return every
    order = ordered(comparison)
    first = comparison.settings.baseline or order[0]
    some = [pair for name in order for pair in ((first, name), (name, first)) if pair in {*every}]
    return some[:PAIRS]


def systems(shown: Shown) -> list[str]:
    """The systems, in the order in which they were given."""
    if _compared(shown):
        return shown.systems
    result = _result(shown)
    if not result.meta["system"]:
        return ["run"]
    names: list[str] = result.frame()["system"].unique(maintain_order=True).to_list()
    return names


def ordered(shown: Shown) -> list[str]:
    """The systems by their means of the first metric, the best first."""
    first = shown.metrics[0]
    rows = _summary(shown).filter(pl.col("slice") == "all", pl.col("metric") == first)
    known = dict(rows.select("system", "mean").rows())
    sign = 1 if _result(shown).lower_is_better(first) else -1
    return sorted(systems(shown), key=lambda name: _last(known.get(name), sign))


def _last(mean: float | None, sign: int) -> float:
    return math.inf if mean is None else sign * mean


def colours(shown: Shown) -> dict[str, str]:
    """The colour of every system: of many, the baseline and the best have one."""
    names = systems(shown)
    kept = names
    if len(names) > len(PALETTE):
        base = shown.settings.baseline if _compared(shown) else None
        best = [name for name in ordered(shown) if name != base]
        kept = [*([] if base is None else [base]), *best][: len(PALETTE)]
    found = dict(zip((name for name in names if name in kept), PALETTE, strict=False))
    return {name: found.get(name, GREY) for name in names}


# What the panels are made of


def _compared(shown: Shown) -> TypeGuard[Comparison]:
    return hasattr(shown, "settings")


def _result(shown: Shown) -> Result:
    return shown.result if _compared(shown) else cast("Result", shown)


def _with_system(frame: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    if "system" in frame.columns:
        return frame
    return frame.select(pl.lit(systems(shown)[0]).alias("system"), pl.all())


def _summary(shown: Shown) -> pl.DataFrame:
    return _with_system(_result(shown).summary, shown)


def _per_query(shown: Shown) -> pl.DataFrame:
    return _with_system(_result(shown).per_query, shown)


def _panel(
    layers: Sequence[alt.Chart], frame: pl.DataFrame, title: str, said: str, height: float
) -> alt.LayerChart:
    """The layers over the rows of a frame."""
    chart = alt.layer(*layers, data=_inline(frame.to_dicts()))
    chart = chart.properties(
        width=WIDTH, height=max(height, ROW), title=title, description=said + "."
    )
    configured: alt.LayerChart = chart.configure(**CONFIG)
    return configured


def _inline(rows: Sequence[dict[str, Any]]) -> alt.InlineData:
    """Rows within the chart: six digits of a number, and none where it is none."""
    values = [{name: _short(value) for name, value in row.items()} for row in rows]
    return alt.InlineData(values=values)


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rows(field: str, names: pl.Series) -> alt.Y:
    lines = alt.Axis(labelExpr="split(datum.label, '\\n')")
    # Not sort=: the names would stand in an expression, which some characters break.
    scale = alt.Scale(domain=names.to_list())
    return alt.Y(field, type="nominal", scale=scale, title=None, axis=lines)


def _grid() -> alt.Axis:
    return alt.Axis(grid=True, titleLimit=HEIGHT, tickCount=6)


def _colour(shown: Shown, field: str = "system", legend: bool = False) -> alt.Color:
    known = colours(shown)
    names, values = [*known], [*known.values()]
    named = [name for name, value in known.items() if value != GREY]
    key = alt.Legend(values=named, symbolType="stroke", columns=4) if legend and named[1:] else None
    scale = alt.Scale(domain=names, range=values)
    return alt.Color(field, type="nominal", scale=scale, legend=key)


def _tooltip(frame: pl.DataFrame) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(name, type="quantitative", format=".4f" if kind.is_float() else ",d")
        if kind.is_numeric()
        else alt.Tooltip(name, type="nominal")
        for name, kind in frame.schema.items()
    ]


def _line(axis: str) -> alt.Chart:
    """The line of no difference."""
    chart = alt.Chart(_inline([{"zero": 0}])).mark_rule(color=GREY, strokeWidth=1)
    placed: alt.Chart = chart.encode(x="zero:Q") if axis == "x" else chart.encode(y="zero:Q")
    return placed


def _apart(values: Sequence[float], gap: float) -> list[float]:
    """Places for labels of ascending values, none nearer to the next than the gap."""
    places: list[float] = []
    for value in values:
        places.append(max(value, places[-1] + gap) if places else value)
    shift = sum(place - value for place, value in zip(places, values, strict=True))
    return [place - shift / len(values) for place in places] if values else []


def _listed(words: Sequence[str]) -> str:
    more = f"; and {len(words) - SAID} more" if len(words) > SAID else ""
    return "; ".join(words[:SAID]) + more


def interval(bounds: Sequence[Any], sign: str = "") -> str:
    """A mean with its interval, as text: three digits, or two of the interval."""
    mean, lo, hi = bounds
    if mean is None:
        return "undefined"
    if lo is None or hi is None:
        return f"{mean:{sign}z.3f}"
    return show.estimate(mean, lo, hi, 3, sign)
