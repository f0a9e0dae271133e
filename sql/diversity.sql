-- Diversity: how different and how unexpected the items of one ranking are, in the first k positions or in all. Means divide
-- by the number of items shown, never by k. Load common.sql first.
--
--   category_diversity(category, pos, k)     pairs of different categories / pairs
--   jaccard_diversity(attributes, pos, k)    the mean over the pairs of 1 - common attributes / attributes of either
--   cosine_diversity(embedding, pos, k)      the mean over the pairs of 1 - cosine
--   missing_at(attribute, pos, k)            items without the attribute / items
--   duplicate_share(item, pos, k)            items that are also above / items
--   near_duplicate_share(embedding, pos, k)  items with a cosine >= similarity to one above / items
--   unexpectedness(baseline, pos, k)         items that the baseline does not show / items
--   serendipity(rel, baseline, pos, k)       relevant items that the baseline does not show / items
--   subtopic_recall(subtopics, pos, k)       different subtopics of the items / all subtopics
--   alpha_dcg(subtopics, pos, k)             the sum over the items and their subtopics of (1 - alpha)^n / log2(pos + 1), where n
--                                            items above have the subtopic
--   alpha_ndcg(subtopics, pos, k)            alpha_dcg / that of the order that takes the best next item each time
--   err_ia(subtopics, pos, k)                alpha * the sum over the items and their subtopics of (1 - alpha)^n / pos, / all subtopics

-- The values shown that are not NULL. Not in FILTER, which would compute them twice.
CREATE OR REPLACE MACRO rankql_known(value, pos, k) AS
    list_filter(coalesce(list(value) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL), []), lambda x: x IS NOT NULL);

CREATE OR REPLACE MACRO rankql_two(n) AS CAST(n AS DOUBLE) * (n - 1) / 2;

-- The mean distance over pairs, from the sum over pairs with two known values. NULL without pairs.
CREATE OR REPLACE MACRO rankql_mean_distance(total, known, shown, missing) AS
    CASE rankql_text(missing)
        WHEN 'drop' THEN total / nullif(rankql_two(known), 0)
        WHEN 'different' THEN (total + rankql_two(shown) - rankql_two(known)) / nullif(rankql_two(shown), 0)
        WHEN 'same' THEN total / nullif(rankql_two(shown), 0)
        ELSE rankql_fail('missing must be ''drop'', ''different'' or ''same'', not ' || rankql_text(missing)) END;

-- The number of pairs of different values.
CREATE OR REPLACE MACRO rankql_unlike_pairs(known) AS
    rankql_two(len(known))
    - coalesce(list_sum(list_transform(map_values(list_aggregate(known, 'histogram')), lambda n: rankql_two(n))), 0);

-- A list of attributes as a set of texts, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_set(attributes, name) AS
    CASE WHEN NOT rankql_is_list(attributes)
         THEN rankql_fail(name || ' must be a list, not ' || typeof(attributes) || '. Pass a list, such as [a, b]')
         WHEN len(list_distinct(rankql_texts(attributes))) > 0
         THEN list_sort(list_distinct(rankql_texts(attributes)), 'ASC', 'NULLS LAST') END;

-- The sum of Jaccard's distance over all pairs of sets. An index is 30 times as fast as a slice, and the filter as
-- list_intersect.
CREATE OR REPLACE MACRO rankql_jaccard(sets) AS
    list_transform([sets], lambda v: coalesce(list_sum(list_transform(v, lambda a, i:
        list_sum(list_transform(range(i + 1, len(v) + 1), lambda j:
            list_transform([len(list_filter(a, lambda x: list_contains(v[j], rankql_exact(x))))], lambda common:
                1 - common / (CAST(len(a) AS DOUBLE) + len(v[j]) - common))[1])))), 0))[1];

-- Spark refuses list_dot_product, as its arrays have other type names.
CREATE OR REPLACE MACRO rankql_squared(vector) AS list_dot_product(vector, vector);

-- A copy as a list: list functions fail on the entries of an array that is NULL. No lambda, because DuckDB 2.0 fails on one
-- in nested aggregates.
CREATE OR REPLACE MACRO rankql_doubles(embedding) AS list_concat(CAST(embedding AS DOUBLE[]), CAST([] AS DOUBLE[]));

