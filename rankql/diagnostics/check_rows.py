"""Checks of rankings and judgments, each in one SQL query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rankql import text
from rankql.diagnostics.check_data import CheckData, CheckedTable, is_numeric
from rankql.diagnostics.findings import Finding, as_examples

# Scores look reversed if relevant items rank this many standard errors below chance.
REVERSED_Z = -2.3


def check_rows(data: CheckData) -> Iterator[Finding]:
    """Run every check on the tables it applies to."""
    for check in CHECKS:
        for table in getattr(data, check.tables):
            if table.roles.keys() >= {*check.needs} and check.applies(table):
                yield from _find(data, table, check)


@dataclass(frozen=True)
class RowCheck:
    """A check in one query, which can read the steps of `CheckedTable.ctes`.

    `sql` selects the rows that are wrong. They become one finding, or one per system if the query
    selects {system}. A query with the column `count` returns findings instead of rows. It may have
    the columns `examples` and `level`, and columns that `problem` formats.
    """

    kind: str
    level: str
    # The tables to check: a property of CheckData.
    tables: str
    sql: str
    problem: str
    why: str
    # What a row stands for; '' if `problem` contains the number.
    noun: str = "query"
    needs: tuple[str, ...] = ()
    # The checked column, if any: findings are notes if evaluate ignores it.
    role: str = ""
    applies: Callable[[CheckedTable], bool] = lambda table: True


def _find(data: CheckData, table: CheckedTable, check: RowCheck) -> Iterator[Finding]:
    """The findings of a check in one table."""
    names = _names(data, table)
    sql = check.sql.format(**names)
    by_system = "{system}" in check.sql
    if " AS count" not in sql:
        system = "system, " if by_system else ""
        sql = f"""SELECT {system}count(*) AS count, min(example, 3) AS examples
                  FROM ({sql}) AS example GROUP BY ALL HAVING count(*) > 0 ORDER BY ALL"""
    for row in data.fetch(table, sql):
        count = int(row["count"])
        words = names | row | {"share": count / table.rows}
        message = check.problem.format(**words)
        message += f": {text.format_count(count, check.noun)}" if check.noun else ""
        level, why = row.get("level", check.level), check.why.format(**words)
        if check.role and check.role == table.unused:
            level, why = "note", table.unused_reason
        hidden = {"sort", "system"} if by_system else {"sort"}
        examples = as_examples(row.get("examples"), hidden)
        label = table.system_label(row.get("system"))
        yield Finding(check.kind, level, label, count, message, why, examples)


def _names(data: CheckData, table: CheckedTable) -> dict[str, Any]:
    """The values that the SQL and the sentences of a check can contain."""
    low = table.table.ascending
    return {
        **{f"{role}_column": column for role, column in table.roles.items()},
        "ranking_column": table.roles.get(table.ranking_role),
        "k": data.k,
        "after_k": data.k + 1,
        "rows": table.rows,
        "keys": table.keys,
        "system": table.system_column,
        "place": table.ranking_role,
        # `score` is negated if low scores are best. Examples show the original score.
        "sign": "0 - " if low else "",
        "order": "ascending" if low else "descending",
        "descending": low,
        "item": "item" if "item" in table.roles else "NULL AS item",
        "systems": "" if data.inputs.many else ", or pass system= if there are several systems",
    }


# Spellings of one id differ in surrounding spaces, case, and the code points of accents. Spellings
# of numbers also differ in leading zeros and a final .0.
_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_FLOAT = r"regexp_replace(normal, '^(-?[0-9]+)\.0+$', '\1')"
_PADDED = r"regexp_replace(normal, '^(-?)0+([0-9])', '\1\2')"
_SPELLINGS = (
    f"lower(trim(nfc_normalize(id), {_BLANKS}))",
    f"CASE WHEN contains(normal, '.') THEN {_FLOAT} ELSE normal END",
    f"CASE WHEN normal[:1] IN ('0', '-') THEN {_PADDED} ELSE normal END",
)


def _check_spelling(role: str) -> RowCheck:
    """A check for ids of the run that match ids of qrels except for spelling."""

    def has_text(run: CheckedTable) -> bool:
        return not all(t and is_numeric(t.table, t.roles[role]) for t in (run, run.qrels))

    def normalised(ids: str) -> str:
        sql = f"(SELECT CAST(id AS VARCHAR) AS id FROM {ids})"
        for normal in _SPELLINGS:
            sql = f"(SELECT id, {normal} AS normal FROM {sql})"
        return sql

    ids = [f"(SELECT DISTINCT {role} AS id FROM {table})" for table in ("rows", "qrels")]
    unmatched = f"(FROM {ids[0]} ANTI JOIN {ids[1]} USING (id))"
    sql = f"""SELECT r.id AS run, min(q.id) AS qrels
              FROM {normalised(unmatched)} AS r JOIN {normalised(ids[1])} AS q USING (normal)
              GROUP BY r.id"""
    return RowCheck(
        "id-spelling", "error", "pairs", sql, f"{role} is spelled differently in qrels",
        "These ids count as unjudged or missing. Write ids the same way in both tables: spaces, "
        "case, zeros, type.",
        noun="id", needs=(role,), applies=has_text,
    )  # fmt: skip


# u is that of Mann and Whitney: the pairs of items in which the relevant one scores higher.
_REVERSED = f"""
    SELECT system, count(*) AS count, avg(1 / first) AS forward, avg(1 / last) AS backward
    FROM (SELECT {{system}}, query, count(*) FILTER (hit) AS n,
              count(*) FILTER (hit IS DISTINCT FROM true) AS m,
              sum(place) FILTER (hit) - n * (n + 1) / 2 AS u,
              min(down) FILTER (hit) AS first, min(up) FILTER (hit) AS last
          FROM (SELECT *, rel >= 1 AS hit,
                    rank() OVER up
                        + (count(*) OVER (PARTITION BY {{keys}}, score) - 1) / 2 AS place,
                    row_number() OVER (PARTITION BY {{keys}} ORDER BY score DESC) AS down,
                    row_number() OVER up AS up
                FROM graded WHERE score IS NOT NULL
                WINDOW up AS (PARTITION BY {{keys}} ORDER BY score ASC))
          GROUP BY {{keys}})
    WHERE n > 0 AND m > 0 GROUP BY system
    HAVING sum(u - n * m / 2) < {REVERSED_Z} * sqrt(sum(n * m * (n + m + 1) / 12))
       AND backward > 1.5 * forward
    ORDER BY system"""

CHECKS = (
    _check_spelling("query"),
    _check_spelling("item"),
    RowCheck(
        "duplicate-items", "error", "runs",
        "SELECT {keys}, item, count(*) AS rows FROM rows GROUP BY ALL HAVING count(*) > 1",
        "item appears more than once in a ranking",
        "evaluate refuses metrics that read both. Keep one row for each item, or pass "
        "collapse='{item_column}'{systems}.",
        noun="item", needs=("item",),
    ),
    RowCheck(
        "duplicate-positions", "error", "runs",
        """SELECT {keys}, pos, count(*) AS rows FROM rows WHERE pos IS NOT NULL
           GROUP BY ALL HAVING count(*) > 1""",
        "several items at one position",
        "Metrics would exceed 1. Number the positions with row_number(){systems}.",
        noun="position", needs=("pos",), role="pos",
    ),
    *(RowCheck(
        kind, "error", "judgments",
        f"""SELECT query, item, min(rel) AS lowest, max(rel) AS highest, count(*) AS rows
            FROM rows WHERE rel IS NOT NULL GROUP BY query, item
            HAVING count(*) > 1 AND min(rel) {test} max(rel)""",
        problem, why, noun="item",
    ) for kind, test, problem, why in (
        ("duplicate-judgments", "=", "item is judged more than once",
         "The ideal ranking would count it twice. Keep one row for each item."),
        ("conflicting-judgments", "<", "item has different grades",
         "Keep one grade for each item: the latest, the highest or the mean."),
    )),
    RowCheck(
        "rank-score-order", "warning", "runs",
        """SELECT {keys}, unnest(arg_min(
               {{'item': item, 'pos': pos, 'score': {sign}score, 'score_above': {sign}above}}, pos))
           FROM (SELECT {keys}, {item}, pos, score,
                     lag(score) OVER (PARTITION BY {keys} ORDER BY pos, score DESC) AS above
                 FROM rows WHERE pos IS NOT NULL AND score IS NOT NULL)
           WHERE score > above GROUP BY {keys}""",
        "{score_column} is not in the order of {pos_column}",
        "{ranking_column} orders the ranking. To use the other column, pass score= or pos=. If low "
        "scores are best, pass descending=False.",
        needs=("pos", "score"),
    ),
    RowCheck(
        "position-gaps", "note", "runs",
        """SELECT {keys}, count(DISTINCT pos) AS positions, max(pos) AS last
           FROM rows WHERE pos BETWEEN 1 AND 9007199254740992 AND pos = floor(pos)
           GROUP BY {keys} HAVING max(pos) > count(DISTINCT pos)""",
        "positions are missing within a ranking",
        "Missing positions count as not relevant. That is right if their rows were left out on "
        "purpose.",
        needs=("pos",), applies=lambda run: run.unused != "pos",
    ),
    RowCheck(
        "no-overlap", "error", "unmatched",
        """SELECT {rows} AS count, min(example, 3) AS examples
           FROM (SELECT run, qrels
                 FROM (SELECT query AS run, row_number() OVER (ORDER BY query) AS n
                       FROM (SELECT DISTINCT query FROM rows))
                 JOIN (SELECT query AS qrels, row_number() OVER (ORDER BY query) AS n FROM judged)
                 USING (n)) AS example""",
        "no query of the run is judged",
        "There is nothing to evaluate. Compare the query ids of both tables.",
        noun="",
    ),
    RowCheck(
        "unjudged-queries", "warning", "matched",
        "SELECT DISTINCT {system}, query FROM rows ANTI JOIN judged USING (query)",
        "in the run but not judged",
        "These queries are left out of means. Are judgments missing?",
    ),
    RowCheck(
        "missing-queries", "warning", "matched",
        """SELECT * FROM (SELECT DISTINCT {system} FROM rows) CROSS JOIN judged
           EXCEPT SELECT DISTINCT {system}, query FROM rows""",
        "judged but not in the run",
        "Each of these queries counts as 0 in means. Change this with missing=.",
    ),
    RowCheck(
        "no-relevant", "warning", "graded",
        """SELECT {keys}, max(rel) AS highest FROM rows
           WHERE rel IS NOT NULL GROUP BY {keys} HAVING max(rel) < 1""",
        "no item has grade 1 or more",
        "Metrics such as nDCG, AP and recall are undefined for these queries, which are left out "
        "of means. Change this with undefined= or threshold=.",
    ),
    RowCheck(
        "ties-at-k", "warning", "runs",
        """SELECT {keys}, {sign}top[{k}] AS score
           FROM (SELECT {keys}, max(score, {after_k}) AS top FROM rows
                 WHERE score IS NOT NULL GROUP BY {keys})
           WHERE top[{k}] = top[{after_k}]""",
        "equal scores at positions {k} and {after_k}",
        "Item ids decide which of these items is in the top {k}. Pass ties='expected' to average "
        "over all orders.",
        applies=lambda run: run.scored,
    ),
    RowCheck(
        "tied-rows", "note", "runs",
        """SELECT sum(rows) AS count, min(example, 3) AS examples
           FROM (SELECT -count(*) AS sort, {keys}, {sign}score AS score, count(*) AS rows FROM rows
                 WHERE score IS NOT NULL GROUP BY {keys}, score HAVING count(*) > 1) AS example
           HAVING count(*) > 0""",
        "several items have the same score: {count:,} of {rows:,} rows ({share:.1%})",
        "The order of these items is arbitrary. ties= sets how it is resolved.",
        noun="", applies=lambda run: run.scored,
    ),
    RowCheck(
        "short-rankings", "note", "runs",
        """SELECT {keys}, count({place}) AS items FROM rows
           GROUP BY {keys} HAVING count({place}) < {k}""",
        "fewer than {k} items",
        "P@{k} still divides by {k}. Change this with precision_denominator=.",
    ),
    RowCheck(
        "reversed-scores", "warning", "judged", _REVERSED,
        "relevant items rank higher in reverse order: RR {backward:.3f}, not {forward:.3f}",
        "{score_column} is sorted in {order} order. If the best scores are at the other end, as "
        "for distances, pass descending={descending}.",
        noun="", applies=lambda run: run.scored,
    ),
    RowCheck(
        "judged-share", "note", "judged",
        """SELECT system, sum(retrieved) - sum(judged) AS count, sum(judged) AS judged,
               sum(retrieved) AS retrieved, sum(judged) / sum(retrieved) AS judged_part,
               min({{'sort': judged / retrieved, 'query': query, 'judged': judged,
                      'retrieved': retrieved}}, 3)
                   FILTER (judged < retrieved) AS examples,
               CASE WHEN sum(judged) < sum(retrieved) / 2 THEN 'warning' ELSE 'note' END AS level
           FROM (SELECT {system}, query, count(rel) AS judged, count(*) AS retrieved FROM top
                 GROUP BY {keys})
           GROUP BY system HAVING sum(judged) < sum(retrieved) ORDER BY system""",
        "judged items in the top {k}: {judged_part:.1%} ({judged:,} of {retrieved:,})",
        "Unjudged items count as not relevant, which can make a new system look worse than it is. "
        "Change this with unjudged=.",
        noun="",
    ),
)  # fmt: skip
