"""How large a loss may be, and the decision about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED
from rankql.stats.means import ROUNDING


@dataclass(frozen=True)
class Margin:
    """How large a mean loss may be.

    If `required`, the loss must be shown to be within the margin. Otherwise only a loss shown to be
    beyond it fails. If `strict`, a loss equal to the margin is beyond it.
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
        """Whether the margin is outside the bounds, so that the loss is decided."""
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

    def interval(self, sign: int, origin: float = 0.0) -> tuple[float, float] | None:
        """The interval of origin + sign * loss, the lower bound first; None if there is none."""
        if self.lo is None or self.hi is None:
            return None
        lo, hi = sorted((origin + sign * self.lo, origin + sign * self.hi))
        return lo, hi

    def within(self, lowest: float, highest: float) -> Judgement:
        """The same decision, with an interval that does not go beyond the possible losses."""
        if self.lo is None or self.hi is None:
            return self
        return replace(self, lo=max(self.lo, lowest), hi=min(self.hi, highest))
