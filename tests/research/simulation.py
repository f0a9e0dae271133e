"""How often the tests of compare reject, and their intervals hold, in the long run.

    python tests/run_simulation.py [--means | --gate | --weights | --monitor | --judges | ...]

prints the tables of the documentation, in some minutes. test_comparisons.py asserts what they say.
"""

import argparse
import functools
import itertools
import math
import os
from dataclasses import replace

import numpy as np
import polars as pl
from scipy import stats

import rankql
from rankql.core.evaluation.means.means import mean_intervals
from rankql.core.stats.means import mean_interval
from rankql.core.stats.sample import Sample, SlicedSample
from rankql.core.stats.tests import TESTS, SkewedStudent, TestResult, adjust_p_values, run_family

ALPHA = 0.05
# Fewer give wider tolerances, and take less time.
REPEATS = int(os.environ.get("RANKQL_REPEATS", "2000"))
RESAMPLES = 999
SIZES = (20, 43, 200)
# Counted one by one are the patterns of so many signs, to save time; those of 20 are sampled.
EXACT = 14


def ndcg(rng, n, systems=2):
    """Values as of nDCG: skewed, some queries at 0 and at 1, similar in all systems."""
    easy = rng.beta(0.8, 1.2, (n, 1))
    return np.clip(1.2 * (easy + rng.normal(0, 0.15, (n, systems))) - 0.1, 0, 1).round(2)


def improved(rng, values):
    """Every fifth query half-way up to 1, which makes skewed differences."""
    return values + (rng.random(values.shape) < 0.2) * (1 - values) / 2


@functools.cache
def improvement():
    """The true mean of what `improved` adds."""
    return 0.1 * (1 - float(ndcg(np.random.default_rng(0), 4_000_000, 1).mean()))


# Differences whose true mean is 0, of all shapes, between -1 and 1.
SHAPES = {
    "normal": lambda rng, n: rng.normal(0, 0.2, n).clip(-1, 1),
    "discrete": lambda rng, n: rng.choice([-0.5, 0.0, 0.0, 0.5], n),
    "exponential": lambda rng, n: (0.15 * (rng.exponential(1, n) - 1)).clip(-1, 1),
    "rare gains": lambda rng, n: np.where(rng.random(n) < 0.2, rng.beta(3, 3, n), 0.0) - 0.1,
    "rare losses": lambda rng, n: np.where(rng.random(n) < 0.05, -0.95, 0.05),
}
SMALL = (15, 20)


def tried(name, sample, seed, alpha=ALPHA):
    """What a test says; without a difference to test, nothing."""
    test = TESTS[name](RESAMPLES, seed, EXACT)
    result = test.apply(replace(sample, lowest=-1.0, highest=1.0), alpha)
    return TestResult(p=1.0) if result.p is None else result


def single(name, n, repeats=REPEATS):
    """The share of rejections without a difference, and of intervals that hold the true one."""
    rng = np.random.default_rng([n, 1])
    rejected = held = 0
    for seed in range(repeats):
        a, b = ndcg(rng, n).T
        rejected += tried(name, Sample(b - a), seed).p <= ALPHA
        result = tried(name, Sample(improved(rng, b) - a), seed)
        held += result.lo is None or result.lo <= improvement() <= result.hi
    return rejected / repeats, held / repeats


def small(name, shape, n, repeats=REPEATS):
    """The share of rejections of few queries whose true mean difference is 0."""
    rng = np.random.default_rng([n, 6])
    samples = (Sample(SHAPES[shape](rng, n)) for _ in range(repeats))
    return sum(tried(name, x, i).p <= ALPHA for i, x in enumerate(samples)) / repeats


def tested_signs(n, top):
    """All numbers of gains and losses of 1 up to `top`, and ties, of n queries; their results."""
    pairs = [(b, c) for b in range(top + 1) for c in range(min(top, n - b) + 1)]
    samples = (np.repeat([1.0, -1.0, 0.0], [b, c, n - b - c]) for b, c in pairs)
    test = TESTS["auto"](0, 0)
    results = [test.apply_to_zero(Sample(x, lowest=-1, highest=1), ALPHA) for x in samples]
    return np.array([(b, c, n - b - c) for b, c in pairs]), results


def least_coverage_of_signs(n, most=10, step=0.25):
    """The least share of samples whose interval contains the true difference of 0/1 values.

    Over all expected numbers of gains and losses up to `most`, in these steps; enumerated.
    """
    (counts, found), least = tested_signs(n, min(n, 3 * most + 2)), 1.0
    lo = np.array([-1 if x.lo is None else x.lo for x in found])
    hi = np.array([1 if x.hi is None else x.hi for x in found])
    for gains in np.arange(0, most + step, step):
        for losses in np.arange(0, gains + step, step):
            shares = np.array([gains, losses, n - gains - losses]) / n
            if shares[2] >= 0:
                weights, true = stats.multinomial.pmf(counts, n, shares), shares[0] - shares[1]
                held = (lo - 1e-13 <= true) & (true <= hi + 1e-13)
                least = min(least, weights[held].sum() + 1 - weights.sum())
    return least


