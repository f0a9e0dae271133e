"""Debias: what clicks tell of items, once it counts where they were shown; labels that are missing.

An item is clicked if it is looked at and relevant. How likely the slot where it stood is looked at,
its propensity, is that of the position-based model: 1 at position 1. What users click because it
stands high, though they saw that it is not relevant (trust bias), is no part of it. Estimates of
propensities may exceed 1: take the smaller of them and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import polars as pl

from rankql.expressions.columns import (
    Column,
    as_floats,
    check_popularity,
    check_pos,
    column,
    refuse_values,
    require_plain_name,
)
from rankql.expressions.gain import cg, dcg, idcg, ndcg
from rankql.expressions.ranking import ranking, ratio, stops
from rankql.expressions.variants import Frame, in_frame_like, metric, require_columns
from rankql.registry.options import (
    as_number,
    describe,
    is_whole_number,
    normal_z,
    require,
    require_finite,
)


@metric(by=("query", "item"))
def debiased(
    click: Column = "click",
    propensity: Column = "propensity",
    clip: float | None = None,
    predicted: Column | None = None,
) -> pl.Expr:
    """The grade of an item that its clicks tell, freed of the bias of the positions it stood at.

    The mean of click / propensity over the times that it was shown, inverse propensity scoring: its
    expectation is the chance that the item is relevant. With `clip` lower propensities count as
    clip: less noise, but biased downwards. `predicted`, a guess of that chance (0 to 1), takes over
    where clicks do not tell: the mean of predicted + (click - propensity * predicted) /
    max(propensity, clip), or that of predicted where the item was never shown. (Without clip, it
    cancels out wherever the item was shown.) A NULL click is an item that was not shown; NULL where
    it never was. The grades are judgments: `rel` for every metric. Joachims et al. 2017;
    doubly robust: Dudík et al. 2011.

    >>> log = pl.DataFrame({"item": [*"aab"], "click": [1, 0, 1], "propensity": [0.5, 0.5, 1.0]})
    >>> log.pipe(debiased, by="item").sort("item").rows()
    [('a', 1.0), ('b', 1.0)]
    """
    c, t, d = _clicks(click, propensity, clip)
    return _corrected(c, t, d, _NONE if predicted is None else _prediction(predicted))


@metric(by=None)
def effective_sample_size(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """Effective sample size: as many clicks of equal weight would be as good as these.

    The square of the sum of the weights over the sum of their squares; the weight of a click is
    1 / max(propensity, clip). NULL where there is no click. Kish 1965.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(effective_sample_size()).item()
    1.8
    """
    c, _, d = _clicks(click, propensity, clip)
    return ratio((c / d).sum().pow(2), (c / d / d).sum())


@metric(by=None)
def largest_weight(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """The largest weight that a click has: 1 / the propensity of its slot.

    Or 1 / clip where that is less. NULL where there is no click.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(largest_weight()).item()
    2.0
    """
    c, _, d = _clicks(click, propensity, clip)
    return (c / d).replace(0, None).max()


@metric(by=None)
def clipped_share(
    click: Column = "click", propensity: Column = "propensity", clip: float | None = None
) -> pl.Expr:
    """The share of the clicks whose weight is cut off by clip.

    NULL where there is no click.

    >>> log = pl.DataFrame({"click": [1, 1, 0], "propensity": [1.0, 0.5, 0.1]})
    >>> log.select(clipped_share(clip=0.6)).item()
    0.5
    """
    c, t, d = _clicks(click, propensity, clip)
    return ratio((c * (d > t)).sum(), c.sum())


def counterfactual(
    frame: Frame,
    k: int | None = None,
    clip: float | None = None,
    predicted: Column | None = None,
    examination: Column | None = None,
    query: Column = "query",
    item: Column = "item",
    click: Column = "click",
    propensity: Column = "propensity",
    pos: Column = "pos",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> Frame:
    """What DCG, nDCG, RR and CTR of a new ranking would be, from the clicks on those shown so far.

    One row for each time that an item was shown for a query: `click`, `propensity`, that of the
    slot where it stood, and `pos`, where it stands in the new ranking (NULL: nowhere). What the new
    ranking has and the log has not is a row with click NULL. Metrics are taken by query from the
    grades of `debiased` and averaged, over the same queries for every estimator: those of which the
    log shows an item; for nDCG also clicked, for CTR also with an item in the first k.

    - "naive": the clicks as grades, whatever the slot. Biased.
    - "IPS": click / propensity. Unbiased for DCG, CTR and RR if the propensities are right and all
      items were shown; "clipped IPS", with `clip`, is not. nDCG is not linear in the grades: biased
      as long as an item was shown a few times only.
    - "SNIPS": the sum of the discounts of what was clicked, weighted as in IPS, over the sum of the
      weights. Not a DCG but the mean discount of a relevant item (of RR: 1 / pos; of CTR: its
      examination); of nDCG the sum of DCG over that of the ideal. The error falls with the number
      of clicks.
    - "DR", with `predicted`: corrected by the clicks as in `debiased`. Unbiased where IPS is if
      there is no clip, and, clipped or never shown, if the predictions are right too. Right
      predictions do not make up for wrong propensities.

    RR is that of the first relevant item to be expected: the sum over positions of r / pos * the
    product of 1 - r above. Where items were shown once or twice it has no use: the grades, then 0
    or far above 1, are multiplied. CTR, where there is `examination` (the propensity of the new
    position), is the expected share of the items in the first k that are clicked.

    `lo` and `hi` hold the value with this confidence if many queries are as these are; that
    propensities may be estimates does not count in them. `queries` were averaged, `left_out` were
    not. Of the items of the former in the first k: `clicks` on them, their effective sample size,
    the largest weight, the share whose weight was cut; and `unsupported`, the share of the items
    that were never shown, for which all but DR take 0. `warning` says what is dubious. Joachims et
    al. 2017; Swaminathan and Joachims 2015; Dudík et al. 2011.

    >>> log = pl.DataFrame({"query": 1, "item": [*"ab"], "click": [0, 1]})
    >>> new = log.with_columns(propensity=pl.Series([1.0, 0.5]), pos=pl.Series([2, 1]))
    >>> new.pipe(counterfactual, 1).filter(metric="DCG@1").select("estimator", "value").rows()
    [('naive', 1.0), ('IPS', 2.0), ('SNIPS', 1.0)]
    """
    reach = normal_z(confidence)
    _check_cutoff(k)
    items = _items(frame, clip, predicted, examination, query, item, click, propensity, pos, slice)
    looked_at = pl.when(pl.col("e").is_not_null()).then(1.0)
    ways = [
        _way(1, "naive", "naive", "ones", e=looked_at),
        _way(2, "IPS", "ips", "whole"),
        *([_way(3, "clipped IPS", "clipped", "cut")] if clip is not None else []),
        _way(4, "SNIPS", "ips", "whole"),
        *([_way(5, "DR", "dr", "cut")] if predicted is not None else []),
    ]
    estimates = _each(items, ways, "s", "q", "p", "unsupported")
    queries = estimates.group_by("s", "q", "place", "estimator").agg(**_by_query(k))
    lines = [
        _line(1, "DCG", k, "shown", "dcg", "dcg"),
        _line(2, "nDCG", k, "clicked", "ndcg", "dcg", of="idcg"),
        _line(3, "RR", k, "shown", "rr", "arhr"),
        *([_line(4, "CTR", k, "looked", "ctr", "looks")] if examination is not None else []),
    ]
    watched = ["top", "unsupported", "clicks", "weight", "squares", "largest", "cut"]
    measured = _each(queries, lines, "s", "place", "estimator", *watched)
    averaged = {name: pl.col(name).filter(pl.col("value").is_not_null()) for name in watched}
    sums = [x.max() if name == "largest" else x.sum() for name, x in averaged.items()]
    keys = ["s", "line", "place", "metric", "estimator"]
    left_out = pl.col("value").null_count().cast(pl.Int64).alias("left_out")
    found = _estimated(measured, keys, reach, left_out, *sums)
    size = ratio(pl.col("weight").pow(2), pl.col("squares"))
    unsupported = ratio(pl.col("unsupported"), pl.col("top"))
    found = found.select(
        *keys,
        *("value", "lo", "hi", "queries", "left_out"),
        pl.col("clicks").cast(pl.Int64),
        effective_sample_size=size,
        largest_weight="largest",
        clipped=ratio(pl.col("cut"), pl.col("clicks")),
        unsupported=unsupported,
        warning=_warning(size, unsupported),
    )
    return in_frame_like(frame, found, slice).drop("line", "place")


def _items(
    frame: pl.DataFrame | pl.LazyFrame,
    clip: float | None,
    predicted: Column | None,
    examination: Column | None,
    query: Column,
    item: Column,
    click: Column,
    propensity: Column,
    pos: Column,
    slice: Column | None,
) -> pl.LazyFrame:
    """The log with the new ranking by query and item: grades and the weights of clicks."""
    given, names = _given(
        frame, s=slice, q=query, i=item, c=click, t=propensity, p=pos, e=examination, r=predicted
    )

    def examined(rows: pl.Series) -> pl.Series:
        e, p = rows.struct.field("e"), rows.struct.field("p")
        missing = examination is not None and (e.is_null() & p.is_not_null()).any()
        require(not missing, f"{names['e']} must be given where {names['p']} is")
        return _chance(names["e"], e)

    clicked, seen, divisor = _clicks("c", "t", clip, names["c"], names["t"])
    shown = given.select(
        "s",
        *("q", "i"),
        p=_each_row(_position(names["p"]), pl.col("p")),
        c=clicked,
        t=seen,
        d=divisor,
        e=_each_row(examined, pl.struct("e", "p")),
        r=_prediction("r", names["r"]),
    )
    c, t, d, r = map(pl.col, "ctdr")
    items = shown.group_by("s", "q", "i").agg(
        pl.col("p", "e").min(),
        pl.col("p", "e").n_unique().name.prefix("different "),
        unsupported=c.count() == 0,
        naive=c.mean(),
        ips=_corrected(c, t, t, _NONE),
        clipped=_corrected(c, t, d, _NONE),
        dr=_corrected(c, t, d, r),
        ones=_load(c, pl.lit(1.0), pl.lit(1.0)),
        whole=_load(c, t, t),
        cut=_load(c, t, d),
    )

    def sole(rows: pl.Series) -> pl.Series:
        name = rows.struct.fields[2]
        for row in rows.filter(rows.struct.field("different " + name) > 1).head(1):
            require(
                False,
                f"{names[name]} must be the same in all rows of a query and item: "
                f"{names['i']} {row['i']} of {names['q']} {row['q']} has several",
            )
        return rows.struct.field(name)

    items = items.with_columns(
        **{n: _each_row(sole, pl.struct("q", "i", n, f"different {n}")) for n in "pe"}
    )
    return items.with_columns(p=_own_place(names["q"], names["p"]))


def _load(c: pl.Expr, t: pl.Expr, d: pl.Expr) -> pl.Expr:
    """The weights of clicks: their sum, that of their squares, the largest, how many were cut."""
    return pl.struct(
        clicks=c.sum(),
        weight=(c / d).sum(),
        squares=(c / d / d).sum(),
        largest=(c / d).replace(0, None).max(),
        cut=(c * (d > t)).sum(),
    )


def _way(
    place: int, estimator: str, grade: str, load: str, e: pl.Expr | None = None
) -> list[pl.Expr]:
    """One way to estimate, of an item."""
    return [
        pl.lit(place).alias("place"),
        pl.lit(estimator).alias("estimator"),
        pl.col(grade).alias("grade"),
        (pl.col("e") if e is None else e).alias("e"),
        pl.col(load).struct.unnest(),
    ]


def _by_query(k: int | None) -> dict[str, pl.Expr]:
    """What is to be known of a query: its metrics NULL where no grade is known."""
    r = ranking("grade", "p", k)
    grade, p, e = r.rel, r.pos, pl.col("e")
    chance = r.top(grade).fill_null(0).sort_by(p)
    looks, shown = r.top(grade * e).sum(), ~pl.col("unsupported").all()
    top = r.shown.sum().cast(pl.Float64)
    watched = {name: r.top(pl.col(name)).sum() for name in ("clicks", "weight", "squares", "cut")}
    return {
        "shown": shown,
        "clicked": pl.col("clicks").sum() > 0,
        "looked": shown & (top > 0),
        "total": grade.sum(),
        "dcg": dcg("grade", "p", k),
        "ndcg": ndcg("grade", "p", k, negative="keep"),
        "idcg": idcg("grade", "p", k),
        "rr": (stops(chance) / p.sort()).sum(),
        "arhr": r.top(grade / p).sum(),
        "looks": looks,
        "ctr": ratio(looks, top),
        "top": top,
        "unsupported": r.top(pl.col("unsupported")).sum().cast(pl.Float64),
        "largest": r.top(pl.col("largest")).max(),
        **watched,
    }


def _own_place(query: str, pos: str) -> pl.Expr:
    """The positions of a query, once each is known to be of one item."""

    def own(rows: pl.Series) -> pl.Series:
        for row in rows.filter(rows.struct.field("twice")).head(1):
            require(
                False, f"{pos} must be of one item alone: two of {query} {row['q']} have the same"
            )
        return rows.struct.field("p")

    p = pl.col("p")
    twice = (p.is_not_null() & p.is_duplicated()).over("s", "q")
    return _each_row(own, pl.struct("q", "p", twice=twice))


def _line(
    place: int, metric: str, k: int | None, counts: str, value: str, sums: str, of: str = "total"
) -> list[pl.Expr]:
    """One metric of a query: its value, or of SNIPS both sums; NULL where it does not count."""
    snips = pl.col("estimator") == "SNIPS"
    known = pl.when(snips).then(pl.col(sums)).otherwise(pl.col(value))
    return [
        pl.lit(place).alias("line"),
        pl.lit(metric + _at(k)).alias("metric"),
        pl.when(pl.col(counts)).then(known).alias("value"),
        pl.when(snips).then(pl.col(of)).otherwise(1.0).alias("part"),
    ]


def _warning(size: pl.Expr, unsupported: pl.Expr) -> pl.Expr:
    """What is to be watched in an estimate."""
    said = [
        pl.when(pl.col("clicks") == 0)
        .then(pl.lit("there is no click in the first positions"))
        .when(size < 100)
        .then(pl.lit("the effective sample size is below 100")),
        pl.when(pl.col("largest") > 0.1 * pl.col("weight")).then(
            pl.lit("one click has more than 10% of the weight")
        ),
        pl.when(unsupported > 0.1).then(pl.lit("more than 10% of the items were never shown")),
        pl.when(pl.col("queries") < 30).then(pl.lit("the interval rests on fewer than 30 queries")),
    ]
    return pl.concat_str(said, separator="; ", ignore_nulls=True).replace("", None)


def item_propensity(popularity: Column, users: float, a: float = 0.55, b: float = 1.5) -> pl.Expr:
    """The chance that a relevant item is labelled, by how many users have it.

    1 / (1 + (ln(users) - 1) * ((b + 1) / (popularity + b))^a): popularity is the number of users in
    the training data, of `users` in all, who have the item. a = 0.5 and b = 0.4 were fitted to
    Wikipedia, 0.6 and 2.6 to Amazon. Jain, Prabhu and Varma 2016.

    >>> items = pl.DataFrame({"popularity": [0, 10, 1000]})
    >>> items.select(item_propensity("popularity", users=10000).round(3)).to_series().to_list()
    [0.084, 0.22, 0.767]
    """
    require(is_whole_number(users, 3), f"users must be a whole number from 3, not {users}")
    for name, value in {"a": a, "b": b}.items():
        ok = 0 < as_number(value) < float("inf")
        require(ok, f"{name} must be a finite number above 0, not {value}")

    def had(values: pl.Series) -> pl.Series:
        check_popularity(values, users)
        return values.cast(pl.Float64)

    n = _each_row(had, column(popularity))
    missing = (math.log(users) - 1) * ((b + 1) / (n + b)) ** a
    return (1 / (1 + missing)).alias("item_propensity")


def propensity_scored(
    frame: Frame,
    k: int | None = None,
    threshold: float = 1,
    query: Column = "query",
    rel: Column = "rel",
    pos: Column = "pos",
    propensity: Column = "propensity",
    slice: Column | None = None,
    confidence: float = 0.95,
) -> Frame:
    """Precision and nDCG for labels that are missing at random by item, over all rankings at once.

    A relevant item, rel >= threshold, weighs 1 / propensity, the chance that it is labelled where
    it is relevant (`item_propensity`). "PSP": the sum of the weights in the first k over the
    greatest that could stand there. "PSnDCG": likewise of the weights / log2(pos + 1), each query
    divided by the ideal DCG of its labels. A sum of all rankings over a sum, which no mean of
    ratios equals; the interval is that of such a ratio if many queries are as these are. `queries`
    have a relevant item, NULL where none has. Jain, Prabhu and Varma 2016.

    >>> df = pl.DataFrame({"query": 1, "rel": [1, 0, 1], "propensity": [1.0, 1.0, 0.5]})
    >>> df = df.with_columns(pos=pl.Series([1, 2, 3]))
    >>> df.pipe(propensity_scored, 2).select("metric", pl.col("value").round(4), "queries").rows()
    [('PSP@2', 0.3333, 1), ('PSnDCG@2', 0.3801, 1)]
    """
    require_finite("threshold", threshold)
    reach = normal_z(confidence)
    _check_cutoff(k)
    given, names = _given(frame, s=slice, q=query, c=rel, p=pos, t=propensity)

    def weight(rows: pl.Series) -> pl.Series:
        hit, t = rows.struct.field("hit"), rows.struct.field("t")
        missing = (hit.eq(1) & t.is_null()).any()
        require(not missing, f"{names['t']} must be given where an item is relevant")
        return hit / _chance(names["t"], t).fill_null(1)

    def graded(values: pl.Series) -> pl.Series:
        grades = as_floats(names["c"], values)
        refuse_values(f"{names['c']} must be a finite number", values, ~grades.is_finite())
        return grades

    hit = _each_row(graded, pl.col("c")).ge(threshold).cast(pl.Float64)
    places = _each_row(_position(names["p"]), pl.col("p"))
    weighted = given.select("s", "q", "t", hit=hit, p=places).with_columns(
        p=_own_place(names["q"], names["p"]), w=_each_row(weight, pl.struct("hit", "t"))
    )
    best = pl.col("w").fill_null(0).sort(descending=True)
    best = best if k is None else best.head(k)
    ideal = idcg("hit", "p", k).replace(0, None)
    sums = {
        "PSP": (cg("w", "p", k), best.sum().replace(0, None)),
        "PSnDCG": (dcg("w", "p", k) / ideal, idcg("w", "p", k) / ideal),
    }
    lines = [
        [
            pl.lit(i).alias("line"),
            pl.lit(name + _at(k)).alias("metric"),
            pl.col(name).struct.unnest(),
        ]
        for i, name in enumerate(sums)
    ]
    queries = weighted.group_by("s", "q").agg(
        pl.struct(value=value + 0 * part, part=part).alias(name)
        for name, (value, part) in sums.items()
    )
    measured = _each(queries, lines, "s")
    found = _estimated(measured, ["s", "line", "metric"], reach)
    return in_frame_like(frame, found, slice).drop("line")


def _estimated(rows: pl.LazyFrame, keys: list[str], reach: float, *others: pl.Expr) -> pl.LazyFrame:
    """The sum of the values over that of their parts, with its interval, and other sums.

    The interval is that of the sum of what each row adds to the ratio: the delta method.
    """
    value = pl.col("value")
    part = pl.when(value.is_not_null()).then(pl.col("part"))
    rows = rows.with_columns(estimate=ratio(value.sum(), part.sum()).over(keys))
    estimate, n = pl.col("estimate"), value.count().cast(pl.Float64)
    left = (value - estimate * part).pow(2).sum()
    spread = reach * ratio(left * n, n - 1).sqrt() / part.sum()
    found = rows.group_by(keys).agg(
        *others,
        value=estimate.first(),
        lo=estimate.first() - spread,
        hi=estimate.first() + spread,
        queries=value.count().cast(pl.Int64),
    )
    return found.select(
        *keys, "value", "lo", "hi", "queries", pl.exclude(*keys, "value", "lo", "hi", "queries")
    )


def _given(
    frame: pl.DataFrame | pl.LazyFrame, **needed: Column | None
) -> tuple[pl.LazyFrame, dict[str, str]]:
    """The columns under short names, NULL where there is none, and what errors call them."""
    for given in needed.values():
        require_plain_name(given)
    columns = {name: column(given) for name, given in needed.items() if given is not None}
    require_columns(frame, *columns.values())
    names = dict.fromkeys(needed, "") | {n: expr.meta.output_name() for n, expr in columns.items()}
    rows = frame.lazy().select(**(dict.fromkeys(needed, _NONE) | columns))
    types = rows.collect_schema()

    def named(name: str) -> pl.Expr:
        def known(values: pl.Series) -> pl.Series:
            require(values.null_count() == 0, f"{names[name]} must not be NULL")
            return values

        return pl.col(name).map_batches(known, types[name], is_elementwise=True)

    return rows.with_columns(**{name: named(name) for name in ("q", "i") if name in needed}), names


def _each(rows: pl.LazyFrame, ways: Iterable[list[pl.Expr]], *keys: str) -> pl.LazyFrame:
    """The rows once for each of the ways, with its columns beside the keys."""
    return pl.concat([rows.select(*keys, *way) for way in ways])


def _each_row(function: Callable[[pl.Series], pl.Series], rows: pl.Expr) -> pl.Expr:
    return rows.map_batches(function, pl.Float64, is_elementwise=True)


def _check_cutoff(k: int | None) -> None:
    """The cutoffs that a position can be compared with exactly."""
    sound = k is None or as_number(k) <= _HIGHEST
    require(
        sound,
        f"k must be a whole number from 1, or left out for the whole ranking; not {describe(k)}",
    )


def _at(k: int | None) -> str:
    return "" if k is None else f"@{int(k)}"


_NONE = pl.lit(None, pl.Float64)
_HIGHEST = 2**53


def _corrected(c: pl.Expr, t: pl.Expr, d: pl.Expr, r: pl.Expr) -> pl.Expr:
    """The grade of an item: the prediction, corrected by what the clicks say otherwise."""
    guess = r.fill_null(0)
    return pl.coalesce((guess + (c - t * guess) / d).mean(), r.mean())


def _clicks(
    click: Column, propensity: Column, clip: float | None, *names: str
) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """The clicks as 1 and 0, the propensities, and what clicks are divided by."""
    if clip is not None:
        require(0 < as_number(clip) <= 1, f"clip must be above 0 and at most 1, not {clip}")
    click_name, propensity_name = names or ("click", "propensity")

    def clicked(values: pl.Series) -> pl.Series:
        return check_clicks(values, click_name)

    def seen(rows: pl.Series) -> pl.Series:
        shown, chance = rows.struct.field("c").is_not_null(), rows.struct.field("t")
        require(
            not (shown & chance.is_null()).any(),
            f"{propensity_name} must be given where an item was shown; "
            "estimate it, or leave such rows out",
        )
        return _chance(propensity_name, chance)

    c = _each_row(clicked, column(click))
    t = _each_row(seen, pl.struct(c=column(click), t=column(propensity)))
    return c, t, t if clip is None else t.clip(lower_bound=float(clip))


def check_clicks(values: pl.Series, name: str = "click") -> pl.Series:
    """Clicks as 1 and 0, NULL where there is none."""
    clicks = as_floats(name, values, "0 or 1")
    refuse_values(f"{name} must be 0 or 1", values, ~clicks.is_in([0.0, 1.0]))
    return clicks


def _chance(name: str, values: pl.Series) -> pl.Series:
    """Chances that can be divided by."""
    chances = as_floats(name, values)
    fit = chances.is_finite() & (chances > 0) & (chances <= 1)
    refuse_values(f"{name} must be above 0 and at most 1", values, ~fit)
    return chances


def _prediction(predicted: Column, name: str = "predicted") -> pl.Expr:
    def sound(values: pl.Series) -> pl.Series:
        guesses = as_floats(name, values)
        refuse_values(f"{name} must lie between 0 and 1", values, ~guesses.is_between(0, 1))
        return guesses

    return _each_row(sound, column(predicted))


def _position(name: str) -> Callable[[pl.Series], pl.Series]:
    def whole(values: pl.Series) -> pl.Series:
        check_pos(values, name)
        exact = values if values.dtype == pl.UInt64 else values.cast(pl.Int64, strict=False)
        beyond = (values.cast(pl.Float64) > _HIGHEST) | (exact > _HIGHEST)
        refuse_values(f"{name} must be a whole number from 1", values, beyond)
        return values.cast(pl.Float64)

    return whole
