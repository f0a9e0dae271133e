"""The commands for the metrics of runs: eval, explain, limits, correlate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.console import open_connection, print_frame, print_result
from rankql.cli.inputs import keyword_arguments, split_inputs, split_slices
from rankql.cli.options import (
    FORMAT,
    INPUTS,
    MEANS_OPTIONS,
    METRICS,
    column_options,
    convention_options,
)

if TYPE_CHECKING:
    from rankql.evaluation.result import Result


@click.command("eval")
@INPUTS
@METRICS
@MEANS_OPTIONS
@click.option("--output", metavar="FILE", help="Write the values per query to a Parquet file.")
@FORMAT
@convention_options
@column_options
def eval_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Evaluate runs against judgments, or one ranked table of both."""
    from rankql.engines.evaluate import evaluate
    from rankql.evaluation.arguments import DEFAULT_METRICS

    _print_means(evaluate, DEFAULT_METRICS, split_inputs(inputs), form, **options)


@click.command("correlate")
@click.argument("inputs", nargs=-1, required=True, metavar="RUN... REFERENCE")
@METRICS
@click.option("-k", type=click.IntRange(1), help="The cutoff of both rankings.")
@MEANS_OPTIONS
@FORMAT
@column_options
def correlate_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Say how alike the rankings of runs are to those of another."""
    from rankql.diagnostics.correlate import DEFAULT_CORRELATIONS, correlate

    run, reference = split_inputs(inputs)
    if reference is None or options.pop("rel") is not None:
        raise click.UsageError("correlate compares a RUN with a REFERENCE, which have no grades")
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
        print_result(result, form)


@click.command("explain")
@INPUTS
@click.option("-Q", "--of", metavar="QUERY", help="The query; all of them, where left out.")
@click.option("--which", metavar="SYSTEM", help="The system, where the inputs hold several.")
@click.option("-m", "--metric", default="nDCG@10", show_default=True, metavar="NAME")
@click.option("--worst", type=click.IntRange(1), default=10, show_default=True, metavar="N")
@FORMAT
@convention_options
@column_options
def explain_command(
    inputs: Sequence[str],
    of: str | None,
    metric: str,
    form: str,
    **options: Any,
) -> None:
    """Show why a metric is what it is.

    By position for one query, or what costs most overall.
    """
    from rankql.diagnostics.explain import explain

    run, qrels = split_inputs(inputs)
    with open_connection() as con:
        explanation = explain(run, qrels, of, metric, con=con, **keyword_arguments(options))
    print_result(explanation, form)


@click.command("limits")
@INPUTS
@METRICS
@FORMAT
@convention_options
@column_options
def limits_command(
    inputs: Sequence[str], metrics: Sequence[str], form: str, **options: Any
) -> None:
    """Show how far metrics can be trusted.

    What is undefined, unjudged, twice there, or moved by a swap of neighbours.
    """
    from rankql.diagnostics.limits import limits
    from rankql.evaluation.arguments import DEFAULT_METRICS

    run, qrels = split_inputs(inputs)
    with open_connection() as con:
        result = limits(
            run, qrels, list(metrics) or DEFAULT_METRICS, con=con, **keyword_arguments(options)
        )
    print_result(result, form)
