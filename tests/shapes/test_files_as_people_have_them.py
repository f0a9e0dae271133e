"""Files without a header or ids, with a text of ids, or with a header in a file like TREC."""

import json
import pickle
import sqlite3
from contextlib import closing

import duckdb
import numpy as np
import polars as pl
import pyarrow.orc
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import cycled, few
from support.reading import assert_read, read, refused
from support.samples import written

RUN = pl.DataFrame({"query": ["q1", "q1", "q2"], "item": ["d1", "d2", "d1"], "score": [3.0, 2, 1]})
FRAME = pl.DataFrame({"query": ["q1", "q1"], "item": ["a", "b"], "score": [0.9, 0.5]})
GOLD = {"q1": ["b"]}
SCORED, JUDGED = ["query", "item", "score"], ["query", "item", "rel"]
# The name and the text of a run with b at position 2, and options.
FILES = [
    ("r.yaml", "- query: q1\n  retrieved: [a, b]\n", {}),
    ("r.yml", "q1: [a, b]\n", {}),
    ("r.yaml", "n: 1\nsecond:\n  q1: [a, b]\nfirst:\n  q1: [b]\n", {"part": "second"}),
    ("c.jsonl", '// ours\n{"query": "q1", "retrieved": ["a", "b"], "u": "http://x"}\n', {}),
    ("c.json", '/* ours\n */\n{"q1": ["a", "b"] // best\n}\n', {}),
    ("c.json", '// ours\n{"n": 1, "x": {"q1": ["b"]}, "y": {"q1": ["a", "b"]}}', {"part": "y"}),
    # A line break within quotes, as in RFC 4180, and ids in quotes, as R writes them.
    ("r.tsv", 'query\titem\tscore\ttext\nq1\ta\t2\t"a\nb ""c"" \td"\nq1\tb\t1\tx\n', {}),
    ("r.tsv", '"q1"\t"a"\t2\n"q1"\t"b"\t1\n', {"columns": SCORED}),
]  # fmt: skip


@few(6)(("name", "text", "options"), FILES)
def test_files_are_read(name, text, options, tmp_path):
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name, GOLD, **options)["RR"] == 0.5


@few(1)("mark", [" ", "\t", "  "])
def test_a_header_in_a_file_like_trec(mark, tmp_path):
    """The item is docid, not the third column."""
    path = tmp_path / "qrels.txt"
    path.write_text("qid docid type rel\nq1 d2 web 1\nq2 d1 web 1\n".replace(" ", mark))
    assert_read(RUN, path, {}, 0.75, "'item': 'docid'")


PAIRS = "q1,d2\nq1,d3\nq2,d1\n"
TRIPLES, TOP = ("".join(f"q1\t{i}\t{end}\n" for i, end in enumerate(ends)) for ends in (
    ["4339068", "12"], ["what is x\tX is a thing", "x\ty"]))  # fmt: skip
# Is it the run or the judgments? The name, the text, the options and the message.
WRONG_FILES = [
    *(("qrels", f"r{suffix}", PAIRS.replace(",", mark), {}, "[Aa]dd a header, or name the columns")
      for suffix, mark in cycled([".csv", ".tsv", ".txt"], [",", "\t"])),
    # The first judgment is not lost.
    ("qrels", "r.csv", PAIRS, {"query": ("query", "q1"), "item": ("item", "d2"), "rel": "1"},
     "qrels has no header.*'q1' is an id"),
    *(("run", "r.csv", f"q1,d1,2\n{line}\n", {"columns": SCORED}, "^run: .* Line: 2")
      for line in ("q1,d2", "q1,d2,1,x", 'q1,d2,"1')),
    *((side, name, text, {}, r"columns=\['query', 'item', '") for side, name, text in (
        ("qrels", "triples.tsv", TRIPLES), ("run", "triples.train", TRIPLES),
        ("run", "top1000.tsv", TOP), ("qrels", "top1000.dev", TOP))),
    *(("run", "r.csv", "q1,d1,2", {"columns": columns},
       "^columns must be the names|a name of its own for each column")
      for columns in ([3], 3, "query,item,score", {"query": 0}, [], np.array(["query", "item"]),
                      ["query", "query", "score"], ["query", "", "score"])),
    ("run", "r.yaml", "a: [", {}, "r.yaml' cannot be read: "),
    ("run", "r.yaml", "text", {}, "has no objects"),
    ("run", "r.txt", "2 qid:1 1:0.5 2:0.1\n0 qid:1 1:0.2 2:0.3\n", {},
     r"no ids of items\. Pass a frame .* rel \(the label\) and score \(the prediction"),
]  # fmt: skip


