"""Polynomials that have given values at the grades 0, 1 and so on, as SQL.

DuckDB multiplies and adds DOUBLE without checks for overflow, several at once. CASE, shifts and
lists of constants take longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


class Polynomial:
    """The polynomial with these values, of which the first is 0, multiplied by a denominator.

    Its coefficients are then whole numbers, so it is exact at the grades. With the denominator in
    the coefficients, 2^3 - 1 is 6.999999999999999.
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


def double(value: float) -> str:
    """A number that DuckDB reads as DOUBLE, not as DECIMAL."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"
