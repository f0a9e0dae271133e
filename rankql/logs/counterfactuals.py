"""What the metrics of a new ranking would be, from the clicks on those shown so far."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from rankql.expressions.columns import Column
from rankql.expressions.gain import dcg, idcg, ndcg
from rankql.expressions.ranking import ranking, ratio, stops
from rankql.expressions.variants import Frame, in_frame_like
from rankql.logs.click_columns import (
    NULL_FLOAT,
    corrected_grade,
    map_values,
    read_positions,
    read_predictions,
    require_chances,
    require_exact_cutoff,
    require_own_positions,
    select_columns,
    weigh_clicks,
)
from rankql.logs.ratios import cutoff_suffix, estimate_ratios, stack_columns
from rankql.registry.argument_checks import normal_z, require


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
    require_exact_cutoff(k)
    items = _summarise_items(
        frame, clip, predicted, examination, query, item, click, propensity, pos, slice
    )
    examined = pl.when(pl.col("e").is_not_null()).then(1.0)
    estimators = [
        _estimator_columns(1, "naive", "naive", "ones", e=examined),
        _estimator_columns(2, "IPS", "ips", "whole"),
        *([_estimator_columns(3, "clipped IPS", "clipped", "cut")] if clip is not None else []),
        _estimator_columns(4, "SNIPS", "ips", "whole"),
        *([_estimator_columns(5, "DR", "dr", "cut")] if predicted is not None else []),
    ]
    estimates = stack_columns(items, estimators, "s", "q", "p", "unsupported")
    queries = estimates.group_by("s", "q", "place", "estimator").agg(**_query_metrics(k))
    metric_lists = [
        _metric_columns(1, "DCG", k, "shown", "dcg", "dcg"),
        _metric_columns(2, "nDCG", k, "clicked", "ndcg", "dcg", of="idcg"),
        _metric_columns(3, "RR", k, "shown", "rr", "arhr"),
        *(
            [_metric_columns(4, "CTR", k, "looked", "ctr", "looks")]
            if examination is not None
            else []
        ),
    ]
    diagnostics = ["top", "unsupported", "clicks", "weight", "squares", "largest", "cut"]
    measurements = stack_columns(queries, metric_lists, "s", "place", "estimator", *diagnostics)
    averaged = {name: pl.col(name).filter(pl.col("value").is_not_null()) for name in diagnostics}
    sums = [x.max() if name == "largest" else x.sum() for name, x in averaged.items()]
    keys = ["s", "line", "place", "metric", "estimator"]
    left_out = pl.col("value").null_count().cast(pl.Int64).alias("left_out")
    summary = estimate_ratios(measurements, keys, reach, left_out, *sums)
    size = ratio(pl.col("weight").pow(2), pl.col("squares"))
    unsupported = ratio(pl.col("unsupported"), pl.col("top"))
    summary = summary.select(
        *keys,
        *("value", "lo", "hi", "queries", "left_out"),
        pl.col("clicks").cast(pl.Int64),
        effective_sample_size=size,
        largest_weight="largest",
        clipped=ratio(pl.col("cut"), pl.col("clicks")),
        unsupported=unsupported,
        warning=_warnings(size, unsupported),
    )
    return in_frame_like(frame, summary, slice).drop("line", "place")


def _summarise_items(
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
    rows, names = select_columns(
        frame, s=slice, q=query, i=item, c=click, t=propensity, p=pos, e=examination, r=predicted
    )

    def read_examinations(rows: pl.Series) -> pl.Series:
        e, p = rows.struct.field("e"), rows.struct.field("p")
        missing = examination is not None and (e.is_null() & p.is_not_null()).any()
        require(not missing, f"{names['e']} must be given where {names['p']} is")
        return require_chances(names["e"], e)

    clicks, propensities, divisor = weigh_clicks("c", "t", clip, names["c"], names["t"])
    log = rows.select(
        "s",
        *("q", "i"),
        p=read_positions(names["p"]),
        c=clicks,
        t=propensities,
        d=divisor,
        e=map_values(read_examinations, pl.struct("e", "p")),
        r=read_predictions("r", names["r"]),
    )
    c, t, d, r = map(pl.col, "ctdr")
    items = log.group_by("s", "q", "i").agg(
        pl.col("p", "e").min(),
        pl.col("p", "e").n_unique().name.prefix("different "),
        unsupported=c.count() == 0,
        naive=c.mean(),
        ips=corrected_grade(c, t, t, NULL_FLOAT),
        clipped=corrected_grade(c, t, d, NULL_FLOAT),
        dr=corrected_grade(c, t, d, r),
        ones=_click_weights(c, pl.lit(1.0), pl.lit(1.0)),
        whole=_click_weights(c, t, t),
        cut=_click_weights(c, t, d),
    )

    items = items.with_columns(**{n: _require_single_value(n, names) for n in "pe"})
    return items.with_columns(p=require_own_positions(names["q"], names["p"]))


def _require_single_value(column: str, names: Mapping[str, str]) -> pl.Expr:
    """A column whose value is the same in all rows of a query and item."""

    def check(rows: pl.Series) -> pl.Series:
        for row in rows.filter(rows.struct.field(f"different {column}") > 1).head(1):
            require(
                False,
                f"{names[column]} must be the same in all rows of a query and item: "
                f"{names['i']} {row['i']} of {names['q']} {row['q']} has several",
            )
        return rows.struct.field(column)

    return map_values(check, pl.struct("q", "i", column, f"different {column}"))


def _click_weights(c: pl.Expr, t: pl.Expr, d: pl.Expr) -> pl.Expr:
    """The weights of clicks: their sum, that of their squares, the largest, how many were cut."""
    return pl.struct(
        clicks=c.sum(),
        weight=(c / d).sum(),
        squares=(c / d / d).sum(),
        largest=(c / d).replace(0, None).max(),
        cut=(c * (d > t)).sum(),
    )


def _estimator_columns(
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


def _query_metrics(k: int | None) -> dict[str, pl.Expr]:
    """What is to be known of a query: its metrics NULL where no grade is known."""
    r = ranking("grade", "p", k)
    grade, p, e = r.rel, r.pos, pl.col("e")
    chance = r.top(grade).fill_null(0).sort_by(p)
    looks, shown = r.top(grade * e).sum(), ~pl.col("unsupported").all()
    top = r.shown.sum().cast(pl.Float64)
    diagnostics = {
        name: r.top(pl.col(name)).sum() for name in ("clicks", "weight", "squares", "cut")
    }
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
        **diagnostics,
    }


def _metric_columns(
    place: int, metric: str, k: int | None, counts: str, value: str, sums: str, of: str = "total"
) -> list[pl.Expr]:
    """One metric of a query: its value, or of SNIPS both sums; NULL where it does not count."""
    snips = pl.col("estimator") == "SNIPS"
    known = pl.when(snips).then(pl.col(sums)).otherwise(pl.col(value))
    return [
        pl.lit(place).alias("line"),
        pl.lit(metric + cutoff_suffix(k)).alias("metric"),
        pl.when(pl.col(counts)).then(known).alias("value"),
        pl.when(snips).then(pl.col(of)).otherwise(1.0).alias("part"),
    ]


def _warnings(size: pl.Expr, unsupported: pl.Expr) -> pl.Expr:
    """What is to be watched in an estimate."""
    warnings = [
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
    return pl.concat_str(warnings, separator="; ", ignore_nulls=True).replace("", None)
