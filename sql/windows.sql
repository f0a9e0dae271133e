-- Macros for engines without lists (rankql/engines/windows.py), which replace those of the same name. OVER is partitioned by
-- the keys of GROUP BY and computed before the rows are grouped. Logarithms and powers stay within DOUBLE, because some
-- engines raise errors otherwise.

-- Raised as `Engine.error` of rankql/engines/windows.py says.
CREATE OR REPLACE MACRO rankql_fail(message) AS error(message);

CREATE OR REPLACE MACRO rankql_text(value) AS CAST(value AS VARCHAR);

CREATE OR REPLACE MACRO rankql_retrieved(pos, k) AS count(rankql_pos(pos, k));

-- The messages are not constant, because Postgres computes constant casts while it plans.
CREATE OR REPLACE MACRO rankql_one_ranking(value, pos, k) AS
    CASE WHEN rankql_retrieved(pos, k) > max(rankql_pos(pos, k)) - min(rankql_pos(pos, k)) + 1
         THEN rankql_fail(rankql_shared() || CASE WHEN count(*) > 0 THEN '' END) ELSE value END;

CREATE OR REPLACE MACRO rankql_at_most_one(value) AS
    CASE WHEN value > 1 + rankql_rounding() THEN rankql_fail(rankql_shared() || CASE WHEN count(*) > 0 THEN '' END)
         WHEN value >= 1 - rankql_rounding() THEN 1.0::DOUBLE ELSE value END;

-- Checked beyond the cutoff too, so that one column serves all cutoffs.
CREATE OR REPLACE MACRO rankql_position(pos, name) AS
    CASE WHEN rankql_is_text(pos) THEN rankql_fail(name || ' must be a number, not text. Cast it first')
         WHEN CAST(pos AS DOUBLE) BETWEEN 1 AND 9007199254740992 AND CAST(pos AS DOUBLE) = floor(CAST(pos AS DOUBLE))
         THEN CAST(pos AS DOUBLE)
         WHEN pos IS NOT NULL THEN rankql_fail(name || ' must be a whole number from 1, not ' || rankql_text(pos))
    END;

CREATE OR REPLACE MACRO rankql_pos(pos, k, name := 'pos') AS
    CASE WHEN k IS NULL THEN rankql_position(pos, name)
         WHEN rankql_position(pos, name) <= rankql_cutoff(k) THEN rankql_position(pos, name) END;

-- Not every engine has TRY_CAST.
CREATE OR REPLACE MACRO rankql_unchecked(value) AS CAST(value AS DOUBLE);

CREATE OR REPLACE MACRO rankql_hit(rel, threshold) AS
    CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1.0::DOUBLE
         WHEN rankql_grade(rel) IS NOT NULL THEN 0.0::DOUBLE
    END;

-- A sum, to check both in every row.
CREATE OR REPLACE MACRO rankql_hit_pos(rel, pos, k, threshold) AS
    rankql_pos(pos, k) + CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 0 END;

CREATE OR REPLACE MACRO rankql_relevant(rel, threshold) AS
    CAST(count(CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1 END) AS DOUBLE);

-- Items with a position first, in order.
CREATE OR REPLACE MACRO rankql_in_order(pos) AS coalesce(pos, 1e16);

-- R in every row, and the number of judged non-relevant items.
CREATE OR REPLACE MACRO rankql_all_relevant(rel, threshold) AS
    CAST(count(CASE WHEN rankql_grade(rel) >= rankql_threshold(threshold) THEN 1 END) OVER () AS DOUBLE);

CREATE OR REPLACE MACRO rankql_all_nonrelevant(rel, threshold) AS
    CAST(count(CASE WHEN rankql_grade(rel) < rankql_threshold(threshold) THEN 1 END) OVER () AS DOUBLE);

-- The position in the ideal ranking.
CREATE OR REPLACE MACRO rankql_place(gain) AS
    CAST(row_number() OVER (ORDER BY CASE WHEN gain > 0 THEN gain ELSE 0 END DESC) AS DOUBLE);

-- The number of the hit, from 1.
CREATE OR REPLACE MACRO rankql_nth(hit_pos) AS CAST(row_number() OVER (ORDER BY rankql_in_order(hit_pos)) AS DOUBLE);

