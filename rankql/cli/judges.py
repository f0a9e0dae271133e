"""The command judges: labels of language models beside human ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rankql.cli import options
from rankql.cli.command import command
from rankql.cli.console import open_connection, print_result
from rankql.cli.inputs import keyword_arguments, split_name


@command(
    "judges", "judges human.qrels llm.qrels",
    "judges human.qrels gpt=a.qrels llama=b.qrels --run old.run --run new.run -m nDCG@10",
)  # fmt: skip
@click.argument("human", type=options.DATA)
@click.argument("llm", type=options.DATA, nargs=-1, required=True, metavar="LLM...")
@click.option("--run", "runs", multiple=True, metavar="RUN",
              help="Run to evaluate under both labels, or NAME=RUN. Repeatable.")  # fmt: skip
@options.metrics_option("nDCG@10")
@options.CONFIDENCE
@options.FORMAT
@options.CONVENTIONS
@options.COLUMNS
@options.RANKINGS
def judges_command(
    human: str,
    llm: Sequence[str],
    runs: Sequence[str],
    metrics: Sequence[str],
    form: str,
    **keywords: Any,
) -> None:
    """Compare labels of language models with human labels.

    HUMAN and LLM are judgments of the same items; NAME=LLM names a judge. With --run, also compare
    how both order the runs.
    """
    from rankql.decisions.judges import judges

    tables, data = dict(map(split_name, llm)), dict(map(split_name, runs))
    for kind, given, named in (("judges", llm, tables), ("runs", runs, data)):
        if len(named) < len(given):
            raise click.UsageError(f"Two {kind} have the same name. Name each: NAME=PATH.")
    with open_connection() as con:
        report = judges(
            tables, human, data or None, list(metrics) or ["nDCG@10"], con=con,
            **keyword_arguments(keywords),
        )  # fmt: skip
    print_result(report, form)
