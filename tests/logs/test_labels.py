"""Labels: events and annotators to grades, agreement, splits: by hand, by definition, by others."""

import math
import random
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import combinations, permutations

import duckdb
import krippendorff
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn.metrics import cohen_kappa_score

import rankql
from support import metric_engines
from support.calls import (
    assert_refused,
    assert_table,
    assert_table_refused,
    assert_values,
    by_sql,
    connected,
    literal,
    options_of,
    table_ways,
)
from support.components import optional
from support.metric_engines import complaint
from support.negative_grades import PAGE, with_table

inter_rater = optional("statsmodels.stats.inter_rater")

DAY = timedelta(days=1)
NOON = datetime(2024, 5, 1, 12)


# The same call in SQL and in polars


# events


GRADES = {"view": 1, "cart": 2, "buy": 3, "hide": -1, "shown": None}


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


def at(days):
    return NOON + timedelta(days=days)


def graded(events, grades, how="max", cap=None, until=None, within=None, half_life=None,
           unknown="error", moment=None):  # fmt: skip
    """The definition, event by event."""
    values = []
    for event, t in events:
        if event is None or (until is not None and not t < until):
            continue
        if within is not None and until - t > within:
            continue
        grade = grades.get(event, unknown)
        assert grade != "error", event
        if grade is not None:
            fade = 1 if half_life is None else 2 ** -((until - t) / half_life)
            values.append(grade * fade)
    if not values:
        return None
    total = max(values) if how == "max" else math.fsum(values)
    return float(total if cap is None else min(total, cap))


@pytest.mark.parametrize(
    ("options", "events", "value"),
    [
        ({}, ["view", "buy", "view"], 3.0),
        ({"how": "sum"}, ["view", "buy", "view"], 5.0),
        ({"how": "sum", "cap": 4}, ["view", "buy", "view"], 4.0),
        ({"how": "sum", "cap": 4}, ["view", "view"], 2.0),
        ({}, ["hide"], -1.0),
        ({}, ["hide", "view"], 1.0),
        ({"how": "sum"}, ["hide", "view"], 0.0),
        ({}, [None], None),  # shown, and nothing came of it: unjudged
        ({}, ["shown"], None),
        ({"how": "sum"}, ["shown", None], None),
        ({"how": "sum"}, ["shown", "view"], 1.0),
        ({"unknown": None}, ["swipe"], None),
        ({"unknown": 0}, ["swipe"], 0.0),
        ({"unknown": 0.5, "how": "sum"}, ["swipe", "view", "swap"], 2.0),
    ],
)
def test_graded(options, events, value):
    """By hand."""
    frame = log(events, ["cart"])
    assert_values("graded", frame, ["event", GRADES], options, {0: value, 1: 2.0})


FADING = [
    # Two days old at a half-life of one: a quarter is left.
    ({"until": at(2), "half_life": DAY}, [("buy", at(0))], 0.75),
    ({"until": at(2), "half_life": DAY}, [("buy", at(0)), ("view", at(1.5))], 0.75),
    ({"until": at(2), "half_life": 0.5 * DAY}, [("buy", at(0)), ("view", at(1.5))], 0.5),
    ({"until": at(2), "half_life": DAY, "how": "sum"}, [("buy", at(0)), ("view", at(1))], 1.25),
    # From `until` on nothing counts; a window of three days begins three days before.
    ({"until": at(2)}, [("view", at(1)), ("buy", at(2))], 1.0),
    ({"until": at(2)}, [("buy", at(2)), ("buy", at(3))], None),
    ({"until": at(3), "within": 3 * DAY}, [("buy", at(0))], 3.0),
    ({"until": at(3), "within": 2.99 * DAY}, [("buy", at(0)), ("view", at(1))], 1.0),
    ({"until": at(3), "within": DAY}, [("buy", at(0))], None),
]


@pytest.mark.parametrize(("options", "events", "value"), FADING)
@pytest.mark.parametrize("clock", ["timestamp", "zone", "number"])
def test_graded_in_time(options, events, value, clock):
    """By hand, on three clocks."""
    options = {**options, "moment": "t"}

    def turned(x):
        if clock == "zone" and isinstance(x, datetime):
            return x.replace(tzinfo=UTC)
        if clock == "number" and isinstance(x, datetime):
            return (x - NOON) / DAY
        return x / DAY if clock == "number" and isinstance(x, timedelta) else x

    options = {name: turned(x) for name, x in options.items()}
    frame = log([(event, turned(t)) for event, t in events])
    assert_values("graded", frame, ["event", GRADES], options, {0: value})


def test_the_moment_may_be_an_expression():
    frame = pl.DataFrame({"event": ["view", "view"], "t": [1.0, 9.0]})
    value = rankql.graded("event", {"view": 1}, how="sum", moment=pl.col("t") + 1, until=5)
    assert frame.select(value).item() == 1


def test_graded_by_days():
    frame = log([("buy", date(2024, 5, 1)), ("view", date(2024, 5, 3))])
    options = {"moment": "t", "until": date(2024, 5, 4), "half_life": DAY, "how": "sum"}
    assert_values("graded", frame, ["event", GRADES], options, {0: 3 / 8 + 1 / 2})


def test_graded_takes_any_mapping():
    """A struct, two lists, whole numbers as events; and a frame, piped."""
    con = connected(log(["view", "buy"]))
    for mapping in ("{'view': 1, 'buy': 2.5}", "MAP(['view', 'buy'], [1, 2.5])"):
        assert con.sql(f"SELECT graded(event, {mapping}) FROM handed").fetchall() == [(2.5,)]
    codes = pl.DataFrame({"user": 1, "item": 2, "event": [7, 8]})
    assert codes.pipe(rankql.graded, "event", {"7": 1, "8": 2}).rows() == [(1, 2, 2.0)]
    connected(codes)
    assert con.sql("SELECT graded(event, MAP {7: 1, 8: 2}) FROM handed").fetchall() == [(2.0,)]
    kinds = codes.with_columns(event=pl.Series(["a", "b"], dtype=pl.Categorical))
    assert kinds.pipe(rankql.graded, "event", {"a": 1, "b": 2}).rows() == [(1, 2, 2.0)]


EVENTS = st.sampled_from(["view", "cart", "buy", "hide", "shown", None, "swipe"])


@given(
    groups=st.lists(st.lists(st.tuples(EVENTS, st.integers(0, 9)), min_size=1), min_size=1),
    how=st.sampled_from(["max", "sum"]),
    cap=st.sampled_from([None, 2, 4.5]),
    until=st.none() | st.integers(0, 11),
    within=st.none() | st.integers(1, 9),
    half_life=st.sampled_from([None, 0.5, 1, 3]),
    unknown=st.sampled_from([None, 0, 0.25]),
)
def test_graded_by_definition(groups, how, cap, until, within, half_life, unknown):
    options = {"how": how, "unknown": unknown}
    if how == "sum":
        options["cap"] = cap
    if until is not None:
        options |= {"until": until, "within": within, "half_life": half_life, "moment": "t"}
    expected = {g: graded(events, GRADES, **options) for g, events in enumerate(groups)}
    assert_values("graded", log(*groups), ["event", GRADES], options, expected)


