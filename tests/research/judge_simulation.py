"""Corrected means in the long run: queries of dl19, labelled by simulated judges.

`python tests/run_simulation.py --judges` prints the table of the documentation, in two minutes.
"""

import functools
import math

import numpy as np
import polars as pl

from rankql.core.stats.means import mean_interval
from rankql.core.stats.prediction_powered import correct_sample, mean_width
from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import SkewedStudent
from rankql.decisions.judges import MARGIN, compare_kappas, is_enough
from rankql.features.judge import UNLIKELY, welch_p
from support.paths import DL19

RUN = "D_BERT_KD_TASB"
# How often each judge labelled every query.
TIMES = 60
SIZES = (20, 50, 200)
# The judge labelled so many times as many queries as people.
RATIO = 10
# The labels of a judge, from those of people, grades 0 to 3.
LABELS = {
    "unbiased": lambda rng, rel: np.clip(rel + slips(rng, rel), 0, 3),
    "biased by grade": lambda rng, rel: rel + (rng.random(rel.shape) < LENIENCE[rel]),
    "useless": lambda rng, rel: rng.integers(0, 4, rel.shape),
    "adversarial": lambda rng, rel: np.clip(3 - rel + slips(rng, rel), 0, 3),
}
LENIENCE = np.array([0.45, 0.6, 0.5, 0.0])
# P@1: its mean under labels of people, and the share of the failures that the judge hides.
HIDDEN = {"P@1, agrees on 85%": (0.7, 0.5), "P@1, agrees on 95%": (0.9, 0.5)}
# What a judge hides: the losses of differences (one query in twenty loses 0.5, the others gain as
# much on average), or the low values of Beta(6, 0.3). More sizes show from where on intervals hold.
RARE, TAIL, HIDING_SIZES = "hides rare losses", "hides low values", (20, 50, 100, 200)
# Differences of two systems that are equal on average, of which the judge knows this share, and
# guesses the others.
KNOWN = 0.85
DIFFERENCES = {
    "-.5, 0 or .5": lambda rng, n: rng.choice([-0.5, 0.0, 0.5], n),
    "-1, 0 or 1": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1]),
    "of RR": lambda rng, n: np.diff(
        (rng.random((2, n)) < 0.5) / rng.integers(1, 6, (2, n)), axis=0
    )[0],
    "normal": lambda rng, n: rng.normal(0, 0.2, n).clip(-1, 1),
    "one in ten loses .45": lambda rng, n: (
        np.where(rng.random(n) < 0.1, -0.45, 0.05) + rng.normal(0, 0.02, n)
    ),
}
# The interval of `compare` at the levels of one test, and of the first of 20.
LEVELS = (0.05, 0.05 / 20)
# Values that are hard for people too: P@1 of 0.98, on which the judge errs for one query in twenty,
# and RR of a result for 30% of the queries, which the judge knows for 80%.
NEAR_ONE, SPARSE = "P@1 of 98%", "RR, 30% found"
HARD = {NEAR_ONE: 0.98, SPARSE: 0.3 * sum(1 / x for x in range(1, 11)) / 10}
# Judges without labels: the values of other queries, and values with a correlation of 0.7.
JUDGES = (*LABELS, "unrelated", "correlation 0.7", *HIDDEN)


def slips(rng, rel):
    """One grade up or down, each for a fifth of the labels."""
    draw = rng.random(rel.shape)
    return (draw < 0.2).astype(int) - (draw > 0.8)


def rankings():
    """Of each query, the grades of its judged items, and the places of the top 10 among them."""

    def read(file, *names):
        kinds = [pl.Int64 if name in ("rel", "pos") else pl.String for name in names]
        kinds = {f"column_{i}": kind for i, kind in enumerate(kinds, 1)}
        return pl.read_csv(
            DL19 / file, separator=" ", has_header=False, new_columns=names, schema_overrides=kinds
        )

    judged = read("dl19.qrels", "query", "_", "item", "rel")
    run = read(f"{RUN}.run", "query", "_", "item", "pos", "score", "tag")
    top = run.sort("query", "pos").group_by("query", maintain_order=True).head(10)
    for (query,), rows in judged.group_by("query", maintain_order=True):
        place = {item: i for i, item in enumerate(rows["item"])}
        items = top.filter(pl.col("query") == query)["item"]
        yield rows["rel"].to_numpy(), np.array([place.get(item, -1) for item in items])


