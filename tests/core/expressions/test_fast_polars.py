"""ndcg and idcg of polars count grades where they can: to 1e-12 what the definition sorts."""

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankql
from rankql.core.expressions import gain
from support import definitions, metric_engines, strategies
from support.parameters import cycled, few


def elsewhere(frame, note=lambda rows: rows):
    """A plan whose data is not in memory, as far as its first step tells."""
    return frame.lazy().map_batches(note, schema=frame.schema, streamable=True)


QUERIES = {
    "lazy": lambda metric, frame, options: frame.lazy().pipe(metric, by="user", **options),
    "other data": lambda metric, frame, options: elsewhere(frame).pipe(
        metric, by="user", **options
    ),
    "agg": lambda metric, frame, options: (
        frame.lazy().group_by("user").agg(metric("rel", "pos", **options))
    ),
}
FORMS = {"frame": lambda metric, frame, options: frame.pipe(metric, by="user", **options)} | {
    f"{name} {engine}": lambda *call, query=query, engine=engine: query(*call).collect(
        engine=engine
    )
    for name, query in QUERIES.items()
    for engine in ("in-memory", "streaming")
}


def assert_equal(metric, frame, options):
    """Every form has the value of the definition, which sorts every ranking."""
    define = getattr(definitions, metric.__name__)
    groups = frame.group_by("user").agg("rel", "pos").rows()
    expected = {user: define([*zip(rel, pos, strict=True)], **options) for user, rel, pos in groups}
    for name, run in FORMS.items():
        values = dict(run(metric, frame, options).rows())
        assert values.keys() == expected.keys(), name
        for user, value in expected.items():
            same = metric_engines.same(values[user], None if value is None else float(value))
            assert same, (name, metric.__name__, options, user, values[user], value)


def table(rows, rel=pl.Int64, pos=pl.Int64):
    return pl.DataFrame(rows, {"user": pl.Int64, "rel": rel, "pos": pos}, orient="row")


COUNTED = st.sampled_from([None, -2, 0, 0, 1, 2, 3, 4])
WHOLE = st.sampled_from([None, -3, 0, 1, 2, 4, 5, 9])
ANY = st.sampled_from([None, -1.5, -1, 0, 0.25, 1, 2.5, 3, 4, 4.5, 7, 1e9])
OPTIONS = st.fixed_dictionaries(
    {"k": strategies.CHOICES["k"]}, optional={"base": st.sampled_from([2, 10, math.e])}
)


@few(2)("metric", [rankql.ndcg, rankql.idcg], ids=lambda metric: metric.__name__)
@pytest.mark.parametrize(
    ("grades", "dtype"),
    [(COUNTED, pl.Int8), (COUNTED, pl.Float32), (WHOLE, pl.Int64), (ANY, pl.Float64)],
    ids=["counted", "counted floats", "whole", "any"],
)
@given(data=st.data())
def test_counted_and_other_grades_equal_the_definition(metric, grades, dtype, data):
    """Grades that are counted, those that are not, and rankings with both; NULLs; any k."""
    groups = data.draw(strategies.batches(strategies.rankings(grades)))
    rows = [(user, *row) for user, group in enumerate(groups) for row in group]
    assert_equal(metric, table(rows, dtype), data.draw(OPTIONS))


KEYS = {
    "integers": (pl.Int8, lambda user: user - 5),
    "unsigned": (pl.UInt64, lambda user: user + 2**63),
    "dates": (pl.Date, lambda user: user - 5),
    "floats": (pl.Float64, lambda user: user / 2),
    "texts": (pl.String, lambda user: f"{user:03}"),
}
ORDERS = ["sorted", "descending", "last row first", "random"]


@few(2)(("kind", "order"), cycled([*KEYS] * 3, [*ORDERS, "sorted"]))
def test_order_and_type_of_keys_change_no_value(kind, order):
    draw, (dtype, key) = random.Random(7), KEYS[kind]
    rows = [
        (key(user), draw.choice([None, 0, 1, 2, 3, 4]), place)
        for user in range(12)
        for place in draw.sample(range(1, 51), 20 + user)
    ]
    if order == "descending":
        rows.reverse()
    elif order == "last row first":
        rows.insert(0, rows.pop())
    elif order == "random":
        draw.shuffle(rows)
    frame = pl.DataFrame(rows, {"user": dtype, "rel": pl.Int32, "pos": pl.Int32}, orient="row")
    assert_equal(rankql.ndcg, frame, {"k": 10})
    chunks = pl.concat([frame[:7], frame[7:100], frame[100:]], rechunk=False)
    assert_equal(rankql.ndcg, chunks, {"k": 10})
    assert not frame["user"].flags["SORTED_ASC"], "the user's frame is as it was"


OTHER_KEYS = {
    "float": [0.0, -0.0, math.nan, math.nan, 2.0],
    "text": ["a", "a", "b", "", "é"],
    "list": [[1], [1], [], [None], [2]],
    "struct": [{"a": 1}, {"a": 1}, {"a": None}, {"a": 2}, {"a": 3}],
}


