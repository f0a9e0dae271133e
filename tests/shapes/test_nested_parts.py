"""Objects of 400 queries beside what describes them, in a file and in memory."""

import json
import time

import pytest

import rankql
from rankql import RankqlError
from support.parameters import few

QUERIES = [f"t{n}" for n in range(400)]
# The judged item y is the first of even queries, and the second of the others: RR 0.75.
LISTS = {q: ["y", "x"] if n % 2 == 0 else ["x", "y"] for n, q in enumerate(QUERIES)}
JUDGED = {q: {"y": 1} for q in QUERIES}


def objects(ids):
    return [{"id": x, "weight": 1 / place} for place, x in enumerate(ids, 1)]


def scores(ids):
    return {x: 1 / place for place, x in enumerate(ids, 1)}


SHAPES = {
    "ids": lambda ids: ids,
    "numbers": scores,
    "objects": objects,
    "hits": lambda ids: {"hits": objects(ids)},
    "results": lambda ids: {"text": "who", "results": objects(ids)},
    "retrieved": lambda ids: {"retrieved": ids, "took_ms": 4},
    "both lists": lambda ids: {"retrieved": ids, "relevant": ["y"]},
    "both lists and text": lambda ids: {"question": "who", "retrieved": ids, "relevant": ["y"]},
    "documents": lambda ids: {"documents": ids},
    "retrieved objects": lambda ids: {"retrieved": objects(ids), "tags": ["a"]},
}
META = {"meta": {"cutoff": 10, "name": "nightly"}, "version": 3}


def timed(call):
    began = time.process_time()
    result = call()
    assert time.process_time() - began < 5
    return result


@pytest.mark.parametrize("in_file", [False, True])
@few(4)("shape", [*SHAPES])
def test_the_queries_of_an_object_are_read(shape, in_file, tmp_path):
    found = {"queries": {q: SHAPES[shape](ids) for q, ids in LISTS.items()}}
    data = {"meta": META["meta"], **found} if shape == "ids" else {**META, **found}
    if in_file:
        (tmp_path / "nightly.json").write_text(json.dumps(data))
        data = tmp_path / "nightly.json"
    judged = None if shape.startswith("both") else JUDGED
    for options in ({}, {"part": "queries"}):
        result = timed(lambda options=options: rankql.evaluate(data, judged, "RR", **options))
        assert result["RR"] == 0.75
        assert result.summary["queries"][0] == 400


@pytest.mark.parametrize("in_file", [False, True])
def test_a_name_beside_the_run_is_no_run(in_file, tmp_path):
    data = {"results": {q: scores(ids) for q, ids in LISTS.items()}, "name": "nightly"}
    if in_file:
        (tmp_path / "nightly.json").write_text(json.dumps(data))
        data = tmp_path / "nightly.json"
    with pytest.raises(RankqlError, match=r"pass part='results'$"):
        rankql.evaluate(data, JUDGED, "RR")
    assert rankql.evaluate(data, JUDGED, "RR", part="results")["RR"] == 0.75


def test_two_parts_with_queries_are_not_chosen_between():
    parts = {x: {q: objects(ids) for q, ids in LISTS.items()} for x in ("first", "second")}
    with pytest.raises(RankqlError):
        rankql.evaluate({"meta": {"k": 1}, **parts}, JUDGED, "RR")
