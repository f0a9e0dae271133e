"""May this ranking ship? Limits on means, and on drops below a baseline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql import text
from rankql.decisions.alignment import align_systems, hash_rankings, require_same_queries
from rankql.decisions.arguments import (
    Results,
    cluster_errors,
    is_result,
    require_attributes,
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
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.combining import combine_systems, compare_judgments, require_finite_metrics
from rankql.evaluation.evaluate import evaluate, require_known_options
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
    max_drop: str | Sequence[str] | Mapping[str, float] | None = None,
    inconclusive: str = "fail",
    minimum_bound: bool = False,
    beyond_noise: bool = True,
    alpha: float = 0.05,
    by: str | Sequence[str | Sequence[str]] = (),
    min_queries: int = 10,
    cluster: str | None = None,
    weight: str | None = None,
    judge: Data | None = None,
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

    `max_drop`, such as `nDCG@10:0.01` or `{"nDCG@10": 0.01}`, is how much worse than the baseline
    the mean may be: lower for nDCG, higher for RMSE. The limit passes if the confidence interval of
    the drop (level 1 - alpha) is within it, fails if the interval is beyond it, and is inconclusive
    otherwise. An inconclusive limit says about how many queries would decide it, and fails the gate
    unless inconclusive="warn". With a limit of 0, or a baseline without `max_drop`, only a
    significant drop fails, and a note recommends a limit. beyond_noise=False compares the means
    alone.

    `minimum` is a limit on the mean, such as `nDCG@10>=0.45` or `RMSE<0.9`, or a list of limits. If
    minimum_bound=True, the confidence interval of the mean decides.

    Nothing passes without an interval, unless the rankings are identical. With fewer than
    `min_queries` queries a limit never passes: it fails if its interval is beyond the limit;
    otherwise it is inconclusive, and a slice is reported as too small. Overall limits are not
    adjusted for their number. With `by`, the slices of a limit are adjusted among themselves
    (Holm).

    The intervals are those of `evaluate` and `compare`. `cluster` names the attribute of
    queries that belong together, such as a user. `weight` names a column with one weight per query,
    such as its traffic, which means, drops and intervals then respect. Queries that only the run
    has are left out of the drops. Queries that the run lacks count as the conventions say.
    `judge` is a table of labels by a language model for all queries, where `qrels` has human ones
    for a random sample of at least 10: means and drops are then those under human labels, corrected
    by the judge, with their intervals: see `evaluate`.

    Results with different judgments or conventions are refused, or noted with on_mismatch='note'.

    >>> old = pl.DataFrame({"query": range(12), "AP": [0.7, 0.5, 0.6, 0.8] * 3})
    >>> new = pl.DataFrame({"query": range(12), "AP": [0.4, 0.3, 0.3, 0.6] * 3})
    >>> verdict = gate(new, baseline=old, minimum="AP>=0.3", max_drop="AP:0.01")
    >>> print(verdict.passed, *verdict.table["message"], sep="\\n")
    False
    0.4 over 12 queries
    dropped by 0.250 (95% CI 0.217 to 0.283), beyond the limit of 0.01
    """
    require_probability("alpha", alpha, LEAST_ALPHA)
    require_whole_number("min_queries", min_queries, 1)
    require_choice("inconclusive", inconclusive, *ON_INCONCLUSIVE)
    require_flag("minimum_bound", minimum_bound)
    require_flag("beyond_noise", beyond_noise)
    for wrong, option, needs in (
        (baseline is None and max_drop is not None, "max_drop=", "a baseline. Pass baseline="),
        (baseline is None and not beyond_noise, "beyond_noise=False (CLI: --any-drop)",
         "a baseline. Pass baseline= (CLI: --baseline)"),
        (minimum_bound and not minimum, "minimum_bound=True (CLI: --min-bound)",
         "a limit on a mean. Pass minimum= (CLI: --min)"),
    ):  # fmt: skip
        if wrong:
            raise RankqlError(f"{option} needs {needs}")
    require_package("scipy", "stats", "gate")
    from rankql.decisions.corrected import correct_pair, system_values
    from rankql.decisions.gate_rows import LimitRule, describe_rule, limit_rows, recommend_limit
    from rankql.decisions.system_values import describe_clusters, describe_left_out

    groups = parse_groupings(by)
    attributes = [*groups, *([name] for name in (cluster, weight) if name)]
    require_known_options(gate, options)
    keywords = {"conventions": conventions, **options, "con": con}
    texts = (*split_limits("minimum", minimum), *split_limits("max_drop", max_drop or ()))
    names = [re.split("[<>=:]", text)[0].strip() for text in texts]
    request = Request.of(keywords, names, [*itertools.chain(*attributes)], higher_is_better)
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    results = {name: _read_result(value, name, qrels, request) for name, value in data.items()}
    if judge is not None and any(results.values()):
        raise RankqlError("judge= needs rankings, not results. Pass the runs")
    if all(results.values()):
        run_options = {name: value for name, value in keywords.items() if name != "con"}
        require_no_run_options({"qrels": qrels, **run_options})
    known = [result.metrics for result in results.values() if result]
    minima, drops = parse_minima(minimum, known), parse_drops(max_drop or (), known)
    if without_limits := baseline is not None and max_drop is None:
        drops = list_default_drops(minima, known)
    limits = [*minima, *drops]
    if not limits:
        empty = "max_drop= is empty: leave it out to check every metric"
        remedy = "Pass minimum= or baseline=" if baseline is None else empty
        raise RankqlError(f"Nothing to check. {remedy}")
    metrics = list(dict.fromkeys(limit.spelling for limit in limits))
    evaluated = {}
    with cluster_errors(cluster, [*itertools.chain(*groups)]):
        for name, value in data.items() if drops else [("run", run)]:
            result = results[name]
            if result is None:  # a baseline is named in errors
                value = {name: value} if name == "baseline" else value
                result = evaluate(value, qrels, metrics, by=attributes, interval=None,
                                  weight=weight, judge=judge, **keywords)  # fmt: skip
            evaluated[name] = _require_one_system(name, result.weighted_by(weight))
    notes = []
    if drops:
        if any(results.values()):
            notes += compare_judgments(evaluated, on_mismatch)
        tables = [n for n, x in data.items() if results[n] and not is_result(x)]
        scaled = any(limit.metric.scaled for limit in drops)
        notes += _match_conventions(evaluated, tables, scaled, on_mismatch)
    names = evaluated["run"].metrics
    run_result = _select_run(evaluated["run"], limits, groups, attributes, cluster)
    run_result = set_directions(run_result, higher_is_better, names)
    rules = {
        "": LimitRule(alpha if beyond_noise else None, min_queries),
        "mean": LimitRule(alpha if minimum_bound else None, min_queries),
    }
    notes += describe_rule(minima, drops, rules, bool(groups))
    alone = run_result.frame().with_columns(pl.lit("run").alias("system"))
    values = system_values(replace(run_result, values=alone), ["run"], cluster)
    rows = [row for limit in minima for row in limit_rows(limit, run_result, values, rules["mean"])]
    pair = None
    if drops:
        baseline_result = _select_baseline(evaluated["baseline"], run_result, drops)
        combined, left_out = _combine(run_result, baseline_result)
        pair = correct_pair(align_systems(combined, ["baseline", "run"]), evaluated)
        values = system_values(pair, ["baseline", "run"], cluster)
        clustered = [] if cluster is None else [describe_clusters(values, cluster)]
        notes += [*left_out, *clustered, *describe_left_out(values, pair.conventions)]
        equal = [values.sample(x.name(pair), values.systems, "all").is_zero for x in drops]
        prints = [hash_rankings(result) for result in evaluated.values()] if any(equal) else [None]
        rule = replace(rules[""], identical=None not in prints and len({*prints}) == 1)
        for limit in drops:
            rows += limit_rows(limit, pair, values, rule)
            if without_limits and beyond_noise:
                notes += recommend_limit(limit, pair, values, alpha)
    notes = list(dict.fromkeys([*notes, *run_result.notes]))
    table = pl.DataFrame(rows, schema=SCHEMA)
    return Verdict(table, replace(run_result, notes=notes), inconclusive, pair)


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


