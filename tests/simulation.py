"""How often the tests of compare reject, and their intervals hold, in the long run.

    python tests/simulation.py

prints the tables of the documentation, in some minutes. test_simulation.py asserts what they say.
"""

import argparse
import functools
import itertools
import math
from contextlib import contextmanager

import numpy as np
from scipy import stats

from rankql import significance
from rankql.significance import TESTS, Outcome, Sample, Setting, adjusted, untestable

ALPHA = 0.05
REPEATS = 2_000
RESAMPLES = 999
SIZES = (20, 43, 200)
HORIZONS = (10, 30, 100)
# Counted one by one are the patterns of so many signs, to save time; those of 20 are sampled.
EXACT = 14

PAIRED = [name for name, test in TESTS.items() if test.pair]


def ndcg(rng, n, systems=2):
    """Values as of nDCG: skewed, some queries at 0 and at 1, alike in all systems."""
    easy = rng.beta(0.8, 1.2, (n, 1))
    return np.clip(1.2 * (easy + rng.normal(0, 0.15, (n, systems))) - 0.1, 0, 1).round(2)


def improved(rng, values):
    """Every fifth query half-way up to 1, which makes skewed differences."""
    return values + (rng.random(values.shape) < 0.2) * (1 - values) / 2


@functools.cache
def improvement():
    """The true mean of what `improved` adds."""
    return 0.1 * (1 - float(ndcg(np.random.default_rng(0), 4_000_000, 1).mean()))


def tried(name, sample, seed, alpha=ALPHA, horizon=100):
    """What a test says; without a difference to test, nothing."""
    if untestable(name, sample):
        return Outcome(p=1.0)
    setting = Setting(alpha, RESAMPLES, seed, horizon)
    return TESTS[name].pair(sample, setting)


@contextmanager
def exact(most):
    """As many signs at most have all their patterns counted."""
    usual, significance.EXACT = significance.EXACT, most
    try:
        yield
    finally:
        significance.EXACT = usual


def single(name, n, repeats=REPEATS):
    """The share of rejections without a difference, and of intervals that hold the true one."""
    rng = np.random.default_rng([n, 1])
    rejected = held = 0
    with exact(EXACT):
        for seed in range(repeats):
            a, b = ndcg(rng, n).T
            rejected += tried(name, Sample(b - a), seed).p <= ALPHA
            found = tried(name, Sample(improved(rng, b) - a), seed)
            held += found.lo is None or found.lo <= improvement() <= found.hi
    return rejected / repeats, held / repeats


class Ranges:
    """The studentized range from a table: scipy integrates it anew each time."""

    def __init__(self):
        self.isf = functools.cache(stats.studentized_range.isf)

    @staticmethod
    @functools.cache
    def table(m, free):
        places = np.linspace(0, 12, 301)
        return places, stats.studentized_range.sf(places, m, free)

    def sf(self, x, m, free):
        return np.interp(x, *self.table(m, free))


@contextmanager
def quick_ranges():
    """Tukey's HSD with the table."""
    usual = significance.stats

    class Quick:
        studentized_range = Ranges()

        def __getattr__(self, name):
            return getattr(usual, name)

    significance.stats = Quick()
    try:
        yield
    finally:
        significance.stats = usual


