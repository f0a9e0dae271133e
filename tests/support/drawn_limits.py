"""Limits of a gate on values per query, and what they decide by a plain definition.

`draw_limit` makes a limit and the values of all queries and of slices, from none to many, of which
some are equal, undefined or without weight; `decide` says what passes. The interval of a sample at
one level is that of the test.
"""

from dataclasses import dataclass

import numpy as np

from rankql.core.stats.sample import Sample
from rankql.core.stats.tests import Betting, MeanTest, SkewedStudent
from rankql.decisions.gate_limits import GateLimit, default_drops, parse_limits
from rankql.decisions.pairs import PairComparison
from support.comparisons import METRICS, together

# Differences within rounding decide nothing.
NOTHING = 1e-9


@dataclass
class Drawn:
    """A limit, the values or differences by slice, and how they are held to it."""

    limit: GateLimit
    pairs: list[PairComparison]
    alpha: float | None
    min_queries: int
    anytime: bool

    @property
    def level(self):
        """That of the interval: of both sides of an equivalence, twice the level."""
        return None if self.alpha is None else self.alpha * (2 if self.limit.side else 1)

    @property
    def test(self):
        if self.anytime:
            return Betting()
        return MeanTest() if self.limit.operator else SkewedStudent()

    @property
    def target(self):
        """Where the limit is, and 1 if what is right of it passes, else -1."""
        limit = self.limit
        if limit.operator:
            return limit.bound, 1 if ">" in limit.operator else -1
        may_fall = METRICS[limit.metric.name][2] != (limit.side == "gain")
        return (-limit.bound, 1) if may_fall else (limit.bound, -1)

    def within(self, room):
        """Whether a value with so much room before the limit is within it."""
        return room > NOTHING if self.limit.operator in ("<", ">") else room >= -NOTHING


def draw_limit(seed):
    """A limit and its slices; the limit is often where a mean is, or an end of its interval."""
    rng = np.random.default_rng(seed)
    metric, kind = str(rng.choice([*METRICS])), str(rng.choice(["minimum", "drop", "equivalence"]))
    lowest, highest, higher = METRICS[metric]
    anytime = bool(metric == "AP" and rng.random() < 0.15)
    alpha = None if kind == "minimum" and rng.random() < 0.4 else float(rng.choice([0.05, 0.2]))
    pairs, parts, total = [], {}, 0
    for label in ["part=x", "part=y", "part=z"][: rng.integers(0, 4)]:
        parts[label] = int(rng.choice([0, 1, 3, 6, 8, 9, 10, 12, 40]))
    whole = sum(parts.values()) + int(rng.choice([1, 5, 9, 10, 30]))
    old = rng.integers(0, 9, whole) / 10
    size = {"noise": rng.integers(-3, 3, whole) / 50, "equal": -0.05, "few": 0.0, "lost": -0.5}
    change = np.full(whole, 0.0) + size[str(rng.choice([*size]))]
    change[: int(rng.integers(0, 8))] -= rng.choice([0.0, 0.2])
    old, new = (x.clip(lowest, highest) for x in (old, old + change))
    if rng.random() < 0.2:
        old = new = np.full(whole, 0.5)
    known = np.full(whole, True) if rng.random() < 0.6 else rng.random(whole) < rng.choice([0, 0.7])
    weights = rng.choice([0.0, 1.0, 2.0], whole) if rng.random() < 0.2 and not anytime else None
    weights = np.zeros(whole) if weights is not None and rng.random() < 0.2 else weights
    overall = rng.random() < 0.07 and (kind == "drop" or alpha is None) and weights is None
    ends = (lowest, highest) if kind == "minimum" else (lowest - highest, highest - lowest)
    for label in ["all", *parts]:
        start, stop = (0, whole) if label == "all" else (total, total + parts[label])
        total += 0 if label == "all" else parts[label]
        rows = np.arange(start, stop)
        weighed = rows if weights is None else rows[weights[rows] > 0]
        rows = weighed[known[weighed]]
        own = None if weights is None else weights[rows]
        means = [float(np.average(x[rows], weights=own)) if len(rows) else None for x in (old, new)]
        values = new[rows] if kind == "minimum" else (new - old)[rows]
        sample = Sample(values, None, own, *ends)
        names = (metric, "run" if kind == "minimum" else "baseline", "run", label)
        counts = (stop - start, len(weighed), len(rows) if overall else None, not higher)
        pairs.append(PairComparison(*names, sample, means[kind == "minimum" :], *counts))
    same = kind != "minimum" and bool((change == 0).all()) and rng.random() < 0.5
    for pair in pairs:
        pair.identical = same
    drawn = Drawn(None, pairs, alpha, int(rng.choice([1, 6, 9, 10, 12])), anytime)
    drawn.limit = draw_bound(rng, kind, drawn, pairs[rng.integers(0, len(pairs))])
    return drawn


