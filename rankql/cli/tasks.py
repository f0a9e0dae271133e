"""The commands that call a function of rankql with the same options, and show its result.

Below them: how the files of a command become runs and judgments.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankql.cli.command import COLUMNS, as_cli_options, call, command, remembered, show, task
from rankql.cli.options import DATA, NAMED, PATH, InputPath, split_name
from rankql.core.base.writing import expand_glob, names_by_file, write_file

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.features.values import Names

_FILES = click.argument("inputs", type=DATA, nargs=-1, required=True, metavar="RUN... [QRELS]")
# The judgments are the last file, but people name them too.
_QRELS = remembered("--qrels", "named_qrels", type=DATA, metavar="FILE",
                    help="The judgments, as the last file is.")  # fmt: skip
WIDE = click.option(
    "--wide", is_flag=True, help="Print systems or slices as rows, and metrics as columns."
)
LONG = click.option(
    "--long", is_flag=True, help="Print a row per system, metric and slice, with intervals."
)
PAIRS = click.option("--pairs", is_flag=True, help="Print a row per metric, slice and pair.")
PER_QUERY = click.option("-q", "--per-query", is_flag=True, help="Print the values per query.")


def INPUTS(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the runs and the judgments."""
    return _FILES(_QRELS(function))


@task("eval", "core.evaluation.evaluate", "eval my.run my.qrels -m nDCG@10 -m AP",
      "eval shown.parquet --by segment --output values.parquet")  # fmt: skip
@INPUTS
@PER_QUERY
@WIDE
@LONG
def eval_command(inputs: Sequence[str], **options: Any) -> None:
    """Compute metrics of runs.

    RUN is a ranking with scores or positions, and QRELS has the judgments: Parquet, CSV, JSON or
    TREC files. Without QRELS, RUN has the grades too. NAME=RUN names a run. A Parquet file of
    --output has the values per query.
    """
    show(call(*split_inputs(inputs, item=options.get("item")), **options))


@task("explain", "diagnostics.explain", "explain my.run my.qrels -m nDCG@10",
      "explain my.run my.qrels --of q7")  # fmt: skip
@INPUTS
def explain_command(inputs: Sequence[str], **options: Any) -> None:
    """Show what each item contributes to a metric.

    With --of for each position of one query, otherwise for the queries and items that lose most.
    Of several runs, --system names the one.
    """
    runs, qrels = split_inputs(inputs, item=options.get("item"))
    if "of" in options and isinstance(runs, dict) and options.get("system") in runs:
        system = options.pop("system")
        queries = options["of"] if isinstance(options["of"], list) else [options["of"]]
        named = [{"system": system, "query": query} for query in queries]
        options["of"] = named if len(named) > 1 else named[0]
    show(call(runs, qrels, **options))


@task("funnel", "diagnostics.funnel", "funnel retrieval.parquet rank.parquet my.qrels",
      "funnel retrieval=a.parquet rerank=b.run my.qrels -k 20 --by segment",
      leave_out=["order", "undefined", "missing", "unjudged_queries", "none_judged"])  # fmt: skip
@INPUTS
def funnel_command(inputs: Sequence[str], **options: Any) -> None:
    """Show which stage of a pipeline loses how much nDCG.

    Each RUN has the items after a stage, the last one is the final ranking. Without QRELS, each has
    lists of retrieved and of relevant ids.
    """
    runs, qrels = split_inputs(inputs)
    if not isinstance(runs, dict) and "system" not in options:
        runs = dict([split_name(runs)])
    show(call(runs, qrels, **options))


@task("min-scores", "diagnostics.min_scores", "min-scores my.run my.qrels -m nDCG@10",
      "min-scores rag.jsonl --min-scores 0.2,0.4,0.6 -o scores.html",
      leave_out=["system", "interval"])  # fmt: skip
@click.argument("run", type=DATA)
@_QRELS
@click.argument("qrels", type=DATA, required=False)
def min_scores_command(run: str, qrels: str | None = None, **options: Any) -> None:
    """Compare lowest scores to show.

    Some questions have no answer. Prints by lowest score how many of them get one, how many of the
    others get none, and the means of metrics.
    """
    show(call(run, qrels, **options))


@task("check", "diagnostics.check", "check my.run my.qrels",
      "check my.run my.qrels -k 20 --format json")  # fmt: skip
