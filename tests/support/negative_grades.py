"""What every metric does with a grade of -1, as a table of the documentation."""

import random

from rankql.registry.all_metrics import FUNCTIONS
from support import doc_tables, metric_engines, signatures
from support.metric_engines import Polars, Sql
from support.paths import ROOT

PAGE = ROOT / "docs" / "labels.md"


def graded_as(rel, metric):
    """Rankings whose second row, of five, has this grade; and no other row."""
    draw = random.Random(6)
    groups = []
    for _ in range(20):
        grades = [3, rel, *draw.choices([None, 0, 1, 2], k=3)]
        places = draw.sample(range(1, 6), 5)
        values = {
            "rel": grades,
            "pos": places,
            "score": [draw.random() for _ in grades],
            "query": [place % 2 for place in places],
            "baseline": [place > 3 for place in places],
        }
        columns = [values[name] for name in metric_engines.names(metric)]
        groups.append([*zip(*columns, strict=True)])
    return groups


def found_by(engine, metric, rel):
    options = dict(signatures.REQUIRED.get(metric, {}))
    if metric in ("micro_precision_at", "micro_f1_at"):
        options["query"] = metric_engines.Column("query")
    return engine.run(metric, graded_as(rel, metric), options)


def what_it_does(metric, engine):
    """What a grade of -1 is to a metric: to what it is equal, in all rankings."""
    disliked, nought, unjudged = (found_by(engine, metric, rel) for rel in (-1, 0, None))
    if not all(map(metric_engines.same, disliked, nought)):
        return "counts with its sign"
    if not all(map(metric_engines.same, nought, unjudged)):
        return "is a judged item that is not relevant, as one of grade 0"
    return "gains nothing, as one of grade 0 or without a grade"


def with_table():
    rows = {}
    for metric in FUNCTIONS:
        if "rel" in signatures.EVERYTHING[metric]:
            ways = {what_it_does(metric, way) for way in (Sql(), Polars())}
            assert len(ways) == 1, metric
            rows.setdefault(ways.pop(), []).append(f"`{metric}`")
    lines = ["| an item of grade -1 | in |", "|---|---|"]
    lines += [f"| {what} | {', '.join(metrics)} |" for what, metrics in rows.items()]
    return doc_tables.with_table(PAGE, "disliked", "\n".join(lines))
