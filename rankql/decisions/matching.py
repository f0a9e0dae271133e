"""Values per key of a ranking and of a business, matched: what is read, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rankql import text as show
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.combining import read_metadata
from rankql.evaluation.overlap import format_examples
from rankql.evaluation.result import Result
from rankql.expressions.columns import require_plain_name
from rankql.macros import literal, quoted
from rankql.registry.conventions import Conventions
from rankql.registry.options import require
from rankql.registry.parse import EVERY, is_metric, parse
from rankql.sources.run import execute
from rankql.sources.session import Session, duckdb_errors
from rankql.sources.tables import Table, same_kind

OutcomeNames = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def key_columns(on: Any) -> dict[str, str]:
    """The columns of the key: their names in per_query, and those in outcomes."""
    names: Any = {on: on} if isinstance(on, str) else on
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        names = dict(zip(names, names, strict=True))
    sound = isinstance(names, Mapping) and all(isinstance(x, str) for x in names.items() for x in x)
    require(bool(names) and sound, f"on must name the columns of the key, not {on!r}")
    require("system" not in names, "on: system is told apart anyway; name the key beside it")
    return dict(names)


# What is read, and how


@dataclass(frozen=True)
class Side:
    """One of the two inputs: its tables, by system where a dict names them."""

    label: str
    tables: dict[str | None, Table]
    # Of a result: its metrics.
    known: list[str] | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that all its tables have."""
        first, *others = self.tables.values()
        return [name for name in first.columns if all(name in table.columns for table in others)]

    @property
    def told_apart(self) -> bool:
        """Does it say which system a row is of?"""
        return None not in self.tables or "system" in self.columns

    def need(self, name: str, argument: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.columns:
            raise RankqlError(
                f"{argument}: {self.label} has no column {name!r}{did_you_mean(name, self.columns)}"
            )

    def is_number(self, name: str) -> bool:
        """Is it a column of numbers, or text of a file that may be?"""
        return all(t.text or same_kind([t.columns[name], "DOUBLE"]) for t in self.tables.values())

    def kinds(self, name: str) -> list[str]:
        """The types of a column in its tables."""
        return [table.columns[name] for table in self.tables.values()]

    def key(self, name: str, text: bool) -> list[str]:
        """A column that names something, in every table; text as bytes."""
        column = quoted(name)
        return [f"encode(CAST({column} AS VARCHAR))" if text else column] * len(self.tables)

    def systems(self) -> list[str]:
        """The system of the rows of every table, as bytes."""
        if None in self.tables:
            return self.key("system", True)
        return [f"encode({literal(name)})" for name in self.tables if name is not None]

    def several(self, here: Session) -> bool:
        """Does it hold several systems?"""
        if not self.told_apart or None not in self.tables:
            return len(self.tables) > 1
        sql = f"SELECT count(DISTINCT system) FROM {self.tables[None].sql}"
        return bool(here.con.sql(sql).fetchall()[0][0] > 1)

    def number(self, name: str) -> list[str]:
        """A column of finite numbers, in every table."""
        return [replace(t, roles={"rel": name}).read("rel") for t in self.tables.values()]


def opened(here: Session, data: Any, label: str) -> Side:
    """The tables that were given, as one of the two inputs."""
    several = isinstance(data, Mapping)
    given: dict[str | None, Any] = dict(data) if several else {None: data}
    sound = bool(given) and (not several or all(isinstance(name, str) and name for name in given))
    require(sound, f"{label} as a dict must hold two systems, each by its name")
    known: list[str] | None = None
    tables = {}
    for name, part in given.items():
        result = _result(part)
        if result is not None:
            known = [m for m in known or result.metrics if m in result.metrics]
            require(not several or not result.meta["system"],
                  f"{label}: {name!r} holds several systems; give it alone")  # fmt: skip
            part = _plain(result)
        tables[name] = here.table(part, label if name is None else f"{label} {name!r}")
    return Side(label, tables, known)


def _result(data: Any) -> Result | None:
    """The result that was given, itself or as a file that was written of one."""
    if isinstance(data, str | os.PathLike) and (meta := read_metadata(data)) is not None:
        return Result(meta, rows=Path(data))
    return data if isinstance(data, Result) else None


def _plain(result: Result) -> pl.DataFrame:
    """The values of a result as its conventions count them."""
    from rankql.decisions.pairing import compared_value

    values = [compared_value(name, result.conventions) for name in result.metrics]
    return result.frame().select(*result.keys, *result.meta["by"], *values)


def metric_columns(
    here: Session, side: Side, asked: str | Sequence[str] | None, taken: Sequence[str]
) -> list[str]:
    """The columns of the metrics: those asked for, those named like metrics, or all numbers."""
    if asked is None:
        numbers = [name for name in side.columns if name not in taken and side.is_number(name)]
        names = [name for name in numbers if name in (side.known or ()) or is_metric(name)]
        if not names:
            tables = side.tables.values()
            names = [name for name in numbers if all(_holds_numbers(here, t, name) for t in tables)]
        require(bool(names), "per_query has no column of numbers; name the metrics: metrics=")
        return names
    given = [asked] if isinstance(asked, str) else asked
    sound = isinstance(given, list | tuple) and given and all(isinstance(x, str) for x in given)
    require(bool(sound), f"metrics must be names of columns of per_query, not {asked!r}")
    return list(dict.fromkeys(name for text in given for name in _spelt(side, text)))


def _spelt(side: Side, text: str) -> list[str]:
    """The columns that are meant, which may be known by another spelling."""
    if text in side.columns:
        return [text]
    if is_metric(text):
        there = {x: _canonical(x) for x in side.columns if is_metric(x)}
        names = [
            next((x for x, y in there.items() if y == [name]), name) for name in _canonical(text)
        ]
        for name in names:
            side.need(name, "metrics")
        return names
    side.need(text, "metrics")
    return []


def _canonical(text: str) -> list[str]:
    """The names of metrics as we have them."""
    return [metric.under(Conventions().as_dict()).name for metric in parse(text, EVERY)]


def outcome_columns(
    here: Session, side: Side, asked: OutcomeNames | None, taken: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The outcomes by name: a column each, or the two whose sums are divided."""
    if asked is None:
        names = [x for x in side.columns if x not in taken and side.is_number(x)]
        tables = side.tables.values()
        names = [name for name in names if all(_holds_numbers(here, t, name) for t in tables)]
        require(bool(names), "outcomes has no column of numbers beside the key; name one: outcome=")
        return {name: (name,) for name in names}
    found: dict[Any, Any] = {}
    if isinstance(asked, Mapping):
        found = {x: (y,) if isinstance(y, str) else y for x, y in asked.items()}
    elif isinstance(asked, str | list | tuple):
        found = {x: (x,) for x in ([asked] if isinstance(asked, str) else asked)}
    sound = bool(found) and all(
        isinstance(x, str)
        and isinstance(y, list | tuple)
        and len(y) in (1, 2)
        and all(isinstance(part, str) for part in y)
        for x, y in found.items()
    )
    require(sound, "outcome must be names of columns, or a dict of names and pairs of columns, such "
          f"as {{'CTR': ('clicks', 'impressions')}}, not {asked!r}")  # fmt: skip
    for columns in found.values():
        for name in columns:
            side.need(name, "outcome")
    return {name: tuple(columns) for name, columns in found.items()}


def _holds_numbers(here: Session, table: Table, name: str) -> bool:
    """Is all text of a column numbers? (Of a typed table, its type has said so.)"""
    if not table.text:
        return True
    column = quoted(name)
    sql = f"SELECT count({column}), count(TRY_CAST({column} AS DOUBLE)) FROM {table.sql}"
    ((values, numbers),) = here.con.sql(sql).fetchall()
    return bool(values) and values == numbers


@dataclass(frozen=True)
class Given:
    """What is read: both sides, the key, slices, metrics and outcomes."""

    scores: Side
    outcomes: Side
    keys: dict[str, str]
    groups: list[list[str]]
    metrics: list[str]
    counted: dict[str, tuple[str, ...]]

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both inputs."""
        return self.scores, self.outcomes

    @property
    def by(self) -> list[str]:
        """The attributes that are no part of the key."""
        names = dict.fromkeys(name for group in self.groups for name in group)
        return [name for name in names if name not in self.keys]

    @property
    def systems(self) -> bool:
        """Are systems told apart on both sides?"""
        return self.scores.told_apart and self.outcomes.told_apart

    def home(self, name: str) -> Side:
        """The side that has an attribute."""
        for side in (self.scores, self.outcomes):
            if name in side.columns:
                return side
        there = list(dict.fromkeys([*self.scores.columns, *self.outcomes.columns]))
        raise RankqlError(f"by: there is no column {name!r}{did_you_mean(name, there)}")

    def check(self, here: Session) -> None:
        """Refuse columns that are not there, or have one name, and systems on one side only."""
        for ours, theirs in self.keys.items():
            self.scores.need(ours, "on")
            self.outcomes.need(theirs, "on")
        for name in self.by:
            self.home(name)
        require("system" not in self.by, "by: system is told apart anyway; leave it out")
        names = ["system", *self.keys, *self.by, *self.metrics, *self.counted]
        for name in names:
            require_plain_name(name)
            if names.count(name) > 1:
                raise RankqlError(
                    f"{name!r} would be the name of two columns; name the metrics, or call the "
                    f"outcome otherwise: outcome={{'another name': {name!r}}}"
                )
        if self.outcomes.told_apart and not self.scores.told_apart:
            raise RankqlError(
                "outcomes tells systems apart, per_query does not: give the outcomes of its "
                "system, without the column system"
            )
        if not self.systems and self.scores.several(here):
            raise RankqlError(
                "per_query holds several systems, outcomes does not tell them apart: give it the "
                "column system, or a dict alike"
            )

    def columns(self) -> Iterator[_Column]:
        """All that is read."""
        scores, outcomes = self.scores, self.outcomes
        for i, (ours, theirs) in enumerate(self.keys.items()):
            kinds = [*scores.kinds(ours), *outcomes.kinds(theirs)]
            # Of different types, they are compared as text.
            text = not same_kind(kinds) or same_kind([*kinds, "VARCHAR"])
            of = {scores.label: scores.key(ours, text), outcomes.label: outcomes.key(theirs, text)}
            yield _Column(f"k{i}", of, f"k{i}", text)
        if self.systems:
            yield _Column("s", {x.label: x.systems() for x in (scores, outcomes)}, "s", True)
        for i, name in enumerate(self.metrics):
            yield _Column(f"m{i}", {scores.label: scores.number(name)}, f"favg(m{i})")
        for i, (name, *divisor) in enumerate(self.counted.values()):
            value = f"favg(o{i})"
            if divisor:
                both = f"FILTER (WHERE o{i} IS NOT NULL AND d{i} IS NOT NULL)"
                value = f"fsum(o{i}) {both} / nullif(fsum(d{i}) {both}, 0)"
                yield _Column(f"d{i}", {outcomes.label: outcomes.number(*divisor)}, f"min(d{i})")
            yield _Column(f"o{i}", {outcomes.label: outcomes.number(name)}, value)
        for i, name in enumerate(self.by):
            side = self.home(name)
            text = same_kind([*side.kinds(name), "VARCHAR"])
            yield _Column(f"b{i}", {side.label: side.key(name, text)}, f"max(b{i})", text)
            yield _Column(f"c{i}", {}, f"min(b{i})", text)


class _Column(NamedTuple):
    """A column that is read: its SQL in every table of a side, and its value for a key."""

    alias: str
    of: dict[str, list[str]]
    value: str
    # Read as bytes, which no collation takes for others.
    text: bool = False


def read(here: Session, given: Given) -> pl.DataFrame:
    """One row per key and system, with how many rows it has on either side.

    Both sides are put below one another and grouped once, so that what is on one side only is
    there, to be counted.
    """
    columns, parts = list(given.columns()), []
    for side in given.sides:
        for i, table in enumerate(side.tables.values()):
            own = [f"{c.of[side.label][i]} AS {c.alias}" for c in columns if side.label in c.of]
            parts.append(f"    SELECT {', '.join(own)}, 1 AS {side.label} FROM {table.sql}")
    values = [f"{column.value} AS {column.alias}" for column in columns]
    values += [f"count({side.label}) AS {side.label}" for side in given.sides]
    keys = [column.alias for column in columns if column.alias[0] in "ks"]
    rows = "\n    UNION ALL BY NAME\n".join(parts)
    sql = f"SELECT {', '.join(values)}\nFROM (\n{rows}\n)\nGROUP BY {', '.join(keys)}"
    with duckdb_errors():
        found: pl.DataFrame = execute(here, sql).pl()
    texts = [column.alias for column in columns if column.text]
    return found.with_columns(pl.col(texts).cast(pl.String)).sort(keys, nulls_last=True)


# What is matched


def unit_of(keys: Sequence[str]) -> str:
    """What a row stands for: the name of the key; 'key' if there are several columns."""
    return show.noun(keys[0]) if len(keys) == 1 else "key"


def matched(
    rows: pl.DataFrame, given: Given, baseline: str | None
) -> tuple[pl.DataFrame, tuple[str, str] | None, list[str]]:
    """The keys of both sides with their values, of two systems the differences; and notes."""
    unit, notes = unit_of([*given.keys]), []
    keys = [f"k{i}" for i in range(len(given.keys))]
    every = [*keys, *(["s"] if given.systems else [])]
    nameless = pl.any_horizontal(pl.col(every).is_null())
    for side in given.sides:
        if count := int(rows.filter(nameless)[side.label].sum()):
            what = " or system" if given.systems else ""
            notes.append(
                f"{show.count(count, 'row')} of {side.label} without {unit}{what} (NULL) left out"
            )
    for side in given.sides:
        require(rows[side.label].sum() > 0, f"{side.label} has no row")
        named = rows.filter(~nameless)[side.label].sum()
        require(named > 0, f"{side.label} has no row with a {unit}")
    rows = rows.filter(~nameless)
    _sound(rows, given, unit)
    systems = _systems(rows, given, baseline)
    if given.systems and systems is None:  # one: the others have outcomes alone
        rows = rows.join(rows.filter(pl.col("per_query") > 0), on="s", how="semi")
    seen = {side.label: rows.filter(pl.col(side.label) > 0) for side in given.sides}
    shared = rows.filter(pl.col("per_query") > 0, pl.col("outcomes") > 0)
    if shared.is_empty():
        had = [f"{label} has {_some(part, every)}" for label, part in seen.items()]
        raise RankqlError(f"no {unit} is in both tables: {', '.join(had)}")
    for (label, part), other in zip(seen.items(), reversed(seen), strict=True):
        if len(alone := part.filter(pl.col(other) == 0)):
            some = _some(alone, every)
            notes.append(
                f"{len(alone):,} of {show.count(len(part), unit)} of {label} are not in {other} "
                f"and left out ({some})"
            )
        if (part[label] > 1).any():
            notes.append(f"{label} has several rows of one {unit}: {_SEVERAL[label]}")
    if systems:
        shared = _differences(shared, keys, systems, given, unit, notes)
    aliases = _aliases(given)
    pairs = shared.select(pl.col(alias).alias(name) for alias, name in aliases.items())
    for name in (*given.metrics, *given.counted):
        if count := pairs[name].null_count():
            notes.append(
                f"{name}: {count:,} of {show.count(len(pairs), unit)} have none and are left out"
            )
    return pairs, systems, notes


_SEVERAL = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are of the sums",
}


def _aliases(given: Given) -> dict[str, str]:
    """The names of the columns by those that they have while they are read."""
    named = {"k": given.keys, "b": given.by, "m": given.metrics, "o": given.counted}
    return {f"{kind}{i}": name for kind, names in named.items() for i, name in enumerate(names)}


def _some(rows: pl.DataFrame, keys: Sequence[str]) -> str:
    """A few keys, as notes and errors show them."""
    some = [row[0] if len(keys) == 1 else row for row in rows.select(keys).head(3).rows()]
    return format_examples(some) + (", ..." if len(rows) > 3 else "")


def _sound(rows: pl.DataFrame, given: Given, unit: str) -> None:
    """Refuse what cannot be divided by or is beyond all numbers, and slices that are torn."""
    for alias, name in _aliases(given).items():
        if alias[0] in "mo" and not rows[alias].is_finite().all():
            raise RankqlError(f"{name} of some {unit} is beyond all numbers; scale it")
    for i, columns in enumerate(given.counted.values()):
        if len(columns) == 2:
            for below in rows[f"d{i}"].filter(rows[f"d{i}"] < 0).head(1):
                raise RankqlError(f"outcomes: {columns[1]} must not be negative, not {below}")
    for i, name in enumerate(given.by):
        torn = rows.filter(pl.col(f"b{i}") != pl.col(f"c{i}"))
        _one_value(name, torn, torn[f"c{i}"], torn[f"b{i}"], given, unit)


def _one_value(
    name: str, torn: pl.DataFrame, low: pl.Series, high: pl.Series, given: Given, unit: str
) -> None:
    """Refuse an attribute that is not one of the key."""
    if len(torn):
        key = _some(torn.head(1), [f"k{i}" for i in range(len(given.keys))])
        raise RankqlError(
            f"by: {name} must have one value per {unit}, but {key} has {low[0]!r} and "
            f"{high[0]!r}; add it to the key: on="
        )


def _systems(rows: pl.DataFrame, given: Given, baseline: str | None) -> tuple[str, str] | None:
    """The two systems whose differences are looked at, the baseline first; None of one."""
    names: list[str] = []
    if given.systems:
        found = rows.filter(pl.col("per_query") > 0)["s"].unique().sort().to_list()
        names = found
        if None not in given.scores.tables:
            names = [name for name in given.scores.tables if name is not None]
            for name in names:
                require(name in found, f"per_query {name!r} has no row with a key")
    if len(names) > 2:
        raise RankqlError(
            f"per_query holds {len(names)} systems, not one or two: {format_examples(names)}"
        )
    if len(names) < 2:
        require(baseline is None, "baseline goes with two systems, and per_query holds one")
        return None
    if baseline is None and None not in given.scores.tables:
        baseline = names[0]
    if baseline not in names:
        said = "name the first" if baseline is None else f"there is no system {baseline!r}"
        raise RankqlError(f"baseline: {said} of the two systems: {' or '.join(map(repr, names))}")
    return baseline, next(name for name in names if name != baseline)


def _differences(
    shared: pl.DataFrame, keys: Sequence[str], systems: tuple[str, str], given: Given,
    unit: str, notes: list[str],
) -> pl.DataFrame:  # fmt: skip
    """What every key of both systems gained; what is rounding is 0."""
    a, b = (shared.filter(pl.col("s") == system) for system in systems)
    both = a.join(b, on=list(keys), suffix=" of b", maintain_order="left")
    if both.is_empty():
        raise RankqlError(
            f"no {unit} is in both {systems[0]!r} and {systems[1]!r}; take a key that both "
            "have, such as on='query' or on='day'"
        )
    total = shared.select(pl.struct(keys).n_unique()).item()
    if total > len(both):
        notes.append(
            f"{total - len(both):,} of {show.count(total, unit)} are of one system only and left "
            "out"
        )
    for i, name in enumerate(given.by):
        torn = both.filter(pl.col(f"b{i}") != pl.col(f"b{i} of b"))
        _one_value(name, torn, torn[f"b{i}"], torn[f"b{i} of b"], given, unit)
    values = [alias for alias in _aliases(given) if alias[0] in "mo"]
    changes = []
    for alias in values:
        one, other = pl.col(alias), pl.col(f"{alias} of b")
        dust = 1e-12 * pl.max_horizontal(one.abs(), other.abs())
        gain = other - one
        changes.append(pl.when(gain.abs() <= dust).then(0.0).otherwise(gain).alias(alias))
    attributes = [pl.coalesce(f"b{i}", f"b{i} of b").alias(f"b{i}") for i in range(len(given.by))]
    return both.with_columns(*changes, *attributes)
