"""The command monitor: metrics by day, with an exit code if they got worse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result, write_junit
from rankql.cli.inputs import keyword_arguments, split_slices
from rankql.cli.options import (
    COLUMNS,
    CONVENTIONS,
    FORMAT,
    LOWER_IS_BETTER,
    RANKINGS,
    SLICES,
    metrics_option,
)


@command(
    "monitor",
    "monitor 'day=2026-11-*/*.parquet' -m nDCG@10",
    "monitor day=2026-11-30/run.parquet my.qrels --states states --report page.html",
)
@click.argument("days")
@click.argument("qrels", required=False)
@metrics_option("nDCG@10")
@click.option("--day", default="day", metavar="COLUMN", help="Column or folders of the day.")
@click.option("--baseline", default="28", metavar="DAYS|FIRST:LAST",
              help="The days to compare with: the first so many, or a period such as "
                   "2026-09-01:2026-09-28.")  # fmt: skip
@click.option("--states", metavar="FOLDER", help="Store a small file per day; read those of other "
              "days.")  # fmt: skip
@click.option("--gaps", is_flag=True, help="Allow missing days.")
@click.option("--alpha", type=float, default=0.05,
              help="Probability of any false alarm in a year.")  # fmt: skip
@SLICES
@LOWER_IS_BETTER
@click.option("--report", metavar="FILE", help="Write a page with the chart (.html), or .md, .csv, "
              ".json, .parquet.")  # fmt: skip
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@FORMAT
@CONVENTIONS
@COLUMNS
@RANKINGS
def monitor_command(
    days: str,
    qrels: str | None,
    metrics: Sequence[str],
    baseline: str,
    by: Sequence[str],
    lower_is_better: Sequence[str],
    report: str | None,
    junit: Path | None,
    form: str,
    **options: Any,
) -> None:
    """Raise an alarm if a metric drops or drifts, or if labels age.

    Exit code 0: no alarm on the last day, 1: an alarm, 2: wrong use. DAYS is a glob with a folder
    per day, or a table with the column day. Without QRELS, it has the grades too.
    """
    from rankql.online.monitor import monitor

    with open_connection() as con:
        result = monitor(
            days,
            qrels,
            list(metrics) or ["nDCG@10"],
            baseline=int(baseline) if baseline.isdecimal() else baseline,
            by=split_slices(by),
            higher_is_better=dict.fromkeys(lower_is_better, False) or None,
            con=con,
            **keyword_arguments(options),
        )
    print_result(result, form)
    if report:
        result.save(report)
    write_junit(result, junit)
    raise SystemExit(result.exit_code)
