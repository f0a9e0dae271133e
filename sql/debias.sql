-- Debias: clicks corrected for position bias. Load common.sql, packed.sql and gain.sql first.
--
--   debiased(click, propensity)  avg(click / propensity), with `predicted` avg(predicted + (click - propensity * predicted) / propensity)
--   counterfactual(log)          dcg, idcg, rr and clicks of a new ranking, with such grades, and with weights that add up (SNIPS)

-- The grade of an item: the prediction, corrected by its clicks.
CREATE OR REPLACE MACRO rankql_corrected(clicked, seen, divisor, prediction) AS
    coalesce(avg(coalesce(prediction, 0) + (clicked - seen * coalesce(prediction, 0)) / divisor), avg(prediction));

-- A probability above 0.
CREATE OR REPLACE MACRO rankql_chance(value, name) AS
    rankql_number(value, TRY_CAST(value AS DOUBLE) > 0 AND TRY_CAST(value AS DOUBLE) <= 1, name,
                  'above 0 and at most 1');

-- The propensity of a position, which must be given for every item shown.
CREATE OR REPLACE MACRO rankql_seen(click, propensity, name := 'propensity') AS
    CASE WHEN propensity IS NULL AND click IS NOT NULL
         THEN rankql_fail(name || ' must be given where an item was shown. Estimate it, or leave out such rows')
         ELSE rankql_chance(propensity, name) END;

-- The smallest propensity to divide by; NULL without clipping.
CREATE OR REPLACE MACRO rankql_clip(clip) AS
    CASE WHEN clip IS NOT NULL THEN rankql_argument(
        clip, rankql_option(clip) > 0 AND rankql_option(clip) <= 1, 'clip', ' must be above 0 and at most 1') END;

-- The propensity to divide a click by.
CREATE OR REPLACE MACRO rankql_divisor(seen, clip) AS
    CASE WHEN clip IS NULL THEN seen ELSE greatest(seen, rankql_clip(clip)) END;

CREATE OR REPLACE MACRO rankql_prediction(predicted, name := 'predicted') AS
    CASE WHEN predicted IS NOT NULL AND NOT rankql_is_text(predicted)
              AND coalesce(TRY_CAST(predicted AS DOUBLE) NOT BETWEEN 0 AND 1, true)
         THEN rankql_fail(name || ' must lie between 0 and 1, not ' || rankql_text(predicted))
         ELSE rankql_amount(predicted, name) END;

CREATE OR REPLACE MACRO debiased(click, propensity, clip := NULL, predicted := NULL) AS
    rankql_corrected(rankql_clicked(click), rankql_seen(click, propensity),
                     rankql_divisor(rankql_seen(click, propensity), clip), rankql_prediction(predicted));
COMMENT ON MACRO debiased IS 'The grade of an item, estimated from its clicks and corrected for position bias.';


-- A new ranking.

-- The weights of clicks: their sum, sum of squares, maximum, and the number of clipped clicks.
CREATE OR REPLACE MACRO rankql_load(clicked, seen, divisor) AS
    {'clicks': coalesce(sum(clicked), 0), 'weight': coalesce(sum(clicked / divisor), 0),
     'squares': coalesce(sum(clicked / divisor / divisor), 0), 'largest': max(nullif(clicked / divisor, 0)),
     'cut': coalesce(sum(clicked * CAST(divisor > seen AS DOUBLE)), 0)};

-- The number of positions of a query. Two items at one position are an error.
CREATE OR REPLACE MACRO rankql_alone(p, pos, q, query) AS
    CASE WHEN count(p) > list_unique(list(p))
         THEN rankql_fail(pos || ' must be unique in a query: two items of ' || query || ' ' || rankql_text(q.value)
                    || ' have the same position')
         ELSE count(p) END;

