"""What is known about the data of an evaluation, each fact asked at most once and if it is needed.

The plan, the errors about the data and the notes read the same facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rankql.evaluation.counters import Counters
from rankql.evaluation.overlap import (
    find_judged_queries,
    note_unjudged,
    require_common_items,
    require_ranked_rows,
)
from rankql.evaluation.steps import FINGERPRINT, SqlRunner
from rankql.evaluation.top import SCALES
from rankql.evaluation.validation import (
    evaluation_errors,
    note_null_grades,
    note_queries_without_attributes,
    note_short_rankings,
    require_one_value_per_query,
    require_one_weight,
    require_unique_rows,
    validate_numbers,
)
from rankql.macros import quote
from rankql.registry.column_names import USERS, squash
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import count_values
from rankql.sources.private import in_gib
from rankql.sources.session import Session

# So many rows are enough to see whether users have several queries.
FIRST_ROWS = 20_000


class Facts:
    """The facts about the inputs of an evaluation.

    packs: whether rankings may be reduced to columns of polars; None: if it is faster.
    """

    def __init__(
        self, session: Session, inputs: Inputs, conventions: Conventions, packs: bool | None = None
    ) -> None:
        self.session, self.inputs, self.conventions = session, inputs, conventions
        self.run_sql = SqlRunner(session, inputs, conventions)
        self.packs = packs

    @cached_property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(count_values(self.session, table, [])[0] for table in self.inputs.tables)

    @cached_property
    def grade_scale(self) -> int:
        """The end of the smallest scale with all grades, if they are whole numbers from 0; or 0."""
        whole = all(table.integer("rel") for table in self.inputs.judging)
        fraction = "" if whole else " OR {rel} <> floor({rel})"
        for end in SCALES:
            if not self.has_grade(f"{{rel}} < 0 OR {{rel}} > {end}{fraction}"):
                return end
        return 0

    @cached_property
    def highest_grade(self) -> float:
        """The highest grade, or 0."""
        # The end of a scale is found without reading all rows.
        if (
            self.packs is not False
            and (end := self.grade_scale)
            and self.has_grade(f"{{rel}} = {end}")
        ):
            return float(end)
        ((highest,),) = self._rows(
            f"SELECT coalesce(max(rel), 0) FROM {self.inputs.graded} WHERE rel > 0"
        )
        return float(highest)

    def has_grade(self, condition: str) -> bool:
        """Whether the condition on {rel} holds for any grade."""
        # Compare the column itself: DuckDB then skips what its statistics rule out.
        return any(
            self.session.con.execute(
                f"SELECT 1 FROM {table.sql} "
                f"WHERE {condition.format(rel=table.integer('rel') or table.number('rel'))} LIMIT 1"
            ).fetchall()
            for table in self.inputs.judging
        )

    @cached_property
    def fingerprint(self) -> str:
        """The sum of the hashes of the judgments, in any order."""
        return str(self._rows(f"SELECT {FINGERPRINT} FROM qrels")[0][0])

    @cached_property
    def memory_gib(self) -> float:
        """The memory limit of DuckDB."""
        ((limit,),) = self._rows("SELECT current_setting('memory_limit')")
        return in_gib(limit)

    @cached_property
    def approximate_rankings(self) -> int:
        """About how many rankings there are."""
        sql = f"SELECT approx_count_distinct(({self.inputs.keys})) FROM run"
        return int(self._rows(sql)[0][0])

    def require_valid(
        self,
        counters: Counters,
        metrics: Sequence[str],
        unique: Sequence[tuple[str, str, str]],
        one_query: bool = False,
    ) -> list[str]:
        """Refuse what cannot be evaluated; return notes on what is on one side only.

        unique: what must be unique, by table, column and a condition on the rows. one_query: there
        is only one query, whose run may have no judged item.
        """
        run_sql, inputs = self.run_sql, self.inputs
        if counters.has_nan:
            for table in inputs.runs.values():
                validate_numbers(self.session, table)
        require_one_value_per_query(run_sql, inputs)
        require_one_weight(self.session, inputs)
        notes = [*self.session.notes, *inputs.notes]
        if not one_query:
            notes += require_ranked_rows(counters.ranked, inputs, self.conventions)
        notes += note_queries_without_attributes(run_sql, inputs)
        if inputs.qrels is not None:
            notes += note_null_grades(self.session, inputs.qrels)
            overlap = counters.queries
            judged = None if all(x.judged for x in overlap) else find_judged_queries(run_sql)
            notes += note_unjudged(overlap, judged)
            if not one_query:
                notes += require_common_items(run_sql, inputs, counters)
            notes += note_short_rankings(run_sql, inputs, self.conventions, metrics)
        require_unique_rows(run_sql, inputs, unique)
        return notes

    def note_users(self) -> list[str]:
        """A note if queries have the same session or user, by the first rows of a table."""
        for table in self.inputs.tables:
            taken = {*table.sources([*table.roles.values()])}
            free = [name for name in table.columns if name not in taken]
            for name in [x for x in free if squash(x) in USERS] if "query" in table.roles else ():
                rows = f"SELECT {table.key('query')} AS query, {quote(name)} AS u FROM {table.sql}"
                queries = f"""
                    SELECT any_value(u) AS u, count(DISTINCT u) AS users
                    FROM ({rows} LIMIT {FIRST_ROWS}) GROUP BY query"""
                repeated = (
                    "SELECT max(users) = 1 AND count(DISTINCT u) BETWEEN 2 AND count(u) - 1 "
                    f"FROM ({queries})"
                )
                if self.session.con.execute(repeated).fetchall()[0][0]:
                    return [
                        f"Queries with the same {name} are not independent: pass cluster={name!r} "
                        f"(CLI: --cluster {name}), which widens the intervals"
                    ]
        return []

    def _rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with evaluation_errors(self.session, self.inputs, self.conventions):
            return self.run_sql(sql)
