"""Which way the numbers go: positions against scores, and whether the lowest is best."""

from __future__ import annotations

from dataclasses import replace

from rankql.errors import Question, RankqlError, require
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.registry.column_names import (
    PLACES,
    ROLES,
    WEAKER,
    has_two_directions,
    is_distance,
    words_of,
)
from rankql.sources.choose.rivals import disagreement, number_of
from rankql.sources.open.session import Session
from rankql.sources.tables import FIRST_ROWS, Table, Unused, is_number, quote_name
from rankql.sources.unpack.row_numbers import add_place


def describe_positions(session: Session, table: Table) -> list[str]:
    """Notes if most queries lack the position 1, or have scores in another order.

    Positions from 0 are a question.
    """
    roles, name = table.roles, table.roles.get("pos", "")
    if not name or table.unit == "ids" or not (is_number(table.columns[name]) or table.text):
        return []
    rows = f"SELECT {quote(roles['query'])} AS q, {number_of(table, name)} AS p FROM {table.sql}"
    late = "SELECT avg(CAST(low > 1 AS INTEGER)) > 0.5 AND count(*) > 1, min(low) > 1, sum(n), "
    late += "max(low) = 0 AND min(low) = 0, max(high) < 0 FROM "
    late += "(SELECT min(p) AS low, max(p) AS high, count(*) AS n FROM ({}) GROUP BY q)"
    lacks, none, read, from_0, negative = session.row(late.format(f"{rows} LIMIT {FIRST_ROWS}"))
    if from_0 and session.asks:
        text = f"{table.label}: {name} counts from 0 in each query. Position 1 is the top: add 1"
        raise Question(text, [{"pos": f"{quote_name(name)} + 1"}])
    if negative:
        text = f"{table.label}: {name} is below 0, as in FTS5, where it is a score"
        raise Question(text, [{"score": name, "descending": False}])
    if lacks and none and read == FIRST_ROWS:  # there may be more rows of these queries
        lacks, *_ = session.row(late.format(rows))
    if lacks and (none or read < FIRST_ROWS):
        return [f"{table.label}: most queries have no row with {name} 1, the top position"]
    score = roles.get("score")
    if score is None or not (is_number(table.columns[score]) or table.text):
        return []
    if disagreement(session, table, roles["query"], ("pos", name), ("score", score)) <= 0.5:
        return []
    against = ("-score", score)
    ascends = not disagreement(session, table, roles["query"], ("pos", name), against)
    return [
        f"{table.label}: {score} orders most queries in another way than {name}, which is read. "
        f"To rank by it, pass score={score!r}{', descending=False' if ascends else ''}"
    ]


def drop_positions(session: Session, table: Table, name: str) -> Table:
    """The run ordered by its score as others are, if its positions hardly say anything else."""
    pos, score = table.roles["pos"], table.roles["score"]
    place, value = number_of(table, pos), number_of(table, score)
    sign = "" if is_distance(score) else "-"
    rows = f"""SELECT {quote(table.roles["query"])} AS q, {place} AS p, {sign}{value} AS s
        FROM {table.sql} WHERE {place} IS NOT NULL AND {value} IS NOT NULL"""
    ranks = f"""SELECT row_number() OVER (PARTITION BY q ORDER BY p, s) AS place,
        rank() OVER (PARTITION BY q ORDER BY s) AS low,
        count(*) OVER (PARTITION BY q, s) AS ties FROM ({rows})"""
    counts = "count(*) FILTER (place < low OR place >= low + ties), count(*)"
    wrong, total = session.row(f"SELECT {counts} FROM ({ranks})")
    require(
        wrong <= 0.01 * total,
        f"{table.label}: {pos} and {score} order {wrong:,} of {total:,} rows differently, and the "
        f"other runs have scores. Name the column that all have, score={score!r}, or correct {pos}",
    )
    unused = Unused(f"{pos} of {name} is not used")
    return replace(table.without("pos"), context={**table.context, "pos": unused})


