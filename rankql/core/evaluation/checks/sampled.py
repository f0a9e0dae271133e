"""The checks of a closer look: `check` reads all queries, `evaluate` some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from rankql.core.base.doors import DOORS, Door, call_extra
from rankql.core.base.errors import RankqlError
from rankql.core.evaluation.checks.looks import REVERSED_Z, SMALL_ID
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.evaluation.query.readable import require_compatible

SELF_JUDGED = (
    "{count:,} of {total:#query} {count:is|are} among {count:its|their} own relevant items, and no "
    "run shows one"
)
# Ties that decide in a larger share of queries are worth a note.
_MUCH_TIED = 0.05
# From so many items and queries on, a tenth of the queries with few items is worth a note.
_LONG = 10


def _reversed_scores(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.rankings:
        forward, backward = each.forward, each.backward
        if each.z < REVERSED_Z and backward > 1.5 * forward:
            table = evidence.inputs.run_of(each.system)
            yield {"system": each.system, "count": each.queries, "forward": forward,
                   "backward": backward, "extent": evidence.extent, "score": table.roles["score"],
                   "order": "ascending" if table.ascending else "descending",
                   "descending": table.ascending}  # fmt: skip


def _self_match(evidence: Evidence) -> Iterable[Facts]:
    for each in evidence.rankings:
        mostly = each.same > each.queries / 2 and each.small < each.queries / 2
        if each.same > 1 and (each.same >= 0.9 * each.queries or mostly):
            table = evidence.inputs.run_of(each.system)
            yield {"system": each.system, "count": each.same, "total": each.queries,
                   "query": table.roles["query"], "item": table.roles["item"],
                   "option": "'both'" if each.own else "True", "extent": evidence.extent,
                   "examples": each.examples}  # fmt: skip


def _self_judged(evidence: Evidence) -> Iterable[Facts]:
    """Most queries are relevant to themselves and shown for others only, as if left out."""
    query, item = (f"CAST({x} AS VARCHAR)" for x in ("query", "item"))
    sql = f"""SELECT count(*) FILTER (own), count(*) FROM (SELECT query, bool_or({query} = {item})
            AND count(*) > 1 AND coalesce(TRY_CAST(query AS BIGINT) >= {SMALL_ID}, true) AS own
            FROM qrels WHERE rel > 0 GROUP BY query)
        WHERE NOT EXISTS (FROM run WHERE {query} = {item})
        AND EXISTS (FROM run WHERE {item} IN (SELECT {query} FROM qrels))"""
    for count, total in evidence.evaluation.run_sql(sql):
        if count > total / 2:
            yield {"count": count, "total": total}


def _deciding_ties(evidence: Evidence) -> Iterable[Facts]:
    evaluation, call = evidence.evaluation, ""
    if evidence.averages:
        with suppress(RankqlError):  # some metrics have no mean over all orders
            conventions = replace(evaluation.conventions, ties="expected")
            require_compatible(evaluation.inputs, evaluation.metrics, conventions)
            call = ". To average over all orders, pass ties='expected'"
    for each in evidence.rankings:
        if each.tied > _MUCH_TIED * each.queries:
            yield {"system": each.system, "count": each.tied, "total": each.queries,
                   "extent": evidence.extent, "call": call}  # fmt: skip


def _spelling(evidence: Evidence) -> Iterable[Facts]:
    session = evidence.evaluation.session
    for each in evidence.spellings:
        one, other = each.pairs[0]
        repair = call_extra("describe repair", session, evidence.inputs, each.pairs)
        yield {"system": each.system, "count": len(each.pairs), "one": one, "other": other,
               "extent": evidence.extent, "repair": repair,
               "examples": [{"run": x, "qrels": y} for x, y in each.pairs[:3]]}  # fmt: skip


def _short_lists(evidence: Evidence) -> Iterable[Facts]:
    """Systems of which many queries have few items, as if a filter or an index had cut them."""
    cutoffs = [x.k for x in evidence.evaluation.metrics if x.k] if evidence.causes else [evidence.k]
    k, longest = max(cutoffs, default=0), {x.system: x.longest for x in evidence.counters.ranked}
    if not k or max(longest.values(), default=0) < _LONG:
        return
    for system, count, none, total in evidence.count_items(k):
        most = longest.get(system, 0)
        short = count - none  # missing queries have a note of their own
        much = total >= _LONG and short * _LONG >= total and most >= _LONG and 2 * most > k
        if count and (much or not evidence.causes):
            yield {
                "system": system,
                "count": count,
                "none": f", {none:,} of them none" * bool(none),
                "total": total,
                "k": k,
            }


SAMPLED: Sequence[Check | Door] = (
    Check(
        "self-match", "evaluation", "warning",
        "{query} and {item} are the same at position 1 in {count:,} of {total:#query}{extent}",
        _self_match, "{query} and {item} are the same at position 1 in {count:,} of "
        "{total:#query}{extent} of {run}. If items are looked for that are like the query, pass "
        "ignore_identical_ids={option}",
        why="A query that finds itself takes a place. Pass ignore_identical_ids={option} if items "
        "are looked for that are like it.",
        # An item may be the number of its row.
        when=lambda x: not x.evaluation.inputs.numbered
        and (not x.causes or x.causes.first.finds_itself),
    ),
    Check(
        "self-judged", "evaluation", "note", SELF_JUDGED, _self_judged,
        f"{SELF_JUDGED}. If they are left out, pass ignore_identical_ids='both', which takes them "
        "out of the judgments",
        why="If they are left out, pass ignore_identical_ids='both'.",
        when=lambda x: x.inputs.qrels and "ignore_identical_ids" not in x.named
        and (not x.causes or x.causes.first.judges_itself),
    ),
    Check(
        "reversed-scores", "evaluation", "warning",
        "relevant items rank higher in reverse order: RR {backward:.3f}, not {forward:.3f}",
        _reversed_scores, "relevant items of {run} rank higher in reverse order: RR "
        "{backward:.3f}, not {forward:.3f}{extent}. If {score} is best at the other end, pass "
        "descending={descending}",
        why="{score} is sorted in {order} order. If the best scores are at the other end, as "
        "for distances, pass descending={descending}.",
        when=lambda x: x.inputs.scored and {"descending", "order"}.isdisjoint(x.named)
        and (not x.causes or x.causes.reversed),
    ),
    Check(
        "deciding-ties", "evaluation", "note",
        "equal scores of items of different relevance in {count:,} of {total:#query}{extent}",
        _deciding_ties, "in {count:,} of {total:#query}{extent} of {run}, item ids order equal "
        "scores of items of different relevance{call}",
        why="Item ids decide their order. Pass ties='expected' to average over all orders.",
        when=lambda x: x.evaluation.inputs.scored and not x.evaluation.inputs.numbered
        and {"ties", "conventions"}.isdisjoint(x.named) and (not x.causes or x.causes.tied),
    ),
    Check(
        "id-spelling", "evaluation", "warning",
        "item is spelled differently in qrels: {count:#id}{extent}",
        _spelling, "{count:#relevant id}{extent} {count:is|are} spelled differently in {run} and "
        "not found: {one!r} and {other!r}{repair}",
        why="These ids count as unjudged or missing{repair}.",
        when=lambda x: x.inputs.qrels and (not x.causes or x.causes.spelled),
    ),
    Check(
        "short-lists", "evaluation", "note",
        "{count:,} of {total:#query} {count:has|have} fewer than {k} items{none}",
        _short_lists, "{count:,} of {total:#query} of {run} {count:has|have} at most half of {k} "
        "items{none}. What a filter or a deletion cut counts as not found: ask "
        "the index for more",
        why="Recall at {k} is at most that of the list. If a filter or a deletion cut what an "
        "index returned, ask it for more.",
    ),
    *DOORS["checks of one grade"],
    *DOORS["checks of ratings"],
    *DOORS["checks of padding"],
)  # fmt: skip
