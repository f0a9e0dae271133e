"""Which dialects of SQL there are beside DuckDB's, and what translates into each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from rankql.errors import RankqlError, did_you_mean, needs

F = TypeVar("F")


def translate(query: str, dialect: str) -> str:
    """A query in DuckDB's SQL that calls the metrics, in another dialect of SQL.

    The macros are expanded and the rest of the query is translated, as far as it means the same: a
    function or a piece of syntax of which that is not known is a RankqlError that names it. A value
    per group is the same to 1e-12, and bad input is an error of the query that is run.

    >>> text = translate("SELECT user, ndcg(rel, pos, 10) FROM t GROUP BY user", "clickhouse")
    >>> "ndcg(" in text.replace('"ndcg(rel, pos, 10)"', ""), "log2(" in text
    (False, True)
    """
    return _among(_QUERIES, dialect)(query)


def functions(dialect: str) -> str:
    """The metrics as functions of an engine, for one that has them."""
    if dialect in _QUERIES and dialect not in _FUNCTIONS:
        raise RankqlError(f"{dialect} has no such functions: give the query to be translated")
    return _among(_FUNCTIONS, dialect)()


def _among(known: Mapping[str, F], dialect: str) -> F:
    if dialect not in known:
        raise RankqlError(f"unknown dialect {dialect!r}{did_you_mean(dialect, [*known])}")
    needs("sqlglot", "dialects", f"dialect {dialect}")
    return known[dialect]


def _clickhouse(query: str) -> str:
    from rankql.clickhouse import translated

    return translated(query)


def _spark(query: str) -> str:
    from rankql import translation

    return translation.query(query, translation.SPARK)


def _windows(dialect: str) -> Callable[[str], str]:
    def made(query: str) -> str:
        from rankql.windows import translated

        return translated(query, dialect)

    return made


def _clickhouse_functions() -> str:
    from rankql.clickhouse import functions

    return functions()


_WINDOWS = ("postgres", "sqlite", "datafusion")
# Their texts are parsed and compared only, which each says at its top.
_PRINTED = ("snowflake", "bigquery", "databricks", "trino", "redshift")
_QUERIES: Mapping[str, Callable[[str], str]] = {
    "clickhouse": _clickhouse,
    "spark": _spark,
    **{dialect: _windows(dialect) for dialect in (*_WINDOWS, *_PRINTED)},
}
_FUNCTIONS: Mapping[str, Callable[[], str]] = {"clickhouse": _clickhouse_functions}
