"""limits: how far metrics can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from rankql import text
from rankql.diagnostics.limits_notes import describe_limits
from rankql.diagnostics.limits_result import Limits
from rankql.diagnostics.sensitivity import explain_insensitive, measure_swaps
from rankql.diagnostics.unjudged import (
    count_expressions,
    explain_unbounded,
    measure_bounds,
    summarise_judged,
)
from rankql.evaluation.arguments import DEFAULT_METRICS, RankingOptions
from rankql.evaluation.chunks import read_rankings
from rankql.evaluation.evaluate import evaluate, resolve_conventions
from rankql.evaluation.facts import Facts
from rankql.evaluation.result import Result
from rankql.evaluation.validation import evaluation_errors
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs, open_runs
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Rel
from rankql.writing import remember_inputs


@remember_inputs
def limits(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: Rel = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Limits:
    """Show how far the metrics of one or more runs can be trusted.

    Takes the arguments of `evaluate`. Counts undefined queries and unjudged items, computes the
    bounds of each metric over all possible judgments of these items, and measures how sensitive it
    is to position i: how much a swap of two neighbours changes it::

        loss(i) = mean over the queries of |metric with the items at i and i + 1 swapped - metric|

    for i from 1 to the cutoff, but at most 100, and 10 without a cutoff. If position i + 1 is
    empty, the item moves there. Bounds are those of unjudged='bounds', over the same queries as
    the mean. Undefined queries that a judgment could define are counted.

    >>> import polars as pl
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> limits(run, qrels, "RR@2").sensitivity.rows()
    [('RR@2', 1, 0.5, 1), ('RR@2', 2, 0.5, 1)]
    """
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    ranking = RankingOptions.take(options)
    settings = choose(conventions, options)
    if settings.unjudged == "bounds":
        options["unjudged"], settings = "zero", replace(settings, unjudged="zero")
    arguments = {**columns, **options, "system": system, "descending": descending}
    arguments |= {"conventions": conventions, "interval": None, **vars(ranking)}
    with open_session(con, run, qrels) as session:
        run = open_runs(session, run)
        qrels = None if qrels is None else session.table(qrels, "qrels")

        def evaluate_with(names: str | Sequence[str], **changes: Any) -> Result:
            return evaluate(run, qrels, names, con=session.con, **{**arguments, **changes})

        result = evaluate_with(metrics)
        inputs = read_rankings(
            session, run, qrels, None, columns, system, (), descending, ranking, settings
        )
        return _find_limits(session, inputs, parse(metrics), settings, result, evaluate_with)


def _find_limits(
    session: Session,
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    result: Result,
    evaluate_with: Callable[..., Result],
) -> Limits:
    possible = replace(conventions, unjudged="bounds")
    facts = Facts(session, inputs, conventions, packs=False)
    conventions, metrics = resolve_conventions(facts, metrics, conventions)
    # All items in the order of the run, including items that a convention leaves out.
    ties = "item" if conventions.ties == "expected" else conventions.ties
    counts = evaluate_with(
        count_expressions(metrics, conventions), unjudged="zero", undefined="skip", ties=ties
    )
    judged = summarise_judged(counts, metrics)
    bounded, unbounded_notes = _split_by_reason(
        metrics, "bounds", lambda metric: explain_unbounded(inputs, metric, conventions)
    )
    # If all items are judged, the bounds equal the value.
    has_unjudged = bool(judged["unjudged"].sum())
    if has_unjudged and bounded:
        possible, _ = resolve_conventions(facts, bounded, possible)
        conventions = replace(conventions, levels=possible.levels)
    bounds = measure_bounds(
        result, bounded, conventions.levels, evaluate_with if has_unjudged else None
    )
    sensitive, insensitive_notes = _split_by_reason(
        metrics, "sensitivity", lambda metric: explain_insensitive(metric, conventions)
    )
    with evaluation_errors(session, inputs, conventions):
        sensitivity = measure_swaps(session, inputs, sensitive, conventions, result)
    limits = Limits(result, sensitivity, judged, bounds)
    limits.notes = [
        *result.notes,
        *describe_limits(limits, counts, metrics, conventions),
        *(unbounded_notes if has_unjudged else []),
        *insensitive_notes,
    ]
    return limits


def _split_by_reason(
    metrics: Sequence[Metric], subject: str, explain_lack: Callable[[Metric], str]
) -> tuple[list[Metric], list[str]]:
    """The supported metrics, and notes that name the others with the reason."""
    names: dict[str, list[str]] = {}
    reasons = [explain_lack(metric) for metric in metrics]
    for metric, reason in zip(metrics, reasons, strict=True):
        names.setdefault(reason, []).append(metric.name)
    notes = [
        f"No {subject} for {text.join_words(some)}: {reason}."
        for reason, some in names.items()
        if reason
    ]
    return [m for m, reason in zip(metrics, reasons, strict=True) if not reason], notes
