"""The run and the baseline of a gate: read or evaluated, then combined."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.alignment import require_same_queries
from rankql.decisions.arguments import (
    is_result,
    require_attributes,
    require_metrics,
    require_no_run_options,
)
from rankql.decisions.gate_limits import GateLimit
from rankql.errors import RankqlError
from rankql.evaluation.combining import combine_systems, require_finite_metrics
from rankql.evaluation.evaluate import evaluate
from rankql.evaluation.result import Result
from rankql.evaluation.values import Request, read_result
from rankql.macros import MISSING


@dataclass(frozen=True)
class GateInputs:
    """The run and the baseline, which of them are results, and how to evaluate the others."""

    data: Mapping[str, Any]
    results: Mapping[str, Result | None]
    qrels: Any
    attributes: Sequence[Sequence[str]]
    con: duckdb.DuckDBPyConnection | None
    keywords: Mapping[str, Any]
    weight: str | None = None

    @property
    def known(self) -> list[list[str]]:
        """The metrics of every result."""
        return [result.metrics for result in self.results.values() if result]

    @property
    def frames(self) -> list[str]:
        """The names of inputs that are plain tables, without conventions."""
        return [n for n, data in self.data.items() if self.results[n] and not is_result(data)]

    def evaluate(self, name: str, metrics: list[str]) -> Result:
        """The result of the run or of the baseline."""
        result = self.results[name]
        if result is None:
            data = self.data[name]
            if name == "baseline":  # name it in errors
                data = {name: data}
            result = evaluate(
                data, self.qrels, metrics, by=self.attributes, con=self.con, interval=None,
                weight=self.weight, **self.keywords,
            )  # fmt: skip
        return _require_one_system(name, result.weighted_by(self.weight))


def read_gate_inputs(
    data: Mapping[str, Any], qrels: Any, attributes: Sequence[Sequence[str]],
    request: Request, keywords: Mapping[str, Any], weight: str | None,
) -> GateInputs:  # fmt: skip
    """Find out which inputs are results. Options of runs are refused if both are."""
    results = {name: _read_result(value, name, qrels, request) for name, value in data.items()}
    options = {name: value for name, value in keywords.items() if name != "con"}
    if all(results.values()):
        require_no_run_options({"qrels": qrels, **options})
    return GateInputs(data, results, qrels, attributes, keywords["con"], options, weight)


def _read_result(data: Any, label: str, qrels: Any, request: Request) -> Result | None:
    """The input as a result; None if it is a run."""
    if qrels is not None and label == "run" and not is_result(data):
        return None
    result = read_result(data, label, replace(request, judged=qrels is not None))
    if result is None:
        return None
    require_finite_metrics(result.frame(), result.metrics, result.meta.query, repr(label))
    return result


def _require_one_system(name: str, result: Result) -> Result:
    """The result without its column `system`. Several systems are refused."""
    if not result.meta.system:
        return result
    rows = result.frame()
    if rows["system"].n_unique() > 1:
        raise RankqlError(f"{name} has several systems. Pass them to gate one at a time")
    return replace(result, meta=replace(result.meta, system=False), values=rows.drop("system"))


def match_conventions(
    run: Result, baseline: Result, frames: Sequence[str], scaled: bool, on_mismatch: str = "error"
) -> tuple[Result, list[str]]:
    """The run, which must have the conventions of the baseline; or a note on what differs.

    Plain tables adopt the conventions of the other one.
    """
    weights = [result.meta.weight for result in (run, baseline)]
    if weights[0] != weights[1]:
        raise RankqlError(
            f"The run has weight={weights[0]!r}, but the baseline has weight={weights[1]!r}. "
            "Evaluate both with the same weight"
        )
    if "baseline" in frames:
        return run, []
    if "run" in frames:
        return replace(run, meta=replace(run.meta, conventions=baseline.conventions)), []
    ignored = {"profile"} if scaled else {"profile", "max_rel"}
    differences = [
        (f"{name}={baseline.conventions.get(name)}", f"{name}={value}")
        for name, value in run.conventions.items()
        if name not in ignored and value != baseline.conventions.get(name)
    ]
    if differences:
        of_baseline, of_run = map(", ".join, zip(*differences, strict=True))
        message = f"baseline was evaluated with {of_baseline}, but the run with {of_run}"
        if on_mismatch == "error":
            raise RankqlError(f"{message}. Evaluate one of them again")
        return replace(run, meta=replace(run.meta, conventions=baseline.conventions)), [message]
    return run, []


def select_run(
    run: Result,
    limits: Sequence[GateLimit],
    groups: Sequence[Sequence[str]],
    attributes: Sequence[Sequence[str]],
    cluster: str | None,
) -> Result:
    """The run with the metrics of the limits, and with the slices and attributes."""
    weights = [run.meta.weight] if run.meta.weight else []
    by = list(dict.fromkeys([*itertools.chain(*attributes), *weights]))
    for name in by:
        option = "cluster" if name == cluster else "by"
        require_attributes(run, [name], f"{option}: ")
    metrics = _metric_names("run", run, run, limits)
    meta = replace(run.meta, metrics=metrics, by=by, groupings=[list(group) for group in groups])
    return replace(run, meta=meta, interval=None, _summary=None)


def select_baseline(baseline: Result, run: Result, limits: Sequence[GateLimit]) -> Result:
    """The baseline with the columns of the run: query, attributes and metrics."""
    rows, kinds = baseline.frame(), run.frame().schema
    names = _metric_names("baseline", baseline, run, limits)
    weights = {n: weight for n, weight in baseline.meta.metric_weights.items() if n in names}
    key = pl.col(baseline.meta.query).alias(run.meta.query)
    by = [
        (pl.col(n) if n in rows.columns else pl.lit(None)).cast(kinds[n], strict=False).alias(n)
        for n in run.meta.by
    ]
    rows = rows.select(key, *by, MISSING, *names, *weights.values())
    catalogue = baseline.meta.catalogue
    meta = replace(run.meta, metrics=names, metric_weights=weights, catalogue=catalogue)
    return replace(baseline, meta=meta, values=rows)


def _metric_names(
    label: str, result: Result, run: Result, limits: Sequence[GateLimit]
) -> list[str]:
    """The names of the metrics in a result, which must have them."""
    names = list(dict.fromkeys(limit.name(run) for limit in limits))
    require_metrics(result, names, f"{label}: ")
    return names


def combine_runs(run: Result, baseline: Result) -> tuple[Result, list[str]]:
    """Both as one result, without queries that only the run has; their number is a note.

    A run with judgments has a value for every judged query, so others of the baseline are left out
    too.
    """
    combined = combine_systems({"baseline": baseline, "run": run})
    require_same_queries(combined)
    key, rows = run.meta.query, combined.frame()
    of_run, of_baseline = (pl.col("system") == name for name in ("run", "baseline"))
    old = rows.filter(of_baseline.any().over(key)).with_columns(
        # If an attribute has changed since, that of the run counts.
        pl.coalesce(pl.col(name).filter(of_run).first().over(key), pl.col(name)).alias(name)
        for name in run.meta.by
    )
    new, total = rows.height - old.height, run.frame().height
    if new == total:
        examples = (repr(each.frame()[each.meta.query].min()) for each in (run, baseline))
        raise RankqlError(
            "run and baseline have no query in common: run has {}, baseline has {}. Write query "
            "ids the same way in both".format(*examples)
        )
    notes = []
    if new:
        notes.append(
            f"{new:,} of {text.format_queries(total)} of the run {text.is_or_are(new)} not in the "
            "baseline: left out of the drops"
        )
    if "qrels" in run.columns:
        judged = old.filter(of_run.any().over(key))
        if lacking := old.height - judged.height:
            notes.append(
                f"{lacking:,} of {text.format_queries(baseline.frame().height)} of the baseline "
                f"{text.is_or_are(lacking)} not judged any more: left out of the drops"
            )
        old = judged
    return replace(combined, values=old), notes
