"""Splits by time: by hand, by definition, under any order of rows and any clock."""

import hashlib
from datetime import date, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import rankql
from rankql import harvested_propensity, leave_one_out, most_popular
from rankql.core.base.errors import Question
from support import metric_engines
from support.calls import assert_message, assert_table, assert_table_refused
from support.parameters import few
from support.questions import follow

NOON = datetime(2024, 5, 1, 12)


def at(days):
    return NOON + timedelta(days=days)


def history(rows):
    kinds = {"user": pl.String, "item": pl.String, "time": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def split(frame, test):
    """The rows; those at the given places are for the test."""
    return [
        {**row, "split": "test" if i in test else "train"}
        for i, row in enumerate(frame.rows(named=True))
    ]


HISTORY = history([
    ("a", "x", 1), ("a", "y", 3), ("a", "z", 2),
    ("b", "x", 5), ("b", "y", 5), ("b", "B", 5),  # md5 of 'b x' 7f9, 'b y' 23d, 'b B' 1aa
    ("c", "x", 9),  # nothing would be left
    ("d", "x", 1), ("d", "y", 2), ("d", "y", 2),  # equal rows stay together
])  # fmt: skip


# Of a the second x and z come again, of b the x at the time of the first one stays.
AGAIN = history([
    ("a", "x", 1), ("a", "y", 3), ("a", "x", 4), ("a", "z", 2), ("a", "z", 5),
    ("b", "x", 5), ("b", "x", 5), ("b", "y", 2), ("b", None, 6), ("b", None, 7),
])  # fmt: skip


def test_seen_items_are_found_by_the_columns_that_the_log_has():
    """Also in a lazy frame, and in pandas, whose index stays."""
    log = AGAIN.rename({"user": "customer_id", "item": "product_id"})
    expected = [0, 1, 3, 5, 6, 7, 8, 9]
    for frame in (log, log.lazy(), log.to_pandas()):
        rows = rankql.time_split(frame, since=3, seen="drop")
        rows = rows.collect() if isinstance(rows, pl.LazyFrame) else rows
        assert len(rows) == 8
    assert rows.index.to_list() == expected
    with pytest.raises(rankql.RankqlError, match="seen must be 'drop' or NULL, not keep"):
        rankql.leave_one_out(AGAIN, seen="keep")


ISO = ["2026-01-02T00:30:00+02:00", "2026-01-01T23:00:00Z", "2026-01-01", "2026-01-01 23:30"]
MIXED = [1600000000, 1600000200000, 1600000300]
TRAIN, TEST = "train", "test"


@few(4)(
    ("times", "options", "parts"),
    [
        # Text of ISO 8601 by its instants: an offset moves a time by hours.
        (ISO, {}, [TRAIN, TRAIN, TRAIN, TEST]),
        (ISO, {"since": datetime(2026, 1, 1, 23)}, [TRAIN, TEST, TRAIN, TEST]),
        (ISO[:3], {}, [TRAIN, TEST, TRAIN]),
        # Numbers of one unit are not refused, nor those that are no seconds since 1970.
        *((times, {}, [TRAIN, TRAIN, TEST])
          for times in ([1.0, 5e8, 1.6e12], [2e7, 1.6e9, 1.7e9], [1.6e9, 1e10, 4e11])),
        # Milliseconds and seconds become one unit as the message says.
        ([x // 1000 if x > 100000000000 else x for x in MIXED], {}, [TRAIN, TRAIN, TEST]),
    ],
)  # fmt: skip
def test_times_of_many_kinds_are_read(times, options, parts):
    log = pl.DataFrame({"user": 1, "item": [*"abcd"][: len(times)], "time": times})
    split = rankql.time_split if options else rankql.leave_one_out
    assert split(log, **options)["split"].to_list() == parts


DATED = pl.DataFrame({
    "user_id": [1, 1, 1, 2, 2],
    "item_id": [*"abcab"],
    "event": "buy",
    "bought_on": [date(2026, 1, day) for day in (1, 2, 3, 5, 4)],
})  # fmt: skip


@few(1)("kind", ["lazy", "pandas", "polars"])
def test_the_only_column_of_dates_is_the_time_with_a_warning(kind):
    log = {"polars": DATED, "lazy": DATED.lazy(), "pandas": DATED.to_pandas()}[kind]
    with pytest.warns(UserWarning, match="^leave_one_out: the time is bought_on, the only"):
        rows = rankql.leave_one_out(log)
    rows = rows.collect() if kind == "lazy" else rows
    assert rows["split"].to_list() == ["train", "train", "test", "test", "train"]
    with pytest.warns(UserWarning, match="^time_split: the time is bought_on"):
        rankql.time_split(log, share=0.3)
    with pytest.warns(UserWarning, match="^grade_events: .* time= names another$"):
        graded = rankql.grade_events(log, {"buy": 1}, until=date(2026, 1, 4))
    assert len(graded) == 3


@pytest.mark.parametrize(("key", "of"), [("item_id", "item"), ("user_id", "user")])
def test_a_date_of_an_item_or_a_user_is_asked_about(key, of):
    """Such as that of a release; the call of the message answers."""
    dates = pl.col(key).rank("dense").cast(pl.Int32)
    log = DATED.with_columns(bought_on=pl.lit(date(2026, 1, 1)) + pl.duration(days=dates))
    message = f"same in all rows of each {of}. Is it the time.\n\nPass:\n    {{}}='bought_on'$"
    with pytest.raises(rankql.RankqlError, match=message.format("moment")):
        rankql.time_split(log, share=0.3)
    assert "test" in rankql.time_split(log, share=0.3, moment="bought_on")["split"]
    with pytest.raises(rankql.RankqlError, match=message.format("time")):
        rankql.grade_events(log, {"buy": 1}, until=date(2026, 2, 1))


def test_of_two_columns_of_dates_one_is_asked_for_but_not_next_to_a_name():
    log = DATED.with_columns(seen=pl.col("bought_on"))
    message = "^bought_on and seen may be the time.\n\nPass one of:\n    moment='bought_on'\n"
    with pytest.raises(rankql.RankqlError, match=message):
        rankql.leave_one_out(log)
    named = rankql.leave_one_out(log.rename({"seen": "Timestamp"}))
    assert named["split"].to_list() == ["train", "train", "test", "test", "train"]
    with pytest.raises(
        rankql.RankqlError,
        match=r"No time column\.\n\nFill in:\n    moment=(.|\n)*\nKnown: time, ts, ",
    ):
        rankql.leave_one_out(DATED.with_columns(pl.col("bought_on").cast(pl.String)))


def digest(user, item):
    """What orders equal times; without an item a row comes first."""
    return "" if item is None else hashlib.md5(f"{user} {item}".encode()).hexdigest()


def test_of_equal_times_no_item_is_always_held_out():
    log = pl.DataFrame([{"user": u, "item": i, "time": 1} for u in range(400) for i in range(5)])
    held_out = rankql.leave_one_out(log).filter(split="test")
    assert len(held_out) == 400
    assert held_out["item"].value_counts()["count"].is_between(50, 110).all()
    assert rankql.leave_one_out(log, basket=True)["split"].unique().to_list() == ["train"]
    with pytest.raises(rankql.RankqlError, match="basket must be true or false, not 2"):
        rankql.leave_one_out(log, basket=2)


def test_a_time_is_written_as_on_the_command_line():
    log = HISTORY.with_columns(time=pl.lit(NOON) + pl.duration(days=pl.col("time")))
    text, since = rankql.time_split(log, since="2024-05-06"), date(2024, 5, 6)
    assert text.equals(rankql.time_split(log, since=since))
    with pytest.raises(rankql.RankqlError, match=r"^since: cannot parse the time 'soon'"):
        rankql.time_split(log, since="soon")


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["x", "y", "é", "Z", "", None]), st.integers(0, 3)
    ),
    min_size=1,
    max_size=12,
)


