"""Debias: grades from clicks, new rankings from old logs: by hand, enumeration and simulation."""

import itertools
import math
import random
import statistics
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankql
from support import metric_engines
from support.calls import assert_values, connected, table_ways

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


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("group", "clip", "value"),
    [
        (SHOWN, None, 5 / 4),
        (SHOWN, 0.25, 5 / 4),
        (SHOWN, 0.5, 3 / 4),
        (SHOWN, 1, 1 / 2),
        ([(0, 0.1)], None, 0.0),
        ([(1, 0.5), (None, None)], None, 2.0),  # not shown that time
        ([(1, 0.5), (None, 0.2)], None, 2.0),
        ([(None, None)], None, None),
        # With a prediction, which cancels out without clip.
        (GUESSED, None, 2.0),
        # 0.5 + (1 - 0.125) / 0.5 and 0.5 + (0 - 0.125) / 0.5
        (GUESSED, 0.5, (2.25 + 0.25) / 2),
        ([(1, 0.25, None), (0, 0.25, 0.5)], 0.5, (2 + 0.25) / 2),  # no guess, no correction
        ([(None, None, 0.3)], None, 0.3),  # never shown
        ([(None, None, 0.3), (None, 0.1, 0.5)], 0.5, 0.4),
        ([(None, None, 0.3), (0, 1.0, 0.3)], None, 0.0),  # the clicks, where there are any
        ([(None, None, None)], None, None),
    ],
)
def test_grades_by_hand(group, clip, value):
    arguments = ["click", "propensity", clip, *(["predicted"] if len(group[0]) == 3 else [])]
    assert_values("debiased", rows(group, [(1, 1.0)]), arguments, {}, {0: value, 1: 1.0})


@pytest.mark.parametrize("kind", [pl.Boolean, pl.Decimal(9, 2)])
def test_clicks_are_booleans_or_decimals(kind):
    """Propensities may be decimals."""
    kinds = {"click": kind, "propensity": pl.Decimal(9, 2)}
    assert_values("debiased", rows(SHOWN).cast(kinds), ["click", "propensity"], {}, {0: 1.25})


def test_nan_in_parquet_is_refused(tmp_path):
    """Statistics of a column leave NaN out: the check must look."""
    for click, chance, name in ((1, math.nan, "propensity"), (math.nan, 1.0, "click")):
        frame = pl.DataFrame({"click": [1.0, click], "propensity": [1.0, chance]})
        frame.write_parquet(tmp_path / f"{name}.parquet")
        query = f"SELECT debiased(click, propensity) FROM '{tmp_path}/{name}.parquet'"
        with pytest.raises(metric_engines.duckdb.Error, match=f"{name} must be"):
            metric_engines.connection().sql(query).fetchall()


# a new ranking, by enumeration of all that users may click


R = {"a": 0.4, "b": 0.6, "c": 0.2, "d": 0.5}
THETA = {"a": [1.0, 0.5], "b": [0.5, 1.0], "c": [0.25, 0.25]}  # of two impressions
WRONG = {"a": 0.9, "b": 0.1, "c": 0.7, "d": 0.3}
EXAMINED = [1.0, 0.5, 0.25, 0.125]


def patterns(theta, new, predicted):
    """A log for each pattern of clicks, as slices, and the chance of each."""
    cells = [(item, t) for item, shown in theta.items() for t in shown]
    lines, chances = [], []
    for number, clicks in enumerate(itertools.product([0, 1], repeat=len(cells))):
        chance = [
            t * R[item] if c else 1 - t * R[item]
            for (item, t), c in zip(cells, clicks, strict=True)
        ]
        chances.append(math.prod(chance))
        lines += [(number, item, c, t) for (item, t), c in zip(cells, clicks, strict=True)]
        lines += [(number, item, None, None) for item in new if item not in theta]
    frame = pl.DataFrame(lines, schema=["pattern", "item", "click", "propensity"], orient="row")
    items = pl.DataFrame(
        {
            "item": [*R],
            "pos": [new.index(item) + 1 if item in new else None for item in R],
            "predicted": [predicted[item] for item in R],
        },
        schema_overrides={"pos": pl.Int64},
    )
    looks = pl.DataFrame({"pos": [1, 2, 3, 4], "examination": EXAMINED})
    frame = frame.join(items, on="item").join(looks, on="pos", how="left")
    return frame.with_columns(query=pl.lit(1)), chances


def expected(theta, new, predicted=R, k=None, clip=None, mistaken=1):
    """The exact expectation of each estimate, by metric and estimator."""
    frame, chances = patterns(theta, new, predicted)
    frame = frame.with_columns(pl.col("propensity") * mistaken)
    options = {"k": k, "clip": clip, "predicted": "predicted", "examination": "examination"}
    for _, run in table_ways("counterfactual", frame, options | {"slice": "pattern"}):
        result = defaultdict(float)
        for row in run().iter_rows(named=True):
            if row["value"] is not None:
                metric = row["metric"].partition("@")[0]
                result[metric, row["estimator"]] += chances[row["slice"]] * row["value"]
        yield result


