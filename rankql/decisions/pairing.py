"""What two systems got for the same queries: lined up, tested, and put into words."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from rankql import text as show
from rankql.decisions.significance import (
    CORRECTIONS,
    NO_DIFFERENCE,
    NOT_TESTABLE,
    ROUNDING,
    TESTS,
    ZERO_VARIANCE,
    Array,
    Outcome,
    Sample,
    Setting,
    adjusted,
    least,
    left_over,
    levels,
    untestable,
)
from rankql.errors import RankqlError, did_you_mean
from rankql.evaluation.combining import require_finite_metrics, require_no_system
from rankql.evaluation.result import Result
from rankql.evaluation.summary import slice_queries
from rankql.macros import MISSING
from rankql.registry.options import require_whole_number
from rankql.registry.parse import parse

MICRO = "a mean over all queries at once"
TOO_FEW = "too few queries"
NOT_SIGNIFICANT = "not significant"
FAMILIES = ("all", "metric")
# The power of `detectable`.
POWER = 0.8


SCHEMA = {
    **dict.fromkeys(("metric", "a", "b", "slice"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("p", "p_adjusted", "p_error", "effect"), pl.Float64),
    **dict.fromkeys(("wins", "ties", "losses", "n"), pl.Int64),
    **{"detectable": pl.Float64, "verdict": pl.String, "sentence": pl.String},
}


_LEAST = {"resamples": 100, "seed": 0, "min_queries": 0}


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    family: str
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    min_queries: int
    bounds: Mapping[str, Sequence[float]] | None = None

    def check(self) -> None:
        """Raise an error for an unknown choice or for options that do not go together."""
        named: dict[str, Iterable[str]]
        named = {"test": TESTS, "correction": CORRECTIONS, "family": FAMILIES}
        for name, choices in named.items():
            value = getattr(self, name)
            if value not in [*choices]:
                raise RankqlError(
                    f"{name}: there is no {value!r}{did_you_mean(str(value), [*choices])}"
                )
        if not isinstance(self.confidence, float) or not 0 < self.alpha < 1:
            raise RankqlError(f"confidence must lie between 0 and 1, not {self.confidence!r}")
        for name, smallest in _LEAST.items():
            require_whole_number(name, getattr(self, name), smallest)
        if self.cluster is not None and not TESTS[self.test].clusters:
            able = ", ".join(repr(name) for name, test in TESTS.items() if test.clusters)
            raise RankqlError(
                f"test={self.test!r} does not support cluster={self.cluster!r}. Use one of: {able}"
            )
        if TESTS[self.test].joint and self.correction == "bh":
            raise RankqlError(
                f"test={self.test!r} adjusts for its pairs itself, so correction='bh' does not "
                "apply. Use correction='holm' to adjust for metrics and slices, or 'none'"
            )
        if self.bounds is not None and self.test != "anytime":
            raise RankqlError(f"bounds= has no effect on test={self.test!r}. Pass test='anytime'")

    @property
    def alpha(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1 - self.confidence, 12)

    @property
    def percent(self) -> str:
        """The confidence in percent."""
        return f"{100 * self.confidence:.12g}%"


def lined_up(result: Result, systems: Sequence[str]) -> Result:
    """The result with a row for every system and query.

    A query that a system lacks is one that is missing: 0 where another system has a value, NULL
    where less is better. An attribute that a run without the query cannot know is that of the
    others.
    """
    key, by, metrics = result.meta["query"], result.meta["by"], result.metrics
    rows = result.frame()
    if not result.meta["system"]:
        require_no_system(result)
        rows = rows.select(pl.lit(systems[0]).alias("system"), pl.all())
    for system, values in rows.sort("system").group_by("system", maintain_order=True):
        require_finite_metrics(values, metrics, key, repr(*system))
    known = rows.group_by(key).agg(
        *(pl.col(name).drop_nulls().unique().sort() for name in by),
        *((pl.col(name) * 0).max().alias(_zero(name)) for name in metrics),
    )
    for name in by:
        if len(torn := known.filter(pl.col(name).list.len() > 1).sort(key)):
            one, two, *_ = torn[name][0]
            raise RankqlError(
                f"by: {name} must have one value per query, but the systems have {one!r} and "
                f"{two!r} for query {torn[key][0]!r}"
            )
    _overlap(rows, key, systems)
    filled = [name for name in metrics if not result.lower_is_better(name)]
    whole = (
        known.with_columns(pl.col(name).list.first() for name in by)
        .join(pl.DataFrame({"system": systems}), how="cross")
        .join(rows.drop(by), on=["system", key], how="left")
        .with_columns(
            pl.when(pl.col(MISSING).is_null())
            .then(pl.col(_zero(name)))
            .otherwise(pl.col(name))
            .alias(name)
            for name in filled
        )
        .with_columns(pl.col(MISSING).fill_null(True))
        .sort("system", key)
        .select("system", key, *by, *(c for c in rows.columns if c not in {"system", key, *by}))
    )
    made = Result(
        result.meta | {"system": True},
        result.sql,
        result.columns,
        result.notes,
        result.interval,
        result.confidence,
        whole,
    )
    made.check()
    return made


def _zero(name: str) -> str:
    return f"\0 of {name}"  # as no column of a user's is called


def _overlap(rows: pl.DataFrame, key: str, systems: Sequence[str]) -> None:
    """Refuse systems that have no query in common with any other."""
    counts = rows.select("system", key, pl.len().over(key).alias("times"))
    for system in systems if len(systems) > 1 else ():
        own = counts.filter(pl.col("system") == system)
        if (own["times"] < 2).all():
            other = counts.filter(pl.col("system") != system)
            raise RankqlError(
                f"{system!r} has no query in common with the others: it has {own[key].min()!r}, "
                f"they have {other[key].min()!r}"
            )


def compared_value(name: str, rules: Mapping[str, Any]) -> pl.Expr:
    """The value of a query as it is compared, NULL where it is left out."""
    value = pl.col(name)
    if rules["undefined"] == "zero":
        value = value.fill_null(0)
    if rules["missing"] == "skip":
        value = pl.when(~pl.col(MISSING)).then(value)
    return value.alias(name)


@dataclass(frozen=True)
class Values:
    """The values of every metric by query and system, NaN where there is none to compare."""

    systems: list[str]
    queries: pl.DataFrame
    values: dict[str, Array]
    slices: dict[str, NDArray[np.intp]]
    clusters: NDArray[np.intp] | None
    # How many queries each system lacks, and how many are undefined by metric in some system.
    missing: dict[str, int]
    undefined: dict[str, int]
    # The metrics of which less is better.
    lower: frozenset[str] = frozenset()

    @classmethod
    def of(cls, result: Result, systems: Sequence[str], cluster: str | None) -> Values:
        """The values of a result that has a row for every system and query."""
        key, by, rules = result.meta["query"], result.meta["by"], result.conventions
        rows = result.frame()
        queries = rows.filter(pl.col("system") == systems[0]).select(key, *by)
        columns = {
            name: compared_value(name, rules).fill_null(float("nan")) for name in result.metrics
        }
        frames = {name: rows.filter(pl.col("system") == name) for name in systems}
        values = {
            name: np.stack(
                [f.select(value).to_series().to_numpy() for f in frames.values()], axis=1
            )
            for name, value in columns.items()
        }
        found = {
            label: queries[key].is_in(of.implode()).arg_true().to_numpy().astype(np.intp)
            for label, of in slice_queries(queries, result.meta["groupings"]).items()
        }
        codes = None
        if cluster is not None:
            if queries[cluster].null_count():
                one = queries.filter(pl.col(cluster).is_null())[key][0]
                raise RankqlError(f"cluster: {cluster} is NULL for query {one!r}")
            codes = queries[cluster].rank("dense").to_numpy().astype(np.intp) - 1
        missing = {name: int(frame[MISSING].sum()) for name, frame in frames.items()}
        kept = ~pl.col(MISSING) | pl.lit(rules["missing"] != "skip")
        empty = {
            name: rows.filter(pl.col(name).is_null() & kept)[key].n_unique()
            for name in result.metrics
        }
        lower = frozenset(filter(result.lower_is_better, result.metrics))
        return cls(list(systems), queries, values, found, codes, missing, empty, lower)

    def pair(
        self, metric: str, a: str, b: str, label: str, whole: bool
    ) -> tuple[Array, Array, NDArray[np.intp] | None]:
        """The values of two systems on a slice where both are defined, or (whole) all systems."""
        rows = self.slices[label]
        one, other = (self.values[metric][rows, self.systems.index(name)] for name in (a, b))
        kept = self._defined(metric, label) if whole else ~np.isnan(one) & ~np.isnan(other)
        clusters = None
        if self.clusters is not None:
            codes = self.clusters[rows][kept]
            clusters = np.unique(codes, return_inverse=True)[1]
        return one[kept], other[kept], clusters

    def block(self, metric: str, label: str) -> Array:
        """The values of the queries of a slice for which every system is defined."""
        return self.values[metric][self.slices[label]][self._defined(metric, label)]

    def _defined(self, metric: str, label: str) -> NDArray[np.intp]:
        """Where in a slice every system is defined."""
        return np.flatnonzero(~np.isnan(self.values[metric][self.slices[label]]).any(1))


@dataclass
class Trial:
    """One pair on one metric and slice, and the outcome of its test."""

    metric: str
    a: str
    b: str
    slice: str
    of_a: Array
    of_b: Array
    clusters: NDArray[np.intp] | None = None
    micro: bool = False
    # Is a lower value of the metric better?
    lower: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    p_adjusted: float | None = None
    # The level of its test within the family, and of its interval.
    level: float | None = None

    def __post_init__(self) -> None:
        self.sample = Sample(self.of_b - self.of_a, self.clusters)

    def why_not(self, settings: Settings) -> str:
        """Reason why this pair is not tested, or an empty text."""
        if self.micro:
            return MICRO
        word = untestable(settings.test, self.sample)
        few = self.slice != "all" and len(self.of_a) < settings.min_queries
        return word if word or not few else TOO_FEW

    def detectable(self, settings: Settings) -> float | None:
        """The difference that would be detected with 80% power at the level of this test."""
        level = settings.alpha if self.level is None else self.level
        outcome, wider = self.outcome, settings.test in ("anytime", "tukey", "randomised_tukey")
        if self.sample.units < 2 or self.sample.constant:
            return None
        if wider and outcome.lo is not None and outcome.hi is not None:
            # Half the interval, and room for the estimate to be lower than the true difference.
            room = special.stdtrit(self.sample.freedom, POWER) * self.sample.error
            return float((outcome.hi - outcome.lo) / 2 + room)
        return self.sample.detectable(level, POWER)

    def row(self, settings: Settings, family: int) -> dict[str, Any]:
        """The row of the table."""
        n = len(self.of_a)
        lower = self.lower
        up, ties, down = self.sample.signs
        shown = n > 0 and not self.micro
        return {
            "metric": self.metric,
            "a": self.a,
            "b": self.b,
            "slice": self.slice,
            "mean_a": float(self.of_a.mean()) if shown else None,
            "mean_b": float(self.of_b.mean()) if shown else None,
            "difference": self.sample.mean if shown else None,
            "lo": self.outcome.lo,
            "hi": self.outcome.hi,
            "p": self.outcome.p,
            "p_adjusted": self.p_adjusted,
            "p_error": self.outcome.p_error,
            "effect": self.sample.effect if shown else None,
            "wins": down if lower else up,
            "ties": ties,
            "losses": up if lower else down,
            "n": n,
            "detectable": self.detectable(settings) if shown else None,
            "verdict": self.verdict(settings, lower),
            "sentence": self.sentence(settings, lower, family),
        }

    @property
    def direction(self) -> float:
        """The sign of the statistic that was tested: of the mean, or of the ranks."""
        direction = self.outcome.direction
        return math.copysign(1, self.sample.mean) if direction is None else direction

    def verdict(self, settings: Settings, lower: bool) -> str:
        """Better, worse or not significant; or the reason why this is not tested."""
        if self.p_adjusted is None:
            return self.outcome.word
        if self.p_adjusted > settings.alpha:
            return NOT_SIGNIFICANT
        return "better" if (self.direction > 0) != lower else "worse"

    def sentence(self, settings: Settings, lower: bool, family: int) -> str:
        """The finding in words."""
        a, b, verdict = self.a, self.b, self.verdict(settings, lower)
        if self.p_adjusted is None:
            return self._untested(verdict, settings)
        difference, interval = self._numbers(settings)
        if not TESTS[settings.test].interval:
            wins, losses = self.sample.signs[:: -2 if lower else 2]
            interval = f"{show.count(wins, 'win')}, {show.count(losses, 'loss')}; "
        chance = f"{show.chance(self.p_adjusted, settings.alpha)}{_adjustment(settings, family)}"
        basis = f"({interval}{chance}; {show.queries(len(self.of_a))})"
        if verdict == NOT_SIGNIFICANT:
            detectable, would = self.detectable(settings), ""
            if detectable is not None and detectable > abs(self.sample.mean):
                would = (
                    f". A difference of about {show.rounded_up(detectable)} would have been "
                    f"detected with {POWER:.0%} power"
                )
            return f"no significant difference between {b} and {a}: {difference} {basis}{would}"
        won = "beats" if verdict == "better" else "loses to"
        if not TESTS[settings.test].interval:
            return f"{b} {won} {a} by ranks {basis}; the mean difference is {difference}"
        if self.direction < 0:
            difference, interval = self._numbers(settings, -1)
            basis = f"({interval}{chance}; {show.queries(len(self.of_a))})"
        return f"{b} {won} {a} by {difference} {basis}"

    def _untested(self, word: str, settings: Settings) -> str:
        """The sentence of a pair that is not tested."""
        a, b, queries = self.a, self.b, show.queries(len(self.of_a))
        if word == MICRO:
            return (
                f"{b} and {a} cannot be tested: {self.metric} is {MICRO}, so it has no values per "
                "query"
            )
        if not len(self.of_a):
            return f"{b} and {a} have no query in common for which both are defined"
        if word == NO_DIFFERENCE:
            return f"{b} and {a} have the same value for every query ({queries})"
        differ = f"{b} differs from {a} by {show.rounded(self.sample.mean)} ({queries})"
        if word == NOT_TESTABLE:
            label, needed = TESTS[settings.test].label, least(settings.test, bool(settings.cluster))
            if self.clusters is None:
                return f"{differ}. Not tested: the {label} needs at least {needed} queries"
            clusters = self.sample.units
            return (
                f"{differ}. Not tested: the {label} needs at least {needed} clusters, and there "
                f"{'is' if clusters == 1 else 'are'} {clusters}"
            )
        if word == TOO_FEW:
            return f"{differ}. Not tested: fewer than {show.queries(settings.min_queries)}"
        return (
            f"{differ}. Not tested: the difference is the same for every query, and the "
            f"{TESTS[settings.test].label} needs some variance"
        )

    def _numbers(self, settings: Settings, sign: int = 1) -> tuple[str, str]:
        """The difference and its interval as text, to two digits of half the interval."""
        lo, hi, mean = self.outcome.lo, self.outcome.hi, sign * self.sample.mean
        if lo is None or hi is None:
            return show.rounded(mean), ""
        digits = show.digits_apart(lo, hi)
        lo, hi = sorted((sign * lo, sign * hi))
        one, low, high = (show.decimal(x, digits) for x in (mean, lo, hi))
        return one, f"{settings.percent} CI {low} to {high}; "


def _adjustment(settings: Settings, family: int) -> str:
    """What the p-value is adjusted for, as the end of a phrase."""
    if family < 2 or (settings.correction == "none" and not TESTS[settings.test].joint):
        return ""
    if TESTS[settings.test].joint:
        label = TESTS[settings.test].label
        return f", adjusted for {family} tests by {'the ' * label[0].islower()}{label}"
    return f", {CORRECTIONS[settings.correction]}-adjusted for {family} tests"


def _ranges(
    values: Values, metrics: Sequence[str], rules: Mapping[str, Any], settings: Settings
) -> dict[str, tuple[float, float]]:
    """The range of the difference of two values, by metric, for the test that needs it."""
    if settings.test != "anytime":
        return {}
    given = settings.bounds or {}
    if not isinstance(given, Mapping) or not all(map(_is_range, given.values())):
        raise RankqlError(
            f"bounds must be a dict of metric: (lowest, highest), such as {{'DCG@10': (0, 20)}}, "
            f"not {settings.bounds!r}"
        )
    for name in given:
        if name not in metrics:
            raise RankqlError(f"bounds: {name!r} is not compared{did_you_mean(name, metrics)}")
    found = {}
    for name in metrics:
        low, high = given[name] if name in given else _known_range(name, rules)
        if low is None or high is None:
            raise RankqlError(
                f"test='anytime' needs the range of {name}, which has no upper or lower limit. "
                f"Pass bounds={{{name!r}: (lowest, highest)}} (CLI: --bounds {name}:LOWEST:HIGHEST)"
                ", limits that hold for every query, known in advance"
            )
        seen = values.values[name][~np.isnan(values.values[name])]
        outside = seen[(seen < low - ROUNDING) | (seen > high + ROUNDING)]
        if len(outside):
            raise RankqlError(
                f"{name} is {outside[0]:.6g} for a query, outside its range of {low:g} to "
                f"{high:g}. Pass bounds={{{name!r}: (lowest, highest)}} with the true limits"
            )
        found[name] = (float(low - high), float(high - low))
    return found


def _is_range(value: Any) -> bool:
    """Is this a pair of finite numbers, the first below the second?"""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = all(isinstance(x, int | float) and math.isfinite(x) for x in value)
    return numbers and value[0] < value[1]


def _known_range(name: str, rules: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The lowest and highest value of a metric, as far as they are known."""
    try:
        (metric,) = parse(name)
    except (RankqlError, ValueError):  # the user's own
        return None, None
    if metric.measure is None or {**rules, **metric.options}.get("negative") == "keep":
        return None, None
    return metric.measure.facts.lowest, metric.measure.facts.highest


