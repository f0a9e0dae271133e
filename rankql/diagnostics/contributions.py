"""The SQL of what each item contributes to a metric, and of what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankql.evaluation.query import BY_ITEM, gained, rankings, sources, with_ctes
from rankql.macros import literal
from rankql.registry.conventions import Conventions
from rankql.registry.parse import MEASURES, Metric, Rows
from rankql.sources.inputs import Inputs

# A sum smaller than this is 0 but for rounding.
ROUNDING_ERROR = 1e-12

# The weight of a {place}: {hits} are the relevant items down to it, {left} is the chance that a
# user gets there.
_WEIGHTS = {
    "ndcg": "1 / {discount}",
    "dcg": "1 / {discount}",
    "cg": "1",
    "precision_at": "1 / nullif({over}, 0)",
    "judged_at": "1 / nullif({over}, 0)",
    "recall_at": "1 / nullif(relevant, 0)",
    "r_precision": "1 / nullif(relevant, 0)",
    "f1_at": "2 / nullif({over} + relevant, 0)",
    "hit_at": "CAST({hits} = 1 AS DOUBLE)",
    "rr": "CAST({hits} = 1 AS DOUBLE) / {place}",
    "arhr": "1 / {place}",
    "ap": "{hits} / {place} / nullif({over}, 0)",
    "err": "{left} * rankql_utility({place}, {p})",
    "rbp": "(1 - rankql_patience({p})) * rankql_look({place}, {p})",
}
_FORMULAS = {
    "ndcg": "contribution = gain / discount / IDCG",
    "dcg": "contribution = gain / discount",
    "cg": "contribution = gain",
    "precision_at": "gain 1 if relevant, weight 1 / the number of items that it is a share of",
    "judged_at": "gain 1 if judged, weight 1 / the number of items that it is a share of",
    "recall_at": "gain 1 if relevant, weight 1 / the number of relevant items",
    "r_precision": "gain 1 if relevant, weight 1 / the number of relevant items",
    "f1_at": "gain 1 if relevant, weight 2 / (number of items shown + number of relevant items)",
    "hit_at": "gain 1 if relevant, weight 1 for the first that is",
    "rr": "gain 1 if relevant, weight 1 / pos for the first that is",
    "arhr": "gain 1 if relevant, weight 1 / pos",
    "ap": "gain 1 if relevant, weight = precision at pos / denominator",
    "err": "gain = chance to stop there, weight = chance to get there * utility of pos",
    "rbp": "gain = worth, weight = (1 - p) * p^(pos - 1)",
}
# The metrics that `explain` takes.
EXPLAINED = tuple(m.name for m in MEASURES if m.macro in _WEIGHTS and not m.weight)


def positions_sql(
    inputs: Inputs, metric: Metric, terms: MetricTerms, conventions: Conventions
) -> str:
    """The SQL of one ranking: its positions, what they contribute, and the ideal ranking."""
    column, weight = ("discount", "1 / shown.weight") if terms.discount else (
        "weight", "shown.weight")  # fmt: skip
    sql = _contributions_sql(inputs, metric, terms, conventions, "all", with_zero_gain=True)
    return sql + _POSITIONS.format(weight=weight, column=column)


def losses_sql(inputs: Inputs, metric: Metric, conventions: Conventions, rows: Rows) -> str:
    """The SQL of all rankings: the loss of each query, and of each item over the queries."""
    terms = metric_terms(metric, conventions)
    item = "system, item" if inputs.many else "item"
    sql = _contributions_sql(inputs, metric, terms, conventions, rows)
    return sql + _LOSSES.format(keys=inputs.keys, item=item, least=ROUNDING_ERROR)


# The items of the ranking next to those of the ideal one, then other items of the ideal one.
_POSITIONS = """
SELECT CAST(coalesce(shown.place, best.ideal_pos) AS BIGINT) AS pos, shown.item, shown.rel,
    shown.gain, {weight} AS {column}, shown.contribution, best.item AS ideal_item,
    best.rel AS ideal_rel, best.ideal_contribution, CAST(shown.ideal_pos AS BIGINT) AS ideal_pos,
    shown.loss, coalesce(shown.total, best.total) AS total, 0 AS outside
FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY gain DESC) AS nth
      FROM rankql_explained WHERE place IS NOT NULL) AS shown
FULL JOIN (FROM rankql_explained WHERE ideal_pos IS NOT NULL) AS best
    ON shown.place = best.ideal_pos AND shown.nth = 1
UNION ALL
SELECT CAST(pos AS BIGINT), item, rel, gain, NULL, contribution, NULL, NULL, NULL,
    CAST(ideal_pos AS BIGINT), loss, total, 1
FROM rankql_explained WHERE place IS NULL AND ideal_pos IS NOT NULL
ORDER BY outside ASC, pos ASC NULLS LAST, ideal_pos ASC NULLS LAST"""

_LOSSES = """
SELECT {keys}, item, sum(ideal_contribution) AS ideal, sum(loss) AS loss,
    count(*) FILTER (WHERE abs(loss) > {least}) AS queries, grouping(item) = 1 AS whole
