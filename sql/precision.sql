-- Precision and recall: how many of the items shown are relevant, and how many of the relevant ones are shown. Load common.sql,
-- then packed.sql first.
--
-- An item is relevant if rel >= threshold, and a hit if it also has pos <= k. R is the number of relevant items, shown or not.
--
--   precision_at(rel, pos, k)         hits / k; without k, hits / items shown
--   recall_at(rel, pos, k)            hits / R
--   f1_at(rel, pos, k)                2 * hits / (k + R), the harmonic mean of both
--   hit_at(rel, pos, k)               1 if hits > 0, else 0
--   all_rel_at(rel, pos, k)           1 if hits = R, else 0
--   r_precision(rel, pos)             hits with k = R, / R
--   ap(rel, pos, k)                   the sum over the hits of (hits up to it) / pos, / min(k, R)
--   interpolated_precision(rel, pos)  the mean over r in 0, 0.1, ..., 1 of the highest precision where recall is at least r
--   set_ap(rel, pos)                  precision_at(rel, pos) * recall_at(rel, pos)
--   infap(rel, pos)                   the sum over the hits of the precision that a sample of judgments lets expect, / R
--   bpref(rel, pos)                   the sum over the hits of 1 - min(n, R) / min(N, R), / R, with N items judged and not relevant,
--                                     n of them above the hit
--   judged_at(rel, pos, k)            items with a grade and pos <= k, / k
--   num_ret(rel, pos)                 items shown
--   num_rel(rel, pos)                 R
--   num_rel_ret(rel, pos, k)          hits
--   false_answer(rel, pos)            1 if something is shown, else 0; only where R = 0
--   false_abstention(rel, pos)        1 if nothing is shown, else 0; only where R > 0
--   forbidden_at(rel, pos, k)         1 if an item has rel < 0 and pos <= k, else 0
--   micro_precision_at(rel, pos, k)   of all rankings: the sum of hits / the sum of k
--   micro_recall_at(rel, pos, k)      of all rankings: the sum of hits / the sum of R
--   micro_f1_at(rel, pos, k)          of all rankings: 2 * the sum of hits / the sum of k + R
--
-- What is divided by R is NULL if nothing is relevant. list_ap(rels, k) has the grades in rank order, and
-- ap_by_score(rel, score, item, k) ranks by score. hr, hit_rate, hits_at, success, p_at, precision_k, map_at,
-- average_precision, mean_average_precision and ndcg_at only say what to write, as mrr does.

-- What the hits are divided by.
CREATE OR REPLACE MACRO rankql_denominator(relevant, retrieved, k, denominator) AS CASE rankql_text(denominator)
    WHEN 'k' THEN rankql_size(k, retrieved)
    WHEN 'retrieved' THEN CAST(retrieved AS DOUBLE)
    WHEN 'min' THEN least(rankql_size(k, retrieved), relevant)
    ELSE rankql_refuse('denominator must be ''k'', ''retrieved'' or ''min'', not ' || rankql_text(denominator)) END;

-- hits / denominator. If the denominator is 0 there are no hits, so 1 does as well. nullif() would write it out twice.
CREATE OR REPLACE MACRO rankql_precision(hits, relevant, retrieved, k, denominator) AS
    coalesce(hits / greatest(rankql_denominator(relevant, retrieved, k, denominator), 1), 0);

-- The harmonic mean of precision, with this denominator, and recall.
CREATE OR REPLACE MACRO rankql_f1(hits, relevant, retrieved, k, denominator) AS
    2 * hits / CASE WHEN relevant > 0 THEN rankql_denominator(relevant, retrieved, k, denominator) + relevant END;

CREATE OR REPLACE MACRO rankql_recall(rel, pos, k, threshold) AS
    count(rankql_hit_pos(rel, pos, k, threshold)) / nullif(rankql_relevant(rel, threshold), 0);

CREATE OR REPLACE MACRO precision_at(rel, pos, k := NULL, threshold := 1, denominator := 'k') AS
    rankql_precision(rankql_hit_count(rel, pos, k, threshold), rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k),
                     k, denominator);
COMMENT ON MACRO precision_at IS 'Precision: the relevant items in the first k positions, divided by k.';

CREATE OR REPLACE MACRO recall_at(rel, pos, k := NULL, threshold := 1) AS
    rankql_hit_count(rel, pos, k, threshold) / nullif(rankql_relevant_count(rel, threshold), 0);
COMMENT ON MACRO recall_at IS 'Recall: the share of the relevant items that are in the first k positions.';

CREATE OR REPLACE MACRO f1_at(rel, pos, k := NULL, threshold := 1, denominator := 'k') AS
    rankql_f1(rankql_hit_count(rel, pos, k, threshold), rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k),
              k, denominator);
COMMENT ON MACRO f1_at IS 'F1: the harmonic mean of precision and recall in the first k positions.';

CREATE OR REPLACE MACRO hit_at(rel, pos, k := NULL, threshold := 1) AS
    least(rankql_hit_count(rel, pos, k, threshold), 1) * CASE WHEN rankql_relevant_count(rel, threshold) > 0 THEN 1.0::DOUBLE END;
