"""What a published mean supports: intervals that hold, and p over everything that it may hide."""

import itertools
import random

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

from rankql import audit, compare, read_values
from rankql.cli.main import main
from rankql.core.stats.published import (
    PublishedMean,
    best_of,
    mcnemar_p,
    queries_of_means,
    range_of_fisher,
    range_of_mcnemar,
    range_of_randomisation,
)
from support.parameters import few
from support.refusals import refuses


def numbers(result, *names):
    return result.table.select(*names).row(0)


def test_a_share_has_the_interval_of_clopper_and_pearson():
    """For all numbers of queries that round to it: 0.92 of 1,000 are 915 to 925."""
    one = stats.binomtest(46, 50).proportion_ci(method="exact")
    assert numbers(audit(0.92, 50, "HR@5"), "lo", "hi") == pytest.approx((one.low, one.high))
    ends = [stats.binomtest(k, 1000).proportion_ci(method="exact") for k in (915, 925)]
    wide = audit("0.92", 1000, "Success@5")
    assert numbers(wide, "lo", "hi") == pytest.approx((ends[0].low, ends[1].high))
    exact = audit("0.920", 1000, "HR@5")
    assert exact.table["lo"].item() > wide.table["lo"].item()
    assert audit(0.92, 1000, "HR@5", digits=3).table.equals(exact.table)
    assert numbers(audit(1, 10, "P@1"), "lo", "hi") == pytest.approx((0.025**0.1, 1))


@pytest.mark.parametrize(
    ("metric", "share"),
    [("P@1", True), ("Success@5", True), ("HR@10", True), ("RR@1", True), ("P@5", False),
     ("nDCG@1", False), ("RR", False), ("R@1", False), (None, False)],
)  # fmt: skip
def test_the_metric_says_whether_it_is_a_share(metric, share):
    result = audit(0.93, 20, metric)
    assert (result.table["verdict"].item() == "impossible") == share != result.passed
    if share:
        assert "0.93 is no share of 20 queries: 18 are 0.9 and 19 are 0.95" in repr(result)


# Values within 0 and 1, and their means.
VALUES = {
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "0, 1 / 2 or 1": (lambda rng, n: rng.choice([0, 0.5, 1], n, p=[0.1, 0.2, 0.7]), 0.8),
    "as of nDCG": (lambda rng, n: rng.beta(0.8, 1.2, n), 0.4),
    "RR of 30%": (
        lambda rng, n: (rng.random(n) < 0.3) / rng.integers(1, 11, n),
        0.3 * np.mean(1 / np.arange(1, 11)),
    ),
    "0 or 1": (lambda rng, n: (rng.random(n) < 0.95).astype(float), 0.95),
}


def covered(kind, n, repeats, digits=3, seed=3):
    """How often the interval of a rounded mean contains the true one."""
    rng, (draw, true) = np.random.default_rng([n, seed]), VALUES[kind]
    held = 0
    for _ in range(repeats):
        mean = PublishedMean(round(float(draw(rng, n).mean()), digits), 10.0**-digits, n)
        ends = mean.interval(0.05, kind == "0 or 1")
        held += ends.lo <= true <= ends.hi
    return held / repeats


@few(4)(
    ("n", "repeats", "of_shares", "of_others"),
    [*((n, 400, 0.93, 0.96) for n in (10, 43, 200, 1000)),
     *(pytest.param(n, 4000, 0.945, 0.975, marks=pytest.mark.simulation)
       for n in (10, 43, 200, 1000))],
)  # fmt: skip
@pytest.mark.parametrize("kind", VALUES)
def test_intervals_hold_for_any_values(kind, n, repeats, of_shares, of_others):
    """Exact for shares; 98% and more of others."""
    assert covered(kind, n, repeats) > (of_shares if kind == "0 or 1" else of_others)


@pytest.mark.parametrize(("n", "least"), [(1, 0.975), (10, 0.961), (50, 0.9505)])
def test_intervals_hold_for_shares_of_other_names(n, least):
    """Exactly, over all shares of 1: the figures of audit.md."""
    ends = [PublishedMean(k / n, 1e-12, n).interval(0.05, False) for k in range(n + 1)]
    shares = np.array([x + y for e in ends for x in e for y in (-1e-9, 1e-9)]).clip(1e-9, 1 - 1e-9)
    held = sum(
        ((e.lo <= shares) & (shares <= e.hi)) * stats.binom.pmf(k, n, shares)
        for k, e in enumerate(ends)
    )
    assert least <= held.min() < least + 0.001


def overlaps(ours, theirs, n):
    """The least number that differ, and the least and largest p, over all overlaps."""
    found = [
        (a + b - 2 * both, mcnemar_p(a - both, b - both))
        for a in ours for b in theirs for both in range(max(0, a + b - n), min(a, b) + 1)
    ]  # fmt: skip
    return min(x for x, _ in found), min(p for _, p in found), max(p for _, p in found)


