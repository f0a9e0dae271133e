"""Evaluation in another database, Postgres or SQLite: `evaluate` with its connection.

The columns are recognised, the options checked and the errors worded by DuckDB, from the types of
the columns and a few extreme values of each; the values per query are one query in window form of
the database's own SQL. Nothing is written there, and a transaction of the user's stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa

from rankql import parts
from rankql.conventions import Conventions, choose
from rankql.dialects import translate
from rankql.errors import RankqlError
from rankql.execution import (
    complete,
    complete_ids,
    execute,
    left_out,
    named,
    none_judged,
    numbers,
    outcome,
    reporting,
    several_values,
    there_twice,
)
from rankql.inputs import Inputs
from rankql.macros import quoted
from rankql.names import Metric, parse
from rankql.query import (
    DUPLICATES,
    JUDGED,
    Query,
    best_first,
    called,
    cutoff,
    defined,
    gained,
    needs_scores,
    per_query,
    tops_first,
)
from rankql.result import Result
from rankql.tables import Table, session

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Source:
    """A table or view: its SQL, and its columns with their types."""

    sql: str
    columns: Mapping[str, pa.DataType]

    @property
    def read(self) -> pa.Schema:
        """The columns as DuckDB is told of them."""
        return pa.schema(
            (name, pa.float64() if kind == _NUMERIC else kind)
            for name, kind in self.columns.items()
        )

    def empty(self) -> pa.Table:
        """No rows of it."""
        return self.read.empty_table()


class Database:
    """A database that is asked by `ask`, a query in and rows out."""

    name: str
    dialect: str
    # Text that is compared by its bytes, whatever collation the database and its columns have.
    text: str
    # What the message of an error of our own stands in.
    error: str
    # How the steps of a query are read: where they are asked for, or once.
    steps: str

    def __init__(self, ask: Callable[[str], Rows]) -> None:
        self._ask = ask

    def ask(self, sql: str) -> Rows:
        """The rows of a query; what the database has against it is a RankqlError."""
        try:
            return self._ask(sql)
        except Exception as error:
            said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
            line = said.rpartition("ERROR:")[2].strip().splitlines()[0]
            ours = re.search(self.error, line)
            raise RankqlError(ours[1] if ours else f"{self.name}: {line}") from error

    def literal(self, text: str) -> str:
        """A text as SQL."""
        return "'" + text.replace("'", "''") + "'"

    def full_join(self, judged: str, run: str, keys: str, columns: Sequence[str]) -> str:
        """All items of the judgments and of the run, as what stands after FROM."""
        return f"{judged} FULL JOIN {run} USING ({keys}, item)"

    def table(self, data: Any, label: str) -> Source:
        """A table or view by its name, with its schema before it or not."""
        if not isinstance(data, str) or not data:
            given = repr(data) if isinstance(data, str) else type(data).__name__
            what = f"{label} must be the name of a table or view of {self.name}"
            raise RankqlError(f"{what}, whose connection is given, not {given}")
        found: dict[tuple[str, str], dict[str, pa.DataType]] = {}
        for schema, name, column, kind in self.columns(data):
            found.setdefault((schema, name), {})[column] = kind
        exact = [path for path in found if data in (path[1], ".".join(path))]
        paths = sorted(exact or found)
        if not paths:
            raise RankqlError(f"{label}: there is no table or view {data!r} in {self.name}")
        if len(paths) > 1:
            names = " or ".join(map(".".join, paths))
            raise RankqlError(f"{label}: {data!r} may be {names}; say which")
        columns = found[paths[0]]
        seen = {name.lower(): name for name in columns}
        for name in columns:
            if (other := seen[name.lower()]) != name:
                both = f"{name!r} and {other!r}"
                raise RankqlError(f"{label}: {both} differ by case alone; rename one in a view")
        # With its schema it is none of our WITH.
        return Source(".".join(map(quoted, paths[0])), columns)

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """The columns of what a name may stand for: schema, table, column and type."""
        raise NotImplementedError


# What ids, and what attributes may be; of another type they would be told apart, ordered or shown
# in another way than in DuckDB.
_UNKNOWN = pa.binary()
_NUMERIC = pa.decimal128(38, 9)
_IDS = (pa.string(), pa.int16(), pa.int32(), pa.int64())
_ATTRIBUTES = (*_IDS, pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"))


# Types of Postgres by their names; what else is text, its category tells.
_TYPES = {
    "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "bool": pa.bool_(), "date": pa.date32(), "uuid": pa.string(),
    "timestamp": pa.timestamp("us"), "numeric": _NUMERIC,
}  # fmt: skip


class Postgres(Database):
    """Postgres from version 12."""

    name, dialect, text = "Postgres", "postgres", 'CAST({} AS TEXT) COLLATE "C"'
    error = r'^invalid input syntax for type double precision: "(.*)"$'
    steps = "NOT MATERIALIZED"

    def literal(self, text: str) -> str:
        """A text as SQL, the same whatever standard_conforming_strings is."""
        plain = super().literal(text)
        return " E" + plain.replace("\\", "\\\\") if "\\" in text else plain

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """As the catalogue has them."""
        sql = f"""
            SELECT schema.nspname, relation.relname, attname, kind.typname, kind.typcategory
            FROM pg_catalog.pg_class AS relation
            JOIN pg_catalog.pg_namespace AS schema ON schema.oid = relnamespace
            JOIN pg_catalog.pg_attribute ON attrelid = relation.oid
            JOIN pg_catalog.pg_type AS given ON given.oid = atttypid
            JOIN pg_catalog.pg_type AS kind
                ON kind.oid = CASE given.typtype WHEN 'd' THEN given.typbasetype ELSE given.oid END
            WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND attnum > 0 AND NOT attisdropped
                AND CASE WHEN lower(relname) = lower({self.literal(name)})
                    THEN pg_catalog.pg_table_is_visible(relation.oid)
                    ELSE lower(nspname || '.' || relname) = lower({self.literal(name)}) END
            ORDER BY relation.oid, attnum"""
        for schema, table, column, kind, category in self.ask(sql):
            text = pa.string() if category in ("S", "E") else _UNKNOWN
            yield schema, table, column, _TYPES.get(kind, text)


class SQLite(Database):
    """SQLite from version 3.39, with its mathematical functions."""

    name, dialect, text = "SQLite", "sqlite", "CAST({} AS TEXT) COLLATE BINARY"
    error = r"^bad JSON path: '(.*)'$"
    steps = "MATERIALIZED"  # then it makes indexes of them

    def full_join(self, judged: str, run: str, keys: str, columns: Sequence[str]) -> str:
        """As two joins: for FULL JOIN it would look at all pairs."""
        ids, places = f"{keys}, item", ", ".join(columns)
        return (
            f"(SELECT {ids}, rel, {places} FROM {judged} LEFT JOIN {run} USING ({ids}) UNION ALL "
            f"SELECT {ids}, rel, {places} FROM {run} LEFT JOIN {judged} USING ({ids}) "
            "WHERE rel IS NULL) AS both_sides"
        )

    def columns(self, name: str) -> Iterator[tuple[str, str, str, pa.DataType]]:
        """Of the types that their values have, whatever they are declared to be."""
        tables = f"""
            SELECT schema, name FROM pragma_table_list
            WHERE lower({self.literal(name)}) IN (lower(name), lower(schema || '.' || name))"""
        for schema, table in self.ask(tables):
            listed = f"{self.literal(table)}, {self.literal(schema)}"
            described = self.ask(
                f"SELECT name, type FROM pragma_table_xinfo({listed}) WHERE hidden <> 1"
            )
            kinds = ("blob", "text", "real", "integer")
            asked = ", ".join(
                f"max(typeof({quoted(column)}) = '{kind}')"
                for column, _ in described
                for kind in kinds
            )
            (found,) = self.ask(f"SELECT {asked} FROM {quoted(schema)}.{quoted(table)}")
            types = (_UNKNOWN, pa.string(), pa.float64(), pa.int64())
            for i, (column, declared) in enumerate(described):
                there = [t for t, f in zip(types, found[4 * i : 4 * i + 4], strict=True) if f]
                text = any(word in declared.upper() for word in ("CHAR", "CLOB", "TEXT"))
                nothing = pa.string() if text else pa.int64()
                yield schema, table, column, (there or [nothing])[0]


_DATABASES: Mapping[str, type[Database]] = {"postgresql": Postgres, "sqlite": SQLite}


@contextmanager
def opened(con: Any) -> Iterator[Database]:
    """The database of a connection, to be read beside what the user does there.

    A transaction that is open stays open, and what goes wrong does not end it; one that was not is
    rolled back.
    """
    module = type(con).__module__.partition(".")[0]
    with ExitStack() as stack:
        if module == "sqlalchemy" and hasattr(con, "connect") and not hasattr(con, "sync_engine"):
            con = stack.enter_context(con.connect())
        if module == "sqlalchemy" and hasattr(con, "in_nested_transaction"):
            if not hasattr(con, "exec_driver_sql") or hasattr(con, "sync_connection"):
                raise _unknown(con)
            made = _database(con.dialect.name)(lambda sql: _by_sqlalchemy(con, sql))
            if con.in_transaction():
                stack.enter_context(_aside(made))
            else:
                stack.callback(con.begin().rollback)
        elif hasattr(con, "adbc_get_info"):
            # In one that is open it allows no savepoint to be gone back to.
            if _idle(con):
                stack.callback(con.rollback)
            made = _database(con.adbc_get_info()["vendor_name"])(lambda sql: _by_cursor(con, sql))
        elif module == "psycopg" and hasattr(con, "transaction") and not hasattr(con, "loop"):
            from psycopg.rows import tuple_row

            made = Postgres(lambda sql: _by_cursor(con, sql, row_factory=tuple_row))
            stack.enter_context(con.transaction(force_rollback=True))
        elif module == "sqlite3":
            made = SQLite(lambda sql: _by_cursor(con, sql))
        else:
            raise _unknown(con)
        yield made


def _idle(con: Any) -> bool:
    """Has ADBC begun no transaction in Postgres yet, and will it begin one?"""
    with suppress(Exception):  # other drivers do not tell
        option = con.adbc_connection.get_option
        idle = option("adbc.postgresql.transaction_status") == "idle"
        return bool(idle and option("adbc.connection.autocommit") == "false")
    return False


def _unknown(con: Any) -> RankqlError:
    return RankqlError(
        "con must be a connection of DuckDB, a SQLAlchemy engine or connection, or a connection of "
        f"psycopg, sqlite3 or ADBC, not {type(con).__module__}.{type(con).__name__}"
    )


def _database(name: str) -> type[Database]:
    if name.lower() not in _DATABASES:
        known = "of DuckDB with its own connection, of Postgres and of SQLite"
        raise RankqlError(f"con: evaluate runs in the databases {known}, not in {name}")
    return _DATABASES[name.lower()]


def _by_sqlalchemy(con: Any, sql: str) -> Rows:
    # As it is: a percent sign is no place for a parameter.
    result = con.exec_driver_sql(sql, execution_options={"no_parameters": True})
    return [tuple(row) for row in result] if result.returns_rows else []


def _by_cursor(con: Any, sql: str, **options: Any) -> Rows:
    with closing(con.cursor(**options)) as cursor:
        if type(con).__module__.startswith("sqlite3"):
            cursor.row_factory = None
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


@contextmanager
def _aside(database: Database) -> Iterator[None]:
    """What is done within is undone, in a transaction that is not ours."""
    ask = database.ask
    try:
        ask("SAVEPOINT rankql_evaluate")
    except RankqlError:  # there is none
        yield
        return
    try:
        yield
    finally:
        with suppress(RankqlError):
            ask("ROLLBACK TO SAVEPOINT rankql_evaluate")
            ask("RELEASE SAVEPOINT rankql_evaluate")


def evaluated(
    con: Any,
    run: Any,
    qrels: Any,
    attributes: Any,
    columns: Mapping[str, Any],
    system: str | None,
    groups: Sequence[Sequence[str]],
    metrics: str | Sequence[str],
    conventions: str | None,
    options: Mapping[str, Any],
) -> Result:
    """The result of `evaluate`, worked out in the database of the connection."""
    runs = dict(run) if isinstance(run, Mapping) else {None: run}
    chosen = choose(conventions, options)
    task = parts.Task([*runs], columns, system, (), groups, parse(metrics), chosen)
    tables = {parts.named_run(name): data for name, data in runs.items()}
    tables |= {"qrels": qrels} if qrels is not None else {}
    tables |= {"attributes": attributes} if attributes is not None else {}
    with opened(con) as database, session(None) as here:
        found = {label: database.table(data, label) for label, data in tables.items()}
        there = task.opened(here, {label: s.empty() for label, s in found.items()})
        there = _moved(there, {label: source.sql for label, source in found.items()})
        _known_kinds(there, found, database)
        sample = {}
        for table in there.tables:
            values = _extremes(database, there, table, chosen)
            sample[table.label] = _sample(there, table, found[table.label].read, values)
        alike = task.opened(here, sample)
        with reporting():
            for table in alike.tables:
                numbers(here, table, ("rel", "pos", "score"))
        chosen, wanted = complete(here, alike, task.metrics, chosen)
        _refuse(database, chosen)
        built = per_query(alike, wanted, chosen)
        with reporting(here, alike, chosen):
            shape = execute(here, built.sql, built.checked).pl().schema
        work = _Work(database, there, chosen, wanted, built)
        built = replace(built, sql=work.sql())
        result = outcome(here, alike, built, chosen, groups)
        result.notes = work.inspected()
        result.rows = work.values(built.sql, shape)
    return result


def _moved(given: Inputs, homes: Mapping[str, str]) -> Inputs:
    """The inputs as tables of the database."""

    def moved(table: Table) -> Table:
        return replace(table, sql=homes[table.label])

    return replace(
        given,
        runs={name: moved(table) for name, table in given.runs.items()},
        qrels=given.qrels and moved(given.qrels),
        attributes=given.attributes and moved(given.attributes),
    )


def _known_kinds(given: Inputs, found: Mapping[str, Source], database: Database) -> None:
    """Refuse ids and attributes of which it is not known how they compare or look."""
    for table in given.tables:
        home = "run" if table in given.runs.values() else table.label
        for names, kinds, wrong in (
            (_ids(given, table), _IDS, "is neither text nor of whole numbers"),
            (given.homed(home), _ATTRIBUTES, "is of a type that no slices are made of"),
        ):
            for name in names:
                if found[table.label].columns[name] not in kinds:
                    raise RankqlError(
                        f"{table.label}: {name} {wrong} in {database.name}; cast it in a view"
                    )


def _ids(given: Inputs, table: Table) -> list[str]:
    """The columns that tell rows apart."""
    names = [table.roles[role] for role in ("query", "item") if role in table.roles]
    return [*names, given.system] if given.system and table.label == "run" else names


def _gained(gain: str | Mapping[float, float], threshold: float) -> str:
    """The gain of a row; that every grade has one, is known."""
    if isinstance(gain, Mapping):
        return f"CASE rel {' '.join(f'WHEN {grade} THEN {v}' for grade, v in gain.items())} END"
    if gain == "binary":
        return f"CASE WHEN rel >= {threshold} THEN 1.0 WHEN rel IS NOT NULL THEN 0.0 END"
    return gained(gain, threshold)


def _weight(text: str) -> str:
    """A weight without the helpers of our macros, which are not offered elsewhere."""
    text = re.sub(r"rankql_relevant\(rel, (.*?)\)", r"count(CASE WHEN rel >= \1 THEN 1 END)", text)
    return re.sub(r"rankql_size\((.*?), (.*?\))\)", r"coalesce(\1, \2)", text)


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
    database: Database, given: Inputs, table: Table, chosen: Conventions
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
    ids = _ids(given, table)
    counts = [f"count({quoted(name)})" for name in ids]
    columns = ", ".join(["count(*)", *counts, *(sql for _, sql in asked)])
    ((total, *found),) = database.ask(f"SELECT {columns} FROM {table.sql}")
    complete_ids(table.label, total, dict(zip(ids, found, strict=False)))
    pairs = zip(asked, found[len(ids) :], strict=True)
    return [(table.roles[role], value) for (role, _), value in pairs if value is not None]


def _sample(
    given: Inputs, table: Table, schema: pa.Schema, values: Sequence[tuple[str, float]]
) -> pa.Table:
    """A table of these columns, each value in a row with an id of its own."""
    ids = _ids(given, table)
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
    return f"CAST({column} AS DOUBLE PRECISION)"


@dataclass(frozen=True)
class _Work:
    """An evaluation in a database: its queries, and what they say."""

    database: Database
    given: Inputs
    chosen: Conventions
    metrics: Sequence[Metric]
    # What DuckDB would run.
    built: Query

    def sql(self) -> str:
        """The query that evaluates: the rankings, the metrics in steps, what is said of a query."""
        given, keys = self.given, self.given.keys
        calls, weights = called(self.metrics, self.chosen, _gained)
        calls |= {name: _weight(calls[name]) for name in weights.values()}
        calls |= {m.name: m.expression for m in self.metrics if m.measure is None}
        relevant = f"count(CASE WHEN rel >= {self.chosen.threshold} THEN 1 END)"
        values = [*defined(calls, self.chosen, relevant).values()]
        steps = self.sources() | self.rankings()
        asked = [keys, *(f"{value} AS m{i}" for i, value in enumerate(values))]
        source, missing, twice = "ranked", "0", "0"
        if given.qrels is not None:
            source = f"queries LEFT JOIN ranked USING ({keys})"
            place = "CASE WHEN rel > 0 THEN pos END"
            asked += [f"count({place}) AS n, count(DISTINCT {place}) AS places, count(rel) AS rels"]
            missing = "CASE WHEN retrieved IS NULL THEN 1 ELSE 0 END"
            wrong = "found.rels > queries.judged OR found.n > found.places"
            twice = f"CASE WHEN {wrong} THEN 1 ELSE 0 END"
        query = f"SELECT {', '.join(asked)} FROM {source} GROUP BY {keys}"
        steps["found"] = translate(query, self.database.dialect)
        last = "found"
        if given.qrels is not None:
            last += f" JOIN queries USING ({keys}) LEFT JOIN shown USING ({keys})"
        for home in ("qrels", "run", "attributes"):
            if given.homed(home):
                least = ", ".join(f"min({quoted(a)}) AS {quoted(a)}" for a in given.homed(home))
                steps[f"about_{home}"] = f"SELECT query, {least} FROM {home} GROUP BY query"
                last += f" LEFT JOIN about_{home} USING (query)"
        fields = [f"found.query AS {quoted(given.query)}"]
        fields += [f"about_{given.homes[name]}.{quoted(name)}" for name in given.by]
        fields += [f"{missing} AS missing"]
        fields += [
            f"CAST(found.m{i} AS DOUBLE PRECISION) AS {quoted(name)}"
            for i, name in enumerate(calls)
        ]
        order = [f"found.{key}" for key in keys.split(", ")]
        listed = ",\n    ".join([*order[:-1], *fields, f"{twice} AS twice"])
        return self._with(steps, f"SELECT {listed}\nFROM {last}\nORDER BY {', '.join(order)}")

    def values(self, sql: str, shape: Mapping[str, pl.DataType]) -> pl.DataFrame:
        """What the query finds, in the columns that DuckDB would return."""
        rows = self.database.ask(sql)
        if any(row[-1] for row in rows):
            raise RankqlError(self._twice() or DUPLICATES)
        columns = [*zip(*rows, strict=True)] or [()] * (len(shape) + 1)
        made = zip(shape.items(), columns[:-1], strict=True)
        return pl.DataFrame([pl.Series(name, cells).cast(kind) for (name, kind), cells in made])

    def inspected(self) -> list[str]:
        """What is worth knowing of queries on one side only; refuse what cannot be evaluated."""
        for home in ("attributes", "qrels", "run"):
            for name in self.given.homed(home):
                self._one_value(home, name)
        found = [] if self.given.qrels is None else [*self._one_sided()]
        for source, column, where in self.built.once:
            if twice := self._duplicates(source, column, where):
                raise RankqlError(twice)
        return found

    def _one_value(self, home: str, name: str) -> None:
        """Refuse an attribute that is not one of the query."""
        column = quoted(name)
        sql = f"""SELECT query, min({column}), max({column}) FROM {home} GROUP BY query
            HAVING min({column}) <> max({column}) ORDER BY query LIMIT 1"""
        for key, *ends in self._of_sources(sql):
            if self._kind(home, name) == "BOOLEAN":
                ends = [*map(bool, ends)]
            raise RankqlError(several_values(home, name, key, *ends))

    def _kind(self, home: str, name: str) -> str:
        """The type of an attribute, as DuckDB calls it."""
        label = {"run": next(iter(self.given.runs.values())).label}.get(home, home)
        (table,) = (table for table in self.given.tables if table.label == label)
        return table.columns[name]

    def _one_sided(self) -> Iterator[str]:
        """Which queries of the run are not judged; refuse a run of which none is."""
        keys, system = self.given.keys, "system" if self.given.many else "NULL"
        sql = f"""SELECT {system}, count(*), count(judged)
            FROM (SELECT DISTINCT {keys} FROM run) AS shown
            LEFT JOIN (SELECT DISTINCT query, 1 AS judged FROM qrels) AS theirs USING (query)
            {f"GROUP BY {system} ORDER BY {system}" if self.given.many else ""}"""
        for name, shown, both in self._of_sources(sql):
            if shown == both:
                continue
            where = f"AND system = {self.database.literal(name)}" if self.given.many else ""
            some = "SELECT DISTINCT query FROM {} {} ORDER BY query LIMIT 3"
            unjudged = f"WHERE query NOT IN (SELECT query FROM qrels) {where}"
            theirs = [key for (key,) in self._of_sources(some.format("run", unjudged))]
            if not both:
                ours = [key for (key,) in self._of_sources(some.format("qrels", ""))]
                raise RankqlError(none_judged(named(name), theirs, ours))
            yield left_out(name, shown, both, theirs)

    def _twice(self) -> str | None:
        """What is there more than once of what is judged."""
        judged = "WHERE rel IS NOT NULL" if self.given.qrels is None else JUDGED
        found = None
        if all("item" in table.roles for table in self.given.runs.values()):
            found = self._duplicates("run", "item", judged)
        if not found and not self.given.scored:
            found = self._duplicates("run", "pos", "WHERE pos IS NOT NULL")
        return found

    def _duplicates(self, source: str, column: str, where: str) -> str | None:
        """Three rows that are there more than once, as an error says it."""
        columns = f"{self.given.keys if source == 'run' else 'query'}, {column}"
        found = self._of_sources(
            f"""SELECT {columns} FROM {source} {where} GROUP BY {columns} HAVING count(*) > 1
            ORDER BY {columns} LIMIT 3"""
        )
        return there_twice(self.given, source, columns, found) if found else None

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
            fields = self._keys(table)
            if given.system is not None:
                fields.insert(0, f"{text.format(quoted(given.system))} AS system")
            elif name is not None:
                fields.insert(0, f"{text.format(self.database.literal(name))} AS system")
            fields += [
                f"{self._graded(table, role)} AS {role}"
                for role in ("pos", "score", "rel")
                if role in table.roles
            ]
            runs.append(self._select(table, [*fields, *self._attributes(table, "run")]))
        steps = {"run": "\nUNION ALL\n".join(runs)}
        if given.qrels is not None:
            grade = self._graded(given.qrels, "rel")
            fields = [*self._keys(given.qrels), f"{grade} AS rel"]
            fields += self._attributes(given.qrels, "qrels")
            steps["qrels"] = self._select(given.qrels, fields) + f" WHERE {grade} IS NOT NULL"
        if given.attributes is not None:
            fields = self._keys(given.attributes) + self._attributes(given.attributes, "attributes")
            steps["attributes"] = self._select(given.attributes, fields)
        return steps

    def _select(self, table: Table, fields: Sequence[str]) -> str:
        return f"SELECT {', '.join(fields)} FROM {table.sql}"

    def _keys(self, table: Table) -> list[str]:
        return [
            f"{self._text(table, table.roles[role], self.given.as_text(role))} AS {role}"
            for role in ("query", "item")
            if role in table.roles
        ]

    def _attributes(self, table: Table, home: str) -> list[str]:
        return [f"{self._text(table, name)} AS {quoted(name)}" for name in self.given.homed(home)]

    def _text(self, table: Table, name: str, always: bool = False) -> str:
        """A column; text so that its bytes count, and what has no order as a number."""
        kind = table.columns[name]
        if always or kind == "VARCHAR":
            return self.database.text.format(quoted(name))
        return f"CAST({quoted(name)} AS INTEGER)" if kind == "BOOLEAN" else quoted(name)

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
        by_item = f"{self.database.text.format('item')} DESC"
        steps: dict[str, str] = {}
        judged = "qrels"
        if given.qrels is not None:
            steps["queries"] = self._queries()
            steps["shown"] = f"SELECT DISTINCT {keys}, 1 AS retrieved FROM run"
            if given.many:
                steps = {"systems": self._systems(), **steps}
                judged = "(SELECT * FROM qrels CROSS JOIN systems) AS judged"
        scores = ["score"] if all("score" in t.roles for t in given.runs.values()) else []
        if tops_first(given, chosen):
            top = "run"
            if given.scored:
                k = cutoff(self.metrics, chosen)
                top = "top"
                number = f"row_number() OVER (PARTITION BY {keys} ORDER BY score DESC, {by_item})"
                steps["placed"] = (
                    f"SELECT {keys}, item, score, {number} AS pos FROM run "
                    "WHERE score IS NOT NULL AND query IN (SELECT query FROM qrels)"
                )
                least = "" if k is None else f" WHERE pos <= {k}"
                steps["top"] = f"SELECT * FROM placed{least}"
            scores = scores if needs_scores(self.metrics) else []
            joined = f"{judged} LEFT JOIN {top} USING ({keys}, item)"
            if self.built.rows == "all":
                joined = self.database.full_join(judged, top, keys, ["pos", *scores])
            fields = [keys, "item", "rel", "pos", *scores]
            steps["ranked"] = f"SELECT {', '.join(fields)} FROM {joined}" + (
                " WHERE rel > 0" if self.built.rows == "gain" else ""
            )
            return steps
        items = ["item"] if all("item" in t.roles for t in given.runs.values()) else []
        place, pos = "score" if given.scored else "pos", "pos"
        source = "run"
        if given.qrels is not None:
            places = [*scores, *(["pos"] if place == "pos" else [])]
            source = self.database.full_join(judged, "run", keys, places)
        if given.scored or chosen.unjudged == "remove":
            order = best_first(chosen.ties, by_item) if given.scored else "pos ASC"
            number = f"row_number() OVER (PARTITION BY {keys}, {place} IS NULL ORDER BY {order})"
            pos = f"CASE WHEN {place} IS NOT NULL THEN {number} END AS pos"
        steps["ranked"] = (
            f"SELECT {', '.join([keys, *items, 'rel', *scores, pos])} FROM {source}"
            + (" WHERE rel IS NOT NULL" if chosen.unjudged == "remove" else "")
        )
        return steps

    def _systems(self) -> str:
        """The systems, those of a dict with no row in the run too."""
        if self.given.system is not None:
            return "SELECT DISTINCT system FROM run"
        names = map(self.database.literal, filter(None, self.given.runs))
        made = (f"SELECT {self.database.text.format(name)} AS system" for name in names)
        return " UNION ALL ".join(made)

    def _queries(self) -> str:
        """Every judged query, for every system, and how many of its judgments count."""
        counted = "CASE WHEN rel > 0 THEN 1 END" if self.built.rows == "gain" else "*"
        judged = f"SELECT query, count({counted}) AS judged FROM qrels GROUP BY query"
        if not self.given.many:
            return judged
        return f"SELECT system, query, judged FROM ({judged}) AS each_query CROSS JOIN systems"