def ndcg(labels, places):
    """nDCG@10 under each row of labels."""
    discounts = 1 / np.log2(np.arange(2, 12))
    gains = np.where(places >= 0, labels[:, places], 0)
    ideal = -np.sort(-labels, axis=1)[:, :10]
    return gains @ discounts[: len(places)] / np.maximum(ideal @ discounts, 1e-9)


@functools.cache
def values(judge=None):
    """nDCG@10 of each query under labels of people (one column), or of a judge."""
    rng = np.random.default_rng(5)
    if judge is None:
        return np.stack([ndcg(rel[None], places) for rel, places in rankings()])
    return np.stack(
        [ndcg(LABELS[judge](rng, np.tile(rel, (TIMES, 1))), places) for rel, places in rankings()]
    )


def draw(judge, rng, size):
    """The values of `size` queries under labels of people and of the judge."""
    if judge in HIDDEN:
        mean, hidden = HIDDEN[judge]
        y = (rng.random(size) < mean).astype(float)
        return y, np.where(rng.random(size) < hidden, 1.0, y)
    if judge == NEAR_ONE:
        y = (rng.random(size) < HARD[judge]).astype(float)
        return y, np.where(rng.random(size) < 0.05, 1 - y, y)
    if judge == SPARSE:
        y, other = (rng.random((2, size)) < 0.3) / rng.integers(1, 11, (2, size))
        return y, np.where(rng.random(size) < 0.8, y, other)
    if judge == TAIL:
        y = rng.beta(6, 0.3, size)
        return y, np.where(y < 0.7, 0.97, y)
    if judge in DIFFERENCES:
        y, other = (DIFFERENCES[judge](rng, size) for _ in range(2))
        return y, np.where(rng.random(size) < KNOWN, y, other)
    if judge == RARE:
        f = rng.normal(0.5 / 19, 0.05, size)
        return np.where(rng.random(size) < 0.05, -0.5, f), f
    people = values()[:, 0]
    queries = rng.integers(0, len(people), size)
    y = people[queries]
    if judge == "unrelated":
        return y, rng.permutation(y)
    if judge == "correlation 0.7":
        return y, y + rng.normal(0, people.std() * math.sqrt(1 / 0.49 - 1), size)
    return y, values(judge)[queries, rng.integers(0, TIMES, size)]


def true_mean(judge):
    """The mean of all queries under labels of people."""
    if judge in HIDDEN:
        return HIDDEN[judge][0]
    if judge == RARE or judge in DIFFERENCES:
        return 0.0
    return 6 / 6.3 if judge == TAIL else HARD.get(judge) or values().mean()


def corrected(judge, n, repeats, ratio=RATIO, seed=11):
    """How often intervals of 95% hold the true mean, and how wide they are.

    Those of human labels, corrected ones, and the judge's own; then the mean width of the corrected
    ones over that of human labels, the largest, and the mean of what they are worth in human
    queries. Of differences, they are the intervals of `compare`.
    """
    rng = np.random.default_rng([n, seed])
    paired, truth = judge == RARE or judge in DIFFERENCES, true_mean(judge)
    lowest, widths = (-1.0 if paired else 0.0), [mean_width(0.95)]
    if paired:
        widths = [functools.partial(SkewedStudent().width, alpha=alpha) for alpha in LEVELS]

    def ends_of(sample):
        if paired:
            result = SkewedStudent().apply(sample, 0.05)
            return result.lo, result.hi
        # A judge whose values are all the same has no interval.
        return mean_interval(sample.moments, 0.95) or (sample.mean, sample.mean)

    held, sums, widest, worth = np.zeros(3), np.zeros(2), 0.0, 0.0
    for _ in range(repeats):
        y, f = draw(judge, rng, ratio * n)
        labelled = np.arange(len(y)) < n
        sample = correct_sample(y, f, labelled, lowest=lowest, highest=1.0, widths=widths)
        samples = (Sample(y[:n], None, None, lowest, 1.0), sample, Sample(f))
        ends = np.array([ends_of(x) for x in samples])
        held += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        human, ours, _ = ends[:, 1] - ends[:, 0]
        sums += human, ours
        widest = max(widest, *(width(sample) / width(samples[0]) for width in widths))
        queries = sample.worth(widths[0])
        assert queries <= n or ours <= human
        worth += queries
    return *(held / repeats).tolist(), float(sums[1] / sums[0]), widest, worth / repeats


