"""What docs/experiment.md says about tea-tasting, measured."""

import numpy as np
import polars as pl
import pytest

from support.components import optional

tt = optional("tea_tasting")
pytestmark = pytest.mark.tea_tasting


def analyze(metrics, draw, repeats):
    """The results of simulated tests, one row per metric and test."""
    rng = np.random.default_rng(3)
    test = tt.Experiment(metrics, variant="arm")
    frames = (pl.DataFrame(draw(rng)) for _ in range(repeats))
    return pl.DataFrame([row for frame in frames for row in test.analyze(frame).to_dicts()])


def coverage(results, truth, effect="effect_size"):
    lower, upper = (pl.col(f"{effect}_ci_{end}") for end in ("lower", "upper"))
    return results.select((lower <= truth).and_(truth <= upper).mean()).item()


def false_alarms(results, metric):
    return results.filter(metric=metric).select((pl.col("pvalue") <= 0.05).mean()).item()


def test_null_makes_intervals_too_narrow():
    def draw(rng):
        value = pl.Series(rng.normal(5, 1, 1000))
        return {"arm": [0, 1] * 500, "value": value.set(pl.Series(rng.random(1000) < 0.5), None)}

    assert coverage(analyze({"value": tt.Mean("value")}, draw, 200), 0) < 0.88


def test_the_relative_interval_with_a_covariate_is_too_narrow():
    def draw(rng):
        arm, before = np.tile([0, 1], 500), rng.gamma(1, 10, 1000)
        return {"arm": arm, "before": before, "y": before + rng.normal(0, 2, 1000) + 10 * arm}

    results = analyze({"y": tt.Mean("y", "before")}, draw, 400)
    assert 0.92 < coverage(results, 10) < 0.98
    assert coverage(results, 1, "rel_effect_size") < 0.8


def test_ratios_of_few_users():
    def draw(rng):
        shown = 1 + rng.exponential(20, 20).astype(int)
        clicks = rng.binomial(shown, rng.beta(2, 18, 20))
        return {"arm": [0, 1] * 10, "clicks": clicks, "shown": shown}

    assert coverage(analyze({"ctr": tt.RatioOfMeans("clicks", "shown")}, draw, 600), 0) < 0.935


def test_rare_conversions():
    def draw(rng):
        return {"arm": [0] * 900 + [1] * 100, "bought": (rng.random(1000) < 0.02).astype(int)}

    results = analyze({"mean": tt.Mean("bought"), "share": tt.Proportion("bought")}, draw, 400)
    assert false_alarms(results, "mean") > 0.1
    assert false_alarms(results, "share") <= 0.05
