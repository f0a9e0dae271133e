"""How alike two rankings are: the definitions of the papers, scipy, and whole runs."""

import itertools
import json
import math
import random

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import kendalltau

import rankql
from rankql import RankqlError, correlate
from rankql.cli.main import main
from support import definitions, metric_engines, strategies
from support.parameters import cycled
from support.paths import DL19

RUNS = ["BM25", "D_BERT_KD_TASB", "SPLADE_P_P_ENSEMBLE_DISTIL"]
BOUNDS = ["ext", "min", "max", "residual"]


def values(metric, groups, options=None, name="sql"):
    return metric_engines.ENGINES[name].run(metric, groups, options or {})


def rows(first, second):
    """Two lists of items as rows (reference, pos)."""
    items = dict.fromkeys([*first, *second])
    places = [{item: i for i, item in enumerate(items, 1)} for items in (first, second)]
    return [(places[0].get(item), places[1].get(item)) for item in items]


# the metrics


@pytest.mark.parametrize("metric", ["kendall_tau_b", "kendall_tau_distance"])
@given(groups=st.lists(strategies.two_rankings().filter(bool), min_size=1, max_size=5))
def test_kendall_of_two_rankings(metric, groups):
    """The metrics of grades, with the reference reversed for the grade, are Kendall's."""
    reversed_ = [[(ref and -ref, pos) for ref, pos in group] for group in groups]
    for name in ("sql", "polars"):
        for value, group in zip(values(metric, reversed_, name=name), groups, strict=True):
            both = [row for row in group if None not in row]
            if metric == "kendall_tau_b":
                theirs = kendalltau(*zip(*both, strict=True)).statistic if len(both) > 1 else None
            else:
                pairs = itertools.combinations(both, 2)
                theirs = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)
            assert value == (None if theirs is None else pytest.approx(theirs, abs=1e-12))


@given(st.lists(st.integers(1, 5), min_size=2, max_size=8), st.randoms())
def test_kendall_with_ties_in_the_reference(ranks, seed):
    """Items tied in the reference are equal grades."""
    order = seed.sample(range(1, len(ranks) + 1), len(ranks))
    group = [(-rank, pos) for rank, pos in zip(ranks, order, strict=True)]
    theirs = kendalltau(ranks, order).statistic
    for name in ("sql", "polars"):
        (value,) = values("kendall_tau_b", [group], name=name)
        assert value == (None if math.isnan(theirs) else pytest.approx(theirs, abs=1e-12))


@given(st.permutations(range(7)))
def test_tau_ap_is_the_chance_of_a_right_pair(order):
    """Yilmaz 2008: draw an item, not the first, then one above it: are they in order? 2p - 1."""
    group = rows(range(7), order)
    chances = [
        sum(upper < order[i] for upper in order[:i]) / i / (len(order) - 1)
        for i in range(1, len(order))
    ]
    for name in ("sql", "polars"):
        assert values("tau_ap", [group], name=name) == [pytest.approx(2 * sum(chances) - 1)]


@pytest.mark.parametrize("name", ["sql", "polars"])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.9, 0.999])
def test_rbo_of_one_list_with_itself_is_one_to_the_last_bit(name, p):
    groups = [[(i, i) for i in range(1, n + 1)] for n in [*range(1, 61), 500]]
    assert set(values("rbo", groups, {"p": p}, name)) == {1.0}
    # Not where the order or an item is another, or one list goes on; and never more.
    swapped = [[*group[2:], (1, 2), (2, 1)] for group in groups[1:40]]
    longer = [[*group, (None, len(group) + 1)] for group in groups]
    other = [[*group, (None, len(group) + 1), (len(group) + 1, None)] for group in groups]
    assert max(values("rbo", swapped, {"p": p}, name)) < 1
    assert max(values("rbo", longer + other, {"p": p}, name)) <= 1


def rbo_of_prefixes(first, second, p):
    """Webber 2010, equation 4: the weighted mean agreement over all depths of long lists."""
    return math.fsum(
        (1 - p) * p ** (d - 1) * len({*first[:d]} & {*second[:d]}) / d
        for d in range(1, len(first) + 1)
    )


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["min", "max"])
def test_rbo_bounds_are_reached(bound):
    """By lists that go on as unlike, or as like, as they can: here for 300 items more."""
    random.seed(3)
    for _ in range(20):
        pool = [f"i{i}" for i in range(8)]
        first = random.sample(pool, random.randint(1, 6))
        second = random.sample(pool, random.randint(1, 6))
        one, other = list(first), list(second)
        if bound == "min":
            one += [f"a{i}" for i in range(300)]
            other += [f"b{i}" for i in range(300)]
        else:
            new = (f"n{i}" for i in itertools.count())
            for depth in range(1, 301):
                sides = [side for side in (one, other) if len(side) < depth]
                for side, rest in ((one, other), (other, one)):
                    missing = [item for item in rest if item not in side]
                    if side in sides and missing:
                        side.append(missing[0])
                        sides = [s for s in sides if s is not side]
                fresh = next(new)
                for side in sides:
                    side.append(fresh)
        expected = rbo_of_prefixes(one[:300], other[:300], 0.8)
        for name in ("sql", "polars"):
            (value,) = values("rbo", [rows(first, second)], {"p": 0.8, "bound": bound}, name)
            assert value == pytest.approx(expected, abs=1e-9), (first, second)


