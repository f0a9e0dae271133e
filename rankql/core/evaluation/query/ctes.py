"""The named steps of a query: sources with standard names, and rankings from them.

Rankings by score are cut at the k-th score before they are joined with the judgments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from rankql.core.base.column_names import SUBTOPICS
from rankql.core.evaluation.query.ties import WITHOUT_GRADES, score_order
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, MISSING, literal, quote
from rankql.core.metrics.metric_record import Metric, Rows
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.tables import NUMBERS, Table

# The score of a run before it is rounded to be compared.
_UNROUNDED = f"{INTERNAL_PREFIX}score"
# The CTE with the best scores of each ranking.
CUTS = "cuts"
# The CTE with the first k items of each ranking.
TOP = "top"
# The CTE with the ranked rows that are joined with what is known of their items.
ITEMS = f"{INTERNAL_PREFIX}items"
READ_TWICE = (CUTS, TOP, ITEMS, "candidates", "hashes", "lists", "found")


def select_from(source: str, fields: Sequence[str], rest: str = "") -> str:
    """The body of a CTE."""
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}", *([rest] if rest else [])]
    return "\n".join(f"    {line}" for line in lines)


def with_ctes(ctes: Mapping[str, str], read_twice: str = "") -> str:
    """The WITH clause. CTEs are not materialized, except those that are read twice."""
    materialized = (*READ_TWICE, read_twice)
    parts = (
        f"{name} AS {'' if name in materialized else 'NOT '}MATERIALIZED (\n{body}\n)"
        for name, body in ctes.items()
    )
    return "WITH " + ", ".join(parts) + "\n"


def source_ctes(inputs: Inputs, conventions: Conventions, integers: bool = False) -> dict[str, str]:
    """The runs, judgments and attributes, with standard names of columns.

    integers: include grades and positions of a run as integers.
    """

    def fields_of(table: Table, name: str | None = None) -> list[str]:
        known = inputs.fields(table, name)
        numbers = {x: _number(table, x, known[x], conventions) for x in NUMBERS if x in known}
        return [f"{value} AS {x}" for x, value in (known | numbers).items()]

    def attributes(table: Table) -> list[str]:
        return [
            f"{inputs.read_attribute(table, name)} AS {inputs.attribute(name)}"
            for name in inputs.attributes_in(inputs.cte_of(table))
        ]

    def rows(table: Table, fields: Sequence[str], *conditions: str) -> str:
        # DuckDB does not read other columns of rows that a filter in the same SELECT leaves out.
        cut = [inputs.where.format(**inputs.fields(table))] if inputs.where else []
        where = " AND ".join([*conditions, *cut])
        return select_from(table.sql, fields, f"WHERE {where}" if where else "")

    runs = []
    for name, table in inputs.runs.items():
        fields = fields_of(table, name)
        rel = [fields.pop()] if "rel" in table.roles else []
        if conventions.float32 and "score" in table.roles:
            fields.append(f"{table.number('score')} AS {_UNROUNDED}")
        if conventions.ties == "order":
            fields.append("row_number() OVER () AS line")
        fields += rel
        if integers:
            grade, place = (table.integer(role) or table.number(role) for role in ("rel", "pos"))
            fields += [
                f"CAST({grade} AS INTEGER) AS {INTERNAL_PREFIX}rel",
                f"{place} AS {INTERNAL_PREFIX}pos",
            ]
        own = [f"{value} AS {quote(name)}" for name, value in inputs.extra.items()]
        runs.append(rows(table, fields + attributes(table) + own))
    ctes = {"run": "\n    UNION ALL\n".join(runs)}
    if inputs.qrels is not None:
        table = inputs.qrels
        fields = [*fields_of(table), *attributes(table)]
        fields += [SUBTOPICS] if inputs.subtopics else []
        # A grade that counts as unjudged is NULL. Its query is judged, as in trec_eval.
        graded = f"{table.number('rel')} IS NOT NULL"
        if inputs.unjudged_queries == "count":  # by rows without an item
            graded = f"({graded} OR {quote(table.roles['item'])} IS NULL)"
        ctes["qrels"] = rows(table, fields, graded)
    if inputs.attributes is not None:
        fields = fields_of(inputs.attributes) + attributes(inputs.attributes)
        ctes["attributes"] = rows(inputs.attributes, fields)
    return ctes


def _number(table: Table, role: str, value: str, conventions: Conventions) -> str:
    """The number in a column, under the conventions."""
    if role == "score" and conventions.float32:
        return f"rankql_float32({value})"
    if role == "rel" and conventions.negative == "unjudged":
        return f"CASE WHEN {value} >= 0 THEN {value} END"
    if role == "rel" and conventions.negative == "error":
        must = literal(f"{table.label}: {table.roles[role]} must not be negative, but there is ")
        return f"CASE WHEN {value} < 0 THEN rankql_fail({must} || {value}) ELSE {value} END"
    return value


def with_source_ctes(inputs: Inputs, conventions: Conventions) -> str:
    """The WITH clause of the sources, for other queries on them."""
    return with_ctes(source_ctes(inputs, conventions))


# A table and a column; and a condition too, where the column must have different values.
Column: TypeAlias = tuple[str, str]
Unique: TypeAlias = tuple[str, str, str]


# The rows of the run that are judged.
JUDGED = (
    "WHERE EXISTS (SELECT 1 FROM qrels "
    "WHERE qrels.query = run.query AND qrels.item = run.item AND qrels.rel IS NOT NULL)"
)


def ranking_ctes(
    inputs: Inputs,
    metrics: Sequence[Metric],
    conventions: Conventions,
    rows: Rows | Literal["shown", "placed"],
) -> dict[str, str]:
    """The CTEs with the rows that count, their grades and positions; if shown, no grades.

    placed: only items of the run.
    """
    if not ranks_before_join(inputs, conventions):
        queries = {} if inputs.qrels is None else _query_ctes(inputs)
        return queries | _join_then_rank(inputs, metrics, conventions)
    k, keys, cuts = last_position(metrics, conventions), inputs.keys, ""
    if inputs.scored and k is not None and k <= SMALL_K and not needs_scores(metrics):
        cuts = select_from("run", [keys, f"max(score, {k})[-1] AS least"], f"GROUP BY {keys}")
    scores = needs_scores(metrics) and inputs.every("score")
    own = [*map(quote, inputs.extra)]
    own += [_UNROUNDED] if scores and conventions.float32 else []
    top, side = {}, {"all": "FULL", "placed": "RIGHT"}.get(rows, "LEFT")
    if inputs.scored:
        order = score_order(conventions.ties)
        position = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS pos"
        # The k-th score is known, or the rows have any score.
        source = f"run JOIN {CUTS} USING ({keys})" if cuts else "run"
        where = f"WHERE {'score >= least' if cuts else 'score IS NOT NULL'}"
        where += f" QUALIFY pos <= {k}" if k is not None else ""
        numbered = select_from(source, [keys, "item", "score", position, *own], where)
        top = {TOP if cuts else "numbered": numbered}
    run = [*top][-1] if top else _rows_within(inputs, k)
    if rows == "shown":
        ranked = select_from(run, [keys, "item", "pos"])
        return ({CUTS: cuts} if cuts else {}) | top | {"ranked": ranked}
    join = f"{_judgments(inputs)} {side} JOIN {run} USING ({keys}, item)"
    fields = [keys, "item", "rel", "pos", *own]
    fields += [f"{original_score(inputs, conventions)} AS score"] if scores else []
    fields += [SUBTOPICS] if inputs.subtopics else []
    return (
        _query_ctes(inputs, cuts)
        | top
        | {"ranked": select_from(join, fields, "WHERE rel > 0" if rows == "gain" else "")}
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
    for cte in ("run", "attributes"):
        if inputs.attributes_in(cte):
            joined += f"\n    LEFT JOIN {attributes_by_query(inputs, cte)} USING (query)"
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


def within(k: int | None) -> str:
    """The condition on rows that are shown, in the first k positions."""
    return f"WHERE pos {'IS NOT NULL' if k is None else f'<= {k}'}"


def _rows_within(inputs: Inputs, k: int | None) -> str:
    """The rows of the run in the first k positions. Elsewhere, an item may occur once more."""
    if not inputs.scored:
        return f"(FROM run {within(k)})"
    rank = f"rank() OVER (PARTITION BY {inputs.keys} ORDER BY score DESC)"
    return f"(FROM run WHERE score IS NOT NULL{'' if k is None else f' QUALIFY {rank} <= {k}'})"


def _join_then_rank(
    inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions
) -> dict[str, str]:
    """The CTEs that join the run with its grades, then number positions."""
    keys, ctes, source = inputs.keys, {}, "run"
    if inputs.qrels is not None:
        source = "joined"
        # The CTE `queries` has the attributes.
        names = [*inputs.attributes_in("qrels"), *inputs.attributes_in("run")]
        excluded = ", ".join(map(inputs.attribute, names))
        fields = [f"* EXCLUDE ({excluded})" if excluded else "*"]
        removed = conventions.unjudged == "remove"
        run = _rows_within(inputs, None if removed else last_position(metrics, conventions))
        join = f"{_judgments(inputs)} FULL JOIN {run} USING ({keys}, item)"
        ctes["joined"] = select_from(join, fields)
    if conventions.unjudged == "remove":
        ctes["condensed"] = _condensed(inputs, source)
        source = "condensed"
    score, fields = original_score(inputs, conventions), ["*"]
    if conventions.ties != "expected":
        if inputs.every("score") and score != "score":
            fields = [f"* REPLACE ({score} AS score)"]
        if inputs.scored:
            fields.append(number_positions(keys, score_order(conventions.ties)))
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


def number_positions(keys: str, order: str) -> str:
    """The column `pos`: the rows of a ranking numbered in an order, NULL without a score."""
    number = f"row_number() OVER (PARTITION BY {keys}, score IS NULL ORDER BY {order})"
    return f"CASE WHEN score IS NOT NULL THEN {number} END AS pos"


def ranks_before_join(inputs: Inputs, conventions: Conventions) -> bool:
    """Are positions independent of the grades, so that they can be numbered before the join?"""
    alone = conventions.ties in WITHOUT_GRADES and conventions.unjudged != "remove"
    return inputs.qrels is not None and alone


def original_score(inputs: Inputs, conventions: Conventions) -> str:
    """The score as the user passed it, neither rounded nor with another sign."""
    score = _UNROUNDED if conventions.float32 else "score"
    return f"0 - {score}" if inputs.ascending else score


def attributes_by_query(inputs: Inputs, cte: str) -> str:
    """The attributes in a table, by query."""
    columns = map(inputs.attribute, inputs.attributes_in(cte))
    values = [f"any_value({column}) AS {column}" for column in columns]
    return f"(SELECT {', '.join(['query', *values])} FROM {cte} GROUP BY query)"


def has_one_value(inputs: Inputs, name: str) -> str:
    """Has a query one value of an attribute? Of a weight, NULL is a value too."""
    column = inputs.attribute(name)
    one = f"coalesce(min({column}) = max({column}), true)"
    return f"{one} AND count({column}) IN (0, count(*))" if name == inputs.weight else one


# Above this k, rows are sorted: max(score, k) reserves 16 * k bytes per ranking.
SMALL_K = 100


def rows_needed(metrics: Sequence[Metric], conventions: Conventions) -> Rows:
    """The rows that the values depend on."""
    need = {metric.rows(vars(conventions)) for metric in metrics}
    if isinstance(conventions.gain, Mapping) or conventions.threshold <= 0:
        need.add("judged")
    order: tuple[Rows, ...] = ("all", "judged", "gain")
    return next(kind for kind in order if kind in need)


def last_position(metrics: Sequence[Metric], conventions: Conventions) -> int | None:
    """The last position that a metric reads, None for all."""
    further = any(m.k is None or is_ideal_retrieved(m, conventions) for m in metrics)
    return None if further else max(metric.k or 0 for metric in metrics)


def is_ideal_retrieved(metric: Metric, conventions: Conventions) -> bool:
    """Is the ideal ranking of the retrieved items, so that all of them are read?"""
    arguments = metric.arguments(vars(conventions)) if metric.record else {}
    return arguments.get("ideal") == "retrieved"


def needs_scores(metrics: Sequence[Metric]) -> bool:
    """Does a metric read scores?"""
    halved = any(m.record is not None and m.record.halves_ties for m in metrics)
    return halved or reads_original_scores(metrics)


def reads_original_scores(metrics: Sequence[Metric]) -> bool:
    """Does a metric read scores as the user passed them, not only their order?"""
    return any(m.record is None or m.record.compares_scores for m in metrics)


def order_score(inputs: Inputs, conventions: Conventions) -> str:
    """The score by which rankings are ordered, in the CTE `ranked`."""
    if conventions.ties == "expected":  # which needs no other one
        return "score"
    value = "0 - score" if inputs.ascending else "score"
    return f"rankql_float32({value})" if conventions.float32 else value
