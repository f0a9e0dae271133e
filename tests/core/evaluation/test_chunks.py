"""collapse= keeps the best chunk of each document: cases by hand, all forms of runs, errors."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.core.evaluation.evaluate import render_query
from support import metric_engines
from support.calls import assert_table_refused
from support.parameters import few
from support.refusals import refuses

# By place: A, A, B, A, C. Relevant: B and C (and D, which is not retrieved).
RUN = pl.DataFrame(
    {
        "query": ["q"] * 5,
        "item": ["A#1", "A#2", "B#7", "A#3", "C"],
        "score": [5.0, 4.0, 3.0, 2.0, 1.0],
        "document": ["A", "A", "B", "A", "C"],
    }
)
QRELS = pl.DataFrame({"query": ["q"] * 3, "item": ["B", "C", "D"], "rel": [1, 1, 1]})
PLACED = RUN.with_columns(pos=pl.int_range(1, 6)).drop("score")
METRICS = ["RR", "P@3", "AP", "SetP"]
# Renumbered: A, B, C. Kept: A, -, B, -, C.
RENUMBERED = (1 / 2, 2 / 3, (1 / 2 + 2 / 3) / 3, 2 / 3)
KEPT = (1 / 3, 1 / 3, (1 / 3 + 2 / 5) / 3, 2 / 3)


def values(run, qrels=QRELS, metrics=METRICS, **options):
    """The values of the first query, to compare."""
    result = rankql.evaluate(run, qrels, metrics, interval=None, **options)
    return pytest.approx(result.per_query.rows()[0][1:], abs=1e-12)


@few(1)("rule", ["document", "#", "split_part(item, '#', 1)"])
def test_columns_separators_and_expressions_name_documents(rule):
    distances = RUN.select(pl.exclude("score"), distance=-pl.col("score"))
    shuffled = RUN.sample(fraction=1, shuffle=True, seed=1)
    for run in (RUN, PLACED, distances, shuffled):
        assert values(run, collapse=rule) == RENUMBERED
        assert values(run, collapse=rule, positions="keep") == KEPT
    result = rankql.evaluate(RUN, QRELS, METRICS, collapse=rule, interval=None)
    name = {"#": "item before the last '#'"}.get(rule, rule)
    assert result.columns["run"]["item"] == name
    dropped = f"run: 2 of 5 rows repeat a document ({name}) and are dropped; the rows below move up"
    assert result.data_notes == [dropped]


@pytest.mark.slow
def test_order_of_rows_decides_equal_scores():
    """The first of the best chunks is kept, and documents stay in the order of their rows."""
    row = pl.col("row")
    chunks = pl.DataFrame({"row": range(100_000)}).select(
        "row",
        query=row.hash(1) % 500,
        item=pl.format("d{}", row.hash(2) % 60),
        score=row.hash(3) % 5,
    )
    run = chunks.with_columns(item=pl.format("{}#{}", "item", row.hash(4)))
    qrels = chunks.unique(["query", "item"]).select(
        "query", "item", rel=pl.struct("query", "item").hash(5) % 3
    )
    best = chunks.sort(["score", "row"], descending=[True, False])
    best = best.unique(["query", "item"], keep="first", maintain_order=True).sort("row")
    expected = rankql.evaluate(best, qrels, "nDCG@5", ties="order").per_query
    result = rankql.evaluate(run, qrels, "nDCG@5", collapse="#", ties="order")
    assert_frame_equal(result.per_query, expected, rel_tol=1e-12)


@pytest.mark.slow
def test_the_rendered_query_collapses(tmp_path):
    RUN.write_parquet(tmp_path / "run.parquet")
    QRELS.write_parquet(tmp_path / "qrels.parquet")
    files = tmp_path / "run.parquet", tmp_path / "qrels.parquet"
    *loading, query = render_query(*files, METRICS, collapse="#").split(";\n")
    con = metric_engines.connect()
    con.execute(";".join(loading))
    assert con.sql(query).pl()[METRICS].row(0) == pytest.approx(RENUMBERED)


def test_gaps_in_positions_stay():
    placed = PLACED.with_columns(pos=pl.Series([1, 3, 4, 5, 9]))  # A, -, A, B, A, -, -, -, C
    # A, -, B, -, -, -, C
    assert values(placed, metrics=["RR", "P@7"], collapse="#") == (1 / 3, 2 / 7)
    unplaced = pl.concat([PLACED, PLACED.tail(1).with_columns(item=pl.lit("B#9"), pos=None)])
    assert values(unplaced, collapse="#") == RENUMBERED
    # An item that is shown twice is its own document.
    twice = pl.DataFrame({"query": ["q"] * 3, "item": [1, 1, 2], "pos": [1, 2, 3]})
    qrels = pl.DataFrame({"query": ["q"] * 2, "item": [1, 2]})
    for positions, ap in (("renumber", 1), ("keep", (1 + 2 / 3) / 2)):
        assert values(twice, qrels, "AP", collapse="item", positions=positions) == (ap,)


def test_several_systems_and_functions():
    best = RUN.with_columns(score=-pl.col("score"))  # C, A, B
    comparison = rankql.compare({"a": RUN, "b": best}, QRELS, "RR", collapse="#")
    assert comparison.result.summary["mean"].to_list() == [0.5, 1.0]
    notes = [note[:9] for note in comparison.notes if "repeat" in note]
    assert notes == ["run 'a': ", "run 'b': "]
    both = pl.concat([RUN.with_columns(s=pl.lit("a")), best.with_columns(s=pl.lit("b"))])
    result = rankql.evaluate(both, QRELS, "RR", collapse="document", system="s")
    assert result.summary["mean"].to_list() == [0.5, 1.0]
    assert rankql.gate(RUN, QRELS, minimum="RR>=0.5", collapse="#")
    assert rankql.explain(RUN, QRELS, "q", "RR", collapse="#").value == 0.5


def test_a_document_has_the_highest_grade_of_its_chunks():
    """In judgments and in ranked tables."""
    chunks = pl.DataFrame({"query": ["q"] * 4, "item": ["B#1", "B#7", "C", "D#1"],
                           "rel": [1, 3, 1, 1]})  # fmt: skip
    # Only C is judged as a document, and it has no chunks.
    result = rankql.evaluate(RUN.head(4), chunks, ["nDCG@3"], collapse="#")
    assert "4 judgments of chunks count as 3 of documents" in result.notes[1]
    documents = QRELS.with_columns(rel=pl.Series([3, 1, 1]))
    expected = values(RUN, documents, ["nDCG@3"], collapse="#").expected
    by_column = chunks.with_columns(document=pl.col("item").str.head(1))
    assert values(RUN, by_column, ["nDCG@3"], collapse="document") == expected
    ranked = PLACED.with_columns(rel=pl.Series([None, 0, 1, 2, 1]))
    assert values(ranked, None, ["DCG@1", "P@3"], collapse="document") == (2, 1)
    with pytest.raises(RankqlError, match=r"^qrels judges chunks, .*'B#1', and documents, .*'C'"):
        rankql.evaluate(RUN, chunks, "RR", collapse="#")


def test_ids_that_look_like_chunks_are_noted_or_refused_without_collapse():
    lists = {"query": ["q"], "retrieved": [["B#7", "C"]], "relevant": [["B", "C"]]}
    (note,) = rankql.evaluate(pl.DataFrame(lists)).data_notes
    assert note.startswith("Ids such as 'B#7' look like chunks of judged items such as 'B'")
    assert rankql.evaluate({"q": ["C", "D"]}, QRELS, "RR").data_notes == []
    with pytest.raises(RankqlError, match=r"Ids such as 'B#7' .*\n    collapse='#'"):
        rankql.evaluate(RUN.head(3).drop("document"), QRELS, "RR")


@few(3)("separator", ["#", "::", "-", ".", "_", "\\", "_chunk_"])
def test_the_last_separator_counts(separator):
    document = f"a{separator}b"
    run = {"q": [f"{document}{separator}12", f"c{separator}1"]}
    assert rankql.evaluate(run, {"q": [document]}, "RR", collapse=separator)["RR"] == 1


NO_IDS = PLACED.drop("item", "document").with_columns(rel=1)


test_wrong_rules_and_runs = refuses("collapse", globals(), "rankql.%s")


@few(2)(
    "frame, options, pattern",
    [
        (pl.concat([PLACED, PLACED]), {}, "several items share a position: .*"),
        (PLACED, {"positions": "gap"}, "positions must be 'renumber' or 'keep', not gap"),
        (PLACED.with_columns(document=None), {}, "document must not be NULL"),
        (PLACED.with_columns(pos=0), {}, "pos must be a whole number from 1, not 0.*"),
    ],
)
def test_wrong_tables_are_refused_by_the_macro(frame, options, pattern):
    assert_table_refused("collapsed", frame, options, pattern)


# The macro, and its function


@few(1)("positions, expected", [("renumber", RENUMBERED), ("keep", KEPT)])
def test_the_macro_does_the_same(positions, expected):
    other = PLACED.with_columns(query=pl.lit("r"), pos=pl.Series([2, None, 9, 4, 5]))
    chunks = pl.concat([PLACED, other]).sample(fraction=1, shuffle=True, seed=1)
    con = metric_engines.connect()
    con.register("chunks", chunks.to_arrow())
    rows = con.sql(f"FROM collapsed('chunks', positions := '{positions}')").pl()
    assert_frame_equal(
        rows, chunks.pipe(rankql.collapsed, positions=positions), check_row_order=False
    )
    assert values(rows.drop("item"), item="document") == expected
    moved = {"renumber": [2, 4, 8], "keep": [2, 5, 9]}[positions]
    assert rows.filter(query="r").sort("pos")["pos"].to_list() == moved
    split = pl.col("item").str.split("#").list.first()
    lazy = PLACED.lazy().pipe(rankql.collapsed, split, positions=positions).collect()
    assert lazy.equals(PLACED.pipe(rankql.collapsed, positions=positions))


def test_a_run_without_repeated_documents_has_no_note_on_them():
    run = pl.DataFrame({"query": 1, "doc_id": ["a", "b", "b"], "score": [3, 2, 1]})
    qrels = pl.DataFrame({"query": 1, "doc_id": ["a"], "rel": 1})
    for rows, repeated in ((run, 1), (run.head(2), 0)):
        notes = rankql.evaluate(rows, qrels, "RR", collapse="doc_id").notes
        assert sum("repeat a document" in note for note in notes) == repeated


@few(1)("relevant", ["b#9", "b"])
def test_queries_without_a_relevant_item_keep_having_none(relevant):
    """An empty list means that nothing is relevant, of chunks and of documents."""
    found = {"q": ["b#1", "a#1", "b#2"], "none": ["c#1", "c#2"], "silent": []}
    judged = {"q": [relevant], "none": [], "silent": []}
    options = {"metrics": ["R@5", "FalseAnswer"], "collapse": "#", "interval": None}
    for qrels in (judged, [{"query": x, "relevant": ids} for x, ids in judged.items()]):
        result = rankql.evaluate(found, qrels, **options)
        rows = result.per_query.select("query", "R@5", "FalseAnswer").sort("query").rows()
        assert rows == [("none", None, 1.0), ("q", 1.0, None), ("silent", None, 0.0)]
        counted = "qrels: 1 judgments of chunks count as 1 of documents" in " ".join(result.notes)
        assert counted == (relevant == "b#9")
