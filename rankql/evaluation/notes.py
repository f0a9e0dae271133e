"""The notes of a result: when each applies, and what it says, in their order.

`COUNTED` follow from the counters alone, in an evaluation and in Spark; `OTHERS` from the plan and
the values too. A row finds its facts: a dict for each sentence, none if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rankql.evaluation.evaluation import Evaluation
from rankql.evaluation.grades import grade_scale, has_fractions
from rankql.evaluation.means import cluster_codes, compared_value, describe_clusters
from rankql.evaluation.overlap import Counters, describe_chunk, format_examples
from rankql.evaluation.shown import cutoff, reads_catalogue
from rankql.macros import quote
from rankql.registry.column_names import USERS, squash
from rankql.registry.conventions import SHORT_IDEALS
from rankql.registry.metric_record import Metric
from rankql.sources.reader import count_values
from rankql.text import (
    format_count,
    format_queries,
    has_or_have,
    is_or_are,
    join_words,
    run_label,
)

Facts = Iterable[Mapping[str, Any]]
# So many rows are enough to see whether users have several queries, or grades are ratings.
FIRST_ROWS = 20_000
# Above this share of undefined queries, a note says how to count them.
MUCH_UNDEFINED = 0.05
# A larger share of items that the user has in train is worth a note.
MUCH_SEEN = 0.01
# Ratings go up to this grade at least.
HIGHEST_RATING = 4
# Ratings, of which nearly all are relevant; of counts without zeros, most are at most 1.
RATINGS = f"""SELECT count(*) FILTER (rel >= {{threshold:g}}) AS count, count(rel) AS judged,
    count / count(rel) AS part, count(*) FILTER (rel > 0 AND rel < 1) AS fractions,
    CASE WHEN fractions > 0 THEN ', ' || fractions || ' below 1' ELSE '' END AS below,
    min(rel) AS lowest, max(rel) AS highest FROM {{rows}}
    HAVING count >= 0.95 * judged AND highest >= {HIGHEST_RATING} AND count(DISTINCT rel) >= 4
       AND count(*) FILTER (rel <= 1) <= judged / 2"""
RATINGS_PROBLEM = (
    "{part:.0%} of judged items count as relevant (threshold {threshold:g}, grades {lowest:g} to "
    "{highest:g}{below})"
)


@dataclass(frozen=True)
class Note:
    """A note: its facts, and its text with their names in braces."""

    find: Callable[..., Facts]
    text: str


def describe_notes(notes: Sequence[Note], *known: Any) -> list[str]:
    """The sentences that apply. One that several runs have names them all."""
    same: dict[str, list[Mapping[str, Any]]] = {}
    texts: dict[str, str] = {}
    for note in notes:
        for facts in note.find(*known):
            text = note.text.format_map({"run": "", **facts})
            same.setdefault(text, []).append(facts)
            texts[text] = note.text
    sentences = []
    for text, each in same.items():
        runs = [run_label(facts["system"]) for facts in each if "system" in facts]
        run = f"{'each of ' * (len(runs) > 1)}{join_words(runs)}" if runs else ""
        sentences.append(texts[text].format_map({"run": run, **each[0]}))
    return sentences


def _unranked(counters: Counters) -> Facts:
    for each in counters.ranked:
        if each.placed < each.rows:
            yield {"system": each.system, "missing": each.rows - each.placed, "total": each.rows,
                   "place": counters.place}  # fmt: skip


def _constant(counters: Counters) -> Facts:
    for each in counters.ranked:
        if counters.orders_ties and each.is_constant:
            yield {"system": each.system, "count": each.placed}


def _unjudged(counters: Counters) -> Facts:
    for system, queries, judged, unjudged in counters.queries:
        if count := queries - judged:
            examples = format_examples(unjudged) + (", ..." if count > 3 else "")
            yield {"system": system, "count": count, "queries": format_queries(queries),
                   "are": is_or_are(count), "examples": examples}  # fmt: skip


def _few_matches(counters: Counters) -> Facts:
    for system, items, judged, common in counters.few:
        least, what, where = min(
            (judged, "judged items", f"in {run_label(system)}"),
            (items, f"items of {run_label(system)}", "judged"),
        )
        yield {"common": common, "least": least, "what": what, "are": is_or_are(common),
               "where": where}  # fmt: skip


COUNTED = (
    Note(
        _unjudged,
        "{count:,} of {queries} of {run} {are} not judged and left out ({examples})",
    ),
    Note(
        _unranked,
        "{missing:,} of {total:,} rows of {run} have no {place} (NULL) and count as not retrieved",
    ),
    Note(
        _constant,
        "all {count:,} rows of {run} have the same score, so only ties= decides the "
        "order of the items",
    ),
    Note(lambda counters: ({"text": text} for text in counters.doubts), "{text}"),
    Note(
        _few_matches,
        "Only {common:,} of {least:,} {what} {are} {where}, and few ids are in both tables. To "
        "find ids that are written differently, call check with the same arguments",
    ),
)


def _without_attributes(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    queries, having, missing = counters.attributes
    if count := queries - having:
        examples = format_examples(missing) + (", ..." if count > 3 else "")
        yield {"count": count, "queries": format_queries(queries), "examples": examples}


def _without_grades(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    if qrels := evaluation.inputs.qrels:
        name = qrels.roles["rel"]
        rows, counts = count_values(evaluation.session, qrels, [name])
        if count := rows - counts[name]:
            yield {"count": count, "rows": rows, "name": name}


def _chunks(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    inputs = evaluation.inputs
    if inputs.qrels and any(table.unit == "ids" for table in inputs.runs.values()):
        for chunk in describe_chunk(evaluation):
            yield {"chunk": chunk}


def _short_rankings(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Rankings for which the tool of the profile has a shorter ideal ranking."""
    inputs, profile = evaluation.inputs, evaluation.conventions.profile.partition(",")[0]
    names = [metric.name for metric in evaluation.metrics]
    cuts = [name.partition("@")[2] or "1e9" for name in names if name.startswith("nDCG")]
    if inputs.qrels is None or profile not in SHORT_IDEALS or not cuts:
        return
    place, k = "score" if inputs.scored else "pos", max(map(float, cuts))
    ((count,),) = evaluation.run_sql(
        f"""SELECT count(*) FROM (SELECT query, count({place}) AS n FROM run GROUP BY {inputs.keys})
        JOIN (SELECT query, count(*) AS r FROM qrels WHERE rel > 0 GROUP BY query) USING (query)
        WHERE n < least(r, {k})"""
    )
    if count:
        yield {"rankings": format_count(count, "ranking"), "have": has_or_have(count),
               "profile": profile}  # fmt: skip


