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
        THEN rankql_refuse('discounts has ' || len(rankql_discounts(discounts)) || ' entries, but position ' || CAST(pos AS BIGINT)
                   || ' is counted: give more, or a lower k') END);

-- log2(base): log2(x) / log2(base) is the logarithm to that base.
CREATE OR REPLACE MACRO rankql_base(base) AS
    CASE WHEN rankql_option(base) > 1 AND isfinite(rankql_option(base)) THEN log2(rankql_option(base))
         ELSE rankql_refuse('base must be a finite number above 1, not ' || rankql_text(base))
    END;

-- 1 if the discounts are finite numbers above 0, else an error.
CREATE OR REPLACE MACRO rankql_valid(discounts) AS
    CASE WHEN rankql_is_text(discounts) OR NOT rankql_is_list(discounts)
         THEN rankql_refuse('discounts must be a list of numbers, not ' || rankql_text(discounts))
         ELSE coalesce(list_min(list_transform(rankql_discounts(discounts), lambda d: CASE WHEN d > 0 AND isfinite(d) THEN 1
             ELSE rankql_refuse('discounts must be finite numbers above 0, not ' || rankql_text(d)) END)), 1)
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

-- The discounted sum of the gains that rankql_places does not hold, without rankql_dcg_factor.
CREATE OR REPLACE MACRO rankql_other_dcg(rel, negative, pos, k, discounts) AS
    coalesce(sum(CASE WHEN (NOT rankql_in_bits(k) OR NOT rankql_is_whole(rel) OR discounts IS NOT NULL
                            OR rankql_unchecked(rel) < 0 OR rankql_unchecked(rel) > 5)
                           AND (k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k))
        THEN rankql_signed(rankql_unchecked(rel), negative) / CASE WHEN discounts IS NULL THEN log2(rankql_unchecked(pos) + 1)
             WHEN rel IS NOT NULL THEN rankql_valid(discounts) * rankql_listed(pos, discounts) END END), 0);

-- The sum that rankql_places holds.
CREATE OR REPLACE MACRO rankql_placed_dcg(rel, pos, k, discounts) AS
    coalesce(list_transform(rankql_ranking_sum(rel, pos, k, 1), lambda x_: rankql_unshared(
        x_, CAST((x_['places'] >> 40) & 4503599627370495 AS DOUBLE), 0))[1], 0)
    * CASE WHEN discounts IS NULL THEN 1.4210854715202004e-14::DOUBLE ELSE 0.0::DOUBLE END;

CREATE OR REPLACE MACRO dcg(rel, pos, k := NULL, discounts := NULL, base := 2) AS
    (rankql_placed_dcg(rel, pos, k, discounts) + rankql_other_dcg(rel, 'keep', pos, k, discounts))
    * rankql_dcg_factor(discounts, base);
COMMENT ON MACRO dcg IS 'Discounted cumulative gain: the sum of grade / log2(position + 1) over the first k.';

-- The discounted sum of a list of gains, NULL if it is empty.
CREATE OR REPLACE MACRO rankql_list_dcg(gains, discounts) AS
    list_sum(list_transform(gains, lambda gain, i: gain / CASE
        WHEN discounts IS NULL THEN log2(i + 1) WHEN gain IS NOT NULL THEN rankql_listed(i, discounts) END));

-- Whether a product with the weights of k positions is faster than a loop over the list.
CREATE OR REPLACE MACRO rankql_few(k) AS rankql_limit(k) <= 100;

-- At most 100, because DuckDB builds constant lists while it plans, needed or not.
CREATE OR REPLACE MACRO rankql_some(k) AS least(rankql_limit(k), 100);

-- The weights of the first k positions.
CREATE OR REPLACE MACRO rankql_weights(k) AS
    list_transform(range(1, k + 1), lambda i: 1 / log2(i + 1));

-- The discounted sum of gains in descending order: the best item has the smallest discount. NULL or 0 without gains.
CREATE OR REPLACE MACRO rankql_ideal_dcg(gains, k, discounts) AS
    CASE WHEN discounts IS NOT NULL
         THEN list_transform([list_sort(rankql_discounts(discounts)[:rankql_limit(k)], 'ASC', 'NULLS LAST')],
                             lambda least: rankql_list_dcg(gains, least))[1]
         WHEN rankql_few(k) THEN list_inner_product(list_resize(gains, rankql_some(k), 0), rankql_weights(rankql_some(k)))
         ELSE rankql_list_dcg(gains, NULL)
    END;

CREATE OR REPLACE MACRO idcg(rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged') AS
    rankql_one_ranking(
        rankql_dcg_factor(discounts, base)
        * coalesce(rankql_ideal_dcg(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), k, discounts), 0), pos, k);
COMMENT ON MACRO idcg IS 'Ideal DCG: the highest DCG that any order of the judged items can reach.';

-- Whole grades up to 5 are counted: the items that have at least grade 5, 4, 3, 2 and 1, with 12 bits each for k up to 20, else
-- with 25. Other grades have no index. max(x, k) takes 1 to 2 times a sum, 12 bits .6, and 25 bits .9. Without k, over
-- Parquet, ndcg took 11 sums with sorted lists, and takes 9.
CREATE OR REPLACE MACRO rankql_counts_grades(rel, discounts, ideal) AS
    discounts IS NULL AND rankql_text(ideal) = 'judged' AND rankql_is_whole(any_value(rel));

CREATE OR REPLACE MACRO rankql_grade_index(rel) AS CAST(TRY_CAST(rel AS UTINYINT) AS BIGINT) + 1;

