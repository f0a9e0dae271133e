"""Forms of a metric: over frames, lists and scores, made from the form over rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from inspect import Parameter
from types import EllipsisType
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import polars as pl

from rankql.core.base.arrow import polars_to_pandas
from rankql.core.base.column_names import find_key, recognise, recognise_defaults
from rankql.core.base.errors import (
    RankqlError,
    arguments_of,
    did_you_mean,
    parse_number,
    require,
    require_choice,
    require_cutoff,
)
from rankql.core.base.libraries import library
from rankql.core.expressions import checked_columns as checks
from rankql.core.expressions.by_score import ROWS, ScoreMetric, positions
from rankql.core.expressions.checked_columns import Column, as_float, column, from_pandas, is_pandas
from rankql.core.expressions.ranking import Ranking, refuse_shared_positions
from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.core.metrics.macros import quote, read_parameters


class ArrowFrame(Protocol):
    """Another frame, such as a table of pyarrow or a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows."""


class PandasFrame(Protocol):
    """A DataFrame of pandas, as far as types know without pandas."""

    @property
    def iloc(self) -> Any:
        """What other frames lack."""


By: TypeAlias = Column | Iterable[Column] | None
Frame = TypeVar("Frame", bound=pl.DataFrame | pl.LazyFrame | PandasFrame)
Args = ParamSpec("Args")


class MetricFunction(Protocol[Args]):
    """A metric: columns in, expression out; frame in, one row per group out."""

    __name__: str

    @overload
    def __call__(self, frame: Frame, /, *args: Any, by: By = ..., **options: Any) -> Frame: ...
    @overload
    def __call__(
        self, frame: ArrowFrame, /, *args: Any, by: By = ..., **options: Any
    ) -> pl.DataFrame: ...
    @overload
    def __call__(self, *args: Args.args, **options: Args.kwargs) -> pl.Expr: ...


def metric(
    by: str | Iterable[str] | EllipsisType | None = ...,
    in_order: bool = False,
    bounded: bool = False,
    checks_positions: bool = True,
    by_group: Callable[..., pl.LazyFrame | None] | None = None,
) -> Callable[[Callable[Args, pl.Expr]], MetricFunction[Args]]:
    """Name the result, check the columns, and accept a frame: `df.pipe(metric, by="user")`.

    by: the default columns of the groups; `...` is the column that `find_key` recognises.
    in_order: the metric needs its rows in the order of positions.
    bounded: the metric is at most 1 if no items share a position.
    checks_positions: two items at one position are refused here, and not by the metric.
    by_group: a faster function over the groups of a frame, which returns None if it does not apply.
    """

    default = by

    def decorate(function: Callable[..., pl.Expr]) -> MetricFunction[Args]:
        name, signature = function.__name__, inspect.signature(function)

        @wraps(function)
        def of_columns_or_frame(*args: Any, **options: Any) -> Any:
            if args and _is_frame(args[0]):
                return over_groups(*args, **options)
            _refuse_rows(name, args, options, signature)
            arguments = bind(*args, **options)
            if isinstance(k := arguments.get("k"), list | tuple):
                each = f'{name}(..., k=k).alias(f"{name}@{{k}}") for k in {[*k]}'
                whole = "k must be a whole number from 1"
                raise RankqlError(f"{whole}, not {k}. For several, write [{each}]")
            for place in ("pos", "reference", "item"):
                value = arguments.get(place)
                wrong = f"{place} must be a column, not {value}. k comes after {place}"
                require(not checks.is_literal(value), wrong)
            if _is_column(k) and "query" not in arguments:  # not of all rankings
                return checks.with_checks(_with_k(name, arguments), arguments).alias(name)
            if name in FUNCTIONS:
                arguments = FUNCTIONS[name].check_options(arguments)
            if isinstance(arguments.get("rel"), Ranking):  # another form has checked it
                return function(**arguments)
            value = sort_first(**arguments) if in_order else function(**arguments)
            value = checks.with_checks(value, arguments)
            if by is not None and "pos" in arguments and checks_positions:
                pos, k = arguments["pos"], arguments.get("k")
                value = refuse_shared_positions(value, pos, k, bounded)
            return value.alias(name)

        def bind(*args: Any, **options: Any) -> dict[str, Any]:
            call = signature.bind(*args, **options)
            call.apply_defaults()
            return call.arguments

        def sort_first(rel: Column, pos: Column, **options: Any) -> pl.Expr:
            rows = pl.struct(rel=as_float(rel), pos=as_float(pos)).implode()
            rows = rows.list.eval(pl.element().sort_by(_field("pos"), nulls_last=True))
            return rows.list.agg(function(_ROWS, **options))

        def over_groups(frame: Any, *args: Any, by: By | EllipsisType = by, **options: Any) -> Any:
            if not _has_columns(frame):
                frame = pl.DataFrame(frame)
            known = column_names(frame)
            defaults = {name: each.default for name, each in signature.parameters.items()}
            with arguments_of(name, [*signature.parameters, "by"]):
                given = signature.bind_partial(*args, **options).arguments
            options |= recognise_defaults(defaults, given, known)
            require(not args or not _is_frame(args[0]), f"{name} takes one frame, and its columns")
            value = of_columns_or_frame(*args, **options)
            require_columns(frame, value)
            if isinstance(by, EllipsisType):
                by = find_key(known)
            elif by is default and isinstance(by, tuple):  # user and item
                roles = {str(name): "query" if name == "user" else str(name) for name in by}
                by = [n if n in known else recognise(roles[n], known) or n for n in roles]
            keys = [column(key) for key in ([by] if isinstance(by, Column) else by or [])]
            require_columns(frame, *keys)
            arguments = bind(*args, **options)
            if is_pandas(frame):
                grades = column(arguments["rel"]).meta.root_names() if "rel" in arguments else []
                named = [column(arguments[x]) for x in ("item",) if arguments.get(x)]
                rows = from_pandas(frame, [value, *keys, *named], grades)
                return polars_to_pandas(over_groups(rows, by=by, **arguments))
            checks.require_numbers(frame.lazy(), arguments)
            grouped = frame.lazy().select(keys).collect_schema()
            wrong = f"by= contains {name!r}, which is also the name of the result"
            require(name not in grouped, f"{wrong}. Rename the column.")
            if not arguments.keys().isdisjoint(("pos", "score")):  # of a ranking
                keys[-1:] = map(_require_filled, keys[-1:], grouped.dtypes()[-1:])
            grouped_fast = by_group and keys and not _is_column(arguments.get("k"))
            fast = by_group(frame.lazy(), keys, **arguments) if by_group and grouped_fast else None
            if fast is not None:
                return fast if isinstance(frame, pl.LazyFrame) else fast.collect()
            return frame.group_by(keys).agg(value) if keys else frame.select(value)

        vars(of_columns_or_frame)["by_group"] = by_group
        return of_columns_or_frame

    return decorate


def _is_column(k: object) -> bool:
    """Is a cutoff an expression or a name, and not a number as text?"""
    return isinstance(k, pl.Expr) or (isinstance(k, str) and parse_number(k) is None)


def _with_k(name: str, arguments: Mapping[str, Any]) -> pl.Expr:
    """A metric with a cutoff of each group, by the macro of its name."""
    from rankql.core.expressions.in_duckdb import aggregate  # imports duckdb

    of_metric = name.removesuffix("_by_score")
    named = (*FUNCTIONS[of_metric].options, "ties")
    options = {x: y for x, y in arguments.items() if x in named and x != "k"}
    columns = {x: y for x, y in arguments.items() if x not in named and x != "k"}
    read = ", ".join("NULL" if y is None else quote(x) for x, y in columns.items())
    columns = {x: y for x, y in columns.items() if y is not None}
    call = f"{name}({read}, k := k{_write_options(of_metric, options)})"
    return aggregate(call, **columns, k=arguments["k"])


def macro(
    by: tuple[str, ...] | EllipsisType | None = ...,
) -> Callable[[Callable[Args, None]], MetricFunction[Args]]:
    """A metric that DuckDB computes by the macro of its name, given its signature and docstring."""

    def decorate(function: Callable[Args, None]) -> MetricFunction[Args]:
        signature = inspect.signature(function)
        read = {x for x, each in signature.parameters.items() if "Column" in each.annotation}
        of_ranking = "pos" in read  # whose positions, grades and options are checked here

        @wraps(function)
        def of_group(**arguments: Any) -> pl.Expr:
            from rankql.core.expressions.in_duckdb import aggregate, value_sql  # imports duckdb

            require_cutoff(arguments.get("k"))
            values = (quote(x) if x in read else value_sql(y) for x, y in arguments.items())
            call = f"{function.__name__}({', '.join(values)})"
            columns = {x: arguments[x] for x in arguments if x in read}
            if of_ranking and "rel" in columns:  # true and false are grades
                columns["rel"] = as_float(columns["rel"])
            return aggregate(call, checked=not of_ranking, **columns)

        vars(of_group)["__signature__"] = signature.replace(return_annotation="pl.Expr")
        return metric(by)(cast("Callable[Args, pl.Expr]", of_group))

    return decorate


def _require_filled(key: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The column that identifies the ranking, or an error where the frame runs if it is NULL."""
    name = key.meta.output_name()

    def check(values: pl.Series) -> pl.Series:
        require(not values.has_nulls(), f"by: {name} is NULL in some rows. Leave them out")
        return values

    return key.map_batches(check, dtype, is_elementwise=True)


