"""The means of values per query by system and slice.

They are computed in SQL; another engine adds up the values and passes the moments of each group.
Weights of queries leave no interval there: its standard error leaves out one query at a time, which
no sum can give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.core.base.errors import RankqlError, require_probability
from rankql.core.base.text import format_count
from rankql.core.evaluation.plan.meta import BOTH, MISSED, Meta, left_out_if, undefined_value
from rankql.core.metrics import parse
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.core.stats.means import Moments, adjusted_skewness, mean_interval
from rankql.core.tables.frames import read_frame, register_frame
from rankql.core.tables.private import create_macros, private_connection

_SUMMARY = (
    *("system", "slice", "metric", "mean", "lo", "hi", "queries", "undefined", "missing", "n_eff"),
)
# Columns beside the summary: are the values too skewed for their number, and the standard error of
# the mean, NULL for equal values.
SKEWED, ERROR = f"{INTERNAL_PREFIX}skewed", f"{INTERNAL_PREFIX}error"
# The number of queries in a mean; of one of all rankings at once, that of all queries.
COUNTED = f"{INTERNAL_PREFIX}counted"
# The ends of an interval, and whether the values are too skewed for their number.
Ends: TypeAlias = tuple[float | None, float | None, bool]
NO_INTERVAL: Ends = (None, None, False)


def require_interval(interval: str | None, confidence: float, *more: str) -> None:
    """Refuse an unknown interval or a confidence out of range."""
    known = ("auto", "t", *more, None)
    if not isinstance(interval, str | None) or interval not in known:
        listed = ", ".join(map(repr, known[:-1]))
        raise RankqlError(f"interval must be {listed} or None, not {interval!r}")
    require_probability("confidence", confidence)


def summarise(
    con: duckdb.DuckDBPyConnection, meta: Meta, interval: str | None, confidence: float,
    groups: str = "",
) -> pl.DataFrame:  # fmt: skip
    """The summary of the values per query in `rows`, a table of the connection.

    groups: a table with the moments of `counted_values_sql` by system, slice and metric, if another
    engine has taken them, which has no jackknife. The summary has the column `ERROR` if there is an
    interval.
    """
    jackknife = not groups
    groups = groups or f"({create_macros(con, _groups_sql(meta, interval))})"
    attributes, systems = sliced_attributes(meta), system_columns(meta)
    label, order = slice_columns(attributes, lambda column: f"{absent_column(column)} = 0")
    # `values_sql` has squares or logarithms of some metrics.
    mean = "coalesce(total / nullif(weights, 0), most)"
    kinds = {"root": f"sqrt({mean})", "geometric": f"exp({mean})", "sum": "total"}
    overall = [parse.record_of(name).overall for name in meta.metrics]
    for kind, value in kinds.items():
        listed = [str(i) for i, each in enumerate(overall) if each == kind]
        if listed:
            mean = f"CASE WHEN i IN ({', '.join(listed)}) THEN {value} ELSE {mean} END"
    mean = f"CASE WHEN micro OR {meta.weight is not None} THEN {mean} ELSE mean END"
    differ = "NOT micro AND least < most"
    error = f"CASE WHEN {differ} THEN sqrt(variance / nullif(n - 1, 0)) WHEN NOT micro THEN 0 END"
    columns = {"error": error, "df": "n - 1", "skewness": f"CASE WHEN {differ} THEN skewness END"}
    if interval is None or meta.weight:
        known = jackknife and interval is not None
        columns = {x: f"jackknife.{x}" if known else "NULL" for x in columns}
    numbers = ", ".join(f"CAST({sql} AS DOUBLE) AS {name}" for name, sql in columns.items())
    means = read_frame(
        con,
        f"""
        SELECT {", ".join([*systems, f"{label} AS slice", *attributes.values()])}, i,
               CASE WHEN least = most AND NOT micro THEN least ELSE {mean} END AS mean, {numbers},
               n AS units, least, most, pow(query_weights, 2) / query_squares AS n_eff,
               queries, CAST(undefined AS BIGINT) AS undefined, CAST(missing AS BIGINT) AS missing
        FROM {groups} ORDER BY {", ".join([*systems, *order, "i"])}""",
    )
    return _describe_means(meta, means, interval, confidence)


# Up to so many values are summed up in Python: planning the query takes 4 ms.
FEW_VALUES = 5000


def summarise_few(
    meta: Meta, values: pl.DataFrame, interval: str | None, confidence: float
) -> pl.DataFrame | None:
    """The summary of few values, as of `summarise`, None for others.

    They have no slices and no weights, and their means are averages.
    """
    other = meta.groupings or meta.by or meta.weight or meta.metric_weights or meta.catalogue
    if other or any(parse.record_of(name).overall != "mean" for name in meta.metrics):
        return None
    if values.height * len(meta.metrics) > FEW_VALUES:
        return None
    queries, absent = values[meta.query].to_list(), values[MISSING].to_list()
    gone = {query for query, is_absent in zip(queries, absent, strict=True) if is_absent}
    systems = values["system"].to_list() if meta.system else [None] * values.height
    places: dict[Any, list[int]] = {}
    for place, system in enumerate(systems):
        places.setdefault(system, []).append(place)
    rows = list[tuple[Any, ...]]()
    columns = {name: values[name].to_list() for name in meta.metrics}
    for system in sorted(places) if meta.system else places:
        own = places[system]
        lacking = [absent[place] for place in own]
        left = [queries[place] in gone for place in own] if meta.paired else lacking
        for i, name in enumerate(meta.metrics):
            column = [columns[name][place] for place in own]
            default = undefined_value(name, meta.conventions)
            rule = left_out_if(name, meta.conventions)
            left_out = left if rule else [False] * len(own)
            if rule == BOTH:
                left_out = [x is None and out for x, out in zip(column, left, strict=True)]
            missing = sum(x or out for x, out in zip(lacking, left_out, strict=True))
            kept = [x for x, out in zip(column, left_out, strict=True) if not out]
            undefined = kept.count(None)
            known = [x for x in kept if x is not None]
            known += [default] * undefined if default is not None else []
            moments = _moments(known) if interval is not None else (None, None, None)
            least, most, mean = min(known, default=None), max(known, default=None), None
            if known:
                mean = least if least == most else math.fsum(known) / len(known)
            n_eff = float(len(known)) if known and interval is not None else None
            counts = (len(own), undefined, missing)
            rows.append((system, "all", i, mean, *moments, len(known), least, most, n_eff, *counts))
    kinds_of = {"system": pl.String, "slice": pl.String, "i": pl.Int64, "mean": pl.Float64,
                "error": pl.Float64, "df": pl.Float64, "skewness": pl.Float64,
                "units": pl.Int64, "least": pl.Float64, "most": pl.Float64,
                "n_eff": pl.Float64, "queries": pl.Int64, "undefined": pl.Int64,
                "missing": pl.Int64}  # fmt: skip
    means = pl.DataFrame(rows, kinds_of, orient="row")
    return _describe_means(meta, means, interval, confidence)


def _moments(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """The standard error of a mean, its degrees of freedom, and the skewness of the values."""
    n = len(values)
    if not n or min(values) == max(values):
        return 0.0, n - 1.0, None
    mean = math.fsum(values) / n
    variance = math.fsum((x - mean) ** 2 for x in values) / n
    third = math.fsum((x - mean) ** 3 for x in values) / n
    skewness = third / variance**1.5 if variance**1.5 else None
    return math.sqrt(variance / (n - 1)), n - 1.0, skewness


def _describe_means(
    meta: Meta, means: pl.DataFrame, interval: str | None, confidence: float
) -> pl.DataFrame:
    """The summary of moments by system, slice and metric, with intervals."""
    attributes, systems = sliced_attributes(meta), system_columns(meta)
    metrics = [meta.metrics[i] for i in means["i"]]
    ends = mean_intervals(means, metrics, interval, confidence, meta.ranges)
    catalogue = {
        (name, row["system"] if meta.system else None, row["slice"]): row["value"]
        for name, rows in meta.catalogue.items()
        for row in rows
    }
    names = means["system"] if meta.system else [None] * means.height
    keys = zip(metrics, names, means["slice"], strict=True)
    numbers_of = zip(metrics, *means["queries", "missing", "units"], strict=True)
    counted = [  # no expression of polars, for which forked processes would wait
        n - (left_out_if(name, meta.conventions) == MISSED) * m if name in meta.catalogue else units
        for name, n, m, units in numbers_of
    ]
    values = [catalogue.get(key, mean) for key, mean in zip(keys, means["mean"], strict=True)]
    varied = pl.when(pl.col("least") < pl.col("most")).then("error")
    named = attribute_columns(meta.by)
    return pl.DataFrame(
        [
            *(means[name] for name in [*systems, "slice"]),
            *(means[column].alias(named[name]) for name, column in attributes.items()),
            pl.Series("metric", metrics, pl.String),
            pl.Series("mean", values, pl.Float64),
            pl.Series("lo", [lo for lo, *_ in ends], pl.Float64),
            pl.Series("hi", [hi for _, hi, _ in ends], pl.Float64),
            *means[["queries", "undefined", "missing"]],
            *([means["n_eff"]] if meta.weight else []),
            pl.Series(COUNTED, counted, pl.Int64),
            pl.Series(SKEWED, [skewed for *_, skewed in ends], pl.Boolean),
            *([] if interval is None else [means.select(varied.alias(ERROR)).to_series()]),
        ]
    )


def mean_intervals(
    means: pl.DataFrame, metrics: Sequence[str], interval: str | None, confidence: float,
    ranges: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> list[Ends]:  # fmt: skip
    """The interval of every mean, or None and None, and whether its values are too skewed.

    metrics: the metric of each row. ranges: those that their names do not say.
    """
    if interval is None:
        return [NO_INTERVAL] * means.height
    names = ("n_eff", "mean", "error", "df", "skewness", "units", "least", "most")
    ends = [NO_INTERVAL] * means.height
    for i, (metric, row) in enumerate(zip(metrics, means.select(names).rows(), strict=True)):
        n, mean, error, df, skewness, units, least, most = row
        if mean is not None and error is not None:
            known = skewness is not None and math.isfinite(skewness)
            slope = adjusted_skewness(skewness, units) / math.sqrt(units) if known else 0.0
            lowest, highest = ranges.get(metric) or metric_range(metric)
            moments = Moments(n, mean, error, df, slope, least, most, lowest, highest)
            ends[i] = describe_interval(moments, confidence, interval)
    return ends


def describe_interval(moments: Moments, confidence: float, interval: str) -> Ends:
    """The interval of a mean, or None and None, and whether its values are too skewed."""
    ends = mean_interval(moments, confidence, interval)
    return NO_INTERVAL if ends is None else (*ends, moments.too_skewed)


def metric_range(metric: str) -> tuple[float, float]:
    """The range of a metric, infinite where it has no bound."""
    lowest, highest = parse.value_range(metric)
    return -math.inf if lowest is None else lowest, math.inf if highest is None else highest


def sliced_attributes(meta: Meta) -> dict[str, str]:
    """The attributes of slices and their columns in our SQL; not attributes for clusters only."""
    sliced = {name for group in meta.groupings for name in group}
    return {name: x for name, x in own_columns(meta.by).items() if name in sliced}


def own_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns of attributes in our SQL, where their own names may be taken."""
    return {name: f"{INTERNAL_PREFIX}by_{i}" for i, name in enumerate(names)}


