"""May this ranking ship? Limits on means, and on drops against a baseline."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import polars as pl

from rankql import text as show
from rankql.decisions.comparison import Results, is_result, option_names_of
from rankql.decisions.gate_table import Check, Pairs, bound_rows, drop_rows, mean_rows, recommended
from rankql.decisions.verdict import ON_INCONCLUSIVE, SCHEMA, Verdict
from rankql.engines.evaluate import evaluate
from rankql.errors import RankqlError, did_you_mean, needs, unknown
from rankql.evaluation.arguments import DEFAULT_METRICS, parse_groupings
from rankql.evaluation.combining import combine_systems, require_finite_metrics
from rankql.evaluation.result import Result
from rankql.evaluation.values import Request, read_result, set_directions
from rankql.macros import MISSING
from rankql.registry.options import require_choice, require_flag, require_whole_number
from rankql.registry.parse import Metric, is_metric, parse
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
    tests = None
    if minimum_bound or (baseline is not None and beyond_noise):
        needs("scipy", "stats", "gate")
        from rankql.decisions.noninferiority import Tests
        from rankql.decisions.significance import Setting

        tests = Tests(test, Setting(alpha, resamples, seed), min_queries, cluster)
    groups = parse_groupings(by)
    attributes = [*groups, *([[cluster]] if cluster else [])]
    for name in options:
        if name not in (available := option_names_of(gate)):
            raise RankqlError(unknown("option", name, available))
    keywords = {"conventions": conventions, **options}
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    names = [re.split("[<>=:]", text)[0].strip() for text in (*_texts("minimum", minimum),
             *_texts("max_drop", max_drop or ()))]  # fmt: skip
    request = Request.of(
        {**keywords, "con": con}, names, [*itertools.chain(*attributes)], higher_is_better
    )
    held = {name: _result(value, name, qrels, request) for name, value in data.items()}
    if all(held.values()):
        _nothing_unused({"qrels": qrels, **keywords, "query": None})
    known = [result.metrics for result in held.values() if result]
    minima = list(_minima(minimum, known))
    if baseline is not None and max_drop is None:
        drops = list(_no_drop(minima, known))
    else:
        drops = list(_drops(max_drop or (), known))
    if not minima and not drops:
        raise RankqlError("there is nothing to check: give minimum= or baseline=")
    asked = list(dict.fromkeys(limit.asked for limit in (*minima, *drops)))

    def side(name: str) -> Result:
        result = held[name]
        if result is None:
            named = {name: data[name]} if name == "baseline" else data[name]  # for its errors
            result = evaluate(
                named, qrels, asked, by=attributes, con=con, interval=None, **keywords
            )
        return _alone(name, result)

    ours = side("run")
    theirs = side("baseline") if drops else None
    if theirs:
        frames = [n for n, value in data.items() if held[n] and not is_result(value)]
        ours = _agreeing(ours, theirs, frames, any(limit.metric.scaled for limit in drops))
    evaluated = ours.metrics
    ours = _narrowed(ours, [*minima, *drops], groups, attributes, cluster)
    ours = set_directions(ours, higher_is_better, evaluated)
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    if tests:
        notes += tests.notes(bool(groups), any(not limit.limit for limit in drops))
        _require_means([*(drops if beyond_noise else ()), *(minima if minimum_bound else ())], ours)
    for limit in minima:
        if tests and minimum_bound:
            rows += bound_rows(limit, ours, tests)
        else:
            rows += mean_rows(limit, ours, min_queries)
    paired = None
    if theirs:
        needs("scipy", "stats", "gate")
        from rankql.decisions.pairing import lined_up

        both, left_out = _side_by_side(ours, _like(theirs, ours, drops))
        paired = Pairs(lined_up(both, ["baseline", "run"]), cluster)
        notes += [*left_out, *paired.notes()]
        for limit in drops:
            rows += drop_rows(limit, paired, tests if beyond_noise else None, min_queries)
        if max_drop is None and tests:
            notes += [note for each in drops for note in recommended(each, paired, tests)]
    notes = list(dict.fromkeys([*notes, *ours.notes]))
    table = pl.DataFrame(rows, schema=SCHEMA)
    return Verdict(table, replace(ours, notes=notes), inconclusive, paired)


# What is asked


_MINIMUM = re.compile(r"(?P<metric>.+?)\s*(?P<operator>>=|<=|>|<)(?P<limit>[^<>=]*)", re.DOTALL)


def _minima(given: str | Sequence[str], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    for text in _texts("minimum", given):
        match = _MINIMUM.fullmatch(text)
        limit = _number(match["limit"]) if match else None
        if match is None or limit is None:
            raise RankqlError(
                f"Cannot parse the limit minimum={text!r}. Expected METRIC>=NUMBER, e.g. "
                "'nDCG@10>=0.45' (or <=, >, <)"
            )
        for asked, metric in _metrics(match["metric"], known):
            yield Check(asked, metric, limit, match["operator"])


def _drops(given: str | Sequence[str], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    for text in _texts("max_drop", given):
        name, _, number = text.rpartition(":")
        limit = _number(number)
        if not name or limit is None or limit < 0:
            raise RankqlError(
                f"Cannot parse the limit max_drop={text!r}. Expected METRIC:NUMBER with a number "
                "of at least 0, e.g. 'nDCG@10:0.01'"
            )
        for asked, metric in _metrics(name, known):
            yield Check(asked, metric, abs(limit))


def _no_drop(minima: Sequence[Check], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    """With a baseline alone nothing may drop: of the minima, the results or the default."""
    names = [check.asked for check in minima]
    if not names and known:
        names = [name for name in known[0] if name in known[-1]]
    for name in dict.fromkeys(names or DEFAULT_METRICS):
        for asked, metric in _metrics(name, known):
            yield Check(asked, metric, 0.0)


def _metrics(text: str, known: Sequence[Sequence[str]]) -> Iterator[tuple[str, Metric]]:
    """The metrics of a name, each as `evaluate` is asked for it."""
    try:
        for metric in parse(text):
            yield (metric.name if metric.measure else text), metric
    except RankqlError:
        if not any(text in metrics for metrics in known):
            if any(not is_metric(name) for metrics in known for name in metrics):
                names = dict.fromkeys(itertools.chain(*known))
                raise RankqlError(unknown("metric", text, [*names])) from None
            raise
        yield text, Metric(None, label=text)  # the user's own, evaluated already


def _texts(name: str, given: str | Sequence[str]) -> Iterable[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise RankqlError(f"{name} must be a text or a list of texts, not {given!r}")
    return dict.fromkeys(text.strip() for text in texts)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# What it is asked of


def _result(data: Any, label: str, qrels: Any, request: Request) -> Result | None:
    """The result that was given, if it is one and not a run."""
    if qrels is not None and label == "run" and not is_result(data):
        return None
    result = read_result(data, label, replace(request, judged=qrels is not None))
    if result is None:
        return None
    require_finite_metrics(result.frame(), result.metrics, result.meta["query"], repr(label))
    return result


def _nothing_unused(keywords: Mapping[str, Any]) -> None:
    if name := next((name for name, value in keywords.items() if value is not None), None):
        raise RankqlError(f"{name} goes with a run; what was given is evaluated already")


def _alone(name: str, result: Result) -> Result:
    """The result, if it is one of one system."""
    if not result.meta["system"]:
        return result
    rows = result.frame()
    if rows["system"].n_unique() > 1:
        raise RankqlError(f"{name} holds several systems: gate them one by one")
    return replace(result, meta=result.meta | {"system": False}, rows=rows.drop("system"))


def _agreeing(run: Result, baseline: Result, frames: Sequence[str], scaled: bool) -> Result:
    """The run, under the conventions of the baseline. Frames, which say none, have the other's."""
    ours, theirs = run.conventions, baseline.conventions
    if "baseline" in frames:
        return run
    if "run" in frames:
        return replace(run, meta=run.meta | {"conventions": theirs})
    of_no_effect = {"profile"} if scaled else {"profile", "max_rel"}
    names = [n for n in ours if n not in of_no_effect and ours[n] != theirs.get(n)]
    if names:
        here, there = (", ".join(f"{n}={each.get(n)}" for n in names) for each in (ours, theirs))
        raise RankqlError(
            f"baseline was evaluated with {there}, the run with {here}; evaluate one again"
        )
    return run


