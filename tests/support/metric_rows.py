"""A call of every metric with its required options, and random rows for its columns."""

import random

from rankql.macros import read_parameters
from support import metric_engines

# A value of each kind of column, drawn anew for every row.
DRAWN = {
    **dict.fromkeys(("score", "exposure", "merit", "target"), lambda r: r.random()),
    **dict.fromkeys(("item", "category"), lambda r: r.choice("abcdef")),
    "user": lambda r: r.randint(1, 3),
    "rel": lambda r: r.choice([0, 0, 1, 2, 3]),
    "popularity": lambda r: r.randint(0, 9),
    "created_at": lambda r: r.choice([None, r.randint(0, 9)]),
    "shown_at": lambda r: r.randint(9, 20),
    "attribute": lambda r: r.choice(["x", None]),
    "attributes": lambda r: r.sample("xyz", r.randint(1, 3)),
    "subtopics": lambda r: r.sample("xyz", r.randint(0, 2)),
    "embedding": lambda r: [r.uniform(-1, 1), r.uniform(-1, 1)],
    "baseline": lambda r: r.random() < 0.5,
}
# What some must be told.
OPTIONS = {"catalogue": 9, "users": 9, "p": 0.7, "max_rel": 3, "similarity": 0.9}
OPTIONS |= {"query": metric_engines.Column("1")}
KINDS = dict.fromkeys(("item", "category", "attribute"), "VARCHAR")
KINDS |= dict.fromkeys(("attributes", "subtopics"), "VARCHAR[]")
KINDS |= {"baseline": "BOOLEAN", "embedding": "DOUBLE[]"}


def options(name):
    """The required options."""
    known = [o for o in read_parameters()[name] if o in OPTIONS and (name, o) != ("rbp", "max_rel")]
    return {option: OPTIONS[option] for option in known}


def call(name: str) -> str:
    return metric_engines.call(name, columns(name), options(name))


def columns(name: str) -> list[str]:
    return [parameter for parameter, default in read_parameters()[name].items() if default is None]


def draw(name, seed, n=6):
    """Rows, each position taken once, some of them by nobody."""
    r = random.Random(seed)
    orders = {which: r.sample([*range(1, n + 1)], n) for which in ("pos", "reference")}
    return [
        [orders[c][row] if c in orders else DRAWN[c](r) for c in columns(name)] for row in range(n)
    ]
