"""What users pass in: names of columns, paths, encodings, ids and scores that cannot be right."""

import random
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pandas
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from rankql.engines import partitions
from rankql.evaluation.meta import Meta
from rankql.registry.conventions import Conventions
from rankql.registry.parse import parse
from rankql.sources.macro_sql import count_values
from rankql.sources.private import private_connection
from rankql.sources.session import open_session

RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b", "c"],
        "item": ["x", "y", "x", "z", "x"],
        "score": [2.0, 1.0, 1.0, 0.5, 1.0],
    }
)
QRELS = pl.DataFrame(
    {"query": ["a", "b", "b", "c"], "item": ["y", "x", "z", "x"], "rel": [1, 2, 1, 3]}
)
SEGMENTS = pl.DataFrame({"query": ["a", "b", "c"], "segment": ["u", "v", "v"]})


# Any name of a column

NAMES = (
    *("missing", "item", "rel", "pos", "score", "line", "least", "judged", "retrieved", "slice"),
    *("metric", "mean", "lo", "hi", "queries", "undefined", "n", "i", "error", "sample", "value"),
    *("weight", "weighed", "whole rel", "whole pos", "pos of reference", "in reference", "in run"),
    *(
        "in both",
        "top",
        "column 0",
        "a",
        "b",
        "difference",
        "group",
        "select",
        "query",
        "AP weight",
    ),
)
# The columns of these tables have names of their own, so that those above are free.
COLUMNS = {"query": "qid", "item": "docno", "score": "sim", "rel": "grade"}
OURS, THEIRS = (frame.rename(COLUMNS, strict=False) for frame in (RUN, QRELS))
ABOUT = pl.DataFrame({"qid": ["a", "b", "c"], **{name: ["u", "v", "v"] for name in NAMES}})


@pytest.mark.parametrize("home", ["attributes", "qrels", "run"])
@pytest.mark.parametrize("metrics", [["nDCG@10", "AP", "microP@2"], ["hits = count(rel)"]])
def test_slices_by_any_name(home, metrics):
    run = OURS.join(ABOUT, on="qid") if home == "run" else OURS
    qrels = THEIRS.join(ABOUT, on="qid") if home == "qrels" else THEIRS
    attributes = ABOUT if home == "attributes" else None
    found = rankql.evaluate(
        run, qrels, metrics, by=[[name] for name in NAMES], attributes=attributes, **COLUMNS
    )
    plain = rankql.evaluate(RUN, QRELS, metrics, by="segment", attributes=SEGMENTS).summary
    for name in NAMES:
        sliced = found.summary.filter(pl.col("slice").is_in(["all", f"{name}=u", f"{name}=v"]))
        assert sliced["mean"].to_list() == pytest.approx(plain["mean"].to_list(), abs=1e-12)
        assert found.per_query[name].to_list() == ["u", "v", "v"]
    assert "by_mean" in found.summary.columns and "score" in found.summary.columns
    assert "mean=u" in found.to_markdown()


def test_comparisons_by_any_name():
    runs = {"one": OURS, "two": OURS.with_columns(sim=-pl.col("sim"))}
    by = [[name] for name in NAMES]
    found = rankql.compare(runs, THEIRS, "nDCG@10", by=by, attributes=ABOUT, **COLUMNS)
    assert found.table["slice"].to_list()[:3] == ["all", "missing=u", "missing=v"]
    assert found.table.height == 1 + 2 * len(NAMES)
    gained = found.differences("nDCG@10", "one", "two")
    assert gained.columns == [
        *["qid", *(f"by_{n}" if n in ("a", "b", "difference") else n for n in NAMES)],
        *["a", "b", "difference"],
    ]


@pytest.mark.parametrize("name", ["missing", "mean", "rel", "in run", "query"])
def test_queries_of_any_name(name):
    run, qrels = OURS.rename({"qid": name}), THEIRS.rename({"qid": name})
    columns = {**COLUMNS, "query": name}
    expected = rankql.evaluate(RUN, QRELS, ["nDCG@10", "microP@2"], undefined="zero")
    found = rankql.evaluate(run, qrels, ["nDCG@10", "microP@2"], undefined="zero", **columns)
    assert found.per_query.columns[0] == name
    assert_frame_equal(found.summary, expected.summary)
    assert rankql.limits(run, qrels, "AP@2", **columns).result["AP@2"] == expected_ap()
    assert rankql.explain(run, qrels, "a", "AP@2", **columns).value == 0.5
    assert rankql.explain(run, qrels, metric="AP@2", **columns).value == expected_ap()


def expected_ap():
    return rankql.evaluate(RUN, QRELS, "AP@2")["AP@2"]


def test_an_order_of_slices_is_that_of_their_values():
    """A slice is not ordered by its label, also where the attribute is called like that."""
    values = pl.DataFrame({"query": ["a", "b", "c"], "slice": [2, 10, 1], "AP": [0.1, 0.2, 0.4]})
    found = rankql.compare({"x": values, "y": values}, by="slice")
    assert found.table["slice"].to_list() == ["all", "slice=1", "slice=2", "slice=10"]


def test_names_that_the_result_has_already():
    twice = RUN.rename({"query": "user"})
    about = pl.DataFrame({"user": ["a", "b", "c"], "qid": ["1", "2", "3"]})
    with pytest.raises(RankqlError, match=r"^by: 'qid' is also the column of the queries. Rename"):
        rankql.evaluate(
            twice,
            QRELS.rename({"query": "qid"}),
            query=("user", "qid"),
            by="qid",
            attributes=about,
        )
    about = pl.DataFrame({"query": ["a", "b", "c"], "System": ["u", "v", "v"]})
    assert rankql.evaluate(RUN, QRELS, "RR", by="System", attributes=about).summary.height == 3
    with pytest.raises(RankqlError, match=r"^by: 'System' is also the column that names the runs"):
        rankql.evaluate({"one": RUN}, QRELS, "RR", by="System", attributes=about)


