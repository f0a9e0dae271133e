-- The metrics of one ranking as aggregates of Snowflake, in Python:
--     SELECT user, ndcg(rel, pos, 10) FROM shown GROUP BY user;
-- Handlers have no imports, so `rankql sql --engine snowflake` writes their shared code into each. Run what it prints in the
-- schema that shall have the functions. Arguments are fixed, and k NULL is the complete ranking. For another threshold than 1,
-- pass IFF(rel >= 2, 1, 0) as rel. The tests run the handlers, also by Snowpark, but never Snowflake. A state has the judged
-- items of one ranking, 16 bytes each, and its positions within k, 8 bytes each: of 2.7 million items that are both, 64 MB.

-- rankql: shared ranking
import math
from array import array


def fail(message):
    raise ValueError('rankql: ' + message)


def is_whole(value):
    return math.isfinite(value) and value == math.floor(value) and 1 <= value <= 2.0 ** 53


def fail_shared():
    fail('several items share a position: if a join repeats an item, keep one row per query and item. If the group holds several '
         'queries, add the query to GROUP BY. If items are tied, number positions with row_number()')


def at_most_one(value):  # values within 2^-40 of 1 are 1, because sums round
    if value > 1 + 2.0 ** -40:
        fail_shared()
    return 1.0 if value >= 1 - 2.0 ** -40 else value


class Ranking:  # the judged items, and the positions within k
    def __init__(self):
        self.options, self.shown, self.rels, self.places = None, array('d'), array('d'), array('d')

    @property
    def aggregate_state(self):  # a copy, because the host may keep it and go on
        return self.options, self.shown[:], self.rels[:], self.places[:]

    @property
    def n(self):
        return len(self.shown)

    def add_row(self, rel, pos, k, *options):
        if k is not None and not is_whole(k):
            fail(f'k must be a whole number from 1, not {k:g}. Pass NULL for the complete ranking')
        if pos is not None and not is_whole(pos):
            fail(f'pos must be a whole number from 1, not {pos:g}' + ('. Position 1 is the top: add 1, or is the order rel, pos?' if pos == 0 else ''))
        if rel is not None and not math.isfinite(rel):
            fail(f'rel must be a finite number, not {rel:g}')
        if self.options not in (None, (k, *options)):
            fail('k and other options must be the same in all rows of a group')
        self.options = (k, *options)
        if pos is not None and (k is None or pos <= k):
            self.shown.append(pos)
        if rel is not None:
            self.rels.append(rel)
            self.places.append(math.inf if pos is None else pos)

    def merge(self, other):
        options, shown, rels, places = other
        if options is not None and self.options not in (None, options):
            fail('k and other options must be the same in all rows of a group')
        self.options = self.options or options
        self.shown, self.rels, self.places = self.shown + shown, self.rels + rels, self.places + places

    def finish(self):
        if self.n > len(set(self.shown)):
            fail_shared()
        return self.value(*(self.options or (None,)))

    def items(self, k):  # retrieved within k
        end = math.inf if k is None else k
        return [(rel, pos) for rel, pos in zip(self.rels, self.places) if pos <= end and pos < math.inf]

    def hits(self, k):  # their positions, in order
        return sorted(pos for rel, pos in self.items(k) if rel >= 1)

    def relevant(self):
        return sum(rel >= 1 for rel in self.rels)

    def best(self, k):  # the k highest positive grades
        return sorted((rel for rel in self.rels if rel > 0), reverse=True)[:None if k is None else int(k)]


class Cut(Ranking):
    def accumulate(self, rel, pos, k):
        self.add_row(rel, pos, k)


class Complete(Ranking):
    def accumulate(self, rel, pos):
        self.add_row(rel, pos, None)


-- rankql: end

-- rankql: shared cascade
class Stopping(Ranking):
    def accumulate(self, rel, pos, k, max_rel):
        if max_rel is None or not 0 < max_rel < math.inf:
            fail(f'max_rel must be a finite number above 0, not {max_rel}')
        if rel is not None and max_rel < rel < math.inf:
            fail(f'rel must not exceed max_rel: {rel:g} is above {max_rel:g}')
        self.add_row(rel, pos, k, max_rel)

    def walk(self, items):  # (position, grade), in order
        left, total = 1.0, 0.0
        for pos, rel in items:
            stop = 2.0 ** (rel - self.options[1]) - 2.0 ** -self.options[1]
            total += left * stop / pos
            left *= 1 - stop
        return total

    def gain(self, k):
        return self.walk(sorted((pos, rel) for rel, pos in self.items(k) if rel > 0))


