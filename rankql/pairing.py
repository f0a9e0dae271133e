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

from rankql import show
from rankql.arguments import whole
from rankql.errors import RankqlError, did_you_mean
from rankql.names import lower_is_better
from rankql.result import Result, slices
from rankql.significance import (
    CORRECTIONS,
    NO_DIFFERENCE,
    NOT_TESTABLE,
    TESTS,
    ZERO_VARIANCE,
    Array,
    Outcome,
    Sample,
    Setting,
    adjusted,
    left_over,
    untestable,
)

MICRO = "a mean over all queries at once"
TOO_FEW = "too few queries"
FAMILIES = ("all", "metric")


SCHEMA = {
    **dict.fromkeys(("metric", "a", "b", "slice"), pl.String),
    **dict.fromkeys(("mean_a", "mean_b", "difference", "lo", "hi"), pl.Float64),
    **dict.fromkeys(("p", "p_adjusted", "p_error", "effect"), pl.Float64),
    **dict.fromkeys(("wins", "ties", "losses", "n"), pl.Int64),
    **{"detectable": pl.Float64, "verdict": pl.String, "sentence": pl.String},
}


_LEAST = {"resamples": 100, "seed": 0, "horizon": 2, "min_queries": 0}


@dataclass(frozen=True)
class Settings:
    """How systems are compared."""

    test: str
    correction: str
    family: str
    simultaneous: bool
    confidence: float
    cluster: str | None
    baseline: str | None
    resamples: int
    seed: int
    horizon: int
    min_queries: int

    def check(self) -> None:
        """Refuse what there is not."""
        named: dict[str, Iterable[str]]
        named = {"test": TESTS, "correction": CORRECTIONS, "family": FAMILIES}
        for name, choices in named.items():
            value = getattr(self, name)
            if value not in [*choices]:
                raise RankqlError(
                    f"{name}: there is no {value!r}{did_you_mean(str(value), [*choices])}"
                )
        if not isinstance(self.confidence, float) or not 0 < self.alpha < 1:
            raise RankqlError(f"confidence must lie between 0 and 1, not {self.confidence}")
        for name, least in _LEAST.items():
            whole(name, getattr(self, name), least)
        if not isinstance(self.simultaneous, bool):
            raise RankqlError(f"simultaneous must be True or False, not {self.simultaneous!r}")
        if self.cluster is not None and not TESTS[self.test].clusters:
            able = ", ".join(repr(name) for name, test in TESTS.items() if test.clusters)
            raise RankqlError(f"test={self.test!r} knows no clusters; use one of {able}")
        if TESTS[self.test].joint and self.correction == "bh":
            raise RankqlError(
                f"test={self.test!r} corrects for its pairs itself; use correction='holm' for the "
                "metrics and slices, or 'none'"
            )

    @property
    def alpha(self) -> float:
        """The level that goes with the confidence."""
        return round(1 - self.confidence, 12)


