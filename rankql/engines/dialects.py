"""SQL dialects supported by `translate`."""

from __future__ import annotations

from collections.abc import Sequence

from rankql.engines.window_engines import ENGINES
from rankql.errors import RankqlError, did_you_mean, require_package

DIALECTS = ("clickhouse", "spark", *(name for name in ENGINES if name != "duckdb"))


def translate(query: str, dialect: str) -> str:
    """Translate a query that calls metrics from DuckDB's SQL into another dialect.

    The metrics are written out in the SQL of the dialect. Functions and syntax that may mean
    something else there raise a RankqlError that names them. Values equal those of DuckDB to 1e-12.
    Wrong options are errors of `translate`, wrong data is an error of the translated query.

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
    """CREATE FUNCTION statements for the metrics, which only ClickHouse supports."""
    if dialect in DIALECTS and dialect != "clickhouse":
        raise RankqlError(f"{dialect} does not support functions. Pass the query to translate.")
    _require_dialect(dialect, ["clickhouse"])
    from rankql.engines import clickhouse_functions as clickhouse

    return clickhouse.create_clickhouse_functions()


def _require_dialect(dialect: str, known: Sequence[str]) -> None:
    if dialect not in known:
        raise RankqlError(f"unknown dialect {dialect!r}{did_you_mean(dialect, known)}")
    require_package("sqlglot", "dialects", f"dialect {dialect}")
