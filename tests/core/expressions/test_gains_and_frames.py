"""What the other tests do not go through: gains, ranked(), frames, parameters, wide scores."""

import math
import re

import duckdb
import numpy
import pandas
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.core.base.errors import Question
from support import calls, metric_engines
from support.parameters import cycled, few


def fetch(query, *parameters):
    return metric_engines.connection().execute(query, *parameters).fetchall()


def test_exp2_gain_is_2_to_the_grade_minus_1():
    expected = pytest.approx([None, -0.75, -0.5, 0.0, 2**0.5 - 1, 1.0, 7.0])
    rels = [None, -2, -1, 0, 0.5, 1, 3]
    rows = fetch(f"SELECT exp2_gain(unnest({metric_engines.literal(rels)}))")
    assert [value for (value,) in rows] == expected
    values = pl.DataFrame({"rel": rels}, strict=False).select(rankql.exp2_gain("rel"))
    assert values.to_series().to_list() == expected and values.dtypes == [pl.Float64]
    assert fetch("SELECT typeof(exp2_gain(2::TINYINT)), exp2_gain(2::TINYINT)") == [("DOUBLE", 3.0)]


def test_discounted_gain_halves_a_promoted_item():
    rows = {"query": 1, "item": ["a", "b"], "rel": [2, 1], "pos": [1, 2], "factor": [0.5, None]}
    frame = pl.DataFrame(rows)
    formula = "dcg(discounted_gain(rel, factor), pos, 10) / nullif(idcg(rel, pos, 10), 0)"
    promoted = rankql.dcg(rankql.discounted_gain(), k=10) / rankql.idcg(k=10).replace(0, None)
    value = pytest.approx(1 - 1 / (2 + 1 / math.log2(3)))
    result = rankql.evaluate(frame, metrics=[f"promoted = {formula}", "nDCG@10"])
    assert result["promoted"] == value and result["nDCG@10"] == 1
    assert frame.select(promoted).item() == value
    useless = frame.with_columns(rel=0)
    assert useless.select(promoted).item() is None
    undefined = rankql.evaluate(useless, metrics=f"promoted = {formula}")
    assert undefined["promoted"] is None and undefined.summary["undefined"][0] == 1
    with pytest.raises(rankql.RankqlError, match="ratio is nan for query 1"):
        rankql.evaluate(useless, metrics="ratio = dcg(rel, pos) / idcg(rel, pos)")


@pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan"), float("inf"), "1"])
def test_factors_above_0_and_at_most_1(factor):
    words = "a number, not text" if factor == "1" else f"above 0 and at most 1, not {factor}"
    frame = pl.DataFrame({"rel": [1], "factor": [factor]})
    calls.assert_both_refuse("discounted_gain(rel, factor)", frame, f"factor must be {words}")


# ranked

WITHIN = {"a": 3, "b": 2, "c": 1, "d": None, "9": 2, "10": 3, "B": 1}
WHOLE = {"a": 6, "b": 5, "c": 4, "d": None, "9": 2, "10": 3, "B": 1}
SCORES = {"user": [*"uuuuvvv"], "item": [*WITHIN], "score": [1, 3, 3, None, 5, 5, math.inf]}
RANKED = pl.DataFrame(SCORES | {"more": range(7)}, strict=False)
NAMED = RANKED.select(q="user", **{"the item": "item"}, s="score")


def ranked_in_sql(frame, **options):
    given = "".join(f", {name} := {metric_engines.literal(x)}" for name, x in options.items())
    return calls.connected(frame).sql(f"FROM ranked('input_rows'{given})").pl()


RANKED_BY = {
    "sql": ranked_in_sql,
    "polars": rankql.ranked,
    "lazy": lambda x, **more: rankql.ranked(x.lazy(), **more).collect(engine="streaming"),
}


@pytest.mark.parametrize("ranked", RANKED_BY.values(), ids=RANKED_BY)
def test_ranked_numbers_positions(ranked):
    """pos by score descending, then by the item's text; NULL without a score; all columns stay."""
    result = ranked(RANKED, query="user")
    assert result.columns == ["user", "item", "score", "more", "pos"]
    assert dict(result.select("item", "pos").rows()) == WITHIN
    if ranked != ranked_in_sql:
        assert result.drop("pos").rows() == RANKED.rows(), "the rows stay as they stand"
    assert dict(ranked(RANKED, query=None).select("item", "pos").rows()) == WHOLE
    result = ranked(NAMED, query="q", item="the item", score="s")
    assert dict(result.select("the item", "pos").rows()) == WITHIN


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"score": 1.0, "pos": 1}, {}, "has a column 'pos' already"),
        ({"score": math.nan}, {}, "score must be a number, not nan"),
        ({"score": "1"}, {}, "score must be a number, not text"),
        ({"score": 1.0}, {"score": "points"}, "points"),
    ],
)
def test_ranked_refuses(columns, options, message):
    frame = pl.DataFrame({"query": [1], "item": "a"} | columns)
    for ranked in RANKED_BY.values():
        with pytest.raises((duckdb.Error, RankqlError), match=message):
            ranked(frame, **options)


