"""`rankql.spark.evaluate`: tables are shuffled by query, and DuckDB evaluates each partition.

The values per query stay in Spark, in a `SparkResult`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Unpack

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import NumericType

from rankql.core.base.errors import EqualRows, RankqlError, require
from rankql.core.base.text import Note, join_words
from rankql.core.evaluation.means import means
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import MISSED, Meta, left_out_if
from rankql.core.evaluation.plan.plan import plan_metrics, resolve_conventions
from rankql.core.evaluation.plan.pooling import reads_unshown
from rankql.core.evaluation.result.means_result import MeansResult
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.macros import MISSING, quote
from rankql.core.metrics.parse import parse
from rankql.core.metrics.profiles import entry, tool_of
from rankql.core.tables import request
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.numbers.values import (
    EQUAL_ROWS,
    MOST_EQUAL,
    describe_equal_rows,
    highest_share,
)
from rankql.core.tables.private import private_connection
from rankql.core.tables.request import DEFAULT_METRICS, EvaluationOptions
from rankql.core.tables.session import open_session
from rankql.engines import partitions
from rankql.engines.partitions import COUNTER, IDS, TEXT

# The options of `rankql.evaluate` for rows that are not as Spark has them.
_NOT_IN_SPARK = (
    *("order", "collapse", "positions", "forbidden", "groups", "columns", "part"),
    "ignore_identical_ids",
)


@dataclass(eq=False, repr=False, kw_only=True)
class SparkResult(MeansResult):
    """Means by system and slice of values per query that stay in Spark.

    It is printed, saved and converted like a `Result`. `per_query` is a Spark DataFrame, and
    `collect()` the `Result` with all values in memory, which `compare`, `gate` and `combine` need.
    Partitions are added up in their order. Other partitions can change the last bits of the means.
    """

    # The summary, with the columns SKEWED and COUNTED.
    means: pl.DataFrame
    # The values per query with the other columns that the means need.
    values: DataFrame
    # The sums of the weights, and what else all queries together must pass.
    counts: dict[str, Any] = field(default_factory=dict)

    @property
    def per_query(self) -> DataFrame:
        """The value of every metric for every query, as a Spark DataFrame.

        It is NULL if undefined, or if the query is missing and left out.
        Nothing is computed before an action, and every action evaluates all rankings again: write
        the values to a table, or call `.cache()`. The rows are not sorted.
        """
        names = (*self.keys, *self.meta.by, *self.metrics)
        columns = {name: _column(name) for name in names}
        for name in self.metrics:
            if left_out_if(name, self.conventions) == MISSED:
                columns[name] = F.when(~_column(MISSING), columns[name]).alias(name)
        return self.values.select(*columns.values())

    def collect(self) -> Result:
        """Evaluate again, and bring the values of all queries into the memory of the driver."""
        values = pl.DataFrame(self.values.toArrow()).sort(self.keys, nulls_last=True)
        kept = ("meta", "_script", "columns", "data_notes", "interval", "confidence")
        return Result(**{name: getattr(self, name) for name in kept}, values=values)

    def weight_sums(self) -> dict[str, Any]:
        """Sums of the weights of the queries."""
        return dict(self.counts["weights"])

    def _missing_interval(self) -> list[str]:
        if self.meta.weight and self.interval is not None:
            why = "because it needs the values of all queries. result.collect() has it"
            return [f"Weighted means have no confidence interval in Spark, {why}"]
        return super()._missing_interval()


def evaluate_in_spark(
    run: DataFrame | Mapping[str, DataFrame],
    qrels: DataFrame | None = None,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: DataFrame | None = None,
    weight: str | None = None,
    interval: str | None = "auto",
    confidence: float = 0.95,
    memory: str = "1GB",
    **options: Unpack[EvaluationOptions],
) -> SparkResult:
    """`rankql.evaluate` for Spark DataFrames: the same arguments, conventions, errors and means.

    Runs, judgments and attributes are shuffled by query, and DuckDB evaluates each partition on its
    executor, which needs rankql. The values per query stay there: only sums by slice and metric
    come back. `.per_query` is a Spark DataFrame, and `.collect()` a `Result` in memory, which
    `compare` and `gate` need. Both evaluate again.

    A Python worker holds the rows of a partition in memory; DuckDB uses `memory` in addition before
    it writes to disk. spark.sql.shuffle.partitions sets the number of partitions; Spark combines
    small ones. ties='order' raises an error, because a shuffle does not keep the order of rows.
    interval='t' with `weight` does too: it needs the values.

    >>> rankql.spark.evaluate(run, qrels, ["nDCG@10", "AP"], by="segment")  # doctest: +SKIP
    """
    means.require_interval(interval, confidence)
    require(
        interval != "t" or weight is None,
        "interval='t' of weighted means needs the values of all queries, which stay in Spark. "
        "Leave out interval=, then call rankql.combine([result.collect()], interval='t')",
    )
    writes = "Write the values there: result.per_query.write.parquet(path)"
    require("output" not in options, f"output= is not supported in Spark. {writes}")
    for name in _NOT_IN_SPARK:
        require(not options.get(name), f"{name}= is not supported in Spark. Leave it out")
    rules, groups = request.RankingRules.of(options, evaluate_in_spark), request.parse_groupings(by)
    is_ordered = rules.conventions.ties == "order"
    require(not is_ordered, "ties='order' is not supported in Spark, where rows have no order.")
    if rules.pool:
        raise _describe_join("pool=True is not supported in Spark", rules.columns)
    runs = dict(run) if isinstance(run, Mapping) else {None: run}
    others = {"qrels": qrels, "attributes": attributes}
    frames = {partitions.table_label(name): frame for name, frame in runs.items()}
    frames |= {label: frame for label, frame in others.items() if frame is not None}
    for label, frame in frames.items():
        is_frame, kind = hasattr(frame, "asTable"), type(frame).__name__
        require(is_frame, f"{label} must be a Spark DataFrame, not {kind}.")
    attached = [*groups, *([] if weight is None else [[weight]])]
    profile = rules.conventions.profile
    asked, tool = parse(metrics, profile), tool_of(profile)
    reasons = ["it removes items with the id of the query"] * bool(rules.ignore_identical_ids)
    for name, record in ((metric.name, metric.record) for metric in asked):
        limits = tool.limits.values() if record else ()
        reasons += [entry(limit, name, record.name if record else "") for limit in limits]
    reason = next(filter(None, reasons), "")
    require(not reason, f"conventions={profile!r} is not supported in Spark: {reason}")
    task = partitions.Task([*runs], rules, attached, asked, memory)
    with open_session(None) as session:
        empty = {x: to_arrow_schema(frame.schema).empty_table() for x, frame in frames.items()}
        inputs = task.read_inputs(session, empty)
        _refuse_computed(inputs)
        graded = {t.label: _grades(frames[t.label], inputs, task) for t in inputs.judging}
        sample = {label: graded.get(label, none) for label, none in empty.items()}
        inputs = task.count_unjudged(session, task.read_inputs(session, sample))
        evaluation = Evaluation(session, inputs, rules.conventions, asked, groupings=groups)
        plan = plan_metrics(resolve_conventions(evaluation))
        meta = replace(plan.make_meta(), weight=weight)
    names = [*meta.catalogue] or [metric.name for metric in plan.metrics if metric.shown]
    require(
        not names,
        f"{', '.join(names)}: metrics of all rankings together are not supported in Spark, where "
        "no partition has them all. Use rankql.evaluate",
    )
    systems: Sequence[str] = ()
    if inputs.system is not None:
        found = frames["run"].select(_column(inputs.system).cast("string")).distinct().collect()
        systems = tuple(sorted(row[0] for row in found if row[0] is not None))
    alone = rules.pool is None and inputs.qrels is None and len(systems or runs) > 1
    unshown = [x.name for x in plan.metrics if alone and reads_unshown(x, vars(plan.conventions))]
    if unshown:
        what = f"{join_words(unshown[:3])}: several systems have grades of their own"
        raise _describe_join(what, inputs.run_of(None).roles)
    rules = replace(rules, conventions=plan.conventions)
    task = replace(task, rules=rules, metrics=plan.metrics, systems=systems, meta=meta)
    rows, labels = _union_by_query(frames, inputs), [table.label for table in inputs.tables]
    values = _distribute(rows, labels, task, partitions.evaluate_partition, empty)
    counted = _distribute(rows, labels, task, partitions.count_partition, empty)
    with _workers_with_rankql():
        moments, totals = _add_up(counted, meta)
    try:
        notes = partitions.describe_totals(plan, meta, totals)
    except EqualRows as error:
        tables: dict[str, Any] = {"run": run, "qrels": qrels}
        tables[error.source], note = _drop_equal(tables[error.source], error)
        tables |= {"by": by, "attributes": attributes, "weight": weight, "interval": interval}
        more: Any = {"metrics": metrics, "confidence": confidence, "memory": memory, **options}
        result = evaluate_in_spark(**tables, **more)
        return replace(result, data_notes=[note, *result.data_notes])
    with private_connection(threads=1) as con:
        con.register("groups", moments)
        summary = means.summarise(con, meta, interval, confidence, "groups")
    return SparkResult(
        meta=meta,
        _script=plan.script.sql,
        columns=plan.columns,
        data_notes=notes,
        interval=interval,
        confidence=confidence,
        means=summary,
        values=values,
        counts=totals.values(),
    )


def _describe_join(what: str, names: Mapping[str, Any]) -> RankqlError:
    """The error about grades of several runs, with the judgments to pass."""
    query, item, rel = (names.get(x) or x for x in ("query", "item", "rel"))
    rows = f"run.select({query!r}, {item!r}, {rel!r}).where({f'{rel} IS NOT NULL'!r}).distinct()"
    remedy = f"Pass pool=False, or the rows of all runs as judgments: qrels={rows}"
    return RankqlError(f"{what}. {remedy}")


@contextmanager
def _workers_with_rankql() -> Iterator[None]:
    """Name what is missing where Spark's workers have no rankql, instead of a trace of Java."""
    try:
        yield
    except Exception as error:
        if "No module named 'rankql" not in str(error):
            raise
        context = SparkContext._active_spark_context
        python = "python3" if context is None else context.pythonExec
        lacks = f"rankql is not installed for the Python of Spark's workers ({python})"
        remedy = "Install it there, or start Spark with PYSPARK_PYTHON set to a Python that has it"
        raise RankqlError(f"{lacks}. {remedy}, such as {sys.executable}") from None


