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


def padded(*rows, items=None):
    """A row per query of grades and scores, in order of the places of a list."""
    return pl.DataFrame(
        [
            (query, i if items is None else items[query][i], rel, score)
            for query, row in enumerate(rows)
            for i, (rel, score) in enumerate(row)
        ],
        ["query", "item", "rel", "score"],
        orient="row",
    )


ONE_SCORE = padded(
    [(1, -0.2), (0, -0.5), (-1, 0.0), (-1, 0.0)],
    [(0, -0.1), (2, -0.3), (-1, 0.0), (-1, 0.0)],
    items=["wxyz", "baed"],
)
LAST_PLACES = padded(
    [(0, 0.3), (2, 0.2), (-1, 0.9), (-1, 0.8)], [(1, 0.4), (-1, 0.9), (-1, 0.5), (-1, 0.6)]
)


@pytest.mark.parametrize(("rows", "count"), [(ONE_SCORE, 4), (LAST_PLACES, 5)])
def test_padding_among_grades_is_noted_where_it_stands_above_items(rows, count):
    """Without the padding: the values of the other rows."""
    result = rankql.evaluate(rows, metrics="nDCG@10")
    (note,) = (x for x in result.notes if "padding" in x)
    assert f"rel is -1 in {count} rows, above other items in 2 queries" in note
    call = "CASE WHEN rel <> -1 THEN score END"
    assert f"pass score={call!r}" in note
    expected = rankql.evaluate(rows.filter(pl.col("rel") >= 0), metrics="nDCG@10")["nDCG@10"]
    assert result["nDCG@10"] < expected
    assert rankql.evaluate(rows, metrics="nDCG@10", score=call)["nDCG@10"] == expected
    dicts = [
        {q: dict(part[["item", x]].rows()) for (q,), part in rows.group_by("query")}
        for x in ("score", "rel")
    ]
    assert any("Leave such items out of both tables" in x for x in rankql.evaluate(*dicts).notes)
    assert "padding" in {x.kind for x in rankql.check(rows)}


@pytest.mark.parametrize(
    "rows",
    [
        # Dislikes with scores of their own, of items in any place.
        padded([(-1, 0.9), (1, 0.8), (-1, 0.5)], [(1, 0.2), (-1, 0.7), (-1, 0.6), (0, 0.1)]),
        # Padding below all items changes nothing.
        padded([(1, 0.2), (0, 0.5), (-1, 0.0), (-1, 0.0)], [(1, 0.3), (-1, 0.0), (-1, 0.0)]),
        # One dislike of each query has the score of the others.
        padded([(1, 0.2), (-1, 0.5), (0, 0.1)], [(-1, 0.5), (1, 0.3), (0, 0.2)]),
        # Lists of different lengths, whose last items are disliked.
        padded([(1, 0.2), (-1, 0.5), (-1, 0.7)], [(1, 0.3), (-1, 0.6), (-1, 0.4), (-1, 0.9)]),
    ],
)  # fmt: skip
def test_dislikes_are_grades(rows):
    result = rankql.evaluate(rows, metrics="nDCG@10")
    assert not any("padding" in x for x in result.notes)
