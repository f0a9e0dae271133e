"""Compute the values per query, from one reduction of the tables or by the readable query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import duckdb
import polars as pl

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import RankqlError
from rankql.core.evaluation.checks.duplicates import SHARED, find_duplicates, require_unique_rows
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import worst_value
from rankql.core.evaluation.query.ctes import TOP, with_ctes
from rankql.core.evaluation.query.readable import is_catalogue, unique_columns, write_query
from rankql.core.evaluation.reduce.fetch import fetch_in_parts
from rankql.core.evaluation.reduce.reduce import FLAGGED, Reduction
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import rule
from rankql.core.tables.reader import reword_error
from rankql.core.tables.session import duckdb_errors
from rankql.core.tables.tables import unknown_column

Catalogue: TypeAlias = dict[str, list[dict[str, Any]]]
# Two numbers of each system.
Counts: TypeAlias = dict[str | None, tuple[int, int]]


@dataclass(frozen=True)
class Values:
    """The values of an evaluation, notes, and what is known of the items shown."""

    per_query: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    # Of metrics of the catalogue, by system and slice.
    catalogue: Catalogue = field(default_factory=dict)
    # Of each system: the items shown, and those that the user has in train.
    seen: Counts = field(default_factory=dict)
    # Of each system: the different items shown, and those that are in the catalogue.
    outside: Counts = field(default_factory=dict)


def finish(reduction: Reduction) -> Values:
    """The values. A missing query has the worst value, or none."""
    evaluation = reduction.evaluation
    values = Values(*_compute(reduction))
    if evaluation.inputs.forbidden or evaluation.conventions.negative == "unjudged":
        values = _add_forbidden(evaluation, values)
    if evaluation.inputs.qrels is not None:
        values = _fill_missing(evaluation, _name_missing(evaluation, values))
    if evaluation.hidden:
        values = call_extra("count seen", evaluation, values)
    if any(map(is_catalogue, evaluation.metrics)):
        values = call_extra("catalogue values", evaluation, values)
    return values


def _add_forbidden(evaluation: Evaluation, values: Values) -> Values:
    """The values with metrics of forbidden items, for which other grades are read."""
    if (apart := evaluation.apart) is None:
        return values
    others, notes = fetch_in_parts(apart, lambda part: part.script.query.sql)
    columns = [others[metric.name] for metric in apart.metrics]
    per_query = values.per_query.with_columns(columns)
    return replace(values, per_query=per_query, notes=[*values.notes, *notes])


def _name_missing(evaluation: Evaluation, values: Values) -> Values:
    """The values with the slice of missing queries, whose texts no row of the run says."""
    frame, ctes = values.per_query, evaluation.inputs.ctes
    names = {x for group in evaluation.groupings for x in group} - {evaluation.cluster}
    if not (names and frame[MISSING].any()):
        return values
    for name in names:
        if ctes[name] == "run" and frame.schema[name] == pl.String:
            lost = frame[MISSING] & frame[name].is_null()
            frame = frame.with_columns(frame[name].set(lost, "(missing)"))
    return replace(values, per_query=frame)


def _fill_missing(evaluation: Evaluation, values: Values) -> Values:
    """The values; where a query is missing, the worst one."""
    rules, filled = vars(evaluation.conventions), []
    signed: pl.Expr | None = None
    for metric in evaluation.metrics if values.per_query[MISSING].any() else ():
        if metric.record is None or rule(rules, "missing", metric.name) != "zero":
            continue
        never, value = pl.lit(False), pl.col(metric.name)
        if metric.keeps_sign(rules):
            if signed is None:  # a negative grade has a value below 0
                frame = evaluation.run_frame("SELECT DISTINCT query FROM qrels WHERE rel < 0")
                signed = pl.col(evaluation.inputs.query).is_in(frame["query"].implode())
            never = signed
        missing = pl.col(MISSING) & value.is_not_null()
        worst = worst_value(metric.name, unless=never)
        filled.append(pl.when(missing).then(worst).otherwise(value).alias(metric.name))
    return replace(values, per_query=values.per_query.with_columns(filled)) if filled else values


def _compute(reduction: Reduction) -> tuple[pl.DataFrame, list[str]]:
    """The values per query as the metrics define them, and notes.

    Those of flagged rankings and of metrics without a formula are of the readable query.
    """
    evaluation, notes = reduction.evaluation, [*reduction.notes]
    if reduction.failure is not None:
        raise reduction.failure
    named = [metric for metric, _ in reduction.metrics.values()]
    together = [metric for metric in evaluation.computed if named and is_catalogue(metric)]
    others = [metric for metric in evaluation.computed if metric not in (*named, *together)]
    # Macros check their arguments, because an expression of the user may pass anything.
    checked = any(metric.record is None for metric in evaluation.computed)
    if not named:
        return fetch_in_parts(evaluation, lambda part: part.script.query.sql, checked)
    values = _replace_flagged(reduction, named)
    if others:
        rest, more = fetch_in_parts(
            evaluation, lambda x: write_query(x.inputs, others, x.conventions).sql, checked
        )
        new = [x for x in rest.get_columns() if x.name not in values.columns]
        values, notes = values.hstack(new), notes + more
    if together:  # a query has no value of its own
        none = pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
        values = values.hstack([none.alias(metric.name) for metric in together])
    weights = [name for name in values.columns if name.startswith(f"{INTERNAL_PREFIX}weight of ")]
    keys = values.columns[: values.columns.index(MISSING) + 1]
    return values[[*keys, *(metric.name for metric in evaluation.computed), *weights]], notes


def _replace_flagged(reduction: Reduction, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The values, those of flagged rankings by the readable query."""
    evaluation, values = reduction.evaluation, reduction.values
    assert values is not None
    flags, names = values[FLAGGED], [name for name in values.columns if name != FLAGGED]
    values = values[names]  # drop() copies
    if not flags.any():
        return values
    flagged = values.filter(flags)
    inputs = evaluation.inputs
    queries = flagged[inputs.query].unique().to_frame("query")
    # A BIT comes back as bytes that are not those of its text.
    part = evaluation
    if flagged.height < values.height and queries["query"].dtype != pl.Binary:
        table = evaluation.session.register("flagged", queries)
        # A UUID comes back as text.
        key = "{key}" if queries["query"].dtype.is_numeric() else "CAST({key} AS VARCHAR)"
        listed = f"SELECT {key.format(key='query')} FROM {table.sql}"
        part = evaluation.of_queries(f"{key.format(key='{query}')} IN ({listed})")
    keys = [str(i) for i in range(1 + inputs.many)]
    try:
        window = _read_flagged(reduction, part, metrics)[names]
    except duckdb.OutOfMemoryException:  # the list of queries takes memory too
        window = _read_flagged(reduction, evaluation, metrics)[names]
    # Names of users may be patterns of polars.
    flagged, values, window = (
        pl.DataFrame({str(i): column for i, column in enumerate(frame[names].get_columns())})
        for frame in (flagged, values, window)
    )
    unflagged, replaced = (
        frame.join(flagged, on=keys, how=how, nulls_equal=True)  # type: ignore[arg-type]
        for frame, how in ((values, "anti"), (window, "semi"))
    )
    rows = pl.concat([unflagged, replaced.cast(unflagged.schema)])
    # In the order of DuckDB, which may be that of a collation.
    order = values.select(keys)
    rows = order.join(rows, on=keys, how="left", nulls_equal=True, maintain_order="left")
    rows.columns = names
    return rows


