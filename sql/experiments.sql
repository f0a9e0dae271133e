-- Experiments: randomised arms compared by the moments of their units. Load common.sql first.
-- One row per unit (user): aggregate its events first. States merge if no unit is in two of them.

CREATE OR REPLACE MACRO rankql_finite(value, name) AS rankql_number(value, true, name, 'a finite number');

-- value, divisor and before are NULL for the same units.
CREATE OR REPLACE MACRO rankql_moments(v, d, b) AS {
    'n': count(v), 'value': coalesce(favg(v), 0), 'divisor': coalesce(favg(d), 0), 'before': coalesce(favg(b), 0),
    'vv': coalesce(var_pop(v), 0) * count(v), 'vd': coalesce(covar_pop(v, d), 0) * count(v),
    'dd': coalesce(var_pop(d), 0) * count(v), 'vb': coalesce(covar_pop(v, b), 0) * count(v),
    'db': coalesce(covar_pop(d, b), 0) * count(v), 'bb': coalesce(var_pop(b), 0) * count(v)};

CREATE OR REPLACE MACRO experiment_moments(value, divisor := 1, before := 0) AS rankql_moments(
    CASE WHEN divisor IS NOT NULL THEN rankql_finite(value, 'value') END,
    CASE WHEN value IS NOT NULL THEN rankql_amount(divisor, 'divisor') END,
    CASE WHEN value IS NULL OR divisor IS NULL THEN NULL
         WHEN before IS NULL THEN rankql_fail('before is NULL for a unit. Use coalesce(before, avg(before) OVER ())')
         ELSE rankql_finite(before, 'before') END);
COMMENT ON MACRO experiment_moments IS 'The state of an arm: its number of units, means and sums of squares.';

-- The sum of products of two states, whose means differ by `one` and `other` (Chan, Golub and LeVeque 1983).
CREATE OR REPLACE MACRO rankql_merge_products(a, b, field, one, other) AS
    a[field] + b[field] + (b[one] - a[one]) * (b[other] - a[other]) * a['n'] * b['n'] / greatest(1, a['n'] + b['n']);

CREATE OR REPLACE MACRO rankql_merge_means(a, b, field) AS
    a[field] + (b[field] - a[field]) * b['n'] / greatest(1, a['n'] + b['n']);

CREATE OR REPLACE MACRO experiment_merge(state) AS list_reduce(list(state) FILTER (WHERE state IS NOT NULL), lambda a, b: {
    'n': a['n'] + b['n'], 'value': rankql_merge_means(a, b, 'value'), 'divisor': rankql_merge_means(a, b, 'divisor'),
    'before': rankql_merge_means(a, b, 'before'),
    'vv': rankql_merge_products(a, b, 'vv', 'value', 'value'), 'vd': rankql_merge_products(a, b, 'vd', 'value', 'divisor'),
    'dd': rankql_merge_products(a, b, 'dd', 'divisor', 'divisor'), 'vb': rankql_merge_products(a, b, 'vb', 'value', 'before'),
    'db': rankql_merge_products(a, b, 'db', 'divisor', 'before'), 'bb': rankql_merge_products(a, b, 'bb', 'before', 'before')});
COMMENT ON MACRO experiment_merge IS 'The state of the units of several states, such as those of shards.';

-- The steps of a difference. Each takes the struct of the step before, which it binds once.

-- The mean of an arm, or its ratio of means. By the delta method, a ratio varies like the mean of
-- z = (value - ratio * divisor) / mean of divisor. Sums of squares up to `least` are rounding errors.
CREATE OR REPLACE MACRO rankql_ratio(s) AS s['value'] / nullif(s['divisor'], 0);

CREATE OR REPLACE MACRO rankql_arm(state) AS list_transform([state], lambda s_: {
    'n': CAST(s_['n'] AS DOUBLE), 'mean': rankql_ratio(s_), 'before': s_['before'], 'bb': s_['bb'],
    'zz': (s_['vv'] - 2 * rankql_ratio(s_) * s_['vd'] + rankql_ratio(s_) ** 2 * s_['dd']) / s_['divisor'] ** 2,
    'zb': (s_['vb'] - rankql_ratio(s_) * s_['db']) / s_['divisor'],
    'least': 1e-12 * (s_['vv'] + rankql_ratio(s_) ** 2 * s_['dd']) / s_['divisor'] ** 2
             + 1e-24 * s_['n'] * rankql_ratio(s_) ** 2})[1];

