"""Write the SQL of an evaluation: every metric of every query of every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rankql.errors import RankqlError
from rankql.evaluation.ctes import (
    DUPLICATES,
    JUDGED,
    attributes_by_query,
    best_list_ctes,
    checks_top,
    ranking_ctes,
    score_order,
)
from rankql.evaluation.meta import Meta
from rankql.evaluation.metric_columns import (
    cut_column,
    is_catalogue,
    is_cut,
    is_ideal_retrieved,
    last_position,
    mask_undefined,
    metric_calls,
    needs_scores,
    own_metric,
    refuse_weights,
)
from rankql.evaluation.packed import Top
from rankql.evaluation.packed_metrics import PackedSums
from rankql.evaluation.plan import Plan
from rankql.evaluation.steps import select_from, source_ctes, with_ctes
from rankql.evaluation.summary import (
    grouping_sets,
    slice_columns,
    sliced_attributes,
    system_columns,
)
from rankql.macros import (
    INTERNAL_PREFIX,
    JUDGED_ROWS,
    MISSING,
    TIED,
    literal,
    quote,
)
from rankql.registry.conventions import Conventions
from rankql.registry.metric_record import Rows
from rankql.registry.requested_metric import Metric
from rankql.sources.inputs import Inputs

# Do items with a gain share a position?
_SHARES_POSITION = "count(pos) FILTER (WHERE rel > 0) > count(DISTINCT pos) FILTER (WHERE rel > 0)"
# Merged rankings share position 1, also if only rows with gain are read.
ONE_RANKING = ("run", "pos", "WHERE pos = 1")


@dataclass(frozen=True)
class Query:
    """The SQL of an evaluation."""

    # The named steps in order, and what is selected from them.
    steps: Mapping[str, str]
    select: str
    # The column with the weights of each metric that has some.
    weights: dict[str, str]
    # The macros check their arguments, because an expression of the user may pass anything.
    checked: bool = False
    # It selects sums, from which polars computes the values.
    packed: PackedSums | None = None

    @property
    def sql(self) -> str:
        """The complete query."""
        return with_ctes(self.steps) + self.select


def write_query(inputs: Inputs, plan: Plan) -> Query:
    """The query that computes all the metrics, one row per query and system."""
    metrics, conventions, rows = plan.metrics, plan.effective, plan.rows(inputs)
    require_compatible(inputs, metrics, plan.conventions)
    calls, weights = metric_calls(metrics, conventions)
    keys = key_columns(inputs, tied=plan.ranker == "untied")
    require_different_names([inputs.query, *inputs.by, MISSING, *calls])
    steps = source_ctes(inputs, conventions)
    steps |= ranking_ctes(inputs, metrics, conventions, rows, plan.ranker, plan.zeroes)
    if any(map(is_cut, metrics)):
        steps = _cut_own_metrics(inputs, metrics, steps)
    sums, (top, packed) = None, plan.packed
    if top and packed:
        sums = _pack(inputs, plan, steps, top, packed, keys, calls)
        steps, select = dict(sums.steps), "FROM integers"
    else:
        select = grouped(inputs, keys | mask_undefined(calls, conventions))
        select += f"\nORDER BY {_ascending(map(quote, _keys(inputs)))}"
    checked = any(metric.record is None for metric in metrics)
    return Query(steps, select, weights, checked, sums)


def write_catalogue_queries(
    inputs: Inputs, plan: Plan, groups: Sequence[Sequence[str]]
) -> dict[str, str]:
    """The query of each metric of the catalogue: its value by system and slice, from their rows."""
    metrics = [metric for metric in plan.metrics if is_catalogue(metric)]
    if not metrics:
        return {}
    meta = Meta("", [], {}, inputs.many, [*inputs.by], [[*group] for group in groups])
    attributes, systems = sliced_attributes(meta), system_columns(meta)
    slice_, _ = slice_columns(attributes)
    sets = grouping_sets(meta, attributes, ())
    rows = _join_queries(inputs)
    # An attribute may be NULL in some rows of a query.
    by = [f"any_value({x}) OVER (PARTITION BY {inputs.keys}) AS {x}" for x in attributes.values()]
    if by:
        rows = f"(SELECT * REPLACE ({', '.join(by)}) FROM {rows})"
    queries = {}
    for metric in metrics:
        steps = source_ctes(inputs, plan.conventions)
        steps |= ranking_ctes(inputs, [metric], plan.conventions, "all")
        value = own_metric(metric)
        if inputs.every("item"):
            each = f"({', '.join([*systems, 'query'])}, encode(CAST(item AS VARCHAR)))"
            repeats = f"{metric.name}: a ranking repeats an item. Keep one row of each"
            value = (
                f"CASE WHEN count(item) > count(DISTINCT {each}) "
                f"THEN rankql_fail({literal(repeats)}) ELSE {value} END"
            )
        shown = f"pos <= {metric.k}" if metric.k else "pos IS NOT NULL"
        fields = [*systems, f"{slice_} AS slice", f"{value} AS value"]
        rest = f"WHERE {shown} GROUP BY GROUPING SETS ({sets})"
        queries[metric.name] = with_ctes(steps) + select_from(rows, fields, rest)
    return queries


def _cut_own_metrics(
    inputs: Inputs, metrics: Sequence[Metric], steps: Mapping[str, str]
) -> dict[str, str]:
    """The steps; metrics of the user with a cutoff are computed over the first k positions."""
    cut = [metric for metric in metrics if is_cut(metric)]
    rows, joined = f"{INTERNAL_PREFIX}rows", [f"{INTERNAL_PREFIX}cut_{i}" for i in range(len(cut))]
    steps = {rows if name == "ranked" else name: body for name, body in steps.items()}
    for name, metric in zip(joined, cut, strict=True):
        fields = [inputs.keys, f"{own_metric(metric)} AS {cut_column(metric)}"]
        rest = f"WHERE pos <= {metric.k} GROUP BY {inputs.keys}"
        steps[name] = select_from(rows, fields, rest)
    joins = "".join(f" LEFT JOIN {name} USING ({inputs.keys})" for name in joined)
    return {**steps, "ranked": select_from(rows + joins, ["*"])}


def _pack(
    inputs: Inputs,
    plan: Plan,
    steps: Mapping[str, str],
    top: Top,
    packed: Mapping[str, str],
    keys: Mapping[str, str],
    calls: Mapping[str, str],
) -> PackedSums:
    """The steps up to `integers`, the packed tops, and what polars computes from them."""
    conventions = plan.effective
    plain = {name: value for name, value in calls.items() if name not in packed}
    steps, grade, place = {**steps}, "CAST(rel AS INTEGER)", "pos"
    integers = sums_integers(inputs, conventions)
    # Names of the user are replaced by ours until the final SELECT.
    others = {**keys, **mask_undefined(plain, conventions)}
    hidden = {name: f"{INTERNAL_PREFIX}column_{i}" for i, name in enumerate(others)}
    columns = {hidden[name]: value for name, value in others.items()}
    if integers:
        # Integers are faster to compare and to shift than the DOUBLE of the macros.
        grade, place = f"{INTERNAL_PREFIX}rel", f"{INTERNAL_PREFIX}pos"
        steps["run"] = source_ctes(inputs, conventions, integers=True)["run"]
    if plan.ranker == "best":
        order, group = score_order(conventions.ties), partial(grouped, inputs)
        steps |= best_list_ctes(top, columns, inputs.keys, order, group, plan.assumes_no_ties)
        if plan.assumes_no_ties:
            hidden[TIED] = TIED
    else:
        steps["sums"] = grouped(inputs, columns | top.sums(grade, place, first=integers))
    # Sort while rows are small. The following steps keep their order.
    steps["sums"] += f"\nORDER BY {_ascending(inputs.keys.split(', '))}"
    fields = [f"{value} AS {quote(name)}" for name, value in top.integers().items()]
    steps["integers"] = select_from("sums", [*map(quote, hidden.values()), *fields])
    values = mask_undefined(packed, conventions, top.relevant(conventions.threshold))
    values |= {name: quote(column) for name, column in hidden.items()}
    names = [*keys, *([TIED] if TIED in hidden and TIED not in keys else []), *calls]
    return PackedSums(
        steps,
        top.steps(),
        {name: values[name] for name in names},
        repeated=top.repeats_position(),
        crowded=top.overflows(),
        message=DUPLICATES,
    )


def sums_integers(inputs: Inputs, conventions: Conventions) -> bool:
    """Are the packed sums over the rows of a table with grades and positions?"""
    return inputs.qrels is None and not inputs.scored and conventions.unjudged != "remove"


def unique_columns(inputs: Inputs, plan: Plan) -> list[tuple[str, str, str]]:
    """What must be unique in the tables; positions only as far as macros read them.

    Judgments come first: some plans find duplicates in the run only when they compute the metrics.
    """
    plain, conventions = plan.readable, plan.conventions
    rows: Rows = plain.rows(inputs)
    columns = []
    if inputs.qrels is not None:
        columns.append(("qrels", "item", "WHERE rel > 0" if rows == "gain" else ""))
    _, packed = plan.packed
    # Packed sums check that a ranking has one position 1.
    if not inputs.scored and not (packed and sums_integers(inputs, conventions)):
        columns.append(ONE_RANKING)
    removed = conventions.unjudged == "remove"  # the rows that are left need positions of their own
    if inputs.every("item") and not checks_top(inputs, plan.metrics, plan.effective, plan.ranker):
        columns += [("run", "item", where) for where in _rows_read(inputs, plan)]
    if inputs.qrels is not None:
        if removed and not inputs.scored:
            columns.append(("run", "pos", f"{JUDGED} AND pos IS NOT NULL"))
        return columns
    others = [metric for metric in plan.metrics if metric.name not in packed]
    k = last_position(others, conventions) if others else 0
    if not inputs.scored and (removed or k != 0):
        within = "" if removed or k is None else f" AND pos <= {k}"
        columns.append(("run", "pos", f"WHERE rel > 0 AND pos IS NOT NULL{within}"))
    return columns


def _rows_read(inputs: Inputs, plan: Plan) -> list[str]:
    """What selects the rows of the run that metrics read, and those tied with the k-th score."""
    conventions, place = plan.effective, "score" if inputs.scored else "pos"
    if conventions.unjudged == "remove":  # the query itself refuses duplicate judgments
        return [] if inputs.qrels else ["WHERE rel IS NOT NULL"]
    graded = "" if inputs.qrels else "rel > 0 OR "
    if any(metric.k is None or is_ideal_retrieved(metric, conventions) for metric in plan.metrics):
        return [f"WHERE {graded}{place} IS NOT NULL"]
    k = max(metric.k or 0 for metric in plan.metrics)
    if not inputs.scored:
        return [f"WHERE {graded}pos <= {k}"]
    rank = f"rank() OVER (PARTITION BY {inputs.keys} ORDER BY score DESC NULLS LAST)"
    return [f"WHERE {graded}score IS NOT NULL QUALIFY {graded}{rank} <= {k}"]


def _ascending(keys: Iterable[str]) -> str:
    """An order that does not depend on settings."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def grouped(inputs: Inputs, columns: Mapping[str, str]) -> str:
    """The SELECT of aggregates by ranking."""
    return _select(columns, _join_queries(inputs)) + f"\nGROUP BY {inputs.keys}"


