"""explain: what each item of a query contributes to a metric, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import polars as pl

from rankql.diagnostics.contributions import (
    EXPLAINED,
    items_sql,
    losses_sql,
    metric_terms,
    positions_sql,
)
from rankql.diagnostics.explanation import LOSS_COLUMNS, Explanation
from rankql.diagnostics.one_system import (
    select_only_system,
    select_queries,
    select_query,
    select_system,
)
from rankql.errors import RankqlError
from rankql.evaluation.column_checks import validate_columns
from rankql.evaluation.ctes import sql_runner
from rankql.evaluation.overlap import require_common_items, require_ranked_rows
from rankql.evaluation.planning import pending_result, resolve_conventions
from rankql.evaluation.query import build_query
from rankql.evaluation.result import Result
from rankql.evaluation.validation import evaluation_errors, find_duplicates, validate_inputs
from rankql.registry.argument_checks import require_whole_number
from rankql.registry.conventions import Conventions, choose
from rankql.registry.metric_record import Rows
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs, read_inputs
from rankql.sources.macro_sql import execute
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, assign_roles


def explain(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    of: Any = None,
    metric: str = "nDCG@10",
    *,
    which: str | None = None,
    worst: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    query: str | Sequence[str] | None = None,
    item: str | Sequence[str] | None = None,
    rel: str | None = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Explanation:
    """What each item of a query contributes to a metric and costs it; without `of` the worst.

    `of` is the id of a query, `which` the system where there are several; everything else is as in
    `evaluate`, whose value is explained. The contribution of an item is its term of the sum that
    the metric is, for nDCG gain / discount / IDCG. In the ideal ranking the judged items stand best
    first, equals in the order in which they stand in the run, those not retrieved last by item::

        loss = contribution at the item's ideal position - contribution where it stands

    It is 0 where it is not in the ranking, or not in the ideal one. So an item that stands too high
    has a loss below 0, for which others pay; an item without gain costs nothing itself; of equals
    none is to blame for standing above another; and the losses add up to the ideal value - the
    value, which is 1 - nDCG. Without `of` they are summed over all queries, by query and by item.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> explain(run, qrels, "a", "RR").positions["item", "contribution", "loss"].rows()
    [('x', 0.0, 0.0), ('y', 0.5, 0.5)]
    """
    require_whole_number("worst", worst, 1)
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    arguments = _parse_one(metric), choose(conventions, options)
    with open_session(con, run, qrels) as session:
        inputs = read_inputs(session, run, qrels, None, columns, system, descending=descending)
        task = _prepare(_Task(session, inputs, *arguments, which))
        with evaluation_errors(session, inputs, task.conventions):
            if which is not None:
                task = replace(task, inputs=select_system(session, inputs, which))
            return _explain_run(task, worst) if of is None else _explain_query(task, of)


def explain_items(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    of: Sequence[Any],
    metric: str,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    **options: Any,
) -> tuple[pl.DataFrame, str]:
    """The items of several queries as `explain` has them, for all systems at once.

    One query computes them, because to explain one query after the other takes 20 times as long.
    The second value is the formula of a contribution.
    """
    columns = {name: options.pop(name, None) for name in ("query", "item", "rel", "score", "pos")}
    arguments = _parse_one(metric), choose(conventions, options)
    with open_session(con, run, qrels) as session:
        inputs = read_inputs(session, run, qrels, None, columns, system, descending=descending)
        task = _prepare(_Task(session, inputs, *arguments, None))
        terms = metric_terms(task.metric, task.conventions)
        inputs = select_queries(inputs, of)
        with evaluation_errors(session, inputs, task.conventions):
            sql = items_sql(inputs, task.metric, terms, task.conventions)
            return execute(session, sql).pl(), terms.formula


@dataclass(frozen=True)
class _Task:
    """A metric to explain, and the tables."""

    session: Session
    inputs: Inputs
    metric: Metric
    conventions: Conventions
    system: str | None


def _parse_one(name: str) -> Metric:
    metrics = parse(name)
    if len(metrics) > 1:
        raise RankqlError(f"explain takes one metric, not {', '.join(m.name for m in metrics)}")
    return metrics[0]


def _prepare(task: _Task) -> _Task:
    """The task with the conventions in force, once its tables and metric are validated."""
    session, inputs = task.session, task.inputs
    validate_columns(session, inputs)
    for table in inputs.runs.values():
        assign_roles(table, {}, () if "item" in table.roles else ("item",))
    conventions, (metric,) = resolve_conventions(session, inputs, [task.metric], task.conventions)
    _require_explainable(metric, conventions)
    return replace(task, metric=metric, conventions=conventions)


def _require_explainable(metric: Metric, conventions: Conventions) -> None:
    """Refuse a metric that is not a sum over positions."""
    if metric.record is None or metric.record.name not in EXPLAINED:
        raise RankqlError(
            f"{metric.name} is no sum over positions; what can be explained: {', '.join(EXPLAINED)}"
        )
    if conventions.ties not in ("item", "order"):
        raise RankqlError(
            f"with ties={conventions.ties!r} items stand at no one position; "
            "explain one order of them: ties='item' or 'order'"
        )
    if conventions.unjudged == "bounds":
        raise RankqlError(
            "unjudged='bounds' has two values; explain one of them: unjudged='zero' or 'remove'"
        )


def _explain_query(task: _Task, of: Any) -> Explanation:
    """Explain one ranking; reads only its rows."""
    session, metric, conventions = task.session, task.metric, task.conventions
    system, inputs = task.system, task.inputs
    if inputs.many:
        system, inputs = select_only_system(session, inputs)
    # About all queries: this one may well have no judged item in the run.
    ask = sql_runner(session, inputs, conventions)
    notes = require_ranked_rows(ask, inputs)
    if inputs.qrels is not None:
        notes += require_common_items(ask, inputs)
    inputs, key, is_missing = select_query(session, inputs, conventions, of)
    task = replace(task, inputs=inputs)
    terms = metric_terms(metric, conventions)
    sql = positions_sql(inputs, metric, terms, conventions)
    with evaluation_errors(session, inputs, conventions):
        result, _ = _evaluate(task, one_query=True, is_missing=is_missing)
        rows = execute(session, sql).pl()
    if is_missing:
        result.notes = [f"the run has no row of query {key!r}"]
    result.notes += notes
    value, formula = result.frame()[metric.name][0], terms.formula
    if value is None:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in LOSS_COLUMNS)
    elif terms.normalised:
        formula += f" {rows['total'][0]:.6g}"
    return Explanation(
        metric=metric.name,
        query_sql=sql,
        result=result,
        query=key,
        system=system,
        value=value,
        ideal=None if value is None else float(rows["ideal_contribution"].sum()),
        positions=rows.drop("total", "outside"),
        formula=formula,
    )


def _explain_run(task: _Task, worst: int) -> Explanation:
    """Explain all rankings: queries and items by their loss."""
    session, inputs, metric = task.session, task.inputs, task.metric
    with evaluation_errors(session, inputs, task.conventions):
        result, rows = _evaluate(task)
        sql = losses_sql(inputs, metric, task.conventions, rows)
        sums = execute(session, sql).pl()
    systems = ["system"] if inputs.many else []
    keys = [*systems, "query"]
    values = result.frame()
    queries = (
        values.rename({result.meta["query"]: "query", metric.name: "value"})
        .join(sums.filter("whole").select(*keys, "ideal"), on=keys, how="left",
              maintain_order="left")
        .select(*keys, "value",
                ideal=pl.when(pl.col("value").is_not_null()).then(pl.col("ideal").fill_null(0)))
    )  # fmt: skip
    ideals = values.with_columns(queries["ideal"].alias(metric.name))
    ideal_means = replace(result, _summary=None, values=ideals).summary["mean"]
    means = result.summary.select(*systems, value="mean").with_columns(ideal=ideal_means)
    queries = queries.with_columns(loss=pl.col("ideal") - pl.col("value"))
    items = sums.filter(~pl.col("whole"))
    items = items.select(*systems, "item", pl.col("queries").cast(pl.Int64), "loss")
    explanation = Explanation(
        metric=metric.name,
        query_sql=sql,
        result=result,
        system=task.system,
        means=means,
        queries=_sort_by_loss(queries, keys),
        items=_sort_by_loss(items, [*systems, "item"]),
        worst=worst,
    )
    if not systems and len(means):
        explanation.value, explanation.ideal = means.row(0)
    return explanation


def _sort_by_loss(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    descending = [True, *(False for _ in keys)]
    return frame.sort("loss", *keys, descending=descending, nulls_last=True)


def _evaluate(
    task: _Task, one_query: bool = False, is_missing: bool = False
) -> tuple[Result, Rows]:
    """The result of evaluate, and the rows that its query reads.

    one_query: the inputs hold one query only; is_missing: the run lacks it.
    """
    session, inputs, conventions = task.session, task.inputs, task.conventions
    query = build_query(inputs, [task.metric], conventions)
    result = pending_result(session, inputs, query, conventions)
    if not is_missing:
        result.notes = validate_inputs(session, inputs, conventions, query, one_query)
    elif error := find_duplicates(
        sql_runner(session, inputs, conventions), inputs, "qrels", "item"
    ):
        raise RankqlError(error)
    result.values = execute(session, query.sql).pl()
    return result, query.rows
