"""The state of each day: means by slice and metric, computed from its own rows or read from files.

A state depends on nothing but its day, so stored states equal recomputed ones to the last bit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from rankql.errors import RankqlError
from rankql.evaluation.arguments import EvaluateArguments, RankingOptions
from rankql.evaluation.catalogue import is_catalogue
from rankql.evaluation.column_checks import count_values, require_ids
from rankql.evaluation.combining import read_metadata
from rankql.evaluation.evaluate import evaluate_in_duckdb
from rankql.evaluation.result import Result
from rankql.evaluation.values import Direction, set_directions
from rankql.macros import INTERNAL_PREFIX, literal, quote
from rankql.registry.argument_checks import normal_z
from rankql.registry.parse import list_metrics, parse
from rankql.registry.requested_metric import Metric
from rankql.sources.macro_sql import fetch
from rankql.sources.session import Session
from rankql.sources.tables import ROLES, Table
from rankql.writing import write_file

# The column of the day in the evaluated tables.
DAY = f"{INTERNAL_PREFIX}day"
# The kinds of rows: a metric, the share of judged items, and the metric on judged items alone.
METRIC, SHARE, JUDGED = "metric", "judged share", "judged items only"
SCHEMA = {
    "day": pl.Date,
    **dict.fromkeys(("slice", "metric", "kind"), pl.String),
    **dict.fromkeys(("mean", "lo", "hi", "error"), pl.Float64),
    "queries": pl.Int64,
}


def share_name(metric: str) -> str:
    """The share of judged items in the top k of a metric."""
    return "Judged" + "".join(re.findall(r"@\d+$", metric))


@dataclass
class DayStates:
    """The days of a table as states, and the folder of stored states."""

    session: Session
    run: Table
    qrels: Table | None
    day: str
    metrics: str | Sequence[str]
    # The other arguments of `evaluate`.
    options: Mapping[str, Any]
    folder: Path | None
    groups: Sequence[Sequence[str]] = ()
    attributes: Table | None = None
    higher_is_better: Direction = None
    # The arguments that may name files, which are not overwritten.
    inputs: Sequence[Any] = ()
    # The result of the metrics, with their conventions.
    last: Result | None = field(default=None, init=False)

    def read(self) -> pl.DataFrame:
        """The states of all days, one row per day, slice and metric."""
        days = self._list_days()
        states = self._compute()
        for day in days:
            _require_values(day, states.filter(day=day, slice="all"))
        if self.folder is not None:
            others = [*self._read_others({str(day) for day in days})]
            self._store(states)
            states = pl.concat([states, *others])
        return states.sort("day", maintain_order=True)

    @property
    def lower(self) -> list[str]:
        """The metrics of which a lower value is better."""
        assert self.last is not None
        return [name for name in self.last.metrics if self.last.lower_is_better(name)]

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same on all days."""
        assert self.last is not None
        resolved = {*ROLES, *self.last.conventions, "conventions", "descending"}
        chosen = {name: value for name, value in self.options.items()
                  if value is not None and name not in resolved}  # fmt: skip
        columns = {f"{role} of {label}": column for label, roles in self.last.columns.items()
                   for role, column in roles.items()}  # fmt: skip
        expressions = {m.name: m.expression for m in self._parse() if m.expression}
        metrics = self.last.metrics
        metrics = [name for name in metrics if not name.startswith("Judged")] or metrics
        conventions = {"metrics": metrics, "by": self.groups, **self.last.conventions}
        settings = {**conventions, **chosen, **columns, **expressions}
        return json.loads(json.dumps(settings, default=str))  # type: ignore[no-any-return]

    @property
    def notes(self) -> list[str]:
        """What to know about the numbers."""
        assert self.last is not None
        left_out = self.qrels is not None and not self.qrels.has(self.day)
        skipped = ["Judged queries that a day does not have are left out"] if left_out else []
        return [*skipped, *self.last.notes]

    def _list_days(self) -> list[date]:
        """The days of the table; an error if one is unknown."""
        column = quote(self.day)
        text = f"nullif(CAST({column} AS VARCHAR), '')"
        sql = f"SELECT DISTINCT {text}, TRY_CAST({text} AS DATE) FROM {self.run.sql} ORDER BY 2"
        rows = fetch(self.session, sql)
        for value, day in rows:
            if day is None:
                raise RankqlError(
                    f"day: {self.day} must be a date such as 2026-11-03, not {value or 'NULL'}. "
                    "Cast it first, or name the column of the day: day= (CLI: --day)"
                )
        if not rows:
            raise RankqlError(f"{self.run.label} is empty: it has no rows")
        return sorted({day for _, day in rows})

    def _compute(self) -> pl.DataFrame:
        """Evaluate the queries of all days at once; a query of two days is two."""
        asked = self._query(self.run)
        asked = f"(SELECT DISTINCT {self._date(self.run)} AS d_, {asked} AS q_ FROM {self.run.sql})"
        sources = {"run": self.run, "qrels": self.qrels, "attributes": self.attributes}
        tables = {name: table and self._split(table, asked) for name, table in sources.items()}
        metrics = self._parse()
        for name in (metric.name for metric in metrics if is_catalogue(metric)):
            raise RankqlError(
                f"monitor cannot watch {name}, which describes all rankings together. Watch metrics"
                " of a query"
            )
        texts = list_metrics(self.metrics)
        texts = [texts] if isinstance(texts, str) else list(texts)
        shares = [*dict.fromkeys(share_name(metric.name) for metric in metrics)]
        is_share = pl.col("metric").is_in(shares)
        result = self._evaluate(tables, [*texts, *shares], self.options)
        self.last = set_directions(result, self.higher_is_better)
        kind = pl.when(is_share).then(pl.lit(SHARE)).otherwise(pl.lit(METRIC))
        states = _summarise(self.last).with_columns(kind=kind).select(*SCHEMA)
        only = self._evaluate(tables, texts, {**self.options, "unjudged": "remove"})
        judged = _summarise(only).filter(~is_share).with_columns(kind=pl.lit(JUDGED))
        return pl.concat([states, judged.select(*SCHEMA)])

    def _parse(self) -> list[Metric]:
        return parse(list_metrics(self.metrics))

    def _evaluate(
        self, tables: Mapping[str, Any], metrics: Sequence[str], options: Mapping[str, Any]
    ) -> Result:
        """Means by day and slice, to the last bit independent of other days."""
        rest = dict(options)
        own = {name: rest.pop(name, None) for name in ("descending", "weight")}
        arguments = EvaluateArguments(
            **tables,
            **own,
            metrics=metrics,
            con=self.session.con,
            columns={role: rest.pop(role, None) for role in ROLES},
            ranking=RankingOptions.take(rest),
            groupings=[[DAY], *([DAY, *group] for group in self.groups)],
            interval="t",
            profile=rest.pop("conventions", None),
            options=rest,
            packs=False,
            remedies=["collapse"],
        )
        return evaluate_in_duckdb(arguments)

    def _split(self, table: Table, asked: str) -> Table:
        """The rows of a table with the day in the ids of queries."""
        name = table.find("query", self.options.get("query")) or ""
        key, own = self._query(table), table.has(self.day)
        ids = [name, table.actual_name(self.day)] if own else [name]
        require_ids(table.label, *count_values(self.session, table, ids))
        day = self._date(table) if own else "d_"
        kept = f"EXCLUDE ({quote(ids[1])})" if own else ""
        joined = "" if own else f"JOIN {asked} ON q_ = {key}"
        return replace(
            table,
            sql=f"(SELECT t_.* {kept} REPLACE ({day} || ' ' || {key} AS {quote(name)}), "
            f"{day} AS {DAY} FROM {table.sql} AS t_ {joined})",
            columns={c: kind for c, kind in table.columns.items() if c not in ids[1:]}
            | {name: "VARCHAR", DAY: "DATE"},
            lasting=False,
        )

    def _query(self, table: Table) -> str:
        """The id of the query in a table, as text."""
        spec = self.options.get("query")
        if name := table.find("query", spec) if spec is None or isinstance(spec, str) else None:
            return f"CAST({quote(name)} AS VARCHAR)"
        raise RankqlError(
            f"{table.label} has no column of queries. Name it: query= (CLI: --query), one column"
        )

    def _date(self, table: Table) -> str:
        """The day of a row."""
        name = table.actual_name(self.day)
        if "TIME ZONE" in table.columns[name]:
            raise RankqlError(
                f"{table.label}: {name} is {table.columns[name]}, whose day depends on the time "
                f"zone. Cast it to DATE first, such as CAST({name} AT TIME ZONE 'UTC' AS DATE)"
            )
        return f"CAST({quote(name)} AS DATE)"

    def _read_others(self, computed: set[str]) -> Iterator[pl.DataFrame]:
        """The stored states of other days; an error if their conventions differ."""
        assert self.folder is not None
        current = self.settings
        for path in sorted(self.folder.glob("*.parquet")):
            if path.stem in computed:
                continue
            settings, state = _read_state(path)
            for name in sorted({*settings, *current}):
                old, new = settings.get(name), current.get(name)
                if old != new:
                    raise RankqlError(
                        f"states: {path.stem} was computed with {name}={old!r}, not {new!r}, so "
                        "days cannot be compared. Pass what was used, or all days with a new folder"
                    )
            if [path.stem] != [str(day) for day in state["day"].unique()]:
                raise RankqlError(
                    f"states: {path.name!r} has the day {state['day'][0]}, which would count twice."
                    " Delete the copy"
                )
            yield state

    def _store(self, states: pl.DataFrame) -> None:
        """Write a file per day, which replaces an older one."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        meta = literal(json.dumps({"monitor": self.settings}, ensure_ascii=False))
        for (day,), state in states.group_by("day", maintain_order=True):
            sql = self.session.table(state, "state").sql
            with write_file(self.folder / f"{day}.parquet", inputs=self.inputs) as path:
                self.session.con.execute(
                    f"COPY (FROM {sql}) TO {literal(str(path))} (FORMAT parquet, "
                    f"KV_METADATA {{rankql: {meta}}})"
                ).fetchall()


def _require_values(day: date, states: pl.DataFrame) -> None:
    """Refuse a day of which all metrics are undefined."""
    means, shares = (states.filter(kind=kind)["mean"] for kind in (METRIC, SHARE))
    if (means if len(means) else shares).count():
        return
    if shares.fill_null(0).max():
        raise RankqlError(
            f"Day {day}: every metric is undefined, because no judged item is relevant. Check its "
            "grades and threshold= (CLI: --threshold), or pass undefined='zero' (CLI: --undefined "
            "zero)"
        )
    raise RankqlError(
        f"Day {day} has no judgments: every metric is undefined. Add its judgments, or leave out "
        "the day and pass gaps=True (CLI: --gaps)"
    )


def _read_state(path: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """The settings and the rows of a stored state."""
    try:
        settings = (read_metadata(path, states=True) or {}).get("monitor")
        if settings is not None:
            return settings, pl.read_parquet(path).select(*SCHEMA)
    except (RankqlError, OSError, pl.exceptions.PolarsError) as error:
        raise RankqlError(
            f"states: {str(path)!r} is damaged. Delete it, or pass its day to compute it again"
        ) from error
    raise RankqlError(
        f"states: {str(path)!r} is not a state that monitor stored. Name a folder of its own: "
        "states= (CLI: --states)"
    )


def _summarise(result: Result) -> pl.DataFrame:
    """Means by day, slice and metric, with 95% intervals and standard errors."""
    # The interval of equal values is not one of a standard error, which is 0.
    plain = replace(result, interval="t", _summary=None).summary
    summary = result.summary.with_columns(equal=plain["lo"] == plain["hi"])
    prefix = len(f"{DAY}=2026-01-01, ")
    # The range of a metric does not cut its interval on both sides, except for a few queries.
    reach = pl.max_horizontal(pl.col("hi") - pl.col("mean"), pl.col("mean") - pl.col("lo"))
    rest = pl.col("slice").str.slice(prefix)
    return summary.filter(pl.col("slice") != "all").select(
        pl.col(DAY).alias("day"),
        pl.when(rest == "").then(pl.lit("all")).otherwise(rest).alias("slice"),
        "metric", "mean", "lo", "hi",
        error=pl.when("equal").then(0.0).otherwise(reach / normal_z(0.95)),
        queries=result.counted,
    )  # fmt: skip
