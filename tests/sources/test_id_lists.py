"""One row per query, with lists of ids, as tools for RAG write them; positions by rows."""

import json
from datetime import date

import duckdb
import numpy
import pandas
import polars as pl
import pytest

import rankql
from rankql import RankqlError
from support import metric_engines

METRICS = ["RR", "R@2", "nDCG@10", "SetP"]
# q1 finds its only relevant id at position 2; q2 one of two, at position 1.
ROWS = [
    {"query": "q1", "retrieved": ["d1", "d2", "d3"], "relevant": ["d2"], "lang": "en"},
    {"query": "q2", "retrieved": ["d1", "d4"], "relevant": ["d1", "d9"], "lang": "de"},
]
LISTS = pl.DataFrame(ROWS)
RUN = LISTS.explode("retrieved").select(
    "query", item="retrieved", pos=pl.int_range(pl.len()).over("query") + 1
)
QRELS = LISTS.explode("relevant").select("query", item="relevant", rel=1)


def expected():
    return rankql.evaluate(RUN, QRELS, METRICS).per_query


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_lists_are_evaluated_like_rows(tmp_path):
    assert expected().rows()[0][1:3] == (0.5, 1.0)
    LISTS.write_parquet(tmp_path / "lists.parquet")
    con = duckdb.connect()
    con.execute("CREATE TABLE lists AS FROM read_parquet(?)", [str(tmp_path / "lists.parquet")])
    fixed = LISTS.head(1).with_columns(pl.col("retrieved").list.to_array(3))
    for data, options in (
        (LISTS, {}),
        (LISTS.to_pandas(), {}),
        (LISTS.to_arrow(), {}),
        (tmp_path / "lists.parquet", {}),
        (write(tmp_path / "lists.jsonl", ROWS), {}),
        ("lists", {"con": con}),
    ):
        found = rankql.evaluate(data, None, METRICS, **options)
        assert found.per_query.equals(expected())
        assert found.notes == []
    assert found.columns["run"] == {
        "query": "query", "item": "retrieved", "pos": "order in retrieved",
    }  # fmt: skip
    assert found.columns["qrels"]["rel"] == "1 for every row"
    assert rankql.evaluate(fixed, None, "RR")["RR"] == 0.5
    by = rankql.evaluate(LISTS, None, "RR", by="lang").per_query
    assert by.rows() == [("q1", "en", 0.5), ("q2", "de", 1.0)]


def test_lists_on_one_side():
    retrieved, relevant = LISTS.drop("relevant", "lang"), LISTS.drop("retrieved")
    for run, qrels in ((retrieved, relevant), (retrieved, QRELS), (RUN, relevant)):
        assert rankql.evaluate(run, qrels, METRICS).per_query.equals(expected())
    assert rankql.evaluate(LISTS, QRELS.head(1), "RR").per_query.rows() == [("q1", 0.5)]
    by = rankql.evaluate(retrieved, relevant, "RR", by="lang")
    assert by.per_query["lang"].to_list() == ["en", "de"]


@pytest.mark.parametrize(
    "query, retrieved, relevant",
    [
        ("user_input", "retrieved_context_ids", "reference_context_ids"),  # Ragas
        ("question", "retrieved_doc_ids", "ground_truth_doc_ids"),  # MLflow
        ("query", "retrieved_ids", "expected_ids"),  # LlamaIndex
        ("question", "retrieved_documents", "ground_truth_documents"),  # Haystack
    ],
)
def test_names_of_tools(query, retrieved, relevant):
    names = {"query": query, "retrieved": retrieved, "relevant": relevant}
    found = rankql.evaluate(LISTS.rename(names), None, METRICS)
    assert found.per_query.rename({query: "query"}).equals(expected())
    assert found.columns["run"]["item"] == retrieved


def test_attributes_that_are_called_like_a_query():
    lists = LISTS.rename({"query": "question", "lang": "topic"}).select(
        "topic", pl.exclude("topic")
    )
    found = rankql.evaluate(lists, None, "RR", by="topic").per_query
    assert found.rows() == [("q1", "en", 0.5), ("q2", "de", 1.0)]