@INPUTS
def check_command(inputs: Sequence[str], **options: Any) -> None:
    """Find problems in the data.

    Exit code 1 if there is an error, 0 if there are warnings and notes only.
    """
    report = call(*split_inputs(inputs, item=options.get("item")), **options)
    findings = [
        replace(x, message=as_cli_options(x.message), why=as_cli_options(x.why)) for x in report
    ]
    show(replace(report, findings=findings))
    raise SystemExit(0 if report.passed else 1)


@task("monitor", "diagnostics.monitor",
      "monitor 'day=*/*.parquet' -m nDCG@10 --by device --output page.html",
      "monitor runs.parquet my.qrels --baseline 56", "monitor daily.csv",
      leave_out=["system"])  # fmt: skip
@click.argument("days", type=DATA)
@_QRELS
@click.argument("qrels", type=DATA, required=False)
def monitor_command(days: str, qrels: str | None = None, **options: Any) -> None:
    """Raise an alarm if metrics drop or drift, or if labels age.

    Exit code 0: no alarm, 1: an alarm, 2: wrong use, 3: nothing was compared on the last 7 days.
    DAYS is a glob with a folder per day, or a table with the column day. Without QRELS, it has the
    grades too, or it has values of your own: the day, numbers, and the query if there are several.
    """
    result = call(days, qrels, **options)
    from rankql.core.base.text import Note

    notes = [Note.of(x).reword(as_cli_options) for x in result.notes]
    show(replace(result, notes=notes))
    raise SystemExit(result.exit_code)


@task("judges", "decisions.judges", "judges human.qrels llm.qrels",
      "judges human.qrels gpt=a.qrels llama=b.qrels --run old.run --run new.run",
      "judges labels.csv --annotators ann,bo --models gpt,llama")  # fmt: skip
@click.argument("human", type=DATA)
@click.argument("llm", type=DATA, nargs=-1, metavar="[LLM...]")
@click.option("--run", "runs", multiple=True, metavar="RUN",
              help="Run to evaluate under both labels, or NAME=RUN. Repeatable.")  # fmt: skip
def judges_command(human: str, llm: Sequence[str], runs: Sequence[str], **options: Any) -> None:
    """Compare labels of language models with human labels.

    HUMAN and LLM are judgments of the same items; NAME=LLM names a judge, and NAME=HUMAN another
    annotator. With --run, also compare how both order the runs. With --annotators and --models, or
    --rel and --judge-rel, HUMAN is a table with a column of grades for each of them.
    """
    if not llm:
        return show(call(human, None, name_runs(runs) or None, **options))
    name, path = split_name(human)
    named: Any = human if path == human else {name: path}
    show(call(name_runs(llm, "judge"), named, name_runs(runs) or None, **options))


@task("associate", "decisions.associate",
      "associate values.parquet sessions.parquet --on query",
      "associate values.parquet kpis.csv --on user=user_id --outcome revenue")  # fmt: skip
@click.argument("values", type=DATA, metavar="PER_QUERY")
@click.argument("outcomes", type=DATA)
def associate_command(values: str, outcomes: str, **options: Any) -> None:
    """Measure how metrics relate to KPIs.

    PER_QUERY is a file that eval --output wrote, or a table with metrics. OUTCOMES is a table of
    KPIs. --on joins them.
    """
    show(call(values, outcomes, **options))


@task("compare", "decisions.compare", "compare old.run new.run my.qrels -m nDCG@10 -m AP",
      "compare old=a.parquet new=b.parquet --baseline old")  # fmt: skip
@INPUTS
@WIDE
@PAIRS
def compare_command(inputs: Sequence[str], **options: Any) -> None:
    """Compare runs on the same queries, with significance tests.

    Without QRELS, each RUN is a file that eval --output wrote, or has a query and numbers of your
    own, such as revenue, nothing else but a system or a day.
    """
    show(_compare(inputs, options))


@task("report", "decisions.compare", "report old.run new.run my.qrels -o report.html",
      "report old.run new.run my.qrels -m nDCG@10 -o report.md")  # fmt: skip
