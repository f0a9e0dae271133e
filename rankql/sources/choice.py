"""Which columns are the query and the item: by tiers of names, and by values within a tier.

Candidates are columns of rows, fields of the objects in lists, and readings of cells with several
ids. Known names come first, then those like an id, then others. Both tables use the best tier that
both have. Where one column each is left, no value is read. Where several contend, the values of a
sample decide, and names stay if they match at least half as often as the best. What stays open is
asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import exp
from shlex import quote as shell_quote
from typing import Any, NamedTuple

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import (
    ANSWERS,
    KEYS,
    KNOWN,
    LIKE_ID,
    OTHER,
    PREDICTED,
    RELEVANT,
    RETRIEVED,
    ROLES,
    WEAKER_LISTS,
    find_name,
    is_like_id,
    list_side,
    squash,
    tier_of,
    words_of,
)
from rankql.sources.computed import add_column, column_name, parse_pair
from rankql.sources.session import Session
from rankql.sources.tables import CHOSEN, Table, assign_roles, is_number, is_text, require_column
from rankql.text import join_words

# Lists of fractions are not ids.
VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# What separates several ids in one cell, by the reading of the cell: see `Ids`.
SEPARATORS = ("", "\n", ";", "|", "\t", ",", " ")
# So many cells decide whether there is one.
_SAMPLE = 1000
# The rows of a sample, the queries of lists in it, and the columns of a role that are compared.
ROWS, QUERIES, CONTENDERS = 2000, 256, 6
# Matches of whole numbers count only if chance gives so many with less than this probability.
_CHANCE = 1e-4
# Ids with so many blanks on average are texts.
_BLANKS = 3
# The types that are no ids, and those that are only by a known name.
_NEVER = ("TIME", "DATE", "INTERVAL", "BOOLEAN", "BLOB", "STRUCT", "MAP", "UNION")
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")


class Ids(NamedTuple):
    """A column that may hold ids: of the rows of a table, or of the elements x_ of a list."""

    name: str
    sql: str
    tier: int = KNOWN
    rank: int = 0
    # The column of lists and its SQL, if the ids are in one.
    column: str = ""
    lists: str = ""
    # The place of what separates the ids of a cell in `SEPARATORS`: nothing if it has one.
    reading: int = 0
    # Are they ids only if most of them are among those of the run: answers, and numbers?
    doubtful: bool = False


class Side(NamedTuple):
    """The runs that have the same columns, or the judgments, and the columns that contend."""

    tables: Sequence[Table]
    queries: Sequence[Ids]
    items: Sequence[Ids]
    label: str = "run"


class Choice(NamedTuple):
    """The columns of the query and the item in both, and how to name those that values decided."""

    queries: tuple[Ids, Ids]
    items: tuple[Ids, Ids]
    named: str = ""


# The query of a table with both lists: its row.
ROW = Ids("row number", "row_")


def choose_all(
    session: Session,
    runs: Mapping[str | None, Table],
    qrels: Table | None,
    run_items: Mapping[str | None, list[Ids]],
    judged_items: Mapping[str | None, list[Ids]],
    specs: Sequence[Sequence[Any]],
    taken: set[str],
) -> list[Choice | None]:
    """The columns of each run and its judgments, one decision for runs with the same columns."""
    if qrels and not runs:
        others = _find_queries(qrels, specs[1][0], taken, OTHER)
        return [
            choose_columns(session.con, None, Side([qrels], others, judged_items[None], "qrels"))
        ]
    choices: dict[str | None, Choice | None] = {}
    listed = {x: any(i.column for i in (*run_items[x], *judged_items[x])) for x in runs}
    least = {x: OTHER if listed[x] else LIKE_ID for x in runs}
    keys = {x: _find_queries(runs[x], specs[0][0], taken, least[x]) if qrels else [] for x in runs}
    names = {x: [i.name for i in (*run_items[x], *keys[x])] for x in runs}
    for name, table in runs.items():
        if name in choices:
            continue
        same = [x for x in runs if names[x] == names[name]]
        side = Side([runs[x] for x in same], keys[name], run_items[name], table.label)
        other = side._replace(items=judged_items[name])
        if qrels:
            others = _find_queries(qrels, specs[1][0], taken, least[name])
            other = Side([qrels], others, judged_items[name], "qrels")
        choice = choose_columns(session.con, side, other, not listed[name], session.reads_values)
        choices |= dict.fromkeys(same, choice)
        if choice is None and listed[name]:
            for each in filter(None, (table, qrels)):
                assign_roles(each, {}, ["query"])  # an error
        if choice and qrels:  # the first runs decide for the others
            specs = specs[0], (choice.queries[1].name, choice.items[1].name)
            judged_items = {x: [choice.items[1]] for x in runs}
    return [choices[name] for name in runs]


def named_columns(
    runs: Mapping[str | None, Table], qrels: Table | None, columns: Mapping[str, Any]
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The columns of query and item that the caller names, in the runs and in the judgments."""
    tables = [*runs.values(), *([qrels] if qrels else [])]
    query = parse_pair("query", columns.get("query"), tables, qrels is not None)
    item = columns.get("item")
    if isinstance(item, str) and qrels:  # the other table may have a recognised name
        has_item = [any(_has(t, item) for t in side) for side in (runs.values(), [qrels])]
        item = tuple(item if has or not any(has_item) else None for has in has_item)
    item = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
    return (query[0], item[0]), (query[1], item[1])


