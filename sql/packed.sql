-- Packed numbers: a ranking in one sum, and its grades in another, for ndcg, dcg, ap, rr, precision_at, recall_at, f1_at, hit_at
-- and all_rel_at. It has no public macros, and changes no result: what a metric is, its own file says. Load common.sql first.
--
-- The ranking, for k up to 20. Each row within k adds a whole number to one sum:
--
--    127        92 91                                40 39            20 19             0
--   +-------------+------------------------------------+----------------+----------------+
--   | items       | DCG * 2^46                         | hits           | positions      |
--   +-------------+------------------------------------+----------------+----------------+
--
--   positions  A bit for each: bit 0 is position 1. Only if all positions differ has the sum as many bits here as items.
--   hits       A bit for each position of a relevant item.
--   DCG        rel / log2(pos + 1), of whole grades from 0 to 5, rounded to 2^-46. Five at each of 20 positions make 35.2,
--              for which 52 bits are enough, and the rounding of 20 rows is below 2e-13. Other grades add 0: see rankql_other_dcg.
--   items      1 for each row, up to 2^35.
--
-- The ranking, for larger k and without k. Positions have no bits here: rankql_different counts those that differ.
--
--    127                                               40 39                              0
--   +----------------------------------------------------+---------------------------------+
--   | hits                                               | items                           |
--   +----------------------------------------------------+---------------------------------+
--
-- The grades, for ndcg. Five counts of the judged items, retrieved or not, from the left of those with at least grade 1, 2, 3, 4
-- and 5. They are 12 bits each for k up to 20, and 25 else: a group with more than 4,095 or 33,554,431 gains is an error.
--
--   +----------------+----------------+----------------+----------------+----------------+
--   | 1 or more      | 2 or more      | 3 or more      | 4 or more      | 5              |
--   +----------------+----------------+----------------+----------------+----------------+
--
-- What it earns, over 10M rows of Parquet, in units of a plain sum: precision_at takes 2.3 (3.4 with a count of positions, their
-- maximum and minimum, and a sum of hits), ndcg for k = 10 takes 3.5 (5.0 with these and a sum of gains), and without k 9 (11
-- with sorted lists). A count of 12 bits takes .6, and one of 25 bits .9; max(x, k) takes 1 to 2. Metrics of one query share
-- the sum. All checks of rel, pos, k and threshold are in it, once.


-- The ranking.

CREATE OR REPLACE MACRO rankql_in_bits(k) AS rankql_limit(k) <= 20;

CREATE OR REPLACE MACRO rankql_is_whole(rel) AS
    typeof(rel) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UTINYINT', 'USMALLINT', 'UINTEGER');

