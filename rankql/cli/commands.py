"""The command line: `rankql` or `python -m rankql`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.registry.conventions import CHOICES, PROFILES, Conventions
from rankql.registry.parse import GAINS

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from rankql.decisions.comparison import Comparison
    from rankql.evaluation.result import Result

FORMATS = ("table", "markdown", "csv", "json", "jsonl")


class _Group(click.Group):
    """Errors of ours and of DuckDB end the program with one line and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("rankql: interrupted", err=True)
            raise SystemExit(130) from None
        except Exception as error:
            if ctx.params["debug"] or not _is_expected(error):
                traceback.print_exc()
            from rankql import text as show

            click.echo(f"rankql: {show.plain(_as_options(_one_line(error)))}", err=True)
            raise SystemExit(2) from None


# Options of Python that a hint may name: columns, the order of scores and conventions.
_HINTS = "|".join(["system", "pos", "score", "rel", "item", "query", "max_rel", *CHOICES])
_HINT = re.compile(rf"(?<![\w(@])(?P<name>{_HINTS})=(?:'(?P<value>[^']*)'|(?![\w.@]))", re.ASCII)


def _as_options(text: str) -> str:
    """A message with its hints as options of the command line: rel='...' as --rel COLUMN."""

    def option(match: re.Match[str]) -> str:
        name = f"--{match['name'].replace('_', '-')}"
        value = "COLUMN" if match["value"] == "..." else match["value"] or ""
        return f"{name} {shlex.quote(value)}" if value else name

    text = re.sub(r"\bpass descending=False", "pass --ascending", text)
    text = re.sub(r"\bpass descending=True", "pass --descending", text)
    text = re.sub(r"\bdescending=False", "--ascending", text)
    text = re.sub(r"\bdescending=True", "--descending", text)
    text = text.replace("leave descending out", "leave it out")
    return _HINT.sub(option, text)


def _is_expected(error: Exception) -> bool:
    import duckdb

    from rankql.errors import RankqlError

    return isinstance(error, RankqlError | duckdb.Error | OSError)


def _one_line(error: Exception) -> str:
    """The message of an error on one line, with the names that DuckDB suggests."""
    import duckdb

    from rankql.errors import database_message

    if isinstance(error, duckdb.Error):
        return database_message(error)
    return (str(error).splitlines() or [type(error).__name__])[0]


def _called_as(ctx: click.Context) -> str:
    """How the user called rankql, so that the commands that are printed work as they are."""
    name, script = ctx.find_root().command_path, Path(sys.argv[0])
    if name == "python -m rankql":  # of rankql/__main__.py, whichever python was called
        return f"{shlex.quote(sys.orig_argv[0])} -m rankql"
    if script.stem == "rankql" and script.is_file():
        found = shutil.which("rankql")
        if not found or not script.samefile(found):
            return shlex.quote(sys.argv[0])  # a path, such as .venv/bin/rankql
    return name


# What to do first, to whoever calls without a command.
_START = """\
Ranking metrics that run where your data lives.

See it run on a simulated shop      {rankql} demo
Evaluate what the demo wrote        {rankql} eval rankql-demo/shop.parquet --by segment
Evaluate files of your own          {rankql} eval RUN QRELS -m nDCG@10
                                    (Parquet, CSV, JSON or TREC)
Look for what is wrong with them    {rankql} check RUN QRELS
All commands; options of one        {rankql} --help; {rankql} eval --help
"""


@click.group(
    "rankql", cls=_Group, invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]..."
)
@click.version_option(package_name="rankql")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """Ranking metrics that run where your data lives."""
    if not ctx.invoked_subcommand:
        click.echo(_START.format(rankql=_called_as(ctx)), err=True, nl=False)
        ctx.exit(2)  # as click does without a command


