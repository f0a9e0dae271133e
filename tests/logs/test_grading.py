"""Grades from events and from several annotators: by hand and by definition."""

import math
import random
import re
from datetime import UTC, date, datetime, timedelta

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import rankql
from negative_grades import PAGE, with_table
from support.calls import assert_message, assert_values, connected
from support.parameters import few

DAY = timedelta(days=1)
NOON = datetime(2024, 5, 1, 12)
GRADES = {"view": 1, "cart": 2, "buy": 3, "hide": -1, "shown": None}


def at(days):
    return NOON + timedelta(days=days)


# events


def log(*groups):
    """Rows (g, event, t) of groups of (event, t) or of events."""
    rows = [
        (g, *(e if isinstance(e, tuple) else (e, 0))) for g, es in enumerate(groups) for e in es
    ]
    random.Random(3).shuffle(rows)
    times = [t for _, _, t in rows]
    return pl.DataFrame(
        {"g": [g for g, _, _ in rows], "event": [e for _, e, _ in rows], "t": times},
        schema_overrides={"event": pl.String},
    )


def graded(events, how="max", cap=None, until=None, within=None, half_life=None, unknown="error",
           moment=None):  # fmt: skip
    """The definition, event by event."""
    values = []
    for event, t in events:
        if event is None or (until is not None and not t < until):
            continue
        if within is not None and until - t > within:
            continue
        grade = GRADES.get(event, unknown)
        assert grade != "error", event
        if grade is not None:
            fade = 1 if half_life is None else 2 ** -((until - t) / half_life)
            values.append(grade * fade)
    if not values:
        return None
    total = max(values) if how == "max" else math.fsum(values)
    return float(total if cap is None else min(total, cap))


# The options of a call, and groups of events with their grade.
CLOCKS = {
    "timestamp": lambda x: x,
    "zone": lambda x: x.replace(tzinfo=UTC) if isinstance(x, datetime) else x,
    "number": lambda x: (
        (x - NOON) / DAY if isinstance(x, datetime) else x / DAY if isinstance(x, timedelta) else x
    ),
}


@few(4)(
    ("frame", "grades", "value"),
    [
        ({"event": ["view", "buy"]}, "{'view': 1, 'buy': 2.5}", 2.5),
        ({"event": ["view", "buy"]}, "MAP(['view', 'buy'], [1, 2.5])", 2.5),
        ({"event": ["view", "buy"]}, "{'view': 1, 'b\"uy VARCHAR, ': 2, 'buy': 2.5}", 2.5),
        ({"event": [7, 8]}, "MAP {7: 1, 8: 2}", 2.0),
        ({"event": [True, None]}, "{'true': 2}", 2.0),
        ({"event": ["view", "buy"]}, {"view": 1, "buy": 2.5}, 2.5),
        ({"event": [7, 8]}, {"7": 1, "8": 2}, 2.0),
        ({"event": [True, None]}, {True: 2}, 2.0),
        *(({"event": ["view", "buy"]}, grades, None) for grades in (
            "MAP {'view': '1', 'buy': '3'}", "{'view': 1, 'b\"uy BOOLEAN': 2, 'buy': 'x'}",
            "MAP {'view': [1], 'buy': [3]}", f"MAP {{'view': 1, 'buy': {10**400}}}",
            {"view": "1", "buy": "three"}, {"view": 1, "buy": 10**400}, {"view": frozenset()},
        )),
    ],
)  # fmt: skip
def test_grades_are_mappings_of_events_to_numbers(frame, grades, value):
    """Events are text, whole numbers or booleans."""
    frame = pl.DataFrame(frame)

    def run():
        if isinstance(grades, str):
            return connected(frame).sql(f"SELECT graded(event, {grades}) FROM input_rows").pl()
        return frame.select(rankql.graded("event", grades))

    if value is None:
        assert_message("", run, "grades must be finite numbers, not {.*")
    else:
        assert run().item() == value


EVENTS = st.sampled_from(["view", "cart", "buy", "hide", "shown", None, "swipe"])


@few(1)("how", ["max", "sum"])
@given(
    groups=st.lists(st.lists(st.tuples(EVENTS, st.integers(0, 9)), min_size=1), min_size=6),
    cap=st.sampled_from([None, 2, 4.5]),
    until=st.none() | st.integers(0, 11),
    within=st.none() | st.integers(1, 9),
    half_life=st.sampled_from([None, 0.5, 1, 3]),
    unknown=st.sampled_from([None, 0, 0.25]),
    clock=st.sampled_from([*CLOCKS]),
)
def test_graded_equals_its_definition(groups, how, cap, until, within, half_life, unknown, clock):
    """By any clock: from `until` on nothing counts, and a window of three days begins so early."""
    groups = [[(event, at(days)) for event, days in events] for events in groups]
    options, times = {"how": how, "unknown": unknown}, {}
    if how == "sum":
        options["cap"] = cap
    if until is not None:
        lengths = {"within": within, "half_life": half_life}
        times = {name: x if x is None else x * DAY for name, x in lengths.items()}
        times["until"] = at(until)
    expected = {g: graded(events, **options, **times) for g, events in enumerate(groups)}
    on_clock = CLOCKS[clock]
    frame = log(*([(event, on_clock(t)) for event, t in events] for events in groups))
    options |= {name: on_clock(x) for name, x in times.items()}
    options |= {"moment": "t"} if times else {}
    assert_values("graded", frame, ["event", GRADES], options, expected)


# annotators


