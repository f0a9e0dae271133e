"""The named steps of a query: the bodies of its CTEs, and the WITH before the final SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.conventions import Conventions
from rankql.sources.grades import SUBTOPICS
from rankql.sources.inputs import Inputs
from rankql.sources.macro_sql import fetch, fetch_frame
from rankql.sources.session import Session
from rankql.sources.tables import Table

# A number that differs if judgments do, in any order and for any type of ids.
FINGERPRINT = (
    "CAST(sum(hash(CAST(query AS VARCHAR), CAST(item AS VARCHAR), CAST(rel AS DOUBLE))) AS VARCHAR)"
)
# The CTE with the best scores of each ranking.
CUTS = "cuts"
# The CTE with the first k items of each ranking.
TOP = "top"
READ_TWICE = (CUTS, TOP, "candidates", "best", "lists", "found")


def select_from(source: str, fields: Sequence[str], rest: str = "") -> str:
    """The body of a CTE."""
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}", *([rest] if rest else [])]
    return "\n".join(f"    {line}" for line in lines)


def with_ctes(ctes: Mapping[str, str], kept: str = "") -> str:
    """The WITH clause. CTEs are not materialized, except those read twice and `kept`."""
    materialized = (*READ_TWICE, kept)
    parts = (
        f"{name} AS {'' if name in materialized else 'NOT '}MATERIALIZED (\n{body}\n)"
        for name, body in ctes.items()
    )
    return "WITH " + ", ".join(parts) + "\n"


class Steps(Mapping[str, str]):
    """The named steps of an evaluation, in order. Each is a query that ends with this step.

    `result.steps["ranked"]` is the SQL of a step, `result.steps.run("ranked")` its rows. The last
    step, `values`, is `result.sql`. (`run` reads the inputs again.)
    """

    def __init__(
        self, bodies: Mapping[str, str], values: str, run: Callable[[str], pl.DataFrame] | None
    ) -> None:
        self._bodies, self._values, self._run = bodies, values, run

    def __reduce__(self) -> tuple[type[Steps], tuple[Mapping[str, str], str, None]]:
        return Steps, (self._bodies, self._values, None)  # connections cannot be pickled

    def __getitem__(self, name: str) -> str:
        if name == "values":
            return with_ctes(self._bodies) + self._values
        names = [*self._bodies]
        kept = names[: names.index(name) + 1] if name in self._bodies else []
        if not kept:
            raise KeyError(name)
        return with_ctes({name: self._bodies[name] for name in kept}) + f"FROM {name}"

    def __iter__(self) -> Iterator[str]:
        return iter([*self._bodies, "values"])

    def __len__(self) -> int:
        return len(self._bodies) + 1

    def __repr__(self) -> str:
        return f"Steps: {', '.join(self)}"

    def run(self, name: str, columns: str = "*") -> pl.DataFrame:
        """The rows of a step, or an SQL expression over them."""
        sql = self[name]
        if self._run is None:
            raise RankqlError("The inputs are known in another process. Evaluate them again")
        return self._run(sql if columns == "*" else f"SELECT {columns} FROM ({sql})")


def source_ctes(inputs: Inputs, conventions: Conventions, integers: bool = False) -> dict[str, str]:
    """The runs, judgments and attributes, with standard names of columns.

    integers: include grades and positions of a run as integers.
    """
    text = {role: inputs.as_text(role) for role in ("query", "item")}

    def keys(table: Table) -> list[str]:
        return [f"{table.key(r, text[r])} AS {r}" for r in text if r in table.roles]

    def attributes(table: Table) -> list[str]:
        return [
            f"{inputs.read_attribute(table, name)} AS {inputs.attribute(name)}"
            for name in inputs.attributes_in(inputs.home(table))
        ]

    def rows(table: Table, fields: Sequence[str], *conditions: str) -> str:
        # DuckDB does not read other columns of rows that a filter in the same SELECT leaves out.
        part = [inputs.part.format(query=table.key("query", text["query"]))] if inputs.part else []
        where = " AND ".join([*conditions, *part])
        return select_from(table.sql, fields, f"WHERE {where}" if where else "")

    runs = []
    for name, table in inputs.runs.items():
        fields = keys(table)
        if inputs.system is not None:
            fields.insert(0, f"CAST({quote(inputs.system)} AS VARCHAR) AS system")
        elif name is not None:
            fields.insert(0, f"{literal(name)}{table.exact} AS system")
        places = [role for role in ("pos", "score") if role in table.roles]
        fields += [f"{_number(table, role, conventions)} AS {role}" for role in places]
        if conventions.ties == "order":
            fields.append("row_number() OVER () AS line")
        if "rel" in table.roles:
            fields.append(f"{_number(table, 'rel', conventions)} AS rel")
        if integers:
            grade, place = (table.integer(role) or table.number(role) for role in ("rel", "pos"))
            fields += [
                f"CAST({grade} AS INTEGER) AS {INTERNAL_PREFIX}rel",
                f"{place} AS {INTERNAL_PREFIX}pos",
            ]
        own = [f"{value} AS {quote(name)}" for name, value in inputs.own.items()]
        runs.append(rows(table, fields + attributes(table) + own))
    ctes = {"run": "\n    UNION ALL\n".join(runs)}
    if inputs.qrels is not None:
        table = inputs.qrels
        grade = _number(table, "rel", conventions)
        fields = [*keys(table), f"{grade} AS rel", *attributes(table)]
        fields += [SUBTOPICS] if inputs.subtopics else []
        # A grade that counts as unjudged is NULL. Its query is judged, as in trec_eval.
        ctes["qrels"] = rows(table, fields, f"{table.number('rel')} IS NOT NULL")
    if inputs.reference is not None:
        table = inputs.reference
        role = "pos" if "pos" in table.roles else "score"
        fields = [*keys(table), f"{_number(table, role, conventions)} AS {role}"]
        ctes["reference"] = rows(table, fields + attributes(table))
    if inputs.attributes is not None:
        fields = keys(inputs.attributes) + attributes(inputs.attributes)
        ctes["attributes"] = rows(inputs.attributes, fields)
    return ctes


def _number(table: Table, role: str, conventions: Conventions) -> str:
    """The number in a column, under the conventions."""
    value = table.number(role)
    if role == "score" and conventions.float32:
        return f"rankql_float32({value})"
    if role == "rel" and conventions.negative == "unjudged":
        return f"CASE WHEN {value} >= 0 THEN {value} END"
    if role == "rel" and conventions.negative == "error":
        must = literal(f"{table.label}: {table.roles[role]} must not be negative, but there is ")
        return f"CASE WHEN {value} < 0 THEN rankql_fail({must} || {value}) ELSE {value} END"
    return value


def with_source_ctes(inputs: Inputs, conventions: Conventions) -> str:
    """The WITH clause of the sources, for other queries on them."""
    return with_ctes(source_ctes(inputs, conventions))


@dataclass(frozen=True)
class SqlRunner:
    """Runs SQL on the CTEs of the sources in DuckDB."""

    session: Session
    inputs: Inputs
    conventions: Conventions

    def __call__(self, sql: str, part: str = "") -> Sequence[tuple[Any, ...]]:
        """The rows. part: a condition on {query}, for some queries only."""
        inputs = replace(self.inputs, part=part) if part else self.inputs
        return fetch(self.session, with_source_ctes(inputs, self.conventions) + sql)

    def frame(self, sql: str) -> pl.DataFrame:
        """Many rows as a frame."""
        ctes = with_source_ctes(self.inputs, self.conventions)
        return fetch_frame(self.session, ctes + sql, few=False)
