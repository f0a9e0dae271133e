"""Call the function of a command; results go to stdout."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import VIEWS, Command
from rankql.cli.hints import as_cli_options
from rankql.writing import DATA_SUFFIXES, PARQUET

if TYPE_CHECKING:
    import polars as pl


def call(*data: Any, **options: Any) -> Any:
    """Call the function of the command, with a connection that is open until the command ends."""
    ctx = click.get_current_context()
    assert isinstance(ctx.command, Command)
    module, _, name = ctx.command.function.partition(":")
    name = name or module.rpartition(".")[2]
    function = getattr(import_module(f"rankql.{module}"), name)
    from rankql.sources.private import private_connection

    output = ctx.meta["output"] or ""
    if name == "evaluate" and (output == "-" or output.lower().endswith(PARQUET)):
        options["output"], ctx.meta["output"] = output, None  # the values per query
    con = ctx.with_resource(private_connection())
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
    if meta["silent"]:
        return
    if meta["per_query"]:
        print_frame(result.per_query, form, result.remarks())
        return
    if form in ("csv", "jsonl"):
        print_frame(view.data, form, result.remarks())
    elif form == "table":  # a person sees colour on a terminal
        click.echo(_for_people(repr(view)))
    elif form == "json":
        click.echo(_for_terminal(view.to_json()))
    else:
        click.echo(view.to_markdown() if form == "markdown" else view.to_latex())


# Headings of `check`, and their colours.
_LEVELS = {"errors": "red", "warnings": "yellow", "notes": "cyan"}


def _for_people(printed: str) -> str:
    """Name options in notes, make the first line bold, and colour headings.

    click drops bold and colour in files and pipes.
    """

    def style(line: str) -> str:
        line = as_cli_options(line) if line.startswith("Note: ") else line
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

    if form == "table":
        click.echo(text.format_text(text.format_cells(frame), remarks))
    elif form == "markdown":
        click.echo(text.format_markdown(text.format_cells(frame), remarks))
    elif form == "latex":
        click.echo(text.format_latex(text.format_cells(frame)))
        for remark in remarks:
            click.echo(f"% {text.escape_controls(remark)}")
    else:
        writers: dict[str, Callable[[], str]] = {
            "csv": lambda: text.format_csv(frame),
            "json": lambda: frame.write_json() + "\n",
            "jsonl": frame.write_ndjson,
        }
        click.echo(_for_terminal(writers[form]()), nl=False)
        for remark in remarks:
            click.echo(text.escape_controls(remark), err=True)


def _for_terminal(data: str) -> str:
    """Data for programs; on a terminal without characters that control it."""
    from rankql.text import escape_controls

    return "\n".join(map(escape_controls, data.split("\n"))) if sys.stdout.isatty() else data
