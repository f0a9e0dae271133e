"""What tells rows apart: the columns that are systems, or parts of the key of the queries.

Rows that should be single are counted with each column, and with each two. Systems rank nearly all
of the queries each, and the judgments do not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from rankql.core.base.column_names import (
    USERS,
    core_of,
    is_called,
    list_side,
    names_part_of_key,
    says,
)
from rankql.core.base.errors import Call
from rankql.core.metrics.macros import quote
from rankql.core.tables.tables import (
    FRACTIONS,
    Table,
    is_id,
    is_nested,
    is_number,
    is_text,
    quote_keyword,
)

# Systems rank this share of the queries of all, as some lack a few; and there are not more.
NEARLY_ALL, _SYSTEMS = 0.9, 50
# The columns of which two may be it together, and the names of how deep a ranking was cut.
_COLUMNS, _DEPTHS = 8, ("k", "top_k", "depth", "cutoff", "n_results")


def tell_apart(
    table: Table, unit: Sequence[str], others: Iterable[Table] = (), system: str | None = None
) -> list[Call]:
    """The calls with which no two rows of a query have the same unit; the likeliest first.

    unit: the items or positions; nothing where a query has one row. others: the other tables, whose
    columns are no systems. system: the column of the systems, if there is one.
    """
    key = table.roles["query"]
    parts = [*table.computed.get(key, [key])]
    taken = {*parts, *unit, *table.roles.values(), system}
    free = [x for x in table.own_columns if x not in taken and not is_nested(table.columns[x])]
    free = [x for x in free if not says(x, "row number", "retrieved", "relevant", "order")]
    free = [x for x in free if not (list_side(x) and is_text(table.columns[x]))]
    within = [*parts, *([system] if system else [])]
    looks = {x[0]: y for x, y in _look(table, within, unit, ((x,) for x in free)).items()}
    calls: list[Call] = []
    if not unit and len(parts) == 1:
        calls += [{"query": x} for x in free if says(x, "id") and looks[x].is_row]
    shared = {x for x in free if any((t.before or t).has(x) for t in others)}
    few = [x for x in free if looks[x].may_be_part(x, table.columns[x], bool(unit), x in shared)]
    few = [x for x in few if not (unit and _counts_chunks(table, x))]
    found: dict[tuple[str, ...], _Look] = {(x,): looks[x] for x in few if looks[x].unique}
    if not found and not calls:
        some = [x for x in few if looks[x].groups > looks[x].queries][:_COLUMNS]
        pairs = _look(table, within, unit, combinations(some, 2))
        found = {names: look for names, look in pairs.items() if look.unique}
    for names, look in found.items():
        first = any(core_of(x) in USERS or x in table.known("query") for x in names)
        of_key: Call = {"query": [*names, *parts] if first else [*parts, *names]}
        texts = [_as_text(table, x) for x in names]
        own: Call = {"system": texts[0] if len(texts) == 1 else texts}
        if not unit and look.is_row and len(names) > 1:
            calls.append({"query": [*names]})  # whatever the text of the question is
        elif system or not shared.isdisjoint(names) or ((first or not unit) and not look.dense):
            calls.append(of_key)
        elif all(says(x, "system") or is_called(x, _DEPTHS) for x in names):
            calls.insert(0, own)
        else:
            part = not look.dense or any(_says_key(x, table.columns[x], unit) for x in names)
            calls += [of_key, own] if part else [own, of_key]
    if unit == [table.roles.get("item")]:  # of which one of each value is another item
        finer = [x for x in shared if looks[x].unique and x not in few]
        calls += [{"item": f"{x}, {unit[0]}"} for x in finer]
    return calls


def _says_key(name: str, kind: str, unit: Sequence[str]) -> bool:
    """Is it rather a part of the key than a setting: a time, or a number beside items?"""
    number = bool(unit) and _is_whole_number(kind)
    return number or kind.startswith(("DATE", "TIME")) or names_part_of_key(name, "BIGINT")


def _is_whole_number(kind: str) -> bool:
    return is_number(kind) and not kind.startswith((*FRACTIONS, "BOOLEAN"))


def _counts_chunks(table: Table, name: str) -> bool:
    """Is it a number that begins at 0 or 1, as those of the chunks of a document do?"""
    kind = table.columns[name]
    if not _is_whole_number(kind) or names_part_of_key(name, kind):
        return False
    return bool(table.value(f"min({quote(name)}) BETWEEN 0 AND 1"))


def _as_text(table: Table, name: str) -> str:
    """A column, or its text if it has fractions, which are no ids."""
    is_fraction = table.columns[name].startswith(FRACTIONS)
    return f"CAST({quote_keyword(name)} AS VARCHAR)" if is_fraction else name


class _Look(NamedTuple):
    """How many rows and queries there are; values of some columns, and of these with the query;
    and how many are left with the unit too.
    """

    rows: int
    queries: int
    values: int
    groups: int
    units: int

    @property
    def unique(self) -> bool:
        return self.units == self.rows

    @property
    def is_row(self) -> bool:
        return self.values == self.rows

    @property
    def dense(self) -> bool:
        """Has each value nearly all queries, as systems have?"""
        return 1 < self.values <= _SYSTEMS and (
            self.groups >= NEARLY_ALL * self.values * self.queries
        )

    def may_be_part(self, name: str, kind: str, several: bool, shared: bool) -> bool:
        """Have its values several rows each? several: is a ranking several rows? shared: have other
        tables the column?
        """
        if kind.startswith(FRACTIONS) and not self.dense:
            return False
        named = is_id(kind) and names_part_of_key(name, kind) and not says(name, "time")
        if named or self.dense or shared:
            return self.values > 1 and (self.groups < self.rows or not several)
        return 2 * (self.groups if several else self.values) <= self.rows


def _look(
    table: Table, key: Sequence[str], unit: Sequence[str], sets: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], _Look]:
    """The counts of each set of columns."""
    count, sets = "count(DISTINCT row({}))".format, [*sets]
    lists = [[*key], *(x for names in sets for x in (names, [*key, *names], [*key, *names, *unit]))]
    counts = ", ".join(count(", ".join(map(quote, names))) for names in lists)
    rows, queries, *each = table.row(f"count(*), {counts}")
    looks = zip(each[::3], each[1::3], each[2::3], strict=True)
    return {names: _Look(rows, queries, *x) for names, x in zip(sets, looks, strict=True)}
