"""The title of a comparison: Yes, No or Undecided, or the leader; and limits in the report."""

import numpy as np
import polars as pl
import pytest

import rankql
from rankql.decisions.gate import gate_comparison
from rankql.pages import charts
from support import judged_runs
from support.own_values import compare_values
from support.parameters import few

# By system: the change of each query against the old system, by part.
CHANGES = {"old": (0, 0), "up": (0.1, 0.1), "mixed": (0.1, -0.1), "down": (-0.1, -0.1),
           "flat": (0.001, -0.001), "part": (0.1, 0)}  # fmt: skip


def compare(*systems, **options):
    frames = {
        name: pl.DataFrame(
            [(i, "ab"[i % 2], 0.5 + CHANGES[name][i % 2] + 0.02 * (i % 5 - 2) * (name != "old"))
             for i in range(100)],
            schema=["query", "part", "AP"], orient="row",
        )
        for name in systems
    }  # fmt: skip
    return compare_values(frames, by="part", **options)


@few(1)(("new", "start", "end"), [
    ("up", "Is up better than old? Yes: +0.10 AP overall and nowhere significantly worse", ""),
    ("down", "Is down better than old? No: -0.10 AP overall", ""),
    ("mixed", "Is mixed better than old? No: +0.000 AP overall (95% CI ",
     "not significant), but -0.10 for part=b (50 queries)"),
    ("part", "Is part better than old? Yes: +0.050 AP overall and nowhere significantly worse "
             "(not shown to be no worse: 1 slice)", ""),
    ("flat", "Is flat better than old? Undecided: +0.0000 AP overall (95% CI ", "not significant)"),
])  # fmt: skip
def test_two_systems(new, start, end):
    compared = compare("old", new)
    assert compared.title.startswith(start) and compared.title.endswith(end)
    assert end or compared.title == start
    assert repr(compared).startswith(f"{compared.title}\n\n")


