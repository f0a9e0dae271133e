"""May this ranking ship? Limits on means, and on drops against a baseline."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from rankql.decisions.alignment import align_systems
from rankql.decisions.arguments import Results, list_options
from rankql.decisions.gate_drops import drop_rows, recommend_limit
from rankql.decisions.gate_inputs import (
    combine_runs,
    match_conventions,
    read_gate_inputs,
    require_means,
    select_baseline,
    select_run,
)
from rankql.decisions.gate_limits import (
    GateLimit,
    list_default_drops,
    parse_drops,
    parse_minima,
    split_limits,
)
from rankql.decisions.gate_means import bound_rows, mean_rows
from rankql.decisions.paired_runs import PairedRuns
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.errors import RankqlError, describe_unknown, require_package
from rankql.evaluation.arguments import parse_groupings
from rankql.evaluation.result import Result
from rankql.evaluation.values import Request, set_directions
from rankql.registry.argument_checks import require_choice, require_flag, require_whole_number
from rankql.sources.tables import Data

if TYPE_CHECKING:
    from rankql.decisions.noninferiority import NoninferiorityTest


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
    test: str = "t",
    cluster: str | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    resamples: int = 9_999,
    seed: int = 7,
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

    `test` gives the interval: 't' (Student's, widened for skewed differences), 'randomisation' or
    'bootstrap'; `rankql.compare` explains `cluster`, `resamples` and `seed`. A query that only the
    run has is left out of the drops; a query that the run lost counts as the conventions say.

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
    noninferiority: NoninferiorityTest | None = None
    if minimum_bound or (baseline is not None and beyond_noise):
        require_package("scipy", "stats", "gate")
        from rankql.decisions.noninferiority import NoninferiorityTest
        from rankql.decisions.sample import SignificanceOptions

        significance = SignificanceOptions(alpha, resamples, seed)
        noninferiority = NoninferiorityTest(test, significance, min_queries, cluster)
    groups = parse_groupings(by)
    attributes = [*groups, *([[cluster]] if cluster else [])]
    for name in options:
        if name not in (available := list_options(gate)):
            raise RankqlError(describe_unknown("option", name, available))
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
    rows: list[dict[str, Any]] = []
    if noninferiority:
        notes += noninferiority.notes(bool(groups), any(not limit.bound for limit in drops))
        tested = [*(drops if beyond_noise else ()), *(minima if minimum_bound else ())]
        require_means(tested, run_result)
    for limit in minima:
        if noninferiority and minimum_bound:
            rows += bound_rows(limit, run_result, noninferiority)
        else:
            rows += mean_rows(limit, run_result, min_queries)
    pairs = None
    if baseline_result:
        pairs, pair_notes = _pair_runs(run_result, baseline_result, drops, cluster)
        notes += pair_notes
        for limit in drops:
            rows += drop_rows(limit, pairs, noninferiority if beyond_noise else None, min_queries)
        if default and noninferiority:
            notes += [note for x in drops for note in recommend_limit(x, pairs, noninferiority)]
    notes = list(dict.fromkeys([*notes, *run_result.notes]))
    table = pl.DataFrame(rows, schema=SCHEMA)
    return Verdict(table, replace(run_result, notes=notes), inconclusive, pairs)


def _pair_runs(
    run: Result, baseline: Result, drops: Sequence[GateLimit], cluster: str | None
) -> tuple[PairedRuns, list[str]]:
    """The run and its baseline by query, and notes on queries that are left out."""
    require_package("scipy", "stats", "gate")
    combined, notes = combine_runs(run, select_baseline(baseline, run, drops))
    pairs = PairedRuns(align_systems(combined, ["baseline", "run"]), cluster)
    return pairs, [*notes, *pairs.notes()]
