"""Whether metrics go with what the business counts: joined by key, then correlated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from rankql.decisions.association import Association
from rankql.decisions.join_columns import (
    OutcomeNames,
    resolve_metric_columns,
    resolve_outcome_columns,
)
from rankql.decisions.key_join import KeyJoin, join_by_key
from rankql.decisions.keyed_tables import open_tables, parse_key
from rankql.decisions.matching import match_keys
from rankql.errors import require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.values import resolve_directions
from rankql.registry.argument_checks import normal_z
from rankql.registry.parse import is_metric
from rankql.sources.session import open_session as open_session
from rankql.sources.tables import Data


def associate(
    per_query: Data | Mapping[str, Data],
    outcomes: Data | Mapping[str, Data],
    *,
    on: str | Sequence[str] | Mapping[str, str],
    metrics: str | Sequence[str] | None = None,
    outcome: OutcomeNames | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    baseline: str | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Whether metrics go with outcomes, such as clicks or revenue, key by key and within slices.

    `per_query` is a result of `evaluate`, a file that its `output=` wrote, or any table with the
    key and metrics; `outcomes` any table with the key and outcomes. `on` names the key, such as
    'query', 'user', 'day' or several columns; {'query': 'search'} where the names differ.
    `outcome` names columns of rates, or gives ratios of totals: {'CTR': ('clicks',
    'impressions')}. Of several rows of a key, metrics and rates are averaged and ratios taken of
    the sums. `metrics` are by default all columns named like metrics or, if there are none, all
    columns of numbers; `outcome` all columns of numbers. `higher_is_better` is the direction of
    those that rankql does not know, which `quadrants` reads: {'wait': False}; True by default.

    `by` names attributes of the keys: correlations are pooled, within all slices together (of the
    deviations from their means), and in each slice. Of two systems, a dict or the column `system`
    in both tables, the differences are correlated, other - baseline (of a dict the first).

    Intervals are Fisher's z for Pearson, Bonett and Wright (2000) for Spearman; p belongs to the
    interval. A sentence says "higher" or "lower" only if Spearman's interval excludes 0 and there
    are at least 10 keys (within slices, 9 plus the number of slices): then it is wrong for at most
    5% of unrelated columns, skewed and tied ones included. NULL and ratios by 0 are left out and
    counted; values that are not finite are an error.

    >>> import polars as pl
    >>> found = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "AP": [0.1, 0.4, 0.5, 0.7, 0.9]})
    >>> log = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "CTR": [0.0, 0.2, 0.1, 0.3, 0.4]})
    >>> associate(found, log, on="query").table["pearson"].round(3).item()
    0.938
    """
    require_package("scipy", "stats", "associate")
    normal_z(confidence)  # refused before anything is read
    from rankql.decisions.correlations import correlate_pairs

    join, rows = _read(per_query, outcomes, on, metrics, outcome, by, con)
    outcome_names = [*join.outcome_columns]
    directions, _ = resolve_directions(join.metrics, higher_is_better, outcome_names)
    pairs, systems, notes = match_keys(rows, join, baseline)
    table, sign_notes = correlate_pairs(pairs, join, confidence, systems is not None)
    if systems:
        change = f"every value is the change per {join.unit}: {systems[1]} - {systems[0]}"
        notes = [change, *notes]
    notes += sign_notes
    if metrics is None and not any(map(is_metric, join.metrics)):
        names = ", ".join(join.metrics)
        notes.insert(0, f"per_query has no column named like a metric: {names} are taken")
    if lower := [name for name, higher in directions.items() if not higher]:
        notes.append(f"lower is better: {', '.join(lower)}")
    if len(table) > 1:
        notes.append(
            f"p-values are not adjusted for the {len(table)} rows of the table: of unrelated "
            "columns, about 1 in 20 is below 0.05"
        )
    notes.append("an association does not show that one causes the other")
    return Association(
        table, pairs, [*join.keys], join.metrics, outcome_names, join.groups, systems, confidence,
        notes, directions,
    )  # fmt: skip


def _read(
    per_query: Any, outcomes: Any, on: Any, metrics: Any, outcome: OutcomeNames | None, by: Any,
    con: duckdb.DuckDBPyConnection | None,
) -> tuple[KeyJoin, pl.DataFrame]:  # fmt: skip
    """What is joined, and the row of every key and system."""
    keys, groups = parse_key(on), parse_groupings(by)
    with open_session(con, per_query, outcomes) as session:
        left = open_tables(session, per_query, "per_query")
        right = open_tables(session, outcomes, "outcomes")
        attributes = ["system", *(name for group in groups for name in group)]
        names = resolve_metric_columns(session, left, metrics, [*keys, *attributes])
        excluded = [*keys.values(), *attributes]
        outcome_columns = resolve_outcome_columns(session, right, outcome, excluded)
        join = KeyJoin(left, right, keys, groups, names, outcome_columns)
        join.validate(session)
        return join, join_by_key(session, join)
