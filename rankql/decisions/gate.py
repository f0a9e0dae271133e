"""May this ranking ship? Limits on means, and on drops below a baseline."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import duckdb
import polars as pl

from rankql.core.base import errors, text
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.evaluate import evaluate_request, open_evaluation
from rankql.core.evaluation.plan.meta import MEAN_OF_SLICES, average_slices
from rankql.core.evaluation.result.result import Result
from rankql.core.metrics.macros import MISSING
from rankql.core.tables.numbers.values import EQUAL_ROWS
from rankql.core.tables.request import (
    DEFAULT_METRICS,
    RankingRules,
    Request,
    SpanOptions,
    parse_groupings,
)
from rankql.core.tables.tables import Data, require_named
from rankql.decisions import alignment, verdict
from rankql.decisions.alignment import Results
from rankql.decisions.verdict import Verdict
from rankql.features.collections import find_collections
from rankql.features.combine import combine_systems, require_same_judgments, with_names_of
from rankql.features.systems import describe_users, open_each
from rankql.features.values import VALUES, set_directions
from rankql.shapes.ask.structure import find_systems

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.decisions.gate_limits import GateLimit, Limits

# The rules that a result of values takes from the other one.
_RULES = ("conventions", "unjudged_queries")


@remember_inputs
def gate(
    run: Data | Results,
    qrels: Data | None = None,
    baseline: Data | Results | None = None,
    *,
    minimum: str | Sequence[str] | Mapping[str, float] = (),
    max_drop: str | Sequence[str] | Mapping[str, float] | None = None,
    equivalence: str | Sequence[str] | Mapping[str, float] = (),
    inconclusive: Literal["fail", "warn"] = "fail",
    minimum_bound: bool = False,
    alpha: float = 0.05,
    interval: Literal["auto", "anytime"] = "auto",
    time: str | Literal[False] | None = None,
    by: str | Sequence[str | Sequence[str]] = (),
    attributes: Data | None = None,
    min_queries: int = 10,
    cluster: str | None = None,
    weight: str | None = None,
    judge: Data | None = None,
    judge_rel: str | Mapping[str, float] | None = None,
    train: Data | None = None,
    catalogue: Data | int | None = None,
    seen: Literal["drop"] | None = None,
    min_score: float | Mapping[str, float] | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
    **options: Unpack[SpanOptions],
) -> Verdict:
    """Check a run against limits: on its means, and on their drop below a baseline.

    No drop passes without an interval, unless the rankings are identical or the metric is one value
    for all queries. Minima compare the mean itself, unless `minimum_bound`. Overall limits are not
    adjusted for their number. With `by`, the slices of a limit are adjusted among themselves
    (Holm). The intervals are those of `evaluate` and `compare`. Queries that only the run has are
    left out of the drops. Queries that the run lacks count as the conventions say.

    Parameters
    ----------
    run : run or result
        A run, evaluated on `qrels`, or a result: a `Result`, a file that `output=` wrote, or values
        of your own, such as revenue, by `read_values`.
    baseline : run or result, optional
        Run to compare with, or file that evaluate wrote with output.
    minimum : str, list of str or dict
        Lowest mean allowed, such as nDCG@10>=0.45, or highest, such as RMSE<0.9. Several are
        separated by commas. {"nDCG@10": 0.45} is the same, and the highest one of metrics that are
        better if they are lower. With `by`, a limit is on all queries and on every slice, or on one
        that it names: 'country=DE: nDCG@10>=0.6', 'all: nDCG@10>=0.4', and 'mean of slices: ...',
        in which each slice counts once. Without `by`, slices are those that limits name, and other
        limits are on all queries. Quotes around values are optional: 'time="12:30": AP>=0.5'.
    max_drop : str, list of str or dict, optional
        How much worse than the baseline the mean may be, such as nDCG@10:0.01.

        Worse is lower for nDCG, higher for RMSE. {"nDCG@10": 0.01} is the same, and a slice is
        named as in `minimum`. The limit passes if the confidence interval of the drop (level 1 -
        alpha) is within it, fails if the interval is beyond it, and is inconclusive otherwise. With
        a limit of 0, or a baseline without limits, only a significant drop fails, and a note
        recommends a limit.
    equivalence : str, list of str or dict, optional
        Largest drop and largest gain allowed, such as nDCG@10:0.01.

        These are two one-sided tests at level alpha, so both limits pass if the run and the
        baseline are equivalent.
    inconclusive : 'fail' or 'warn'
        If there are too few queries to decide: fail, with exit code 3, or warn.

        An inconclusive limit says about how many queries would decide it.
    minimum_bound : bool
        Require that the confidence interval of the mean passes the minimum, not the mean alone.
    alpha : float
        Significance level; intervals have level 1 - alpha.
    interval : 'auto' or 'anytime'
        Intervals for one number of queries, or intervals that hold at every number of them while
        queries are added, so that one run may be checked after each: see `compare`. A new run is
        another stream.
    time : str or False, optional
        Column or expression of the time of each query, for interval='anytime'.

        False shuffles the queries once, for a set that does not grow.
    min_queries : int
        A limit with fewer queries cannot pass if it is held against an interval: it fails if the
        interval is beyond the limit, and is otherwise inconclusive. Smaller slices are reported as
        too small. A minimum without `minimum_bound` is held against the mean of just these queries,
        a fixed set and no sample, and is decided by any number of them.
    cluster : str, optional
        Attribute that groups dependent queries, such as the user.
    weight : str, optional
        Column with one weight per query, such as its traffic.
    judge : table, optional
        Labels of all queries by a language model, if the judgments are human labels of a random
        sample of at least 20 queries: means and drops are corrected by the judge.
    higher_is_better : bool or dict, optional
        Direction of columns that are not metrics of rankql: True, False or a dict of name: bool.
        The default is True.
    qrels, by, attributes, judge_rel, train, catalogue, seen, min_score, con, **options
        As in `evaluate`.

    Examples
    --------
    >>> import rankql
    >>> old = pl.DataFrame({"query": range(12), "AP": [0.7, 0.5, 0.6, 0.8] * 3})
    >>> new = pl.DataFrame({"query": range(12), "AP": [0.4, 0.3, 0.3, 0.6] * 3})
    >>> run, baseline = rankql.read_values(new), rankql.read_values(old)
    >>> verdict = gate(run, baseline=baseline, minimum="AP>=0.3", max_drop="AP:0.01")
    >>> print(verdict.passed, *verdict.table["message"], sep="\\n")
    False
    0.4 over 12 queries
    dropped by 0.250 (95% CI 0.217 to 0.283), beyond the limit of 0.01
    """
    errors.require_package("scipy", "stats", "gate")
    from rankql.core.stats.tests import LEAST_ALPHA, MeanTest, SkewedStudent
    from rankql.decisions.gate_limits import default_drops, limit_rows, parse_limits, withhold
    from rankql.decisions.pairs import describe_widths, list_pairs
    from rankql.features.anytime import require_anytime, require_one_mean

    errors.require_probability("alpha", alpha, LEAST_ALPHA)
    errors.require_whole_number("min_queries", min_queries, 1)
    errors.require_choice("inconclusive", inconclusive, *verdict.ON_INCONCLUSIVE)
    errors.require_flag("minimum_bound", minimum_bound)
    errors.require_choice("interval", interval, "auto", "anytime")
    require_anytime(interval, time, cluster=cluster, weight=weight, judge=judge)
    anytime = interval == "anytime"
    if anytime and not minimum_bound and baseline is None:
        needed = "a limit that an interval decides. Pass baseline= or minimum_bound=True"
        raise errors.RankqlError(f"interval='anytime' needs {needed}")
    for name, is_set in (("max_drop", max_drop is not None), ("equivalence", bool(equivalence))):
        lacks_baseline = baseline is None and is_set
        errors.require(not lacks_baseline, f"{name}= needs a baseline. Pass baseline=")
    narrow = alpha < 0.5 or not equivalence
    errors.require(narrow, f"equivalence= needs alpha below 0.5, not {alpha}")
    if minimum_bound and not minimum:
        raise errors.RankqlError("minimum_bound= needs a limit on a mean. Pass minimum=")
    default = () if minimum or max_drop or equivalence else DEFAULT_METRICS  # no limit names one
    request = Request(
        run, qrels, default, RankingRules.of(options, gate, SpanOptions), attributes, con,
        parse_groupings(by), weight, cluster, time, interval=None if anytime else "auto",
        train=train, catalogue=catalogue, seen=seen, min_score=min_score, judge=judge,
        judge_rel=judge_rel,
    )  # fmt: skip
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    for name in sorted(min_score) if isinstance(min_score, Mapping) else ():
        errors.require_known("system in min_score", name, [*data])
    results = open_each(data, replace(request, judge=None, judge_rel=None))
    if judge is not None and any(results.values()):
        raise errors.RankqlError("judge= needs rankings, not results. Pass the runs")
    if (old := results.get("baseline")) and (new := results["run"]):
        results["baseline"] = with_names_of(old, new)
    known = [result.metrics for result in results.values() if result]
    minima = parse_limits("minimum", minimum, known)
    drops = parse_limits("max_drop", max_drop or (), known)
    drops += parse_limits("equivalence", equivalence, known)
    if baseline is not None and max_drop is None and not equivalence:
        drops = default_drops(minima, known)
    if not (minima or drops):
        remedy = "minimum= or baseline=" if baseline is None else "minimum= or max_drop="
        raise errors.RankqlError(f"Nothing to check. Pass {remedy}")
    averaged = any(limit.part == MEAN_OF_SLICES for limit in [*minima, *drops])
    groups = request.groupings
    if not (groups or averaged):  # limits that name no slice are then on all queries
        groups = parse_groupings([x.attributes for x in [*minima, *drops] if x.attributes])
        every = "all" if groups else ""
        minima, drops = ([replace(x, part=x.part or every) for x in y] for y in (minima, drops))
    metrics = list(dict.fromkeys(limit.spelling for limit in [*minima, *drops]))
    request = replace(request, metrics=metrics, groupings=groups)

    def evaluate_one(name: str, rules: RankingRules = request.rules) -> Result:
        least = min_score.get(name) if isinstance(min_score, Mapping) else min_score
        # A baseline is named in errors, and systems by collections are named already.
        alone = name == "baseline" and not find_collections(data[name], qrels)
        value = {name: data[name]} if alone else data[name]
        result = evaluate_request(replace(request, run=value, rules=rules, min_score=least))
        require_named(result.columns)
        return result

    checked = [*data] if drops else ["run"]
    notes, rows = list[str](), list[dict[str, Any]]()
    none: dict[str, Any] = dict.fromkeys(
        ("interval", "weight", "cluster", "time", "judge", "judge_rel")
    )
    together = replace(request, run=data, rules=replace(request.rules, system=None))
    joint: Result | None = None
    if drops and not any(results.values()) and _have_grades(replace(together, **none)):
        try:
            joint = evaluate_request(together)  # whose grades count is one rule of both
            known_results = {name: _result_of(name, joint) for name in data}
        except errors.RankqlError:
            if not (groups or weight or cluster or time):
                raise
            # An attribute may have changed since: each has its own.
            joint = evaluate_request(replace(together, groupings=[], **none))
            own = replace(request.rules, pool=False)
            known_results = {
                name: _with_attributes(_result_of(name, joint), evaluate_one(name, own))
                for name in data
            }
        notes += [note for note in joint.data_notes if text.Note.of(note).kind == "ranked-apart"]
    else:
        known_results = {name: results[name] or evaluate_one(name) for name in checked}
    ranked = [_run_columns(known_results[x])[0] for x in checked if not results[x]]
    if joint is None and len({"pos" in roles for roles in ranked}) > 1:
        # Both are read as compare reads them.
        ordered = evaluate_request(replace(request, run=data, groupings=[], **none))
        notes += [note for note in ordered.data_notes if text.Note.of(note).kind == "ranked-apart"]
        for name, roles in zip(data, _run_columns(ordered), strict=True):
            if not notes:  # both have scores
                known_results[name] = evaluate_one(name, request.rules.by_score(roles["score"]))
    evaluated = {x: _require_one_system(x, y.weighted_by(weight)) for x, y in known_results.items()}
    tables = [name for name, result in results.items() if result and VALUES in result.columns]
    if drops and "run" in tables and "baseline" not in tables:
        rules = {x: getattr(evaluated["baseline"].meta, x) for x in _RULES}
        evaluated["run"] = evaluated["run"].derive(**rules)
    doubts = [note for result in evaluated.values() for note in result.data_notes]
    run_result = evaluated["run"]
    names = run_result.metrics
    used = filter(None, (cluster, weight, time or None))
    sliced_by = [*dict.fromkeys([*itertools.chain(*groups), *used])]
    alignment.require_attributes(run_result, sliced_by, cluster)
    metrics = list(dict.fromkeys(limit.name(run_result) for limit in [*minima, *drops]))
    alignment.require_metrics(run_result, metrics, "run: ")
    sliced_by += {*filter(None, [run_result.meta.weight])} - {*sliced_by}
    meta = replace(
        run_result.meta,
        metrics=metrics,
        by=sliced_by,
        groupings=groups,
        mean=None,
        time=time,
        pool=request.rules.pool if drops else None,
    )
    if anytime:
        require_one_mean(meta, 1)
    if averaged:
        no_order = "a limit on the mean of slices. Name a slice"
        errors.require(not anytime, f"interval='anytime' does not support {no_order}")
        meta = average_slices(replace(meta, cluster=cluster))
    run_result = run_result.derive(meta=meta, interval=None)
    run_result = set_directions(run_result, higher_is_better, names)
    if any(not limit.bound for limit in drops):
        notes.append(
            "A limit of 0 fails only if a drop is significant. To bound drops that are not, pass "
            "max_drop= with a number above 0"
        )
    if minima:
        alone = alignment.align_systems(run_result, ["run"])
        pairs, described = list_pairs(alone, ["run"], [("run",)], cluster, MeanTest(), 0.05, False)
        notes += described
        level = alpha if minimum_bound else None
        limits = limit_rows(minima, pairs, run_result, level, min_queries, anytime)
        rows += withhold(limits, run_result, doubts)
        if anytime and minimum_bound:
            notes.append(f"Intervals are {describe_widths(pairs, time, alpha)}")
    if drops:
        stated = None if "baseline" in tables else evaluated["baseline"].conventions
        combined = _combine(run_result, evaluated["baseline"], drops, stated)
        if any(results.values()):
            both = {name: evaluated[name] for name in ("baseline", "run")}
            notes += require_same_judgments(both, request.rules.pool)
        rows += _check_ranked(combined)
        systems = ["baseline", "run"]
        pair = alignment.align_systems(combined, systems)
        pairs, described = list_pairs(
            pair, systems, [("baseline", "run")], cluster, SkewedStudent(), alpha
        )
        notes += [*combined.data_notes, *described, *alignment.describe_left_out(pair)]
        if any(each.sample.is_zero for each in pairs):
            found = [alignment.hash_rankings(x).get(None) for x in evaluated.values()]
            prints = {*(alignment.hash_rankings(joint, [*data]).values() if joint else found)}
            for each in pairs:
                each.identical = len(prints) == 1 and None not in prints
        limits = limit_rows(drops, pairs, pair, alpha, min_queries, anytime)
        rows += withhold(limits, combined, doubts)
        if anytime:
            notes.append(f"Intervals are {describe_widths(pairs, time, alpha)}")
        few = [x.sample for x in pairs if x.overall is None and not x.identical]
        enough = [x for x in few if x.units >= max(2, min_queries)]
        notes += [] if anytime else alignment.describe_rare_losses(enough)
    notes += describe_users(results, sliced_by)
    if not results["run"] and (call := find_systems(replace(request, run=data["run"]))):
        one = f"If {call['system']} names systems, pass the rows of one at a time"
        notes.append(f"{one}: now each has queries of its own")
    notes += [x for x in doubts if text.Note.of(x).kind == EQUAL_ROWS]
    notes = list(dict.fromkeys([*notes, *run_result.data_notes]))
    table = pl.DataFrame(rows, schema=verdict.SCHEMA)
    inputs = {**data, "judgments": qrels}
    named = {x: _name_input(y) for x, y in inputs.items() if y is not None}
    return Verdict(table, run_result.derive(data_notes=notes), inconclusive, named)


def _name_input(data: Any) -> str:
    """The path or the name of a table, or what else was passed."""
    named = isinstance(data, str | os.PathLike)
    return os.fspath(data) if named else f"({type(data).__name__} in memory)"


def gate_comparison(comparison: Comparison, max_drop: Limits) -> Verdict:
    """Hold the differences of two systems to limits."""
    from rankql.core.stats.tests import SkewedStudent
    from rankql.decisions.gate_limits import limit_rows, parse_limits, withhold
    from rankql.decisions.pairs import list_pairs

    settings, result, systems = comparison.settings, comparison.result, comparison.systems
    errors.require(len(systems) == 2, "max_drop= needs two systems. Compare one with the baseline")
    a, b = sorted(systems, key=lambda name: name != (settings.baseline or systems[0]))
    groups = [group for group in result.meta.groupings if group != [settings.cluster]]
    result = result.derive(groupings=groups)
    limits = parse_limits("max_drop", max_drop, [result.metrics])
    alignment.require_metrics(result, [limit.name(result) for limit in limits])
    pairs, _ = list_pairs(
        result, systems, [(a, b)], settings.cluster, SkewedStudent(), settings.alpha
    )
    rows = limit_rows(limits, pairs, result, settings.alpha, anytime=settings.interval == "anytime")
    rows = withhold(rows, result, result.data_notes)
    return Verdict(pl.DataFrame([*rows], schema=verdict.SCHEMA), result)


def _check_ranked(combined: Result) -> list[dict[str, Any]]:
    """A row if the run or the baseline ranks less than half of the queries that the other ranks.

    Of the queries that are judged for both. The run then fails, a baseline decides nothing.
    """
    in_both = pl.len().over(combined.meta.query) == 2
    few = alignment.find_few_ranked(combined.derive(values=combined.frame().filter(in_both)))
    if few is None:
        return []
    which, count, total = few
    row: dict[str, Any] = dict.fromkeys(verdict.SCHEMA)
    row |= {"check": verdict.RANKED, "metric": "", "slice": "all", "n": total}
    row["status"] = verdict.FAILED if which == "run" else verdict.INCONCLUSIVE
    queries = text.format_queries(total)
    row["message"] = f"not comparable: the {which} ranks {count:,} of {queries}"
    return [row]


def _run_columns(result: Result) -> list[dict[str, str]]:
    """The columns of each run by role."""
    return [roles for label, roles in result.columns.items() if label.startswith("run")]


def _require_one_system(name: str, result: Result) -> Result:
    """The result without its column `system`. Several systems are refused."""
    if not result.meta.system:
        return result
    rows = result.frame()
    if rows["system"].n_unique() > 1:
        several = f"{name} has several systems, such as {rows['system'].min()!r}"
        raise errors.RankqlError(f"{several}. Pass the rows of one at a time")
    judge = result.judge and _require_one_system(name, result.judge)
    return result.derive(system=False, collections={}, values=rows.drop("system"), judge=judge)


def _have_grades(request: Request) -> bool:
    """Have all runs grades of their own? Asks whose count, where that matters."""
    if request.qrels is not None or request.rules.pool is not None:
        return request.qrels is None
    try:
        with open_evaluation(request) as evaluation:
            inputs = evaluation.inputs
            return inputs.qrels is None and inputs.every("rel")
    except errors.RankqlError as error:  # whoever evaluates one of them says what is wrong
        if isinstance(error, errors.Question) and error.metrics:
            raise
        return False


def _result_of(name: str, joint: Result) -> Result:
    """The result of one of two runs that were evaluated together."""
    own, runs = text.run_label(name), {*map(text.run_label, joint.systems)}
    columns = {("run" if x == own else x): y for x, y in joint.columns.items()}
    kept = {x: y for x, y in columns.items() if x not in runs}
    catalogue = {
        x: [row for row in rows if row["system"] == name]
        for x, rows in joint.meta.catalogue.items()
    }
    rows = joint.frame().filter(system=name)
    seen = {"run": joint.meta.seen[name]} if name in joint.meta.seen else {}
    changes: dict[str, Any] = {"catalogue": catalogue, "columns": kept, "seen": seen}
    return joint.derive(values=rows, steps=None, **changes)


def _with_attributes(result: Result, own: Result) -> Result:
    """The result with the attributes of the queries in another one."""
    key, of_own, by = result.meta.query, own.meta.query, own.meta.by
    attributes = own.frame().select(pl.col(of_own).alias(key), *by)
    rows = result.frame().join(attributes, on=key, how="left", maintain_order="left")
    fields = {x: getattr(own.meta, x) for x in ("by", "groupings", "weight", "cluster", "time")}
    others = [x for x in result.frame().columns if x != key]
    return result.derive(values=rows.select(key, *by, *others), **fields)


def _combine(
    run: Result, baseline: Result, drops: Sequence[GateLimit], conventions: dict[str, Any] | None
) -> Result:
    """Both as one result, without queries that only the run has; notes say what differs.

    A run with judgments has a value for every judged query, so others of the baseline are left out
    too. If an attribute has changed since, that of the run counts.
    """
    baseline = with_names_of(baseline, run)
    names = list(dict.fromkeys(limit.name(run) for limit in drops))
    alignment.require_metrics(baseline, names, "baseline: ")
    old, kinds, key = baseline.frame(), run.frame().schema, run.meta.query
    by = [
        (pl.col(n) if n in old.columns else pl.lit(None)).cast(kinds[n], strict=False).alias(n)
        for n in run.meta.by
    ]
    weights = {n: weight for n, weight in baseline.meta.metric_weights.items() if n in names}
    values = old.select(
        pl.col(baseline.meta.query).alias(key), *by, MISSING, *names, *weights.values()
    )
    # The profile is but a name, and few metrics depend on the scale of grades.
    ignored = ["profile"] + ["max_rel"] * (not any(limit.metric.scaled for limit in drops))
    rules = (conventions or run.conventions) | {name: run.conventions[name] for name in ignored}
    known = ("weight", "catalogue", "judgments", "tables", *(_RULES[1:] if conventions else ()))
    kept = {name: getattr(baseline.meta, name) for name in known}
    meta = replace(run.meta, metrics=names, metric_weights=weights, conventions=rules, **kept)
    baseline = baseline.derive(meta=meta, values=values, data_notes=[])
    combined = combine_systems({"baseline": baseline, "run": run.derive(data_notes=[])})
    alignment.require_same_queries(combined)
    rows = combined.frame()
    alignment.require_overlap(rows, key, ["run", "baseline"])
    of_run, of_baseline = (pl.col("system") == name for name in ("run", "baseline"))
    shared = rows.filter(of_baseline.any().over(key)).with_columns(
        pl.coalesce(pl.col(name).filter(of_run).first().over(key), pl.col(name)).alias(name)
        for name in run.meta.by
    )
    new = rows.height - shared.height, run.frame().height
    end = "of the run not in the baseline and left out of the drops"
    notes = [*combined.data_notes, *text.note_shares([("", *new)], end)]
    if "qrels" in run.columns:
        judged = shared.filter(of_run.any().over(key))
        lacking = shared.height - judged.height, old.height
        end = "of the baseline not judged any more and left out of the drops"
        notes += text.note_shares([("", *lacking)], end)
        shared = judged
    return combined.derive(values=shared, data_notes=notes)
