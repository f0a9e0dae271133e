"""Labels and tables as label tools and loaders write them: rows of our own, in their shape."""

import json

import polars as pl
import pytest

import rankql
from support.parameters import few
from support.reading import asked, read, refused

RUN = pl.DataFrame({"query": [*"qqqq"], "item": [*"abcd"], "score": [4.0, 3.0, 2.0, 1.0]})
RIGHT = 0.6309297535714575  # of grade 0 for a and 3 for b


def judged(**columns):
    """Judgments of items a and b, with other columns."""
    values = zip(*columns.values(), strict=True)
    return [
        {"query": "q", "item": item, **dict(zip(columns, row, strict=True))}
        for item, row in zip("ab", values, strict=True)
    ]


def ndcg(qrels, run=RUN, **options):
    return read(run, qrels, "nDCG", **options)["nDCG"]


# Labels in lists and objects


@few(2)(
    ("labels", "rel"),
    [
        ([[{"rating": 0}], [{"rating": 3}]], "x[1].rating"),
        (
            [[{"rating": 0}, {"rating": 0}], [{"rating": 3}]],
            "list_max(list_transform(x, lambda x_: x_.rating))",
        ),
        (
            [[{"id": i, "result": [{"value": {"rating": n}}]}] for i, n in enumerate((0, 3))],
            "x[1].result[1].value.rating",
        ),
        ([[{"made by": "ann", "grade": x}] for x in (0, 3)], "x[1].grade"),
    ],
)
def test_a_label_in_a_list_is_asked_about(labels, rel):
    rows = judged(x=labels)
    for qrels in (rows, pl.DataFrame(rows)):
        question = asked(RUN, qrels, "nDCG")
        assert question.calls == [{"rel": rel}, {"rel": "1"}]
        assert ndcg(qrels, rel=rel) == pytest.approx(RIGHT) and ndcg(qrels, rel="1") == 1


def test_a_score_of_a_response_is_a_label_and_another_one_is_not():
    scores = [[{"score": 0, "user": "ann"}], [{"score": 3, "user": "bo"}]]
    assert asked(RUN, judged(responses=scores)).calls[0] == {"rel": "responses[1].score"}
    assert read(RUN, judged(highlights=scores))["RR"] == 1


@few(2)(
    ("labels", "column", "grades"),
    [
        ([["no"], ["yes", "old"]], "x[1].choices[1]", {"no": 0, "yes": 3}),
        (
            [[{"label": "no"}, {"label": "no"}], [{"label": "yes"}]],
            "CAST(list_transform(x, lambda x_: x_.label) AS VARCHAR)",
            {"[no, no]": 0, "[yes]": 3},
        ),
    ],
)
def test_text_in_a_list_has_a_grade_for_each_value(labels, column, grades):
    if "choices" in column:
        labels = [[{"choices": x}] for x in labels]
    question = asked(RUN, qrels := judged(x=labels))
    mapping = ", ".join(f"{label!r}: ..." for label in grades)
    assert question.others == [f"a grade for each value: rel=({column!r}, {{{mapping}}})"]
    assert ndcg(qrels, rel=(column, grades)) == pytest.approx(RIGHT)


@few(3)(
    ("name", "values"),
    [
        ("title", ["one", "two"]),
        ("metadata", [{"source": "a", "page": 1}, {"source": "b", "page": 2}]),
        ("spans", [[{"start": 0, "end": 3, "label": x}] for x in ("LOC", "PER")]),
        ("highlights", [[{"text": "x", "score": 0.5}], [{"text": "y", "score": 0.25}]]),
        ("tags", [["x"], ["y"]]),
        ("annotations", [[{"rating": 1}], [{"rating": 1}]]),  # all are relevant
    ],
)
def test_other_lists_and_objects_are_not_read(name, values):
    result = read(RUN, judged(**{name: values}))
    assert result["RR"] == 1 and name in str(result)


def test_check_and_judges_ask_too():
    qrels = judged(annotations=[[{"rating": 0}], [{"rating": 3}]])
    assert "annotations[1].rating" in repr(rankql.check(RUN, qrels))
    with pytest.raises(rankql.RankqlError, match=r"Pass rel='annotations\[1\]\.rating'"):
        rankql.judges(qrels, judged(annotations=[[{"rating": 0}], [{"rating": 3}]]))


# Label Studio


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


def test_tasks_of_label_studio_have_a_row_for_each_annotation(tmp_path):
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS))
    for qrels in (TASKS, tmp_path / "tasks.json"):
        result = read(RUN, qrels, "nDCG")
        assert result["nDCG"] == pytest.approx(RIGHT)
        assert "2 of 4 tasks have no annotation, or a skipped one: left out" in str(result)
        assert "not read: text, annotator" in str(result)


