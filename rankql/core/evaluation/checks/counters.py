"""Counters: what rankings have, what runs and judgments have in common, and a closer look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import polars as pl

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import RankqlError, advise
from rankql.core.base.text import run_label, show_id
from rankql.core.evaluation.checks.looks import read_all
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.plan import QueryOverlap
from rankql.core.evaluation.reduce.fetch import run_reduction
from rankql.core.evaluation.reduce.reduce import Reduction
from rankql.core.metrics.macros import literal
from rankql.core.tables.tables import quote_name


class RankedRows(NamedTuple):
    """The rows of a system, and the scores or positions of those that have one."""

    system: str | None
    rows: int
    placed: int
    lowest: float | None
    highest: float | None
    # The most rows of a ranking.
    longest: int

    @property
    def is_constant(self) -> bool:
        """Are all the same, in rankings of several items?"""
        return self.lowest == self.highest and self.longest > 1


class ItemMatch(NamedTuple):
    """The items of a system and of the judgments, in the queries of both, and those in both."""

    system: str | None
    items: int
    judged: int
    common: int
    # If there is no common item: is that an error, and what is said.
    is_error: bool = False
    problem: str = ""

    @property
    def is_small(self) -> bool:
        """Are few items in both, or none?"""
        return self.common < FEW * min(self.items, self.judged)


@dataclass(frozen=True)
class Counters:
    """The counters of all systems, and whether something is wrong."""

    queries: Sequence[QueryOverlap]
    ranked: Sequence[RankedRows]
    # Those in both may be more: they are counted within the positions that are read, and not in
    # rankings whose tied items have no position.
    items: Sequence[ItemMatch]
    has_nan: bool = False
    # Does an item occur twice in the first positions? None if it was not looked at.
    repeats: bool | None = None
    # The attributes that are known to have one value per query, by table and column.
    unique: frozenset[tuple[str, str]] = frozenset()
    # Some queries that are judged, and systems with few judged items; None: not asked yet.
    judged_queries: Sequence[object] | None = None
    matches: Sequence[ItemMatch] | None = None


def read_counters(reduction: Reduction) -> Counters:
    """The counters in the rows of a reduction."""
    frame, inputs = reduction.frame, reduction.inputs
    checks = reduction.unique_checks.items() if frame.width else ()
    unique = frozenset(column for name, (column, _) in checks if frame[name].all())
    if not reduction.counts:
        return Counters(inputs.left_out, [], [], unique=unique)
    present, alone = pl.col("rows").is_not_null(), inputs.qrels is None
    judged = pl.col("judged").is_not_null() if not alone else pl.lit(True)
    both = present & judged
    columns = {
        "queries": present.sum(),
        "judged_queries": both.sum(),
        "unjudged": pl.col("query").filter(present & ~judged).unique().sort().head(3),
        "rows": pl.col("rows").sum(),
        "placed": pl.col("placed").sum(),
        "lowest": pl.col("lowest").min(),
        "highest": pl.col("highest").max(),
        "longest": pl.col("placed").max(),
        "items": pl.col("rows").filter(both).sum(),
        "judged_items": pl.col("judged").filter(both).sum() if not alone else pl.lit(0),
        "common": pl.col("common").filter(both).sum() if reduction.has("common") else pl.lit(0),
        "present": present.any(),
    }
    if frame["rows"].null_count() == 0 == frame["judged"].null_count():
        columns["unjudged"] = pl.lit(pl.Series([], dtype=frame.schema["query"]))
    if inputs.many:
        systems = frame.group_by("system").agg(**columns).sort("system")
    else:
        columns["unjudged"] = columns["unjudged"].implode()
        systems = frame.select(system=pl.lit(None, pl.String), **columns)
    rows: list[dict[str, Any]] = [x for x in systems.to_dicts() if x["present"]]
    highest = frame["highest"]
    nan = highest.dtype.is_float() and inputs.scored and highest.is_nan().any()
    # In a table with grades and positions, NULL means that an item was not retrieved.
    unranked = alone and not inputs.scored
    ranked = [RankedRows(*(x[name] for name in RankedRows._fields)) for x in rows]
    queries = [
        QueryOverlap(x["system"], x["queries"], x["judged_queries"], x["unjudged"]) for x in rows
    ]
    # If all judged items are NULL, as those below 0, the items are compared.
    items = [
        ItemMatch(x["system"], x["items"], x["judged_items"] or 1, x["common"])
        for x in rows if x["judged_queries"]
    ]  # fmt: skip
    return Counters(
        inputs.left_out if alone else queries,
        [] if unranked else ranked,
        items,
        bool(nan),
        reduction.repeats,
        unique,
    )


def count_rankings(evaluation: Evaluation) -> Counters:
    """The counters of runs and judgments."""
    return read_counters(run_reduction(Reduction(evaluation)))


# A smaller share of items in common is worth a note.
FEW = 0.05


def find_judged_queries(evaluation: Evaluation) -> Sequence[object] | None:
    """Some queries that are judged."""
    sql = "SELECT min(DISTINCT query, 3) FROM qrels WHERE item IS NOT NULL OR rel IS NOT NULL"
    ((queries,),) = evaluation.run_sql(sql)
    return None if queries is None else list(queries)


def item_overlap(evaluation: Evaluation) -> list[ItemMatch]:
    """Count the items of the run, of the judgments, and of both."""
    keys, system = evaluation.inputs.keys, "system" if evaluation.inputs.many else "NULL"
    sql = f"""SELECT {system}, sum(items), sum(judged), sum(common)
        FROM (SELECT {keys}, count(*) AS items, count(judged) AS common
              FROM (SELECT {keys}, item FROM run)
              LEFT JOIN (SELECT DISTINCT query, item, true AS judged FROM qrels)
              USING (query, item) GROUP BY {keys})
        JOIN (SELECT query, count(item) AS judged FROM qrels GROUP BY query)
        USING (query) GROUP BY ALL HAVING sum(items) > 0 ORDER BY 1"""
    return [ItemMatch(*row) for row in evaluation.run_sql(sql)]


# Queries are shifted by one if this share of the relevant items is found so.
SHIFTED = 0.5
# From so many judged queries on, that none has a judged item is no chance.
SEVERAL_QUERIES = 5


def match_items(evaluation: Evaluation, counters: Counters) -> list[ItemMatch]:
    """The systems with few judged items, unless most ids are the same, or with none."""
    matches = counters.items
    judged = {each.system: each.judged for each in counters.queries}
    qrels = evaluation.inputs.qrels
    if any(each.is_small for each in matches) or (qrels and qrels.empty):
        matches = item_overlap(evaluation)
    small = []
    for each in matches:
        if not each.judged:  # no item is relevant, and no other is listed
            continue
        if not each.common:
            problem = no_common_items(evaluation, each.system, judged[each.system])
            small.append(ItemMatch(*each[:4], *problem))
        elif each.is_small and not has_same_ids(evaluation, each.system):
            small.append(each)
    return small


def has_same_ids(evaluation: Evaluation, system: str | None) -> bool:
    """Are the ids of items those of the judgments, although few match for a query?"""
    named = evaluation.inputs.many and system is not None
    only = f"WHERE system = {literal(system)}" if named else ""
    ((items, judged, common),) = evaluation.run_sql(
        f"""SELECT count(*), (SELECT count(DISTINCT item) FROM qrels), count(known)
        FROM (SELECT DISTINCT item FROM run {only})
        LEFT JOIN (SELECT DISTINCT item, true AS known FROM qrels) USING (item)"""
    )
    return not ItemMatch(system, items, judged, common).is_small


def no_common_items(evaluation: Evaluation, system: str | None, queries: int) -> tuple[bool, str]:
    """Whether no item in common with so many judged queries is an error, and the message.

    It may be true of few queries, if no id is another one spelled differently, or that of a chunk.
    """
    inputs = evaluation.inputs
    assert inputs.qrels
    hints = describe_chunk(evaluation, system) or describe_spelling(evaluation, system)
    hints = hints or describe_grades(evaluation)
    judged, only = inputs.qrels.label, "" if system is None else f"AND system = {literal(system)}"
    is_error = queries >= SEVERAL_QUERIES or inputs.as_text("item") or bool(hints)
    is_error = is_error and inputs.none_judged != "zero"
    first = f"SELECT min(query) FROM run WHERE query IN (SELECT query FROM {judged}) {only}"
    items = f"SELECT min(query), min(item) FROM run WHERE query IN ({first}) {only}"
    ((query, item),) = evaluation.run_sql(items)
    other_items = f"SELECT min(item) FROM {judged} WHERE query IN ({first})"
    ((other_item,),) = evaluation.run_sql(other_items)
    spell = "rite item ids the same way in both, or name another column: item="
    remedies = [f"So its hits are 0. If this is not true, w{spell}", *hints]
    if is_error:
        others = [] if hints else describe_other_queries(evaluation, system)
        remedies = others or ["W" + spell, *hints]
    text = f"No item of {run_label(system)} is judged for its query: for query {query!r} the run "
    text += f"has item {show_id(item)}, {judged} has {show_id(other_item)}"
    return is_error, advise(text, *chain.from_iterable((". ", x) for x in remedies))


def describe_chunk(evaluation: Evaluation, system: str | None = None) -> list[str]:
    """A remedy if ids of the run look like chunks of judged items, as 'doc12#3' of 'doc12'."""
    runs = evaluation.inputs.runs.values()
    kinds = (table.columns[table.roles["item"]] for table in runs)
    if any(kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")) for kind in kinds):
        return []
    only = "" if system is None else f"WHERE system = {literal(system)}"
    chunk = (
        r"regexp_extract(CAST(item AS VARCHAR), '^(.*\w)([^\w\s]+|_+)\d+$', ['document', 'mark'])"
    )
    ((item, chunk_of),) = evaluation.run_sql(f"""
        SELECT min(item), arg_min(chunk, item)
        FROM (SELECT query, item, {chunk} AS chunk FROM run {only} LIMIT 10000) AS run
        SEMI JOIN qrels ON qrels.query = run.query AND run.chunk.mark <> ''
            AND CAST(qrels.item AS VARCHAR) = run.chunk.document""")
    if item is None:
        return []
    alike = f"Ids such as {item!r} look like chunks of judged items such as "
    alike += f"{chunk_of['document']!r}: pass "
    return [advise(alike, {"collapse": chunk_of["mark"]})]


def describe_grades(evaluation: Evaluation) -> list[str]:
    """What to write if the grades of a dict are ids of the run, and its keys those of a field."""
    qrels = evaluation.inputs.qrels
    assert qrels
    if qrels.shape != "map":
        return []
    number = "TRY_CAST(min(item) AS DOUBLE)"  # an id, and no name of a field
    fields = f"SELECT count(DISTINCT item) = 1 AND {number} IS NULL FROM qrels"
    same = "run.query = qrels.query AND TRY_CAST(run.item AS DOUBLE) = qrels.rel"
    sql = f"SELECT ({fields}), min(run.item) FROM run JOIN qrels ON {same}"
    ((one, item),) = evaluation.run_sql(sql)
    return [f"If {item} is an id, write {{query: [{item}]}}"] if one and item is not None else []


def describe_other_queries(evaluation: Evaluation, system: str | None) -> list[str]:
    """What to do if ids of the run are judged, but for other queries: the next ones, or any."""
    inputs, only = evaluation.inputs, "" if system is None else f"WHERE system = {literal(system)}"
    assert inputs.qrels
    number = "TRY_CAST({}.query AS BIGINT)".format
    known = f"SELECT {number('run')} - {number('qrels')} AS gap FROM (FROM run {only}) AS run "
    sql = f"{known} JOIN (FROM qrels WHERE {evaluation.is_relevant()}) AS qrels USING (item)"
    gaps = f"SELECT count(*), count(*) FILTER (gap = 1), count(*) FILTER (gap = -1) FROM ({sql})"
    ((judged, above, below),) = evaluation.run_sql(gaps)
    if not judged:
        return []
    text = "These ids are judged for other queries"
    names = [table.roles["query"] for table in (*inputs.runs.values(), inputs.qrels)]
    enough = max(SEVERAL_QUERIES, SHIFTED * judged)
    if len(inputs.runs) == 1 and max(above, below) >= enough:
        own, other = (f"CAST({quote_name(name)} AS BIGINT)" for name in names)
        call = [f"{own} {'-' if above > below else '+'} 1", other]
        return [advise(f"{text}, of the number before or after. Pass ", {"query": call})]
    return [f"{text}: if the run has no hit, none_judged='zero' keeps its values, which are 0"]


def describe_spelling(evaluation: Evaluation, system: str | None) -> list[str]:
    """A remedy if relevant ids are spelled differently in the run."""
    session, inputs = evaluation.session, evaluation.inputs
    for each in call_extra("look at ids", read_all(evaluation)):
        if each.system == system:
            repair = call_extra("describe repair", session, inputs, each.pairs)
            one, other = map(show_id, each.pairs[0])
            return [advise(f"Ids are spelled differently, such as {one} and {other}", repair)]
    return []


def format_examples(values: Sequence[object] | None) -> str:
    """A few values for an error."""
    return ", ".join(map(show_id, values or []))


def no_shared_items(evaluation: Evaluation, label: str, table: str) -> RankqlError:
    """The error about runs of which a table has no item: ids are probably written differently."""
    least = "min(DISTINCT item, 3)"
    sql = f"SELECT (SELECT {least} FROM run), (SELECT {least} FROM {table})"
    ((items, others),) = evaluation.run_sql(sql)
    return RankqlError(
        f"No item of the run is in {label}: the run has {format_examples(items)}, {label} has "
        f"{format_examples(others)}. Write item ids the same way in both"
    )