def lined_up(result: Result, systems: Sequence[str]) -> Result:
    """The result with a row for every system and query.

    A query that a system lacks is one that is missing: 0 where another system has a value, NULL
    where less is better. An attribute that a run without the query cannot know is that of the
    others.
    """
    key, by, metrics = result.meta["query"], result.meta["by"], result.metrics
    rows = result.frame()
    if not result.meta["system"]:
        rows = rows.select(pl.lit(systems[0]).alias("system"), pl.all())
    for name in metrics:
        if len(wrong := rows.filter(~pl.col(name).is_finite()).sort("system", key)):
            raise RankqlError(
                f"{name} of {wrong['system'][0]!r} is {wrong[name][0]} for query "
                f"{wrong[key][0]!r}; a value must be a finite number, or NULL where undefined"
            )
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
    filled = [name for name in metrics if not lower_is_better(name)]
    whole = (
        known.with_columns(pl.col(name).list.first() for name in by)
        .join(pl.DataFrame({"system": systems}), how="cross")
        .join(rows.drop(by), on=["system", key], how="left")
        .with_columns(
            pl.when(pl.col("missing").is_null())
            .then(pl.col(_zero(name)))
            .otherwise(pl.col(name))
            .alias(name)
            for name in filled
        )
        .with_columns(pl.col("missing").fill_null(True))
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
        value = pl.when(~pl.col("missing")).then(value)
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
            for label, of in slices(queries, result.meta["groupings"]).items()
        }
        codes = None
        if cluster is not None:
            if queries[cluster].null_count():
                one = queries.filter(pl.col(cluster).is_null())[key][0]
                raise RankqlError(f"cluster: {cluster} is NULL for query {one!r}")
            codes = queries[cluster].rank("dense").to_numpy().astype(np.intp) - 1
        missing = {name: int(frame["missing"].sum()) for name, frame in frames.items()}
        kept = ~pl.col("missing") | pl.lit(rules["missing"] != "skip")
        empty = {
            name: rows.filter(pl.col(name).is_null() & kept)[key].n_unique()
            for name in result.metrics
        }
        return cls(list(systems), queries, values, found, codes, missing, empty)

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
    """One pair on one metric and slice, and what the test made of it."""

    metric: str
    a: str
    b: str
    slice: str
    of_a: Array
    of_b: Array
    clusters: NDArray[np.intp] | None = None
    micro: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    p_adjusted: float | None = None

    def __post_init__(self) -> None:
        self.sample = Sample(self.of_b - self.of_a, self.clusters)

    def why_not(self, settings: Settings) -> str:
        """The word for why this is not tested, if so."""
        if self.micro:
            return MICRO
        word = untestable(settings.test, self.sample)
        few = self.slice != "all" and len(self.of_a) < settings.min_queries
        return word if word or not few else TOO_FEW

    def row(self, settings: Settings, family: int) -> dict[str, Any]:
        """The row of the table."""
        n = len(self.of_a)
        lower = lower_is_better(self.metric)
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
            "detectable": self.sample.detectable(settings.alpha) if shown else None,
            "verdict": self.verdict(settings, lower),
            "sentence": self.sentence(settings, lower, family),
        }

    def verdict(self, settings: Settings, lower: bool) -> str:
        """Better, worse, no evidence; or the word for what cannot be tested."""
        if self.p_adjusted is None:
            return self.outcome.word
        if self.p_adjusted > settings.alpha or not self.sample.mean:
            return "no evidence"
        return "better" if (self.sample.mean > 0) != lower else "worse"

    def sentence(self, settings: Settings, lower: bool, family: int) -> str:
        """What was found, in words."""
        a, b, n = self.a, self.b, len(self.of_a)
        verdict = self.verdict(settings, lower)
        on = f"on {n} {'query' if n == 1 else 'queries'}"
        if verdict == MICRO:
            return f"{b} and {a} cannot be tested: {self.metric} is {MICRO}, not a mean of queries"
        if n == 0:
            return f"{b} and {a} have no query in common for which both are defined"
        if verdict == NO_DIFFERENCE:
            return f"no difference between {b} and {a} {on}: every value is the same"
        if verdict == NOT_TESTABLE:
            few = "too few" if self.clusters is None else "too few clusters"
            return f"{b} differs from {a} by {self.sample.mean:.3g} {on}: {few} to test"
        if verdict == TOO_FEW:
            least = settings.min_queries
            return f"{b} differs from {a} by {self.sample.mean:.3g} {on}: not tested under {least}"
        if verdict == ZERO_VARIANCE:
            return (
                f"{b} differs from {a} by {self.sample.mean:.3g} {on}, the same everywhere: the "
                f"{TESTS[settings.test].label} cannot say how probable that is"
            )
        assert self.p_adjusted is not None
        p = show.chance(self.p_adjusted)
        if family > 1 and TESTS[settings.test].joint:
            p += f", {TESTS[settings.test].label} over {family} tests"
        elif family > 1 and settings.correction != "none":
            p += f", {CORRECTIONS[settings.correction]} over {family} tests"
        if verdict == "no evidence":
            detectable = self.sample.detectable(settings.alpha)
            shows = detectable is not None and detectable > abs(self.sample.mean)
            would = f"; {detectable:.2g} would show" if shows else ""
            return f"no evidence that {b} and {a} differ: {self._size()} {on} ({p}){would}"
        by = self._size(1 if self.sample.mean > 0 else -1)
        return f"{b} is {verdict} than {a} by {by} {on}; such a difference by chance: {p}"

    def _size(self, sign: int = 1) -> str:
        """The difference with its interval, to two digits of the latter."""
        lo, hi, mean = self.outcome.lo, self.outcome.hi, self.sample.mean
        if lo is None or hi is None:
            return f"{sign * mean:.3g}"
        digits = show.digits(lo, hi)
        lo, mean, hi = sorted((sign * lo, sign * mean, sign * hi))
        if math.isclose(hi - mean, mean - lo, rel_tol=1e-6):
            return f"{mean:.{digits}f} ± {hi - mean:.{digits}f}"
        return f"{mean:.{digits}f} ({lo:.{digits}f} to {hi:.{digits}f})"


