"""A closer look at the rows of rankings and at the ids that are not found."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query.ctes import source_ctes, with_ctes
from rankql.core.metrics.macros import template_literal
from rankql.core.tables.reader import fetch

# Scores look reversed if relevant items rank this many standard errors below chance.
REVERSED_Z = -2.3
# The cutoff of a whole list.
LAST = 2**31 - 1
# Smaller whole numbers are ids of both queries and items by chance.
SMALL_ID = 10_000


# About so many queries are looked at, fewer if they have more rows, in so many ranges of ids.
_QUERIES, _ROWS, _RANGES = 500, 5_000, 2
# Of fewer rows, the sample is by the hash of the query, and is not copied.
_MANY_ROWS = 100_000


@dataclass(frozen=True)
class SampledRows:
    """All rows of an evaluation or those of some queries: the CTEs run and qrels."""

    evaluation: Evaluation
    ctes: Mapping[str, str]
    is_part: bool = False

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query on the CTEs, without polars: forked processes would wait for it."""
        return fetch(self.evaluation.session, with_ctes(self.ctes) + sql)


def read_all(evaluation: Evaluation) -> SampledRows:
    """All rows."""
    return SampledRows(evaluation, source_ctes(evaluation.inputs, evaluation.conventions))


def read_some(evaluation: Evaluation, queries: pl.Series) -> SampledRows:
    """The rows of some of the queries: by the hash of their id, or of large files, by ranges."""
    every = max(len(queries) // _QUERIES, evaluation.rows // _ROWS)
    if every < 2:
        return read_all(evaluation)
    within = f"hash(CAST({{query}} AS VARCHAR)) % {every} = 0"
    files = all("read_parquet" in table.sql for table in evaluation.inputs.runs.values())
    known = queries.dtype.is_integer() or queries.dtype == pl.String
    if files and known and evaluation.rows >= _MANY_ROWS:  # which skip what is outside of ranges
        step = max(len(queries) // (every * _RANGES), 1)
        ids = sorted({*queries.gather_every(step)})
        ends = [*range(0, len(ids), max(len(ids) // _RANGES, 1))][:_RANGES]
        ids = [*map(template_literal, (*ids, ids[-1]))]
        within = " OR ".join(f"{{query}} BETWEEN {ids[i]} AND {ids[i + (step > 1)]}" for i in ends)
    ctes = read_all(evaluation.of_queries(f"({within})")).ctes
    if evaluation.rows >= _MANY_ROWS:
        session, tables = evaluation.session, [x for x in ctes if x != "attributes"]
        ctes = {x: f"FROM {session.copy(x, f'{with_ctes(ctes)}FROM {x}')}" for x in tables}
    return SampledRows(evaluation, ctes, is_part=True)


class RankingLook(NamedTuple):
    """What the rankings of a system show."""

    system: str | None
    queries: int
    # By how many standard errors do relevant items rank above chance; RR, and RR in reverse order.
    z: float
    forward: float
    backward: float
    # In how many queries do equal scores decide which relevant items are within the cutoff?
    tied: int
    # How many queries are their own first item, how many are small numbers, how many are judged
    # relevant to themselves, and examples.
    same: int
    small: int
    own: int
    examples: Sequence[Any]


# A row for each ranking: its grades with the best of equal scores first, and with the worst first.
_RANKINGS = """
    SELECT {keys}, len(best), list_count(high), list_sum(high) + list_sum(low),
        list_min(high), list_max(low), item IS NOT NULL AND best[:{k}] <> worst[:{k}], item,
        top
    FROM (SELECT *, list_transform(best, {hit}) AS high, list_transform(worst, {hit}) AS low
        FROM (SELECT {keys}, arg_max(item, {place}) AS item, arg_max({grade}, {place}) AS top,
                list({grade} ORDER BY {place} DESC, {grade} DESC) AS best,
                list({grade} ORDER BY {place} DESC, {grade}) AS worst
            FROM {graded} WHERE {place} IS NOT NULL GROUP BY {keys}))"""


def look_at_rankings(sample: SampledRows, k: int) -> list[RankingLook]:
    """What the rankings of each system show; k: the cutoff of ties."""
    evaluation, inputs = sample.evaluation, sample.evaluation.inputs
    lacking = "".join(f", NULL AS {x}" for x in ("rel", "item") if not inputs.every(x))
    graded = f"(SELECT *{lacking} FROM run)"
    if inputs.qrels is not None:
        graded = "(FROM run LEFT JOIN (SELECT query, item, rel FROM qrels) USING (query, item))"
    sql = _RANKINGS.format(
        keys=inputs.keys, k=k, place="score" if inputs.scored else "-pos", graded=graded,
        grade="greatest(coalesce(rel, 0), 0)",
        hit=f"lambda rel, i: CASE WHEN {evaluation.is_relevant()} THEN i END",
    )  # fmt: skip
    looks = defaultdict[str | None, list[Any]](list)
    for *key, query, n, h, places, first, last, tied, item, top in sorted(sample.fetch(sql)):
        same = item is not None and str(query) == str(item)
        small = same and str(query).isdecimal() and int(query) < SMALL_ID
        gaps = (0.0, 0.0, None, None)
        if 0 < h < n:
            gaps = (*rank_gap(n, h, places / 2), 1 / first, 1 / (n - last + 1))
        flags = bool(tied), same, small, same and top > 0
        looks[key[0] if key else None].append((*gaps, *flags, query, item))
    return [_sum_up(system, rows) for system, rows in looks.items()]


def rank_gap(n: Any, hits: Any, places: Any) -> tuple[Any, Any]:
    """How many more pairs of items than by chance have the relevant one first, and the variance.

    As Mann and Whitney's U, of numbers or columns of polars: n items, of which the hits have places
    with this sum.
    """
    gap = hits * (2 * n + 1 - hits) / 2 - places - hits * (n - hits) / 2
    return gap, hits * (n - hits) * (n + 1) / 12


def _sum_up(system: str | None, rows: Sequence[Any]) -> RankingLook:
    gaps, variances, forward, backward, *flags, _, _ = zip(*rows, strict=True)
    known = [(x, y) for x, y in zip(forward, backward, strict=True) if x is not None]
    examples = [{"query": x[-2], "item": x[-1]} for x in rows if x[5]]
    rr, reverse = (sum(x) / len(known) for x in zip(*known, strict=True)) if known else (0.0, 0.0)
    z = sum(gaps) / math.sqrt(sum(variances)) if known else 0.0
    tied, same, small, own = map(sum, flags)
    return RankingLook(system, len(rows), z, rr, reverse, tied, same, small, own, examples[:3])


class Spelling(NamedTuple):
    """Relevant ids that a system spells differently, in one way."""

    system: str | None
    # Ids of the run, and of the judgments.
    pairs: Sequence[tuple[str, str]]
