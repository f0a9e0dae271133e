"""Which calls say what the numbers and texts beside judgments without grades are."""

import polars as pl
import pytest

import rankql
from support.reading import asked

RUN = pl.DataFrame(
    [(u, f"p{u}{i}", 1.0 - i / 10) for u in range(12) for i in range(6)],
    ["user", "item", "score"],
    orient="row",
)


def judged(name, *values):
    """Two items of each user, with these values in turns."""
    pairs = [(u, f"p{u}{i}") for u in range(12) for i in (1, 4)]
    return pl.DataFrame(
        [(u, x, values[n % len(values)]) for n, (u, x) in enumerate(pairs)],
        ["user", "item", name], orient="row",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "first"),
    [
        ("units", (1, 1, 2, 1, 3), "1"),
        ("portions", (1, 1, 1, 2), "1"),
        ("euros", (9.5, 3.2, 7.77, 12.1), "1"),
        ("seconds_watched", (31, 4000, 250, 17, 88, 1200, 640, 51, 90, 33, 47, 12), "1"),
        ("usefulness", (1, 4, 2, 3), "usefulness"),
        ("usefulness", (0, 3, 1, 2), "usefulness"),
        ("fit", (None, 1, 2), "fit"),
        ("taste", (1, -1, 2), "taste"),
    ],
)
def test_every_item_is_relevant_unless_a_number_may_be_a_grade(name, values, first):
    question = asked(RUN, judged(name, *values), "nDCG@10")
    offered = [call["rel"] for call in question.calls]
    assert offered[0] == first and {*offered} == {name, "1"}


def test_texts_with_another_value_in_most_rows_are_no_grades():
    """Days and names of people, but not a few words."""
    days = [f"2026-03-{n:02}" for n in range(1, 25)]
    for values in (days, [f"shopper {x}" for x in range(24)]):
        result = rankql.evaluate(RUN, judged("noted", *values), "RR")
        assert result["RR"] == 0.5
    asked(RUN, judged("noted", "poor", "good", "fair"), "RR", match="noted")


@pytest.mark.parametrize("name", ["expected_doc_id", "source_file", "answer"])
@pytest.mark.parametrize("kind", [str, int])
def test_ids_of_the_run_beside_an_id_are_the_judged_items(name, kind):
    """The second of each list is right."""
    ids = [[kind(10 * q + i) for i in range(1, 4)] for q in range(12)]
    run = pl.DataFrame({"id": [f"q{q}" for q in range(12)], "retrieved_ids": ids})
    gold = pl.DataFrame({"id": run["id"], "question": [f"what is {q}?" for q in range(12)],
                         name: [x[1] for x in ids]})  # fmt: skip
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(run, gold, "RR")
    call = error.value.calls[0]
    assert call["item"] == ["retrieved_ids", name]
    assert rankql.evaluate(run, gold, "RR", **call)["RR"] == 0.5


def test_stars_beside_movies_with_small_numbers_are_grades():
    run = RUN.with_columns(item=pl.int_range(pl.len()) % 6 + 1)
    gold = pl.DataFrame({"user": [u for u in range(12) for _ in (1, 2)],
                         "item": [2, 5] * 12, "stars": [1, 5, 3, 2] * 6})  # fmt: skip
    question = asked(run, gold, "nDCG@10")
    assert question.calls[0] == {"rel": "stars"}
