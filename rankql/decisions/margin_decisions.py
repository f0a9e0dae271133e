"""The margin that a mean loss is held to, and the decision about it."""

from __future__ import annotations

from dataclasses import dataclass

from rankql.decisions.rounding import ROUNDING
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED


@dataclass(frozen=True)
class Margin:
    """How large a mean loss may be.

    Where `required`, the loss must be shown to be within the margin. Otherwise only a loss that is
    shown to be beyond it fails. Where `strict`, a loss that equals the margin is beyond it.
    """

    size: float
    required: bool = True
    strict: bool = False

    def holds(self, loss: float) -> bool:
        """Whether a known loss is within the margin."""
        return loss < self.size - ROUNDING if self.strict else loss <= self.size + ROUNDING

    def decide(self, lo: float, hi: float) -> str:
        """The decision for a loss that lies between two bounds."""
        if not self.holds(lo):
            return FAILED
        return PASSED if self.holds(hi) or not self.required else INCONCLUSIVE

    def excluded(self, lo: float, hi: float) -> bool:
        """Whether the margin lies outside the bounds, so that the test at it rejects."""
        return not self.holds(lo) or self.holds(hi)


@dataclass(frozen=True)
class Judgement:
    """A decision, with the interval of the mean loss that led to it and the interval's level."""

    decision: str
    lo: float | None = None
    hi: float | None = None
    confidence: float | None = None
    queries_needed: int | None = None
    constant: bool = False

    def interval(self, limit: float, sign: int) -> tuple[float | None, float | None]:
        """The interval of limit + sign * loss, the lower bound first."""
        if self.lo is None or self.hi is None:
            return None, None
        bounds = limit + sign * self.lo, limit + sign * self.hi
        return min(bounds), max(bounds)

    def columns(self) -> dict[str, float | int | None]:
        """The columns of the gate's table for the level and the queries that would decide."""
        level = self.confidence if self.lo is not None else None
        return {"confidence": level, "queries_needed": self.queries_needed}
