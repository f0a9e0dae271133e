-- Means of weighted rows: by traffic, by revenue, or by the inverse of the sampling probability. Load common.sql first.
--
--   weighted_mean(value, weight)  the sum of value * weight / the sum of weight, its interval, and as many rows of equal weight as
--                                 tell as much: (the sum of weight)^2 / the sum of weight^2

CREATE OR REPLACE MACRO rankql_row_weight(weight) AS
    CASE WHEN weight IS NULL
         THEN rankql_fail('weight must be given in every row: it is NULL. Use 0 where a row does not count')
         WHEN TRY_CAST(weight AS DOUBLE) > 0 AND TRY_CAST(weight AS DOUBLE) NOT BETWEEN 1e-100 AND 1e100
         THEN rankql_fail('weight must be 0 or from 1e-100 to 1e100, not ' || rankql_text(weight)
                          || '. Only ratios matter: divide all by the same number')
         ELSE rankql_amount(weight, 'weight') END;

-- The mean of rows {'value', 'weight'} with weights above 0, what its interval needs, and the effective number of rows.
-- `odds` is the weight of a row over that of all others. The standard error is the jackknife's, which leaves out one row at a
-- time; the degrees of freedom are Satterthwaite's for it, about n_eff - 1. With equal weights, both are those of Student's t.
-- tests/run_simulation.py measures how often the interval contains the true mean.
CREATE OR REPLACE MACRO rankql_weighted_rows(rows) AS
    list_transform([rows], lambda list_: list_transform([{
        'rows': list_, 'total': list_aggregate(list_transform(list_, lambda r: r['weight']), 'fsum'),
        'sum': list_aggregate(list_transform(list_, lambda r: r['value'] * r['weight']), 'fsum')}], lambda a_:
    list_transform([{
        'mean': a_['sum'] / a_['total'], 'n': len(a_['rows']), 'total': a_['total'], 'weights': list_sum(
            list_transform(a_['rows'], lambda r: r['weight'] * r['weight'])),
        'rows': list_transform(a_['rows'], lambda r: {
            'odds': r['weight'] / nullif(a_['total'] - r['weight'], 0),
            'rest': r['weight'] * (r['value'] - a_['sum'] / a_['total']),
            'off': r['weight'] / nullif(a_['total'] - r['weight'], 0) * (r['value'] - a_['sum'] / a_['total'])})}], lambda b_:
    list_transform([{
        -- A row with almost all of the weight leaves no digits of the others.
        'error': CASE WHEN list_bool_and(list_transform(b_['rows'], lambda r: coalesce(r['odds'] <= 1e10, false))) THEN sqrt((1 - 1 / b_['n']) * list_sum(list_transform(b_['rows'], lambda r: r['off'] * r['off']))) END,
        'skewness': list_avg(list_transform(b_['rows'], lambda r: pow(r['rest'], 3)))
            / nullif(pow(list_avg(list_transform(b_['rows'], lambda r: pow(r['rest'], 2))), 1.5), 0),
        'odds': list_sum(list_transform(b_['rows'], lambda r: r['odds'])),
        'squares': list_sum(list_transform(b_['rows'], lambda r: pow(r['odds'], 2))),
        'fourths': list_sum(list_transform(b_['rows'], lambda r: pow(r['odds'], 4)))}], lambda c_: {
        'mean': b_['mean'], 'n_eff': pow(b_['total'], 2) / b_['weights'], 'error': c_['error'], 'skewness': c_['skewness'],
        'df': greatest(1, least(b_['n'] - 1, pow(c_['odds'], 2) / (c_['squares'] + pow(c_['squares'], 2) - c_['fourths'])))
        })[1])[1])[1])[1];

-- Rows are sorted, so that their order does not change the last digits.
CREATE OR REPLACE MACRO weighted_mean(value, weight, confidence := 0.95) AS
    list_transform([list_transform([rankql_weighted_rows(
        list_sort(list({'value': rankql_finite(value, 'value'), 'weight': rankql_row_weight(weight)})
            FILTER (WHERE CASE WHEN rankql_row_weight(weight) > 0 THEN value IS NOT NULL ELSE false END), 'ASC', 'NULLS LAST'))],
        lambda y_: {'mean': y_['mean'], 'n_eff': y_['n_eff'],
            'width': y_['error'] * rankql_t_quantile((1 + rankql_confidence(confidence)) / 2, y_['df'])})[1]],
        lambda x_: {'mean': x_['mean'], 'lo': x_['mean'] - x_['width'], 'hi': x_['mean'] + x_['width'],
                    'n_eff': x_['n_eff']})[1];
COMMENT ON MACRO weighted_mean IS 'Weighted mean with its confidence interval and the effective number of rows.';