def list_form(metric: Callable[..., pl.Expr], example: str = "") -> Callable[..., pl.Expr]:
    """The form of a metric over a column of lists.

    It takes a list of the grades of all judged items, `ideal`, if the macro does.
    example: required options, for the example in the docstring.
    """
    name = metric.__name__
    ideal = {"ideal": None} if "ideal" in read_parameters()[f"list_{name}"] else {}
    doc = f"""{name} over a list of grades in rank order.

    NULL in a list is an unjudged item; a NULL list returns NULL. Takes the options of `{name}`.
    `ideal` is a list of the grades of all judged items, retrieved or not, for metrics that need it.

    >>> lists = pl.DataFrame({{"rels": [[0, 3, 1]]}})
    >>> rows = pl.DataFrame({{"rel": [0, 3, 1], "pos": [1, 2, 3]}})
    >>> lists.select(list_{name}({example})).item() == rows.select({name}({example})).item()
    True
    """

    @_derived(metric, f"list_{name}", doc, {"rels": "rels"}, ideal, ["ideal"])
    def over_list(rels: Column, ideal: Column | None = None, **options: Any) -> pl.Expr:
        columns = {} if ideal is None else {"ideal": ideal}
        columns |= {"k": options["k"]} if _is_column(options.get("k")) else {}
        if columns:
            from rankql.core.expressions.in_duckdb import compute  # imports duckdb

            constant = {x: y for x, y in options.items() if x not in columns}
            named = "".join(f", {x} := {x}" for x in columns)
            call = f"list_{name}(rels{named}{_write_options(name, constant)})"
            return compute(call, pl.Float64, rels=rels, **columns)
        rels = checks.as_grade_lists(rels, options.get("max_rel"), options.get("stop", "exp2"))
        rows = rels.list.eval(pl.struct(rel=pl.element(), pos=_RANK))
        # list.agg of polars < 1.39 panics if a list is NULL and all results are NULL.
        value = rows.fill_null([]).list.agg(metric(_ROWS, **options))
        return pl.when(rels.is_not_null()).then(value)

    return over_list


