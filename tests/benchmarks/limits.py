"""What each ratio should be (the targets), and where the guard stops: one table of both."""

from __future__ import annotations

from dataclasses import dataclass

from data import RANDOM
from tasks import AP, NDCG, PANEL
from timing import Measured
from workloads import EVERY, PEERS

# The peers that compute with frames or arrays of all queries at once.
CLOSE = ("scikit-learn", "scikit-learn, ignore_ties", "polars_ds", "torchmetrics", "RecTools")


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
    Limit("macro", "ndcg(rel, pos, 10)", ratio=2.5, guard=25),
    Limit(f"macro{RANDOM}", "ndcg(rel, pos, 10)", ratio=2.5, guard=25),
    Limit("ranked", NDCG, ratio=1.5, guard=15),
    Limit(f"ranked{RANDOM}", NDCG, ratio=1.8, guard=15),
    Limit("ranked", PANEL, ratio=3.5, guard=45),
    Limit(f"ranked{RANDOM}", PANEL, ratio=3.5, guard=45),
    Limit("by hand", "SQL by hand", behind=4),
    Limit("few rows", NDCG, seconds=0.01, guard=60),
    Limit("few rows", PANEL, seconds=0.02, guard=250),
    Limit("parquet", NDCG, ratio=3, guard=12),
    Limit("parquet", PANEL, guard=28),
    Limit("joined", NDCG, ratio=1.4, guard=15),
    Limit("joined", AP, ratio=4, guard=30),
    Limit("joined", PANEL, guard=25),
    *(
        Limit("scored", f"ndcg_score{ties}, from {start}", behind=behind)
        for ties in ("", ", ignore_ties")
        for start, behind in (("the frame", 2), ("matrices", 1))
    ),
    Limit("polars", ".agg(ndcg)", ratio=3, guard=20),
    Limit("polars", ".pipe(ndcg)", 30, ratio=1.2, guard=8),
    Limit("polars", ".pipe(ndcg)", 100, ratio=1.2, guard=12),
    Limit("polars streaming", ".agg(ndcg)", ratio=3, guard=16),
    Limit("polars streaming", ".pipe(ndcg)", ratio=1.5, guard=18),
    Limit("billion", NDCG, seconds=8, memory=2),
    Limit("billion", PANEL, seconds=12, memory=2),
    Limit("spill", NDCG),
    Limit("spill", PANEL),
    Limit("import", "import rankql", ratio=1.3, guard=0.6),
    Limit("import", "from rankql import evaluate, ndcg", ratio=1.3, guard=2.5),
    Limit("command line", "rankql eval", ratio=1.4, guard=5),
    *(Limit(EVERY, name, behind=2 if name in CLOSE else 5) for name in PEERS),
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
