"""The command monitor: metrics by day, with an exit code if they got worse."""

from __future__ import annotations

from typing import Any

import click

from rankql.cli import options
from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result
from rankql.cli.inputs import keyword_arguments, split_slices


@command(
    "monitor", "monitor 'day=*/*.parquet' -m nDCG@10 --by device --report page.html",
    "monitor runs.parquet my.qrels --baseline 56",
)  # fmt: skip
@click.argument("days", type=options.DATA)
@click.argument("qrels", type=options.DATA, required=False)
@options.metrics_option("nDCG@10")
@click.option("--day", default="day", metavar="COLUMN", help="Column or folders of the day.")
@click.option("--baseline", default="28", metavar="DAYS|FIRST:LAST", help="Days to compare with.")
@options.SLICES
@click.option("--report", metavar="FILE", help="Write a page with the chart (.html), or .md, .csv.")
@options.FORMAT
@options.CONVENTIONS
@options.COLUMNS
@options.RANKINGS
def monitor_command(
    metrics: tuple[str, ...], by: tuple[str, ...], report: str | None, form: str, **keywords: Any
) -> None:
    """Raise an alarm if a metric drops or drifts, or if labels age.

    Exit code 0: no alarm on the last day, 1: an alarm, 2: wrong use. DAYS is a glob with a folder
    per day, or a table with the column day. Without QRELS, it has the grades too.
    """
    from rankql.diagnostics.monitor import monitor

    keywords |= {"metrics": metrics or ["nDCG@10"], "by": split_slices(by)}
    with open_connection() as con:
        result = monitor(con=con, **keyword_arguments(keywords))
    print_result(result, form)
    if report:
        result.save(report)
    raise SystemExit(int(not result))