@few(12)(("side", "name", "text", "options", "message"), WRONG_FILES)
def test_files_that_cannot_be_read_are_named(side, name, text, options, message, tmp_path):
    (tmp_path / name).write_text(text)
    tables = (tmp_path / name, GOLD) if side == "run" else (RUN, tmp_path / name)
    refused(*tables, **options, match=message)


def test_pickles_and_addresses_are_not_read(tmp_path):
    (tmp_path / "r.pkl").write_bytes(pickle.dumps([1]))
    for run, message in (
        (tmp_path / "r.pkl", r"is a pickle, which may run code when it is read\. Write Parquet$"),
        ("s3://b/r.parquet", r"pass con=con and con\.sql\(\"FROM 's3://b/r.parquet'\"\)$"),
        ("hf://b/r.parquet", "Load httpfs on a connection"),
    ):
        refused(run, GOLD, match=message)


RECS = {"item": ("recs", "item"), "order": "rows"}
TEXTS = [
    ({"query": [*"ab"], "retrieved": ["x y", "z"], "relevant": ["y", "z w"]}, None, {}, 0.75),
    ({"user": [1, 2], "recs": ["d1 d2", "d3, d1"]}, {1: ["d2"], 2: ["d1"]}, RECS, 0.5),
    # Ids with blanks in a table with a row per item.
    ({"query": [*"aa"], "item": ["a b", "c"], "score": [2, 1], "rel": [0, 1]}, None, {}, 0.5),
    ({"user": [1, 1, 2], "recs": ["red hat", "red shoe", "hat"]}, {1: ["red shoe"]}, RECS, 0.5),
    ({"query": ["a"], "retrieved": "[7 8, 9]", "relevant": "[8]"}, None, {}, 0.5),
    ({"query": ["a"], "retrieved": ['[{"id": "x"}]'], "relevant": ["x"]}, None, {}, 1),
]


@pytest.mark.parametrize(("rows", "qrels", "options", "value"), TEXTS)
def test_texts_are_lists_if_a_query_has_one_row(rows, qrels, options, value):
    assert_read(pl.DataFrame(rows), qrels, options, value)


def test_an_object_written_as_text_is_no_list():
    refused(pl.DataFrame({"query": "a", "retrieved": ['{"x": 2}'], "relevant": "x"}),
            match="must be a list of ids, not text")  # fmt: skip


def test_files_of_trec_need_no_columns(tmp_path):
    run, qrels = tmp_path / "a.run", tmp_path / "qrels.csv"
    run.write_text("q1 Q0 d1 1 2.0 a\nq1 Q0 d2 2 1.0 a\n")
    qrels.write_text("q1,d2,1\n")
    assert read(run, qrels, columns=JUDGED)["RR"] == 0.5
    run.write_text("q1\td1\t1\n")  # not called swapped
    refused(qrels, run, match="add a header")


LISTS = pl.DataFrame({"customer_id": [1, 2], "prediction": ["0706 0707", "0708, 0706"]})
BOUGHT = pl.DataFrame({"customer_id": [1, 2], "article_id": ["0707", "0708"]})


@few(3)(
    ("form", "item"),
    cycled(["frame", "csv", "pandas"], [
        None, ("prediction", "article_id"),
        ("string_split_regex(prediction, '[, ]+')", "article_id"),
    ]),
)  # fmt: skip
def test_a_text_of_ids_is_a_list(form, item, tmp_path):
    """As in submissions to the H&M competition of Kaggle."""
    run, _ = written(LISTS, form, tmp_path, "run")
    qrels, _ = written(BOUGHT, form, tmp_path, "qrels")
    result = read(run, qrels, "MAP@12", query="customer_id", item=item)
    assert result["MAP@12"] == 0.75


CELLS = [
    ["['x', 'y z', '']", "[]"], ['["x", "y z"]', "['q']"], ["['x' 'y z']", "['q']"],
    ['{x,"y z"}', "{}"], ["['x',\n 'y z']", ""],
]  # fmt: skip


