"""The metrics in Spark: whole runs, errors, several executors."""

import re
import sys
import textwrap

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.cli.demo import write_shop
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.engines import partitions
from rankql.engines.translation import translate_call, translate_expression
from support import case_matrix, samples, signatures, spark_sessions
from support.case_matrix import assert_alike
from support.components import optional
from support.environments import run
from support.paths import ROOT
from support.refusals import REFUSALS, refuses
from support.samples import SMALL_QRELS as QRELS
from support.samples import SMALL_RUN as RUN

deltalake, metrics = optional("deltalake"), optional("rankql.spark")
functions = optional("pyspark.sql.functions")
pytestmark = pytest.mark.spark


@pytest.fixture
def spark():
    return spark_sessions.of_process()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_shop(tmp_path_factory.mktemp("shop"), queries=300)


def framed(spark, frame):
    return spark.createDataFrame(frame.to_arrow())


WHOLE = ["nDCG@10", "AP", "RR@10", "P@5", "ERR@10", "nDCG(gain=exp2)@5", "microR@10"]


def test_evaluate_the_shop(spark, shop):
    frame = spark.read.parquet(str(shop))
    for by in ((), [["segment"], ["segment", "user"]]):
        ours = rankql.evaluate(shop, metrics=WHOLE, by=by)
        assert_alike(ours, metrics.evaluate(frame, metrics=WHOLE, by=by))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["nDCG@10", "AP", "ERR@3"], {"conventions": "trec_eval", "by": "hour"}),
        ({"latest": "max(hour)", "latest@1": "max(hour)"}, {}),
        ("nDCG@10", {"conventions": "sklearn"}),
        (["nDCG@10", "AP"], {"unjudged": "remove"}),
        ("AP", {"interval": "t", "missing": "skip", "threshold": 2}),
        (["RBPres(p=0.8)", "RMSE", "FalseAnswer", "FalseAbstention"], {"undefined": "zero"}),
        (["nDCG@10", "AP", "FalseAnswer"], {"unjudged_queries": "count"}),
    ],
)
def test_evaluate_a_run_and_judgments(spark, names, options):
    ours = rankql.evaluate(RUN, QRELS, names, **options)
    assert_alike(ours, metrics.evaluate(framed(spark, RUN), framed(spark, QRELS), names, **options))


@pytest.mark.quick
def test_a_missing_query_that_is_left_out_has_no_value(spark):
    tables, options = (framed(spark, RUN), framed(spark, QRELS)), {"missing": "skip"}
    result = metrics.evaluate(*tables, ["P@3", "FalseAnswer"], **options)
    ours = rankql.evaluate(RUN, QRELS, ["P@3", "FalseAnswer"], **options).per_query
    theirs = pl.DataFrame(result.per_query.toArrow()).sort("query")
    assert_frame_equal(theirs, ours, abs_tol=1e-12, rel_tol=0)
    assert ours["P@3"].null_count() == result.summary.filter(metric="P@3")["missing"].item() == 1


@pytest.mark.quick
def test_a_missing_query_with_a_grade_below_0_is_left_out(spark):
    signed = QRELS.with_columns(rel=pl.when(query="d").then(-1).otherwise("rel"))
    for undefined in ("skip", "one"):
        ours = rankql.evaluate(RUN, signed, ["DCG@3", "CG"], undefined=undefined)
        theirs = (framed(spark, x) for x in (RUN, signed))
        assert_alike(ours, metrics.evaluate(*theirs, ["DCG@3", "CG"], undefined=undefined))
        assert ours.summary.select("queries", "undefined", "missing").rows() == [(4, 0, 1)] * 2
        assert ours["CG"] == pytest.approx((1 + 0 + 2) / 3)


@pytest.mark.quick
def test_evaluate_with_weights(spark):
    weights = pl.DataFrame({"query": list("abcdz"), "w": [1, 1, 2, 3, 4]})
    result = metrics.evaluate(
        *(framed(spark, x) for x in (RUN, QRELS)),
        "AP",
        weight="w",
        attributes=framed(spark, weights),
        ties="item",
    )
    ours = rankql.evaluate(RUN, QRELS, "AP", weight="w", attributes=weights, ties="item")
    assert result["AP"] == pytest.approx(ours["AP"], abs=1e-12) and result.summary["lo"][0] is None
    assert "Note: Weighted means have no confidence interval in Spark" in repr(result)
    assert repr(result.collect()) == repr(ours)


