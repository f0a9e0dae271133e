-- not executed: no test of rankql runs BigQuery
WITH `rankql_rows` AS (
  SELECT
    `user` AS `user`,
    CASE
      WHEN abs(CAST(`rel` AS FLOAT64)) <= 1.7976931348623157e308
      THEN CAST(`rel` AS FLOAT64)
      WHEN NOT `rel` IS NULL
      THEN error('rel must be a finite number, not ' || CAST(`rel` AS STRING))
      ELSE NULL
    END AS `rankql_rel`,
    CASE
      WHEN CAST(`pos` AS FLOAT64) BETWEEN 1 AND 9007199254740992
      AND CAST(`pos` AS FLOAT64) = floor(CAST(`pos` AS FLOAT64))
      THEN CAST(`pos` AS FLOAT64)
      WHEN NOT `pos` IS NULL
      THEN error('pos must be a whole number from 1, not ' || CAST(`pos` AS STRING))
      ELSE NULL
    END AS `rankql_pos`
  FROM `shown`
)
SELECT
  `user`,
  CASE
    WHEN count(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END) > max(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END) - min(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END) + 1
    THEN error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN CAST(count(CASE WHEN `rankql_rel` >= 1.0 THEN 1 ELSE NULL END) AS FLOAT64) > 0
      THEN coalesce(
        1 / min(
          (
            CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END + CASE WHEN `rankql_rel` >= 1.0 THEN 0 ELSE NULL END
          )
        ),
        0
      )
      ELSE NULL
    END
  END AS `rr`
FROM `rankql_rows`
GROUP BY
  `user`
-- SHA-256 of LONG in tests/support/printed_dialects.py: 5743d239a835311ec539e7122f6a3141c527701efef14733b8cc0784bd23bcba