def _column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name columns."""
    said = {
        "system": "The column of the run that tells several systems apart.",
        "pos": "The column of the position, 1 at the top.",
        "score": "The column of the score.",
        "rel": "The column of the grade.",
        "item": "The column of the item; LEFT,RIGHT likewise.",
        "query": "The column of the query; LEFT,RIGHT where run and qrels differ.",
    }
    lowest = "The lowest score is best, as for distances; default: if its column is named distance."
    command = click.option("--ascending/--descending", default=None, help=lowest)(command)
    for role, text in said.items():
        command = click.option(f"--{role}", metavar="COLUMN", help=text)(command)
    return command


def _convention_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that change a convention, with what is said of them where they are defined."""
    bullets = re.findall(
        r"^    - ([\w, ]+): (.*?)(?=\n    - |\Z)", Conventions.__doc__ or "", re.M | re.S
    )
    said = {name: " ".join(text.split()) for names, text in bullets for name in names.split(", ")}
    numbers = {"max_rel": float, "threshold": float}
    kinds = {name: click.Choice(choices) for name, choices in {"gain": GAINS, **CHOICES}.items()}
    for name, kind in {**numbers, **dict(reversed(kinds.items()))}.items():
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, type=kind, help=said[name][0].upper() + said[name][1:])(
            command
        )
    profiles = click.Choice(list(PROFILES))
    return click.option("--conventions", type=profiles, help="All of them as a peer has them.")(
        command
    )


_METRICS = click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME", help="A metric, such as nDCG@5,10."
)
_FORMAT = click.option("--format", "form", type=click.Choice(FORMATS), default="table")
_OBJECT_FORMAT = click.option(
    "--format", "form", type=click.Choice(["table", "markdown", "json"]), default="table"
)
_INPUTS = click.argument("inputs", nargs=-1, required=True, metavar="RUN... [QRELS]")


def _run_and_qrels(inputs: Sequence[str], are_values: bool = False) -> tuple[Any, str | None]:
    """One table alone; a run and its judgments; or several runs, by NAME=PATH or their files."""
    from rankql.evaluation.combining import read_metadata

    alone = len(inputs) == 1 or are_values or read_metadata(_name(inputs[-1])[1]) is not None
    runs, qrels = (inputs, None) if alone else (inputs[:-1], inputs[-1])
    if len(runs) == 1 and _name(runs[0])[1] == runs[0]:
        return runs[0], qrels
    named = dict(map(_name, runs))
    if len(named) < len(runs):
        raise click.UsageError("the runs must have names that differ: give NAME=PATH")
    return named, qrels


def _name(run: str) -> tuple[str, str]:
    """The name of a run and where it is; without one, that of its file.

    What is a path or a glob as it stands, such as day=2024/*.parquet, has no name before it.
    """
    from rankql.sources.files import is_path

    name, equals, path = run.partition("=")
    if equals and "/" not in name and not is_path(run):
        return name, path
    return Path(run.removesuffix(".gz")).stem, run