# Paths


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for day in ("day=1", "day=2"):
        (tmp_path / day).mkdir()
        part = RUN.filter((pl.col("query") == "a") == (day == "day=1"))
        part.write_parquet(tmp_path / day / "part.parquet")
    RUN.write_parquet("run.parquet")
    QRELS.write_parquet("qrels.parquet")
    return tmp_path


def printed(*arguments):
    made = CliRunner().invoke(main, [*arguments, "-m", "RR", "--format", "json"])
    assert made.exit_code == 0, made.output
    return made.stdout


def test_home_folders(folder):
    expected = rankql.evaluate(RUN, QRELS, "RR").summary
    for path in ("~/run.parquet", "~/r*.parquet"):
        assert_frame_equal(rankql.evaluate(path, "~/qrels.parquet", "RR").summary, expected)
    rankql.evaluate("~/run.parquet", "~/qrels.parquet", "RR", output="~/out.parquet")
    assert_frame_equal(rankql.combine("~/out.parquet").summary, expected)
    assert (folder / "out.parquet").exists()
    with pytest.raises(RankqlError, match=r"would overwrite"):
        rankql.evaluate("~/run.parquet", QRELS, "RR", output=folder / "run.parquet")
    rankql.compare({"a": "~/out.parquet", "b": "~/out.parquet"}).save("~/report.md")
    assert (folder / "report.md").exists()
    for run in ("~/run.parquet", "name=~/run.parquet"):
        assert '"mean": 0.8333' in printed("eval", run, "~/qrels.parquet")


@pytest.mark.parametrize("run", ["day=1/*.parquet", "day=1/part.parquet", "day=1"])
def test_paths_with_an_equals_sign(folder, run):
    assert '"mean": 0.5,' in printed("eval", run, "qrels.parquet", "--missing", "skip")
    assert '"system": "one"' in printed("eval", f"one={run}", "qrels.parquet")
    two = printed("eval", f"one={run}", "two=day=2/*.parquet", "qrels.parquet")
    assert '"system": "one"' in two and '"system": "two"' in two


def test_names_too_long_for_a_path(folder):
    name = "x" * 300 + ".parquet"
    message = r"^run: file 'x{100}'\.\.\. \(308 characters\) does not exist\. To read a table"
    for ask in (rankql.evaluate, rankql.check, rankql.limits):
        with pytest.raises(RankqlError, match=message):
            ask(name, QRELS)
    with pytest.raises(RankqlError, match=r"^File .* does not exist"):
        rankql.combine([name])
    with pytest.raises(RankqlError, match=r"^(run 'a'|a): file .* does not exist"):
        rankql.compare({"a": name, "b": name})
    with pytest.raises(RankqlError, match=r"too long"):
        rankql.evaluate(RUN, QRELS, "RR", output=name)
    made = CliRunner().invoke(main, ["eval", name, "qrels.parquet"])
    assert made.exit_code == 2 and "does not exist" in made.stderr


# What is in the files


@pytest.mark.parametrize("suffix", ["run", "csv", "jsonl"])
def test_text_in_another_encoding(tmp_path, suffix):
    rows = {
        "run": "a Q0 x 1 2.0 t\na Q0 {} 2 1.0 t\n",
        "csv": "query,item,score\na,x,2\na,{},1\n",
        "jsonl": '{{"query":"a","item":"x","score":2}}\n{{"query":"a","item":"{}","score":1}}\n',
    }
    path = tmp_path / f"one.{suffix}"
    line = {"csv": r" \(line 3\)", "run": r" \(line 2\)"}.get(suffix, "")
    for encoding, message in (
        ("utf-16", r"is UTF-16 text, not UTF-8\. Convert it, for example: iconv -f UTF-16 -t"),
        ("latin-1", rf"is not UTF-8 text{line}\. Convert it, for example: iconv -f L"),
    ):
        path.write_text(rows[suffix].format("é"), encoding=encoding)
        for ask in (rankql.evaluate, rankql.check, rankql.limits):
            with pytest.raises(RankqlError, match=rf"^run: '.*one\.{suffix}' {message}"):
                ask(path, QRELS)
    # The latter with the mark that Windows writes, which JSON must not have.
    for encoding in ("utf-8", *(["utf-8-sig"] if suffix != "jsonl" else [])):
        path.write_text(rows[suffix].format("y"), encoding=encoding)
        assert rankql.evaluate(path, QRELS, "RR", missing="skip")["RR"] == 0.5


