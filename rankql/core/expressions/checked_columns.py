"""Columns of a metric as polars expressions, with checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import polars as pl

from rankql.core.base.arrow import pandas_to_polars
from rankql.core.base.errors import HIGHEST_GRADE, TOO_HIGH, RankqlError, require
from rankql.core.base.libraries import library
from rankql.core.base.text import TEXT_TYPES

# Above it, floats do not distinguish whole numbers.
LAST_POSITION = 2**53
Column: TypeAlias = str | pl.Expr
# A cutoff for all rankings, or the column with that of each.
Cutoff: TypeAlias = int | str | pl.Expr | None
# For `map_batches` with a function that needs all rows and columns of a frame.
NO_PUSHDOWN = dict.fromkeys(("predicate_pushdown", "projection_pushdown", "slice_pushdown"), False)


def column(name: Column) -> pl.Expr:
    """A column name or an expression."""
    if isinstance(name, str):
        return pl.col(name)
    kind = type(name).__name__
    require(isinstance(name, pl.Expr), f"a column must be a name or an expression, not a {kind}")
    if name.meta.root_names():
        return name
    # A literal has one row, however many there are.
    return pl.struct(pl.int_range(pl.len()).alias("row"), name.alias("value")).struct.field("value")


def is_literal(value: object) -> bool:
    """Is it a number or a text in place of a column, such as 10 or pl.lit(10)?"""
    if isinstance(value, pl.Expr):
        return value.meta.is_literal(allow_aliasing=True) and pl.select(value).item() is not None
    return isinstance(value, int | float)


def is_pandas(data: object) -> bool:
    """Is it a DataFrame of pandas, which need not be installed?"""
    return library(data) == "pandas" and hasattr(data, "columns")


def from_pandas(frame: Any, exprs: Iterable[pl.Expr], grades: Iterable[str] = ()) -> pl.DataFrame:
    """The columns of a pandas frame that expressions read.

    NaN is refused later. In columns of grades it is NULL, because pandas writes missing ones so.
    """
    names = dict.fromkeys(name for expr in exprs for name in expr.meta.root_names())
    try:
        rows: pl.DataFrame = pandas_to_polars(frame[[*names]], nan_to_null=False)
    except (TypeError, ValueError) as error:
        raise RankqlError(f"{', '.join(names)} cannot be read: {error}. Cast them first") from error
    floats = [name for name in grades if rows.schema[name].is_float()]
    return rows.with_columns(pl.col(floats).fill_nan(None)) if floats else rows


def as_float(name: Column) -> pl.Expr:
    """A column as Float64; `with_checks` tells whether it holds numbers."""
    return column(name).cast(pl.Float64, strict=False)


def require_numbers(frame: pl.LazyFrame, arguments: Mapping[str, Any]) -> None:
    """Refuse text by its type. The cast of an Enum would fail before its values are checked."""
    names = [name for name in ("rel", "pos", "reference", "score") if name in arguments]
    columns = frame.select(column(arguments[name]).alias(name) for name in names)
    for name, kind in columns.collect_schema().items():
        require_number_type(name, kind)


def with_checks(value: pl.Expr, arguments: Mapping[str, Any]) -> pl.Expr:
    """The value of a metric, or an error if one of its columns has a wrong value.

    The checks see all rows. Inside the value they would not: polars may drop the rows that do not
    count, those beyond k say, before a function gets to see them.
    """
    max_rel, stop = arguments.get("max_rel"), arguments.get("stop", "exp2")
    checks: dict[str, Callable[[pl.Series], None]] = {
        "rel": partial(check_rel, max_rel=max_rel, stop=stop),
        "pos": check_pos,
        "reference": partial(check_pos, name="reference"),
        "score": partial(check_score, finite={*arguments} == {"rel", "score"}),
        "popularity": partial(check_popularity, users=arguments.get("users")),
        "embedding": check_embedding,
    }
    columns = {name: column(arguments[name]) for name in checks if name in arguments}
    if not columns:
        return value

    def check_values(rows: pl.Series) -> pl.Series:
        for values in rows.struct.unnest():
            checks[values.name](values)
        return _TRUE.new_from_index(0, len(rows))

    named = [expr.alias(name) for name, expr in columns.items()]
    ok = pl.struct(named).map_batches(check_values, pl.Boolean, is_elementwise=True)
    return pl.when(ok.null_count() == 0).then(value)


_TRUE = pl.Series([True])


def guard(value: pl.Expr, check: Callable[..., None], *others: pl.Expr) -> pl.Expr:
    """The value as Float64, once `check` has seen it and the others without an error.

    They are one function: the in-memory engine evaluates a value once for each time it is named.
    """

    def checked(columns: Sequence[pl.Series]) -> pl.Series:
        check(*columns)
        return columns[0].cast(pl.Float64)

    return pl.map_batches([value, *others], checked, pl.Float64, is_elementwise=True)


def as_grade_lists(lists: Column, max_rel: float | None, stop: str) -> pl.Expr:
    """Lists or arrays of grades as List(Float64), the grades checked."""

    def check_lists(values: pl.Series) -> pl.Series:
        listed = isinstance(values.dtype, pl.List | pl.Array | pl.Null)
        require(listed, f"rels must be a list of grades, not {values.dtype}")
        if values.dtype != pl.Null:
            check_rel(values.explode(), max_rel, stop)
        return values.cast(dtype)

    dtype = pl.List(pl.Float64)
    return column(lists).map_batches(check_lists, return_dtype=dtype, is_elementwise=True)


def check_rel(values: pl.Series, max_rel: float | None = None, stop: str = "exp2") -> None:
    """The grades: finite, none above max_rel; probabilities where they are what stops a user."""
    require_number_type("rel", values.dtype)
    if values.dtype.is_float():
        bad = ~values.is_finite() | (values.abs() > HIGHEST_GRADE)
        refuse_values("rel must be a finite number", values, bad, _describe_grade)
    if max_rel is not None:
        for above in values.filter(values.cast(pl.Float64) > max_rel).head(1):
            raise RankqlError(f"rel must not exceed max_rel: {above} is above {max_rel}")
    if stop == "rel":
        outside = (values < 0) | (values > 1)
        refuse_values("rel must lie between 0 and 1 for stop 'rel'", values, outside)


def check_pos(values: pl.Series, name: str = "pos") -> None:
    """The positions: whole and from 1."""
    require_number_type(name, values.dtype)
    require(values.dtype != pl.Boolean, f"{name} must be a number, not Boolean. Cast it first")
    if values.dtype.is_integer():
        least, most = values.min(), values.max()
        if least is None or (least >= 1 and most <= LAST_POSITION):  # type: ignore[operator]
            return
    floats = values.cast(pl.Float64)
    # NaN is above each number.
    bad = (floats < 1) | (floats > LAST_POSITION) | (floats != floats.floor())
    refuse_values(f"{name} must be a whole number from 1", values, bad, _describe_place)


def _describe_grade(value: float) -> str:
    """What to do about a number that is too large."""
    return TOO_HIGH if math.isfinite(value) else ""


def _describe_place(value: float) -> str:
    """What to do about a number that is no position."""
    if value == 0:
        return ". Position 1 is the top: add 1, or is the order rel, pos?"
    if not value <= LAST_POSITION:  # or NaN
        return ". Use NULL for items that were not retrieved"
    is_score = value % 1
    return ". If it is a score, rank by it first, as ndcg_by_score does" if is_score else ""


def check_score(values: pl.Series, finite: bool = False) -> None:
    """The scores: anything but NaN; predicted grades are finite."""
    require_number_type("score", values.dtype)
    if values.dtype.is_float():
        bad = ~values.is_finite() if finite else values.is_nan()
        refuse_values(f"score must be a {'finite ' if finite else ''}number", values, bad)


def check_popularity(values: pl.Series, users: float | None = None) -> None:
    """The popularity of items: amounts, or with `users` numbers of them."""
    require_number_type("popularity", values.dtype)
    floats = values.cast(pl.Float64)
    bad = ~floats.is_finite() | (floats < 0)
    refuse_values("popularity must be a finite number from 0", values, bad)
    if users is not None:
        for above in values.filter(floats > users).head(1):
            raise RankqlError(f"popularity must not exceed users: {above} is above {users}")
        part = (floats > 0) & (floats < 1)
        refuse_values("popularity must be a number of users, 0 or from 1", values, part)


def check_embedding(values: pl.Series) -> None:
    """Lists of finite numbers, not all of them 0."""
    kind = values.dtype
    if kind == pl.Null:
        return
    inner = kind.inner if isinstance(kind, pl.List | pl.Array) else pl.String()
    ok = inner.is_numeric() or inner in (pl.Boolean, pl.Null)
    require(ok, f"embedding must be a list of numbers, not {kind}")
    vectors = values.cast(pl.List(pl.Float64)).drop_nulls()
    squared = vectors.list.eval(pl.element().pow(2)).list.sum()
    finite = squared.is_finite() & ~vectors.list.eval(pl.element().is_null()).list.any()
    for bad in vectors.filter(~finite).head(1):
        raise RankqlError(f"embedding must hold finite numbers only, not {bad.to_list()}")
    zeros = "embedding must not be all zeros, which has no direction: make it NULL"
    require(not (squared == 0).any(), zeros)


def require_number_type(name: str, dtype: pl.DataType) -> None:
    """Refuse a column that holds no numbers."""
    kind = "text" if dtype in TEXT_TYPES else dtype
    ok = dtype.is_numeric() or dtype in (pl.Null, pl.Boolean)
    require(ok, f"{name} must be a number, not {kind}. Cast it first")


def require_texts(items: pl.Series) -> None:
    """Refuse items of a type that polars does not cast to text."""
    try:
        items.drop_nulls().head(1).cast(pl.String)
    except pl.exceptions.PolarsError as error:
        wrong = f"item must be text or a number, not {items.dtype}"
        raise RankqlError(f"{wrong}. Cast it first") from error


def refuse_values(
    message: str, values: pl.Series, bad: pl.Series, remedy: Callable[[Any], str] | None = None
) -> None:
    """Raise the message for the first bad value, with what to do about it.

    A value is bad if `bad` is true or NULL.
    """
    for value in values.filter(bad.fill_null(values.is_not_null())).head(1).to_list():
        printed = str(value).lower() if isinstance(value, bool) else value
        raise RankqlError(f"{message}, not {printed}{remedy(value) if remedy else ''}")
