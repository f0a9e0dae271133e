"""The errors of rankql, and checks of arguments that raise them."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from itertools import chain
from numbers import Real
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


# Arguments and their values.
Call: TypeAlias = Mapping[str, Any]


class Advice(str):
    """A text with the calls that it names."""

    calls: tuple[Call, ...] = ()


def advise(*parts: str | Call) -> Advice:
    """A text of parts: calls, which Python writes as arguments, and texts, which keep their own."""
    advice = Advice("".join(x if isinstance(x, str) else as_arguments(x) for x in parts))
    advice.calls = remedies_of(*parts)
    return advice


def remedies_of(*parts: object) -> tuple[Call, ...]:
    """The calls among these and in texts that name some."""
    own = ([x] if isinstance(x, Mapping) else getattr(x, "calls", ()) for x in parts)
    return tuple(chain.from_iterable(own))


class RankqlError(ValueError):
    """Wrong use of rankql: what is wrong, and what to do about it.

    `remedies` are the calls that the message names.
    """

    def __init__(self, message: object = "") -> None:
        self.remedies = remedies_of(message)
        # polars raises an error inside an expression again, with the expression below the message.
        super().__init__(str(message).partition("\n\nThis error occurred")[0])


class Question(RankqlError):
    """What is not clear. `calls` answer it: Python prints them as arguments, the command line as
    options. Without a call, `otherwise` says what to do; `others` are answers that cannot be tried,
    and `hint` follows. `open` are calls in which ... stands for a value that the caller knows.
    `columns` lists what there is, to fill in the blanks of a call.
    """

    def __init__(
        self,
        text: str,
        calls: Iterable[Call] = (),
        hint: str = "",
        otherwise: str = "",
        others: Iterable[str] = (),
        open: Iterable[Call] = (),
    ) -> None:
        self.open = [*open]
        self.text, self.calls, self.hint, self.otherwise = text, [*calls], hint, otherwise
        # Does the text have the calls?
        self.stated = False
        self.others, self.columns, self.blanks = [*others], "", dict[str, Any]()
        super().__init__(self.format(as_arguments))

    def with_columns(self, columns: str, blanks: Call) -> Question:
        """The question that ends with the columns and a call to fill in."""
        self.columns, self.blanks = columns, {**blanks}
        self.args = (self.format(as_arguments),)
        return self

    def format(self, write: Callable[[Call], str]) -> str:
        """The question and its calls, as `write` writes them."""
        if self.stated:
            return self.text
        calls = " or ".join(dict.fromkeys(map(write, self.calls)))
        answer = f"Pass {calls}" if calls else self.otherwise
        fill = "a grade for each value: "
        blank = [f"{fill * ('Ellipsis' in repr(x))}{write(x)}" for x in self.open]
        if blank and not calls:
            answer, *blank = [f"Pass {blank[0]}", *blank[1:]]
        answers = ", or ".join(filter(None, [answer, *blank, *self.others]))
        asks = self.text.endswith("?")
        stop = "" if asks or not answer else "."
        question = f"{self.text}{stop}{' ' * bool(answer)}{answers}{self.hint}"
        stop = "" if asks and not answers and not self.hint else "."
        fill_in = f"{stop} {self.columns}. Fill in: {write(self.blanks)}" if self.columns else ""
        return f"{question}{fill_in}"


def as_arguments(call: Call) -> str:
    """A call as Python writes it."""
    text = ", ".join(f"{name}={value!r}" for name, value in call.items())
    return text.replace(": Ellipsis", ": ...")


class Ungraded(Question):
    """A table has no grades, and no other table has them."""


# Sums of higher grades may overflow; rankql_is_rel in common.sql refuses them too.
HIGHEST_GRADE = 1e302
TOO_HIGH = ". It is at most 1e302: rescale the grades"

# What DuckDB makes of an error that the macro rankql_fail raises.
MACRO_ERROR = "Could not convert string 'rankql: {}' to INT64"
_MACRO_ERROR = re.compile(MACRO_ERROR.format("(.*)"), re.DOTALL)

# The lines in which DuckDB suggests names.
_SUGGESTION = re.compile(r"\s*(Candidate (bindings|tables|functions|macros)\b.*:.|Did you mean )")


def python_message(error: Exception) -> str:
    """Return the message of a DuckDB error on one line, with arguments of macros as in Python."""
    line = database_message(error)
    if not _MACRO_ERROR.search(str(error)):
        return line
    return re.sub(r"(\w+) := ?(NULL)?", lambda x: f"{x[1]}={'None' if x[2] else ''}", line)


def database_message(error: Exception) -> str:
    """Return the message of a DuckDB error on one line.

    It is the message of the macro that failed, or else DuckDB's first line and the names that it
    suggests, without the SQL.
    """
    if match := _MACRO_ERROR.search(str(error)):
        return " ".join(match[1].splitlines())
    first, *further = str(error).splitlines() or [""]
    names = [line.strip() for line in further if _SUGGESTION.match(line)]
    return " ".join([re.sub(r"^[\w ]+ Error: ", "", first), *names])


def name_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let the TypeError of a call with other arguments name those that there are."""
    parameters = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with arguments_of(function.__name__, [*parameters.parameters][1:]):
            parameters.bind(*args, **options)
        return function(*args, **options)

    return call