def test_damaged_parquet(tmp_path):
    path = tmp_path / "one.parquet"
    pl.concat([RUN] * 1000).with_row_index("n").write_parquet(path)
    good = path.read_bytes()
    for bad in (b"", b"nothing of that kind", good[: len(good) // 2]):
        path.write_bytes(bad)
        for ask in (rankql.evaluate, rankql.check):
            with pytest.raises(RankqlError, match=r"one.parquet' is not a complete Parquet file"):
                ask(path, QRELS)
    for filler in (b"\xff", b"\0", b"A"):  # in all columns; the end says where they are
        path.write_bytes(good[:4] + filler * (len(good) - 2004) + good[-2000:])
        for ask in (rankql.evaluate, rankql.check):
            with pytest.raises(RankqlError, match=r"one.parquet.* The file is damaged: write or c"):
                ask(path, QRELS, item=("n", "item"))


def test_comments_in_trec_files(tmp_path):
    """As in trec_eval 10: lines that begin with # are none; a # further on is part of an id."""
    qrels, run = tmp_path / "a.qrels", tmp_path / "a.run"
    qrels.write_text("# made on 2024\na 0 x#1 1\n  # two words or more than 4\n#b 0 y 1\n")
    run.write_text("# a b c d e\na Q0 y 1 2.0 t\na Q0 x#1 2 1.0 t\n")
    found = rankql.evaluate(run, qrels, "RR").per_query
    assert found.rows() == [("a", 0.5)]
    qrels.write_text("# made on 2024\na  0\tx#1 1\n")  # not one character between
    assert rankql.evaluate(run, qrels, "RR").per_query.rows() == [("a", 0.5)]


# Connections


def test_one_connection_of_many_threads():
    con = duckdb.connect()
    con.execute("CREATE TABLE r AS FROM RUN; CREATE TABLE q AS FROM QRELS")
    found, failed = [], []

    def work():
        for _ in range(3):
            try:
                found.append(rankql.evaluate("r", "q", "RR", con=con)["RR"])
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(set(found)) == 1 and len(found) == 12


def test_evaluations_in_threads_without_a_connection():
    """They share a database of the process, and see nothing of each other."""
    ranked = {"query": [1, 1, 1, 2, 2, 2], "pos": [1, 2, 3] * 2, "rel": [3, 0, 1, 0, 2, 0]}
    frames = [pl.DataFrame({**ranked, "rel": [n, *ranked["rel"][1:]]}) for n in range(3)]
    expected = [rankql.evaluate(frame, metrics="nDCG@10").per_query for frame in frames]
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(lambda n: rankql.evaluate(frames[n % 3], metrics="nDCG@10"), range(24))
    assert all(one.per_query.equals(expected[n % 3]) for n, one in enumerate(found))
    con = private_connection()
    assert con.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    assert con.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_one_frame_in_threads():
    """polars 1 hangs if two threads convert it to Arrow, so this runs in a process of its own."""
    code = """
import polars
from concurrent.futures import ThreadPoolExecutor
from rankql.sources.frames import register_frame
from rankql.sources.private import private_connection

frame = polars.DataFrame({"query": [1, 2], "pos": [1, 1], "rel": [3, 0]})

def register(_):
    con = private_connection()
    for _ in range(200):
        register_frame(con, "frame", frame)

with ThreadPoolExecutor(6) as pool:
    list(pool.map(register, range(6)))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_macros_are_created_once():
    """On a connection of the user too, unless a transaction that is undone created them."""
    con = duckdb.connect()
    con.register("frame", RUN.with_columns(rel=pl.Series([1.0, 2, 1, 0.5, 1])).to_arrow())
    con.execute("CREATE TABLE t AS FROM frame").fetchall()

    def macros():
        named = "FROM duckdb_functions() WHERE function_name LIKE 'rankql %'"
        return con.sql(f"SELECT function_name, function_oid {named} ORDER BY ALL").fetchall()

    def evaluate(metric):
        return rankql.evaluate("t", metrics=metric, con=con, interval=None)[metric]

    con.execute("BEGIN")
    value = evaluate("nDCG@10")
    assert macros()
    con.execute("ROLLBACK")
    assert not macros()
    assert evaluate("nDCG@10") == value
    before = macros()
    con.execute("BEGIN")
    assert evaluate("nDCG@10") == value
    evaluate("AP")
    assert {*before} < {*macros()}
    con.execute("ROLLBACK")
    assert evaluate("nDCG@10") == value
    assert macros() == before
    evaluate("AP")
    assert {*before} < {*macros()}


def test_connections_that_cannot_be_used():
    con = duckdb.connect()
    con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY); BEGIN")
    with pytest.raises(duckdb.Error):
        con.execute("INSERT INTO t VALUES (1), (1)").fetchall()
    for ask in (rankql.evaluate, rankql.check, rankql.limits):
        with pytest.raises(RankqlError, match=r"The transaction of con has failed. Call con.rollb"):
            ask(RUN, QRELS, con=con)
    con.rollback()
    assert rankql.evaluate(RUN, QRELS, "RR", con=con)["RR"] > 0
    con.close()
    with pytest.raises(RankqlError, match=r"^con is closed. Pass an open connection$"):
        rankql.evaluate(RUN, QRELS, con=con)


# Expressions


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("x =", "'x =' has no expression after '='. Write label = SQL expression, such as"),
        ("x =  ", "'x =  ' has no expression after '='"),
        ("x = )", r"The metric 'x' = '\)' is not valid SQL: syntax error at or near"),
        ("x = 1); SELECT (2", r"The metric 'x' = '1\); SELECT \(2' must be one SQL expression"),
    ],
)
def test_expressions_that_are_none(folder, metric, message):
    for ask in (rankql.evaluate, rankql.limits):
        with pytest.raises(RankqlError, match=rf"^{message}"):
            ask(RUN, QRELS, metric)
    made = CliRunner().invoke(main, ["eval", "run.parquet", "qrels.parquet", "-m", metric])
    assert made.exit_code == 2 and metric.split()[0] in made.stderr


# Ids that do not match


def item_ids(kind):
    """A run and judgments of the items 1 to 4, the ids written in some way."""
    run = pl.DataFrame({"query": ["a"] * 3, "item": [1, 2, 3], "score": [3.0, 2.0, 1.0]})
    qrels = pl.DataFrame({"query": ["a"] * 2, "item": [2, 4], "rel": [1, 1]})
    text = pl.col("item").cast(pl.String)
    run_ids, qrels_ids = {
        "i123": ("i" + text, pl.col("item")),
        "float": (pl.col("item").cast(pl.Float64), text),
        "case": ("D" + text, "d" + text),
        "blanks": (text, " " + text),
    }[kind]
    return run.with_columns(item=run_ids), qrels.with_columns(item=qrels_ids)


def asks(run, qrels, **options):
    """Each function that holds a run against judgments."""
    return [
        lambda: rankql.evaluate(run, qrels, **options),
        lambda: rankql.limits(run, qrels, **options),
        lambda: rankql.explain(run, qrels, **options),
        lambda: rankql.explain(run, qrels, "a", **options),
        lambda: rankql.compare({"one": run, "two": run}, qrels, **options),
        lambda: rankql.gate(run, qrels, minimum="RR>0", **options),
    ]


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "types"),
    [
        ("i123", "'i1'", "'2'", "VARCHAR in run and BIGINT in qrels"),
        ("float", "'1.0'", "'2'", "DOUBLE in run and VARCHAR in qrels"),
        ("case", "'D1'", "'d2'", ""),
        ("blanks", "'1'", "' 2'", ""),
    ],
)
def test_no_item_matches(kind, ours, theirs, types):
    run, qrels = item_ids(kind)
    for ask in asks(run, qrels):
        with pytest.raises(RankqlError) as caught:
            ask()
        hint = (
            ". '1.0' is an integer that became a float, as with a NULL in pandas: cast it"
            if kind == "float"
            else ""
        )
        said = str(caught.value).replace("run 'one'", "run").replace("of the run", "of run")
        assert said == (
            f"No item of run is judged for its query: for query 'a' the run has item {ours}, qrels "
            f"has {theirs}{f' (items are {types})' if types else ''}. Write item ids the same way "
            f"in both{hint}"
        )
    report = rankql.check(run, qrels)
    (found,) = [finding for finding in report if finding.kind == "no-common-items"]
    assert found.level == "error" and not report.ok
    shown = [found.examples[0][f"item of {side}"] for side in ("run", "qrels")]
    assert [repr(str(value)) for value in shown] == [ours, theirs]
    # One matching item is enough to be evaluated, also by ids of other types.
    good = run.with_columns(item=pl.lit("x")), qrels.with_columns(item=pl.lit("x")).head(1)
    assert rankql.evaluate(good[0].head(1), good[1], "RR")["RR"] == 1


def test_numbers_match_numbers():
    run, qrels = item_ids("float")
    qrels = qrels.with_columns(pl.col("item").cast(pl.Int32))
    assert rankql.evaluate(run, qrels, "RR")["RR"] == 0.5
    assert "no-common-items" not in [f.kind for f in rankql.check(run, qrels)]


def test_each_run_must_match():
    bad = RUN.with_columns(item="i" + pl.col("item"))
    with pytest.raises(RankqlError, match=r"^No item of run 'two' is judged for its query"):
        rankql.evaluate({"one": RUN, "two": bad}, QRELS)
    both = pl.concat([f.with_columns(system=pl.lit(s)) for s, f in (("one", RUN), ("two", bad))])
    with pytest.raises(RankqlError, match=r"^No item of run 'two' is judged for its query"):
        rankql.evaluate(both, QRELS, system="system")
    found = [f for f in rankql.check(both, QRELS, system="system") if f.level == "error"]
    assert [(f.kind, f.table) for f in found] == [("no-common-items", "run, system 'two'")]


def test_no_item_of_a_reference_matches():
    bad = RUN.with_columns(item="i" + pl.col("item"))
    with pytest.raises(RankqlError, match=r"^No item of the run is in the reference for its query: "
                       r"for query 'a' the run has item 'ix', reference has 'x'"):  # fmt: skip
        rankql.correlate(bad, RUN)
    other = RUN.with_columns(score=-pl.col("score")).filter(pl.col("query") == "a")
    assert rankql.correlate(RUN, other, "RBO(p=0.9)", k=1).notes  # below the cutoff they match


def test_few_items_match():
    ids = pl.Series(range(200)).cast(pl.String)
    run = pl.DataFrame({"query": "a", "item": "d" + ids, "score": range(200, 0, -1)})
    qrels = pl.DataFrame({"query": "a", "item": "x" + ids.head(100), "rel": 1})
    for matching, note in (
        (1, "Only 1 of 100 judged items is in the run: check that run and qrels write item ids "
            "the same way"),
        (4, "Only 4 of 100 judged items are in the run: check that run and qrels write item ids "
            "the same way"),
        (5, None),
    ):  # fmt: skip
        item = pl.when(pl.int_range(100) < matching).then("d" + ids.head(100)).otherwise("item")
        judged = qrels.with_columns(item=item)
        assert rankql.evaluate(run, judged).notes == [note] * (note is not None)
        found = [f for f in rankql.check(run, judged) if f.kind == "few-common-items"]
        assert [f.level for f in found] == ["warning"] * (note is not None)
    short = rankql.evaluate(run.tail(50), qrels.with_columns(item="d" + ids.tail(100))).notes
    assert short == []


def test_items_are_counted_beyond_the_first_queries():
    """What 1000 queries do not show is looked up in all of them."""
    queries = [f"q{i:04}" for i in range(1500)]
    run = pl.DataFrame({"query": queries, "item": "x", "score": 1.0})
    qrels = run.select("query", item=pl.when(pl.col("query") > "q1200").then(pl.lit("x"))
                       .otherwise(pl.lit("y")), rel=1)  # fmt: skip
    assert rankql.evaluate(run, qrels, "RR", undefined="zero")["RR"] == pytest.approx(299 / 1500)
    with pytest.raises(RankqlError, match=r"No item of the run is judged"):
        rankql.evaluate(run, qrels.with_columns(item=pl.lit("y")))


# Columns that both tables have


def test_frames_of_pyterrier():
    run = pl.DataFrame(
        {
            "qid": ["1", "1", "2"],
            "docid": [7, 8, 7],
            "docno": ["d7", "d8", "d7"],
            "score": [2.0, 1.0, 3.0],
            "query": ["cheap flights", "cheap flights", "rain"],
        }
    )
    qrels = pl.DataFrame({"qid": ["1", "2"], "docno": ["d8", "d7"], "label": [1, 2]})
    for ours, theirs in ((run, qrels), (run.to_pandas(), qrels.to_pandas())):
        found = rankql.evaluate(ours, theirs, "RR", by="query")
        assert found.columns == {
            "run": {"query": "qid", "item": "docno", "score": "score"},
            "qrels": {"query": "qid", "item": "docno", "rel": "label"},
        }
        assert found.per_query.rows() == [("1", "cheap flights", 0.5), ("2", "rain", 1.0)]
        assert {"query = qid", "item = docno"} <= set(
            repr(found).replace(";", ",").split(", ")
        ) or ("run: query = qid, item = docno" in repr(found))
        assert rankql.check(ours, theirs).ok
    # By the name that both have, whichever comes first otherwise.
    internal = qrels.with_columns(docid=pl.Series([8, 7])).drop("docno")
    assert rankql.evaluate(run, internal, "RR").columns["run"]["item"] == "docid"
    texts = pl.DataFrame({"query": ["cheap flights", "rain"], "docno": ["d8", "d7"], "rel": [1, 2]})
    assert rankql.evaluate(run, texts, "RR").columns["run"]["query"] == "query"
    named = rankql.evaluate(run, qrels, "RR", query="qid", item=("docno", "docno"))
    assert named["RR"] == 0.75
    with pytest.raises(
        RankqlError, match=r"run: rank must be a whole number from 1, not 0. Positi"
    ):
        rankql.evaluate(run.with_columns(rank=pl.Series([0, 1, 0])), qrels)


def test_columns_of_another_case():
    run = RUN.rename({"query": "Query_ID", "item": "DocNo"})
    qrels = QRELS.rename({"query": "QUERY_id", "item": "docNO"}).with_columns(Item=pl.lit("é"))
    assert rankql.evaluate(run, qrels, "RR").columns == {
        "run": {"query": "Query_ID", "item": "DocNo", "score": "score"},
        "qrels": {"query": "QUERY_id", "item": "docNO", "rel": "rel"},
    }


def test_other_columns_are_named_where_nothing_matches():
    run = RUN.rename({"item": "docno"}).with_columns(docid=pl.lit("z"))
    qrels = QRELS.rename({"item": "document"}).with_columns(document="i" + pl.col("document"))
    with pytest.raises(RankqlError, match=r"in both, or name other columns with item=: run also"):
        rankql.evaluate(run, qrels)


# Scores that are missing


def test_scores_that_are_not_numbers():
    """One rule for all sources: NaN is refused, also that of pandas, which DuckDB reads as NULL."""
    nan = pl.when(pl.col("item") == "z").then(float("nan")).otherwise("score").alias("score")
    polars = RUN.with_columns(nan)
    frame = polars.to_pandas()
    for run in (polars, polars.to_arrow(), frame, frame.astype({"score": object}),
                frame.astype({"score": "float32"})):  # fmt: skip
        for ask in (*asks(run, QRELS), lambda run=run: rankql.correlate(run, RUN)):
            with pytest.raises(
                RankqlError, match=r"^run( 'one')?: score must be a number, not nan$"
            ):
                ask()
        report = rankql.check(run, QRELS)
        assert [(f.level, f.count) for f in report if f.kind == "nan-scores"] == [("error", 1)]
        assert "null-scores" not in [f.kind for f in report]
    some = pandas.DataFrame({"query": ["a"], "item": ["y"], "score": pandas.array([None, 1.0][1:])})
    assert rankql.evaluate(some, QRELS, "RR", missing="skip")["RR"] == 1


@pytest.mark.parametrize(
    ("role", "kind", "problem"),
    [
        ("rel", "nan-grades", "must be a finite number, not nan"),
        ("pos", "text-positions", "must be a whole number from 1, not nan"),
    ],
)
def test_grades_and_positions_of_pandas_that_are_not_numbers(role, kind, problem):
    """NaN is refused as in other frames; as NULL it is unjudged, or not retrieved."""
    table = pl.DataFrame(
        {"query": ["a", "a", "b"], "item": ["x", "y", "x"], "rel": [1.0, 0, 1], "pos": [1.0, 2, 1]}
    )
    null = table.with_columns(pl.when(pl.col("item") == "x").then(role).alias(role))
    nan = null.with_columns(pl.col(role).fill_null(float("nan")))
    with pytest.raises(RankqlError, match=f"^run: {role} {problem}"):
        rankql.evaluate(nan, metrics="RR")
    frame = nan.to_pandas()
    remedy = re.escape(f". If NaN means NULL, pass .astype({{'{role}': 'Float64'}})")
    for ask in (rankql.evaluate, rankql.limits):
        with pytest.raises(RankqlError, match=f"^run: {role} {problem}{remedy}$"):
            ask(frame, metrics="RR")
    for wrong in (nan, frame):
        found = [(f.level, f.count) for f in rankql.check(wrong) if f.kind == kind]
        assert found == [("error", 1)]
    frame[role] = pandas.array([None if x != x else x for x in frame[role]], dtype="Float64")
    assert rankql.evaluate(frame, metrics="RR")["RR"] == rankql.evaluate(null, metrics="RR")["RR"]
    assert not [f for f in rankql.check(frame) if f.level == "error"]


def test_null_grades_are_noted():
    null = QRELS.with_columns(rel=pl.when(pl.col("query") != "c").then("rel"))
    result = rankql.evaluate(RUN, null, "AP", interval=None)
    assert result.notes[0] == (
        "1 of 4 rows of qrels have no grade (rel is NULL) and are left out: their items count as "
        "unjudged"
    )
    assert result.per_query.equals(rankql.evaluate(RUN, QRELS[:3], "AP").per_query)
    assert rankql.evaluate(RUN, QRELS, "AP").notes == []


def test_values_of_polars_frames_are_counted_without_a_query():
    """The counts are those of DuckDB, which calls one of two columns of a name differently."""
    frame = pl.DataFrame({"query": ["a", None, "b"], "Query": [None, None, 1.5], "item": [1, 2, 3]})
    with open_session(None) as session:
        known, read = session.table(frame, "run"), session.table(frame.to_arrow(), "qrels")
        names = [*known.columns]
        assert len(set(names)) == 3
        expected = (3, dict(zip(names, (2, 1, 3), strict=True)))
        assert session.counts == {known.sql: expected, read.sql: None}
        assert count_values(session, known, names) == expected
        assert count_values(session, read, names) == expected
        first = replace(known, sql=f"(FROM {known.sql} LIMIT 1)")
        assert count_values(session, first, ["query"]) == (1, {"query": 1})


def test_queries_without_attributes():
    options = {"by": "segment", "interval": None}
    result = rankql.evaluate(RUN, QRELS, "AP", attributes=SEGMENTS[:1], **options)
    assert result.notes == [
        "2 of 3 queries have no row in attributes ('b', 'c'): their slice is NULL"
    ]
    assert rankql.evaluate(RUN, QRELS, "AP", attributes=SEGMENTS, **options).notes == []
    other = SEGMENTS.with_columns(query=pl.col("query").str.to_uppercase())
    said = (
        "No query has attributes: qrels has 'a', 'b', 'c', attributes has 'A', 'B', 'C'. Write "
        "query ids the same way in both"
    )
    with pytest.raises(RankqlError, match=re.escape(said)):
        rankql.evaluate(RUN, QRELS, "AP", attributes=other, **options)


def test_scores_that_are_null():
    null = pl.when(pl.col("item") != "z").then("score").alias("score")
    polars = RUN.with_columns(null)
    extended = polars.to_pandas().astype({"score": "Float64"})
    note = "1 of 5 rows of the run have no score (NULL) and count as not retrieved"
    for run in (polars, polars.to_arrow(), extended):
        found = rankql.evaluate(run, QRELS, "RR")
        assert found.notes == [note] and note in repr(found)
        assert note in rankql.limits(run, QRELS, "RR").notes
        assert note in rankql.correlate(run, RUN).notes
        report = rankql.check(run, QRELS)
        assert [(f.level, f.count) for f in report if f.kind == "null-scores"] == [("warning", 1)]
    nothing = RUN.with_columns(score=pl.lit(None, pl.Float64))
    one = r"(the run|run 'one')"
    for run in (nothing, nothing.to_arrow(), nothing.to_pandas().astype({"score": "Float64"})):
        for ask in (*asks(run, QRELS), lambda run=run: rankql.correlate(run, RUN)):
            with pytest.raises(
                RankqlError, match=rf"^Every score of {one} is NULL, so nothing is r"
            ):
                ask()
        report = rankql.check(run, QRELS)
        assert [f.level for f in report if f.kind == "null-scores"] == ["error"]
    with pytest.raises(RankqlError, match=r"^Every score of run 'two' is NULL"):
        rankql.evaluate({"one": RUN, "two": nothing}, QRELS)
    places = RUN.select("query", "item", pos=pl.lit(None, pl.Int64))
    with pytest.raises(RankqlError, match=r"^Every position of the run is NULL.*positions: pos=$"):
        rankql.evaluate(places, QRELS)
    # In a table of both, NULL says that an item was not retrieved.
    table = RUN.join(QRELS, on=["query", "item"]).select("query", "item", "rel", pos=1)
    unseen = table.with_columns(pos=pl.when(pl.col("query") == "a").then(None).otherwise(1))
    assert rankql.evaluate(unseen.unique(["query"]), metrics="RR").notes == []
    assert pandas


# Distances

DISTANCES = pl.DataFrame(
    [{"query": q, "item": f"i{i:02}", "distance": i / 10} for q in "abc" for i in range(20)]
)
NEAREST = pl.DataFrame([{"query": q, "item": f"i{i:02}", "rel": 1} for q in "abc" for i in (0, 2)])
SCORES = DISTANCES.select("query", "item", score="distance")
NEGATED = DISTANCES.select("query", "item", score=-pl.col("distance"))


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    *({"ties": ties} for ties in ("item", "order", "best", "worst", "expected")),
    *({"unjudged": "remove"}, {"unjudged": "bounds"}, {"conventions": "trec_eval"}),
])  # fmt: skip
def test_distances_are_best_where_they_are_lowest(options):
    tied = [run.with_columns(pl.col(run.columns[2]).round(0)) for run in (DISTANCES, NEGATED)]
    metrics = ["nDCG@10", "AP", "RR@10", "P@5"]
    for near, negated in ((DISTANCES, NEGATED), tied) if "ties" in options else [tied]:
        expected = rankql.evaluate(negated, NEAREST, metrics, **options).per_query
        found = rankql.evaluate(near, NEAREST, metrics, **options)
        assert_frame_equal(found.per_query, expected)
        assert found.columns["run"]["order"] == "ascending"
        assert "score = distance, order = ascending" in repr(found)
        named = near.rename({"distance": "gap"})
        found = rankql.evaluate(named, NEAREST, metrics, score="gap", descending=False, **options)
        assert_frame_equal(found.per_query, expected)
        high = rankql.evaluate(near, NEAREST, metrics, descending=True, **options)
        reverse = near.select("query", "item", score="distance")
        plain = rankql.evaluate(reverse, NEAREST, metrics, **options)
        assert_frame_equal(high.per_query, plain.per_query)
        assert "order" not in high.columns["run"]


def test_distances_everywhere():
    ap = pytest.approx(rankql.evaluate(NEGATED, NEAREST, "AP")["AP"], abs=1e-12)
    assert rankql.evaluate(SCORES, NEAREST, "AP")["AP"] < 0.1
    for run, options in ((DISTANCES, {}), (SCORES, {"descending": False})):
        runs = {"one": run, "two": run}
        assert rankql.compare(runs, NEAREST, "AP", **options).table["mean_a"][0] == ap
        assert rankql.gate(run, NEAREST, minimum="AP>=0.8", **options).passed
        assert rankql.limits(run, NEAREST, "AP", **options).result["AP"] == ap
        assert rankql.explain(run, NEAREST, "a", "AP", **options).value == ap
        assert rankql.correlate(run, NEGATED, "TauB", **options)["TauB"] == 1
        graded = run.join(NEAREST, on=["query", "item"], how="left")
        assert rankql.evaluate(graded, metrics="AP", **options)["AP"] == ap
    mixed = {"one": DISTANCES, "two": NEGATED}
    assert rankql.evaluate(mixed, NEAREST, "AP").summary["mean"].to_list() == [ap] * 2
    for given in (0, "no"):
        with pytest.raises(RankqlError, match=r"^descending must be True or False, not"):
            rankql.evaluate(SCORES, NEAREST, descending=given)
    ranked = SCORES.with_columns(rank=pl.lit(1))
    with pytest.raises(
        RankqlError, match=r"^descending=False orders scores, but run is ordered by"
    ):
        rankql.evaluate(ranked, NEAREST, descending=False)


def test_expressions_see_the_distances():
    metrics = ["x = avg(score)", "RMSE"]
    means = rankql.evaluate(SCORES, NEAREST, metrics).summary["mean"]
    for options in ({}, {"unjudged": "remove"}):
        expected = rankql.evaluate(SCORES, NEAREST, metrics, **options).summary["mean"]
        found = rankql.evaluate(DISTANCES, NEAREST, metrics, **options).summary["mean"]
        assert found.to_list() == pytest.approx(expected.to_list())
    assert means[0] > 0
    with pytest.raises(RankqlError, match=r"^x reads scores, but the lowest is best in some runs"):
        rankql.evaluate({"one": DISTANCES, "two": NEGATED}, NEAREST, metrics)
    with pytest.raises(RankqlError, match=r"^x reads scores, and ties='expected' requires"):
        rankql.evaluate(DISTANCES, NEAREST, metrics, ties="expected")


def test_distances_on_the_command_line(folder):
    SCORES.write_parquet("near.parquet")
    NEAREST.write_parquet("near.qrels.parquet")
    DISTANCES.write_parquet("distances.parquet")
    near = ["near.parquet", "near.qrels.parquet", "--ascending"]
    assert '"mean": 1.0' in printed("eval", *near)
    assert '"order": "ascending"' in printed("eval", *near)
    assert '"mean": 1.0' in printed("eval", "distances.parquet", "near.qrels.parquet")
    assert '"value": 1.0' in printed("explain", *near, "-Q", "a")
    assert '"mean": 1.0' in printed("limits", *near)
    assert '"mean_a": 1.0' in printed("compare", "a=near.parquet", "b=distances.parquet", *near[1:])
    made = CliRunner().invoke(main, ["check", *near[:2]])
    assert "reversed-scores" in made.stdout
    assert "reversed-scores" not in CliRunner().invoke(main, ["check", *near]).stdout
    made = CliRunner().invoke(main, ["sql", *near, "-m", "RR"])
    assert made.exit_code == 0 and "(0 - CAST" in made.stdout


def test_distances_as_a_trec_run(tmp_path):
    for run, options in ((DISTANCES, {}), (SCORES, {"descending": False})):
        path = rankql.convert(run, tmp_path / "near.run", **options)
        lines = ["a Q0 i00 1 0.0 rankql", "a Q0 i01 2 -0.1 rankql"]
        assert path.read_text().splitlines()[:2] == lines
        path = rankql.convert(run, tmp_path / "near.parquet", **options)
        for written in (path, tmp_path / "near.run"):
            assert rankql.evaluate(written, NEAREST, "RR")["RR"] == 1


def test_check_finds_reversed_scores():
    def found(run, qrels=NEAREST, **options):
        return [f for f in rankql.check(run, qrels, **options) if f.kind == "reversed-scores"]

    (one,) = found(SCORES)
    assert one.level == "warning" and one.message.endswith("RR 1.000, not 0.056")
    assert "pass descending=False" in one.why
    assert found(DISTANCES, descending=True)
    assert "descending=True" in found(NEGATED, descending=False)[0].why
    assert not found(DISTANCES) and not found(NEGATED) and not found(SCORES, descending=False)
    graded = SCORES.join(NEAREST, on=["query", "item"], how="left")
    assert found(graded, None) and not found(graded.rename({"score": "distance"}), None)
    both = pl.concat([r.with_columns(system=pl.lit(n)) for n, r in (("x", SCORES), ("y", NEGATED))])
    assert [f.table for f in found(both, system="system")] == ["run, system 'x'"]


def test_check_seldom_finds_reversed_scores_by_chance():
    """Of orders at random about 1 in 100, as one in 100 is so far below its mean."""
    draw = random.Random(7)
    rows = [
        {"system": f"s{s}", "query": q, "item": i, "score": draw.random()}
        for s in range(100) for q in range(12) for i in range(15)
    ]  # fmt: skip
    qrels = [{"query": q, "item": i, "rel": 1} for q in range(12) for i in range(3)]
    report = rankql.check(pl.DataFrame(rows), pl.DataFrame(qrels), system="system")
    assert sum(f.kind == "reversed-scores" for f in report) <= 5  # 1 expected, P(> 5) < 0.1%


# Judgments that contradict each other


def test_contradictory_judgments():
    message = (
        "^qrels has different grades for one item: query 'a', item 'y': 0 and 1; query 'b', item "
        "'x': -1 and 2. Keep one row of each$"
    )
    more = pl.DataFrame({"query": ["b", "a", "c"], "item": ["x", "y", "q"], "rel": [-1, 0, 0]})
    qrels = pl.concat([QRELS, more])
    for metrics in ("nDCG@10", "RR", ["nDCG@10", "R@5"], "nDCG"):
        for ask in (rankql.evaluate, rankql.limits):
            with pytest.raises(RankqlError, match=message):
                ask(RUN, qrels, metrics)
    with pytest.raises(RankqlError, match=r"qrels has different grades for one item: query 'a'"):
        rankql.explain(RUN, qrels, "a")
    found = [f for f in rankql.check(RUN, qrels) if f.kind == "conflicting-judgments"]
    assert [(f.level, f.count) for f in found] == [("error", 2)]
    same = pl.concat([QRELS, more.tail(1), more.tail(1)])  # twice 0 is no contradiction
    assert rankql.evaluate(RUN, same, "nDCG@10")["nDCG@10"] > 0


# In parts, as in Spark


def in_parts(run, qrels, metrics="RR", **options):
    """What Spark's partitions report of each query by itself."""
    rules = Conventions(ties="item")
    meta = Meta("query", [metrics], rules.as_dict())
    task = partitions.Task([None], {}, None, (), (), parse(metrics), rules, meta=meta, **options)
    tables = [
        {"run": run.filter(query=q).to_arrow(), "qrels": qrels.filter(query=q).to_arrow()}
        for q in sorted({*run["query"], *qrels["query"]})
    ]
    moments = pl.concat(
        [partitions.summarise_partition(task, each) for each in tables], how="diagonal"
    )
    notes, _ = partitions.merge_reports(moments[partitions.REPORT].drop_nulls())
    return pl.concat([partitions.evaluate_partition(task, each) for each in tables]), notes


def refused():
    """Tables that are refused, with the beginning of the error."""
    ids = RUN.with_columns(item="i" + pl.col("item"))
    twice = pl.concat([QRELS, QRELS.head(1).with_columns(rel=pl.lit(0, pl.Int64))])
    return [
        (
            ids,
            QRELS,
            r"^No item of the run is judged for its query: for query 'a' the run has item",
        ),
        (RUN, twice, r"^qrels has different grades for one item: query 'a', item 'y': 0 and 1"),
        (
            RUN.with_columns(score=pl.lit(None, pl.Float64)),
            QRELS,
            r"^Every score of the run is NUL",
        ),
    ]


def test_the_same_rules_in_parts():
    for run, qrels, message in refused():
        with pytest.raises(RankqlError, match=message):
            in_parts(run, qrels)
    null = RUN.with_columns(score=pl.when(pl.col("item") != "z").then("score"))
    values, notes = in_parts(null, QRELS)
    assert notes == ["1 of 5 rows of the run have no score (NULL) and count as not retrieved"]
    assert values["RR"].to_list() == [0.5, 1.0, 1.0]
    values, notes = in_parts(RUN, QRELS, descending=False)
    assert values["RR"].to_list() == [1.0, 1.0, 1.0] and notes == []
    # No part has many items in common, and one has none: all of them count.
    ids = [f"d{i}" for i in range(40)]
    scores = [40.0 - i for i in range(40)]
    run = pl.DataFrame({"query": ["a"] * 40 + ["b"] * 40, "item": ids * 2, "score": scores * 2})
    other = ["d0", *(f"x{i}" for i in range(39)), *(f"x{i}" for i in range(40))]
    qrels = run.select("query", item=pl.Series(other), rel=1)
    note = "Only 1 of 80 items of the run is judged: check that run and qrels write item ids the "
    assert in_parts(run, qrels)[1] == [f"{note}same way"]
    assert rankql.evaluate(run, qrels, "RR").notes == [f"{note}same way"]


def test_a_run_with_one_score_for_all_items_is_noted():
    tied = [("q", "a", 1.0), ("q", "b", 1.0), ("r", "a", 1.0)]
    tied = pl.DataFrame(tied, ["query", "item", "score"], orient="row")
    qrels = pl.DataFrame({"query": ["q", "r"], "item": ["a", "a"], "rel": [1, 1]})
    note = "all 3 rows of the run have the same score, so only ties= (CLI: --ties) decides the"
    assert any(line.startswith(note) for line in rankql.evaluate(tied, qrels).notes)
    first = tied.with_columns(score=pl.Series([1.0, 1.0, 2.0]))
    assert not any("same score" in line for line in rankql.evaluate(first, qrels).notes)


def test_scores_equal_in_32_bits_are_noted(tmp_path):
    """trec_eval rounds scores to 32 bits."""
    run = pl.DataFrame({"query": "q", "item": ["a", "b", "c"], "score": [1 - 1e-9, 1, 1 + 1e-9]})
    qrels = run.select("query", "item", rel=1)
    run.write_parquet(tmp_path / "run.parquet")
    for source in (run, tmp_path / "run.parquet"):
        notes = {
            name: rankql.evaluate(source, qrels, conventions=name).notes
            for name in ("trec_eval", "rankql")
        }
        assert any("all 3 rows of the run have the same score" in x for x in notes["trec_eval"])
        assert not any("same score" in line for line in notes["rankql"])
