"""Which input the functions of logs refuse: each message once, the same in SQL and in polars."""

import math
import re
from datetime import datetime, timedelta

import polars as pl
import pytest

import rankql
from support.calls import assert_refused, assert_table_refused

NAN, INF, NOON = math.nan, math.inf, datetime(2024, 5, 1, 12)
DAY = timedelta(days=1)
GRADES = {"view": 1, "buy": 3, "shown": None}
SHOWN = {"click": [1, 0, 1], "propensity": [1.0, 1.0, 0.25], "predicted": [0.5, 0.5, 0.5]}
# What a function reads unless a case changes it; the arguments of functions of groups.
ROWS = {
    "graded": {"event": ["view", "view"], "t": [0, 2]},
    "consensus": {"rel": [1.0, 2.0], "weight": [1.0, 1.0]},
    "debiased": SHOWN,
}
ARGUMENTS = {
    "graded": {"event": "event", "grades": GRADES},
    "consensus": {"rel": "rel"},
    "debiased": {"click": "click", "propensity": "propensity", "clip": None, "predicted": None},
}
LABELS = {"unit": [1, 1, 2, 2], "annotator": [*"ABAB"], "label": [1, 2, 2, 2]}
HISTORY = {"user": [*"aab"], "item": [*"xyx"], "time": [1, 2, 3]}
PROPENSITY = {"query": [1, 1, 2, 2], "item": [*"aaaa"], "pos": [1, 2, 1, 2], "click": [1, 0, 1, 0]}
TABLES = {
    **dict.fromkeys(("krippendorff_alpha", "cohen_kappa"), LABELS),
    **dict.fromkeys(("leave_one_out", "time_split"), HISTORY),
    **dict.fromkeys(("randomised_propensity", "harvested_propensity"), PROPENSITY),
    "counterfactual": {
        "query": [1, 1, 1], "item": ["a", "a", "b"], "click": [1, 0, None],
        "propensity": [1.0, 0.5, None], "pos": [1, 1, 2], "predicted": [0.5, 0.5, 0.5],
        "examination": [1.0, 1.0, 0.5],
    },
}  # fmt: skip

