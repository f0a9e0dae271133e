"""Labels and tables as label tools and loaders write them: rows of our own, in their shape."""

import json
import re

import polars as pl
import pytest

import rankql
from support.parameters import of_each_kind
from support.reading import asked, assert_offered, assert_read, read, refused

RUN = pl.DataFrame({"query": [*"qqqq"], "item": [*"abcd"], "score": [4.0, 3.0, 2.0, 1.0]})
RIGHT = 0.6309297535714575  # of grade 0 for a and 3 for b
NDCG, HIT = {"metrics": "nDCG"}, "{'rel': '1'}"


def judged(**columns):
    """Judgments of items a and b, with other columns."""
    values = zip(*columns.values(), strict=True)
    return [
        {"query": "q", "item": item, **dict(zip(columns, row, strict=True))}
        for item, row in zip("ab", values, strict=True)
    ]


def task(number, item, *annotations, query="q", control="rating"):
    """A task as Label Studio exports it; annotations: who, the value, and was it skipped?"""
    found = [
        {
            "id": 10 * number + i,
            "completed_by": who,
            "was_cancelled": skipped,
            "result": [
                {"from_name": control, "to_name": "text", "type": kind, "value": {kind: x}}
                for kind, x in value.items()
            ],
        }
        for i, (who, value, skipped) in enumerate(annotations)
    ]
    data = {"query": query, "item": item, "text": "..."}
    return {"id": number, "data": data, "annotations": found, "predictions": []}


TASKS = [
    task(1, "c", (1, {}, True)),
    task(2, "a", (1, {"rating": 0}, False)),
    task(3, "b", (1, {"rating": 3}, False), (2, {"rating": 1}, True)),
    task(4, "d"),
]
BO = {"id": 2, "email": "bo@example.org"}
SEVERAL = [*TASKS[:2], task(3, "b", (1, {"rating": 3}, False), (BO, {"rating": 1}, False))]
CHOICES = [task(place, item, (1, {"choices": x}, False), control="relevance")
           for place, item, x in ((1, "a", ["no"]), (2, "b", ["yes", "old"]))]  # fmt: skip
# The label of a part of the text is not the item's.
SPANS = json.loads(json.dumps(TASKS))
for annotation in (x for each in SPANS for x in each["annotations"]):
    value = {"start": 0, "end": 2, "labels": ["LOC"]}
    annotation["result"].append({"from_name": "part", "type": "labels", "value": value})


def record(item, grade, status="submitted", suggestion=None, who="ann"):
    """A record of argilla's flat list."""
    lists = {"": [grade], ".users": [who], ".status": [status]}
    responses = {f"relevance.responses{x}": None if grade is None else y for x, y in lists.items()}
    own = {"": suggestion, ".score": 0.25 + 0.1 * len(item), ".agent": "a model"}
    return {"query": "q", "item": item, **responses} | {
        f"relevance.suggestion{x}": y for x, y in own.items() if suggestion is not None
    }


RECORDS = [record("a", 0), record("b", 3), record("c", 3, "draft"), record("d", None)]
SUGGESTED = [record("a", 0, suggestion=1), record("b", 3, suggestion=3)]
SUGGESTIONS = pl.DataFrame(SUGGESTED).select(
    "query", "item", *(f"relevance.suggestion{x}" for x in ("", ".score", ".agent"))
)
# dlt
HITS = pl.DataFrame({
    "doc_id": [*"xabc"], "_dlt_parent_id": ["P1", "P1", "P1", "P2"], "_dlt_list_idx": [0, 1, 2, 0],
    "_dlt_id": [*"stuv"],
})  # fmt: skip
GOLD = pl.DataFrame({
    "doc_id": [*"abc"], "_dlt_parent_id": ["P1", "P1", "P2"], "_dlt_list_idx": [0, 1, 0],
    "_dlt_id": [*"wxy"],
})  # fmt: skip
NAMED = {"_dlt_list_idx": "idx", "_dlt_parent_id": "query"}
BY_TYPE = RUN.with_columns(
    score=pl.Series([4, None, 2, None]), score__v_double=pl.Series([None, 3.5, None, 1.5])
)
GRADED = pl.DataFrame({"query": "q", "item": [*"ab"], "rel": [0, 3]})
# crowd-kit
WORKERS = pl.DataFrame({
    "query": [*"qqqq"], "task": [*"aabb"], "worker": ["w1", "w2"] * 2, "label": [0, 0, 3, 2]
})  # fmt: skip
RATINGS = [[{"rating": 0}], [{"rating": 3}]]
LABELS = [
    (RATINGS, "x[1].rating"),
    ([[{"rating": 0}, {"rating": 0}], [{"rating": 3}]],
     "list_max(list_transform(x, lambda x_: x_.rating))"),
    ([[{"id": i, "result": [{"value": {"rating": n}}]}] for i, n in enumerate((0, 3))],
     "x[1].result[1].value.rating"),
    ([[{"made by": "ann", "grade": x}] for x in (0, 3)], "x[1].grade"),
]  # fmt: skip
SCORES = [[{"score": 0, "user": "ann"}], [{"score": 3, "user": "bo"}]]
MIXED = judged(label=["no", {"choices": ["yes", "old"]}])
TEXTS = [
    (judged(x=[[{"choices": x}] for x in (["bad"], ["fine", "old"])]), "x[1].choices[1]",
     {"bad": 0, "fine": 3}),
    (judged(x=[[{"label": "no"}, {"label": "no"}], [{"label": "yes"}]]),
     "CAST(list_transform(x, lambda x_: x_.label) AS VARCHAR)", {"[no, no]": 0, "[yes]": 3}),
]  # fmt: skip