def test_evaluate_several_runs(spark):
    runs = {"one": RUN, "two": RUN.filter(pl.col("query") != "a")}
    theirs = {name: framed(spark, run) for name, run in runs.items()}
    qrels = framed(spark, QRELS)
    assert_alike(rankql.evaluate(runs, QRELS, "AP"), metrics.evaluate(theirs, qrels, "AP"))
    column = pl.concat([run.with_columns(model=pl.lit(name)) for name, run in runs.items()])
    ours = rankql.evaluate(column, QRELS, "AP", system="model")
    assert_alike(ours, metrics.evaluate(framed(spark, column), qrels, "AP", system="model"))


@pytest.mark.quick
def test_grades_of_several_systems_are_of_each_alone_or_from_a_join(spark):
    rows = [
        ("a", "q", "x", 1, 3),
        ("a", "q", "z", 2, 0),
        ("b", "q", "y", 1, 1),
        ("b", "q", "x", 2, 3),
    ]
    table = pl.DataFrame(rows, ["system", "query", "item", "pos", "rel"], orient="row")
    theirs = framed(spark, table)
    for options in ({}, {"pool": True}):
        with pytest.raises(rankql.RankqlError, match=r"pool=False.*distinct") as error:
            metrics.evaluate(theirs, metrics="nDCG@10", system="system", **options)
    join = re.search(r"qrels=run(.*)$", str(error.value))[1]
    assert metrics.evaluate(theirs, metrics="P@1", system="system").summary["mean"][0] == 1
    result = metrics.evaluate(theirs, metrics="nDCG@10", system="system", pool=False)
    assert dict(result.summary["system", "mean"].rows())["a"] == 1
    offered = eval(f"theirs{join}", {"theirs": theirs})
    given = metrics.evaluate(theirs.drop("rel"), offered, "nDCG@10", system="system")
    pooled = rankql.evaluate(table, metrics="nDCG@10", pool=True)
    assert_frame_equal(given.summary["system", "mean"], pooled.summary["system", "mean"])


def test_a_rollup_is_of_values_of_queries(spark, shop):
    """The page on engines shows it; of the metric itself it would be one ranking of all queries."""
    shown = spark.read.parquet(str(shop))
    values = shown.groupBy("segment", "query").agg(metrics.ndcg("rel", "pos", k=10).alias("ndcg"))
    rows = values.rollup("segment").agg({"ndcg": "avg"}).collect()
    ours = rankql.evaluate(shop, metrics="nDCG@10", by="segment", interval=None).summary
    means = {part.rpartition("=")[2]: mean for part, mean in ours.select("slice", "mean").rows()}
    assert {row[0] or "all": row[1] for row in rows} == pytest.approx(means, abs=1e-12)
    pooled = shown.rollup("segment").agg(metrics.ndcg("rel", "pos", k=10))
    with pytest.raises(Exception, match="several items share a position"):
        pooled.collect()


def test_one_large_query_in_many_small_files(spark, tmp_path):
    items = pl.int_range(20_000, eager=True)
    large = pl.DataFrame({"query": "large", "item": items, "score": -items.cast(pl.Float64)})
    large = large.with_columns(rel=(items % 7 == 3).cast(pl.Int64))
    small = [
        pl.DataFrame({"query": [f"q{i}"] * 2, "item": [1, 2], "score": [1.0, 2.0], "rel": [1, 0]})
        for i in range(40)
    ]
    for i, part in enumerate([large[:9000], *small, large[9000:]]):
        part.write_parquet(tmp_path / f"{i}.parquet")
    names = ["nDCG@10", "AP", "R@100"]
    ours = rankql.evaluate(f"{tmp_path}/*.parquet", metrics=names)
    assert_alike(ours, metrics.evaluate(spark.read.parquet(str(tmp_path)), metrics=names))


@pytest.mark.lakes
def test_delta_tables_are_read_by_their_files(spark, tmp_path):
    """Without those of older versions."""
    for frame in (RUN.with_columns(query=pl.lit("old")), RUN):
        deltalake.write_deltalake(tmp_path, frame, mode="overwrite", partition_by=["item"])
    files = deltalake.DeltaTable(tmp_path).file_uris()
    run = spark.read.option("basePath", str(tmp_path)).parquet(*files)
    ours = rankql.evaluate(RUN, QRELS, "AP", by="hour")
    assert_alike(ours, metrics.evaluate(run, framed(spark, QRELS), "AP", by="hour"))