def tried(
    values: Values, metrics: Sequence[str], micro: Collection[str],
    pairs: Sequence[tuple[str, str]], settings: Settings, rules: Mapping[str, Any],
) -> tuple[list[Trial], dict[str, int]]:  # fmt: skip
    """Every pair on every metric and slice, and the number of tests in the family of each metric.

    What cannot be tested is no part of a family.
    """
    test = TESTS[settings.test]
    ranges = _ranges(values, [name for name in metrics if name not in micro], rules, settings)
    trials = [
        Trial(metric, a, b, label, *values.pair(metric, a, b, label, bool(test.joint)),
              metric in micro, metric in values.lower)
        for metric in metrics
        for label in values.slices
        for a, b in pairs
    ]  # fmt: skip
    for trial in trials:
        trial.outcome = Outcome(word=trial.why_not(settings))
    able = [trial for trial in trials if not trial.outcome.word]
    if settings.test == "tukey":
        every = {(x.metric, x.slice) for x in able}
        flat = {one for one in every if not left_over(values.block(*one))}
        for trial in able:
            if (trial.metric, trial.slice) in flat:
                trial.outcome = Outcome(word=ZERO_VARIANCE)
        able = [trial for trial in able if not trial.outcome.word]

    def of(trial: Trial) -> str:
        return trial.metric if settings.family == "metric" else ""

    def run(block: Sequence[Trial], alpha: float) -> None:
        """Test trials of one metric and slice at this level."""
        metric, label = block[0].metric, block[0].slice
        setting = Setting(alpha, settings.resamples, settings.seed, ranges.get(metric))
        if test.joint:
            places = [(values.systems.index(x.a), values.systems.index(x.b)) for x in block]
            found = test.joint(values.block(metric, label), places, setting)
        else:
            assert test.pair
            found = [test.pair(trial.sample, setting) for trial in block]
        for trial, outcome in zip(block, found, strict=True):
            trial.outcome, trial.level = outcome, alpha

    sizes = Counter(map(of, able))
    blocks = Counter(metric for metric, _ in {(of(x), (x.metric, x.slice)) for x in able})
    for _, some in itertools.groupby(able, lambda x: (x.metric, x.slice)):
        block = list(some)
        tests = (
            1 if settings.correction == "none" else (blocks if test.joint else sizes)[of(block[0])]
        )
        run(block, settings.alpha / tests)
    for family in sizes:
        part = [x for x in able if of(x) == family]
        p = [x.outcome.p for x in part if x.outcome.p is not None]
        of_blocks = blocks[family] if test.joint else None
        adjusted_p = adjusted(p, settings.correction, of_blocks)
        level = levels(p, adjusted_p, settings.correction, settings.alpha, of_blocks)
        for trial, value, own in zip(part, adjusted_p, level, strict=True):
            trial.p_adjusted = value
            if own != trial.level and test.pair and test.interval:
                run([trial], own)
    return trials, {
        metric: sizes[metric if settings.family == "metric" else ""] for metric in metrics
    }


