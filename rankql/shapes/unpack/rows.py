"""What leaves this package: tables with a row per item, as tidy ones are.

`make_tidy` is its only way in for runs and judgments.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.core.base.column_names import PLAIN_IDS, ROLES, find_name, list_side, says
from rankql.core.base.errors import Question, require
from rankql.core.base.text import format_count, is_or_are
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.candidates import fields_of
from rankql.core.tables.inputs import TidyTables
from rankql.core.tables.numbers.judgments import assume_grades
from rankql.core.tables.numbers.order import add_row_number
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Runs, Table, is_id, is_nested, is_number
from rankql.shapes.choose import computed
from rankql.shapes.choose.cells import unpack_objects
from rankql.shapes.choose.choice import find_system, require_one_name
from rankql.shapes.unpack.events import map_events
from rankql.shapes.unpack.lists import unnest_lists

# More patterns of columns are not kinds, but values that lack at random.
_MOST = 20
# So many rows with a query or ids of another kind may be judgments too.
_FEW = 3


def make_tidy(session: Session, tables: TidyTables, by: Mapping[str, str]) -> TidyTables:
    """The tables with a row per item, a grade for each judgment, and one column for each number.

    by: the attributes, each with the argument that names it.
    """
    tidy = _unpack(session, tables, by)
    of_runs, of_qrels = tidy.names
    qrels, numbers = tidy.qrels, ("pos", "score")
    runs = {
        x: require_one_name(table, numbers if qrels else ("rel", *numbers), of_runs)
        for x, table in tidy.runs.items()
    }
    if qrels:
        qrels, of_qrels = assume_grades(qrels, of_qrels)
        qrels = require_one_name(qrels, ("rel",), of_qrels)
    return replace(tidy, runs=runs, qrels=qrels, names=(of_runs, of_qrels))


def _unpack(session: Session, tables: TidyTables, by: Mapping[str, str]) -> TidyTables:
    """The runs, judgments and attributes with a row per item and the columns that are computed,
    and the names of their columns.
    """
    options, qrels, about = tables.options, tables.qrels, tables.attributes
    columns: Mapping[str, Any] = {role: options.get(role) for role in ROLES}
    runs = {x: _without_empty(table, columns, by) for x, table in tables.runs.items()}
    qrels = qrels and _without_empty(_keep_one_kind(qrels), columns, by)
    runs, system = _open_systems(session, runs, tables.system, columns, [*by])
    options = {**options, "system": system}
    before = opened = [*runs.values()]
    if qrels and isinstance(columns.get("query"), list | tuple):
        qrels = computed.spread_qrels(opened, qrels, columns["query"])
    words = (re.findall(r"\w+", getattr(name, "sql", name)) for name in by)
    read = [*by, *itertools.chain(*words), system, options.get("forbidden")]
    read = [name for name in read if name]
    runs, qrels, columns = unnest_lists(runs, qrels, columns, read, options)
    if by:
        others = [*filter(None, [qrels, about])]
        own = [x for x in read if not any(table.has(x) for table in others)]
        empty = _rows_without_items(session, runs, own)
        about = _join_attributes(session, about, empty, columns.get("query"))
    opened, judging, abouts = [*runs.values()], *([x] if x else [] for x in (qrels, about))
    columns, mapped = map_events(session, columns, judging or opened)
    groups = [opened, mapped, abouts] if judging else [mapped, [], abouts]
    (of_runs, of_qrels), groups = computed.resolve_columns(session, columns, groups, [*by, system])
    for name, argument in by.items():
        groups = computed.add_attribute(session, name, argument, groups[::-1])[::-1]
    if options["order"] == "rows":
        numbered = (number_rows(x, of_runs, system) for x in groups[0])
        groups[0] = [*numbered]
    opened, judging, abouts = groups
    runs = dict(zip(runs, opened, strict=True))
    qrels, about = (next(iter(x), None) for x in (judging, abouts))
    return replace(
        tables, runs=runs, qrels=qrels, attributes=about, system=system, names=(of_runs, of_qrels),
        opened=before, options=options,
    )  # fmt: skip


def _without_empty(table: Table, columns: Mapping[str, Any], by: Iterable[str]) -> Table:
    """The table without columns that are NULL in all rows, if others have a name of their role."""
    unnamed = [table.known(role) for role, name in columns.items() if name is None]
    several = dict.fromkeys(name for names in unnamed if len(names) > 1 for name in names)
    doubtful = [name for name in several if name not in by]
    if not doubtful:
        return table
    values = (f"EXISTS (FROM {table.sql} WHERE {quote(name)} IS NOT NULL)" for name in doubtful)
    filled = dict(zip(doubtful, table.session.row(f"SELECT {', '.join(values)}"), strict=True))
    kept = {name: kind for name, kind in table.columns.items() if filled.get(name, True)}
    return replace(table, columns=kept) if any(filled.values()) else table


def _rows_without_items(session: Session, runs: Runs, names: Sequence[str]) -> Table | None:
    """The attributes of all rows of the runs, if some rows have no item that could carry them.

    names: the attributes and the columns that they read.
    """
    rows, lost, key = [], False, ""
    for table in runs.values():
        if before := table.with_lists:
            query = quote(before.roles["query"])
            key = key or query
            kept = [before.actual_name(x) for x in dict.fromkeys(names) if before.has(x)]
            kept = [x for x in dict.fromkeys(kept) if quote(x) not in (key, query)]
            rows.append(f"SELECT {', '.join([f'{query} AS {key}', *map(quote, kept)])} "
                        f"FROM {before.sql}")  # fmt: skip
            without = f"(SELECT {query} FROM {before.sql} EXCEPT SELECT {query} FROM {table.sql})"
            lost = lost or bool(session.rows(f"FROM {without} LIMIT 1"))
    if not lost or len(rows) < len(runs):
        return None
    about = session.describe("attributes", f"(SELECT DISTINCT * FROM ({' UNION ALL '.join(rows)}))")
    return replace(about, of_runs=True, roles={"query": key[1:-1].replace('""', '"')})


def _join_attributes(
    session: Session, about: Table | None, empty: Table | None, query: Any
) -> Table | None:
    """The attributes with those of the rows of runs."""
    if about is None or empty is None:
        return about or empty
    key = about.find("query", query if isinstance(query, str) else None)
    if key is None or len(empty.columns) < 2:
        return about
    name, of_rows = quote(key), quote(empty.roles["query"])
    own, other = f"CAST(a.{name} AS VARCHAR)", f"CAST(r.{of_rows} AS VARCHAR)"
    fields = f"coalesce({own}, {other}) AS {name}, a.* EXCLUDE ({name}), r.* EXCLUDE ({of_rows})"
    joined = f"{about.sql} AS a FULL JOIN {empty.sql} AS r ON {own} = {other}"
    return session.describe("attributes", f"(SELECT {fields} FROM {joined})")


def _open_systems(
    session: Session, runs: Runs, system: Any, columns: Mapping[str, Any], by: Sequence[str]
) -> tuple[Runs, str | None]:
    """The runs, with the column of the systems: the one that the caller names, or a known one."""
    if system is None:
        if None in runs and (name := find_system(runs[None], columns, by)):
            context = {**runs[None].context, "system": name}
            return {None: replace(runs[None], context=context)}, name
        return runs, None
    names = [system] if isinstance(system, str) else system
    ok = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    require(ok, f"system must be the name of a column, not {system!r}")
    spec = system if isinstance(system, str) else tuple(system)
    if isinstance(spec, str) and any(table.has(spec) for table in runs.values()):
        return runs, spec
    added = {x: computed.add_column(t, "system", spec) for x, t in runs.items()}
    return added, computed.column_name(spec)


def number_rows(table: Table, names: Mapping[str, Any], system: str | None) -> Table:
    """The run with positions from the order of its rows; lists have an order."""
    if "pos" in table.roles:
        return table
    query, named = table.find("query", names.get("query")), (names.get("pos"), names.get("score"))
    if query is None:
        return table  # an error of the roles
    keys = ", ".join(map(quote, [*([system] if system else []), query]))
    require(
        table.ordered and named == (None, None),
        "order='rows' needs a file or a frame, because rows of a table have no order, and no pos= "
        f"or score=. In SQL, write row_number() OVER (PARTITION BY {keys} ORDER BY ...)",
    )
    return add_row_number(table, "pos", f"{INTERNAL_PREFIX}row", "order of the rows", keys)


def _keep_one_kind(table: Table) -> Table:
    """The rows of the one kind that has a query, an id and a grade, such as retrieved documents
    beside games of agents, and a note on the others. The table as it is if that is not clear.
    """
    if not any(map(is_nested, table.columns.values())):
        return table
    flat = unpack_objects(table)
    names = [x for x, kind in flat.columns.items() if not fields_of(kind) or kind.endswith("]")]
    flags = ", ".join(f"CASE WHEN {quote(x)} IS NOT NULL THEN {i} END" for i, x in enumerate(names))
    pattern = f"list_filter([{flags}], lambda x_: x_ IS NOT NULL)"
    rows = table.session.rows(
        f"SELECT {pattern}, count(*) FROM {flat.sql} GROUP BY 1 LIMIT {_MOST}"
    )
    patterns = {frozenset(names[i] for i in each): count for each, count in rows}
    kinds = [x for x in patterns if not any(x < y for y in patterns)]
    graded = [x for x in kinds if _has_grades(flat, x)]
    if len(rows) == _MOST or len(kinds) < 2 or len(graded) != 1:
        return table
    (own,) = graded
    lists = [x for x in own if flat.columns[x].endswith("]")]
    ids = [x for x in lists if list_side(x)] + [x for x in own if says(x, "item")] or lists
    keyed = {
        x: find_name([y for y in names if y in x], (*ROLES["query"], *PLAIN_IDS)) for x in patterns
    }
    # Rows with these are of this kind, whatever they have beside them.
    same = [x for x in kinds if x == own or (keyed[x] and not x.isdisjoint(ids))]
    own = own.union(*same)
    others = [[x for x in names if x in each - own] for each in kinds if each not in same]
    if not others:
        return table
    of_others = {x: n for x, n in patterns.items() if not x <= own}
    count, total = sum(of_others.values()), sum(patterns.values())
    known = "; ".join(map(", ".join, sorted(others, key=lambda each: names.index(each[0]))))
    doubtful = sum(n for x, n in of_others.items() if keyed[x] or not x.isdisjoint(ids))
    if doubtful >= _FEW and doubtful * 10 > total:
        what = ", ".join(ids or sorted(graded[0] - {keyed[graded[0]]}))
        raise Question(
            f"{table.label}: {doubtful:,} of {format_count(total, 'row')} are of another kind "
            f"({known}), without {what}",
            otherwise=f"Pass the rows that have {what}, or these rows apart",
        )
    table.note(
        f"{format_count(count, 'row')} of another kind ({known}) {is_or_are(count)} not read",
    )
    lacks = " AND ".join(f"{quote(x)} IS NULL" for x in names if x not in own)
    tops = {x.partition(".")[0] if x not in table.columns else x for x in own}
    kept = {x: kind for x, kind in table.columns.items() if x in tops}
    sql = f"(SELECT {', '.join(map(quote, kept))} FROM {flat.sql} WHERE {lacks})"
    return replace(table, sql=sql, columns=kept)


def _has_grades(table: Table, names: frozenset[str]) -> bool:
    """Have rows with these columns a known query, another id, and a number?"""
    query = find_name([x for x in table.columns if x in names], "query")
    others = [table.columns[x] for x in names if x != query]
    return query is not None and any(map(is_id, others)) and any(map(is_number, others))
