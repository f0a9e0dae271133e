-- Cascade metrics: a user reads from the top and stops. Load common.sql, then packed.sql first.
--
-- A hit is a row with rel >= threshold and pos <= k.
--
--   rr(rel, pos, k)               1 / the first position of a hit, 0 without hits
--   arhr(rel, pos, k)             the sum over the hits of 1 / pos
--   err(rel, pos, k, max_rel)     the sum over pos <= k of 1 / pos * the chance to stop there: s of this item and no item above,
--                                 where s = (2^rel - 1) / 2^max_rel
--   nerr(rel, pos, k, max_rel)    err / the err of the best order
--   rbp(rel, pos, k, p)           (1 - p) * the sum over the hits of p^(pos - 1)
--   rbp_residual(rel, pos, k, p)  1 - (1 - p) * the sum of p^(pos - 1) over the rows with a grade and pos <= k
--
-- rr and arhr are NULL if nothing is relevant, err and nerr if no grade is above 0. list_rr(rels, k) has the grades in rank order,
-- and rr_by_score(rel, score, item, k) ranks by score.

CREATE OR REPLACE MACRO rr(rel, pos, k := NULL, threshold := 1) AS
    coalesce(1 / rankql_first_pos(rel, pos, k, threshold), 0) / CASE WHEN rankql_relevant_count(rel, threshold) > 0 THEN 1 END;
COMMENT ON MACRO rr IS 'Reciprocal rank: 1 / the position of the first relevant item in the first k positions.';

