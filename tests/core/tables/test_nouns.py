"""What the names of columns say: nouns with a word of identity, and what is never offered."""

import polars as pl
import pytest

import rankql
from rankql.core.base import nouns
from rankql.core.base.errors import RankqlError
from support.parameters import cycled, few, of_each_kind
from support.paths import ROOT
from support.reading import asked, assert_offered, assert_read, one_line, read, refused

QUERY = {
    **{name: [name] for name in nouns.QUESTIONS},
    **{name: [name] for name in (*nouns.USERS, "topic", "session", "group")},
    **{name: [name] for name in nouns.REQUESTS[:-1]},
}


def tables(query, item, **more):
    """A run and its judgments: RR is .5 in one query and 1 in the other."""
    run = pl.DataFrame(
        {query: ["a", "a", "b", "b"], item: [*"xyzw"], "score": [2.0, 1, 2, 1], **more}
    )
    return run, pl.DataFrame({query: ["a", "b"], item: [*"yz"], "rel": [1, 1]})


@few(8)(
    ("noun", "end"), cycled([*QUERY, "impression"], ["_id", "Key", "-uuid", "_code", " ref", ""])
)
def test_a_query_is_a_noun_with_or_without_a_word_of_identity(noun, end):
    if (noun, end) == ("impression", ""):  # may be a count
        return
    assert read(*tables(f"{noun}{end}", "item"), "RR")["RR"] == 0.75


@few(8)(
    ("noun", "end"),
    cycled([*nouns.ITEMS, *nouns.OTHER_ITEMS, "variant", "model"], ["_id", "Uuid", "_code", ""]),
)
def test_so_is_an_item(noun, end):
    if noun in ("variant", "model", "corpus", "article") and not end:
        return  # those alone are a system, a collection and a text
    assert read(*tables("query", f"{noun}{end}"), "RR")["RR"] == 0.75


def test_other_words_of_items_stand_back():
    """Beside another item they are attributes; two of equal rank ask."""
    run, gold = tables("query", "doc_id", page=["1"] * 4, ad_id=["k"] * 4)
    result = read(run, gold)
    assert (result["RR"], result.columns["run"]["item"]) == (0.75, "doc_id")
    run, gold = tables("query", "hotel_id", listing_id=[*"xyzw"])
    asked(run, gold, match="hotel_id and listing_id of run may both be the item")
    run, gold = tables("query", "hotel", id=[*"xyzw"])
    run = run.with_columns(hotel=pl.lit("Grand"))  # of two that may be it, the one that matches
    found = read(run, gold.rename({"hotel": "id"}))
    assert (found["RR"], found.columns["run"]["item"]) == (0.75, "id")


def test_a_number_of_something_is_offered():
    """Two systems in one file: the number of the system is no query."""
    run, gold = tables("query_number", "doc_number")
    run = pl.concat([run.with_columns(system_number=pl.lit(n)) for n in ("1", "2")])
    gold = gold.rename({"query_number": "query_id", "doc_number": "doc_id"})
    question = asked(run, gold, match="Pass: query='query_number', item=")
    assert question.readings[0].means() == [0.75, 0.75]
    sessions = run.with_columns(user=pl.lit("u"), session_number=pl.col("query_number"))
    users = gold.with_columns(user=pl.lit("u"))
    assert read(
        sessions.drop("query_number").filter(pl.col("system_number") == "1"), users,
        item=["doc_number", "doc_id"],
    ).columns["run"]["query"] == "user"  # fmt: skip