-- The weight of an arm in the slope of z on `before`, the same in both arms. From 10 units per arm the error of the
-- difference becomes smallest; below that, such a slope would rest on the few units of the smaller arm.
CREATE OR REPLACE MACRO rankql_weigh_arms(pair) AS list_transform([pair], lambda p_: {
    't': p_['t'], 'c': p_['c'], 'alpha': p_['alpha'], 'start': p_['start'],
    'wt': rankql_slope_weight(p_['t']['n'], p_['c']['n']), 'wc': rankql_slope_weight(p_['c']['n'], p_['t']['n'])})[1];

CREATE OR REPLACE MACRO rankql_slope_weight(n, other) AS
    CASE WHEN least(n, other) < 3 THEN 0 WHEN least(n, other) < 10 THEN 1 ELSE 1 / (n * (n - 1)) END;

-- The slope, the share of each arm in it, and the mean of `before` over both.
CREATE OR REPLACE MACRO rankql_slope(pair) AS list_transform([pair], lambda p_: {
    't': p_['t'], 'c': p_['c'], 'alpha': p_['alpha'], 'start': p_['start'],
    'theta': coalesce((p_['wt'] * p_['t']['zb'] + p_['wc'] * p_['c']['zb']) / rankql_slope_base(p_), 0),
    'st': coalesce(p_['wt'] * p_['t']['bb'] / rankql_slope_base(p_), 0),
    'sc': coalesce(p_['wc'] * p_['c']['bb'] / rankql_slope_base(p_), 0),
    'before': (p_['t']['n'] * p_['t']['before'] + p_['c']['n'] * p_['c']['before'])
              / greatest(1, p_['t']['n'] + p_['c']['n'])})[1];

CREATE OR REPLACE MACRO rankql_slope_base(p) AS nullif(p['wt'] * p['t']['bb'] + p['wc'] * p['c']['bb'], 0);

-- The sum of squares that `before` does not explain, and with it the squared standard error. The slope takes one degree of
-- freedom, by its shares, and its error counts if the means of `before` differ, as in an analysis of covariance.
CREATE OR REPLACE MACRO rankql_squares(arm, theta) AS arm['zz'] - 2 * theta * arm['zb'] + theta ** 2 * arm['bb'];

CREATE OR REPLACE MACRO rankql_error2(arm, theta, share, apart) AS
    CASE WHEN arm['n'] < 2 THEN NULL WHEN rankql_squares(arm, theta) <= arm['least'] THEN 0
         ELSE rankql_squares(arm, theta) / (arm['n'] - 1 - share) / arm['n']
              * (1 + coalesce(arm['n'] * (share * apart) ** 2 / nullif(arm['bb'], 0), 0)) END;

CREATE OR REPLACE MACRO rankql_errors(pair) AS list_transform([pair], lambda p_: {
    'alpha': p_['alpha'], 'start': p_['start'], 'nt': p_['t']['n'], 'nc': p_['c']['n'],
    'dft': p_['t']['n'] - 1 - p_['st'], 'dfc': p_['c']['n'] - 1 - p_['sc'],
    't': p_['t']['mean'] - p_['theta'] * (p_['t']['before'] - p_['before']),
    'c': p_['c']['mean'] - p_['theta'] * (p_['c']['before'] - p_['before']),
    'vt': rankql_error2(p_['t'], p_['theta'], p_['st'], p_['t']['before'] - p_['c']['before']),
    'vc': rankql_error2(p_['c'], p_['theta'], p_['sc'], p_['t']['before'] - p_['c']['before'])})[1];

-- A sequence that starts at `start` units per arm: `units` is the number of units times rho^2, where rho makes it narrowest
-- at m * ln(m) of m = 2 * start units, for 95% (Waudby-Smith et al. 2024).
CREATE OR REPLACE MACRO rankql_freedom(pair) AS list_transform([pair], lambda p_: {
    'alpha': p_['alpha'], 'start': p_['start'], 't': p_['t'], 'c': p_['c'], 'vt': p_['vt'], 'vc': p_['vc'],
    'error2': nullif(p_['vt'] + p_['vc'], 0),
    'df': 1 / ((p_['vt'] / nullif(p_['vt'] + p_['vc'], 0)) ** 2 / p_['dft']
               + (p_['vc'] / nullif(p_['vt'] + p_['vc'], 0)) ** 2 / p_['dfc']),
    'units': CASE WHEN least(p_['nt'], p_['nc']) >= p_['start']
                  THEN 8.783 * (p_['nt'] + p_['nc']) / (2 * p_['start'] * ln(2 * p_['start'])) END})[1];

