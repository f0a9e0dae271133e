"""Options of the command line, from signatures, types and lists of parameters in docstrings.

They are read from the source: importing the functions imports polars and duckdb, which --help and
the completion of a shell need not wait for.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import click

import rankql
from rankql.core.base.errors import closest
from rankql.core.base.writing import HeaderlessPath, is_path, name_by_file
from rankql.core.metrics import conventions
from rankql.core.metrics.metric_record import GAIN
from rankql.core.tables import request as arguments

# A path that the user wrote, with its columns if --columns names them.
InputPath: TypeAlias = str | HeaderlessPath
FORMATS = ("table", "markdown", "latex", "csv", "json", "jsonl")


class _DataPath(click.Path):
    """A file, or NAME=FILE. The shell completes the path of a file.

    With --columns, it has these.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        meta = ctx.meta if ctx and param and param.name not in ("output", "target") else {}
        if columns := meta.get("columns"):
            return HeaderlessPath(value, [re.split(r"\s*,\s*", names) for names in columns])
        return value


DATA, PATH = _DataPath(), click.Path(path_type=Path)


def split_name(run: InputPath) -> tuple[str, InputPath]:
    """Split NAME=PATH; a path alone is named after its file.

    A path or glob that contains "=", such as day=2024/*.parquet, has no name.
    """
    text = os.fspath(run)
    name, equals, path = text.partition("=")
    if equals and "/" not in name and not is_path(text):
        return name, path if isinstance(run, str) else replace(run, path=path)
    return name_by_file(text), run


# A part of a path that names the system or the collection, such as runs/{system}.{collection}.run.
NAMED = re.compile(r"\{(system|collection)\}")


class MissingFile(click.ClickException):
    """A file that does not exist, said as all errors are."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print it in one line."""
        click.echo(f"{click.style('rankql:', fg='red', bold=True)} {self.message}", err=True)


def require_files(parameters: Sequence[click.Parameter], values: Mapping[str, Any]) -> None:
    """Refuse a file that does not exist, before anything is imported that reads files."""
    for parameter in (x for x in parameters if x.type is DATA and values.get(x.name or "")):
        label, value = str(parameter.name).removeprefix("named_"), values[str(parameter.name)]
        inputs = value if isinstance(value, tuple) else (value,)
        for i, each in enumerate(inputs):
            if not isinstance(each, str | HeaderlessPath) or re.match(r"-$|\w+:/", os.fspath(each)):
                continue  # a number, the standard input, or another place
            name, path = split_name(each)
            if is_path(NAMED.sub("*", os.fspath(path))):
                continue
            if label == "inputs":
                label = f"run {name!r}" if path != each or len(inputs) > 2 else "run"
                label = "qrels" if path == each and 0 < i == len(inputs) - 1 else label
            text = os.fspath(path if inputs is value else each)[:200]
            # Of explain, Python has the query in the third place.
            of = f", or pass a query as --of {text}" * any(x.name == "of" for x in parameters)
            raise MissingFile(f"{label}: file {text!r} does not exist. Check its name{of}")


