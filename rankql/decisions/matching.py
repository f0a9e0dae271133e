"""The keys that both inputs of associate have, with their values, and notes on what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql import text as show
from rankql.decisions.key_join import KeyJoin
from rankql.decisions.rounding import ROUNDING
from rankql.errors import RankqlError
from rankql.evaluation.overlap import format_examples
from rankql.registry.argument_checks import require

_SEVERAL_ROWS = {
    "per_query": "metrics are averaged",
    "outcomes": "rates are averaged, ratios are of the sums",
}


def match_keys(
    rows: pl.DataFrame, join: KeyJoin, baseline: str | None
) -> tuple[pl.DataFrame, tuple[str, str] | None, list[str]]:
    """The keys of both inputs with their values, of two systems the differences; and notes."""
    keys = [f"k{i}" for i in range(len(join.keys))]
    identity = [*keys, *(["s"] if join.by_system else [])]
    rows, notes = _drop_null_keys(rows, join, identity)
    _require_valid_values(rows, join)
    systems = _choose_systems(rows, join, baseline)
    if join.by_system and systems is None:  # one: the others have outcomes alone
        rows = rows.join(rows.filter(pl.col("per_query") > 0), on="s", how="semi")
    shared, left_out = _intersect(rows, join, identity)
    notes += left_out
    if systems:
        shared, single = _subtract_systems(shared, keys, systems, join)
        notes += single
    pairs = shared.select(pl.col(alias).alias(name) for alias, name in join.aliases.items())
    for name in (*join.metrics, *join.outcome_columns):
        if count := pairs[name].null_count():
            total = show.format_count(len(pairs), join.unit)
            notes.append(f"{name}: {count:,} of {total} have none and are left out")
    return pairs, systems, notes


def _drop_null_keys(
    rows: pl.DataFrame, join: KeyJoin, identity: Sequence[str]
) -> tuple[pl.DataFrame, list[str]]:
    """The rows that have a key, and notes on how many have none."""
    notes = []
    null = pl.any_horizontal(pl.col(identity).is_null())
    for tables in join.inputs:
        if count := int(rows.filter(null)[tables.label].sum()):
            what = " or system" if join.by_system else ""
            notes.append(
                f"{show.format_count(count, 'row')} of {tables.label} without {join.unit}{what} "
                "(NULL) "
                "left out"
            )
    for tables in join.inputs:
        require(rows[tables.label].sum() > 0, f"{tables.label} has no row")
        with_key = rows.filter(~null)[tables.label].sum()
        require(with_key > 0, f"{tables.label} has no row with a {join.unit}")
    return rows.filter(~null), notes


def _intersect(
    rows: pl.DataFrame, join: KeyJoin, identity: Sequence[str]
) -> tuple[pl.DataFrame, list[str]]:
    """The keys of both inputs, and notes on those of only one."""
    notes, unit = [], join.unit
    rows_by_input = {x.label: rows.filter(pl.col(x.label) > 0) for x in join.inputs}
    shared = rows.filter(pl.col("per_query") > 0, pl.col("outcomes") > 0)
    if shared.is_empty():
        examples_by_input = [
            f"{x} has {_format_keys(part, identity)}" for x, part in rows_by_input.items()
        ]
        raise RankqlError(f"no {unit} is in both tables: {', '.join(examples_by_input)}")
    for (label, part), other in zip(rows_by_input.items(), reversed(rows_by_input), strict=True):
        if len(alone := part.filter(pl.col(other) == 0)):
            notes.append(
                f"{len(alone):,} of {show.format_count(len(part), unit)} of {label} are not in "
                f"{other} "
                f"and left out ({_format_keys(alone, identity)})"
            )
        if (part[label] > 1).any():
            notes.append(f"{label} has several rows of one {unit}: {_SEVERAL_ROWS[label]}")
    return shared, notes


def _format_keys(rows: pl.DataFrame, keys: Sequence[str]) -> str:
    """A few keys, as notes and errors show them."""
    some = [row[0] if len(keys) == 1 else row for row in rows.select(keys).head(3).rows()]
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
    for i in range(len(join.by)):
        _require_one_value(rows, join, i, f"c{i}", f"b{i}")


def _require_one_value(rows: pl.DataFrame, join: KeyJoin, i: int, first: str, second: str) -> None:
    """Refuse an attribute of which a key has two values, in these columns."""
    different = rows.filter(pl.col(first) != pl.col(second))
    if len(different):
        key = _format_keys(different.head(1), [f"k{i}" for i in range(len(join.keys))])
        raise RankqlError(
            f"by: {join.by[i]} must have one value per {join.unit}, but {key} has "
            f"{different[first][0]!r} and {different[second][0]!r}; add it to the key: on="
        )


def _choose_systems(
    rows: pl.DataFrame, join: KeyJoin, baseline: str | None
) -> tuple[str, str] | None:
    """The two systems whose differences are looked at, the baseline first; None of one."""
    names: list[str] = []
    by_name = None not in join.per_query.tables
    if join.by_system:
        present = rows.filter(pl.col("per_query") > 0)["s"].unique().sort().to_list()
        names = present
        if by_name:
            names = [name for name in join.per_query.tables if name is not None]
            for name in names:
                require(name in present, f"per_query {name!r} has no row with a key")
    if len(names) > 2:
        raise RankqlError(
            f"per_query holds {len(names)} systems, not one or two: {format_examples(names)}"
        )
    if len(names) < 2:
        require(baseline is None, "baseline goes with two systems, and per_query holds one")
        return None
    if baseline is None and by_name:
        baseline = names[0]
    if baseline not in names:
        problem = "name the first" if baseline is None else f"there is no system {baseline!r}"
        raise RankqlError(
            f"baseline: {problem} of the two systems: {' or '.join(map(repr, names))}"
        )
    return baseline, next(name for name in names if name != baseline)


def _subtract_systems(
    shared: pl.DataFrame, keys: list[str], systems: tuple[str, str], join: KeyJoin
) -> tuple[pl.DataFrame, list[str]]:
    """The change of every key of both systems, 0 where it is rounding; a note on other keys."""
    a, b = (shared.filter(pl.col("s") == system) for system in systems)
    changes = a.join(b, on=keys, suffix=" of b", maintain_order="left")
    if changes.is_empty():
        raise RankqlError(
            f"no {join.unit} is in both {systems[0]!r} and {systems[1]!r}; take a key that both "
            "have, such as on='query' or on='day'"
        )
    notes = []
    total = shared.select(pl.struct(keys).n_unique()).item()
    if total > len(changes):
        notes.append(
            f"{total - len(changes):,} of {show.format_count(total, join.unit)} are of one system "
            "only "
            "and left out"
        )
    for i in range(len(join.by)):
        _require_one_value(changes, join, i, f"b{i}", f"b{i} of b")
    differences = []
    for alias in (alias for alias in join.aliases if alias[0] in "mo"):
        of_a, of_b = pl.col(alias), pl.col(f"{alias} of b")
        dust = ROUNDING * pl.max_horizontal(of_a.abs(), of_b.abs())
        gain = of_b - of_a
        differences.append(pl.when(gain.abs() <= dust).then(0.0).otherwise(gain).alias(alias))
    attributes = [pl.coalesce(f"b{i}", f"b{i} of b").alias(f"b{i}") for i in range(len(join.by))]
    return changes.with_columns(*differences, *attributes), notes
