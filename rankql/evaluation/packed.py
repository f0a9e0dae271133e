"""Metrics at cutoffs from the top of each ranking packed in one number.

If grades are whole numbers from 0 to D, two kinds of sums per ranking are enough for all metrics at
cutoffs. One packs the top: the grade at position i is the i-th digit of a number, and the number of
packed items is above the digits. The others count the items with at least each grade, which gives
the ideal: the counts are digits too, and a polynomial of the grade says what a row adds to them.
Rows are only added up; metrics are computed once per ranking.

The sums are whole numbers below 2^53, so DOUBLE adds them up exactly, in any order. It takes half
the memory of the sum of integers and checks no overflow. Measured in units of `sum(rel) GROUP BY
user`, 10M rows in 100,000 rankings in order / in random order, with `perfect_ht_threshold = 20`,
which indexes the sums by key: 1.4 / 0.9; integers and a sum for each power of the grade took 1.6 /
1.5. Slower: discounted gains by row; counters by CASE, by a shift or by a list of constants (they
branch, or check for overflow, in every row); `max(grade, 10)` for the ideal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

from rankql.evaluation.metric_columns import gain_of_grade
from rankql.macros import quote

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
# The steps to which metrics add columns, in order, and the columns that DuckDB computes for them.
_STEPS = ("packed_hits", "packed_grades", "packed_places", "packed_parts", "packed_combined")
_DIVISORS = "packed_divisors"


class Top:
    """The grades 1 to `end` in the first positions, as digits of an integer.

    Metrics refer to columns, which are added to the `sums` per ranking, one step after another:
    `integers`, then those of `steps`.
    """

    def __init__(self, end: int, cutoffs: Iterable[int]) -> None:
        self.end = end
        self.bits = digit_bits(end)
        self.cutoffs = sorted(set(cutoffs))
        self.k = max(self.cutoffs, default=0)
        self.word = WORD - WORD % self.bits
        self._columns: dict[str, dict[str, Formula]] = {step: {} for step in (_DIVISORS, *_STEPS)}
        self.filled = self.count(1, self.k)
        self.counts = _all_counts(end)

    @property
    def is_short(self) -> bool:
        """Are the sums of digits and items exact as DOUBLE?"""
        return self.bits * self.k <= SHORT

    def integer(self, top: str) -> str:
        """A packed top as an integer. Those of 64 bits are faster."""
        return _integer(top) if self.is_short else f"CAST({top} AS HUGEINT)"

    def sums(self, grade: str, pos: str, first: bool) -> dict[str, str]:
        """The sums per ranking over `rel`, and over the grade and the position as integers.

        first: count items without a gain at position 1.
        """
        return {"top": self.integer(self.packed_rows(grade, pos, first)), **self.counted_rows()}

    def packed_rows(self, grade: str, pos: str, first: bool = False) -> str:
        """The sum that packs the rows of a ranking."""
        item = self._item(grade, pos, first)
        item = f"CAST({item} AS DOUBLE)" if self.is_short else item
        # 0, because a sum takes longer to leave out NULL.
        return f"sum(CASE WHEN {pos} <= {self.k} THEN {item} ELSE 0 END)"

    def packed_list(self, grades: str) -> str:
        """The same from a list of the first k grades."""
        return f"list_sum(list_transform({grades}, lambda grade, i: {self._item('grade', 'i')}))"

    def counted_rows(self) -> dict[str, str]:
        """The sums that count the items with at least each grade."""
        return {
            name: f"coalesce(sum({counts.polynomial.sql('rel')}), 0)"
            for name, counts in self.counts.items()
        }

    def _item(self, grade: str, pos: str, first: bool = False) -> str:
        """What an item adds to the packed top.

        Above the digits are two bits for items without a gain at position 1, if `first`, then the
        number of packed items.
        """
        size = self.bits * self.k
        kind = "BIGINT" if size <= WORD else "HUGEINT"
        digit = f"CAST({grade} AS {kind}) << CAST({self.bits} * ({pos} - 1) AS {kind})"
        cases = f"WHEN {grade} > 0 THEN {1 << size + 2} + ({digit})"
        if first:
            cases += f" WHEN {pos} = 1 THEN {1 << size}"
        return f"CASE {cases} ELSE 0 END"

    def integers(self) -> dict[str, Formula]:
        """The columns that DuckDB computes, of at most 64 bits, which polars reads."""
        sums = {name: quote(name) for name in ("top", *self.counts)}
        return (sums if self.is_short else self._digits()) | self._columns[_DIVISORS]

    def _digits(self) -> dict[str, Formula]:
        """The parts of the packed top, and the sums that count as integers."""
        size = self.bits * self.k
        parts = {
            f"word {word}": f"{self._top_from(word * self.word)} & {_ones(part)}"
            for word, part in self._sizes(self.k)
        }
        parts |= {"firsts": f"{self._top_from(size)} & 3", "packed": self._top_from(size + 2)}
        digits = {name: f"CAST({part} AS BIGINT)" for name, part in parts.items()}
        totals = {f"all {name}": counts.total(quote(name)) for name, counts in self.counts.items()}
        return {**digits, **totals}

    def _top_from(self, bit: int) -> str:
        """The packed top without its lowest bits."""
        return _shifted(quote("top"), bit) if self.is_short else f"(top >> {bit})"

    def steps(self) -> dict[str, Mapping[str, Formula]]:
        """The columns that are computed from the integers, by step."""
        steps: dict[str, Mapping[str, Formula]] = {
            "packed_digits": self._digits() if self.is_short else {},
            "packed_counts": {
                f"from {grade}": counts.at_least(quote(f"all {name}"), grade)
                for name, counts in self.counts.items()
                for grade in counts.grades
            },
            **{step: self._columns[step] for step in _STEPS},
        }
        return {name: columns for name, columns in steps.items() if columns}

    def repeats_position(self) -> str:
        """Do two items share a position?"""
        return f'"packed" <> {self.filled} OR "firsts" + {self.count(1, 1)} > 1'

    def overflows(self) -> str:
        """Has a ranking as many items with a gain as the counts cannot hold?"""
        return f'"from 1" >= {self.limit}'

    @property
    def limit(self) -> int:
        """So many items with a gain are too many."""
        return 1 << min(counts.bits for counts in self.counts.values())

    def grade(self, i: int, factor: float) -> str:
        """The grade at a position, times a factor."""
        digit, scale = self._digit(i)
        return f"{digit} * {double(factor / scale)}"

    def hit(self, threshold: int, i: int, factor: float) -> str:
        """The factor if the grade at a position reaches the threshold, else 0."""
        word, shift = self._place(i)
        bit = f"({self._hits_of(threshold, word)} & {1 << shift})"
        return f"{bit} * {double(factor / (1 << shift))}"

    def power(self, i: int, factor: float) -> str:
        """2^grade - 1 at a position, times a factor."""
        digit, scale = self._digit(i)
        grade = self._column("packed_grades", f"grade {i}", f"CAST({digit} AS DOUBLE)")
        powers = _powers(self.end)
        return f"{powers.sql(grade, scale)} * {double(factor / powers.denominator)}"

    def stop(self, i: int, factor: float) -> str:
        """2^grade - 1 at a position, times a factor, as a column."""
        return self._column("packed_places", f"stop {factor} {i}", self.power(i, factor))

    def divisor(self, k: int) -> str:
        """The cutoff as a column. polars multiplies by 1 / k instead, which rounds twice."""
        return self._column(_DIVISORS, f"cutoff {k}", str(k))

    def count(self, threshold: int, k: int) -> str:
        """The number of hits in the first k positions."""
        counts = (
            f"bit_count({self._hits_of(threshold, word)} & {_ones(size)})"
            for word, size in self._sizes(k)
        )
        return f"CAST({' + '.join(counts)} AS DOUBLE)"

    def first(self, threshold: int, k: int) -> str:
        """The position of the first hit in the first k positions, else NULL."""
        cases = []
        for word, _ in self._sizes(self.k):
            hits, before = self._hits_of(threshold, word), word * (self.word // self.bits)
            below = f"bit_count(({hits} & -{hits}) - 1)"
            cases.append(f"WHEN {hits} > 0 THEN {before + 1} + {below} / {self.bits}")
        value = f"CAST(CASE {' '.join(cases)} END AS DOUBLE)"
        first = self._column("packed_places", f"first {threshold}", value)
        return f"CASE WHEN {first} <= {k} THEN {first} END"

    def relevant(self, threshold: float) -> str:
        """R."""
        return quote(f"from {math.ceil(threshold)}") if threshold <= self.end else "0"

    def total(self, name: str, term: Callable[[int], str], k: int) -> str:
        """The sum of a term over the first k positions, in parts that cutoffs share."""
        return " + ".join(
            self.part(f"{name} to {upto}", " + ".join(map(term, range(start, upto + 1))))
            for start, upto in self.stretches(k)
        )

    def part(self, name: str, value: Formula) -> str:
        """Add a column that several metrics share."""
        return self._column("packed_parts", name, value)

    def combined(self, name: str, value: str) -> str:
        """Add a column that is computed from parts."""
        return self._column("packed_combined", name, value)

    def stretches(self, k: int, longest: int = BITS) -> list[tuple[int, int]]:
        """The positions from one cutoff to the next, in parts of at most `longest`."""
        ends = sorted(
            {*(cutoff for cutoff in self.cutoffs if cutoff <= k), *range(longest, k, longest)}
        )
        return [(start + 1, end) for start, end in zip([0, *ends], ends, strict=False)]

    def gains(self, kind: str, threshold: int) -> list[float]:
        """The gain of each grade from 0."""
        return [gain_of_grade(kind, threshold, grade) for grade in range(self.end + 1)]

    def _sizes(self, k: int) -> list[tuple[int, int]]:
        """The words of the first k positions, and the number of bits in each."""
        size = self.bits * k
        starts = range(0, size, self.word)
        return [(word, min(self.word, size - start)) for word, start in enumerate(starts)]

    def _column(self, step: str, name: str, value: Formula) -> str:
        """Add a column to a step."""
        self._columns[step][name] = value
        return quote(name)

    def _place(self, i: int) -> tuple[int, int]:
        """The word with the digit of a position, and its lowest bit there."""
        return divmod(self.bits * (i - 1), self.word)

    def _digit(self, i: int) -> tuple[str, int]:
        """The digit at a position times a power of two, and that power. This avoids a shift."""
        word, shift = self._place(i)
        digit = f"({quote(f'word {word}')} & {_ones(self.bits) << shift})"
        return digit, 1 << shift

    def _hits_of(self, threshold: int, word: int) -> str:
        """A word in which the lowest bit of a digit says whether it reaches the threshold."""
        name, digits = f"hits {threshold} {word}", quote(f"word {word}")
        _, size = self._sizes(self.k)[word]
        ones, highest = sum(1 << i for i in range(0, size, self.bits)), self.bits - 1
        if threshold > self.end:
            reached = "CAST(0 AS BIGINT)"
        elif threshold == 1:  # any bit: two digits may have been added
            reached = " | ".join(_shifted(digits, i) for i in range(self.bits))
        else:  # the addition sets the highest bit of a digit that reaches it
            added = f"({digits} + {ones * ((1 << highest) - threshold)})"
            reached = _shifted(added, highest)
        return self._column("packed_hits", name, f"({reached}) & {ones}")


class Counts:
    """The numbers of items with at least a grade, for some grades, as digits of one number.

    A row adds a polynomial of its grade: 0 for 0, and for others the ones of all counts that it
    belongs to.
    """

    def __init__(self, end: int, grades: range) -> None:
        self.grades = grades
        self.bits, self.polynomial = self._choose_polynomial(end)

    def total(self, name: str) -> str:
        """All counts, from their sum."""
        return _integer(f"{name} / {self.polynomial.denominator}")

    def at_least(self, total: str, grade: int) -> str:
        """The number of items with at least this grade."""
        if grade == self.grades[0]:  # not cut, to see that it is too large
            return _shifted(total, self._shift(grade))
        return f"{_shifted(total, self._shift(grade))} & {_ones(self.bits)}"

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
def _all_counts(end: int) -> dict[str, Counts]:
    """The counts of all grades, by the names of their sums."""
    return {
        f"counts {first}": Counts(end, range(first, min(first + COUNTS, end + 1)))
        for first in range(1, end + 1, COUNTS)
    }


@cache
def _powers(end: int) -> Polynomial:
    """2^grade - 1."""
    return Polynomial([2**grade - 1 for grade in range(end + 1)])


def digit_bits(end: int) -> int:
    """The bits of a digit, if grades are whole numbers from 0 to `end`.

    A digit holds twice the highest grade, so that two items at one position are detected: there are
    fewer digits other than 0 than items. (With single bits this is always so.)
    """
    return 1 if end <= 1 else (2 * end).bit_length()


def _integer(value: str) -> str:
    """A DOUBLE as an integer, if it is exact, else one that is too large."""
    return f"CAST(least({value}, {1 << EXACT}) AS BIGINT)"


def _shifted(value: str, bits: int) -> str:
    """An integer from 0 without its lowest bits, in SQL that polars reads too."""
    return f"({value} // {1 << bits})" if bits else value


def _ones(bits: int) -> int:
    return (1 << bits) - 1


class Polynomial:
    """The polynomial with these values at the grades 0, 1 and so on, multiplied by a denominator.

    The first value is 0. The coefficients are whole numbers, so it is exact at the grades. With the
    denominator in the coefficients, 2^3 - 1 is 6.999999999999999.

    DuckDB multiplies and adds DOUBLE without checks for overflow, several at once. CASE, shifts and
    lists of constants take longer.
    """

    def __init__(self, values: Sequence[int]) -> None:
        factors = _interpolate(values)
        self.denominator = math.lcm(*(factor.denominator for factor in factors))
        self.factors = [int(factor * self.denominator) for factor in factors]

    def sql(self, grade: str, scale: int = 1) -> str:
        """Its value times the denominator. `grade` is a DOUBLE: the grade times a power of two."""
        _, *factors, value = (
            double(factor / scale**power) for power, factor in enumerate(self.factors)
        )
        for factor in reversed(factors):
            value = f"({f'{factor} + ' if float(factor) else ''}{grade} * {value})"
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


@dataclass(frozen=True)
class Lookup:
    """A value in a list, by an index from 0, for which each engine has its own form."""

    values: tuple[float, ...]
    index: str

    def __str__(self) -> str:
        return f"[{', '.join(map(double, self.values))}][{self.index} + 1]"


Formula: TypeAlias = str | Lookup


def double(value: float) -> str:
    """A number that both engines read as DOUBLE. polars 1 cannot read 1e-5, only 1.0e-5."""
    mantissa, _, exponent = repr(float(value)).partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}e{exponent or 0}"
