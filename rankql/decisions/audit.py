"""What does a published table support? Means and their number of queries, without values."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql import text
from rankql.errors import (
    RankqlError,
    require,
    require_package,
    require_probability,
    require_whole_number,
)  # fmt: skip
from rankql.registry import parse
from rankql.results import TableResult, drop_idle_columns

if TYPE_CHECKING:
    from rankql.stats.published import PublishedMean, Range

# Metrics whose value for a query is 0 or 1: always, or at a cutoff of 1.
SHARES, SHARES_AT_1 = (
    {"hit_at", "all_rel_at", "false_answer", "forbidden_at"},
    {"precision_at", "rr"},
)
# By metric, the standard deviations of the differences of two systems, from those that agree to
# those that do not, and of the values: BM25, a dense and a sparse ranker on the 43 queries of TREC
# 2019 Deep Learning (RR with relevant from grade 1 and 2).
SPREADS = {
    "ndcg": ((0.12, 0.27), (0.21, 0.25)), "ap": ((0.09, 0.23), (0.24, 0.26)),
    "rr": ((0.16, 0.49), (0.13, 0.37)), "precision_at": ((0.13, 0.32), (0.22, 0.34)),
    "recall_at": ((0.09, 0.25), (0.27, 0.28)),
}  # fmt: skip
OTHERS = ((0.09, 0.49), (0.13, 0.37))
# How much the means of systems agree that have the same queries.
AGREEMENT = 0.9
SCHEMA = {
    **dict.fromkeys(("system", "metric"), pl.String),
    **dict.fromkeys(("mean", "lo", "hi", "baseline", "difference", "p_lo", "p_hi"), pl.Float64),
    **dict.fromkeys(("differ", "queries_lo", "queries_hi"), pl.Int64),
    "verdict": pl.String,
}
IMPOSSIBLE, NEVER, ALWAYS = "no share of the queries", "cannot be significant", "significant"
# p depends on which queries both systems answer, or on how much their values differ.
OVERLAP, AGREE = "depends on the overlap", "depends on how much they agree"
MARKS = {IMPOSSIBLE: "✗", NEVER: "✗", OVERLAP: "?", AGREE: "?"}
SHORT = {IMPOSSIBLE: "impossible", NEVER: "cannot be", OVERLAP: "depends", AGREE: "depends"}


@dataclass(repr=False, eq=False)
class Audit(TableResult):
    """The result of `audit`.

    `table` has a row per mean: its confidence interval, and against a baseline the smallest and the
    largest p (`p_lo`, `p_hi`), the least number of queries that must `differ`, how many queries
    would decide it at a low and at a high spread of differences, and a verdict: 'significant'
    (whatever the overlap), 'depends on the overlap', 'cannot be significant', or 'no share of the
    queries'. It is `ok` if every mean is possible and every difference significant.
    """

    table: pl.DataFrame
    title: str
    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Is every mean possible, and every difference from the baseline significant?"""
        return not self.table["verdict"].is_in([*MARKS]).any()

    def displayed(self) -> list[pl.DataFrame]:
        """The table with a mark for what is not supported: ✗, or ? if it depends."""
        verdict, keys = pl.col("verdict"), ("system", "metric")
        marks = verdict.replace_strict(MARKS, default=None, return_dtype=pl.String).alias("mark")
        frame = self.table.select(
            *keys, marks, pl.exclude(*keys, "verdict"), verdict.replace(SHORT)
        )
        return [drop_idle_columns(frame)]


@dataclass(frozen=True)
class _Rules:
    """What is known of the queries and of how means spread."""

    queries: int
    digits: int | None
    sd: float | None
    sd_difference: float | None
    unpaired: bool
    baseline_queries: int
    alpha: float


