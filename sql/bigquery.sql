-- The metrics of one ranking as aggregates of BigQuery, in JavaScript:
--     SELECT user, dataset.ndcg(rel, pos, 10) FROM shown GROUP BY user;
-- Handlers have no imports, so `rankql sql --engine bigquery --schema NAME` writes their shared code into each, and NAME for
-- `dataset`. Arguments are fixed, and k NULL is the complete ranking. For another threshold than 1, pass IF(rel >= 2, 1, 0) as
-- rel. ZetaSQL checks the statements, and node runs the handlers in tests, but never BigQuery.

-- rankql: shared ranking
function fail(message) {
  throw new Error('rankql: ' + message);
}
const isWhole = (value) => Number.isInteger(value) && value >= 1 && value <= 2 ** 53;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const SHARED = 'several items share a position: if a join repeats an item, keep one row per query and item. If the group holds several '
  + 'queries, add the query to GROUP BY. If items are tied, number positions with row_number()';

function atMostOne(value) {  // values within 2^-40 of 1 are 1, because sums round
  if (value > 1 + 2 ** -40) fail(SHARED);
  return value >= 1 - 2 ** -40 ? 1 : value;
}

// The state: the positions within k, and the judged items, of which those without a position have 0.
export function initialState() {
  return {shown: [], rels: [], places: []};
}

function addRow(s, rel, pos, k) {
  if (k !== null && !isWhole(k)) fail(`k must be a whole number from 1, not ${k}. Pass NULL for the complete ranking`);
  if (pos !== null && !isWhole(pos)) {
    fail(`pos must be a whole number from 1, not ${pos}` + (pos === 0 ? '. Position 1 is the top: add 1, or is the order rel, pos?' : ''));
  }
  if (rel !== null && !Number.isFinite(rel)) fail(`rel must be a finite number, not ${rel}`);
  if (pos !== null && (k === null || pos <= k)) s.shown.push(pos);
  if (rel !== null) {
    s.rels.push(rel);
    s.places.push(pos ?? 0);
  }
}

export function merge(s, other) {
  other.shown.forEach((pos) => s.shown.push(pos));
  other.rels.forEach((rel) => s.rels.push(rel));
  other.places.forEach((pos) => s.places.push(pos));
}

// The items within k, the positions of the hits in order, and the k highest positive grades.
const within = (s, k) => s.rels.map((rel, i) => [rel, s.places[i]]).filter(([rel, pos]) => pos > 0 && pos <= (k ?? 2 ** 53));
const hits = (s, k) => within(s, k).filter(([rel]) => rel >= 1).map(([rel, pos]) => pos).sort((a, b) => a - b);
const relevant = (s) => s.rels.filter((rel) => rel >= 1).length;
const best = (s, k) => s.rels.filter((rel) => rel > 0).sort((a, b) => b - a).slice(0, k ?? 2 ** 53);

function requireOneRanking(s) {
  if (s.shown.length > new Set(s.shown).size) fail(SHARED);
}

-- rankql: end

-- rankql: shared cut
export function aggregate(s, rel, pos, k) {
  addRow(s, rel, pos, k);
}

-- rankql: end

-- rankql: shared complete
export function aggregate(s, rel, pos) {
  addRow(s, rel, pos, null);
}

-- rankql: end

-- rankql: shared stopping
export function aggregate(s, rel, pos, k, maxRel) {
  if (!(maxRel > 0 && maxRel < Infinity)) fail(`max_rel must be a finite number above 0, not ${maxRel}`);
  if (rel !== null && rel > maxRel && rel < Infinity) fail(`rel must not exceed max_rel: ${rel} is above ${maxRel}`);
  addRow(s, rel, pos, k);
}

// The gain of items with grade and position, in order.
function walk(items, maxRel) {
  let left = 1, total = 0;
  for (const [rel, pos] of items) {
    const stop = 2 ** (rel - maxRel) - 2 ** -maxRel;
    total += left * stop / pos;
    left *= 1 - stop;
  }
  return total;
}
const gain = (s, k, maxRel) => walk(within(s, k).filter(([rel]) => rel > 0).sort((a, b) => a[1] - b[1]), maxRel);

-- rankql: end

