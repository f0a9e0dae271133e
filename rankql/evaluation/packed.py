"""Rankings as whole numbers: the grades of the first positions, and how many items have each.

If grades are whole numbers from 0 to D, two kinds of numbers per ranking are enough for all metrics
at cutoffs. `Words` have the item at position i as the i-th group of bits. `Counts` are the numbers
of items with at least each grade, which give the ideal, packed into a sum: a polynomial of the
grade says what a row adds to it.

These sums are whole numbers below 2^53, so DOUBLE adds them up exactly, in any order. It takes half
the memory of the sum of integers and checks no overflow. Slower: counters by CASE, by a shift or by
a list of constants (they branch, or check for overflow, in every row); `max(grade, 10)` for the
ideal. Digits of a sum in place of words, for the grades at positions, take as long or longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import polars as pl

# The ends of the supported scales.
SCALES = (1, 3, 5)
# Counts of so many grades fit into one number.
COUNTS = 3
# DOUBLE holds whole numbers of so many bits exactly.
EXACT = 53
# A word fits into 64 bits.
WORD = 60


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
        for word, start in enumerate(range(0, self.k, self.places)):
            digit = f"CAST(2 * coalesce({grade}, 0) + 1 AS BIGINT)"
            shifted = f"{digit} << CAST({self.bits} * ({pos} - {start + 1}) AS BIGINT)"
            inside = f"{pos} BETWEEN {start + 1} AND {self._end(start)}"
            words[f"word {word}"] = f"bit_or(CASE WHEN {inside} THEN {shifted} ELSE 0 END)"
        return words

    def have_shared(self, grade: str, pos: str) -> str:
        """Do two items of a ranking share a position?"""
        ones = sum(1 << self.bits * i for i in range(self.places))
        taken = (f"bit_count({word} & {ones})" for word in self.sums(grade, pos).values())
        return f"{' + '.join(taken)} < count(CASE WHEN {pos} <= {self.k} THEN 1 END)"

    def of_list(self, grades: str) -> dict[str, str]:
        """The words of a ranking, from the list of its grades."""
        words = {}
        for word, start in enumerate(range(0, self.k, self.places)):
            shifted = f"(2 * grade + 1) << CAST({self.bits} * (i - 1) AS BIGINT)"
            part = f"{grades}[{start + 1}:{self._end(start)}]"
            digits = f"list_transform({part}, lambda grade, i: {shifted})"
            words[f"word {word}"] = f"list_bit_or({digits})"
        return words

    def _end(self, start: int) -> int:
        """The last position of the word that starts after a position."""
        return min(start + self.places, self.k)

    def read(self, sums: pl.DataFrame) -> list[pl.Series]:
        """The grade at each position."""
        words = [sums[name].fill_null(0) for name in sums.columns if name.startswith("word ")]
        places = (divmod(i, self.places) for i in range(self.k))
        return [_bits(words[word], self.bits * i + 1, self.bits - 1) for word, i in places]


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


def _integer(value: str) -> str:
    """A DOUBLE as an integer, if it is exact, else one that is too large."""
    return f"CAST(least({value}, {1 << EXACT}) AS BIGINT)"


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
