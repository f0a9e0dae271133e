"""explain: what each item contributes to a metric, and what it loses."""

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
from rankql.evaluation.arguments import RankingOptions
from rankql.evaluation.chunks import read_rankings
from rankql.evaluation.column_checks import validate_columns
from rankql.evaluation.evaluate import pending_result, resolve_conventions
from rankql.evaluation.facts import Facts
from rankql.evaluation.overlap import query_overlap, require_common_items, require_ranked_rows
from rankql.evaluation.plan import Plan
from rankql.evaluation.query import unique_columns, write_query
from rankql.evaluation.result import Result
from rankql.evaluation.source_ctes import SqlRunner
from rankql.evaluation.validation import evaluation_errors, require_unique
from rankql.macros import MISSING
from rankql.registry.argument_checks import require_whole_number
from rankql.registry.conventions import Conventions, choose
from rankql.registry.metric_record import Rows
from rankql.registry.parse import parse
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch_frame
from rankql.sources.session import Session, open_session
from rankql.sources.tables import Data, Rel, assign_roles
from rankql.writing import remember_inputs


@remember_inputs
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
    rel: Rel = None,
    score: str | None = None,
    pos: str | None = None,
    system: str | None = None,
    descending: bool | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Explanation:
    """Show what each item contributes to a metric, and what its position loses.

    With `of`, the id of a query, explains each position of that ranking. Without it, returns the
    queries and items with the largest losses. `which` is the system, if there are several. All
    other arguments are those of `evaluate`, whose value is explained.

    These metrics are sums over items. The contribution of an item is its term of the sum: gain /
    discount / IDCG for nDCG. The ideal ranking sorts the judged items by gain. Items of equal gain
    keep their order in the run, followed by the items that were not retrieved, by item::

        loss = contribution at the ideal position - contribution at the actual position

    A contribution is 0 if the item is not in that ranking. An item that is ranked too high has a
    negative loss, and an item without gain has none. The losses of a query add up to the ideal
    value minus the value, which is 1 - nDCG.

    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> explain(run, qrels, "a", "RR").positions["item", "contribution", "loss"].rows()
    [('x', 0.0, 0.0), ('y', 0.5, 0.5)]
    """
    require_whole_number("worst", worst, 1)
    columns = {"query": query, "item": item, "rel": rel, "score": score, "pos": pos}
    ranking = RankingOptions.take(options)
    arguments = _parse_one(metric), choose(conventions, options)
    with open_session(con, run, qrels) as session:
        inputs = read_rankings(
            session, run, qrels, None, columns, system, (), descending, ranking, arguments[1]
        )
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
    ranking = RankingOptions.take(options)
    arguments = _parse_one(metric), choose(conventions, options)
    with open_session(con, run, qrels) as session:
        inputs = read_rankings(
            session, run, qrels, None, columns, system, (), descending, ranking, arguments[1]
        )
        task = _prepare(_Task(session, inputs, *arguments, None))
        terms = metric_terms(task.metric, task.conventions)
        inputs = select_queries(inputs, of)
        with evaluation_errors(session, inputs, task.conventions):
            sql = items_sql(inputs, task.metric, terms, task.conventions)
            return fetch_frame(session, sql), terms.formula


@dataclass(frozen=True)
class _Task:
    """A metric to explain, with its inputs and conventions."""

    session: Session
    inputs: Inputs
    metric: Metric
    conventions: Conventions
    system: str | None


def _parse_one(name: str) -> Metric:
    metrics = parse(name)
    if len(metrics) > 1:
        raise RankqlError(
            f"explain takes one metric, not {len(metrics)}: {', '.join(m.name for m in metrics)}"
        )
    return metrics[0]