def _drop_equal(data: Any, error: EqualRows) -> tuple[Any, Note]:
    """The frames of the run or of the judgments without rows that are equal to another one."""
    frames = dict(data) if isinstance(data, Mapping) else {None: data}
    once = {name: frame.distinct() for name, frame in frames.items()}
    rows = {name: frame.count() for name, frame in frames.items()}
    more = {name: n - once[name].count() for name, n in rows.items()}
    share, left = highest_share(zip(rows.values(), more.values(), strict=True)), sum(more.values())
    if not 0 < share <= MOST_EQUAL:
        drop = f". {error.source}.distinct() drops rows that are equal in all columns" * bool(left)
        raise RankqlError(f"{error.text}{drop}") from None
    note = Note(describe_equal_rows(left), heading=error.source, kind=EQUAL_ROWS)
    return (once if isinstance(data, Mapping) else once[None]), note


def _column(name: str) -> Column:
    """The column of a name, which may hold dots and backticks."""
    return F.col(quote(name, "`"))


def _add_up(counted: DataFrame, meta: Meta) -> tuple[pl.DataFrame, partitions.Totals]:
    """The moments by system, slice and metric, and the counters, in one action of Spark."""
    attributes, systems = means.sliced_attributes(meta), means.system_columns(meta)
    keys = [COUNTER, "system", "i"]
    sets = [[*keys, *(attributes[name] for name in group)] for group in ([], *meta.groupings)]
    value, weight = F.col("value"), F.col("query_weight")
    moments = {
        "micro": F.max("micro"), "n": F.count(value), "mean": F.avg(value),
        "variance": F.var_pop(value), "skewness": F.skewness(value), "least": F.min(value),
        "most": F.max(value), "total": F.sum("weighted"), "weights": F.sum("weight"),
        "query_weights": F.sum(weight), "query_squares": F.sum(weight * weight),
        "queries": F.count("i"), "undefined": F.count_if("undefined"),
        "missing": F.count_if("missing"),
    }  # fmt: skip
    ids = F.array_sort(F.flatten(F.collect_list(IDS)))
    counters = {TEXT: F.min(TEXT), IDS: F.slice(ids, 1, partitions.EXAMPLES)}
    absent = {means.absent_column(x): F.grouping(x) for x in attributes.values()}
    columns = absent | moments | counters
    grouped = counted.groupingSets(sets, *keys, *attributes.values())
    totals = grouped.agg(*(column.alias(name) for name, column in columns.items()))
    frame = pl.DataFrame(totals.toArrow())
    kept = [*systems, *attributes.values(), *absent, "i", *moments]
    rows = frame.filter(pl.col(COUNTER).is_not_null(), *(pl.col(name) == 1 for name in absent))
    groups = frame.filter(pl.col(COUNTER).is_null()).select(kept)
    return groups, partitions.Totals(rows.to_dicts())


