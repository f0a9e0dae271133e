"""The metrics at cutoffs that are computed from the packed top of each ranking.

`packed` of a metric's record is its formula over named quantities, whose SQL is in this module.
DuckDB adds up the rows, polars computes the formulas from the sums: DuckDB takes longer to plan
them. An evaluation of few rows takes 70 to 90% of the time of one query; for 100,000 rankings and
24 metrics, DuckDB takes 40 ms, in one thread, and polars 15, in two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from operator import sub
from typing import Any

import duckdb
import polars as pl

from rankql.errors import MACRO_ERROR
from rankql.evaluation.packed import BITS, Formula, Lookup, Top, digit_bits, double
from rankql.macros import INTERNAL_PREFIX, NEAR_ONE
from rankql.registry.all_metrics import FUNCTIONS
from rankql.registry.requested_metric import Metric

# The rows times columns that a thread of polars computes at once. More take more memory, fewer take
# more time.
CELLS = 10_000_000
# More threads take more memory, and fewer rows are not worth another thread.
THREADS, ROWS_PER_THREAD = 4, 50_000
# Optimizations take longer than what they spare.
NONE = pl.QueryOptFlags.none()
# The column that says whether a ranking is refused.
_STATE = f"{INTERNAL_PREFIX}state"
# The positions of ERR in one formula: polars cannot parse formulas that are nested 17 times.
NESTED = 8
_OPTIONS = {"k", "threshold", "denominator", "max_rel", "p", "negative"}


def pack_metrics(
    end: int, metrics: Sequence[Metric], conventions: Mapping[str, Any]
) -> tuple[Top, dict[str, str]]:
    """The packed top, and the metrics that it is enough for, as SQL by name."""
    limit = BITS // digit_bits(end) if end else 0
    short = [metric for metric in metrics if (metric.k or limit + 1) <= limit]
    packed = [(m, options) for m in short if (options := packed_options(m, conventions))]
    top = Top(end, (metric.k for metric, _ in packed if metric.k))
    return top, {
        metric.name: packed_formula(metric).format_map(_Quantities(top, options))
        for metric, options in packed
    }


def packed_formula(metric: Metric) -> str:
    """The formula of a metric over named quantities, empty if there is none."""
    return FUNCTIONS[metric.record.macro].packed if metric.record else ""


def packed_options(metric: Metric, conventions: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the quantities in the formula of a metric, empty if the formula is not valid.

    All grades must be whole numbers.
    """
    if not metric.record or not packed_formula(metric):
        return {}
    arguments, gain = metric.arguments(conventions), metric.gain(conventions)
    threshold = metric.threshold(conventions)
    if (
        not arguments.keys() <= _OPTIONS
        or arguments.get("denominator") == "retrieved"
        or min(threshold, conventions["threshold"]) <= 0
        or not isinstance(gain, str)
    ):
        return {}
    options = {name: option.default for name, option in metric.record.options.items()}
    # Whole grades reach a threshold if they reach the next whole number.
    return {**options, "gain": gain, **arguments, "threshold": math.ceil(threshold)}


class _Quantities(dict[str, str]):
    """The quantities of a `packed` formula, computed on demand."""

    def __init__(self, top: Top, options: Mapping[str, Any]) -> None:
        self.top, self.options = top, options

    def __missing__(self, name: str) -> str:
        quantity = QUANTITIES.get(name)
        return str(self.options[name]) if quantity is None else quantity(self.top, self.options)


def _gains(top: Top, options: Mapping[str, Any]) -> str:
    return _sum_of_gains(top, options, "gain", lambda i: 1)


def _discounted_gains(top: Top, options: Mapping[str, Any]) -> str:
    return _sum_of_gains(top, options, "discounted", lambda i: 1 / math.log2(i + 1))


