"""The commands for the metrics of runs: eval, explain, funnel, limits, correlate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import command
from rankql.cli.console import open_connection, print_frame, print_result
from rankql.cli.inputs import keyword_arguments, split_inputs, split_name, split_slices
from rankql.cli.options import (
    COLUMNS,
    CONFIDENCE,
    CONVENTIONS,
    DATA,
    FORMAT,
    INPUTS,
    JUDGE,
    MEANS_OPTIONS,
    RANKINGS,
    SLICES,
    WEIGHT,
    metrics_option,
)
from rankql.evaluation.arguments import DEFAULT_CORRELATIONS, DEFAULT_METRICS

if TYPE_CHECKING:
    from rankql.evaluation.result import Result
from dataclasses import replace

from rankql.cli.hints import as_cli_options


@command(
    "eval",
    "eval my.run my.qrels -m nDCG@10 -m AP",
    "eval shown.parquet --by segment --output values.parquet",
)
@INPUTS
@metrics_option()
@MEANS_OPTIONS
@WEIGHT
@JUDGE
@click.option("-o", "--output", type=DATA, metavar="FILE",
              help="Write the values per query to a Parquet file.")  # fmt: skip
@FORMAT
@CONVENTIONS
@COLUMNS
@RANKINGS
def eval_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Compute metrics of runs.

    RUN is a ranking with scores or positions, and QRELS has the judgments: Parquet, CSV, JSON or
    TREC files. Without QRELS, RUN has the grades too. NAME=RUN names a run.
    """
    data = split_inputs(inputs)
    from rankql.evaluation.evaluate import evaluate

    _print_means(evaluate, DEFAULT_METRICS, data, form, **options)


