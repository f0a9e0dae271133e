"""Which columns are read: tiers of names, values where names contend, else an error that asks."""

import json

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main

RUN = [("t2", ["b", "x"]), ("t1", ["x", "a"]), ("t3", ["b", "a"])]
GOLD = [("t1", ["a"]), ("t2", ["b"]), ("t3", ["b"])]


def write(path, data):
    """A file of JSON, of one object per line, or of CSV."""
    if path.suffix == ".csv":
        path.write_text(data)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in data))
    else:
        path.write_text(json.dumps(data))
    return path


def cli(command, *files, **options):
    """The exit code and what a command prints as JSON, or its error."""
    texts = {name: x if isinstance(x, str) else ",".join(x) for name, x in options.items()}
    arguments = [x for name, text in texts.items() for x in (f"--{name}", text)]
    done = CliRunner().invoke(main, [command, *map(str, files), *arguments, "--format", "json"])
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else done.stderr


def both_ways(metric, files, **options):
    """The mean in Python, which the command line equals."""
    result = rankql.evaluate(*files, *[None] * (2 - len(files)), metrics=metric, **options)
    code, printed = cli("eval", *files, metric=metric, **options)
    assert code == 0, printed
    assert printed["table"][0]["mean"] == pytest.approx(result[metric])
    return result


def refused(message, files, **options):
    """Both ways give this error."""
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(*files, *[None] * (2 - len(files)), metrics="RR", **options)
    assert cli("eval", *files, metric="RR", **options)[0] == 2


# Two tables of lists are joined by a column, never by their row numbers.

KEYS = ["id", "task_id", "_id", "uuid", "example_id", "account_id", "member_id", "name", "taskId"]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("other", [None, "id", "question"])
def test_lists_in_two_tables_are_joined_by_the_best_column_of_both(key, other, tmp_path):
    run = write(tmp_path / "run.jsonl", [{key: q, "retrieved": ids} for q, ids in RUN])
    gold = [{other or key: q, "relevant": ids} for q, ids in GOLD]
    result = both_ways("RR", [run, write(tmp_path / "gold.jsonl", gold)])
    assert result["RR"] == pytest.approx(5 / 6)
    assert [x["query"] for x in result.columns.values()] == [key, other or key]


def test_a_run_equals_its_own_reversed_copy(tmp_path):
    rows = [{"id": i, "retrieved": [f"d{i % 7}", "x"], "relevant": [f"d{i % 3}"]} for i in range(9)]
    files = [write(tmp_path / f"{name}.jsonl", each) for name, each in
             (("a", rows), ("b", rows[::-1]))]  # fmt: skip
    pairs = rankql.compare(files, metrics="RR").pairs
    assert pairs["difference"].to_list() == [0]
    code, printed = cli("compare", *files, metric="RR")
    assert code == 0 and printed["table"][0]["difference"] == 0


def test_row_numbers_join_no_tables(tmp_path):
    run = write(tmp_path / "run.jsonl", [{"retrieved": ids} for _, ids in RUN])
    refused("^No query column in run", [run, write(tmp_path / "g.jsonl", [{"relevant": ["a"]}])])


def test_submissions_of_kaggle_with_an_id(tmp_path):
    run = write(tmp_path / "run.csv", "id,prediction\n0,a b\n1,c b\n2,e b\n")
    gold = write(tmp_path / "gold.csv", "user_id,item_id\n0,a\n1,b\n2,b\n")
    assert both_ways("HR@1", [run, gold])["HR@1"] == pytest.approx(1 / 3)
    assert both_ways("HR@1", [run, gold], query=["id", "user_id"])["HR@1"] == pytest.approx(1 / 3)
    refused("^query='user_id': no column of that name in run", [run, gold], query="user_id")


