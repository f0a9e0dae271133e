"""The same values from every kind of table, file and id."""

import datetime as dt
import gzip
import math
import re
import sys
import tempfile
import uuid
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import rankql
from support import metric_engines
from support.parameters import few, slow
from support.samples import METRICS, QRELS, RUN, expected, same


def evaluate(run=RUN, qrels=QRELS, metrics=METRICS, **options):
    return rankql.evaluate(run, qrels, metrics, **options)


def assert_expected(run=RUN, qrels=QRELS, **options):
    same(evaluate(run, qrels, **options).per_query, expected())


def connect(**tables):
    """A database with these frames as tables."""
    con = duckdb.connect()
    for name, frame in tables.items():
        con.register("frame", frame)
        con.execute(f'CREATE TABLE "{name}" AS FROM frame')
    con.unregister("frame")
    return con


class Stream:
    """Anything with the Arrow C stream, to be read once."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        frame, self.frame = self.frame, None
        return frame.__arrow_c_stream__(requested_schema)


FRAMES = {
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "arrow": lambda frame: frame.to_arrow(),
    "batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
    "reader": lambda frame: pa.RecordBatchReader.from_stream(frame),
    "dataset": lambda frame: pyarrow.dataset.dataset(frame.to_arrow()),
    "stream": Stream,
}


@few(2)("kind", FRAMES)
def test_frames(kind):
    assert_expected(FRAMES[kind](RUN), FRAMES[kind](QRELS))


def trec(frame, space=" "):
    """The frame as a TREC file."""
    score = "score" in frame.columns
    rows = ((q, "Q0", d, 1, repr(x), "tag") if score else (q, 0, d, x) for q, d, x in frame.rows())
    return "".join(space.join(map(str, row)) + "\n" for row in rows)


FILES = {
    'it\'s a "file".parquet': pl.DataFrame.write_parquet,
    "rr(1).parquet": pl.DataFrame.write_parquet,
    "run[1].parquet": pl.DataFrame.write_parquet,
    "x.csv": pl.DataFrame.write_csv,
    "x.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "x.jsonl": pl.DataFrame.write_ndjson,
    "x.json": pl.DataFrame.write_json,
    "x.trec": lambda frame, path: path.write_text(trec(frame)),
    "x.tab": lambda frame, path: path.write_text(trec(frame, "\t")),
    "x.spaced": lambda frame, path: path.write_text(" " + trec(frame, "   ")),
    "x.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "x.ndjson.gz": lambda f, path: path.write_bytes(gzip.compress(f.write_ndjson().encode())),
    "x.trec.gz": lambda frame, path: path.write_bytes(gzip.compress(trec(frame).encode())),
}


@few(3)("name", FILES)
def test_files(name, tmp_path):
    for folder, frame in {"run": RUN, "qrels": QRELS}.items():
        (tmp_path / folder).mkdir()
        FILES[name](frame, tmp_path / folder / name)
    assert_expected(tmp_path / "run" / name, str(tmp_path / "qrels" / name))


def test_globs_and_folders(tmp_path):
    for number, half in enumerate((RUN[::2], RUN[1::2])):
        half.write_parquet(tmp_path / f"run-{number}.parquet")
        (tmp_path / f"{number}.run").write_text(trec(half))
    for run in (f"{tmp_path}/run-*.parquet", tmp_path, f"{tmp_path}/*.run"):
        assert_expected(run)


def test_globs_that_cannot_be_read(tmp_path):
    RUN.write_csv(tmp_path / "x.csv")
    with pytest.raises(rankql.RankqlError, match="has no Parquet files"):
        evaluate(tmp_path)
    for suffix in ("parquet", "csv"):
        getattr(RUN, f"write_{suffix}")(tmp_path / f"x.{suffix}")
        getattr(RUN.rename({"query": "qid"}), f"write_{suffix}")(tmp_path / f"y.{suffix}")
        lacks = (
            "x.parquet' has no column 'qid', which .*y.parquet' has" if suffix == "parquet" else ""
        )
        with pytest.raises(rankql.RankqlError, match=lacks or r"[Ss]chema mismatch"):
            evaluate(tmp_path / f"*.{suffix}")


@few(1)("reverse", [False, True])
def test_files_of_other_types_keep_their_values(tmp_path, reverse):
    """By the types of the first file, grades would be cut off, scores tied, and '007' be 7."""

    def write(*frames):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for number, frame in enumerate(frames[::-1] if reverse else frames):
            frame.write_parquet(folder / f"{number}.parquet")
        return folder

    days = [
        {"query": "a", "item": ["x", "y"], "score": [2, 1]},
        {"query": "b", "item": ["y", "x"], "score": [1.0, 1.4]},
    ]
    run = write(*map(pl.DataFrame, days))
    qrels = {"a": {"x": 1}, "b": {"x": 1}}
    assert rankql.evaluate(run, qrels, "RR").summary["mean"].item() == 1
    grades = [{"query": "q", "item": [item], "rel": [rel]} for item, rel in (("d", 1), ("e", 2.4))]
    judged = write(*map(pl.DataFrame, grades))
    found = rankql.evaluate({"q": ["d"]}, judged, "nDCG@10", gain="linear").summary["mean"].item()
    assert found == pytest.approx(1 / (2.4 + 1 / math.log2(3)))
    ids = [
        {"query": "a", "item": [7], "score": [1.0]},
        {"query": "b", "item": ["007", "7"], "score": [2.0, 1.0]},
    ]
    result = rankql.evaluate(write(*map(pl.DataFrame, ids)), {"a": {"7": 1}, "b": {"007": 1}}, "RR")
    assert result.summary["mean"].item() == 1
    note = "item is text in some files and a number in others, so it is read as text"
    assert f"run: {note}" in result.notes


def test_a_column_that_some_files_lack_is_refused(tmp_path):
    """The call that fills it with NULL is tried. Fields of objects may differ."""
    RUN.with_columns(more=pl.struct(a="score", b=pl.concat_list("score"))).write_parquet(
        tmp_path / "a.parquet"
    )
    RUN.with_columns(more=pl.struct(a="score")).write_parquet(tmp_path / "b.parquet")
    rankql.check(tmp_path)
    RUN.write_parquet(tmp_path / "b.parquet")
    with pytest.raises(rankql.RankqlError, match=r"b.parquet' has no column 'more'") as error:
        evaluate(tmp_path)
    sql = re.search(r'con.sql\("(.+)"\)', str(error.value))[1]
    with duckdb.connect() as con:
        assert con.sql(sql).columns == [*RUN.columns, "more"]


@pytest.mark.slow
def test_tables_views_and_relations():
    con = connect(judged=QRELS, **{"run; DROP": RUN})
    con.execute('CREATE SCHEMA "my schema"; CREATE TABLE "my schema".run AS FROM "run; DROP"')
    con.execute("CREATE VIEW qrels AS FROM judged")
    before = metric_engines.state(con)
    relation = con.sql('FROM "run; DROP" WHERE score IS NOT NULL')
    for run in ("my schema.run", "run; DROP", relation):
        assert_expected(run, "qrels", con=con)
    assert metric_engines.state(con) == before
    with pytest.raises(rankql.RankqlError, match="relation of another connection"):
        evaluate(relation)
    assert_expected(duckdb.from_arrow(RUN.to_arrow()))


@pytest.mark.slow
def test_tables_that_are_called_as_parts_of_the_query():
    """A table `run` may hold the judgments; one in a schema behind the current one is found."""
    con = connect(qrels=RUN, run=QRELS, top=QRELS)
    con.execute("CREATE SCHEMA other; CREATE TABLE other.top AS FROM qrels")
    assert_expected("qrels", "run", con=con)
    assert_expected("other.top", "top", con=con)
    con.execute("USE other")
    assert_expected("top", "main.top", con=con)
    con.execute("CREATE TEMP TABLE top AS FROM main.run")
    assert_expected("other.top", "top", con=con)


def test_what_the_user_registered_stays():
    con = duckdb.connect()
    con.register("rankql_run", QRELS)
    con.execute("CREATE TEMP TABLE rankql_qrels AS SELECT 1 AS x")
    assert_expected(con=con)
    assert con.sql("FROM rankql_run").pl().equals(QRELS)
    assert con.sql("FROM rankql_qrels").fetchall() == [(1,)]


def test_read_only_databases_and_open_transactions(tmp_path):
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as con:
        con.register("frame", RUN)
        con.execute("CREATE TABLE run AS FROM frame; CREATE MACRO ndcg(a, b, c) AS 'mine'")
        con.execute("BEGIN; CREATE TEMP TABLE uncommitted AS FROM frame")
        assert_expected("uncommitted", con=con)
        con.execute("ROLLBACK")
    con = duckdb.connect(path, read_only=True)
    assert_expected("run", con=con)
    assert con.sql("SELECT ndcg(1, 2, 3)").fetchall() == [("mine",)]


NAMES = sorted({*RUN["query"], *QRELS["query"]})
IDS = {
    "int64": pl.Series(range(len(NAMES))),
    "uint32": pl.Series(range(len(NAMES)), dtype=pl.UInt32),
    "category": pl.Series(NAMES, dtype=pl.Categorical),
    "unicode": pl.Series([f"ü {name} 查询 🦆 'x' \"y\"" for name in NAMES]),
    "uuid": pl.Series([str(uuid.UUID(int=i)) for i, _ in enumerate(NAMES)]),
}


@few(1)("kind", IDS)
def test_types_of_ids(kind):
    ids = pl.DataFrame({"query": NAMES, "id": IDS[kind]})
    run, qrels = (
        frame.join(ids, on="query", maintain_order="left").drop("query").rename({"id": "query"})
        for frame in (RUN, QRELS)
    )
    con = connect(run=run)
    if kind == "uuid":
        con.execute("ALTER TABLE run ALTER query TYPE UUID")
    result = evaluate("run", qrels, con=con)
    same(result.per_query.drop("query"), expected().drop("query"))
    text = evaluate(run, qrels.with_columns(pl.col("query").cast(pl.String))).per_query
    assert text["query"].dtype == pl.String
    order = pl.col("query").cast(int) if "int" in kind else pl.col("query")
    same(text.sort(order).drop("query"), expected().drop("query"))


def test_intervals_are_refused():
    """polars has no type for them, and '1 day' equals '24:00:00' in DuckDB."""
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE run AS
        SELECT to_days(q) AS query, q AS user, to_hours(q % 2) AS age, pos, pos % 2 AS rel
        FROM range(3) AS a (q), range(1, 3) AS b (pos)"""
    )
    for name, options in (("query", {}), ("age", {"query": "user", "by": "age"})):
        with pytest.raises(rankql.RankqlError, match=f"^run: {name} is an INTERVAL"):
            evaluate("run", None, "RR", con=con, **options)


