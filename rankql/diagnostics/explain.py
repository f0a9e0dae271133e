"""explain: what each item contributes to a metric, and what it loses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, overload

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.errors import require, require_whole_number
from rankql.core.base.results import drop_idle_columns
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.checks.counters import count_rankings
from rankql.core.evaluation.checks.duplicates import require_unique_rows
from rankql.core.evaluation.checks.rankings import RANKINGS
from rankql.core.evaluation.checks.record import Evidence, inspect
from rankql.core.evaluation.checks.sampled import SAMPLED
from rankql.core.evaluation.checks.values import VALUES
from rankql.core.evaluation.evaluate import open_evaluation
from rankql.core.evaluation.finish.compute import finish
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import MISSED, left_out_if
from rankql.core.evaluation.plan.plan import leave_out_padding
from rankql.core.evaluation.query.ctes import ranking_ctes, source_ctes, with_ctes
from rankql.core.evaluation.query.readable import rows_read, unique_columns
from rankql.core.evaluation.query.ties import BY_ITEM, WITHOUT_GRADES
from rankql.core.evaluation.reduce.fetch import reduce_tables, source_frame
from rankql.core.evaluation.result.result import EvaluatedTable, Result, check_values
from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.metrics.macros import MISSING, literal
from rankql.core.metrics.metric_record import Rows
from rankql.core.metrics.parse import parse
from rankql.core.tables.candidates import assign_roles
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.request import EvaluationOptions, RankingRules, Request
from rankql.core.tables.tables import Data
from rankql.diagnostics.metric_terms import MetricTerms, metric_terms
from rankql.diagnostics.missed import Missed, find_missed
from rankql.diagnostics.one_ranking import select_queries, select_query, select_system
from rankql.features.collections import require_one_collection


@overload
def explain(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    of: Any = None,
    metric: str = "nDCG@10",
    *,
    missed: Literal[False] = False,
    worst: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> Explanation: ...


@overload
def explain(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    of: None = None,
    metric: str = "nDCG@10",
    *,
    missed: Literal[True],
    output: str | os.PathLike[str] | None = None,
    worst: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> Missed: ...


@remember_inputs
def explain(
    run: Data | Mapping[str, Data],
    qrels: Data | None = None,
    of: Any = None,
    metric: str = "nDCG@10",
    *,
    missed: bool = False,
    output: str | os.PathLike[str] | None = None,
    worst: int = 10,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> Explanation | Missed:
    """Show what each item contributes to a metric, and what its position loses.

    These metrics are sums over items. The contribution of an item is its term of the sum: gain /
    discount / IDCG for nDCG. The ideal ranking sorts the judged items by gain. Items of equal gain
    keep their order in the run, followed by the items that were not retrieved, by item::

        loss = contribution at the ideal position - contribution at the actual position

    A contribution is 0 if the item is not in that ranking. An item that is ranked too high has a
    negative loss, and an item without gain has none. The losses of a query add up to the ideal
    value minus the value, which is 1 - nDCG.

    Parameters
    ----------
    run, qrels, con, **options
        As in `evaluate`, whose value is explained.
    of : query id, dict or list, optional
        Explain each position of this query, or of several. By default, the queries and items that
        lose most.

        Of several systems, a dict names the ranking: {'system': 'new', 'query': 'q1'}.
    metric : str
        Metric to explain.
    missed : bool
        List the relevant items that the metric misses, of all queries and systems.

        A row has the query, the system, the item, its grade and its place in the ranking, which is
        below the cutoff, or NULL if the item was never retrieved. Relevant is what the metric's
        threshold says; a metric without a cutoff misses what was never retrieved.
    output : path, optional
        With `missed`, the file to which DuckDB writes the rows: .parquet or .csv; - is standard
        output, as CSV.
    worst : int
        Number of queries and items to list without `of`, and of missed items to print.

    Examples
    --------
    >>> run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    >>> qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    >>> explain(run, qrels, "a", "RR").positions["item", "contribution", "loss"].rows()
    [('x', 0.0, 0.0), ('y', 0.5, 0.5)]
    """
    require_whole_number("worst", worst, 1)
    require(of is None or not missed, "missed= lists all queries. Leave of= out")
    require(
        missed or output is None, "output= is the file of missed items: pass missed=True as well"
    )
    with _open(
        run, qrels, metric, con, options, EVERY_METRIC if missed else EXPLAINED
    ) as evaluation:
        if missed:
            result = _evaluate(evaluation)
            check_values(result.meta, result.values)
            return find_missed(evaluation, result, output, worst)
        if of is None:
            return _explain_run(evaluation, worst)
        if not isinstance(of, list):
            return _explain_query(evaluation, of)
        require(bool(of), "of must name a query, not []")
        return _combine([_explain_query(evaluation, each) for each in of])


def explain_items(
    run: Data | Mapping[str, Data],
    qrels: Data | None,
    of: Sequence[Any],
    metric: str,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[EvaluationOptions],
) -> tuple[pl.DataFrame, str]:
    """The items of several queries as `explain` has them, for all systems at once.

    One query computes them, which is faster than to explain one query after the other.
    The second value is the formula of a contribution.
    """
    with _open(run, qrels, metric, con, options, EXPLAINED) as evaluation:
        terms, keys = metric_terms(evaluation), evaluation.inputs.keys
        evaluation = replace(evaluation, inputs=select_queries(evaluation.inputs, of))
        sql = f"""{_contributions_sql(evaluation, terms)}
