"""Labels that are missing at random: propensity-scored precision and nDCG."""

from __future__ import annotations

import math

import polars as pl

from rankql.expressions.columns import Column, as_floats, check_popularity, column, refuse_values
from rankql.expressions.gain import cg, dcg, idcg
from rankql.expressions.variants import Frame, in_frame_like
from rankql.logs.click_columns import (
    map_values,
    read_positions,
    require_chances,
    require_exact_cutoff,
    require_own_positions,
    select_columns,
)
from rankql.logs.ratios import cutoff_suffix, estimate_ratios, stack_columns
from rankql.registry.argument_checks import (
    as_number,
    is_whole_number,
    normal_z,
    require,
    require_finite,
)


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

    def read_popularity(values: pl.Series) -> pl.Series:
        check_popularity(values, users)
        return values.cast(pl.Float64)

    n = map_values(read_popularity, column(popularity))
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
    require_exact_cutoff(k)
    selected, names = select_columns(frame, s=slice, q=query, c=rel, p=pos, t=propensity)

    def weight(rows: pl.Series) -> pl.Series:
        hit, t = rows.struct.field("hit"), rows.struct.field("t")
        missing = (hit.eq(1) & t.is_null()).any()
        require(not missing, f"{names['t']} must be given where an item is relevant")
        return hit / require_chances(names["t"], t).fill_null(1)

    def graded(values: pl.Series) -> pl.Series:
        grades = as_floats(names["c"], values)
        refuse_values(f"{names['c']} must be a finite number", values, ~grades.is_finite())
        return grades

    hit = map_values(graded, pl.col("c")).ge(threshold).cast(pl.Float64)
    places = read_positions(names["p"])
    weighted = selected.select("s", "q", "t", hit=hit, p=places).with_columns(
        p=require_own_positions(names["q"], names["p"]), w=map_values(weight, pl.struct("hit", "t"))
    )
    best = pl.col("w").fill_null(0).sort(descending=True)
    best = best if k is None else best.head(k)
    ideal = idcg("hit", "p", k).replace(0, None)
    sums = {
        "PSP": (cg("w", "p", k), best.sum().replace(0, None)),
        "PSnDCG": (dcg("w", "p", k) / ideal, idcg("w", "p", k) / ideal),
    }
    metric_lists = [
        [
            pl.lit(i).alias("line"),
            pl.lit(name + cutoff_suffix(k)).alias("metric"),
            pl.col(name).struct.unnest(),
        ]
        for i, name in enumerate(sums)
    ]
    queries = weighted.group_by("s", "q").agg(
        pl.struct(value=value + 0 * part, part=part).alias(name)
        for name, (value, part) in sums.items()
    )
    measurements = stack_columns(queries, metric_lists, "s")
    estimates = estimate_ratios(measurements, ["s", "line", "metric"], reach)
    return in_frame_like(frame, estimates, slice).drop("line")
