"""The join of both inputs of associate by key: one SQL query, one row per key and system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from rankql import text
from rankql.errors import RankqlError
from rankql.evaluation.overlap import format_examples
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.registry.argument_checks import require, require_plain_name
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import Table, is_text, same_kind, unknown_column
from rankql.stats.means import ROUNDING

# What happens to several rows of one key, and the column that counts them.
_INPUTS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are taken of the sums",
}
_ROWS = {label: f"{INTERNAL_PREFIX}{label}" for label in _INPUTS}
# The prefixes of columns that are only checked: an attribute's maximum, a divisor's minimum.
_MOST, _LEAST = f"{INTERNAL_PREFIX}most_", f"{INTERNAL_PREFIX}least_"


@dataclass(frozen=True)
class KeyJoin:
    """What to join: both inputs, the key, slices, metrics and outcomes."""

    per_query: Table
    outcomes: Table
    keys: dict[str, str]
    groups: list[list[str]]
    metrics: list[str]
    # The columns of each outcome: one, or two whose sums are divided.
    outcome_columns: dict[str, tuple[str, ...]]

    @property
    def unit(self) -> str:
        """The noun for a row: the name of the key, or 'key' if it has several columns."""
        return name_unit([*self.keys])

    @property
    def by(self) -> list[str]:
        """The attributes that are not part of the key."""
        names = dict.fromkeys(name for group in self.groups for name in group)
        return [name for name in names if name not in self.keys]

    @property
    def values(self) -> list[str]:
        """The names of the metrics and outcomes."""
        return [*self.metrics, *self.outcome_columns]

    @property
    def identity(self) -> list[str]:
        """The columns of the key, and `system` if the inputs have it."""
        return [*self.keys, *(["system"] if "system" in self.per_query.columns else [])]

    @property
    def tables(self) -> tuple[Table, Table]:
        """Both inputs."""
        return self.per_query, self.outcomes

    def validate(self) -> None:
        """Refuse columns that are missing or share a name."""
        require("system" not in self.by, "by= cannot contain 'system'. Leave it out")
        tables = {table.label: "system" in table.columns for table in self.tables}
        if len({*tables.values()}) > 1:
            has, lacks = sorted(tables, key=lambda label: not tables[label])
            raise RankqlError(
                f"{has} has a column 'system', but {lacks} does not. Add it, or pass one system "
                "without that column"
            )
        columns = dict.fromkeys([*self.per_query.columns, *self.outcomes.columns])
        for name in self.by:
            if name not in columns:
                raise unknown_column("by", name, self.tables)
        names = ["system", *self.keys, *self.by, *self.values]
        for name in names:
            require_plain_name(name)
            if [x.lower() for x in names].count(name.lower()) > 1:
                raise RankqlError(
                    f"Two columns of the result would be named {name!r}. Choose other metrics=, "
                    f"or rename the outcome: outcome={{'another name': {name!r}}}"
                )

    def sql(self) -> str:
        """The query: each input grouped by key, then joined."""
        queries = [
            f"(SELECT {', '.join(self._columns(table))} FROM {table.sql} GROUP BY ALL)"
            for table in self.tables
        ]
        keys = ", ".join(map(quote, self.identity))
        return f"FROM {' FULL JOIN '.join(queries)} USING ({keys})"

    def _columns(self, table: Table) -> Iterator[str]:
        """The columns that are read from an input."""
        left = table is self.per_query
        for name, other in self.keys.items():
            types = [self.per_query.columns[name], self.outcomes.columns[other]]
            # Of different types, they are compared as text.
            as_text = not same_kind(types) or is_text(types[0])
            yield f"{_read_key(name if left else other, as_text)} AS {quote(name)}"
        if "system" in self.identity:
            yield f"{_read_key('system', True)} AS system"
        yield f"count(*) AS {_ROWS[table.label]}"
        for name in self.by:
            if left == (name in self.per_query.columns):
                value = _read_key(name, is_text(table.columns[name]))
                yield f"min({value}) AS {quote(name)}, max({value}) AS {quote(_MOST + name)}"
        for name in self.metrics if left else ():
            yield f"favg({read_number(table, name)}) AS {quote(name)}"
        for name, columns in () if left else self.outcome_columns.items():
            value, *divisor = (read_number(table, column) for column in columns)
            if divisor:
                known = f"FILTER (WHERE {value} IS NOT NULL AND {divisor[0]} IS NOT NULL)"
                ratio = f"fsum({value}) {known} / nullif(fsum({divisor[0]}) {known}, 0)"
                yield f"{ratio} AS {quote(name)}, min({divisor[0]}) AS {quote(_LEAST + name)}"
            else:
                yield f"favg({value}) AS {quote(name)}"


def name_unit(keys: Sequence[str]) -> str:
    """The noun for a row: the name of the key, or 'key' if it has several columns."""
    return text.row_noun(keys[0]) if len(keys) == 1 else "key"


def _read_key(name: str, as_text: bool) -> str:
    """A key column; text as bytes, so that no collation makes different texts equal."""
    return f"encode(CAST({quote(name)} AS VARCHAR))" if as_text else quote(name)


def read_number(table: Table, name: str) -> str:
    """A column of finite numbers."""
    return replace(table, roles={"rel": name}).read("rel")


def match_keys(
    session: Session, join: KeyJoin, baseline: str | None
) -> tuple[pl.DataFrame, tuple[str, str] | None, list[str]]:
    """The values of the keys found in both inputs (of two systems the differences), and notes."""
    with duckdb_errors():
        rows = fetch_frame(session, join.sql(), few=False)
    rows = rows.with_columns(
        pl.col(pl.Binary).cast(pl.String), pl.col(*_ROWS.values()).fill_null(0)
    ).sort(join.identity)
    _require_valid_values(rows, join)
    systems = _choose_systems(rows, join, baseline)
    if "system" in join.identity and systems is None:  # drop systems that have outcomes alone
        rows = rows.join(
            rows.filter(pl.col(_ROWS["per_query"]) > 0), on="system", how="semi", nulls_equal=True
        )
    notes = _describe_dropped_keys(rows, join)
    shared = rows.filter(pl.all_horizontal(pl.col(*_ROWS.values()) > 0))
    if systems:
        shared, single = _subtract_systems(shared, systems, join)
        notes += single
    pairs = shared.select(*join.keys, *join.by, *join.values)
    for name in join.values:
        if count := pairs[name].null_count():
            keys = text.format_count(len(pairs), join.unit)
            notes.append(f"{name} is NULL for {count:,} of {keys}: dropped from its correlations")
    return pairs, systems, notes


def _describe_dropped_keys(rows: pl.DataFrame, join: KeyJoin) -> list[str]:
    """Notes on averages and on keys found in one input only; an error if none is in both."""
    notes, unit = [], join.unit
    parts = {label: rows.filter(pl.col(count) > 0) for label, count in _ROWS.items()}
    for label, part in parts.items():
        require(len(part) > 0, f"{label} has no rows")
    if len(rows) == sum(map(len, parts.values())):
        examples = (f"{label} has {_format_keys(part, join)}" for label, part in parts.items())
        raise RankqlError(
            f"No {unit} is in both tables: {', '.join(examples)}. Choose a key that both have"
        )
    for (label, part), other in zip(parts.items(), reversed(_INPUTS), strict=True):
        if len(alone := part.filter(pl.col(_ROWS[other]) == 0)):
            notes.append(
                f"Dropped {len(alone):,} of {text.format_count(len(part), unit)} of {label} not "
                f"found in {other} ({_format_keys(alone, join)})"
            )
        if (part.drop_nulls(join.identity)[_ROWS[label]] > 1).any():
            notes.append(f"{label} has several rows per {unit}: {_INPUTS[label]}")
    return notes


def _format_keys(rows: pl.DataFrame, join: KeyJoin) -> str:
    """A few keys, as notes and errors show them; NULL keys last."""
    keys = rows.select(join.identity).sort(join.identity, nulls_last=True)
    texts = [repr(row[0] if len(row) == 1 else row) for row in keys.head(3).rows()]
    texts = ["NULL" if key == "None" else key for key in texts]
    return ", ".join(texts) + (", ..." if len(rows) > 3 else "")


def _require_valid_values(rows: pl.DataFrame, join: KeyJoin) -> None:
    """Refuse infinite values, negative divisors, and attributes with several values per key."""
    for name in join.values:
        finite = rows[name].is_finite().all()
        require(finite, f"{name} is too large for some {join.unit}. Scale it down")
    for name, columns in join.outcome_columns.items():
        if len(columns) == 2:
            for least in rows[_LEAST + name].filter(rows[_LEAST + name] < 0).head(1):
                raise RankqlError(
                    f"outcomes: {columns[1]} must not be negative, as it divides {columns[0]}, "
                    f"not {least:g}"
                )
    for name in join.by:
        least, most = pl.col(name).min(), pl.col(_MOST + name).max()
        values = rows.drop_nulls([*join.keys]).group_by(*join.keys).agg(least, most)
        different = values.filter(pl.col(name) != pl.col(_MOST + name)).sort(*join.keys)
        for *key, first, second in different.head(1).rows():
            raise RankqlError(
                f"by: {name} must have one value per {join.unit}, but "
                f"{key[0] if len(key) == 1 else tuple(key)!r} has {first!r} and {second!r}. Add "
                "it to the key: on="
            )


def _choose_systems(
    rows: pl.DataFrame, join: KeyJoin, baseline: str | None
) -> tuple[str, str] | None:
    """The two systems whose difference is taken, the baseline first; None for one system."""
    names = []
    if "system" in join.identity:
        measured = rows.filter(pl.col(_ROWS["per_query"]) > 0)
        names = measured["system"].drop_nulls().unique().sort().to_list()
    if len(names) > 2:
        raise RankqlError(
            f"per_query has {len(names)} systems ({format_examples(names)}). Keep one or two"
        )
    if len(names) < 2:
        require(baseline is None, "baseline= needs two systems, but per_query has one")
        return None
    if baseline is None or baseline not in names:
        problem = "is missing" if baseline is None else f"has no system {baseline!r}"
        raise RankqlError(
            f"baseline= {problem}. Pass the system to start from: {names[0]!r} or {names[1]!r}"
        )
    return baseline, next(name for name in names if name != baseline)


def _subtract_systems(
    shared: pl.DataFrame, systems: tuple[str, str], join: KeyJoin
) -> tuple[pl.DataFrame, list[str]]:
    """The change of every key of both systems, 0 if it is only rounding; a note on other keys."""
    keys, other = [*join.keys], f"{INTERNAL_PREFIX}other_"
    a, b = (shared.filter(pl.col("system") == system) for system in systems)
    values = b.select(*keys, pl.col(*join.values, *join.by).name.prefix(other))
    changes = a.join(values, on=keys, maintain_order="left")
    if changes.is_empty():
        raise RankqlError(
            f"No {join.unit} is in both {systems[0]!r} and {systems[1]!r}. Choose a key that both "
            "have, such as on='query' or on='day'"
        )
    columns = [pl.coalesce(name, other + name).alias(name) for name in join.by]
    for name in join.values:
        of_a, of_b = pl.col(name), pl.col(other + name)
        rounding = ROUNDING * pl.max_horizontal(of_a.abs(), of_b.abs())
        change = of_b - of_a
        columns.append(pl.when(change.abs() <= rounding).then(0.0).otherwise(change).alias(name))
    total = shared.select(pl.struct(keys).n_unique()).item()
    count = f"{total - len(changes):,} of {text.format_count(total, join.unit)}"
    note = f"Dropped {count} that only one system has"
    return changes.with_columns(columns), [note] if total > len(changes) else []
