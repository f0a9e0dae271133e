"""One row per query, with lists of ids, as tools for RAG write them; positions by rows."""

import json
from datetime import date

import duckdb
import numpy
import pandas
import polars as pl
import pytest

import rankql
from support import calls, metric_engines
from support.parameters import cycled, few, of_each_kind
from support.reading import assert_read, read, refused
from support.samples import write_rows, written

# q1 finds its only relevant id at position 2; q2 one of two, at position 1.
ROWS = [
    {"query": "q1", "retrieved": ["d1", "d2", "d3"], "relevant": ["d2"], "lang": "en"},
    {"query": "q2", "retrieved": ["d1", "d4"], "relevant": ["d1", "d9"], "lang": "de"},
]
LISTS = pl.DataFrame(ROWS)
RETRIEVED, RELEVANT = LISTS.drop("relevant", "lang"), LISTS.drop("retrieved")
RUN = LISTS.explode("retrieved").select(
    "query", item="retrieved", pos=pl.int_range(pl.len()).over("query") + 1
)
QRELS = LISTS.explode("relevant").select("query", item="relevant", rel=1)
EXPECTED = read(RUN, QRELS).rankings


@few(2)("form", ["frame", "pandas", "arrow", "parquet", "jsonl", "table", "objects"])
def test_lists_are_evaluated_like_rows(form, tmp_path):
    lists = LISTS
    if form == "objects":
        hits = [[{"id": item, "score": 0.5} for item in row["retrieved"]] for row in ROWS]
        lists, form = LISTS.with_columns(retrieved=pl.Series(hits)), "frame"
    data, con = written(lists, form, tmp_path)
    result = read(data, con=con)
    assert result.rankings == EXPECTED and result.notes == []
    item = "retrieved.id" if lists is not LISTS else "retrieved"
    columns = {"query": "query", "item": item, "pos": "order in retrieved", "not read": "lang"}
    columns["not read"] = "retrieved.score, lang" if "." in item else "lang"
    assert result.columns["run"] == columns
    assert result.columns["qrels"]["rel"] == "1 for every row"


def two(name, values, relevant=False):
    """Two queries with objects of ids x and y and a field of theirs, retrieved or relevant."""
    hits = [[{"id": x, name: v} for x, v in zip("xy", each, strict=True)] for each in values]
    other = [["x", "y"]] * len(hits) if relevant else [["x"]] * len(hits)
    names = ("relevant", "retrieved") if relevant else ("retrieved", "relevant")
    return pl.DataFrame({"query": [*"ab"][: len(hits)], names[0]: hits, names[1]: other})


CELLS = pl.DataFrame({"query": ["a", "b"], "bought": ["d1 d2", "d3"]})
FOUND = {"a": ["d2", "x"], "b": ["d3"]}
KEYS = LISTS.rename({"query": "key", "retrieved": "hits", "relevant": "right"})
PLACED = [{"query": "q", "hits": [
    {"id": x, "rank": pos, "rel": rel} for x, pos, rel in (("b", 2, 0), ("c", 3, 2), ("a", 1, 0))
]}]  # fmt: skip
HANDBOOK = {"a": ["Employee Handbook.pdf", "x"], "b": ["d3"]}
SHOES = {"a": ["red shoe", "shoe"], "b": ["d3"]}


def labelled(*labels, field="label"):
    """Ids 1 and 2 with a label, of which only the second is retrieved."""
    ids = [{"document_id": x, field: label} for x, label in zip("12", labels, strict=True)]
    return pl.DataFrame([{"question": "q", "retrieved": ["2", "6"], "relevant": ids}])


