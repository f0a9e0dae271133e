"""The SQL of an evaluation in another database: its sources, its rankings, its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankql.engines.databases import Database, RemoteTable, Rows
from rankql.engines.dialects import translate
from rankql.engines.remote_tables import number_column
from rankql.evaluation.ctes import number_positions, original_score, ranks_before_join, score_order
from rankql.evaluation.metric_columns import gain_sql, last_position, mask_undefined, metric_calls
from rankql.evaluation.query import Query
from rankql.macros import MISSING, quote
from rankql.registry.conventions import Conventions
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.tables import Table, same_kind


@dataclass(frozen=True)
class RemoteQueries:
    """The queries of an evaluation in a database."""

    database: Database
    tables: Mapping[str, RemoteTable]
    inputs: Inputs
    conventions: Conventions
    metrics: Sequence[Metric]
    # What DuckDB would run.
    query: Query

    def sql(self) -> str:
        """The query that evaluates: the rankings, the metrics in steps, what is said of a query."""
        inputs, keys = self.inputs, self.inputs.keys
        calls, _ = metric_calls(self.metrics, self.conventions, _gain_sql)
        calls |= {m.name: m.expression for m in self.metrics if m.record is None}
        values = mask_undefined(calls, self.conventions).values()
        steps = self._source_steps() | self._ranking_steps()
        fields = [keys, *(f"{value} AS m{i}" for i, value in enumerate(values))]
        source, last, missing, repeated = "ranked", "found", "0", "0"
        if inputs.qrels is not None:
            source = f"queries LEFT JOIN ranked USING ({keys})"
            place = "CASE WHEN rel > 0 THEN pos END"
            fields += [
                f"count({place}) AS n, count(DISTINCT {place}) AS places, count(rel) AS rels"
            ]
            last += f" JOIN queries USING ({keys}) LEFT JOIN shown USING ({keys})"
            missing = "CASE WHEN retrieved IS NULL THEN 1 ELSE 0 END"
            wrong = "found.rels > queries.judged OR found.n > found.places"
            repeated = f"CASE WHEN {wrong} THEN 1 ELSE 0 END"
        query = f"SELECT {', '.join(fields)} FROM {source} GROUP BY {keys}"
        steps["found"] = translate(query, self.database.dialect)
        for home in ("qrels", "run", "attributes"):
            if inputs.attributes_in(home):
                columns = map(inputs.attribute, inputs.attributes_in(home))
                least = ", ".join(f"min({column}) AS {column}" for column in columns)
                steps[f"about_{home}"] = f"SELECT query, {least} FROM {home} GROUP BY query"
                last += f" LEFT JOIN about_{home} USING (query)"
        order = [f"found.{key}" for key in keys.split(", ")]
        fields = [*order[:-1], f"found.query AS {quote(inputs.query)}"]
        fields += [
            f"about_{inputs.homes[name]}.{inputs.attribute(name)} AS {quote(name)}"
            for name in inputs.by
        ]
        fields += [f"{missing} AS {MISSING}"]
        fields += [
            f"CAST(found.m{i} AS DOUBLE PRECISION) AS {quote(name)}" for i, name in enumerate(calls)
        ]
        listed = ",\n    ".join([*fields, f"{repeated} AS repeated"])
        return self._add_steps(steps, f"SELECT {listed}\nFROM {last}\nORDER BY {', '.join(order)}")

    def ask_sources(self, sql: str) -> Rows:
        """The rows of a query of the runs, the judgments and the attributes."""
        return self.database.ask(self._add_steps(self._source_steps(), sql))

    def _add_steps(self, steps: Mapping[str, str], last: str) -> str:
        """A query with its steps before it."""
        made = (f"{name} AS {self.database.steps} (\n{sql}\n)" for name, sql in steps.items())
        return f"WITH {', '.join(made)}\n{last}"

    def _source_steps(self) -> dict[str, str]:
        """The runs, the judgments and the attributes in columns of one name."""
        inputs, text = self.inputs, self.database.text
        runs = []
        for name, table in inputs.runs.items():
            system = self.database.literal(name or "")
            if inputs.system:
                system = quote(table.actual_name(inputs.system))
            fields = [f"{text.format(system)} AS system"] if inputs.many else []
            fields += [
                f"{self._number(table, role)} AS {role}"
                for role in ("pos", "score", "rel")
                if role in table.roles
            ]
            runs.append(self._select_columns(table, fields))
        steps = {"run": "\nUNION ALL\n".join(runs)}
        if inputs.qrels is not None:
            grade = self._number(inputs.qrels, "rel")
            selected = self._select_columns(inputs.qrels, [f"{grade} AS rel"])
            steps["qrels"] = f"{selected} WHERE {grade} IS NOT NULL"
        if inputs.attributes is not None:
            steps["attributes"] = self._select_columns(inputs.attributes, [])
        return steps

    def _select_columns(self, table: Table, fields: Sequence[str]) -> str:
        """The ids, these fields and the attributes of a table."""
        keys = [
            f"{self._comparable(table, table.roles[role], self.inputs.as_text(role))} AS {role}"
            for role in ("query", "item")
            if role in table.roles
        ]
        about = self.inputs.attributes_in(self.inputs.home(table))
        for name in about:
            text = not same_kind(self.inputs.kinds(name))
            value = self._comparable(table, table.actual_name(name), text)
            keys.append(f"{value} AS {self.inputs.attribute(name)}")
        return f"SELECT {', '.join([*fields, *keys])} FROM {self.tables[table.label].sql}"

    def _comparable(self, table: Table, name: str, always: bool = False) -> str:
        """A column; text so that its bytes count, and what has no order as a number."""
        kind = "VARCHAR" if always else table.columns[name]
        if kind == "VARCHAR":
            return self.database.text.format(quote(name))
        # In SQLite some of the numbers may be whole.
        cast = {"BOOLEAN": "INTEGER", "DOUBLE": "DOUBLE PRECISION"}.get(kind)
        return f"CAST({quote(name)} AS {cast})" if cast else quote(name)

    def _number(self, table: Table, role: str) -> str:
        """The number in a column, as the conventions have it."""
        value = number_column(table, role)
        if role == "rel" and self.conventions.negative == "unjudged":
            return f"CASE WHEN {value} >= 0 THEN {value} END"
        if role == "score" and self.conventions.float32:
            # What is too large for 32 bits is infinite, and what is too small is 0.
            return (
                f"CASE WHEN abs({value}) >= 3.4028235677973366e38 "
                f"THEN {value} * CAST('Infinity' AS DOUBLE PRECISION) "
                f"WHEN abs({value}) > 7.006492321624085e-46 "
                f"THEN CAST(CAST({value} AS REAL) AS DOUBLE PRECISION) ELSE 0 * {value} END"
            )
        return value

    def _ranking_steps(self) -> dict[str, str]:
        """The rows that count, with their grades and positions."""
        inputs, conventions, keys = self.inputs, self.conventions, self.inputs.keys
        steps: dict[str, str] = {}
        source, judged, run = "run", "qrels", "run"
        if inputs.many and inputs.qrels is not None:
            steps["systems"] = "SELECT DISTINCT system FROM run"
            judged = "(SELECT * FROM qrels CROSS JOIN systems) AS judged"
        by_item = f"{self.database.text.format('item')} DESC"
        place, order = "pos", "pos ASC"
        if inputs.scored:
            place, order = "score", score_order(conventions.ties, by_item)
        pos = "pos"
        if inputs.scored or conventions.unjudged == "remove":
            pos = number_positions(keys, place, order)
        scores = ["score"] if inputs.every("score") else []
        if inputs.scored and ranks_before_join(inputs, conventions):
            # Before the join, which few rows are left for.
            theirs = "WHERE query IN (SELECT query FROM qrels)"
            steps["placed"] = f"SELECT {keys}, item, score, {pos} FROM run {theirs}"
            k = last_position(self.metrics, conventions)
            least = "pos IS NOT NULL" if k is None else f"pos <= {k}"
            steps["top"] = f"SELECT * FROM placed WHERE {least}"
            run, place, pos = "top", "pos", "pos"
        if inputs.qrels is not None:
            steps |= self._query_steps()
            source = f"{judged} LEFT JOIN {run} USING ({keys}, item)"
            if self.query.rows == "all":
                places = [*scores, *(["pos"] if place == "pos" else [])]
                source = self.database.full_join(judged, run, keys, places)
        items = ["item"] if inputs.every("item") else []
        scores = [original_score(inputs)] if scores else []
        steps["ranked"] = f"SELECT {', '.join([keys, *items, 'rel', *scores, pos])} FROM {source}"
        if conventions.unjudged == "remove":
            steps["ranked"] += " WHERE rel IS NOT NULL"
        elif self.query.rows == "gain":
            steps["ranked"] += " WHERE rel > 0"
        return steps

    def _query_steps(self) -> dict[str, str]:
        """Every judged query, for every system, and how many of its judgments count; which of them
        the run has."""
        counted = "CASE WHEN rel > 0 THEN 1 END" if self.query.rows == "gain" else "*"
        judged = f"SELECT query, count({counted}) AS judged FROM qrels GROUP BY query"
        if self.inputs.many:
            judged = (
                f"SELECT system, query, judged FROM ({judged}) AS each_query CROSS JOIN systems"
            )
        shown = f"SELECT DISTINCT {self.inputs.keys}, 1 AS retrieved FROM run"
        return {"queries": judged, "shown": shown}


def _gain_sql(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row; that every grade has one, is known."""
    if isinstance(gain, Mapping):
        return f"CASE rel {' '.join(f'WHEN {grade} THEN {v}' for grade, v in gain.items())} END"
    if gain == "binary":
        return f"CASE WHEN rel >= {threshold} THEN 1.0 WHEN rel IS NOT NULL THEN 0.0 END"
    return gain_sql(gain, threshold)
