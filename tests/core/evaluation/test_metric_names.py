"""Names of metrics in `evaluate`."""

import tomllib

import polars as pl
import pytest

import rankql
from rankql.core.metrics import parse as names
from rankql.core.metrics.conventions import choose
from support.paths import ROOT
from support.samples import QRELS, RUN

NAMES = tomllib.loads((ROOT / "tests" / "cases" / "metric_names.toml").read_text("utf-8"))


@pytest.mark.parametrize(("name", "canonical"), NAMES.items())
def test_names(name, canonical):
    under = [metric.under(vars(choose({}))).canonical for metric in names.parse(name)]
    assert under == canonical
    if canonical != ["mine"]:  # which is a label, not a name
        assert [metric.canonical for x in under for metric in names.parse(x)] == under


def test_names_that_mean_something_in_ranx_alone():
    """rbp.8 and hits are names under its profile; others have an error that says what to write."""
    values = rankql.evaluate(RUN, QRELS, ["rbp.8", "hits"], conventions="ranx")
    assert [*values] == ["RBP(p=0.8)", "NumRelRet"]
    with pytest.raises(rankql.RankqlError, match=r"'rbp.8' is a name of ranx: write RBP"):
        rankql.evaluate(RUN, QRELS, "rbp.8")
    for name in ("hits", "hits@10"):
        with pytest.raises(rankql.RankqlError, match=r"Success@10; in ranx, NumRelRet"):
            rankql.evaluate(RUN, QRELS, name)
    assert [*rankql.evaluate(RUN, QRELS, "hits = count(pos)")] == ["hits"]


def test_a_function_by_the_name_of_a_metric_says_how_it_is_called():
    with pytest.raises(AttributeError, match=r"rankql has no 'mrr'. Use rankql.rr"):
        rankql.mrr  # noqa: B018
    with pytest.raises(AttributeError, match=r"Use rankql.rr_by_score$"):
        rankql.mrr_by_score  # noqa: B018
    with pytest.raises(AttributeError, match=r"Use rankql.ap_by_score$"):
        rankql.map_by_score  # noqa: B018


def test_accuracy_at_1_is_precision_at_1():
    with pytest.raises(rankql.RankqlError, match=r"The closest in rankql: P@1$"):
        rankql.evaluate(RUN, QRELS, "Acc@1")


def test_names_of_trec_eval_keep_their_meaning():
    """map_cut_10 divides by R in all conventions; under those of trec_eval it is AP@10."""
    result = rankql.evaluate(RUN, QRELS, ["map_cut_3", "AP@3"])
    assert result.meta.canonical == {"map_cut_3": "AP(denominator=R)@3"}
    assert result["map_cut_3"] != result["AP@3"]
    profile = rankql.evaluate(RUN, QRELS, "map_cut_3", conventions="trec_eval")
    assert profile.meta.canonical == {"map_cut_3": "AP@3"}
    # Without a cutoff, min and R are the same; found is not.
    every = ["AP", "AP(denominator=min)", "AP(denominator=R)", "AP(denominator=found)"]
    assert list(rankql.evaluate(RUN, QRELS, every)) == ["AP", "AP(denominator=found)"]
    linear = rankql.evaluate(RUN, QRELS, "ndcg_cut_5", gain="exp2")
    assert linear.meta.canonical == {"ndcg_cut_5": "nDCG(gain=linear)@5"}
    assert linear["ndcg_cut_5"] == rankql.evaluate(RUN, QRELS, "nDCG@5")["nDCG@5"]


def test_results_keep_the_names_that_were_asked_for_and_match_by_the_canonical_one(tmp_path):
    names, canonical = ["HR@3", "map", "mrr", "ndcg@3"], ["Success@3", "AP", "RR", "nDCG@3"]
    result, other = (rankql.evaluate(RUN, QRELS, each) for each in (names, canonical))
    assert result.metrics == names == result.per_query.columns[1:]
    assert [result[name] for name in canonical] == [other[name] for name in names]
    line, of_other = (
        next(x for x in each.remarks() if x.startswith("Conventions: ")) for each in (result, other)
    )
    assert "HR@3 = Success@3; map = AP; mrr = RR" in line and "nDCG" not in line
    assert "=" not in of_other
    paths = [tmp_path / "result.parquet", tmp_path / "other.parquet"]
    for each, path in zip((result, other), paths, strict=True):
        each.save_values(path)
    verdict = rankql.gate(paths[0], baseline=paths[1], max_drop=["RR:0.1", "hit@3:0"])
    assert {*verdict.table["metric"]} == {"mrr", "HR@3"}
    assert {*rankql.gate(paths[0], baseline=paths[1]).table["metric"]} == {*names}
    assert {*rankql.compare(paths).pairs["metric"]} == {*names}
    assert rankql.compare(paths[::-1], metrics="MRR").metrics == ["RR"]
    half = pl.col("query").hash() % 2 == 0
    parts = [(QRELS.filter(half), names), (QRELS.filter(~half), canonical)]
    combined = rankql.combine([rankql.evaluate(RUN, *part) for part in parts])
    assert combined.metrics == names


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("HR@10", 5, "HR@5"), ("HR@10", None, "HR"), ("ndcg_cut_10", 5, "ndcg_cut_5"),
        ("F1@10", None, "F1"), ("F1", 3, "F1@3"), ("P(rel=2, cutoff=5)", 3, "P(rel=2)@3"),
    ],
)  # fmt: skip
def test_another_cutoff(name, k, expected):
    (metric,) = names.parse(name)
    assert metric.at(k).name == expected


