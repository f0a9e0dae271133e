"""The same values from every kind of table, file and id."""

import csv
import datetime as dt
import gzip
import subprocess
import sys
import uuid

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import rankql
from support import metric_engines
from support.random_runs import EXPECTED, METRICS, QRELS, RUN, same, with_segments


class Stream:
    """Anything with the Arrow C stream, to be read once."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        frame, self.frame = self.frame, None
        return frame.__arrow_c_stream__(requested_schema)


FRAMES = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "arrow": lambda frame: frame.to_arrow(),
    "batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
    "reader": lambda frame: pa.RecordBatchReader.from_stream(frame),
    "dataset": lambda frame: pyarrow.dataset.dataset(frame.to_arrow()),
    "stream": Stream,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind):
    made = rankql.evaluate(FRAMES[kind](RUN), FRAMES[kind](QRELS), METRICS)
    same(made.per_query, EXPECTED)


def write_trec(frame, path, opened=open):
    with opened(path, "wt", encoding="utf-8") as file:
        for row in frame.iter_rows():
            line = (row[0], "0", row[1], row[2])
            if "score" in frame.columns:
                line = (row[0], "Q0", row[1], "1", repr(row[2]), "tag")
            file.write(("\t" if "tab" in path.name else " ").join(map(str, line)) + "\n")


def write_spaced(frame, path):
    write_trec(frame, path)
    path.write_text(
        "\n".join(f" {line.replace(' ', '   ')} " for line in path.read_text().split("\n"))
    )


FILES = {
    "x.parquet": lambda frame, path: frame.write_parquet(path),
    "x.csv": lambda frame, path: frame.write_csv(path),
    "x.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "x.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "x.jsonl": lambda frame, path: frame.write_ndjson(path),
    "x.ndjson.gz": lambda f, path: path.write_bytes(gzip.compress(f.write_ndjson().encode())),
    "x.json": lambda frame, path: frame.write_json(path),
    "x.trec": write_trec,
    "x.tab": write_trec,
    "x.spaced": write_spaced,
    "x.trec.gz": lambda frame, path: write_trec(frame, path, gzip.open),
    'it\'s a "file".parquet': lambda frame, path: frame.write_parquet(path),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    for folder, frame in {"run": RUN, "qrels": QRELS}.items():
        (tmp_path / folder).mkdir()
        FILES[name](frame, tmp_path / folder / name)
    made = rankql.evaluate(tmp_path / "run" / name, str(tmp_path / "qrels" / name), METRICS)
    same(made.per_query, EXPECTED)


def test_globs_and_folders(tmp_path):
    half = len(RUN) // 2
    RUN[:half].write_parquet(tmp_path / "run-1.parquet")
    RUN[half:].write_parquet(tmp_path / "run-2.parquet")
    same(rankql.evaluate(f"{tmp_path}/run-*.parquet", QRELS, METRICS).per_query, EXPECTED)
    same(rankql.evaluate(tmp_path, QRELS, METRICS).per_query, EXPECTED)
    write_trec(RUN[:half], tmp_path / "a.run")
    write_trec(RUN[half:], tmp_path / "b.run")
    same(rankql.evaluate(f"{tmp_path}/*.run", QRELS, METRICS).per_query, EXPECTED)


def test_tables_views_and_relations():
    con = duckdb.connect()
    con.register("frame", RUN)
    con.execute('CREATE SCHEMA "my schema"; CREATE TABLE "my schema"."run; DROP" AS FROM frame')
    con.register("judged", QRELS)
    con.execute("CREATE VIEW qrels AS SELECT * FROM judged")
    before = metric_engines.state(con)
    made = rankql.evaluate("my schema.run; DROP", "qrels", METRICS, con=con)
    same(made.per_query, EXPECTED)
    relation = con.sql("SELECT * FROM frame WHERE score IS NOT NULL")
    same(rankql.evaluate(relation, "qrels", METRICS, con=con).per_query, EXPECTED)
    same(rankql.evaluate(RUN, QRELS, METRICS, con=con).per_query, EXPECTED)
    assert metric_engines.state(con) == before
    with pytest.raises(
        rankql.RankqlError, match=r"relation of another connection. Pass that one as con="
    ):
        rankql.evaluate(relation, QRELS, METRICS)


def test_tables_that_are_called_as_parts_of_our_query():
    """A table `run` may hold the judgments; one in a schema behind the current one is found."""
    con = duckdb.connect()
    con.register("x", RUN)
    con.register("y", QRELS)
    con.execute("CREATE TABLE qrels AS FROM x; CREATE TABLE run AS FROM y")
    con.execute("CREATE SCHEMA other; CREATE TABLE other.top AS FROM x; CREATE TABLE top AS FROM y")
    same(rankql.evaluate("qrels", "run", METRICS, con=con).per_query, EXPECTED)
    same(rankql.evaluate("other.top", "top", METRICS, con=con).per_query, EXPECTED)
    con.execute("USE other")
    same(rankql.evaluate("top", "main.top", METRICS, con=con).per_query, EXPECTED)
    con.execute("CREATE TEMP TABLE top AS FROM y")
    same(rankql.evaluate("other.top", "top", METRICS, con=con).per_query, EXPECTED)


def test_default_connection():
    run = duckdb.from_arrow(RUN.to_arrow())
    same(rankql.evaluate(run, QRELS, METRICS).per_query, EXPECTED)


def test_read_only_database_and_own_macros(tmp_path):
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as con:
        con.register("frame", RUN)
        con.execute("CREATE TABLE run AS FROM frame; CREATE MACRO ndcg(a, b, c) AS 'mine'")
    con = duckdb.connect(path, read_only=True)
    same(rankql.evaluate("run", QRELS, METRICS, con=con).per_query, EXPECTED)
    assert con.sql("SELECT ndcg(1, 2, 3)").fetchall() == [("mine",)]


def test_busy_transaction_sees_its_own_rows():
    con = duckdb.connect()
    con.register("frame", RUN)
    con.execute("BEGIN; CREATE TEMP TABLE run AS FROM frame")
    same(rankql.evaluate("run", QRELS, METRICS, con=con).per_query, EXPECTED)
    con.execute("ROLLBACK")


def test_without_pandas():
    script = """