@INPUTS
@click.option("--title", help="Title of the page.")
@click.option(
    "--max-drop",
    multiple=True,
    metavar="METRIC:NUMBER",
    show_default="0",
    help="Largest drop below the baseline that may ship. Repeatable.",
)
@click.option(
    "--texts", multiple=True, metavar="query=FILE|item=FILE",
    help="Show texts along with ids: a table with a column of ids and a column of texts, such as "
    "--texts item=titles.csv. Repeat --texts for queries and items.",
)  # fmt: skip
def report_command(inputs: Sequence[str], **options: Any) -> None:
    """Write a report that compares runs.

    The HTML page has a verdict in one line, charts, and the queries that changed most.
    """
    ctx = click.get_current_context()
    output = ctx.meta["output"]
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    from rankql.core.base.results import require_charts
    from rankql.decisions.comparison import require_page

    page = {name: options.pop(name, None) or None for name in ("title", "texts", "max_drop")}
    if texts := page["texts"]:
        page["texts"] = {role: path for role, _, path in (text.partition("=") for text in texts)}
    require_page(Path(output), **page)  # a wrong path fails at once, and a missing package
    if Path(output).suffix.lower() in ("", ".html"):
        require_charts()
    click.echo("Comparing the runs ...", err=True)
    comparison = _compare(inputs, options)
    click.echo("Writing the report ...", err=True)
    comparison.save(output, **page)
    click.echo(f"Wrote {output}", err=True)


@task("audit", "decisions.audit",
      "audit --mean 0.92 --queries 50 --metric HR@5 --baseline 0.88",
      "audit --mean 0.53 --queries 43 -m nDCG@10 --systems 12",
      "audit table.csv --queries 50")  # fmt: skip
@click.argument("table", type=click.Path(), required=False)
@click.option(
    "--fail", is_flag=True, help="Exit with 1 if a mean or a difference is not supported."
)
def audit_command(table: str | None = None, fail: bool = False, **options: Any) -> None:
    """Say what a published mean supports, or a table of them.

    TABLE is a CSV file with systems in the first column and a column for each metric. No runs and
    no values are read. With --fail, exit code 1 if a mean is impossible, or a difference from the
    baseline is not significant whatever the values are.
    """
    from rankql.decisions.audit import audit

    result = audit(table=table, **options)
    show(result)
    raise SystemExit(1 if fail and not result.passed else 0)


@task("verify", "decisions.verify", "verify report.html old.run new.run my.qrels",
      "verify report.html old=a.parquet new=b.parquet qrels=q.parquet train=t.parquet",
      leave_out=["attributes", "judge", "train", "catalogue"])  # fmt: skip
@click.argument("path", type=click.Path(), metavar="FILE")
@click.argument("inputs", type=DATA, nargs=-1, metavar="RUN... [QRELS]")
def verify_command(path: str, inputs: Sequence[InputPath], **options: Any) -> None:
    """Check that a saved result is what its inputs give.

    FILE is an .html, .md, .json or .parquet file of eval, compare or report. The inputs come in the
    order of that command, then attributes, train, catalogue and judge, or as NAME=FILE. Exit code
    0: verified, 1: something differs, 2: wrong use.
    """
    from rankql.core.base.manifest import read_manifest

    free, tables = [*read_manifest(path)[0]["call"]["inputs"]], dict[str, Any]()
    pairs = [
        (name if file != each else "", file) for each in inputs for name, file in [split_name(each)]
    ]
    for name, file in sorted(pairs, key=lambda pair: not pair[0]):  # those with names first
        label = next((x for x in free if not name or x in (f"run {name}", name)), None)
        if label is None:
            known = ", ".join(x.removeprefix("run ") for x in [*tables, *free])
            raise click.UsageError(f"Pass a file for each of {known} once.")
        free.remove(label)
        tables[label] = file
    runs = {label[4:]: x for label, x in tables.items() if label.startswith("run ")}
    others = {label: x for label, x in tables.items() if not label.startswith("run")}
    result = call(path, runs or tables.get("run"), **others, **options)
    show(result)
    raise SystemExit(0 if result.passed else 1)


