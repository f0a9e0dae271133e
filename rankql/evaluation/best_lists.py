"""Packed tops of rankings by score, from one list of the best items of each ranking.

A window sorts all rows, with their ids. Here, `arg_max` keeps the items with the k + 1 best scores
of each ranking, in one pass: of each its grade, and a hash of its score, to detect ties. (Scores
with the same hash only cost time.) Rankings with ties get a window of their own. Unlike the window,
lists do not spill to disk. `plan` says when lists are used.
"""

from __future__ import annotations

from collections.abc import Callable

from rankql.evaluation.judged_ranks import are_tied
from rankql.evaluation.packed import Top
from rankql.evaluation.steps import BEST, select_from
from rankql.macros import TIED, quote

# The bits of a grade from 0 to 5, below those of the hash. Both fit into a BIGINT.
GRADE_BITS = 3


def best_list_ctes(
    top: Top,
    columns: dict[str, str],
    keys: str,
    order: str,
    group: Callable[..., str],
    assumes_no_ties: bool,
) -> dict[str, str]:
    """The CTEs up to `sums`, from `run` and from `ranked`, whose rows need no positions.

    columns: what else to select, by name. order: of tied items. group: writes a SELECT by ranking.
    assumes_no_ties: the column TIED says where tied items make the result wrong.
    """
    names = {key: key for key in keys.split(", ")}
    of_score = f"CAST(hash(score) >> {GRADE_BITS + 1} AS BIGINT) << {GRADE_BITS}"
    item = f"({of_score}) | coalesce(CAST(rel AS BIGINT), 0)"
    lists = {"items": f"arg_max({item}, score, {top.k + 1})"}
    best = group(names | columns | lists | top.counted_rows())
    fields = [*map(quote, [*columns, *top.counts])]
    grades = f"list_transform(items[:{top.k}], lambda item: item & {(1 << GRADE_BITS) - 1})"
    packed = top.packed_list(grades)
    tied = are_tied(f"list_transform(items, lambda item: item >> {GRADE_BITS})")
    if assumes_no_ties:
        fields += [f"{top.integer(f'coalesce({packed}, 0)')} AS top", f"{tied} AS {TIED}"]
        return {BEST: best, "sums": select_from(BEST, fields)}
    tied_rows = f"run SEMI JOIN (FROM {BEST} WHERE {tied}) USING ({keys})"
    least = f"max(score, {top.k})[-1] AS least"
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields.append(f"{top.integer(f'coalesce(tops.packed, {packed}, 0)')} AS top")
    rows, at_least = f"run JOIN tied_cuts USING ({keys})", "WHERE score >= least"
    sums = [keys, f"{top.packed_rows('CAST(rel AS INTEGER)', 'pos')} AS packed"]
    return {
        BEST: best,
        "tied_cuts": select_from(tied_rows, [keys, least], f"GROUP BY {keys}"),
        "tied": select_from(rows, [keys, "rel", position], at_least),
        "tops": select_from("tied", sums, f"GROUP BY {keys}"),
        "sums": select_from(f"{BEST} LEFT JOIN tops USING ({keys})", fields),
    }
