"""Read tables with one row per query as results: values that rankql did not compute.

A table without judgments is read so if it does not look like a ranked table and has one row per key
(and system). Every column of numbers is then a metric. A note says what was assumed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import duckdb

from rankql import text
from rankql.errors import RankqlError, describe_unknown, require, require_plain_name
from rankql.evaluation.combine import open_result, read_metadata, require_one_row_per_query
from rankql.evaluation.means import Meta
from rankql.evaluation.means_result import MeansResult
from rankql.evaluation.result import Result
from rankql.macros import MISSING, literal, quote
from rankql.registry.column_names import RETRIEVED, SYSTEMS
from rankql.registry.conventions import Conventions
from rankql.registry.parse import (
    canonical_names,
    find_shown,
    is_metric,
    lower_is_better,
    resolve_names,
)
from rankql.sources.choice import find_list
from rankql.sources.computed import number_type
from rankql.sources.files import CSV, JSON, PARQUET, is_path, suffix_of
from rankql.sources.json_shapes import is_several_runs
from rankql.sources.private import private_connection
from rankql.sources.reader import fetch_frame, list_in_order
from rankql.sources.session import Session, duckdb_errors, open_session
from rankql.sources.tables import Data, Table, is_number

Direction = bool | Mapping[str, bool] | None

# Columns of a run or of judgments. Data for which the caller names one is a run.
_OF_RUNS = ("item", "rel", "score", "pos")
_OPTIONS = ("order", "collapse")


@dataclass(frozen=True)
class Request:
    """What the caller asked for, which distinguishes values per query from runs."""

    metrics: str | Sequence[str] | None = None
    # The column of the key, and the attributes to slice or cluster by.
    query: str | None = None
    attributes: Sequence[str] = ()
    higher_is_better: Direction = None
    con: duckdb.DuckDBPyConnection | None = None
    # Did the caller name a column of a run, such as item=?
    is_run: bool = False
    # With judgments, only columns named like metrics say that the data is not a run.
    judged: bool = False
    # The columns of the retrieved and the relevant ids.
    item: Any = None

    @classmethod
    def of(
        cls,
        keywords: Mapping[str, Any],
        metrics: str | Sequence[str] | None,
        attributes: Sequence[str],
        higher_is_better: Direction,
    ) -> Request:
        """The request of a function that passes its keywords on to `evaluate`."""
        query = keywords.get("query")
        is_run = any(keywords.get(name) is not None for name in (*_OF_RUNS, *_OPTIONS))
        is_run = is_run or not (query is None or isinstance(query, str))
        con = keywords.get("con")
        item = keywords.get("item")
        return cls(metrics, query, attributes, higher_is_better, con, is_run, item=item)

    def has_lists(self, table: Table) -> bool:
        """Has a table lists of retrieved ids?"""
        item = self.item[0] if isinstance(self.item, list | tuple) and self.item else self.item
        return find_list(table, RETRIEVED, item) is not None

    @property
    def named(self) -> list[str]:
        """The columns that the caller calls metrics."""
        metrics = [self.metrics] if isinstance(self.metrics, str) else self.metrics or ()
        directions = self.higher_is_better
        return [*metrics, *(directions if isinstance(directions, Mapping) else ())]


class Argument(NamedTuple):
    """What an argument is, and the result in it."""

    kind: Literal["several runs", "result", "values", "lists", "rows"]
    result: Result | None = None


ROWS = Argument("rows")


def identify(data: Data, label: str = "run", request: Request | None = None) -> Argument:
    """What an argument is: several runs by name, a result, values per query, a table with lists of
    retrieved ids, or rows of items.

    Without a request, values and lists count as rows, and nothing but the metadata is read. With
    one, values are read; of a run in a file, only the header. What cannot be opened counts as rows:
    `evaluate` says why.
    """
    if isinstance(data, Mapping):
        return Argument("several runs" if is_several_runs(data) else "rows")
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else ""
    if isinstance(data, MeansResult) or (path and read_metadata(path) is not None):
        if getattr(data, "judge", None) is not None:
            raise RankqlError(f"{label} is corrected by a judge. Pass its run with judge= instead")
        return Argument("result", open_result(data) if request else None)
    if request is None or (os.path.exists(path) and suffix_of(path) not in (*PARQUET, *CSV, *JSON)):
        return ROWS
    with suppress(RankqlError, duckdb.Error):
        if is_path(path):
            with private_connection() as con:
                file = con.sql(f"FROM {literal(path)} LIMIT 0")
                kinds = map(str, file.types)
                header = Table(label, "", dict(zip(file.columns, kinds, strict=True)))
            if request.has_lists(header):
                return Argument("lists")
            if request.is_run or (header.known("item") and not request.named):
                return ROWS
    with open_session(request.con, data) as session:
        try:
            table = session.table(data, label)
            if request.has_lists(table):
                return Argument("lists")
        except (RankqlError, duckdb.Error):
            return ROWS
        columns = None if request.is_run else _recognise_columns(session, table, request)
        return Argument("values", _read(session, table, label, columns)) if columns else ROWS


@dataclass(frozen=True)
class _Columns:
    """The roles of the columns of a table of values."""

    key: str
    metrics: list[str]
    attributes: list[str]
    system: str | None


def _read(session: Session, table: Table, label: str, columns: _Columns) -> Result:
    """The values of a table with one row per query, as a result."""
    for name in (columns.key, *columns.attributes, *columns.metrics):
        require_plain_name(name)
    numbers = [
        f"{replace(table, label=label, roles={'rel': name}).number('rel')} AS {quote(name)}"
        for name in columns.metrics
    ]
    kept = [*map(quote, (columns.key, *columns.attributes)), f"false AS {MISSING}"]
    if columns.system:
        kept.insert(0, f"CAST({quote(columns.system)} AS VARCHAR) AS system")
    with duckdb_errors():
        rows = fetch_frame(session, f"SELECT {', '.join([*kept, *numbers])} FROM {table.sql}")
    own = [name for name in columns.metrics if not is_metric(name)]
    conventions = Conventions().as_dict()
    if len(own) == len(columns.metrics):
        conventions["missing"] = "skip"  # they are not 0 for missing queries
    canonical = {name: canonical_names(name, conventions)[0] for name in columns.metrics}
    meta = Meta(
        query=columns.key,
        metrics=columns.metrics,
        conventions=conventions,
        system=columns.system is not None,
        systems=list_in_order(session, table, columns.system) if columns.system else [],
        by=columns.attributes,
        groupings=[columns.attributes] if columns.attributes else [],
        canonical={name: x for name, x in canonical.items() if x != name},
    )
    notes = []
    rows_of = (
        columns.key if columns.system in (None, "system") else f"{columns.system} and {columns.key}"
    )
    if own or rows_of.lower() != "query":
        about = f"; attributes {', '.join(columns.attributes)}" if columns.attributes else ""
        metrics = ", ".join(columns.metrics)
        notes.append(f"{label} is read as one row per {rows_of}: metrics {metrics}{about}")
    result = Result(meta, notes=notes, values=rows)
    require_one_row_per_query(rows, result.keys)
    return result


def _recognise_columns(session: Session, table: Table, request: Request) -> _Columns | None:
    """The columns, if the table has one row per query."""
    if table.trec:
        return None
    system = _find_system(session, table, request)
    columns = [name for name in table.columns if name not in (system, MISSING)]
    if request.query is not None and request.query not in columns:
        return None  # `evaluate` says which columns there are
    key = (
        request.query
        if request.query in columns
        else table.find("query") or next(iter(columns), None)
    )
    known = [name for name in columns if name != key and is_metric(name)]
    named = [name for name in dict.fromkeys(request.named) if name in columns and name != key]
    is_run = table.known("item") or (table.known("rel") and table.known("pos"))
    no_run = not request.judged and not any(table.known(role) for role in _OF_RUNS)
    if key is None or not (named or no_run or (known and not is_run)):
        return None
    numeric = [name for name in columns if name != key and is_number_column(session, table, name)]
    explicit = [x for x in named if x in numeric or table.columns[x] == "BOOLEAN"]
    start = min((columns.index(name) for name in known), default=0)
    taken = {*request.attributes} - {*explicit}
    metrics = [
        name for name in columns
        if name in explicit
        or (name in numeric and columns.index(name) >= start and name not in taken)
    ]  # fmt: skip
    if not metrics:
        return None
    attributes = [name for name in columns if name != key and name not in metrics]
    return _Columns(key, metrics, attributes, system)


def _find_system(session: Session, table: Table, request: Request) -> str | None:
    """The column of the systems: `system`, or `variant` if that makes rows of a key unique."""
    key = request.query if request.query in table.columns else table.find("query")
    if "system" in table.columns or not key:
        return "system" if "system" in table.columns else None
    for name in {*SYSTEMS} & {*table.columns} - {key, *request.attributes}:
        both = f"{quote(key)}, {quote(name)}"
        counts = (f"(SELECT count(*) FROM (SELECT DISTINCT {x} FROM {table.sql}))"
                  for x in (quote(key), both))  # fmt: skip
        sql = f"SELECT count(*), {', '.join(counts)} FROM {table.sql}"
        ((rows, keys, rankings),) = session.con.execute(sql).fetchall()
        if keys < rankings == rows:
            return name
    return None


def is_number_column(session: Session, table: Table, name: str) -> bool:
    """Is it a column of numbers? Of a text file, are all its values numbers?"""
    if table.text:
        return number_type(session, table, name) is not None
    kind = table.columns[name]
    return is_number(kind) and kind not in ("BOOLEAN", '"NULL"')


def align_results(
    results: Mapping[str, Result], tables: Sequence[str], attributes: Sequence[str]
) -> dict[str, Result]:
    """Make results that were read from tables agree with the others.

    They get the name of the key and the conventions of the results of `evaluate`, and keep only the
    attributes that are asked for: others may differ between the systems.
    """
    known = [result for name, result in results.items() if name not in tables]
    first = (known or [*results.values()])[0]
    by = first.meta.by
    if not known:
        by = [x for x in by if all(x in result.meta.by for result in results.values())]
        by = [x for x in by if x in attributes] if {*attributes} <= {*by} else by
    every = {name: result.meta.conventions for name, result in results.items()}
    conventions = known[0].meta.conventions if known else every[tables[0]]
    if not known and any(each["missing"] != "skip" for each in every.values()):
        conventions = Conventions().as_dict()
    aligned = dict(results)
    for name in tables:
        result = results[name]
        columns = {**dict.fromkeys(by), **dict.fromkeys(result.meta.by)}
        for column in columns:
            if column in by and column not in result.frame().columns:
                raise RankqlError(f"{name!r} has no column {column!r}, which the others have.")
        meta = replace(
            result.meta,
            query=first.meta.query,
            metrics=[metric for metric in result.metrics if metric not in by],
            conventions=conventions,
            by=by,
            groupings=[by] if by and not known else first.meta.groupings,
            weight=first.meta.weight,
        )
        key = {result.meta.query: first.meta.query}
        aligned[name] = result.derive(meta=meta, values=result.frame().rename(key))
    return aligned


def set_directions(
    result: Result, higher_is_better: Direction, others: Sequence[str] = ()
) -> Result:
    """The result with the directions of metrics that rankql does not know, and a note."""
    if higher_is_better is None or isinstance(higher_is_better, Mapping):
        known = result.meta.higher_is_better
        known = {k: v for k, v in known.items() if k in result.metrics and v is not None}
        higher_is_better = {**known, **(higher_is_better or {})}  # type: ignore[dict-item]
    neither = [name for name in result.metrics if result.higher_is_better(name) is None]
    directions, assumed = resolve_directions(result.metrics, higher_is_better, others, neither)
    meta = replace(result.meta, higher_is_better={**dict.fromkeys(neither), **directions})
    return result.derive(meta=meta, notes=[*result.notes, *assumed])


def resolve_directions(
    metrics: Sequence[str],
    higher_is_better: Direction,
    others: Sequence[str] = (),
    neither: Sequence[str] = (),
) -> tuple[dict[str, bool], list[str]]:
    """Whether higher is better, by metric, and a note on assumptions.

    A dict may name `others` too; True or False is for the metrics that rankql does not know.
    neither: metrics without a direction, unless the caller states one.
    """
    # The user may have written another expression under the name of a metric of shown items.
    own = [name for name in metrics if not is_metric(name) or find_shown(name)]
    known = {x: not lower_is_better(x) for x in metrics if x not in own and x not in neither}
    if isinstance(higher_is_better, Mapping):
        every, stated = [*dict.fromkeys([*metrics, *others])], {}
        for name, value in higher_is_better.items():
            found = resolve_names(name, every, Conventions().as_dict())
            unknown = describe_unknown("name in higher_is_better:", name, every)
            require(len(found) == 1 and found[0] in every, unknown)
            stated[found[0]] = value
    else:
        stated = {} if higher_is_better is None else dict.fromkeys(own or metrics, higher_is_better)
    for name, value in stated.items():
        wrong = "higher_is_better must be True, False or a dict of name: True or False, not"
        require(isinstance(value, bool), f"{wrong} {value!r}.")
        contradicts = f"higher_is_better={value} contradicts the definition of {name}. Leave it out"
        require(known.get(name, value) == value, contradicts)
    assumed = [name for name in own if name not in stated and name not in neither]
    directions = known | dict.fromkeys(assumed, True) | stated
    if not assumed:
        return directions, []
    note = (
        f"Higher {text.join_words(assumed)} {text.is_or_are(len(assumed))} assumed to be better. "
        "If not, set higher_is_better="
    )
    return directions, [note]
