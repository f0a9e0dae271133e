"""Systems as people pass them: results and values of queries are opened, rankings evaluated.

Nothing else asks whether an argument holds values or rankings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rankql.core.base.column_names import USERS, core_of
from rankql.core.base.errors import RankqlError, require, require_choice
from rankql.core.evaluation.result.means_result import MeansResult
from rankql.core.evaluation.result.result import Result
from rankql.core.tables.request import DEFAULT_METRICS, Request
from rankql.core.tables.session import is_several_runs
from rankql.features import combine
from rankql.features.values import (
    VALUES,
    Names,
    align_values,
    ask_first_ranks,
    open_printed,
    read_values_file,
)

NO_RUNS = "compare needs at least one run. Pass a dict of runs, such as {'old': old, 'new': new}"


def open_values(data: Any, names: Names | None = None) -> Result | None:
    """The values in a file, or those that another tool printed; None for anything else."""
    if isinstance(data, str | os.PathLike):
        return read_values_file(data, names or Names())
    return open_printed(data)


def open_each(systems: Mapping[str, Any], request: Request) -> dict[str, Result | None]:
    """The result of each system that has values, None of rankings.

    Options of rankings are refused if no system has some. Without judgments, values may be in a
    file, or printed by another tool.
    """
    results = dict[str, Result | None]()
    options = {x: y for x, y in request.rules.options.items() if y is not None}
    of_hits = {"rel", "pos"} <= options.keys()  # ranks of first hits
    named = options.get("system")
    system, of_systems = named if isinstance(named, str) else None, False
    for name, data in systems.items():
        if getattr(data, "judge", None) is not None and isinstance(data, MeansResult):
            raise RankqlError(f"{name} is corrected by a judge. Pass its run with judge= instead")
        results[name] = combine.find_result(data)
        if results[name] is None and request.qrels is None and not of_hits:
            results[name] = found = open_values(data, Names(system=system))
            of_systems |= found is not None and found.meta.system
            if found is not None and request.metrics is DEFAULT_METRICS:
                ask_first_ranks(found, name)
    if any(results.values()) and options.pop("pool", None):
        raise RankqlError(
            "pool=True needs the runs, but results are evaluated already. Pass the runs, or "
            "pool=False to take the results as they are"
        )
    if not all(results.values()):
        return results
    own = {"con", "system"} if of_systems else {"con"}
    missing = options.get("missing")
    if missing and all(result and VALUES in result.columns for result in results.values()):
        require_choice("missing", missing, "zero", "skip")
        del options["missing"]
        for name, result in results.items():
            assert result
            rules = {**result.conventions, "missing": missing}
            results[name] = result.derive(conventions=rules)
    of_runs = ("judge", "judge_rel", "attributes", "train", "catalogue", "seen", "min_score")
    options = {x: getattr(request, x) for x in ("qrels", *of_runs)} | options
    for name, value in options.items():
        if name not in own and value is not None:
            raise RankqlError(
                f"{name}= is an option for runs, but these are results, already evaluated. Leave "
                "it out, or pass the runs"
            )
    return results


def find_values(request: Request, attributes: Sequence[str]) -> Result | None:
    """The values of all systems as one result; None if the systems have rankings."""
    several = is_several_runs(request.run)
    systems: Any = request.run if several else {"run": request.run}
    require(bool(systems), NO_RUNS)
    if not all(isinstance(name, str) and name for name in systems):
        raise RankqlError("Names of systems must be non-empty strings. Rename the keys of the dict")
    opened = open_each(systems, request)
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
        return result.derive(data_notes=[*notes, *result.data_notes])
    combined = combine.combine_systems(results)
    pool = request.rules.pool
    notes += [*combine.require_same_judgments(results, pool), *combined.data_notes]
    return combined.derive(data_notes=notes, pool=pool)


def describe_users(results: Mapping[str, Result | None], used: Sequence[str | None]) -> list[str]:
    """A note if rows of values have the same session or user, whose column is not used."""
    for result in (x for x in results.values() if x is not None and VALUES in x.columns):
        rows = result.frame().unique(result.meta.query)
        for name in rows.columns:
            users = rows[name].drop_nulls()
            known = core_of(name) in USERS and name not in (*used, result.meta.query)
            if known and 1 < users.n_unique() < len(users):
                return [
                    f"Queries with the same {name} are not independent: pass cluster={name!r}, so "
                    "that intervals respect it"
                ]
    return []