BAD_GRADED = [
    ({}, "event swipe has no grade. Add it to grades, or set unknown to a grade. "
         "Events with a grade: view, cart, buy, hide, shown"),
    # Also where it lies outside the window.
    ({"moment": "t", "until": 1}, "event swipe has no grade. .*"),
    ({"unknown": "skip"}, "unknown must be a grade or 'error', not skip"),
    ({"unknown": math.nan}, "unknown must be a grade or 'error', not nan"),
    ({"how": "last"}, "how must be 'max' or 'sum', not last"),
    ({"cap": 3}, "cap is for how 'sum', not for 'max'"),
    ({"how": "sum", "cap": math.inf, "unknown": 1}, "cap must be a finite number, not inf"),
    ({"half_life": 2, "unknown": 1},
     "until must be given: the time that within and half_life count back from"),
    ({"until": 5, "unknown": 1},
     "moment must be a timestamp or a finite number, not (NULL|None)"),
    ({"moment": "t", "until": at(1), "unknown": 1},
     "until must be a finite number, as moment is, not 2024-05-02 12:00:00"),
    ({"moment": "t", "until": 9, "half_life": DAY, "unknown": 1},
     "half_life must be a number above 0, as moment is a number, not (1 day.*|24:00:00)"),
    ({"moment": "t", "until": 9, "within": 0, "unknown": 1},
     "within must be a number above 0, as moment is a number, not 0"),
    ({"moment": "t", "until": 9, "half_life": -1, "unknown": 1},
     "half_life must be a number above 0, as moment is a number, not -1"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "pattern"), BAD_GRADED)
def test_graded_refuses(options, pattern):
    frame = log([("view", 0), ("view", 2)], [("swipe", 2)])
    assert_refused("graded", frame, ["event", GRADES], options, pattern)


def test_graded_refuses_values():
    frame = log(["view"])
    refused = "grades must be finite numbers, not .*nan.*"
    assert_refused("graded", frame, ["event", {"view": math.nan}], {}, refused)
    for times in ([None], [math.nan]):
        bad = frame.with_columns(t=pl.Series(times, dtype=pl.Float64))
        said = "moment must be a timestamp or a finite number, not (NULL|None|nan)"
        assert_refused("graded", bad, ["event", GRADES], {"moment": "t", "until": 1}, said)
    text = frame.with_columns(t=pl.lit("2026-01-01"))
    said = "moment must be a timestamp or a number, not text. Cast it first"
    assert_refused("graded", text, ["event", GRADES], {"moment": "t", "until": 1}, said)
    for end, said in ((2**63 - 1, "infinity"), (1 - 2**63, "-infinity")):
        endless = frame.with_columns(t=pl.lit(end).cast(pl.Datetime))
        said = f"moment must be a timestamp or a finite number, not {said}"
        assert_refused("graded", endless, ["event", GRADES], {"moment": "t", "until": at(1)}, said)
    timed = log([("view", NOON)])
    options = {"moment": "t", "until": at(1), "half_life": 7}
    said = "half_life must be an interval above 0, as moment is a timestamp, not 7"
    assert_refused("graded", timed, ["event", GRADES], options, said)
    options = {"moment": "t", "until": 5}
    said = "until must be a timestamp, as moment is, not 5"
    assert_refused("graded", timed, ["event", GRADES], options, said)


def test_from_a_log_to_ndcg_in_one_statement(tmp_path):
    """Parquet -> grades -> nDCG by user."""
    rows = [("u", "a", 1, "view"), ("u", "b", 2, "cart"), ("u", "b", 2, "buy"), ("u", "c", 3, None)]
    pl.DataFrame(rows, ["user", "item", "pos", "event"], orient="row").write_parquet(
        tmp_path / "log.parquet"
    )
    found = (
        metric_engines.connection()
        .sql(f"""
        SELECT "user", ndcg(rel, pos, 10) FROM (
            SELECT "user", item, min(pos) AS pos, graded(event, {literal(GRADES)}) AS rel
            FROM '{tmp_path}/log.parquet' GROUP BY "user", item)
        GROUP BY "user"
    """)
        .fetchall()
    )
    expected = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert found[0][0] == "u" and abs(found[0][1] - expected) < 1e-15


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
    whole = math.fsum(weight for _, weight in votes)
    if not votes:
        return None
    if how == "mean":
        return math.fsum(rel * weight for rel, weight in votes) / whole
    votes = [vote for vote in votes if vote[1] > 0]
    if how == "median":
        fit = [
            rel for rel, _ in votes
            if math.fsum(w for r, w in votes if r < rel) <= whole / 2 + 1e-9
            and math.fsum(w for r, w in votes if r > rel) <= whole / 2 + 1e-9
        ]  # fmt: skip
        return (min(fit) + max(fit)) / 2
    own = {rel: math.fsum(w for r, w in votes if r == rel) for rel, _ in votes}
    most = [rel for rel in own if own[rel] >= max(own.values()) - 1e-9]
    return {"low": min(most), "high": max(most), "null": most[0] if len(most) == 1 else None}[ties]


@pytest.mark.parametrize(
    ("options", "votes", "value"),
    [
        ({}, [(1, 1), (2, 1), (3, 1)], 2.0),
        ({}, [(1, 1), (3, 3)], 2.5),
        ({}, [(1, 1), (3, 0)], 1.0),
        ({}, [(None, 1), (3, 2)], 3.0),
        ({}, [(None, None)], None),
        ({"how": "median"}, [(0, 1), (1, 1), (3, 1)], 1.0),
        ({"how": "median"}, [(0, 1), (1, 1), (2, 1), (3, 1)], 1.5),
        ({"how": "median"}, [(0, 1), (1, 1), (3, 3)], 3.0),
        ({"how": "median"}, [(0, 1), (1, 1), (3, 2)], 2.0),
        # .1 + .2 is not .3 in floats, but half of the weight is half of it.
        ({"how": "median"}, [(0, 0.1), (1, 0.2), (3, 0.3)], 2.0),
        ({"how": "median"}, [(0, 0.7), (1, 0.1), (3, 0.8)], 2.0),
        ({"how": "majority"}, [(0, 1), (2, 1), (2, 1)], 2.0),
        ({"how": "majority"}, [(0, 3), (2, 1), (2, 1)], 0.0),
        ({"how": "majority"}, [(2, 1), (0, 1), (1, 1)], 0.0),
        ({"how": "majority", "ties": "high"}, [(2, 1), (0, 1), (2, 1), (0, 1)], 2.0),
        ({"how": "majority", "ties": "null"}, [(2, 1), (0, 1)], None),
        ({"how": "majority", "ties": "null"}, [(0, 0.1), (0, 0.2), (3, 0.3)], None),
        ({"how": "majority"}, [(None, 1)], None),
        ({"how": "majority"}, [(-1, 2), (3, 1)], -1.0),
    ],
)
def test_consensus(options, votes, value):
    """By hand."""
    frame = labelled(votes, [(1, 1)])
    assert_values("consensus", frame, ["rel"], {"weight": "weight", **options}, {0: value, 1: 1.0})