# Fields of objects contend, and values decide.


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("id", {"document_id": "D1"}),
        ("chunk_id", {"document_id": "D1", "similarity": 0.5}),
        *((name, {text: "A red shoe"}) for name in ("id", "doc_id")
          for text in ("chunk", "product", "doc", "title")),
        ("docid", {"score": 0.5, "doc": {"segment": "some text"}}),
        ("url", {"title": "A page"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["one", "two", "csv"])
def test_the_field_whose_values_match_is_the_item(name, fields, form, tmp_path):
    rows = [
        {"question": f"q{i}", "retrieved": [{name: f"c{i}", **fields}, {name: "z", **fields}]}
        for i in range(3)
    ]
    gold = [{"question": f"q{i}", "relevant": [f"c{i}"]} for i in range(3)]
    if form == "one":
        both = [row | judged for row, judged in zip(rows, gold, strict=True)]
        files = [write(tmp_path / "both.jsonl", both)]
    else:
        lines = "".join(f"{x['question']},{x['relevant'][0]}\n" for x in gold)
        judged = gold if form == "two" else f"question,{name}\n{lines}"
        path = tmp_path / ("gold.csv" if form == "csv" else "gold.jsonl")
        files = [write(tmp_path / "run.jsonl", rows), write(path, judged)]
    result = both_ways("RR", files)
    assert result["RR"] == 1
    assert result.columns["run"]["item"] == f"retrieved.{name}"


CONTESTED = pl.DataFrame(
    [
        {
            "question": f"q{i}",
            "retrieved": [{"id": f"c{i}", "document_id": "D"}],
            "relevant": [f"c{i}"],
        }
        for i in range(6)
    ]
)


def test_gate_and_monitor_ask_to_name_what_values_decided(tmp_path):
    result = rankql.evaluate(CONTESTED, metrics="RR")
    option = "item=['retrieved.id', 'relevant'] (CLI: --item retrieved.id,relevant)"
    assert result.columns["run"]["chosen by values"] == option
    path = tmp_path / "run.parquet"
    CONTESTED.write_parquet(path)
    with pytest.raises(RankqlError, match=r"values decide which columns.*--item retrieved.id"):
        rankql.gate(path, minimum="RR>=1")
    assert rankql.gate(path, minimum="RR>=1", item=["retrieved.id", "relevant"]).passed
    days = pl.concat(
        CONTESTED.with_columns(day=pl.date(2026, 1, 1) + pl.duration(days=i)) for i in range(3)
    )
    with pytest.raises(RankqlError, match=r"values decide which columns"):
        rankql.monitor(days, metrics="RR")
    done = CliRunner().invoke(main, ["gate", str(path), "--min", "RR>=1"])
    assert done.exit_code == 2 and "--item retrieved.id,relevant" in done.stderr


def test_one_decision_holds_for_all_runs():
    """The better run matches id, the worse document_id, in fewer queries."""
    worse = pl.DataFrame(
        [
            {"question": f"q{i}", "relevant": [f"c{i}"],
             "retrieved": [{"id": f"c{i}" if i > 4 else "y",
                            "document_id": f"c{i}" if i < 2 else "D"}]}
            for i in range(6)
        ]
    )  # fmt: skip
    runs = {"better": CONTESTED, "worse": worse}
    result = rankql.evaluate(runs, None, "RR", undefined="zero")
    assert {x["item"] for label, x in result.columns.items() if "run" in label} == {"retrieved.id"}


def test_whole_numbers_count_only_if_they_match_more_than_by_chance():
    rows = [{"query": q, "shelf_id": q % 3, "store_id": q % 2, "score": 1.0} for q in range(40)]
    gold = [{"query": q, "shelf_id": (q + 1) % 3, "store_id": (q + 1) % 2} for q in range(40)]
    with pytest.raises(RankqlError, match=r"^No item column"):
        rankql.evaluate(pl.DataFrame(rows), pl.DataFrame(gold), "RR", rel="1")


def test_the_error_names_columns_of_another_tier_that_match():
    run = pl.DataFrame({"query_id": [f"a{i}" for i in range(6)], "item": "x", "score": 1.0})
    qrels = run.select(task_id="query_id", query_id="b" + pl.col("query_id"), item="item", rel=1)
    with pytest.raises(RankqlError, match=r"task_id of qrels matches: query=\['query_id', 'task"):
        rankql.evaluate(run, qrels, "RR")


def test_a_query_text_beside_its_id_is_not_the_query():
    run = pl.DataFrame({"query_id": ["q1", "q1", "q2"], "query": ["mugs", "mugs", "red shoe"],
                        "item": ["x", "y", "z"], "score": [2.0, 1.0, 1.0]})  # fmt: skip
    qrels = pl.DataFrame({"query": ["q1", "q2"], "item": ["y", "z"], "rel": 1})
    assert rankql.evaluate(run, qrels, "RR")["RR"] == 0.75


# Splits, keys, padding, systems

LOG = pl.DataFrame({
    "user": ["u1"] * 4 + ["u2"] * 4, "item": [*"abcdbaef"], "time": [1, 2, 3, 4] * 2,
    "rating": 1, "event": "buy", "clicks": 2,
})  # fmt: skip
TOP = {"u1": ["d", "x"], "u2": ["f", "y"]}


@pytest.mark.parametrize(
    ("columns", "rel"),
    [
        (["rating"], None),
        ([], None),
        ([], "1"),
        (["event"], {"buy": 3, "click": 1}),
        (["clicks"], "clicks - 1"),
    ],
)
@pytest.mark.parametrize("split", [rankql.leave_one_out, rankql.time_split])
def test_a_split_is_one_whatever_gives_the_grades(columns, rel, split, tmp_path):
    options = {} if split is rankql.leave_one_out else {"since": 4}
    log = split(LOG.select("user", "item", "time", *columns), **options)
    result = rankql.evaluate(TOP, log, "R@2", rel=rel)
    assert result["R@2"] == 1 and result.columns["train"]["split"] == "train"
    test = rankql.evaluate(TOP, log.filter(split="test"), "R@2", rel=rel)
    assert test["R@2"] == 1 and "train" not in test.columns
    log.write_csv(tmp_path / "log.csv")
    named = "buy=3,click=1" if isinstance(rel, dict) else rel
    files = [write(tmp_path / "run.json", TOP), tmp_path / "log.csv"]
    code, printed = cli("eval", *files, metric="R@2", **({"rel": named} if rel else {}))
    assert code == 0 and printed["table"][0]["mean"] == 1


def test_parts_of_queries_are_judgments_and_other_parts_ask():
    part = pl.when(pl.col("user") == "u1").then(pl.lit("train")).otherwise(pl.lit("test"))
    result = rankql.evaluate(TOP, LOG.select("user", "item", "rating", split=part), "R@2")
    assert result["R@2"] == 0.25
    assert "qrels: each user is in one part of split (test, train)" in result.notes[0]
    log = rankql.leave_one_out(LOG).with_columns(pl.col("split").replace("train", "valid"))
    with pytest.raises(RankqlError, match=r"test, valid\. Keep the rows with split = 'test'$"):
        rankql.evaluate(TOP, log, "R@2")


def test_ratings_with_times_are_not_trec(tmp_path):
    """MovieLens: user, item, rating, time between tabs, without a header."""
    rows = [(1, 7, 5, 881250949), (2, 8, 3, 881250950), (3, 9, 4, 881250951)]
    path = tmp_path / "u1.test"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    run = write(tmp_path / "run.json", {"1": ["7"], "2": ["x", "8"], "3": ["x"]})
    refused(r"times in its last column.*columns=\['query', 'item', 'rel', 'time'\]", [run, path])
    names = ["query", "item", "rel", "time"]
    assert both_ways("RR", [run, path], columns=names)["RR"] == 0.5


def test_padding_is_refused_with_the_expression_that_drops_it(tmp_path):
    rows = [{"query": "0", "retrieved": [8, 2, -1], "relevant": [3, -1, -1]}]
    path = write(tmp_path / "r.jsonl", rows)
    drop = "list_filter({}, lambda x: x <> -1)".format
    refused(r"retrieved has -1.*item='list_filter\(retrieved, lambda x: x <> -1\)'$", [path])
    both = [drop("retrieved"), drop("relevant")]
    assert both_ways("Success", [path], item=both)["Success"] == 0
    files = [write(tmp_path / f"{name}.json", {"0": rows[0][name]})
             for name in ("retrieved", "relevant")]  # fmt: skip
    refused("^run: item has -1", files)


@pytest.mark.parametrize("rows", ["query,item\n0,3\n0,-1\n", pl.DataFrame(
    {"query": [0, 0], "item": [3, -1]})])  # fmt: skip
def test_padding_in_rows_is_refused_in_judgments_and_no_hit_in_runs(rows, tmp_path):
    run = pl.DataFrame({"query": [0, 0, 0], "item": [8, 2, -1], "pos": [1, 2, 3]})
    gold = write(tmp_path / "gold.csv", rows) if isinstance(rows, str) else rows
    with pytest.raises(RankqlError, match=r"^qrels: item has -1"):
        rankql.evaluate(run, gold, "Success")
    assert rankql.evaluate(run, {0: {3: 1}}, "Success")["Success"] == 0
    hashes = {0: {-1: 1, -7: 1}}  # ids below 0 are ids
    assert rankql.evaluate({0: [-1, -7]}, hashes, "P@2")["P@2"] == 1


@pytest.mark.parametrize("score", [float, str])
@pytest.mark.parametrize("ids", ["ab", [1, 2]])
def test_pairs_in_lists_are_ids_and_numbers(score, ids, tmp_path):
    pairs = [[ids[0], score(0.5)], [ids[1], score(0.7)]]  # not in order: numbers rank
    run = write(tmp_path / "run.jsonl", [{"query": "q", "retrieved": pairs}])
    gold = write(tmp_path / "gold.jsonl", [{"query": "q", "relevant": [[ids[0], 3], [ids[1], 1]]}])
    assert both_ways("RR(rel=2)", [run, gold])["RR(rel=2)"] == 0.5
    for wrong in ([[ids[0], 0.5, 1]], [[ids[0], "x"]]):
        rows = [{"query": "q", "retrieved": wrong}]
        refused("^run: retrieved must be a list of ids", [write(tmp_path / "w.jsonl", rows), gold])


def test_an_id_is_the_query_where_its_text_repeats(tmp_path):
    sides = [[{"id": q, "query": "red", name: ids} for q, ids in rows]
             for name, rows in (("retrieved", RUN), ("relevant", GOLD))]  # fmt: skip
    files = [write(tmp_path / f"{i}.jsonl", rows) for i, rows in enumerate(sides)]
    assert both_ways("RR", files)["RR"] == pytest.approx(5 / 6)
    assert both_ways("RR", files, query="id")["RR"] == pytest.approx(5 / 6)
    refused("several rows for query 'red'.*or pass query='id'", files, query="query")


@pytest.mark.parametrize(("name", "systems"), [("system", 2), ("ranker", 2), ("variant", 1)])
def test_a_query_with_several_systems_and_scores_has_a_ranking_of_each(name, systems):
    rows = [("A", "q", "a", 0.9), ("A", "q", "x", 0.8), ("B", "q", "y", 0.7), ("B", "q", "b", 0.6)]
    run = pl.DataFrame(rows, schema=[name, "query", "item", "score"], orient="row")
    result = rankql.evaluate(run, {"q": {"a": 1, "b": 1}}, "RR", undefined="zero")
    means = sorted(result.per_query["RR"])
    assert means == ([0.5, 1] if systems == 2 else [1])


IMPRESSIONS = "session,query_text,doc_id,position\ns1,red,x,1\ns1,red,y,2\ns2,red,y,1\ns2,red,x,2\n"


def test_judgments_of_a_text_hold_for_all_its_sessions(tmp_path):
    run = write(tmp_path / "impressions.csv", IMPRESSIONS)
    gold = write(tmp_path / "judgements.csv", "query_text,doc_id,grade\nred,x,1\n")
    refused(r"queries: query=\['session', 'query_text'\]", [run, gold])
    key = ["session", "query_text"]
    result = both_ways("nDCG", [run, gold], query=key)
    assert result.per_query["nDCG"].to_list() == pytest.approx([1, 0.63093], abs=1e-5)
    said = "session, query_text (judgments of query_text hold for each session)"
    assert result.columns["qrels"]["query"] == said
    assert rankql.evaluate(run, gold, "nDCG", query=key[::-1]).per_query.height == 2


def test_queries_of_one_text_are_clusters():
    run = pl.DataFrame([(f"s{i}", f"t{i % 3}", "x", 1) for i in range(9)],
                       ["session", "query_text", "doc_id", "position"], orient="row")  # fmt: skip
    qrels = pl.DataFrame({"query_text": ["t0", "t1", "t2"], "doc_id": [*"xyx"], "grade": 1})
    options = {"query": ["session", "query_text"]}
    (note,) = rankql.evaluate(run, qrels, "RR", **options).notes
    assert note.startswith("Queries with the same query_text are not independent: pass cluster=")
    clustered = rankql.evaluate(run, qrels, "RR", cluster="query_text", **options)
    assert clustered.notes[0].startswith("Queries are clustered by query_text: 3 clusters")


def test_systems_that_share_no_item_share_positions(tmp_path):
    rows = "query,model,item,pos\na,m,x,1\na,m,y,2\na,n,z,1\na,n,w,2\n"
    files = [write(tmp_path / "run.csv", rows), write(tmp_path / "gold.json", {"a": ["x", "w"]})]
    summary = rankql.evaluate(*files, "RR").summary
    assert summary.select("system", "mean").rows() == [("m", 1), ("n", 0.5)]
    assert [x["mean"] for x in cli("eval", *files, metric="RR")[1]["table"]] == [1, 0.5]
    same = write(tmp_path / "same.csv", rows.replace("n,w,2", "n,w,1"))  # no ranking by any
    with pytest.raises(RankqlError, match="duplicates"):
        rankql.evaluate(same, files[1], "RR")


# Hints and the command line

HITS = [{"question": "q1", "gold": ["a"], "hits": ["x", "a"]},
        {"question": "q2", "gold": ["b"], "hits": ["x", "y"]}]  # fmt: skip


def test_hints_name_no_order_of_lists(tmp_path):
    path = write(tmp_path / "hits.jsonl", HITS)
    assert both_ways("RR", [path])["RR"] == 0.25  # words of names
    other = [{"question": x["question"], "aa": x["gold"], "bb": x["hits"]} for x in HITS]
    path = write(path, other)
    refused(r"item=\[RETRIEVED, RELEVANT\] .* two of: aa, bb$", [path])
    assert both_ways("RR", [path], item=["bb", "aa"])["RR"] == 0.25


@pytest.mark.parametrize("item", [None, "bb,aa"])
def test_tables_with_both_lists_are_compared_without_judgments(item, tmp_path):
    names = ("aa", "bb") if item else ("relevant", "retrieved")
    rows = [{"question": x["question"], names[0]: x["gold"], names[1]: x["hits"]} for x in HITS]
    worse = [{**row, names[1]: row[names[1]][::-1]} for row in rows]
    files = [write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", worse)]
    options = {"metric": "RR", **({"item": item} if item else {})}
    code, printed = cli("compare", *files, **options)
    assert code == 0 and {x["system"] for x in printed["summary"]} == {"a", "b"}


def test_a_name_makes_a_run_and_one_system_is_an_error(tmp_path):
    run, gold = write(tmp_path / "run.json", TOP), write(tmp_path / "gold.json", TOP)
    code, error = cli("compare", run, gold, metric="RR")
    assert code == 2 and "gold.json is read as the judgments" in error
    code, error = cli("compare", f"a={run}", f"b={gold}", metric="RR")
    assert code == 2 and "grade" in error  # two runs without judgments


# Wrong refusals


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("lang", ["en"] * 6),
        ("page", [1, 2, 3] * 2),
        ("chunk_id", [3, 4] * 3),
        ("timestamp", [3, 4] * 3),
        ("source", ["a", "b"] * 3),
        ("title", ["A", "B", "C"] * 2),
        ("year", [2024, 2025] * 3),
        ("shelf", [0, 1, 2] * 2),  # a function of the id
    ],
)
def test_fields_that_are_no_grades_are_not_asked_about(field, values, tmp_path):
    rows = [
        {"question": f"q{i}", "retrieved": [f"x{i}", f"d{i % 3}"],
         "relevant": [{"id": f"d{i % 3}", field: values[i]}]}
        for i in range(6)
    ]  # fmt: skip
    assert both_ways("RR", [write(tmp_path / "r.jsonl", rows)])["RR"] == 0.5


