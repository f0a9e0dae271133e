"""The metrics at cutoffs that follow from the packed top of each ranking, as SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankql.evaluation.packed import BITS, Top, at_index, digit_bits, double
from rankql.registry.metric import Metric

_OPTIONS = {"k", "threshold", "denominator", "max_rel", "p", "negative"}


def pack_metrics(
    end: int, metrics: Sequence[Metric], conventions: Mapping[str, Any]
) -> tuple[Top, dict[str, str]]:
    """The top that holds all that some of the metrics need, and these by name, as SQL."""
    limit = BITS // digit_bits(end) if end else 0
    packed = [m for m in metrics if (m.k or limit + 1) <= limit and _is_packable(m, conventions)]
    top = Top(end, (metric.k for metric in packed if metric.k))
    return top, {metric.name: _value(top, metric, conventions) for metric in packed}


def _value(top: Top, metric: Metric, conventions: Mapping[str, Any]) -> str:
    assert metric.record
    options = {"gain": metric.gain(conventions), "max_rel": None, **metric.arguments(conventions)}
    # Whole grades that reach a threshold reach the next whole number.
    options["threshold"] = math.ceil(metric.threshold(conventions))
    return VALUES[metric.record.macro](top, options)


def _is_packable(metric: Metric, conventions: Mapping[str, Any]) -> bool:
    """Does the value follow from the top and the number of items of each grade?"""
    if metric.record is None or metric.record.macro not in VALUES:
        return False
    options = metric.arguments(conventions)
    return (
        options.keys() <= _OPTIONS
        and options.get("denominator") != "retrieved"
        and min(metric.threshold(conventions), conventions["threshold"]) > 0
        and isinstance(metric.gain(conventions), str)
    )


def _where_relevant(top: Top, options: Mapping[str, Any], value: str) -> str:
    return f"CASE WHEN {top.relevant(options['threshold'])} > 0 THEN {value} END"


def _gained(top: Top, options: Mapping[str, Any], what: str, weight: Callable[[int], str]) -> str:
    kind, threshold = options["gain"], options["threshold"]
    gains = top.gains(kind, threshold)

    def gain(i: int) -> str:
        if kind == "binary":
            return top.hit(threshold, i)
        return top.grade(i) if kind == "linear" else top.graded(kind, gains, i)

    name = f"{what} {kind} {threshold}" if kind == "binary" else f"{what} {kind}"
    return f"({top.total(name, lambda i: gain(i) + weight(i), options['k'])})"


def _cg(top: Top, options: Mapping[str, Any]) -> str:
    return f"CAST({_gained(top, options, 'cg', lambda i: '')} AS DOUBLE)"


def _dcg(top: Top, options: Mapping[str, Any]) -> str:
    return _gained(top, options, "dcg", lambda i: f" / log2({i + 1})")


def _idcg(top: Top, options: Mapping[str, Any]) -> str:
    """Where n items have a grade or more, its step is gained in each of the first n positions."""
    sums = [0.0]
    for i in range(1, options["k"] + 1):
        sums.append(sums[-1] + 1 / math.log2(i + 1))
    gains = top.gains(options["gain"], options["threshold"])
    return " + ".join(
        f"{double(gains[grade] - gains[grade - 1])} * "
        + at_index(sums, f"least({top.relevant(grade)}, {options['k']})")
        for grade in range(1, len(gains))
    )


def _ndcg(top: Top, options: Mapping[str, Any]) -> str:
    return f"rankql_at_most_one({_dcg(top, options)} / nullif({_idcg(top, options)}, 0))"


def _rr(top: Top, options: Mapping[str, Any]) -> str:
    first = top.first(options["threshold"], options["k"])
    return _where_relevant(top, options, f"coalesce(1 / {first}, 0)")


def _arhr(top: Top, options: Mapping[str, Any]) -> str:
    threshold = options["threshold"]
    hits = top.total(
        f"arhr {threshold}", lambda i: f"{top.hit(threshold, i)} / {double(i)}", options["k"]
    )
    return _where_relevant(top, options, hits)


def _precision(top: Top, options: Mapping[str, Any]) -> str:
    hits, relevant = (
        top.count(options["threshold"], options["k"]),
        top.relevant(options["threshold"]),
    )
    denominator = options.get("denominator", "k")
    return f"rankql_precision({hits}, {relevant}, NULL, {options['k']}, '{denominator}')"


def _recall(top: Top, options: Mapping[str, Any]) -> str:
    hits, relevant = (
        top.count(options["threshold"], options["k"]),
        top.relevant(options["threshold"]),
    )
    return f"{hits} / nullif({relevant}, 0)"


def _f1(top: Top, options: Mapping[str, Any]) -> str:
    hits, relevant = (
        top.count(options["threshold"], options["k"]),
        top.relevant(options["threshold"]),
    )
    return _where_relevant(top, options, f"2 * {hits} / ({options['k']} + {relevant})")


def _hit(top: Top, options: Mapping[str, Any]) -> str:
    return _where_relevant(
        top, options, f"least({top.count(options['threshold'], options['k'])}, 1)"
    )


def _ap(top: Top, options: Mapping[str, Any]) -> str:
    threshold, k, denominator = (
        options["threshold"],
        options["k"],
        options.get("denominator", "min"),
    )
    precisions = top.total(
        f"ap {threshold}",
        lambda i: (
            f"{top.hit(threshold, i)} * "
            + f"{top.place(f'hits {threshold} to {i}', top.count(threshold, i))} / {i}"
        ),
        k,
    )
    hits, relevant = top.count(threshold, k), top.relevant(threshold)
    return f"rankql_ap({precisions}, {hits}, {relevant}, NULL, {k}, '{denominator}')"


def _err(top: Top, options: Mapping[str, Any]) -> str:
    """Backwards: what a position is worth, or else, if the user goes on, what follows."""
    p, unit = options.get("p", 1), 2.0 ** -options["max_rel"]
    chances = [(2.0**grade - 1) * unit for grade in range(top.end + 1)]
    value, name = "0e0", f"err {options['max_rel']} {p}"
    for start, end in reversed(top.stretches(options["k"])):
        stop = f"stop {options['max_rel']}"
        stops = {i: top.graded(stop, chances, i) for i in range(start, end + 1)}
        worth = "0e0"
        for i, stop in reversed(stops.items()):
            worth = f"({stop} * {double(p ** (i - 1) / i)} + (1 - {stop}) * {worth})"
        left = " * ".join(f"(1 - {stop})" for stop in stops.values())
        value = (
            f"({top.part(f'{name} to {end}', worth)} "
            f"+ {top.part(f'{name} left at {end}', left)} * {value})"
        )
    return _where_relevant(top, {"threshold": 1}, value)


def _rbp(top: Top, options: Mapping[str, Any]) -> str:
    p, scale, threshold = options["p"], options["max_rel"], options["threshold"]

    def worth(i: int) -> str:
        return top.hit(threshold, i) if scale is None else f"{top.grade(i)} / {double(scale)}"

    name = f"rbp {p} {threshold} {scale}"
    looks = top.total(name, lambda i: f"{worth(i)} * {double(p ** (i - 1))}", options["k"])
    return f"rankql_at_most_one({double(1 - p)} * ({looks}))"


VALUES: dict[str, Callable[[Top, Mapping[str, Any]], str]] = {
    "cg": _cg,
    "dcg": _dcg,
    "idcg": _idcg,
    "ndcg": _ndcg,
    "ap": _ap,
    "rr": _rr,
    "arhr": _arhr,
    "precision_at": _precision,
    "recall_at": _recall,
    "f1_at": _f1,
    "hit_at": _hit,
    "err": _err,
    "rbp": _rbp,
}