def _refuse_computed(inputs: Inputs) -> None:
    """Refuse columns that only DuckDB computes, such as an SQL expression or assumed grades."""
    for table in inputs.tables:
        for role, name in table.roles.items():
            wrong = f"{table.label}: {role} = {table.role_columns.get(role)}"
            remedy = "is not supported in Spark. Add a column with withColumn()"
            require(name not in table.computed, f"{wrong} {remedy}")


def _grades(frame: DataFrame, inputs: Inputs, task: partitions.Task) -> pa.Table:
    """The highest grade if a metric depends on it, or none."""
    (name,) = {*frame.columns} & {table.roles["rel"] for table in inputs.judging}
    conventions = vars(task.rules.conventions)
    exponential = any(m.record and m.gain(conventions) == "exp2" for m in task.metrics)
    grade = _column(name)
    schema = to_arrow_schema(frame.schema)
    if not exponential and not any(metric.scaled for metric in task.metrics):
        return schema.empty_table()
    ((highest,),) = frame.agg(F.max(grade)).collect()
    return pa.Table.from_pylist([{name: highest}], schema)


def _distribute(
    rows: DataFrame,
    labels: Sequence[str],
    task: partitions.Task,
    evaluate: Callable[[partitions.Task, partitions.Tables], pl.DataFrame | None],
    empty: partitions.Tables,
) -> DataFrame:
    """What `evaluate` returns for each partition, in the columns of that for no rows."""
    none, oldest = evaluate(task, empty), pl.CompatLevel.oldest()  # text, not views of it
    schema = pa.schema([]) if none is None else none.to_arrow(compat_level=oldest).schema

    class PartitionEvaluator:
        """Collects the rows of one partition and evaluates them."""

        def __init__(self) -> None:
            self.batches: list[pa.RecordBatch] = []

        def eval(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
            self.batches.append(batch)
            return iter(())

        def terminate(self) -> Iterator[pa.Table]:
            if self.batches:
                tables, parts = {}, pa.Table.from_batches(self.batches)
                for i, label in enumerate(labels):
                    structs = parts.filter(pc.equal(parts["table"], i))[str(i)].combine_chunks()
                    names = [field.name for field in structs.type]
                    tables[label] = pa.Table.from_arrays(structs.flatten(), names=names)
                if (values := evaluate(task, tables)) is not None:
                    missing = [n for n in schema.names if n not in values.columns]
                    values = values.with_columns(pl.lit(None).alias(n) for n in missing)
                    yield values.select(schema.names).to_arrow().cast(schema)

    context = SparkContext._active_spark_context  # None with Spark Connect
    if (
        context is not None
        and context.pythonExec == "python3"
        and str(context.master)[:5] == "local"
    ):
        context.pythonExec = sys.executable  # nobody chose another one for the workers
    # A table function, because mapInArrow needs pandas.
    function: Any = F.arrow_udtf(PartitionEvaluator, returnType=from_arrow_schema(schema))
    values: DataFrame = function(rows.asTable())
    return values


def _union_by_query(frames: Mapping[str, DataFrame], inputs: Inputs) -> DataFrame:
    """The rows of all tables, partitioned by query: `table` is the number of a row's table.

    Column "0" holds the rows of the first table as structs, "1" those of the second, and so on.
    """
    selected, parts = [], []
    for table in inputs.tables:
        attributes = inputs.attributes_in(inputs.cte_of(table))
        own = inputs.extra if any(table is run for run in inputs.runs.values()) else ()
        read = [*table.roles.values(), *inputs.ids(table), *attributes, *own]
        frame = frames[table.label]
        names = dict.fromkeys(name for name in read if name in frame.columns)
        selected.append(frame.select(*map(_column, names)))
    both = zip(inputs.tables, selected, strict=True)
    kinds = {frame.schema[table.roles["query"]].dataType for table, frame in both}
    numbers = len(kinds) > 1 and all(isinstance(kind, NumericType) for kind in kinds)
    key_type = "double" if numbers else "string"
    for i, (table, frame) in enumerate(zip(inputs.tables, selected, strict=True)):
        key = _column(table.roles["query"]).cast(key_type).alias("key")
        row = F.struct(*(_column(name) for name in frame.columns))
        empty = [F.lit(None).cast(other.schema) for other in selected]
        rows = [(row if j == i else empty[j]).alias(str(j)) for j in range(len(selected))]
        parts.append(frame.select(key, F.lit(i).alias("table"), *rows))
    return reduce(lambda one, other: one.union(other), parts).repartition("key").drop("key")
