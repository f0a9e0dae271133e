"""The plan of an evaluation: inputs, conventions and metrics, resolved before anything is computed.

What comes out is an `Evaluation`, and final: no later step has options of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import duckdb
import polars as pl

from rankql.core.base.column_names import ROLES, SUBTOPICS
from rankql.core.base.doors import DOORS, call_extra
from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.base.text import format_queries
from rankql.core.evaluation.plan.columns import validate_columns
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import NO_GRADES
from rankql.core.evaluation.query.readable import require_compatible
from rankql.core.evaluation.query.ties import resolve_ties
from rankql.core.metrics.conventions import PROFILES, Conventions
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.metrics.metric_record import Metric, reads_grades
from rankql.core.metrics.parse import list_once, of_groups, parse, rule
from rankql.core.metrics.profiles import entry, tool_of
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.numbers.judgments import list_subtopics
from rankql.core.tables.numbers.values import without_infinite_fills
from rankql.core.tables.private import create_macros, private_connection
from rankql.core.tables.reader import count_values, fetch
from rankql.core.tables.reading import open_runs, read_inputs, with_rows_of
from rankql.core.tables.request import Request
from rankql.core.tables.session import Session, duckdb_errors
from rankql.core.tables.sql_expressions import number_type, require_scalar
from rankql.core.tables.tables import Table, mentioned, require_column


def make_plan(session: Session, request: Request) -> Evaluation:
    """Read the inputs, and resolve conventions and metrics."""
    conventions, groupings = request.rules.conventions, request.groupings
    metrics, grouped = parse(request.metrics, conventions.profile), bool(request.rules.groups)
    metrics = [*map(of_groups, metrics)] if grouped else metrics
    if request.rules.span is not None or any(metric.spans for metric in metrics):
        call_extra("require metrics", request, metrics)
    inputs = read_rankings(session, request, reads_grades(metrics), metrics=metrics)
    if request.rules.pool:
        metrics = [replace(x, of_run=x.known is None) for x in metrics]
    validate_columns(inputs, counted=True)
    if inputs.beyond.catalogue is not None or request.seen or any(m.shown for m in metrics):
        call_extra("require sources", inputs, metrics, request.seen)
    for door in DOORS["items"]:
        if door.applies(inputs, request):
            inputs = door.load()(session, inputs, request)
    reads = grouped or any(f"({SUBTOPICS}, " in metric.expression for metric in metrics)
    if reads and inputs.qrels and not any(run.has(SUBTOPICS) for run in inputs.runs.values()):
        qrels, notes = list_subtopics(inputs.qrels, conventions.threshold)
        notes = [*inputs.notes, *([] if grouped else notes)]
        inputs = replace(inputs, qrels=qrels, subtopics=True, notes=notes)
    if any(metric.expression for metric in metrics):
        inputs = replace(inputs, extra=extra_columns(inputs.runs.values(), metrics))
    evaluation = resolve_conventions(Evaluation(session, inputs, conventions, metrics))
    threshold = evaluation.conventions.threshold
    if threshold == Conventions.threshold and "threshold" not in request.rules.options:
        _require_threshold(replace(evaluation, metrics=metrics))
    plan = plan_metrics(evaluation)
    return replace(plan, groupings=groupings, request=request)


def read_rankings(
    session: Session,
    request: Request,
    graded: bool = True,
    keeps_unjudged: bool = False,
    metrics: Sequence[Metric] | None = None,
) -> Inputs:
    """The inputs without unjudged queries, with documents instead of chunks if the caller says so.

    graded: a run without judgments needs grades. keeps_unjudged: unjudged queries stay, for
    `check`.
    """
    rules = request.rules
    request = replace(request, run=open_runs(session, request.run))
    try:
        inputs = read_inputs(session, request)
    except Question as error:
        graded = graded or request.qrels is not None or rules.columns["rel"] is not None
        if graded or not error.ungraded:
            raise
        nothing = pl.DataFrame(schema=dict.fromkeys(("query", "item", "rel"), pl.String))
        inputs = replace(read_inputs(session, replace(request, qrels=nothing)), qrels=None)
    with duckdb_errors():
        inputs = leave_out_padding(leave_out_empty(session, inputs), of_null=True)
    option = rules.unjudged_queries
    wrong = "unjudged_queries='count' needs judgments in a table of their own. Pass qrels="
    require(option != "count" or inputs.qrels is not None, wrong)
    inputs = replace(
        inputs, collapsible=not keeps_unjudged, unjudged_queries=option,
        none_judged=rules.none_judged,
    )  # fmt: skip
    if inputs.qrels is None and not rules.pool and not keeps_unjudged:
        inputs, left_out = leave_out_unjudged(session, inputs)
        require(all(each.judged for each in left_out), NO_GRADES)
        inputs = replace(inputs, left_out=left_out)
    for door in DOORS["rankings"]:
        if door.applies(inputs, request):
            inputs = door.load()(session, inputs, request)
    if rules.pool is not None or inputs.system is not None or len(inputs.runs) > 1:
        from rankql.core.evaluation.plan.pooling import pool_grades  # for several systems alone

        inputs = pool_grades(session, inputs, rules, metrics)
    return inputs


class QueryOverlap(NamedTuple):
    """The numbers of queries and judged queries of a system, with examples of unjudged ones."""

    system: str | None
    queries: int
    judged: int
    unjudged: Sequence[object] | None


def leave_out_unjudged(session: Session, inputs: Inputs) -> tuple[Inputs, list[QueryOverlap]]:
    """Ranked tables without the queries that have no grade, and how many these are."""
    tables = inputs.runs.values()
    if inputs.qrels or not inputs.every("rel"):
        return inputs, []
    counts = (count_values(table, [table.roles["rel"]]) for table in tables)
    if all(rows == sum(grades.values()) for rows, grades in counts):
        return inputs, []
    as_text, key = inputs.as_text("query"), f"{INTERNAL_PREFIX}query"
    in_memory = None if as_text else _judged_in_memory(session, inputs)
    if in_memory is not None and in_memory["judged"].all():
        return inputs, []
    keys = {table.label: table.key("query", as_text) for table in tables}
    rows = " UNION ALL ".join(
        f"SELECT {keys[table.label]} AS {key}, {quote(table.roles['rel'])} IS NOT NULL AS judged_ "
        f"FROM {table.sql}"
        for table in tables
    )
    queries = f"SELECT {key}, bool_or(judged_) AS judged_ FROM ({rows}) GROUP BY {key}"
    unjudged = f"(SELECT {key} FROM ({queries}) WHERE NOT judged_)"
    count = "count(*), count(*) FILTER (WHERE judged_)"
    examples = f"min({key}, 3) FILTER (WHERE NOT judged_)"
    if in_memory is None:
        overlap = fetch(session, f"SELECT NULL, {count}, {examples} FROM ({queries})")
    else:
        others = in_memory.filter(~in_memory["judged"])["query"]
        counted = (in_memory.height, in_memory.height - len(others))
        overlap = [(None, *counted, others.sort().head(3).to_list())]
    if overlap[0][1] == overlap[0][2]:
        return inputs, []
    judged = {}
    for name, table in inputs.runs.items():
        join = f"ANTI JOIN {unjudged} ON {keys[table.label]} = {key}"
        judged[name] = replace(table, sql=f"(FROM {table.sql} {join})")
        if in_memory is not None:
            frame, query = session.frames[table.sql], table.roles["query"]
            frame = frame.filter(~frame[query].is_in(others.implode()))
            session.keep(judged[name], frame.select([*table.columns]))
    return replace(inputs, runs=judged), [QueryOverlap(*row) for row in overlap]


def _judged_in_memory(session: Session, inputs: Inputs) -> pl.DataFrame | None:
    """The queries of ranked tables and whether they have a grade; None of others than frames."""
    parts = list[pl.LazyFrame]()
    for table in inputs.runs.values():
        frame = session.frames.get(table.sql)
        names = [table.roles["query"], table.roles["rel"]]
        if frame is None or not {*table.columns} <= {*frame.columns}:
            return None
        kind = frame.schema[names[0]]
        if not (kind == pl.String or kind.is_integer()) or frame[names[0]].null_count():
            return None
        judged = frame[names[1]].is_not_null().alias("judged")
        parts.append(pl.LazyFrame([frame[names[0]].alias("query"), judged]))
    rows = pl.concat(parts, how="vertical_relaxed").group_by("query")
    return rows.agg(pl.col("judged").any()).collect(engine="in-memory")


def leave_out_empty(session: Session, inputs: Inputs) -> Inputs:
    """The inputs without rows whose item is NULL, of queries that have no other: they retrieved
    nothing. Their attributes stay.
    """
    runs = dict(inputs.runs)
    for name, table in runs.items() if inputs.qrels else ():
        item = table.roles.get("item", "")
        if not item or table.is_assumed("item") or table.unit != "rows":
            continue
        total, counts = count_values(table, inputs.ids(table))  # as the checks of ids do
        if counts[item] == total:
            continue
        keys = ", ".join(map(quote, (x for x in inputs.ids(table) if x != item)))
        filled = f"(FROM {table.sql} WHERE {quote(item)} IS NOT NULL)"
        both = f"SELECT {keys} FROM {table.sql} WHERE {quote(item)} IS NULL INTERSECT "
        if counts[item] and not session.rows(f"{both} SELECT {keys} FROM {filled} LIMIT 1"):
            runs[name] = replace(table, sql=filled)
            empty = format_queries(total - counts[item])
            session.note(table.label, f"{empty} without an item retrieved nothing")
    if [*runs.values()] == [*inputs.runs.values()]:
        return inputs
    systems: Sequence[str] = inputs.systems
    if inputs.system is not None and not systems:
        (table,) = inputs.runs.values()
        sql = f"SELECT DISTINCT CAST({quote(inputs.system)} AS VARCHAR) FROM {table.sql} ORDER BY 1"
        systems = [x for (x,) in session.rows(sql)]
    return with_rows_of(session, replace(inputs, runs=runs, systems=systems), inputs)


def leave_out_padding(inputs: Inputs, of_null: bool = False) -> Inputs:
    """The inputs without rows of padding; of_null: only runs in which items are NULL."""
    runs = dict(inputs.runs)
    for name, table in runs.items():
        scored = {"item", "score"} <= {*table.roles} and "pos" not in table.roles
        if not scored or table.is_assumed("item"):
            continue
        total, counts = count_values(table, inputs.ids(table))
        if not of_null or counts[table.roles["item"]] < total:
            runs[name] = without_infinite_fills(table)
    return replace(inputs, runs=runs)


def plan_metrics(evaluation: Evaluation) -> Evaluation:
    """The evaluation of resolved metrics, with what metrics of shown items read."""
    inputs, metrics = evaluation.inputs, evaluation.metrics
    require_compatible(inputs, metrics, evaluation.conventions)
    if inputs.beyond.train or any(metric.shown for metric in metrics):
        evaluation = call_extra("add training", evaluation)
    return evaluation


def extra_columns(runs: Iterable[Table], metrics: Sequence[Metric]) -> dict[str, str]:
    """The columns of the runs that metrics of the user read: their names, and their SQL.

    In text files, columns of numbers are numbers. `query`, `item`, `rel`, `pos` and `score` are
    those of the evaluation.
    """
    first, *others = runs
    text = " ".join(metric.expression for metric in metrics)
    own = {}
    for name in mentioned(first.columns, text):
        if name.lower() in (*ROLES, "system", "line"):
            continue
        for table in others:
            require_column(table, name, "metrics")
        numbers = first.text and all(number_type(t, name) for t in (first, *others))
        own[name] = f"CAST({quote(name)} AS DOUBLE)" if numbers else quote(name)
    return own


def resolve_conventions(evaluation: Evaluation) -> Evaluation:
    """The evaluation with max_rel from the grades if a metric needs it, and with metrics without
    options that repeat a convention.
    """
    inputs, metrics, conventions = evaluation.inputs, evaluation.metrics, evaluation.conventions
    conventions = require_profile(evaluation)
    for metric in metrics:
        if metric.known is None:
            what = f"The metric {metric.label!r} = {metric.expression!r}"
            require_scalar(metric.expression, what)
            _require_rows(metric.expression, what)
    conventions = resolve_ties(inputs, metrics, conventions, evaluation.has_grade)
    sampled = next((m.name for m in metrics if m.record and m.record.reads_sample), None)
    if sampled and conventions.negative == "unjudged":
        # For other metrics of the gain, unjudged and not relevant are the same.
        for metric in metrics:
            by_gain = metric.record and metric.record.rows == "gain"
            same_rule = by_gain and metric.threshold(vars(conventions)) >= 0
            if metric.name != sampled and not same_rule:
                raise RankqlError(
                    f"{sampled} reads the grades below 0, which are unjudged for {metric.name}. "
                    f"Evaluate {sampled} alone"
                )
        conventions = replace(conventions, negative="zero")
    scales = [m.options.get("max_rel", conventions.max_rel) for m in metrics if m.scaled]
    exponential = any(m.record and m.gain(vars(conventions)) == "exp2" for m in metrics)
    limits = [scale for scale in scales if scale is not None] + ([1000] if exponential else [])
    if None in scales or (limits and evaluation.has_grade((">", min(limits)))):
        highest = evaluation.highest_grade()
        if exponential and highest > 1000:
            raise RankqlError(f"2^rel overflows for grade {highest:g}. Rescale the grades")
        for scale in scales:
            if scale is not None and scale < highest:
                raise RankqlError(f"max_rel={scale:g} is below the highest grade, {highest:g}")
        if None in scales:
            conventions = replace(conventions, max_rel=highest or 1.0)
    _require_reached(replace(evaluation, conventions=conventions))
    rules, counted = vars(conventions), dict[str, Any]()
    unique = list_once((metric.under(rules) for metric in metrics), rules)
    for option in ("undefined", "missing"):
        values = {m.name: rule(rules, option, m.name) for m in unique}
        counted[option] = values if len({*values.values()}) > 1 else next(iter(values.values()))
    conventions = replace(conventions, **counted)
    return replace(evaluation, conventions=conventions, metrics=unique)


# Equal scores within the cutoff.
_TIED = """SELECT query FROM (
    SELECT {keys}, count(*) OVER (PARTITION BY {keys}, score) AS n,
           rank() OVER (PARTITION BY {keys} ORDER BY score DESC) AS place,
           count(*) OVER (PARTITION BY {keys}) AS items
    FROM run WHERE score IS NOT NULL) WHERE n > 1 AND place <= {k}"""
# The rankings of which a profile cannot give the number, by the limit of its tool.
_LIMITS = {
    "tied": _TIED,
    "many": f"{_TIED} AND items > 15",
    "fractions": "SELECT query FROM {graded} WHERE rel <> trunc(rel)",
    "silent": """SELECT query FROM
        (SELECT {other}, max(rel) AS highest FROM {graded} GROUP BY {other})
        ANTI JOIN (FROM run WHERE {place} IS NOT NULL) USING ({other})
        WHERE coalesce(highest, 0) <= 0""",
    "rows": """SELECT query FROM (
        SELECT {keys}, score > lag(score) OVER (PARTITION BY {keys} ORDER BY line ASC) AS rises
        FROM run WHERE score IS NOT NULL) WHERE rises""",
    "short": """SELECT query FROM (SELECT {keys}, count({place}) AS n FROM run GROUP BY {keys})
        JOIN (SELECT {other}, count(*) AS r FROM {graded} WHERE rel > 0 GROUP BY {other})
        USING ({other}) WHERE n > 0 AND n < least(r, {k})""",
}


def require_profile(evaluation: Evaluation) -> Conventions:
    """The conventions; refuse metrics if the tool of the profile has another number on the data."""
    inputs, metrics, conventions = evaluation.inputs, evaluation.metrics, evaluation.conventions
    tool, own = tool_of(conventions.profile), PROFILES[conventions.profile.partition(",")[0]]
    kept = (conventions.ties, conventions.float32) == (own.ties, own.float32)
    scored, k = inputs.scored and kept, max(m.k or _HIGHEST for m in metrics)
    other = "query" if inputs.qrels else inputs.keys
    names = {"keys": inputs.keys, "other": other, "graded": inputs.judging_cte, "k": k}
    names["place"] = "score" if inputs.scored else "pos"
    for field, metrics_refused in tool.limits.items():
        applies = scored or field in ("short", "fractions", "silent")
        reasons = {
            m.name: reason
            for m in metrics
            if m.record
            if (reason := entry(metrics_refused, m.name, m.record.name))
        }
        if not reasons or not applies:
            continue
        sql = f"SELECT min(query), count(DISTINCT query) FROM ({_LIMITS[field].format(**names)}) "
        sql += "SEMI JOIN qrels USING (query)" if inputs.qrels else ""
        ((example, count),) = evaluation.run_sql(sql)
        name, reason = next(iter(reasons.items()))
        require(not count, f"{name}: {reason} ({format_queries(count)}, such as {example!r})")
        if field == "tied" and conventions.ties == "expected":
            conventions = replace(conventions, ties="order")  # without ties, the same
    return conventions


def _require_rows(expression: str, what: str) -> None:
    """Refuse an expression that has the same value whatever the rows are, as '10'."""
    with private_connection() as con:
        try:
            # One row if it has an aggregate; a column is not known here.
            rows = f"range(2) AS {INTERNAL_PREFIX}t({INTERNAL_PREFIX}n)"
            sql = f"SELECT (\n{expression}\n) FROM {rows}"
            count = len(con.execute(create_macros(con, sql)).fetchall())
        except duckdb.Error:
            return
    require(
        count == 1,
        f"{what} reads no column and has no aggregate, so it is the same for every ranking. Pass "
        "options by name, outside metrics, and the cutoff in the metric: nDCG@10",
    )


# Of metrics without a cutoff.
_HIGHEST = 2**53
# The options with which a metric says from which grade items are relevant, or counts fractions.
_LEVELS = ("threshold", "max_rel")


def _require_threshold(evaluation: Evaluation) -> None:
    """Refuse to count relevant items by the threshold 1 if grades are fractions up to it."""
    binary = [
        x.name for x in evaluation.metrics
        if x.record and "threshold" in x.record.options and {*x.options}.isdisjoint(_LEVELS)
    ]  # fmt: skip
    if (
        binary
        and not any(table.is_assumed("rel") for table in evaluation.inputs.judging)
        and evaluation.has_fractions()
        and not evaluation.has_grade((">", 1))
    ):
        raise RankqlError(
            f"{binary[0]}: grades are fractions up to 1, and from which one an item is relevant is "
            "not known. Pass threshold= with the lowest relevant grade"
        )


def _require_reached(evaluation: Evaluation) -> None:
    """Refuse metrics that are 0 because all grades are below 1 and the threshold."""
    for metric in evaluation.metrics:
        record, threshold = metric.record, metric.threshold(vars(evaluation.conventions))
        if (
            record
            and {"threshold"} <= record.options.keys()
            and record.undefined == "never"
            and "max_rel" not in metric.options
            and not evaluation.grade_scale
            and not evaluation.has_grade((">=", min(1.0, threshold)))
            and (highest := evaluation.highest_grade()) > 0
        ):
            graded = ", or max_rel=1 in the metric, so that grades count"
            raise RankqlError(
                f"{metric.name} would be 0: the highest grade is {highest:g}, below the threshold "
                f"{threshold:g}. Pass a lower threshold="
                f"{graded if 'max_rel' in record.options else ''}"
            )