def draw_bound(rng, kind, drawn, pair):
    """A limit near the mean of a slice, or near an end of its interval."""
    metric, operator = pair.metric, str(rng.choice([">=", ">", "<=", "<"]))
    drawn.limit = GateLimit(metric, parse_limits("max_drop", f"{metric}:0", [[metric]])[0].metric,
                            0.0, operator if kind == "minimum" else "")  # fmt: skip
    near = [pair.change or 0.0, 0.0, 0.05, 0.3]
    if drawn.alpha is not None and len(pair.sample.values):
        ends = drawn.test.apply(pair.sample, drawn.alpha)
        near += [x for x in (ends.lo, ends.hi) if x is not None] * 2
    bound = float(rng.choice(near)) + float(rng.choice([0, 0, 1e-6, -1e-6, 1e-14, 0.02]))
    if kind == "minimum":
        bound = min(max(bound, 0.0), 1.0)
        text = f"{metric}{operator}{bound!r}"
    else:
        bound = min(abs(bound), 0.99)
        if not bound and kind == "drop" and pair.overall is None and rng.random() < 0.5:
            return default_drops((), [[metric]])[0]
        bound = bound or (0.1 if kind == "equivalence" else 0.0)
        text = f"{metric}:{bound!r}"
    part = str(rng.choice(["", "", *(f"{x.slice}: " for x in drawn.pairs)]))
    limits = parse_limits("max_drop" if kind == "drop" else kind, part + text, [[metric]])
    return limits[rng.integers(0, len(limits))]


def decide(drawn):
    """The status of each slice, and its interval and level if these decide."""
    limit, families, found = drawn.limit, {}, {}
    target, side = drawn.target
    too_few = "inconclusive" if limit.part.startswith("part=") else "too few queries"
    for pair in drawn.pairs:
        if limit.part not in ("", pair.slice):
            continue
        n, value = len(pair.sample.values), pair.change
        few = (pair.weighed if value is None else n) < drawn.min_queries
        if value is not None and pair.identical:
            found[pair.slice] = "passed", None, None
        elif value is not None and drawn.alpha is not None and pair.overall is None:
            # Slices are adjusted among themselves, those that are too small to pass too.
            kind = "all" if pair.slice == "all" else "small" if few else "large"
            kind = "slices" if drawn.anytime and kind != "all" else kind
            families.setdefault(kind, []).append(pair)
        elif pair.weighed == 0 or (few and pair.slice != "all"):
            found[pair.slice] = too_few, None, None
        else:
            passed = value is not None and drawn.within(side * (value - target))
            found[pair.slice] = "passed" if passed else "failed", None, None
    for members in families.values():
        for pair, ends, level in intervals(drawn, members):
            status = "inconclusive"
            if ends is not None:
                worst, best = sorted(side * (x - target) for x in ends)
                no_bound = not (limit.operator or limit.bound)
                status = "passed" if no_bound or drawn.within(worst) else status
                status = status if drawn.within(best) else "failed"
            # A small slice fails only if its queries cannot all have lost by chance.
            lucky = 2.0 ** (1 - pair.sample.units) > drawn.level / len(members)
            if len(pair.sample.values) < drawn.min_queries and (status != "failed" or lucky):
                status = "inconclusive" if pair.slice == "all" else too_few
            found[pair.slice] = status, ends, level
    return found


def intervals(drawn, members):
    """The interval of each member of a family and its level; None if it has none."""
    test, (target, _) = drawn.test, drawn.target
    shifted = [pair.sample.minus(target) for pair in members]
    at_zero = not (drawn.limit.operator or target or drawn.anytime)
    correction = "bonferroni" if drawn.anytime else "holm"
    results = together(shifted, test, correction, drawn.level, at_zero)
    for i, pair in enumerate(members):
        result = results.get(i)
        if result is None or result.lo is None:
            yield pair, None, None
        else:
            yield pair, (result.lo + target, result.hi + target), result.level