def truth(new, k=None):
    """DCG, RR and CTR where items are relevant with these chances."""
    top = [R[item] for item in new][:k]
    left, rr = 1, 0
    for pos, r in enumerate(top, 1):
        rr, left = rr + left * r / pos, left * (1 - r)
    return {
        "DCG": sum(r / math.log2(pos + 1) for pos, r in enumerate(top, 1)),
        "RR": rr,
        "CTR": sum(e * r for e, r in zip(EXAMINED, top, strict=False)) / len(top),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("new", "k"), [("ca", None), ("cba", None), ("bca", 2)])
def test_ips_and_dr_are_unbiased(new, k):
    """IPS and DR are right whatever is predicted; what is naive or clipped is not."""
    right = truth(new, k)
    for predicted, clip in ((R, None), (WRONG, None), (R, 0.6)):
        for result in expected(THETA, new, predicted, k, clip):
            for metric, value in right.items():
                for estimator in ("IPS", "DR"):
                    assert result[metric, estimator] == pytest.approx(value, abs=1e-12)
                assert clip is None or result[metric, "clipped IPS"] < value - 0.01
            assert abs(result["DCG", "naive"] - right["DCG"]) > 0.01
    for result in expected(THETA, new, WRONG, k, clip=0.6):
        assert abs(result["DCG", "DR"] - right["DCG"]) > 0.01


@pytest.mark.slow
def test_wrong_propensities_bias_dr():
    """Right predictions do not make up for them, clipped or not."""
    right = truth("cba")["DCG"]
    for clip in (None, 0.3):
        for result in expected(THETA, "cba", R, clip=clip, mistaken=0.8):
            assert result["DCG", "DR"] > right + 0.01
    for result in expected(THETA, "cba", R, mistaken=0.8):
        assert result["DCG", "DR"] == pytest.approx(right / 0.8, abs=1e-12)  # as IPS


def test_unshown_items_count_0_in_ips_and_their_prediction_in_dr():
    """No click tells of it: IPS takes 0, DR the prediction."""
    right = truth("dab")
    for result in expected(THETA, "dab", R):
        for metric, value in right.items():
            assert result[metric, "DR"] == pytest.approx(value, abs=1e-12)
            assert result[metric, "IPS"] < value - 0.1


# once more, straight from the definition


def discount(metric, pos, look):
    return {"RR": 1 / pos, "CTR": look}.get(metric, 1 / math.log2(pos + 1))


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
        total = math.fsum(g * discount(metric, p, look or 0) for p, g, look in sorted(top))
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


@st.composite
def logs(draw):
    """Some impressions of queries, and where a new ranking has the items."""
    lines = []
    for query in range(draw(st.integers(1, 4))):
        places = draw(st.permutations([1, 2, 3, 5, None, None]))
        for item, pos in zip("abBcdé", places, strict=True):
            guess = draw(st.sampled_from([None, 0.0, 0.3, 1.0]))
            for _ in range(draw(st.integers(0, 3))):
                click = draw(st.sampled_from([0, 0, 1, None]))
                part = "x" if query % 2 else None
                chance = None if click is None else draw(st.sampled_from(CHANCES))
                look = None if pos is None else 1 / pos
                lines.append((part, query, item, click, chance, pos, guess, look))
    return lines


SCHEMA = {"slice": pl.String, "query": pl.Int64, "item": pl.String, "click": pl.Int64}
SCHEMA |= {"propensity": pl.Float64, "pos": pl.Int64}
SCHEMA |= {"predicted": pl.Float64, "examination": pl.Float64}


def near(a, b):
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 1e-9 * (1 + abs(b))


@given(
    logs(),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 0.3]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.95, 0.8]),
)
def test_counterfactual_equals_its_definition(lines, k, clip, predicted, examination, confidence):
    """Every figure, in SQL and polars, is that of the definition."""
    frame = pl.DataFrame(lines, schema=SCHEMA, orient="row")
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
                assert near(row[name], value), f"{way} {key} {name}: {row[name]}, not {value}"
    assert warnings[0] == warnings[1]