-- The expected reciprocal rank if grades are probabilities of relevance. It is linear in each grade, so estimates above 1
-- or below 0 are possible.
CREATE OR REPLACE MACRO rankql_expected_rr(grade, p, k) AS
    rankql_walk(list_sort(list(rankql_step(p, grade, 1 / p)) FILTER (WHERE rankql_checked(rankql_pos(p, k), grade) IS NOT NULL),
                          'ASC', 'NULLS LAST'));

-- A position up to 2^53, beyond which two positions can be the same DOUBLE.
CREATE OR REPLACE MACRO rankql_place(pos, name) AS
    CASE WHEN rankql_pos(pos, NULL, name) <= 9007199254740992 AND TRY_CAST(pos AS HUGEINT) <= 9007199254740992
         THEN rankql_pos(pos, NULL, name)
         WHEN pos IS NOT NULL THEN rankql_refuse_pos(pos, name) END;

-- A value that must be the same in all rows of a query and item.
CREATE OR REPLACE MACRO rankql_sole(value, name, q, i, query, item) AS
    CASE WHEN min(value) < max(value) OR count(value) NOT IN (0, count(*))
         THEN rankql_fail(name || ' must be the same in all rows of a query and item: ' || item || ' ' || rankql_text(i.value)
                    || ' of ' || query || ' ' || rankql_text(q.value) || ' has several')
         ELSE min(value) END;

-- The standard error of a ratio of sums over independent rows, by the delta method.
CREATE OR REPLACE MACRO rankql_ratio_error(value, part, estimate) AS
    sqrt(sum(pow(value - estimate * part, 2)) * count(value) / nullif(count(value) - 1.0::DOUBLE, 0))
    / nullif(sum(rankql_checked(part, value)), 0);

-- Is a value outside the range of a metric, by more than sums round? `most` is NULL if it has no highest value.
CREATE OR REPLACE MACRO rankql_impossible(value, most) AS value < -1e-9 OR coalesce(value > most + 1e-9, false);

-- The bounds of an interval, which do not leave the range if the value does not.
CREATE OR REPLACE MACRO rankql_lower_bound(value, reach) AS
    CASE WHEN value - reach < 0 AND NOT rankql_impossible(value, NULL) THEN 0 ELSE value - reach END;

CREATE OR REPLACE MACRO rankql_upper_bound(value, reach, most) AS
    CASE WHEN value + reach > most AND NOT rankql_impossible(value, most) THEN most ELSE value + reach END;

-- Warnings about an estimate. Right ones are often outside the range, but not their intervals. `best` is the largest value.
CREATE OR REPLACE MACRO rankql_warning(lo, hi, best, estimator, queries, clicks, size, largest, total, unsupported) AS
    nullif(concat_ws('; ',
        CASE WHEN hi < -1e-9 THEN 'the value is impossible: below 0'
             WHEN lo > best + 1e-9 THEN 'the value is impossible: above ' || format('{:.3g}', best) END,
        CASE WHEN estimator = 'IPS' AND clicks > 0 AND total = clicks AND largest = 1
             THEN 'all clicks have propensity 1: IPS equals the naive estimate' END,
        CASE WHEN clicks = 0 THEN 'there is no click in the first positions'
             WHEN size < 100 THEN 'the effective sample size is below 100' END,
        CASE WHEN largest > 0.1 * total THEN 'one click has more than 10% of the weight' END,
        CASE WHEN unsupported > 0.1 THEN 'more than 10% of the items were never shown' END,
        CASE WHEN queries = 1 THEN 'no interval: it rests on one query'
             WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END), '');

