"""May this ranking ship? Limits on means, and on drops against a baseline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql.decisions.alignment import align_systems
from rankql.decisions.arguments import Results, require_known_options
from rankql.decisions.gate_inputs import (
    combine_runs,
    match_conventions,
    read_gate_inputs,
    require_means,
    select_baseline,
    select_run,
)
from rankql.decisions.gate_limits import (
    list_default_drops,
    mean_rows,
    parse_drops,
    parse_minima,
    split_limits,
)
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.errors import RankqlError, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.values import Request, set_directions
from rankql.registry.argument_checks import require_choice, require_flag, require_whole_number
from rankql.sources.tables import Data


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
    higher_is_better: bool | Mapping[str, bool] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Verdict:
    """Hold a run to limits: on its means, and on how far they may drop below a baseline.

    `run` and `baseline` are runs, which are evaluated on `qrels` as `evaluate` does (it explains
    `by`, `con`, `conventions` and the further options), or results: a `Result`, the file that
    `output=` wrote, or any table with one row per query (a key and columns of numbers).
    `higher_is_better` is the direction of columns that are not metrics of rankql (True, False or a
    dict of name: bool; True by default).

    `max_drop`, such as `nDCG@10:0.01`, is how much worse than the baseline the mean may be: a drop
    for nDCG, a rise for RMSE. The limit passes when the confidence interval of the drop (level
    1 - alpha) lies within it, fails when the interval lies beyond it, and is inconclusive
    otherwise. An inconclusive limit says about how many queries would decide it, and fails the
    gate; with inconclusive="warn" it does not. With a limit of 0, or with a baseline and no
    `max_drop`, only a significant drop fails, and a note recommends a limit. beyond_noise=False
    compares the means alone.

    `minimum` is a limit on the mean itself, such as `nDCG@10>=0.45` or `RMSE<0.9`, or a list of
    them. minimum_bound=True holds the confidence interval to it instead.

    Limits over all queries are not adjusted for their number. With `by`, the slices of a limit are
    adjusted among themselves (Holm). A slice with fewer than `min_queries` queries never passes: it
    fails when its interval lies beyond the limit, and is reported as too small otherwise.

    The interval is Student's, widened for skewed differences; `cluster` names the attribute of
    queries that belong together. A query that only the run has is left out of the drops; a query
    that the run lost counts as the conventions say.

    >>> old = pl.DataFrame({"query": [*"abcde"], "AP": [0.7, 0.5, 0.6, 0.8, 0.4]})
    >>> new = pl.DataFrame({"query": [*"abcde"], "AP": [0.4, 0.3, 0.3, 0.6, 0.1]})
    >>> verdict = gate(new, baseline=old, minimum="AP>=0.3", max_drop="AP:0.01")
    >>> print(verdict.passed, *verdict.table["message"], sep="\\n")
    False
    0.34 on 5 queries
    dropped by 0.26 (95% CI 0.02 to 0.33), beyond the limit of 0.01
    """
    if not isinstance(alpha, float) or not 1e-12 <= alpha < 1:
        raise RankqlError(f"alpha must lie between 0 and 1, not {alpha!r}")
    require_whole_number("min_queries", min_queries, 1)
    require_choice("inconclusive", inconclusive, *ON_INCONCLUSIVE)
    require_flag("minimum_bound", minimum_bound)
    require_flag("beyond_noise", beyond_noise)
    if baseline is None and max_drop is not None:
        raise RankqlError("max_drop needs a baseline to drop from: baseline=")
    if baseline is not None or minimum_bound:
        require_package("scipy", "stats", "gate")
    groups = parse_groupings(by)
    attributes = [*groups, *([[cluster]] if cluster else [])]
    require_known_options(gate, options)
    keywords = {"conventions": conventions, **options, "con": con}
    texts = (*split_limits("minimum", minimum), *split_limits("max_drop", max_drop or ()))
    names = [re.split("[<>=:]", text)[0].strip() for text in texts]
    request = Request.of(keywords, names, [*itertools.chain(*attributes)], higher_is_better)
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    inputs = read_gate_inputs(data, qrels, attributes, request, keywords)
    minima = parse_minima(minimum, inputs.known)
    default = baseline is not None and max_drop is None
    drops = parse_drops(max_drop or (), inputs.known)
    if default:
        drops = list_default_drops(minima, inputs.known)
    limits = [*minima, *drops]
    if not limits:
        raise RankqlError("there is nothing to check: give minimum= or baseline=")
    metrics = list(dict.fromkeys(limit.spelling for limit in limits))
    run_result = inputs.evaluate("run", metrics)
    baseline_result = inputs.evaluate("baseline", metrics) if drops else None
    if baseline_result:
        scaled = any(limit.metric.scaled for limit in drops)
        run_result = match_conventions(run_result, baseline_result, inputs.frames, scaled)
    evaluated = run_result.metrics
    run_result = select_run(run_result, limits, groups, attributes, cluster)
    run_result = set_directions(run_result, higher_is_better, evaluated)
    notes: list[str] = []
    tested = [*(minima if minimum_bound else ()), *(drops if beyond_noise else ())]
    if tested:
        from rankql.decisions.gate_drops import describe_rule

        require_means(tested, run_result)
        no_limit = any(not limit.bound and not limit.operator for limit in tested)
        notes += describe_rule(alpha, bool(groups), no_limit)
    rows: list[dict[str, Any]] = []
    if minimum_bound and minima:
        from rankql.decisions.gate_bounds import bound_rows, values_of_run

        values = values_of_run(run_result, cluster)
        for limit in minima:
            rows += bound_rows(limit, run_result, values, alpha, min_queries)
    else:
        rows += [row for limit in minima for row in mean_rows(limit, run_result, min_queries)]
    pairs = None
    if baseline_result:
        from rankql.decisions.gate_drops import drop_rows, recommend_limit
        from rankql.decisions.system_values import PairedRuns

        baseline_result = select_baseline(baseline_result, run_result, drops)
        combined, pair_notes = combine_runs(run_result, baseline_result)
        pairs = PairedRuns(align_systems(combined, ["baseline", "run"]), cluster)
        notes += [*pair_notes, *pairs.notes]
        level = alpha if beyond_noise else None
        rows += [row for limit in drops for row in drop_rows(limit, pairs, level, min_queries)]
        if default and beyond_noise:
            notes += [note for x in drops for note in recommend_limit(x, pairs, alpha)]
    notes = list(dict.fromkeys([*notes, *run_result.notes]))
    table = pl.DataFrame(rows, schema=SCHEMA)
    return Verdict(table, replace(run_result, notes=notes), inconclusive, pairs)
