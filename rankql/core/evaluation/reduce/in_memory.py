"""Small evaluations: polars writes the rows of a reduction in place of DuckDB.

DuckDB plans the query of a reduction in several milliseconds, whatever the tables hold. Up to
MOST_ROWS rows of a run and its judgments, which are frames or kept in memory when read, are
reduced here: the same columns of `protocol`, in all forms but "counters". Whatever follows reads
them as it reads those of DuckDB, and `.sql` shows the query. A test holds both equal.
"""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from rankql.core.evaluation.finish.ctes import last_position
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.reduce.reduce import Reduction
from rankql.core.tables.reader import HELD, numbers_in_memory

# DuckDB and its threads pay from more rows on.
MOST_ROWS = HELD
_KEY = ("query", "item")


def reduce_frames(reduction: Reduction) -> Reduction | None:
    """The reduction with its rows; None if DuckDB must write them."""
    inputs, evaluation = reduction.inputs, reduction.evaluation
    known = reduction.form in _FORMS and not (reduction.ideal_retrieved or reduction.of_hits)
    if not known or reduction.conventions.ties == "order":
        return None
    run = source_frame(evaluation, "run")
    qrels = source_frame(evaluation, "qrels") if inputs.qrels else run
    if run is None or qrels is None or run.height + qrels.height > MOST_ROWS:
        return None
    ranking = "score" if inputs.scored else "pos"
    place = pl.col(ranking)
    ids = [x for x in _KEY if x in run.columns]
    same = all(run.schema[x] == qrels.schema.get(x) for x in ids)
    if not same or (inputs.scored and "item" not in ids):
        return None
    if "rel" in run.columns and ((run["rel"] > 0) & run[ranking].is_null()).any():
        return None  # such an item may stand in another row
    ranked = _rank(run) if inputs.scored else run.filter(place.is_not_null())
    if inputs.qrels:
        rows = ranked.height
        ranked = ranked.join(qrels, on=_KEY, how="left", maintain_order="left")
        if ranked.height > rows:  # an item has two grades
            return None
    counters = run.group_by("query").agg(
        rows=pl.len(), placed=place.count(), lowest=place.min(), highest=place.max()
    )
    grades = range(1, reduction.end + 1)
    ideal = {f"ideal {x}": (pl.col("rel") == x).sum().cast(pl.Int64) for x in grades}
    judged = qrels.group_by("query").agg(judged=pl.col("rel").count(), **ideal)
    rankings = counters.join(_FORMS[reduction.form](reduction, ranked), on="query", how="left")
    frame = judged.join(rankings, on="query", how="full", coalesce=True).sort("query")
    if reduction.has("repeats"):  # those tied with the last one count too
        top = ranked.filter((pl.col("pos") <= reduction.k) | pl.col("equal"))
        frame = frame.with_columns(repeats=pl.lit(bool(top.select(_KEY).is_duplicated().any())))
    return replace(reduction, frame=frame, ranked=ranked)


def source_frame(evaluation: Evaluation, cte: str) -> pl.DataFrame | None:
    """The rows of the CTE run or qrels with standard columns; None if they are no simple frame."""
    inputs, rules = evaluation.inputs, evaluation.conventions
    others = inputs.many or inputs.by or inputs.where or inputs.extra or inputs.subtopics
    if others or inputs.attributes or rules.float32 or inputs.unjudged_queries == "count":
        return None
    table = inputs.qrels if cte == "qrels" else inputs.runs.get(None)
    frame = evaluation.session.frames.get(table.sql) if table else None
    if table is None or frame is None:
        return None
    roles = ("query", "item", "rel") if inputs.qrels is table or not inputs.qrels else _KEY
    roles = roles if cte == "qrels" else (*roles, "pos", "score")
    fields = list[pl.Series]()
    for role in [x for x in roles if x in table.roles]:
        column = frame[table.roles[role]]
        if role not in _KEY:
            number = numbers_in_memory(evaluation.session, table, column.name)
            if number is None or (role == "pos" and column.dtype.is_float()):
                return None
            if number.is_nan().any():  # DuckDB has the error
                return None
            is_lowest = role == "score" and table.ascending
            fields.append((0 - number if is_lowest else number).alias(role))
        elif column.dtype == pl.String or column.dtype.is_integer():
            kind = pl.String() if column.dtype == pl.String else pl.Int64()
            fields.append(column.cast(kind).alias(role))
        else:
            return None
    rows = pl.DataFrame(fields)
    return rows.filter(pl.col("rel").is_not_null()) if cte == "qrels" else rows


