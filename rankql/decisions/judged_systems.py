"""Systems under the labels of people and of a model: do both order them alike?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import kendalltau

from rankql.core.base import text
from rankql.core.evaluation.means.means import metric_range
from rankql.core.evaluation.result.result import Result
from rankql.core.evaluation.result.system_values import HUMAN, LABELLED, pair_values
from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import SkewedStudent
from rankql.decisions.compare import compare


def compare_systems(
    human: Result, judge: Result, confidence: float, names: tuple[str, str]
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """The means of all systems under both labels, and their orders, by metric; sentences on two.

    names: who labelled: people, and the model.

    An order has Kendall's tau-b of both, the pairs that they order differently, and whether the
    best system stays the best: NULL if another one is ahead, but not significantly.
    """
    paired, key = pair_values(human, judge).filter(LABELLED), human.meta.query
    same = pl.col(judge.meta.query).cast(paired.schema[key]).is_in(paired[key].implode())
    judge = judge.derive(values=judge.frame().filter(same))
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
            up = not human.lower_is_better(metric)
            best, other = (means.sort(x, descending=up)["system"][0] for x in ("human", "llm"))
            board = compare(judge, metrics=metric, confidence=confidence).leaderboard()
            stays = board.filter(slice="all", system=best)["maybe_best"].any()
            order |= {"best": best, "best_stays": None if stays and best != other else stays}
        frames["orders"].append(order)
        if means.height == 2:
            a, b = human.systems
            one, two = (values.filter(system=name) for name in (a, b))
            changes = one.join(two, on=key, suffix="_b").select(
                people=pl.col("human_b") - pl.col("human"), model=pl.col("llm_b") - pl.col("llm")
            )
            answer, findings = describe_changes(changes, metric_range(metric), confidence, names)
            if not sentences:
                what = f"May {names[1]} replace {names[0]} to compare {a} and {b} on {metric}?"
                sentences.append(f"{what} {answer}")
            sentences.append(f"{metric}, {b} - {a}: {findings}")
    return frames, sentences


def describe_changes(
    changes: pl.DataFrame, limits: tuple[float, float], confidence: float, names: tuple[str, str]
) -> tuple[str, str]:
    """Whether both labels order two systems alike, and the difference of their differences."""
    changes = changes.with_columns(differ=pl.col("model") - pl.col("people"))
    parts, signs, ahead, width = list[str](), list[int](), 1.0, limits[1] - limits[0]
    for name, most in (("people", width), ("model", width), ("differ", 2 * width)):
        sample = Sample(changes[name].to_numpy(), None, None, -most, most)
        result = SkewedStudent().apply_to_zero(sample, 1 - confidence)
        lo, hi = result.lo, result.hi
        number, ends = text.format_ends([sample.mean, lo, hi], "+")
        interval = f"{text.format_percent(confidence)} CI {ends}" if ends else "no interval"
        parts.append(f"{number} ({interval})")
        ahead *= sample.mean if name != "differ" else 1
        signs.append(0 if lo is None or hi is None else (lo > 0) - (hi < 0))
    word = {1: "same order", -1: "swapped", 0: "undecided"}[signs[0] * signs[1]]
    answer = {"same order": "Yes: same order", "swapped": "No: swapped"}.get(word, "Undecided")
    if word == "undecided" and signs[2]:
        answer = f"No: the differences differ by {parts[2]}"
    elif word == "undecided" and ahead < 0:
        answer = (
            f"Undecided: the winner changes, {parts[0]} by {names[0]}, {parts[1]} by {names[1]}"
        )
    return answer, (
        f"{parts[0]} by {names[0]}, {parts[1]} by {names[1]}, {word}. The differences differ by "
        f"{parts[2]} on {text.format_queries(len(changes))}"
    )