def test_discounts_in_the_name_of_a_metric():
    """Position 1 counts more: (2 / 0.8 + 3 / 2) / (3 / 0.8 + 2 / 2)."""
    ranked = pl.DataFrame({"query": 1, "item": ["a", "b"], "rel": [2, 3], "pos": [1, 2]})
    metrics = ["nDCG(discounts=[0.8, 2])@2", "ndcg(gain=exp2, discounts=[0.8,2])@1", "nDCG@2"]
    result = rankql.evaluate(ranked, metrics=metrics, interval=None)
    value = (2 / 0.8 + 3 / 2) / (3 / 0.8 + 2 / 2)
    assert [result[name] for name in metrics[:2]] == pytest.approx([value, 3 / 7])
    again = rankql.evaluate(ranked, metrics=result.metrics, interval=None)
    assert again.metrics == result.metrics and again["nDCG@2"] != pytest.approx(value)
    same = rankql.evaluate(ranked, metrics=[metrics[0], "nDCG@2"], discounts=[0.8, 2])
    assert same.metrics == metrics[:1] and same["nDCG@2"] == pytest.approx(value)
    for wrong in ("[0, 1]", "[a]", "x", "[1, inf]", "[1_0]"):
        with pytest.raises(rankql.RankqlError, match="discounts must be a list"):
            rankql.evaluate(ranked, metrics=f"nDCG(discounts={wrong})@2")


def test_a_label_with_an_equals_sign_is_refused():
    own = {"rel=3": "count(*) FILTER (rel = 3)"}
    with pytest.raises(rankql.RankqlError, match="'rel=3' of a metric contains '='"):
        rankql.evaluate({"a": ["x"]}, {"a": ["x"]}, [own])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nDCG@10,MRR", ["nDCG@10", "MRR"]),
        ("nDCG@5,10, AP", ["nDCG@5", "nDCG@10", "AP"]),
        ("P(rel=2)@5 ,R@5,20", ["P(rel=2)@5", "R@5", "R@20"]),
        ("x = coalesce(sum(rel), 0)", ["x"]),
        ("x = CASE WHEN true THEN 'a,b' <> 'c' END", ["x"]),
    ],
)
def test_commas_separate_metrics_and_cutoffs(text, expected):
    assert [metric.name for metric in names.parse(text)] == expected
    assert [metric.name for metric in names.parse([text])] == expected


@pytest.mark.parametrize("name", ["NDCG:top=3", "NDCG:top=3;type=Exp", "RR,NDCG:top=3"])
def test_a_name_of_catboost_is_not_an_expression(name):
    """It was read as label = SQL, with a mean of 3."""
    frame = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "b"], "rel": [1, 0], "score": [1, 2]})
    with pytest.raises(rankql.RankqlError, match="a name of CatBoost"):
        rankql.evaluate(frame, None, name)
    with pytest.raises(rankql.RankqlError, match="a name of CatBoost"):
        rankql.gate(frame, None, minimum=f"{name}>=0.5")


@pytest.mark.few(2)
@pytest.mark.parametrize("sql", ["10", "1 + 1", "pi()", "exp2_gain(3)"])
def test_an_expression_without_column_and_aggregate_is_refused(sql):
    frame = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "b"], "rel": [1, 0], "pos": [1, 2]})
    with pytest.raises(rankql.RankqlError, match="reads no column and has no aggregate"):
        rankql.evaluate(frame, None, f"k={sql}")
    assert rankql.evaluate(frame, None, ["n = count(*)", "top = max(rel) + 1"]).summary[
        "mean"
    ].to_list() == [2, 2]