CLICK, CHANCE = "click must be 0 or 1, not ", "propensity must be above 0 and at most 1, not "
K = "k must be a whole number from 1, not {}. Leave k out for the complete ranking"
POS = "pos must be a whole number from 1, not "
SCORE = ". If it is a score, rank by it first, as ndcg_by_score does"
SHARED = "several items share a position.*"
GIVEN = "propensity must be given where an item was shown. Estimate it, or leave out such rows"
SEVERAL = "{} must be the same in all rows of a query and item: item a of query 1 has several"
# The macros say more than the functions of polars.
IN_SQL = re.escape(
    ". Times: row_number() OVER (PARTITION BY query ORDER BY shown_at) in a subquery, or "
    "epoch(shown_at) as the score. Ids and words: click_id IS NOT NULL, or CASE"
)
TEXT = rf" must be a number, not text\. Cast it first({IN_SQL})?"
TIMED = {"moment": "t", "unknown": 1}
PREDICTED, EXAMINED = {"predicted": "predicted"}, {"examination": "examination"}
CHANCES = [
    *(({"click": [1, click, 0], "propensity": [1.0, bad, 1.0]}, {}, f"{CHANCE}{bad}")
      for click, bad in ((0, 0.0), (1, 1.5), (None, NAN))),
    ({}, {"clip": -0.5}, "clip must be above 0 and at most 1, not -0.5"),
    ({"propensity": [1.0, None, 1.0]}, {}, GIVEN),
    *(({"click": [1, 0, bad]}, {}, f"{CLICK}{bad}") for bad in (2, NAN)),
    ({"click": ["1", "0", "1"]}, {}, f"{CLICK}text. Cast it first"),
    ({"propensity": ["1", "1", "1"]}, {}, f"propensity{TEXT}"),
]  # fmt: skip
AGREEMENT = [
    ({"unit": [1, 1, 1, 2]}, {}, "annotator A has labelled unit 1 twice. Keep one of the labels"),
    ({"label": [1.0, NAN, 1, 1]}, {}, "label must be a finite number, not (?i:nan)"),
    ({"annotator": [None, "A", "A", "B"]}, {}, "annotator must not be NULL"),
]
NUMBERS = "labels must be numbers for (level|weights) '{}', not .*. Cast them first"
HUGE = "labels must lie between -1e100 and 1e100 for .* '(interval|quadratic)', not .*"
# Both functions read the log by one macro: each refuses a half.
TOP = r"Position 1 is the top: add 1, or is the order rel, pos\?"
RELATIVE = "the log must have rows at position 1, to which propensities are relative"
POSITIONS = [
    ({"pos": [1, 2, 1, 0]}, {}, f"{POS}0. {TOP}"),
    ({"pos": [1, 2, 1, 1.5]}, {}, f"{POS}1.5{SCORE}"),
    ({"pos": ["1", "2", "1", "2"]}, {}, f"pos{TEXT}"),
    ({"click": [1, 0, 1, 2]}, {}, f"{CLICK}2"),
    ({"click": [1, 0, 1, None]}, {}, f"{CLICK}NULL"),
    ({"query": [1, 1, 2, None]}, {}, "query must not be NULL"),
    ({"pos": [3, 2, 3, 2]}, {}, RELATIVE),
    ({"pos": [3, 2, 3, 2]}, {"slice": "query"}, rf"{RELATIVE}; there are none where query is \d"),
    ({}, {"confidence": 1}, "confidence must lie between 0 and 1, not 1"),
    ({"click": [1, 1, 1, 1]}, {},
     "the log holds clicks only. Propensities also need the impressions without a click"),
    # Rows that were not shown are left out, but checked.
    ({"click": [1, 0, 1, 7], "pos": [1, 2, 1, None]}, {}, f"{CLICK}7"),
]  # fmt: skip
SPLIT = "either since or share must be given: a time, or a share of the rows"
TIMES = [
    ({"time": [1, 2, None]}, "time must be a timestamp or a finite number, not (NULL|None)"),
    ({"time": ["1", "2", "3"]}, "time must be a timestamp or a number, not text. Cast it first"),
    ({"time": [1600000000, 0, 1600000200000]},
     r"time has times in seconds \(1600000000\) and, in 1 of 3 rows, in milliseconds "
     r"\(1600000200000\). Divide those above 100000000000 by 1000 first"),
    ({"time": [1.6e15, 1.6e9, 1.6e15]},
     r"time has times in seconds .* in 2 of 3 rows, in microseconds "
     r"\(1600000000000000\). Divide those above 100000000000000 by 1000000 first"),
]  # fmt: skip

