"""Columns that differ in a running number, as item_1 and item_2: the places of a list."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import chain, pairwise

from rankql.core.base.column_names import RELEVANT, RETRIEVED, ROLES, find_name
from rankql.core.base.errors import require
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.tables import Table, is_text, same_kind

_NUMBERED = re.compile(r"(.*?)[-_ ]?(\d{1,3})")
# Stems of ids in columns of floats, which pandas makes of whole numbers with a missing one.
_STEMS = ("", "rec", "top", *ROLES["item"])


def fold_columns(table: Table) -> Table:
    """The table with a list for columns that differ in a running number, as item_1 and item_2.

    The numbers next to them, as score_1 and rel_1, are fields of its elements.
    """
    own = RELEVANT if table.label == "qrels" else RETRIEVED
    stems = defaultdict[str, dict[int, str]](dict)
    for name in table.columns:
        if match := _NUMBERED.fullmatch(name):
            stems[match[1]][int(match[2])] = name
    known = (*ROLES["item"], *ROLES["score"], *ROLES["pos"], *own)
    if not stems or find_name(table.columns, known):
        return table
    ids, numbers = dict[str, list[str]](), dict[str, list[str]]()
    for stem, names in stems.items():
        first, kinds = min(names), {table.columns[name] for name in names.values()}
        if find_name([stem], "query"):
            continue
        if len(names) < 2 or first > 1 or max(names) != first + len(names) - 1:
            continue
        if not same_kind([*kinds - {'"NULL"'}] or ["VARCHAR"]):
            continue
        if stem and table.session.mentions(*names.values()):  # the caller names one of them
            continue
        texts = all(is_text(kind) or kind.endswith(("INT", "INTEGER", '"NULL"')) for kind in kinds)
        called = find_name([stem], "score", "rel")
        side = numbers if called else ids if texts or find_name([stem], _STEMS) == stem else {}
        side[stem] = [names[i] for i in sorted(names)]
    fields, used = list[str](), list[str]()
    for stem, columns in ids.items():
        place, cells = f"{columns[0]} to {columns[-1]}", [*map(quote, columns)]
        if any(table.columns[name] == "DOUBLE" for name in columns):
            whole = "CASE WHEN isfinite({0}) AND {0} = floor({0}) THEN CAST({0} AS BIGINT) END"
            cells = [*map(whole.format, cells)]
        gap = " OR ".join(f"{x} IS NULL AND {y} IS NOT NULL" for x, y in pairwise(cells))
        require(
            not table.has_row(gap),
            f"{table.label}: {place} are the places of a list, but one without an id comes before "
            "an id. Move the ids up",
        )
        table.note(f"{place} are read as one list of ids, in this order")
        beside = {x: y for x, y in numbers.items() if len(ids) == 1 and len(y) == len(columns)}
        used += [*columns, *chain.from_iterable(beside.values())]
        if beside:
            pairs = (
                map("{}: {}".format, map(literal, beside), map(quote, row))
                for row in zip(*beside.values(), strict=True)
            )
            objects = zip(cells, map(", ".join, pairs), strict=True)
            cells = [f"CASE WHEN {x} IS NOT NULL THEN {{'id': {x}, {y}}} END" for x, y in objects]
        name = quote(own[0] if len(ids) == 1 else stem or "columns")
        fields.append(f"list_filter([{', '.join(cells)}], lambda x_: x_ IS NOT NULL) AS {name}")
    if not fields:
        return table
    others = f"* EXCLUDE ({', '.join(map(quote, used))})"
    sql = f"(SELECT {others}, {', '.join(fields)} FROM {table.sql})"
    return replace(table, sql=sql, columns=table.describe(sql).columns)