def _sum_of_gains(
    top: Top, options: Mapping[str, Any], name: str, weight: Callable[[int], float]
) -> str:
    gain, threshold = options["gain"], options["threshold"]
    gains: dict[str, Callable[[int, float], str]] = {
        "linear": top.grade,
        "binary": partial(top.hit, threshold),
        "exp2": top.power,
    }
    name += f" {threshold}" if gain == "binary" else f" {gain}"
    return f"({top.total(name, lambda i: gains[gain](i, weight(i)), options['k'])})"


def _ideal_gains(top: Top, options: Mapping[str, Any]) -> str:
    """If n items have at least a grade, each of the first n positions gains its step."""
    k = options["k"]
    discounts = [*accumulate((1 / math.log2(i + 1) for i in range(1, k + 1)), initial=0.0)]
    gains = top.gains(options["gain"], options["threshold"])
    terms = (
        ("" if step == 1 else f"{double(step)} * ")
        + top.part(
            f"ideal {grade} to {k}", Lookup(tuple(discounts), f"least({top.relevant(grade)}, {k})")
        )
        for grade, step in enumerate(map(sub, gains[1:], gains), start=1)
        if step
    )
    return " + ".join(terms) or double(0)


def _normalized_gains(top: Top, options: Mapping[str, Any]) -> str:
    ratio = f"{_discounted_gains(top, options)} / nullif({_ideal_gains(top, options)}, 0)"
    return _at_most_one(top, "normalized {gain} {threshold} at {k}".format_map(options), ratio)


def _at_most_one(top: Top, name: str, value: str) -> str:
    """1 if the value differs from 1 by rounding only. `repeats_position` refuses higher ones."""
    column = top.combined(name, value)
    return f"CASE WHEN {column} >= {double(1 - NEAR_ONE)} THEN 1 ELSE {column} END"


def _reciprocals(top: Top, options: Mapping[str, Any]) -> str:
    threshold = options["threshold"]
    return top.total(f"arhr {threshold}", lambda i: top.hit(threshold, i, 1 / i), options["k"])


def _precisions(top: Top, options: Mapping[str, Any]) -> str:
    threshold = options["threshold"]
    precisions = top.total(
        f"ap {threshold}",
        lambda i: f"{top.hit(threshold, i, 1 / i)} * {top.count(threshold, i)}",
        options["k"],
    )
    return f"({precisions})"


def _stops(top: Top, options: Mapping[str, Any]) -> str:
    """ERR: the sum over stretches of positions of their value, if the user gets there.

    The value is multiplied by the probability that the user does not stop in an earlier stretch.
    """
    p, max_rel = options["p"], options["max_rel"]
    name = f"err {max_rel} {p}"
    values: list[str] = []
    passed: list[str] = []
    stops: list[str] = []
    for start, end in top.stretches(options["k"], NESTED):
        if stops:
            left = " * ".join(f"(1 - {stop})" for stop in stops)
            passed.append(top.part(f"{name} passed {start - 1}", left))
        stops = [top.stop(i, 2.0**-max_rel) for i in range(start, end + 1)]
        value = double(0)
        for i, stop in reversed([*enumerate(stops, start)]):  # the user stops, or reads on
            value = f"({stop} * {double(p ** (i - 1) / i)} + (1 - {stop}) * {value})"
        value = top.part(f"{name} to {end}", value)
        if passed:
            value += " * " + top.combined(f"{name} reach {start}", " * ".join(passed))
        values.append(value)
    return " + ".join(values)


def _looks(top: Top, options: Mapping[str, Any]) -> str:
    p, scale, threshold = options["p"], options["max_rel"], options["threshold"]

    def worth(i: int) -> str:
        look = p ** (i - 1)
        return top.hit(threshold, i, look) if scale is None else top.grade(i, look / scale)

    name = f"rbp {p} {threshold} {scale}"
    looks = f"{double(1 - p)} * ({top.total(name, worth, options['k'])})"
    return _at_most_one(top, f"{name} at {options['k']}", looks)


