"""The command experiment: arms of an A/B test compared, or an A/B test planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result
from rankql.cli.inputs import split_slices
from rankql.cli.options import BOUNDS, CONFIDENCE, FORMAT


def _parse_pairs(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> dict[str, Any] | None:
    """Parse NAME=VALUE, the value of --ratio as a number; a single --before may have no NAME."""
    if option.name == "before" and len(texts) == 1 and "=" not in texts[0]:
        metrics = context.params["metrics"]
        if len(metrics) != 1:
            raise click.BadParameter(f"Cannot parse {texts[0]!r}. Expected {option.metavar}.")
        return {metrics[0]: texts[0]}
    pairs: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            pairs[name] = float(value) if option.name == "ratio" else value
            if not name:
                raise ValueError(text)
        except ValueError:
            raise click.BadParameter(f"Cannot parse {text!r}. Expected {option.metavar}.") from None
    return pairs or None


@command(
    "experiment",
    "experiment users.parquet -m revenue -m clicks/impressions --by country",
    "experiment last_month.parquet -m revenue --plan 0.02",
)
@click.argument("table")
@click.option("-m", "--metric", "metrics", multiple=True, required=True, metavar="COLUMN",
              is_eager=True,
              help="Column of numbers, or CLICKS/IMPRESSIONS for a ratio. Repeatable.")  # fmt: skip
@click.option("--arm", default="arm", metavar="COLUMN", help="Column of the arm.")
@click.option("--unit", default="user", metavar="COLUMN", help="Column of the randomised unit.")
@click.option("--control", metavar="ARM", help="The arm to compare with.",
              show_default="the arm named control, baseline, A, old, off, false or 0")  # fmt: skip
@click.option("--ratio", multiple=True, metavar="ARM=SHARE", callback=_parse_pairs,
              help="Planned share of each arm. Repeatable.", show_default="equal")  # fmt: skip
@click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Add slices. Repeatable.")
@click.option("--before", multiple=True, metavar="[METRIC=]COLUMN", callback=_parse_pairs,
              help="Column from before the experiment, which reduces the variance of a metric "
                   "(CUPED). Repeatable.")  # fmt: skip
@click.option("--sequential", is_flag=True, help="Stay valid if you look again and again.")
@click.option("--burn-in", type=int, default=1_000,
              help="With --sequential: units per arm before the first look.")  # fmt: skip
@BOUNDS
@click.option("--correction", metavar="NAME", default="holm",
              help="Adjustment for multiple tests: holm, bonferroni, bh or none.")  # fmt: skip
@CONFIDENCE
@click.option("--plan", type=float, metavar="LIFT", show_default="compare arms",
              help="Without arms: how many units detect this lift, e.g. 0.02.")  # fmt: skip
@FORMAT
def experiment_command(
    table: str,
    metrics: Sequence[str],
    unit: str,
    by: Sequence[str],
    before: dict[str, str] | None,
    confidence: float,
    plan: float | None,
    form: str,
    **options: Any,
) -> None:
    """Compare the arms of an A/B test on users.

    TABLE has one or more rows per user, with the column of the arm. The rows of a user are added
    up first.
    """
    from rankql.online.experiment import experiment, plan_experiment

    shared: dict[str, Any] = {
        "metrics": [*metrics], "unit": unit, "before": before, "confidence": confidence
    }  # fmt: skip
    with open_connection() as con:
        if plan is not None:
            result = plan_experiment(table, lift=plan, con=con, **shared)
        else:
            result = experiment(table, by=split_slices(by), con=con, **shared, **options)
    print_result(result, form)
