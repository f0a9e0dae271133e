"""Which columns of the two inputs of associate are metrics and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankql.decisions.keyed_tables import KeyedTables
from rankql.evaluation.column_checks import holds_numbers
from rankql.registry.all_metrics import NAMED
from rankql.registry.argument_checks import require
from rankql.registry.conventions import Conventions
from rankql.registry.parse import is_metric, parse
from rankql.sources.session import Session

OutcomeNames = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def resolve_metric_columns(
    session: Session,
    per_query: KeyedTables,
    metrics: str | Sequence[str] | None,
    excluded: Sequence[str],
) -> list[str]:
    """The columns of the metrics: those asked for, those named like metrics, or all numbers."""
    if metrics is None:
        numbers = [x for x in per_query.columns if x not in excluded and per_query.is_number(x)]
        known = per_query.result_metrics or ()
        names = [name for name in numbers if name in known or is_metric(name)]
        if not names:
            names = [name for name in numbers if _holds_numbers(session, per_query, name)]
        require(bool(names), "per_query has no column of numbers; name the metrics: metrics=")
        return names
    texts = [metrics] if isinstance(metrics, str) else metrics
    valid = isinstance(texts, list | tuple) and texts and all(isinstance(x, str) for x in texts)
    require(bool(valid), f"metrics must be names of columns of per_query, not {metrics!r}")
    return list(dict.fromkeys(name for text in texts for name in _find_metric(per_query, text)))


def _find_metric(per_query: KeyedTables, text: str) -> list[str]:
    """The columns that are meant, which may be known by another spelling."""
    if text in per_query.columns:
        return [text]
    if is_metric(text):
        canonical = {x: _canonical_names(x) for x in per_query.columns if is_metric(x)}
        names = [
            next((column for column, other in canonical.items() if other == [name]), name)
            for name in _canonical_names(text)
        ]
        for name in names:
            per_query.require_column(name, "metrics")
        return names
    per_query.require_column(text, "metrics")
    return []


def _canonical_names(text: str) -> list[str]:
    return [metric.under(Conventions().as_dict()).name for metric in parse(text, NAMED)]


def resolve_outcome_columns(
    session: Session, outcomes: KeyedTables, outcome: OutcomeNames | None, excluded: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The outcomes by name: a column each, or the two whose sums are divided."""
    if outcome is None:
        names = [x for x in outcomes.columns if x not in excluded and outcomes.is_number(x)]
        names = [name for name in names if _holds_numbers(session, outcomes, name)]
        require(bool(names), "outcomes has no column of numbers beside the key; name one: outcome=")
        return {name: (name,) for name in names}
    columns: dict[Any, Any] = {}
    if isinstance(outcome, Mapping):
        columns = {x: (y,) if isinstance(y, str) else y for x, y in outcome.items()}
    elif isinstance(outcome, str | list | tuple):
        columns = {x: (x,) for x in ([outcome] if isinstance(outcome, str) else outcome)}
    valid = bool(columns) and all(
        isinstance(x, str)
        and isinstance(y, list | tuple)
        and len(y) in (1, 2)
        and all(isinstance(part, str) for part in y)
        for x, y in columns.items()
    )
    require(
        valid,
        "outcome must be names of columns, or a dict of names and pairs of columns, such as "
        f"{{'CTR': ('clicks', 'impressions')}}, not {outcome!r}",
    )
    for parts in columns.values():
        for name in parts:
            outcomes.require_column(name, "outcome")
    return {name: tuple(parts) for name, parts in columns.items()}


def _holds_numbers(session: Session, tables: KeyedTables, name: str) -> bool:
    """Is every value of a column a number, in all tables?"""
    # Unless it was read from a text file, its type is that of a number.
    return all(
        not table.text or holds_numbers(session, table, name) for table in tables.tables.values()
    )
