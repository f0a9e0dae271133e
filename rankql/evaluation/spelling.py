"""Do run and judgments write ids the same way? Not if one has 00004 and the other 4."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankql.errors import RankqlError
from rankql.evaluation.overlap import (
    SAMPLE,
    Counters,
    RunSql,
    describe_chunk,
    few_common_items_note,
    is_small_overlap,
    item_overlap,
    no_common_item_message,
    run_label,
)
from rankql.evaluation.steps import SqlRunner
from rankql.macros import literal, quote
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


# From so many judged queries on, that none has a judged item is no chance.
SEVERAL_QUERIES = 5


def no_common_items(
    run_sql: RunSql, inputs: Inputs, system: str | None, queries: int
) -> tuple[bool, str]:
    """Whether no item in common with so many judged queries is an error, and the message.

    It may be true of few queries, if ids are written the same way.
    """
    is_error = queries >= SEVERAL_QUERIES or inputs.as_text("item")
    if not is_error and not (is_error := bool(describe_chunk(run_sql, inputs))):
        only = "" if system is None else f"WHERE system = {literal(system)}"
        run, qrels = (with_normal(table, "item") for table in ("run", "qrels"))
        alike = f"SELECT 1 FROM {run} SEMI JOIN {qrels} USING (query, normal_item) {only} LIMIT 1"
        is_error = bool(run_sql(alike))
    return is_error, no_common_item_message(run_sql, inputs, system, is_error)


def require_common_items(run_sql: SqlRunner, inputs: Inputs, counters: Counters) -> list[str]:
    """Refuse a run without any judged item, unless it may be true; note a run with few of them."""
    counts = counters.items
    judged = {each.system: each.judged for each in counters.queries}
    for part in dict.fromkeys([max(judged.values(), default=0) // SAMPLE + 1, 1]):
        if any(is_small_overlap(*count) for count in counts):
            counts = item_overlap(run_sql, inputs, part)
    notes = []
    for count in counts:
        system, *_, common = count
        if not common:
            is_error, message = no_common_items(run_sql, inputs, system, judged[system])
            if is_error:
                raise RankqlError(message)
            notes.append(message)
        elif is_small_overlap(*count):
            notes.append(few_common_items_note(*count))
    if any(table.unit == "ids" for table in inputs.runs.values()):  # lists of ids
        notes += [f"{chunk}. They count as unjudged" for chunk in describe_chunk(run_sql, inputs)]
    return notes


# What is worth a note.
_LEAST_PAIRS, _LEAST_SHARE = 20, 0.05


def note_spelling(run_sql: RunSql, inputs: Inputs, counters: Counters) -> list[str]:
    """Notes on systems of which more pairs of query and item match if ids are written alike."""
    unmatched = any(
        min(items, judged) - common >= _LEAST_PAIRS for _, items, judged, common in counters.items
    ) or any(each.queries > each.judged for each in counters.queries)
    if not unmatched or not (forms := _find_forms(run_sql, inputs)):
        return []
    parts = max(each.queries for each in counters.queries) // SAMPLE + 1
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
        f"(SELECT 'run', {texts} FROM run LIMIT {SAMPLE}) UNION ALL "
        f"(SELECT 'qrels', {texts} FROM qrels LIMIT {SAMPLE})"
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