def family(repeats=REPEATS, n=43, systems=4, metrics=2):
    """With 4 systems and 2 metrics: the share of families with a wrong rejection; then the FDR.

    Of the families without any difference; for the FDR one of the systems is better than the rest.
    """
    rng = np.random.default_rng([n, 2])
    pairs = list(itertools.combinations(range(systems), 2))
    joint = ("tukey", "randomised_tukey")
    names = ("none", "bonferroni", "holm", "bh", *joint, *(f"{x}, one metric" for x in joint))
    wrong = dict.fromkeys(names, 0)
    held = dict.fromkeys(("bonferroni", *joint), 0)
    false = dict.fromkeys(("none", "bonferroni", "holm", "bh"), 0.0)
    tests = metrics * len(pairs)

    def by_t(blocks, alpha=ALPHA):
        return [tried("t", Sample(x[:, b] - x[:, a]), 0, alpha) for x in blocks for a, b in pairs]

    with quick_ranges():
        for seed in range(repeats):
            one = ndcg(rng, n, systems)
            other = np.clip(one + rng.normal(0, 0.1, one.shape), 0, 1).round(2)  # alike
            p = [x.p for x in by_t([one, other])]
            for correction in ("none", "bonferroni", "holm", "bh"):
                wrong[correction] += min(adjusted(p, correction)) <= ALPHA
            found = by_t([one, other], ALPHA / tests)
            held["bonferroni"] += all(x.lo is None or x.lo <= 0 <= x.hi for x in found)
            for name in joint:
                setting = Setting(ALPHA / metrics, RESAMPLES, seed)
                found = [x for v in (one, other) for x in TESTS[name].joint(v, pairs, setting)]
                p = [x.p for x in found]
                wrong[name] += min(adjusted(p, "holm", metrics)) <= ALPHA
                wrong[f"{name}, one metric"] += min(p[: len(pairs)]) <= ALPHA
                held[name] += all(x.lo <= 0 <= x.hi for x in found)
            one[:, 0] = improved(rng, one[:, 0])
            other[:, 0] = improved(rng, other[:, 0])
            null = np.array([a != 0 for a, _ in pairs] * metrics)
            p = [x.p for x in by_t([one, other])]
            for correction in false:
                rejected = np.array(adjusted(p, correction)) <= ALPHA
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


def peeking(names, repeats=REPEATS, first=10, step=10, last=300, horizon=100):
    """Looks after every few queries, stopping at the first p <= 0.05 without a difference.

    By name, the share that stops ever, and that which rejects at the last look alone.
    """
    rng = np.random.default_rng([last, 4])
    ever, final = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for _ in range(repeats):
        a, b = ndcg(rng, last).T
        for name in names:
            looks = [Sample((b - a)[:n]) for n in range(first, last + 1, step)]
            p = [tried(name, sample, 0, horizon=horizon).p for sample in looks]
            ever[name] += min(x for x in p if x is not None) <= ALPHA
            final[name] += p[-1] <= ALPHA
    return {name: (ever[name] / repeats, final[name] / repeats) for name in names}


def often(repeats=REPEATS, horizon=100):
    """A look at every query from the second on."""
    return peeking(("anytime",), repeats, first=2, step=1, horizon=horizon)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    error = 1.96 * math.sqrt(ALPHA * (1 - ALPHA) / repeats)
    print(
        f"{repeats:,} repetitions, level 5%: a rate of 5% is seen as {percent(ALPHA - error)} to "
        f"{percent(ALPHA + error)}. Resampling: {RESAMPLES}.\n"
    )
    found = {(name, n): single(name, n, repeats) for n in SIZES for name in PAIRED}
    sizes = [f"n = {n}" for n in SIZES]
    for i, title in enumerate(("rejected without a difference", "intervals that hold the true")):
        body = [[name, *(percent(found[name, n][i]) for n in SIZES)] for name in PAIRED
                if not i or TESTS[name].interval]  # fmt: skip
        print(rows([title, *sizes], *body), end="\n\n")
    wrong, false, held = family(repeats)
    body = [
        [name, *(percent(each[name]) if name in each else "" for each in (wrong, false, held))]
        for name in wrong
    ]
    head = ["4 systems, 2 metrics, n = 43", "a wrong rejection", "FDR, one better", "all hold"]
    print(rows(head, *body), end="\n\n")
    names = [name for name in PAIRED if TESTS[name].clusters]
    body = [[name, *map(percent, clustered(name, repeats))] for name in names]
    print(rows(["40 users, 1 to 12 queries each", "by query", "cluster="], *body), end="\n\n")
    shares = peeking(("t", "anytime"), repeats)
    body = [[name, *map(percent, share)] for name, share in shares.items()]
    print(
        rows(["30 looks, 10 queries more each", "ever rejected", "at the last"], *body), end="\n\n"
    )
    body = [
        [f"anytime, horizon={horizon}", *map(percent, often(repeats, horizon)["anytime"])]
        for horizon in HORIZONS
    ]
    print(rows(["a look at every query from 2 to 300", "ever rejected", "at the last"], *body))


if __name__ == "__main__":
    main()
