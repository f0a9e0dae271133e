"""convert: TREC files to tables and back, and what a TREC file cannot say."""

import gzip
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
import pytrec_eval

from rankql.errors import RankqlError
from rankql.evaluation.conversion import convert
from rankql.evaluation.evaluate import evaluate
from support.paths import DL19

METRICS = ["nDCG@10", "AP", "RR@10", "P@5", "R@100", "bpref"]
RUN = pl.DataFrame(
    {"query": ["a", "a", "a", "b"], "item": ["x", "z", "y", "x"], "score": [1.0, 2.5, 2.5, -1.0]}
)
QRELS = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "rel": [1.0, 0.5, -2.0]})
TREC = "a Q0 z 1 2.5 rankql\na Q0 y 2 2.5 rankql\na Q0 x 3 1.0 rankql\nb Q0 x 1 -1.0 rankql\n"


def lines(path):
    """The fields that say something: not the iteration, Q0 and the tag."""
    fields = [line.split() for line in Path(path).read_text().splitlines()]
    return sorted((f[0], f[2], *f[3:5]) for f in fields)


def refused(source, target, **options):
    with pytest.raises(RankqlError) as error:
        convert(source, target, **options)
    assert not target.exists() and not list(target.parent.glob(".*.tmp"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_run(tmp_path):
    """Equal scores: the last item first, as trec_eval has it."""
    path = convert(RUN, tmp_path / "a.run")
    assert path == tmp_path / "a.run" and path.read_text() == TREC
    assert [p.name for p in tmp_path.iterdir()] == ["a.run"]
    assert convert(RUN, str(tmp_path / "b"), tag="bm25").read_text() == TREC.replace(
        "rankql", "bm25"
    )


def test_qrels(tmp_path):
    path = convert(QRELS, tmp_path / "a.qrels")
    assert path.read_text() == "a 0 x 1\na 0 y 0.5\nb 0 x -2\n"


def test_tables(tmp_path):
    (tmp_path / "a.run").write_text("a Q0 01 1 2 t\na\tQ0  02 2 1e-3 t\n")
    (tmp_path / "a.qrels").write_text("a 0 01 1\na 0 02 0\n")
    run = pl.read_parquet(convert(tmp_path / "a.run", tmp_path / "run.parquet"))
    assert run.to_dict(as_series=False) == {
        "query": ["a", "a"], "item": ["01", "02"], "score": [2.0, 0.001],
    }  # fmt: skip
    qrels = pl.read_parquet(convert(tmp_path / "a.qrels", tmp_path / "qrels.parquet"))
    assert qrels.schema == {"query": pl.String, "item": pl.String, "rel": pl.Int64}
    assert qrels["rel"].to_list() == [1, 0]
    path = convert(tmp_path / "a.qrels", tmp_path / "qrels.csv")
    assert path.read_text() == "query,item,rel\na,01,1\na,02,0\n"
    tagged = pl.read_parquet(convert(tmp_path / "a.run", tmp_path / "t.parquet", system="tag"))
    assert tagged["system"].to_list() == ["t", "t"]
    ranked = pl.read_parquet(convert(tmp_path / "a.run", tmp_path / "r.parquet", pos="rank"))
    assert ranked["pos"].to_list() == [1, 2] and ranked.schema["pos"] == pl.Int64


def test_tables_keep_null_and_fractions(tmp_path):
    table = QRELS.with_columns(rel=pl.Series([None, 0.5, 1.0]), pos=pl.Series([1, None, 2]))
    back = pl.read_parquet(convert(table, tmp_path / "a.parquet"))
    assert back["rel"].to_list() == [None, 0.5, 1.0] and back["pos"].to_list() == [1, None, 2]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".run", ".run.gz", ".txt"])
def test_round_trip(tmp_path, suffix):
    path = convert(RUN, tmp_path / f"run{suffix}")
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == suffix.endswith(".gz")
    assert convert(path, tmp_path / "back").read_text() == TREC
    path = convert(QRELS, tmp_path / f"qrels{suffix}")
    back = convert(path, tmp_path / "back.qrels").read_text()
    assert back == "a 0 x 1\na 0 y 0.5\nb 0 x -2\n"


