"""How similar two rankings are: the definitions of the papers, scipy, and complete runs."""

import itertools
import random

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pytest import approx
from scipy.stats import kendalltau

import rankql
from rankql import correlate
from support import definitions, metric_engines
from support.parameters import cycled, slow

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
@given(st.permutations(range(7)))
def test_tau_ap_is_the_chance_of_a_right_pair(engine, order):
    """Yilmaz 2008: draw an item, not the first, then one above it: are they in order? 2p - 1."""
    chances = [sum(upper < order[i] for upper in order[:i]) / i / 6 for i in range(1, 7)]
    assert values(engine, "tau_ap", [rows(range(7), order)]) == [approx(2 * sum(chances) - 1)]


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


def draw(seed, queries=6, most=9):
    """Two runs as {query: items in order}; some queries are in one of them only."""
    random.seed(seed)
    pool = [f"d{i}" for i in range(most + 3)]
    return [
        {f"q{q}": random.sample(pool, random.randint(1, most))
         for q in range(queries) if q < 4 or q % 2 == side}
        for side in (0, 1)
    ]  # fmt: skip


def frame(run, place="pos"):
    result = [(q, d, i) for q, items in run.items() for i, d in enumerate(items, 1)]
    table = pl.DataFrame(result, schema=["query", "item", "pos"], orient="row")
    table = table.sample(fraction=1, shuffle=True, seed=1)
    if place == "score":
        table = table.select("query", "item", score=-pl.col("pos").cast(pl.Float64))
    return table


def by_definition(first, second, k=None):
    """The values per query, straight from the definitions; the second run is the reference."""
    result = {}
    for query in sorted(first.keys() & second.keys()):
        group = rows(second[query][:k], first[query][:k])
        both = [row for row in group if None not in row]
        pairs = itertools.combinations(both, 2)
        result[query] = [
            definitions.rbo(group, p=0.9),
            kendalltau(*zip(*both, strict=True)).statistic if len(both) > 1 else None,
            definitions.tau_ap(group),
            float(sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)),
        ]
    return result


def assert_values(result, expected):
    assert [row[0] for row in result.per_query.rows()] == list(expected)
    for query, *results in result.per_query.rows():
        assert results == approx(expected[query], abs=1e-12), query


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("places", "k"), cycled([*itertools.product(["pos", "score"], repeat=2)], [None, 1, 4]), ids=str
)
def test_correlate_equals_the_definitions(places, k):
    for seed in range(5):
        runs = draw(seed)
        tables = [frame(table, place) for table, place in zip(runs, places, strict=True)]
        assert_values(correlate(*tables, k=k), by_definition(*runs, k))


def test_each_metric_has_its_cutoff():
    runs = draw(3)
    names = ["RBO(p=0.9)@3", "TauB@4", "TauAP", "TauDistance@3"]
    result = correlate(*map(frame, runs), names, k=5)
    assert result.metrics == ["RBO(p=0.9)@3", "TauB@4", "TauAP@5", "TauDistance@3"]
    for i, k in enumerate([3, 4, 5, 3]):
        expected = [each[i] for each in by_definition(*runs, k).values()]
        assert result.per_query[result.metrics[i]].to_list() == approx(expected, abs=1e-12)


def test_tied_scores_are_ordered_as_in_evaluate():
    """Of equal scores the higher item stands first."""
    run = pl.DataFrame({"query": 1, "item": ["9", "10", "a"], "score": [1.0, 1.0, 2.0]})
    order = pl.DataFrame({"query": 1, "item": ["a", "9", "10"], "pos": [1, 2, 3]})
    assert correlate(run, order, "TauB")["TauB"] == 1
    assert correlate(order, run, "RBO(p=0.5)")["RBO(p=0.5)"] == 1


def test_several_runs():
    """A dict and a column `system` are the same, and each what it is alone."""
    first, other = draw(1)
    runs = {"one": frame(first), "two": frame({q: items[::-1] for q, items in first.items()})}
    result = correlate(runs, frame(other))
    stacked = pl.concat([run.with_columns(system=pl.lit(name)) for name, run in runs.items()])
    column = correlate(stacked, frame(other), system="system")
    assert_frame_equal(result.per_query, column.per_query)
    for name, run in runs.items():
        alone = correlate(run, frame(other))
        assert_frame_equal(result.per_query.filter(system=name).drop("system"), alone.per_query)
    assert result.summary["system"].unique(maintain_order=True).to_list() == ["one", "two"]
    assert any("run 'two'" in note for note in result.notes)