@contextmanager
def arguments_of(function: str, names: Iterable[str]) -> Iterator[None]:
    """Let a TypeError about the arguments of a function name those that there are."""
    try:
        yield
    except TypeError as error:
        known = ", ".join(f"{name}=" for name in names)
        takes = f"takes {known}" if known else "takes no arguments. Filter the frame"
        raise TypeError(f"{function} {takes}: {error}") from None


def closest(name: object, choices: Iterable[str]) -> str:
    """The most similar name, '' if none is similar."""
    import difflib  # not at the top, as statistics: a command without an error starts faster

    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return lower[close[0]] if close else ""


def did_you_mean(name: object, choices: Sequence[str]) -> str:
    """Return the end of an error about an unknown name: the most similar one, then all."""
    close = closest(name, choices)
    hint = f" Did you mean {close!r}?" if close else ""
    return f".{hint} Available: {', '.join(choices)}" if choices else ". There are none"


def describe_unknown(kind: str, name: object, choices: Sequence[str]) -> str:
    """Return an error about an unknown name: the most similar one, then all."""
    return f"Unknown {kind} {name!r}{did_you_mean(name, choices)}."


def require_known(kind: str, name: object, choices: Sequence[str]) -> None:
    """Refuse an unknown name."""
    if name not in choices:
        raise RankqlError(describe_unknown(kind, name, choices))


def require_package(package: str, extra: str, what: str) -> None:
    """Raise an error if a package of an extra is not installed."""
    require(bool(find_spec(package)), f"{what} needs {package}: pip install 'rankql[{extra}]'")


def name_stats_extra(error: BaseException, what: str) -> BaseException:
    """The error about a failed import of numpy or scipy that names their extra; else the error."""
    lacks = isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0]
    needs = f"{what} needs scipy: pip install 'rankql[stats]'"
    return RankqlError(needs) if lacks in ("numpy", "scipy") else error


def require(ok: bool, message: str) -> None:
    """Raise the message unless ok."""
    if not ok:
        raise RankqlError(message)


def as_number(value: object) -> float:
    """An argument as a float; NaN, which fails every comparison, if it is not a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def parse_number(text: str) -> float | None:
    """The number that a text is; None if it is none. Python alone reads 1_0 as 10."""
    try:
        return float(text.replace("_", "?"))
    except ValueError:
        return None


def describe(value: object) -> str:
    """An argument in an error about numbers, which tells text and decimals from them."""
    if isinstance(value, str):
        return f"the text {value!r}"
    return repr(value) if isinstance(value, Decimal) else str(value)


def is_whole_number(value: object, least: float = 1) -> bool:
    """Is it a whole number of at least `least`, such as 3 or 3.0, that a float can represent?"""
    return least <= as_number(value) <= 2**53 and as_number(value) % 1 == 0


def require_cutoff(k: object) -> None:
    """Refuse an invalid cutoff."""
    wrong = f"k must be a whole number from 1, not {describe(k)}"
    require(k is None or is_whole_number(k), f"{wrong}. Leave k out for the complete ranking")


def require_whole_number(name: str, value: object, least: int) -> None:
    """Refuse an argument that is not an int of at least `least`."""
    ok = isinstance(value, int) and is_whole_number(value, least)
    require(ok, f"{name} must be a whole number from {least}, not {describe(value)}")


def require_choice(name: str, value: object, *choices: str) -> None:
    """Refuse an option that is not one of the choices."""
    *most, last = map(repr, choices)
    known = isinstance(value, str) and value in choices
    require(known, f"{name} must be {', '.join(most)} or {last}, not {value}")


def require_flag(name: str, value: object) -> None:
    """Refuse an option that is not true or false."""
    require(isinstance(value, bool), f"{name} must be true or false, not {value}")


def require_probability(name: str, value: object, margin: float = 0.0) -> None:
    """Refuse an argument that is not between 0 and 1, at least `margin` from both."""
    ok = margin < as_number(value) < 1 - margin
    require(ok, f"{name} must lie between 0 and 1, not {describe(value)}")


def require_plain_name(name: object) -> None:
    """Refuse a name that polars takes for a pattern of names."""
    pattern = isinstance(name, str) and (name == "*" or name[:1] + name[-1:] == "^$")
    require(not pattern, f"{name!r} stands for several columns in polars. Rename the column")


def normal_z(confidence: float) -> float:
    """The half width of a normal interval of this confidence, in standard errors."""
    from statistics import NormalDist

    require_probability("confidence", confidence)
    return -NormalDist().inv_cdf((1 - as_number(confidence)) / 2)
