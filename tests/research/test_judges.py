"""In the long run: a model that agrees less than a person is rarely said to agree as much."""

import pytest

from research.judge_simulation import ANNOTATED, SHAPES, agreement
from research.simulation import REPEATS, at_most

RARELY = 0.04
KINDS = [(kind, shape) for kind in ANNOTATED for shape in SHAPES[kind]]


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize(("kind", "shape"), KINDS)
def test_a_lower_model_is_rarely_said_to_agree_as_much(kind, shape):
    """Lower by about 0.1. Many items in few queries do not make up for the queries."""
    *_, lowest = ANNOTATED[kind][1]
    less, as_much, _, model, person = agreement(kind, lowest, *shape, REPEATS)
    assert person - model > 0.08
    assert at_most(as_much, RARELY)
    assert less > 0.9 or shape[0] < 400
