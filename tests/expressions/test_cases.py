"""What the hand-checked cases are: as the reference says, as published, enough of them.

That every engine gives their values is test_matrix.py.
"""

import pytest

from support import definitions, metric_engines, signatures
from support.hand_cases import ALL, METRICS


@pytest.mark.parametrize("metric", METRICS)
def test_definitions_equal_the_hand_cases(metric):
    for case in METRICS[metric]:
        value = definitions.value(case.metric, case.group, **case.options)
        close = value is case.expected or abs(value - case.expected) < 1e-14 * (1 + abs(value))
        assert close, f"{case.where}: {value}"


def test_hand_cases_are_as_published():
    """The exact value is that of the source, to a unit of its last digit."""
    for case in ALL:
        if case.published and case.metric not in signatures.BEYOND:
            printed, _, tolerance = case.published.partition("+-")
            unit = 10.0 ** -len(printed.partition(".")[2])
            close = abs(case.expected - float(printed)) <= float(tolerance or unit)
            assert close, f"{case.where}: {case.expected}"


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_forms_say_enough(metric):
    """The rule for what a form cannot say leaves most of the cases of each metric in."""
    for name in ("sql list", "sql score"):
        engine, cases = metric_engines.ENGINES[name], METRICS.get(metric, ())
        able = [c for c in cases if not engine.cannot(metric, c.options, c.group)]
        assert len(able) >= 0.7 * len(cases), name