R5 = {"metrics": "R@5"}
READ = {
    **{f"one table has lists: {place}": (run, qrels, {}, 0.75)
       for place, (run, qrels) in enumerate(
           [(RETRIEVED, RELEVANT), (RETRIEVED, QRELS), (RUN, RELEVANT)])},
    "one table has lists: and the other one judgment": (LISTS, QRELS.head(1), {}, 0.5),
    **{f"names of tools: {tool}": (
        LISTS.rename({"query": query, "retrieved": retrieved, "relevant": relevant}), None, {},
        0.75, f"'item': '{retrieved}'")
       for tool, query, retrieved, relevant in (
           ("Ragas", "user_input", "retrieved_context_ids", "reference_context_ids"),
           ("MLflow", "question", "retrieved_doc_ids", "ground_truth_doc_ids"),
           ("LlamaIndex", "query", "retrieved_ids", "expected_ids"),
           ("Haystack", "question", "retrieved_documents", "ground_truth_documents"))},
    "names by keyword": (KEYS, None, {"query": "key", "item": ["hits", "right"]}, 0.75),
    # A name that only one of the tables has.
    "a name of one table by keyword": (
        RETRIEVED, RELEVANT.rename({"relevant": "right"}), {"item": "right"}, 0.75),
    # Names of fields and columns are never part of a template.
    **{f"scores in another column: {field}": (
        pl.DataFrame({"query": ["a", "b"], scores: [[1.0, 2.0], [3.0]],
                      "retrieved": [[{field: "x", "t": 1}, {field: "y", "t": 2}],
                                    [{field: "x", "t": 3}]]}),
        pl.DataFrame({"query": ["a", "b"], "doc_id": ["x", "x"], "rel": 1}),
        {"item": (f"retrieved.{field}", "doc_id"), "score": scores}, 0.75)
       for field, scores in (("doc_id", "scores"), ("idx_id", "scores"), ("id", "LISTS"))},
    "ranked objects with grades": (
        PLACED, None, {"score": "hits.rank", "descending": False}, 1 / 3),
    "objects with grades in order": (PLACED, None, {"order": "list"}, 1 / 2),
    **{f"labels of relevant ids: {field} {type(rel).__name__}": (
        labelled("yes", "no", field=field), None, {"rel": rel}, 0, f"{field} (yes: 2, no: 0)")
       for field in ("label", "event")
       for rel in ({"yes": 2, "no": 0}, (field, {"yes": 2, "no": 0}))},
    "labels yes and no of relevant ids": (labelled("yes", "no"), None, {}, 0),
    "labels of an id": (two("says", [("No", "Yes")] * 2, True), None, {}, 1),
    # Texts that do not repeat, and times.
    "titles of relevant ids": (
        two("title", [("A", "B"), ("C", "D")], True), None, {}, 1),
    "times of relevant ids": (two("time", [("1", "2")] * 2, True), None, {}, 1),
    **{f"the order of a field: {field}": (two(field, [values]), None, {}, 1)
       for field, values in (("_distance", (0.1, 0.9)), ("score", (0.9, 0.1)), ("rank", (1, 2)))},
    "the order of the list": (
        two("score", [(0.1, 0.9)]), None, {"order": "list"}, 1),
    "the order of the score": (
        two("score", [(0.1, 0.9)]), None, {"score": "retrieved.score"}, 1 / 2),
    "ids of two types": ([{"query": 1, "retrieved": [7, "d2"], "relevant": ["d2", 9]}], None, {},
                            0.5),
    "ids as text": (
        pl.DataFrame({"query": [1], "retrieved": [[7, 8]], "relevant": [["8", "8"]]}), None,
        {"metrics": "R@2"}, 1),
    "ids as floats": (
        pl.DataFrame({"qid": [1, 2], "retrieved": [[1.0, 2.0], [3.0]], "relevant": [[1], [3]]}),
        None, {}, 1),
    **{f"types of ids: {kind}": (
        pl.DataFrame({"query": [1], "retrieved": [[3, 5]], "relevant": [[5]]}).cast(
            {"retrieved": pl.List(kind), "relevant": pl.List(kind)}), None, {}, 0.5)
       for kind in (pl.Int128, pl.UInt8, pl.Int64)},
    "ids in arrays": (
        pandas.DataFrame({"qid": [1], "retrieved": [["x"]], "relevant": [numpy.array(["x"])]}),
        None, {}, 1),
    **{f"ids with blanks: {name} {cell[:5]}": (
        HANDBOOK, pl.DataFrame({"query": ["a", "b"], name: [cell, "d3"]}),
        R5 | ({"item": ("item", "bought")} if name == "bought" else {}), value)
       for name in ("bought", "relevant", "item")
       for cell, value in (("Employee Handbook.pdf", 1),
                           ("Other File.pdf, Employee Handbook.pdf", 0.75))},
    # One column of cells is read in one way.
    "ids with blanks in both lists": (
        pl.DataFrame({"question": [*"abc"], "retrieved": ["red shoe", "d3", "d5"],
                      "relevant": ["red shoe", "blue shoe", "d5"]}), None, R5, 2 / 3,
        "retrieved (one id per cell)"),
    **{f"rows of one query are split only if none matches: {items[0]}": (
        run, pl.DataFrame({"query": [*"aab"], "item": items}), R5, value)
       for run, items, value in ((SHOES, ["red shoe", "blue shoe", "d3"], 0.75),
                                 (FOUND, ["d1 d2", "d7", "d3"], 2 / 3))},
    **{f"an expression splits cells: {type(run).__name__}": (
        run, CELLS, R5 | {"item": ("item", "string_split(bought, ' ')")}, 0.75)
       for run in (FOUND, pl.DataFrame(
           {"query": [*"aab"], "item": ["d2", "x", "d3"], "score": [3, 2, 1]}))},
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


REFUSED = [
    # Half the ids are missing.
    (LISTS.with_columns(retrieved=pl.lit(["d1", None])), "^run: retrieved is NULL in 2 of 4"),
    (LISTS.with_columns(relevant=pl.lit(["d1", None])), "^qrels: relevant is NULL in 2"),
    (LISTS.drop("relevant"), "^run has no lists of retrieved and of relevant ids"),
    (LISTS.with_columns(query=pl.Series(["q1", None])), "^run: query is NULL in "),
    (LISTS.with_columns(relevant=pl.struct(d1=float("nan"))), "^qrels: grade in relevant must"),
    # Wrong types.
    (LISTS.with_columns(relevant=pl.struct(a=pl.lit("x"))), "^run: relevant must be a "),
    (LISTS.with_columns(relevant=pl.concat_list(pl.struct(a=1))),
     "^run: relevant has no field with the id"),
    # Duplicates.
    (LISTS.with_columns(retrieved=pl.lit(["d1", "d1"])), "^run has duplicates: query 'q1'"),
    (pl.concat([LISTS, LISTS]), "^run has several rows for query 'q1', but retrieved is"),
    ({"a": LISTS, "b": LISTS.with_columns(relevant="retrieved")}, "^The runs have different"),
    # The order is not guessed, nor what labels mean.
    *((KEYS.rename({"key": "query", "hits": name}),
       r"known names\. Pass( one of)?: item=\['\w+', 'right'\] ") for name in ("hits", "other")),
    (labelled("good", "bad"), "^qrels: label must be a number, not text"),
    (two("says", [("No", "Yes"), ("Yes", "No")], True),
     r"Is relevant.says the grade .* \{'No': 0, 'Yes': 1\}"),
    *((two(field, [values]), f"not in the order of retrieved.{field} in 1 query")
      for field, values in (("_distance", (0.9, 0.1)), ("score", (0.1, 0.9)), ("rank", (2, 1)))),
    (pandas.DataFrame({"qid": [1], "retrieved": [{"x"}], "relevant": [["x"]]}),
     r"^run: the cells of retrieved cannot .* no order"),
]  # fmt: skip


@few(9)(("run", "message"), REFUSED)
def test_lists_that_cannot_be_right_are_refused(run, message):
    refused(run, match=message)


def test_lists_that_are_no_judgments_are_refused():
    refused(LISTS, LISTS, match=r"^qrels has lists of retrieved ids, as a run")


def test_attributes_stand_beside_lists():
    renamed = LISTS.rename({"query": "question", "lang": "topic"})
    for run, qrels, by in (
        (LISTS, None, "lang"),
        (RETRIEVED, RELEVANT, "lang"),
        (renamed.select("topic", pl.exclude("topic")), None, "topic"),  # also called like a query
    ):
        per_query = rankql.evaluate(run, qrels, "RR", by=by).per_query
        assert per_query.rows() == [("q1", "en", 0.5), ("q2", "de", 1.0)]


def test_rows_without_a_query_are_numbered(tmp_path):
    rows = [{name: row[name] for name in ("retrieved", "relevant")} for row in ROWS]
    for data in (LISTS.drop("query"), write_rows(tmp_path / "lists.jsonl", rows)):
        result = read(data)
        assert result.values() == {1: 0.5, 2: 1}
        assert result.columns["run"]["query"] == result.columns["qrels"]["query"] == "row number"
    con = duckdb.connect()  # whose rows have no order
    con.execute("CREATE TABLE lists AS SELECT ['a'] AS retrieved, ['a'] AS relevant")
    refused("lists", None, con=con, match=r"^No query column in run")


GRADES = {"q1": {"d2": 2, "d7": 3}, "q2": {"d1": 1.5}}
MAPS = [{**row, "relevant": GRADES[row["query"]]} for row in ROWS]
OBJECTS = [
    {**row, "relevant": [{"text": "t", "grade": g, "id": d} for d, g in row["relevant"].items()]}
    for row in MAPS
]


@few(2)("form", ["objects", "lists", "polars", "table"])
def test_relevant_ids_have_grades(form, tmp_path):
    con = duckdb.connect()
    con.execute("CREATE TABLE maps (query TEXT, retrieved TEXT[], relevant MAP(TEXT, DOUBLE))")
    con.executemany("INSERT INTO maps VALUES (?, ?, ?)", [[*row.values()][:3] for row in MAPS])
    data = {
        "objects": write_rows(tmp_path / "objects.jsonl", MAPS),
        "lists": write_rows(tmp_path / "lists.jsonl", OBJECTS),
        "polars": pl.DataFrame(OBJECTS),
        "table": "maps",
    }[form]
    result = read(data, con=con if form == "table" else None)
    run = {row["query"]: row["retrieved"] for row in ROWS}
    assert result.rankings == read(run, GRADES).rankings
    assert result.columns["qrels"]["rel"] == "grades in relevant"


def test_columns_may_be_called_like_types(tmp_path):
    row = {"query": 1, "retrieved": ["a", "b"], "relevant": ["b"], "UBIGINT": 5}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    assert rankql.evaluate(path, metrics="RR", by="UBIGINT").summary["UBIGINT"].to_list() == [
        None,
        5,
    ]


def test_retrieved_ids_have_scores(tmp_path):
    row = {"question": "a", "rank": 7, "retrieved": {"x": 0.1, "y": 0.9}, "relevant": ["y"]}
    path = write_rows(tmp_path / "scores.jsonl", [row])
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE maps AS SELECT MAP {'x': 0.1, 'y': 0.9} retrieved, ['y'] relevant, 1 qid"
    )
    for run, options in ((path, {}), ("maps", {"con": con})):
        result = read(run, None, **options)
        assert result["RR"] == 1
        assert result.columns["run"]["score"] == "scores in retrieved"
    assert read(path, None, descending=False)["RR"] == 0.5
    chunks = {**row, "retrieved": {"y#1": 0.9, "y": 0.1}}
    (note,) = rankql.evaluate(write_rows(path, [chunks]), None, "RR").data_notes
    assert note.startswith("Ids such as 'y#1' look like chunks")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"retrieved": [10**23 + 1]}, r"retrieved has the id 1\.0+1e\+23, a floating"),
        ({"retrieved": [{"id": 10**23 + 1}]}, r"retrieved has the id 1\.0+1e\+23, a floating"),
        ({"retrieved": {"x": "?"}}, "retrieved must be a list of ids"),
        ({"relevant": [["d1"], {"id": "d2"}]}, "relevant must be a list of ids, not "),
    ],
)
def test_values_of_json_that_are_not_ids_are_refused(row, message, tmp_path):
    refused(write_rows(tmp_path / "lists.jsonl", [{**ROWS[0], **row}]), match=f"^run: {message}")