def test_consensus_without_weights():
    frame = labelled([(1, None), (2, None), (2, None), (5, None)])
    for how, value in {"mean": 2.5, "median": 2.0, "majority": 2.0}.items():
        assert_values("consensus", frame, ["rel"], {"how": how}, {0: value})


VOTES = st.tuples(
    st.sampled_from([None, -1, 0, 1, 2, 2.5, 3]), st.sampled_from([0, 0.1, 0.2, 1, 3])
)


@given(
    groups=st.lists(st.lists(VOTES, min_size=1, max_size=9), min_size=1),
    how=st.sampled_from(["mean", "median", "majority"]),
    ties=st.sampled_from(["low", "high", "null"]),
)
def test_consensus_by_definition(groups, how, ties):
    groups = [[*votes, (1, 0.3)] for votes in groups]
    expected = {g: consensus(votes, how, ties) for g, votes in enumerate(groups)}
    expected = {g: value if value is None else float(value) for g, value in expected.items()}
    options = {"weight": "weight", "how": how, "ties": ties}
    assert_values("consensus", labelled(*groups), ["rel"], options, expected)


@pytest.mark.parametrize("how", ["mean", "median", "majority"])
def test_consensus_refuses(how):
    options = {"weight": "weight", "how": how}
    for bad in (-1, math.nan, math.inf, None):
        said = f"weight must be a finite number from 0, not (?i:{bad}(.0)?|NULL)"
        frame = labelled([(1, 1)], [(2, bad), (1, 1)])
        assert_refused("consensus", frame, ["rel"], options, said)
    said = "weight must not be 0 for all labels of a group"
    assert_refused("consensus", labelled([(1, 1)], [(2, 0), (1, 0)]), ["rel"], options, said)
    said = "rel must be a finite number, not (?i:nan)"
    assert_refused("consensus", labelled([(math.nan, 1)]), ["rel"], options, said)
    said = "weight must be a finite number from 0, not heavy"
    text = labelled([(1, 1)]).with_columns(weight=pl.lit("heavy"))
    assert_refused("consensus", text, ["rel"], options, said)


def test_consensus_options():
    frame = labelled([(1, 1)])
    said = "how must be 'mean', 'median' or 'majority', not vote"
    assert_refused("consensus", frame, ["rel"], {"how": "vote"}, said)
    said = "ties must be 'low', 'high' or 'null', not first"
    assert_refused("consensus", frame, ["rel"], {"how": "majority", "ties": "first"}, said)


# agreement


def units(*rows):
    """The labels of coders, one text for each, by unit; `*` is missing."""
    return pl.DataFrame(
        [
            (unit, "ABCDEFGHIJKLMN"[coder], None if label == "*" else int(label))
            for coder, labels in enumerate(rows)
            for unit, label in enumerate(labels.split())
        ],
        schema={"unit": pl.Int64, "annotator": pl.String, "label": pl.Int64},
        orient="row",
    )


# Wikipedia, Krippendorff's alpha: 3 coders, 15 units, of which 12 can be paired.
CODERS = units(
    "* * * * * 3 4 1 2 1 1 3 3 * 3",
    "1 * 2 1 3 3 4 3 * * * * * * *",
    "* * 2 1 3 4 4 * 2 1 1 3 3 * 4",
)
PUBLISHED = {"nominal": 0.691, "ordinal": 0.807, "interval": 0.811}


@pytest.mark.parametrize("level", PUBLISHED)
def test_alpha_as_published(level):
    alpha = rankql.krippendorff_alpha(CODERS, level)["krippendorff_alpha"].item()
    assert round(alpha, 3) == PUBLISHED[level]
    row = {"krippendorff_alpha": alpha, "units": 12, "labels": 26, "single": 1}
    assert_table("krippendorff_alpha", CODERS, {"level": level}, [row])


def ordinal(x, y, values):
    """The labels between two, with half of each of both, squared."""
    low, high = sorted((x, y))
    between = sum(low <= v <= high for v in values)
    return (between - (values.count(x) + values.count(y)) / 2) ** 2


def alpha(frame, level):
    """The definition: pairs within units and among all pairable labels, one by one."""
    there = frame.drop_nulls("label").group_by("unit").agg("label")["label"].to_list()
    there = [labels for labels in there if len(labels) > 1]
    values = [label for labels in there for label in labels]
    apart = {
        "nominal": lambda x, y: x != y,
        "interval": lambda x, y: (x - y) ** 2,
        "ordinal": lambda x, y: ordinal(x, y, values),
        "ratio": lambda x, y: ((x - y) / (x + y)) ** 2 if x != y else 0,
    }[level]
    seen = math.fsum(
        math.fsum(apart(x, y) for x, y in permutations(labels, 2)) / (len(labels) - 1)
        for labels in there
    )
    chance = math.fsum(apart(x, y) for x, y in permutations(values, 2))
    return 1 - (len(values) - 1) * seen / chance if chance else None


LABELS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("ABCD"), st.sampled_from([None, 0, 1, 2, 3, 7])),
    min_size=1,
    max_size=24,
    unique_by=lambda row: row[:2],
).map(lambda rows: pl.DataFrame(rows, {"unit": pl.Int64, "annotator": pl.String, "label": pl.Int64},
                                orient="row"))  # fmt: skip


def wide(frame):
    """The matrix that krippendorff wants: a row per annotator, NaN where nothing is."""
    table = frame.pivot("annotator", index="unit", values="label").drop("unit")
    return table.cast(pl.Float64).to_numpy().T


@pytest.mark.parametrize("level", [*PUBLISHED, "ratio"])
@given(frame=LABELS)
def test_alpha(level, frame):
    """By its definition, and by the package krippendorff where that has a value."""
    expected = alpha(frame, level)
    rows = [{"krippendorff_alpha": expected if expected is None else float(expected)}]
    if frame["label"].null_count() == len(frame):
        rows = []
    for _, run in table_ways("krippendorff_alpha", frame, {"level": level}):
        found = run()["krippendorff_alpha"].to_list()
        assert len(found) == len(rows)
        assert all(map(metric_engines.same, found, [row["krippendorff_alpha"] for row in rows]))
    if expected is not None:
        theirs = krippendorff.alpha(wide(frame), level_of_measurement=level)
        assert abs(theirs - expected) < 1e-12


def test_alpha_has_no_value():
    """All labels equal, whatever their mean is rounded to; and no unit with two."""
    for frame in (
        units("2 2 2", "2 2 2"),
        units("1 2 *", "* * 3"),
        units("2 2 2", "2 2 2").with_columns(label=pl.lit(0.1)),
    ):
        for level in (*PUBLISHED, "ratio"):
            for way, run in table_ways("krippendorff_alpha", frame, {"level": level}):
                assert run()["krippendorff_alpha"].to_list() == [None], way


