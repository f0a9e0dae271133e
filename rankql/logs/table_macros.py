"""Functions of a whole table: the SQL macro of the same name, run in DuckDB over the data.

The SQL is the only definition. The data is a polars frame, or what `evaluate` takes: a path, a
pandas or Arrow frame, a relation. Polars computes columns that are expressions first; the macro and
its errors use the name of the expression.
"""

from __future__ import annotations

import datetime
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, cast, overload

import duckdb
import polars as pl

from rankql.core.base import errors
from rankql.core.base.arrow import pandas_to_polars, polars_to_pandas, relation_to_polars
from rankql.core.base.column_names import recognise, recognise_defaults
from rankql.core.expressions.checked_columns import NO_PUSHDOWN, Column, column, is_pandas
from rankql.core.expressions.in_duckdb import ROWS_TABLE, run_query, value_sql
from rankql.core.expressions.variants import column_names, require_columns
from rankql.core.metrics import macros
from rankql.core.tables.reader import infer_types
from rankql.core.tables.session import duckdb_errors, open_session
from rankql.core.tables.tables import Data

# The rows in which flags are told from numbers.
_FIRST_ROWS = 10_000
Frame: TypeAlias = pl.DataFrame | pl.LazyFrame
Columns: TypeAlias = Mapping[str, "Column | None"]
Schema: TypeAlias = Mapping[str, pl.DataType | type[pl.DataType] | str]
Args = ParamSpec("Args")


class TableFunction(Protocol[Args]):
    """A function of a table: returns the kind of frame that it gets, for other data polars."""

    __name__: str

    @overload
    def __call__(
        self, frame: pl.LazyFrame, /, *args: Args.args, **options: Args.kwargs
    ) -> pl.LazyFrame: ...
    @overload
    def __call__(
        self, frame: Data, /, *args: Args.args, **options: Args.kwargs
    ) -> pl.DataFrame: ...


def table_function(
    result: Schema | str | None,
) -> Callable[[Callable[Concatenate[Data, Args], None]], TableFunction[Args]]:
    """A function that runs the table macro of its name, given its signature and docstring.

    Its parameters are those of the macro. Parameters of type Column name a column, or are NULL;
    the others are options.

    result: the columns of the result, each with its type or the parameter whose column has this
    type; or the name of the text column that the macro adds to the table; or None if it returns
    rows of the table.
    """

    def decorate(function: Callable[Concatenate[Data, Args], None]) -> TableFunction[Args]:
        signature = inspect.signature(function)
        of_columns = {n for n, p in signature.parameters.items() if "Column" in p.annotation}

        @wraps(function)
        def of_table(*args: Any, **options: Any) -> Any:
            for name in options.keys() - signature.parameters.keys():
                for role in of_columns:  # called like a column, such as user= for query=
                    hint = f"has no argument {name}=. Pass the column as {role}="
                    known = recognise(role, [name]) is not None
                    errors.require(not known, f"{function.__name__} {hint}")
            with errors.arguments_of(function.__name__, [*signature.parameters][1:]):
                call = signature.bind(*args, **options)
            macro, pandas = function.__name__, is_pandas(call.arguments.get("frame"))
            if "annotator" in of_columns and isinstance(call.arguments.get("label"), list | tuple):
                call.arguments.update(_unpivot_labels(call.arguments))
            given = {*call.arguments}
            call.apply_defaults()
            (_, data), *arguments = call.arguments.items()
            columns = {name: _as_key(value) for name, value in arguments if name in of_columns}
            others = {name: value for name, value in arguments if name not in of_columns}
            if isinstance(others.get("since"), str):
                others["since"] = parse_time(others["since"])
            every = result is None or (isinstance(result, str) and not pandas) or others.get("seen")
            frame = read_rows(data, None if every else columns.values())
            if time := find_time(frame, columns, given, macro):
                columns["moment"] = time
                given.add("moment")
            fill = partial(_fill_roles, frame)
            columns |= recognise_defaults(columns, given, column_names(frame), fill)
            if result is None:
                return _filter_rows(frame, macro, columns, others)
            if not isinstance(result, str):
                rows = _return_rows(frame, macro, columns, others, result)
                return polars_to_pandas(rows) if pandas else rows
            if not pandas:
                return _add_column(frame, macro, columns, others, result)
            errors.require(result not in data.columns, _taken(result))
            frame = frame.lazy().with_row_index(_INDEX)
            added = _add_column(frame, macro, columns, others, result).collect()
            rows = data.iloc[added[_INDEX].to_list()]
            return rows.assign(**{result: added[result].to_numpy()})

        vars(of_table)["__signature__"] = signature.replace(return_annotation="Frame")
        return cast("TableFunction[Args]", of_table)

    return decorate


