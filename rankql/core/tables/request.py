"""The arguments of `evaluate`, and its default metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from rankql.core.base.column_names import ROLES, name_expression
from rankql.core.base.doors import call_extra, find_door
from rankql.core.base.errors import RankqlError, require, require_choice
from rankql.core.metrics.conventions import ConventionOptions, Conventions, choose, describe_option
from rankql.core.metrics.parse import is_metric
from rankql.core.metrics.profiles import tool_of
from rankql.core.tables.tables import Data, Rel

if TYPE_CHECKING:
    import duckdb


DEFAULT_METRICS = ("nDCG@10", "AP", "RR@10", "P@5", "R@100")


class Columns(TypedDict, total=False):
    """The columns of runs and judgments, which `evaluate` explains."""

    query: str | Sequence[str] | None
    item: str | Sequence[str] | None
    rel: Rel
    score: str | Sequence[str] | None
    pos: str | Sequence[str] | None
    system: str | Sequence[str] | None
    descending: bool | None
    columns: Sequence[str] | Sequence[Sequence[str]] | None
    part: str | Sequence[str | None] | None


class RowOptions(Columns, total=False):
    """How the rows of tables become rankings, which `evaluate` explains."""

    order: Literal["rows", "list"] | None
    collapse: str | None
    positions: Literal["renumber", "keep"] | None
    ignore_identical_ids: bool | Literal["both"] | None
    pool: bool | None


class ReadingOptions(RowOptions, total=False):
    """The options of `check`."""

    conventions: str | None
    threshold: float | None
    groups: Literal["any"] | None
    unjudged_queries: Literal["skip", "count"] | None
    none_judged: Literal["error", "zero"] | None


class EvaluationOptions(RowOptions, ConventionOptions, total=False):
    """The options of `evaluate` that all functions of rankings and judgments have."""

    forbidden: str | None
    groups: Literal["any"] | None
    unjudged_queries: Literal["skip", "count"] | None
    none_judged: Literal["error", "zero"] | None


class SpanOptions(EvaluationOptions, total=False):
    """The options of `evaluate`, `compare` and `gate`, which may read spans of documents."""

    span: Sequence[str] | Sequence[Sequence[str]] | None
    inclusive: bool | None
    chunk: str | None
    evidence: str | None


@dataclass(frozen=True)
class RankingRules:
    """How tables become rankings: the columns, the order of the rows, the conventions."""

    # By role.
    columns: Mapping[str, Any]
    conventions: Conventions
    system: str | None = None
    descending: bool | None = None
    order: str | None = None
    # A column of documents, or the text before the number of a chunk.
    collapse: str | None = None
    positions: str | None = None
    # "both": of the judgments too.
    ignore_identical_ids: bool | Literal["both"] | None = None
    forbidden: str | None = None
    # Are the grades of all runs one set of judgments? None: asked where metrics need to know.
    pool: bool | None = None
    # "any": relevant ids are lists of lists, and one of each inner list suffices.
    groups: str | None = None
    # "count": queries of a run without judgments are judged, with nothing relevant.
    unjudged_queries: str | None = None
    # "zero": a run may have no judged item, and its values are 0.
    none_judged: str | None = None
    # The columns of the two ends of a chunk and of a relevant span: `features/spans`.
    span: Any = None
    # The options of the caller.
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        flag = isinstance(self.descending, bool | None)
        require(flag, f"descending must be True or False, not {self.descending!r}")
        pools = isinstance(self.pool, bool | None)
        require(pools, f"pool must be True or False, not {self.pool!r}")
        known = self.order in (None, "rows", "list")
        require(known, f"order must be 'rows', 'list' or None, not {self.order!r}")
        value = self.ignore_identical_ids
        wrong = f"ignore_identical_ids must be True, False or 'both', not {value!r}"
        require(value in (None, "both") or isinstance(value, bool), wrong)
        forbidden, remedy = self.forbidden, ". Join its rows to qrels, with a grade below 0"
        is_table = hasattr(forbidden, "columns")
        what = f"a {type(forbidden).__name__}{remedy}" if is_table else repr(forbidden)
        named = isinstance(forbidden, str | None)
        require(named, f"forbidden must be the name of a column, not {what}")
        text = self.collapse is None or (isinstance(self.collapse, str) and self.collapse)
        require(bool(text), f"collapse must be a column or a separator, not {self.collapse!r}")
        require(
            not (self.forbidden and self.collapse),
            f"forbidden={self.forbidden!r} does not support collapse=. Leave out one of them",
        )
        require(
            self.groups in (None, "any"),
            f"groups must be 'any' or None, not {self.groups!r}. KILT's evidence sets need all "
            "items of one inner list, which no metric counts",
        )
        if self.unjudged_queries is not None:
            require_choice("unjudged_queries", self.unjudged_queries, "skip", "count")
        if self.none_judged is not None:
            require_choice("none_judged", self.none_judged, "error", "zero")
        if self.positions is not None:
            require_choice("positions", self.positions, "renumber", "keep")
            require(
                self.collapse is not None,
                f"positions={self.positions!r} is for collapse=. Name the column of the documents",
            )

    @classmethod
    def of(
        cls, options: Mapping[str, Any], function: Callable[..., Any], kind: Any = EvaluationOptions
    ) -> RankingRules:
        """The options of a call; refuse those that neither the function nor their kind has."""
        if not {"span", "inclusive", "chunk", "evidence"}.isdisjoint(options):
            call_extra("require spans", options, function)
        require_known_options(options, function, kind)
        names = ("system", "descending", "order", "collapse", "positions", "ignore_identical_ids",
                 "forbidden", "pool", "groups", "unjudged_queries", "none_judged",
                 "span")  # fmt: skip
        conventions = choose(options)
        if options.get("unjudged_queries") == "count":
            undefined = conventions.undefined
            values = undefined.values() if isinstance(undefined, Mapping) else [undefined]
            of_profile = {"skip"} if options.get("undefined") is None else set()
            for value in {*values} - {"zero"} - of_profile:
                raise RankqlError(
                    "unjudged_queries='count' sets undefined='zero', and does not go with "
                    f"undefined={value!r}. Leave out one of them"
                )
            if undefined == "skip" and options.get("undefined") is None:
                conventions = replace(conventions, undefined="zero")
        of_tool = tool_of(conventions.profile).options
        columns = {role: options.get(role) for role in ROLES}
        return cls(
            columns,
            conventions,
            **{name: options.get(name, of_tool.get(name)) for name in names},
            options={name: value for name, value in options.items() if value is not None},
        )

    def by_score(self, name: str) -> RankingRules:
        """The same with the score in this column."""
        options = {**self.options, "score": name}
        return replace(self, columns={**self.columns, "score": name}, options=options)


def require_known_options(
    options: Mapping[str, Any], function: Callable[..., Any], kind: Any = EvaluationOptions,
    more: Iterable[str] = (),
) -> None:  # fmt: skip
    """Refuse options that neither the function nor this kind of options has.

    more: those of a function that gets the options too.
    """
    for name in [name for name in options if name not in (*kind.__annotations__, *more)]:
        own = [p.name for p in signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY]
        raise RankqlError(describe_option(name, [*own, *kind.__annotations__]))


@dataclass(frozen=True)
class Request:
    """The arguments of `evaluate`, checked as far as possible without the data.

    Other functions make one too, to read what they need of it.
    """

    run: Data | Mapping[str, Data] | None
    qrels: Data | None
    metrics: str | Sequence[str]
    rules: RankingRules
    attributes: Data | None = None
    con: duckdb.DuckDBPyConnection | None = None
    groupings: list[list[str]] = field(default_factory=list)
    weight: str | None = None
    cluster: str | None = None
    time: str | bool | None = None
    mean: str | None = None
    interval: str | None = "auto"
    confidence: float = 0.95
    # The interactions of training, the items that could be shown, and what to do about seen items.
    train: Data | None = None
    catalogue: Data | int | None = None
    seen: str | None = None
    # The lowest score that is shown, or that of each system; of `min_scores`, a list of them
    # and the highest FalseAnswer.
    min_score: float | Mapping[str, float] | tuple[Sequence[float] | None, float | None] | None = (
        None
    )
    # The file for the values per query.
    output: Path | None = None
    # The labels of a judge, and the column of its grades.
    judge: Data | None = None
    judge_rel: str | Mapping[str, float] | None = None
    # Of which tables, run or qrels, rows that are equal in all columns count once: some repeat.
    once: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        door = find_door("truths", self.run, self.qrels)
        if door and (both := door.load()(self.run, self.qrels, self.rules)):
            object.__setattr__(self, "run", both[0])
            object.__setattr__(self, "qrels", both[1])
        for name in ("weight", "cluster"):
            column = getattr(self, name)
            wrong = f"{name} must be the name of a column, not {column!r}"
            require(isinstance(column, str | None), wrong)

    @property
    def sources(self) -> tuple[Any, ...]:
        """The tables, which may be of a connection."""
        return self.run, self.qrels, self.attributes, self.train, self.catalogue


def require_place_of_qrels(qrels: Any, con: Any) -> None:
    """Refuse metrics in the place of the judgments."""
    listed = isinstance(qrels, list | tuple) and all(isinstance(name, str) for name in qrels)
    named = con is None and isinstance(qrels, str) and "/" not in qrels and is_metric(qrels)
    if (listed and qrels) or (named and not os.path.exists(str(qrels))):
        raise RankqlError(
            f"{qrels!r} is in the place of qrels: metrics is the third argument. Pass "
            f"metrics={qrels!r}"
        )


def _is_array(data: Any) -> bool:
    """Is it a list or an array of numbers?"""
    shape = getattr(data, "shape", ())
    one = isinstance(data, list | tuple) or (isinstance(shape, tuple) and len(shape) == 1)
    return one and all(isinstance(x, Number) or getattr(x, "shape", None) == () for x in data)


def require_tables(run: Any, qrels: Any, con: Any) -> None:
    """Refuse arrays of labels and scores, as scikit-learn takes them, and metrics as judgments."""
    require_place_of_qrels(qrels, con)
    if _is_array(run) and _is_array(qrels) and len(run) == len(qrels) > 0:
        raise RankqlError(
            "evaluate takes tables, not arrays of labels and scores. Make a frame: pl.DataFrame("
            "{'query': group, 'item': range(len(y_true)), 'rel': y_true, 'score': y_score}), where "
            "group has an id for each row, such as np.repeat(np.arange(len(sizes)), sizes)"
        )


def parse_groupings(by: str | Sequence[str | Sequence[str]]) -> list[list[str]]:
    """The groupings of by=: names are one grouping, each list of names is one."""
    listed = by if isinstance(by, list | tuple) else [by]
    if all(isinstance(name, str) for name in listed):
        listed = [listed]
    distinct: dict[frozenset[str], list[str]] = {}
    for each in listed:
        group = [each] if isinstance(each, str) else each
        valid = isinstance(group, list | tuple) and all(isinstance(name, str) for name in group)
        require(valid, f"by must be names of columns, or lists of them, not {by!r}")
        names = [*dict.fromkeys(map(name_expression, group))]
        if names:
            distinct.setdefault(frozenset(names), names)
    return [*distinct.values()]
