"""What users pass in: names of columns, paths, encodings, ids and scores that cannot be right."""

import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.plan.meta import Meta
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.parse import parse
from rankql.core.tables.private import private_connection
from rankql.core.tables.request import RankingRules
from rankql.core.tables.session import _watch as watch
from rankql.core.tables.session import open_session
from rankql.engines import partitions
from rankql.engines.partitions import COUNTER, EXAMPLES, IDS, TEXT, Totals
from support.own_values import compare_values
from support.parameters import few, of_each_kind
from support.reading import assert_read, read, refused

RUN = pl.DataFrame({"query": [*"aabbc"], "item": [*"xyxzx"], "score": [2.0, 1.0, 1.0, 0.5, 1.0]})
QRELS = pl.DataFrame({"query": [*"abbc"], "item": [*"yxzx"], "rel": [1, 2, 1, 3]})
SEGMENTS = pl.DataFrame({"query": ["a", "b", "c"], "segment": ["u", "v", "v"]})


# Any name of a column

NAMES = ["missing", "item", "rel", "pos", "score", "judged", "retrieved", "slice", "metric", "mean",
         "lo", "hi", "queries", "undefined", "n", "i", "error", "sample", "value", "weight", "top",
         "a", "b", "difference", "group", "select", "query", "in run", "AP weight"]  # fmt: skip
# The columns of these tables have names of their own, so that those above are free.
COLUMNS = {"query": "qid", "item": "docno", "score": "sim", "rel": "grade"}
OURS, THEIRS = (frame.rename(COLUMNS, strict=False) for frame in (RUN, QRELS))
ABOUT = pl.DataFrame({"qid": ["a", "b", "c"], **{name: ["u", "v", "v"] for name in NAMES}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "metrics"),
    [("attributes", ["nDCG@10", "AP", "microP@2"]), ("qrels", ["hits = count(rel)"]),
     ("run", ["nDCG@10", "AP", "microP@2"])],
)  # fmt: skip
def test_slices_have_any_name(home, metrics):
    run = OURS.join(ABOUT, on="qid") if home == "run" else OURS
    qrels = THEIRS.join(ABOUT, on="qid") if home == "qrels" else THEIRS
    attributes = ABOUT if home == "attributes" else None
    by = [[name] for name in NAMES]
    result = rankql.evaluate(run, qrels, metrics, by=by, attributes=attributes, **COLUMNS)
    plain = rankql.evaluate(RUN, QRELS, metrics, by="segment", attributes=SEGMENTS).summary
    for name in NAMES:
        slices = result.summary.filter(pl.col("slice").is_in(["all", f"{name}=u", f"{name}=v"]))
        assert slices["mean"].to_list() == pytest.approx(plain["mean"].to_list(), abs=1e-12)
        assert result.per_query[name].to_list() == ["u", "v", "v"]


def test_comparisons_have_slices_of_any_name():
    runs = {"one": OURS, "two": OURS.with_columns(sim=-pl.col("sim"))}
    by = [["missing"], ["a"], ["b"], ["difference"]]
    result = rankql.compare(runs, THEIRS, "nDCG@10", by=by, attributes=ABOUT, **COLUMNS)
    slices = ["all", *(f"{name}={value}" for (name,) in by for value in "uv")]
    assert result.pairs["slice"].to_list() == slices
    columns = result.differences("nDCG@10", "one", "two").columns
    assert columns == ["qid", "missing", "by_a", "by_b", "by_difference", "a", "b", "difference"]


def test_slices_are_in_the_order_of_their_values():
    """Also where the attribute is called like their labels."""
    values = pl.DataFrame({"query": ["a", "b", "c"], "slice": [2, 10, 1], "AP": [0.1, 0.2, 0.4]})
    table = compare_values({"x": values, "y": values}, by="slice").pairs
    assert table["slice"].to_list() == ["all", "slice=1", "slice=2", "slice=10"]


