"""judges where one id is all that tells items apart, and labels as tools write them."""

import json
import re

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

KEYS = [f"case-{n}" for n in range(8)]
HUMAN, MODEL = [0, 2, 1, 1, 3, 0, 2, 2], [0, 2, 2, 1, 3, 1, 2, 0]  # alike in 5 of 8
WORDS = {"poor": 0, "fair": 1, "good": 2, "great": 3}
NAMES = [*WORDS]
# By hand: observed 5/8, by chance (2 * 2 + 2 * 2 + 3 * 3 + 1) / 64.
KAPPA = (5 / 8 - 18 / 64) / (1 - 18 / 64)


def labels(key, name, values, **more):
    return pl.DataFrame({key: KEYS, name: values, **more})


def agreement(report):
    values = dict(report.table.select("measure", "value").rows())
    return values["exact_agreement"], values["cohen_kappa"]


@few(2)(
    ("key", "name"),
    [
        ("ticketId", "label"),
        ("id", "verdict"),
        ("item", "rating"),
        ("answer_uuid", "label"),
        ("question_id", "rating"),
        ("item", "verdict"),
    ],
)
@pytest.mark.parametrize("worded", [False, True])
def test_a_shared_id_is_one_item_each(key, name, worded):
    sides = ([NAMES[x] if worded else x for x in side] for side in (MODEL, HUMAN))
    more = {"confidence": [n / 10 for n in range(8)], "why": [f"as {x}" for x in KEYS]}
    model, human = labels(key, name, next(sides), **more), labels(key, name, next(sides))
    known = {"rel": WORDS} if worded else {}
    if name == "verdict":
        call = f"rel=('verdict', {WORDS})" if worded else "rel='verdict'"
        with pytest.raises(
            RankqlError, match=re.escape(f"Pass:\n    {call}") + r"(\n|$)"
        ) as raised:
            rankql.judges(model, human, **known)
        assert worded or "Is verdict the grade?" in str(raised.value)  # of each row
        known = {"rel": ("verdict", WORDS) if worded else "verdict"}
    report = rankql.judges(model, human, **known)
    assert agreement(report) == pytest.approx((5 / 8, KAPPA))
    assert any(note.startswith(f"{key} is the only id") for note in report.notes)


@pytest.mark.parametrize("named", [{}, {"item": "caseRef"}, {"query": "caseRef"}])
def test_of_two_shared_ids_the_named_one_counts(named):
    model, human = (labels("ticketId", "label", x, caseRef=KEYS[::-1]) for x in (MODEL, HUMAN))
    (name,) = named.values() or ["ticketId"]
    report = rankql.judges(model, human, **named)
    assert any(note.startswith(f"{name} is the only id") for note in report.notes)


def test_a_response_within_a_query_stays_the_item():
    rows = {"query": [x for x in KEYS[:4] for _ in "xy"], "response": [*"xy"] * 4}
    model, human = (pl.DataFrame({**rows, "label": x}) for x in (MODEL, HUMAN))
    with pytest.raises(RankqlError, match="Pass:\n    item='response'"):
        rankql.judges(model, human)
    assert agreement(rankql.judges(model, human, item="response"))[0] == 5 / 8
    words = pl.col("label").replace_strict(dict(enumerate(NAMES)))
    texts = [x.with_columns(label=words) for x in (model, human)]
    with pytest.raises(RankqlError) as raised:
        rankql.judges(*texts, rel=WORDS)
    assert "item='response'" in str(raised.value)
    assert "item='label'" not in str(raised.value)


def test_labels_are_never_offered_as_ids():
    rows = {"left": [*KEYS, *KEYS], "right": [x for x in "uv" for _ in KEYS]}
    model, human = (
        pl.DataFrame({**rows, "label": [NAMES[n] for n in side * 2]}) for side in (MODEL, HUMAN)
    )
    with pytest.raises(RankqlError) as raised:
        rankql.judges(model, human, rel=WORDS)
    assert "='label'" not in str(raised.value)


def test_two_unique_columns_are_asked_about():
    texts = {"question": [f"why {x}" for x in KEYS], "reply": [f"so {x}" for x in KEYS]}
    model, human = (pl.DataFrame({**texts, "label": x}) for x in (MODEL, HUMAN))
    report = rankql.judges(model, human)  # the question is known as what a row is about
    assert agreement(report)[0] == 5 / 8
    unknown = [x.rename({"question": "left", "reply": "right"}) for x in (model, human)]
    with pytest.raises(RankqlError, match="No query column"):
        rankql.judges(*unknown)


@pytest.mark.parametrize("value", [0, 7, "pilot"])
def test_the_run_of_an_annotator_is_not_read(value):
    rows = pl.DataFrame({
        "item": KEYS * 2, "annotator": ["ann"] * 8 + ["bot"] * 8,
        "run": [value] * 16, "grade": HUMAN + MODEL,
    })  # fmt: skip
    report = rankql.judges(rows, annotators=["ann", "bot"])
    assert agreement(report) == pytest.approx((5 / 8, KAPPA))
    assert "No column has queries: each item counts as one" in report.notes


def test_a_name_that_one_table_lacks_is_that_of_the_other():
    groups = {"query": [f"g{n // 2}" for n in range(8)]}
    human = pl.DataFrame({**groups, "item": KEYS, "grade": HUMAN})
    model = pl.DataFrame({**groups, "snippet": KEYS, "mark": MODEL})
    report = rankql.judges(model, human, item="snippet", judge_rel="mark")
    assert agreement(report)[0] == 5 / 8
    with pytest.raises(RankqlError, match="item='snipet': no column of that name"):
        rankql.judges(model, human, item="snipet", judge_rel="mark")


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("top", [{}, {"rater": "ann", "meta": {"version": 2}}])
def test_a_list_of_labels_under_one_name_is_a_table(top, in_file, tmp_path):
    rows = [{"ticketId": x, "label": NAMES[n]} for x, n in zip(KEYS, HUMAN, strict=True)]
    human = {"labels": rows, **top}
    if in_file:
        path = tmp_path / "human.json"
        path.write_text(json.dumps(human))
        human = path
    model = labels("ticketId", "label", [NAMES[n] for n in MODEL])
    report = rankql.judges(model, human, rel=WORDS)
    assert agreement(report) == pytest.approx((5 / 8, KAPPA))


def test_a_dict_by_query_stays_one():
    rows = [{"item": x, "rel": n} for x, n in zip(KEYS, HUMAN, strict=True)]
    model = pl.DataFrame({"query": "shoes", "item": KEYS, "rel": MODEL})
    report = rankql.judges(model, {"shoes": rows})
    assert report.table["queries"].unique().to_list() == [1]