OFFERED = {
    **{f"a label in a list: {rel}": (
        RUN, judged(x=labels), NDCG, [(repr({"rel": rel}), RIGHT), (HIT, 1)])
       for labels, rel in LABELS},
    "a label in a list: of a frame": (
        RUN, pl.DataFrame(judged(x=RATINGS)), NDCG, [("x[1].rating", RIGHT), (HIT, 1)]),
    "the suggestion of a model": (RUN, SUGGESTIONS, {}, [("'relevance.suggestion'", 1), (HIT, 1)]),
    "what dlt adds to child tables": (
        HITS, GOLD, NDCG,
        [("{'query': '_dlt_parent_id', 'pos': '_dlt_list_idx + 1'}", 0.8467132033607884)]),
    "a place that ranks the run": (
        *(x.rename(NAMED).drop("_dlt_id") for x in (HITS, GOLD)), NDCG,
        [("{'pos': 'idx + 1'}", 0.8467132033607884)]),
    "numbers that dlt splits by type": (
        BY_TYPE, GRADED, NDCG,
        [("{'score': 'coalesce(score, score__v_double)'}", RIGHT), ("{'score': 'score'}", None)]),
    "labels by task and worker": (
        RUN, WORKERS, NDCG, [("{'item': 'task', 'rel': 'max(label)'}", RIGHT)]),
}  # fmt: skip


@of_each_kind(OFFERED)
def test_offered_calls(kind, case):
    assert_offered(*OFFERED[case])