def test_alpha_of_text_and_by_slice():
    text = CODERS.with_columns(pl.col("label").cast(pl.String))
    ours = rankql.krippendorff_alpha(CODERS, "nominal")
    for _, run in table_ways("krippendorff_alpha", text, {"level": "nominal"}):
        assert run().equals(ours)
    said = "labels must be numbers for level 'ordinal', not text. Cast them first"
    assert_table_refused("krippendorff_alpha", text, {}, said)
    two = pl.concat([CODERS.with_columns(lang=pl.lit(l)) for l in ("de", "en")])  # noqa: E741
    two = two.filter((pl.col("lang") == "de") | (pl.col("unit") < 9))
    rows = [
        {"slice": lang, **rankql.krippendorff_alpha(two.filter(lang=lang)).row(0, named=True)}
        for lang in ("de", "en")
    ]
    assert rows[0]["krippendorff_alpha"] != rows[1]["krippendorff_alpha"]
    assert_table("krippendorff_alpha", two, {"slice": "lang"}, rows)


# Wikipedia, Fleiss' kappa: 14 raters, 10 units, 5 categories.
FLEISS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def counted(table):
    """Labels of a table of counts by unit and category."""
    rows = [
        (unit, category)
        for unit, counts in enumerate(table)
        for category, n in enumerate(counts, 1)
        for _ in range(n)
    ]
    frame = pl.DataFrame(rows, ["unit", "label"], orient="row")
    return frame.with_columns(annotator=pl.int_range(pl.len()).over("unit"))


@pytest.mark.statsmodels
def test_fleiss_as_published():
    kappa = rankql.fleiss_kappa(counted(FLEISS))["fleiss_kappa"].item()
    assert math.isclose(kappa, 0.20993, abs_tol=1e-5)
    assert abs(kappa - inter_rater.fleiss_kappa(np.array(FLEISS))) < 1e-14
    row = {"fleiss_kappa": kappa, "units": 10, "labels": 140}
    assert_table("fleiss_kappa", counted(FLEISS), {}, [row])


@pytest.mark.statsmodels
@given(st.integers(2, 5).flatmap(lambda m: st.lists(
    st.lists(st.integers(0, 3), min_size=m, max_size=m), min_size=1, max_size=7)))  # fmt: skip
def test_fleiss(labels):
    """As statsmodels."""
    frame = counted([[unit.count(c) for c in range(4)] for unit in labels])
    table = np.array([[unit.count(c) for c in range(4)] for unit in labels])
    alike = len({label for unit in labels for label in unit}) == 1
    theirs = None if alike else float(inter_rater.fleiss_kappa(table))
    for way, run in table_ways("fleiss_kappa", frame, {}):
        assert metric_engines.same(run()["fleiss_kappa"].item(), theirs), way


def test_fleiss_needs_equal_raters():
    said = (
        "fleiss_kappa needs the same number of labels for every unit: one has 1, another 3. "
        "Use krippendorff_alpha, which allows missing labels"
    )
    assert_table_refused("fleiss_kappa", CODERS, {}, said)
    one = rankql.fleiss_kappa(units("1 2 3"))
    assert one["fleiss_kappa"].to_list() == [None]


def test_cohen_by_hand():
    """Cohen's example as Wikipedia has it: 50 proposals, both yes 20, both no 15: .4."""
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    frame = units(*(" ".join(str(pair[side]) for pair in pairs) for side in (0, 1)))
    row = {"annotator": "A", "other": "B", "cohen_kappa": 0.4, "units": 50}
    for weights in ("none", "linear", "quadratic"):  # of two labels it is the same
        assert_table("cohen_kappa", frame, {"weights": weights}, [row])


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@given(frame=LABELS)
def test_cohen(weights, frame):
    """As scikit-learn, for every two annotators over the units that both have labelled."""
    there = frame.drop_nulls("label")
    expected = []
    for a, b in combinations(sorted(there["annotator"].unique()), 2):
        one, two = (dict(there.filter(annotator=x)["unit", "label"].rows()) for x in (a, b))
        both = sorted(set(one) & set(two))
        if both:
            x, y = [one[u] for u in both], [two[u] for u in both]
            kappa = None
            if len({*x, *y}) > 1:
                option = None if weights == "none" else weights
                # All the labels from 0 to 7, so that their places are their values.
                kappa = float(cohen_kappa_score(x, y, weights=option, labels=range(8)))
            row = {"annotator": a, "other": b, "cohen_kappa": kappa, "units": len(both)}
            expected.append(row)
    assert_table("cohen_kappa", frame, {"weights": weights}, expected)


def test_labels_are_looked_at():
    twice = pl.concat([CODERS, CODERS.tail(1)])
    for name in ("krippendorff_alpha", "cohen_kappa", "fleiss_kappa"):
        said = "annotator C has labelled unit 14 twice. Keep one of the labels"
        assert_table_refused(name, twice, {}, said)
        bad = CODERS.with_columns(label=pl.col("label").cast(pl.Float64) * math.nan)
        assert_table_refused(name, bad, {}, "label must be a finite number, not (?i:nan)")
        nobody = CODERS.with_columns(annotator=pl.lit(None, pl.String))
        assert_table_refused(name, nobody, {}, "annotator must not be NULL")
    said = "level must be 'nominal', 'ordinal', 'interval' or 'ratio', not ratios"
    assert_table_refused("krippendorff_alpha", CODERS, {"level": "ratios"}, said)
    said = "labels must be 0 or more for level 'ratio', not -1"
    negative = CODERS.with_columns(label=pl.col("label") - 2)
    assert_table_refused("krippendorff_alpha", negative, {"level": "ratio"}, said)
    huge = CODERS.with_columns(pl.col("label") * 1e200)
    said = r"labels must lie between -1e100 and 1e100 for .* '(interval|quadratic)', not .*"
    assert_table_refused("krippendorff_alpha", huge, {"level": "interval"}, said)
    assert_table_refused("cohen_kappa", huge, {"weights": "quadratic"}, said)
    assert rankql.krippendorff_alpha(huge).equals(rankql.krippendorff_alpha(CODERS))
    text = CODERS.with_columns(pl.col("label").cast(pl.String))
    said = "labels must be numbers for level 'ratio', not text. Cast them first"
    assert_table_refused("krippendorff_alpha", text, {"level": "ratio"}, said)
    said = "weights must be 'none', 'linear' or 'quadratic', not cubic"
    assert_table_refused("cohen_kappa", CODERS, {"weights": "cubic"}, said)
    text = CODERS.with_columns(pl.col("label").cast(pl.String))
    said = "labels must be numbers for weights 'linear', not text. Cast them first"
    assert_table_refused("cohen_kappa", text, {"weights": "linear"}, said)
    # Where nobody is named, a unit may have the same label as often as it likes.
    anonymous = CODERS.drop("annotator")
    for _, run in table_ways("krippendorff_alpha", anonymous, {"annotator": None}):
        assert run().equals(rankql.krippendorff_alpha(CODERS))


