"""SQL dialects supported by `translate`."""

from __future__ import annotations

from rankql.errors import RankqlError, did_you_mean, require_package

DIALECTS = (
    *("spark", "postgres", "datafusion"),
    *("snowflake", "bigquery", "databricks", "trino", "redshift"),
)


def translate(query: str, dialect: str) -> str:
    """Translate a query that calls metrics from DuckDB's SQL into another dialect.

    The metrics are written out in the SQL of the dialect. Functions and syntax that may mean
    something else there raise a RankqlError that names them. Values equal those of DuckDB to 1e-12.
    Wrong options are errors of `translate`, wrong data is an error of the translated query.

    >>> text = translate("SELECT user, ndcg(rel, pos, 10) AS n FROM t GROUP BY user", "spark")
    >>> text.startswith("SELECT `user`, "), "ndcg(" in text
    (True, False)
    """
    if dialect not in DIALECTS:
        raise RankqlError(f"unknown dialect {dialect!r}{did_you_mean(dialect, DIALECTS)}")
    require_package("sqlglot", "dialects", f"dialect {dialect}")
    if dialect == "spark":
        from rankql.engines.translation import SPARK, translate_query

        return translate_query(query, SPARK)
    from rankql.engines.windows import translate_to_windows

    return translate_to_windows(query, dialect)
