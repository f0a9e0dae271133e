"""How far a metric can be trusted: every number against plain Python."""

from functools import partial
from math import fsum
from random import Random

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql import limits
from support import definitions
from support.parameters import cycled, first_light, slow

NEAR = 1e-12


def exp2_ndcg(rows, k):
    return definitions.ndcg([(definitions.exp2_gain(rel), pos) for rel, pos in rows], k)


def gained(rows, k):
    grades = [rel for rel, _ in definitions.shown(rows, k) if rel is not None]
    return sum(grades) if grades else None


# The metric -> its value in plain Python, and the last swap.
METRICS = {
    name: (partial(value, **options), last)
    for name, value, last, options in (
        ("nDCG@3", definitions.ndcg, 3, {"k": 3}),
        ("nDCG", definitions.ndcg, 10, {}),
        ("nDCG(gain=exp2)@2", exp2_ndcg, 2, {"k": 2}),
        ("nDCG(ideal=retrieved)@4", definitions.ndcg, 4, {"k": 4, "ideal": "retrieved"}),
        ("DCG@2", definitions.dcg, 2, {"k": 2}),
        ("IDCG@3", definitions.idcg, 3, {"k": 3}),
        ("AP", definitions.ap, 10, {}),
        ("AP(denominator=found)@3", definitions.ap, 3, {"k": 3, "denominator": "found"}),
        ("RR@2", definitions.rr, 2, {"k": 2}),
        ("P@2", definitions.precision_at, 2, {"k": 2}),
        ("P(rel=2)@4", definitions.precision_at, 4, {"k": 4, "threshold": 2}),
        ("P(denominator=retrieved)@3", definitions.precision_at, 3,
         {"k": 3, "denominator": "retrieved"}),
        ("R@3", definitions.recall_at, 3, {"k": 3}),
        ("F1@2", definitions.f1_at, 2, {"k": 2}),
        ("Success@1", definitions.hit_at, 1, {"k": 1}),
        ("Rprec", definitions.r_precision, 10, {}),
        ("Bpref", definitions.bpref, 10, {}),
        ("Judged@2", definitions.judged_at, 2, {"k": 2}),
        ("ERR(max_rel=3)@3", definitions.err, 3, {"k": 3, "max_rel": 3}),
        ("RBP(p=0.8)", definitions.rbp, 10, {"p": 0.8}),
        ("RBPres(p=0.8)@3", definitions.rbp_residual, 3, {"k": 3, "p": 0.8}),
        ("ARHR@3", definitions.arhr, 3, {"k": 3}),
        ("TauB", definitions.kendall_tau_b, 10, {}),
        ("my 'own' = sum(rel) FILTER (WHERE pos <= 2)", gained, 10, {"k": 2}),
    )
}  # fmt: skip
# Metrics without own SQL are swapped in another way.
OURS = [name for name in METRICS if not name.startswith("my")]
SOME = ["nDCG@3", "AP", "RR@2", "P@2", "Success@1", "P(rel=2)@4"]
UNBOUNDED = ("Judged", "RBPres", "TauB", "Bpref", "Rprec", "IDCG")
BOUNDED = [name for name in OURS if not name.startswith(UNBOUNDED)]


def near(value, expected):
    if value is None or expected is None:
        return value is expected
    return abs(value - expected) <= NEAR * max(1, abs(expected))


def two_items(*grades):
    """A ranked table of one query."""
    columns = {"query": ["a", "a"], "item": ["x", "y"], "rel": grades, "pos": [1, 2]}
    return pl.DataFrame(columns)


def losses(queries, value, i):
    """The mean change by a swap over the queries with a value, and how many there are."""
    places = {i: i + 1, i + 1: i}
    changes = []
    for rows in queries:
        if (before := value(rows)) is not None:
            after = value([(rel, places.get(pos, pos)) for rel, pos in rows])
            changes.append(0.0 if after is None else abs(after - before))
    mean = fsum(changes) / len(changes) if changes else None
    return mean, sum(change > NEAR for change in changes)