-- rankql: shared patience
export function aggregate(s, rel, pos, k, p) {
  if (!(p > 0 && p < 1)) fail(`p must lie between 0 and 1, not ${p}`);
  addRow(s, rel, pos, k);
}

-- rankql: end

-- rankql: shared rating
export function initialState() {
  return {n: 0, squares: 0, total: 0};
}

export function aggregate(s, rel, score) {
  for (const [name, value] of [['rel', rel], ['score', score]]) {
    if (value !== null && !Number.isFinite(value)) throw new Error(`rankql: ${name} must be a finite number, not ${value}`);
  }
  if (rel !== null && score !== null) merge(s, {n: 1, squares: (rel - score) ** 2, total: Math.abs(rel - score)});
}

export function merge(s, other) {
  for (const name in s) s[name] += other[name];
}

-- rankql: end

-- Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.
CREATE OR REPLACE FUNCTION dataset.exp2_gain(rel FLOAT64) RETURNS FLOAT64 AS (POW(2, rel) - 1);

-- Cumulative gain: the sum of the grades in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.cg(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return sum(within(s, k).map(([rel]) => rel));
}
""";

-- Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.dcg(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return sum(within(s, k).map(([rel, pos]) => rel / Math.log2(pos + 1)));
}
""";

-- Ideal DCG: the highest DCG that any order of the judged items can reach.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.idcg(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return sum(best(s, k).map((rel, i) => rel / Math.log2(i + 2)));
}
""";

-- Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.ndcg(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  const ideal = sum(best(s, k).map((rel, i) => rel / Math.log2(i + 2)));
  const total = sum(within(s, k).filter(([rel]) => rel > 0).map(([rel, pos]) => rel / Math.log2(pos + 1)));
  return ideal ? atMostOne(total / ideal) : null;
}
""";

-- Precision: the relevant items in the first k positions, divided by k.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.precision_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return hits(s, k).length / Math.max(k ?? s.shown.length, 1);
}
""";

-- Recall: the share of the relevant items that are in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.recall_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? hits(s, k).length / relevant(s) : null;
}
""";

-- F1: the harmonic mean of precision and recall in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.f1_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? 2 * hits(s, k).length / ((k ?? s.shown.length) + relevant(s)) : null;
}
""";

-- Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.hit_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? Number(hits(s, k).length > 0) : null;
}
""";

-- All relevant: 1 if every relevant item is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.all_rel_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? Number(hits(s, k).length === relevant(s)) : null;
}
""";

-- R-precision: precision in the first R positions, where R is the number of relevant items.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.r_precision(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  return relevant(s) ? hits(s, relevant(s)).length / relevant(s) : null;
}
""";

-- Average precision: the sum of the precision at each hit in the first k, over min(k, R).
CREATE OR REPLACE AGGREGATE FUNCTION dataset.ap(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  const total = sum(hits(s, k).map((pos, i) => (i + 1) / pos));
  return relevant(s) ? atMostOne(total / Math.min(k ?? relevant(s), relevant(s))) : null;
}
""";

-- Interpolated precision: the highest precision at any position with at least this recall, or the mean of eleven for NULL.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.interpolated_precision(rel FLOAT64, pos FLOAT64, recall FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
export function aggregate(s, rel, pos, recall) {
  if (recall !== null && !(recall >= 0 && recall <= 1)) fail(`recall must lie between 0 and 1, not ${recall}`);
  addRow(s, rel, pos, null);
}

export function finalize(s, recall) {
  requireOneRanking(s);
  const recalls = recall === null ? Array.from({length: 11}, (_, i) => i / 10) : [recall];
  const places = hits(s, null);
  const value = (x) => Math.max(0, ...places.map((pos, i) => i + 1 >= Math.floor(x * relevant(s) + 0.9) ? (i + 1) / pos : 0));
  return relevant(s) ? sum(recalls.map(value)) / recalls.length : null;
}
""";

-- Set AP: precision times recall over all retrieved items.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.set_ap(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  const found = hits(s, null).length;
  return relevant(s) ? found / Math.max(s.shown.length, 1) * found / relevant(s) : null;
}
""";

-- Inferred AP: average precision, estimated if only a sample of the pool is judged.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.infap(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  let total = 0, found = 0, judged = 0;
  within(s, null).sort((a, b) => a[1] - b[1]).forEach(([rel, pos], i) => {
    if (rel >= 1) total += (1 + i * (found + 0.00001) / (judged + 0.00002)) / pos;
    found += rel >= 1;
    judged += rel >= 0;
  });
  return relevant(s) ? total / relevant(s) : null;
}
""";

