"""Parse SQL and macros into trees of sqlglot."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects import DuckDB, Spark

from rankql import macros
from rankql.errors import RankqlError


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
    """The macros of sql/, or those in sql/<dialect>.sql."""
    native = dialect != "duckdb"
    return read_macros(
        macros.read_statements(dialect) if native else macros.read_statements(), dialect, native
    )


def read_macros(
    statements: Mapping[str, str], dialect: str = "duckdb", native: bool = False
) -> dict[str, Macro]:
    """Parse CREATE MACRO statements, except those of table macros."""
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
    try:
        return _parse(_OPEN_SLICE.sub("[1:", text), dialect)
    except sqlglot.errors.SqlglotError as error:
        line = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0]
        raise RankqlError(f"The query cannot be read as DuckDB's SQL: {line}") from error


# sqlglot reads `[:f(x)]` as a placeholder.
_OPEN_SLICE = re.compile(r"(?<=[\w)\]])\[:")


def _parse(text: str, dialect: str) -> exp.Expr:
    """Parse a statement or raise a SqlglotError."""
    kind, (names, functions) = _DIALECTS[dialect](), _parser_words(dialect)
    tokens = kind.tokenize(text)
    for token in [*_function_names(tokens, functions), *_lambda_variables(tokens)]:
        if token.token_type in names and not token.text.endswith(_UNKNOWN):
            token.text += _UNKNOWN
    trees = kind.parser().parse(tokens, text)
    if len(trees) != 1 or trees[0] is None:
        raise sqlglot.ParseError("it must be one statement")
    for part in trees[0].find_all(exp.Identifier, exp.Anonymous):
        if isinstance(part.this, str):
            part.set("this", part.this.removesuffix(_UNKNOWN))
    return cast(exp.Expr, trees[0])


_DIALECTS = {
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
    parser = _DIALECTS[dialect]().parser()
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
