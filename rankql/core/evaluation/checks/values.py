"""The checks that run after the values are computed, in one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from rankql.core.base.column_names import EVENTS, ROLES, TIMES, USERS, core_of, find_name, is_called
from rankql.core.base.doors import DOORS, Door
from rankql.core.base.text import format_shares, join_words
from rankql.core.evaluation.checks import attributes
from rankql.core.evaluation.checks.counters import describe_chunk, format_examples
from rankql.core.evaluation.checks.record import Check, Evidence, Facts
from rankql.core.evaluation.plan import meta
from rankql.core.metrics.all_metrics import NO_GAIN, NO_RELEVANT_ITEM
from rankql.core.metrics.macros import MISSING, quote
from rankql.core.metrics.metric_record import IS_RELEVANT
from rankql.core.metrics.parse import rule
from rankql.core.tables.reader import count_values

# What counts what is shown for queries without an answer.
OF_SILENCE = ("FalseAnswer", "FalseAbstention")
# So many rows are enough to see whether users have several queries, or grades are ratings.
FIRST_ROWS = 20_000
# From so many queries on, it is no chance that all relevant items are retrieved.
FEWEST_QUERIES = 20
# Above this share of undefined queries, a note says how to count them.
MUCH_UNDEFINED = 0.05
# Ratings go up to this grade at least.
HIGHEST_RATING = 4
# From this share on, of at least so many judged queries, somebody should say what missing ones are.
MUCH_MISSING, SEVERAL_QUERIES = 0.2, 5
# Ratings, of which nearly all are relevant; of counts without zeros, most are at most 1.
RATINGS = f"""SELECT count(*) FILTER ({IS_RELEVANT}) AS count, count(rel) AS judged,
    count / count(rel) AS part, count(*) FILTER (rel > 0 AND rel < 1) AS fractions,
    CASE WHEN fractions > 0 THEN ', ' || fractions || ' below 1' ELSE '' END AS below,
    min(rel) AS lowest, max(rel) AS highest FROM {{rows}}
    HAVING count >= 0.95 * judged AND highest >= {HIGHEST_RATING} AND count(DISTINCT rel) >= 4
       AND count(*) FILTER (rel <= 1) <= judged / 2"""
RATINGS_PROBLEM = (
    "{part:.0%} of judged items count as relevant (threshold {threshold:g}, grades {lowest:g} to "
    "{highest:g}{below})"
)

# The end of notes on means over different queries, which a comparison does not have, and of those
# on rankings that a table with grades does not have.
COMPARED = "; compare uses the same queries for all systems"
_COUNTED = "; compare counts queries that a system lacks as the worst value"


def _may_be_unanswerable(evidence: Evidence) -> bool:
    """May nothing be relevant for a query, and does the caller care?"""
    inputs, metrics = evidence.inputs, evidence.evaluation.metrics
    silent = any(m.record and m.record.name in OF_SILENCE for m in metrics)
    silent = silent or any(table.empty for table in inputs.judging)
    return (silent or inputs.min_score is not None) and not any(m.spans for m in metrics)


def _unanswerable(evidence: Evidence) -> Iterable[Facts]:
    """Queries of which nothing is relevant."""
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    highest = "SELECT query, max(rel) AS highest FROM"
    sql = f"""SELECT count(*), count(*) FILTER (highest IS NULL OR highest <
        {evaluation.conventions.threshold}) FROM ({highest} {inputs.judging_cte} GROUP BY query
        HAVING count(rel) > 0)"""
    others = [
        m.name for m in evaluation.metrics
        if m.record and m.record.undefined != "never" and m.record.if_silent is None
        and meta.undefined_value(m.name, vars(evaluation.conventions)) is None
    ]  # fmt: skip
    for total, count in evaluation.run_sql(sql):
        leave = f"leave{'s' * (len(others) == 1)} {'it' if count == 1 else 'them'} out; "
        if count:
            yield {"count": count, "total": total,
                   "others": f"{join_words(others)} {leave}" if others else ""}  # fmt: skip


def _without_worst(evidence: Evidence) -> Iterable[Facts]:
    """Metrics without a worst value, which leave missing queries out."""
    evaluation, values = evidence.evaluation, evidence.values
    absent, rules = values.filter(pl.col(MISSING)), vars(evaluation.conventions)
    system = pl.col("system") if "system" in values.columns else pl.lit("")
    for metric in evaluation.metrics:
        left_out = meta.left_out_if(metric.name, rules) == meta.BOTH
        if left_out and (n := absent[metric.name].null_count()):
            counts = absent.group_by(system, maintain_order=True).agg(
                pl.col(metric.name).null_count(), pl.len()
            )
            shares = f"{format_shares(counts.rows())} " * (n < len(absent))
            yield {"name": metric.name, "shares": shares}


def _many_missing(evidence: Evidence) -> Iterable[Facts]:
    """Runs that lack many queries of judgments that are theirs, if nobody said what these count."""
    evaluation, values = evidence.evaluation, evidence.values
    system = pl.col("system") if "system" in values.columns else pl.lit(None, pl.String)
    counts = values.group_by(system.alias("system"), maintain_order=True).agg(
        count=pl.col(MISSING).sum(), total=pl.len(), share=pl.col(MISSING).mean()
    )
    # A set of which no run covers half has other queries too.
    if (counts["share"] <= 0.5).any():
        skip = evaluation.conventions.missing == "skip"
        rule = "left out" if skip else "counted as the worst value"
        many = (pl.col("total") >= SEVERAL_QUERIES) & (pl.col("share") > MUCH_MISSING)
        yield from (facts | {"rule": rule} for facts in counts.filter(many).to_dicts())


def _any_order(evidence: Evidence) -> Iterable[Facts]:
    """Judgments of just the items of a run, several of each query and all relevant."""
    evaluation = evidence.evaluation
    sql = f"""SELECT EXISTS ((SELECT query, item FROM run)
            EXCEPT (SELECT query, item FROM qrels WHERE {evaluation.is_relevant()}))
        OR EXISTS ((SELECT query, item FROM qrels) EXCEPT (SELECT query, item FROM run))
        OR EXISTS (
            SELECT 1 FROM qrels GROUP BY query HAVING count(*) = 1 OR min(rel) < max(rel))"""
    if evaluation.run_sql(sql) == [(False,)]:
        yield {}


def _without_attributes(evidence: Evidence) -> Iterable[Facts]:
    queries, known, missing = evidence.attributes
    if count := queries - known:
        examples = format_examples(missing) + (", ..." if count > 3 else "")
        yield {"count": count, "queries": queries, "examples": examples}


def _without_grades(evidence: Evidence) -> Iterable[Facts]:
    qrels = evidence.evaluation.inputs.qrels
    assert qrels
    name = qrels.roles["rel"]
    if evidence.evaluation.inputs.unjudged_queries == "count":  # whose rows have no item
        qrels = replace(qrels, sql=f"(FROM {qrels.sql} WHERE {quote(qrels.roles['item'])} NOTNULL)")
    rows, counts = count_values(qrels, [name])
    if count := rows - counts[name]:
        yield {"count": count, "rows": rows, "name": name}


def _chunks(evidence: Evidence) -> Iterable[Facts]:
    yield from ({"chunk": chunk} for chunk in describe_chunk(evidence.evaluation))


def _ratings(evidence: Evidence) -> Iterable[Facts]:
    """Grades of which nearly all count as relevant for a binary metric."""
    evaluation = evidence.evaluation
    source, threshold = evaluation.inputs.judging_cte, evaluation.conventions.threshold
    sample = f"(SELECT rel FROM {source} WHERE rel IS NOT NULL LIMIT {FIRST_ROWS})"
    if evaluation.run_sql(RATINGS.format(rows=sample, threshold=threshold)):
        sql = RATINGS.format(rows=source, threshold=threshold)
        names = ("count", "judged", "part", "fractions", "below", "lowest", "highest")
        yield from ({"threshold": threshold, **facts} for facts in evidence.facts(sql, *names))


def _fractions(evidence: Evidence) -> Iterable[Facts]:
    """Grades between 0 and 1, which a binary metric counts as not relevant."""
    source = evidence.inputs.judging_cte
    if 0 < evidence.evaluation.grade_scale < HIGHEST_RATING or not [*_ratings(evidence)]:
        sql = f"SELECT count(*), min(rel) FROM {source} WHERE rel > 0 AND rel < 1"
        yield from evidence.facts(sql, "count", "least")


def _retrieved_only(evidence: Evidence) -> Iterable[Facts]:
    """Tables without a relevant item that has no position. By scores, all are cut at one length."""
    evaluation, inputs, rankings = evidence.evaluation, evidence.inputs, len(evidence.values)
    names = [x.name for x in evaluation.metrics if x.record and x.record.per_relevant]
    if not names or rankings < FEWEST_QUERIES:
        return
    facts = {"names": join_words(names), "metrics": len(names), "place": "position"}
    if not inputs.scored:
        missed = f"pos IS NULL AND {evaluation.is_relevant()}"
        if not evaluation.run_sql(f"SELECT 1 FROM run WHERE {missed} LIMIT 1"):
            yield facts | {"call": "add their rows with the position NULL"}
        return
    ranked = evidence.counters.ranked
    cut = max((x.longest for x in ranked), default=0)
    full = sum(x.placed for x in ranked) == sum(x.rows for x in ranked) == cut * rankings > rankings
    if full and not inputs.many:
        yield facts | {"place": "score", "call": "pass judgments: qrels="}


def _undefined(evidence: Evidence) -> Iterable[Facts]:
    """Metrics that leave many queries out: shares, and all of a column of hits of the caller."""
    evaluation, values = evidence.evaluation, evidence.values
    runs = evaluation.inputs.runs.values() if evaluation.inputs.qrels is None else ()
    own = any(not is_called(table.roles.get("rel", "rel"), ROLES["rel"]) for table in runs)
    every = {NO_RELEVANT_ITEM, NO_GAIN} if own else set()
    records = [(m.name, m.record) for m in evaluation.metrics if m.record]
    shares = [name for name, each in records if each.is_share or each.undefined in every]
    names = defaultdict[int, list[str]](list)
    for name in shares:
        names[values[name].null_count()].append(name)
    for count, alike in names.items():
        if count > MUCH_UNDEFINED * len(values) and (count < len(values) or not own):
            yield {"names": join_words(alike), "metrics": len(alike), "count": count,
                   "total": len(values)}  # fmt: skip


_NEIGHBOURS = (
    ". If they are neighbours, cut them to {k}: item=[..., 'LIST[:{k}]'], or of a frame "
    "qrels.group_by(QUERY, maintain_order=True).head({k})"
)


def _beyond_k(evidence: Evidence) -> Iterable[Facts]:
    """Rankings with more relevant items than positions, where all of them cannot be shown.

    Of recall only if judgments of one grade are as many in each query, as of nearest neighbours.
    """
    evaluation, inputs = evidence.evaluation, evidence.evaluation.inputs
    key, table = "query" if inputs.qrels else inputs.keys, inputs.qrels
    log = table and ("split" in table.context or find_name(table.columns, (*TIMES, *EVENTS)))
    is_log = not table or bool(log) or core_of(inputs.query) in USERS
    both = zip(evidence.counters.items, evidence.counters.queries, strict=False)
    count = next((x.judged / y.judged for x, y in both if y.judged > 1), 0)
    for metric in evaluation.metrics:
        record, k, relevant = metric.record, metric.k or count, evaluation.is_relevant(metric)
        is_share = record and record.is_share and record.per_relevant and metric.k
        is_wide = record and record.name in ("R", "AllRel") and k < count == int(count)
        if is_share or (is_wide and not is_log):
            sql = f"""SELECT count(*), count(*) FILTER (r > {k}) AS beyond,
                {not is_log} AND min(r) = max(r) AND min(low) = max(high) FROM
                (SELECT count(*) FILTER ({relevant}) AS r, min(rel) AS low, max(rel) AS high
                 FROM {inputs.judging_cte} GROUP BY {key}) HAVING beyond > 0"""
            for facts in evidence.facts(sql, "total", "count", "alike"):
                if is_share or facts["alike"]:
                    yield {"name": metric.name, "k": k, "value": "0" if is_share else "below 1",
                           "cut": _NEIGHBOURS.format(k=k) * facts["alike"], **facts}  # fmt: skip
                if facts["alike"]:
                    return


def _other_counts(evidence: Evidence) -> Iterable[Facts]:
    """Metrics whose means are over more queries in one system than in another."""
    evaluation = evidence.evaluation
    names, own = evaluation.names, evaluation.make_meta()
    compared = (meta.compared_value(name, own) for name in names)
    rows = evidence.values.select("system", *compared).group_by("system").agg(pl.all().count())
    for name in names if len(rows) else ():
        counts = rows.sort(name, "system")["system", name].rows()
        (fewest, count), (most, highest) = counts[0], counts[-1]
        if count < highest:
            lacks = len(evidence.values) < len(rows) * evidence.values[own.query].n_unique()
            counted = lacks and rule(vars(evaluation.conventions), "missing", name) == "zero"
            yield {"name": name, "count": count, "fewest": fewest, "most": most,
                   "highest": highest, "compared": _COUNTED if counted else COMPARED}  # fmt: skip


def _clusters(evidence: Evidence) -> Iterable[Facts]:
    query, cluster = evidence.evaluation.inputs.query, str(evidence.evaluation.cluster)
    queries = evidence.values[[query, cluster]]
    queries = queries.filter(queries[query].alias("key").is_first_distinct())
    codes = attributes.cluster_codes(queries, query, cluster)
    yield {"text": attributes.describe_clusters(codes, cluster)}


def _users(evidence: Evidence) -> Iterable[Facts]:
    """The column of sessions or users if several queries have the same, by the first rows."""
    evaluation, request = evidence.evaluation, evidence.evaluation.request
    assert request
    for table in evaluation.inputs.tables:
        taken = {*table.sources([*table.roles.values()])}
        free = [name for name in table.columns if name not in taken]
        users = [x for x in free if core_of(x) in USERS] if "query" in table.roles else []
        for name in [*([table.shared] if table.shared else []), *users]:
            rows = f"SELECT {table.key('query')} AS query, {quote(name)} AS u FROM {table.sql}"
            queries = f"""
                SELECT any_value(u) AS u, count(DISTINCT u) AS users
                FROM ({rows} LIMIT {FIRST_ROWS}) GROUP BY query"""
            repeated = (
                "SELECT max(users) = 1 AND count(DISTINCT u) BETWEEN 2 AND count(u) - 1 "
                f"FROM ({queries})"
            )
            if evaluation.session.value(repeated):
                remedy = f"pass cluster={name!r} so that intervals respect it"
                one = "keep one of each, because interval='anytime' needs queries at random"
                yield {"name": name, "remedy": remedy if request.time is None else one}
                return


# Notes about means over different queries, which a comparison does not have.
OF_COUNTS = ("without-worst-value", "other-counts")
VALUES: Sequence[Check | Door] = (
    Check(
        "without-attributes", "values", "note",
        "{count:,} of {queries:#query} have no row in attributes ({examples}): their slice is NULL",
        _without_attributes, when=lambda x: x.inputs.attributes and not x.inputs.about_runs,
    ),
    Check(
        "null-grades", "values", "note",
        "{count:,} of {rows:,} rows of qrels have no grade ({name} is NULL) and are left out: "
        "their items count as unjudged",
        _without_grades, when=lambda x: x.inputs.qrels,
    ),
    Check(
        "chunks", "values", "note", "{chunk}. They count as unjudged", _chunks,
        when=lambda x: x.inputs.qrels and x.lists_ids and (not x.causes or x.causes.first.chunked),
    ),
    *DOORS["checks of shown items"],
    Check(
        "undefined", "values", "note",
        "{names} {metrics:leaves|leave} out {count:,} of {total:,} rankings without a relevant "
        "item; undefined='zero' counts them as 0",
        _undefined, when=lambda x: x.evaluation.conventions.undefined == "skip"
        and not _may_be_unanswerable(x),  # which says it too
    ),
    Check(
        "more-than-k", "values", "note",
        "{name} is {value} for {count:,} of {total:#query}, which {count:has|have} more than {k} "
        "relevant items{cut}",
        _beyond_k,
    ),
    Check(
        "other-counts", "values", "note",
        "{name}: means are over {count:,} ({fewest}) to {highest:#query} ({most}), those with a "
        "value{compared}",
        _other_counts, when=lambda x: x.inputs.many,
    ),
    Check(
        "ratings", "values", "note", f"{RATINGS_PROBLEM}. For ratings pass threshold=, often 4",
        _ratings,
        when=lambda x: x.counts_hits and not 0 < x.evaluation.grade_scale < HIGHEST_RATING,
    ),
    Check(
        "fractions", "values", "note",
        "{count:,} positive {count:grade|grades} below 1 (from {least:g}) count as not relevant. "
        "If they are, pass threshold= with the lowest relevant grade",
        _fractions,
        when=lambda x: x.counts_hits and x.evaluation.conventions.threshold >= 1
        and x.evaluation.has_fractions(),
    ),
    Check(
        "without-worst-value", "values", "note",
        "{name}: {shares}missing queries are left out, as it has no worst value to count"
        + COMPARED,
        _without_worst, when=lambda x: x.lacks_queries,
    ),
    Check(
        "any-order", "values", "note",
        "qrels has just the items that the run ranks for each query, all of one grade, so any "
        "order has the same value. If qrels is another order of them, pass grades: rel=",
        _any_order, when=lambda x: x.is_perfect and x.inputs.qrels and not x.inputs.many,
    ),
    Check(
        "many-missing", "values", "warning",
        "{count:,} of {total:#judged query} ({share:.0%}) are missing from {run} and {rule}. If "
        "this is right, say so: missing='zero' counts them as the worst value, missing='skip' "
        "leaves them out",
        _many_missing,
        when=lambda x: x.lacks_queries and "missing" not in x.named and x.inputs.min_score is None,
    ),
    *DOORS["checks of relevant items"],
    *DOORS["checks of words"],
    Check(
        "unanswerable", "values", "note",
        "{count:,} of {total:#query} {count:has|have} nothing relevant: {others}FalseAnswer counts "
        "what is shown for {count:it|them}",
        _unanswerable, when=_may_be_unanswerable,
    ),
    Check(
        "retrieved-only", "values", "note",
        "Every relevant item has a {place}, so {names} {metrics:is|are} of retrieved items only. "
        "If others are relevant too, {call}",
        _retrieved_only, when=lambda x: not x.inputs.qrels and not x.lists_ids,
    ),
    Check("clusters", "values", "note", "{text}", _clusters, when=lambda x: x.evaluation.cluster),
    Check(
        "users", "values", "note",
        "Queries with the same {name} are not independent: {remedy}",
        _users,
        when=lambda x: (request := x.evaluation.request) and request.cluster is None
        and (request.interval is not None or request.time is not None),
    ),
)  # fmt: skip