def labelled(*groups):
    """Rows (g, rel, weight) of groups of (rel, weight)."""
    rows = [(g, *vote) for g, votes in enumerate(groups) for vote in votes]
    random.Random(4).shuffle(rows)
    kinds = {"g": pl.Int64, "rel": pl.Float64, "weight": pl.Float64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def consensus(votes, how="mean", ties="low"):
    """The definition: a weighted median has no more than half of the weight on either side."""
    votes = [(rel, weight) for rel, weight in votes if rel is not None]
    total = math.fsum(weight for _, weight in votes)
    if not votes:
        return None
    if how == "mean":
        return math.fsum(rel * weight for rel, weight in votes) / total
    votes = [vote for vote in votes if vote[1] > 0]
    if how == "median":
        fit = [
            rel for rel, _ in votes
            if math.fsum(w for r, w in votes if r < rel) <= total / 2 + 1e-9
            and math.fsum(w for r, w in votes if r > rel) <= total / 2 + 1e-9
        ]  # fmt: skip
        return (min(fit) + max(fit)) / 2
    own = {rel: math.fsum(w for r, w in votes if r == rel) for rel, _ in votes}
    most = [rel for rel in own if own[rel] >= max(own.values()) - 1e-9]
    return {"low": min(most), "high": max(most), "null": most[0] if len(most) == 1 else None}[ties]


# The options of a call, and groups of votes (rel, weight) with their consensus.
VOTES = st.tuples(
    st.sampled_from([None, -1, 0, 1, 2, 2.5, 3]), st.sampled_from([0, 0.1, 0.2, 1, 3])
)


@pytest.mark.parametrize("how", ["mean", "median", "majority"])
@given(
    groups=st.lists(st.lists(VOTES, min_size=1, max_size=9), min_size=6),
    ties=st.sampled_from(["low", "high", "null"]),
)
def test_consensus_equals_its_definition(groups, how, ties):
    groups = [[*votes, (1, 0.3)] for votes in groups]
    expected = {g: consensus(votes, how, ties) for g, votes in enumerate(groups)}
    expected = {g: value if value is None else float(value) for g, value in expected.items()}
    options = {"weight": "weight", "how": how, "ties": ties}
    assert_values("consensus", labelled(*groups), ["rel"], options, expected)


# grade_events


@few(1)(
    "options",
    [
        {},
        {"how": "sum", "cap": 2.5},
        {"until": at(2.5), "half_life": 2 * DAY, "within": 2 * DAY},
        {"until": date(2024, 5, 3)},
    ],
)
def test_grade_events_of_files_tables_and_frames(options, tmp_path):
    rows = [("u", "a", "view", at(0)), ("u", "a", "buy", at(1)), ("v", "b", "hide", at(2)),
            ("v", "c", None, at(3)), (None, "a", "buy", at(0)),
            ("v", None, "buy", at(0))]  # fmt: skip
    frame = pl.DataFrame(rows, ["user_id", "item", "event", "time"], orient="row")
    frame.write_parquet(tmp_path / "log.parquet")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE log AS FROM '{tmp_path}/log.parquet'")
    timed = {"moment": "time"} if "until" in options else {}
    grades = frame.pipe(rankql.graded, "event", GRADES, by=["user_id", "item"], **options, **timed)
    expected = grades.rename({"graded": "rel"}).drop_nulls().sort("user_id", "item")
    for data, connection in ((frame, None), (tmp_path / "log.parquet", None), ("log", con)):
        result = rankql.grade_events(data, GRADES, con=connection, **options)
        assert_frame_equal(result, expected, abs_tol=1e-14, rel_tol=1e-14)


NO_QUERY = re.escape(
    "No query column in log.\n\nPass one of:\n"
    "    query='event'\n    query='docno'\n    query='who'\n\nFound: who, item, event, time, docno"
)


@few(4)(
    ("options", "message"),
    [
        ({"event": "evnt"}, "log has no column 'evnt'. Pass event='...'"),
        ({"until": 3, "time": "clock"}, "log has no column 'clock'. Pass time='...'.*"),
        ({"grades": {"view": 1}}, "event buy has no grade. .*"),
        ({"grades": 3}, "grades must be a dict of event: grade, not a int"),
        ({"grades": {1: 1, "1": 2}}, "grades must name an event once, as text, not .*"),
        ({"how": object()}, "how must be 'max' or 'sum', not .*"),
        ({"query": None}, NO_QUERY),
        ({"unknown": object()}, "unknown must be a grade or 'error', not .*"),
        ({"until": object()}, "until must be a finite number, as moment is, not <object .*"),
        ({"until": 3, "within": "3"}, "within must be a number above 0, as moment is .*, not 3"),
        ({"until": 3, "half_life": True}, "half_life must be a number above 0, .* not True"),
        ({"until": 3, "half_life": 10**400}, "half_life must be a number above 0, .*"),
        ({"how": "sum", "cap": object()}, "cap must be a finite number, not .*"),
    ],
)  # fmt: skip
def test_grade_events_refuses(options, message):
    log = pl.DataFrame({"who": 1, "item": ["a", "b"], "event": ["view", "buy"], "time": [1, 2]})
    options = {"grades": GRADES, "query": "who", "item": "item", **options}
    frame = log.with_columns(docno="item")
    assert_message("", lambda: rankql.grade_events(frame, **options), message)


@pytest.mark.slow
def test_the_page_shows_disliked_items_in_every_metric():
    assert with_table() == PAGE.read_text(), "run python tests/generate.py grades"