def _write_options(name: str, options: Mapping[str, Any]) -> str:
    """The options of a form of a metric as SQL, checked."""
    from rankql.core.expressions.in_duckdb import value_sql  # imports duckdb

    checked = FUNCTIONS[name].check_options(options)
    return "".join(f", {option} := {value_sql(value)}" for option, value in checked.items())


def score_form(of_rows: Callable[..., pl.Expr], example: str = "") -> MetricFunction[...]:
    """The form of a metric with score and item instead of position. example: see `list_form`."""
    name = of_rows.__name__
    halves_ties = FUNCTIONS[name].halves_ties
    first = f"{name} with a score and an item instead of the position."
    ties_text = """Ties are ordered by item as text, descending; ties="expected"
    returns the mean over all orders of ties instead."""
    if halves_ties:
        first = f"{name} with a score instead of the position. Ties count half."
        ties_text = "The options item and ties have no effect."
    doc = f"""{first}

    The highest score is first. {ties_text} Items with a NULL score are judged but not
    retrieved. An item in two rows counts twice, which `evaluate` refuses. Takes the options of
    `{name}`.

    >>> rows = pl.DataFrame({{"rel": [0, 3, 1], "score": [9, 8, 7], "pos": [1, 2, 3]}})
    >>> rows = rows.with_columns(item="pos")
    >>> rows.select({name}_by_score({example})).item() == rows.select({name}({example})).item()
    True
    """

    columns = {"rel": "rel", "score": "score", "item": None if halves_ties else "item"}

    @metric()
    @_derived(of_rows, f"{name}_by_score", doc, columns, {"ties": "item"})
    def by_score(
        rel: Column, score: Column, item: Column | None, ties: str, **options: Any
    ) -> pl.Expr:
        require_choice("ties", ties, "item", "expected")
        columns, expected = {"rel": as_float(rel), "score": column(score)}, None
        if ties == "expected" and not halves_ties:
            from rankql.core.expressions.in_duckdb import aggregate_lists  # imports duckdb

            named = _write_options(name, {**options, "ties": ties})
            expected = partial(aggregate_lists, f"{name}_by_score(rel, score, NULL{named})")
        elif not halves_ties:
            # A pattern, which may match nothing: polars' own error would not name the argument.
            default = isinstance(item, str) and item == "item"
            columns["item"] = pl.col("^item$") if default else column(cast("Column", item))
        fast = partial(cast("Any", of_rows), rel="rel", pos="pos", by="group", **options)
        by_group = fast if vars(of_rows)["by_group"] else None
        value = of_rows(ROWS, **options)
        found = ScoreMetric(value, by_group, options.get("k"), expected, "item" in columns)
        rows = pl.struct([value.alias(x) for x, value in columns.items()]).implode()
        return rows.map_batches(found.evaluate, pl.Float64, is_elementwise=True)

    return by_score