def test_attributes_are_not_called_like_columns_of_the_result():
    users = pl.DataFrame({"user": ["a", "b", "c"], "qid": ["1", "2", "3"]})
    run, qrels = RUN.rename({"query": "user"}), QRELS.rename({"query": "qid"})
    options = {"query": ("user", "qid"), "by": "qid", "attributes": users}
    refused(run, qrels, **options, match="^by='qid' is the column of the queries")
    systems = SEGMENTS.rename({"segment": "System"})
    assert rankql.evaluate(RUN, QRELS, "RR", by="System", attributes=systems).summary.height == 3
    refused({"one": RUN}, QRELS, by="System", attributes=systems, match=r"^by: 'System' is also")


# Paths


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for day, queries in (("day=1", ["a"]), ("day=2", ["b", "c"])):
        (tmp_path / day).mkdir()
        part = RUN.filter(pl.col("query").is_in(queries))
        part.write_parquet(tmp_path / day / "part.parquet")
    RUN.write_parquet("run.parquet")
    QRELS.write_parquet("qrels.parquet")
    return tmp_path


def printed(*arguments):
    done = CliRunner().invoke(main, [*arguments, "-m", "RR", "--format", "json"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_paths_begin_with_the_home_folder(folder):
    expected = rankql.evaluate(RUN, QRELS, "RR").summary
    for path in ("~/run.parquet", "~/r*.parquet"):
        assert_frame_equal(rankql.evaluate(path, "~/qrels.parquet", "RR").summary, expected)
    rankql.evaluate("~/run.parquet", "~/qrels.parquet", "RR", output="~/out.parquet")
    assert_frame_equal(rankql.combine("~/out.parquet").summary, expected)
    rankql.compare({"a": "~/out.parquet", "b": "~/out.parquet"}).save("~/report.md")
    assert (folder / "report.md").exists()
    assert '"mean": 0.8333' in printed("eval", "name=~/run.parquet", "~/qrels.parquet")


@few(1)("run", ["day=1/*.parquet", "day=1/part.parquet", "day=1"])
def test_paths_have_an_equals_sign(folder, run):
    assert '"mean": 0.5,' in printed("eval", run, "qrels.parquet", "--missing", "skip")
    files = [f"one={run}", "two=day=2/*.parquet", "qrels.parquet"]
    two = printed("eval", *files, "--missing", "zero")
    assert '"system": "one"' in two and '"system": "two"' in two


# What is in the files

ENCODED = {
    "run": "a Q0 x 1 2.0 t\na Q0 {} 2 1.0 t\n",
    "csv": "query,item,score\na,x,2\na,{},1\n",
    "json": '{{"a": {{"x": 2, "{}": 1}}}}',
    "jsonl": '{{"query":"a","item":"x","score":2}}\n{{"query":"a","item":"{}","score":1}}\n',
}


@few(2)("suffix", ENCODED)
def test_text_in_another_encoding_is_refused(tmp_path, suffix):
    path = tmp_path / f"one.{suffix}"
    line = {"csv": r" \(line 3\)", "run": r" \(line 2\)"}.get(suffix, "")
    encodings = {"utf-16": "UTF-?(8|16)", "latin-1": f"is not UTF-8 text{line}.*iconv"}
    for encoding, message in encodings.items():
        path.write_text(ENCODED[suffix].format("é"), encoding=encoding)
        for function in (rankql.evaluate, rankql.check):
            with pytest.raises(RankqlError, match=rf"^run: '.*one\.{suffix}' .*{message}"):
                function(path, QRELS)
    # The latter with the mark that Windows writes, which JSON must not have.
    for encoding in ("utf-8", *(["utf-8-sig"] if "json" not in suffix else [])):
        path.write_text(ENCODED[suffix].format("y"), encoding=encoding)
        assert read(path, QRELS[:1])["RR"] == 0.5


def test_damaged_parquet_is_refused(tmp_path):
    path = tmp_path / "one.parquet"
    pl.concat([RUN] * 1000).with_row_index("n").write_parquet(path)
    good = path.read_bytes()
    damages = dict.fromkeys((b"", b"no Parquet", good[: len(good) // 2]), r"one\.parquet.*complete")
    for filler in (b"\xff", b"\0", b"A"):  # in all columns; the end says where they are
        damages[good[:4] + filler * (len(good) - 2004) + good[-2000:]] = "A Parquet file is damaged"
    for bad, message in damages.items():
        path.write_bytes(bad)
        for function in (rankql.evaluate, rankql.check):
            with pytest.raises(RankqlError, match=message):
                function(path, QRELS, item=("n", "item"))


def test_trec_files_have_comments(tmp_path):
    """As in trec_eval 10: lines that begin with # are none; a # further on is part of an id."""
    qrels, run = tmp_path / "a.qrels", tmp_path / "a.run"
    run.write_text("# a b c d e\na Q0 y 1 2.0 t\na Q0 x#1 2 1.0 t\n")
    for text in (
        "# written in 2024\na 0 x#1 1\n  # two words or more than 4\n#b 0 y 1\n",
        "# written in 2024\na  0\tx#1 1\n",  # not one character between
    ):
        qrels.write_text(text)
        assert rankql.evaluate(run, qrels, "RR").per_query.rows() == [("a", 0.5)]


# Connections


@pytest.mark.slow
def test_threads_take_turns_on_a_connection():
    con = duckdb.connect()
    con.execute("CREATE TABLE r AS FROM RUN; CREATE TABLE q AS FROM QRELS")
    with ThreadPoolExecutor(4) as pool:
        values = pool.map(lambda _: read("r", "q", con=con)["RR"], range(8))
    assert len(set(values)) == 1


@pytest.mark.slow
def test_threads_without_a_connection_see_nothing_of_each_other():
    frames = [pl.DataFrame({"query": [1, 1], "pos": [1, 2], "rel": [n, 1]}) for n in range(3)]
    expected = [rankql.evaluate(frame, metrics="nDCG@10").per_query for frame in frames]
    with ThreadPoolExecutor(6) as pool:
        results = pool.map(lambda n: rankql.evaluate(frames[n % 3], metrics="nDCG@10"), range(24))
    assert all(one.per_query.equals(expected[n % 3]) for n, one in enumerate(results))
    con = private_connection()
    assert con.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    assert con.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_connections_that_cannot_be_used_are_refused():
    con = duckdb.connect()
    con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY); BEGIN")
    with pytest.raises(duckdb.Error):
        con.execute("INSERT INTO t VALUES (1), (1)").fetchall()
    for function in (rankql.evaluate, rankql.check):
        with pytest.raises(RankqlError, match="transaction is aborted"):
            function(RUN, QRELS, con=con)
    con.rollback()
    assert read(RUN, QRELS, con=con)["RR"] > 0
    con.close()
    refused(RUN, QRELS, con=con, match="already closed")


def test_sessions_on_one_connection_share_one_thread_which_ends():
    handler, before = signal.set_wakeup_fd(-1), threading.active_count()
    signal.set_wakeup_fd(handler)
    with private_connection() as con:
        with watch(con), watch(con):
            assert threading.active_count() == before + 1
        with pytest.raises(duckdb.Error), watch(con):
            con.execute("SELECT error('no')").fetchall()
    assert threading.active_count() == before
    assert signal.set_wakeup_fd(handler) == handler


# Ids that do not match


@few(1)("matching", [1, 4, 5])
def test_few_items_in_common_are_noted(matching):
    ids = pl.Series(range(200)).cast(pl.String)
    run = pl.DataFrame({"query": "a", "item": "d" + ids, "score": range(200, 0, -1)})
    items = ("d" + ids.head(matching)).append("x" + ids[matching:100])
    qrels = pl.DataFrame({"query": "a", "item": items, "rel": 1})
    notes = [note.partition(" judged")[0] for note in rankql.evaluate(run, qrels).data_notes]
    assert notes == [f"Only {matching} of 100"] * (matching < 5)
    kinds = [finding.kind for finding in rankql.check(run, qrels)]
    assert kinds.count("few-common-items") == (matching < 5)


# Columns that both tables have


def test_frames_of_pyterrier_are_recognised():
    texts = ["cheap flights", "cheap flights", "rain"]
    run = pl.DataFrame({"qid": ["1", "1", "2"], "docid": [7, 8, 7], "docno": ["d7", "d8", "d7"],
                        "score": [2.0, 1.0, 3.0], "query": texts})  # fmt: skip
    qrels = pl.DataFrame({"qid": ["1", "2"], "docno": ["d8", "d7"], "label": [1, 2]})
    for frames in ((run, qrels), (run.to_pandas(), qrels.to_pandas())):
        result = rankql.evaluate(*frames, "RR", by="query")
        assert result.columns == {
            "run": {"query": "qid", "item": "docno", "score": "score", "not read": "docid"},
            "qrels": {"query": "qid", "item": "docno", "rel": "label"},
        }
        assert result.per_query.rows() == [("1", "cheap flights", 0.5), ("2", "rain", 1.0)]
        assert rankql.check(*frames).passed
    # By the name that both have, whichever comes first otherwise.
    internal = qrels.with_columns(docid=pl.Series([8, 7])).drop("docno")
    assert read(run, internal).columns["run"]["item"] == "docid"
    by_text = qrels.select("docno", "label", query=pl.Series(texts[1:]))
    assert read(run, by_text).columns["run"]["query"] == "query"


# Values that are missing


NAN = {
    "score": ("nan-scores", "must be a number, not nan"),
    "rel": ("nan-grades", "must be a finite number, not nan"),
    "pos": ("text-positions", "must be a whole number from 1, not nan"),
}


@few(2)(
    ("role", "dtype"),
    [(role, dtype) for dtype in ("float64", object, "float32") for role in ("score", "rel", "pos")],
)
def test_nan_is_refused_in_every_frame(role, dtype):
    """Also in pandas, whose NaN DuckDB reads as NULL: not judged, or not retrieved."""
    kind, problem = NAN[role]
    order = "score" if role == "score" else "pos"
    table = pl.DataFrame({"query": [*"aab"], "item": [*"xyx"], "rel": 1.0, order: [1.0, 2, 1]})
    null = table.with_columns(pl.when(pl.col("item") == "x").then(role).alias(role))
    nan = null.with_columns(pl.col(role).fill_null(float("nan")))
    frame = nan.to_pandas().astype({role: dtype})
    wrongs = {"float64": [nan], object: [nan.to_arrow()]}.get(dtype, [])
    for wrong in (*wrongs, *([frame] if role != "rel" else [])):
        error = refused(wrong, match=f"^run: {role} {problem}.*NULL: pass {role}=")
        (repair,) = error.remedies
        assert 0 < read(wrong, **repair)["RR"] <= 1
        assert [f.level for f in rankql.check(wrong) if f.kind == kind] == ["error"]
    expected = read(null).rankings
    if role == "rel":  # as a left merge of pandas writes them
        result = read(frame)
        assert result.rankings == expected
        assert "run: 1 of 3 values of rel are NaN" in " ".join(result.notes)
    values = [None if x != x else x for x in frame[role]]
    frame = frame.assign(**{role: pandas.array(values, dtype="Float64")})
    assert read(frame).rankings == expected


def test_queries_without_attributes_are_noted():
    options = {"by": "segment", "interval": None}
    result = rankql.evaluate(RUN, QRELS, "AP", attributes=SEGMENTS[:1], **options)
    assert result.notes[0].startswith("2 of 3 queries have no row in attributes ('b', 'c')")
    assert rankql.evaluate(RUN, QRELS, "AP", attributes=SEGMENTS, **options).notes == []
    other = SEGMENTS.with_columns(query=pl.col("query").str.to_uppercase())
    message = "^No query has attributes: qrels has 'a', .* has 'A'"
    refused(RUN, QRELS, "AP", attributes=other, **options, match=message)


def test_rows_without_a_score_count_as_not_retrieved():
    null = RUN.with_columns(score=pl.when(pl.col("item") != "z").then("score"))
    note = "1 of 5 rows of the run have no score (NULL) and count as not retrieved"
    for run in (null, null.to_arrow(), null.to_pandas().astype({"score": "Float64"})):
        assert rankql.evaluate(run, QRELS, "RR").notes == [note]


# Distances

DISTANCES = pl.DataFrame(
    [{"query": q, "item": f"i{i:02}", "distance": i / 10} for q in "abc" for i in range(20)]
)
NEAREST = pl.DataFrame([{"query": q, "item": f"i{i:02}", "rel": 1} for q in "abc" for i in (0, 2)])
SCORES = DISTANCES.select("query", "item", score="distance")
NEGATED = DISTANCES.select("query", "item", score=-pl.col("distance"))
# By the name of the column, or by the caller.
FORMS = [(DISTANCES, {}), (SCORES, {"descending": False})]
TWO_DISTANCES = DISTANCES.rename({"distance": "l2_distance"}).with_columns(
    cosine_distance="l2_distance"
)
UNCLEAR = ["cosine", "DotProduct", "distance_score", "l2", "geo_dist", "loss", "nll"]
UNCLEAR += ["neg_inner_product"]

# A column of systems

ONE = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [3.0, 2.0, 1.0]})
TWO = ONE.with_columns(score=-pl.col("score"))
ONE_RELEVANT = pl.DataFrame({"query": ["a", "b"], "item": ["y", "x"], "rel": [1, 1]})


def both_systems(name):
    runs = {"A": ONE, "B": TWO}
    return pl.concat([run.with_columns(pl.lit(each).alias(name)) for each, run in runs.items()])


def disagreeing(swapped):
    """Two runs of which one has positions, other than its scores in so many of 20 queries."""
    rows = [(q, f"d{i}", 10.0 - i, i + 1) for q in range(20) for i in range(10)]
    run = pl.DataFrame(rows, schema=["query", "item", "score", "pos"], orient="row")
    high = (pl.col("query") < swapped) & (pl.col("pos") < 3)
    places = pl.when(high).then(3 - pl.col("pos")).otherwise("pos")
    return {"a": run.with_columns(pos=places), "b": run.drop("pos")}


FIRST_OF_20 = pl.DataFrame({"query": range(20), "item": ["d0"] * 20, "rel": 1})
NOTHING = RUN.with_columns(score=pl.lit(None, pl.Float64))
AP = {"metrics": "AP"}
READ = {
    **{f"distances: {name}": (DISTANCES.rename({"distance": name}), NEAREST, AP, 5 / 6,
                              "'order': 'ascending'")
       for name in ("_distance", "Distance", "dist", "l2_distance", "L2Distance", "cosineDistance",
                    "cosine-distance", "euclidean_dist", "vector_distance", "hammingDistance")},
    "distances: two beside a score": (
        TWO_DISTANCES.with_columns(score=-pl.col("l2_distance")), NEAREST, AP, 5 / 6,
        "'score': 'score'"),
    **{f"a name without a direction: {name}": (
        DISTANCES.rename({"distance": name}), NEAREST, AP | {"score": name, "descending": False},
        5 / 6) for name in UNCLEAR},
    **{f"a name of a similarity: {name}": (
        NEGATED.rename({"score": name}), NEAREST, AP | {"score": name}, 5 / 6)
       for name in UNCLEAR[:2]},
    "positions and scores that disagree in one of a hundred rows": (
        disagreeing(1), FIRST_OF_20, {}, [1, 1]),
    # In a table of both, NULL says that an item was not retrieved.
    "an item without a position": (
        QRELS[1:].with_columns(pos=pl.Series([1, None, 1])), None, {}, 1),
}  # fmt: skip


@of_each_kind(READ)
def test_what_is_read(kind, case):
    assert_read(*READ[case])


REFUSED = {
    **{f"a name without a direction: {name}": (
        DISTANCES.rename({"distance": name}), NEAREST, {},
        rf"^No score column in run\. Pass: score='{name}'") for name in UNCLEAR},
    **{f"a named column without a direction: {name}": (
        DISTANCES.rename({"distance": name}), NEAREST, {"score": name},
        rf"^run: is the lowest or the highest {name} the best\? Pass one of: descending=False desc")
       for name in UNCLEAR[2:]},
    "two distances": (
        TWO_DISTANCES, NEAREST, {},
        r"^No score .* Pass one of: score='l2_distance' score='cosine_distance' "),
    "descending: a number": (
        SCORES, NEAREST, {"descending": 0}, "^descending must be True or False, not 0"),
    "descending: of positions": (
        SCORES.with_columns(rank=pl.lit(1)), NEAREST, {"descending": False},
        "^descending=False orders scores, but run is ordered"),
    **{f"every score is NULL: {type(run).__module__}": (
        run, QRELS, {}, "^Every score of (the run|run 'two') is NULL")
       for run in (NOTHING.to_arrow(), NOTHING.to_pandas().astype({"score": "Float64"}),
                   {"one": RUN, "two": NOTHING})},
    "duplicates: of systems of another name": (
        both_systems("other"), ONE_RELEVANT, {}, "^run has duplicates: query 'a'"),
    "duplicates: of one system": (
        pl.concat([ONE, TWO]).with_columns(model=pl.lit("A")), ONE_RELEVANT, {},
        "^run has duplicates: query 'a'"),
    "positions and scores that disagree in two of a hundred rows": (
        disagreeing(2), FIRST_OF_20, {}, "order 4 of 200 rows differently"),
}  # fmt: skip


@of_each_kind(REFUSED)
def test_what_is_refused(kind, case):
    run, qrels, options, message = REFUSED[case]
    refused(run, qrels, **options, match=message)


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    *({"ties": ties} for ties in ("item", "order", "best", "worst", "expected")),
    *({"unjudged": "remove"}, {"conventions": "trec_eval"}),
])  # fmt: skip
def test_distances_are_best_where_they_are_lowest(options):
    metrics = ["nDCG@10", "AP", "RR@10", "P@5"]
    tied = [run.with_columns(pl.col(run.columns[2]).round(0)) for run in (DISTANCES, NEGATED)]
    for near, negated in ((DISTANCES, NEGATED), tied) if "ties" in options else [tied]:
        result = rankql.evaluate(near, NEAREST, metrics, **options)
        assert result.columns["run"]["order"] == "ascending"
        high = rankql.evaluate(near, NEAREST, metrics, descending=True, **options)
        assert "order" not in high.columns["run"]
        scores = near.rename({"distance": "score"})
        for values, run in ((result, negated), (high, scores)):
            named = {"descending": True} if run is scores else {}
            expected = rankql.evaluate(run, NEAREST, metrics, **options, **named)
            assert_frame_equal(values.per_query, expected.per_query)