def draw(seed, systems=("",)):
    """Rankings by system and query as rows (rel, pos), and the frames of run and judgments."""
    random = Random(seed)
    cases, run, qrels = {}, [], []
    for q in range(8):
        query, items = f"q{q}", [f"d{n}" for n in range(8)]
        grades = {item: random.choice([None, None, 0, 0, 1, 2, 3]) for item in items}
        if q == 0:
            grades = dict.fromkeys(items, 0)  # of which nothing is relevant
        if q == 1:
            grades["d0"] = 3
        qrels += [(query, item, rel) for item, rel in grades.items() if rel is not None]
        for system in systems:
            top = [] if q == 1 else random.sample(items, random.randint(1, 6))  # q1 is missing
            run += [(system, query, item, -float(n)) for n, item in enumerate(top)]
            ranked = [(grades[item], n) for n, item in enumerate(top, 1)]
            left = [(grades[item], None) for item in items
                    if item not in top and grades[item] is not None]  # fmt: skip
            if any(rel is not None for rel in grades.values()):
                cases.setdefault(system, {})[query] = ranked + left
    run = pl.DataFrame(run, schema=["system", "query", "item", "score"], orient="row")
    qrels = pl.DataFrame(qrels, schema=["query", "item", "rel"], orient="row")
    return cases, run if len(systems) > 1 else run.drop("system"), qrels


def draw_table(seed):
    """Ranked tables: positions with gaps, rows of items that were not retrieved."""
    random = Random(seed)
    cases = {}
    for q in range(8):
        places = sorted(random.sample(range(1, 9), random.randint(1, 5)))
        rows = [(random.choice([None, 0, 1, 2, 3]), pos) for pos in places]
        rows += [(random.choice([0, 1, 3]), None) for _ in range(random.randint(0, 2))]
        if any(rel is not None for rel, _ in rows):
            cases[f"q{q}"] = rows
    flat = [(q, f"d{n}", *row) for q, rows in cases.items() for n, row in enumerate(rows)]
    return cases, pl.DataFrame(flat, schema=["query", "item", "rel", "pos"], orient="row")


def draw_form(form, seed):
    """The rows of each query, and the arguments of limits."""
    if form == "ranked table":
        cases, table = draw_table(seed)
        return cases.values(), (table, None)
    cases, run, qrels = draw(seed)
    return cases[""].values(), (run, qrels)


def assert_sensitivity(frame, queries, names):
    places = [(name, i) for name in names for i in range(1, METRICS[name][1] + 1)]
    rows = frame.select("metric", "position", "loss", "queries").rows()
    for (name, i), (metric, position, loss, changed) in zip(places, rows, strict=True):
        expected = losses(queries, METRICS[name][0], i)
        assert (metric, position, changed) == (name.partition(" =")[0], i, expected[1]), name
        assert near(loss, expected[0]), (name, i, loss, expected)


FORMS = ["two tables", "ranked table"]


@pytest.mark.parametrize(
    ("form", "names", "seed"), first_light(cycled(FORMS, [[*METRICS], OURS, SOME], range(4)))
)
def test_sensitivity(form, names, seed):
    """The items at i and i + 1 change places, and the metric is computed again."""
    queries, tables = draw_form(form, seed)
    assert_sensitivity(limits(*tables, names).sensitivity, queries, names)


@pytest.mark.parametrize("form", ["dict", slow("column")])
def test_several_systems(form):
    cases, run, qrels = draw(7, ["b", "a"])
    runs = {name: run.filter(system=name).drop("system") for name in ("b", "a")}
    options = {"system": "system"} if form == "column" else {}
    result = limits(run if options else runs, qrels, SOME, **options)
    for system in ("a", "b"):
        sensitivity = result.sensitivity.filter(system=system)
        assert_sensitivity(sensitivity, cases[system].values(), SOME)
        alone = limits(runs[system], qrels, SOME)
        for name in ("judged", "bounds", "undefined"):
            frame = getattr(result, name).filter(system=system).drop("system")
            assert frame.equals(getattr(alone, name)), name
    assert result.judged.columns[0] == "system"


@pytest.mark.parametrize(
    ("options", "queries"),
    [({}, 2), ({"missing": "skip"}, 1), ({"undefined": "zero"}, 3),
     ({"undefined": "zero", "missing": "skip"}, 2)],
)  # fmt: skip
def test_conventions_of_the_mean(options, queries):
    """By hand: RR over a (x, y: 1/2), b (nothing relevant) and c (missing); a's swap gains 1/2."""
    run, qrels = {"a": ["x", "y"], "b": ["x"]}, {"a": {"y": 1}, "b": {"x": 0}, "c": {"x": 1}}
    result = limits(run, qrels, "RR@1", **options)
    assert result.sensitivity.rows() == [("RR@1", 1, 1 / queries, 1)]
    dropped = limits(run, qrels, "DCG@1", threshold=2, undefined="drop")
    assert dropped.sensitivity.rows() == [("DCG@1", 1, None, 0)]


