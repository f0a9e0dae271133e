"""The columns of grades, positions and scores: which of several it is, and if it may be right.

Positions of rows that have none come from the order of the rows, or from scores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankql.errors import Question, RankqlError, require
from rankql.macros import INTERNAL_PREFIX, quote
from rankql.registry.column_names import (
    PLACES,
    RERANKED,
    ROLES,
    WEAKER,
    find_name,
    is_called,
    is_distance,
    squash,
    words_of,
)
from rankql.sources.session import Session
from rankql.sources.tables import (
    Table,
    Unused,
    is_number,
    is_text,
    quote_name,
    text_number,
)
from rankql.sources.tidy.padding import LOWEST, note_fills
from rankql.text import format_count, is_or_are, join_words

# The rows that say how columns order the items of queries.
FIRST_ROWS = 1000
# How text says yes and no.
_YES, _NO = ("true", "yes", "t", "y"), ("false", "no", "f", "n")


def require_one_name(
    session: Session, table: Table, role: str, names: Mapping[str, str | None]
) -> Table:
    """The table, if one column has the role, or several say the same.

    Next to the exact name of a role, or a better known one, the Columns line names the others.
    """
    if names.get(role) or role in table.roles or table.trec:
        return table
    numbers = [x for x in table.free_columns(role) if is_number(table.columns[x]) or table.text]
    known, weaker = ([x for x in numbers if is_called(x, y[role])] for y in (ROLES, WEAKER))
    chosen = table.find(role)
    if chosen not in (*known, *weaker) or len(known) + len(weaker) < 2:
        return table
    key = table.find("query", names.get("query"))
    is_class = is_called(chosen, ("prediction", "pred")) and find_name(weaker, ["probability"])
    classes = f"SELECT count(DISTINCT {quote(chosen)}) <= 2 FROM {table.sql}"
    is_class = is_class and session.value(classes)
    others = [
        x for x in (*known, *weaker)
        if x != chosen
        and (is_class or _disagreement(session, table, key, (role, chosen), (role, x)))
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


def describe_positions(session: Session, table: Table) -> list[str]:
    """Notes if most queries lack the position 1, or have scores in another order.

    Positions from 0 are a question.
    """
    roles, name = table.roles, table.roles.get("pos", "")
    if not name or table.unit == "ids" or not (is_number(table.columns[name]) or table.text):
        return []
    rows = f"SELECT {quote(roles['query'])} AS q, {_number(table, name)} AS p FROM {table.sql}"
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
    if _disagreement(session, table, roles["query"], ("pos", name), ("score", score)) <= 0.5:
        return []
    against = ("-score", score)
    ascends = not _disagreement(session, table, roles["query"], ("pos", name), against)
    return [
        f"{table.label}: {score} orders most queries in another way than {name}, which is read. "
        f"To rank by it, pass score={score!r}{', descending=False' if ascends else ''}"
    ]


def _disagreement(
    session: Session, table: Table, key: str | None, one: tuple[str, str], other: tuple[str, str]
) -> float:
    """The share of the first queries that two columns order differently; of grades, of rows."""
    a, b = (
        f"{'-' if role == 'score' and not is_distance(name) else ''}{_number(table, name)}"
        for role, name in (one, other)
    )
    query = quote(key) if key and table.has(key) else "1"
    rows = f"SELECT {query} AS q, {a} AS a, {b} AS b FROM {table.sql} LIMIT {FIRST_ROWS}"
    sql = f"SELECT avg(CAST(a IS DISTINCT FROM b AS INTEGER)) FROM ({rows})"
    if other[0].endswith("score"):
        rows = f"SELECT *, lag(b) OVER (PARTITION BY q ORDER BY a, b) AS before FROM ({rows})"
        differs = f"SELECT coalesce(bool_or(b < before), false) AS differs FROM ({rows}) GROUP BY q"
        sql = f"SELECT avg(CAST(differs AS INTEGER)) FROM ({differs})"
    return float(session.value(sql) or 0)


def _number(table: Table, name: str) -> str:
    """The number in a column, NULL if it is none."""
    return text_number(name) if is_text(table.columns[name]) else f"CAST({quote(name)} AS DOUBLE)"


def drop_positions(session: Session, table: Table, name: str) -> Table:
    """The run ordered by its score as others are, if its positions hardly say anything else."""
    pos, score = table.roles["pos"], table.roles["score"]
    place, value = _number(table, pos), _number(table, score)
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
    query, value = quote(table.roles["query"]), _number(table, name)
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


def read_numbers(session: Session, table: Table) -> Table:
    """The table with numbers for text, and NULL for grades that are NaN in pandas.

    Text may call grades yes and no.
    """
    name = table.roles.get("rel", "")
    kind, value = table.columns.get(name, ""), quote(name)
    if is_text(kind):
        text = f"lower(trim(CAST({value} AS VARCHAR)))"
        if session.value(f"SELECT bool_and({text} IN {_YES + _NO}) FROM {table.sql}"):
            grade = f"CASE WHEN {text} IN {_YES} THEN 1 WHEN {text} IN {_NO} THEN 0 END"
            table = table.with_values(name, grade, "INTEGER")
    elif table.nan and kind.startswith(FLOATS):
        counts = f"count(*) FILTER (isnan({value})), count(*)"
        missing, rows = session.row(f"SELECT {counts} FROM {table.sql}")
        if missing:
            session.note(
                table.label,
                f"{missing:,} of {rows:,} values of {name} are NaN, as pandas "
                "writes missing ones, and count as unjudged",
            )
            grade = f"CASE WHEN NOT isnan({value}) THEN {value} END"
            table = table.with_values(name, grade, kind)
    for role in ("rel", "score", "pos"):
        name = table.roles.get(role, "")
        if not is_text(table.columns.get(name, "")):
            continue
        if table.text:
            table = _read_na(session, table, name)
            continue
        number = text_number(name)  # if all are finite
        finite = f"count({quote(name)}) = count(*) FILTER (isfinite({number}))"
        if session.value(f"SELECT count({quote(name)}) > 0 AND {finite} FROM {table.sql}"):
            table = table.with_values(name, number, "DOUBLE")
    return table


def _read_na(session: Session, table: Table, name: str) -> Table:
    """The table of a text file with NULL for the NA that R writes into columns of numbers."""
    value = quote(name)
    count = session.value(f"SELECT count(*) FROM {table.sql} WHERE {value} = 'NA'")
    if not count:
        return table
    values = format_count(count, "value")
    session.note(table.label, f"{values} of {name} {is_or_are(count)} NA, as R writes missing ones")
    return table.with_values(name, f"nullif({value}, 'NA')", table.columns[name])


def refuse_padding(session: Session, table: Table) -> None:
    """Refuse the item -1, which fills up lists, if no other is below 0: it would be a hit."""
    name = table.roles.get("item", "")
    kind, value = table.columns.get(name, ""), quote(name)
    if not (is_text(kind) or is_number(kind)):
        return
    if is_text(kind):
        value = f"CASE WHEN starts_with({value}, '-') THEN TRY_CAST({value} AS BIGINT) END"
    if session.value(f"SELECT min({value}) = -1 FROM {table.sql}"):
        raise RankqlError(
            f"{table.label}: {name} has -1, which is not an id. Leave out its rows; of lists, "
            f"drop it by an expression: item='list_filter({name}, lambda x: x <> -1)'"
        )


def without_fill_rows(session: Session, table: Table) -> tuple[Table, bool | None]:
    """The run without the rows of fill-ins, and whether its scores are then distances; None
    without any.
    """
    if not {"item", "score"} <= {*table.roles}:
        return table, None
    names = table.roles["item"], table.roles["score"]
    of_item, of_score = (table.columns[name] for name in names)
    is_text = table.text and of_item == "VARCHAR"
    are_ids = is_text or of_item.endswith(("INT", "INTEGER"))
    if not are_ids or not (table.text or of_score in ("FLOAT", "DOUBLE")):
        return table, None
    item, score = quote(names[0]), f"TRY_CAST({quote(names[1])} AS DOUBLE)"
    minus, zero = ("'-1'", "'0'") if is_text else ("-1", "0")
    high = f"{item} = {minus} AND abs({score}) >= {-LOWEST}"
    # The first condition spares a file of other ids, by its statistics.
    fill = f"({item} IN ({minus}, {zero}) AND ({high} OR {item} = {zero} AND isnan({score})))"
    counts = f"SELECT count(*), min({item}), min({score}) < 0 FROM {table.sql}"
    count, value, is_score = session.row(f"{counts} WHERE {fill}")
    if not count:
        return table, None
    note_fills(session, table.label, count, int(value), not is_score)
    kept = f"(SELECT * FROM {table.sql} WHERE NOT coalesce({fill}, false))"
    return replace(table, sql=kept), not is_score


def refuse_rounded_scores(session: Session, table: Table) -> None:
    """Refuse scores that DOUBLE rounds: integers above 2^53, and decimals of as many digits."""
    if "score" not in table.roles or "pos" in table.roles:
        return
    name, kind = table.roles["score"], table.columns[table.roles["score"]]
    decimal, score = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", kind), quote(name)
    if table.text and kind == "VARCHAR":  # of digits alone; computed columns are numbers
        digits = f"strlen({score}) > 15 AND NOT contains({score}, '.')"
        score = f"CASE WHEN {digits} THEN TRY_CAST({score} AS HUGEINT) END"
    elif not (decimal or kind.endswith(("BIGINT", "HUGEINT"))):
        return
    most = 2**53 // 10 ** int(decimal[1] if decimal else 0)
    sql = f"SELECT {score} FROM {table.sql} WHERE {score} NOT BETWEEN -{most} AND {most} LIMIT 1"
    for (value,) in session.rows(sql):
        raise RankqlError(
            f"{table.label}: {name} {value} has so many digits that different scores would be "
            "equal. Subtract a number from all scores, or pass positions: pos="
        )


def refuse_rounded(session: Session, table: Table, column: str, ids: str, kind: str) -> None:
    """Refuse ids of floating point that are fractions, or so long that different ids are equal.

    ids: what selects them from the column.
    """
    if not kind.startswith(FLOATS):
        return
    rounded = f"SELECT id FROM (SELECT {ids} AS id FROM (SELECT {quote(column)} AS x_ FROM "
    rounded += f"{table.sql})) WHERE {is_rounded('id', kind)} LIMIT 1"
    for (value,) in session.rows(rounded):
        raise RankqlError(
            f"{table.label}: {column} has the id {value}, a floating-point number that may stand "
            "for different ids. Write ids as text or as integers"
        )


# The types of floating point, as DuckDB calls them and their lists.
FLOATS = ("DOUBLE", "FLOAT")


def is_rounded(column: str, kind: str) -> str:
    """The condition that a floating-point number may stand for several ids."""
    most = 2**24 if kind[0] == "F" else 2**53  # of Parquet, DuckDB 2.0 takes no NaN to be above it
    return f"{column} <> floor({column}) OR abs({column}) >= {most} OR NOT isfinite({column})"


def number_rows(
    session: Session, table: Table, names: Mapping[str, Any], system: str | None
) -> Table:
    """The run with positions from the order of its rows; lists have an order."""
    if "pos" in table.roles:
        return table
    query, named = table.find("query", names.get("query")), (names.get("pos"), names.get("score"))
    if query is None:
        return table  # an error of the roles
    keys = ", ".join(map(quote, [*([system] if system else []), query]))
    require(
        table.ordered and named == (None, None),
        "order='rows' needs a file or a frame, because rows of a table have no order, and no pos= "
        f"or score=. In SQL, write row_number() OVER (PARTITION BY {keys} ORDER BY ...)",
    )
    return add_row_number(session, table, "pos", f"{INTERNAL_PREFIX}row", "order of the rows", keys)


def add_row_number(
    session: Session, table: Table, role: str, name: str, origin: str, keys: str = ""
) -> Table:
    """The table with a column that numbers its rows: all, or those of each key."""
    sql = f"SELECT *, row_number() OVER () AS {name} FROM {table.sql}"
    if keys:
        number = f"row_number() OVER (PARTITION BY {keys} ORDER BY {name})"
        sql = f"SELECT * REPLACE ({number} AS {name}) FROM ({sql})"
    return _add_place(session, table, role, name, origin, sql)


def _add_place(
    session: Session, table: Table, role: str, name: str, origin: str, sql: str
) -> Table:
    return replace(
        table,
        sql=session.load(table.label, f"({sql})", text=table.text).sql,
        columns={**table.columns, name: "BIGINT"},
        roles={**table.roles, role: name},
        origins={**table.origins, name: origin},
    )


def rank_by_score(session: Session, table: Table) -> Table:
    """The run with positions by its scores; the higher item id comes first among equal ones."""
    name, score = f"{INTERNAL_PREFIX}place", table.number("score")
    order = f"{score} DESC NULLS LAST, {table.key('item', as_text=True)} DESC"
    place = f"row_number() OVER (PARTITION BY {quote(table.roles['query'])} ORDER BY {order})"
    sql = f"SELECT *, CASE WHEN {score} IS NOT NULL THEN {place} END AS {name} FROM {table.sql}"
    reads = {**table.computed, name: table.sources([table.roles["score"]])}
    ranked = _add_place(session, table, "pos", name, table.role_columns["score"], sql)
    return replace(ranked, computed=reads, ascending=False)
