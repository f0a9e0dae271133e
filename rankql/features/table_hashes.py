"""What a manifest says of the inputs: their rows, columns and hashes.

A hash is a sum over the rows, in any order, of what the evaluation reads: after the columns are
recognised, chunks collapsed and items left out. It names no id, and no row can be read from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl

from rankql.core.base.column_names import SUBTOPICS
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.metrics.macros import quote
from rankql.core.tables.private import private_connection
from rankql.core.tables.reader import fetch
from rankql.core.tables.tables import Table


def record_tables(evaluation: Evaluation, only: Sequence[str] = ()) -> dict[str, Any]:
    """The rows, the columns and the hashes of the tables of an evaluation, by label.

    only: the labels of the tables; all of them by default.
    """
    inputs, tables = evaluation.inputs, dict[str, Any]()
    for name, table in inputs.runs.items():
        tables["run" if name is None else f"run {name}"] = table
    tables |= {"qrels": inputs.qrels, "attributes": inputs.attributes}
    tables |= {"train": inputs.beyond.train, "catalogue": inputs.beyond.catalogue}
    return {
        label: _record(evaluation, table)
        for label, table in tables.items()
        if isinstance(table, Table) and (not only or label in only)
    }


# The hashes of the ids, and those of the numbers, by role.
_IDS = {"query": "queries", "item": "pairs"}
_NUMBERS = {"score": "scores", "pos": "positions", "rel": "grades"}


def _record(evaluation: Evaluation, table: Table) -> dict[str, Any]:
    """The rows, the columns and the hashes of a table."""
    inputs, hashed = evaluation.inputs, dict[str, list[str]]()
    is_run = table in inputs.runs.values()
    keys = [f"CAST({quote(inputs.system)} AS VARCHAR)"] if is_run and inputs.system else []
    for role, name in _IDS.items():
        if role in table.roles:
            hashed[name] = keys = [*keys, table.key(role, True)]
    for role, name in _NUMBERS.items():
        if role in table.roles:
            hashed[name] = [*keys, table.number(role)]
    others = dict(inputs.extra) if is_run else {}
    if table in inputs.tables:
        names = inputs.attributes_in(inputs.cte_of(table))
        others |= {name: inputs.read_attribute(table, name) for name in names}
    if table is inputs.qrels and inputs.subtopics:
        others[SUBTOPICS] = f"list_sort({SUBTOPICS})"
    for name, sql in others.items():
        hashed[f"column {name}"] = [*keys, f"CAST({sql} AS VARCHAR)"]
    # A row without a value is known by its pair.
    sums = (
        f"sum(hash({', '.join(parts)})) FILTER (WHERE {parts[-1]} IS NOT NULL)"
        for parts in hashed.values()
    )
    sql = f"SELECT {', '.join(['count(*)', *sums])} FROM {table.sql}"
    ((rows, *totals),) = fetch(evaluation.session, sql)
    hashes = {name: str(x or 0) for name, x in zip(hashed, totals, strict=True)}
    columns = {f"column of {role}": name for role, name in table.role_columns.items()}
    return {"rows": rows, **columns, **hashes}


def hash_function() -> dict[str, str]:
    """The version of DuckDB, and the hash of three fixed rows: another one cannot be compared."""
    rows = "(VALUES ('a', 'b', 1.5::DOUBLE), ('é', NULL, -0.0::DOUBLE), ('', '1', NULL)) t(q, i, v)"
    with private_connection() as con:
        ((number,),) = con.execute(f"SELECT sum(hash(q, i, v)) FROM {rows}").fetchall()
    return {"duckdb": duckdb.__version__, "rows": str(number)}


# The columns that identify a row of numbers.
_KEYS = ("system", "slice", "metric", "a", "b")


def list_values(frame: pl.DataFrame, *others: str) -> dict[str, Any]:
    """The values of a table by column and key, and the number of its rows.

    others: more columns of the key.
    """
    keys = [name for name in (*_KEYS, *others) if name in frame.columns]
    values = frame.drop(*keys, "sentence", strict=False)
    rows = frame.select(keys).rows()
    return {"rows": f"{len(frame):,} rows"} | {
        f"{name} of {', '.join(map(str, key))}": value
        for name in values.columns
        for key, value in zip(rows, values[name], strict=True)
        if value is not None
    }
