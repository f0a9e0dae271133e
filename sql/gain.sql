-- Gain: sums of grades, discounted by position. Load common.sql first.

CREATE OR REPLACE MACRO exp2_gain(rel) AS pow(2.0::DOUBLE, rankql_grade(rel)) - 1;
COMMENT ON MACRO exp2_gain IS 'Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.';

CREATE OR REPLACE MACRO cg(rel, pos, k := NULL) AS
    rankql_one_ranking(coalesce(sum(rankql_checked(rankql_grade(rel), rankql_pos(pos, k))), 0), pos, k);
COMMENT ON MACRO cg IS 'Cumulative gain: the sum of the grades in the first k positions.';

-- Discounts as DOUBLE[]. Text is cast too: rankql_valid refuses it.
CREATE OR REPLACE MACRO rankql_discounts(discounts) AS TRY_CAST(discounts AS DOUBLE[]);

-- The discount of a position. The list must be long enough. Multiply by rankql_valid first, whose errors come first.
CREATE OR REPLACE MACRO rankql_listed(pos, discounts) AS
    coalesce(rankql_discounts(discounts)[CAST(pos AS BIGINT)], CASE WHEN CAST(pos AS BIGINT) > len(rankql_discounts(discounts))
        THEN rankql_fail('discounts has ' || len(rankql_discounts(discounts)) || ' entries, but position ' || CAST(pos AS BIGINT)
                   || ' is counted: give more, or a lower k') END);

-- log2(base): log2(x) / log2(base) is the logarithm to that base.
CREATE OR REPLACE MACRO rankql_base(base) AS
    CASE WHEN rankql_option(base) > 1 AND isfinite(rankql_option(base)) THEN log2(rankql_option(base))
         ELSE rankql_fail('base must be a finite number above 1, not ' || rankql_text(base))
    END;

-- 1 if the discounts are finite numbers above 0, else an error.
CREATE OR REPLACE MACRO rankql_valid(discounts) AS
    CASE WHEN rankql_is_text(discounts) OR NOT rankql_is_list(discounts)
         THEN rankql_fail('discounts must be a list of numbers, not ' || rankql_text(discounts))
         ELSE coalesce(list_min(list_transform(rankql_discounts(discounts), lambda d: CASE WHEN d > 0 AND isfinite(d) THEN 1
             ELSE rankql_fail('discounts must be finite numbers above 0, not ' || rankql_text(d)) END)), 1)
    END;

-- What a sum of gain / log2(pos + 1) is multiplied by: log2(base), or 1 with discounts. Checks both options.
CREATE OR REPLACE MACRO rankql_dcg_factor(discounts, base) AS
    CASE WHEN discounts IS NULL THEN rankql_base(base) ELSE rankql_valid(discounts) END;

CREATE OR REPLACE MACRO rankql_negative(rel, negative) AS
    rankql_grade(rel)
    * CASE rankql_text(negative) WHEN 'zero' THEN rankql_if_positive(rel)
                  WHEN 'keep' THEN 1
                  ELSE rankql_fail('negative must be ''zero'' or ''keep'', not ' || rankql_text(negative))
    END;

-- The discounted sum of gains, without rankql_dcg_factor.
CREATE OR REPLACE MACRO rankql_dcg(rel, negative, pos, k, discounts) AS
    coalesce(sum(rankql_negative(rel, negative) / CASE
        WHEN discounts IS NULL THEN log2(rankql_pos(pos, k) + 1)
        WHEN rel IS NOT NULL AND rankql_unchecked(pos) <= rankql_limit(k)
        THEN rankql_valid(discounts) * rankql_listed(pos, discounts) END), 0);

CREATE OR REPLACE MACRO dcg(rel, pos, k := NULL, discounts := NULL, base := 2) AS
    rankql_one_ranking(rankql_dcg(rel, 'keep', pos, k, discounts) * rankql_dcg_factor(discounts, base), pos, k);
COMMENT ON MACRO dcg IS 'Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.';

-- The discounted sum of a list of gains, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_list_dcg(gains, discounts) AS
    list_sum(list_transform(gains, lambda gain, i: gain / CASE
        WHEN discounts IS NULL THEN log2(i + 1) WHEN gain IS NOT NULL THEN rankql_listed(i, discounts) END));

-- Whether a product with the weights of k positions is faster than a loop over the list.
CREATE OR REPLACE MACRO rankql_few(k) AS rankql_cutoff(k) <= 100;

-- At most 100, because DuckDB builds constant lists while it plans, needed or not.
CREATE OR REPLACE MACRO rankql_some(k) AS least(rankql_limit(k), 100);

