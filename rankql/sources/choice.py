"""Which columns are the query and the item: by tiers of names, and by values within a tier.

Candidates are columns of rows, fields of the objects in lists, and readings of cells with several
ids. Known names come first, then those like an id, then others. Both tables use the best tier that
both have. Where one column each is left, no value is read. Where several contend, the values of a
sample decide, and names stay if they match at least half as often as the best. What stays open is
asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import exp
from shlex import quote as shell_quote
from typing import Any, NamedTuple

from rankql.errors import Question, RankqlError, require
from rankql.macros import literal, quote
from rankql.registry.column_names import KEYS, KNOWN, LIKE_ID, OTHER, squash
from rankql.sources.candidates import SEPARATORS, Ids, fields_of, find_ids
from rankql.sources.computed import add_column, column_name, parse_pair, split_key
from rankql.sources.session import Session
from rankql.sources.tables import CHOSEN, Table, assign_roles, require_column

# The rows of a sample, the queries of lists in it, and the columns of a role that are compared.
ROWS, QUERIES, CONTENDERS = 2000, 256, 6
# Matches of whole numbers count only if chance gives so many with less than this probability.
_CHANCE = 1e-4
# Ids with so many blanks on average are texts.
_BLANKS = 3


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
        side = Side([qrels], others, judged_items[None], "qrels")
        return [choose_columns(session, side, side, must_match=False, by_values=False)]
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
        choice = choose_columns(session, side, other, not listed[name], session.reads_values)
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
    sides = [*runs.values()], [qrels] if qrels else [*runs.values()]
    run_item, judged = (
        split_key(spec, partial(_any_has, side)) for spec, side in zip(item, sides, strict=True)
    )
    return (query[0], run_item), (query[1], judged)


def _any_has(tables: Sequence[Table], name: str) -> bool:
    return any(_has(table, name) for table in tables)


def _has(table: Table, name: str) -> bool:
    """Has a table this column, or a list of objects with this field?"""
    fields = ((x, column) for column, kind in table.columns.items() for x in fields_of(kind))
    return table.has(name) or any(name in (x, f"{column}.{x}") for x, column in fields)


def compute_columns(session: Session, table: Table, specs: Sequence[Any]) -> Table:
    """The table with the expressions and keys that the caller names."""
    for role, spec in zip(("query", "item", "item"), specs, strict=False):
        expression = isinstance(spec, str) and spec.strip() and not spec.isidentifier()
        fields = isinstance(spec, tuple) and role == "item" and not all(map(table.has, spec))
        if (isinstance(spec, tuple) and not fields) or (expression and not _has(table, spec)):
            table = add_column(session, table, role, spec)
    return table


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


def choose_columns(
    session: Session, run: Side, qrels: Side, must_match: bool, by_values: bool
) -> Choice | None:
    """The columns of both sides; None if none of their names and values go together.

    must_match: names that are only like an id count if their values match.
    """
    same = run.tables is qrels.tables and not qrels.queries
    run, qrels = (
        side._replace(items=_without_texts(session, side)) if len(side.items) > 1 else side
        for side in (run, qrels)
    )
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
    matches = _measure(session, (run, qrels), queries, items)
    fits = _best_readings({
        pair: m for pair in candidates
        if (m := matches.get(pair)) and m.fits(pair, names, weak)
        and (m.share >= 0.5 or not pair[1][1].doubtful)
    })  # fmt: skip
    if not fits:
        require(
            not doubtful,
            f"{qrels.label} has no relevant ids: most values of {names[1][1].name} are not among "
            "the retrieved ids. Name the column of the relevant ids: item=[RETRIEVED, RELEVANT]",
        )
        if weak and not must_match:
            raise _ask(run, qrels, contested, candidates)
        return None if weak else Choice(*names)
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
    return Question(
        f"Several columns of {run.label} and {qrels.label} may be the {' and the '.join(roles)}, "
        "and their values do not tell which",
        [{role: [x.name for x in pair[_ROLES.index(role)]] for role in roles} for pair in pairs],
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


def suggest_query(session: Session, run: Table, qrels: Table) -> str:
    """The columns whose queries match, if those of the names do not; or ""."""
    sides = [
        Side([table], find_ids(replace(table, roles={}), "query"), [Ids(name, quote(name))])
        for table, name in ((table, table.roles["item"]) for table in (run, qrels))
    ]
    if not all(side.queries for side in sides):
        return ""
    queries = [*product(*(side.queries for side in sides))]
    measured = _measure(session, sides, queries, [*product(*(side.items for side in sides))])
    best = max(measured, key=lambda pair: measured[pair].matches, default=None)
    if best is None or not measured[best].matches:
        return ""
    run_name, judged_name = (x.name for x in best[0])
    which = f"{run_name} of {run.label}"
    if judged_name != qrels.roles["query"]:
        which = f"{judged_name} of qrels"
    return f". {which} matches: {_option(['query'], best)}"


def _pairs(lefts: Sequence[Ids], rights: Sequence[Ids]) -> list[tuple[Ids, Ids]]:
    """The pairs of the best tier that both have, the likeliest by name first."""
    if not (lefts and rights):
        return []
    tier = min(max(x.tier for x in each) for each in (lefts, rights))

    def order(pair: tuple[Ids, Ids]) -> tuple[int, ...]:
        one, other = pair
        tails = [x.name.rpartition(".")[2] for x in pair]
        spelled = (tails[0] == tails[1]) + (squash(tails[0]) == squash(tails[1]))
        return -spelled, -one.tier - other.tier, one.rank + other.rank

    best = [
        sorted((x for x in ids if x.tier >= tier), key=lambda x: (-x.tier, x.rank))
        for ids in (lefts, rights)
    ]
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
    session: Session, sides: Sequence[Side], queries: Sequence[Any], items: Sequence[Any]
) -> dict[_Pair, _Matches]:
    """The matches of the pairs, in a sample of the left side and the same queries of the right."""
    run, qrels = sides
    columns_of = [
        ([*dict.fromkeys(pair[i] for pair in queries)], [*dict.fromkeys(pair[i] for pair in items)])
        for i in (0, 1)
    ]
    run_values = _sample(session, run, *columns_of[0])
    keys = ""
    if run.tables is not qrels.tables:
        known = {q for pairs in run_values.values() for q, _ in pairs}
        keys = ", ".join(map(literal, sorted(known))) or "NULL"
    judged_values = _sample(session, qrels, *columns_of[1], keys)
    matches = {}
    for q, i in product(queries, items):
        one, other = run_values[q[0], i[0]], judged_values[q[1], i[1]]
        common, shared = {*one} & {*other}, {x for x, _ in one} & {x for x, _ in other}
        if not shared:
            continue
        counts = Counter(item for query, item in {*other} if query in shared)
        columns = [[x[n] for x in pairs] for pairs in (one, other) for n in (0, 1)]
        ids, judged = {*columns[1]}, {*columns[3]}
        matches[q, i] = _Matches(
            matches=len(common),
            queries=len({query for query, _ in common}),
            expected=sum(counts[item] for query, item in {*one} if query in shared) / len(shared),
            repeats=len({*one}) < len(one) or len({*other}) < len(other),
            numeric=any(all(x.isdecimal() for x in each) for each in columns[2 * (q[0] is ROW) :]),
            spaced=any(" " in item for _, item in common),
            share=len(ids & judged) / len(judged),
        )
    return matches


def _sample(
    session: Session, side: Side, queries: Sequence[Ids], items: Sequence[Ids], keys: str = ""
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
        sampled = session.rows(" UNION ALL ".join(rows))
        columns = [*zip(*sampled, strict=True)] or [()] * (len(queries) + len(of_list))
        for (n, q), (m, i) in product(enumerate(queries), enumerate(of_list, len(queries))):
            pairs = zip(columns[n], columns[m], strict=True)
            values_of[q, i] = [pair for pair in pairs if None not in pair]
    return values_of


def _without_texts(session: Session, side: Side) -> Sequence[Ids]:
    """The columns of items without texts."""
    items = []
    for ids in side.items:
        text = f"CAST({ids.sql} AS VARCHAR)"
        rows = f"(FROM {side.tables[0].sql} LIMIT {QUERIES})"
        rows = f"(SELECT unnest({ids.lists}) AS x_ FROM {rows})" if ids.lists else rows
        blanks = f"avg(length({text}) - length(replace({text}, ' ', '')))"
        average = session.value(f"SELECT {blanks} FROM {rows}")
        cells = any(x.name == ids.name and x.reading for x in side.items)
        if cells or (average or 0) < _BLANKS:
            items.append(ids)
    return items
