-- Order: whether better items are above worse ones. Load common.sql first.
--
--   kendall_tau_distance(rel, pos, k)  the pairs with the lower grade above the higher
--   kendall_tau_b(rel, pos, k)         (pairs with the higher grade above - pairs with the lower one above)
--                                      / sqrt(pairs of different grades * all pairs)
--   auc(rel, pos)                      of the pairs of a relevant and another judged item, the share with the relevant one above
--   tau_ap(reference, pos, k)          2 / (n - 1) * the sum over pos from 2 to n of (the items above that are also above in the
--                                      reference) / (pos - 1), - 1
--   rbo(reference, pos, k, p)          (1 - p) * the sum over depths d of p^(d - 1) * (the items that both have in their first d) / d,
--                                      beyond the rankings as it is at their ends
--
-- Items without a grade are left out. list_auc(rels) has the grades in rank order, and auc_by_score(rel, score) ranks by score.

-- The grades in rank order, unjudged ones left out.
CREATE OR REPLACE MACRO rankql_ordered(rel, pos, k) AS
    coalesce(list_transform(list_sort(list({'pos': rankql_pos(pos, k), 'grade': rankql_grade(rel)})
        FILTER (WHERE rankql_pos(pos, k) + rankql_grade(rel) IS NOT NULL), 'ASC', 'NULLS LAST'),
        lambda x_: x_['grade']), []);

-- The number of inversions of a permutation, by merge sort: at each level, sorting a block of 2^(b + 1) places moves items of
-- its right half up by one place for each inversion. A key holds the block, the number, and the half.
CREATE OR REPLACE MACRO rankql_permutation_inversions(places) AS
    list_reduce(
        list_concat([0::BIGINT], range(0, CAST(ceil(log2(greatest(len(places), 1))) AS BIGINT))),
        lambda total, b: total + CAST(
            coalesce(list_sum(list_transform(places, lambda place, i: ((i - 1) >> b) % 2 * i)), 0)
            - coalesce(list_sum(list_transform(
                list_sort(list_transform(places, lambda place, i:
                    (((i - 1) >> (b + 1)) * len(places) + place - 1) * 2 + ((i - 1) >> b) % 2), 'ASC', 'NULLS LAST'),
                lambda key, i: key % 2 * i)), 0) AS BIGINT));

-- The number of pairs with the lower grade above, in a list of grades in rank order.
CREATE OR REPLACE MACRO rankql_inversions(grades) AS
    list_transform([list_transform(
        list_sort(list_transform(grades, lambda grade, i: {'below': -grade, 'place': i}), 'ASC', 'NULLS LAST'),
        lambda x_: x_['place'])], lambda places: rankql_permutation_inversions(places))[1];

-- The number of pairs of different grades.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    (len(grades) * (len(grades) - 1) - coalesce(list_sum(list_transform(
        map_values(list_aggregate(grades, 'histogram')), lambda n: n * (n - 1))), 0)) / 2;

-- The number of inversions, or its share of the pairs of different grades.
CREATE OR REPLACE MACRO rankql_distance(grades, normalized) AS
    list_transform([grades], lambda ordered: CASE WHEN rankql_flag(normalized, 'normalized')
         THEN rankql_inversions(ordered) / nullif(rankql_pairs(ordered), 0)
         ELSE CAST(rankql_inversions(ordered) AS DOUBLE) END)[1];

-- Concordant minus discordant pairs, divided by the geometric mean of the pairs of different grades and all pairs.
CREATE OR REPLACE MACRO rankql_tau_b(grades) AS
    list_transform([grades], lambda ordered: list_transform([{'items': len(ordered), 'pairs': rankql_pairs(ordered)}], lambda x_:
        CASE WHEN x_['pairs'] > 0 THEN (x_['pairs'] - 2 * rankql_inversions(ordered))
             / sqrt(x_['pairs'] * (x_['items'] * (x_['items'] - 1) / 2)) END)[1])[1];

