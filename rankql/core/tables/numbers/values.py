"""The numbers in columns of grades, positions and scores: text, NaN, NA and fill-ins."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from rankql.core.base.errors import RankqlError, advise
from rankql.core.base.text import format_count, is_or_are
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.tables.reader import Reader, numbers_in_memory
from rankql.core.tables.tables import FLOATS, Table, is_nan, is_number, is_text, text_number

# The lowest score of float32, which vector indexes give to nothing.
LOWEST = -3.4028234e38
# With a larger share of equal rows, a file was probably read twice.
MOST_EQUAL = 0.1
# The kind of the note on them, and their count.
EQUAL_ROWS, _COUNT = "equal-rows", f"{INTERNAL_PREFIX}n"
# How text says yes and no.
_YES, _NO = ("true", "yes", "t", "y"), ("false", "no", "f", "n")
# How Label Studio writes a rating into CSV and JSON: the text or the list of one object.
_RATING = r"""'^\[\{["'']rating["'']: ?([-+.0-9e]+)\}\]$'"""


def read_numbers(table: Table) -> Table:
    """The table with numbers for text, and NULL for grades that are NaN in pandas.

    Text may call grades yes and no.
    """
    name = table.roles.get("rel", "")
    kind, value = table.columns.get(name, ""), quote(name)
    is_words = is_text(kind) and numbers_in_memory(table, name) is None
    if is_words or kind.startswith("STRUCT(rating "):
        text = f"lower(trim(CAST({value} AS VARCHAR)))"
        words, first = table.row(f"bool_and({text} IN {_YES + _NO}), any_value({text})")
        rated = f"SELECT bool_and(regexp_matches({text}, {_RATING})) FROM {table.sql}"
        if words:
            grade = f"CASE WHEN {text} IN {_YES} THEN 1 WHEN {text} IN {_NO} THEN 0 END"
            table = table.with_values(name, grade, "INTEGER")
        elif (first or "").startswith("[{") and table.session.value(rated):
            table = table.with_values(name, f"regexp_extract({text}, {_RATING}, 1)", "VARCHAR")
    elif table.nan and kind.startswith(FLOATS):
        counts = f"count(*) FILTER ({is_nan(value)}), count(*)"
        missing, rows = table.row(counts)
        if missing:
            table.note(
                f"{missing:,} of {rows:,} values of {name} are NaN, as pandas "
                "writes missing ones, and count as unjudged",
            )
            grade = f"CASE WHEN NOT {is_nan(value)} THEN {value} END"
            table = table.with_values(name, grade, kind)
    for role in ("rel", "score", "pos"):
        name = table.roles.get(role, "")
        if not is_text(table.columns.get(name, "")):
            continue
        if numbers_in_memory(table, name) is not None:
            continue
        if table.text:
            table = _read_na(table, name)
            continue
        number = text_number(name)  # if all are finite
        finite = f"count({quote(name)}) = count(*) FILTER (isfinite({number}))"
        if table.value(f"count({quote(name)}) > 0 AND {finite}"):
            table = table.with_values(name, number, "DOUBLE")
    return table


def _read_na(table: Table, name: str) -> Table:
    """The table of a text file with NULL for the NA that R writes into columns of numbers."""
    value = quote(name)
    count = table.value("count(*)", f" WHERE {value} = 'NA'")
    if not count:
        return table
    values = format_count(count, "value")
    table.note(f"{values} of {name} {is_or_are(count)} NA, as R writes missing ones")
    return table.with_values(name, f"nullif({value}, 'NA')", table.columns[name])


def refuse_padding(table: Table, other: Table | None = None) -> None:
    """Refuse the item -1, which fills up lists, if no other is below 0: it would be a hit.

    other: the judgments of a run, or a run of judgments.
    """
    name = table.roles.get("item", "")
    kind = table.columns.get(name, "")
    if not (is_text(kind) or is_number(kind)) or not _has_minus_one(table, name):
        return
    told = f"{table.label}: {name} has -1, which is not an id. "
    if table.lists is None or name != table.lists.column:
        raise RankqlError(f"{told}Leave it out")
    minus = "'-1'" if is_text(kind) else "-1"
    pair = [f"list_filter({name}, lambda x: x <> {minus})"]
    pair += [str(other.roles.get("item") or other.find("item"))] if other else []
    call = {"item": pair[::-1] if table.label == "qrels" else pair} if other else {"item": pair[0]}
    raise RankqlError(advise(f"{told}Drop it: ", call))


def _has_minus_one(table: Table, name: str) -> bool:
    """Is -1 the only id below 0? Ranges spare the other rows of a file, by its statistics."""
    value, below = quote(name), f"{quote(name)} < 0"
    frame = table.session.frames.get(table.sql)
    if is_text(table.columns[name]):
        if frame is not None and not frame[name].cast(pl.String).str.starts_with("-").any():
            return False
        value, below = f"TRY_CAST({value} AS BIGINT)", f"{value} >= '-' AND {value} < '.'"
    elif frame is not None:
        return bool(frame[name].min() == -1)
    return bool(table.value(f"min({value}) = -1", f" WHERE {below}"))


def without_fill_rows(table: Table) -> tuple[Table, bool | None]:
    """The run without the rows of fill-ins, and whether its scores are then distances; None
    without any.

    FAISS gives -1 the highest distance, or the lowest product; usearch gives 0 no distance.
    """
    if not {"item", "score"} <= {*table.roles}:
        return table, None
    names = table.roles["item"], table.roles["score"]
    of_item, of_score = (table.columns[name] for name in names)
    is_text = table.text and of_item == "VARCHAR"
    are_ids = is_text or of_item.endswith(("INT", "INTEGER"))
    if not are_ids or not (table.text or of_score in ("FLOAT", "DOUBLE")):
        return table, None
    frame = table.session.frames.get(table.sql)
    if frame is not None and not _may_be_filled(frame[names[0]], frame[names[1]]):
        return table, None
    item, score = quote(names[0]), f"TRY_CAST({quote(names[1])} AS DOUBLE)"
    minus, zero = ("'-1'", "'0'") if is_text else ("-1", "0")
    high = f"{item} = {minus} AND abs({score}) >= {-LOWEST}"
    # The first condition spares a file of other ids, by its statistics.
    fill = f"({item} IN ({minus}, {zero}) AND ({high} OR {item} = {zero} AND {is_nan(score)}))"
    counts = f"SELECT count(*), min({item}), min({score}) < 0, max({score}) FROM {table.sql}"
    count, value, is_score, highest = table.session.row(f"{counts} WHERE {fill}")
    if not count or highest == math.inf:
        return without_infinite_fills(table) if count else table, None
    what = "scores" if is_score else "distances, of which the lowest is best"
    tool = "FAISS" if int(value) else "usearch"
    table.note(
        f"{format_count(count, 'item')} {value} left out, the fill-in of {tool}. "
        f"The numbers are {what}",
    )
    kept = f"(SELECT * FROM {table.sql} WHERE NOT coalesce({fill}, false))"
    return replace(table, sql=kept), not is_score


def without_infinite_fills(table: Table) -> Table:
    """The run without items -1 or NULL whose score is infinite: padding, which would be on top."""
    numbers = numbers_in_memory(table, table.roles["score"])
    if numbers is not None and numbers.max() != math.inf:
        return table
    item, score = quote(table.roles["item"]), table.number_or_null(table.roles["score"])
    unknown = f"coalesce(CAST({item} AS VARCHAR), '-1') = '-1'"
    padding = f"({unknown} AND coalesce({score} = 'inf', false))"
    count = table.value("count(*)", f" WHERE {padding}")
    if not count:
        return table
    text = f"{format_count(count, 'item')} -1 or NULL with an infinite {table.roles['score']}"
    table.note(f"{text} left out as padding")
    return replace(table, sql=f"(SELECT * FROM {table.sql} WHERE NOT {padding})")


def _may_be_filled(items: pl.Series, scores: pl.Series) -> bool:
    """Is there an item -1, or an item 0 whose score may be no number?"""
    if items.dtype == pl.String:
        return items.is_in(["-1", "0"]).any()
    zeros = scores.filter(items == 0)
    total = zeros.sum()
    minus = items.dtype.is_signed_integer() and (items == -1).any()
    return minus or (len(zeros) > 0 and total != total)


def refuse_rounded_scores(table: Table) -> None:
    """Refuse scores that DOUBLE rounds: integers above 2^53, and decimals of as many digits."""
    if "score" not in table.roles or "pos" in table.roles:
        return
    name, kind = table.roles["score"], table.columns[table.roles["score"]]
    decimal, score = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", kind), quote(name)
    if table.text and kind == "VARCHAR":  # of digits alone; computed columns are numbers
        if numbers_in_memory(table, name) is not None:
            return
        digits = f"strlen({score}) > 15 AND NOT contains({score}, '.')"
        score = f"CASE WHEN {digits} THEN TRY_CAST({score} AS HUGEINT) END"
    elif not (decimal or kind.endswith(("BIGINT", "HUGEINT"))):
        return
    most = 2**53 // 10 ** int(decimal[1] if decimal else 0)
    for (value,) in table.rows(score, f" WHERE {score} NOT BETWEEN -{most} AND {most} LIMIT 1"):
        raise RankqlError(
            f"{table.label}: {name} {value} has so many digits that different scores would be "
            "equal. Subtract a number from all scores, or pass positions: pos="
        )


def share_of_equal_rows(table: Table, system: str | None) -> float:
    """The share of rows that repeat another one in all columns, the highest of any system."""
    of = quote(table.actual_name(system)) if system and table.has(system) else "NULL"
    rows = f"SELECT *, count(*) AS {_COUNT} FROM {table.sql} GROUP BY ALL"
    counts = f"SELECT sum({_COUNT}), sum({_COUNT} - 1) FROM ({rows}) GROUP BY {of}"
    return highest_share(table.session.rows(counts))


def highest_share(counts: Iterable[tuple[int, int]]) -> float:
    """The highest share of some rows: pairs of all and of these. A single one is no file that was
    read twice.
    """
    shares = (min(1 / n, MOST_EQUAL) if more == 1 else more / n for n, more in counts if n)
    return float(max(shares, default=0))


def describe_equal_rows(count: int) -> str:
    """What a note says of rows that are left out."""
    equal = f"{format_count(count, 'row')} equal to another one in all columns"
    return f"{equal} {is_or_are(count)} left out"


def without_equal_rows(session: Reader, table: Table) -> Table:
    """The table in which rows that are equal in all columns count once, in their order."""
    names = ", ".join(map(quote, table.columns))
    rows = f"SELECT {names}, row_number() OVER () AS {_COUNT} FROM {table.sql}"
    once = table.load(
        f"(SELECT {names} FROM ({rows}) GROUP BY ALL ORDER BY min({_COUNT}))", text=table.text
    )
    if more := table.value("count(*)") - once.value("count(*)"):
        session.note(table.label, describe_equal_rows(more), EQUAL_ROWS)
    return replace(table, sql=once.sql, permanent="", lazy=False) if more else table