def first_rows(rows):
    """Those of the first time of each user and item; without an item each is the first."""
    return [row for row in rows if row[1] is None
            or row[2] == min(t for *key, t in rows if (*key,) == row[:2])]  # fmt: skip


def last_of_each(rows, n, basket):
    """The places of the last n rows of each user who has others, or of the last n times."""
    test = set()
    for user in "ab":
        own = [(t, digest(user, item), i) for i, (u, item, t) in enumerate(rows) if u == user]
        last = {i for t, x, i in own if sum((t, x) < other[:2] for other in own) < n}
        if basket:
            last = {i for t, _, i in own if len({u for u, *_ in own if u > t}) < n}
        test |= last if len(last) < len(own) else set()
    return test


def latest(rows, share, by_user):
    """The places of the latest rows, at most this share or those of the last time."""
    test = set()
    for user in "ab" if by_user else [None]:
        own = [(t, i) for i, (u, _, t) in enumerate(rows) if user in (None, u)]
        late = {i for t, i in own if t == max(own)[0]
                or sum(u >= t for u, _ in own) <= share * len(own) + 1e-9}  # fmt: skip
        test |= late if len(late) < len(own) else set()
    return test


@few(1)("seen", [None, "drop"])
@given(
    rows=ROWS, n=st.integers(1, 3), seed=st.randoms(), basket=st.booleans(),
    share=st.sampled_from([0.05, 0.34, 0.5, 0.67]), since=st.integers(0, 3),
    by_user=st.booleans(),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.* is empty, because")
def test_splits_equal_their_definition_in_any_order_of_rows(
    rows, n, seed, basket, share, since, by_user, seen
):
    """Those of one time stay together, and seen items are left out before."""
    kept = first_rows(rows) if seen else rows
    seed.shuffle(order := [*rows])
    frame, options = history(order), {"seen": seen} if seen else {}
    of_each = split(history(kept), last_of_each(kept, n, basket))
    assert_table("leave_one_out", frame, {"n": n, "basket": basket, **options}, of_each)
    options |= {"query": "user"} if by_user else {}
    if late := latest(kept, share, by_user):
        assert_table("time_split", frame, {"share": share, **options}, split(history(kept), late))
    if min(t for *_, t in rows) <= since <= max(t for *_, t in rows):
        late = {i for i, row in enumerate(kept) if row[2] >= since}
        expected = split(history(kept), late)
        assert_table("time_split", frame, {"since": since, **options}, expected)


def test_the_last_date_is_the_test_even_if_it_holds_more_than_the_share():
    dates = [date(2024, 5, 1)] * 6 + [date(2024, 5, 2)] * 4
    frame = pl.DataFrame({"user": [1, 2] * 5, "time": dates})
    for options in ({}, {"query": "user"}):
        expected = split(frame, {6, 7, 8, 9})
        assert_table("time_split", frame, {"share": 0.2, **options}, expected)
    shuffled = frame.select(pl.all().shuffle(1)).with_columns(user=pl.col("user").cast(pl.Int8))
    assert shuffled.pipe(rankql.time_split, share=0.2).drop("split").equals(shuffled)


def test_one_time_cannot_be_split():
    message = "share leaves no row to test on: time has only one value{}. Use finer times, or .*"
    frame = pl.DataFrame({"user": [1, 2], "time": [1, 1]})
    assert_table_refused("time_split", frame, {"share": 0.2}, message.format(""))
    by_user, options = frame.with_columns(time="user"), {"share": 0.2, "query": "user"}
    assert_table_refused("time_split", by_user, options, message.format(" for each user"))


@pytest.mark.slow
def test_splits_by_dates_and_in_other_zones(tmp_path):
    frame = HISTORY.with_columns(time=pl.lit(NOON) + pl.duration(days=pl.col("time")))
    for since in (at(5), (at(5) - timedelta(hours=12)).date()):
        assert_table("time_split", frame, {"since": since}, split(frame, {3, 4, 5, 6}))
    assert_table("leave_one_out", frame, {}, split(frame, {1, 3, 8, 9}))
    # The same time of day in another zone is earlier or later.
    zoned = frame.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    for hours, test in ((5, {3, 4, 5, 6}), (-5, {6})):
        since = at(5).replace(tzinfo=timezone(timedelta(hours=hours)))
        assert_table("time_split", zoned, {"since": since}, split(zoned, test))
    frame.write_parquet(tmp_path / "log.parquet")
    assert_frame_equal(rankql.leave_one_out(tmp_path / "log.parquet"), rankql.leave_one_out(frame))


ODD_TIMES = ["TIME '10:00'", "[1]", "true", "'1'", "'infinity'::TIMESTAMP",
             "'-infinity'::DATE"]  # fmt: skip


@few(1)("time", ODD_TIMES)
def test_a_time_is_a_finite_timestamp_or_number(time):
    con = metric_engines.connection()
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE odd AS SELECT 'u' AS user, 'x' AS item, {time} AS time"
    )
    frame = con.sql("FROM odd").pl()
    message = "(time|moment) must be a timestamp or a (number|finite number), not .*"
    since = "TIMESTAMP '2024-05-01'"
    graded = rankql.graded("item", {"x": 1}, moment="time", until=NOON)
    for call in (
        "FROM leave_one_out('odd')",
        f"FROM time_split('odd', since := {since})",
        f"SELECT graded(item, MAP {{'x': 1}}, moment := time, until := {since}) FROM odd",
    ):
        assert_message(call, lambda c=call: con.execute(c).fetchall(), message)
    for run in (
        lambda: rankql.leave_one_out(frame),
        lambda: rankql.time_split(frame, since=NOON),
        lambda: frame.select(graded),
    ):
        assert_message("polars", run, message)