@pytest.mark.parametrize("metric", ["tau_ap", "rbo"])
def test_lists_of_10_000_items(metric):
    """10,000 items: the definition on every engine."""
    random.seed(1)
    group = rows(range(10_000), sorted(range(100, 10_100), key=lambda i: i + 900 * random.random()))
    options = {"p": 0.999} if metric == "rbo" else {}
    result = [values(metric, [group], options, name)[0] for name in ("sql", "polars")]
    assert result[0] == pytest.approx(result[1], abs=1e-12)
    short = [(a, b) for a, b in group if a and b and a <= 500 and b <= 500]
    expected = getattr(definitions, metric)(group, k=500, **options)
    assert short
    assert values(metric, [group], {**options, "k": 500}) == [pytest.approx(expected, abs=1e-12)]


@pytest.mark.parametrize(
    ("group", "options", "message"),
    [
        ([(1, 1), (1, 2)], {}, "reference must not be the same for two items of a group"),
        ([(1, 1), (2, 1)], {}, "pos must not be the same for two items of a group"),
        ([(0, 1)], {}, "reference must be a whole number from 1, not 0"),
        ([(1, -1)], {}, "pos must be a whole number from 1, not -1"),
        ([(1, 1)], {"k": 0}, "k must be a whole number from 1"),
        ([(1, 1)], {"p": None},
         "p must be given: the probability of looking at the next item, between 0 and 1"),
        ([(1, 1)], {"p": 1}, "p must lie between 0 and 1, not 1"),
        ([(1, 1)], {"p": 0.0}, "p must lie between 0 and 1, not 0.0"),
        ([(1, 1)], {"bound": "most"},
         "bound must be 'ext', 'min', 'max' or 'residual', not most"),
    ],
)  # fmt: skip
def test_lists_and_options_are_refused(group, options, message):
    for metric, name in itertools.product(["tau_ap", "rbo"], ["sql", "polars"]):
        if metric == "rbo" or not {"p", "bound"} & options.keys():
            given = {"p": 0.9, **options} if metric == "rbo" else options
            complaint = metric_engines.complaint(lambda m=metric, n=name, g=given: values(
                m, [group], g, n))  # fmt: skip
            assert complaint.startswith(message), (metric, name)


def test_a_tie_beyond_k_is_ignored():
    group = [(1, 2), (2, 1), (5, 5), (6, 5)]
    for name in ("sql", "polars"):
        assert values("tau_ap", [group], {"k": 2}, name) == [-1.0]


# whole runs


def lists(seed, queries=6, most=9):
    """Two runs as {query: items in order}; some queries are in one of them only."""
    random.seed(seed)
    pool = [f"d{i}" for i in range(most + 3)]
    return [
        {
            f"q{q}": random.sample(pool, random.randint(1, most))
            for q in range(queries)
            if q < 4 or q % 2 == side
        }
        for side in (0, 1)
    ]


def frame(run, place="pos"):
    result = [(q, d, i) for q, items in run.items() for i, d in enumerate(items, 1)]
    table = pl.DataFrame(result, schema=["query", "item", "pos"], orient="row").sample(
        fraction=1, shuffle=True, seed=1
    )
    if place == "score":
        table = table.select("query", "item", score=-pl.col("pos").cast(pl.Float64))
    return table


def by_hand(first, second, k=None):
    """The values per query, straight from the definitions."""
    result = {}
    for query in sorted(first.keys() & second.keys()):
        group = rows(second[query][:k], first[query][:k])  # the second is the reference
        both = [row for row in group if None not in row]
        tau = kendalltau(*zip(*both, strict=True)).statistic if len(both) > 1 else None
        pairs = itertools.combinations(both, 2)
        result[query] = [
            definitions.rbo(group, p=0.9),
            tau,
            definitions.tau_ap(group),
            float(sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)),
        ]
    return result


def assert_values(result, expected, near=1e-12):
    assert [row[0] for row in result.per_query.rows()] == list(expected)
    for query, *results in result.per_query.rows():
        for value, wanted in zip(results, expected[query], strict=True):
            assert value == (None if wanted is None else pytest.approx(wanted, abs=near)), query


