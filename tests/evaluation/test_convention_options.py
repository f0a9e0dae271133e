"""Conventions: ties, unjudged items, missing and undefined queries, gains and bounds."""

import dataclasses
import itertools
import math
import re

import polars as pl
import pytest
import pytrec_eval

import rankql
from rankql.registry.conventions import CHOICES, PROFILES, choose
from support.random_runs import EXPECTED, QRELS, RUN, same


def test_undefined_and_missing():
    first = rankql.evaluate(RUN, QRELS, ["AP", "P@5"], interval=None)
    rows = first.summary.row(0, named=True)
    values = EXPECTED["AP"]
    assert rows["undefined"] == values.null_count() > 0
    missing = set(QRELS["query"]) - set(RUN["query"])
    assert rows["missing"] == len(missing)
    zero = rankql.evaluate(RUN, QRELS, ["AP", "P@5"], undefined=0)
    assert zero["AP"] == pytest.approx(values.fill_null(0).mean())
    kept = EXPECTED.filter(~pl.col("query").is_in(list(missing)))["AP"].mean()
    assert rankql.evaluate(RUN, QRELS, "AP", missing="skip")["AP"] == pytest.approx(kept)
    for option in ("undefined", "missing"):
        with pytest.raises(rankql.RankqlError, match=rf"{option}='error'"):
            rankql.evaluate(RUN, QRELS, "AP", **{option: "error"})


def test_ties_lie_between_worst_and_best():
    means = {
        ties: rankql.evaluate(RUN, QRELS, ["nDCG@5", "RR", "P@3"], ties=ties)
        for ties in ("worst", "item", "expected", "best")
    }
    for metric in ("nDCG@5", "RR", "P@3"):
        worst, item, expected, best = (means[ties][metric] for ties in means)
        assert worst < expected < best
        assert worst <= item <= best


def test_best_and_worst_of_unjudged_and_grade_0():
    """Judged items of grade 0 and unjudged ones differ where a threshold of 0 makes them."""
    run = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "z"], "score": [1, 1]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["a"], "rel": [0]})
    for ties, value in (("best", 1.0), ("worst", 0.5)):
        made = rankql.evaluate(run, qrels, ["RR(rel=0)", "Judged@1"], ties=ties)
        assert made["RR(rel=0)"] == value and made["Judged@1"] == float(ties == "best")


def test_bounds_with_a_gain():
    """By hand: x of grade 2 stands second, below an unjudged item that could be worth 0, 1 or 2."""
    ranked = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 2], "pos": [1, 2]})
    second = 1 / math.log2(3)
    for gain, low, high in (("linear", second, 1), ("exp2", second, 1), ("binary", second, 1)):
        made = rankql.evaluate(ranked, metrics="nDCG", gain=gain, unjudged="bounds", threshold=2)
        assert made["nDCG low"] == pytest.approx(low) and made["nDCG high"] == pytest.approx(high)
    alone = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 1], "pos": [1, 2]})
    made = rankql.evaluate(alone, metrics="nDCG", gain="binary", unjudged="bounds", levels=[0, 2])
    assert made["nDCG low"] == pytest.approx(second) and made["nDCG high"] == pytest.approx(1)
    made = rankql.evaluate(
        ranked, metrics="DCG", gain="binary", unjudged="bounds", levels=[0, 1], threshold=2
    )
    assert made["DCG low"] == made["DCG high"] == pytest.approx(second)
    made = rankql.evaluate(
        ranked, metrics="DCG", gain="binary", unjudged="bounds", levels=[2], threshold=2
    )
    assert (made["DCG low"], made["DCG high"]) == pytest.approx((second, 1 + second))


def test_levels_belong_to_the_scale():
    """By hand: grade 2 stands second, below an unjudged item whose grade could be up to 5."""
    ranked = pl.DataFrame({"query": ["q"] * 2, "rel": [None, 2], "pos": [1, 2]})
    bounds = {"unjudged": "bounds", "levels": [0, 5], "interval": None}
    made = rankql.evaluate(ranked, metrics="ERR", **bounds)
    second = 3 / 32 / 2
    assert made.meta.conventions["max_rel"] == 5
    assert (made["ERR low"], made["ERR high"]) == pytest.approx((second, 31 / 32 + second / 32))
    refused = {
        "ERR(max_rel=3)": "max_rel=3 is below the highest grade, 5",
        "RBP(p=0.8, max_rel=3)": "max_rel=3 is below the highest grade, 5",
        "ERR(stop=rel)": "rel must lie between 0 and 1 for stop 'rel', not 5",
        "nDCG(gain=exp2)": "overflows for grade 1001",
    }
    ranked = ranked.with_columns(pl.col("rel") / 2)
    for metric, message in refused.items():
        bounds["levels"] = [0, 1001 if "exp2" in metric else 5]
        with pytest.raises(rankql.RankqlError, match=message):
            rankql.evaluate(ranked, metrics=metric, **bounds)