CREATE OR REPLACE MACRO rankql_grade_counts(rel, k) AS coalesce(CASE WHEN rankql_in_bits(k)
    THEN sum([0, 281474976710656, 281543696187392, 281543712964608, 281543712968704, 281543712968705][rankql_grade_index(rel)])
    ELSE sum([0, 1267650600228229401496703205376, 1267650638007161264453864914944, 1267650638007162390353771757568,
              1267650638007162390353805312000, 1267650638007162390353805312001][rankql_grade_index(rel)]) END, 0);

CREATE OR REPLACE MACRO rankql_bits(k) AS CASE WHEN rankql_in_bits(k) THEN 12 ELSE 25 END;

-- The rows with other grades that gain or, if `negative` is 'keep', lose.
CREATE OR REPLACE MACRO rankql_uncounted(rel, pos, negative) AS
    list({'rel': rankql_unchecked(rel), 'pos': rankql_unchecked(pos)})
        FILTER (WHERE rankql_unchecked(rel) > 5 OR rankql_text(negative) = 'keep' AND rankql_unchecked(rel) < 0);

CREATE OR REPLACE MACRO rankql_uncounted_dcg(rows_, k) AS
    coalesce(list_sum(list_transform(rows_, lambda x_:
        CASE WHEN x_['pos'] <= rankql_limit(k) THEN x_['rel'] / log2(x_['pos'] + 1) END)), 0);

-- The sum of the first n discounts, at [n + 1]. DuckDB plans a text in a tenth of the time of a list.
CREATE OR REPLACE MACRO rankql_first_discounts() AS CAST('[0.0, 1.0, 1.6309297535714575, 2.1309297535714578, 2.5616063116448506, 2.9484591188793923, 3.304666305987414,
        3.6379996393207477, 3.9534645161064765, 4.254494511770457, 4.543559338088346, 4.8225022837394755, 5.092740438166795,
        5.355389973203989, 5.611347998013804, 5.861347998013804, 6.10599854013203, 6.345811006700162, 6.5812199200668,
        6.812598133226559, 7.040268381923513]' AS DOUBLE[]);

-- The ideal DCG of counted grades for k up to 20, NULL without gains.
CREATE OR REPLACE MACRO rankql_counted_discounts(items, k) AS
    (rankql_first_discounts())[1 + least(items, rankql_some(k))];

CREATE OR REPLACE MACRO rankql_counted_dcg(counts, k) AS CASE WHEN counts > 0 THEN
    rankql_counted_discounts(counts >> 48, k) + rankql_counted_discounts((counts >> 36) & 4095, k)
    + rankql_counted_discounts((counts >> 24) & 4095, k) + rankql_counted_discounts((counts >> 12) & 4095, k)
    + rankql_counted_discounts(counts & 4095, k) END;

-- The same for every k, with others before them: as many counts as reach i are the grade of the i-th counted item.
CREATE OR REPLACE MACRO rankql_mixed_dcg(levels, uncounted, k) AS
    list_sum(list_transform(list_concat(list_sort(list_filter(uncounted, lambda grade: grade > 0), 'DESC', 'NULLS LAST'),
        list_transform([levels], lambda levels: list_transform(range(1, least(levels[1], rankql_limit(k)) + 1), lambda i: 1.0::DOUBLE
            + (levels[2] >= i)::INT + (levels[3] >= i)::INT + (levels[4] >= i)::INT + (levels[5] >= i)::INT))[1])[:rankql_limit(k)],
        lambda grade, i: grade / log2(i + 1)));

CREATE OR REPLACE MACRO rankql_counted_ideal(counts, uncounted, k) AS
    CASE WHEN counts >> (5 * rankql_bits(k)) > 0
         THEN rankql_refuse('rel has more than ' || ((1 << rankql_bits(k)) - 1)
                            || ' grades above 0 in a group. Pass CAST(rel AS DOUBLE), which is sorted instead')
         WHEN rankql_in_bits(k) AND uncounted IS NULL THEN rankql_counted_dcg(CAST(counts AS BIGINT), k)
         ELSE list_transform([counts], lambda counts: rankql_mixed_dcg(list_transform([4, 3, 2, 1, 0], lambda grade: CAST(
             (counts >> (rankql_bits(k) * grade)) & ((1 << rankql_bits(k)) - 1) AS BIGINT)),
             list_transform(uncounted, lambda x_: x_['rel']), k))[1] END;

CREATE OR REPLACE MACRO rankql_ideal(rel, pos, k, discounts, ideal, negative) AS
    CASE WHEN rankql_counts_grades(rel, discounts, ideal)
         THEN rankql_counted_ideal(rankql_grade_counts(rel, k), rankql_uncounted(rel, pos, negative), k)
         ELSE rankql_ideal_dcg(rankql_best(rankql_unchecked(rel), rankql_gains(rankql_unchecked(rel), pos IS NOT NULL, ideal), k),
                               k, discounts) END;

CREATE OR REPLACE MACRO ndcg(
    rel, pos, k := NULL, discounts := NULL, base := 2, ideal := 'judged', negative := 'zero'
) AS
    rankql_at_most_one(rankql_checked(
        rankql_placed_dcg(rel, pos, k, discounts) + CASE WHEN rankql_in_bits(k) AND rankql_counts_grades(rel, discounts, ideal)
            THEN rankql_uncounted_dcg(rankql_uncounted(rel, pos, negative), k)
            ELSE rankql_other_dcg(rel, negative, pos, k, discounts) END, rankql_dcg_factor(discounts, base))
        / rankql_ideal(rel, pos, k, discounts, ideal, negative));
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
