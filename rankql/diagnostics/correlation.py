"""How alike rankings are: runs against a reference, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.errors import RankqlError
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.columns import validate_columns
from rankql.evaluation.ctes import (
    BY_ITEM,
    RunSql,
    attributes_by_query,
    source_ctes,
    sql_runner,
    with_ctes,
)
from rankql.evaluation.intervals import require_interval
from rankql.evaluation.metric_columns import macro_call
from rankql.evaluation.overlap import format_examples, no_common_item_message, require_ranked_rows
from rankql.evaluation.result import Result
from rankql.evaluation.validation import require_unique
from rankql.macros import MISSING, OURS, literal, quoted
from rankql.registry.conventions import Conventions
from rankql.registry.options import require_whole_number
from rankql.registry.parse import CORRELATIONS, Metric, parse
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.run import execute, render_script
from rankql.sources.session import Session, duckdb_errors, open_session
from rankql.sources.tables import Data

if TYPE_CHECKING:
    import duckdb

DEFAULT = ("RBO(p=0.9)", "TauB", "TauAP", "TauDistance")

# How many items of a query are in the reference, in the run, in both.
_COUNTS = (IN_REFERENCE, IN_RUN, IN_BOTH) = tuple(
    f"{OURS}in_{side}" for side in ("reference", "run", "both")
)
# The position of an item in the reference.
_REFERENCE_POS = f"{OURS}reference_pos"


def correlate(
    run: Data | Mapping[str, Data],
    reference: Data,
    metrics: str | Sequence[str] = DEFAULT,
    *,
    k: int | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    score: str | Sequence[str] | None = None,
    pos: str | Sequence[str] | None = None,
    system: str | None = None,
    descending: bool | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
) -> Result:
    """How alike the rankings of one or many runs are to those of a reference, for every query.

    `run` and `reference` have the columns query, item and score or pos, and are given as to
    `evaluate`, which ranks them alike; a pair of columns names that of run and reference. The
    metrics: `RBO(p=0.9)`, over the items of either ranking, which need not be the same, and with
    bound=min, max or residual what it could be were they longer; `TauB`, `TauAP` and `TauDistance`
    over the items of both. A cutoff `k`, or one of a metric such as `RBO(p=0.9)@10`, cuts both
    rankings first. What is in one of them only is counted in the notes.

    >>> first = pl.DataFrame({"query": ["a"] * 3, "item": ["x", "y", "z"], "pos": [1, 2, 3]})
    >>> second = pl.DataFrame({"query": ["a"] * 3, "item": ["x", "z", "w"], "pos": [1, 2, 3]})
    >>> correlate(second, first, "RBO(p=0.9)")["RBO(p=0.9)"]
    0.685
    """
    require_interval(interval, confidence)
    columns = {"query": query, "item": item, "score": score, "pos": pos}
    wanted, groups = _cut(parse(metrics, CORRELATIONS), k), parse_groupings(by)
    chosen = Conventions()
    with open_session(con, run, reference, attributes) as here:
        given = read_inputs(
            here, run, None, attributes, columns, system, groups, reference, descending
        )
        validate_columns(here, given)
        sql = _per_query(given, wanted, chosen)
        with duckdb_errors(here):
            _distinct(here, given, chosen)
            found = execute(here, sql).pl()
            ask = sql_runner(here, given, chosen)
            notes = [*require_ranked_rows(ask, given), *_notes(found, given, wanted, ask)]
        shared = pl.all_horizontal(pl.col(IN_REFERENCE, IN_RUN) > 0)
        return Result(
            meta={
                "query": given.query,
                "system": given.many,
                "by": list(given.by),
                "groupings": groups,
                "metrics": [metric.name for metric in wanted],
                "weights": {},
                "conventions": _in_force(chosen),
            },
            sql=render_script(here, sql),
            columns={table.label: table.role_columns for table in given.tables},
            notes=notes,
            interval=interval,
            confidence=confidence,
            rows=found.filter(shared).drop(_COUNTS),
        )


def _cut(metrics: Sequence[Metric], k: int | None) -> list[Metric]:
    """The metrics, at the cutoff where they have none of their own."""
    if k is not None:
        require_whole_number("k", k, 1)
    for metric in metrics:
        if metric.measure is None:
            raise RankqlError(f"{metric.label!r} is an expression; name metrics of two rankings")
    cut = [replace(metric, k=metric.k or k) for metric in metrics]
    return list({metric.name: metric for metric in cut}.values())


def _in_force(chosen: Conventions) -> dict[str, Any]:
    """The conventions that two rankings ask for; what is about grades is none."""
    said = {name: getattr(chosen, name) for name in ("profile", "ties", "undefined")}
    return {field.name: said.get(field.name) for field in fields(Conventions)}


def _distinct(here: Session, given: Inputs, chosen: Conventions) -> None:
    """Refuse rankings that have an item or a position twice."""
    for source, scored in (("run", given.scored), ("reference", _scored(given))):
        place = "score" if scored else "pos"
        for column in ("item", *([] if scored else ["pos"])):
            require_unique(here, given, chosen, [(source, column, f"WHERE {place} IS NOT NULL")])


def _scored(given: Inputs) -> bool:
    """Do scores make the ranking of the reference?"""
    assert given.reference
    return "pos" not in given.reference.roles


def _per_query(given: Inputs, metrics: Sequence[Metric], chosen: Conventions) -> str:
    """The SQL that computes all the metrics, one row per query and system, on one side or both."""
    cutoffs = [metric.k for metric in metrics]
    k = None if None in cutoffs else max(cutoffs, key=lambda cutoff: cutoff or 0)
    steps = source_ctes(given, chosen)
    steps["shown"] = _ranked("run", given.keys, given.scored, k)
    steps["expected"] = _ranked("reference", "query", _scored(given), k)
    expected = "expected"
    if given.many:
        names = literal([name for name in given.runs if name is not None])
        systems = f"SELECT unnest({names}) AS system"
        if given.system is not None:
            systems = "SELECT DISTINCT system FROM run"
        expected = f"(FROM expected CROSS JOIN ({systems}))"
    # Each item once; a FULL JOIN would say the same, but DuckDB 1.4 then groups a query twice.
    steps["pairs"] = (
        f"    SELECT {given.keys}, item, max(theirs) AS {_REFERENCE_POS}, max(ours) AS pos\n"
        "    FROM (\n"
        f"        SELECT {given.keys}, item, pos AS theirs, NULL::DOUBLE AS ours FROM {expected}\n"
        f"        UNION ALL SELECT {given.keys}, item, NULL, pos FROM shown\n"
        f"    ) GROUP BY {given.keys}, item"
    )
    values = {
        IN_REFERENCE: f"count({_REFERENCE_POS})",
        IN_RUN: "count(pos)",
        IN_BOTH: f"count({_REFERENCE_POS} + pos)",
        **{metric.name: _call(metric) for metric in metrics},
    }
    homes = [home for home in ("attributes", "reference", "run") if given.attributes_in(home)]
    joins = "".join(
        f"\nLEFT JOIN {attributes_by_query(given, home)} USING (query)" for home in homes
    )
    named = [
        *(["system"] if given.many else []),
        f"query AS {quoted(given.query)}",
        *(f"any_value({given.attribute(name)}) AS {quoted(name)}" for name in given.by),
        f"false AS {MISSING}",
        *(f"{value} AS {quoted(name)}" for name, value in values.items()),
    ]
    order = ", ".join(f"{key} ASC NULLS LAST" for key in given.keys.split(", "))
    return (
        f"{with_ctes(steps)}SELECT " + ",\n    ".join(named) + f"\nFROM pairs{joins}\n"
        f"GROUP BY {given.keys}\nORDER BY {order}"
    )


def _ranked(source: str, keys: str, scored: bool, k: int | None) -> str:
    """The first k items of every ranking, with their positions."""
    if not scored:
        top = "" if k is None else f" AND pos <= {k}"
        return f"    SELECT {keys}, item, pos FROM {source} WHERE pos IS NOT NULL{top}"
    top = "" if k is None else f"\n    QUALIFY pos <= {k}"
    order = f"PARTITION BY {keys} ORDER BY score DESC NULLS LAST, {BY_ITEM} NULLS LAST"
    return (
        f"    SELECT {keys}, item, CAST(row_number() OVER ({order}) AS DOUBLE) AS pos\n"
        f"    FROM {source} WHERE score IS NOT NULL{top}"
    )


def _call(metric: Metric) -> str:
    """A metric as a call of its macro; those of grades take the reversed reference for them."""
    assert metric.measure
    theirs, macro = _REFERENCE_POS, metric.measure.macro
    if macro.startswith("kendall"):
        top = "" if metric.k is None else f"WHEN {theirs} <= {metric.k} "
        theirs = f"CASE {top}THEN -{theirs} END" if top else f"-{theirs}"
    return macro_call(macro, [theirs, "pos"], metric.arguments(vars(Conventions())))


def _notes(
    found: pl.DataFrame, given: Inputs, metrics: Sequence[Metric], ask: RunSql
) -> Iterator[str]:
    """What is worth knowing of queries and items in one ranking only; refuse it where all are."""
    others = [m.name for m in metrics if m.measure and m.measure.macro != "rbo"]
    for name in found["system"].unique(maintain_order=True) if given.many else [None]:
        run = "the run" if name is None else f"run {name!r}"
        rows = found if name is None else found.filter(system=name)
        ours, theirs = (rows.filter(pl.col(side) > 0) for side in (IN_RUN, IN_REFERENCE))
        both = ours.filter(pl.col(IN_REFERENCE) > 0)
        if both.is_empty():
            raise RankqlError(
                f"no query of {run} is in the reference: it has {_some(ours, given)}, "
                f"the reference has {_some(theirs, given)}"
            )
        for side, all_, here, there in (
            (IN_REFERENCE, ours, run, "the reference"),
            (IN_RUN, theirs, "the reference", run),
        ):
            alone = all_.filter(pl.col(side) == 0)
            if len(alone):
                yield (
                    f"{len(alone)} of {len(all_)} queries of {here} are not in {there} and left "
                    f"out ({_some(alone, given)}{', ...' if len(alone) > 3 else ''})"
                )
        shared = int(both[IN_BOTH].sum())
        items = int(both[IN_RUN].sum()) + int(both[IN_REFERENCE].sum()) - shared
        if not shared and _nothing_shared(ask, name):  # below the cutoff neither
            raise RankqlError(no_common_item_message(ask, given, name))
        if shared < items:
            look = "look" if len(others) > 1 else "looks"
            of_these = f"; {show.listed(others)} {look} at these alone" if others else ""
            yield f"{shared} of {items} items of {run} and the reference are in both{of_these}"


def _nothing_shared(ask: RunSql, system: str | None) -> bool:
    """Have a run and the reference no item of a query in common, at whatever position?"""
    only = "" if system is None else f"WHERE system = {literal(system)}"
    return not ask(f"SELECT 1 FROM run JOIN reference USING (query, item) {only} LIMIT 1")


def _some(rows: pl.DataFrame, given: Inputs) -> str:
    return format_examples(rows[given.query][:3].to_list())