def test_gain_by_dict_and_by_name():
    exp2 = rankql.evaluate(RUN, QRELS, "nDCG@10", gain="exp2")
    same = rankql.evaluate(RUN, QRELS, "nDCG@10", gain={0: 0, 1: 1, 2: 3, 3: 7})
    inside = rankql.evaluate(
        RUN, QRELS, ["nDCG(gain=exp2)@10", "x = ndcg(exp2_gain(rel), pos, 10)"]
    )
    for value in (same["nDCG@10"], inside["nDCG(gain=exp2)@10"], inside["x"]):
        assert value == pytest.approx(exp2["nDCG@10"], abs=1e-12)
    with pytest.raises(rankql.RankqlError, match="gain has no entry for grade"):
        rankql.evaluate(RUN, QRELS, "nDCG@10", gain={0: 0, 1: 1})


def test_discounts_of_a_boosted_slot():
    ranked = pl.DataFrame({"query": ["q"] * 3, "rel": [1, 0, 3], "pos": [1, 2, 3]})
    made = rankql.evaluate(ranked, metrics=["DCG@3"], discounts=[0.8, 1.5, 2])
    assert made["DCG@3"] == pytest.approx(1 / 0.8 + 3 / 2)


def test_removed_unjudged_items_close_up():
    ranked = pl.DataFrame({"query": ["q"] * 3, "rel": [None, 0, 3], "pos": [1, 2, 3]})
    assert rankql.evaluate(ranked, metrics="RR")["RR"] == pytest.approx(1 / 3)
    assert rankql.evaluate(ranked, metrics="RR", unjudged="remove")["RR"] == pytest.approx(1 / 2)


def test_bounds_hold_whatever_the_judgments():
    """However the unjudged items of the run are judged, the value lies between low and high."""
    metrics = [
        "nDCG@5",
        "AP",
        "RR@5",
        "P@3",
        "R@5",
        "ERR@5",
        "RBP(p=0.8)",
        "F1@5",
    ]
    run = RUN.group_by("query", maintain_order=True).head(5)
    made = rankql.evaluate(run, QRELS, metrics, unjudged="bounds")
    assert list(made)[:3] == ["nDCG@5", "nDCG@5 low", "nDCG@5 high"]
    open_ = run.join(QRELS, on=["query", "item"], how="anti").select("query", "item")
    open_ = open_.filter(pl.col("query").is_in(QRELS["query"].unique().to_list()))
    reached = set()
    for grades in (0, 3, *range(10, 22)):
        rel = pl.lit(grades) if grades < 10 else (pl.struct("query", "item").hash(grades) % 4)
        judged = pl.concat([QRELS, open_.with_columns(rel.cast(pl.Int64).alias("rel"))])
        fixed = ["ERR(max_rel=3)@5" if m == "ERR@5" else m for m in metrics]
        values = rankql.evaluate(run, judged, fixed).per_query
        for name, column in zip(metrics, fixed, strict=True):
            pair = made.per_query.join(values, on="query", suffix=" now")
            now = pair[f"{column} now" if f"{column} now" in pair.columns else column]
            low, high = pair[f"{name} low"], pair[f"{name} high"]
            assert ((now < low - 1e-12) | (now > high + 1e-12)).sum() == 0, name
            reached |= {
                (name, side)
                for side, end in (("low", low), ("high", high))
                if ((now - end).abs() < 1e-12).any()
            }
    assert len(reached) == 2 * len(metrics)
    for metric in ("TauB", "Judged@5", "Bpref", "Rprec", "x = sum(rel)", "microR@5"):
        with pytest.raises(rankql.RankqlError, match="unjudged='bounds' is not available for"):
            rankql.evaluate(RUN, QRELS, metric, unjudged="bounds")


def test_bounds_look_below_the_cutoff():
    """An unjudged item beyond k would still be one more relevant item."""
    run = pl.DataFrame({"query": ["q"] * 3, "item": ["e", "f", "g"], "score": [3, 2, 1]})
    qrels = pl.DataFrame({"query": ["q"], "item": ["e"], "rel": [3]})
    made = rankql.evaluate(run, qrels, ["R@1", "F1@1"], unjudged="bounds")
    assert made["R@1 low"] == pytest.approx(1 / 3) and made["F1@1 low"] == 0.5


