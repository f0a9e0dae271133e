"""`evaluate` in another database, of which the tables never leave it.

DuckDB recognises the columns, checks the options and words the errors, from the types of the
columns and a few extreme values of each; the values per query are one query in window form of the
database's own SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from rankql.engines import partitions as parts
from rankql.engines.databases import ATTRIBUTES, IDS, NUMERIC, Database, Rows, Source, opened
from rankql.engines.dialects import translate
from rankql.errors import RankqlError
from rankql.evaluation.arguments import EvaluateArguments
from rankql.evaluation.columns import require_ids, validate_numbers
from rankql.evaluation.ctes import original_score, ranks_before_join, score_order
from rankql.evaluation.metric_columns import gain_sql, last_position, mask_undefined, metric_calls
from rankql.evaluation.overlap import (
    no_judged_query_message,
    require_common_items,
    require_ranked_rows,
    run_label,
    unjudged_queries_note,
)
from rankql.evaluation.planning import pending_result, resolve_conventions
from rankql.evaluation.query import Query, build_query
from rankql.evaluation.result import Result
from rankql.evaluation.validation import (
    duplicates_message,
    evaluation_errors,
    find_duplicates,
    require_consistent_grades,
    require_one_value_per_query,
)
from rankql.macros import MISSING, quoted
from rankql.registry.conventions import Conventions, choose
from rankql.registry.parse import Metric, parse
from rankql.sources.inputs import Inputs
from rankql.sources.run import execute
from rankql.sources.session import duckdb_errors, open_session
from rankql.sources.tables import Table, same_kind


def evaluate_remotely(arguments: EvaluateArguments) -> Result:
    """The result of `evaluate`, worked out in the database of the connection.

    >>> import sqlite3
    >>> con = sqlite3.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE t AS SELECT 'a' AS query, 'x' AS item, 2 AS pos, 1 AS rel")
    >>> evaluate_remotely(EvaluateArguments("t", None, "RR", con=con)).per_query.row(0)
    ('a', 0.5)
    """
    run, groups = arguments.run, arguments.groupings
    runs = dict(run) if isinstance(run, Mapping) else {None: run}
    chosen = choose(arguments.profile, arguments.options)
    wanted = parse(arguments.metrics)
    task = parts.Task(
        [*runs], arguments.columns, arguments.system, (), groups, wanted, chosen,
        descending=arguments.descending,
    )  # fmt: skip
    tables = parts.labelled(runs, arguments.qrels, arguments.attributes)
    with opened(arguments.con) as database, open_session(None) as here:
        found = {label: database.table(data, label) for label, data in tables.items()}
        schemas = {label: _read(source) for label, source in found.items()}
        there = task.opened(here, {label: s.empty_table() for label, s in schemas.items()})
        _known_kinds(there, found, database)
        sample = {}
        for table in there.tables:
            values = _extremes(database, there, table, found[table.label].sql, chosen)
            sample[table.label] = _sample(there, table, schemas[table.label], values)
        given = task.opened(here, sample)
        with duckdb_errors():
            for table in given.tables:
                validate_numbers(here, table, ("rel", "pos", "score"))
        chosen, wanted = resolve_conventions(here, given, task.metrics, chosen)
        _refuse(database, chosen)
        built = build_query(given, wanted, chosen)
        with evaluation_errors(here, given, chosen):
            shape = execute(here, built.sql, built.checked).pl().schema
        work = _Work(database, found, given, chosen, wanted, built)
        built = replace(built, sql=work.sql())
        result = pending_result(
            here, given, built, chosen, groups, arguments.interval, arguments.confidence
        )
        result.notes = work.inspected()
        result.rows = work.values(built.sql, shape)
    result.check()
    if arguments.output:
        result.write(arguments.output)
    return result


def _read(source: Source) -> pa.Schema:
    """The columns as DuckDB is told of them."""
    fields = ((n, pa.float64() if k == NUMERIC else k) for n, k in source.columns.items())
    return pa.schema(fields)


def _known_kinds(given: Inputs, found: Mapping[str, Source], database: Database) -> None:
    """Refuse ids and attributes of which it is not known how they compare or look."""
    for table in given.tables:
        columns = found[table.label].columns
        attributes = [table.actual_name(name) for name in given.attributes_in(given.home(table))]
        for names, known, wrong in (
            (given.ids(table), IDS, "is neither text nor of whole numbers"),
            (attributes, ATTRIBUTES, "is of a type that no slices are made of"),
        ):
            for name in names:
                if columns[name] not in known:
                    raise RankqlError(
                        f"{table.label}: {name} {wrong} in {database.name}; cast it in a view"
                    )
    for name in given.by:
        kinds = dict.fromkeys(given.kinds(name))
        if not (
            same_kind([*kinds]) or kinds.keys() <= {"VARCHAR", "BIGINT", "INTEGER", "SMALLINT"}
        ):
            raise RankqlError(f"by: {name} is {', '.join(kinds)} in the runs; cast it in a view")


def _gained(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row; that every grade has one, is known."""
    if isinstance(gain, Mapping):
        return f"CASE rel {' '.join(f'WHEN {grade} THEN {v}' for grade, v in gain.items())} END"
    if gain == "binary":
        return f"CASE WHEN rel >= {threshold} THEN 1.0 WHEN rel IS NOT NULL THEN 0.0 END"
    return gain_sql(gain, threshold)


