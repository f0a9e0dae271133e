"""Queries in the SQL of Spark, and what to do instead in other databases."""

from __future__ import annotations

from rankql.engines.native import DIALECTS, install_command
from rankql.errors import RankqlError, did_you_mean, require_package

# Engines that people ask for.
_WITHOUT = ("databricks", "datafusion", "redshift", "trino")


def translate(query: str, dialect: str) -> str:
    """Translate a query that calls metrics from DuckDB's SQL into that of Spark.

    The metrics are written out in the SQL of the dialect. Functions and syntax that may mean
    something else there raise a RankqlError that names them. Values equal those of DuckDB to 1e-12.
    Wrong options are errors of `translate`, wrong data is an error of the translated query. Other
    databases run such queries as they are, once they have the functions: see `native_sql`.

    >>> text = translate("SELECT user, ndcg(rel, pos, 10) AS n FROM t GROUP BY user", "spark")
    >>> text.startswith("SELECT `user`, "), "ndcg(" in text
    (True, False)
    """
    if dialect in DIALECTS:
        raise RankqlError(
            f"{dialect} needs no translation: it runs SELECT ndcg(rel, pos, 10) once it has the "
            f"functions. Install them: {install_command(dialect)}"
        )
    if dialect in _WITHOUT:
        raise RankqlError(
            f"rankql has no functions for {dialect}. Use Spark or DuckDB, which read the same "
            f"tables. Available: spark, {', '.join(DIALECTS)}"
        )
    if dialect != "spark":
        raise RankqlError(
            f"unknown dialect {dialect!r}{did_you_mean(dialect, ('spark', *DIALECTS))}"
        )
    require_package("sqlglot", "dialects", f"dialect {dialect}")
    from rankql.engines.translation import translate_query

    return translate_query(query)