@pytest.mark.parametrize("name", ["split", "Split"])
def test_a_column_split_is_refused_but_a_field_is_not(name):
    message = "the log has a column 'split' already: drop or rename it"
    for function, options in (("leave_one_out", {}), ("time_split", {"since": 5})):
        frame = HISTORY.with_columns(pl.lit(1).alias(name))
        assert_table_refused(function, frame, options, message)
    inside = HISTORY.with_columns(more=pl.struct(pl.lit(1).alias(name)))
    assert_table("leave_one_out", inside, {}, split(inside, {1, 3, 8, 9}))


@few(2)(
    ("call", "message"),
    [
        ("leave_one_out('log')", "the log has no column 'user'. Name one: query := "),
        ("leave_one_out('log', query := 'buyer')", "no column 'time'. Name one: moment := "),
        ("leave_one_out('log', item := 'x', query := 'buyer', moment := 'when')",
         "no column 'x'. Name one: item := "),
        ("time_split('log', share := 0.5)", "the log has no column 'time'. Name one: moment := "),
        ("time_split('log', share := 0.5, moment := 'when', query := 'user')",
         "no column 'user'. Name one: query := "),
    ],
)  # fmt: skip
def test_a_log_without_a_column_in_sql(call, message):
    con = metric_engines.connection()
    con.register("log", HISTORY.rename({"user": "buyer", "time": "when"}))
    assert message in metric_engines.complaint(lambda: con.execute(f"FROM {call}").fetchall())