def _fill_roles(frame: Frame, roles: Sequence[str], free: Sequence[str]) -> dict[str, str]:
    """The only column that may have a role by its type and its first values, and two columns of
    text for the query and the item.
    """
    rows = frame.lazy().select(free).head(_FIRST_ROWS).collect()
    numbers = [x for x in free if rows.schema[x].is_integer() or rows.schema[x] == pl.Boolean]
    flags = [x for x in numbers if {*rows[x].drop_nulls().cast(int).unique()} <= {0, 1}]
    numbers = [x for x in numbers if x not in flags]
    texts = [x for x in free if rows.schema[x] in (pl.String, pl.Categorical, pl.Enum)]
    times = [x for x in free if rows.schema[x].is_temporal()] or numbers
    alone = {"click": flags, "pos": numbers, "moment": times}
    filled = {x: names[0] for x, names in alone.items() if x in roles and len(names) == 1}
    ids = [x for x in ("query", "item") if x in roles]
    if len(texts) == len(ids):
        filled |= dict(zip(ids, texts, strict=True))
    return filled


def find_time(
    frame: Frame, columns: Columns, given: Iterable[str], function: str = ""
) -> str | None:
    """The only column of dates of a log whose time is not named and has no known name.

    function: what warns of it.
    """
    kinds, default = frame.lazy().collect_schema(), columns.get("moment")
    named = default is None or "moment" in given or default in kinds
    if named or recognise("moment", kinds.names()):
        return None
    times = [name for name, kind in kinds.items() if isinstance(kind, pl.Date | pl.Datetime)]
    keys: dict[str, pl.Expr] = {}
    for role in ("query", "item"):
        key = columns.get(role)
        if role not in given or key is None:
            with suppress(errors.Question):  # of several columns, which is not asked here
                key = key if key in kinds else recognise(role, kinds.names())
        keys |= {} if key is None else {role: column(key).alias(role)}
    require_columns(frame, *keys.values())

    def value(sql: str) -> Any:
        return run_query(sql, frame.lazy().select(*keys.values(), *times).collect()).item()

    return only_time(times, {role: role for role in keys}, ROWS_TABLE, value, function)


def only_time(
    times: Sequence[str],
    keys: Mapping[str, str],
    table: str,
    value: Callable[[str], Any],
    function: str = "",
    argument: str = "moment",
) -> str | None:
    """The only one of the columns of dates of a table, which a warning of the function names.

    If it has one value in all rows of each user or item, as a date of release has, it is asked
    about. keys: the columns of the query and the item; value: runs a query.
    """
    if not times:
        return None
    if len(times) > 1:
        both = f"{' and '.join(times)} may be the time"
        raise errors.Question(both, [{argument: name} for name in times])
    (time,) = times
    for role, key in keys.items():
        alike = f"count(DISTINCT {macros.quote(time)})"
        groups = (
            f"SELECT {alike} AS n FROM {table} GROUP BY {macros.quote(key)} HAVING count(*) > 1"
        )
        if value(f"SELECT max(n) AS n FROM ({groups})") == 1:
            of = "user" if role == "query" else role
            why = f"{time}, the only column of dates, is the same in all rows of each {of}"
            raise errors.Question(f"{why}. Is it the time?", [{argument: time}])
    if function:
        note = (
            f"{function}: the time is {time}, the only column of dates. {argument}= names another"
        )
        warnings.warn(note, stacklevel=4)
    return time


