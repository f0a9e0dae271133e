"""Tables with faults in some rows, and what check counts, by loops over the rows."""

import math
import random
from collections import Counter, defaultdict

import polars as pl

ODD_SCORES = [None, math.nan, math.inf]
ODD_PLACES = [None, 0, -1, 1.5, math.inf, math.nan]
ODD_GRADES = [None, None, math.nan, math.inf, -1, 0.5, 20, 1.7e308]


def draw(seed):
    """A run of two systems or one, by scores or positions, and judgments; and the cutoff."""
    rng = random.Random(seed)
    ordered, k = rng.choice(["score", "pos"]), rng.randint(1, 4)
    faulty = rng.choice([0, 0, 0.05, 0.15])
    queries = [f"q{i}" for i in range(6)]
    run, qrels = [], []
    for system in rng.choice([["m"], ["m", "n"]]):
        for query in rng.sample(queries, rng.randint(3, 6)):
            items = rng.sample(range(9), rng.randint(2, 7))
            twice = rng.random() < 2 * faulty
            items += [rng.choice(items)] if twice else []
            places = [*range(1, len(items) + 1)]
            if rng.random() < 2 * faulty and not twice:
                places[-1] = places[-2]  # a tie, or a position that two items share
            values = places if ordered == "pos" else [10 - x for x in places]
            run += [[system, query, f"d{x}", y] for x, y in zip(items, values, strict=True)]
            if rng.random() < 3 * faulty:  # at most one of a ranking
                odd = ODD_PLACES if ordered == "pos" else ODD_SCORES
                run[-rng.randint(1, len(items))][3] = rng.choice(odd)
    for query in rng.sample(queries, rng.randint(4, 6)):
        for item in rng.sample(range(9), rng.randint(3, 6)):
            odd = rng.random() < faulty
            qrels.append([query, f"d{item}", rng.choice(ODD_GRADES if odd else [0, 1, 2])])
            if rng.random() < faulty:
                qrels.append([*qrels[-1][:2], rng.choice([qrels[-1][2], 1])])
    for table, column in ((run, 1), (run, 2), (qrels, 0), (qrels, 1)):
        for row in table:
            row[column] = None if rng.random() < faulty / 6 else row[column]
    rng.shuffle(run)
    kinds = {"system": pl.String, "query": pl.String, "item": pl.String, ordered: pl.Float64}
    rows = pl.DataFrame(run, kinds, orient="row")
    grades = {"query": pl.String, "item": pl.String, "rel": pl.Float64}
    return rows, pl.DataFrame(qrels, grades, orient="row"), ordered, k


def is_nan(x):
    return x is not None and math.isnan(x)


def finite(x):
    return x is not None and math.isfinite(x)


# By role: the kinds of values, the level of each, and which values are such.
VALUES = {
    "score": [
        ("nan-scores", "error", is_nan),
        ("infinite-scores", "warning", lambda x: x is not None and math.isinf(x)),
    ],
    "pos": [
        ("text-positions", "error", is_nan),
        ("positions-from-0", "error", lambda x: x == 0),
        ("positions-below-1", "error", lambda x: x is not None and x < 0),
        ("fractional-positions", "error", lambda x: finite(x) and x > 1 and x != int(x)),
        ("huge-positions", "error", lambda x: x == math.inf),
    ],
    "rel": [
        ("nan-grades", "error", is_nan),
        ("null-grades", "warning", lambda x: x is None),
        ("infinite-grades", "error", lambda x: x is not None and math.isinf(x)),
        ("huge-grades", "error", lambda x: finite(x) and x > 1e307),
        ("negative-grades", "warning", lambda x: finite(x) and x < 0),
        ("grades-below-1", "warning", lambda x: finite(x) and 0 < x < 1),
        ("high-grades", "warning", lambda x: finite(x) and 10 < x < 1e307),
    ],
}
NULL = {"score": "null-scores", "pos": "null-positions"}


def count(run, qrels, ordered, k):
    """(kind, level, count) of every finding that is a count of rows, items or queries."""
    found = Counter()
    for rows, role in ((run, ordered), (qrels, "rel")):
        for column in {"system", "query", "item"} & {*rows.columns}:
            found["null-ids", "error", rows[column].null_count()] += 1
        for kind, level, wrong in VALUES[role]:
            found[kind, level, sum(map(wrong, rows[role]))] += 1
    found[NULL[ordered], "warning", run[ordered].null_count()] += 1
    readable = [[x for x in rows.rows() if None not in x[:-1]] for rows in (run, qrels)]
    ranked, judged = ([[*x[:-1], None if is_nan(x[-1]) else x[-1]] for x in y] for y in readable)
    grades, rankings = defaultdict(list), defaultdict(list)
    for query, item, rel in judged:
        if rel is not None:
            grades[query, item].append(rel)
    for system, query, item, value in ranked:
        rankings[system, query].append((item, value))
    repeated = [x for x in grades.values() if len(x) > 1]
    same = [max(x) for x in repeated if min(x) == max(x)]
    found["duplicate-judgments", "error", sum(x > 0 for x in same)] += 1
    found["duplicate-judgments", "warning", sum(x <= 0 for x in same)] += 1
    found["conflicting-judgments", "error", len(repeated) - len(same)] += 1
    best = defaultdict(lambda: -math.inf)
    for (query, _), each in grades.items():
        best[query] = max(best[query], *each)
    found["no-relevant", "warning", sum(x < 1 for x in best.values())] += 1

    def first(rows):
        """The items in the first k positions; of equal scores, those with the higher id."""
        if ordered == "pos":
            return [x for x, y in rows if y is not None and y <= k]
        placed = sorted(((y, x) for x, y in rows if y is not None), reverse=True)
        return [x for _, x in placed[:k]]

    ties, repeats, shared = 0, Counter(), Counter()
    for rows in rankings.values():
        values = sorted((y for _, y in rows if y is not None), reverse=ordered == "score")
        if ordered == "score":
            ties += len(values) > k and values[k - 1] == values[k]
        else:
            shared.update(x <= k for x, times in Counter(values).items() if times > 1)
        last = math.inf if ordered == "pos" else -math.inf
        places = sorted(rows, key=lambda x: last if x[1] is None else x[1])
        places = places[:: 1 if ordered == "pos" else -1]
        for item in {item for item, times in Counter(x for x, _ in rows).items() if times > 1}:
            number = [i for i, (x, _) in enumerate(places, 1) if x == item]
            of_item = [y for x, y in places if x == item and y is not None]
            second = number[1] if ordered == "score" else (*sorted(of_item), *[math.inf] * 2)[1]
            repeats[second <= k] += 1
    found["ties-at-k", "warning", ties] += 1
    for within, level in ((True, "error"), (False, "warning")):
        found["duplicate-items", level, repeats[within]] += 1
        found["duplicate-positions", level, shared[within]] += 1
    for system in {x for x, _ in rankings}:
        own = {query for name, query in rankings if name == system}
        found["missing-queries", "warning", len({*best} - own)] += 1
        found["unjudged-queries", "warning", len(own - {query for query, *_ in judged})] += 1
        # The first k of each ranking whose query is judged, and those of them that are.
        top = [(query, x) for query in own & {*best} for x in first(rankings[system, query])]
        known = sum(x in grades for x in top)
        level = "warning" if 2 * known < len(top) else "note"
        found["judged-share", level, len(top) - known] += 1
    return +Counter({key: times for key, times in found.items() if key[2]})
