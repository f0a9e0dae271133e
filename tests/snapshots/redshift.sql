-- not executed: no test of rankql runs Redshift
WITH "rankql_rows" AS (
  SELECT
    "user" AS "user",
    CASE
      WHEN abs(CAST("rel" AS DOUBLE PRECISION)) <= 1.7976931348623157e308
      THEN CAST("rel" AS DOUBLE PRECISION)
      WHEN NOT "rel" IS NULL
      THEN CAST('rel must be a finite number, not ' || CAST("rel" AS VARCHAR(MAX)) AS DOUBLE PRECISION)
      ELSE NULL
    END AS "rankql_rel",
    CASE
      WHEN CAST("pos" AS DOUBLE PRECISION) BETWEEN 1 AND 9007199254740992
      AND CAST("pos" AS DOUBLE PRECISION) = floor(CAST("pos" AS DOUBLE PRECISION))
      THEN CAST("pos" AS DOUBLE PRECISION)
      WHEN NOT "pos" IS NULL
      THEN CAST('pos must be a whole number from 1, not ' || CAST("pos" AS VARCHAR(MAX)) AS DOUBLE PRECISION)
      ELSE NULL
    END AS "rankql_pos"
  FROM "shown"
)
SELECT
  "user",
  CASE
    WHEN count(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) > max(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) - min(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) + 1
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE PRECISION)
    ELSE CASE
      WHEN CAST(count(CASE WHEN "rankql_rel" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE PRECISION) > 0
      THEN coalesce(
        CAST(1 AS DOUBLE PRECISION) / min(
          (
            CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END + CASE WHEN "rankql_rel" >= 1.0 THEN 0 ELSE NULL END
          )
        ),
        0
      )
      ELSE NULL
    END
  END AS "rr"
FROM "rankql_rows"
GROUP BY
  "user"
-- SHA-256 of LONG in tests/support/printed_dialects.py: 62da7b5a63fbfb9a82b1fdfe453f9e5b3a04b813a9b4178ad1f9182125f8dddc
