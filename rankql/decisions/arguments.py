"""The arguments of compare and gate: runs or results, judgments, metrics and options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankql import text
from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.combine import combine_systems, require_same_judgments
from rankql.evaluation.result import Result
from rankql.evaluation.values import ROWS, Argument, Request, align_results, identify
from rankql.registry.column_names import USERS, squash
from rankql.registry.parse import is_metric, resolve_names

Results = Result | str | os.PathLike[str] | pl.DataFrame


def arrange_arguments(
    runs: Any, data: Sequence[Any], qrels: Any, metrics: Any, keywords: Mapping[str, Any]
) -> tuple[Any, Any, Any, list[str]]:
    """The runs by name, the judgments, the metrics, and a note on generated names."""
    positional = [*data]
    if len(positional) > 1 and positional[-1] is None:  # metrics=None
        positional.pop()
    listed = isinstance(runs, list | tuple)
    several = listed or identify(runs).kind == "several runs"
    if positional and metrics is None and _are_metrics(positional, several):
        metrics = positional.pop()
    if positional and not several:
        # One more table is either judgments, or a second run or result.
        has_qrels = qrels is not None or len(positional) > 1
        if has_qrels or _are_systems(positional[0], runs, metrics, keywords):
            runs, listed = [runs, positional.pop(0)], True
    if positional and qrels is None:
        third = positional.pop()
        if listed and not several and _are_systems(third, runs[0], metrics, keywords):
            positional.append(third)
        qrels = third
    if positional:
        raise RankqlError(
            "compare takes two runs or results, qrels and metrics by position. Pass more runs as a "
            "dict, such as compare({'old': old, 'new': new, 'newer': newer}, qrels)"
        )
    if not listed:
        return runs, qrels, metrics, []
    paths = [run for run in runs if isinstance(run, str | os.PathLike)]
    names = [Path(os.fspath(path).removesuffix(".gz")).stem for path in paths]
    if not (len(paths) == len(runs) == len({*names}) and all(names)):
        names = [f"run {i}" for i in range(1, len(runs) + 1)]
    note = f"Systems are named {text.join_words([*names])}. Pass a dict to choose other names"
    return dict(zip(names, runs, strict=True)), qrels, metrics, [note]


_NO_RUNS = "compare needs at least one run. Pass a dict of runs, such as {'old': old, 'new': new}"


def _are_metrics(positional: Sequence[Any], several: bool) -> bool:
    """Return whether the last positional argument is metrics, not data."""
    last = positional[-1]
    if isinstance(last, list | tuple):
        return True
    if not isinstance(last, str):
        return False
    file = bool(Path(last).suffix) or os.path.exists(last)
    return is_metric(last) or (not file and len(positional) > (1 if several else 2))


def _are_systems(second: Any, first: Any, metrics: Any, keywords: Mapping[str, Any]) -> bool:
    """Return whether two positional arguments are results or runs, not a run and judgments."""
    request = Request.of(keywords, metrics, (), None)
    kind = identify(second, "run", request).kind
    return kind == "lists" or (
        kind in ("result", "values") and identify(first, "run", request).result is not None
    )


def read_systems(
    systems: Mapping[str, Any], qrels: Any, request: Request, run_options: Mapping[str, Any]
) -> dict[str, Argument]:
    """What each system is, and the result in it. Options of runs are refused if all are results.

    With judgments, tables are runs, but for the baseline of a gate.
    """
    arguments = {}
    for name, data in systems.items():
        table = identify(data).kind != "result" and not (request.judged and name == "baseline")
        arguments[name] = ROWS if table and qrels is not None else identify(data, name, request)
    for name, value in {"qrels": qrels, **run_options}.items():
        # `con` and `query` are used to read tables.
        used = name in ("con", "query") or value is None
        if not used and all(argument.result for argument in arguments.values()):
            raise RankqlError(
                f"{name}= is an option for runs, but these are results, already evaluated. Leave "
                "it out, or pass the runs"
            )
    return arguments


def combine_results(
    runs: Any, qrels: Any, request: Request, run_options: Mapping[str, Any]
) -> Result | None:
    """The results of all systems as one result; None if the systems are runs."""
    several = identify(runs).kind == "several runs"
    systems = runs if several else {"run": runs}
    if not systems:
        raise RankqlError(_NO_RUNS)
    if not all(isinstance(name, str) and name for name in systems):
        raise RankqlError("Names of systems must be non-empty strings. Rename the keys of the dict")
    arguments = read_systems(systems, qrels, request, run_options)
    results = {name: result for name, (_, result) in arguments.items() if result is not None}
    if not results:
        return None
    if rows := [name for name in arguments if name not in results]:
        raise RankqlError(
            f"{next(iter(results))!r} is a result, but {rows[0]!r} is a run or has several rows "
            "per query. Evaluate it too, or pass runs only"
        )
    if tables := [name for name, argument in arguments.items() if argument.kind == "values"]:
        results = align_results(results, tables, request.attributes)
    notes = describe_users(arguments, request.attributes)
    if not several:
        result = next(iter(results.values()))
        return replace(result, notes=[*notes, *result.notes])
    combined = combine_systems(results)
    return replace(combined, notes=[*notes, *require_same_judgments(results), *combined.notes])


def select_metrics(result: Result, metrics: Any) -> Result:
    """The result with only these metrics."""
    if metrics is None:
        return result
    names = []
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        names += resolve_names(metric, result.metrics, result.conventions)
    require_metrics(result, names)
    return replace(result, meta=replace(result.meta, metrics=list(dict.fromkeys(names))))


def describe_users(arguments: Mapping[str, Argument], used: Sequence[str | None]) -> list[str]:
    """A note if rows of a table have the same session or user, whose column is not used."""
    tables = [x.result for x in arguments.values() if x.kind == "values" and x.result is not None]
    for result in tables:
        rows = result.frame().unique(result.meta.query)
        for name in rows.columns:
            users = rows[name].drop_nulls()
            known = squash(name) in USERS and name not in (*used, result.meta.query)
            if known and 1 < users.n_unique() < len(users):
                return [
                    f"Queries with the same {name} are not independent: pass cluster={name!r}, so "
                    "that intervals respect it"
                ]
    return []


def require_metrics(result: Result, names: Sequence[str], label: str = "") -> None:
    """Refuse metrics that a result does not have."""
    for name in names:
        if name not in result.metrics:
            raise RankqlError(label + describe_unknown("metric", name, result.metrics))


def require_attributes(result: Result, names: Sequence[str], label: str = "") -> None:
    """Refuse attributes that a result does not have."""
    known = result.meta.by
    for name in names:
        if name not in known:
            unknown = describe_unknown("attribute", name, known)
            raise RankqlError(label + (unknown if known else _NO_ATTRIBUTES.format(name)))


_NO_ATTRIBUTES = "The results have no attribute {!r}. Evaluate with by=, cluster= or weight="
