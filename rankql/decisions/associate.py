"""Do metrics go with business outcomes? Tables joined by key, then correlated."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.association import Association, name_unit
from rankql.errors import RankqlError, require_package
from rankql.evaluation.combine import open_result, read_metadata
from rankql.evaluation.means import compared_value
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.overlap import format_examples
from rankql.evaluation.request import parse_groupings
from rankql.evaluation.result import Result
from rankql.evaluation.values import is_number_column, resolve_directions
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.argument_checks import normal_z, require, require_plain_name
from rankql.registry.conventions import Conventions
from rankql.registry.parse import is_metric, resolve_names
from rankql.sources.reader import fetch, fetch_frame
from rankql.sources.session import Session, duckdb_errors, open_session
from rankql.sources.tables import Data, Table, is_text, require_column, same_kind, unknown_column
from rankql.stats.means import ROUNDING
from rankql.writing import remember_inputs

# What happens to several rows of one key, and the column that says whether there are some.
_INPUTS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are taken of the sums",
}
_SEVERAL = {label: f"{INTERNAL_PREFIX}{label}" for label in _INPUTS}


@remember_inputs
def associate(
    per_query: Data,
    outcomes: Data,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    metrics: str | Sequence[str] | None = None,
    outcome: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    baseline: str | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Correlate metrics with outcomes, such as clicks or revenue, by key and within slices.

    If a key has several rows, metrics and rates are averaged, and ratios are taken of the sums. If
    both tables have a column `system` with two systems, the differences are correlated.

    Intervals are Fisher's z for Pearson, and Bonett and Wright (2000) for Spearman. The p-value
    belongs to the interval. Pearson's interval is too narrow for skewed values: look at Spearman. A
    sentence says "higher" or "lower" only if Spearman's interval
    excludes 0 and there are at least 10 keys (within slices, 9 plus the number of slices). It is
    then wrong for at most 5% of unrelated columns, including skewed and tied ones. NULLs and ratios
    with divisor 0 are dropped and counted. Values that are not finite are an error.

    Parameters
    ----------
    per_query : result or table
        A result of `evaluate`, a file that its `output=` wrote, or any table with the key and
        metrics.
    outcomes : table
        Any table with the key and outcomes.
    on : str, list of str or dict
        Key that joins both tables.

        Such as 'query', 'user', 'day' or several columns, or {'query': 'search'} if the names
        differ.
    metrics : str or list of str, optional
        Metrics; by default all columns named like metrics or, if there are none, all of numbers.
    outcome : str, list of str or dict, optional
        KPIs: columns of rates, or ratios of sums; by default all columns of numbers.

        Ratios are {'CTR': ('clicks', 'impressions')}.
    by : str or list, optional
        Add slices: correlations within all slices together, and in each.

        Over all slices, the deviations from the slices' means are correlated.
    baseline : str, optional
        The system to start from, if there are two.
    higher_is_better : bool or dict, optional
        Direction of columns that are not metrics of rankql, for `quadrants`: {'wait': False}. The
        default is True.
    confidence : float
        Level of the confidence intervals.
    con : duckdb.DuckDBPyConnection, optional
        The connection whose tables are named.

    Examples
    --------
    >>> import polars as pl
    >>> scores = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "AP": [0.1, 0.4, 0.5, 0.7, 0.9]})
    >>> log = pl.DataFrame({"query": ["a", "b", "c", "d", "e"], "CTR": [0.0, 0.2, 0.1, 0.3, 0.4]})
    >>> associate(scores, log, on="query").table["pearson"].round(3).item()
    0.938
    """
    require_package("scipy", "stats", "associate")
    normal_z(confidence)  # refused before any data is read
    from rankql.decisions.correlations import correlate_pairs

    keys, groups = _parse_columns("on", on), parse_groupings(by)
    attributes = [x for x in dict.fromkeys(itertools.chain(*groups)) if x not in keys]
    for name in (*keys, *attributes):
        require(name != "system", "on= and by= cannot contain 'system'. Leave it out")
    with open_session(con, per_query, outcomes) as session:
        left, result = _open_table(session, per_query, "per_query")
        right, _ = _open_table(session, outcomes, "outcomes")
        joined = {
            require_column(left, name, "on"): require_column(right, parts[0], "on")
            for name, parts in keys.items()
        }
        excluded = {"system", *joined, *attributes}
        names = _resolve_metrics(session, left, metrics, result, excluded)
        columns = _resolve_outcomes(session, right, outcome, {*excluded, *joined.values()})
        systems = _choose_systems(session, left, right, baseline)
        join = KeyJoin(left, right, joined, attributes, names, columns, systems)
        pairs, notes = join.match(session)
    directions, _ = resolve_directions(names, higher_is_better, [*columns])
    measures, change = [*itertools.product(names, columns)], len(systems) == 2
    table, sign_notes = correlate_pairs(pairs, [*joined], measures, groups, confidence, change)
    if change:
        unit = name_unit([*joined])
        notes.insert(0, f"Each value is the change per {unit}: {systems[1]} - {systems[0]}")
    notes += sign_notes
    if metrics is None and not any(map(is_metric, names)):
        used = f"All its numbers are used: {text.join_words(names)}"
        notes.insert(0, f"No column of per_query is named like a metric. {used}")
    if lower := [name for name, higher in directions.items() if not higher]:
        notes.append(f"Lower is better: {', '.join(lower)}")
    if len(table) > 1:
        notes.append(
            f"p-values are not adjusted for the {len(table):,} rows of the table. Of unrelated "
            "columns, about 1 in 20 is below 0.05"
        )
    notes.append("Correlation does not show causation")
    return Association(
        table, pairs, [*joined], names, [*columns], groups,
        (systems[0], systems[1]) if change else None, confidence, notes, directions,
    )  # fmt: skip


