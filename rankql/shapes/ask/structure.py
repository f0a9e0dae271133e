"""The columns of a table whose names say nothing, by the structure of its rows.

Places count up in each query, an item occurs once in it, the rows of a query stand together, and
what repeats nevertheless was ranked by several systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from rankql.core.base.column_names import says
from rankql.core.base.errors import Call, RankqlError
from rankql.core.metrics.macros import quote
from rankql.core.tables.request import Request
from rankql.core.tables.session import is_several_runs, open_session
from rankql.core.tables.tables import (
    FRACTIONS,
    Table,
    is_id,
    is_nested,
    is_text,
    quote_keyword,
)
from rankql.shapes.ask.trials import makes_sense

# About so many rows are read, of complete queries; the columns that are tried, and the systems that
# one may have.
_ROWS, _COLUMNS, _SYSTEMS = 20_000, 6, 50
# The columns of which two may be the key of a query.
_PARTS = 4


def name_by_structure(run: Table, qrels: Table | None, options: Mapping[str, Any]) -> list[Call]:
    """Calls that name the query and the item, and the places and the systems of rows that have
    them; the likeliest first.
    """
    known = known_columns(run, options)
    nested = any(map(is_nested, run.columns.values()))
    if nested or not known or not _are_columns(run, known.values()):
        return []
    query, item, pos, system = (known[x] for x in ("query", "item", "pos", "system"))
    if query and item and (qrels or pos or known["score"]):
        return []
    free = [x for x in run.own_columns if x not in known.values() and not says(x, "row number")]
    kinds = {x: run.columns[x] for x in free}
    numbers = [x for x in free if is_id(kinds[x]) and not is_text(kinds[x])][:_COLUMNS]
    ids = [x for x in free if is_id(kinds[x]) and not says(x, "part")][:_COLUMNS]
    ids = [x for x in ids if not qrels or qrels.has(x)]
    texts = [x for x in free if is_text(kinds[x]) and x not in ids]
    scored = qrels or known["score"] or any(x.startswith(FRACTIONS) for x in kinds.values())
    ends = [f"min({quote(x)}) = 0 AND max({quote(x)}) = 1" for x in numbers]
    are_flags = run.row(", ".join(ends)) if ends else ()
    flags = [x for x, is_flag in zip(numbers, are_flags, strict=True) if is_flag]
    ids = [x for x in ids if x not in flags]
    one: list[tuple[str, ...]] = [(x,) for x in ([query] if query else ids)]
    times = [
        x for x in free if kinds[x].startswith(("DATE", "TIME")) and (not qrels or qrels.has(x))
    ]
    known_ids = [x for x in (query, item, *ids) if x]
    times = [x for x in times if not _is_of_one(run, x, known_ids)]
    parts = [*ids, *times]  # as a user and a time are one key
    two = [(query, x) for x in parts] if query else [*combinations(parts[:_PARTS], 2)]
    rankers = (texts if qrels else ids)[:_COLUMNS]
    words = [x for x in rankers if is_text(kinds[x])]  # more often systems than numbers are
    tries: list[tuple[str | None, Sequence[tuple[str, ...]]]]
    tries = [(None, one), *((x, one) for x in words), (None, two)]
    tries += [(x, one) for x in rankers if x not in words]
    found: list[tuple[Any, Call]] = []
    for turn, (ranker, keys) in enumerate([(system, one)] if system else tries):
        for key in keys:
            if not makes_sense({"query": [*key]}) or ranker in key:
                continue
            counted = _look(run, key, ranker, [item] if item else ids, numbers)
            items = [x for x in ([item] if item else ids) if x in counted]
            places = [x for x in ([pos] if pos else numbers) if counted.get(x) in (0, 1)]
            place = next((x for x in places if not scored or {*items} - {x}), None)
            own = next((x for x in items if x != place), None)
            if own or (place and not scored):
                from_0 = place and counted[place] == 0
                at = f"{quote_keyword(str(place))} + 1" if from_0 else place
                name = key[0] if len(key) == 1 else [*key]
                values = {"query": name, "item": own, "pos": at, "system": ranker}
                call = {x: y for x, y in values.items() if y and y != known[x]}
                differs = own and ranker and not qrels and _differ(run, (*key, own), flags)
                found.append(((place is None, bool(differs), turn, _spread(run, key)), call))
        if found and (not numbers or any(not placeless for (placeless, *_), _ in found)):
            break
    found.sort(key=lambda x: x[0])
    return [call for (placeless, *_), call in found if placeless == found[0][0][0]]


def _differ(table: Table, key: Sequence[str], flags: Sequence[str]) -> bool:
    """Differs a flag where these columns are equal, as no grade of an item in several systems?"""
    count = "count(DISTINCT ({}))".format
    own, *more = (count(", ".join(map(quote, x))) for x in (key, *((*key, x) for x in flags)))
    return bool(more) and bool(table.value(f"greatest({', '.join(more)}) > {own}"))


def _is_of_one(table: Table, name: str, ids: Sequence[str]) -> bool:
    """Is a column an attribute of another one, which has one value of it wherever it recurs?"""
    counts = "count(DISTINCT ({0}, {1})) = count(DISTINCT {0}) AND count(DISTINCT {0}) < count({0})"
    tests = [counts.format(quote(x), quote(name)) for x in ids]
    return bool(tests) and any(table.row(", ".join(tests)))


def known_columns(table: Table, options: Mapping[str, Any]) -> dict[str, Any]:
    """What names each role, or its column of a usual name; {} where several have one."""
    named = {x: options.get(x) for x in ("query", "item", "rel", "score", "pos", "system")}
    try:
        return {x: y or (table.find(x) if x != "system" else None) for x, y in named.items()}
    except RankqlError:  # which is asked
        return {}


def _are_columns(table: Table, names: Iterable[Any]) -> bool:
    """Is each a column of the table, if it is named at all?"""
    return all(x is None or (isinstance(x, str) and table.has(x)) for x in names)


def _look(
    table: Table, key: Sequence[str], system: str | None, names: Sequence[str],
    numbers: Sequence[str],
) -> dict[str, float | None]:  # fmt: skip
    """The columns of which no value repeats in the rows of a query and system, each with the number
    from which its values count up, if they do.
    """
    keys = [x for x in (*key, system) if x]
    names = [x for x in dict.fromkeys((*names, *numbers)) if x not in keys]
    every = table.value(f"count(*) // {_ROWS} + 1")
    each, both = ["count(*) AS n"], list[str]()
    for n, x in enumerate(names):
        number = f"CAST({quote(x)} AS DOUBLE)" if x in numbers else "NULL"
        each.append(f"count(DISTINCT {quote(x)}) = count(*) AS u{n}, min({number}) AS l{n}")
        each.append(f"max({number}) - min({number}) + 1 = count(*) AS c{n}")
        both.append(
            f"bool_and(u{n}), if(bool_and(c{n}) AND min(l{n}) = max(l{n}) AND (min(l{n}) = 1 OR "
            f"max(n) > 2), min(l{n}), NULL)"  # 0 and 1 alone may be flags
        )
    group = ", ".join(map(quote, keys))
    rows = f"SELECT {group}, {', '.join(each)} FROM {table.sql}"
    query = f"({', '.join(map(quote, key))})"
    rows += f" WHERE hash({query}) % {every} = 0 GROUP BY {group}"
    counts = f"count(DISTINCT {query}), count(DISTINCT {quote(keys[-1])})"
    sql = f"SELECT {counts}, count(*), sum(n), {', '.join(both)} FROM ({rows})"
    queries, systems, groups, total, *looks = table.session.row(sql)
    crossed = not system or (1 < systems <= _SYSTEMS and 2 * groups > queries * systems)
    if queries < 2 or total == groups or not crossed:
        return {}
    return {x: y for x, unique, y in zip(names, looks[::2], looks[1::2], strict=True) if unique}


def _spread(table: Table, key: Sequence[str]) -> float:
    """Into how many parts the rows of a value fall on average."""
    value = f"({', '.join(map(quote, key))})"
    rows = f"SELECT {value} AS v_, lag(v_) OVER () AS x_ FROM (FROM {table.sql} LIMIT {_ROWS})"
    parts = "count_if(v_ IS DISTINCT FROM x_) / count(DISTINCT v_)"
    return float(table.session.value(f"SELECT {parts} FROM ({rows})"))


def find_systems(request: Request) -> Call | None:
    """The columns of the query and of the system, if each query of the request, which names its
    column, is one of both.
    """
    query = request.rules.columns["query"]
    if query is None or is_several_runs(request.run) or request.rules.system:
        return None
    with open_session(request.con, request.run) as session:
        table = session.table(request.run, "run")
        names = [query] if isinstance(query, str) else [*query]
        if table.lazy or not all(isinstance(x, str) and table.has(x) for x in names):
            return None
        ids = [x for x in table.own_columns if is_id(table.columns[x])][: 2 * _COLUMNS]
        ids = [*names] if len(names) == 2 else [x for x in ids if x not in names]

        def count(*each: str) -> int:
            sql = f"SELECT count(DISTINCT ({', '.join(map(quote, each))})) FROM {table.sql}"
            return int(session.value(sql))

        counts = {x: count(x) for x in ids}
        few = [x for x in ids if is_text(table.columns[x]) and 1 < counts[x] <= _SYSTEMS]
        for system, key in product(few, ids):
            if counts[key] <= counts[system]:
                continue
            both = count(key, system)
            crossed = 2 * both > counts[key] * counts[system]
            if crossed and count(*names) == both == count(key, system, *names):
                return {"query": key, "system": system}
    return None
