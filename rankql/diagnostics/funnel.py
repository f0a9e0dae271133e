"""funnel: which stage of a ranking pipeline loses how much nDCG, and which relevant items."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import duckdb
import polars as pl

from rankql.core.base import text
from rankql.core.base.column_names import ROLES
from rankql.core.base.errors import RankqlError, require, require_package, require_whole_number
from rankql.core.base.results import Chart, draw_chart
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.checks.counters import count_rankings
from rankql.core.evaluation.checks.duplicates import require_unique_rows
from rankql.core.evaluation.checks.rankings import RANKINGS
from rankql.core.evaluation.checks.record import Evidence, inspect
from rankql.core.evaluation.evaluate import evaluate
from rankql.core.evaluation.finish.compute import evaluation_errors
from rankql.core.evaluation.plan.columns import validate_columns
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import read_rankings
from rankql.core.evaluation.query.ctes import number_positions
from rankql.core.evaluation.query.ties import score_order
from rankql.core.evaluation.result.result import EvaluatedTable, Result
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal
from rankql.core.tables.reader import fetch_frame
from rankql.core.tables.request import EvaluationOptions, RankingRules, Request, parse_groupings
from rankql.core.tables.session import Session, open_session
from rankql.core.tables.tables import Data, Table, require_column
from rankql.features.filters import is_separator
from rankql.shapes.unpack.lists import unnest_lists

# The name of the last loss, which is that of the order of the final ranking.
ORDER = "order"
# A stage is said to lose most if its loss exceeds each other one at this level, over the queries.
ALPHA = 0.05
# Smaller losses are rounding errors.
ROUNDING = 1e-9
_SCHEMA = {
    **{"slice": pl.String, "stage": pl.String},
    **dict.fromkeys(("loss", "lo", "hi", "own", "after", "recall"), pl.Float64),
    **dict.fromkeys(("lost", "added", "queries"), pl.Int64),
}
# Stages need no score of their own: their items are put into the best order.
_SCORE = f"{INTERNAL_PREFIX}stage_score"
_KEY, _ITEM = f"{INTERNAL_PREFIX}query", f"{INTERNAL_PREFIX}item"
# The means of a funnel are over the queries with a relevant item, whatever the stages lack.
_FIXED: dict[str, Any] = {"undefined": "skip", "missing": "zero"}


@remember_inputs
def funnel(
    stages: Mapping[str, Data] | Sequence[Data],
    qrels: Data | None = None,
    k: int = 10,
    *,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    confidence: float = 0.95,
    **options: Unpack[EvaluationOptions],
) -> Funnel:
    """Show how much nDCG@k each stage of a pipeline loses, and which relevant items.

    Let C_s be the best nDCG@k that the items of stage s allow, and C_0 = 1. The losses sum to 1 -
    nDCG@k, for every query and in the mean::

        loss of stage s = C_(s-1) - C_s        loss of the order = C_last - nDCG@k

    Each relevant item is lost by the stage after the last one that has it, or by the order if it is
    below position k. A stage may have items that the one before lacks: they are counted as added,
    and can make its loss negative. Queries without a relevant item are left out; a stage that lacks
    a query loses all of it.

    Parameters
    ----------
    stages : dict or list
        The items after each stage, such as {"retrieval": ..., "rerank": ...}, each a table with one
        list of ids per query, or with one row per query and item; or one table of rows with their
        stage in the column `system`, in the order in which they occur.

        Without qrels, each table also has the list of relevant ids. Of rows, the last stage is the
        final ranking and needs scores or positions; the others need none.
    k : int
        Cutoff of nDCG.
    qrels, by, attributes, con, confidence, **options
        As in `evaluate`.

    Examples
    --------
    >>> import polars as pl
    >>> qrels = pl.DataFrame({"query": 1, "item": ["a", "b"], "rel": [1, 1]})
    >>> retrieval = pl.DataFrame({"query": 1, "item": ["x", "a"]})
    >>> rank = retrieval.with_columns(pos=pl.Series([1, 2]))
    >>> funnel({"retrieval": retrieval, "rank": rank}, qrels).table.select("stage", "loss", "lost")
    shape: (3, 3)
    ┌───────────┬──────────┬──────┐
    │ stage     ┆ loss     ┆ lost │
    │ ---       ┆ ---      ┆ ---  │
    │ str       ┆ f64      ┆ i64  │
    ╞═══════════╪══════════╪══════╡
    │ retrieval ┆ 0.386853 ┆ 1    │
    │ rank      ┆ 0.0      ┆ 0    │
    │ order     ┆ 0.226294 ┆ 0    │
    └───────────┴──────────┴──────┘
    """
    require_package("scipy", "stats", "funnel")
    require_whole_number("k", k, 1)
    system: Any = options.get("system")
    if system is not None and not isinstance(stages, Mapping | list | tuple):
        with open_session(con, stages) as session:
            table = session.table(stages, "stages")
            require_column(table, system, "system")
            rows = fetch_frame(session, f"FROM {table.sql}")
        parts = rows.partition_by(system, as_dict=True, maintain_order=True, include_key=False)
        stages = {str(name): part for (name,), part in parts.items()}
        options.pop("system")
    if isinstance(stages, list | tuple):
        stages = {f"stage {i}": data for i, data in enumerate(stages, 1)}
    valid = isinstance(stages, Mapping) and stages and all(isinstance(x, str) and x for x in stages)
    require(bool(valid), "stages must be a dict of name: table, or a list of tables, at least one")
    require(ORDER not in stages, f"The name {ORDER!r} is taken by the loss of the order. Rename "
            "the stage")  # fmt: skip
    named = dict(stages)
    for name in ("system", "unjudged_queries", "none_judged", *_FIXED):
        require(options.get(name) is None, f"funnel has no option {name}=. Pass the stages of one "
                "system: every query with a relevant item counts")  # fmt: skip
    for name in ("groups", "forbidden"):
        require(options.get(name) is None, f"funnel has no option {name}=: nDCG counts each "
                "relevant item. Leave it out")  # fmt: skip
    rules = RankingRules.of(options, funnel)
    settings = replace(rules.conventions, **_FIXED)
    roles = {name: rules.columns[name] for name in ("query", "item", "rel")}
    ordering = {name: rules.columns[name] for name in ("score", "pos")}
    rest: dict[str, Any] = {k: v for k, v in options.items() if k not in ROLES} | _FIXED
    rest["unjudged_queries"] = "skip"  # no note offers the other
    with open_session(con, named, qrels, attributes) as session:
        opened: dict[str | None, Table] = {
            name: session.table(data, f"stage {name!r}") for name, data in named.items()
        }
        *others, last = named
        kept = [*itertools.chain(*parse_groupings(by))]
        given = None if qrels is None else session.table(qrels, "qrels")
        tables, judged, columns = unnest_lists(opened, given, roles, kept)
        if judged is None:
            raise RankqlError(
                "The judgments are missing. Pass qrels=, or stages with lists of retrieved and of "
                "relevant ids"
            )
        # What is decided over all stages holds for each.
        tables = {name: replace(table, unnested=True) for name, table in tables.items()}
        judged = replace(judged, unnested=True)
        rules = replace(rules, columns={**columns, **ordering})
        if _has_documents(session, tables[last], judged, rules):
            rules = replace(rules, collapse=None, positions=None)
            rest |= {"collapse": None, "positions": None}
        final_run = read_rankings(session, Request(tables[last], judged, (), rules))
        scored = {name: x.with_column(_SCORE, "0.0", "DOUBLE") for name, x in tables.items()}
        unordered = replace(
            rules, columns={**columns, "score": _SCORE}, descending=None, order=None,
            collapse=options.get("collapse"), positions=None,
        )  # fmt: skip
        inputs = read_rankings(session, Request(scored, judged, (), unordered))
        ranked = final_run.runs[None]
        ranking = f"-({ranked.number('pos')})" if "pos" in ranked.roles else ranked.number("score")
        ranked = ranked.with_column(_SCORE, ranking, "DOUBLE")
        ids = {role: ranked.roles[role] for role in ("query", "item")}
        ranked = replace(ranked, roles={**ids, "score": _SCORE}, ascending=False)
        inputs = replace(inputs, runs={**inputs.runs, last: ranked})
        evaluation = Evaluation(session, inputs, settings)
        with evaluation_errors(evaluation):
            validate_columns(final_run)  # by the names of its own columns
            validate_columns(inputs)
            for table in inputs.runs.values():
                alone = replace(evaluation, inputs=replace(inputs, runs={None: table}))
                require_unique_rows(alone, [("run", "item", "")])
        shared = {"by": by, "attributes": attributes, "con": session.con, **columns, **rest}
        shared |= {"qrels": judged, "metrics": f"nDCG@{k}"}
        final = evaluate(tables[last], confidence=confidence, **ordering, **shared)
        ranked_stages = {last: final}
        for name in others:
            with suppress(RankqlError):  # not ranked, or not in one order
                ranked_stages[name] = evaluate(tables[name], interval=None, **shared)
        with evaluation_errors(evaluation):
            evidence = Evidence(evaluation, count_rankings(evaluation))
            notes = inspect([x for x in RANKINGS if x.name == "no-common-items"], evidence)
            options_of_best = {k: v for k, v in rest.items() if k not in ("collapse", "positions")}
            best = _evaluate_best_orders(evaluation, k, options_of_best)
            items = _find_lost_items(evaluation, k, final_run.scored)
            added = _count_added_items(evaluation, [*named])
    used = {
        table.label: {role: x for role, x in table.role_columns.items() if x != _SCORE}
        for table in inputs.tables
    }
    for stage in ranked_stages.values():  # with what ranks it
        used |= stage.columns
    notes = list(dict.fromkeys([*final.data_notes, *inputs.notes, *notes]))
    final = replace(final, data_notes=notes, columns=used)
    items = items.rename({"query": final.meta.query})
    own = {x: dict(y.means.select("slice", "mean").rows()) for x, y in ranked_stages.items()}
    return Funnel(_combine(final, best, [*named], added), [*named], k, items, added, own)


@dataclass(repr=False, eq=False)
class Funnel(EvaluatedTable):
    """The result of `funnel`.

    `table` has one row per slice and stage, and one for the order: the loss with its confidence
    interval, nDCG@k of the stage in its `own` order, if it has one, the best nDCG@k that is
    possible `after` it, the recall of the stage, the number of relevant items that it loses, and of
    items that it adds. `items` has the relevant items, with
    their position in the final ranking and the stage that loses them. `per_query` has all losses.
    """

    result: Result
    stages: Sequence[str]
    k: int
    # query, item, rel, position, lost_by.
    items: pl.DataFrame
    # The number of items that the stage before lacks.
    added: Mapping[str, int]
    # nDCG@k by stage and slice, of the stages that have an order.
    own: Mapping[str, Mapping[str, float | None]]
    _details = ("k", "items", *EvaluatedTable._details)
    _page_chart = "draw_funnel"

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.result.metrics[0]

    @cached_property
    def table(self) -> pl.DataFrame:
        """The losses, one row per slice and stage."""
        means = {(row["slice"], row["metric"]): row for row in self.summary.iter_rows(named=True)}
        names = [*self.stages, ORDER]
        lost = dict(self.items["lost_by"].drop_nulls().value_counts().rows())
        # With negative grades, nDCG has no lower bound.
        highest = 1.0 if self.result.conventions["negative"] == "zero" else math.inf
        rows = []
        for part in dict.fromkeys(part for part, _ in means):
            losses: list[float] = []
            for stage in names:
                loss = means[part, loss_of(stage)]
                losses.append(loss["mean"] or 0.0)
                after = None if loss["mean"] is None else 1 - min(highest, math.fsum(losses))
                recall = None if stage == ORDER else means[part, recall_of(stage)]["mean"]
                rows.append({
                    "slice": part, "stage": stage, "loss": loss["mean"],
                    "lo": loss["lo"],
                    "hi": loss["hi"],
                    "own": self.own.get(stage, {}).get(part),
                    "after": means[part, self.metric]["mean"] if stage == ORDER else after,
                    "recall": recall,
                    "lost": lost.get(stage, 0) if part == "all" else None,
                    "added": self.added.get(stage, 0) if part == "all" else None,
                    "queries": loss["queries"] - loss["undefined"],
                })  # fmt: skip
        return pl.DataFrame(rows, schema=_SCHEMA)

    @property
    def notes(self) -> list[str]:
        """What to know about the numbers."""
        lacking = "that the stage before lacks: its loss may be negative"
        counts = {stage: text.format_count(count, "item") for stage, count in self.added.items()}
        added = (f"{stage} has {count} {lacking}" for stage, count in counts.items())
        return [*self.result.notes, *added]

    @property
    def title(self) -> str:
        """Where most is lost, in one line."""
        rows = self.table.filter(pl.col("slice") == "all").drop_nulls("loss")
        if rows.is_empty():
            return f"{self.metric} is undefined: no query has a relevant item"
        value = rows["after"][-1]
        start = f"{self.metric} is {_format(value)}"
        if (rows["loss"] <= ROUNDING).all():
            return f"{start}: nothing is lost"
        alike, losses = self._find_worst(rows), dict(rows.select("stage", "loss").rows())
        stages = [x for x in alike if losses[x] > ROUNDING]
        names = ["the order of the final ranking" if x == ORDER else x for x in stages]
        subject = text.join_words(names).replace("the order", "The order", names[0] != stages[0])
        lost = text.join_words([_format(losses[x]) for x in stages])
        unclear = len(stages) < len(alike)
        nothing = all(abs(y) <= ROUNDING for x, y in losses.items() if x not in stages)
        if unclear and nothing and len(stages) == 1:
            queries = self.result.frame()[loss_of(stages[0])].drop_nulls()
            count = f"{(queries.abs() > ROUNDING).sum():,} of {text.format_queries(len(queries))}"
            return f"{start}. {subject} loses {lost}, the others nothing ({count}, not significant)"
        lose = "loses" if len(stages) == 1 else "lose"
        more = ", not significantly more than the others" * unclear
        return f"{start}. {subject} {lose} most: {lost}{more}"

    def _find_worst(self, rows: pl.DataFrame) -> list[str]:
        """The stage that loses most, and those whose losses chance may have made smaller."""
        from rankql.core.stats.sample import Sample
        from rankql.core.stats.tests import TESTS, run_family

        worst, *others = rows.sort("loss", descending=True, maintain_order=True)["stage"]
        values, test = self.result.frame(), TESTS["auto"](0, 0)
        excess = [values[loss_of(worst)] - values[loss_of(x)] for x in others]
        samples = [Sample(x.drop_nulls().to_numpy()) for x in excess]
        results = run_family(samples, test, "holm", ALPHA)
        p_values = (1.0 if x.p_adjusted is None else x.p_adjusted for x in results)
        return [worst, *(x for x, p in zip(others, p_values, strict=True) if p > ALPHA)]

    def plot(self) -> Chart:
        """A waterfall chart from the ideal to the final ranking, by altair."""
        return draw_chart("draw_funnel", self)


def _format(value: float) -> str:
    """Three decimals, or three digits of a small number."""
    return f"{value:.3f}" if value >= 0.001 else text.format_number(value)


def loss_of(stage: str) -> str:
    """The name of the loss of a stage among the metrics of the result."""
    return f"loss: {stage}"


def recall_of(stage: str) -> str:
    """The name of the recall of a stage among the metrics of the result."""
    return f"recall: {stage}"


def _has_documents(session: Session, table: Table, qrels: Table, rules: RankingRules) -> bool:
    """Are the ids of the final ranking documents already, without the separator of chunks?"""
    mark = rules.collapse
    if mark is None or not is_separator(mark) or table.has(mark):
        return False
    plain = replace(rules, collapse=None, positions=None)
    run = read_rankings(session, Request(table, qrels, (), plain)).runs[None]
    return not run.value(f"bool_or(contains({run.key('item', True)}, {literal(mark)}))")


def _evaluate_best_orders(
    evaluation: Evaluation, k: int, options: Mapping[str, Any]
) -> pl.DataFrame:
    """nDCG@k and recall of the items of every stage in the best order, where there are any.

    It is an order without ties, which would be computed one ranking after another.
    """
    session, qrels = evaluation.session, evaluation.inputs.qrels
    best = evaluation.run_frame(
        f"""SELECT system, query AS {_KEY}, item AS {_ITEM},
               -row_number() OVER (PARTITION BY system, query ORDER BY rel DESC) AS {_SCORE}
        FROM run JOIN qrels USING (query, item)
        WHERE rel > 0 OR {evaluation.is_relevant()}"""
    )
    metrics = {"best": f"nDCG@{k}", "recall": "R"}
    if best.is_empty() or qrels is None:
        texts = dict.fromkeys(("system", "query"), pl.String)
        return pl.DataFrame(schema=texts | dict.fromkeys(metrics, pl.Float64))
    roles = qrels.roles
    table = replace(session.register("best", best), unnested=True)
    result = evaluate(
        table, qrels, [*metrics.values()], system="system", con=session.con, interval=None,
        query=(_KEY, roles["query"]), item=(_ITEM, roles["item"]), rel=roles["rel"],
        score=_SCORE, **options,
    )  # fmt: skip
    return result.per_query.select(
        "system",
        pl.col(result.meta.query).cast(pl.String).alias("query"),
        *(pl.col(metric).alias(name) for name, metric in zip(metrics, result.metrics, strict=True)),
    )


def _find_lost_items(evaluation: Evaluation, k: int, scored: bool) -> pl.DataFrame:
    """The relevant items, and the stage that loses each: NULL if it is in the first k."""
    names, conventions = [*map(str, evaluation.inputs.runs)], evaluation.conventions
    position = "CAST(-score AS BIGINT) AS pos"
    if scored or conventions.unjudged == "remove":
        ties = "item" if conventions.ties == "expected" or not scored else conventions.ties
        position = number_positions("query", score_order(ties))
    judged_only = "AND rel IS NOT NULL" if conventions.unjudged == "remove" else ""
    return evaluation.run_frame(
        f""", ranking AS (
            SELECT query, item, {position} FROM run LEFT JOIN qrels USING (query, item)
            WHERE system = {literal(names[-1])} {judged_only}
        ), relevant AS (
            SELECT query, item, rel, coalesce(max({_stage_number(names)}), 0) AS stages,
                   any_value(pos) AS position
            FROM qrels LEFT JOIN run USING (query, item) LEFT JOIN ranking USING (query, item)
            WHERE {evaluation.is_relevant()} GROUP BY query, item, rel
        )
        SELECT query, item, rel, position, CASE
            WHEN stages < {len(names)} THEN [{", ".join(map(literal, names))}][stages + 1]
            WHEN position IS NULL OR position > {k} THEN {literal(ORDER)} END AS lost_by
        FROM relevant ORDER BY query, item"""
    )


def _count_added_items(evaluation: Evaluation, names: Sequence[str]) -> dict[str, int]:
    """The number of items of each stage that the stage before lacks."""
    stage = _stage_number(names)
    rows = evaluation.run_sql(
        f"""SELECT stage, count(*) FROM (SELECT query, item, {stage} AS stage FROM run) AS later
        WHERE stage > 1 AND NOT EXISTS (
            SELECT 1 FROM (SELECT query, item, {stage} AS stage FROM run) AS before
            WHERE before.query = later.query AND before.item = later.item
              AND before.stage = later.stage - 1
        ) GROUP BY stage"""
    )
    return {names[stage - 1]: count for stage, count in rows}


def _stage_number(names: Sequence[str]) -> str:
    """The number of the stage of a row as SQL, from 1."""
    cases = (f"WHEN {literal(name)} THEN {i}" for i, name in enumerate(names, 1))
    return f"CASE system {' '.join(cases)} END"


def _combine(
    final: Result, best: pl.DataFrame, names: Sequence[str], added: Mapping[str, int]
) -> Result:
    """nDCG@k, the losses and the recall of the stages for every query, as one result."""
    key, (metric,) = final.meta.query, final.metrics
    known = {MISSING: pl.lit(False), _KEY: pl.col(key).cast(pl.String)}
    rows = final.frame().with_columns(**known)
    defined = pl.col(metric).is_not_null()
    before: pl.Expr = pl.lit(1.0)
    columns: dict[str, pl.Expr] = {}
    for i, name in enumerate(names):
        stage = best.filter(pl.col("system") == name).select(
            pl.col("query").alias(_KEY), pl.col("best", "recall").name.suffix(f" {i}")
        )
        rows = rows.join(stage, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        after = pl.when(defined).then(pl.col(f"best {i}").fill_null(0.0))
        columns[loss_of(name)] = before - after
        columns[recall_of(name)] = pl.when(defined).then(pl.col(f"recall {i}").fill_null(0.0))
        before = after
    columns[loss_of(ORDER)] = before - pl.col(metric)
    rows = rows.select(key, *final.meta.by, metric, MISSING, **columns)
    meta = replace(final.meta, metrics=[metric, *columns], metric_weights={}, ranges={
        # With negative grades, nDCG has no lower bound.
        loss_of(x): (-1.0 if added.get(x) else 0.0, 1.0)
        for x in (*names, ORDER) if final.conventions["negative"] == "zero"
    })  # fmt: skip
    return replace(final, meta=meta, values=rows, _summary=None)
