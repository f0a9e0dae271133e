"""How far a metric can be trusted: every figure against plain Python, and what is said of it."""

import json
from math import fsum
from random import Random

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError, limits
from rankql.cli.main import main
from support import definitions
from support.parameters import cycled
from support.paths import DL19

NEAR = 1e-12

# What rankql calls it -> its value in plain Python, and the last swap.
METRICS = {
    "nDCG@3": (lambda rows: definitions.ndcg(rows, 3), 3),
    "nDCG": (lambda rows: definitions.ndcg(rows), 10),
    "nDCG(gain=exp2)@2": (lambda rows: definitions.ndcg(exp2(rows), 2), 2),
    "nDCG(ideal=retrieved)@4": (lambda rows: definitions.ndcg(rows, 4, ideal="retrieved"), 4),
    "DCG@2": (lambda rows: definitions.dcg(rows, 2), 2),
    "IDCG@3": (lambda rows: definitions.idcg(rows, 3), 3),
    "AP": (lambda rows: definitions.ap(rows), 10),
    "AP(denominator=found)@3": (lambda rows: definitions.ap(rows, 3, denominator="found"), 3),
    "RR@2": (lambda rows: definitions.rr(rows, 2), 2),
    "P@2": (lambda rows: definitions.precision_at(rows, 2), 2),
    "P(rel=2)@4": (lambda rows: definitions.precision_at(rows, 4, 2), 4),
    "P(denominator=retrieved)@3": (
        lambda rows: definitions.precision_at(rows, 3, denominator="retrieved"),
        3,
    ),
    "R@3": (lambda rows: definitions.recall_at(rows, 3), 3),
    "F1@2": (lambda rows: definitions.f1_at(rows, 2), 2),
    "Success@1": (lambda rows: definitions.hit_at(rows, 1), 1),
    "Rprec": (lambda rows: definitions.r_precision(rows), 10),
    "Bpref": (lambda rows: definitions.bpref(rows), 10),
    "Judged@2": (lambda rows: definitions.judged_at(rows, 2), 2),
    "ERR(max_rel=3)@3": (lambda rows: definitions.err(rows, 3, max_rel=3), 3),
    "RBP(p=0.8)": (lambda rows: definitions.rbp(rows, p=0.8), 10),
    "RBPres(p=0.8)@3": (lambda rows: definitions.rbp_residual(rows, 3, p=0.8), 3),
    "ARHR@3": (lambda rows: definitions.arhr(rows, 3), 3),
    "TauB": (lambda rows: definitions.kendall_tau_b(rows), 10),
    "my 'own' = sum(rel) FILTER (WHERE pos <= 2)": (lambda rows: gained(rows, 2), 10),
}
# The same without own SQL, beside which other rows are looked at.
OURS = [name for name in METRICS if not name.startswith("my")]
SOME = ["nDCG@3", "AP", "RR@2", "P@2", "Success@1", "P(rel=2)@4"]
BOUNDED = [
    name
    for name in OURS
    if not name.startswith(("Judged", "RBPres", "TauB", "Bpref", "Rprec", "IDCG"))
]


def exp2(rows):
    return [(definitions.exp2_gain(rel), pos) for rel, pos in rows]


def gained(rows, k):
    grades = [rel for rel, _ in definitions.shown(rows, k) if rel is not None]
    return sum(grades) if grades else None


def label(name):
    return name.partition(" =")[0]


def near(got, want):
    if got is None or want is None:
        return got is want
    return abs(got - want) <= NEAR * max(1, abs(want))


def swapped(rows, i):
    places = {i: i + 1, i + 1: i}
    return [(rel, places.get(pos, pos)) for rel, pos in rows]


def losses(queries, value, i):
    """The mean change by a swap over the queries with a value, and how many there are."""
    pairs = [(value(rows), value(swapped(rows, i))) for rows in queries]
    changes = [0.0 if b is None else abs(b - a) for a, b in pairs if a is not None]
    mean = fsum(changes) / len(changes) if changes else None
    return mean, sum(change > NEAR for change in changes)