def _narrowed(
    run: Result,
    checks: Sequence[Check],
    groups: Sequence[Sequence[str]],
    attributes: Sequence[Sequence[str]],
    cluster: str | None,
) -> Result:
    """The run with the metrics that are checked and the slices that are asked for."""
    by, known = list(dict.fromkeys(itertools.chain(*attributes))), run.meta["by"]
    for name in by:
        if name not in known:
            hint = did_you_mean(name, known) if known else "; evaluate it with by="
            option = "cluster" if name == cluster else "by"
            raise RankqlError(f"{option}: the run has no attribute {name!r}{hint}")
    meta = {"metrics": _names("run", run, run, checks), "by": by, "groupings": list(groups)}
    return replace(run, meta=run.meta | meta, interval=None, _summary=None)


def _like(baseline: Result, run: Result, checks: Sequence[Check]) -> Result:
    """The baseline as the run has it: the column of the query, the attributes, the metrics."""
    rows, kinds = baseline.frame(), run.frame().schema
    names = _names("baseline", baseline, run, checks)
    weights = {n: weight for n, weight in baseline.meta["weights"].items() if n in names}
    key = pl.col(baseline.meta["query"]).alias(run.meta["query"])
    by = [
        (pl.col(n) if n in rows.columns else pl.lit(None)).cast(kinds[n], strict=False).alias(n)
        for n in run.meta["by"]
    ]
    rows = rows.select(key, *by, MISSING, *names, *weights.values())
    return replace(baseline, meta=run.meta | {"metrics": names, "weights": weights}, rows=rows)


