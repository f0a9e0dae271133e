"""A run with human labels of some queries and those of a judge of all."""

import numpy as np
import polars as pl

from rankql.core.stats.means import t_quantile
from rankql.core.stats.prediction_powered import correct_sample
from rankql.core.stats.tests import PairedTest


def simulated(queries=160, labelled=60, items=12, seed=5):
    """A run, human labels of some queries, the judge's labels of all."""
    rng = np.random.default_rng(seed)
    names = [f"q{i:03}" for i in range(queries)]
    truth = pl.DataFrame(
        {
            "query": np.repeat(names, items),
            "item": [f"d{i}" for i in range(items)] * queries,
            "rel": rng.choice(4, queries * items, p=[0.5, 0.2, 0.2, 0.1]),
            "user": np.repeat(rng.integers(0, 60, queries), items),
            "lang": np.repeat(rng.choice(["de", "en"], queries), items),
            "traffic": np.repeat(rng.integers(1, 9, queries), items),
        }
    )
    skill = np.repeat(rng.normal(0, 2, queries), items)
    run = truth.select(
        "query", "item", score=pl.col("rel") * pl.Series(skill) + rng.normal(0, 1, truth.height)
    )
    slips = pl.Series(rng.choice([0, 0, 0, 1], truth.height))
    judge = truth.select("query", "item", rel=(pl.col("rel") + slips).clip(0, 3))
    sample = [*rng.choice(names, labelled, replace=False)]
    human = truth.filter(pl.col("query").is_in(sample)).select("query", "item", "rel")
    about = truth.select("query", "user", "lang", "traffic").unique("query")
    return run, human, judge, about


def corrected(y, f, unlabelled, clusters=None, weights=None, **options):
    """The corrected sample of queries with human labels and of others; pairs of both kinds."""
    nothing = np.full(len(unlabelled), np.nan)
    values = np.append(y, nothing), np.append(f, unlabelled)
    labelled = np.append(np.full(len(y), True), np.full(len(unlabelled), False))
    joined = [None if pair is None else np.concatenate(pair) for pair in (clusters, weights)]
    return correct_sample(*values, labelled, *joined, **options)


def student_width(sample):
    """The width of the interval of `test="t"`."""
    return PairedTest().width(sample, 0.05)


def half_width(sample):
    """Half of the t interval of 95%."""
    return t_quantile(0.975, sample.freedom) * sample.error
