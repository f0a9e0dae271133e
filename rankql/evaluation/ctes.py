"""The CTEs of the query: runs, judgments and attributes, ranked, joined and cut.

Rankings by score are cut at the k-th score before they are joined with the judgments. For nDCG@10
this takes as long as 1.25 plain joins, or less in large runs: see `judged_ranks`.
Duplicates are found by hashes of all rows, which spill to disk: 2.8 sums; `count(DISTINCT item)`
took 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from rankql.evaluation.judged_ranks import (
    CANDIDATES,
    RANKS,
    judged_rank_ctes,
    suit_lists,
    suit_top_lists,
    top_rank_ctes,
)
from rankql.evaluation.metric_columns import last_position, needs_scores
from rankql.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session
from rankql.sources.tables import Table

# The order of equal scores: items descending by the bytes of their text, as in trec_eval.
BY_ITEM = "encode(CAST(item AS VARCHAR)) DESC"
# The order of tied items: by the bytes of the item, by row, or by their gain.
TIE_ORDERS = {
    "item": BY_ITEM,
    "order": "line ASC",
    "best": f"coalesce(rel, 0) DESC, rel IS NULL ASC, {BY_ITEM}",
    "worst": f"coalesce(rel, 0) ASC, rel IS NULL DESC, {BY_ITEM}",
}
# The highest k of max(score, k).
HIGHEST_K = 999_999
# The CTE with the best scores of each ranking, which is read twice.
CUTS = "cuts"
# The CTE with the lists of the best of each ranking, which is read twice.
BEST = "best"
# The number of judged rows of a query, in the CTE `queries`.
JUDGED_ROWS = f"{INTERNAL_PREFIX}judged"
# How an error about scores begins. evaluate() then looks for the table.
NO_SCORE = "a score is NaN"
# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels WHERE qrels.query = run.query AND qrels.item = run.item)"
)

# Runs SQL on the CTEs of the sources and returns its rows. That of `sql_runner` also
# takes `part`, a condition on {query}.
RunSql: TypeAlias = Callable[..., Sequence[Sequence[Any]]]


def source_ctes(inputs: Inputs, conventions: Conventions, integers: bool = False) -> dict[str, str]:
    """The runs, judgments and attributes, with standard names of columns.

    integers: include grades and positions of a run as integers.
    """
    text = {role: inputs.as_text(role) for role in ("query", "item")}

    def keys(table: Table) -> list[str]:
        return [f"{table.key(r, text[r])} AS {r}" for r in text if r in table.roles]

    def attributes(table: Table) -> list[str]:
        return [
            f"{inputs.read_attribute(table, name)} AS {inputs.attribute(name)}"
            for name in inputs.attributes_in(inputs.home(table))
        ]

    def rows(table: Table, fields: Sequence[str], *conditions: str) -> str:
        # DuckDB does not read other columns of rows that a filter in the same SELECT leaves out.
        part = [inputs.part.format(query=table.key("query", text["query"]))] if inputs.part else []
        where = " AND ".join([*conditions, *part])
        return select_from(table.sql, fields, f"WHERE {where}" if where else "")

    runs = []
    for name, table in inputs.runs.items():
        fields = keys(table)
        if inputs.system is not None:
            fields.insert(0, f"CAST({quote(inputs.system)} AS VARCHAR) AS system")
        elif name is not None:
            fields.insert(0, f"{literal(name)} AS system")
        places = [role for role in ("pos", "score") if role in table.roles]
        fields += [f"{_number(table, role, conventions)} AS {role}" for role in places]
        if conventions.ties == "order":
            fields.append("row_number() OVER () AS line")
        if "rel" in table.roles:
            fields.append(f"{_number(table, 'rel', conventions)} AS rel")
        if integers:
            grade, place = (table.integer(role) or table.number(role) for role in ("rel", "pos"))
            fields += [
                f"CAST({grade} AS INTEGER) AS {INTERNAL_PREFIX}rel",
                f"{place} AS {INTERNAL_PREFIX}pos",
            ]
        own = [f"{value} AS {quote(name)}" for name, value in inputs.own.items()]
        runs.append(rows(table, fields + attributes(table) + own))
    ctes = {"run": "\n    UNION ALL\n".join(runs)}
    if inputs.qrels is not None:
        table = inputs.qrels
        grade = _number(table, "rel", conventions)
        fields = [*keys(table), f"{grade} AS rel", *attributes(table)]
        ctes["qrels"] = rows(table, fields, f"{grade} IS NOT NULL")
    if inputs.reference is not None:
        table = inputs.reference
        role = "pos" if "pos" in table.roles else "score"
        fields = [*keys(table), f"{_number(table, role, conventions)} AS {role}"]
        ctes["reference"] = rows(table, fields + attributes(table))
    if inputs.attributes is not None:
        fields = keys(inputs.attributes) + attributes(inputs.attributes)
        ctes["attributes"] = rows(inputs.attributes, fields)
    return ctes


def _number(table: Table, role: str, conventions: Conventions) -> str:
    """The number in a column, under the conventions."""
    value = table.number(role)
    if role == "score" and conventions.float32:
        return f"rankql_float32({value})"
    if role == "rel" and conventions.negative == "unjudged":
        return f"CASE WHEN {value} >= 0 THEN {value} END"
    if role == "rel" and conventions.negative == "error":
        must = literal(f"{table.label}: {table.roles[role]} must not be negative, but there is ")
        return f"CASE WHEN {value} < 0 THEN rankql_fail({must} || {value}) ELSE {value} END"
    return value


def ranking_ctes(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    rows: Rows,
    by_lists: bool = False,
) -> dict[str, str]:
    """The CTEs with the rows that count, their grades and positions.

    by_lists: positions follow from lists of scores.
    """
    if by_lists and can_pack_lists(inputs, conventions):
        return {"ranked": select_from("run", ["*"])}
    if not ranks_before_join(inputs, conventions):
        queries = {} if inputs.qrels is None else _query_ctes(inputs, rows)
        return queries | _join_then_rank(inputs, conventions)
    k = last_position(metrics, conventions)
    cut = k if inputs.scored else None
    scores = needs_scores(metrics) and inputs.every("score")
    own = [*map(quote, inputs.own)]
    top, order = {}, TIE_ORDERS[conventions.ties]
    if inputs.scored and by_lists and k is not None:
        reads = ["line"] if conventions.ties == "order" else []
        top = top_rank_ctes(inputs.keys, k, order, reads)
    elif inputs.scored and by_lists:
        judged = judged_rank_ctes(inputs.keys, _judgments(inputs), judged_rows(rows), order)
        return _query_ctes(inputs, rows) | judged
    elif inputs.scored:
        top = {"top": _top(inputs.keys, k, score_order(conventions.ties), own)}
    keys, side = inputs.keys, "FULL" if rows == "all" else "LEFT"
    fields = [keys, "item", "rel", "pos", *([original_score(inputs)] if scores else []), *own]
    join = f"{_judgments(inputs)} {side} JOIN {'top' if top else 'run'} USING ({keys}, item)"
    ranked = select_from(join, fields, judged_rows(rows))
    return _query_ctes(inputs, rows, cut, by_lists) | top | {"ranked": ranked}


def suit_rank_lists(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, rows: Rows
) -> Callable[[RunSql, int], bool] | None:
    """The test whether lists of scores suit the data; None if no positions follow from them.

    They give the first positions, or those of all judged items, and of no others.
    """
    if not (inputs.scored and ranks_before_join(inputs, conventions)):
        return None
    if last_position(metrics, conventions) is not None:
        return suit_top_lists
    if rows == "all" or needs_scores(metrics):
        return None
    return partial(suit_lists, keys=inputs.keys, where=judged_rows(rows))


def can_pack_lists(inputs: Inputs, conventions: Conventions) -> bool:
    """Can the tops of rankings be packed from lists of their best grades?"""
    every_row = conventions.unjudged == "zero" and conventions.ties != "expected"
    return inputs.qrels is None and inputs.scored and every_row


def judged_rows(rows: Rows) -> str:
    """What selects the judgments that count."""
    return "WHERE rel > 0" if rows == "gain" else ""


def _query_ctes(
    inputs: Inputs, rows: Rows, cut: int | None = None, by_lists: bool = False
) -> dict[str, str]:
    """The CTEs with the judged queries, several systems, and the scores up to the cutoff."""
    ctes: dict[str, str] = {}
    if inputs.many:
        names = inputs.systems or [name for name in inputs.runs if name is not None]
        ctes["systems"] = f"    SELECT unnest({literal(names)}) AS system"
        if inputs.system is not None and not inputs.systems:
            ctes["systems"] = select_from("run", ["DISTINCT system"])
    if cut is not None:
        ctes[CUTS] = _score_cuts(inputs.keys, cut, by_lists)
    ctes["queries"] = _queries(inputs, rows, "run" if cut is None else CUTS)
    return ctes


def _judgments(inputs: Inputs) -> str:
    """The judgments, repeated for every system."""
    return "(FROM qrels CROSS JOIN systems)" if inputs.many else "qrels"


def _join_then_rank(inputs: Inputs, conventions: Conventions) -> dict[str, str]:
    """The CTEs that join the run with its grades, then number positions."""
    keys, ctes, source = inputs.keys, {}, "run"
    if inputs.qrels is not None:
        source = "joined"
        # The CTE `queries` has the attributes.
        names = [*inputs.attributes_in("qrels"), *inputs.attributes_in("run")]
        excluded = ", ".join(map(inputs.attribute, names))
        fields = [f"* EXCLUDE ({excluded})" if excluded else "*"]
        join = f"{_judgments(inputs)} FULL JOIN run USING ({keys}, item)"
        ctes["joined"] = select_from(join, fields)
    place = "score" if inputs.scored else "pos"
    fields = ["*"]
    if conventions.ties != "expected" and (inputs.scored or conventions.unjudged == "remove"):
        order = score_order(conventions.ties) if inputs.scored else "pos ASC"
        pos = number_positions(keys, place, order)
        fields = [f"*, {pos}" if inputs.scored else f"* REPLACE ({pos})"]
        if inputs.ascending:
            fields = [f"* REPLACE ({original_score(inputs)}), {pos}"]
    rest = "WHERE rel IS NOT NULL" if conventions.unjudged == "remove" else ""
    return ctes | {"ranked": select_from(source, fields, rest)}


def number_positions(keys: str, place: str, order: str) -> str:
    """The column `pos`: the rows of a ranking numbered in an order, NULL without a place."""
    number = f"row_number() OVER (PARTITION BY {keys}, {place} IS NULL ORDER BY {order})"
    return f"CASE WHEN {place} IS NOT NULL THEN {number} END AS pos"


def ranks_before_join(inputs: Inputs, conventions: Conventions) -> bool:
    """Are positions independent of the grades, so that they can be numbered before the join?"""
    alone = conventions.ties in ("item", "order") and conventions.unjudged != "remove"
    return inputs.qrels is not None and alone


def original_score(inputs: Inputs) -> str:
    """The score as the user passed it, for expressions of the user."""
    return "0 - score AS score" if inputs.ascending else "score"


def _top(keys: str, k: int | None, order: str, own: Sequence[str]) -> str:
    """The positions by score; only the first k if no metric reads more."""
    position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
    fields = [keys, "item", "score", position, *own]
    if k is None:
        return select_from("run", fields, "WHERE score IS NOT NULL")
    rest = f"WHERE score >= least QUALIFY pos <= {k}"
    return select_from(f"run JOIN {CUTS} USING ({keys})", fields, rest)


def _score_cuts(keys: str, k: int, by_lists: bool) -> str:
    """The rankings of a run, each with `least`, the k-th score; by lists with the `best` k + 1."""
    best = f"max(score, {k + by_lists})"
    checked = f"CASE WHEN isnan({best}[1]) THEN rankql_fail('{NO_SCORE}') ELSE {best}"
    fields = [keys, f"{checked}[-1] END AS least"]
    if by_lists:
        fields = [keys, f"{checked} END AS best", f"best[least({k}, len(best))] AS least"]
    return select_from("run", fields, f"GROUP BY {keys}")


def score_order(ties: str) -> str:
    """Best score first, then the order of tied items."""
    return f"score DESC, {TIE_ORDERS[ties]}"


def _queries(inputs: Inputs, rows: Rows, rankings: str) -> str:
    """Every judged query of every system, with its attributes and whether the run lacks it.

    rankings: a CTE with all rankings of the run.
    """
    keys = inputs.keys
    count = "count(*) FILTER (WHERE rel > 0)" if rows == "gain" else "count(*)"
    attributes = "".join(f", {inputs.attribute(name)}" for name in inputs.by)
    body = (
        f"    SELECT {keys}, {JUDGED_ROWS}, retrieved IS NULL AS {MISSING}{attributes}\n"
        f"    FROM (SELECT query, {count} AS {JUDGED_ROWS}{_any_values(inputs, 'qrels')} "
        "FROM qrels GROUP BY query)\n"
    )
    if inputs.many:
        body += "    CROSS JOIN systems\n"
    distinct = f"SELECT DISTINCT {keys}, true AS retrieved FROM {rankings}"
    body += f"    LEFT JOIN ({distinct}) USING ({keys})"
    for home in ("run", "attributes"):
        if inputs.attributes_in(home):
            body += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
    return body


def attributes_by_query(inputs: Inputs, home: str) -> str:
    """The attributes in a table, by query."""
    return f"(SELECT query{_any_values(inputs, home)} FROM {home} GROUP BY query)"


def _any_values(inputs: Inputs, home: str) -> str:
    """The attributes in a table, as aggregates."""
    columns = map(inputs.attribute, inputs.attributes_in(home))
    return "".join(f", any_value({column}) AS {column}" for column in columns)


def select_from(source: str, fields: Sequence[str], rest: str = "") -> str:
    """The body of a CTE."""
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}", *([rest] if rest else [])]
    return "\n".join(f"    {line}" for line in lines)


def with_ctes(ctes: Mapping[str, str], kept: str = "") -> str:
    """The WITH clause. CTEs are not materialized, except those read twice and `kept`."""
    materialized = (CUTS, CANDIDATES, RANKS, BEST, kept)
    parts = (
        f"{name} AS {'' if name in materialized else 'NOT '}MATERIALIZED (\n{body}\n)"
        for name, body in ctes.items()
    )
    return "WITH " + ", ".join(parts) + "\n"


def with_source_ctes(inputs: Inputs, conventions: Conventions) -> str:
    """The WITH clause of the sources, for other queries on them."""
    return with_ctes(source_ctes(inputs, conventions))


def sql_runner(session: Session, inputs: Inputs, conventions: Conventions) -> RunSql:
    """A function that runs SQL on the sources in DuckDB, or on some of their queries."""

    def run_sql(sql: str, part: str = "") -> Sequence[Sequence[Any]]:
        some = replace(inputs, part=part) if part else inputs
        return fetch(session, with_source_ctes(some, conventions) + sql)

    return run_sql