RETURNED = pl.DataFrame({"user": ["u"] * 3, "item": [*"aab"], "quantity": [1, -1, 2]})
SOLD = pl.DataFrame({"user": ["u"] * 3, "item": [*"abc"], "score": [3.0, 2, 1]})
EVENTS = RETURNED.select("user", "item", event=pl.Series(["buy", "return", "buy"]))
SIGNS = {"rel": {"buy": 1, "return": -1}}
LEVELS = [
    {"question": "q1", "retrieved_documents": ["d1", "d2"], "retrieved_chunks": ["d1#2", "d2#1"],
     "relevant_documents": ["d1"], "relevant_chunks": ["d1#1"]},
    {"question": "q2", "retrieved_documents": ["d3", "d4"], "retrieved_chunks": ["d3#2", "d4#1"],
     "relevant_documents": ["d4"], "relevant_chunks": ["d4#1"]},
]  # fmt: skip
LEVELS_OF_OBJECTS = [
    {**{x: y for x, y in row.items() if not x.startswith("retrieved")},
     "results": [{"doc_id": d, "chunk_id": c} for d, c in
                 zip(row["retrieved_documents"], row["retrieved_chunks"], strict=True)]}
    for row in LEVELS
]  # fmt: skip
LOG = pl.DataFrame({"user": ["u"] * 2, "item": [*"ab"], "rating": [1, 0], "timestamp": [5, 6]})
UNKNOWN = tables("a", "b")
OFFERED = {
    "a prediction is no query": (
        pl.DataFrame({"id": [0, 1, 2], "prediction": ["A B C", "D E A", "C B A"]}),
        pl.DataFrame({"id": [0, 1, 2], "answer": ["B", "A", "C"]}), {"metrics": "AP@3"},
        [("'query': 'id'", (1 / 2 + 1 / 3 + 1) / 3)]),
    "grades of several rows": (
        SOLD, RETURNED, {},
        [("max(quantity)", 1), ("sum(quantity)", 0.5), ("{'rel': '1'}", 1)]),
    "two levels of gold: lists": (LEVELS, None, {}, [("", 0.25), ("", 0.75)]),
    "two levels of gold: objects": (LEVELS_OF_OBJECTS, None, {}, [("", 0.25), ("", 0.75)]),
}  # fmt: skip
READ = {
    "the first word of a list": (
        [{"query": "a", "predicted_labels": ["x", "y"], "expected_results": ["y"]},
         {"query": "b", "predicted_labels": ["z", "w"], "expected_results": ["z"]}],
        None, {}, 0.75),
    "fields of one object beside a list": (
        [{"query": "q1", "gold_chunk": {"file": "a", "name": "f"},
          "gold_set": [{"file": "b", "name": "g"}],
          "results": [{"file": "b", "name": "g"}, {"file": "a", "name": "f"}]}], None,
        {"item": ["(results.file, results.name)", "(gold_chunk.file, gold_chunk.name)"]}, 0.5),
    "a sum of one row each": (
        SOLD, RETURNED.unique("item", keep="last", maintain_order=True),
        {"rel": "sum(quantity)"}, 0.5),
    **{f"events of both signs: {time}": (
        SOLD, EVENTS.with_columns(time=pl.Series(time)), SIGNS, value,
        "is left out. The last grade by time counts")
       for time, value in (([1, 2, 3], 0.5), ([2, 1, 3], 1))},
}  # fmt: skip
REFUSED = {
    "unknown names have the shortest form": (
        UNKNOWN[0], UNKNOWN[1].rename({"b": "c"}).with_columns(c=pl.lit("none")), {},
        r"\. Fill in: query='\.\.\.', item='\.\.\.' By hand, "),
    "two levels of gold": (
        LEVELS, None, {}, r"levels: several \w+s of one document count as one document. Which is"),
    "grades of several rows": (SOLD, RETURNED, {}, r"Is quantity the grade of item\?"),
    "a window": (
        SOLD, RETURNED, {"rel": "max(quantity) OVER ()"},
        "must be one SQL expression of the columns of a row"),
    "an expression of rows that repeat": (
        SOLD, RETURNED, {"rel": "quantity + 0"}, "qrels has duplicates"),
    "events of both signs without a time": (
        SOLD, EVENTS, SIGNS, "grades below and above 0 of item 'a', and no column of"),
    "a time: is no score": (LOG, LOG, {}, r"No score column in run\. Fill in: score='\.\.\.' "),
    "a time: is no grade": (
        LOG.drop("rating").with_columns(pos=pl.Series([1, 2])), None, {},
        r"No grade column in run\. Fill in: rel='\.\.\.' "),
}  # fmt: skip


@of_each_kind(OFFERED)
def test_offered_calls(kind, case):
    assert_offered(*OFFERED[case])


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


@of_each_kind(REFUSED)
def test_what_is_refused(kind, case):
    run, gold, options, message = REFUSED[case]
    refused(run, gold, **options, match=message)


PAGED = pl.DataFrame({"query": ["q"] * 4, "page": [1, 1, 2, 2], "rank": [1, 2, 1, 2]})


@few(2)("names", [["doc_id"], [], ["url"], ["link"]])
def test_ranks_that_begin_anew_on_each_page(names):
    """A column with another value in each row is no system, and no part of a key."""
    run = PAGED.with_columns(**{x: pl.Series([*"abcd"]) for x in names})
    gold = pl.DataFrame({"query": ["q"], "doc_id": ["c"], "rel": [1]})
    if names != ["doc_id"]:
        run, gold = run.with_columns(rel=pl.Series([0, 0, 1, 0])), None
    error = refused(run, gold, match="rank begins again on each page of results")
    pos = str(error).partition("pos=")[2].strip("'")
    assert read(run, gold, pos=pos)["RR"] == pytest.approx(1 / 3)


