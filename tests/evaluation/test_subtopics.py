"""Metrics of diversity over judgments with one row per subtopic."""

import random

import polars as pl
import pyndeval
import pytest

import rankql
from support.parameters import cycled

NAMES = {
    "alpha_nDCG@5": "alpha-nDCG@5",
    "alpha_nDCG@10": "alpha-nDCG@10",
    "ERR_IA@5": "ERR-IA@5",
    "STREC@5": "strec@5",
}


def random_judgments(seed):
    """Judgments (query, subtopic, item, rel) and rows of a run, which lacks one query."""
    rng = random.Random(seed)
    items = [f"d{i}" for i in range(16)]
    judged = [
        (q, s, item, rng.choice([0, 1, 1]))
        for q in "abcd" for item in items[:12] for s in "1234" if rng.random() < 0.4
    ]  # fmt: skip
    run = [(q, item, rng.random()) for q in "abc" for item in rng.sample(items, 12)]
    return judged, run


def frames(judged, run):
    run = pl.DataFrame(run, schema=["query", "item", "score"], orient="row")
    return run, pl.DataFrame(judged, schema=["query", "subtopic", "item", "rel"], orient="row")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("seed", "form", "alpha"),
    cycled(range(1, 6), ["file", "frame", "lists", "positions"], [0.5, 0.3]),
)
def test_equal_to_pyndeval(seed, form, alpha, tmp_path):
    """Where the greedy ideal has no ties, which pyndeval breaks by name."""
    judged, rows = random_judgments(seed)
    run, qrels = frames(judged, rows)
    if form == "file":
        qrels = tmp_path / "diversity.qrels"
        qrels.write_text("".join(f"{q} {s} {item} {rel}\n" for q, s, item, rel in judged))
    elif form == "lists":
        relevant = pl.col("subtopic").filter(pl.col("rel") > 0).alias("subtopics")
        qrels = qrels.group_by("query", "item").agg(pl.max("rel"), relevant)
    elif form == "positions":
        run = run.select("query", "item", pos=pl.col("score").rank(descending=True).over("query"))
    theirs = pyndeval.ndeval(judged, rows, measures=[*NAMES.values()], alpha=alpha)
    names = [name if "STREC" in name else name.replace("@", f"(alpha={alpha})@") for name in NAMES]
    result = rankql.evaluate(run, qrels, names)
    values = {row["query"]: row for row in result.per_query.to_dicts()}
    assert values["d"]["STREC@5"] == 0  # judged, not retrieved
    for query, of_query in theirs.items():
        for name, other in zip(names, NAMES.values(), strict=True):
            ours = values[query][name]
            assert ours == pytest.approx(of_query[other], abs=2e-6), (query, name)


def test_beside_metrics_of_grades():
    """The grade of an item is its highest; intervals stay within the range of the metric."""
    run, qrels = frames(*random_judgments(1))
    result = rankql.evaluate(run, qrels, ["STREC@5", "P@5", "s = err_ia(subtopics, pos, 5)"])
    best = qrels.group_by("query", "item").agg(pl.max("rel"))
    assert result["P@5"] == rankql.evaluate(run, best, "P@5")["P@5"]
    assert result.summary["lo"][0] >= 0 and result.summary["hi"][0] <= 1
    assert 0 < result["s"] < 1
    assert any("subtopics are those of subtopic" in note for note in result.notes)


@pytest.mark.parametrize(
    ("metric", "columns", "message"),
    [
        ("alpha_nDCG@5", {}, "no subtopics"),
        ("STREC", {"iteration": "0"}, "no subtopics"),
        ("ERR_IA(alpha=0)@5", {"subtopic": "a"}, "alpha must be above 0"),
        ("STREC(alpha=0.5)@5", {"subtopic": "a"}, "no option 'alpha'"),
    ],
)
def test_refused(metric, columns, message):
    run, _ = frames(*random_judgments(1))
    qrels = pl.DataFrame({"query": ["a"], "item": ["d1"], "rel": [1], **columns})
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.evaluate(run, qrels, metric)