@few(2)(("cells", "form"), cycled(CELLS, ["frame", "csv", "jsonl"]))
def test_lists_written_as_text_are_lists(cells, form, tmp_path):
    """As pandas, JSON, NumPy and Postgres write them."""
    rows = pl.DataFrame({"query": ["a", "b"], "retrieved": cells, "relevant": ["['y z']", "['q']"]})
    result = read(written(rows, form, tmp_path)[0])
    assert result.values() == {"a": 0.5, "b": float("q" in cells[1])}


@few(1)("form", ["frame", "csv"])
def test_tables_of_learning_to_rank_have_no_ids(form, tmp_path):
    """The predictions of LightGBM, XGBoost and CatBoost: rows are items, in no order if tied."""
    rows = pl.DataFrame({"label": [0, 1, 2, 0, 1], "prediction": [0.3, 0.2, 0.1, 0.5, 0.5],
                         "group": [1, 1, 1, 2, 2]})  # fmt: skip
    options = {"metrics": ["nDCG", "RR"], "interval": None}
    result = rankql.evaluate(written(rows, form, tmp_path)[0], **options)
    expected = rankql.evaluate(rows.with_row_index("item"), ties="expected", **options)
    assert result.per_query["RR"].to_list() == [0.5, 0.75]
    assert result["nDCG"] == pytest.approx(expected["nDCG"], abs=1e-12)
    assert result.columns["run"]["item"] == "row number"


@few(1)("mark", [",", "\t", " "])
def test_columns_of_files_without_a_header_are_named(mark, tmp_path):
    names = [("query", "item", "score"), ("query", "item", "rel")]
    end = "txt" if mark == " " else "csv"
    rows = {
        f"run.{end}": ["q1,d1,2", "q1,d2,1"],
        f"qrels.{end}": ["q1,d2,1"],
        f"named.{end}": ["query,item,rel", "q1,d2,1"],
    }
    for name, lines in rows.items():
        (tmp_path / name).write_text("\n".join(lines).replace(",", mark))
    run, qrels, named = (tmp_path / name for name in rows)
    with pytest.raises(rankql.RankqlError) as question:
        rankql.evaluate(run, qrels, "RR")
    assert question.value.calls == [{"columns": [[*each] for each in names]}]
    for judgments in (qrels, named):  # a header stays one
        for runs in (run, {"one": str(run)}):
            assert read(runs, judgments, columns=names).means() == [0.5]
    assert rankql.explain(run, qrels, "q1", "RR", columns=names).value == 0.5
    other = tmp_path / f"other.{end}"
    other.write_bytes(run.read_bytes())
    both = rankql.compare([run, other], qrels, "RR", columns=names)
    assert both.pairs["difference"].to_list() == [0]
    rankql.convert(run, tmp_path / "a.csv", columns=names[0])
    assert read(tmp_path / "a.csv", named)["RR"] == 0.5
    message = "has 3 columns without a header, not query,item"
    refused(run, qrels, columns=["query", "item"], match=message)


def test_a_header_of_words_is_no_data(tmp_path):
    """Whoever named its columns anew would lose nothing but read it as a row."""
    run, qrels = tmp_path / "run.csv", tmp_path / "qrels.csv"
    run.write_text("consulta,documento,puntos\nq1,d1,2\nq1,d2,1\n")
    qrels.write_text("q1,d2,1\nq1,d3,0\n")
    with pytest.raises(rankql.RankqlError) as question:
        rankql.evaluate(run, qrels, "RR")
    assert not any("columns" in call for call in question.value.calls)


def test_a_call_that_fails_leaves_no_names_behind(tmp_path):
    """Of two columns without numbers, the first line may be names, so that none is offered."""
    run, qrels = tmp_path / "run.csv", tmp_path / "qrels.csv"
    run.write_text("q0,d0\nq0,d1\nq1,d1\n")
    qrels.write_text("q0,d1,1\nq1,d1,0\n")
    with pytest.raises(rankql.RankqlError, match=r"run +q0 +text") as question:
        rankql.evaluate(run, qrels, "RR")
    assert not any("columns" in call for call in question.value.calls)