-- Only say what to write: without them, DuckDB suggests err, recall_at and mean.
CREATE OR REPLACE MACRO mrr(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('mrr is the mean of rr over the queries: use avg(rr(...)), with rr(rel, pos, k) by query');
CREATE OR REPLACE MACRO mean_reciprocal_rank(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('mean_reciprocal_rank is the mean of rr over the queries: use avg(rr(...)), with rr(rel, pos, k) by query');
CREATE OR REPLACE MACRO reciprocal_rank(rel, pos, k := NULL, threshold := 1) AS
    rankql_fail('reciprocal_rank is rr here: use rr(rel, pos, k)');

CREATE OR REPLACE MACRO arhr(rel, pos, k := NULL, threshold := 1) AS
    rankql_one_ranking(CASE WHEN rankql_relevant(rel, threshold) > 0 THEN
        coalesce(sum(1 / rankql_hit_pos(rel, pos, k, threshold)), 0) END, pos, k);
COMMENT ON MACRO arhr IS 'Reciprocal hit rank: the sum of 1 / position over the hits in the first k positions.';


-- A user who stops at an item that satisfies.

-- The highest grade of the scale. Not NULL: DuckDB skips the checks in an expression with a constant NULL.
CREATE OR REPLACE MACRO rankql_scale_end(max_rel) AS
    CASE WHEN max_rel IS NULL THEN rankql_refuse('max_rel must be given: the highest grade of the scale')
         WHEN rankql_option(max_rel) > 0 AND isfinite(rankql_option(max_rel)) THEN rankql_option(max_rel)
         ELSE rankql_refuse('max_rel must be a finite number above 0, not ' || rankql_text(max_rel))
    END;

-- The gain of a grade, at most max_rel.
CREATE OR REPLACE MACRO rankql_scaled(rel, max_rel) AS
    CASE WHEN rankql_option(max_rel) > 0 AND isfinite(rankql_option(max_rel)) THEN CASE
         WHEN rankql_grade(rel) > rankql_option(max_rel)
         THEN rankql_refuse('rel must not exceed max_rel: ' || rankql_text(rel) || ' is above ' || rankql_text(max_rel))
         ELSE rankql_gain(rel) END
         ELSE rankql_scale_end(max_rel)
    END;

-- The input of rankql_stop: a grade on a scale, or the probability itself.
CREATE OR REPLACE MACRO rankql_stop_gain(rel, max_rel, stop) AS
    CASE WHEN rankql_text(stop) = 'exp2' THEN rankql_scaled(rel, max_rel)
         WHEN rankql_text(stop) <> 'rel' THEN rankql_refuse('stop must be ''exp2'' or ''rel'', not ' || rankql_text(stop))
         WHEN max_rel IS NOT NULL THEN rankql_refuse('max_rel is for stop ''exp2'', not for ''rel''')
         WHEN rankql_grade(rel) NOT BETWEEN 0 AND 1
         THEN rankql_refuse('rel must lie between 0 and 1 for stop ''rel'', not ' || rankql_text(rel))
         ELSE rankql_unchecked(rel)
    END;

-- The probability that a gain satisfies the user: (2^gain - 1) / 2^max_rel, without overflow.
CREATE OR REPLACE MACRO rankql_satisfied(gain, max_rel, stop) AS
    CASE WHEN rankql_text(stop) = 'rel' THEN gain
         ELSE pow(2.0::DOUBLE, gain - rankql_option(max_rel)) - pow(2.0::DOUBLE, -rankql_option(max_rel)) END;

CREATE OR REPLACE MACRO rankql_stop(rel, max_rel, stop) AS
    rankql_satisfied(rankql_stop_gain(rel, max_rel, stop), max_rel, stop);

-- The utility of a position to a user who reads on with probability p.
CREATE OR REPLACE MACRO rankql_utility(pos, p) AS
    CASE WHEN rankql_option(p) = 1 THEN 1 / pos
         WHEN p IS NULL THEN rankql_refuse('p must lie between 0 and 1, not NULL')
         ELSE pow(rankql_patience(p), pos - 1) / pos END;

-- The err of grades in order, all positive.
CREATE OR REPLACE MACRO rankql_err(grades, max_rel, p, stop) AS
    rankql_walk(list_transform(grades, lambda grade, i:
        rankql_step(i, rankql_satisfied(grade, max_rel, stop), rankql_utility(CAST(i AS DOUBLE), p))));

CREATE OR REPLACE MACRO err(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2') AS
    rankql_one_ranking(CASE WHEN max(rankql_stop_gain(rel, max_rel, stop)) > 0 THEN
        rankql_walk(list_sort(
            list(rankql_step(rankql_unchecked(pos), rankql_satisfied(rankql_unchecked(rel), max_rel, stop),
                             rankql_utility(rankql_unchecked(pos), p)))
                FILTER (WHERE rankql_pos(pos, k) > 0 AND rankql_unchecked(rel) > 0),
            'ASC', 'NULLS LAST')) END, pos, k);
COMMENT ON MACRO err IS 'Expected reciprocal rank of the item where a user stops.';

CREATE OR REPLACE MACRO nerr(rel, pos, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := 'judged') AS
    rankql_at_most_one(err(rel, pos, k, max_rel, p, stop)
        / list_transform([rankql_err(rankql_best_ideal(rel, pos IS NOT NULL, ideal, k), max_rel, p, stop)],
                         lambda best: nullif(best, 0))[1]);
COMMENT ON MACRO nerr IS 'Normalised ERR: err, divided by that of the best order.';


-- A user who reads on with probability p.

-- The value of an item in rbp: 1 for a hit, or rel / max_rel.
CREATE OR REPLACE MACRO rankql_worth(rel, threshold, max_rel) AS
    CASE WHEN max_rel IS NULL THEN rankql_hit(rel, threshold)
         ELSE rankql_scaled(rel, max_rel) / rankql_scale_end(max_rel) END;

-- The probability that a user looks at a position.
CREATE OR REPLACE MACRO rankql_look(pos, p) AS pow(rankql_patience(p), pos - 1);

CREATE OR REPLACE MACRO rbp(rel, pos, k := NULL, p := NULL, threshold := 1, max_rel := NULL) AS
    rankql_one_ranking(rankql_at_most_one((1 - rankql_patience(p))
        * coalesce(sum(rankql_worth(rel, threshold, max_rel) * rankql_look(rankql_pos(pos, k), p)), 0)), pos, k);
COMMENT ON MACRO rbp IS 'Rank-biased precision: the hits, weighted by the probability that a user sees them.';

CREATE OR REPLACE MACRO rbp_residual(rel, pos, k := NULL, p := NULL) AS
    rankql_one_ranking(1 - rankql_at_most_one((1 - rankql_patience(p))
        * coalesce(sum(rankql_look(rankql_checked(rankql_pos(pos, k), rankql_grade(rel)), p)), 0)), pos, k);
COMMENT ON MACRO rbp_residual IS 'Residual of RBP: how much it would rise if every unjudged item were relevant.';


CREATE OR REPLACE MACRO rankql_list_rr(arguments, threshold) AS
    list_transform(arguments, lambda x_:
        coalesce(1 / CAST(rankql_hit_positions(x_['rels'][:x_['end']], threshold)[1] AS DOUBLE), 0)
        / CASE WHEN rankql_list_relevant(rankql_judged(x_), threshold) > 0 THEN 1 END)[1];

-- err of a list, from rankql_arguments. All grades of the list are in `ideal`, which is checked.
CREATE OR REPLACE MACRO rankql_list_err(x_, max_rel, p, stop) AS
    rankql_walk(list_transform(x_['rels'][:x_['end']], lambda grade, i:
        rankql_step(i, coalesce(rankql_satisfied(rankql_gain(grade), max_rel, stop), 0), rankql_utility(CAST(i AS DOUBLE), p))))
    / CASE WHEN rankql_checked(list_max(list_transform(rankql_judged(x_), lambda grade: rankql_stop_gain(grade, max_rel, stop))),
                               rankql_utility(1, p)) > 0 THEN 1 END;

CREATE OR REPLACE MACRO list_rr(rels, k := NULL, threshold := 1, ideal := NULL) AS
    rankql_list_rr(rankql_arguments(rels, ideal, k), threshold);
COMMENT ON MACRO list_rr IS 'rr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_arhr(rels, k := NULL, threshold := 1, ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_:
        coalesce(list_sum(list_transform(rankql_hit_positions(x_['rels'][:x_['end']], threshold), lambda i: 1 / CAST(i AS DOUBLE))), 0)
        / CASE WHEN rankql_list_relevant(rankql_judged(x_), threshold) > 0 THEN 1 END)[1];
COMMENT ON MACRO list_arhr IS 'arhr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_err(rels, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := NULL) AS
    list_transform(rankql_arguments(rels, ideal, k), lambda x_: rankql_list_err(x_, max_rel, p, stop))[1];
COMMENT ON MACRO list_err IS 'err over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_nerr(rels, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := NULL) AS
    rankql_at_most_one(list_transform(list_transform(rankql_arguments(rels, ideal, k), lambda x_: {
        'err': rankql_list_err(x_, max_rel, p, stop),
        'best': rankql_err(rankql_list_best(x_), max_rel, p, stop)}), lambda x_:
            x_['err'] / nullif(x_['best'], 0))[1]);
COMMENT ON MACRO list_nerr IS 'nerr over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_rbp(rels, k := NULL, p := NULL, threshold := 1, max_rel := NULL) AS
    rankql_at_most_one((1 - rankql_patience(p)) * list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k)}], lambda x_:
        coalesce(list_sum(list_transform(x_['rels'], lambda grade, i:
            rankql_worth(grade, threshold, max_rel) * rankql_look(i, p))[:x_['end']]), 0 * len(x_['rels'])))[1]);