ODD = {"query": 'select "x"; --', "item": "it's", "score": "ORDER", "rel": "a b\n⚑"}


def test_odd_names_of_columns():
    attribute = '"; DROP TABLE x; --'
    run = RUN.rename({name: ODD[name] for name in RUN.columns})
    qrels = QRELS.rename({name: ODD[name] for name in QRELS.columns})
    qrels = qrels.with_columns(pl.lit("<b>'1'</b>").alias(attribute))
    result = evaluate(run, qrels, by=attribute, **ODD)
    same(result.per_query.drop(attribute).rename({ODD["query"]: "query"}), expected())
    assert f"{attribute}=<b>'1'</b>" in result.summary["slice"].to_list()
    assert result.columns["run"] == {name: ODD[name] for name in RUN.columns}


LETTERS = pl.DataFrame({
    "query": [*"qqqQQ"], "item": [*"aAbAb"], "score": [5.0, 4, 3, 2, 1], "kind": [*"xxxXX"],
    "system": [*"mmmmm"],
})  # fmt: skip
GRADES = pl.DataFrame({"query": [*"qqQ"], "item": [*"Abb"], "rel": [1, 2, 1], "kind": [*"xxx"]})
MIRRORED = LETTERS.with_columns(pl.col("score") * -1, system=pl.lit("M"))