def test_check_reads_the_order_of_distances_next_to_positions():
    placed = DISTANCES.with_columns(pos=pl.col("distance").rank("ordinal").over("query"))
    kinds = [finding.kind for finding in rankql.check(placed, NEAREST).findings]
    assert "rank-score-order" not in kinds


@few(1)("options", [{}, {"unjudged": "remove"}])
def test_expressions_read_the_distances(options):
    metrics = ["x = avg(score)", "RMSE"]
    scores = SCORES.sort("query", -pl.col("score"))  # the highest first
    expected = rankql.evaluate(scores, NEAREST, metrics, **options).summary["mean"]
    values = rankql.evaluate(DISTANCES, NEAREST, metrics, **options).summary["mean"]
    assert values.to_list() == pytest.approx(expected.to_list()) and values[0] > 0
    runs = {"one": DISTANCES, "two": NEGATED}
    for run, other in ((runs, {}), (DISTANCES, {"ties": "expected"})):
        refused(run, NEAREST, metrics, **other, match=r"^x reads scores")


@few(1)(("run", "options"), FORMS)
def test_distances_are_converted_to_scores(run, options, tmp_path):
    for name in ("near.run", "near.parquet"):
        path = rankql.convert(run, tmp_path / name, **options)
        assert read(path, NEAREST)["RR"] == 1
    lines = (tmp_path / "near.run").read_text().splitlines()
    assert lines[:2] == ["a Q0 i00 1 0.0 rankql", "a Q0 i01 2 -0.1 rankql"]


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