def _compare(inputs: Sequence[str], options: dict[str, Any]) -> Comparison:
    """Run compare, whose last input is judgments, or one more run or result."""
    alone = "system" not in options
    values, options = _open_values([split_name(path)[1] for path in inputs], options)
    runs, qrels = split_inputs(inputs, values, options.get("item"))
    if isinstance(runs, dict):
        runs = {
            x: y if isinstance(y, dict) else values.get(os.fspath(y), y) for x, y in runs.items()
        }
    elif qrels is not None and alone and "=" in runs:
        runs = dict([split_name(runs)])
    else:
        runs = values.get(os.fspath(runs), runs)
    comparison: Comparison = call(runs, qrels=qrels, **options)
    if len(comparison.systems) < 2 and len(inputs) > 1:  # one result may have a report
        read = f", and {inputs[-1]} is read as the judgments" if qrels else ""
        problem = f"There is one system to compare{read}"
        hint = as_cli_options("".join(f" {x}." for x in comparison.notes if "names systems" in x))
        raise click.UsageError(f"{problem}. Pass two runs; NAME=PATH is always a run.{hint}")
    return comparison


@task("gate", "decisions.gate", "gate my.run my.qrels --min 'nDCG@10>=0.45'",
      "gate new.run my.qrels --baseline old.parquet --max-drop nDCG@10:0.01")  # fmt: skip
@click.argument("run", type=DATA)
@_QRELS
@click.argument("qrels", type=DATA, required=False)
@click.option("--junit", metavar="FILE", type=PATH, help="Write JUnit XML.")
def gate_command(run: str, qrels: str | None = None, **options: Any) -> None:
    """Fail if a run is below limits or a baseline.

    Exit code 0: passed, 1: a limit failed, 2: wrong use, 3: inconclusive. RUN may be a file that
    eval --output wrote, without QRELS. In GitHub Actions it also writes annotations and a summary.
    """
    junit, baseline = options.pop("junit", None), options.get("baseline")
    values, options = _open_values([None if qrels else run, baseline], options)
    if baseline in values:
        options["baseline"] = values[baseline]
    verdict = call(values.get(run, run), qrels, **options)
    show(verdict)
    if junit:
        with write_file(junit) as temporary:
            temporary.write_text(verdict.junit(), encoding="utf-8")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in verdict.annotations():  # GitHub reads stderr too
            click.echo(line, err=True)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(f"{verdict.to_markdown()}\n\n")
    if verdict and len(verdict.inconclusive):
        click.echo(f"Warning: inconclusive limits: {len(verdict.inconclusive)}", err=True)
    raise SystemExit(verdict.exit_code)


@command("convert", "convert my.run run.parquet", "convert run.parquet my.run --tag bm25",
         function="features.convert:convert")  # fmt: skip
@click.argument("source", type=DATA)
@click.argument("target", type=DATA)
@COLUMNS
def convert_command(source: str, target: str, **options: Any) -> None:
    """Convert runs and judgments: TREC, Parquet, CSV.

    TARGET is Parquet if its name ends in .parquet, CSV if it ends in .csv, otherwise TREC.
    """
    click.echo(call(source, target, **options), err=True)


def split_inputs(
    inputs: Sequence[InputPath], values: Container[str] = (), item: Any = None
) -> tuple[Any, InputPath | None]:
    """Split RUN... [QRELS] into the run, or the runs by name, and the judgments if there are any.

    A run is named by NAME=PATH or after its file, and {system} and {collection} in a path are names
    in those of the files. The last input is a run too if it has a name, if
    eval --output wrote it, if it has lists of retrieved ids, or is one of the files of values.
    """
    if (named := click.get_current_context().meta.get("named_qrels")) is not None:
        inputs = [*inputs, named]
    if any(NAMED.search(os.fspath(x)) for x in inputs):
        return _split_patterns(inputs)
    path = split_name(inputs[-1])[1]
    is_run = len(inputs) == 1 or path != inputs[-1] or os.fspath(path) in values
    is_run = named is None and (is_run or _has_rankings(path, item))
    runs, qrels = (inputs, None) if is_run else (inputs[:-1], inputs[-1])
    if len(runs) == 1 and split_name(runs[0])[1] == runs[0]:
        return runs[0], qrels
    return name_runs(runs), qrels