-- What a row adds for k up to 20, at [8 * position + grade - 7]: 2^92, the DCG * 2^40, 2^20 for a hit, and 1, both moved to the
-- position. Other grades than 0 to 5 have the index of 6 if they are hits, else of 7.
CREATE OR REPLACE MACRO rankql_marks(threshold) AS
    list_transform(range(0, 160), lambda i: 4951760157141521099596496896 + CAST(CASE WHEN i % 8 < 6
            THEN round(70368744177664 * (i % 8) / log2(i // 8 + 2)) ELSE 0 END AS HUGEINT) * 1099511627776
        + CAST(CASE WHEN i % 8 = 6 OR i % 8 < 6 AND i % 8 >= rankql_option(threshold)
                    THEN 1048577::BIGINT ELSE 1::BIGINT END << (i // 8) AS HUGEINT));

-- What a row adds.
CREATE OR REPLACE MACRO rankql_mark(rel, pos, k, threshold) AS
    CASE WHEN rankql_in_bits(k) THEN (rankql_marks(threshold))[8 * CAST(pos AS BIGINT) - 7 + CASE
             WHEN rankql_is_whole(rel) AND rankql_unchecked(rel) BETWEEN 0 AND 5 THEN CAST(rankql_unchecked(rel) AS BIGINT)
             WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN 6 ELSE 7 END]
         WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN 1099511627777 ELSE 1 END;

-- The same, checked; NULL beyond the cutoff and if not retrieved.
CREATE OR REPLACE MACRO rankql_row_bits(rel, pos, k, threshold) AS
    CASE WHEN rankql_is_literal(pos) THEN rankql_refuse_literal(pos, 'pos')
         WHEN NOT rankql_is_numeric(pos) THEN rankql_refuse(rankql_no_number(pos, 'pos'))
         WHEN rankql_holds_no_numbers(rel) THEN rankql_refuse(rankql_no_number(rel, 'rel'))
         WHEN rankql_unchecked(pos) < 1 OR rankql_unchecked(pos) > 9007199254740992 OR typeof(pos) NOT LIKE '%INT%' AND NOT (
              isfinite(rankql_unchecked(pos)) AND rankql_unchecked(pos) = floor(rankql_unchecked(pos)))
         THEN rankql_refuse_pos(pos, 'pos')
         WHEN typeof(rel) IN ('FLOAT', 'DOUBLE') AND NOT rankql_is_rel(rankql_unchecked(rel)) THEN rankql_refuse_rel(rel)
         WHEN rankql_unchecked(pos) <= rankql_checked(
              CASE WHEN k IS NULL THEN 1.7e308 ELSE rankql_cutoff(k) END, rankql_threshold(threshold))
         THEN rankql_mark(rel, pos, k, threshold) END;

-- The sum, and for larger k the number of different positions, for the macros below.
CREATE OR REPLACE MACRO rankql_ranking_sum(rel, pos, k, threshold) AS
    [{'places': sum(rankql_row_bits(rel, pos, k, threshold)),
      'positions': CASE WHEN NOT rankql_in_bits(k) THEN rankql_different(pos, k) END}];

-- What is read from it, `bits` for k up to 20 and else `counts`, or an error if several items share a position. DuckDB does not
-- simplify what a lambda computes, so there is as little as possible in it.
CREATE OR REPLACE MACRO rankql_unshared(x_, bits, counts) AS
    CASE WHEN x_['positions'] IS NULL THEN CASE WHEN bit_count(CAST(x_['places'] & 1048575 AS BIGINT)) <> x_['places'] >> 92
                                           THEN rankql_refuse(rankql_shared()) ELSE bits END
         WHEN x_['places'] % 1099511627776 > x_['positions'] THEN rankql_refuse(rankql_shared()) ELSE counts END;

CREATE OR REPLACE MACRO rankql_hit_bits(places) AS CAST((places >> 20) & 1048575 AS BIGINT);

-- The number of hits.
CREATE OR REPLACE MACRO rankql_hit_count(rel, pos, k, threshold) AS
    coalesce(list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(
        x_, CAST(bit_count(rankql_hit_bits(x_['places'])) AS DOUBLE),
        CAST(x_['places'] // 1099511627776 AS DOUBLE)))[1], 0);

-- The number of relevant items, which is counted beside the sum; that checks rel.
CREATE OR REPLACE MACRO rankql_relevant_count(rel, threshold) AS
    CAST(count(*) FILTER (WHERE rankql_unchecked(rel) >= rankql_threshold(threshold)) AS DOUBLE);

-- A position within the cutoff, beside the sum, which checks it.
CREATE OR REPLACE MACRO rankql_counted_pos(pos, k) AS
    CASE WHEN k IS NULL OR rankql_unchecked(pos) <= rankql_limit(k) THEN rankql_unchecked(pos) END;

-- The first position of a hit: in bits, subtracting 1 changes the lowest one and those below it.
CREATE OR REPLACE MACRO rankql_first_pos(rel, pos, k, threshold) AS
    list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(x_, CAST(bit_count(
        xor(nullif(rankql_hit_bits(x_['places']), 0), rankql_hit_bits(x_['places']) - 1)) AS DOUBLE), 0))[1]
    + CASE WHEN rankql_in_bits(k) THEN 0
           ELSE min(CASE WHEN rankql_unchecked(rel) >= rankql_option(threshold) THEN rankql_counted_pos(pos, k) END) END;

-- The bits of the hits, 0 for larger k.
CREATE OR REPLACE MACRO rankql_packed_hits(rel, pos, k, threshold) AS
    list_transform(rankql_ranking_sum(rel, pos, k, threshold), lambda x_: rankql_unshared(x_, rankql_hit_bits(x_['places']), 0))[1];

-- The sum of the precisions at the hits: for each, the number of hits up to it, divided by its position.
CREATE OR REPLACE MACRO rankql_bit_precisions(bits, k) AS
    list_transform([bits], lambda bits: list_sum(list_transform(range(1, least(rankql_limit(k), 20) + 1), lambda i:
        ((bits >> (i - 1)) & 1) * bit_count(bits & ((1::BIGINT << i) - 1)) / i)))[1];

-- The DCG, 0 for larger k.
CREATE OR REPLACE MACRO rankql_packed_dcg(rel, pos, k, discounts) AS
    coalesce(list_transform(rankql_ranking_sum(rel, pos, k, 1), lambda x_: rankql_unshared(
        x_, CAST((x_['places'] >> 40) & 4503599627370495 AS DOUBLE), 0))[1], 0)
    * CASE WHEN discounts IS NULL THEN 1.4210854715202004e-14::DOUBLE ELSE 0.0::DOUBLE END;


-- The grades.

CREATE OR REPLACE MACRO rankql_counts_grades(rel, discounts, ideal) AS
    discounts IS NULL AND rankql_text(ideal) = 'judged' AND rankql_is_whole(any_value(rel));

-- Other grades than 0 to 5 have no index.
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

-- The sum of the first discounts, as many as items, up to k. DuckDB plans a text in a tenth of the time of a list.
CREATE OR REPLACE MACRO rankql_first_discounts(items, k) AS (CAST('[0.0, 1.0, 1.6309297535714575, 2.1309297535714578, 2.5616063116448506, 2.9484591188793923, 3.304666305987414,
        3.6379996393207477, 3.9534645161064765, 4.254494511770457, 4.543559338088346, 4.8225022837394755, 5.092740438166795,
        5.355389973203989, 5.611347998013804, 5.861347998013804, 6.10599854013203, 6.345811006700162, 6.5812199200668,
        6.812598133226559, 7.040268381923513]' AS DOUBLE[]))[1 + least(items, rankql_some(k))];

-- The ideal DCG of the counts for k up to 20, NULL without gains: each item adds 1 for each grade that it reaches.
CREATE OR REPLACE MACRO rankql_counted_dcg(counts, k) AS CASE WHEN counts > 0 THEN
    rankql_first_discounts(counts >> 48, k) + rankql_first_discounts((counts >> 36) & 4095, k)
    + rankql_first_discounts((counts >> 24) & 4095, k) + rankql_first_discounts((counts >> 12) & 4095, k)
    + rankql_first_discounts(counts & 4095, k) END;

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