def refuse_wrong_order(session: Session, table: Table, named: bool) -> None:
    """Refuse positions of all queries together, and positions that are named as the score."""
    query, pos, score = (table.roles.get(x, "") for x in ("query", "pos", "score"))
    if table.unit == "ids" or table.is_assumed("pos"):
        return
    if pos and _first_count(session, table, pos, "1") == 1:
        raise RankqlError(
            f"{table.label}: {pos} numbers the rows of all queries together. Number them per "
            f"query: row_number() OVER (PARTITION BY {query} ORDER BY ...)"
        )
    words = {word for name in (*ROLES["score"], *WEAKER["score"]) for word in words_of(name)}
    unknown = score and score not in table.computed and words.isdisjoint(words_of(score))
    if not (named and unknown and not pos):
        return
    is_place = not PLACES.isdisjoint(words_of(score))
    first = _first_count(session, table, score, quote(query), is_place)
    if first == 1 or (first == 0 and is_place):
        place = score if first else f"{quote_name(score)} + 1"
        text = f"{table.label}: {score} counts from {first} in each query, like positions"
        raise Question(text, [{"pos": place}, {"descending": True}])


def _first_count(
    session: Session, table: Table, name: str, key: str, gaps: bool = False
) -> int | None:
    """The first number if the values of a column count the rows of each group, from 0 or 1.

    There must be several queries. gaps: some numbers may be missing. The first rows are read
    first, where it mostly is not so.
    """
    if not is_number(table.columns[name]) and not table.text:
        return None  # an error of its own
    query, value = quote(table.roles["query"]), number_of(table, name)
    rows = (
        f"(SELECT {query} AS q, {key} AS k, {value} AS p FROM {table.sql} WHERE {value} IS NOT NULL"
    )
    once = "SELECT count(*) = count(DISTINCT (k, p)) AND count(*) > 1 FROM "
    if not session.value(f"{once}{rows} LIMIT {FIRST_ROWS})"):
        return None
    groups = "SELECT count(*) AS n, count(DISTINCT p) AS d, min(p) AS low, max(p) AS high, "
    groups += f"count(DISTINCT q) AS queries FROM {rows}) GROUP BY k"
    several = "max(n) > 1" if key != "1" else "min(queries) BETWEEN 2 AND max(n) - 1"
    whole = "low IN (0, 1) AND high < 1e6" if gaps else "high = n + low - 1"
    sql = f"SELECT bool_and(n = d AND {whole}) AND {several}, min(low), max(low) FROM ({groups})"
    counts, least, most = session.row(sql)
    return int(least) if counts and least in (0, 1) and (gaps or least == most) else None


def rank_by_score(session: Session, table: Table) -> Table:
    """The run with positions by its scores; the higher item id comes first among equal ones."""
    name, score = f"{INTERNAL_PREFIX}place", table.number("score")
    order = f"{score} DESC NULLS LAST, {table.key('item', as_text=True)} DESC"
    place = f"row_number() OVER (PARTITION BY {quote(table.roles['query'])} ORDER BY {order})"
    sql = f"SELECT *, CASE WHEN {score} IS NOT NULL THEN {place} END AS {name} FROM {table.sql}"
    reads = {**table.computed, name: table.sources([table.roles["score"]])}
    ranked = add_place(session, table, "pos", name, table.role_columns["score"], sql)
    return replace(ranked, computed=reads, ascending=False)


def lowest_is_best(table: Table, descending: bool | None) -> bool:
    """Is the lowest score the best? By the caller, or by the name of the column."""
    name = table.roles["score"]
    if descending is None:
        if has_two_directions(name):
            raise Question(
                f"{table.label}: is the lowest or the highest {name} the best?",
                [{"descending": False}, {"descending": True}],
            )
        return is_distance(name)
    return not descending
