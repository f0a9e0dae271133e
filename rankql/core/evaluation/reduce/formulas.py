"""The metrics as columns of polars, from rankings with one column per position or item.

`Rankings` holds a batch of rankings: the grades of their items in order, and of the ideal ranking.
Cutoffs share running sums. `METRICS` has the formula of each metric; its macro in SQL is the
reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, islice
from operator import sub
from typing import Any, TypeAlias

import polars as pl

from rankql.core.evaluation.reduce.protocol import WORD
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.macros import NEAR_ONE
from rankql.core.metrics.metric_record import Metric

# A position that is the same for all rankings of a batch, or one of each.
Position: TypeAlias = int | pl.Series
# The options of a metric by name: its arguments, with `gain`, `threshold` and `k`.
Options: TypeAlias = Mapping[str, Any]


@dataclass
class Rankings:
    """A batch of rankings as columns of numbers.

    The items are in the order of their positions. A ranking with fewer items than others has grade
    0 there; a position that is a column is infinite. The ideal ranking is given by the number of
    items with at least each grade from 1.
    """

    items: Sequence[tuple[Position, pl.Series]]
    # The numbers of judged items with at least grade 1, 2 and so on.
    counts: Sequence[pl.Series]
    # Those of the ideal ranking, if it has the retrieved items only.
    ideal_counts: Sequence[pl.Series] = ()
    # The number of retrieved items, and of judged items.
    retrieved: pl.Series | None = None
    judged: pl.Series | None = None
    zero: pl.Series = field(default_factory=lambda: pl.Series([0.0]))
    # The cutoffs of all metrics, and the last position of an item.
    cutoffs: Sequence[int | None] = ()
    highest: float = math.inf
    _columns: dict[Hashable, list[pl.Series]] = field(default_factory=dict, init=False)

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
        if self.fixed:
            columns = self.column(key, terms)
            sums = self.column(("sums", key), lambda: accumulate(columns))
            return sums[min(k or len(sums), len(sums)) - 1]
        items = self.first(k)
        columns = self.column((key, len(items)), lambda: islice(terms(), len(items)))
        if k is not None and k < self.highest:
            inside = self.column(("inside", k), lambda: (to_double(p <= k) for p, _ in items))
            columns = [column * within for column, within in zip(columns, inside, strict=True)]
        return sum_columns(columns, self.zero)

    def first(self, k: int | None) -> Sequence[tuple[Position, pl.Series]]:
        """The items that may be in the first k positions: the i-th is at i or below."""
        return self.items if self.fixed else self.items[:k]

    def discounts(self, k: int | None) -> Sequence[float | pl.Series]:
        """1 / log2(pos + 1) of each item that may be in the first k positions."""
        items = self.first(k)
        if places := {str(i): x for i, (x, _) in enumerate(items) if isinstance(x, pl.Series)}:
            value = (1 / (pl.all() + 1).log(2)).name.keep()  # a logarithm alone is a query too
            frame = pl.DataFrame(places)
            known = ("discounts", len(items))
            return self.column(known, lambda: frame.select_seq(value).get_columns())
        return [discount(pos) for pos, _ in items if isinstance(pos, int)]

    def hits(self, threshold: float) -> list[pl.Series]:
        """1 for each relevant item, else 0."""
        return self.column(
            ("hits", threshold), lambda: (to_double(grade >= threshold) for _, grade in self.items)
        )

    def count(self, threshold: float) -> list[pl.Series]:
        """The number of relevant items down to each item."""
        return self.column(("count", threshold), lambda: accumulate(self.hits(threshold)))

    def powers(self) -> list[pl.Series]:
        """2^grade - 1 of each item."""
        # A sum of steps takes less time than a power.
        steps = {step: 2.0 ** (step - 1) for step in range(1, len(self.counts) + 1)}
        powers = ((to_double(x >= step) * y for step, y in steps.items()) for _, x in self.items)
        return self.column("powers", lambda: (sum_columns(x, self.zero) for x in powers))

    def relevant(self, threshold: float) -> pl.Series:
        """The number of relevant items among the judged ones, R."""
        reached = math.ceil(threshold)
        return self.counts[reached - 1] if reached <= len(self.counts) else self.zero

    def ideal(self, gain: Gain, key: Hashable, k: int | None, retrieved: bool) -> pl.Series:
        """The discounted gains of the first k items of the ideal ranking. key: of the gain."""
        sums = self.column(("ideal", key, retrieved), lambda: self._sum_ideal(gain, retrieved))
        return sums[self.cutoffs.index(k)]

    def _sum_ideal(self, gain: Gain, retrieved: bool) -> list[pl.Series]:
        """The discounted gains of the ideal ranking at each cutoff, from the counts.

        If n items have at least a grade, each of the first n positions gains its step.
        """
        counts = self.ideal_counts if retrieved else self.counts
        frame = pl.DataFrame({str(i): count for i, count in enumerate(counts)})
        longest = max(int(frame["0"].max() or 0), 1)  # type: ignore[arg-type]
        gains = [float(gain(float(grade))) for grade in range(len(counts) + 1)]
        steps = [(i, step) for i, step in enumerate(map(sub, gains[1:], gains)) if step]
        ends = [min(k or longest, longest) for k in self.cutoffs]
        discounts = [discount(i) for i in range(1, max(ends) + 1)]
        columns = []
        for k, end in zip(self.cutoffs, ends, strict=True):
            sums = pl.lit(pl.Series([*accumulate(discounts[:end], initial=0.0)]))
            each = [
                sums.gather(pl.col(str(i)).clip(upper_bound=end).cast(pl.UInt32)) * step
                for i, step in steps
            ]
            columns.append(sum(each, pl.lit(0.0)).alias(str(k)))
        return frame.select_seq(columns).get_columns()


# The positions whose hits are looked up together, in a table of all their combinations. It must
# divide WORD.
PIECE = 10


@dataclass
class HitRankings(Rankings):
    """A batch of rankings of which the positions of the hits are known: the ones of `words`."""

    words: Sequence[pl.Series] = ()

    def total(
        self, key: Hashable, terms: Callable[[], Iterable[pl.Series]], k: int | None
    ) -> pl.Series:
        """What `_tables` holds for a metric, of the hits in the first k positions."""
        end = min(k or self.longest, self.longest)
        return self._sums(end)[key[0]]  # type: ignore[index]

    @cached_property
    def longest(self) -> int:
        """The last position of a hit."""
        highest = [int(word.max() or 0).bit_length() for word in self.words]  # type: ignore[arg-type]
        return max((WORD * i + bits for i, bits in enumerate(highest) if bits), default=0)

    def _sums(self, end: int) -> Mapping[Hashable, pl.Series]:
        known = self._columns.get(end)
        pieces = range(0, end, PIECE)
        hits = inverses = precisions = first = self.zero
        for start in pieces if known is None else ():
            word, shift = divmod(start, WORD)
            within = (1 << min(PIECE, end - start)) - 1
            piece = ((self.words[word] // (1 << shift)) & within).cast(pl.UInt32)
            count, inverse, precision, reached = (x.gather(piece) for x in _tables(start))
            precisions = precisions + precision + hits * inverse
            hits, inverses = hits + count, inverses + inverse
            first = first.zip_with(first > 0, reached)
        columns = self._columns.setdefault(end, [hits, inverses, precisions, first])
        return dict(zip(("hits", "arhr", "ap", "rr"), columns, strict=True))


@cache
def _tables(start: int) -> list[pl.Series]:
    """What the hits in a piece add to their number, to arhr and ap, and their rr.

    For each combination of hits in the positions after `start`.
    """
    bits = pl.Series(range(1 << PIECE))
    items = [(start + i + 1, to_double((bits & (1 << i)) != 0)) for i in range(PIECE)]
    zero = to_double(bits * 0)
    rankings = Rankings(items, [zero + 1], zero=zero)
    read = (hit_count, reciprocals, precision_sum, reciprocal_rank)
    return [metric(rankings, {"threshold": 1, "k": None}) for metric in read]


# The gain of a grade, a number or a column.
Gain: TypeAlias = Callable[[Any], Any]


def to_double(column: Any) -> pl.Series:
    """A column as DOUBLE."""
    number: pl.Series = column.cast(pl.Float64)
    return number


def sum_columns(columns: Iterable[pl.Series], zero: pl.Series) -> pl.Series:
    """The sum of columns, in their order."""
    total = None
    for column in columns:
        total = column if total is None else total + column
    return zero if total is None else total


def discount(pos: int) -> float:
    """1 / log2(pos + 1)."""
    return 1 / math.log2(pos + 1)


def gain_of(options: Options) -> tuple[Gain, Hashable]:
    """The gain of a grade, under the options, and what it depends on."""
    threshold, kind = options["threshold"], options["gain"]

    def gain(grade: Any) -> Any:
        if kind == "binary":
            hit = grade >= threshold
            return to_double(hit) if isinstance(hit, pl.Series) else float(hit)
        return 2.0**grade - 1 if kind == "exp2" else grade

    return gain, (kind, kind == "binary" and threshold)


def discounted_gains(r: Rankings, o: Options) -> pl.Series:
    """The sum of the gains, each divided by log2(pos + 1)."""
    gain, key = gain_of(o)
    k = o["k"]
    terms = lambda: (gain(x) * y for (_, x), y in zip(r.first(k), r.discounts(k), strict=True))  # noqa: E731
    return r.total(("dcg", key), terms, k)


def gains(r: Rankings, o: Options) -> pl.Series:
    """The sum of the gains."""
    gain, key = gain_of(o)
    return r.total(("cg", key), lambda: (gain(grade) for _, grade in r.items), o["k"])


def ideal_gains(r: Rankings, o: Options) -> pl.Series:
    """The discounted gains of the ideal ranking."""
    return r.ideal(*gain_of(o), o["k"], o["ideal"] == "retrieved")


def normalized_gains(r: Rankings, o: Options) -> pl.Series:
    """The discounted gains by those of the ideal ranking."""
    return at_most_one(discounted_gains(r, o) / or_null(ideal_gains(r, o)))


def precision_sum(r: Rankings, o: Options) -> pl.Series:
    """The sum of the precisions at the hits."""
    hits, counts = r.hits(o["threshold"]), r.count(o["threshold"])
    terms = lambda: (h * n / p for h, n, (p, _) in zip(hits, counts, r.items, strict=True))  # noqa: E731
    return r.total(("ap", o["threshold"]), terms, o["k"])


def average_precision(r: Rankings, o: Options) -> pl.Series:
    """The sum of the precisions at the hits, by the denominator."""
    if (o["k"], o["denominator"]) == (None, "min"):
        o = {**o, "denominator": "R"}
    return if_relevant(r, o, at_most_one(precision_sum(r, o) / at_least_one(divisor(r, o))))


def reciprocal_rank(r: Rankings, o: Options) -> pl.Series:
    """1 / the position of the first hit."""
    threshold, k = o["threshold"], o["k"]
    items = r.first(k)

    def first() -> Iterator[pl.Series]:
        value = r.zero
        for pos, grade in reversed(items):
            reached = constant(1 / pos) if isinstance(pos, int) else 1 / pos
            value = reached.zip_with(grade >= threshold, value)
        yield value

    value = r.total(("rr", threshold, len(items)), first, None)
    return if_relevant(r, o, value if k is None else value * to_double(value >= 1 / k))


def reciprocals(r: Rankings, o: Options) -> pl.Series:
    """The sum of 1 / the positions of the hits."""
    hits = r.hits(o["threshold"])
    terms = lambda: (h / p for h, (p, _) in zip(hits, r.items, strict=True))  # noqa: E731
    return if_relevant(r, o, r.total(("arhr", o["threshold"]), terms, o["k"]))


def hit_count(r: Rankings, o: Options) -> pl.Series:
    """The number of hits."""
    return r.total(("hits", o["threshold"]), lambda: r.hits(o["threshold"]), o["k"])


def divisor(r: Rankings, o: Options) -> pl.Series:
    """What hits and precisions are divided by."""
    k: int | None = o["k"]
    match o["denominator"]:
        case "R":
            return r.relevant(o["threshold"])
        case "found":
            return hit_count(r, o)
        case "min":
            relevant = r.relevant(o["threshold"])
            if k is not None:
                return at_most(relevant, k)
            assert r.retrieved is not None
            return r.retrieved.zip_with(r.retrieved < relevant, relevant)
        case "k" if k is not None:
            return r.zero + k
    assert r.retrieved is not None
    return at_most(r.retrieved, k)


def precision(r: Rankings, o: Options) -> pl.Series:
    """The hits by the denominator."""
    return hit_count(r, o) / at_least_one(divisor(r, o))


def recall(r: Rankings, o: Options) -> pl.Series:
    """The hits by the number of relevant items."""
    return hit_count(r, o) / or_null(r.relevant(o["threshold"]))


def f1(r: Rankings, o: Options) -> pl.Series:
    """The harmonic mean of precision and recall."""
    relevant = r.relevant(o["threshold"])
    return if_relevant(r, o, 2 * hit_count(r, o) / or_null(divisor(r, o) + relevant))


def success(r: Rankings, o: Options) -> pl.Series:
    """1 if there is a hit."""
    return if_relevant(r, o, to_double(hit_count(r, o) > 0))


def all_relevant(r: Rankings, o: Options) -> pl.Series:
    """1 if all relevant items are hits."""
    return if_relevant(r, o, to_double(hit_count(r, o) == r.relevant(o["threshold"])))


def precision_at_r(r: Rankings, o: Options) -> pl.Series:
    """The hits in the first R positions, by R."""
    relevant, hits = r.relevant(o["threshold"]), r.hits(o["threshold"])
    terms = (h * to_double(relevant >= p) for h, (p, _) in zip(hits, r.items, strict=True))
    return sum_columns(terms, r.zero) / or_null(relevant)


def set_precision(r: Rankings, o: Options) -> pl.Series:
    """Precision times recall of the complete ranking."""
    return precision(r, {**o, "denominator": "k"}) * recall(r, o)


def expected_reciprocal_rank(r: Rankings, o: Options) -> pl.Series:
    """1 / the position where a user stops, on average."""
    p, max_rel = o["p"], o["max_rel"]

    def terms() -> Iterator[pl.Series]:
        remaining: Any = 1.0
        for (pos, _), power in zip(r.items, r.powers(), strict=True):
            stopped = remaining * power * 2.0**-max_rel
            yield stopped * (p ** (pos - 1) / pos)
            remaining = remaining - stopped

    return if_positive(r.relevant(1), r.total(("err", p, max_rel), terms, o["k"]))


def rank_biased_precision(r: Rankings, o: Options) -> pl.Series:
    """The worth of the items by the probability that a user looks at them."""
    p, scale, threshold = o["p"], o["max_rel"], o["threshold"]

    def terms() -> Iterator[pl.Series]:
        for (pos, grade), hit in zip(r.items, r.hits(threshold), strict=True):
            worth = hit if scale is None else grade / scale
            yield worth * p ** (pos - 1)

    return at_most_one((1 - p) * r.total(("rbp", p, scale, threshold), terms, o["k"]))


def binary_preference(r: Rankings, o: Options) -> pl.Series:
    """The share of judged other items above each relevant one, as bpref."""
    threshold = o["threshold"]
    relevant = r.relevant(threshold)
    assert r.judged is not None
    others = r.judged - relevant
    least = at_least_one(relevant.zip_with(relevant < others, others))
    total, above = r.zero, r.zero
    for (pos, grade), hit in zip(r.items, r.hits(threshold), strict=True):
        capped = above.zip_with(above < relevant, relevant)
        total = total + hit * (1 - capped / least)
        is_item = True if isinstance(pos, int) else pos < math.inf
        above = above + to_double((grade < threshold) & is_item)
    return total / or_null(relevant)


def judged_share(r: Rankings, o: Options) -> pl.Series:
    """The share of judged items."""
    terms = lambda: (to_double(pos < math.inf) for pos, _ in r.items)  # noqa: E731
    judged = r.total("judged", terms, o["k"])
    return judged / at_least_one(divisor(r, {**o, "denominator": "k"}))


@cache
def constant(value: float | None) -> pl.Series:
    """A number that polars repeats. To make it takes longer than an operation on columns."""
    return pl.Series([value], dtype=pl.Float64)


def at_most(column: pl.Series, k: int | None) -> pl.Series:
    """Numbers cut at k, faster than by clip()."""
    return column if k is None else constant(k).zip_with(column > k, column)


def at_least_one(column: pl.Series) -> pl.Series:
    """A divisor, 1 instead of 0, where nothing is divided."""
    return constant(1).zip_with(column < 1, column)


def or_null(column: pl.Series) -> pl.Series:
    """A divisor, NULL instead of 0."""
    return constant(None).zip_with(column == 0, column)


def at_most_one(value: pl.Series) -> pl.Series:
    """1 if the value differs from 1 by rounding only."""
    return constant(1).zip_with(value >= 1 - NEAR_ONE, value)


def if_positive(count: pl.Series, value: pl.Series) -> pl.Series:
    """The value, NULL where a count is 0."""
    return constant(None).zip_with(count == 0, value)


def if_relevant(r: Rankings, o: Options, value: pl.Series) -> pl.Series:
    """The value, NULL without relevant items."""
    return if_positive(r.relevant(o["threshold"]), value)


@dataclass(frozen=True)
class Formula:
    """A metric as columns, and the options that it supports."""

    value: Callable[[Rankings, Options], pl.Series]
    # Separated by blanks.
    options: str = ""
    # The weight of a ranking in a mean over all rankings.
    weight: Callable[[Rankings, Options], pl.Series] | None = None
    # Whether it reads which items are hits, not their grades nor other items.
    reads_hits: bool = False


_one = lambda r, o: r.zero + 1  # noqa: E731
METRICS = {
    "ndcg": Formula(normalized_gains, "ideal"),
    "dcg": Formula(discounted_gains),
    "idcg": Formula(ideal_gains, "ideal"),
    "cg": Formula(gains),
    "ap": Formula(average_precision, "threshold denominator", _one, reads_hits=True),
    "rr": Formula(reciprocal_rank, "threshold", reads_hits=True),
    "precision_at": Formula(precision, "threshold denominator", reads_hits=True),
    "recall_at": Formula(recall, "threshold", reads_hits=True),
    "f1_at": Formula(f1, "threshold denominator", reads_hits=True),
    "hit_at": Formula(success, "threshold", reads_hits=True),
    "all_rel_at": Formula(all_relevant, "threshold", reads_hits=True),
    "arhr": Formula(reciprocals, "threshold", reads_hits=True),
    "r_precision": Formula(precision_at_r, "threshold"),
    "set_ap": Formula(set_precision, "threshold"),
    "err": Formula(expected_reciprocal_rank, "max_rel p"),
    "rbp": Formula(rank_biased_precision, "p threshold max_rel"),
    "bpref": Formula(binary_preference, "threshold"),
    "judged_at": Formula(judged_share),
    "micro_precision_at": Formula(precision, "threshold denominator", divisor),
    "micro_recall_at": Formula(
        recall, "threshold", lambda r, o: to_double(r.relevant(o["threshold"]))
    ),
    "micro_f1_at": Formula(
        f1, "threshold denominator", lambda r, o: divisor(r, o) + r.relevant(o["threshold"])
    ),
}


def supported_options(metric: Metric, conventions: Conventions, scored: bool) -> Options | None:
    """The options of a metric's formula; None if it is not supported: see `METRICS`."""
    formula = METRICS.get(metric.record.function) if metric.record else None
    if formula is None or metric.record is None:
        return None
    known = vars(conventions)
    arguments, gain = metric.arguments(known), metric.gain(known)
    threshold = metric.threshold(known)
    if (
        not arguments.keys() <= {*formula.options.split(), "k", "negative"}
        or not isinstance(gain, str)
        or min(threshold, conventions.threshold) <= 0
    ):
        return None
    defaults = {name: option.default for name, option in metric.record.options.items()}
    options = {"k": None, **defaults, **arguments, "gain": gain, "threshold": threshold}
    counts_shown = options.get("denominator") == "retrieved" and options["k"] is not None
    return None if counts_shown and not scored else options
