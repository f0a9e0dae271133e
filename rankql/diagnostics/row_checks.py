"""The checks of rows of tables, which `check` runs: `COLUMNS` of one column each, and `ROWS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rankql.core.evaluation.checks.rankings import REFUSED
from rankql.core.evaluation.checks.values import RATINGS, RATINGS_PROBLEM
from rankql.core.tables.tables import Table, is_nan, same_kind
from rankql.shapes.doubts.spelling import respell

Level: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class RowCheck:
    """A check of the rows of a table: what is wrong, and SQL that selects it.

    The rows become one finding, or one per system if the query selects {system}. A query with the
    column `count` returns findings instead of rows. It may have the columns `examples` and `level`,
    and columns that the text has. Checks in a row with the same SQL share one query.
    """

    name: str
    level: Level
    # Of a column, a condition.
    sql: str
    text: str
    why: str
    # The tables that it reads, the roles that they need, and what a row stands for, "" if the text
    # has the number.
    tables: str = ""
    roles: tuple[str, ...] = ()
    noun: str = "row"
    # Which of the rows that the query selects.
    where: str = "true"
    # Whether it runs on a table.
    when: Callable[[Any], object] = lambda _: True


def is_numeric(table: Table, *columns: str) -> bool:
    """Whether the columns have numeric types."""
    return same_kind([*(table.columns[column] for column in columns), "DOUBLE"])


_NULL_ID = REFUSED + "Remove these rows."
_NO_RANK = "These rows take no position, as if they were not in the run."
# By the role of the column.
COLUMNS = {
    **{role: (RowCheck("null-ids", "error", f"{role} IS NULL", "is NULL", _NULL_ID),)
       for role in ("system", "query", "item")},
    "score": (
        RowCheck("text-scores", "error", "raw_score IS NOT NULL AND score IS NULL",
                 "is not a number", REFUSED + "Fix or remove these rows."),
        RowCheck("nan-scores", "error", is_nan("score"),
                 "is NaN", REFUSED + "NaN cannot be sorted. Find out where it comes from."),
        RowCheck("null-scores", "warning", "raw_score IS NULL", "is NULL", _NO_RANK),
        RowCheck("infinite-scores", "warning", "isinf(score)",
                 "is infinite",
                 "Infinite scores are all tied. Look for a division by 0 or log(0)."),
    ),
    "pos": (
        RowCheck("text-positions", "error",
                 f"raw_pos IS NOT NULL AND (pos IS NULL OR {is_nan('pos')})",
                 "is not a number", REFUSED + "Fix or remove these rows."),
        RowCheck("null-positions", "warning", "raw_pos IS NULL", "is NULL", _NO_RANK),
        RowCheck("positions-from-0", "error", "pos = 0",
                 "starts at 0", REFUSED + "Position 1 is the top. Add 1."),
        RowCheck("positions-below-1", "error", "pos < 1 AND pos <> 0",
                 "is below 1", REFUSED + "Position 1 is the top."),
        RowCheck("fractional-positions", "error", "pos > 1 AND pos <> floor(pos)",
                 "is not a whole number", REFUSED + "If it is a score, pass it as score=."),
        RowCheck("huge-positions", "error",
                 f"pos > 9007199254740992 AND NOT {is_nan('pos')}",
                 "is infinite or too large",
                 REFUSED + "Use NULL for items that were not retrieved."),
    ),
    "rel": (
        RowCheck("text-grades", "error", "raw_rel IS NOT NULL AND rel IS NULL",
                 "is not a number", REFUSED + "Map each grade to a number."),
        RowCheck("nan-grades", "error", is_nan("rel"),
                 "is NaN", REFUSED + "Remove these rows, or use NULL for unjudged items."),
        RowCheck("null-grades", "warning", "raw_rel IS NULL",
                 "is NULL", "These rows are ignored. NULL means unjudged, not 0."),
        RowCheck("infinite-grades", "error", "isinf(rel)",
                 "is infinite", REFUSED + "Look for a division by 0 or log(0)."),
        RowCheck("huge-grades", "error", "isfinite(rel) AND NOT rankql_is_rel(rel)",
                 "is too large", REFUSED + "Sums of it would overflow. Rescale the grades."),
        RowCheck("negative-grades", "warning", "rel < 0 AND rankql_is_rel(rel)",
                 "is below 0",
                 "These items count as judged and not relevant, with gain 0. Change this with "
                 "negative=."),
        RowCheck("grades-below-1", "warning", "rel > 0 AND rel < 1",
                 "is between 0 and 1", "These items are not relevant: that takes grade 1. Change "
                 "this with threshold=."),
        RowCheck("high-grades", "warning", "rel > 10 AND rankql_is_rel(rel)",
                 "is above 10", "Few such rows outweigh all others, above all with gain='exp2'. "
                 "Is this a count or a percentage?"),
    ),
}  # fmt: skip


def _has_text(run: Any) -> bool:
    """Are queries of the run or of its judgments text?"""
    return not all(t and is_numeric(t.table, t.roles["query"]) for t in (run, run.qrels))


_QUERIES = [f"(SELECT DISTINCT CAST(query AS VARCHAR) AS id FROM {x})" for x in ("rows", "qrels")]
_UNMATCHED = f"(FROM {_QUERIES[0]} ANTI JOIN {_QUERIES[1]} USING (id))"


def _check_duplicates(level: Level, rows: str, where: str, problem: str) -> RowCheck:
    """A check for items that occur again in a ranking, within the first k or not."""
    return RowCheck(
        "duplicate-items", level, text=f"item appears more than once in {where}",
        why=f"{problem} Keep one row for each item, or pass collapse='{{item_column}}'{{systems}}.",
        tables="runs", noun="item", roles=("item",), where=rows,
        sql="""SELECT {keys}, item, count(*) AS rows,
                coalesce(min(position, 2)[2] <= {k}, false) AS in_top
            FROM (SELECT {keys}, item, {position} AS position FROM rows) GROUP BY ALL
            HAVING count(*) > 1""",
    )  # fmt: skip


def _check_positions(level: Level, which: str, where: str, problem: str) -> RowCheck:
    """A check for positions that several items share, within the first k or below."""
    return RowCheck(
        "duplicate-positions", level, text=f"several items at {where}",
        why=f"{problem} Number the positions with row_number(){{systems}}.",
        tables="runs", noun="position", roles=("pos",), where=f"pos {which}",
        sql="""SELECT {keys}, pos, count(*) AS rows FROM rows WHERE pos IS NOT NULL
            GROUP BY ALL HAVING count(*) > 1""",
    )  # fmt: skip


def _check_judgments(name: str, level: Level, where: str, text: str, problem: str) -> RowCheck:
    """A check for items that are judged several times in a query."""
    return RowCheck(
        name, level, text=text, why=problem, tables="judgments", noun="item", where=where,
        sql="""SELECT query, item, min(rel) AS lowest, max(rel) AS highest, count(*) AS rows
            FROM rows WHERE rel IS NOT NULL GROUP BY query, item HAVING count(*) > 1""",
    )  # fmt: skip


ROWS = (
    RowCheck(
        "id-spelling", "warning", text="query is spelled differently in qrels",
        why="These ids count as unjudged or missing. {repair}.",
        tables="unmatched", roles=("query",), noun="id", when=_has_text,
        sql=f"""SELECT r.id AS run, min(q.id) AS qrels
            FROM {respell(_UNMATCHED, "id")} AS r JOIN {respell(_QUERIES[1], "id")} AS q USING (x)
            GROUP BY r.id""",
    ),
    _check_duplicates("error", "in_top", "a ranking", "evaluate refuses metrics that read both."),
    _check_duplicates("warning", "NOT in_top", "a ranking, the second time below position {k}",
                      "Metrics without a cutoff refuse it."),
    _check_positions("error", "<= {k}", "one position", "Metrics would exceed 1."),
    _check_positions("warning", "> {k}", "one position below {k}",
                     "Metrics without a cutoff refuse it."),
    _check_judgments("duplicate-judgments", "error", "lowest = highest AND highest > 0",
                     "item is judged more than once",
                     "The ideal ranking would count it twice. Keep one row for each item{key}."),
    _check_judgments("duplicate-judgments", "warning", "lowest = highest AND highest <= 0",
                     "item without gain is judged more than once",
                     "Metrics that count such items refuse it. Keep one row for each item{key}."),
    _check_judgments("conflicting-judgments", "error", "lowest < highest",
                     "item has different grades",
                     "Keep one grade for each item: the latest, the highest or the mean{key}."),
    RowCheck(
        "rank-score-order", "warning", noun="query",
        text="{score_column} is not in the order of {pos_column}",
        why="{ranking_column} orders the ranking. To use the other column, pass score= or pos=. "
        "If low scores are best, pass descending=False.",
        tables="runs", roles=("pos", "score"),
        sql="""SELECT {keys}, unnest(arg_min(
               {{'item': item, 'pos': pos, 'score': {sign}score, 'score_above': {sign}above}}, pos))
           FROM (SELECT {keys}, {item}, pos, score,
                     lag(score) OVER (PARTITION BY {keys} ORDER BY pos, score DESC) AS above
                 FROM rows WHERE pos IS NOT NULL AND score IS NOT NULL)
           WHERE score > above GROUP BY {keys}""",
    ),
    RowCheck(
        "missing-queries", "warning", noun="query",
        text="judged but not in the run",
        why="Each of these queries counts as the worst value in means. Change this with missing=.",
        tables="matched",
        sql="""SELECT * FROM (SELECT DISTINCT {system} FROM rows) CROSS JOIN judged
           EXCEPT SELECT DISTINCT {system}, query FROM rows""",
    ),
    RowCheck(
        "no-relevant", "warning", noun="query",
        text="no item has grade {threshold:g} or more",
        why="Metrics such as nDCG, AP and recall are undefined for these queries, which are "
        "left out of means. Change this with undefined= or threshold=.",
        tables="graded",
        sql="""SELECT {keys}, max(rel) AS highest FROM rows
           WHERE rel IS NOT NULL GROUP BY {keys} HAVING max(rel) < {threshold:g}""",
    ),
    RowCheck(
        "ratings", "warning", text=RATINGS_PROBLEM,
        why="Metrics of relevant items, such as P and RR, are near 1. For ratings pass "
        "threshold=, often 4.",
        tables="graded", noun="", when=lambda table: not table.table.is_assumed("rel"),
        sql=RATINGS,
    ),
    RowCheck(
        "ties-at-k", "warning", noun="query",
        text="equal scores at positions {k} and {after_k}",
        why="Item ids decide which of these items is in the top {k}. Pass ties='expected' to "
        "average over all orders.",
        tables="runs", when=lambda run: run.scored,
        sql="""SELECT {keys}, {sign}top[{k}] AS score
           FROM (SELECT {keys}, max(score, {after_k}) AS top FROM rows
                 WHERE score IS NOT NULL GROUP BY {keys})
           WHERE top[{k}] = top[{after_k}]""",
    ),
    RowCheck(
        "judged-share", "note",
        text="judged items in the top {k}: {judged_part:.1%} ({judged:,} of {retrieved:,})",
        why="Unjudged items count as not relevant, which can make a new system look worse than "
        "it is. Change this with unjudged=.",
        tables="judged", noun="",
        when=lambda run: not (run.qrels and "split" in run.qrels.table.context),
        sql="""SELECT system, sum(retrieved) - sum(judged) AS count, sum(judged) AS judged,
               sum(retrieved) AS retrieved, sum(judged) / sum(retrieved) AS judged_part,
               min({{'sort': judged / retrieved, 'query': query, 'judged': judged,
                      'retrieved': retrieved}}, 3)
                 FILTER (judged < retrieved) AS examples,
               CASE WHEN sum(judged) < sum(retrieved) / 2 THEN 'warning' ELSE 'note' END AS level
           FROM (SELECT {system}, query, count(rel) AS judged, count(*) AS retrieved FROM top
                 GROUP BY {keys})
           GROUP BY system HAVING sum(judged) < sum(retrieved) ORDER BY system""",
    ),
)  # fmt: skip
