"""Debias: grades from clicks, new rankings from old logs: by hand and by definition."""

import itertools
import math
import random
import statistics
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rankql
from support.calls import assert_values, table_ways

FEW = "the interval rests on fewer than 30 queries"


def rows(*groups):
    """Rows (g, click, propensity, predicted) of groups of (click, propensity[, predicted])."""
    lines = [(g, *(row + (None,) * 3)[:3]) for g, group in enumerate(groups) for row in group]
    random.Random(2).shuffle(lines)
    schema = {"g": pl.Int64, "click": pl.Int64, "propensity": pl.Float64, "predicted": pl.Float64}
    return pl.DataFrame(lines, schema=schema, orient="row")


# grades


SHOWN = [(1, 1.0), (0, 1.0), (1, 0.25), (0, 0.25)]
GUESSED = [(1, 0.25, 0.5), (0, 0.25, 0.5)]


# The clip, whether there are predictions, and groups of rows with their grade.
BY_HAND = [
    (None, False, [(SHOWN, 5 / 4), ([(0, 0.1)], 0.0), ([(None, None)], None),
                   ([(1, 0.5), (None, None)], 2.0),  # not shown that time
                   ([(1, 0.5), (None, 0.2)], 2.0)]),
    (0.25, False, [(SHOWN, 5 / 4)]),
    (0.5, False, [(SHOWN, 3 / 4)]),
    (1, False, [(SHOWN, 1 / 2)]),
    # A prediction cancels out without clip, and counts where there are no clicks.
    (None, True, [(GUESSED, 2.0), ([(None, None, 0.3)], 0.3), ([(None, None, None)], None),
                  ([(None, None, 0.3), (0, 1.0, 0.3)], 0.0)]),
    # 0.5 + (1 - 0.125) / 0.5 and 0.5 + (0 - 0.125) / 0.5; without a guess there is no correction.
    (0.5, True, [(GUESSED, (2.25 + 0.25) / 2), ([(None, None, 0.3), (None, 0.1, 0.5)], 0.4),
                 ([(1, 0.25, None), (0, 0.25, 0.5)], (2 + 0.25) / 2)]),
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize(("clip", "predicted", "cases"), BY_HAND)
def test_grades_by_hand(clip, predicted, cases):
    """Of booleans and decimals too."""
    arguments = ["click", "propensity", clip, *(["predicted"] if predicted else [])]
    groups, values = zip(*cases, strict=True)
    for kinds in ({}, {"click": pl.Boolean, "propensity": pl.Decimal(9, 2)}):
        frame = rows(*groups).cast(kinds)
        assert_values("debiased", frame, arguments, {}, dict(enumerate(values)))


# a new ranking, straight from the definition


def estimate_query(items, name, divisor, k):
    """The numerator and denominator of each metric of a query, and its figures; {} if not shown.

    An item is the list of its rows; its grade is the mean over those that were shown.
    """
    graded, top, weights, cuts, never = [], [], [], 0, 0
    for rows in items:
        pos, look = rows[0]["pos"], 1 if name == "naive" else rows[0]["examination"]
        seen = [row for row in rows if row["click"] is not None]
        guesses = [row["predicted"] for row in rows if row["predicted"] is not None]
        grades = []
        for row in seen:
            t, guess = row["propensity"], (row["predicted"] or 0) if name == "DR" else 0
            grades.append(guess + (row["click"] - t * guess) / divisor(t))
        grades = grades or (guesses if name == "DR" else [])
        graded += [statistics.fmean(grades)] if grades else []
        if pos is not None and (k is None or pos <= k):
            top.append((pos, statistics.fmean(grades) if grades else 0, look))
            never += not seen
            clicked = [row["propensity"] for row in seen if row["click"]]
            weights += [1 / divisor(t) for t in clicked]
            cuts += sum(divisor(t) > t for t in clicked) if name != "naive" else 0
    clicks = [row["click"] for rows in items for row in rows if row["click"] is not None]
    if not clicks:
        return {}
    names = ["DCG", "RR", *(["nDCG"] if any(clicks) else []), *(["CTR"] if top else [])]
    best = sorted((g for g in graded if g > 0), reverse=True)[:k]
    ideal = math.fsum(g / math.log2(p + 1) for p, g in enumerate(best, 1))
    parts = {}
    for metric in names:
        discounts = {"RR": lambda p, _: 1 / p, "CTR": lambda _, look: look or 0}
        discount = discounts.get(metric, lambda p, _: 1 / math.log2(p + 1))
        total = math.fsum(g * discount(p, look) for p, g, look in sorted(top))
        if name == "SNIPS":
            parts[metric] = (total, ideal if metric == "nDCG" else math.fsum(graded))
        elif metric == "RR":
            left = total = 1
            for p, g, _ in sorted(top):
                total, left = total + left * g / p, left * (1 - g)
            parts[metric] = (total - 1, 1)
        else:
            parts[metric] = (total / {"nDCG": ideal, "CTR": len(top)}.get(metric, 1), 1)
    return {metric: (part, weights, cuts, len(top), never) for metric, part in parts.items()}


def reference(log, k, clip, predicted, examination, confidence):
    """metric, estimator -> the row, of a log of one slice."""
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    queries = defaultdict(lambda: defaultdict(list))
    for row in log:
        queries[row["query"]][row["item"]].append(row)
    divisors = {"naive": lambda t: 1, "IPS": lambda t: t, "SNIPS": lambda t: t}
    divisors |= {"clipped IPS": lambda t: max(t, clip)} if clip else {}
    divisors |= {"DR": lambda t: max(t, clip or 0)} if predicted else {}
    metrics = ("DCG", "nDCG", "RR", *(["CTR"] if examination else []))
    result = {}
    for (name, divisor), metric in itertools.product(divisors.items(), metrics):
        each = [estimate_query([*q.values()], name, divisor, k) for q in queries.values()]
        each = [figures[metric] for figures in each if metric in figures]
        parts = [part for part, *_ in each]
        weights = [weight for _, of_query, *_ in each for weight in of_query]
        cuts, top, never = (sum(figures[i] for figures in each) for i in (2, 3, 4))
        divided = math.fsum(part for _, part in parts)
        value = math.fsum(part for part, _ in parts) / divided if divided else None
        lo = hi = None
        if value is not None and len(parts) > 1:
            left = [(v - value * part) * len(parts) / divided for v, part in parts]
            reach = z * math.sqrt(math.fsum(x * x for x in left) / (len(left) - 1) / len(left))
            most = math.inf if metric == "DCG" and name != "SNIPS" else 1
            # An impossible value keeps its interval.
            lo = max(value - reach, 0) if value + 1e-9 >= 0 else value - reach
            hi = min(value + reach, most) if -1e-9 <= value <= most + 1e-9 else value + reach
        squares = sum(w * w for w in weights)
        result[metric, name] = {
            "value": value, "lo": lo, "hi": hi,
            "queries": len(parts), "left_out": len(queries) - len(parts), "clicks": len(weights),
            "effective_sample_size": sum(weights) ** 2 / squares if weights else None,
            "largest_weight": max(weights, default=None),
            "clipped": cuts / len(weights) if weights else None,
            "unsupported": never / top if top else None,
        }  # fmt: skip
    return result


CHANCES = [1.0, 0.7, 0.5, 0.25, 0.1]


def impressions_of(seed):
    """Some impressions of queries, and where a new ranking has the items."""
    draw, lines = random.Random(seed), []
    for query in range(draw.randint(1, 4)):
        places = draw.sample([1, 2, 3, 5, None, None], 6)
        for item, pos in zip("abBcdé", places, strict=True):
            guess = draw.choice([None, 0.0, 0.3, 1.0])
            for _ in range(draw.randint(0, 3)):
                click = draw.choice([0, 0, 1, None])
                part = "x" if query % 2 else None
                chance = None if click is None else draw.choice(CHANCES)
                look = None if pos is None else 1 / pos
                lines.append((part, query, item, click, chance, pos, guess, look))
    return lines


SCHEMA = {"slice": pl.String, "query": pl.Int64, "item": pl.String, "click": pl.Int64}
SCHEMA |= {"propensity": pl.Float64, "pos": pl.Int64}
SCHEMA |= {"predicted": pl.Float64, "examination": pl.Float64}


@pytest.mark.slow
@example(5, 3, 0.3, True, True, 0.8)
@given(
    st.integers(0, 10**6),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 0.3]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.95, 0.8]),
)
def test_counterfactual_equals_its_definition(seed, k, clip, predicted, examination, confidence):
    """Every figure, in SQL and polars, is that of the definition."""
    frame = pl.DataFrame(impressions_of(seed), schema=SCHEMA, orient="row")
    parts = frame.partition_by("slice", as_dict=True).items()
    options = {"k": k, "clip": clip, "confidence": confidence, "slice": "slice"}
    options |= {"predicted": "predicted"} if predicted else {}
    options |= {"examination": "examination"} if examination else {}
    by_definition = {
        part: reference(rows.to_dicts(), k, clip, predicted, examination, confidence)
        for (part,), rows in parts
    }
    warnings = []
    for way, run in table_ways("counterfactual", frame, options):
        result = run()
        warnings.append(result["warning"].to_list())
        keys = [
            (row["slice"], row["metric"].partition("@")[0], row["estimator"])
            for row in result.iter_rows(named=True)
        ]
        assert set(keys) == {
            (part, *key) for part, rows in by_definition.items() for key in rows
        }, way
        assert len(keys) == len(set(keys)), way
        for key, row in zip(keys, result.iter_rows(named=True), strict=True):
            for name, value in by_definition[key[0]][key[1:]].items():
                near = None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)
                assert row[name] == near, f"{way} {key} {name}"
    assert warnings[0] == warnings[1]


