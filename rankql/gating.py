"""May this ranking ship? Limits on means, and on drops against a baseline."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any

import duckdb
import polars as pl
from polars import selectors

from rankql import show
from rankql.arguments import whole
from rankql.comparison import Comparison, Results, compare, is_result
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation import DEFAULT, evaluate
from rankql.names import Metric, lower_is_better, parse
from rankql.result import Result, combine, groupings, together
from rankql.tables import Data
from rankql.verdict import FAILED, PASSED, SCHEMA, TOO_FEW, WITHIN_NOISE, Verdict

# A limit that is missed by no more is missed by rounding.
ROUNDING = 1e-12


def gate(
    run: Data | Results,
    qrels: Data | None = None,
    baseline: Data | Results | None = None,
    *,
    minimum: str | Sequence[str] = (),
    max_drop: str | Sequence[str] | None = None,
    alpha: float = 0.05,
    by: str | Sequence[str | Sequence[str]] = (),
    min_queries: int = 10,
    beyond_noise: bool = True,
    test: str = "t",
    correction: str = "holm",
    family: str = "all",
    cluster: str | None = None,
    resamples: int = 9_999,
    seed: int = 7,
    horizon: int = 100,
    con: duckdb.DuckDBPyConnection | None = None,
    conventions: str | None = None,
    **options: Any,
) -> Verdict:
    """Hold a run to limits: on its means, and on what they may drop against a baseline.

    `run` and `baseline` are runs, evaluated on `qrels` as `evaluate` does, which explains `by`,
    `con`, `conventions` and the further options; or what it gave: a result, the file that `output=`
    wrote, a `per_query` frame. `minimum` is a limit such as `nDCG@10>=0.45` or `RMSE<0.9`, or a
    list of them. `max_drop`, such as `nDCG@10:0.01`, is how much worse than the baseline a mean may
    be: a loss for nDCG, a rise for RMSE. With a baseline and without max_drop nothing may drop at
    all: the metrics of `minimum`, else those of the results, else those of `evaluate`.

    A drop beyond its limit fails only when it is beyond noise too: when `rankql.compare`, which
    explains `test` to `horizon`, finds the run worse at `alpha`. beyond_noise=False fails every
    one. A drop that is the same in every query has no noise, and fails. Slices with fewer than
    `min_queries` queries are reported and do not fail; the whole always counts. A query that only
    the run has is left out of the drops; one that it lost counts as the conventions say.

    >>> old = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.7, 0.5, 0.6]})
    >>> new = pl.DataFrame({"query": ["a", "b", "c"], "AP": [0.4, 0.3, 0.3]})
    >>> verdict = gate(new, baseline=old, minimum="AP>=0.3", max_drop="AP:0.1")
    >>> print(verdict.passed, *verdict.table["message"], sep="\\n")
    False
    0.333333 on 3 queries
    dropped by 0.267 (0.123 to 0.41), more than 0.1 and beyond noise: p = 0.015
    """
    if not isinstance(alpha, float) or not 1e-12 <= alpha < 1:
        raise RankqlError(f"alpha must lie between 0 and 1, not {alpha!r}")
    whole("min_queries", min_queries, 1)
    if baseline is None and max_drop is not None:
        raise RankqlError("max_drop needs a baseline to drop from: baseline=")
    groups = groupings(by)
    attributes = [*groups, *([[cluster]] if cluster else [])]
    keywords = {"conventions": conventions, **options}
    data = {"run": run} | ({} if baseline is None else {"baseline": baseline})
    held = {name: _result(value, qrels if name == "run" else None) for name, value in data.items()}
    if all(held.values()):
        _nothing_unused({"qrels": qrels, **keywords})
    known = [result.metrics for result in held.values() if result]
    minima = list(_minima(minimum, known))
    if baseline is not None and max_drop is None:
        drops = list(_no_drop(minima, known))
    else:
        drops = list(_drops(max_drop or (), known))
    if not minima and not drops:
        raise RankqlError("there is nothing to check: give minimum= or baseline=")
    asked = list(dict.fromkeys(check.asked for check in (*minima, *drops)))

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
        frames = [n for n, value in data.items() if held[n] and isinstance(value, pl.DataFrame)]
        ours = _agreeing(ours, theirs, frames, any(check.metric.scaled for check in drops))
    ours = _narrowed(ours, [*minima, *drops], groups, attributes)
    rows = [row for check in minima for row in _means(check, ours, min_queries)]
    if not theirs:
        return Verdict(pl.DataFrame(rows, schema=SCHEMA), ours)
    _testable(drops, ours, beyond_noise)
    both, left_out = _side_by_side(ours, _like(theirs, ours, drops))
    comparison = compare(
        both, baseline="baseline", by=groups, cluster=cluster, test=test, correction=correction,
        family=family, confidence=1.0 - alpha, resamples=resamples, seed=seed, horizon=horizon,
        min_queries=min_queries,
    )  # fmt: skip
    rows += [r for c in drops for r in _changes(c, comparison, min_queries, beyond_noise)]
    notes = list(dict.fromkeys([*left_out, *comparison.notes, *ours.notes]))
    return Verdict(pl.DataFrame(rows, schema=SCHEMA), replace(ours, notes=notes), comparison)


# What is asked


@dataclass(frozen=True)
class Check:
    """A limit on the mean of a metric (with an operator), or on how much worse it is (without)."""

    asked: str
    metric: Metric
    limit: float
    operator: str = ""

    def name(self, result: Result) -> str:
        """What the metric is called in a result."""
        return self.metric.under(result.conventions).name

    def row(self, result: Result, **values: Any) -> dict[str, Any]:
        """A row of the table."""
        name = self.name(result)
        loss = "rise" if lower_is_better(name) else "drop"
        check = f"{name} {self.operator or f'{loss} <='} {self.limit:g}"
        own = {"check": check, "metric": name, "limit": self.limit}
        return dict.fromkeys(SCHEMA) | own | values


_HOLDS: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}
_MINIMUM = re.compile(r"(?P<metric>.+?)\s*(?P<operator>>=|<=|>|<)(?P<limit>[^<>=]*)", re.DOTALL)


def _minima(given: str | Sequence[str], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    for text in _texts("minimum", given):
        match = _MINIMUM.fullmatch(text)
        limit = _number(match["limit"]) if match else None
        if match is None or limit is None:
            raise RankqlError(
                f"minimum: {text!r} is no limit; write metric>=number, such as 'nDCG@10>=0.45'"
            )
        for asked, metric in _metrics(match["metric"], known):
            yield Check(asked, metric, limit, match["operator"])


def _drops(given: str | Sequence[str], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    for text in _texts("max_drop", given):
        name, _, number = text.rpartition(":")
        limit = _number(number)
        if not name or limit is None or limit < 0:
            raise RankqlError(
                f"max_drop: {text!r} is no limit; write metric:number, from 0, such as "
                "'nDCG@10:0.01'"
            )
        for asked, metric in _metrics(name, known):
            yield Check(asked, metric, abs(limit))


def _no_drop(minima: Sequence[Check], known: Sequence[Sequence[str]]) -> Iterator[Check]:
    """With a baseline alone nothing may drop: of the minima, the results or the default."""
    names = [check.asked for check in minima]
    if not names and known:
        names = [name for name in known[0] if name in known[-1]]
    for name in dict.fromkeys(names or DEFAULT):
        for asked, metric in _metrics(name, known):
            yield Check(asked, metric, 0.0)


def _metrics(text: str, known: Sequence[Sequence[str]]) -> Iterator[tuple[str, Metric]]:
    """The metrics of a name, each as `evaluate` is asked for it."""
    try:
        for metric in parse(text):
            yield (metric.name if metric.measure else text), metric
    except RankqlError:
        if not any(text in metrics for metrics in known):
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


def _result(data: Any, qrels: Any) -> Result | None:
    """The result that was given, if it is one and not a run."""
    if not is_result(data, qrels):
        return None
    result = combine([data], interval=None)
    values = selectors.by_name(result.metrics) & selectors.float()  # NaN is no value
    return replace(result, rows=result.frame().with_columns(values.fill_nan(None)))


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
) -> Result:
    """The run with the metrics that are checked and the slices that are asked for."""
    by, known = list(dict.fromkeys(itertools.chain(*attributes))), run.meta["by"]
    for name in by:
        if name not in known:
            hint = did_you_mean(name, known) if known else "; evaluate it with by="
            raise RankqlError(f"by: the run has no attribute {name!r}{hint}")
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
    rows = rows.select(key, *by, "missing", *names, *weights.values())
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
    both = together({"baseline": baseline, "run": run})
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
    said = f"{new} of {total} queries of the run are not in the baseline: left out of the drops"
    return replace(both, rows=old), [said] if new else []


# What comes of it


def _means(check: Check, run: Result, min_queries: int) -> Iterator[dict[str, Any]]:
    """The rows of a minimum."""
    counts = _counts(run)
    name = check.name(run)
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        mean, n, whole = row["mean"], counts.get((row["slice"], name), 0), row["slice"] == "all"
        if mean is None:
            status = FAILED if whole or row["queries"] >= min_queries else TOO_FEW
            message = f"undefined: none of {show.queries(row['queries'])} has a value"
        else:
            of = "" if n == row["queries"] else f"{n:,} of "
            status, message = PASSED, f"{mean:.6g} on {of}{show.queries(row['queries'])}"
            toward = -ROUNDING if check.operator in ("<=", ">") else ROUNDING
            if n < min_queries and not whole:
                status = TOO_FEW
            elif not _HOLDS[check.operator](mean + toward, check.limit):
                status = FAILED
                message += f", not {check.operator} {check.limit:g}"
        if status == TOO_FEW:
            message += f", fewer than {min_queries}: not checked"
        found = {"slice": row["slice"], "mean": mean, "n": n, "status": status}
        yield check.row(run, **found, message=message)


def _counts(run: Result) -> dict[tuple[str, str], int]:
    """How many queries each mean is of, by slice and metric."""
    rules, rows = run.conventions, run.frame()
    if rules["missing"] == "skip":
        rows = rows.filter(~pl.col("missing"))
    zero = set(run.metrics) - set(run.meta["weights"]) if rules["undefined"] == "zero" else set()
    counted = replace(run, rows=rows, _summary=None).summary
    columns = ("slice", "metric", "queries", "undefined")
    return {
        (part, name): queries - (0 if name in zero else undefined)
        for part, name, queries, undefined in counted.select(columns).iter_rows()
    }


def _testable(checks: Sequence[Check], run: Result, beyond_noise: bool) -> None:
    """Refuse to look for noise where there is no mean of queries."""
    names = [check.name(run) for check in checks]
    if beyond_noise and (micro := [name for name in names if name in run.meta["weights"]]):
        raise RankqlError(
            f"max_drop: {micro[0]} is a mean over all queries at once, which no test can tell from "
            "noise; fail every drop (beyond_noise=False, --any-drop) or leave it out"
        )


def _changes(
    check: Check, comparison: Comparison, min_queries: int, beyond_noise: bool
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on drops."""
    name, summary = check.name(comparison.result), comparison.summary
    summary = summary.filter(pl.col("metric") == name)
    columns = ("slice", "system", "mean", "queries")
    known = {(part, system): values for part, system, *values in summary.select(columns).rows()}
    for row in comparison.table.filter(pl.col("metric") == name).iter_rows(named=True):
        part, n, whole = row["slice"], row["n"], row["slice"] == "all"
        (was, queries), (mean, _) = known[part, "baseline"], known[part, "run"]
        if name in comparison.result.meta["weights"] and mean is not None and was is not None:
            row |= {"mean_a": was, "mean_b": mean, "difference": mean - was}
        if row["difference"] is None:
            status = FAILED if whole or queries >= min_queries else TOO_FEW
            message = f"undefined: none of {show.queries(queries)} has a value in both"
        else:
            status, message = _judged(row, check.limit, beyond_noise)
            if n < min_queries and not whole:
                status, message = TOO_FEW, f"{_change(row)} on {show.queries(n)}"
        if status == TOO_FEW and not whole:
            message += f", fewer than {min_queries}: not checked"
        found = {column: row[column] for column in _KEPT}
        means = {"mean": row["mean_b"], "baseline": row["mean_a"]}
        yield check.row(comparison.result, **found, **means, status=status, message=message)