@few(4)("kind", OTHER_KEYS)
@pytest.mark.parametrize("k", [None, 3])
def test_keys_are_whatever_polars_groups_by(kind, k):
    rows = {"user": OTHER_KEYS[kind], "rel": [0, 2, 1, 1, 3], "pos": [1, 2, 3, 4, 5]}
    frame = pl.DataFrame(rows)
    expected = frame.group_by("user").agg(rankql.ndcg("rel", "pos", k))["ndcg"].sort()
    for name, run in FORMS.items():
        values = run(rankql.ndcg, frame, {"k": k})["ndcg"].sort()
        assert all(map(metric_engines.same, values.to_list(), expected.to_list())), name


@few(1)("form", ["frame", "lazy in-memory", "agg in-memory"])
def test_keys_of_objects(form):
    """polars cannot join them."""
    frame = pl.DataFrame({"rel": [1, 0, 1], "pos": [1, 2, 1]})
    frame = frame.with_columns(user=pl.Series([1, 1, 2], dtype=pl.Object))
    assert FORMS[form](rankql.ndcg, frame, {"k": 10})["ndcg"].to_list() == [1, 1]


@few(4)("k", [1, 100, 200, 1 << 40])
@pytest.mark.parametrize("pos", [pl.Int8, pl.UInt8, pl.Int64])
def test_cutoffs_beyond_the_type_of_the_positions(pos, k):
    """A cutoff that the type of the positions does not hold; the highest position of the type."""
    rows = [(1, 1, 127), (1, 3, 2), (2, 0, 1), (2, 2, 100), (3, 1, None)]
    assert_equal(rankql.ndcg, table(rows, pl.Int8, pos), {"k": k})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("k", [None, 10])
def test_data_from_elsewhere_is_read_once(k, engine):
    frame, heights = table([(1, 1, 1), (1, 0, 11)]), []
    value = elsewhere(frame, lambda rows: heights.append(rows.height) or rows)
    value = value.pipe(rankql.ndcg, by="user", k=k)
    assert heights == []
    assert value.collect(engine=engine)["ndcg"].to_list() == [1.0]
    assert sum(heights) == frame.height


@few(2)("source", [pl.DataFrame.lazy, elsewhere])
@pytest.mark.parametrize("k", [None, 2])
def test_wrong_positions_are_refused(source, k):
    """Two items at a position, also without gain, and positions below 1, also without grade."""

    def run(rows):
        return source(table(rows)).pipe(rankql.ndcg, by="user", k=k).collect()

    for rel in (0, 1, None, 9):
        others = [(1, 2, 1), (2, 1, 1), (2, 1, 7)]
        with pytest.raises(Exception, match="several items share a position"):
            run([*others, (1, rel, 1)])
        for pos in (0, -1, -2):
            with pytest.raises(Exception, match=f"pos must be a whole number from 1, not {pos}"):
                run([*others, (1, rel, pos)])
        assert k is None or run([*others, *[(1, rel, 3)] * 3]).height == 2


@few(3)("k", [51, 52, 53, None])
@pytest.mark.parametrize("twice", [1, 10, 51, 52, 53])
def test_a_position_that_repeats_is_refused_up_to_k(k, twice):
    """Up to k = 52, positions are bits of a Float64. Several rows carry to where it rounds."""
    others = [(1, 1, pos) for pos in range(1, 53) if pos != twice]
    for rows in ([(1, 0, 1), *[(1, 1, twice)] * 2], [*others, *[(1, 0, twice)] * 3]):
        ranking = table([*rows, (2, 1, 1), (2, 1, 7)])
        if k is None or twice <= k:
            with pytest.raises(rankql.RankqlError, match="several items share a position"):
                ranking.pipe(rankql.ndcg, by="user", k=k)
        else:
            assert ranking.pipe(rankql.ndcg, by="user", k=k).height == 2


@few(1)("rows", [(1 << gain.BITS) - 1, 1 << gain.BITS, 3 << gain.BITS])
def test_groups_as_large_as_a_counter_and_larger(rows):
    frame = table([(1, 1 + row % 4, None) for row in range(rows)] + [(1, 1, 1), (2, 1, 1)])
    for part in (frame, frame.slice(1)):
        assert_equal(rankql.ndcg, part, {"k": 10})
    assert_equal(rankql.ndcg, frame, {})


def test_the_expression_is_streamed():
    lazy = pl.LazyFrame({"user": [1, 1, 2], "rel": [1, 2, 3], "pos": [1, 2, 1]})
    query = lazy.group_by("user").agg(rankql.ndcg("rel", "pos", k=10))
    if "maintain_order" not in gain.ANY_ORDER:
        pytest.skip("polars < 1.39 cannot")
    plan = query.show_graph(engine="streaming", plan_stage="physical", raw_output=True)
    assert "in-memory-map" not in plan