def _match_conventions(
    results: dict[str, Result], tables: Sequence[str], scaled: bool, on_mismatch: str
) -> list[str]:
    """Give the run the conventions of the baseline, or plain tables those of the other one.

    Results with different conventions are refused, or a note says what differs.
    """
    run, baseline = results["run"], results["baseline"]
    if run.meta.weight != baseline.meta.weight:
        raise RankqlError(
            f"The run has weight={run.meta.weight!r}, but the baseline has "
            f"weight={baseline.meta.weight!r}. Evaluate both with the same weight"
        )
    if "baseline" in tables:
        return []
    ignored = {"profile"} if scaled else {"profile", "max_rel"}
    differences = [
        (f"{name}={baseline.conventions.get(name)}", f"{name}={value}")
        for name, value in run.conventions.items()
        if name not in ignored and value != baseline.conventions.get(name)
    ]
    notes = []
    if differences and "run" not in tables:
        of_baseline, of_run = map(", ".join, zip(*differences, strict=True))
        message = f"baseline was evaluated with {of_baseline}, but the run with {of_run}"
        if on_mismatch == "error":
            raise RankqlError(f"{message}. Evaluate one of them again")
        notes = [message]
    if differences or "run" in tables:
        meta = replace(run.meta, conventions=baseline.conventions)
        results["run"] = replace(run, meta=meta)
    return notes


def _select_run(
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


def _select_baseline(baseline: Result, run: Result, limits: Sequence[GateLimit]) -> Result:
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


def _combine(run: Result, baseline: Result) -> tuple[Result, list[str]]:
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
