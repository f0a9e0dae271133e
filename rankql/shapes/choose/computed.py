"""Columns that are computed: SQL expressions, keys of several columns, and grades."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb

from rankql.core.base import column_names
from rankql.core.base.errors import BY_HAND, Question, RankqlError, database_message, require
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.tables.session import Session
from rankql.core.tables.sql_expressions import number_type, require_scalar, split_aggregate
from rankql.core.tables.tables import (
    Table,
    is_text,
    key_text,
    mentioned,
    require_column,
    unknown_column,
)

# The arguments whose expressions are no numbers.
_IDS = ("query", "item", "collapse")
# A column that the caller names: its name, an SQL expression, or several columns of a key.
Spec: TypeAlias = str | tuple[str, ...]


def resolve_columns(
    session: Session,
    columns: Mapping[str, Any],
    groups: Sequence[Sequence[Table]],
    attributes: Sequence[Any] = (),
) -> tuple[list[dict[str, str | None]], list[list[Table]]]:
    """The names of columns in the runs and in the judgments, and the tables with the columns that
    are computed.

    groups: the runs, the judgments, the attributes. The last two may be empty or left out.
    attributes: other columns that the caller names.
    """
    named: list[dict[str, str | None]] = [dict.fromkeys(columns), dict.fromkeys(columns)]
    resolved = [[*tables] for tables in (*groups, [], [])[:3]]
    places = {"query": [0, 1, 2], "item": [0, 1], "rel": [1 if resolved[1] else 0]}
    items = [columns["item"]] if isinstance(columns.get("item"), str) else columns.get("item") or ()
    for role, value in columns.items():
        if value is None:
            continue
        tables = [table for group in resolved[:2] for table in group]
        pair = parse_pair(role, value, tables, bool(resolved[1]), items)
        for names, spec in zip(named, pair, strict=True):
            names[role] = column_name(spec)
        needed = dict(enumerate(pair))
        if pair[0] == pair[1]:
            needed = dict.fromkeys(places.get(role, [0]), pair[0])
        if isinstance(pair[0], str) and pair[0] == pair[1]:
            if any(table.has(pair[0]) for table in tables):
                continue  # Other tables may have a recognised name.
            if pair[0].isidentifier():
                raise unknown_column(role, pair[0], tables)
        for side, spec in needed.items():
            if spec is not None:
                resolved[side] = [add_column(t, role, spec) for t in resolved[side]]
    for side, names in enumerate(named):
        roles = {name: "" for name in attributes if isinstance(name, str)}
        roles |= {n: role for role, n in names.items() if n and side in places.get(role, [0])}
        resolved[side] = [
            replace(table, named={table.actual_name(n): roles[n] for n in roles if table.has(n)})
            for table in resolved[side]
        ]
        for table in resolved[side]:
            _require_header(table)
    return named, resolved


def _require_header(table: Table) -> None:
    """Refuse a text file without a header, whose first ids are taken for names of columns."""
    for name, role in table.named.items():
        if not table.text or role not in ("query", "item") or name in table.computed:
            continue
        value = f"CAST({quote(name)} AS VARCHAR)"  # whole numbers, if the other table has them
        lacks = name.isdecimal() or table.has_row(f"{value} = {literal(name)}")
        why = f"{table.label} has no header: its first line is data, because {name!r} is an id"
        if lacks:
            raise Question(why, otherwise=f"To read it, {column_names.ADD_HEADER}", unnamed=True)


def column_name(spec: Spec | None) -> str | None:
    """The name of a column, which is the expression itself if it is computed."""
    return ", ".join(spec) if isinstance(spec, tuple) else spec


def parse_pair(
    role: str, value: Any, tables: Sequence[Table], pairs: bool, items: Sequence[Any] = ()
) -> tuple[Spec | None, Spec | None]:
    """The columns in the runs and in the other table.

    Two names that all tables have are both part of the key, not a pair, unless one of them is
    among the names of the items.
    """
    for name in value if isinstance(value, list | tuple) else [value]:
        blank = isinstance(name, str) and not name.strip()
        if blank and not (name and any(table.has(name) for table in tables)):
            raise RankqlError(f"{role}={value!r} has an empty name. Name a column, or leave it out")
    listed = isinstance(value, list | tuple)
    if role == "item":
        specs = [
            split_key(x, lambda name: any(table.has(name) for table in tables))
            for x in (value if listed else [value])
        ]
        if isinstance(specs[0], tuple) and not listed:
            return specs[0], specs[0]
        value = specs if listed else value
    if value is None or isinstance(value, str):
        return value, value
    require(listed, f"{role} must be a column or an SQL expression in quotes, not {value!r}")
    names = {name for name in value if isinstance(name, str)}
    others = {name for name in items if isinstance(name, str)}
    distinct = len(names) == len(value) and names.isdisjoint(others)
    # Of two expressions of one column, each is of a table.
    read = [{*x.sources(mentioned(x.columns, str(name)))} for x in tables for name in value]
    distinct = distinct and not (any(read) and all(x == read[0] for x in read))
    is_key = distinct and (
        len(value) != 2 or not pairs or all(_is_part(t, n) for t in tables for n in value)
    )
    if role == "query" and value and is_key:
        return tuple(value), tuple(value)
    if role == "query" and (both := sorted(names & others)):
        rest = [{"query": [name for name in value if name not in both]}] * pairs
        text = f"query= and item= both name {', '.join(both)}"
        raise Question(text, rest, otherwise="Leave out item=, or name another column")
    paired = len(value) == 2 and pairs
    require(paired, f"{role}={value!r}: a pair names the columns of run and qrels")
    first, second = (tuple(name) if isinstance(name, list) else name for name in value)
    return first, second


def _is_part(table: Table, name: str) -> bool:
    """May it be a part of the table's key: a column, or an expression of its columns?"""
    return table.has(name) or (not name.isidentifier() and bool(mentioned(table.columns, name)))


