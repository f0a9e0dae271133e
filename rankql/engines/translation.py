"""The macros in the SQL of other engines: calls expanded, and what DuckDB alone knows rewritten.

A `Target` is an engine: the functions that mean the same there, rules for what is written
otherwise, and `sql/<dialect>.sql`, in which functions of DuckDB, and helpers of ours that depend on
its types, are macros in the SQL of that engine. Only what one of these three knows is let through:
anything else is refused by name, and never passed on in the hope that it means the same.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NoReturn, cast

from rankql import macros
from rankql.errors import RankqlError, require_package

require_package("sqlglot", "dialects", "translation")

import sqlglot  # noqa: E402
from sqlglot import Token, TokenType, exp  # noqa: E402
from sqlglot.dialects import ClickHouse, DuckDB, Spark  # noqa: E402

# A macro that is an expression; those that are tables are no part of one.
_SCALAR = re.compile(
    r"\A[^(]*\((?P<parameters>[^)]*)\)\s+AS(?!\s+TABLE\b)\s(?P<body>.*?);\s*$", re.M | re.S
)

# `[:f(x)]` would be read as a placeholder.
_OPEN_SLICE = re.compile(r"(?<=[\w)\]])\[:")


_DIALECTS = {
    # Indices are kept as they are written.
    kind.__name__.lower(): type("Plain", (kind,), {"INDEX_OFFSET": 0})
    for kind in (DuckDB, Spark, ClickHouse)
}
# The end of a name that sqlglot does not know, so that functions and variables are kept as they are
# written. A parser of our own would do, but there can be none where sqlglot is compiled.
_UNKNOWN = "\x1a"


@cache
def _words(dialect: str) -> tuple[frozenset[Any], frozenset[str]]:
    """The kinds of words that may be names, and the functions that sqlglot knows."""
    parser = _DIALECTS[dialect]().parser()
    names = frozenset({*parser.ID_VAR_TOKENS, *parser.FUNC_TOKENS} - {TokenType.STRING})
    known = {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}
    return names, frozenset(known - {"CASE", "CAST", "TRY_CAST"})


def _tree(text: str, dialect: str) -> exp.Expr:
    """The tree of a statement, or a SqlglotError."""
    kind, (names, functions) = _DIALECTS[dialect](), _words(dialect)
    tokens = kind.tokenize(text)
    for token in [*_called(tokens, functions, dialect), *_variables(tokens)]:
        if token.token_type in names and not token.text.endswith(_UNKNOWN):
            token.text += _UNKNOWN
    trees = kind.parser().parse(tokens, text)
    if len(trees) != 1 or trees[0] is None:
        raise sqlglot.ParseError("it must be one statement")
    for part in trees[0].find_all(exp.Identifier, exp.Anonymous):
        if isinstance(part.this, str):
            part.set("this", part.this.removesuffix(_UNKNOWN))
    return cast(exp.Expr, trees[0])


def _called(tokens: list[Token], functions: Collection[str], dialect: str) -> Iterator[Token]:
    """The names of functions, and what sqlglot would take for one."""
    for token, after in itertools.pairwise(tokens):
        name, then = token.text.upper(), after.token_type
        # ClickHouse puts names of functions together from parts.
        ours = dialect == "clickhouse" and token.token_type == TokenType.VAR
        called = then == TokenType.L_PAREN and (ours or name in functions)
        # Where `list` is a name, list[1] is an entry of it.
        if called or name == "ANY" or (name == "LIST" and then == TokenType.L_BRACKET):
            yield token


def _variables(tokens: list[Token]) -> Iterator[Token]:
    """The variables of lambdas, `lambda x, i: ...`, `x -> ...` and `(x, i) -> ...`."""
    for i, token in enumerate(tokens):
        if token.text.lower() == "lambda":
            yield from itertools.takewhile(lambda part: part.text != ":", tokens[i + 1 :])
        elif token.token_type == TokenType.ARROW:
            before = tokens[i - 1 :: -1]
            listed = itertools.takewhile(lambda part: part.text != "(", before)
            yield from listed if before[0].text == ")" else before[:1]


# Syntax that means the same everywhere.
_COMMON: tuple[type[exp.Expr], ...] = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.DPipe, exp.Paren),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like),
    *(exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType),
    *(exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Distinct, exp.Identifier),
    *(exp.Column, exp.Dot, exp.Array, exp.Struct, exp.PropertyEQ, exp.Where, exp.Alias),
    *(exp.Select, exp.From, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Join),
    *(exp.Table, exp.TableAlias, exp.Subquery, exp.With, exp.CTE, exp.Union, exp.Except),
    *(exp.Intersect, exp.Values, exp.Tuple, exp.Window, exp.WindowSpec, exp.Offset),
)

# Functions that mean the same everywhere, NULL and empty groups included.
FUNCTIONS = {
    *("abs", "avg", "coalesce", "count", "dense_rank", "exp", "floor", "ln", "lower", "max", "min"),
    *("nullif", "rank", "round", "row_number", "sqrt", "sum", "trim", "upper"),
}

Rule = Callable[["Translation", Any], exp.Expr]


@dataclass(frozen=True)
class Macro:
    """A macro as a tree, with the defaults of its parameters as trees."""

    name: str
    parameters: Mapping[str, exp.Expr | None]
    body: exp.Expr
    # Are the functions that it calls those of the target?
    native: bool = False


@dataclass(frozen=True)
class Target:
    """An engine that the macros are translated for."""

    name: str
    # As sqlglot calls it, and as the file of its macros is called.
    dialect: str
    # Beyond those that mean the same everywhere.
    functions: frozenset[str] = frozenset()
    # What `sql/<dialect>.sql` calls that takes many rows: a FILTER belongs there.
    aggregates: frozenset[str] = frozenset()
    # What typeof() says of constants, and what is NULL where an argument is.
    types: Mapping[type, str] = field(default_factory=dict)
    of_null: frozenset[str] = frozenset()
    # By the kind of syntax, or by the name of a function: what is written in its place. They are
    # given the node with its parts already translated.
    rules: Mapping[type[exp.Expr] | str, Rule] = field(default_factory=dict)
    # The metrics that are shown to be the same there; None: all that have a translation.
    metrics: frozenset[str] | None = None
    # Macros in place of those of the file.
    macros: Mapping[str, Macro] = field(default_factory=dict)
    # Macros that are functions there: calls of them stay calls.
    kept: frozenset[str] = frozenset()
    # What stands for functions in the macros, but not for all that a user may give them.
    helpers: frozenset[str] = frozenset()
    # Is what is divided by 0 NULL there, or may it be?
    zero_is_null: bool = False
    # Refuses what else the user wrote and means something else there.
    check: Callable[[Translation, exp.Expr], None] = lambda translation, node: None
    # What is done to the whole, in the end.
    finish: Callable[[exp.Expr], exp.Expr] = lambda tree: tree


@cache
def trees(dialect: str) -> dict[str, Macro]:
    """The macros of sql/ as trees, or those that are written in the SQL of an engine."""
    native = dialect != "duckdb"
    return read(
        macros.read_statements(dialect) if native else macros.read_statements(), dialect, native
    )


def read(
    statements: Mapping[str, str], dialect: str = "duckdb", native: bool = False
) -> dict[str, Macro]:
    """Statements that make macros, as trees; those that make tables are left out."""
    return {
        name: Macro(name, _defaults(found["parameters"]), _body(found["body"], dialect), native)
        for name, text in statements.items()
        if (found := _SCALAR.match(text))
    }


def _body(text: str, dialect: str) -> exp.Expr:
    """The body of a macro, with fields of structs, x['pos'], as x.pos."""

    def dotted(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Bracket(expressions=[exp.Literal(is_string=True) as name]):
                return exp.Dot(this=node.this, expression=exp.to_identifier(name.this, quoted=True))
        return node

    return parsed(text, dialect).transform(dotted)


def _defaults(listed: str) -> dict[str, exp.Expr | None]:
    parts = (part.partition(":=") for part in re.findall(r"(?:'[^']*'|[^,'])+", listed))
    return {name.strip(): parsed(default) if default else None for name, _, default in parts}


def parsed(text: str, dialect: str = "duckdb") -> exp.Expr:
    """The tree of a text, with all functions as they are written; a RankqlError if it has none."""
    try:
        return _tree(_OPEN_SLICE.sub("[1:", text), dialect)
    except sqlglot.errors.SqlglotError as error:
        line = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0]
        raise RankqlError(f"the query cannot be read as DuckDB's SQL: {line}") from error


def query(text: str, target: Target) -> str:
    """A query that may call our macros, in the SQL of the target."""
    tree = parsed(text)
    for select in tree.find_all(exp.Select):
        # What DuckDB would call it.
        select.set("expressions", [named(part) for part in select.expressions])
    return _text(Translation(target).made(tree), target)


def call(
    metric: str, columns: Mapping[str, str], options: Mapping[str, Any], target: Target
) -> str:
    """A call of a macro, its columns by their names, in the SQL of the target."""
    given: dict[str, exp.Expr] = {
        name: exp.column(exp.to_identifier(column, quoted=True)) for name, column in columns.items()
    }
    given |= {name: _value(name, value) for name, value in options.items()}
    named = [exp.PropertyEQ(this=exp.to_identifier(n), expression=g) for n, g in given.items()]
    return _text(Translation(target).made(exp.Anonymous(this=metric, expressions=named)), target)


def expression(text: str, target: Target) -> str:
    """An expression that may call our macros, in the SQL of the target."""
    return _text(Translation(target).made(parsed(text)), target)


def parameters(name: str, target: Target) -> list[str]:
    """The parameters of a macro, of ours or of those that are written for the target."""
    macro = trees(target.dialect).get(name) or trees("duckdb")[name]
    return [*macro.parameters]


def _text(tree: exp.Expr, target: Target) -> str:
    return target.finish(tree).sql(
        dialect=target.dialect,
        identify=True,
        normalize_functions=False,
        unsupported_level=sqlglot.ErrorLevel.RAISE,
        comments=False,
    )


def _value(name: str, value: Any) -> exp.Expr:
    """A value of an option as a literal."""
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[_value(name, part) for part in value])
    if isinstance(value, float) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    if value is None or isinstance(value, bool | int | float | str):
        return exp.convert(value)
    raise RankqlError(
        f"{name} must be a number, a text, a list of them or the name of a column, not "
        f"{type(value).__name__}; make it a column first"
    )


def named(projection: exp.Expr) -> exp.Expr:
    """A column of a SELECT that calls a macro, by the name that DuckDB gives it."""
    ours = trees("duckdb")
    calls = (found.name.lower() for found in projection.find_all(exp.Anonymous))
    if isinstance(projection, exp.Alias) or not any(name in ours for name in calls):
        return projection
    name = projection.sql(dialect="duckdb", normalize_functions=False)
    return exp.alias_(projection, exp.to_identifier(name, quoted=True))


class Translation:
    """One tree, translated: macros expanded, and everything in it known to the target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._numbers = itertools.count(1)
        # The macros that are being expanded, the innermost last.
        self._within: list[Macro] = []

    def made(self, node: Any, scope: Mapping[str, exp.Expr] | None = None) -> Any:
        """The translation of a tree, in which the names of `scope` stand for trees."""
        scope = scope or {}
        if isinstance(node, list):
            return [self.made(part, scope) for part in node]
        if not isinstance(node, exp.Expr):
            return node
        if isinstance(node, exp.Column):
            if self.asked:
                self.target.check(self, node)
            return self._column(node, scope)
        if isinstance(node, exp.Lambda):
            return self._lambda(node, scope)
        if isinstance(node, exp.Anonymous):
            return self._call(node, scope)
        if isinstance(node, exp.Filter):
            return self._filter(node, scope)
        if isinstance(node, exp.Window) and node.this.name.lower() in trees("duckdb"):
            self.refuse(f"{node.this.name}(...) OVER", "group by the ranking and join it back")
        kind = type(node)
        rule = None if self.native else self.target.rules.get(kind)
        if not self.native and rule is None and kind not in _COMMON:
            self.refuse(kind.__name__)
        if self.asked:
            _same_for_all(self, node)
            self.target.check(self, node)
        made = kind(**{name: self.made(part, scope) for name, part in node.args.items()})
        made = rule(self, made) if rule else made
        return folded(made)

    @property
    def asked(self) -> bool:
        """Is this the text of the user, not of a macro?"""
        return not self._within

    @property
    def native(self) -> bool:
        """Is this the text of the target, which is as it should be?"""
        return bool(self._within) and self._within[-1].native

    def refuse(self, construct: str, remedy: str = "") -> NoReturn:
        """Refuse what has no translation, naming the macro that it is in."""
        ours = [macro.name for macro in self._within if not macro.name.startswith("rankql_")]
        place = f"{ours[0]}: " if ours else ""
        hint = f"; {remedy}" if remedy else ""
        raise RankqlError(f"{place}{construct} has no translation for {self.target.name}{hint}")

    def fresh(self) -> exp.Identifier:
        """A variable that nobody else has."""
        return exp.to_identifier(f"rankql_{next(self._numbers)}")

    def _column(self, node: exp.Column, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        first, *fields = node.parts
        if first.name.lower() not in scope:
            return node.copy()
        made = scope[first.name.lower()].copy()
        for name in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(name.name, quoted=True))
        return made

    def _lambda(self, node: exp.Lambda, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        # With names of their own, so that no column of the user's is taken for one of them.
        names = {name.name.lower(): self.fresh() for name in node.expressions}
        inner = {**scope, **{name: exp.column(made) for name, made in names.items()}}
        return exp.Lambda(this=self.made(node.this, inner), expressions=list(names.values()))

    def _call(self, node: exp.Anonymous, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name, target = node.name.lower(), self.target
        if any(isinstance(argument, exp.Order) for argument in node.expressions):
            self.refuse(f"ORDER BY within {name}()")
        if self.native and not name.startswith("rankql_"):
            return self.function(node.name, *self.made(node.expressions, scope))
        offered = target.metrics is None or name in target.metrics
        unknown = name in target.helpers or (name in macros.read_comments() and not offered)
        if self.asked and unknown:
            self.refuse(f"{name}()")
        macro = target.macros.get(name) or trees(target.dialect).get(name)
        if macro is None or len(macro.parameters) != len(node.expressions):
            macro = trees("duckdb").get(name)
        if macro and name in target.kept:
            given = [*self._given(macro, node.expressions, scope).values()]
            if any(constant(argument) is UNKNOWN for argument in given):
                return exp.Anonymous(this=name, expressions=given)
        if macro and name not in _CALLS:
            return self._expanded(macro, node.expressions, scope)
        made = exp.Anonymous(this=name, expressions=self.made(node.expressions, scope))
        if macro and _worked_out(made) is UNKNOWN:
            return self._expanded(macro, node.expressions, scope)
        if rule := target.rules.get(name):
            return rule(self, made)
        if not macro and name not in FUNCTIONS and name not in target.functions:
            self.refuse(f"{name}()")
        return folded(made)

    def function(self, name: str, *arguments: exp.Expr) -> exp.Expr:
        """A call of a function of the target, worked out where its argument is a constant."""
        values = [constant(argument) for argument in arguments]
        if name in ("typeof", "toTypeName") and type(values[0]) in self.target.types:
            return exp.Literal.string(self.target.types[type(values[0])])
        if None in values and name in self.target.of_null:
            return exp.Null()
        return folded(function(name, *arguments))

    def _expanded(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> exp.Expr:
        bound = self._given(macro, arguments, scope)
        self._within.append(macro)
        made = self.made(macro.body, bound)
        self._within.pop()
        return wrapped(made)

    def _given(
        self, macro: Macro, arguments: Sequence[exp.Expr], scope: Mapping[str, exp.Expr]
    ) -> dict[str, exp.Expr]:
        """What each parameter of a macro stands for in a call."""
        given = bindings(macro, arguments)
        bound = {}
        for parameter, default in macro.parameters.items():
            argument = self.made(given[parameter], scope) if parameter in given else default
            if argument is None:
                raise RankqlError(f"{macro.name} needs the argument {parameter}")
            bound[parameter] = wrapped(argument)
        return bound

    def _filter(self, node: exp.Filter, scope: Mapping[str, exp.Expr]) -> exp.Expr:
        name = node.this.name.lower()
        if name in trees("duckdb"):
            self.refuse(f"FILTER on {name}", "filter the rows")
        condition = self.made(node.expression, scope)
        made = self.made(node.this, scope)

        def filtered(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name in (self.target.aggregates | {name}):
                return exp.Filter(this=part.copy(), expression=condition.copy())
            return part

        # transform() would go on into what it has made
        return _replaced(made, filtered)


def bindings(macro: Macro, arguments: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The arguments of a call by the names of the parameters."""
    given: dict[str, exp.Expr] = {}
    free = iter(macro.parameters)
    for argument in arguments:
        by_name = isinstance(argument, exp.PropertyEQ)
        name = argument.this.name.lower() if by_name else next(free, "")
        if name not in macro.parameters or name in given:
            what = f"{name!r}, unknown or twice" if name else "too many arguments"
            listed = ", ".join(macro.parameters)
            raise RankqlError(f"{macro.name} is given {what}; it has: {listed}")
        given[name] = argument.expression if by_name else argument
    return given


_WHOLE = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)


def _same_for_all(translation: Translation, node: exp.Expr) -> None:
    """Refuse what the user wrote if it may mean something else for some values."""
    match node:
        case exp.Cast() if node.to.this in _WHOLE and not isinstance(node.this, exp.Predicate):
            remedy = "DuckDB rounds, others cut off: round() or floor() will do"
            translation.refuse("a cast of a number to a whole one", remedy)
        case exp.Like() if "\\" in node.expression.name:
            translation.refuse("LIKE with a backslash")
        # Elsewhere the word may be taken for an alias of the table before it.
        case exp.Join() if {node.method, node.kind} & {"ASOF", "POSITIONAL", "SEMI", "ANTI"}:
            word = node.kind if node.kind in ("SEMI", "ANTI") else node.method
            translation.refuse(f"{word} JOIN", "join on a condition, or EXISTS")
        case exp.SetOperation() if node.args.get("by_name"):
            translation.refuse("BY NAME", "write the columns in one order")
        case exp.Div() | exp.IntDiv() | exp.Mod() if translation.target.zero_is_null:
            if _may_be_zero(node.expression):
                divisor = node.expression.sql()
                remedy = f"nullif({divisor}, 0) says that it is NULL"
                translation.refuse(f"a division by {divisor}, which may be 0,", remedy)


def _may_be_zero(node: exp.Expr) -> bool:
    """Is it neither a constant nor NULL where it is 0?"""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return not node.is_string and float(node.this) == 0
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    known = name == "nullif" or (name == "count" and node.find(exp.Star) is not None)
    return not known and node.find(exp.Column, exp.Star) is not None


def plain_condition(node: exp.Expr) -> bool:
    """Is it part of a WHERE, HAVING or ON that NULL passes no more than false?"""
    while isinstance(node.parent, exp.And | exp.Paren):
        node = node.parent
    return isinstance(node.parent, exp.Where | exp.Having)


def _replaced(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The tree with its outermost parts changed."""
    changed = change(node)
    if changed is not node:
        return changed
    for part in list(node.iter_expressions()):
        made = _replaced(part, change)
        if made is not part:
            part.replace(made)
    return node


_ATOMS = (
    *(exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Anonymous, exp.Paren, exp.Case, exp.Dot),
    *(
        exp.Array,
        exp.Struct,
        exp.Cast,
        exp.TryCast,
        exp.Lambda,
        exp.Filter,
        exp.Star,
        exp.Identifier,
    ),
)


def wrapped(node: exp.Expr) -> exp.Expr:
    """The expression in parentheses, where it may become part of another expression."""
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)


# Folding: options are constants, and whole branches depend on them.


def folded(node: exp.Expr) -> exp.Expr:
    """What is known from constants alone, decided here: the rest need not even have a type."""
    match node:
        case exp.Case():
            return _folded_case(node)
        case exp.Paren() if isinstance(node.this, _ATOMS):
            return cast(exp.Expr, node.this)
        case exp.Is() if isinstance(node.expression, exp.Null):
            value = constant(node.this)
            known = isinstance(node.this, exp.Array | exp.Struct) or value is not UNKNOWN
            return exp.convert(value is None) if known else node
        case exp.And() | exp.Or():
            neutral = isinstance(node, exp.And)
            if constant(node.this) is neutral:
                return cast(exp.Expr, node.expression)
            if constant(node.expression) is neutral:
                return cast(exp.Expr, node.this)
            if constant(node.this) is not neutral and isinstance(constant(node.this), bool):
                return exp.convert(not neutral)
        case exp.Anonymous() if node.name.lower() == "coalesce":
            first, *rest = node.expressions
            if rest and constant(first) is None:
                made = exp.Anonymous(this="coalesce", expressions=rest)
                return folded(made) if len(rest) > 1 else rest[0]
            return first if constant(first) is not UNKNOWN else node
        case _ if isinstance(node, exp.Anonymous) or type(node) in _OPERATORS:
            value = _worked_out(node)
            return node if value is UNKNOWN else exp.convert(value)
    return node


UNKNOWN = object()

_OPERATORS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.DPipe: operator.add,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.RegexpLike: lambda text, pattern: bool(re.search(pattern, text)),
    exp.Not: operator.not_,
    exp.Between: lambda value, low, high: low <= value <= high,
    exp.In: lambda value, *among: value in among,
}

# Those that helpers of ours apply to options.
_CALLS: Mapping[str, Callable[..., Any]] = {
    "floor": math.floor,
    "greatest": max,
    "least": min,
    "isfinite": math.isfinite,
    "typeof": lambda value: "VARCHAR" if isinstance(value, str) else "INTEGER",
}


def constant(node: exp.Expr) -> Any:
    """The value of what is known without any row: whole numbers, texts, what is true or false."""
    match node:
        case exp.Paren():
            return constant(node.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return node.this
        case exp.Literal():
            whole = node.this.isdecimal()
            return node.this if node.is_string else int(node.this) if whole else UNKNOWN
        case exp.Cast():
            value = constant(node.this) if isinstance(node.this, exp.Condition) else UNKNOWN
            number = node.to.this in (exp.DType.DOUBLE, exp.DType.BIGINT)
            known = value is None or (number and type(value) is int and value <= 2**53)
            return value if known else UNKNOWN
    return UNKNOWN


def _worked_out(node: exp.Expr) -> Any:
    """The value of an operator or a function whose operands are constants."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    known = _CALLS.get(name) or _OPERATORS.get(type(node))
    values = []
    for part in node.iter_expressions() if known else ():
        values.append(constant(part))
        if type(values[-1]) not in (int, str, bool) or type(values[-1]) is not type(values[0]):
            return UNKNOWN
    return known(*values) if known and values else UNKNOWN


def _folded_case(node: exp.Case) -> exp.Expr:
    kept: list[exp.If] = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = folded(exp.EQ(this=wrapped(node.this.copy()), expression=condition.copy()))
        value = constant(condition)
        if value is False or value is None:
            continue
        if value is True:
            if not kept:
                return cast(exp.Expr, branch.args["true"])
            return exp.Case(this=node.this, ifs=kept, default=branch.args["true"])
        kept.append(branch)
    default = node.args.get("default")
    if not kept:
        return default or exp.Null()
    return exp.Case(this=node.this, ifs=kept, default=default)


def function(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a function of the target."""
    return exp.Anonymous(this=name, expressions=[*arguments])


# Spark


def _indexed(translation: Translation, node: exp.Anonymous) -> exp.Expr:
    """transform() and filter(), whose index begins with 0."""
    values, step = node.expressions
    if len(step.expressions) == 2:
        index = step.expressions[1].name
        one = exp.cast(exp.Literal.number(1), "BIGINT")
        for name in list(step.this.find_all(exp.Column)):
            if name.name == index:
                place = exp.Paren(this=exp.Add(this=name.copy(), expression=one.copy()))
                name.replace(place) if name is not step.this else step.set("this", place)
    return translation.function(node.name.removeprefix("list_"), values, step)


def _element(translation: Translation, node: exp.Bracket) -> exp.Expr:
    """One entry, from 1, or a slice; NULL beyond the end."""
    index, is_slice = entry(translation, node)
    if is_slice:
        end = function("least", index, exp.Literal.number(2**31 - 1))
        return function("slice", node.this, exp.Literal.number(1), exp.cast(end, "INT"))
    if isinstance(index, exp.Literal) and not index.is_string:
        return function("get", node.this, exp.Literal.number(int(index.this) - 1))
    return function(
        "get",
        node.this,
        exp.cast(
            exp.Paren(this=exp.Sub(this=wrapped(index), expression=exp.Literal.number(1))), "INT"
        ),
    )


def _matched(translation: Translation, node: exp.SimilarTo) -> exp.Expr:
    return exp.RegexpLike(this=node.this, expression=pattern(translation, node))


def _shift(name: str) -> Rule:
    return lambda _, node: function(name, node.this, exp.cast(node.expression, "INT"))


def _file(translation: Translation, node: exp.Table) -> exp.Expr:
    """FROM 'a.parquet'"""
    name = node.this
    if isinstance(name, exp.Identifier) and name.name.endswith((".parquet", ".pq")) and not node.db:
        node.set("db", exp.to_identifier("parquet"))
    elif not isinstance(name, exp.Identifier):
        translation.refuse(f"the table function {name.sql()}")
    return node


# For several engines


def sorted_by(up: Callable[[exp.Expr], exp.Expr], down: Callable[[exp.Expr], exp.Expr]) -> Rule:
    """list_sort() with NULL last, as all our sorts have it."""

    def rule(translation: Translation, node: exp.Anonymous) -> exp.Expr:
        values, *how = node.expressions
        match [part.this for part in how if isinstance(part, exp.Literal)]:
            case ["ASC", "NULLS LAST"]:
                return up(values)
            case ["DESC", "NULLS LAST"]:
                return down(values)
        translation.refuse("list_sort() in another order than 'ASC' or 'DESC' with 'NULLS LAST'")

    return rule


def entry(translation: Translation, node: exp.Bracket) -> tuple[exp.Expr, bool]:
    """The index of an entry, from 1; or the end of a slice from 1, and that it is one."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        begins = index.this is None or index.this.sql() == "1"
        if index.expression is None or not begins or index.args.get("step"):
            translation.refuse("a slice that does not begin with 1 and have an end")
        return index.expression, True
    if isinstance(index, exp.Neg):
        translation.refuse("an index from the end")
    return index, False


def pattern(translation: Translation, node: exp.SimilarTo) -> exp.Literal:
    """The pattern of SIMILAR TO, which all of the text must match."""
    if not isinstance(node.expression, exp.Literal):
        translation.refuse("SIMILAR TO with a pattern that is no constant")
    return exp.Literal.string(f"^({node.expression.this})$")


def cast_or_fail(error: str) -> Rule:
    """A cast that fails where it cannot be, as DuckDB's does, and is not NULL."""

    def rule(translation: Translation, node: exp.Cast) -> exp.Expr:
        known = constant(node.this) is not UNKNOWN
        if known or not translation.asked or node.to.args.get("nested"):
            return node
        failed = exp.Is(this=node.copy(), expression=exp.Null())
        given = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
        message = f"{node.this.sql()} holds what cannot be cast to {node.to.sql()}"
        raised = exp.cast(function(error, exp.Literal.string(message)), node.to)
        branch = exp.If(this=exp.And(this=failed, expression=given), true=raised)
        return exp.Case(ifs=[branch], default=node)

    return rule


def as_double(translation: Translation, node: exp.Div) -> exp.Expr:
    """A quotient: that of DECIMALs has few places elsewhere."""
    if translation.asked:
        node.set("this", exp.cast(node.this, "DOUBLE"))
    return node


def _mean(translation: Translation, node: exp.Anonymous) -> exp.Expr:
    """A mean, which of DECIMALs has few places."""
    return averaged(node) if translation.asked else node


def averaged(node: exp.Anonymous) -> exp.Anonymous:
    """avg() of values as DOUBLE."""
    (value,) = node.expressions
    if isinstance(value, exp.Distinct):
        made = exp.Distinct(expressions=[exp.cast(part, "DOUBLE") for part in value.expressions])
        return function("avg", made)
    return function("avg", exp.cast(value, "DOUBLE"))


def _checked(translation: Translation, node: exp.Expr) -> None:
    if isinstance(node, exp.In) and node.args.get("query"):
        negated = node.parent if isinstance(node.parent, exp.Not) else node
        if not plain_condition(negated):
            remedy = "join it; there it is false where it should be NULL"
            translation.refuse("IN (SELECT ...) beyond a condition of WHERE", remedy)


SPARK = Target(
    "Spark",
    "spark",
    functions=frozenset(
        ("ceil", "flatten", "greatest", "least", "log2", "pow", "power", "stddev_samp", "var_samp")
    ),
    aggregates=frozenset({"any_value", "collect_list", "count_if"}),
    types={int: "int", str: "string", type(None): "void"},
    of_null=frozenset({"transform", "filter"}),
    helpers=frozenset({"typeof", "encode"}),
    zero_is_null=True,  # unless spark.sql.ansi.enabled
    check=_checked,
    rules={
        "list_transform": _indexed,
        "list_filter": _indexed,
        "list_sort": sorted_by(
            lambda values: function("array_sort", values),
            lambda values: function("sort_array", values, exp.false()),
        ),
        exp.Bracket: _element,
        exp.Slice: lambda _, node: node,
        exp.SimilarTo: _matched,
        exp.Cast: cast_or_fail("raise_error"),
        exp.Div: as_double,
        "avg": _mean,
        exp.BitwiseRightShift: _shift("shiftright"),
        exp.BitwiseLeftShift: _shift("shiftleft"),
        exp.IntDiv: lambda _, node: function("`div`", node.this, node.expression),
        exp.Table: _file,
    },
)


def counted(grades: Iterable[float]) -> Target:
    """Spark, the largest values of a group not collected but counted, for they are among a few.

    Sums are all that is left then: Spark adds them up in place, before the shuffle too.
    """
    values = sorted({*map(float, grades)}, reverse=True)
    if not values or not all(0 < value < math.inf for value in values):
        raise RankqlError("grades must be the numbers above 0 that rel may be")
    among = ", ".join(f"{value!r}D" for value in values)
    shown = ", ".join(f"{value:g}" for value in reversed(values))
    other = f"'rel must be one of the grades given, {shown}, not ' || CAST(value AS STRING)"
    lists = (
        f"array_repeat({value!r}D, CAST(least(k, count_if(CASE WHEN value IN ({among}) "
        f"THEN value = {value!r}D WHEN value > 0 THEN CAST(raise_error({other}) AS BOOLEAN) END)) "
        "AS INT))"
        for value in values
    )
    largest = f"slice(rankql_keep(concat({', '.join(lists)})), 1, CAST(k AS INT))"
    body = parsed(largest, "spark")
    return replace(SPARK, macros={"max": Macro("max", {"value": None, "k": None}, body, True)})
