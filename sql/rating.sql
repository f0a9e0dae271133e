-- Rating: how far a predicted score is from the grade. Load common.sql first.

CREATE OR REPLACE MACRO rankql_error(rel, score) AS
    rankql_grade(rel) - CASE WHEN isfinite(CAST(rankql_score(score) AS DOUBLE)) THEN CAST(score AS DOUBLE)
                             WHEN score IS NOT NULL
                             THEN rankql_fail('score must be a finite number, not ' || rankql_text(score)) END;


CREATE OR REPLACE MACRO rmse(rel, score) AS sqrt(avg(pow(rankql_error(rel, score), 2)));
COMMENT ON MACRO rmse IS 'Root mean squared error of scores against grades, NULL where no row has both.';

CREATE OR REPLACE MACRO mse(rel, score) AS avg(pow(rankql_error(rel, score), 2));
COMMENT ON MACRO mse IS 'Mean squared error of scores against grades, NULL where no row has both.';

CREATE OR REPLACE MACRO mae(rel, score) AS avg(abs(rankql_error(rel, score)));
COMMENT ON MACRO mae IS 'Mean absolute error of scores against grades, NULL where no row has both.';
