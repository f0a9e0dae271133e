"""The SQL of an evaluation, which is written when somebody asks for it.

It needs texts and names alone, so it is the same after the tables have changed or are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from rankql.core.base.doors import call_extra
from rankql.core.base.errors import RankqlError
from rankql.core.evaluation.query import readable
from rankql.core.evaluation.query.ctes import with_ctes
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.metric_record import Metric
from rankql.core.tables.inputs import Inputs
from rankql.core.tables.reader import fetch_frame


@dataclass(frozen=True)
class Script:
    """What the queries of an evaluation are written from: no table, and no connection."""

    inputs: Inputs
    conventions: Conventions
    # With hidden ones.
    metrics: Sequence[Metric]
    groupings: Sequence[Sequence[str]] = ()
    # The statements that read the text files.
    loaded: Sequence[str] = ()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.sql,)  # metrics have functions, which cannot be pickled

    @cached_property
    def query(self) -> readable.Query:
        """The readable query of the values per query."""
        return readable.write_query(self.inputs, self.metrics, self.conventions)

    @cached_property
    def catalogue_queries(self) -> list[tuple[list[str], str]]:
        """The queries of metrics of the catalogue, with their names."""
        metrics = [metric for metric in self.metrics if readable.is_catalogue(metric)]
        cutoffs = dict.fromkeys(metric.k for metric in metrics)
        by_cutoff = ([metric for metric in metrics if metric.k == k] for k in cutoffs)
        return [call_extra("catalogue query", self, x) for x in by_cutoff]

    @cached_property
    def sql(self) -> str:
        """The queries, after the statements that read the text files."""
        queries = [*(sql for _, sql in self.catalogue_queries), self.query.sql]
        if (apart := readable.read_apart(self.inputs, self.metrics, self.conventions)) is not None:
            queries.append(readable.write_query(*apart).sql)
        return ";\n".join([*self.loaded, *queries])


class Written(NamedTuple):
    """The readable query of another process."""

    query: readable.Query


@dataclass(eq=False, repr=False)
class Steps(Mapping[str, str]):
    """The named steps of an evaluation, in order. Each is a query that ends with this step.

    `result.steps["ranked"]` is the SQL of a step, `result.steps.run("ranked")` its rows. The last
    step, `values`, is `result.sql`. (`run` reads the inputs again.)
    """

    _script: Script | Written
    _run: Callable[[Any], Any] | None = None

    def __reduce__(self) -> tuple[type[Steps], tuple[Written]]:
        return Steps, (Written(self._script.query),)  # connections cannot be pickled

    def __getitem__(self, name: str) -> str:
        query = self._script.query
        if name == "values":
            return query.sql
        names = [*query.steps]
        first_steps = names[: names.index(name) + 1] if name in names else []
        if not first_steps:
            raise KeyError(name)
        return with_ctes({name: query.steps[name] for name in first_steps}) + f"FROM {name}"

    def __iter__(self) -> Iterator[str]:
        return iter([*self._script.query.steps, "values"])

    def __len__(self) -> int:
        return len(self._script.query.steps) + 1

    def __repr__(self) -> str:
        return f"Steps: {', '.join(self)}"

    def run(self, name: str, columns: str = "*") -> pl.DataFrame:
        """The rows of a step, or an SQL expression over them.

        In `ranked`, pos is NULL of an item that is below the cutoff or was not retrieved.
        """
        self[name]  # the error about an unknown step

        def read(evaluation: Any) -> pl.DataFrame:
            sql = Steps(evaluation.script)[name]  # which names the tables as they are read now
            sql = sql if columns == "*" else f"SELECT {columns} FROM ({sql})"
            return fetch_frame(evaluation.session, sql, checked=True)

        rows: pl.DataFrame = self.read(read)
        return rows

    def read(self, task: Any) -> Any:
        """What a function of the evaluation returns, whose inputs are read again."""
        if self._run is None:
            raise RankqlError("The inputs are known in another process. Evaluate them again")
        return self._run(task)
