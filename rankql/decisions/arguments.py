"""The arguments of compare and gate: runs or results, judgments, metrics and options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankql import text
from rankql.errors import RankqlError, describe_unknown, require, require_choice
from rankql.evaluation import combine
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.request import require_place_of_qrels
from rankql.evaluation.result import Result
from rankql.evaluation.values import VALUES, align_values, open_printed, read_values_file
from rankql.registry.column_names import USERS, squash
from rankql.registry.parse import is_metric, resolve_names
from rankql.sources.shapes import is_several_runs
from rankql.writing import public_name

Results = Result | str | os.PathLike[str]

_DICT = "Pass several runs as a dict: compare({'a': a, 'b': b}, qrels)"


def name_systems(runs: Any, qrels: Any, metrics: Any, con: Any) -> tuple[Any, list[str]]:
    """The runs, those of a list by name, and a note on generated names."""
    require_place_of_qrels(qrels, con)
    if isinstance(metrics, Mapping):  # {label: SQL}, or judgments
        several = not all(isinstance(sql, str) for sql in metrics.values())
    elif isinstance(metrics, str):
        several = not is_metric(metrics) and os.path.exists(metrics)
    else:
        several = not isinstance(metrics, list | tuple | None)
    several = several or open_system(qrels) is not None
    require(not several, f"compare takes the runs, qrels and metrics by position. {_DICT}")
    if not isinstance(runs, list | tuple):
        return runs, []
    require(bool(runs), _NO_RUNS)
    paths = [run for run in runs if isinstance(run, str | os.PathLike)]
    names = [Path(public_name(path).removesuffix(".gz")).stem for path in paths]
    if not (len(paths) == len(runs) == len({*names}) and all(names)):
        names = [f"run {i}" for i in range(1, len(runs) + 1)]
    note = f"Systems are named {text.join_words([*names])}. Pass a dict to choose other names"
    return dict(zip(names, runs, strict=True)), [note]


_NO_RUNS = "compare needs at least one run. Pass a dict of runs, such as {'old': old, 'new': new}"


def open_system(data: Any, label: str = "run") -> Result | None:
    """The result that an argument is, or that `output=` wrote; None for runs and judgments."""
    path = data if isinstance(data, str | os.PathLike) else None
    if not isinstance(data, MeansResult) and (path is None or combine.read_metadata(path) is None):
        return None
    if getattr(data, "judge", None) is not None:
        raise RankqlError(f"{label} is corrected by a judge. Pass its run with judge= instead")
    return combine.open_result(data)


def open_systems(
    systems: Mapping[str, Any], qrels: Any, run_options: Mapping[str, Any]
) -> dict[str, Result | None]:
    """The result of each system that is one. Options of runs are refused if all are results."""
    results = dict[str, Result | None]()
    for name, data in systems.items():
        # Without judgments, values in a file, or those that another tool printed.
        read = read_values_file if isinstance(data, str | os.PathLike) else open_printed
        results[name] = open_system(data, name) or (read(data) if qrels is None else None)
    missing = run_options.get("missing")
    own: tuple[str, ...] = ("con",)
    if missing and all(result and VALUES in result.columns for result in results.values()):
        require_choice("missing", missing, "zero", "skip")
        own = ("con", "missing")
        for name, result in results.items():
            assert result
            rules = {**result.conventions, "missing": missing}
            results[name] = result.derive(meta=replace(result.meta, conventions=rules))
    for name, value in {"qrels": qrels, **run_options}.items():
        if name not in own and value is not None and all(results.values()):
            raise RankqlError(
                f"{name}= is an option for runs, but these are results, already evaluated. Leave "
                "it out, or pass the runs"
            )
    return results


def combine_results(
    runs: Any, qrels: Any, attributes: Sequence[str], run_options: Mapping[str, Any]
) -> Result | None:
    """The results of all systems as one result; None if the systems are runs."""
    several = is_several_runs(runs)
    systems: Mapping[str, Any] = runs if several else {"run": runs}
    if not systems:
        raise RankqlError(_NO_RUNS)
    if not all(isinstance(name, str) and name for name in systems):
        raise RankqlError("Names of systems must be non-empty strings. Rename the keys of the dict")
    opened = open_systems(systems, qrels, run_options)
    results = {name: result for name, result in opened.items() if result is not None}
    if not results:
        return None
    if rows := [name for name in opened if name not in results]:
        raise RankqlError(
            f"{next(iter(results))!r} is a result, but {rows[0]!r} is a run. Evaluate it too, or "
            "pass runs only. Values of your own: rankql.read_values"
        )
    notes = describe_users(results, attributes)
    results = align_values(results, attributes)
    if not several:
        result = next(iter(results.values()))
        return replace(result, notes=[*notes, *result.notes])
    combined = combine.combine_systems(results)
    notes += [*combine.require_same_judgments(results), *combined.notes]
    return replace(combined, notes=notes)


def select_metrics(result: Result, metrics: Any) -> Result:
    """The result with only these metrics."""
    if metrics is None:
        return result
    names = []
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        names += resolve_names(metric, result.metrics, result.conventions)
    require_metrics(result, names)
    return replace(result, meta=replace(result.meta, metrics=list(dict.fromkeys(names))))


def describe_users(results: Mapping[str, Result | None], used: Sequence[str | None]) -> list[str]:
    """A note if rows of values have the same session or user, whose column is not used."""
    for result in (x for x in results.values() if x is not None and VALUES in x.columns):
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


def require_attributes(result: Result, names: Sequence[str], cluster: str | None) -> None:
    """Refuse attributes that a result does not have; the cluster is one of them."""
    known = result.meta.by
    for name in names:
        none = f"The results have no attribute {name!r}. Evaluate with by=, cluster= or weight="
        unknown = describe_unknown("attribute", name, known) if known else none
        require(name in known, f"{'cluster' if name == cluster else 'by'}: {unknown}")