def _parse_columns(argument: str, value: Any, most: int = 1) -> dict[str, tuple[str, ...]]:
    """Columns by name, from a text, a list or a dict; of a dict up to `most` each."""
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        names = {name: name for name in names}
    columns = names if isinstance(names, Mapping) else {}
    columns = {x: tuple(y) if isinstance(y, list | tuple) else (y,) for x, y in columns.items()}
    valid = columns and all(isinstance(x, str) and 0 < len(y) <= most for x, y in columns.items())
    ratios = ", or be a dict of ratios such as {'CTR': ('clicks', 'impressions')}"
    ratios = ratios if most > 1 else ""
    require(bool(valid), f"{argument}= must name columns{ratios}, not {value!r}")
    return columns


def _open_table(session: Session, data: Any, label: str) -> tuple[Table, Result | None]:
    """The input as a table; and as a result, if it is one or a file of one."""
    if isinstance(data, str | os.PathLike) and (meta := read_metadata(data)) is not None:
        data = Result(meta, values=Path(data))
    if not isinstance(data, MeansResult):
        return session.table(data, label), None
    result = open_result(data)
    values = [compared_value(name, result.conventions) for name in _list_metrics(result)]
    rows = result.frame().select(*result.keys, *result.meta.by, *values)
    return session.table(rows, label), result


def _list_metrics(result: Result) -> list[str]:
    """The metrics that have a value per query."""
    return [name for name in result.metrics if name not in result.catalogue_metrics]


def _resolve_metrics(
    session: Session, table: Table, metrics: Any, result: Result | None, excluded: Collection[str]
) -> list[str]:
    """The metric columns: those asked for, those named like metrics, or all numbers."""
    if metrics is None:
        numbers = _list_numbers(session, table, excluded, "metrics")
        known = _list_metrics(result) if result else ()
        return [name for name in numbers if name in known or is_metric(name)] or numbers
    rules, names = Conventions().as_dict(), []
    for metric in _parse_columns("metrics", metrics):
        names += resolve_names(metric, list(table.columns), rules)
    return list(dict.fromkeys(require_column(table, name, "metrics") for name in names))


