"""The result of an evaluation: values per query, means by slice, and conversions."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql.errors import RankqlError, describe_unknown, did_you_mean
from rankql.evaluation.summary import attribute_column, summarise
from rankql.evaluation.weights import check_weights, describe_weights
from rankql.macros import MISSING, literal, quote
from rankql.registry.conventions import Conventions
from rankql.registry.parse import is_metric, lower_is_better, resolve_names, value_range
from rankql.results import TableResult, draw_chart, drop_idle_columns
from rankql.sources.private import private_connection
from rankql.text import format_percent, format_queries, join_words
from rankql.writing import atomic_path, output_path

if TYPE_CHECKING:
    import altair as alt


# The squares of larger values overflow.
_LARGEST = 1e150


@dataclass(eq=False, repr=False)
class Result(TableResult):
    """Values per query, and their means by system and slice.

    `per_query` has one row per query (and system), NULL if a metric is undefined; `summary`,
    which is also the `table`, one row per system, slice and metric. `result["nDCG@10"]` is the mean
    over all queries. The same values give the same summary, to the last bit. The values themselves
    may differ in the last bits if the rows of the tables come in another order.
    """

    meta: dict[str, Any]
    sql: str = ""
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interval: str | None = "auto"
    confidence: float = 0.95
    # The values per query with the other columns that the means need, in memory or in a file.
    values: pl.DataFrame | Path = field(default_factory=pl.DataFrame)
    _summary: pl.DataFrame | None = None

    @property
    def metrics(self) -> list[str]:
        """The metrics, by their canonical names."""
        return list(self.meta["metrics"])

    @property
    def catalogue_metrics(self) -> list[str]:
        """The metrics of the complete catalogue, whose values per query are pseudo-values."""
        return [name for name in self.metrics if name in self.meta.get("ranges", {})]

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions."""
        return dict(self.meta["conventions"])

    def lower_is_better(self, metric: str) -> bool:
        """Is a lower value better? By definition, or by higher_is_better=."""
        directions: dict[str, bool] = self.meta.get("higher_is_better", {})
        return not directions[metric] if metric in directions else lower_is_better(metric)

    @property
    def keys(self) -> list[str]:
        """The columns that identify a row of `per_query`."""
        return [*(["system"] if self.meta["system"] else []), self.meta["query"]]

    @property
    def per_query(self) -> pl.DataFrame:
        """The value of every metric for every query, NULL if undefined."""
        return self.frame().select(*self.keys, *self.meta["by"], *self.metrics)

    def frame(self) -> pl.DataFrame:
        """The values per query with the other columns that the means need."""
        return pl.read_parquet(self.values) if isinstance(self.values, Path) else self.values

    @property
    def summary(self) -> pl.DataFrame:
        """The means by system and slice, with their intervals and the number of queries."""
        if self._summary is None:
            with self._connection() as con:
                self._summary = summarise(con, self.meta, self.interval, self.confidence)
        return self._summary

    @property
    def table(self) -> pl.DataFrame:
        """The summary."""
        return self.summary

    def __getitem__(self, metric: str) -> float | None:
        name, *others = resolve_names(metric, self.metrics, self.conventions)
        if others or name not in self.metrics:
            raise RankqlError(f"{metric!r} was not evaluated{did_you_mean(metric, self.metrics)}")
        if self.meta["system"]:
            raise RankqlError("The result has several systems. Read their means in .summary")
        means = self.summary.filter(pl.col("metric") == name, pl.col("slice") == "all")
        return None if means.is_empty() else means["mean"][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    @property
    def caption(self) -> str:
        """The caption of the table in a notebook."""
        level = (
            ""
            if self.interval is None
            else f" with {format_percent(self.confidence)} confidence intervals"
        )
        return f"Means by metric{level}"

    def displayed(self) -> list[pl.DataFrame]:
        """The summary without attributes, because slices name them."""
        attributes = [attribute_column(name) for name in self.meta["by"]]
        return [drop_idle_columns(self.summary.drop(attributes, strict=False))]

    def remarks(self) -> list[str]:
        """The lines below the table: conventions, columns, notes."""
        tables: dict[str, list[str]] = {}
        for label, roles in self.columns.items():
            named = {
                role: f"({x})" if ", " in x and "(" not in x else x for role, x in roles.items()
            }
            used = ", ".join(f"{role} = {column}" for role, column in named.items())
            tables.setdefault(used, []).append(label)
        used = "; ".join(f"{join_words(labels)}: {used}" for used, labels in tables.items())
        conventions = f"Conventions: {Conventions(**self.conventions)}"
        columns = [f"Columns: {used}"] if used else []
        weighting = [self._weighting()] if self.meta.get("weight") else []
        return [conventions, *columns, *weighting, *super().remarks(), *self._missing_interval()]

    def _weighting(self) -> str:
        """What the weights do, in one line."""
        with self._connection() as con:
            return describe_weights(con, self.meta)

    def _missing_interval(self) -> list[str]:
        """Why no mean has an interval, if each is that of one query."""
        others = [*self.meta["weights"], *self.meta.get("ranges", ())]
        rows = self.summary.filter(~pl.col("metric").is_in(others))
        rows = rows.drop_nulls("mean")
        if self.interval is None or rows.is_empty() or rows["lo"].null_count() < len(rows):
            return []
        return ["Note: There is no confidence interval: it needs at least 2 queries"]

    def _details(self) -> dict[str, Any]:
        weight = {"weight": self.meta["weight"]} if self.meta.get("weight") else {}
        return {"conventions": self.conventions, "columns": self.columns, **weight}

    def plot(self, metric: str | None = None) -> alt.TopLevelMixin:
        """An altair chart of the means with intervals, of one metric or of all."""
        return draw_chart("charts", "plot_means", self, metric)

    def save_values(self, path: str | os.PathLike[str]) -> None:
        """Write the values per query to a Parquet file, which `combine` and `compare` read."""
        with self._connection() as con:
            self.copy(con, "FROM rows", output_path(path))

    def copy(self, con: duckdb.DuckDBPyConnection, sql: str, path: Path) -> None:
        """Write the rows of a query to a file, which appears complete or not at all."""
        meta = literal(json.dumps(self.meta, ensure_ascii=False))
        with atomic_path(path) as temporary:
            con.execute(
                f"COPY ({sql}) TO {literal(str(temporary))} "
                f"(FORMAT parquet, KV_METADATA {{rankql: {meta}}})"
            ).fetchall()
            self.values = temporary
            self.check()
        self.values = path

    def weighted_by(self, weight: str | None) -> Result:
        """The result with the means weighted by an attribute; None keeps its present weights."""
        weight = weight or self.meta.get("weight")
        if weight is None:
            return self
        if weight not in self.meta["by"]:
            known = describe_unknown("attribute", weight, self.meta["by"])
            raise RankqlError(f"weight: {known} Or evaluate with weight=")
        values = self.frame()
        numbers = values[weight].cast(pl.Float64, strict=False)
        if (wrong := values.filter(numbers.is_null() & values[weight].is_not_null())).height:
            raise RankqlError(
                f"weight: {weight} must be a number, not {wrong[weight][0]!r}, the weight of query "
                f"{wrong[self.meta['query']][0]!r}"
            )
        meta = self.meta | {"weight": weight}
        weighted = replace(self, meta=meta, values=values.with_columns(numbers), _summary=None)
        weighted.check()
        return weighted

    def check(self) -> None:
        """Refuse invalid weights, NaN, and what the conventions refuse: undefined or missing."""
        self._require_finite()
        if self.meta.get("weight"):
            with self._connection() as con:
                check_weights(con, self.meta)
        for kind in ("undefined", "missing"):
            if self.conventions[kind] == "error":
                self._refuse(kind)

    def _require_finite(self) -> None:
        """Refuse NaN, infinity and numbers whose squares overflow, of metrics without a limit."""
        unlimited = [name for name in self.metrics if value_range(name)[1] is None]
        if not unlimited:
            return
        key = quote(self.meta["query"])
        with self._connection() as con:
            for name in unlimited:
                value = f"CAST({quote(name)} AS DOUBLE)"
                wrong = f"NOT isfinite({value}) OR abs({value}) > {_LARGEST}"
                sql = f"SELECT {value}, {key} FROM rows WHERE {wrong} ORDER BY 2 LIMIT 1"
                for number, query in con.sql(sql).fetchall():
                    what = f"metrics: {name} is {number:g} for query {query!r}"
                    if is_metric(name) or math.isfinite(number):
                        raise RankqlError(
                            f"{what}, so sums overflow. Rescale the numbers that it reads"
                        )
                    raise RankqlError(
                        f"{what}, but must be a finite number, or NULL if undefined. If it divides "
                        "by 0, divide by nullif(..., 0)"
                    )

    def _refuse(self, kind: str) -> None:
        empty = " OR ".join(f"{quote(name)} IS NULL" for name in self.metrics)
        where = empty if kind == "undefined" else MISSING
        with self._connection() as con:
            key = quote(self.meta["query"])
            sql = f"SELECT DISTINCT {key} FROM rows WHERE {where} ORDER BY 1"
            queries = [row[0] for row in con.sql(sql).fetchall()]
        if queries:
            some = ", ".join(map(repr, queries[:3]))
            what = (
                "with an undefined metric"
                if kind == "undefined"
                else "with judgments but not in the run"
            )
            number = format_queries(len(queries))
            raise RankqlError(f"{number} {what}, such as {some} ({kind}='error')")

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with the view `rows`."""
        con = private_connection(threads=1)
        if isinstance(self.values, Path):
            path = literal(str(self.values))
            con.execute(f"CREATE TEMP VIEW rows AS FROM read_parquet({path})").fetchall()
        else:
            con.register("rows", self.values)
        try:
            yield con
        finally:
            con.close()


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
        """The query that computed the values."""
        return self.result.sql

    def remarks(self) -> list[str]:
        """The lines below the table: conventions, columns, notes."""
        return replace(self.result, notes=self.notes).remarks()

    def _details(self) -> dict[str, Any]:
        return self.result._details()
