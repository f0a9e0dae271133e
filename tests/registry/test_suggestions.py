"""Errors about unknown names suggest what people meant."""

import polars as pl
import pytest

import rankql

ROWS = pl.DataFrame({"query": [1, 1], "item": [1, 2], "rel": [1, 0], "score": [2.0, 1.0]})
RUN, QRELS = ROWS.drop("rel"), ROWS.drop("score")
SESSIONS = {"session_id": [1, 1, 2], "user_id": 1, "item": [1, 1, 2], "rel": 1, "pos": [1, 2, 1]}


def evaluate(metric="AP", **options):
    return rankql.evaluate(RUN, QRELS, [metric], **options)


def compare(**options):
    return rankql.compare({"a": RUN, "b": RUN}, QRELS, ["AP"], **options)


@pytest.mark.parametrize(
    ("call", "suggestion"),
    [
        *((lambda task=task: task(attribute="x"), "'attributes'") for task in (evaluate, compare)),
        *((lambda task=task: task(k=10), "nDCG@10") for task in (evaluate, compare)),
        (lambda: evaluate("coverage@10"), "needs the items that could be shown. Pass train="),
        (lambda: evaluate("cosine_diversity"), r"Call cosine_diversity\(\) in SQL"),
        (lambda: evaluate(score="score + 1", by="zzz"), r"Available: query, item, rel, score$"),
        (lambda: rankql.gate(QRELS, RUN, minimum="AP>=0.1"), "The run comes first"),
    ],
)
def test_an_unknown_name_suggests_what_to_write(call, suggestion):
    with pytest.raises(rankql.RankqlError, match=suggestion):
        call()


@pytest.mark.parametrize(
    "metric",
    ["R_cap@10", "microRMSE", "hit rate", "hit rate@10", "personalization", "Personalisation@10"],
)
def test_names_that_people_use_are_metrics(metric):
    assert evaluate(metric).metrics == [metric]


def test_metrics_of_all_lists_by_name():
    """Their cutoff is of the lists. The user's own may have the name too."""
    names = ["personalization@1,2", {"personalisation": "1 - personalisation(query, item)"}]
    run = pl.DataFrame({"query": [1, 1, 2, 2], "item": [1, 2, 1, 3], "rel": 1, "pos": [1, 2, 1, 2]})
    result = rankql.evaluate(run, metrics=names)
    values = {"personalization@1": 0, "personalization@2": 0.5, "personalisation": 0.5}
    assert {name: result[name] for name in result} == values
    for name in ("personalization@0", "personalization(p=1)", "gini@10"):
        with pytest.raises(rankql.RankqlError):
            rankql.evaluate(run, metrics=name)


@pytest.mark.parametrize(("key", "suggested"), [("user_id", True), ("session_id", False)])
def test_duplicates_never_suggest_a_coarser_key(key, suggested):
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(pl.DataFrame(SESSIONS), metrics=["AP"], query=key)
    assert ("queries: query=" in str(error.value)) is suggested