SMALL = "the effective sample size is below 100"
HEAVY = "one click has more than 10% of the weight"
UNKNOWN = "more than 10% of the items were never shown"
EQUAL = "all clicks have propensity 1: IPS equals the naive estimate"


def impressions(queries, rare=0, never=0):
    """Rows of an item that every second user clicks, rarely shown ones, and some never shown."""
    lines = [(q, "a", click, 0.5, 1) for q in range(queries) for click in (0, 1)]
    lines += [(q, "a", 1, 0.01, 1) for q in range(rare)]
    return lines + [(q, "n", None, None, 2) for q in range(never)]


def clicked(queries, *places):
    """Rows of items that everyone clicks, whatever their propensity."""
    return [
        (q, item, 1, chance, pos)
        for q in range(queries)
        for pos, (item, chance) in enumerate(places, 1)
    ]


ABC = ("a", 0.5), ("b", 0.25), ("c", 0.1)
WARNINGS = [
    (impressions(100), "DCG", ""),
    (impressions(99), "DCG", SMALL),
    (impressions(29), "DCG", f"{SMALL}; {FEW}"),
    (impressions(100, never=11), "DCG", ""),
    (impressions(100, never=12), "DCG", UNKNOWN),
    (impressions(200, rare=1), "DCG", f"{SMALL}; {HEAVY}"),
    (impressions(5, never=5), "DCG", f"{SMALL}; {HEAVY}; {UNKNOWN}; {FEW}"),
    (impressions(1), "DCG", f"{SMALL}; {HEAVY}; no interval: it rests on one query"),
    # Above the largest possible value, by more than the interval; by less is chance.
    (clicked(50, *ABC), "DCG", "the value is impossible: above 2.13"),
    (clicked(50, ("c", 0.1)), "DCG", "the value is impossible: above 1"),
    ([*impressions(100), (0, "a", 1, 0.5, 1)], "DCG", ""),
    (clicked(200, ("a", 1.0)), "DCG", EQUAL),
    ([(q, "a", 0, 0.5, 1) for q in (1, 2)], "DCG",
     f"there is no click in the first positions; {FEW}"),
    ([(q, "a", 1, 0.5, 2**53) for q in range(200)], "RR", ""),
]  # fmt: skip


