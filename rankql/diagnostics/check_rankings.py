"""Checks of the rankings of a run: duplicates, gaps, ties, and rankings that end early."""

from __future__ import annotations

from collections.abc import Iterator

from rankql import text
from rankql.diagnostics.check_data import CheckData
from rankql.diagnostics.findings import Finding, drop_key


def find_duplicate_items(data: CheckData) -> Iterator[Finding]:
    """Items that a ranking holds more than once."""
    for run in data.runs:
        if "item" in run.roles:
            sql = f"""(SELECT {run.keys}, item, count(*) AS rows FROM {run.clean}
                       GROUP BY {run.keys}, item HAVING count(*) > 1)"""
            hint = "" if data.inputs.many else ", or name the column that tells systems apart"
            yield from data.find_rows(
                "duplicate-items", "error", run, "the same item more than once in a ranking",
                "item", sql, f"its gain would count twice: keep one row of each{hint}",
            )  # fmt: skip


def find_duplicate_positions(data: CheckData) -> Iterator[Finding]:
    """Positions with more than one item."""
    for run in data.runs:
        if "pos" in run.roles:
            sql = f"""(SELECT {run.keys}, pos, count(*) AS rows FROM {run.clean}
                       WHERE pos IS NOT NULL GROUP BY {run.keys}, pos HAVING count(*) > 1)"""
            hint = "" if data.inputs.many else ", or name the column that tells systems apart"
            why = f"two items at one position make metrics exceed 1: number them anew{hint}"
            if run.unused == "pos":
                why = "it is not used, as score makes the ranking"
            yield from data.find_rows(
                "duplicate-positions", run.level("pos", "error"), run,
                "several items at one position", "position", sql, why,
            )  # fmt: skip


def find_position_gaps(data: CheckData) -> Iterator[Finding]:
    """Rankings with missing positions before their last one."""
    for run in data.runs:
        if "pos" in run.roles and run.unused != "pos":
            sql = f"""(
                SELECT {run.keys}, count(DISTINCT pos) AS positions, max(pos) AS last
                FROM {run.clean} WHERE pos BETWEEN 1 AND 9007199254740992 AND pos = floor(pos)
                GROUP BY {run.keys} HAVING max(pos) > count(DISTINCT pos))"""
            yield from data.find_rows(
                "position-gaps", "note", run, "positions are missing before the last", "query",
                sql, "what is missing counts as not relevant: right if the rows were left out on "
                "purpose",
            )  # fmt: skip


def find_order_conflicts(data: CheckData) -> Iterator[Finding]:
    """Rankings in which positions and scores disagree on the order."""
    for run in data.runs:
        if {"pos", "score"} <= run.roles.keys():
            item = "item" if "item" in run.roles else "NULL AS item"
            above = f"lag(score) OVER (PARTITION BY {run.keys} ORDER BY pos, score DESC)"
            sql = f"""(
                SELECT {run.keys}, unnest(arg_min(
                    {{'item': item, 'pos': pos, 'score': score, 'score_above': above}}, pos))
                FROM (SELECT {run.keys}, {item}, pos, score, {above} AS above FROM {run.clean}
                      WHERE pos IS NOT NULL AND score IS NOT NULL)
                WHERE score > above GROUP BY {run.keys})"""
            yield from data.find_rows(
                "rank-score-order", "warning", run,
                f"{run.roles['score']} is not in the order of {run.roles['pos']}", "query", sql,
                f"{run.roles[run.ranking_role]} makes the ranking: name the right one (score= or "
                "pos=); if low scores are best, pass descending=False",
            )  # fmt: skip


def find_ties_at_cutoff(data: CheckData) -> Iterator[Finding]:
    """Rankings where equal scores straddle the cutoff."""
    for run in data.runs:
        if run.scored:
            sql = f"""(
                SELECT {run.keys}, top[{data.k}] AS score FROM (
                    SELECT {run.keys}, max(score, {data.k + 1}) AS top FROM {run.clean}
                    WHERE score IS NOT NULL GROUP BY {run.keys})
                WHERE top[{data.k}] = top[{data.k + 1}])"""
            yield from data.find_rows(
                "ties-at-k", "warning", run, f"equal scores straddle position {data.k}", "query",
                sql, "the ids decide what is in the top k: ties='expected' averages over the orders"
            )  # fmt: skip


def find_tied_rows(data: CheckData) -> Iterator[Finding]:
    """The share of rows that share their score with another row."""
    for run in data.runs:
        if run.scored:
            tie = ", ".join(
                f"'{name}': {name}" for name in (*run.keys.split(", "), "score", "rows")
            )
            ((tied, worst),) = data.fetch(f"""
                SELECT sum(rows), min({{'order': -rows, {tie}}}, 3)
                FROM (SELECT {run.keys}, score, count(*) AS rows FROM {run.clean}
                      WHERE score IS NOT NULL GROUP BY {run.keys}, score HAVING count(*) > 1)""")
            if tied:
                share = (
                    f"{text.format_count(int(tied), 'row')} of {run.rows:,} ({tied / run.rows:.1%})"
                )
                yield Finding(
                    "tied-rows", "note", run.label, int(tied), f"scores that others share: {share}",
                    "the order of equal scores says nothing: see the convention ties",
                    run.original_scores(drop_key("order", worst)),
                )  # fmt: skip


def find_short_rankings(data: CheckData) -> Iterator[Finding]:
    """Rankings that end before the cutoff."""
    for run in data.runs:
        sql = f"""(SELECT {run.keys}, count({run.ranking_role}) AS items FROM {run.clean}
                   GROUP BY {run.keys} HAVING count({run.ranking_role}) < {data.k})"""
        yield from data.find_rows(
            "short-rankings", "note", run, f"fewer than {data.k} items", "query", sql,
            "P@k still divides by k: see the option precision_denominator",
        )  # fmt: skip
