"""Metrics of which neither a higher nor a lower value is better decide nothing."""

import numpy as np
import polars as pl
import pytest

import rankql


@pytest.fixture(scope="module")
def recommended():
    """Two recommenders of 60 users: the second hits more often and shows less popular items."""
    rng = np.random.default_rng(3)
    runs = {}
    for name, skill in (("old", 0.0), ("new", 0.5), ("third", 0.7)):
        order = np.argsort(-skill * (np.arange(12) < 2) - rng.random((60, 12)), axis=1)
        rows = [(u, int(i), p) for u, items in enumerate(order) for p, i in enumerate(items, 1)]
        runs[name] = pl.DataFrame(rows, ["user", "item", "pos"], orient="row")
    test = pl.DataFrame({"user": range(60), "item": [u % 2 for u in range(60)]})
    train = [(u, i) for u in range(60) for i in range(12) if rng.random() < (i + 1) / 14]
    return runs, test, pl.DataFrame(train, ["user", "item"], orient="row")


def compare_recommended(recommended, metrics, names=("old", "new"), **options):
    runs, test, train = recommended
    return rankql.compare({n: runs[n] for n in names}, test, metrics, train=train, **options)


def test_a_metric_without_a_direction_decides_nothing(recommended):
    """It keeps the difference and the interval, without p, verdict, bold, and Holm."""
    alone = compare_recommended(recommended, "nDCG@3")
    expected = compare_recommended(
        recommended, "Popularity@3", higher_is_better={"Popularity@3": True})  # fmt: skip
    both = compare_recommended(recommended, ["Popularity@3", "nDCG@3"])
    row, ndcg = both.pairs.to_dicts()
    assert row["verdict"] == "no direction" and row["p"] is None and row["p_adjusted"] is None
    assert row["lo"] < row["difference"] < row["hi"] < 0
    assert [row["lo"], row["hi"]] == pytest.approx(expected.pairs["lo", "hi"].row(0))
    assert ndcg["p_adjusted"] == alone.pairs["p_adjusted"][0]
    assert ndcg["hi"] == alone.pairs["hi"][0]
    assert "Popularity" not in both.title
    assert both.title.startswith("Is new better than old? Yes: +") and "nDCG@3" in both.title
    assert both.to_latex().count("textbf") <= 1 and "textbf{27" not in both.wide().to_latex()


def test_a_direction_of_the_caller_gives_a_verdict(recommended):
    metrics = ["nDCG@3", "Popularity@3"]
    for higher, verdict in ((True, "worse"), (False, "better")):
        result = compare_recommended(
            recommended, metrics, higher_is_better={"Popularity@3": higher})  # fmt: skip
        row = result.pairs.filter(metric="Popularity@3").row(0, named=True)
        assert row["verdict"] == verdict and row["p"] < row["p_adjusted"] < 0.05
        assert result.title.startswith(f"Is new better than old? {'No' if higher else 'Yes'}")


def test_metrics_without_a_direction_of_more_systems(recommended):
    names = ("old", "new", "third")
    both = compare_recommended(recommended, ["Popularity@3", "nDCG@3"], names)
    assert "Popularity" not in both.title and "nDCG@3" in both.title
    assert both.leaderboard()["metric"].unique().to_list() == ["nDCG@3"]
    wide = rankql.evaluate(*recommended[:2], ["Popularity@3", "nDCG@3"], train=recommended[2])
    assert wide.wide().to_markdown().count("**") == 2 and "Popularity" not in wide.title
    alone = compare_recommended(recommended, "Popularity@3")
    assert alone.title == "No metric says whether higher or lower is better"


def test_other_metrics_without_a_direction(recommended):
    metrics = ["NumRet", "IDCG", "IDCG@5", "NumRel", "Repeats@3"]
    pairs = compare_recommended(recommended, [*metrics, "P@1"]).pairs
    verdicts = dict(pairs["metric", "verdict"].rows())
    assert {name for name, verdict in verdicts.items() if verdict == "no direction"} == {*metrics}


def test_a_gate_holds_a_metric_without_a_direction_only_to_a_limit_of_its_own(recommended):
    runs, test, train = recommended
    old = rankql.evaluate(runs["old"], test, "Popularity@3", train=train)
    new = rankql.evaluate(runs["new"], test, "Popularity@3", train=train)
    assert rankql.gate(new, minimum=["Popularity@3>=1"]).passed
    assert rankql.gate(new, baseline=old, max_drop=["Popularity@3:0.1"]).outcome == "failed"
    with pytest.raises(rankql.RankqlError, match=r"^Nothing to check"):
        rankql.gate(new, baseline=old)


@pytest.mark.report
def test_runs_without_a_hit_have_a_popularity(recommended, tmp_path):
    """It reads no grades, so the judgments only say which users count; serendipity reads them."""
    runs, test, train = recommended
    test = test.with_columns(item=99)
    old, new = runs["old"], runs["new"]
    result = rankql.compare([old, new], test, "Popularity@3", train=train)
    assert result.pairs["n"].item() == 60 and result.pairs["difference"].item() < 0
    assert not rankql.gate(new, test, old, max_drop="Popularity@3:0.1", train=train)
    result.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Not shown" not in page and "Largest losses" not in page
    with pytest.raises(rankql.RankqlError, match=r"^No item of run .* is judged"):
        rankql.compare([old, new], test, ["Popularity@3", "Serendipity@3"], train=train)
