"""Names: the columns that may have a role, and whether their names decide alone.

A list of ids is a column of that type, an object {id: number}, or a text of several ids. No row is
read here; where names do not decide, `choose` does, or `missing_role` asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import duckdb

from rankql.core.base.column_names import (
    ADD_HEADER,
    COLUMN_NAMES,
    ROLES,
    WEAK,
    describe_span,
    find_ends,
    find_name,
    is_called,
    known_names,
    list_side,
    missing_text,
    rank_of,
    recognise_item_alone,
    says,
    squash,
    words_of,
)
from rankql.core.base.errors import Call, Question, RankqlError
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.ids import Ids
from rankql.core.tables.tables import (
    FRACTIONS,
    NUMBERS,
    Runs,
    Table,
    is_id,
    is_nested,
    is_number,
    is_text,
    quote_keyword,
    quote_name,
    text_number,
)

# Lists of fractions are not ids.
VECTOR = re.compile(r"(FLOAT|DOUBLE|DECIMAL\(.*\))\[\d*\]")
# The rank of a column whose name is not known.
_UNNAMED = 1000


def lists_of(table: Table) -> list[str]:
    """The columns of lists that may have ids, and of objects {id: number} if no row is an item."""
    kinds = table.columns.items()
    lists = [x for x, kind in kinds if kind.endswith("]") and not VECTOR.fullmatch(kind)]
    known = any(map(table.known, ("item", *NUMBERS)))
    rows = known or any(kind.startswith(FRACTIONS) for _, kind in kinds)
    return lists + [x for x in table.columns if not rows and is_map(table, x)]


def is_map(table: Table, column: str) -> bool:
    """Is it a map, or an object of numbers that was not unpacked because its names are ids?"""
    unpacked = any(x.startswith(f"{column}.") for x in table.columns)
    return has_numbers(table.columns[column]) and not unpacked


def has_numbers(kind: str) -> bool:
    """Is it a type of maps, or of objects of numbers alone?"""
    kinds = [] if kind.endswith("]") else [x.kind for x in fields_of(kind).values()]
    return kind.startswith("MAP(") or (bool(kinds) and all(map(is_number, kinds)))


class Field(NamedTuple):
    """A field of an object: its type, and the names that lead to it."""

    kind: str
    path: tuple[str, ...]

    def of(self, value: str) -> str:
        """The SQL of the field of an object."""
        return value + "".join(f"[{literal(name)}]" for name in self.path)


@lru_cache(1000)
def fields_of(kind: str) -> Mapping[str, Field]:
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
    if says(name, "list"):
        return all(is_number(x) or is_text(x) for x in kinds)
    ids = list_side(name) or (_list_side(name) and COLUMN_NAMES.isdisjoint(fields_of(kind)))
    return bool(ids) and all(map(is_number, kinds))


def _list_side(name: str) -> str:
    """The side of a list or a map: relevance may be {id: grade}, as queries have it."""
    return "qrels" if squash(name) == "relevance" else list_side(name)


def find_list(table: Table, known: str, name: Any = None) -> str | None:
    """The column of lists with this name or a known one; None if the table has a row per item."""
    nested = [
        column for column, kind in table.columns.items()
        if is_nested(kind) and (not fields_of(kind) or kind[-1] == "]" or is_map(table, column)
                                or has_numbers_of_ids(column, kind))
    ]  # fmt: skip
    if not nested or table.unnested or table.unit == "ids":
        return None
    if isinstance(name, str) and table.has(name):
        return find_name(nested, [name])
    first = name[0] if isinstance(name, tuple) else name  # of a key of fields
    if isinstance(first, str) and (owners := [x for x in nested if first.startswith(f"{x}.")]):
        return max(owners, key=len)
    ranks = known == "relevant" or any(map(table.known, ("pos", "score")))
    if table.known("item") and ranks and (known == "retrieved" or table.known("rel")):
        return None
    if column := find_name(nested, known, *["predicted"] * (known == "retrieved")):
        return column
    side = "run" if known == "retrieved" else "qrels"
    likely = [x for x in nested if _list_side(x) == side and not VECTOR.fullmatch(table.columns[x])]
    weaker = find_name([x for x in nested if table.columns[x].endswith("]")], f"{side} list")
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
        if (parent := name.rpartition(".")[0]) and says(parent, role):
            if not table.roles.get(role) and role not in table.named.values():
                table.find(role, parent)  # asks for the fields of a key
        elif rank is not None and not is_nested(kind):
            ids.append(Ids(name, quote(name), rank))
        elif not named and is_id(kind) and rank_of(other, name) is None:
            ids.append(Ids(name, quote(name), _UNNAMED))
    best = [x for x in ids if x.rank < WEAK[role] and not in_lists]
    return sorted(best if best and named else ids, key=lambda x: x.rank)


def name_ids(
    runs: Runs, qrels: Table | None, options: Mapping[str, Any], by: Sequence[str]
) -> tuple[Runs, Table | None] | None:
    """The runs and judgments with the query and the item as roles, if they are tidy: flat, with one
    column of a known name for each role. None if something must be chosen or unpacked.
    """
    named = (*ROLES, "system", "order", "forbidden", "groups", "collapse")
    tables = [*runs.values(), *([qrels] if qrels else [])]
    if any(options.get(x) is not None for x in named) or not all(
        any(table.has(name) for table in tables) for name in by
    ):
        return None
    ranked = {x: _name_ids(table, by, "item" if qrels else "rel") for x, table in runs.items()}
    judged = qrels and _name_ids(qrels, by, "item", "rel")
    if not all(ranked.values()) or (qrels and not judged):
        return None
    return {x: table for x, table in ranked.items() if table}, judged


def _name_ids(table: Table, by: Sequence[str], *needed: str) -> Table | None:
    is_run, columns = table.label != "qrels", table.columns.items()
    systems = is_run and any(says(x, "ranked system", "system") for x in table.columns)
    if systems or any(is_nested(kind) for _, kind in columns):
        return None
    known = {
        role: [x for x in table.columns if rank_of(role, x) is not None]
        for role in ("query", "item")
    }
    ids = {role: names[0] for role, names in known.items() if names}
    weak = [x for role, x in ids.items() if (rank_of(role, x) or 0) >= WEAK[role]]
    for role in NUMBERS:
        known[role] = [x for x in table.columns if says(x, role, f"weaker {role}")]
    lacks = not all(known[x] for x in ("query", *needed)) or (
        is_run and not known["pos"] and not known["score"]
    )
    several = any(len(names) > 1 or {*names} & {*by} for names in known.values())
    if lacks or weak or several:
        return None
    return replace(table, roles=ids, named={table.actual_name(x): "" for x in by if table.has(x)})


def _numbers_of(table: Table, names: Sequence[str]) -> list[str]:
    """The columns that have numbers, also as the text of a file."""
    if not table.text or not names:
        return [x for x in names if is_number(table.columns[x])]
    counts = table.row(", ".join(f"count({text_number(x)})" for x in names))
    return [x for x, count in zip(names, counts, strict=True) if count]


def missing_role(
    table: Table, role: str, hints: Sequence[str] = (), unnamed: bool = False
) -> RankqlError:
    """The question about a role without a column: which columns may be it, by their types."""
    without_role = table.free_columns(role)
    free = [x for x in table.own_columns if x in without_role and not says(x, "row number")]
    numbers = _numbers_of(table, free)
    ids = [x for x in free if is_id(table.columns[x]) and not says(x, "time", "split")]
    if role == "item":
        ids = [x for x in ids if x != table.find("query") and not says(x, "question")]
        rel = table.find("rel") if find_name(free, "annotator") else None
    likely = [x for x in ids if is_text(table.columns[x]) or says(x, "id")]
    others = [x for x in ids if not any(says(x, y) for y in ("rel", "pos", "score"))]
    names = [*dict.fromkeys((*likely, *others))]
    ends = find_ends(names) if role == "item" else ()
    hints = [*hints, *([describe_span(ends)] if ends else [])]
    places = [x for x in names if role == "item" and says(x, "part") and x not in ends]
    if texts := [x for x in names if is_text(table.columns[x]) and x not in places]:
        names = [x for x in names if x not in places or is_text(table.columns[x])]
        names += [f"{x}, {y}" for x in texts for y in places]
    calls: list[Call] = [{role: x} for x in names]
    if role == "item" and rel and table.label == "qrels":  # several label an item
        calls += [{**call, "rel": f"max({quote_name(rel)})"} for call in calls]
    judged = [x for x in numbers if list_side(x) == "qrels" and not says(x, "place")]
    if role == "rel":
        from rankql.core.tables.first_ranks import ask_about_ranks

        if table.label.startswith("run") and (ranks := ask_about_ranks(table, numbers)):
            return ranks
        known = map(table.find, ("query", "item", *NUMBERS))
        if table.label.startswith("run") and {*free} <= {*known}:
            text = f"{table.label} has no grades, and there are no judgments"
            return Question(text, hints=hints, otherwise="Pass qrels=", ungraded=True)
        from rankql.core.tables.grades import offer_grades  # for errors alone

        calls = offer_grades(table, free, numbers, judged)
    if role == "item" and len(numbers) > 1 and table.label != "qrels":
        unpivot = "df.unpivot(index='query', variable_name='item', value_name='score')"
        hints.append(f"If each column is an item, unpivot the table: {unpivot}")
    if role == "score":
        numbers = [x for x in numbers if not (says(x, "rel") or x in judged)]
        scores = [x for x in numbers if words_of(x) & {"score", "scores", "points"}]
        places = [x for x in numbers if x in ids and x not in scores]
        calls = [{"pos": x} for name in places for x in (name, f"{quote_keyword(name)} + 1")]
        calls += [
            {role: x} for x in numbers
            if table.columns[x].startswith(FRACTIONS) or x in scores
            or (table.text and not says(x, "place"))
        ]  # fmt: skip
        from rankql.core.tables.grades import fall_in_queries  # for errors alone

        numbers = [x for x in numbers if table.columns[x] != "BOOLEAN"]
        ordered = table.ordered and not numbers  # nothing else orders the items
        calls += [{"order": "rows"}] if ordered and not fall_in_queries(table) else []
        hints = ["The run comes first, the judgments second"]
    ungraded = role == "rel" and table.label != "qrels"
    return Question(
        missing_text(role, f" in {table.label}"),
        calls,
        hints,
        others=["pass qrels="] if ungraded else [],
        blanks={role: "..."},
        known=known_names(role),
        found=table.own_columns,
        ungraded=ungraded,
        unnamed=unnamed,
    )


def assign_roles(
    table: Table,
    names: Mapping[str, str | None],
    needed: Sequence[str],
    preferred: Mapping[str, Sequence[str]] | None = None,
    only: bool = False,
) -> Table:
    """The table with its roles assigned: all that are recognised, or only those that are needed."""
    preferred = preferred or {}
    columns = {role: table.find(role, names.get(role), preferred.get(role, ())) for role in ROLES}
    roles = {role: column for role, column in columns.items() if column is not None}
    for role in needed:
        if role == "item" and role not in roles:
            name = recognise_item_alone(table.free_columns(role), f" of {table.label}")
            roles |= {role: name} if name else {}
        if role not in roles:
            hints = list[str]()
            values = [x for x in table.own_columns if not (says(x, "query") or says(x, "system"))]
            ranks = any(map(table.known, ("item", "score", "pos")))
            alone = not ranks and all(is_number(table.columns[x]) for x in values)
            of_values = table.shape == "map" or alone
            if role == "rel" and table.label != "qrels" and of_values:
                own = "compare and gate take values of your own, such as revenue, by "
                hints.append(f"{own}rankql.read_values, and as files of a query and numbers alone")
            known = [x for each in ROLES.values() for x in each]
            unnamed = table.text and not any(is_called(x, known) for x in table.own_columns)
            if unnamed:
                hints.append(f"If its first line is data, {ADD_HEADER}")
            named = {x: y for x, y in roles.items() if names.get(x)}
            raise missing_role(replace(table, roles=named), role, hints, unnamed)
    return replace(table, roles={role: roles[role] for role in (needed if only else roles)})