def test_ids_of_other_types(spark):
    """The same query is in the same partition, whatever its type in each table."""
    run = RUN.with_columns(query=pl.col("query").rank("dense").cast(pl.Int64))
    qrels = QRELS.with_columns(query=pl.col("query").rank("dense").cast(pl.Float64))
    ours = rankql.evaluate(run, qrels, "AP")
    assert_alike(ours, metrics.evaluate(framed(spark, run), framed(spark, qrels), "AP"))
    qrels = qrels.with_columns(pl.col("query").cast(pl.Int64).cast(pl.String))
    ours = rankql.evaluate(run, qrels, "AP")
    assert_alike(ours, metrics.evaluate(framed(spark, run), framed(spark, qrels), "AP"))
    fractions = run.with_columns(pl.col("query").cast(pl.Float64))
    with pytest.raises(rankql.RankqlError, match="No query of the run is judged"):
        metrics.evaluate(framed(spark, fractions), framed(spark, qrels), "AP")


def test_values_stay_in_spark(spark, shop, tmp_path, monkeypatch):
    """All that is printed and saved is at hand. The values are evaluated by an action on them."""
    options = {"metrics": ["nDCG@10", "AP"], "by": "segment"}
    frame = spark.read.parquet(str(shop)).drop("user")
    result, again = metrics.evaluate(frame, **options), metrics.evaluate(frame, **options)
    assert result.summary.equals(again.summary)
    ours = rankql.evaluate(pl.read_parquet(shop).drop("user"), **options)
    with monkeypatch.context() as patch:
        for action in ("toArrow", "collect", "count", "toPandas"):
            patch.setattr(type(frame), action, lambda *_: pytest.fail("brings values"))
        assert repr(result) == repr(ours) and result.to_json() == again.to_json()
        for name in ("a.json", "a.html", "a.md", "a.parquet"):
            result.save(tmp_path / name)
        assert result.per_query.columns == ours.per_query.columns
    mean = result.per_query.selectExpr("avg(`nDCG@10`)", "count(*)").collect()[0]
    assert mean[0] == pytest.approx(ours["nDCG@10"], abs=1e-12) and mean[1] == 300
    comparison = rankql.compare({"old": result.collect(), "new": again.collect()}, metrics="AP")
    assert comparison.pairs["difference"][0] == 0
    result.per_query.write.parquet(f"file://{tmp_path}/values")
    values = rankql.read_values(f"{tmp_path}/values/*.parquet")
    written = {"old": values, "new": ours}
    assert rankql.compare(written, metrics="AP").pairs["difference"][0] == pytest.approx(0)


def test_means_evaluate_each_query_once(spark, shop, monkeypatch):
    seen = spark.sparkContext.accumulator(0)

    def count(evaluate):
        def counting(task, tables):
            seen.add(len({*tables["run"]["query"].to_pylist()}))
            return evaluate(task, tables)

        return counting

    for name in ("evaluate_partition", "count_partition"):
        monkeypatch.setattr(partitions, name, count(getattr(partitions, name)))
    result = metrics.evaluate(
        spark.read.parquet(str(shop)), metrics=["nDCG@10", "AP"], by="segment"
    )
    assert repr(result) and seen.value == 300


def test_options_that_need_all_values_are_refused(spark):
    frames = (framed(spark, RUN), framed(spark, QRELS))
    gini = {"gini@10": "gini(item, catalogue := 5)"}
    for options, message in (
        (
            {"interval": "t", "weight": "hour"},
            r"Leave out interval=, then call rankql.combine\(\[result.collect",
        ),
        ({"output": "a.parquet"}, "output= is not supported in Spark. Write the values there"),
        ({"metrics": gini}, "gini@10: metrics of all rankings together are not supported in Spark"),
        ({"conventions": "beir"}, "'beir' is not supported in Spark: it removes items with"),
        ({"conventions": "torchmetrics"}, "is not supported in Spark: TorchMetrics permutes"),
        ({"undefined": "error"}, "1 query with an undefined metric in the run, such as 'b'"),
        ({"weight": "hour"}, "hour is NULL for query 'd'"),
        ({"rel": "rel > 1"}, r"rel = rel > 1 is not supported in Spark. Add a column with withCol"),
    ):
        with pytest.raises(rankql.RankqlError, match=message):
            metrics.evaluate(*frames, **{"metrics": "AP", **options})