@pytest.mark.parametrize(
    ("places", "k"), cycled([*itertools.product(["pos", "score"], repeat=2)], [None, 1, 4]), ids=str
)
def test_correlate_equals_the_definitions(places, k):
    """By position or by score, cut or whole: the definitions on the lists."""
    for seed in range(5):
        run, other = lists(seed)
        tables = [frame(table, place) for table, place in zip((run, other), places, strict=True)]
        assert_values(correlate(*tables, k=k), by_hand(run, other, k))


def test_each_metric_has_its_cutoff():
    run, other = lists(3)
    names = ["RBO(p=0.9)@3", "TauB@4", "TauAP", "TauDistance@3"]
    result = correlate(frame(run), frame(other), names, k=5)
    assert result.metrics == ["RBO(p=0.9)@3", "TauB@4", "TauAP@5", "TauDistance@3"]
    for i, k in enumerate([3, 4, 5, 3]):
        alone = by_hand(run, other, k)
        results = result.per_query[result.metrics[i]].to_list()
        expected = [values[i] for values in alone.values()]
        assert results == [None if v is None else pytest.approx(v, abs=1e-12) for v in expected]


def test_tied_scores_are_ordered_as_in_evaluate():
    """Of equal scores the higher item stands first, as in evaluate."""
    run = pl.DataFrame({"query": 1, "item": ["9", "10", "a"], "score": [1.0, 1.0, 2.0]})
    order = pl.DataFrame({"query": 1, "item": ["a", "9", "10"], "pos": [1, 2, 3]})
    assert correlate(run, order, "TauB")["TauB"] == 1
    assert correlate(order, run, "RBO(p=0.5)")["RBO(p=0.5)"] == 1


def test_several_runs():
    """A dict and a column `system` are the same, and each what it is alone."""
    one, other = lists(1)
    two = {query: items[::-1] for query, items in one.items()}
    runs = {"one": frame(one), "two": frame(two)}
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
    run = frame(lists(2)[0])
    means = correlate(run, run).summary["mean"].to_list()
    assert means[:1] + means[3:] == [pytest.approx(1, abs=1e-12), 0.0]
    assert correlate(run, run).notes == []


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
    note = correlate(run, other, "RBO(p=.5)").notes[-1]
    assert note.endswith("items is in both the run and the reference.")
    assert result.per_query.height == 1
    assert "Note: 1 of 3 items" in repr(result)
    assert "Conventions: rankql (defaults)" in repr(result)


def test_slices_and_result(tmp_path):
    """Means by slice, markdown, a file that combine takes in."""
    run, other = map(frame, lists(4))
    about = (
        run.select("query").unique().with_columns(kind=pl.col("query").str.slice(1).cast(int) % 2)
    )
    result = correlate(run, other, "RBO(p=0.9)", by="kind", attributes=about, interval=None)
    part = result.summary.filter(pl.col("kind") == 1)["mean"].item()
    assert part == pytest.approx(
        result.per_query.filter(pl.col("kind") == 1)["RBO(p=0.9)"].mean(), abs=1e-12
    )
    within = other.join(about, on="query", how="left").with_columns(pl.col("kind").fill_null(0))
    assert_frame_equal(correlate(run, within, "RBO(p=0.9)", by="kind").per_query, result.per_query)
    assert result["rbo(p=0.9)"] == result["RBO(p=0.9)"]
    assert "| RBO(p=0.9) |" in result.to_markdown() and "<table>" in result._repr_html_()
    result.save_values(tmp_path / "out.parquet")
    assert_frame_equal(
        rankql.combine([tmp_path / "out.parquet"], interval=None).summary, result.summary
    )


def test_the_query_runs_alone():
    """The SQL shown is what ran, for a DuckDB with the macros."""
    run, other = lists(5)
    con = duckdb.connect()
    con.register("a", frame(run))
    con.register("b", frame(other))
    result = correlate("a", "b", con=con)
    rankql.register(con)
    in_both = pl.all_horizontal(pl.col("__rankql_in_run", "__rankql_in_reference") > 0)
    results = con.sql(result.sql).pl().filter(in_both)
    assert_frame_equal(results.select(result.per_query.columns), result.per_query)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("nulls", ["nulls_first", "nulls_last"])
def test_settings_change_nothing(order, nulls):
    run, other = lists(6)
    con = duckdb.connect()
    con.execute(f"SET default_order = '{order}'; SET default_null_order = '{nulls}'")
    con.execute("SET integer_division = true")
    tables = frame(run, "score"), frame(other, "score")
    assert_values(correlate(*tables, con=con), by_hand(run, other))


