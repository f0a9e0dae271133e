"""SQL and macros as trees of sqlglot, and what DuckDB computes of them.

Options are constants, and complete branches of the macros depend on them. What depends on no row is
computed by DuckDB while a query is written: a wrong option is an error at once, and all engines get
the same constants.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, cast

import duckdb
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects import DuckDB, Spark

from rankql.core.base.errors import RankqlError, database_message
from rankql.core.metrics import macros
from rankql.core.tables.private import create_macros, private_connection


@dataclass(frozen=True)
class Macro:
    """A parsed macro with the defaults of its parameters."""

    name: str
    parameters: Mapping[str, exp.Expr | None]
    body: exp.Expr
    # Whether it is written in the SQL of the target.
    native: bool = False


@cache
def macro_trees(dialect: str) -> dict[str, Macro]:
    """The macros of sql/, or those in sql/<dialect>.sql; not table macros."""
    native = dialect != "duckdb"
    statements = macros.read_statements(dialect) if native else macros.read_statements()
    return {
        name: Macro(
            name, _parse_defaults(match["parameters"]), _parse_body(match["body"], dialect), native
        )
        for name, text in statements.items()
        if (match := _SCALAR.match(text))
    }


# A macro that is an expression, not a table.
_SCALAR = re.compile(
    r"\A[^(]*\((?P<parameters>[^)]*)\)\s+AS(?!\s+TABLE\b)\s(?P<body>.*?);\s*$", re.M | re.S
)


def _parse_body(text: str, dialect: str) -> exp.Expr:
    """Parse the body of a macro. Fields of structs, x['pos'], become x.pos."""

    def dotted(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Bracket(expressions=[exp.Literal(is_string=True) as name]):
                return exp.Dot(this=node.this, expression=exp.to_identifier(name.this, quoted=True))
        return node

    return parse_sql(text, dialect).transform(dotted)


def _parse_defaults(listed: str) -> dict[str, exp.Expr | None]:
    parts = (part.partition(":=") for part in re.findall(r"(?:'[^']*'|[^,'])+", listed))
    return {name.strip(): parse_sql(default) if default else None for name, _, default in parts}


def bind_arguments(macro: Macro, arguments: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The arguments of a call by parameter."""
    bound: dict[str, exp.Expr] = {}
    free = iter(macro.parameters)
    for argument in arguments:
        by_name = isinstance(argument, exp.PropertyEQ)
        name = argument.this.name.lower() if by_name else next(free, "")
        if name not in macro.parameters or name in bound:
            raise argument_error(macro.name, name, macro.parameters)
        bound[name] = argument.expression if by_name else argument
    return bound


def argument_error(name: str, argument: str, parameters: Collection[str]) -> RankqlError:
    """The error about an argument that a macro does not take; '' means one too many."""
    problem = f"{argument!r} is unknown or repeated" if argument else "too many arguments"
    return RankqlError(f"{name}: {problem}. Parameters: {', '.join(parameters)}")


def name_projection(projection: exp.Expr) -> exp.Expr:
    """Name a selected expression that calls a macro as DuckDB names it."""
    ours = macro_trees("duckdb")
    calls = (match.name.lower() for match in projection.find_all(exp.Anonymous))
    if isinstance(projection, exp.Alias) or not any(name in ours for name in calls):
        return projection
    name = projection.sql(dialect="duckdb", normalize_functions=False)
    return exp.alias_(projection, exp.to_identifier(name, quoted=True))


def parse_sql(text: str, dialect: str = "duckdb") -> exp.Expr:
    """Parse a statement. Functions keep the names that are written."""
    kind, (names, functions) = AS_WRITTEN[dialect](), _parser_words(dialect)
    text = _OPEN_SLICE.sub("[1:", text)
    try:
        tokens = kind.tokenize(text)
        for token in [*_function_names(tokens, functions), *_lambda_variables(tokens)]:
            if token.token_type in names and not token.text.endswith(_UNKNOWN):
                token.text += _UNKNOWN
        (tree,) = kind.parser().parse(tokens, text)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        line = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0]
        raise RankqlError(f"The query cannot be read as one statement of DuckDB: {line}") from error
    if tree is None:
        raise RankqlError("The query is empty")
    for part in tree.find_all(exp.Identifier, exp.Anonymous):
        if isinstance(part.this, str):
            part.set("this", part.this.removesuffix(_UNKNOWN))
    return cast(exp.Expr, tree)


# sqlglot reads `[:f(x)]` as a placeholder.
_OPEN_SLICE = re.compile(r"(?<=[\w)\]])\[:")


AS_WRITTEN = {
    # Keep indices as they are written.
    kind.__name__.lower(): type("Plain", (kind,), {"INDEX_OFFSET": 0})
    for kind in (DuckDB, Spark)
}


# A suffix that makes names unknown to sqlglot, so that it keeps functions and variables as written.
# Compiled sqlglot does not allow a subclass of its parser.
_UNKNOWN = "\x1a"


@cache
def _parser_words(dialect: str) -> tuple[frozenset[Any], frozenset[str]]:
    """Token types that can be names, and the functions that sqlglot knows."""
    parser = AS_WRITTEN[dialect]().parser()
    names = frozenset({*parser.ID_VAR_TOKENS, *parser.FUNC_TOKENS} - {TokenType.STRING})
    known = {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}
    return names, frozenset(known - {"CASE", "CAST", "TRY_CAST"})


def _function_names(tokens: list[Token], functions: Collection[str]) -> Iterator[Token]:
    """Tokens that name functions, or that sqlglot would take for functions."""
    for token, after in itertools.pairwise(tokens):
        name, then = token.text.upper(), after.token_type
        called = then == TokenType.L_PAREN and name in functions
        # If `list` is a name, list[1] is an entry of it.
        if called or (name == "LIST" and then == TokenType.L_BRACKET):
            yield token