def test_of_several_annotators_one_grade_is_asked_for():
    who = {"id": 2, "email": "bo@example.org"}
    several = [*TASKS[:2], task(3, "b", (1, {"rating": 3}, False), (who, {"rating": 1}, False))]
    match = r"duplicates: query 'q', item 'b'.*rel='max\(rating\)', the highest of every annotator"
    refused(RUN, several, match=match)
    assert ndcg(several, rel="max(rating)") == pytest.approx(RIGHT)
    with pytest.raises(rankql.RankqlError, match=r"no labels|in common"):
        rankql.judges(several, annotators=["1", "bo"])
    report = rankql.judges(several, annotators=["1", "bo@example.org"])
    assert report.table.filter(measure="mean_difference")["value"].item() == -2


def test_other_controls_of_tasks():
    """Choices are text, which needs grades; the label of a part of the text is not the item's."""
    choices = [
        task(1, "a", (1, {"choices": ["no"]}, False), control="relevance"),
        task(2, "b", (1, {"choices": ["yes", "old"]}, False), control="relevance"),
    ]
    refused(RUN, choices, match="{'no': ..., 'yes, old': ...}")
    assert ndcg(choices, rel={"no": 0, "yes, old": 3}) == pytest.approx(RIGHT)
    part = {"start": 0, "end": 2, "labels": ["LOC"]}
    for each in (spans := json.loads(json.dumps(TASKS))):
        for annotation in each["annotations"]:
            annotation["result"].append({"from_name": "part", "type": "labels", "value": part})
    result = read(RUN, spans, "nDCG")
    assert result["nDCG"] == pytest.approx(RIGHT) and "part" in str(result)
    refused(RUN, TASKS[3:], match="looks like tasks of Label Studio, but no task has an annotation")


@few(3)(
    "file",
    [
        'annotation_id,annotator,query,item,rating\n1,ann,q,a,"[{""rating"":0}]"\n'
        '2,ann,q,b,"[{""rating"":3}]"\n,,q,c,\n',
        json.dumps([
            {"annotator": 1, "query": "q", "item": "a", "rating": [{"rating": 0}]},
            {"annotator": 1, "query": "q", "item": "b", "rating": [{"rating": 3}]},
            {"query": "q", "item": "c"},
        ]),
    ],
)  # fmt: skip
def test_ratings_of_csv_and_json_min_are_numbers(file, tmp_path):
    path = tmp_path / ("labels.json" if file[0] == "[" else "labels.csv")
    path.write_text(file)
    assert ndcg(path) == pytest.approx(RIGHT)
    two = judged(rating=['[{"rating":0},{"rating":1}]', '[{"rating":3}]'])
    refused(RUN, two, match="text such as .*Write a grade for each value")


def test_choices_beside_text_have_a_grade_for_each_value():
    qrels = judged(label=["no", {"choices": ["yes", "old"]}])
    refused(RUN, qrels, match="Write a grade for each value: rel=.*'no': ..., '{\"choices\"")
    grades = {"no": 0, '{"choices": ["yes", "old"]}': 3}
    assert ndcg(qrels, rel=("label", grades)) == pytest.approx(RIGHT)


def test_of_a_list_no_cast_is_recommended():
    qrels = pl.DataFrame(judged(grade=[[{"grade": 0}, {"grade": 1}], [{"grade": 3}]]))
    refused(RUN, qrels, "nDCG", match=r"not STRUCT\(grade .*\. Pass rel='grade\[1\]\.grade'$")
    assert ndcg(qrels, rel="grade[1].grade") == pytest.approx(RIGHT)


# argilla


def record(item, grade, status="submitted", suggestion=None, who="ann"):
    """A record of argilla's flat list."""
    lists = {"": [grade], ".users": [who], ".status": [status]}
    responses = {f"relevance.responses{x}": None if grade is None else y for x, y in lists.items()}
    own = {"": suggestion, ".score": 0.25 + 0.1 * len(item), ".agent": "a model"}
    return {"query": "q", "item": item, **responses} | {
        f"relevance.suggestion{x}": y for x, y in own.items() if suggestion is not None
    }


def test_submitted_responses_of_argilla_are_grades():
    records = [record("a", 0), record("b", 3), record("c", 3, "draft"), record("d", None)]
    for qrels in (records, pl.DataFrame(records)):
        result = read(RUN, qrels, "nDCG")
        assert result["nDCG"] == pytest.approx(RIGHT)
        assert "1 of 3 responses are drafts or discarded: left out" in str(result)
        assert "not read: annotator" in str(result)
    # Lists of this name without a status are not argilla's.
    lists = judged(**{"relevance.responses": [[0], [3]]})
    assert asked(RUN, lists).calls[0] == {"rel": '"relevance.responses"[1]'}


def test_the_suggestion_of_argilla_is_the_label_of_a_model():
    records = [record("a", 0, suggestion=1), record("b", 3, suggestion=3)]
    assert ndcg(records) == pytest.approx(RIGHT)
    assert ndcg(records, rel="relevance.suggestion") == pytest.approx(0.7967075809905066)
    names = ["query", "item", *(f"relevance.suggestion{x}" for x in ("", ".score", ".agent"))]
    alone = pl.DataFrame(records).select(names)
    assert asked(RUN, alone).calls == [{"rel": "relevance.suggestion"}, {"rel": "1"}]
    plain = alone.rename({"relevance.suggestion.score": "stars"}).drop("relevance.suggestion")
    assert {"rel": "stars"} in asked(RUN, plain.with_columns(stars=pl.Series([0, 2]))).calls