def test_queries_without_grades_are_left_out_of_ranked_tables_too():
    run = pl.DataFrame({
        "query": ["a", "a", "b", "b", "c"], "item": ["x", "y", "x", "y", "x"],
        "score": [3.0, 2, 2, 1, 1],
    })  # fmt: skip
    qrels = pl.DataFrame({"query": ["a", "c", "c"], "item": ["y", "x", "y"], "rel": [1, -1, 2]})
    ranked = run.join(qrels, on=["query", "item"], how="full", coalesce=True)
    metrics = ["P@2", "AP", "Judged@2", "RBP(p=.5)", "nDCG@5", "RR"]
    for options in ({}, {"unjudged": "remove"}, {"conventions": "trec_eval"}, {"ties": "expected"}):
        two = rankql.evaluate(run, qrels, metrics, **options)
        one = rankql.evaluate(ranked, metrics=metrics, **options)
        same(one.per_query, two.per_query)
        assert one.per_query["query"].to_list() == ["a", "c"]
        assert one.notes[0] == two.notes[0]
        assert "1 of 3 queries" in one.notes[0]
    with pytest.raises(rankql.RankqlError, match="every grade is NULL"):
        rankql.evaluate(ranked.filter(query="b"), metrics=metrics)


def test_a_system_without_judged_items_counts_in_judged_queries():
    ranked = pl.DataFrame({
        "system": ["m", "m", "n", "n"], "query": ["a", "b", "a", "b"], "item": ["x", "x", "y", "y"],
        "rel": [1, None, None, None], "pos": [1, 1, 1, 1],
    })  # fmt: skip
    for options in ({}, {"unjudged": "remove"}):
        made = rankql.evaluate(ranked, metrics=["P@1"], system="system", **options).per_query
        assert made.rows() == [("m", "a", 1.0), ("n", "a", 0.0)]


@pytest.mark.parametrize("alone", [True, False])
def test_unjudged_items_are_removed_but_gaps_stay(alone):
    """Only positions below a removed item move up, by the number of items removed above."""
    rows = pl.DataFrame({
        "query": ["a"] * 5, "item": [*"uvwxy"], "rel": [None, 0, None, 1, 2],
        "pos": [2, 4, 5, 7, 9],
    })  # fmt: skip
    run = rows if alone else rows.drop("rel")
    qrels = None if alone else rows.drop("pos").drop_nulls()
    made = rankql.evaluate(run, qrels, ["RR", "RR(rel=2)", "Judged@3"], unjudged="remove")
    assert made.per_query.row(0)[1:] == (1 / 5, 1 / 7, 1 / 3)


def test_a_query_with_negative_judgments_alone_counts_0_as_in_trec_eval():
    run = {"a": {"x": 2.0, "y": 1.0}, "b": {"x": 2.0, "y": 1.0}}
    qrels = {"a": {"x": 1, "y": -1}, "b": {"x": -1, "y": -2}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "P_5", "ndcg"}).evaluate(run)
    made = rankql.evaluate(run, qrels, ["map", "P_5", "ndcg"], conventions="trec_eval")
    assert made.per_query.fill_null(0).rows() == [(q, *theirs[q].values()) for q in run]
    assert made.summary["queries"].to_list() == [2] * 3
    assert not made.notes


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["Judged@1", "Judged@2", "RBPres(p=.5)"])
def test_best_and_worst_orders_of_negative_grades_are_extreme(metric):
    items = {"x": -1, "y": None, "z": 0, "w": 1, "v": None}
    qrels = {"a": {item: rel for item, rel in items.items() if rel is not None}}
    values = [
        rankql.evaluate({"a": {x: -i for i, x in enumerate(order)}}, qrels, metric).summary["mean"][
            0
        ]
        for order in itertools.permutations(items)
    ]
    tied = {"a": dict.fromkeys(items, 1)}
    best, worst = (
        rankql.evaluate(tied, qrels, metric, ties=ties).summary["mean"][0]
        for ties in ("best", "worst")
    )
    assert sorted([best, worst]) == pytest.approx([min(values), max(values)])
    with pytest.raises(rankql.RankqlError, match="below 0"):
        rankql.evaluate(tied, qrels, [metric, "nDCG"], ties="best")
    assert rankql.evaluate(tied, qrels, [metric, "nDCG"], ties="best", negative="unjudged")


def test_every_choice_is_understood():
    for option, choices in CHOICES.items():
        for choice in choices:
            assert getattr(choose(None, {option: choice}), option) == choice
    for field in dataclasses.fields(rankql.Conventions)[1:]:
        assert re.search(rf"^    {field.name} : ", rankql.Conventions.__doc__, re.M), field
    for choice in {choice for choices in CHOICES.values() for choice in choices}:
        assert f"'{choice}'" in rankql.Conventions.__doc__
    assert set(PROFILES) == {
        *("rankql", "trec_eval", "trec_eval_10", "sklearn", "ranx", "recbole", "spark"),
        *("mlflow", "opensearch", "elasticsearch"),
    }