QUERY = r'''
WITH shown (user, item, rel, pos) AS (VALUES
    ('ada', 'tea', 3, 1), ('ada', 'mug', 0, 2), ('ada', 'pot', 2, 3), ('ada', 'kettle', 3, NULL),
    ('bob', 'mug', 0, 1), ('bob', 'jar', NULL, 2), ('bob', 'tea', 1, 3),
    ('eve', 'mug', 0, 1), ('eve', 'pot', 0, 2))
SELECT user, ndcg(rel, pos, 10), ap(rel, pos) AS "it's \ ""ap""", 'ndcg(rel, pos) \ it''s' AS text,
       ndcg(CASE rel WHEN 3 THEN 10 ELSE rel END, pos, 3, discounts := [0.8, log2(3), log2(4)])
       AS boosted
FROM shown GROUP BY user ORDER BY user DESC
'''


def test_a_query_equals_duckdb(spark):
    """The README's own query: names, texts and order are DuckDB's."""
    con = duckdb.connect()
    rankql.register(con)
    ours = con.sql(QUERY).pl()
    theirs = pl.DataFrame(metrics.sql(spark, QUERY).toArrow())
    assert_frame_equal(ours, theirs, abs_tol=1e-12, rel_tol=0)


def test_a_name_is_no_variable(spark):
    """Columns called as the variables and parameters within the macros are."""
    frame = spark.createDataFrame(
        spark_sessions.table("err", [[(1, 1), (3, 2)]]).rename_columns(["grade", "i", "g"])
    )
    value = metrics.expr("err(grade, i, max_rel := 3)")
    frame = frame.groupBy("g").agg(value.alias("v"), metrics.err("grade", "i", max_rel=3))
    (row,) = frame.collect()
    assert row.v == row.err == pytest.approx(1 / 8 + 7 / 8 * 7 / 8 / 2)


@pytest.mark.parametrize(("call", "words"), REFUSALS["spark"].items())
def test_input_is_refused(spark, call, words):
    frame = spark.createDataFrame(spark_sessions.table("ndcg", [[(1, 1), (3, 2)]]))
    with pytest.raises(Exception) as error:  # a wrong option is an error before Spark runs
        frame.groupBy("g").agg(metrics.expr(call)).collect()
    assert words in str(error.value)
    ours = isinstance(error.value, rankql.RankqlError) or "USER_RAISED" in str(error.value)
    assert ours or words == "MISSING_AGGREGATION"  # k is no constant


FRACTIONS = ("DOUBLE", "DECIMAL(9, 2)")


@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", *FRACTIONS])
def test_integers_are_not_checked_for_fractions(spark, kind):
    """Spark drops these checks of integers while it plans, and those only."""
    typed = f"CAST(rel AS {kind}) AS rel, CAST(pos AS {kind}) AS pos"
    frame = spark.sql(f"SELECT 1 AS g, {typed} FROM VALUES (1, 1), (3, 2) AS t (rel, pos)")
    metric = metrics.ndcg(k=10)
    values = frame.groupBy("g").agg(metric)
    assert values.collect()[0].ndcg == pytest.approx((1 + 3 / 1.584962500721156) / 3.63092975357146)
    plan = values._jdf.queryExecution().optimizedPlan().toString()
    for check in ("rel must be a finite number", "% 1"):
        assert (check in plan) == (kind in FRACTIONS)
    wrong = {"pos - 2": "pos must be a whole number from 1, not -1"}
    if kind == "BIGINT":
        wrong["pos + 9007199254740995"] = "pos must be a whole number from 1, not 9007199254740996"
    if kind in FRACTIONS:
        wrong["pos / 2"] = "pos must be a whole number from 1, not 0.5"
    for pos, message in wrong.items():
        with pytest.raises(Exception, match=message):
            frame.selectExpr("g", "rel", f"{pos} AS pos").groupBy("g").agg(metric).collect()
    if kind == "DOUBLE":
        for value in ("nan", "inf", "-inf"):
            bad = frame.selectExpr("g", f"CAST('{value}' AS {kind}) AS rel", "pos")
            with pytest.raises(Exception, match="rel must be a finite number"):
                bad.groupBy("g").agg(metric).collect()