@few(1)(
    ("run", "options"),
    [
        (LETTERS, {}),
        (LETTERS, {"by": "kind"}),
        (LETTERS, {"item": "item || ''", "ties": "best"}),
        (LETTERS.with_columns(kind=pl.lit("x")), {"query": ["query", "kind"]}),
        (LETTERS.with_columns(pl.col("item").cast(pl.Enum([*"aAb"]))), {}),
        (pl.concat([LETTERS, MIRRORED]), {"system": "system"}),
        ({"m": LETTERS, "M": LETTERS}, {}),
    ],
)
def test_a_collation_makes_no_ids_systems_or_slices_equal(run, options):
    """Under NOCASE, 'a' = 'A'; for evaluate they are two, in every column and every shape."""
    con = duckdb.connect(config={"default_collation": "nocase"})
    qrels = GRADES if "query" in options else GRADES.drop("kind")
    plain, result = (
        evaluate(run, qrels, ["nDCG@2", "AP", "R@1", "RR"], con=x, **options) for x in (None, con)
    )
    same(result.per_query, plain.per_query)
    assert result.notes == plain.notes and result.summary.equals(plain.summary)
    if not options:
        assert rankql.check(run, qrels, con=con).table.equals(rankql.check(run, qrels).table)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BIGINT", *map(slow, ["UBIGINT", "HUGEINT", "DECIMAL(38,3)"])])
