"""Combine results of different queries or systems, and read results from files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.base.text import TEXT_TYPES, join_words
from rankql.core.base.writing import PARQUET, remember_inputs
from rankql.core.evaluation.means.means import require_interval
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.evaluation.plan.pooling import reads_unshown
from rankql.core.evaluation.result.means_result import MeansResult
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.macros import MISSING, literal
from rankql.core.metrics.parse import is_metric, parse_any
from rankql.core.tables.private import private_connection


@remember_inputs
def combine(
    results: Sequence[Result | str | os.PathLike[str]],
    interval: str | None = "auto",
    confidence: float = 0.95,
) -> Result:
    """Combine results of different queries, such as days or shards, into one.

    Takes results, and files written by `output=` or `save_values`. Metrics, slices and conventions
    must agree, and no query may come twice.

    >>> qrels = pl.DataFrame({"query": ["a", "b"], "item": ["x", "x"], "rel": [1, 1]})
    >>> run = qrels.with_columns(score=1.0)
    >>> from rankql import evaluate
    >>> days = [evaluate(run[i : i + 1], qrels[i : i + 1], "AP", interval=None) for i in (0, 1)]
    >>> combine(days)["AP"]
    1.0
    """
    require_interval(interval, confidence)
    if isinstance(results, str | os.PathLike | Result):
        results = [results]
    results = [*results] if isinstance(results, Iterable) else []
    require(bool(results), "combine needs at least one result")
    parts = [open_result(result) for result in results]
    parts = [with_names_of(part, parts[0]) for part in parts]
    _require_same(parts, ("system", "metrics", "groupings", "cluster"))
    if len(parts) > 1 and (names := parts[0].catalogue_metrics):
        raise RankqlError(
            f"{join_words(names)} cannot be combined: a value of the complete catalogue follows "
            "from all rankings at once. Evaluate them together"
        )
    first, meta = parts[0], replace(parts[0].meta, tables={}, call={})
    rows = _concat([part.frame() for part in parts], first.keys).sort(first.keys)
    fields: dict[str, Any] = {"interval": interval, "confidence": confidence, "values": rows}
    return Result(meta, columns=first.columns, data_notes=_merge_notes(parts), **fields)


def require_same_judgments(results: Mapping[str, Result], pool: bool | None = None) -> list[str]:
    """Refuse results with different judgments; ask about other grades of their own, unless pool= is
    False.

    A note says if grades are not known, as of values.
    """
    judged = [result.meta.judgments for result in results.values()]
    own = False in judged and any(map(_reads_unshown, results.values()))
    if len(results) < 2 or pool is False or not (True in judged or own):
        return []
    prints = {name: result.fingerprint() for name, result in results.items()}
    unknown = [name for name in prints if prints[name] is None]
    known = {fingerprint: name for name, fingerprint in prints.items() if fingerprint is not None}
    if len(known) > 1:
        names = join_words([*map(repr, known.values())])
        if False in judged:
            text = f"{names} were measured by different grades, as some have their own. Do they "
            others = ["pass the runs, so that pool=True makes all grades one set"]
            raise Question(f"{text}count as they are?", [{"pool": False}], others=others)
        raise RankqlError(
            f"{names} were evaluated with different judgments, "
            "so unjudged items count differently. Evaluate them with the same qrels"
        )
    if unknown and known:
        return [f"It is not known whether {join_words(unknown)} had the same judgments"]
    return []


def _reads_unshown(result: Result) -> bool:
    """Does a metric of a result depend on judged items that were not shown?"""
    metrics = (parse_any(x)[0] for x in result.metrics if is_metric(x))
    return any(reads_unshown(x, result.conventions) for x in metrics)


def combine_systems(results: Mapping[str, Result]) -> Result:
    """Combine results of different systems, with the same conventions, into one."""
    first = next(iter(results.values()))
    results = {name: with_names_of(part, first) for name, part in results.items()}
    parts = list(results.values())
    for name, part in results.items():
        require(not part.meta.system, f"The result {name!r} has several systems. Pass it alone")
    _require_same(parts)
    metrics = [name for name in first.metrics if all(name in part.metrics for part in parts)]
    require(bool(metrics), "The results have no metric in common")
    require_no_system(first)
    weights = {name: w for name, w in first.meta.metric_weights.items() if name in metrics}
    columns = [*first.keys, *first.meta.by, MISSING, *metrics, *weights.values()]
    frames = [
        part.frame().select(pl.lit(name).alias("system"), *dict.fromkeys(columns))
        for name, part in results.items()
    ]
    key = first.meta.query
    kinds = {frame[key].dtype for frame in frames}
    alike = all(x.is_numeric() for x in kinds) or all(x in TEXT_TYPES for x in kinds)
    if len(kinds) > 1 and not alike:  # as of runs, ids are text: 1.0 is 1, midnight is its day
        text = pl.col(key).cast(pl.String).str.replace(r"(\.0+| 00:00:00(\.0+)?)$", "")
        frames = [x if x[key].dtype in TEXT_TYPES else x.with_columns(text) for x in frames]
    catalogue = {
        x: [row | {"system": name} for name, part in results.items()
            for row in part.meta.catalogue[x]]
        for x in metrics if all(x in part.catalogue_metrics for part in parts)
    }  # fmt: skip
    fields: dict[str, Any] = {"tables": {}, "call": {}, "metric_weights": weights}
    meta = replace(first.meta, system=True, metrics=metrics, catalogue=catalogue, **fields)
    rows = _concat(frames, ["system", *first.keys])
    notes = _merge_notes(parts)
    judges = {name: part.judge for name, part in results.items() if part.judge is not None}
    judge = combine_systems(judges) if judges else None
    return Result(meta, data_notes=notes, values=rows, columns=first.columns, judge=judge)


def with_names_of(result: Result, first: Result) -> Result:
    """The result with the names that metrics have in another one: RR becomes MRR."""
    known, own = first.meta.canonical, result.meta.canonical
    names = {known.get(name, name): name for name in first.metrics}
    new = {name: names.get(own.get(name, name), name) for name in result.metrics}
    new = {old: name for old, name in new.items() if name not in result.metrics}
    if not new:
        return result
    meta = result.meta
    weights = {old: w for old, w in first.meta.metric_weights.items() if old in new.values()}
    columns = new | {w: weights[new[old]] for old, w in meta.metric_weights.items() if old in new}

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {new.get(name, name): value for name, value in values.items()}

    fields = ("canonical", "metric_weights", "catalogue", "higher_is_better")
    changes = {name: renamed(getattr(meta, name)) for name in fields}
    changes["canonical"] = first.meta.canonical | changes["canonical"]
    changes["metric_weights"] |= weights
    metrics = [*renamed(dict.fromkeys(meta.metrics))]
    return result.derive(metrics=metrics, values=result.frame().rename(columns), **changes)


def open_result(result: MeansResult | str | os.PathLike[str]) -> Result:
    """A result, or the one in a file that rankql wrote."""
    if (found := find_result(result)) is None:
        name = str(Path(result).expanduser()) if isinstance(result, str | os.PathLike) else result
        raise RankqlError(
            f"{name!r} is neither a result nor a "
            "file with values per query. Write it with output= or save_values"
        )
    return found


def find_result(data: Any) -> Result | None:
    """The result that an argument is, or that `output=` wrote; None for anything else."""
    if isinstance(data, MeansResult) and not isinstance(data, Result):
        raise RankqlError("The values per query of this result are in Spark. Pass result.collect()")
    if not isinstance(data, str | os.PathLike):
        return data if isinstance(data, Result) else None
    meta = read_metadata(data)
    return Result(meta, values=Path(data).expanduser()) if meta else None


def _concat(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    return require_one_row_per_query(pl.concat(frames, how="vertical_relaxed"), keys)


def _merge_notes(parts: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(note for part in parts for note in part.data_notes))


def require_no_system(result: Result) -> None:
    """Refuse a column of the user named system, the column of the systems."""
    for name in (result.meta.query, *result.meta.by):
        taken = f"{name!r} is also the column that names the runs in the result. Rename it"
        require(name.lower() != "system", taken)


def require_one_row_per_query(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows; refuse no rows, and several of one query (and system)."""
    require(not rows.is_empty(), "The results have no queries")
    for name in keys:
        count = rows[name].null_count()
        require(not count, f"{name} is NULL in {count} of {len(rows)} rows. Leave these out")
    repeated = rows.filter(rows.select(keys).is_duplicated())
    some = ", ".join(map(repr, repeated[keys[-1]].unique(maintain_order=True)[:3]))
    rows_repeated = f"{len(repeated):,} rows belong to queries that occur twice, such as {some}"
    require(repeated.is_empty(), f"{rows_repeated}. Keep one of each")
    return rows


