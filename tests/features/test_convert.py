"""convert: TREC files to tables and back, and what a TREC file cannot say."""

import gzip
import json

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from rankql.core.base.errors import Question, RankqlError
from rankql.features.convert import convert
from support.parameters import few
from support.reading import one_line
from support.refusals import REFUSALS, begins

RUN = pl.DataFrame(
    {"query": ["a", "a", "a", "b"], "item": ["x", "z", "y", "x"], "score": [1.0, 2.5, 2.5, -1.0]}
)
QRELS = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "rel": [1.0, 0.5, -2.0]})
TREC = "a Q0 z 1 2.5 rankql\na Q0 y 2 2.5 rankql\na Q0 x 3 1.0 rankql\nb Q0 x 1 -1.0 rankql\n"
JUDGMENTS = "a 0 x 1\na 0 y 0.5\nb 0 x -2\n"


def refused(source, target, **options):
    with pytest.raises(RankqlError) as error:
        convert(source, target, **options)
    assert not target.exists() and not list(target.parent.glob(".*.tmp"))
    assert isinstance(error.value, Question) or "\n" not in str(error.value)
    return one_line(error.value)


def test_texts(tmp_path):
    """Equal scores: the last item first, as trec_eval has it."""
    path = convert(RUN, tmp_path / "a.run")
    assert path == tmp_path / "a.run" and path.read_text() == TREC
    assert [p.name for p in tmp_path.iterdir()] == ["a.run"]
    tagged = convert(RUN, str(tmp_path / "b"), tag="bm25").read_text()
    assert tagged == TREC.replace("rankql", "bm25")
    assert convert(QRELS, tmp_path / "a.qrels").read_text() == JUDGMENTS


def test_tables(tmp_path):
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text("a Q0 01 1 2 t\na\tQ0  02 2 1e-3 t\n")
    qrels.write_text("a 0 01 1\na 0 02 0\n")
    ids = pl.DataFrame({"query": ["a", "a"], "item": ["01", "02"]})
    nulls = ids.with_columns(pos=pl.Series([1, None]), rel=pl.Series([None, 0.5]))
    for source, columns, expected in (
        (run, {}, {"score": [2.0, 0.001]}),
        (run, {"pos": "rank"}, {"pos": [1, 2], "score": [2.0, 0.001]}),
        (qrels, {}, {"rel": [1, 0]}),
        (nulls, {}, {"pos": [1, None], "rel": [None, 0.5]}),
    ):
        table = pl.read_parquet(convert(source, tmp_path / "table.parquet", **columns))
        assert_frame_equal(table, ids.with_columns(pl.DataFrame(expected)))
    tagged = pl.read_parquet(convert(run, tmp_path / "t.parquet", system="tag"))
    assert tagged["system"].to_list() == ["t", "t"]
    numeric = pl.DataFrame({"query": [10, 9], "item": [1, 2], "score": [1, 2]})
    text = "9 Q0 2 1 2.0 rankql\n10 Q0 1 1 1.0 rankql\n"
    assert convert(numeric, tmp_path / "a.run").read_text() == text
    path = convert(qrels, tmp_path / "qrels.csv")
    assert path.read_text() == "query,item,rel\na,01,1\na,02,0\n"


@few(2)("suffix", [".parquet", ".csv", ".csv.gz", ".run", ".run.gz", ".txt"])
def test_round_trip(tmp_path, suffix):
    for table, name, text in ((RUN, "run", TREC), (QRELS, "qrels", JUDGMENTS)):
        path = convert(table, tmp_path / f"{name}{suffix}")
        assert (path.read_bytes()[:2] == b"\x1f\x8b") == suffix.endswith(".gz")
        assert convert(path, tmp_path / f"back.{name}").read_text() == text


def test_positions(tmp_path):
    """Scores keep the order, the last position has 1."""
    run = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "pos": [2, 1, 1]})
    text = "a Q0 y 1 {} rankql\na Q0 x 2 {} rankql\nb Q0 x 1 {} rankql\n"
    assert convert(run, tmp_path / "a.run").read_text() == text.format(2, 1, 1)
    both = run.with_columns(score=pl.Series([0.5, 0.7, 3.0]))
    assert convert(both, tmp_path / "b.run").read_text() == text.format(0.7, 0.5, 3.0)
    wrong = run.with_columns(score=pl.Series([0.7, 0.5, 3.0]))
    message = refused(wrong, tmp_path / "c.run")
    assert "pos is 1 for query 'a', item 'y', whose rank in the file would be 2" in message
    assert convert(wrong, tmp_path / "d.run", pos="pos").read_text() == text.format(2, 1, 1)
    assert "x 1 0.7 rankql" in convert(wrong, tmp_path / "e.run", score="score").read_text()


