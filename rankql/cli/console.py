"""Call the function of a command, print its result, and name options as the command line does."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import VIEWS, Command
from rankql.cli.options import split_commas, split_path
from rankql.writing import DATA_SUFFIXES, PARQUET

if TYPE_CHECKING:
    import polars as pl


def call(*data: Any, **options: Any) -> Any:
    """Call the function of the command, with a connection that is open until the command ends."""
    ctx = click.get_current_context()
    assert isinstance(ctx.command, Command)
    module, name = split_path(ctx.command.function)
    function = getattr(import_module(f"rankql.{module}"), name)
    import duckdb

    from rankql.evaluation.table_hashes import recording
    from rankql.manifest import MANIFEST_SUFFIXES
    from rankql.sources.private import private_connection, with_progress

    output = ctx.meta["output"] or ""
    if name == "evaluate" and (output == "-" or output.lower().endswith(PARQUET)):
        options["output"], ctx.meta["output"] = output, None  # the values per query
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
_WITH_OPTIONS = ("Note", "Columns")
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
    from rankql import text

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
    from rankql.text import escape_controls

    return "\n".join(map(escape_controls, data.split("\n"))) if sys.stdout.isatty() else data


# An argument in a message, with its value if that is in quotes or brackets: rel=, item="lower(id)".
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_LITERAL = rf"{_TEXT}|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\([^()]*\)|\{{[^}}]*\}}|(?:True|False)\b"
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
        if isinstance(value, bool):
            options.append("--descending" if value else "--ascending")
        elif name == "higher_is_better" and isinstance(value, Mapping):
            names = (x + "=no" if higher else x for x, higher in value.items())
            options += [f"--lower-is-better {_quote(x)}" for x in names]
        else:
            words = [option.format(name), *([_quote(write(value))] if value != "" else [])]
            options.append(" ".join(words))
    return " ".join(options)


def _quote(value: str) -> str:
    """The value for a shell, in double quotes if it has single ones."""
    return (
        f'"{value}"' if "'" in value and not re.search(r'["$`\\!]', value) else shlex.quote(value)
    )