-- The number of judged non-relevant items above.
CREATE OR REPLACE MACRO rankql_above(rel, pos, threshold) AS
    CAST(count(CASE WHEN rankql_grade(rel) < rankql_threshold(threshold) THEN rankql_pos(pos, NULL) END) OVER (
        ORDER BY rankql_in_order(rankql_pos(pos, NULL)), rankql_grade(rel)
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS DOUBLE);

-- The logarithm of the probability that the user reaches a position: a sum over the items above.
CREATE OR REPLACE MACRO rankql_arrival(rel, pos, k, max_rel, stop) AS
    sum(CASE WHEN rankql_stop_gain(rel, max_rel, stop) > 0 AND rankql_pos(pos, k) > 0
             THEN ln(greatest(1 - rankql_stop(rel, max_rel, stop), 1e-300)) END) OVER (
        ORDER BY rankql_in_order(rankql_pos(pos, k)) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);

CREATE OR REPLACE MACRO rankql_look(pos, p) AS
    pow(rankql_patience(p), CASE WHEN pos <= floor(-700 / ln(rankql_patience(p))) THEN pos - 1 END);

-- The logarithm of p^(pos - 1).
CREATE OR REPLACE MACRO rankql_onward(pos, p) AS
    CASE WHEN rankql_option(p) = 1 THEN 0 * pos ELSE (pos - 1) * ln(rankql_patience(p)) END;

-- The ideal takes grades by position.
CREATE OR REPLACE MACRO rankql_best(grade, positive, k) AS CASE WHEN positive THEN grade END;

CREATE OR REPLACE MACRO rankql_ideal_dcg(gain, k, discounts) AS
    sum(CASE WHEN gain > 0 AND rankql_place(gain) <= rankql_cutoff(k) THEN gain / CASE
        WHEN discounts IS NULL THEN log2(rankql_place(gain) + 1)
        ELSE rankql_listed(rankql_place(gain), list_sort(rankql_top(discounts, k), 'ASC', 'NULLS LAST')) END END);


CREATE OR REPLACE MACRO r_precision(rel, pos, threshold := 1) AS
    rankql_one_ranking(
        count(CASE WHEN rankql_hit_pos(rel, pos, NULL, threshold) <= rankql_all_relevant(rel, threshold) THEN 1 END)
        / nullif(rankql_relevant(rel, threshold), 0), pos, NULL);

CREATE OR REPLACE MACRO ap(rel, pos, k := NULL, threshold := 1, denominator := 'min') AS
    rankql_one_ranking(rankql_at_most_one(
        rankql_ap(sum(rankql_nth(rankql_hit_pos(rel, pos, k, threshold)) / rankql_hit_pos(rel, pos, k, threshold)),
                  count(rankql_hit_pos(rel, pos, k, threshold)), rankql_relevant(rel, threshold),
                  rankql_retrieved(pos, k), k, denominator)), pos, k);

CREATE OR REPLACE MACRO rankql_precision_from(rel, pos, recall, threshold, rounding) AS
    coalesce(max(CASE WHEN rankql_nth(rankql_hit_pos(rel, pos, NULL, threshold))
                           >= floor(rankql_option(recall) * rankql_all_relevant(rel, threshold) + rankql_recall_rounding(rounding))
                      THEN rankql_nth(rankql_hit_pos(rel, pos, NULL, threshold)) / rankql_hit_pos(rel, pos, NULL, threshold)
                 END), 0);

CREATE OR REPLACE MACRO interpolated_precision(rel, pos, recall := NULL, threshold := 1, rounding := 'up') AS
    rankql_one_ranking(CASE WHEN rankql_relevant(rel, threshold) > 0 THEN CASE
        WHEN recall IS NOT NULL THEN rankql_precision_from(rel, pos, rankql_argument(
            recall, rankql_option(recall) BETWEEN 0 AND 1, 'recall', ' must lie between 0 and 1'), threshold, rounding)
        ELSE (rankql_precision_from(rel, pos, 0, threshold, rounding) + rankql_precision_from(rel, pos, 0.1, threshold, rounding)
            + rankql_precision_from(rel, pos, 0.2, threshold, rounding) + rankql_precision_from(rel, pos, 0.3, threshold, rounding)
            + rankql_precision_from(rel, pos, 0.4, threshold, rounding) + rankql_precision_from(rel, pos, 0.5, threshold, rounding)
            + rankql_precision_from(rel, pos, 0.6, threshold, rounding) + rankql_precision_from(rel, pos, 0.7, threshold, rounding)
            + rankql_precision_from(rel, pos, 0.8, threshold, rounding) + rankql_precision_from(rel, pos, 0.9, threshold, rounding)
            + rankql_precision_from(rel, pos, 1, threshold, rounding)) / 11 END END, pos, NULL);

CREATE OR REPLACE MACRO bpref(rel, pos, threshold := 1) AS
    rankql_one_ranking(CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        coalesce(sum(CASE WHEN rankql_hit_pos(rel, pos, NULL, threshold) > 0 THEN rankql_preferred(
            rankql_above(rel, pos, threshold),
            rankql_all_relevant(rel, threshold), rankql_all_nonrelevant(rel, threshold)) END), 0)
        / rankql_relevant(rel, threshold) END, pos, NULL);

CREATE OR REPLACE MACRO auc(rel, pos, threshold := 1) AS
    rankql_one_ranking(1 - sum(CASE WHEN rankql_hit_pos(rel, pos, NULL, threshold) > 0 THEN
            rankql_above(rel, pos, threshold) END)
        / nullif(CAST(count(rankql_hit_pos(rel, pos, NULL, threshold)) AS DOUBLE)
                 * (count(rankql_pos(pos, NULL) + rankql_grade(rel))
                    - count(rankql_hit_pos(rel, pos, NULL, threshold))), 0), pos, NULL);

CREATE OR REPLACE MACRO err(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2') AS
    rankql_one_ranking(CASE WHEN max(rankql_stop_gain(rel, max_rel, stop)) > 0 THEN
        coalesce(sum(CASE WHEN rankql_stop_gain(rel, max_rel, stop) > 0 THEN
            exp(greatest(coalesce(rankql_arrival(rel, pos, k, max_rel, stop), 0) + rankql_onward(rankql_pos(pos, k), p), -600))
            * rankql_stop(rel, max_rel, stop) / rankql_pos(pos, k) END), 0) END, pos, k);

-- The number of items above with a position for which the condition holds.
CREATE OR REPLACE MACRO rankql_number_above(pos, condition) AS
    CAST(count(CASE WHEN condition THEN rankql_pos(pos, NULL) END) OVER (
        ORDER BY rankql_in_order(rankql_pos(pos, NULL)) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS DOUBLE);

CREATE OR REPLACE MACRO infap(rel, pos, threshold := 1) AS
    rankql_one_ranking(CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        coalesce(sum(CASE WHEN rankql_hit_pos(rel, pos, NULL, threshold) > 0 THEN rankql_inferred(
            rankql_number_above(pos, rankql_grade(rel) IS NOT NULL),
            rankql_number_above(pos, rankql_grade(rel) >= 0 OR rankql_grade(rel) >= rankql_threshold(threshold)),
            rankql_number_above(pos, rankql_grade(rel) >= rankql_threshold(threshold)),
            rankql_pos(pos, NULL)) END), 0)
        / rankql_relevant(rel, threshold) END, pos, NULL);

-- The logarithm of the probability that the user reaches an item of the ideal ranking: a sum over higher grades, and over
-- those of the same grade that are above.
CREATE OR REPLACE MACRO rankql_ideal_arrival(gain, chance) AS
    coalesce(sum(chance) OVER (ORDER BY CASE WHEN gain > 0 THEN gain ELSE 0 END DESC), 0)
    + (rankql_place(gain) - 1 - count(*) OVER (ORDER BY CASE WHEN gain > 0 THEN gain ELSE 0 END DESC)) * chance;

CREATE OR REPLACE MACRO rankql_ideal_gain(rel, pos, ideal) AS
    CASE WHEN rankql_in_ideal(rel, pos IS NOT NULL, ideal) THEN rankql_grade(rel) END;

CREATE OR REPLACE MACRO rankql_ideal_err(gain, k, max_rel, p, stop) AS
    sum(CASE WHEN gain > 0 AND rankql_place(gain) <= rankql_cutoff(k) THEN
        exp(greatest(rankql_ideal_arrival(gain, CASE WHEN gain > 0 THEN
                ln(greatest(1 - rankql_satisfied(gain, max_rel, stop), 1e-300)) END)
            + rankql_onward(rankql_place(gain), p), -600))
        * rankql_satisfied(gain, max_rel, stop) / rankql_place(gain) END);

CREATE OR REPLACE MACRO nerr(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := 'judged') AS
    rankql_at_most_one(err(rel, pos, k, max_rel, p, stop) / nullif(rankql_ideal_err(
        rankql_ideal_gain(rel, pos, ideal), k, max_rel, p, stop), 0));
