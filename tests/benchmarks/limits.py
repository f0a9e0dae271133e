"""What each ratio should be (the targets), and where the guard stops: one table of both."""

from __future__ import annotations

from dataclasses import dataclass

from timing import Measured
from workloads import AP, EVERY, NDCG, PANEL, PEERS


@dataclass(frozen=True)
class Limit:
    """For a task of a workload: the most that it should take, or how far a peer should be behind.

    `guard` is the ratio at the small size that CI does not let pass: two to three times what it was
    when this was written, so that gross regressions stop there, and noise does not.
    """

    work: str
    task: str
    density: int | None = None
    ratio: float | None = None
    behind: float | None = None
    seconds: float | None = None
    memory: float | None = None
    guard: float | None = None

    @property
    def text(self) -> str:
        """The target in words."""
        parts = (
            (self.ratio, "≤ {:g} ×"),
            (self.behind, "≥ {:g} ×"),
            (self.seconds, "≤ {:g} s"),
            (self.memory, "≤ {:g} GB"),
        )
        said = [text.format(value) for value, text in parts if value is not None]
        return ", ".join(said) or ("" if self.guard else "completes")

    def met(self, found: Measured) -> bool:
        """Is it as it should be?"""
        return not found.error and all(
            low <= high
            for low, high in (
                (found.ratio, self.ratio),
                (self.behind, found.ratio),
                (found.median, self.seconds),
                (found.peak and found.peak / 1e9, self.memory),
            )
            if low is not None and high is not None
        )


LIMITS = (
    Limit("macro", "ndcg(rel, pos, 10)", ratio=3, guard=25),
    Limit("ranked", NDCG, ratio=1.5, guard=15),
    Limit("ranked", PANEL, ratio=5, guard=45),
    Limit("parquet", NDCG, ratio=3, guard=12),
    Limit("parquet", PANEL, guard=28),
    Limit("joined", NDCG, ratio=1.5, guard=15),
    Limit("joined", AP, guard=30),
    Limit("joined", PANEL, guard=25),
    Limit("polars", ".agg(ndcg)", ratio=3, guard=20),
    Limit("polars", ".pipe(ndcg)", 30, ratio=1, guard=8),
    Limit("polars", ".pipe(ndcg)", 100, ratio=2, guard=12),
    Limit("polars streaming", ".agg(ndcg)", ratio=3, guard=16),
    Limit("polars streaming", ".pipe(ndcg)", 30, ratio=1.2, guard=18),
    Limit("polars streaming", ".pipe(ndcg)", 100, ratio=2, guard=18),
    Limit("billion", NDCG, seconds=10, memory=4),
    Limit("billion", PANEL, seconds=30, memory=4),
    Limit("spill", NDCG),
    Limit("spill", PANEL),
    Limit("import", "import rankql", ratio=1.3, guard=0.6),
    Limit("import", "from rankql import evaluate, ndcg", ratio=1.3, guard=2.5),
    *(Limit(EVERY, name, behind=20 if name == "pytrec_eval" else 50) for name in PEERS),
)


def limit(found: Measured) -> Limit | None:
    """The limit of a task, if it has one."""
    for each in LIMITS:
        if (
            each.work in (EVERY, found.work.name)
            and each.task == found.task
            and each.density in (None, found.work.density)
        ):
            return each
    return None