def _names(side: str, result: Result, run: Result, checks: Sequence[Check]) -> list[str]:
    """What the metrics are called, if the result has them."""
    names = list(dict.fromkeys(check.name(run) for check in checks))
    for name in names:
        if name not in result.metrics:
            hint = did_you_mean(name, result.metrics)
            raise RankqlError(f"{side}: {name!r} was not evaluated{hint}")
    return names


def _side_by_side(run: Result, baseline: Result) -> tuple[Result, list[str]]:
    """Both as one result, without the queries that are new, and a note of how many these are."""
    both = combine_systems({"baseline": baseline, "run": run})
    key, rows = run.meta["query"], both.frame()
    ours, theirs = (pl.col("system") == name for name in ("run", "baseline"))
    old = rows.filter(theirs.any().over(key)).with_columns(
        # An attribute may have changed since: that of today counts.
        pl.coalesce(pl.col(name).filter(ours).first().over(key), pl.col(name)).alias(name)
        for name in run.meta["by"]
    )
    new, total = rows.height - old.height, run.frame().height
    if new == total:
        examples = (repr(each.frame()[each.meta["query"]].min()) for each in (run, baseline))
        raise RankqlError(
            "baseline has no query of the run: the run has {}, the baseline {}".format(*examples)
        )
    note = (
        f"{new:,} of {show.queries(total)} of the run {show.are(new)} not in the baseline: left "
        "out of the drops"
    )
    return replace(both, rows=old), [note] if new else []


def _require_means(checks: Sequence[Check], run: Result) -> None:
    """Refuse to test a metric that is not a mean over queries."""
    names = [check.name(run) for check in checks]
    if micro := [name for name in names if name in run.meta["weights"]]:
        raise RankqlError(
            f"{micro[0]} is one value for all queries, so it has no confidence interval. Compare "
            "the values alone (beyond_noise=False, CLI: --any-drop), or leave it out"
        )