def test_collapsed_rows_keep_their_order_and_an_expression_may_name_the_document():
    chunks = pl.DataFrame({"query": [2, 1, 1, 1], "item": ["c#1", "b#1", "a#2", "a#1"],
                           "pos": [1, 3, 2, 1]})  # fmt: skip
    document = pl.col("item").str.slice(0, 1)
    for frame in (chunks, chunks.lazy()):
        rows = frame.pipe(rankql.collapsed, document).lazy().collect()
        assert rows.rows() == [(2, "c#1", 1), (1, "b#1", 2), (1, "a#1", 1)]


@few(1)("name", ["leave_one_out", "time_split"])
@pytest.mark.parametrize(
    ("argument", "role"),
    [("user", "query"), ("user_id", "query"), ("time", "moment"), ("timestamp", "moment"),
     ("product_id", "item")],
)  # fmt: skip
def test_arguments_called_like_their_columns(name, argument, role):
    message = f"^{name} has no argument {argument}=. Pass the column as {role}=$"
    with pytest.raises(rankql.RankqlError, match=message):
        getattr(rankql, name)(HISTORY, **{argument: "user"})
    with pytest.raises(TypeError, match=f"^{name} takes .*moment=.*: got an unexpected .*'days'"):
        getattr(rankql, name)(HISTORY, days=3)


