"""The metrics as one window query, for engines that have neither lists nor lambdas.

`translated` takes a query as it is written for DuckDB and gives one of steps: the rows with their
grades and positions checked, window columns, and sums by group. Its metrics are the macros of sql/,
and where those use lists the macros of sql/windows.sql. What no row decides, such as a cutoff, is
worked out by DuckDB beforehand, wrong options included; what has no translation is refused by name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any, cast

from rankql import macros
from rankql.errors import RankqlError, database_message, did_you_mean, require_package

require_package("sqlglot", "dialects", "rankql.engines.windows")

import duckdb  # noqa: E402
import sqlglot  # noqa: E402
from sqlglot import exp  # noqa: E402
from sqlglot.dialects.dialect import Dialect  # noqa: E402

from rankql.engines import translation  # noqa: E402
from rankql.engines.translation import Macro, Target, constant, function  # noqa: E402


@dataclass(frozen=True)
class Engine:
    """An engine, and the little that is not the same for all."""

    name: str
    # As sqlglot calls it.
    dialect: str
    # Do the tests run its queries?
    executed: bool = False
    # How a query fails with a message; a text that is no number is an error everywhere but there.
    error: str = "CAST({} AS DOUBLE)"
    # Where text is taken for a number without a word: how to tell it.
    is_text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    # Is what is divided by 0 NULL there?
    zero_is_null: bool = False
    rules: Mapping[type[exp.Expr] | str, translation.Rule] = field(default_factory=dict)
    # What a name is quoted with, where a text would be read in place of an unknown name.
    quote: str = ""
    # What means something else than in DuckDB: what of it, and what will do.
    other: Mapping[type[exp.Expr] | str, tuple[str, str]] = field(default_factory=dict)


_NO_TRY: Mapping[type[exp.Expr] | str, tuple[str, str]] = {
    exp.TryCast: ("TRY_CAST", "cast in a view of it")
}

ENGINES = {
    "duckdb": Engine("DuckDB", "duckdb", executed=True, error="error({})"),
    "postgres": Engine("Postgres", "postgres", executed=True, other=_NO_TRY),
    "sqlite": Engine(
        "SQLite",
        "sqlite",
        executed=True,
        # What is no path is an error that shows it.
        error="json_extract('{{}}', {})",
        is_text="typeof({}) = 'text'",
        names={"greatest": "max", "least": "min"},
        zero_is_null=True,
        quote="`",
        rules={exp.Mod: lambda _, node: _remainder(node)},
        other={
            **_NO_TRY,
            "date": ("a date, which is text there,", "compare with a text such as '2026-01-31'"),
            "lower": ("lower(), which there leaves É as it is,", "write it so in a view"),
            "upper": ("upper(), which there leaves é as it is,", "write it so in a view"),
            exp.Like: ("LIKE, which there is blind to case,", "compare with ="),
            exp.Cast: ("a cast, which there takes any text for a number,", "cast in a view of it"),
        },
    ),
    "datafusion": Engine(
        "DataFusion",
        "postgres",
        executed=True,
        other={
            **_NO_TRY,
            "except all": ("EXCEPT ALL, which there leaves out all that is equal,", ""),
            "intersect all": ("INTERSECT ALL, which there keeps all that is equal,", ""),
        },
    ),
    "snowflake": Engine("Snowflake", "snowflake"),
    "bigquery": Engine("BigQuery", "bigquery", error="error({})"),
    "databricks": Engine("Databricks", "databricks", error="raise_error({})"),
    "trino": Engine("Trino", "trino", error="fail({})"),
    "redshift": Engine("Redshift", "redshift", other=_NO_TRY),
}

# Macros that are a column of the rows, by what it is called.
_COLUMNS = {
    "rankql_grade": "rel",
    "rankql_position": "pos",
    "rankql_score": "score",
    "rankql_scaled": "gain",
    "rankql_place": "place",
    "rankql_nth": "nth",
    "rankql_above": "above",
    "rankql_arrival": "arrival",
    "rankql_all_relevant": "relevant",
    "rankql_all_nonrelevant": "nonrelevant",
}

# Functions of the macros that are let through to the engine, which every engine here has.
_FUNCTIONS = {"any_value", "error", "greatest", "least", "pow"}
# And of the queries around them; round() is not the same for halves.
_ASKED = translation.FUNCTIONS - {"round"}
_AGGREGATES = {"any_value", "avg", "count", "list", "max", "min", "sum"}

# What is worked out by DuckDB where no row decides it.
_WORKED_OUT = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.DPipe, exp.Paren, exp.Not, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Like),
    *(exp.SimilarTo, exp.Cast, exp.TryCast, exp.Bracket, exp.Slice, exp.Anonymous),
)
_IDENTITY: Mapping[type[exp.Expr] | str, Any] = {
    kind: lambda _, node: node for kind in (exp.Bracket, exp.Slice, exp.SimilarTo, exp.Lambda)
}
# Whose metrics are offered: in rows, and made of sums and windows.
_FAMILIES = ("gain", "precision", "cascade", "rating")
_PARTS = {"kind", "hint", "expressions", "from_", "joins", "where", "group", "having", "order"}
_PARTS |= {"limit", "offset", "with_", "operation_modifiers", "exclude"}
_OURS = "rankql"


def translated(query: str, dialect: str) -> str:
    """A query in DuckDB's SQL that calls the metrics, as a window query of another engine.

    Every SELECT that calls a metric becomes one with steps, also within another query, so that
    means over rankings can be taken: `SELECT keys, metrics, other aggregates FROM ... [WHERE]
    [GROUP BY keys] [HAVING] [ORDER BY] [LIMIT]`. Values and NULL are those of DuckDB; bad grades
    and positions are an error of the query that is run, with the message that DuckDB gives. Where
    no test runs an engine, the text says so at its top. A dialect that is not known, a wrong option
    and what has no translation are a RankqlError that names it.

    >>> print(translated("SELECT user, recall_at(rel, pos, 5) FROM t GROUP BY user", "postgres"))
    ... # doctest: +ELLIPSIS
    WITH "rankql_rows" AS (
    ...
    """
    if dialect not in ENGINES:
        hint = did_you_mean(dialect, list(ENGINES))
        raise RankqlError(f"there is no window form for the dialect {dialect!r}{hint}")
    engine = ENGINES[dialect]
    tree = translation.parsed(query)
    for name in tree.find_all(exp.Identifier):
        if name.name.lower().startswith("rankql_"):
            raise RankqlError(f"{name.name}: names that begin with rankql_ are ours; rename it")
    made = _Windows(engine).made(tree)
    note = "" if engine.executed else f"-- not executed: no test of rankql runs {engine.name}\n"
    return note + _text(made, engine)


def _text(tree: exp.Expr, engine: Engine) -> str:
    kind = Dialect.get_or_raise(engine.dialect)
    tree = _each(
        tree,
        exp.Anonymous,
        lambda call: (
            _filled(engine.error, call.expressions[0].unnest()) if call.name == "error" else call
        ),
    )
    for name in tree.find_all(exp.Identifier):
        if not name.quoted:  # quoted it is what it would be unquoted, and no reserved word
            kind.normalize_identifier(name)
    if engine.quote:
        kind.IDENTIFIER_START = kind.IDENTIFIER_END = engine.quote
    try:
        return tree.sql(
            dialect=kind,
            identify=True,
            normalize_functions=False,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
            comments=False,
            pretty=True,
        )
    except sqlglot.errors.UnsupportedError as error:
        raise RankqlError(f"{engine.name} cannot have it: {error}") from error


@cache
def _macros() -> dict[str, Macro]:
    """The macros of sql/, those of sql/windows.sql before them."""
    return {**translation.trees("duckdb"), **translation.read(macros.read_statements("windows"))}


@cache
def _scalar(name: str) -> bool:
    """Is the macro an expression over one row?"""
    body = _macros()[name].body
    called = {call.name.lower() for call in body.find_all(exp.Anonymous)}
    if called & _AGGREGATES or body.find(exp.Window):
        return False
    return all(_scalar(other) for other in called & set(_macros()) - {name})


def _metrics(node: exp.Expr) -> bool:
    """Is a metric called here, not in a query within?"""
    if isinstance(node, exp.Anonymous) and node.name.lower() in _macros():
        return not _scalar(node.name.lower())
    return not isinstance(node, exp.Query) and any(map(_metrics, node.iter_expressions()))


def _aggregated(node: exp.Expr) -> bool:
    """Is a metric or another aggregate called here?"""
    calls = (call.name.lower() for call in node.find_all(exp.Anonymous))
    return _metrics(node) or any(name in _AGGREGATES for name in calls)


def _asked(select: exp.Select) -> Iterable[exp.Expr]:
    """Where metrics may be asked for."""
    yield from select.expressions
    yield from filter(None, (select.args.get("having"), select.args.get("order")))


@cache
def offered() -> frozenset[str]:
    """The metrics that have a window form: those of rows, made of sums and windows."""
    listed = {name for family in _FAMILIES for name in macros.read_statements(family)}
    return frozenset(name for name in listed & set(macros.read_comments()) if not _other_form(name))


def _other_form(name: str) -> str:
    """What will do in place of a metric in another form than that of rows."""
    if name.startswith("list_"):
        return f"{name.removeprefix('list_')} takes the entries as rows"
    if name.endswith("_by_score"):
        ranked = "row_number() OVER (PARTITION BY ... ORDER BY score DESC, item DESC)"
        return f"{name.removesuffix('_by_score')} takes pos, from a subquery: {ranked}"
    return ""


def _each(tree: exp.Expr, kind: type[exp.Expr], change: Callable[[Any], exp.Expr]) -> Any:
    """The tree with its parts of a kind changed."""
    return tree.transform(lambda part: change(part) if isinstance(part, kind) else part)


def _spelled(node: exp.Expr) -> str:
    """The text of an expression, the same however its names are written."""
    return str(_each(node, exp.Identifier, lambda n: exp.to_identifier(n.name.lower())).sql())


def _filled(template: str, value: exp.Expr) -> exp.Expr:
    """The template with the value in its place."""
    made = translation.parsed(template.format("value"))
    return made.transform(lambda part: value.copy() if isinstance(part, exp.Column) else part)


def _float(node: exp.Expr) -> exp.Expr:
    """A whole number with a point, for an engine that would keep it whole."""
    whole = isinstance(node, exp.Literal) and node.is_int
    return exp.Literal.number(f"{node.this}.0") if whole else node


def _is_double(node: exp.Expr) -> bool:
    """Is it surely a DOUBLE, also where numbers with a point are none?"""
    match node:
        case exp.Column():
            return _OURS in node.meta
        case exp.Cast():
            return bool(node.to.this == exp.DType.DOUBLE)
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return any(map(_is_double, filter(None, [*values, node.args.get("default")])))
        case exp.Anonymous() if node.name.lower() == "count":
            return False
        case exp.Anonymous() | exp.Paren() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return any(map(_is_double, node.iter_expressions()))
    return False


def _as_text(value: exp.Expr) -> exp.Expr:
    cast_to_it = isinstance(value, exp.Cast) and value.to.is_type(*exp.DataType.TEXT_TYPES)
    kept = cast_to_it or isinstance(value, exp.DPipe) or value.is_string
    return value if kept else exp.cast(value, "VARCHAR")


def _refuse_option(result: exp.Expr | None) -> None:
    """Refuse what is an error whatever the rows are."""
    if isinstance(result, exp.Anonymous) and result.name == "error":
        (message,) = result.expressions
        if message.is_string:
            raise RankqlError(message.name)


_ALONE = Lock()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    macros.register(con)
    return con


@cache
def _value(text: str) -> Any:
    """What no row decides, worked out by DuckDB."""
    try:
        with _ALONE:
            ((value,),) = _connection().execute(f"SELECT {text}").fetchall()
    except duckdb.Error as error:
        raise RankqlError(database_message(error)) from error
    return value


def _worked_out(node: exp.Expr) -> exp.Expr:
    return _literal(_value(node.sql(dialect="duckdb", normalize_functions=False)))


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, list):
        return exp.Array(expressions=[_literal(part) for part in value])
    if value is None or isinstance(value, str | bool | int):
        return exp.convert(value)
    if isinstance(value, float | Decimal):
        finite = math.isfinite(value)
        text = exp.Literal.string(str(value))
        return exp.convert(float(value)) if finite else exp.cast(text, "DOUBLE")
    raise RankqlError(f"an option must be a number, a text or a list of them, not {value}")


def _is_constant(node: exp.Expr) -> bool:
    return not any(
        isinstance(part, exp.Column | exp.Star | exp.Window | exp.Query | exp.Lambda)
        or (
            isinstance(part, exp.Anonymous)
            and part.name.lower() in {*_AGGREGATES, "error", "row_number"}
        )
        for part in node.walk()
    )


def _one(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.this in ("1", "1.0") and not node.is_string


class _Steps:
    """The columns of the rows that are grouped: each step may use those of the steps before."""

    def __init__(self) -> None:
        self.partition: list[exp.Expr] = []
        self.steps: list[dict[str, exp.Expr]] = [{}]
        self._known: dict[str, exp.Column] = {}
        self._step: dict[str, int] = {}

    def column(self, name: str, value: exp.Expr) -> exp.Column:
        """The column that holds a value; columns of the source in it are carried along."""
        used = [self._step[c.name] for c in value.find_all(exp.Column) if _OURS in c.meta]
        if used:
            value = self.carried(value)
        key = value.sql()
        if key not in self._known:
            step = 1 + max(used, default=-1)
            self.steps += [{} for _ in range(step + 1 - len(self.steps))]
            self._known[key] = self._added(step, f"rankql_{name}", value)
        return self._known[key].copy()

    def carried(self, value: exp.Expr) -> exp.Expr:
        """The value with the columns of the source as columns of the steps."""
        return cast(
            exp.Expr,
            _each(value, exp.Column, lambda c: c if _OURS in c.meta else self.source(c)),
        )

    def source(self, column: exp.Column) -> exp.Column:
        """A column of the source, by its own name if that is free."""
        key = _spelled(column)
        if key not in self._known:
            self._known[key] = self._added(0, column.name, column, column.this.quoted)
        return self._known[key].copy()

    def _added(self, step: int, name: str, value: exp.Expr, quoted: bool = False) -> exp.Column:
        taken = {other.lower() for other in self._step}
        names = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
        free = next(other for other in names if other.lower() not in taken)
        self._step[free] = step
        self.steps[step][free] = exp.alias_(value.copy(), exp.to_identifier(free, quoted=quoted))
        made = exp.column(exp.to_identifier(free, quoted=quoted))
        made.meta[_OURS] = True
        return made


class _Windows(translation.Translation):
    """A query, and within it each SELECT that calls a metric as one of steps."""

    def __init__(self, engine: Engine) -> None:
        zero = engine.zero_is_null
        rules = {**_IDENTITY, **engine.rules}
        super().__init__(Target(engine.name, engine.dialect, rules=rules, zero_is_null=zero))
        self.engine = engine
        # Of the SELECT that is being made; None where a value is to stand where it is.
        self._steps: _Steps | None = None

    def made(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """The translation of a tree; what no row decides is decided here."""
        scope = scope or {}
        if isinstance(node, exp.Select) and any(map(_metrics, _asked(node))):
            made = self._select(node)
            if isinstance(node.parent, exp.SetOperation):  # which has no place for WITH
                made = exp.select("*").from_(made.subquery("rankql_part"))
            return made
        if isinstance(node, exp.Case):
            return self._case(node, scope)
        if self.asked:
            self._check(node)
        made = super().made(node, scope)
        if isinstance(made, exp.Window) and self._within and self._steps:
            made.set("partition_by", [key.copy() for key in self._steps.partition])
            for by in made.find_all(exp.Ordered):  # no NULL is among them
                by.set("nulls_first", self._nulls_first(by))
        return self._settled(made) if self._within and isinstance(made, exp.Expr) else made

    def _check(self, node: Any) -> None:
        """Refuse what means something else there, or what the engine has no word for."""
        kind = _kind(node)
        if kind in self.engine.other and (isinstance(kind, str) or not _is_constant(node.this)):
            self.refuse(*self.engine.other[kind])
        if kind in _IDENTITY:
            self.refuse(type(node).__name__)

    def _nulls_first(self, by: exp.Ordered) -> bool:
        """Where the engine has NULL if nothing is said of it."""
        order = Dialect.get_or_raise(self.engine.dialect).NULL_ORDERING
        return order != "nulls_are_last" and (order == "nulls_are_large") is bool(by.args["desc"])

    def _settled(self, node: exp.Expr) -> exp.Expr:
        """A part of a macro, decided if no row decides it."""
        if isinstance(node, _WORKED_OUT) and not isinstance(node, exp.Slice) and _is_constant(node):
            return _worked_out(node)
        match node:
            case exp.Mul() | exp.Div() if _one(node.expression) and _is_double(node.this):
                return cast(exp.Expr, node.this)
            case exp.Mul() if _one(node.this) and _is_double(node.expression):
                return cast(exp.Expr, node.expression)
            case exp.Or() | exp.And():
                return translation.folded(node)
            case exp.Bracket() if isinstance(node.this, exp.Array) and len(node.expressions) == 1:
                entries = enumerate(node.this.expressions, 1)
                ifs = [exp.If(this=exp.convert(i), true=value.copy()) for i, value in entries]
                return exp.Case(this=node.expressions[0], ifs=ifs)
            case exp.Bracket() | exp.SimilarTo():
                self.refuse(type(node).__name__)
            case exp.Cast() if isinstance(node.this.unnest(), exp.Predicate):
                one, zero = (exp.cast(exp.convert(n), node.to) for n in (1, 0))
                return exp.Case(ifs=[exp.If(this=node.this.unnest(), true=one)], default=zero)
            case exp.DPipe():
                sides = (node.this, node.expression)
                node = exp.DPipe(this=_as_text(sides[0]), expression=_as_text(sides[1]), safe=True)
            case exp.Div():  # so that nothing is cast that need not be
                node.set("typed", _is_double(node))
        return node

    def _case(self, node: exp.Case, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        """From the top, so that what is not reached is not worked out."""
        operand = self.made(node.this, scope) if node.this else None
        kept, default = [], node.args.get("default")
        for branch in node.args["ifs"]:
            condition = self.made(branch.this, scope)
            decided = condition
            if operand is not None and self._within:
                same = exp.EQ(this=operand.copy(), expression=condition.copy())
                decided = self._settled(same)
            value = constant(decided) if self._within else translation.UNKNOWN
            if value is None or value is False:
                continue
            if value is True:
                default = branch.args["true"]
                break
            result = self.made(branch.args["true"], scope)
            if not condition.find(exp.Column):  # there are rows: no more is asked
                _refuse_option(result)
            kept.append(exp.If(this=condition, true=result))
        made = self.made(default, scope) if default is not None else None
        if kept:
            return exp.Case(this=operand, ifs=kept, default=made)
        _refuse_option(made)
        return made or exp.Null()

    def _call(self, node: exp.Anonymous, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name = node.name.lower()
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if name in _macros():
            return self._expanded(_macros()[name], node.expressions, scope)
        made = function(name, *self.made(node.expressions, scope))
        if not self._within:
            # Of several values they are something else.
            largest = name in ("max", "min") and len(made.expressions) > 1
            if name not in _ASKED or largest:
                self.refuse(f"{name}()")
            if name in self.engine.other:
                self.refuse(*self.engine.other[name])
            return translation.averaged(made) if name == "avg" else made
        if name == "error":
            return made
        if _is_constant(made):
            return _worked_out(made)
        first = made.expressions[0] if made.expressions else exp.Null()
        match name:
            case "typeof":
                # Everything that counts is cast to it.
                return _worked_out(made) if not first.find(exp.Column) else exp.convert("DOUBLE")
            case "isfinite":
                most = exp.Literal.number("1.7976931348623157e308")
                return exp.LTE(this=function("abs", first), expression=most)
            case "log2":
                two = _worked_out(function("ln", exp.Literal.number("2.0")))
                return exp.Paren(
                    this=self._settled(exp.Div(this=function("ln", first), expression=two))
                )
            case "coalesce":  # of what is a DOUBLE
                floats = (_float(part) for part in made.expressions)
                return translation.folded(function(name, *floats))
        if name not in _FUNCTIONS | translation.FUNCTIONS:
            self.refuse(f"{name}()")
        return function(self.engine.names.get(name, name), *made.expressions)

    def _expanded(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> exp.Expr:
        outermost = not self._within
        if outermost and macro.name not in offered():
            self.refuse(f"{macro.name}()", _other_form(macro.name) or "DuckDB and Spark have it")
        given, bound = translation.bindings(macro, arguments), {}
        for parameter, default in macro.parameters.items():
            argument = given.get(parameter, default)
            if argument is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            if outermost:
                option = default is not None and parameter != "query"
                argument = self._argument(macro.name, parameter, argument, option)
            elif parameter in given:
                argument = cast(exp.Expr, self.made(argument, scope))
            bound[parameter] = translation.wrapped(argument)
        values = [*bound.values()]
        if macro.name == "rankql_is_text" and not _is_constant(values[0]):
            how = self.engine.is_text
            return _filled(how, values[0]) if how else exp.false()
        if self._steps is None and not _scalar(macro.name):
            place = "ask for it in a SELECT list, HAVING or ORDER BY"
            self.refuse(f"{macro.name}() where rows are not grouped", place)
        same = macro.name not in macros.read_statements("windows")  # as it is known to DuckDB
        if same and _scalar(macro.name) and all(map(_is_constant, values)):
            return _worked_out(function(macro.name, *values))
        self._within.append(macro)
        made = translation.wrapped(self.made(macro.body, bound))
        self._within.pop()
        if macro.name in _COLUMNS and self._steps and not _is_constant(made):
            return self._steps.column(_COLUMNS[macro.name], made.unnest())
        return made

    def _argument(self, metric: str, name: str, given: exp.Expr, option: bool) -> exp.Expr:
        """A column or an option of a metric as it is called."""
        if option:
            if not _is_constant(given):
                self.refuse(f"{metric} with {name} from a column", "give a constant")
            return _worked_out(given)
        made = self._of_a_row(given, f"{metric}()")
        steps = self._steps
        if steps is None or isinstance(made, exp.Column) or _is_constant(made):
            return made
        return steps.column(name, made)

    def _of_a_row(self, given: exp.Expr, place: str) -> exp.Expr:
        """What a row alone has to say."""
        steps, self._steps = self._steps, None
        made = cast(exp.Expr, self.made(given))
        self._steps = steps
        calls = (call.name.lower() for call in made.find_all(exp.Anonymous))
        if made.find(exp.Window) or any(name in _AGGREGATES for name in calls):
            self.refuse(
                f"an aggregate or a window within {place}", "make it a column in a subquery"
            )
        return made

    def _filter(self, node: exp.Filter, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        """As a CASE, which every engine has."""
        name = node.this.name.lower()
        if name in _macros():
            self.refuse(f"FILTER on {name}", "filter the rows")
        condition = self.made(node.expression.this, scope)
        (counted,) = self.made(node.this, scope).expressions
        distinct = isinstance(counted, exp.Distinct)
        value = counted.expressions[0] if distinct else counted
        value = exp.Literal.number(1) if isinstance(value, exp.Star) else value
        case = exp.Case(ifs=[exp.If(this=condition, true=value)])
        return function(name, exp.Distinct(expressions=[case]) if distinct else case)

    def _select(self, node: exp.Select) -> exp.Select:
        """A SELECT that calls metrics, in steps."""
        for part, value in node.args.items():
            if value and part not in _PARTS:
                self.refuse(f"{part.upper()} beside a metric", "put it around the query")
        outer, self._steps = self._steps, (steps := _Steps())
        projections = [translation.named(part) for part in node.expressions]
        keys = self._keys(node.args.get("group"), projections)
        steps.partition = [self._key(key) for key in keys]
        of = dict(zip(map(_spelled, keys), steps.partition, strict=True))
        aliases = {part.alias.lower(): part.this for part in projections if part.alias}
        asked = [_output(part, self._grouped(part, of)) for part in projections]
        made = exp.Select(expressions=asked)
        if having := node.args.get("having"):
            meant = _each(
                having.this,
                exp.Column,
                lambda part: (
                    part
                    if part.find_ancestor(exp.Anonymous)
                    else aliases.get(part.name.lower(), part).copy()
                ),
            )
            made.set("having", exp.Having(this=self._grouped(meant, of)))
        if order := node.args.get("order"):
            made.set(
                "order", self._ordered(order, of, {part.alias_or_name.lower() for part in asked})
            )
        for part in ("limit", "offset"):
            made.set(part, self.made(node.args.get(part)))
        if keys:
            made.set("group", exp.Group(expressions=[key.copy() for key in steps.partition]))
        self._steps = None
        source = {name: self.made(node.args.get(name)) for name in ("from_", "joins", "where")}
        given = self.made(node.args.get("with_"))
        self._steps = outer
        return _chained(made, steps, source, given)

    def _keys(self, group: exp.Group | None, projections: Sequence[exp.Expr]) -> list[exp.Expr]:
        """What the rows are grouped by."""
        if group is None:
            return []
        if any(value for part, value in group.args.items() if part not in ("expressions", "all")):
            self.refuse("GROUP BY with grouping sets", "ask for one after the other")
        if group.args.get("all"):
            parts = [part.unalias() for part in projections if not _aggregated(part)]
            return [part for part in parts if not _is_constant(part)]
        keys = []
        for key in group.expressions:
            if isinstance(key, exp.Literal) and key.this.isdecimal():
                if not 1 <= int(key.this) <= len(projections):
                    raise RankqlError(f"GROUP BY {key.this}: there is no such column")
                key = projections[int(key.this) - 1].unalias()
            named = [p for p in projections if p.alias and p.alias.lower() == key.name.lower()]
            if named and isinstance(key, exp.Column) and not key.table and named[0].this != key:
                self.refuse(f"GROUP BY {key.name}, an alias,", "group by what it stands for")
            keys.append(key)
        return keys

    def _key(self, key: exp.Expr) -> exp.Column:
        steps = cast(_Steps, self._steps)
        if isinstance(key, exp.Column):
            return steps.source(key)
        if _is_constant(key):
            self.refuse("GROUP BY a constant", "leave it out")
        return steps.column("key", self._of_a_row(key, "GROUP BY"))

    def _grouped(self, node: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Expr:
        """An expression over the groups: of keys, metrics and other aggregates."""
        if node.is_star:
            self.refuse("* beside a metric", "name the columns")
        if node.find(exp.Query):
            self.refuse("a query in the list of a SELECT of metrics", "join it, or put it around")
        node = _each(node, exp.Condition, lambda part: keys.get(_spelled(part), part).copy())
        made = self.made(node)
        steps = cast(_Steps, self._steps)
        for column in made.find_all(exp.Column):
            if _OURS not in column.meta and not _within_aggregate(column):
                hint = "put it into GROUP BY as it is written here, or into an aggregate"
                raise RankqlError(f"{column.sql()} is neither a key nor in an aggregate; {hint}")
        return steps.carried(made)

    def _ordered(
        self, order: exp.Order, keys: Mapping[str, exp.Expr], outputs: Iterable[str]
    ) -> exp.Order:
        parts = []
        for part in order.expressions:
            by = part.this
            known = isinstance(by, exp.Column) and not by.table and by.name.lower() in outputs
            if isinstance(by, exp.Var):
                self.refuse(f"ORDER BY {by.name}", "name the columns")
            made = by.copy() if known or isinstance(by, exp.Literal) else self._grouped(by, keys)
            part = part.copy()
            part.set("this", made)
            parts.append(part)
        return exp.Order(expressions=parts)


def _output(asked: exp.Expr, made: exp.Expr) -> exp.Expr:
    """What is selected, by the name that it would have."""
    if isinstance(asked, exp.Column) and made.name == asked.name:
        return made
    if isinstance(made, exp.Alias) or not isinstance(made, exp.Column):
        return made
    quoted = not isinstance(asked, exp.Column)
    return exp.alias_(made, exp.to_identifier(asked.name or asked.sql(), quoted=quoted))


def _kind(node: Any) -> type[exp.Expr] | str:
    """What it is, as an engine calls what is other there."""
    if isinstance(node, exp.SetOperation) and not node.args.get("distinct"):
        return f"{node.key} all"
    if isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEMPORAL_TYPES):
        return "date"
    return type(node)


def _remainder(node: exp.Mod) -> exp.Case:
    """SQLite's % is of whole numbers alone, its mod() of what a DOUBLE holds."""
    sides = (node.this, node.expression)
    whole = [exp.EQ(this=function("typeof", s), expression=exp.convert("integer")) for s in sides]
    case = exp.If(this=exp.And(this=whole[0], expression=whole[1]), true=node)
    return exp.Case(ifs=[case.copy()], default=function("mod", *(s.copy() for s in sides)))


def _within_aggregate(column: exp.Column) -> bool:
    """Is it the aggregate of a group that the column is in, not one over groups?"""
    call = column.find_ancestor(exp.Anonymous)
    while call and call.name.lower() not in _AGGREGATES:
        call = call.find_ancestor(exp.Anonymous)
    return call is not None and not isinstance(call.parent, exp.Window)


def _chained(
    made: exp.Select, steps: _Steps, source: Mapping[str, Any], given: exp.With | None
) -> exp.Select:
    """The steps one after the other, each a part of WITH, and what is grouped of the last."""
    ctes = list(given.expressions) if given else []
    last = None
    for n, columns in enumerate(steps.steps, 1):
        name = "rankql_rows" if n == 1 else f"rankql_rows_{n}"
        listed = list(columns.values()) or [exp.alias_(exp.Literal.number(1), "rankql_row")]
        if last is None:
            body = exp.Select(expressions=listed, **source)
        else:
            body = exp.Select(expressions=[exp.Star(), *listed]).from_(exp.to_table(last))
        ctes.append(exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(name))))
        last = name
    made = made.from_(exp.to_table(cast(str, last)))
    recursive = bool(given and given.args.get("recursive"))
    made.set("with_", exp.With(expressions=ctes, recursive=recursive))
    return made
