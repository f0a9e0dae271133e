"""All engines equal the reference to 1e-12, NULL where NULL: any rows, options, types, settings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankql.registry.all_metrics import FUNCTIONS
from support import definitions, metric_engines, signatures, strategies
from support.metric_engines import Sql
from support.parameters import slow, slow_except

# A metric of each family, whose other forms belong to the default run.
LIGHT = ("ndcg", "ap", "rr", "err", "bpref", "kendall_tau_b")
BEYOND_ENGINES = ["sql", "polars", "polars streaming", "sql whole table", "polars select"]


def expected(metric, groups, options):
    """The reference's values for groups of the metric's kind."""
    given = {name: value for name, value in options.items() if name not in ("query", "ties")}
    if metric.endswith("_by_score"):
        plain = getattr(definitions, metric.removesuffix("_by_score"))
        ties = options.get("ties", "item")
        return [definitions.by_score(plain, group, ties, **given) for group in groups]
    if metric.startswith("list_"):
        plain = getattr(definitions, metric.removeprefix("list_"))
        return [
            None if rels is None else plain(definitions.from_list(rels, ideal), **given)
            for rels, ideal in groups
        ]
    values = [getattr(definitions, metric)(group, **given) for group in groups]
    if metric in signatures.BEYOND:  # some definitions count
        return [None if value is None else float(value) for value in values]
    return values


def agree(metric, groups, options, names=None, values=None, pool=None, **types):
    values = expected(metric, groups, options) if values is None else values
    metric_engines.assert_agree(metric, groups, options, values, names, pool, **types)


@pytest.mark.parametrize("metric", signatures.RANKING)
@pytest.mark.parametrize("names", [("sql", "polars"), slow(None)], ids=["sql and polars", "all"])
@given(data=st.data())
def test_rankings(metric, names, data):
    """Ties in grades, NULLs, gaps, any k, empty groups, negative and fractional grades."""
    groups = data.draw(strategies.batches(strategies.rankings()))
    options = data.draw(strategies.options(metric))
    agree(metric, groups, options, names, pool=metric_engines.with_evaluate)


@pytest.mark.parametrize("metric", signatures.MICRO)
@given(data=st.data())
def test_micro_averages(metric, data):
    groups = data.draw(strategies.batches(strategies.micro_rows()))
    options = data.draw(strategies.options(metric))
    if metric != "micro_recall_at":
        options["query"] = metric_engines.Column("query")
    agree(metric, groups, options)


@pytest.mark.parametrize("metric", signatures.RATING)
@given(groups=strategies.batches(strategies.ratings()))
def test_ratings(metric, groups):
    agree(metric, groups, {})


@pytest.mark.parametrize("metric", signatures.BEYOND)
@given(data=st.data())
def test_metrics_beyond_accuracy(metric, data):
    """NULLs, ties, gaps, any k, empty groups."""
    groups, options = data.draw(strategies.beyond(metric, metric_engines.names(metric)))
    agree(metric, groups, options, BEYOND_ENGINES)


@pytest.mark.parametrize("metric", signatures.TWO_RANKINGS)
@given(data=st.data())
def test_two_rankings(metric, data):
    groups = data.draw(strategies.batches(strategies.two_rankings()))
    agree(metric, groups, data.draw(strategies.options(metric)))


@pytest.mark.parametrize("metric", slow_except(signatures.RANKING, *LIGHT))
@given(data=st.data())
def test_lists(metric, data):
    groups = data.draw(strategies.batches(strategies.lists()))
    options = data.draw(strategies.options(metric))
    options.pop("ideal", None)
    if metric not in signatures.TAKES_IDEAL:
        groups = [(rels, None) for rels, _ in groups]
    agree(f"list_{metric}", groups, options)


@pytest.mark.parametrize("metric", slow_except(signatures.RANKING, *LIGHT))
@given(data=st.data())
def test_scores(metric, data):
    """Ties broken by the item's text bytes."""
    groups = data.draw(strategies.batches(strategies.scored()))
    agree(f"{metric}_by_score", groups, data.draw(strategies.options(metric)))


@pytest.mark.parametrize(
    "metric",
    slow_except([m for m in signatures.RANKING if FUNCTIONS[m].no_expected_ties != {}], *LIGHT),
)
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


