"""Training and test: logs that are split, interactions of training, items that could be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Number
from operator import index
from typing import Any

from rankql.core.base.column_names import PARTS, SPLITS, find_name, squash
from rankql.core.base.errors import RankqlError, require_whole_number
from rankql.core.base.text import join_words
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import assign_roles, find_list
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Data, Table
from rankql.shapes.choose.computed import resolve_columns
from rankql.shapes.unpack.lists import unnest_lists


def split_log(
    session: Session,
    runs: Iterable[Table],
    qrels: Table | None,
    train: Table | None,
    options: Mapping[str, Any],
) -> tuple[Table | None, Table | None]:
    """The judgments and the training interactions, maybe from one table that is split.

    It is one of `leave_one_out` or `time_split`: its column `split` has test and train, and some
    query has rows in both. Where each query is in one part, the judgments are those of the parts
    of which the runs have queries.
    """
    query = options.get("query")
    of_runs, query = query if isinstance(query, list | tuple) and len(query) == 2 else (query,) * 2
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
            keys = f"SELECT {quote(key)} AS key, {part} AS part FROM {table.sql}"
            judged = _parts_of_runs(session, runs, of_runs, keys) or values
            where, rows = f"each {key} is in one part of {name} ({', '.join(values)})", "all rows"
            if judged != values:
                rows = f"the rows of {join_words(judged)}"
                where += f", and the run has queries of {join_words(judged)} only"
            session.note(table.label, f"{where}, so {rows} are judgments")
            if table is qrels:
                some = table if judged == values else _select(table, name, part, judged)
                qrels = replace(some, context={**table.context, "split": ", ".join(judged)})
            continue
        if values != ["test", "train"]:
            part = f" with {name} = 'test'" if "test" in values else " of one part"
            raise RankqlError(
                f"{table.label} has a column {name} with {', '.join(values[:5])}. "
                f"Keep the rows{part}"
            )
        if train is None and qrels:
            test, rest = (_select(table, name, part, [x]) for x in ("test", "train"))
            return test, replace(rest, label="train")
        what = "Leave out train=" if table is qrels else "Pass this table as qrels"
        raise RankqlError(
            f"{table.label} has a column {name} with train and test, and train= is passed too. "
            f"{what}, or keep the rows of one part in each table"
        )
    return qrels, train


def _select(table: Table, name: str, part: str, parts: Sequence[str]) -> Table:
    """The rows of these parts, without the column that names them."""
    selected = f"SELECT * EXCLUDE ({quote(name)}) FROM {table.sql}"
    sql = f"({selected} WHERE {part} IN ({', '.join(map(literal, parts))}))"
    columns = {x: kind for x, kind in table.columns.items() if x != name}
    return replace(table, sql=sql, columns=columns, context={"split": ", ".join(parts)})


def _parts_of_runs(session: Session, runs: Iterable[Table], query: Any, parts: str) -> list[str]:
    """The parts of which a run has queries; none if some run has no column of queries yet."""
    columns = [(run.find("query", query), run.sql) for run in runs]
    if not all(column for column, _ in columns):
        return []
    ranked = " UNION ALL ".join(
        f"SELECT CAST({quote(x)} AS VARCHAR) FROM {y}" for x, y in columns if x
    )
    distinct = f"SELECT DISTINCT part FROM ({parts}) WHERE CAST(key AS VARCHAR) IN ({ranked})"
    return sorted(x for (x,) in session.rows(f"{distinct} AND part IS NOT NULL"))


def read_beyond(
    session: Session,
    train: Table | None,
    catalogue: Data | int | None,
    columns: Mapping[str, Any],
    runs: Sequence[Table],
    others: Sequence[Table],
) -> tuple[Table | None, Table | int | None]:
    """The interactions and the catalogue, whose columns are recognised like those of judgments.

    others: the tables whose ids they share, with their roles.
    """
    ids: dict[str, Any] = {role: columns.get(role) for role in ("query", "item")}
    same = {role: [x.roles[role] for x in others if role in x.roles] for role in ids}

    def read(table: Table, *roles: str) -> Table:
        needed = {role: ids[role] for role in roles}
        item: dict[str, Any] = {}
        if isinstance(needed["item"], list | tuple):  # the first is of runs, which are unnested
            item = {"item": needed.pop("item")[-1]}
        named, (_, (table,), _) = resolve_columns(session, needed, [[*runs], [table]])
        if item:
            of_item, (_, (table,), _) = resolve_columns(session, item, [[], [table]])
            named[1] |= of_item[1]
        return assign_roles(table, named[1], roles, same, only=True)

    if train:
        if find_list(train, "relevant"):
            train = unnest_lists({}, train, ids)[1] or train
        train = read(train, "query", "item")
    if isinstance(catalogue, Number):
        size: Any = index(catalogue) if isinstance(catalogue, Integral) else catalogue
        require_whole_number("catalogue", size, 1)
        return train, size
    if catalogue is None:
        return train, None
    table = session.table(catalogue, "catalogue")
    if len(table.columns) == 1:
        return train, replace(table, roles={"item": next(iter(table.columns))})
    return train, read(table, "item")
