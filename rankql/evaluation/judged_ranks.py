"""Positions of judged items in large runs, from a sorted list of the scores of each ranking.

A window sorts all rows, with their ids. Here, each ranking has a list of its scores, and lists of
the grades and scores of its judged items. Only scores are sorted, and an item is looked up by its
score. Tied items, which must be few, are put in order by themselves. Metrics with a cutoff k need
only the best k + 1 scores, if none of these is tied. `plan` says when lists are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankql.evaluation.steps import CANDIDATES, CUTS, RANKS, select_from
from rankql.macros import TIED

# The positions in the lists of `ranks`, as rows.
_PLACES = "unnest(places) AS rank, unnest(are_tied) AS tied"
# Without the condition DuckDB 2.0.1 takes the lists for the larger side, and hashes the run.
_LISTED_CUTS = f"(FROM {CUTS} WHERE least IS NOT NULL)"


def sorted_scores(longest: int | None) -> str:
    """The aggregate for the list of all scores of a ranking, the best first.

    max(score, n) takes a third less time than list_sort, and memory for n scores of each ranking.
    """
    if longest is not None:
        return f"max(score, {longest})"
    return "list_sort(list(score) FILTER (WHERE score IS NOT NULL), 'DESC', 'NULLS LAST')"


def judged_rank_ctes(keys: str, judgments: str, where: str, order: str) -> dict[str, str]:
    """The CTEs up to `ranked`: the grades of the judged items and their positions.

    They read the CTE `cuts`, with the lists of scores. judgments: repeated for every system.
    where: selects the judgments. order: of tied items.
    """
    scored = f"(SELECT {keys}, item, score FROM run WHERE score IS NOT NULL)"
    judged = f"""    SELECT {keys}, list(rel) AS rels, list(score) AS scores
    FROM {scored} RIGHT JOIN (SELECT {keys}, item, rel FROM {judgments} {where})
        USING ({keys}, item) GROUP BY {keys}"""
    places = f"""    SELECT {keys}, rels, scores, best,
        list_transform(scores, lambda x: list_position(best, x)) AS places
    FROM judged LEFT JOIN {CUTS} USING ({keys})"""
    ranks = f"""    SELECT {keys}, rels, scores, places,
        list_transform(scores, lambda x, i: coalesce(best[places[i] + 1] = x, false)) AS are_tied
    FROM places"""
    tied_scores = f"""    SELECT DISTINCT {keys}, score, rank
    FROM (SELECT {keys}, unnest(scores) AS score, {_PLACES} FROM ranks
          WHERE list_contains(are_tied, true)) WHERE tied"""
    numbered = f"""    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM run JOIN tied_scores USING ({keys}, score)"""
    # Without it, DuckDB hashes all judgments although no score is tied.
    few = "    SELECT *\n    FROM qrels SEMI JOIN tied_scores USING (query)"
    ranked = f"""    SELECT {keys}, rel, rank AS pos
    FROM (SELECT {keys}, unnest(rels) AS rel, {_PLACES} FROM ranks) WHERE NOT tied
    UNION ALL
    SELECT {keys}, rel, pos FROM numbered JOIN few USING (query, item) {where}"""
    steps = {"judged": judged, "places": places, RANKS: ranks, "tied_scores": tied_scores}
    return steps | {"numbered": numbered, "few": few, "ranked": ranked}


def top_rank_ctes(keys: str, k: int, order: str, reads: Sequence[str]) -> dict[str, str]:
    """The CTEs up to `top`: the first k items of each ranking and their positions.

    order: of tied items, and what it reads.
    """
    columns = ", ".join([keys, "item", "score", *reads])
    candidates = f"""    SELECT {columns}, list_position(best, score) AS rank,
        coalesce(best[list_position(best, score) + 1] = score, false) AS tied
    FROM run JOIN {_LISTED_CUTS} USING ({keys}) WHERE score >= least"""
    top = f"""    SELECT {keys}, item, rank AS pos FROM candidates WHERE NOT tied
    UNION ALL
    SELECT {keys}, item,
        rank + row_number() OVER (PARTITION BY {keys}, score ORDER BY {order}) - 1 AS pos
    FROM candidates WHERE tied QUALIFY pos <= {k}"""
    return {CANDIDATES: candidates, "top": top}


def top_score_cuts(keys: str, k: int, tied: bool) -> str:
    """The body of `cuts`: the best k + 1 scores, the k-th, and with `tied` if they are tied."""
    scores = f"max(score, {k + 1})"
    least = f"{scores}[least({k}, len({scores}))] AS least"
    fields = [keys, f"{scores} AS best", least]
    fields += [f"coalesce({are_tied(scores)}, false) AS {TIED}"] if tied else []
    return select_from("run", fields, f"GROUP BY {keys}")


def untied_rank_rows(keys: str, judgments: str, where: str, zeroes: bool) -> str:
    """The body of `ranked`: the judged items, each at the position of its score in the list.

    Rankings with ties, whose values are wrong anyway, have no positions. judgments: repeated for
    every system. where: selects the judgments. zeroes: items that are not retrieved have grade 0.
    """
    pos = f"CASE WHEN score >= least AND NOT {TIED} THEN list_position(best, score) END AS pos"
    rel = "CASE WHEN retrieved THEN rel ELSE 0 END AS rel" if zeroes else "rel"
    items = (
        f"SELECT {keys}, item, {pos}, true AS retrieved FROM run JOIN {_LISTED_CUTS} USING ({keys})"
    )
    join = f"{judgments} LEFT JOIN ({items} WHERE score IS NOT NULL) USING ({keys}, item)"
    return select_from(join, [keys, "item", rel, "pos"], where)


def are_tied(scores: str) -> str:
    """Are two scores of a sorted list the same? The list is NULL if it would be empty.

    list_distinct() takes seven times as long for 10 to 100 scores.
    """
    next_one = "lambda a, b: CASE WHEN a <> b THEN b END"
    return f"{scores} IS NOT NULL AND list_reduce({scores}, {next_one}) IS NULL"