def compared(
    result: Result, systems: Sequence[str], settings: Settings
) -> tuple[pl.DataFrame, list[str]]:
    """The table of all pairs, and how it came about."""
    base = settings.baseline
    if base is not None and base not in systems:
        raise RankqlError(f"baseline: there is no system {base!r}{did_you_mean(base, systems)}")
    if base is None:
        pairs = list(itertools.combinations(systems, 2))
    else:
        pairs = [(base, name) for name in systems if name != base]
    values = Values.of(result, systems, settings.cluster)
    trials, families = tried(
        values, result.metrics, result.meta["weights"], pairs, settings, result.conventions
    )
    rows = [trial.row(settings, families[trial.metric]) for trial in trials]
    notes = _notes(values, trials, families, settings, result.conventions)
    return pl.DataFrame(rows, schema=SCHEMA), notes


def _notes(
    values: Values,
    trials: Sequence[Trial],
    families: Mapping[str, int],
    settings: Settings,
    rules: Mapping[str, Any],
) -> list[str]:
    """How the tests were done, and what was left out."""
    if len(values.systems) < 2:
        return [f"Only one system, {values.systems[0]!r}: there is nothing to compare it with"]
    if not any(families.values()):
        label = TESTS[settings.test].label
        found = [f"{label[0].upper()}{label[1:]}; nothing could be tested"]
    else:
        found = [_method(families, settings), _intervals(families, settings)]
    if TESTS[settings.test].resamples:
        found += _resampling(trials, families, settings)
    if settings.test == "anytime":
        found.append(
            "Valid at any number of looks, if each query counts once and the metric stays within "
            "its range"
        )
    if values.clusters is not None:
        sizes = np.bincount(values.clusters)[np.unique(values.clusters)]
        span = show.queries(int(sizes.max()))
        span = span if sizes.min() == sizes.max() else f"{sizes.min():,} to {span}"
        found.append(
            f"Queries are clustered by {settings.cluster}: {show.count(len(sizes), 'cluster')} of "
            f"{span}"
        )
    words = Counter(x.outcome.word for x in trials if x.outcome.p is None)
    if words:
        reasons = ", ".join(f"{word}: {count}" for word, count in words.items())
        found.append(
            f"Not tested: {words.total():,} of {show.count(len(trials), 'row')} ({reasons})"
        )
    total = len(values.queries)
    for system, count in values.missing.items():
        if count:
            rule = missing_rule(rules, list(values.values), values.lower)
            found.append(
                f"{count:,} of {show.queries(total)} {show.are(count)} missing in {system}: {rule}"
            )
    for metric, count in values.undefined.items():
        if count:
            rule = "counted as 0" if rules["undefined"] == "zero" else "left out"
            found.append(
                f"{metric}: {count:,} of {show.queries(total)} {show.are(count)} undefined in some "
                f"system and {rule}"
            )
    if lower := [metric for metric in values.values if metric in values.lower]:
        found.append(f"Lower is better: {', '.join(lower)}")
    return found