def data(seed, systems=("",)):
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
            shown = [] if q == 1 else random.sample(items, random.randint(1, 6))  # q1 is missing
            run += [(system, query, item, -float(n)) for n, item in enumerate(shown)]
            if any(rel is not None for rel in grades.values()):
                left = [(grades[item], None) for item in items if item not in shown]
                left = [row for row in left if row[0] is not None]
                ranked = [(grades[item], n) for n, item in enumerate(shown, 1)]
                cases.setdefault(system, {})[query] = ranked + left
    run = pl.DataFrame(run, schema=["system", "query", "item", "score"], orient="row")
    qrels = pl.DataFrame(qrels, schema=["query", "item", "rel"], orient="row")
    return cases, run, qrels


def holes(seed):
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


def check_sensitivity(frame, queries, names):
    rows = iter(frame.select("metric", "position", "loss", "queries").rows())
    for name in names:
        value, last = METRICS[name]
        for i in range(1, last + 1):
            metric, position, loss, changed = next(rows)
            want = losses(queries, value, i)
            assert (metric, position, changed) == (label(name), i, want[1]), name
            assert near(loss, want[0]), (name, i, loss, want)
    assert next(rows, None) is None


@pytest.mark.parametrize(("names", "seed"), cycled([[*METRICS], OURS, SOME], range(2)))
def test_sensitivity(seed, names):
    """The items at i and i + 1 change places, and the metric is computed again."""
    cases, run, qrels = data(seed)
    found = limits(run.drop("system"), qrels, names)
    check_sensitivity(found.sensitivity, cases[""].values(), names)


@pytest.mark.parametrize(("names", "seed"), cycled([[*METRICS], OURS], range(2)))
def test_sensitivity_of_ranked_tables(seed, names):
    cases, table = holes(seed)
    found = limits(table, None, names)
    check_sensitivity(found.sensitivity, cases.values(), names)


@pytest.mark.parametrize("form", ["dict", "column"])
def test_systems(form):
    cases, run, qrels = data(7, ["b", "a"])
    runs = {name: run.filter(system=name).drop("system") for name in ("b", "a")}
    how = {"system": "system"} if form == "column" else {}
    found = limits(run if how else runs, qrels, SOME, **how)
    for system in ("a", "b"):
        mine = found.sensitivity.filter(system=system)
        check_sensitivity(mine, cases[system].values(), SOME)
        alone = limits(runs[system], qrels, SOME)
        for name in ("judged", "bounds", "undefined"):
            frame = getattr(found, name).filter(system=system).drop("system")
            assert frame.equals(getattr(alone, name)), name
    assert found.judged.columns[0] == "system"


def test_conventions_of_the_mean():
    """By hand: RR over a (x, y: 1/2), b (nothing relevant) and c (missing); a's swap gains 1/2."""
    run = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "x"], "score": [2.0, 1, 1]})
    qrels = pl.DataFrame({"query": ["a", "b", "c"], "item": ["y", "x", "x"], "rel": [1, 0, 1]})
    for options, n in (
        ({}, 2),
        ({"missing": "skip"}, 1),
        ({"undefined": "zero"}, 3),
        ({"undefined": "zero", "missing": "skip"}, 2),
    ):
        found = limits(run, qrels, "RR@1", **options)
        assert found.sensitivity.rows() == [("RR@1", 1, 1 / n, 1)]
    dropped = limits(run, qrels, "DCG@1", threshold=2, undefined="drop")
    assert dropped.sensitivity.rows() == [("DCG@1", 1, None, 0)]


def test_own_sql_may_look_at_the_items():
    """Two items of one grade change places: no other metric sees it."""
    table = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 1], "pos": [1, 2]})
    own = "first = max(CAST(pos = 1 AND item = 'x' AS DOUBLE))"
    found = limits(table, None, [own, "RR@1"])
    changed = found.sensitivity.filter(pl.col("loss") > 0)
    assert changed.rows() == [("first", 1, 1.0, 1)]


