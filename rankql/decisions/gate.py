"""May this ranking ship? Limits on means, and on drops below a baseline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.alignment import align_systems, require_same_queries
from rankql.decisions.arguments import (
    Results,
    cluster_errors,
    is_result,
    require_attributes,
    require_known_options,
    require_metrics,
    require_no_run_options,
)
from rankql.decisions.gate_limits import (
    GateLimit,
    list_default_drops,
    parse_drops,
    parse_minima,
    split_limits,
)
from rankql.decisions.gate_rows import drop_rows, mean_rows
from rankql.decisions.margin import Judgement
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.combining import combine_systems, compare_judgments, require_finite_metrics
from rankql.evaluation.evaluate import evaluate
from rankql.evaluation.result import Result
from rankql.evaluation.values import Request, read_result, set_directions
from rankql.macros import MISSING
from rankql.registry.argument_checks import (
    require_choice,
    require_flag,
    require_probability,
    require_whole_number,
)
from rankql.sources.tables import Data
from rankql.stats.corrections import LEAST_ALPHA
from rankql.writing import remember_inputs


@remember_inputs
def gate(
    run: Data | Results,
    qrels: Data | None = None,
    baseline: Data | Results | None = None,
    *,
    minimum: str | Sequence[str] = (),
    max_drop: str | Sequence[str] | None = None,
    inconclusive: str = "fail",
    minimum_bound: bool = False,
    beyond_noise: bool = True,
    alpha: float = 0.05,
    by: str | Sequence[str | Sequence[str]] = (),
    min_queries: int = 10,
    cluster: str | None = None,
    weight: str | None = None,
    on_mismatch: str = "error",
    higher_is_better: bool | Mapping[str, bool] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Verdict:
    """Check a run against limits: on its means, and on their drop below a baseline.

    `run` and `baseline` are runs, evaluated on `qrels` like in `evaluate` (which explains `by`,
    `con`, `conventions` and the other options), or results: a `Result`, a file that `output=`
    wrote, or any table with one row per query (a key and columns of numbers). `higher_is_better` is
    the direction of columns that are not metrics of rankql: True, False or a dict of name: bool.
    The default is True.

    `max_drop`, such as `nDCG@10:0.01`, is how much worse than the baseline the mean may be: lower
    for nDCG, higher for RMSE. The limit passes if the confidence interval of the drop (level
    1 - alpha) is within it, fails if the interval is beyond it, and is inconclusive otherwise. An
    inconclusive limit says about how many queries would decide it, and fails the gate unless
    inconclusive="warn". With a limit of 0, or a baseline without `max_drop`, only a significant
    drop fails, and a note recommends a limit. beyond_noise=False compares the means alone.

    `minimum` is a limit on the mean, such as `nDCG@10>=0.45` or `RMSE<0.9`, or a list of limits. If
    minimum_bound=True, the confidence interval of the mean decides.

    Overall limits are not adjusted for their number. With `by`, the slices of a limit are adjusted
    among themselves (Holm). A slice with fewer than `min_queries` queries never passes: it fails if
    its interval is beyond the limit, and is reported as too small otherwise.

    The interval is Student's t, widened for skewed differences. `cluster` names the attribute of
    queries that belong together, such as a user. `weight` names a column with one weight per query,
    such as its traffic, which means, drops and intervals then respect. Queries that only the run
    has are left out of the drops. Queries that the run lacks count as the conventions say.
    Results with different judgments or conventions are refused, or noted with on_mismatch='note'.

    >>> old = pl.DataFrame({"query": [*"abcde"], "AP": [0.7, 0.5, 0.6, 0.8, 0.4]})
    >>> new = pl.DataFrame({"query": [*"abcde"], "AP": [0.4, 0.3, 0.3, 0.6, 0.1]})
    >>> verdict = gate(new, baseline=old, minimum="AP>=0.3", max_drop="AP:0.01")
    >>> print(verdict.passed, *verdict.table["message"], sep="\\n")
    False
    0.34 over 5 queries
    dropped by 0.26 (95% CI 0.02 to 0.33), beyond the limit of 0.01
    """
    require_probability("alpha", alpha, LEAST_ALPHA)
    require_whole_number("min_queries", min_queries, 1)
    require_choice("inconclusive", inconclusive, *ON_INCONCLUSIVE)
    require_flag("minimum_bound", minimum_bound)
    require_flag("beyond_noise", beyond_noise)
    if baseline is None and max_drop is not None:
        raise RankqlError("max_drop= needs a baseline. Pass baseline= (CLI: --baseline)")
    if baseline is None and not beyond_noise:
        raise RankqlError(
            "beyond_noise=False (CLI: --any-drop) needs a baseline. "
            "Pass baseline= (CLI: --baseline)"
        )
    if minimum_bound and not minimum:
        raise RankqlError(
            "minimum_bound=True (CLI: --min-bound) needs a limit on a mean. "
            "Pass minimum= (CLI: --min)"
        )
    if baseline is not None or minimum_bound:
        require_package("scipy", "stats", "gate")
    groups = parse_groupings(by)
    attributes = [*groups, *([name] for name in (cluster, weight) if name)]
    require_known_options(gate, options)
    keywords = {"conventions": conventions, **options, "con": con}
    texts = (*split_limits("minimum", minimum), *split_limits("max_drop", max_drop or ()))
    names = [re.split("[<>=:]", text)[0].strip() for text in texts]
    request = Request.of(keywords, names, [*itertools.chain(*attributes)], higher_is_better)
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    inputs = read_gate_inputs(data, qrels, attributes, request, keywords, weight)
    minima = parse_minima(minimum, inputs.known)
    drops = parse_drops(max_drop or (), inputs.known)
    if without_limits := baseline is not None and max_drop is None:
        drops = list_default_drops(minima, inputs.known)
    limits = [*minima, *drops]
    if not limits:
        empty = "max_drop= is empty: leave it out to check every metric"
        remedy = "Pass minimum= or baseline=" if baseline is None else empty
        raise RankqlError(f"Nothing to check. {remedy}")
    metrics = list(dict.fromkeys(limit.spelling for limit in limits))
    with cluster_errors(cluster, [*itertools.chain(*groups)]):
        run_result = inputs.evaluate("run", metrics)
        baseline_result = inputs.evaluate("baseline", metrics) if drops else None
    if baseline_result:
        scaled = any(limit.metric.scaled for limit in drops)
        mismatches = []
        if any(inputs.results.values()):
            both = {"baseline": baseline_result, "run": run_result}
            mismatches = compare_judgments(both, on_mismatch)
        run_result, differences = match_conventions(
            run_result, baseline_result, inputs.frames, scaled, on_mismatch
        )
        mismatches += differences
    evaluated = run_result.metrics
    run_result = select_run(run_result, limits, groups, attributes, cluster)
    run_result = set_directions(run_result, higher_is_better, evaluated)
    notes: list[str] = mismatches if baseline_result else []
    judgements: list[dict[str, Judgement]] = [{} for _ in minima]
    if (drops and beyond_noise) or minimum_bound:
        from rankql.decisions.gate_tests import describe_rule, judge_means

        which = "A limit"
        if minima and not minimum_bound:
            which = "A limit on a drop"
        elif drops and not beyond_noise:
            which = "A limit on a mean"
        no_limit = beyond_noise and any(not limit.bound for limit in drops)
        notes += describe_rule(which, alpha, bool(groups), no_limit)
        if minimum_bound:
            judgements = judge_means(minima, run_result, cluster, alpha, min_queries)
    rows = [
        row for limit, by_slice in zip(minima, judgements, strict=True)
        for row in mean_rows(limit, run_result, by_slice, min_queries)
    ]  # fmt: skip
    pairs = None
    if baseline_result:
        from rankql.decisions.gate_tests import judge_drops, recommend_limit, require_intervals
        from rankql.decisions.system_values import PairedRuns

        baseline_result = select_baseline(baseline_result, run_result, drops)
        combined, pair_notes = combine_runs(run_result, baseline_result)
        pairs = PairedRuns(align_systems(combined, ["baseline", "run"]), cluster)
        notes += [*pair_notes, *pairs.notes]
        if without_limits and beyond_noise:
            require_intervals(drops, run_result)
        for limit in drops:
            tests = beyond_noise and limit.name(run_result) not in run_result.overall_metrics
            tested = judge_drops(limit, pairs, alpha, min_queries) if tests else None
            rows += drop_rows(limit, pairs, tested, min_queries)
            if without_limits and beyond_noise:
                notes += recommend_limit(limit, pairs, alpha)
    notes = list(dict.fromkeys([*notes, *run_result.notes]))
    table = pl.DataFrame(rows, schema=SCHEMA)
    return Verdict(table, replace(run_result, notes=notes), inconclusive, pairs)


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
