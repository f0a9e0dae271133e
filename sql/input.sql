-- What evaluate and the page for the browser call, and users do not: these macros are not in rankql.sql.

-- Columns of files: grades, scores and positions, from numbers or text.
CREATE OR REPLACE MACRO rankql_is_score(value) AS rankql_no_nan(value);

CREATE OR REPLACE MACRO rankql_is_pos(value) AS
    isfinite(value) AND value BETWEEN 1 AND 9007199254740992 AND value = floor(value);

-- DuckDB reads the text 1_0 as 10.
CREATE OR REPLACE MACRO rankql_read(value, valid, name, must) AS
    CASE WHEN valid AND NOT (typeof(value) = 'VARCHAR' AND contains(CAST(value AS VARCHAR), '_')) THEN TRY_CAST(value AS DOUBLE)
         WHEN value IS NOT NULL THEN rankql_fail(name || ' must be ' || must || ', not ' || CAST(value AS VARCHAR))
    END;

CREATE OR REPLACE MACRO rankql_read_rel(value, name) AS
    rankql_read(value, rankql_is_rel(TRY_CAST(value AS DOUBLE)), name, 'a finite number');

CREATE OR REPLACE MACRO rankql_read_score(value, name) AS
    rankql_read(value, rankql_is_score(TRY_CAST(value AS DOUBLE)), name, 'a number');

CREATE OR REPLACE MACRO rankql_read_pos(value, name) AS
    rankql_read(value, rankql_is_pos(TRY_CAST(value AS DOUBLE)), name, 'a whole number from 1');

-- A score rounded to 32 bits, as in trec_eval. Larger numbers are infinite.
CREATE OR REPLACE MACRO rankql_float32(score) AS
    CASE WHEN score IS NOT NULL THEN coalesce(
        TRY_CAST(score AS FLOAT), CASE WHEN score > 0 THEN 'inf'::FLOAT ELSE '-inf'::FLOAT END) END;

-- The two-sided p-value of Student's t with `df` degrees of freedom: twice the integral of the density above |t|, or 1 minus
-- the integral below if that is most of it. t = sqrt(df) * sinh(u), as in rankql_t_quantile.
CREATE OR REPLACE MACRO rankql_t_p(t, df) AS
    list_transform(list_transform([{'t': CAST(t AS DOUBLE), 'df': least(1e13::DOUBLE, df)}], lambda x_: {
        'df': x_['df'], 'u': asinh(abs(x_['t']) / sqrt(x_['df'])), 'central': abs(x_['t']) < 2}), lambda x_:
        list_transform([{
            'height': CASE WHEN x_['central'] THEN 0 ELSE x_['df'] * rankql_log_cosh(x_['u']) END,
            'end': CASE WHEN x_['central'] THEN 0
                        ELSE acosh(exp(least(700, rankql_log_cosh(x_['u']) + 30 / x_['df']))) END}], lambda y_:
            list_transform([2 * exp(-y_['height'] - rankql_log_beta_half(x_['df'] / 2)) * rankql_integrate_cosh(
                x_['df'], y_['height'], (y_['end'] + x_['u']) / 2, abs(y_['end'] - x_['u']) / 2)],
                lambda area: CASE WHEN x_['central'] THEN 1 - area ELSE area END)[1])[1])[1];
