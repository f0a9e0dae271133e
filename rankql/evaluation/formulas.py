"""Formulas in the SQL that DuckDB and polars read alike: constants, polynomials and lookups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


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