COMMENT ON MACRO hit_at IS 'Hit rate of one ranking: 1 if a relevant item is in the first k positions, else 0.';

CREATE OR REPLACE MACRO all_rel_at(rel, pos, k := NULL, threshold := 1) AS
    CAST(rankql_hit_count(rel, pos, k, threshold) = nullif(rankql_relevant_count(rel, threshold), 0) AS DOUBLE);
COMMENT ON MACRO all_rel_at IS 'All relevant: 1 if every relevant item is in the first k positions, else 0.';

-- Only say what to write, as mrr does.
CREATE OR REPLACE MACRO hr(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hr is the mean of hit_at over the queries: use avg(hit_at(...)), with hit_at(rel, pos, k) by query');
CREATE OR REPLACE MACRO hit_rate(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hit_rate is the mean of hit_at over the queries: use avg(hit_at(...)), with hit_at(rel, pos, k) by query');
CREATE OR REPLACE MACRO hits_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('hits_at is hit_at here: use hit_at(rel, pos, k)');
CREATE OR REPLACE MACRO success(rel, pos, k := NULL, threshold := 1) AS rankql_fail('success is hit_at here: use hit_at(rel, pos, k)');
CREATE OR REPLACE MACRO p_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('p_at is precision_at here: use precision_at(rel, pos, k)');
CREATE OR REPLACE MACRO precision_k(rel, pos, k := NULL, threshold := 1) AS rankql_fail('precision_k is precision_at here: use precision_at(rel, pos, k)');
CREATE OR REPLACE MACRO map_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('map_at is the mean of ap over the queries: use avg(ap(...)), with ap(rel, pos, k) by query');
CREATE OR REPLACE MACRO average_precision(rel, pos, k := NULL, threshold := 1) AS rankql_fail('average_precision is ap here: use ap(rel, pos, k)');
CREATE OR REPLACE MACRO mean_average_precision(rel, pos, k := NULL, threshold := 1) AS rankql_fail('mean_average_precision is the mean of ap over the queries: use avg(ap(...)), with ap(rel, pos, k) by query');
CREATE OR REPLACE MACRO ndcg_at(rel, pos, k := NULL, threshold := 1) AS rankql_fail('ndcg_at is ndcg here: use ndcg(rel, pos, k)');

CREATE OR REPLACE MACRO r_precision(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(list_transform([{
        'hits': list(rankql_pos(pos, NULL)) FILTER (WHERE rankql_hit_pos(rel, pos, NULL, threshold) > 0),
        'relevant': rankql_relevant(rel, threshold)}], lambda x_:
            coalesce(len(list_filter(x_['hits'], lambda p: p <= x_['relevant'])), 0)
            / CASE WHEN x_['relevant'] > 0 THEN x_['relevant'] END)[1], pos, NULL), k, 'r_precision');
COMMENT ON MACRO r_precision IS 'R-precision: precision in the first R positions, where R is the number of relevant items.';


-- Average and interpolated precision.

-- The sum of the precisions at the hits, divided by the denominator. NULL without relevant items.
CREATE OR REPLACE MACRO rankql_ap(precisions, hits, relevant, retrieved, k, denominator) AS
    coalesce(precisions, 0) / CASE WHEN rankql_text(denominator) NOT IN ('min', 'R', 'found', 'k')
         THEN rankql_refuse('denominator must be ''min'', ''R'', ''found'' or ''k'', not ' || rankql_text(denominator))
         WHEN rankql_checked(relevant, rankql_cutoff(k)) > 0
         THEN greatest(CASE rankql_text(denominator)
        WHEN 'found' THEN CAST(hits AS DOUBLE)
        WHEN 'k' THEN rankql_size(k, retrieved)
        ELSE least(CASE rankql_text(denominator) WHEN 'min' THEN rankql_cutoff(k) ELSE 9007199254740992::DOUBLE END, relevant)
    END, 1) END;

-- The sum of the precisions at the hits, in order: the i-th is at positions[i].
CREATE OR REPLACE MACRO rankql_precisions(positions) AS list_sum(list_transform(positions, lambda p, i: i / CAST(p AS DOUBLE)));

-- The recalls of interpolated precision: the one given, or 0, 0.1, ..., 1.
CREATE OR REPLACE MACRO rankql_recalls(recall) AS
    CASE WHEN recall IS NULL THEN list_transform(range(0, 11), lambda tenth: tenth / 10)
         ELSE [rankql_argument(recall, rankql_option(recall) BETWEEN 0 AND 1, 'recall', ' must lie between 0 and 1')] END;

-- The mean over the recalls of the highest precision at a hit with at least this recall. recall * R is rounded up, but a fraction
-- below 0.1 down, as in trec_eval 9; or to the nearest, as in trec_eval 10.
CREATE OR REPLACE MACRO rankql_interpolated(positions, relevant, recalls, rounding) AS
    list_transform([{'positions': list_sort(positions, 'ASC', 'NULLS LAST'), 'relevant': relevant, 'recalls': recalls,
        'shift': CASE rankql_text(rounding) WHEN 'up' THEN 0.9::DOUBLE WHEN 'nearest' THEN 0.5::DOUBLE
            ELSE rankql_refuse('rounding must be ''up'' or ''nearest'', not ' || rankql_text(rounding)) END}], lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN list_avg(list_transform(x_['recalls'], lambda recall_: coalesce(list_max(
            list_transform(x_['positions'], lambda p, i:
                CASE WHEN i >= floor(recall_ * x_['relevant'] + x_['shift']) THEN i / CAST(p AS DOUBLE) END)), 0))) END)[1];

CREATE OR REPLACE MACRO ap(rel, pos, k := NULL, threshold := 1, denominator := 'min') AS
    rankql_at_most_one(rankql_ap(
        CASE WHEN rankql_in_bits(k) THEN rankql_bit_precisions(rankql_packed_hits(rel, pos, k, threshold), k)
             ELSE rankql_precisions(list_sort(list(rankql_counted_pos(pos, k))
                 FILTER (WHERE rankql_unchecked(rel) >= rankql_option(threshold) AND rankql_counted_pos(pos, k) > 0), 'ASC', 'NULLS LAST'))
                 + 0 * rankql_packed_hits(rel, pos, k, threshold) END,
        count(rankql_counted_pos(pos, k)) FILTER (WHERE rankql_unchecked(rel) >= rankql_option(threshold)),
        rankql_relevant_count(rel, threshold), rankql_retrieved(pos, k), k, denominator));
COMMENT ON MACRO ap IS 'Average precision: the sum of the precision at each hit in the first k, over min(k, R).';

CREATE OR REPLACE MACRO interpolated_precision(rel, pos, recall := NULL, threshold := 1, rounding := 'up') AS
    rankql_one_ranking(rankql_interpolated(
        list(rankql_pos(pos, NULL)) FILTER (WHERE rankql_hit_pos(rel, pos, NULL, threshold) > 0),
        rankql_relevant(rel, threshold), rankql_recalls(recall), rounding), pos, NULL);
COMMENT ON MACRO interpolated_precision IS 'Interpolated precision: the highest precision at any position with at least this recall.';

CREATE OR REPLACE MACRO set_ap(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(precision_at(rel, pos, NULL, threshold) * recall_at(rel, pos, NULL, threshold), k, 'set_ap');
COMMENT ON MACRO set_ap IS 'Set AP: precision times recall over all retrieved items.';


-- Incomplete judgments.

-- An item for rankql_infap. A negative grade is in the sample, but not judged.
CREATE OR REPLACE MACRO rankql_sampled(rel, pos, threshold) AS {
    'pos': CAST(pos AS DOUBLE),
    'hits': coalesce(rankql_hit(rel, threshold), 0::DOUBLE),
    'judged': CASE WHEN rankql_hit(rel, threshold) = 1 OR rankql_grade(rel) >= 0 THEN 1::DOUBLE ELSE 0::DOUBLE END,
    'pool': CASE WHEN rel IS NULL THEN 0::DOUBLE ELSE 1::DOUBLE END,
    'total': 0::DOUBLE};

-- The sum over the hits of the precision that is expected there: of the items above, those in the sample are assumed to be
-- relevant as often as the judged ones, smoothed by 0.00001 as in trec_eval.
CREATE OR REPLACE MACRO rankql_inferred(pool, judged, hits, pos) AS
    (1 + pool * (hits + 0.00001::DOUBLE) / (judged + 0.00002::DOUBLE)) / pos;

CREATE OR REPLACE MACRO rankql_infap(items, relevant) AS
    list_reduce(list_concat([rankql_sampled(NULL::DOUBLE, 0, 1)], items), lambda a_, b_: {
        'pos': b_['pos'],
        'hits': a_['hits'] + b_['hits'],
        'judged': a_['judged'] + b_['judged'],
        'pool': a_['pool'] + b_['pool'],
        'total': a_['total'] + b_['hits'] * rankql_inferred(a_['pool'], a_['judged'], a_['hits'], b_['pos'])}).total
    / CASE WHEN relevant > 0 THEN relevant END;

-- The value of a relevant item in bpref with n judged non-relevant items above it.
CREATE OR REPLACE MACRO rankql_preferred(n, relevant, nonrelevant) AS
    1 - least(CAST(n AS DOUBLE), relevant) / greatest(least(relevant, nonrelevant), 1);

-- bpref from the judged items in rank order, 1 or 0. The j-th relevant, at i, has i - j others above it.
CREATE OR REPLACE MACRO rankql_bpref(hits, relevant, nonrelevant) AS
    list_transform([{'nonrelevant': nonrelevant, 'relevant': relevant}], lambda judged_: CASE WHEN judged_['relevant'] > 0 THEN
        coalesce(list_sum(list_transform(
            rankql_ones(hits), lambda i, j: rankql_preferred(i - j, judged_['relevant'], judged_['nonrelevant']))), 0)
        / judged_['relevant'] END)[1];

CREATE OR REPLACE MACRO rankql_nonrelevant(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_hit(rel, threshold) = 0) AS DOUBLE);

CREATE OR REPLACE MACRO infap(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_infap(
        list_sort(list(rankql_sampled(rel, rankql_pos(pos, NULL), threshold)) FILTER (WHERE rankql_pos(pos, NULL) > 0),
                  'ASC', 'NULLS LAST'), rankql_relevant(rel, threshold)), pos, NULL), k, 'infap');
COMMENT ON MACRO infap IS 'Inferred AP: average precision, estimated if only a sample of the pool is judged.';

CREATE OR REPLACE MACRO bpref(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_bpref(
        list_transform(list_sort(list({'pos': rankql_pos(pos, NULL), 'hit': rankql_hit(rel, threshold)})
                           FILTER (WHERE rankql_pos(pos, NULL) + rankql_hit(rel, threshold) IS NOT NULL),
                       'ASC', 'NULLS LAST'), lambda x_: x_['hit']),
        rankql_relevant(rel, threshold), rankql_nonrelevant(rel, threshold)), pos, NULL), k, 'bpref');