def test_removed_items_leave_their_places():
    """Without the unjudged x the ranking is y (0), z (1): its swap makes RR 1/2 to 1."""
    run = pl.DataFrame({"query": ["a"] * 3, "item": ["x", "y", "z"], "score": [3.0, 2, 1]})
    qrels = pl.DataFrame({"query": ["a", "a"], "item": ["y", "z"], "rel": [0, 1]})
    found = limits(run, qrels, "RR@2", unjudged="remove")
    assert found.sensitivity["loss"].to_list() == [0.5, 0.5]
    assert found.judged.rows() == [(2, 0.5, 2, 1, 1), (None, 2 / 3, 3, 1, 1)]
    assert found.bounds.is_empty()
    assert found.notes[-1] == (
        "No bounds for RR@2: with unjudged='remove', rankings have no unjudged items."
    )
    gone = pl.DataFrame({"query": ["a", "b"], "item": ["y", "x"], "rel": [0, None], "pos": [1, 1]})
    removed = limits(gone, None, "RR", unjudged="remove")
    assert "RR: undefined for 1 of 1 query (100%): no relevant item." in removed.notes


@pytest.mark.parametrize(("form", "seed"), cycled(["two tables", "ranked table"], range(2)))
def test_bounds(seed, form):
    if form == "two tables":
        cases, run, qrels = data(seed)
        queries, given = cases[""].values(), (run.drop("system"), qrels)
    else:
        cases, table = holes(seed)
        queries, given = cases.values(), (table, None)
    levels = sorted({0, *(rel for rows in queries for rel, _ in rows if rel)})
    found = limits(*given, BOUNDED)
    assert found.bounds["metric"].to_list() == BOUNDED
    for metric, lo, mean, hi, opened in found.bounds.rows():
        value = METRICS[metric][0]
        pairs = [pair for rows in queries if (pair := definitions.extremes(rows, value, levels))]
        values = [v for rows in queries if (v := value(rows)) is not None]
        # Over the same queries as the mean.
        lows, highs = zip(
            *(definitions.extremes(r, value, levels) for r in queries if value(r) is not None),
            strict=True,
        )
        assert lo - NEAR <= mean <= hi + NEAR
        assert near(lo, fsum(lows) / len(lows)), metric
        assert near(hi, fsum(highs) / len(highs)), metric
        assert near(mean, fsum(values) / len(values)), metric
        assert opened == len(pairs) - len(values)
    assert not any("No bounds" in note for note in found.notes)


def test_what_has_no_bounds():
    _, run, qrels = data(1)
    names = ["TauB", "RR@2", "my 'own' = sum(rel)", "microP@2"]
    found = limits(run.drop("system"), qrels, names)
    assert found.bounds["metric"].to_list() == ["RR@2"]
    assert found.notes[-2:] == [
        "No bounds for TauB, my 'own' and microP@2: unjudged='bounds' is not available.",
        "No sensitivity for microP@2: the value is one for all queries together.",
    ]
    # Where all is judged there is nothing to say.
    every = pl.DataFrame({"query": ["a"] * 2, "item": ["x", "y"], "rel": [0, 1], "pos": [1, 2]})
    found = limits(every, None, ["TauB", "RR", "RR low = sum(rel) + 6"])
    assert found.bounds.rows() == [("RR", 0.5, 0.5, 0.5, 0)]
    assert not any("No bounds" in note for note in found.notes)


def test_given_bounds_are_the_same():
    _, run, qrels = data(2)
    one = limits(run.drop("system"), qrels, SOME)
    other = limits(run.drop("system"), qrels, SOME, unjudged="bounds")
    for name in ("judged", "bounds", "undefined", "sensitivity"):
        assert_frame_equal(getattr(one, name), getattr(other, name), abs_tol=NEAR, rel_tol=0)
    assert one.notes == other.notes and one.conventions == other.conventions
    wider = limits(run.drop("system"), qrels, "DCG@5", levels=[0, 10])
    assert wider.bounds["hi"][0] > limits(run.drop("system"), qrels, "DCG@5").bounds["hi"][0]


@pytest.mark.parametrize("seed", range(2))
def test_counts(seed):
    """What is judged, unjudged and undefined, counted."""
    cases, run, qrels = data(seed)
    queries = cases[""].values()
    found = limits(run.drop("system"), qrels, SOME)
    assert found.judged["k"].to_list() == [1, 2, 3, 4, None]
    for k, judged, items, unjudged, some in found.judged.rows():
        tops = [definitions.shown(rows, k) for rows in queries]
        opened = [sum(rel is None for rel, _ in top) for top in tops]
        shares = [definitions.judged_at(rows, k) for rows in queries]
        assert near(judged, fsum(shares) / len(shares))
        assert items == sum(map(len, tops)) and unjudged == sum(opened)
        assert some == sum(n > 0 for n in opened)
    for name, row in zip(SOME, found.undefined.rows(), strict=True):
        missing = sum(METRICS[name][0](rows) is None for rows in queries)
        assert row == (name, len(queries), missing, missing / len(queries))
    assert found.undefined["undefined"].max() >= 1