# In parts, as in Spark


def add_counters(partitions):
    """The counters of all partitions, from what `count_partition` returns."""
    rows = pl.concat(partitions, how="diagonal_relaxed").filter(pl.col(COUNTER).is_not_null())
    ids = pl.col(IDS).explode().drop_nulls().sort().head(EXAMPLES)
    value = pl.col("value")
    numbers = {"total": value.sum(), "least": value.min(), "most": value.max()}
    sums = rows.group_by(COUNTER, "system").agg(pl.col(TEXT).min(), ids, **numbers)
    return Totals(sums.to_dicts())


def in_parts(run, qrels, metrics="RR", attributes=(), **options):
    """What Spark's partitions report of each query by itself."""
    rules = Conventions(ties="item")
    meta = Meta("query", [metrics], rules.as_dict())
    task = partitions.Task(
        [None], RankingRules({}, rules), attributes, parse(metrics), meta=meta, **options
    )
    tables = [
        {"run": run.filter(query=q).to_arrow(), "qrels": qrels.filter(query=q).to_arrow()}
        for q in sorted({*run["query"], *qrels["query"]})
    ]
    rows = add_counters([partitions.count_partition(task, each) for each in tables])
    with open_session(None) as session:
        inputs = task.read_inputs(session, {"run": run.to_arrow(), "qrels": qrels.to_arrow()})
        evaluation = Evaluation(session, inputs, rules, parse(metrics))
    notes = partitions.describe_totals(evaluation, meta, rows)
    return pl.concat([partitions.evaluate_partition(task, each) for each in tables]), notes


