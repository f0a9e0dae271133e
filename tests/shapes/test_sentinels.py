"""Numbers in the place of a rating that say that nobody rated, and ordinary ratings."""

import polars as pl
import pytest

import rankql
from support.parameters import few

RUN = pl.DataFrame({"user": [1, 1, 2, 2], "item": [*"abac"], "score": [4.0, 3.0, 2.0, 1.0]})


def notes(name, *grades, **options):
    rows = {"user": [1, 1, 2, 2], "item": [*"abac"], name: grades}
    result = rankql.evaluate(RUN, pl.DataFrame(rows), "RR", interval=None, **options)
    return [str(x) for x in result.notes if "nobody rated" in str(x)]


def findings(name, *grades, **options):
    """What `check` says of them."""
    rows = {"user": [1, 1, 2, 2], "item": [*"abac"], name: grades}
    report = rankql.check(RUN, pl.DataFrame(rows), **options)
    return [x for x in report.findings if x.kind == "sentinels"]


@few(2)(
    ("name", "grades", "value"),
    [
        ("rating", (-1, 8, -1, 10), -1),
        ("Rating", (-1, 2, 3, 4), -1),
        ("stars", (99, 4, 99, 5), 99),
        ("rating", (999, 10, 999, 9), 999),
    ],
)
def test_a_number_unlike_all_ratings_is_noted(name, grades, value):
    (note,) = notes(name, *grades, rel=name)
    call = f"nullif({name}, {value})"
    assert f"{name} is {value} in" in note and f"rel={call!r}" in note
    assert not notes(name, *grades, rel=call)
    (found,) = findings(name, *grades, rel=name)
    assert (found.table, found.level, found.count) == ("qrels", "note", grades.count(value))
    assert f"{found.table}: {found.message}. {found.why.rstrip('.')}" == note
    assert not findings(name, *grades, rel=call)


@few(2)(
    ("name", "grades"),
    [
        ("rating", (-7.5, 6.5, -1, 9)),
        ("rating", (-2, -1, 1, 2)),
        ("rating", (-1, 0, 1, 2)),
        ("rating", (0, 1, 2, 3)),
        ("rating", (99, 1, 2, 3)),
        ("rating", (99, 98, 99, 50)),
        ("votes", (-1, 3, -1, 4)),
        ("clicks", (99, 3, 99, 4)),
        ("rel", (-1, 1, -1, 2)),
    ],
)
def test_other_grades_stay_without_a_note(name, grades):
    assert notes(name, *grades, rel=name) == findings(name, *grades, rel=name) == []


def test_ratings_beside_places_are_looked_at():
    rows = RUN.select("user", "item", pos=pl.Series([1, 2, 1, 2]), rating=pl.Series([-1, 5, -1, 4]))
    result = rankql.evaluate(rows, metrics="RR", interval=None)
    assert any("rating is -1 in 2 rows" in str(note) for note in result.notes)
    assert result["RR"] == pytest.approx(1 / 2)
    (found,) = (x for x in rankql.check(rows).findings if x.kind == "sentinels")
    assert (found.table, found.count) == ("run", 2)