def test_unjudged_share_with_missing_queries():
    """One share only: Judged@k over the queries counts missing ones as 0 and short ones by k."""
    run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1]})
    qrels = pl.DataFrame({"query": ["a", "b", "c"], "item": ["x", "x", "x"], "rel": [1, 1, 1]})
    found = limits(run, qrels, "RBP(p=0.5)@10")
    assert found.notes[0].startswith(
        "50% of the items in the top 10 (1 of 3 queries) are unjudged. With grades from 0 to 1 "
        "of the retrieved items, "
        "RBP(p=0.5)@10 is between"
    )


def test_expected_ties():
    run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [1.0, 1]})
    qrels = pl.DataFrame({"query": ["a"], "item": ["y"], "rel": [1]})
    found = limits(run, qrels, ["RR", "nDCG@1"], ties="expected")
    assert found.sensitivity.is_empty() and found.bounds.is_empty()
    assert found.notes == [
        "50% of the items in the rankings (1 of 1 query) are unjudged.",
        "No bounds for RR and nDCG@1: unjudged='bounds' is not available with ties='expected'.",
        "No sensitivity for RR and nDCG@1: with ties='expected', tied items have no single "
        "position.",
    ]


def test_ratings_have_no_positions():
    table = pl.DataFrame(
        {"query": ["a", "a"], "item": ["x", "y"], "rel": [2, 1], "score": [2.0, 2]}
    )
    found = limits(table, None, ["RMSE", "MAE", "RR"])
    assert found.sensitivity["metric"].unique().to_list() == ["RR"]
    reason = "the value depends on scores, not on positions"
    assert found.notes[-1] == f"No sensitivity for RMSE and MAE: {reason}."


def test_duplicates_are_refused():
    bad = pl.DataFrame({"query": ["a", "a"], "item": ["n", "n"], "score": [2.0, 1]})
    zero = pl.DataFrame({"query": ["a"] * 2, "item": ["n", "x"], "rel": [0, 1]})
    with pytest.raises(RankqlError, match="run has duplicates"):
        limits(bad, zero, "RR")


def test_tables_without_items():
    table = pl.DataFrame({"query": ["a", "a"], "rel": [0, 1], "pos": [1, 2]})
    found = limits(table, None, "RR@1")
    assert found.sensitivity.rows() == [("RR@1", 1, 1.0, 1)]
    assert found.notes == [
        "On average over queries, a swap of two neighbours changes RR@1 by up to 1.0000 "
        "(positions 1 and 2, 1 of 1 query).",
    ]


# What is said


def test_notes_by_hand():
    """x is unjudged: nDCG@1 of a may be 0 or 1; nothing is relevant in c, and d is not judged."""
    run = pl.DataFrame(
        {"query": ["a", "a", "b", "c", "d"], "item": [*"xyyyy"], "score": [2.0, 1, 1, 1, 1]}
    )
    qrels = pl.DataFrame({"query": ["a", "b", "c"], "item": ["y"] * 3, "rel": [1, 1, 0]})
    found = limits(run, qrels, ["nDCG@1", "RR@1", "P@1"])
    assert found.notes == [
        "1 of 4 queries of the run is not judged and left out ('d')",
        "nDCG@1 and RR@1: undefined for 1 of 3 queries (33%): no relevant item.",
        "33% of the items in the top 1 (1 of 3 queries) are unjudged. With grades from 0 to 1 "
        "of the retrieved items, "
        "nDCG@1 is between 0.5000 and 1.0000, RR@1 is between 0.5000 and 1.0000 and "
        "P@1 is between 0.3333 and 0.6667.",
        "On average over queries, a swap of two neighbours changes nDCG@1 by up to 1.0000 "
        "(positions 1 and 2, 2 of 2 queries), RR@1 by up to 1.0000 (positions 1 and 2, 2 of 2 "
        "queries) and P@1 by up to 0.6667 (positions 1 and 2, 2 of 3 queries).",
    ]
    top = [line.split() for line in repr(found).splitlines()[:2]]
    assert top == [
        ["metric", "mean", "lo", "hi", "undefined", "swap", "loss"],
        ["nDCG@1", "0.5000", "0.5000", "1.0000", "1", "1,", "2", "1.0000"],
    ]