@pytest.mark.slow
def test_parts_count_equal_scores():
    """They are the same in all parts, or only in each of them."""
    same = RUN.with_columns(score=pl.lit(0.5))
    by_query = RUN.with_columns(score=pl.col("query").rank("dense").cast(pl.Float64))
    for run, count in (same, 1), (by_query, 0):
        for notes in (rankql.evaluate(run, QRELS, "RR").notes, in_parts(run, QRELS)[1]):
            assert len([note for note in notes if "have the same score" in note]) == count


@pytest.mark.slow
def test_parts_count_the_queries_that_are_not_judged():
    more = pl.concat([RUN, RUN[:1].with_columns(query=pl.lit("zz"))])
    notes = (rankql.evaluate(more, QRELS, "RR").notes, in_parts(more, QRELS)[1])
    one, other = ([note for note in each if "not judged" in note] for each in notes)
    assert one == other and len(one) == 1


@few(2)(
    ("run", "qrels", "message"),
    [
        (RUN.with_columns(pl.col("item").replace("z", None)), QRELS, "^run: item is NULL in 1 of"),
        (RUN.with_columns(part=pl.col("item")), QRELS, "part must have one value per query"),
        (RUN.with_columns(pl.col("item").str.to_uppercase()), QRELS, "No item .* judged .* Write"),
        (RUN, pl.concat([QRELS, QRELS[:1].with_columns(pl.col("rel") - 1)]), "qrels has duplicate"),
        (RUN.with_columns(score=pl.lit(None, pl.Float64)), QRELS, "Every score of the run is NULL"),
    ],
)
def test_parts_have_the_same_errors(run, qrels, message):
    with pytest.raises(RankqlError, match=message):
        in_parts(run, qrels, attributes=[["part"]] if "part" in run.columns else ())