def _columns(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; two columns of one role as a pair."""
    options = {
        name: value.split(",") if name in ("query", "item") and "," in value else value
        for name, value in given.items()
        if value is not None
    }
    if "ascending" in options:
        options["descending"] = not options.pop("ascending")
    return options


def _all_of(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return added


# Values per query and their means, of eval and correlate alike.
_MEANS_OPTIONS = _all_of(
    click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Slice the means; "
                 "repeatable."),
    click.option("--attributes", metavar="TABLE", help="A table of attributes of the queries."),
    click.option("-q", "--per-query", is_flag=True, help="Print the values per query."),
    click.option("--interval", type=click.Choice(["auto", "t", "bootstrap", "none"]),
                 default="auto", show_default=True, help="Confidence interval of the means."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
)  # fmt: skip


def _groupings(by: Sequence[str]) -> list[list[str]]:
    """The attributes of each --by."""
    return [group.split(",") for group in by]


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
    """What eval or correlate finds: the values per query, or their means."""
    with _connection() as con:
        result = function(
            *data,
            list(metrics) or default,
            by=_groupings(by),
            con=con,
            interval=None if interval == "none" else interval,
            **_columns(options),
        )
    if per_query:
        _print(result.per_query, form, result.remarks())
    elif form in ("csv", "jsonl"):
        _print(result.summary, form, result.remarks())
    else:
        _echo(result, form)


@main.command("eval")
@_INPUTS
@_METRICS
@_MEANS_OPTIONS
@click.option("--output", metavar="FILE", help="Write the values per query to a Parquet file.")
@_FORMAT
@_convention_options
@_column_options
def eval_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Evaluate runs against judgments, or one ranked table of both."""
    from rankql.engines.evaluate import evaluate
    from rankql.evaluation.arguments import DEFAULT_METRICS

    _print_means(evaluate, DEFAULT_METRICS, _run_and_qrels(inputs), form, **options)


def _bounds(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> dict[str, tuple[float, float]] | None:
    """The range of each metric, from METRIC:LOWEST:HIGHEST."""
    found = {}
    for text in texts:
        name, *ends = text.rsplit(":", 2)
        try:
            low, high = map(float, ends)
        except ValueError:
            raise click.BadParameter(
                f"Cannot parse {text!r}. Expected METRIC:LOWEST:HIGHEST, e.g. DCG@10:0:20."
            ) from None
        found[name] = (low, high)
    return found or None


# How systems are tested, of compare and report alike; and how systems are compared.
_TEST_OPTIONS = _all_of(
    click.option("--test", metavar="NAME", help="t (default), randomisation, bootstrap, "
                 "wilcoxon, tukey, randomised_tukey or anytime."),
    click.option("--correction", metavar="NAME", help="holm (default), bonferroni, bh or none."),
    click.option("--family", metavar="NAME", help="Corrected for together: all (default), metric."),
    click.option("--cluster", metavar="COLUMN", help="Queries with the same value belong "
                 "together."),
    click.option("--resamples", type=int, help="How often to resample; 9999."),
    click.option("--seed", type=int, help="The seed of resampling; 7."),
    click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Also by slices."),
    click.option("--attributes", metavar="TABLE", help="A table of attributes of the queries."),
)  # fmt: skip
_DIRECTION = click.option(
    "--lower-is-better",
    multiple=True,
    metavar="NAME",
    help="A column of your own, such as a waiting time, of which less is better; repeatable.",
)
_COMPARISON_OPTIONS = _all_of(
    _DIRECTION,
    click.option("--baseline", metavar="NAME", help="Compare the others with this one; without it "
                 "every pair."),
    _TEST_OPTIONS,
    click.option("--bounds", multiple=True, metavar="METRIC:LOWEST:HIGHEST", callback=_bounds,
                 help="The range of a metric that has none, for --test anytime."),
    click.option("--confidence", type=float, default=0.95, show_default=True),
)  # fmt: skip


@main.command("compare")
@_INPUTS
@_METRICS
@_COMPARISON_OPTIONS
@_FORMAT
@_convention_options
@_column_options
def compare_command(
    inputs: Sequence[str], metrics: Sequence[str], by: Sequence[str], form: str, **options: Any
) -> None:
    """Compare runs on the same queries, with significance tests.

    Without QRELS, files that eval --output wrote are compared, or any tables with one row per query
    and columns of numbers, such as revenue.
    """
    with _connection() as con:
        comparison = _compared(con, inputs, metrics, by, options)
        if form in ("csv", "jsonl"):
            _print(comparison.table, form, comparison.remarks())
        else:
            _echo(comparison, form)


def _compared(
    con: duckdb.DuckDBPyConnection,
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    options: dict[str, Any],
) -> Comparison:
    from rankql.decisions.comparison import compare
    from rankql.evaluation.values import Request, read_result

    lower = dict.fromkeys(options.pop("lower_is_better"), False)
    keywords = _columns(options)
    request = Request.of(keywords, [*metrics], ",".join(by).split(","), lower)
    last = _name(inputs[-1])[1]
    are_values = read_result(last, last, request) is not None
    runs, qrels = _run_and_qrels(inputs, are_values)
    return compare(
        runs, qrels=qrels, metrics=list(metrics) or None, by=_groupings(by), con=con,
        higher_is_better=lower or None, **keywords,
    )  # fmt: skip


@main.command("report")
@_INPUTS
@_METRICS
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where it goes: .html, .md, .csv, .json or .parquet.",
)
@click.option("--title", help="The title of the page.")
@_COMPARISON_OPTIONS
@_convention_options
@_column_options
def report_command(
    inputs: Sequence[str],
    metrics: Sequence[str],
    by: Sequence[str],
    output: Path,
    title: str | None,
    **options: Any,
) -> None:
    """Write a comparison of runs as one page.

    What was found, charts, the queries that lost and gained most, limits.
    """
    with _connection() as con:
        _compared(con, inputs, metrics, by, options).save(output, title=title)
    click.echo(f"wrote {output}", err=True)


@main.command("correlate")
@click.argument("inputs", nargs=-1, required=True, metavar="RUN... REFERENCE")
@_METRICS
@click.option("-k", type=click.IntRange(1), help="The cutoff of both rankings.")
@_MEANS_OPTIONS
@_FORMAT
@_column_options
def correlate_command(inputs: Sequence[str], form: str, **options: Any) -> None:
    """Say how alike the rankings of runs are to those of another."""
    from rankql.diagnostics.correlation import DEFAULT, correlate

    run, reference = _run_and_qrels(inputs)
    if reference is None or options.pop("rel") is not None:
        raise click.UsageError("correlate compares a RUN with a REFERENCE, which have no grades")
    _print_means(correlate, DEFAULT, (run, reference), form, **options)


@main.command("associate")
@click.argument("per_query")
@click.argument("outcomes")
@_METRICS
@click.option(
    "--on",
    multiple=True,
    required=True,
    metavar="COLUMN",
    help="The key; LEFT=RIGHT where PER_QUERY and OUTCOMES differ; repeatable.",
)
@click.option(
    "--outcome",
    multiple=True,
    metavar="COLUMN",
    help="An outcome; NAME=COLUMN, or NAME=COLUMN/COLUMN for a ratio of sums; repeatable.",
)
@click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Also by slices.")
@click.option("--baseline", metavar="NAME", help="Of two systems, the one to start from.")
@_DIRECTION
@click.option("--confidence", type=float, default=0.95, show_default=True)
@_FORMAT
def associate_command(
    per_query: str,
    outcomes: str,
    metrics: Sequence[str],
    on: Sequence[str],
    outcome: Sequence[str],
    by: Sequence[str],
    lower_is_better: Sequence[str],
    form: str,
    **options: Any,
) -> None:
    """Say whether metrics go with what the business counts.

    PER_QUERY is what eval --output wrote, or a table with metrics; OUTCOMES a table of outcomes.
    The key of both joins them.
    """
    from rankql.decisions.association import associate

    keys = {left: right or left for left, _, right in (key.partition("=") for key in on)}
    pairs = [name.partition("=") for name in outcome]
    counted = {name: tuple((right or name).split("/")) for name, _, right in pairs}
    with _connection() as con:
        found = associate(
            per_query, outcomes, on=keys, metrics=list(metrics) or None, outcome=counted or None,
            by=_groupings(by), higher_is_better=dict.fromkeys(lower_is_better, False) or None,
            con=con, **options,
        )  # fmt: skip
    if form in ("csv", "jsonl"):
        _print(found.table, form, found.remarks())
    else:
        _echo(found, form)


@main.command("gate")
@click.argument("run")
@click.argument("qrels", required=False)
@click.option("--baseline", metavar="FILE", help="A file that eval --output wrote, or a run.")
@click.option(
    "--min",
    "minimum",
    multiple=True,
    metavar="LIMIT",
    help="The lowest mean allowed, e.g. nDCG@10>=0.45.",
)
@click.option(
    "--max-drop",
    multiple=True,
    metavar="LIMIT",
    help="The largest drop below the baseline allowed, e.g. nDCG@10:0.01.",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["fail", "warn"]),
    default="fail",
    show_default=True,
    help="What to do if there are too few queries to decide: fail with exit code 3, or warn.",
)
@click.option(
    "--min-bound",
    "minimum_bound",
    is_flag=True,
    help="Hold the confidence interval of the mean to --min, not the mean.",
)
@click.option(
    "--any-drop",
    is_flag=True,
    help="Compare the means alone: fail any drop beyond its limit, even by chance.",
)
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    show_default=True,
    help="Significance level; intervals have level 1 - alpha.",
)
@click.option(
    "--min-queries",
    type=int,
    default=10,
    show_default=True,
    help="A slice with fewer "
    "queries cannot pass; it is reported, or fails if the drop is beyond doubt.",
)
@click.option(
    "--test",
    metavar="NAME",
    help="Where the interval comes from: t (default), randomisation or bootstrap.",
)
@click.option("--cluster", metavar="COLUMN", help="Queries with the same value belong together.")
@click.option("--resamples", type=int, help="Number of resamples (default 9999).")
@click.option("--seed", type=int, help="Seed of the resampling (default 7).")
@_DIRECTION
@click.option("--by", multiple=True, metavar="COLUMN[,COLUMN]", help="Check slices too.")
@click.option("--attributes", metavar="TABLE", help="A table with attributes of the queries.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit XML.")
@click.option(
    "--github/--no-github",
    default=None,
    help="Write annotations, and a summary to $GITHUB_STEP_SUMMARY (default: in GitHub Actions).",
)
@_OBJECT_FORMAT
@_convention_options
@_column_options
def gate_command(
    run: str,
    qrels: str | None,
    max_drop: Sequence[str],
    any_drop: bool,
    by: Sequence[str],
    lower_is_better: Sequence[str],
    junit: Path | None,
    github: bool | None,
    form: str,
    **options: Any,
) -> None:
    """Hold a run to limits and a baseline.

    Exit code 0: passed, 1: a limit failed, 2: wrong use, 3: inconclusive. RUN may be a file that
    eval --output wrote, without QRELS.
    """
    from rankql.decisions.gating import gate
    from rankql.evaluation.writing import atomic_path

    with _connection() as con:
        verdict = gate(
            run,
            qrels,
            max_drop=list(max_drop) or None,
            by=_groupings(by),
            higher_is_better=dict.fromkeys(lower_is_better, False) or None,
            beyond_noise=not any_drop,
            con=con,
            **_columns(options),
        )
    _echo(verdict, form)
    if junit:
        with atomic_path(junit) as beside:
            beside.write_text(verdict.junit(), encoding="utf-8")
    if github or (github is None and os.environ.get("GITHUB_ACTIONS") == "true"):
        for line in verdict.annotations():  # of which GitHub reads both streams
            click.echo(line, err=True)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(f"{verdict.to_markdown()}\n\n")
    if verdict and len(verdict.inconclusive):
        click.echo(f"Warning: inconclusive limits: {len(verdict.inconclusive)}", err=True)
    raise SystemExit(verdict.exit_code)


