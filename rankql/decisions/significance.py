"""Paired tests of two or more systems: a p-value, and the confidence interval that goes with it.

A pairwise test sees two systems as their differences per query. Its interval at level alpha holds
every shift that it would not reject, so it excludes 0 exactly where p is at most alpha. `wilcoxon`,
which compares ranks and not means, has no interval.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

Array: TypeAlias = NDArray[np.float64]

# Values that differ by less differ by rounding.
ROUNDING = 1e-12
# The patterns of as many signs, 2^20, are all counted; those of more are sampled.
EXACT = 20
# As many numbers are held at once while resampling.
BATCH = 2**21
# The bootstrap rejects too often on fewer queries, and standard errors of fewer clusters are too
# small: tests/simulation.py measures both.
BOOTSTRAP_QUERIES = 15
CLUSTERS = 10

NO_DIFFERENCE = "no difference"
ZERO_VARIANCE = "zero variance"
NOT_TESTABLE = "not testable"
UNBOUNDED = "too few queries for an interval"


@dataclass(frozen=True)
class Setting:
    """How to test: the level of test and interval, resampling, and the range of a difference."""

    alpha: float = 0.05
    resamples: int = 9_999
    seed: int = 7
    # The least and the greatest difference there can be; `anytime` needs them.
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Outcome:
    """A p-value (with its Monte Carlo error if resampled) and an interval, or why there is none."""

    p: float | None = None
    lo: float | None = None
    hi: float | None = None
    word: str = ""
    p_error: float | None = None
    # The sign of the tested statistic, for a test that does not compare means.
    direction: int | None = None

    @classmethod
    def of(cls, p: float, lo: float, hi: float, resamples: int | None = None) -> Outcome:
        """An outcome whose interval may be without end, and so none."""
        bounded = math.isfinite(lo) and math.isfinite(hi)
        error = None if resamples is None else math.sqrt(p * (1 - p) / (resamples + 1))
        if not bounded:
            return cls(float(p), word=UNBOUNDED, p_error=error)
        return cls(float(p), lo, hi, p_error=error)


@dataclass(frozen=True)
class Sample:
    """The differences of two systems by query, and which queries belong together."""

    differences: Array
    clusters: NDArray[np.intp] | None = None

    @cached_property
    def sums(self) -> Array:
        """The sum of the differences of every cluster; a query on its own is one."""
        if self.clusters is None:
            return self.differences
        return np.bincount(self.clusters, self.differences).astype(float)

    @cached_property
    def sizes(self) -> Array:
        """The number of queries of every cluster."""
        if self.clusters is None:
            return np.ones(len(self.differences))
        return np.bincount(self.clusters).astype(float)

    @property
    def units(self) -> int:
        """The number of clusters."""
        return len(self.sums)

    @cached_property
    def mean(self) -> float:
        """The mean difference, over queries."""
        return float(self.differences.mean())

    @cached_property
    def residuals(self) -> Array:
        """What the sums of the clusters would be were the mean zero."""
        return self.sums - self.sizes * self.mean

    @cached_property
    def error(self) -> float:
        """The standard error of the mean: s / sqrt(n); of clusters, the jackknife's (CR3).

        The jackknife leaves out one cluster at a time. It stays large enough where clusters are few
        or of unequal sizes; CR1, the usual one, is too small there.
        """
        total = self.sizes.sum()
        squares = np.square(self.residuals / (1 - self.sizes / total)).sum()
        return float(math.sqrt((self.units - 1) / self.units * squares) / total)

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom: n - 1; of clusters of unequal sizes, Satterthwaite's.

        2 E(V)^2 / Var(V) of the squared jackknife error V, for independent normal differences
        (Bell and McCaffrey 2002), written without the matrix of all pairs of clusters.
        """
        if np.ptp(self.sizes) == 0:
            return self.units - 1.0
        total = self.sizes.sum()
        weights = np.square(1 / (1 - self.sizes / total))
        own, shared = weights * self.sizes, weights * np.square(self.sizes)
        trace = own.sum() - shared.sum() / total
        product = np.square(own).sum() - 2 / total * (own * shared).sum()
        return float(trace**2 / (product + (shared.sum() / total) ** 2))

    @cached_property
    def rounding(self) -> float:
        """What a difference may be off by."""
        return float(ROUNDING * max(1.0, np.abs(self.differences).max(initial=0)))

    @cached_property
    def constant(self) -> bool:
        """Is the difference the same everywhere?"""
        return bool(np.abs(self.residuals / self.sizes).max() <= self.rounding)

    @property
    def effect(self) -> float | None:
        """Cohen's d_z: the mean difference over the standard deviation of the differences."""
        if len(self.differences) < 2 or np.ptp(self.differences) <= self.rounding:
            return None
        return self.mean / float(self.differences.std(ddof=1))

    def detectable(self, alpha: float, power: float = 0.8) -> float | None:
        """The difference that a t test at this level detects with this power, about."""
        if self.units < 2 or self.constant:
            return None
        quantiles = special.stdtrit(self.freedom, [1 - alpha / 2, power]).sum()
        return float(quantiles * self.error)

    @property
    def signs(self) -> tuple[int, int, int]:
        """How many differences are positive, zero and negative."""
        up = int((self.differences > self.rounding).sum())
        down = int((self.differences < -self.rounding).sum())
        return up, len(self.differences) - up - down, down


