"""The metrics in ClickHouse: as functions of its own, and in queries.

Its functions are expressions put in place of their calls, as our macros are, but without defaults:
`ndcg(rel, pos, 10)` is called as it is in DuckDB, and what has further options is written into a
query by `translated`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from sqlglot import exp

from rankql import macros
from rankql.engines import translation
from rankql.engines.translation import (
    UNKNOWN,
    Rule,
    Target,
    Translation,
    as_double,
    cast_or_fail,
    constant,
    entry,
    folded,
    function,
    pattern,
    plain_condition,
    sorted_by,
)

# NULL where a join finds nothing, names of columns before those of results, and NULL IN (1) NULL.
SETTINGS = {"join_use_nulls": 1, "prefer_column_name_to_alias": 1, "transform_null_in": 0}


def translated(query: str) -> str:
    """A query in DuckDB's SQL that calls the metrics, in ClickHouse's."""
    text = translation.query(query, CLICKHOUSE)
    return f"{text} SETTINGS {', '.join(f'{name} = {value}' for name, value in SETTINGS.items())}"


@cache
def functions() -> str:
    """All metrics of rankings as CREATE FUNCTION statements."""
    head = "-- The metrics of rankql as functions of ClickHouse; k NULL is the whole ranking."
    helpers = (_function(name, translation.parameters(name, CLICKHOUSE)) for name in _KEPT)
    metrics = (
        f"-- {comment}\n{_function(name, taken(name))}"
        for name, comment in macros.read_comments().items()
        if name in (CLICKHOUSE.metrics or ())
    )
    return "\n\n".join([head, *helpers, *metrics]) + "\n"


# Helpers that are functions of their own: written out, they are most of the text.
_KEPT = (
    "rankql_type",
    "rankql_is_text",
    "rankql_option",
    "rankql_grade",
    "rankql_cutoff",
    "rankql_pos",
    "rankql_hit",
)


def _function(name: str, taken: Sequence[str]) -> str:
    columns = {parameter: parameter for parameter in taken}
    target = replace(CLICKHOUSE, kept=frozenset(_KEPT) - {name})
    body = translation.call(name, columns, {}, target)
    return f"CREATE OR REPLACE FUNCTION {name} AS ({', '.join(taken)}) -> {body};"


# The last of the parameters that a call cannot do without.
_LAST = {
    "err": "max_rel",
    "rbp": "p",
    "rbp_residual": "p",
    "rbo": "p",
    "micro_precision_at": "query",
    "micro_f1_at": "query",
}


def taken(name: str) -> list[str]:
    """The parameters of a function there: no more than a call cannot do without, and k."""
    parameters = macros.read_parameters()[name]
    listed = [*parameters]
    needed = [parameter for parameter, default in parameters.items() if default is None]
    last = _LAST.get(name.removeprefix("list_").removesuffix("_by_score"), "k")
    return listed[: max(len(needed), listed.index(last) + 1 if last in listed else 0)]


# Structs have no names there: x.name is the n-th of x, as says the struct that x comes from.


class _Fields:
    """The structs of a tree, found from where they are made to where a field is taken."""

    def __init__(self, tree: exp.Expr) -> None:
        # What the variables of lambdas stand for: an entry of a list, or a first value.
        self._entries: dict[str, exp.Expr] = {}
        self._values: dict[str, exp.Expr] = {}
        for call in tree.find_all(exp.Anonymous):
            first, *lists = call.expressions or [None]
            if not isinstance(first, exp.Lambda):
                continue
            names = [name.name for name in first.expressions]
            if call.name == "arrayFold":
                self._values[names.pop(0)] = lists[1]
            self._entries.update(zip(names, lists, strict=False))

    def of(self, node: Any) -> exp.Struct | None:
        """The struct that a value is."""
        match node:
            case exp.Struct():
                return node
            case exp.Paren():
                return self.of(node.this)
            case exp.Case():
                return _first(self.of, [branch.args["true"] for branch in node.args["ifs"]])
            case exp.Dot():
                return self.of(self.field(node))
            case exp.Column() if node.name in self._entries:
                return self.of(self.entry(self._entries[node.name]))
            case exp.Column() if node.name in self._values:
                return self.of(self._values[node.name])
            case exp.Anonymous(this="arrayElement"):
                return self.of(self.entry(node.expressions[0]))
            case exp.Anonymous(this="arrayFold"):
                return self.of(node.expressions[2])
            case exp.Anonymous(this="coalesce"):
                return _first(self.of, node.expressions)
            case exp.Anonymous(this="tupleElement"):
                return self.of(self._element(node))
        return None

    def entry(self, node: Any) -> Any:
        """What the entries of a list are made by."""
        match node:
            case exp.Array():
                return node.expressions[0] if node.expressions else None
            case exp.Paren() | exp.Filter():
                return self.entry(node.this)
            case exp.Case():
                return _first(self.entry, [branch.args["true"] for branch in node.args["ifs"]])
            case exp.Dot():
                return self.entry(self.field(node))
            case exp.Column() if node.name in self._entries:
                return self.entry(self.entry(self._entries[node.name]))
            case exp.Anonymous(this="arrayMap"):
                return node.expressions[0].this
            case exp.Anonymous(this="groupArray"):
                return node.expressions[0]
            case exp.Anonymous(this="arrayFilter"):
                return self.entry(node.expressions[1])
            case exp.Anonymous(this="arraySort" | "arrayReverseSort" | "arraySlice"):
                return self.entry(node.expressions[0])
            case exp.Anonymous(this="arrayConcat" | "coalesce"):
                return _first(self.entry, node.expressions)
            case exp.Anonymous(this="arrayElement" | "arrayFlatten"):
                return self.entry(self.entry(node.expressions[0]))
            case exp.Anonymous(this="tupleElement"):
                return self.entry(self._element(node))
        return None

    def field(self, node: exp.Dot) -> Any:
        """What a field of a struct is made by."""
        struct = self.of(node.this)
        return struct.expressions[_place(struct, node)].expression if struct else None

    def _element(self, node: exp.Anonymous) -> Any:
        tuple_, place = node.expressions
        made = self._tuple(tuple_)
        return made.expressions[int(place.name) - 1] if made else None

    def _tuple(self, node: Any) -> Any:
        if isinstance(node, exp.Column) and node.name in self._entries:
            return self._tuple(self.entry(self._entries[node.name]))
        return node if isinstance(node, exp.Anonymous) and node.name == "tuple" else None


F = TypeVar("F")


def _first(found: Callable[[exp.Expr], F | None], nodes: Iterable[exp.Expr]) -> F | None:
    return next((made for made in map(found, nodes) if made is not None), None)


def _place(struct: exp.Struct, node: exp.Dot) -> int:
    return [field.name for field in struct.expressions].index(node.expression.name)


def _without_names(tree: exp.Expr) -> exp.Expr:
    """Structs as tuples, and their fields by place."""
    fields = _Fields(tree)
    taken = [(node, fields.of(node.this)) for node in tree.find_all(exp.Dot)]
    places = [(node, _place(struct, node)) for node, struct in taken if struct]
    for node, place in reversed(places):
        made = function("tupleElement", node.this, exp.Literal.number(place + 1))
        tree = _put(tree, node, made)
    for struct in reversed([*tree.find_all(exp.Struct)]):
        values = (field.expression for field in struct.expressions)
        tree = _put(tree, struct, function("tuple", *values))
    return tree


def _raised(tree: exp.Expr) -> exp.Expr:
    """Errors, by a cast of what is to be said to a number: a function that raises says constants.

    What CASE does not come to is worked out all the same at times, and always in a lambda whose
    variable is no part of it: so the text is a number unless the CASE comes to it.
    """
    for call in [*tree.find_all(exp.Anonymous)]:
        if call.name == "error":
            # Of text that may be NULL, what is no number is NULL.
            said = function("materialize", function("assumeNotNull", _reached(call)))
            tree = _put(tree, call, function("toUInt8", said))
    return tree


# The aggregates that the macros call, as they are called there.
_AGGREGATES = frozenset(
    {"any", "avgOrNull", "count", "groupArray", "maxOrNull", "minOrNull", "sumOrNull", "uniqExact"}
)


def _reached(call: exp.Anonymous) -> exp.Expr:
    """The message of an error where its CASE comes to it, else 0."""
    message = _silent(call.expressions[0])
    branch: Any = call
    while branch.parent and not isinstance(branch.parent, exp.If | exp.Case):
        branch = branch.parent
        if isinstance(branch, exp.Anonymous) and branch.name in _AGGREGATES:
            return message  # a CASE around the aggregate decides nothing for its rows
    if not branch.parent or branch.arg_key == "this":
        return message
    ifs = []
    for part in branch.find_ancestor(exp.Case).args["ifs"]:
        last = part is branch.parent
        said = message if last else exp.Literal.string("0")
        ifs.append(exp.If(this=_silent(part.this), true=said))
        if last:
            return exp.Case(ifs=ifs, default=exp.Literal.string("0"))
    return exp.Case(ifs=ifs, default=message)


def _silent(node: exp.Expr) -> exp.Expr:
    """The same without its errors, which are raised elsewhere."""
    return node.copy().transform(
        lambda part: (
            exp.Null() if isinstance(part, exp.Anonymous) and part.name == "error" else part
        )
    )


def _put(tree: exp.Expr, node: exp.Expr, made: exp.Expr) -> exp.Expr:
    if node is tree:
        return made
    node.replace(made)
    return tree


# What is written otherwise.


def _mapped(translation: Translation, node: exp.Anonymous) -> exp.Expr:
    """transform() and filter(): the function first, and the index a list of its own."""
    values, step = node.expressions
    name = "arrayMap" if node.name == "list_transform" else "arrayFilter"
    index = [function("arrayEnumerate", values.copy())] if len(step.expressions) == 2 else []
    return translation.function(name, step, values, *index)


def _element(translation: Translation, node: exp.Bracket) -> exp.Expr:
    """One entry, from 1, or a slice."""
    index, is_slice = entry(translation, node)
    if is_slice:
        return function("arraySlice", node.this, exp.Literal.number(1), index)
    return function("arrayElement", node.this, index)


def _cast(translation: Translation, node: exp.TryCast) -> exp.Expr:
    if constant(node.this) is not UNKNOWN:
        return exp.Cast(this=node.this, to=node.to)
    kind = exp.Literal.string(node.to.sql("clickhouse"))
    return function("accurateCastOrNull", node.this, kind)


def _checked(translation: Translation, node: exp.Expr) -> None:
    match node:
        case exp.In() if any(isinstance(part, exp.Null) for part in node.expressions):
            translation.refuse("NULL within IN, which is passed over there", "leave it out")
        case exp.In() if node.args.get("query") and not plain_condition(node):
            remedy = "join it; NULL is not what it is in DuckDB there"
            translation.refuse("IN (SELECT ...) beyond a condition of WHERE", remedy)
        case exp.Column() if node.table and _from_outside(node):
            remedy = "join it, or group it by that"
            translation.refuse(f"{node.sql()} in a query within the one that has it", remedy)


def _from_outside(column: exp.Column) -> bool:
    """Does it belong to a query around its own?"""
    select, names = column.find_ancestor(exp.Select), []
    while select:
        joins = [select.args.get("from_"), *(select.args.get("joins") or [])]
        names.append({part.this.alias_or_name.lower() for part in joins if part})
        select = select.find_ancestor(exp.Select)
    own, *others = names or [set()]
    return column.table.lower() not in own and any(column.table.lower() in n for n in others)


def _matched(translation: Translation, node: exp.SimilarTo) -> exp.Expr:
    return function("match", node.this, pattern(translation, node))


def _searched(translation: Translation, node: exp.Case) -> exp.Expr:
    """CASE x WHEN y as CASE WHEN x = y: of the other all values are worked out, errors too."""
    made = folded(node)
    if not isinstance(made, exp.Case) or made.this is None:
        return made
    ifs = [
        exp.If(this=exp.EQ(this=made.this.copy(), expression=branch.this), true=branch.args["true"])
        for branch in made.args["ifs"]
    ]
    return exp.Case(ifs=ifs, default=made.args.get("default"))


def _called(name: str) -> Rule:
    return lambda _, node: function(name, *node.expressions)


def _operator(name: str) -> Rule:
    return lambda _, node: function(name, node.this, node.expression)


def _count(translation: Translation, node: exp.Anonymous) -> exp.Expr:
    """Which function count(DISTINCT x) stands for is a setting."""
    (counted,) = node.expressions
    if isinstance(counted, exp.Distinct):
        return function("uniqExact", *counted.expressions)
    return node


def _rounded(translation: Translation, node: exp.Anonymous) -> exp.Expr:
    """Halves away from 0; ClickHouse's own rounds them to even numbers."""
    value, *digits = node.expressions
    unit = function("pow", exp.Literal.number(10), *(digits or [exp.Literal.number(0)]))
    half = exp.Literal.number("0.5")
    whole = function("floor", exp.Add(this=function("abs", value) * unit, expression=half))
    return function("sign", value.copy()) * whole / unit.copy()


