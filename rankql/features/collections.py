"""Systems by collections: each collection is evaluated alone, and all values are one result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from rankql.core.base.column_names import squash
from rankql.core.base.errors import RankqlError, require
from rankql.core.base.text import Note, join_words
from rankql.core.base.writing import is_path, names_by_file
from rankql.core.evaluation.plan.meta import average_slices
from rankql.core.evaluation.result.result import Result
from rankql.core.tables.files import DATA, suffix_of
from rankql.core.tables.request import Request
from rankql.shapes.open.answers import NAMES
from rankql.shapes.open.plain import DICTS, LISTS
from rankql.shapes.open.shapes import kinds_of

# The attribute of the queries, and their key, in which the collection comes first.
COLLECTION, KEY = "collection", "collection, query"
# The runs of each collection by system, and its judgments.
Collections = Mapping[str, tuple[Mapping[str, Any], Any]]


def find_collections(runs: Any, qrels: Any) -> Collections | None:
    """The runs and the judgments of each collection; None of those of one collection.

    Several are {system: {collection: run}} with {collection: judgments}, or lists of files, frames
    or dicts in the order of the collections. Each is a complete run or complete judgments.
    """
    if not isinstance(runs, DICTS) or not runs:
        return None
    if isinstance(qrels, LISTS) and qrels:
        if not all(isinstance(x, LISTS) and len(x) == len(qrels) for x in runs.values()):
            return None
        paths = [x for x in qrels if isinstance(x, str | os.PathLike)]
        names = names_by_file(paths)
        if len(qrels) != len({*names}):
            names = [f"collection {i}" for i in range(1, len(qrels) + 1)]
        qrels = dict(zip(names, qrels, strict=True))
        runs = {system: dict(zip(names, each, strict=True)) for system, each in runs.items()}
    if not (isinstance(qrels, DICTS) and qrels and _is_complete(next(iter(qrels.values())))):
        return None
    known = all(isinstance(x, DICTS) and x and x.keys() <= qrels.keys() for x in runs.values())
    texts = all(isinstance(name, str) and name for name in [*runs, *qrels])
    if not (known and texts and all(map(_is_complete, qrels.values()))):
        return None
    every = [run for each in runs.values() for run in each.values()]
    if not all(_is_complete(run, "items") for run in every):
        return None
    of = {x: {name: each[x] for name, each in runs.items() if x in each} for x in qrels}
    for name, each in of.items():
        require(bool(each), f"qrels have the collection {name!r}, but no system has a run of it")
    return {name: (each, qrels[name]) for name, each in of.items()}


def require_one_collection(run: Any, qrels: Any, part: Any, function: str) -> None:
    """Refuse runs on several collections, which a function cannot read, unless a part is named."""
    if part is not None:
        return
    if several := find_collections(run, qrels) or find_collections({"run": run}, qrels):
        names = f"{join_words([*map(repr, several)])} of run and qrels are collections"
        raise RankqlError(f"{names}. {function} reads one: pass its run and its qrels")


def _is_complete(data: Any, *more: str) -> bool:
    """Is it a file, a frame, or {query: {item: number}}, and not the items of one query?"""
    if isinstance(data, str | os.PathLike):
        return is_path(os.fspath(data)) or (
            suffix_of(os.fspath(data)) in DATA and os.sep in os.fspath(data)
        )
    if not isinstance(data, DICTS):
        return hasattr(data, "columns") or hasattr(data, "__arrow_c_stream__")
    if not {*kinds_of(data)} <= {"numbers", "pairs", *more} or not any(data.values()):
        return False
    inner = (x for each in data.values() if isinstance(each, DICTS) for x in each)
    first = [squash(str(x)) for x, _ in zip(inner, range(9), strict=False)]
    return not first or not NAMES.issuperset(first)


# The options that are of one collection alone.
_REFUSED = (
    *("attributes", "weight", "cluster", "judge", "judge_rel", "train", "catalogue", "seen"),
    *("min_score", "output", "time"),
)


def evaluate_collections(request: Request, evaluate: Callable[[Request], Result]) -> Result | None:
    """The values of all collections, with the collection in the key and as an attribute.

    None if there is one collection.
    """
    collections = find_collections(request.run, request.qrels)
    if collections is None:
        if parts := find_collections({"run": request.run}, request.qrels):
            names = f"{join_words([*map(repr, parts)])} of run and qrels: are they collections?"
            raise RankqlError(f"{names} Pass {{'system': run}}")
        return None
    by_collection = request.groupings == [[COLLECTION]]  # as means are anyway
    refused: dict[str, Any] = {"by": None if by_collection else request.groupings}
    refused |= {name: getattr(request, name) for name in _REFUSED}
    refused |= {"interval": request.interval if request.interval == "anytime" else None}
    for name, value in refused.items():
        if value is not None and not (isinstance(value, LISTS) and not value):
            raise RankqlError(f"{name}= does not support several collections. Leave it out")
    results = dict[str, Result]()
    for name, (runs, qrels) in collections.items():
        of_one = replace(request, run=runs, qrels=qrels, groupings=[], interval=None)
        try:
            results[name] = evaluate(of_one)
        except RankqlError as error:
            error.text = f"Collection {name!r}: {error.text}"
            raise
    first = next(iter(results.values()))
    frames, columns, notes = list[pl.DataFrame](), dict[str, dict[str, str]](), list[str]()
    same = all(result.columns == first.columns for result in results.values())
    for name, result in results.items():
        key = pl.format("{}, {}", pl.lit(name), pl.col(result.meta.query)).alias(KEY)
        values = pl.all().exclude("system", result.meta.query)
        frames.append(result.frame().select("system", key, pl.lit(name).alias(COLLECTION), values))
        labels = {f"{label} of {name}": roles for label, roles in result.columns.items()}
        columns |= first.columns if same else labels
        notes += [Note.of(x).reword(f"{name}: {{}}".format) for x in result.data_notes]
    systems = dict.fromkeys(system for runs, _ in collections.values() for system in runs)
    of = {x: [name for name, (runs, _) in collections.items() if x in runs] for x in systems}
    for system, own in of.items():
        if lacking := [name for name in collections if name not in own]:
            notes.append(
                f"{system} has no run of {join_words(lacking)}: its means there and over all "
                "collections are empty, and nothing is compared with it there"
            )
    scales = {result.conventions.get("max_rel") for result in results.values()}
    rules = first.conventions | ({} if len(scales) == 1 else {"max_rel": None})
    fields: dict[str, Any] = {"tables": {}, "call": {}, "systems": [*systems]}
    meta = replace(
        first.meta, query=KEY, system=True, by=[COLLECTION], groupings=[[COLLECTION]],
        conventions=rules, collections=of, **fields,
    )  # fmt: skip
    rows = pl.concat(frames, how="vertical_relaxed")
    return Result(
        average_slices(meta), columns=columns, data_notes=notes, interval=request.interval,
        confidence=request.confidence, values=rows,
    )  # fmt: skip
