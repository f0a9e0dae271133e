"""The settings of a comparison, and which of them go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankql.decisions.corrections import CORRECTIONS
from rankql.decisions.significance import TESTS
from rankql.errors import RankqlError, did_you_mean
from rankql.registry.argument_checks import require_whole_number

_SMALLEST = {"resamples": 100, "seed": 0, "min_queries": 0}


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    min_queries: int
    bounds: Mapping[str, Sequence[float]] | None = None

    def check(self) -> None:
        """Raise an error for an unknown choice or for options that do not go together."""
        choices_by_name: dict[str, Iterable[str]]
        choices_by_name = {"test": TESTS, "correction": CORRECTIONS}
        for name, choices in choices_by_name.items():
            value = getattr(self, name)
            if value not in [*choices]:
                raise RankqlError(
                    f"{name}: there is no {value!r}{did_you_mean(str(value), [*choices])}"
                )
        if not isinstance(self.confidence, float) or not 0 < self.alpha < 1:
            raise RankqlError(f"confidence must lie between 0 and 1, not {self.confidence!r}")
        for name, smallest in _SMALLEST.items():
            require_whole_number(name, getattr(self, name), smallest)
        if self.cluster is not None and not TESTS[self.test].clusters:
            supported = ", ".join(repr(name) for name, test in TESTS.items() if test.clusters)
            raise RankqlError(
                f"test={self.test!r} does not support cluster={self.cluster!r}. Use one of: "
                f"{supported}"
            )
        if self.bounds is not None and self.test != "anytime":
            raise RankqlError(f"bounds= has no effect on test={self.test!r}. Pass test='anytime'")

    @property
    def alpha(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1 - self.confidence, 12)

    @property
    def percent(self) -> str:
        """The confidence in percent."""
        return f"{100 * self.confidence:.12g}%"