@pytest.mark.parametrize("repeats", [True, False])
def test_a_field_of_few_numbers_is_asked_about(repeats, tmp_path):
    rows = [
        {"question": f"q{i}", "retrieved": ["d0"],
         "relevant": [{"id": "d0" if repeats else f"d{i}", "usefulness": i % 4}]}
        for i in range(8)
    ]  # fmt: skip
    path = write(tmp_path / "r.jsonl", rows)
    refused("is usefulness the grade", [path])
    with pytest.raises(RankqlError, match="is usefulness the grade"):
        rankql.check(path)
    assert both_ways("RR", [path], rel="1")["RR"] == (1 if repeats else 1 / 8)


def test_two_questions_of_equal_text(tmp_path):
    rows = [{"question": "what is x?", "retrieved": ["a", "b"], "relevant": ["a"]},
            {"question": "what is x?", "retrieved": ["c", "d"], "relevant": ["d"]}]  # fmt: skip
    path = write(tmp_path / "r.jsonl", rows)
    result = both_ways("RR", [path])
    assert result["RR"] == 0.75 and "question repeats in rows that differ" in result.notes[0]
    refused("several rows for query", [write(path, rows * 2)])


def test_lines_that_hold_only_objects(tmp_path):
    rows = [
        {"inputs": {"question": f"q{i}"}, "outputs": {"retrieved": [{"id": x} for x in ids]},
         "reference_outputs": {"gold_chunk_ids": ["b"]}}
        for i, ids in enumerate(["ab", "b"])
    ]  # fmt: skip
    result = both_ways("RR", [write(tmp_path / "r.jsonl", rows)])
    assert result["RR"] == 0.75
    assert result.columns["run"] | {"pos": ""} == {
        "query": "inputs.question", "item": "outputs.retrieved.id", "pos": ""
    }  # fmt: skip


