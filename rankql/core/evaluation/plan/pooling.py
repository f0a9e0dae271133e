"""Whose grades count where several runs have grades of their own: those of all, or of each alone.

`pool=True` makes the grades of all runs one set of judgments, as if their rows were passed as
qrels. `pool=False` measures each run by the grades of its own rows. Without pool=, it is asked
where it may change a value: a metric reads more than the grades of shown rows, and the judged items
of two systems differ in a query that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from rankql.core.base.errors import Question, RankqlError, advise, as_arguments, require
from rankql.core.base.text import NO_OTHERS, Note, format_count, has_or_have, join_words
from rankql.core.evaluation.plan.columns import validate_numbers
from rankql.core.evaluation.plan.meta import NO_GRADES
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import rule
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.request import RankingRules
from rankql.core.tables.session import Session
from rankql.core.tables.tables import Table, quote_name

# The queries in which the judged items of two systems may differ: the sums of their hashes do,
# which repeated items change too.
_LIKELY = """SELECT query FROM (
        SELECT system, query, coalesce(sum(hash(item)) FILTER ({counts}), 0) AS items
        FROM {rows} GROUP BY system, query) GROUP BY query HAVING min(items) < max(items)"""
# Does a system lack a judged item that another one has in a query of both?
_DIFFER = """WITH rows AS NOT MATERIALIZED {rows},
    likely AS MATERIALIZED ({likely} LIMIT {limit}),
    shown AS MATERIALIZED (FROM rows SEMI JOIN likely USING (query)),
    systems AS (SELECT query, count(DISTINCT system) AS n FROM shown GROUP BY query),
    judged AS (SELECT query, item, count(DISTINCT system) AS has FROM shown
               WHERE {counts} GROUP BY query, item)
    SELECT count(*) > 0, (SELECT count(*) FROM likely)
    FROM judged JOIN systems USING (query) WHERE has < n"""
# So many of these queries mostly decide.
_FIRST = 100
# The judged items, the lowest grade of each, and how many rows of it have none. An item of which no
# grade counts stays: its query is judged.
_POOL = """(SELECT query AS {query}, item AS {item}, max(rel) AS {rel},
           coalesce(min(rel) FILTER ({counts}), max(rel)) AS {low},
           CASE WHEN bool_or({counts}) THEN count_if(({counts}) IS NOT TRUE) ELSE 0 END AS {null}
    FROM {rows} GROUP BY query, item HAVING count(rel) > 0)"""
# All items, those with two grades, beyond the rounding of floats, three of these, and rows of NULL.
_TWO = "{rel} - {low} > 1e-6 * greatest(abs({rel}), abs({low}))"
_FACTS = f"""count(*), count_if({_TWO}),
    min(({{query}}, {{item}}, {{low}}::DOUBLE, {{rel}}::DOUBLE), 3) FILTER ({_TWO}),
    coalesce(sum({{null}}), 0)::BIGINT"""
# What each answer means, and of how many systems the question shows the values.
# The kind of the note on rows of NULL.
NULLS = "null-in-pool"
_ASKED = "Several systems have grades of their own. Which count?"
_MEANINGS = {True: "all grades are one set of judgments ",
             False: "each run is measured by its own rows"}  # fmt: skip
_SHOWN = 3
# By system, the mean of each metric.
Means = Mapping[str, Mapping[str, float | None]]


def with_means(
    question: Question, read: Callable[[bool, Sequence[str]], tuple[Means, bool]]
) -> Question:
    """The question with the first metric whose mean differs, of at most three systems.

    read: the means of metrics under pool=, and whether a NULL has the grade of another row; then
    pool=False stands first. An answer that fails is in words.
    """
    asked, others = copy(question), list[str]()
    for metrics in filter(None, (question.metrics[:1], question.metrics[1:])):
        means, others = dict[bool, Means](), []
        for pool in (True, False):
            try:
                means[pool], nulls = read(pool, metrics)
            except RankqlError as error:
                others.append(error.text)
                if len(others) == 2:
                    raise  # whoever's grades count
                continue
            if pool and nulls:
                asked.calls = [{"pool": False}, {"pool": True}]
        systems = [*dict.fromkeys(name for each in means.values() for name in each)]
        differing = {
            x: [y for y in systems if len({_show(each, y, x) for each in means.values()}) > 1]
            for x in metrics
        }
        if others or any(differing.values()):
            break
    metric = next(filter(differing.get, metrics), metrics[0])
    shown = [*dict.fromkeys([*differing[metric], *systems])][:_SHOWN]
    names = join_words(systems) if len(systems) <= _SHOWN else f"{len(systems)} systems"
    asked.text = f"{names} have grades of their own. Which count for {metric}?"
    asked.calls, asked.others = [x for x in asked.calls if x["pool"] in means], others
    for pool, each in means.items():
        values = ", ".join(f"{x} {_show(each, x, metric)}" for x in systems if x in shown)
        asked.meanings[as_arguments({"pool": pool})] = f"{_MEANINGS[pool]}  {values}"
    return asked


def _show(means: Means, system: str, metric: str) -> str:
    """A mean, as the question has it."""
    value = means.get(system, {}).get(metric)
    return "undefined" if value is None else f"{value:.4f}"


def pool_grades(
    session: Session, inputs: Inputs, rules: RankingRules, metrics: Sequence[Metric] | None
) -> Inputs:
    """The inputs, with the grades of all runs as judgments under pool=True.

    metrics: None if nothing is computed, so that nothing is asked.
    """
    several = inputs.system is not None or len(inputs.runs) > 1
    if inputs.qrels is not None or not inputs.every("rel"):
        require(rules.pool is None, "pool= is for grades inside the runs. Leave it out")
        return inputs
    known = not inputs.numbered and inputs.every("item")
    message = "pool=True needs ids that say which items are the same. Pass item=, or pool=False"
    require(known or not rules.pool, message)
    asks = rules.pool is None and several and known and session.reads_values
    conventions = vars(rules.conventions)
    reading = [x.name for x in metrics or () if asks and reads_unshown(x, conventions)]
    if not (rules.pool or reading or (asks and metrics is None)):
        return inputs
    every = _read_rows(inputs)
    counts = "rel >= 0" if rules.conventions.negative == "unjudged" else "rel IS NOT NULL"
    if not rules.pool:
        for limit in (_FIRST, "ALL"):
            likely = _LIKELY.format(rows=every, counts=counts)
            sql = _DIFFER.format(rows=every, likely=likely, limit=limit, counts=counts)
            differ, looked = session.row(sql)
            if differ or looked < _FIRST:
                break
        if not differ:
            return inputs
        if metrics is None:
            what = "systems have other judged items, so evaluate asks which count"
            session.note("Grades", f"{what}: pass pool=")
            return inputs
        question = Question(_ASKED, [{"pool": True}, {"pool": False}])
        question.metrics = reading
        raise question
    roles = {x: next(iter(inputs.runs.values())).roles[x] for x in ("query", "item", "rel")}
    names = {x: quote(f"{INTERNAL_PREFIX}{x}") for x in ("low", "null")}
    names |= {role: quote(name) for role, name in roles.items()}
    sql = _POOL.format(rows=every, counts=counts, **names)
    pool = session.load("qrels", sql, text=False, roles=roles)
    documents = rules.collapse is not None  # which have the highest grade of their chunks
    items, two, examples, nulls = pool.row(_FACTS.format(**names))
    require(bool(items), NO_GRADES)
    if two and not documents:
        raise _two_grades(two, examples, roles["rel"])
    # Judgments of other runs are known now.
    notes = map(Note.of, session.notes)
    session.notes = [x.reword(lambda words: words.partition(NO_OTHERS)[0]) for x in notes]
    if nulls:
        count = format_count(nulls, "row")
        have = f"{count} without a grade {has_or_have(nulls)} that of another row"
        session.note("Grades", have, NULLS)
    return _with_pool(inputs, pool)


def reads_unshown(metric: Metric, conventions: Mapping[str, Any]) -> bool:
    """Does the value depend on judged items that are not shown?"""
    counted = rule(conventions, "undefined", metric.name) == "zero"
    return metric.unshown(conventions) not in ("nothing", "presence" if counted else "nothing")


def _read_rows(inputs: Inputs) -> str:
    """The system, query, item and grade of the rows of all runs, as SQL."""
    whole, rows = all(table.integer("rel") for table in inputs.runs.values()), list[str]()
    for name, table in inputs.runs.items():
        validate_numbers(table, ("rel",))
        fields = inputs.fields(table, name)
        fields |= {"rel": table.integer("rel") or ""} if whole else {}
        columns = (f"{fields[x]} AS {x}" for x in ("system", "query", "item", "rel") if x in fields)
        rows.append(f"SELECT {', '.join(columns)} FROM {table.sql}")
    return f"({' UNION ALL '.join(rows)})"


def _with_pool(inputs: Inputs, pool: Table) -> Inputs:
    """The inputs with judgments. A system without a relevant item has 0, and is not an error."""
    ranked = {name: table.without("rel") for name, table in inputs.runs.items()}
    return replace(inputs, runs=ranked, qrels=pool, none_judged="zero")


def _two_grades(count: int, examples: Iterable[Any], rel: str) -> RankqlError:
    """The error about items that have two grades in a query."""
    rows = [[*(x.values() if isinstance(x, Mapping) else x)] for x in examples]
    some = ", ".join(f"{i!r} in query {q!r}: {a:.7g} and {b:.7g}" for q, i, a, b in rows)
    have = f"{format_count(count, 'item')} with two grades in a query ({some})"
    text = f"pool=True: {have}. Pass the same rows as qrels= too, with "
    return RankqlError(advise(text, {"rel": f"max({quote_name(rel)})"}))