SELECT {keys}, item, rel, CAST(pos AS BIGINT) AS pos, contribution, loss
FROM rankql_explained WHERE place IS NOT NULL OR ideal_pos IS NOT NULL
ORDER BY {keys}, pos ASC NULLS LAST, ideal_pos ASC NULLS LAST"""
        return fetch_frame(evaluation.session, sql), terms.explanation.formula


@contextmanager
def _open(
    run: Any, qrels: Data | None, name: str, con: Any, options: EvaluationOptions,
    supported: Sequence[str],
) -> Iterator[Evaluation]:  # fmt: skip
    """The evaluation of the metric to explain."""
    rules = RankingRules.of(options, explain)
    require_one_collection(run, qrels, options.get("part"), "explain")
    metrics = parse(name, rules.conventions.profile)
    names = ", ".join(m.name for m in metrics)
    require(len(metrics) == 1, f"explain takes one metric, not {len(metrics)}: {names}")
    request = Request(run, qrels, name, rules, con=con, interval=None)
    with open_evaluation(request, unique=True) as evaluation:
        inputs = leave_out_padding(evaluation.inputs)
        evaluation = replace(evaluation, inputs=inputs)
        for table in inputs.runs.values():
            assign_roles(table, {}, () if "item" in table.roles else ("item",))
        (metric,), ties = evaluation.metrics, evaluation.conventions.ties
        known = metric.record is not None and metric.record.name in supported
        require(known, f"explain does not support {metric.name}, which is not a sum over "
                f"positions. Use one of: {', '.join(supported)}")  # fmt: skip
        require(ties in WITHOUT_GRADES, f"explain does not support "
                f"ties={ties!r}, which gives items no single position. Use ties='item' "
                "or ties='order'")  # fmt: skip
        yield evaluation


def _explain_query(evaluation: Evaluation, of: Any) -> Explanation:
    """Explain one ranking, reading only its rows."""
    evaluation, of, system = select_system(evaluation, of)
    session, (metric,) = evaluation.session, evaluation.metrics
    # For all queries, because a single one may have no judged item.
    evidence = Evidence(evaluation, count_rankings(evaluation))
    checks = [x for x in RANKINGS if x.reads == "counters" or x.name == "nan-scores"]
    notes = inspect([check for check in checks if check.name not in OF_QUERIES], evidence)
    evaluation, key, is_missing = select_query(evaluation, of)
    terms = metric_terms(evaluation)
    column, weight = ("discount", "1 / ranked.weight") if terms.discount else (
        "weight", "ranked.weight")  # fmt: skip
    sql = _contributions_sql(evaluation, terms) + _POSITIONS.format(weight=weight, column=column)
    absent = [f"The run has no rows for query {key!r}."] if is_missing else []
    result = _evaluate(evaluation, absent + notes, is_missing)
    rows = fetch_frame(session, sql)
    value, formula = result.frame()[metric.name][0], terms.explanation.formula
    if value is None:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in LOSS_COLUMNS)
    elif terms.explanation.normalised:
        formula += f" {rows['total'][0]:.6g}"
    return Explanation(
        metric=metric.name,
        result=result,
        query_sql=sql,
        query=key,
        system=system,
        value=value,
        ideal=None if value is None else float(rows["ideal_contribution"].sum()),
        positions=rows.drop("total", "outside"),
        formula=formula,
    )


def _combine(parts: Sequence[Explanation]) -> Explanation:
    """The explanations of several queries as one, whose positions have the query."""
    first, queries = parts[0], [part.query for part in parts]
    several = len({part.system for part in parts}) > 1

    def keys(part: Explanation) -> list[pl.Expr]:
        system = [pl.lit(part.system).alias("system")] if several else []
        return [*system, pl.lit(part.query).alias("query")]

    frames = [
        part.positions.select(*keys(part), pl.all()) for part in parts if part.positions is not None
    ]
    values = pl.concat([part.result.frame() for part in parts], how="vertical_relaxed")
    notes = [*dict.fromkeys(note for part in parts for note in part.result.data_notes)]
    return replace(
        first,
        result=replace(first.result, values=values, data_notes=notes, _summary=None),
        query_sql=";\n".join(part.query_sql for part in parts),
        query=queries, system=None if several else first.system, value=None, ideal=None,
        parts=parts,
        positions=pl.concat(frames, how="vertical_relaxed"),
    )  # fmt: skip


def _explain_run(evaluation: Evaluation, worst: int) -> Explanation:
    """Explain all rankings: the losses by query and by item."""
    inputs, conventions, (metric,) = evaluation.inputs, evaluation.conventions, evaluation.metrics
    result = _evaluate(evaluation)
    check_values(result.meta, result.values)
    rows = rows_read(inputs, evaluation.metrics, conventions)
    skipped = left_out_if(metric.name, vars(conventions)) == MISSED  # queries that the run lacks
    counted = f"SEMI JOIN run USING ({inputs.keys})" if skipped else ""
    item = "system, item" if inputs.many else "item"
    sql = _contributions_sql(evaluation, metric_terms(evaluation), rows)
    sql += _LOSSES.format(keys=inputs.keys, item=item, least=ROUNDING_ERROR, counted=counted)
    sums = fetch_frame(evaluation.session, sql)
    systems = ["system"] if inputs.many else []
    keys = [*systems, "query"]
    values = result.frame()
    if skipped:
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
        result=result,
        query_sql=sql,
        queries=_sort_by_loss(queries, keys),
        items=_sort_by_loss(items, [*systems, "item"]),
        means=means,
        worst=worst,
    )
    if not systems and len(means):
        explanation.value, explanation.ideal = means.row(0)
    return explanation


def _sort_by_loss(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    descending = [True, *(False for _ in keys)]
    return frame.sort("loss", *keys, descending=descending, nulls_last=True)


def _evaluate(
    evaluation: Evaluation, of_query: Sequence[str] | None = None, is_missing: bool = False
) -> Result:
    """The result of evaluate.

    of_query: notes on the query, if the inputs have one only. `is_missing`: the run lacks it.
    """
    session, inputs, meta = evaluation.session, evaluation.inputs, evaluation.make_meta()
    notes = [*([] if is_missing else session.notes), *inputs.notes]
    if is_missing:
        require_unique_rows(evaluation, [("qrels", "item", "")])
    else:
        unique = unique_columns(inputs, evaluation.metrics, evaluation.conventions)
        evidence = Evidence(evaluation, count_rankings(evaluation), unique=unique, averages=False)
        counts = inputs.unjudged_queries == "count"
        others = OF_RANKINGS if not counts else (*OF_RANKINGS, *OF_QUERIES)
        kept = [x for x in RANKINGS if of_query is None or x.name not in others]
        found = inspect(kept, evidence)
    if of_query is not None and not is_missing and source_frame(evaluation, "run") is not None:
        values = finish(reduce_tables(evaluation)).per_query
    else:
        values = fetch_frame(session, evaluation.script.query.sql)
    interval = None
    if of_query is None:  # all queries, of which evaluate says more
        evidence = replace(evidence, values=values, queries=values[meta.query])
        notes += [*found, *inspect((*SAMPLED, *VALUES), evidence)]
        interval = "auto"
    notes += of_query or []
    return Result(meta, evaluation.script, evaluation.columns, notes, interval, values=values)


# The checks of all queries; and those of which one query may fail.
OF_QUERIES = ("no-overlap", "unjudged-queries")
OF_RANKINGS = ("nothing-ranked", "no-common-items", "few-common-items")
# NULL if the metric is undefined.
LOSS_COLUMNS = ["contribution", "ideal_contribution", "loss"]


@dataclass(eq=False, repr=False)
class Explanation(EvaluatedTable):
    """The result of `explain`.

    For one query, `positions` has a row per position. For all queries, `queries` and `items` have
    the losses, largest first. `value` and `ideal` are those of the query, or means over the run
    (None for several systems).
    """

    metric: str
    result: Result
    query_sql: str
    query: Any = None
    system: str | None = None
    value: float | None = None
    ideal: float | None = None
    positions: pl.DataFrame | None = None
    queries: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    # The means over the run, by system.
    means: pl.DataFrame | None = None
    worst: int = 10
    _has_ids = True
    formula: str = ""
    # Of several queries.
    parts: Sequence[Explanation] = ()
    _details = ("metric", "system", "query", "value", "ideal", "items?", *EvaluatedTable._details)

    @property
    def table(self) -> pl.DataFrame:
        """The positions of the query, or the queries with the largest losses."""
        return self._frames()[0]

    @property
    def notes(self) -> list[str]:
        """Warnings and remarks, in sentences."""
        return self.result.notes

    @property
    def sql(self) -> str:
        """The query that computed the contributions."""
        return self.query_sql

    @property
    def sentences(self) -> list[str]:
        """The value and that of the ideal ranking, by system; of a query also the formula."""
        if self.parts:
            return [line for part in self.parts for line in part.sentences]
        if self.means is not None:
            return [self._value_of(row) for row in self.means.to_dicts()]
        system = "" if self.system is None else f"{text.escape_controls(self.system)}, "
        formula = f"{system}query {text.escape_controls(str(self.query))}: {self.formula}"
        return [formula, self._value_of({"value": self.value, "ideal": self.ideal})]

    def displayed(self) -> list[pl.DataFrame]:
        """The positions, or the queries and items with the largest losses."""
        return [drop_idle_columns(frame) for frame in self._frames()]

    def to_dict(self) -> dict[str, Any]:
        """The data with its metadata and notes, as plain values, without smaller losses."""
        short = None if self.items is None else self.items.head(self.worst)
        return super(Explanation, replace(self, items=short)).to_dict()

    def _frames(self) -> list[pl.DataFrame]:
        """The positions, or the queries and items with the largest losses."""
        if self.positions is not None:
            return [self.positions]
        return [f.head(self.worst) for f in (self.queries, self.items) if f is not None]

    def _value_of(self, row: Mapping[str, Any]) -> str:
        system, value = row.get("system"), row["value"]
        name = self.metric if system is None else f"{self.metric} of {text.escape_controls(system)}"
        if value is None:
            return f"{name} is undefined: no relevant item."
        return f"{name} is {value:z.4f}, that of the ideal ranking {row['ideal']:z.4f}."


# Smaller differences are rounding errors.
ROUNDING_ERROR = 1e-12

# The metrics that `explain` supports.
EXPLAINED = tuple(record.name for record in EVALUATED if record.explanation)
# Items can be missed by those of one ranking.
EVERY_METRIC = tuple(record.name for record in EVALUATED)


# The ranking next to the ideal ranking, then items of the ideal ranking beyond its end.
_POSITIONS = """
SELECT CAST(coalesce(ranked.place, best.ideal_pos) AS BIGINT) AS pos, ranked.item, ranked.rel,
    ranked.gain, {weight} AS {column}, ranked.contribution, best.item AS ideal_item,
    best.rel AS ideal_rel, best.ideal_contribution, CAST(ranked.ideal_pos AS BIGINT) AS ideal_pos,
    ranked.loss, coalesce(ranked.total, best.total) AS total, 0 AS outside
FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY gain DESC) AS nth
      FROM rankql_explained WHERE place IS NOT NULL) AS ranked
FULL JOIN (FROM rankql_explained WHERE ideal_pos IS NOT NULL) AS best
    ON ranked.place = best.ideal_pos AND ranked.nth = 1
UNION ALL
SELECT CAST(pos AS BIGINT), item, rel, gain, NULL, contribution, NULL, NULL, NULL,
    CAST(ideal_pos AS BIGINT), loss, total, 1
FROM rankql_explained WHERE place IS NULL AND ideal_pos IS NOT NULL
ORDER BY outside ASC, pos ASC NULLS LAST, ideal_pos ASC NULLS LAST"""

# Of all rankings: the losses by query and by item.
_LOSSES = """
SELECT {keys}, item, sum(ideal_contribution) AS ideal, sum(loss) AS loss,
    count(*) FILTER (WHERE abs(loss) > {least}) AS queries, grouping(item) = 1 AS whole
FROM rankql_explained {counted}
GROUP BY GROUPING SETS (({keys}), ({item}))
HAVING whole OR queries > 0"""


def _contributions_sql(evaluation: Evaluation, terms: MetricTerms, rows: Rows | None = None) -> str:
    """The steps up to `rankql_explained`: items with contributions and losses.

    rows: those that are read of items with gain; by default all rows of all items.
    """
    inputs, conventions, (metric,) = evaluation.inputs, evaluation.conventions, evaluation.metrics
    keys = inputs.keys
    group = f"OVER (PARTITION BY {keys})"
    # Items beyond the cutoff keep their positions, which order items of equal gain.
    without_cutoff = replace(metric, k=None)
    ctes = source_ctes(inputs, conventions)
    ctes |= ranking_ctes(inputs, [without_cutoff], conventions, rows or "all")
    rest = "" if inputs.qrels is None else f"SEMI JOIN queries USING ({keys})"
    if conventions.undefined == "drop":
        rest += f" QUALIFY count(*) FILTER (WHERE {evaluation.is_relevant()}) {group} > 0"
    ctes["gains"] = f"""
    SELECT {keys}, item, rel, pos, coalesce(CAST({terms.gain} AS DOUBLE), 0) AS gain
    FROM ranked {rest}"""
    counts = {
        "relevant": f"CAST(count(*) FILTER (WHERE gain > 0) {group} AS DOUBLE)",
        "retrieved": f"count(CASE WHEN {metric.k or 'pos'} >= pos THEN 1 END) {group}",
    }
    used = f"{terms.weight} {terms.cutoff} {terms.ideal_cutoff}"
    columns = "".join(f", {count} AS {name}" for name, count in counts.items() if name in used)
    ctes["counts"] = f"""
    SELECT *{columns} FROM gains"""
    cutoff, ideal_cutoff, pool = terms.cutoff, terms.ideal_cutoff, terms.ideal_pool
    ctes["places"] = f"""
    SELECT *, CASE WHEN {cutoff} IS NULL OR pos <= {cutoff} THEN CAST(pos AS DOUBLE) END
        AS place FROM counts {"WHERE gain <> 0" if rows else ""}"""
    # The rank in the ideal ranking is by gain, then by position in the run. Discounts of a list
    # need not increase: the smallest one comes first.
    ideal_pos, order = "rank", ["gain DESC", "pos ASC NULLS LAST", BY_ITEM]
    if terms.discounts:
        least = terms.discounts[: metric.k]
        places = sorted(range(1, len(least) + 1), key=lambda place: least[place - 1])
        ideal_pos = f"{literal(places)}[rank]"
        order.insert(1, f"{terms.discount.format(place='place')} ASC NULLS LAST")
    part = f"PARTITION BY {keys}, gain > 0 AND {pool}"
    rank = f"row_number() OVER ({part} ORDER BY {', '.join(order)})"
    ctes["ideals"] = f"""
    SELECT *, CASE WHEN {ideal_cutoff} IS NULL OR rank <= {ideal_cutoff} THEN {ideal_pos} END
        AS ideal_pos
    FROM (SELECT *, CASE WHEN gain > 0 AND {pool} THEN {rank} END AS rank
          FROM places)"""
    weight, ideal_weight = (_weight(terms, place, keys) for place in ("place", "ideal_pos"))
    total = f"sum(gain * {ideal_weight}) {group}" if terms.explanation.normalised else "1"
    ctes["worths"] = f"""
    SELECT *, {weight} AS weight, {ideal_weight} AS ideal_weight, {total} AS total FROM ideals"""
    ctes["rankql_explained"] = """
    SELECT *, ideal_contribution - contribution AS loss
    FROM (SELECT *, coalesce(gain * weight / total, 0) AS contribution,
                 coalesce(gain * ideal_weight / total, 0) AS ideal_contribution FROM worths)"""
    steps = {name: body.lstrip("\n") for name, body in ctes.items()}
    return with_ctes(steps, read_twice="rankql_explained")


def _weight(terms: MetricTerms, place: str, keys: str) -> str:
    """The weight of the position of each item, NULL beyond the cutoff."""
    order = f"PARTITION BY {keys} ORDER BY {place} ASC NULLS LAST"
    before = f"{order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    weight = (
        terms.weight.replace("{hits}", f"sum(gain) OVER ({order})")
        .replace("{left}", f"coalesce(product(1 - gain) OVER ({before}), 1)")
        .replace("{found}", f"count({place}) FILTER (WHERE gain > 0) OVER (PARTITION BY {keys})")
        .replace("{place}", place)
    )
    return f"CASE WHEN {place} IS NOT NULL THEN {weight} END"