_KEPT = ("slice", "difference", "lo", "hi", "p_adjusted", "n")


def _judged(row: Mapping[str, Any], limit: float, beyond_noise: bool) -> tuple[str, str]:
    """The status of a difference, and why."""
    change, p = _change(row), row["p_adjusted"]
    if _loss(row) <= ROUNDING:
        return PASSED, change
    if _loss(row) <= limit + ROUNDING:
        return PASSED, f"{change}, no more than {limit:g}"
    more = f"{change}, more than {limit:g}"
    chance = "" if p is None else show.chance(p)
    if p != row["p"]:
        chance = f"adjusted {chance}"  # the interval may leave zero out all the same
    if not beyond_noise:
        return FAILED, f"{more} ({chance})" if chance else more
    if row["verdict"] == "worse":
        return FAILED, f"{more} and beyond noise: {chance}"
    if row["effect"] is None and row["n"] > 1:
        return FAILED, f"{more} and beyond noise: the same in every query"
    if p is None:
        return TOO_FEW, f"{change} on {show.queries(row['n'])}: {row['verdict']}, not failed"
    return WITHIN_NOISE, f"{change}, within noise ({chance}): not failed"


def _loss(row: Mapping[str, Any]) -> float:
    """How much worse the run is."""
    difference: float = row["difference"]
    return difference if lower_is_better(row["metric"]) else -difference


def _change(row: Mapping[str, Any]) -> str:
    """The difference in words, with its interval."""
    loss = _loss(row)
    if abs(loss) <= ROUNDING:
        return "no difference"
    worse = "rose" if lower_is_better(row["metric"]) else "dropped"
    sign = math.copysign(1, row["difference"])
    size = f"{worse if loss > 0 else 'better'} by {abs(loss):.3g}"
    if row["lo"] is None or row["hi"] is None:
        return size
    low, high = sorted((sign * row["lo"], sign * row["hi"]))
    return f"{size} ({low:.3g} to {high:.3g})"