@few(3)("n", [1, 2, 5, 9, 14, 20])
def test_the_range_of_p_over_all_overlaps(n):
    """Enumerated, of single numbers of queries and of those that round to one mean."""
    for a in range(0, n + 1, 1 + n // 7):
        for b in range(n + 1):
            for width in (0, 1) if n < 15 else (b % 2,):
                ours = range(max(0, a - width), min(n, a + width) + 1)
                theirs = range(max(0, b - width), b + 1)
                least, found = range_of_mcnemar(ours, theirs, n)
                assert (least, found.lo, found.hi) == pytest.approx(overlaps(ours, theirs, n))


def test_mcnemar_is_the_test_of_signs():
    for wins, losses in ((5, 0), (8, 2), (3, 3), (0, 7)):
        expected = stats.binomtest(wins, wins + losses).pvalue
        assert mcnemar_p(wins, losses) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("k", "verdict", "said"),
    [
        (44, "never", "At least 2 of 50 queries differ, 6 are needed"),
        (39, "depends", "0.14 above the baseline of 0.78: depends on the overlap"),
        (35, "significant", "significant, whatever the overlap. p from < 0.001 to 0.0"),
    ],
)
def test_a_baseline_on_the_same_queries(k, verdict, said):
    """From 46 - k gains and no loss, to as many losses as possible: 4 queries are no success."""
    result = audit(0.92, 50, "HR@5", baseline=k / 50)
    losses = 4
    expected = (2.0 ** (1 - (46 - k)), mcnemar_p(46 - k + losses, losses))
    assert numbers(result, "p_lo", "p_hi") == pytest.approx(expected)
    assert numbers(result, "verdict", "differ") == (verdict, 46 - k)
    assert said in repr(result) and result.passed == (verdict == "significant")


def exact_p(ours, theirs):
    """p of the paired randomisation test, over all signs of the differences."""
    differences = np.array(ours) - np.array(theirs)
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    return float(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9))


def exact_p_unpaired(ours, theirs):
    """p of the randomisation test of different queries, over all splits: Fisher's two sides."""
    values, n = np.array([*ours, *theirs]), len(ours)
    sums = [values[[*chosen]].sum() for chosen in itertools.combinations(range(len(values)), n)]
    far = np.abs(np.array(sums) / n - (values.sum() - sums) / len(theirs))
    return float(np.mean(far >= abs(np.mean(ours) - np.mean(theirs)) - 1e-9))


GRIDS = ([0, 1], [0, 0.5, 1], [0, 0.2, 0.3, 0.9, 1], [0.4, 0.5, 0.6], [0, 0.63, 1], [0.99, 1, 0])


@few(2)("seed", range(12))
def test_no_values_leave_the_range_of_graded_means(seed):
    """The exact test of random lists, against what their rounded means say."""
    rng, drawn = random.Random(seed), 0
    while drawn < 60:
        n, grid, digits = rng.randint(2, 9), rng.choice(GRIDS), rng.randint(1, 4)
        ours, theirs = ([rng.choice(grid) for _ in range(n)] for _ in range(2))
        if rng.random() < 0.5:  # differences of one direction
            ours, theirs = (list(map(f, ours, theirs)) for f in (max, min))
        drawn += 1
        means = [PublishedMean(round(sum(x) / n, digits), 10.0**-digits, n) for x in (ours, theirs)]
        ends = range_of_randomisation(*means, unpaired=False)
        assert ends.lo - 1e-12 <= exact_p(ours, theirs) <= ends.hi + 1e-12, (ours, theirs)


@pytest.mark.parametrize(("kind", "n", "wins"), [("gains", 8, 4), ("losses too", 9, 5)])
def test_the_ends_of_the_range_are_reached(kind, n, wins):
    """By 0 and 1 with as many losses as possible, and by differences of one direction."""
    losses = wins - 3 if kind == "losses too" else 0
    ours = [1] * wins + [0] * losses + [1] * (n - wins - losses)
    theirs = [0] * wins + [1] * losses + [1] * (n - wins - losses)
    means = [PublishedMean(sum(x) / n, 1e-11, n) for x in (ours, theirs)]
    ends = range_of_randomisation(*means, unpaired=False)
    assert ends.hi == pytest.approx(exact_p(ours, theirs))
    shifted = [0.5 + 0.04 * i for i in range(n)], [0.4 + 0.03 * i for i in range(n)]
    assert ends.lo == pytest.approx(exact_p(*shifted))