def system_columns(meta: Meta) -> list[str]:
    """The column of the systems, or nothing for one system."""
    return ["system"] if meta.system else []


def grouping_sets(meta: Meta, attributes: Mapping[str, str], more: Sequence[str] = ("i",)) -> str:
    """The grouping sets of the slices: all queries, and those by attributes."""
    sets = (
        [*system_columns(meta), *(attributes[x] for x in group), *more]
        for group in ([], *meta.groupings)
    )
    return ", ".join(f"({', '.join(each)})" for each in sets)


def _groups_sql(meta: Meta, interval: str | None) -> str:
    """The moments of the values in `rows` by system, slice and metric.

    `jackknife` has the standard error of a weighted mean, its degrees of freedom and the skewness.
    """
    systems, attributes = system_columns(meta), sliced_attributes(meta)
    keys = [*systems, *attributes.values(), "i"]
    absent = (f"grouping({x}) AS {absent_column(x)}" for x in attributes.values())
    first, second, third = (f"favg({'value' + ' * value' * power})" for power in range(3))
    third = f"{third} - 3 * {first} * {second} + 2 * pow({first}, 3)"
    moments = {
        "micro": "any_value(micro)", "n": "count(value)", "mean": first,
        "variance": "var_pop(value)",
        "skewness": f"({third}) / nullif(pow(var_pop(value), 1.5), 0)",
        "least": "min(value)", "most": "max(value)", "total": "fsum(weighted)",
        "weights": "fsum(weight)", "query_weights": "fsum(query_weight)",
        "query_squares": "fsum(query_weight * query_weight)", "queries": "count(*)",
        "undefined": "count_if(undefined)", "missing": "count_if(missing)",
    }  # fmt: skip
    # What nobody reads is not summed up.
    unread = [] if meta.weight or meta.metric_weights else ["total", "weights"]
    unread += ["variance", "skewness"] if interval is None else []
    unread += ["query_weights", "query_squares"] if interval is None and not meta.weight else []
    moments |= dict.fromkeys(unread, "CAST(NULL AS DOUBLE)")
    if meta.weight and interval is not None:
        order = ", ".join(f"{key} ASC" for key in [*systems, "query"])
        sample = f"list({{'value': value, 'weight': weight}} ORDER BY {order})"
        rows = f"rankql_weighted_rows({sample} FILTER (WHERE weight IS NOT NULL))"
        moments["jackknife"] = f"CASE WHEN NOT any_value(micro) THEN {rows} END"
    columns = [*keys, *absent, *(f"{sql} AS {name}" for name, sql in moments.items())]
    return f"""
        SELECT {", ".join(columns)} FROM ({counted_values_sql(meta, "query")})
        GROUP BY GROUPING SETS ({grouping_sets(meta, attributes)})"""


