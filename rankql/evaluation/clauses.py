"""Clauses of a query: the bodies of CTEs, and the WITH before the final SELECT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankql.macros import INTERNAL_PREFIX, quote

# The highest k of max(score, k).
HIGHEST_K = 999_999
# The CTE with the best scores of each ranking.
CUTS = "cuts"
# The CTE with the lists of the best of each ranking.
BEST = "best"
# The CTE of `judged_ranks` with the positions of judged items.
RANKS = "ranks"
# The column with the number of judged rows of a ranking.
GRADED = f"{INTERNAL_PREFIX}graded"
READ_TWICE = (CUTS, BEST, RANKS)


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