@few(2)(
    ("scores", "conventions", "noted"),
    [
        ([1.0, 1.0, 1.0], "rankql", True),
        ([1.0, 1.0, 2.0], "rankql", False),
        ([1 - 1e-9, 1, 1 + 1e-9], "trec_eval", True),  # which rounds scores to 32 bits
        ([1 - 1e-9, 1, 1 + 1e-9], "rankql", False),
    ],
)
def test_a_run_with_one_score_for_all_items_is_noted(scores, conventions, noted, tmp_path):
    run = pl.DataFrame({"query": "q", "item": ["a", "b", "c"], "score": scores})
    run.write_parquet(tmp_path / "run.parquet")
    qrels = run.select("query", "item", rel=1)
    for source in (run, tmp_path / "run.parquet"):
        notes = rankql.evaluate(source, qrels, "RR", conventions=conventions).notes
        assert any("all 3 rows of the run have the same" in note for note in notes) == noted


@few(1)("name", ["system", "run", "run_id", "Model", "variant", "ranker", "algorithm"])
def test_a_column_of_systems_is_recognised(name):
    table = both_systems(name)
    joined = table.join(ONE_RELEVANT, on=["query", "item"], how="left")
    for run, qrels in ((table, ONE_RELEVANT), (joined, None)):
        result = read(run, qrels)
        assert result.means() == [0.75, 1] and result.columns["run"]["system"] == name
    assert rankql.compare(run, qrels, "RR").systems == ["A", "B"]
    assert rankql.check(run, qrels).passed
    assert rankql.explain(run, qrels, metric="RR").means.rows() == [("A", 0.75, 1), ("B", 1, 1)]