-- p, and half the interval in standard errors.
CREATE OR REPLACE MACRO rankql_reach(pair) AS list_transform([pair], lambda p_: {
    't': p_['t'], 'c': p_['c'], 'vt': p_['vt'], 'vc': p_['vc'], 'error2': p_['error2'], 'df': p_['df'],
    'p': CASE WHEN p_['start'] IS NULL THEN rankql_t_p((p_['t'] - p_['c']) / sqrt(p_['error2']), p_['df'])
              WHEN p_['units'] IS NOT NULL AND p_['error2'] IS NOT NULL THEN least(1, exp((ln(1 + p_['units'])
                   - (p_['t'] - p_['c']) ** 2 / p_['error2'] * p_['units'] / (1 + p_['units'])) / 2)) END,
    'reach': CASE WHEN p_['error2'] IS NULL THEN NULL
                  WHEN p_['start'] IS NULL THEN rankql_t_quantile(1 - p_['alpha'] / 2, p_['df'])
                  ELSE sqrt((1 + 1 / p_['units']) * (ln(1 + p_['units']) - 2 * ln(p_['alpha']))) END})[1];

-- The lift by Fieller's theorem, which is the delta method where the mean of the control is many standard errors from 0. It
-- excludes 0 exactly if the difference does. Without a lift: the interval of the control's mean contains 0 (share >= 1).
CREATE OR REPLACE MACRO rankql_lift(pair) AS list_transform([pair], lambda p_: {
    't': p_['t'], 'c': p_['c'], 'vt': p_['vt'], 'vc': p_['vc'], 'error2': p_['error2'], 'df': p_['df'], 'p': p_['p'],
    'reach': p_['reach'], 'ratio': CASE WHEN p_['c'] > 0 THEN p_['t'] / p_['c'] END,
    'share': p_['reach'] ** 2 * p_['vc'] / p_['c'] ** 2})[1];

CREATE OR REPLACE MACRO rankql_lift_end(p, sign) AS
    CASE WHEN p['share'] < 1 THEN (p['ratio'] + sign * p['reach'] / p['c'] * sqrt(greatest(0,
        p['vt'] * (1 - p['share']) + p['ratio'] ** 2 * p['vc']))) / (1 - p['share']) - 1 END;

CREATE OR REPLACE MACRO rankql_difference(pair) AS list_transform([pair], lambda p_: {
    'control': p_['c'], 'treatment': p_['t'], 'difference': p_['t'] - p_['c'],
    'lo': p_['t'] - p_['c'] - p_['reach'] * sqrt(p_['error2']), 'hi': p_['t'] - p_['c'] + p_['reach'] * sqrt(p_['error2']),
    'p': p_['p'], 'lift': CASE WHEN p_['share'] < 1 THEN p_['ratio'] - 1 END,
    'lift_lo': rankql_lift_end(p_, -1), 'lift_hi': rankql_lift_end(p_, 1), 'error': sqrt(p_['error2']), 'df': p_['df']})[1];

CREATE OR REPLACE MACRO rankql_start(burn_in) AS
    CASE WHEN burn_in IS NOT NULL
         THEN rankql_argument(burn_in, rankql_option(burn_in) >= 2, 'burn_in', ' must be a number of units from 2') END;

CREATE OR REPLACE MACRO experiment_difference(treatment, control, confidence := 0.95, burn_in := NULL) AS
    rankql_difference(rankql_lift(rankql_reach(rankql_freedom(rankql_errors(rankql_slope(rankql_weigh_arms({
        't': rankql_arm(treatment), 'c': rankql_arm(control), 'start': rankql_start(burn_in),
        'alpha': 1 - rankql_confidence(confidence)})))))));
COMMENT ON MACRO experiment_difference IS 'The difference of two arms from their states, with its interval, p-value and lift.';