READ = {
    **{f"lists and objects that are no labels: {name}": (RUN, judged(**{name: values}), {}, 1, name)
       for name, values in [
           ("title", ["one", "two"]),
           ("metadata", [{"source": "a", "page": 1}, {"source": "b", "page": 2}]),
           ("spans", [[{"start": 0, "end": 3, "label": x}] for x in ("LOC", "PER")]),
           ("highlights", [[{"text": "x", "score": 0.5}], [{"text": "y", "score": 0.25}]]),
           ("notes", SCORES), ("tags", [["x"], ["y"]]),
           ("annotations", [[{"rating": 1}], [{"rating": 1}]])]},  # all are relevant
    **{f"text in a list: {column}": (RUN, qrels, {**NDCG, "rel": (column, grades)}, RIGHT)
       for qrels, column, grades in TEXTS},
    # Tasks of Label Studio have a row for each annotation.
    "tasks": (RUN, TASKS, NDCG, RIGHT, "not read: text, annotator",
              "2 of 4 tasks have no annotation, or a skipped one: left out"),
    "tasks of several annotators": (RUN, SEVERAL, {**NDCG, "rel": "max(rating)"}, RIGHT),
    "tasks with choices": (RUN, CHOICES, {**NDCG, "rel": {"no": 0, "yes, old": 3}}, RIGHT),
    "tasks with parts of the text": (RUN, SPANS, NDCG, RIGHT, "part"),
    "choices beside text": (
        RUN, MIXED, {**NDCG, "rel": ("label", {"no": 0, '{"choices": ["yes", "old"]}': 3})}, RIGHT),
    **{f"submitted responses: {type(qrels).__name__}": (
        RUN, qrels, NDCG, RIGHT, "not read: annotator",
        "1 of 3 responses are drafts or discarded: left out")
       for qrels in (RECORDS, pl.DataFrame(RECORDS))},
    "suggestions beside responses": (RUN, SUGGESTED, NDCG, RIGHT),
    "a suggestion that is named": (
        RUN, SUGGESTED, {**NDCG, "rel": "relevance.suggestion"}, 0.7967075809905066),
    "numbers that are not those of dlt": (
        BY_TYPE.rename({"score__v_double": "score_double"}).drop_nulls("score"), GRADED, NDCG, 0),
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


REFUSED = {
    "several annotators": (
        SEVERAL,
        r"duplicates: query 'q', item 'b'.*rel='max\(rating\)' the highest of every annotator"),
    "choices: of tasks": (CHOICES, "{'no': ..., 'yes, old': ...}"),
    "choices: beside text": (MIXED, "Pass a grade for each value: rel=.*'no': ..., '{\"choices\""),
    "no annotation": (
        TASKS[3:], "looks like tasks of Label Studio, but no task has an annotation"),
    "several ratings": (
        judged(rating=['[{"rating":0},{"rating":1}]', '[{"rating":3}]']),
        "text such as .*Pass a grade for each value"),
    "a list that no cast reads": (
        pl.DataFrame(judged(grade=[[{"grade": 0}, {"grade": 1}], [{"grade": 3}]])),
        r"not STRUCT\(grade .*\. Pass rel='grade\[1\]\.grade'$"),
    **{f"text in a list: {column}": (
        qrels, re.escape(f"rel=({column!r}, {{{', '.join(f'{x!r}: ...' for x in grades)}}})"))
       for qrels, column, grades in TEXTS},
}  # fmt: skip


@of_each_kind(REFUSED)
def test_what_is_refused(kind, case):
    qrels, message = REFUSED[case]
    refused(RUN, qrels, "nDCG", match=message)


@pytest.mark.parametrize(
    ("qrels", "call"),
    [
        (judged(responses=SCORES), {"rel": "responses[1].score"}),
        # Lists of this name without a status are not argilla's.
        (judged(**{"relevance.responses": [[0], [3]]}), {"rel": '"relevance.responses"[1]'}),
        (SUGGESTIONS.drop("relevance.suggestion", "relevance.suggestion.score")
         .with_columns(stars=pl.Series([0, 2])), {"rel": "stars"}),
    ],
)  # fmt: skip
def test_other_labels_are_asked_about(qrels, call):
    assert call in asked(RUN, qrels).calls


def test_other_tables_are_asked_about():
    """A number that is not dlt's, and the workers of one task."""
    stages = GOLD.rename({"_dlt_list_idx": "stufe"}).drop("_dlt_id")
    call = {"query": "_dlt_parent_id", "pos": "_dlt_list_idx + 1"}
    assert {"rel": "stufe"} in asked(HITS, stages, **call).calls
    workers = RUN.with_columns(item=pl.concat_str(pl.lit("w"), pl.int_range(1, 5).cast(pl.String)))
    alone = WORKERS.filter(pl.col("task") == "b").drop("task")
    assert {"item": "worker"} in asked(workers, alone).calls


def test_check_and_judges_ask_too():
    qrels = judged(annotations=RATINGS)
    assert "annotations[1].rating" in repr(rankql.check(RUN, qrels))
    with pytest.raises(rankql.RankqlError, match=r"    rel='annotations\[1\]\.rating'"):
        rankql.judges(qrels, judged(annotations=RATINGS))
    with pytest.raises(rankql.RankqlError, match=r"no labels|in common"):
        rankql.judges(SEVERAL, annotators=["1", "bo"])
    report = rankql.judges(SEVERAL, annotators=["1", "bo@example.org"])
    assert report.table.filter(measure="mean_difference")["value"].item() == -2


def test_labels_in_files_are_numbers(tmp_path):
    """Tasks, and the tables that CSV and JSON_MIN of Label Studio are."""
    rows = [{"annotator": 1, "query": "q", "item": "a", "rating": [{"rating": 0}]},
            {"annotator": 1, "query": "q", "item": "b", "rating": [{"rating": 3}]},
            {"query": "q", "item": "c"}]  # fmt: skip
    text = "annotation_id,annotator,query,item,rating\n"
    text += '1,ann,q,a,"[{""rating"":0}]"\n2,ann,q,b,"[{""rating"":3}]"\n,,q,c,\n'
    files = {"tasks.json": json.dumps(TASKS), "min.json": json.dumps(rows), "labels.csv": text}
    for name, data in files.items():
        (tmp_path / name).write_text(data)
        assert read(RUN, tmp_path / name, "nDCG")["nDCG"] == pytest.approx(RIGHT)