def most_false_of_signs(n, steps=100):
    """The largest share of samples with a difference, if gains and losses of 1 are as frequent.

    Over so many shares of queries that gain, up to a half; enumerated.
    """
    counts, found = tested_signs(n, n)
    rejected = counts[[x.p is not None and x.p <= ALPHA for x in found]]
    shares = ([x, x, 1 - 2 * x] for x in np.arange(1, steps + 1) / steps / 2)
    return max(stats.multinomial.pmf(rejected, n, each).sum() for each in shares)


# The sizes of five slices of lognormal differences.
SKEWED_SLICES = (10, 20, 40, 80, 160)


def skewed_slices(name, n, repeats=REPEATS, slices=5):
    """How often one of the slices is called different, if the true differences are 0 (Holm)."""
    rng, test, wrong = np.random.default_rng([n, 9]), TESTS[name](0, 0), 0
    for _ in range(repeats):
        drawn = rng.lognormal(0, 1, (slices, n)) - math.exp(0.5)
        tested = run_family([*map(Sample, drawn)], test, "holm", ALPHA)
        wrong += any(x.p_adjusted is not None and x.p_adjusted <= ALPHA for x in tested)
    return wrong / repeats


def family(repeats=REPEATS, n=43, systems=4, metrics=2):
    """With 4 systems and 2 metrics: the share of families with a wrong rejection; then the FDR.

    Of the families without any difference; for the FDR one of the systems is better than the rest.
    """
    rng = np.random.default_rng([n, 2])
    pairs = list(itertools.combinations(range(systems), 2))
    wrong = dict.fromkeys(("none", "bonferroni", "holm", "bh"), 0)
    false = dict.fromkeys(wrong, 0.0)
    held = {"bonferroni": 0}

    def by_t(blocks, alpha=ALPHA):
        return [tried("t", Sample(x[:, b] - x[:, a]), 0, alpha) for x in blocks for a, b in pairs]

    for _ in range(repeats):
        one = ndcg(rng, n, systems)
        other = np.clip(one + rng.normal(0, 0.1, one.shape), 0, 1).round(2)  # similar
        p = [x.p for x in by_t([one, other])]
        for correction in wrong:
            wrong[correction] += min(adjust_p_values(p, correction)) <= ALPHA
        result = by_t([one, other], ALPHA / (metrics * len(pairs)))
        held["bonferroni"] += all(x.lo is None or x.lo <= 0 <= x.hi for x in result)
        one[:, 0] = improved(rng, one[:, 0])
        other[:, 0] = improved(rng, other[:, 0])
        null = np.array([a != 0 for a, _ in pairs] * metrics)
        p = [x.p for x in by_t([one, other])]
        for correction in false:
            rejected = np.array(adjust_p_values(p, correction)) <= ALPHA
            false[correction] += (rejected & null).sum() / max(1, rejected.sum())
    return tuple({k: v / repeats for k, v in each.items()} for each in (wrong, false, held))


def clustered(name, repeats=REPEATS, users=40):
    """The share of rejections without a difference, where users ask 1 to 12 queries each.

    One user's queries gain or lose together. Without `cluster=`, and with it.
    """
    rng = np.random.default_rng([users, 3])
    rejected = np.zeros(2)
    for seed in range(repeats):
        codes = np.repeat(np.arange(users), rng.integers(1, 13, users))
        a, b = ndcg(rng, len(codes)).T
        d = b - a + rng.normal(0, 0.15, users)[codes].round(2)
        for i, each in enumerate((None, codes)):
            rejected[i] += tried(name, Sample(d, each), seed).p <= ALPHA
    return tuple((rejected / repeats).tolist())