def _refuse(database: Database, chosen: Conventions) -> None:
    """Refuse what one query in window form does not say."""
    if chosen.ties == "order":
        where = f"{database.name}, where rows have no order"
        raise RankqlError(f"ties='order' has no meaning in {where}")
    for name, value in (("ties", "expected"), ("unjudged", "bounds")):
        if getattr(chosen, name) == value:
            raise RankqlError(f"{name}={value!r} is not available in {database.name}")
    if chosen.float32 and database.dialect == "sqlite":
        raise RankqlError("SQLite has no numbers of 32 bits: give float32=False")


def _extremes(
    database: Database, given: Inputs, table: Table, sql: str, chosen: Conventions
) -> list[tuple[str, float]]:
    """Values of columns, one of them bad if any is; refused is a table in which ids are NULL."""
    asked: list[tuple[str, str]] = []
    for role in ("rel", "pos", "score"):
        if role in table.roles:
            value = _number(table, role)
            asked += [(role, f"min({value})"), (role, f"max({value})")]  # the highest is NaN
            if role == "pos":
                asked += [(role, f"max(CASE WHEN {value} <> floor({value}) THEN {value} END)")]
            if role == "rel" and isinstance(chosen.gain, Mapping):
                known = ", ".join(map(str, chosen.gain))
                asked += [(role, f"max(CASE WHEN {value} NOT IN ({known}) THEN {value} END)")]
    ids = given.ids(table)
    counts = [f"count({quoted(name)})" for name in ids]
    columns = ", ".join(["count(*)", *counts, *(sql for _, sql in asked)])
    ((total, *found),) = database.ask(f"SELECT {columns} FROM {sql}")
    require_ids(table.label, total, dict(zip(ids, found, strict=False)))
    pairs = zip(asked, found[len(ids) :], strict=True)
    return [(table.roles[role], value) for (role, _), value in pairs if value is not None]


