"""Packed tops of rankings by score, from a list of the grades of the best items.

A window sorts all rows, with their ids. Here, `arg_max` keeps the grades of the k best scores of
each ranking, in one pass. Rankings in which one of these scores comes twice get a window of their
own. For nDCG@10 of 1M rows in 10,000 rankings this takes a third of the time of the window, and
half if all rankings have ties.
"""

from __future__ import annotations

from collections.abc import Callable

from rankql.evaluation.clauses import BEST, select_from
from rankql.evaluation.judged_ranks import are_tied
from rankql.evaluation.packed import Top
from rankql.evaluation.source_ctes import SqlRunner
from rankql.macros import literal, quote

# In smaller tables, a window is as fast.
MANY_ROWS = 50_000
# In rankings of fewer items, in units of k, most items are among the best.
LENGTH = 3


def suit_best_lists(run_sql: SqlRunner, rows: int, keys: str, k: int) -> bool:
    """Is the table large, and are rankings longer than a few times k?"""
    if rows < MANY_ROWS:
        return False
    ((rankings,),) = run_sql(f"SELECT approx_count_distinct(({keys})) FROM run")
    return bool(rows >= LENGTH * k * rankings)


def best_list_ctes(
    top: Top,
    columns: dict[str, str],
    keys: str,
    order: str,
    group: Callable[..., str],
    tie_error: str = "",
) -> dict[str, str]:
    """The CTEs up to `sums`, from `run` and from `ranked`, whose rows need no positions.

    columns: what else to select, by name. order: of tied items. group: writes a SELECT by ranking.
    tie_error: what to say of tied items and of rows without a score, which are then refused.
    """
    grade = "CAST(rel AS INTEGER)"
    lists = {
        "grades": f"arg_max(coalesce({grade}, 0), score, {top.k})",
        "scores": f"max(score, {top.k + 1})",
    }
    if tie_error:
        lists["unscored"] = "count(*) - count(score)"
    names = {key: key for key in keys.split(", ")}
    best = group(names | columns | lists | top.counted_rows())
    fields = [*map(quote, [*columns, *top.counts])]
    packed, tied = top.packed_list("grades"), are_tied("scores")
    if tie_error:
        refused = f"CASE WHEN {tied} OR unscored > 0 THEN rankql_fail({literal(tie_error)})"
        fields.append(f"{refused} ELSE {top.integer(f'coalesce({packed}, 0)')} END AS top")
        return {BEST: best, "sums": select_from(BEST, fields)}
    least = f"scores[least({top.k}, len(scores))] AS least"
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields.append(f"{top.integer(f'coalesce(tops.packed, {packed}, 0)')} AS top")
    rows, at_least = f"run JOIN tied_cuts USING ({keys})", "WHERE score >= least"
    sums = [keys, f"{top.packed_rows(grade, 'pos')} AS packed"]
    return {
        BEST: best,
        "tied_cuts": select_from(BEST, [keys, least], f"WHERE {tied}"),
        "tied": select_from(rows, [keys, "rel", position], at_least),
        "tops": select_from("tied", sums, f"GROUP BY {keys}"),
        "sums": select_from(f"{BEST} LEFT JOIN tops USING ({keys})", fields),
    }
