"""The result of an evaluation: values per query, means by slice, and conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rankql.core.base import errors, writing
from rankql.core.base.doors import call_extra
from rankql.core.base.manifest import format_manifest, hash_numbers
from rankql.core.base.results import Chart, TableResult, draw_chart
from rankql.core.base.text import Note, format_queries, join_words
from rankql.core.evaluation.means.means import summarise, summarise_few, values_sql
from rankql.core.evaluation.plan.meta import MISSED, Meta, left_out_if
from rankql.core.evaluation.query.readable import refuse_weights
from rankql.core.evaluation.query.script import Steps
from rankql.core.evaluation.result.means_result import MeansResult, make_wide_table
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.core.metrics.parse import value_range
from rankql.core.tables.frames import fetch_rows, register_frame
from rankql.core.tables.private import private_connection

# DuckDB reads up to this many rows with one thread.
ONE_CHUNK = 2048
# The squares of larger values overflow.
_LARGEST = 1e150
# An error names so many runs.
_REFUSED = 3
# A weight that is more than this times the sum of all others leaves nothing of them in a sum. It is
# a number of sql/weights.sql too.
MOST_ODDS = 1e10
WEIGHT_SUMS = {
    "most": "max(weight)",
    "least": "min(weight) FILTER (WHERE weight > 0)",
    "total": "fsum(weight)",
    "queries": "count(*)",
    "idle": "count(*) FILTER (WHERE weight = 0)",
    "undefined": "count(*) FILTER (WHERE weight > 0 AND NOT defined)",
    "defined": "fsum(weight) FILTER (WHERE defined)",
    "squares": "fsum(weight * weight) FILTER (WHERE defined)",
}


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

    @property
    def per_query(self) -> pl.DataFrame:
        """The value of every metric for every query, NULL if undefined or missing and left out."""
        metrics = [name for name in self.metrics if name not in self.catalogue_metrics]
        frame = self.frame()
        for name in metrics if frame[MISSING].any() else ():
            if left_out_if(name, self.conventions) == MISSED:
                frame = frame.with_columns(frame[name].set(frame[MISSING], None))
        # Not select(), which reads ^name$ as a pattern.
        return frame[[*self.keys, *self.meta.by, *metrics]]

    def _as_paper(self) -> TableResult:
        """Of many systems and slices by one attribute, a row for each system."""
        if not (across := find_paper_columns(self)):
            return self
        view = make_wide_table(self, self.systems, False, across=across, source=self)
        return replace(view, caption=name_means(self))

    def frame(self) -> pl.DataFrame:
        """The values per query with the other columns that the means need."""
        return pl.read_parquet(self.values) if isinstance(self.values, Path) else self.values

    @property
    def means(self) -> pl.DataFrame:
        """The summary, with the columns `SKEWED`, `COUNTED` and maybe `ERROR`."""
        if self._summary is None:
            anytime = self.interval == "anytime"
            options = None if anytime else self.interval, self.confidence
            if isinstance(self.values, pl.DataFrame):
                self._summary = summarise_few(self.meta, self.values, *options)
            if self._summary is None:
                with connect(self.meta, self.values) as con:
                    self._summary = summarise(con, self.meta, *options)
            clustered = self.meta.cluster is not None and self.interval is not None
            if clustered or anytime or self.judge is not None or self.meta.mean:
                from rankql.core.evaluation.result.system_values import correct_summary

                self._summary = correct_summary(self, self._summary)
            if self.meta.collections:
                places = self._summary.select("system", "slice").rows()
                known = pl.Series(
                    [not self.meta.lacks(*place) for place in places], dtype=pl.Boolean
                )
                numbers = ("mean", "lo", "hi")
                self._summary = self._summary.with_columns(pl.when(known).then(pl.col(numbers)))
        return self._summary

    @property
    def method(self) -> str:
        """How wide an anytime interval is, and what it needs; '' of others."""
        if self.interval != "anytime":
            return ""
        results = self, self.derive(interval="auto")
        width, fixed = ((x.means["hi"] - x.means["lo"])[0] or 0.0 for x in results)
        means = self.means.height
        width_text = call_extra("describe anytime", self.meta.time, width, fixed, means)
        return f"intervals by betting, {width_text}"

    def _slices(self, groupings: list[list[str]]) -> pl.DataFrame:
        """The means with only the slices by these attributes."""
        return self.derive(groupings=groupings).means

    def weight_sums(self) -> dict[str, Any]:
        """Sums of the weights of the queries."""
        with connect(self.meta, self.values) as con:
            return sum_weights(con, self.meta)

    def fingerprint(self) -> str | None:
        """The sum of the hashes of the grades, which are read again; None if not known.

        Results with different judgments, or with other grades of their own, have different ones.
        """
        labels = ["qrels"] if self.meta.judgments else [x for x in self.columns if x[:3] == "run"]
        return None if self.meta.judgments is None else self._recorded(*labels).fingerprint

    def _recorded(self, *only: str) -> Meta:
        """What the result must know, with the tables, which are read again; without if not known.

        only: the labels of the tables.
        """
        meta = self.meta
        if not meta.tables and self.steps is not None:
            with suppress(errors.RankqlError, duckdb.Error):  # the tables are gone
                tables = self.steps.read(partial(call_extra, "record tables", only=only))
                meta = replace(meta, tables=tables)
        if self.judge is not None and meta.call:
            judge = self.judge._recorded("qrels")
            inputs = {**meta.call["inputs"], "judge": judge.call["inputs"]["qrels"]}
            tables = meta.tables | {"judge": judge.tables.get("qrels", {})}
            meta = replace(meta, tables=tables, call={**meta.call, "inputs": inputs})
        return meta

    def manifest(self, **frames: pl.DataFrame) -> dict[str, Any] | None:
        """What the result was computed from, with its numbers, for `verify`; None if not known.

        frames: more numbers than the means.
        """
        meta = self._recorded()
        if not meta.call or "rows" not in next(iter(meta.tables.values()), {}):
            return None
        options = {**meta.call["options"], "confidence": self.confidence, "weight": meta.weight}
        if "interval" in options and self.meta.call["function"] == "evaluate":
            options["interval"] = self.interval
        call = {**meta.call, "options": options}
        frames = {"means": self.summary, **frames}
        values = {table: call_extra("list values", rows) for table, rows in frames.items()}
        numbers = {f"{x}: {name}": y for x, of in values.items() for name, y in of.items()}
        hashes = {
            table: "".join(
                hash_numbers(call_extra("list values", rows.filter(metric=x))) for x in self.metrics
            )
            for table, rows in frames.items()
        }
        usual = Conventions().as_dict()
        changed = {x: y for x, y in meta.conventions.items() if y != usual.get(x)}
        return asdict(replace(meta, call=call)) | {
            "hash": call_extra("hash function"), "numbers": numbers, "hashes": hashes,
            "changed": changed,
        }  # fmt: skip

    def save_values(self, path: str | os.PathLike[str]) -> None:
        """Write the values per query to a Parquet file, which `combine` and `compare` read."""
        if self.judge is not None:
            raise errors.RankqlError("Values per query cannot be saved with judge=. Save the means")
        path = writing.output_path(path, writing.PARQUET, self.input_paths)
        write_values(self._recorded(), self.frame(), path)

    def weighted_by(self, weight: str | None) -> Result:
        """The result with the means weighted by an attribute; None keeps its present weights."""
        weight = weight or self.meta.weight
        if weight is None:
            return self
        refuse_weights(self.catalogue_metrics, weight)
        if weight not in self.meta.by:
            known = errors.describe_unknown("attribute", weight, self.meta.by)
            raise errors.RankqlError(f"weight: {known} For another column, evaluate with weight=")
        weighted = self.derive(weight=weight).with_numeric_weights()
        check_values(weighted.meta, weighted.values)
        return weighted

    @errors.name_arguments
    def plot(self, metric: str | None = None, kind: str = "means") -> Chart:
        """An altair chart of the means with intervals, of one metric or of all.

        With kind="distribution", of the values per query: by system, or by slice of one system.
        """
        if kind == "means":
            return super().plot(metric)
        errors.require_choice("kind", kind, "means", "distribution")
        return draw_chart("plot_distribution", self, metric)

    def derive(self, **changes: Any) -> Result:
        """A result with other fields, or fields of `meta`, whose means are computed again."""
        of_meta = {name: changes.pop(name) for name in changes.keys() & vars(self.meta)}
        meta = replace(changes.pop("meta", self.meta), **of_meta)
        return replace(self, meta=meta, _summary=None, **changes)

    def without_judge(self) -> Result:
        """The result of the human labels alone."""
        return self.derive(judge=None)

    def with_numeric_weights(self) -> Result:
        """The result with its weights as numbers. Refuses other values."""
        weight, values = self.meta.weight, self.frame()
        assert weight
        numbers = values[weight].cast(pl.Float64, strict=False)
        if (wrong := values.filter(numbers.is_null() & values[weight].is_not_null())).height:
            raise errors.RankqlError(
                f"weight: {weight} must be a number, not {wrong[weight][0]!r}, the weight of query "
                f"{wrong[self.meta.query][0]!r}"
            )
        return self.derive(values=values.with_columns(numbers))


@contextmanager
def connect(meta: Meta, values: pl.DataFrame | Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with values per query as the view `rows`."""
    # One thread reads few rows. DuckDB adds up several grouping sets in any order.
    one = not isinstance(values, Path) and values.height <= ONE_CHUNK and values.n_chunks() <= 1
    ordered = one and not meta.groupings
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
    if meta.weight or _unlimited(meta) or _refused(meta):
        with connect(meta, values) as con:
            check_counts(meta, count_queries(con, meta))