COMMENT ON MACRO bpref IS 'Binary preference: how few judged non-relevant items are above the relevant ones.';


-- Counts, and items that should not be shown.

-- 1 if something is shown, else 0, for a judged ranking of which nothing is relevant.
CREATE OR REPLACE MACRO rankql_false_answer(shown, relevant, judged) AS
    CASE WHEN shown IS NOT NULL AND relevant = 0 AND judged > 0 THEN CAST(shown > 0 AS DOUBLE) END;

-- 1 if nothing is shown, else 0, for a ranking of which something is relevant.
CREATE OR REPLACE MACRO rankql_false_abstention(shown, relevant) AS
    CASE WHEN shown IS NOT NULL AND relevant > 0 THEN CAST(shown = 0 AS DOUBLE) END;

-- Success, where the relevant items are those with a grade below 0.
CREATE OR REPLACE MACRO rankql_forbidden(rel) AS CAST(rankql_grade(rel) < 0 AS TINYINT);

CREATE OR REPLACE MACRO judged_at(rel, pos, k := NULL) AS
    rankql_one_ranking(rankql_precision(
        count(rankql_checked(rankql_pos(pos, k), rankql_grade(rel))), NULL, rankql_retrieved(pos, k), k, 'k'), pos, k);
COMMENT ON MACRO judged_at IS 'Judged share: the judged items in the first k positions, divided by k.';

