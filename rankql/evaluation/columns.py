"""The metrics as columns of polars, from rankings with one column per position or item.

`Rankings` holds a batch of rankings: the grades of their items in order, and of the ideal ranking.
Cutoffs share running sums. `METRICS` has the formula of each metric; its macro in SQL is the
reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import sub
from typing import Any, TypeAlias

import polars as pl

from rankql.macros import NEAR_ONE

# A position that is the same for all rankings of a batch, or one of each.
Position: TypeAlias = int | pl.Series
# The options of a metric by name: its arguments, with `gain`, `threshold` and `k`.
Options: TypeAlias = Mapping[str, Any]


@dataclass
class Rankings:
    """A batch of rankings as columns of numbers.

    The items are in the order of their positions. A ranking with fewer items than others has grade
    0 there; a position that is a column is infinite. The ideal ranking is given by the number of
    items with at least each grade from 1, or by its grades in order.
    """

    items: Sequence[tuple[Position, pl.Series]]
    # The numbers of judged items with at least grade 1, 2 and so on.
    counts: Sequence[pl.Series] = ()
    # The grades of all judged items with a gain, best first.
    grades: Sequence[pl.Series] = ()
    # Those of the ideal ranking, if it has the retrieved items only.
    ideal_counts: Sequence[pl.Series] = ()
    ideal_grades: Sequence[pl.Series] = ()
    # The number of retrieved items, and of judged items.
    retrieved: pl.Series | None = None
    judged: pl.Series | None = None
    zero: pl.Series = field(default_factory=lambda: pl.Series([0.0]))
    _columns: dict[Hashable, list[pl.Series]] = field(default_factory=dict)

    def column(self, key: Hashable, terms: Callable[[], Iterable[pl.Series]]) -> list[pl.Series]:
        """A column of terms per item, computed once."""
        if key not in self._columns:
            self._columns[key] = [*terms()]
        return self._columns[key]

    @cached_property
    def fixed(self) -> bool:
        """Are the positions 1, 2 and so on?"""
        return bool(self.items) and isinstance(self.items[0][0], int)

    def total(
        self, key: Hashable, terms: Callable[[], Iterable[pl.Series]], k: int | None
    ) -> pl.Series:
        """The sum of the terms of the items in the first k positions."""
        columns = self.column(key, terms)
        if self.fixed:
            sums = self.column(("sums", key), lambda: accumulate(columns))
            return sums[min(k or len(sums), len(sums)) - 1]
        if k is not None:
            inside = self.column(("inside", k), lambda: (as_float(p <= k) for p, _ in self.items))
            columns = [column * within for column, within in zip(columns, inside, strict=True)]
        return sum_columns(columns, self.zero)

    def hits(self, threshold: float) -> list[pl.Series]:
        """1 for each relevant item, else 0."""
        return self.column(
            ("hits", threshold), lambda: (as_float(grade >= threshold) for _, grade in self.items)
        )

    def count(self, threshold: float) -> list[pl.Series]:
        """The number of relevant items down to each item."""
        return self.column(("count", threshold), lambda: accumulate(self.hits(threshold)))

    def relevant(self, threshold: float) -> pl.Series:
        """The number of relevant items among the judged ones, R."""
        if self.counts:
            reached = math.ceil(threshold)
            return self.counts[reached - 1] if reached <= len(self.counts) else self.zero
        return sum_columns((as_float(grade >= threshold) for grade in self.grades), self.zero)

    def ideal(self, gain: Gain, k: int | None, retrieved: bool) -> pl.Series:
        """The discounted gains of the first k items of the ideal ranking."""
        if self.counts:
            counts = self.ideal_counts if retrieved else self.counts
            longest = max([*counts[0].sort(descending=True)[:1], 1])
            end = min(k or longest, longest)
            sums = pl.Series([*accumulate(map(discount, range(1, end + 1)), initial=0.0)])
            gains = [float(gain(float(grade))) for grade in range(len(counts) + 1)]
            steps = map(sub, gains[1:], gains)
            # If n items have at least a grade, each of the first n positions gains its step.
            return sum_columns(
                (
                    sums.gather(count.clip(upper_bound=end)) * step
                    for count, step in zip(counts, steps, strict=True)
                    if step
                ),
                self.zero,
            )
        grades = self.ideal_grades if retrieved else self.grades
        terms = (gain(grade) * discount(i) for i, grade in enumerate(grades[:k], start=1))
        return sum_columns(terms, self.zero)


# The gain of a grade, a number or a column.
Gain: TypeAlias = Callable[[Any], Any]


def as_float(column: pl.Series) -> pl.Series:
    """A column as DOUBLE."""
    return column.cast(pl.Float64)


def sum_columns(columns: Iterable[pl.Series], zero: pl.Series) -> pl.Series:
    """The sum of columns, in their order."""
    total = None
    for column in columns:
        total = column if total is None else total + column
    return zero if total is None else total


def discount(pos: Position) -> Any:
    """1 / log2(pos + 1)."""
    return 1 / math.log2(pos + 1) if isinstance(pos, int) else 1 / (pos + 1).log(2)


def gain_of(options: Options) -> Gain:
    """The gain of a grade, under the options."""
    threshold, kind = options["threshold"], options["gain"]

    def gain(grade: Any) -> Any:
        if kind == "binary":
            hit = grade >= threshold
            return as_float(hit) if isinstance(hit, pl.Series) else float(hit)
        value = 2.0**grade - 1 if kind == "exp2" else grade
        if options.get("negative") == "zero" and isinstance(value, pl.Series):
            return value.clip(lower_bound=0)
        return value

    return gain


def discounted_gains(r: Rankings, o: Options) -> pl.Series:
    """The sum of the gains, each divided by log2(pos + 1)."""
    gain = gain_of(o)
    key = ("dcg", o["gain"], o["gain"] == "binary" and o["threshold"], o.get("negative"))
    return r.total(key, lambda: (gain(grade) * discount(pos) for pos, grade in r.items), o["k"])


def gains(r: Rankings, o: Options) -> pl.Series:
    """The sum of the gains."""
    gain, key = gain_of(o), ("cg", o["gain"], o["gain"] == "binary" and o["threshold"])
    return r.total(key, lambda: (gain(grade) for _, grade in r.items), o["k"])


def ideal_gains(r: Rankings, o: Options) -> pl.Series:
    """The discounted gains of the ideal ranking."""
    return r.ideal(gain_of(o), o["k"], o["ideal"] == "retrieved")


def normalized_gains(r: Rankings, o: Options) -> pl.Series:
    """The discounted gains by those of the ideal ranking."""
    return at_most_one(discounted_gains(r, o) / or_null(ideal_gains(r, o)))


def average_precision(r: Rankings, o: Options) -> pl.Series:
    """The sum of the precisions at the hits, by the denominator."""
    threshold, k = o["threshold"], o["k"]
    hits, counts = r.hits(threshold), r.count(threshold)
    precisions = r.total(
        ("ap", threshold),
        lambda: (h * n / p for h, n, (p, _) in zip(hits, counts, r.items, strict=True)),
        k,
    )
    value = (precisions / or_null(divisor(r, o))).fill_null(0.0)
    return if_relevant(r, o, at_most_one(value))


def reciprocal_rank(r: Rankings, o: Options) -> pl.Series:
    """1 / the position of the first hit."""
    threshold = o["threshold"]
    hits, counts = r.hits(threshold), r.count(threshold)
    terms = lambda: (  # noqa: E731
        h * as_float(n == 1) / p for h, n, (p, _) in zip(hits, counts, r.items, strict=True)
    )
    return if_relevant(r, o, r.total(("rr", threshold), terms, o["k"]))


def reciprocals(r: Rankings, o: Options) -> pl.Series:
    """The sum of 1 / the positions of the hits."""
    hits = r.hits(o["threshold"])
    terms = lambda: (h / p for h, (p, _) in zip(hits, r.items, strict=True))  # noqa: E731
    return if_relevant(r, o, r.total(("arhr", o["threshold"]), terms, o["k"]))


def found(r: Rankings, o: Options) -> pl.Series:
    """The number of hits."""
    return r.total(("hits", o["threshold"]), lambda: r.hits(o["threshold"]), o["k"])


def divisor(r: Rankings, o: Options) -> pl.Series:
    """What hits and precisions are divided by."""
    k = o["k"]
    match o["denominator"]:
        case "R":
            return r.relevant(o["threshold"])
        case "found":
            return found(r, o)
        case "min":
            relevant = r.relevant(o["threshold"])
            return relevant if k is None else relevant.clip(upper_bound=k)
        case "k" if k is not None:
            return r.zero + k
    assert r.retrieved is not None
    return r.retrieved if k is None else r.retrieved.clip(upper_bound=k)


def precision(r: Rankings, o: Options) -> pl.Series:
    """The hits by the denominator."""
    return (found(r, o) / or_null(divisor(r, o))).fill_null(0.0)


def recall(r: Rankings, o: Options) -> pl.Series:
    """The hits by the number of relevant items."""
    return found(r, o) / or_null(r.relevant(o["threshold"]))


def f1(r: Rankings, o: Options) -> pl.Series:
    """The harmonic mean of precision and recall."""
    relevant = r.relevant(o["threshold"])
    return if_relevant(r, o, 2 * found(r, o) / or_null(divisor(r, o) + relevant))


def success(r: Rankings, o: Options) -> pl.Series:
    """1 if there is a hit."""
    return if_relevant(r, o, as_float(found(r, o) > 0))


def r_precision(r: Rankings, o: Options) -> pl.Series:
    """The hits in the first R positions, by R."""
    relevant, hits = r.relevant(o["threshold"]), r.hits(o["threshold"])
    terms = (h * as_float(relevant >= p) for h, (p, _) in zip(hits, r.items, strict=True))
    return sum_columns(terms, r.zero) / or_null(relevant)


def set_ap(r: Rankings, o: Options) -> pl.Series:
    """Precision times recall of the complete ranking."""
    return precision(r, {**o, "denominator": "k"}) * recall(r, o)


def expected_reciprocal_rank(r: Rankings, o: Options) -> pl.Series:
    """1 / the position where a user stops, on average."""
    p, max_rel = o["p"], o["max_rel"]

    def terms() -> Iterator[pl.Series]:
        left: Any = 1.0
        for pos, grade in r.items:
            stop = (2.0**grade - 1) * 2.0**-max_rel
            yield left * stop * (p ** (pos - 1) / pos)
            left = left * (1 - stop)

    positive = r.relevant(1) if r.counts else sum_columns(map(as_float, r.grades), r.zero)
    return if_positive(positive, r.total(("err", p, max_rel), terms, o["k"]))


def rank_biased_precision(r: Rankings, o: Options) -> pl.Series:
    """The worth of the items by the probability that a user looks at them."""
    p, scale, threshold = o["p"], o["max_rel"], o["threshold"]

    def terms() -> Iterator[pl.Series]:
        for (pos, grade), hit in zip(r.items, r.hits(threshold), strict=True):
            yield (hit if scale is None else grade / scale) * p ** (pos - 1)

    return at_most_one((1 - p) * r.total(("rbp", p, scale, threshold), terms, o["k"]))


def binary_preference(r: Rankings, o: Options) -> pl.Series:
    """The share of judged other items above each relevant one, as bpref."""
    threshold = o["threshold"]
    relevant = r.relevant(threshold)
    assert r.judged is not None
    others = (r.judged - relevant).clip(lower_bound=0)
    least = pl.select(pl.min_horizontal(relevant, others)).to_series().clip(lower_bound=1)
    total, above = r.zero, r.zero
    for (pos, grade), hit in zip(r.items, r.hits(threshold), strict=True):
        capped = pl.select(pl.min_horizontal(above, as_float(relevant))).to_series()
        total = total + hit * (1 - capped / least)
        above = above + as_float((grade < threshold) & is_item(pos))
    return total / or_null(relevant)


def is_item(pos: Position) -> pl.Series | bool:
    """Is there an item at a position that may be infinite?"""
    return True if isinstance(pos, int) else pos.is_finite()


def judged_share(r: Rankings, o: Options) -> pl.Series:
    """The share of judged items."""
    terms = lambda: (as_float(pos.is_finite()) for pos, _ in r.items)  # type: ignore[union-attr]  # noqa: E731
    judged = r.total("judged", terms, o["k"])
    return (judged / or_null(divisor(r, {**o, "denominator": "k"}))).fill_null(0.0)


def or_null(column: pl.Series) -> pl.Series:
    """A divisor, NULL instead of 0."""
    return column.replace(0, None)


def at_most_one(value: pl.Series) -> pl.Series:
    """1 if the value differs from 1 by rounding only."""
    return value.set(value >= 1 - NEAR_ONE, 1.0)


def if_positive(count: pl.Series, value: pl.Series) -> pl.Series:
    """The value, NULL where a count is 0."""
    return value.set(count == 0, None)


def if_relevant(r: Rankings, o: Options, value: pl.Series) -> pl.Series:
    """The value, NULL without relevant items."""
    return if_positive(r.relevant(o["threshold"]), value)


@dataclass(frozen=True)
class Formula:
    """A metric as columns, and the options that it supports."""

    value: Callable[[Rankings, Options], pl.Series]
    options: frozenset[str]
    # The weight of a ranking in a mean over all rankings.
    weight: Callable[[Rankings, Options], pl.Series] | None = None


def _formula(value: Any, options: str = "", weight: Any = None) -> Formula:
    return Formula(value, frozenset(options.split()), weight)


_one = lambda r, o: r.zero + 1  # noqa: E731
METRICS = {
    "ndcg": _formula(normalized_gains, "ideal"),
    "dcg": _formula(discounted_gains),
    "idcg": _formula(ideal_gains, "ideal"),
    "cg": _formula(gains),
    "ap": _formula(average_precision, "threshold denominator", _one),
    "rr": _formula(reciprocal_rank, "threshold"),
    "precision_at": _formula(precision, "threshold denominator"),
    "recall_at": _formula(recall, "threshold"),
    "f1_at": _formula(f1, "threshold denominator"),
    "hit_at": _formula(success, "threshold"),
    "arhr": _formula(reciprocals, "threshold"),
    "r_precision": _formula(r_precision, "threshold"),
    "set_ap": _formula(set_ap, "threshold"),
    "err": _formula(expected_reciprocal_rank, "max_rel p"),
    "rbp": _formula(rank_biased_precision, "p threshold max_rel"),
    "bpref": _formula(binary_preference, "threshold"),
    "judged_at": _formula(judged_share),
    "micro_precision_at": _formula(precision, "threshold denominator", divisor),
    "micro_recall_at": _formula(
        recall, "threshold", lambda r, o: as_float(r.relevant(o["threshold"]))
    ),
    "micro_f1_at": _formula(
        f1, "threshold denominator", lambda r, o: divisor(r, o) + r.relevant(o["threshold"])
    ),
}