def test_unknown_arguments_are_refused():
    with pytest.raises(AttributeError, match=r"Did you mean .ndcg"):
        metrics.ndgc  # noqa: B018
    with pytest.raises(
        rankql.RankqlError, match=r"'kk' is unknown or repeated\. Parameters: rel, pos, k"
    ):
        metrics.ndcg("rel", "pos", kk=3)
    with pytest.raises(rankql.RankqlError, match="An option must be a number, a text"):
        metrics.ndcg("rel", "pos", k=object())
    with pytest.raises(rankql.RankqlError, match="ties='order' is not supported in Spark"):
        metrics.evaluate(RUN, QRELS, "AP", ties="order")
    with pytest.raises(rankql.RankqlError, match=r"collapse= is not supported in Spark\. Leave"):
        metrics.evaluate(RUN, QRELS, "AP", collapse="#")
    with pytest.raises(rankql.RankqlError, match=r"Unknown option 'thresold'\. Did you mean"):
        metrics.evaluate(RUN, QRELS, "AP", thresold=2)
    with pytest.raises(rankql.RankqlError, match="run must be a Spark DataFrame"):
        metrics.evaluate(RUN, QRELS, "AP")


def test_every_metric_of_a_ranking_is_translated():
    for metric in spark_sessions.EVERY:
        columns = {n: n for n, d in signatures.EVERYTHING[metric].items() if d is signatures.NEEDED}
        options = {"p": 0.8, "max_rel": 3}
        given = {n: options[n] for n in signatures.EVERYTHING[metric] if n in options}
        text = re.sub(r"'(?:[^'\\]|\\.)*'", "''", translate_call(metric, columns, given))
        assert not any(left in text for left in ("list_", "lambda", ":=", "rankql_grade")), metric
        assert len(text) < 20_000, metric


def test_which_metrics_beyond_accuracy_are_translated():
    def translated(name):
        try:
            return translate_expression(samples.call_of(name))
        except rankql.RankqlError as error:
            assert "has no translation" in str(error)

    ours = [name for name in FUNCTIONS if name not in spark_sessions.EVERY]
    assert [name for name in ours if translated(name)] == [*case_matrix.IN_SPARK]


def test_columns_are_taken_and_other_expressions_refused(spark):
    frame = framed(spark, RUN.join(QRELS, on=["query", "item"]))
    ours = frame.groupBy("query").agg(metrics.ndcg_by_score("rel", "score", "item", 2))
    theirs = metrics.ndcg_by_score(functions.col("rel"), frame.score, item=frame["item"], k=2)
    assert {*frame.groupBy("query").agg(theirs).collect()} == {*ours.collect()}
    for wrong in (functions.col("rel") + 1, functions.col("rel").alias("x"), functions.lit(2)):
        with pytest.raises(rankql.RankqlError, match=r"ndcg: rel must be a column, not .*: df"):
            metrics.ndcg(wrong, "pos")


@pytest.mark.quick
@pytest.mark.parametrize("name", case_matrix.IN_SPARK)
def test_metrics_beyond_accuracy_equal_duckdb(spark, name):
    """As in DuckDB, of random rows, empty columns and NULLs among them."""
    con = duckdb.connect()
    rankql.register(con)
    columns = samples.columns_of(name)
    rows = [[g, *row] for g in range(6) for row in samples.draw_rows(name, g)]
    rows += [[6, *(None for _ in columns)], *([7, *row[1:-1], None] for row in rows[:3])]
    kinds = [samples.KINDS.get(column, "DOUBLE") for column in columns]
    typed = ", ".join(f'"{c}" {kind}' for c, kind in zip(columns, kinds, strict=True))
    con.execute(f"CREATE TABLE drawn (g INT, {typed})")
    con.executemany(f"INSERT INTO drawn VALUES ({', '.join('?' * (len(columns) + 1))})", rows)
    framed(spark, con.sql("FROM drawn").pl()).createOrReplaceTempView("drawn")
    text = f"SELECT g, {samples.call_of(name)} AS value FROM drawn GROUP BY g ORDER BY g"
    theirs = pl.DataFrame(metrics.sql(spark, text).toArrow())
    assert_frame_equal(con.sql(text).pl(), theirs, check_exact=False, abs_tol=1e-12, rel_tol=0)