CREATE OR REPLACE MACRO num_ret(rel, pos) AS
    rankql_one_ranking(CAST(count(rankql_checked(rankql_pos(pos, NULL), coalesce(rankql_grade(rel), 0))) AS DOUBLE), pos, NULL);
COMMENT ON MACRO num_ret IS 'The number of retrieved items.';

CREATE OR REPLACE MACRO num_rel(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_relevant(rel, threshold), pos, NULL), k, 'num_rel');
COMMENT ON MACRO num_rel IS 'The number of relevant items, retrieved or not.';

CREATE OR REPLACE MACRO num_rel_ret(rel, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(CAST(count(rankql_hit_pos(rel, pos, k, threshold)) AS DOUBLE), pos, k);
COMMENT ON MACRO num_rel_ret IS 'The number of relevant items in the first k positions.';

CREATE OR REPLACE MACRO false_answer(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_false_answer(
        count(rankql_pos(pos, NULL)), rankql_relevant(rel, threshold), count(rel)), pos, NULL), k, 'false_answer');
COMMENT ON MACRO false_answer IS 'False answer: 1 if something is shown although nothing is relevant, else 0.';

CREATE OR REPLACE MACRO false_abstention(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_false_abstention(
        count(rankql_pos(pos, NULL)), rankql_relevant(rel, threshold)), pos, NULL), k, 'false_abstention');
COMMENT ON MACRO false_abstention IS 'False abstention: 1 if nothing is shown although something is relevant, else 0.';

CREATE OR REPLACE MACRO forbidden_at(rel, pos, k := NULL) AS hit_at(rankql_forbidden(rel), pos, k);
COMMENT ON MACRO forbidden_at IS 'Forbidden: 1 if an item with a grade below 0 is in the first k positions, else 0.';


-- All rankings together.

CREATE OR REPLACE MACRO rankql_rankings(query) AS count(DISTINCT query) + CAST(count(*) > count(query) AS BIGINT);

-- The number of positions in all rankings: k for each.
CREATE OR REPLACE MACRO rankql_slots(pos, k, query) AS
    CASE WHEN k IS NULL THEN CAST(count(pos) AS DOUBLE)
         WHEN typeof(any_value(query)) = '"NULL"' AND count(*) > 0
         THEN rankql_refuse('query must be given with k: the column that distinguishes the rankings')
         WHEN count(rankql_pos(pos, k)) > rankql_cutoff(k) * rankql_rankings(query)
         THEN rankql_refuse('query must identify one ranking, but has too few values for so many items: '
                    || rankql_rankings(query))
         ELSE rankql_cutoff(k) * rankql_rankings(query)
    END;

-- The sum over all rankings of min(k, R), without k of min(retrieved, R).
CREATE OR REPLACE MACRO rankql_hits_wanted(rel, pos, k, threshold, query) AS
    CASE WHEN rankql_slots(pos, k, query) >= 0
         THEN coalesce(list_sum(list_transform(
                map_entries(histogram(rankql_key(query)) FILTER (WHERE rankql_hit(rel, threshold) = 1)),
                lambda relevant: least(CAST(relevant.value AS DOUBLE), rankql_size(k, coalesce(map_extract_value(
                    histogram(rankql_key(query)) FILTER (WHERE pos IS NOT NULL), relevant.key), 0))))), 0)
    END;