def test_only_data_are_files_without_a_header(tmp_path, monkeypatch):
    """A metric or column may be called like a file of the folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "qrels", "RR", "query"):
        (tmp_path / name).write_text("q1\td1\t1\n")
    columns = [["query", "item", "score"], ["query", "item", "rel"]]
    assert read("run", "qrels", query="query", columns=columns)["RR"] == 1


FOUR = ["query", "item", "text", "passage"]


@few(2)("header", ["", "\t".join(FOUR) + "\n"])
@pytest.mark.parametrize("line", ["", 'q1\td9\t"what is a book\tThe product"\n'])
def test_quotes_and_words_between_tabs_are_text(header, line, tmp_path):
    """As in MS MARCO: a quote opens no value, and `book` is no header."""
    path = tmp_path / ("top1000.tsv" if header else "top1000.dev")
    path.write_text(f'{header}{line}q1\td1\tx\t"opens\nq1\td2\tx\tx\nq1\td3\tx\tcloses"\n')
    qrels = {"q1": {"d3": 1}}
    result = rankql.evaluate(path, qrels, "RR", columns=FOUR, order="rows")
    assert result["RR"] == (0.25 if line else pytest.approx(1 / 3))
    assert result.sql.count("read_csv") == 1


@pytest.mark.slow
def test_a_database_and_columns_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("wh.duckdb") as con:
        con.sql("CREATE TABLE impressions AS FROM RUN")
        con.sql("CREATE TABLE judged AS SELECT 'q1' AS query, 'd2' AS item, 1 AS rel")
    (tmp_path / "run.csv").write_text("q1,d1,2\nq1,d2,1\n")
    (tmp_path / "qrels.csv").write_text("q1,d2,1\n")
    columns = "--columns query,item,score --columns query,item,rel"
    for command in (
        "impressions judged --database wh.duckdb",
        f"run=impressions qrels.csv --database wh.duckdb {columns}",
        f"run.csv qrels.csv {columns}",
    ):
        done = CliRunner().invoke(main, f"eval {command} -m RR --format jsonl")
        assert done.exit_code == 0 and json.loads(done.stdout)["mean"] == 0.5, done.output
    refused("wh.duckdb", match=r"is a database\. Pass con=")
    # Tables are named as they are.
    command = "compare impressions b=impressions judged --database wh.duckdb -m RR"
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and "b - impressions" in done.stdout


# Other formats


def write_orc(path):
    text = pyarrow.schema([("query", "string"), ("item", "string"), ("score", "double")])
    pyarrow.orc.write_table(FRAME.to_arrow().cast(text), path)


@few(2)("name", ["r.orc", "r.feather", "r.arrow"])
def test_files_of_arrow_and_orc_are_read(name, tmp_path):
    path = tmp_path / name
    # DuckDB 1.4 does not filter the views of strings that polars writes.
    level = pl.CompatLevel.oldest() if duckdb.__version__ < "1.5" else pl.CompatLevel.newest()
    write_orc(path) if name == "r.orc" else FRAME.write_ipc(path, compat_level=level)
    assert read(path, GOLD)["RR"] == 0.5
    path.write_bytes(path.read_bytes()[:40])
    refused(path, GOLD, match=rf"^run: '.*{name}' is damaged")


@few(2)("name", [pytest.param("r.xlsx", marks=pytest.mark.frames), "r.sqlite", "r.avro", "r.npy"])
def test_the_error_about_another_format_has_the_call_that_reads_it(name, tmp_path):
    path = tmp_path / name
    if name == "r.npy":
        np.save(path, [[1, 2]])
    elif name == "r.sqlite":
        with closing(sqlite3.connect(path)) as con:
            con.execute(f"CREATE TABLE the_runs ({', '.join(FRAME.columns)})")
            con.executemany("INSERT INTO the_runs VALUES (?, ?, ?)", FRAME.rows())
            con.commit()
    else:
        (FRAME.write_excel if name == "r.xlsx" else FRAME.write_avro)(path)
    error = refused(path, GOLD, match=r"which is not read\. Pass ")
    call = str(error).partition("Pass ")[2].partition(" (pip")[0]
    run = eval(call, {"polars": pl, "numpy": np, "sqlite3": sqlite3})
    gold = {0: [2]} if name == "r.npy" else GOLD
    assert read(run, gold)["RR"] == 0.5