@pytest.mark.slow
def test_rows_are_ordered_by_metric_and_estimator():
    frame, _ = patterns({"a": [1.0], "b": [0.5]}, "ba", R)
    frame = frame.filter(pattern=3)
    options = {"k": 1, "clip": 0.8, "predicted": "predicted", "examination": "examination"}
    for _, run in table_ways("counterfactual", frame, options):
        result = run()
        assert result.columns == [
            *("metric", "estimator", "value", "lo", "hi", "queries", "left_out", "clicks"),
            *("effective_sample_size", "largest_weight", "clipped", "unsupported", "warning"),
        ]
        names = ["naive", "IPS", "clipped IPS", "SNIPS", "DR"]
        metrics = ["DCG@1", "nDCG@1", "RR@1", "CTR@1"]
        assert result.select("metric", "estimator").rows() == [*itertools.product(metrics, names)]
        assert result["value"][:4].to_list() == pytest.approx([1, 2, 1.25, 2 / 3])
    for _, run in table_ways("counterfactual", frame, {}):
        rows = run().select("metric", "estimator").rows()
        assert rows == [*itertools.product(["DCG", "nDCG", "RR"], ["naive", "IPS", "SNIPS"])]


SMALL = "the effective sample size is below 100"
HEAVY = "one click has more than 10% of the weight"
UNKNOWN = "more than 10% of the items were never shown"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("queries", "rare", "never", "warnings"),
    [
        (100, False, 0, []),
        (99, False, 0, [SMALL]),
        (29, False, 0, [SMALL, FEW]),
        (100, False, 11, []),
        (100, False, 12, [UNKNOWN]),
        (200, True, 0, [SMALL, HEAVY]),
        (5, False, 5, [SMALL, HEAVY, UNKNOWN, FEW]),
        (1, False, 0, [SMALL, HEAVY, "no interval: it rests on one query"]),
    ],
)
def test_warnings(queries, rare, never, warnings):
    lines = [(q, "a", click, 0.5, 1) for q in range(queries) for click in (0, 1)]
    lines += [(0, "a", 1, 0.01, 1)] if rare else []
    lines += [(q, "n", None, None, 2) for q in range(never)]
    schema = ["query", "item", "click", "propensity", "pos"]
    frame = pl.DataFrame(lines, schema=schema, orient="row")
    for way, run in table_ways("counterfactual", frame, {}):
        texts = run().filter(estimator="IPS")["warning"].fill_null("")
        assert {*texts} == {"; ".join(warnings)}, way


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "most"), [(50, 2), (1, 2), (50, 0)])
def test_values_above_the_largest_possible_one(queries, most):
    """By more than the interval: all items are clicked, whatever their propensity."""
    lines = [
        (q, item, 1, chance, pos)
        for q in range(queries)
        for pos, (item, chance) in enumerate([("a", 0.5), ("b", 0.25), ("c", 0.1)][-most - 1 :], 1)
    ]
    frame = pl.DataFrame(
        lines, schema=["query", "item", "click", "propensity", "pos"], orient="row"
    )
    best = {2: "2.13", 0: "1"}[most]
    for _, run in table_ways("counterfactual", frame, {"k": 3}):
        rows = {row["estimator"]: row for row in run().filter(metric="DCG@3").to_dicts()}
        assert f"the value is impossible: above {best}" in rows["IPS"]["warning"]
        assert "impossible" not in (rows["naive"]["warning"] or "")


def test_a_value_above_the_largest_possible_one_by_chance():
    """Half of the right estimates are above it if every item is relevant."""
    lines = [(q, click) for q in range(100) for click in (0, 1)] + [(0, 1)]
    frame = pl.DataFrame(lines, schema=["query", "click"], orient="row")
    frame = frame.with_columns(item=pl.lit("a"), propensity=0.5, pos=1)
    row = rankql.counterfactual(frame).filter(metric="DCG", estimator="IPS").row(0, named=True)
    assert row["value"] > 1 > row["lo"] and row["warning"] is None


def test_propensities_of_1_correct_nothing():
    frame = pl.DataFrame(
        {"query": range(200), "item": "a", "click": 1, "propensity": 1.0, "pos": 1}
    )
    texts = dict(rankql.counterfactual(frame).select("estimator", "warning").rows())
    equal = "all clicks have propensity 1: IPS equals the naive estimate"
    assert texts == {"naive": None, "IPS": equal, "SNIPS": None}


@pytest.mark.slow
def test_a_log_without_clicks():
    lines = pl.DataFrame({"query": [1, 2], "item": "a", "click": 0, "propensity": 0.5, "pos": 1})
    for _, run in table_ways("counterfactual", lines, {}):
        rows = {(row["metric"], row["estimator"]): row for row in run().iter_rows(named=True)}
        assert rows["DCG", "IPS"]["value"] == 0.0
        assert rows["nDCG", "IPS"]["value"] is rows["DCG", "SNIPS"]["value"] is None
        warning = rows["DCG", "IPS"]["warning"]
        assert warning == f"there is no click in the first positions; {FEW}"


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


def test_a_pattern_as_column_name_is_refused_in_polars_alone():
    frame = pl.DataFrame(LOG).rename({"query": "^x$"})
    (_, sql), (_, polars) = table_ways("counterfactual", frame, {"query": "^x$"})
    assert len(sql()) == 9
    with pytest.raises(rankql.RankqlError, match="stands for several columns in polars"):
        polars()


