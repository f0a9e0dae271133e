"""What search libraries and runners of November 2026 return: lists in objects, and their scores."""

import math
from dataclasses import dataclass

import polars as pl
import pytest

import rankql
from support.parameters import few
from support.reading import asked, read, refused

# lunr: ids are texts of numbers, as grades are.
LISTS = {"tea": [("1", 0.9), ("2", 0.5)], "jug": [("3", 0.8), ("1", 0.2)]}


@pytest.mark.parametrize(
    "names", [("ref", "score"), ("slug", "s"), ("entry", "weight"), ("k", "v")]
)
def test_the_grades_of_a_dict_are_no_ids(names):
    run = {q: [dict(zip(names, x, strict=True)) for x in each] for q, each in LISTS.items()}
    qrels = {"tea": {"1": 3, "2": 1}, "jug": {"3": 2}}
    calls = asked(run, qrels).calls
    assert [x["item"] for x in calls if "item" in x] == [[f"retrieved.{names[0]}", "item"]]
    assert read(run, qrels, **calls[0])["RR"] == 1


@pytest.mark.parametrize(("field", "ids"), [("expected", (6, 7)), ("gold", (1, 2)), ("a", (9, 4))])
def test_grades_that_are_ids_are_asked_about(field, ids):
    run = {q: ["x", str(i)] for q, i in zip("ab", ids, strict=True)}
    qrels = {q: {field: i} for q, i in zip("ab", ids, strict=True)}
    refused(run, qrels, match=rf"If {min(ids)} is an id, write {{query: \[{min(ids)}\]}}")
    listed = {q: [*map(str, x.values())] for q, x in qrels.items()}
    assert read(run, listed)["RR"] == 0.5


def test_grades_of_several_ids_are_grades():
    run = {"a": ["x", "6"], "b": ["7", "y"]}
    result = rankql.evaluate(run, {"a": {"c": 6, "d": 1}, "b": {"e": 7}}, "RR")
    assert result["RR"] == 0 and "is an id" not in str(result)


@pytest.mark.parametrize("ids", [("1", "7"), (1, 7)])
def test_the_number_of_an_item_is_no_field(ids):
    """No item is found, as may be true of one query: its grade is an id of the run by chance."""
    result = rankql.evaluate({"a": [ids[0]]}, {"a": {ids[1]: 1}}, "RR")
    assert result["RR"] == 0 and "is an id" not in str(result)


def in_fields(field, ids, second):
    """A list of ids per field, as flexsearch returns them: 0 or 1 of two queries is found first."""
    parts = {"tea": (["a", "b"], ["b", "c"]), "jug": (["d"], ["a", "e"])}
    return {
        q: [{field: x, ids: y} for x, y in zip(("title", second), each, strict=True)]
        for q, each in parts.items()
    }


GOLD = {"tea": ["b"], "jug": ["e"]}
FIELDS = [("field", "result", "body"), ("source", "ids", "body2"), ("index", "hits", "bb")]


@few(3)("names", FIELDS)
@pytest.mark.parametrize("listed", ["hits_of", "results"])
def test_lists_in_objects_of_lists(names, listed):
    """First a list of each field, then all in order."""
    rows = [{"id": q, listed: x, "relevant": GOLD[q]} for q, x in in_fields(*names).items()]
    calls = asked(rows).calls
    assert [round(read(rows, **x)["RR"], 4) for x in calls] == [0.25, 0.75, 0.4167]
    every = {"item": [f"{listed}.{names[1]}", "relevant"], "collapse": f"{listed}.{names[1]}"}
    assert calls[-1] == {**every, "positions": "keep"}


@pytest.mark.slow
def test_lists_in_objects_after_a_row_without_them():
    rows = [{"id": q, "hits": x, "relevant": GOLD[q]} for q, x in in_fields(*FIELDS[0]).items()]
    empty = {"id": "pot", "hits": None, "relevant": ["a"]}
    assert asked([empty, *rows]).calls == asked([*rows, empty]).calls == asked(rows).calls