def test_names_by_keyword():
    lists = LISTS.rename({"retrieved": "hits", "relevant": "right"})
    assert rankql.evaluate(lists, None, METRICS, item=["hits", "right"]).per_query.equals(
        expected()
    )
    with pytest.raises(
        RankqlError, match=r"^run has lists \(hits, right\), but none .* item=\['hits', 'right'\]"
    ):
        rankql.evaluate(lists, None, METRICS)


def test_rows_without_a_query_are_numbered(tmp_path):
    path = write(tmp_path / "lists.jsonl", [{**row, "query": None} for row in ROWS])
    for data in (LISTS.drop("query"), write(path, [dict(list(r.items())[1:]) for r in ROWS])):
        found = rankql.evaluate(data, None, "RR")
        assert found.per_query.rows() == [(1, 0.5), (2, 1.0)]
        assert found.columns["run"]["query"] == found.columns["qrels"]["query"] == "row number"
    con = duckdb.connect()
    con.execute("CREATE TABLE lists AS SELECT ['a'] AS retrieved, ['a'] AS relevant")
    with pytest.raises(RankqlError, match=r"^No query column in run: .* Pass query='\.\.\.'"):
        rankql.evaluate("lists", None, "RR", con=con)


GRADES = {"q1": {"d2": 2, "d7": 3}, "q2": {"d1": 1.5}}


def test_relevant_ids_with_grades(tmp_path):
    wanted = rankql.evaluate({"q1": ["d1", "d2", "d3"], "q2": ["d1", "d4"]}, GRADES, METRICS)
    rows = [{**row, "relevant": GRADES[row["query"]]} for row in ROWS]
    listed = [
        {
            **row,
            "relevant": [{"text": "t", "grade": g, "id": d} for d, g in row["relevant"].items()],
        }
        for row in rows
    ]
    con = duckdb.connect()
    con.execute("""CREATE TABLE maps (query VARCHAR, retrieved VARCHAR[],
                                      relevant MAP(VARCHAR, DOUBLE))""")
    for row in rows:
        con.execute("INSERT INTO maps VALUES (?, ?, ?)", [row[n] for n in list(row)[:3]])
    for data, options in (
        (write(tmp_path / "objects.jsonl", rows), {}),
        (write(tmp_path / "lists.jsonl", listed), {}),
        (pl.DataFrame(listed), {}),
        ("maps", {"con": con}),
    ):
        found = rankql.evaluate(data, None, METRICS, **options)
        assert found.per_query.equals(wanted.per_query)
        assert found.columns["qrels"]["rel"] == "grades in relevant"
    hits = [
        {**row, "retrieved": [{"id": i, "score": 0.5} for i in row["retrieved"]]} for row in ROWS
    ]
    assert rankql.evaluate(pl.DataFrame(hits), None, METRICS).per_query.equals(expected())


def test_retrieved_ids_with_scores(tmp_path):
    row = {"question": "a", "rank": 7, "retrieved": {"x": 0.1, "y": 0.9}, "relevant": ["y"]}
    path = write(tmp_path / "scores.jsonl", [row])
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE maps AS SELECT MAP {'x': 0.1, 'y': 0.9} retrieved, ['y'] relevant, 1 qid"
    )
    for run, options in ((path, {}), ("maps", {"con": con})):
        found = rankql.evaluate(run, None, "RR", **options)
        assert found["RR"] == 1
        assert found.columns["run"]["score"] == "scores in retrieved"
    assert rankql.evaluate(path, None, "RR", descending=False)["RR"] == 0.5
    chunks = {**row, "retrieved": {"y#1": 0.9, "y": 0.1}}
    (note,) = rankql.evaluate(write(path, [chunks]), None, "RR").notes
    assert note.startswith("Ids such as 'y#1' look like chunks")
    named = {"x": "?", "y": "?"}
    with pytest.raises(RankqlError, match=r"^run: retrieved must be a list of ids"):
        rankql.evaluate(write(path, [{**row, "retrieved": named}]), None, "RR")


