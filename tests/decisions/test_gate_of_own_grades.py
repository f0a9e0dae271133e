"""Run and baseline with grades of their own: pool= says whose count, as in evaluate."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rankql
from rankql.core.base.errors import Question
from rankql.decisions.gate import gate_comparison


def ranked(*rows: tuple[str, int | None], queries: int = 20) -> pl.DataFrame:
    """Queries that each show these items with their grades, in this order."""
    return pl.DataFrame(
        [(f"q{q}", x, n, grade) for q in range(queries) for n, (x, grade) in enumerate(rows, 1)],
        {"query": pl.String, "item": pl.String, "pos": pl.Int64, "rel": pl.Int64}, orient="row",
    )  # fmt: skip


BASELINE = ranked(("w", 1), ("v", 0), ("x", 2))
RUN = ranked(("w", 1), ("v", 0))
POOL = BASELINE.select("query", "item", "rel")
LIMITS = "nDCG@10:0.01,R@10:0.01,P@2:0.01"
COLUMNS = ["metric", "mean", "baseline", "difference", "lo", "hi", "status", "n"]


def gate(run: Any, baseline: Any, qrels: Any = None, **options: Any) -> rankql.Verdict:
    return rankql.gate(run, qrels, baseline, **{"max_drop": LIMITS, **options})


def test_a_gate_asks_unless_the_metrics_read_shown_items_alone() -> None:
    with pytest.raises(Question, match=r"baseline and run have .* Which count for nDCG@10\?"):
        gate(RUN, BASELINE)
    assert gate(RUN, BASELINE, max_drop="P@2:0.01").table["difference"].to_list() == [0]


OPTIONS = [
    {}, {"minimum": "nDCG@10>=0.3,AP>=0.2"}, {"equivalence": "nDCG@10:0.2", "max_drop": None},
    {"by": "part"}, {"weight": "weight"}, {"cluster": "part"}, {"conventions": "trec_eval"},
    {"min_score": {"run": 0.1}}, {"minimum": "RMSE<9"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_a_pool_gives_the_numbers_of_judgments(options: dict[str, Any]) -> None:
    number = pl.col("query").str.slice(1).cast(pl.Int64)
    runs = [
        x.with_columns(part=(number % 12).cast(pl.String), weight=1.0 + number % 3,
                       score=1.0 / pl.col("pos")).drop("pos")
        for x in (RUN, BASELINE)
    ]  # fmt: skip
    if {"cluster", "by", "weight"}.isdisjoint(options):
        runs = [x.drop("part", "weight") for x in runs]
    pooled = gate(*runs, **options, pool=True)
    judged = gate(*(x.drop("rel") for x in runs), POOL, **options)
    assert pooled.table.select(COLUMNS).equals(judged.table.select(COLUMNS))
    assert pooled.title == f"{judged.title}; the grades of all runs count"


def test_a_query_that_the_run_lacks_counts_as_with_judgments() -> None:
    run = RUN.filter(pl.col("query") != "q3")
    pooled, judged = gate(run, BASELINE, pool=True), gate(run.drop("rel"), BASELINE, POOL)
    assert pooled.table.select(COLUMNS).equals(judged.table.select(COLUMNS))


def test_without_a_pool_each_is_measured_alone() -> None:
    verdict = gate(RUN, BASELINE, pool=False)
    own = [rankql.evaluate(x, metrics=["nDCG@10", "R@10", "P@2"]) for x in (RUN, BASELINE)]
    for name, each in zip(("mean", "baseline"), own, strict=True):
        assert verdict.table[name].to_list() == pytest.approx(each.summary["mean"].to_list())
    end = "each run is measured by the grades of its own rows"
    assert verdict.title.endswith(end) and end in str(verdict).splitlines()[0]


def test_one_grade_does_not_turn_the_verdict() -> None:
    other = BASELINE.with_columns(rel=pl.when(pl.int_range(pl.len()) == 0).then(2).otherwise("rel"))
    assert gate(RUN, BASELINE, max_drop="R@10:0.01", pool=False).outcome == "inconclusive"
    assert gate(RUN, other, max_drop="R@10:0.01", pool=False).outcome == "inconclusive"
    with pytest.raises(rankql.RankqlError, match="1 item with two grades"):
        gate(RUN, other, max_drop="R@10:0.01", pool=True)


def test_a_run_without_a_grade_fails_where_the_baseline_finds_something() -> None:
    run = ranked(("u", None), ("v", None))
    verdict = gate(run, BASELINE, max_drop="R@10:0.05", pool=True)
    assert verdict.table.row(0, named=True)["mean"] == 0 and not verdict.passed


def test_other_names_of_the_baseline_are_joined() -> None:
    other = BASELINE.rename({"query": "qid", "item": "doc_id"})
    assert gate(RUN, other, pool=True).table.equals(gate(RUN, BASELINE, pool=True).table)


def test_identical_rankings_are_identical() -> None:
    assert gate(RUN, RUN).passed
    twins = gate(RUN, RUN.with_columns(rel=pl.col("rel").cast(pl.Float64)))
    assert twins.passed and (twins.table["difference"] == 0).all()


def test_comparison_with_a_limit_says_the_same() -> None:
    runs = {"old": BASELINE, "new": RUN}
    compared = rankql.compare(runs, metrics="nDCG@10", pool=True)
    assert compared.title.endswith("; the grades of all runs count")
    verdict = gate_comparison(compared, "nDCG@10:0.01")
    assert (
        verdict.table["mean"].to_list()
        == gate(RUN, BASELINE, pool=True).table["mean"][:1].to_list()
    )


@pytest.mark.parametrize("saved", [True, False])
def test_results_of_own_grades_are_asked_about(saved: bool, tmp_path: Path) -> None:
    def evaluate(name: str, *tables: Any) -> Any:
        path = tmp_path / f"{name}.parquet"
        result = rankql.evaluate(
            *tables, metrics=["nDCG@10", "P@2"], output=path if saved else None
        )
        return str(path) if saved else result

    old, new, again = evaluate("old", BASELINE), evaluate("new", RUN), evaluate("again", BASELINE)
    judged = evaluate("judged", BASELINE.drop("rel"), POOL)
    calls = [
        lambda **x: rankql.compare({"old": old, "new": new}, **x),
        lambda **x: gate(new, old, **{"max_drop": "nDCG@10:0.1", **x}),
        lambda **x: rankql.compare({"judged": judged, "new": new}, **x),
    ]
    for call in calls:
        with pytest.raises(Question, match="as they are") as error:
            call()
        assert error.value.calls == [{"pool": False}] and "pass the runs" in str(error.value)
        with pytest.raises(rankql.RankqlError, match="pool=True needs the runs"):
            call(pool=True)
        assert "each run is measured by the grades of its own rows" in call(pool=False).title
    assert rankql.compare({"old": old, "again": again}).title  # equal grades
    assert rankql.compare({"old": old, "judged": judged}).title
    assert rankql.compare({"old": old, "new": new}, metrics="P@2", pool=False).title


def test_an_attribute_that_changed_since_is_that_of_the_run() -> None:
    part = (pl.col("query").str.slice(1).cast(pl.Int64) % 2).cast(pl.String)
    run, baseline = RUN.with_columns(part=part), BASELINE.with_columns(part=pl.lit("old"))
    for pool in (True, False):
        verdict = gate(run, baseline, max_drop="nDCG@10:0.1", by="part", pool=pool)
        assert set(verdict.table["slice"]) == {"all", "part=0", "part=1"}
        alone = gate(run, BASELINE.with_columns(part=part), max_drop="nDCG@10:0.1", by="part",
                     pool=pool)  # fmt: skip
        assert verdict.table.select(COLUMNS).equals(alone.table.select(COLUMNS))
