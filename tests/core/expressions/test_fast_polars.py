"""ndcg and idcg of polars count grades where they can: to 1e-12 what the definition sorts."""

import math
import random

import polars as pl
import pytest

import rankql
from rankql.core.expressions import gain
from support import definitions, metric_engines
from support.parameters import few


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


# Grades that are counted, those that are not, and any; with a type that holds them.
GRADES = [([None, -2, 0, 0, 1, 2, 3, 4], kind) for kind in (pl.Int8, pl.Float32, pl.Int32)]
GRADES += [([None, -3, 0, 1, 2, 4, 5, 9], pl.Int64)]
GRADES += [([None, -1.5, -1, 0, 0.25, 1, 2.5, 3, 4, 4.5, 7, 1e9], pl.Float64)]
KEYS = {
    pl.Int8: lambda user: user - 5,
    pl.UInt64: lambda user: user + 2**63,
    pl.Date: lambda user: user - 5,
    pl.Float64: lambda user: user / 2,
    pl.String: lambda user: f"{user:03}",
}
CUTOFFS = [None, 1, 2, 3, 10, 51, 52, 53, 100, 200, 1 << 40]
ORDERS = {
    "sorted": lambda draw, rows: rows,
    "descending": lambda draw, rows: rows[::-1],
    "last row first": lambda draw, rows: rows[-1:] + rows[:-1],
    "random": lambda draw, rows: draw.sample(rows, len(rows)),
}


@few(14)("seed", range(200))
def test_any_frame_equals_the_definition(seed):
    """Grades with gaps, ties and NULLs, any k and base, keys of any type in any order, chunks.

    Positions are up to the highest that their type holds, and k may be above it.
    """
    draw = random.Random(seed)
    grades, rel = GRADES[seed % len(GRADES)]
    pos = draw.choice([pl.Int8, pl.UInt8, pl.Int32, pl.Int64])
    key = draw.choice([*KEYS])
    rows = []
    for user in range(draw.choice([1, 4, 12])):
        places = draw.sample(range(1, 127), draw.randint(0, 30)) + draw.choice([[], [127]])
        places = [place for place in places if place < draw.choice([9, 51, 128])]
        some = draw.sample(grades, draw.randint(1, len(grades)))
        for place in [*places, *[None] * draw.choice([0, 1, 4])]:
            rows.append((KEYS[key](user), draw.choice(some), place))
    rows = ORDERS[draw.choice([*ORDERS])](draw, rows)
    frame = pl.DataFrame(rows, {"user": key, "rel": rel, "pos": pos}, orient="row")
    if draw.random() < 0.3:
        frame = pl.concat([frame[:7], frame[7:20], frame[20:]], rechunk=False)
    flags, more = frame["user"].flags, draw.choice([{}, {}, {"base": 10}, {"base": math.e}])
    options = {"k": draw.choice(CUTOFFS), **more}
    assert_equal(draw.choice([rankql.ndcg, rankql.idcg]), frame, options)
    assert frame["user"].flags == flags, "the user's frame is as it was"


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