REFUSED = {
    "graded": [
        ({"event": ["view", "swipe"]}, {},
         "event swipe has no grade. Add it to grades, or set unknown to a grade. "
         "Events with a grade: view, buy, shown"),
        # Also outside of the window.
        ({"event": ["view", "swipe"]}, {"moment": "t", "until": 1}, "event swipe has no grade. .*"),
        ({"event": [1.5, 1.5]}, {},
         "event must be text, a whole number or a boolean, not .*. Cast it to text"),
        ({}, {"unknown": "skip"}, "unknown must be a grade or 'error', not skip"),
        ({}, {"unknown": NAN}, "unknown must be a grade or 'error', not nan"),
        ({}, {"how": "last"}, "how must be 'max' or 'sum', not last"),
        ({}, {"cap": 3}, "cap is for how 'sum', not for 'max'"),
        ({}, {"how": "sum", "cap": INF}, "cap must be a finite number, not inf"),
        ({}, {"half_life": 2},
         "until must be given: the time that within and half_life count back from"),
        ({}, {"until": 5}, "moment must be a timestamp or a finite number, not (NULL|None)"),
        ({}, TIMED | {"until": NOON},
         "until must be a finite number, as moment is, not 2024-05-01 12:00:00"),
        ({}, TIMED | {"until": 9, "half_life": DAY},
         "half_life must be a number above 0, as moment is a number, not (1 day.*|24:00:00)"),
        ({}, TIMED | {"until": 9, "within": 0},
         "within must be a number above 0, as moment is a number, not 0"),
        ({"t": [NOON, NOON]}, TIMED | {"until": NOON + DAY, "half_life": 7},
         "half_life must be an interval above 0, as moment is a timestamp, not 7"),
        ({"t": [NOON, NOON]}, TIMED | {"until": 5},
         "until must be a timestamp, as moment is, not 5"),
    ],
    "consensus": [
        *(({"weight": [1.0, bad]}, {"weight": "weight", "how": how},
           f"weight must be a finite number from 0, not (?i:{bad}(.0)?|NULL)")
          for how, bad in (("mean", -1), ("median", NAN), ("majority", INF), ("mean", None))),
        ({"weight": [0.0, 0]}, {"weight": "weight", "how": "median"},
         "weight must not be 0 for all labels of a group"),
        ({"weight": ["3", "3"]}, {"weight": "weight"},
         "weight must be a finite number from 0, not .*"),
        ({"rel": [1.0, NAN]}, {}, "rel must be a finite number, not (?i:nan)"),
        ({}, {"how": "vote"}, "how must be 'mean', 'median' or 'majority', not vote"),
        ({}, {"how": "majority", "ties": "x"}, "ties must be 'low', 'high' or 'null', not x"),
    ],
    "debiased": [
        *CHANCES,
        ({"predicted": [0.5, 0.5, 1.1]}, PREDICTED, "predicted must lie between 0 and 1, not 1.1"),
        ({"click": [1, 0, None], "propensity": [1.0, 1, None], "predicted": [0.5, 0.5, -0.1]},
         PREDICTED, "predicted must lie between 0 and 1, not -0.1"),
        ({"predicted": ["1"] * 3}, PREDICTED, f"predicted{TEXT}"),
    ],
    "krippendorff_alpha": [
        *AGREEMENT,
        ({}, {"level": "ratios"},
         "level must be 'nominal', 'ordinal', 'interval' or 'ratio', not ratios"),
        ({"label": [-1, 1, 1, 1]}, {"level": "ratio"},
         "labels must be 0 or more for level 'ratio', not -1"),
        ({"label": [1e200, 1, 1, 1]}, {"level": "interval"}, HUGE),
        *(({"label": [label] * 4}, {"level": level}, NUMBERS.format(level))
          for label, level in ((NOON, "ordinal"), ([1], "interval"), ("1", "ratio"))),
    ],
    "cohen_kappa": [
        *AGREEMENT,
        ({}, {"weights": "cubic"}, "weights must be 'none', 'linear' or 'quadratic', not cubic"),
        ({"label": [1e200, 1, 1, 1]}, {"weights": "quadratic"}, HUGE),
        ({"label": ["1"] * 4}, {"weights": "linear"}, NUMBERS.format("linear")),
    ],
    "leave_one_out": [
        ({}, {"n": 0}, "n must be a whole number from 1, not 0"),
        *((changes, {}, message) for changes, message in TIMES),
    ],
    "time_split": [
        ({}, {}, SPLIT),
        ({}, {"since": 1, "share": 0.5}, SPLIT),
        ({}, {"share": 1}, "share must lie between 0 and 1, not 1"),
        ({}, {"since": NOON},
         "since must be a finite number, as moment is, not 2024-05-01 12:00:00"),
        *((changes, {"since": 1}, message) for changes, message in TIMES),
    ],
    "randomised_propensity": POSITIONS[::2],
    "harvested_propensity": [
        *POSITIONS[1::2],
        ({"item": [*"aaa", None]}, {}, "item must not be NULL"),
        ({}, {"pairs": "model"}, "pairs must be 'all', 'adjacent' or 'first', not model"),
    ],
    "counterfactual": [
        ({"click": [1, 3, None]}, {}, f"{CLICK}3"),
        ({"propensity": [1.0, 0.0, None]}, {}, f"{CHANCE}0.0"),
        ({"propensity": [1.0, None, None]}, {}, GIVEN),
        ({"query": [1, None, 1]}, {}, "query must not be NULL"),
        ({"item": ["a", "a", None]}, {}, "item must not be NULL"),
        ({"pos": [0, 0, 2]}, {}, f"{POS}0. {TOP}"),
        *(({"pos": [bad, bad, 2]}, {}, re.escape(f"{POS}{bad}{SCORE * (bad == 1.5)}"))
          for bad in (1.5, 2**53 + 1)),
        ({"pos": [1, 3, 2]}, {}, SEVERAL.format("pos")),
        ({"pos": [1, 1, 1]}, {}, SHARED),
        ({"predicted": [0.5, 2.0, None]}, PREDICTED,
         "predicted must lie between 0 and 1, not 2.0"),
        ({"examination": [1.0, 1.0, None]}, EXAMINED, "examination must be given where pos is"),
        ({"examination": [1.0, 0.5, 0.5]}, EXAMINED, SEVERAL.format("examination")),
        ({}, {"clip": "0.5"}, "clip must be above 0 and at most 1, not 0.5"),
        ({}, {"confidence": 1}, "confidence must lie between 0 and 1, not 1"),
        *(({}, {"k": k}, K.format(k)) for k in (0, 10**18)),
        # Rows beyond k are checked, too.
        ({"click": [1, 0, 7], "propensity": [1.0] * 3, "pos": [1, 1, None]}, {"k": 1}, f"{CLICK}7"),
        # Under the user's name of a column.
        ({"own": [1, 3, None]}, {"click": "own"}, "own must be 0 or 1, not 3"),
    ],
}  # fmt: skip


