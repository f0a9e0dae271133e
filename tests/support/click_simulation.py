"""How often the interval of an estimated propensity contains the true one, by impressions.

    python tests/run_simulation.py --clicks

prints the table of the documentation.
"""

import numpy as np
import polars as pl

import rankql

IMPRESSIONS = (4, 8, 12)
# Attractive items of many queries, where a bias is larger than the interval.
ATTRACTIVE = {"queries": 500, "items": 1, "attraction": (0.5, 1.0)}
# Position 3 of users who look at position k with probability 1 / k.
POSITION, TRUE = 3, 1 / 3


def random_log(rng, queries=100, items=2, shown=20, attraction=(0.1, 0.9)):
    """A log of queries each of their own taste: clicks of a query are alike."""
    theta = 1 / np.arange(1, 5)
    q, i, _ = np.indices((queries, items, shown)).reshape(3, -1)
    k = rng.integers(0, len(theta), len(q))
    r = rng.uniform(*attraction, (queries, items))
    click = rng.random(len(q)) < theta[k] * r[q, i]
    return pl.DataFrame({"query": q, "item": i, "pos": k + 1, "click": click})


def propensities_covered(name, logs, **drawn):
    """The share of intervals that contain the true propensity, and the bias."""
    rng = np.random.default_rng(1)
    log = pl.concat(random_log(rng, **drawn).with_columns(log=pl.lit(j)) for j in range(logs))
    rows = getattr(rankql, name)(log, slice="log").filter(pos=POSITION)
    held = rows.select(pl.lit(TRUE).is_between("lo", "hi").mean()).item()
    return held, rows["propensity"].mean() - TRUE


def click_table(logs):
    """The table of the page on clicks."""
    print("| impressions | bias | 95% intervals that contain the true propensity |")
    print("|---|---|---|")
    for shown in IMPRESSIONS:
        held, bias = propensities_covered("click_model", logs, shown=shown, **ATTRACTIVE)
        print(f"| {shown} | {bias:.3f} | {100 * held:.0f}% |", flush=True)