@command(
    "correlate", "correlate new.run old.run", "correlate new.run old.run -k 10 -m 'RBO(p=0.9)'"
)
@click.argument("inputs", type=DATA, nargs=-1, required=True, metavar="RUN... REFERENCE")
@metrics_option(", ".join(DEFAULT_CORRELATIONS))
@click.option("-k", type=click.IntRange(1), help="Compare the first k items of each ranking.")
@MEANS_OPTIONS
@FORMAT
@COLUMNS
def correlate_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Measure how similar rankings are to those of a reference."""
    run, reference = split_inputs(inputs)
    from rankql.diagnostics.correlate import correlate

    if reference is None or options.pop("rel") is not None:
        raise click.UsageError("Rankings have no grades. Pass RUN... REFERENCE, without --rel.")
    _print_means(correlate, DEFAULT_CORRELATIONS, (run, reference), form, **options)


def _print_means(
    function: Callable[..., Result],
    default: Sequence[str],
    data: tuple[Any, str | None],
    form: str,
    *,
    metrics: Sequence[str],
    by: Sequence[str],
    per_query: bool,
    interval: str,
    wide: bool,
    **options: Any,
) -> None:
    """Run eval or correlate, and print the values per query or their means."""
    with open_connection() as con:
        result = function(
            *data,
            list(metrics) or default,
            by=split_slices(by),
            con=con,
            interval=None if interval == "none" else interval,
            **keyword_arguments(options),
        )
    if per_query:
        print_frame(result.per_query, form, result.remarks())
    else:
        print_result(result.wide() if wide else result, form)


@command("explain", "explain my.run my.qrels -m nDCG@10", "explain my.run my.qrels --of q7")
@INPUTS
@click.option("-Q", "--of", metavar="QUERY", help="Explain this query.", show_default="the worst")
@click.option("--which", metavar="SYSTEM", help="Explain this system, if there are several.")
@click.option("-m", "--metric", default="nDCG@10", metavar="NAME", help="Metric to explain.")
@click.option("--worst", type=click.IntRange(1), default=10, metavar="N",
              help="Number of queries and items to print without --of.")  # fmt: skip
@FORMAT
@CONVENTIONS
@COLUMNS
@RANKINGS
def explain_command(
    inputs: Sequence[str], of: str | None, metric: str, form: str, **options: Any
) -> None:
    """Show what each item contributes to a metric.

    With --of for each position of one query, otherwise for the queries and items that lose most.
    """
    run, qrels = split_inputs(inputs)
    from rankql.diagnostics.explain import explain

    with open_connection() as con:
        explanation = explain(run, qrels, of, metric, con=con, **keyword_arguments(options))
    print_result(explanation, form)


@command("limits", "limits my.run my.qrels", "limits old.run new.run my.qrels -m nDCG@10")
@INPUTS
@metrics_option()
@FORMAT
@CONVENTIONS
@COLUMNS
@RANKINGS
def limits_command(
    inputs: Sequence[str], metrics: Sequence[str], form: str, **options: Any
) -> None:
    """Show how far metrics can be trusted.

    Counts undefined queries and unjudged items, and measures how much a swap of two neighbours
    changes each metric.
    """
    run, qrels = split_inputs(inputs)
    from rankql.diagnostics.limits import limits

    with open_connection() as con:
        result = limits(
            run, qrels, list(metrics) or DEFAULT_METRICS, con=con, **keyword_arguments(options)
        )
    print_result(result, form)


@command(
    "funnel",
    "funnel retrieval.parquet rank.parquet my.qrels",
    "funnel retrieval=a.parquet rerank=b.run my.qrels -k 20 --by segment",
)
@INPUTS
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="Cutoff of nDCG.")
@SLICES
@CONFIDENCE
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
              help="File to write: .html, .md, .tex, .csv, .json or .parquet.")  # fmt: skip
@FORMAT
@CONVENTIONS
@COLUMNS
def funnel_command(
    inputs: Sequence[str], k: int, by: Sequence[str], output: Path | None, form: str, **options: Any
) -> None:
    """Show which stage of a pipeline loses how much nDCG.

    Each RUN has the items after a stage, the last one is the final ranking.
    """
    runs, qrels = split_inputs(inputs)
    from rankql.diagnostics.funnel import funnel

    if qrels is None:
        raise click.UsageError("The judgments are missing. Pass them last: RUN... QRELS.")
    stages = dict([split_name(runs)]) if isinstance(runs, str) else runs
    with open_connection() as con:
        result = funnel(
            stages, qrels, k, by=split_slices(by), con=con, **keyword_arguments(options)
        )
    if output:
        result.save(output)
        click.echo(f"Wrote {output}", err=True)
    print_result(result, form)


@command("check", "check my.run my.qrels", "check my.run my.qrels -k 20 --format json")
@INPUTS
@click.option("-k", type=click.IntRange(1), default=10, help="Cutoff for ties and unjudged items.")
@FORMAT
@COLUMNS
def check_command(inputs: Sequence[str], k: int, form: str, **options: Any) -> None:
    """Find problems in the data.

    Exit code 1 if there is an error, 0 if there are warnings and notes only.
    """
    run, qrels = split_inputs(inputs)
    from rankql.diagnostics.check import check

    with open_connection() as con:
        report = check(run, qrels, k=k, con=con, **keyword_arguments(options))
    findings = [replace(finding, why=as_cli_options(finding.why)) for finding in report]
    print_result(replace(report, findings=findings), form)
    raise SystemExit(0 if report.ok else 1)


@command("convert", "convert my.run run.parquet", "convert run.parquet my.run --tag bm25")
@click.argument("source", type=DATA)
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--tag", default="rankql", help="Last column of a TREC run.")
@COLUMNS
def convert_command(source: str, target: Path, **options: Any) -> None:
    """Convert runs and judgments: TREC, BEIR, Parquet, CSV.

    TARGET is Parquet if its name ends in .parquet, CSV if it ends in .csv, BEIR if it ends in .tsv
    or .json, otherwise TREC.
    """
    from rankql.evaluation.conversion import convert

    with open_connection() as con:
        click.echo(convert(source, target, con=con, **keyword_arguments(options)), err=True)
