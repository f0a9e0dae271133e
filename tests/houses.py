"""ClickHouse, within the process, for the tests, and the metrics in it."""

import io
from collections import defaultdict
from contextlib import contextmanager
from itertools import groupby

import engines
import polars as pl
import sessions

from rankql import clickhouse

TYPES = {"rel": "Nullable(Float64)", "pos": "Nullable(Int64)", "reference": "Nullable(Int64)"}
TYPES |= {"score": "Nullable(Float64)", "item": "Nullable(String)", "query": "Nullable(Int64)"}
TYPES |= {"rels": "Array(Nullable(Float64))", "ideal": "Array(Nullable(Float64))", "g": "Int64"}


@contextmanager
def session():
    """A session of this process, of which there is one."""
    from chdb.session import Session

    made = Session()
    try:
        yield made
    finally:
        made.close()


def rows(house, query):
    """The rows of a query, its values as Python's."""
    return pl.read_ipc(io.BytesIO(house.query(query, "Arrow").bytes())).rows()


BY = defaultdict(lambda: "GROUP BY g", list_="")


def literal(value):
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else repr(value)


def table(metric, groups):
    """The groups of a metric as a table function."""
    data = engines.flat(metric, groups)
    shape = ", ".join(f"{name} {TYPES[name]}" for name in data)
    cells = (", ".join(map(literal, row)) for row in zip(*data.values(), strict=True))
    return f"SELECT * FROM values('{shape}', {', '.join(f'({row})' for row in cells)})"


def values(house, metric, cases):
    """The values of each case, those of equal options in one query; `absent` without rows.

    They are those of the translated query and, where it takes the options, of the function.
    """

    def options(case):
        # A list is never NULL there, so one without `ideal` is another call.
        return str(case.options), metric.startswith("list_") and case.group[1] is None

    made = []
    for _, alike in groupby(sorted(cases, key=options), options):
        alike = list(alike)
        groups = [case.group for case in alike]
        text = sessions.text(metric, alike[0].options, groups)
        if metric.startswith("list_"):
            groups = [(rels, ideal or []) for rels, ideal in groups]
        asked = [clickhouse.translated(f"SELECT g, {text} AS value FROM cases {BY[metric[:5]]}")]
        if call := of_function(metric, alike[0].options, groups):
            asked.append(f"SELECT g, {call} AS value FROM cases {BY[metric[:5]]}")
        found = [{} for _ in asked]
        if any(groups):
            house.query(f"CREATE OR REPLACE TABLE cases ENGINE = Memory AS {table(metric, groups)}")
            found = [dict(rows(house, query)) for query in asked]
        made += [
            (case, [values.get(g, "absent") for values in found]) for g, case in enumerate(alike)
        ]
    return made


def of_function(metric, options, groups):
    """The call of the function, None where it does not take the options."""
    options = dict(options)
    gain = options.pop("gain", None)
    taken = clickhouse.taken(metric)
    ideal = metric.startswith("list_") and any(ideal for _, ideal in groups)
    if ideal or not options.keys() <= {*taken}:
        return None
    given = {name: literal(options.get(name)) for name in taken}
    if options.get("query"):
        given["query"] = options["query"]
    if "threshold" in given and "threshold" not in options:
        given["threshold"] = "1"
    for name in engines.names(metric):
        given |= {name: name} if name in taken and name != "query" else {}
    if gain and metric.startswith("list_"):
        given["rels"] = "arrayMap(x -> exp2_gain(x), rels)"
    elif gain:
        given["rel"] = "exp2_gain(rel)"
    return f"{metric}({', '.join(given.values())})"
