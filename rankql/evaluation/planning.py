"""Resolve what a request means for the data: its conventions, metrics and columns; its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankql.errors import RankqlError
from rankql.evaluation.catalogue import catalogue_meta
from rankql.evaluation.facts import Facts
from rankql.evaluation.plan import Plan
from rankql.evaluation.query import write_query
from rankql.evaluation.result import Result
from rankql.macros import quote
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.computed import holds_numbers, require_scalar
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import render_script
from rankql.sources.session import Session
from rankql.sources.tables import ROLES, Table, mentioned, require_column


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
    plan: Plan,
    groups: Sequence[Sequence[str]] = (),
    interval: str | None = None,
    confidence: float = 0.95,
) -> Result:
    """The result of a plan whose values are not computed yet."""
    query = write_query(inputs, plan.readable)
    return Result(
        meta={
            "query": inputs.query,
            "system": inputs.many,
            "by": list(inputs.by),
            "groupings": list(groups),
            "weight": inputs.weight,
            "metrics": query.metrics,
            "weights": query.weights,
            "conventions": plan.conventions.as_dict(),
            **catalogue_meta(plan.metrics),
        },
        sql=render_script(session, query.sql),
        columns={table.label: table.role_columns for table in inputs.tables},
        interval=interval,
        confidence=confidence,
    )


def resolve_conventions(
    facts: Facts, metrics: Sequence[Metric], conventions: Conventions
) -> tuple[Conventions, list[Metric]]:
    """The conventions, with max_rel and levels from the grades if a metric needs them, and the
    metrics without options that repeat a convention.
    """
    for metric in metrics:
        if metric.record is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
    if not facts.inputs.scored:
        conventions = replace(conventions, ties="item")  # positions are never tied
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    stated = [scale for scale in (*scales, conventions.max_rel) if scale is not None]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    levels = conventions.levels or () if conventions.unjudged == "bounds" else ()
    exceeded = limits and (
        max(levels, default=0) > min(limits) or facts.has_grade(f"{{rel}} > {min(limits)}")
    )
    if None in scales or exceeded:
        highest = max([facts.highest_grade, *levels])
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    if conventions.unjudged == "bounds" and conventions.levels is None:
        grades = {0.0, *facts.select_grades("DISTINCT rel")}
        # A scale that is stated may be longer than the grades in the data.
        end_of_scale = max(stated, default=0)
        grades |= {*map(float, range(int(min(end_of_scale, 100)) + 1)), float(end_of_scale)}
        conventions = replace(conventions, levels=tuple(sorted(grades)))
    named = (metric.under(vars(conventions)) for metric in metrics)
    return conventions, list({metric.name: metric for metric in named}.values())
