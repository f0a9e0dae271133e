"""Do metrics go with business outcomes? Tables joined by key, then correlated."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import normal_z, require, require_package, require_plain_name
from rankql.core.base.results import TableResult
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.checks.counters import format_examples
from rankql.core.evaluation.plan.meta import compared_value
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.metrics.parse import is_metric, resolve_names
from rankql.core.stats.means import ROUNDING
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.session import Session, duckdb_errors, open_session
from rankql.core.tables.tables import (
    Data,
    Table,
    is_text,
    midnight_as_day,
    require_column,
    same_kind,
)
from rankql.features.combine import find_result
from rankql.features.values import is_number_column

# What happens to several rows of one key, and the column that says whether there are some.
_INPUTS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are taken of the sums",
}
_SEVERAL = {label: f"{INTERNAL_PREFIX}{label}" for label in _INPUTS}
# The name of the system as bytes, of which no collation makes two equal.
_SYSTEM = "encode(CAST(system AS VARCHAR))"
_COEFFICIENTS = ("pearson", "spearman")
_SCHEMA = {
    **dict.fromkeys(("metric", "outcome"), pl.String),
    "n": pl.Int64,
    **{name + end: pl.Float64 for name in _COEFFICIENTS for end in ("", "_lo", "_hi", "_p")},
    "remark": pl.String,
}
_Values: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(eq=False, repr=False)
class Association(TableResult):
    """Metrics and outcomes by key, and their correlations.

    `table` has a row per metric and outcome: n, Pearson's and Spearman's coefficient, each with its
    interval and p-value, and a remark if one is missing. `pairs` has the values of every key; with
    two systems, their differences.
    """

    table: pl.DataFrame
    pairs: pl.DataFrame
    on: list[str]
    metrics: list[str]
    outcomes: list[str]
    # The baseline and the other system; None for one system.
    systems: tuple[str, str] | None
    confidence: float
    notes: list[str] = field(default_factory=list)
    _details = ("on", "systems", "confidence")


@remember_inputs
def associate(
    per_query: Data,
    outcomes: Data,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    metrics: str | Sequence[str] | None = None,
    outcome: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    baseline: str | None = None,
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Correlate metrics with outcomes, such as clicks or revenue, by key.

    If a key has several rows, metrics and rates are averaged, and ratios are taken of the sums. If
    both tables have a column `system` with two systems, the differences are correlated. If a key is
    a day, weekday and trend are taken out, and days that resemble each other count as fewer.

    Intervals are Fisher's z for Pearson, and Bonett and Wright (2000) for Spearman; the p-value
    belongs to the interval. Below 10 keys there is none. Spearman's p is at most 0.05 for at most
    5% of unrelated columns, including skewed and tied ones. Pearson's interval is too narrow for
    skewed values. NULLs and ratios with divisor 0 are dropped and counted. Values that are not
    finite are an error.

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
    baseline : str, optional
        The system to start from, if there are two.
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
    keys = _parse_columns("on", on)
    require("system" not in keys, "on= cannot contain 'system'. Leave it out")
    with open_session(con, per_query, outcomes) as session:
        left, known = _open_table(session, per_query, "per_query")
        right, _ = _open_table(session, outcomes, "outcomes")
        joined = {
            require_column(left, name, "on"): require_column(right, parts[0], "on")
            for name, parts in keys.items()
        }
        excluded = {"system", *joined}
        names = _resolve_metrics(left, metrics, known, excluded)
        if outcome is None:
            outcome = _list_numbers(right, {*excluded, *joined.values()}, "outcome")
        ratios = {  # one column each, or two whose sums are divided
            name: tuple(require_column(right, part, "outcome") for part in parts)
            for name, parts in _parse_columns("outcome", outcome, 2).items()
        }
        systems = _choose_systems(left, right, baseline)
        tables = ((left, {name: (name,) for name in names}), (right, ratios))
        rows = _join_tables(tables, joined, systems)
    pairs, notes = _drop_unmatched(rows, [*joined], [*names, *ratios])
    pair = (systems[0], systems[1]) if len(systems) == 2 else None
    if pair is not None:
        notes.insert(0, f"Each value is the change per key: {pair[1]} - {pair[0]}")
    table, remarks = _correlate(pairs, [*joined], names, [*ratios], confidence)
    return Association(table, pairs, [*joined], names, [*ratios], pair, confidence, notes + remarks)


def _correlate(
    pairs: pl.DataFrame, keys: Sequence[str], metrics: Sequence[str], outcomes: Sequence[str],
    confidence: float,
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """The table of correlations, and notes on it."""
    from rankql.core.stats.correlation import correlate_values

    rows, differing, notes = [], [], list[str]()
    for metric, outcome in itertools.product(metrics, outcomes):
        values = pairs.drop_nulls([metric, outcome])
        x, y = (values[name].cast(pl.Float64).to_numpy() for name in (metric, outcome))
        days = _read_days(values, keys)
        found = [correlate_values(x, y, confidence, days, ranks) for ranks in (False, True)]
        row = {"metric": metric, "outcome": outcome, "n": len(values)}
        for name, each in zip(_COEFFICIENTS, found, strict=True):
            numbers = {"": each.r, "_lo": each.lo, "_hi": each.hi, "_p": each.p}
            row |= {name + end: number for end, number in numbers.items()}
        rows.append(row | {"remark": found[0].reason or found[1].reason})
        ends = [(x.lo, x.hi) for x in found if x.lo is not None and x.hi is not None]
        if len({(lo > 0) - (hi < 0) for lo, hi in ends}) > 1:
            differing.append(f"{metric} and {outcome}")
    if (days := _read_days(pairs, keys)) is not None and len({*days}) == len(days):
        notes.append(
            "The keys are days: weekday and linear trend are taken out, and days that resemble "
            "each other count as fewer. A season or a change of level that both share is not taken "
            "out"
        )
    if differing:
        notes.append(
            f"Pearson and Spearman disagree for {text.join_words(differing)}: their intervals are "
            "not on the same side of 0. Pearson depends on extreme values: trust Spearman"
        )
    return pl.DataFrame(rows, schema=_SCHEMA), notes


def _read_days(pairs: pl.DataFrame, keys: Sequence[str]) -> Any:
    """The number of each row's day, if a column of the key has dates."""
    for key in keys:
        texts = pairs[key].cast(pl.String)
        iso = texts.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        for days in (iso, texts.str.to_date("%Y%m%d", strict=False)):
            if len(days) and not days.null_count() and days.dt.year().is_between(1900, 2200).all():
                return days.to_physical().cast(pl.Int64).to_numpy()
    return None