def test_columns_by_name():
    named = CODERS.rename({"unit": "doc", "annotator": "who", "label": "grade"})
    options = {"unit": "doc", "annotator": "who", "label": "grade"}
    for name in ("krippendorff_alpha", "cohen_kappa"):
        rows = getattr(rankql, name)(CODERS).rows(named=True)
        assert_table(name, named, options, rows)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_table_functions_read_files(suffix, tmp_path):
    """Only the columns named; numbers of text files are numbers."""
    path = tmp_path / f"labels.{suffix}"
    frame = CODERS.with_columns(odd=pl.lit("x"))
    {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}[suffix](
        path
    )
    assert_frame_equal(rankql.krippendorff_alpha(path), rankql.krippendorff_alpha(CODERS))
    assert_frame_equal(rankql.cohen_kappa(str(path)), rankql.cohen_kappa(CODERS))
    said = "No column 'unlt'. Did you mean 'unit'? Available: unit, annotator,"
    with pytest.raises(rankql.RankqlError, match=re.escape(said)):
        rankql.fleiss_kappa(path, unit="unlt")
    HISTORY.write_parquet(tmp_path / "log.parquet")
    split = rankql.leave_one_out(tmp_path / "log.parquet")
    assert isinstance(split, pl.DataFrame)
    assert_frame_equal(split, rankql.leave_one_out(HISTORY))


@pytest.mark.parametrize("kind", ["pandas", "arrow", "relation", "stream"])
def test_table_functions_read_frames(kind):
    con = duckdb.connect()
    data = {
        "pandas": CODERS.to_pandas,
        "arrow": CODERS.to_arrow,
        "relation": lambda: con.sql("FROM CODERS"),
        "stream": lambda: CODERS.to_arrow().to_reader(),
    }[kind]()
    expected = rankql.krippendorff_alpha(CODERS, "interval")
    found = rankql.krippendorff_alpha(data, "interval")
    assert isinstance(found, pl.DataFrame) == (kind != "pandas")  # pandas in, pandas out
    assert_frame_equal(pl.DataFrame(found), expected)


def test_table_functions_keep_lazy_frames_lazy():
    found = rankql.krippendorff_alpha(CODERS.lazy(), label=pl.col("label") * 2)
    assert isinstance(found, pl.LazyFrame)
    assert_frame_equal(found.collect(), rankql.krippendorff_alpha(CODERS))
    bad = rankql.krippendorff_alpha(CODERS.lazy(), "none")  # an error when it runs
    with pytest.raises(rankql.RankqlError, match="level must be"):
        bad.collect()


# splits and a tally


def test_tally():
    frame = pl.DataFrame({"rel": [0, 2, 0, None, -1], "lang": ["de", "de", "en", "en", "en"]})
    rows = [(-1, 1, 0.2), (0, 2, 0.4), (2, 1, 0.2), (None, 1, 0.2)]
    columns = ("grade", "n", "share")
    assert_table("tally", frame, {}, [dict(zip(columns, row, strict=True)) for row in rows])
    rows = [("de", 0, 1, 0.5), ("de", 2, 1, 0.5), ("en", -1, 1, 1 / 3), ("en", 0, 1, 1 / 3),
            ("en", None, 1, 1 / 3)]  # fmt: skip
    columns = ("slice", *columns)
    wanted = [dict(zip(columns, row, strict=True)) for row in rows]
    assert_table("tally", frame, {"slice": "lang"}, wanted)


def history(rows):
    kinds = {"user": pl.String, "item": pl.String, "time": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def split(frame, test):
    """The rows expected: those of the places given are for the test."""
    return [
        {**row, "split": "test" if i in test else "train"}
        for i, row in enumerate(frame.rows(named=True))
    ]


HISTORY = history([
    ("a", "x", 1), ("a", "y", 3), ("a", "z", 2),
    ("b", "x", 5), ("b", "y", 5), ("b", "B", 5),  # at one time: the higher item as bytes is last
    ("c", "x", 9),  # nothing would be left
    ("d", "x", 1), ("d", "y", 2), ("d", "y", 2),  # not told apart
])  # fmt: skip


@pytest.mark.parametrize(("n", "test"), [(1, {1, 4, 8, 9}), (2, {1, 2, 3, 4, 8, 9})])
def test_leave_one_out(n, test):
    """By hand."""
    assert_table("leave_one_out", HISTORY, {"n": n}, split(HISTORY, test))


@pytest.mark.parametrize(
    ("options", "test"),
    [
        ({"since": 5}, {3, 4, 5, 6}),
        ({"since": 6}, {6}),
        ({"since": 0}, set(range(10))),
        ({"since": 10}, set()),
        ({"share": 0.4}, {3, 4, 5, 6}),
        ({"share": 0.39}, {6}),  # those of one time go together
        ({"share": 0.05}, {6}),  # never none
        ({"share": 0.34, "query": "user"}, {1, 8, 9}),
        ({"share": 0.05, "query": "user"}, {1, 8, 9}),
        ({"share": 0.67, "query": "user"}, {1, 2, 8, 9}),
    ],
)
def test_time_split(options, test):
    """By hand."""
    assert_table("time_split", HISTORY, options, split(HISTORY, test))


ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "é", "Z", ""]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@given(rows=ROWS, n=st.integers(1, 3), seed=st.randoms())
def test_splits_by_definition(rows, n, seed):
    """Whatever the order of the rows."""
    test = set()
    for user in "ab":
        mine = [(t, item.encode(), i) for i, (u, item, t) in enumerate(rows) if u == user]
        last = {i for t, x, i in mine if sum((t, x) < other[:2] for other in mine) < n}
        test |= last if len(last) < len(mine) else set()
    wanted = split(history(rows), test)
    seed.shuffle(order := list(range(len(rows))))
    frame = history([rows[i] for i in order])
    assert_table("leave_one_out", frame, {"n": n}, wanted)
    latest = max(t for *_, t in rows)
    late = {i for i, row in enumerate(rows) if row[2] == latest
            or sum(other[2] >= row[2] for other in rows) / len(rows) <= 0.5}  # fmt: skip
    if len(late) < len(rows):
        assert_table("time_split", frame, {"share": 0.5}, split(history(rows), late))


def test_split_of_coarse_times():
    """The last of two dates holds more than the share, and is for the test all the same."""
    dates = [date(2024, 5, 1)] * 6 + [date(2024, 5, 2)] * 4
    frame = pl.DataFrame({"user": [1, 2] * 5, "time": dates})
    for options in ({}, {"query": "user"}):
        wanted = split(frame, {6, 7, 8, 9})
        assert_table("time_split", frame, {"share": 0.2, **options}, wanted)
    kept = frame.select(pl.all().shuffle(1)).with_columns(user=pl.col("user").cast(pl.Int8))
    assert kept.pipe(rankql.time_split, share=0.2).drop("split").equals(kept)
    said = (
        "share leaves no row to test on: time has only one value. Use finer times, or leave_one_out"
    )
    assert_table_refused("time_split", frame.head(6), {"share": 0.2}, said)
    said = said.replace("value.", "value for each user.")
    other = frame.with_columns(time=pl.col("user") * 2)
    assert_table_refused("time_split", other, {"share": 0.2, "query": "user"}, said)


