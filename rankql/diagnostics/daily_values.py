"""Values of your own by day, for `monitor`: a day, numbers, and the query if a day has several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rankql import text
from rankql.errors import RankqlError, require
from rankql.evaluation.result import Result
from rankql.evaluation.values import is_number_column, read_values
from rankql.macros import INTERNAL_PREFIX, MISSING, quote
from rankql.registry.parse import is_metric
from rankql.sources.session import Session
from rankql.sources.tables import Table, require_column

_ROW = f"{INTERNAL_PREFIX}row"


def find_daily_values(
    session: Session, table: Table, used: Sequence[str], metrics: Sequence[str]
) -> list[str]:
    """The metrics of a table of values; none if it has items, grades, positions or scores.

    used: the columns of the day, the query and the slices, as the caller names them.
    """
    known = [*itertools.chain(*map(table.known, ("item", "rel", "score", "pos")))]
    others = [x for x in table.columns if x not in metrics and x != MISSING]
    others = [x for x in others if x.lower() not in {*map(str.lower, used)}]
    if not {*known}.isdisjoint(others) or any(table.columns[x][-1] in "])" for x in others):
        return []
    numbers = [x for x in others if is_number_column(session, table, x)]
    if others and not (numbers or metrics):
        listed = text.join_words([f"{name} is {table.columns[name]}" for name in others])
        raise RankqlError(f"days has no column of numbers: {listed}. Cast the metric to DOUBLE, or "
                          "name the item of rankings: item=")  # fmt: skip
    return [*metrics] if metrics and (numbers or table.has(metrics[0])) else numbers


def read_daily_values(
    session: Session, table: Table, metrics: Sequence[str], day: str, query: str,
    by: Sequence[Sequence[str]], weekly: bool,
) -> tuple[Result, bool]:  # fmt: skip
    """The means of values by day and slice, and whether a row is a query. Otherwise it is a day."""
    attributes = [require_column(table, x, "by") for x in dict.fromkeys(itertools.chain(*by))]
    metrics = [require_column(table, name, "metrics") for name in metrics]
    is_query = table.has(query) and table.actual_name(query) not in (day, *metrics)
    require(is_query or len(by) < 2, "days has no query, so by= must be one slicing. Cross the "
            "attributes, by=[['a', 'b']], or name the query: query=")  # fmt: skip
    keys = [day, table.actual_name(query)] if is_query else [day, *attributes]
    names = ", ".join(map(quote, keys))
    twice = f"SELECT {names} FROM {table.sql} GROUP BY {names} HAVING count(*) > 1 ORDER BY ALL"
    for row in session.rows(f"{twice} LIMIT 1"):
        place = ", ".join(f"{name} {value}" for name, value in zip(keys, row, strict=True))
        raise RankqlError(f"days has several rows for {place}. Keep one, or name the column of the "
                          "query or of slices: query= or by=")  # fmt: skip
    columns = {name: quote(name) for name in (day, *attributes, *metrics)} | {
        _ROW: f"concat({quote(day)}, ', ', row_number() OVER ())"
    }
    if weekly:
        columns[day] = f"CAST(date_trunc('week', CAST({quote(day)} AS DATE)) AS DATE)"
    sql = f"(SELECT {', '.join(f'{x} AS {quote(name)}' for name, x in columns.items())}"
    kinds = {**table.columns, _ROW: "VARCHAR", **({day: "DATE"} if weekly else {})}
    rows = replace(table, sql=f"{sql} FROM {table.sql})", columns={x: kinds[x] for x in columns})
    result = read_values(rows, query=_ROW, metrics=metrics, con=session.con)
    slices = [[day], *([day, *group] for group in by)]
    notes = [*result.notes]
    if own := [name for name in metrics if not is_metric(name)]:
        higher = f"Higher {text.join_words(own)} {text.is_or_are(len(own))} assumed to be better"
        notes.append(f"{higher}. If not, negate the values")
    meta = replace(result.meta, groupings=slices if is_query else slices[-1:])
    return result.derive(meta=meta, notes=notes), is_query
