"""The result of an evaluation: values per query, means by slice, and conversions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.means import Meta, summarise
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.readable import refuse_weights
from rankql.evaluation.result_checks import check_counts, count_queries, needs_counts, sum_weights
from rankql.evaluation.steps import FINGERPRINT, Steps
from rankql.macros import literal
from rankql.registry.conventions import UNDEFINED_VALUES
from rankql.results import TableResult
from rankql.sources.frames import fits_one_thread, register_frame
from rankql.sources.private import private_connection
from rankql.writing import PARQUET, STDOUT, output_path, write_file


@dataclass(eq=False, repr=False)
class Result(MeansResult):
    """Values per query, and their means by system and slice.

    `per_query` has one row per query (and system), NULL if a metric is undefined; `summary`,
    which is also the `table`, one row per system, slice and metric. `result["nDCG@10"]` is the mean
    over all queries. The same values give the same summary, to the last bit. The values themselves
    may differ in the last bits if the rows of the tables come in another order.
    """

    # The values per query with the other columns that the means need, in memory or in a file.
    values: pl.DataFrame | Path = field(default_factory=pl.DataFrame)
    _summary: pl.DataFrame | None = None
    # The named steps of the query, if `evaluate` has computed the values.
    steps: Steps | None = None
    # The values under the labels of a judge, which corrects the means.
    judge: Result | None = None

    @property
    def per_query(self) -> pl.DataFrame:
        """The value of every metric for every query, NULL if undefined."""
        # Not select(), which reads ^name$ as a pattern.
        metrics = [name for name in self.metrics if name not in self.catalogue_metrics]
        return self.frame()[[*self.keys, *self.meta.by, *metrics]]

    def frame(self) -> pl.DataFrame:
        """The values per query with the other columns that the means need."""
        return pl.read_parquet(self.values) if isinstance(self.values, Path) else self.values

    @property
    def counted(self) -> pl.Expr:
        """The number of queries in each mean, from the columns of `summary`."""
        left_out = pl.col("undefined")
        if self.conventions["undefined"] in UNDEFINED_VALUES:
            # but not in a mean over all rankings at once
            weighted = pl.col("metric").is_in(self.overall_metrics)
            left_out = pl.when(weighted).then(left_out).otherwise(0)
        return pl.col("queries") - left_out

    @property
    def means(self) -> pl.DataFrame:
        """The summary, with the columns `SKEWED` and maybe `ERROR`."""
        if self._summary is None:
            with connect(self.meta, self.values) as con:
                self._summary = summarise(con, self.meta, self.interval, self.confidence)
            if self.meta.cluster is not None and self.interval is not None:
                from rankql.evaluation.judged_values import cluster_intervals  # which needs numpy

                self._summary = cluster_intervals(self, self._summary)
            if self.judge is not None:
                from rankql.evaluation.judged_values import correct_summary  # which needs numpy

                self._summary = correct_summary(self, self.judge, self._summary)
        return self._summary

    def _slices(self, group: list[str]) -> pl.DataFrame:
        """The summary with only the slices by these attributes."""
        return self.derive(meta=replace(self.meta, groupings=[group])).summary

    def weight_sums(self) -> dict[str, Any]:
        """Sums of the weights of the queries."""
        with connect(self.meta, self.values) as con:
            return sum_weights(con, self.meta)

    def fingerprint(self) -> str | None:
        """The sum of the hashes of the judgments, which are read again; None if not known.

        Results with different judgments have different ones. 10M judgments take 0.2 s.
        """
        if self.meta.fingerprint or not self.meta.judgments or self.steps is None:
            return self.meta.fingerprint
        try:
            (number,) = self.steps.run("qrels", FINGERPRINT).rows()
        except (RankqlError, duckdb.Error):  # the tables are gone
            return None
        return str(number[0])

    def save_values(self, path: str | os.PathLike[str]) -> None:
        """Write the values per query to a Parquet file, which `combine` and `compare` read."""
        if self.judge is not None:
            raise RankqlError("Values per query cannot be saved with judge=. Save the means")
        meta = replace(self.meta, fingerprint=self.fingerprint())
        write_values(meta, self.frame(), output_path(path, PARQUET, self.input_paths))

    def weighted_by(self, weight: str | None) -> Result:
        """The result with the means weighted by an attribute; None keeps its present weights."""
        weight = weight or self.meta.weight
        if weight is None:
            return self
        refuse_weights(self.catalogue_metrics, weight)
        if weight not in self.meta.by:
            known = describe_unknown("attribute", weight, self.meta.by)
            raise RankqlError(f"weight: {known} For another column, evaluate with weight=")
        weighted = self.derive(meta=replace(self.meta, weight=weight)).with_numeric_weights()
        check_values(weighted.meta, weighted.values)
        return weighted

    def derive(self, **changes: Any) -> Result:
        """A result with other fields, whose means are computed again."""
        return replace(self, _summary=None, **changes)

    def with_numeric_weights(self) -> Result:
        """The result with its weights as numbers. Refuses other values."""
        weight, values = self.meta.weight, self.frame()
        assert weight
        numbers = values[weight].cast(pl.Float64, strict=False)
        if (wrong := values.filter(numbers.is_null() & values[weight].is_not_null())).height:
            raise RankqlError(
                f"weight: {weight} must be a number, not {wrong[weight][0]!r}, the weight of query "
                f"{wrong[self.meta.query][0]!r}"
            )
        return self.derive(values=values.with_columns(numbers))


@contextmanager
def connect(meta: Meta, values: pl.DataFrame | Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with values per query as the view `rows`."""
    # DuckDB adds up several grouping sets in any order.
    several = bool(meta.groupings)
    ordered = not isinstance(values, Path) and not several and fits_one_thread(values)
    con = private_connection(None if ordered else 1)
    if isinstance(values, Path):
        path = literal(str(values))
        con.execute(f"CREATE TEMP VIEW rows AS FROM read_parquet({path})").fetchall()
    else:
        register_frame(con, "rows", values)
    try:
        yield con
    finally:
        con.close()


def check_values(meta: Meta, values: pl.DataFrame | Path) -> None:
    """Refuse invalid weights, NaN, and what the conventions refuse: undefined or missing."""
    if needs_counts(meta):
        with connect(meta, values) as con:
            check_counts(meta, count_queries(con, meta))


def write_values(meta: Meta, values: pl.DataFrame, path: Path) -> pl.DataFrame | Path:
    """Write values per query to a file, which appears complete or not at all; return their place.

    Refuses values that `check_values` refuses.
    """
    from pyarrow import parquet

    kept = {"rankql": json.dumps(meta.as_dict(), ensure_ascii=False)}
    with write_file(path) as temporary:
        table = values.to_arrow(compat_level=pl.CompatLevel.oldest())
        parquet.write_table(table.replace_schema_metadata(kept), temporary)
        check_values(meta, temporary)
        return pl.read_parquet(temporary) if path == STDOUT else path


class EvaluatedTable(TableResult):
    """A table about the values of a `Result`."""

    result: Result

    @property
    def summary(self) -> pl.DataFrame:
        """The means by system and slice, with their intervals and the number of queries."""
        return self.result.summary

    @property
    def per_query(self) -> pl.DataFrame:
        """The value of every metric for every query, NULL if undefined."""
        return self.result.per_query

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions."""
        return self.result.conventions

    @property
    def sql(self) -> str:
        """The query that gives the values."""
        return self.result.sql

    def remarks(self) -> list[str]:
        """The lines below the table: conventions, columns, notes."""
        return replace(self.result, notes=self.notes).long().remarks()

    def _details(self) -> dict[str, Any]:
        return self.result._details()