RUN = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "pos": [1, 2]})


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"query": 5}, {}, "No query of the run is in the reference: it"),
        ({"item": "a"}, {}, "reference has duplicates: query 1, item 'a'. Keep one row of each"),
        ({"pos": 1}, {}, "reference has duplicates: query 1, pos 1"),
        ({"pos": 0}, {}, "reference: pos must be a whole number from 1"),
        ({}, {"metrics": "nDCG@10"}, "Unknown metric 'nDCG'"),
        ({}, {"metrics": "RBO"}, "p must be given: the probability of looking"),
        ({}, {"metrics": "RBO(p=2)"}, "p must lie between 0 and 1, not 2"),
        ({}, {"metrics": "RBO(p=.5, bound=top)"}, "bound must be 'ext', 'min'"),
        ({}, {"metrics": "x = 1"}, "correlate does not support SQL expressions such as 'x'"),
        ({}, {"k": 0}, "k must be a whole number from 1, not 0"),
        ({}, {"by": "kind"}, "by='kind': no column of that name in "),
    ],
)
def test_correlate_refuses(changes, options, message):
    with pytest.raises(RankqlError) as error:
        correlate(RUN, RUN.with_columns(**{n: pl.lit(v) for n, v in changes.items()}), **options)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["in both", "in run", "In Reference", "missing", "mean", "pos"])
def test_every_name_is_free(name):
    run = pl.DataFrame({"q": ["a", "a"], "item": ["x", "y"], "rank": [1, 2]})
    attributes = pl.DataFrame({"q": ["a"], name: ["b"]})
    result = correlate(run, run, "TauB", by=name, attributes=attributes, query="q", pos="rank")
    assert result.summary["slice"].to_list() == ["all", f"{name}=b"]
    assert correlate(run.rename({"q": name}), run, query=(name, "q"), pos="rank")["TauB"] == 1


def test_threads_and_order_of_rows_change_no_bit():
    """Means and intervals hang on no thread, nor on the order of the rows."""
    draw = random.Random(7)
    frames = [
        pl.DataFrame(
            {
                "query": [q for q in range(1500) for _ in range(5)],
                "item": [f"i{item}" for _ in range(1500) for item in draw.sample(range(9), 5)],
                "score": [draw.random() for _ in range(7500)],
            }
        )
        for _ in range(2)
    ]
    con = duckdb.connect(config={"threads": 4})
    first = correlate(*frames, con=con)
    for seed in range(8):
        one, other = (frame.sample(fraction=1, shuffle=True, seed=seed) for frame in frames)
        result = correlate(one, other, con=con)
        assert_frame_equal(result.summary, first.summary, check_exact=True)


def test_columns_are_given_by_name():
    run = RUN.rename({"query": "q", "pos": "place"})
    other = RUN.rename({"query": "topic", "pos": "nth"})
    result = correlate(run, other, query=["q", "topic"], pos=["place", "nth"])
    assert result["RBO(p=0.9)"] == pytest.approx(1)


def test_command(tmp_path):
    one, other = map(frame, lists(7))
    for name, table in {"one": one, "two": one.reverse(), "other": other}.items():
        table.write_parquet(tmp_path / f"{name}.parquet")

    def run(*arguments, code=0):
        paths = [
            tmp_path / f"{a}.parquet" if a in ("one", "two", "other") else a for a in arguments
        ]
        done = CliRunner().invoke(main, ["correlate", *map(str, paths)])
        assert done.exit_code == code, done.output
        return done

    assert (
        run("one", "other").stdout
        == repr(correlate(tmp_path / "one.parquet", tmp_path / "other.parquet")) + "\n"
    )
    several = json.loads(
        run("one", "two", "other", "-m", "TauAP", "-k", 3, "--format", "json").stdout
    )
    assert [row["system"] for row in several["table"]] == ["one", "two"]
    assert [row["metric"] for row in several["table"]] == ["TauAP@3"] * 2
    lines = run("one", "other", "-q", "--format", "csv").stdout.splitlines()
    assert lines[0] == "query,RBO(p=0.9),TauB,TauAP,TauDistance"
    assert "Pass RUN... REFERENCE" in run("one", code=2).stderr


# real runs


def trec(name):
    result = {}
    for line in (DL19 / f"{name}.run").read_text().splitlines():
        query, _, item, _, score, _ = line.split()
        result.setdefault(query, []).append((float(score), item.encode(), item))
    return {q: [item for *_, item in sorted(items, reverse=True)] for q, items in result.items()}


@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
@pytest.mark.parametrize("pair", [*itertools.pairwise(RUNS)], ids="-".join)
def test_dl19(pair):
    """Every run of TREC 2019 against every other, in whole and at 10."""
    run, other = map(trec, pair)
    paths = [DL19 / f"{name}.run" for name in pair]
    assert_values(correlate(*paths, k=10), by_hand(run, other, 10))
    result = correlate(*paths)
    assert result.per_query.height == 43
    assert_values(result, by_hand(run, other))