-- The sum over all rankings of the denominator of precision.
CREATE OR REPLACE MACRO rankql_denominators(rel, pos, k, threshold, query, denominator) AS CASE rankql_text(denominator)
    WHEN 'k' THEN rankql_slots(pos, k, query)
    WHEN 'retrieved' THEN CAST(count(rankql_pos(pos, k)) AS DOUBLE)
    WHEN 'min' THEN rankql_hits_wanted(rel, pos, k, threshold, query)
    ELSE rankql_refuse('denominator must be ''k'', ''retrieved'' or ''min'', not ' || rankql_text(denominator)) END;

-- 0. A column there is that of the queries, whose place is after the threshold. In a struct, a column has the alias of its field.
CREATE OR REPLACE MACRO rankql_one_threshold(threshold) AS coalesce(max(CASE WHEN alias({'a': threshold}) = 'struct_pack(a)'
    THEN rankql_refuse('threshold must be one number, not a column. Name the argument: query := or threshold :=') END), 0);

CREATE OR REPLACE MACRO micro_precision_at(
    rel, pos, k := NULL, threshold := 1, query := NULL, denominator := 'k'
) AS
    coalesce(count(rankql_hit_pos(rel, pos, k, threshold))
             / greatest(rankql_denominators(rel, pos, k, threshold, query, denominator), 1), 0) + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_precision_at IS 'Micro precision: the hits of all rankings, divided by k times the number of rankings.';

-- `query` changes nothing: it may stand here as in micro_precision_at.
CREATE OR REPLACE MACRO micro_recall_at(rel, pos, k := NULL, threshold := 1, query := NULL) AS
    rankql_recall(rel, pos, k, threshold) + rankql_one_k(k) + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_recall_at IS 'Micro recall: the share of the relevant items of all rankings in their first k positions.';

CREATE OR REPLACE MACRO micro_f1_at(rel, pos, k := NULL, threshold := 1, query := NULL, denominator := 'k') AS
    CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        2 * count(rankql_hit_pos(rel, pos, k, threshold))
        / (rankql_denominators(rel, pos, k, threshold, query, denominator) + rankql_relevant(rel, threshold)) END
    + rankql_one_threshold(threshold);
COMMENT ON MACRO micro_f1_at IS 'Micro F1: the harmonic mean of micro precision and micro recall.';


-- What is counted in a list, from rankql_arguments: the hits, R, and the items within k.
CREATE OR REPLACE MACRO rankql_list_counts(arguments, threshold) AS list_transform(arguments, lambda x_: {
    'hits': rankql_list_relevant(x_['rels'][:x_['end']], threshold),
    'relevant': rankql_list_relevant(rankql_judged(x_), threshold),
    'retrieved': len(x_['rels'][:x_['end']])});

-- The same with the positions of the hits.
CREATE OR REPLACE MACRO rankql_list_places(arguments, threshold) AS list_transform(arguments, lambda x_: {
    'hits': rankql_hit_positions(x_['rels'][:x_['end']], threshold),
    'relevant': rankql_list_relevant(rankql_judged(x_), threshold),
    'retrieved': len(x_['rels'][:x_['end']])});

CREATE OR REPLACE MACRO rankql_list_ap(arguments, k, threshold, denominator) AS
    list_transform(rankql_list_places(arguments, threshold), lambda x_: CASE WHEN x_['retrieved'] IS NOT NULL THEN rankql_ap(
        rankql_precisions(x_['hits']), len(x_['hits']), x_['relevant'], x_['retrieved'], k, denominator) END)[1];

CREATE OR REPLACE MACRO rankql_list_interpolated(arguments, recall, threshold, rounding) AS
    list_transform(rankql_list_places(arguments, threshold), lambda x_:
        rankql_interpolated(x_['hits'], x_['relevant'], rankql_recalls(recall), rounding))[1];

CREATE OR REPLACE MACRO rankql_list_infap(arguments, threshold) AS
    list_transform(arguments, lambda x_: rankql_infap(
        list_transform(x_['rels'], lambda grade, i: rankql_sampled(grade, i, threshold)),
        rankql_list_relevant(rankql_judged(x_), threshold)))[1];

CREATE OR REPLACE MACRO rankql_list_bpref(arguments, threshold) AS
    list_transform(list_transform(arguments, lambda x_: {
        'hits': list_filter(rankql_hits(x_['rels'], threshold), lambda hit: hit IS NOT NULL),
        'relevant': rankql_list_relevant(rankql_judged(x_), threshold), 'judged': list_count(rankql_judged(x_))}), lambda x_:
            rankql_bpref(x_['hits'], x_['relevant'], x_['judged'] - x_['relevant']))[1];

-- The number of grades below 0.
CREATE OR REPLACE MACRO rankql_list_forbidden(grades) AS len(list_filter(grades, lambda grade: grade < 0));

