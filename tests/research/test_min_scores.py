"""In the long run: a lowest score is chosen on some questions, and its rate differs on others."""

import numpy as np
import pytest

from research.min_scores_simulation import choose
from research.simulation import REPEATS


@pytest.mark.simulation
@pytest.mark.parametrize("count", [20, 100])
def test_new_questions_exceed_the_limit_in_almost_half_of_the_choices(count):
    """Never on those that it was chosen on."""
    rng, limit, repeats = np.random.default_rng(count), 0.1, REPEATS // 10
    rates = np.array([choose(rng, count, limit) for _ in range(repeats)])
    assert (rates[:, 0] <= limit).all()
    assert 0.25 < (rates[:, 1] > limit + 1e-12).mean() < 0.65