@main.command("explain")
@_INPUTS
@click.option("-Q", "--of", metavar="QUERY", help="The query; all of them, where left out.")
@click.option("--which", metavar="SYSTEM", help="The system, where the inputs hold several.")
@click.option("-m", "--metric", default="nDCG@10", show_default=True, metavar="NAME")
@click.option("--worst", type=click.IntRange(1), default=10, show_default=True, metavar="N")
@_OBJECT_FORMAT
@_convention_options
@_column_options
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
    from rankql.diagnostics.explanation import explain

    run, qrels = _run_and_qrels(inputs)
    with _connection() as con:
        explanation = explain(run, qrels, of, metric, con=con, **_columns(options))
    _echo(explanation, form)


@main.command("check")
@_INPUTS
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="The cutoff.")
@_OBJECT_FORMAT
@_column_options
def check_command(inputs: Sequence[str], k: int, form: str, **options: Any) -> None:
    """Look for what would make numbers wrong; exit code 1 if found."""
    from rankql.diagnostics.preflight import check

    run, qrels = _run_and_qrels(inputs)
    with _connection() as con:
        report = check(run, qrels, k=k, con=con, **_columns(options))
    findings = [replace(finding, why=_as_options(finding.why)) for finding in report]
    _echo(replace(report, findings=findings), form)
    raise SystemExit(0 if report.ok else 1)