def _sample(
    given: Inputs, table: Table, schema: pa.Schema, values: Sequence[tuple[str, float]]
) -> pa.Table:
    """A table of these columns, each value in a row with an id of its own."""
    ids = given.ids(table)
    columns = []
    for field in schema:
        if field.name in ids:
            cells = pa.array(range(len(values)), pa.int64())
        else:
            cells = pa.array([v if name == field.name else None for name, v in values])
        columns.append(cells.cast(field.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)


def _number(table: Table, role: str) -> str:
    """The column of a role as DOUBLE."""
    table.number(role)  # or it says what it is instead
    column = quoted(table.roles[role])
    if table.columns[table.roles[role]] == "BOOLEAN":
        column = f"CAST({column} AS INTEGER)"
    return table.signed(role, f"CAST({column} AS DOUBLE PRECISION)")


@dataclass(frozen=True)
class _Work:
    """An evaluation in a database: its queries, and what they say."""

    database: Database
    found: Mapping[str, Source]
    given: Inputs
    chosen: Conventions
    metrics: Sequence[Metric]
    # What DuckDB would run.
    built: Query

    def sql(self) -> str:
        """The query that evaluates: the rankings, the metrics in steps, what is said of a query."""
        given, keys = self.given, self.given.keys
        calls, _ = metric_calls(self.metrics, self.chosen, _gained)
        calls |= {m.name: m.expression for m in self.metrics if m.measure is None}
        values = mask_undefined(calls, self.chosen).values()
        steps = self.sources() | self.rankings()
        asked = [keys, *(f"{value} AS m{i}" for i, value in enumerate(values))]
        source, last, missing, repeated = "ranked", "found", "0", "0"
        if given.qrels is not None:
            source = f"queries LEFT JOIN ranked USING ({keys})"
            place = "CASE WHEN rel > 0 THEN pos END"
            asked += [f"count({place}) AS n, count(DISTINCT {place}) AS places, count(rel) AS rels"]
            last += f" JOIN queries USING ({keys}) LEFT JOIN shown USING ({keys})"
            missing = "CASE WHEN retrieved IS NULL THEN 1 ELSE 0 END"
            wrong = "found.rels > queries.judged OR found.n > found.places"
            repeated = f"CASE WHEN {wrong} THEN 1 ELSE 0 END"
        query = f"SELECT {', '.join(asked)} FROM {source} GROUP BY {keys}"
        steps["found"] = translate(query, self.database.dialect)
        for home in ("qrels", "run", "attributes"):
            if given.attributes_in(home):
                columns = map(given.attribute, given.attributes_in(home))
                least = ", ".join(f"min({column}) AS {column}" for column in columns)
                steps[f"about_{home}"] = f"SELECT query, {least} FROM {home} GROUP BY query"
                last += f" LEFT JOIN about_{home} USING (query)"
        order = [f"found.{key}" for key in keys.split(", ")]
        fields = [*order[:-1], f"found.query AS {quoted(given.query)}"]
        fields += [
            f"about_{given.homes[name]}.{given.attribute(name)} AS {quoted(name)}"
            for name in given.by
        ]
        fields += [f"{missing} AS {MISSING}"]
        fields += [
            f"CAST(found.m{i} AS DOUBLE PRECISION) AS {quoted(name)}"
            for i, name in enumerate(calls)
        ]
        listed = ",\n    ".join([*fields, f"{repeated} AS repeated"])
        return self._with(steps, f"SELECT {listed}\nFROM {last}\nORDER BY {', '.join(order)}")

    def values(self, sql: str, shape: Mapping[str, pl.DataType]) -> pl.DataFrame:
        """What the query finds, in the columns that DuckDB would return."""
        rows = self.database.ask(sql)
        if any(row[-1] for row in rows):
            raise RankqlError(duplicates_message(self._of_sources, self.given))
        columns = [*zip(*rows, strict=True)] or [()] * (len(shape) + 1)
        made = zip(shape.items(), columns[:-1], strict=True)
        return pl.DataFrame([pl.Series(name, cells).cast(kind) for (name, kind), cells in made])

    def inspected(self) -> list[str]:
        """What is worth knowing of queries on one side only; refuse what cannot be evaluated."""
        require_one_value_per_query(self._of_sources, self.given)
        found = require_ranked_rows(self._of_sources, self.given)
        if self.given.qrels is not None:
            found += [*self._one_sided(), *require_common_items(self._of_sources, self.given)]
            require_consistent_grades(self._of_sources)
        for source, column, where in self.built.unique_columns:
            if twice := find_duplicates(self._of_sources, self.given, source, column, where):
                raise RankqlError(twice)
        return found

    def _one_sided(self) -> Iterator[str]:
        """Which queries of the run are not judged; refuse a run of which none is."""
        keys, system = self.given.keys, "system" if self.given.many else "NULL"
        sql = f"""SELECT {system}, count(*), count(judged)
            FROM (SELECT DISTINCT {keys} FROM run) AS shown
            LEFT JOIN (SELECT DISTINCT query, 1 AS judged FROM qrels) AS theirs USING (query)
            {f"GROUP BY {system} ORDER BY {system}" if self.given.many else ""}"""
        some = "SELECT DISTINCT query FROM {} {} ORDER BY query LIMIT 3"
        for name, shown, both in self._of_sources(sql):
            if shown == both:
                continue
            where = f"AND system = {self.database.literal(name)}" if self.given.many else ""
            unjudged = f"WHERE query NOT IN (SELECT query FROM qrels) {where}"
            theirs = [key for (key,) in self._of_sources(some.format("run", unjudged))]
            if not both:
                ours = [key for (key,) in self._of_sources(some.format("qrels", ""))]
                raise RankqlError(no_judged_query_message(run_label(name), theirs, ours))
            yield unjudged_queries_note(name, shown, both, theirs)

    def _of_sources(self, sql: str) -> Rows:
        return self.database.ask(self._with(self.sources(), sql))

    def _with(self, steps: Mapping[str, str], last: str) -> str:
        """A query with its steps before it."""
        made = (f"{name} AS {self.database.steps} (\n{sql}\n)" for name, sql in steps.items())
        return f"WITH {', '.join(made)}\n{last}"

    def sources(self) -> dict[str, str]:
        """The runs, the judgments and the attributes in columns of one name."""
        given, text = self.given, self.database.text
        runs = []
        for name, table in given.runs.items():
            system = self.database.literal(name or "")
            if given.system:
                system = quoted(table.actual_name(given.system))
            fields = [f"{text.format(system)} AS system"] if given.many else []
            fields += [
                f"{self._graded(table, role)} AS {role}"
                for role in ("pos", "score", "rel")
                if role in table.roles
            ]
            runs.append(self._select(table, fields))
        steps = {"run": "\nUNION ALL\n".join(runs)}
        if given.qrels is not None:
            grade = self._graded(given.qrels, "rel")
            selected = self._select(given.qrels, [f"{grade} AS rel"])
            steps["qrels"] = f"{selected} WHERE {grade} IS NOT NULL"
        if given.attributes is not None:
            steps["attributes"] = self._select(given.attributes, [])
        return steps

    def _select(self, table: Table, fields: Sequence[str]) -> str:
        """The ids, these fields and the attributes of a table."""
        keys = [
            f"{self._text(table, table.roles[role], self.given.as_text(role))} AS {role}"
            for role in ("query", "item")
            if role in table.roles
        ]
        about = self.given.attributes_in(self.given.home(table))
        for name in about:
            text = not same_kind(self.given.kinds(name))
            value = self._text(table, table.actual_name(name), text)
            keys.append(f"{value} AS {self.given.attribute(name)}")
        return f"SELECT {', '.join([*fields, *keys])} FROM {self.found[table.label].sql}"

    def _text(self, table: Table, name: str, always: bool = False) -> str:
        """A column; text so that its bytes count, and what has no order as a number."""
        kind = "VARCHAR" if always else table.columns[name]
        if kind == "VARCHAR":
            return self.database.text.format(quoted(name))
        # In SQLite some of the numbers may be whole.
        cast = {"BOOLEAN": "INTEGER", "DOUBLE": "DOUBLE PRECISION"}.get(kind)
        return f"CAST({quoted(name)} AS {cast})" if cast else quoted(name)

    def _graded(self, table: Table, role: str) -> str:
        """The number in a column, as the conventions have it."""
        value = _number(table, role)
        if role == "rel" and self.chosen.negative == "unjudged":
            return f"CASE WHEN {value} >= 0 THEN {value} END"
        if role == "score" and self.chosen.float32:
            # What is too large for 32 bits is infinite, and what is too small is 0.
            return (
                f"CASE WHEN abs({value}) >= 3.4028235677973366e38 "
                f"THEN {value} * CAST('Infinity' AS DOUBLE PRECISION) "
                f"WHEN abs({value}) > 7.006492321624085e-46 "
                f"THEN CAST(CAST({value} AS REAL) AS DOUBLE PRECISION) ELSE 0 * {value} END"
            )
        return value

    def rankings(self) -> dict[str, str]:
        """The rows that count, with their grades and positions."""
        given, chosen, keys = self.given, self.chosen, self.given.keys
        steps: dict[str, str] = {}
        source, judged, run = "run", "qrels", "run"
        if given.many and given.qrels is not None:
            steps["systems"] = "SELECT DISTINCT system FROM run"
            judged = "(SELECT * FROM qrels CROSS JOIN systems) AS judged"
        by_item = f"{self.database.text.format('item')} DESC"
        place, order = "pos", "pos ASC"
        if given.scored:
            place, order = "score", score_order(chosen.ties, by_item)
        pos = "pos"
        if given.scored or chosen.unjudged == "remove":
            number = f"row_number() OVER (PARTITION BY {keys}, {place} IS NULL ORDER BY {order})"
            pos = f"CASE WHEN {place} IS NOT NULL THEN {number} END AS pos"
        scores = ["score"] if given.every("score") else []
        if given.scored and ranks_before_join(given, chosen):
            # Before the join, which few rows are left for.
            theirs = "WHERE query IN (SELECT query FROM qrels)"
            steps["placed"] = f"SELECT {keys}, item, score, {pos} FROM run {theirs}"
            k = last_position(self.metrics, chosen)
            least = "pos IS NOT NULL" if k is None else f"pos <= {k}"
            steps["top"] = f"SELECT * FROM placed WHERE {least}"
            run, place, pos = "top", "pos", "pos"
        if given.qrels is not None:
            steps |= self._queries()
            source = f"{judged} LEFT JOIN {run} USING ({keys}, item)"
            if self.built.rows == "all":
                places = [*scores, *(["pos"] if place == "pos" else [])]
                source = self.database.full_join(judged, run, keys, places)
        items = ["item"] if given.every("item") else []
        scores = [original_score(given)] if scores else []
        steps["ranked"] = f"SELECT {', '.join([keys, *items, 'rel', *scores, pos])} FROM {source}"
        if chosen.unjudged == "remove":
            steps["ranked"] += " WHERE rel IS NOT NULL"
        elif self.built.rows == "gain":
            steps["ranked"] += " WHERE rel > 0"
        return steps

    def _queries(self) -> dict[str, str]:
        """Every judged query, for every system, and how many of its judgments count; which of them
        the run has."""
        counted = "CASE WHEN rel > 0 THEN 1 END" if self.built.rows == "gain" else "*"
        judged = f"SELECT query, count({counted}) AS judged FROM qrels GROUP BY query"
        if self.given.many:
            judged = (
                f"SELECT system, query, judged FROM ({judged}) AS each_query CROSS JOIN systems"
            )
        shown = f"SELECT DISTINCT {self.given.keys}, 1 AS retrieved FROM run"
        return {"queries": judged, "shown": shown}
