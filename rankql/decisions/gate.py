"""May this ranking ship? Limits on means, and on drops below a baseline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql.decisions.alignment import align_systems
from rankql.decisions.arguments import Results, cluster_errors, require_known_options
from rankql.decisions.gate_inputs import (
    combine_runs,
    match_conventions,
    read_gate_inputs,
    select_baseline,
    select_run,
)
from rankql.decisions.gate_limits import (
    list_default_drops,
    parse_drops,
    parse_minima,
    split_limits,
)
from rankql.decisions.gate_rows import drop_rows, mean_rows
from rankql.decisions.margin import Judgement
from rankql.decisions.significance import LEAST_ALPHA
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.combining import compare_judgments
from rankql.evaluation.values import Request, set_directions
from rankql.registry.argument_checks import (
    require_choice,
    require_flag,
    require_probability,
    require_whole_number,
)
from rankql.sources.tables import Data
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
