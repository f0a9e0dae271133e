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

from rankql.core.base.callers import last_of_caller, shows_all, skip_libraries
from rankql.core.base.layout import ListedColumn, align_columns, indent

P = ParamSpec("P")
T = TypeVar("T")
# So many known names are shown; there are up to 27.
_KNOWN = 8
# The page with what to write for each kind of data, and the form that reaches most of them, in
# Python and on the command line.
BY_HAND = "docs/by-hand.md#{}".format
_DICTS = "two dicts: {query: [ids in order] or {id: score}} and {query: [ids] or {id: grade}}"
_ITEM = "--item A,B: each a column, a path or an SQL list of ids, B of the judgments or a MAP"

# The names of today for those of before.
RENAMED = {"ok": "passed", "Report": "CheckResult"}

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

    `remedies` are the calls that the message names. Each is on a line of its own where it is shown.
    """

    __module__ = "rankql.errors"  # where callers import it from, as a traceback says

    def __init__(self, message: object = "") -> None:
        self.remedies = remedies_of(message)
        # polars raises an error inside an expression again, with the expression below the message.
        super().__init__(str(message).partition("\n\nThis error occurred")[0])

    @property
    def text(self) -> str:
        """The sentence, with its remedies as arguments."""
        return str(self.args[0])

    @text.setter
    def text(self, text: str) -> None:
        self.args = (text,)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: no frame below the last one of the caller."""
        from IPython import get_ipython  # which calls this

        if last := last_of_caller(self.__traceback__):
            last.tb_next = None
        show = get_ipython().InteractiveTB
        lines: list[str] = show.structured_traceback(
            type(self), self, self.__traceback__, show.tb_offset
        )
        return lines

    def name_argument(self, name: str, argument: str) -> None:
        """Call an argument as the function does that was called."""
        self.text = re.sub(rf"\b{name}=", f"{argument}=", self.text)
        self.remedies = tuple(_rename([*self.remedies], name, argument))

    def __str__(self) -> str:
        return self.format(as_arguments)

    def format(self, write: Callable[[Call], str]) -> str:
        """The sentence, and each remedy on a line, as `write` writes it."""
        calls = {as_arguments(x): x for x in self.remedies}
        if not calls:
            return self.text
        one = "|".join(sorted(map(re.escape, calls), key=len, reverse=True))

        def on_line(found: re.Match[str]) -> str:
            together = (calls[x].items() for x in re.findall(one, found[0]))
            meaning = found[0].partition("  # ")
            return f"\n    {write(dict(chain.from_iterable(together)))}{''.join(meaning[1:])}\n"

        text = re.sub(rf"({one})(, ({one}))*(  # [^\n]*)?", on_line, self.text)
        lines = (x.rstrip() if x[:4] == " " * 4 else x.strip(" .,") for x in text.split("\n"))
        return "\n".join(x for x in lines if x)


class EqualRows(RankqlError):
    """Duplicates among which some rows are equal in all columns: these may count once."""

    __module__ = "rankql.errors"

    def __init__(self, message: str, source: str) -> None:
        super().__init__(message)
        self.source = source


