"""Every metric straight from its definition in plain Python: slow, and easy to check by eye.

A ranking is a list of rows (rel, pos). pos None: judged, not retrieved. rel None: not judged.
A scored ranking is a list of rows (rel, score, item). score None: judged, not retrieved.
The property tests compare every engine with this file; cases made by hand and other libraries
check it.
"""

from itertools import combinations, groupby, permutations, product
from math import fsum, log, sqrt


def shown(rows, k=None):
    return [(rel, pos) for rel, pos in rows if pos is not None and (k is None or pos <= k)]


def judged(rows):
    return [rel for rel, _ in rows if rel is not None]


def relevant(rows, threshold):
    return sum(1 for rel in judged(rows) if rel >= threshold)


def hits(rows, k, threshold):
    """The positions of the relevant items that were shown."""
    return sorted(pos for rel, pos in shown(rows, k) if rel is not None and rel >= threshold)


def exp2_gain(rel):
    return None if rel is None else 2**rel - 1


# gain


def divisor(pos, discounts, base):
    return log(pos + 1) / log(base) if discounts is None else discounts[pos - 1]


def cg(rows, k=None):
    return fsum(rel for rel, pos in shown(rows, k) if rel is not None)


def dcg(rows, k=None, discounts=None, base=2):
    return fsum(
        rel / divisor(pos, discounts, base) for rel, pos in shown(rows, k) if rel is not None
    )


def idcg(rows, k=None, discounts=None, base=2, ideal="judged"):
    pool = rows if ideal == "judged" else shown(rows)
    best = sorted((rel for rel in judged(pool) if rel > 0), reverse=True)[:k]
    if discounts is None:
        divisors = [divisor(pos, None, base) for pos in range(1, len(best) + 1)]
    else:
        divisors = sorted(discounts[:k])
    return fsum(rel / by for rel, by in zip(best, divisors, strict=False))


def ndcg(rows, k=None, discounts=None, base=2, ideal="judged", negative="zero"):
    most = idcg(rows, k, discounts, base, ideal)
    if negative == "zero":
        rows = [(rel and max(rel, 0), pos) for rel, pos in rows]
    return None if most == 0 else dcg(rows, k, discounts, base) / most


# precision


def precision_at(rows, k=None, threshold=1, denominator="k"):
    retrieved = len(shown(rows, k))
    total = relevant(rows, threshold)
    of = {
        "k": retrieved if k is None else k,
        "retrieved": retrieved,
        "min": total if k is None else min(k, total),
    }[denominator]
    return 0.0 if of == 0 else len(hits(rows, k, threshold)) / of


def recall_at(rows, k=None, threshold=1):
    total = relevant(rows, threshold)
    return None if total == 0 else len(hits(rows, k, threshold)) / total


def f1_at(rows, k=None, threshold=1):
    total = relevant(rows, threshold)
    size = len(shown(rows)) if k is None else k
    return None if total == 0 else 2 * len(hits(rows, k, threshold)) / (size + total)


