"""The sentence that says what was found about a pair of systems."""

from __future__ import annotations

from rankql import text as show
from rankql.decisions.corrections import CORRECTIONS
from rankql.decisions.pair_comparisons import (
    MICRO,
    NOT_SIGNIFICANT,
    TOO_FEW,
    PairComparison,
)
from rankql.decisions.sample import NO_DIFFERENCE, NOT_TESTABLE, POWER
from rankql.decisions.settings import Settings
from rankql.decisions.significance import TESTS, count_required_units


def describe_pair(pair: PairComparison, settings: Settings, tests: int) -> str:
    """The finding in words."""
    a, b, verdict = pair.a, pair.b, pair.verdict(settings)
    if pair.p_adjusted is None:
        return _describe_untested(pair, settings)
    difference, interval = _format_difference(pair, settings)
    queries = show.format_queries(len(pair.values_a))
    chance = f"{show.format_p(pair.p_adjusted, settings.alpha)}{_adjustment(settings, tests)}"
    basis = f"({interval}{chance}; {queries})"
    if verdict == NOT_SIGNIFICANT:
        detectable, would = pair.detectable(settings), ""
        if detectable is not None and detectable > abs(pair.sample.mean):
            would = (
                f". A difference of about {show.round_up(detectable)} would have been "
                f"detected with {POWER:.0%} power"
            )
        return f"no significant difference between {b} and {a}: {difference} {basis}{would}"
    won = "beats" if verdict == "better" else "loses to"
    if pair.sample.mean < 0:
        difference, interval = _format_difference(pair, settings, -1)
        basis = f"({interval}{chance}; {queries})"
    return f"{b} {won} {a} by {difference} {basis}"


def _describe_untested(pair: PairComparison, settings: Settings) -> str:
    """The sentence of a pair that is not tested."""
    a, b, reason = pair.a, pair.b, pair.result.reason
    queries = show.format_queries(len(pair.values_a))
    if reason == MICRO:
        return (
            f"{b} and {a} cannot be tested: {pair.metric} is {MICRO}, so it has no values per query"
        )
    if not len(pair.values_a):
        return f"{b} and {a} have no query in common for which both are defined"
    if reason == NO_DIFFERENCE:
        return f"{b} and {a} have the same value for every query ({queries})"
    differ = f"{b} differs from {a} by {show.format_number(pair.sample.mean)} ({queries})"
    label = TESTS[settings.test].label
    if reason == NOT_TESTABLE:
        needed = count_required_units(settings.test, bool(settings.cluster))
        if pair.clusters is None:
            return f"{differ}. Not tested: the {label} needs at least {needed} queries"
        clusters = pair.sample.units
        return (
            f"{differ}. Not tested: the {label} needs at least {needed} clusters, and there "
            f"{'is' if clusters == 1 else 'are'} {clusters}"
        )
    if reason == TOO_FEW:
        return f"{differ}. Not tested: fewer than {show.format_queries(settings.min_queries)}"
    return (
        f"{differ}. Not tested: the difference is the same for every query, and the "
        f"{label} needs some variance"
    )


def _format_difference(pair: PairComparison, settings: Settings, sign: int = 1) -> tuple[str, str]:
    """The difference and its interval as text, to two digits of half the interval."""
    lo, hi, mean = pair.result.lo, pair.result.hi, sign * pair.sample.mean
    if lo is None or hi is None:
        return show.format_number(mean), ""
    digits = show.count_decimals_apart(lo, hi)
    lo, hi = sorted((sign * lo, sign * hi))
    difference, low, high = (show.format_decimal(x, digits) for x in (mean, lo, hi))
    return difference, f"{settings.percent} CI {low} to {high}; "


def _adjustment(settings: Settings, tests: int) -> str:
    """What the p-value is adjusted for, as the end of a phrase."""
    if tests < 2 or settings.correction == "none":
        return ""
    return f", {CORRECTIONS[settings.correction]}-adjusted for {tests} tests"
