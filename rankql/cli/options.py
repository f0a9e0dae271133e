"""The options and arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from rankql.registry.conventions import CHOICES, PROFILES, Conventions
from rankql.registry.parameters import GAIN

FORMATS = ("table", "markdown", "csv", "json", "jsonl")


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name columns."""
    roles = {
        "system": "The column of the run that tells several systems apart.",
        "pos": "The column of the position, 1 at the top.",
        "score": "The column of the score.",
        "rel": "The column of the grade.",
        "item": "The column of the item; LEFT,RIGHT likewise.",
        "query": "The column of the query; LEFT,RIGHT where run and qrels differ.",
    }
    lowest = "The lowest score is best, as for distances; default: if its column is named distance."
    command = click.option("--ascending/--descending", default=None, help=lowest)(command)
    for role, text in roles.items():
        command = click.option(f"--{role}", metavar="COLUMN", help=text)(command)
    return command


def convention_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that change a convention, with help from the docstring of `Conventions`."""
    bullets = re.findall(
        r"^    - ([\w, ]+): (.*?)(?=\n    - |\Z)", Conventions.__doc__ or "", re.M | re.S
    )
    helps = {name: " ".join(text.split()) for names, text in bullets for name in names.split(", ")}
    numbers = {"max_rel": float, "threshold": float}
    kinds = {
        name: click.Choice(choices) for name, choices in {"gain": GAIN.choices, **CHOICES}.items()
    }
    for name, kind in {**numbers, **dict(reversed(kinds.items()))}.items():
        text = helps[name][0].upper() + helps[name][1:]
        command = click.option(f"--{name.replace('_', '-')}", type=kind, help=text)(command)
    profiles = click.option(
        "--conventions", type=click.Choice(list(PROFILES)), help="All of them as a peer has them."
    )
    return profiles(command)


METRICS = click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME", help="A metric, such as nDCG@5,10."
)
FORMAT = click.option("--format", "form", type=click.Choice(FORMATS), default="table")
INPUTS = click.argument("inputs", nargs=-1, required=True, metavar="RUN... [QRELS]")


def _combine_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Make one decorator of several options."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# Of eval and correlate.
MEANS_OPTIONS = _combine_options(
    click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Slice the means; "
                 "repeatable."),
    click.option("--attributes", metavar="TABLE", help="A table of attributes of the queries."),
    click.option("-q", "--per-query", is_flag=True, help="Print the values per query."),
    click.option("--interval", type=click.Choice(["auto", "t", "none"]),
                 default="auto", show_default=True, help="Confidence interval of the means."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
)  # fmt: skip


def _parse_bounds(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> dict[str, tuple[float, float]] | None:
    """Parse METRIC:LOWEST:HIGHEST into the range of each metric."""
    bounds = {}
    for text in texts:
        name, *ends = text.rsplit(":", 2)
        try:
            low, high = map(float, ends)
        except ValueError:
            raise click.BadParameter(
                f"Cannot parse {text!r}. Expected METRIC:LOWEST:HIGHEST, e.g. DCG@10:0:20."
            ) from None
        bounds[name] = (low, high)
    return bounds or None


_TEST_OPTIONS = _combine_options(
    click.option("--test", metavar="NAME", help="t (default), randomisation, bootstrap "
                 "or anytime."),
    click.option("--correction", metavar="NAME", help="holm (default), bonferroni, bh or none."),
    click.option("--cluster", metavar="COLUMN", help="Queries with the same value belong "
                 "together."),
    click.option("--resamples", type=int, help="How often to resample; 9999."),
    click.option("--seed", type=int, help="The seed of resampling; 7."),
    click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Also by slices."),
    click.option("--attributes", metavar="TABLE", help="A table of attributes of the queries."),
)  # fmt: skip
LOWER_IS_BETTER = click.option(
    "--lower-is-better",
    multiple=True,
    metavar="NAME",
    help="A column of your own, such as a waiting time, of which less is better; repeatable.",
)
# Of compare and report.
COMPARISON_OPTIONS = _combine_options(
    LOWER_IS_BETTER,
    click.option("--baseline", metavar="NAME", help="Compare the others with this one; without it "
                 "every pair."),
    _TEST_OPTIONS,
    click.option("--bounds", multiple=True, metavar="METRIC:LOWEST:HIGHEST", callback=_parse_bounds,
                 help="The range of a metric that has none, for --test anytime."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
)  # fmt: skip
