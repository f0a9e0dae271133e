"""Ranks of first hits, one per query, in place of rankings: which call evaluates them by RR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rankql.core.base.column_names import number_kind, says
from rankql.core.base.errors import Call, RankqlError, advise
from rankql.core.metrics.macros import quote
from rankql.core.tables.key_columns import tell_apart
from rankql.core.tables.tables import Table, is_text, quote_keyword


def first_rank_error(label: str, name: str, ranks: Sequence[Call] = ()) -> RankqlError:
    """The error about ranks of first hits, one per query, which no mean should leave out.

    ranks: the calls that read them, if more than the name of the column is needed.
    """
    text = f"{label}: is {name} the rank of the first hit of each query? A mean of ranks leaves "
    text += "out queries without a hit. To evaluate, compare or gate by RR, pass "
    more = f". To read the ranks as they are, pass metrics={name!r} to read_values, or to compare "
    more += f"with files, or a limit on {name}"
    first, *others = ranks or [{"rel": "1", "pos": name}]
    return RankqlError(advise(text, first, *(x for y in others for x in (", or ", y)), more))


def ask_about_ranks(run: Table, numbers: Sequence[str]) -> RankqlError | None:
    """The error if a run without items has ranks of first hits alone; numbers: its columns."""
    ranks = [x for x in {*numbers, *run.known("pos")} if says(x, "first rank")]
    others = [x for x in numbers if not says(x, "rel", "score") and not number_kind(x)]
    ranks = ranks or [x for x in others if _marks_misses(run, x)]
    if len(ranks) != 1 or run.known("item") or _has_rankings(run, ranks[0]):
        return None
    return first_rank_error(run.label, ranks[0], [*_read_ranks(run, ranks[0])])


def _marks_misses(table: Table, name: str) -> bool:
    """Has each query one number, -1 for none or a place from 0 or 1, of which none is commoner?"""
    query, number = table.find("query"), f"TRY_CAST({quote(name)} AS DOUBLE)"
    if query is None:
        return False
    places = f"min({number}) = -1 AND max({number}) > 1 AND bool_and({number} % 1 = 0)"
    if not table.value(f"{places} AND count(DISTINCT {quote(query)}) = count(*)"):
        return False
    counts = f"SELECT {number} AS n, count(*) AS c FROM {table.sql} WHERE n >= 0 GROUP BY n"
    first = f"SELECT min(n) <= 1 AND arg_min(c, n) = max(c) FROM ({counts})"
    return bool(table.session.value(first))


def _has_rankings(table: Table, place: str) -> bool:
    """Do the places of most queries count up from 1?"""
    query = table.find("query")
    if query is None:
        return False
    number = f"TRY_CAST({quote(place)} AS DOUBLE)"
    groups = f"SELECT count(*) AS n, min({number}) = 1 AND max({number}) = count(*) AS up "
    groups += f"FROM {table.sql} GROUP BY {quote(query)}"
    return bool(table.session.value(f"SELECT max(n) > 1 AND avg(up::INT) > 0.5 FROM ({groups})"))


def _read_ranks(table: Table, name: str) -> Iterator[Call]:
    """The calls that read ranks: with a row per query, and without what has no answer."""
    rel: Call = {"rel": _answered(table, name)}
    keys: list[Call] = [{}]
    query = table.find("query")
    if query and table.value(f"count(DISTINCT {quote(query)}) < count({quote(query)})"):
        keys = tell_apart(replace(table, roles={"query": query}), ()) or keys
    places = _places(table, name)
    yield from ({**rel, **place, **key} for key in keys for place in places)


def _places(table: Table, name: str) -> list[Call]:
    """The places of a column in which -1 or 0 may mean no hit."""
    number = f"TRY_CAST({quote(name)} AS DOUBLE)"
    counts = ", ".join(f"count(*) FILTER ({number} = {x})" for x in (-1, 0, 1))
    no_hits, zeros, ones = table.row(counts)
    column = quote_keyword(name)
    if no_hits:
        return [{"pos": f"nullif({column}, -1){' + 1' * bool(zeros)}"}]
    calls: list[Call] = [{"pos": f"nullif({column}, 0)"}, {"pos": f"{column} + 1"}]
    return calls[:: -1 if zeros > ones else 1] if zeros else [{"pos": name}]


def _answered(table: Table, rank: str) -> str:
    """The grade of each query: 1, but NULL where a text that others have, the answer, is missing
    beside the rank.
    """
    for name in table.own_columns if table.find("query") else ():
        kind, column = table.columns[name], quote_keyword(name)
        lacks = f"coalesce(trim({column}), '') = ''" if is_text(kind) else f"len({column}) = 0"
        if name == rank or not (is_text(kind) or kind.endswith("[]")):
            continue
        fits = f"count(*) FILTER ({lacks}) > 0 AND count({quote(rank)}) FILTER ({lacks}) = 0"
        if table.value(f"{fits} AND 2 * count(*) FILTER ({lacks}) < count(*)"):
            has = f"{column} <> ''" if is_text(kind) else f"len({column}) > 0"
            return f"CASE WHEN {has} THEN 1 END"
    return "1"