def _lambda_variables(tokens: list[Token]) -> Iterator[Token]:
    """Tokens of lambda variables: `lambda x, i: ...`, `x -> ...`, `(x, i) -> ...`."""
    for i, token in enumerate(tokens):
        if token.text.lower() == "lambda":
            yield from itertools.takewhile(lambda part: part.text != ":", tokens[i + 1 :])
        elif token.token_type == TokenType.ARROW:
            before = tokens[i - 1 :: -1]
            listed = itertools.takewhile(lambda part: part.text != "(", before)
            yield from listed if before[0].text == ")" else before[:1]


AGGREGATES = {"any_value", "avg", "count", "list", "max", "min", "sum"}

# Syntax that DuckDB computes where no row decides it.
COMPUTED = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.DPipe, exp.Paren, exp.Not, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Like),
    *(exp.SimilarTo, exp.Cast, exp.TryCast, exp.Bracket, exp.Anonymous),
)


def is_computable(node: exp.Expr) -> bool:
    """Can DuckDB compute it while the query is written?

    An integer with its type stays: without it, it is an INT in Spark.
    """
    literal = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
    typed = literal and node.is_type("BIGINT")
    return isinstance(node, COMPUTED) and not typed and is_constant(node)


def is_constant(node: exp.Expr) -> bool:
    """Does it depend on no row?"""
    return not any(
        isinstance(part, exp.Column | exp.Star | exp.Window | exp.Query | exp.Lambda)
        or (isinstance(part, exp.Anonymous) and part.name.lower() not in _scalar_functions())
        for part in node.walk()
    )


@cache
def _scalar_functions() -> frozenset[str]:
    """The scalar functions and macros of DuckDB. Targets have others."""
    kinds = "('scalar', 'macro')"
    query = f"SELECT function_name FROM duckdb_functions() WHERE function_type IN {kinds}"
    names = {name for (name,) in _fetch(query)}
    return frozenset((names | {*macro_trees("duckdb")}) - {"error", "max", "min", "list"})


def compute_constant(node: exp.Expr) -> exp.Expr:
    """The literal that DuckDB computes."""
    text = node.sql(dialect="duckdb", normalize_functions=False)
    return to_literal(_compute_in_duckdb(text), typed=True)


@cache
def _compute_in_duckdb(text: str) -> Any:
    try:
        ((value,),) = _fetch(f"SELECT {text}")
    except duckdb.Error as error:
        raise RankqlError(database_message(error)) from error
    return value


def _fetch(query: str) -> list[Any]:
    with private_connection() as con:
        return con.execute(create_macros(con, query, checked=True)).fetchall()


def to_literal(value: Any, typed: bool) -> exp.Expr:
    """The literal of a value; numbers with a point are cast to DOUBLE if `typed`."""
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[to_literal(part, typed) for part in value])
    if isinstance(value, dict):
        fields = (
            (exp.to_identifier(n, quoted=True), to_literal(v, typed)) for n, v in value.items()
        )
        return exp.Struct(expressions=[exp.PropertyEQ(this=n, expression=v) for n, v in fields])
    if value is None or isinstance(value, str | bool | int):
        return exp.convert(value)
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
        literal = exp.convert(float(value))
        return exp.cast(literal, "DOUBLE") if typed else literal
    kinds = "a number, a text or a list of them"
    raise RankqlError(f"An option must be {kinds}, not {value}. Make it a column first")


def constant_condition(node: exp.Expr) -> bool | exp.Expr | None:
    """True, False or None (for NULL) if the condition is constant, else the condition."""
    match node.unnest():
        case exp.Null():
            return None
        case exp.Boolean() as value:
            return bool(value.this)
    return node


def fold(node: exp.Expr) -> exp.Expr:
    """The expression without the parts that constants decide."""
    match node:
        case exp.Paren() if isinstance(node.this, _ATOMS):
            return cast(exp.Expr, node.this)
        case exp.And() | exp.Or():
            neutral = isinstance(node, exp.And)
            one, other = constant_condition(node.this), constant_condition(node.expression)
            if one is neutral or other is (not neutral):
                return cast(exp.Expr, node.expression)
            if other is neutral or one is (not neutral):
                return cast(exp.Expr, node.this)
        case exp.Anonymous() if node.name.lower() == "coalesce":
            first, *rest = node.expressions
            if isinstance(first, exp.Null) and rest:
                return fold(function_call("coalesce", *rest)) if len(rest) > 1 else rest[0]
            return first if is_constant(first) and not isinstance(first, exp.Null) else node
    return node


def parenthesise(node: exp.Expr) -> exp.Expr:
    """The expression in parentheses, where it may become part of another expression."""
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)


_ATOMS = (
    *(exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Anonymous, exp.Paren, exp.Case, exp.Dot),
    *(exp.Array, exp.Struct, exp.Cast, exp.TryCast, exp.Lambda, exp.Filter, exp.Star),
    exp.Identifier,
)


def function_call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a function of the target."""
    return exp.Anonymous(this=name, expressions=[*arguments])


@cache
def is_scalar(name: str) -> bool:
    """Whether a macro or a DuckDB function is an expression over one row."""
    if name not in macro_trees("duckdb"):
        return name not in AGGREGATES
    body = macro_trees("duckdb")[name].body
    called = {call.name.lower() for call in body.find_all(exp.Anonymous)}
    if called & AGGREGATES or body.find(exp.Window):
        return False
    return all(is_scalar(other) for other in called & set(macro_trees("duckdb")) - {name})