def test_own_sql_may_read_items():
    """Two items of one grade change places: no other metric changes."""
    own = "first = max(CAST(pos = 1 AND item = 'x' AS DOUBLE))"
    result = limits(two_items(1, 1), None, [own, "RR@1"])
    assert result.sensitivity.filter(pl.col("loss") > 0).rows() == [("first", 1, 1.0, 1)]
    without_items = limits(two_items(0, 1).drop("item"), None, "RR@1")
    assert without_items.sensitivity.rows() == [("RR@1", 1, 1.0, 1)]


def test_removed_items_take_no_position():
    """Without the unjudged x the ranking is y (0), z (1): its swap makes RR 1/2 to 1."""
    result = limits({"a": [*"xyz"]}, {"a": {"y": 0, "z": 1}}, "RR@2", unjudged="remove")
    assert result.sensitivity["loss"].to_list() == [0.5, 0.5]
    assert result.judged.rows() == [(2, 0.5, 2, 1, 1), (None, 2 / 3, 3, 1, 1)]
    assert result.bounds.is_empty() and result.notes[-1].startswith("No bounds for RR@2: ")


@pytest.mark.parametrize(("form", "seed"), cycled(FORMS, range(2)))
def test_bounds(seed, form):
    queries, tables = draw_form(form, seed)
    levels = sorted({0, *(rel for rows in queries for rel, _ in rows if rel)})
    result = limits(*tables, BOUNDED)
    assert result.bounds["metric"].to_list() == BOUNDED
    for metric, lo, mean, hi, opened in result.bounds.rows():
        value = METRICS[metric][0]
        extremes = [(value(rows), definitions.extremes(rows, value, levels)) for rows in queries]
        # Over the same queries as the mean.
        means = zip(*((low, middle, high) for middle, (low, high) in
                      (each for each in extremes if each[0] is not None)), strict=True)  # fmt: skip
        for end, values in zip((lo, mean, hi), means, strict=True):
            assert near(end, fsum(values) / len(values)), metric
        assert lo - NEAR <= mean <= hi + NEAR
        assert opened == sum(middle is None and bool(ends) for middle, ends in extremes)
    assert not any("No bounds" in note for note in result.notes)


def test_metrics_without_bounds_or_sensitivity_are_named():
    names = ["TauB", "RR@2", "my 'own' = sum(rel)", "microP@2"]
    result = limits(*draw(1)[1:], names)
    assert result.bounds["metric"].to_list() == ["RR@2"]
    for note, words in zip(result.notes[-2:], ("bounds for TauB, my 'own' and", "sensitivity for"),
                           strict=True):  # fmt: skip
        assert note.startswith(f"No {words} microP@2: ")
    # If all items are judged, no note says so.
    result = limits(two_items(0, 1), None, ["TauB", "RR", "RR low = sum(rel) + 6"])
    assert result.bounds.rows() == [("RR", 0.5, 0.5, 0.5, 0)]
    assert not any("No bounds" in note for note in result.notes)
    rated = two_items(0, 1).with_columns(score=2.0).drop("pos")
    result = limits(rated, None, ["RMSE", "MAE", "RR"])
    assert result.sensitivity["metric"].unique().to_list() == ["RR"]
    assert result.notes[-1].startswith("No sensitivity for RMSE and MAE: ")


def test_tied_items_have_no_bounds_and_no_sensitivity():
    tied = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [1.0, 1]})
    result = limits(tied, {"a": {"y": 1}}, ["RR", "nDCG@1"], ties="expected")
    assert result.sensitivity.is_empty() and result.bounds.is_empty()
    assert [note.partition(":")[0] for note in result.notes[1:]] == [
        f"No {part} for RR and nDCG@1" for part in ("bounds", "sensitivity")
    ]


def test_bounds_and_levels_as_options():
    tables = draw(2)[1:]
    result, other = limits(*tables, SOME), limits(*tables, SOME, unjudged="bounds")
    for name in ("judged", "bounds", "undefined", "sensitivity"):
        assert_frame_equal(getattr(result, name), getattr(other, name), abs_tol=NEAR, rel_tol=0)
    assert result.notes == other.notes and result.conventions == other.conventions
    wider = limits(*tables, "DCG@5", levels=[0, 10])
    assert wider.bounds["hi"][0] > limits(*tables, "DCG@5").bounds["hi"][0]