@pytest.mark.parametrize("positions", [[1, 3], [2, 3], [1, 1], [1, 1, 3]])
def test_positions_with_gaps_are_for_tables(tmp_path, positions):
    run = pl.DataFrame({"query": "q", "item": [*"xyz"][: len(positions)], "pos": positions})
    assert "whose rank in the file would be" in refused(run, tmp_path / "a.run")
    convert(run, tmp_path / "a.parquet")


def test_items_without_score_or_grade_are_left_out(tmp_path):
    run = RUN.with_columns(score=pl.Series([None, 2.0, 1.0, None]))
    assert convert(run, tmp_path / "a.run").read_text().count("\n") == 2
    qrels = QRELS.with_columns(rel=pl.Series([None, 1, 2]))
    assert convert(qrels, tmp_path / "a.qrels").read_text() == "a 0 y 1\nb 0 x 2\n"


def test_systems(tmp_path):
    run = pl.concat([RUN[:1], RUN[:2]]).with_columns(model=pl.Series(["m", "n", "n"]))
    path = convert(run, tmp_path / "a.run", system="model")
    assert path.read_text() == "a Q0 x 1 1.0 m\na Q0 z 1 2.5 n\na Q0 x 2 1.0 n\n"
    run = run[1:].with_columns(model=pl.lit("m m"))
    assert "model is empty or has white space" in refused(run, tmp_path / "b", system="model")


@few(4)("bad", ["x y", "x\ty", "x\n", " x", "", "x\u00a0y", "x\u2003", "\u0085"])
@pytest.mark.parametrize(("table", "role"), [(RUN, "query"), (QRELS, "item")])
def test_white_space(tmp_path, bad, table, role):
    message = refused(
        table.with_columns(pl.Series(role, [bad, *table[role][1:]])), tmp_path / "a.run"
    )
    assert f"{role} is empty or has white space" in message and f"(1 row, {bad!r})" in message


@few(1)("word", ['a"b', '"a', "it's", "a,b", "{0}", "ünï", "%s", "select", "\\n"])
def test_odd_ids_and_names(tmp_path, word):
    run = pl.DataFrame({word: [word, word], "doc": [f"{word}1", f"{word}2"], "sim": [2.0, 1.0]})
    text = f"{word} Q0 {word}1 1 2.0 {word}\n{word} Q0 {word}2 2 1.0 {word}\n"
    path = convert(run, tmp_path / f"{word}.run", query=word, tag=word)
    assert path.read_text() == text
    for suffix in (".parquet", ".csv", ".csv.gz", ".run.gz"):
        table = convert(path, tmp_path / f"{word}{suffix}", system="tag")
        system = "tag" if suffix == ".run.gz" else "system"
        assert convert(table, tmp_path / "back.run", system=system).read_text() == text


def test_grades_and_ranking_in_one_table(tmp_path):
    table = pl.DataFrame({"query": ["a"], "item": ["x"], "rel": [2], "pos": [1]})
    assert "Pass rel= for judgments" in refused(table, tmp_path / "a.txt")
    run, qrels = "a Q0 x 1 1 rankql\n", "a 0 x 2\n"
    assert convert(table, tmp_path / "a.run").read_text() == run
    assert convert(table, tmp_path / "a.qrels").read_text() == qrels
    assert convert(table, tmp_path / "b.txt", pos="pos").read_text() == run
    assert convert(table, tmp_path / "c.txt", rel="rel").read_text() == qrels
    assert pl.read_parquet(convert(table, tmp_path / "a.parquet")).columns == [
        "query", "item", "pos", "rel",
    ]  # fmt: skip


@few(6)(("call", "words"), REFUSALS["convert"].items())
def test_wrong_use(tmp_path, call, words):
    assert begins(eval(f"refused({call})", {**globals(), "folder": tmp_path}), words)


def test_empty(tmp_path):
    assert convert(RUN[:0], tmp_path / "a.run").read_text() == ""
    assert gzip.decompress(convert(RUN[:0], tmp_path / "a.run.gz").read_bytes()) == b""
    assert len(pl.read_parquet(convert(RUN[:0], tmp_path / "a.parquet"))) == 0


JUDGED = {"q1": {"a": 3, "b": 1}, "q2": {"c": 1}}


def test_numbers_of_dicts_are_grades_by_the_name_of_the_target(tmp_path):
    """Or with rel='rel'; else they are scores."""
    lines = "q1 0 a 3\nq1 0 b 1\nq2 0 c 1\n"
    (tmp_path / "qrels.json").write_text(json.dumps(JUDGED))
    for source in (JUDGED, tmp_path / "qrels.json"):
        assert convert(source, tmp_path / "a.qrels").read_text() == lines
        assert convert(source, tmp_path / "a.txt", rel="rel").read_text() == lines
        assert "q1 Q0 a 1 3.0" in convert(source, tmp_path / "a.run").read_text()
    assert convert({"q1": ["a"]}, tmp_path / "a.qrel").read_text() == "q1 0 a 1\n"
