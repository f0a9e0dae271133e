"""Ids that are spelled differently: what makes them alike, by which difference, and a repair.

The SQL has no backslash, because it is copied from messages.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import duckdb

from rankql.core.base.errors import Call
from rankql.core.metrics.macros import template_literal
from rankql.core.tables.tables import Table, is_text, quote_name

_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
# How an id {0} is made like another, step by step, and where a step may change it.
STEPS = {
    "trim({0})": "true",
    f"trim({{0}}, {_BLANKS})": "true",
    "nfc_normalize({0})": "true",
    "lower({0})": "true",
    "coalesce(nullif(regexp_extract({0}, '^(-?[0-9]+)[.]0+$', 1), ''), {0})": "contains({0}, '.')",
    "coalesce(nullif(regexp_extract({0}, '^0*([0-9].*)$', 1), ''), {0})": "{0}[:1] = '0'",
    "rtrim({0}, '/')": "{0}[-1:] = '/'",
    "regexp_replace({0}, '^[.]/', '')": "{0}[:2] = './'",
    "regexp_replace({0}, '#[^0-9].*$', '')": "contains({0}, '#')",
    "coalesce('-' || nullif(regexp_extract({0}, '^-0*([0-9].*)$', 1), ''), {0})": "{0}[:1] = '-'",
}


def make_step(step: str, where: str, value: str) -> str:
    """A step of `STEPS` on a value, as SQL."""
    return f"CASE WHEN {where.format(value)} THEN {step.format(value)} ELSE {value} END"


def respell(rows: str, name: str) -> str:
    """SQL of rows with x, an id made like those that are spelled differently."""
    sql = f"(SELECT *, {name} AS x FROM {rows})"
    for step, where in STEPS.items():
        sql = f"(SELECT * REPLACE ({make_step(step, where, 'x')} AS x) FROM {sql})"
    return sql


def respell_pairs(
    con: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[str, str]]
) -> tuple[Sequence[bool], str]:
    """Do the steps make the ids of each pair alike, and the expression of those that change one."""
    ids, needed = [x for pair in pairs for x in pair], "{0}"
    for step, where in STEPS.items():
        sql = f"SELECT list_transform($1, lambda x: {make_step(step, where, 'x')})"
        ((changed,),) = con.execute(sql, [ids]).fetchall()
        needed = step.format(needed) if changed != ids else needed
        ids = changed
    return [one == other for one, other in zip(ids[::2], ids[1::2], strict=True)], needed


# An id needs so many letters to be known by a part of it.
_LETTERS = 3
# What ids that are spelled differently may have or lack, and what no eye sees. The punctuation is
# written as ranges: DuckDB takes three times as long to compile \pL and \pN.
_PUNCTUATION = "\\s!-/:-@[-`{-\\x{bf}\\x{2000}-\\x{206f}\\x{3000}-\\x{303f}\\x{feff}"
_PUNCTUATION += "\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff20}\\x{ff3b}-\\x{ff40}\\x{ff5b}-\\x{ff65}"
_EXTRA = f"&#?[a-z0-9]+;|^https?://|#[^0-9].*|[{_PUNCTUATION}]|0"
_INVISIBLE = "[\u200b-\u200d\u2060\ufeff]"


def loose_forms(rows: str) -> str:
    """SQL of rows with what is the same in ids that may be alike; and has it enough letters?"""
    decoded = "CASE WHEN contains(item, '%') THEN coalesce(TRY(url_decode(item)), item) "
    decoded += "ELSE item END"
    form = f"regexp_replace(lower(nfc_normalize({decoded})), '{_EXTRA}', '', 'g')"
    letters = f"regexp_matches(form, '([^0-9].*){{{_LETTERS}}}')"
    return f"(SELECT *, {form} AS form, {letters} AS letters FROM {rows})"


def _decode(value: str) -> str:
    return re.sub(_INVISIBLE, "", html.unescape(unquote(value))).lower().strip()


_UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}")
_BETWEEN_DIGITS = re.compile(r"\d[\W_]+(?=\d)")
_EXTENSION = re.compile(r"[.][a-z0-9]{1,5}")


def difference(one: str, other: str) -> str:
    """In what two ids differ, if they are probably ids of one thing; or "".

    Without case and punctuation they are the same; or one is in the other, where no letter or digit
    comes before and after it.
    """
    a, b = sorted((re.sub("^https(?=://)", "http", _decode(x)) for x in (one, other)), key=len)
    if a == b:
        return "escapes"
    plain = [re.sub(r"[\W_]", "", x) for x in (a, b)]
    if len(re.sub(r"\d", "", plain[0])) < _LETTERS and not _UUID.fullmatch(a):
        return ""
    if plain[0] == plain[1]:
        if all(map(_UUID.fullmatch, (a, b))):
            return "hyphens"
        joined = [_BETWEEN_DIGITS.sub("0", x) == x for x in (a, b)]
        return "" if joined[0] != joined[1] else "punctuation"
    before, found, after = b.partition(a)
    if not found or before[-1:].isalnum() or after[:1].isalnum():
        return ""
    if len(a) < 4 and not (_EXTENSION.fullmatch(after) or after.startswith(("#", "_chunk"))):
        return ""
    return re.sub(r"\d+", "0", f"{before}|{after}")


# Expressions that change how an id {0} is written.
_REWRITES = (
    "trim({0})", "lower({0})", "trim({0}, '\"[]()')", "url_decode({0})",
    "replace({0}, '&amp;', '&')", "replace({0}, chr(92), '/')", "replace({0}, '-', '')",
    "replace({0}, 'https://', 'http://')", "regexp_extract({0}, '[^/]+$')",
    "regexp_replace({0}, '[.][A-Za-z0-9]+$', '')",
    "regexp_replace(lower({0}), '[^a-z0-9]', '', 'g')",
)  # fmt: skip


def _rewrites(pairs: Sequence[tuple[str, str]], steps: str) -> Iterator[str]:
    yield from (steps, *_REWRITES)
    one, other = sorted(pairs[0], key=len)
    before, found, after = other.partition(one)
    if found and before:
        yield f"replace({{0}}, {template_literal(before)}, '')"
    if mark := re.match(r"[^A-Za-z0-9]+[a-z]*", after):
        yield f"split_part({{0}}, {template_literal(mark[0])}, 1)"


def find_repair(
    con: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    """Expressions of {0} that make most pairs equal: of the first ids and of the second.

    They must keep different ids apart.
    """
    rewrites = [*_rewrites(pairs, respell_pairs(con, pairs)[1])]
    ways = [
        *((x, x) for x in rewrites),
        *(way for x in rewrites for way in ((x, "{0}"), ("{0}", x))),
    ]
    fits = ", ".join(
        f"count(*) FILTER ({one.format('a')} = {other.format('b')}) >= 0.9 * count(*) "
        f"AND count(DISTINCT {other.format('b')}) >= 0.9 * count(DISTINCT b)"
        for one, other in ways
    )
    rows = "SELECT unnest($1) AS a, unnest($2) AS b"
    a, b = (list(x) for x in zip(*pairs, strict=True))
    ((*found,),) = con.execute(f"SELECT {fits} FROM ({rows})", [a, b]).fetchall()
    return next((way for way, fits in zip(ways, found, strict=True) if fits), None)


def repair_call(role: str, tables: Sequence[Table], ways: Sequence[str]) -> Call:
    """The argument that changes the ids of a role by an expression for each table, {} if none does.

    Of lists of ids, the expression is one of each element.
    """
    texts = all(is_text(table.columns[table.roles[role]]) for table in tables)
    cast, values = "{}" if texts else "CAST({} AS VARCHAR)", list[str]()
    for table, way in zip(tables, ways, strict=True):
        column, lists = quote_name(table.roles[role]), table.lists if role == "item" else None
        if lists and table.with_lists:
            if table.with_lists.columns[lists.column] != "VARCHAR[]":
                return {}
            column, each = quote_name(lists.column), f"lambda x: {way.format('x')}"
            values.append(column if way == "{0}" else f"list_transform({column}, {each})")
        elif table.unit == "ids" and table.roles[role] != role:
            return {}
        else:
            values.append(way.format(cast.format(column)))
    return {role: values[0] if values[0] == values[1] else values}
