"""Ids that are spelled differently: the steps that make them alike, as SQL."""

from __future__ import annotations

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