def test_warnings():
    """Each log is a slice."""
    names = ["query", "item", "click", "propensity", "pos"]
    frames = [pl.DataFrame(lines, names, orient="row") for lines, *_ in WARNINGS]
    frame = pl.concat(x.with_columns(log=i) for i, x in enumerate(frames))
    for way, run in table_ways("counterfactual", frame, {"slice": "log"}):
        rows = {(x["slice"], x["metric"], x["estimator"]): x["warning"] for x in run().to_dicts()}
        for i, (_, metric, warning) in enumerate(WARNINGS):
            found = rows[i, metric, "IPS"] or ""
            assert warning in found if "impossible" in warning else found == warning, (way, i)
            assert "impossible" not in (rows[i, metric, "naive"] or "")


def test_evaluate_of_debiased_grades_equals_ips():
    """Grades are judgments: DCG by evaluate is that of IPS, and so is nDCG."""
    draw = random.Random(4)
    lines = [
        (query, item, int(draw.random() < 0.4), draw.choice(CHANCES))
        for query in range(40)
        for item in "abcdef"
        for _ in range(draw.randint(1, 4))
    ]
    log = pl.DataFrame(lines, schema=["query", "item", "click", "propensity"], orient="row")
    grades = log.pipe(rankql.debiased).rename({"debiased": "rel"})
    run = grades.select("query", "item").with_columns(
        pos=pl.int_range(1, 7).shuffle(seed=1).over("query")
    )
    result = rankql.evaluate(run, grades, ["DCG@3", "nDCG@3"], interval=None)
    new = log.join(run, on=["query", "item"]).pipe(rankql.counterfactual, 3)
    for metric in ("DCG@3", "nDCG@3"):
        (value,) = new.filter(metric=metric, estimator="IPS")["value"]
        assert result[metric] == pytest.approx(value, abs=1e-12)
