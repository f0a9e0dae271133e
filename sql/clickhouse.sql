-- The metrics of one ranking as functions of ClickHouse, each an expression of its aggregates:
--     SELECT user, ndcg(rel, pos, 10) FROM shown GROUP BY user;
-- Run it with `clickhouse-client --queries-file`. Functions are global: if one of these names is taken, nothing is created.
-- `rankql sql --engine clickhouse --prefix my_` writes the file with my_ndcg and so on.
-- After an outer join, ClickHouse fills 0 for what is missing: SET join_use_nulls = 1, or items that are not judged have grade 0.
-- It knows its own functions by a part of rankql_ in them. Arguments are fixed. k NULL is the complete ranking. For another threshold than 1, pass rel >= 2 as rel.

SELECT throwIf(count() > 0, 'rankql: a function of yours has the name of one of these. Drop it, or use rankql sql --engine clickhouse --prefix NAME')
FROM system.functions WHERE position(create_query, 'rankql_') = 0 AND name IN (
    'exp2_gain', 'cg', 'dcg', 'idcg', 'ndcg', 'precision_at', 'recall_at', 'f1_at', 'hit_at', 'all_rel_at', 'r_precision', 'ap',
    'interpolated_precision', 'set_ap', 'infap', 'bpref', 'judged_at', 'num_ret', 'num_rel', 'num_rel_ret', 'false_answer',
    'false_abstention', 'forbidden_at', 'rr', 'arhr',
    'err', 'nerr', 'rbp', 'rbp_residual', 'rmse', 'mse', 'mae');


-- Checks. throwIf takes no text but a constant, so the errors do not name the value.

-- A checked number, or NULL. The product makes an error of text. throwIf is 0, if at all.
CREATE OR REPLACE FUNCTION rankql_rel AS (rel) ->
    toFloat64(rel * 1) + throwIf(ifNull(NOT isFinite(toFloat64(rel * 1)), 0), 'rankql: rel must be a finite number. Of an Enum, pass toInt8(rel)');

-- Of NaN, both sides of <> differ.
CREATE OR REPLACE FUNCTION rankql_not_whole AS (value) ->
    value <> floor(value) OR value < 1 OR value > 9007199254740992;

CREATE OR REPLACE FUNCTION rankql_pos AS (pos) ->
    toFloat64(pos * 1) + throwIf(ifNull(rankql_not_whole(toFloat64(pos * 1)), 0), 
        'rankql: pos must be a whole number from 1. For 0: add 1, or after an outer join SET join_use_nulls = 1');

CREATE OR REPLACE FUNCTION rankql_k AS (k) ->
    ifNull(toFloat64(k * 1), 9007199254740992.) + throwIf(ifNull(rankql_not_whole(toFloat64(k * 1)), 0),
        'rankql: k must be a whole number from 1. Pass NULL for the complete ranking');

CREATE OR REPLACE FUNCTION rankql_p AS (p) ->
    ifNull(toFloat64(p * 1), 0.) + throwIf(NOT ifNull(p * 1 > 0 AND p * 1 < 1, 0), 'rankql: p must lie between 0 and 1');

-- max_rel, where no grade may be above it.
CREATE OR REPLACE FUNCTION rankql_scale AS (rel, max_rel) -> ifNull(toFloat64(max_rel * 1), 0.)
    + throwIf(NOT ifNull(max_rel * 1 > 0 AND isFinite(toFloat64(max_rel * 1)), 0), 'rankql: max_rel must be a finite number above 0')
    + throwIf(ifNull(rankql_rel(rel) > max_rel * 1, 0), 'rankql: rel must not exceed max_rel');

CREATE OR REPLACE FUNCTION rankql_within AS (pos, k) -> rankql_pos(pos) <= rankql_k(k);

-- An error, if it is so that items share a position.
CREATE OR REPLACE FUNCTION rankql_shared AS (is_so) -> throwIf(ifNull(is_so, 0),
    'rankql: several items share a position: if a join repeats an item, keep one row per query and item. If the group holds several queries, add the query to GROUP BY. If items are tied, number positions with row_number()');