def test_nothing_to_say():
    table = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [1, 1], "pos": [1, 2]})
    found = limits(table, None, ["nDCG@1", "RR@1"])
    assert found.notes == []
    assert [line.split() for line in repr(found).splitlines()[:2]] == [
        ["metric", "mean", "lo", "hi", "undefined"],
        ["nDCG@1", "1.0000", "1.0000", "1.0000", "0"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["ERR@3", "RBP(p=0.5)", "nDCG@3", "DCG@3"])
def test_bounds_hold_for_every_grade_of_the_scale(metric):
    """max_rel= says that there are grades that no judgment has."""
    run, qrels = {"q": ["a", "b", "c"], "z": ["z"]}, {"q": {"a": 1, "b": 0}, "z": {"z": 1}}
    found = rankql.limits(run, qrels, metric, max_rel=3)
    ((lo, hi),) = found.bounds.select("lo", "hi").rows()
    for grade in range(4):
        judged = {**qrels, "q": {**qrels["q"], "c": grade}}
        value = rankql.evaluate(run, judged, metric, max_rel=3, interval=None)[metric]
        assert lo - 1e-12 <= value <= hi + 1e-12
    assert "With grades from 0 to 3" in found.notes[0]
    assert "With grades from 0 to 500" in rankql.limits(run, qrels, "nDCG@3", max_rel=500).notes[0]


def test_bounds_are_of_the_retrieved_items():
    """Relevant items elsewhere enter the ideal ranking, and nDCG falls below `lo`."""
    run, judged = {"q": ["a", "b", "c"]}, {"a": 1}
    found = rankql.limits(run, {"q": judged}, "nDCG@10")
    assert found.bounds.select("lo", "hi").row(0) == pytest.approx((0.9197, 1), abs=1e-4)
    assert "of the retrieved items" in found.notes[0]
    elsewhere = rankql.evaluate(run, {"q": judged | {"y": 1, "z": 1}}, "nDCG@10")
    assert elsewhere["nDCG@10"] == pytest.approx(0.4693, abs=1e-4)


def test_what_all_systems_share_is_said_once():
    run = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "score": [1.0, 1]})
    qrels = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "rel": [1, 0]})
    other = pl.DataFrame({"query": ["a", "a", "b"], "item": [*"zxy"], "score": [2.0, 1, 1]})
    found = limits({"one": run, "two": other}, qrels, "RR@1")
    assert found.notes == [
        "RR@1: undefined for 1 of 2 queries (50%): no relevant item.",
        "On average over queries, a swap of two neighbours changes RR@1 by up to 1.0000 "
        "(positions 1 and 2, 1 of 1 query).",
        "two: 50% of the items in the top 1 (1 of 2 queries) are unjudged. With grades from 0 to "
        "1 of the retrieved items, RR@1 is between 0.0000 and 1.0000.",
    ]


def test_why_is_said_only_where_it_is_so():
    """The relevant item of a was not retrieved: by its ideal of what was, nDCG is undefined."""
    run = pl.DataFrame({"query": ["a"], "item": ["x"], "score": [1.0]})
    qrels = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [0, 1]})
    found = limits(run, qrels, ["nDCG@1", "RR"], ideal="retrieved")
    assert found.notes == ["nDCG@1: undefined for 1 of 1 query (100%)."]