@pytest.mark.slow
@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".trec.gz"])
@pytest.mark.parametrize("name", ["BM25", "D_BERT_KD_TASB", "SPLADE_P_P_ENSEMBLE_DISTIL"])
def test_dl19(tmp_path, name, suffix):
    """The same tables and the same metrics; only equal scores may change ranks."""
    run, qrels = DL19 / f"{name}.run", DL19 / "dl19.qrels"
    there = [convert(run, tmp_path / f"r{suffix}"), convert(qrels, tmp_path / f"q{suffix}")]
    back = [convert(there[0], tmp_path / "a.run"), convert(there[1], tmp_path / "a.qrels")]
    assert lines(back[1]) == lines(qrels)
    assert [(f[0], f[1], f[3]) for f in lines(back[0])] == [(f[0], f[1], f[3]) for f in lines(run)]
    if name == "BM25":
        assert lines(back[0]) == lines(run)
    expected = evaluate(run, qrels, METRICS)
    for pair in (there, back):
        result = evaluate(*pair, METRICS)
        assert [result[m] for m in METRICS] == [expected[m] for m in METRICS]


def test_trec_eval_reads_it(tmp_path):
    """Ranks and scores say the same to trec_eval as the table to rankql."""
    items = [f"d{i}" for i in range(40)]
    run = pl.DataFrame({"query": "a", "item": items, "pos": range(1, 41)})
    qrels = pl.DataFrame({"query": "a", "item": items[3::7], "rel": 1})
    with convert(run, tmp_path / "a.run").open() as file:
        theirs = pytrec_eval.parse_run(file)
    with convert(qrels, tmp_path / "a.qrels").open() as file:
        judgments = pytrec_eval.parse_qrel(file)
    values = pytrec_eval.RelevanceEvaluator(judgments, {"map", "recip_rank"}).evaluate(theirs)["a"]
    ours = evaluate(run, qrels, ["AP", "RR"])
    assert ours["AP"] == pytest.approx(values["map"], rel=1e-12)
    assert ours["RR"] == pytest.approx(values["recip_rank"], rel=1e-12)


def test_positions(tmp_path):
    """Scores that keep the order, last position 1; equal queries of two systems apart."""
    run = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "pos": [2, 1, 1]})
    text = "a Q0 y 1 2 rankql\na Q0 x 2 1 rankql\nb Q0 x 1 1 rankql\n"
    assert convert(run, tmp_path / "a.run").read_text() == text
    both = run.with_columns(score=pl.Series([0.5, 0.7, 3.0]))
    text = "a Q0 y 1 0.7 rankql\na Q0 x 2 0.5 rankql\nb Q0 x 1 3.0 rankql\n"
    assert convert(both, tmp_path / "b.run").read_text() == text
    wrong = run.with_columns(score=pl.Series([0.7, 0.5, 3.0]))
    assert "score and pos order query 'a' differently (item 'y')" in refused(
        wrong, tmp_path / "c.run"
    )
    assert "y 1 2 rankql" in convert(wrong, tmp_path / "d.run", pos="pos").read_text()
    assert "x 1 0.7 rankql" in convert(wrong, tmp_path / "e.run", score="score").read_text()


@pytest.mark.parametrize("positions", [[1, 3], [2, 3], [1, 1], [1, 1, 3]])
def test_positions_that_trec_cannot_say(tmp_path, positions):
    run = pl.DataFrame({"query": "q", "item": list("xyz")[: len(positions)], "pos": positions})
    assert "positions of query 'q' have gaps or repeat" in refused(run, tmp_path / "a.run")
    convert(run, tmp_path / "a.parquet")


def test_what_is_not_retrieved_is_left_out(tmp_path):
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


@pytest.mark.parametrize("bad", ["x y", "x\ty", "x\n", " x", "", "x\u00a0y", "x\u2003", "\u0085"])
@pytest.mark.parametrize("role", ["query", "item"])
def test_white_space(tmp_path, bad, role):
    for frame in (RUN, QRELS):
        odd = frame.with_columns(pl.Series(role, [bad, *frame[role][1:]]))
        message = refused(odd, tmp_path / "a.run")
        assert message.startswith(f"source: {role} is empty or has white space")
        assert f"(1 row, {bad!r})" in message