def missing_rule(rules: Mapping[str, Any], metrics: Sequence[str], lower: Collection[str]) -> str:
    """What becomes of a query that a system lacks: 0 would be the best value of an error."""
    errors = [metric for metric in metrics if metric in lower]
    if rules["missing"] == "skip" or len(errors) == len(metrics):
        return "left out"
    return f"counted as 0 (left out for {show.listed(errors)})" if errors else "counted as 0"


def _method(families: Mapping[str, int], settings: Settings) -> str:
    """The test and the adjustment of its p-values."""
    test = TESTS[settings.test]
    label = test.label[0].upper() + test.label[1:]
    sizes = set(families.values())
    if settings.family == "all" or len(sizes) == 1:
        count = sizes.pop()
        size = f"{count:,} {'test' if count == 1 else 'tests'}"
    else:
        size = ", ".join(f"{count:,} tests of {metric}" for metric, count in families.items())
    per = " per metric" if settings.family == "metric" and len(families) > 1 else ""
    if test.joint:
        more = (
            "" if settings.correction == "none" else " and, by Bonferroni, for metrics and slices"
        )
        return f"{label}: p-values are adjusted for the pairs{more}{per} ({size})"
    if settings.correction == "none":
        return f"{label}; p-values are not adjusted for {size}"
    if size in ("0 tests", "1 test"):
        return f"{label}; {size}{per}, so p-values need no adjustment"
    correction = CORRECTIONS[settings.correction]
    return f"{label}; p-values are {correction}-adjusted{per} for {size} (metrics x pairs x slices)"