def _ratings(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Grades of which nearly all count as relevant for a binary metric."""
    inputs, threshold = evaluation.inputs, evaluation.conventions.threshold
    highest, scale = counters.highest_grade, 0
    if evaluation.reduced:
        scale = grade_scale(evaluation.session, inputs)
    if (
        (evaluation.arguments and "threshold" in evaluation.arguments.reading.options)
        or any(table.is_assumed("rel") for table in inputs.judging)
        or 0 < scale < HIGHEST_RATING
        or (highest is not None and highest < HIGHEST_RATING)
        or not any(_is_binary(metric, evaluation) for metric in evaluation.metrics)
    ):
        return
    source = inputs.graded
    sample = f"(SELECT rel FROM {source} WHERE rel IS NOT NULL LIMIT {FIRST_ROWS})"
    if evaluation.run_sql(RATINGS.format(rows=sample, threshold=threshold)):
        sql = RATINGS.format(rows=source, threshold=threshold)
        for _, _, part, _, below, low, high in evaluation.run_sql(sql):
            yield {"part": part, "threshold": threshold, "lowest": low, "highest": high,
                   "below": below}  # fmt: skip


def _fractions(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Grades between 0 and 1, which a binary metric counts as not relevant."""
    inputs, source = evaluation.inputs, evaluation.inputs.graded
    options = evaluation.arguments.reading.options if evaluation.arguments else {}
    if (
        "threshold" not in options
        and not any(table.is_assumed("rel") for table in inputs.judging)
        and any(_is_binary(metric, evaluation) for metric in evaluation.metrics)
        and has_fractions(evaluation.session, inputs)
        and not [*_ratings(evaluation, counters, values)]  # which names them
    ):
        sql = f"SELECT count(*), min(rel) FROM {source} WHERE rel > 0 AND rel < 1"
        for count, least in evaluation.run_sql(sql):
            yield {"count": count, "grades": "grade" if count == 1 else "grades", "least": least}


def _is_binary(metric: Metric, evaluation: Evaluation) -> bool:
    """Does it read which grades reach the threshold, by default?"""
    known = vars(evaluation.conventions)
    return (
        metric.record is not None
        and "threshold" in metric.record.options
        and "max_rel" not in metric.options  # fractions count
        and metric.threshold(known) == evaluation.conventions.threshold
    )


def _undefined(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Shares of queries with a hit that leave many queries out."""
    total = len(values)
    shares = [m.name for m in evaluation.metrics if m.record and m.record.is_share]
    for name in shares if evaluation.conventions.undefined == "skip" else ():
        if (count := values[name].null_count()) > MUCH_UNDEFINED * total:
            yield {"name": name, "count": count, "total": total}


def _other_counts(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Metrics whose means are over more queries in one system than in another."""
    if not evaluation.inputs.many:
        return
    names, rules = evaluation.names, evaluation.conventions.as_dict()
    compared = (compared_value(name, rules) for name in names)
    rows = values.select("system", *compared).group_by("system").agg(pl.all().count())
    for name in names if len(rows) else ():
        counts = rows.sort(name, "system")["system", name].rows()
        (fewest, count), (most, highest) = counts[0], counts[-1]
        if count < highest:
            yield {"name": name, "count": count, "fewest": fewest, "most": most,
                   "queries": format_queries(highest)}  # fmt: skip


_COMPARED = "; compare uses the same queries for all systems"
OTHER_COUNTS = Note(
    _other_counts,
    "{name}: means are over {count:,} ({fewest}) to {queries} ({most}), those with a value"
    + _COMPARED,
)


def is_of_counts(note: str) -> bool:
    """Is it about means over different queries, which a comparison does not have?"""
    return note.endswith(_COMPARED)


def _clusters(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    query, cluster = evaluation.inputs.query, evaluation.cluster
    if cluster is not None:
        queries = values[[query, cluster]]
        queries = queries.filter(queries[query].alias("key").is_first_distinct())
        codes = cluster_codes(queries, query, cluster)
        sizes = codes.value_counts()["count"].to_list()
        yield {"text": describe_clusters(sizes, cluster)}


def _users(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """The column of sessions or users if several queries have the same, by the first rows."""
    arguments = evaluation.arguments
    if arguments is None or arguments.cluster is not None or arguments.interval is None:
        return
    for table in evaluation.inputs.tables:
        taken = {*table.sources([*table.roles.values()])}
        free = [name for name in table.columns if name not in taken]
        users = [x for x in free if squash(x) in USERS] if "query" in table.roles else []
        for name in [*([table.shared] if table.shared else []), *users]:
            rows = f"SELECT {table.key('query')} AS query, {quote(name)} AS u FROM {table.sql}"
            queries = f"""
                SELECT any_value(u) AS u, count(DISTINCT u) AS users
                FROM ({rows} LIMIT {FIRST_ROWS}) GROUP BY query"""
            repeated = (
                "SELECT max(users) = 1 AND count(DISTINCT u) BETWEEN 2 AND count(u) - 1 "
                f"FROM ({queries})"
            )
            if evaluation.session.con.execute(repeated).fetchall()[0][0]:
                yield {"name": name}
                return


def _seen(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Items that the user has in train."""
    k = cutoff(evaluation.metrics)
    positions = "" if k is None else f" in the first {format_count(k, 'position')}"
    for system, (total, count) in counters.seen.items():
        if count > MUCH_SEEN * total:
            yield {"system": system, "share": count / total, "positions": positions}


def _strangers(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Runs of users that are all unknown in train."""
    inputs = evaluation.inputs
    if inputs.train and not any(count for _, count in counters.seen.values()):
        key = inputs.train.key("query", inputs.as_text("query"))
        train = f"(SELECT {key} AS query FROM {inputs.train.sql})"
        if not evaluation.run_sql(f"SELECT 1 FROM run SEMI JOIN {train} USING (query) LIMIT 1"):
            yield {}


def _outside(evaluation: Evaluation, counters: Counters, values: pl.DataFrame) -> Facts:
    """Shown items that are not in the catalogue."""
    names = [metric.name for metric in evaluation.metrics if reads_catalogue(metric)]
    for system, (total, inside) in counters.outside.items():
        if count := total - inside:
            yield {"system": system, "names": join_words(names), "count": count, "total": total,
                   "are": is_or_are(count), "leave": "leaves" if len(names) == 1 else "leave",
                   "size": evaluation.inputs.catalogue_size.partition(" ")[0]}  # fmt: skip


OTHERS = (
    Note(
        _without_attributes,
        "{count:,} of {queries} have no row in attributes ({examples}): their slice is NULL",
    ),
    Note(
        _without_grades,
        "{count:,} of {rows:,} rows of qrels have no grade ({name} is NULL) and are left out: "
        "their items count as unjudged",
    ),
    Note(_chunks, "{chunk}. They count as unjudged"),
    Note(
        _short_rankings,
        "{rankings} {have} fewer items than the ideal ranking, which {profile} cuts to as many: "
        "its nDCG is higher there",
    ),
    Note(
        _seen,
        "{share:.1%} of the items of {run}{positions} are in train for the same user. seen='drop' "
        "removes them",
    ),
    Note(
        _strangers,
        "No user of the run is in train. If this is not true, write their ids the same way in both",
    ),
    Note(
        _outside,
        "{names} {leave} out {count:,} of {total:,} items of {run} that {are} not in the catalogue "
        "of {size} items",
    ),
    Note(
        _undefined,
        "{name} leaves out {count:,} of {total:,} rankings without a relevant item; "
        "undefined='zero' counts them as 0",
    ),
    OTHER_COUNTS,
    Note(_ratings, f"{RATINGS_PROBLEM}. For ratings pass threshold=, often 4"),
    Note(
        _fractions,
        "{count:,} positive {grades} below 1 (from {least:g}) count as not relevant. If they are, "
        "pass threshold= with the lowest relevant grade",
    ),
    Note(_clusters, "{text}"),
    Note(
        _users,
        "Queries with the same {name} are not independent: pass cluster={name!r} so "
        "that intervals respect it",
    ),
)
