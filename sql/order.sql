-- Order: do better items stand above worse ones? Load common.sql first.

-- The number of inversions in a list of grades in rank order: pairs with the lower grade above. At the levels of a
-- merge sort: in each block of 2^(b + 1) positions, sorted by grade, a right-half item stands after the left-half
-- items of lower grade, its inversions; without any it would stand 2^b before its place.
CREATE OR REPLACE MACRO rankql_inversions(grades) AS
    coalesce(list_sum(list_transform(range(0, CAST(ceil(log2(greatest(len(grades), 1))) AS BIGINT)), lambda b:
        list_sum(list_transform(
            list_sort(list_transform(grades, lambda grade, i: {
                'block': (i - 1) >> (b + 1), 'grade': grade, 'left': ((i - 1) >> b) % 2 = 0, 'i': i
            }), 'ASC', 'NULLS LAST'),
            lambda x, j: CASE WHEN NOT x.left THEN j - x.i + (1::BIGINT << b) END)))), 0);

-- The number of pairs of different grades.
CREATE OR REPLACE MACRO rankql_pairs(grades) AS
    (len(grades) * (len(grades) - 1) - coalesce(list_sum(list_transform(
        map_values(list_aggregate(grades, 'histogram')), lambda n: n * (n - 1))), 0)) / 2;

-- The grades in rank order, unjudged ones left out.
CREATE OR REPLACE MACRO rankql_ordered(rel, pos, k) AS
    coalesce(list_transform(list_sort(list({'pos': rankql_pos(pos, k), 'grade': rankql_grade(rel)})
        FILTER (WHERE rankql_pos(pos, k) + rankql_grade(rel) IS NOT NULL), 'ASC', 'NULLS LAST'),
        lambda x: x.grade), []);

CREATE OR REPLACE MACRO rankql_list_ordered(rels, k) AS
    list_filter(rankql_top(rankql_grades(rels), k), lambda grade: grade IS NOT NULL);

-- The number of inversions, or its share of the pairs that could be inverted.
CREATE OR REPLACE MACRO rankql_distance(grades, normalized) AS
    CASE rankql_text(normalized)
        WHEN 'false' THEN CAST(rankql_inversions(grades) AS DOUBLE)
        WHEN 'true' THEN rankql_inversions(grades) / nullif(rankql_pairs(grades), 0)
        ELSE error('normalized must be true or false, not ' || rankql_text(normalized))
    END;

-- Concordant minus discordant pairs, over the geometric mean of the pairs untied in grade and of all pairs.
CREATE OR REPLACE MACRO rankql_tau_b(grades) AS
    CASE WHEN rankql_pairs(grades) > 0 THEN (rankql_pairs(grades) - 2 * rankql_inversions(grades))
         / sqrt(rankql_pairs(grades) * (len(grades) * (len(grades) - 1) / 2)) END;

-- By score: the grades in rank order, and as the best and the worst order of tied items have them,
-- whose mean is that of all orders.
CREATE OR REPLACE MACRO rankql_orders(rel, score, item, k, ties, metric) AS
    CASE WHEN NOT rankql_expected(ties)
         THEN [rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, rankql_bytes(item))), k)]
         WHEN k IS NOT NULL
         THEN error('ties ''expected'' is not available for ' || metric || ' with k; leave k out')
         ELSE [rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, NULL)), NULL),
               rankql_list_ordered(rankql_values(rankql_ranking(rankql_grade(rel), score, -rankql_grade(rel))), NULL)]
    END;


CREATE OR REPLACE MACRO kendall_tau_distance(rel, pos, k := NULL, normalized := false) AS
    list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_distance(x, normalized)));
COMMENT ON MACRO kendall_tau_distance IS 'Kendall''s distance: the number of pairs in which the lower grade stands above the higher.';

CREATE OR REPLACE MACRO kendall_tau_b(rel, pos, k := NULL) AS
    list_avg(list_transform([rankql_ordered(rel, pos, k)], lambda x: rankql_tau_b(x)));
COMMENT ON MACRO kendall_tau_b IS 'Kendall''s tau-b between grades and positions: 1 for the best order, -1 for its reverse.';


CREATE OR REPLACE MACRO list_kendall_tau_distance(rels, k := NULL, normalized := false) AS
    CASE WHEN rels IS NOT NULL THEN
        list_avg(list_transform([rankql_list_ordered(rels, k)], lambda x: rankql_distance(x, normalized))) END;
COMMENT ON MACRO list_kendall_tau_distance IS 'kendall_tau_distance over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_kendall_tau_b(rels, k := NULL) AS
    CASE WHEN rels IS NOT NULL THEN
        list_avg(list_transform([rankql_list_ordered(rels, k)], lambda x: rankql_tau_b(x))) END;
COMMENT ON MACRO list_kendall_tau_b IS 'kendall_tau_b over a list of grades in rank order.';


CREATE OR REPLACE MACRO kendall_tau_distance_by_score(
    rel, score, item, k := NULL, normalized := false, ties := 'item'
) AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_distance'),
                            lambda x: rankql_distance(x, normalized)));
COMMENT ON MACRO kendall_tau_distance_by_score IS 'kendall_tau_distance where a score and an item stand for the position.';

CREATE OR REPLACE MACRO kendall_tau_b_by_score(rel, score, item, k := NULL, ties := 'item') AS
    list_avg(list_transform(rankql_orders(rel, score, item, k, ties, 'kendall_tau_b'), lambda x: rankql_tau_b(x)));
COMMENT ON MACRO kendall_tau_b_by_score IS 'kendall_tau_b where a score and an item stand for the position.';
