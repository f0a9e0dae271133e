"""The columns that may be the query and the item: of rows, fields of objects, lists and cells.

A list of ids is a column of that type, an object {id: number}, or a text of several ids: see
`find_items`. `choice` decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb

from rankql.errors import RankqlError
from rankql.macros import literal, quote
from rankql.registry.column_names import (
    COLUMN_NAMES,
    PREDICTED,
    RELEVANT,
    RETRIEVED,
    ROLES,
    WEAK,
    WEAKER_LISTS,
    find_name,
    is_called,
    list_side,
    rank_of,
    squash,
)
from rankql.sources.tables import Table, is_id, is_nested, is_number, is_text

# Lists of fractions are not ids.
VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# The rank of a column whose name is not known.
_UNNAMED = 1000
# The names of lists of ids.
LISTS = (*RETRIEVED, *RELEVANT, *PREDICTED)


class Ids(NamedTuple):
    """A column that may hold ids: of the rows of a table, or of the elements x_ of a list."""

    name: str
    sql: str
    # The place of its name among the known ones, from 0, which is the best.
    rank: int = 0
    # The column of lists and its SQL, if the ids are in one.
    column: str = ""
    lists: str = ""
    # The place of what separates the ids of a cell in `SEPARATORS`: nothing if it has one.
    reading: int = 0
    # Their numbers, of the elements of a list, if each has one.
    number: str = ""
    # Are they ids only if most of them are among those of the run: answers, and numbers?
    doubtful: bool = False


def lists_of(table: Table) -> list[str]:
    """The columns of lists that may have ids."""
    kinds = table.columns.items()
    return [x for x, kind in kinds if kind.endswith("]") and not VECTOR.fullmatch(kind)]


class Field(NamedTuple):
    """A field of an object: its type, and the names that lead to it."""

    kind: str
    path: tuple[str, ...]

    def of(self, value: str) -> str:
        """The SQL of the field of an object."""
        return value + "".join(f"[{literal(name)}]" for name in self.path)


def fields_of(kind: str) -> dict[str, Field]:
    """The fields of an object or of the objects in a list, by the type of the column.

    Those of objects within the object have dotted names.
    """
    if not kind.startswith("STRUCT("):
        return {}
    parsed: Any = duckdb.sqltype(kind)
    parsed = parsed.children[0][1] if kind.endswith("]") else parsed
    fields: dict[str, Field] = {}
    for name, each in parsed.children:
        fields |= {
            f"{name}.{x}": Field(field.kind, (name, *field.path))
            for x, field in (fields_of(str(each)) if not str(each).endswith("]") else {}).items()
        } or {name: Field(str(each), (name,))}
    return fields


def has_numbers_of_ids(name: str, kind: str) -> bool:
    """Does a column of objects map ids to numbers, by its name and the types of its fields?"""
    kinds = [field.kind for field in fields_of(kind).values()]
    if any(x.endswith("]") for x in kinds):
        return False
    if is_called(name, LISTS):
        return all(is_number(x) or is_text(x) for x in kinds)
    ids = list_side(name) or (_list_side(name) and COLUMN_NAMES.isdisjoint(fields_of(kind)))
    return bool(ids) and all(map(is_number, kinds))


def _list_side(name: str) -> str:
    """The side of a list or a map: relevance may be {id: grade}, as queries have it."""
    return "qrels" if squash(name) == "relevance" else list_side(name)


def find_list(table: Table, known: Sequence[str], name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    nested = [
        column for column, kind in table.columns.items()
        if is_nested(kind) and (not fields_of(kind) or kind[-1] == "]"
                                or has_numbers_of_ids(column, kind))
    ]  # fmt: skip
    if not nested or table.unnested or table.unit == "ids":
        return None
    if isinstance(name, str) and table.has(name):
        return find_name(nested, [name])
    first = name[0] if isinstance(name, tuple) else name  # of a key of fields
    if isinstance(first, str) and (owners := [x for x in nested if first.startswith(f"{x}.")]):
        return max(owners, key=len)
    ranks = known is RELEVANT or any(map(table.known, ("pos", "score")))
    if table.known("item") and ranks and (known is RETRIEVED or table.known("rel")):
        return None
    if column := find_name(nested, [*known, *(PREDICTED if known is RETRIEVED else ())]):
        return column
    side = "run" if known is RETRIEVED else "qrels"
    likely = [x for x in nested if _list_side(x) == side and not VECTOR.fullmatch(table.columns[x])]
    weaker = find_name([x for x in nested if table.columns[x].endswith("]")], WEAKER_LISTS[side])
    return likely[0] if len(likely) == 1 else None if likely else weaker


def find_field(table: Table, column: str, name: str) -> str | None:
    """The field of the objects in a list that the caller names, with or without the list."""
    return find_name(fields_of(table.columns[column]), [name.removeprefix(f"{column}."), name])


def entries_of(column: str) -> str:
    """The keys and values of an object whose values are numbers, as a list."""
    entries = f"map_entries(TRY_CAST(to_json({quote(column)}) AS MAP(VARCHAR, DOUBLE)))"
    return f"list_filter({entries}, lambda y_: y_['value'] IS NOT NULL)"


def wrong_type(table: Table, column: str) -> RankqlError:
    """The error about a column that should have lists."""
    kind = table.columns[column]
    kind = "text" if is_text(kind) and not kind.endswith("]") else kind
    return RankqlError(
        f"{table.label}: {column} must be a list of ids, not {kind}. Write lists, as in "
        f'{{"query": "q1", "{column}": ["d1", "d2"]}}, or one row per item'
    )


def find_ids(table: Table, role: str, in_lists: bool = False, named: bool = True) -> list[Ids]:
    """The columns of a row with a known name of a role, the likeliest first.

    in_lists: also those that say no role. not named: then the others that may have ids.
    """
    ids, other = [], "item" if role == "query" else "query"
    for name in table.free_columns(role):
        kind, rank = table.columns[name], rank_of(role, name)
        if (parent := name.rpartition(".")[0]) and is_called(parent, ROLES[role]):
            table.find(role, parent)  # asks for the fields of a key
        elif rank is not None and not is_nested(kind):
            ids.append(Ids(name, quote(name), rank))
        elif not named and is_id(kind) and rank_of(other, name) is None:
            ids.append(Ids(name, quote(name), _UNNAMED))
    best = [x for x in ids if x.rank < WEAK[role] and not in_lists]
    return sorted(best if best and named else ids, key=lambda x: x.rank)
