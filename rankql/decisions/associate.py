"""Do metrics go with business outcomes? Tables joined by key, then correlated."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.errors import RankqlError, describe_unknown, require_package
from rankql.evaluation.combine import open_result, read_metadata
from rankql.evaluation.means import compared_value, slice_queries
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.overlap import format_examples
from rankql.evaluation.request import parse_groupings
from rankql.evaluation.result import Result
from rankql.evaluation.values import is_number_column
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.argument_checks import as_number, normal_z, require, require_plain_name
from rankql.registry.conventions import Conventions
from rankql.registry.parse import is_metric, resolve_names
from rankql.results import TableResult
from rankql.sources.reader import fetch, fetch_frame
from rankql.sources.session import Session, duckdb_errors, open_session
from rankql.sources.tables import Data, Table, is_text, require_column, same_kind
from rankql.stats.means import ROUNDING
from rankql.writing import remember_inputs

# What happens to several rows of one key, and the column that says whether there are some.
_INPUTS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are taken of the sums",
}
_SEVERAL = {label: f"{INTERNAL_PREFIX}{label}" for label in _INPUTS}
_COEFFICIENTS = ("pearson", "spearman")
_SCHEMA = {
    **dict.fromkeys(("metric", "outcome", "slice"), pl.String),
    "n": pl.Int64,
    **{name + end: pl.Float64 for name in _COEFFICIENTS for end in ("", "_lo", "_hi", "_p")},
    "remark": pl.String,
}
_WORDS = ("up", "same", "down")
# Without band=, changes within this share of their standard deviation count as no change.
_SHARE = 0.1


@dataclass(eq=False, repr=False)
class Association(TableResult):
    """Metrics and outcomes by key, and their correlations.

    `table` has a row per metric, outcome and slice: n, Pearson's and Spearman's coefficient, each
    with its interval and p-value, and a remark if one is missing. `pairs` has the values of every
    key; with two systems, their differences.
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

    def quadrants(
        self, metric: str, outcome: str, band: Mapping[str, float] | None = None
    ) -> pl.DataFrame:
        """Count the keys by whether metric and outcome went up, stayed the same or went down.

        A change of at most `band`, a number by column, counts as the same; by default that is a
        tenth of the standard deviation of the changes.
        """
        systems = "Pass tables with a column 'system', and baseline="
        require(self.systems is not None, f"quadrants needs two systems. {systems}")
        names = [metric, outcome]
        for kind, name, known in zip(
            ("metric", "outcome"), names, (self.metrics, self.outcomes), strict=True
        ):
            require(name in known, describe_unknown(kind, name, known))
        rows = self.pairs.drop_nulls(names).select(pl.col(names).cast(pl.Float64))
        require(len(rows) > 0, f"No key has values of both {metric!r} and {outcome!r}")
        if band is None:
            band = rows.select(pl.all().std().fill_null(0) * _SHARE).row(0, named=True)
        valid = isinstance(band, Mapping) and {*band} == {*names}
        valid = valid and all(0 <= as_number(x) < math.inf for x in band.values())
        needed = " and for ".join(names)
        require(valid, f"band= must be a dict with a number from 0 for {needed}, not {band!r}")
        sizes = ((name, pl.col(name)) for name in names)
        moves = rows.select(
            pl.when(x.abs() > band[name]).then(1 - x.sign()).otherwise(1).alias(name)
            for name, x in sizes
        ).rows()
        counts = [(_WORDS[x], _WORDS[y], moves.count((x, y))) for x in range(3) for y in range(3)]
        table = pl.DataFrame(counts, ["metric", "outcome", "n"], orient="row")
        return table.with_columns(share=pl.col("n") / len(rows))

    def _details(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("on", "systems", "confidence")}


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
    confidence: float = 0.95,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Association:
    """Correlate metrics with outcomes, such as clicks or revenue, by key and within slices.

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
    by : str or list, optional
        Add slices, by columns of per_query: the correlations in each.
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
    keys, groups = _parse_columns("on", on), parse_groupings(by)
    attributes = [*dict.fromkeys(x for x in itertools.chain(*groups) if x not in keys)]
    message = "on= and by= cannot contain 'system'. Leave it out"
    require("system" not in [*keys, *attributes], message)
    with open_session(con, per_query, outcomes) as session:
        left, known = _open_table(session, per_query, "per_query")
        right, _ = _open_table(session, outcomes, "outcomes")
        attributes = [require_column(left, name, "by") for name in attributes]
        joined = {
            require_column(left, name, "on"): require_column(right, parts[0], "on")
            for name, parts in keys.items()
        }
        excluded = {"system", *joined, *attributes}
        names = _resolve_metrics(session, left, metrics, known, excluded)
        if outcome is None:
            outcome = _list_numbers(session, right, {*excluded, *joined.values()}, "outcome")
        ratios = {  # one column each, or two whose sums are divided
            name: tuple(require_column(right, part, "outcome") for part in parts)
            for name, parts in _parse_columns("outcome", outcome, 2).items()
        }
        systems = _choose_systems(session, left, right, baseline)
        join = KeyJoin(joined, attributes, systems)
        rows = join.read(session, left, right, {name: (name,) for name in names}, ratios)
        pairs, notes = join.drop_unmatched(rows, [*names, *ratios])
    pair = (systems[0], systems[1]) if len(systems) == 2 else None
    if pair:
        notes.insert(0, f"Each value is the change per {join.unit}: {pair[1]} - {pair[0]}")
    if metrics is None and not any(map(is_metric, names)):
        used = f"All its numbers are used: {text.join_words(names)}"
        notes.insert(0, f"No column of per_query is named like a metric. {used}")
    table, remarks = _correlate(pairs, [*joined], names, [*ratios], groups, confidence)
    notes += [*remarks, "Correlation does not show causation"]
    return Association(table, pairs, [*joined], names, [*ratios], pair, confidence, notes)


def _correlate(
    pairs: pl.DataFrame, keys: Sequence[str], metrics: Sequence[str], outcomes: Sequence[str],
    groups: Sequence[Sequence[str]], confidence: float,
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """The table of correlations, and notes on it."""
    from rankql.stats.correlation import correlate_values

    index = pl.int_range(pl.len()).alias(f"{INTERNAL_PREFIX}row")
    parts = slice_queries(pairs.select(index, *dict.fromkeys(itertools.chain(*groups))), groups)
    rows, differing = [], []
    for metric, outcome in itertools.product(metrics, outcomes):
        for part, places in parts.items():
            values = pairs[places].drop_nulls([metric, outcome])
            x, y = (values[name].cast(pl.Float64).to_numpy() for name in (metric, outcome))
            days = _read_days(values, keys)
            found = [correlate_values(x, y, confidence, days, ranks) for ranks in (False, True)]
            row = {"metric": metric, "outcome": outcome, "slice": part, "n": len(values)}
            for name, each in zip(_COEFFICIENTS, found, strict=True):
                numbers = {"": each.r, "_lo": each.lo, "_hi": each.hi, "_p": each.p}
                row |= {name + end: number for end, number in numbers.items()}
            rows.append(row | {"remark": found[0].reason or found[1].reason})
            ends = [(x.lo, x.hi) for x in found if x.lo is not None and x.hi is not None]
            if len({(lo > 0) - (hi < 0) for lo, hi in ends}) > 1:
                differing.append(text.add_slice(f"{metric} and {outcome}", part))
    notes = []
    if _read_days(pairs, keys) is not None:
        notes.append(
            "The keys are days: weekday and linear trend are taken out, and days that resemble "
            "each other count as fewer. A season or a change of level that both share is not taken "
            "out"
        )
    if differing:
        notes.append(
            f"Pearson and Spearman disagree for {differing[0]}"
            f"{f' and {len(differing) - 1:,} more rows' * (len(differing) > 1)}: their intervals "
            "are not on the same side of 0. Pearson depends on extreme values: trust Spearman"
        )
    if len(rows) > 1:
        notes.append(
            f"p-values are not adjusted for the {len(rows):,} rows of the table. Of unrelated "
            "columns, about 1 in 20 is below 0.05"
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
    """The join of both inputs by key, one row per key."""

    # The names of the key in per_query and in outcomes.
    keys: dict[str, str]
    # The attributes of slices that are not part of the key.
    by: list[str]
    systems: list[str]

    @property
    def unit(self) -> str:
        """The noun for a row: the name of the key, or 'key' if it has several columns."""
        return text.row_noun(next(iter(self.keys)) if len(self.keys) == 1 else "")

    def read(
        self,
        session: Session,
        per_query: Table,
        outcomes: Table,
        metrics: Mapping[str, Sequence[str]],
        ratios: Mapping[str, Sequence[str]],
    ) -> pl.DataFrame:
        """The values of all keys, by one SQL query."""
        names = [*self.keys, *self.by, *metrics, *ratios]
        for name in names:
            require_plain_name(name)
            if [x.lower() for x in names].count(name.lower()) > 1:
                raise RankqlError(
                    f"Two columns of the result would be named {name!r}. Choose other metrics=, "
                    f"or rename the outcome: outcome={{'another name': {name!r}}}"
                )
        # Keys of different types are compared as text.
        types = [
            (per_query.columns[name], outcomes.columns[other]) for name, other in self.keys.items()
        ]
        as_text = [not same_kind([*pair]) or is_text(pair[0]) for pair in types]
        systems = ", ".join(f"encode({literal(name)})" for name in self.systems)
        where = f" WHERE {_read_key('system', True)} IN ({systems})" if systems else ""
        queries = []
        inputs = ((per_query, [*self.keys], metrics), (outcomes, [*self.keys.values()], ratios))
        for table, keys, values in inputs:
            read = [*map(_read_key, keys, as_text)]
            columns = [f"{key} AS {quote(name)}" for key, name in zip(read, self.keys, strict=True)]
            most = "count(DISTINCT system)" if systems else "1"
            columns.append(f"count(*) > {most} AS {_SEVERAL[table.label]}")
            for name in self.by * (table is per_query):
                value = _read_key(name, is_text(table.columns[name]))
                known = " AND ".join(f"min({key}) IS NOT NULL" for key in read)
                message = f"by: {name} must have one value per {self.unit}. Add it to the key: on="
                several = f"min({value}) <> max({value}) AND {known}"
                checked = f"WHEN {several} THEN error({literal(message)}) ELSE min({value})"
                columns.append(f"CASE {checked} END AS {quote(name)}")
            columns += [
                f"{self._value(table, parts)} AS {quote(name)}" for name, parts in values.items()
            ]
            queries.append(f"(SELECT {', '.join(columns)} FROM {table.sql}{where} GROUP BY ALL)")
        sql = f"FROM {queries[0]} FULL JOIN {queries[1]} USING ({', '.join(map(quote, self.keys))})"
        with duckdb_errors():
            rows = fetch_frame(session, sql, few=False)
        rows = rows.with_columns(pl.col(pl.Binary).cast(pl.String))
        return rows.sort([*self.keys], nulls_last=True)

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

    def drop_unmatched(
        self, rows: pl.DataFrame, values: Sequence[str]
    ) -> tuple[pl.DataFrame, list[str]]:
        """The keys that both inputs have, and notes on the others and on missing values."""
        notes = []
        parts = {label: rows.drop_nulls(several) for label, several in _SEVERAL.items()}
        for label, part in parts.items():
            require(len(part) > 0, f"{label} has no rows")
        pairs = rows.drop_nulls([*_SEVERAL.values()])
        if pairs.is_empty():
            examples = (f"{label} has {self._format_keys(part)}" for label, part in parts.items())
            raise RankqlError(
                f"No {self.unit} is in both tables: {', '.join(examples)}. Choose a key that both "
                "have"
            )
        for (label, part), other in zip(parts.items(), reversed(_INPUTS), strict=True):
            if len(alone := part.filter(pl.col(_SEVERAL[other]).is_null())):
                count = f"{len(alone):,} of {text.format_count(len(part), self.unit)}"
                keys = self._format_keys(alone)
                notes.append(f"Dropped {count} of {label} not found in {other} ({keys})")
            if pairs[_SEVERAL[label]].any():
                notes.append(f"{label} has several rows per {self.unit}: {_INPUTS[label]}")
        of = text.format_count(len(pairs), self.unit)
        for name in values:
            finite = pairs[name].is_finite().all()
            require(finite, f"{name} is too large for some {self.unit}. Scale it down")
            if nulls := pairs[name].null_count():
                notes.append(f"{name} is NULL for {nulls:,} of {of}: dropped from its correlations")
        return pairs.select(*self.keys, *self.by, *values), notes

    def _format_keys(self, rows: pl.DataFrame) -> str:
        """A few keys, as notes and errors show them."""
        few = rows.select([*self.keys]).head(3).rows()
        keys = [row[0] if len(row) == 1 else row for row in few]
        texts = ["NULL" if key is None else repr(key) for key in keys]
        return ", ".join(texts) + (", ..." if len(rows) > 3 else "")


def _read_key(name: str, as_text: bool) -> str:
    """A key column; text as bytes, so that no collation makes different texts equal."""
    return f"encode(CAST({quote(name)} AS VARCHAR))" if as_text else quote(name)