COMMENT ON MACRO list_rbp IS 'rbp over a list of grades in rank order.';

CREATE OR REPLACE MACRO list_rbp_residual(rels, k := NULL, p := NULL) AS
    1 - rankql_at_most_one((1 - rankql_patience(p)) * list_transform([{'rels': rankql_grades(rels), 'end': rankql_end(k)}], lambda x_:
        coalesce(list_sum(list_transform(x_['rels'][:x_['end']], lambda grade, i:
            rankql_look(rankql_checked(i, grade), p))), 0 * len(x_['rels'])))[1]);
COMMENT ON MACRO list_rbp_residual IS 'rbp_residual over a list of grades in rank order.';


CREATE OR REPLACE MACRO rr_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN CASE WHEN rankql_expected(ties)
        THEN rankql_walk(list_transform(rankql_top(rankql_first_hit(rankql_hit(rel, threshold), score), k),
                                        lambda stop, i: rankql_step(i, stop, 1 / CAST(i AS DOUBLE))))
        ELSE rankql_list_rr(rankql_arguments_by_score(rel, score, item, k), threshold) END END;
COMMENT ON MACRO rr_by_score IS 'rr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO arhr_by_score(rel, score, item, k := NULL, threshold := 1, ties := 'item') AS
    CASE WHEN rankql_checked(rankql_relevant(rel, threshold), rankql_k_and_ties(k, ties)) > 0 THEN
        rankql_sum(list_transform(rankql_top(rankql_by_score(rankql_hit(rel, threshold), score, item, ties), k),
                                  lambda hit, i: hit / i)) END;
COMMENT ON MACRO arhr_by_score IS 'arhr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO err_by_score(
    rel, score, item, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for err. Use ''item''')
         ELSE list_transform(rankql_arguments_by_score(rel, score, item, k),
                             lambda x_: rankql_list_err(x_, max_rel, p, stop))[1] END;
COMMENT ON MACRO err_by_score IS 'err with a score and an item instead of the position.';

CREATE OR REPLACE MACRO nerr_by_score(
    rel, score, item, k := NULL, max_rel := NULL, p := 1, stop := 'exp2', ideal := 'judged', ties := 'item'
) AS
    CASE WHEN rankql_expected(ties) THEN rankql_fail('ties ''expected'' is not available for nerr. Use ''item''')
         ELSE rankql_at_most_one(err_by_score(rel, score, item, k, max_rel, p, stop)
            / nullif(rankql_err(rankql_best_ideal(rel, score IS NOT NULL, ideal, k), max_rel, p, stop), 0)) END;
COMMENT ON MACRO nerr_by_score IS 'nerr with a score and an item instead of the position.';

CREATE OR REPLACE MACRO rbp_by_score(
    rel, score, item, k := NULL, p := NULL, threshold := 1, max_rel := NULL, ties := 'item'
) AS
    rankql_at_most_one((1 - rankql_patience(p)) * rankql_sum(list_transform(
        rankql_top(rankql_by_score(rankql_worth(rel, threshold, max_rel), score, item, ties), k),
        lambda worth, i: worth * rankql_look(i, p))));
COMMENT ON MACRO rbp_by_score IS 'rbp with a score and an item instead of the position.';

CREATE OR REPLACE MACRO rbp_residual_by_score(rel, score, item, k := NULL, p := NULL, ties := 'item') AS
    1 - rankql_at_most_one((1 - rankql_patience(p)) * rankql_sum(list_transform(
        rankql_top(rankql_by_score(CAST(rankql_grade(rel) IS NOT NULL AS DOUBLE), score, item, ties), k),
        lambda judged, i: judged * rankql_look(i, p))));
COMMENT ON MACRO rbp_residual_by_score IS 'rbp_residual with a score and an item instead of the position.';
