"""ClickHouse, within the process, for the tests, and the metrics in it."""

import io
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from rankql.engines import clickhouse_functions as clickhouse
from support import metric_engines, spark_sessions

TYPES = {"rel": "Nullable(Float64)", "pos": "Nullable(Int64)", "reference": "Nullable(Int64)"}
TYPES |= {"score": "Nullable(Float64)", "item": "Nullable(String)", "query": "Nullable(Int64)"}
TYPES |= {"rels": "Array(Nullable(Float64))", "ideal": "Array(Nullable(Float64))", "g": "Int64"}


@contextmanager
def session():
    """A session of this process, of which there is one."""
    from chdb.session import Session

    house = Session()
    try:
        yield house
    finally:
        house.close()


def rows(house, query):
    """The rows of a query, its values as Python's."""
    return pl.read_ipc(io.BytesIO(house.query(query, "Arrow").bytes())).rows()


def literal(value):
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else repr(value)


def table(metric, groups):
    """The groups of a metric as a table function."""
    data = metric_engines.flat(metric, groups)
    shape = ", ".join(f"{name} {TYPES[name]}" for name in data)
    cells = (", ".join(map(literal, row)) for row in zip(*data.values(), strict=True))
    return f"SELECT * FROM values('{shape}', {', '.join(f'({row})' for row in cells)})"


@dataclass
class Queries:
    """What rankql.translate makes of SELECT g, ndcg(rel, pos, 10) FROM cases GROUP BY g"""

    house: object

    def many(self, metric, calls):
        queries = map(clickhouse.translate_to_clickhouse, spark_sessions.selects(metric, calls))
        return answered(self.house, metric, calls, [*queries])


@dataclass
class Functions:
    """SELECT g, ndcg(rel, pos, 10) FROM cases GROUP BY g, as it is written"""

    house: object

    def many(self, metric, calls):
        if metric not in spark_sessions.EVERY:
            self.house.query(f"SELECT {metric}()")
        selects = zip(calls, spark_sessions.selects(metric, calls), strict=True)
        queries = [
            query.replace(spark_sessions.text(metric, *call), of_function(metric, *call))
            for call, query in selects
        ]
        return answered(self.house, metric, calls, queries)


def answered(house, metric, calls, queries):
    groups = spark_sessions.groups_of(calls)
    filled = [(g[0], g[1] or []) for g in groups] if metric.startswith("list_") else groups
    house.query(f"CREATE OR REPLACE TABLE cases ENGINE = Memory AS {table(metric, filled)}")
    return metric_engines.in_order((row for query in queries for row in rows(house, query)), groups)


def takes(metric, options, groups):
    """Does the function have parameters for the options?"""
    named = spark_sessions.with_ideal(metric, options, groups).keys() - {"gain"}
    return named <= {*clickhouse.function_parameters(metric)}


def of_function(metric, options, groups):
    """The call of the function; as in DuckDB where it does not take the options."""
    if not takes(metric, options, groups):
        return spark_sessions.text(metric, options, groups)
    taken, gain = clickhouse.function_parameters(metric), "gain" in options
    arguments = {name: literal(options.get(name)) for name in taken}
    if options.get("query"):
        arguments["query"] = options["query"]
    if "threshold" in arguments and "threshold" not in options:
        arguments["threshold"] = "1"
    for name in metric_engines.names(metric):
        arguments |= {name: name} if name in taken and name != "query" else {}
    if gain and metric.startswith("list_"):
        arguments["rels"] = "arrayMap(x -> exp2_gain(x), rels)"
    elif gain:
        arguments["rel"] = "exp2_gain(rel)"
    return f"{metric}({', '.join(arguments.values())})"