def fitting(kind):
    """Grades that a column type can hold."""
    if kind == "BOOLEAN":
        return st.sampled_from([None, 0, 1])
    if kind.startswith("U"):
        return st.sampled_from([None, 0, 0, 1, 2, 3])
    if kind.endswith("INT") or kind == "INTEGER":
        return st.sampled_from([None, -2, -1, 0, 1, 2, 3])
    return strategies.GRADES


KINDS = [kind for kind in metric_engines.TYPES if kind != "VARCHAR"]


@pytest.mark.parametrize("kind", slow_except(KINDS, "UTINYINT", "BIGINT", "DECIMAL(9,2)", "FLOAT"))
@given(data=st.data())
def test_columns_have_any_numeric_type(kind, data):
    """Grades and positions in columns of every numeric type; each example asks another metric."""
    metric = data.draw(st.sampled_from(signatures.RANKING))
    groups = data.draw(strategies.batches(strategies.rankings(fitting(kind))))
    other = "BIGINT" if kind == "BOOLEAN" else kind
    agree(metric, groups, data.draw(strategies.options(metric)), rel=kind, pos=other)


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


@given(data=st.data())
def test_settings_change_nothing(sql_engines, data):
    """The user's settings of DuckDB change nothing; each example asks another metric."""
    metric = data.draw(st.sampled_from(signatures.RANKING))
    options = data.draw(strategies.options(metric))
    groups = data.draw(strategies.batches(strategies.rankings()))
    values = expected(metric, groups, options)
    for engine in sql_engines:
        wrong = metric_engines.differences(engine, metric, groups, options, values)
        assert not wrong, "\n".join(wrong)
    scored = data.draw(strategies.batches(strategies.scored()))
    values = expected(f"{metric}_by_score", scored, options)
    wrong = metric_engines.differences(
        sql_engines[2], f"{metric}_by_score", scored, options, values
    )
    assert not wrong, "\n".join(wrong)
    metric = data.draw(st.sampled_from([*signatures.BEYOND]))
    groups, options = data.draw(strategies.beyond(metric, metric_engines.names(metric)))
    values = expected(metric, groups, options)
    wrong = metric_engines.differences(sql_engines[0], metric, groups, options, values)
    assert not wrong, "\n".join(wrong)


# What must hold of any correct implementation, whatever the reference says


def values(name, metric, groups, options=None):
    return metric_engines.ENGINES[name].run(metric, groups, options or {})


@pytest.mark.parametrize("name", ["sql", "polars", "pipe streaming"])
@settings(max_examples=max(5, settings.default.max_examples // 3))
@given(groups=strategies.batches(strategies.rankings().filter(bool)), data=st.data())
def test_shares_lie_between_0_and_1(name, groups, data):
    """Shares lie between 0 and 1, whatever the options, except where negative grades are kept."""
    options = {
        metric: data.draw(strategies.options(metric))
        | ({"negative": "zero"} if metric == "ndcg" else {})
        for metric in [
            *signatures.NULL_WITHOUT_RELEVANT,
            "precision_at",
            "judged_at",
            "rbp",
            "rbp_residual",
        ]
        if metric != "arhr"
    }
    for metric, given_options in options.items():
        for value in values(name, metric, groups, given_options):
            assert value is None or 0 <= value <= 1 + 1e-12, (metric, given_options)


NULL_OF_NOTHING = [
    *signatures.NULL_WITHOUT_RELEVANT,
    *signatures.RATING,
    "kendall_tau_b",
    "auc",
    "micro_recall_at",
    "micro_f1_at",
]


@pytest.mark.parametrize("metric", [*signatures.RANKING, *signatures.MICRO, *signatures.RATING])
def test_rankings_without_rows(metric):
    """No rows, or a list without entries: sums are 0, what asks for relevant items is NULL."""
    options = {"max_rel": 1} if "err" in metric else {"p": 0.5} if "rbp" in metric else {}
    null = metric in NULL_OF_NOTHING
    nothing = None if null else 1.0 if metric == "rbp_residual" else 0.0
    names = ["sql whole table", "polars select", "sql list", "polars list"]
    agree(metric, [[]], options, names, [nothing])


def test_no_groups_have_no_values():
    """No groups, no results."""
    for name, engine in metric_engines.engines_for("ndcg").items():
        assert engine.run("ndcg", [], {}) == [], name