def test_lists_in_another_order_than_their_scores():
    items = pl.DataFrame({"id": ["x", "y"], "score": [0.1, 0.9], "rank": [2, 1]})
    for field in ("score", "rank"):
        hits = items.select("id", field)
        for order, value in ((hits, None), (hits.reverse(), 1)):
            run = pl.DataFrame({"qid": ["a"], "retrieved": [order.to_dicts()], "relevant": [["y"]]})
            if value is not None:
                assert rankql.evaluate(run, None, "RR")["RR"] == value
                continue
            message = f"^run: retrieved of query 'a' is not in the order of its field {field}"
            with pytest.raises(RankqlError, match=message):
                rankql.evaluate(run, None, "RR")


def test_ids_that_are_rounded(tmp_path):
    row = {"qid": 1, "retrieved": [10**23 + 1], "relevant": [10**23 + 2]}
    objects = {**row, "retrieved": [{"id": 10**23 + 1}]}
    for number, bad in enumerate((row, objects)):
        with pytest.raises(
            RankqlError, match=r"^run: retrieved has the id 1\.0+1e\+23, a floating"
        ):
            rankql.evaluate(write(tmp_path / f"{number}.jsonl", [bad]), None, "RR")
    floats = pl.DataFrame({"qid": [1, 2], "retrieved": [[1.0, 2.0], [3.0]], "relevant": [[1], [3]]})
    found = rankql.evaluate(floats, None, "RR")
    assert (found["RR"], found.notes) == (1, [])


def test_ids_of_other_types(tmp_path):
    rows = [{"query": 1, "retrieved": [7, "d2"], "relevant": ["d2", 9]}]
    path = write(tmp_path / "mixed.jsonl", rows)
    assert rankql.evaluate(path, None, "RR")["RR"] == 0.5
    numbers = pl.DataFrame({"query": [1], "retrieved": [[7, 8]], "relevant": [["8", "8"]]})
    assert rankql.evaluate(numbers, None, "R@2")["R@2"] == 1


def test_lists_without_ids(tmp_path):
    empty = [{"query": "q3", "retrieved": [], "relevant": ["d1"]},
             {"query": "q4", "retrieved": ["d1"], "relevant": []},
             {"query": "q5", "retrieved": None, "relevant": ["d1"]}]  # fmt: skip
    found = rankql.evaluate(write(tmp_path / "some.jsonl", ROWS + empty), None, "RR")
    assert found.summary.select("mean", "queries", "missing").rows() == [(0.375, 4, 2)]
    assert found.notes[0].startswith("1 of 3 queries of the run is not judged and left out ('q4')")
    path = write(tmp_path / "none.jsonl", [{"query": "q", "retrieved": [], "relevant": ["d"]}])
    with pytest.raises(RankqlError, match=r"^run is empty: it has no ids"):
        rankql.evaluate(path, None, "RR")


def test_several_runs_of_lists(tmp_path):
    worse = LISTS.with_columns(pl.col("retrieved").list.reverse())
    both = rankql.compare({"a": LISTS, "b": worse}, metrics="RR")
    assert both.result.summary["mean"].to_list() == [0.75, 0.5]
    assert rankql.compare(LISTS, worse, metrics="RR").systems == ["run 1", "run 2"]
    LISTS.write_parquet(tmp_path / "a.parquet")
    path = write(tmp_path / "b.jsonl", worse.to_dicts())
    assert rankql.compare(tmp_path / "a.parquet", path, "RR").systems == ["a", "b"]
    limits = {"minimum": "RR>=0.5", "max_drop": "RR:0.3"}
    assert rankql.gate(worse, baseline=LISTS, **limits).failures.is_empty()
    assert rankql.explain(LISTS, None, "q1", "RR").value == 0.5
    assert rankql.limits(LISTS, None, "RR").result["RR"] == 0.75
    assert rankql.check(LISTS).ok
    systems = pl.concat(
        [LISTS.with_columns(system=pl.lit("a")), worse.with_columns(system=pl.lit("b"))]
    )
    found = rankql.evaluate(systems, None, "RR", system="system")
    assert found.summary["mean"].to_list() == [0.75, 0.5]


