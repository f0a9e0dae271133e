-- Debias: what clicks tell of items, once it counts where they were shown; and labels that are missing. Load
-- common.sql and gain.sql first.

-- The grade of an item: the prediction, corrected by what the clicks say otherwise.
CREATE OR REPLACE MACRO rankql_corrected(clicked, seen, divisor, prediction) AS
    coalesce(avg(coalesce(prediction, 0) + (clicked - seen * coalesce(prediction, 0)) / divisor), avg(prediction));

-- A chance that can be divided by.
CREATE OR REPLACE MACRO rankql_chance(value, name) AS
    rankql_number(value, TRY_CAST(value AS DOUBLE) > 0 AND TRY_CAST(value AS DOUBLE) <= 1, name,
                  'above 0 and at most 1');

-- The chance that a slot is looked at, known wherever something was shown.
CREATE OR REPLACE MACRO rankql_seen(click, propensity, name := 'propensity') AS
    CASE WHEN propensity IS NULL AND click IS NOT NULL
         THEN rankql_fail(name || ' must be given where an item was shown; estimate it, or leave such rows out')
         ELSE rankql_chance(propensity, name) END;

-- The least that a click is divided by; NULL where there is none.
CREATE OR REPLACE MACRO rankql_clip(clip) AS
    CASE WHEN clip IS NOT NULL THEN rankql_argument(
        clip, rankql_option(clip) > 0 AND rankql_option(clip) <= 1, 'clip', ' must be above 0 and at most 1') END;

-- What a click is divided by.
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
COMMENT ON MACRO debiased IS 'The grade of an item that its clicks tell, freed of the bias of the positions it stood at.';

-- The weights of clicks: their sum, that of their squares, the largest, and how many of them were cut.
CREATE OR REPLACE MACRO rankql_load(clicked, seen, divisor) AS
    {'clicks': coalesce(sum(clicked), 0), 'weight': coalesce(sum(clicked / divisor), 0),
     'squares': coalesce(sum(clicked / divisor / divisor), 0), 'largest': max(nullif(clicked / divisor, 0)),
     'cut': coalesce(sum(clicked * CAST(divisor > seen AS DOUBLE)), 0)};

CREATE OR REPLACE MACRO effective_sample_size(click, propensity, clip := NULL) AS
    list_transform([rankql_load(rankql_clicked(click), rankql_seen(click, propensity),
                                rankql_divisor(rankql_seen(click, propensity), clip))],
        lambda x_: x_['weight'] * x_['weight'] / nullif(x_['squares'], 0))[1];
COMMENT ON MACRO effective_sample_size IS 'Effective sample size: as many clicks of equal weight would be as good as these.';

-- The number of positions of a query, each of one item.
CREATE OR REPLACE MACRO rankql_alone(p, pos, q, query) AS
    CASE WHEN count(p) > list_unique(list(p))
         THEN rankql_fail(pos || ' must be of one item alone: two of ' || query || ' ' || rankql_text(q.value)
                    || ' have the same')
         ELSE count(p) END;

-- The reciprocal rank to be expected where grades are chances to be relevant. It is linear in each of them, so that
-- estimates above 1 or below 0 do no harm.
CREATE OR REPLACE MACRO rankql_expected_rr(grade, p, k) AS
    rankql_walk(list_sort(list(rankql_step(p, grade, 1 / p)) FILTER (WHERE rankql_checked(rankql_pos(p, k), grade) IS NOT NULL),
                          'ASC', 'NULLS LAST'));

-- A position of a ranking that is taken as a whole. (Beyond 2^53 two of them are one DOUBLE.)
CREATE OR REPLACE MACRO rankql_place(pos, name) AS
    CASE WHEN rankql_pos(pos, NULL, name) <= 9007199254740992 AND TRY_CAST(pos AS HUGEINT) <= 9007199254740992
         THEN rankql_pos(pos, NULL, name)
         WHEN pos IS NOT NULL THEN rankql_fail(name || ' must be a whole number from 1, not ' || rankql_text(pos)) END;