def _file(translation: Translation, node: exp.Table) -> exp.Expr:
    """FROM 'a.parquet'"""
    name = node.this
    if not isinstance(name, exp.Identifier):
        translation.refuse(f"the table function {name.sql()}")
    if name.name.endswith((".parquet", ".pq")) and not node.db:
        node.set("this", function("file", exp.Literal.string(name.name)))
    return node


CLICKHOUSE = Target(
    "ClickHouse",
    "clickhouse",
    metrics=macros.list_metric_macros("gain", "precision", "cascade", "order", "rating"),
    functions=frozenset({"ceil", "error", "greatest", "least", "log2", "pow", "power"}),
    helpers=frozenset({"typeof", "encode", "len"}),
    check=_checked,
    aggregates=frozenset(
        {"any", "avgOrNull", "groupArray", "maxOrNull", "minOrNull", "sumOrNull", "uniqExact"}
    ),
    types={int: "Int64", str: "String", type(None): "Nullable(Nothing)"},
    of_null=frozenset({"arrayMap", "arrayFilter"}),
    rules={
        exp.Case: _searched,
        "list_transform": _mapped,
        "list_filter": _mapped,
        "list_sort": sorted_by(
            lambda values: function("arraySort", values),
            lambda values: function("arrayReverseSort", values),
        ),
        "count": _count,
        "round": _rounded,
        # Without a value where there is none to take.
        **{name: _called(f"{name}OrNull") for name in ("sum", "avg", "min", "max")},
        # Its own know the letters of ASCII alone.
        **{name: _called(f"{name}UTF8") for name in ("lower", "upper")},
        exp.Bracket: _element,
        exp.Slice: lambda _, node: node,
        exp.Cast: cast_or_fail("error"),
        exp.Div: as_double,
        exp.TryCast: _cast,
        exp.SimilarTo: _matched,
        exp.BitwiseRightShift: _operator("bitShiftRight"),
        exp.BitwiseLeftShift: _operator("bitShiftLeft"),
        exp.IntDiv: _operator("intDiv"),
        exp.Table: _file,
    },
    finish=lambda tree: _without_names(_raised(tree)),
)
