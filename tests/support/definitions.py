"""Every metric straight from its definition in plain Python: slow, and easy to check by eye.

A ranking is a list of rows (rel, pos). pos None: judged, not retrieved. rel None: not judged.
A scored ranking is a list of rows (rel, score, item). score None: judged, not retrieved.
The property tests compare every engine with this file; cases made by hand and other libraries
check it.
"""

from collections import Counter
from itertools import combinations, groupby, permutations, product
from math import floor, fsum, log, log2, sqrt


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


def precision_size(rows, k, threshold, denominator):
    retrieved = len(shown(rows, k))
    total = relevant(rows, threshold)
    return {
        "k": retrieved if k is None else k,
        "retrieved": retrieved,
        "min": min(retrieved if k is None else k, total),
    }[denominator]


def precision_at(rows, k=None, threshold=1, denominator="k"):
    of = precision_size(rows, k, threshold, denominator)
    return 0.0 if of == 0 else len(hits(rows, k, threshold)) / of


def recall_at(rows, k=None, threshold=1):
    total = relevant(rows, threshold)
    return None if total == 0 else len(hits(rows, k, threshold)) / total


def f1_at(rows, k=None, threshold=1, denominator="k"):
    total = relevant(rows, threshold)
    size = precision_size(rows, k, threshold, denominator)
    return None if total == 0 else 2 * len(hits(rows, k, threshold)) / (size + total)