def _has(table: Table, name: str) -> bool:
    """Has a table this column, or a list of objects with this field?"""
    fields = (x for kind in table.columns.values() for x in fields_of(kind))
    return table.has(name) or table.has(name.rpartition(".")[0]) or name in fields


def compute_columns(session: Session, table: Table, specs: Sequence[Any]) -> Table:
    """The table with the expressions and keys that the caller names."""
    for role, spec in zip(("query", "item", "item"), specs, strict=False):
        expression = isinstance(spec, str) and spec.strip() and not spec.isidentifier()
        if isinstance(spec, tuple) or (expression and not _has(table, spec)):
            table = add_column(session, table, role, spec)
    return table


def flatten_objects(table: Table) -> Table:
    """The table with a column for each field of its objects, but not for {id: number}."""
    for name, kind in [*table.columns.items()]:
        if not kind.startswith("STRUCT(") or kind.endswith("]") or table.unit == "ids":
            continue
        fields = fields_of(kind)
        if find_name([name], (*RETRIEVED, *RELEVANT, *PREDICTED)) or (
            list_side(name) and all(map(is_number, fields.values()))
        ):
            continue
        columns = {f"{name}.{field}": x for field, x in fields.items()}
        values = ", ".join(f"{quote(name)}[{literal(x)}] AS {quote(f'{name}.{x}')}" for x in fields)
        sql = f"(SELECT *, {values} FROM {table.sql})"
        table = replace(table, sql=sql, columns={**table.columns, **columns})
    return table


def fields_of(kind: str) -> dict[str, str]:
    """The fields of an object or of the objects in a list, by the type of the column."""
    if not kind.startswith("STRUCT("):
        return {}
    parsed: Any = duckdb.sqltype(kind)
    parsed = parsed.children[0][1] if kind.endswith("]") else parsed
    return {name: str(each) for name, each in parsed.children}


