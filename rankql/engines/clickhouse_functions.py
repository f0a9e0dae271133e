"""Metrics in ClickHouse, as functions and in queries.

ClickHouse functions have no defaults. `ndcg(rel, pos, 10)` is called as in DuckDB;
`translate_to_clickhouse` writes out calls with more options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from rankql import macros
from rankql.engines.clickhouse_target import CLICKHOUSE
from rankql.engines.translation import macro_parameters, translate_call, translate_query
from rankql.registry.all_metrics import FUNCTIONS


def translate_to_clickhouse(query: str) -> str:
    """Translate a query that calls metrics into ClickHouse's SQL."""
    text = translate_query(query, CLICKHOUSE)
    return f"{text} SETTINGS {', '.join(f'{name} = {value}' for name, value in SETTINGS.items())}"


# As in DuckDB: outer joins return NULL, columns come before aliases, and NULL IN (1) is NULL.
SETTINGS = {"join_use_nulls": 1, "prefer_column_name_to_alias": 1, "transform_null_in": 0}


@cache
def create_clickhouse_functions() -> str:
    """CREATE FUNCTION statements for all metrics of rankings."""
    head = "-- The metrics of rankql as functions of ClickHouse; k NULL is the whole ranking."
    helpers = (
        _create_function(name, macro_parameters(name, CLICKHOUSE)) for name in _HELPER_FUNCTIONS
    )
    metrics = (
        f"-- {comment}\n{_create_function(name, function_parameters(name))}"
        for name, comment in macros.read_comments().items()
        if name in (CLICKHOUSE.metrics or ())
    )
    return "\n\n".join([head, *helpers, *metrics]) + "\n"


# Helpers that become functions, because written out they are most of the text.
_HELPER_FUNCTIONS = (
    "rankql_type",
    "rankql_is_text",
    "rankql_option",
    "rankql_grade",
    "rankql_cutoff",
    "rankql_pos",
    "rankql_hit",
)


def _create_function(name: str, parameters: Sequence[str]) -> str:
    columns = {name: name for name in parameters}
    target = replace(CLICKHOUSE, function_macros=frozenset(_HELPER_FUNCTIONS) - {name})
    body = translate_call(name, columns, {}, target)
    return f"CREATE OR REPLACE FUNCTION {name} AS ({', '.join(parameters)}) -> {body};"


def function_parameters(name: str) -> list[str]:
    """The parameters of the function: those without default, and k."""
    parameters = macros.read_parameters()[name]
    listed = [*parameters]
    needed = [parameter for parameter, default in parameters.items() if default is None]
    record = FUNCTIONS.get(name.removeprefix("list_").removesuffix("_by_score"))
    last = record.last_required if record else "k"
    return listed[: max(len(needed), listed.index(last) + 1 if last in listed else 0)]