@main.command("limits")
@_INPUTS
@_METRICS
@_OBJECT_FORMAT
@_convention_options
@_column_options
def limits_command(
    inputs: Sequence[str], metrics: Sequence[str], form: str, **options: Any
) -> None:
    """Show how far metrics can be trusted.

    What is undefined, unjudged, twice there, or moved by a swap of neighbours.
    """
    from rankql.diagnostics.limitations import limits
    from rankql.evaluation.arguments import DEFAULT_METRICS

    run, qrels = _run_and_qrels(inputs)
    with _connection() as con:
        found = limits(run, qrels, list(metrics) or DEFAULT_METRICS, con=con, **_columns(options))
    _echo(found, form)


@main.command("convert")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--tag", default="rankql", show_default=True, help="The last column of a TREC run.")
@_column_options
def convert_command(source: str, target: Path, **options: Any) -> None:
    """Convert a run or judgments between TREC and Parquet or CSV.

    By the name of TARGET: .parquet, .csv, or else TREC.
    """
    from rankql.evaluation.conversion import convert

    with _connection() as con:
        click.echo(convert(source, target, con=con, **_columns(options)), err=True)


@main.command("metrics")
@_FORMAT
def metrics_command(form: str) -> None:
    """List the metrics.

    Of each its columns, level, direction, range, definition, other names and options.
    """
    from rankql.registry.parse import metrics

    _print(metrics(), form, [f"Conventions: {PROFILES['rankql']}"])


