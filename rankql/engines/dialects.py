"""Which dialects of SQL there are beside DuckDB's, and what translates into each."""

from __future__ import annotations

from collections.abc import Sequence

from rankql.errors import RankqlError, did_you_mean, require_package

DIALECTS = (
    *("clickhouse", "spark", "postgres", "datafusion"),
    # Their texts are parsed and compared only, which each says at its top.
    *("snowflake", "bigquery", "databricks", "trino", "redshift"),
)


def translate(query: str, dialect: str) -> str:
    """A query in DuckDB's SQL that calls the metrics, in another dialect of SQL.

    The macros are expanded and the rest of the query is translated, as far as it means the same: a
    function or a piece of syntax of which that is not known is a RankqlError that names it. A value
    per group is the same to 1e-12, and bad input is an error of the query that is run.

    >>> text = translate("SELECT user, ndcg(rel, pos, 10) FROM t GROUP BY user", "clickhouse")
    >>> "ndcg(" in text.replace('"ndcg(rel, pos, 10)"', ""), "log2(" in text
    (False, True)
    """
    _require_dialect(dialect, DIALECTS)
    if dialect == "clickhouse":
        from rankql.engines import clickhouse_functions as clickhouse

        return clickhouse.translate_to_clickhouse(query)
    if dialect == "spark":
        from rankql.engines.spark_target import SPARK
        from rankql.engines.translation import translate_query

        return translate_query(query, SPARK)
    from rankql.engines import windows

    return windows.translate_to_windows(query, dialect)


def create_functions(dialect: str) -> str:
    """The metrics as functions of an engine, for one that has them."""
    if dialect in DIALECTS and dialect != "clickhouse":
        raise RankqlError(f"{dialect} has no such functions: give the query to be translated")
    _require_dialect(dialect, ["clickhouse"])
    from rankql.engines import clickhouse_functions as clickhouse

    return clickhouse.create_clickhouse_functions()


def _require_dialect(dialect: str, known: Sequence[str]) -> None:
    if dialect not in known:
        raise RankqlError(f"unknown dialect {dialect!r}{did_you_mean(dialect, known)}")
    require_package("sqlglot", "dialects", f"dialect {dialect}")