@pytest.mark.parametrize("names", FIELDS)
def test_a_dict_of_lists_in_objects_of_lists(names):
    run = in_fields(*names)
    error = asked(run, GOLD)
    if any("are queries" in x for x in error.hints):
        assert "pass [{'query': q, 'retrieved': x} for q, x in run.items()]" in str(error)
        run = [{"query": q, "retrieved": x} for q, x in run.items()]
        error = asked(run, GOLD)
    assert [round(read(run, GOLD, **x)["RR"], 4) for x in error.calls] == [0.25, 0.75, 0.4167]


@few(3)("ids", ["ids", "hits"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_lists_in_objects_are_whole_where_all_are_full(ids, size):
    """Each field has as many ids. No call keeps one of each, or compares them with themselves."""
    rows = [
        {"id": i, "groups": [{"f": f, ids: [f"d{n + i + j}" for n in range(size)]}
                             for j, f in enumerate(("title", "body"))], "gold": [f"d{i + 1}"]}
        for i in range(12)
    ]  # fmt: skip
    calls = asked(rows).calls
    assert [read(rows, **x)["RR"] for x in calls] == [0.5, 1.0, 0.5]
    assert calls[-1]["item"] == [f"groups.{ids}", "gold"]


def test_pairs_in_objects_are_not_lists():
    rows = [{"id": i, "hits": [{"at": [f"d{i}", f"p{i}"]}], "gold": [f"d{i}"]} for i in range(9)]
    calls = asked(rows).calls
    assert {"item": ["hits.at[1]", "gold"]} in calls
    assert all(x["item"][1] == "gold" for x in calls)


def test_texts_of_a_label_beside_an_item_may_be_ids():
    run = pl.DataFrame(
        {"item": ["x", "y"], "neighbours": [["y", "z"], ["x", "w"]], "label": ["z", "w"]}
    )
    with pytest.raises(rankql.errors.RankqlError) as question:
        rankql.evaluate(run, metrics="RR")
    (call,) = question.value.calls
    assert call == {"item": ["neighbours", "label"]}
    assert read(run, **call)["RR"] == 0.5


def cases(scores, name="scores"):
    """Cases of a runner, as Braintrust's Eval().results and Inspect's samples."""
    lists = (("q1", ["a", "b"], ["b"]), ("q2", ["c", "d"], ["c"]))
    return [
        {"input": q, "output": found, "expected": gold, name: each}
        for (q, found, gold), each in zip(lists, scores, strict=True)
    ]


@pytest.mark.parametrize("name", ["scores", "score"])
@pytest.mark.parametrize(
    "scores", [[{"rr": 0.5, "hit": 1}, {"rr": 1.0, "hit": 1}], [{"mrr": 0.5}, {"mrr": 1.0}]]
)
def test_scores_of_a_runner_are_no_scores_of_ids(scores, name):
    result = rankql.evaluate(cases(scores, name), metrics="RR")
    assert result["RR"] == 0.75
    assert f"{name} has no number for an id of output and is not read" in str(result)


def test_scores_of_ids_are_read_or_refused():
    falling = [{"a": 0.5, "b": 1.0}, {"c": 1.0, "d": 2.0}]
    assert rankql.evaluate(cases(falling), metrics="RR")["RR"] == 0.75
    for other in ([{"A": 0.5, "B": 1.0}, {"C": 1.0, "D": 2.0}], [{"a": 0.5}, {"c": 1.0, "d": 2}]):
        refused(cases(other), match="scores has other ids or another number of values than output")


def test_cases_with_output_and_expected_output_are_read():
    rows = [{"input": "q", "output": ["a", "b"], "expected_output": ["b"]}]
    assert read(rows)["RR"] == 0.5


OUTPUTS = {"a": ["x"] * 4, "b": ["yx", "yx"], "c": ["z", "x"]}


@pytest.mark.parametrize("names", [("question", "trial"), ("case", "attempt"), ("prompt", "epoch")])
def test_repeated_questions(names):
    """Each run is a query, or the mean of each question counts once."""
    question, trial = names
    rows = [
        {question: q, trial: i, "output": [*x], "expected": ["x"]}
        for q, each in OUTPUTS.items() for i, x in enumerate(each)
    ]  # fmt: skip
    call = {"query": [question, trial]}
    question_of = asked(rows, query=question, match=f"pass cluster='{question}' too")
    assert call in question_of.calls
    each = rankql.evaluate(rows, metrics="RR", **call)
    assert each["RR"] == 0.75  # of 8
    means = rankql.evaluate(rows, metrics="RR", by=question, mean="slices", **call)
    assert "mean of slices  RR      0.6667" in str(means)  # 1, .5 and .5


class Doc:
    """Of zvec and Qdrant Edge: properties, and not the dict of an object."""

    __slots__ = ("_values",)

    def __init__(self, *values):
        self._values = values

    id = property(lambda self: self._values[0])
    score = property(lambda self: self._values[1])


def test_objects_with_an_id_and_a_score_have_their_line():
    run = {"q": [Doc("a", 0.9), Doc("b", 0.5)], "r": [Doc("c", 1.0)]}
    line = "{q: [(x.id, x.score) for x in xs] for q, xs in data.items()}"
    error = refused(
        run, {"q": ["b"], "r": ["c"]}, match=r"Pass \(x\.id, x\.score\) for each object"
    )
    assert line in str(error)
    assert read(eval(line, {"data": run}), {"q": ["b"], "r": ["c"]})["RR"] == 0.75


@dataclass
class Evaluation:
    name: str
    value: float


class Result:
    """Of Langfuse's item_results."""

    def __init__(self, value):
        self.evaluations = [Evaluation("rr", value), Evaluation("hit", 1)]


def test_results_of_items_have_their_line():
    data = [Result(1.0), Result(0.5)]
    line = "[{'query': i, **{y.name: y.value for y in x.evaluations}} for i, x in enumerate(data)]"
    with pytest.raises(rankql.errors.RankqlError) as error:
        rankql.read_values(data)
    assert f"For read_values, pass {line}" in str(error.value)
    assert rankql.read_values(eval(line, {"data": data}))["rr"] == 0.75


def test_rows_as_objects_have_their_line():
    class Row:
        def __init__(self, asked, shown, gold):
            self.query, self.retrieved, self.relevant = asked, shown, gold

    data = [Row("q", ["a", "b"], ["b"])]
    refused(data, match=r"Pass \[vars\(x\) for x in data\]")
    assert read([vars(x) for x in data])["RR"] == 0.5
    refused([pl.DataFrame(), pl.DataFrame()], match="Pass a list of them")


VALUES = [{"query": "tea", "rr": 1.0, "hit": True}, {"query": "jug", "rr": math.nan, "hit": False}]


def test_values_of_a_runner():
    """Flags are values, NaN is undefined, and texts are said to be attributes."""
    result = rankql.read_values(VALUES)
    assert result.metrics == ["rr", "hit"] and (result["rr"], result["hit"]) == (1.0, 0.5)
    rows = [{**x, "score_both": "CI"[i], "premium": bool(i)} for i, x in enumerate(VALUES)]
    result = rankql.read_values(rows)
    assert result.metrics == ["rr", "hit"]
    assert "attributes = (score_both, premium)" in str(result)
    assert rankql.read_values(rows, metrics="premium")["premium"] == 0.5


@pytest.mark.parametrize(
    "data",
    [
        {x["query"]: {y: x[y] for y in ("rr", "hit")} for x in VALUES},
        {y: {x["query"]: x[y] for x in VALUES} for y in ("rr", "hit")},
        {x["query"]: {"rr": x["rr"], "hit": x["hit"], "kind": "a"} for x in VALUES},
        {y: [x[y] for x in VALUES] for y in VALUES[0]},
        [{"query": x["query"], "scores": x} for x in VALUES],
    ],
)
def test_values_of_a_runner_in_dicts(data):
    """Flags and NaN are read as they are in rows."""
    result = rankql.read_values(data)
    rr, hit = (next(x for x in result.metrics if x.endswith(y)) for y in ("rr", "hit"))
    assert (result[rr], result[hit]) == (1.0, 0.5)
    assert result.frame()[rr].null_count() == 1