def test_split_by_dates():
    frame = HISTORY.with_columns(time=pl.lit(NOON) + pl.duration(days=pl.col("time")))
    for since in (at(5), (at(5) - timedelta(hours=12)).date()):
        assert_table("time_split", frame, {"since": since}, split(frame, {3, 4, 5, 6}))
    assert_table("leave_one_out", frame, {}, split(frame, {1, 4, 8, 9}))
    # The same time of day in another zone is earlier or later.
    zoned = frame.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    since = at(5).replace(tzinfo=timezone(timedelta(hours=5)))
    assert_table("time_split", zoned, {"since": since}, split(zoned, {3, 4, 5, 6}))
    since = at(5).replace(tzinfo=timezone(timedelta(hours=-5)))
    assert_table("time_split", zoned, {"since": since}, split(zoned, {6}))


def test_splits_refuse():
    said = "either since or share must be given: a time, or a share of the rows"
    assert_table_refused("time_split", HISTORY, {}, said)
    assert_table_refused("time_split", HISTORY, {"since": 1, "share": 0.5}, said)
    assert_table_refused(
        "time_split", HISTORY, {"share": 1}, "share must lie between 0 and 1, not 1"
    )
    said = "since must be a finite number, as moment is, not 2024-05-01 12:00:00"
    assert_table_refused("time_split", HISTORY, {"since": NOON}, said)
    said = "n must be a whole number from 1, not 0"
    assert_table_refused("leave_one_out", HISTORY, {"n": 0}, said)
    missing = HISTORY.with_columns(time=pl.lit(None, pl.Int64))
    said = "time must be a timestamp or a finite number, not (NULL|None)"
    for name, options in (("leave_one_out", {}), ("time_split", {"since": 1})):
        assert_table_refused(name, missing, options, said)
        text = HISTORY.with_columns(pl.col("time").cast(pl.String))
        refused = "time must be a timestamp or a number, not text. Cast it first"
        assert_table_refused(name, text, options, refused)


# relevant but disliked


# A ranking whose second item is relevant to the query and disliked by the user: grade -1.
DISLIKED = pl.DataFrame(
    {"query": "q", "item": [*"abcd"], "rel": [2, -1, 1, 0], "pos": [1, 2, 3, 4]}
)
METRICS = ["nDCG@3", "DCG@3", "CG@3", "AP", "RR", "P@3", "R@3", "Bpref", "Judged@3", "TauB",
           "TauDistance", "RBP(p=0.5)", "ERR(max_rel=2)"]  # fmt: skip


def disliked():
    """What each metric makes of it under each convention."""
    return {
        negative: rankql.evaluate(DISLIKED, metrics=METRICS, negative=negative, interval=None)
        for negative in ("zero", "keep", "unjudged")
    }


def test_disliked():
    """Computed, and by hand: linear gain, discounts 1, log2(3), 2."""
    found = disliked()
    ideal = 2 + 1 / math.log2(3)
    zero, signed = 2 + 1 / 2, 2 - 1 / math.log2(3) + 1 / 2
    rows = {
        # A gain of 0, or a loss; never in the ideal.
        "nDCG@3": (zero / ideal, signed / ideal, zero / ideal),
        # Sums keep the sign.
        "DCG@3": (signed, signed, zero),
        "CG@3": (2, 2, 3),
        # Not relevant, judged or not.
        "AP": ((1 + 2 / 3) / 2,) * 3,
        "RR": (1, 1, 1),
        "P@3": (2 / 3,) * 3,
        "R@3": (1, 1, 1),
        "RBP(p=0.5)": (0.5 * (1 + 1 / 4),) * 3,
        "ERR(max_rel=2)": (3 / 4 + 1 / 4 * 1 / 4 / 3,) * 3,
        # What looks at judged items only: an unjudged one is not there.
        "Bpref": ((1 + 1 / 2) / 2, (1 + 1 / 2) / 2, 1),
        "Judged@3": (1, 1, 2 / 3),
        "TauDistance": (2, 2, 0),
        "TauB": (2 / 6, 2 / 6, 1),
    }
    for metric, expected in rows.items():
        values = [found[negative][metric] for negative in found]
        assert all(map(math.isclose, values, expected)), (metric, values, expected)


def test_disliked_in_every_metric():
    """The table of the docs; SQL and polars say the same."""
    assert with_table() == PAGE.read_text(), "run python tests/generate.py grades"


# settings


@pytest.mark.parametrize(
    "setting",
    [
        {"default_null_order": "nulls_first", "default_order": "desc"},
        {"integer_division": True},
        {"threads": 1},
    ],
    ids=str,
)
def test_settings(setting):
    """The user's settings of DuckDB change nothing."""
    con = metric_engines.connect(**setting)
    connected(CODERS, con)
    for name in ("krippendorff_alpha", "cohen_kappa"):
        ours = getattr(rankql, name)(CODERS)
        theirs = con.sql(f"FROM {name}('handed')").pl()
        value = pl.col(name)
        assert theirs.drop(name).equals(ours.drop(name))
        assert (theirs.select(value) - ours.select(value)).select(value.abs().max()).item() < 1e-12
    connected(HISTORY, con)
    rows = con.sql("FROM leave_one_out('handed')").pl()
    assert sorted(rows.rows()) == sorted(rankql.leave_one_out(HISTORY).rows())
    frame = labelled([(1, 1), (2, 1), (2, 1), (None, 3)])
    for how, value in {"mean": 5 / 3, "median": 2.0, "majority": 2.0}.items():
        found = by_sql(
            "consensus",
            frame,
            [metric_engines.Column("rel"), metric_engines.Column("weight"), how],
            {},
            con,
        )
        assert metric_engines.same(found[0], value)


# in DuckDB, from Python


def test_grade_events(tmp_path):
    """A file, a table, a frame: the judgments that the polars twin has."""
    rows = [("u", "a", "view", at(0)), ("u", "a", "buy", at(1)), ("v", "b", "hide", at(2)),
            ("v", "c", None, at(3)), (None, "a", "buy", at(0)),
            ("v", None, "buy", at(0))]  # fmt: skip
    frame = pl.DataFrame(rows, ["user_id", "item", "event", "time"], orient="row")
    frame.write_parquet(tmp_path / "log.parquet")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE log AS FROM '{tmp_path}/log.parquet'")
    for options in (
        {},
        {"how": "sum", "cap": 2.5},
        {"until": at(2.5), "half_life": 2 * DAY, "within": 2 * DAY},
        {"until": date(2024, 5, 3)},
    ):
        timed = {"moment": "time"} if "until" in options else {}
        expected = (
            frame.pipe(rankql.graded, "event", GRADES, by=["user_id", "item"], **options, **timed)
            .rename({"graded": "rel"}).drop_nulls().sort("user_id", "item")
        )  # fmt: skip
        for log, connection in ((frame, None), (tmp_path / "log.parquet", None), ("log", con)):
            found = rankql.grade_events(log, GRADES, con=connection, **options)
            assert found.columns == expected.columns
            for row, want in zip(found.rows(), expected.rows(), strict=True):
                assert row[:2] == want[:2] and metric_engines.same(row[2], want[2])


