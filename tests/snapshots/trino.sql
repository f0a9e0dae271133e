-- not executed: no test of rankql runs Trino
WITH "rankql_rows" AS (
  SELECT
    "user" AS "user",
    CASE
      WHEN abs(CAST("rel" AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST("rel" AS DOUBLE)
      WHEN NOT "rel" IS NULL
      THEN fail(
        CONCAT(CAST('rel must be a finite number, not ' AS VARCHAR), CAST("rel" AS VARCHAR))
      )
      ELSE NULL
    END AS "rankql_rel",
    CASE
      WHEN CAST("pos" AS DOUBLE) BETWEEN 1 AND 9007199254740992
      AND CAST("pos" AS DOUBLE) = floor(CAST("pos" AS DOUBLE))
      THEN CAST("pos" AS DOUBLE)
      WHEN NOT "pos" IS NULL
      THEN fail(
        CONCAT(CAST('pos must be a whole number from 1, not ' AS VARCHAR), CAST("pos" AS VARCHAR))
      )
      ELSE NULL
    END AS "rankql_pos"
  FROM "shown"
)
SELECT
  "user",
  CASE
    WHEN count(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) > max(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) - min(CASE WHEN "rankql_pos" <= 10.0 THEN "rankql_pos" ELSE NULL END) + 1
    THEN fail(
      CONCAT(
        CAST('several items share a position: GROUP BY the query, or number positions with row_number()' AS VARCHAR),
        CAST(CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS VARCHAR)
      )
    )
    ELSE CASE
      WHEN CAST(count(CASE WHEN "rankql_rel" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN coalesce(
        CAST(1 AS DOUBLE) / min(
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
-- SHA-256 of LONG in tests/support/printed_dialects.py: 42ed64267e22394e81186459c08e98826c7ecdfe0d03e1bfac7cb3d265bca9d4
