"""The checks of runs and judgments as an evaluation sees them, in one order: errors, then notes.

`RANKINGS` run before the values are computed, those of `values` after. To add a note, write a
`Check` there, and a function that finds its facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import advise
from rankql.core.base.text import format_shares, run_label
from rankql.core.evaluation.checks import attributes
from rankql.core.evaluation.checks.counters import format_examples
from rankql.core.evaluation.checks.duplicates import find_repeated
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.evaluation.plan.columns import validate_numbers
from rankql.core.evaluation.plan.meta import NO_GRADES
from rankql.core.evaluation.query.ties import WITHOUT_GRADES
from rankql.core.metrics.macros import literal
from rankql.core.metrics.metric_record import reads_grades
from rankql.core.tables.tables import quote_name

# `check` says this of what is an error of `evaluate`.
REFUSED = "evaluate refuses this. "


def _nan_scores(evidence: Evidence) -> Iterable[Facts]:
    for table in evidence.evaluation.inputs.runs.values():
        validate_numbers(table)  # in the words of the macros
    return ()


def _nothing_ranked(evidence: Evidence) -> Iterable[Facts]:
    scored = evidence.evaluation.inputs.scored
    place, name = ("score", "score") if scored else ("position", "pos")
    for each in evidence.counters.ranked:
        if not each.placed:
            yield {"system": each.system, "place": place, "name": name}


def _infinite_scores(evidence: Evidence) -> Iterable[Facts]:
    evaluation = evidence.evaluation
    for each in evidence.counters.ranked:
        table = evaluation.inputs.run_of(each.system)
        if each.highest != math.inf or table.ascending:
            continue
        of = f"system = {literal(each.system)} AND" if evaluation.inputs.many else ""
        rows = f"FROM run WHERE {of} score = 'inf' GROUP BY query"
        if evaluation.run_sql(f"SELECT 1 {rows} HAVING count(DISTINCT item) > 1 LIMIT 1"):
            name = quote_name(table.roles["score"])
            call = advise({"score": f"if(isfinite({name}), {name}, NULL)"})
            yield {"system": each.system, "name": name, "call": call}


def _no_attributes(evidence: Evidence) -> Iterable[Facts]:
    evaluation, (_, known, missing) = evidence.evaluation, evidence.attributes
    if not known:
        ((others,),) = evaluation.run_sql("SELECT min(DISTINCT query, 3) FROM attributes")
        yield {"graded": evaluation.inputs.judging_cte, "missing": format_examples(missing),
               "others": format_examples(others)}  # fmt: skip


def _no_grades(evidence: Evidence) -> Iterable[Facts]:
    unjudged = [each for each in evidence.counters.queries if not each.judged]
    if unjudged and (evidence.evaluation.inputs.qrels is None or not evidence.judged_queries):
        yield {"count": unjudged[0].queries}


def _no_overlap(evidence: Evidence) -> Iterable[Facts]:
    inputs = evidence.evaluation.inputs
    for each in evidence.counters.queries:
        if each.judged or not evidence.judged_queries:
            continue
        hint = ""
        if inputs.qrels and evidence.counters.judged_queries is None:  # not in Spark
            run = inputs.run_of(each.system)
            hint = call_extra("suggest query", run, inputs.qrels)
        unjudged, judged = map(format_examples, (each.unjudged, evidence.judged_queries))
        yield {"system": each.system, "unjudged": unjudged, "judged": judged, "hint": hint,
               "count": each.queries}  # fmt: skip


def _no_test_rows(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.counters.queries:
        if count := each.queries - each.judged:
            yield {"system": each.system, "count": count, "queries": each.queries}


def _unjudged(evidence: Evidence) -> Iterable[Facts]:
    inputs, option = evidence.evaluation.inputs, evidence.evaluation.inputs.unjudged_queries
    counts = option == "count"
    runs = [each for each in evidence.counters.queries if each.judged]
    known = [*dict.fromkeys(query for each in runs for query in each.unjudged or ())]
    most = max((each.queries - each.judged for each in runs), default=0)
    own = not inputs.qrels
    fixed = option or own or any(x.spans for x in evidence.evaluation.computed)
    of_runs = {
        "lacking": max((1 - x.judged / x.queries for x in runs), default=0.0),
        "shares": format_shares((str(x.system), x.queries - x.judged, x.queries) for x in runs),
        "some": format_examples(known[:3]) + ", ..." * (max(most, len(known)) > 3),
        "effect": "counted with nothing relevant" if counts else "left out",
        "offer": "" if fixed else "; unjudged_queries='count' counts them",
    }
    for system, queries, judged, unjudged in runs:
        if count := queries - judged:
            yield {"system": system, "count": count, "queries": queries, **of_runs,
                   "level": "note" if counts else "warning",
                   "examples": [{"query": query} for query in unjudged or ()]}  # fmt: skip


def _unranked(evidence: Evidence) -> Iterable[Facts]:
    inputs, least = evidence.evaluation.inputs, evidence.evaluation.inputs.min_score
    place = f"{'score' if inputs.scored else 'position'} (NULL)"
    if least is not None:
        place = f"score of at {'most' if inputs.ascending else 'least'} min_score="
    for each in evidence.counters.ranked:
        if each.placed < each.rows:
            yield {"system": each.system, "missing": each.rows - each.placed, "total": each.rows,
                   "place": place}  # fmt: skip


def _equal_scores(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.counters.ranked:
        if each.is_constant:
            yield {"system": each.system, "count": each.placed}


def _single_items(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.counters.ranked:
        if each.longest == 1 < each.rows:
            yield {"system": each.system, "query": evidence.inputs.query}


def _joins_items(evidence: Evidence) -> bool:
    """Are items looked up in judgments?"""
    return bool(evidence.inputs.qrels) and reads_grades(evidence.evaluation.metrics)


def _no_matches(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.matches:
        if not each.common:
            level = "error" if each.is_error else "warning"
            yield {"text": each.problem, "level": level, "count": each.items, "of": each.system}


def _few_matches(evidence: Evidence) -> Iterable[Facts]:
    matches = [each for each in evidence.matches if each.common]
    spelled = {each.system for each in evidence.spellings} if matches else set()
    for system, items, judged, common, *_ in matches:
        least, what, where = min(
            (judged, "judged items", f"in {run_label(system)}"),
            (items, f"items of {run_label(system)}", "judged"),
        )
        if system not in spelled:
            yield {"count": common, "least": least, "what": what, "where": where, "of": system}


def _duplicates(evidence: Evidence) -> Iterable[Facts]:
    for text in find_repeated(evidence.evaluation, evidence.unique):
        yield {"text": text}


FEW_MATCHES = (
    "Only {count:,} of {least:,} {what} {count:is|are} {where}, and few ids are in both tables"
)
RANKINGS = (
    Check("nan-scores", "evaluation", "error", "", _nan_scores, when=lambda x: x.counters.has_nan),
    Check(
        "several-values", "evaluation", "error",
        "{argument}: {name} must have one value per query, but {cte} has {low!r} and {high!r} for "
        "query {query!r}{hint}",
        attributes.several_values, when=lambda x: x.inputs.by,
    ),
    Check(
        "two-weights", "evaluation", "error",
        "weight: {name} is {one:g} in {first}, but {another:g} in {other}, for query {query!r}. "
        "Rename or remove one of these columns",
        attributes.two_weights, when=lambda x: x.inputs.weight,
    ),
    Check(
        "nothing-ranked", "counters", "error",
        "Every {place} of {run} is NULL, so nothing is ranked. Pass the column that holds the "
        "{place}s: {name}=",
        _nothing_ranked, when=lambda x: x.inputs.min_score is None,
    ),
    Check(
        "infinite-scores", "evaluation", "error",
        "{name} of {run} is infinite for several items of a query, which it cannot order. To count "
        "them as not retrieved, pass {call}",
        _infinite_scores,
        when=lambda x: x.evaluation.inputs.scored and not x.evaluation.inputs.numbered
        and {"ties", "conventions"}.isdisjoint(x.named),
    ),
    Check(
        "no-attributes", "evaluation", "error",
        "No query has attributes: {graded} has {missing}, attributes has {others}. Write query ids "
        "the same way in both",
        _no_attributes, when=lambda x: x.inputs.attributes and not x.inputs.about_runs,
    ),
    Check(
        "no-overlap", "counters", "error", NO_GRADES, _no_grades,
        why=f"{REFUSED}There is nothing to evaluate.",
    ),
    Check(
        "no-overlap", "counters", "error",
        "No query of {run} is judged: it has {unjudged}, qrels has {judged}. Write query ids the "
        "same way in both{hint}",
        _no_overlap, why=f"{REFUSED}There is nothing to evaluate.", when=lambda x: x.inputs.qrels,
    ),
    Check(
        "no-test-rows", "counters", "error",
        "unjudged_queries='count': {count:,} of {queries:#query} {count:has|have} no row of test. "
        "Leave {count:it|them} out",
        _no_test_rows, why=REFUSED,
        when=lambda x: x.inputs.unjudged_queries == "count" and x.inputs.qrels
        and x.inputs.qrels.context.get("split") == "test",
    ),
    Check(
        "unjudged-queries", "counters", "warning",
        "{count:,} of {queries:#query} of {run} {count:is|are} not judged and {effect}",
        _unjudged, "{shares} not judged and {effect} ({some}{offer})",
        "Are judgments missing?",
    ),
    Check(
        "unranked-rows", "counters", "note",
        "{missing:,} of {total:,} rows of {run} have no {place} and count as not retrieved",
        _unranked, when=lambda x: not isinstance(x.inputs.min_score, tuple),
    ),
    Check(
        "equal-scores", "counters", "note",
        "all {count:,} rows of {run} have the same score, so only ties= decides the order of the "
        "items",
        _equal_scores, when=lambda x: x.evaluation.inputs.scored
        and x.evaluation.conventions.ties in WITHOUT_GRADES,
    ),
    Check(
        "single-items", "counters", "note",
        "each {query} of {run} has a single item, which is on top in any order. If it numbers the "
        "rows, name the column of the queries: query=",
        _single_items, when=lambda x: x.evaluation.inputs.numbered,
    ),
    Check(
        "no-common-items", "counters", "error", "{text}", _no_matches,
        why="Its metrics would be 0.", when=_joins_items,
    ),
    Check(
        "few-common-items", "counters", "warning", FEW_MATCHES, _few_matches,
        why="Write item ids the same way in both tables.", when=_joins_items,
    ),
    Check("duplicates", "evaluation", "error", "{text}", _duplicates),
)  # fmt: skip
