"""The join of both inputs of associate by key: one SQL query, a row per key and system.

Columns are read under aliases: k0 (key), s (system), b0 and c0 (least and greatest value of an
attribute), m0 (metric), o0 (outcome), d0 (its divisor); `per_query` and `outcomes` count rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from rankql import text as show
from rankql.decisions.rounding import ROUNDING
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.overlap import format_examples
from rankql.expressions.columns import require_plain_name
from rankql.macros import quote
from rankql.registry.argument_checks import require
from rankql.sources.macro_sql import execute
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import Table, same_kind

_INPUTS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are of the sums",
}


@dataclass(frozen=True)
class KeyJoin:
    """What is joined: both inputs, the key, slices, metrics and outcomes."""

    per_query: Table
    outcomes: Table
    keys: dict[str, str]
    groups: list[list[str]]
    metrics: list[str]
    # The columns of each outcome: one, or two whose sums are divided.
    outcome_columns: dict[str, tuple[str, ...]]

    @property
    def unit(self) -> str:
        """What a row stands for."""
        return name_unit([*self.keys])

    @property
    def by(self) -> list[str]:
        """The attributes that are no part of the key."""
        names = dict.fromkeys(name for group in self.groups for name in group)
        return [name for name in names if name not in self.keys]

    @property
    def identity(self) -> list[str]:
        """The aliases of the key, and of the system if both inputs have that column."""
        systems = "system" in self.per_query.columns and "system" in self.outcomes.columns
        return [*(f"k{i}" for i in range(len(self.keys))), *(["s"] if systems else [])]

    @property
    def aliases(self) -> dict[str, str]:
        """The names of the columns by the aliases under which they are read."""
        kinds = {"k": self.keys, "b": self.by, "m": self.metrics, "o": self.outcome_columns}
        return {f"{kind}{i}": name for kind, names in kinds.items() for i, name in enumerate(names)}

    def validate(self) -> None:
        """Refuse columns that are missing or share a name."""
        for left, right in self.keys.items():
            require_column(self.per_query, left, "on")
            require_column(self.outcomes, right, "on")
        columns = dict.fromkeys([*self.per_query.columns, *self.outcomes.columns])
        for name in self.by:
            if name not in columns:
                raise RankqlError(
                    f"by: there is no column {name!r}{did_you_mean(name, [*columns])}"
                )
        require("system" not in self.by, "by: system is told apart anyway; leave it out")
        names = ["system", *self.keys, *self.by, *self.metrics, *self.outcome_columns]
        for name in names:
            require_plain_name(name)
            if names.count(name) > 1:
                raise RankqlError(
                    f"{name!r} would be the name of two columns; name the metrics, or call the "
                    f"outcome otherwise: outcome={{'another name': {name!r}}}"
                )
        if "system" in self.outcomes.columns and "system" not in self.per_query.columns:
            raise RankqlError(
                "outcomes tells systems apart, per_query does not: give the outcomes of its "
                "system, without the column system"
            )

    def sql(self) -> str:
        """The query: each input grouped by key, then joined."""
        queries = [
            f"(SELECT {', '.join(self._columns(table))} FROM {table.sql} GROUP BY ALL)"
            for table in (self.per_query, self.outcomes)
        ]
        return f"FROM {' FULL JOIN '.join(queries)} USING ({', '.join(self.identity)})"

    def _columns(self, table: Table) -> Iterator[str]:
        """The columns that are read from an input."""
        left = table is self.per_query
        for i, names in enumerate(self.keys.items()):
            types = [self.per_query.columns[names[0]], self.outcomes.columns[names[1]]]
            # Of different types, they are compared as text.
            text = not same_kind(types) or _is_text(types[0])
            yield f"{_read_key(names[0 if left else 1], text)} AS k{i}"
        if "s" in self.identity:
            yield f"{_read_key('system', True)} AS s"
        yield f"count(*) AS {table.label}"
        for i, name in enumerate(self.by):
            if left == (name in self.per_query.columns):
                value = _read_key(name, _is_text(table.columns[name]))
                yield f"min({value}) AS b{i}, max({value}) AS c{i}"
        for i, name in enumerate(self.metrics if left else ()):
            yield f"favg({read_number(table, name)}) AS m{i}"
        for i, columns in enumerate(() if left else self.outcome_columns.values()):
            value, *divisor = (read_number(table, column) for column in columns)
            if divisor:
                known = f"FILTER (WHERE {value} IS NOT NULL AND {divisor[0]} IS NOT NULL)"
                ratio = f"fsum({value}) {known} / nullif(fsum({divisor[0]}) {known}, 0)"
                yield f"{ratio} AS o{i}, min({divisor[0]}) AS d{i}"
            else:
                yield f"favg({value}) AS o{i}"


def name_unit(keys: Sequence[str]) -> str:
    """What a row stands for: the name of the key; 'key' if there are several columns."""
    return show.row_noun(keys[0]) if len(keys) == 1 else "key"


def require_column(table: Table, name: str, argument: str) -> None:
    """Refuse a column that is not there."""
    if name not in table.columns:
        hint = did_you_mean(name, [*table.columns])
        raise RankqlError(f"{argument}: {table.label} has no column {name!r}{hint}")


def _is_text(kind: str) -> bool:
    return same_kind([kind, "VARCHAR"])


def _read_key(name: str, text: bool) -> str:
    """A column that names something; text as bytes, which no collation takes for others."""
    return f"encode(CAST({quote(name)} AS VARCHAR))" if text else quote(name)


def read_number(table: Table, name: str) -> str:
    """A column of finite numbers."""
    return replace(table, roles={"rel": name}).read("rel")


def match_keys(
    session: Session, join: KeyJoin, baseline: str | None
) -> tuple[pl.DataFrame, tuple[str, str] | None, list[str]]:
    """The keys of both inputs with their values, of two systems the differences; and notes."""
    with duckdb_errors():
        rows: pl.DataFrame = execute(session, join.sql()).pl()
    rows = rows.with_columns(pl.col(pl.Binary).cast(pl.String)).sort(join.identity)
    rows = rows.with_columns(pl.col(*_INPUTS).fill_null(0))
    notes = []
    null = pl.any_horizontal(pl.col(join.identity).is_null())
    for label in _INPUTS:
        total, kept = (int(frame[label].sum()) for frame in (rows, rows.filter(~null)))
        require(kept > 0, f"{label} has no row" + (f" with a {join.unit}" if total else ""))
        if total > kept:
            what = join.unit + (" or system" if "s" in join.identity else "")
            lines = show.format_count(total - kept, "row")
            notes.append(f"{lines} of {label} without {what} (NULL) left out")
    rows = rows.filter(~null)
    _require_valid_values(rows, join)
    systems = _choose_systems(session, rows, join, baseline)
    if "s" in join.identity and systems is None:  # the other systems have outcomes alone
        rows = rows.join(rows.filter(pl.col("per_query") > 0), on="s", how="semi")
    shared = rows.filter(pl.all_horizontal(pl.col(*_INPUTS) > 0))
    notes += _describe_left_out(rows, join, shared.is_empty())
    if systems:
        shared, single = _subtract_systems(shared, systems, join)
        notes += single
    pairs = shared.select(pl.col(alias).alias(name) for alias, name in join.aliases.items())
    for name in (*join.metrics, *join.outcome_columns):
        if count := pairs[name].null_count():
            keys = show.format_count(len(pairs), join.unit)
            notes.append(f"{name}: {count:,} of {keys} have none and are left out")
    return pairs, systems, notes


def _describe_left_out(rows: pl.DataFrame, join: KeyJoin, none_shared: bool) -> list[str]:
    """Notes on the keys of one input only, which is an error if none is shared, and on averages."""
    notes, unit = [], join.unit
    parts = {label: rows.filter(pl.col(label) > 0) for label in _INPUTS}
    if none_shared:
        examples = (f"{label} has {_format_keys(part, join)}" for label, part in parts.items())
        raise RankqlError(f"no {unit} is in both tables: {', '.join(examples)}")
    for (label, part), other in zip(parts.items(), reversed(_INPUTS), strict=True):
        if len(alone := part.filter(pl.col(other) == 0)):
            notes.append(
                f"{len(alone):,} of {show.format_count(len(part), unit)} of {label} are not in "
                f"{other} and left out ({_format_keys(alone, join)})"
            )
        if (part[label] > 1).any():
            notes.append(f"{label} has several rows of one {unit}: {_INPUTS[label]}")
    return notes


def _format_keys(rows: pl.DataFrame, join: KeyJoin) -> str:
    """A few keys, as notes and errors show them."""
    some = [row[0] if len(row) == 1 else row for row in rows.select(join.identity).head(3).rows()]
    return format_examples(some) + (", ..." if len(rows) > 3 else "")


def _require_valid_values(rows: pl.DataFrame, join: KeyJoin) -> None:
    """Refuse infinite values, negative divisors, and attributes with several values per key."""
    for alias, name in join.aliases.items():
        if alias[0] in "mo" and not rows[alias].is_finite().all():
            raise RankqlError(f"{name} of some {join.unit} is beyond all numbers; scale it")
    for i, columns in enumerate(join.outcome_columns.values()):
        if len(columns) == 2:
            for value in rows[f"d{i}"].filter(rows[f"d{i}"] < 0).head(1):
                raise RankqlError(f"outcomes: {columns[1]} must not be negative, not {value}")
    keys = [alias for alias in join.identity if alias != "s"]
    for i, name in enumerate(join.by):
        least, most = pl.col(f"b{i}").min().over(keys), pl.col(f"c{i}").max().over(keys)
        different = rows.with_columns(least.alias("least"), most.alias("most"))
        for row in (
            different.filter(pl.col("least") != pl.col("most")).head(1).iter_rows(named=True)
        ):
            key = row[keys[0]] if len(keys) == 1 else tuple(row[alias] for alias in keys)
            raise RankqlError(
                f"by: {name} must have one value per {join.unit}, but {key!r} has "
                f"{row['least']!r} and {row['most']!r}; add it to the key: on="
            )


def _choose_systems(
    session: Session, rows: pl.DataFrame, join: KeyJoin, baseline: str | None
) -> tuple[str, str] | None:
    """The two systems whose differences are looked at, the baseline first; None of one."""
    names = []
    if "s" in join.identity:
        names = rows.filter(pl.col("per_query") > 0)["s"].unique().sort().to_list()
    elif "system" in join.per_query.columns:
        sql = f"SELECT count(DISTINCT system) FROM {join.per_query.sql}"
        require(
            session.con.sql(sql).fetchall()[0][0] < 2,
            "per_query holds several systems, outcomes does not tell them apart: give it the "
            "column system",
        )
    if len(names) > 2:
        raise RankqlError(
            f"per_query holds {len(names)} systems, not one or two: {format_examples(names)}"
        )
    if len(names) < 2:
        require(baseline is None, "baseline goes with two systems, and per_query holds one")
        return None
    if baseline is None or baseline not in names:
        problem = "name the first" if baseline is None else f"there is no system {baseline!r}"
        raise RankqlError(
            f"baseline: {problem} of the two systems: {' or '.join(map(repr, names))}"
        )
    return baseline, next(name for name in names if name != baseline)


def _subtract_systems(
    shared: pl.DataFrame, systems: tuple[str, str], join: KeyJoin
) -> tuple[pl.DataFrame, list[str]]:
    """The change of every key of both systems, 0 where it is rounding; a note on other keys."""
    keys = join.identity[:-1]
    a, b = (shared.filter(pl.col("s") == system) for system in systems)
    changes = a.join(b, on=keys, suffix=" of b", maintain_order="left")
    if changes.is_empty():
        raise RankqlError(
            f"no {join.unit} is in both {systems[0]!r} and {systems[1]!r}; take a key that both "
            "have, such as on='query' or on='day'"
        )
    columns = [pl.coalesce(f"b{i}", f"b{i} of b").alias(f"b{i}") for i in range(len(join.by))]
    for alias in (alias for alias in join.aliases if alias[0] in "mo"):
        of_a, of_b = pl.col(alias), pl.col(f"{alias} of b")
        dust = ROUNDING * pl.max_horizontal(of_a.abs(), of_b.abs())
        gain = of_b - of_a
        columns.append(pl.when(gain.abs() <= dust).then(0.0).otherwise(gain).alias(alias))
    total = shared.select(pl.struct(keys).n_unique()).item()
    count = f"{total - len(changes):,} of {show.format_count(total, join.unit)}"
    note = f"{count} are of one system only and left out"
    return changes.with_columns(columns), [note] if total > len(changes) else []
