"""Which column has which role: a column has one, and a column of labels is never ignored."""

import gzip

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support.own_values import compare_values
from support.parameters import cycled, few
from support.reading import asked, read, refused
from support.samples import FORMATS, written

RUN = pl.DataFrame({"user_id": [1, 1], "item": ["x", "y"], "score": [2.0, 1.0]})
ROWS = {"query": ["a"] * 3, "item": ["x", "y", "z"]}


@few(4)(("case", "form"), cycled([
    (("score",), {"rel": "score"}, "score column"),
    (("rating",), {"score": "rating"}, "grade"),
    (("rel", "rank"), {"score": "rank", "pos": "rel"}, "grade"),
    (("rel", "score"), {"weight": "score"}, "score column"),
    (("label", "score"), {"by": "label"}, "grade"),
    (("rating", "score"), {"system": "rating"}, "grade"),
] * 3, FORMATS))  # fmt: skip
def test_a_named_column_has_no_other_role(case, form, tmp_path):
    names, options, missing = case
    frame = pl.DataFrame({**ROWS, **{name: [3, 2, 1] for name in names}})
    for rows in (frame, frame.reverse()):
        data, con = written(rows, form, tmp_path)
        refused(data, None, "nDCG", con=con, **options, match=missing)


def test_another_column_takes_the_role():
    """The item is called rank, so scores order the ranking; rows do if grades are scores."""
    ranked = {"query": "a", "rank": ["x", "y", "z"], "score": [3, 2, 1], "rel": [0, 1, 2]}
    result = read(pl.DataFrame(ranked), None, "nDCG", item="rank")
    assert result["nDCG"] == pytest.approx(0.6199, abs=1e-4)
    assert (result.columns["run"]["item"], result.columns["run"]["score"]) == ("rank", "score")
    graded = pl.DataFrame({**ROWS, "score": [0, 1, 2]})
    options = {"rel": "score", "order": "rows", "interval": None}
    value = pytest.approx(result["nDCG"], abs=1e-12)
    assert read(graded, None, "nDCG", **options)["nDCG"] == value
    # Each table has its own roles: a score called rating does not take the grades of the judgments.
    run = pl.DataFrame({**ROWS, "rating": [3.0, 2.0, 1.0]})
    judged = pl.DataFrame({**ROWS, "rating": [0, 1, 2]})
    values = read(run, judged, "nDCG", score="rating", descending=True)
    assert values["nDCG"] == value


LOG = pl.DataFrame({
    "userId": [1, 1, 2], "movieId": [7, 8, 7], "rating": [1, 0, 1], "rank": [2, 1, 1],
    "timestamp": [1, 2, 3],
})  # fmt: skip
LOG_CALLS = {
    "evaluate": (
        lambda log, **by: rankql.evaluate(log, metrics="RR", interval=None, **by)["RR"],
        0.75,
    ),
    "pipe": (lambda log, **by: log.pipe(rankql.rr, **by)["rr"].mean(), 0.75),
    "leave_one_out": (
        lambda log, **by: log.pipe(rankql.leave_one_out, **by)["split"].to_list(),
        ["train", "test", "train"],
    ),
    "grade_events": (
        lambda log, **by: rankql.grade_events(
            log.with_columns(event=pl.lit("buy")), {"buy": 1}, **by
        ).columns[0],
        "userId",
    ),
}


@few(2)("name", LOG_CALLS)
def test_every_function_recognises_the_same_names(name):
    call, result = LOG_CALLS[name]
    argument = "by" if name == "pipe" else "query"
    assert call(LOG) == result
    if name in ("evaluate", "pipe"):
        assert call(LOG.to_pandas()) == result
    # Of a session and a user, the session is the query. Users with two names are asked about.
    sessions = LOG.with_columns(user=0).rename({"userId": "session-id"})
    options = {"query": "session-id"} if name == "leave_one_out" else {}
    assert call(sessions, **options) == ("session-id" if name == "grade_events" else result)
    with pytest.raises(
        RankqlError, match=f"userId and uid [^.]*\\.\n\nPass one of:\n    {argument}='userId'\n"
    ):
        call(LOG.with_columns(uid=1))
    assert call(LOG.with_columns(uid=1), **{argument: "userId"}) == result
    with pytest.raises(
        RankqlError, match=rf"No query column.*\n\n(Fill in|Pass|Pass one of):\n    .*{argument}='"
    ):
        call(LOG.drop("userId"))