def _require_same(parts: Sequence[Result], more: Sequence[str] = ()) -> None:
    for part in parts[1:]:
        for field in ("query", *more, "by", "weight", "conventions", "unjudged_queries"):
            one, other = getattr(parts[0].meta, field), getattr(part.meta, field)
            if field == "conventions" and None in (one.get("max_rel"), other.get("max_rel")):
                # One of them has no metric that reads the scale of the grades.
                other = other | {"max_rel": one.get("max_rel")}
            if isinstance(one, dict):  # only what differs
                names = [name for name in one if one[name] != other.get(name)]
                one, other = ({name: each.get(name) for name in names} for each in (one, other))
            require(
                one == other,
                f"Results have different {field}: {one} and {other}. Evaluate one of them again",
            )


def read_metadata(path: str | os.PathLike[str]) -> Meta | None:
    """The metadata of a Parquet file with values per query, else None."""
    path = os.path.expanduser(path)
    if Path(path).suffix.lower() not in PARQUET or not os.path.isfile(path):
        return None
    where = f"parquet_kv_metadata({literal(str(path))}) WHERE decode(key) = 'rankql'"
    try:
        with private_connection() as con:
            rows = con.execute(f"SELECT decode(value) FROM {where}").fetchall()
            columns = con.sql(f"FROM read_parquet({literal(path)})").columns
    except duckdb.Error as error:
        raise RankqlError(f"{str(path)!r} is not a Parquet file") from error
    try:
        meta = Meta.from_dict(json.loads(rows[0][0]) if rows else {})
        read = {meta.query, *meta.by, *meta.metrics, *meta.metric_weights.values()}
        is_ours = read <= {*columns}
    except (ValueError, TypeError, AttributeError, KeyError):  # of another program
        return None
    return meta if is_ours else None