def audit(
    mean: float | str | None = None,
    queries: int | None = None,
    metric: str | None = None,
    *,
    baseline: float | str | None = None,
    table: str | os.PathLike[str] | pl.DataFrame | None = None,
    digits: int | None = None,
    sd: float | None = None,
    sd_difference: float | None = None,
    unpaired: bool = False,
    baseline_queries: int | None = None,
    systems: int | None = None,
    confidence: float = 0.95,
) -> Audit:
    """Say what a published mean, or a table of them, supports: without values per query.

    The interval of a share of queries is that of Clopper and Pearson; of other metrics between two
    bounds, the same quantiles of Beta, which hold whatever the values are. All means that round to
    the published one count. Against a baseline on the same queries, p depends on how many queries
    differ, or how much, which a table does not say: the result is the range of p.

    Parameters
    ----------
    mean : float or str, optional
        The published mean, such as 0.92. The digits of a text count: 0.920 is more exact.
    queries : int
        The number of queries of the mean.
    metric : str, optional
        The metric, such as HR@5. It says whether the mean is a share of queries, as those of P@1,
        RR@1 and Success are. Without it, values between 0 and 1 are assumed.
    baseline : float or str, optional
        The mean of the baseline on the same queries, or of a table the name of its system, by
        default the first.
    table : path or frame, optional
        A table of means instead of one: systems in the first column, a column for each metric.
    digits : int, optional
        Digits after the point to which means are rounded; by default those that are written, of
        numbers of Python at least two.
    sd : float, optional
        Standard deviation of the values over queries, if it is published.
    sd_difference : float, optional
        Standard deviation of the differences from the baseline, if it is published.
    unpaired : bool
        The baseline is from other queries, such as those of another paper.
    baseline_queries : int, optional
        The number of queries of the baseline, if it is unpaired; by default the same.
    systems : int, optional
        The number of systems that were compared with the baseline, itself included: corrects for
        their tests, and says what the best of so many equal ones shows.
    confidence : float
        Level of the intervals.

    Examples
    --------
    >>> print(audit(0.92, 50, "HR@5", baseline=0.88).title)
    HR@5 of 0.92 on 50 queries: 95% CI 0.81 to 0.98
    """
    require_package("scipy", "stats", "audit")
    require_probability("confidence", confidence)
    given = {"queries": queries, "baseline_queries": baseline_queries, "systems": systems}
    require(queries is not None, "queries= is missing: the number of queries of the mean")
    for option, number in given.items():
        if number is not None:
            require_whole_number(option, number, 2 if option == "systems" else 1)
    for option, size in (("sd", sd), ("sd_difference", sd_difference)):
        require(size is None or 0 < size < math.inf, f"{option} must be above 0, not {size}")
    require((mean is None) != (table is None), "Pass a mean, or a table= of means")
    assert queries is not None
    rules = _Rules(queries, digits, sd, sd_difference, unpaired, baseline_queries or queries,
                   round(1 - confidence, 12))  # fmt: skip
    if mean is not None:
        tests = (systems or 2) - 1
        row, told = _audit_cell(metric or "mean", "", mean, baseline, rules, tests)
        frame = pl.DataFrame([row], SCHEMA)
        told += [_describe_best(row, rules, systems)] if systems else []
        return Audit(frame, told[0], told[1:], _describe(frame, rules, tests))
    require(metric is None, "metric= is for one mean: the columns of a table name its metrics")
    cells = _read_table(table)
    names = [*next(iter(cells.values()))]
    base, tests = names[0] if baseline is None else str(baseline), (systems or len(names)) - 1
    known = text.join_words(names)
    require(base in names, f"baseline={base!r} is no system of the table, which has {known}")
    rows, told = list[dict[str, Any]](), list[str]()
    for each, column in cells.items():
        theirs = column.pop(base)
        for system, value in column.items():
            row, sentences = _audit_cell(each, system, value, theirs, rules, tests)
            rows, told = [*rows, row], [*told, *sentences[1:]]
    frame = pl.DataFrame(rows, SCHEMA)
    counts = frame["verdict"].value_counts(sort=True, name="n").rows()
    found = ", ".join(f"{n:,} {verdict}" for verdict, n in counts)
    title = f"{text.format_count(frame.height, 'mean')} against {base}: {found}"
    return Audit(frame, title, told, _describe(frame, rules, tests))


