"""Plan an evaluation: its conventions, its query, and the result to fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import RankqlError
from rankql.evaluation import packed
from rankql.evaluation.query import Query, build_query
from rankql.evaluation.result import Result
from rankql.evaluation.source_ctes import SqlRunner
from rankql.evaluation.validation import evaluation_errors
from rankql.macros import quote
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import holds_numbers, require_scalar
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import render_script
from rankql.sources.session import Session
from rankql.sources.tables import ROLES, Table, mentioned, require_column


def plan(
    session: Session,
    inputs: Inputs,
    metrics: str | Sequence[str],
    profile: str | None,
    options: Mapping[str, Any],
    packs: bool = True,
) -> tuple[Callable[..., Query], Conventions]:
    """What builds the query that evaluates the metrics, and the conventions in force.

    The builder takes the inputs, and counts_overlap= as `build_query` does.

    Without `packs`, the query calls a macro for each metric even where the packed form is faster.
    """
    requested, conventions = parse(metrics), choose(profile, options)
    end = find_grade_scale(session, inputs) if packs else 0
    conventions, records = resolve_conventions(session, inputs, requested, conventions, end)
    own = own_columns(session, inputs.runs.values(), records)

    def build(part: Inputs, counts_overlap: bool = False) -> Query:
        own_part = replace(part, own=own)
        return build_query(own_part, records, conventions, end, counts_overlap=counts_overlap)

    return build, conventions


def own_columns(
    session: Session, runs: Iterable[Table], metrics: Sequence[Metric]
) -> dict[str, str]:
    """The columns of the runs that metrics of the user read: their names, and their SQL.

    In text files, columns of numbers are numbers. `query`, `item`, `rel`, `pos` and `score` are
    those of the evaluation.
    """
    first, *others = runs
    text = " ".join(metric.expression for metric in metrics)
    own = {}
    for name in mentioned(first.columns, text):
        if name.lower() in (*ROLES, "system", "line"):
            continue
        for table in others:
            require_column(table, name, "metrics")
        numbers = first.text and all(holds_numbers(session, t, name) for t in (first, *others))
        own[name] = f"CAST({quote(name)} AS DOUBLE)" if numbers else quote(name)
    return own


def pending_result(
    session: Session,
    inputs: Inputs,
    query: Query,
    conventions: Conventions,
    groups: Sequence[Sequence[str]] = (),
    interval: str | None = None,
    confidence: float = 0.95,
) -> Result:
    """The result of a query that has not run yet."""
    return Result(
        meta={
            "query": inputs.query,
            "system": inputs.many,
            "by": list(inputs.by),
            "groupings": list(groups),
            "weight": inputs.weight,
            "metrics": query.metrics,
            "weights": query.weights,
            "conventions": conventions.as_dict(),
            **query.meta,
        },
        sql=render_script(session, query.shown),
        columns={table.label: table.role_columns for table in inputs.tables},
        interval=interval,
        confidence=confidence,
    )


def resolve_conventions(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    end: int = 0,
) -> tuple[Conventions, list[Metric]]:
    """The conventions, with max_rel and levels from the grades if a metric needs them, and the
    metrics without options that repeat a convention.

    end: the end of the scale of the grades, if it is known.
    """
    for metric in metrics:
        if metric.record is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
    if not inputs.scored:
        conventions = replace(conventions, ties="item")  # positions are never tied
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    stated = [scale for scale in (*scales, conventions.max_rel) if scale is not None]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    levels = conventions.levels or () if conventions.unjudged == "bounds" else ()
    exceeded = limits and (
        max(levels, default=0) > min(limits)
        or _any_grade(session, inputs, f"{{rel}} > {min(limits)}")
    )
    if None in scales or exceeded:
        highest = max([_highest_grade(session, inputs, conventions, end), *levels])
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    if conventions.unjudged == "bounds" and conventions.levels is None:
        grades = {0.0, *_select_grades(session, inputs, conventions, "DISTINCT rel")}
        # A scale that is stated may be longer than the grades in the data.
        end_of_scale = max(stated, default=0)
        grades |= {*map(float, range(int(min(end_of_scale, 100)) + 1)), float(end_of_scale)}
        conventions = replace(conventions, levels=tuple(sorted(grades)))
    named = (metric.under(vars(conventions)) for metric in metrics)
    return conventions, list({metric.name: metric for metric in named}.values())


def _highest_grade(session: Session, inputs: Inputs, conventions: Conventions, end: int) -> float:
    """The highest grade, or 0. The end of the scale is found without reading all rows."""
    if end and _any_grade(session, inputs, f"{{rel}} = {end}"):
        return float(end)
    (highest,) = _select_grades(session, inputs, conventions, "coalesce(max(rel), 0)")
    return highest


def _select_grades(
    session: Session, inputs: Inputs, conventions: Conventions, columns: str
) -> list[float]:
    """The values of columns over the positive grades."""
    with evaluation_errors(session, inputs, conventions):
        sql = f"SELECT {columns} FROM {inputs.graded} WHERE rel > 0"
        return [value for (value,) in SqlRunner(session, inputs, conventions)(sql)]


def find_grade_scale(session: Session, inputs: Inputs) -> int:
    """The end of the smallest scale with all grades, if they are whole numbers from 0; else 0."""
    fraction = "" if all(t.integer("rel") for t in inputs.judging) else " OR {rel} <> floor({rel})"
    for end in packed.SCALES:
        if not _any_grade(session, inputs, f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
            return end
    return 0


def _any_grade(session: Session, inputs: Inputs, condition: str) -> bool:
    """Does the condition on {rel} hold for any grade?"""
    # Compare the column itself: DuckDB then skips what its statistics rule out.
    return any(
        session.con.execute(
            f"SELECT 1 FROM {table.sql} "
            f"WHERE {condition.format(rel=table.integer('rel') or table.number('rel'))} LIMIT 1"
        ).fetchall()
        for table in inputs.judging
    )