@few(3)("sizes", [(3, 3), (4, 2), (5, 5), (6, 3), (4, 7)])
def test_the_range_of_different_queries(sizes):
    rng, (n, m) = random.Random(sum(sizes)), sizes
    for _ in range(40):
        grid = rng.choice(GRIDS)
        ours, theirs = [rng.choice(grid) for _ in range(n)], [rng.choice(grid) for _ in range(m)]
        means = [PublishedMean(sum(x) / len(x), 1e-9, len(x)) for x in (ours, theirs)]
        ends = range_of_randomisation(*means, unpaired=True)
        p = exact_p_unpaired(ours, theirs)
        assert ends.lo - 1e-12 <= p <= ends.hi + 1e-12, (ours, theirs, ends, p)


def test_from_how_many_queries_means_alone_decide():
    """At each number from it on p is at most the level, and not at the one before."""
    rng = random.Random(5)
    for _ in range(30):
        low = rng.uniform(0, 0.9)
        high, level = rng.uniform(low + 0.05, 1), rng.choice([0.05, 0.025, 0.0045])
        of = (PublishedMean(high, 0.001, 50), PublishedMean(low, 0.001, 50))
        least = queries_of_means(*of, level)

        def p(n, pair=of):
            ours, theirs = (PublishedMean(x.value, x.unit, n) for x in pair)
            return range_of_randomisation(ours, theirs, unpaired=False).hi

        assert p(least - 1) > level or least == 1
        assert max(p(n) for n in range(least, least + 300, 7)) <= level
    assert queries_of_means(PublishedMean(0.5, 0.01, 9), PublishedMean(0.51, 0.01, 9), 0.05) is None


@pytest.mark.parametrize(
    ("ours", "n", "theirs", "verdict", "said"),
    [
        ("0.500", 1000, "0.470", "depends", "by the means alone "),  # R@10: t alone says < 0.02
        ("0.52", 50, "0.50", "depends", "its verdict turns at 0.0704"),
        ("1.000", 20, "0.800", "depends", "p from < 0.001 to 0.62"),
        ("1.000", 20, "1.000", "depends", "No difference from the baseline of 1.000 is published"),
        ("0.9", 5, "0.1", "never", "cannot be significant"),
        ("0.9", 6, "0.1", "depends", "p from 0.031"),
        ("0.51", 50, "0.50", "depends", "by the means alone more digits are needed"),
        ("0.360", 6980, "0.184", "significant", "significant, whatever the values per query"),
    ],
)
def test_verdicts_of_graded_means_hold_for_all_values(ours, n, theirs, verdict, said):
    result = audit(ours, n, "nDCG@10", baseline=theirs)
    assert result.table["verdict"].item() == verdict and said in repr(result)


def test_values_of_compare_decide_what_the_means_alone_do_not():
    """The same means, with values that differ and with values that hardly do."""
    rng = np.random.default_rng(2)
    old = rng.permutation(np.repeat([0.3, 0.7], 25))
    assert audit("0.520", 50, "nDCG@10", baseline="0.500").table["verdict"].item() == "depends"
    noise = rng.permutation(np.tile([-0.02, 0.02], 25))
    for new, significant in ((rng.permutation(old) + 0.02, False), (old + 0.02 + noise, True)):
        values = pl.DataFrame({"query": range(50), "old": old, "new": new})
        result = compare({x: read_values(values.select("query", value=x)) for x in ("old", "new")})
        assert (result.table["p"].item() <= 0.05) == significant


def test_other_ranges_are_scaled():
    tau = audit("0.4", 30, "TauB", baseline="0.0", digits=9).table
    share = audit("0.7", 30, "nDCG", baseline="0.5", digits=9).table
    assert tau["p_hi"].item() == pytest.approx(share["p_hi"].item())


def test_graded_metrics_at_a_low_and_a_high_spread():
    result = audit("0.53", 43, "nDCG@10", baseline="0.50", digits=9)
    ps = (2 * stats.t.sf(0.03 / (sd / 43**0.5), 42) for sd in (0.12, 0.27))
    assert "Student's p is {:.2f} to {:.2f} if differences".format(*ps) in repr(result)
    few, many = numbers(result, "queries_lo", "queries_hi")
    assert (few, many) == (128, 638) and "about 128 to 638 queries would decide it" in repr(result)
    known = audit(0.53, 43, "nDCG@10", baseline=0.50, sd_difference=0.02, digits=3)
    assert known.table["verdict"].item() == "significant" and "TREC" not in repr(known)
    tiny = audit(0.9, 4, "nDCG@10", baseline=0.1).table
    assert tiny["p_lo"].item() == 2**-3 and tiny["verdict"].item() == "never"


