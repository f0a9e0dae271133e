"""Which columns are the query and the item: by known names, and by values where several have one.

Candidates are columns of rows, fields of the objects in lists, and readings of cells with several
ids, with their names in order. Where one column each is left, no value is read. Where several have
a known name, a sample decides. A column of another name is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, NamedTuple, TypeAlias

from rankql.core.base.column_names import RANKED_SYSTEMS, RERANKED, ROLES, find_name, says, squash
from rankql.core.base.errors import Question, RankqlError, advise, require
from rankql.core.base.text import join_words
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.candidates import (
    assign_roles,
    fields_of,
    find_ids,
    find_list,
    missing_role,
)
from rankql.core.tables.ids import Ids
from rankql.core.tables.reader import first_rows
from rankql.core.tables.tables import (
    FIRST_ROWS,
    Runs,
    Table,
    is_nested,
    is_number,
    mentioned,
    require_column,
)
from rankql.shapes.choose.cells import SEPARATORS, Items
from rankql.shapes.choose.computed import add_column, column_name, parse_pair, split_key
from rankql.shapes.choose.paths import read_path

# The rows of a sample, the queries of lists in it, and the columns of a role that are compared.
ROWS, QUERIES, CONTENDERS = 2000, 256, 6


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


# The columns of query and item that the caller names, in the runs and in the judgments.
Specs: TypeAlias = Sequence[Sequence[Any]]
# The query of a table with both lists: its row.
ROW = Ids("row number", "row_")


def choose_all(
    runs: Runs,
    qrels: Table | None,
    run_items: Items,
    judged_items: Items,
    specs: Specs,
) -> dict[str | None, Choice]:
    """The columns of each run and its judgments, one decision for runs with the same columns; those
    of the judgments alone by None.
    """
    if qrels and not runs:
        others = _find_queries(qrels, specs[1][0], in_lists=True)
        side = Side([qrels], others, judged_items[None], "qrels")
        alone = choose_columns(side, side, by_values=False)
        return {None: alone} if alone else {}
    choices: dict[str | None, Choice | None] = {}
    listed = {x: any(i.column for i in (*run_items[x], *judged_items[x])) for x in runs}
    keys = {
        x: _find_queries(table, specs[0][0], listed[x]) if qrels else []
        for x, table in runs.items()
    }
    names = {x: [i.name for i in (*run_items[x], *keys[x])] for x in runs}
    for name, table in runs.items():
        if name in choices:
            continue
        same = [x for x in runs if names[x] == names[name]]
        side = Side([runs[x] for x in same], keys[name], run_items[name], table.label)
        other = side._replace(items=judged_items[name])
        if qrels:
            others = _find_queries(qrels, specs[1][0], listed[name])
            other = Side([qrels], others, judged_items[name], "qrels")
        choice = choose_columns(side, other, table.session.reads_values)
        choices |= dict.fromkeys(same, choice)
        if choice is None and listed[name]:
            for each, spec in zip((table, qrels), specs, strict=True):
                if each:
                    assign_roles(each, {"query": column_name(spec[0])}, ["query"])  # an error
            if qrels and not judged_items[name]:
                raise missing_role(qrels, "item")
        if choice and qrels:  # the first runs decide for the others
            specs = specs[0], (choice.queries[1].name, choice.items[1].name)
            judged_items = {x: [choice.items[1]] for x in runs}
    return {name: choice for name in runs if (choice := choices[name])}


def named_columns(runs: Runs, qrels: Table | None, columns: Mapping[str, Any]) -> Specs:
    """The columns of query and item that the caller names, in the runs and in the judgments."""
    tables = [*runs.values(), *([qrels] if qrels else [])]
    sides = [*runs.values()], [qrels] if qrels else [*runs.values()]
    query = parse_pair("query", columns.get("query"), tables, qrels is not None)
    item = columns.get("item")
    item = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
    named: list[Sequence[Any]] = []
    pair: Sequence[Any]
    for pair in (query, item):
        if pair[0] == pair[1] and isinstance(pair[0], str):  # one may have a recognised name
            name, knows = pair[0], [partial(_any_has, side) for side in sides]
            has = [
                known(name) or split_key(name, known) != name
                or any(read_path(table, name) for table in side)
                for known, side in zip(knows, sides, strict=True)
            ]  # fmt: skip
            pair = tuple(pair[0] if x or not any(has) else None for x in has)
        named.append(pair)
    run_item, judged = (
        split_key(spec, partial(_any_has, side)) for spec, side in zip(named[1], sides, strict=True)
    )
    return (named[0][0], run_item), (named[0][1], judged)


def _any_has(tables: Sequence[Table], name: str) -> bool:
    return any(_has(table, name) for table in tables)


def _has(table: Table, name: str) -> bool:
    """Has a table this column, or a list of objects with a value in this field?"""
    names = (
        y for column, kind in table.columns.items() for x, field in fields_of(kind).items()
        if not is_nested(field.kind) for y in (x, f"{column}.{x}")
    )  # fmt: skip
    return table.has(name) or name in names


def compute_columns(table: Table, specs: Sequence[Any]) -> Table:
    """The table with the expressions and keys that the caller names."""
    for role, spec in zip(("query", "item", "item"), specs, strict=False):
        expression = isinstance(spec, str) and spec.strip() and not spec.isidentifier()
        fields = isinstance(spec, tuple) and role == "item" and not all(map(table.has, spec))
        path = None
        if expression and role == "item" and not _has(table, spec):
            path = read_path(table, spec)
        if path:
            table = table.with_column(spec, *path, mentioned(table.columns, spec))
            continue
        if (isinstance(spec, tuple) and not fields) or (expression and not _has(table, spec)):
            table = add_column(table, role, spec)
    return table


def _find_queries(table: Table, name: Any, in_lists: bool) -> list[Ids]:
    """The columns that may be the query."""
    name, of_dict = table.roles.get("query", name), {*table.columns} <= {*ROLES}
    if name is None or (of_dict and not table.has(column_name(name) or "")):
        return find_ids(table, "query", in_lists)
    name = require_column(table, column_name(name) or "", "query")
    return [Ids(name, quote(name))]


def choose_columns(run: Side, qrels: Side, by_values: bool = True) -> Choice | None:
    """The columns of both sides; None if a side has none of a known name.

    Of several, those that match most; if several match equally often, those without an item twice
    in a query, then the likeliest names.
    """
    same = run.tables is qrels.tables and not qrels.queries
    listed = any(x.column for x in (*run.items, *qrels.items))
    queries = [(ROW, ROW)] if same else _pairs(run.queries, qrels.queries, listed)
    pairs = product(queries, _pairs(run.items, qrels.items, listed))
    # One column is not both the query and the item.
    candidates = [(q, i) for q, i in pairs if q[0].name != i[0].name and q[1].name != i[1].name]
    if not candidates:
        return None
    names = candidates[0]
    doubtful = any(items[1].doubtful for _, items in candidates)
    if not by_values or (len(candidates) == 1 and not doubtful):
        return Choice(*names)
    fits = _best_readings({
        pair: match for pair, match in _measure((run, qrels), candidates).items()
        if match.share >= 0.5 or not pair[1][1].doubtful
    })  # fmt: skip
    if not fits:
        require(
            not doubtful,
            f"{qrels.label} has no relevant ids: most values of {names[1][1].name} are not among "
            "the retrieved ids. Name the column of the relevant ids: item=[RETRIEVED, RELEVANT]",
        )
        return Choice(*names)
    best = max(fits, key=lambda pair: (fits[pair].matches, not fits[pair].repeats))
    contested = [
        role for role, *several in zip(_ROLES, *candidates, strict=True)
        if len({(one.name, other.name) for one, other in several}) > 1
    ]  # fmt: skip
    same_names = _label(best) == _label(names) and all(
        squash(a.name) == squash(b.name) for a, b in best
    )
    return Choice(*best, "" if same_names else _option(contested, best))


_ROLES = ("query", "item")


def suggest_query(run: Table, qrels: Table) -> str:
    """The columns whose queries match, if those of the names do not; or ""."""
    queries = [find_ids(replace(x, roles={}, named={}), "query", named=False) for x in (run, qrels)]
    queries = [[x for x in ids if not says(x.name, "no query")] for ids in queries]
    items = [Ids(x.roles["item"], quote(x.roles["item"])) for x in (run, qrels)]
    pairs: list[_Pair] = [(pair, (items[0], items[1])) for pair in _pairs(queries[0], queries[1])]
    sides = [Side([table], (), ()) for table in (run, qrels)]
    measured = _measure(sides, pairs) if pairs else {}
    best = max(measured, key=lambda pair: measured[pair].matches, default=None)
    if best is None:
        return ""
    run_name, judged_name = (x.name for x in best[0])
    which = f"{run_name} of {run.label}"
    if judged_name != qrels.roles["query"]:
        which = f"{judged_name} of qrels"
    return advise(f". {which} matches: ", {"query": [x.name for x in best[0]]})


def _pairs(
    lefts: Sequence[Ids], rights: Sequence[Ids], listed: bool = True
) -> list[tuple[Ids, Ids]]:
    """The pairs of columns, the likeliest by name first: the same name, then a better known one.

    A plain id is one of the other table's columns only if that has its name, or next to lists.
    """

    def order(pair: tuple[Ids, Ids]) -> tuple[int, ...]:
        one, other = (x.name.rpartition(".")[2] for x in pair)
        return -(one == other) - (squash(one) == squash(other)), pair[0].rank + pair[1].rank

    pairs = sorted(product(lefts[:CONTENDERS], rights[:CONTENDERS]), key=order)
    alike = [pair for pair in pairs if squash(pair[0].name) == squash(pair[1].name)]
    plain = [x for x in (*lefts, *rights) if says(x.name, "plain id")]
    if not listed:
        pairs = [pair for pair in pairs if pair in alike or not {*pair} & {*plain}]
    pairs = [pair for pair in pairs if not all(x.part for x in pair)] or pairs
    # The only name that both have, and the likeliest of each.
    certain = len(alike) == 1 and alike == [(lefts[0], rights[0])] and (not plain or not listed)
    return alike if certain else pairs


_Pair = tuple[tuple[Ids, Ids], tuple[Ids, Ids]]


def _label(pair: _Pair) -> list[str]:
    return [x.name for role in pair for x in role]


def _option(roles: Sequence[str], pair: _Pair) -> str:
    """How to name the columns of these roles."""
    names = {role: [x.name for x in each] for role, each in zip(_ROLES, pair, strict=True)}
    return ", ".join(f"{role}={names[role]!r}" for role in roles)


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
    # Does an item repeat within a query?
    repeats: bool
    # Has an id that matches a blank?
    spaced: bool
    # The share of judged ids that are among those of the run.
    share: float


def _measure(sides: Sequence[Side], candidates: Sequence[_Pair]) -> dict[_Pair, _Matches]:
    """The pairs that match, in a sample of the left side and the same queries of the right."""
    run, qrels = sides
    ranked = _sample(run, [(q[0], i[0]) for q, i in candidates])
    known = {query for pairs in ranked.values() for query, _ in pairs}
    keys = "" if run.tables is qrels.tables else ", ".join(map(literal, sorted(known))) or "NULL"
    judged = _sample(qrels, [(q[1], i[1]) for q, i in candidates], keys)
    matches = {}
    for q, i in candidates:
        one, other = ranked[q[0], i[0]], judged[q[1], i[1]]
        common = {*one} & {*other}
        if not common:
            continue
        ids, relevant = {x for _, x in one}, {x for _, x in other}
        matches[q, i] = _Matches(
            matches=len(common),
            queries=len({query for query, _ in common}),
            repeats=len({*one}) < len(one) or len({*other}) < len(other),
            spaced=any(" " in item for _, item in common),
            share=len(ids & relevant) / len(relevant),
        )
    return matches


def _sample(
    side: Side, pairs: Sequence[tuple[Ids, Ids]], keys: str = ""
) -> dict[tuple[Ids, Ids], list[tuple[str, str]]]:
    """The values of queries and items in some rows; keys: the values of the queries, as SQL."""
    values = {}
    for lists in dict.fromkeys(item.values for _, item in pairs):
        own = [pair for pair in pairs if pair[1].values == lists]
        texts = {x: x.sql if x is ROW else f"CAST({x.sql} AS VARCHAR)" for x in chain(*own)}
        known = " OR ".join(f"{texts[query]} IN ({keys})" for query in {query for query, _ in own})
        where, limit = f"WHERE {known}" * bool(keys), QUERIES if lists else ROWS
        parts = []
        for n, table in enumerate(side.tables):
            rows = f"(SELECT {n} || ' ' || row_number() OVER () AS row_, * FROM {table.sql} "
            rows += f"{where} LIMIT {limit})"
            rows = f"(SELECT *, unnest({lists}) AS x_ FROM {rows})" if lists else rows
            parts.append(f"(SELECT {', '.join(texts.values())} FROM {rows} LIMIT {ROWS})")
        found = side.tables[0].session.rows(" UNION ALL ".join(parts))
        read = [*zip(*found, strict=True)] or [()] * len(texts)
        columns = dict(zip(texts, read, strict=True))
        for q, i in own:
            both = zip(columns[q], columns[i], strict=True)
            values[q, i] = [pair for pair in both if None not in pair]
    return values


def require_one_name(table: Table, roles: Sequence[str], names: Mapping[str, str | None]) -> Table:
    """The table, if one column has each of these roles, or several say the same.

    Next to the exact name of a role, or a better known one, the Columns line names the others.
    """
    for role in roles:
        table = _require_one_name(table, role, names)
    return table


def _require_one_name(table: Table, role: str, names: Mapping[str, str | None]) -> Table:
    if names.get(role) or role in table.roles or table.trec:
        return table
    numbers = [x for x in table.free_columns(role) if is_number(table.columns[x]) or table.text]
    known, weaker = ([x for x in numbers if says(x, y)] for y in (role, f"weaker {role}"))
    chosen = table.find(role)
    if chosen not in (*known, *weaker) or len(known) + len(weaker) < 2:
        return table
    key = table.find("query", names.get("query"))
    is_class = says(chosen, "label") and find_name(weaker, ["probability"])
    is_class = is_class and table.value(f"count(DISTINCT {quote(chosen)}) <= 2")
    others = [
        x for x in (*known, *weaker)
        if x != chosen
        and (is_class or _differ(table, key, role, [chosen, x]))
    ]  # fmt: skip
    rivals = [x for x in others if is_class or (x in known) == (chosen in known)]
    if rivals and squash(chosen) != role and chosen != RERANKED:
        raise Question(
            f"{table.label}: {join_words([chosen, *rivals])} may all be the {role}, and they "
            "differ",
            [{role: x} for x in (chosen, *rivals)],
        )
    said = {role: f"{chosen}, not {join_words(others)}"} if others else {}
    return replace(table, context={**table.context, **said})


def _differ(table: Table, key: str | None, role: str, names: list[str]) -> bool:
    """Do two scores order items differently, or other numbers differ in a row?"""
    first = first_rows(table, names, key)
    if role != "score":
        return any(one != other for *_, one, other in first.rows)
    also, lowest = (says(x, "distance") for x in names)
    return first.disagreement(lowest, also) > 0


# Queries that decide whether a column is that of the systems; they are sought in the first rows.
_FEW_QUERIES = 20


def find_system(
    table: Table,
    columns: Mapping[str, Any],
    by: Sequence[str],
    known: Sequence[str] = RANKED_SYSTEMS,
) -> str | None:
    """The column of a known name without which items or positions of a query repeat, and with
    which none does. Without positions, that of a ranker is one if a query has several.
    """
    query, item = columns.get("query"), columns.get("item")
    item = item[0] if isinstance(item, list | tuple) and item else item
    taken = {*by, *map(str, columns.values())}
    systems = [find_name(table.columns, [name]) for name in known]
    systems += [x for x in table.columns if known is RANKED_SYSTEMS and says(x, "system")]
    if not (names := [x for x in dict.fromkeys(systems) if x is not None and x not in taken]):
        return None
    try:
        keys: Any = query if isinstance(query, list | tuple) else [table.find("query", query)]
    except RankqlError:  # which is raised later, if at all
        return None
    if not keys or not all(isinstance(name, str) and table.has(name) for name in keys):
        return None
    placed, ids = table.find("pos", columns.get("pos")), [list[str]()]
    if not find_list(table, "retrieved", item):
        ids = [[x] for x in (table.find("item", item), placed) if x] or ids  # or values
    key = ", ".join(map(quote, keys))
    sample = f"SELECT DISTINCT {key} FROM (FROM {table.sql} LIMIT {FIRST_ROWS})"
    rows = f"(FROM {table.sql} SEMI JOIN ({sample} LIMIT {_FEW_QUERIES}) USING ({key}))"
    for name in names:
        counts = ", ".join(
            f"count(DISTINCT ({', '.join(map(quote, [*keys, *own, *each]))}))"
            for own in [[], *ids]
            for each in ([], [name])
        )
        sql = f"SELECT count(*), {counts} FROM {rows}"
        total, queries, rankings, *each = table.session.row(sql)
        several = not placed and queries < rankings and says(name, "ranker")
        repeats = several or any(count < total for count in each[::2])
        if repeats and all(count == total for count in each[1::2]):
            return name
    return None