OTHER = LISTS.with_columns(relevant=pl.lit(["d3"]))


@pytest.mark.parametrize(
    "run, message",
    [
        # Half the ids are missing.
        (LISTS.with_columns(retrieved=pl.lit(["d1", None])), "^run: retrieved is NULL in 2 of 4"),
        (LISTS.with_columns(relevant=pl.lit(["d1", None])), "^qrels: relevant is NULL in 2"),
        (LISTS.drop("relevant"), r"^run has lists of retrieved ids \(retrieved\), but none of"),
        (LISTS.with_columns(query=pl.Series(["q1", None])), "^run: query is NULL in 1 of 2 rows"),
        (LISTS.with_columns(relevant=pl.lit([])), "^qrels is empty: it has no ids"),
        (LISTS.with_columns(relevant=pl.struct(d1=float("nan"))), "^qrels: grade in relevant must"),
        # Wrong types.
        (LISTS.with_columns(retrieved=pl.lit("['d1']")), "^run: retrieved must be a list of ids, "),
        (LISTS.with_columns(relevant=pl.struct(a=pl.lit("x"))), "^run: relevant must be a "),
        (LISTS.with_columns(relevant=pl.concat_list(pl.struct(a=1))), "^run: relevant has no id"),
        # Duplicates.
        (LISTS.with_columns(retrieved=pl.lit(["d1", "d1"])), "^run has duplicates: query 'q1'"),
        (pl.concat([LISTS, LISTS]), "^run has several rows for query 'q1', but retrieved is"),
        # Nothing in common.
        (LISTS.with_columns(relevant=pl.lit(["x"])), "^No item of the run is judged for its query"),
        ({"a": LISTS, "b": OTHER}, "^The runs have different relevant ids for query 'q1'"),
    ],
)  # fmt: skip
def test_lists_that_cannot_be_right(run, message):
    with pytest.raises(RankqlError, match=message):
        rankql.evaluate(run, None, "RR")


def test_runs_of_lists_are_not_judgments(tmp_path):
    with pytest.raises(RankqlError, match=r"^qrels has lists of retrieved ids, as a run. Pass sev"):
        rankql.evaluate(LISTS, LISTS, "RR")
    nested = [{**ROWS[0], "relevant": [["d1"], {"id": "d2"}]}]
    with pytest.raises(RankqlError, match=r"^run: relevant must be a list of ids, not "):
        rankql.evaluate(write(tmp_path / "nested.jsonl", nested), None, "RR")


def test_cells_that_are_not_lists():
    for cell, message in (
        (numpy.array(["x"]), "numpy arrays of text"),
        ({"x"}, "sets, which have"),
    ):
        run = pandas.DataFrame({"qid": [1], "retrieved": [["x"]], "relevant": [cell]})
        with pytest.raises(RankqlError, match=f"^run: the cells of relevant are {message}"):
            rankql.evaluate(run, None, "RR")
        run["relevant"] = run["relevant"].map(list)
        assert rankql.evaluate(run, None, "RR")["RR"] == 1


# order='rows'


def test_positions_from_the_order_of_rows(tmp_path):
    run = RUN.drop("pos")
    run.write_csv(tmp_path / "run.csv")
    run.write_parquet(tmp_path / "run.parquet")
    mixed = pl.concat([run[[0]], run[[3]], run[1:3], run[4:]])
    scored = run.with_columns(score=pl.int_range(pl.len()))  # which order='rows' ignores
    for data in (
        run,
        mixed,
        scored,
        run.to_pandas(),
        tmp_path / "run.csv",
        tmp_path / "run.parquet",
    ):
        found = rankql.evaluate(data, QRELS, METRICS, order="rows")
        assert found.per_query.equals(expected())
        assert found.columns["run"]["pos"] == "order of the rows"
    worse = run.reverse()
    assert rankql.compare({"a": run, "b": worse}, QRELS, "RR", order="rows").systems == ["a", "b"]
    assert rankql.evaluate(LISTS, None, METRICS, order="rows").per_query.equals(expected())
    both = pl.concat([run.with_columns(s=pl.lit("a")), worse.with_columns(s=pl.lit("b"))])
    found = rankql.evaluate(both, QRELS, "RR", order="rows", system="s").summary
    assert found["mean"].to_list() == pytest.approx([0.75, 0.5])