def test_grade_events_before_evaluate():
    log = pl.DataFrame({"user": [1, 1], "item": ["a", "b"], "event": ["view", "buy"]})
    run = pl.DataFrame({"user": [1, 1], "item": ["a", "b"], "score": [2.0, 1.0]})
    qrels = rankql.grade_events(log, GRADES)
    found = rankql.evaluate(run, qrels, "nDCG@2", interval=None)["nDCG@2"]
    assert abs(found - (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))) < 1e-15


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"event": "evnt"},
            "log has no column 'evnt'. Pass event='...'. Did you mean 'event'?.*",
        ),
        ({"until": 3}, "log has no column 'time'. Pass time='...'.*"),
        ({"grades": {"view": 1}}, "event buy has no grade. .*"),
        ({"grades": 3}, "grades must be a dict of event: grade, not a int"),
        ({"grades": {"view": math.nan, "buy": 1}}, "grades must be finite numbers, not .*"),
        ({"how": "last"}, "how must be 'max' or 'sum', not last"),
        ({"query": None}, "No query column in log: .*"),
        ({"item": None}, "log has item and docno. Choose one: item='item'"),
    ],
)
def test_grade_events_refuses(options, said):
    log = pl.DataFrame({"who": [1, 1], "item": ["a", "b"], "event": ["view", "buy"]})
    log = log.with_columns(docno="item")
    options = {"grades": GRADES, "query": "who", "item": "item", **options}
    with pytest.raises(rankql.RankqlError) as error:
        rankql.grade_events(log, **options)
    assert re.fullmatch(said, str(error.value).partition("\n")[0]), str(error.value)


# what broke it once: one test for each


def test_a_grade_that_is_no_number_is_refused():
    """In a MAP, in a STRUCT, from Python: text is no grade, even where it could be read as one."""
    con = connected(log(["view", "buy"]))
    for mapping in (
        "MAP {'view': '1', 'buy': 'three'}",
        "MAP {'view': '1', 'buy': '3'}",
        "{'view': 1, 'buy': 'x'}",
        "{'view': 1, 'b\"uy BOOLEAN': 2, 'buy': 'x'}",
        "MAP {'view': [1], 'buy': [3]}",
        f"MAP {{'view': 1, 'buy': {10**400}}}",
    ):
        said = complaint(lambda m=mapping: con.sql(f"SELECT graded(event, {m}) FROM handed").pl())
        assert said.startswith("grades must be finite numbers, not {"), said
    mapping = "{'view': 1, 'b\"uy VARCHAR, ': 2, 'buy': 1.5, 'x': NULL, 'ok': true}"
    assert con.sql(f"SELECT graded(event, {mapping}) FROM handed").fetchall() == [(1.5,)]
    frame = log(["view", "buy"]).with_columns(user=1, item=2)
    for grades in ({"view": "1", "buy": "three"}, {"view": 1, "buy": 10**400}, {"buy": object()}):
        for run in (
            lambda g=grades: rankql.grade_events(frame, g),
            lambda g=grades: frame.select(rankql.graded("event", g)),
        ):
            assert complaint(run).startswith("grades must be finite numbers, not {")


def test_unknown_options_are_refused_always():
    """Also where no row asks for them."""
    said = "unknown must be a grade or 'error', not x"
    assert_refused("graded", log(["view"]), ["event", GRADES], {"unknown": "x"}, said)
    assert_refused("graded", log([None]), ["event", GRADES], {"unknown": "x"}, said)
    said = "ties must be 'low', 'high' or 'null', not x"
    for how in ("mean", "median", "majority"):
        assert_refused("consensus", labelled([(1, 1)]), ["rel"], {"how": how, "ties": "x"}, said)


@pytest.mark.parametrize("collation", ["nocase", "noaccent"])
def test_collation_merges_nobody(collation):
    """Users, annotators, units, slices and labels are told apart by their bytes."""
    con = metric_engines.connect(default_collation=collation)
    users = history([("u", "x", 1), ("U", "x", 2), ("ú", "y", 3), ("U", "y", 4), ("u", "z", 5)])
    labels = pl.DataFrame(
        [(u, a, x, s) for s in ("s", "S", "é", "e") for u in ("1", "l", "L", "í")
         for a, x in zip("aAáb", (u, u.upper(), "i", s), strict=True)],
        ["unit", "annotator", "label", "lang"], orient="row",
    )  # fmt: skip
    grades = pl.DataFrame({"rel": ["b", "A", "a", "á", "B", None], "lang": [*"éeeéEE"]})
    for name, frame, options in [
        ("leave_one_out", users, {}),
        ("time_split", users, {"share": 0.5, "query": "user"}),
        ("tally", grades, {}),
        ("tally", grades, {"slice": "lang"}),
        ("krippendorff_alpha", labels, {"level": "nominal", "slice": "lang"}),
        ("cohen_kappa", labels, {"slice": "lang"}),
        ("fleiss_kappa", labels, {"slice": "lang"}),
    ]:
        ours = getattr(rankql, name)(frame, **options).rows()
        theirs = connected(frame, con).sql(f"FROM {name}('handed'{options_of(options)})").fetchall()
        if name in ("leave_one_out", "time_split"):
            ours, theirs = sorted(ours), sorted(theirs)
        assert len(ours) == len(theirs), name
        for one, other in zip(ours, theirs, strict=True):
            assert all(
                metric_engines.same(x, y) if isinstance(x, float) else x == y
                for x, y in zip(one, other, strict=True)
            ), (name, one, other)
    events = users.with_columns(event=pl.lit("view"))
    found = rankql.grade_events(events, {"view": 1, "VIEW": 2}, con=con)
    wanted = events.select("user", "item", rel=1.0).sort("user", "item")
    assert found.equals(wanted)


NO_TIMES = ["TIME '10:00'", "uuid()", "[1]", "[now()::TIMESTAMP]", "INTERVAL 1 DAY", "true", "'1'"]


@pytest.mark.parametrize("time", NO_TIMES)
def test_what_is_no_time_is_refused(time):
    con = metric_engines.connection()
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE odd AS SELECT 'u' AS user, 'x' AS item, {time} AS time"
    )
    for call in (
        "leave_one_out('odd')",
        "time_split('odd', share := 0.5)",
        "time_split('odd', since := 1)",
        "time_split('odd', since := TIMESTAMP '2024-05-01')",
        "(SELECT graded(item, MAP {'x': 1}, moment := time, until := 3) FROM odd)",
    ):
        said = complaint(lambda c=call: con.sql(f"FROM {c}").fetchall())
        assert re.fullmatch(
            "(time|moment) must be a timestamp or a number, not .*. Cast it first", said
        )
    odd = pl.DataFrame(
        {"user": "u", "item": "x", "time": pl.Series(con.sql("FROM odd").fetchall()[0][-1:])}
    )
    said = complaint(lambda: rankql.leave_one_out(odd))
    kind = "not hold Python objects" if time == "uuid()" else "be a timestamp or a number, not .*"
    assert re.fullmatch(f"time must {kind}. Cast it first", said)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("end", ["infinity", "-infinity"])