# dlt


HITS = pl.DataFrame({
    "doc_id": [*"xabc"], "_dlt_parent_id": ["P1", "P1", "P1", "P2"], "_dlt_list_idx": [0, 1, 2, 0],
    "_dlt_id": [*"stuv"],
})  # fmt: skip
GOLD = pl.DataFrame({
    "doc_id": [*"abc"], "_dlt_parent_id": ["P1", "P1", "P2"], "_dlt_list_idx": [0, 1, 0],
    "_dlt_id": [*"wxy"],
})  # fmt: skip


def test_what_dlt_adds_to_child_tables_is_no_grade():
    call = {"query": "_dlt_parent_id", "pos": "_dlt_list_idx + 1"}
    assert asked(HITS, GOLD).calls == [call]
    assert read(HITS, GOLD, "nDCG", **call)["nDCG"] == pytest.approx(0.8467132033607884)
    stages = GOLD.rename({"_dlt_list_idx": "stufe"}).drop("_dlt_id")
    assert {"rel": "stufe"} in asked(HITS, stages, **call).calls


def test_a_place_that_ranks_the_run_is_no_grade():
    names = {"_dlt_list_idx": "idx", "_dlt_parent_id": "query"}
    hits, gold = (x.rename(names).drop("_dlt_id") for x in (HITS, GOLD))
    call = {"pos": "idx + 1"}
    assert asked(hits, gold).calls == [call]
    assert read(hits, gold, "nDCG", **call)["nDCG"] == pytest.approx(0.8467132033607884)


def test_numbers_that_dlt_splits_by_type_are_read_together():
    run = RUN.with_columns(
        score=pl.Series([4, None, 2, None]), score__v_double=pl.Series([None, 3.5, None, 1.5])
    )
    qrels = pl.DataFrame({"query": "q", "item": [*"ab"], "rel": [0, 3]})
    call = {"score": "coalesce(score, score__v_double)"}
    assert asked(run, qrels).calls == [call, {"score": "score"}]
    assert ndcg(qrels, run, **call) == pytest.approx(RIGHT)
    assert rankql.evaluate(run, qrels, "nDCG", score="score")["nDCG"] == 0
    other = run.rename({"score__v_double": "score_double"}).drop_nulls("score")
    assert ndcg(qrels, other) == 0


# crowd-kit


def test_labels_by_task_and_worker():
    labels = pl.DataFrame({
        "query": [*"qqqq"], "task": [*"aabb"], "worker": ["w1", "w2"] * 2, "label": [0, 0, 3, 2]
    })  # fmt: skip
    assert asked(RUN, labels).calls == [{"item": "task", "rel": "max(label)"}]
    assert ndcg(labels, item="task", rel="max(label)") == pytest.approx(RIGHT)
    workers = RUN.with_columns(item=pl.concat_str(pl.lit("w"), pl.int_range(1, 5).cast(pl.String)))
    alone = labels.filter(pl.col("task") == "b").drop("task")
    assert {"item": "worker"} in asked(workers, alone).calls


def test_the_number_of_an_annotator_is_no_grade_beside_another_column():
    """Alone, a column called judge may have the grades."""
    both = judged(judge=(7, 8), stufe=(0, 3))
    assert asked(RUN, both).calls == [{"rel": "stufe"}, {"rel": "1"}]
    assert asked(RUN, judged(judge=(0, 3))).calls == [{"rel": "judge"}, {"rel": "1"}]


def test_a_field_called_like_a_detail_of_argilla_is_a_score():
    hits = [
        {"query": "q", "hit": {"suggestion": {"doc_id": x, "score": y}}}
        for x, y in zip("ab", [2, 1], strict=True)
    ]
    assert read(hits, {"q": ["b"]})["RR"] == 0.5


# Shapes of other tools: each has one call that gives the right number


@few(2)(
    ("columns", "options"),
    [
        ({"label": (["no"], ["yes"])}, {"rel": ("label", {"[no]": 0, "[yes]": 3})}),  # doccano
        ({"accept": ([0], [3]), "answer": ("accept", "accept")}, {"rel": "accept[1]"}),  # prodigy
        (
            {"label": ("RELEVANT", "RELEVANT"), "answer": ("reject", "accept")},
            {"rel": ("answer", {"accept": 3, "reject": 0, "ignore": None})},
        ),
        (
            {"relevance:::no": (1, None), "relevance:::yes": (None, 1)},  # potato
            {"rel": {"relevance:::no": 0, "relevance:::yes": 3}},
        ),
        ({"Answer.relevance": (0, 3), "WorkerId": ("w", "w")}, {}),  # MTurk
        ({"OUTPUT:grade": (0, 3), "ASSIGNMENT:worker_id": ("w", "w")}, {"rel": "OUTPUT:grade"}),
    ],
)
def test_labels_of_other_tools(columns, options):
    qrels = judged(**columns)
    assert ndcg(qrels, **options) == pytest.approx(RIGHT)
    if options.get("rel") == "accept[1]":
        assert options in asked(RUN, qrels).calls