def _join_queries(inputs: Inputs) -> str:
    """The rows of all queries that count, with their attributes."""
    if inputs.qrels is not None:
        return f"queries LEFT JOIN ranked USING ({inputs.keys})"
    if inputs.attributes is None:
        return "ranked"
    return f"ranked LEFT JOIN {attributes_by_query(inputs, 'attributes')} USING (query)"


def _select(columns: Mapping[str, str], source: str) -> str:
    fields = (f"{value} AS {quote(name)}" for name, value in columns.items())
    return "SELECT " + ",\n    ".join(fields) + f"\nFROM {source}"


def key_columns(inputs: Inputs, tied: bool = False) -> dict[str, str]:
    """The keys and attributes of a ranking, and whether the run lacks it, as aggregates.

    tied: whether its scores are tied, too. Duplicate items are refused.
    """
    missing = "false"
    if inputs.qrels is not None:
        repeats = f"count(rel) > any_value({JUDGED_ROWS})"
        repeats += "" if inputs.scored else f" OR {_SHARES_POSITION}"
        fail, missing = f"rankql_fail('{DUPLICATES}')", f"any_value({MISSING})"
        missing = f"CASE WHEN {repeats} THEN {fail} ELSE {missing} END"
    attributes = {name: f"any_value({inputs.attribute(name)})" for name in inputs.by}
    columns = _keys(inputs) | attributes | {MISSING: missing}
    return columns | ({TIED: f"any_value({TIED})"} if tied else {})


