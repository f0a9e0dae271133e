-- Rating: errors of predicted scores against grades. Load common.sql first.
--
--   rmse(rel, score)  sqrt(avg((rel - score)^2))
--   mse(rel, score)   avg((rel - score)^2)
--   mae(rel, score)   avg(abs(rel - score))

-- The score is checked in a condition, because DuckDB skips the checks of a subtrahend if every grade is NULL.
CREATE OR REPLACE MACRO rankql_error(rel, score) AS
    CASE WHEN rankql_holds_no_numbers(score) THEN rankql_fail(rankql_no_number(score, 'score'))
         WHEN score IS NOT NULL AND NOT isfinite(CAST(score AS DOUBLE))
         THEN rankql_fail('score must be a finite number, not ' || rankql_text(score))
         ELSE rankql_grade(rel) - CAST(score AS DOUBLE) END;

CREATE OR REPLACE MACRO rmse(rel, score) AS sqrt(avg(pow(rankql_error(rel, score), 2)));
COMMENT ON MACRO rmse IS 'Root mean squared error of scores against grades. NULL if no row has both.';

CREATE OR REPLACE MACRO mse(rel, score) AS avg(pow(rankql_error(rel, score), 2));
COMMENT ON MACRO mse IS 'Mean squared error of scores against grades. NULL if no row has both.';

CREATE OR REPLACE MACRO mae(rel, score) AS avg(abs(rankql_error(rel, score)));
COMMENT ON MACRO mae IS 'Mean absolute error of scores against grades. NULL if no row has both.';