def ranked(
    frame: Frame, query: By = "query", item: Column = "item", score: Column = "score"
) -> Frame:
    """The table with `pos`, the position of each item by its score within its query.

    As in the score forms: of equal scores the higher item as text stands first; `pos` is NULL
    where the score is. `query` is a column, a list of columns, or None if the whole table is one
    ranking.

    >>> df = pl.DataFrame({"query": [1, 1, 1], "item": ["a", "b", "c"], "score": [0.5, 0.5, None]})
    >>> df.pipe(ranked)["pos"].to_list()
    [2, 1, None]
    """
    require_columns(frame)
    data, names = cast("Any", frame), column_names(frame)
    if isinstance(query, str) and query == "query" and query not in names:
        query = recognise("query", names) or query
    named: Any = [query] if not isinstance(query, list | tuple | None) else query or []
    keys = [column(key) for key in named]
    columns = {"score": column(score), "item": column(item)}
    require_columns(frame, *columns.values(), *keys)
    require("pos" not in names, "the table has a column 'pos' already: drop or rename it")
    columns |= {f"key{n}": key for n, key in enumerate(keys)}
    rows = pl.struct([value.alias(name) for name, value in columns.items()])
    pos = rows.map_batches(lambda rows: positions(rows.struct.unnest()), pl.Int64)
    pos = pl.when(columns["score"].is_not_null()).then(pos)
    pos = checks.with_checks(pos, {"score": score}).alias("pos")
    if is_pandas(data):
        result = from_pandas(data, columns.values()).select(pos)
        return cast("Frame", data.assign(pos=result["pos"].to_numpy()))
    return cast("Frame", data.with_columns(pos))


def require_columns(frame: Any, *exprs: pl.Expr) -> None:
    """Refuse data other than a frame, and frames without the columns that the expressions read."""
    kind, package = type(frame).__name__, library(frame)
    wrong = f"rows must be a frame of polars or pandas, not a {kind} of {package}"
    remedy = "pl.DataFrame makes one of Arrow, pl.scan_parquet of a file"
    require(_has_columns(frame), f"{wrong}: {remedy}")
    known = column_names(frame)
    for name in [name for expr in exprs for name in expr.meta.root_names()]:
        if name not in known:  # to look for others takes time
            raise RankqlError(f"No column {name!r}{did_you_mean(name, known)}")


