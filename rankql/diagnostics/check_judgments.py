"""Checks of the judgments, and of what a run and its judgments have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rankql import text
from rankql.diagnostics.check_data import CheckData, CheckedTable
from rankql.diagnostics.findings import REFUSED, Finding, drop_key, json_value
from rankql.evaluation.ctes import BY_ITEM, score_cuts_sql
from rankql.evaluation.overlap import (
    few_common_items_note,
    find_example_items,
    is_small_overlap,
    item_overlap,
)

# Relevant items of reversed scores rank this many standard errors below chance.
REVERSED_Z = -2.3


def find_duplicate_judgments(data: CheckData) -> Iterator[Finding]:
    """Items that are judged more than once for a query."""
    if not data.qrels:
        return
    for kind, problem, test, why in (
        ("duplicate-judgments", "the same judgment more than once", "=",
         "the ideal ranking would count it twice: keep one row of each"),
        ("conflicting-judgments", "different grades for one item", "<",
         "only one can be right: decide which (the latest, the highest, the mean)"),
    ):  # fmt: skip
        sql = f"""(SELECT query, item, min(rel) AS lowest, max(rel) AS highest, count(*) AS rows
                   FROM {data.qrels.clean} WHERE rel IS NOT NULL GROUP BY query, item
                   HAVING count(*) > 1 AND min(rel) {test} max(rel))"""
        yield from data.find_rows(kind, "error", data.qrels, problem, "item", sql, why)


def find_queries_without_relevant(data: CheckData) -> Iterator[Finding]:
    """Queries without a relevant item."""
    for table in data.graded:
        sql = f"""(SELECT {table.keys}, max(rel) AS highest FROM {table.clean}
                   WHERE rel IS NOT NULL GROUP BY {table.keys} HAVING max(rel) < 1)"""
        yield from data.find_rows(
            "no-relevant", "warning", table, "no item has grade 1 or more", "query", sql,
            "nDCG, AP, recall and the like are undefined there and left out of the means "
            "(options: undefined, threshold)",
        )  # fmt: skip


def find_unmatched_queries(data: CheckData) -> Iterator[Finding]:
    """Queries that only the run or only the judgments have."""
    for run, qrels in data.judged_runs:
        in_run = f"(SELECT DISTINCT {run.keys} FROM {run.clean})"
        judged = f"(SELECT DISTINCT query FROM {qrels.clean} WHERE rel IS NOT NULL)"
        ((common,),) = data.fetch(f"SELECT count(*) FROM {in_run} SEMI JOIN {judged} USING (query)")
        if not common:
            queries = [[row["query"] for row in data.examples(sql, "query")]
                       for sql in (in_run, judged)]  # fmt: skip
            yield Finding(
                "no-overlap", "error", run.label, run.rows, "no query of the run is judged",
                "there is nothing to evaluate: compare how both write their queries",
                tuple({"run": r, "qrels": q} for r, q in zip(*queries, strict=False)),
            )  # fmt: skip
            continue
        yield from _find_unmatched_items(data, run, qrels)
        expected = judged
        if run.keys != "query":
            expected = f"(FROM {judged} CROSS JOIN (SELECT DISTINCT system FROM {in_run}))"
        yield from _count_by_system(
            data, "unjudged-queries", run, "in the run but not judged",
            f"(FROM {in_run} ANTI JOIN {judged} USING (query))",
            "they are left out of the means: are judgments missing?",
        )  # fmt: skip
        yield from _count_by_system(
            data, "missing-queries", run, "judged but not in the run",
            f"(FROM {expected} ANTI JOIN {in_run} USING ({run.keys}))",
            "each counts as 0 in the means (option: missing)",
        )  # fmt: skip


def _find_unmatched_items(
    data: CheckData, run: CheckedTable, qrels: CheckedTable
) -> Iterator[Finding]:
    """Systems with no or few judged items, matched as evaluate does."""
    if "item" not in run.roles:
        return

    def ask(sql: str) -> list[Any]:
        judged = f"(FROM {qrels.clean} WHERE rel IS NOT NULL)"
        return data.fetch(f"WITH run AS {run.clean}, qrels AS {judged} {sql}")

    for counts in item_overlap(ask, data.inputs):
        system, in_run, judged, common = counts
        query, run_item, qrels_item = find_example_items(ask, system)
        if judged and not common:
            example = {"query": query, "item of run": run_item, "item of qrels": qrels_item}
            yield Finding(
                "no-common-items", "error", run.system_label(system), in_run,
                "no item of the run is judged for its query",
                REFUSED + "write item ids the same way in both, or name the right columns: item=",
                ({name: json_value(value) for name, value in example.items()},),
            )  # fmt: skip
        elif is_small_overlap(*counts):
            yield Finding(
                "few-common-items", "warning", run.system_label(system), common,
                few_common_items_note(*counts).partition(":")[0],
                "the others may be written in another way",
            )  # fmt: skip


def _count_by_system(
    data: CheckData, kind: str, run: CheckedTable, problem: str, sql: str, why: str
) -> Iterator[Finding]:
    """A warning about the queries of each system."""
    rows = data.fetch(f"""
        SELECT system, count(*), min(query, 3) FROM (SELECT {run.system_column}, query FROM {sql})
        GROUP BY system ORDER BY system""")
    for name, count, queries in rows:
        examples = tuple({"query": json_value(query)} for query in queries)
        message = f"{problem}: {text.format_count(count, 'query')}"
        yield Finding(kind, "warning", run.system_label(name), count, message, why, examples)


def find_reversed_scores(data: CheckData) -> Iterator[Finding]:
    """Rankings with the relevant items at the end: are the scores distances?"""
    for run, qrels in [(run, data.qrels) for run in data.runs if run.scored]:
        rows = f"(SELECT *, rel >= 1 AS hit FROM {run.clean} WHERE score IS NOT NULL)"
        if qrels:
            rows = f"""(SELECT {run.keys}, item, score, hit FROM {run.clean}
                        LEFT JOIN (SELECT query, item, max(rel) >= 1 AS hit FROM {qrels.clean}
                                   GROUP BY query, item) USING (query, item)
                        WHERE score IS NOT NULL)"""
        elif "rel" not in run.roles:
            continue
        over = f"OVER (PARTITION BY {run.keys} ORDER BY score"
        same = f"OVER (PARTITION BY {run.keys}, score)"
        # Mann and Whitney: U counts the pairs in which the relevant item has the higher score.
        systems = data.fetch(f"""
            SELECT system, sum(u - n * m / 2), sqrt(sum(n * m * (n + m + 1) / 12)),
                avg(1 / first), avg(1 / last), count(*)
            FROM (SELECT {run.system_column}, query, count(*) FILTER (hit) AS n,
                      count(*) FILTER (hit IS DISTINCT FROM true) AS m,
                      sum(place) FILTER (hit) - n * (n + 1) / 2 AS u,
                      min(down) FILTER (hit) AS first, min(up) FILTER (hit) AS last
                  FROM (SELECT *, rank() {over}) + (count(*) {same} - 1) / 2.0 AS place,
                            row_number() {over} DESC) AS down, row_number() {over} ASC) AS up
                        FROM {rows})
                  GROUP BY {run.keys})
            WHERE n > 0 AND m > 0 GROUP BY system ORDER BY system""")
        for name, excess, error, forward, backward, queries in systems:
            if excess < REVERSED_Z * error and backward > 1.5 * forward:
                order, other = "descending", "False"
                if run.table.ascending:
                    order, other = "ascending", "True"
                yield Finding(
                    "reversed-scores", "warning", run.system_label(name), queries,
                    f"the reversed order scores far better: RR {backward:.3f}, not {forward:.3f}",
                    f"{run.roles['score']} is taken as {order}: are the best scores at the other "
                    f"end, as with distances? Then pass descending={other}",
                )  # fmt: skip


def find_unjudged_items(data: CheckData) -> Iterator[Finding]:
    """Unjudged items in the top k of judged queries."""
    pairs: list[tuple[CheckedTable, CheckedTable | None]] = [*data.judged_runs]
    if not data.qrels:
        pairs = [(run, None) for run in data.graded]
    for run, qrels in pairs:
        example = "{'share': judged / items, 'query': query, 'judged': judged, 'shown': items}"
        rows = data.fetch(f"""
            SELECT system, sum(judged), sum(items), min({example}, 3) FILTER (judged < items)
            FROM (SELECT {run.system_column}, query, count(rel) AS judged, count(*) AS items
                  FROM {_judged_tops(data, run, qrels)} GROUP BY {run.keys})
            GROUP BY system ORDER BY system""")
        for name, judged, items, worst in rows:
            if judged < items:
                yield Finding(
                    "judged-share", "warning" if judged < items / 2 else "note",
                    run.system_label(name), int(items - judged),
                    f"judged in the top {data.k}: {judged / items:.1%} ({int(judged):,} of "
                    f"{int(items):,})",
                    "what is unjudged counts as not relevant, which may wrong a new system "
                    "(option: unjudged)",
                    drop_key("share", worst),
                )  # fmt: skip


def _judged_tops(data: CheckData, run: CheckedTable, qrels: CheckedTable | None) -> str:
    """The top k of each judged query, with grades."""
    rel = "" if qrels else ", rel"
    item = ", item" if "item" in run.roles else ""
    top = f"(SELECT {run.keys}{item}{rel} FROM {run.clean} WHERE pos <= {data.k})"
    if run.scored:
        order = f"score DESC, {BY_ITEM}"
        top = f"""(
            SELECT {run.keys}, item{rel} FROM {run.clean}
            JOIN ({score_cuts_sql(run.clean, run.keys, data.k)}) USING ({run.keys})
            WHERE score >= least
            QUALIFY row_number() OVER (PARTITION BY {run.keys} ORDER BY {order}) <= {data.k})"""
    if not qrels:
        return top
    grades = f"""(SELECT query, item, max(rel) AS rel FROM {qrels.clean}
                  GROUP BY query, item)"""
    judged = f"(SELECT DISTINCT query FROM {qrels.clean} WHERE rel IS NOT NULL)"
    return f"""(SELECT * FROM {top} SEMI JOIN {judged} USING (query))
               LEFT JOIN {grades} USING (query, item)"""