def test_what_is_no_finite_time_is_refused(kind, end):
    con = metric_engines.connection()
    row = f"SELECT 'u' AS user, 'x' AS item, '{end}'::{kind} AS time"
    con.execute(f"CREATE OR REPLACE TEMP TABLE odd AS {row}")
    frame = con.sql("FROM odd").pl()
    refused = f"time must be a timestamp or a finite number, not {end}"
    for call in ("leave_one_out('odd')", "time_split('odd', share := 0.5)",
                 "time_split('odd', since := TIMESTAMP '2024-05-01')"):  # fmt: skip
        assert complaint(lambda c=call: con.sql(f"FROM {c}").fetchall()) == refused
    for run in (
        lambda: rankql.leave_one_out(frame),
        lambda: rankql.time_split(frame, since=NOON),
    ):
        assert complaint(run) == refused


ODD_LABELS = [date(2024, 5, 1), b"x", [1], timedelta(1), NOON]


@pytest.mark.parametrize("label", ODD_LABELS, ids=str)
def test_odd_labels_are_refused(label):
    """As numbers; by name they are labels as any other."""
    frame = pl.DataFrame({"unit": [1, 1], "annotator": ["a", "b"], "label": [label, label]})
    for name, options in [
        ("krippendorff_alpha", {"level": "ordinal"}),
        ("krippendorff_alpha", {"level": "interval"}),
        ("cohen_kappa", {"weights": "linear"}),
        ("cohen_kappa", {"weights": "quadratic"}),
    ]:
        ((option, value),) = options.items()
        said = f"labels must be numbers for {option[:7]}s? '{value}', not .*. Cast them first"
        assert_table_refused(name, frame, options, said)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "slice") for name in ("krippendorff_alpha", "cohen_kappa", "fleiss_kappa")),
        ("tally", "label"),
    ],
)
def test_an_enum_is_in_the_order_of_text(name, of):
    frame = pl.DataFrame(
        {"unit": [1, 1] * 2, "annotator": ["x", "y"] * 2, "label": [1, 0] * 2, "part": [*"zzaa"]}
    )
    for kind in (pl.Enum(["z", "a"]), pl.Categorical):
        categories = frame.with_columns(pl.col("part").cast(kind))
        for way, run in table_ways(name, categories, {of: "part"}):
            assert run()[:, 0].cast(pl.String).to_list() == ["a", "z"], way


@pytest.mark.parametrize(
    "weight",
    [
        pl.Series(["3"]),
        pl.Series(["3"], dtype=pl.Categorical),
        pl.Series(["3"], dtype=pl.Enum(["3"])),
        pl.Series([date(2024, 5, 1)]),
        pl.Series([[3]]),
        pl.Series([DAY]),
    ],
    ids=lambda s: str(s.dtype),
)
def test_odd_weights_are_refused(weight):
    frame = pl.DataFrame({"g": [0], "rel": [1.0], "weight": weight})
    said = r"weight must be a finite number from 0, not (?s:.*)"
    assert_refused("consensus", frame, ["rel"], {"weight": "weight"}, said)


def test_events_are_text_whole_numbers_or_booleans():
    frame = pl.DataFrame({"g": [0, 0], "event": [True, None]})
    assert_values("graded", frame, ["event", {"true": 2}], {}, {0: 2.0})
    assert frame.select(rankql.graded("event", {True: 2})).item() == 2
    for event in (NOON, 1.5, [1], ["a"]):
        odd = frame.with_columns(event=pl.Series([event, event]))
        said = "event must be text, a whole number or a boolean, not .*. Cast it to text"
        assert_refused("graded", odd, ["event", {"1": 2}], {}, said)


@pytest.mark.parametrize("name", ["split", "Split"])
def test_a_column_split_of_any_case(name):
    """Of the log itself: what is inside of a column has names of its own."""
    said = "the log has a column 'split' already: drop or rename it"
    for function, options in (("leave_one_out", {}), ("time_split", {"since": 5})):
        assert_table_refused(function, HISTORY.with_columns(pl.lit(1).alias(name)), options, said)
    inside = HISTORY.with_columns(more=pl.struct(pl.lit(1).alias(name)))
    assert_table("leave_one_out", inside, {}, split(inside, {1, 4, 8, 9}))


def test_decimals_are_numbers():
    """Which DuckDB hands to Python for DECIMAL."""
    half, two = Decimal("0.5"), Decimal(2)
    grades = {"view": half, "buy": 3, "hide": None}
    frame = pl.DataFrame({"user": 1, "item": 1, "event": ["view", "x", "buy"], "t": [1, 1, 3]})
    options = {"how": "sum", "cap": Decimal("4.25"), "unknown": half}
    timed = {"until": Decimal(4), "within": Decimal(3), "half_life": two}
    for more, value in (({}, 4.0), (timed, 2 * 0.5 * 2**-1.5 + 3 * 2**-0.5)):
        found = rankql.grade_events(frame, grades, **options, **more, time="t")["rel"].item()
        assert metric_engines.same(found, value)
        moment = {"moment": "t"} if more else {}
        value = frame.select(rankql.graded("event", grades, **options, **more, **moment)).item()
        assert metric_engines.same(found, value)
    for bad in (Decimal("nan"), Decimal("inf")):
        said = "grades must be finite numbers, not .*"
        assert re.fullmatch(said, complaint(lambda b=bad: rankql.grade_events(frame, {"view": b})))


@given(frame=LABELS, base=st.sampled_from([1e9, -1e12, 2**50]))
def test_alpha_of_large_labels(frame, base):
    """Their differences alone matter; the squares of what is large would not be exact."""
    options = {"level": "interval"}
    rows = rankql.krippendorff_alpha(frame, **options).rows(named=True)
    large = frame.with_columns(pl.col("label") + base)
    assert_table("krippendorff_alpha", large, options, rows)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grades": {1: 1, "1": 2}}, "grades must name an event once, as text, not .*"),
        ({"unknown": object()}, "unknown must be a grade or 'error', not .*"),
        ({"how": object()}, "how must be 'max' or 'sum', not .*"),
        ({"until": object()}, "until must be a finite number or a datetime, not <object .*"),
        ({"until": np.datetime64("2024-05-01")},
         r"until must be a finite number or a datetime, not (np|numpy)\.datetime64\(.*"),
        ({"until": 3, "within": "3"}, "within must be a finite number or a timedelta, not '3'"),
        ({"until": 3, "half_life": 10**400}, "half_life must be a finite number or .*"),
        ({"how": "sum", "cap": object()}, "cap must be a finite number, not .*"),
    ],
)  # fmt: skip
def test_grade_events_pastes_no_objects(options, said):
    log = pl.DataFrame({"user": 1, "item": ["a", "b"], "event": ["view", "buy"], "time": [1, 2]})
    found = complaint(lambda: rankql.grade_events(log, **{"grades": GRADES, **options}))
    assert re.fullmatch(said, found), found


@pytest.mark.parametrize("collation", ["nocase", "noaccent"])
def test_collation_merges_no_ids(collation):
    """Nor events: each has its own grade."""
    con = metric_engines.connect(default_collation=collation)
    assert con.sql("""
        SELECT grades_of(['a', 'A', 'á'], MAP {'A': 1, 'á': 2}), grades_of(x, x),
               graded('A', MAP {'a': 1, 'A': 2, 'á': 3})
        FROM (VALUES (['a', 'A', 'á'])) AS t (x) GROUP BY x
    """).fetchall() == [([None, 1, 2], [1, 1, 1], 2)]
