"""What does a published table support? Means and their number of queries, without values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import polars as pl

from rankql.core.base import errors, text
from rankql.core.base.results import TableResult
from rankql.core.base.writing import remember_inputs
from rankql.core.evaluation.means.means import metric_range
from rankql.core.metrics import parse
from rankql.core.metrics.spreads import OTHER_SPREADS, SHARES, SHARES_AT_1, SPREADS
from rankql.core.stats.means import Interval, t_quantile

if TYPE_CHECKING:
    from rankql.core.stats.published import PublishedMean

# How much the means of systems agree that have the same queries.
AGREEMENT = 0.9
SCHEMA = {
    **dict.fromkeys(("system", "metric", "mark"), pl.String),
    **dict.fromkeys(("mean", "lo", "hi", "baseline", "difference", "p_lo", "p_hi"), pl.Float64),
    **dict.fromkeys(("differ", "queries_lo", "queries_hi"), pl.Int64),
    "verdict": pl.String,
}
# Verdicts, their marks and words.
IMPOSSIBLE, NEVER, DEPENDS, ALWAYS = "impossible", "never", "depends", "significant"
MARKS = {IMPOSSIBLE: "✗", NEVER: "✗", DEPENDS: "?"}
WORDS = {NEVER: "cannot be significant", DEPENDS: "depends on", ALWAYS: "significant"}


@dataclass(repr=False, eq=False)
class Audit(TableResult):
    """The result of `audit`.

    `table` has a row per mean: its confidence interval, a `mark` for what is not supported (✗, or ?
    if it depends on values that are not published), and against a baseline the smallest and the
    largest p (`p_lo`, `p_hi`), the least number of queries that must `differ`, how many queries
    would decide it at a low and at a high spread of differences, and a verdict: 'significant'
    (whatever is not published), 'depends', 'never', or 'impossible' of a mean that is no share of
    its queries. It is `ok` if every mean is possible and every difference significant.
    """

    table: pl.DataFrame
    title: str
    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Is every mean possible, and every difference from the baseline significant?"""
        return not self.table["verdict"].is_in([*MARKS]).any()


@dataclass(frozen=True)
class _Rules:
    """What is known of the queries, and the level."""

    queries: int
    digits: int | None
    sd: float | None
    sd_difference: float | None
    unpaired: bool
    baseline_queries: int
    alpha: float