def test_a_name_that_all_tables_have_is_not_asked_about():
    run = RUN.with_columns(uid=1)
    qrels = pl.DataFrame({"user_id": [1], "item": ["x"]})
    assert read(run, qrels).columns["run"]["query"] == "user_id"
    # Spelled exactly alike comes before another spelling: doc_id is not the docid of the run.
    run = pl.DataFrame({"query": [1], "docid": ["n"], "docno": ["x"], "score": [1.0]})
    qrels = pl.DataFrame({"query": [1], "doc_id": ["m"], "docno": ["x"], "rel": [1]})
    result = read(run, qrels)
    assert result.columns["run"]["item"] == result.columns["qrels"]["item"] == "docno"


def test_variants_are_the_systems_of_values_per_query():
    values = pl.DataFrame({"variant": ["A"] * 6 + ["B"] * 6, "user": [*range(6)] * 2,
                           "clicks": [1, 0, 2, 4, 3, 1, 2, 2, 3, 4, 5, 2]})  # fmt: skip
    assert compare_values(values).systems == ["A", "B"]
    one = values[:6]  # an attribute
    assert compare_values({"a": one, "b": one}, by="variant").systems == ["a", "b"]


LABELS = {"event": ["impression", "click"], "outcome": ["", "bought"], "price": [5, 7],
          "bought": [False, True], "label_text": [None, "yes"]}  # fmt: skip


@few(3)(("form", "name"), cycled(FORMATS * 2, [*LABELS]))
def test_columns_of_labels_are_asked_about(name, form, tmp_path):
    judged = RUN.select("user_id", "item").with_columns(pl.Series(name, LABELS[name]))
    data, con = written(judged, form, tmp_path)
    refused(RUN, data, con=con, match=f"grade column in qrels.*{name}")


@few(1)("form", FORMATS)
def test_times_attributes_and_one_value_are_not_labels(form, tmp_path):
    others = {"event": pl.lit("click"), "created_at": pl.col("item"), "country": pl.col("item")}
    judged = RUN.select("user_id", "item", **others)
    data, con = written(judged, form, tmp_path)
    attributes = RUN.select("user_id", country=pl.lit("de")).unique()
    options = {"by": "country", "attributes": attributes, "con": con, "interval": None}
    assert read(RUN, data, **options)["RR"] == 1


@few(1)("form", FORMATS)
def test_grades_of_a_named_column(form, tmp_path):
    judged = RUN.select("user_id", "item", event=pl.Series(["a", "b"]), esci=pl.Series(["I", "E"]))
    data, con = written(judged, form, tmp_path)
    rel = ("esci", {"E": 3, "S": 2.5, "I": 0})
    result = read(RUN, data, rel=rel, con=con)
    assert result["RR"] == 0.5 and result.columns["qrels"]["rel"].startswith("esci (E: 3")
    for name, grades, message in (
        ("esci", {"E": 3}, "no grade for esci 'I'"),
        ("esic", {"E": 3}, "esic.*esci"),
        ("user_id", {"E": 3}, "needs a text column in qrels|no grade for user_id '1'"),
    ):
        refused(RUN, data, rel=(name, grades), con=con, match=message)


# Requests, splits and files of RankLib

REQUESTS = pl.DataFrame(
    {"search_id": ["s1", "s1", "s2"], "item": ["x", "y", "x"], "score": [3.0, 2.0, 1.0]}
)
ONE_RELEVANT = pl.DataFrame({"search_id": ["s1", "s2"], "item": ["y", "x"], "rel": [1, 1]})


@few(1)("name", ["search_id", "request_id", "impressionId"])
def test_requests_are_queries_if_nothing_else_is(name):
    run, qrels = (x.rename({"search_id": name}) for x in (REQUESTS, ONE_RELEVANT))
    assert read(run, qrels)["RR"] == 0.75
    users = pl.Series("user", ["u", "u", "v"])
    run = run.with_columns(users)
    qrels = pl.DataFrame({"user_id": ["u", "v"], name: ["s1", "s2"], "item": ["y", "x"], "rel": 1})
    result = read(run, qrels)
    assert [result.columns[table]["query"] for table in ("run", "qrels")] == ["user", "user_id"]


