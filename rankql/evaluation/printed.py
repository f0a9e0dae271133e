"""Values that other tools have printed, as one row per query: `trec_eval -q`, long frames, dicts.

Rows of text are query, metric and value, or metric, query and value. Frames have a column of
metrics and one of values. In dicts, the keys that are names of metrics decide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import polars as pl

from rankql.errors import RankqlError, require
from rankql.registry import parse
from rankql.registry.column_names import ROLES, SYSTEMS, find_name
from rankql.sources.files import CSV, JSON, PARQUET, open_file, read_text, suffix_of
from rankql.text import join_words

# Names of the row with the means, and what trec_eval counts once for a run.
_TOTALS = ("all", "amean")
_OF_RUN = ("runid", "num_q")
# Two printed numbers of d digits may differ by as much as one in the last of them.
_ROUNDING = 1.01


def read_printed(
    data: Any, query: str | None = None, system: str | None = None
) -> tuple[pl.DataFrame, list[str]] | None:
    """A row per query and system, and notes; None if these are not values that a tool printed.

    query, system: columns that the caller names.
    """
    if isinstance(data, str | os.PathLike):
        name = os.path.expanduser(os.fspath(data))
        if suffix_of(name) in (*PARQUET, *CSV) or not os.path.isfile(name):
            return None
        with suppress(UnicodeDecodeError, json.JSONDecodeError):
            if suffix_of(name) not in JSON:
                return _read_text(name)
            data = json.loads(read_text(name))
    if isinstance(data, Mapping):
        return _read_dict(data)
    return _read_frame(data, query, system) if isinstance(data, pl.DataFrame) else None


def _read_dict(data: Mapping[Any, Any]) -> tuple[pl.DataFrame, list[str]] | None:
    """{query: {metric: value}} or {metric: {query: value}}."""
    inner = [*data.values()]
    if not inner or not all(isinstance(x, Mapping) and x for x in inner):
        return None
    names = {key for each in inner for key in each}
    within, around = _are_metrics(names), _are_metrics(data)
    if not any(parse.is_metric(key) for key in (*names, *data) if isinstance(key, str)):
        return None
    if within == around:
        make = "read_values(pl.DataFrame([{'query': q, 'metric': m, 'value': x} for"
        raise RankqlError(
            "Which keys are metrics? If the inner ones are, pass "
            f"{make} q, of in data.items() for m, x in of.items()])); if the outer ones are, "
            f"{make} m, of in data.items() for q, x in of.items()]))"
        )
    rows = [(b, a, x) if around else (a, b, x) for a, of in data.items() for b, x in of.items()]
    texts = [tuple(map(str, row)) for row in rows]
    frame = pl.DataFrame(texts, ["query", "metric", "value"], orient="row")
    return _widen(frame, [], "values")


def _read_text(path: str) -> tuple[pl.DataFrame, list[str]] | None:
    """Lines of metric, query and value (trec_eval), or query, metric and value (ir_measures)."""
    first = next(map(str.split, open_file(path, repr(path), "").lines), [])
    place = next((i for i in (0, 1) if len(first) == 3 and parse.is_metric(first[i])), None)
    if place is None:
        return None
    lines = [x for x in map(str.split, read_text(path).splitlines()) if len(x) == 3]
    rows = [(x[1 - place], x[place], x[2]) for x in lines]
    frame = pl.DataFrame(rows, ["query", "metric", "value"], orient="row")
    return _widen(frame, [], os.path.basename(path))


def _are_metrics(keys: Iterable[Any]) -> bool:
    return all(isinstance(key, str) and parse.is_metric(key) for key in keys)


def _read_frame(
    frame: pl.DataFrame, query: str | None, system: str | None
) -> tuple[pl.DataFrame, list[str]] | None:
    """A column of queries, one of metrics, and `value`."""
    columns, value = frame.columns, find_name(frame.columns, ["value"])
    named = find_name(columns, ["measure", "metric"])
    metric = named or find_name(columns, ["name"])
    key = find_name(columns, [query] if query else ROLES["query"])
    graded = find_name(columns, (*ROLES["item"], *ROLES["rel"]))
    if value is None or metric is None or key is None or graded is not None:
        return None
    kept = {key: "query", metric: "metric", value: "value"}
    known = [system] if system else ["name", *SYSTEMS] if named else SYSTEMS
    if system := find_name(columns, known):
        kept[system] = "system"
    texts = frame.select([*kept]).rename(kept).cast(pl.String)
    return _widen(texts, ["system"] if system else [], "values")


def drop_totals(
    rows: pl.DataFrame, key: str, metrics: Sequence[str], systems: list[str]
) -> tuple[pl.DataFrame, list[str]]:
    """A row per query without a row of the means, and a note on it."""
    total = pl.col(key).cast(pl.String).is_in(_TOTALS)
    if not rows.select(total.any() & ~total.all()).item():
        return rows, []
    long = rows.unpivot(metrics, index=[*systems, key], variable_name="metric")
    _, notes = _widen(long.rename({key: "query"}).cast(pl.String), systems, "values")
    return rows.filter(~total), notes


def _widen(rows: pl.DataFrame, systems: list[str], label: str) -> tuple[pl.DataFrame, list[str]]:
    """One row per query and system, without the rows of means."""
    number = pl.col("value").cast(pl.Float64, strict=False)
    rows = rows.filter(~pl.col("metric").is_in(_OF_RUN), number.is_not_null())
    keys = [*systems, "query", "metric"]
    twice = rows.filter(pl.struct(keys).is_duplicated())
    require(
        twice.is_empty(), f"{label} has several values of {twice[:1].select(keys).rows()}. Pass one"
    )
    totals = rows.filter(pl.col("query").is_in(_TOTALS))
    rest = rows.filter(~pl.col("query").is_in(_TOTALS)).with_columns(number)
    means = rest.group_by(*systems, "metric").agg(pl.mean("value").alias("mean"))
    for row in totals.join(means, on=[*systems, "metric"]).rows(named=True):
        digits = len(row["value"].partition(".")[2].partition("e")[0])
        differ = abs(row["mean"] - float(row["value"])) > max(_ROUNDING * 10.0**-digits, 1e-9)
        if differ and parse.overall(row["metric"]) == "mean":
            raise RankqlError(
                f"{label}: {row['query']!r} has {row['metric']} = {row['value']}, which is not the "
                f"mean of the others, {row['mean']:.6g}. If it is a query, rename it; if not, "
                "remove its rows"
            )
    names = totals["query"].unique(maintain_order=True).to_list()
    notes = [f"{join_words([*map(repr, names)])} has the means and is left out"] if names else []
    index = [*systems, "query"]
    return rest.pivot(on="metric", index=index, values="value", maintain_order=True), notes
