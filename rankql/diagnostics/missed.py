"""The relevant items that a metric misses: below its cutoff, or never retrieved."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import RankqlError
from rankql.core.base.writing import STDOUT, output_path, write_file
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query.ctes import ranking_ctes, source_ctes, with_ctes
from rankql.core.evaluation.result.result import EvaluatedTable, Result
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.private import create_macros
from rankql.core.tables.reader import fetch_frame

# The formats of files.
_FORMATS = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER"}


@dataclass(eq=False, repr=False)
class Missed(EvaluatedTable):
    """The result of `explain(missed=True)`.

    `table` has a row per query, system and relevant item that the metric misses: its grade, and its
    place in the ranking, below the cutoff, which is NULL only if it was never retrieved.
    """

    metric: str
    result: Result
    query_sql: str
    # The rows, or the file that has them.
    rows: pl.DataFrame | Path
    # The last position that counts.
    k: int | None = None
    # Rows that are displayed.
    most: int = 10
    _has_ids = True
    _details = ("metric", "k", *EvaluatedTable._details)

    @property
    def table(self) -> pl.DataFrame:
        """All rows, by query and item; of a file that was written, read from it."""
        return self._scan().collect()

    @property
    def sql(self) -> str:
        """The query that gives the rows."""
        return self.query_sql

    @property
    def notes(self) -> list[str]:
        """Warnings and remarks, and how to see all rows if some are not displayed."""
        count = self._scan().select(pl.len()).collect().item()
        first = f"The first {self.most:,} of {count:,} items are shown: "
        first += "output= writes all to a file, and .table has them"
        return [*self.result.notes, *[first] * (count > self.most)]

    @property
    def title(self) -> str:
        """How many items are missed, and where they are."""
        counts = self._scan().select(n=pl.len(), placed=pl.col("place").count())
        n, placed = counts.collect(engine="streaming").row(0)
        start = f"{self.metric} misses {text.format_count(n, 'relevant item')}"
        if not n:
            return f"{self.metric} misses no relevant item"
        if self.k is None:
            return f"{start}, never retrieved"
        return f"{start}: {placed:,} below position {self.k}, {n - placed:,} never retrieved"

    def displayed(self) -> list[pl.DataFrame]:
        """The first rows."""
        return [self._scan().head(self.most).collect()]

    def _scan(self) -> pl.LazyFrame:
        if isinstance(self.rows, pl.DataFrame):
            return self.rows.lazy()
        scan = pl.scan_parquet if self.rows.suffix.lower() == ".parquet" else pl.scan_csv
        return scan(self.rows)


def find_missed(
    evaluation: Evaluation, result: Result, output: str | os.PathLike[str] | None, most: int
) -> Missed:
    """The missed items of all queries and systems. With `output`, DuckDB writes them to a file."""
    session, inputs, (metric,) = evaluation.session, evaluation.inputs, evaluation.metrics
    query = quote(evaluation.make_meta().query)
    # Items beyond the cutoff keep their positions.
    steps = source_ctes(inputs, evaluation.conventions)
    without_cutoff = [replace(metric, k=None)]
    steps |= ranking_ctes(inputs, without_cutoff, evaluation.conventions, "all")
    judged = "" if inputs.qrels is None else f"SEMI JOIN queries USING ({inputs.keys})"
    below = "pos IS NULL" if metric.k is None else f"(pos IS NULL OR pos > {metric.k})"
    system = ["system"] if inputs.many else []
    sql = f"""{with_ctes(steps)}
SELECT {", ".join([f"query AS {query}", *system, "item", "rel AS grade"])},
    CAST(pos AS BIGINT) AS place
FROM ranked {judged} WHERE {evaluation.is_relevant(metric)} AND {below}
ORDER BY {", ".join(["query", *system, "item"])}"""
    missed = Missed(metric.name, result, sql, pl.DataFrame(), metric.k, most)
    if output is None:
        missed.rows = fetch_frame(session, sql)
        return missed
    path = output_path(output)
    suffix = ".csv" if path == STDOUT else path.suffix.lower()
    if suffix not in _FORMATS:
        known = " or ".join(_FORMATS)
        raise RankqlError(f"output={str(path.name)!r}: cannot write {suffix or 'it'}. Use {known}")
    with write_file(path) as temporary:
        rows, target = create_macros(session.con, sql), literal(str(temporary))
        session.con.execute(f"COPY ({rows}) TO {target} ({_FORMATS[suffix]})")
        missed.rows = pl.read_csv(temporary) if path == STDOUT else path
    return missed