class Question(RankqlError):
    """What is not clear. `calls` answer it: Python prints them as arguments, the command line as
    options. Without a call, `otherwise` says what to do, or `blanks` is a call to fill in; `others`
    are answers that cannot be tried, and `hints` are further sentences. `open` are calls in which
    ... stands for a value that the caller knows.

    `meanings` are words beside a call, by what `as_arguments` writes, and `metrics` those for which
    it matters whose grades count. The calls of a `certain` question are offered without a trial.

    ungraded: a table has no grades, and no other table has them. unnamed: the first line of a file
    may be data.
    known: names that would say it; found: those that there are. `columns` lists some of these with
    their values, and `more` names the others. `row` is that of the page on shapes by hand.
    """

    __module__ = "rankql.errors"

    def __init__(
        self,
        text: str,
        calls: Iterable[Call] = (),
        hints: Iterable[str] = (),
        otherwise: str = "",
        others: Iterable[str] = (),
        open: Iterable[Call] = (),
        blanks: Call | None = None,
        known: Iterable[str] = (),
        found: Iterable[str] = (),
        ungraded: bool = False,
        unnamed: bool = False,
    ) -> None:
        super().__init__(text)
        self.calls, self.open, self.blanks = [*calls], [*open], blanks or {}
        self.hints, self.otherwise, self.others = [*hints], otherwise, [*others]
        self.known, self.found = [*known], [*found]
        self.ungraded, self.unnamed = ungraded, unnamed
        self.row, self.meanings, self.metrics = "", dict[str, str](), list[str]()
        self.certain = False
        self.columns, self.more = list[ListedColumn](), dict[str, list[str]]()

    def name_argument(self, name: str, argument: str) -> None:
        """Call an argument as the function does that was called, in its calls too."""
        super().name_argument(name, argument)
        self.calls, self.open = (_rename(x, name, argument) for x in (self.calls, self.open))
        (self.blanks,) = _rename([self.blanks], name, argument)

    def format(self, write: Callable[[Call], str]) -> str:
        """The question in lines, and its calls as `write` writes them."""
        if self.remedies:  # which are the calls
            return super().format(write)
        blank = [write(x) for x in self.open if "Ellipsis" in repr(x)]
        complete = [write(x) for x in self.open if "Ellipsis" not in repr(x)]
        calls = [*dict.fromkeys(map(write, self.calls))]
        if self.meanings:
            words = {write(x): self.meanings.get(as_arguments(x), "") for x in self.calls}
            width = max(map(len, words), default=0)
            calls = [f"{x:{width}}    {y}".rstrip() for x, y in words.items()]
        lines = [_sentence(self.text)]
        lines += indent("Pass one of:" if len(calls) > 1 else "Pass:", calls)
        lines += indent(f"{'Or' if calls else 'Pass'} a grade for each value:", blank)
        lines += indent("Or:" if calls or blank else "Pass:", complete)
        if len(lines) == 1:
            fill_in = [write(self.blanks)] if self.blanks else []
            way = ["", _sentence(self.otherwise)]
            lines += way if self.otherwise else indent("Fill in:", fill_in)
        answered = len(lines) > 1
        for text in self.others:
            lines += ["", _sentence(f"Or {text}" if answered else f"{text[0].upper()}{text[1:]}")]
        lines += chain.from_iterable(["", _sentence(x)] for x in self.hints)
        if self.row and not (calls or self.otherwise):
            form = _DICTS if write is as_arguments else _ITEM
            lines += ["", f"By hand, {form}. See {BY_HAND(self.row)}"]
        if self.columns:
            lines += ["", *align_columns(self.columns)]
            more = (f"in {x}: {', '.join(names)}" for x, names in self.more.items() if names)
            lines += [f"Also {'; '.join(more)}"] if any(self.more.values()) else []
        elif self.found:
            names = {"Found": self.found, "Known": self.known[:_KNOWN] * (not calls)}
            lines += ["", *(f"{x}: {', '.join(some)}" for x, some in names.items() if some)]
        return "\n".join(lines)


def _rename(calls: Iterable[Call], name: str, argument: str) -> list[Call]:
    return [{argument if x == name else x: y for x, y in call.items()} for call in calls]


def _sentence(text: str) -> str:
    """A text with the stop that it lacks."""
    return text if not text or text[-1] in "?." else f"{text}."


def as_arguments(call: Call) -> str:
    """A call as Python writes it."""
    text = ", ".join(f"{name}={value!r}" for name, value in call.items())
    return text.replace(": Ellipsis", ": ...")


def for_callers(function: Callable[P, T]) -> Callable[P, T]:
    """A public function whose errors show the line that called it.

    Plain Python adds the frame that raises. IPython and pytest hide it.
    """

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        __tracebackhide__ = True  # of pytest
        try:
            return function(*args, **keywords)
        except RankqlError as error:
            if shows_all():
                raise
            # It is the error itself, which keeps its cause.
            raise _cut(error)  # noqa: B904

    call.__module__ = "rankql"  # where pickle finds it
    return call


def _cut(error: RankqlError) -> RankqlError:
    """The error without frames of libraries above the caller's own functions, as its cause."""
    if error.__cause__:
        error.__cause__.with_traceback(skip_libraries(error.__cause__.__traceback__))
    elif error.__context__ and not skip_libraries(error.__context__.__traceback__):
        error.__suppress_context__ = True  # what we caught says nothing to the caller
    return error.with_traceback(skip_libraries(error.__traceback__))


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
