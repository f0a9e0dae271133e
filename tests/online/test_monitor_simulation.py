"""In the long run: few false alarms, fast alarms, and the right cause.

`python tests/run_simulation.py --monitor` prints the rates.
"""

import pytest

from rankql.online.alarms import DRIFT, DROP, LABELS
from support.monitor_simulation import SHAPES, causes, delays, false_alarms
from support.simulation import REPEATS, at_most

FEW = max(100, REPEATS // 10)
pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("shape", SHAPES)
def test_years_without_a_change(shape):
    """Skewed metrics with a weekly season: at most 5% of years have an alarm."""
    assert at_most(false_alarms(shape, 28, 30, FEW), repeats=FEW)


def test_all_series_together():
    few = FEW // 4
    assert at_most(false_alarms("nDCG", 28, 30, few, family=20), repeats=few)


def test_delays():
    """Sooner than a fixed threshold with as few false alarms."""
    for kind, most in ((DROP, 10), (DRIFT, 60)):
        (found, two_points, tuned), (wrong, often, _), _ = delays(kind, 56, 10_000, FEW)
        assert found <= most and found < tuned and wrong <= 0.02
        assert two_points <= found and often > 0.9


@pytest.mark.parametrize("kind", [DROP, DRIFT, LABELS])
def test_causes(kind):
    few = max(10, FEW // 10)
    assert at_most(1 - causes(kind, few)[kind], 0.05, repeats=few)