# frames

ROWS = [("a", 1, 0, 1), ("a", 1, 1, 2), ("b", 1, 3, 1), ("b", 2, 0, 2), ("b", 2, 2, 3)]
FRAME = pl.DataFrame(ROWS, schema=["user", "shop", "rel", "pos"], orient="row")


def test_pipe_has_a_row_per_user_and_stays_lazy():
    result = FRAME.select("user", "rel", "pos").pipe(rankql.ndcg)
    lazy = FRAME.lazy().pipe(rankql.ndcg)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema() == result.schema == {"user": pl.String, "ndcg": pl.Float64}
    for frame in (result, lazy.collect(engine="streaming")):
        assert dict(frame.rows()) == pytest.approx({"a": 0.6309298, "b": 0.9385575}, abs=1e-6)


def test_pipe_takes_names_expressions_and_keys():
    other = FRAME.rename({"rel": "grade", "pos": "rank", "user": "query"})
    plain = FRAME.pipe(rankql.ndcg, by=["user", "shop"], k=2).sort("user", "shop")
    assert plain.columns == ["user", "shop", "ndcg"]
    result = other.pipe(rankql.ndcg, "grade", "rank", by=["query", "shop"], k=2)
    assert result.sort("query", "shop").rows() == plain.rows()
    doubled = FRAME.pipe(rankql.cg, pl.col("rel") * 2, "pos", by="user")
    assert dict(doubled.rows()) == {"a": 2, "b": 10}
    whole = FRAME.filter(user="a").pipe(rankql.ndcg, by=None)
    assert whole.columns == ["ndcg"] and whole.height == 1


def test_pipe_names_a_missing_column():
    with pytest.raises(rankql.RankqlError, match="rel"):
        FRAME.drop("rel").pipe(rankql.ndcg)
    with pytest.raises(rankql.RankqlError, match="person"):
        FRAME.lazy().pipe(rankql.ndcg, by="person").collect()
    turns = FRAME.rename({"user": "dialog", "shop": "turn"})
    with pytest.raises(RankqlError, match=r"by=\['...', '...'\] for a key of two columns"):
        turns.pipe(rankql.ndcg)
    turns = turns.rename({"dialog": "query_id", "turn": "qid"})
    with pytest.raises(Question, match=r"by='qid'\n    by=\['query_id', 'qid'\]") as asked:
        turns.pipe(rankql.ndcg)
    assert turns.pipe(rankql.ndcg, **asked.value.calls[-1], k=2).width == 3


# wide scores, items of other types


@few(2)("kind", ["BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(18,0)"])
def test_whole_scores_above_2_to_the_53_are_distinguished(kind):
    low, high = 2**53, 2**53 + 1
    rows = f"(VALUES (0, {low}::{kind}, 'b'), (1, {high}::{kind}, 'a')) t(rel, score, item)"
    score = pl.Series([low, high]).cast(metric_engines.TYPES.get(kind, pl.Decimal(18, 0)))
    frame = pl.DataFrame({"rel": [0, 1], "score": score, "item": ["b", "a"]})
    for ties in ("item", "expected"):
        call = f"rr_by_score(rel, score, item, ties := '{ties}')"
        assert fetch(f"SELECT {call} FROM {rows}") == [(1,)]
        assert calls.in_polars(call, frame) == 1


@few(2)("kind", ["TINYINT", "BIGINT", "UBIGINT", "VARCHAR"])
def test_items_of_any_type_are_compared_as_text(kind):
    item = pl.Series([10, 9]).cast(metric_engines.TYPES[kind])
    frame = pl.DataFrame({"rel": [0, 1], "score": [1.0, 1.0], "item": item})
    assert calls.both("rr_by_score(rel, score, item)", frame) == (1, 1)