def test_duplicates_name_the_options_that_tell_rankings_apart():
    log = pl.DataFrame({
        "user": ["u"] * 4, "page": ["v1", "v1", "v2", "v2"], "price": [1.0, 2.0, 3.0, 4.0],
        "item": ["x", "y", "x", "y"], "pos": [1, 2, 1, 2], "rel": [1, 0, 0, 1],
    })  # fmt: skip
    key = r"Pass: query=\['user', 'page'\] Or keep one row"
    refused(log, match=key)
    assert read(log, None, query="page")["RR"] == 0.75
    twice = pl.concat([log, log[:1].with_columns(pos=pl.lit(3, pl.Int64))])
    error = refused(twice, None, query="page")
    assert "queries: query=" not in str(error)


@few(3)(
    ("comment", "features"),
    cycled(["docid = d7 inc = 1", "d7", "d7 a title", "DOCID=d7"], ["", "1:0.5 2:-3e-1 "]),
)
def test_judgments_of_ranklib(comment, features, tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text(f"# a comment\n2 qid:1 {features}# {comment}\n0 qid:1 {features}# d8\n")
    assert read({"1": ["d8", "d7"]}, path)["RR"] == 0.5
    for first, message in (("# d8", "without an id in a comment"), ("", "no ids of items")):
        path.write_text(f"0 qid:1 {first}\n2 qid:1 {features}\n")
        refused({"1": ["d8", "d7"]}, path, match=message)


NUMBERS = pl.DataFrame({"query": [1, 1, 12, 12], "item": [*"abab"], "score": [2.0, 1.0, 2.0, 1.0]})


@few(4)("suffix", ["csv", "tsv", "csv.gz"])
@pytest.mark.parametrize("table", ["attributes", "qrels", "train"])
def test_keys_keep_the_type_of_the_run(table, suffix, tmp_path):
    """A text file has no types, and a saved baseline must still have the same keys."""
    tables = {
        "qrels": pl.DataFrame({"query": [1, 12], "item": [*"ab"], "rel": 1}),
        "attributes": pl.DataFrame({"query": [1, 12], "part": [*"xy"]}),
        "train": pl.DataFrame({"query": [1, 12], "item": [*"ba"]}),
    }
    options = {"attributes": {"by": "part"}, "train": {"metrics": ["RR", "Repeats@2"]}, "qrels": {}}
    path = str(tmp_path / f"table.{suffix}")
    text = tables[table].write_csv(separator="\t" if suffix == "tsv" else ",")
    with (gzip.open if suffix.endswith("gz") else open)(path, "wt") as file:
        file.write(text)
    arguments = {"qrels": tables["qrels"], **options[table]}
    frames = {**arguments, table: tables[table]}
    files = {**arguments, table: path}
    kwargs = [{"metrics": "RR", **each} for each in (frames, files)]
    expected, found = (rankql.evaluate(NUMBERS, **each).per_query for each in kwargs)
    assert found.schema["query"] == pl.Int64
    assert found.sort("query").equals(expected.sort("query"))


@few(1)("ids", [["1", "012"], ["1", "q"], ["1", "12.0"]])
def test_keys_that_are_not_the_same_as_numbers_stay_text(ids, tmp_path):
    path = str(tmp_path / "table.csv")
    pl.DataFrame({"query": ids, "part": [*"xy"]}).write_csv(path, quote_style="always")
    qrels = pl.DataFrame({"query": [1, 12], "item": [*"ab"], "rel": 1})
    result = rankql.evaluate(NUMBERS, qrels, "RR", attributes=path, by="part")
    assert result.per_query["query"].to_list() == ["1", "12"]
    assert result.per_query["part"].to_list() == ["x", None]


def test_the_only_number_left_is_offered_as_the_grade():
    """Fractions of any name, in a table that has places or scores already."""
    items = {"query": [1, 1, 2, 2], "item": [*"abab"], "valor": [0.31, 0.2, 0.75, 0.1]}
    for place in ({"score": [2.0, 1.0, 2.0, 1.0]}, {"pos": [1, 2, 1, 2]}):
        assert asked(pl.DataFrame(items | place)).calls == [{"rel": "valor"}]
