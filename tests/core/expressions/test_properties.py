"""All engines equal the reference to 1e-12, NULL where NULL: any rows, options, types, settings."""

import re

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rankql.core.metrics.all_metrics import FUNCTIONS
from support import definitions, metric_engines, signatures, strategies
from support.hand_cases import ALL, METRICS
from support.metric_engines import Sql
from support.parameters import few, slow

# A metric of each family.
LIGHT = ("ndcg", "ap", "rr", "err", "bpref", "kendall_tau_b")
FORMS = [name for metric in LIGHT for name in (f"list_{metric}", f"{metric}_by_score")]


def expected(metric, groups, options):
    """The reference's values."""
    return [definitions.value(metric, group, **options) for group in groups]


def agree(metric, groups, options, names=None, values=None, pool=None, **types):
    values = values or expected(metric, groups, options)
    metric_engines.assert_agree(metric, groups, options, values, names, pool, **types)


@few(9)(
    ("metric", "forms"),
    [
        *((metric, metric_engines.PLAIN) for metric in [*signatures.METRICS][:14]),
        *(slow(metric, None) for metric in [*signatures.METRICS, *signatures.BEYOND, *FORMS]),
    ],
)
@given(data=st.data())
def test_engines_equal_the_definition(metric, forms, data):
    """Ties, NULLs, gaps, any k, empty groups, negative and fractional grades, any option.

    The rows of a metric are asked for as lists and by score too; ties and `ideal` need their own.
    """
    groups, options = data.draw(strategies.calls(metric))
    pool = metric_engines.with_evaluate if metric in signatures.RANKING else None
    agree(metric, groups, options, forms, pool=pool)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["rbp", "precision_at", "f1_at"])
@seed(0)
@settings(max_examples=200, database=None)
@given(data=st.data())
def test_draws_of_a_fixed_seed_have_fractions_and_no_cutoff(metric, data):
    """The rules for fractions below the threshold, and for a denominator without k, are drawn."""
    groups, options = data.draw(strategies.calls(metric))
    agree(metric, groups, options, ["sql"])


@few(1)("metric", [m for m in signatures.RANKING if FUNCTIONS[m].no_expected_ties != {}])
@given(data=st.data())
def test_expected_over_ties(metric, data):
    """ties='expected' is the mean over all orders of the tied items, enumerated."""
    groups = data.draw(strategies.batches(strategies.scored(most=6), most=6))
    options = data.draw(strategies.options(metric))
    if metric == "ap" and options.get("denominator") == "found":
        del options["denominator"]
    if metric.startswith("kendall"):
        options.pop("k", None)
    agree(f"{metric}_by_score", groups, {**options, "ties": "expected"})


# Grades that a column type can hold.
FITTING = {
    r"BOOLEAN": st.sampled_from([None, 0, 1]),
    r"U\w+": st.sampled_from([None, 0, 0, 1, 2, 3]),
    r"\w+INT|INTEGER": st.sampled_from([None, -2, -1, 0, 1, 2, 3]),
    r".*": strategies.GRADES,
}
KINDS = [kind for kind in metric_engines.TYPES if kind != "VARCHAR"]


@few(2)("kind", sorted(KINDS, key=lambda kind: kind not in ("BIGINT", "FLOAT")))
@given(data=st.data())
def test_columns_have_any_numeric_type(kind, data):
    metric = data.draw(st.sampled_from(signatures.RANKING))
    grades = next(grades for kinds, grades in FITTING.items() if re.fullmatch(kinds, kind))
    groups = data.draw(strategies.batches(strategies.rankings(grades)))
    other = "BIGINT" if kind == "BOOLEAN" else kind
    options = data.draw(strategies.options(metric))
    agree(metric, groups, options, metric_engines.PLAIN, rel=kind, pos=other)


SETTINGS = [
    {"default_null_order": "nulls_first", "default_order": "desc"},
    {"default_null_order": "nulls_last_on_asc_first_on_desc", "default_order": "asc"},
    {"integer_division": True},
    {"ieee_floating_point_ops": False},
    {"default_collation": "NOCASE"},
    {"preserve_insertion_order": False, "threads": 1},
]


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def sql_engines(request):
    """The SQL forms on a connection under these settings."""
    con = metric_engines.connect(**request.param)
    return [
        Sql(*form, con=con) for form in ((), ("list",), ("score",), ("score", False, "expected"))
    ]


@pytest.mark.few(1)
@given(data=st.data())
def test_settings_change_nothing(sql_engines, data):
    metric = data.draw(st.sampled_from(signatures.RANKING))
    beyond = data.draw(st.sampled_from([*signatures.BEYOND]))
    for name, engines in (
        (metric, sql_engines),
        (f"{metric}_by_score", sql_engines[2:3]),
        (beyond, sql_engines[:1]),
    ):
        groups, options = data.draw(strategies.calls(name))
        values = expected(name, groups, options)
        for engine in engines:
            wrong = metric_engines.differences(engine, name, groups, options, values)
            assert not wrong, "\n".join(wrong)


# What must hold of any correct implementation, whatever the reference says


SHARES = [m for m in signatures.RANKING if (FUNCTIONS[m].lowest, FUNCTIONS[m].highest) == (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sql", "polars", "pipe streaming"])
@settings(max_examples=max(2, settings.default.max_examples // 3))
@given(groups=strategies.batches(strategies.rankings().filter(bool)), data=st.data())
def test_shares_lie_between_0_and_1(name, groups, data):
    """Shares lie between 0 and 1, whatever the options, except where negative grades are kept."""
    for metric in SHARES:
        options = data.draw(strategies.options(metric))
        if metric == "ndcg":
            options["negative"] = "zero"
        for value in metric_engines.ENGINES[name].run(metric, groups, options):
            assert value is None or 0 <= value <= 1 + 1e-12, (metric, options)


@few(3)("metric", [*signatures.RANKING, *signatures.MICRO, *signatures.RATING])
def test_rankings_without_rows(metric):
    """No rows, or a list without entries: sums are 0, what asks for relevant items is NULL."""
    nothing = 1.0 if metric == "rbp_residual" else 0.0
    value = nothing if FUNCTIONS[metric].undefined.startswith("never") else None
    names = ["sql whole table", "polars select", "sql list", "polars list"]
    agree(metric, [[]], signatures.REQUIRED.get(metric, {}), names, [value])


def test_no_groups_have_no_values():
    for name, engine in metric_engines.engines_for("ndcg").items():
        assert engine.run("ndcg", [], {}) == [], name


# What the hand-checked cases are. That every engine gives their values is test_matrix.py.


@few(31)("metric", METRICS)
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
