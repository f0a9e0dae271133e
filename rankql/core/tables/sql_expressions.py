"""SQL expressions of the caller: what they may be, and the numbers that they read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import accumulate

from rankql.core.base.errors import RankqlError
from rankql.core.metrics.macros import quote
from rankql.core.tables.private import private_connection
from rankql.core.tables.tables import Table, is_keyword, mentioned, text_number

# A grade of the rows of a query and an item together, and the expression in it.
_AGGREGATE = re.compile(r"(?is)\s*(max|sum)\s*\((.+)\)\s*")


def split_aggregate(text: str) -> tuple[str, str]:
    """The aggregate that an expression is, and what is in it: of max(stars), max and stars.

    Of another expression, "" and the expression.
    """
    if match := _AGGREGATE.fullmatch(text):
        opened = accumulate((char == "(") - (char == ")") for char in match[2])
        if min(opened) >= 0:
            return match[1].lower(), match[2]
    return "", text


def number_type(table: Table, name: str) -> str | None:
    """The type of a column of a text file that has numbers only, and at least one.

    It is DOUBLE, but integers that it rounds stay exact.
    """
    column = quote(name)
    integer = f"TRY_CAST(regexp_extract(CAST({column} AS VARCHAR), '^[+-]?[0-9]+$') AS HUGEINT)"
    sql = (
        f"SELECT count({column}), count({text_number(name)}), "
        f"count({column}) = count({integer}) AND max(abs({integer})) > {2**53} FROM {table.sql}"
    )
    values, numbers, exact = table.session.row(sql)
    if not values or values != numbers:
        return None
    return "HUGEINT" if exact else "DOUBLE"


def require_scalar(text: str, what: str, columns: Iterable[str] = ()) -> None:
    """Refuse a text that is not one SQL expression, or has a subquery or a parameter.

    columns: those that it may read, of which one called like a keyword needs quotes.
    """
    sql = "SELECT json_serialize_sql(?)"
    with private_connection() as con:
        trees = [
            json.loads(con.execute(sql, [f"SELECT (\n{value}\n)"]).fetchall()[0][0])
            for value in ("1", text)
        ]
    if trees[1]["error"]:
        keywords = [x for x in mentioned(columns, text) if x.isidentifier() and is_keyword(x)]
        quoted = re.sub(rf'(?<!")\b({"|".join(keywords)})\b(?!")', r'"\1"', text)
        if keywords and quoted != text:
            word = f"{keywords[0]} is a keyword of SQL"
            raise RankqlError(f"{what}: {word}. Put it in double quotes: {quoted}")
        raise RankqlError(f"{what} is not valid SQL: {trees[1]['error_message']}")
    values = [tree["statements"][0]["node"].pop("select_list", []) for tree in trees]
    tree, refused = json.dumps(values[1]), ("SUBQUERY", "PARAMETER", "WINDOW")
    nested = any(f'"class": "{part}"' in tree for part in refused)
    nested = nested or '"function_name": "unnest"' in tree
    if trees[0] != trees[1] or len(values[1]) != 1 or nested:
        raise RankqlError(
            f"{what} must be one SQL expression of the columns of a row, without a subquery, a "
            "window function, unnest, a semicolon or parameters. Compute it in the table first"
        )
