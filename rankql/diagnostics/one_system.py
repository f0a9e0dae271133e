"""Select one system or one query of the inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rankql.errors import RankqlError, describe_unknown
from rankql.evaluation.source_ctes import with_source_ctes
from rankql.macros import literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session
from rankql.sources.tables import Table


def select_system(session: Session, inputs: Inputs, system: str) -> Inputs:
    """The inputs with the run of one system."""
    if not inputs.many:
        raise RankqlError(
            f"which={system!r} names a system, but there is only one run. Remove which="
        )
    names = _read_systems(session, inputs)
    if system not in names:
        raise RankqlError(describe_unknown("system", system, names))
    if inputs.system is None:
        return replace(inputs, runs={None: inputs.runs[system]})
    (table,) = inputs.runs.values()
    condition = f"CAST({quote(inputs.system)} AS VARCHAR) = {literal(system)}"
    return replace(inputs, runs={None: _filter(table, condition)}, system=None)


def select_only_system(session: Session, inputs: Inputs) -> tuple[str, Inputs]:
    """The only system of the inputs, or an error if there are several."""
    names = _read_systems(session, inputs)
    if len(names) != 1:
        some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise RankqlError(f"There are {len(names)} systems. Select one with which=: {some}")
    return names[0], select_system(session, inputs, names[0])


def select_query(
    session: Session, inputs: Inputs, conventions: Conventions, key: Any
) -> tuple[Inputs, Any, bool]:
    """The inputs with the rows of one query, its id, and whether it is missing in the run."""
    as_text = inputs.as_text("query")
    runs = {name: _filter(t, _has_query(t, key, as_text)) for name, t in inputs.runs.items()}
    qrels = inputs.qrels and _filter(inputs.qrels, _has_query(inputs.qrels, key, as_text))
    selected = replace(inputs, runs=runs, qrels=qrels)
    in_run = _read_queries(session, selected, conventions, "run", "LIMIT 1")
    judged = in_run
    if qrels is not None:
        judged = _read_queries(session, selected, conventions, "qrels", "LIMIT 1")
    if judged:
        return selected, judged[0], not in_run
    if in_run:
        raise RankqlError(
            f"Query {in_run[0]!r} is not judged: qrels has no rows for it. Select a judged query"
        )
    source = "run" if qrels is None else "qrels"
    name = "CAST(query AS VARCHAR)"
    closest = f"jaro_winkler_similarity({name}, {literal(str(key))}) DESC, {name} LIMIT 5"
    rest = f"GROUP BY query ORDER BY {closest}"
    names = list(map(str, _read_queries(session, inputs, conventions, source, rest)))
    raise RankqlError(
        f"Unknown query {key!r}: {source} has no rows for it. Others, the most similar first: "
        f"{', '.join(names)}"
    )


def select_queries(inputs: Inputs, keys: Sequence[Any]) -> Inputs:
    """The inputs with the rows of these queries only."""
    as_text = inputs.as_text("query")

    def select(table: Table) -> Table:
        return _filter(table, " OR ".join(_has_query(table, key, as_text) for key in keys))

    runs = {name: select(table) for name, table in inputs.runs.items()}
    return replace(inputs, runs=runs, qrels=inputs.qrels and select(inputs.qrels))


def _read_systems(session: Session, inputs: Inputs) -> list[str]:
    if inputs.system is None:
        return [name for name in inputs.runs if name is not None]
    (table,) = inputs.runs.values()
    name = f"CAST({quote(inputs.system)} AS VARCHAR)"
    sql = f"SELECT DISTINCT {name} FROM {table.sql} WHERE {name} IS NOT NULL ORDER BY 1"
    return [row[0] for row in session.con.execute(sql).fetchall()]


def _read_queries(
    session: Session, inputs: Inputs, conventions: Conventions, source: str, rest: str
) -> list[Any]:
    sql = f"{with_source_ctes(inputs, conventions)}SELECT query FROM {source} {rest}"
    return [row[0] for row in fetch(session, sql)]


def _has_query(table: Table, query: Any, as_text: bool) -> str:
    """The condition that selects the query, whose id may be passed as text."""
    kind, key, value = table.columns[table.roles["query"]], table.key("query", as_text), str(query)
    if key.startswith("CAST("):
        return f"{key} = {literal(value)}"
    same = f"{key} = TRY_CAST({literal(value)} AS {kind})"
    if re.search(r"INT(EGER)?$|^DECIMAL", kind):  # a cast would round
        same += f" AND {key} = TRY_CAST({literal(value)} AS DOUBLE)"
    return same


def _filter(table: Table, condition: str) -> Table:
    return replace(table, sql=f"(SELECT * FROM {table.sql} WHERE {condition})")
