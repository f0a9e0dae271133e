"""One ranking of an evaluation, or those of some queries: by the system and the query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from rankql.core.base.errors import Question, RankqlError, require
from rankql.core.evaluation.plan.evaluation import Evaluation
from rankql.core.evaluation.reduce.fetch import source_frame
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.tables import Table
from rankql.features.filters import read_systems

# Of so many systems a ranking is offered.
_OFFERED = 3


def select_system(evaluation: Evaluation, of: Any) -> tuple[Evaluation, Any, str | None]:
    """The evaluation of one system, the query and the name of the system."""
    inputs, system = evaluation.inputs, None
    if isinstance(of, Mapping):
        known = {*of} == {"system", "query"}
        require(known, f"of={dict(of)!r}: a dict has the keys 'system' and 'query'")
        of, system = of["query"], str(of["system"])
    if not inputs.many:
        require(system is None, f"There is one run, without systems. Pass of={of!r}")
        return evaluation, of, None
    names = read_systems(evaluation.session, inputs)
    if len(names) == 1 and system is None:
        (system,) = names
    if system not in names:
        unknown = "" if system is None else f"Unknown system {system!r}. "
        calls = [{"of": {"system": name, "query": of}} for name in names[:_OFFERED]]
        raise Question(f"{unknown}There are {len(names)} systems. Which is explained?", calls)
    table = inputs.run_of(system)
    if inputs.system is not None and len(names) > 1:
        is_own = f"CAST({quote(inputs.system)} AS VARCHAR) = {literal(system)}"
        table = replace(table, sql=f"(SELECT * FROM {table.sql} WHERE {is_own})")
    inputs = replace(inputs, runs={None: table}, system=None)
    return replace(evaluation, inputs=inputs), of, system


def select_query(evaluation: Evaluation, key: Any) -> tuple[Evaluation, Any, bool]:
    """The evaluation of one query, its id, and whether it is missing in the run."""
    source = "run" if evaluation.inputs.qrels is None else "qrels"
    selected = replace(evaluation, inputs=select_queries(evaluation.inputs, [key]))
    # Rows of tables in memory are kept, if the id is text.
    session = evaluation.session
    for table, part in zip(evaluation.inputs.tables, selected.inputs.tables, strict=True):
        frame, name = session.frames.get(table.sql), table.roles["query"]
        if frame is not None and frame.schema[name] == pl.String:
            session.keep(part, frame.filter(frame[name] == str(key)))
    in_run, judged = (_first_query(selected, x) for x in ("run", source))
    if judged:
        return selected, judged[0][0], not in_run
    if in_run:
        raise RankqlError(
            f"Query {in_run[0][0]!r} is not judged: qrels has no rows for it. Select a judged query"
        )
    raise RankqlError(f"Unknown query {key!r}: {source} has no rows for it. Select another one")


def _first_query(evaluation: Evaluation, source: str) -> list[tuple[Any, ...]]:
    """The query of the first row of the run or the judgments, if there is one."""
    if (rows := source_frame(evaluation, source)) is not None:
        return rows.select("query").head(1).rows()
    return evaluation.run_sql(f"SELECT query FROM {source} LIMIT 1")


def select_queries(inputs: Inputs, keys: Sequence[Any]) -> Inputs:
    """The inputs with the rows of these queries only."""
    as_text = inputs.as_text("query")

    def select(table: Table) -> Table:
        condition = " OR ".join(_has_query(table, key, as_text) for key in keys)
        return replace(table, sql=f"(SELECT * FROM {table.sql} WHERE {condition})")

    runs = {name: select(table) for name, table in inputs.runs.items()}
    return replace(inputs, runs=runs, qrels=inputs.qrels and select(inputs.qrels))


def _has_query(table: Table, query: Any, as_text: bool) -> str:
    """The condition that selects the query, whose id may be passed as text."""
    kind, key, value = table.columns[table.roles["query"]], table.key("query", as_text), str(query)
    if key.startswith("CAST("):
        return f"{key} = {literal(value)}"
    same = f"{key} = TRY_CAST({literal(value)} AS {kind})"
    if re.search(r"INT(EGER)?$|^DECIMAL", kind):  # a cast would round
        same += f" AND {key} = TRY_CAST({literal(value)} AS DOUBLE)"
    return same