FROM rankql_explained
GROUP BY GROUPING SETS (({keys}), ({item}))
HAVING whole OR queries > 0"""


def _contributions_sql(
    inputs: Inputs,
    metric: Metric,
    terms: MetricTerms,
    conventions: Conventions,
    rows: Rows,
    with_zero_gain: bool = False,
) -> str:
    """The SQL up to `rankql_explained`: items with their contributions and losses."""
    keys = inputs.keys
    group = f"OVER (PARTITION BY {keys})"
    # Items beyond the cutoff keep their position, which orders items of equal gain.
    without_cutoff = replace(metric, k=None)
    ctes = sources(inputs, conventions)
    ctes |= rankings(inputs, [without_cutoff], conventions, rows)
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
        AS place FROM counts {"" if with_zero_gain else "WHERE gain <> 0"}"""
    ideal_pos = _ideal_position(terms, metric)
    ctes["ideals"] = f"""
    SELECT *, CASE WHEN {ideal_cutoff} IS NULL OR rank <= {ideal_cutoff} THEN {ideal_pos} END
        AS ideal_pos
    FROM (SELECT *, CASE WHEN gain > 0 AND {pool} THEN {_ideal_rank(terms, keys)} END AS rank
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
    return with_ctes(steps, kept="rankql_explained")


def _ideal_rank(terms: MetricTerms, keys: str) -> str:
    """The rank in the ideal ranking: by gain, then as in the run."""
    # In a list of discounts a higher position may have the larger one.
    place = [terms.discount.format(place="place")] if terms.discounts else []
    ascending = [f"{column} ASC NULLS LAST" for column in (*place, "pos")]
    order = ", ".join(["gain DESC", *ascending, BY_ITEM])
    pool = terms.ideal_pool
    return f"row_number() OVER (PARTITION BY {keys}, gain > 0 AND {pool} ORDER BY {order})"


def _ideal_position(terms: MetricTerms, metric: Metric) -> str:
    """The position of a rank in the ideal ranking: first where the discounts are least."""
    if not terms.discounts:
        return "rank"
    least = terms.discounts[: metric.k]
    places = sorted(range(1, len(least) + 1), key=lambda place: least[place - 1])
    return f"{literal(places)}[rank]"


def _weight(terms: MetricTerms, place: str, keys: str) -> str:
    """The weight of each item's place, NULL outside the cutoff."""
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
    """A metric as a sum over items: the gain of each * the weight of its position."""

    gain: str
    weight: str
    # The line below the table.
    formula: str
    # The last position that counts, and how many items the ideal ranking has at most.
    cutoff: str
    ideal_cutoff: str
    # What the gain is divided by, in place of a weight.
    discount: str = ""
    # The discount of each position, where the user lists them.
    discounts: tuple[float, ...] = ()
    # Whether the sum over the ideal ranking becomes 1, as for nDCG.
    normalised: bool = False
    # The items that the ideal ranking is made of.
    ideal_pool: str = "true"


def metric_terms(metric: Metric, conventions: Conventions) -> MetricTerms:
    """A metric with its options under the conventions, as a sum."""
    assert metric.measure
    macro = metric.measure.macro
    options: dict[str, Any] = {k: v.strip("'") for k, v in metric.measure.defaults.items()}
    options |= metric.arguments(vars(conventions))
    cutoff = "relevant" if macro == "r_precision" else literal(metric.k)
    over, ideal_cutoff = _over(macro, cutoff, options.get("denominator", "k"))
    discount, discounts = "", ()
    if macro in ("ndcg", "dcg"):
        discount = f"(log2({{place}} + 1) / log2({options['base']}::DOUBLE))"
        if isinstance(options["discounts"], tuple):
            discounts = options["discounts"]
            discount = f"({literal(discounts)}::DOUBLE[])[CAST({{place}} AS BIGINT)]"
    weight = _WEIGHTS[macro].replace("{discount}", discount).replace("{over}", over)
    return MetricTerms(
        gain=_gain(metric, conventions, options),
        weight=weight.replace("{p}", str(options.get("p"))),
        formula=_FORMULAS[macro],
        cutoff=cutoff,
        ideal_cutoff=ideal_cutoff or cutoff,
        discount=discount,
        discounts=discounts,
        normalised=macro == "ndcg",
        ideal_pool="pos IS NOT NULL" if options.get("ideal") == "retrieved" else "true",
    )


def _gain(metric: Metric, conventions: Conventions, options: Mapping[str, Any]) -> str:
    """The gain of an item by its grade."""
    assert metric.measure
    macro = metric.measure.macro
    threshold = metric.threshold(vars(conventions))
    grade = gained(metric.gain(vars(conventions)), threshold)
    return {
        "ndcg": f"rankql_negative({grade}, {literal(options.get('negative'))})",
        "dcg": grade,
        "cg": grade,
        "judged_at": "CAST(rel IS NOT NULL AS DOUBLE)",
        "err": f"rankql_stop(rel, {literal(options.get('max_rel'))}, "
        f"{literal(options.get('stop', 'exp2'))})",
        "rbp": f"rankql_worth(rel, {threshold}, {options.get('max_rel')})",
    }.get(macro, f"rankql_hit(rel, {threshold})")


def _over(macro: str, cutoff: str, denominator: str) -> tuple[str, str]:
    """The denominator of a share; and the cutoff of the ideal ranking, where it depends on that."""
    if macro not in ("precision_at", "judged_at", "f1_at", "ap"):
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
