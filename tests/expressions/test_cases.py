"""What the hand-checked cases are: as the reference says, as published, enough of them.

That every engine gives their values is test_matrix.py.
"""

import pytest

from support import definitions, metric_engines, signatures
from support.hand_cases import ALL, METRICS

CASES = [case for case in ALL if case.metric not in signatures.BEYOND]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.metric}-{case.where.split()[0]}")
def test_reference(case):
    """The reference agrees with what was worked by hand."""
    options = {name: value for name, value in case.options.items() if name not in ("gain", "query")}
    metric, group = case.metric, case.group
    if "gain" in case.options:
        place = [tuple(cell) for cell in group] if metric.startswith("list_") else group
        if metric.startswith("list_"):
            group = tuple([definitions.exp2_gain(rel) for rel in rels] for rels in place)
        else:
            group = [(definitions.exp2_gain(rel), *rest) for rel, *rest in place]
    if metric.endswith("_by_score"):
        plain = getattr(definitions, metric.removesuffix("_by_score"))
        value = definitions.by_score(plain, group, **options)
    elif metric.startswith("list_"):
        if group[0] is None:
            assert case.expected is None
            return
        plain = getattr(definitions, metric.removeprefix("list_"))
        value = plain(definitions.from_list(*group), **options)
    else:
        value = getattr(definitions, metric)(group, **options)
    assert value is case.expected or abs(value - case.expected) < 1e-14 * (1 + abs(value))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.published],
    ids=lambda case: f"{case.metric}-{case.where.split()[0]}",
)
def test_published(case):
    """The exact value is what the source printed, to a unit of its last digit: some cut it off."""
    printed, _, given = case.published.partition("+-")
    unit = 10.0 ** -len(printed.partition(".")[2])
    assert abs(case.expected - float(printed)) <= float(given or unit)


ELSEWHERE = {"exp2_gain", *signatures.LABELS}


def test_every_metric_has_cases():
    """Three cases at least for a metric, one for its list form, one for its score form."""
    few = {
        metric: len(METRICS.get(metric, []))
        for metric in signatures.ROWS
        if metric not in ELSEWHERE
    }
    assert {metric: n for metric, n in few.items() if n < 3} == {}
    assert {*signatures.LISTS, *signatures.SCORES} - set(METRICS) == set()


def test_every_option_has_cases():
    """Every option of every metric is given in some case, so that no engine may ignore it."""
    given = {
        metric: {name for case in METRICS[metric] for name in case.options} for metric in METRICS
    }
    for metric, parameters in signatures.ROWS.items():
        if metric in ELSEWHERE:
            continue
        options = {name for name, default in parameters.items() if default is not signatures.NEEDED}
        assert options <= given.get(metric, set()), metric


@pytest.mark.parametrize("metric", signatures.RANKING)
def test_forms_say_enough(metric):
    """The rule for what a form cannot say leaves most of the cases of each metric in."""
    for name in ("sql list", "sql score"):
        engine, cases = metric_engines.ENGINES[name], METRICS[metric]
        said = [c for c in cases if engine.cannot(metric, c.options, c.group) is None]
        assert len(said) >= 0.7 * len(cases), name