def _intervals(families: Mapping[str, int], settings: Settings) -> str:
    """What the intervals hold, and how they go with the verdicts."""
    test, percent = TESTS[settings.test], f"{settings.percent} confidence interval"
    if not test.interval:
        return (
            f"lo, hi: none, as the {test.label} compares ranks, not means. Better and worse are "
            "those of the ranks, which may differ from the sign of the mean difference"
        )
    excludes = f"0 is outside exactly where the adjusted p-value is at most {settings.alpha:g}"
    if test.joint:
        over = "the pairs of each metric and slice" if settings.correction == "none" else "all rows"
        over = (
            "all rows of a metric" if over == "all rows" and settings.family == "metric" else over
        )
        return f"lo, hi: simultaneous {percent}s, together over {over}; {excludes}"
    if settings.correction == "none" or max(families.values(), default=0) < 2:
        return f"lo, hi: the {percent} of the difference; {excludes}"
    if settings.correction == "bonferroni":
        return f"lo, hi: simultaneous {percent}s (Bonferroni); {excludes}"
    rule = {
        "holm": "each widened to the level of its Holm step",
        "bh": "widened to the false coverage rate of the rows found significant",
    }[settings.correction]
    return (
        f"lo, hi: {percent}s, {rule}; {excludes}. For intervals that hold all at once, use "
        "correction='bonferroni'"
    )