-- Binary preference: how few judged non-relevant items are above the relevant ones.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.bpref(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  let total = 0, above = 0;
  const r = relevant(s), others = s.rels.length - r;
  for (const [rel] of within(s, null).sort((a, b) => a[1] - b[1] || a[0] - b[0])) {
    if (rel >= 1) total += 1 - Math.min(above, r) / Math.max(Math.min(r, others), 1);
    else above += 1;
  }
  return r ? total / r : null;
}
""";

-- Judged share: the judged items in the first k positions, divided by k.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.judged_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return within(s, k).length / Math.max(k ?? s.shown.length, 1);
}
""";

-- The number of retrieved items.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.num_ret(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  return s.shown.length;
}
""";

-- The number of relevant items, retrieved or not.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.num_rel(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  return relevant(s);
}
""";

-- The number of relevant items in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.num_rel_ret(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return hits(s, k).length;
}
""";

-- False answer: 1 if something is shown although nothing is relevant, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.false_answer(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  return s.rels.length && !relevant(s) ? Number(s.shown.length > 0) : null;
}
""";

-- False abstention: 1 if nothing is shown although something is relevant, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.false_abstention(rel FLOAT64, pos FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: complete
export function finalize(s) {
  requireOneRanking(s);
  return relevant(s) ? Number(s.shown.length === 0) : null;
}
""";

-- Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.forbidden_at(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return s.rels.some((rel) => rel < 0) ? Number(within(s, k).some(([rel]) => rel < 0)) : null;
}
""";

-- Reciprocal rank: 1 / the position of the first relevant item in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.rr(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? (hits(s, k).length ? 1 / hits(s, k)[0] : 0) : null;
}
""";

-- Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.arhr(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: cut
export function finalize(s, k) {
  requireOneRanking(s);
  return relevant(s) ? sum(hits(s, k).map((pos) => 1 / pos)) : null;
}
""";

-- Expected reciprocal rank of the item where a user stops.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.err(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE, max_rel FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: stopping
export function finalize(s, k, maxRel) {
  requireOneRanking(s);
  return s.rels.some((rel) => rel > 0) ? gain(s, k, maxRel) : null;
}
""";

-- Normalised ERR: err, divided by that of the best order.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.nerr(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE, max_rel FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: stopping
export function finalize(s, k, maxRel) {
  requireOneRanking(s);
  const ideal = walk(best(s, k).map((rel, i) => [rel, i + 1]), maxRel);
  return ideal ? atMostOne(gain(s, k, maxRel) / ideal) : null;
}
""";

-- Rank-biased precision: the hits, weighted by the probability that a user sees them.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.rbp(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE, p FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: patience
export function finalize(s, k, p) {
  requireOneRanking(s);
  return atMostOne((1 - p) * sum(hits(s, k).map((pos) => p ** (pos - 1))));
}
""";

-- Residual of RBP: how much it would rise if every unjudged item were relevant.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.rbp_residual(rel FLOAT64, pos FLOAT64, k FLOAT64 NOT AGGREGATE, p FLOAT64 NOT AGGREGATE)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: ranking
-- rankql: patience
export function finalize(s, k, p) {
  requireOneRanking(s);
  return 1 - atMostOne((1 - p) * sum(within(s, k).map(([rel, pos]) => p ** (pos - 1))));
}
""";

-- Root mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.rmse(rel FLOAT64, score FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: rating
export function finalize(s) {
  return s.n ? Math.sqrt(s.squares / s.n) : null;
}
""";

-- Mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.mse(rel FLOAT64, score FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: rating
export function finalize(s) {
  return s.n ? s.squares / s.n : null;
}
""";

-- Mean absolute error of scores against grades. NULL if no row has both.
CREATE OR REPLACE AGGREGATE FUNCTION dataset.mae(rel FLOAT64, score FLOAT64)
RETURNS FLOAT64 LANGUAGE js AS r"""
-- rankql: rating
export function finalize(s) {
  return s.n ? s.total / s.n : null;
}
""";