def _refused(meta: Meta) -> list[str]:
    """What the conventions refuse."""
    return [kind for kind in ("undefined", "missing") if meta.conventions[kind] == "error"]


def _unlimited(meta: Meta) -> list[str]:
    """The metrics without an upper limit."""
    return [name for name in meta.metrics if value_range(name)[1] is None]


def count_queries(con: duckdb.DuckDBPyConnection, meta: Meta) -> dict[str, Any]:
    """The counts of the values in `rows`. Refuses NaN and a weight that cannot be one.

    Partitions count their queries separately, and Spark adds them up.
    """
    require_finite(con, meta, _unlimited(meta))
    weights = {"weights": sum_weights(con, meta)} if meta.weight else {}
    # Of each system the number of queries that are undefined or missing, and the first of them.
    system = "system" if meta.system else "NULL"
    queries = f"SELECT DISTINCT {system} AS of, query FROM ({values_sql(meta)}) WHERE"
    counts = "SELECT of, count(*), min(query, 3)"
    refused = {
        kind: fetch_rows(con, f"{counts} FROM ({queries} {kind}) GROUP BY of ORDER BY of")
        for kind in _refused(meta)
    }
    return weights | {kind: {x: row for x, *row in rows} for kind, rows in refused.items()}


def require_finite(
    con: duckdb.DuckDBPyConnection, meta: Meta, metrics: Sequence[str], label: str = "metrics"
) -> None:
    """Refuse NaN, infinity, and values whose squares overflow."""
    unit = "row" if meta.query.startswith(INTERNAL_PREFIX) else "query"
    for name in metrics:
        value = f"CAST({quote(name)} AS DOUBLE)"
        wrong = f"NOT isfinite({value}) OR abs({value}) > {_LARGEST}"
        sql = f"SELECT {value}, {quote(meta.query)} FROM rows WHERE {wrong} ORDER BY 2 LIMIT 1"
        for number, query in fetch_rows(con, sql):
            raise errors.RankqlError(
                f"{label}: {name} is {number:g} for {unit} {query!r}, but must be a finite number "
                f"up to {_LARGEST:g}, or NULL if undefined. Divide by nullif(..., 0), or rescale "
                "what it reads"
            )


