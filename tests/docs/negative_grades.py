"""What every metric does with a grade of -1, as a table of the documentation."""

import doc_tables
from rankql.core.metrics.all_metrics import FUNCTIONS
from support import metric_engines, samples, signatures
from support.metric_engines import Polars, Sql
from support.paths import ROOT

PAGE = ROOT / "docs" / "labels.md"


def graded_as(rel, metric):
    """Rankings whose second row, of six, has this grade; and no other row."""
    groups = [samples.draw_rows(metric, seed) for seed in range(20)]
    for group in groups:
        group[1][samples.columns_of(metric).index("rel")] = rel
    if metric in signatures.MICRO:
        return [[[rel, pos, pos % 2] for rel, pos in group] for group in groups]
    return groups


def values_of(engine, metric, rel):
    options = dict(signatures.REQUIRED.get(metric, {}))
    if metric in ("micro_precision_at", "micro_f1_at"):
        options["query"] = metric_engines.Column("query")
    return engine.run(metric, graded_as(rel, metric), options)


def describe(metric, engine):
    """What a grade of -1 is to a metric: to what it is equal, in all rankings."""
    negative, zero, unjudged = (values_of(engine, metric, rel) for rel in (-1, 0, None))
    if FUNCTIONS[metric].reads_forbidden:
        return "must not be shown"
    if not all(map(metric_engines.same, negative, zero)):
        return "counts with its sign"
    if not all(map(metric_engines.same, zero, unjudged)):
        return "is a judged item that is not relevant, as one of grade 0"
    return "gains nothing, as one of grade 0 or without a grade"


def with_table():
    rows = {}
    for metric in FUNCTIONS:
        if "rel" in signatures.EVERYTHING.get(metric, ()):
            ways = {describe(metric, way) for way in (Sql(), Polars())}
            assert len(ways) == 1, metric
            rows.setdefault(ways.pop(), []).append(f"`{metric}`")
    lines = ["| an item of grade -1 | in |", "|---|---|"]
    lines += [f"| {what} | {', '.join(metrics)} |" for what, metrics in rows.items()]
    return doc_tables.with_table(PAGE, "disliked", "\n".join(lines))