# Sizes of clusters up to 10:1.
CLUSTER_SIZES = {
    "evenly from 1 to 10": lambda n: np.geomspace(1, 10, n).round().astype(int),
    "one of 10, others 1": lambda n: np.array([10] + [1] * (n - 1)),
    "two of 10, others 1": lambda n: np.array([10, 10] + [1] * (n - 2)),
    "half 10, half 1": lambda n: np.array([10] * (n // 2) + [1] * (n - n // 2)),
}
CLUSTER_COUNTS = (10, 20, 40)


def unequal(name, sizes, clusters, shape="normal", together=0.5, repeats=REPEATS):
    """How often the interval of clustered queries holds the true mean; how much is shared."""
    rng = np.random.default_rng([clusters, 7])
    codes = np.repeat(np.arange(clusters), CLUSTER_SIZES[sizes](clusters))
    held = 0
    for seed in range(repeats):
        shared, own = (SHAPES[shape](rng, n) for n in (clusters, len(codes)))
        d = math.sqrt(together) * shared[codes] + math.sqrt(1 - together) * own
        held += tried(name, Sample(d, codes), seed).p > ALPHA
    return held / repeats


def peeking(name, draw, repeats=REPEATS, step=10, alpha=ALPHA, last=300):
    """Looks after every few queries, stopping at the first p <= alpha without a difference.

    The share that stops ever, and that which rejects at the last look alone.
    """
    rng = np.random.default_rng([last, 4])
    ever = final = 0
    for _ in range(repeats):
        d = draw(rng, last)
        p = [tried(name, Sample(d[:n]), 0).p for n in range(step, last + 1, step)]
        ever += min(p) <= alpha
        final += p[-1] <= alpha
    return ever / repeats, final / repeats


def noise(rng, n):
    """Differences of two systems without a difference, as of nDCG."""
    return np.subtract(*ndcg(rng, n).T)


# Limits of a gate: losses by query, of skewed shapes around a true mean.
GATE_SIZES = (20, 50, 300)
LIMIT = 0.05
LOSSES = {
    "noise of nDCG": noise,
    "one query in five loses half, with noise": lambda rng, n: _lost(rng, n, 0.2, 0.5),
    "one query in ten falls to 0, with noise": lambda rng, n: _lost(rng, n, 0.1, 1.0),
    "exponential": lambda rng, n: 0.15 * rng.exponential(1, n),
    "exponential gains": lambda rng, n: -0.15 * rng.exponential(1, n),
    "lognormal": lambda rng, n: 0.1 * rng.lognormal(0, 1, n),
    "one query in five loses half, the others do not change": lambda rng, n: (
        ndcg(rng, n, 1)[:, 0] * 0.5 * (rng.random(n) < 0.2)
    ),
}


# What small samples do not contain: a gate passes the limit too often.
RARE_LOSS = "one query in 25 loses 0.8, the others gain a little"
RARE_SIZES = (10, 20, 30, 50, 80, 300)
ALL_LOSSES = LOSSES | {
    RARE_LOSS: lambda rng, n: np.where(rng.random(n) < 0.04, 0.8, rng.normal(-0.02, 0.03, n))
}


def _lost(rng, n, share, part):
    """Losses where a share of the queries loses a part of its value, and all vary."""
    old, new = ndcg(rng, n).T
    return old - new * (1 - part * (rng.random(n) < share))


@functools.cache
def mean_loss(shape):
    return float(ALL_LOSSES[shape](np.random.default_rng(0), 2_000_000).mean())


def gated(shape, n, true, repeats=REPEATS, users=None):
    """The shares of passed, inconclusive and failed limits, where the mean loss is `true`.

    Then the share that plain Student's t would pass, and of samples without any variation. With
    `users`, one user's queries, 1 to 12, lose together.
    """
    rng = np.random.default_rng([n, 5])
    counts = dict.fromkeys(("passed", "inconclusive", "failed", "t", "constant"), 0)
    student = TESTS["t"]()
    for _ in range(repeats):
        codes = None
        losses = ALL_LOSSES[shape](rng, n) - mean_loss(shape) + true
        if users:
            codes = np.repeat(np.arange(n), rng.integers(1, users + 1, n))
            losses = losses[codes] + rng.normal(0, 0.1, len(codes))
        sample = Sample(losses, codes)
        counts["constant"] += sample.constant
        ends = TESTS["auto"]().apply(replace(sample, lowest=-1.0, highest=1.0), ALPHA)
        passed = "passed" if ends.hi is not None and ends.hi <= LIMIT else "failed"
        unclear = ends.hi is None or ends.lo <= LIMIT < ends.hi
        counts["inconclusive" if unclear else passed] += 1
        counts["t"] += sample.constant or student.apply(sample, ALPHA).hi <= LIMIT
    return {name: count / repeats for name, count in counts.items()}


def daily(alpha, builds=30, repeats=REPEATS, n=60):
    """How often a gate on new queries errs at least once in a month of builds, and in all builds.

    A drop of exactly the limit passes; and unchanged data fails at a limit of 0.
    """
    rng, test, counts = np.random.default_rng([builds, 18]), TESTS["auto"](), np.zeros(4)
    for _ in range(repeats):
        ends = [test.apply(Sample(noise(rng, n), None, None, -1.0, 1.0), alpha)
                for _ in range(builds)]  # fmt: skip
        errors = np.array([[x.hi < 0, x.lo > 0] for x in ends])
        counts += [*errors.any(axis=0), *errors.mean(axis=0)]
    return (counts / repeats).tolist()


def gate_tables(repeats):
    """The tables of limits of a gate."""
    keys = itertools.product(LOSSES, GATE_SIZES, (LIMIT, 0, 3 * LIMIT))
    result = {key: gated(*key, repeats) for key in keys}
    for one, other, titles in (
        ((LIMIT, "passed"), (LIMIT, "t"), ("passes at the limit", "Student")),
        ((0, "passed"), (3 * LIMIT, "failed"), ("no loss passes", "3 x the limit fails")),
    ):
        head = [f"{title}, n = {n}" for title in titles for n in GATE_SIZES]
        print_table(["losses", *head], {
            shape: [result[shape, n, true][outcome]
                    for true, outcome in (one, other) for n in GATE_SIZES]
            for shape in LOSSES
        })  # fmt: skip
    for title, true, outcome in (
        ("3 x the limit passes", 3 * LIMIT, "passed"), ("no loss fails", 0, "failed"),
        ("samples without variation", LIMIT, "constant"),
    ):  # fmt: skip
        worst = max(result[shape, n, true][outcome] for shape in LOSSES for n in GATE_SIZES)
        print(f"{title}: {percent(worst)} at most")
    passed = [gated(RARE_LOSS, n, LIMIT, repeats)["passed"] for n in RARE_SIZES]
    print_table(["passes at the limit", *(f"n = {n}" for n in RARE_SIZES)], {RARE_LOSS: passed})


# Values of queries with a known mean, and their weights: traffic that grows by a factor, by
# hand-made strata, or as steeply as that of searches.
VALUES = {
    "normal": (lambda rng, n: rng.normal(0.5, 0.15, n), 0.5),
    "like nDCG": (lambda rng, n: rng.beta(0.8, 1.2, n), 0.4),
    "exponential": (lambda rng, n: rng.exponential(1, n), 1.0),
    "one query in ten has 1, others 0": (lambda rng, n: (rng.random(n) < 0.1).astype(float), 0.1),
}
WEIGHTS = {
    "half 10, half 1": lambda rng, n: np.where(np.arange(n) < n // 2, 10.0, 1.0),
    "lognormal": lambda rng, n: rng.lognormal(0, 1, n),
    "1, 1/2, 1/3, ...": lambda rng, n: 1 / np.arange(1, n + 1),
}
WEIGHT_SIZES = (10, 20, 50, 200)


def weighted(weights, shape, n, repeats=REPEATS, clusters=None):
    """How often the interval of a weighted mean contains the true one.

    With `clusters`, that many groups of queries share half of the variance.
    """
    rng = np.random.default_rng([n, 8])
    draw, true = VALUES[shape]
    held = 0
    for _ in range(repeats):
        w, values, codes = WEIGHTS[weights](rng, n), draw(rng, n), None
        if clusters:
            codes = rng.permutation(np.arange(n) % clusters)
            values = (values - true + (draw(rng, clusters) - true)[codes]) / math.sqrt(2) + true
        sample = Sample(values - true, codes, w)
        held += sample.constant or TESTS["t"]().apply(sample, ALPHA).p > ALPHA
        held -= sample.constant and abs(sample.mean) > 1e-9
    return held / repeats


def weighted_level(name, weights, n, repeats=REPEATS):
    """How often a test with weights rejects without a difference."""
    rng = np.random.default_rng([n, 10])
    samples = (Sample(noise(rng, n), None, WEIGHTS[weights](rng, n)) for _ in range(repeats))
    return sum(tried(name, x, i).p <= ALPHA for i, x in enumerate(samples)) / repeats


# A stratified sample: the queries of each stratum, and the mean value of its queries.
STRATA = {"head": (100, 0.8), "torso": (1_900, 0.6), "tail": (18_000, 0.3)}


def stratified(each, repeats=REPEATS):
    """As many queries of every stratum: how often the weighted and the plain interval hold."""
    rng = np.random.default_rng([each, 9])
    population = [rng.beta(2 * mean, 2 * (1 - mean), size) for size, mean in STRATA.values()]
    true = np.concatenate(population).mean()
    weights = np.repeat([size / each for size, _ in STRATA.values()], each)
    held = np.zeros(2)
    for _ in range(repeats):
        values = np.concatenate([rng.choice(x, each, replace=False) for x in population]) - true
        for i, w in enumerate((weights, None)):
            p = TESTS["t"]().apply(Sample(values, None, w), ALPHA).p
            held[i] += p > ALPHA
    return tuple((held / repeats).tolist())


MEANS_SIZES = (5, 20, 50, 300)
SHARED = (0.1, 0.3, 0.5, 0.8)
# Values per query, their true mean, and a metric with their range. Results that are found deep are
# the worst of them.
FOUND_DEEP = "RR, result at 1 to 25 for 20% of queries"
MEANS = {
    "like nDCG": (lambda rng, shape: ndcg(rng, math.prod(shape), 1).reshape(shape), None, "RR"),
    "one in ten is 1, others 0": (lambda rng, shape: 1.0 * (rng.random(shape) < 0.1), 0.1, "RR"),
    "RR, result at 1 to 10 for 30% of queries": (
        lambda rng, shape: (rng.random(shape) < 0.3) / rng.integers(1, 11, shape),
        0.3 * sum(1 / x for x in range(1, 11)) / 10, "RR",
    ),
    "90% are 1, the others uniform": (
        lambda rng, shape: np.where(rng.random(shape) < 0.9, 1, rng.random(shape)), 0.95, "RR",
    ),
    "RR, result at 1 to 10 for 10% of queries": (
        lambda rng, shape: (rng.random(shape) < 0.1) / rng.integers(1, 11, shape),
        0.1 * sum(1 / x for x in range(1, 11)) / 10, "RR",
    ),
    FOUND_DEEP: (
        lambda rng, shape: (rng.random(shape) < 0.2) / rng.integers(1, 26, shape),
        0.2 * sum(1 / x for x in range(1, 26)) / 25, "RR",
    ),
    "unbounded, exponential": (lambda rng, shape: rng.exponential(1, shape), 1.0, "DCG"),
    "unbounded, lognormal": (lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5), "DCG"),
    "revenue: 5% buy, lognormal": (
        lambda rng, shape: (rng.random(shape) < 0.05) * rng.lognormal(0, 1, shape),
        0.05 * math.exp(0.5), "DCG",
    ),
}  # fmt: skip


def _skewness(values):
    """The skewness of each row, 0 for equal values."""
    residuals = values - values.mean(axis=1, keepdims=True)
    spread = np.square(residuals).mean(axis=1)
    return (residuals**3).mean(axis=1) / np.where(spread > 0, spread, 1) ** 1.5


def means_covered(name, n, repeats=REPEATS):
    """How often an interval of evaluate contains the true mean, and how often a note warns."""
    draw, mean, metric = MEANS[name]
    rng = np.random.default_rng(n)
    mean = draw(rng, (1000, 1000)).mean() if mean is None else mean
    values = draw(rng, (repeats, n))
    columns = {
        "error": values.std(axis=1, ddof=1) / math.sqrt(n), "mean": values.mean(axis=1),
        "least": values.min(axis=1), "most": values.max(axis=1), "df": np.full(repeats, n - 1.0),
        "skewness": _skewness(values), "units": np.full(repeats, n),
        "n_eff": np.full(repeats, float(n)),
    }  # fmt: skip
    ends = mean_intervals(pl.DataFrame(columns), [metric] * repeats, "auto", 1 - ALPHA)
    known = [(lo, hi) for lo, hi, _ in ends if lo is not None]  # equal unbounded values have none
    covered = sum(lo <= mean <= hi for lo, hi in known) / len(known)
    return covered, sum(skewed for *_, skewed in ends) / repeats


def means_of_users(size, repeats=REPEATS, users=40, queries=5):
    """How often the interval contains the true mean, by query and with clusters.

    `size` is the share of the variance that the queries of a user have in common.
    """
    rng = np.random.default_rng([users, queries])
    codes, held = np.repeat(np.arange(users), queries), np.zeros(2)
    for _ in range(repeats):
        common, own = rng.normal(0, 1, users)[codes], rng.normal(0, 1, len(codes))
        values = stats.norm.cdf(math.sqrt(size) * common + math.sqrt(1 - size) * own)
        for i, clusters in enumerate((None, codes)):
            ends = mean_interval(Sample(values, clusters, None, 0.0, 1.0).moments, 1 - ALPHA)
            held[i] += ends.lo <= 0.5 <= ends.hi
    return (held / repeats).tolist()


def means_tables(repeats):
    """The tables of intervals of means."""
    body = []
    for name in MEANS:
        shares = [means_covered(name, n, repeats) for n in MEANS_SIZES]
        body.append([name, *(" / ".join(map(percent, pair)) for pair in shares)])
    print(rows(["values", *(f"n = {n}" for n in MEANS_SIZES)], *body), end="\n\n")
    print_table(["variance shared by a user's queries", "without `cluster=`", "with it"],
                {f"{size:.0%}": means_of_users(size, repeats) for size in SHARED})  # fmt: skip


def slices_covered(count, shape, repeats=REPEATS, ends=(10, 200)):
    """How often the interval of the mean of slices of so many queries contains the true one."""
    rng = np.random.default_rng([count, 11])
    sizes, held = np.geomspace(*ends, count).round().astype(int), 0
    places = 1 / np.arange(1, 11)
    for _ in range(repeats):
        parts, true = [], rng.uniform(0.2, 0.8, count)
        for i, (mean, n) in enumerate(zip(true, sizes, strict=True)):
            if shape == "share":
                values = (rng.random(n) < mean).astype(float)
            elif shape == "like nDCG":
                values = rng.beta(2 * mean, 2 * (1 - mean), n)
            else:
                p = (1 - mean) ** np.arange(10)
                values = rng.choice(places, n, p=p / p.sum())
                true[i] = p @ places / p.sum()
            parts.append(Sample(values, None, None, 0.0, 1.0))
        interval = SlicedSample.of(dict(enumerate(parts))).interval(1 - ALPHA)
        held += interval.lo <= true.mean() <= interval.hi
    return held / repeats


# Slices of unlike sizes and means, of 0/1 or of the shape "sparse RR" with this share above 0; or
# "losses": values of .9, of which this share is worse by .5, next to steady ones.
RARELY_WORSE = "300 steady and 40 of which one in ten loses .5"
MIXES = {
    "300 at .97, 4 at .3": ("share", (300, 0.97), (4, 0.3)),
    "300 at .97, 10 at .9": ("share", (300, 0.97), (10, 0.9)),
    "300 at .9, 10 at .9": ("share", (300, 0.9), (10, 0.9)),
    "300 at .99, 20 at .9": ("share", (300, 0.99), (20, 0.9)),
    "300 at .5, 2 at .5": ("share", (300, 0.5), (2, 0.5)),
    "30 at .9, 30 at .1, 2 at .5": ("share", (30, 0.9), (30, 0.1), (2, 0.5)),
    "sparse RR, 2 x 30": ("sparse RR", (30, 0.3), (30, 0.1)),
    "sparse RR, 300 and 10": ("sparse RR", (300, 0.3), (10, 0.3)),
    "ten of 6 at .8": ("share", *[(6, 0.8)] * 10),
    "300 at .99, 4 at .5": ("share", (300, 0.99), (4, 0.5)),
    "300 at .97, 2 at .9": ("share", (300, 0.97), (2, 0.9)),
    "1,000 at .97, 10 at .7": ("share", (1000, 0.97), (10, 0.7)),
    "100 at .95, 10 at .5": ("share", (100, 0.95), (10, 0.5)),
    "20 at .9, 20 at .1": ("share", (20, 0.9), (20, 0.1)),
    "12 at .5, 12 at .5": ("share", (12, 0.5), (12, 0.5)),
    "300 at .5, three of 4 at .9": ("share", (300, 0.5), *[(4, 0.9)] * 3),
    "five of 20 at .98": ("share", *[(20, 0.98)] * 5),
    "ten of 30 at .9": ("share", *[(30, 0.9)] * 10),
    "40 of 6 at .9": ("share", *[(6, 0.9)] * 40),
    "20 of 2 at .5": ("share", *[(2, 0.5)] * 20),
    "9 of 300 at .97, 6 at .5": ("share", *[(300, 0.97)] * 9, (6, 0.5)),
    "sparse RR, 300 and 4": ("sparse RR", (300, 0.3), (4, 0.3)),
    "sparse RR, 20 and 20": ("sparse RR", (20, 0.3), (20, 0.5)),
    "sparse RR, 100 and 30": ("sparse RR", (100, 0.1), (30, 0.3)),
    "sparse RR, ten of 6": ("sparse RR", *[(6, 0.3)] * 10),
    "sparse RR, ten of 30": ("sparse RR", *[(30, 0.3)] * 10),
    "sparse RR, 40 of 10": ("sparse RR", *[(10, 0.3)] * 40),
    RARELY_WORSE: ("losses", (300, 0.0), (40, 0.1)),
}


def mixes_covered(mix, repeats=REPEATS):
    """How often the interval of the mean of the slices contains the true one.

    Then how often that of the moments alone does, and how many times as wide the first is.
    """
    kind, *slices = MIXES[mix]
    rng, held, widths = np.random.default_rng([len(mix), 13]), np.zeros(2), np.zeros(2)
    worth = np.mean(1 / np.arange(1, 11)) if kind == "sparse RR" else 1
    true = np.mean([share * worth for _, share in slices])
    if kind == "losses":
        true = np.mean([0.9 - 0.5 * share for _, share in slices])
    for _ in range(repeats):
        parts = []
        for n, share in slices:
            values = (rng.random(n) < share).astype(float)
            if kind == "sparse RR":
                values /= rng.integers(1, 11, n)
            if kind == "losses":
                values = 0.9 - 0.5 * values + rng.normal(0, 0.01, n)
            parts.append(Sample(values, None, None, 0.0, 1.0))
        sample = SlicedSample.of(dict(enumerate(parts)))
        ends = [sample.interval(1 - ALPHA), mean_interval(sample.moments, 1 - ALPHA)]
        held += [x.lo <= true <= x.hi for x in ends]
        widths += [x.hi - x.lo for x in ends]
    return *(held / repeats).tolist(), float(widths[0] / widths[1])


def hiding(share, loss, noise=0.01):
    """Differences of which this share loses, and the others gain as much in sum."""

    def draw(rng, n):
        gain = share * loss / (1 - share)
        return np.where(rng.random(n) < share, -loss, gain) + rng.normal(0, noise, n)

    return draw


def steady(size):
    return lambda rng, n: rng.normal(0, size, n)


# Slices of two systems that are equal on average: how many, of how many queries, and differences.
# Those of `LIKE` are of one size and kind, and are to be tested.
TENTH, FIFTIETH, EXPONENTIAL = (
    hiding(0.1, 0.5),
    hiding(0.02, 0.8),
    lambda rng, n: 0.15 * (rng.exponential(1, n) - 1),
)
SLICED = {
    "20 of 10, one in ten loses .5": [(20, 10, TENTH)],
    "20 of 12, one in twenty loses .5": [(20, 12, hiding(0.05, 0.5))],
    "one of 300 and one of 30": [(1, 300, steady(0.02)), (1, 30, TENTH)],
    "one of 300 and one of 60": [(1, 300, steady(0.02)), (1, 60, TENTH)],
    "two of 300 and one of 12": [(2, 300, steady(0.02)), (1, 12, TENTH)],
    "five of 300 and one of 12": [(5, 300, steady(0.02)), (1, 12, TENTH)],
    "one of 300 and five of 20": [(1, 300, steady(0.02)), (5, 20, TENTH)],
}
SMALL_SLICED = {
    "20 of 6, one in ten loses .5": [(20, 6, TENTH)],
    "20 of 2, one in ten loses .5": [(20, 2, TENTH)],
    "20 of 9, one in twenty loses .5": [(20, 9, hiding(0.05, 0.5))],
    "20 of 3, one in fifty loses .8": [(20, 3, FIFTIETH)],
    "one of 300 and 20 of 3": [(1, 300, steady(0.02)), (20, 3, TENTH)],
    "five of 300 and 20 of 4": [(5, 300, steady(0.02)), (20, 4, TENTH)],
    "19 of 9 and one of 9": [(19, 9, steady(0.005)), (1, 9, TENTH)],
    "19 of 9 and one of 3": [(19, 9, steady(0.005)), (1, 3, hiding(0.2, 0.8))],
    "40 of 3, exponential": [(40, 3, EXPONENTIAL)],
    "20 of 3, -.5, 0 or .5": [(20, 3, lambda rng, n: rng.choice([-0.5, 0.0, 0.5], n))],
}
LIKE = {
    "two of 10, normal": [(2, 10, steady(0.2))],
    "two of 10, as of nDCG": [(2, 10, noise)],
    "5 of 10, exponential": [(5, 10, EXPONENTIAL)],
    "20 of 10, -.5, 0 or .5": [(20, 10, lambda rng, n: rng.choice([-0.5, 0.0, 0.5], n))],
    "sizes from 10 to 20, as of nDCG": [(1, 10, noise), (1, 15, noise), (1, 20, noise)],
}
# Tested, although they hide losses: no rule that tests slices of 10 sees one of 10.
EXCEPTIONS = {
    "19 of 10 and one of 10": [(19, 10, steady(0.005)), (1, 10, TENTH)],
    "two of 12, one of them steady": [(1, 12, steady(0.02)), (1, 12, TENTH)],
    "20 of 10, one in fifty loses .8": [(20, 10, FIFTIETH)],
}


def sliced_falsely(design, repeats=REPEATS, seed=15):
    """How often the mean of slices would be found better and worse, and how often it is tested."""
    rng = np.random.default_rng([len(design), sum(n for _, n, _ in design), seed])
    better = worse = tested = 0
    test = SkewedStudent()
    for _ in range(repeats):
        parts = [Sample(draw(rng, n), None, None, -1.0, 1.0)
                 for count, n, draw in design for _ in range(count)]  # fmt: skip
        sample = SlicedSample.of(dict(enumerate(parts)))
        tested += not test.explain_untestable(sample)
        found = test.test(sample, ALPHA)[0] <= ALPHA
        better += found and sample.mean > 0
        worse += found and sample.mean < 0
    return better / repeats, worse / repeats, tested / repeats


def plainly_falsely(n, draw, repeats=REPEATS, seed=16):
    """How often a plain difference of so many queries is found to be better."""
    rng = np.random.default_rng([n, seed])
    samples = (Sample(draw(rng, n), None, None, -1.0, 1.0) for _ in range(repeats))
    return sum(x.mean > 0 and SkewedStudent().test(x, ALPHA)[0] <= ALPHA for x in samples) / repeats


PLAIN = {(12, "one in ten loses .5"): TENTH, (30, "one in ten loses .5"): TENTH,
         (60, "one in fifty loses .8"): FIFTIETH}  # fmt: skip


def slice_tables(repeats):
    """The tables of means of slices."""
    print_table(["slices", "evaluate", "of the moments alone"],
                {mix: mixes_covered(mix, repeats)[:2] for mix in MIXES})  # fmt: skip
    print_table(["slices that are equal on average", "better", "worse", "tested"], {
        name: sliced_falsely(design, repeats)
        for designs in (SLICED, SMALL_SLICED, LIKE, EXCEPTIONS) for name, design in designs.items()
    })  # fmt: skip
    print_table(["a plain difference", "better"], {
        f"{n} queries, {name}": [plainly_falsely(n, draw, repeats)]
        for (n, name), draw in PLAIN.items()
    })  # fmt: skip


def weight_tables(repeats):
    """The tables of weights."""
    print_table(["values; weights", *(f"n = {n}" for n in WEIGHT_SIZES)], {
        f"{shape}; {weights}": [weighted(weights, shape, n, repeats) for n in WEIGHT_SIZES]
        for weights in WEIGHTS for shape in VALUES
    })  # fmt: skip
    head = ["rejected without a difference", *(f"{x}, n = {n}" for x in TESTS for n in (12, 43))]
    print_table(head, {
        weights: [weighted_level(x, weights, n, repeats // 4) for x in TESTS for n in (12, 43)]
        for weights in WEIGHTS
    })  # fmt: skip
    print_table(["queries per stratum", "weighted", "without weight="],
                {str(each): stratified(each, repeats) for each in (10, 30, 80)})  # fmt: skip


def by_chance(rate, expected=ALPHA, repeats=REPEATS, confidence=0.999):
    """Does a share of so many repeats differ from the expected one by chance alone?"""
    low, high = stats.binom.interval(confidence, repeats, expected)
    return low <= round(rate * repeats) <= high


def at_most(rate, expected=ALPHA, repeats=REPEATS, confidence=0.999):
    """Is it no more than that, but for chance?"""
    return round(rate * repeats) <= stats.binom.ppf(confidence, repeats, expected)


def percent(share):
    return f"{100 * share:.1f}%"


def rows(*lines):
    head, *body = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def print_table(head, shares):
    """Print a table of shares by label."""
    print(rows(head, *([label, *map(percent, x)] for label, x in shares.items())), end="\n\n")


def comparison_tables(repeats):
    """The tables of the tests of compare."""
    error = 1.96 * math.sqrt(ALPHA * (1 - ALPHA) / repeats)
    print(f"{repeats:,} repetitions: 5% is seen as 5% +- {percent(error)}. {RESAMPLES} resamples\n")
    result = {(name, n): single(name, n, repeats) for n in SIZES for name in TESTS}
    sizes = [f"n = {n}" for n in SIZES]
    for i, title in enumerate(("rejected without a difference", "intervals with the true one")):
        print_table([title, *sizes], {x: [result[x, n][i] for n in SIZES] for x in TESTS})
    wrong, false, _ = family(repeats)
    print_table(["4 systems, 2 metrics, n = 43", "a wrong rejection", "FDR, one better"],
                {name: (wrong[name], false[name]) for name in wrong})  # fmt: skip
    print_table(["rejected, few queries", *(f"n = {n}" for n in SMALL)], {
        f"{name}, {shape}": [small(name, shape, n, repeats) for n in SMALL]
        for name in TESTS for shape in SHAPES
    })  # fmt: skip
    print_table(["5 slices, lognormal, one rejected", *(f"n = {n}" for n in SKEWED_SLICES)], {
        name: [skewed_slices(name, n, repeats) for n in SKEWED_SLICES] for name in ("auto", "t")
    })  # fmt: skip
    print_table(["40 users, 1 to 12 queries each", "by query", "cluster="],
                {name: clustered(name, repeats) for name in TESTS})  # fmt: skip
    print_table(["intervals with the true one", *(f"{n} clusters" for n in CLUSTER_COUNTS)], {
        f"{name}, {sizes}": [unequal(name, sizes, n, repeats=repeats) for n in CLUSTER_COUNTS]
        for name in TESTS for sizes in CLUSTER_SIZES
    })  # fmt: skip
    print_table(["30 looks, 10 queries more each", "ever rejected", "at the last"],
                {x: peeking(x, noise, repeats) for x in ("auto", "t")})  # fmt: skip
    print_table(["5 looks at 0.05 / 5, 60 queries more each", "ever rejected", "at the last"],
                {x: peeking(x, noise, repeats, 60, ALPHA / 5) for x in ("auto", "t")})  # fmt: skip


# As many systems and queries as a year of TREC. The true differences from the baseline, and the
# differences of a query from those, are normal with these standard deviations.
ENTRANTS, TOPICS, SPREAD, NOISE = 82, 42, 0.02, 0.2


def winner(repeats):
    """How often intervals of the best of many contain its true difference from the baseline.

    The 95% interval of one pair, and that of compare for all; and how much the difference is too
    large on average.
    """
    rng, held, excess = np.random.default_rng(1), np.zeros(2), 0.0
    names, queries = [f"system {i:02}" for i in range(ENTRANTS)], np.arange(TOPICS)
    keys = {"system": np.repeat(names, TOPICS), "query": np.tile(queries, ENTRANTS)}
    for _ in range(repeats):
        truth = np.append(0, rng.normal(0, SPREAD, ENTRANTS - 1))
        values = truth[:, None] + rng.normal(0, NOISE, (ENTRANTS, TOPICS))
        rows = pl.DataFrame({**keys, "value": values.ravel()})
        runs = rankql.read_values(rows, query="query", system="system")
        pairs = rankql.compare(runs, baseline=names[0]).pairs
        best = pairs.sort("difference")[-1]
        true = truth[names.index(best["b"].item())]
        both = runs.per_query.filter(pl.col("system").is_in([names[0], best["b"].item()]))
        alone = rankql.compare(
            rankql.read_values(both, query="query", system="system"), baseline=names[0]
        ).pairs
        held += [row["lo"].item() <= true <= row["hi"].item() for row in (alone, best)]
        excess += best["difference"].item() - true
    return *(held / repeats).tolist(), excess / repeats


def winner_table(repeats):
    """The numbers of docs/trust.md on the best of many systems."""
    alone, family, excess = winner(repeats)
    print(f"{ENTRANTS} systems, {TOPICS} queries, {repeats:,} repetitions")
    print(f"interval of one pair: {alone:.1%}, of all: {family:.1%}, too large by {excess:.3f}")


def main():
    from research.anytime_simulation import anytime_tables
    from research.judge_simulation import annotator_table, judge_table
    from research.min_scores_simulation import min_scores_table
    from research.monitor_simulation import monitor_table

    tables = {"means": means_tables, "gate": gate_tables, "slices": slice_tables,
              "weights": weight_tables, "monitor": monitor_table, "judges": judge_table,
              "annotators": annotator_table, "winner": winner_table,
              "min-scores": min_scores_table, "anytime": anytime_tables}  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    for name, function in tables.items():
        parser.add_argument(f"--{name}", dest="print_tables", action="store_const", const=function)
    arguments = parser.parse_args()
    (arguments.print_tables or comparison_tables)(arguments.repeats)