-- The share of pairs of a relevant and another judged item with the relevant one above, from the hits, 1 or 0, in rank order.
-- The j-th relevant item, at i, has i - j others above it.
CREATE OR REPLACE MACRO rankql_auc(hits) AS
    list_transform(list_transform([hits], lambda hits: {'hits': hits, 'relevant': list_sum(hits)}), lambda x_:
        1 - (list_sum(rankql_ones(x_['hits'])) - x_['relevant'] * (x_['relevant'] + 1) / 2)
            / nullif(x_['relevant'] * (len(x_['hits']) - x_['relevant']), 0))[1];

CREATE OR REPLACE MACRO kendall_tau_distance(rel, pos, k := NULL, normalized := false) AS
    rankql_one_ranking(list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_distance(x, normalized))),
                       pos, k);
COMMENT ON MACRO kendall_tau_distance IS 'Kendall''s distance: the number of pairs in which the lower grade is above the higher.';

CREATE OR REPLACE MACRO kendall_tau_b(rel, pos, k := NULL) AS
    rankql_one_ranking(list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_tau_b(x))), pos, k);
COMMENT ON MACRO kendall_tau_b IS 'Kendall''s tau-b between grades and positions: 1 for the best order, if no grades are equal.';

CREATE OR REPLACE MACRO auc(rel, pos, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_one_ranking(rankql_auc(
        list_transform(list_sort(list({'pos': rankql_pos(pos, NULL), 'hit': rankql_hit(rel, threshold)})
                           FILTER (WHERE rankql_pos(pos, NULL) + rankql_hit(rel, threshold) IS NOT NULL),
                       'ASC', 'NULLS LAST'), lambda x_: x_['hit'])), pos, NULL), k, 'auc');
COMMENT ON MACRO auc IS 'Area under the ROC curve: the share of pairs with the relevant item above the other one.';


-- Two rankings of the same items, `reference` and `pos`. NULL: the item is not in the ranking.

-- Whether the ranking has an item. Two items at one position are an error.
CREATE OR REPLACE MACRO rankql_once(positions, name) AS
    CASE WHEN list_unique(positions) < len(positions)
         THEN rankql_fail(name || ' must not be the same for two items of a group: ties have no order')
         ELSE len(positions) > 0 END;

CREATE OR REPLACE MACRO rankql_both(reference, pos, k) AS
    rankql_once(list(rankql_pos(reference, k, name := 'reference'))
                    FILTER (WHERE rankql_pos(reference, k, name := 'reference') IS NOT NULL), 'reference')
    AND rankql_once(list(rankql_pos(pos, k)) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL), 'pos');

-- For the items of both rankings in the order of the reference: their places v by `pos`.
CREATE OR REPLACE MACRO rankql_permutation(reference, pos, k) AS
    list_grade_up(list_transform(list_sort(
        list({'pos': rankql_pos(pos, k), 'reference': rankql_pos(reference, k, name := 'reference')})
            FILTER (WHERE rankql_pos(pos, k) + rankql_pos(reference, k, name := 'reference') IS NOT NULL),
        'ASC', 'NULLS LAST'), lambda x_: x_['reference']), 'ASC', 'NULLS LAST');

