"""The page of a gate: what was compared, with what, and how far the limit is."""

import re
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

import rankql
from rankql.pages import charts

rng = np.random.default_rng(1)
OLD = pl.DataFrame({
    "query": [f"q{i:03}" for i in range(240)], "part": ["a", "b", "c"] * 80,
    "RR": rng.uniform(0.3, 0.7, 240), "seconds": rng.uniform(1, 3, 240),
})  # fmt: skip
NOISE = pl.Series(rng.normal(0, 0.01, 240))
LIMITS = {"RR": 0.05, "seconds": 0.2}


def compared(lost=0.0):
    """A run that loses so much in the part b against the old one."""
    loss = pl.when(part="b").then(lost).otherwise(0.0)
    new = OLD.with_columns(RR=pl.col("RR") + NOISE - loss, seconds=pl.col("seconds") + NOISE)
    results = [rankql.read_values(x, metrics=["RR", "seconds"]) for x in (new, OLD)]
    return rankql.gate(results[0], baseline=results[1], max_drop=LIMITS, by="part",
                       higher_is_better={"RR": True, "seconds": False})  # fmt: skip


def test_the_page_says_what_was_compared_and_folds_the_slices_that_passed(tmp_path):
    run = pl.DataFrame({"query": ["q1", "q2"] * 20, "item": range(40), "score": range(40)})
    for name, order in (("old", 1), ("new", -1)):
        run.with_columns(pl.col("score") * order).write_parquet(tmp_path / f"{name}.parquet")
    qrels = run.select("query", "item", rel=pl.col("item") % 3 == 0)
    paths = [tmp_path / f"{name}.parquet" for name in ("new", "old")]
    verdict = rankql.gate(paths[0], qrels, paths[1], minimum={"RR": 0.1})
    assert verdict.inputs == {"run": str(paths[0]), "baseline": str(paths[1]),
                              "judgments": "(DataFrame in memory)"}  # fmt: skip
    verdict.save(tmp_path / "gate.html")
    page = (tmp_path / "gate.html").read_text()
    facts = re.search('<p class="facts">(.*?)</p>', page)[1]
    for fact in (f"baseline {paths[1]}", str(datetime.now(UTC).date()), rankql.__version__):
        assert fact in facts


def test_slices_that_passed_are_folded(tmp_path):
    verdict = compared(lost=0.1)
    assert not verdict
    verdict.save(tmp_path / "gate.html")
    page = (tmp_path / "gate.html").read_text()
    folded = re.search("<details><summary>5 slices that passed</summary>(.*?)</details>", page)[1]
    assert folded.count("part=a") == 2 and folded.count("part=b") == 1
    assert "Not shown" not in page and "Not shown: 5 slices" in repr(verdict)


@pytest.mark.report
def test_each_limit_has_a_chart(tmp_path):
    compared().save(tmp_path / "gate.html")
    assert (tmp_path / "gate.html").read_text().count("<figure>") == 2


@pytest.mark.parametrize(("metric", "bound"), [("RR", -0.05), ("seconds", 0.2)])
def test_the_limit_is_a_line_on_the_side_of_a_loss(metric, bound):
    spec = charts.draw_limit(compared().table.filter(metric=metric))
    assert spec["layer"][0]["data"]["values"] == [{"limit": bound}]
    assert {row["status"] for row in spec["data"]["values"]} == {"passed"}
    (domain,) = {tuple(x["encoding"]["x"]["scale"]["domain"]) for x in spec["layer"]
                 if "scale" in x["encoding"]["x"]}  # fmt: skip
    assert domain[0] <= bound <= domain[1]


def test_a_limit_on_a_mean_is_one_on_its_axis():
    verdict = rankql.gate(rankql.read_values(OLD, metrics="RR"), minimum={"RR": 0.3})
    spec = charts.draw_limit(verdict.table)
    assert spec["layer"][0]["data"]["values"] == [{"limit": 0.3}]
    assert [row["mean"] for row in spec["data"]["values"]] == [pytest.approx(OLD["RR"].mean())]