def _parse_numbers(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        message = f"{text!r} is not a list of numbers such as 0.8,1.585,2"
        raise click.BadParameter(message) from None


def _parse_columns(text: str) -> str | list[str]:
    """Parse one column or expression, or several separated by commas."""
    parts = split_commas(text)
    return parts if len(parts) > 1 else text


_PART = re.compile(r"""(?:[^,"'()\[\]{}]|"[^"]*"|'[^']*'|[(\[{]|[)\]}]|,)""")


def split_commas(text: str) -> list[str]:
    """The parts between commas that are outside of brackets and quotes."""
    parts, depth = [""], 0
    for token in _PART.findall(text):
        depth += (token in "([{") - (token in ")]}")
        if token == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


# The grade of an event, as in buy=3.
_EVENT = re.compile(r"\s*\w[\w .:/-]*=\s*-?(\d+\.?\d*|\.\d+)\s*")


def _parse_rel(text: str) -> Any:
    """Parse the column of the grade, or the grades of events with or without their column."""
    column, _, mapping = text.partition("=")
    for events, sign, name in ((text, "=", ""), (mapping, ":", column)):
        pairs = [part.rpartition(sign) for part in events.split(",")]
        if all(_EVENT.fullmatch(f"{event}={grade}") for event, _, grade in pairs):
            numbers = {event.strip(): float(grade) for event, _, grade in pairs}
            grades = {event: int(x) if x.is_integer() else x for event, x in numbers.items()}
            return (name, grades) if name else grades
    return text


def _parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Parse COLUMN or LEFT=RIGHT."""
    return {left: right or left for left, _, right in (text.partition("=") for text in texts)}


def _parse_outcomes(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse COLUMN, NAME=COLUMN or NAME=COLUMN/COLUMN."""
    return {name: tuple(right.split("/")) for name, right in _parse_pairs(texts).items()}


def _parse_min_scores(texts: Sequence[str]) -> float | dict[str, float]:
    """Parse NUMBER, or SYSTEM=NUMBER for several."""
    pairs = [text.rpartition("=") for text in texts]
    try:
        scores = {name: float(score) for name, _, score in pairs}
    except ValueError:
        raise click.BadParameter(f"{texts[0]!r} is not NUMBER or SYSTEM=NUMBER") from None
    return scores[""] if [*scores] == [""] else scores


def _parse_tool(name: str) -> str:
    """Parse the name of a profile; of a typo, the most similar one is named."""
    if name not in conventions.PROFILES:
        close = closest(name, conventions.PROFILES)
        hint = f" Did you mean {close!r}?" if close else ""
        raise click.BadParameter(f"unknown tool {name!r}.{hint} `rankql metrics --tools` lists all")
    return name


def _parse_queries(texts: Sequence[str]) -> Any:
    """Parse query ids, and objects {"system": ..., "query": ...}."""
    queries = [json.loads(x) if x[:1] == "{" and x[-1:] == "}" else x for x in texts]
    return queries if len(queries) > 1 else queries[0]


class _Spelling(NamedTuple):
    """How an option is written, where its name and type do not say it."""

    metavar: str | None = None
    names: Sequence[str] = ()
    parse: Callable[[Any], Any] | None = None
    # A sentence after the text of the docstring.
    more: str = ""
    # Other arguments of click.Option.
    settings: Mapping[str, Any] = MappingProxyType({})


_REPEATED = {"multiple": True}
_COLUMN, _PAIR = _Spelling("COLUMN"), _Spelling("COLUMN[,COLUMN]", parse=_parse_columns)
_LIMIT = _Spelling("LIMIT", parse=list, more="Repeatable.", settings=_REPEATED)
_SPELLINGS = {
    "metrics": _Spelling("NAME", ("-m", "--metric"), list,
                         "Repeat -m for several; `rankql metrics` lists all.", _REPEATED),
    "metric": _Spelling("NAME", ("-m", "--metric")),
    "by": _Spelling("COLUMN[,COLUMN]", (), lambda by: [*map(split_commas, by)],
                    "A,B crosses two attributes, --by A --by B has the slices of each.", _REPEATED),
    "k": _Spelling(names=("-k",)),
    "published": _Spelling("NUMBER", ("--mean",)),
    "of": _Spelling("QUERY", ("-Q", "--of"), _parse_queries,
                    "Repeatable.", _REPEATED),
    "output": _Spelling("FILE", ("-o", "--output"), settings={"type": DATA}),
    "minimum": _LIMIT._replace(names=("--min",)),
    "minimum_bound": _Spelling(names=("--min-bound",)),
    "higher_is_better": _Spelling(
        "NAME", ("--lower-is-better",),
        lambda names: {name.removesuffix("=no"): name.endswith("=no") for name in names},
        settings={"help": "Column of your own where lower is better, such as a waiting time; "
                  "NAME=no if not. Repeatable.", **_REPEATED}),
    "min_score": _Spelling("[SYSTEM=]NUMBER", (), _parse_min_scores, "Repeatable.", _REPEATED),
    **dict.fromkeys(("annotators", "models"), _Spelling("COLUMN,...", parse=split_commas)),
    "on": _Spelling("COLUMN", (), _parse_pairs, "Or LEFT=RIGHT. Repeatable.",
                    {"required": True, **_REPEATED}),
    "outcome": _Spelling("COLUMN", (), _parse_outcomes, "COLUMN, NAME=COLUMN, or "
                         "NAME=COLUMN/COLUMN for a ratio. Repeatable.", _REPEATED),
    "interval": _Spelling("auto|t|anytime|none", (), lambda text: None if text == "none" else text),
    "catalogue": _Spelling("TABLE|NUMBER", (), lambda x: int(x) if str(x).isdigit() else x),
    "ignore_identical_ids": _Spelling("[both]", parse=lambda text: text == "true" or text,
                                      settings={"type": click.Choice(["true", "both"])}),
    "query": _PAIR,
    "span": _PAIR,
    "collection": _Spelling(None, ("--collection/--run",)),
    **dict.fromkeys(("chunk", "evidence"), _COLUMN),
    "part": _Spelling("NAME[,NAME]", parse=lambda text: [x or None for x in split_commas(text)]),
    "item": _PAIR,
    "rel": _Spelling("COLUMN", (), _parse_rel,
                     "Such as buy=3,click=1, or event=buy:3,click:1 with their column."),
    "judge_rel": _Spelling("COLUMN", (), _parse_rel),
    "descending": _Spelling(None, ("--descending/--ascending",)),
    "pool": _Spelling(None, ("--pool/--no-pool",)),
    "collapse": _Spelling("COLUMN|SEPARATOR"),
    "conventions": _Spelling("TOOL", (), _parse_tool,
                             "`rankql metrics --tools` lists all."),
    "gain": _Spelling(settings={"type": click.Choice(GAIN.choices)}),
    **{name: _Spelling(name.upper()) for name in ("test", "correction", "tag")},
    "baseline": _Spelling("NAME"),
    **dict.fromkeys(("score", "pos", "cluster", "weight", "time", "day", "forbidden"), _COLUMN),
    "system": _PAIR,
}  # fmt: skip
_NO_TIME = "Shuffle the queries once for --interval anytime: only for a set that does not grow."
# The tables and the connection, which are not options.
_INPUTS = (
    *("run", "runs", "data", "qrels", "stages", "days", "per_query", "outcomes"),
    *("llm", "human", "source", "target", "con", "options", "columns"),
)


def split_path(path: str) -> tuple[str, str]:
    """The module and the name of a function, such as `decisions.gate` or `module:name`."""
    module, _, name = path.partition(":")
    return module, name or module.rpartition(".")[2]


@cache
def _read_node(path: str) -> Any:
    """The source of a function or a class."""
    module, name = split_path(path)
    file = Path(rankql.__file__).parent / f"{module.replace('.', '/')}.py"
    body: list[Any] = ast.parse(file.read_text(encoding="utf-8")).body
    (*_, node) = (node for node in body if getattr(node, "name", None) == name)  # after overloads
    return node


@cache
def read_signature(path: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The types and the defaults of the parameters of a function, from its source."""
    node = _read_node(path)
    parameters = [*node.args.args, *node.args.kwonlyargs]
    types = {x.arg: ast.unparse(x.annotation) for x in parameters if x.annotation}
    defaults = [*node.args.defaults, *node.args.kw_defaults]
    values = {
        x.arg: vars(arguments).get(default.id) if isinstance(default, ast.Name)
        else ast.literal_eval(default)
        for x, default in zip(reversed(parameters), reversed(defaults), strict=False) if default
    }  # fmt: skip
    if node.args.kwarg and node.args.kwarg.annotation:
        kind = ast.unparse(node.args.kwarg.annotation)[len("Unpack[") : -1]
        shared = getattr(arguments, kind).__annotations__
        types = {**types, **{k: v.__forward_arg__ for k, v in shared.items() if k not in types}}
        values = {**vars(conventions.Conventions()), **values}
    return types, values


def _read_texts(path: str) -> dict[str, str]:
    """The first paragraph on each parameter, if the docstring of a function or class has a list.

    It is read from the source: python -OO leaves docstrings out.
    """
    _, _, text = (ast.get_docstring(_read_node(path)) or "").partition("Parameters\n----------\n")
    entries = re.findall(r"^([\w, ]+) : .*\n((?:    .+\n?)+)", text, re.MULTILINE)
    return {
        name: " ".join(lines.split())
        for names, lines in entries
        for name in names.replace(" ", "").split(",")
    }


def derive_options(path: str, leave_out: Sequence[str] = ()) -> Iterator[click.Option]:
    """The options of a function."""
    types, defaults = read_signature(path)
    paths = ("core.metrics.conventions:Conventions", "core.evaluation.evaluate", path)
    texts = {name: text for each in paths for name, text in _read_texts(each).items()}
    for name, kind in types.items():
        if name not in (*_INPUTS, *leave_out):
            yield _make_option(name, kind, defaults.get(name), texts[name])
        if name == "time" and name not in leave_out:
            yield click.Option(["no_time", "--no-time"], is_flag=True, help=_NO_TIME)


def _make_option(name: str, kind: str, default: Any, text: str) -> click.Option:
    """An option without a default: the function has it."""
    kind = kind.removesuffix(" | None")
    limits = _LIMIT if "Mapping[str, float]" in kind else _Spelling()
    spelling = _SPELLINGS.get(name, limits)
    types: dict[str, Any] = {"float": click.FLOAT, "int": click.INT}
    settings: dict[str, Any] = {
        "type": types.get(kind, click.STRING), "metavar": spelling.metavar, "default": None,
        "help": f"{text} {spelling.more}".rstrip(),
    }  # fmt: skip
    parse = spelling.parse
    if kind == "bool":
        settings |= {"type": None, "is_flag": True}
    elif kind == "Sequence[float]":
        settings["metavar"], parse = "NUMBER,...", _parse_numbers
    elif kind.startswith("Literal["):
        choices = ast.literal_eval(f"({kind[len('Literal[') : -1]},)")
        settings["type"] = click.Choice([x for x in choices if isinstance(x, str)])
        settings["metavar"] = None
    elif kind.startswith("Data"):
        settings |= {"type": DATA, "metavar": spelling.metavar or "TABLE"}
    if not (default is None or default == () or isinstance(default, bool)):
        listed = isinstance(default, tuple | list)
        settings["show_default"] = ", ".join(default) if listed else str(default)

    def convert(_: click.Context, __: click.Parameter, value: Any) -> Any:
        value = None if value == () else value
        return value if parse is None or value is None else parse(value)

    names = spelling.names or (f"--{name.replace('_', '-')}",)
    return click.Option([name, *names], callback=convert, **{**settings, **spelling.settings})
