"""Systems under the labels of people and of a model: do both order them alike?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import kendalltau

from rankql import text
from rankql.decisions.compare import compare
from rankql.evaluation.means import metric_range
from rankql.evaluation.result import Result
from rankql.evaluation.system_values import HUMAN, LABELLED, pair_values
from rankql.stats.sample import Sample
from rankql.stats.tests import SkewedStudent


def compare_systems(
    human: Result, judge: Result, confidence: float, names: tuple[str, str]
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """The means of all systems under both labels, and their orders, by metric; sentences on two.

    names: who labelled: people, and the model.

    An order has Kendall's tau-b of both, and the pairs that they order differently.
    """

    paired, key = pair_values(human, judge).filter(LABELLED), human.meta.query
    same = pl.col(judge.meta.query).cast(paired.schema[key]).is_in(paired[key].implode())
    judge = replace(judge, values=judge.frame().filter(same), _summary=None)
    frames: dict[str, list[dict[str, Any]]] = {"systems": [], "orders": []}
    sentences = list[str]()

    def bias(values: pl.Series) -> dict[str, Any]:
        mean, lo, hi = Sample(values.to_numpy()).estimate(confidence)
        return {"queries": len(values), "bias": mean, "lo": lo, "hi": hi}

    for metric in (name for name in human.metrics if name not in human.overall_metrics):
        values = paired.select("system", key, human=HUMAN + metric, llm=metric)
        values = values.drop_nulls().with_columns(bias=pl.col("llm") - pl.col("human"))
        means = values.group_by("system", maintain_order=True).agg(pl.col("human", "llm").mean())
        frames["systems"] += [
            {"metric": metric, **row, **bias(values.filter(system=row["system"])["bias"])}
            for row in means.iter_rows(named=True)
        ]
        of_query = values.group_by(key, maintain_order=True).agg(pl.col("bias").mean())
        order = {"metric": metric, "systems": means.height, **bias(of_query["bias"])}
        if means.height > 1:
            x, y = (means[name].round(12).to_numpy() for name in ("human", "llm"))
            i, j = np.triu_indices(len(x), 1)
            tau = float(kendalltau(x, y).statistic)
            order["tau_b"] = None if math.isnan(tau) else tau
            order["swapped"] = int(((x[i] - x[j]) * (y[i] - y[j]) < 0).sum())
            best = means.sort("human", descending=not human.lower_is_better(metric))["system"][0]
            board = compare(judge, metrics=metric, confidence=confidence).leaderboard()
            stays = board.filter(slice="all", system=best)["maybe_best"].any()
            order |= {"best": best, "best_stays": stays}
        frames["orders"].append(order)
        if means.height == 2:
            a, b = human.systems
            pair = LabelledPair(metric, a, b, *names)
            sentences += describe_answer(pair, values, key, confidence, not sentences)
    return frames, sentences


class LabelledPair(NamedTuple):
    """Two systems on a metric, and who labelled their items."""

    metric: str
    a: str
    b: str
    people: str
    model: str


def describe_answer(
    pair: LabelledPair, values: pl.DataFrame, key: str, confidence: float, has_title: bool
) -> Iterator[str]:
    """Whether both labels order two systems alike, and the difference of their differences."""
    one, two = (values.filter(system=name) for name in (pair.a, pair.b))
    both = one.join(two, on=key, suffix="_b")
    changes = both.select(people=pl.col("human_b") - pl.col("human"),
                          model=pl.col("llm_b") - pl.col("llm"))  # fmt: skip
    changes = changes.with_columns(differ=pl.col("model") - pl.col("people"))
    low, high = metric_range(pair.metric)
    parts, signs = dict[str, str](), dict[str, int]()
    for name, times in (("people", 1), ("model", 1), ("differ", 2)):
        sample = Sample(changes[name].to_numpy(), None, None, times * (low - high),
                        times * (high - low))  # fmt: skip
        lo = hi = None
        if sample.units > 1 and not SkewedStudent().explain_untestable(sample):
            lo, hi = SkewedStudent().test(sample, 1 - confidence)[1]
        number, ends = text.format_ends([sample.mean, lo, hi], "+")
        level = text.format_percent(confidence)
        parts[name] = f"{number} ({level} CI {ends})" if ends else f"{number} (no interval)"
        signs[name] = 0 if lo is None or hi is None else (lo > 0) - (hi < 0)
    order = signs["people"] * signs["model"]
    answer = {1: "Yes: same order", -1: "No: swapped", 0: "Undecided"}[order]
    if has_title:
        what = f"to compare {pair.a} and {pair.b} on {pair.metric}"
        yield f"May {pair.model} replace {pair.people} {what}? {answer}"
    word = {1: "same order", -1: "swapped", 0: "undecided"}[order]
    yield (
        f"{pair.metric}, {pair.b} - {pair.a}: {parts['people']} by {pair.people}, {parts['model']} "
        f"by {pair.model}, {word}. The differences differ by {parts['differ']} on "
        f"{text.format_queries(len(changes))}"
    )