def test_empty_lists(tmp_path):
    empty = [{"query": "q3", "retrieved": [], "relevant": ["d1"]},
             {"query": "q4", "retrieved": ["d1"], "relevant": []},
             {"query": "q5", "retrieved": None, "relevant": ["d1"]}]  # fmt: skip
    result = rankql.evaluate(write_rows(tmp_path / "some.jsonl", ROWS + empty), None, "RR")
    counts = result.summary.select("mean", "queries", "undefined", "missing").rows()
    assert counts == [(0.375, 5, 1, 2)] and "not judged" not in " ".join(result.notes)
    refused(
        write_rows(tmp_path / "none.jsonl", empty[:1]),
        match=r"^run has no ids: its lists are empty$",
    )


# order='rows'

UNORDERED = RUN.drop("pos")


def test_positions_are_the_order_of_rows(tmp_path):
    UNORDERED.write_csv(tmp_path / "run.csv")
    UNORDERED.write_parquet(tmp_path / "run.parquet")
    mixed = pl.concat([UNORDERED[[0]], UNORDERED[[3]], UNORDERED[1:3], UNORDERED[4:]])
    scored = UNORDERED.with_columns(score=pl.int_range(pl.len()))  # which order='rows' ignores
    files = (tmp_path / "run.csv", tmp_path / "run.parquet")
    for data in (UNORDERED, mixed, scored, UNORDERED.to_pandas(), *files):
        result = read(data, QRELS, order="rows")
        assert result.rankings == EXPECTED
        assert result.columns["run"]["pos"] == "order of the rows"
    assert read(LISTS, order="rows").rankings == EXPECTED
    runs = {"a": UNORDERED, "b": UNORDERED.reverse()}
    both = pl.concat([run.with_columns(s=pl.lit(name)) for name, run in runs.items()])
    for run, system in ((runs, None), (both, "s")):
        result = read(run, QRELS, order="rows", system=system)
        assert result.means() == pytest.approx([0.75, 0.5])