-- What must be the same in all rows of a query and item, as DOUBLE.
CREATE OR REPLACE MACRO rankql_sole(value, name, q, i, query, item) AS
    CASE WHEN min(value) < max(value) OR count(value) NOT IN (0, count(*))
         THEN rankql_fail(name || ' must be the same in all rows of a query and item: ' || item || ' ' || rankql_text(i.value)
                    || ' of ' || query || ' ' || rankql_text(q.value) || ' has several')
         ELSE min(value) END;

-- The standard error of a sum over a sum, of independent rows: that of what each adds to it, by the delta method.
CREATE OR REPLACE MACRO rankql_ratio_error(value, part, estimate) AS
    sqrt(sum(pow(value - estimate * part, 2)) * count(value) / nullif(count(value) - 1.0::DOUBLE, 0))
    / nullif(sum(rankql_checked(part, value)), 0);

-- A metric as evaluate names it.
CREATE OR REPLACE MACRO rankql_at(metric, k) AS
    CASE WHEN k IS NULL THEN metric ELSE metric || '@' || CAST(rankql_cutoff(k) AS BIGINT) END;

-- What is to be watched in an estimate.
CREATE OR REPLACE MACRO rankql_warning(queries, clicks, size, largest, total, unsupported) AS
    nullif(concat_ws('; ',
        CASE WHEN clicks = 0 THEN 'there is no click in the first positions'
             WHEN size < 100 THEN 'the effective sample size is below 100' END,
        CASE WHEN largest > 0.1 * total THEN 'one click has more than 10% of the weight' END,
        CASE WHEN unsupported > 0.1 THEN 'more than 10% of the items were never shown' END,
        CASE WHEN queries < 30 THEN 'the interval rests on fewer than 30 queries' END), '');