@pytest.mark.parametrize("seed", range(2))
def test_counts(seed):
    """The judged, unjudged and undefined, counted in plain Python."""
    queries, tables = draw_form("two tables", seed)
    result = limits(*tables, SOME)
    assert result.judged["k"].to_list() == [1, 2, 3, 4, None]
    for k, judged, items, unjudged, some in result.judged.rows():
        tops = [definitions.shown(rows, k) for rows in queries]
        opened = [sum(rel is None for rel, _ in top) for top in tops]
        shares = [definitions.judged_at(rows, k) for rows in queries]
        assert near(judged, fsum(shares) / len(shares))
        assert items == sum(map(len, tops)) and unjudged == sum(opened)
        assert some == sum(n > 0 for n in opened)
    for name, row in zip(SOME, result.undefined.rows(), strict=True):
        missing = sum(METRICS[name][0](rows) is None for rows in queries)
        assert row == (name, len(queries), missing, missing / len(queries))
    assert result.undefined["undefined"].max() >= 1


def test_notes_by_hand():
    """x is unjudged: nDCG@1 of a may be 0 or 1; nothing is relevant in c, and d is not judged."""
    run = {"a": ["x", "y"], "b": ["y"], "c": ["y"], "d": ["y"]}
    qrels = {"a": {"y": 1}, "b": {"y": 1}, "c": {"y": 0}}
    result = limits(run, qrels, ["nDCG@1", "RR@1", "P@1"])
    assert result.notes == [
        "1 of 4 queries of the run is not judged and left out ('d')",
        "nDCG@1 and RR@1: undefined for 1 of 3 queries (33%): no relevant item.",
        "33% of the items in the top 1 (1 of 3 queries) are unjudged. With grades from 0 to 1 "
        "of the retrieved items, nDCG@1 is between 0.5000 and 1.0000, RR@1 is between 0.5000 and "
        "1.0000 and P@1 is between 0.3333 and 0.6667.",
        "On average over queries, a swap of two neighbours changes nDCG@1 by up to 1.0000 "
        "(positions 1 and 2, 2 of 2 queries), RR@1 by up to 1.0000 (positions 1 and 2, 2 of 2 "
        "queries) and P@1 by up to 0.6667 (positions 1 and 2, 2 of 3 queries).",
    ]
    assert [line.split() for line in repr(result).splitlines()[:2]] == [
        ["metric", "mean", "lo", "hi", "undefined", "swap", "loss"],
        ["nDCG@1", "0.5000", "0.5000", "1.0000", "1", "1,", "2", "1.0000"],
    ]


def test_what_all_systems_share_is_noted_once():
    runs = {"one": {"a": ["x"], "b": ["y"]}, "two": {"a": ["z", "x"], "b": ["y"]}}
    result = limits(runs, {"a": {"x": 1}, "b": {"y": 0}}, "RR@1")
    assert [note.partition(":")[0] for note in result.notes] == [
        "RR@1",
        "On average over queries, a swap of two neighbours changes RR@1 by up to 1.0000 "
        "(positions 1 and 2, 1 of 1 query).",
        "two",
    ]


def test_no_notes_without_limits():
    result = limits(two_items(1, 1), None, ["nDCG@1", "RR@1"])
    assert result.notes == []
    assert repr(result).splitlines()[1].split() == ["nDCG@1", *["1.0000"] * 3, "0"]


@pytest.mark.parametrize(
    ("unjudged", "items", "percent"),
    [(1, 1000, "<1%"), (999, 1000, ">99%"), (3, 43, "7%"), (2, 4, "50%")],
)
def test_a_share_is_never_rounded_to_none_or_all(unjudged, items, percent):
    names = [f"i{n}" for n in range(items)]
    result = limits({"q": names}, {"q": dict.fromkeys(names[unjudged:], 1)}, "RR")
    assert result.notes[0].startswith(f"{percent} of the items in the rankings")


def test_the_unjudged_share_counts_retrieved_items():
    """Judged@k over the queries counts missing ones as 0 and short ones by k."""
    qrels = {query: {"x": 1} for query in "abc"}
    (note, *_) = limits({"a": ["x", "y"]}, qrels, "RBP(p=0.5)@10").notes
    assert note.startswith("50% of the items in the top 10 (1 of 3 queries) are unjudged. ")


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["ERR@3", "RBP(p=0.5)", "nDCG@3", "DCG@3"])
def test_bounds_hold_for_every_grade_of_the_scale(metric):
    """max_rel= says that there are grades that no judgment has."""
    run, qrels = {"q": ["a", "b", "c"], "z": ["z"]}, {"q": {"a": 1, "b": 0}, "z": {"z": 1}}
    result = limits(run, qrels, metric, max_rel=3)
    ((lo, hi),) = result.bounds.select("lo", "hi").rows()
    for grade in range(4):
        judged = {**qrels, "q": {**qrels["q"], "c": grade}}
        value = rankql.evaluate(run, judged, metric, max_rel=3, interval=None)[metric]
        assert lo - NEAR <= value <= hi + NEAR
    assert "With grades from 0 to 3" in result.notes[0]
    assert "With grades from 0 to 500" in limits(run, qrels, "nDCG@3", max_rel=500).notes[0]


