-- not executed: no test of rankql runs Snowflake
WITH "RANKQL_ROWS" AS (
  SELECT
    "USER" AS "USER",
    CASE
      WHEN abs(CAST("REL" AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST("REL" AS DOUBLE)
      WHEN NOT "REL" IS NULL
      THEN CAST('rel must be a finite number, not ' || CAST("REL" AS VARCHAR) AS DOUBLE)
      ELSE NULL
    END AS "RANKQL_REL",
    CASE
      WHEN CAST("POS" AS DOUBLE) BETWEEN 1 AND 9007199254740992
      AND CAST("POS" AS DOUBLE) = floor(CAST("POS" AS DOUBLE))
      THEN CAST("POS" AS DOUBLE)
      WHEN NOT "POS" IS NULL
      THEN CAST('pos must be a whole number from 1, not ' || CAST("POS" AS VARCHAR) AS DOUBLE)
      ELSE NULL
    END AS "RANKQL_POS"
  FROM "SHOWN"
)
SELECT
  "USER",
  CASE
    WHEN count(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END) > max(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END) - min(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END) + 1
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN CAST(count(CASE WHEN "RANKQL_REL" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN coalesce(
        1 / min(
          (
            CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END + CASE WHEN "RANKQL_REL" >= 1.0 THEN 0 ELSE NULL END
          )
        ),
        0
      )
      ELSE NULL
    END
  END AS "RR"
FROM "RANKQL_ROWS"
GROUP BY
  "USER"
-- SHA-256 of LONG in tests/support/printed_dialects.py: f1ea19e7a708645ac14a95be74e9572788d1e55f40806843976276b9dbbac322