-- The value, if no items share a position. A sum, because if() would compute the value several times. k stands outside the
-- aggregates too, so that a column k must be in GROUP BY: it is the same in all rows of a group.
CREATE OR REPLACE FUNCTION rankql_one_ranking AS (value, pos, k) -> value + 0 * rankql_k(k) + rankql_shared(
    countIf(rankql_within(pos, k)) > arrayUniq(groupArrayIf(ifNull(rankql_pos(pos), 0.), rankql_within(pos, k))));

-- Values within 2^-40 of 1 are 1, because sums round.
CREATE OR REPLACE FUNCTION rankql_at_most_one AS (value) -> if(value >= 1 - 9.094947017729282e-13, 1., value)
    + rankql_shared(value > 1 + 9.094947017729282e-13);


-- Parts of metrics.

-- Not isNotNull(), which skips the check where the column cannot be NULL.
CREATE OR REPLACE FUNCTION rankql_judged AS (rel) -> rankql_rel(rel) * 0 = 0;
CREATE OR REPLACE FUNCTION rankql_hit AS (rel) -> rankql_rel(rel) >= 1;
CREATE OR REPLACE FUNCTION rankql_relevant AS (rel) -> countIf(rankql_hit(rel));
CREATE OR REPLACE FUNCTION rankql_hits AS (rel, pos, k) -> countIf(rankql_hit(rel) AND rankql_within(pos, k));
CREATE OR REPLACE FUNCTION rankql_retrieved AS (pos, k) -> countIf(rankql_within(pos, k));
CREATE OR REPLACE FUNCTION rankql_size AS (pos, k) -> if(isNull(k), toFloat64(rankql_retrieved(pos, k)), rankql_k(k));

-- The positions of the hits, in order.
CREATE OR REPLACE FUNCTION rankql_places AS (rel, pos, k) ->
    arraySort(groupArrayIf(ifNull(rankql_pos(pos), 1.), rankql_hit(rel) AND rankql_within(pos, k)));

-- The k highest positive grades, best first.
CREATE OR REPLACE FUNCTION rankql_best AS (rel, k) ->
    arraySlice(arrayReverseSort(groupArrayIf(ifNull(rankql_rel(rel), 0.), rankql_rel(rel) > 0)), 1, toInt64(rankql_k(k)));

CREATE OR REPLACE FUNCTION rankql_ideal AS (rel, k) ->
    arraySum((rankql_x, rankql_i) -> rankql_x / log2(rankql_i + 1), rankql_best(rel, k), arrayEnumerate(rankql_best(rel, k)));

-- The expected utility of a user who walks down pairs of a position and the probability to stop there.
CREATE OR REPLACE FUNCTION rankql_walk AS (pairs) ->
    tupleElement(arrayFold((rankql_a, rankql_x) -> (
        tupleElement(rankql_a, 1) * (1 - tupleElement(rankql_x, 2)),
        tupleElement(rankql_a, 2) + tupleElement(rankql_a, 1) * tupleElement(rankql_x, 2) / tupleElement(rankql_x, 1)), pairs, (1., 0.)), 2);

CREATE OR REPLACE FUNCTION rankql_stop AS (rel, max_rel) ->
    ifNull(exp2(greatest(rankql_rel(rel), 0) - rankql_scale(rel, max_rel)) - exp2(-rankql_scale(rel, max_rel)), 0.);


-- Exponential gain of a grade: ndcg(exp2_gain(rel), pos, 10).
CREATE OR REPLACE FUNCTION exp2_gain AS (rel) -> exp2(rankql_rel(rel)) - 1;

-- Gain.

-- Cumulative gain: the sum of the grades in the first k positions.
CREATE OR REPLACE FUNCTION cg AS (rel, pos, k) ->
    rankql_one_ranking(ifNull(sumIf(rankql_rel(rel), rankql_within(pos, k)), 0.), pos, k);

-- Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.
CREATE OR REPLACE FUNCTION dcg AS (rel, pos, k) ->
    rankql_one_ranking(ifNull(sumIf(rankql_rel(rel) / log2(rankql_pos(pos) + 1), rankql_within(pos, k)), 0.), pos, k);

-- Ideal DCG: the highest DCG that any order of the judged items can reach.
CREATE OR REPLACE FUNCTION idcg AS (rel, pos, k) -> rankql_one_ranking(rankql_ideal(rel, k), pos, k);

-- Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.
CREATE OR REPLACE FUNCTION ndcg AS (rel, pos, k) -> rankql_one_ranking(rankql_at_most_one(
    ifNull(sumIf(rankql_rel(rel) / log2(rankql_pos(pos) + 1), rankql_within(pos, k) AND rankql_rel(rel) > 0), 0.) / nullIf(rankql_ideal(rel, k), 0)), pos, k);

-- Precision and recall.

-- Precision: the relevant items in the first k positions, divided by k.
CREATE OR REPLACE FUNCTION precision_at AS (rel, pos, k) ->
    rankql_one_ranking(rankql_hits(rel, pos, k) / greatest(rankql_size(pos, k), 1.), pos, k);

-- Recall: the share of the relevant items that are in the first k positions.
CREATE OR REPLACE FUNCTION recall_at AS (rel, pos, k) ->
    rankql_one_ranking(rankql_hits(rel, pos, k) / nullIf(rankql_relevant(rel), 0), pos, k);

-- F1: the harmonic mean of precision and recall in the first k positions.
CREATE OR REPLACE FUNCTION f1_at AS (rel, pos, k) -> rankql_one_ranking(
    if(rankql_relevant(rel) > 0, 2 * rankql_hits(rel, pos, k) / (rankql_size(pos, k) + rankql_relevant(rel)), NULL), pos, k);

-- Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.
CREATE OR REPLACE FUNCTION hit_at AS (rel, pos, k) ->
    rankql_one_ranking(if(rankql_relevant(rel) > 0, toFloat64(rankql_hits(rel, pos, k) > 0), NULL), pos, k);

-- All relevant: 1 if every relevant item is in the first k positions, else 0.
CREATE OR REPLACE FUNCTION all_rel_at AS (rel, pos, k) ->
    rankql_one_ranking(if(rankql_relevant(rel) > 0, toFloat64(rankql_hits(rel, pos, k) = rankql_relevant(rel)), NULL), pos, k);

-- R-precision: precision in the first R positions, where R is the number of relevant items.
CREATE OR REPLACE FUNCTION r_precision AS (rel, pos) -> rankql_one_ranking(
    length(arrayFilter((rankql_x, rankql_r) -> rankql_x <= rankql_r, rankql_places(rel, pos, NULL),
                       arrayWithConstant(length(rankql_places(rel, pos, NULL)), rankql_relevant(rel))))
    / nullIf(rankql_relevant(rel), 0), pos, NULL);

-- Average precision: the sum of the precision at each hit in the first k, over min(k, R).
CREATE OR REPLACE FUNCTION ap AS (rel, pos, k) -> rankql_one_ranking(rankql_at_most_one(
    arraySum((rankql_x, rankql_i) -> rankql_i / rankql_x, rankql_places(rel, pos, k), arrayEnumerate(rankql_places(rel, pos, k)))
    / nullIf(least(rankql_k(k), toFloat64(rankql_relevant(rel))), 0)), pos, k);

-- Interpolated precision: the highest precision at any position with at least this recall, or the mean of eleven for NULL.
CREATE OR REPLACE FUNCTION interpolated_precision AS (rel, pos, recall) -> rankql_one_ranking(
    if(throwIf(ifNull(NOT (recall * 1 >= 0 AND recall * 1 <= 1), 0), 'rankql: recall must lie between 0 and 1') = 0 AND rankql_relevant(rel) > 0,
       arrayAvg((rankql_t, rankql_places_, rankql_r) -> ifNull(arrayMax(arrayConcat([0.], arrayMap(
               (rankql_x, rankql_i) -> if(rankql_i >= floor(rankql_t * rankql_r + 0.9), rankql_i / rankql_x, 0.),
               rankql_places_, arrayEnumerate(rankql_places_)))), 0.),
           if(isNull(recall), arrayMap(rankql_x -> rankql_x / 10, range(0, 11)), [ifNull(toFloat64(recall * 1), 0.)]),
           arrayWithConstant(if(isNull(recall), 11, 1), rankql_places(rel, pos, NULL)),
           arrayWithConstant(if(isNull(recall), 11, 1), rankql_relevant(rel))), NULL), pos, NULL);