CREATE OR REPLACE MACRO list_precision_at(rels, k := NULL, threshold := 1, denominator := 'k', ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_: CASE WHEN x_['hits'] IS NOT NULL THEN
        rankql_precision(x_['hits'], x_['relevant'], x_['retrieved'], k, denominator) END)[1];
COMMENT ON MACRO list_precision_at IS 'precision_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_recall_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        x_['hits'] / nullif(x_['relevant'], 0))[1];
COMMENT ON MACRO list_recall_at IS 'recall_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_f1_at(rels, k := NULL, threshold := 1, denominator := 'k', ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        rankql_f1(x_['hits'], x_['relevant'], x_['retrieved'], k, denominator))[1];
COMMENT ON MACRO list_f1_at IS 'f1_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_hit_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN CAST(x_['hits'] > 0 AS DOUBLE) END)[1];
COMMENT ON MACRO list_hit_at IS 'hit_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_all_rel_at(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, ideal, k), threshold), lambda x_:
        CASE WHEN x_['relevant'] > 0 THEN CAST(x_['hits'] = x_['relevant'] AS DOUBLE) END)[1];
COMMENT ON MACRO list_all_rel_at IS 'all_rel_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_r_precision(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: {
        'rels': x_['rels'], 'relevant': rankql_list_relevant(rankql_judged(x_), threshold)}), lambda x_:
            rankql_list_relevant(x_['rels'][:CAST(x_['relevant'] AS BIGINT)], threshold)
            / CASE WHEN x_['relevant'] > 0 THEN x_['relevant'] END)[1], k, 'list_r_precision');
COMMENT ON MACRO list_r_precision IS 'r_precision over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_ap(rels, k := NULL, threshold := 1, denominator := 'min', ideal := NULL) AS
    rankql_list_ap(rankql_arguments(rels, ideal, k), k, threshold, denominator);
COMMENT ON MACRO list_ap IS 'ap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_interpolated_precision(rels, recall := NULL, threshold := 1, rounding := 'up', ideal := NULL) AS
    rankql_list_interpolated(rankql_arguments(rels, ideal, NULL), recall, threshold, rounding);
COMMENT ON MACRO list_interpolated_precision IS 'interpolated_precision over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_set_ap(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_list_counts(rankql_arguments(rels, ideal, NULL), threshold), lambda x_:
        rankql_precision(x_['hits'], NULL, x_['retrieved'], NULL, 'k') * (x_['hits'] / nullif(x_['relevant'], 0)))[1], k, 'list_set_ap');
COMMENT ON MACRO list_set_ap IS 'set_ap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_infap(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(rankql_list_infap(rankql_arguments(rels, ideal, NULL), threshold), k, 'list_infap');
COMMENT ON MACRO list_infap IS 'infap over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_bpref(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(rankql_list_bpref(rankql_arguments(rels, ideal, NULL, every := true), threshold), k, 'list_bpref');
COMMENT ON MACRO list_bpref IS 'bpref over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_judged_at(rels, k := NULL) AS
    list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k), 'size': rankql_size(k, NULL)}], lambda x_:
        list_count(x_['rels'][:x_['end']])
        / CASE WHEN x_['rels'] IS NOT NULL THEN greatest(coalesce(x_['size'], CAST(len(x_['rels']) AS DOUBLE)), 1) END)[1];
COMMENT ON MACRO list_judged_at IS 'judged_at over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_ret(rels) AS
    CAST(len(rankql_grades(rels)) AS DOUBLE);
COMMENT ON MACRO list_num_ret IS 'num_ret over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_rel(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_:
        rankql_list_relevant(rankql_judged(x_), threshold))[1], k, 'list_num_rel');
COMMENT ON MACRO list_num_rel IS 'num_rel over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_num_rel_ret(rels, k := NULL, threshold := 1) AS
    list_transform(rankql_list_counts(rankql_arguments(rels, NULL, k), threshold), lambda x_: x_['hits'])[1];
COMMENT ON MACRO list_num_rel_ret IS 'num_rel_ret over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_false_answer(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: rankql_false_answer(
        len(x_['rels']), rankql_list_relevant(rankql_judged(x_), threshold), list_count(rankql_judged(x_))))[1], k, 'list_false_answer');
COMMENT ON MACRO list_false_answer IS 'false_answer over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_false_abstention(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_no_cutoff(list_transform(rankql_arguments(rels, ideal, NULL), lambda x_: rankql_false_abstention(
        len(x_['rels']), rankql_list_relevant(rankql_judged(x_), threshold)))[1], k, 'list_false_abstention');
COMMENT ON MACRO list_false_abstention IS 'false_abstention over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_forbidden_at(rels, k := NULL, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_:
        CAST(rankql_list_forbidden(x_['rels'][:x_['end']]) > 0 AS DOUBLE)
        / CASE WHEN rankql_list_forbidden(rankql_judged(x_)) > 0 THEN 1 END)[1];
COMMENT ON MACRO list_forbidden_at IS 'forbidden_at over a list of grades in rank order.';