def test_the_same_run_twice():
    run = frame(draw(2)[0])
    result = correlate(run, run)
    means = result.summary["mean"].to_list()
    assert means[:1] + means[3:] == [approx(1, abs=1e-12), 0.0] and result.notes == []


def test_notes_count_queries_and_items_on_one_side():
    run = pl.DataFrame({"query": [1, 1, 2], "item": ["a", "b", "a"], "pos": [1, 2, 1]})
    other = pl.DataFrame({"query": [1, 1, 3], "item": ["b", "c", "a"], "pos": [1, 2, 1]})
    result = correlate(run, other)
    assert result.notes == [
        "1 of 2 queries of the run is not in the reference and left out (2).",
        "1 of 2 queries of the reference is not in the run and left out (3).",
        "1 of 3 items is in both the run and the reference. "
        "TauB, TauAP and TauDistance use these only.",
    ]
    assert correlate(run, other, "RBO(p=.5)").notes[-1].endswith("the run and the reference.")
    assert result.per_query.height == 1 and "Conventions: rankql (defaults)" in repr(result)


def test_slices_and_saved_values(tmp_path):
    run, other = map(frame, draw(4))
    number = pl.col("query").str.slice(1).cast(int)
    about = run.select("query").unique().with_columns(kind=number % 2)
    result = correlate(run, other, "RBO(p=0.9)", by="kind", attributes=about, interval=None)
    odd = result.per_query.filter(kind=1)["RBO(p=0.9)"].mean()
    assert result.summary.filter(kind=1)["mean"].item() == approx(odd, abs=1e-12)
    within = other.join(about, on="query", how="left").with_columns(pl.col("kind").fill_null(0))
    assert_frame_equal(correlate(run, within, "RBO(p=0.9)", by="kind").per_query, result.per_query)
    assert result["rbo(p=0.9)"] == result["RBO(p=0.9)"]
    result.save_values(tmp_path / "out.parquet")
    combined = rankql.combine([tmp_path / "out.parquet"], interval=None)
    assert_frame_equal(combined.summary, result.summary)


@pytest.mark.slow
def test_the_query_runs_alone():
    """The SQL of the result is what ran, for a DuckDB with the macros."""
    con = duckdb.connect()
    for name, run in zip("ab", draw(5), strict=True):
        con.register(name, frame(run))
    result = correlate("a", "b", con=con)
    rankql.register(con)
    in_both = pl.all_horizontal(pl.col("__rankql_in_run", "__rankql_in_reference") > 0)
    rows = con.sql(result.sql).pl().filter(in_both)
    assert_frame_equal(rows.select(result.per_query.columns), result.per_query)


@pytest.mark.parametrize(("order", "nulls"), [("desc", "nulls_first"), slow("asc", "nulls_last")])
def test_settings_change_nothing(order, nulls):
    runs = draw(6)
    con = duckdb.connect()
    con.execute(f"SET default_order = '{order}'; SET default_null_order = '{nulls}'")
    con.execute("SET integer_division = true")
    tables = [frame(run, "score") for run in runs]
    assert_values(correlate(*tables, con=con), by_definition(*runs))


RUN = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "pos": [1, 2]})


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["in both", "in run", "In Reference", "missing", "mean", "pos"])
def test_every_name_is_free(name):
    run = RUN.rename({"query": "q", "pos": "rank"})
    attributes = pl.DataFrame({"q": [1], name: ["b"]})
    result = correlate(run, run, "TauB", by=name, attributes=attributes, query="q", pos="rank")
    assert result.summary["slice"].to_list() == ["all", f"{name}=b"]
    assert correlate(run.rename({"q": name}), run, query=(name, "q"), pos="rank")["TauB"] == 1


@pytest.mark.slow
def test_threads_and_order_of_rows_change_no_bit():
    random.seed(7)
    rows = [
        (side, query, f"i{item}", random.random())
        for side in (0, 1) for query in range(1500) for item in random.sample(range(9), 5)
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=["side", "query", "item", "score"], orient="row")
    con, summaries = duckdb.connect(config={"threads": 4}), []
    for seed in range(4):
        mixed = table.sample(fraction=1, shuffle=True, seed=seed)
        runs = (mixed.filter(side=side).drop("side") for side in (0, 1))
        summaries.append(correlate(*runs, con=con).summary)
        assert_frame_equal(summaries[0], summaries[-1], check_exact=True)