def split_key(text: Any, has: Callable[[str], bool]) -> Any:
    """The parts of a key that is written as one text, such as 'doc_id, page' or '(doc_id, page)'.

    Another text, and what is no text, stays as it is. has: is there a column of this name?
    """
    if not isinstance(text, str) or has(text):
        return text
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] + inner[-1:] == "()" else inner
    parts = [part.strip() for part in inner.split(",")]
    return tuple(parts) if len(parts) > 1 and all(map(has, parts)) else text


def spread_qrels(runs: Sequence[Table], qrels: Table, key: Sequence[Any]) -> Table:
    """The judgments for all queries of a key of which they have only some columns.

    Two names that may be a pair, because their values match, stay one.
    """
    named = all(isinstance(name, str) and run.has(name) for run in runs for name in key)
    parts = [name for name in key if qrels.has(name)] if named else []
    if len(parts) in (0, len(key)):
        return qrels
    rows = " UNION ALL ".join(f"SELECT {', '.join(map(quote, key))} FROM {x.sql}" for x in runs)
    if len(key) == 2 and parts == [key[1]]:
        same = (
            f"(SELECT count(*) > 0 FROM (SELECT CAST({quote(name)} AS VARCHAR) FROM ({rows}) "
            f"INTERSECT SELECT CAST({quote(key[1])} AS VARCHAR) FROM {qrels.sql}))"
            for name in key
        )
        pair, is_key = qrels.session.row(f"SELECT {', '.join(same)}")
        require(
            not (pair and is_key),
            f"query={key!r} may be one key or a pair: {key[1]} is in every table, {key[0]} is "
            f"not in qrels. A pair: rename both to query. A key: add {key[0]} to qrels",
        )
        if pair:
            return qrels
    others = [name for name in key if name not in parts]
    qrels.note(f"judgments of {', '.join(parts)} hold for each {', '.join(others)}")
    condition = " AND ".join(
        f"CAST(q_.{quote(x)} AS VARCHAR) = CAST(k_.{quote(x)} AS VARCHAR)" for x in parts
    )
    names = ", ".join(f"k_.{quote(x)}" for x in others)
    sql = f"(SELECT q_.*, {names} FROM {qrels.sql} q_ JOIN (SELECT DISTINCT * FROM ({rows})) k_ "
    kinds = {name: runs[0].columns[runs[0].actual_name(name)] for name in others}
    sql += f" ON {condition})"
    return replace(qrels, sql=sql, columns=qrels.columns | kinds, shared=parts[-1])


def add_attribute(
    session: Session, name: str, argument: str, groups: Sequence[Sequence[Table]]
) -> list[list[Table]]:
    """The tables, the first group that can with a column of an attribute if it is an expression.

    groups: the tables of each place, in the order in which an attribute is sought.
    """
    tables, sql = [table for group in groups for table in group], getattr(name, "sql", name)
    resolved, failure = [[*group] for group in groups], None
    if sql == name and (name.isidentifier() or any(table.has(name) for table in tables)):
        return resolved
    if any(table.has(name) for table in tables):
        raise RankqlError(f"{argument}: there is a column {name!r}. Choose another name after AS")
    for group in resolved:
        if group and all(mentioned(table.columns, sql) for table in group):
            try:
                group[:] = [add_column(table, argument, sql, name) for table in group]
                date = f"CAST({quote(name)} AS DATE)"  # date_trunc gives times in some versions
                midnight = f"SELECT bool_and({quote(name)} = {date}) FROM "
                if all(
                    table.columns[name] == "TIMESTAMP" and session.value(midnight + table.sql)
                    for table in group
                ):
                    group[:] = [table.with_values(name, date, "DATE") for table in group]
                return resolved
            except RankqlError as error:
                failure = failure or error
    raise failure or unknown_column(argument, name, tables)


