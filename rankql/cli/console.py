"""Results on stdout, and progress on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankql.cli.command import named_outputs
from rankql.cli.hints import as_cli_options

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from rankql.decisions.verdict import Verdict
    from rankql.results import TableResult


def print_result(result: TableResult, form: str) -> None:
    """Print a result for a person or a program; a person sees colour on a terminal."""
    if _writes_to_stdout():
        return
    if form in ("csv", "jsonl"):
        print_frame(result.table, form, result.remarks())
    else:
        forms: dict[str, Callable[[], str]] = {
            "table": lambda: _for_people(repr(result)),
            "markdown": result.to_markdown,
            "json": result.to_json,
        }
        printed = forms[form]()
        click.echo(_for_terminal(printed) if form == "json" else printed)


# Headings of `check`, and their colours.
_LEVELS = {"errors": "red", "warnings": "yellow", "notes": "cyan"}


def _for_people(printed: str) -> str:
    """Name options in notes, make the first line bold, and colour headings.

    click drops bold and colour in files and pipes.
    """

    def style(line: str) -> str:
        line = as_cli_options(line) if line.startswith("Note: ") else line
        return click.style(line, fg=_LEVELS[line]) if line in _LEVELS else line

    first, *lines = printed.split("\n")
    return "\n".join([click.style(first, bold=True), *map(style, lines)])


def print_frame(frame: pl.DataFrame, form: str, remarks: Sequence[str] = ()) -> None:
    """Print a frame with remarks below it, or on stderr where a program reads stdout."""
    from rankql import text

    if _writes_to_stdout():
        return
    if form == "table":
        click.echo(text.format_text(text.format_cells(frame), remarks))
    elif form == "markdown":
        click.echo(text.format_markdown(text.format_cells(frame), remarks))
    else:
        writers: dict[str, Callable[[], str]] = {
            "csv": lambda: text.format_csv(frame),
            "json": lambda: frame.write_json() + "\n",
            "jsonl": frame.write_ndjson,
        }
        click.echo(_for_terminal(writers[form]()), nl=False)
        for remark in remarks:
            click.echo(text.escape_controls(remark), err=True)


def _writes_to_stdout() -> bool:
    """Is standard output a file that the command is told to write, which nothing else may be in?"""
    from rankql.writing import STDOUT, output_path

    return STDOUT in map(output_path, named_outputs(click.get_current_context()))


def _for_terminal(data: str) -> str:
    """Data for programs; on a terminal without characters that control it."""
    from rankql.text import escape_controls

    return "\n".join(map(escape_controls, data.split("\n"))) if sys.stdout.isatty() else data


def write_junit(result: Verdict, path: Path | None) -> None:
    """Write JUnit XML if the user named a file."""
    from rankql.writing import write_file

    if path:
        with write_file(path) as temporary:
            temporary.write_text(result.junit(), encoding="utf-8")


@contextmanager
def open_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection to DuckDB, with a progress bar if stderr is a terminal."""
    from rankql.sources.private import private_connection

    with private_connection() as con:
        if not sys.stderr.isatty():
            yield con
            return
        bar = "SET enable_progress_bar = true; SET enable_progress_bar_print = false"
        con.execute(bar).fetchall()
        done = threading.Event()
        thread = threading.Thread(target=_show_progress, args=(con, done), daemon=True)
        thread.start()
        try:
            yield con
        finally:
            done.set()
            thread.join()


def _show_progress(con: duckdb.DuckDBPyConnection, done: threading.Event) -> None:
    """Show a bar if the work takes longer than a second."""
    if done.wait(1):
        return
    with click.progressbar(length=100, label="working", file=sys.stderr) as bar:
        while not done.wait(0.2):
            bar.update(max(0, int(con.query_progress()) - bar.pos))
