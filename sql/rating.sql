-- Rating: how far a predicted score is from the grade. Load common.sql first.

CREATE OR REPLACE MACRO rankql_error(rel, score) AS
    rankql_grade(rel) - CASE WHEN isfinite(CAST(rankql_score(score) AS DOUBLE)) THEN CAST(score AS DOUBLE)
                             WHEN score IS NOT NULL THEN error('score must be a finite number, not ' || CAST(score AS VARCHAR)) END;


CREATE OR REPLACE MACRO rmse(rel, score) AS sqrt(avg(pow(rankql_error(rel, score), 2)));

CREATE OR REPLACE MACRO mae(rel, score) AS avg(abs(rankql_error(rel, score)));