def hit_at(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    return 1.0 if hits(rows, k, threshold) else 0.0


def r_precision(rows, threshold=1):
    total = relevant(rows, threshold)
    return None if total == 0 else len(hits(rows, total, threshold)) / total


def ap(rows, k=None, threshold=1, denominator="min"):
    total = relevant(rows, threshold)
    if total == 0:
        return None
    found = hits(rows, k, threshold)
    of = {
        "min": total if k is None else min(k, total),
        "R": total,
        "found": len(found),
        "k": len(shown(rows)) if k is None else k,
    }[denominator]
    precisions = [sum(1 for other in found if other <= pos) / pos for pos in found]
    return 0.0 if of == 0 else fsum(precisions) / of


def bpref(rows, threshold=1):
    total = relevant(rows, threshold)
    if total == 0:
        return None
    bad = sum(1 for rel in judged(rows) if rel < threshold)
    terms = []
    for pos in hits(rows, None, threshold):
        above = sum(1 for rel, p in shown(rows, pos) if rel is not None and rel < threshold)
        terms.append(1 - min(above, total) / min(total, bad) if above else 1)
    return fsum(terms) / total


def judged_at(rows, k=None):
    size = len(shown(rows)) if k is None else k
    return 0.0 if size == 0 else len(judged(shown(rows, k))) / size


# micro: rows are (rel, pos, query)


def micro_precision_at(rows, k=None, threshold=1):
    pairs, size = [(rel, pos) for rel, pos, _ in rows], micro_size(rows, k)
    return 0.0 if size == 0 else len(hits(pairs, k, threshold)) / size


def micro_recall_at(rows, k=None, threshold=1):
    return recall_at([(rel, pos) for rel, pos, _ in rows], k, threshold)


def micro_f1_at(rows, k=None, threshold=1):
    pairs, size = [(rel, pos) for rel, pos, _ in rows], micro_size(rows, k)
    total = relevant(pairs, threshold)
    return None if total == 0 else 2 * len(hits(pairs, k, threshold)) / (size + total)


def micro_size(rows, k):
    if k is None:
        return len(shown([(rel, pos) for rel, pos, _ in rows]))
    return k * len({query for _, _, query in rows})


# cascade


def rr(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    found = hits(rows, k, threshold)
    return 1 / found[0] if found else 0.0


def arhr(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    return fsum(1 / pos for pos in hits(rows, k, threshold))


def err(rows, k=None, max_rel=None, p=1):
    if not any(rel > 0 for rel in judged(rows)):
        return None
    total, looking = 0.0, 1.0
    for pos, rel in sorted((pos, rel) for rel, pos in shown(rows, k) if rel is not None):
        stop = (2 ** max(rel, 0) - 1) / 2**max_rel
        total += looking * stop * p ** (pos - 1) / pos
        looking *= 1 - stop
    return total


def rbp(rows, k=None, p=None, threshold=1, max_rel=None):
    total = 0.0
    for rel, pos in shown(rows, k):
        if rel is not None:
            gain = max(rel, 0) / max_rel if max_rel is not None else float(rel >= threshold)
            total += (1 - p) * p ** (pos - 1) * gain
    return total


def rbp_residual(rows, k=None, p=None):
    return 1 - fsum((1 - p) * p ** (pos - 1) for rel, pos in shown(rows, k) if rel is not None)


# order


def pairs(rows, k):
    """Pairs (grade above, grade below) of judged items that were shown, where the grades differ."""
    grades = [rel for pos, rel in sorted((p, rel) for rel, p in shown(rows, k) if rel is not None)]
    return [(upper, lower) for upper, lower in combinations(grades, 2) if upper != lower]


def kendall_tau_distance(rows, k=None, normalized=False):
    wrong = sum(1.0 for upper, lower in pairs(rows, k) if upper < lower)
    if not normalized:
        return wrong
    return wrong / len(pairs(rows, k)) if pairs(rows, k) else None


def kendall_tau_b(rows, k=None):
    different = pairs(rows, k)
    if not different:
        return None
    n = len([rel for rel, _ in shown(rows, k) if rel is not None])
    balance = sum(1 if upper > lower else -1 for upper, lower in different)
    return balance / sqrt(len(different) * n * (n - 1) / 2)


# two rankings: rows are (reference, pos)


def tau_ap(rows, k=None):
    """Yilmaz et al. 2008, equation 4: C(i) counts what is above i in both."""
    both = [row for row in rows if None not in row and (k is None or max(row) <= k)]
    order = [reference for reference, _ in sorted(both, key=lambda row: row[1])]
    if len(order) < 2:
        return None
    shares = [sum(1 for x in order[:i] if x < order[i]) / i for i in range(1, len(order))]
    return 2 / (len(order) - 1) * fsum(shares) - 1


def rbo(rows, k=None, p=None, bound="ext"):
    """Webber et al. 2010: equations 32, and for the bounds 1 over lists prolonged item by item."""
    rankings = [
        {position: i for i, row in enumerate(rows) if (position := row[side]) is not None}
        for side in (0, 1)
    ]
    rankings = [{d: i for d, i in ranking.items() if k is None or d <= k} for ranking in rankings]
    if not all(rankings):
        return None
    short, long = sorted(rankings, key=max)
    s, n = max(short), max(long)

    def x(d):
        return len({i for r, i in short.items() if r <= d} & {i for r, i in long.items() if r <= d})

    def weight(d):
        return (1 - p) / p * p**d

    if bound == "ext":
        return (
            fsum(x(d) / d * weight(d) for d in range(1, n + 1))
            + fsum(x(s) * (d - s) / (s * d) * weight(d) for d in range(s + 1, n + 1))
            + ((x(n) - x(s)) / n + x(s) / s) * p**n
        )
    depths = range(1, n + 2 + int(-40 / log(p)))
    least = fsum(x(min(d, n)) / d * weight(d) for d in depths)
    if bound == "min":
        return least
    # Each ranking beyond its end shows what the other has; in common, but never more than all.
    more = [min(d, x(min(d, n)) + max(d - s, 0) + max(d - n, 0)) for d in depths]
    most = fsum(found / d * weight(d) for found, d in zip(more, depths, strict=True))
    return most if bound == "max" else most - least


# rating: rows are (rel, score)


def rmse(rows):
    errors = [rel - score for rel, score in rows if rel is not None and score is not None]
    return sqrt(fsum(e * e for e in errors) / len(errors)) if errors else None


def mae(rows):
    errors = [rel - score for rel, score in rows if rel is not None and score is not None]
    return fsum(abs(e) for e in errors) / len(errors) if errors else None


# lists and scores


def from_list(rels, ideal=None):
    """Rows of one list of grades in rank order; `ideal` holds the grades of all judged items."""
    rows = [(rel, pos) for pos, rel in enumerate(rels, 1)]
    if ideal is not None:
        unseen = [rel for rel in ideal if rel is not None]
        for rel in judged(rows):
            unseen.remove(rel)
        rows += [(rel, None) for rel in unseen]
    return rows


def placed(ordered, unseen):
    return from_list([rel for rel, _, _ in ordered]) + [(rel, None) for rel, _, _ in unseen]


def ranked(rows):
    """Rows (rel, pos): score descending, then item descending as text bytes."""
    seen = [row for row in rows if row[1] is not None]
    unseen = [row for row in rows if row[1] is None]
    ordered = sorted(seen, key=lambda row: (row[1], str(row[2]).encode()), reverse=True)
    return placed(ordered, unseen)


def orders(rows):
    """Every order that the scores allow: each run of equal scores in all its permutations."""
    seen = sorted((row for row in rows if row[1] is not None), key=lambda row: -row[1])
    unseen = [row for row in rows if row[1] is None]
    tied = [list(permutations(run)) for _, run in groupby(seen, key=lambda row: row[1])]
    for choice in product(*tied):
        yield placed([row for run in choice for row in run], unseen)


def by_score(metric, rows, ties="item", **options):
    """The metric of a scored ranking; ties='expected': its mean over all orders of tied items."""
    if ties == "item":
        return metric(ranked(rows), **options)
    values = [metric(order, **options) for order in orders(rows)]
    return None if None in values else fsum(values) / len(values)
