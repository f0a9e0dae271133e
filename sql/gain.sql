-- Gain: the grades of the items shown, lower positions counting less. Load common.sql, then packed.sql first.
--
--   exp2_gain(rel)      2^rel - 1, to pass for rel
--   cg(rel, pos, k)     the sum of rel over the rows with pos <= k
--   dcg(rel, pos, k)    the sum of rel / log2(pos + 1) over the rows with pos <= k
--   idcg(rel, pos, k)   the dcg of the best order: the grades above 0, shown or not, the highest at 1, the next at 2, up to k
--   ndcg(rel, pos, k)   dcg / idcg, where a grade below 0 counts 0; NULL if no grade is above 0
--
-- A grade that is NULL adds nothing, and without k all positions count. `base` is that of the logarithm, and `discounts` takes the
-- place of log2(pos + 1). list_dcg(rels, k) has the grades in rank order, and dcg_by_score(rel, score, item, k) ranks by score.

-- Discounts as DOUBLE[]. Text is cast too: rankql_valid refuses it.
CREATE OR REPLACE MACRO rankql_discounts(discounts) AS TRY_CAST(discounts AS DOUBLE[]);

-- The discount of a position. The list must be long enough. Multiply by rankql_valid first, whose errors come first.
CREATE OR REPLACE MACRO rankql_listed(pos, discounts) AS
    coalesce(rankql_discounts(discounts)[CAST(pos AS BIGINT)], CASE WHEN CAST(pos AS BIGINT) > len(rankql_discounts(discounts))
        THEN rankql_refuse('discounts has ' || len(rankql_discounts(discounts)) || ' entries, but position ' || CAST(pos AS BIGINT)
                   || ' is counted: give more, or a lower k') END);

-- 1 if the discounts are finite numbers above 0, else an error.
CREATE OR REPLACE MACRO rankql_valid(discounts) AS
    CASE WHEN rankql_is_text(discounts) OR NOT rankql_is_list(discounts)
         THEN rankql_refuse('discounts must be a list of numbers, not ' || rankql_text(discounts))
         ELSE coalesce(list_min(list_transform(rankql_discounts(discounts), lambda d: CASE WHEN d > 0 AND isfinite(d) THEN 1
             ELSE rankql_refuse('discounts must be finite numbers above 0, not ' || rankql_text(d)) END)), 1)
    END;

-- log2(base): log2(x) / log2(base) is the logarithm to that base.
CREATE OR REPLACE MACRO rankql_base(base) AS
    CASE WHEN rankql_option(base) > 1 AND isfinite(rankql_option(base)) THEN log2(rankql_option(base))
         ELSE rankql_refuse('base must be a finite number above 1, not ' || rankql_text(base))
    END;

-- What a sum of gain / log2(pos + 1) is multiplied by: log2(base), or 1 with discounts. Checks both options.
CREATE OR REPLACE MACRO rankql_dcg_factor(discounts, base) AS
    CASE WHEN discounts IS NULL THEN rankql_base(base) ELSE rankql_valid(discounts) END;

-- A grade, or 0 if it is negative and that does not count.
CREATE OR REPLACE MACRO rankql_signed(grade, negative) AS
    grade * CASE rankql_text(negative) WHEN 'zero' THEN rankql_if_positive(grade)
                  WHEN 'keep' THEN 1.0::DOUBLE
                  ELSE rankql_refuse('negative must be ''zero'' or ''keep'', not ' || rankql_text(negative))
    END;

CREATE OR REPLACE MACRO rankql_negative(rel, negative) AS rankql_signed(rankql_grade(rel), negative);

-- The sum of gain / log2(pos + 1) over the rows that rankql_packed_dcg leaves out: with a larger k, discounts, or grades other than
-- whole numbers from 0 to 5.
CREATE OR REPLACE MACRO rankql_other_dcg(rel, pos, k, discounts, negative) AS
    coalesce(sum(CASE WHEN (NOT rankql_in_bits(k) OR NOT rankql_is_whole(rel) OR discounts IS NOT NULL
                            OR rankql_unchecked(rel) < 0 OR rankql_unchecked(rel) > 5)
                           AND (k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k))
        THEN rankql_signed(rankql_unchecked(rel), negative) / CASE WHEN discounts IS NULL THEN log2(rankql_unchecked(pos) + 1)
             WHEN rel IS NOT NULL THEN rankql_valid(discounts) * rankql_listed(pos, discounts) END END), 0);

-- The sum of gain / log2(pos + 1) over all rows within k, without rankql_dcg_factor. With an `ideal`, rankql_idcg lists the rows of
-- other grades, and they are added up from its list.
CREATE OR REPLACE MACRO rankql_dcg(rel, pos, k, discounts, ideal, negative) AS
    rankql_packed_dcg(rel, pos, k, discounts)
    + CASE WHEN rankql_in_bits(k) AND rankql_counts_grades(rel, discounts, ideal)
           THEN rankql_uncounted_dcg(rankql_uncounted(rel, pos, negative), k)
           ELSE rankql_other_dcg(rel, pos, k, discounts, negative) END;

-- The discounted sum of a list of gains, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_list_dcg(gains, discounts) AS
    list_sum(list_transform(gains, lambda gain, i: gain / CASE
        WHEN discounts IS NULL THEN log2(i + 1) WHEN gain IS NOT NULL THEN rankql_listed(i, discounts) END));