Test: TypeAlias = Callable[[Sample, Setting], Outcome]
# Of all systems at once: their values by query and system, and the pairs asked for.
Joint: TypeAlias = Callable[[Array, Sequence[tuple[int, int]], Setting], list[Outcome]]


def t(sample: Sample, setting: Setting) -> Outcome:
    """Student's paired t test: mean / (s / sqrt(n)) with n - 1 degrees of freedom."""
    p = 2 * special.stdtr(sample.freedom, -abs(sample.mean / sample.error))
    width = special.stdtrit(sample.freedom, 1 - setting.alpha / 2) * sample.error
    return Outcome(float(p), float(sample.mean - width), float(sample.mean + width))


def randomisation(sample: Sample, setting: Setting) -> Outcome:
    """Fisher's randomisation test: how often random signs give so large a mean (Smucker 2007).

    Under a shift d the sums B of the signed differences become B - d C, where C sums the signs
    alone. |B - d C| >= |A - d N|, the observed one, holds between two shifts, known in closed form.
    """
    columns = np.stack([sample.sums, sample.sizes])
    exact = sample.units <= EXACT
    signed, count = _all_signs(columns) if exact else _random_signs(columns, setting)
    total, size = sample.sums.sum(), sample.sizes.sum()
    dust = ROUNDING * max(size, np.abs(sample.sums).sum())

    def root(difference: Array, among: Array) -> Array:
        return np.where(np.abs(difference) <= dust, 0.0, difference) / among

    mixed = np.abs(count) < size - 0.5  # all of one sign: holds at every shift
    one = root(total - signed[mixed], size - count[mixed])
    other = root(total + signed[mixed], size + count[mixed])
    free = np.full(len(signed) - len(one), np.inf)
    low = np.concatenate([-free, np.minimum(one, other)])
    high = np.concatenate([free, np.maximum(one, other)])
    extra = 0 if exact else 1  # the observed one is one of the patterns
    patterns = len(signed) + extra
    p = (extra + np.count_nonzero((low <= 0) & (high >= 0))) / patterns
    # The first shift from below at which more than alpha of the patterns hold.
    first = math.floor(setting.alpha * patterns - extra + 1e-9)
    lo = -np.inf if first < 0 else float(np.partition(low, first)[first])
    hi = np.inf if first < 0 else float(-np.partition(-high, first)[first])
    return Outcome.of(p, lo, hi, None if exact else setting.resamples)


def bootstrap(sample: Sample, setting: Setting) -> Outcome:
    """The studentised bootstrap (bootstrap-t): queries drawn with replacement.

    Each resample gives a t of its own, (its mean - mean) / its standard error. Their quantiles take
    the place of Student's in both tails, which allows for skewed differences.
    """
    n, centred = sample.units, sample.residuals
    sums, squares = _drawn(np.stack([centred, np.square(centred)]), setting)
    spread = squares - np.square(sums) / n
    spread[spread <= ROUNDING * squares] = 0.0
    sums[np.abs(sums) <= n * sample.rounding] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = sums / n / np.sqrt(spread / (n - 1) / n)
    drawn = np.nan_to_num(drawn, nan=0.0, posinf=np.inf, neginf=-np.inf) * sample.error
    mean = sample.mean
    drawn = np.where(np.abs(drawn - mean) <= ROUNDING * abs(mean), mean, drawn)
    tail = min(np.count_nonzero(drawn >= mean), np.count_nonzero(drawn <= mean))
    p = min(1.0, 2 * (1 + tail) / (len(drawn) + 1))
    beyond = math.floor(setting.alpha * (len(drawn) + 1) / 2 + 1e-9)
    if not beyond:
        return Outcome.of(p, -math.inf, math.inf, setting.resamples)
    low = float(np.partition(drawn, beyond - 1)[beyond - 1])
    high = float(-np.partition(-drawn, beyond - 1)[beyond - 1])
    return Outcome.of(p, mean - high, mean - low, setting.resamples)


