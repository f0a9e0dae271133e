"""The rows of a gate's table: one per limit and slice, with a status and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text as show
from rankql.decisions.verdict import FAILED, INCONCLUSIVE, PASSED, SCHEMA, TOO_FEW
from rankql.evaluation.result import Result
from rankql.evaluation.summary import slice_queries as sliced
from rankql.macros import MISSING, OURS
from rankql.registry.parse import Metric

if TYPE_CHECKING:
    from rankql.decisions.noninferiority import Judgement, Tests
    from rankql.decisions.significance import Sample

# A limit that is missed by no more is missed by rounding.
ROUNDING = 1e-12
# Columns of our own, whatever the user's are called.
VALUE, CLUSTER = f"{OURS}value", f"{OURS}cluster"
BASELINE, RUN = f"{OURS}baseline", f"{OURS}run"
HOLDS: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}


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
        loss = "rise" if result.lower_is_better(name) else "drop"
        check = f"{name} {self.operator or f'{loss} <='} {_size_of(self.limit)}"
        own = {"check": check, "metric": name, "limit": self.limit}
        return dict.fromkeys(SCHEMA) | own | values


# Limits on means


def mean_rows(check: Check, run: Result, min_queries: int) -> Iterator[dict[str, Any]]:
    """The rows of a limit that the mean itself is held to."""
    counts = _counts(run)
    name = check.name(run)
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        mean, n, overall = row["mean"], counts.get((row["slice"], name), 0), row["slice"] == "all"
        if mean is None:
            yield _undefined(check, run, row, min_queries)
            continue
        status, message = PASSED, _mean(mean, n, row["queries"])
        toward = -ROUNDING if check.operator in ("<=", ">") else ROUNDING
        if n < min_queries and not overall:
            status, message = TOO_FEW, f"{message}, fewer than {min_queries}: not checked"
        elif not HOLDS[check.operator](mean + toward, check.limit):
            status, message = FAILED, f"{message}, not {check.operator} {_size_of(check.limit)}"
        found = {"slice": row["slice"], "mean": mean, "n": n, "status": status}
        yield check.row(run, **found, message=message)


def bound_rows(check: Check, run: Result, tests: Tests) -> Iterator[dict[str, Any]]:
    """The rows of a limit that the confidence interval of the mean is held to."""
    from rankql.decisions.noninferiority import Margin
    from rankql.decisions.significance import Sample

    name = check.name(run)
    sign = -1 if check.operator in (">=", ">") else 1
    values = _values(run, name, tests.cluster)
    losses = {
        part: Sample(sign * (frame[VALUE].to_numpy() - check.limit), _codes(frame))
        for part, frame in values.items()
        if len(frame)
    }
    strict = check.operator in (">", "<")
    judged = tests.judge(losses, Margin(0.0, strict=strict))
    for row in run.summary.filter(pl.col("metric") == name).iter_rows(named=True):
        part = row["slice"]
        if part not in judged:
            yield _undefined(check, run, row, tests.min_queries)
            continue
        judgement, n = judged[part], len(values[part])
        bounds = _sorted(check.limit, sign, judgement)
        message = _mean(row["mean"], n, row["queries"], _interval(*bounds, judgement, check.limit))
        if judgement.decision == FAILED:
            message += f", not {check.operator} {_size_of(check.limit)}"
        elif judgement.decision == TOO_FEW:
            message += f", fewer than {tests.min_queries}: not checked"
        elif judgement.decision == INCONCLUSIVE:
            unclear = f"the mean may be on either side of {_size_of(check.limit)}"
            message += f". {_undecided(judgement, n, unclear)}"
        yield check.row(
            run, slice=part, mean=row["mean"], n=n, lo=bounds[0], hi=bounds[1],
            status=judgement.decision, message=message, **_level(judgement),
        )  # fmt: skip


def _sorted(limit: float, sign: int, judgement: Judgement) -> tuple[float | None, float | None]:
    """The interval of the mean, from that of how far it is beyond the limit."""
    if judgement.lo is None or judgement.hi is None:
        return None, None
    one, other = limit + sign * judgement.lo, limit + sign * judgement.hi
    return min(one, other), max(one, other)


def _mean(mean: float, n: int, queries: int, interval: str = "") -> str:
    of = "" if n == queries else f"{n:,} of "
    return f"{show.rounded(mean, 6)}{interval} on {of}{show.queries(queries)}"


def _undefined(
    check: Check, run: Result, row: Mapping[str, Any], min_queries: int, both: str = ""
) -> dict[str, Any]:
    """The row of a mean that no query has a value for."""
    message = f"undefined: none of {show.queries(row['queries'])} has a value{both}"
    status = FAILED
    if row["slice"] != "all" and row["queries"] < min_queries:
        status, message = TOO_FEW, f"{message}, fewer than {min_queries}: not checked"
    return check.row(run, slice=row["slice"], n=0, status=status, message=message)


def _counts(run: Result) -> dict[tuple[str, str], int]:
    """How many queries each mean is of, by slice and metric."""
    rules, rows = run.conventions, run.frame()
    if rules["missing"] == "skip":
        rows = rows.filter(~pl.col(MISSING))
    zero = set(run.metrics) - set(run.meta["weights"]) if rules["undefined"] == "zero" else set()
    counted = replace(run, rows=rows, _summary=None).summary
    columns = ("slice", "metric", "queries", "undefined")
    return {
        (part, name): queries - (0 if name in zero else undefined)
        for part, name, queries, undefined in counted.select(columns).iter_rows()
    }


def _values(run: Result, name: str, cluster: str | None) -> dict[str, pl.DataFrame]:
    """The values of a metric that count, by slice, with their cluster."""
    from rankql.decisions.pairing import compared_value

    key, by = run.meta["query"], run.meta["by"]
    codes = [] if cluster is None else [pl.col(cluster).rank("dense").alias(CLUSTER)]
    rows = run.frame().select(key, *by, compared_value(name, run.conventions).alias(VALUE), *codes)
    found = {}
    for part, queries in sliced(rows.select(key, *by), run.meta["groupings"]).items():
        found[part] = rows.filter(pl.col(key).is_in(queries.implode())).drop_nulls(VALUE)
    return found


def _codes(frame: pl.DataFrame) -> Any:
    """The clusters of the rows as numbers from 0."""
    if CLUSTER not in frame.columns:
        return None
    return frame[CLUSTER].rank("dense").cast(pl.Int64).to_numpy() - 1


# Limits on drops


@dataclass(frozen=True)
class Pairs:
    """The run and its baseline, lined up by query."""

    result: Result
    cluster: str | None

    def differences(self, metric: str) -> pl.DataFrame:
        """The values of every query in both, and run - baseline, the largest loss first."""
        key = self.result.meta["query"]
        gain = pl.col("run") - pl.col("baseline")
        lower = self.result.lower_is_better(metric)
        return (
            self._values(metric)
            .select(key, pl.col(BASELINE).alias("baseline"), pl.col(RUN).alias("run"))
            .with_columns(gain.alias("difference"))
            .sort(-gain if lower else gain, key)
        )

    def _values(self, metric: str) -> pl.DataFrame:
        """The values of every query that has one in both, with its attributes."""
        from rankql.decisions.pairing import compared_value

        key, by = self.result.meta["query"], self.result.meta["by"]
        value = compared_value(metric, self.result.conventions)
        baseline, run = (
            self.result.frame().filter(pl.col("system") == side).select(key, *by, value.alias(name))
            for side, name in (("baseline", BASELINE), ("run", RUN))
        )
        return baseline.join(run.drop(by), on=key).drop_nulls([BASELINE, RUN]).sort(key)

    def slices(self, metric: str) -> dict[str, pl.DataFrame]:
        """The differences of every slice, in the order of the queries."""
        key, by = self.result.meta["query"], self.result.meta["by"]
        rows = self._values(metric)
        queries = self.result.frame().filter(pl.col("system") == "run").select(key, *by)
        return {
            part: rows.filter(pl.col(key).is_in(some.implode()))
            for part, some in sliced(queries, self.result.meta["groupings"]).items()
        }

    def losses(self, metric: str) -> dict[str, Sample]:
        """How much worse the run is on every query, by slice; empty slices are left out."""
        from rankql.decisions.significance import Sample

        sign = 1 if self.result.lower_is_better(metric) else -1
        found = {}
        for part, frame in self.slices(metric).items():
            if self.cluster is not None:
                frame = frame.with_columns(pl.col(self.cluster).rank("dense").alias(CLUSTER))
            if len(frame):
                found[part] = Sample(
                    sign * (frame[RUN] - frame[BASELINE]).to_numpy(), _codes(frame)
                )
        return found

    def notes(self) -> list[str]:
        """Which queries were left out, or counted as 0."""
        from rankql.decisions.pairing import missing_rule

        rules, rows = self.result.conventions, self.result.frame()
        total = rows[self.result.meta["query"]].n_unique()
        found = []
        if self.cluster is not None:
            count = rows[self.cluster].n_unique()
            found.append(f"queries are clustered by {self.cluster}: {show.count(count, 'cluster')}")
        for side in ("baseline", "run"):
            count = rows.filter(pl.col(MISSING), pl.col("system") == side).height
            if count:
                lower = list(filter(self.result.lower_is_better, self.result.metrics))
                rule = missing_rule(rules, self.result.metrics, lower)
                where = f"{count:,} of {show.queries(total)} {show.are(count)}"
                found.append(f"{where} missing in {side}: {rule}")
        kept = rows if rules["missing"] != "skip" else rows.filter(~pl.col(MISSING))
        for name in self.result.metrics:
            count = kept.filter(pl.col(name).is_null())[self.result.meta["query"]].n_unique()
            if count:
                rule = "counted as 0" if rules["undefined"] == "zero" else "left out"
                where = f"{count:,} of {show.queries(total)} {show.are(count)}"
                found.append(f"{name}: {where} undefined in run or baseline and {rule}")
        return found


def drop_rows(
    check: Check, pairs: Pairs, tests: Tests | None, min_queries: int
) -> Iterator[dict[str, Any]]:
    """The rows of a limit on drops: by interval, or without `tests` by the means alone."""
    name, summary = check.name(pairs.result), pairs.result.summary
    summary = summary.filter(pl.col("metric") == name)
    slices, losses = pairs.slices(name), pairs.losses(name)
    lower = pairs.result.lower_is_better(name)
    same = [part for part, sample in losses.items() if _identical(sample)]
    judged: Mapping[str, Judgement] = {}
    if tests:
        some = {part: sample for part, sample in losses.items() if part not in same}
        judged = tests.judge(some, _margin(check))
    for row in summary.filter(pl.col("system") == "run").iter_rows(named=True):
        part, frame = row["slice"], slices[row["slice"]]
        if name in pairs.result.meta["weights"]:
            both = summary.filter(pl.col("slice") == part).sort("system")
            baseline, mean = both["mean"].to_list()
        else:
            baseline, mean = frame.select(pl.col(BASELINE, RUN).mean()).row(0)
        if baseline is None or mean is None:
            yield _undefined(check, pairs.result, row, min_queries, " in both")
            continue
        loss = (mean - baseline) * (1 if lower else -1)
        small = part != "all" and len(frame) < min_queries
        judgement = judged.get(part) or _by_means(loss, check.limit, small)
        change = Change(
            check.limit, lower, baseline, mean, len(frame), judgement, part in same, min_queries
        )
        yield check.row(pairs.result, slice=part, **change.columns())


def _margin(check: Check) -> Any:
    from rankql.decisions.noninferiority import Margin

    return Margin(check.limit, required=check.limit > 0)


def _identical(sample: Sample) -> bool:
    return bool(abs(sample.differences).max() <= sample.rounding)


def _by_means(loss: float, limit: float, small: bool) -> Judgement:
    """The decision by the means alone."""
    from rankql.decisions.noninferiority import Judgement

    if small:
        return Judgement(TOO_FEW)
    return Judgement(PASSED if loss <= limit + ROUNDING else FAILED)


@dataclass(frozen=True)
class Change:
    """How a mean changed from the baseline to the run, and what was decided about it."""

    limit: float
    lower: bool  # is better
    baseline: float
    mean: float
    n: int
    judgement: Judgement
    identical: bool
    min_queries: int

    @property
    def loss(self) -> float:
        """How much worse the run is."""
        return (self.mean - self.baseline) * (1 if self.lower else -1)

    def columns(self) -> dict[str, Any]:
        """The columns of the row."""
        sign = 1 if self.lower else -1
        bounds = _sorted(0.0, sign, self.judgement)
        return {
            "mean": self.mean, "baseline": self.baseline, "difference": self.mean - self.baseline,
            "lo": bounds[0], "hi": bounds[1], "n": self.n, "status": self.judgement.decision,
            "message": self.message(), **_level(self.judgement),
        }  # fmt: skip

    def message(self) -> str:
        """What was found, in a sentence."""
        limit, decision, change = self.limit, self.judgement.decision, self._size()
        word = "rise" if self.lower else "drop"
        if decision == TOO_FEW:
            beyond = (
                "" if self.loss <= limit + ROUNDING else f" (beyond the limit of {_size_of(limit)})"
            )
            on = f"{change}{beyond} on {show.queries(self.n)}"
            return f"{on}, fewer than {self.min_queries}: not checked"
        if decision == INCONCLUSIVE:
            side = "within" if self.loss > limit + ROUNDING else "beyond"
            unclear = f"a {word} {side} the limit of {_size_of(limit)} cannot be ruled out"
            return f"{change}. {_undecided(self.judgement, self.n, unclear)}"
        if self.judgement.confidence is not None and not limit:
            if decision == FAILED:
                return f"{change}: a significant {word}"
            return f"{change}: not significant" if self.loss > ROUNDING else change
        if decision == FAILED:
            return f"{change}, beyond the limit of {_size_of(limit)}"
        return (
            f"{change}, within the limit of {_size_of(limit)}" if self.loss > ROUNDING else change
        )

    def _size(self) -> str:
        """The change in words, with its interval."""
        if self.identical:
            return "no difference"
        if abs(self.loss) <= ROUNDING:
            words, sign = "no change on average", 1
        else:
            verb = ("rose" if self.lower else "dropped") if self.loss > 0 else "improved"
            words, sign = f"{verb} by {{}}", 1 if self.loss > 0 else -1
        bounds = _sorted(0.0, sign, self.judgement)
        if bounds[0] is None:
            everywhere = " in every query" if self.judgement.constant else ""
            return words.format(show.rounded(abs(self.loss))) + everywhere
        digits = _digits(*bounds, sign * self.limit)
        size = show.decimal(
            abs(self.loss), max(digits, -math.floor(math.log10(abs(self.loss) or 1)))
        )
        return words.format(size) + _interval(*bounds, self.judgement, sign * self.limit)


def recommended(check: Check, pairs: Pairs, tests: Tests) -> list[str]:
    """The smallest limit that so many queries can be held to."""
    from rankql.decisions.noninferiority import mean_interval, testable_margin

    name = check.name(pairs.result)
    sample = pairs.losses(name).get("all")
    if sample is None or sample.units < 2 or sample.constant:
        return []
    interval = mean_interval(sample, tests.test, tests.setting)
    margin = interval and testable_margin(sample, interval, tests.setting.alpha)
    if not margin:
        return []
    option = f"{name}:{margin:g}"
    return [
        f"{name} has no limit, so that only a significant drop fails. These "
        f"{show.queries(len(sample.differences))} can test a limit of about {margin:g}: "
        f"max_drop='{option}' (CLI: --max-drop '{option}')"
    ]


# Words


def _undecided(judgement: Judgement, n: int, unclear: str) -> str:
    """Why a limit is inconclusive, and how many queries would decide it."""
    if judgement.lo is None:
        return f"Inconclusive: {show.queries(n)} gave no confidence interval"
    needed = judgement.queries_needed
    many = f"About {needed:,} queries" if needed else "More than a billion queries"
    return f"Inconclusive: {unclear}. {many} would decide"


def _level(judgement: Judgement) -> dict[str, Any]:
    return {"confidence": judgement.confidence if judgement.lo is not None else None,
            "queries_needed": judgement.queries_needed}  # fmt: skip


def _interval(lo: float | None, hi: float | None, judgement: Judgement, limit: float) -> str:
    """The interval in words, or nothing."""
    if lo is None or hi is None or judgement.confidence is None:
        return ""
    from rankql.decisions.noninferiority import percentage

    digits = _digits(lo, hi, limit)
    level = percentage(judgement.confidence)
    return f" ({level} CI {show.decimal(lo, digits)} to {show.decimal(hi, digits)})"


def _digits(lo: float | None, hi: float | None, limit: float) -> int:
    return 3 if lo is None or hi is None else show.digits_apart(lo, hi, limit)


def _size_of(value: float) -> str:
    """A limit or a mean as text: 0.02, 1,000,000."""
    return f"{value:,.15g}" if 1e3 <= abs(value) < 1e15 else f"{value:g}"