def _resolve_outcomes(
    session: Session, table: Table, outcome: Any, excluded: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The outcomes by name: one column each, or two whose sums are divided."""
    if outcome is None:
        outcome = _list_numbers(session, table, excluded, "outcome")
    return {
        name: tuple(require_column(table, part, "outcome") for part in parts)
        for name, parts in _parse_columns("outcome", outcome, 2).items()
    }


def _list_numbers(
    session: Session, table: Table, excluded: Collection[str], argument: str
) -> list[str]:
    """The columns of numbers that may be metrics or outcomes."""
    names = [x for x in table.columns if x not in excluded and is_number_column(session, table, x)]
    require(bool(names), f"{table.label} has no numeric column except the key. Pass {argument}=")
    return names


def _choose_systems(
    session: Session, per_query: Table, outcomes: Table, baseline: str | None
) -> list[str]:
    """The systems of per_query: none, one, or the two that are compared, the baseline first."""
    tables = [table.label for table in (per_query, outcomes) if "system" in table.columns]
    if len(tables) == 1:
        raise RankqlError(
            f"Only {tables[0]} has a column 'system'. Add it to both tables, or pass one system "
            "without that column"
        )
    names = []
    if tables:
        sql = f"SELECT DISTINCT {_read_key('system', True)} AS x FROM {per_query.sql}"
        names = [x.decode() for (x,) in fetch(session, f"{sql} ORDER BY x") if x is not None]
    if len(names) > 2:
        raise RankqlError(
            f"per_query has {len(names)} systems ({format_examples(names)}). Keep one or two"
        )
    if len(names) < 2:
        require(baseline is None, "baseline= needs two systems, but per_query has one")
        return names
    start = f"{names[0]!r} or {names[1]!r}"
    require(
        baseline in names, f"baseline= must be the system to start from, {start}, not {baseline!r}"
    )
    return sorted(names, key=lambda name: name != baseline)


@dataclass(frozen=True)
class KeyJoin:
    """The join of both inputs by key: one SQL query, one row per key."""

    per_query: Table
    outcomes: Table
    keys: dict[str, str]
    # The attributes of slices that are not part of the key.
    by: list[str]
    metrics: list[str]
    # The columns of each outcome: one, or two whose sums are divided.
    outcome_columns: dict[str, tuple[str, ...]]
    systems: list[str]

    def match(self, session: Session) -> tuple[pl.DataFrame, list[str]]:
        """The values of the keys that both inputs have, and notes on the others."""
        unit = name_unit([*self.keys])
        tables, values = (self.per_query, self.outcomes), [*self.metrics, *self.outcome_columns]
        for name in self.by:
            if not any(name in table.columns for table in tables):
                raise unknown_column("by", name, tables)
        names = [*self.keys, *self.by, *values]
        for name in names:
            require_plain_name(name)
            if [x.lower() for x in names].count(name.lower()) > 1:
                raise RankqlError(
                    f"Two columns of the result would be named {name!r}. Choose other metrics=, "
                    f"or rename the outcome: outcome={{'another name': {name!r}}}"
                )
        systems = ", ".join(f"encode({literal(name)})" for name in self.systems)
        where = f" WHERE {_read_key('system', True)} IN ({systems})" if systems else ""
        left, right = (
            f"(SELECT {', '.join(self._columns(table))} FROM {table.sql}{where} GROUP BY ALL)"
            for table in tables
        )
        sql = f"FROM {left} FULL JOIN {right} USING ({', '.join(map(quote, self.keys))})"
        with duckdb_errors():
            rows = fetch_frame(session, sql, few=False).with_columns(
                pl.col(pl.Binary).cast(pl.String)
            )
        rows, notes = rows.sort([*self.keys], nulls_last=True), []
        parts = {label: rows.drop_nulls(several) for label, several in _SEVERAL.items()}
        for label, part in parts.items():
            require(len(part) > 0, f"{label} has no rows")
        pairs = rows.drop_nulls([*_SEVERAL.values()])
        if pairs.is_empty():
            examples = (f"{label} has {self._format_keys(part)}" for label, part in parts.items())
            raise RankqlError(
                f"No {unit} is in both tables: {', '.join(examples)}. Choose a key that both have"
            )
        for (label, part), other in zip(parts.items(), reversed(_INPUTS), strict=True):
            if len(alone := part.filter(pl.col(_SEVERAL[other]).is_null())):
                count = f"{len(alone):,} of {text.format_count(len(part), unit)}"
                keys = self._format_keys(alone)
                notes.append(f"Dropped {count} of {label} not found in {other} ({keys})")
            if pairs[_SEVERAL[label]].any():
                notes.append(f"{label} has several rows per {unit}: {_INPUTS[label]}")
        for name in values:
            require(
                pairs[name].is_finite().all(), f"{name} is too large for some {unit}. Scale it down"
            )
            if nulls := pairs[name].null_count():
                of = text.format_count(len(pairs), unit)
                notes.append(f"{name} is NULL for {nulls:,} of {of}: dropped from its correlations")
        return pairs.select(names), notes

    def _columns(self, table: Table) -> Iterator[str]:
        """The columns that are read from an input."""
        left, keys = table is self.per_query, []
        for name, other in self.keys.items():
            types = [self.per_query.columns[name], self.outcomes.columns[other]]
            # Of different types, they are compared as text.
            keys.append(
                _read_key(name if left else other, not same_kind(types) or is_text(types[0]))
            )
            yield f"{keys[-1]} AS {quote(name)}"
        rows = "count(DISTINCT system)" if self.systems else "1"
        yield f"count(*) > {rows} AS {_SEVERAL[table.label]}"
        for name in self.by:
            if left == (name in self.per_query.columns):
                value = _read_key(name, is_text(table.columns[name]))
                known = " AND ".join(f"min({key}) IS NOT NULL" for key in keys)
                unit = name_unit([*self.keys])
                message = f"by: {name} must have one value per {unit}. Add it to the key: on="
                several = f"min({value}) <> max({value}) AND {known}"
                checked = f"WHEN {several} THEN error({literal(message)}) ELSE min({value})"
                yield f"CASE {checked} END AS {quote(name)}"
        columns = {name: (name,) for name in self.metrics} if left else self.outcome_columns
        for name, parts in columns.items():
            yield f"{self._value(table, parts)} AS {quote(name)}"

    def _value(self, table: Table, columns: Sequence[str]) -> str:
        """A mean or a ratio of sums; of two systems the change, 0 if it is only rounding."""
        numbers = [replace(table, roles={"rel": name}).read("rel") for name in columns]

        def value(condition: str) -> str:
            if len(numbers) == 1:
                return f"favg({numbers[0]}) FILTER ({condition})"
            x, y = numbers
            known = f"FILTER ({condition} AND {x} IS NOT NULL AND {y} IS NOT NULL)"
            return f"(fsum({x}) {known} / nullif(fsum({y}) {known}, 0))"

        if len(self.systems) < 2:
            return value("true")
        a, b = (value(f"{_read_key('system', True)} = encode({literal(x)})") for x in self.systems)
        rounding = f"{ROUNDING} * greatest(abs({a}), abs({b}))"
        return f"if(abs({b} - {a}) <= {rounding}, 0, {b} - {a})"

    def _format_keys(self, rows: pl.DataFrame) -> str:
        """A few keys, as notes and errors show them."""
        texts = [
            repr(row[0] if len(row) == 1 else row)
            for row in rows.select([*self.keys]).head(3).rows()
        ]
        texts = ["NULL" if key == "None" else key for key in texts]
        return ", ".join(texts) + (", ..." if len(rows) > 3 else "")


def _read_key(name: str, as_text: bool) -> str:
    """A key column; text as bytes, so that no collation makes different texts equal."""
    return f"encode(CAST({quote(name)} AS VARCHAR))" if as_text else quote(name)
