"""Paths: what a table holds, and how `item=` names it.

A path leads to a column, to a field of an object or of the objects in lists, however deep, to a
part of each pair, or to the ids of a text: `answer.steps.doc_id`, `expected[1]`. Several paths of
one list are a key: `results.doc_id, page`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

from rankql.core.base.column_names import list_side
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.ids import Ids
from rankql.core.tables.tables import Table, key_text, quote_name

# The parts of a list in a list that are paths.
_PARTS = 2
_NUMBERED = re.compile(r"\D*\d+\D*")


def find_paths(table: Table) -> dict[str, Ids]:
    """What a table holds, by its path; `column` is the path of a list."""
    found: dict[str, Ids] = {}
    stems = defaultdict[str, list[str]](list)
    for name in table.own_columns:
        if name.partition(".")[0] != name and table.has(name.partition(".")[0]):
            continue  # a field that was unpacked
        parsed = duckdb.sqltype(table.columns[name]) if table.columns[name] != '"NULL"' else None
        paths = _walk(name, quote(name), parsed, "", "") if parsed else ()
        found |= {x.name: x for x in paths}
        if _NUMBERED.fullmatch(name):
            stems[re.sub(r"\d+", "#", name)].append(name)
    for names in stems.values():  # a column of each place: top1_id, top2_id
        kinds = {table.columns[x] for x in names}
        if len(names) > 1 and len(kinds) == 1 and names[0] in found:
            text = f"[{', '.join(map(quote_name, names))}]"
            stem = re.sub(r"[_-]?\d+", "", names[0])
            found[text] = Ids(text, "x_", column=stem, values=text, kind=kinds.pop())
    return found


def _walk(text: str, value: str, kind: Any, owner: str, listed: str) -> Iterator[Ids]:
    if kind.id == "struct":
        kinds = {str(child) for _, child in kind.children}
        names = [name for name, _ in kind.children]
        of_lists = len(kinds) == 1 and len(names) > 1 and next(iter(kinds)).endswith("[]")
        of_lists = of_lists and "STRUCT(" not in next(iter(kinds))
        if of_lists and not owner and not any(map(list_side, names)):  # ids by what needs them
            lists = (f"coalesce({text}.{quote_name(x)}, [])" for x in names)
            every = f"flatten([{', '.join(lists)}])"
            yield Ids(every, "x_", column=text, values=every, kind=next(iter(kinds))[:-2])
            return
        for name, child in kind.children:
            yield from _walk(f"{text}.{name}", f"{value}[{literal(name)}]", child, owner, listed)
    elif kind.id in ("list", "array"):
        ((_, child), *_) = kind.children
        if owner and child.id not in ("struct", "list", "map"):
            for n in range(1, _PARTS + 1):
                yield _of_value(f"{text}[{n}]", f"{value}[{n}]", child, owner, listed)
        inner = f"flatten(list_transform({owner}, lambda x_: {value}))" if owner else value
        yield from _walk(text, "x_", child, inner, text)
    elif kind.id != "map":
        yield _of_value(text, value, kind, owner, listed)


def _of_value(text: str, value: str, kind: Any, owner: str, listed: str) -> Ids:
    is_json = str(kind) == "JSON"  # of a file with numbers and texts
    sql, of_value = (f"({value} ->> '$')", "VARCHAR") if is_json else (value, str(kind))
    return Ids(text, sql, column=listed, values=owner, kind=of_value)


def write_ids(paths: Sequence[Ids]) -> str:
    """The SQL of the list of ids of a row, by one path or by a key of several."""
    values = [x.sql for x in paths]
    ids = values[0] if len(paths) == 1 else key_text(values, [x.kind for x in paths])
    owner = next((x.values for x in paths if x.values), "")
    if not owner:
        return f"[{ids}]"
    return owner if ids == "x_" else f"list_transform({owner}, lambda x_: {ids})"


def spell(paths: Sequence[Ids]) -> str:
    """How `item=` names a path or a key: of fields of one list, the first names the list."""
    first, *others = paths
    prefix = f"{first.column}."
    return ", ".join([first.name, *(x.name.removeprefix(prefix) for x in others)])


def read_path(table: Table, text: str) -> tuple[str, str] | None:
    """The SQL and the type of the lists that a path or a key names, None if it is none."""
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] + inner[-1:] == "()" else inner
    names = [x.strip() for x in inner.split(",")]
    if not all(re.fullmatch(r"[\w .-]+(\[\d\])?", x) for x in names):
        return None
    known = find_paths(table)
    first = known.get(names[0])
    parts = [known.get(x) or known.get(f"{first.column}.{x}") for x in names] if first else []
    found = [x for x in parts if x]
    if len(found) < len(names) or len({x.values for x in found} - {""}) != 1:
        return None
    kind = found[0].kind if len(found) == 1 else "VARCHAR"
    return write_ids(found), f"{kind}[]"