@remember_inputs
def audit(
    published: float | str | None = None,
    queries: int | None = None,
    metric: str | None = None,
    *,
    baseline: float | str | None = None,
    table: str | os.PathLike[str] | pl.DataFrame | None = None,
    digits: int | None = None,
    sd: float | None = None,
    sd_difference: float | None = None,
    plus_minus: float | None = None,
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
    published : float or str, optional
        The mean, such as 0.92. The digits of a text count: 0.920 is more exact.
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
    plus_minus : float, optional
        Half of a published confidence interval of this level, instead of sd.
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
    HR@5 of 0.92 on 50 queries: 95% CI 0.808 to 0.978
    """
    errors.require_package("scipy", "stats", "audit")
    errors.require_probability("confidence", confidence)
    if queries is None:
        raise errors.RankqlError("queries= is missing: the number of queries of the mean")
    counts = {"queries": queries, "baseline_queries": baseline_queries, "systems": systems}
    for name, count in counts.items():
        if count is not None:
            errors.require_whole_number(name, count, 2 if name == "systems" else 1)
    sizes = {"sd": sd, "sd_difference": sd_difference, "plus_minus": plus_minus}
    for name, size in sizes.items():
        number = size is None or (isinstance(size, int | float) and 0 < size < math.inf)
        errors.require(number, f"{name} must be above 0, not {size}")
    errors.require((published is None) != (table is None), "Pass a mean, or a table= of means")
    alpha, base = round(1 - confidence, 12), "baseline"
    if plus_minus is not None:
        errors.require(sd is None, "Pass sd= or plus_minus=, not both")
        sd = plus_minus * math.sqrt(queries) / t_quantile(1 - alpha / 2, max(queries - 1, 1))
    rules = _Rules(queries, digits, sd, sd_difference, unpaired, baseline_queries or queries, alpha)
    errors.require(isinstance(metric, str | None), f"metric must be a name, not {metric!r}")
    cells: dict[str, Any] = {metric or "mean": {"": published, base: baseline}}
    if published is None:
        errors.require(metric is None, "metric= is for one mean: a table names its metrics")
        cells, base = _read_table(table, baseline)
    tests = (systems or len(next(iter(cells.values())))) - 1
    rows, told = list[dict[str, Any]](), list[str]()
    for name, column in cells.items():
        theirs = column.pop(base)
        theirs = None if theirs == "" else theirs  # an empty cell of a frame
        for system, value in column.items():
            row, sentences = _audit_cell(name, system, value, theirs, rules, tests)
            rows, told = [*rows, row], [*told, *sentences[published is None :]]
    frame = pl.DataFrame(rows, SCHEMA)
    notes = [*_describe(frame, rules, tests)]
    if published is not None:
        told += [_describe_best(rows[0], rules, systems)] if systems else []
        return Audit(frame, told[0], told[1:], notes)
    found = frame["verdict"].value_counts(name="n").sort("n", "verdict", descending=True).rows()
    of_verdicts = ", ".join(f"{n:,} {verdict or 'without a baseline'}" for verdict, n in found)
    title = f"{text.format_count(frame.height, 'mean')} against {base}: {of_verdicts}"
    return Audit(frame, title, told, notes)


def _read_table(table: Any, baseline: Any) -> tuple[dict[str, Any], str]:
    """The means as written, by metric and system, and the name of the baseline."""
    if not isinstance(table, pl.DataFrame):
        try:
            table = pl.read_csv(os.fspath(table), infer_schema=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise errors.RankqlError(f"Cannot read {str(table)!r} as CSV: {error}") from error
    few = "A table needs a column of systems, one or more of metrics, and two rows"
    errors.require(table.width > 1 and table.height > 1, few)
    texts = table.select(pl.all().cast(pl.String).str.strip_chars(" *†‡"))
    systems = texts[:, 0].to_list()
    base = systems[0] if baseline is None else str(baseline)
    errors.require(len({*systems}) == len(systems), "A system is in two rows of the table")
    errors.require_known("system in baseline=:", base, systems)
    return {name: dict(zip(systems, texts[name], strict=True)) for name in texts.columns[1:]}, base


def _parse_mean(label: str, value: Any, metric: str, n: int, digits: int | None) -> PublishedMean:
    """A published mean with the digits that are written."""
    from rankql.core.stats.published import PublishedMean

    low, high = 0.0, 1.0
    if metric != "mean":
        parse.parse_any(metric)
        low, high = metric_range(metric)
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("nan")
    more = ". Pass what follows ± as plus_minus= or sd=" * ("±" in str(value))
    no_number = f"{label} must be a number such as 0.92, not {value!r}{more}"
    errors.require(number.is_finite(), no_number)
    percent = f": pass {number / 100}" if high == 1 and 1 < number <= 100 else ""
    between = f"between {low:g} and {high:g}" if high < math.inf else f"at least {low:g}"
    wrong = f"{label}={value} is no value of {metric}, which is {between}{percent}"
    errors.require(low <= number <= high, wrong)
    if digits is None:  # 0.7 of Python may have been 0.70
        digits = max(0 if isinstance(value, str) else 2, -int(number.as_tuple().exponent))
    return PublishedMean(float(number), 10.0**-digits, n, low, high)


def _is_share(metric: str) -> bool:
    """Whether the value of a query is 0 or 1, by the name of the metric."""
    macro = parse.record_of(metric).macro
    return macro in SHARES or (macro in SHARES_AT_1 and parse.parse_any(metric)[0].k == 1)


def _audit_cell(
    metric: str, system: str, value: Any, baseline: Any, rules: _Rules, tests: int
) -> tuple[dict[str, Any], list[str]]:
    """The row of a mean, and what it says in sentences."""
    label, n = f"{metric} of {system}" if system else "mean", rules.queries
    ours = _parse_mean(label, value, metric, n, rules.digits)
    share, row = _is_share(metric), dict[str, Any](dict.fromkeys(SCHEMA))
    unbounded = f"{metric} has no upper bound: pass sd=, the standard deviation over queries"
    errors.require(ours.highest < math.inf or rules.sd is not None, unbounded)
    ends = ours.interval(rules.alpha, share, rules.sd)
    row |= {"system": system or None, "metric": metric, "mean": ours.value}
    row |= {"lo": ends.lo, "hi": ends.hi}
    low, high = (text.format_decimal(x, text.count_decimals_apart(*ends)) for x in ends)
    percent, on = text.format_percent(1 - rules.alpha), text.format_queries(n)
    sentences = [f"{metric} of {value} on {on}: {percent} CI {low} to {high}"]
    if share and not ours.counts:
        below = math.floor(ours.value * n)
        near = " and ".join(f"{k:,} are {k / n:.4g}" for k in (below, below + 1))
        row |= {"verdict": IMPOSSIBLE, "mark": MARKS[IMPOSSIBLE]}
        return row, [
            *sentences, f"{value} is no share of {on}: {near}. Undefined queries, without a "
            "relevant item, may not count: pass the number of those that do",
        ]  # fmt: skip
    if baseline is None:
        return row, sentences
    of_baseline = rules.baseline_queries if rules.unpaired else n
    theirs = _parse_mean("baseline", baseline, metric, of_baseline, rules.digits)
    level, change = rules.alpha / tests, round(ours.value - theirs.value, 12)
    row |= {"baseline": theirs.value, "difference": change}
    share = share and bool(theirs.counts) and rules.sd_difference is None
    own = rules.sd if rules.unpaired else rules.sd_difference
    found, why = (_compare_shares if share else _compare_spreads)(ours, theirs, rules, level, row)
    # Holm's last test has the level without correction.
    verdict = NEVER if found.lo > rules.alpha else ALWAYS if found.hi <= level else DEPENDS
    row |= {"p_lo": found.lo, "p_hi": found.hi, "verdict": verdict, "mark": MARKS.get(verdict)}
    ps = _join_ends(_format_p, found)
    p = f"p from {ps}" if " to " in ps else text.format_p(found.lo)
    hidden = "the overlap" if share and not rules.unpaired else "the values per query"
    words = WORDS[verdict] + f" {hidden}" * (verdict == DEPENDS)
    words += " and on the other tests" * (found.lo > level and verdict == DEPENDS)
    corrected = f" at {level:.2g} (for {tests} tests)" * (tests > 1)
    words += ", even without correction" if verdict == NEVER and corrected else corrected
    words += f", whatever {hidden}" * (verdict == ALWAYS and own is None)
    side = f"{text.format_number(abs(change))} {'above' if change >= 0 else 'below'}"
    side = f"{side} the baseline of {baseline}"
    if ours.value == theirs.value and not share:
        side = f"No difference from the baseline of {baseline} is published"
    who = f"{label}: " * bool(system)
    return row, [*sentences, f"{who}{side}: {words}. {p}{why}"]


def _compare_shares(
    ours: PublishedMean, theirs: PublishedMean, rules: _Rules, level: float, row: dict[str, Any]
) -> tuple[Interval, str]:
    """p of shares; of the same queries, over all overlaps of those that succeed."""
    from rankql.core.stats.published import range_of_fisher, range_of_mcnemar

    if rules.unpaired:
        found = range_of_fisher(ours.counts, ours.n, theirs.counts, theirs.n)
        return found, " (Fisher's exact test)"
    least, found = range_of_mcnemar(ours.counts, theirs.counts, ours.n)
    row["differ"], needed = least, math.ceil(1 - math.log2(rules.alpha))
    why = f" (McNemar's exact test). At least {least:,} of {text.format_queries(ours.n)} differ"
    return found, why + f", {needed} are needed" * (found.lo > rules.alpha)


def _compare_spreads(
    ours: PublishedMean, theirs: PublishedMean, rules: _Rules, level: float, row: dict[str, Any]
) -> tuple[Interval, str]:
    """p of other means over all values, or at a published spread, and how many queries decide it.

    Student's p at the spreads of the table illustrates the first.
    """
    from rankql.core.stats import published
    from rankql.core.stats.tests import POWER, required_queries

    n, size, shift = ours.n, ours.highest - ours.lowest, abs(row["difference"])
    own, option = (rules.sd, "sd") if rules.unpaired else (rules.sd_difference, "sd_difference")
    unbounded = f"{row['metric']} has no upper bound: pass {option}="
    errors.require(own is not None or size < math.inf, unbounded)
    assumed = SPREADS.get(parse.record_of(row["metric"]).macro, OTHER_SPREADS)[rules.unpaired]
    low, high = (x * size for x in assumed) if own is None else (own, own)
    found = student = published.range_of_student(ours, theirs, (low, high), rules.unpaired)
    of = "values" if rules.unpaired else "differences"
    why = f" if {of} have a standard deviation of {_join_ends(text.format_number, (low, high))}"
    if own is None:
        found = published.range_of_randomisation(ours, theirs, rules.unpaired)
        illustration = f". Student's p is {_join_ends(_format_p, student)}{why}"
        why = " (exact randomisation test)" + illustration * (shift > 0 and n > 1)
    if rules.unpaired or not shift or n == 1:
        return found, why
    turn = shift * math.sqrt(n) / t_quantile(1 - level / 2, n - 1)
    both = (ours.value + theirs.value - 2 * ours.lowest) / size
    most = n / (n - 1) * (min(both, 2 - both) - (shift / size) ** 2)
    if own is None and turn < size * math.sqrt(max(most, 0)):
        why += f", its verdict turns at {text.format_number(turn)}"
    if found.hi > level:
        needed = sorted(required_queries(shift / sd, level, POWER) for sd in (low, high))
        row["queries_lo"], row["queries_hi"] = needed
        count = _join_ends("{:,}".format, needed)
        why += (
            f". With values per query about {count} queries would decide it with {POWER:.0%} power"
        )
        alone = own is None and published.queries_of_means(ours, theirs, level)
        more = f"{alone:,}" if alone else "more digits are needed"
        why += f"; by the means alone {more}" * (own is None)
    return found, why


def _format_p(p: float) -> str:
    return text.format_p(p)[2:].removeprefix("= ")


def _join_ends(form: Callable[[float], str], ends: Iterable[float]) -> str:
    """Both ends of a range, or one if they look the same."""
    return " to ".join(dict.fromkeys(map(form, ends)))


def _describe_best(row: dict[str, Any], rules: _Rules, systems: int) -> str:
    """What the best of equal systems shows above their mean."""
    from rankql.core.stats.published import best_of

    metric, mean = row["metric"], row["mean"]
    assumed = SPREADS.get(parse.record_of(metric).macro, OTHER_SPREADS)[1][1]
    sd = rules.sd or (math.sqrt(mean * (1 - mean)) if _is_share(metric) else assumed)
    ends = [
        f"{best_of(systems, x):.1f} standard errors "
        f"({text.format_number(best_of(systems, x) * sd / math.sqrt(rules.queries))}) if they {how}"
        for x, how in ((0.0, "are independent"), (AGREEMENT, f"agree as {AGREEMENT}"))
    ]
    return f"The best of {systems} equal systems is above their mean by {' and '.join(ends)}"


def _describe(frame: pl.DataFrame, rules: _Rules, tests: int) -> Iterator[str]:
    """What was assumed."""
    if rules.sd is None and not all(map(_is_share, frame["metric"])):
        yield "Intervals of means that are no shares hold for all values: pass sd= if it is known"
    if frame["queries_lo"].count() and rules.sd_difference is None:
        yield ("Differences spread as those of systems on the 43 queries of TREC 2019 Deep "
               "Learning: pass sd_difference= if it is published")  # fmt: skip
    if tests > 1 and frame["p_lo"].count():
        yield f"Corrected for {tests} tests within a metric, not over all metrics"