import importlib.abc, sys
class NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPandas())
import polars as pl, rankql
run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
result = rankql.evaluate(run, run.with_columns(rel=1), ["RR", "P@1"], interval=None)
result.to_arrow(), result.to_json(), repr(result), result._repr_html_(), result.to_markdown()
print(result["RR"], result.per_query.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1.0 (1, 3)\n"


IDS = {
    "int64": lambda values: values.rank("dense").cast(pl.Int64),
    "uint32": lambda values: values.rank("dense").cast(pl.UInt32),
    "category": lambda values: values.cast(pl.Categorical),
    "unicode": lambda values: "ü " + values + " 查询 🦆 'x' \"y\"",
}


@pytest.mark.parametrize("kind", IDS)
def test_types_of_ids(kind):
    both = pl.concat([RUN.select("query"), QRELS.select("query")])["query"].unique().sort()
    ids = dict(zip(both, IDS[kind](both), strict=True))
    dtype = pl.Series(list(ids.values())).dtype if kind != "category" else pl.String
    run, qrels = (
        frame.with_columns(pl.col("query").replace_strict(ids, return_dtype=dtype))
        for frame in (RUN, QRELS)
    )
    if kind == "category":
        run, qrels = (f.with_columns(pl.col("query").cast(pl.Categorical)) for f in (run, qrels))
    made = rankql.evaluate(run, qrels, METRICS).per_query
    same(made.drop("query"), EXPECTED.drop("query"))


def test_uuids_and_ids_of_two_types():
    ids = {q: str(uuid.UUID(int=i)) for i, q in enumerate(sorted({*RUN["query"], *QRELS["query"]}))}
    run, qrels = (f.with_columns(pl.col("query").replace_strict(ids)) for f in (RUN, QRELS))
    con = duckdb.connect()
    con.register("frame", run)
    con.execute("CREATE TABLE run AS SELECT * REPLACE (query::UUID AS query) FROM frame")
    made = rankql.evaluate("run", qrels, METRICS, con=con).per_query
    same(made.drop("query"), EXPECTED.drop("query"))
    numbers = {q: i for i, q in enumerate(ids)}
    run = RUN.with_columns(pl.col("query").replace_strict(numbers, return_dtype=pl.Int64))
    qrels = QRELS.with_columns(pl.col("query").replace_strict(numbers, return_dtype=pl.Int64))
    made = rankql.evaluate(run, qrels.with_columns(pl.col("query").cast(pl.String)), METRICS)
    assert made.per_query["query"].dtype == pl.String
    same(made.per_query.sort(pl.col("query").cast(int)).drop("query"), EXPECTED.drop("query"))


def test_intervals_are_refused():
    """polars has no type for them, and '1 day' equals '24:00:00' in DuckDB."""
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE run AS
        SELECT to_days(q) AS query, q AS user, to_hours(q % 2) AS age, pos, pos % 2 AS rel
        FROM range(3) AS a (q), range(1, 3) AS b (pos)"""
    )
    for name, options in (("query", {}), ("age", {"query": "user", "by": "age"})):
        with pytest.raises(rankql.RankqlError, match=f"^run: {name} is an INTERVAL. Cast it to"):
            rankql.evaluate("run", metrics="RR", con=con, **options)


ODD = {"query": 'select "x"; --', "item": "it's", "score": "ORDER", "rel": "a b\n⚑"}


def test_odd_names():
    run, qrels = (
        RUN.rename({k: ODD[k] for k in RUN.columns}),
        QRELS.rename({k: ODD[k] for k in QRELS.columns}),
    )
    attribute = '"; DROP TABLE x; --'
    qrels = qrels.with_columns(pl.lit("<b>'1'</b>").alias(attribute))
    made = rankql.evaluate(run, qrels, METRICS, by=attribute, **ODD)
    same(made.per_query.drop(attribute).rename({ODD["query"]: "query"}), EXPECTED)
    assert f"{attribute}=<b>'1'</b>" in made.summary["slice"].to_list()
    assert "<b>" not in made._repr_html_()
    assert made.columns["run"] == {k: ODD[k] for k in RUN.columns}


def test_columns_that_shadow_ours():
    """A table may have columns named as those that the query makes itself."""
    more = {
        name: pl.lit("x")
        for name in ("system", "judged", "pos_", "missing", "retrieved", "least", "line")
    }
    run = RUN.with_columns(**more).rename({"score": "rel"}).with_columns(score=pl.lit("text"))
    qrels = QRELS.with_columns(**more).rename({"rel": "score"}).with_columns(rel=pl.lit(None))
    made = rankql.evaluate(run, qrels, METRICS, score="rel", rel="score")
    same(made.per_query, EXPECTED)


@pytest.mark.parametrize("left", ["user", "qid", "query_id", "USER_ID"])
@pytest.mark.parametrize("right", ["doc", "docid", "item_id", "DocNo"])
def test_recognised_columns(left, right):
    run = RUN.rename({"query": left, "item": right, "score": "sim"})
    made = rankql.evaluate(run, QRELS.rename({"rel": "grade"}), METRICS)
    same(made.per_query, EXPECTED)
    assert made.columns == {
        "run": {"query": left, "item": right, "score": "sim"},
        "qrels": {"query": "query", "item": "item", "rel": "grade"},
    }
    assert f"run: query = {left}, item = {right}" in repr(made)


def test_pair_of_names():
    run = RUN.rename({"query": "a", "item": "b"})
    qrels = QRELS.rename({"query": "b", "item": "a"})
    made = rankql.evaluate(run, qrels, METRICS, query=("a", "b"), item=["b", "a"])
    same(made.per_query.rename({"b": "query"}), EXPECTED)
    for name in ("a", "b"):
        about = with_segments().rename({"query": name})
        sliced = rankql.evaluate(
            run, qrels, "AP", query=("a", "b"), item=["b", "a"], by="segment", attributes=about
        )
        assert sliced.summary["slice"].n_unique() > 2


def test_positions_win_over_scores():
    ranked = RUN.with_columns(pos=pl.col("score").rank("ordinal").over("query"))
    made = rankql.evaluate(ranked, QRELS, "nDCG@5")
    assert made.columns["run"]["pos"] == "pos"
    assert made["nDCG@5"] != rankql.evaluate(RUN, QRELS, "nDCG@5")["nDCG@5"]
    same(rankql.evaluate(ranked, QRELS, METRICS, score="score").per_query, EXPECTED)


def test_settings_of_the_user_change_nothing():
    metrics = ["RR", "ARHR", "ERR@5", "AP", "nDCG@3", "Bpref"]
    for options in (
        {},
        {"ties": "order"},
        {"ties": "worst"},
        {"ties": "best"},
        {"unjudged": "remove"},
    ):
        plain = rankql.evaluate(RUN, QRELS, metrics, **options).per_query
        con = duckdb.connect()
        con.execute("SET integer_division = true; SET default_order = 'desc'")
        con.execute("SET default_null_order = 'nulls_first'; SET default_collation = 'nocase'")
        same(rankql.evaluate(RUN, QRELS, metrics, con=con, **options).per_query, plain)


def test_ids_systems_and_slices_that_a_collation_makes_equal():
    """Under NOCASE, 'a' = 'A'; for evaluate they are two, in every column and every shape."""
    letters = pl.Enum(["a", "A", "b"])
    run = pl.DataFrame({
        "query": ["q", "q", "q", "Q", "Q"], "item": ["a", "A", "b", "A", "b"],
        "score": [5.0, 4, 3, 2, 1], "kind": ["x", "x", "x", "X", "X"],
        "system": ["m", "m", "m", "m", "m"],
    })  # fmt: skip
    qrels = pl.DataFrame({"query": ["q", "q", "Q"], "item": ["A", "b", "b"], "rel": [1, 2, 1]})
    both = pl.concat([run, run.with_columns(pl.col("score") * -1, system=pl.lit("M"))])
    ranked = run.join(qrels, on=["query", "item"], how="left")
    con = duckdb.connect(config={"default_collation": "nocase"})
    metrics = ["nDCG@2", "AP", "R@1", "RR"]
    for source, judgments, options in [
        (run, qrels, {}),
        (run, qrels, {"by": "kind"}),
        (run, qrels, {"item": "item || ''", "ties": "best"}),
        (run, qrels, {"query": ["query", "kind"]}),
        (run.with_columns(pl.col("item").cast(letters)), qrels, {}),
        (ranked, None, {}),
        (both, qrels, {"system": "system"}),
        ({"m": run, "M": run}, qrels, {}),
    ]:
        if isinstance(options.get("query"), list):
            judgments = judgments.with_columns(kind=pl.lit("x"))
            source = source.with_columns(kind=pl.lit("x"))
        plain = rankql.evaluate(source, judgments, metrics, **options)
        made = rankql.evaluate(source, judgments, metrics, con=con, **options)
        same(made.per_query, plain.per_query)
        assert made.notes == plain.notes
        assert made.summary.equals(plain.summary)
    assert rankql.check(run, qrels, con=con).table.equals(rankql.check(run, qrels).table)


@pytest.mark.parametrize("kind", ["BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(38,3)", "text"])
def test_scores_that_doubles_round_are_not_tied(kind, tmp_path):
    """Beyond 2^53, in evaluate, convert and `ranked` alike, whatever has the scores."""
    con = duckdb.connect()
    cast = "VARCHAR" if kind == "text" else kind
    con.execute(
        "CREATE TABLE run AS SELECT 'q' AS query, 'd' || (i * 5 % 7) AS item, "
        f"CAST(9007199254740992::HUGEINT + i AS {cast}) AS score FROM range(7) AS rows(i)"
    )
    con.execute("CREATE TABLE ranked AS SELECT * EXCLUDE (score), 8 - row_number() OVER "
                "(ORDER BY score) AS pos FROM run")  # fmt: skip
    run, qrels = "run", {"q": {"d1": 1, "d4": 2}}
    if kind == "text":
        run = tmp_path / "run.csv"
        con.execute(f"COPY run TO '{run}'")
    metrics = ["RR", "nDCG@3", "AP", "P@2"]
    expected = rankql.evaluate("ranked", qrels, metrics, con=con).per_query
    for ties in ("item", "expected", "best", "worst", "order"):
        same(rankql.evaluate(run, qrels, metrics, con=con, ties=ties).per_query, expected)
    both = {"a": run, "b": con.sql("SELECT query, item, 0 AS score FROM run")}
    if kind in ("BIGINT", "HUGEINT"):
        made = rankql.evaluate(both, qrels, metrics, con=con).per_query
        same(made.filter(system="a").drop("system"), expected)
    else:
        with pytest.raises(rankql.RankqlError, match="integers, or decimals"):
            rankql.evaluate({**both, "b": {"q": {"d1": 0.5}}}, qrels, metrics, con=con)
    for name in ("out.run", "out.csv", "out.parquet"):
        if kind.startswith("DECIMAL") and name != "out.parquet":
            continue  # text with a point is read as DOUBLE
        rankql.convert(run, tmp_path / name, con=con)
        same(rankql.evaluate(tmp_path / name, qrels, metrics).per_query, expected)


def test_what_looks_like_a_call_is_left_alone(tmp_path):
    """Names of systems, files and tables, and texts in one's own SQL."""
    made = rankql.evaluate(
        {"ap(1)": RUN, 'ndcg("': RUN}, QRELS, ["AP", "x = max('rr(1)' = 'rr(1)')::INT"]
    )
    assert made.per_query["system"].unique().sort().to_list() == ["ap(1)", 'ndcg("']
    assert made.per_query["x"].unique().to_list() == [1.0]
    RUN.write_parquet(tmp_path / "rr(1).parquet")
    RUN.write_parquet(tmp_path / "run[1].parquet")
    for name in ("rr(1).parquet", "run[1].parquet"):
        same(rankql.evaluate(tmp_path / name, QRELS, METRICS).per_query, EXPECTED)


def test_what_the_user_registered_stays():
    con = duckdb.connect()
    con.register("rankql_run", QRELS)
    con.execute("CREATE TEMP TABLE rankql_qrels AS SELECT 1 AS x")
    same(rankql.evaluate(RUN, QRELS, METRICS, con=con).per_query, EXPECTED)
    assert con.sql("FROM rankql_run").pl().equals(QRELS)
    assert con.sql("FROM rankql_qrels").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "# run of May, 2024\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        "My export\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        ',query,item,rel,pos\n0,q1,"a, b",1,1\n1,q1,"c",0,2\n',
        ";query;item,a,b,c,d;rel;pos\n0;q1;a;1;1\n1;q1;c;0;2\n",
    ],
)
def test_what_duckdb_reads_is_not_uneven(tmp_path, text):
    """Such as files of pandas with their index, which has no name."""
    (tmp_path / "x.csv").write_text(text)
    item = "item,a,b,c,d" if ";" in text else None
    assert rankql.evaluate(tmp_path / "x.csv", metrics="P@2", item=item)["P@2"] == 0.5


