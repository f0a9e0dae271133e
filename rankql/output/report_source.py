"""What the report computes from the runs again, which may be gone, closed or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import polars as pl

from rankql.diagnostics.limits import limits
from rankql.diagnostics.limits_result import Limits
from rankql.errors import RankqlError
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison

SOURCE_ERRORS = (RankqlError, duckdb.Error, pl.exceptions.PolarsError, OSError)

NO_SOURCE = "Absent: results were compared, not runs; compare the runs to look into them."


def find_limits(comparison: Comparison) -> Limits | str:
    """Return the limits of the compared numbers, or why there are none."""
    if comparison.source is None:
        return NO_SOURCE
    metrics = [name for name in comparison.metrics if parse_metric(name)]
    try:
        answer: Limits = comparison.source.call(limits, metrics=metrics)
    except SOURCE_ERRORS as error:
        return describe_source_error(error)
    return answer


def describe_source_error(error: BaseException) -> str:
    """Say why a part of the report is absent."""
    return f"Absent: the runs could not be looked into again: {str(error).splitlines()[0]}"


def parse_metric(name: str) -> Metric | None:
    """Return the metric of a name, None for an expression of the user."""
    try:
        return parse(name)[0]
    except RankqlError:
        return None