def test_rows_without_an_order_are_refused():
    con = duckdb.connect()
    con.execute("CREATE TABLE run AS SELECT 'q1' AS query, 'd1' AS item")
    for run, options, message in (
        ("run", {"con": con, "order": "rows"}, "^order='rows' needs a file .* row_number"),
        (con.table("run"), {"con": con, "order": "rows"}, "^order='rows' needs a file"),
        (UNORDERED, {"order": "score"}, "^order must be 'rows', 'list' or None, not"),
        (RUN, {"order": "rows", "pos": "pos"}, "^order='rows' needs a file"),
    ):
        refused(run, QRELS, **options, match=message)


# grades_of, in SQL and polars


GRADES_OF = "grades_of(retrieved, relevant)"


@few(3)(
    "retrieved, relevant, grades",
    [
        (["a", "b", "c"], ["c", "a", "z", "a"], [1, None, 1]),
        ([1, 2], ["2"], [None, 1]),
        (["a", None], ["a", None], [1, None]),
        (["a"], [], [None]),
        (["a"], None, None),
        (None, ["a"], None),
        (["a", "a", None, None], ["a", "a", None, None], [1, None, None]),  # the ideal ranking
        ({"x": 0.1, "y": 0.9, "z": 0.9}, ["z"], [None, 1, None]),
        ([], ["a"], []),
        (["a", "b"], {"a": 2, "z": 1}, [2, None]),
        (["a", "b"], [{"id": "b", "grade": 2.5, "text": "t"}], [None, 2.5]),
        (["a", "b"], [{"item": "b"}], [None, 1]),
        (["a", "b"], [{"id": "b", "grade": 2}, {"id": "b", "grade": 2}], [None, 2]),
        (["a", "b"], [{"id": None, "grade": 1}, {"id": "b", "grade": 2}], [None, 2]),
        ([{"id": "a", "score": 0.5}, {"id": "b", "score": 0.4}], ["b"], [None, 1]),
        ([{"id": None}, {"id": "b"}], ["b"], [None, 1]),
        # The first of the fields counts, and other names that hold its name do not.
        (["b"], [{"id": None, "item": "b"}], [None]),
        (["b"], [{"id": "b", "rel": 5, "grade": None}], [None]),
        (["b"], [{"id": "b", "my grade": 2, "value of it": "x"}], [1]),
        (["b"], [{"id": "b", "grade": "2.5"}], [2.5]),
        (["a", "b"], {"row": 1, "id": 2, "b": 3, "grade": 4}, [None, 3]),
        (["a", "b"], {"a\nb": 1, "b": 3}, [None, 3]),
    ],
)
def test_grades_of_ids(retrieved, relevant, grades):
    frame = pl.DataFrame({"retrieved": [retrieved], "relevant": [relevant]})
    in_sql, in_polars = calls.both(GRADES_OF, frame)
    assert in_sql == grades == (in_polars if in_polars is None else [*in_polars])


