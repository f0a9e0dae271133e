"""The engines that have a window form, and what differs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from rankql.engines.folding import function_call
from rankql.engines.translation import Rule


@dataclass(frozen=True)
class Engine:
    """An engine, and the little that is not the same for all."""

    name: str
    # As sqlglot calls it.
    dialect: str
    # Do the tests run its queries?
    executed: bool = False
    # How a query fails with a message; a text that is no number is an error everywhere but there.
    error: str = "CAST({} AS DOUBLE)"
    # Where text is taken for a number without a word: how to tell it.
    is_text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    # Is what is divided by 0 NULL there?
    zero_is_null: bool = False
    rules: Mapping[type[exp.Expr] | str, Rule] = field(default_factory=dict)
    # What a name is quoted with, where a text would be read in place of an unknown name.
    quote: str = ""
    # What means something else than in DuckDB: what of it, and what will do.
    other: Mapping[type[exp.Expr] | str, tuple[str, str]] = field(default_factory=dict)


_NO_TRY: Mapping[type[exp.Expr] | str, tuple[str, str]] = {
    exp.TryCast: ("TRY_CAST", "cast in a view of it")
}


ENGINES = {
    "duckdb": Engine("DuckDB", "duckdb", executed=True, error="error({})"),
    "postgres": Engine("Postgres", "postgres", executed=True, other=_NO_TRY),
    "sqlite": Engine(
        "SQLite",
        "sqlite",
        executed=True,
        # What is no path is an error that shows it.
        error="json_extract('{{}}', {})",
        is_text="typeof({}) = 'text'",
        names={"greatest": "max", "least": "min"},
        zero_is_null=True,
        quote="`",
        rules={exp.Mod: lambda _, node: _remainder(node)},
        other={
            **_NO_TRY,
            "date": ("a date, which is text there,", "compare with a text such as '2026-01-31'"),
            "lower": ("lower(), which there leaves É as it is,", "write it so in a view"),
            "upper": ("upper(), which there leaves é as it is,", "write it so in a view"),
            exp.Like: ("LIKE, which there is blind to case,", "compare with ="),
            exp.Cast: ("a cast, which there takes any text for a number,", "cast in a view of it"),
        },
    ),
    "datafusion": Engine(
        "DataFusion",
        "postgres",
        executed=True,
        other={
            **_NO_TRY,
            "except all": ("EXCEPT ALL, which there leaves out all that is equal,", ""),
            "intersect all": ("INTERSECT ALL, which there keeps all that is equal,", ""),
        },
    ),
    "snowflake": Engine("Snowflake", "snowflake"),
    "bigquery": Engine("BigQuery", "bigquery", error="error({})"),
    "databricks": Engine("Databricks", "databricks", error="raise_error({})"),
    "trino": Engine("Trino", "trino", error="fail({})"),
    "redshift": Engine("Redshift", "redshift", other=_NO_TRY),
}


def construct(node: Any) -> type[exp.Expr] | str:
    """What it is, as an engine calls what is other there."""
    if isinstance(node, exp.SetOperation) and not node.args.get("distinct"):
        return f"{node.key} all"
    if isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEMPORAL_TYPES):
        return "date"
    return type(node)


def _remainder(node: exp.Mod) -> exp.Case:
    """SQLite's % is of whole numbers alone, its mod() of what a DOUBLE holds."""
    sides = (node.this, node.expression)
    whole = [
        exp.EQ(this=function_call("typeof", s), expression=exp.convert("integer")) for s in sides
    ]
    case = exp.If(this=exp.And(this=whole[0], expression=whole[1]), true=node)
    return exp.Case(ifs=[case.copy()], default=function_call("mod", *(s.copy() for s in sides)))