def _resampling(
    trials: Sequence[Trial], families: Mapping[str, int], settings: Settings
) -> Iterable[str]:
    """The precision of resampled p-values, and when there are too few resamples."""
    errors = [x.outcome.p_error for x in trials if x.outcome.p_error is not None]
    exact = sum(x.outcome.p is not None and x.outcome.p_error is None for x in trials)
    if errors:
        yield (
            f"p-values are from {settings.resamples:,} resamples (seed {settings.seed}); their "
            f"standard error is at most {max(errors):.1g}"
        )
    if errors and (floor := _floor(families, settings)) > settings.alpha:
        enough = math.ceil(2 * settings.resamples * floor / settings.alpha)
        yield (
            f"{settings.resamples:,} resamples cannot give an adjusted p-value of "
            f"{settings.alpha:g} or less for {max(families.values()):,} tests. Pass "
            f"resamples={enough}"
        )
    if exact:
        yield f"{exact:,} p-values are exact, from all patterns of signs"


def _floor(families: Mapping[str, int], settings: Settings) -> float:
    """The least adjusted p-value that so many resamples can give, or more than 1."""
    if settings.correction not in ("holm", "bonferroni") or TESTS[settings.test].joint:
        return 0.0
    sides = 2 if settings.test == "bootstrap" else 1
    return sides * max(families.values(), default=0) / (settings.resamples + 1)
