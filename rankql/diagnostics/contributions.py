"""The SQL of the contribution and the loss of each item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rankql.evaluation.ctes import BY_ITEM, ranking_ctes, source_ctes, with_ctes
from rankql.evaluation.evaluation import Evaluation
from rankql.evaluation.readable import gain_sql, rows_read
from rankql.macros import literal
from rankql.registry.all_metrics import EVALUATED
from rankql.registry.metric_record import Rows

# Smaller differences are rounding errors.
ROUNDING_ERROR = 1e-12

# The metrics that `explain` supports.
EXPLAINED = tuple(record.name for record in EVALUATED if record.explanation)


def positions_sql(evaluation: Evaluation, terms: MetricTerms) -> str:
    """The SQL for one ranking: its positions, their contributions, and the ideal ranking."""
    column, weight = ("discount", "1 / ranked.weight") if terms.discount else (
        "weight", "ranked.weight")  # fmt: skip
    return _contributions_sql(evaluation, terms) + _POSITIONS.format(weight=weight, column=column)


def items_sql(evaluation: Evaluation, terms: MetricTerms) -> str:
    """The SQL of many rankings: every item that counts, where it stands and what it contributes."""
    inputs = evaluation.inputs
    return f"""{_contributions_sql(evaluation, terms)}
SELECT {inputs.keys}, item, rel, CAST(pos AS BIGINT) AS pos, contribution, loss
FROM rankql_explained WHERE place IS NOT NULL OR ideal_pos IS NOT NULL
ORDER BY {inputs.keys}, pos ASC NULLS LAST, ideal_pos ASC NULLS LAST"""


def losses_sql(evaluation: Evaluation) -> str:
    """The SQL for all rankings: the losses by query and by item."""
    inputs, conventions = evaluation.inputs, evaluation.conventions
    item = "system, item" if inputs.many else "item"
    rows = rows_read(inputs, evaluation.metrics, conventions)
    sql = _contributions_sql(evaluation, metric_terms(evaluation), rows)
    # Queries that the run lacks have no value if they are skipped.
    counted = f"SEMI JOIN run USING ({inputs.keys})" if conventions.missing == "skip" else ""
    return sql + _LOSSES.format(keys=inputs.keys, item=item, least=ROUNDING_ERROR, counted=counted)


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
        rest += f" QUALIFY count(*) FILTER (WHERE rel >= {conventions.threshold}) {group} > 0"
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
    total = f"sum(gain * {ideal_weight}) {group}" if terms.normalised else "1"
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


@dataclass(frozen=True)
class MetricTerms:
    """A metric as a sum over items: gain * weight of the position."""

    gain: str
    weight: str
    # Printed below the table.
    formula: str
    # The last position that counts, and the largest size of the ideal ranking.
    cutoff: str
    ideal_cutoff: str
    # The divisor of the gain, if the metric has discounts instead of weights.
    discount: str = ""
    # The discounts, if the user lists them.
    discounts: tuple[float, ...] = ()
    # Whether to divide by the sum over the ideal ranking, as in nDCG.
    normalised: bool = False
    # The condition for items of the ideal ranking.
    ideal_pool: str = "true"


def metric_terms(evaluation: Evaluation) -> MetricTerms:
    """A metric with its options and conventions as a sum."""
    (metric,), conventions = evaluation.metrics, evaluation.conventions
    assert metric.record and metric.record.explanation
    explanation = metric.record.explanation
    options: dict[str, Any] = {n: o.default for n, o in metric.record.options.items()}
    options |= metric.arguments(vars(conventions))
    cutoff = explanation.cut or literal(metric.k)
    over, ideal_cutoff = _over(explanation.weight, cutoff, options.get("denominator", "k"))
    discount, discounts = "", ()
    if "{discount}" in explanation.weight:
        discount = f"(log2({{place}} + 1) / log2({options['base']}::DOUBLE))"
        if isinstance(options["discounts"], tuple):
            discounts = options["discounts"]
            discount = f"({literal(discounts)}::DOUBLE[])[CAST({{place}} AS BIGINT)]"
    weight = explanation.weight.replace("{discount}", discount).replace("{over}", over)
    threshold = metric.threshold(vars(conventions))
    return MetricTerms(
        gain=explanation.gain.format(
            gain=gain_sql(metric.gain(vars(conventions)), threshold),
            threshold=threshold,
            **{name: literal(options.get(name)) for name in ("negative", "max_rel", "stop")},
        ),
        weight=weight.replace("{p}", str(options.get("p"))),
        formula=explanation.formula,
        cutoff=cutoff,
        ideal_cutoff=ideal_cutoff or cutoff,
        discount=discount,
        discounts=discounts,
        normalised=explanation.normalised,
        ideal_pool="pos IS NOT NULL" if options.get("ideal") == "retrieved" else "true",
    )


def _over(weight: str, cutoff: str, denominator: str) -> tuple[str, str]:
    """The denominator of a share, and the cutoff of the ideal ranking if that depends on it."""
    if "{over}" not in weight:
        return "", ""
    over = {
        "k": f"rankql_size({cutoff}, retrieved)",
        "retrieved": "retrieved",
        "min": f"least({cutoff}, relevant)",
        "R": "relevant",
        "found": "{found}",
    }[denominator]
    is_retrieved = denominator == "retrieved" or (denominator == "k" and cutoff == "NULL")
    return over, "retrieved" if is_retrieved else ""
