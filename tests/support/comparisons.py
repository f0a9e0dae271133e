"""Comparisons by their definition: values per query in arrays, plain loops over pairs and tests.

`draw` makes values of systems with slices, weights, clusters, undefined and missing queries, and
`expected_rows` says what `compare` has of them. The p-value and the interval of one sample at one
level are those of the test, whose own definitions are in test_significance.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import rankql
from rankql.core.stats.sample import Sample, SlicedSample
from rankql.core.stats.tests import TESTS, Betting

# The range of each metric, and whether a higher value is better.
METRICS = {"AP": (0, 1, True), "RMSE": (0, math.inf, False), "revenue": (-math.inf, math.inf, True)}
MEAN_OF_SLICES = "mean of slices"


def family(p, floors, correction, alpha):
    """Of tests that are made together: p adjusted, the level of each, and the queries needed.

    Tests that could not be significant do not count (Tarone 1990), until Holm rejects all others.
    """
    found, left, worst = {}, [*range(len(p))], 0.0
    while True:
        sizes = range(1, len(left) + 1) if correction in ("holm", "bonferroni") else ()
        k = next((k for k in sizes if sum(floors[i] <= alpha / k for i in left) <= k), 1)
        members = sorted((i for i in left if floors[i] <= alpha / k), key=p.__getitem__)
        left, m, own = [i for i in left if i not in members], len(members), []
        for place, i in enumerate(members):
            factors = {
                "holm": max((m - j) * p[other] for j, other in enumerate(members[: place + 1])),
                "bh": min(m * p[members[j]] / (j + 1) for j in range(place, m)),
                "bonferroni": m * p[i],
                "none": p[i],
            }
            own.append(min(1.0, factors[correction]))
        rejected = sum(x <= alpha for x in own)
        for i, adjusted in zip(members, own, strict=True):
            smaller = sum(p[other] < p[i] for other in members)
            divisors = {
                "holm": m - min(smaller, rejected),
                "bh": m / max(1, rejected),
                "bonferroni": m,
                "none": 1,
            }
            found[i] = max(adjusted, worst), alpha / divisors[correction], None
        worst = max([worst, *own])
        if correction != "holm" or not (members and left) or worst > alpha:
            break
    for i in left:
        found[i] = min(1.0, p[i] * k), alpha / k, math.ceil(1 - math.log2(alpha / k))
    return [found[i] for i in range(len(p))]


def together(samples, test, correction, alpha, floors=True):
    """The results of a family by the place of the sample, of those that can be tested."""
    apply = test.apply_to_zero if floors else test.apply
    tested = [i for i, sample in enumerate(samples) if not test.explain_untestable(sample)]
    p = [apply(samples[i], alpha).p for i in tested]
    least = [min(1, 2.0 ** (1 - samples[i].differing)) if floors else 0.0 for i in tested]
    found = {}
    for i, of_family in zip(tested, family(p, least, correction, alpha), strict=True):
        adjusted, level, needed = of_family
        result = apply(samples[i], level)
        found[i] = replace(result, p_adjusted=adjusted, level=level, needed=needed)
    return found


@dataclass
class Drawn:
    """Values by metric, query and system, NaN if undefined; the attributes and the options."""

    values: dict
    absent: np.ndarray
    about: pl.DataFrame
    options: dict

    @property
    def systems(self):
        return [f"s{i}" for i in range(self.absent.shape[1])]

    def results(self):
        """What compare takes."""
        frames = {}
        for i, name in enumerate(self.systems):
            columns = {metric: pl.Series(x[:, i]) for metric, x in self.values.items()}
            frame = self.about.with_columns(**columns).fill_nan(None)
            frame = frame.filter(pl.Series(~self.absent[:, i]))
            frames[name] = frame.sample(fraction=1, shuffle=True, seed=i)
        return {x: rankql.read_values(y, metrics=[*self.values]) for x, y in frames.items()}

    def counted(self, metric):
        """The values that count: of queries that all systems define, missing ones as the worst."""
        values = self.values[metric].copy()
        worst = np.where(np.isnan(np.where(self.absent, math.nan, values)).all(axis=1), math.nan, 0)
        # Columns alone that are no metrics of rankql have no worst value either.
        has_worst = metric != "RMSE" and {*self.values} != {"revenue"}
        values = np.where(self.absent, worst[:, None] if has_worst else math.nan, values)
        used = ~np.isnan(values).all(axis=0)
        values[np.isnan(values[:, used]).any(axis=1)] = math.nan
        if "weight" in self.options:
            values[self.about["w"].to_numpy() == 0] = math.nan
        return values

    def parts(self):
        """The queries of each slice."""
        parts = {"all": np.full(len(self.about), True)}
        if "by" in self.options:
            for part in self.about["part"].unique().sort(nulls_last=True):
                label = f"part={'NULL' if part is None else part}"
                parts[label] = self.about["part"].eq_missing(part).to_numpy()
        return parts


def draw(seed):
    """Values with ties and gaps, of 2 or 3 systems that differ much, little or not at all."""
    rng = np.random.default_rng(seed)

    def chance(share):
        return rng.random() < share

    n, systems = int(rng.choice([1, 2, 7, 12, 30, 45])), int(rng.integers(2, 4))
    options = {"confidence": float(rng.choice([0.6, 0.95]))}
    if anytime := chance(0.15):
        options |= {"interval": "anytime", "time": "t"}
        systems = 2
    else:
        options |= {"test": str(rng.choice([*TESTS])), "resamples": 199}
        options |= {"correction": str(rng.choice(["holm", "holm", "bonferroni", "bh", "none"]))}
    if chance(0.6):
        options |= {"by": "part"} | ({} if anytime else {"min_queries": int(rng.choice([0, 4]))})
        options |= {"mean": "slices"} if chance(0.3) and not anytime else {}
    if chance(0.25) and not anytime:
        options |= {"weight": "w"}
    if chance(0.25) and not anytime and "mean" not in options:
        options |= {"cluster": "user"}
    options |= {"baseline": f"s{systems - 1}"} if chance(0.2) else {}
    names = ["AP"] if anytime else [x for x in METRICS if chance(0.6)] or ["AP"]
    about = pl.DataFrame({
        "query": [f"q{i:02}" for i in range(n)],
        "part": rng.choice(["x", "x", "x", "x", "y", "y", None], n).tolist(),
        "user": rng.integers(0, max(1, n // 2), n),
        "w": rng.choice([0.0, 1.0, 1.0, 2.5], n) if n > 2 else np.ones(n),
        "t": rng.permutation(n),
    }, schema_overrides={"part": pl.String})  # fmt: skip
    used = {"by": "part", "cluster": "user", "weight": "w", "time": "t"}
    about = about.select("query", *(y for x, y in used.items() if x in options))
    values = {}
    for name in names:
        kind = rng.choice(["noise", "noise", "few", "equal", "same"])
        gain = {"noise": rng.integers(-3, 5, (n, systems)) / 20, "equal": 0.1, "same": 0}
        gain["few"] = (np.arange(n) < 6)[:, None] / 10
        base = rng.integers(0, 11, n)[:, None] / 20
        drawn = (base + gain[kind] * np.arange(systems)).clip(0, 1)
        gaps = rng.random((n, systems)) < (0.1 if chance(0.4) else 0)
        if chance(0.05):
            gaps[:, 0] = True  # a system without any value
        values[name] = np.where(gaps, math.nan, drawn)
    absent = rng.random((n, systems)) < (0.1 if chance(0.3) and not anytime else 0)
    absent[:, -1] = absent[:, -1] & (np.arange(n) > 0)
    absent[0] = False  # they have a query in common
    return Drawn(values, absent, about, options)


def make_sample(drawn, metric, values, where):
    """The sample of the values that are known within a slice."""
    lowest, highest, _ = METRICS[metric]
    places = np.flatnonzero(where & ~np.isnan(values))
    if "time" in drawn.options:
        places = places[np.argsort(drawn.about["t"].to_numpy()[places])]
    codes = weights = None
    if "cluster" in drawn.options:
        codes = np.unique(drawn.about["user"].to_numpy()[places], return_inverse=True)[1]
    if "weight" in drawn.options:
        weights = drawn.about["w"].to_numpy()[places]
    return Sample(values[places], codes, weights, lowest - highest, highest - lowest)


def weighted_mean(drawn, values, where):
    """The mean of the values that are known within a slice; None without one."""
    known = where & ~np.isnan(values)
    weights = drawn.about["w"].to_numpy() if "weight" in drawn.options else np.ones(len(values))
    return (values[known] @ weights[known] / weights[known].sum()) if known.any() else None


def expected_rows(drawn):
    """The rows of all pairs."""
    options, rows = drawn.options, []
    anytime, alpha = "interval" in options, round(1 - options["confidence"], 12)
    test = Betting() if anytime else TESTS[options["test"]](options["resamples"])
    first = options.get("baseline")
    pairs = [(first, x) for x in drawn.systems if x != first]
    if first is None:
        pairs = [(a, b) for a in drawn.systems for b in drawn.systems if a < b]
    for metric in drawn.values:
        values, parts = drawn.counted(metric), drawn.parts()
        for a, b in pairs:
            sides = [values[:, drawn.systems.index(name)] for name in (a, b)]
            change = sides[1] - sides[0]
            samples = {x: make_sample(drawn, metric, change, y) for x, y in parts.items()}
            both = [np.where(np.isnan(change), math.nan, side) for side in sides]
            means = {x: [weighted_mean(drawn, side, y) for side in both] for x, y in parts.items()}
            if "mean" in options:
                inside = [x for x in parts if x != "all" and len(samples[x].values)]
                means[MEAN_OF_SLICES] = [
                    np.mean([means[x][i] for x in inside]) if inside else None for i in (0, 1)
                ]
                whole = SlicedSample.of({x: samples[x] for x in inside}) if inside else None
                samples[MEAN_OF_SLICES] = whole or samples["all"]
            for label, sample in samples.items():
                row = {"metric": metric, "a": a, "b": b, "slice": label, "sample": sample}
                row |= dict(zip(("mean_a", "mean_b"), means[label], strict=True))
                few = label != "all" and len(sample.values) < options.get("min_queries", 0)
                row["verdict"] = test.explain_untestable(sample) or few * "too few queries"
                rows.append(row | {"higher": METRICS[metric][2]})
    tested = [row for row in rows if not row["verdict"]]
    correction = "bonferroni" if anytime else options["correction"]
    samples = [row["sample"] for row in tested]
    results = together(samples, test, correction, alpha, not anytime)
    for i, row in enumerate(tested):
        result, sample = results[i], row["sample"]
        needed, better = result.needed, (sample.mean > 0) == row["higher"]
        row |= {x: getattr(result, x) for x in ("p", "p_adjusted", "lo", "hi", "level")}
        row["verdict"] = "not significant"
        if needed is not None:
            kind = "clusters" if "cluster" in options else "queries"
            differ = "differs" if sample.differing == 1 else "differ"
            row["verdict"] = f"cannot be decided: {sample.differing} of {len(sample.sums)} {kind} "
            row["verdict"] += f"{differ}, {needed} are needed"
        elif result.p_adjusted <= alpha:
            row["verdict"] = "better" if better else "worse"
    for row in rows:
        add_counts(row, test, alpha)
    return rows


def add_counts(row, test, alpha):
    """The numbers that need no test."""
    sample, level = row["sample"], row.get("level", alpha)
    values, n = sample.values, len(sample.values)
    up, down = int((values > 1e-9).sum()), int((values < -1e-9).sum())
    wins, losses = (up, down) if row["higher"] else (down, up)
    row |= {"n": n, "wins": wins, "losses": losses, "ties": n - up - down}
    row["difference"] = row["mean_b"] - row["mean_a"] if n else None
    row["detectable"] = row["effect"] = None
    if n > 1 and np.ptp(values) > 1e-9:
        weights = np.ones(n) if sample.weights is None else sample.weights / sample.weights.mean()
        squares = weights @ np.square(values - weights @ values / n)
        row["effect"] = sample.mean / math.sqrt(squares / (n - weights @ weights / n))
    if n and row["verdict"] != "not testable":
        size = test.detectable(sample, level)
        row["detectable"] = size if size is not None and size <= sample.highest else None