def script(code, tmp_path, **names):
    """Run in a process of its own: there is one Spark in each."""
    code = textwrap.dedent(code).format(**names)
    head = f"import sys; sys.path[:0] = [{f'{ROOT}/tests'!r}, {str(ROOT)!r}]\n"
    return run(sys.executable, "-c", head + code, cwd=tmp_path)


# Without pandas, on two executors; and a table in buckets is not shuffled.
CLUSTER = """
import os, pathlib
import polars as pl
from support import spark_sessions
from polars.testing import assert_frame_equal

pathlib.Path("pandas").mkdir()
pathlib.Path("pandas/__init__.py").write_text("raise ImportError")
sys.path[:0] = [os.getcwd()]
import rankql, rankql.spark

settings = spark_sessions.NO_CODEGEN | {{
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path[:3]),
    "spark.sql.shuffle.partitions": "4",
}}
with spark_sessions.session("local-cluster[2,1,1024]", **settings) as spark:
    ours = rankql.evaluate({shop!r}, metrics=["nDCG@10", "AP"])
    frame = spark.read.parquet({shop!r}).repartition(4)
    mine = pl.DataFrame(frame.groupBy("query").agg(rankql.spark.ndcg(k=10)).sort("query").toArrow())
    theirs = ours.per_query.select("query", ndcg="nDCG@10").sort("query")
    assert_frame_equal(mine, theirs, abs_tol=1e-12, rel_tol=0)
    result = rankql.spark.evaluate(frame, metrics=["nDCG@10", "AP"])
    assert_frame_equal(result.collect().per_query, ours.per_query, abs_tol=1e-12, rel_tol=0)
    assert_frame_equal(result.summary, ours.summary, abs_tol=1e-12, rel_tol=0)
    rows = spark.range(0, 1000, 1, 4)
    frame = rows.selectExpr("id % 50 AS query", "id % 4 AS rel", "id + 1 AS pos")
    frame.write.bucketBy(4, "query").saveAsTable("shown")
    for shown, shuffled in ((spark.table("shown"), False), (frame, True)):
        plan = shown.groupBy("query").agg(rankql.spark.ndcg(k=10))._jdf.queryExecution()
        assert ("Exchange" in plan.executedPlan().toString()) == shuffled
print("right")
"""


def test_several_executors_without_pandas_and_with_buckets(shop, tmp_path):
    assert "right" in script(CLUSTER, tmp_path, shop=str(shop))


CONNECT = """
import os
import duckdb
import polars as pl
from support import case_matrix, hand_cases, spark_sessions
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession, functions as F

os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.remote("local[1]")
for name, value in (spark_sessions.PLAIN | spark_sessions.INTERPRETED).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
import rankql, rankql.spark
path = {shop!r}
frame = spark.read.parquet(path)
assert type(frame).__module__.startswith("pyspark.sql.connect")
ours = rankql.evaluate(path, metrics=["nDCG@10", "AP"], by="segment")
theirs = rankql.spark.evaluate(frame, metrics=["nDCG@10", "AP"], by="segment")
values = theirs.collect().per_query
assert_frame_equal(ours.per_query, values, abs_tol=1e-12, rel_tol=0)
assert_frame_equal(ours.summary, theirs.summary, abs_tol=1e-12, rel_tol=0)
frame.createOrReplaceTempView("shop")
text = "SELECT query, ndcg(rel, pos, 10) AS ndcg FROM shop GROUP BY query ORDER BY query"
wanted = ours.per_query.select("query", ndcg="nDCG@10")
queries = frame.groupBy("query")
made = [rankql.spark.sql(spark, text)]
for columns in ((), ("rel", "pos"), (F.col("rel"), F.col("pos")), (frame.rel, frame["pos"])):
    made.append(queries.agg(rankql.spark.ndcg(*columns, k=10)).sort("query"))
for each in made:
    assert_frame_equal(pl.DataFrame(each.toArrow()), wanted, abs_tol=1e-12, rel_tol=0)
for call in (
    lambda: rankql.evaluate(frame, metrics="AP"),
    lambda: rankql.compare({{"a": frame, "b": frame}}, frame),
    lambda: rankql.check(frame),
    lambda: rankql.evaluate({{1: ["a"]}}, frame),
    lambda: rankql.most_popular(frame),
):
    try:
        call()
    except rankql.RankqlError as error:
        assert "is a frame of Spark Connect. Evaluate it in Spark by rankql.spark" in str(error)
    else:
        raise AssertionError
wrong = case_matrix.run(case_matrix.ENGINES["Spark"], spark, hand_cases.FAMILIES["cascade"])
assert not wrong, wrong
print("right")
spark.stop()
"""


