"""The rows of a reduction, one per ranking: which layout has which columns, and what they hold.

`COLUMNS` is the one table of it: who writes the query, reads the rows or adds them up, here and in
Spark, asks it. `Words` hold the grades of many positions in few columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import polars as pl

# `reduce` says when each layout is chosen, and writes its query.
Layout: TypeAlias = Literal["words", "joined", "cuts", "hashes", "lists", "counters"]
# All but "words", where nothing can be wrong.
COUNTING: tuple[Layout, ...] = ("joined", "cuts", "hashes", "lists", "counters")


class Column(NamedTuple):
    """A column of a reduction."""

    # What it holds of a ranking. The place of an item is its score or position.
    holds: str
    layouts: Sequence[Layout]
    # The aggregate over its rows; "" if the layout has steps for it.
    sql: str = ""
    # How the numbers of rankings become one of a system, in polars and in Spark.
    total: Literal["sum", "min", "max", ""] = ""
    # It is there only with judgments of their own, or if this ranks the items.
    needs: Literal["qrels", "score", "pos", ""] = ""


COLUMNS: Mapping[str, Column] = {
    "rows": Column("rows of the run", COUNTING, "count(*)", "sum"),
    "placed": Column("rows with a place", COUNTING, "count({place})", "sum"),
    "lowest": Column("the lowest place", COUNTING, "min({place})", "min"),
    "highest": Column("the highest place", COUNTING, "max({place})", "max"),
    "judged": Column("judged items", COUNTING, "count(rel)", "sum"),
    "common": Column(
        "retrieved items that are judged", COUNTING,
        "count(rel) FILTER (WHERE {place} IS NOT NULL)", "sum", "qrels",
    ),
    "longest": Column("rows with a place, of the longest ranking", (), "", "max"),
    "items": Column("the best items, as bits of hashes of score and item", ("hashes",)),
    "gains": Column(
        "hashes of all items with a gain", ("hashes",), "list(hash(item)) FILTER (WHERE rel > 0)"
    ),
    "places": Column("the places of items that metrics read", ("lists",)),
    "rels": Column("their grades", ("lists",)),
    "tied": Column(
        "are scores of items that metrics read equal?", ("cuts", "hashes", "lists"), needs="score"
    ),
    "shared": Column(
        "do two of the first items share a position?", ("words", "joined", "lists"), needs="pos"
    ),
    "repeats": Column("does an item occur twice, in any ranking?", ("cuts",)),
}  # fmt: skip
# The column of Spark's sums with the total of a counter: see `partitions`.
SPARK_TOTALS = {"sum": "total", "min": "least", "max": "most", "": "total"}


def spark_total(counter: str) -> str:
    """How Spark combines a counter of partitions; numbers of other names are added up."""
    return SPARK_TOTALS[COLUMNS[counter].total if counter in COLUMNS else "sum"]


# A word fits into 64 bits; those of up to 30 bits are faster.
WORD, SMALL_WORD = 60, 30


class Words:
    """The items in the first k positions, as bits of words: for each 1, and its grade above.

    Items that share a position make the bits wrong, and are more than there are ones.
    """

    def __init__(self, end: int, k: int) -> None:
        self.k, self.bits = k, 1 + end.bit_length()
        self.places = WORD // self.bits

    def sums(self, grade: str, pos: str) -> dict[str, str]:
        """The words of a ranking, over its rows."""
        words = {}
        kind = "INTEGER" if self.bits * self.k <= SMALL_WORD else "BIGINT"
        for name, first, last in self.spans():
            digit = f"CAST(2 * coalesce({grade}, 0) + 1 AS {kind})"
            shifted = f"{digit} << CAST({self.bits} * ({pos} - {first}) AS {kind})"
            inside = f"{pos} BETWEEN {first} AND {last}"
            words[name] = f"bit_or(CASE WHEN {inside} THEN {shifted} ELSE 0 END)"
        return words

    def of_list(self, grades: str) -> dict[str, str]:
        """The words of a ranking, from the list of its grades."""
        shifted = f"(2 * grade + 1) << CAST({self.bits} * (i - 1) AS BIGINT)"
        words = {}
        for name, first, last in self.spans():
            digits = f"list_transform({grades}[{first}:{last}], lambda grade, i: {shifted})"
            words[name] = f"list_bit_or({digits})"
        return words

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """The name of each word, and its first and last position."""
        for word, start in enumerate(range(0, self.k, self.places)):
            yield f"word {word}", start + 1, min(start + self.places, self.k)

    def count_ones(self, grade: str, pos: str) -> str:
        """The number of positions with an item, of a ranking."""
        ones = sum(1 << self.bits * i for i in range(min(self.places, self.k)))
        return " + ".join(f"bit_count({word} & {ones})" for word in self.sums(grade, pos).values())

    def read(self, sums: pl.DataFrame) -> list[pl.Series]:
        """The grade at each position."""
        words = [filled(sums[name].cast(pl.Int64), 0) for name, *_ in self.spans()]
        grades = []
        for word, place in (divmod(i, self.places) for i in range(self.k)):
            shift = self.bits * place + 1
            digits = words[word] & _mask(self.bits - 1, shift)
            grades.append(digits.cast(pl.Float64) * 2.0**-shift)  # polars multiplies faster
        return grades


def filled(column: pl.Series, value: float | bool) -> pl.Series:
    """A column with a value instead of NULL. It mostly has none, and polars takes long to fill."""
    return column.fill_null(value) if column.null_count() else column


@cache
def _mask(bits: int, shift: int) -> pl.Series:
    """Ones, which polars repeats. To make them takes longer than the operation."""
    return pl.Series([((1 << bits) - 1) << shift])


# The positions of items that are bits of a HUGEINT, which is read as columns of WORD bits.
MAX_HITS = 2 * WORD
_BITS = f"list_transform(range({MAX_HITS}), lambda i: CAST(1 AS HUGEINT) << CAST(i AS HUGEINT))"


def place_bits(pos: str) -> str:
    """The positions up to MAX_HITS of the rows of a ranking, as bits."""
    return f"bit_or(({_BITS})[CAST({pos} AS BIGINT)])"


def hit_words(lowest: int, grade: str, pos: str) -> dict[str, str]:
    """The positions of items with at least a grade, as two columns."""
    bits, mask = f"{place_bits(pos)} FILTER (WHERE {grade} >= {lowest})", (1 << WORD) - 1
    words = (f"CAST(({bits} >> {WORD * i}) & {mask} AS BIGINT)" for i in range(MAX_HITS // WORD))
    return {f"hits {lowest} word {i}": f"coalesce({word}, 0)" for i, word in enumerate(words)}


def grade_counts(name: str, end: int, grade: str = "rel", among: str = "true") -> dict[str, str]:
    """How many items of a ranking have each grade, over its rows for which a condition holds."""
    return {
        f"{name} {each}": f"CAST(count_if({grade} = {each} AND {among}) AS BIGINT)"
        for each in range(1, end + 1)
    }


def read_counts(name: str, end: int, sums: pl.DataFrame) -> list[pl.Series]:
    """The numbers of items with at least each grade from 1."""
    columns = (sums[f"{name} {grade}"] for grade in range(end, 0, -1))
    counts = accumulate(filled(column.cast(pl.Float64), 0.0) for column in columns)
    return [*counts][::-1]