def check_counts(meta: Meta, counts: Mapping[str, Any]) -> None:
    """Refuse weights that leave no mean, and what the conventions refuse: undefined or missing."""
    sums = counts.get("weights", {})
    most, least = sums.get("most"), sums.get("least") or 1
    if most is not None:
        of = f"weight: {meta.weight} is"
        errors.require(most != 0, f"{of} 0 for every query. Name a column with weights above 0")
        far = f"{of} {most if most > 1e100 else least:g}, but must be 0 or from 1e-100 to 1e100"
        ratios = f"{far}. Only ratios matter: divide all by one number"
        errors.require(not (most > 1e100 or least < 1e-100), ratios)
        others = sums["queries"] - sums["idle"] > 1
        much = f"{of} {most:g} for one query, over {MOST_ODDS:.0e} times as much as for all others"
        alone = f"{much} together, so only this query counts. Correct its weight"
        errors.require(not (others and most > MOST_ODDS * (sums["total"] - most)), alone)
    for kind, what in (
        ("undefined", "with an undefined metric in"),
        ("missing", "with judgments but not in"),
    ):
        problems = [
            f"{format_queries(count)} {what} {'the run' if system is None else repr(system)}, "
            f"such as {', '.join(map(repr, examples))}"
            for system, (count, examples) in counts.get(kind, {}).items()
        ]
        errors.require(not problems, f"{'; '.join(problems[:_REFUSED])} ({kind}='error')")


