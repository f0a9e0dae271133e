"""The CTEs of the rankings: rows of runs, judgments and attributes, ranked, joined and cut.

Rankings by score are cut at the k-th score before they are joined with the judgments.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankql.evaluation.metric_columns import judged_rows, last_position, needs_scores
from rankql.evaluation.steps import CUTS, TOP, select_from
from rankql.macros import MISSING, literal, quote
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.grades import SUBTOPICS
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
# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels "
    "WHERE qrels.query = run.query AND qrels.item = run.item AND qrels.rel IS NOT NULL)"
)


def ranking_ctes(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions, rows: Rows
) -> dict[str, str]:
    """The CTEs with the rows that count, their grades and positions."""
    if not ranks_before_join(inputs, conventions):
        queries = {} if inputs.qrels is None else _query_ctes(inputs)
        return queries | _join_then_rank(inputs, conventions)
    k, keys, cuts = last_position(metrics, conventions), inputs.keys, ""
    if inputs.scored and k is not None:
        cuts = select_from("run", [keys, f"max(score, {k})[-1] AS least"], f"GROUP BY {keys}")
    scores = needs_scores(metrics) and inputs.every("score")
    own = [*map(quote, inputs.own)]
    top, side = {}, "FULL" if rows == "all" else "LEFT"
    if inputs.scored:
        name = TOP if cuts else "numbered"
        top = {name: _top(keys, k, score_order(conventions.ties), own)}
    join = f"{_judgments(inputs)} {side} JOIN {[*top][-1] if top else 'run'} USING ({keys}, item)"
    fields = [keys, "item", "rel", "pos", *([original_score(inputs)] if scores else []), *own]
    fields += [SUBTOPICS] if inputs.subtopics else []
    return (
        _query_ctes(inputs, cuts) | top | {"ranked": select_from(join, fields, judged_rows(rows))}
    )


def _query_ctes(inputs: Inputs, cuts: str = "") -> dict[str, str]:
    """The CTEs with several systems, `cuts` if there is one, and the judged queries.

    Of every query and system they have the attributes and whether the run lacks it.
    """
    ctes: dict[str, str] = {}
    keys, rankings = inputs.keys, CUTS if cuts else "run"
    if inputs.many:
        ctes["systems"] = list_systems(inputs, "run")
    if cuts:
        ctes[CUTS] = cuts
    joined = attributes_by_query(inputs, "qrels")
    joined += "\n    CROSS JOIN systems" if inputs.many else ""
    distinct = f"SELECT DISTINCT {keys}, true AS retrieved FROM {rankings}"
    joined += f"\n    LEFT JOIN ({distinct}) USING ({keys})"
    for home in ("run", "attributes"):
        if inputs.attributes_in(home):
            joined += f"\n    LEFT JOIN {attributes_by_query(inputs, home)} USING (query)"
    fields = [keys, f"retrieved IS NULL AS {MISSING}", *map(inputs.attribute, inputs.by)]
    ctes["queries"] = select_from(joined, fields)
    return ctes


def list_systems(inputs: Inputs, source: str) -> str:
    """The body of the CTE of all systems. source: has those of a run with several."""
    if inputs.system is not None and not inputs.systems:
        return select_from(source, ["DISTINCT system"])
    names = inputs.systems or [name for name in inputs.runs if name is not None]
    exact = next(iter(inputs.runs.values())).exact
    return f"    SELECT unnest({literal(names)}){exact} AS system"


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


def attributes_by_query(inputs: Inputs, home: str) -> str:
    """The attributes in a table, by query."""
    return f"(SELECT {', '.join(['query', *any_values(inputs, home)])} FROM {home} GROUP BY query)"


def any_values(inputs: Inputs, home: str) -> list[str]:
    """The attributes in a table, as aggregates."""
    columns = map(inputs.attribute, inputs.attributes_in(home))
    return [f"any_value({column}) AS {column}" for column in columns]