KEYED = {
    "k1": {"question": "what?", "gold_inds": ["b"], "retrieved": ["a", "b"]},
    "k2": {"question": "why?", "gold_inds": ["c"], "retrieved": ["c"]},
}
RUN_OF_U1 = {"u1": ["n2", "n1"], "u2": ["n3", "n1"]}
JUDGED = {"u1": ["n1"], "u2": ["n3"]}


@pytest.mark.parametrize(
    ("run", "gold", "part"),
    [
        (RUN_OF_U1, {"queries": {"u1": "what is a?", "u2": "b?"}, "corpus": {"n1": "text"},
                     "relevant_docs": JUDGED}, "relevant_docs"),
        ({"system": "x", "queries": RUN_OF_U1}, JUDGED, "queries"),
        ({"answers": [{"id": q, "retrieved": ids} for q, ids in RUN_OF_U1.items()]},
         [{"id": q, "relevant": ids} for q, ids in JUDGED.items()], "answers"),
        (RUN_OF_U1, {"name": "esci", "judgmentRatings": [
            {"query": q, "ratings": [{"docId": x, "rating": "1.0"} for x in ids]}
            for q, ids in JUDGED.items()]}, "judgmentRatings"),
        ({"_comment": "of today", **RUN_OF_U1}, {"_comment": "ours", **JUDGED}, None),
        ({q: [[x, 1 / i] for i, x in enumerate(ids, 1)] for q, ids in RUN_OF_U1.items()},
         {q: [[x, 2] for x in ids] for q, ids in JUDGED.items()}, None),
        ({q: [{"id": x, "text": "a b c d"} for x in ids] for q, ids in RUN_OF_U1.items()},
         JUDGED, None),
        (KEYED, None, None),  # objects by key are rows
        ([{"_comment": "of today"}, *KEYED.values()], None, None),
    ],
)  # fmt: skip
def test_wrapped_files_are_read_by_their_part(run, gold, part, tmp_path):
    suffix = "jsonl" if isinstance(run, list) else "json"
    files = [write(tmp_path / f"{i}.{suffix}", x) for i, x in enumerate((run, gold)) if x]
    result = both_ways("RR", files)
    assert result["RR"] == 0.75
    assert part in (None, *(x.get("part") for x in result.columns.values()))


