"""Lists of ids as lists of grades."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rankql.errors import RankqlError, require
from rankql.expressions.checked_columns import Column, column, refuse_values
from rankql.macros import INTERNAL_PREFIX
from rankql.text import TEXT_TYPES

_GRADES = pl.List(pl.Float64)


def grades_of(retrieved: Column = "retrieved", relevant: Column = "relevant") -> pl.Expr:
    """Grades of retrieved ids, in order: those of the relevant ids, and NULL for the others.

    `relevant` is a list of ids, which have grade 1, a struct {id: grade} (in SQL also a MAP), or a
    list of structs with an id (`id`, `item`) and a grade (`grade`, `rel`). The metrics of lists
    take the result: `list_ndcg(grades_of("retrieved", "relevant"), ideal=grades_of("relevant",
    "relevant"))`. NULL if one of both is NULL. An id that is retrieved twice is an error; if both
    arguments are equal, as for the ideal, it counts once. A relevant id may be there twice with one
    grade. A struct or MAP of retrieved ids is ordered by its values, the highest first.

    >>> rows = {"retrieved": [["a", "b", "c"]], "relevant": [["b", "z"]]}
    >>> pl.DataFrame(rows).select(grades_of())["grades_of"].to_list()
    [[None, 1.0, None]]
    """

    def grades(columns: Sequence[pl.Series]) -> pl.Series:
        retrieved, relevant = columns
        if pl.Null in (retrieved.dtype, relevant.dtype):
            return pl.Series([None], dtype=_GRADES).new_from_index(0, len(retrieved))
        ids = _read_grades("retrieved", retrieved)
        if isinstance(retrieved.dtype, pl.Struct):
            ids = ids.sort("row", -pl.col("grade"), "id")
        if retrieved.dtype == relevant.dtype:  # of the ideal ranking, repeats count once
            ideal = pl.lit(retrieved.eq_missing(relevant)).gather(pl.col("row"))
            first = pl.struct("row", "id").is_first_distinct() | pl.col("id").is_null()
            ids = ids.filter(~ideal | first)
        ids = ids.select("row", "id")
        repeated = ids.filter(pl.struct("row", "id").is_duplicated() & pl.col("id").is_not_null())
        for twice in repeated["id"].head(1):
            raise RankqlError(
                f"retrieved must not repeat an id, but {twice} is there twice. Keep the first"
            )
        known = _read_grades("relevant", relevant).drop_nulls("id").unique()
        for twice in known.filter(pl.struct("row", "id").is_duplicated())["id"].head(1):
            raise RankqlError(f"relevant has different grades for {twice}. Keep one")
        graded = ids.join(known, on=["row", "id"], how="left", maintain_order="left")
        lists = graded.group_by("row").agg("grade")
        rows = pl.DataFrame({"row": pl.int_range(len(retrieved), eager=True)})
        both = retrieved.is_not_null() & relevant.is_not_null()
        lists = rows.join(lists, on="row", how="left", maintain_order="left")
        grade = pl.coalesce("grade", pl.lit([], dtype=_GRADES))
        return lists.select(pl.when(both).then(grade)).to_series()

    pair = [column(retrieved), column(relevant)]
    return pl.map_batches(pair, grades, _GRADES, is_elementwise=True).alias("grades_of")


def _read_grades(name: str, values: pl.Series) -> pl.DataFrame:
    """The ids of each row as text, and their grades."""
    if isinstance(values.dtype, pl.Struct):
        key, value = f"{INTERNAL_PREFIX}id", f"{INTERNAL_PREFIX}grade"  # ids may have any name
        pairs = values.struct.unnest().unpivot(variable_name=key, value_name=value)
        row = pl.int_range(pl.len()) % len(values)  # all rows of a field, then of the next
        return _cast(name, pairs.select(row=row, id=key, grade=value).drop_nulls("grade"))
    rows = pl.DataFrame({"row": pl.int_range(len(values), eager=True), "id": values})
    kind = values.dtype
    listed = isinstance(kind, pl.List | pl.Array)
    require(listed, f"{name} must be a list of ids or a struct of id: grade, not {kind}")
    rows = rows.with_columns(pl.col("id").cast(pl.List(kind.inner)))  # type: ignore[attr-defined]
    rows = rows.filter(pl.col("id").list.len() > 0).explode("id")
    if not isinstance(kind.inner, pl.Struct):  # type: ignore[attr-defined]
        return _cast(name, rows.with_columns(grade=1.0))
    fields = {field.name for field in kind.inner.fields}  # type: ignore[attr-defined]
    ids = [field for field in ("id", "item", "key") if field in fields]
    grades = [field for field in ("grade", "rel", "value") if field in fields]
    require(bool(ids), f"{name} has no id or item: {kind}")
    item = pl.col("id").struct
    grade: pl.Expr = item.field(grades[0]) if grades else pl.lit(1.0)
    return _cast(name, rows.select("row", item.field(ids[0]).alias("id"), grade.alias("grade")))


def _cast(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Ids as text, grades as numbers."""
    grades = rows["grade"]
    kind = grades.dtype
    read = kind.is_numeric() or kind in (pl.Boolean, pl.Null) or kind in TEXT_TYPES
    require(read, f"{name} must have numbers as grades, not {kind}")
    numbers = grades.cast(pl.Float64, strict=False)
    unread = numbers.is_null() & grades.is_not_null()
    refuse_values(f"{name} must have numbers as grades", grades, unread)
    return rows.select("row", pl.col("id").cast(pl.String), grade=numbers)