def noticed(judge, n, repeats):
    """How often a note says that a sample, of the better half twice as often, is not random.

    Then the mean error of the values under labels of people.
    """
    rng, seen, error = np.random.default_rng([n, 12]), 0, 0.0
    for _ in range(repeats):
        y, f = draw(judge, rng, RATIO * n)
        odds = np.where(y > np.median(y), 2, 1)
        chosen = rng.choice(len(y), n, replace=False, p=odds / odds.sum())
        seen += welch_p(f[chosen], np.delete(f, chosen)) < UNLIKELY
        error += y[chosen].mean() - y.mean()
    return seen / repeats, error / repeats


def judge_table(repeats):
    """The table of the page on judges."""
    print("| judge | human queries | human alone | corrected | judge alone | width | worth |")
    print("|---|---|---|---|---|---|---|")
    for judge in (*JUDGES, *HARD, *DIFFERENCES, RARE, TAIL):
        for n in HIDING_SIZES if judge in (RARE, TAIL) else SIZES:
            human, held, own, width, _, worth = corrected(judge, n, repeats)
            shares = " | ".join(f"{100 * x:.1f}%" for x in (human, held, own))
            print(f"| {judge} | {n} of {RATIO * n:,} | {shares} | {width:.3f} | {worth:.0f} |")
    print("\nIntervals of people and corrected ones, of twice as many judged queries\n")
    for judge in (*JUDGES, *HARD):
        shares = (corrected(judge, n, repeats, ratio=2)[:2] for n in SIZES)
        print(f"| {judge} | {' | '.join('{:.1%} / {:.1%}'.format(*x) for x in shares)} |")
    print("\nNotes on a sample that is not random, and its error\n")
    for judge in ("unbiased", "biased by grade", "correlation 0.7"):
        shares = (noticed(judge, n, min(repeats, 1000)) for n in (20, 50, 100))
        print(f"| {judge} | {' | '.join('{:.1%}, {:.3f}'.format(*x) for x in shares)} |")


# Labels of two people and of a model: grades 0 to 3, or 10% relevant. The size of errors of people,
# and of models whose weighted kappa is lower by about 0, 0.05 and 0.1. "By query", each labeller
# finds other queries hard, so that labels of one query err together.
ANNOTATED = {
    "grades 0 to 3": (0.9, (0.9, 1.13, 1.36)),
    "10% relevant": (0.12, (0.12, 0.15, 0.184)),
    "grades, by query": (0.75, (0.75, 1.17)),
}
# Queries and items in each. Many items in few queries are few observations.
SHAPES = dict.fromkeys(ANNOTATED, ((20, 10), (100, 10), (400, 10)))
SHAPES["grades, by query"] = ((5, 800), (10, 400), (25, 177), (400, 11))


def annotate(kind, error, rng, queries, items):
    """The counts of pairs of grades, by query, of one person with the model and with another."""
    size, own = (queries, items), ANNOTATED[kind][0]
    hard = np.clip(rng.normal(1, 0.5, (queries, 1)), 0.2, None)
    if kind == "10% relevant":
        truth = rng.random(size) < rng.beta(0.5, 4.5, (queries, 1))

        def label(e):
            draws = rng.random(size)
            return np.where(truth, draws > np.minimum(0.9, 2 * e * hard), draws < e * hard / 4)
    else:
        truth = np.round(rng.normal(1 + rng.normal(0, 0.7, (queries, 1)), 1, size)).clip(0, 3)

        def label(e):
            of_query = rng.lognormal(0, 0.5, (queries, 1)) if kind == "grades, by query" else hard
            return np.round(truth + rng.normal(0, 1, size) * e * of_query).clip(0, 3)

    first = label(own).astype(int)
    codes = np.repeat(np.arange(queries), items)
    cells = np.zeros((2, queries, 4, 4))
    for counts, other in zip(cells, (label(error), label(own)), strict=True):
        np.add.at(counts, (codes, first.ravel(), other.astype(int).ravel()), 1)
    return cells


def agreement(kind, error, queries, items, repeats):
    """How often the model agrees less, as much, or nothing can be told; and the mean kappas."""
    rng, verdicts, kappas = np.random.default_rng([queries, 7]), np.zeros(3), np.zeros(2)
    few = not is_enough([items] * queries)
    for _ in range(repeats):
        values, _, lo, hi = compare_kappas(annotate(kind, error, rng, queries, items), GRADES, 0.95)
        verdicts[0 if hi < 0 else 2 if lo <= -MARGIN or few else 1] += 1
        kappas += values
    return *(verdicts / repeats).tolist(), *(kappas / repeats).tolist()