def test_what_else_answers_a_further_question_is_said():
    run = pl.DataFrame({"user": ["u"] * 3, "item": [*"abc"], "rank": [0, 1, 2]})
    log = pl.DataFrame({"user": ["u"] * 2, "item": [*"ab"], "event": ["view", "buy"]})
    question = asked(run, log, match="rank counts from 0 in each query")
    other = "Or pass a grade for each value: rel=('event', {'buy': ..., 'view': ...})."
    assert str(question).endswith(f"Pass:\n    pos='rank + 1', rel='1'\n\n{other}")
    graded = read(run, log, pos="rank + 1", rel={"buy": 1, "view": 0})
    assert graded["RR"] == 0.5


def test_queries_without_a_hit_are_said():
    shown = pl.DataFrame({"query": [*"aabb"], "rank": [1, 2, 1, 2], "hit": [0, 1, 0, 0]})
    result = rankql.evaluate(shown, metrics=["RR", "nDCG@2"], rel="hit")
    note = "RR and nDCG@2 leave out 1 of 2 rankings without a relevant item; undefined='zero' "
    note += "counts them as 0"
    assert result["RR"] == 0.5 and note in result.notes
    zero = rankql.evaluate(shown, metrics="RR", rel="hit", undefined="zero")
    assert zero["RR"] == 0.25 and note not in zero.notes


MISSED = pl.DataFrame({
    "query": [q for q in range(8) for _ in range(3)],
    "item": [f"d{q}{place}" for q in range(8) for place in range(3)], "score": [3.0, 2, 1] * 8,
})  # fmt: skip
GOLD = pl.DataFrame({"query": range(8), "item": [f"d{q}1" for q in range(8)], "rel": 1})


@few(2)("kind", [pl.Int64, pl.String])
@pytest.mark.parametrize("gap", [1, -1])
def test_queries_one_apart_are_told(gap, kind):
    gold = GOLD.with_columns(pl.col("query") + gap).cast({"query": kind})
    run = MISSED.cast({"query": kind})
    error = refused(run, gold, match="judged for other queries, of the number before")
    (call,) = error.remedies
    assert read(run, gold, **call)["RR"] == 0.5


def test_a_run_without_a_hit_can_be_compared():
    other = GOLD.with_columns(pl.col("query").reverse())
    message = "judged for other queries: if the run has no hit, none_judged='zero' keeps its values"
    refused(MISSED, other, match=message)
    assert read(MISSED, other, none_judged="zero")["RR"] == 0
    worse = MISSED.with_columns(item="no " + pl.col("item"))
    compared = rankql.compare(
        {"a": MISSED, "b": worse}, qrels=GOLD, metrics="RR", none_judged="zero"
    )
    assert "-0.5000" in str(compared)
    with pytest.raises(RankqlError, match="No item of run 'b' is judged"):
        rankql.compare({"a": MISSED, "b": worse}, qrels=GOLD, metrics="RR")
    refused(MISSED, GOLD, none_judged="no", match="none_judged must be 'error' or 'zero', not no")


def test_the_page_lists_the_nouns():
    page = (ROOT / "docs" / "reference" / "columns.md").read_text()
    for names in (nouns.QUESTIONS, nouns.USERS, nouns.REQUESTS, nouns.ITEMS, nouns.OTHER_ITEMS,
                  nouns.SYSTEMS, nouns.IDENTITY):  # fmt: skip
        assert ", ".join(names) in page


def test_a_run_without_judgments_is_not_its_own():
    """rel='1' would make each retrieved item relevant, and all values the best there are."""
    text = "run has no grades, and there are no judgments.\n\nPass qrels=."
    scores = {"a": {"x": 2.0, "y": 1.0}}
    frame = pl.DataFrame({"query": ["a"], "item": ["x"], "rank": [1]})
    for run in (scores, {"a": ["x", "y"]}, frame):
        question = asked(run)
        assert str(question).startswith(text) and not question.calls
    with pytest.raises(RankqlError, match=r"values of your own, .* by rankql\.read_values"):
        rankql.compare({"new": {"a": 2.0, "b": 1.0}, "old": {"a": 1.0, "b": 2.0}}, metrics="RR")
    users = pl.DataFrame({"user_id": [*"ab"], "variant": [*"xy"], "ctr": [0.1, 0.2]})
    hint = r"rel='\.\.\.'\n\nOr pass qrels=\.\n\ncompare and gate take values of your own"
    with pytest.raises(RankqlError, match=hint):
        rankql.compare(users)
    for ranking in (users.rename({"ctr": "score"}), users.with_columns(page=pl.Series(["p", "q"]))):
        assert "values of your own" not in one_line(refused(ranking))