@pytest.mark.parametrize("word", ['a"b', '"a', "it's", "a,b", "{0}", "ünï", "%s", "select", "\\n"])
def test_odd_ids_and_names(tmp_path, word):
    run = pl.DataFrame({word: [word, word], "doc": [f"{word}1", f"{word}2"], "sim": [2.0, 1.0]})
    text = f"{word} Q0 {word}1 1 2.0 {word}\n{word} Q0 {word}2 2 1.0 {word}\n"
    path = convert(run, tmp_path / f"{word}.run", query=word, tag=word)
    assert path.read_text() == text
    for suffix in (".parquet", ".csv", ".csv.gz", ".run.gz"):
        there = convert(path, tmp_path / f"{word}{suffix}", system="tag")
        named = {"system": "tag" if suffix == ".run.gz" else "system"}
        assert convert(there, tmp_path / "back.run", **named).read_text() == text


def test_named_columns_that_hold_spaces(tmp_path):
    run = RUN.rename({"query": "my query", "item": 'it"em', "score": "drop table; --"})
    path = convert(
        run, tmp_path / "a b.run", query="my query", item='it"em', score="drop table; --"
    )
    assert path.read_text() == TREC


def test_sources(tmp_path):
    con = duckdb.connect()
    con.register("frame", RUN)
    con.execute('CREATE TABLE "my run" AS FROM frame')
    RUN.write_ndjson(tmp_path / "a.jsonl")
    RUN.write_parquet(tmp_path / "a.parquet")
    sources = ["my run", con.table("my run"), RUN.lazy(), RUN.to_arrow()]
    for i, source in enumerate([*sources, tmp_path / "a.jsonl", tmp_path / "a.parquet"]):
        assert convert(source, tmp_path / f"{i}.run", con=con).read_text() == TREC
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


def test_read_only_database(tmp_path):
    with duckdb.connect(str(tmp_path / "a.db")) as con:
        con.register("frame", RUN)
        con.execute("CREATE TABLE run AS FROM frame")
    with duckdb.connect(str(tmp_path / "a.db"), read_only=True) as con:
        assert convert("run", tmp_path / "a.run", con=con).read_text() == TREC


def test_numeric_ids(tmp_path):
    run = pl.DataFrame({"query": [10, 9], "item": [1, 2], "score": [1, 2]})
    text = "9 Q0 2 1 2.0 rankql\n10 Q0 1 1 1.0 rankql\n"
    assert convert(run, tmp_path / "a.run").read_text() == text


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


@pytest.mark.parametrize("suffix", ["run", "parquet"])
def test_bad_values(tmp_path, suffix):
    target = tmp_path / f"a.{suffix}"
    for score in (float("nan"), "high"):
        bad = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [score]})
        assert "score must be a number" in refused(bad, target)
    grades = QRELS.with_columns(rel=float("inf"))
    assert "rel must be a finite number" in refused(grades, target)
    places = RUN.rename({"score": "pos"})
    assert "pos must be a whole number from 1" in refused(places, target)
    empty = RUN.with_columns(item=pl.Series([None, "x", "y", None]))
    assert refused(empty, target) == "source: item is NULL (2 rows). Correct these first"


def test_wrong_use(tmp_path):
    target = tmp_path / "a.run"
    assert "does not exist" in refused(RUN, tmp_path / "nowhere" / "a.run")
    assert "no column of that name in source" in refused(RUN, target, score="nope")
    assert "system='nope'" in refused(RUN, target, system="nope")
    assert "No item column" in refused(RUN.drop("item"), target)
    assert "No score column" in refused(RUN.drop("score"), target)
    assert "Leave out .gz" in refused(RUN, tmp_path / "a.parquet.gz")
    for tag in ("", "a b", "a\n"):
        assert "tag must be one word" in refused(RUN, target, tag=tag)


def test_empty(tmp_path):
    assert convert(RUN[:0], tmp_path / "a.run").read_text() == ""
    assert gzip.decompress(convert(RUN[:0], tmp_path / "a.run.gz").read_bytes()) == b""
    assert len(pl.read_parquet(convert(RUN[:0], tmp_path / "a.parquet"))) == 0