def test_grades_of_maps():
    con = metric_engines.connect()
    row = con.sql("""SELECT grades_of(['a', 'b'], m), grades_of(m, m), grades_of(['a'], NULL)
        FROM (SELECT MAP {'a': 3, 'z': 1} AS m)""")
    assert row.fetchall() == [([3, None], [3, 1], None)]


ONE = pl.lit(pl.Series([["b"]]))


@pytest.mark.parametrize(
    ("retrieved", "relevant", "grades"),
    [
        ("lists", ONE, [[None, 1], [1]]),
        (ONE, "lists", [[1], [1]]),
        ("lists", "nothing", [None, None]),
        ("nothing", "lists", [None, None]),
    ],
)
def test_grades_of_literal_lists_and_columns_of_nothing_but_null(retrieved, relevant, grades):
    frame = pl.DataFrame({"lists": [["a", "b"], ["b"]], "nothing": None})
    assert frame.select(rankql.grades_of(retrieved, relevant)).to_series().to_list() == grades


@few(6)(
    "retrieved, relevant, message",
    [
        (["a", "b", "a"], ["a"], "retrieved must not repeat an id, but a is there twice"),
        ("a", ["a"], "retrieved must be a list of ids or a "),
        (["a"], "a", "relevant must be a list of ids or a "),
        (["a"], [{"name": "a"}], "relevant has no id or item: "),
        (["a"], [{"product id": "a"}], "relevant has no id or item: "),
        (["a"], [{"x": {"id": "a"}}], "relevant has no id or item: "),
        (["a"], [{"id": "a", "grade": "high"}], "relevant must have numbers as grades, not high"),
        (["a"], [{"id": "a", "grade": [1]}], "relevant must have numbers as grades, not"),
        (["a"], [{"id": "a", "grade": date(2026, 1, 1)}], "relevant must have numbers as grades"),
        (["b"], [{"id": "a"}, {"id": "a", "grade": 2}], "relevant has different grades"),
    ],
)
def test_grades_of_ids_that_cannot_be_right(retrieved, relevant, message):
    frame = pl.DataFrame({"retrieved": [retrieved], "relevant": [relevant]})
    calls.assert_both_refuse(GRADES_OF, frame, message)


