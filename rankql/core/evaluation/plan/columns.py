"""Refuse ids, grades, positions and scores that are none, before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rankql.core.base.errors import HIGHEST_GRADE, Call, Question, RankqlError, advise, require
from rankql.core.metrics.macros import quote
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.numbers.order import ask_positions
from rankql.core.tables.reader import count_values, fetch, numbers_in_memory, refuse_rounded
from rankql.core.tables.session import duckdb_errors
from rankql.core.tables.tables import Table, has_decimal_comma, is_text, quote_name, text_number


def validate_columns(inputs: Inputs, counted: bool = False) -> None:
    """Refuse invalid ids, grades, positions and scores.

    counted: NaN among scores is found by a counter.
    """
    with duckdb_errors():
        for table in [*inputs.tables, *inputs.beyond.tables]:
            total, counts = count_values(table, inputs.ids(table))
            if not total and inputs.lost_lists(table):
                continue  # a system that retrieved nothing
            _require_key(table, total, counts)
            require_ids(
                table.label, total, counts, table.unit, partial(_without_null, inputs, table)
            )
            for name in inputs.ids(table):
                refuse_rounded(table, name, "x_", table.columns[name])
            is_number = not table.text and counted and inputs.scored
            validate_numbers(table, ("rel", "pos") if is_number else NUMBERS)


def require_ids(
    label: str,
    total: int,
    counts: Mapping[str, int],
    unit: str = "rows",
    remedies: Callable[[str], Sequence[Call]] = lambda _: (),
) -> None:
    """Refuse a table that is empty, or in which ids are NULL. remedies: of a column with NULL."""
    empty = "is empty: it has no rows" if unit == "rows" else f"has no {unit}: its lists are empty"
    require(bool(total), f"{label} {empty}")
    for name, count in counts.items():
        if count != total:
            null = f"{label}: {name} is NULL in {total - count} of {total} {unit}. Leave them out"
            calls = remedies(name)
            raise Question(null, calls) if calls else RankqlError(null)


def _without_null(inputs: Inputs, table: Table, name: str) -> list[Call]:
    """How to leave out ids that are NULL, next to lists."""
    sides = [*inputs.runs.values(), *filter(None, [inputs.qrels])]
    if len(sides) != 2 or name != table.roles.get("item") or not any(x.lists for x in sides):
        return []
    texts = []
    for side in sides:
        item, lists = side.roles["item"], side.lists
        text = item if not lists or item.startswith(f"{lists.column}.") else lists.column
        if side is table and lists:
            value = lists.sql.replace("x_", "x")
            ids = quote_name(lists.column)
            ids = ids if value == "x" else f"list_transform({ids}, lambda x: {value})"
            text = f"list_filter({ids}, lambda x: x IS NOT NULL)"
        elif side is table:
            text = f"list_filter([{quote_name(item)}], lambda x: x IS NOT NULL)"
        texts.append(text)
    return [{"item": texts}]


def _require_key(table: Table, total: int, counts: Mapping[str, int]) -> None:
    """Refuse NULL in a column of a key of several, and say how to leave the rows out."""
    for name, count in counts.items():
        parts = table.computed.get(name, ())
        if count < total and name == ", ".join(parts) != "":
            for part, filled in count_values(table, parts)[1].items():
                require(
                    filled == total,
                    f"{table.label}: {part} is NULL in {total - filled} of {total} {table.unit}, "
                    f"and part of the key {name}. Leave them out: SELECT * FROM ... WHERE "
                    f"{quote(part)} IS NOT NULL",
                )


def refuse_labels(table: Table, column: bool = True) -> None:
    """Refuse grades that are a few words, with the mapping that reads them, of this column."""
    name = table.roles["rel"]
    value = f"CAST({quote(name)} AS VARCHAR)"
    if not table.value(f"count({value}) > 0 AND count({text_number(name)}) = 0"):
        return
    rows = table.rows(f"DISTINCT {value}", f" WHERE {value} IS NOT NULL ORDER BY 1 LIMIT 10")
    labels = [label for (label,) in rows]
    mapping = dict.fromkeys(labels, ...)
    raise Question(
        f"{table.label}: {name} must be a number, not text such as {labels[0]!r}",
        open=[{"rel": (name, mapping) if column else mapping}],
    )


# The roles of numbers.
NUMBERS = ("rel", "pos", "score")


def validate_numbers(table: Table, roles: Sequence[str] = NUMBERS) -> None:
    """Refuse grades, positions and scores that are not numbers."""
    bad = {}
    roles = [x for x in roles if x in table.roles and not _are_valid(table, x)]
    if "rel" in roles and is_text(table.columns[table.roles["rel"]]):
        refuse_labels(table)
    for role in roles:
        if table.integer(role) is None:
            name, value = quote(table.roles[role]), table.number(role)
            bad[role] = f"{name} IS NOT NULL AND NOT coalesce(rankql_is_{role}({value}), false)"
    if bad:
        # No WHERE: DuckDB 2.0 would use the statistics of a file, which ignore NaN.
        columns = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in bad.values())
        (counts,) = fetch(table.session, f"SELECT {columns} FROM {table.sql}")
        bad = {role: wrong for (role, wrong), n in zip(bad.items(), counts, strict=True) if n}
    for role, wrong in bad.items():
        sql = f"SELECT any_value({table.read(role)}) FILTER (WHERE {wrong}) FROM {table.sql}"
        try:
            with duckdb_errors():
                fetch(table.session, sql)
        except RankqlError as error:
            if role == "pos" and "query" in table.roles:
                ask_positions(table)
            repair = _describe_repair(table, role, error.text)
            raise RankqlError(advise(error.text, repair)) from error
    if "pos" in roles and (pos := table.integer("pos")):
        wrong = f"WHERE {pos} < 1 OR {pos} > 9007199254740992 LIMIT 1"
        if table.rows("1", f" {wrong}"):
            fetch(table.session, f"SELECT {table.read('pos')} FROM {table.sql} {wrong}")


def _are_valid(table: Table, role: str) -> bool:
    """Are the values of a role in memory, and finite numbers that it may have?"""
    numbers = numbers_in_memory(table, table.roles[role])
    if numbers is None or not numbers.is_between(-HIGHEST_GRADE, HIGHEST_GRADE).all():
        return False
    return role != "pos" or bool(
        (numbers.is_between(1, 2**53) & (numbers == numbers.floor())).all()
    )


def _describe_repair(table: Table, role: str, line: str) -> str:
    """What to pass so that the value in this error is read: NaN, or a number such as 0,5."""
    name, value = quote_name(table.roles[role]), line.rpartition(" ")[2]
    text = is_text(table.columns[table.roles[role]])
    if table.roles[role] not in table.own_columns:
        return ""
    if text and has_decimal_comma(value):
        repair = f"replace({name}, ',', '.')"
        return advise(". If the comma is a decimal point, pass ", {role: repair})
    if text and value.endswith("%"):
        repair = f"CAST(replace({name}, '%', '') AS DOUBLE)"
        return advise(". If these are percents, pass ", {role: repair})
    if value.lower() != "nan":
        words = text and not re.search(r"\d", value)
        lost, cast = table.cast_to_number(role, table.roles[role]) if words else ("", "")
        return advise(". Pass ", cast, lost) if isinstance(cast, dict) and lost else ""
    repair = f"nullif({name}, {value!r})" if text else f"if(isfinite({name}), {name}, NULL)"
    return advise(". If it is missing, make it NULL: pass ", {role: repair})
