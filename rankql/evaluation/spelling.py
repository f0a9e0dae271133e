"""Ids that run and judgments write in different forms, such as 00004 and 4."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankql.evaluation.overlap import Counters, RunSql, run_label
from rankql.sources.inputs import Inputs
from rankql.sources.tables import Table, is_text

_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_ZEROS, _WHOLE = re.compile(r"(-?)0+(?=\d)"), re.compile(r"(-?\d+)\.0+")


class Step(NamedTuple):
    """One normalisation of an id as text: in SQL, where it changes something, and in Python."""

    sql: str
    where: str
    normalise: Callable[[str], str]


STEPS = (
    Step(f"trim({{0}}, {_BLANKS})", "true", lambda x: x.strip(" \t\n\r\xa0\ufeff")),
    Step("nfc_normalize({0})", "true", lambda x: unicodedata.normalize("NFC", x)),
    Step("lower({0})", "true", str.lower),
    Step(
        r"regexp_replace({0}, '^(-?[0-9]+)\.0+$', '\1')", "contains({0}, '.')",
        lambda x: match[1] if (match := _WHOLE.fullmatch(x)) else x,
    ),
    Step(
        r"regexp_replace({0}, '^(-?)0+([0-9])', '\1\2')", "{0}[:1] IN ('0', '-')",
        lambda x: _ZEROS.sub(r"\1", x, count=1) if _ZEROS.match(x) else x,
    ),
)  # fmt: skip


def with_normal(source: str, column: str, steps: Sequence[Step] = STEPS) -> str:
    """SQL of a source with another column, normal_<column>: the id after these steps."""
    normal = f"normal_{column}"
    sql = f"(SELECT *, CAST({column} AS VARCHAR) AS {normal} FROM {source})"
    for step in steps:
        value = f"CASE WHEN {step.where} THEN {step.sql} ELSE {{0}} END".format(normal)
        sql = f"(SELECT * REPLACE ({value} AS {normal}) FROM {sql})"
    return sql


def show_id(value: object) -> str:
    """An id in a sentence; letters with separate accents look like others, so they are escaped."""
    alike = isinstance(value, str) and not unicodedata.is_normalized("NFC", value)
    return ascii(value) if alike else repr(value)


# Ids that decide whether forms differ, queries that are compared, and what is worth a note.
_SAMPLE, _LEAST_PAIRS, _LEAST_SHARE = 1000, 20, 0.05


def note_spelling(run_sql: RunSql, inputs: Inputs, counters: Counters) -> list[str]:
    """Notes on systems of which more pairs of query and item match if ids are written alike."""
    unmatched = any(
        min(items, judged) - common >= _LEAST_PAIRS for _, items, judged, common in counters.items
    ) or any(each.queries > each.judged for each in counters.queries)
    if not unmatched or not (forms := _find_forms(run_sql, inputs)):
        return []
    parts = max(each.queries for each in counters.queries) // _SAMPLE + 1
    system = "system" if inputs.many else "NULL"
    sides = {}
    for side in ("run", "qrels"):
        keys = f"{system} AS system, query, item" if side == "run" else "query, item"
        sql = f"(SELECT DISTINCT {keys} FROM {side})"
        for role in ("query", "item"):
            sql = with_normal(sql, role, forms.get(role, ()))
        sides[side] = f"(FROM {sql} WHERE hash(normal_query) % {parts} = 0)"
    distinct = " AND ".join(
        f"count(DISTINCT {role}) = count(DISTINCT normal_{role})" for role in forms
    )
    example = ", ".join(f"{role}, other_{role}" for role in forms)
    others = ", ".join(f"min({role}) AS other_{role}" for role in ("query", "item"))
    rows = run_sql(f"""
        SELECT system, count(exact), count(near), {distinct}
            AND (SELECT {distinct} FROM {sides["qrels"]}),
            min([{example}]) FILTER (WHERE exact IS NULL AND near)
        FROM (SELECT system, CAST(query AS VARCHAR) AS query, CAST(item AS VARCHAR) AS item,
                  normal_query, normal_item FROM {sides["run"]})
        LEFT JOIN (SELECT CAST(query AS VARCHAR) AS query, CAST(item AS VARCHAR) AS item,
                       true AS exact FROM {sides["qrels"]}) USING (query, item)
        LEFT JOIN (SELECT normal_query, normal_item, true AS near,
                       {others.replace("min(", "min(CAST(").replace(") AS", " AS VARCHAR)) AS")}
                   FROM {sides["qrels"]} GROUP BY ALL) USING (normal_query, normal_item)
        GROUP BY system ORDER BY system""")
    notes = []
    for name, exact, near, is_distinct, ids in rows:
        if is_distinct and near - exact >= max(_LEAST_PAIRS, _LEAST_SHARE * exact):
            run = inputs.runs.get(name) or next(iter(inputs.runs.values()))
            pairs = dict(zip(forms, zip(ids[::2], ids[1::2], strict=True), strict=True))
            said = " and ".join(
                f"{role} ids such as {show_id(a)} and {show_id(b)}"
                for role, (a, b) in pairs.items()
                if a != b
            )
            notes.append(
                f"{run_label(name)} and qrels write {said} differently: "
                f"{near - exact:,} more items would match{'' if parts == 1 else ' in a sample'}. "
                f"{repair(run, inputs.qrels, pairs)}"
            )
    return notes


def _find_forms(run_sql: RunSql, inputs: Inputs) -> dict[str, list[Step]]:
    """The steps that change the ids of one side more often, by role; by the first ids of both."""
    assert inputs.qrels
    tables = [*inputs.runs.values(), inputs.qrels]
    roles = [
        role
        for role in ("query", "item")
        if any(is_text(table.columns[table.roles[role]]) for table in tables)
    ]
    if not roles:
        return {}
    texts = ", ".join(f"list(DISTINCT CAST({role} AS VARCHAR))" for role in roles)
    firsts = (
        f"SELECT {texts} FROM (SELECT {', '.join(roles)} FROM {side} LIMIT {_SAMPLE})"
        for side in ("run", "qrels")
    )
    samples = run_sql(" UNION ALL ".join(firsts))
    forms = {}
    for role, *sides in zip(roles, *samples, strict=True):
        left, right = ([x for x in ids or () if x is not None] for ids in sides)
        shares = {
            step: [sum(step.normalise(x) != x for x in ids) / (len(ids) or 1)
                   for ids in (left, right)]
            for step in STEPS
        }  # fmt: skip
        changed = [step for step, each in shares.items() if any(each)]
        apart = any(abs(a - b) > 0.01 for a, b in shares.values())
        if changed and (apart or _matches_more(left, right)):
            forms[role] = changed
    return forms


def _normalise(text: str) -> str:
    for step in STEPS:
        text = step.normalise(text)
    return text


def _matches_more(left: Sequence[str], right: Sequence[str]) -> bool:
    known = {*right}
    return not {_normalise(x) for x in left if x not in known}.isdisjoint(map(_normalise, right))


def repair(run: Table, qrels: Table | None, pairs: Mapping[str, tuple[object, object]]) -> str:
    """What to pass so that these ids of run and judgments match."""
    assert qrels
    remedies = []
    for role, ids in pairs.items():
        names = [table.roles[role] for table in (run, qrels)]
        if any(table.unit == "ids" and table.roles[role] != role for table in (run, qrels)):
            return "Write them the same way in both"
        texts = [*map(str, ids)]
        steps = []
        for step in STEPS:
            changed = [step.normalise(text) for text in texts]
            if changed != texts:
                steps.append(step)
            texts = changed
        if not steps:
            continue
        values = []
        typed = all(is_text(table.columns[table.roles[role]]) for table in (run, qrels))
        for name in names:
            plain = name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"'
            value = plain if typed else f"CAST({plain} AS VARCHAR)"
            for step in steps:
                value = step.sql.format(value)
            values.append(value.replace(f", {_BLANKS}", "") if " " in f"{ids}" else value)
        same = len({*values}) == 1
        remedies.append(
            f"{role}={values[0] if same else values!r}" if not same else f'{role}="{values[0]}"'
        )
    return f"Pass {' and '.join(remedies)}" if remedies else "Write them the same way in both"