def test_scores_that_doubles_round_are_refused(kind, tmp_path):
    """Beyond 2^53, in evaluate, convert and text files."""
    con = duckdb.connect()
    con.execute(
        f"""CREATE TABLE run AS SELECT 'q' AS query, 'd' || (i * 5 % 7) AS item,
            CAST(9007199254740992::HUGEINT + i AS {kind}) AS score FROM range(7) AS rows(i);
        CREATE TABLE ranked AS SELECT * EXCLUDE (score), row_number() OVER
            (ORDER BY score DESC) AS pos FROM run;
        COPY run TO '{tmp_path}/run.csv'"""
    )
    qrels, metrics = {"q": {"d1": 1, "d4": 2}}, ["RR", "nDCG@3", "AP", "P@2"]

    def values(run, **options):
        return rankql.evaluate(run, qrels, metrics, con=con, **options).per_query

    expected, sources = values("ranked"), ["run"]
    sources += [] if kind.startswith("DECIMAL") else [tmp_path / "run.csv"]
    for run in sources:
        with pytest.raises(rankql.RankqlError, match=r"^run: score [\d.]+ has so many digits"):
            values(run)
        with pytest.raises(rankql.RankqlError, match=r"score [\d.]+ has so many digits"):
            rankql.convert(run, tmp_path / "out.parquet", con=con)
        same(values(run, score="CAST(score AS HUGEINT) - 9007199254740992"), expected)


def test_all_runs_have_positions_and_some_have_scores():
    run = pl.DataFrame({"query": "q", "item": ["b", "a"], "similarity": [2.0, 1.0], "pos": [1, 2]})
    result = evaluate({"a": run, "b": run.drop("similarity")}, {"q": {"a": 1}}, "RR")
    assert result.summary["mean"].to_list() == [0.5, 0.5]


