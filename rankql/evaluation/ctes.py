"""The CTEs of the rankings: rows of runs, judgments and attributes, ranked, joined and cut.

Rankings by score are cut at the k-th score before they are joined with the judgments. For nDCG@10
this takes as long as 1.25 plain joins, or less in large runs: see `judged_ranks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankql.evaluation.judged_ranks import (
    judged_rank_ctes,
    sorted_scores,
    top_rank_ctes,
    top_score_cuts,
    untied_rank_rows,
)
from rankql.evaluation.metric_columns import judged_rows, last_position, needs_scores
from rankql.evaluation.steps import CUTS, TOP, select_from
from rankql.macros import JUDGED_ROWS, MISSING, TIED, literal, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# The order of equal scores: items descending by the bytes of their text, as in trec_eval.
BY_ITEM = "encode(CAST(item AS VARCHAR)) DESC"
# The order of tied items: by the bytes of the item, by row, or by their gain.
TIE_ORDERS = {
    "item": BY_ITEM,
    "order": "line ASC",
    "best": f"coalesce(rel, 0) DESC, rel IS NULL ASC, {BY_ITEM}",
    "worst": f"coalesce(rel, 0) ASC, rel IS NULL DESC, {BY_ITEM}",
    # For metrics that read only whether items are judged, whatever the grade.
    "best judged": f"rel IS NULL ASC, {BY_ITEM}",
    "worst judged": f"rel IS NULL DESC, {BY_ITEM}",
}
# How errors about duplicates begin.
DUPLICATES = "duplicates among the items"
# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels "
    "WHERE qrels.query = run.query AND qrels.item = run.item AND qrels.rel IS NOT NULL)"
)


def ranking_ctes(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    rows: Rows,
    ranker: str = "rows",
    list_length: int | None = None,
    zeroes: bool = False,
) -> dict[str, str]:
    """The CTEs with the rows that count, their grades and positions.

    ranker, list_length, zeroes: those of the plan.
    """
    if ranker == "best":
        return {"ranked": select_from("run", ["*"])}
    if not ranks_before_join(inputs, conventions):
        queries = {} if inputs.qrels is None else _query_ctes(inputs, rows)
        return queries | _join_then_rank(inputs, conventions)
    k = last_position(metrics, conventions)
    keys, order = inputs.keys, TIE_ORDERS[conventions.ties]
    if ranker == "untied":
        assert k is not None
        cuts = top_score_cuts(keys, k, tied=True)
        top_rows = untied_rank_rows(keys, _judgments(inputs), judged_rows(rows), zeroes)
        return _query_ctes(inputs, rows, cuts, tied=True) | {"ranked": top_rows}
    if ranker == "judged":
        cuts = select_from(
            "run", [keys, f"{sorted_scores(list_length)} AS best"], f"GROUP BY {keys}"
        )
        judged = judged_rank_ctes(keys, _judgments(inputs), judged_rows(rows), order)
        return _query_ctes(inputs, rows, cuts) | judged
    cuts = ""
    if ranker == "top" and k is not None:
        cuts = top_score_cuts(keys, k, tied=False)
    elif inputs.scored and k is not None:
        cuts = select_from("run", [keys, f"max(score, {k})[-1] AS least"], f"GROUP BY {keys}")
    scores = needs_scores(metrics) and inputs.every("score")
    own = [*map(quote, inputs.own)]
    top, side = {}, "FULL" if rows == "all" else "LEFT"
    if ranker == "top" and k is not None:
        top = top_rank_ctes(keys, k, order, ["line"] if conventions.ties == "order" else [])
    elif inputs.scored:
        name = TOP if cuts else "numbered"
        top = {name: _top(keys, k, score_order(conventions.ties), own)}
    join = f"{_judgments(inputs)} {side} JOIN {[*top][-1] if top else 'run'} USING ({keys}, item)"
    rel = "rel"
    if zeroes:
        rel, place = "CASE WHEN retrieved THEN rel ELSE 0 END AS rel", "score" if top else "pos"
        items = f"SELECT {keys}, item, true AS retrieved FROM run WHERE {place} IS NOT NULL"
        join += f"\n    LEFT JOIN ({items}) USING ({keys}, item)"
    fields = [keys, "item", rel, "pos", *([original_score(inputs)] if scores else []), *own]
    ranked = select_from(join, fields, judged_rows(rows))
    queries = _query_ctes(inputs, rows, cuts, top=top if cuts else {})
    return queries | top | {"ranked": ranked}


def checks_top(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, ranker: str
) -> bool:
    """Does the query itself refuse an item that occurs twice in the first k?"""
    top = ranker in ("rows", "top") and inputs.scored and ranks_before_join(inputs, conventions)
    return top and last_position(metrics, conventions) is not None


def can_pack_lists(inputs: Inputs, conventions: Conventions) -> bool:
    """Can the tops of rankings be packed from lists of their best items?"""
    every_row = conventions.unjudged == "zero" and conventions.ties != "expected"
    return inputs.qrels is None and inputs.scored and every_row


def _query_ctes(
    inputs: Inputs,
    rows: Rows,
    cuts: str = "",
    tied: bool = False,
    top: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The CTEs with the judged queries, several systems, and `cuts` and `top` if there are any."""
    ctes: dict[str, str] = {}
    if inputs.many:
        names = inputs.systems or [name for name in inputs.runs if name is not None]
        exact = next(iter(inputs.runs.values())).exact
        ctes["systems"] = f"    SELECT unnest({literal(names)}){exact} AS system"
        if inputs.system is not None and not inputs.systems:
            ctes["systems"] = select_from("run", ["DISTINCT system"])
    if cuts:
        ctes[CUTS] = cuts
    ctes |= top or {}
    ctes["queries"] = _queries(inputs, rows, CUTS if cuts else "run", tied, bool(top))
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
    if conventions.unjudged == "remove":
        ctes["condensed"] = _condensed(inputs, source)
        source = "condensed"
    fields = ["*"]
    if inputs.scored and conventions.ties != "expected":
        pos = number_positions(keys, "score", score_order(conventions.ties))
        restored = f"* REPLACE ({original_score(inputs)})" if inputs.ascending else "*"
        fields = [f"{restored}, {pos}"]
    return ctes | {"ranked": select_from(source, fields)}