-- The sum of C / (v - 1) over the places v from 2, where C smaller places are before v: all before it minus the larger
-- ones, by which v moves up at the levels of a merge sort. Each x holds its block, v - 1 and its half.
CREATE OR REPLACE MACRO rankql_agreements(places) AS
    list_sum(list_transform(range(0, CAST(ceil(log2(len(places))) AS BIGINT) + 1), lambda b:
        list_sum(list_transform(
            list_sort(list_transform(places, lambda v, t:
                (((t - 1) >> b) * len(places) + v - 1) * 2 + ((2 * t - 1) >> b) % 2), 'ASC', 'NULLS LAST'),
            lambda x, j: CASE WHEN x // 2 % len(places) > 0 THEN
                CAST((j - 1) * (x % 2 - x // 2 // len(places) % 2) AS DOUBLE) / (x // 2 % len(places)) END))));

-- The sum over the first n depths d of p^(d - 1) * (1 - p) times the share of the d items that both rankings have.
-- `depths` are the depths from which an item is shared. Weights below 1e-18 are left out.
CREATE OR REPLACE MACRO rankql_overlap(depths, n, p) AS
    (1 - p) / p * coalesce(list_sum(list_transform(
        list_sort(list_concat(
            list_transform(depths, lambda depth: 2 * CAST(depth AS BIGINT)),
            list_transform(range(CAST(list_min(depths) AS BIGINT),
                                 CAST(least(n, ceil(-41.5 / ln(p))) AS BIGINT) + 1),
                           lambda d: 2 * d + 1)), 'ASC', 'NULLS LAST'),
        lambda x, j: CASE WHEN x % 2 = 1 THEN
            (j - x // 2 + list_min(depths) - 1) * pow(p, x // 2) / (x // 2) END)), 0);

-- The same for one item shared from the top, over the depths beyond n.
CREATE OR REPLACE MACRO rankql_beyond(n, p) AS
    greatest(0, least(pow(p, n) / (n + 1),
        (p - 1) / p * ln(1 - p) - rankql_overlap([1], n, p)));

-- The weight beyond depth n that is unknown after n items.
CREATE OR REPLACE MACRO rankql_unseen(n, p) AS pow(p, n) - n * rankql_beyond(n, p);

CREATE OR REPLACE MACRO rankql_residual(shared, short, long, p) AS
    rankql_unseen(short, p) + rankql_unseen(long, p) - rankql_unseen(short + long - shared, p);

-- rbo from the depths at which both rankings have an item, and the lengths. Identical rankings are exactly 1.
CREATE OR REPLACE MACRO rankql_rbo(depths, short, long, p, bound) AS
    CASE rankql_text(bound)
        WHEN 'ext' THEN CASE WHEN len(depths) = long AND list_sum(depths) = long * (long + 1) / 2 THEN 1 ELSE
            least(1, list_sum(list_transform([
                {'within': list_filter(depths, lambda depth: depth <= short), 'length': short},
                {'within': list_filter(depths, lambda depth: depth > short), 'length': long}
            ], lambda part_:
                rankql_overlap(part_['within'], part_['length'], p)
                + len(part_['within']) * pow(p, part_['length']) / part_['length']))) END
        WHEN 'min' THEN rankql_overlap(depths, long, p) + len(depths) * rankql_beyond(long, p)
        WHEN 'max' THEN rankql_overlap(depths, long, p) + len(depths) * rankql_beyond(long, p)
                        + rankql_residual(len(depths), short, long, p)
        WHEN 'residual' THEN rankql_residual(len(depths), short, long, p)
        ELSE rankql_fail('bound must be ''ext'', ''min'', ''max'' or ''residual'', not ' || rankql_text(bound))
    END;

CREATE OR REPLACE MACRO tau_ap(reference, pos, k := NULL) AS
    CASE WHEN rankql_both(reference, pos, k) THEN
        list_avg(list_transform([rankql_permutation(reference, pos, k)], lambda places:
            CASE WHEN len(places) > 1
                 THEN 2 / CAST(len(places) - 1 AS DOUBLE) * rankql_agreements(places) - 1 END)) + rankql_one_k(k) END;
COMMENT ON MACRO tau_ap IS 'AP correlation with a reference order: Kendall''s tau with more weight at the top.';

CREATE OR REPLACE MACRO rbo(reference, pos, k := NULL, p := NULL, bound := 'ext') AS
    CASE WHEN rankql_both(reference, pos, k) THEN
        list_avg(list_transform([{
            'p': rankql_patience(p),
            'depths': coalesce(
                list(greatest(rankql_pos(reference, k, name := 'reference'), rankql_pos(pos, k)))
                FILTER (WHERE rankql_pos(reference, k, name := 'reference') + rankql_pos(pos, k) IS NOT NULL), []),
            'short': least(max(rankql_pos(reference, k, name := 'reference')), max(rankql_pos(pos, k))),
            'long': greatest(max(rankql_pos(reference, k, name := 'reference')), max(rankql_pos(pos, k)))
        }], lambda two_: rankql_rbo(two_['depths'], two_['short'], two_['long'], two_['p'], bound))) + rankql_one_k(k) END;
COMMENT ON MACRO rbo IS 'Rank-biased overlap: what two rankings have in common, with more weight at the top.';


-- The grades of a list, unjudged ones left out.
CREATE OR REPLACE MACRO rankql_list_ordered(grades) AS list_filter(grades, lambda grade: grade IS NOT NULL);

CREATE OR REPLACE MACRO list_kendall_tau_distance(rels, k := NULL, normalized := false) AS
    rankql_checked(rankql_distance(rankql_list_ordered(rankql_top(rankql_grades(rels), k)), normalized), len(CAST(rels AS DOUBLE[])));
COMMENT ON MACRO list_kendall_tau_distance IS 'kendall_tau_distance over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_kendall_tau_b(rels, k := NULL) AS
    rankql_tau_b(rankql_list_ordered(rankql_top(rankql_grades(rels), k)));
COMMENT ON MACRO list_kendall_tau_b IS 'kendall_tau_b over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_auc(rels, k := NULL, threshold := 1) AS
    rankql_no_cutoff(rankql_auc(rankql_list_ordered(rankql_hits(rankql_grades(rels), threshold))), k, 'list_auc');
COMMENT ON MACRO list_auc IS 'auc over a list of grades in rank order.';


-- The grades in rank order, or with ties 'expected' in the best and in the worst order of ties, whose mean is that of all.
CREATE OR REPLACE MACRO rankql_orders(rel, score, item, k, ties, metric) AS
    CASE WHEN NOT rankql_expected(ties)
         THEN [rankql_list_ordered(rankql_top(rankql_values(rankql_ranking_by_item(rankql_grade(rel), score, item)), k))]
         WHEN k IS NOT NULL
         THEN rankql_fail('ties ''expected'' is not available for ' || metric || ' with k. Leave k out')
         ELSE [rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, NULL))),
               rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, -rankql_grade(rel))))]
    END;

-- The hits of judged items, ordered by score, then by `tie`.
CREATE OR REPLACE MACRO rankql_judged_hits(rel, score, tie, threshold) AS
    list_filter(rankql_values(rankql_ranking(rankql_hit(rel, threshold), score, tie)), lambda hit: hit IS NOT NULL);

CREATE OR REPLACE MACRO kendall_tau_distance_by_score(
    rel, score, item, k := NULL, normalized := false, ties := 'item'
) AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_distance'),
                            lambda x: rankql_distance(x, normalized)));
COMMENT ON MACRO kendall_tau_distance_by_score IS 'kendall_tau_distance with a score and an item instead of the position.';

CREATE OR REPLACE MACRO kendall_tau_b_by_score(rel, score, item, k := NULL, ties := 'item') AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_b'), lambda x: rankql_tau_b(x)));
COMMENT ON MACRO kendall_tau_b_by_score IS 'kendall_tau_b with a score and an item instead of the position.';

-- A tied pair counts half, whatever `ties`: the mean of the best and of the worst order of ties. `item` is not read.
CREATE OR REPLACE MACRO auc_by_score(rel, score, item := NULL, k := NULL, threshold := 1, ties := 'item') AS
    rankql_no_cutoff(CASE WHEN rankql_expected(ties) IS NOT NULL
         THEN (rankql_auc(rankql_judged_hits(rel, score, rankql_hit(rel, threshold), threshold))
               + rankql_auc(rankql_judged_hits(rel, score, -rankql_hit(rel, threshold), threshold))) / 2 END, k, 'auc_by_score');
COMMENT ON MACRO auc_by_score IS 'auc with a score instead of the position. Ties count half.';