-- Whether there is a (valid) vector.
CREATE OR REPLACE MACRO rankql_is_vector(embedding) AS
    CASE WHEN rankql_is_text(embedding) OR typeof(embedding) LIKE '%]%]'
              OR NOT rankql_is_list(embedding)
         THEN rankql_fail('embedding must be a list of numbers, not ' || typeof(embedding))
         WHEN embedding IS NULL THEN false
         WHEN list_count(CAST(embedding AS DOUBLE[])) < len(CAST(embedding AS DOUBLE[]))
         THEN rankql_fail('embedding must hold finite numbers only, not ' || rankql_text(embedding))
         WHEN rankql_squared(rankql_doubles(embedding)) BETWEEN 5e-324 AND 1.7976931348623157e308
         THEN true
         WHEN rankql_squared(rankql_doubles(embedding)) = 0
         THEN rankql_fail('embedding must not be all zeros, which has no direction: make it NULL')
         ELSE rankql_fail('embedding must hold finite numbers only, not ' || rankql_text(embedding)) END;

-- The vectors shown, in order, all of one length. FLOATs are collected as they are, in half the memory.
CREATE OR REPLACE MACRO rankql_vectors(embedding, pos, k) AS
    list_transform([list_transform(coalesce(list_sort(
        list({'pos': rankql_pos(pos, k), 'value': embedding})
            FILTER (WHERE rankql_is_vector(embedding) AND rankql_pos(pos, k) IS NOT NULL),
        'ASC', 'NULLS LAST'), []), lambda x_: CAST(x_['value'] AS DOUBLE[]))], lambda v:
        CASE WHEN list_unique(list_transform(v, lambda a: len(a))) > 1
             THEN rankql_fail('embedding must have one length in a ranking, not '
                        || list_min(list_transform(v, lambda a: len(a))) || ' and '
                        || list_max(list_transform(v, lambda a: len(a))))
             ELSE v END)[1];

-- The sum of the cosine distance over all pairs. The squared sum of n unit vectors is n + twice the cosines.
CREATE OR REPLACE MACRO rankql_cosine(vectors) AS
    list_transform([vectors], lambda v: list_transform([list_transform(v, lambda a: 1 / sqrt(rankql_squared(a)))],
        lambda scale: greatest(0, CAST(len(v) AS DOUBLE) * len(v) - coalesce(list_sum(list_transform(
            range(1, len(v[1]) + 1), lambda d: pow(list_inner_product(scale, list_transform(v, lambda a: a[d])), 2))), 0))
            / 2)[1])[1];

