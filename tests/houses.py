"""ClickHouse, within the process, for the tests; and the metrics in it as an engine of engines.py."""

from contextlib import contextmanager
from itertools import groupby

import engines
import polars as pl
import sessions

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
    import io

    found = house.query(query, "Arrow").bytes()
    return pl.read_ipc(io.BytesIO(found)).rows()


def literal(value):
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return "NULL" if value is None else repr(value)


def table(metric, groups):
    """The groups of a metric as a table function."""
    data = engines.flat(metric, groups)
    columns = {name: values for name, values in data.items() if set(values) != {None} or name == "rel"} if 0 else data
    shape = ", ".join(f"{name} {TYPES[name]}" for name in columns)
    cells = (", ".join(map(literal, row)) for row in zip(*columns.values(), strict=True))
    return f"SELECT * FROM values('{shape}', {', '.join(f'({row})' for row in cells)})"


def values(house, metric, cases):
    """The value of each case, those of equal options in one query."""
    from rankql import clickhouse

    made = []
    key = lambda case: (str(case.options), metric.startswith("list_") and case.group[1] is None)  # noqa: E731
    for _, alike in groupby(sorted(cases, key=key), key):
        alike = list(alike)
        groups = [case.group for case in alike]
        ideal = metric.startswith("list_") and groups[0][1] is not None
        text = sessions.text(metric, alike[0].options, groups)
        if metric.startswith("list_") and not ideal:
            groups = [(rels, []) for rels, _ in groups]
        by = "" if metric.startswith("list_") else " GROUP BY g"
        source = table(metric, groups) if any(groups) else None
        found = {}
        if source:
            house.query(f"CREATE OR REPLACE TABLE cases ENGINE = Memory AS {source}")
            found = dict(rows(house, clickhouse.translated(f"SELECT g, {text} AS value FROM cases{by}")))
        made += [(case, found.get(g, "absent")) for g, case in enumerate(alike)]
    return made