-- The discounted sum of gains in descending order: the best item has the smallest discount. NULL or 0 without gains.
CREATE OR REPLACE MACRO rankql_ideal_dcg(gains, k, discounts) AS
    CASE WHEN discounts IS NOT NULL
         THEN list_transform([list_sort(rankql_discounts(discounts)[:rankql_limit(k)], 'ASC', 'NULLS LAST')],
                             lambda least: rankql_list_dcg(gains, least))[1]
         WHEN rankql_few(k)
         THEN list_inner_product(list_resize(gains, rankql_some(k), 0),
                                 list_transform(range(1, rankql_some(k) + 1), lambda i: 1 / log2(i + 1)))
         ELSE rankql_list_dcg(gains, NULL)
    END;

-- The discounted sum of the grades above 0 in the best order, without rankql_dcg_factor: from counts of grades, or a sorted list.
CREATE OR REPLACE MACRO rankql_idcg(rel, pos, k, discounts, ideal, negative) AS
    CASE WHEN rankql_counts_grades(rel, discounts, ideal)
         THEN rankql_counted_ideal(rankql_grade_counts(rel, k), rankql_uncounted(rel, pos, negative), k)
         ELSE rankql_ideal_dcg(rankql_best(rankql_unchecked(rel), rankql_gains(rankql_unchecked(rel), pos IS NOT NULL, ideal), k),
                               k, discounts) END;

-- The checks of rankql_grade, which would name rel twice more.
CREATE OR REPLACE MACRO exp2_gain(rel) AS
    CASE WHEN rankql_holds_no_numbers(rel) THEN rankql_refuse(rankql_no_number(rel, 'rel'))
         WHEN NOT rankql_is_rel(CAST(rel AS DOUBLE)) THEN rankql_refuse_rel(rel)
         ELSE pow(2.0::DOUBLE, CAST(rel AS DOUBLE)) - 1 END;
COMMENT ON MACRO exp2_gain IS 'Exponential gain of a grade: 2^rel - 1. NULL if the grade is NULL.';

CREATE OR REPLACE MACRO cg(rel, pos, k := NULL) AS
    rankql_one_ranking(coalesce(sum(rankql_checked(rankql_grade(rel), rankql_pos(pos, k))), 0), pos, k);
COMMENT ON MACRO cg IS 'Cumulative gain: the sum of the grades in the first k positions.';

CREATE OR REPLACE MACRO dcg(rel, pos, k := NULL, discounts := NULL, base := 2) AS
    rankql_dcg(rel, pos, k, discounts, NULL, 'keep') * rankql_dcg_factor(discounts, base);
COMMENT ON MACRO dcg IS 'Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.';

CREATE OR REPLACE MACRO idcg(rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged') AS
    rankql_one_ranking(
        rankql_dcg_factor(discounts, base)
        * coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), k, discounts), 0), pos, k);
COMMENT ON MACRO idcg IS 'Ideal DCG: the highest DCG that any order of the judged items can reach.';

CREATE OR REPLACE MACRO ndcg(
    rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero'
) AS
    rankql_at_most_one(
        rankql_checked(rankql_dcg(rel, pos, k, discounts, ideal, negative), rankql_dcg_factor(discounts, base))
        / rankql_idcg(rel, pos, k, discounts, ideal, negative));
COMMENT ON MACRO ndcg IS 'Normalised DCG: dcg / idcg. 1 for the best order, NULL if no grade is positive.';


-- The ideal DCG of a list, from rankql_arguments.
CREATE OR REPLACE MACRO rankql_list_idcg(x_, discounts, base) AS
    coalesce(rankql_ideal_dcg(rankql_list_best(x_), x_['end'], discounts), 0 * len(x_['rels'])) * rankql_dcg_factor(discounts, base);

CREATE OR REPLACE MACRO list_cg(rels, k := NULL) AS
    coalesce(list_sum(rankql_top(rankql_grades(rels), k)), 0 * len(CAST(rels AS DOUBLE[])));
COMMENT ON MACRO list_cg IS 'cg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_dcg(rels, k := NULL, discounts := NULL, base := 2) AS
    coalesce(rankql_list_dcg(rankql_top(rankql_grades(rels), k), discounts), 0 * len(CAST(rels AS DOUBLE[])))
    * rankql_dcg_factor(discounts, base);
COMMENT ON MACRO list_dcg IS 'dcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_idcg(rels, k := NULL, discounts := NULL, base := 2, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_: rankql_list_idcg(x_, discounts, base))[1];
COMMENT ON MACRO list_idcg IS 'idcg over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_ndcg(rels, k := NULL, discounts := NULL, base := 2, negative := 'zero', ideal := NULL) AS
    rankql_at_most_one(list_transform(list_transform(rankql_arguments(rels, ideal, k), lambda x_: {
        'dcg': rankql_dcg_factor(discounts, base) * coalesce(rankql_list_dcg(list_transform(
            x_['rels'][:x_['end']], lambda grade: rankql_signed(grade, negative)), discounts), 0 * len(x_['rels'])),
        'idcg': rankql_list_idcg(x_, discounts, base)}), lambda x_: x_['dcg'] / nullif(x_['idcg'], 0))[1]);
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