def values_sql(meta: Meta) -> str:
    """One row per query and metric: its value in the mean, and its weight.

    A query is missing, or else undefined, if that leaves it out: see `left_out_if`.
    """
    query_weight = quote(meta.weight) if meta.weight else "1"
    absent = MISSING
    if meta.paired:
        absent = f"bool_or({MISSING}) OVER (PARTITION BY {quote(meta.query)})"
    by = [f"{quote(name)} AS {column}" for name, column in own_columns(meta.by).items()]
    keys = ", ".join([f"{quote(meta.query)} AS query", *system_columns(meta), *by])
    parts = []
    for i, name in enumerate(meta.metrics):
        column, weight = quote(name), meta.metric_weights.get(name)
        kind = parse.record_of(name).overall
        logged = kind == "geometric"
        other = None if weight and not logged else undefined_value(name, meta.conventions)
        value = column if other is None else f"coalesce({column}, {other})"
        value = f"{value} * {value}" if kind == "root" else value
        both = f"({absent} AND {column} IS NULL)"
        left_out = {MISSED: absent, BOTH: both}.get(left_out_if(name, meta.conventions), "false")
        undefined = f"{column} IS NULL AND NOT {left_out}"
        if name in meta.catalogue:
            value, undefined = "CAST(NULL AS DOUBLE)", "false"
        weight_sql = quote(weight) if weight else "1"
        if logged:
            weight_sql = f"({value} IS NOT NULL)"
            value = f"ln(CASE WHEN {value} < 0.00001 THEN 0.00001 ELSE {value} END)"
        parts.append(
            f"SELECT {keys}, {MISSING} OR {left_out} AS missing, {i} AS i, {value} AS value, "
            f"{left_out} AS left_out, {undefined} AS undefined, {weight is not None} AS micro, "
            f"CAST({query_weight} AS DOUBLE) AS query_weight, "
            f"CAST({weight_sql} AS DOUBLE) * {query_weight} AS weight FROM rows"
        )
    return "\nUNION ALL ".join(parts)


