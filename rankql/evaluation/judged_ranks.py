"""Positions in large runs, from a sorted list of the scores of each ranking.

A window sorts all rows, with their ids. Here, each ranking has a list of its scores, and lists of
the grades and scores of its judged items. Only scores are sorted, and an item is looked up by its
score. Tied items, which must be few, are put in order by themselves. For AP of 10M rows with 2.5M
judgments this takes as long as 3 to 3.5 plain joins, where the window takes 5. If most scores are
tied, the window is faster.

Metrics at a cutoff k need a list of the best k + 1 scores only: nDCG@10 of such a run takes 85% of
the time of a window over the best rows. If all scores are tied it takes 107%, and a third more
memory.

If none of the best k + 1 scores of a ranking is tied, the average over all orders of tied items is
the value of the only order. For nDCG@10 of 1M rows this takes half the time of the average.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankql.evaluation.clauses import CANDIDATES, CUTS, GRADED, HIGHEST_K, HITS, RANKS, select_from
from rankql.evaluation.source_ctes import SqlRunner

# In smaller runs, a window is as fast.
MANY_ROWS = 500_000
# In smaller runs, the average over all orders of tied items is as fast.
UNTIED_ROWS = 100_000
# So many rows are enough to see whether scores are tied.
FIRST_ROWS = 20_000
# A list is searched for each judged item: for more of them in a ranking, a window is faster.
MANY_JUDGED = 200
# A larger share of tied scores is too many.
TIED = 0.05
# The list of all scores of a ranking.
SORTED_LIST = "list_sort(list(score) FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST')"
# The positions in the lists of `ranks`, as rows.
_PLACES = "unnest(places) AS rank, unnest(are_tied) AS tied"
# The lists of scores, for a join with the run. Without the condition DuckDB 2.0.1 takes the lists
# for the larger side, and hashes the run.
SCORED_CUTS = f"(FROM {CUTS} WHERE least IS NOT NULL)"
# Lists have room for the longest ranking if it has at most so many times the average of items.
LONGEST = 3


def suit_lists(run_sql: SqlRunner, most_rows: int, keys: str, where: str) -> bool:
    """Is the run large, with few ties among its first rows, and few judgments for each query?

    most_rows: the run has no more rows. where: selects the judgments.
    """
    if most_rows < MANY_ROWS:
        return False
    judged = f"SELECT count(*) FROM qrels {where} GROUP BY query"
    if run_sql(f"{judged} HAVING count(*) > {MANY_JUDGED} LIMIT 1"):
        return False
    scored = f"SELECT {keys}, score FROM run WHERE score IS NOT NULL LIMIT"
    if run_sql.unrounded(f"SELECT count(*) FROM ({scored} {MANY_ROWS})")[0][0] < MANY_ROWS:
        return False
    tied = f"1 - count(DISTINCT hash({keys}, score)) / count(*)"
    return bool(run_sql(f"SELECT {tied} FROM ({scored} {FIRST_ROWS})")[0][0] <= TIED)


def sorted_scores(run_sql: SqlRunner, keys: str) -> str:
    """The aggregate for the list of all scores of a ranking, the best first.

    max(score, n) takes a third less time than list_sort, and memory for n scores of each ranking.
    """
    ((rankings, longest, scores),) = run_sql.unrounded(
        f"""SELECT count(*), max(n), sum(n)
        FROM (SELECT count(score) AS n FROM run GROUP BY {keys})"""
    )
    if 0 < longest <= HIGHEST_K and longest * rankings <= LONGEST * scores:
        return f"max(score, {longest})"
    return SORTED_LIST


def judged_rank_ctes(
    keys: str, judgments: str, where: str, order: str, hits: bool = False
) -> dict[str, str]:
    """The CTEs up to `ranked`: the grades of the judged items and their positions.

    They read the CTE `cuts`, with the lists of scores. judgments: repeated for every system.
    where: selects the judgments. order: of tied items. hits: all of them are relevant; the last CTE
    is `hits` instead, with a list of their positions for each ranking.
    """
    grades, scores = "rels", "list(rel) AS rels, list(score) AS scores"
    if hits:
        grades, scores = GRADED, f"count(*) AS {GRADED}, {SORTED_LIST} AS scores"
    scored = f"(SELECT {keys}, item, score FROM run WHERE score IS NOT NULL)"
    judged = f"""    SELECT {keys}, {scores}
    FROM {scored} RIGHT JOIN (SELECT {keys}, item, rel FROM {judgments} {where})
        USING ({keys}, item) GROUP BY {keys}"""
    places = f"""    SELECT {keys}, {grades}, scores, best,
        list_transform(scores, lambda x: list_position(best, x)) AS places
    FROM judged LEFT JOIN {CUTS} USING ({keys})"""
    ranks = f"""    SELECT {keys}, {grades}, scores, places,
        list_transform(scores, lambda x, i: coalesce(best[places[i] + 1] = x, false)) AS are_tied
    FROM places"""
    tied_scores = f"""    SELECT DISTINCT {keys}, score, rank
    FROM (SELECT {keys}, unnest(scores) AS score, {_PLACES} FROM ranks
          WHERE list_contains(are_tied, true)) WHERE tied"""
    numbered = f"""    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM run JOIN tied_scores USING ({keys}, score)"""
    # Without it, DuckDB hashes all judgments although no score is tied.
    few = select_from("qrels SEMI JOIN tied_scores USING (query)", ["*"])
    steps = {"judged": judged, "places": places, RANKS: ranks}
    steps |= {"tied_scores": tied_scores, "numbered": numbered, "few": few}
    tied_rows = f"numbered JOIN few USING (query, item) {where}"
    return steps | (_hit_lists if hits else _ranked_rows)(keys, tied_rows)


def _ranked_rows(keys: str, tied_rows: str) -> dict[str, str]:
    """The CTE with a row for each judged item."""
    ranked = f"""    SELECT {keys}, rel, rank AS pos
    FROM (SELECT {keys}, unnest(rels) AS rel, {_PLACES} FROM ranks) WHERE NOT tied
    UNION ALL
    SELECT {keys}, rel, pos FROM {tied_rows}"""
    return {"ranked": ranked}


def _hit_lists(keys: str, tied_rows: str) -> dict[str, str]:
    """The CTEs with a sorted list of the positions of each ranking."""
    untied = "list_filter(places, lambda x, i: NOT are_tied[i])"
    both = f"list_sort(list_concat({untied}, others), 'ASC', 'NULLS LAST')"
    positions = f"CASE WHEN others IS NULL THEN places ELSE {both} END AS {HITS}"
    rankings = f"ranks LEFT JOIN tied_hits USING ({keys})"
    return {
        "tied_hits": select_from(tied_rows, [keys, "list(pos) AS others"], f"GROUP BY {keys}"),
        "hits": select_from(rankings, [keys, GRADED, positions]),
    }


def suit_top_lists(run_sql: SqlRunner, most_rows: int) -> bool:
    """Is the run large?"""
    return most_rows >= MANY_ROWS


def suit_untied_lists(run_sql: SqlRunner, most_rows: int, keys: str, k: int) -> bool:
    """Is the run large, without ties among the best k + 1 of each ranking in its first rows?"""
    if most_rows < UNTIED_ROWS:
        return False
    first = f"SELECT {keys}, score FROM run LIMIT {FIRST_ROWS}"
    tied = are_tied(f"max(score, {k + 1})")
    return not run_sql(f"SELECT 1 FROM ({first}) GROUP BY {keys} HAVING {tied} LIMIT 1")


def are_tied(scores: str) -> str:
    """Are two scores of a sorted list the same? The list is NULL if it would be empty.

    list_distinct() takes seven times as long for 10 to 100 scores.
    """
    next_one = "lambda a, b: CASE WHEN a <> b THEN b END"
    return f"{scores} IS NOT NULL AND list_reduce({scores}, {next_one}) IS NULL"


def top_rank_ctes(keys: str, k: int, order: str, reads: Sequence[str]) -> dict[str, str]:
    """The CTEs up to `top`: the first k items of each ranking and their positions.

    They read the CTE `cuts`, with the lists of scores. order: of tied items, and what it reads.
    """
    columns = ", ".join([keys, "item", "score", *reads])
    candidates = f"""    SELECT {columns}, list_position(best, score) AS rank,
        coalesce(best[list_position(best, score) + 1] = score, false) AS tied
    FROM run JOIN {SCORED_CUTS} USING ({keys}) WHERE score >= least"""
    top = f"""    SELECT {keys}, item, rank AS pos FROM candidates WHERE NOT tied
    UNION ALL
    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM candidates WHERE tied QUALIFY pos <= {k}"""
    return {CANDIDATES: candidates, "top": top}