def test_a_published_spread_or_interval_replaces_what_is_assumed():
    t = stats.t.ppf(0.975, 49)
    known = audit("0.620", 50, "nDCG@10", sd=0.2)
    ends = (0.6195 - t * 0.2 / 50**0.5, 0.6205 + t * 0.2 / 50**0.5)
    assert numbers(known, "lo", "hi") == pytest.approx(ends)
    half = audit("0.620", 50, "nDCG@10", plus_minus=t * 0.2 / 50**0.5)
    assert numbers(half, "lo", "hi") == pytest.approx(ends) and "hold for all" not in repr(half)
    alone = audit("0.620", 50, "nDCG@10")
    assert alone.table["hi"].item() > ends[1] and "hold for all values" in repr(alone)


def test_a_baseline_of_other_queries():
    shares = audit("0.92", 50, "HR@5", baseline="0.70", unpaired=True, baseline_queries=80)
    p = stats.fisher_exact([[46, 4], [56, 24]])[1]
    assert numbers(shares, "p_lo", "p_hi") == pytest.approx((p, p))
    assert range_of_fisher(range(5, 7), 10, range(6, 8), 10).hi == 1
    assert range_of_fisher(range(4, 10), 10, range(6, 8), 10).hi == 1  # though no end is 1
    graded = audit(0.62, 50, "nDCG@10", baseline=0.5, unpaired=True, sd=0.2, digits=9)
    t = 0.12 / (0.2 * (2 / 50) ** 0.5)
    assert graded.table["p_lo"].item() == pytest.approx(2 * stats.t.sf(t, 98))


def test_several_systems():
    """The mean of the largest of 12 normal numbers is 1.63 deviations; of one, 0."""
    assert (best_of(12), best_of(12, 0.9)) == pytest.approx((1.6292, 0.5152), abs=1e-4)
    draws = np.random.default_rng(1).normal(size=(20_000, 5)).max(axis=1)
    assert best_of(5) == pytest.approx(draws.mean(), abs=0.02) and best_of(1) == 0
    alone = audit(0.92, 50, "HR@5", baseline=0.76)
    several = audit(0.92, 50, "HR@5", baseline=0.76, systems=12)
    assert numbers(alone, "p_lo", "p_hi") == numbers(several, "p_lo", "p_hi")
    assert "at 0.0045 (for 11 tests)" in repr(several) and "best of 12 equal" in repr(several)
    error = (0.92 * 0.08 / 50) ** 0.5
    assert f"1.6 standard errors ({1.6292 * error:.4f})" in repr(several)


TABLE = {"system": ["BM25", "dense", "both"], "nDCG@10": ["0.506", "0.72", "0.731"],
         "HR@5": ["0.86", "0.92", "**1.00**"]}  # fmt: skip


def test_a_table_is_corrected_within_each_metric(tmp_path):
    pl.DataFrame(TABLE).write_csv(tmp_path / "table.csv")
    result = audit(table=tmp_path / "table.csv", queries=50)
    assert result.table.select("metric", "system").rows() == [
        (metric, name) for metric in ("nDCG@10", "HR@5") for name in ("dense", "both")
    ]
    verdicts = result.table["verdict"].to_list()
    assert verdicts == ["depends", "depends", "never", "significant"]
    assert "at 0.025 (for 2 tests)" in repr(result) and not result.passed
    assert "✗" in repr(result)
    assert result.title == "4 means against BM25: 2 depends, 1 significant, 1 never"
    single = audit("1.00", 50, "HR@5", baseline="0.86", systems=3).table
    assert single.drop("system").equals(result.table[3:].drop("system"))
    other = audit(table=pl.DataFrame(TABLE), queries=50, baseline="dense")
    assert other.table["baseline"].unique().sort().to_list() == [0.72, 0.92]
    assert other.table["difference"][0] == pytest.approx(-0.214)


GIVEN = {"published": 0.92, "queries": 50, "metric": "HR@5"}
test_bad_input_is_one_line = refuses("audit", globals(), "audit(**GIVEN | dict(%s))", light=6)


def test_on_the_command_line(tmp_path):
    def run(command):
        done = CliRunner().invoke(main, ["audit", *command.split()])
        return done.exit_code, done.output

    wanted = "--mean 0.920 --queries 50 --metric HR@5 --baseline 0.88"
    code, output = run(wanted)
    assert code == 0 and output.startswith("HR@5 of 0.920 on 50 queries: 95% CI 0.808 to 0.978")
    assert run(f"{wanted} --fail")[0] == 1
    assert run("--mean 0.92 --queries 50 --metric HR@5 --baseline 0.6 --fail")[0] == 0
    assert run("--mean 0.93 --queries 20 --metric HR@5 --fail")[0] == 1
    pl.DataFrame(TABLE).write_csv(tmp_path / "t.csv")
    code, output = run(f"{tmp_path / 't.csv'} --queries 50 --baseline dense --format csv")
    assert code == 0 and output.splitlines()[0].startswith("system,metric,mark,mean,lo,hi,baseline")
    code, output = run("--mean 92 --queries 50 --metric HR@5")
    assert code == 2 and "pass 0.92" in output
