"""What a comparison says of items of train, and the call that leaves them out of the judgments."""

import re

import polars as pl
import pytest

import rankql

LENT = pl.DataFrame(
    [(f"z{i % 20}", f"s{(i * i) % 37}", i) for i in range(600)],
    ["patron", "shelfmark", "lent"], orient="row",
)  # fmt: skip
NAMED = {"query": "patron", "item": "shelfmark"}


@pytest.mark.parametrize("since", [{"since": 400}, {"share": 0.3}])
def test_the_split_that_a_note_names_works_in_the_call_of_the_caller(since):
    """With the names that the evaluation was told, which time_split cannot know either."""
    split = rankql.time_split(LENT, **since, moment="lent")
    popular = rankql.most_popular(split, **NAMED)
    notes = "\n".join(rankql.evaluate(popular, split, "nDCG@10", rel="1", **NAMED).notes)
    call = re.search(r"out of the judgments: (time_split\(.*\))", notes)[1]
    call = call.replace("...", "LENT, **since, moment='lent'")
    again = eval(f"rankql.{call}", {"rankql": rankql, "LENT": LENT, "since": since})
    result = rankql.evaluate(
        rankql.most_popular(again, **NAMED), again, "nDCG@10", rel="1", **NAMED
    )
    assert not any("are in train" in x for x in result.notes)


def test_usual_names_are_left_out_of_the_call():
    log = LENT.rename({"patron": "user", "shelfmark": "item"})
    split = rankql.time_split(log, since=400, moment="lent")
    result = rankql.evaluate(rankql.most_popular(split), split, "nDCG@10", rel="1")
    assert any(x.endswith("time_split(..., seen='drop')") for x in result.notes)


@pytest.mark.parametrize("more", [1, 2])
def test_the_first_line_says_that_popular_items_leave_out_what_a_user_has(more):
    split = rankql.time_split(LENT, since=400, moment="lent")
    runs = {f"all{i}": rankql.most_popular(split, 10 + i, seen=None, **NAMED) for i in range(more)}
    runs["popular"] = rankql.most_popular(split, **NAMED)
    title = repr(rankql.compare(runs, split, "nDCG@10", rel="1", **NAMED)).splitlines()[0]
    assert "were seen in train and none of those of popular: pass seen='drop'" in title


@pytest.mark.parametrize(
    "item", [["tips.g", "g"], ["tips.g", "upper(g)"], ["list_transform(tips, lambda x: x.g)", "g"]]
)
def test_a_path_into_objects_reads_split_judgments(item):
    run = [{"u": 1, "tips": [{"g": "A", "c": 0.9}, {"g": "B", "c": 0.4}]},
           {"u": 2, "tips": [{"g": "B", "c": 0.9}]}]  # fmt: skip
    judged = pl.DataFrame(
        {"u": [1, 2, 1, 2], "g": [*"BBCC"], "split": [*["test"] * 2, *["train"] * 2]}
    )
    parts = judged.partition_by("split", include_key=False, maintain_order=True)
    for qrels, train in ((judged, None), (parts[0], parts[1])):
        result = rankql.evaluate(run, qrels, "R@1", query="u", item=item, train=train)
        assert result["R@1"] == 0.5
