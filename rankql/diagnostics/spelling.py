"""Ids that run and judgments write differently, such as 00004 and 4."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankql.macros import quote
from rankql.sources.tables import Table, is_text

_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_WHOLE, _ZEROS, _NEGATIVE = map(re.compile, (r"(-?\d+)[.]0+", r"0*(\d.*)", r"-0*(\d.*)"))


class Step(NamedTuple):
    """One normalisation of an id as text: in SQL, where it may change it, and in Python.

    The SQL has no backslash, because it is copied from messages.
    """

    sql: str
    where: str
    normalise: Callable[[str], str]

    def apply(self, value: str) -> str:
        """The SQL of the id in `value`, normalised."""
        return self.sql.replace("{0}", value)


STEPS = (
    Step("trim({0})", "true", lambda x: x.strip(" ")),
    Step(f"trim({{0}}, {_BLANKS})", "true", lambda x: x.strip(" \t\n\r\xa0\ufeff")),
    Step("nfc_normalize({0})", "true", lambda x: unicodedata.normalize("NFC", x)),
    Step("lower({0})", "true", str.lower),
    Step(
        "coalesce(nullif(regexp_extract({0}, '^(-?[0-9]+)[.]0+$', 1), ''), {0})",
        "contains({0}, '.')",
        lambda x: match[1] if (match := _WHOLE.fullmatch(x)) else x,
    ),
    Step(
        "coalesce(nullif(regexp_extract({0}, '^0*([0-9].*)$', 1), ''), {0})",
        "{0}[:1] = '0'",
        lambda x: match[1] if (match := _ZEROS.fullmatch(x)) else x,
    ),
    Step(
        "coalesce('-' || nullif(regexp_extract({0}, '^-0*([0-9].*)$', 1), ''), {0})",
        "{0}[:1] = '-'",
        lambda x: f"-{match[1]}" if (match := _NEGATIVE.fullmatch(x)) else x,
    ),
)


def with_normal(source: str, column: str) -> str:
    """SQL of a source with another column, normal_<column>: the id after all steps."""
    normal = f"normal_{column}"
    sql = f"(SELECT *, CAST({column} AS VARCHAR) AS {normal} FROM {source})"
    for step in STEPS:
        where = step.where.replace("{0}", normal)
        value = f"CASE WHEN {where} THEN {step.apply(normal)} ELSE {normal} END"
        sql = f"(SELECT * REPLACE ({value} AS {normal}) FROM {sql})"
    return sql


def repair(run: Table, qrels: Table | None, pairs: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """What to pass so that these ids of run and judgments match, by role."""
    assert qrels
    remedies = []
    for role, examples in pairs.items():
        columns = [table.roles[role] for table in (run, qrels)]
        texts = [text for pair in examples for text in pair]
        steps = []
        for step in STEPS:
            if (changed := [*map(step.normalise, texts)]) != texts:
                steps.append(step)
            texts = changed
        if any(table.unit == "ids" and table.roles[role] != role for table in (run, qrels)):
            return "Write them the same way in both tables"
        typed = all(is_text(table.columns[table.roles[role]]) for table in (run, qrels))
        values = [quote_if_needed(name) for name in columns]
        values = values if typed else [f"CAST({value} AS VARCHAR)" for value in values]
        for step in steps:
            values = [step.apply(value) for value in values]
        if values[0] == values[1]:
            remedies.append(f'{role}="{values[0]}"')
        else:
            remedies.append(f"{role}={values!r}")
    return f"Pass {' and '.join(remedies)}"


def quote_if_needed(name: str) -> str:
    """The name of a column in SQL."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else quote(name)