def slice_columns(
    attributes: Mapping[str, str], is_by: Callable[[str], str] = "grouping({0}) = 0".format
) -> tuple[str, list[str]]:
    """The label of the slice of grouping sets over the columns of attributes, and their order.

    is_by: the condition that slices are by a column.
    """
    labels = ", ".join(
        f"CASE WHEN {is_by(column)} THEN {slice_label(name, column)} END"
        for name, column in attributes.items()
    )
    label = f"coalesce(nullif(concat_ws(', ', {labels}), ''), 'all')" if labels else "'all'"
    columns = attributes.values()
    return label, [f"{is_by(column)}, {column} NULLS LAST" for column in columns]


def slice_label(name: str, column: str) -> str:
    """The label of the slices by an attribute, as SQL: every value has one of its own."""
    return f"{literal(name + '=')} || {value_label(column)}"


def value_label(column: str) -> str:
    """A value as text, as SQL: in quotes if it could be read as another one."""
    value, quote = f"CAST({column} AS VARCHAR)", literal("'")
    unclear = (
        f"{value} IN ('', 'NULL') OR trim({value}) <> {value} OR starts_with({value}, {quote}) "
        f"OR contains({value}, ', ')"
    )
    inside = f"{quote} || replace({value}, {quote}, {quote} || {quote}) || {quote}"
    return f"CASE WHEN {unclear} THEN {inside} ELSE coalesce({value}, 'NULL') END"