def test_rows_without_an_order():
    con = duckdb.connect()
    con.register("frame", RUN.drop("pos").to_arrow())
    con.execute("CREATE TABLE run AS SELECT query, item FROM frame")
    for run in ("run", con.table("run")):
        with pytest.raises(
            RankqlError, match=r"^order='rows' needs a file .* row_number\(\) OVER \("
        ):
            rankql.evaluate(run, QRELS, "RR", con=con, order="rows")
    with pytest.raises(RankqlError, match=r"^order must be 'rows' or None, not 'score'"):
        rankql.evaluate(RUN.drop("pos"), QRELS, "RR", order="score")
    with pytest.raises(RankqlError, match=r"^order='rows' and pos='pos' exclude each other"):
        rankql.evaluate(RUN, QRELS, "RR", order="rows", pos="pos")


# grades_of, in SQL and polars


def both_ways(frame, call="grades_of(retrieved, relevant)"):
    con = metric_engines.connect()
    con.register("lists", frame.to_arrow())
    return (
        lambda: con.sql(f"SELECT {call} AS grades FROM lists").pl()["grades"].to_list(),
        lambda: frame.select(grades=rankql.grades_of())["grades"].to_list(),
    )


@pytest.mark.parametrize(
    "retrieved, relevant, grades",
    [
        (["a", "b", "c"], ["c", "a", "z", "a"], [1, None, 1]),
        ([1, 2], ["2"], [None, 1]),
        (["a", None], ["a", None], [1, None]),
        (["a"], [], [None]),
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
    for run in both_ways(pl.DataFrame({"retrieved": [retrieved], "relevant": [relevant]})):
        assert run() == [grades]


def test_grades_of_maps_and_nulls():
    con = metric_engines.connect()
    sql = "SELECT grades_of(['a', 'b'], m), grades_of(m, m), grades_of(['a'], NULL)"
    row = con.sql(f"{sql}, grades_of(NULL, ['a']) FROM (SELECT MAP {{'a': 3, 'z': 1}} AS m)")
    assert row.fetchall() == [([3, None], [3, 1], None, None)]
    nulls = pl.DataFrame({"retrieved": [["a"], None], "relevant": [None, ["a"]]})
    for run in both_ways(nulls):
        assert run() == [None, None]


def test_literal_lists_and_columns_of_nothing_but_null():
    frame = pl.DataFrame({"lists": [["a", "b"], ["b"]], "nothing": None})
    one = pl.lit(pl.Series([["b"]]))
    for pair, expected in (
        (("lists", one), [[None, 1], [1]]),
        ((one, "lists"), [[1], [1]]),
        (("lists", "nothing"), [None, None]),
        (("nothing", "lists"), [None, None]),
    ):
        assert frame.select(rankql.grades_of(*pair)).to_series().to_list() == expected
    assert frame.select(rankql.list_ndcg("nothing")).to_series().to_list() == [None, None]


@pytest.mark.slow
def test_metrics_of_the_grades_are_those_of_evaluate():
    con = metric_engines.connect()
    con.register("lists", LISTS.to_arrow())
    ideal = "ideal := grades_of(relevant, relevant)"
    rows = con.sql(f"""
        SELECT query, list_rr(grades, {ideal}), list_recall_at(grades, 2, {ideal}),
               list_ndcg(grades, 10, {ideal}), list_precision_at(grades)
        FROM (SELECT *, grades_of(retrieved, relevant) AS grades FROM lists)""").fetchall()
    ideal = rankql.grades_of("relevant", "relevant")
    frame = LISTS.select("query", rankql.list_ndcg(rankql.grades_of(), k=10, ideal=ideal))
    for row, polars, wanted in zip(rows, frame.rows(), expected().rows(), strict=True):
        assert row == (wanted[0], *map(pytest.approx, wanted[1:]))
        assert polars == (wanted[0], pytest.approx(wanted[3]))


@pytest.mark.parametrize(
    "retrieved, relevant, message",
    [
        (
            ["a", "b", "a"],
            ["a"],
            "retrieved must not repeat an id, but a is there twice. Keep the f",
        ),
        ("a", ["a"], "retrieved must be a list of ids or a "),
        (["a"], "a", "relevant must be a list of ids or a "),
        (["a"], [{"name": "a"}], "relevant has no id or item: "),
        (["a"], [{"product id": "a"}], "relevant has no id or item: "),
        (["a"], [{"x": {"id": "a"}}], "relevant has no id or item: "),
        (["a"], [{"id": "a", "grade": "high"}], "relevant must have numbers as grades, not high"),
        (["a"], [{"id": "a", "grade": [1]}], "relevant must have numbers as grades, not"),
        (["a"], [{"id": "a", "grade": date(2026, 1, 1)}], "relevant must have numbers as grades"),
        (
            ["b"],
            [{"id": "a", "grade": 1}, {"id": "a", "grade": 2}],
            "relevant has different grades for a. Keep one",
        ),
    ],
)
def test_ids_without_grades(retrieved, relevant, message):
    for run in both_ways(pl.DataFrame({"retrieved": [retrieved], "relevant": [relevant]})):
        with pytest.raises(Exception, match=message):
            run()


@pytest.mark.parametrize(
    "retrieved, relevant, alike",
    [
        (["d1", "d2"], ["d3", "d4"], True),
        ([1, 2], [3, 4], True),
        (["doc-1", "doc-2"], ["doc_3", "doc_4"], False),
        (["01", "02"], ["3", "4"], False),
        (["D1", "D2"], ["d3", "d4"], False),
        (["1", "2"], [3, 4], False),
        (["a#1", "b#1"], ["a", "b"], False),
    ],
)
def test_a_retriever_without_any_hit(retrieved, relevant, alike):
    """0 if ids are written alike; otherwise they are the likelier reason."""
    lists = {"retrieved": [[x] for x in retrieved], "relevant": [[x] for x in relevant]}
    frame = pl.DataFrame({"query": ["a", "b"], **lists})
    if alike:
        result = rankql.evaluate(frame, metrics=["RR", "P@5"])
        assert (result["RR"], result["P@5"]) == (0, 0)
        assert result.notes[0].startswith("No item of the run is judged for its query, so its hits")
        return
    with pytest.raises(RankqlError, match="Write item ids the same way in both"):
        rankql.evaluate(frame, metrics="RR")


def test_dicts_of_lists_without_a_hit_are_like_lists_in_a_table(tmp_path):
    """Ids of the same form: 0 and a note. Of another form: an error."""
    (tmp_path / "run.json").write_text('{"a": ["x"]}')
    for run in ({"a": ["x"]}, tmp_path / "run.json"):
        result = rankql.evaluate(run, {"a": ["p"]}, "RR")
        assert result["RR"] == 0 and result.notes[0].startswith("No item of the run is judged")
        with pytest.raises(RankqlError, match=r"^No item of the run is judged"):
            rankql.evaluate(run, {"a": ["p-1"]}, "RR")


@pytest.mark.parametrize("kind", ["FLOAT[]", "DOUBLE[3]", "DECIMAL(4, 2)[]"])
def test_vectors_are_not_ids(kind):
    """A table with a row per item may have them, also without ids of items."""
    con = duckdb.connect()
    con.execute(
        f"""CREATE TABLE run AS SELECT q AS query, pos, (q + pos) % 2 AS rel,
            CAST([0.5, 1, 2] AS {kind}) AS vector FROM range(2) AS a (q), range(1, 3) AS b (pos)"""
    )
    assert rankql.evaluate("run", metrics="RR", con=con, interval=None)["RR"] == 0.75
    con.execute("ALTER TABLE run ADD COLUMN found VARCHAR[]")
    with pytest.raises(RankqlError, match=r"^run has lists \(found\), but none with a known name"):
        rankql.evaluate("run", metrics="RR", con=con)