def test_files_of_beir(tmp_path):
    """TSV with a header, as beir.datasets.data_loader reads qrels, and {query: {item: score}}."""
    run = convert(RUN, tmp_path / "run.tsv")
    assert run.read_text() == (
        "query-id\tcorpus-id\tscore\na\ty\t2.5\na\tz\t2.5\na\tx\t1.0\nb\tx\t-1.0\n"
    )
    nested = convert(RUN, tmp_path / "run.json")
    scores = {"a": {"y": 2.5, "z": 2.5, "x": 1.0}, "b": {"x": -1.0}}
    assert json.loads(nested.read_text()) == scores
    whole = QRELS.with_columns(pl.col("rel").ceil())
    qrels = convert(whole, tmp_path / "qrels.tsv")
    assert qrels.read_text() == "query-id\tcorpus-id\tscore\na\tx\t1\na\ty\t1\nb\tx\t-2\n"
    expected = evaluate(RUN, whole, METRICS).per_query.rows()
    assert evaluate(run, qrels, METRICS).per_query.rows() == expected
    zipped = convert(whole, tmp_path / "qrels.json.gz")
    assert evaluate(nested, zipped, METRICS).per_query.rows() == expected
    odd = pl.DataFrame({"query": ['a "b"'], "item": ["x\ty"], "pos": [1]})
    for name in ("odd.tsv", "odd.json"):
        file = convert(odd, tmp_path / name)
        assert evaluate(file, {'a "b"': ["x\ty"]}, "RR")["RR"] == 1


def test_what_a_file_of_beir_cannot_hold(tmp_path):
    assert refused(QRELS, tmp_path / "a.tsv") == (
        "source: rel has fractions, but grades of BEIR are whole numbers. Write .json, .parquet or "
        ".csv"
    )
    assert refused(RUN, tmp_path / "a.json", system="item").startswith("system='item': a file of")
    assert refused(pl.concat([RUN, RUN]), tmp_path / "a.json").startswith("source has dupl")
    assert refused(RUN.with_columns(rel=1), tmp_path / "a.tsv").startswith("source has both grades")


JUDGED = {"q1": {"a": 3, "b": 1}, "q2": {"c": 1}}


def test_dicts_become_judgments(tmp_path):
    """By the name of the target or rel='rel'; else their numbers are scores."""
    lines = "q1 0 a 3\nq1 0 b 1\nq2 0 c 1\n"
    (tmp_path / "qrels.json").write_text(json.dumps(JUDGED))
    for source in (JUDGED, tmp_path / "qrels.json"):
        assert convert(source, tmp_path / "a.qrels").read_text() == lines
        assert convert(source, tmp_path / "a.txt", rel="rel").read_text() == lines
        assert convert(source, tmp_path / "a.tsv", rel="rel").read_text().endswith("q2\tc\t1\n")
        assert json.loads(convert(source, tmp_path / "b.json", rel="rel").read_text()) == JUDGED
        assert "q1 Q0 a 1 3.0" in convert(source, tmp_path / "a.run").read_text()
    assert convert({"q1": ["a"]}, tmp_path / "a.qrel").read_text() == "q1 0 a 1\n"
    assert refused(RUN, tmp_path / "run.qrels").startswith("No grade column in source")


@pytest.mark.parametrize("name", ["a.tsv", "a.json", "a.qrels"])
def test_rows_that_a_file_cannot_hold(tmp_path, name):
    empty = QRELS.with_columns(rel=pl.lit(None, pl.Int64))
    assert refused(empty, tmp_path / name).startswith("source has no grades: rel is NULL in every")
    twice = QRELS.with_columns(pl.lit(1).alias("rel"), pl.lit("x").alias("item"))
    message = "source has duplicates: query 'a', item 'x'. Keep one row of each"
    assert refused(twice, tmp_path / name) == message
    twice = RUN.with_columns(pl.lit("x").alias("item"))
    assert refused(twice, tmp_path / name.replace("qrels", "run")) == message
    assert json.loads(convert(RUN[:0], tmp_path / "none.json").read_text()) == {}
