"""The tables that `check` reads, with the rows that can be read of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rankql.core.base.column_names import says
from rankql.core.evaluation.checks.counters import Counters, count_rankings
from rankql.core.evaluation.checks.record import Evidence
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import leave_out_unjudged
from rankql.core.evaluation.query.ties import score_order
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.inputs import Beyond, Inputs
from rankql.core.tables.reader import count_values, fetch_frame
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, is_nan, text_number
from rankql.diagnostics.row_checks import is_numeric


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
                order = f"PARTITION BY {self.keys} ORDER BY {score_order('item')}"
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
        has_qrels = bool(self.qrels and self.qrels.rows)
        runs = [run for run in self.runs if (has_qrels and run.rows) or "rel" in run.roles]
        return [replace(run, qrels=self.qrels) for run in runs]

    @property
    def pairs(self) -> list[CheckedTable]:
        """The runs whose judgments are a separate table."""
        return [run for run in self.judged if run.qrels]

    @cached_property
    def evaluation(self) -> Evaluation:
        """The rows that can be read of runs and judgments, to evaluate."""

        def read(table: CheckedTable) -> Table:
            rows = table.clean
            if table is self.qrels:  # two grades of an item are not two items
                rows = f"(SELECT query, item, max(rel) AS rel FROM {rows} GROUP BY ALL)"
            cleaned = self.session.describe(table.label, rows)
            roles = {role: role for role in table.roles if role not in ("system", table.unused)}
            return replace(cleaned, roles=roles, empty=table.table.empty)

        runs = {name: read(run) for name, run in zip(self.inputs.runs, self.runs, strict=True)}
        system = None if self.inputs.system is None else "system"
        mixed = [role for role in ("query", "item") if self.inputs.as_text(role)]
        inputs = replace(
            self.inputs, runs=runs, qrels=read(self.qrels) if self.qrels else None, system=system,
            beyond=Beyond(), mixed=mixed,
        )  # fmt: skip
        return Evaluation(self.session, inputs, Conventions())

    @cached_property
    def evidence(self) -> Evidence:
        """What the checks of runs and judgments read."""
        if self.pairs:
            counters = count_rankings(self.evaluation)
        else:  # tables with their own grades
            counters = Counters(leave_out_unjudged(self.session, self.inputs)[1], [], [])
        return Evidence(self.evaluation, counters, k=self.k, original=self.inputs)

    def run_of(self, system: str | None) -> CheckedTable:
        """The table of a system."""
        return dict(zip(self.inputs.runs, self.runs, strict=True)).get(system, self.runs[0])

    @property
    def unmatched(self) -> list[CheckedTable]:
        """The runs whose judgments are a separate table, unless it has all of their queries."""
        overlaps = self.evidence.counters.queries if self.pairs else ()
        counted = {self.run_of(x.system).label for x in overlaps}
        lacking = {self.run_of(x.system).label for x in overlaps if x.judged < x.queries}
        return [run for run in self.pairs if run.label not in counted - lacking]

    @property
    def matched(self) -> list[CheckedTable]:
        """The runs with judged queries."""
        queries = self.evidence.counters.queries
        judged = [self.run_of(each.system).label for each in queries if each.judged]
        return [run for run in self.pairs if run.label in judged]

    def fetch(self, table: CheckedTable, sql: str) -> list[dict[str, Any]]:
        """Run a query that reads the steps of a table."""
        return fetch_frame(self.session, f"WITH {table.ctes(self.k)} {sql}").to_dicts()

    def _read_run(self, table: Table, name: str | None) -> CheckedTable:
        roles, unused = dict(table.roles), None
        if "pos" in roles:
            unused = "score" if "score" in roles else None
            table = replace(table, ascending=bool(unused) and says(roles["score"], "distance"))
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
        needed = [key for key in keys if key not in ids or key in table.id_roles]
        has_ids = " AND ".join(f"{key} IS NOT NULL" for key in needed)
        clean = f"(SELECT {', '.join([*keys, *values])} FROM {raw} WHERE {has_ids})"
        ranking = "system, query" if system else "query"
        rows, _ = count_values(table, ())
        return CheckedTable(table, rows, roles, raw, clean, ranking, unused)
