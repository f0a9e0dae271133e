"""All metrics: lists of their records, and the table of metrics()."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankql.registry.beyond import BEYOND
from rankql.registry.metric_record import MetricRecord
from rankql.registry.order import ORDER, RATING, WEIGHTED
from rankql.registry.relevance import COUNTS, GEOMETRIC, MICRO, RELEVANCE

if TYPE_CHECKING:
    import polars as pl

RECORDS: tuple[MetricRecord, ...] = (
    *RELEVANCE, *COUNTS, *ORDER, *RATING, *MICRO, *GEOMETRIC, *WEIGHTED, *BEYOND
)  # fmt: skip
# The metrics that `evaluate` and `correlate` know by name.
EVALUATED = tuple(record for record in RECORDS if "evaluate" in record.asked_by)
CORRELATIONS = tuple(record for record in RECORDS if "correlate" in record.asked_by)
NAMED = (*EVALUATED, *(record for record in CORRELATIONS if record not in EVALUATED))
# By function name.
FUNCTIONS = {record.function: record for record in RECORDS if record not in (*GEOMETRIC, *WEIGHTED)}


def metrics() -> pl.DataFrame:
    """Return all metrics: their names, columns, level, direction, range, when they are undefined.

    name: the name in `evaluate` and `correlate`, or else the function. function: the name in SQL
    and polars. columns: what it is computed from. level: a value is for a judged 'ranking', a
    'list' with or without judgments, all 'rankings' together, or a 'catalogue'; do not average
    values of the last two. better: 'higher', 'lower' or 'neither'. lowest, highest: the range with
    default options, NULL without a bound.

    >>> metrics().filter(name="Bpref").select("columns", "better", "highest", "undefined").row(0)
    ('rel, pos', 'higher', 1.0, 'no judged item is relevant')
    """
    import polars as pl

    rows = [
        {
            "name": record.name or record.function,
            "function": record.function,
            "columns": ", ".join(record.columns),
            "level": record.level,
            "better": record.better,
            "lowest": record.lowest,
            "highest": record.highest,
            "undefined": record.undefined,
            "definition": record.definition,
            "aliases": ", ".join(record.aliases),
            "options": ", ".join(
                name if option.default is None else f"{name}={option.sql_default}"
                for name, option in record.options.items()
            ),
        }
        for record in (*NAMED, *(record for record in RECORDS if not record.asked_by))
    ]
    return pl.DataFrame(rows, schema_overrides={"lowest": pl.Float64, "highest": pl.Float64})