def table(**changes):
    """Values of 60 queries in two parts: 0.5, some noise, and a change in each part."""
    noise = pl.Series([i // 2 % 5 / 100 - 0.02 for i in range(60)])
    parts = pl.Series([i % 2 for i in range(60)])
    data = {m: 0.5 + (noise + a * (1 - parts) + b * parts) for m, (a, b) in changes.items()}
    return pl.DataFrame({"query": range(60), "part": ["x", "y"] * 30, **data})


@few(1)(("changes", "words"), [
    ({"AP": (0.1, 0.1), "RR": (-0.1, -0.1)}, "+0.10 AP overall, but -0.10 RR overall"),
    ({"AP": (0.1, 0.1), "RR": (0.1, -0.1)},
     "+0.10 AP overall, but -0.10 RR for part=y (30 queries)"),
    ({"AP": (0.3, -0.1), "RR": (-0.1, -0.1)},
     "+0.10 AP overall, but -0.10 for part=y (30 queries) and -0.10 RR overall"),
    ({"RMSE": (-0.1, -0.1)},
     "Yes: -0.10 RMSE overall (lower is better) and nowhere significantly worse"),
    ({"RMSE": (0.1, 0.1)}, "No: +0.10 RMSE overall (lower is better)"),
    ({"AP": (0.3, -0.1), "RR": (-0.1, -0.1), "P@5": (-0.1, 0.3)},
     "but -0.10 for part=y (30 queries), -0.10 RR overall and 1 more"),
])  # fmt: skip
def test_the_first_metric_comes_first_and_others_are_named(changes, words):
    flat = table(**dict.fromkeys(changes, (0, 0))).with_columns(
        pl.lit(0.5).alias(m) for m in changes
    )
    runs = {"old": flat, "new": table(**changes)}
    title = compare_values(runs, by="part", metrics=[*changes]).title
    assert title.endswith(words)


def lead(higher=True, **means):
    """The title of systems whose values of 20 queries have these means and some noise."""
    rng = np.random.default_rng(1)
    frames = {
        name: pl.DataFrame({"query": range(20), "own": mean + 0.02 * rng.standard_normal(20)})
        for name, mean in means.items() if name != "baseline"
    }  # fmt: skip
    options = {"higher_is_better": higher, "baseline": means.get("baseline")}
    return compare_values(frames, metrics="own", **options).title


def test_of_several_systems_the_leader_is_named():
    assert lead(a=1, b=2, c=3).endswith("), significantly better than a and b")
    assert lead(a=1, b=2, c=3).startswith("c leads on own (2.997)")
    title = lead(a=1, b=3, c=3.001)
    assert title.startswith(("b leads", "c leads"))
    assert title.split(", significantly better than ")[1].startswith("a, not significantly better")
    assert lead(higher=False, a=1, b=2, c=3).startswith("a leads on own (1.001)")
    many = lead(**{f"s{i}": i for i in range(8)})
    assert many.startswith("s7 leads") and many.endswith("significantly better than 7 systems")


def test_tied_and_untested_systems():
    """Equal values of a metric with a known range are tested, those of another are not."""
    same = pl.DataFrame({"query": range(20), "AP": [0.5, 0.7] * 10})
    assert compare_values(dict.fromkeys("abc", same)).title == "a, b and c are tied on AP (0.600)"
    none = same.with_columns(AP=pl.lit(None, pl.Float64))
    alone = compare_values({"a": same, "b": none, "c": none})
    assert alone.title == "a leads on AP (0.600), not tested"
    assert compare_values({"a": none, "b": none}).title == "No metric is defined on these queries"


def test_limits_are_for_the_new_system():
    for systems, options, limit, outcome in (
        (("old", "flat"), {}, "AP:0.05", "passed"),
        (("old", "flat"), {}, {"AP": 0.000001}, "inconclusive"),
        (("old", "mixed"), {}, "AP:0.05", "failed"),
        (("flat", "old"), {"baseline": "old"}, "AP:0.05", "passed"),
    ):
        compared = compare(*systems, **options)
        verdict = gate_comparison(compared, limit)
        assert verdict.outcome == outcome
        assert verdict.table["slice"].to_list() == ["all", "part=a", "part=b"]
    with pytest.raises(rankql.RankqlError, match="max_drop= needs two systems"):
        gate_comparison(compare("old", "down", "up"), "AP:0.05")
    with pytest.raises(rankql.RankqlError, match="RR"):
        gate_comparison(compare("old", "up"), "RR:0.1")


@pytest.mark.report
def test_the_report_has_the_table_of_the_gate(tmp_path):
    for limit, words in ((None, ""), ("AP:0.05", "Gate failed: 1 of 3 checks")):
        compared = compare("old", "mixed")
        compared.save(tmp_path / "page.html", max_drop=limit)
        page = (tmp_path / "page.html").read_text("utf-8")
        assert page.index("Is mixed better than old? No: ") < page.index(words or "<nav")
        assert ("AP drop &lt;= 0.05" in page) == (limit is not None)


def test_a_judge_corrects_the_comparison():
    """The corrected interval decides, where that of people alone does not."""
    run, human, judge, _ = judged_runs.simulated()
    noise = pl.Series(np.random.default_rng(9).normal(0, 2, run.height))
    runs = {"old": run.with_columns(pl.col("score") + noise), "new": run}
    alone, both = (
        rankql.compare(runs, qrels=human, metrics="nDCG@5", judge=x) for x in (None, judge)
    )
    ends = [-x.pairs["lo"][0] for x in (both, alone)]
    limit = f"nDCG@5:{sum(ends) / 2:.4f}"
    assert ends[0] < ends[1]
    outcomes = [gate_comparison(x, limit).outcome for x in (both, alone)]
    assert outcomes == ["passed", "inconclusive"]
    assert any("weight of the judge for its difference" in note for note in both.notes)
    spec = charts.draw_differences(both, "nDCG@5", "old", "new")
    assert "60 human queries, not corrected" in str(spec)
    assert "(human labels, not corrected)" in str(spec)
