"""Means that are put together from the moments of parts of the queries."""

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.errors import RankqlError
from rankql.evaluation.means import (
    ERROR,
    SKEWED,
    absent_column,
    counted_values_sql,
    grouping_sets,
    sliced_attributes,
    summarise,
    system_columns,
)
from rankql.evaluation.result import Result, connect
from rankql.macros import MISSING

NUMBER = pl.int_range(30)
QUERIES = pl.select(
    query=pl.format("q{}", NUMBER.cast(str).str.zfill(2)),
    part=pl.lit(pl.Series(["a", None, "NULL"] * 10)),
    hour=NUMBER % 4,
    traffic=NUMBER % 7 * 1.5,
)
RUN = QUERIES.join(pl.DataFrame({"item": range(6)}), how="cross").select(
    "query", "item", score=(pl.col("item") * 7 + pl.int_range(180) // 6 * 3) % 11
)
QRELS = RUN.select("query", "item", rel=pl.col("score") * 5 % 7 % 4 * (pl.col("query") < "q28"))
OTHER = RUN.with_columns(pl.col("score") % 5).filter(pl.col("query") != "q03")


def add_values(results):
    """The moments of results of different queries, by system, slice and metric."""
    meta, frames = results[0].meta, []
    for result in results:
        with connect(meta, result.values) as con:
            frames.append(con.sql(counted_values_sql(meta)).pl())
    con = duckdb.connect()
    con.register("counted", pl.concat(frames, how="vertical_relaxed").to_arrow())
    attributes = sliced_attributes(meta)
    columns = [*system_columns(meta), *attributes.values()]
    columns += [f"grouping({x}) AS {absent_column(x)}" for x in attributes.values()]
    return con.sql(f"""
        SELECT {", ".join([*columns, "i"])}, bool_or(micro) AS micro, count(value) AS n,
            avg(value) AS mean, var_pop(value) AS variance, min(value) AS least,
            (avg(value ** 3) - 3 * avg(value) * avg(value ** 2) + 2 * avg(value) ** 3)
                / nullif(var_pop(value) ** 1.5, 0) AS skewness,
            max(value) AS most, sum(weighted) AS total, sum(weight) AS weights,
            sum(query_weight) AS query_weights, sum(query_weight ** 2) AS query_squares,
            count(i) AS queries, count_if(undefined) AS undefined, count_if(missing) AS missing
        FROM counted GROUP BY GROUPING SETS ({grouping_sets(meta, attributes)})""").pl()


def in_parts(result, parts, interval="auto"):
    """The summary of a result whose queries lie in several parts."""
    rows = result.frame().with_row_index("n").with_columns(n=pl.col("n") * 13 % parts)
    frames = [frame.drop("n") for frame in rows.partition_by("n", maintain_order=True)]
    moments = add_values([Result(result.meta, values=frame) for frame in frames])
    with duckdb.connect() as con:
        con.register("moments", moments)
        return summarise(con, result.meta, interval, 0.95, "moments")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("run", "options"),
    [
        (RUN, {}),
        (RUN, {"by": [["part"], ["part", "hour"]], "interval": "t"}),
        ({"one": RUN, "two": OTHER}, {"by": "part"}),
        (OTHER, {"missing": "skip", "by": "hour"}),
        (OTHER, {"undefined": "zero", "interval": None}),
    ],
)
def test_means_of_parts_are_those_of_all(run, options):
    metrics = ["nDCG@3", "AP", "P@3", "RR", "microR@3"]
    result = rankql.evaluate(run, QRELS, metrics, attributes=QUERIES, **options)
    for parts in (1, 5):
        summary = in_parts(result, parts, result.interval)
        assert_frame_equal(summary, result.means[summary.columns], rel_tol=0, abs_tol=1e-12)


def test_values_that_do_not_differ_have_no_variance():
    """Sums of squares would leave one, of what is lost in the last digits."""
    values = pl.DataFrame({"query": range(1000), "AP": 0.1}).with_columns(AP=pl.col("AP") + 0.2)
    meta = rankql.evaluate(RUN, QRELS, "AP").meta
    result = Result(meta, values=values.with_columns(pl.lit(False).alias(MISSING)))
    (row,) = in_parts(result, 7).rows(named=True)
    assert row["mean"] == pytest.approx(0.3, abs=1e-16)
    share = 0.025 ** (1 / 1000)
    assert (row["lo"], row["hi"]) == pytest.approx((0.3 * share, 1 - 0.7 * share), abs=1e-15)


def test_weighted_means_of_parts_have_no_interval():
    options = {"attributes": QUERIES, "by": "part", "weight": "traffic"}
    result = rankql.evaluate(RUN, QRELS, ["AP", "microP@3"], **options)
    summary = in_parts(result, 4)
    without = result.means[summary.columns].with_columns(
        pl.lit(None, pl.Float64).alias("lo"), pl.lit(None, pl.Float64).alias("hi"),
        pl.lit(False).alias(SKEWED), pl.lit(None, pl.Float64).alias(ERROR),
    )  # fmt: skip
    assert_frame_equal(summary, without, rel_tol=0, abs_tol=1e-12)


@pytest.mark.spark
def test_a_result_whose_values_are_elsewhere(tmp_path):
    """It has the means, and says how to get the values where these are needed."""
    from rankql.spark import SparkResult

    ours = rankql.evaluate(RUN, QRELS, ["AP", "RR"], attributes=QUERIES, by="part")
    means = in_parts(ours, 3)
    about = {"columns": ours.columns, "notes": ours.notes, "sql": ours.sql}
    result = SparkResult(meta=ours.meta, **about, means=means, values=None)
    assert repr(result) == repr(ours) and result.to_dict().keys() == ours.to_dict().keys()
    assert result["AP"] == pytest.approx(ours["AP"], abs=1e-12) and [*result] == ["AP", "RR"]
    result.save(tmp_path / "means.csv")
    for use in (
        lambda: rankql.compare({"one": result, "two": ours}),
        lambda: rankql.gate(result, baseline=ours, max_drop="AP:0.1"),
        lambda: rankql.combine([result]),
        lambda: rankql.associate(result, QUERIES, on="query"),
    ):
        with pytest.raises(RankqlError, match=r"are in Spark. Pass result.collect\(\)"):
            use()
