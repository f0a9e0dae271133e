"""Logs that are split: the rows of test are the judgments, those of train the interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import PARTS, SPLITS, find_name, squash
from rankql.sources.session import Session
from rankql.sources.tables import Table


def split_log(
    session: Session, qrels: Table | None, train: Table | None, options: Mapping[str, Any]
) -> tuple[Table | None, Table | None]:
    """The judgments and the training interactions, maybe from one table that is split.

    It is one of `leave_one_out` or `time_split`: its column `split` has test and train, and some
    query has rows in both.
    """
    query = options.get("query")
    query = query[1] if isinstance(query, list | tuple) and len(query) == 2 else query
    for table in filter(None, (qrels, train)):
        name = find_name(table.columns, [x for x in SPLITS if x not in options.values()])
        key = table.find("query", query) if name else None
        if name is None or key is None:
            continue
        part = f"lower(trim(CAST({quote(name)} AS VARCHAR)))"
        if squash(name) == "istest":
            part = f"CASE WHEN {part} IN ('1', 'true') THEN 'test' ELSE 'train' END"
        else:
            known = " ".join(f"WHEN {literal(x)} THEN {literal(y)}" for x, y in PARTS.items())
            part = f"CASE {part} {known} ELSE {part} END"
        parts = f"SELECT list(DISTINCT coalesce({part}, 'NULL')) AS parts FROM {table.sql}"
        values, most = session.row(
            "SELECT list(DISTINCT part), max(len(parts)) FROM (SELECT parts, unnest(parts) AS part "
            f"FROM ({parts} GROUP BY {quote(key)}))"
        )
        values = sorted(values or [])
        if len(values) < 2 or (most == 1 and "test" not in values):
            continue
        if most == 1:
            session.note(
                table.label,
                f"each {key} is in one part of {name} ({', '.join(values)}), so all "
                "rows are judgments",
            )
            if table is qrels:
                qrels = replace(table, context={**table.context, "split": ", ".join(values)})
            continue
        if values != ["test", "train"]:
            part = f" with {name} = 'test'" if "test" in values else " of one part"
            raise RankqlError(
                f"{table.label} has a column {name} with {', '.join(values[:5])}. "
                f"Keep the rows{part}"
            )
        if train is None and qrels:
            selected = f"SELECT * EXCLUDE ({quote(name)}) FROM {table.sql} WHERE {part}"
            columns = {x: kind for x, kind in table.columns.items() if x != name}
            test, rest = (
                replace(table, sql=f"({selected} = '{x}')", columns=columns, context={"split": x})
                for x in ("test", "train")
            )
            return test, replace(rest, label="train")
        what = "Leave out train=" if table is qrels else "Pass this table as qrels"
        raise RankqlError(
            f"{table.label} has a column {name} with train and test, and train= is passed too. "
            f"{what}, or keep the rows of one part in each table"
        )
    return qrels, train