LOG = {"query": [1, 1, 1], "item": ["a", "a", "b"], "click": [1, 0, None]}
LOG |= {"propensity": [1.0, 0.5, None], "pos": [1, 1, 2], "predicted": [0.5, 0.5, 0.5]}
LOG |= {"examination": [1.0, 1.0, 0.5]}


@pytest.mark.slow
def test_positions_are_read_up_to_2_to_the_53():
    frame = pl.DataFrame(LOG | {"pos": [2**53] * 2 + [1]})
    for _, run in table_ways("counterfactual", frame, {}):
        assert len(run()) == 9


@pytest.mark.slow
def test_logs_without_rows_have_no_estimates():
    frame = pl.DataFrame(LOG).clear()
    for _, run in table_ways("counterfactual", frame, {"k": 3}):
        assert run().is_empty()


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """600 logs of 150 queries: 95 of 100 intervals hold the truth; a good guess narrows them."""
    rng = np.random.default_rng(5)
    logs, queries = 600, 150
    mean, chance = np.array([0.5, 0.3, 0.4, 0.2]), np.array([1, 0.6, 0.4, 0.3])
    new = np.array([3, 2, 4, 1])
    r = mean * rng.uniform(0.5, 1.5, (logs, queries, 4))
    frame = pl.DataFrame(
        {
            "log": np.repeat(np.arange(logs), queries * 4),
            "query": np.tile(np.repeat(np.arange(queries), 4), logs),
            "item": np.tile(np.arange(4), logs * queries),
            "click": (rng.random(r.shape) < chance * r).astype(int).ravel(),
            "propensity": np.tile(chance, logs * queries),
            "pos": np.tile(new, logs * queries),
            "predicted": r.ravel(),
        }
    )
    options = "k := 3, clip := 0.5, predicted := 'predicted', slice := 'log'"
    result = connected(frame).sql(f"FROM counterfactual('input_rows', {options})").pl()
    top = new <= 3
    dcg = float((mean / np.log2(new + 1))[top].sum())
    true = {"IPS": dcg, "DR": dcg, "SNIPS": dcg / float(mean.sum())}
    wide = {}
    for estimator, value in true.items():
        rows = result.filter(metric="DCG@3", estimator=estimator)
        covered = rows.select(pl.lit(value).is_between("lo", "hi").mean()).item()
        assert 0.93 <= covered <= 0.97, f"{estimator}: {covered}"
        assert rows["value"].mean() == pytest.approx(value, rel=0.01)
        wide[estimator] = (rows["hi"] - rows["lo"]).mean()
    assert wide["DR"] < 0.8 * wide["IPS"]
    clipped = result.filter(metric="DCG@3", estimator="clipped IPS")["value"].mean()
    assert clipped < 0.95 * dcg
    naive = result.filter(metric="DCG@3", estimator="naive")["value"].mean()
    assert naive < 0.8 * dcg


@pytest.mark.slow
def test_intervals_take_propensities_as_known():
    """Of those from the same small log 89 of 100 intervals hold the truth, of the true ones 94."""
    rng = np.random.default_rng(3)
    log, query, item, _ = np.indices((400, 100, 4, 4)).reshape(4, -1)
    place, mean = rng.integers(0, 4, len(log)), np.array([0.5, 0.3, 0.4, 0.2])
    r = mean * rng.uniform(0.5, 1.5, (400, 100, 4))
    click = rng.random(len(log)) < r[log, query, item] / (1 + place)
    con = connected(pl.DataFrame(
        {"log": log, "query": query, "item": item, "slot": place + 1, "click": click}))  # fmt: skip
    con.execute("""
        CREATE TEMP TABLE slots AS
        FROM harvested_propensity('input_rows', pos := 'slot', slice := 'log');
        CREATE TEMP TABLE replayed AS
        SELECT log, query, item, click, 1 / slot AS known, least(propensity, 1) AS estimated,
               [3, 2, 4, 1][item + 1] AS pos
        FROM input_rows JOIN slots ON slots.slice = input_rows.log AND slots.pos = input_rows.slot
    """)
    dcg = mean[1] / math.log2(3) + mean[0] / 2 + mean[3]
    for propensity, low, high in (("known", 0.92, 0.97), ("estimated", 0.85, 0.92)):
        options = f"k := 3, slice := 'log', propensity := '{propensity}'"
        rows = con.sql(f"FROM counterfactual('replayed', {options})").pl()
        rows = rows.filter(metric="DCG@3", estimator="IPS")
        held = rows.select(pl.lit(float(dcg)).is_between("lo", "hi").mean()).item()
        assert low <= held <= high, f"{propensity}: {held}"
