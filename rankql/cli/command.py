"""Commands: their help begins with examples and groups the options. Tasks call a function."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from rankql.cli.options import DATA, FORMATS, derive_options
from rankql.evaluation.request import RowOptions
from rankql.registry.conventions import ConventionOptions
from rankql.writing import STDOUT, named_paths, output_path

# The options that display another table, by the method of the result.
VIEWS = {"wide": "wide", "long": "long", "pairs": "long"}
# The parameters that name a file to write.
_OUTPUTS = ("output", "target", "junit", "database")

# The options of each group, by name of the parameter. All others are in the group Output.
_GROUPS = {
    "Input": (
        *RowOptions.__annotations__, "attributes", "judge", "train", "catalogue", "seen",
        "min_score", "runs", "database", "min_scores", "k", "of", "on", "outcome", "baseline",
        "queries", "annotators", "models", "consensus", "dialect", "day", "period", "share",
        "since", "n", "basket", "users", "moment",
    ),
    "Metrics": ("metrics", "metric", "higher_is_better", *ConventionOptions.__annotations__),
    "Limits": ("minimum", "max_drop", "equivalence", "minimum_bound", "inconclusive",
               "min_queries"),
    "Statistics": (
        "by", "test", "correction", "cluster", "weight", "alpha", "confidence", "interval",
        "resamples", "seed",
    ),
    "Output": (),
}  # fmt: skip
# The options that most people use. --help-all shows the others too.
_COMMON = (
    "min_scores", "metrics", "metric", "by", "query", "item", "rel", "score", "pos",
    "conventions", "baseline", "minimum", "max_drop", "on", "outcome", "runs", "k", "of", "day",
    "period", "dialect", "tag", "queries", "annotators", "models", "consensus", "attributes",
    "train", "seen", "share", "since", "n", "basket", "users", "moment", "files", "file", "output",
    "format", "per_query", "database", *VIEWS, "title", "junit", "debug", "version", "help_all",
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
            own = [parameter.name for parameter in self.params]
            leave_out = [*self.leave_out, *filter(None, own)]
            self.derived = [*derive_options(self.function, leave_out)] if self.function else []
            self.params = [*self.params, *self.derived]
            options = [x for x in self.params if isinstance(x, click.Option)]
            if any(option.name not in _COMMON for option in options):
                self.params.append(_HELP_ALL)
        return super().get_params(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong output, or one that is an input, fails at once."""
        outputs = [ctx.params[name] for name in _OUTPUTS if ctx.params.get(name) is not None]
        others = [value for name, value in ctx.params.items() if name not in _OUTPUTS]
        texts = [text for text in named_paths(others) if text]
        for output in outputs:
            output_path(output, inputs=[*texts, *(text.partition("=")[2] for text in texts)])
        # Standard output is then a file, which nothing else may be in.
        ctx.meta["silent"] = STDOUT in map(output_path, outputs)
        if ctx.meta["silent"] and sys.stdout.isatty():
            raise click.UsageError("A terminal cannot show Parquet. Write it to a file: -o NAME")
        for name in ("format", *VIEWS, "per_query", *(["output"] if self.function else [])):
            ctx.meta[name] = ctx.params.pop(name, None)  # of `show`
        # What is not set has the default of the function. --interval none is set to None.
        written = ParameterSource.COMMANDLINE
        ctx.params = {
            name: value
            for name, value in ctx.params.items()
            if value not in (None, False) or ctx.get_parameter_source(name) is written
        }
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
            if (
                record
                and isinstance(parameter, click.Option)
                and ("all" in ctx.meta or not is_rare)
            ):
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


_remembered = partial(click.option, is_eager=True, expose_value=False, callback=_remember)
_DATABASE = _remembered(
    "--database", metavar="FILE", help="DuckDB file with the tables that are named."
)
_QUIET = _remembered(
    "--quiet",
    is_flag=True,
    help="Leave out conventions, columns and notes, but for warnings and shares above 5%.",
)
COLUMNS = _remembered(
    "--columns", metavar="NAME,...", multiple=True, help="Names of the columns of text files "
    "without a header, such as query,item,rel. Repeat it if those of run and judgments differ.",
)  # fmt: skip


def task(
    name: str, function: str, *examples: str, leave_out: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Command]:
    """Make a command that calls a function of rankql, and shows its result."""

    def decorate(callback: Callable[..., Any]) -> Command:
        make = command(name, *examples, function=function, leave_out=leave_out)
        return make(_DATABASE(COLUMNS(_OUTPUT(FORMAT(_QUIET(callback))))))

    return decorate
