"""The fast ways of ndcg and idcg in polars equal the plain form to 1e-12, and give way to it.

The plain form sorts the grades of each ranking, as the definition does.
"""

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankql
from rankql.expressions import gain, ideal
from support import definitions, metric_engines, strategies


def of_frame(metric, frame, options):
    return frame.pipe(metric, by="user", **options)


def of_lazy(engine, source=pl.DataFrame.lazy):
    def run(metric, frame, options):
        return source(frame).pipe(metric, by="user", **options).collect(engine=engine)

    return run


def of_columns(engine):
    def run(metric, frame, options):
        lazy = frame.lazy().group_by("user").agg(metric("rel", "pos", **options))
        return lazy.collect(engine=engine)

    return run


def elsewhere(frame):
    """A plan whose data is not in memory, as far as its first step tells."""
    return frame.lazy().map_batches(lambda rows: rows, schema=frame.schema)


WAYS = {
    "frame": of_frame,
    "lazy in memory": of_lazy("in-memory"),
    "lazy streaming": of_lazy("streaming"),
    "other data in memory": of_lazy("in-memory", elsewhere),
    "other data streaming": of_lazy("streaming", elsewhere),
    "agg in memory": of_columns("in-memory"),
    "agg streaming": of_columns("streaming"),
}
METRICS = [rankql.ndcg, rankql.idcg]
OPTIONS = st.fixed_dictionaries(
    {"k": strategies.CHOICES["k"]}, optional={"base": st.sampled_from([2, 10, math.e])}
)


def values(frame):
    return {row[0]: row[1] for row in frame.rows()}


def plain(metric, frame, options):
    """By the definition: every ranking is sorted."""
    define = getattr(definitions, metric.__name__)
    groups = frame.group_by("user").agg("rel", "pos").rows()
    expected = {user: define([*zip(rel, pos, strict=True)], **options) for user, rel, pos in groups}
    return {user: None if value is None else float(value) for user, value in expected.items()}


def assert_equal(metric, frame, options):
    expected = plain(metric, frame, options)
    for name, run in WAYS.items():
        got = values(run(metric, frame, options))
        assert got.keys() == expected.keys(), name
        wrong = {
            key: (got[key], value)
            for key, value in expected.items()
            if not metric_engines.same(got[key], value)
        }
        assert not wrong, (name, metric.__name__, options, wrong)


def table(rows, rel=pl.Int64, pos=pl.Int64):
    return pl.DataFrame(rows, {"user": pl.Int64, "rel": rel, "pos": pos}, orient="row")


def users(groups):
    return [(user, *row) for user, group in enumerate(groups) for row in group]


COUNTED = st.sampled_from([None, -2, 0, 0, 1, 2, 3, 4])
WHOLE = st.sampled_from([None, -3, 0, 1, 2, 4, 5, 9])
ANY = st.sampled_from([None, -1.5, -1, 0, 0.25, 1, 2.5, 3, 4, 4.5, 7, 1e9])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize(
    ("grades", "dtype"),
    [(COUNTED, pl.Int8), (COUNTED, pl.Float32), (WHOLE, pl.Int64), (ANY, pl.Float64)],
    ids=["counted", "counted floats", "whole", "any"],
)
@given(data=st.data())
def test_counted_and_other_grades_equal_the_definition(metric, grades, dtype, data):
    """Grades that are counted, those that are not, and rankings with both; NULLs; any k."""
    groups = data.draw(strategies.batches(strategies.rankings(grades)))
    assert_equal(metric, table(users(groups), dtype), data.draw(OPTIONS))


KEYS = {
    "integers": (pl.Int8, lambda user: user - 5),
    "unsigned": (pl.UInt64, lambda user: user + 2**63),
    "dates": (pl.Date, lambda user: user - 5),
    "times": (pl.Datetime("us"), lambda user: user - 5),
    "floats": (pl.Float64, lambda user: user / 2),
    "texts": (pl.String, lambda user: f"{user:03}"),
    "NULL first": (pl.Int64, lambda user: user or None),
}
SORTED = ["integers", "unsigned", "dates", "times"]


ORDERS = ["sorted", "descending", "last row first", "random"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KEYS)
def test_sorted_keys_of_large_groups_are_marked_and_change_no_value(kind, order):
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
    for chunks in (frame, pl.concat([frame[:7], frame[7:100], frame[100:]], rechunk=False)):
        assert_equal(rankql.ndcg, chunks, {"k": 10})
        marked = gain._mark_sorted(chunks, ["user"])["user"].flags["SORTED_ASC"]
        assert marked == (order == "sorted" and kind in SORTED)
    assert not frame["user"].flags["SORTED_ASC"]
    few = frame.group_by("user", maintain_order=True).head(gain.SMALL_GROUP - 1)
    assert not gain._mark_sorted(few, ["user"])["user"].flags["SORTED_ASC"]


def test_no_group_is_lost():
    """Groups without gain, where runs of a group meet and where keys are NULL."""
    keys = [None, 1, 1, 2, None, 3, 3, 1, 4]
    frame = pl.DataFrame({"user": keys, "rel": [0, 0, 2, 0, 0, 1, 0, 0, None]})
    frame = frame.with_columns(pos=pl.Series([1, 2, 1, 1, 2, 1, 2, 3, 1]))
    for run in WAYS.values():
        got = values(run(rankql.ndcg, frame, {}))
        assert got == {None: None, 1: 1.0, 2: None, 3: 1.0, 4: None}