def test_opened_queries_are_counted():
    run = pl.DataFrame({"query": ["a", "b"], "item": ["x", "y"], "score": [1.0, 1]})
    qrels = pl.DataFrame({"query": ["a", "b"], "item": ["x", "z"], "rel": [1, 0]})
    found = limits(run, qrels, "RR", levels=[0, 1])
    assert found.bounds.rows() == [("RR", 1.0, 1.0, 1.0, 1)]
    low = pl.DataFrame({"query": ["b"] * 2, "item": ["u", "y"], "score": [2.0, 1.0]})
    found = limits(pl.concat([run.head(1), low]), qrels, "RR", levels=[0, 1])
    assert found.bounds.rows() == [("RR", 1.0, 1.0, 1.0, 1)]
    # As 0 they are in the mean, and in the bounds as what they could be.
    found = limits(pl.concat([run.head(1), low]), qrels, "RR", levels=[0, 1], undefined="zero")
    assert found.bounds.rows() == [("RR", 0.5, 0.5, 1.0, 1)]
    assert any(note.endswith("1 query could become defined.") for note in found.notes)


def test_deep_cutoffs():
    table = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "rel": [0, 1], "pos": [1, 2]})
    found = limits(table, None, ["nDCG@1000", "RR"])
    assert found.sensitivity["position"].to_list() == [*range(1, 101), *range(1, 11)]
    assert found.notes[-1] == "nDCG@1000: swaps beyond position 100 were not measured."


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(1, 1000, "<1%"), (999, 1000, ">99%"), (3, 43, "7%"), (2, 2, "100%")],
)
def test_percentages(part, whole, shown):
    from rankql.diagnostics.limits import _percent

    assert _percent(part, whole) == shown


BAD = "<b>'x\"; DROP TABLE t --"


def test_names_are_data():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS x")
    run = pl.DataFrame({f"{BAD} q": [BAD, BAD], "item": ["x", BAD], "score": [2.0, 1]})
    qrels = pl.DataFrame({f"{BAD} q": [BAD], "item": [BAD], "rel": [1]})
    own = "^<i>'\"$ = sum(rel / pos)"
    found = limits({BAD: run, "a\nb": run}, qrels, [own, "RR"], con=con, query=f"{BAD} q")
    name = own.partition(" =")[0]
    assert found.sensitivity.filter(system=BAD, metric=name)["loss"][0] == 0.5
    assert found.sensitivity["metric"].unique(maintain_order=True).to_list() == [name, "RR"]
    page = found._repr_html_()
    assert "<b>" not in page and "<i>" not in page and "&lt;b&gt;" in page
    assert "<b>" not in found.to_markdown()
    assert con.sql("FROM t").fetchall() == [(1,)]
    names = [row[0] for row in con.sql("SHOW ALL TABLES").select("name").fetchall()]
    assert names == ["t"]


def test_forms():
    _, run, qrels = data(3)
    found = limits(run.drop("system"), qrels, ["nDCG@3", "AP"])
    plain = json.loads(found.to_json())
    assert plain == json.loads(json.dumps(found.to_dict()))
    frames = ["sensitivity", "judged", "bounds", "undefined"]
    assert [*plain] == ["table", *frames, "conventions", "columns", "notes"]
    assert plain["judged"] == found.judged.to_dicts()
    for shown in (repr(found), found.to_markdown(), found._repr_html_()):
        assert "nDCG@3" in shown and "Conventions: rankql" in shown
        assert "a swap of two neighbours" in shown


def test_own_column_names_and_wrong_ones():
    _, run, qrels = data(3)
    renamed = run.drop("system").rename({"query": "who", "item": "what", "score": "how"})
    names = {"query": ["who", "query"], "item": ["what", "item"], "score": "how"}
    same = limits(run.drop("system"), qrels, "AP").to_dict() | {"columns": None}
    assert limits(renamed, qrels, "AP", **names).to_dict() | {"columns": None} == same
    with pytest.raises(RankqlError, match="Unknown metric 'nDCX'"):
        limits(run.drop("system"), qrels, "nDCX@10")
    with pytest.raises(RankqlError, match="Unknown option 'tie'"):
        limits(run.drop("system"), qrels, "AP", tie="order")
    with pytest.raises(RankqlError, match="look swapped"):
        limits(qrels, run.drop("system"), "AP")


def test_sensitivity_is_the_same_to_the_last_bit():
    """Of metrics whose values are: what adds up fractions hangs on the order of the rows itself."""
    draw = Random(7)
    rows = [(q, f"i{i}", draw.random(), draw.randrange(4)) for q in range(800) for i in range(7)]
    frame = pl.DataFrame(rows, schema=["query", "item", "score", "rel"], orient="row")
    found = []
    for seed in range(5):
        mixed = frame.sample(fraction=1, shuffle=True, seed=seed)
        con = duckdb.connect(config={"threads": 4})
        names = ["AP", "RR@5", "P@5"]
        found.append(limits(mixed.drop("rel"), mixed.drop("score"), names, con=con).sensitivity)
    for other in found[1:]:
        assert_frame_equal(found[0], other, check_exact=True)


