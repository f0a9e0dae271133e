"""Cells and lists that may hold the items: their fields, and several ids in one text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from rankql.core.base.column_names import (
    CALLED,
    COLUMN_NAMES,
    ROLES,
    find_name,
    is_called,
    list_side,
    rank_of,
    says,
    squash,
)
from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import (
    entries_of,
    fields_of,
    find_field,
    find_ids,
    find_list,
    has_numbers,
    has_numbers_of_ids,
    wrong_type,
)
from rankql.core.tables.ids import Ids
from rankql.core.tables.tables import (
    AS_FRAMES,
    OF_OBJECTS,
    Table,
    is_id,
    is_nested,
    is_number,
    is_text,
    key_text,
)

# What separates several ids in one cell, by the reading of the cell: see `Ids`.
SEPARATORS = ("", "\n", ";", "|", "\t", ",", " ")
# So many cells decide whether there is one.
_SAMPLE = 1000
# What Python prints of objects: Document(id=d1), <Document: ...>, ('d1', 0.5), array([...]).
_PRINTED = r"""^\[?(([A-Z]\w*\(\w+=)|(<[A-Z][\w.]*:? )|(\(['"]\w)|(array\(\[))"""


# The columns that may be the item, by the name of the run.
Items: TypeAlias = Mapping[str | None, list[Ids]]


def split_groups(table: Table) -> Table:
    """The table with objects of an id and its subtopic in place of lists of lists of ids."""
    kinds = {x: kind.removesuffix("[][]") for x, kind in table.columns.items() if "][]" in kind}
    numbers = [x for x, kind in kinds.items() if says(x, "grade list") and is_number(kind)]
    kinds = {x: kind for x, kind in kinds.items() if is_id(kind) and not kind.startswith("JSON")}
    kinds = {x: kind for x, kind in kinds.items() if x not in numbers}
    table = replace(table, columns={x: y for x, y in table.columns.items() if x not in numbers})
    what, found = f"groups='any' needs lists of lists of ids in {table.label}", table.own_columns
    require(bool(kinds), f"{what}. Found: {', '.join(found)}. Leave it out")
    for name, kind in kinds.items():
        empty = f"list_filter({quote(name)}, lambda g_: coalesce(len(g_), 0) = 0)"
        some = table.has_row(f"len({empty}) > 0")
        require(not some, f"{what}, and {name} has an empty inner list. Remove it")
        graded = numbers if list_side(name) == "qrels" else []
        ids = "lambda x_: {'id': x_, 'subtopic': CAST(i_ AS VARCHAR)}"
        group = "g_"  # without the ids of grade 0
        for grade in graded[:1]:
            group = f"list_filter(g_, lambda x_, j_: {quote(grade)}[i_][j_] > 0)"
        groups = f"list_transform({quote(name)}, lambda g_, i_: list_transform({group}, {ids}))"
        kind = f"STRUCT(id {kind}, subtopic VARCHAR)[]"
        table = table.with_values(name, f"flatten({groups})", kind)
        origins = {**table.origins, f"{name}.id": f"one of each list in {name}"}
        table = replace(table, origins=origins)
    return table


def join_grades(table: Table, items: Sequence[Ids], rel: Any) -> Table:
    """The table with objects of an id and its grade in place of the retrieved ids.

    A list has their grades if rel= names it and no other has relevant ids, or by its name, if it
    has one value twice in some row, which ids have not.
    """
    ids = items[0].column if items else ""
    kind = table.columns.get(ids, "")
    if not kind.endswith("]") or kind.startswith("STRUCT(") or kind.endswith("[][]"):
        return table
    others = [x for x, y in table.columns.items() if y.endswith("]") and x != ids]
    judged = [x for x in others if list_side(x) == "qrels" or says(x, "grades") or x == rel]
    name = judged[0] if len(judged) == 1 else ""
    of_grade = table.columns.get(name, "")[:-2]
    if not (is_number(of_grade) or of_grade == "BOOLEAN") or rel not in (name, None):
        return table
    if rel is None and not says(name, "grades"):
        return table
    grades, values = quote(name), quote(ids)
    fits = f"bool_and(len({grades}) IS NOT DISTINCT FROM len({values}))"
    if rel is None:
        fits += f" AND bool_or(len(list_distinct({grades})) < len({grades}))"
    if not table.value(fits):
        return table
    pair = f"lambda x_: {{'id': x_[1], {grades}: x_[2]}}"
    joined = f"list_transform(list_zip({values}, {grades}), {pair})"
    table = table.with_values(ids, joined, f"STRUCT(id {kind[:-2]}, {grades} {of_grade})[]")
    return replace(table, columns={x: y for x, y in table.columns.items() if x != name})


def unpack_objects(table: Table, maps: Sequence[str] = (), others: str = "") -> Table:
    """The table with a column for each field of its objects, but not for {id: number}: maps, or
    objects of such names, unless others= names a field.
    """
    for name, kind in [*table.columns.items()]:
        whole = kind.endswith("]") or table.unit == "ids" or name in maps
        fields = {} if whole else fields_of(kind)
        if fields and (f"{name}." in others or not has_numbers_of_ids(name, kind)):
            fields = {x: y for x, y in fields.items() if f"{name}.{x}" not in table.columns}
            columns = {f"{name}.{x}": field.kind for x, field in fields.items()}
            values = ", ".join(
                f"{field.of(quote(name))} AS {quote(f'{name}.{x}')}" for x, field in fields.items()
            )
            sql = f"(SELECT *, {values} FROM {table.sql})"
            table = replace(table, sql=sql, columns={**table.columns, **columns})
    return table


def find_maps(table: Table, names: Sequence[Any], others: str) -> list[str]:
    """The columns of objects {id: number} whose names do not say it: those that the caller names as
    the items, and those whose fields differ between rows, unless others= names a field.
    """
    maps = []
    for name, kind in table.columns.items():
        fields = fields_of(kind) if has_numbers(kind) and not has_numbers_of_ids(name, kind) else {}
        if fields and COLUMN_NAMES.isdisjoint(map(squash, fields)) and f"{name}." not in others:
            lacks = " OR ".join(f"{x.of(quote(name))} IS NULL" for x in fields.values())
            if name in names or table.has_row(f"{quote(name)} IS NOT NULL AND ({lacks})"):
                maps.append(name)
    return maps


def unpack_cells(table: Table, names: Any = (), others: str = "") -> Table:
    """The table with the fields of its objects, and with lists where cells have them as text: as
    Python, NumPy, JSON or Postgres.

    names: columns that the caller names as the items. others: what else the caller names.
    """
    table = unpack_objects(table, find_maps(table, names, others), others)
    for name, kind in [] if table.trec else table.columns.items():
        named = list_side(name) or says(name, "list", "run list", "qrels list") or name in names
        if not named or not is_text(kind) or kind.endswith("]"):
            continue
        text = _cell(name)
        judged = list_side(name) == "qrels" or table.label == "qrels"
        empty = "coalesce({}, [])" if judged else "{}"  # of text, NULL is an empty cell
        lists = rf"{text} = '' OR regexp_full_match({text}, '(?s)\[[^{{]*\]|\{{[^:]*\}}')"
        nested = f"({text} ^@ '[{{' OR {text} ^@ '[[')"  # objects, or lists
        sql = f"SELECT bool_and({lists}) AND max({text}) <> '' AND NOT bool_or({nested}), "
        sql += f"bool_and({nested} OR {text} IN ('', '[]')) AND bool_or({nested}), "
        sql += f"any_value({text}) FILTER (regexp_matches({text}, {literal(_PRINTED)})) "
        sql += f"FROM (FROM {table.sql} LIMIT "
        of_ids, of_objects, printed = table.session.row(f"{sql}{_SAMPLE})")
        if printed is not None:
            raise _printed_objects(table, name, printed)
        if of_ids:
            value = rf"regexp_extract_all({text}[2:-2], '{_ELEMENT}')"
            value = f"list_transform({value}, lambda x_: {_UNQUOTED})"
            table = table.with_values(name, empty.format(value), "VARCHAR[]")
        elif of_objects:
            json = f"TRY_CAST(nullif({text}, '') AS JSON)"
            wrong = f"any_value({text}) FILTER ({json} IS NULL AND {text} <> '')"
            structure, example = table.row(f"json_group_structure({json}), {wrong}")
            require(
                example is None,
                f"{table.label}: {name} must be JSON, not such as {example!r}. Write its texts in "
                "double quotes",
            )
            value = f"from_json({json}, {literal(structure)})"
            column = table.describe(f"(SELECT {value} AS x FROM {table.sql})")
            table = table.with_values(name, empty.format(value), column.columns["x"])
    sides = {list_side(x) for x, kind in table.columns.items() if kind.endswith("]")}
    if any(names) or ("qrels" in sides and ("run" in sides or table.label == "qrels")):
        texts = [x for x, kind in table.columns.items() if kind == "VARCHAR"]
        for name in [x for x in texts if not says(x, "query")]:
            # A list of numbers, such as the grades of the ids in the list next to it.
            value = f"TRY_CAST({quote(name)} AS DOUBLE[])"
            sql = f"SELECT count({value}) = count({quote(name)}) AND max({quote(name)}) ^@ '[' "
            if table.session.value(f"{sql} FROM (FROM {table.sql} LIMIT {_SAMPLE})"):
                table = table.with_values(name, value, "DOUBLE[]")
    return table


def _printed_objects(table: Table, name: str, text: str) -> RankqlError:
    """The error about a cell that is the text of an object of Python."""
    (kind,) = re.findall(r"[A-Za-z]\w*", text)[:1] if not re.match(r"\[?\(", text) else ["tuple"]
    calls = {"tuple": "[x[0] for x in results]", "array": "array.tolist()"}
    return RankqlError(
        f"{table.label}: {name} has the text of {kind} objects, such as {text[:40]!r}. Write ids, "
        f"such as {calls.get(kind, '[d.id for d in documents]')}"
    )


# An element of a list that is text, in SQL, and what is in its quotes.
_ELEMENT = r"""(?s)"[^"]*"|''[^'']*''|[^\s,]+"""


_UNQUOTED = "CASE WHEN x_[1] IN ('\"', '''') THEN x_[2:-2] ELSE x_ END"


def find_items(
    table: Table,
    known: str,
    name: Any,
    taken: set[str],
    paired: bool = False,
    numbered: Iterable[str] = (),
) -> list[Ids]:
    """The columns, fields of objects in lists and readings of cells that may be the item.

    paired: is it one of a pair that the caller names for a table with both lists? numbered: the
    columns of grades, positions or scores that the caller names, so that a row is an item.
    """
    name = table.roles.get("item", name)
    if isinstance(name, tuple) and table.has(", ".join(name)):
        name = ", ".join(name)  # the key of fields of one object
    column = find_list(table, known, name)
    if column is None:
        ids = find_ids(table, "item") if name is None else []
        if isinstance(name, str) and table.has(name):
            ids = [Ids(table.actual_name(name), quote(table.actual_name(name)))]
        per_row = any(
            table.has(x) and is_number(table.columns[table.actual_name(x)]) for x in numbered
        )
        cells = [] if per_row else _find_cells(table, known, name, paired)
        names = {x.name for x in cells}
        return [*cells, *(x for x in ids if x.name not in {*taken, *names})]
    kind = table.columns[column]
    if not kind.endswith("]"):
        lists = f"map_entries({quote(column)})" if kind.startswith("MAP(") else entries_of(column)
        return [Ids(column, "x_['key']", 0, column, lists, number="x_['value']")]
    if not kind.startswith("STRUCT("):
        text, number = " ->> '$'" if kind.startswith("JSON") else "", ""
        if kind.endswith("[][]"):  # pairs of id and number
            item, number = f"x_[1]{text}", f"TRY_CAST(x_[2]{text} AS DOUBLE)"
        else:
            item = f"x_{text}"
        return [Ids(column, item, 0, column, quote(column), number=number)]
    fields = fields_of(kind)
    named = [find_field(table, column, x) for x in (name if isinstance(name, tuple) else [name])
             if isinstance(x, str)]  # fmt: skip
    if any(named):
        parts = [fields[x] for x in named if x]
        values = [field.of("x_") for field in parts]
        item = values[0] if len(parts) == 1 else key_text(values, [x.kind for x in parts])
        return [Ids(f"{column}.{', '.join(filter(None, named))}", item, 0, column, quote(column))]
    places = _places_of(table, column)
    ids = [
        Ids(f"{column}.{x}", field.of("x_"), rank, column, quote(column), part=x in places)
        for x, field in fields.items()
        if (rank := rank_of("item", x)) is not None and not is_nested(field.kind)
    ]
    if not ids:
        objects = table.own_columns == OF_OBJECTS
        raise Question(
            f"{table.label}: {column} has no field with the id",
            hints=[f"If these are rows of systems, {AS_FRAMES}"] * objects,
            blanks={"item": "..."},
            known=["id", *ROLES["item"]],
            found=fields,
        )
    return ids


def _places_of(table: Table, column: str) -> list[str]:
    """The fields of objects that say where in an item of another field something is: numbers of
    pages or lines, and texts of which one has several ids next to it.
    """
    fields = {x: y for x, y in fields_of(table.columns[column]).items() if is_id(y.kind)}
    texts = [x for x, y in fields.items() if is_text(y.kind) and not says(x, "part")]
    ids = [x for x in texts if rank_of("item", x) is not None or says(x, "parent")]
    rows = f"SELECT unnest({quote(column)}) AS x_ FROM (FROM {table.sql} LIMIT {_SAMPLE})"
    values = ", ".join(f"count(DISTINCT {fields[x].of('x_')}) > 1" for x in ids)

    def has_several(place: str) -> bool:
        groups = f"GROUP BY {fields[place].of('x_')} HAVING greatest({values}) LIMIT 1"
        return bool(table.session.rows(f"SELECT 1 FROM ({rows}) {groups}"))

    places = [x for x in fields if texts and says(x, "part")]
    return [x for x in places if is_number(fields[x].kind) or (ids and has_several(x))]


def _find_cells(table: Table, known: str, name: Any, paired: bool) -> list[Ids]:
    """The readings of a column whose cells may have several ids, or one per row of lists."""
    if table.unnested or table.unit == "ids" or table.roles.get("item"):
        return []
    # Next to the lists of retrieved ids, a plain value is a list of one.
    beside = known == "relevant" and any(x.endswith("]") for x in table.columns.values())
    beside = beside or paired
    likely = [x for x in table.columns if beside and list_side(x) == "qrels" and says(x, "id")]
    lists = [
        *likely,
        *sorted(CALLED[known], key=lambda x: x in CALLED["answer"]),
        *CALLED["predicted"],
    ]
    column = find_name(table.columns, [name] if isinstance(name, str) else lists)
    column = column or (table.find("item") if name is None else None)
    others = [each for role in ("item", "pos", "score", "rel") for each in table.known(role)]
    if column is None or (not paired and {*others} - {column}):
        return []
    kind = table.columns[column]
    listed = is_called(column, lists) or (beside and name is not None)
    if is_nested(kind) or not (is_text(kind) or (listed and beside)):
        return []
    if not (is_text(kind) or (is_id(kind) and (column in likely or column == name))):
        raise wrong_type(table, column)
    text = _cell(column)
    marks = ", ".join(f"bool_or(contains({text}, {literal(x)}))" for x in SEPARATORS[1:])
    # A cell [] is an empty list; another one that begins so is a list in an unknown form.
    encoded = rf"regexp_matches({text}, '^[\[{{]') AND {text} <> '[]'"
    sql = f"SELECT bool_or({encoded}), {marks} FROM {table.sql}"
    encoded, *separated = table.session.row(f"{sql} LIMIT {_SAMPLE}")
    if encoded and listed:
        raise wrong_type(table, column)
    per_row = table.find("pos") is not None  # of an item, with blanks in its id
    if encoded or not (listed or (any(separated) and not per_row)):
        return []
    blank = len(SEPARATORS) - 1
    parts = [0, *(i for i, occurs in enumerate(separated, 1) if occurs)]
    parts.sort(key=lambda i: (i == blank, i == 0 if listed else i, i))
    doubtful = says(column, "answer") or not is_text(kind)
    readings = [
        Ids(column, "x_", rank, column, split_cell(column, i), i, doubtful=doubtful)
        for rank, i in enumerate(parts)
    ]
    one = Ids(column, _cell(column))  # of a table with a row per item
    return readings if listed else [one, *(x for x in readings if x.reading)]


def _cell(column: str) -> str:
    return f"trim(CAST({quote(column)} AS VARCHAR))"


def split_cell(column: str, reading: int) -> str:
    """The list of ids in a cell."""
    text, mark = _cell(column), SEPARATORS[reading]
    ids = f"string_split({text}, {literal(mark)})" if mark else f"[{text}]"
    if mark == " ":
        ids = rf"string_split_regex({text}, '[\s,;|]+')"
    ids = f"list_transform({ids}, lambda x_: trim(x_))"
    return f"list_filter({ids}, lambda x_: x_ NOT IN ('', '[]'))"
