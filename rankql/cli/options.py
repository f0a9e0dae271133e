"""The options and arguments that several commands share."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from rankql.evaluation.arguments import DEFAULT_METRICS
from rankql.registry.conventions import CHOICES, PROFILES, Conventions
from rankql.registry.parameters import GAIN

FORMATS = ("table", "markdown", "csv", "json", "jsonl")
Decorator: TypeAlias = Callable[[Any], Any]


class _DataPath(click.types.StringParamType):
    """A file, or NAME=FILE. The shell completes the path of both."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        name, equals, path = incomplete.partition("=")
        matches = sorted(glob.glob(f"{glob.escape(path)}*")) if equals and "/" not in name else []
        return [
            CompletionItem(f"{name}={match}{'/' if os.path.isdir(match) else ''}")
            for match in matches
        ] or [CompletionItem(incomplete, type="file")]


DATA = _DataPath()


def combine_options(*options: Decorator) -> Decorator:
    """Make one decorator of several options."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def metrics_option(default: str = ", ".join(DEFAULT_METRICS)) -> Decorator:
    """Make the option for metrics."""
    return click.option(
        "-m", "--metric", "metrics", multiple=True, metavar="NAME", show_default=default,
        help="Metric, such as nDCG@10 or nDCG@5,10. Repeat -m for several metrics; "
             "`rankql metrics` lists all.",
    )  # fmt: skip


def _as_option_help(text: str) -> str:
    """The help of an option, without the values that only Python can pass."""
    text = text.replace(", 'binary', or a dict of grade: gain", " or 'binary'")
    return text[0].upper() + text[1:]


def _parse_numbers(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas."""
    try:
        return tuple(float(part.replace("_", "?")) for part in text.split(","))
    except ValueError:
        message = f"{text!r} is not a list of numbers such as 0.8,1.585,2"
        raise click.BadParameter(message) from None


def _convention_options() -> Decorator:
    """Make the options for conventions, with help from the docstring of `Conventions`."""
    bullets = re.findall(
        r"^    - ([\w, ]+): (.*?)(?=\n    - |\Z)", Conventions.__doc__ or "", re.M | re.S
    )
    helps = {name: " ".join(text.split()) for names, text in bullets for name in names.split(", ")}
    choices, lists = {"gain": GAIN.choices, **CHOICES}, ("discounts", "levels")
    options = [
        click.option(
            f"--{field.name.replace('_', '-')}",
            type=_parse_numbers
            if field.name in lists
            else click.Choice(choices[field.name])
            if field.name in choices
            else float,
            help=_as_option_help(helps[field.name]),
            metavar="NUMBER,..." if field.name in lists else None,
            show_default=field.default is not None and str(field.default),
        )
        for field in fields(Conventions)
        if field.name in {*choices, *lists, "threshold", "max_rel"}
    ]
    profile = click.option(
        "--conventions", type=click.Choice(list(PROFILES)), show_default="rankql",
        help="Match another tool. The options below change single conventions.",
    )  # fmt: skip
    return combine_options(profile, *options)


CONVENTIONS = _convention_options()
COLUMNS = combine_options(
    click.option("--query", metavar="COLUMN", help="Column of the query, or LEFT,RIGHT if run and "
                 "qrels differ. Several columns of all tables, such as user,session, are one key. "
                 "Usual names, such as qid, are recognised."),
    click.option("--item", metavar="COLUMN", help="Column of the item, or LEFT,RIGHT. This and the "
                 "next three may be SQL expressions, such as 'position + 1'."),
    click.option("--rel", metavar="COLUMN", help="Column of the grade, or the grades of events: "
                 "buy=3,click=1, or event=buy:3,click:1 with their column."),
    click.option("--score", metavar="COLUMN", help="Column of the score."),
    click.option("--pos", metavar="COLUMN", help="Column of the position; 1 is the top."),
    click.option("--system", metavar="COLUMN", help="Column of the system, if one table holds "
                 "the runs of several."),
    click.option("--ascending/--descending", default=None, help="Whether the lowest score is "
                 "best, as for distances.", show_default="descending, except for a column named "
                 "distance or dist"),
)  # fmt: skip
FORMAT = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", help="Format of the output."
)
WIDE = click.option(
    "--wide", is_flag=True, help="Print systems or slices as rows, and metrics as columns."
)
INPUTS = click.argument("inputs", type=DATA, nargs=-1, required=True, metavar="RUN... [QRELS]")
SLICES = combine_options(
    click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Add slices: one per value "
                 "of the column. Repeat --by for several."),
    click.option("--attributes", type=DATA, metavar="TABLE",
                 help="Table with attributes of the queries."),
)  # fmt: skip
CONFIDENCE = click.option(
    "--confidence", type=float, default=0.95, help="Level of the confidence intervals."
)
CLUSTER = click.option(
    "--cluster", metavar="COLUMN", help="Column that groups dependent queries, such as the user."
)
MISMATCH = click.option(
    "--on-mismatch", type=click.Choice(["error", "note"]), default="error",
    help="If results have different judgments or conventions.",
)  # fmt: skip
WEIGHT = click.option(
    "--weight", metavar="COLUMN", help="Column with one weight per query, such as its traffic."
)
JUDGE = click.option(
    "--judge", metavar="FILE", help="Labels of all queries by a language model, if QRELS has human "
    "labels of a random sample."
)  # fmt: skip
# Of the commands that read rankings with judgments.
RANKINGS = combine_options(
    click.option("--order", type=click.Choice(["rows"]), help="Take positions from the order of "
                 "the rows of each run."),
    click.option("--collapse", metavar="COLUMN|SEPARATOR", help="Keep the best chunk of each "
                 "document: a column, or the text before the number of a chunk, such as '#'."),
    click.option("--positions", type=click.Choice(["renumber", "keep"]), help="With --collapse, "
                 "move the rows below a dropped one up, or leave its position empty.",
                 show_default="renumber"),
)  # fmt: skip
# Of eval and correlate.
MEANS_OPTIONS = combine_options(
    SLICES,
    click.option("-q", "--per-query", is_flag=True, help="Print the values per query."),
    click.option("--interval", metavar="auto|t|none", default="auto",
                 help="Confidence interval of the means."),
    CONFIDENCE,
    WIDE,
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


LOWER_IS_BETTER = click.option(
    "--lower-is-better", multiple=True, metavar="NAME",
    help="Column of your own where lower is better, such as a waiting time. Repeatable.",
)  # fmt: skip
# Of compare and report.
COMPARISON_OPTIONS = combine_options(
    LOWER_IS_BETTER,
    MISMATCH,
    click.option("--baseline", metavar="NAME", help="Compare the other runs with this one.",
                 show_default="every pair"),
    click.option("--test", metavar="NAME", show_default="auto",
                 help="Significance test: auto, t, randomisation or anytime."),
    click.option("--correction", metavar="NAME", show_default="holm",
                 help="Adjustment for multiple tests: holm, bonferroni, bh, tukey or none."),
    click.option("--equivalence", type=float, metavar="MARGIN",
                 help="Difference that does not matter: tests equivalence within it."),
    CLUSTER,
    WEIGHT,
    JUDGE,
    click.option("--resamples", type=int, show_default="9999",
                 help="Number of random sign patterns of --test randomisation."),
    click.option("--seed", type=int, show_default="7", help="Seed of the sign patterns."),
    SLICES,
    click.option("--bounds", multiple=True, metavar="METRIC:LOWEST:HIGHEST",
                 callback=_parse_bounds,
                 help="Range of a metric that has none, for --test anytime."),
    CONFIDENCE,
)  # fmt: skip
