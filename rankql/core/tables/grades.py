"""Which column has the grades: what its name and its values say, and the calls that follow.

Grades are a few different numbers or words that differ within queries. Lists of them, next to
judged ids, are in `shapes.doubts.unread_grades`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankql.core.base.column_names import (
    core_of,
    number_kind,
    says,
    words_in_order,
    words_of,
)
from rankql.core.base.errors import Call, parse_number
from rankql.core.base.text import join_words
from rankql.core.metrics.macros import quote
from rankql.core.tables.tables import (
    FRACTIONS,
    Table,
    format_mapping,
    is_nested,
    is_number,
    is_text,
)

# Grades have at most so many values, from 0; of more among the first rows, a column has none.
LEVELS, _FIRST_ROWS = 10, 20_000
# A property of items has one value for each, which shows if two queries have so many.
_REPEATED = 0.1
# Words of grades, of which one is enough.
_GRADES = {
    *("poor", "weak", "bad", "fair", "ok", "good", "great", "excellent", "perfect", "superb"),
    *("no", "yes", "not", "irrelevant", "relevant", "partial", "partially", "marginal", "highly"),
    *("exact", "wrong", "correct", "incorrect", "useless", "useful", "low", "medium", "high"),
}
# What the names of columns say that have no grades.
_NO_GRADES = (
    *("id", "property", "query", "item", "annotator", "locator", "ranked system", "split", "time"),
    "user",
)
# Conditions on the values v of a column, and the numbers n that they are. With one number of at
# least 1, each item is relevant.
CONSTANT = "min(n) = max(n) AND min(n) >= 1"
_LABELS = "avg(length(v::VARCHAR) - length(replace(v::VARCHAR, ' ', ''))) < 3"
_LABELS += " AND (count(DISTINCT v) > 1 OR count(v) < count(*))"
# A time is no grade, and of more words than grades may be, most occur twice, unlike names.
_LABELS += " AND count(TRY_CAST(v AS TIMESTAMP)) < count(v)"
_LABELS += f" AND (count(DISTINCT v) <= {LEVELS} OR 2 * count(DISTINCT v) <= count(v))"
_DOUBT = f"CASE count(v) WHEN 0 THEN false WHEN count(n) THEN NOT ({CONSTANT} AND "
_DOUBT += f"count(v) = count(*)) ELSE {_LABELS} END"


def holds(table: Table, condition: str, value: str, rows: str, item: str = "NULL") -> bool:
    """Does a condition on the values v of a column, their numbers n and their ids i hold?"""
    names = f"{value} AS v, TRY_CAST({value} AS DOUBLE) AS n, {item} AS i"
    return bool(table.session.value(f"SELECT {condition} FROM (SELECT {names} FROM {rows})"))


def spread(table: Table, rows: str, key: str, value: str, each: str = "*") -> tuple[int, ...]:
    """How many values a key has, how many of them with several rows, and with several values of a
    column. each: what is counted in place of rows.
    """
    groups = f"SELECT count({each}) AS n, count(DISTINCT {value}) AS v FROM {rows} GROUP BY {key}"
    counts = "count(*), count(*) FILTER (n > 1), count(*) FILTER (v > 1)"
    found: tuple[int, ...] = table.session.row(f"SELECT {counts} FROM ({groups})")
    return found


def is_outcome(name: str, kind: str) -> bool:
    """Does a column say whether an item was good, by its type or its name?"""
    is_flag = words_in_order(name)[:1] == ["is"] and not says(name, "split")
    return kind == "BOOLEAN" or is_flag or (not kind.endswith("]") and says(name, "outcome"))


def offer_grades(
    table: Table, free: Sequence[str], numbers: Sequence[str], judged: Sequence[str]
) -> list[Call]:
    """The calls that name the grades of a table without a known name of them, by other names.

    free: the columns that may have them. numbers, judged: those of numbers, and of judgments.
    """
    names = [x for x in numbers if x in judged or is_outcome(x, table.columns[x])]
    calls: list[Call] = [{"rel": x} for x in names] or _offer_last(table, free)
    if table.label == "qrels" and not any(says(x, "pos") for x in numbers):
        calls += [{"rel": x} for x in numbers if says(x, "score")]  # of an exact search
    # Without a place of each, a run of relevant items alone is the best there is.
    if table.label == "qrels" or any(says(x, "place") for x in numbers):
        calls.append({"rel": "1"})
    return calls


def _offer_last(table: Table, free: Sequence[str]) -> list[Call]:
    """The only column that is left for the grades of a ranked table, or a score next to the
    prediction of it.
    """
    fractions = [x for x in free if table.columns[x].startswith(FRACTIONS)]
    alone = len(fractions) == 1 and not table.find("pos")
    scores = [x for x in free if says(x, "score")] or fractions * alone
    predicted = [x for x in scores if says(x, "label")]
    targets = [x for x in scores if core_of(x) == "score"]
    if table.label.startswith("run") and len(predicted) == len(targets) == 1:
        return [{"rel": targets[0], "score": predicted[0]}]
    known = {*scores, *map(table.find, ("query", "item", "pos"))}
    left = [
        x for x in free
        if x not in known and not says(x, "time", "split", "beside grades")
        and number_kind(x) != "amount" and not is_nested(table.columns[x])
    ]  # fmt: skip
    ranked = bool(scores or table.find("pos")) and table.find("item") is not None
    return [{"rel": left[0]}] if ranked and len(left) == 1 and table.label != "qrels" else []


def name_grades(table: Table, known: Mapping[str, Any]) -> list[Call]:
    """The call that names the grades of a table of rankings: the only column of a few whole numbers
    from 0, or of flags, that differ and repeat within queries, if no column of a few texts does.

    known: the columns of its roles.
    """
    query, kinds = known.get("query"), table.columns
    keys = query if isinstance(query, list) else [query]
    if not all(isinstance(x, str) and table.has(x) for x in (*keys, known.get("item"))):
        return []
    free = [x for x in table.own_columns if not says(x, "row number", "beside grades")]
    free = [x for x in free if is_text(kinds[x]) or is_number(kinds[x])]
    key, rows = f"({', '.join(map(quote, keys))})", f"(FROM {table.sql} LIMIT {_FIRST_ROWS})"
    pairs = "count(DISTINCT (i, v)) FILTER (v IS NOT NULL)"
    fits = f"count(DISTINCT v) BETWEEN 2 AND {LEVELS} AND {pairs} < count(v)"
    fits += f" AND {pairs} > 1.5 * count(DISTINCT i)"
    whole = f"{fits} AND bool_and(n BETWEEN 0 AND {LEVELS} AND n % 1 = 0)"
    conditions = {
        x: fits if is_text(kinds[x]) else whole for x in free if x not in (*keys, *known.values())
    }
    names = [x for x, y in conditions.items() if holds(table, y, quote(x), rows, key)]
    return [{"rel": x} for x in names if len(names) == 1 and not is_text(kinds[x])]


def may_be_grade(
    table: Table, name: str, value: str, rows: str, query: str, item: str = ""
) -> bool:
    """Is it a number that is not a constant of at least 1, or a label?

    What is the same for all items of a query, or for an item in all queries, is not a grade. item:
    that of elements of lists, next to which texts are labels only if they repeat.
    """
    doubt = _DOUBT + " AND (count(n) = count(v) OR count(DISTINCT v) < count(v))" * bool(item)
    if item and not says(name, "ordering"):
        doubt += " AND (count(DISTINCT i) = count(i) OR count(DISTINCT i) < count(DISTINCT (i, v)))"
    if not holds(table, doubt, value, rows, item or "NULL"):
        return False
    _, several, differ = spread(table, rows, query, value)
    return several < 2 or differ > 0


def fall_in_queries(table: Table) -> bool:
    """Do the grades of all queries fall from row to row, as those of sorted judgments do?"""
    query, rel = table.find("query"), table.find("rel")
    if query is None or rel is None:
        return False
    rows = f"(SELECT *, row_number() OVER () AS r_ FROM {table.sql} LIMIT {_FIRST_ROWS})"
    above = f"lag({quote(rel)}) OVER (PARTITION BY {quote(query)} ORDER BY r_)"
    rows = f"(SELECT {quote(rel)} > {above} AS rises_ FROM {rows})"
    return not table.session.value(f"SELECT coalesce(bool_or(rises_), false) FROM {rows}")


def is_amount(table: Table, name: str, value: str, rows: str) -> bool:
    """Are all items relevant, whatever the numbers: is none 0 or NULL, and are they called like an
    amount or an id, or no scale: of quarters up to 10, or of ten values that repeat, most of them
    not 1?
    """
    few = f"count(DISTINCT n) <= {LEVELS} AND count(DISTINCT n) < count(n)"
    scale = f"bool_and(n * 4 = floor(n * 4)) AND (max(n) <= {LEVELS} OR ({few}))"
    scale = f"max(n) <= 1 OR ({scale} AND 2 * count(*) FILTER (n = 1) < count(*))"
    named = number_kind(name) == "amount" or says(name, "id")
    amount = f"min(n) > 0 AND count(n) = count(*) AND ({named} OR NOT ({scale}))"
    return number_kind(name) != "grade" and holds(table, amount, value, rows)


def find_unread(table: Table) -> Iterator[Mapping[str, Any]]:
    """What there is to say of the columns of judgments that may have the grades, if all items have
    one: those of a few values that differ in most queries, and are no property of items.
    """
    if not table.has_one_grade or table.lists or "item" not in table.roles:
        return
    query, item = table.key("query"), table.key("item")
    first, few = f"(FROM {table.sql} LIMIT {_FIRST_ROWS})", f"count(DISTINCT v) <= {LEVELS}"
    names = [x for x in table.unread if not says(x, *_NO_GRADES) and x in table.columns]
    for name in [x for x in names if number_kind(x) not in ("amount", "place")]:
        kind, value = table.columns[name], quote(name)
        if not (is_text(kind) or is_number(kind)):
            continue
        if not all(holds(table, few, value, x) for x in (first, table.sql)):
            continue
        total, _, count = spread(table, table.sql, query, value)
        items, repeated, unlike = spread(table, table.sql, item, value, f"DISTINCT {query}")
        if 2 * count > total and (unlike or repeated < _REPEATED * items):
            found = table.rows(f"DISTINCT {value} AS v", " WHERE v IS NOT NULL ORDER BY v")
            values = [str(x) for (x,) in found]
            numbers = is_number(kind) or all(parse_number(x) is not None for x in values)
            mapping = format_mapping(dict.fromkeys(values, "..."), name)
            yield {"name": name, "values": join_words(values), "count": count, "total": total,
                   "call": f"rel={name!r}" if numbers else mapping, "table": table.label,
                   "graded": numbers or any(words_of(x) & _GRADES for x in values)}  # fmt: skip