def _rank(run: pl.DataFrame) -> pl.DataFrame:
    """The rows with a score, their positions, and whether the one above has the same score.

    Equal scores are in the order of ties='item': items descending by the bytes of their text.
    """
    order = [pl.col("query"), pl.col("score"), pl.col("item").cast(pl.String)]
    ranked = run.filter(pl.col("score").is_not_null()).sort(order, descending=[False, True, True])
    keys = pl.col("query", "score")
    ranked = ranked.with_columns(
        row=pl.int_range(pl.len()), equal=pl.all_horizontal(keys.eq_missing(keys.shift(1)))
    )
    return ranked.with_columns(pos=(pl.col("row") - pl.col("row").first().over("query") + 1.0))


def _cuts(reduction: Reduction, joined: pl.DataFrame) -> pl.DataFrame:
    """The words of the judged items in the first k positions."""
    within = pl.col("pos") <= reduction.k
    top = joined.filter(pl.col("pos") <= reduction.k + 1)
    return top.group_by("query").agg(
        pl.col("equal").any().alias("tied"),
        pl.col("rel").filter(within).count().alias("common"),
        *_words(reduction, within & pl.col("rel").is_not_null()),
    )


def _all_items(reduction: Reduction, ranked: pl.DataFrame) -> pl.DataFrame:
    """The words of all items in the first k positions."""
    within = pl.col("pos") <= reduction.k
    if reduction.inputs.scored:
        flag = (pl.col("equal") & (pl.col("pos") <= reduction.k + 1)).any().alias("tied")
    else:
        flag = pl.col("pos").filter(within).is_duplicated().any().alias("shared")
    common = pl.col("rel").count().alias("common")
    return ranked.group_by("query").agg(common, flag, *_words(reduction, within))


def _lists(reduction: Reduction, joined: pl.DataFrame) -> pl.DataFrame:
    """The positions and grades of the items that metrics read."""
    read = pl.col("rel") > 0 if reduction.reads == "gain" else pl.col("rel").is_not_null()
    lists = [pl.col("pos").filter(read).alias("places"), pl.col("rel").filter(read).alias("rels")]
    if reduction.inputs.scored:
        below = pl.col("equal").shift(-1, fill_value=False)
        tied = ((pl.col("equal") | below) & read).any()
        flag = tied.alias("tied")
    else:
        k = last_position(reduction.evaluation.computed, reduction.conventions)
        shown = pl.col("pos") <= (math.inf if k is None else k)
        flag = pl.col("pos").filter(shown).is_duplicated().any().alias("shared")
    return joined.group_by("query").agg(read.sum().alias("common"), flag, *lists)


def _words(reduction: Reduction, inside: pl.Expr) -> list[pl.Expr]:
    """The words of the items of a ranking for which a condition holds."""
    words, fields = reduction.words, list[pl.Expr]()
    digit = (2 * pl.col("rel").fill_null(0) + 1).cast(pl.Int64)
    for name, first, last in words.spans():
        place = pl.col("pos").clip(first, last) - first
        shift = pl.lit(2, pl.Int64).pow(place.cast(pl.Int64) * words.bits)
        here = inside & pl.col("pos").is_between(first, last)
        fields.append((digit * shift).filter(here).bitwise_or().alias(name))
    return fields


_FORMS = {
    "cuts": _cuts, "joined": _all_items, "best": _all_items, "words": _all_items, "lists": _lists
}  # fmt: skip