def test_folders_globs_and_empty_files(tmp_path):
    RUN.write_csv(tmp_path / "x.csv")
    with pytest.raises(rankql.RankqlError, match=r"has no Parquet files. Name its files, such as "):
        rankql.evaluate(tmp_path, QRELS, "AP")
    RUN.write_parquet(tmp_path / "a.parquet")
    RUN.rename({"query": "qid"}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(rankql.RankqlError, match=r"\. Read files with the same columns$"):
        rankql.evaluate(tmp_path / "*.parquet", QRELS, "AP")
    RUN.rename({"query": "qid"}).write_csv(tmp_path / "y.csv")
    with pytest.raises(rankql.RankqlError, match="the files of the glob have different columns"):
        rankql.evaluate(tmp_path / "*.csv", QRELS, "AP")
    (tmp_path / "x.json").write_text("[ ]\n")
    with pytest.raises(rankql.RankqlError, match=r"x\.json' is empty"):
        rankql.evaluate(tmp_path / "x.json", QRELS, "AP")


def test_padded_ids_stay_apart(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,item,score\n01,a,1.5\n1,a,0.5\n")
    qrels = pl.DataFrame({"query": ["1", "01"], "item": ["a", "a"], "rel": [1, 0]})
    assert rankql.evaluate(path, qrels, "P@1").per_query["P@1"].to_list() == [0.0, 1.0]


@pytest.mark.parametrize("space", [" ", "\t", "   "])
@pytest.mark.parametrize("where", ["first", "last", "all"])
def test_words_after_the_sixth_column_of_a_run(tmp_path, space, where):
    """As trec_eval has it: ignored in a run, refused in judgments."""
    lines = [
        f"q1 Q0 {item} 0 {score} tag".split() for item, score in (("a", 3), ("b", 2), ("c", 1))
    ]
    chosen = {"first": lines[:1], "last": lines[-1:], "all": lines}[where]
    for line in chosen:
        line += ["more", "words"]
    run, qrels = tmp_path / "one.run", tmp_path / "qrels"
    run.write_text("".join(space.join(line) + "\n" for line in lines))
    qrels.write_text("q1 0 b 1\n")
    assert rankql.evaluate(run, qrels, "RR")["RR"] == 0.5
    qrels.write_text("q1 0 a 0\nq1 0 b 1 more\n")
    with pytest.raises(rankql.RankqlError, match="has a line without 4 columns: 'q1 0 b 1 more'"):
        rankql.evaluate(run, qrels, "RR")
    run.write_text("a b c d e f g\n")
    with pytest.raises(rankql.RankqlError, match=r"TREC \(4 or 6 columns; its first line has 7\)"):
        rankql.evaluate(run, qrels, "RR")


def test_csv_reads_as_it_is_written(tmp_path):
    """Quotes, commas and line breaks in ids."""
    rows = [('q"1', "a,b", 2.0), ("q'2", "c\nd", 1.0)]
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("query", "item", "score"), *rows])
    qrels = pl.DataFrame(
        [(*row[:2], 1) for row in rows], schema=["query", "item", "rel"], orient="row"
    )
    assert rankql.evaluate(tmp_path / "x.csv", qrels, "RR")["RR"] == 1


def test_times_with_a_zone_as_queries(monkeypatch):
    """Without pytz, which DuckDB needs for them."""
    monkeypatch.setitem(sys.modules, "pytz", None)
    times = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    qrels = pl.DataFrame({"query": times[:2], "item": ["a", "b"], "rel": [1, 1]})
    run = pl.DataFrame({"query": times[::2], "item": ["a", "b"], "score": [1.0, 1.0]})
    result = rankql.evaluate(run, qrels, "nDCG@10", interval=None)
    assert result["nDCG@10"] == 0.5
    assert result.per_query["query"].to_list() == times[:2]
    (note,) = result.notes
    assert note.startswith("1 of 2 queries of the run is not judged") and "2026, 1, 3" in note
    with pytest.raises(rankql.RankqlError, match=r"in the run, such as .*2026, 1, 2"):
        rankql.evaluate(run, qrels, "nDCG@10", missing="error")
    with pytest.raises(rankql.RankqlError, match=r"has duplicates: query .*2026, 1, 1"):
        rankql.evaluate(pl.concat([run, run]), qrels, "nDCG@10")