@few(2)(
    ("key", "metric"),
    cycled(
        ["query_id", "qid", "query", "topic", "Session-ID", "user"],
        [rankql.ndcg, rankql.ndcg_by_score, rankql.ap_by_score, rankql.kendall_tau_b, rankql.rmse],
    ),
)
def test_a_frame_is_grouped_by_the_column_of_its_rankings(key, metric):
    rows = {"rel": [1, 0, 0, 2], "score": [2, 1, 2, 1], "pos": [1, 2, 1, 2], "item": list("abab")}
    frame = pl.DataFrame({key: [1, 1, 2, 2]} | rows)
    if key in ("query_id", "qid", "query", "topic"):  # then a user is an attribute
        frame = frame.with_columns(user=pl.lit(7), session_id=pl.lit(8))
    expected = frame.pipe(metric, by=key).sort(key)
    assert expected.columns == [key, metric.__name__] and len(expected) == 2
    assert frame.pipe(metric).sort(key).equals(expected)
    assert frame.lazy().pipe(metric).sort(key).collect().equals(expected)
    assert pl.DataFrame(frame.to_pandas().pipe(metric)).sort(key).equals(expected)


def test_micro_ratings_weigh_each_rating_alike():
    """One user rated four items, another one: each user weighs the same, or each rating."""
    rows = {"user": [1, 1, 1, 1, 2], "item": [*"abcda"], "rel": [5, 4, 3, 1, 2], "traffic": 1}
    rated = pl.DataFrame(rows).with_columns(score=pl.Series([4.0, 4.0, 3.0, 2.0, 5.0]))
    rated = pl.concat([rated, rated.tail(1).with_columns(item=pl.lit("z"), rel=None)])
    options = {"query": "user", "interval": None}
    names = ["MSE", "microMSE", "MAE", "microMAE", "RMSE", "microRMSE"]
    result = rankql.evaluate(rated, metrics=names, **options)
    one, overall = math.sqrt(1 / 2), math.sqrt(11 / 5)  # of all rows
    expected = [(2 / 4 + 9) / 2, 11 / 5, (2 / 4 + 3) / 2, 5 / 5, (one + 3) / 2, overall]
    assert [result[name] for name in names] == pytest.approx(expected)
    parts = [rankql.evaluate(x, metrics="microRMSE", **options) for _, x in rated.group_by("user")]
    assert rankql.combine(parts)["microRMSE"] == pytest.approx(overall)
    weighted = rated.with_columns(traffic=pl.col("user"))
    result = rankql.evaluate(weighted, metrics="microRMSE", weight="traffic", **options)
    assert result["microRMSE"] == pytest.approx(math.sqrt((2 + 2 * 9) / (4 + 2)))


def test_a_frame_without_positions_is_ranked_by_its_score():
    frame = pl.DataFrame({"query": ["a"], "item": ["x"], "rel": [1], "score": [2.0]})
    for function in ("ndcg", "ap"):
        with pytest.raises(rankql.RankqlError, match=r"Fill in:\n    pos='\.\.\.'\n"):
            frame.pipe(getattr(rankql, function))
        assert frame.pipe(getattr(rankql, f"{function}_by_score"))[f"{function}_by_score"][0] == 1


# A frame of pandas in, a frame of pandas out, with the values of polars

COLUMNS = {"user": [*"aabb"], "item": [*"xyxy"], "rel": [0, 2, 1, 0], "pos": [1, 2, 1, 2]}
COLUMNS |= {"score": [0.5, 0.5, 1.0, None], "event": ["view", "buy", "view", "view"]}
EVENT_ROWS = pl.DataFrame(COLUMNS | {"time": [1, 2, 3, 4]})
EVENTS = EVENT_ROWS.to_pandas().astype({"score": "Float64"}).set_index([[3, 3, 5, 9]])


@few(3)(
    "function, options",
    [
        (rankql.ndcg, {"by": "user"}),
        (rankql.ndcg, {"by": ["user"], "k": 1}),
        (rankql.precision_at, {"k": 1, "by": pl.col("user")}),
        (rankql.gini, {"by": None, "catalogue": "shown"}),
        (rankql.tally, {}),
        (rankql.consensus, {"by": "user"}),
        (rankql.grade_events, {"grades": {"view": 1, "buy": 3}}),
    ],
)
def test_pandas_in_pandas_out(function, options):
    result = EVENTS.pipe(function, **options)
    assert isinstance(result, pandas.DataFrame)
    expected = EVENT_ROWS.pipe(function, **options)
    assert_frame_equal(pl.from_pandas(result), expected, check_row_order=False, check_dtypes=False)


@pytest.mark.parametrize(
    "function, column", [(rankql.ranked, "pos"), (rankql.leave_one_out, "split")]
)
def test_a_column_is_added_to_the_frame(function, column):
    """Index and other columns stay, also those that polars cannot read."""
    frame = EVENTS.drop(columns="pos").assign(mixed=[1, "a", None, {}])
    result = frame.pipe(function)
    assert result.drop(columns=column).equals(frame)
    expected = EVENT_ROWS.drop("pos").pipe(function)[column].to_list()
    assert [None if pandas.isna(value) else value for value in result[column]] == expected
    with pytest.raises(RankqlError, match=f"has a column '{column}' already: drop or rename it"):
        result.drop(columns="mixed").pipe(function)


