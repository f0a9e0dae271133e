"""Checks of rankings and judgments, each in one SQL query, and the tables that they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rankql import text
from rankql.diagnostics.findings import Finding, as_examples
from rankql.evaluation.evaluation import Evaluation
from rankql.evaluation.notes import RATINGS, RATINGS_PROBLEM
from rankql.evaluation.overlap import QueryOverlap, query_overlap
from rankql.evaluation.steps import BY_ITEM
from rankql.macros import literal, quote
from rankql.registry.column_names import is_distance
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs
from rankql.sources.reader import fetch, fetch_frame
from rankql.sources.session import Session
from rankql.sources.tables import Table, is_text, same_kind, text_number

# Scores look reversed if relevant items rank this many standard errors below chance.
REVERSED_Z = -2.3


def find_in_rows(data: CheckData) -> Iterator[Finding]:
    """Run every check on the tables it applies to."""
    for check in CHECKS:
        for table in getattr(data, check.tables):
            # Not of a column alone that evaluate ignores.
            reads = table.roles.keys() >= {*check.needs} and check.needs != (table.unused,)
            if reads and check.applies(table):
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
        words = names | row
        if check.kind == "id-spelling":
            ids = [example[name] for example in row["examples"] for name in ("run", "qrels")]
            words["repair"] = _repair(data, table.table, check.needs[0], ids)
        message = check.problem.format(**words)
        message += f": {text.format_count(count, check.noun)}" if check.noun else ""
        level, why = row.get("level", check.level), check.why.format(**words)
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
        "threshold": f"{data.threshold:g}",
        "keys": table.keys,
        "system": "system" if table.keys != "query" else "NULL AS system",
        # `score` is negated if low scores are best. Examples show the original score.
        "sign": "0 - " if low else "",
        "order": "ascending" if low else "descending",
        "descending": low,
        "item": "item" if "item" in table.roles else "NULL AS item",
        "systems": "" if data.inputs.many else ", or pass system= if there are several systems",
    }


_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
# How an id {0} is made like another, step by step, and where a step may change it. There
# is no backslash, because the SQL is copied from messages.
STEPS = {
    "trim({0})": "true",
    f"trim({{0}}, {_BLANKS})": "true",
    "nfc_normalize({0})": "true",
    "lower({0})": "true",
    "coalesce(nullif(regexp_extract({0}, '^(-?[0-9]+)[.]0+$', 1), ''), {0})": "contains({0}, '.')",
    "coalesce(nullif(regexp_extract({0}, '^0*([0-9].*)$', 1), ''), {0})": "{0}[:1] = '0'",
    "coalesce('-' || nullif(regexp_extract({0}, '^-0*([0-9].*)$', 1), ''), {0})": "{0}[:1] = '-'",
}


def _step(step: str, where: str, value: str) -> str:
    return f"CASE WHEN {where.format(value)} THEN {step.format(value)} ELSE {value} END"


def _repair(data: CheckData, run: Table, role: str, ids: Sequence[str]) -> str:
    """What to pass so that these ids of run and judgments match."""
    assert data.inputs.qrels
    tables = (run, data.inputs.qrels)
    columns = [table.roles[role] for table in tables]
    if any(table.unit == "ids" and table.roles[role] != role for table in tables):
        return "Write them the same way in both tables"
    values = [x if re.fullmatch(r"[A-Za-z_]\w*", x) else quote(x) for x in columns]
    if not all(is_text(table.columns[x]) for table, x in zip(tables, columns, strict=True)):
        values = [f"CAST({value} AS VARCHAR)" for value in values]
    for step, where in STEPS.items():
        sql = f"SELECT list_transform($1, lambda x: {_step(step, where, 'x')})"
        ((changed,),) = data.session.con.execute(sql, [ids]).fetchall()
        if changed != ids:
            values = [step.format(value) for value in values]
        ids = changed
    return f'Pass {role}="{values[0]}"' if values[0] == values[1] else f"Pass {role}={values!r}"


def _check_spelling(role: str) -> RowCheck:
    """A check for ids of the run that match ids of qrels except for spelling."""

    def has_text(run: CheckedTable) -> bool:
        return not all(t and is_numeric(t.table, t.roles[role]) for t in (run, run.qrels))

    def normalised(ids: str) -> str:
        sql = f"(SELECT CAST(id AS VARCHAR) AS id, CAST(id AS VARCHAR) AS x FROM {ids})"
        for step, where in STEPS.items():
            sql = f"(SELECT * REPLACE ({_step(step, where, 'x')} AS x) FROM {sql})"
        return sql

    ids = [f"(SELECT DISTINCT {role} AS id FROM {table})" for table in ("rows", "qrels")]
    unmatched = f"(FROM {ids[0]} ANTI JOIN {ids[1]} USING (id))"
    sql = f"""SELECT r.id AS run, min(q.id) AS qrels
              FROM {normalised(unmatched)} AS r JOIN {normalised(ids[1])} AS q USING (x)
              GROUP BY r.id"""
    return RowCheck(
        "id-spelling", "error", "pairs", sql, f"{role} is spelled differently in qrels",
        "These ids count as unjudged or missing. {repair}.",
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
        noun="position", needs=("pos",),
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
        "missing-queries", "warning", "matched",
        """SELECT * FROM (SELECT DISTINCT {system} FROM rows) CROSS JOIN judged
           EXCEPT SELECT DISTINCT {system}, query FROM rows""",
        "judged but not in the run",
        "Each of these queries counts as 0 in means. Change this with missing=.",
    ),
    RowCheck(
        "no-relevant", "warning", "graded",
        """SELECT {keys}, max(rel) AS highest FROM rows
           WHERE rel IS NOT NULL GROUP BY {keys} HAVING max(rel) < {threshold}""",
        "no item has grade {threshold} or more",
        "Metrics such as nDCG, AP and recall are undefined for these queries, which are left out "
        "of means. Change this with undefined= or threshold=.",
    ),
    RowCheck(
        "ratings", "warning", "graded",
        RATINGS.replace("{threshold:g}", "{threshold}").replace("{rows}", "rows"),
        RATINGS_PROBLEM.replace("{threshold:g}", "{threshold}"),
        "Metrics of relevant items, such as P and RR, are near 1. For ratings pass threshold=, "
        "often 4.",
        noun="", applies=lambda table: not table.table.is_assumed("rel"),
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
        noun="", applies=lambda run: not (run.qrels and "split" in run.qrels.table.context),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class CheckedTable:
    """A run or the judgments as a table for the checks."""

    table: Table
    rows: int
    # The columns by role, including one that evaluate ignores, such as a rank next to scores.
    roles: dict[str, str]
    # SQL of all rows, with the original values in raw_<role>; and of rows with ids, NaN as NULL.
    raw: str
    clean: str
    keys: str = "query"
    # The role that evaluate ignores.
    unused: str | None = None
    # Of a run: the judgments, if there are any.
    qrels: CheckedTable | None = None

    @property
    def label(self) -> str:
        """The name of the table in reports."""
        return self.table.label

    @property
    def scored(self) -> bool:
        """Whether scores order the ranking."""
        return "score" in self.roles and self.unused != "score"

    @property
    def ranking_role(self) -> str:
        """The role of the column that orders the ranking. NULL there means not retrieved."""
        return "score" if self.scored else "pos"

    @property
    def columns(self) -> dict[str, str]:
        """The columns by role, and the order of the scores if it is ascending."""
        return self.roles | ({"order": "ascending"} if self.table.ascending else {})

    def system_label(self, system: str | None) -> str:
        """The label of the table, or of one of the systems in it."""
        return self.label if system is None or self.label != "run" else f"run, system {system!r}"

    def ctes(self, k: int) -> str:
        """The steps (CTEs) that the SQL of checks can read.

        `rows` is the table, `qrels` the judgments, `judged` the judged queries, `graded` the rows
        of judged queries with grades, and `top` the first k of these in each ranking.
        """
        steps = {"rows": self.clean}
        graded, judged = "(FROM rows)", "rows"
        if self.qrels:
            steps["qrels"] = self.qrels.clean
            judged = "qrels"
            graded = """(FROM (FROM rows SEMI JOIN judged USING (query)) LEFT JOIN
                (SELECT query, item, max(rel) AS rel FROM qrels GROUP BY query, item)
                USING (query, item))"""
        if self.qrels or "rel" in self.roles:
            steps["judged"] = f"(SELECT DISTINCT query FROM {judged} WHERE rel IS NOT NULL)"
            steps["graded"] = graded
            if "pos" in self.roles:
                steps["top"] = f"(FROM graded WHERE pos <= {k})"
            if self.scored:
                order = f"PARTITION BY {self.keys} ORDER BY score DESC, {BY_ITEM}"
                steps["top"] = f"""(FROM graded WHERE score IS NOT NULL
                    QUALIFY row_number() OVER ({order}) <= {k})"""
        return ", ".join(f"{name} AS NOT MATERIALIZED {sql}" for name, sql in steps.items())


@dataclass(frozen=True)
class CheckData:
    """The tables that the checks read, and the cutoff."""

    session: Session
    inputs: Inputs
    k: int
    # Items are relevant from this grade.
    threshold: float = 1

    @cached_property
    def qrels(self) -> CheckedTable | None:
        """The judgments, if they are a separate table."""
        if not self.inputs.qrels:
            return None
        roles = {role: self.inputs.qrels.roles[role] for role in ("query", "item", "rel")}
        return self._read(self.inputs.qrels, roles)

    @cached_property
    def runs(self) -> list[CheckedTable]:
        """The runs."""
        return [self._read_run(table, name) for name, table in self.inputs.runs.items()]

    @property
    def judgments(self) -> list[CheckedTable]:
        """The judgments as a list of one table, or an empty list."""
        return [self.qrels] if self.qrels else []

    @property
    def tables(self) -> list[CheckedTable]:
        """The runs and the judgments."""
        return [*self.runs, *self.judgments]

    @property
    def graded(self) -> list[CheckedTable]:
        """The tables with grades."""
        return [table for table in self.tables if "rel" in table.roles]

    @cached_property
    def judged(self) -> list[CheckedTable]:
        """The runs with judgments, in a separate table or in the run."""
        return [
            replace(run, qrels=self.qrels)
            for run in self.runs
            if (self.qrels and self.qrels.rows and run.rows) or "rel" in run.roles
        ]

    @property
    def pairs(self) -> list[CheckedTable]:
        """The runs whose judgments are a separate table."""
        return [run for run in self.judged if run.qrels]

    @cached_property
    def evaluation(self) -> Evaluation:
        """The rows that can be read of runs and judgments, to evaluate."""

        def read(table: CheckedTable) -> Table:
            cleaned = self.session.describe(table.label, table.clean)
            roles = {role: role for role in table.roles if role not in ("system", table.unused)}
            return replace(cleaned, roles=roles)

        runs = {name: read(run) for name, run in zip(self.inputs.runs, self.runs, strict=True)}
        system = None if self.inputs.system is None else "system"
        inputs = replace(
            self.inputs, runs=runs, qrels=read(self.qrels) if self.qrels else None, system=system,
            train=None, catalogue=None,
        )  # fmt: skip
        return Evaluation(self.session, inputs, Conventions())

    @cached_property
    def overlaps(self) -> list[QueryOverlap]:
        """The judged queries of each system, if judgments are a separate table."""
        if not self.pairs:
            return []
        names = [*self.inputs.runs]
        overlaps = query_overlap(self.evaluation)
        return sorted(overlaps, key=lambda x: names.index(x.system) if x.system in names else 0)

    def run_of(self, system: str | None) -> CheckedTable:
        """The table of a system."""
        return dict(zip(self.inputs.runs, self.runs, strict=True)).get(system, self.runs[0])

    @property
    def matched(self) -> list[CheckedTable]:
        """The runs with judged queries."""
        judged = [self.run_of(each.system).label for each in self.overlaps if each.judged]
        return [run for run in self.pairs if run.label in judged]

    def fetch(self, table: CheckedTable, sql: str) -> list[dict[str, Any]]:
        """Run a query that reads the steps of a table."""
        return fetch_frame(self.session, f"WITH {table.ctes(self.k)} {sql}").to_dicts()

    def _read_run(self, table: Table, name: str | None) -> CheckedTable:
        roles, unused = dict(table.roles), None
        if "pos" in roles:
            unused = "score" if "score" in roles else None
            table = replace(table, ascending=bool(unused) and is_distance(roles["score"]))
        elif ranks := table.known("pos"):
            roles["pos"], unused = ranks[0], "pos"
        system = ""
        if self.inputs.many:
            column = f"CAST({quote(str(self.inputs.system))} AS VARCHAR)"
            system = f"{literal(name) + table.exact if name else column} AS system"
        if self.inputs.system:
            roles["system"] = self.inputs.system
        return self._read(table, roles, unused, system)

    def _read(
        self, table: Table, roles: dict[str, str], unused: str | None = None, system: str = ""
    ) -> CheckedTable:
        ids = [role for role in ("query", "item") if role in roles]
        numbers = [role for role in ("score", "pos", "rel") if role in roles]
        fields = [
            *([system] if system else []),
            *(f"{table.key(role, self.inputs.as_text(role))} AS {role}" for role in ids),
            *(f"{quote(roles[role])} AS raw_{role}" for role in numbers),
        ]
        doubles = list[str]()
        for role in numbers:  # NULL if the value is not a number
            numeric = is_numeric(table, roles[role])
            value = f"CAST(raw_{role} AS DOUBLE)" if numeric else text_number(f"raw_{role}")
            doubles.append(f"{table.signed(role, value)} AS {role}")
        raw = f"(SELECT *, {', '.join(doubles)} FROM (SELECT {', '.join(fields)} FROM {table.sql}))"
        keys = ["system", *ids] if system else ids
        values = [f"CASE WHEN NOT {is_nan(role)} THEN {role} END AS {role}" for role in numbers]
        has_ids = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        clean = f"(SELECT {', '.join([*keys, *values])} FROM {raw} WHERE {has_ids})"
        ((rows,),) = fetch(self.session, f"SELECT count(*) FROM {table.sql}")
        ranking = "system, query" if system else "query"
        return CheckedTable(table, rows, roles, raw, clean, ranking, unused)


def is_nan(column: str) -> str:
    """The condition that a number is NaN.

    isnan() of DuckDB 2.0 misses NaN in Parquet files, whose statistics leave it out (duckdb issue
    25521).
    """
    return f"(NOT isfinite({column}) AND NOT isinf({column}))"


def is_numeric(table: Table, *columns: str) -> bool:
    """Whether the columns have numeric types."""
    return same_kind([*(table.columns[column] for column in columns), "DOUBLE"])