@few(2)(
    "text",
    [
        "# run of May, 2024\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        "My export\n,query,item,rel,pos\n0,q1,a,1,1\n1,q1,c,0,2\n",
        ',query,item,rel,pos\n0,q1,"a, b",1,1\n1,q1,"c",0,2\n',
        ";query;item;a,b,c,d;rel;pos\n0;q1;a;;1;1\n1;q1;c;;0;2\n",
    ],
)
def test_files_with_a_title_or_an_index_without_a_name(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    assert evaluate(tmp_path / "x.csv", None, "P@2")["P@2"] == 0.5


@few(2)(("space", "where"), [(" ", slice(1)), ("\t", slice(2, 3)), ("   ", slice(3))])
def test_words_after_the_sixth_column_of_a_run(tmp_path, space, where):
    """As in trec_eval: ignored in a run, refused in judgments."""
    lines = [["q1", "Q0", item, "0", score, "tag"] for item, score in ("a3", "b2", "c1")]
    for line in lines[where]:
        line += ["more", "words"]
    run, qrels = tmp_path / "one.run", tmp_path / "qrels"
    run.write_text("".join(space.join(line) + "\n" for line in lines))
    qrels.write_text("q1 0 b 1\n")
    assert evaluate(run, qrels, "RR")["RR"] == 0.5
    qrels.write_text("q1 0 a 0\nq1 0 b 1 more\n")
    with pytest.raises(rankql.RankqlError, match="without 4 columns: 'q1 0 b 1 more'"):
        evaluate(run, qrels, "RR")


def test_times_with_a_zone_as_queries(monkeypatch):
    """Without pytz, which DuckDB needs for them."""
    monkeypatch.setitem(sys.modules, "pytz", None)
    times = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    qrels = pl.DataFrame({"query": times[:2], "item": ["a", "b"], "rel": [1, 1]})
    run = pl.DataFrame({"query": times[::2], "item": ["a", "b"], "score": [1.0, 1.0]})
    result = evaluate(run, qrels, "nDCG@10", interval=None)
    assert result["nDCG@10"] == 0.5
    assert result.per_query["query"].to_list() == times[:2]
    assert re.search("not judged.*2026, 1, 3", result.notes[0])
    for tables, options, example in (
        ((run, qrels), {"missing": "error"}, "2026, 1, 2"),
        ((pl.concat([run, run]), qrels), {}, r"duplicates.*2026, 1, 1"),
    ):
        with pytest.raises(rankql.RankqlError, match=example):
            evaluate(*tables, **options)


def test_booleans_of_arrow_are_read():
    con = duckdb.connect(config={"arrow_lossless_conversion": True})
    table = pl.select(query=pl.int_range(20_000) // 10, item=pl.int_range(20_000), rel=1)
    table = table.with_columns(score=pl.col("item") * 1.0)
    result = rankql.evaluate(table, None, ["nDCG@10", "AP", "P@5"], con=con, interval=None)
    assert result.summary["mean"].to_list() == [1, 1, 1]


@pytest.mark.slow
def test_runs_with_positions_alone_and_with_scores_alone_are_ranked_by_what_they_have():
    """Ties have the order of trec_eval, and the lowest distance is best."""
    scored = pl.DataFrame(
        {"query": ["a", "a", "b", "b", "b"], "item": [*"xyxzw"], "score": [2.0, 1, 1, 1, None]}
    )
    places = pl.DataFrame({"query": [*"aabb"], "item": [*"yxxz"], "pos": [1, 2, 1, 2]})
    lists = {"a": ["y", "x"], "b": ["x", "z"]}
    near = scored.select("query", "item", distance=-pl.col("score"))
    qrels = {"a": ["y"], "b": ["x"]}
    alone = rankql.evaluate(scored, qrels, ["RR", "AP"]).per_query
    for one in (scored, near):
        for two in (places, lists):
            result = rankql.evaluate({"one": one, "two": two}, qrels, ["RR", "AP"])
            own = result.per_query.filter(pl.col("system") == "one").drop("system")
            assert own.equals(alone)
            assert result.per_query.filter(pl.col("system") == "two")["RR"].to_list() == [1, 1]
            name = one.columns[2]
            note = f"Each run is ranked by what it has: one by {name}, two by pos"
            assert note in result.notes
            assert result.columns["run 'one'"]["pos"] == name
    compared = rankql.compare({"one": near, "two": lists}, qrels, metrics="RR")
    assert note in compared.notes and compared.pairs["difference"].to_list() == [0.5]
    gated = rankql.gate(near, qrels, baseline=lists, max_drop="RR:0.6")
    assert gated.passed is not None and any(x.startswith(note[:33]) for x in gated.notes)
    named = {"one": scored, "two": places.with_columns(score=-pl.col("pos").cast(float))}
    assert rankql.evaluate(named, qrels, "RR").columns["run 'one'"]["score"] == "score"