def _read_table(table: Any) -> dict[str, dict[str, str]]:
    """The means as written, by metric and system."""
    if not isinstance(table, pl.DataFrame):
        try:
            table = pl.read_csv(os.fspath(table), infer_schema=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise RankqlError(f"Cannot read {os.fspath(table)!r} as CSV: {error}") from error
    require(table.width > 1 and table.height > 1,
            "A table needs a column of systems, one or more of metrics, and two rows")  # fmt: skip
    systems = table[:, 0].cast(pl.String).to_list()
    require(len({*systems}) == len(systems), "A system is in two rows of the table")
    return {
        name: dict(zip(systems, table[name].cast(pl.String).str.strip_chars(" *†‡"), strict=True))
        for name in table.columns[1:]
    }


def _parse_mean(
    label: str, value: float | str, metric: str, n: int, digits: int | None
) -> PublishedMean:
    """A published mean with the digits that are written."""
    from rankql.stats.published import PublishedMean

    if metric != "mean":
        parse.parse_any(metric)
    lowest, highest = (0, 1) if metric == "mean" else parse.value_range(metric)
    low, high = -math.inf if lowest is None else lowest, math.inf if highest is None else highest
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("nan")
    require(number.is_finite(), f"{label} must be a number such as 0.92, not {value!r}")
    if not low <= number <= high:
        percent = f": pass {number / 100}" if high == 1 and 1 < number <= 100 else ""
        between = f"between {low:g} and {high:g}" if high < math.inf else f"at least {low:g}"
        name = "a mean" if metric == "mean" else metric
        raise RankqlError(f"{label}={value} is no value of {name}, which is {between}{percent}")
    if digits is None:  # 0.7 of Python may have been 0.70
        digits = max(0 if isinstance(value, str) else 2, -int(number.as_tuple().exponent))
    return PublishedMean(float(number), 10.0**-digits, n, low, high)


def _is_share(metric: str) -> bool:
    """Whether the value of a query is 0 or 1, by the name of the metric."""
    record = parse.record_of(metric)
    at_1 = record.macro in SHARES_AT_1 and parse.parse_any(metric)[0].k == 1
    return record.macro in SHARES or at_1


def _spreads(metric: str) -> tuple[tuple[float, float], tuple[float, float]]:
    return SPREADS.get(parse.record_of(metric).macro, OTHERS)


def _audit_cell(
    metric: str, system: str, value: float | str, baseline: float | str | None, rules: _Rules,
    tests: int,
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """The row of a mean, and what it says in sentences."""
    ours = _parse_mean(f"{metric} of {system}" if system else "mean", value, metric, rules.queries,
                       rules.digits)  # fmt: skip
    share, row = _is_share(metric), dict[str, Any](dict.fromkeys(SCHEMA))
    if rules.sd is None:
        unbounded = f"{metric} has no upper bound: pass sd=, the standard deviation over queries"
        require(math.isfinite(ours.highest), unbounded)
        ends = ours.interval(rules.alpha, share)
    else:
        ends = ours.spread_interval(rules.sd, rules.alpha)
    row |= {"system": system or None, "metric": metric, "mean": ours.value}
    row |= {"lo": ends.lo, "hi": ends.hi}
    low, high = (text.format_decimal(x, text.count_decimals_apart(*ends)) for x in ends)
    percent, queries = text.format_percent(1 - rules.alpha), text.format_queries(ours.n)
    name = "A mean" if metric == "mean" else metric
    sentences = [f"{name} of {value} on {queries}: {percent} CI {low} to {high}"]
    if share and not ours.counts:
        below = math.floor(ours.value * ours.n)
        near = " and ".join(f"{k:,} are {k / ours.n:.4g}" for k in (below, below + 1))
        row["verdict"] = IMPOSSIBLE
        sentences.append(
            f"{value} is no share of {queries}: {near}. Undefined queries, without a relevant "
            "item, may not count: pass the number of those that do"
        )
    if baseline is None or row["verdict"]:
        return row, sentences
    n = rules.baseline_queries if rules.unpaired else rules.queries
    theirs = _parse_mean("baseline", baseline, metric, n, rules.digits)
    level, change = rules.alpha / tests, round(ours.value - theirs.value, 12)
    row |= {"baseline": theirs.value, "difference": change}
    share = share and bool(theirs.counts) and rules.sd_difference is None
    compare = _compare_shares if share else _compare_spreads
    found, why = compare(ours, theirs, metric, rules, level, row)
    row |= {"p_lo": found.lo, "p_hi": found.hi, "verdict": OVERLAP if share else AGREE}
    if found.lo > level or found.hi <= level:
        row["verdict"] = NEVER if found.lo > level else ALWAYS
    ps = [text.format_p(p) for p in (found.lo, found.hi)]
    if ps[0] != ps[1]:
        ps[0] = f"p from {' to '.join(p.removeprefix('p ').removeprefix('= ') for p in ps)}"
    who = f"{metric} of {system}: " if system else ""
    side = f"{text.format_number(abs(change))} {'above' if change >= 0 else 'below'}"
    always = f", {'whatever the overlap' if share else 'at either spread'}"
    corrected = f" at {level:.2g} (for {tests} tests)" * (tests > 1)
    verdict = row["verdict"] + corrected + always * (row["verdict"] == ALWAYS)
    sentences.append(f"{who}{side} the baseline of {baseline}: {verdict}. {ps[0]}{why}")
    return row, sentences


def _compare_shares(
    ours: PublishedMean, theirs: PublishedMean, metric: str, rules: _Rules, level: float,
    row: dict[str, Any],
) -> tuple[Range, str]:  # fmt: skip
    """p of shares; of the same queries, over all overlaps of those that succeed."""
    from rankql.stats.published import range_of_fisher, range_of_mcnemar

    if rules.unpaired:
        found = range_of_fisher(ours.counts, ours.n, theirs.counts, theirs.n)
        return found, " (Fisher's exact test)"
    least, found = range_of_mcnemar(ours.counts, theirs.counts, ours.n)
    row["differ"], needed = least, math.ceil(1 - math.log2(level))
    why = f" (McNemar's exact test). At least {least:,} of {text.format_queries(ours.n)} differ"
    return found, why + f", {needed} are needed" * (found.lo > level)


def _compare_spreads(
    ours: PublishedMean, theirs: PublishedMean, metric: str, rules: _Rules, level: float,
    row: dict[str, Any],
) -> tuple[Range, str]:  # fmt: skip
    """p of other means at a low and a high spread, and how many queries would decide it."""
    from rankql.stats.published import Range, differences, range_of_student
    from rankql.stats.tests import POWER, required_queries

    n, m, unpaired = ours.n, theirs.n, rules.unpaired
    own, option = (rules.sd, "sd") if unpaired else (rules.sd_difference, "sd_difference")
    size = ours.highest - ours.lowest
    require(own is not None or size < math.inf, f"{metric} has no upper bound: pass {option}=")
    low, high = (x * size for x in _spreads(metric)[unpaired]) if own is None else (own, own)
    factor = math.sqrt(1 / n + 1 / m if unpaired else 1 / n)
    freedom, floor = (n + m - 2, 0.0) if unpaired else (n - 1, 2.0 ** (1 - n))
    found, of = Range(1.0, 1.0), "values" if unpaired else "differences"
    if freedom > 0:
        errors = low * factor, high * factor
        found = range_of_student(differences(ours, theirs), errors, freedom, floor)
    why = f" if {of} have a standard deviation of {text.format_number(low)}"
    why += f" to {text.format_number(high)}" * (low < high)
    if row["difference"] and not unpaired and found.hi > level:
        needed = [required_queries(row["difference"] / sd, level, POWER) for sd in (low, high)]
        row["queries_lo"], row["queries_hi"] = needed
        count = " to ".join(f"{x:,}" for x in dict.fromkeys(needed))
        why += f". About {count} queries would decide it with {POWER:.0%} power"
    return found, why


def _describe_best(row: dict[str, Any], rules: _Rules, systems: int) -> str:
    """What the best of equal systems shows above their mean."""
    from rankql.stats.published import best_of

    metric, mean = row["metric"], row["mean"]
    sd = rules.sd or (math.sqrt(mean * (1 - mean)) if _is_share(metric) else _spreads(metric)[1][1])
    error = sd / math.sqrt(rules.queries)
    ends = {"if they are independent": 0.0, f"if they agree as {AGREEMENT}": AGREEMENT}
    shown = " and ".join(
        f"{top:.1f} standard errors ({text.format_number(top * error)}) {how}"
        for how, top in ((how, best_of(systems, x)) for how, x in ends.items())
    )
    return f"The best of {systems} equal systems is above their mean by {shown}"


def _describe(frame: pl.DataFrame, rules: _Rules, tests: int) -> list[str]:
    """What was assumed."""
    notes = []
    if rules.sd is None and not all(map(_is_share, frame["metric"])):
        notes.append("Intervals of means that are no shares of queries hold for all values of this "
                     "range: pass sd= if it is published")  # fmt: skip
    if frame["queries_lo"].count() and rules.sd_difference is None:
        notes.append("Differences spread as those of systems on the 43 queries of TREC 2019 Deep "
                     "Learning: pass sd_difference= if it is published")  # fmt: skip
    if tests > 1 and frame["p_lo"].count():
        notes.append(f"Corrected for {tests} tests within a metric, not over all metrics")
    return notes
