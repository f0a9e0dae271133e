"""Ids that run and judgments write in different forms, such as 00004 and 4."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankql.evaluation.overlap import Counters, RunSql, run_label
from rankql.macros import quote
from rankql.sources.inputs import Inputs
from rankql.sources.tables import Table, is_text
from rankql.text import show_id

_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(65279)"
_WHOLE, _ZEROS, _NEGATIVE = map(re.compile, (r"(-?\d+)[.]0+", r"0*(\d.*)", r"-0*(\d.*)"))


class Step(NamedTuple):
    """One normalisation of an id as text: in SQL, where it may change it, and in Python.

    The SQL has no backslash, because it is copied from messages.
    """

    sql: str
    where: str
    normalise: Callable[[str], str]
    # What lines of ids have if it changes one of them.
    needs: str

    def apply(self, value: str) -> str:
        """The SQL of the id in `value`, normalised."""
        return self.sql.replace("{0}", value)


STEPS = (
    Step("trim({0})", "true", lambda x: x.strip(" "), " "),
    Step(
        f"trim({{0}}, {_BLANKS})",
        "true",
        lambda x: x.strip(" \t\n\r\xa0\ufeff"),
        r"[\t\r\xa0\ufeff]",
    ),
    Step("nfc_normalize({0})", "true", lambda x: unicodedata.normalize("NFC", x), r"[^\x00-\x7f]"),
    Step("lower({0})", "true", str.lower, r"[A-Z]|[^\x00-\x7f]"),
    Step(
        "coalesce(nullif(regexp_extract({0}, '^(-?[0-9]+)[.]0+$', 1), ''), {0})",
        "contains({0}, '.')",
        lambda x: match[1] if (match := _WHOLE.fullmatch(x)) else x,
        r"\.0",
    ),
    Step(
        "coalesce(nullif(regexp_extract({0}, '^0*([0-9].*)$', 1), ''), {0})",
        "{0}[:1] = '0'",
        lambda x: match[1] if (match := _ZEROS.fullmatch(x)) else x,
        r"^0",
    ),
    Step(
        "coalesce('-' || nullif(regexp_extract({0}, '^-0*([0-9].*)$', 1), ''), {0})",
        "{0}[:1] = '-'",
        lambda x: f"-{match[1]}" if (match := _NEGATIVE.fullmatch(x)) else x,
        r"^-0",
    ),
)


def with_normal(source: str, column: str, steps: Sequence[Step] = STEPS) -> str:
    """SQL of a source with another column, normal_<column>: the id after these steps."""
    normal = f"normal_{column}"
    sql = f"(SELECT *, CAST({column} AS VARCHAR) AS {normal} FROM {source})"
    for step in steps:
        where = step.where.replace("{0}", normal)
        value = f"CASE WHEN {where} THEN {step.apply(normal)} ELSE {normal} END"
        sql = f"(SELECT * REPLACE ({value} AS {normal}) FROM {sql})"
    return sql


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
    example = ", ".join(f"'{role}': [{role}, other_{role}]" for role in forms)
    texts = "CAST(query AS VARCHAR) AS query, CAST(item AS VARCHAR) AS item"
    rows = run_sql(f"""
        SELECT system, count(exact), count(near),
            {distinct} AND (SELECT {distinct} FROM {sides["qrels"]}),
            min({{{example}}}, 3) FILTER (WHERE exact IS NULL AND near)
        FROM (SELECT system, {texts}, normal_query, normal_item FROM {sides["run"]})
        LEFT JOIN (SELECT {texts}, true AS exact FROM {sides["qrels"]}) USING (query, item)
        LEFT JOIN (SELECT normal_query, normal_item, true AS near, min(query) AS other_query,
                       min(item) AS other_item
                   FROM (SELECT {texts}, normal_query, normal_item FROM {sides["qrels"]})
                   GROUP BY ALL) USING (normal_query, normal_item)
        GROUP BY system ORDER BY system""")
    notes = []
    for name, exact, near, is_distinct, examples in rows:
        if is_distinct and near - exact >= max(_LEAST_PAIRS, _LEAST_SHARE * exact):
            run = inputs.runs.get(name) or next(iter(inputs.runs.values()))
            pairs = {role: [example[role] for example in examples] for role in forms}
            pairs = {role: ids for role, ids in pairs.items() if any(a != b for a, b in ids)}
            said = " and ".join(
                f"{role} ids such as {show_id(a)} and {show_id(b)}"
                for role, ids in pairs.items()
                for a, b in [next(pair for pair in ids if pair[0] != pair[1])]
            )
            where = "" if parts == 1 else f" in one of {parts} parts of the queries"
            notes.append(
                f"{run_label(name)} and qrels write {said} differently: {near - exact:,} more "
                f"items would match{where}. {repair(run, inputs.qrels, pairs)}"
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
    texts = ", ".join(f"CAST({role} AS VARCHAR)" for role in roles)
    rows = run_sql(
        f"(SELECT 'run', {texts} FROM run LIMIT {_SAMPLE}) UNION ALL "
        f"(SELECT 'qrels', {texts} FROM qrels LIMIT {_SAMPLE})"
    )
    forms = {}
    for i, role in enumerate(roles, 1):
        left, right = ([*{row[i] for row in rows if row[0] == x}] for x in ("run", "qrels"))
        lines = "\n".join([*left, *right])
        changed = [step for step in STEPS if re.search(step.needs, lines, re.MULTILINE)]
        shares = [[_share(step, ids) for ids in (left, right)] for step in changed]
        changed = [step for step, each in zip(changed, shares, strict=True) if any(each)]
        apart = any(abs(a - b) > 0.01 for a, b in shares)
        if changed and (apart or _matches_more(left, right)):
            forms[role] = changed
    return forms


def _share(step: Step, ids: Sequence[str]) -> float:
    return sum(step.normalise(x) != x for x in ids) / (len(ids) or 1)


def _normalise(text: str) -> str:
    for step in STEPS:
        text = step.normalise(text)
    return text


def _matches_more(left: Sequence[str], right: Sequence[str]) -> bool:
    known = {*right}
    return not {_normalise(x) for x in left if x not in known}.isdisjoint(map(_normalise, right))


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
