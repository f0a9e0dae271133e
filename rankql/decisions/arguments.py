"""The arguments of compare and gate: runs or results, judgments, metrics and option names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import polars as pl

from rankql import text as show
from rankql.engines.evaluate import evaluate
from rankql.errors import RankqlError, describe_unknown, did_you_mean
from rankql.evaluation.combining import combine_systems, read_metadata
from rankql.evaluation.result import Result
from rankql.evaluation.values import Request, align_results, read_result
from rankql.registry.conventions import option_names
from rankql.registry.parse import is_metric, resolve_names

Results = Result | str | os.PathLike[str] | pl.DataFrame


def arrange_arguments(
    runs: Any, data: Sequence[Any], qrels: Any, metrics: Any, keywords: Mapping[str, Any]
) -> tuple[Any, Any, Any, list[str]]:
    """The runs by name, the judgments, the metrics, and a note on generated names."""
    positional = list(data)
    if len(positional) > 1 and positional[-1] is None:  # no metrics
        positional.pop()
    several, named = isinstance(runs, list | tuple), isinstance(runs, Mapping)
    if positional and metrics is None and _are_metrics(positional, several or named):
        metrics = positional.pop()
    room = 0 if qrels is not None else 1
    two = len(positional) > room or (
        len(positional) == 1 and not several and not named
        and (qrels is not None or _are_results(positional[0], runs, metrics, keywords))
    )  # fmt: skip
    if len(positional) > room + two or (two and (several or named)):
        raise RankqlError(
            "compare takes runs, qrels and metrics. Pass more than two runs as a dict, such as "
            "compare({'old': old, 'new': new}, qrels)."
        )
    if two:
        runs, several = [runs, positional.pop(0)], True
    qrels = positional.pop() if positional else qrels
    if two and qrels is not None and _are_results(qrels, runs[0], metrics, keywords):
        raise RankqlError(
            "compare takes two results as arguments. Pass more of them as a dict, such as "
            "compare({'old': old, 'new': new, 'newer': newer})."
        )
    if several and not runs:
        raise RankqlError("compare needs at least one run")
    if not several:
        return runs, qrels, metrics, []
    names = _name_runs(runs)
    note = (
        f"systems are named {show.join_words([*names])}, in the order given (pass a dict to name "
        "them)"
    )
    return dict(zip(names, runs, strict=True)), qrels, metrics, [note]


def _name_runs(runs: Sequence[Any]) -> list[str]:
    """Names of runs in a list: those of their files, or run 1, run 2."""
    paths = [run for run in runs if isinstance(run, str | os.PathLike)]
    names = [Path(os.fspath(path).removesuffix(".gz")).stem for path in paths]
    if len(paths) == len(runs) and len({*names}) == len(names) and all(names):
        return names
    return [f"run {i}" for i in range(1, len(runs) + 1)]


def _are_metrics(positional: Sequence[Any], several: bool) -> bool:
    """Is the last positional argument the metrics, and not data?"""
    last = positional[-1]
    if isinstance(last, list | tuple):
        return True
    if not isinstance(last, str):
        return False
    file = bool(Path(last).suffix) or os.path.exists(last)
    return is_metric(last) or (not file and len(positional) > (1 if several else 2))


def _are_results(second: Any, first: Any, metrics: Any, keywords: Mapping[str, Any]) -> bool:
    """Are two positional arguments results, and not a run and its judgments?"""
    request = Request.of(keywords, metrics, (), None)
    return all(read_result(data, "run", request) is not None for data in (first, second))


def combine_results(runs: Any, qrels: Any, request: Request) -> Result | None:
    """The results of the systems, if results were given and not runs."""
    several = isinstance(runs, Mapping)
    runs_by_name = runs if several else {"run": runs}
    if not runs_by_name:
        raise RankqlError("compare needs at least one run")
    if not all(isinstance(name, str) and name for name in runs_by_name):
        raise RankqlError("the systems must be named by text that is not empty")
    certain_results = [name for name, data in runs_by_name.items() if is_result(data)]
    if qrels is not None:
        if len(certain_results) == len(runs_by_name):
            require_no_run_options({"qrels": qrels})
        if certain_results:
            raise RankqlError(
                f"{certain_results[0]!r} is a result; evaluate the others too, or give its run"
            )
        return None
    results_by_name = {
        name: read_result(data, name, request) for name, data in runs_by_name.items()
    }
    results = {name: result for name, result in results_by_name.items() if result is not None}
    if not results:
        return None
    if len(results) < len(runs_by_name):
        result_name = next(name for name, result in results_by_name.items() if result is not None)
        run_name = next(name for name, result in results_by_name.items() if result is None)
        raise RankqlError(
            f"{result_name!r} is a result, {run_name!r} is not: it is a run, or has several rows "
            "per query. Evaluate it too, or give the runs."
        )
    tables = [name for name in runs_by_name if name not in certain_results]
    if tables:
        results = align_results(results, tables, request.attributes)
    return combine_systems(results) if several else next(iter(results.values()))


def is_result(data: Any) -> bool:
    """Is it a result of `evaluate`, or a file that it wrote?"""
    return isinstance(data, Result) or (
        isinstance(data, str | os.PathLike) and read_metadata(data) is not None
    )


def select_metrics(result: Result, metrics: Any) -> Result:
    """The result with these metrics only, if it has them."""
    if metrics is None:
        return result
    names = []
    for text in [metrics] if isinstance(metrics, str) else metrics:
        if text not in result.metrics and not is_metric(text):
            raise RankqlError(describe_unknown("metric", text, result.metrics))
        names += resolve_names(text, result.metrics, result.conventions)
    require_metrics(result, names)
    return replace(result, meta=result.meta | {"metrics": list(dict.fromkeys(names))})


def require_metrics(result: Result, names: Sequence[str], label: str = "") -> None:
    """Refuse metrics that a result lacks."""
    for name in names:
        if name not in result.metrics:
            hint = did_you_mean(name, result.metrics)
            raise RankqlError(f"{label}{name!r} was not evaluated{hint}")


def require_attributes(
    result: Result, names: Sequence[str], subject: str = "the results have"
) -> None:
    """Refuse attributes that a result lacks."""
    known = result.meta["by"]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) if known else "; evaluate with by="
            raise RankqlError(f"{subject} no attribute {name!r}{hint}")


def require_no_run_options(keywords: Mapping[str, Any]) -> None:
    """Refuse the options of runs where results were given; `con` and `query` read tables."""
    for name, value in keywords.items():
        if name not in ("con", "query") and value is not None:
            raise RankqlError(
                f"{name}= is an option for runs. These are results, evaluated already: leave it "
                "out, or pass the runs."
            )


def require_known_options(function: Any, options: Mapping[str, Any]) -> None:
    """Refuse what is an option neither of `compare` or `gate` nor of `evaluate`."""
    # Its tables and metrics are those of the function itself.
    _, _, _, *of_evaluate = signature(evaluate).parameters
    names = [*signature(function).parameters, *of_evaluate, *option_names()]
    known = [name for name in dict.fromkeys(names) if name not in _NOT_OPTIONS]
    for name in options:
        if name not in known:
            raise RankqlError(describe_unknown("option", name, known))


_NOT_OPTIONS = ("run", "runs", "data", "interval", "output", "options")
