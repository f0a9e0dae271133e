"""Do run and judgments write ids the same way? Not if one has 00004 and the other 4."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
# Ids without it are left as they are by all steps, which saves 5 ms.
_CHANGED = r"[^!-@\[-~]|^-?0|[.]0"


class Step(NamedTuple):
    """One normalisation of an id as text, and the condition on the ids that it may change.

    The SQL has no backslash, because it is copied from messages.
    """

    sql: str
    where: str = "true"

    def apply(self, value: str) -> str:
        """The SQL of the id in `value`, normalised."""
        return self.sql.replace("{0}", value)


STEPS = (
    Step("trim({0})"),
    Step(f"trim({{0}}, {_BLANKS})"),
    Step("nfc_normalize({0})"),
    Step("lower({0})"),
    Step(
        "coalesce(nullif(regexp_extract({0}, '^(-?[0-9]+)[.]0+$', 1), ''), {0})",
        "contains({0}, '.')",
    ),
    Step("coalesce(nullif(regexp_extract({0}, '^0*([0-9].*)$', 1), ''), {0})", "{0}[:1] = '0'"),
    Step(
        "coalesce('-' || nullif(regexp_extract({0}, '^-0*([0-9].*)$', 1), ''), {0})",
        "{0}[:1] = '-'",
    ),
)


def with_normal(source: str, column: str, steps: Sequence[Step] = STEPS) -> str:
    """SQL of a source with another column, normal_<column>: the id after these steps."""
    normal = f"normal_{column}"
    sql = f"(SELECT *, CAST({column} AS VARCHAR) AS {normal} FROM {source})"
    for step in steps:
        sql = f"(SELECT * REPLACE ({_value(step, normal)} AS {normal}) FROM {sql})"
    return sql


def _value(step: Step, id_: str) -> str:
    where = step.where.replace("{0}", id_)
    return f"CASE WHEN {where} THEN {step.apply(id_)} ELSE {id_} END"


def _shares(run_sql: RunSql, ids: str) -> list[Sequence[float]]:
    """The share of the ids that each step changes, after those before it, by `side`."""
    sql, shares = f"(SELECT side, id AS id_0 FROM {ids})", []
    for i, step in enumerate(STEPS):
        sql = f"(SELECT *, {_value(step, f'id_{i}')} AS id_{i + 1} FROM {sql})"
        shares.append(f"avg(CAST(id_{i} <> id_{i + 1} AS INTEGER))")
    rows = run_sql(f"SELECT {', '.join(shares)} FROM {sql} GROUP BY side ORDER BY side")
    return [*zip(*rows, strict=True)]


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
                f"items would match{where}. {repair(run_sql, run, inputs.qrels, pairs)}"
            )
    return notes


def _find_forms(run_sql: RunSql, inputs: Inputs) -> dict[str, list[Step]]:
    """The steps that change the ids of one side more often, by role; by the first ids of both."""
    assert inputs.qrels
    tables, forms = [*inputs.runs.values(), inputs.qrels], {}
    for role in ("query", "item"):
        if not any(is_text(table.columns[table.roles[role]]) for table in tables):
            continue
        sides = " UNION ".join(
            f"(SELECT '{side}' AS side, CAST({role} AS VARCHAR) AS id FROM {side} LIMIT {SAMPLE})"
            for side in ("run", "qrels")
        )
        ids = f"({sides})"
        if not run_sql(f"SELECT 1 FROM {ids} WHERE regexp_matches(id, '{_CHANGED}') LIMIT 1"):
            continue
        shares = _shares(run_sql, ids)
        changed = [step for step, each in zip(STEPS, shares, strict=True) if any(each)]
        apart = any(max(each) - min(each) > 0.01 for each in shares)
        if changed and (apart or _matches_more(run_sql, ids)):
            forms[role] = changed
    return forms


def _matches_more(run_sql: RunSql, ids: str) -> bool:
    """Is an id of the run equal to one of qrels only after all steps?"""
    left, right = (f"(FROM {ids} WHERE side = '{side}')" for side in ("run", "qrels"))
    left = with_normal(f"(FROM {left} ANTI JOIN {right} USING (id))", "id")
    right = with_normal(right, "id")
    return bool(run_sql(f"SELECT 1 FROM {left} SEMI JOIN {right} USING (normal_id) LIMIT 1"))


def repair(
    run_sql: RunSql, run: Table, qrels: Table | None, pairs: Mapping[str, Sequence[Sequence[str]]]
) -> str:
    """What to pass so that these ids of run and judgments match, by role."""
    assert qrels
    remedies = []
    for role, examples in pairs.items():
        columns = [table.roles[role] for table in (run, qrels)]
        texts = literal([text for pair in examples for text in pair])
        shares = _shares(run_sql, f"(SELECT 0 AS side, unnest({texts}) AS id)")
        steps = [step for step, share in zip(STEPS, shares, strict=True) if any(share)]
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