def test_nothing_is_left_behind():
    """Tables of the user's connection: read where they lie, and nothing stays there."""
    _, run, qrels = data(3)
    con = duckdb.connect()
    for name, frame in (("moved", run.drop("system")), ("rows", qrels)):
        con.register("frame", frame)
        con.execute(f"CREATE TABLE {name} AS FROM frame")
    con.unregister("frame")
    found = limits("moved", "rows", "AP", con=con)
    alone = limits(run.drop("system"), qrels, "AP")
    assert_frame_equal(found.sensitivity, alone.sensitivity, abs_tol=NEAR, rel_tol=0)
    assert sorted(row[0] for row in con.sql("SHOW TABLES").fetchall()) == ["moved", "rows"]


def test_cli(tmp_path):
    _, run, qrels = data(3)
    run.drop("system").write_csv(tmp_path / "run.csv")
    qrels.write_csv(tmp_path / "qrels.csv")
    files = [str(tmp_path / "run.csv"), str(tmp_path / "qrels.csv")]
    expected = limits(*files, ["nDCG@3", "AP"], missing="skip")
    given = ["limits", *files, "-m", "nDCG@3", "-m", "AP", "--missing", "skip"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0 and done.stdout == repr(expected) + "\n"
    done = CliRunner().invoke(main, [*given, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(expected.to_json())
    done = CliRunner().invoke(main, ["limits", "nowhere.run", files[1]])
    assert done.exit_code == 2 and done.stderr.startswith("rankql: run: file")


@pytest.mark.skipif(not DL19.is_dir(), reason=f"no data: {DL19} is absent")
def test_dl19():
    """Real runs, counted and swapped in plain Python."""
    grades = {}
    for line in (DL19 / "dl19.qrels").read_text().splitlines():
        query, _, item, rel = line.split()
        grades.setdefault(query, {})[item] = int(rel)
    names = ["BM25", "D_BERT_KD_TASB"]
    found = limits(
        {name: DL19 / f"{name}.run" for name in names}, DL19 / "dl19.qrels", ["nDCG@10", "AP"]
    )
    for name in names:
        run = {}
        for line in (DL19 / f"{name}.run").read_text().splitlines():
            query, _, item, _, score, _ = line.split()
            run.setdefault(query, []).append((float(score), item.encode(), item))
        queries = []
        for query, judged in grades.items():
            shown = [item for _, _, item in sorted(run.get(query, []), reverse=True)]
            rows = [(judged.get(item), pos) for pos, item in enumerate(shown, 1)]
            queries.append(rows + [(r, None) for item, r in judged.items() if item not in shown])
        values = {"nDCG@10": lambda rows: definitions.ndcg(rows, 10), "AP": definitions.ap}
        for metric, value in values.items():
            mine = found.sensitivity.filter(system=name, metric=metric)
            for i, (loss, changed) in enumerate(mine.select("loss", "queries").rows(), 1):
                mean, many = losses(queries, value, i)
                assert near(loss, mean) and changed == many
        tops = [definitions.shown(rows, 10) for rows in queries]
        unjudged = sum(rel is None for top in tops for rel, _ in top)
        assert found.judged.filter(system=name, k=10)["unjudged"][0] == unjudged
    bert = next(note for note in found.notes if note.startswith("D_BERT_KD_TASB: 10%"))
    assert bert.startswith(
        "D_BERT_KD_TASB: 10% of the items in the top 10 (15 of 43 queries) and "
        "51% of the items in the rankings (42 of 43 queries) are unjudged. With grades from 0 to "
        "3 of the retrieved items, nDCG@10 is between 0.6117 and 0.7850"
    )
    assert (
        rankql.evaluate(DL19 / "BM25.run", DL19 / "dl19.qrels")["nDCG@10"]
        == (found.bounds.filter(system="BM25", metric="nDCG@10")["mean"][0])
    )