def _symmetric(mean: float, drawn: Array, dust: float, setting: Setting) -> Outcome:
    """How many of those drawn under the null are as large; an interval as wide as all but alpha."""
    drawn = np.where(np.abs(drawn - abs(mean)) <= dust, abs(mean), drawn)
    p = (1 + np.count_nonzero(drawn >= abs(mean))) / (len(drawn) + 1)
    beyond = math.floor(setting.alpha * (len(drawn) + 1) + 1e-9)
    width = float(-np.partition(-drawn, beyond - 1)[beyond - 1]) if beyond else math.inf
    return Outcome.of(p, mean - width, mean + width, setting.resamples)


def wilcoxon(sample: Sample, setting: Setting) -> Outcome:
    """Wilcoxon's signed-rank test. Differences that rounding alone tells apart are tied."""
    sizes = np.abs(sample.differences)
    order = np.argsort(sizes, kind="stable")
    starts = np.diff(sizes[order], prepend=-1.0) > sample.rounding
    tied = np.empty_like(sizes)
    tied[order] = sizes[order][np.maximum.accumulate(np.where(starts, np.arange(len(sizes)), 0))]
    tied[tied <= sample.rounding] = 0.0
    p = float(stats.wilcoxon(np.copysign(tied, sample.differences)).pvalue)
    ranks = stats.rankdata(tied[tied > 0])
    direction = np.sign((ranks * np.sign(sample.differences[tied > 0])).sum())
    return Outcome(p, direction=int(direction))


# The bets of `anytime`, as shares of the largest one that cannot lose everything. A factor of
# sqrt(2) between them costs at most 9% of the growth of the best one; the least suits 10^7 queries.
_BETS = 0.95 * 2.0 ** (-np.arange(24) / 2)
# More differences than this are rounded to as many steps of their range, without favour.
_STEPS = 4096


def anytime(sample: Sample, setting: Setting) -> Outcome:
    """A confidence sequence by betting (Waudby-Smith and Ramdas 2024): valid at every look.

    For each mean m, a gambler bets a fixed share of the capital on every difference x being above
    m. If m is the true mean, the capital, averaged over the shares in `_BETS`, exceeds 1 / alpha at
    any time with a probability of at most alpha (Ville's inequality): no normality, no minimum n.
    Another gambler bets on below. As the shares are fixed, the order of the queries changes
    nothing, so neither does the order in which they arrived.
    """
    if setting.bounds is None:
        raise ValueError("anytime needs Setting(bounds=...)")
    low, high = setting.bounds
    points, weights = _steps(np.sort(sample.differences), low, high)
    above = (points - low, weights, low)
    below = (np.flip(high - points).copy(), np.flip(weights).copy(), -high)
    p = min(1.0, 2 * min(_ruin(0.0, *above), _ruin(0.0, *below)))
    lo = _lower_end(*above, sample.mean, setting.alpha / 2)
    hi = -_lower_end(*below, -sample.mean, setting.alpha / 2)
    return Outcome(p, float(lo), float(hi))


def _steps(values: Array, low: float, high: float) -> tuple[Array, Array]:
    """Sorted values and how often each counts; of many, on a grid.

    A value between two points of the grid is shared out to both so that its mean is kept. The
    logarithm of the capital is concave in it, so that this never raises the capital.
    """
    if len(values) <= _STEPS:
        return values, np.ones(len(values))
    place = np.clip((values - low) / (high - low), 0, 1) * _STEPS
    below = np.minimum(place.astype(np.intp), _STEPS - 1)
    upper = np.bincount(below, place - below, minlength=_STEPS)
    lower = np.bincount(below, minlength=_STEPS) - upper
    weights = np.append(lower, 0.0) + np.append(0.0, upper)
    return np.linspace(low, high, _STEPS + 1), weights


def _ruin(mean: float, heights: Array, weights: Array, low: float) -> float:
    """One over the capital of who bets that values, `heights` above the least, exceed the mean."""
    with np.errstate(divide="ignore"):
        growth = np.log1p(_BETS[:, None] * (heights / (mean - low) - 1))
    # A loss of everything (-inf) counts only where there is such a value.
    logs = np.where(weights > 0, growth, 0.0) @ weights
    most = logs.max()
    return (
        float(len(_BETS) * np.exp(-most) / np.exp(logs - most).sum())
        if most > -np.inf
        else math.inf
    )