-- Set AP: precision times recall over all retrieved items.
CREATE OR REPLACE FUNCTION set_ap AS (rel, pos) ->
    rankql_hits(rel, pos, NULL) / greatest(rankql_size(pos, NULL), 1.) * recall_at(rel, pos, NULL);

-- Inferred AP: average precision, estimated if only a sample of the pool is judged.
CREATE OR REPLACE FUNCTION rankql_sample AS (rel, pos) -> arraySort(groupArrayIf(
    (ifNull(rankql_pos(pos), 1.), toFloat64(ifNull(rankql_hit(rel), 0)), toFloat64(ifNull(rankql_rel(rel) >= 0, 0))),
    rankql_judged(rel) AND isNotNull(rankql_pos(pos))));
CREATE OR REPLACE FUNCTION infap AS (rel, pos) -> rankql_one_ranking(
    arraySum((rankql_x, rankql_i, rankql_h, rankql_j) -> tupleElement(rankql_x, 2) * (1 + (rankql_i - 1)
            * (rankql_h - tupleElement(rankql_x, 2) + 0.00001) / (rankql_j - tupleElement(rankql_x, 3) + 0.00002)) / tupleElement(rankql_x, 1),
        rankql_sample(rel, pos), arrayEnumerate(rankql_sample(rel, pos)), arrayCumSum(rankql_x -> tupleElement(rankql_x, 2), rankql_sample(rel, pos)),
        arrayCumSum(rankql_x -> tupleElement(rankql_x, 3), rankql_sample(rel, pos))) / nullIf(rankql_relevant(rel), 0), pos, NULL);

-- Binary preference: how few judged non-relevant items are above the relevant ones.
CREATE OR REPLACE FUNCTION bpref AS (rel, pos) -> rankql_one_ranking(
    arraySum((rankql_x, rankql_n, rankql_r, rankql_others) -> tupleElement(rankql_x, 2)
            * (1 - least(rankql_n, rankql_r) / greatest(least(rankql_r, rankql_others), 1)),
        rankql_sample(rel, pos), arrayCumSum(rankql_x -> 1 - tupleElement(rankql_x, 2), rankql_sample(rel, pos)),
        arrayWithConstant(length(rankql_sample(rel, pos)), toFloat64(rankql_relevant(rel))),
        arrayWithConstant(length(rankql_sample(rel, pos)), toFloat64(countIf(rankql_judged(rel)) - rankql_relevant(rel))))
    / nullIf(rankql_relevant(rel), 0), pos, NULL);

-- Judged share: the judged items in the first k positions, divided by k.
CREATE OR REPLACE FUNCTION judged_at AS (rel, pos, k) ->
    rankql_one_ranking(countIf(rankql_judged(rel) AND rankql_within(pos, k)) / greatest(rankql_size(pos, k), 1.), pos, k);

-- The number of retrieved items.
CREATE OR REPLACE FUNCTION num_ret AS (rel, pos) -> rankql_one_ranking(toFloat64(rankql_retrieved(pos, NULL) + 0 * countIf(rankql_rel(rel) > 0)), pos, NULL);

-- The number of relevant items, retrieved or not.
CREATE OR REPLACE FUNCTION num_rel AS (rel, pos) -> rankql_one_ranking(toFloat64(rankql_relevant(rel)), pos, NULL);

-- The number of relevant items in the first k positions.
CREATE OR REPLACE FUNCTION num_rel_ret AS (rel, pos, k) -> rankql_one_ranking(toFloat64(rankql_hits(rel, pos, k)), pos, k);

-- False answer: 1 if something is shown although nothing is relevant, else 0.
CREATE OR REPLACE FUNCTION false_answer AS (rel, pos) -> rankql_one_ranking(
    if(rankql_relevant(rel) = 0 AND countIf(rankql_judged(rel)) > 0, toFloat64(rankql_retrieved(pos, NULL) > 0), NULL), pos, NULL);

-- False abstention: 1 if nothing is shown although something is relevant, else 0.
CREATE OR REPLACE FUNCTION false_abstention AS (rel, pos) ->
    rankql_one_ranking(if(rankql_relevant(rel) > 0, toFloat64(rankql_retrieved(pos, NULL) = 0), NULL), pos, NULL);

-- Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.
CREATE OR REPLACE FUNCTION forbidden_at AS (rel, pos, k) -> hit_at(rankql_rel(rel) < 0, pos, k);

-- Cascade.

-- Reciprocal rank: 1 / the position of the first relevant item in the first k positions.
CREATE OR REPLACE FUNCTION rr AS (rel, pos, k) -> rankql_one_ranking(if(rankql_relevant(rel) > 0,
    if(rankql_hits(rel, pos, k) > 0, 1 / minIf(rankql_pos(pos), rankql_hit(rel) AND rankql_within(pos, k)), 0.), NULL), pos, k);

-- Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.
CREATE OR REPLACE FUNCTION arhr AS (rel, pos, k) -> rankql_one_ranking(if(rankql_relevant(rel) > 0,
    ifNull(sumIf(1 / rankql_pos(pos), rankql_hit(rel) AND rankql_within(pos, k)), 0.), NULL), pos, k);

-- Expected reciprocal rank of the item where a user stops.
CREATE OR REPLACE FUNCTION err AS (rel, pos, k, max_rel) -> rankql_one_ranking(if(countIf(rankql_rel(rel) > 0) > 0,
    rankql_walk(arraySort(groupArrayIf((ifNull(rankql_pos(pos), 1.), rankql_stop(rel, max_rel)),
                                       rankql_within(pos, k) AND rankql_rel(rel) > 0))), NULL), pos, k);

-- Normalised ERR: err, divided by that of the best order.
CREATE OR REPLACE FUNCTION nerr AS (rel, pos, k, max_rel) -> rankql_at_most_one(err(rel, pos, k, max_rel) / nullIf(rankql_walk(
    arrayMap((rankql_x, rankql_i) -> (toFloat64(rankql_i), rankql_x),
        arraySlice(arrayReverseSort(groupArrayIf(rankql_stop(rel, max_rel), rankql_rel(rel) > 0)), 1, toInt64(rankql_k(k))),
        arrayEnumerate(rankql_best(rel, k)))), 0));

-- Rank-biased precision: the hits, weighted by the probability that a user sees them.
CREATE OR REPLACE FUNCTION rbp AS (rel, pos, k, p) -> rankql_one_ranking(
    rankql_at_most_one((1 - rankql_p(p)) * ifNull(sumIf(pow(rankql_p(p), rankql_pos(pos) - 1), rankql_hit(rel) AND rankql_within(pos, k)), 0.)), pos, k);

-- Residual of RBP: how much it would rise if every unjudged item were relevant.
CREATE OR REPLACE FUNCTION rbp_residual AS (rel, pos, k, p) -> rankql_one_ranking(1 - rankql_at_most_one(
    (1 - rankql_p(p)) * ifNull(sumIf(pow(rankql_p(p), rankql_pos(pos) - 1), rankql_judged(rel) AND rankql_within(pos, k)), 0.)), pos, k);

-- Rating.

CREATE OR REPLACE FUNCTION rankql_error AS (rel, score) -> rankql_rel(rel) - toFloat64(score * 1)
    + throwIf(ifNull(NOT isFinite(toFloat64(score * 1)), 0), 'rankql: score must be a finite number');

-- Root mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE FUNCTION rmse AS (rel, score) -> sqrt(if(countIf(isNotNull(rankql_error(rel, score))) > 0, avg(pow(rankql_error(rel, score), 2)), NULL));

-- Mean squared error of scores against grades. NULL if no row has both.
CREATE OR REPLACE FUNCTION mse AS (rel, score) -> if(countIf(isNotNull(rankql_error(rel, score))) > 0, avg(pow(rankql_error(rel, score), 2)), NULL);

-- Mean absolute error of scores against grades. NULL if no row has both.
CREATE OR REPLACE FUNCTION mae AS (rel, score) -> if(countIf(isNotNull(rankql_error(rel, score))) > 0, avg(abs(rankql_error(rel, score))), NULL);


-- Views keep the text that a function had when they were created: create these again.
SELECT database, name AS view_to_create_again FROM system.tables WHERE position(as_select, 'rankql: ') > 0;
