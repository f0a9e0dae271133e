"""Run and baseline with grades of their own: those of both count, or a limit says that not."""

from typing import Any

import polars as pl
import pytest

import rankql
from rankql.decisions.gate import gate_comparison


def ranked(*rows: tuple[str, int], queries: int = 20) -> pl.DataFrame:
    """Queries that each show these items with their grades, in this order."""
    return pl.DataFrame(
        [(f"q{q}", x, n, grade) for q in range(queries) for n, (x, grade) in enumerate(rows, 1)],
        ["query", "item", "pos", "rel"], orient="row",
    )  # fmt: skip


BASELINE = ranked(("w", 1), ("v", 0), ("x", 2))
RUN = ranked(("w", 1), ("v", 0))
POOL = BASELINE.select("query", "item", "rel")
LIMITS = "nDCG@10:0.01,R@10:0.01,P@2:0.01"
COLUMNS = ["metric", "mean", "baseline", "difference", "lo", "hi", "status", "n"]


def gate(run: Any, baseline: Any, qrels: Any = None, **options: Any) -> rankql.Verdict:
    return rankql.gate(run, qrels, baseline, **{"max_drop": LIMITS, **options})


def test_judged_items_of_both_count() -> None:
    alone = gate(RUN, BASELINE)
    judged = gate(RUN.drop("rel"), BASELINE.drop("rel"), POOL)
    assert alone.table.select(COLUMNS).equals(judged.table.select(COLUMNS))
    assert alone.exit_code == 1
    assert all("The judged items of both count" in x for x in alone.table["message"])
    assert sum(x.startswith("Grades: pooled") for x in alone.notes) == 1


@pytest.mark.parametrize("options", [
    {"minimum": "nDCG@10>=0.3,AP>=0.2"}, {"equivalence": "nDCG@10:0.2", "max_drop": None},
    {"by": "part"}, {"weight": "weight"}, {"cluster": "part"}, {"conventions": "trec_eval"},
    {"min_score": {"run": 0.1}}, {"minimum": "RMSE<9"},
])  # fmt: skip
def test_options_give_the_numbers_of_the_pool(options: dict[str, Any]) -> None:
    number = pl.col("query").str.slice(1).cast(pl.Int64)
    runs = [
        x.with_columns(part=(number % 12).cast(pl.String), weight=1.0 + number % 3,
                       score=1.0 / pl.col("pos")).drop("pos")
        for x in (RUN, BASELINE)
    ]  # fmt: skip
    alone = gate(*runs, **options)
    if "cluster" in options or "by" in options or "weight" in options:
        judged = gate(*(x.drop("rel") for x in runs), POOL, **options)
    else:
        judged = gate(*(x.drop("rel", "part", "weight") for x in runs), POOL, **options)
    assert alone.table.select(COLUMNS).equals(judged.table.select(COLUMNS))


def test_other_names_of_the_baseline_are_joined() -> None:
    other = BASELINE.rename({"query": "qid", "item": "doc_id"})
    assert gate(RUN, other).table.equals(gate(RUN, BASELINE).table)


def test_identical_rankings_are_identical() -> None:
    assert gate(RUN, RUN).passed
    twins = gate(RUN, RUN.with_columns(rel=pl.col("rel").cast(pl.Float64)))
    assert twins.passed and (twins.table["difference"] == 0).all()


def test_systems_without_a_shared_relevant_item_decide_nothing() -> None:
    runs, limits = (ranked(("a", 3), ("b", 0)), ranked(("c", 0), ("d", 1))), f"{LIMITS},P@1:0.9"
    verdict = gate(*runs, max_drop=limits)
    rows = verdict.table.select("metric", "status", "message").rows()
    assert [status for _, status, _ in rows] == [*["inconclusive"] * 3, "passed"]
    assert all("so this decides nothing" in message for *_, message in rows[:2])
    assert verdict.exit_code == 3
    assert gate(*runs, max_drop=limits, inconclusive="warn").exit_code == 0


def test_different_grades_of_an_item_are_named_and_decided() -> None:
    verdict = gate(ranked(("x", 1), ("y", 0)), ranked(("y", 1), ("x", 0), ("z", 0)))
    assert all("Each is measured against the items" in x for x in verdict.table["message"])
    assert "so this decides nothing" not in str(verdict)
    assert any("the same item has grades 0 and 1" in x for x in verdict.notes)


def test_comparison_with_a_limit_says_the_same() -> None:
    runs = {"old": BASELINE, "new": RUN}
    verdict = gate_comparison(rankql.compare(runs, metrics="nDCG@10"), "nDCG@10:0.01")
    assert "The judged items of both count" in verdict.table["message"][0]