def _parse_columns(argument: str, value: Any, most: int = 1) -> dict[str, tuple[str, ...]]:
    """The columns of an argument by name: a dict, or one or several names."""
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        names = {name: name for name in names}
    columns = names if isinstance(names, Mapping) else {}
    columns = {x: tuple(y) if isinstance(y, list | tuple) else (y,) for x, y in columns.items()}
    valid = columns and all(isinstance(x, str) and 0 < len(y) <= most for x, y in columns.items())
    ratios = ", or be a dict of ratios such as {'CTR': ('clicks', 'impressions')}" * (most > 1)
    require(bool(valid), f"{argument}= must name columns{ratios}, not {value!r}")
    return columns


def _open_table(session: Session, data: Any, label: str) -> tuple[Table, Result | None]:
    """The input as a table; and as a result, if it is one or a file of one."""
    result = find_result(data)
    if result is None:
        return session.table(data, label).with_undefined(), None
    require(
        result.judge is None and result.meta.weight is None,
        f"{label} has weights or a judge, which associate does not respect. Evaluate without them",
    )
    values = [compared_value(name, result.meta) for name in _list_metrics(result)]
    rows = result.frame().select(*result.keys, *result.meta.by, *values)
    return session.table(rows, label), result


def _list_metrics(result: Result) -> list[str]:
    """The metrics that have a value per query."""
    return [name for name in result.metrics if name not in result.catalogue_metrics]


def _resolve_metrics(
    table: Table, metrics: Any, result: Result | None, excluded: Collection[str]
) -> list[str]:
    """The metric columns: those asked for, those named like metrics, or all numbers."""
    if metrics is None:
        is_run = result is None and table.known("item") and table.known("score")
        require(not is_run, f"{table.label} is a run. Pass the result of evaluate, or metrics=")
        numbers = _list_numbers(table, excluded, "metrics")
        known = _list_metrics(result) if result else ()
        return [name for name in numbers if name in known or is_metric(name)] or numbers
    rules, names = Conventions().as_dict(), []
    for metric in _parse_columns("metrics", metrics):
        names += resolve_names(metric, list(table.columns), rules)
    return list(dict.fromkeys(require_column(table, name, "metrics") for name in names))


def _list_numbers(table: Table, excluded: Collection[str], argument: str) -> list[str]:
    """The columns of numbers that may be metrics or outcomes."""
    names = [x for x in table.columns if x not in excluded and is_number_column(table, x)]
    require(bool(names), f"{table.label} has no numeric column except the key. Pass {argument}=")
    return names


def _choose_systems(per_query: Table, outcomes: Table, baseline: str | None) -> list[str]:
    """The systems of per_query: none, one, or the two that are compared, the baseline first."""
    have = [table.has("system") for table in (per_query, outcomes)]
    require(have[0] == have[1], "Only one table has a column 'system'. Add it to both, or to none")
    names = []
    if all(have):
        rows = per_query.rows(f"DISTINCT {_SYSTEM} AS x", " ORDER BY x")
        names = [x.decode() for (x,) in rows if x is not None]
    require(len(names) < 3, f"per_query has {len(names)} systems. Keep one or two")
    valid = baseline in names if len(names) == 2 else baseline is None
    known = f"must be one of two systems in both tables ({format_examples(names)})"
    wrong = known if len(names) == 2 else "needs two systems in both tables. Leave it out"
    require(valid, f"baseline={baseline!r} {wrong}")
    return sorted(names, key=lambda name: name != baseline)