@few(2)(
    ("times", "since", "words"),
    [
        ([1, 2, 3], 4, "from 1.0 to 3.0, not 4"),
        ([1, 2, 3], 0, "from 1.0 to 3.0, not 0"),
        (
            [datetime(2026, 1, day) for day in (1, 2, 3)],
            "2026-02-01",
            "from 2026-01-01 00:00:00 to",
        ),
    ],
)
def test_a_time_outside_of_the_log_is_refused_with_its_range(times, since, words):
    log = pl.DataFrame({"user": [1, 1, 2], "time": times})
    with pytest.raises(rankql.RankqlError, match=rf"^since must lie within .*, {words}"):
        log.pipe(rankql.time_split, since=since)
    assert log.pipe(rankql.time_split, since=times[-1])["split"].to_list()[-1] == "test"


EVENTS = pl.DataFrame({
    "kunde": ["u1", "u1", "u2", "u2", "u2"], "ware": [*"abbca"],
    "wann": [1, 3, 1, 2, 3], "gekauft": [1, 1, 0, 0, 1],
})  # fmt: skip
PAIRS = [{"query": "kunde", "item": "ware"}, {"query": "ware", "item": "kunde"}]


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (leave_one_out, {"moment": "wann"}),
        (harvested_propensity, {"pos": "wann", "click": "gekauft"}),
        (most_popular, {}),
    ],
)
def test_a_question_names_the_columns_of_a_log_in_one_call(function, call):
    with pytest.raises(Question) as asked:
        function(EVENTS)
    assert asked.value.calls == [{**x, **call} for x in PAIRS]
    named = function(EVENTS, **{**PAIRS[0], **call})
    assert named.equals(follow(function, EVENTS))
    with pytest.raises(Question) as asked:
        function(EVENTS, query="kunde")
    assert asked.value.calls[0] == {"item": "ware", **call}
    assert not any("kunde" in x.values() for x in asked.value.calls)


def test_what_no_type_tells_apart_is_left_open():
    numbers = EVENTS.with_columns(kunde=pl.Series([1, 1, 2, 2, 2]))
    with pytest.raises(Question, match=r"Fill in:\n    query='\.\.\.', item='\.\.\.', moment"):
        leave_one_out(numbers)


EARLIER, FIRST = "no user has an earlier event to train on", "since= is the first time of the log"


@few(2)(
    ("function", "options", "part", "text"),
    [
        (leave_one_out, {}, "train", f"test is empty, because {EARLIER}"),
        (rankql.time_split, {"since": 1}, "test", f"train is empty, because {FIRST}"),
    ],
)
def test_an_empty_part_has_a_warning(function, options, part, text):
    log = pl.DataFrame({"user": [1, 2, 3], "item": [*"abc"], "time": [1, 2, 3]})
    for frame in (log, log.lazy()):
        with pytest.warns(UserWarning, match=text):
            rows = frame.pipe(function, **options).lazy().collect()
    assert rows["split"].unique().to_list() == [part]


def test_two_parts_have_no_warning(recwarn):
    EVENTS.pipe(rankql.time_split, share=0.5, moment="wann")
    assert not recwarn.list