def find_list(table: Table, known: Sequence[str], name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    if table.unnested or table.unit == "ids":
        return None
    nested = [column for column, kind in table.columns.items() if is_nested(kind)]
    if isinstance(name, str) and (table.has(name) or table.has(name.rpartition(".")[0])):
        return find_name(nested, [name]) or find_name(nested, [name.rpartition(".")[0]])
    ranks = known is RELEVANT or any(map(table.known, ("pos", "score")))
    if table.known("item") and ranks and (known is RETRIEVED or table.known("rel")):
        return None
    if column := find_name(nested, [*known, *(PREDICTED if known is RETRIEVED else ())]):
        return column
    side = "run" if known is RETRIEVED else "qrels"
    likely = [x for x in nested if list_side(x) == side and not VECTOR.fullmatch(table.columns[x])]
    weaker = find_name([x for x in nested if table.columns[x].endswith("]")], WEAKER_LISTS[side])
    return likely[0] if len(likely) == 1 else None if likely else weaker


def require_one_list(session: Session, table: Table, known: Sequence[str], column: str) -> str:
    """The column of lists. Of several it has the word of the retrieved ids, or is an error."""
    side, retrieved = list_side(known[0]), find_list(table, RETRIEVED)
    others = [
        x for x, kind in table.columns.items()
        if x != column and kind == table.columns[column] and kind.endswith("]")
        and (find_name([x], known) or list_side(x) == side)
        and not find_name([x], ANSWERS) and not VECTOR.fullmatch(kind)
        and (find_name([x], known) or is_like_id(x) or squash(x).endswith(squash(column)))
    ]  # fmt: skip
    for other in [*others]:  # the same, or texts
        text = f"array_to_string({quote(other)}, ' ')"
        blanks = f"length({text}) - length(replace({text}, ' ', ''))"
        sql = f"SELECT bool_and({quote(other)} = {quote(column)}) OR avg({blanks}) >= 2 * avg("
        sql += f"len({quote(other)})) FROM (FROM {table.sql} LIMIT {_SAMPLE})"
        if session.con.execute(sql).fetchall()[0][0]:
            others.remove(other)
    if others and side == "qrels" and retrieved:
        units = words_of(retrieved) & {"chunk", "doc", "document", "node", "passage", "context"}
        same = [x for x in (column, *others) if not units.isdisjoint(words_of(x))]
        if len(same) == 1:
            return same[0]
    if not others:
        return column
    pairs = [[retrieved, x] if side == "qrels" and retrieved else x for x in (column, *others)]
    raise RankqlError(
        f"{table.label}: {join_words([column, *others])} may all be the {known[0]} ids. Pass "
        + " or ".join(f"item={each!r}" for each in pairs)
    )


def unpack_texts(session: Session, table: Table) -> Table:
    """The table with lists where cells have them as text: as Python, NumPy, JSON or Postgres."""
    weaker = (*WEAKER_LISTS["run"], *WEAKER_LISTS["qrels"])
    for name, kind in table.columns.items():
        if table.trec or not is_text(kind) or kind.endswith("]"):
            continue
        if not (list_side(name) or find_name([name], (*RETRIEVED, *RELEVANT, *weaker, *PREDICTED))):
            continue
        text = _cell(name)
        lists = rf"{text} = '' OR regexp_full_match({text}, '(?s)\[[^{{]*\]|\{{[^:]*\}}')"
        sql = f"SELECT bool_and({lists}) AND max({text}) <> '' FROM "
        if session.con.execute(f"{sql} (FROM {table.sql} LIMIT {_SAMPLE})").fetchall()[0][0]:
            value = rf"regexp_extract_all({text}[2:-2], '{_ELEMENT}')"
            value = (
                f"list_transform({value}, lambda x_: CASE WHEN {_QUOTED} THEN x_[2:-2] ELSE x_ END)"
            )
            table = table.with_values(name, value, "VARCHAR[]")
    return table


# An element of a list that is text, in SQL, and whether it has quotes.
_ELEMENT = r"""(?s)"[^"]*"|''[^'']*''|[^\s,]+"""
_QUOTED = "x_[1] IN ('\"', '''')"


def is_nested(kind: str) -> bool:
    """Is it a type of lists, maps or structs?"""
    return kind.endswith("]") or kind.startswith(("MAP(", "STRUCT("))


def _find_queries(table: Table, name: Any, taken: set[str], least: int) -> list[Ids]:
    """The columns that may be the query."""
    name = table.roles.get("query", name)
    if name is not None:
        name = require_column(table, column_name(name) or "", "query")
        return [Ids(name, quote(name))]
    ids = [x for x in find_ids(table, "query", least) if x.name not in taken or x.tier == KNOWN]
    if least == OTHER:  # of lists, id is the key unless a better one matches
        ids = [x._replace(tier=KNOWN, rank=len(KEYS)) if squash(x.name) == "id" else x for x in ids]
    return ids


def find_items(
    session: Session, table: Table, known: Sequence[str], name: Any, taken: set[str]
) -> list[Ids]:
    """The columns, fields of objects in lists and readings of cells that may be the item."""
    name = table.roles.get("item", name)
    column = find_list(table, known, name)
    if column is None:
        ids = find_ids(table, "item") if name is None else []
        if isinstance(name, str) and table.has(name):
            ids = [Ids(table.actual_name(name), quote(table.actual_name(name)))]
        cells = _find_cells(session, table, known, name)
        names = {x.name for x in cells}
        return [*cells, *(x for x in ids if x.name not in {*taken, *names})]
    if name is None:
        column = require_one_list(session, table, known, column)
    kind = table.columns[column]
    if not (kind.startswith("STRUCT(") and kind.endswith("]")):
        numbers = "map_entries(TRY_CAST(to_json({}) AS MAP(VARCHAR, DOUBLE)))"
        numbers = f"list_filter({numbers}, lambda x_: x_['value'] IS NOT NULL)"
        forms = {"STRUCT(": numbers, "MAP(": "map_entries({})", "": "{}"}
        start = next(x for x in forms if kind.startswith(x) and not (x and kind.endswith("]")))
        each = "x_[1]" if kind.endswith("[][]") else "x_"  # pairs of id and number
        item = "x_['key']" if start else f"{each} ->> '$'" if kind.startswith("JSON") else each
        return [Ids(column, item, KNOWN, 0, column, forms[start].format(quote(column)))]
    fields = fields_of(kind)
    ids = [
        Ids(full, f"x_[{literal(field)}]", *tier, column, quote(column))
        for field, kind in fields.items()
        if (tier := tier_of("item", full := f"{column}.{field}", in_objects=True))[0] >= LIKE_ID
        and (tier[0] == KNOWN or is_id(kind)) and not is_nested(kind)
    ]  # fmt: skip
    if isinstance(name, str) and (field := find_name(fields, [name.rpartition(".")[2]])):
        full = f"{column}.{field}"
        ids = [Ids(full, f"x_[{literal(field)}]", KNOWN, 0, column, quote(column))]
    if not ids:
        raise RankqlError(
            f"{table.label}: {column} has no id: expected a field called id, or one of "
            f"{', '.join(ROLES['item'])}. Found: {', '.join(fields)}. Rename the field"
        )
    return ids


def _find_cells(session: Session, table: Table, known: Sequence[str], name: Any) -> list[Ids]:
    """The readings of a column whose cells may have several ids, or one per row of lists."""
    if table.unnested or table.unit == "ids" or table.roles.get("item"):
        return []
    # Next to the lists of retrieved ids, a plain value is a list of one.
    beside = known is RELEVANT and any(x.endswith("]") for x in table.columns.values())
    likely = [x for x in table.columns if beside and list_side(x) == "qrels" and is_like_id(x)]
    lists = [*likely, *sorted(known, key=lambda x: x in ANSWERS), *PREDICTED]
    column = find_name(table.columns, [name] if isinstance(name, str) else lists)
    column = column or (table.find("item") if name is None else None)
    others = [each for role in ("item", "pos", "score", "rel") for each in table.known(role)]
    if column is None or {*others} - {column}:
        return []
    kind = table.columns[column]
    listed = find_name([column], lists) is not None or (beside and name is not None)
    if is_nested(kind) or not (is_text(kind) or (listed and beside)):
        return []
    if not (is_text(kind) or (is_id(kind) and (column in likely or column == name))):
        raise wrong_type(table, column)
    text = _cell(column)
    marks = ", ".join(f"bool_or(contains({text}, {literal(x)}))" for x in SEPARATORS[1:])
    sql = rf"SELECT bool_or(regexp_matches({text}, '^[\[{{]')), {marks} FROM {table.sql}"
    ((encoded, *separated),) = session.con.execute(f"{sql} LIMIT {_SAMPLE}").fetchall()
    if encoded and listed:
        raise wrong_type(table, column)
    if encoded or not (listed or any(separated)):
        return []
    blank = len(SEPARATORS) - 1
    parts = [0, *(i for i, occurs in enumerate(separated, 1) if occurs)]
    parts.sort(key=lambda i: (i == blank, i == 0 if listed else i, i))
    doubtful = find_name([column], ANSWERS) is not None or not is_text(kind)
    readings = [
        Ids(column, "x_", KNOWN, rank, column, split_cell(column, i), i, doubtful)
        for rank, i in enumerate(parts)
    ]
    one = Ids(column, _cell(column), KNOWN, 0)  # of a table with a row per item
    return readings if listed else [one, *(x for x in readings if x.reading)]


def _cell(column: str) -> str:
    return f"trim(CAST({quote(column)} AS VARCHAR))"


def split_cell(column: str, reading: int) -> str:
    """The list of ids in a cell."""
    text, mark = _cell(column), SEPARATORS[reading]
    ids = f"string_split({text}, {literal(mark)})" if mark else f"[{text}]"
    if mark == " ":
        ids = rf"string_split_regex({text}, '[\s,;|]+')"
    return f"list_filter(list_transform({ids}, lambda x_: trim(x_)), lambda x_: x_ <> '')"


def wrong_type(table: Table, column: str) -> RankqlError:
    """The error about a column that should have lists."""
    kind = table.columns[column]
    kind = "text" if is_text(kind) and not kind.endswith("]") else kind
    return RankqlError(
        f"{table.label}: {column} must be a list of ids, not {kind}. Write lists, as in "
        f'{{"query": "q1", "{column}": ["d1", "d2"]}}, or one row per item'
    )


def find_ids(table: Table, role: str, least: int = LIKE_ID) -> list[Ids]:
    """The columns of a row that may have a role, down to this tier."""
    ids = []
    for name in table.free_columns(role):
        kind = table.columns[name]
        tier, rank = tier_of(role, name)
        known = tier == KNOWN and not kind.startswith(("STRUCT", "MAP"))
        if kind.endswith("]") or not (known or is_id(kind)):
            continue
        if tier >= least:
            ids.append(Ids(name, quote(name), tier, rank))
    return ids


def is_id(kind: str) -> bool:
    """May values of this type be ids, although no name says so?"""
    return not kind.startswith((*_NEVER, *_FRACTIONS)) and not kind.endswith("]")


def choose_columns(
    con: Any, run: Side | None, qrels: Side, must_match: bool = False, by_values: bool = False
) -> Choice | None:
    """The columns of both sides; None if none of their names and values go together.

    must_match: names that are only like an id count if their values match. run: None if there is
    none, so that names alone decide.
    """
    run = run or qrels
    same = run.tables is qrels.tables and not qrels.queries
    run, qrels = (side._replace(items=_without_texts(con, side)) for side in (run, qrels))
    queries = [(ROW, ROW)] if same else _pairs(run.queries, qrels.queries)
    items = _pairs(run.items, qrels.items)
    pairs = product(queries, items)  # one column is not both the query and the item
    candidates = [(q, i) for q, i in pairs if q[0].name != i[0].name and q[1].name != i[1].name]
    if not candidates:
        return None
    names = candidates[0]
    contested = _contested(candidates, names)
    weak = any(
        x.tier < KNOWN and x.rank
        for role, pair in zip(_ROLES, names, strict=True) if must_match or role in contested
        for x in pair
    )  # fmt: skip
    doubtful = any(items[1].doubtful for _, items in candidates)
    if not by_values or (len(candidates) == 1 and not weak and not doubtful):
        return Choice(*names)
    matches = _measure(con, run, qrels, queries, items)
    fits = {
        pair: m for pair in candidates if (m := matches.get(pair)) and m.fits(pair, names, weak)
    }
    fits = {x: m for x, m in fits.items() if m.share >= 0.5 or not x[1][1].doubtful}
    fits = _best_readings(fits)
    if not fits and doubtful:
        raise RankqlError(
            f"{qrels.label} has no relevant ids: most values of {names[1][1].name} are not among "
            "the retrieved ids. Name the column of the relevant ids: item=[RETRIEVED, RELEVANT]"
        )
    if not fits and not weak:
        return Choice(*names)
    if not fits and must_match:
        return None
    if not fits:
        raise _ask(run, qrels, contested, candidates)
    best = max(fits, key=lambda pair: fits[pair].matches)
    same_names = all(squash(a.name) == squash(b.name) for a, b in names)
    plain = next((pair for pair in fits if _label(pair) == _label(names)), None)
    if plain and (same_names or 2 * fits[plain].matches >= fits[best].matches):
        least = fits[plain].matches / 2
        unique = {x: m for x, m in fits.items() if not m.repeats and m.matches >= least}
        if not (fits[plain].repeats and unique):
            return Choice(*plain, _option(() if same_names else contested, plain))
        fits = unique
        best = max(fits, key=lambda pair: fits[pair].matches)
    ties = [pair for pair in fits if fits[pair].matches == fits[best].matches]
    if len(ties) > 1:
        raise _ask(run, qrels, _contested(ties, best), ties)
    return Choice(*best, _option(_contested(candidates, best), best))


def _ask(run: Side, qrels: Side, roles: Sequence[str], pairs: Sequence[_Pair]) -> RankqlError:
    calls = " or ".join(dict.fromkeys(_option(roles, pair) for pair in pairs[:4]))
    return RankqlError(
        f"Several columns of {run.label} and {qrels.label} may be the {' and the '.join(roles)}, "
        f"and their values do not tell which. Pass {calls}"
    )


_ROLES = ("query", "item")


def require_named(columns: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse columns that values decided: with other data, others may match."""
    for label, roles in columns.items():
        if CHOSEN in roles:
            raise RankqlError(
                f"{label}: values decide which columns are the query and the item, and other "
                f"values may decide otherwise. Name them: {roles[CHOSEN]}"
            )


def suggest_query(con: Any, run: Table, qrels: Table) -> str:
    """The columns whose queries match, if those of the names do not; or ""."""
    run_side, judged_side = (
        Side([table], find_ids(replace(table, roles={}), "query"), [Ids(name, quote(name))])
        for table, name in ((table, table.roles["item"]) for table in (run, qrels))
    )
    queries, items = (
        product(run_side.queries, judged_side.queries),
        product(run_side.items, judged_side.items),
    )
    if not (run_side.queries and judged_side.queries):
        return ""
    measured = _measure(con, run_side, judged_side, [*queries], [*items])
    matches = {pair: m for pair, m in measured.items() if m.matches}
    for pair in sorted(matches, key=lambda x: -matches[x].matches)[:1]:
        run_name, judged_name = (x.name for x in pair[0])
        which = (
            f"{judged_name} of qrels"
            if judged_name != qrels.roles["query"]
            else f"{run_name} of {run.label}"
        )
        return f". {which} matches: {_option(['query'], pair)}"
    return ""


def _pairs(lefts: Sequence[Ids], rights: Sequence[Ids]) -> list[tuple[Ids, Ids]]:
    """The pairs of the best tier that both have, the likeliest by name first."""
    if not (lefts and rights):
        return []
    tier = min(max(x.tier for x in each) for each in (lefts, rights))

    def likeliest(ids: Sequence[Ids]) -> list[Ids]:
        return sorted((x for x in ids if x.tier >= tier), key=lambda x: (-x.tier, x.rank))

    def order(pair: tuple[Ids, Ids]) -> tuple[int, ...]:
        one, other = pair
        tails = [x.name.rpartition(".")[2] for x in pair]
        spelled = (tails[0] == tails[1]) + (squash(tails[0]) == squash(tails[1]))
        return -spelled, -one.tier - other.tier, one.rank + other.rank

    best = [likeliest(each) for each in (lefts, rights)]
    pairs = sorted(product(best[0][:CONTENDERS], best[1][:CONTENDERS]), key=order)
    same_names = [pair for pair in pairs if squash(pair[0].name) == squash(pair[1].name)]
    spare = any(x.rank == len(KEYS) for x in (*best[0], *best[1]))  # id, next to another name
    first = [(best[0][0], best[1][0])]
    if not spare and len(same_names) == 1 and same_names == pairs[:1] == first:
        return same_names  # the only name that both have, and the likeliest of each
    return pairs


_Pair = tuple[tuple[Ids, Ids], tuple[Ids, Ids]]


def _label(pair: _Pair) -> list[str]:
    return [x.name for role in pair for x in role]


def _contested(pairs: Sequence[_Pair], pair: _Pair) -> list[str]:
    """The roles for which other columns contend."""
    names = zip(_ROLES, pair, *pairs, strict=True)
    return [
        role for role, each, *others in names
        if any([x.name for x in other] != [x.name for x in each] for other in others)
    ]  # fmt: skip


def _option(roles: Sequence[str], pair: _Pair) -> str:
    """How to name the columns of these roles."""
    names = {role: [x.name for x in each] for role, each in zip(_ROLES, pair, strict=True)}
    python = ", ".join(f"{role}={names[role]!r}" for role in roles)
    option = " ".join(f"--{role} {shell_quote(','.join(names[role]))}" for role in roles)
    return f"{python} (CLI: {option})" if roles else ""


def _best_readings(fits: dict[_Pair, _Matches]) -> dict[_Pair, _Matches]:
    """The readings of cells by which most queries match; by blanks only if no cell is one id."""
    best: dict[str, _Pair] = {}
    for pair, match in sorted(fits.items(), key=lambda x: sum(i.reading for i in x[0][1])):
        other = best.setdefault(repr(_label(pair)), pair)
        blanks = any(SEPARATORS[x.reading] == " " for x in pair[1])
        if match.queries > fits[other].queries and not (blanks and fits[other].spaced):
            best[repr(_label(pair))] = pair
    return {pair: fits[pair] for pair in best.values()}


class _Matches(NamedTuple):
    """What two columns of queries and two of items have in common in the sample."""

    matches: int
    queries: int
    # How many chance gives.
    expected: float
    # Does an item repeat within a query?
    repeats: bool
    # Is one of the columns of whole numbers?
    numeric: bool
    # Has an id that matches a blank?
    spaced: bool
    # The share of judged ids that are among those of the run.
    share: float

    def fits(self, pair: _Pair, names: _Pair, weak: bool) -> bool:
        """Is it more than chance, or what names say?"""
        named = _label(pair) == _label(names) and not weak
        return bool(self.matches) and (
            named
            or _tail(self.matches, self.expected) < _CHANCE
            or (self.matches >= self.expected and not self.numeric)
        )


def _tail(count: int, expected: float) -> float:
    """How likely chance gives so many matches or more."""
    term = total = exp(-expected)
    for k in range(1, count):
        term *= expected / k
        total += term
    return 1 - total


def _measure(
    con: Any, run: Side, qrels: Side, queries: Sequence[Any], items: Sequence[Any]
) -> dict[_Pair, _Matches]:
    """The matches of the pairs, in a sample of the left side and the same queries of the right."""
    columns_of = [
        ([*dict.fromkeys(pair[i] for pair in queries)], [*dict.fromkeys(pair[i] for pair in items)])
        for i in (0, 1)
    ]
    run_values = _sample(con, run, *columns_of[0])
    keys = ""
    if run.tables is not qrels.tables:
        known = {q for pairs in run_values.values() for q, _ in pairs}
        keys = ", ".join(map(literal, sorted(known))) or "NULL"
    judged_values = _sample(con, qrels, *columns_of[1], keys)
    matches = {}
    for q, i in product(queries, items):
        one, other = run_values[q[0], i[0]], judged_values[q[1], i[1]]
        common, others = {*one} & {*other}, {x for x, _ in other}
        shared = {x for x, _ in one} & others
        if not shared:
            continue
        counts = Counter(item for query, item in {*other} if query in shared)
        expected = sum(counts[item] for query, item in {*one} if query in shared) / len(shared)
        repeats = len({*one}) < len(one) or len({*other}) < len(other)
        columns = [[x[n] for x in pairs] for pairs in (one, other) for n in (0, 1)]
        numeric = any(all(x.isdecimal() for x in column) for column in columns[2 * (q[0] is ROW) :])
        matched, spaced = {query for query, _ in common}, any(" " in item for _, item in common)
        ids, judged = ({item for _, item in each} for each in (one, other))
        share = len(ids & judged) / len(judged)
        counted = len(common), len(matched), expected, repeats, numeric, spaced, share
        matches[q, i] = _Matches(*counted)
    return matches


def _sample(
    con: Any, side: Side, queries: Sequence[Ids], items: Sequence[Ids], keys: str = ""
) -> dict[tuple[Ids, Ids], list[tuple[str, str]]]:
    """The values of all columns of queries and items; keys: the values of the queries, as SQL."""
    limit = QUERIES if any(x.column for x in items) else ROWS
    texts = {x: x.sql if x is ROW else f"CAST({x.sql} AS VARCHAR)" for x in (*queries, *items)}
    where = " OR ".join(f"{texts[q]} IN ({keys})" for q in queries) if keys else "true"
    values_of = {}
    for lists in dict.fromkeys(x.lists for x in items):
        of_list = [x for x in items if x.lists == lists]
        values = ", ".join(texts[x] for x in (*queries, *of_list))
        rows = []
        for n, table in enumerate(side.tables):
            row = f"(SELECT {n} || ' ' || row_number() OVER () AS row_, * FROM {table.sql}"
            row += f" WHERE {where} LIMIT {limit})"
            row = f"(SELECT *, unnest({lists}) AS x_ FROM {row})" if lists else row
            rows.append(f"(SELECT {values} FROM {row} LIMIT {ROWS})")
        sampled = con.execute(" UNION ALL ".join(rows)).fetchall()
        columns = [*zip(*sampled, strict=True)] or [()] * (len(queries) + len(of_list))
        for (n, q), (m, i) in product(enumerate(queries), enumerate(of_list, len(queries))):
            pairs = zip(columns[n], columns[m], strict=True)
            values_of[q, i] = [pair for pair in pairs if None not in pair]
    return values_of


def _without_texts(con: Any, side: Side) -> Sequence[Ids]:
    """The columns of items without texts, if several contend."""
    if len(side.items) < 2 or not side.tables:
        return side.items
    items = []
    for ids in side.items:
        text = f"CAST({ids.sql} AS VARCHAR)"
        rows = f"(FROM {side.tables[0].sql} LIMIT {QUERIES})"
        rows = f"(SELECT unnest({ids.lists}) AS x_ FROM {rows})" if ids.lists else rows
        blanks = f"avg(length({text}) - length(replace({text}, ' ', '')))"
        ((average,),) = con.execute(f"SELECT {blanks} FROM {rows}").fetchall()
        cells = any(x.name == ids.name and x.reading for x in side.items)
        if cells or (average or 0) < _BLANKS:
            items.append(ids)
    return items