def _lower_end(heights: Array, weights: Array, low: float, mean: float, alpha: float) -> float:
    """The least mean that is not rejected, by bisection: the capital falls as the mean rises."""

    def rejected(at: float) -> bool:
        return at <= low or _ruin(at, heights, weights, low) <= alpha

    # 0 is among the means looked at, so that the interval excludes it exactly if p <= alpha.
    left, right = (0.0, max(mean, 0.0)) if rejected(0.0) else (low, min(mean, 0.0))
    for _ in range(50):
        middle = (left + right) / 2
        left, right = (middle, right) if rejected(middle) else (left, middle)
    return right


def tukey(values: Array, pairs: Sequence[tuple[int, int]], setting: Setting) -> list[Outcome]:
    """Tukey's HSD of the two-way layout, systems by queries: it keeps the pairing.

    q = |difference| / sqrt(V / n), V the variance left by systems and queries.
    """
    n, m = values.shape
    free = (m - 1) * (n - 1)
    error = left_over(values)
    if not error:
        return [Outcome(word=ZERO_VARIANCE) for _ in pairs]
    means = values.mean(0)
    differences = np.array([means[b] - means[a] for a, b in pairs])
    with warnings.catch_warnings():  # far out it stops short of its own tolerance
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        p = stats.studentized_range.sf(np.abs(differences) / error, m, free)
    width = _critical(setting.alpha, m, free) * error
    found = zip(np.atleast_1d(p), differences, strict=True)
    return [Outcome(float(p), float(d - width), float(d + width)) for p, d in found]


@cache
def _critical(alpha: float, systems: int, free: int) -> float:
    return float(stats.studentized_range.isf(alpha, systems, free))


def left_over(values: Array) -> float:
    """The standard error of a mean that systems and queries leave; 0 where they explain all."""
    n, m = values.shape
    rows = np.sort(values, axis=1)  # the order of the systems changes no bit
    left = values - rows.mean(1, keepdims=True) - values.mean(0) + rows.mean()
    error = math.sqrt(np.sort(np.square(left).sum(0)).sum() / ((m - 1) * (n - 1)) / n)
    return error if error > ROUNDING * max(1.0, float(np.abs(values).max())) else 0.0


