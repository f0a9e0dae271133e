"""The other forms of a metric, made from the one over rows: frames, lists, scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from typing import Any, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, overload

import polars as pl

from rankql.errors import RankqlError
from rankql.ranking import Column, Ranking, check, column, grade_lists, grades, option, scores

By: TypeAlias = Column | Iterable[Column] | None
Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
Args = ParamSpec("Args")


class _BestFirst(TypedDict):
    descending: bool
    nulls_last: bool


# Of equal scores the higher item, as text, stands first, as in trec_eval; NULL is not retrieved.
BEST_FIRST: _BestFirst = {"descending": True, "nulls_last": True}


class Metric(Protocol[Args]):
    """A metric: of columns an expression, of a frame a frame with one row per group."""

    __name__: str

    @overload
    def __call__(self, frame: Frame, /, *args: Any, by: By = ..., **options: Any) -> Frame: ...
    @overload
    def __call__(self, *args: Args.args, **options: Args.kwargs) -> pl.Expr: ...


def metric(by: str | None = "user") -> Callable[[Callable[Args, pl.Expr]], Metric[Args]]:
    """Name the result after the metric, and take a frame too: `df.pipe(metric, by="user")`."""

    def decorate(function: Callable[Args, pl.Expr]) -> Metric[Args]:
        @wraps(function)
        def either(*args: Any, **options: Any) -> Any:
            if args and isinstance(args[0], pl.DataFrame | pl.LazyFrame):
                return over_groups(*args, **options)
            return function(*args, **options).alias(function.__name__)

        def over_groups(frame: Any, *args: Any, by: By = by, **options: Any) -> Any:
            value = either(*args, **options)
            keys = [column(key) for key in ([by] if isinstance(by, Column) else by or [])]
            need_columns(frame, value, *keys)
            return frame.group_by(keys).agg(value) if keys else frame.select(value)

        return either

    return decorate


def list_form(metric: Callable[..., pl.Expr], ideal: bool = False) -> Callable[..., pl.Expr]:
    """The metric over a column of lists; ideal: it asks for all judged items, listed beside."""

    @_derived(
        from_=metric,
        name=f"list_{metric.__name__}",
        summary=f"{metric.__name__} over a list of grades in rank order.",
        columns=["rels"],
        without=["ideal"],
        last={"ideal": None} if ideal else {},
    )
    def over_list(rels: Column, ideal: Column | None = None, **options: Any) -> pl.Expr:
        rels = grade_lists("rels", rels)
        grade, null = pl.element(), pl.lit(None, pl.Float64)
        pos = pl.int_range(1, pl.len() + 1).cast(pl.Float64)
        judged = grade if ideal is None else null
        rows = rels.list.eval(pl.struct(rel=grade, pos=pos, judged=judged))
        if ideal is not None:
            judged = pl.coalesce(grade_lists("ideal", ideal), rels)
            rows = rows.list.concat(judged.list.eval(pl.struct(rel=null, pos=null, judged=grade)))
        field = pl.element().struct.field
        r = Ranking(field("rel"), field("pos"), field("judged"), in_order=True)
        return rows.list.agg(metric(r, **options))

    return over_list


def score_form(of_rows: Callable[..., pl.Expr]) -> Metric[...]:
    """The metric where a score and an item stand for the position."""

    @metric()
    @_derived(
        from_=of_rows,
        name=f"{of_rows.__name__}_by_score",
        summary=f"{of_rows.__name__} where a score and an item stand for the position.",
        columns=["rel", "score", "item"],
        last={"ties": "item"},
    )
    def by_score(rel: Column, score: Column, item: Column, ties: str, **options: Any) -> pl.Expr:
        option("ties", ties, "item", "expected")
        rel, score = grades(rel), scores(score)
        order = [score, _text(item) if ties == "item" else rel]
        rel = rel.sort_by(order, **BEST_FIRST)
        rank = pl.int_range(1, pl.len() + 1).cast(pl.Float64)
        pos = pl.when(rank <= score.count()).then(rank)
        tied = score.sort(**BEST_FIRST) if ties == "expected" else None
        return of_rows(Ranking(rel, pos, judged=rel, in_order=True, score=tied), **options)

    return by_score


def ranked(
    frame: Frame, query: Column | None = "query", item: Column = "item", score: Column = "score"
) -> Frame:
    """The table with `pos`, the position of each item by its score within its query."""
    score, item = scores(score), _text(item)
    group = [] if query is None else [column(query)]
    need_columns(frame, score, item, *group)
    names = frame.collect_schema().names()
    check("pos" not in names, "the table has a column 'pos' already: drop or rename it")
    rank = pl.int_range(1, pl.len() + 1)
    pos = rank.over(group or None, order_by=[score, item], **BEST_FIRST)
    return frame.with_columns(pos=pl.when(score.is_not_null()).then(pos))


def need_columns(frame: pl.DataFrame | pl.LazyFrame, *exprs: pl.Expr) -> None:
    """Refuse a frame without the columns that the expressions read."""
    there = frame.collect_schema().names()
    for name in [name for expr in exprs for name in expr.meta.root_names()]:
        if name not in there:
            guess = [f"Did you mean {near!r}?" for near in get_close_matches(name, there, 1)]
            lines = [f"there is no column {name!r}", *guess, f"The columns are: {', '.join(there)}"]
            raise RankqlError("\n".join(lines))


def _text(item: Column) -> pl.Expr:
    return column(item).cast(pl.String)


def _derived(
    from_: Callable[..., pl.Expr],
    name: str,
    summary: str,
    columns: list[str],
    last: dict[str, Any],
    without: Iterable[str] = (),
) -> Callable[[Callable[..., pl.Expr]], Callable[..., pl.Expr]]:
    """Give a form its name, its docstring, and the metric's options behind its own columns."""
    options = [
        parameter
        for parameter in inspect.signature(from_).parameters.values()
        if parameter.name not in ("rel", "pos", *without)
    ]
    own = [
        [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in named.items()]
        for named in (dict(zip(columns, columns, strict=True)), last)
    ]
    signature = inspect.Signature([*own[0], *options, *own[1]], return_annotation=pl.Expr)

    def decorate(body: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        @wraps(from_)
        def form(*args: Any, **given: Any) -> pl.Expr:
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            return body(**bound.arguments).alias(name)

        form.__name__ = form.__qualname__ = name
        form.__doc__ = f"{summary}\n\n    The options and what they mean: `{from_.__name__}`."
        vars(form)["__signature__"] = signature
        return form

    return decorate
