"""Input easily got wrong: NULL items, literal grades, text, options where nothing is relevant."""

import duckdb
import polars as pl
import pytest

import rankql
from rankql.errors import database_message
from support import calls, metric_engines
from support.parameters import slow_except

SQL_ERRORS = [
    # What is wrong is refused also where nothing is relevant, so that no value depends on it.
    ("ap(rel, CASE WHEN pos > 1 THEN pos END, denominator := 'x')", "denominator must be"),
    ("hit_at_by_score(rel, pos, pos, ties := 'x')", "ties must be"),
    ("rr_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("f1_at_by_score(rel, pos, pos, k := 0)", "k must be a whole number from 1"),
    ("list_ap([0], 0)", "k must be a whole number from 1"),
    ("list_ap([0], denominator := 'x')", "denominator must be"),
    ("list_rr([]::INT[], 0)", "k must be a whole number from 1"),
    ("list_err([0], max_rel := 3, p := 9)", "p must lie between 0 and 1, not 9"),
    # A list is checked also where `ideal` stands for the judged items.
    ("list_hit_at(['nan'::DOUBLE], ideal := [0])", "rel must be a finite number, not nan"),
    ("list_idcg(['nan'::DOUBLE], ideal := [1])", "rel must be a finite number, not nan"),
    ("list_err([9], max_rel := 3, ideal := [9, 0])", "rel must not exceed max_rel: 9"),
    # Text is never read as a number.
    ("list_ndcg('[1, 2]')", "rel must be a number, not text"),
    ("list_ndcg([1, 0], ideal := '[3, 2]')", "ideal must be a list of grades, not [3, 2]"),
    ("list_ndcg(['1', '0']::VARCHAR[2])", "rel must be a number, not text"),
    ("ndcg(rel::VARCHAR::ENUM('0'), pos)", "rel must be a number, not text"),
    ("ndcg(rel::JSON, pos)", "rel must be a number, not text"),
    ("err(rel, pos, max_rel := 'x')", "max_rel must be a finite number above 0, not x"),
    ("rbp(rel, pos, p := 0.5, max_rel := '10')", "max_rel must be a finite number above 0, not 10"),
    ("list_dcg([1, 0], base := 'e')", "base must be a finite number above 1, not e"),
    ("dcg(rel, pos, discounts := ['1', '2'])", "discounts must be a list of numbers, not [1, 2]"),
    ("idcg(pos, NULL, discounts := ['a'])", "discounts must be a list of numbers, not [a]"),
    ("list_dcg([rel, rel], discounts := ['1'])", "discounts must be a list of numbers, not [1]"),
    # An option of another type than its other values.
    ("list_ndcg([1], ideal := 3)", "ideal must be a list of grades, not 3"),
    ("ndcg(rel, pos, ideal := 3)", "ideal must be 'judged' or 'retrieved', not 3"),
    ("ndcg(rel, pos, negative := true)", "negative must be 'zero' or 'keep', not true"),
    ("list_ap([1], denominator := 2)", "denominator must be 'min', 'R', 'found' or 'k', not 2"),
    (
        "novelty(5, users := 1, normalized := true)",
        "popularity must not exceed users: 5 is above 1",
    ),
    # DuckDB drops sums over a constant NULL.
    ("ndcg('inf'::DOUBLE, NULL)", "rel must be a finite number, not inf"),
    ("ndcg(rel::VARCHAR, NULL::INT, 2)", "rel must be a number, not text"),
    (
        "kendall_tau_distance(rel, nullif(pos, 1), normalized := 'no')",
        "normalized must be true or false",
    ),
    # The name of the column instead of the column: both rankings would be one.
    ("micro_precision_at(rel, pos, 1, query := 'user')", "query must identify one ranking"),
]


@pytest.mark.few(12)
@pytest.mark.parametrize(("call", "message"), SQL_ERRORS)
def test_sql_refuses(call, message):
    query = f"SELECT {call} FROM (VALUES (0, 1), (0, 2), (0, 1)) AS t (rel, pos)"
    with pytest.raises(duckdb.ConversionException) as error:
        metric_engines.connection().sql(query).fetchall()
    line = database_message(error.value)
    assert line.startswith(message) and "\n" not in line


def test_an_item_that_is_null_stands_last_of_its_peers():
    rows = [(3, 0.5, "a"), (0, 0.5, None), (2, 0.5, "c"), (1, 0.1, "z")]
    frame = pl.DataFrame(rows, schema=["rel", "score", "item"], orient="row")
    for k, expected in ((1, 2), (2, 5), (3, 5), (4, 6)):
        assert calls.both(f"cg_by_score(rel, score, item, {k})", frame) == (expected, expected)
    grades = [2, 3, 0, 1]
    query = "SELECT rel FROM ranked('input_rows', query := NULL) ORDER BY pos"
    assert [rel for (rel,) in calls.connected(frame).sql(query).fetchall()] == grades
    assert rankql.ranked(frame, query=None).sort("pos")["rel"].to_list() == grades


@pytest.mark.parametrize("by", ["_rel", "_pos", "_dcg", "_counters", "_other"])
def test_group_columns_of_any_name(by):
    frame = pl.DataFrame({by: [7, 7], "rel": [0, 1], "pos": [1, 2]})
    assert frame.pipe(rankql.ndcg, by=by)["ndcg"].round(4).to_list() == [0.6309]
    with pytest.raises(rankql.RankqlError, match="by= contains 'ndcg'"):
        frame.rename({by: "ndcg"}).pipe(rankql.ndcg, by="ndcg")


FRAME = pl.DataFrame({"group": [1, 1, 1, 2], "rel": [1, 0, 1, 0], "pos": [1, 2, 3, 1]})
FRAME = FRAME.with_columns(one=1, view=pl.lit("view"), sets=pl.lit(["a"]))
# A column, the literal that holds the same values, and a call with either.
LITERALS = [
    ("one", pl.lit(1), lambda x: rankql.exposure_disparity("pos", x)),
    ("one", pl.lit(1), lambda x: rankql.expected_exposure_loss(x, "pos")),
    ("sets", pl.lit(pl.Series([["a"]])), rankql.alpha_ndcg),
    ("one", pl.lit(1), rankql.sign_test),
    ("one", pl.lit(1), lambda x: rankql.debiased(x, x)),
    ("view", pl.lit("view"), lambda x: rankql.graded(x, {"view": 1}, how="sum")),
    ("one", pl.lit(1), lambda x: rankql.weighted_mean("rel", x)),
    ("one", pl.lit(1), lambda x: rankql.ndcg(x, "pos")),
    ("one", pl.lit(1), lambda x: rankql.micro_precision_at("rel", "pos", 3, query=x)),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("column", "literal", "call"), LITERALS)
def test_literals_have_a_value_in_every_row(column, literal, call):
    by_column, by_literal = call(column).alias("value"), call(literal).alias("value")
    assert FRAME[:3].select(by_column).rows() == FRAME[:3].select(by_literal).rows()
    for engine in ("in-memory", "streaming"):
        grouped = FRAME.lazy().group_by("group", maintain_order=True)
        one, other = (grouped.agg(x).collect(engine=engine) for x in (by_column, by_literal))
        assert one.equals(other)


@pytest.mark.parametrize("k", [2**31, 2**32, 2**52])
def test_large_numbers_do_not_overflow(k):
    assert FRAME.select(
        rankql.micro_precision_at("rel", "pos", k, query="group").alias("p"),
        rankql.micro_precision_at("rel", "pos", k, query="group", denominator="min").alias("min"),
        rankql.micro_f1_at("rel", "pos", k, query="group").alias("f1"),
        rankql.catalogue_coverage("pos", k).alias("coverage"),
    ).row(0) == pytest.approx((1 / k, 1, 4 / (2 * k + 2), 3 / k))


def test_equal_scores_of_equal_items_are_in_the_best_order():
    """As in SQL, whatever the order of the rows."""
    for rel in ([0, 1], [1, 0]):
        rows = {"rel": [*rel, 0], "score": [1.0, 1.0, 0.5], "item": ["a", "a", "b"]}
        assert calls.both("ndcg_by_score(rel, score, item)", pl.DataFrame(rows)) == (1, 1)


# Calls in which another value stands where the position or the item belongs, such as the cutoff.
FORGOTTEN = [
    *(f"{metric}(rel, {{}})" for metric in ("ndcg", "dcg", "cg", "rr", "arhr", "ap", "judged_at")),
    *(f"{metric}_at(rel, {{}})" for metric in ("precision", "recall", "f1", "hit")),
    *(f"{metric}(rel, {{}})" for metric in ("bpref", "r_precision", "kendall_tau_b")),
    *("err(rel, {}, max_rel := 3)", "rbp(rel, {}, p := 0.8)", "tau_ap(pos, {})"),
    *("kendall_tau_distance(rel, {})", "duplicate_share(item, {})", "alpha_ndcg(sets, {})"),
    *(
        f"{metric}_by_score(rel, score, {{}})"
        for metric in ("ndcg", "ap", "rr", "kendall_tau_b", "precision_at")
    ),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "call",
    slow_except(FORGOTTEN, "ndcg(rel, {})", "alpha_ndcg(sets, {})", "ap_by_score(rel, score, {})"),
)
def test_the_position_or_item_is_a_column_that_distinguishes_items(call):
    rows = {"rel": [1, 0, 0], "pos": [1, 2, 3], "score": [0.9, 0.8, 0.7], "item": ["a", "b", "c"]}
    three = pl.DataFrame(rows | {"sets": [["s"]] * 3, "ten": 10, "places": [10, 11, 12]})
    for literal in ("10", "3"):
        calls.assert_both_refuse(call.format(literal), three[:1], "(pos|item) must be a column")
    pattern = ".*(several items share|the same for two|must distinguish)"
    calls.assert_both_refuse(call.format("ten"), three, pattern)
    for argument, frame in (("ten", three[:1]), ("places", three)):
        in_sql, in_polars = calls.both(call.format(argument), frame)
        assert in_sql == pytest.approx(in_polars)