def randomised_tukey(
    values: Array, pairs: Sequence[tuple[int, int]], setting: Setting
) -> list[Outcome]:
    """Randomised Tukey (Carterette 2012): the scores of each query permuted among the systems.

    A difference is compared with the largest one of all pairs.
    """
    rng = np.random.default_rng(setting.seed)
    n, m = values.shape
    centre, dust = values.mean(0), ROUNDING * max(1.0, float(np.abs(values).max()))
    values = np.sort(values, axis=1)  # the order of the systems changes no bit
    ranges = np.empty(setting.resamples)
    rows = max(1, BATCH // m)
    batch = max(1, rows // n)
    for start in range(0, len(ranges), batch):
        means = np.zeros((min(batch, len(ranges) - start), m))
        for row in range(0, n, rows):
            some = np.broadcast_to(
                values[row : row + rows], (len(means), *values[row : row + rows].shape)
            )
            means += rng.permuted(some, axis=2).sum(1) / n
        ranges[start : start + batch] = np.ptp(means, axis=1)
    return [_symmetric(float(centre[b] - centre[a]), ranges, dust, setting) for a, b in pairs]


def _all_signs(columns: Array) -> Array:
    """The sums of each row of columns under every pattern of signs."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


# What the eight bits of a byte say of eight signs.
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def _random_signs(columns: Array, setting: Setting) -> Array:
    """The sums of each row of columns under random patterns of signs.

    Eight units at a time: a random byte picks one of their 256 signed sums.
    """
    rng = np.random.default_rng(setting.seed)
    height = len(columns)
    padded = np.pad(columns, ((0, 0), (0, -columns.shape[1] % 8))).reshape(height, -1, 8)
    sums = np.zeros((height, setting.resamples))
    picked = np.empty(setting.resamples)
    step = max(1, BATCH // max(setting.resamples, 256))
    for start in range(0, padded.shape[1], step):
        tables = padded[:, start : start + step] @ _SIGNS.T
        bits = rng.integers(0, 256, (tables.shape[1], setting.resamples), dtype=np.uint8)
        for i, byte in enumerate(bits):
            for j in range(height):
                np.take(tables[j, i], byte, out=picked, mode="clip")
                sums[j] += picked
    return sums


def _drawn(columns: Array, setting: Setting) -> Array:
    """The sums of each row of columns over as many of them drawn with replacement."""
    rng = np.random.default_rng(setting.seed)
    n = columns.shape[1]
    sums = np.empty((len(columns), setting.resamples))
    step = max(1, BATCH // n)
    for start in range(0, setting.resamples, step):
        drawn = rng.integers(0, n, (min(step, setting.resamples - start), n), dtype=np.uint32)
        for row, column in zip(sums, columns, strict=True):
            row[start : start + step] = column[drawn].sum(1)
    return sums


@dataclass(frozen=True)
class Named:
    """A test by its name, and what it can do."""

    label: str
    pair: Test | None = None
    joint: Joint | None = None
    clusters: bool = False
    constant: bool = False  # can say something where the difference is the same everywhere
    resamples: bool = False
    interval: bool = True  # of its own p
    least: int = 2  # as many queries it needs


TESTS = {
    "t": Named("paired t test", t, clusters=True),
    "randomisation": Named(
        "randomisation test", randomisation, clusters=True, constant=True, resamples=True
    ),
    "bootstrap": Named("studentised bootstrap", bootstrap, resamples=True, least=BOOTSTRAP_QUERIES),
    "wilcoxon": Named("Wilcoxon signed-rank test", wilcoxon, constant=True, interval=False),
    "anytime": Named("anytime-valid confidence sequence", anytime, constant=True),
    "tukey": Named("Tukey's HSD", joint=tukey, constant=True),
    "randomised_tukey": Named(
        "randomised Tukey test", joint=randomised_tukey, constant=True, resamples=True
    ),
}


def untestable(name: str, sample: Sample) -> str:
    """Reason why a test cannot be applied, or an empty text."""
    if sample.units < least(name, sample.clusters is not None):
        return NOT_TESTABLE
    if np.abs(sample.differences).max() <= sample.rounding:
        return NO_DIFFERENCE
    return ZERO_VARIANCE if sample.constant and not TESTS[name].constant else ""


def least(name: str, clusters: bool) -> int:
    """The number of queries, or of clusters, that a test needs."""
    return CLUSTERS if clusters else TESTS[name].least


CORRECTIONS = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini-Hochberg",
    "none": "none",
}


def adjusted(p: Sequence[float], correction: str, blocks: int | None = None) -> list[float]:
    """p-values corrected for their number: Holm, Bonferroni, Benjamini-Hochberg.

    `blocks` is the number of families within which they are corrected already (Tukey).
    """
    values = np.asarray(p, dtype=float)
    if blocks is not None and correction != "none":
        return [float(x) for x in np.minimum(1, values * blocks)]
    if correction == "bonferroni":
        return [float(x) for x in np.minimum(1, values * len(values))]
    if correction == "bh" and len(values):
        return [float(x) for x in stats.false_discovery_control(values, method="bh")]
    if correction == "holm":
        order = np.argsort(values, kind="stable")
        steps = values[order] * np.arange(len(values), 0, -1)
        values[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(values) else steps
    return [float(x) for x in values]


def levels(
    p: Sequence[float],
    p_adjusted: Sequence[float],
    correction: str,
    alpha: float,
    blocks: int | None = None,
) -> list[float]:
    """The level of each test within its family: p is at most that where p_adjusted <= alpha.

    An interval at this level excludes 0 exactly where the adjusted p-value is significant. Holm:
    alpha / (m - i) at step i, and that of the first step that fails for all after it.
    Benjamini-Hochberg: R alpha / m of R rejected ones, the false coverage rate of Benjamini and
    Yekutieli (2005).
    """
    values, rejected = np.asarray(p, dtype=float), np.asarray(p_adjusted, dtype=float) <= alpha
    tests, found = len(values), int(rejected.sum())
    if correction == "none":
        steps = np.full(tests, alpha)
    elif blocks is not None:
        steps = np.full(tests, alpha / blocks)
    elif correction == "bonferroni":
        steps = np.full(tests, alpha / tests)
    elif correction == "bh":
        steps = np.full(tests, alpha * max(1, found) / tests)
    else:
        step = np.where(rejected, np.searchsorted(np.sort(values), values), found)
        steps = alpha / (tests - step)
    # The two sides of p * m <= alpha and p <= alpha / m may differ in the last bit.
    kept = np.minimum(steps, np.nextafter(values, 0))
    return [float(x) for x in np.where(rejected, np.maximum(steps, values), kept)]