def add_column(table: Table, role: str, spec: Spec, called: str | None = None) -> Table:
    """The table with a computed column, which is called like its expression by default."""
    name = column_name(spec) or ""
    if table.has(name):
        reads = table.sources([name])
        kind = table.columns[table.actual_name(name)]
        return table.with_column(called, quote(name), kind, reads) if called else table
    if isinstance(spec, tuple):
        for part in spec:
            if table.has(part) or part.isidentifier():
                require_column(table, part, role)
            else:
                table = add_column(table, role, part)
        kinds = [table.columns[table.actual_name(part)] for part in spec]
        if any(kind.endswith("]") for kind in kinds) and role == "item":
            return _zip_lists(table, spec, kinds)
        value = key_text([*map(quote, spec)], kinds)
        return table.with_column(name, value, "VARCHAR", table.sources(spec))
    if name.isidentifier():
        raise unknown_column(role, name, [table])
    of_judgments = role == "rel" and table.label == "qrels"
    _, expression = split_aggregate(name) if of_judgments else ("", name)
    require_scalar(expression, f"{role}={name!r}", table.columns)
    reads = mentioned(table.columns, name)
    value = f"(\n{expression}\n)"
    typed, failure = table.text and role not in _IDS, None
    for times in (False, True) if typed else (False,):
        source, selected = table.sql, "*"
        if typed:
            source, selected = _with_numbers(table, reads, times)
        try:
            # A condition may have no aggregate and no window function.
            sql = f"DESCRIBE SELECT {value} FROM {source} WHERE {value} IS NULL"
            ((_, kind, *_),) = table.session.rows(sql)  # of one column
            return table.with_column(called or name, value, kind, reads, source, selected)
        except (duckdb.Error, ValueError) as error:
            failure = failure or error
    hint = ". Each id is a row: change lists before you pass them, such as row[row >= 0]"
    hint *= table.unit == "ids"
    why = database_message(failure) if isinstance(failure, duckdb.Error) else "it has many columns"
    raise RankqlError(
        f"{role}={name!r}: no column of that name in {table.label}, and not an SQL expression "
        f"of its columns ({why.rstrip('.!')}). Available: {', '.join(table.own_columns)}{hint}"
    ) from failure


def _zip_lists(table: Table, spec: Sequence[str], kinds: Sequence[str]) -> Table:
    """The table with a list of keys: the elements of equally long lists, and of a plain value each
    time the same.
    """
    lists = [quote(x) for x, kind in zip(spec, kinds, strict=True) if kind.endswith("]")]
    sizes = " OR ".join(f"len({lists[0]}) IS DISTINCT FROM len({x})" for x in lists[1:])
    if sizes and (rows := table.rows(", ".join(f"len({x})" for x in lists), f" WHERE {sizes}")):
        found = " and ".join(map(str, rows[0]))
        raise RankqlError(
            f"{table.label}: the lists of {', '.join(spec)} must be equally long in each row, not "
            f"{found}. See {BY_HAND('sql-list')}"
        )
    values = [f"{quote(x)}[i_]" if quote(x) in lists else quote(x) for x in spec]
    key = key_text(values, [kind.removesuffix("[]") for kind in kinds])
    value = f"list_transform({lists[0]}, lambda x_, i_: {key})"
    return table.with_column(", ".join(spec), value, "VARCHAR[]", table.sources(spec))


def _with_numbers(table: Table, columns: Sequence[str], times: bool) -> tuple[str, str]:
    """A source whose columns of numbers are numbers, and what selects them as they are again.

    times: those of times in text are times.
    """
    kinds = {column: number_type(table, column) for column in columns}
    others = [x for x, kind in kinds.items() if not kind and is_text(table.columns[x])]
    for name in others if times else ():
        sql = f"SELECT count({quote(name)}) = count(TRY_CAST({quote(name)} AS TIMESTAMP)) FROM "
        kinds[name] = "TIMESTAMP" * table.session.value(sql + table.sql)
    typed = {quote(name): kind for name, kind in kinds.items() if kind}
    casts = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in typed.items())
    row = f"{INTERNAL_PREFIX}text"
    source = f"(SELECT {row}, * REPLACE ({casts}) FROM {table.sql} {row})"
    return (source, f"{row}.*") if casts else (table.sql, "*")
