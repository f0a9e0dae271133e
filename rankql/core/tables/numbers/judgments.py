"""Judgments: assumed grades, one row per query and item, forbidden items, and subtopics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rankql.core.base import column_names
from rankql.core.base.errors import RankqlError, advise, require
from rankql.core.base.text import format_count, is_or_are
from rankql.core.metrics.macros import quote
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, is_number, quote_name, require_column, same_kind


def assume_grades(table: Table, names: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    """The judgments with grades, and the names of their columns.

    In BEIR the grade is called score. Judgments of items alone mean grade 1.
    """
    if names.get("rel") or table.find("rel"):
        return table, names
    score = table.find("score", names.get("score"))
    if score and "corpusid" in map(column_names.squash, table.columns):
        value = f"TRY_CAST({quote(score)} AS DOUBLE)"  # a run of BEIR has the same name
        for (number,) in table.rows(quote(score), f" WHERE {value} <> floor({value}) LIMIT 1"):
            text = f"{table.label} looks like a run: {score} is {number}, and grades are whole "
            text += "numbers. Pass the judgments, or "
            raise RankqlError(advise(text, {"rel": score}, " if these are the grades"))
        return table, {**names, "rel": score}
    if score or table.find("pos", names.get("pos")):
        return table, names
    origins = {**table.origins, "rel": "1 for every row"}
    return table.with_column("rel", "1", "INTEGER", origins=origins), names


def merge_rows(table: Table, by: Sequence[str], aggregate: str) -> Table:
    """The judgments with one row per query and item: its highest grade ("max"), the sum of its
    grades ("sum"), or the highest unless it has grades of both signs ("last").
    """
    rel = table.roles["rel"]
    ids = [table.roles["query"], table.roles["item"]]
    if (frame := table.session.frames.get(table.sql)) is not None:
        repeated = frame.height - frame[ids].n_unique()
    else:
        hashes = f"hash({', '.join(map(quote, ids))})"
        repeated = table.value(f"count(*) - count(DISTINCT {hashes})")
    if not repeated:
        return table
    names = [*ids, *(table.actual_name(name) for name in by if table.has(name))]
    selected = ", ".join(map(quote, dict.fromkeys(names)))
    grade, which = f"{aggregate}({quote(rel)})", "sum" if aggregate == "sum" else "highest grade"
    if aggregate == "last":
        table, grade, which = _last_grade(table, ids)
    table.note(
        f"{format_count(repeated, 'row')} with an item that its query already has "
        f"{is_or_are(repeated)} left out. The {which} counts",
    )
    sql = f"(SELECT {selected}, {grade} AS {quote(rel)} FROM {table.sql} GROUP BY ALL)"
    rows = table.load(sql, text=table.text)
    return replace(table, sql=rows.sql, columns=rows.columns, before=table)


def merge_systems(table: Table, by: Sequence[str], system: str) -> Table:
    """The judgments with one row per query and item, if rows of several systems have one grade."""
    query, item = (quote(table.roles[role]) for role in ("query", "item"))
    grade, of = table.number("rel"), quote(table.actual_name(system))
    rows = f"FROM {table.sql} GROUP BY {query}, {item} HAVING"
    if table.session.rows(f"SELECT 1 {rows} count(*) > count(DISTINCT {of}) LIMIT 1"):
        return table  # which is an error
    grades = f"{query}, {item}, min({grade}) AS low, max({grade}) AS high"
    for *ids, low, high in table.session.rows(f"SELECT {grades} {rows} low < high LIMIT 1"):
        text = (
            "{}: query {!r}, item {!r} has grades {:g} and {:g} in rows of several systems ({}). "
        )
        text += "Leave qrels= out to measure each system by the grades of its own rows, or pass "
        highest = {"rel": f"max({quote_name(table.roles['rel'])})"}
        text = text.format(table.label, *ids, low, high, system)
        raise RankqlError(advise(text, highest, " for the highest grade of each item"))
    return merge_rows(table, by, "max")


def _last_grade(table: Table, ids: Sequence[str]) -> tuple[Table, str, str]:
    """The table, the SQL of the highest grade of an item, and what it is called.

    If one has grades of both signs, as what was bought and returned, it is the last one by time.
    """
    rel, key = quote(table.roles["rel"]), ", ".join(map(quote, ids))
    both = f"SELECT {key} FROM {table.sql} GROUP BY {key} HAVING min({rel}) < 0 AND max({rel}) > 0"
    rows = (
        table.session.rows(f"{both} LIMIT 1")
        if is_number(table.columns[table.roles["rel"]])
        else []
    )
    if not rows:
        return table, f"max({rel})", "highest grade"
    time = column_names.find_name(table.columns, "time") or ""
    require(
        bool(time),
        f"{table.label}: query {rows[0][0]!r} has grades below and above 0 of item {rows[0][1]!r}, "
        "and no column of times says which is the last. Pass one row of each, or as an expression "
        "rel='sum(...)' or rel='max(...)'",
    )
    reads = {**table.computed, table.roles["rel"]: table.sources([table.roles["rel"], time])}
    table = replace(table, computed=reads)
    return table, f"arg_max({rel}, {quote(time)})", f"last grade by {time}"


def mark_forbidden(session: Session, table: Table | None, name: str) -> tuple[Table, Table]:
    """The judgments, and those of forbidden items: grade -1, and 0 for the other judged ones.

    name: a column of lists of ids, in a table with one row per query, or a BOOLEAN one.
    """
    if table is None:
        raise RankqlError(
            f"forbidden={name!r} is for judgments of their own. In a table with grades, give these "
            "items a grade below 0"
        )
    name = require_column(table, name, "forbidden")
    query, item, rel = (table.roles[role] for role in ("query", "item", "rel"))
    kind, listed, column = table.columns[item], table.columns[name], quote(name)
    known, forbidden = (
        quote(item),
        f"CASE WHEN TRY_CAST({column} AS BOOLEAN) THEN {quote(item)} END",
    )
    if listed.endswith("]"):
        fits = not listed.endswith("][]") and not listed.startswith(("JSON", "MAP", "STRUCT"))
        forbidden = f"unnest({column})"
        if not same_kind([kind, listed.removesuffix("[]")]):
            known, forbidden = (f"CAST({x} AS VARCHAR)" for x in (known, forbidden))
            kind = "VARCHAR"
    else:
        sql = f"SELECT count(TRY_CAST({column} AS BOOLEAN)) = count({column}) FROM {table.sql}"
        fits = table.unit != "ids" and session.value(sql)
    what = f"{table.label}: forbidden={name!r} is neither a list of ids, in a table with one row "
    require(fits, f"{what}per query, nor BOOLEAN, but {listed}. Name such a column")
    kinds = {query: table.columns[query], item: kind, rel: "INTEGER"}
    query, item, rel = map(quote, kinds)
    graded = f"FROM {table.sql} WHERE {rel} IS NOT NULL"  # other queries are not judged
    sql = f"""(SELECT {query}, {item}, min({rel}) AS {rel} FROM (
        SELECT {query}, {known} AS {item}, 0 AS {rel} {graded} UNION ALL
        SELECT {query}, {forbidden}, -1 FROM {table.sql} WHERE {query} IN (SELECT {query} {graded}))
        WHERE {item} IS NOT NULL OR {rel} = 0 GROUP BY ALL)"""
    marked = replace(table, context={**table.context, "forbidden": name})
    return marked, replace(table, sql=sql, columns=kinds)


def list_subtopics(table: Table, threshold: float) -> tuple[Table, list[str]]:
    """The judgments with one row per item and the list of its subtopics, and a note on it."""
    if table.has(column_names.SUBTOPICS):
        return table, []
    name = column_names.find_name(table.columns, "subtopic")
    # The second column of other TREC judgments is the same in all rows.
    if name is None or (
        name == "iteration" and table.rows(f"count(DISTINCT {quote(name or '')})") <= [(1,)]
    ):
        raise RankqlError(
            f"{table.label} has no subtopics. Metrics such as alpha_nDCG@10 need one row per "
            f"subtopic, with a column subtopic, or a column {column_names.SUBTOPICS} of lists"
        )
    grade, rel = table.number("rel"), quote(table.roles["rel"])
    ids = ", ".join(quote(table.roles[role]) for role in ("query", "item"))
    subtopic = f"CAST({quote(name)} AS VARCHAR)"
    others = [x for x in table.columns if x not in (name, *table.roles.values())]
    fields = [
        ids,
        f"max({grade}) AS {rel}",
        *(f"any_value({quote(x)}) AS {quote(x)}" for x in others),
    ]
    relevant = f"FILTER (WHERE {grade} >= {threshold})"
    fields.append(f"list(DISTINCT {subtopic}) {relevant} AS {column_names.SUBTOPICS}")
    rows = f"(SELECT {', '.join(fields)} FROM {table.sql} GROUP BY {ids})"
    note = f"{table.label}: the subtopics are those of {name}, and an item has its highest grade"
    columns = {x: kind for x, kind in table.columns.items() if x != name}
    columns |= {table.roles["rel"]: "DOUBLE", column_names.SUBTOPICS: "VARCHAR[]"}
    return replace(table, sql=rows, columns=columns), [note]