def _join_tables(
    tables: Sequence[tuple[Table, _Values]], keys: Mapping[str, str], systems: Sequence[str]
) -> pl.DataFrame:
    """The values of per_query and outcomes for all keys, one row per key, by one SQL query.

    keys: the name of each key column in per_query, and in outcomes.
    """
    names = [*keys, *itertools.chain(*(values for _, values in tables))]
    for name in names:
        require_plain_name(name)
        once = [x.lower() for x in names].count(name.lower()) == 1
        remedy = f"Choose other metrics=, or rename it: outcome={{'another name': {name!r}}}"
        require(once, f"Two columns of the result would be named {name!r}. {remedy}")
    types = [[tables[0][0].columns[x], tables[1][0].columns[y]] for x, y in keys.items()]
    # Keys of different types are compared as text.
    as_text = [not same_kind(pair) or is_text(pair[0]) for pair in types]
    some = ", ".join(f"encode({literal(name)})" for name in systems)
    where = f" WHERE {_SYSTEM} IN ({some})" if systems else ""
    most = "count(DISTINCT system)" if systems else "1"
    queries = []
    for (table, values), own in zip(tables, (keys, keys.values()), strict=True):
        columns = dict(zip(keys, map(_read_key, own, as_text), strict=True))
        columns |= {_SEVERAL[table.label]: f"count(*) > {most}"}
        columns |= {name: _value_sql(table, parts, systems) for name, parts in values.items()}
        fields = ", ".join(f"{value} AS {quote(name)}" for name, value in columns.items())
        queries.append(f"(SELECT {fields} FROM {table.sql}{where} GROUP BY ALL)")
    sql = f"FROM {queries[0]} FULL JOIN {queries[1]} USING ({', '.join(map(quote, keys))})"
    with duckdb_errors():
        rows = fetch_frame(tables[0][0].session, sql)
    return rows.with_columns(pl.col(pl.Binary).cast(pl.String)).sort([*keys], nulls_last=True)


def _value_sql(table: Table, columns: Sequence[str], systems: Sequence[str]) -> str:
    """A mean or a ratio of sums; of two systems the change, 0 if it is only rounding."""
    numbers = [replace(table, roles={"rel": name}).read("rel") for name in columns]

    def value(condition: str) -> str:
        if len(numbers) == 1:
            return f"favg({numbers[0]}) FILTER ({condition})"
        x, y = numbers
        known = f"FILTER ({condition} AND {x} IS NOT NULL AND {y} IS NOT NULL)"
        return f"(fsum({x}) {known} / nullif(fsum({y}) {known}, 0))"

    if len(systems) < 2:
        return value("true")
    a, b = (value(f"{_SYSTEM} = encode({literal(x)})") for x in systems)
    rounding = f"{ROUNDING} * greatest(abs({a}), abs({b}))"
    return f"if(abs({b} - {a}) <= {rounding}, 0, {b} - {a})"


def _drop_unmatched(
    rows: pl.DataFrame, keys: Sequence[str], values: Sequence[str]
) -> tuple[pl.DataFrame, list[str]]:
    """The keys that both inputs have, and notes on the others and on missing values."""
    parts, notes = {x: rows.drop_nulls(several) for x, several in _SEVERAL.items()}, list[str]()
    examples = {x: format_examples(part.select(keys).head(3).rows()) for x, part in parts.items()}
    pairs = rows.drop_nulls([*_SEVERAL.values()])
    have = " and ".join(f"{label} has {some or 'no rows'}" for label, some in examples.items())
    require(len(pairs) > 0, f"No key is in both tables: {have}. Choose a key that both have")
    for label, part in parts.items():
        if lost := len(part) - len(pairs):
            notes.append(f"Dropped {lost:,} of {len(part):,} keys that only {label} has")
        if pairs[_SEVERAL[label]].any():
            notes.append(f"{label} has several rows per key: {_INPUTS[label]}")
    for name in values:
        if nulls := pairs[name].null_count():
            of = f"{nulls:,} of {len(pairs):,} keys"
            notes.append(f"{name} is NULL for {of}: dropped from its correlations")
    return pairs.drop(_SEVERAL.values()), notes


def _read_key(name: str, as_text: bool) -> str:
    """A key column; text as bytes, so that no collation makes different texts equal.

    Midnight is its day, as pandas writes it.
    """
    text = midnight_as_day(f"CAST({quote(name)} AS VARCHAR)")
    return f"encode({text})" if as_text else quote(name)
