"""Metrics of shown items, such as Coverage@10 and Novelty@10.

These metrics are expressions over the ranked rows, which are joined with how popular an item is in
train, whether the user has it there, and whether it is in the catalogue. Metrics of a list have a
value per query, those of the catalogue one by system and slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from rankql.core.base.errors import RankqlError, require
from rankql.core.base.text import run_label
from rankql.core.evaluation.checks.counters import no_shared_items
from rankql.core.evaluation.finish.compute import Catalogue, Counts, Values
from rankql.core.evaluation.means.means import grouping_sets, slice_columns, sliced_attributes
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.evaluation.query import ctes
from rankql.core.evaluation.query.readable import own_metric
from rankql.core.evaluation.query.script import Script
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.private import create_macros
from rankql.core.tables.reader import fetch
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table

# The columns of ranked rows that metrics of shown items read.
USERS_OF, PLACE, SEEN, KNOWN = COLUMNS = [
    f"{INTERNAL_PREFIX}{name}" for name in ("users_of", "place", "seen", "known")
]
# Of each query: the items shown, those in train, and those that the user has there.
HIDDEN = {
    f"{INTERNAL_PREFIX}shown": "count(*)",
    f"{INTERNAL_PREFIX}popular": f"count({USERS_OF})",
    f"{INTERNAL_PREFIX}repeated": f"sum({SEEN})",
}
# Of the catalogue, by system and slice: the different items, and those that are in it.
COUNTED = {
    f"{INTERNAL_PREFIX}items": "count(DISTINCT item)",
    f"{INTERNAL_PREFIX}known": f"count(DISTINCT CASE WHEN {KNOWN} THEN item END)",
}


def require_sources(inputs: Inputs, metrics: Sequence[Metric], seen: str | None) -> None:
    """Refuse metrics whose tables are missing, and options without a metric that reads them."""
    needs_train = "needs the interactions of training. Pass train="
    of_shown = [metric for metric in metrics if metric.shown]
    require(seen is None or inputs.beyond.train is not None, f"seen={seen!r} {needs_train}")
    require(
        inputs.beyond.catalogue is None or any(map(reads_catalogue, of_shown)),
        "catalogue is an option of Coverage and Gini, such as Coverage@10. Write it in the metric "
        "of an expression: gini(item, catalogue := 500)",
    )
    has_ids, alone = inputs.every("item") and not inputs.numbered, inputs.beyond.train is None
    for metric in of_shown:
        assert metric.shown
        name, lacks_train = metric.name, alone and metric.shown.level == "list"
        require(has_ids, f"{name} needs ids of items. Name their column: item='...'")
        require(not lacks_train, f"{name} {needs_train}")
        uncounted = alone and inputs.beyond.catalogue is None and reads_catalogue(metric)
        sources = "Pass train=, or a table of them or their number as catalogue="
        require(not uncounted, f"{name} needs the items that could be shown. {sources}")


def reads_catalogue(metric: Metric) -> bool:
    """Does it read which items could be shown?"""
    return metric.shown is not None and "known" in metric.shown.of_shown


def add_training(evaluation: Evaluation) -> Evaluation:
    """The inputs with what is known of items, the metrics as expressions, and hidden ones.

    The hidden ones count what notes and errors are about.
    """
    session, metrics, users = evaluation.session, evaluation.metrics, 0
    inputs, rules = evaluation.inputs, evaluation.conventions
    if inputs.beyond.train:
        train = ctes.with_ctes(train_steps(inputs))
        place = f"row_number() OVER (ORDER BY {USERS_OF} DESC, item ASC NULLS LAST) AS {PLACE}"
        pairs = "SELECT DISTINCT query, item FROM train"
        counts = f"SELECT item, count(*) AS {USERS_OF} FROM ({pairs}) GROUP BY item"
        popular = f"{train}SELECT *, {place} FROM ({counts})"
        inputs = inputs.with_beyond(popular=load_query(session, "popular", popular).sql)
        ((users,),) = fetch(session, f"{train}SELECT count(DISTINCT query) FROM train")
    size = 0
    if any(map(reads_catalogue, metrics)):
        inputs, size = _load_catalogue(session, inputs, rules)
    expressed = []
    for metric in metrics:
        if metric.shown:
            options = {x: literal(metric.value(x, vars(rules))) for x in metric.shown.options}
            options |= {"k": str(metric.k), "size": str(size), "train_users": str(users)}
            options |= {column.removeprefix(INTERNAL_PREFIX): column for column in COLUMNS}
            metric = replace(metric, expression=metric.shown.of_shown.format(**options))
        expressed.append(metric)
    k = cutoff(metrics)
    counted = HIDDEN.items() if inputs.beyond.train else ()
    hidden = [Metric(None, k, label=x, expression=sql) for x, sql in counted]
    return replace(evaluation, inputs=inputs, metrics=expressed, hidden=hidden)


def cutoff(metrics: Sequence[Metric]) -> int | None:
    """The last position that is read; of other metrics, the highest cutoff."""
    cutoffs_of_shown = [metric.k for metric in metrics if metric.shown]
    cutoffs = [k for k in cutoffs_of_shown or [metric.k for metric in metrics] if k is not None]
    return None if len(cutoffs) < len(cutoffs_of_shown) else max(cutoffs, default=None)


def load_query(session: Session, label: str, sql: str) -> Table:
    """A temporary table of a query, which the SQL of the result has without private names."""
    table = session.load(label, f"(\n{create_macros(session.con, sql)}\n)", text=False)
    name = [*session.loaded][-1]
    session.loaded[name] = f"CREATE TEMP TABLE {quote(name)} AS\n{sql}"
    return table


def _load_catalogue(
    session: Session, inputs: Inputs, conventions: Conventions
) -> tuple[Inputs, int]:
    """The inputs with the items that could be shown, and their number.

    They are those of catalogue=, or of train and of judgments in a table of their own.
    """
    table = inputs.beyond.catalogue
    if isinstance(table, int):
        return inputs.with_beyond(size=f"{table:,}"), table
    if table is not None:
        sql, of = f"SELECT DISTINCT item FROM {inputs.rows(table, 'item')}", ""
    else:
        sql, of = f"SELECT item FROM {inputs.beyond.popular}", " of train"
        if inputs.qrels:
            steps = ctes.with_ctes(ctes.source_ctes(inputs, conventions))
            sql = f"{steps}{sql} UNION SELECT item FROM qrels WHERE rel IS NOT NULL"
            of = " of train and qrels"
    known = load_query(session, "catalogue", sql).sql
    ((size,),) = fetch(session, f"SELECT count(*) FROM {known}")
    return inputs.with_beyond(known=known, size=f"{size:,}{of}"), size


def train_steps(inputs: Inputs) -> dict[str, str]:
    """The interactions of training with standard names, as a step."""
    assert inputs.beyond.train
    fields = [f"{value} AS {x}" for x, value in inputs.fields(inputs.beyond.train).items()]
    return {"train": ctes.select_from(inputs.beyond.train.sql, fields)}


def write_catalogue_query(script: Script, metrics: Sequence[Metric]) -> tuple[list[str], str]:
    """The query of metrics of the catalogue with one cutoff, by system and slice; their names."""
    inputs, conventions = script.inputs, script.conventions
    meta = Meta("", [], {}, inputs.many, [*inputs.by], [[*group] for group in script.groupings])
    attributes = sliced_attributes(meta)
    label, _ = slice_columns(attributes)
    of_shown, steps = all(metric.shown for metric in metrics), ctes.source_ctes(inputs, conventions)
    steps |= ctes.ranking_ctes(inputs, metrics, conventions, "shown" if of_shown else "all")
    values = {metric.name: own_metric(metric) for metric in metrics}
    if any(map(reads_catalogue, metrics)):
        values |= COUNTED
    columns = [inputs.keys.replace("query", f"{label} AS slice"), *values.values()]
    sets = grouping_sets(meta, attributes, ())
    rest = f"{ctes.within(metrics[0].k)} GROUP BY GROUPING SETS ({sets})"
    # The ranked rows of queries that count, with one value of each attribute of a query.
    own = ", ".join(map(inputs.attribute, inputs.attributes_in("run")))
    rows = f"(SELECT * EXCLUDE ({own}) FROM ranked)" if own and not inputs.qrels else "ranked"
    if inputs.qrels:
        rows += f" JOIN {ctes.attributes_by_query(inputs, 'qrels')} USING (query)"
    for cte in ("run", "attributes"):
        if inputs.attributes_in(cte):
            rows += f" LEFT JOIN {ctes.attributes_by_query(inputs, cte)} USING (query)"
    sql = ctes.select_from(rows, columns, rest)
    return [*values], ctes.with_ctes(join_items(inputs, steps, sql)) + sql


def join_items(inputs: Inputs, steps: Mapping[str, str], read: str) -> dict[str, str]:
    """The steps; ranked rows get what is known of their items, if the SQL in `read` has it."""
    if not any(name in read for name in COLUMNS):
        return dict(steps)
    steps = {ctes.ITEMS if name == "ranked" else name: body for name, body in steps.items()}
    rows, fields = ctes.ITEMS, ["*"]
    if USERS_OF in read or PLACE in read:
        rows += f" LEFT JOIN {inputs.beyond.popular} USING (item)"
    if SEEN in read:
        steps |= train_steps(inputs)
        both = f"train SEMI JOIN {ctes.ITEMS} USING (query, item)"
        steps["seen"] = ctes.select_from(both, [f"DISTINCT query, item, 1 AS {SEEN}"])
        rows += " LEFT JOIN seen USING (query, item)"
    if KNOWN in read:
        known = (
            f"item IN (SELECT item FROM {inputs.beyond.known})" if inputs.beyond.known else "true"
        )
        fields.append(f"{known} AS {KNOWN}")
    return steps | {"ranked": ctes.select_from(rows, fields)}


def count_seen(evaluation: Evaluation, values: Values) -> Values:
    """The values without hidden metrics, which count the items that are in train.

    Refuses runs without any item of train, if a metric reads it.
    """
    frame = values.per_query
    items_shown, popular, repeated = HIDDEN
    reads = any(metric.shown for metric in evaluation.metrics)
    if reads and frame[items_shown].sum() and not frame[popular].sum():
        raise no_shared_items(evaluation, "train", evaluation.inputs.beyond.popular)
    visible = [name for name in frame.columns if name not in HIDDEN]
    names = frame["system"] if evaluation.inputs.many else pl.lit(None)
    sums = frame.select(system=names, n=items_shown, seen=repeated).group_by("system")
    rows = sums.agg(pl.col("n", "seen").sum()).sort("system").rows()
    seen = {system: (int(n), int(seen or 0)) for system, n, seen in rows}
    return replace(values, per_query=frame[visible], seen=seen)


def add_catalogue(evaluation: Evaluation, values: Values) -> Values:
    """The values with those of metrics of the catalogue."""
    of_slices: Catalogue = {}
    items: Counts = {}
    for names, sql in evaluation.script.catalogue_queries:
        for row in fetch(evaluation.session, sql, True):
            *system, part = row[: 1 + evaluation.inputs.many]
            place = {"system": system[0] if system else None, "slice": part}
            numbers = dict(zip(names, row[1 + evaluation.inputs.many :], strict=True))
            if COUNTED.keys() <= numbers.keys():
                total, known = (int(numbers.pop(name)) for name in COUNTED)
                if part == "all":
                    before = items.get(place["system"], (0, 0))
                    items[place["system"]] = max(before, (total, known))
            for name, value in numbers.items():
                if value is not None and not math.isfinite(value):
                    raise RankqlError(f"metrics: {name} is {value:g}, but must be a finite number")
                of_slices.setdefault(name, []).append(place | {"value": value})
    if items and not any(known for _, known in items.values()):
        raise no_shared_items(evaluation, "catalogue", evaluation.inputs.beyond.known)
    size = evaluation.inputs.beyond.catalogue
    for which, (total, _) in items.items():
        if isinstance(size, int) and total > size:
            raise RankqlError(
                f"catalogue={size} is less than the {total:,} items that {run_label(which)} "
                "shows. Pass the number of items that could be shown, or a table of them"
            )
    return replace(values, catalogue=of_slices, outside=items)