def slice_queries(queries: pl.DataFrame, by: Sequence[Sequence[str]]) -> dict[str, pl.Series]:
    """The queries of every slice, in the order of a summary; a frame of them, id first."""
    queries_of = {"all": queries.to_series()}
    inner = own_columns(queries.columns)
    key, rows = next(iter(inner.values())), queries.rename(inner)
    if not by:
        return queries_of
    with private_connection(threads=1) as con:
        register_frame(con, "rows", rows)
        for group in by:
            labels = (slice_label(name, inner[name]) for name in group)
            label = f"concat_ws(', ', {', '.join(labels)})"
            names = ", ".join(inner[name] for name in group)
            order = ", ".join(f"{inner[name]} ASC NULLS LAST" for name in group)
            slices = read_frame(
                con,
                f"SELECT {label} AS slice, list({key} ORDER BY {key} ASC) AS queries FROM rows "
                f"GROUP BY {names} ORDER BY {order}",
            )
            queries_of |= dict(zip(slices["slice"], slices["queries"], strict=True))
    return queries_of


def describe_uncorrected(weights: Iterable[float | None]) -> list[str]:
    """How many means a judge could correct and does not, because its weight is 0."""
    known = [weight for weight in weights if weight is not None]
    if not (count := known.count(0)):
        return []
    return [
        f"Not corrected by the judge (lambda 0): {count:,} of {format_count(len(known), 'mean')}. "
        "Intervals would be wider, or the judge has labelled too few other queries"
    ]


def attribute_columns(names: Sequence[str], taken: Sequence[str] = _SUMMARY) -> dict[str, str]:
    """The column of each attribute: its name, or by_mean for mean if `taken` has mean already."""
    columns = {}
    for name in names:
        column, others = name, {x.lower() for x in (*taken, *names) if x != name} | {*taken}
        while column.lower() in others:
            column = f"by_{column}"
        columns[name] = column
    return columns


def counted_values_sql(meta: Meta, *keys: str) -> str:
    """One row per query and metric, as `values_sql`, of which another engine takes moments too.

    What does not count is NULL.
    """
    counts = " AND ".join(["NOT left_out", *(["query_weight > 0"] if meta.weight else [])])
    # An undefined value weighs in a mean over all queries at once.
    defined = f"{counts} AND (micro OR value IS NOT NULL)"
    columns = {
        "value": f"CASE WHEN {counts} THEN value END",
        "weighted": f"CASE WHEN {counts} THEN value * weight END",
        "weight": f"CASE WHEN {defined} THEN weight END",
        "query_weight": f"CASE WHEN {defined} THEN query_weight END",
    }
    fields = [*keys, *system_columns(meta), *sliced_attributes(meta).values(), "i", "micro"]
    fields += [*(f"{sql} AS {name}" for name, sql in columns.items()), "undefined", "missing"]
    return f"SELECT {', '.join(fields)} FROM ({values_sql(meta)})"


def absent_column(column: str) -> str:
    """The column that says that slices are not by this attribute."""
    return f"{column}_absent"