def test_a_column_of_systems_of_lists():
    lists = pl.DataFrame({
        "query": ["a", "a"], "model": ["A", "B"],
        "retrieved": [["x", "y"], ["y"]], "relevant": [["y"], ["y"]],
    })  # fmt: skip
    assert read(lists).means() == [0.5, 1]


@pytest.mark.parametrize("values", [["A", "A", "A"], ["A", "B", "A"]])
def test_another_column_of_such_a_name_is_ignored(values):
    run = ONE.with_columns(model=pl.Series(values))
    result = read(run, ONE_RELEVANT)
    assert result["RR"] == 0.75 and "system" not in result.columns["run"]


def test_scores_rank_if_only_some_runs_have_positions():
    query, item = ["a"] * 4 + ["b"] * 4, ["w", "x", "y", "z"] * 2
    scores = [4.0, 2.0, 2.0, 1.0] * 2
    model = pl.DataFrame({"query": query, "item": item[::-1], "score": scores})
    popular = pl.DataFrame({"query": query, "item": item, "score": scores})
    placed = popular.with_columns(rank=pl.Series([1, 3, 2, 4, 1, 2, 3, 4]))
    qrels = pl.DataFrame({"query": ["a", "b"], "item": ["y", "x"], "rel": [1, 1]})
    runs = ({"popular": run, "model": model} for run in (placed, popular))
    placed_result, scored_result = (read(each, qrels) for each in runs)
    assert placed_result.rankings == scored_result.rankings
    assert placed_result.columns["run 'popular'"]["pos"] == "rank of popular is not used"
    everywhere = {"popular": placed, "model": model.with_columns(rank=placed["rank"])}
    assert "not used" not in str(read(everywhere, qrels).columns)
    other = placed.with_columns(rank=5 - pl.col("rank"))
    message = "^run 'popular': rank and score order [0-9]+ of 8 rows"
    refused({"popular": other, "model": model}, qrels, match=message)
    assert read({"p": other, "m": model}, qrels, score="score").rankings


def test_the_columns_line_has_no_positions_or_scores_that_are_not_read():
    qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    run = pl.DataFrame({"query": ["a"] * 2, "item": ["x", "y"], "score": [2.0, 1.0]})
    placed = run.with_columns(pos=pl.Series([1, 2]), rank=pl.Series([2, 1]))
    assert read(placed, qrels).columns["run"]["pos"] == "pos, not rank"
    assert "pos" not in read(placed, qrels, score="score").columns["run"]
    scored = placed.drop("rank").with_columns(bm25=pl.Series([1.0, 2.0]))
    columns = read({"a": scored, "b": placed[["query", "item", "pos"]]}, qrels)
    assert "score" not in columns.columns["run 'a'"]