class Patient(Ranking):
    def accumulate(self, rel, pos, k, p):
        if p is None or not 0 < p < 1:
            fail(f'p must lie between 0 and 1, not {p}')
        self.add_row(rel, pos, k, p)


-- rankql: end

-- rankql: shared rating
import math


class Errors:  # of scores against grades
    def __init__(self):
        self.n, self.squares, self.total = 0, 0.0, 0.0

    @property
    def aggregate_state(self):
        return self.n, self.squares, self.total

    def accumulate(self, rel, score):
        for name, value in (('rel', rel), ('score', score)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f'rankql: {name} must be a finite number, not {value:g}')
        if rel is not None and score is not None:
            self.merge((1, (rel - score) ** 2, abs(rel - score)))

    def merge(self, other):
        self.n, self.squares, self.total = (a + b for a, b in zip(self.aggregate_state, other))


-- rankql: end

-- Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.
CREATE OR REPLACE FUNCTION exp2_gain(rel FLOAT) RETURNS FLOAT AS $$ POWER(2, rel) - 1 $$;

-- Cumulative gain: the sum of the grades in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION cg(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return math.fsum(rel for rel, pos in self.items(k))
$$;

-- Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.
CREATE OR REPLACE AGGREGATE FUNCTION dcg(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return sum(rel / math.log2(pos + 1) for rel, pos in self.items(k))
$$;

-- Ideal DCG: the highest DCG that any order of the judged items can reach.
CREATE OR REPLACE AGGREGATE FUNCTION idcg(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return sum(rel / math.log2(i + 2) for i, rel in enumerate(self.best(k)))
$$;

-- Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.
CREATE OR REPLACE AGGREGATE FUNCTION ndcg(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        ideal = sum(rel / math.log2(i + 2) for i, rel in enumerate(self.best(k)))
        total = sum(rel / math.log2(pos + 1) for rel, pos in self.items(k) if rel > 0)
        return at_most_one(total / ideal) if ideal else None
$$;

-- Precision: the relevant items in the first k positions, divided by k.
CREATE OR REPLACE AGGREGATE FUNCTION precision_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return len(self.hits(k)) / max(k or self.n, 1)
$$;

-- Recall: the share of the relevant items that are in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION recall_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return len(self.hits(k)) / self.relevant() if self.relevant() else None
$$;

-- F1: the harmonic mean of precision and recall in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION f1_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        relevant = self.relevant()
        return 2 * len(self.hits(k)) / ((k or self.n) + relevant) if relevant else None
$$;

-- Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION hit_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return float(bool(self.hits(k))) if self.relevant() else None
$$;

-- All relevant: 1 if every relevant item is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION all_rel_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return float(len(self.hits(k)) == self.relevant()) if self.relevant() else None
$$;

-- R-precision: precision in the first R positions, where R is the number of relevant items.
CREATE OR REPLACE AGGREGATE FUNCTION r_precision(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        relevant = self.relevant()
        return len(self.hits(relevant)) / relevant if relevant else None
$$;

-- Average precision: the sum of the precision at each hit in the first k, over min(k, R).
CREATE OR REPLACE AGGREGATE FUNCTION ap(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        relevant = self.relevant()
        total = sum(i / pos for i, pos in enumerate(self.hits(k), 1))
        return at_most_one(total / min(k or relevant, relevant)) if relevant else None
$$;

-- Interpolated precision: the highest precision at any position with at least this recall, or the mean of eleven for NULL.
CREATE OR REPLACE AGGREGATE FUNCTION interpolated_precision(rel FLOAT, pos FLOAT, recall FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Ranking):
    def accumulate(self, rel, pos, recall):
        if recall is not None and not 0 <= recall <= 1:
            fail(f'recall must lie between 0 and 1, not {recall}')
        self.add_row(rel, pos, None, recall)

    def value(self, k=None, recall=None):
        relevant, hits = self.relevant(), self.hits(None)
        recalls = [tenth / 10 for tenth in range(11)] if recall is None else [recall]
        if not relevant:
            return None
        values = [
            max([i / pos for i, pos in enumerate(hits, 1) if i >= math.floor(x * relevant + 0.9)], default=0)
            for x in recalls
        ]
        return sum(values) / len(values)
$$;

-- Set AP: precision times recall over all retrieved items.
CREATE OR REPLACE AGGREGATE FUNCTION set_ap(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        hits, relevant = len(self.hits(None)), self.relevant()
        return hits / max(self.n, 1) * hits / relevant if relevant else None
$$;

-- Inferred AP: average precision, estimated if only a sample of the pool is judged.
CREATE OR REPLACE AGGREGATE FUNCTION infap(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        total = found = judged = 0
        for i, (pos, rel) in enumerate(sorted((pos, rel) for rel, pos in self.items(None))):
            if rel >= 1:
                total += (1 + i * (found + 0.00001) / (judged + 0.00002)) / pos
            found += rel >= 1
            judged += rel >= 0
        return total / self.relevant() if self.relevant() else None
$$;

-- Binary preference: how few judged non-relevant items are above the relevant ones.
CREATE OR REPLACE AGGREGATE FUNCTION bpref(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        total, above, relevant = 0, 0, self.relevant()
        others = len(self.rels) - relevant
        for pos, hit in sorted((pos, rel >= 1) for rel, pos in self.items(None)):
            total += 1 - min(above, relevant) / max(min(relevant, others), 1) if hit else 0
            above += not hit
        return total / relevant if relevant else None
$$;

-- Judged share: the judged items in the first k positions, divided by k.
CREATE OR REPLACE AGGREGATE FUNCTION judged_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return len(self.items(k)) / max(k or self.n, 1)
$$;

-- The number of retrieved items.
CREATE OR REPLACE AGGREGATE FUNCTION num_ret(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        return float(self.n)
$$;

-- The number of relevant items, retrieved or not.
CREATE OR REPLACE AGGREGATE FUNCTION num_rel(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        return float(self.relevant())
$$;

-- The number of relevant items in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION num_rel_ret(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return float(len(self.hits(k)))
$$;

-- False answer: 1 if something is shown although nothing is relevant, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION false_answer(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        return float(self.n > 0) if self.rels and not self.relevant() else None
$$;

-- False abstention: 1 if nothing is shown although something is relevant, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION false_abstention(rel FLOAT, pos FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Complete):
    def value(self, k):
        return float(self.n == 0) if self.relevant() else None
$$;

-- Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION forbidden_at(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return float(any(rel < 0 for rel, _ in self.items(k))) if min(self.rels, default=0) < 0 else None
$$;

-- Reciprocal rank: 1 / the position of the first relevant item in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION rr(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        hits = self.hits(k)
        return (1 / hits[0] if hits else 0.0) if self.relevant() else None
$$;

-- Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION arhr(rel FLOAT, pos FLOAT, k FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
class Handler(Cut):
    def value(self, k):
        return sum(1 / pos for pos in self.hits(k)) if self.relevant() else None
$$;

-- Expected reciprocal rank of the item where a user stops.
CREATE OR REPLACE AGGREGATE FUNCTION err(rel FLOAT, pos FLOAT, k FLOAT, max_rel FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
-- rankql: cascade
class Handler(Stopping):
    def value(self, k, max_rel=None):
        return self.gain(k) if any(rel > 0 for rel in self.rels) else None
$$;

-- Normalised ERR: err, divided by that of the best order.
CREATE OR REPLACE AGGREGATE FUNCTION nerr(rel FLOAT, pos FLOAT, k FLOAT, max_rel FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
-- rankql: cascade
class Handler(Stopping):
    def value(self, k, max_rel=None):
        ideal = self.walk(enumerate(self.best(k), 1))
        return at_most_one(self.gain(k) / ideal) if ideal else None
$$;

-- Rank-biased precision: the hits, weighted by the probability that a user sees them.
CREATE OR REPLACE AGGREGATE FUNCTION rbp(rel FLOAT, pos FLOAT, k FLOAT, p FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
-- rankql: cascade
class Handler(Patient):
    def value(self, k, p=None):
        return at_most_one((1 - p) * sum(p ** (pos - 1) for pos in self.hits(k))) if self.rels else 0.0
$$;

-- Residual of RBP: how much it would rise if every unjudged item were relevant.
CREATE OR REPLACE AGGREGATE FUNCTION rbp_residual(rel FLOAT, pos FLOAT, k FLOAT, p FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: ranking
-- rankql: cascade
class Handler(Patient):
    def value(self, k, p=None):
        return 1 - at_most_one((1 - p) * sum(p ** (pos - 1) for rel, pos in self.items(k))) if self.rels else 1.0
$$;

-- Root mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION rmse(rel FLOAT, score FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: rating
class Handler(Errors):
    def finish(self):
        return math.sqrt(self.squares / self.n) if self.n else None
$$;

-- Mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION mse(rel FLOAT, score FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: rating
class Handler(Errors):
    def finish(self):
        return self.squares / self.n if self.n else None
$$;

-- Mean absolute error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION mae(rel FLOAT, score FLOAT)
RETURNS FLOAT LANGUAGE PYTHON RUNTIME_VERSION = '3.11' HANDLER = 'Handler' AS $$
-- rankql: rating
class Handler(Errors):
    def finish(self):
        return self.total / self.n if self.n else None
$$;