def sum_weights(con: duckdb.DuckDBPyConnection, meta: Meta) -> dict[str, Any]:
    """Sums of the weights of the queries. Refuses weights that are NULL, negative or infinite."""
    # An undefined value weighs in a mean over all queries at once.
    defined = "bool_or(NOT left_out AND (micro OR value IS NOT NULL))"
    columns = f"query AS key, query_weight AS weight, {defined} AS defined"
    rows = f"SELECT {columns} FROM ({values_sql(meta)}) GROUP BY ALL HAVING NOT bool_and(left_out)"
    wrong = "weight IS NULL OR NOT isfinite(weight) OR weight < 0"
    sql = f"SELECT key, weight FROM ({rows}) WHERE {wrong} ORDER BY key LIMIT 1"
    for query, value in fetch_rows(con, sql):
        number = "NULL" if value is None else f"{value:g}"
        raise errors.RankqlError(
            f"weight: {meta.weight} is {number} for query {query!r}. A weight must be a finite "
            "number from 0. Give every query one, for example in attributes="
        )
    (sums,) = con.execute(f"SELECT {', '.join(WEIGHT_SUMS.values())} FROM ({rows})").fetchall()
    return dict(zip(WEIGHT_SUMS, sums, strict=True))


def write_values(meta: Meta, values: pl.DataFrame, path: Path) -> pl.DataFrame | Path:
    """Write values per query to a file, which appears complete or not at all; return their place.

    Refuses values that `check_values` refuses.
    """
    metadata = {"rankql": format_manifest(asdict(meta) | {"hash": call_extra("hash function")})}
    with writing.write_file(path) as temporary:
        values.write_parquet(temporary, metadata=metadata)
        check_values(meta, temporary)
        return pl.read_parquet(temporary) if path == writing.STDOUT else path


# Columns of more systems are wider than a page.
MANY_SYSTEMS = 4


def find_paper_columns(result: Result) -> list[str]:
    """The columns of a table with a row for each of many systems: an attribute, metrics and all."""
    groupings = result.meta.groupings
    one = len(groupings) == 1 == len(groupings[0]) and len(result.systems) > MANY_SYSTEMS
    return [*groupings[0], "metric", "all"] if one and not result.meta.collections else []


def name_means(result: Result) -> str:
    """The caption of a table of a paper: the metrics, the number of queries, and the judgments."""
    queries = format_queries(max(result.summary["queries"], default=0))
    data = result.meta.call.get("inputs", {}).get("qrels", "")
    return f"Means of {join_words(result.metrics)} on {queries}{f' of {data}' * bool(data)}"


class EvaluatedTable(TableResult):
    """A table about the values of a `Result`."""

    result: Result
    _details: Sequence[str] = ("result.conventions", "result.columns", "result.meta.weight?")

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

    def remarks(self) -> list[Note]:
        """The lines below the table: method, queries, conventions, columns, notes."""
        method = [Note(self.method, heading="Method")] * bool(self.method)
        return [*method, *replace(self.result, data_notes=self.notes).long().remarks()]