def test_bounds_are_of_the_retrieved_items():
    """Relevant items elsewhere enter the ideal ranking, and nDCG falls below `lo`."""
    run, judged = {"q": ["a", "b", "c"]}, {"a": 1}
    result = limits(run, {"q": judged}, "nDCG@10")
    assert result.bounds.select("lo", "hi").row(0) == pytest.approx((0.9197, 1), abs=1e-4)
    assert "of the retrieved items" in result.notes[0]
    elsewhere = rankql.evaluate(run, {"q": judged | {"y": 1, "z": 1}}, "nDCG@10")
    assert elsewhere["nDCG@10"] == pytest.approx(0.4693, abs=1e-4)


def test_the_reason_of_undefined_values():
    """A relevant item that is not retrieved: with its ideal of retrieved items, no reason holds."""
    result = limits({"a": ["x"]}, {"a": {"x": 0, "y": 1}}, ["nDCG@1", "RR"], ideal="retrieved")
    assert result.notes == ["nDCG@1: undefined for 1 of 1 query (100%)."]
    table = pl.DataFrame({"query": ["a", "b"], "item": ["y", "x"], "rel": [0, None], "pos": 1})
    notes = limits(table, None, "RR", unjudged="remove").notes
    assert "RR: undefined for 1 of 1 query (100%): no relevant item." in notes


def test_queries_that_could_become_defined_are_counted():
    qrels = {"a": {"x": 1}, "b": {"z": 0}}
    for run in ({"a": ["x"], "b": ["y"]}, {"a": ["x"], "b": ["u", "y"]}):
        result = limits(run, qrels, "RR", levels=[0, 1])
        assert result.bounds.rows() == [("RR", 1.0, 1.0, 1.0, 1)]
    # As 0 they are in the mean, and in the bounds as what they could be.
    result = limits(run, qrels, "RR", levels=[0, 1], undefined="zero")
    assert result.bounds.rows() == [("RR", 0.5, 0.5, 1.0, 1)]
    assert any(note.endswith("1 query could become defined.") for note in result.notes)


def test_swaps_end_at_position_100():
    result = limits(two_items(0, 1), None, ["nDCG@1000", "RR"])
    assert result.sensitivity["position"].to_list() == [*range(1, 101), *range(1, 11)]
    assert "beyond position 100" in result.notes[-1]


def test_any_name_on_a_connection_that_stays_as_it_was():
    con, bad = duckdb.connect(), "<b>'x\"; DROP TABLE t --"
    run = pl.DataFrame({f"{bad} q": [bad, bad], "item": ["x", bad], "score": [2.0, 1]})
    con.register("frame", pl.DataFrame({f"{bad} q": [bad], "item": [bad], "rel": [1]}))
    con.execute("CREATE TABLE t AS FROM frame")
    con.unregister("frame")
    own = "^<i>'\"$ = sum(rel / pos)"
    result = limits({bad: run, "a\nb": run}, "t", [own, "RR"], con=con, query=f"{bad} q")
    name = own.partition(" =")[0]
    assert result.sensitivity.filter(system=bad, metric=name)["loss"][0] == 0.5
    assert result.sensitivity["metric"].unique(maintain_order=True).to_list() == [name, "RR"]
    assert con.sql("SHOW ALL TABLES").select("name").fetchall() == [("t",)]


def test_sensitivity_is_the_same_to_the_last_bit():
    """Of metrics whose values are: sums of fractions depend on the order of the rows."""
    random = Random(7)
    rows = [
        (q, f"i{i}", random.random(), random.randrange(4)) for q in range(800) for i in range(7)
    ]
    frame = pl.DataFrame(rows, schema=["query", "item", "score", "rel"], orient="row")
    con, results = duckdb.connect(config={"threads": 4}), []
    for seed in range(3):
        mixed = frame.sample(fraction=1, shuffle=True, seed=seed)
        tables = mixed.drop("rel"), mixed.drop("score")
        results.append(limits(*tables, ["AP", "RR@5", "P@5"], con=con).sensitivity)
        assert_frame_equal(results[0], results[-1], check_exact=True)
