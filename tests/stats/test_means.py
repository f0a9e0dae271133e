"""The note on intervals of skewed means."""

import numpy as np
import pytest

from rankql.stats.means import mean_interval, skewed_interval
from rankql.stats.sample import Sample


def test_intervals_of_sparse_metrics_that_miss_are_noted():
    """RR of 300 queries of which 8% find something, at 1 to 10."""
    rng, mean = np.random.default_rng(6), 0.08 * sum(1 / x for x in range(1, 11)) / 10
    draws = (rng.random((1000, 300)) < 0.08) / rng.integers(1, 11, (1000, 300))
    samples = [Sample(values, None, None, 0.0, 1.0).moments for values in draws]
    ends = [mean_interval(moments, 0.95) for moments in samples]
    missed = [
        moments.too_skewed
        for moments, (lo, hi) in zip(samples, ends, strict=True)
        if not lo <= mean <= hi
    ]
    assert np.mean(missed) > 0.8
    dense = (rng.random(300) < 0.5) / rng.integers(1, 3, 300)
    # Values at both ends of the range have the interval of a share, however skewed they are.
    ends = np.arange(300) < 5
    few = np.array([0.9, *[0.0] * 8])
    for values in (dense, ends.astype(float), few):
        assert not Sample(values, None, None, 0.0, 1.0).moments.too_skewed


def test_strong_skewness_narrows_no_interval():
    ends = [skewed_interval(0.0, 1.0, 2.0, slope) for slope in (0.0, 0.3, 1.0, 3.0)]
    assert [x.lo for x in ends] == [-2.0] * 4
    assert ends[1].hi == pytest.approx(2.725, abs=1e-3) and min(x.hi for x in ends[2:]) > 8
