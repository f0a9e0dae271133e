"""How similar two rankings are: the definitions of the papers, scipy, and evaluate."""

import itertools
import random

import polars as pl
import pytest
from pytest import approx
from scipy.stats import kendalltau

import rankql
from support import definitions, metric_engines

ENGINES = pytest.mark.parametrize("engine", ["sql", "polars"])


def values(engine, metric, groups, **options):
    return metric_engines.ENGINES[engine].run(metric, groups, options)


def rows(first, second):
    """Two lists of items as rows (reference, pos)."""
    items = dict.fromkeys([*first, *second])
    places = [{item: i for i, item in enumerate(items, 1)} for items in (first, second)]
    return [(places[0].get(item), places[1].get(item)) for item in items]


@pytest.mark.slow
@ENGINES
@pytest.mark.parametrize("p", [0.5, 0.8, 0.9, 0.999])
def test_rbo_of_one_list_with_itself_is_one_to_the_last_bit(engine, p):
    groups = [[(i, i) for i in range(1, n + 1)] for n in [*range(1, 61), 500]]
    assert set(values(engine, "rbo", groups, p=p)) == {1.0}
    # Not if the order or an item differs, or one list is longer; and never more.
    swapped = [[*group[2:], (1, 2), (2, 1)] for group in groups[1:40]]
    longer = [[*group, (None, len(group) + 1)] for group in groups]
    other = [[*group, (None, len(group) + 1), (len(group) + 1, None)] for group in groups]
    assert max(values(engine, "rbo", swapped, p=p)) < 1
    assert max(values(engine, "rbo", longer + other, p=p)) <= 1


@ENGINES
@pytest.mark.parametrize(("metric", "options"), [("tau_ap", {}), ("rbo", {"p": 0.999})])
def test_lists_of_10_000_items(metric, options, engine):
    random.seed(1)
    group = rows(range(10_000), sorted(range(100, 10_100), key=lambda i: i + 900 * random.random()))
    expected = getattr(definitions, metric)(group, k=500, **options)
    assert values(engine, metric, [group], **options, k=500) == [approx(expected, abs=1e-12)]


@ENGINES
def test_a_tie_beyond_k_is_ignored(engine):
    assert values(engine, "tau_ap", [[(1, 2), (2, 1), (5, 5), (6, 5)]], k=2) == [-1.0]


@pytest.mark.parametrize("seed", range(3))
def test_evaluate_averages_them_as_the_page_on_trust_does(seed):
    """The join with the reference gives the definitions, for items of one ranking too."""
    random.seed(seed)
    pool = [f"d{i}" for i in range(12)]
    lists = [[random.sample(pool, random.randint(2, 9)) for _ in range(2)] for _ in range(6)]
    places = [(q, *row) for q, both in enumerate(lists) for row in rows(*both)]
    table = pl.DataFrame(places, ["query", "reference", "pos"], orient="row", strict=False)
    table = table.with_columns(item=pl.int_range(pl.len()).over("query"), odd=pl.col("query") % 2)
    metrics = ["RBO = rbo(reference, pos, p := 0.9)", "TauB", "AP cor = tau_ap(reference, pos)"]
    metrics.append("TauDistance")
    result = rankql.evaluate(table, metrics=metrics, rel="-reference", by="odd")
    for query, *_, rbo, tau, tau_ap, distance in result.per_query.rows():
        group = rows(*lists[query])
        shared = [row for row in group if None not in row]
        assert rbo == approx(definitions.rbo(group, p=0.9))
        assert tau_ap == approx(definitions.tau_ap(group))
        if len(shared) > 1:
            assert tau == approx(kendalltau(*zip(*shared, strict=True)).statistic)
        pairs = itertools.combinations(shared, 2)
        assert distance == sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)
    overall = result.summary.filter(slice="all", metric="RBO").row(0, named=True)
    assert overall["lo"] < result["RBO"] < overall["hi"]
    assert result.summary["slice"].unique().sort().to_list() == ["all", "odd=0", "odd=1"]