def test_connect(shop, tmp_path):
    assert "right" in script(CONNECT, tmp_path, shop=str(shop))


def test_the_mean_of_decimals_has_all_places_of_a_double(spark):
    query = "SELECT avg(d) FROM (VALUES (1.25), (1.00), (2.00)) AS t (d)"
    ((mean,),) = metrics.sql(spark, query).collect()
    assert mean == pytest.approx(4.25 / 3, abs=1e-15)


# What translate() refuses: the query, and the words that say why. No session is needed.
test_queries_without_a_translation_are_refused = refuses(
    "translate", globals(), "rankql.translate('''%s''', 'spark')", light=99
)


def test_an_unknown_dialect_is_corrected():
    for name, correct in (("postgre", "postgres"), ("sparc", "spark")):
        with pytest.raises(rankql.RankqlError, match=f"'{name}'. Did you mean '{correct}'"):
            rankql.translate("SELECT 1", name)


def test_equal_rows_count_once(spark):
    """Equal in all columns, read or not; what another column tells apart stays an error."""
    rows = [(f"q{q}", f"d{(3 * q + i) % 9}", 9.0 - i, "k") for q in range(12) for i in range(6)]
    run = pl.DataFrame(rows, ["query", "item", "score", "shelf"], orient="row")
    qrels = pl.DataFrame({"query": [f"q{q}" for q in range(12)], "item": "d3", "rel": 1})
    right = metrics.evaluate(framed(spark, run), framed(spark, qrels), "RR@5").means
    again = pl.concat([run, run[:3]])
    twice = qrels[[0, *range(12)]]
    for one, other in ((again, qrels), ({"a": again, "b": run}, qrels), (run, twice)):
        frames = one if isinstance(one, dict) else {None: one}
        frames = {x: framed(spark, y) for x, y in frames.items()}
        result = metrics.evaluate(frames.get(None, frames), framed(spark, other), "RR@5")
        assert result.means["mean"].unique().to_list() == right["mean"].to_list()
        assert any("equal to another one in all columns" in x for x in result.notes)
    other = pl.concat([run, run[:3].with_columns(shelf=pl.lit("m"))])
    with pytest.raises(rankql.RankqlError, match="run has duplicates"):
        metrics.evaluate(framed(spark, other), framed(spark, qrels), "RR@5")
    with pytest.raises(rankql.RankqlError, match=r"run\.distinct\(\) drops rows"):
        metrics.evaluate(framed(spark, pl.concat([run, run])), framed(spark, qrels), "RR@5")


def test_local_workers_have_the_python_of_the_driver_and_others_are_named(spark, tmp_path):
    context = spark.sparkContext
    run, qrels = framed(spark, RUN), framed(spark, QRELS)
    other = tmp_path / "python"  # which sees the packages beside rankql
    packages = ":".join(x for x in sys.path if x.endswith("site-packages"))
    paths = f"PYTHONPATH=$PYTHONPATH:{packages}"
    other.write_text(f'#!/bin/sh\n{paths} exec {sys.executable} -S -P "$@"\n')
    other.chmod(0o755)
    before = context.pythonExec
    try:
        context.pythonExec = "python3"  # as if PYSPARK_PYTHON were not set
        metrics.evaluate(run, qrels, "RR@5")
        assert context.pythonExec == sys.executable
        context.pythonExec = str(other)
        lacks = "rankql is not installed for the Python of Spark's workers"
        with pytest.raises(rankql.RankqlError, match=lacks) as error:
            metrics.evaluate(run, qrels, "RR@5")
        assert str(other) in str(error.value) and "PYSPARK_PYTHON" in str(error.value)
    finally:
        context.pythonExec = before