def _keys(inputs: Inputs) -> dict[str, str]:
    """The keys of a ranking, by their names in the result."""
    return {**({"system": "system"} if inputs.many else {}), inputs.query: "query"}


def require_compatible(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics and conventions that cannot be computed together."""
    scores = all("score" in table.roles for table in inputs.runs.values())
    for metric in metrics:
        if metric.record and metric.record.compares_scores and not scores:
            raise RankqlError(
                f"{metric.name} compares grades with scores, but the run has none: score='...'"
            )
    together = [metric.name for metric in metrics if is_catalogue(metric)]
    refuse_weights(together, inputs.weight)
    cut = next((m.name for m in metrics if is_cut(m) or m.name in together), None)
    if cut and conventions.ties == "expected":
        raise RankqlError(f"{cut} needs positions, but ties='expected' has none. Use ties='item'")
    if conventions.ties == "expected":
        _refuse_expected_ties(metrics, conventions)
    if inputs.ascending and needs_scores(metrics):
        _refuse_orders(inputs, metrics, conventions)
    gains = conventions.gain.items() if isinstance(conventions.gain, Mapping) else ()
    if conventions.ties in ("best", "worst"):
        options = [m.options.get("discounts", ()) for m in metrics]
        falling = any([*d] != sorted(d) for d in (conventions.discounts or (), *options))
        rising = [gain for _, gain in sorted(gains)]
        if falling or rising != sorted(rising):
            raise RankqlError(
                f"ties={conventions.ties!r} orders tied items by grade, so gains must rise with "
                "the grade, and discounts with the position"
            )


def _refuse_expected_ties(metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics whose macros cannot average over the orders of tied items, in their words."""
    for metric in metrics:
        refused = metric.record.no_expected_ties if metric.record else None
        if refused is None or not refused.items() <= metric.arguments(vars(conventions)).items():
            continue
        assert metric.record
        options = "".join(f" with {name} {value!r}" for name, value in refused.items())
        raise RankqlError(
            f"ties 'expected' is not available for {metric.record.macro}{options}. Use 'item'"
        )


def _refuse_orders(inputs: Inputs, metrics: Sequence[Metric], conventions: Conventions) -> None:
    """Refuse metrics that read scores if it is unclear whether these are -score."""
    name = next(metric.name for metric in metrics if needs_scores([metric]))
    if not all(table.ascending for table in inputs.runs.values()):
        raise RankqlError(
            f"{name} reads scores, but the lowest is best in some runs and the highest in others. "
            "Evaluate these runs one by one"
        )
    if conventions.ties == "expected":
        raise RankqlError(
            f"{name} reads scores, and ties='expected' requires that the highest is best. Use "
            "ties='item', or pass -score"
        )


def require_different_names(names: Sequence[str]) -> None:
    """Refuse two columns of the same name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise RankqlError(
                f"Two columns of the result would be called {name!r}. Rename one of them"
            )
        seen.add(name.lower())