def _split_patterns(inputs: Sequence[InputPath]) -> tuple[dict[str, Any], Any]:
    """The runs by system, and by collection if the last input, the judgments, has {collection}."""
    runs, judged = dict[str, Any](), "{collection}" in os.fspath(inputs[-1])
    for pattern in inputs[:-1]:
        text = os.fspath(pattern)
        name, path = split_name(pattern) if "=" in text else ("", pattern)
        if not (name or "{system}" in text) or judged != ("{collection}" in text):
            wanted = f"{{system}}{' and {collection}' * judged}"
            raise click.UsageError(
                f"{text!r} needs {wanted}, or NAME= before it, as the judgments are the last file."
            )
        for names, file in _match_pattern(path):
            of = runs.setdefault(names.get("system", name), {}) if judged else runs
            of[names["collection"] if judged else names.get("system", name)] = file
    (*matches,) = _match_pattern(inputs[-1]) if judged else [({}, inputs[-1])]
    qrels = {names["collection"]: file for names, file in matches} if judged else inputs[-1]
    return runs, qrels


def _match_pattern(pattern: InputPath) -> Iterator[tuple[dict[str, str], InputPath]]:
    """The files of a pattern, each with the names in its path."""
    text = os.path.expanduser(pattern)
    pieces = NAMED.split(text)
    names = [re.escape(x) if i % 2 == 0 else f"(?P<{x}>[^/]+?)" for i, x in enumerate(pieces)]
    for file in expand_glob(NAMED.sub("*", text)):
        if match := re.fullmatch("".join(names), file):
            yield (
                match.groupdict(),
                file if isinstance(pattern, str) else replace(pattern, path=file),
            )


def _has_rankings(path: InputPath, item: Any = None) -> bool:
    """Is it a file of eval --output, or one with lists of retrieved ids?"""
    from rankql.core.tables.candidates import find_list
    from rankql.features.combine import read_metadata
    from rankql.features.values import read_header

    if read_metadata(path) is not None:
        return True
    header = read_header(path)
    item = item[0] if isinstance(item, list | tuple) and item else item
    if header is None or (column := find_list(header, "retrieved", item)) is None:
        return False
    return item is not None or column != find_list(header, "relevant")


def _open_values(
    paths: Sequence[InputPath | None], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of your own in these files, by path, and the options without those of values.

    Such a file has a query, numbers, and a system or a day.
    """
    from rankql.features.systems import open_values
    from rankql.features.values import ask_first_ranks

    runs = ("item", "rel", "score", "pos", "order", "collapse")
    known = [path for path in paths if path is not None]
    of_runs = any(options.get(name) is not None for name in runs)
    if of_runs or not isinstance(options.get("query"), str | None):
        return {}, {**options}
    names = _name_columns(known, options)
    read = {os.fspath(path): open_values(path, names) for path in known}
    values = {path: result for path, result in read.items() if result is not None}
    for path, result in values.items() if not names.metrics else ():
        ask_first_ranks(result, path)
    own = ("query", "system") if values else ()  # which they were read with
    return values, {name: x for name, x in options.items() if name not in own}


def _name_columns(paths: Sequence[InputPath], options: Mapping[str, Any]) -> Names:
    """The columns of values that options name, as limits on their means do."""
    from rankql.features.values import Names, read_header

    metrics = [*(options.get("metrics") or ()), *(options.get("higher_is_better") or {})]
    attributes = [*itertools.chain(*(options.get("by") or ()))]
    attributes += [x for name in ("cluster", "weight", "time") if (x := options.get(name))]
    limits = {x: y for x in ("minimum", "max_drop", "equivalence") if (y := options.get(x))}
    if limits:
        from rankql.core.base.errors import RankqlError
        from rankql.decisions.gate_limits import parse_limits

        headers = [[*table.columns] for path in paths if (table := read_header(path))]
        for argument, texts in limits.items():
            with suppress(RankqlError):  # which gate raises
                parsed = parse_limits(argument, texts, headers)
                metrics += [limit.spelling for limit in parsed]
                attributes += [name for limit in parsed for name in limit.attributes]
    return Names(options.get("query"), metrics, attributes, options.get("system"))


def name_runs(runs: Sequence[InputPath], kind: str = "run") -> dict[str, InputPath]:
    """The paths by name; refuse the same name twice."""
    pairs = [*map(split_name, runs)]
    by_name = dict(pairs)
    if len(by_name) < len(runs) and all(x is y for (_, x), y in zip(pairs, runs, strict=True)):
        by_name = dict(zip(names_by_file(runs), runs, strict=True))
    if len(by_name) < len(runs):
        raise click.UsageError(f"Two {kind}s have the same name. Name each {kind}: NAME=PATH.")
    return by_name