-- Hits in the top k by score; the expected number with ties 'expected'.
CREATE OR REPLACE MACRO rankql_hits_by_score(rel, score, item, k, threshold, ties) AS
    rankql_sum(rankql_top(rankql_by_score(rankql_hit(rel, threshold), score, item, ties), k));

CREATE OR REPLACE MACRO rankql_retrieved_by_score(score, k) AS
    least(rankql_cutoff(k), CAST(count(rankql_score(score)) AS DOUBLE));

-- The chance that all r hits of each tied group of m are among its s places within k: the product of (s - i) / (m - i).
CREATE OR REPLACE MACRO rankql_expected_all(hit, score, k) AS
    list_reduce(list_concat([1.0::DOUBLE], flatten(list_transform(rankql_tied_hits(hit, score), lambda tied_:
        list_transform(range(0, CAST(tied_['r'] AS BIGINT)), lambda i:
            greatest(least(rankql_cutoff(k) - tied_['lo'] + 1, tied_['m']) - i, 0) / (tied_['m'] - i))))), lambda a, b: a * b);

-- The positions of a tied group within the cutoff.
CREATE OR REPLACE MACRO rankql_positions(tied, k) AS
    range(tied['lo'], CAST(least(CAST(tied['lo'] + tied['m'] - 1 AS DOUBLE), rankql_cutoff(k)) AS BIGINT) + 1);

-- The expected sum of precisions over all orders of tied items. The t-th place of a group of m items at lo, r of them hits
-- and `above` hits before it, adds r/m * (above + 1 + (t - 1) * (r - 1) / (m - 1)) / position.
CREATE OR REPLACE MACRO rankql_expected_precisions(hit, score, k) AS
    list_reduce(
        list_concat([{'hits': 0::DOUBLE, 'one': 0::DOUBLE, 'more': 0::DOUBLE, 'total': 0::DOUBLE}], list_transform(
            list_filter(rankql_tied_hits(hit, score), lambda tied_: tied_['r'] > 0),
            lambda tied_: {
                'hits': tied_['r'],
                'one': tied_['r'] / tied_['m'] * rankql_sum(list_transform(
                    rankql_positions(tied_, k), lambda i: 1 / CAST(i AS DOUBLE))),
                'more': tied_['r'] / tied_['m'] * (tied_['r'] - 1) / greatest(tied_['m'] - 1, 1) * rankql_sum(list_transform(
                    rankql_positions(tied_, k), lambda i: (i - tied_['lo']) / CAST(i AS DOUBLE))),
                'total': 0::DOUBLE})),
        lambda a_, b_: {'hits': a_['hits'] + b_['hits'], 'one': 0::DOUBLE, 'more': 0::DOUBLE,
                      'total': a_['total'] + (a_['hits'] + 1) * b_['one'] + b_['more']}).total;

-- The expected bpref over all orders of tied items: 0 to n of the n non-relevant items of its group are above a relevant
-- item, with equal probability.
CREATE OR REPLACE MACRO rankql_expected_bpref(hit, score, relevant, nonrelevant) AS
    CASE WHEN relevant > 0 THEN list_reduce(
        list_concat([{'nonrelevant': 0::DOUBLE, 'relevant': 0::DOUBLE, 'bpref': 0::DOUBLE}], list_transform(
            rankql_tied_hits(hit, score),
            lambda tied_: {'nonrelevant': CAST(tied_['n'] AS DOUBLE), 'relevant': CAST(tied_['r'] AS DOUBLE), 'bpref': 0::DOUBLE})),
        lambda a_, b_: {
            'nonrelevant': a_['nonrelevant'] + b_['nonrelevant'],
            'relevant': 0::DOUBLE,
            'bpref': a_['bpref'] + CASE WHEN b_['relevant'] > 0 THEN b_['relevant'] * list_avg(list_transform(
                range(0, CAST(b_['nonrelevant'] AS BIGINT) + 1),
                lambda u: rankql_preferred(a_['nonrelevant'] + u, relevant, nonrelevant))) ELSE 0 END
        }).bpref / relevant END;

CREATE OR REPLACE MACRO precision_at_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'k', ties := 'item'
) AS
    rankql_precision(rankql_hits_by_score(rel, score, item, k, threshold, ties), rankql_relevant(rel, threshold),
                     rankql_retrieved_by_score(score, k), k, denominator);
COMMENT ON MACRO precision_at_by_score IS 'precision_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO recall_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_hits_by_score(rel, score, item, k, threshold, ties) / nullif(rankql_relevant(rel, threshold), 0);
COMMENT ON MACRO recall_at_by_score IS 'recall_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO f1_at_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'k', ties := 'item'
) AS
    rankql_f1(rankql_hits_by_score(rel, score, item, k, threshold, ties),
              rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)),
              rankql_retrieved_by_score(score, k), k, denominator);
COMMENT ON MACRO f1_at_by_score IS 'f1_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO hit_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN CASE WHEN rankql_expected(ties)
        THEN rankql_walk(list_transform(rankql_top(rankql_first_hit(rankql_hit(rel, threshold), score), k),
                                        lambda stop, i: rankql_step(i, stop, 1)))
        ELSE CAST(rankql_hits_by_score(rel, score, item, k, threshold, ties) > 0 AS DOUBLE) END END;