def tried(
    values: Values, metrics: Sequence[str], micro: Collection[str],
    pairs: Sequence[tuple[str, str]], settings: Settings,
) -> tuple[list[Trial], dict[str, int]]:  # fmt: skip
    """Every pair on every metric and slice, and the number of tests in the family of each metric.

    What cannot be tested is no part of a family.
    """
    test = TESTS[settings.test]
    whole = test.joint is not None
    trials = [
        Trial(metric, a, b, label, *values.pair(metric, a, b, label, whole), metric in micro)
        for metric in metrics
        for label in values.slices
        for a, b in pairs
    ]
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

    sizes = Counter(map(of, able))
    blocks = Counter(metric for metric, _ in {(of(x), (x.metric, x.slice)) for x in able})
    for (metric, label), some in itertools.groupby(able, lambda x: (x.metric, x.slice)):
        block = list(some)
        tests = (blocks if whole else sizes)[of(block[0])]
        alpha = settings.alpha / (tests if settings.simultaneous else 1)
        setting = Setting(alpha, settings.resamples, settings.seed, settings.horizon)
        if test.joint:
            places = [(values.systems.index(x.a), values.systems.index(x.b)) for x in block]
            found = test.joint(values.block(metric, label), places, setting)
        else:
            assert test.pair
            found = [test.pair(trial.sample, setting) for trial in block]
        for trial, outcome in zip(block, found, strict=True):
            trial.outcome = outcome
    for family in sizes:
        part = [x for x in able if of(x) == family and x.outcome.p is not None]
        p = adjusted(
            [x.outcome.p for x in part if x.outcome.p is not None],
            settings.correction,
            blocks[family] if whole else None,
        )
        for trial, value in zip(part, p, strict=True):
            trial.p_adjusted = value
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
    trials, families = tried(values, result.metrics, result.meta["weights"], pairs, settings)
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
    """How it was tested, and what was left out."""
    test = TESTS[settings.test]
    found = []
    if len(values.systems) < 2:
        return [f"there is one system, {values.systems[0]!r}: nothing to compare it with"]
    found.append(_family(families, settings))
    level = f"{100 * settings.confidence:.12g}%"
    if not test.interval:
        found.append(
            f"lo, hi: the {level} interval of the mean difference by the paired t test; the "
            f"{test.label} does not ask about the mean, so they may disagree"
        )
    elif settings.simultaneous:
        found.append(f"lo, hi: {level} for all intervals together (Bonferroni)")
    else:
        found.append(f"lo, hi: the {level} interval of each difference, which goes with p")
    if test.resamples:
        errors = [x.outcome.p_error for x in trials if x.outcome.p_error is not None]
        exact = sum(x.outcome.p is not None and x.outcome.p_error is None for x in trials)
        if errors:
            found.append(
                f"p of {settings.resamples:,} resamples with seed {settings.seed}: "
                f"off by {max(errors):.1g} at most (one standard error)"
            )
        if errors and (floor := _floor(families, settings)) > settings.alpha:
            enough = math.ceil(2 * settings.resamples * floor / settings.alpha)
            found.append(
                f"p_adjusted is {floor:.2g} at least, of so few resamples and so many tests; "
                f"resamples={enough} would do"
            )
        if exact:
            found.append(f"{exact} p exact, of all patterns of signs")
    if values.clusters is not None:
        count = len(set(values.clusters.tolist()))
        found.append(f"queries are clustered by {settings.cluster}: {count} clusters")
    words = Counter(x.outcome.word for x in trials if x.outcome.p is None)
    if words:
        reasons = ", ".join(f"{word}: {count}" for word, count in words.items())
        found.append(
            f"{words.total()} of {len(trials)} rows cannot be tested, in no family ({reasons})"
        )
    total = len(values.queries)
    for system, count in values.missing.items():
        if count:
            rule = "left out" if rules["missing"] == "skip" else "counted as 0"
            found.append(f"{count} of {total} queries are missing in {system}: {rule}")
    for metric, count in values.undefined.items():
        if count:
            rule = "counted as 0" if rules["undefined"] == "zero" else "left out"
            found.append(
                f"{metric}: {count} of {total} queries are undefined in some system and {rule}"
            )
    lower = [metric for metric in values.values if lower_is_better(metric)]
    if lower:
        found.append(f"less is better of {', '.join(lower)}")
    return found


def _floor(families: Mapping[str, int], settings: Settings) -> float:
    """What p_adjusted cannot fall below, by the number of resamples."""
    if settings.correction not in ("holm", "bonferroni") or TESTS[settings.test].joint:
        return 0.0
    sides = 2 if settings.test in ("bootstrap", "bca") else 1
    return sides * max(families.values(), default=0) / (settings.resamples + 1)


def _family(families: Mapping[str, int], settings: Settings) -> str:
    test = TESTS[settings.test]
    label = test.label[0].upper() + test.label[1:]
    sizes = set(families.values())
    size = ", ".join(f"{count} of {metric}" for metric, count in families.items())
    tests = f"{sizes.pop()} tests" if settings.family == "all" or len(sizes) == 1 else size
    if settings.correction == "none":
        return f"{label}; p_adjusted is p: no correction for {tests}"
    per = " of a metric" if settings.family == "metric" else ""
    correction = CORRECTIONS[settings.correction]
    if test.joint:
        return (
            f"{label}, which corrects for the pairs itself; p_adjusted: Bonferroni over metrics "
            f"and slices, {tests}{per} in all"
        )
    return f"{label}; p_adjusted: {correction} over {tests}{per} (metrics x pairs x slices)"