@main.command("sql")
@click.argument("inputs", nargs=-1, metavar="[RUN... QRELS | QUERY]")
@click.option(
    "--dialect",
    metavar="NAME",
    help="Of another engine: clickhouse, spark, postgres, sqlite, datafusion, snowflake, ...",
)
@_METRICS
@_convention_options
@_column_options
@click.option("--folder", is_flag=True, help="Print where the SQL lies: a package for dbt.")
def sql_command(
    inputs: Sequence[str], dialect: str | None, metrics: Sequence[str], folder: bool, **options: Any
) -> None:
    """Print the macros, or the query that eval would run on them.

    rankql sql > rankql.sql, then .read rankql.sql

    With --dialect, a QUERY that calls the metrics as that engine runs it; or, without a query, the
    metrics as functions of that engine.
    """
    from rankql import macros
    from rankql.engines import dialects

    if folder:
        click.echo(macros.folder())
        return
    if dialect:
        if len(inputs) > 1 or metrics or _columns(options):
            raise click.UsageError("--dialect takes one query, such as 'SELECT ...', and no option")
        made = dialects.translate(inputs[0], dialect) if inputs else dialects.functions(dialect)
        click.echo(made.rstrip("\n"))
        return
    if not inputs:
        click.echo(macros.sql(), nl=False)
        return
    from rankql.evaluation.arguments import DEFAULT_METRICS
    from rankql.evaluation.execution import render_query

    run, qrels = _run_and_qrels(inputs)
    click.echo(render_query(run, qrels, list(metrics) or DEFAULT_METRICS, **_columns(options)))


@main.command("versions")
def versions_command() -> None:
    """Show what is installed, for a report of a bug."""
    from rankql.versions import show_versions

    show_versions()


@main.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("rankql-demo"),
    help="Where the data goes.",
)
@click.option("--queries", type=click.IntRange(1), default=20_000, help="Queries to simulate.")
@click.option("--run", type=click.Path(path_type=Path), help="A TREC run to measure instead.")
@click.option("--qrels", type=click.Path(path_type=Path), help="The TREC judgments for --run.")
@click.pass_context
def demo_command(
    ctx: click.Context, out: Path, queries: int, run: Path | None, qrels: Path | None
) -> None:
    """Run the metrics on a simulated shop log, and show the SQL.

    The log is written as Parquet; or give a TREC run.
    """
    import duckdb

    from rankql import macros
    from rankql.cli import demo
    from rankql.macros import literal

    con = duckdb.connect()
    macros.register(con)
    path = None
    if run and qrels:
        query = demo.TREC.format(run=literal(str(run)), qrels=literal(str(qrels)))
    elif run or qrels:
        raise click.UsageError("--run and --qrels go together")
    else:
        path = demo.write_shop(out, queries)
        click.echo(f"Simulated {queries} queries of a shop: {path}\n", err=True)
        query = demo.SHOP.format(shop=literal(str(path)))
    click.echo(query)
    con.sql(query).show(max_width=100)
    if path:
        click.echo(f"Next: {_called_as(ctx)} eval {shlex.quote(str(path))} --by segment", err=True)


def _echo(shown: Any, form: str) -> None:
    """An object of ours on stdout."""
    forms = {"table": repr, "markdown": type(shown).to_markdown, "json": type(shown).to_json}
    click.echo(forms[form](shown))


def _print(frame: pl.DataFrame, form: str, remarks: Sequence[str] = ()) -> None:
    """A frame on stdout; what is said about it below, or on stderr where it would be no data."""
    from rankql import text as show

    if form == "table":
        click.echo(show.text(show.cells(frame), remarks))
    elif form == "markdown":
        click.echo(show.markdown(show.cells(frame), remarks))
    else:
        if form == "csv":
            written = show.csv(frame)
        else:
            written = frame.write_json() + "\n" if form == "json" else frame.write_ndjson()
        click.echo(written, nl=False)
        for remark in remarks:
            click.echo(show.plain(remark), err=True)


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of our own, with a progress bar on stderr where someone looks at it."""
    import duckdb

    con = duckdb.connect()
    if not sys.stderr.isatty():
        yield con
        return
    con.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false").fetchall()
    done = threading.Event()
    bar = threading.Thread(target=_show_progress, args=(con, done), daemon=True)
    bar.start()
    try:
        yield con
    finally:
        done.set()
        bar.join()


def _show_progress(con: duckdb.DuckDBPyConnection, done: threading.Event) -> None:
    """A bar that appears when the work takes longer than a second."""
    if done.wait(1):
        return
    with click.progressbar(length=100, label="working", file=sys.stderr) as bar:
        while not done.wait(0.2):
            bar.update(max(0, int(con.query_progress()) - bar.pos))
