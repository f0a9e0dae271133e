"""A call of every metric with its required options, and random rows for its columns."""

import random

from rankql.macros import read_parameters

# A value of each kind of column, drawn anew for every row.
DRAWN = {
    "rel": lambda r: r.choice([0, 0, 1, 2, 3]),
    "pos": None,
    "reference": None,
    "score": lambda r: r.random(),
    "item": lambda r: r.choice("abcdef"),
    "user": lambda r: r.choice("uvw"),
    "popularity": lambda r: r.randint(0, 9),
    "created_at": lambda r: r.choice([None, r.randint(0, 9)]),
    "shown_at": lambda r: r.randint(9, 20),
    "exposure": lambda r: r.random(),
    "merit": lambda r: r.random(),
    "target": lambda r: r.random(),
    "category": lambda r: r.choice("xyz"),
    "attribute": lambda r: r.choice(["x", None]),
    "attributes": lambda r: r.sample("xyz", r.randint(1, 3)),
    "embedding": lambda r: [r.uniform(-1, 1), r.uniform(-1, 1)],
    "baseline": lambda r: r.random() < 0.5,
    "subtopics": lambda r: r.sample("xyz", r.randint(0, 2)),
}
# What some must be told.
OPTIONS = {"catalogue": 9, "users": 9, "p": 0.7, "max_rel": 3, "similarity": 0.9, "query": "'q'"}
KINDS = {
    "baseline": "BOOLEAN",
    "attributes": "VARCHAR[]",
    "subtopics": "VARCHAR[]",
    "embedding": "DOUBLE[]",
} | dict.fromkeys(("item", "user", "category", "attribute"), "VARCHAR")


def call(name: str) -> str:
    given = read_parameters()[name]
    messages = [
        f"{o} := {OPTIONS[o]}" for o in given if o in OPTIONS and (name, o) != ("rbp", "max_rel")
    ]
    return f"{name}({', '.join([*columns(name), *messages])})"


def columns(name: str) -> list[str]:
    return [parameter for parameter, default in read_parameters()[name].items() if default is None]


def draw(name, seed, n=6):
    """Rows, each position taken once, some of them by nobody."""
    r = random.Random(seed)
    orders = {which: r.sample([*range(1, n + 1)], n) for which in ("pos", "reference")}
    return [
        [orders[c][row] if c in orders else DRAWN[c](r) for c in columns(name)] for row in range(n)
    ]
