"""The entry point: the group of commands, and how errors end the program."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any

import click

from rankql.cli import reference, tasks, writing_tasks
from rankql.cli.command import Command, as_cli_options, write_options

# Printed if rankql is called without a command.
_START = """\
Ranking metrics that run where your data lives.

Try it on a simulated shop          {rankql} demo
Evaluate the data of the demo       {rankql} eval rankql-demo/shop.parquet --by segment
Evaluate your own files             {rankql} eval RUN QRELS -m nDCG@10
                                    (Parquet, CSV, JSON or TREC)
Find problems in them               {rankql} check RUN QRELS
See all commands or options         {rankql} --help; {rankql} eval --help
"""


class _Group(Command, click.Group):
    """A group in which every error is one line on stderr, and exit code 2."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command. Another name is answered by the nearest one, or by a function."""
        word = args[0]
        if not (word in self.commands or word[:1] == "-" or ctx.resilient_parsing):
            from rankql.core.metrics.macros import nearest_names

            names = nearest_names(word, self.commands)
            known = [repr(x) if x in self.commands else f"rankql.{x} in Python" for x in names]
            hint = f" Did you mean {' or '.join(known)}?" if known else ""
            raise click.UsageError(f"No such command {word!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # of `run`
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except BrokenPipeError:  # the reader has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(128 + 13) from None  # as if SIGPIPE had ended the process
        except (KeyboardInterrupt, Exception) as error:
            raise SystemExit(_report(error, ctx.params.get("debug", False))) from None


def _report(error: BaseException, debug: bool) -> int:
    """Print an error in one line, with a traceback if it is not expected; return the exit code."""
    of_duckdb = isinstance(error, RuntimeError) and "interrupt" in str(error).lower()
    if of_duckdb or isinstance(error, KeyboardInterrupt):
        click.echo("rankql: interrupted", err=True)
        return 130
    import duckdb

    from rankql.core.base.errors import RankqlError, name_stats_extra, python_message
    from rankql.core.base.text import escape_controls

    command = click.get_current_context().invoked_subcommand
    error = name_stats_extra(error, str(command))
    of_memory = isinstance(error, MemoryError) or "out of memory" in str(error).lower()
    expected = of_memory or isinstance(error, RankqlError | duckdb.Error | OSError)
    if debug or not expected:
        traceback.print_exc()
    message = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, RankqlError):
        message = error.format(write_options)
    if isinstance(error, duckdb.Error):
        message = python_message(error)
    if isinstance(error, OSError) and error.filename is None:
        message = f"Cannot write to standard output: {error.strerror or message}"
    message = "\n".join(map(escape_controls, as_cli_options(message).split("\n")))
    click.echo(f"{click.style('rankql:', fg='red', bold=True)} {message}", err=True)
    return 2


@click.group(
    "rankql",
    cls=_Group,
    examples=("demo", "eval my.run my.qrels -m nDCG@10"),
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"show_default": True, "max_content_width": 100},
)
@click.version_option(package_name="rankql")
@click.option(
    "--debug", is_flag=True, envvar="RANKQL_DEBUG", help="Print a traceback if there is an error."
)
@click.pass_context
def main(ctx: click.Context, debug: bool = False) -> None:
    """Ranking metrics that run where your data lives.

    \b
    Shell completion:
      bash   eval "$(_RANKQL_COMPLETE=bash_source rankql)"   in ~/.bashrc
      zsh    eval "$(_RANKQL_COMPLETE=zsh_source rankql)"    in ~/.zshrc
      fish   _RANKQL_COMPLETE=fish_source rankql | source    in ~/.config/fish/config.fish

    Colour is used on terminals only. Set NO_COLOR to turn it off.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if not ctx.invoked_subcommand:
        click.echo(_START.format(rankql=ctx.command_path), err=True, nl=False)
        ctx.exit(2)  # click's exit code if a command is missing


for _command in (x for each in (tasks, writing_tasks, reference) for x in vars(each).values()):
    if isinstance(_command, Command):
        main.add_command(_command)