CREATE OR REPLACE MACRO category_diversity(category, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_known(category, pos, k), 'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_unlike_pairs(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO category_diversity IS 'Intra-list diversity by category: the share of pairs of different categories.';

CREATE OR REPLACE MACRO jaccard_diversity(attributes, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_known(rankql_set(attributes, 'attributes'), pos, k),
                         'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_jaccard(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO jaccard_diversity IS 'Intra-list diversity by attributes: the mean Jaccard distance of the pairs.';

CREATE OR REPLACE MACRO cosine_diversity(embedding, pos, k := NULL, missing := 'drop') AS
    rankql_one_ranking(
        list_transform([{'known': rankql_vectors(embedding, pos, k),
                         'shown': count(rankql_pos(pos, k))}],
            lambda x_: rankql_mean_distance(rankql_cosine(x_['known']), len(x_['known']), x_['shown'], missing))[1], pos, k);
COMMENT ON MACRO cosine_diversity IS 'Intra-list diversity by embedding: the mean cosine distance of the pairs.';


-- What is missing, and what is there twice.

-- The number of items shown, NULL if there is none.
CREATE OR REPLACE MACRO rankql_number_shown(pos, k) AS
    nullif(CAST(count(rankql_pos(pos, k)) AS DOUBLE), 0);

-- The number of items with a similar one above. Cosines of equal vectors can round below 1.
CREATE OR REPLACE MACRO rankql_near(vectors, similarity) AS
    list_transform([vectors], lambda v: len(list_filter(v, lambda a, i:
        coalesce(list_max(list_transform(range(1, i), lambda j: list_cosine_similarity(a, v[j]))), -2)
        >= similarity - 1e-12)))[1];

CREATE OR REPLACE MACRO rankql_similarity(similarity) AS
    CASE WHEN similarity IS NULL
         THEN rankql_fail('similarity must be given: the cosine from which two items are duplicates, such as 0.95')
         WHEN rankql_option(similarity) BETWEEN -1 AND 1 THEN rankql_option(similarity)
         ELSE rankql_fail('similarity must lie between -1 and 1, not ' || rankql_text(similarity)) END;

CREATE OR REPLACE MACRO missing_at(attribute, pos, k := NULL) AS
    rankql_one_ranking(
        count(*) FILTER (WHERE rankql_pos(pos, k) IS NOT NULL AND (attribute IS NULL OR (rankql_is_list(attribute)
                               AND CAST(attribute AS VARCHAR) SIMILAR TO '\[(NULL(, NULL)*)?\]')))
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO missing_at IS 'The share of the items shown that lack the attribute.';

CREATE OR REPLACE MACRO duplicate_share(item, pos, k := NULL) AS
    rankql_one_ranking(
        (len(rankql_known(item, pos, k)) - list_unique(rankql_known(item, pos, k))) / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO duplicate_share IS 'The share of the items shown that already appear above.';

CREATE OR REPLACE MACRO near_duplicate_share(embedding, pos, k := NULL, similarity := NULL) AS
    rankql_one_ranking(
        rankql_near(rankql_vectors(embedding, pos, k), rankql_similarity(similarity)) / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO near_duplicate_share IS 'The share of the items shown that are near-duplicates of an item above.';


-- What the baseline does not show.

-- 1 if the baseline shows the item too, else 0.
CREATE OR REPLACE MACRO rankql_expected_item(baseline) AS
    CASE WHEN typeof(baseline) NOT IN ('BOOLEAN', '"NULL"')
         THEN rankql_fail('baseline must be true or false, not ' || typeof(baseline)
                    || '. Pass a condition, such as rank <= 10')
         ELSE CAST(coalesce(CAST(baseline AS BOOLEAN), false) AS DOUBLE) END;

CREATE OR REPLACE MACRO unexpectedness(baseline, pos, k := NULL) AS
    rankql_one_ranking(
        sum((1 - rankql_expected_item(baseline)) * CASE WHEN rankql_pos(pos, k) IS NOT NULL THEN 1 END)
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO unexpectedness IS 'Unexpectedness: the share of the items shown that the baseline does not show.';

CREATE OR REPLACE MACRO serendipity(rel, baseline, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(
        sum((1 - rankql_expected_item(baseline)) * coalesce(rankql_hit(rel, threshold), 0)
            * CASE WHEN rankql_pos(pos, k) IS NOT NULL THEN 1 END)
        / rankql_number_shown(pos, k), pos, k);
COMMENT ON MACRO serendipity IS 'Serendipity: the share of the items shown that are relevant and not in the baseline.';


-- Subtopics.

CREATE OR REPLACE MACRO rankql_all(sets) AS coalesce(list_distinct(flatten(sets)), []);

-- The sets of all items with subtopics.
CREATE OR REPLACE MACRO rankql_sets(subtopics) AS
    list_filter(coalesce(list(rankql_set(subtopics, 'subtopics')), []), lambda x: x IS NOT NULL);

-- The sum of weights over the items of each subtopic; each item counts 1 - alpha of the one before.
CREATE OR REPLACE MACRO rankql_novel(shown, alpha) AS
    coalesce(list_sum(list_transform(rankql_all(list_transform(shown, lambda x_: x_['set'])), lambda topic:
        list_sum(list_transform(list_filter(shown, lambda x_: list_contains(x_['set'], rankql_exact(topic))), lambda x_, c:
            x_['weight'] * pow(1 - alpha, c - 1))))), 0);

-- The items shown, in order, with the weight of the position.
CREATE OR REPLACE MACRO rankql_weighted(subtopics, pos, k, weight) AS
    list_filter(list_sort(
        list({'pos': rankql_pos(pos, k), 'weight': weight, 'set': rankql_set(subtopics, 'subtopics')})
            FILTER (WHERE rankql_pos(pos, k) IS NOT NULL),
        'ASC', 'NULLS LAST'), lambda x_: x_['set'] IS NOT NULL);

-- The probability that an item satisfies a user who looks for one of its subtopics.
CREATE OR REPLACE MACRO rankql_alpha(alpha) AS
    CASE WHEN rankql_option(alpha) BETWEEN 0 AND 1 THEN rankql_option(alpha)
         ELSE rankql_fail('alpha must lie between 0 and 1, not ' || rankql_text(alpha)) END;

-- The gain of an item's topics after those seen.
CREATE OR REPLACE MACRO rankql_topic_gain(topics, seen, alpha) AS
    list_sum(list_transform(topics, lambda topic:
        pow(1 - alpha, len(list_filter(seen, lambda other: other = rankql_exact(topic))))));

-- The greedy ideal: the item with the highest gain at each position. Ties (up to 12 decimals) go to the item that takes least
-- from the others, then to the first by its subtopics.
CREATE OR REPLACE MACRO rankql_greedy(sets, k, alpha) AS
    list_reduce(
        list_transform(range(0, CAST(least(len(sets), rankql_cutoff(k)) AS BIGINT) + 1), lambda t: {
            't': t, 'dcg': 0.0::DOUBLE, 'seen': CAST([] AS VARCHAR[]),
            'left': list_transform(sets, lambda topics, i: {'i': i, 'topics': topics})}),
        lambda a_, b_: list_transform([list_min(list_transform(a_['left'], lambda x_: {
                'loss': -round(rankql_topic_gain(x_['topics'], a_['seen'], alpha), 12),
                'taken': round(list_sum(list_transform(x_['topics'], lambda topic:
                    rankql_topic_gain([topic], a_['seen'], alpha)
                    * len(list_filter(a_['left'], lambda other_: list_contains(other_['topics'], rankql_exact(topic)))))), 12),
                'topics': x_['topics'], 'i': x_['i']}))], lambda best_: {
            't': b_['t'],
            'dcg': a_['dcg'] + rankql_topic_gain(best_['topics'], a_['seen'], alpha) / log2(b_['t'] + 1),
            'seen': list_concat(a_['seen'], best_['topics']),
            'left': list_filter(a_['left'], lambda x_: x_['i'] <> best_['i'])})[1]
    ).dcg;

CREATE OR REPLACE MACRO subtopic_recall(subtopics, pos, k := NULL) AS
    rankql_one_ranking(
        CAST(len(rankql_all(rankql_known(rankql_set(subtopics, 'subtopics'), pos, k))) AS DOUBLE)
        / nullif(len(rankql_all(rankql_sets(subtopics))), 0), pos, k);
COMMENT ON MACRO subtopic_recall IS 'Subtopic recall: the share of the subtopics that the items shown cover.';

CREATE OR REPLACE MACRO alpha_dcg(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        rankql_novel(rankql_weighted(subtopics, pos, k, 1 / log2(rankql_pos(pos, k) + 1)), rankql_alpha(alpha)), pos, k);
COMMENT ON MACRO alpha_dcg IS 'DCG of subtopics: each repetition of a subtopic loses the share alpha of its gain.';

CREATE OR REPLACE MACRO alpha_ndcg(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        CASE WHEN len(rankql_sets(subtopics)) > 0 THEN rankql_near_one(
            rankql_novel(rankql_weighted(subtopics, pos, k, 1 / log2(rankql_pos(pos, k) + 1)), rankql_alpha(alpha))
            / rankql_greedy(rankql_sets(subtopics), k, rankql_alpha(alpha))) END, pos, k);
COMMENT ON MACRO alpha_ndcg IS 'alpha_dcg divided by that of the ideal ranking, which is built greedily, item by item.';

CREATE OR REPLACE MACRO err_ia(subtopics, pos, k := NULL, alpha := 0.5) AS
    rankql_one_ranking(
        rankql_alpha(alpha)
        * rankql_novel(rankql_weighted(subtopics, pos, k, 1 / rankql_pos(pos, k)), rankql_alpha(alpha))
        / nullif(len(rankql_all(rankql_sets(subtopics))), 0), pos, k);
COMMENT ON MACRO err_ia IS 'Intent-aware ERR: the mean over the subtopics of the expected reciprocal rank of each.';