def _divisor(top: Top, options: Mapping[str, Any]) -> str:
    """What precisions are divided by."""
    k, relevant = options["k"], top.relevant(options["threshold"])
    match options["denominator"]:
        case "k":
            return top.divisor(k)
        case "min":
            return f"least({k}, {relevant})"
        case "R":
            return relevant
    return top.count(options["threshold"], k)  # found


QUANTITIES: dict[str, Callable[[Top, Mapping[str, Any]], str]] = {
    "hits": lambda top, options: top.count(options["threshold"], options["k"]),
    "relevant": lambda top, options: top.relevant(options["threshold"]),
    "positive": lambda top, options: top.relevant(1),
    "divisor": _divisor,
    "first": lambda top, options: top.first(options["threshold"], options["k"]),
    "gains": _gains,
    "discounted_gains": _discounted_gains,
    "ideal_gains": _ideal_gains,
    "normalized_gains": _normalized_gains,
    "reciprocals": _reciprocals,
    "precisions": _precisions,
    "stops": _stops,
    "looks": _looks,
}


class WrongAssumption(Exception):
    """The rows contradict an assumption of the plan: the name of the fact, and its value."""

    def __init__(self, fact: str, value: object) -> None:
        super().__init__(fact)
        self.fact, self.value = fact, value


@dataclass(frozen=True)
class PackedSums:
    """The SQL steps up to `integers`, the columns that follow from these, and the values.

    repeated, crowded: conditions on rankings in which two items share a position, or which have
    more items with a gain than the sums can count. message: the error about the former.
    """

    steps: Mapping[str, str]
    columns: Mapping[str, Mapping[str, Formula]]
    values: Mapping[str, Formula]
    repeated: str
    crowded: str
    message: str

    def compute(self, integers: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The values, in batches."""
        state = f"CASE WHEN {self.repeated} THEN 1 WHEN {self.crowded} THEN 2 ELSE 0 END"
        for batch in self._select(integers, {**self.values, _STATE: state}):
            highest = batch[_STATE].max()
            if highest == 2:
                raise WrongAssumption("crowded", True)
            if highest == 1:
                raise duckdb.ConversionException(MACRO_ERROR.format(self.message))
            yield batch.drop(_STATE)

    def _select(
        self, integers: pl.DataFrame, values: Mapping[str, Formula]
    ) -> Iterator[pl.DataFrame]:
        """Values after all steps."""
        steps = [_expressions(columns) for columns in self.columns.values()]
        columns = _expressions(values)
        threads = min(pl.thread_pool_size(), THREADS, integers.height // ROWS_PER_THREAD) or 1
        size = min(CELLS // sum(map(len, [*steps, columns])), -(-integers.height // threads)) or 1
        batches = [*integers.iter_slices(size)] or [integers]
        for i in range(0, len(batches), threads):
            plans = [_plan(batch, steps, columns) for batch in batches[i : i + threads]]
            yield from pl.collect_all(plans, engine="in-memory", optimizations=NONE)


def _plan(
    batch: pl.DataFrame, steps: Sequence[Sequence[pl.Expr]], columns: Sequence[pl.Expr]
) -> pl.LazyFrame:
    """The columns of a batch after all steps."""
    plan = batch.lazy()
    for step in steps:  # at once, each thread of polars would give a chunk of rows
        plan = plan.with_columns_seq(step)
    return plan.select_seq(columns)


def _expressions(columns: Mapping[str, Formula]) -> list[pl.Expr]:
    """The columns of a step."""
    return [_expression(value).alias(name) for name, value in columns.items()]


@lru_cache(1000)
def _expression(value: Formula) -> pl.Expr:
    if isinstance(value, Lookup):
        values = pl.Series(value.values, dtype=pl.Float64)
        return pl.lit(values).gather(pl.sql_expr(value.index))
    return pl.sql_expr(value)