def _unpivot_labels(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for a row per label, of columns with the labels of one annotator each.

    Without a unit, each row is one.
    """
    message = "label=[...] names the annotators too. Leave out annotator="
    errors.require("annotator" not in call, message)
    data, labels = call["frame"], [column(name) for name in call["label"]]
    own = {x: _as_key(call[x]) for x in ("unit", "slice") if call.get(x) is not None}
    try:
        frame = pandas_to_polars(data) if is_pandas(data) else read_rows(data)  # NaN is no label
    except (TypeError, ValueError) as error:  # of pandas, of which names may occur twice
        raise errors.RankqlError(f"The labels cannot be read: {error}") from error
    require_columns(frame, *labels, *(column(x) for x in own.values()))
    names = [label.meta.output_name() for label in labels]
    keys = {"unit": _INDEX, **own}
    rows = frame.lazy().with_row_index(_INDEX)
    rows = rows.select(*(column(key).alias(x) for x, key in keys.items()), *labels)
    rows = rows.unpivot(names, index=[*keys], variable_name="annotator", value_name="label")
    table = rows if isinstance(data, pl.LazyFrame) else rows.collect()
    return {"frame": table, "label": "label", **{key: key for key in keys}}


def _as_key(columns: Any) -> Any:
    """A column; several columns are one key, a struct."""
    if not isinstance(columns, list | tuple):
        return columns
    message = "a column must be a name, an expression or a list of them, not []"
    errors.require(bool(columns), message)
    names = ", ".join(column(each).meta.output_name() for each in columns)
    return pl.struct([column(each) for each in columns]).alias(names)


def _return_rows(
    frame: Frame, macro: str, columns: Columns, options: Mapping[str, object], schema: Schema
) -> Any:
    """The rows of a table macro, one row per group or position."""
    exprs, names = _name_columns(frame, columns)
    selected = frame.lazy().select(exprs)
    kinds = {role: selected.collect_schema()[name] for role, name in names.items() if name}
    result = {"slice": "slice", **schema} if "slice" in kinds else schema
    for role in {x for x in result.values() if isinstance(x, str)} - {*kinds}:
        raise errors.RankqlError(f"{role} must be a column, not None")
    types = pl.Schema({n: kinds[k] if isinstance(k, str) else k for n, k in result.items()})
    query = f"FROM {_macro_call(macro, {**names, **options})}"
    return _map_rows(frame, selected, query, types)


def _add_column(
    frame: Frame, macro: str, columns: Columns, options: Mapping[str, object], name: str
) -> Any:
    """The data with the text column that a table macro adds; its rows keep their order."""
    exprs, names = _name_columns(frame, columns)
    known = frame.collect_schema().names()
    errors.require(name not in map(str.lower, known), _taken(name))
    if options.get("seen") is not None:  # the macro reads them under these names
        for role, default in (("query", "user"), ("item", "item")):
            own = recognise(role, known) if columns[role] is None else None
            taken = {x.meta.output_name() for x in exprs}
            exprs += [pl.col(own).alias(default)] if own and default not in taken else []
    query = f"SELECT {_INDEX}, {name} FROM {_macro_call(macro, {**names, **options})}"

    def values(rows: pl.Series) -> pl.Series:
        table = rows.struct.unnest().with_row_index(_INDEX)
        added = run_query(query, table)  # without the rows that seen='drop' leaves out
        if name == "split" and (parts := added[name].unique().to_list()) in (["train"], ["test"]):
            why = "no user has an earlier event to train on"
            why = "since= is the first time of the log" if options.get("since") else why
            empty = "test" if parts == ["train"] else "train"
            warnings.warn(f"{macro}: {empty} is empty, because {why}", stacklevel=2)
        return table.join(added, on=_INDEX, how="left", maintain_order="left")[name]

    errors.require(bool(exprs), "no column is named")
    added = pl.struct(exprs).map_batches(values, pl.String, is_elementwise=False)
    labelled = frame.with_columns(added.alias(name))
    return labelled if options.get("seen") is None else labelled.drop_nulls(name)


def _filter_rows(frame: Frame, macro: str, columns: Columns, options: Mapping[str, object]) -> Any:
    """Some rows of the data, in their order, as a table macro returns them."""
    read = [*columns.values(), "pos"]  # the macro replaces pos
    require_columns(frame, *(column(name) for name in read if name is not None))
    given = {role: expr for role, expr in columns.items() if isinstance(expr, pl.Expr)}
    exprs = {role: expr.alias(f"{_INDEX}_{role}") for role, expr in given.items()}
    names = {**columns, **{role: expr.meta.output_name() for role, expr in exprs.items()}}
    query = f"FROM {_macro_call(macro, {**names, **options})} ORDER BY {_INDEX}"
    lazy = frame.lazy()
    return _map_rows(frame, lazy.with_columns(exprs.values()), query, lazy.collect_schema())


_INDEX = "__rankql_index"


def _taken(name: str) -> str:
    return f"the log has a column {name!r} already: drop or rename it"


def read_rows(data: Data, columns: Iterable[Column | None] | None = None) -> Frame:
    """The data as a polars frame; of other data, only the columns that are named."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data
    if isinstance(data, duckdb.DuckDBPyRelation):
        with duckdb_errors():
            return _select_columns(data, columns)
    with open_session(None, data) as session:
        session.hint = "To read a table of a database, pass the relation con.table('...')"
        table = session.table(data, "rows")
        table = infer_types(table) if session.loaded else table
        return _select_columns(session.con.sql(f"FROM {table.sql}"), columns)


def _select_columns(
    relation: duckdb.DuckDBPyRelation, columns: Iterable[Column | None] | None
) -> pl.DataFrame:
    """The named columns of a relation, or all of them if one is unknown, to recognise it."""
    known = relation.columns
    if columns is not None:
        named = [column(name) for name in columns if name is not None]
        needed = {root for expr in named for root in expr.meta.root_names()}
        known = known if needed - set(known) else [name for name in known if name in needed]
    return relation_to_polars(relation.project(", ".join(map(macros.quote, known))))


def _name_columns(frame: Frame, columns: Columns) -> tuple[list[pl.Expr], dict[str, str | None]]:
    """The columns to pass, each once, and the name of the column of each parameter."""
    for expression in columns.values():
        errors.require_plain_name(expression)
    exprs = {role: column(x) for role, x in columns.items() if x is not None}
    require_columns(frame, *exprs.values())
    names: dict[str, str | None] = dict.fromkeys(columns)
    selected: dict[str, pl.Expr] = {}
    for role, expr in exprs.items():
        name = expr.meta.output_name()
        while name in selected and not selected[name].meta.eq(expr.alias(name)):
            name += "_"  # another expression has the name
        selected[name] = expr.alias(name)
        names[role] = name
    for name, kind in frame.lazy().select(selected.values()).collect_schema().items():
        errors.require(kind != pl.Object, f"{name} must not hold Python objects. Cast it first")
    return list(selected.values()), names


def _macro_call(macro: str, arguments: Mapping[str, object]) -> str:
    options = (f", {name} := {value_sql(value)}" for name, value in arguments.items())
    return f"{macro}('{ROWS_TABLE}'{''.join(options)})"


def parse_time(text: str) -> datetime.datetime | float:
    """A time that is written as text: a number, or ISO 8601."""
    number = errors.parse_number(text)
    try:
        return datetime.datetime.fromisoformat(text) if number is None else number
    except ValueError:
        message = f"since: cannot parse the time {text!r}. Write it as 2026-01-31"
        raise errors.RankqlError(message) from None


def _map_rows(frame: Frame, read: pl.LazyFrame, query: str, types: pl.Schema) -> Any:
    """The result of a query over the rows that are read; lazy if the frame is."""

    def rows(table: pl.DataFrame) -> pl.DataFrame:
        columns = (pl.col(name).cast(kind) for name, kind in types.items())
        return run_query(query, table.with_row_index(_INDEX)).select(columns)

    output = read.map_batches(rows, schema=types, **NO_PUSHDOWN)
    return output if isinstance(frame, pl.LazyFrame) else output.collect()