WITHOUT_HIT = [
    (["d1", "d2"], ["d3", "d4"], None),
    (["D1", "D2"], ["d3", "d2"], ""),
    ([1, 2], [3, 4], None),
    (["doc-1", "doc-2"], ["doc_3", "doc_4"], None),
    (["d1"] * 4, ["d2"] * 4, None),
    (["d1"] * 5, ["d2"] * 5, "the run has item 'd1', qrels has 'd2'"),
    (["1", "2"], ["3", " 2"], ""),
    (["1", "2"], [3, 4], "the run has item '1', qrels has '3'"),
    (["a#1", "b#1"], ["a", "b"], ""),
]


@few(2)(
    ("form", "case"),
    [(form, case) for form in ("lists", "dicts", "frames") for case in WITHOUT_HIT],
)
def test_few_queries_without_any_hit_have_0_if_ids_are_written_alike(form, case):
    """Otherwise they are the likelier reason. Dicts of lists are like lists in a table."""
    retrieved, relevant, message = case
    keys = [*"abcde"][: len(retrieved)]
    run, qrels = ({k: [x] for k, x in zip(keys, ids, strict=True)} for ids in (retrieved, relevant))
    if form == "lists":
        lists = {"query": keys, "retrieved": [*run.values()], "relevant": [*qrels.values()]}
        run, qrels = pl.DataFrame(lists), None
    elif form == "frames":
        run = pl.DataFrame({"query": keys, "item": retrieved, "score": 1.0})
        qrels = pl.DataFrame({"query": keys, "item": relevant, "rel": 1})
    findings = [x for x in rankql.check(run, qrels).findings if x.kind == "no-common-items"]
    assert [x.level for x in findings] == ["warning" if message is None else "error"]
    if message is None:
        result = rankql.evaluate(run, qrels, metrics="RR")
        assert result["RR"] == 0
        assert result.notes[0].startswith("No item of the run is judged for its query: for")
        assert "If this is not true, write item ids the same way in both" in result.notes[0]
    else:
        refused(run, qrels, match=f"{message}.*Write item ids the same way")


