"""Options of the wrong type: SQL and Python give the same value, or refuse in the same words."""

import re

import polars as pl
import pytest

import rankql
from support import metric_engines, signatures
from support.metric_engines import complaint, same

# Each as SQL and as Python have it.
WRONG = {
    "NULL": None,
    "'10'": "10",
    "-1": -1,
    "1e300": 1e300,
    "true": True,
    "[1, 2]": [1, 2],
    "['x']": ["x"],
    "{'a': 1}": {"a": 1},
}
# Of the list and score forms, whose options are checked by the same helpers.
FORMS = ("'10'", "[1, 2]")
DATA = pl.DataFrame(
    {
        "rel": [1.0, 0.0, 1.0], "pos": [1, 2, 3], "reference": [2, 1, 3], "query": [1, 1, 1],
        "score": [3.0, 2.0, 1.0], "item": ["a", "b", "c"], "rels": [[1.0, 0.0, 1.0]] * 3,
        "user": [1, 1, 2], "popularity": [1.0, 1.0, 1.0], "value": [1.0, 0.0, 1.0],
        "weight": [1.0, 1.0, 2.0], "exposure": [1.0, 0.5, 0.25], "merit": [1.0, 1.0, 1.0],
        "target": [1.0, 1.0, 1.0], "category": ["x", "y", "x"], "attribute": ["x", None, "y"],
        "attributes": [["x"], ["x", "y"], None], "baseline": [True, False, True],
        "embedding": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "click": [1, 0, 1],
        "subtopics": [["x"], ["x", "y"], ["y"]], "propensity": [1.0, 0.5, 0.25],
        "event": ["x", "x", "x"],
    }
)  # fmt: skip
# Options that a call cannot do without, and those that another value of an option needs.
NEEDED = {
    "max_rel": "2", "p": "0.5", "users": "3", "catalogue": "9", "similarity": "0.9",
    "query": "query",
}  # fmt: skip
# Of rbp, which needs no scale.
SCALE = ("max_rel", True)
# Of what is a column in one language, or of no one type, other tests tell.
LEFT_OUT = {"query", "weight", "moment", "until", "within", "half_life", "unknown", "predicted"}


def calls():
    """Each option of each function of columns."""
    groups = ("ROWS", "LISTS", "SCORES", "BEYOND", "DEBIAS")
    for group in groups:
        for name, parameters in getattr(signatures, group).items():
            columns = [p for p, default in parameters.items() if default is signatures.NEEDED]
            left_out = {*columns, *LEFT_OUT, *(["ideal"] if group == "LISTS" else [])}  # a column
            if name not in ("graded", "item_propensity"):
                yield from ((name, columns, p) for p in parameters if p not in left_out)


def evaluate_both(name, columns, option, text, value):
    """What SQL and Python make of it: a value or the text of an error."""
    con = metric_engines.connection()
    con.register("handed", DATA.to_arrow())
    options = {option: (text, value)}
    is_rbp = name.removeprefix("list_").removesuffix("_by_score") == "rbp"
    for other, default in signatures.EVERYTHING[name].items():
        if other in NEEDED.keys() - {option} and default is None and (other, is_rbp) != SCALE:
            needed = NEEDED[other]
            options[other] = (needed, needed if other == "query" else float(needed))
    sql = ", ".join([*columns, *(f"{o} := {t}" for o, (t, _) in options.items())])
    scalar = name.startswith("list_") or name in ("exp2_gain", "item_propensity")
    query = f"SELECT {name}({sql}) FROM handed{' LIMIT 1' if scalar else ''}"
    arguments = {o: v for o, (_, v) in options.items()}
    frame = DATA.head(1) if scalar else DATA
    return (
        value_or_complaint(lambda: con.execute(query).fetchall()[0][0]),
        value_or_complaint(
            lambda: frame.select(getattr(rankql, name)(*columns, **arguments)).item()
        ),
    )


def value_or_complaint(run):
    values = []
    message = complaint(lambda: values.append(run()))
    return values[0] if values else message


def agree(sql, python):
    """Equal values, or the same message but for how the languages print the value."""
    if isinstance(sql, str) and isinstance(python, str):
        heads = [re.split(r",? not | is above |It lacks ", text)[0] for text in (sql, python)]
        return heads[0].lower() == heads[1].lower() and "Error" not in heads[0]
    return not isinstance(sql, str) and not isinstance(python, str) and same(sql, python)


# What one option makes of an error of another, and what is a column in Python.
REFUSED_IN_SQL = {
    "novelty(popularity, users := 1, normalized := true) FROM (SELECT 5 AS popularity)":
        "popularity must not exceed users: 5 is above 1",
    "rbp(rel, pos, p := 0.5, max_rel := '10') FROM handed":
        "max_rel must be a finite number above 0, not 10",
    "list_ndcg([1], ideal := 3)": "ideal must be a list of grades, not 3",
    "list_ap([1], ideal := 'judged')": "ideal must be a list of grades, not judged",
    "ndcg(rel, pos, ideal := 3) FROM handed": "ideal must be 'judged' or 'retrieved', not 3",
    "ndcg(rel, pos, negative := true) FROM handed": "negative must be 'zero' or 'keep', not true",
    "ap(rel, pos, denominator := 2) FROM handed":
        "denominator must be 'min', 'R', 'found' or 'k', not 2",
    "dcg(rel, pos, discounts := 3) FROM handed": "discounts must be a list of numbers, not 3",
    "ndcg(rel, pos, 2, discounts := '[1, 2]') FROM handed":
        "discounts must be a list of numbers, not [1, 2]",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED_IN_SQL)
def test_refused_in_sql(call):
    con = metric_engines.connection()
    con.register("handed", DATA.to_arrow())
    assert complaint(lambda: con.execute(f"SELECT {call}").fetchall()) == REFUSED_IN_SQL[call]


def test_one_user_has_no_novelty():
    """Log2 of one user is 0, which nothing is divided by."""
    con = metric_engines.connection()
    call = "SELECT novelty(n, users := 1, normalized := true) FROM (VALUES (1), (0)) AS t (n)"
    assert con.execute(call).fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("turn", "name", "columns", "option"),
    [(i % 2, *call) for i, call in enumerate(calls())],
    ids=str,
)
def test_option(turn, name, columns, option):
    """Half of the wrong values: the macros and functions with this option take turns."""
    form = name.startswith("list_") or name.endswith("_by_score")
    for text in [*(FORMS if form else WRONG)][turn::2]:
        sql, python = evaluate_both(name, columns, option, text, WRONG[text])
        refused = WRONG[text] is True and "not True" in str(python)  # in SQL it is 1
        assert refused or agree(sql, python), (text, sql, python)


@pytest.mark.parametrize("option", ["k", "threshold"])
def test_true_is_no_number(option):
    """In Python; in SQL it counts as 1, as in any sum."""
    with pytest.raises(rankql.RankqlError, match=f"{option} must be a .*not True"):
        rankql.precision_at("rel", "pos", **{option: True})
    sql = f"SELECT precision_at(rel, pos, {option} := true) FROM (SELECT 1 AS rel, 1 AS pos)"
    assert metric_engines.connection().sql(sql).fetchall()
