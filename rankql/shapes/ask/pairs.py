"""Pairs of paths that may be the retrieved and the relevant ids: calls for a question about them.

Both sides share an id within a query. Names order the pairs; how many ids match does not, because
a better system has more hits.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any, NamedTuple, TypeAlias

from rankql.core.base.column_names import (
    KEY_PLACES,
    list_side,
    number_kind,
    rank_of,
    says,
    squash,
    words_of,
)
from rankql.core.base.errors import Call, RankqlError
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import is_map
from rankql.core.tables.ids import Ids
from rankql.core.tables.tables import Table, id_text, is_text, quote_name
from rankql.shapes.choose.cells import SEPARATORS, split_cell
from rankql.shapes.choose.paths import find_paths, spell, write_ids

# The rows in which ids are sought, those of lists, the ids of a row, the pairs that are tried, and
# the texts that tell lists apart.
_ROWS, _LISTS, _IDS, _PAIRS, _LABELS = 2000, 300, 100, 8, 20
# In fewer queries, small numbers are equal by chance.
FEW_QUERIES = 10
# Words of names that say the side of ids, or that they are ids, and not of what.
_SIDES = {
    *("retrieved", "recommended", "ranked", "predicted", "pred", "expected", "relevant", "gold"),
    *("golden", "reference", "truth", "ground", "true", "actual", "target", "answer", "result"),
    *("hit", "id", "correct", "top", "key", "ref", "no", "name", "rag"),
}
# Those of texts and of what is beside ids, which are no part of a key.
_BESIDE = {"text", "title", "content", "score", "url", "snippet", "body", "grade", "label", "rel"}
_FINE = KEY_PLACES | {"passage", "node", "sentence", "chunk", "part", "page", "section", "span"}


class _Field(NamedTuple):
    """A path, its ids by query, and its name without what is before it."""

    path: Ids
    ids: Mapping[Any, Sequence[str]]
    spelled: str
    # Are they those of lists in a list, of which one of each may suffice?
    groups: bool = False

    @property
    def words(self) -> set[str]:
        """The words of its name that say what the ids are of."""
        name = self.path.name.rpartition(".")[2]
        return {x.rstrip("s") for x in words_of(name)} - _SIDES - {""} - set("123456789")

    @property
    def every(self) -> set[str]:
        """Its different ids."""
        return {x for ids in self.ids.values() for x in ids}


def find_pairs(
    run: Table, qrels: Table | None, query: Any, item: Any, keys_only: bool = False
) -> list[Call]:
    """Calls that name the items of both sides, and their queries; the likeliest first.

    keys_only: only keys of several fields, because an item repeats.
    """
    keys = _find_keys(run, qrels, query) if qrels else [("", "")]
    calls: list[Call] = []
    for one, other in keys[:2]:
        sides = _fields(run, one), _fields(qrels or run, other)
        sides = (_named(sides[0], item, 0), _named(sides[1], item, 1))
        named: dict[str, Any] = {"query": one if one == other else [one, other]}
        named = {} if one == query or _is_known(run, qrels, one, other) else named
        ranked = _rank(*sides, listed=qrels is None)
        ranked = [x for x in ranked if len(x[0]) > 1] if keys_only else ranked
        for mine, theirs in ranked or _joined(*sides):
            names = [_spell(mine), _spell(theirs)]
            call: Call = {"item": names[0] if names[0] == names[1] else names}
            if mine[0].groups:  # lists in the objects of a list
                calls += ({**x, "item": [x["item"], names[1]]} for x in _of_objects(run, mine[0]))
                continue
            groups = {"groups": "any"} if theirs[0].groups else {}
            calls.append({**call, **groups, **(named if qrels else {})})
    return calls


def _of_objects(run: Table, field: _Field) -> list[Call]:
    """What names lists in objects: that of each value of a text next to them, which one object of a
    list has, then all of them in order, each id once.
    """
    column, _, name = field.path.name.rpartition(".")
    if not column:
        return []
    beside = [x for x in find_paths(run).values() if x.column == column and is_text(x.kind)]
    beside = [x for x in beside if not x.name.startswith(field.path.name)]
    found: list[Call] = []
    for path in beside:
        lists = f"list_transform({path.values}, lambda x_: {path.sql})"
        first, texts, once = run.row(
            f"first({lists}) FILTER ({path.values} IS NOT NULL), "
            f"list_distinct(flatten(list({lists}))), bool_and(len({lists}) = list_unique({lists}))"
        )
        if once and len(texts) <= _LABELS:
            label = path.name.removeprefix(f"{column}.")
            for text in dict.fromkeys([*first, *sorted(texts)]):
                of_text = f"lambda x: x.{label} = {literal(text)}"
                found.append({"item": f"list_filter({column}, {of_text})[1].{name}"})
    every: Call = {"item": field.path.name}
    if any(len({*x}) < len(x) for x in field.ids.values()):
        every = {**every, "collapse": field.path.name, "positions": "keep"}
    return [*found[:2], every]


def name_lists(tables: Sequence[Table], item: Any) -> list[Call]:
    """Calls that name a list of one of the tables, where no pair shares an id."""
    name = item[0] if isinstance(item, list | tuple) and item else item
    calls: list[Call] = []
    for table in tables:
        paths = [x for x in find_paths(table).values() if x.values]
        paths = [x for x in paths if not _is_no_id(x.name, x.kind, listed=True)]
        names = [x.name for x in paths if not name or name in (x.name, x.column)]
        calls += [{"item": x} for x in (*filter(partial(is_map, table), table.columns), *names)]
    return calls


def name_texts(table: Table) -> list[Call]:
    """Calls that name two columns of texts of lists, such as '[1, 2]'."""
    texts = [x for x in table.own_columns if is_text(table.columns[x])]
    lists = [x for x in texts if table.value(f"bool_and({quote(x)} ^@ '[')")]
    pairs = sorted(permutations(lists, 2), key=lambda x: list_side(x[0]) == "qrels")
    return [{"item": [*x]} for x in pairs]


def _is_known(run: Table, qrels: Table | None, one: str, other: str) -> bool:
    """Are these the queries by their names?"""
    try:
        return qrels is not None and (run.find("query"), qrels.find("query")) == (one, other)
    except RankqlError:
        return False


def _find_keys(run: Table, qrels: Table, query: Any) -> list[tuple[str, str]]:
    """Columns of queries whose values both tables have, those of one name first."""
    if query is not None:
        names = query if isinstance(query, list | tuple) else [query, query]
        return [(names[0], names[1])] if len(names) == 2 else []
    values = []
    for table in (run, qrels):
        paths = [x for x in find_paths(table).values() if not x.values]
        paths = [x for x in paths if not _is_no_id(x.name, x.kind) and not list_side(x.name)]
        texts = ", ".join(f"list(DISTINCT {id_text(x.sql, x.kind)})" for x in paths)
        rows = (
            run.session.row(f"SELECT {texts} FROM (FROM {table.sql} LIMIT {_ROWS})")
            if paths
            else ()
        )
        values.append({x.name: {*ids} for x, ids in zip(paths, rows, strict=True) if ids})
    pairs = [(x, y) for x, y in product(*values) if values[0][x] & values[1][y]]

    def order(pair: tuple[str, str]) -> tuple[Any, ...]:
        ranks = [r for x in pair if (r := rank_of("query", x)) is not None]
        items = [x for x in pair if rank_of("item", x) is not None]
        likely = -len(ranks), len(items), -(squash(pair[0]) == squash(pair[1]))
        return *likely, -len(values[0][pair[0]] & values[1][pair[1]])

    return sorted(pairs, key=order)


def _is_no_id(name: str, kind: str, listed: bool = False) -> bool:
    tail = name.rpartition(".")[2]
    if listed and "." not in name:  # of plain lists, only the values say it
        return kind.startswith(("BOOLEAN", "TIME"))
    numbers = kind.startswith(("DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN", "TIME"))
    orders = says(tail, "order") and not says(tail, "id")
    return numbers or orders or says(tail, "time") or says(tail, "system")


def _fields(table: Table, key: str) -> list[_Field]:
    """The ids of each path of a table, by query; without one, by row."""
    # Beside items, grades are no ids, whatever their numbers are; nor is the query of a row.
    grades = table.known("rel") if table.known("item") else ()
    taken = {key} if key else {*table.known("query")[:1]}
    paths = [
        (x, x.name)
        for x in find_paths(table).values()
        if (x.values or x.name not in taken) and not _is_no_id(x.name, x.kind, bool(x.values))
    ]
    for name, kind in table.columns.items():
        if is_text(kind) and not kind.endswith("]") and name != key and not table.trec:
            cells = [*_read_cells(table, name)]
            mixed = any("TRY_CAST" in spelled for _, spelled in cells)  # some are lists
            paths = [x for x in paths if x[0].name != name] if mixed else paths
            paths += cells
    known = find_paths(table)
    group = id_text(known[key].sql, known[key].kind) if key in known else "row_number() OVER ()"
    texts = ", ".join(
        f"list_transform(({write_ids([x])})[:{_IDS}], lambda x_: {id_text('x_', x.kind)})"
        for x, _ in paths
    )
    limit = _LISTS if any(x.values for x, _ in paths) else _ROWS
    rows = table.session.rows(f"SELECT {group}, {texts} FROM (FROM {table.sql} LIMIT {limit})")
    found = []
    for n, (path, spelled) in enumerate(paths, 1):
        ids = defaultdict[Any, list[str]](list)
        for row in rows:
            ids[row[0]] += [x for x in row[n] or () if x is not None]
        field = _Field(path, ids, spelled)
        flags = field.every <= {"0", "1", "true", "false"} and not _is_place(field)
        fractions = any(re.fullmatch(r"-?\d*[.]\d+(e-?\d+)?", x) for x in field.every)
        long = fractions or sum(map(len, field.every)) > 60 * len(field.every)
        graded = path.name in grades and _has_numbers(field)
        if field.every and not flags and not long and not graded:
            found.append(field)
    every = {x.path.name: x for x in found}
    parts = {x.path.name: re.fullmatch(r"(.*)\[\d\]", x.path.name) for x in found}
    groups = {
        part[1] for name, part in parts.items()
        if part and name.endswith("[1]") and part[1] in every
        and _are_lists(every[part[1]], every[name], every.get(f"{part[1]}[2]"))
    }  # fmt: skip
    kept = [x for x in found if not (part := parts[x.path.name]) or part[1] not in groups]
    return [x._replace(groups=x.path.name in groups) for x in kept]


def _are_lists(inner: _Field, first: _Field, second: _Field | None) -> bool:
    """Have the lists in a list several lengths or one id each, unlike pairs? If they are in
    objects, longer ones are lists too, and those with a text in both places.
    """
    sizes = {len(inner.ids[x]) / max(len(ids), 1) for x, ids in first.ids.items()}
    if len(sizes) > 1 or sizes == {1}:
        return True
    in_objects = first.path.column != inner.path.column
    both = first.every & second.every if second and not _has_numbers(inner) else ()
    return in_objects and (sizes != {2} or bool(both))


def _read_cells(table: Table, name: str) -> Iterator[tuple[Ids, str]]:
    """The ids of texts: separated, or a list in some rows."""
    text = quote(name)
    marks = [f"bool_or(contains(trim({text}), '{x}'))" for x in SEPARATORS[1:-1]]
    listed = f"bool_or({text} ^@ '[') AND NOT bool_and({text} ^@ '[')"
    size = f"max(length({text}))"
    sql = f"SELECT {listed}, {size}, {', '.join(marks)} FROM (FROM {table.sql} LIMIT {_ROWS})"
    mixed, longest, *found = table.session.row(sql)
    if mixed:
        value = f"if({text} ^@ '[', TRY_CAST({text} AS VARCHAR[]), [{text}])"
        yield Ids(name, "x_", column=name, values=value, kind="VARCHAR"), value
    for n, occurs in enumerate(found, 1):
        if occurs and (longest or 0) < 500:
            mark = SEPARATORS[n]
            pattern = f" *[{mark}] *"
            spelled = f"regexp_split_to_array({quote_name(name)}, {literal(pattern)})"
            values = split_cell(name, n)
            yield Ids(name, "x_", column=name, values=values, kind="VARCHAR"), spelled


def _named(fields: list[_Field], item: Any, side: int) -> list[_Field]:
    """The fields that the caller names, of one or both sides."""
    name = item[side] if isinstance(item, list | tuple) and len(item) == 2 else item
    if not isinstance(name, str):
        return fields
    own = [x for x in fields if name in (x.path.name, x.path.column)]
    return own if isinstance(item, list | tuple) else own or fields


def _similar(one: _Field, other: _Field) -> float:
    a, b = one.words, other.words
    return 1.0 if a == b else 0.75 if a and b and (a <= b or b <= a) else 0.5 * bool(a & b)


def _hits(mine: Sequence[_Field], theirs: Sequence[_Field]) -> tuple[int, bool]:
    """The queries in which an item of both is the same, and whether one repeats in a query."""
    count, repeats = 0, False
    for query, own in _items(mine).items():
        repeats = repeats or len({*own}) < len(own)
        count += not {*own}.isdisjoint(_items(theirs).get(query, ()))
    return count, repeats


def _items(fields: Sequence[_Field]) -> dict[Any, list[Any]]:
    if len(fields) == 1:
        return {query: [*ids] for query, ids in fields[0].ids.items()}
    found = {}
    for query, ids in fields[0].ids.items():
        others = [x.ids.get(query, ()) for x in fields[1:]]
        found[query] = [*zip(ids, *others, strict=False)]
    return found


_Pair: TypeAlias = tuple[Sequence[_Field], Sequence[_Field]]


def _joined(run: list[_Field], qrels: list[_Field]) -> Iterator[_Pair]:
    """Two fields of a list that the other side has as one text, with a sign between them."""
    for theirs, sign in product(qrels, "/#:|@_-"):
        parts = [x.split(sign) for x in theirs.every]
        if any(len(x) != 2 for x in parts):
            continue
        heads, tails = map(set, zip(*parts, strict=True))
        for one, two in product(run, run):
            if one.path.values == two.path.values != "" and one.every & heads and two.every & tails:
                texts = [id_text(x.path.sql, x.path.kind) for x in (one, two)]
                text = f" || {sign!r} || ".join(texts)
                sql = f"list_transform({one.path.values}, lambda x_: {text})"
                ids = {
                    q: [sign.join(x) for x in zip(x_ids, two.ids.get(q, ()), strict=False)]
                    for q, x_ids in one.ids.items()
                }
                mine = _Field(one.path, ids, sql)
                if _hits([mine], [theirs])[0]:
                    yield [mine], [theirs]


def _rank(run: list[_Field], qrels: list[_Field], listed: bool) -> list[_Pair]:
    """The pairs that share an id in a query: keys of several fields, then the likeliest names."""
    pairs = [
        (x, y)
        for x, y in product(run, qrels)
        if (not listed or (x.path.values and not _are_one_list(x, y)))
        and list_side(x.path.name) != "qrels"
        and list_side(y.path.name) != "run"
        and not (says(y.path.name, "not relevant") or says(x.path.name, "against"))
        and (listed or x.path.values or y.path.values)
        and not (x.path.name[:1] == "[" and y.path.name in x.path.name)
        and _hits([x], [y])[0]
    ]
    groups = defaultdict[tuple[str, str], list[tuple[_Field, _Field]]](list)
    for x, y in pairs:
        of_pair = any(z.path.name.endswith("]") and z.path.values for z in (x, y))
        parts = of_pair or (_similar(x, y) >= 0.75 and not x.words & _BESIDE)
        if parts and x.path.values and x.spelled == x.path.name:
            groups[x.path.values, y.path.values].append((x, y))
    for own, other in [*groups]:  # cells beside a list are parts of its keys
        if other:
            groups[own, other] += groups.get((own, ""), [])
    keys: list[_Pair] = []
    for group in groups.values():
        best: dict[str, tuple[_Field, _Field]] = {}
        for x, y in sorted(group, key=lambda pair: (not pair[1].path.values, -_similar(*pair))):
            if x.path not in [a.path for a, _ in best.values()]:
                best.setdefault(y.path.name, (x, y))
        if len(best) > 1:
            mine, theirs = zip(*best.values(), strict=True)
            single = max(_hits([x], [y])[0] for x, y in group)
            repeated = any(_hits([x], [y])[1] for x, y in group)
            hits, repeats = _hits(mine, theirs)
            places = all(_similar(*x) == 1 for x in best.values())
            places = places and any(_is_place(x) for x, _ in best.values())
            if (places or repeated) and not repeats and hits * 2 >= single:
                keys.append((mine, theirs))

    def order(pair: tuple[_Field, _Field]) -> tuple[Any, ...]:
        x, y = pair
        names = [x.path.name, y.path.name]
        sides = (list_side(names[0]) == "run") + (list_side(names[1]) == "qrels")
        ids = any(says(n, "id") or rank_of("item", n) is not None for n in names)
        fine = bool(_FINE & x.words) or bool(_FINE & y.words)
        # All that it has is relevant, and more is: what was found, or the judgments.
        part = sides < 2 and not _has_all(x, y)
        found = _has_all(y, x) and (
            part or any(_has_all(z, x) and not _has_all(y, z) for z in run if z != y)
        )
        chance = len(x.ids) < FEW_QUERIES and (_is_small(x) or _is_small(y))
        # What the run and other judgments have in common is derived from both.
        judged = (z for z in qrels if z != y and list_side(z.path.name) == "qrels")
        derived = _has_all(x, y) and any(_has_all(z, y) and not _has_all(y, z) for z in judged)
        objects = ("." in names[0]) - ("." in names[1])  # as retrievers give them
        return chance, found or derived, -sides, -objects, -_similar(x, y), -ids, -fine

    likely = [(x, y) for x, y in sorted(pairs, key=order) if not _is_place(x) and not _is_place(y)]
    return [*keys, *(([x], [y]) for x, y in likely)][:_PAIRS]


def _has_all(field: _Field, other: _Field) -> bool:
    """Has a field the ids of another in every query?"""
    return all({*field.ids.get(query, ())}.issuperset(ids) for query, ids in other.ids.items())


def _is_small(field: _Field) -> bool:
    """Are they whole numbers of a name that places and counts have?"""
    return _has_numbers(field) and says(field.path.name, "small number")


def _has_numbers(field: _Field) -> bool:
    return all(x.lstrip("-").isdigit() for x in field.every)


def _is_place(field: _Field) -> bool:
    """Is it a number that says where in an item of another field something is?"""
    tail = field.path.name.rpartition(".")[2]
    return _has_numbers(field) and (
        squash(tail) in KEY_PLACES - {"chunkid"} or number_kind(tail) == "place"
    )


def _are_one_list(one: _Field, other: _Field) -> bool:
    """Are both in one list, or is the list of one in the objects of that of the other?"""
    a, b = (f"{x.path.column or x.path.name}." for x in (one, other))
    return a.startswith(b) or b.startswith(a)


def _spell(fields: Sequence[_Field]) -> str:
    if len(fields) == 1:
        return fields[0].spelled
    paths = [x.path for x in fields]
    return spell(paths) if all(x.spelled == x.path.name for x in fields) else write_ids(paths)