-- Columns are named by text; s and q are the keys of slice and query. Per item: position p, examination e, and for each
-- estimator its grade and the weights of its clicks. Each value is a ratio of sums: the denominator counts queries, or sums
-- grades in SNIPS. The same queries count for every estimator; value is NULL for the others.
CREATE OR REPLACE MACRO counterfactual(
    log, k := NULL, clip := NULL, predicted := NULL, examination := NULL, query := 'query', item := 'item',
    click := 'click', propensity := 'propensity', pos := 'pos', slice := NULL, confidence := 0.95
) AS TABLE
    WITH __rankql_given AS (
        SELECT rankql_slice(rankql_row, slice) AS s, rankql_id(rankql_row, query) AS q, rankql_id(rankql_row, item) AS i,
               struct_extract(rankql_row, click) AS c, struct_extract(rankql_row, propensity) AS t,
               rankql_place(struct_extract(rankql_row, pos), pos) AS p,
               CASE WHEN examination IS NOT NULL THEN struct_extract(rankql_row, examination) END AS e,
               CASE WHEN predicted IS NOT NULL THEN struct_extract(rankql_row, predicted) END AS r
        FROM query_table(log) AS rankql_row
    ), __rankql_shown AS (
        SELECT s, q, i, p, rankql_clicked(c, click) AS c, rankql_seen(c, t, propensity) AS t,
               CASE WHEN examination IS NOT NULL AND e IS NULL AND p IS NOT NULL
                    THEN rankql_fail(examination || ' must be given where ' || pos || ' is')
                    ELSE rankql_chance(e, examination) END AS e,
               rankql_prediction(r, predicted) AS r
        FROM __rankql_given
    ), __rankql_items AS (
        SELECT s, q, rankql_sole(p, pos, q, i, query, item) AS p,
               CASE WHEN examination IS NOT NULL THEN rankql_sole(e, examination, q, i, query, item) END AS e,
               nullif(count(c), 0) AS n, rankql_load(c, t, t) AS whole,
               CASE WHEN clip IS NOT NULL THEN rankql_load(c, t, rankql_divisor(t, clip)) END AS cut,
               CASE WHEN predicted IS NOT NULL THEN rankql_corrected(c, t, rankql_divisor(t, clip), r) END AS dr
        FROM __rankql_shown GROUP BY s, q, i
    ), __rankql_estimates AS (
        SELECT s, q, p, n IS NULL AS unsupported, unnest(list_filter([
            {'place': 1, 'estimator': 'naive', 'grade': whole.clicks / n, 'e': CAST(e > 0 AS DOUBLE), 'load': {
                'clicks': whole.clicks, 'weight': whole.clicks, 'squares': whole.clicks,
                'largest': CASE WHEN whole.clicks > 0 THEN 1 END, 'cut': 0}},
            {'place': 2, 'estimator': 'IPS', 'grade': whole.weight / n, 'e': e, 'load': whole},
            CASE WHEN clip IS NOT NULL
                 THEN {'place': 3, 'estimator': 'clipped IPS', 'grade': cut.weight / n, 'e': e, 'load': cut} END,
            {'place': 4, 'estimator': 'SNIPS', 'grade': whole.weight / n, 'e': e, 'load': whole},
            CASE WHEN predicted IS NOT NULL
                 THEN {'place': 5, 'estimator': 'DR', 'grade': dr, 'e': e, 'load': coalesce(cut, whole)} END
        ], lambda way: way IS NOT NULL), recursive := true)
        FROM __rankql_items
    ), __rankql_queries AS (
        SELECT s, place, estimator, bool_or(NOT unsupported) AS shown, sum(clicks) > 0 AS clicked, sum(grade) AS total,
               dcg(grade, p, k) AS dcg, coalesce(dcg(1, p, k), 0) AS best, idcg(grade, p, k) AS idcg, coalesce(rankql_expected_rr(grade, p, k), 0) AS rr,
               coalesce(sum(grade / rankql_pos(p, k)), 0) AS arhr,
               coalesce(sum(rankql_checked(grade * e, rankql_pos(p, k))), 0) AS looks,
               CAST(rankql_checked(count(rankql_pos(p, k)), rankql_alone(p, pos, q, query)) AS DOUBLE) AS top,
               CAST(count(rankql_pos(p, k)) FILTER (WHERE unsupported) AS DOUBLE) AS unsupported,
               sum(rankql_checked(clicks, rankql_pos(p, k))) AS clicks,
               sum(rankql_checked(weight, rankql_pos(p, k))) AS weight,
               sum(rankql_checked(squares, rankql_pos(p, k))) AS squares,
               max(rankql_checked(largest, rankql_pos(p, k))) AS largest,
               sum(rankql_checked(cut, rankql_pos(p, k))) AS cut
        FROM __rankql_estimates GROUP BY s, q, place, estimator
    ), __rankql_lines AS (
        SELECT * EXCLUDE (best), unnest(list_filter(CASE WHEN estimator = 'SNIPS' THEN [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': total, 'best': 1},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg, 'part': idcg, 'best': 1},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': arhr, 'part': total, 'best': 1},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks, 'part': total, 'best': 1}
        ] ELSE [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': 1, 'best': best},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg / nullif(idcg, 0), 'part': 1, 'best': 1},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': rr, 'part': 1, 'best': 1},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks / nullif(top, 0), 'part': 1, 'best': 1}
        ] END, lambda x_: x_['line'] < 4 OR examination IS NOT NULL), recursive := true)
        FROM __rankql_queries
    ), __rankql_measured AS (
        SELECT *, CASE WHEN counts THEN sum END AS value FROM __rankql_lines
    ), __rankql_summed AS (
        SELECT *, sum(value) OVER same / nullif(sum(rankql_checked(part, value)) OVER same, 0) AS estimate
        FROM __rankql_measured WINDOW same AS (PARTITION BY s, line, place)
    ), __rankql_added AS (
        SELECT s, line, place, metric, estimator, any_value(estimate) AS value, count(value) AS n,
               count(*) - count(value) AS left_out, sum(rankql_checked(best, value)) / nullif(count(value), 0) AS best,
               rankql_ratio_error(value, part, estimate) * rankql_z(confidence) AS reach,
               coalesce(sum(rankql_checked(clicks, value)), 0) AS clicks, coalesce(sum(rankql_checked(weight, value)), 0) AS weight,
               sum(rankql_checked(squares, value)) AS squares, max(rankql_checked(largest, value)) AS largest,
               sum(rankql_checked(cut, value)) AS cut, sum(rankql_checked(unsupported, value)) AS unsupported, sum(rankql_checked(top, value)) AS top
        FROM __rankql_summed GROUP BY s, line, place, metric, estimator
    ), __rankql_watched AS (
        SELECT *, weight * weight / nullif(squares, 0) AS size, unsupported / nullif(top, 0) AS never,
               CASE WHEN metric <> 'DCG' OR estimator = 'SNIPS' THEN 1 END AS most FROM __rankql_added
    ), __rankql_found AS (
        SELECT s, line AS a, place AS b, s.value AS slice, estimator, value,
               CASE WHEN k IS NULL THEN metric ELSE metric || '@' || CAST(rankql_cutoff(k) AS BIGINT) END AS metric,
               rankql_lower_bound(value, reach) AS lo, rankql_upper_bound(value, reach, most) AS hi, n AS queries, left_out,
               CAST(clicks AS BIGINT) AS clicks, size AS effective_sample_size, largest AS largest_weight,
               cut / nullif(clicks, 0) AS clipped, never AS unsupported,
               rankql_warning(coalesce(lo, value), coalesce(hi, value), best, estimator, n, clicks, size, largest, weight, never) AS warning
        FROM __rankql_watched
        UNION ALL BY NAME -- no row: checks the options of an empty log
        SELECT 0 AS a WHERE rankql_z(confidence) + rankql_cutoff(k) + coalesce(rankql_clip(clip), 0) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM __rankql_found
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST, b ASC NULLS LAST;
COMMENT ON MACRO TABLE counterfactual IS 'What DCG, nDCG, RR and CTR of a new ranking would be, from the clicks on those shown so far.';