-- The weights of the first k positions.
CREATE OR REPLACE MACRO rankql_weights(k) AS
    list_transform(range(1, k + 1), lambda i: 1 / log2(i + 1));

-- The discounted sum of gains in descending order: the best item has the smallest discount. NULL or 0 without gains.
CREATE OR REPLACE MACRO rankql_ideal_dcg(gains, k, discounts) AS
    CASE WHEN discounts IS NOT NULL
         THEN rankql_valid(discounts)
              * list_transform([list_sort(rankql_top(rankql_discounts(discounts), k), 'ASC', 'NULLS LAST')],
                               lambda least: rankql_list_dcg(gains, least))[1]
         WHEN rankql_few(k) THEN list_inner_product(list_resize(gains, rankql_some(k), 0), rankql_weights(rankql_some(k)))
         ELSE rankql_list_dcg(gains, NULL)
    END;

CREATE OR REPLACE MACRO idcg(rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged') AS
    rankql_one_ranking(
        coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), k, discounts), 0)
        * rankql_dcg_factor(discounts, base), pos, k);
COMMENT ON MACRO idcg IS 'Ideal DCG: the highest DCG that any order of the judged items can reach.';

CREATE OR REPLACE MACRO ndcg(
    rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero'
) AS
    rankql_one_ranking(rankql_at_most_one(rankql_checked(
        rankql_dcg(rel, negative, pos, k, discounts)
        / rankql_ideal_dcg(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), k, discounts),
        rankql_dcg_factor(discounts, base))), pos, k);
COMMENT ON MACRO ndcg IS 'Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.';


CREATE OR REPLACE MACRO list_cg(rels, k := NULL) AS
    rankql_sum(rankql_top(rankql_grades(rels), k));
COMMENT ON MACRO list_cg IS 'cg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_dcg(rels, k := NULL, discounts := NULL, base := 2) AS
    CASE WHEN rels IS NOT NULL THEN
        rankql_dcg_factor(discounts, base) * coalesce(rankql_list_dcg(rankql_top(rankql_grades(rels), k), discounts), 0) END;
COMMENT ON MACRO list_dcg IS 'dcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_idcg(rels, k := NULL, discounts := NULL, base := 2, ideal := NULL) AS
    CASE WHEN rels IS NOT NULL THEN
        coalesce(rankql_ideal_dcg(rankql_list_best(rankql_judged(ideal, rels), k), k, discounts), 0)
        * rankql_dcg_factor(discounts, base) END;
COMMENT ON MACRO list_idcg IS 'idcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_ndcg(rels, k := NULL, discounts := NULL, base := 2, negative := 'zero', ideal := NULL) AS
    rankql_at_most_one(
        list_dcg(list_transform(rankql_grades(rels), lambda grade: rankql_negative(grade, negative)), k, discounts, base)
        / list_transform([list_idcg(rels, k, discounts, base, ideal)], lambda best: nullif(best, 0))[1]);
COMMENT ON MACRO list_ndcg IS 'ndcg over a list of grades in rank order.';


CREATE OR REPLACE MACRO cg_by_score(rel, score, item, k := NULL, ties := 'item') AS
    list_cg(rankql_by_score(rankql_grade(rel), score, item, ties), k);
COMMENT ON MACRO cg_by_score IS 'cg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO dcg_by_score(rel, score, item, k := NULL, discounts := NULL, base := 2, ties := 'item') AS
    list_dcg(rankql_by_score(rankql_grade(rel), score, item, ties), k, discounts, base);
COMMENT ON MACRO dcg_by_score IS 'dcg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO idcg_by_score(
    rel, score, item, k := NULL, discounts := NULL, base := 2, ideal := 'judged', ties := 'item'
) AS
    rankql_checked(
        coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), k, discounts), 0)
        * rankql_dcg_factor(discounts, base),
        count(rankql_score(score)) * rankql_k_and_ties(k, ties));
COMMENT ON MACRO idcg_by_score IS 'idcg with a score and an item instead of the position.';

CREATE OR REPLACE MACRO ndcg_by_score(
    rel, score, item, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero', ties := 'item'
) AS
    rankql_at_most_one(
        list_dcg(rankql_by_score(rankql_negative(rel, negative), score, item, ties), k, discounts, base)
        / (rankql_ideal_dcg(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), k, discounts)
           * rankql_dcg_factor(discounts, base)));
COMMENT ON MACRO ndcg_by_score IS 'ndcg with a score and an item instead of the position.';