-- The columns are named by text; s and q are the keys of slice and query. By item: where it stands, p, how likely it is
-- looked at there, e, and by each way to estimate its grade and the weights of its clicks. Each value is a sum over a sum
-- of parts: of ones where it is a mean over queries, of grades in SNIPS. Whether a query counts does not depend on the
-- estimator; value is NULL where it does not.
CREATE OR REPLACE MACRO counterfactual(
    log, k := NULL, clip := NULL, predicted := NULL, examination := NULL, query := 'query', item := 'item',
    click := 'click', propensity := 'propensity', pos := 'pos', slice := NULL, confidence := 0.95
) AS TABLE
    WITH given AS (
        SELECT rankql_slice(rankql_row, slice) AS s, rankql_id(rankql_row, query) AS q, rankql_id(rankql_row, item) AS i,
               struct_extract(rankql_row, click) AS c, struct_extract(rankql_row, propensity) AS t,
               rankql_place(struct_extract(rankql_row, pos), pos) AS p,
               CASE WHEN examination IS NOT NULL THEN struct_extract(rankql_row, examination) END AS e,
               CASE WHEN predicted IS NOT NULL THEN struct_extract(rankql_row, predicted) END AS r
        FROM query_table(log) AS rankql_row
    ), shown AS (
        SELECT s, q, i, p, rankql_clicked(c, click) AS c, rankql_seen(c, t, propensity) AS t,
               CASE WHEN examination IS NOT NULL AND e IS NULL AND p IS NOT NULL
                    THEN rankql_fail(examination || ' must be given where ' || pos || ' is')
                    ELSE rankql_chance(e, examination) END AS e,
               rankql_prediction(r, predicted) AS r
        FROM given
    ), items AS (
        SELECT s, q, rankql_sole(p, pos, q, i, query, item) AS p,
               CASE WHEN examination IS NOT NULL THEN rankql_sole(e, examination, q, i, query, item) END AS e,
               nullif(count(c), 0) AS n, rankql_load(c, t, t) AS whole,
               CASE WHEN clip IS NOT NULL THEN rankql_load(c, t, rankql_divisor(t, clip)) END AS cut,
               CASE WHEN predicted IS NOT NULL THEN rankql_corrected(c, t, rankql_divisor(t, clip), r) END AS dr
        FROM shown GROUP BY s, q, i
    ), estimates AS (
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
        FROM items
    ), queries AS (
        SELECT s, place, estimator, bool_or(NOT unsupported) AS shown, sum(clicks) > 0 AS clicked, sum(grade) AS total,
               dcg(grade, p, k) AS dcg, idcg(grade, p, k) AS idcg, coalesce(rankql_expected_rr(grade, p, k), 0) AS rr,
               coalesce(sum(grade / rankql_pos(p, k)), 0) AS arhr,
               coalesce(sum(rankql_checked(grade * e, rankql_pos(p, k))), 0) AS looks,
               CAST(rankql_checked(count(rankql_pos(p, k)), rankql_alone(p, pos, q, query)) AS DOUBLE) AS top,
               CAST(count(rankql_pos(p, k)) FILTER (WHERE unsupported) AS DOUBLE) AS unsupported,
               sum(rankql_checked(clicks, rankql_pos(p, k))) AS clicks,
               sum(rankql_checked(weight, rankql_pos(p, k))) AS weight,
               sum(rankql_checked(squares, rankql_pos(p, k))) AS squares,
               max(rankql_checked(largest, rankql_pos(p, k))) AS largest,
               sum(rankql_checked(cut, rankql_pos(p, k))) AS cut
        FROM estimates GROUP BY s, q, place, estimator
    ), lines AS (
        SELECT *, unnest(list_filter(CASE WHEN estimator = 'SNIPS' THEN [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': total},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg, 'part': idcg},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': arhr, 'part': total},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks, 'part': total}
        ] ELSE [
            {'line': 1, 'metric': 'DCG', 'counts': shown, 'sum': dcg, 'part': 1},
            {'line': 2, 'metric': 'nDCG', 'counts': clicked, 'sum': dcg / nullif(idcg, 0), 'part': 1},
            {'line': 3, 'metric': 'RR', 'counts': shown, 'sum': rr, 'part': 1},
            {'line': 4, 'metric': 'CTR', 'counts': shown AND top > 0, 'sum': looks / nullif(top, 0), 'part': 1}
        ] END, lambda x_: x_['line'] < 4 OR examination IS NOT NULL), recursive := true)
        FROM queries
    ), measured AS (
        SELECT *, CASE WHEN counts THEN sum END AS value FROM lines
    ), summed AS (
        SELECT *, sum(value) OVER same / nullif(sum(rankql_checked(part, value)) OVER same, 0) AS estimate
        FROM measured WINDOW same AS (PARTITION BY s, line, place)
    ), added AS (
        SELECT s, line, place, metric, estimator, any_value(estimate) AS value, count(value) AS n,
               count(*) - count(value) AS left_out,
               rankql_ratio_error(value, part, estimate) * rankql_z(confidence) AS reach,
               coalesce(sum(rankql_checked(clicks, value)), 0) AS clicks, coalesce(sum(rankql_checked(weight, value)), 0) AS weight,
               sum(rankql_checked(squares, value)) AS squares, max(rankql_checked(largest, value)) AS largest,
               sum(rankql_checked(cut, value)) AS cut, sum(rankql_checked(unsupported, value)) AS unsupported, sum(rankql_checked(top, value)) AS top
        FROM summed GROUP BY s, line, place, metric, estimator
    ), watched AS (
        SELECT *, weight * weight / nullif(squares, 0) AS size, unsupported / nullif(top, 0) AS never FROM added
    ), found AS (
        SELECT s, line AS a, place AS b, s.value AS slice, rankql_at(metric, k) AS metric, estimator, value,
               value - reach AS lo, value + reach AS hi, n AS queries, left_out,
               CAST(clicks AS BIGINT) AS clicks, size AS effective_sample_size, largest AS largest_weight,
               cut / nullif(clicks, 0) AS clipped, never AS unsupported,
               rankql_warning(n, clicks, size, largest, weight, never) AS warning
        FROM watched
        UNION ALL BY NAME -- no row, but checked also where the log has none
        SELECT 0 AS a WHERE rankql_z(confidence) + rankql_cutoff(k) + coalesce(rankql_clip(clip), 0) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM found
    ORDER BY s ASC NULLS LAST, a ASC NULLS LAST, b ASC NULLS LAST;
COMMENT ON MACRO TABLE counterfactual IS 'What DCG, nDCG, RR and CTR of a new ranking would be, from the clicks on those shown so far.';

CREATE OR REPLACE MACRO rankql_parameter(value, name) AS
    rankql_argument(value, isfinite(rankql_option(value)) AND rankql_option(value) > 0, name,
                    ' must be a finite number above 0');

-- Of fewer than three users the formula has no chances to give.
CREATE OR REPLACE MACRO item_propensity(popularity, users, a := 0.55, b := 1.5) AS
    1 / (1 + (ln(rankql_whole(users, 3, 'users')) - 1)
             * pow((rankql_parameter(b, 'b') + 1) / (rankql_known_by(popularity, rankql_whole(users, 3, 'users'))
                                                      + rankql_parameter(b, 'b')), rankql_parameter(a, 'a')));
COMMENT ON MACRO item_propensity IS 'The chance that a relevant item is labelled, by how many users have it.';

-- Whether it is relevant, 1 or 0; NULL where it is not known.
CREATE OR REPLACE MACRO rankql_judgment(rel, threshold, name) AS
    CAST(rankql_number(rel, true, name, 'a finite number') >= rankql_threshold(threshold) AS DOUBLE);

-- The weights of relevant items against the best that could stand there. Of nDCG both sides are divided by the ideal of
-- the plain labels, which is the same for both.
CREATE OR REPLACE MACRO propensity_scored(
    rankings, k := NULL, threshold := 1, query := 'query', rel := 'rel', pos := 'pos', propensity := 'propensity',
    slice := NULL, confidence := 0.95
) AS TABLE
    WITH given AS (
        SELECT rankql_slice(rankql_row, slice) AS s, rankql_id(rankql_row, query) AS q,
               rankql_judgment(struct_extract(rankql_row, rel), threshold, rel) AS hit,
               rankql_chance(struct_extract(rankql_row, propensity), propensity) AS t,
               rankql_place(struct_extract(rankql_row, pos), pos) AS p
        FROM query_table(rankings) AS rankql_row
    ), weighted AS (
        -- Not hit / t alone: where all hits of a vector are NULL, DuckDB would not look at t.
        SELECT s, q, hit, p,
               CASE WHEN t IS NOT NULL THEN hit / t
                    WHEN hit = 1 THEN rankql_fail(propensity || ' must be given where an item is relevant')
                    ELSE hit END AS w
        FROM given
    ), queries AS (
        SELECT s, unnest([
                   {'line': 1, 'metric': 'PSP', 'value': rankql_checked(
                        rankql_checked(cg(w, p, k), list_sum(rankql_best(w, w > 0, k))), rankql_alone(p, pos, q, query)),
                    'part': list_sum(rankql_best(w, w > 0, k))},
                   {'line': 2, 'metric': 'PSnDCG', 'value': dcg(w, p, k) / nullif(idcg(hit, p, k), 0),
                    'part': idcg(w, p, k) / nullif(idcg(hit, p, k), 0)}], recursive := true)
        FROM weighted GROUP BY s, q
    ), summed AS (
        SELECT *, sum(value) OVER same / sum(part) OVER same AS estimate
        FROM queries WINDOW same AS (PARTITION BY s, line)
    ), found AS (
        SELECT s, line AS a, s.value AS slice, rankql_at(metric, k) AS metric,
               any_value(estimate) AS value,
               any_value(estimate) - rankql_z(confidence) * rankql_ratio_error(value, part, estimate) AS lo,
               any_value(estimate) + rankql_z(confidence) * rankql_ratio_error(value, part, estimate) AS hi,
               count(value) AS queries
        FROM summed GROUP BY s, line, metric
        UNION ALL BY NAME -- no row, but checked also where there are no rankings
        SELECT 0 AS a WHERE rankql_z(confidence) + rankql_checked(rankql_cutoff(k), rankql_threshold(threshold)) < 0
    )
    SELECT COLUMNS(lambda name: rankql_handed(name, slice)) FROM found ORDER BY s ASC NULLS LAST, a ASC NULLS LAST;
COMMENT ON MACRO TABLE propensity_scored IS 'Precision and nDCG for labels that are missing at random by item, over all rankings at once.';
