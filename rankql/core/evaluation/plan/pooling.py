"""Grades that several runs have: one set of judgments, if the data show that they are.

They are if systems show some relevant item for one query, and no item that they share has two
grades in a query. The judged items of all systems then count for each, as if they were passed as
qrels. Elsewhere, as with clicks or ids of each system's own, each is measured against what it shows
itself. A note says which, unless the systems of each query show the same judged items.
"""

from __future__ import annotations

from dataclasses import replace

from rankql.core.base.errors import RankqlError
from rankql.core.base.text import Note, format_count, has_or_have, join_words
from rankql.core.evaluation.plan.columns import validate_numbers
from rankql.core.evaluation.plan.meta import APART, POOLED
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.macros import INTERNAL_PREFIX, literal, quote
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.request import RankingRules
from rankql.core.tables.session import Session

# Of the queries of several systems with grades: those of which they show different judged items,
# all, and the rankings without a relevant item where another has one. The systems without a grade.
_SHOWN = """WITH rankings AS MATERIALIZED (
        SELECT system, query, count(rel) AS judged, count_if(rel > 0) AS relevant,
               bit_xor(CASE WHEN rel IS NOT NULL THEN hash(item) ELSE 0 END) AS items
        FROM {rows} GROUP BY system, query),
    graded AS (SELECT system FROM rankings GROUP BY system HAVING sum(judged) > 0),
    queries AS (
        SELECT min(items) < max(items) AS differ,
               CASE WHEN sum(relevant) > 0 THEN count_if(relevant = 0) END AS lacking
        FROM rankings SEMI JOIN graded USING (system) GROUP BY query HAVING count(*) > 1)
    SELECT count_if(differ), count(*), coalesce(sum(lacking), 0)::BIGINT,
           (SELECT list(DISTINCT system) FROM rankings ANTI JOIN graded USING (system))
    FROM queries"""
# The judged items, the lowest grade of each, whether systems share it, and in how many it is NULL.
_POOL = """(SELECT query AS {query}, item AS {item}, max(rel) AS {rel}, min(rel) AS {low},
           min(hash(system)) < max(hash(system)) AS {shared}, count(*) - count(rel) AS {null}
    FROM {rows} {graded} GROUP BY query, item HAVING count(rel) > 0)"""
# Of the items that systems share: all, and the relevant ones. Of all: those with two grades, beyond
# the rounding of floats, with one of them; those of one system; and the NULLs.
_TWO = "{rel} - {low} > 1e-6 * greatest(abs({rel}), abs({low}))"
_FACTS = f"""count_if({{shared}}), count_if({{shared}} AND {{rel}} > 0), count_if({_TWO}),
    min(({{query}}, {{low}}::DOUBLE, {{rel}}::DOUBLE)) FILTER ({_TWO}), count_if(NOT {{shared}}),
    coalesce(sum({{null}}), 0)::BIGINT"""
ALONE = "each system is measured against the items that it shows itself"
REMEDY = "To count those of all systems, pass judgments: qrels="


def pool_grades(session: Session, inputs: Inputs, rules: RankingRules) -> Inputs:
    """The inputs with the grades of all systems as judgments, if they are, and a note."""
    runs, own = inputs.runs, PROFILES[rules.conventions.profile.partition(",")[0]]
    several = (inputs.system is not None or len(runs) > 1) and inputs.every("rel")
    if inputs.qrels or not (several and session.reads_values) or own.ideal == "retrieved":
        return inputs
    if rules.groups or rules.span or inputs.numbered or not inputs.every("item"):
        return inputs
    whole, rows = all(table.integer("rel") for table in runs.values()), list[str]()
    for name, table in runs.items():
        try:
            fields = inputs.fields(table, name)
            validate_numbers(table, ("rel",))
        except RankqlError:
            return inputs  # for whoever reads it
        fields |= {"rel": table.integer("rel") or ""} if whole else {}
        columns = (f"{fields[x]} AS {x}" for x in ("system", "query", "item", "rel"))
        rows.append(f"SELECT {', '.join(columns)} FROM {table.sql}")
    every = f"({' UNION ALL '.join(rows)})"
    differ, queries, lacking, ungraded = session.row(_SHOWN.format(rows=every))
    if not differ:
        return inputs
    roles = {x: next(iter(runs.values())).roles[x] for x in ("query", "item", "rel")}
    names = {x: quote(f"{INTERNAL_PREFIX}{x}") for x in ("low", "shared", "null")}
    names |= {role: quote(name) for role, name in roles.items()}
    graded = f"WHERE list_contains({literal(ungraded)}, system) IS NOT TRUE" if ungraded else ""
    sql = _POOL.format(rows=every, graded=graded, **names)
    pool = session.load("qrels", sql, text=False, roles=roles)
    shared, relevant, two, example, alone, nulls = pool.row(_FACTS.format(**names))
    if two or not relevant:
        session.drop(pool)
        why = f"no relevant item is shown by two systems, so {ALONE}"
        if two:
            query, low, high = example.values() if isinstance(example, dict) else example
            why = f"{ALONE}: the same item has grades {low:.7g} and {high:.7g} in query {query!r},"
            why += f" and so {has_or_have(two)} {two:,} of {format_count(shared, 'shared item')}"
        level = "warning" if not two and differ > queries / 2 else "note"
        session.notes.append(Note(f"{why}. {REMEDY}", heading="Grades", kind=APART, level=level))
        return inputs
    words = "pooled, because systems share relevant items: "
    words += f"{format_count(alone, 'judged item')} of one system alone count for each"
    if lacking:
        words += f", and {format_count(lacking, 'ranking')} without a relevant item became defined"
    if nulls:
        words += f". {format_count(nulls, 'item')} without a grade have that of another system"
    if ungraded:
        words += f". {join_words(ungraded)} {has_or_have(len(ungraded))} no grade, and no value"
    session.note("Grades", f"{words}. For each system alone, evaluate its rows", POOLED)
    ranked = {name: table.without("rel") for name, table in runs.items()}
    return replace(inputs, runs=ranked, qrels=pool, pooled=True, ungraded=ungraded or ())