GRADES = np.arange(4.0)


def person(rng, truth, error=0.5):
    """Labels of a person, who finds other queries hard."""
    hard = np.clip(rng.normal(1, 0.5, (len(truth), 1)), 0.2, None)
    return np.round(truth + rng.normal(0, 1, truth.shape) * error * hard).clip(0, 3)


def reversing(share):
    """A model like a person, which reverses all labels of this share of the queries."""

    def label(rng, truth):
        labels = person(rng, truth)
        return np.where(rng.random((len(truth), 1)) < share, 3 - labels, labels)

    return label


def random_labels(rng, truth):
    return rng.integers(0, 4, truth.shape)


# Models whose weighted kappa is lower than that of a person by more than 0.1; two reverse whole
# queries.
MODELS = {
    "reverses one query in six": reversing(1 / 6),
    "reverses one query in eight": reversing(1 / 8),
    "random for one query in six": lambda rng, truth: np.where(
        rng.random((len(truth), 1)) < 1 / 6, random_labels(rng, truth), person(rng, truth)
    ),
    "random for one item in six": lambda rng, truth: np.where(
        rng.random(truth.shape) < 1 / 6, random_labels(rng, truth), person(rng, truth)
    ),
    "says 1 for a quarter of the queries": lambda rng, truth: np.where(
        rng.random((len(truth), 1)) < 0.25, 1, person(rng, truth)
    ),
    "larger errors": lambda rng, truth: person(rng, truth, 0.85),
    "larger errors, by query": lambda rng, truth: person(
        rng, truth, 0.8 * rng.lognormal(0, 0.5, (len(truth), 1))
    ),
    "one grade too high for half": lambda rng, truth: (
        person(rng, truth) + (rng.random(truth.shape) < 0.5)
    ).clip(0, 3),
    "no grade above 1": lambda rng, truth: np.minimum(person(rng, truth), 1),
    "higher or lower by query": lambda rng, truth: person(
        rng, truth + rng.normal(0, 0.7, (len(truth), 1))
    ),
}
# The pairs of each query; in the last, one query has half of them.
PAIRS = {
    "5 of 100": [100] * 5, "8 of 100": [100] * 8, "20 of 50": [50] * 20, "30 of 50": [50] * 30,
    "50 of 20": [20] * 50, "one of 500, 25 of 20": [500] + [20] * 25,
}  # fmt: skip


def verdicts_on(model, sizes, repeats, seed=17):
    """How often a model agrees as much or more by its interval, and how often that is told."""
    rng = np.random.default_rng([len(sizes), seed])
    codes, told, kappas = np.repeat(np.arange(len(sizes)), sizes), 0, np.zeros(2)
    for _ in range(repeats):
        means = rng.normal(1, 0.7, (len(sizes), 1))
        truth = np.round(rng.normal(means, 1, (len(sizes), max(sizes)))).clip(0, 3)
        inside = np.arange(max(sizes)) < np.array(sizes)[:, None]
        first = person(rng, truth)[inside].astype(int)
        cells = np.zeros((2, len(sizes), 4, 4))
        for counts, label in zip(cells, (model, person), strict=True):
            other = label(rng, truth)[inside].astype(int)
            np.add.at(counts, (codes, first, other), 1)
        values, _, lo, _ = compare_kappas(cells, GRADES, 0.95)
        told += lo is not None and lo > -MARGIN
        kappas += values
    return told / repeats, told / repeats * is_enough(sizes), *(kappas / repeats).tolist()


def annotator_table(repeats):
    """The tables on the verdict whether a model agrees as much as a second person."""
    print("| labels | kappa of the model | of the person | items | less | as much | cannot tell |")
    print("|---|---|---|---|---|---|---|")
    for kind, (_, errors) in ANNOTATED.items():
        for error in errors:
            for shape in SHAPES[kind]:
                *verdicts, model, person = agreement(kind, error, *shape, repeats)
                shares = " | ".join(f"{100 * x:.0f}%" for x in verdicts)
                items = "{} x {}".format(*shape)
                print(f"| {kind} | {model:.2f} | {person:.2f} | {items} | {shares} |")
    print("\nAs much by the interval alone\n")
    for name, model in {"a person": person, **MODELS}.items():
        rates = [verdicts_on(model, sizes, repeats) for sizes in PAIRS.values()]
        shares = " | ".join(f"{100 * told:.0f}%" for told, *_ in rates)
        print(f"| {name} | {rates[0][2]:.2f} | {shares} |")