def _prepare(task: _Task) -> _Task:
    """The task with validated inputs and resolved conventions."""
    session, inputs = task.session, task.inputs
    validate_columns(session, inputs)
    for table in inputs.runs.values():
        assign_roles(table, {}, () if "item" in table.roles else ("item",))
    conventions, (metric,) = resolve_conventions(
        Facts(session, inputs, task.conventions, packs=False), [task.metric], task.conventions
    )
    _require_explainable(metric, conventions)
    return replace(task, metric=metric, conventions=conventions)


def _require_explainable(metric: Metric, conventions: Conventions) -> None:
    """Refuse metrics and conventions that explain does not support."""
    if metric.record is None or metric.record.name not in EXPLAINED:
        raise RankqlError(
            f"explain does not support {metric.name}, which is not a sum over positions. "
            f"Use one of: {', '.join(EXPLAINED)}"
        )
    if conventions.ties not in ("item", "order"):
        raise RankqlError(
            f"explain does not support ties={conventions.ties!r}, which gives items no single "
            "position. Use ties='item' or ties='order'"
        )
    if conventions.unjudged == "bounds":
        raise RankqlError(
            "explain does not support unjudged='bounds', which has two values. Use "
            "unjudged='zero' or unjudged='remove'"
        )


def _explain_query(task: _Task, of: Any) -> Explanation:
    """Explain one ranking, reading only its rows."""
    session, metric, conventions = task.session, task.metric, task.conventions
    system, inputs = task.system, task.inputs
    if inputs.many:
        system, inputs = select_only_system(session, inputs)
    # For all queries, because a single one may have no judged item.
    ask = SqlRunner(session, inputs, conventions)
    notes = require_ranked_rows(ask, inputs, conventions)
    if inputs.qrels is not None:
        notes += require_common_items(ask, inputs, query_overlap(ask, inputs))
    inputs, key, is_missing = select_query(session, inputs, conventions, of)
    task = replace(task, inputs=inputs)
    terms = metric_terms(metric, conventions)
    sql = positions_sql(inputs, metric, terms, conventions)
    with evaluation_errors(session, inputs, conventions):
        result, _ = _evaluate(task, one_query=True, is_missing=is_missing)
        rows = fetch_frame(session, sql)
    if is_missing:
        result.notes = [f"The run has no rows for query {key!r}."]
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
    """Explain all rankings: the losses by query and by item."""
    session, inputs, metric = task.session, task.inputs, task.metric
    with evaluation_errors(session, inputs, task.conventions):
        result, rows = _evaluate(task)
        result.check()
        sql = losses_sql(inputs, metric, task.conventions, rows)
        sums = fetch_frame(session, sql)
    systems = ["system"] if inputs.many else []
    keys = [*systems, "query"]
    values = result.frame()
    if task.conventions.missing == "skip":
        values = values.filter(~pl.col(MISSING))
    queries = (
        values.rename({result.meta.query: "query", metric.name: "value"})
        .join(sums.filter("whole").select(*keys, "ideal"), on=keys, how="left",
              maintain_order="left")
        .select(*keys, "value",
                ideal=pl.when(pl.col("value").is_not_null()).then(pl.col("ideal").fill_null(0)))
    )  # fmt: skip
    # The ideal of a query that the run lacks is not 0, but its value.
    ideals = values.with_columns(queries["ideal"].alias(metric.name), pl.lit(False).alias(MISSING))
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
    """Return the result of evaluate, and which rows its query reads.

    `one_query`: the inputs have one query only. `is_missing`: the run does not have it.
    """
    session, inputs, conventions = task.session, task.inputs, task.conventions
    facts, plan = Facts(session, inputs, conventions), Plan([task.metric], conventions)
    result = pending_result(session, inputs, plan)
    if not is_missing:
        unique = unique_columns(inputs, plan)
        result.notes = facts.require_valid(result.metrics, unique, one_query)
    else:
        require_unique(facts.run_sql, inputs, [("qrels", "item", "")])
    result.values = fetch_frame(session, write_query(inputs, plan).sql)
    return result, plan.rows(inputs)