def _read_flagged(
    reduction: Reduction, part: Evaluation, metrics: Sequence[Metric]
) -> pl.DataFrame:
    """The values of flagged rankings. Refuses an item that occurs twice in the first positions."""
    compares = reduction.repeats is False  # only the items of other rankings
    name = f"{INTERNAL_PREFIX}repeats"

    def write(part: Evaluation) -> str:
        inputs = part.inputs
        query = write_query(inputs, metrics, part.conventions)
        if not compares:
            return query.sql
        source = TOP if TOP in query.steps else "run WHERE score IS NOT NULL"
        repeats = f"SELECT count(*) > count(DISTINCT hash({inputs.keys}, item)) FROM {source}"
        steps = with_ctes(query.steps, read_twice="run" if inputs.where else "")
        return f"{steps}SELECT *, ({repeats}) AS {name} FROM ({query.select})"

    rows, _ = fetch_in_parts(part, write)
    if compares and rows[name].any():
        evaluation = reduction.evaluation
        columns = unique_columns(evaluation.inputs, metrics, evaluation.conventions, True)
        require_unique_rows(evaluation, [c for c in columns if c[0] == "run"])
    return rows


# The errors about an expression that DuckDB does not understand or cannot convert to a number.
_REFUSED = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.NotImplementedException,
)


@contextmanager
def evaluation_errors(evaluation: Evaluation) -> Iterator[None]:
    """Raise errors of DuckDB as RankqlError, with the duplicates, the table or the own metric."""
    with duckdb_errors():
        try:
            yield
        except duckdb.Error as error:
            line = reword_error(error)
            if match := re.match('Referenced column "(.+?)" not found', line):
                runs = [*evaluation.inputs.runs.values()]
                raise unknown_column("metrics", match[1], runs) from error
            if SHARED in line:
                inputs = evaluation.inputs
                found = find_duplicates(evaluation, "run", "item") if inputs.every("item") else None
                if not found and not inputs.scored:
                    found = find_duplicates(evaluation, "run", "pos", "WHERE pos IS NOT NULL")
                raise RankqlError(found or SHARED) from error
            own = [f"{m.label!r} = {m.expression!r}" for m in evaluation.metrics if m.known is None]
            if own and isinstance(error, _REFUSED) and "rankql: " not in str(error):
                line = re.sub(r'! Did you mean "(__|rankql ).*', "", line).rstrip(".!")
                raise RankqlError(
                    f"The metric {' or '.join(own)} does not give one number per query ({line}). "
                    "Write an aggregate of DuckDB, such as avg(price) or count(*)"
                ) from error
            raise
