"""Numbers against order: which way the numbers of a run go, and what counts if they disagree.

The witnesses are positions and the order of the rows. One statement reads the first rows of a run:
whether a column rises, falls or counts from 0 or 1 within the queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from rankql.core.base.column_names import ROLES, WEAKER, says, squash, words_of
from rankql.core.base.errors import Call, Question, RankqlError, advise, as_arguments
from rankql.core.base.text import format_count, format_percent
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.reader import First, first_rows
from rankql.core.tables.tables import FIRST_ROWS, Table, Unused, is_number, quote_name

# Positions number all rows, and not by chance, in so many queries of several rows.
_NUMBERED = 3
_BOTH_WAYS = [{"descending": False}, {"descending": True}]


def check_order(table: Table, named: bool) -> Sequence[str]:
    """Notes on positions that lack the top, or that scores contradict.

    Refuses positions of all queries together, from 0 or below 0, and positions that the caller
    names as the score.
    """
    pos, score = (table.roles.get(x, "") for x in ("pos", "score"))
    names = [x for x in (pos, score) if x and (is_number(table.columns[x]) or table.text)]
    if table.unit == "ids" or table.is_assumed("pos") or (pos or score) not in names:
        return ()
    words = {word for name in (*ROLES["score"], *WEAKER["score"]) for word in words_of(name)}
    unknown = score not in table.computed and words.isdisjoint(words_of(score))
    if not pos and not (named and unknown):
        return ()
    first = first_rows(table, names)
    if pos:
        return _check_positions(table, first, pos, score if score in names else "")
    is_place = says(score, "place")
    least = _first_count(table, first, score, quote(table.roles["query"]), is_place)
    if least == 1 or (least == 0 and is_place):
        place = score if least else f"{quote_name(score)} + 1"
        text = f"{table.label}: {score} counts from {least} in each query, like positions"
        raise Question(text, [{"pos": place}, {"descending": True}])
    return ()


def _check_positions(table: Table, first: First, pos: str, score: str) -> Sequence[str]:
    label, query = table.label, table.roles["query"]
    several = sum(len(x) > 1 for x in first.lists) >= _NUMBERED
    in_order = not table.ordered or first.values == [*range(1, len(first.values) + 1)]
    if several and in_order and _first_count(table, first, pos, "1") == 1:
        raise RankqlError(
            f"{label}: {pos} numbers the rows of all queries together. Number them per query: "
            f"row_number() OVER (PARTITION BY {query} ORDER BY ...)"
        )
    tops = [min(x) for x in first.lists]
    if tops and max(chain(*first.lists)) < 0:
        text = f"{label}: {pos} is below 0, as in FTS5, where it is a score"
        raise Question(text, [{"score": pos, "descending": False}])
    if table.session.asks and tops and min(tops) in (0, -1):
        ask_positions(table)
    several, complete = len(tops) > 1, len(first.rows) < FIRST_ROWS
    lacks = several and 2 * sum(x > 1 for x in tops) > len(tops)
    if lacks and not complete and min(tops) > 1:  # there may be more rows of these queries
        top = f"SELECT min({table.number_or_null(pos)}) AS top FROM {table.sql}"
        sql = f"SELECT avg(CAST(top > 1 AS INT)) > 0.5 FROM ({top} GROUP BY {quote(query)})"
        lacks = complete = table.session.value(sql)
    is_hit = table.computed.get(table.roles.get("rel", "")) == []  # a row of each query at most
    if lacks and complete and not (is_hit and max(map(len, first.lists)) == 1):
        return [f"{label}: most queries have no row with {pos} 1, the top position"]
    return other_order(table, first, pos, {"score": score}) if score else ()


# Of a query: its rows with 0, and with other values below 1.
_BELOW = """SELECT {query} AS q, count_if({pos} = 0) AS zeros, count_if({pos} = -1) AS missing,
    count_if({pos} < -1 OR {pos} <> floor({pos})) AS wrong FROM {table} GROUP BY q"""


def ask_positions(table: Table) -> None:
    """Ask what positions of 0 or -1 mean: the top, or an item that was not retrieved."""
    pos, query = table.roles["pos"], table.roles["query"]
    name, number = quote_name(pos), table.number_or_null(pos)
    below = _BELOW.format(query=quote(query), pos=number, table=table.sql)
    facts = "max(zeros), min(zeros), sum(missing), sum(wrong)"
    most, least, missing, wrong = table.session.row(f"SELECT {facts} FROM ({below})")
    if wrong or not (most or missing) or (pos in table.computed and not least):
        return
    add_one = f"{name} + 1", "positions count from 0"
    if missing:
        values = [(f"nullif({name}, -1){' + 1' * bool(most)}", "-1 is not retrieved")]
        text = f"{pos} is -1 in {format_count(int(missing), 'row')}, which is no position"
    elif most > 1:
        values = [(f"nullif({name}, 0)", "0 is not retrieved")]
        text = f"{pos} is 0 in several rows of a query, so it is not the top"
    elif least:
        values = [add_one]
        text = f"{pos} counts from 0 in each query. Position 1 is the top: add 1"
    else:
        values = [add_one, (f"nullif({name}, 0)", "0 is not retrieved")]
        text = f"{pos} is 0 in some queries. Is it the top, or an item that was not retrieved?"
    question = Question(f"{table.label}: {text}", [{"pos": x} for x, _ in values])
    if len(values) > 1:
        question.certain = True  # rows of a log that were kept may lack the top
        question.meanings = {as_arguments({"pos": x}): words for x, words in values}
    raise question


def other_order(
    table: Table, first: First, pos: str, call: Call, least: float = 0.5
) -> Sequence[str]:
    """A note if a number orders many queries in another way than the positions that are read.

    call: how to rank by it. least: the share of queries above which it is said.
    """
    (name,) = (x for x in call.values() if isinstance(x, str))
    lowest = "pos" in call or says(name, "distance")
    share = first.disagreement(lowest)
    if share <= least:
        return ()
    many = "most queries" if share > 0.5 else f"{format_percent(share)} of queries"
    instead = f" instead of pos={pos!r}" * (table.named.get(pos) == "pos" and "score" in call)
    return [
        f"{table.label}: {name} orders {many} in another way than {pos}, which is read. "
        f"To rank by it, pass {as_arguments(call)}{instead}"
    ]


def _first_count(table: Table, first: First, name: str, key: str, gaps: bool = False) -> int | None:
    """The first number if the values of a column count the rows of each group, from 0 or 1.

    There must be several queries. key: the SQL of a group. gaps: some numbers may be missing.
    """
    groups = [[*chain(*first.lists)]] if key == "1" else first.lists
    if sum(map(len, groups)) < 2 or any(len({*x}) < len(x) for x in groups):
        return None
    value = table.number_or_null(name)
    rows = f"SELECT {quote(table.roles['query'])} AS q, {key} AS k, {value} AS p FROM {table.sql}"
    counts = "SELECT count(*) AS n, count(DISTINCT p) AS d, min(p) AS low, max(p) AS high, "
    counts += f"count(DISTINCT q) AS queries FROM ({rows} WHERE {value} IS NOT NULL) GROUP BY k"
    several = "max(n) > 1" if key != "1" else "min(queries) BETWEEN 2 AND max(n) - 1"
    whole = "low IN (0, 1) AND high < 1e6" if gaps else "high = n + low - 1"
    sql = f"SELECT bool_and(n = d AND {whole}) AND {several}, min(low), max(low) FROM ({counts})"
    count, least, most = table.session.row(sql)
    return int(least) if count and least in (0, 1) and (gaps or least == most) else None


def order_of_scores(table: Table, named: frozenset[str]) -> Iterator[str]:
    """A note or a question on scores that run against the order of the rows, or of a dict."""
    name, shape, ordered = table.roles.get("score", ""), table.shape, table.ordered
    is_bm25, lowest = squash(name) == "bm25", table.ascending
    if not name or "pos" in table.roles or table.lists or not (ordered or is_bm25):
        return
    if {"score", "order", "descending"} & named or (
        lowest and not (shape or says(name, "distance"))
    ):
        return
    first = first_rows(table, [name])
    lists, label = [x for x in first.lists if len(x) > 1], table.label
    falls = all(x == sorted(x, reverse=True) for x in lists)
    rises = all(x == sorted(x) for x in lists)
    counts = all(x == [x[0] + i for i in range(len(x))] for x in lists)
    starts = {x[0] for x in lists}
    if shape and counts and starts in ({0}, {1}):
        text = f"{label}: the numbers count from {min(starts):.0f} in the order of the items. "
        place = name if 1 in starts else f"{name} + 1"
        raise Question(f"{text}Are they ranks?", [{"pos": place}, {"descending": True}])
    if shape == "pairs" and not falls and not lowest:
        text = "the items are not in the order of their scores. Which order counts?"
        raise Question(f"{label}: {text}", [{"order": "rows"}, *_BOTH_WAYS[::-1]])
    if lowest and falls and not rises:
        text = f"{label}: rows begin with the highest {name}. Is the highest the best?"
        raise Question(text, _BOTH_WAYS[::-1])
    if lowest or not lists:
        return
    if is_bm25 and max(chain(*lists)) < 0 and (rises or not (ordered and falls)):
        text = f"{label}: {name} is below 0, as in FTS5, where the lowest is best. Is it here?"
        raise Question(text, _BOTH_WAYS)
    # Scores rise by chance in one of exp(unlikely) runs.
    unlikely = sum(math.lgamma(len(x) + 1) for x in lists if len({*x}) == len(x))
    if not rises or unlikely < math.log(10):
        return
    values = first.values
    is_sorted = len(first.lists) > 1 and values == sorted(values)
    if unlikely > math.log(1000) and not is_sorted:
        text = f"the rows of each query begin with the lowest {name}. Is the lowest the best?"
        raise Question(f"{label}: {text}", _BOTH_WAYS)
    yield (
        f"{label}: {'all rows' if is_sorted else 'the rows of each query'} begin with the lowest "
        f"{name}, and the highest counts as the best. If the lowest is best, pass descending=False"
    )


def lowest_is_best(table: Table, descending: bool | None) -> bool:
    """Is the lowest score the best? By the caller, or by the name of the column."""
    name = table.roles["score"]
    if descending is None:
        if says(name, "two directions"):
            raise Question(
                f"{table.label}: is the lowest or the highest {name} the best?",
                _BOTH_WAYS,
            )
        return says(name, "distance")
    return not descending


def drop_positions(table: Table, name: str) -> Table:
    """The run ordered by its score as others are, if its positions hardly say anything else."""
    pos, score = table.roles["pos"], table.roles["score"]
    place, value = table.number_or_null(pos), table.number_or_null(score)
    sign = "" if says(score, "distance") else "-"
    rows = f"""SELECT {quote(table.roles["query"])} AS q, {place} AS p, {sign}{value} AS s
        FROM {table.sql} WHERE {place} IS NOT NULL AND {value} IS NOT NULL"""
    ranks = f"""SELECT row_number() OVER (PARTITION BY q ORDER BY p, s) AS place,
        rank() OVER (PARTITION BY q ORDER BY s) AS low,
        count(*) OVER (PARTITION BY q, s) AS ties FROM ({rows})"""
    counts = "count(*) FILTER (place < low OR place >= low + ties), count(*)"
    wrong, total = table.session.row(f"SELECT {counts} FROM ({ranks})")
    if wrong > 0.01 * total:
        text = f"{table.label}: {pos} and {score} order {wrong:,} of {total:,} rows differently, "
        text += "and the other runs have scores. Name the column that all have, "
        raise RankqlError(advise(text, {"score": score}, f", or correct {pos}"))
    unused = Unused(f"{pos} of {name} is not used")
    return replace(table.without("pos"), context={**table.context, "pos": unused})


def rank_by_score(table: Table) -> Table:
    """The run with positions by its scores; the higher item id comes first among equal ones."""
    name, score = f"{INTERNAL_PREFIX}place", table.number("score")
    order = f"{score} DESC NULLS LAST, {table.key('item', as_text=True)} DESC"
    place = f"row_number() OVER (PARTITION BY {quote(table.roles['query'])} ORDER BY {order})"
    sql = f"SELECT *, CASE WHEN {score} IS NOT NULL THEN {place} END AS {name} FROM {table.sql}"
    reads = {**table.computed, name: table.sources([table.roles["score"]])}
    ranked = add_place(table, "pos", name, table.role_columns["score"], sql)
    return replace(ranked, computed=reads, ascending=False)


def add_row_number(table: Table, role: str, name: str, origin: str, keys: str = "") -> Table:
    """The table with a column that numbers its rows: all, or those of each key."""
    sql = f"SELECT *, row_number() OVER () AS {name} FROM {table.sql}"
    if keys:
        number = f"row_number() OVER (PARTITION BY {keys} ORDER BY {name})"
        sql = f"SELECT * REPLACE ({number} AS {name}) FROM ({sql})"
    return add_place(table, role, name, origin, sql)


def add_place(table: Table, role: str, name: str, origin: str, sql: str) -> Table:
    """The table with a column of numbers, which a query adds, as a role."""
    return replace(
        table,
        sql=table.load(f"({sql})", text=table.text).sql,
        columns={**table.columns, name: "BIGINT"},
        roles={**table.roles, role: name},
        origins={**table.origins, name: origin},
    )