def hit_at(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    return 1.0 if hits(rows, k, threshold) else 0.0


def all_rel_at(rows, k=None, threshold=1):
    total = relevant(rows, threshold)
    return None if total == 0 else float(len(hits(rows, k, threshold)) == total)


def r_precision(rows, threshold=1):
    total = relevant(rows, threshold)
    return None if total == 0 else len(hits(rows, total, threshold)) / total


def ap(rows, k=None, threshold=1, denominator="min"):
    total = relevant(rows, threshold)
    if total == 0:
        return None
    result = hits(rows, k, threshold)
    of = {
        "min": total if k is None else min(k, total),
        "R": total,
        "found": len(result),
        "k": len(shown(rows)) if k is None else k,
    }[denominator]
    precisions = [sum(1 for other in result if other <= pos) / pos for pos in result]
    return 0.0 if of == 0 else fsum(precisions) / of


def interpolated_precision(rows, recall=None, threshold=1, rounding="up"):
    total = relevant(rows, threshold)
    if total == 0:
        return None
    found = hits(rows, None, threshold)
    precisions = [i / pos for i, pos in enumerate(found, 1)]
    levels = [i / 10 for i in range(11)] if recall is None else [recall]
    return fsum(
        max(
            precisions[max(floor(x * total + (0.9 if rounding == "up" else 0.5)), 1) - 1 :],
            default=0,
        )
        for x in levels
    ) / len(levels)


def set_ap(rows, threshold=1):
    recall = recall_at(rows, None, threshold)
    return None if recall is None else precision_at(rows, None, threshold) * recall


def infap(rows, threshold=1):
    """The loop of trec_eval's m_infap.c."""
    total, value, pool, nonrelevant, found = relevant(rows, threshold), 0.0, 0, 0, 0
    if total == 0:
        return None
    for pos, rel in sorted((p, rel) for rel, p in shown(rows) if rel is not None):
        if rel >= threshold:
            found += 1
            seen = found - 1 + nonrelevant
            if pos == 1:
                value += 1
            else:
                share = (found - 1 + 1e-5) / (seen + 2e-5)
                value += 1 / pos + (pos - 1) / pos * (seen + pool) / (pos - 1) * share
        elif rel >= 0:
            nonrelevant += 1
        else:
            pool += 1
    return value / total


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


def num_ret(rows):
    return float(len(shown(rows)))


def num_rel(rows, threshold=1):
    return float(relevant(rows, threshold))


def num_rel_ret(rows, k=None, threshold=1):
    return float(len(hits(rows, k, threshold)))


def false_answer(rows, threshold=1):
    if relevant(rows, threshold) or not judged(rows):
        return None
    return float(len(shown(rows)) > 0)


def false_abstention(rows, threshold=1):
    return float(len(shown(rows)) == 0) if relevant(rows, threshold) else None


def forbidden_at(rows, k=None):
    """1 if an item with a grade below 0 was shown; None without such a grade."""
    if all(rel >= 0 for rel in judged(rows)):
        return None
    return float(any(rel < 0 for rel in judged(shown(rows, k))))


def judged_at(rows, k=None):
    size = len(shown(rows)) if k is None else k
    return 0.0 if size == 0 else len(judged(shown(rows, k))) / size


# micro: rows are (rel, pos, query)


def micro_precision_at(rows, k=None, threshold=1, denominator="k"):
    pairs, size = micro_size(rows, k, threshold, denominator)
    return 0.0 if size == 0 else len(hits(pairs, k, threshold)) / size


def micro_recall_at(rows, k=None, threshold=1):
    return recall_at([(rel, pos) for rel, pos, _ in rows], k, threshold)


def micro_f1_at(rows, k=None, threshold=1, denominator="k"):
    pairs, size = micro_size(rows, k, threshold, denominator)
    total = relevant(pairs, threshold)
    return None if total == 0 else 2 * len(hits(pairs, k, threshold)) / (size + total)


def micro_size(rows, k, threshold, denominator):
    each = [[(r, p) for r, p, q in rows if q == key] for key in {q for *_, q in rows}]
    size = sum(precision_size(pairs, k, threshold, denominator) for pairs in each)
    return [(rel, pos) for rel, pos, _ in rows], size


# cascade


def rr(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    result = hits(rows, k, threshold)
    return 1 / result[0] if result else 0.0


def arhr(rows, k=None, threshold=1):
    if relevant(rows, threshold) == 0:
        return None
    return fsum(1 / pos for pos in hits(rows, k, threshold))


def err(rows, k=None, max_rel=None, p=1, stop="exp2"):
    if not any(rel > 0 for rel in judged(rows)):
        return None
    total, looking = 0.0, 1.0
    for pos, rel in sorted((pos, rel) for rel, pos in shown(rows, k) if rel is not None):
        chance = rel if stop == "rel" else (2 ** max(rel, 0) - 1) / 2**max_rel
        total += looking * chance * p ** (pos - 1) / pos
        looking *= 1 - chance
    return total


def nerr(rows, k=None, max_rel=None, p=1, stop="exp2", ideal="judged"):
    pool = judged(rows if ideal == "judged" else shown(rows))
    best = [(rel, pos) for pos, rel in enumerate(sorted(pool, reverse=True), 1)]
    most = err(best, k, max_rel, p, stop)
    value = err(rows, k, max_rel, p, stop)
    return None if most is None or value is None else value / most


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


def auc(rows, threshold=1):
    """The share of pairs of a hit and another judged shown item with the hit above."""
    good = hits(rows, None, threshold)
    bad = [pos for rel, pos in shown(rows) if rel is not None and rel < threshold]
    right = [upper < lower for upper, lower in product(good, bad)]
    return sum(right) / len(right) if right else None


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
    most = fsum(result / d * weight(d) for result, d in zip(more, depths, strict=True))
    return most if bound == "max" else most - least


# rating: rows are (rel, score)


def rmse(rows):
    errors = [rel - score for rel, score in rows if rel is not None and score is not None]
    return sqrt(fsum(e * e for e in errors) / len(errors)) if errors else None


def mse(rows):
    errors = [rel - score for rel, score in rows if rel is not None and score is not None]
    return fsum(e * e for e in errors) / len(errors) if errors else None


def mae(rows):
    errors = [rel - score for rel, score in rows if rel is not None and score is not None]
    return fsum(abs(e) for e in errors) / len(errors) if errors else None


# catalogue: rows hold the columns that the metric names


def counts(rows, catalogue):
    """How often each item of the catalogue is shown, never included."""
    shown = Counter(item for (item,) in rows if item is not None)
    return [*shown.values()] + [0] * (
        (len(shown) if catalogue == "shown" else catalogue) - len(shown)
    )


def catalogue_coverage(rows, catalogue):
    return len({item for (item,) in rows} - {None}) / catalogue


def gini(rows, catalogue, norm="n"):
    """Half the mean absolute difference of two items, relative to the mean."""
    x = counts(rows, catalogue)
    n, of = len(x), len(x) if norm == "n" else len(x) - 1
    if sum(x) == 0 or of == 0:
        return None
    return sum(abs(a - b) for a in x for b in x) / (2 * n * sum(x)) * n / of


def shannon_entropy(rows, catalogue="shown", normalized=False):
    x = counts(rows, catalogue)
    if sum(x) == 0 or (normalized and len(x) == 1):
        return None
    bits = fsum(-n / sum(x) * log2(n / sum(x)) for n in x if n)
    return bits / log2(len(x)) if normalized else bits


def mean(values):
    return fsum(values) / len(values) if values else None


def average_popularity(rows, unseen="zero"):
    known = [popularity or 0 for (popularity,) in rows]
    return mean([n for n in known if n or unseen == "zero"])


def novelty(rows, users, unseen="one_user", normalized=False):
    bits = [log2(users / n) if n else None for (n,) in rows]
    if unseen == "one_user":
        bits = [log2(users) if x is None else x for x in bits]
    known = [x for x in bits if x is not None]
    if unseen == "max" and known:
        known += [max(known)] * (len(bits) - len(known))
    if not known or (normalized and users == 1):
        return None
    return mean(known) / log2(users) if normalized else mean(known)


def freshness(rows):
    return mean([shown - created for created, shown in rows if None not in (created, shown)])


def personalisation(rows):
    """Over all pairs of users: the items of one alone, and those of both lists."""
    of = {}
    for user, item in rows:
        if user is not None and item is not None:
            of.setdefault(user, set()).add(item)
    two = list(combinations(of.values(), 2))
    return sum(len(a ^ b) for a, b in two) / sum(len(a) + len(b) for a, b in two) if two else None


def exposure(rows, k=None, attention=None):
    places = [pos for (pos,) in rows if pos is not None and (k is None or pos <= k)]
    return fsum(1 / log2(pos + 1) if attention is None else attention[pos - 1] for pos in places)


def exposure_disparity(rows):
    rows = [(e or 0, m) for e, m in rows if m is not None]
    totals = [sum(side) for side in zip(*rows, strict=True)]
    if not rows or 0 in totals:
        return None
    return fsum(abs(e / totals[0] - m / totals[1]) for e, m in rows) / 2


# diversity: rows hold the columns that the metric names, the last one pos


def of_shown(rows, k):
    """What was shown, in order, without its position."""
    return [
        values
        for *values, _ in sorted(
            (row for row in rows if row[-1] is not None and (k is None or row[-1] <= k)),
            key=lambda row: row[-1],
        )
    ]


def mean_distance(values, distance, missing):
    """The mean over all pairs; where a value is missing, by the rule for it."""
    if missing == "drop":
        values = [value for value in values if value is not None]
    rule = {"different": 1, "same": 0}
    return mean(
        [rule[missing] if None in (a, b) else distance(a, b) for a, b in combinations(values, 2)]
    )


def category_diversity(rows, k=None, missing="drop"):
    return mean_distance([c for (c,) in of_shown(rows, k)], lambda a, b: float(a != b), missing)


def as_set(values):
    return {value for value in values or () if value is not None} or None


def jaccard_diversity(rows, k=None, missing="drop"):
    sets = [as_set(values) for (values,) in of_shown(rows, k)]
    return mean_distance(sets, lambda a, b: 1 - len(a & b) / len(a | b), missing)


def cosine(a, b):
    product = fsum(x * y for x, y in zip(a, b, strict=True))
    return product / sqrt(fsum(x * x for x in a)) / sqrt(fsum(x * x for x in b))


def cosine_diversity(rows, k=None, missing="drop"):
    vectors = [vector for (vector,) in of_shown(rows, k)]
    return mean_distance(vectors, lambda a, b: 1 - cosine(a, b), missing)


def missing_at(rows, k=None):
    values = [value for (value,) in of_shown(rows, k)]
    return mean([float((as_set(v) if isinstance(v, list) else v) is None) for v in values])


def duplicate_share(rows, k=None):
    items = [item for (item,) in of_shown(rows, k)]
    return mean([float(x is not None and x in items[:i]) for i, x in enumerate(items)])


def near_duplicate_share(rows, k=None, similarity=None):
    vectors = [vector for (vector,) in of_shown(rows, k)]
    return mean(
        [
            float(
                v is not None
                and any(cosine(v, w) >= similarity - 1e-12 for w in vectors[:i] if w is not None)
            )
            for i, v in enumerate(vectors)
        ]
    )


def unexpectedness(rows, k=None):
    return mean([float(not baseline) for (baseline,) in of_shown(rows, k)])


def serendipity(rows, k=None, threshold=1):
    return mean(
        [
            float(not baseline and rel is not None and rel >= threshold)
            for rel, baseline in of_shown(rows, k)
        ]
    )


def topics_of(rows):
    return set().union(*(as_set(topics) or () for topics, _ in rows))


def subtopic_recall(rows, k=None):
    result = set().union(*(as_set(topics) or () for (topics,) in of_shown(rows, k)))
    return len(result) / len(topics_of(rows)) if topics_of(rows) else None


def topic_hits(rows, k):
    """Pairs (position, how many above have the subtopic too)."""
    seen = Counter()
    for topics, pos in sorted((row for row in rows if row[1] is not None), key=lambda row: row[1]):
        if k is None or pos <= k:
            yield from ((pos, seen[topic]) for topic in as_set(topics) or ())
            seen.update(as_set(topics) or ())


def alpha_dcg(rows, k=None, alpha=0.5):
    return fsum((1 - alpha) ** c / log2(pos + 1) for pos, c in topic_hits(rows, k))


def alpha_ndcg(rows, k=None, alpha=0.5):
    """The ideal is built item by item, by gain, then by what is taken from those left."""
    left = sorted(sorted(as_set(topics)) for topics, _ in rows if as_set(topics))
    if not left:
        return None
    ideal = []
    while left and (k is None or len(ideal) < k):

        def total(order):
            return alpha_dcg([(topics, pos) for pos, topics in enumerate(order, 1)], alpha=alpha)

        def taken(topics, ideal=ideal, left=left):
            worth = {t: (1 - alpha) ** sum(t in other for other in ideal) for t in topics}
            return fsum(worth[t] * sum(t in other for other in left) for t in topics)

        best = max(round(total([*ideal, topics]) - total(ideal), 11) for topics in left)
        tied = [t for t in left if round(total([*ideal, t]) - total(ideal), 11) == best]
        least = min(round(taken(topics), 11) for topics in tied)
        ideal.append(next(topics for topics in tied if round(taken(topics), 11) == least))
        left.remove(ideal[-1])
    return alpha_dcg(rows, k, alpha) / total(ideal)


def err_ia(rows, k=None, alpha=0.5):
    """Chapelle et al. 2011: ERR for each subtopic, where an item satisfies with chance alpha."""
    each = []
    for topic in topics_of(rows):
        looking, value = 1.0, 0.0
        for topics, pos in sorted((r for r in rows if r[1] is not None), key=lambda row: row[1]):
            if topic in (as_set(topics) or ()) and (k is None or pos <= k):
                value += looking * alpha / pos
                looking *= 1 - alpha
        each.append(value)
    return mean(each)


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
    if metric is auc:
        ties = "expected"
    if ties == "item":
        return metric(ranked(rows), **options)
    values = [metric(order, **options) for order in orders(rows)]
    return None if None in values else fsum(values) / len(values)


def value(name, group, gain=None, query=None, ties="item", **options):
    """The value of a metric, or of its list form or score form, of a group as engines take it."""
    metric = globals()[name.removeprefix("list_").removesuffix("_by_score")]
    gained = exp2_gain if gain else lambda rel: rel
    if name.startswith("list_"):
        if group[0] is None:
            return None
        grades = ([gained(rel) for rel in rels] if rels else rels for rels in group)
        return metric(from_list(*grades), **options)
    if gain:
        group = [(gained(rel), *rest) for rel, *rest in group]
    if name.endswith("_by_score"):
        return by_score(metric, group, ties, **options)
    result = metric(group, **options)
    return result if result is None else float(result)  # some definitions count