def _condensed(inputs: Inputs, source: str) -> str:
    """The rows without unjudged items. Positions move up by the items that are removed above.

    A ranking of a table with grades keeps its rows if all are unjudged, but nothing is retrieved.
    """
    alone = "rel IS NOT NULL"
    if inputs.qrels is None:
        alone += f" OR NOT bool_or(rel IS NOT NULL) OVER (PARTITION BY {inputs.keys})"
    if inputs.scored and inputs.qrels is not None:
        return select_from(source, ["*"], f"WHERE {alone}")
    place = "score" if inputs.scored else "pos"
    number = place
    if not inputs.scored:
        order = "ORDER BY pos ASC NULLS LAST, rel IS NULL ASC ROWS UNBOUNDED PRECEDING"
        above = f"OVER (PARTITION BY {inputs.keys} {order})"
        number = f"pos - count(*) FILTER (WHERE rel IS NULL) {above}"
    fields = [f"* REPLACE (CASE WHEN rel IS NOT NULL THEN {number} END AS {place})"]
    return select_from(source, fields, f"QUALIFY {alone}")


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


def score_order(ties: str) -> str:
    """Best score first, then the order of tied items."""
    return f"score DESC, {TIE_ORDERS[ties]}"


def _queries(inputs: Inputs, rows: Rows, rankings: str, tied: bool, unique: bool) -> str:
    """Every judged query of every system, with its attributes and whether the run lacks it.

    rankings: a CTE with all rankings of the run. tied: it says whether their scores are tied.
    unique: refuse items that occur twice in `top`.
    """
    keys = inputs.keys
    count = "count(*) FILTER (WHERE rel > 0)" if rows == "gain" else "count(rel)"
    attributes = "".join(f", {inputs.attribute(name)}" for name in inputs.by)
    missing = "retrieved IS NULL"
    if unique:
        repeats = f"SELECT count(*) > count(DISTINCT hash({keys}, item)) FROM {TOP}"
        missing = f"CASE WHEN ({repeats}) THEN rankql_fail('{DUPLICATES}') ELSE {missing} END"
    body = (
        f"    SELECT {keys}, {JUDGED_ROWS}, {missing} AS {MISSING}{attributes}"
        f"{f', {TIED}' if tied else ''}\n"
        f"    FROM (SELECT query, {count} AS {JUDGED_ROWS}{_any_values(inputs, 'qrels')} "
        "FROM qrels GROUP BY query)\n"
    )
    if inputs.many:
        body += "    CROSS JOIN systems\n"
    distinct = f"SELECT DISTINCT {keys}, true AS retrieved FROM {rankings}"
    if tied:
        distinct = f"SELECT {keys}, true AS retrieved, {TIED} FROM {rankings}"
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