# DuckDB plans each call of these for 0.2 seconds.
LONG_PLANS = ("counterfactual", "harvested_propensity")


def frame_of(rows, changes):
    series = {
        name: values if isinstance(values, pl.Series) else pl.Series(values, strict=False)
        for name, values in changes.items()
    }
    return pl.DataFrame(rows).with_columns(**series)


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("name", "changes", "options", "message"),
    [
        pytest.param(name, *case, marks=[pytest.mark.slow] if name in LONG_PLANS else [])
        for name, cases in REFUSED.items()
        for case in cases
    ],
)
def test_input_is_refused(name, changes, options, message):
    if name in TABLES:
        assert_table_refused(name, frame_of(TABLES[name], changes), options, message)
        return
    arguments = {key: options.get(key, value) for key, value in ARGUMENTS[name].items()}
    options = {key: value for key, value in options.items() if key not in arguments}
    frame = frame_of(ROWS[name], changes).with_columns(g=0)
    assert_refused(name, frame, [*arguments.values()], options, message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, options, message) for name in LONG_PLANS
     for changes, options, message in REFUSED[name]
     if options and not changes and options != {"pairs": None}],
)  # fmt: skip
def test_options_are_checked_without_rows(name, options, message):
    assert_table_refused(name, pl.DataFrame(TABLES[name]).clear(), options, message)


@pytest.mark.parametrize("form", ["frame", "parquet"])
@pytest.mark.parametrize("column", ["user", "item"])
def test_ids_that_are_not_numbers_are_refused(column, form, tmp_path):
    log = pl.DataFrame({"user": [1.0, 2.0], "item": [1.0, 2.0]})
    nan = pl.when(pl.col(column) > 1).then(float("nan")).otherwise(column)
    log = log.with_columns(nan.alias(column))
    if form == "parquet":
        log.write_parquet(log := tmp_path / "log.parquet")
    with pytest.raises(rankql.RankqlError, match=f"{column} is NaN in 1 of 2 rows"):
        rankql.most_popular(log)
