"""The metrics in ClickHouse: every hand-checked case, functions, errors."""

import houses
import pytest
import sessions
import test_cases
from engines import same


@pytest.fixture(scope="module")
def house():
    with houses.session() as made:
        yield made


# A list is never NULL there.
def sayable(case):
    return not (case.metric.startswith("list_") and case.group[0] is None)


@pytest.mark.parametrize("metric", test_cases.METRICS)
def test_case(house, metric):
    cases = [case for case in test_cases.METRICS[metric] if sayable(case)]
    wrong = [
        f"{metric} {case.options} of {case.group}: {value}, expected {case.expected}"
        for case, value in houses.values(house, metric, cases)
        if not (same(value, case.expected) if value != "absent" else case.group == [])
    ]
    assert not wrong, "\n".join(wrong)
