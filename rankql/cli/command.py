"""Commands: their help begins with examples and groups the options. Tasks call a function.

Below them: how the function is called, its result printed, and options named in messages.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rankql.cli.options import (
    DATA,
    FORMATS,
    derive_options,
    require_files,
    split_commas,
    split_path,
)
from rankql.core.base.writing import DATA_SUFFIXES, PARQUET, STDOUT, named_paths, output_path
from rankql.core.metrics.conventions import ConventionOptions, option_remedy
from rankql.core.tables.request import RowOptions

if TYPE_CHECKING:
    import polars as pl

# The options that display another table, by the method of the result.
VIEWS = {"wide": "wide", "long": "long", "pairs": "long"}
# The parameters that name a file to write.
_OUTPUTS = ("output", "target", "junit", "database")

# The options of each group, by name of the parameter. All others are in the group Output.
_GROUPS = {
    "Input": (
        *RowOptions.__annotations__, "attributes", "judge", "judge_rel", "train", "catalogue",
        "unjudged_queries", "none_judged", "named_qrels", "seen", "min_score", "runs", "database",
        "span", "inclusive", "chunk", "evidence",
        "min_scores", "k", "of", "on", "outcome", "baseline", "queries", "annotators", "models",
        "consensus", "dialect", "day", "period", "share", "since", "n", "basket", "users", "split",
        "moment", "published", "digits", "sd", "sd_difference", "plus_minus", "unpaired",
        "baseline_queries", "systems",
    ),
    "Metrics": ("metrics", "metric", "higher_is_better", *ConventionOptions.__annotations__),
    "Limits": ("minimum", "max_drop", "equivalence", "minimum_bound", "inconclusive",
               "min_queries"),
    "Statistics": (
        "by", "test", "correction", "cluster", "weight", "alpha", "confidence", "interval",
        "time", "no_time", "resamples", "seed",
    ),
    "Output": (),
}  # fmt: skip
_IDENTICAL = "--ignore-identical-ids"
# The options that most people use. --help-all shows the others too.
_COMMON = (
    "min_scores", "metrics", "metric", "by", "query", "item", "rel", "score", "pos", "system",
    "conventions", "baseline", "minimum", "max_drop", "on", "outcome", "runs", "k", "of", "day",
    "period", "dialect", "tag", "queries", "annotators", "models", "consensus", "attributes",
    "train", "seen", "share", "since", "n", "basket", "users", "split", "moment", "files", "file",
    "output", "format", "per_query", "database", *VIEWS, "title", "junit", "debug", "version",
    "plain", "help_all", "published", "systems", "unpaired", "fail", "cover", "target",
)  # fmt: skip


def command(name: str, *examples: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function, which gets the options that are set."""
    return click.command(name, cls=Command, examples=examples, **settings)