def test_nan_of_pandas_is_an_unjudged_item():
    """As in evaluate; NaN of polars is refused."""
    missing = EVENTS.assign(rel=[math.nan, 2, 1, math.nan])
    for grade in ("rel", pl.col("rel") * 2):
        values = missing.pipe(rankql.judged_at, grade, by="user").set_index("user")
        assert values["judged_at"].to_dict() == {"a": 0.5, "b": 0.5}
    result = rankql.evaluate(missing, metrics="nDCG", query="user", pos="pos")
    expected = [*result.per_query.sort("user")["nDCG"]]
    assert [*missing.pipe(rankql.ndcg, by="user").sort_values("user")["ndcg"]] == pytest.approx(
        expected
    )
    with pytest.raises(RankqlError, match="rel must be a finite number, not nan"):
        pl.from_pandas(missing, nan_to_null=False).pipe(rankql.ndcg, by="user")


def test_other_frames_are_read_as_arrow():
    """A table of pyarrow and a relation of DuckDB give a frame of polars."""
    rows, con = EVENT_ROWS.to_arrow(), duckdb.connect()
    expected = EVENT_ROWS.pipe(rankql.ndcg, by="user", k=2).sort("user")
    for frame in (rows, rows.to_reader(), con.sql("FROM rows")):
        assert rankql.ndcg(frame, by="user", k=2).sort("user").equals(expected)


@few(1)("kind", [pl.Enum(["0", "1", "2"]), pl.Categorical])
def test_text_in_a_frame_is_refused_by_its_type(kind):
    """Whatever the engine: polars may cast it, which fails, before its values are checked."""
    rows = EVENT_ROWS.with_columns(pl.col("rel", "pos").cast(pl.String).cast(kind))
    for frame in (rows, rows.lazy()):
        for metric, name in ((rankql.ndcg, "rel"), (rankql.dcg, "rel"), (rankql.rmse, "rel")):
            with pytest.raises(RankqlError, match=f"^{name} must be a number, not text. Cast it"):
                frame.pipe(metric, by="user")
        with pytest.raises(RankqlError, match=r"^pos must be a number, not text. Cast it"):
            frame.pipe(rankql.cg, pl.lit(1), by="user")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: rankql.ndcg([1, 2]), "ndcg takes columns or a frame, not a list: pl.DataFrame("),
        (lambda: rankql.ap(COLUMNS, by="user"), "ap takes columns or a frame, not a dict: pl.Data"),
        (lambda: rankql.rr("rel", by="user"), "by= needs a frame as the first argument: df.pipe("),
        (lambda: EVENT_ROWS.pipe(rankql.list_ndcg, by="user"), "list_ndcg takes columns, not a f"),
    ],
)
def test_rows_that_are_no_frame_have_a_call(call, expected):
    with pytest.raises(RankqlError, match=f"^{re.escape(expected)}"):
        call()


@few(2)(
    "kind", [list, pl.Series, numpy.array, pandas.Series], ids=["list", "polars", "numpy", "pandas"]
)
def test_the_line_that_arrays_and_lists_are_told_runs(kind):
    rel, pos, score = (kind([*map(float, x)]) for x in ([0, 2, 1], [1, 2, 3], [3, 2, 1]))
    for metric, args in ((rankql.ndcg, [rel, pos]), (rankql.rmse, [rel, score])):
        with pytest.raises(RankqlError) as refused:
            metric(*args)
        line = str(refused.value).partition(": ")[2]
        found = eval(line, {"pl": pl, "rankql": rankql, "rel": rel, "pos": pos, "score": score})
        assert found.row(0)[-1] > 0


def test_wrong_frames_are_refused():
    with pytest.raises(RankqlError, match="No column 'usr'"):
        EVENTS.pipe(rankql.ndcg, by="usr")
    with pytest.raises(RankqlError, match="pos must be a whole number from 1, not nan"):
        EVENTS.assign(pos=[1, None, 1, 2]).pipe(rankql.ndcg, by="user")
    with pytest.raises(RankqlError, match="rel must be a finite number, not nan"):
        EVENTS.assign(rel=0).pipe(rankql.ndcg, pl.col("rel") / 0, by="user")
    with pytest.raises(RankqlError, match=r"^rel, pos, user cannot be read: .*Cast them first"):
        EVENTS.assign(rel=[1, "a", 2.5, {}]).pipe(rankql.ndcg, by="user")
    with pytest.raises(
        RankqlError, match=r"^rows must be a frame of polars or pandas, not a Table"
    ):
        rankql.ranked(EVENT_ROWS.to_arrow())
