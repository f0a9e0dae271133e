"""Is a difference between systems more than noise? A p-value, and the interval that goes with it.

A test sees what two systems got for the same queries as their differences. Its interval holds every
shift that it would not reject, so that zero lies within it just where p is above alpha; `wilcoxon`
and `sign`, which do not ask about the mean, come with the interval of the t test.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

NO_DIFFERENCE = "no difference"
ZERO_VARIANCE = "zero variance"
NOT_TESTABLE = "not testable"
UNBOUNDED = "too few queries for an interval"


@dataclass(frozen=True)
class Setting:
    """How to test: what the interval leaves out, and how to resample."""

    alpha: float = 0.05
    resamples: int = 9_999
    seed: int = 7
    # The number of queries (or clusters) at which the anytime-valid interval is narrowest.
    horizon: int = 100


@dataclass(frozen=True)
class Outcome:
    """A p-value with the Monte Carlo error it has where resampled, an interval, or why not."""

    p: float | None = None
    lo: float | None = None
    hi: float | None = None
    word: str = ""
    p_error: float | None = None

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
        """The standard error of the mean: s / sqrt(n), or that robust to clusters (CR1)."""
        spread = self.units / (self.units - 1) * np.square(self.residuals).sum()
        return float(math.sqrt(spread) / len(self.differences))

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
        """The least difference that a t test with so many queries of such spread shows."""
        if self.units < 2 or self.constant:
            return None
        free = self.units - 1
        quantiles = special.stdtrit(free, 1 - alpha / 2) + special.stdtrit(free, power)
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
    free = sample.units - 1
    p = 2 * special.stdtr(free, -abs(sample.mean / sample.error))
    width = special.stdtrit(free, 1 - setting.alpha / 2) * sample.error
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
    """The percentile bootstrap: queries drawn with replacement; p by inverting the interval."""
    return _bootstrap(sample, setting, 0.0, 0.0)


def bca(sample: Sample, setting: Setting) -> Outcome:
    """The bootstrap corrected for bias and acceleration (Efron 1987)."""
    sums, sizes = sample.sums, sample.sizes
    without = (sums.sum() - sums) / (sizes.sum() - sizes)
    skew = without.mean() - without
    spread = np.square(skew).sum() ** 1.5
    acceleration = float((skew**3).sum() / (6 * spread)) if spread else 0.0
    return _bootstrap(sample, setting, None, acceleration)


def _bootstrap(
    sample: Sample, setting: Setting, bias: float | None, acceleration: float
) -> Outcome:
    drawn, size = _drawn(np.stack([sample.sums, sample.sizes]), setting)
    means = drawn / size
    means[np.abs(means) <= sample.rounding] = 0.0
    if bias is None:
        below = (means < sample.mean - sample.rounding).sum()
        above = (means > sample.mean + sample.rounding).sum()
        share = 0.5 + abs(below - above) / (2 * len(means))  # one number for it and its mirror
        bias = float(special.ndtri(min(share, 1 - 1 / (len(means) + 1))))
        bias = math.copysign(bias, below - above)
    low, tail = _least(np.sort(means), bias, acceleration, setting.alpha / 2)
    high, other = _least(np.sort(-means), -bias, -acceleration, setting.alpha / 2)
    return Outcome.of(min(1.0, 2 * min(tail, other)), low, -high, setting.resamples)


def _least(means: Array, bias: float, acceleration: float, alpha: float) -> tuple[float, float]:
    """The least of the sorted means that a one-sided test at alpha keeps; p at zero."""
    share = np.arange(1, len(means) + 2) / (len(means) + 1)
    moved = special.ndtri(share[:-1]) - bias
    scale = 1 + acceleration * moved
    with np.errstate(divide="ignore"):
        moved = np.where(scale > 0, moved / scale, np.copysign(np.inf, moved))
    # How probable is it to stand below as many of the means as 0, 1, 2, ... all?
    p = np.append(special.ndtr(moved - bias), 1.0)
    kept = int(np.argmax(p > alpha))
    at_zero = float(p[np.searchsorted(means, 0.0, side="right")])
    return (-math.inf if kept == 0 else float(means[kept - 1])), at_zero


def shift(sample: Sample, setting: Setting) -> Outcome:
    """Sakai's shift method (2006): the t of resampled differences whose mean was made zero."""
    n, off = sample.units, sample.residuals
    sums, squares = _drawn(np.stack([off, off**2]), setting)
    mean = sums / n
    spread = squares - n * mean**2
    spread[spread <= ROUNDING * squares] = 0.0
    error = np.sqrt(spread / (n - 1) / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.nan_to_num(np.abs(mean / error), nan=0.0, posinf=np.inf)
    return _symmetric(sample.mean, drawn * sample.error, ROUNDING * abs(sample.mean), setting)


def _symmetric(mean: float, drawn: Array, dust: float, setting: Setting) -> Outcome:
    """How many of those drawn under the null are as large; an interval as wide as all but alpha."""
    drawn = np.where(np.abs(drawn - abs(mean)) <= dust, abs(mean), drawn)
    p = (1 + np.count_nonzero(drawn >= abs(mean))) / (len(drawn) + 1)
    beyond = math.floor(setting.alpha * (len(drawn) + 1) + 1e-9)
    width = float(-np.partition(-drawn, beyond - 1)[beyond - 1]) if beyond else math.inf
    return Outcome.of(p, mean - width, mean + width, setting.resamples)


def wilcoxon(sample: Sample, setting: Setting) -> Outcome:
    """Wilcoxon's signed ranks, those that rounding alone tells apart tied."""
    sizes = np.abs(sample.differences)
    order = np.argsort(sizes, kind="stable")
    starts = np.diff(sizes[order], prepend=-1.0) > sample.rounding
    alike = np.empty_like(sizes)
    alike[order] = sizes[order][np.maximum.accumulate(np.where(starts, np.arange(len(sizes)), 0))]
    alike[alike <= sample.rounding] = 0.0
    p = float(stats.wilcoxon(np.copysign(alike, sample.differences)).pvalue)
    return replace(_beside(sample, setting), p=p)


def sign(sample: Sample, setting: Setting) -> Outcome:
    """The sign test: wins among wins and losses, against an even chance."""
    wins, _, losses = sample.signs
    p = float(stats.binomtest(wins, wins + losses).pvalue)
    return replace(_beside(sample, setting), p=p)


def _beside(sample: Sample, setting: Setting) -> Outcome:
    return Outcome() if sample.constant else t(sample, setting)


def anytime(sample: Sample, setting: Setting) -> Outcome:
    """A confidence sequence: valid however often one looks, and whenever one stops.

    The t of every look against a normal mixture of effects (Lai 1976; Wang and Ramdas 2024): with
    x = t^2 / (n - 1) and g = n times the variance of the mixture, p is at most 1 and

        sqrt(1 + g) ((1 + x / (1 + g)) / (1 + x))^(n / 2),

    of normal differences at every n, of others as n grows. Narrowest about `horizon` queries.
    """
    n = sample.units
    log = -2 * math.log(0.05)
    mixture = n * (log + math.log(log) + 1) / setting.horizon
    x = (sample.mean / sample.error) ** 2 / (n - 1)
    shrunk = n / 2 * (math.log1p(x / (1 + mixture)) - math.log1p(x))
    p = min(1.0, math.exp(math.log1p(mixture) / 2 + shrunk))
    growth = 2 / n * (math.log1p(mixture) / 2 - math.log(setting.alpha))
    ratio = math.expm1(growth)
    room = 1 - (1 + ratio) / (1 + mixture) if growth < math.log1p(mixture) else 0.0
    if room <= 0:
        return Outcome.of(p, -math.inf, math.inf)
    width = sample.error * math.sqrt(ratio / room * (n - 1))
    return Outcome(p, sample.mean - width, sample.mean + width)


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


TESTS = {
    "t": Named("paired t test", t, clusters=True),
    "randomisation": Named(
        "randomisation test", randomisation, clusters=True, constant=True, resamples=True
    ),
    "bootstrap": Named("percentile bootstrap", bootstrap, clusters=True, resamples=True),
    "bca": Named("BCa bootstrap", bca, clusters=True, resamples=True),
    "shift": Named("shift-method bootstrap", shift, clusters=True, resamples=True),
    "wilcoxon": Named("Wilcoxon signed-rank test", wilcoxon, constant=True, interval=False),
    "sign": Named("sign test", sign, constant=True, interval=False),
    "anytime": Named("anytime-valid confidence sequence", anytime, clusters=True),
    "tukey": Named("Tukey's HSD", joint=tukey, constant=True),
    "randomised_tukey": Named(
        "randomised Tukey test", joint=randomised_tukey, constant=True, resamples=True
    ),
}


def untestable(name: str, sample: Sample) -> str:
    """The word for why a test has nothing to say, if so."""
    if sample.units < 2:
        return NOT_TESTABLE
    if np.abs(sample.differences).max() <= sample.rounding:
        return NO_DIFFERENCE
    return ZERO_VARIANCE if sample.constant and not TESTS[name].constant else ""


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
