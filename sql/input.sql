-- Columns of the inputs of rankql.evaluate, which creates these macros itself: they are not in rankql.sql.

-- Columns of files: grades, scores and positions, from numbers or text.
CREATE OR REPLACE MACRO rankql_is_rel(value) AS isfinite(value);

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