@pytest.mark.parametrize("ids", [list, lambda x: [{"id": i, "document_id": "D"} for i in x]])
def test_interactions_of_training_are_lists_too(ids):
    run = pl.DataFrame({"user": [1, 1, 2], "item": [*"abc"], "score": [3.0, 2.0, 1.0]})
    qrels = pl.DataFrame({"user": [1, 2], "item": ["a", "c"], "rel": 1})
    rows = pl.DataFrame({"user": [1, 1, 2], "item": [*"xac"]})
    lists = [{"user": 1, "relevant": ids("xa")}, {"user": 2, "relevant": ids("c")}]
    expected = rankql.evaluate(run, qrels, "Novelty@2", train=rows)["Novelty@2"]
    if ids is list:
        result = rankql.evaluate(run, qrels, "Novelty@2", train=pl.DataFrame(lists))
        assert result["Novelty@2"] == expected
    else:  # without a run, names alone say which field is the id
        result = rankql.evaluate(run, qrels, "HR@1", train=pl.DataFrame(lists))
        assert result.columns["train"]["item"] == "relevant.document_id"


def test_each_run_has_its_own_field_of_relevant_ids():
    other = CONTESTED.with_columns(
        retrieved=pl.col("retrieved").list.eval(pl.element().struct.field("id")),
        relevant=pl.col("relevant").list.eval(pl.struct(doc_id=pl.element())),
    )
    result = rankql.evaluate({"a": CONTESTED, "b": other}, None, "RR")
    assert result.summary["mean"].to_list() == [1, 1]


def test_a_key_that_does_not_repeat_within_a_query_wins():
    """Chunks of one document in both tables: the document matches too."""
    run = pl.DataFrame({"query": [*"aab"], "doc_id": "D", "chunk_id": [*"xyx"], "score": [2, 1, 1]})
    qrels = pl.DataFrame({"query": [*"ab"], "doc_id": "D", "chunk_id": [*"yx"], "rel": 1})
    result = rankql.evaluate(run, qrels, "RR")
    assert result["RR"] == 0.75 and result.columns["run"]["item"] == "chunk_id"