@few(1)("kind", ["FLOAT[]", "DOUBLE[3]", "DECIMAL(4, 2)[]"])
def test_vectors_are_not_ids(kind):
    """A table with a row per item may have them, also without ids of items."""
    con = duckdb.connect()
    con.execute(
        f"""CREATE TABLE run AS SELECT q AS query, pos, (q + pos) % 2 AS rel,
            CAST([0.5, 1, 2] AS {kind}) AS vector FROM range(2) AS a (q), range(1, 3) AS b (pos)"""
    )
    assert read("run", con=con)["RR"] == 0.75
    con.execute("ALTER TABLE run ADD COLUMN found VARCHAR[]")
    refused("run", con=con, match=r"^run has no lists .* run .* found list of")


# Several ids in one cell


@few(2)(
    ("cell", "name"),
    cycled(
        ["d1 d2", "d1|d2", "d1, d2", "d1;d2", " d1 ,d2, "],
        ["bought", "relevant", "item", "doc_id"],
    ),
)
def test_pieces_of_cells_are_ids_if_they_match(name, cell):
    qrels = CELLS.rename({"bought": name}).with_columns(pl.col(name).replace("d1 d2", cell))
    rows = pl.DataFrame([(q, d) for q in FOUND for d in FOUND[q]], ["query", "item"], orient="row")
    scored = rows.with_columns(score=-pl.int_range(pl.len()).cast(pl.Float64))
    options = {"item": ("item", "bought")} if name == "bought" else {}
    for run in (FOUND, scored, {"one": FOUND, "two": {"a": ["x"], "b": ["d3"]}}):
        result = read(run, qrels, **options)
        assert (result.means("R@5")[0], result.means()[0]) == (0.75, 1)
        assert result.columns["qrels"]["item"] == f"{name} (several ids per cell)"


@few(4)("rel, columns, runs", [
    ({"buy": 3, "see": 1}, {"buy": [True, False], "see": [True, True]}, 2),
    ("3 * buy + see", {"buy": [1, 0], "see": [1, 1]}, 1),
    ("grade_ / 2", {"grade_": [8, 2]}, 2),
    (("says", {"Exact": 3, "No": 0}), {"says": ["Exact", "No"]}, 1),
    ({"Exact": 3, "No": 0}, {"label": ["Exact", "No"]}, 2),
])  # fmt: skip
def test_fields_of_objects_are_columns_for_rel(rel, columns, runs):
    """Grades are those of a table with a row per id."""
    flat = pl.DataFrame({"query": ["a", "a"], "item": ["y", "x"], **columns})
    objects = flat.select("query", o=pl.struct(pl.col("item").alias("id"), *columns))
    lists = objects.group_by("query").agg(relevant="o").with_columns(retrieved=pl.lit(["x", "y"]))
    run = lists if runs == 1 else {"one": lists, "two": lists}
    ranked = {"a": ["x", "y"]}
    (expected,) = read(ranked, flat, rel=rel).rankings.values()
    assert [*read(run, rel=rel).rankings.values()] == [expected] * runs