COMMENT ON MACRO hit_at_by_score IS 'hit_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO all_rel_at_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_expected(ties)
         THEN floor(rankql_recall(rel, CASE WHEN score IS NOT NULL THEN 1 END, NULL, threshold))
              * rankql_expected_all(rankql_hit(rel, threshold), score, k)
         ELSE floor(recall_at_by_score(rel, score, item, k, threshold, ties)) END;
COMMENT ON MACRO all_rel_at_by_score IS 'all_rel_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO r_precision_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(recall_at_by_score(
        rel, score, item, nullif(rankql_relevant(rel, threshold), 0), threshold, ties), k, 'r_precision_by_score');
COMMENT ON MACRO r_precision_by_score IS 'r_precision with a score and an item instead of the position.';

CREATE OR REPLACE MACRO ap_by_score(
    rel, score, item, k := NULL, threshold := 1, denominator := 'min', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) AND rankql_text(denominator) = 'found'
         THEN rankql_fail('ties ''expected'' is not available for ap with denominator ''found''. Use ''item''')
         WHEN rankql_expected(ties)
         THEN rankql_ap(rankql_expected_precisions(rankql_hit(rel, threshold), score, k), NULL,
                        rankql_relevant(rel, threshold), rankql_retrieved_by_score(score, k), k, denominator)
         ELSE rankql_list_ap(rankql_arguments_by_score(rel, score, item, k), k, threshold, denominator)
    END;
COMMENT ON MACRO ap_by_score IS 'ap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO interpolated_precision_by_score(
    rel, score, item, recall := NULL, threshold := 1, rounding := 'up', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties)
         THEN rankql_fail('ties ''expected'' is not available for interpolated_precision. Use ''item''')
         ELSE rankql_list_interpolated(rankql_arguments_by_score(rel, score, item, NULL), recall, threshold, rounding) END;
COMMENT ON MACRO interpolated_precision_by_score IS 'interpolated_precision with a score and an item instead of the position.';

CREATE OR REPLACE MACRO set_ap_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(precision_at_by_score(rel, score, item, NULL, threshold, 'k', ties)
    * recall_at_by_score(rel, score, item, NULL, threshold, ties), k, 'set_ap_by_score');
COMMENT ON MACRO set_ap_by_score IS 'set_ap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO infap_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for infap. Use ''item''')
         ELSE rankql_list_infap(rankql_arguments_by_score(rel, score, item, NULL), threshold) END, k, 'infap_by_score');
COMMENT ON MACRO infap_by_score IS 'infap with a score and an item instead of the position.';

CREATE OR REPLACE MACRO bpref_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties)
         THEN rankql_expected_bpref(rankql_hit(rel, threshold), score,
                                    rankql_relevant(rel, threshold), rankql_nonrelevant(rel, threshold))
         ELSE rankql_list_bpref(rankql_arguments_by_score(rel, score, item, NULL), threshold)
    END, k, 'bpref_by_score');
COMMENT ON MACRO bpref_by_score IS 'bpref with a score and an item instead of the position.';

CREATE OR REPLACE MACRO judged_at_by_score(rel, score, item, k := NULL, ties := 'item') AS
    rankql_precision(rankql_sum(rankql_top(rankql_by_score(
        CAST(rankql_grade(rel) IS NOT NULL AS DOUBLE), score, item, ties), k)), NULL, count(score), k, 'k');
COMMENT ON MACRO judged_at_by_score IS 'judged_at with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_ret_by_score(rel, score, item, ties := 'item') AS rankql_sum(rankql_by_score(
    rankql_checked(1::DOUBLE, coalesce(rankql_grade(rel), 0)), score, item, ties));
COMMENT ON MACRO num_ret_by_score IS 'num_ret with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_rel_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_checked(rankql_relevant(rel, threshold), num_ret_by_score(rel, score, item, ties)), k, 'num_rel_by_score');
COMMENT ON MACRO num_rel_by_score IS 'num_rel with a score and an item instead of the position.';

CREATE OR REPLACE MACRO num_rel_ret_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_hits_by_score(rel, score, item, k, threshold, ties);
COMMENT ON MACRO num_rel_ret_by_score IS 'num_rel_ret with a score and an item instead of the position.';

CREATE OR REPLACE MACRO false_answer_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_false_answer(
        num_ret_by_score(rel, score, item, ties), rankql_relevant(rel, threshold), count(rel)), k, 'false_answer_by_score');
COMMENT ON MACRO false_answer_by_score IS 'false_answer with a score and an item instead of the position.';

CREATE OR REPLACE MACRO false_abstention_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(rankql_false_abstention(
        num_ret_by_score(rel, score, item, ties), rankql_relevant(rel, threshold)), k, 'false_abstention_by_score');
COMMENT ON MACRO false_abstention_by_score IS 'false_abstention with a score and an item instead of the position.';

CREATE OR REPLACE MACRO forbidden_at_by_score(rel, score, item, k := NULL, ties := 'item') AS
    hit_at_by_score(rankql_forbidden(rel), score, item, k, 1, ties);
COMMENT ON MACRO forbidden_at_by_score IS 'forbidden_at with a score and an item instead of the position.';