class Command(click.Command):
    """A command with examples, and the options of a function of rankql if it has one."""

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), function: str = "",
        leave_out: Sequence[str] = (), **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.examples, self.function, self.leave_out = examples, function, leave_out
        self.derived: list[click.Option] | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters; the options of the function are derived on first use."""
        if self.derived is None:
            leave_out = [*self.leave_out, *(x.name for x in self.params if x.name)]
            self.derived = [*derive_options(self.function, leave_out)] if self.function else []
            self.params = [*self.params, *self.derived]
            options = [x for x in self.params if isinstance(x, click.Option)]
            if any(option.name not in _COMMON for option in options):
                self.params.append(_HELP_ALL)
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. An option of another tool is answered by that of rankql."""
        words = [x.partition("=")[0] for x in args]
        # An option that may have a value takes no file.
        pairs = zip(args, [*args[1:], ""], strict=False)
        args = [f"{x}=true" if (x == _IDENTICAL and y != "both") else x for x, y in pairs]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            known = [str(parameter.name) for parameter in self.params]
            remedy = option_remedy(option.lstrip("-").replace("-", "_"), known)
            if not remedy or option not in words:  # but -c of -conventions
                raise
            message = f"No such option {option!r}. {as_cli_options(remedy)}."
            raise click.UsageError(message, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong output, or one that is an input, fails at once."""
        others = ctx.meta.get("database") or ctx.find_root().params.get("debug")
        if self.function and self.name != "sql" and not others:  # which takes queries and tables
            files = [x for x in self.params if x.name not in _OUTPUTS]
            require_files(files, {**ctx.meta, **ctx.params})
        outputs = [ctx.params[name] for name in _OUTPUTS if ctx.params.get(name) is not None]
        others = [value for name, value in ctx.params.items() if name not in _OUTPUTS]
        texts = [text for text in named_paths(others) if text]
        for output in outputs:
            output_path(output, inputs=[*texts, *(text.partition("=")[2] for text in texts)])
        if ctx.meta.get("named_qrels") is not None and "qrels" in ctx.params:
            if ctx.params["qrels"] is not None:
                raise click.UsageError("The judgments are named twice. Leave out --qrels.")
            ctx.params["qrels"] = ctx.meta["named_qrels"]
        # Standard output is then a file, which nothing else may be in.
        ctx.meta["silent"] = STDOUT in map(output_path, outputs)
        if ctx.meta["silent"] and sys.stdout.isatty():
            raise click.UsageError("A terminal cannot show Parquet. Write it to a file: -o NAME")
        for name in ("format", *VIEWS, "per_query", *(["output"] if self.function else [])):
            ctx.meta[name] = ctx.params.pop(name, None)  # of `show`
        is_latex = ctx.meta["format"] == "latex"
        is_latex |= Path(ctx.meta.get("output") or "").suffix.lower() == ".tex"
        if ctx.meta.get("caption") and not is_latex:
            raise click.UsageError("--caption is for LaTeX. Add --format latex or -o table.tex")
        # What is not set has the default of the function. --interval none is set to None.
        written = ParameterSource.COMMANDLINE
        ctx.params = {
            name: value
            for name, value in ctx.params.items()
            if value not in (None, False) or ctx.get_parameter_source(name) is written
        }
        if ctx.params.pop("no_time", False):
            if "time" in ctx.params:
                raise click.UsageError("--time and --no-time do not go together. Leave out one.")
            ctx.params["time"] = False
        return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence, the examples, and the rest of the help."""
        summary, *details = inspect.cleandoc(self.help or "").split("\n\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(summary)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  rankql {example}\n")
        for paragraph in details:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by group: the common ones, or all."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_rare = parameter in self.params and parameter.name not in _COMMON
            is_shown = isinstance(parameter, click.Option) and ("all" in ctx.meta or not is_rare)
            if record and is_shown:
                group = (group for group, names in _GROUPS.items() if parameter.name in names)
                # click puts a default that it does not know by itself in parentheses.
                text = re.sub(r"\[default: \((.*)\)\]$", r"[default: \1]", record[1])
                groups[next(group, "Output")].append((record[0], text))
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta["all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
    help="Show all options and exit.",
)  # fmt: skip
FORMAT = click.option(
    "--format", type=click.Choice(FORMATS), default="table", help="Format of what is printed."
)
_OUTPUT = click.option(
    "-o", "--output", metavar="FILE", type=DATA,
    help="File to write: .html, .md, .tex, .xlsx, .csv, .json or .parquet.",
)  # fmt: skip


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    ctx.meta[str(option.name)] = value


remembered = partial(click.option, is_eager=True, expose_value=False, callback=_remember)
_DATABASE = remembered(
    "--database", metavar="FILE", help="DuckDB file with the tables that are named."
)
_QUIET = remembered(
    "--quiet",
    is_flag=True,
    help="Leave out conventions, columns and notes, but for warnings and shares above 5%.",
)
COLUMNS = remembered(
    "--columns", metavar="NAME,...", multiple=True, help="Names of the columns of text files "
    "without a header, such as query,item,rel. Repeat it if those of run and judgments differ.",
)  # fmt: skip
_CAPTION = remembered(
    "--caption", metavar="LATEX", help="Caption of LaTeX: of --format latex, or a .tex file."
)


def task(
    name: str, function: str, *examples: str, leave_out: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Command]:
    """Make a command that calls a function of rankql, and shows its result."""

    def decorate(callback: Callable[..., Any]) -> Command:
        make = command(name, *examples, function=function, leave_out=leave_out)
        return make(_DATABASE(COLUMNS(_OUTPUT(_CAPTION(FORMAT(_QUIET(callback)))))))

    return decorate


def call(*data: Any, **options: Any) -> Any:
    """Call the function of the command, with a connection that is open until the command ends."""
    ctx = click.get_current_context()
    assert isinstance(ctx.command, Command)
    module, name = split_path(ctx.command.function)
    function = getattr(import_module(f"rankql.{module}"), name)
    import duckdb

    from rankql.core.base.manifest import MANIFEST_SUFFIXES, recording
    from rankql.core.tables.private import private_connection, with_progress

    output = ctx.meta["output"] or ""
    values = name == "evaluate" and (output == "-" or output.lower().endswith(PARQUET))
    if values or (output and options.get("missed")):
        options["output"], ctx.meta["output"] = output, None  # written by DuckDB, or while it reads
    database = ctx.meta.get("database")
    opened = duckdb.connect(database, read_only=True) if database else None
    con = with_progress(opened) if opened else private_connection()
    ctx.with_resource(con)
    saved = Path(ctx.meta["output"] or "").suffix.lower() in MANIFEST_SUFFIXES
    with recording() if saved else nullcontext():  # so that tables are read once
        return function(*data, con=con, **options)


def show(result: Any) -> None:
    """Write a result to the file that the user named, and print it for a person or a program."""
    meta = click.get_current_context().meta
    output, form = meta["output"], meta["format"]
    method = next((method for option, method in VIEWS.items() if meta[option]), None)
    view = getattr(result, method)() if method else result
    vars(view)["_latex_caption"] = meta.get("caption") or ""
    if output:
        # Files of data have the same rows, whatever is displayed.
        (result if output.lower().endswith(DATA_SUFFIXES) else view).save(output)
        click.echo(f"Wrote {output}", err=True)
        for note in view.lacks_charts if output.lower().endswith(".html") else ():
            click.echo(note, err=True)
    if meta["silent"]:
        return
    if meta["quiet"]:
        result, view = result.quiet(), view.quiet()
    if meta["per_query"] or form in ("csv", "jsonl"):
        frame = result.per_query if meta["per_query"] else view.data
        print_frame(frame, form, result.remarks())
    elif form == "table":  # a person sees colour on a terminal
        remarks = [
            x.reword(as_cli_options) if x.heading in _WITH_OPTIONS else x for x in view.remarks()
        ]
        click.echo(_for_people(repr(view.with_remarks(remarks))))
    elif form == "json":
        click.echo(_for_terminal(view.to_json()))
    else:
        click.echo(view.to_markdown() if form == "markdown" else view.to_latex())


# The lines below a table that name options.
_WITH_OPTIONS = ("Note", "Columns", "Queries")
# Headings of `check`, and their colours.
_LEVELS = {"errors": "red", "warnings": "yellow", "notes": "cyan"}


def _for_people(printed: str) -> str:
    """Make the first line bold, and colour headings; click drops both in files and pipes."""

    def style(line: str) -> str:
        return click.style(line, fg=_LEVELS[line]) if line in _LEVELS else line

    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    first, *lines = (
        part
        for line in map(style, printed.split("\n"))
        # Not tables, whose columns are separated by two blanks.
        for part in (textwrap.wrap(line, width) if width and "  " not in line else []) or [line]
    )
    return "\n".join([click.style(first, bold=True), *lines])


def print_frame(frame: pl.DataFrame, form: str, remarks: Sequence[str] = ()) -> None:
    """Print a frame with remarks below it, or on stderr where a program reads stdout."""
    from rankql.core.base import text

    lines = [*map(text.escape_controls, remarks)]
    writers: dict[str, Callable[[], str]] = {
        "csv": lambda: text.format_csv(frame), "jsonl": frame.write_ndjson,
        "json": lambda: frame.write_json() + "\n",
    }  # fmt: skip
    if form in writers:
        click.echo(_for_terminal(writers[form]()), nl=False)
        for line in lines:
            click.echo(line, err=True)
        return
    cells = [frame.columns, *([*map(text.format_cell, row)] for row in frame.rows())]
    if form == "markdown":
        paragraphs = map(text.format_paragraph, remarks)
        click.echo("\n\n".join([text.format_markdown(cells), *paragraphs]))
    elif form == "latex":
        click.echo("\n".join([text.format_latex(cells), *(f"% {line}" for line in lines)]))
    else:
        click.echo("\n".join([text.format_text(cells), *[""] * bool(lines), *lines]))


def _for_terminal(data: str) -> str:
    """Data for programs; on a terminal without characters that control it."""
    from rankql.core.base.text import escape_controls

    return "\n".join(map(escape_controls, data.split("\n"))) if sys.stdout.isatty() else data


# An argument in a message, with its value if that is in quotes or brackets: rel=, item="lower(id)".
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_LITERAL = rf"{_TEXT}|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\([^()]*\)|\{{[^}}]*\}}|(?:True|False|None)\b"
_ARGUMENT = re.compile(rf"(?<![\w(@,])(\w+)=(?:({_LITERAL})|(?!\.?\w|[@\[({{]))", re.ASCII)


def as_cli_options(text: str) -> str:
    """Replace the arguments that a message names by options: rel='...' by --rel COLUMN."""
    ctx = click.get_current_context().find_root()
    assert isinstance(ctx.command, click.Group)
    # Messages also name options of eval, as in a hint on the evaluation that follows.
    options = {"qrels": "the judgments as the last file", "con": "--database"} | {
        str(parameter.name): parameter.opts[-1]
        for name in ("eval", ctx.invoked_subcommand or "eval")
        for parameter in ctx.command.commands[name].get_params(ctx)
        if isinstance(parameter, click.Option)
    }

    def option(match: re.Match[str]) -> str:
        name = options.get(match[1])
        with suppress(ValueError, SyntaxError):
            value = ast.literal_eval(match[2] or "''")
            if value is False and f"no_{match[1]}" in options:
                return options[f"no_{match[1]}"]
            if value is None:
                return name if name and name.startswith("--no-") else match[0]
            if name and not (isinstance(value, bool) and match[1] != "descending"):
                return write_options({match[1]: "COLUMN" if value == "..." else value}, name)
        return match[0]

    return _ARGUMENT.sub(option, text)


def write_options(call: Mapping[str, Any], option: str = "--{}") -> str:
    """A call that answers a question as the command line writes it.

    Several columns are separated by commas, and a key among them is in brackets.
    """

    def write(value: Any, equals: str = "=") -> str:
        if isinstance(value, Mapping):
            return ",".join(f"{x}{equals}{write(y)}" for x, y in value.items())
        if isinstance(value, tuple) and isinstance(value[-1], Mapping):  # a column and its labels
            return f"{value[0]}={write(value[1], ':')}"
        if isinstance(value, list | tuple):
            return ",".join("" if x is None else write(x) for x in value)
        is_key = len(split_commas(str(value))) > 1
        return "..." if value is ... else f"({value})" if is_key else str(value)

    options = []
    for name, value in call.items():
        if name == "of" and isinstance(value, Mapping):
            options.append(f"--of {_quote(json.dumps(value))}")
        elif isinstance(value, bool):
            yes, no = ("--pool", "--no-pool") if name == "pool" else ("--descending", "--ascending")
            options.append(yes if value else no)
        elif name == "higher_is_better" and isinstance(value, Mapping):
            names = (x + "=no" if higher else x for x, higher in value.items())
            options += [f"--lower-is-better {_quote(x)}" for x in names]
        else:
            words = [
                option.format(name.replace("_", "-")),
                *([_quote(write(value))] if value != "" else []),
            ]
            options.append(" ".join(words))
    return " ".join(options)


def _quote(value: str) -> str:
    """The value for a shell, in double quotes if it has single ones."""
    plain = "'" in value and not re.search(r'["$`\\!]', value)
    return f'"{value}"' if plain else shlex.quote(value)
