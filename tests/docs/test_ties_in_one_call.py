"""The least, the expected and the highest value of ties in one call, as the pages have them."""

import random

import polars as pl
import pytest

import rankql
from support.parameters import few
from support.paths import ROOT

GRADE = "coalesce(rel, 0)::DOUBLE"
ITEMS = {
    "worst": f"format('{{:010.4f}} {{}}', 9999 - {GRADE}, item)",
    "expected": "item",
    "best": f"format('{{:010.4f}} {{}}', {GRADE}, item)",
}
METRICS = {
    "nDCG@3": "ndcg_by_score(rel, score, {}, 3{})",
    "DCG@5": "dcg_by_score(rel, score, {}, 5{})",
    "AP@4": "ap_by_score(rel, score, {}, 4{})",
    "RR": "rr_by_score(rel, score, {}{})",
    "P@2": "precision_at_by_score(rel, score, {}, 2{})",
    "R@3": "recall_at_by_score(rel, score, {}, 3{})",
    "Success@1": "hit_at_by_score(rel, score, {}, 1{})",
    "RBP(p=0.8)": "rbp_by_score(rel, score, {}, p := 0.8{})",
}


def data(seed, fractions):
    """A run of few scores and judgments, of which some items are not retrieved or not judged."""
    rng = random.Random(seed)
    grades = [0, 0, 1, 2, 3, 0.5 if fractions else 1, 2.25 if fractions else 2]
    run = {f"q{i}": {f"d{j}": rng.choice([1.0, 2, 3]) for j in range(9)} for i in range(12)}
    judged = [
        (q, f"d{j}", rng.choice(grades)) for q in run for j in range(11) if rng.random() < 0.7
    ]
    qrels = pl.DataFrame(judged, schema=["query", "item", "rel"], orient="row", strict=False)
    return run, qrels


def test_the_pages_have_these_texts():
    for page, names in (("queries", ("low_first", "high_first")), ("trust", ())):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for item in (ITEMS["worst"], ITEMS["best"]):
            assert item in text
        assert all(text.count(name) > 1 for name in names)


@few(2)("fractions", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_one_call_equals_three(metric, fractions):
    run, qrels = data(3, fractions)
    options = {"interval": None, "threshold": 1}
    own = {
        ties: METRICS[metric].format(item, ", ties := 'expected'" * (ties == "expected"))
        for ties, item in ITEMS.items()
    }
    result = rankql.evaluate(run, qrels, own, **options).per_query.sort("query")
    values = []
    for ties in ITEMS:
        single = rankql.evaluate(run, qrels, metric, ties=ties, **options).per_query.sort("query")
        one, other = result[ties].to_list(), single.to_series(-1).to_list()
        assert one == pytest.approx(other, abs=1e-12)
        values.append(single.to_series(-1).mean())
    assert values == sorted(values) and values[0] < values[2]
