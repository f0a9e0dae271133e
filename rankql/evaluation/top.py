"""The first positions of each ranking as whole numbers, which DuckDB adds up row by row.

If grades are whole numbers from 0 to D, two kinds of sums per ranking are enough for all metrics at
cutoffs. One packs the top: the grade at position i is the i-th digit of a number, and the number of
packed items is above the digits. The others count the items with at least each grade, which gives
the ideal: the counts are digits too, and a polynomial of the grade says what a row adds to them.

The sums are whole numbers below 2^53, so DOUBLE adds them up exactly, in any order. It takes half
the memory of the sum of integers and checks no overflow. Measured in units of `sum(rel) GROUP BY
user`, 10M rows in 100,000 rankings in order / in random order, with `perfect_ht_threshold = 20`,
which indexes the sums by key: 1.4 / 0.9; integers and a sum for each power of the grade took 1.6 /
1.5. Slower: discounted gains by row; counters by CASE, by a shift or by a list of constants (they
branch, or check for overflow, in every row); `max(grade, 10)` for the ideal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, reduce
from operator import or_

import polars as pl

# The ends of the supported scales.
SCALES = (1, 3, 5)
# Counts of so many grades fit into one number.
COUNTS = 3
# DOUBLE holds whole numbers of so many bits exactly.
EXACT = 53
# The digits and their number fit into an integer of 128 bits.
BITS = 90
# Digits are read from words that fit into 64 bits.
WORD = 60
# So many bits of digits leave room in a DOUBLE for the number of items.
SHORT = 45


class Top:
    """The grades 1 to `end` in the first k positions, as digits of an integer."""

    def __init__(self, end: int, k: int) -> None:
        self.end, self.k, self.bits = end, k, digit_bits(end)
        self.word = WORD - WORD % self.bits

    @property
    def is_short(self) -> bool:
        """Are the sums of digits and items exact as DOUBLE?"""
        return self.bits * self.k <= SHORT

    def sums(self, grade: str, pos: str) -> dict[str, str]:
        """The parts of the packed top of a ranking, over its grades and positions as integers."""
        total = self._packed_rows(grade, pos)
        if self.is_short:
            return {"top": _integer(total)}
        size = self.bits * self.k
        parts = {
            f"word {word}": f"{_from(total, start)} & {_ones(min(self.word, size - start))}"
            for word, start in enumerate(range(0, size, self.word))
        }
        parts["above"] = _from(total, size)
        return {name: f"CAST({part} AS BIGINT)" for name, part in parts.items()}

    def _packed_rows(self, grade: str, pos: str) -> str:
        """The sum that packs the rows of a ranking.

        Above the digits are two bits for items without a gain at position 1, then the number of
        packed items.
        """
        size = self.bits * self.k
        kind = "BIGINT" if size <= WORD else "HUGEINT"
        digit = f"CAST({grade} AS {kind}) << CAST({self.bits} * ({pos} - 1) AS {kind})"
        item = (
            f"CASE WHEN {grade} > 0 THEN {1 << size + 2} + ({digit}) "
            f"WHEN {pos} = 1 THEN {1 << size} ELSE 0 END"
        )
        item = f"CAST({item} AS DOUBLE)" if self.is_short else item
        # 0, because a sum takes longer to leave out NULL.
        return f"sum(CASE WHEN {pos} <= {self.k} THEN {item} ELSE 0 END)"

    def read(self, sums: pl.DataFrame) -> tuple[list[pl.Series], pl.Series]:
        """The grade at each position, and whether two items share a position."""
        if self.is_short:
            words, above = [sums["top"]], sums["top"] // (1 << self.bits * self.k)
        else:
            words = [sums[name] for name in sums.columns if name.startswith("word ")]
            above = sums["above"]
        firsts, packed = above & 3, above // 4
        grades = [self._digit(words, i) for i in range(self.k)]
        filled = sum(map(self._count_filled, words[1:]), self._count_filled(words[0]))
        return grades, (packed != filled) | (firsts + (grades[0] > 0).cast(pl.Int64) > 1)

    def _count_filled(self, word: pl.Series) -> pl.Series:
        """The number of digits other than 0."""
        ones = sum(1 << i for i in range(0, self.word, self.bits) if i < self.bits * self.k)
        bits = reduce(or_, (word // (1 << i) for i in range(1, self.bits)), word)
        return (bits & ones).bitwise_count_ones().cast(pl.Int64)

    def _digit(self, words: Sequence[pl.Series], i: int) -> pl.Series:
        word, shift = divmod(self.bits * i, self.word)
        return _bits(words[word], shift, self.bits)


class Words:
    """The grades 1 to `end` in the first k positions, as bits of words.

    For positions that no two items share, any number of words is packed, where `Top` has one.
    """

    def __init__(self, end: int, k: int) -> None:
        self.k, self.bits = k, end.bit_length()
        self.places = WORD // self.bits

    def sums(self, grade: str, pos: str) -> dict[str, str]:
        """The words of a ranking."""
        words = {}
        for word, start in enumerate(range(0, self.k, self.places)):
            inside = f"{grade} > 0 AND {pos} BETWEEN {start + 1} AND {start + self.places}"
            digit = (
                f"CAST({grade} AS BIGINT) << CAST({self.bits} * ({pos} - {start + 1}) AS BIGINT)"
            )
            words[f"word {word}"] = f"bit_or(CASE WHEN {inside} THEN {digit} ELSE 0 END)"
        return words

    def read(self, sums: pl.DataFrame) -> list[pl.Series]:
        """The grade at each position."""
        words = [sums[name].fill_null(0) for name in sums.columns if name.startswith("word ")]
        places = (divmod(i, self.places) for i in range(self.k))
        return [_bits(words[word], self.bits * place, self.bits) for word, place in places]


class Counts:
    """The numbers of items with at least a grade, for some grades, as digits of one number.

    A row adds a polynomial of its grade: 0 for 0, and for others the ones of all counts that it
    belongs to.
    """

    def __init__(self, end: int, grades: range) -> None:
        self.grades = grades
        self.bits, self.polynomial = self._choose_polynomial(end)

    def read(self, sums: pl.Series) -> list[pl.Series]:
        """The number of items with at least each of the grades, from the sums of rankings."""
        # The highest digit is not cut, to see that it is too large.
        digits = [sums // (1 << self._shift(grade)) for grade in self.grades]
        digits = [digits[0], *(digit & _ones(self.bits) for digit in digits[1:])]
        return [digit.cast(pl.Float64) for digit in digits]

    def _choose_polynomial(self, end: int) -> tuple[int, Polynomial]:
        """The most bits per count with exact sums, and what a row adds."""
        for bits in range(EXACT // len(self.grades), 0, -1):
            polynomial = Polynomial(
                [
                    sum(1 << bits * (self.grades[-1] - g) for g in self.grades if g <= grade)
                    for grade in range(end + 1)
                ]
            )
            if polynomial.denominator << bits * len(self.grades) <= 1 << EXACT:
                break
        return bits, polynomial

    def _shift(self, grade: int) -> int:
        return self.bits * (self.grades[-1] - grade)


@cache
def _all_counts(end: int) -> list[Counts]:
    """The counts of all grades."""
    return [
        Counts(end, range(first, min(first + COUNTS, end + 1)))
        for first in range(1, end + 1, COUNTS)
    ]


def count_grades(end: int, name: str, condition: str = "") -> dict[str, str]:
    """The sums that count the items of a ranking with at least each grade; only some of them."""
    sums = {}
    for i, counts in enumerate(_all_counts(end)):
        value = counts.polynomial.sql("rel")
        value = f"CASE WHEN {condition} THEN {value} ELSE 0 END" if condition else value
        total = f"coalesce(sum({value}), 0) / {counts.polynomial.denominator}"
        sums[f"{name} {i}"] = _integer(total)
    return sums


def read_counts(end: int, name: str, sums: pl.DataFrame) -> tuple[list[pl.Series], pl.Series]:
    """The number of items with at least each grade from 1, and whether they are too many."""
    all_counts = _all_counts(end)
    each = (
        column
        for i, counts in enumerate(all_counts)
        for column in counts.read(sums[f"{name} {i}"].fill_null(0))
    )
    grades = [*each]
    return grades, grades[0] >= 1 << min(counts.bits for counts in all_counts)


def digit_bits(end: int) -> int:
    """The bits of a digit, if grades are whole numbers from 0 to `end`.

    A digit holds twice the highest grade, so that two items at one position are detected: there are
    fewer digits other than 0 than items. (With single bits this is always so.)
    """
    return 1 if end <= 1 else (2 * end).bit_length()


def _integer(value: str) -> str:
    """A DOUBLE as an integer, if it is exact, else one that is too large."""
    return f"CAST(least({value}, {1 << EXACT}) AS BIGINT)"


def _from(total: str, bit: int) -> str:
    """The bits of a sum from one on. A division of HUGEINT takes several times as long."""
    return f"(CAST({total} AS HUGEINT) >> {bit})"


def _bits(word: pl.Series, shift: int, bits: int) -> pl.Series:
    """Some bits of a word as a DOUBLE. polars multiplies faster than it divides."""
    return (word & _mask(bits, shift)).cast(pl.Float64) * 2.0**-shift


@cache
def _mask(bits: int, shift: int) -> pl.Series:
    """Ones, which polars repeats. To make them takes longer than the operation."""
    return pl.Series([_ones(bits) << shift])


def _ones(bits: int) -> int:
    return (1 << bits) - 1


class Polynomial:
    """The polynomial with these values at the grades 0, 1 and so on, multiplied by a denominator.

    The first value is 0. The coefficients are whole numbers, so it is exact at the grades.

    DuckDB multiplies and adds DOUBLE without checks for overflow, several at once. CASE, shifts and
    lists of constants take longer.
    """

    def __init__(self, values: Sequence[int]) -> None:
        factors = _interpolate(values)
        self.denominator = math.lcm(*(factor.denominator for factor in factors))
        self.factors = [int(factor * self.denominator) for factor in factors]

    def sql(self, grade: str) -> str:
        """Its value times the denominator. `grade` is a DOUBLE."""
        _, *factors, value = (f"{float(factor)!r}::DOUBLE" for factor in self.factors)
        for factor in reversed(factors):
            value = f"({factor} + {grade} * {value})"
        return f"{grade} * {value}"


def _interpolate(values: Sequence[int]) -> list[Fraction]:
    """The coefficients of the polynomial that has these values at 0, 1 and so on."""
    total = [Fraction(0)] * len(values)
    for at, value in enumerate(values):
        factors = [Fraction(value)]
        for other in range(len(values)):
            if other != at:
                raised = [Fraction(0), *factors]
                scaled = [*(-other * f for f in factors), Fraction(0)]
                factors = [(a + b) / (at - other) for a, b in zip(raised, scaled, strict=True)]
        total = [a + b for a, b in zip(total, factors, strict=True)]
    return total
