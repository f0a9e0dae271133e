"""May a model replace people to compare two systems? Both differences, and that of the two."""

import random

import numpy as np
import polars as pl
import pytest

import rankql
from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import SkewedStudent
from support.parameters import few

QUERIES = [f"q{i:02}" for i in range(40)]
ITEMS = [f"d{i}" for i in range(8)]


def labels(seed, of=None):
    """Labels of people, or those of a model that are often one off."""
    rng = random.Random(seed)
    if of is None:
        return {q: {d: rng.choice([0, 0, 1, 2]) for d in ITEMS} for q in QUERIES}
    off = [-1, 0, 0, 0, 1]
    return {
        q: {d: min(2, max(0, g + rng.choice(off))) for d, g in x.items()} for q, x in of.items()
    }


PEOPLE = labels(1)
MODEL = labels(2, PEOPLE)
FOOLED = {q: {d: 2 - g for d, g in x.items()} for q, x in PEOPLE.items()}


def runs(old, new, seed=3):
    """Two systems, which follow the labels of people by so much."""
    rng = random.Random(seed)
    return {
        name: {q: {d: by * g + rng.random() for d, g in x.items()} for q, x in PEOPLE.items()}
        for name, by in (("old", old), ("new", new))
    }


@few(2)(
    ("model", "new", "answer"),
    [(MODEL, 0.6, "Yes: same order"), (FOOLED, 0.6, "No: swapped"), (MODEL, 0.11, "Undecided")],
)
def test_the_title_says_whether_both_order_two_systems_alike(model, new, answer):
    systems = runs(0.1, new)
    report = rankql.judges({"gpt": model}, PEOPLE, systems, ["nDCG@5", "RR"])
    assert report.title == f"May gpt replace people to compare old and new on nDCG@5? {answer}"
    assert repr(report).startswith(report.title)
    first, second = report.sentences
    assert first.startswith("nDCG@5, new - old: ") and second.startswith("RR, new - old: ")
    values = [
        rankql.evaluate(systems, x, "nDCG@5").per_query.pivot("system", index="query")
        for x in (PEOPLE, model)
    ]
    changes = [x.sort("query")["new"] - x.sort("query")["old"] for x in values]
    for change, name in zip(
        [*changes, changes[1] - changes[0]], ("people", "gpt", "on"), strict=True
    ):
        lo, hi = SkewedStudent().test(Sample(change.to_numpy()), 0.05)[1]
        assert f"{change.mean():+.3f} (95% CI {lo:+.3f} to {hi:+.3f})" in first, name
    assert "on 40 queries" in first


def test_three_systems_have_no_such_title():
    systems = runs(0.1, 0.6) | {"next": runs(0.1, 0.6, 9)["new"]}
    title = rankql.judges({"gpt": MODEL}, PEOPLE, systems).title
    assert title.startswith("gpt agrees with people on 74% of 320 items: weighted kappa 0.")


def test_the_title_says_what_the_labels_change():
    """The difference of the differences, or who is ahead, where the order is undecided."""
    kind = {q: {d: min(2, g + (i % 4 == 0)) for i, (d, g) in enumerate(x.items())}
            for q, x in PEOPLE.items()}  # fmt: skip
    systems = runs(0.3, 0.3)
    systems["new"] = {q: {d: s + (i % 4 == 0) for i, (d, s) in enumerate(x.items())}
                      for q, x in systems["new"].items()}  # fmt: skip
    report = rankql.judges({"gpt": kind}, PEOPLE, systems)
    answer, (findings,) = report.title.partition("? ")[2], report.sentences
    assert "undecided" in findings and findings.partition(" differ by ")[2].startswith("+")
    assert answer == f"No: the differences differ by {findings.partition(' differ by ')[2][:-14]}"
    for seed in range(20):
        report = rankql.judges({"gpt": labels(seed, PEOPLE)}, PEOPLE, runs(0.1, 0.1, seed))
        (order,) = report.orders.rows(named=True)
        if order["tau_b"] == -1:
            assert order["best_stays"] is not True
            assert "Undecided: the winner changes, " in report.title
            break
    else:
        raise AssertionError("the winner changes in no sample")


@few(2)(("queries", "least"), [(8, 0.85), (20, 0.9), (60, 0.92), (200, 0.93)])
def test_intervals_of_the_difference_of_differences_cover_it(queries, least):
    """Of grades that a model exaggerates for one system, by simulation."""
    rng, covered, times = np.random.default_rng(queries), 0, 300
    truth = 0.3 * 0.25
    for _ in range(times):
        people = rng.beta(0.6, 2, queries) - rng.beta(0.6, 2, queries)
        model = people + (rng.random(queries) < 0.3) * 0.5 * rng.random(queries)
        sample = Sample(model - people, None, None, -2.0, 2.0)
        lo, hi = SkewedStudent().test(sample, 0.05)[1]
        covered += lo <= truth <= hi
    assert covered / times >= least


def test_one_table_without_known_names_lists_its_columns(tmp_path):
    path = tmp_path / "one.csv"
    pl.DataFrame({"query": ["a"], "item": ["x"], "mensch": [1], "maschine": [0]}).write_csv(path)
    columns = "query, item, mensch and maschine"
    with pytest.raises(
        rankql.RankqlError,
        match=f"human is missing. The labels have the columns {columns}.*rel=.*judge_rel=",
    ):
        rankql.judges(path)