@pytest.mark.parametrize(
    "keys",
    [
        [0.0, -0.0, math.nan, math.nan, None],
        ["a", "a", "b", "", None],
        [[1], [1], [], [None], None],
        [{"a": 1}, {"a": 1}, {"a": None}, {"a": 2}, None],
        [None] * 5,
    ],
    ids=["float", "text", "list", "struct", "null"],
)
@pytest.mark.parametrize("k", [None, 3])
def test_keys_are_whatever_polars_groups_by(keys, k):
    """Whatever polars can group by."""
    frame = pl.DataFrame({"user": keys, "rel": [0, 2, 1, 1, 3], "pos": [1, 2, 3, 4, 5]})
    want = frame.group_by("user").agg(rankql.ndcg("rel", "pos", k))["ndcg"].sort()
    for name, run in WAYS.items():
        got = run(rankql.ndcg, frame, {"k": k})["ndcg"].sort()
        assert all(map(metric_engines.same, got.to_list(), want.to_list())), name


@pytest.mark.parametrize("way", ["frame", "lazy in memory", "agg in memory"])
def test_keys_of_objects(way):
    """polars cannot join them."""
    frame = pl.DataFrame({"rel": [1, 0, 1], "pos": [1, 2, 1]})
    frame = frame.with_columns(user=pl.Series([1, 1, 2], dtype=pl.Object))
    assert WAYS[way](rankql.ndcg, frame, {"k": 10})["ndcg"].to_list() == [1, 1]


@pytest.mark.parametrize("k", [1, 100, 200, 1 << 40])
@pytest.mark.parametrize("pos", [pl.Int8, pl.UInt8, pl.Int64])
def test_cutoffs_beyond_the_type_of_the_positions(pos, k):
    """A cutoff that the type of the positions does not hold; the highest position of the type."""
    rows = [(1, 1, 127), (1, 3, 2), (2, 0, 1), (2, 2, 100), (3, 1, None)]
    assert_equal(rankql.ndcg, table(rows, pl.Int8, pos), {"k": k})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("k", [None, 10])
def test_only_data_in_memory_is_collected(k, engine, monkeypatch):
    """Data from elsewhere streams, in one pass."""
    frame, calls = table([(1, 1, 1), (1, 0, 11)]), []
    collect = pl.LazyFrame.collect

    def note(lazy, **options):
        calls.append((options.get("engine"), "JOIN" in lazy.explain()))
        return collect(lazy, **options)

    for source, want in ((frame.lazy(), [("streaming", k is not None)]), (elsewhere(frame), [])):
        calls.clear()
        value = source.pipe(rankql.ndcg, by="user", k=k)
        with monkeypatch.context() as patch:
            patch.setattr(pl.LazyFrame, "collect", note)
            collect(value, engine=engine)
        assert [call for call in calls if call[0] == "streaming"] == want


@pytest.mark.parametrize("source", [pl.DataFrame.lazy, elsewhere])
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


def noted(function, seen):
    """A function that makes an expression, of which `seen` gets how many values are computed."""

    def note(values):
        seen.append(len(values))
        return values

    return lambda *args: function(*args).map_batches(note, pl.Float64, is_elementwise=True)


def sorted_(frame, **options):
    """Whether the frame form had to sort."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gain, "ideal_by_sort", noted(gain.ideal_by_sort, seen))
        frame.lazy().pipe(rankql.ndcg, by="user", **options).collect(engine="in-memory")
    return bool(seen)


@pytest.mark.parametrize("rel", [5, 0.5, 1e300])
def test_other_grades_are_sorted(rel):
    counted = [(1, 1, 1), (1, 4, 2), (2, 0, 1)]
    assert not sorted_(table(counted, pl.Float64), k=1)
    frame = table([*counted, (1, rel, None)], pl.Float64)
    assert sorted_(frame, k=1)
    assert_equal(rankql.ndcg, frame, {"k": 1})


@pytest.mark.parametrize("rows", [(1 << gain.BITS) - 1, 1 << gain.BITS, 3 << gain.BITS])
def test_groups_beyond_a_counter_are_sorted(rows):
    """A group that a counter cannot hold falls back, one row less does not."""
    frame = table([(1, 1 + row % 4, None) for row in range(rows)] + [(1, 1, 1), (2, 1, 1)])
    large = rows >= (1 << gain.BITS) - 1
    assert sorted_(frame, k=10) == large
    assert not sorted_(frame.slice(1 + large * rows), k=10)
    assert_equal(rankql.ndcg, frame, {})
    assert_equal(rankql.ndcg, frame, {"k": 10})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_values_are_computed_once(engine):
    """The in-memory engine computes an expression once for each time that it is named."""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gain, "ideal_by_counts", noted(ideal.ideal_by_counts, calls))
        value = rankql.ndcg("rel", "pos", k=10)
    frame = table([(user, 1, 1) for user in range(7)])
    frame.lazy().group_by("user").agg(value).collect(engine=engine)
    assert calls == [7]


def test_the_expression_is_streamed():
    """The streaming engine runs the expression as a stream: nothing in it sorts groups."""
    lazy = pl.LazyFrame({"user": [1, 1, 2], "rel": [1, 2, 3], "pos": [1, 2, 1]})
    query = lazy.group_by("user").agg(rankql.ndcg("rel", "pos", k=10))
    if "maintain_order" not in ideal.ANY_ORDER:
        pytest.skip("polars < 1.39 cannot")
    plan = query.show_graph(engine="streaming", plan_stage="physical", raw_output=True)
    assert "in-memory-map" not in plan
