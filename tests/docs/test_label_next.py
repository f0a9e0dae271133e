"""What to label next: the replay on dl19 gives the table of docs/labels.md."""

import numpy as np
import polars as pl
import pytest

from support.paths import DL19, ROOT

FILES = {"BM25": "BM25", "TAS-B": "D_BERT_KD_TASB", "SPLADE": "SPLADE_P_P_ENSEMBLE_DISTIL"}
K, STEP, ORDERS = 10, 5, 100
DISCOUNTS = 1 / np.log2(np.arange(K) + 2)


def read(name, value):
    rows = [line.split() for line in (DL19 / name).read_text().splitlines()]
    rows = [(query, item, float(number)) for query, _, item, number, *_ in rows]
    return pl.DataFrame(rows, ["query", "item", value], orient="row")


def best_dcg(grades):
    """The ideal DCG of each row."""
    return (np.sort(grades, axis=1)[:, : -K - 1 : -1] * DISCOUNTS).sum(axis=1)


@pytest.mark.slow
@pytest.mark.skipif(not DL19.exists(), reason="dl19 is not here")
@pytest.mark.parametrize("names", [("BM25", "TAS-B"), ("BM25", "SPLADE"), ("TAS-B", "SPLADE")])
def test_labels_until_the_sign_of_the_difference_stays(names):
    qrels = read("dl19.qrels", "rel")
    first, second = (
        read(f"{FILES[name]}.run", name).join(qrels, "query", how="semi") for name in names
    )
    items = first.join(second, ["query", "item"], how="full", coalesce=True)
    items = items.filter(pl.min_horizontal(names) <= K).sort("query", "item")
    items = items.join(qrels, ["query", "item"], how="left", maintain_order="left")
    grades = items["rel"].fill_null(0).to_numpy()
    places = [items[name].fill_null(1e6).to_numpy() for name in names]
    weights = np.subtract(*(np.where(p <= K, 1 / np.log2(p + 1), 0) for p in places))
    row, column = (
        items.select(x).to_series().to_numpy()
        for x in (pl.col("query").rank("dense") - 1, pl.int_range(pl.len()).over("query"))
    )
    by_query = np.zeros((2, row.max() + 1, 2 * K))
    by_query[0, row, column] = weights

    def difference(known, ideal=None):
        by_query[1, row, column] = np.where(known, grades, 0)
        ideal = best_dcg(by_query[1]) if ideal is None else ideal
        return ((by_query[0] * by_query[1]).sum(axis=1) / np.where(ideal > 0, ideal, 1)).mean()

    judged = qrels.sort("query").group_by("query", maintain_order=True).agg("rel")["rel"]
    full = difference(True, np.array([best_dcg(rels.to_numpy()[None])[0] for rels in judged]))

    def count_labels(order):
        known, wrong = np.zeros(len(order), bool), 0
        for start in range(0, len(order), STEP):
            known[order[start : start + STEP]] = True
            if np.sign(difference(known)) != np.sign(full):
                wrong = start + STEP
        return wrong + STEP

    cells = [f"{', '.join(names)} ({items.height})", f"{full:.3f}"]
    for key in (-np.abs(weights).round(9), np.minimum(*places), np.zeros(items.height)):
        shuffled = (np.random.default_rng(seed).random(items.height) for seed in range(ORDERS))
        counts = [count_labels(np.lexsort((numbers, key))) for numbers in shuffled]
        cells.append(f"{np.median(counts):.0f}, {np.quantile(counts, 0.9):.0f}")
    assert f"| {' | '.join(cells)} |" in (ROOT / "docs/labels.md").read_text("utf-8")
