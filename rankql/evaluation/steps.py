"""The named steps of a query: the bodies of its CTEs, and the WITH before the final SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, quote

# A number that differs if judgments do, in any order and for any type of ids.
FINGERPRINT = (
    "CAST(sum(hash(CAST(query AS VARCHAR), CAST(item AS VARCHAR), CAST(rel AS DOUBLE))) AS VARCHAR)"
)
# The CTE with the best scores of each ranking.
CUTS = "cuts"
# The CTE with the lists of the best of each ranking.
BEST = "best"
# The CTEs of `judged_ranks` with the best items, and with the positions of judged items.
CANDIDATES, RANKS = "candidates", "ranks"
# The column with the number of judged rows of a ranking.
GRADED = f"{INTERNAL_PREFIX}graded"
# The CTE with the first k items of each ranking.
TOP = "top"
READ_TWICE = (CUTS, TOP, BEST, CANDIDATES, RANKS)


def select_from(source: str, fields: Sequence[str], rest: str = "") -> str:
    """The body of a CTE."""
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}", *([rest] if rest else [])]
    return "\n".join(f"    {line}" for line in lines)


def select_more(source: str, columns: Mapping[str, object]) -> str:
    """The body of a CTE that adds columns to another one."""
    added = (f"{value} AS {quote(name)}" for name, value in columns.items())
    return select_from(source, ["*", *added])


def with_ctes(ctes: Mapping[str, str], kept: str = "") -> str:
    """The WITH clause. CTEs are not materialized, except those read twice and `kept`."""
    materialized = (*READ_TWICE, kept)
    parts = (
        f"{name} AS {'' if name in materialized else 'NOT '}MATERIALIZED (\n{body}\n)"
        for name, body in ctes.items()
    )
    return "WITH " + ", ".join(parts) + "\n"


class Steps(Mapping[str, str]):
    """The named steps of an evaluation, in order. Each is a query that ends with this step.

    `result.steps["ranked"]` is the SQL of a step, `result.steps.run("ranked")` its rows. The last
    step, `values`, is `result.sql`. (`run` reads the inputs again.)
    """

    def __init__(
        self, bodies: Mapping[str, str], values: str, run: Callable[[str], pl.DataFrame] | None
    ) -> None:
        self._bodies, self._values, self._run = bodies, values, run

    def __reduce__(self) -> tuple[type[Steps], tuple[Mapping[str, str], str, None]]:
        return Steps, (self._bodies, self._values, None)  # connections cannot be pickled

    def __getitem__(self, name: str) -> str:
        if name == "values":
            return with_ctes(self._bodies) + self._values
        names = [*self._bodies]
        kept = names[: names.index(name) + 1] if name in self._bodies else []
        if not kept:
            raise KeyError(name)
        return with_ctes({name: self._bodies[name] for name in kept}) + f"FROM {name}"

    def __iter__(self) -> Iterator[str]:
        return iter([*self._bodies, "values"])

    def __len__(self) -> int:
        return len(self._bodies) + 1

    def __repr__(self) -> str:
        return f"Steps: {', '.join(self)}"

    def run(self, name: str, columns: str = "*") -> pl.DataFrame:
        """The rows of a step, or an SQL expression over them."""
        sql = self[name]
        if self._run is None:
            raise RankqlError("The inputs are known in another process. Evaluate them again")
        return self._run(sql if columns == "*" else f"SELECT {columns} FROM ({sql})")
