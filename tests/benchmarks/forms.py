"""What each form for speed gains: the same call with it and without it, on its own workload.

A form is a second way to values that rankql could compute without it: a layout of the reduction
(`reduce` and `fetch`), means in Python, an expression of polars beside a macro. Both ways must
give the same values. A form stays while it gains 1.2 times in three of five runs; the guard of CI
only fails where one takes longer than what it replaces, twice in a row. Macros take milliseconds to
plan, so expressions gain more for few rows: their own workload are both sizes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import partial
from typing import Any
from unittest.mock import patch

import data
import duckdb
import polars as pl
from polars.testing import assert_frame_equal
from timing import Workload, measure

import rankql
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.query import ctes
from rankql.core.evaluation.reduce import fetch, reduce
from rankql.core.evaluation.reduce.reduce import Reduction
from rankql.core.evaluation.result import result
from rankql.core.expressions.in_duckdb import aggregate
from rankql.core.metrics.macros import quote

Switch = Callable[[], AbstractContextManager[Any]]

WITH, WITHOUT = "with", "without"
LEAST = 1.2
ROWS, RANKINGS = 500_000, 5_000
# The rankings of an expression, of 100 rows each, and how often it is called.
TWINS_OF = {20: 20, 2_000: 1}
# Expressions of polars beside a macro of the same name, their columns and options.
TOP = "rel, pos"
TWINS: dict[str, tuple[str, dict[str, float]]] = {
    **{name: (TOP, {"k": 10}) for name in ("ndcg", "rr", "arhr", "precision_at", "recall_at")},
    **{name: (TOP, {"k": 10, "max_rel": 3}) for name in ("err", "nerr")},
    **{name: (TOP, {"p": 0.8}) for name in ("rbp", "rbp_residual")},
    **{name: (TOP, {}) for name in ("ap", "bpref", "infap", "r_precision", "judged_at")},
    "interpolated_precision": (TOP, {"recall": 0.5}),
    "kendall_tau_b": (TOP, {"k": 10}),
    "tau_ap": ("reference, pos", {"k": 10}),
    "rmse": ("grade, score", {}),
    "cosine_diversity": ("embedding, pos", {"k": 10}),
    "novelty": ("popularity", {"users": 1000}),
}


def report(guard: bool) -> int:
    """Print what each form gains, and return how many are slower than what they replace."""
    print("| form | rows | gain of five runs | |", "|---|--:|---|---|", sep="\n")
    slower = 0
    for works in forms():
        runs = [[gain(work, guard) for _ in range(1 if guard else 5)] for work in works]
        if guard and max(map(min, runs)) < 1:
            runs = [[*each, gain(work, guard)] for each, work in zip(runs, works, strict=True)]
            slower += max(map(max, runs)) < 1
        best = max(runs, key=statistics.median)
        for work, each in zip(works, runs, strict=True):
            verdict = "goes" if each is best and statistics.median(each) < LEAST else ""
            gains = ", ".join(f"{run:.2f}" for run in each)
            print(f"| {work.name} | {work.rows:,} | {gains} | {verdict} |", flush=True)
    return slower


def gain(work: Workload, guard: bool) -> float:
    """How many times as long the call takes without the form."""
    return float(measure(work, repeat=2 if guard else 5)[1]["ratio"])


def forms() -> Iterator[Sequence[Workload]]:
    """The workloads of each form: a call with the form, the baseline, and without it."""
    con = duckdb.connect()
    data.ranked_table(con, ROWS, RANKINGS, 30)
    ranked = 'SELECT "user" AS query, hash("user", pos) >> 2 AS item'
    for name, sql in {
        "ranked": "SELECT user AS query, rel, pos FROM t",
        "run": f"{ranked}, pos FROM t",
        "scored": f"{ranked}, 1e3 - pos AS score FROM t",
        "graded": f"{ranked}, 1e3 - pos AS score, rel FROM t",
        "qrels": f"{ranked}, rel FROM t WHERE rel > 0",
    }.items():
        con.execute(f"CREATE TABLE {name} AS {sql}")

    few = [con.sql(f"FROM {x} WHERE query < 10").pl() for x in ("scored", "qrels")]
    for name, table, metric, without in (
        ("words", ("ranked", None), "nDCG@10", bounded_lists),
        ("words of hits", ("ranked", None), "AP", readable_query),
        ("joined", ("run", "qrels"), "nDCG@10", bounded_lists),
        ("cuts", ("scored", "qrels"), "nDCG@10", bounded_lists),
        ("hashes", ("graded", None), "nDCG@10", bounded_lists),
        ("lists", ("scored", "qrels"), "AP", readable_query),
    ):
        call = partial(evaluated, *table, metric, con=con)
        yield [workload(name, call, switched(call, without), ROWS)]
    for name, column, without in (
        ("rows in memory", "per_query", duckdb_rows),
        ("means in Python", "summary", duckdb_means),
    ):
        call = partial(evaluated, *few, "nDCG@10", column)
        yield [workload(name, call, switched(call, without), few[0].height, times=10)]
    yield from zip(*(twins(*each) for each in TWINS_OF.items()), strict=True)


def evaluated(
    run: Any, qrels: Any, metric: str, frame: str = "per_query", **options: Any
) -> pl.DataFrame:
    """The values or the means of an evaluation."""
    return getattr(rankql.evaluate(run, qrels, metric, interval=None, **options), frame)


def twins(rankings: int, times: int) -> Iterator[Workload]:
    """Expressions of polars, and the macros of the same names."""
    con = duckdb.connect()
    data.ranked_table(con, 100 * rankings, rankings, 30)
    rows = con.sql("""SELECT *, rel::DOUBLE AS grade, hash(pos, user) % 1000 / 10 AS score,
        [rel + 1.0, hash(pos) % 7, 3.0] AS embedding, hash(pos) % 900 + 1 AS popularity,
        dense_rank() OVER (PARTITION BY user ORDER BY hash(pos, user)) AS reference FROM t""").pl()

    def values(way: pl.Expr) -> Callable[[], pl.DataFrame]:
        return lambda: rows.group_by("user").agg(value=way)

    def by_group() -> pl.DataFrame:
        return rows.pipe(rankql.ndcg, by="user", k=10).rename({"ndcg": "value"})

    for name, (columns, options) in TWINS.items():
        names = columns.split(", ")
        call = f"{name}({', '.join([columns, *(f'{x} := {y}' for x, y in options.items())])})"
        twin = getattr(rankql, name)(*names, **options)
        macro = aggregate(call, checked=False, **{x: x for x in names})  # as polars checked them
        yield workload(f"{name} of polars", values(twin), values(macro), rows.height, times)
    plain = values(rankql.ndcg(k=10))
    yield workload("ndcg by group of polars", by_group, plain, rows.height, times)


def switched(call: Callable[[], pl.DataFrame], without: Switch) -> Callable[[], pl.DataFrame]:
    """A call without a form."""

    def other() -> pl.DataFrame:
        with without():
            return call()

    return other


def workload(
    name: str,
    call: Callable[[], pl.DataFrame],
    other: Callable[[], pl.DataFrame],
    rows: int,
    times: int = 1,
) -> Workload:
    """Two ways to the same values, each so many times."""
    assert_frame_equal(call(), other(), check_row_order=False, check_dtypes=False, abs_tol=1e-9)
    ways = {WITH: call, WITHOUT: other}
    tasks = {x: partial(repeat, way, times) for x, way in ways.items()}
    return Workload(name, tasks, rows, 0, 0)


def repeat(call: Callable[[], object], times: int) -> None:
    """Call several times."""
    for _ in range(times):
        call()


def readable_query() -> AbstractContextManager[Any]:
    """No ranking is reduced: the readable query computes the metrics."""
    return patch.object(reduce, "may_lack_threads", lambda: True)


def duckdb_rows() -> AbstractContextManager[Any]:
    """DuckDB reduces the rows of few rankings too."""
    return patch.object(fetch, "MOST_ROWS", 0)


def duckdb_means() -> AbstractContextManager[Any]:
    """DuckDB adds up few values too."""
    return patch.object(result, "summarise_few", lambda *_: None)


def bounded_lists() -> AbstractContextManager[Any]:
    """The layout "lists", of the first k items, in place of another one."""

    def choose(evaluation: Evaluation) -> Reduction:
        chosen = reduce.choose_reduction(evaluation)
        kept = {x.name: getattr(chosen, x.name) for x in fields(chosen)}
        return BoundedLists(**{**kept, "layout": "lists"})

    return patch.object(fetch, "choose_reduction", choose)


class BoundedLists(Reduction):
    """The places and grades of the judged items of the first k."""

    @property
    def counts(self) -> bool:
        """In a table with grades and positions, nothing can be wrong."""
        return self.inputs.qrels is not None or self.inputs.scored

    def _list_rows(self, steps: dict[str, str]) -> tuple[str, list[str]]:
        place, k = self.place, self.k
        own = self._attributes("run") | self._grade_columns()
        counters, source = self._counters() if self.counts else own, "run"
        if self.inputs.qrels is not None:
            counters |= self._aggregates("common")
            source = "run LEFT JOIN (FROM qrels WHERE rel > 0) USING (query, item)"
        within = f"pos <= {k}" if place == "pos" else "score IS NOT NULL"
        read = f"FILTER (WHERE rel > 0 AND {within})"
        lists = {"places": f"list({place}) {read}", "rels": f"list(rel) {read}"}
        if place == "pos":
            more = self._aggregates("highest") if self.counts else {}
            shown = f"count(CASE WHEN pos <= {k} THEN 1 END)"
            more["shared"] = f"{shown} > rankql_different(pos, {k})"
            steps["lists"] = self._group(source, counters | more | lists)
            return "lists", [*counters, *more, *lists]
        scores = {"ordered": f"max(score, {k + 1})"}
        steps["lists"] = self._group(source, counters | scores | lists)
        columns = [self.inputs.keys, *map(quote, counters)]
        found = "list_transform(places, lambda x: list_position(ordered, x))"
        steps["found"] = ctes.select_from(
            "lists", [*columns, "ordered", "rels", f"{found} AS found"]
        )
        tied = "list_bool_or(list_transform(found, lambda p: ordered[p + 1] = ordered[p]))"
        places = "list_transform(found, lambda p: coalesce(p, 1000000))"
        more = {"tied": f"coalesce({tied}, false)", "highest": "ordered[1]", "places": places}
        fields = [*columns, "rels", *(f"{sql} AS {name}" for name, sql in more.items())]
        steps["rankings"] = ctes.select_from("found", fields)
        return "rankings", [*counters, "tied", "highest", *lists]
