"""Metrics of the complete catalogue: one value for all rankings of a slice, none per query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rankql.errors import RankqlError
from rankql.registry.beyond import CATALOGUE_METRICS
from rankql.registry.requested_metric import Metric
from rankql.text import join_words

_RECORDS = {record.function: record for record in CATALOGUE_METRICS}
_CALL = re.compile(rf"\b({'|'.join(_RECORDS)})\s*\(", re.I)


def is_catalogue(metric: Metric) -> bool:
    """Is it an expression of the user that calls a metric of the catalogue?"""
    return metric.record is None and bool(_CALL.search(metric.expression))


def describe_together(names: Sequence[str]) -> str:
    """Say that metrics have no value for one ranking, for notes and errors."""
    verb = "describes" if len(names) == 1 else "describe"
    return f"{join_words(names)} {verb} all rankings together"


def catalogue_meta(metrics: Sequence[Metric]) -> dict[str, Any]:
    """What a result must know of these metrics: their values, still to compute, and directions."""
    better = {}
    for metric in filter(is_catalogue, metrics):
        # One call, not an expression of several.
        call = re.fullmatch(
            rf"\s*{_CALL.pattern}(?:[^()]|\([^()]*\))*\)\s*", metric.expression, re.I
        )
        record = call and _RECORDS[call[1].lower()]
        if record and record.better != "neither":
            better[metric.name] = record.better == "higher"
    values: dict[str, list[Any]] = {metric.name: [] for metric in filter(is_catalogue, metrics)}
    return {"catalogue": values, "higher_is_better": better} if values else {}


def refuse_weights(names: Sequence[str], weight: str | None) -> None:
    """Refuse weights of queries, which these metrics cannot respect."""
    if names and weight is not None:
        raise RankqlError(
            f"{describe_together(names)}, so it is not a mean and has no weight= ({weight!r}). "
            "Leave it out"
        )
