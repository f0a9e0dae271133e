"""A command whose help begins with examples and groups the options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from rankql.retired import refuse_retired
from rankql.writing import named_paths, output_path

# The parameters that name a file to write.
_OUTPUTS = ("output", "target", "junit", "report", "database")

# The options of each group, by name of the parameter. All others are in the group Output.
_GROUPS = {
    "Input": (
        *("judge", "runs"),
        "query", "item", "rel", "score", "pos", "system", "ascending", "attributes", "k", "of",
        "which", "on", "outcome", "baseline", "queries", "dialect", "day",
    ),
    "Metrics": (
        "metrics", "metric", "lower_is_better", "conventions", "gain", "discounts", "threshold",
        "max_rel", "levels", "ideal", "negative", "precision_denominator", "ap_denominator", "ties",
        "unjudged", "undefined", "missing",
    ),
    "Limits": ("minimum", "max_drop", "minimum_bound", "inconclusive", "min_queries"),
    "Statistics": (
        "by", "test", "correction", "equivalence", "cluster", "alpha", "confidence", "interval",
        "resamples", "seed", "bounds",
    ),
    "Output": (),
}  # fmt: skip


def named_outputs(ctx: click.Context) -> list[Any]:
    """The files that a command is told to write."""
    return [ctx.params[name] for name in _OUTPUTS if ctx.params.get(name) is not None]


def command(name: str, *examples: str) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function."""
    return click.command(name, cls=Command, examples=examples)


class Command(click.Command):
    """A command with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a retired option is an error that says what to use instead."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            refuse_retired(f"rankql {ctx.info_name} {error.option_name}")
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong output, or one that is an input, fails at once."""
        outputs = named_outputs(ctx)
        others = [value for name, value in ctx.params.items() if name not in _OUTPUTS]
        texts = [text for text in named_paths(others) if text]
        for output in outputs:
            output_path(output, inputs=[*texts, *(text.partition("=")[2] for text in texts)])
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
        """Write the options by group."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                group = (group for group, names in _GROUPS.items() if parameter.name in names)
                # click puts a default that it does not know by itself in parentheses.
                text = re.sub(r"\[default: \((.*)\)\]$", r"[default: \1]", record[1])
                groups[next(group, "Output")].append((record[0], text))
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)
