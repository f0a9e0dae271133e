"""What docs/experiment.md says about tea-tasting, measured."""

import numpy as np
import polars as pl
import pytest

from support.components import optional

tt = optional("tea_tasting")
pytestmark = pytest.mark.tea_tasting


def shares(metrics, draw, repeats, truth=0, effect="effect_size"):
    """By metric: how often an interval contains the true effect, and how often p <= 0.05."""
    rng = np.random.default_rng(3)
    test = tt.Experiment(metrics, variant="arm")
    rows = [row for _ in range(repeats) for row in test.analyze(pl.DataFrame(draw(rng))).to_dicts()]
    held = pl.lit(truth).is_between(f"{effect}_ci_lower", f"{effect}_ci_upper").mean()
    alarms = (pl.col("pvalue") <= 0.05).mean().alias("alarms")
    by_metric = pl.DataFrame(rows).group_by("metric").agg(held.alias("held"), alarms)
    return {row["metric"]: row for row in by_metric.to_dicts()}


def test_null_makes_intervals_too_narrow():
    def draw(rng):
        value = pl.Series(rng.normal(5, 1, 1000))
        return {"arm": [0, 1] * 500, "value": value.set(pl.Series(rng.random(1000) < 0.5), None)}

    assert shares({"value": tt.Mean("value")}, draw, 200)["value"]["held"] < 0.88


def test_the_relative_interval_with_a_covariate_is_too_narrow():
    def draw(rng):
        arm, before = np.tile([0, 1], 500), rng.gamma(1, 10, 1000)
        return {"arm": arm, "before": before, "y": before + rng.normal(0, 2, 1000) + 10 * arm}

    metrics = {"y": tt.Mean("y", "before")}
    assert 0.92 < shares(metrics, draw, 400, 10)["y"]["held"] < 0.98
    assert shares(metrics, draw, 400, 1, "rel_effect_size")["y"]["held"] < 0.8


def test_ratios_of_few_users():
    def draw(rng):
        shown = 1 + rng.exponential(20, 20).astype(int)
        clicks = rng.binomial(shown, rng.beta(2, 18, 20))
        return {"arm": [0, 1] * 10, "clicks": clicks, "shown": shown}

    assert shares({"ctr": tt.RatioOfMeans("clicks", "shown")}, draw, 600)["ctr"]["held"] < 0.935


def test_rare_conversions():
    def draw(rng):
        return {"arm": [0] * 900 + [1] * 100, "bought": (rng.random(1000) < 0.02).astype(int)}

    result = shares({"mean": tt.Mean("bought"), "share": tt.Proportion("bought")}, draw, 400)
    assert result["mean"]["alarms"] > 0.1 and result["share"]["alarms"] <= 0.05
