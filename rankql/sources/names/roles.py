"""Roles by names: whether these decide alone, the columns of each role, or the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import Question, Ungraded
from rankql.registry.column_names import (
    ADD_HEADER,
    PLACES,
    RANKED_SYSTEMS,
    ROLES,
    TIMES,
    WEAK,
    WEAKER,
    is_called,
    is_like_id,
    is_row_number,
    list_side,
    missing_column,
    names_system,
    rank_of,
    recognise_item_alone,
    words_of,
)
from rankql.sources.tables import (
    FRACTIONS,
    NUMBERS,
    Runs,
    Table,
    is_id,
    is_nested,
    is_number,
    is_text,
    quote_name,
)

# Words of the names of columns that say whether an item was good.
_OUTCOMES = {
    *("click", "clicks", "clicked", "purchased", "bought", "converted", "correct", "relevant"),
    *("liked", "useful"),
}
# Names of numbers that order items, which judgments may have as grades.
_RANKING = (*ROLES["score"], *ROLES["pos"])


def is_outcome(name: str, kind: str) -> bool:
    """Does a column say whether an item was good, by its type or its name?"""
    words = words_of(name.rpartition(".")[2])
    return kind == "BOOLEAN" or (not kind.endswith("]") and not _OUTCOMES.isdisjoint(words))


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
    systems = is_run and any(is_called(x, RANKED_SYSTEMS) or names_system(x) for x in table.columns)
    if systems or any(is_nested(kind) for _, kind in columns):
        return None
    known = {
        role: [x for x in table.columns if rank_of(role, x) is not None]
        for role in ("query", "item")
    }
    ids = {role: names[0] for role, names in known.items() if names}
    weak = [x for role, x in ids.items() if (rank_of(role, x) or 0) >= WEAK[role]]
    for role in NUMBERS:
        known[role] = [x for x in table.columns if is_called(x, (*ROLES[role], *WEAKER[role]))]
    lacks = not all(known[x] for x in ("query", *needed)) or (
        is_run and not known["pos"] and not known["score"]
    )
    several = any(len(names) > 1 or {*names} & {*by} for names in known.values())
    if lacks or weak or several:
        return None
    return replace(table, roles=ids, named={table.actual_name(x): "" for x in by if table.has(x)})


def missing_role(table: Table, role: str, hint: str = "") -> Question:
    """The question about a role without a column: which columns may be it, by their types."""
    without_role = table.free_columns(role)
    free = [x for x in table.own_columns if x in without_role and not is_row_number(x)]
    numbers = [x for x in free if is_number(table.columns[x]) or table.text]
    ids = [x for x in free if is_id(table.columns[x]) and not is_called(x, TIMES)]
    if role == "item":
        ids = [x for x in ids if x != table.find("query")]
    likely = [x for x in ids if is_text(table.columns[x]) or is_like_id(x)]
    others = [x for x in ids if not any(is_called(x, ROLES[y]) for y in ("rel", "pos", "score"))]
    calls = [{role: x} for x in dict.fromkeys((*likely, *others))]
    judged = [x for x in numbers if list_side(x) == "qrels"]  # such as y_true
    if role == "rel":
        known = map(table.find, ("query", "item", *NUMBERS))
        if table.label.startswith("run") and {*free} <= {*known}:
            text = f"{table.label} has no grades, and there are no judgments"
            return Ungraded(text, otherwise=f"Pass qrels={hint}")
        calls = [{role: x} for x in numbers if is_outcome(x, table.columns[x]) or x in judged]
        calls += [{role: x} for x in numbers if table.label == "qrels" and is_called(x, _RANKING)]
        # Without a place of each, a run of relevant items alone is the best there is.
        if table.label == "qrels" or any(words_of(x) & PLACES for x in numbers):
            calls.append({role: "1"})
    if role == "item" and len(numbers) > 1 and table.label != "qrels":
        hint += ". If each column is an item, unpivot the table: df.unpivot(index='query', "
        hint += "variable_name='item', value_name='score')"
    if role == "score":
        ordered = table.ordered and not numbers  # nothing else orders the items
        numbers = [x for x in numbers if not (is_called(x, ROLES["rel"]) or x in judged)]
        places = [x for x in numbers if x in ids]
        calls = [{"pos": x} for name in places for x in (name, f"{quote_name(name)} + 1")]
        calls += [
            {role: x} for x in numbers
            if table.columns[x].startswith(FRACTIONS) or (table.text and not words_of(x) & PLACES)
        ]  # fmt: skip
        calls += [{"order": "rows"}] if ordered and not table.known("rel") else []
        hint = ". The run comes first, the judgments second"
    text = str(missing_column(role, f" in {table.label}", table.own_columns)).split(". Pass ")[0]
    kind = Ungraded if role == "rel" and table.label != "qrels" else Question
    row: dict[str, Any] = {"query": "q1", "item": "d1"}
    row |= {"rel": 1} if role == "rel" or table.label == "qrels" else {}
    row |= {"score": 2.5} if table.label != "qrels" else {}
    otherwise = f"Rename columns, as in {row}, or name them by {'=, '.join(row)}="
    return kind(text, calls, hint, otherwise, ["qrels="] if kind is Ungraded else [])


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
            hint = ""
            of_values = table.shape == "map" or not table.known("item")
            if role == "rel" and table.label != "qrels" and of_values:
                hint = ". compare and gate take values of your own, such as revenue, by "
                hint += "rankql.read_values, and as files of a query and numbers alone"
            known = [x for each in ROLES.values() for x in each]
            if table.text and not any(is_called(x, known) for x in table.own_columns):
                hint += f". If its first line is data, {ADD_HEADER}"
            raise missing_role(table, role, hint)
    return replace(table, roles={role: roles[role] for role in (needed if only else roles)})