def _is_frame(data: Any) -> bool:
    """Is it a frame of polars or pandas, or one that Arrow can read?"""
    if _has_columns(data):
        return True
    named = hasattr(data, "schema") or hasattr(data, "columns")  # a Series has a stream too
    return named and hasattr(data, "__arrow_c_stream__")


def _has_columns(data: Any) -> bool:
    """Is it a frame of polars or pandas?"""
    return isinstance(data, pl.DataFrame | pl.LazyFrame) or is_pandas(data)


def _refuse_rows(
    name: str, args: tuple[Any, ...], options: Mapping[str, Any], signature: inspect.Signature
) -> None:
    """Refuse rows other than a frame, and by= without a frame."""
    first, unknown = args[0] if args else None, options.keys() - signature.parameters.keys()
    rows, module = _is_data(first), library(first)
    is_known = module in ("builtins", "numpy", "pandas", "polars") or hasattr(first, "columns")
    if rows and not is_known:  # a column of another library
        allowed = "a name or a polars expression, such as 'rel' or pl.col('rel')"
        raise RankqlError(f"{name} takes {allowed}, not a {type(first).__name__} of {module}")
    data, by = "data", ""
    if not isinstance(first, Mapping):  # a list or an array for each column
        values = dict(zip(signature.parameters, args, strict=False))
        columns = [
            x for x in signature.parameters if x in ("rel", "pos") or _is_data(values.get(x))
        ]
        data, by = f"{{{', '.join(f'{x!r}: {x}' for x in columns)}}}", ", by=None"
    kind = f"not a {type(first).__name__}: pl.DataFrame({data}).pipe(rankql.{name}{by})"
    require(not rows, f"{name} takes columns or a frame, {kind}")
    call = f"df.pipe(rankql.{name}, by=...), or df.group_by(...).agg(rankql.{name}(...))"
    require("by" not in unknown, f"by= needs a frame as the first argument: {call}")


def _is_data(value: object) -> bool:
    """Is it neither a column nor a number?"""
    return not isinstance(value, str | pl.Expr | Ranking | int | float | None)


def column_names(frame: Any) -> list[str]:
    """The names of the columns of a frame."""
    return [*map(str, frame.columns)] if is_pandas(frame) else frame.collect_schema().names()


_RANK = pl.int_range(1, pl.len() + 1).cast(pl.Float64)


def _field(name: str) -> pl.Expr:
    return pl.element().struct.field(name)


# The rows of a list.
_ROWS = Ranking(_field("rel"), _field("pos"), judged=_field("rel"))


def _derived(
    metric: Callable[..., pl.Expr],
    name: str,
    doc: str,
    columns: dict[str, str | None],
    last: dict[str, Any],
    without: Iterable[str] = (),
) -> Callable[[Callable[..., pl.Expr]], Callable[..., pl.Expr]]:
    """Give a form its name, its docstring, and the metric's options after its own columns."""
    parameters = inspect.signature(metric).parameters.values()
    options = [option for option in parameters if option.name not in ("rel", "pos", *without)]
    first = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in columns.items()]
    end = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in last.items()]
    signature = inspect.Signature([*first, *options, *end], return_annotation=pl.Expr)

    def decorate(body: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        @wraps(metric)
        def form(*args: Any, **options: Any) -> pl.Expr:
            if args and _is_frame(args[0]):
                call_of_column = f"df.select(rankql.{name}({next(iter(columns))!r}))"
                raise RankqlError(f"{name} takes columns, not a frame: {call_of_column}")
            call = signature.bind(*args, **options)
            call.apply_defaults()
            return body(**call.arguments).alias(name)

        form.__name__ = form.__qualname__ = name
        form.__module__ = f"{__package__}.forms"
        form.__doc__ = doc
        vars(form)["__signature__"] = signature
        return form

    return decorate
