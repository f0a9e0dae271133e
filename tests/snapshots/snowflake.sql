-- not executed: no test of rankql runs Snowflake
WITH "RANKQL_ROWS" AS (
  SELECT
    "USER" AS "USER",
    (
      pow(
        2.0,
        CASE
          WHEN abs(CAST("REL" AS DOUBLE)) <= 1.7976931348623157e308
          THEN CAST("REL" AS DOUBLE)
          WHEN NOT "REL" IS NULL
          THEN CAST('rel must be a finite number, not ' || CAST("REL" AS VARCHAR) AS DOUBLE)
          ELSE NULL
        END
      ) - 1
    ) AS "RANKQL_REL",
    CASE
      WHEN CAST("POS" AS DOUBLE) BETWEEN 1 AND 9007199254740992
      AND CAST("POS" AS DOUBLE) = floor(CAST("POS" AS DOUBLE))
      THEN CAST("POS" AS DOUBLE)
      WHEN NOT "POS" IS NULL
      THEN CAST('pos must be a whole number from 1, not ' || CAST("POS" AS VARCHAR) AS DOUBLE)
      ELSE NULL
    END AS "RANKQL_POS",
    CASE
      WHEN abs(CAST("REL" AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST("REL" AS DOUBLE)
      WHEN NOT "REL" IS NULL
      THEN CAST('rel must be a finite number, not ' || CAST("REL" AS VARCHAR) AS DOUBLE)
      ELSE NULL
    END AS "RANKQL_REL_3",
    "REL" AS "REL",
    "POS" AS "POS",
    "DAY" AS "DAY"
  FROM "SHOWN"
  WHERE
    "DAY" >= 3
), "RANKQL_ROWS_2" AS (
  SELECT
    *,
    CASE
      WHEN abs(CAST("RANKQL_REL" AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST("RANKQL_REL" AS DOUBLE)
      WHEN NOT "RANKQL_REL" IS NULL
      THEN CAST('rel must be a finite number, not ' || CAST("RANKQL_REL" AS VARCHAR) AS DOUBLE)
      ELSE NULL
    END AS "RANKQL_REL_2",
    CAST(row_number() OVER (
      PARTITION BY "USER"
      ORDER BY coalesce((
        "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
      ), 1e16)
    ) AS DOUBLE) AS "RANKQL_NTH",
    CAST(count(CASE WHEN "RANKQL_REL_3" < 1.0 THEN "RANKQL_POS" ELSE NULL END) OVER (
      PARTITION BY "USER"
      ORDER BY coalesce("RANKQL_POS", 1e16), "RANKQL_REL_3"
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS DOUBLE) AS "RANKQL_ABOVE",
    CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) OVER (PARTITION BY "USER") AS DOUBLE) AS "RANKQL_RELEVANT",
    CAST(count(CASE WHEN "RANKQL_REL_3" < 1.0 THEN 1 ELSE NULL END) OVER (PARTITION BY "USER") AS DOUBLE) AS "RANKQL_NONRELEVANT",
    CASE
      WHEN "RANKQL_REL_3" > 4.0
      THEN CAST('rel must not exceed max_rel: ' || CAST("REL" AS VARCHAR) || ' is above ' || '4' AS DOUBLE)
      ELSE (
        CAST("REL" AS DOUBLE) * CASE WHEN CAST("REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
      )
    END AS "RANKQL_GAIN",
    CAST(row_number() OVER (
      PARTITION BY "USER"
      ORDER BY CASE
        WHEN CASE WHEN (
          "RANKQL_REL_3" > 0
        ) THEN CAST("REL" AS DOUBLE) ELSE NULL END > 0
        THEN CASE WHEN (
          "RANKQL_REL_3" > 0
        ) THEN CAST("REL" AS DOUBLE) ELSE NULL END
        ELSE 0
      END DESC
    ) AS DOUBLE) AS "RANKQL_PLACE_2"
  FROM "RANKQL_ROWS"
), "RANKQL_ROWS_3" AS (
  SELECT
    *,
    CAST(row_number() OVER (
      PARTITION BY "USER"
      ORDER BY CASE
        WHEN CASE WHEN (
          "RANKQL_REL_2" > 0
        ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END > 0
        THEN CASE WHEN (
          "RANKQL_REL_2" > 0
        ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END
        ELSE 0
      END DESC
    ) AS DOUBLE) AS "RANKQL_PLACE",
    sum(
      CASE
        WHEN "RANKQL_GAIN" > 0
        AND CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END > 0
        THEN ln(greatest(1 - (
          pow(2.0, "RANKQL_GAIN" - 4.0) - 0.0625
        ), 1e-300))
        ELSE NULL
      END
    ) OVER (
      PARTITION BY "USER"
      ORDER BY coalesce(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END, 1e16)
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS "RANKQL_ARRIVAL"
  FROM "RANKQL_ROWS_2"
)
SELECT
  "USER",
  CASE
    WHEN count(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END) > max(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END)
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_2" * CASE WHEN CAST("RANKQL_REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE" <= 10.0
              THEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END / (
                ln("RANKQL_PLACE" + 1) / 0.6931471805599453
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) > 1.0000000000009095
      THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
      WHEN (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_2" * CASE WHEN CAST("RANKQL_REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE" <= 10.0
              THEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END / (
                ln("RANKQL_PLACE" + 1) / 0.6931471805599453
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) >= 0.9999999999990905
      THEN 1.0
      ELSE (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_2" * CASE WHEN CAST("RANKQL_REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE" <= 10.0
              THEN CASE WHEN (
                "RANKQL_REL_2" > 0
              ) THEN CAST("RANKQL_REL" AS DOUBLE) ELSE NULL END / (
                ln("RANKQL_PLACE" + 1) / 0.6931471805599453
              )
              ELSE NULL
            END
          )
        ) + 0.0
      )
    END
  END AS "ndcg(exp2_gain(rel), pos, 10)",
  CASE
    WHEN count("RANKQL_POS") > max("RANKQL_POS")
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN CASE
        WHEN (
          CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            "RANKQL_NTH" / (
              "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
            ),
            1
          ),
          0
        )
        ELSE NULL
      END > 1.0000000000009095
      THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
      WHEN CASE
        WHEN (
          CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            "RANKQL_NTH" / (
              "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
            ),
            1
          ),
          0
        )
        ELSE NULL
      END >= 0.9999999999990905
      THEN 1.0
      ELSE CASE
        WHEN (
          CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            "RANKQL_NTH" / (
              "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
            ),
            1
          ),
          0
        )
        ELSE NULL
      END
    END
  END AS "AP",
  CASE
    WHEN count("RANKQL_POS") > max("RANKQL_POS")
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN coalesce(
        sum(
          CASE
            WHEN (
              "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
            ) > 0
            THEN (
              1 - least(CAST("RANKQL_ABOVE" AS DOUBLE), "RANKQL_RELEVANT") / greatest(least("RANKQL_RELEVANT", "RANKQL_NONRELEVANT"), 1)
            )
            ELSE NULL
          END
        ),
        0
      ) / CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
      ELSE NULL
    END
  END AS "BPREF",
  CASE
    WHEN count(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END) > max(CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END)
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN max("RANKQL_GAIN") > 0
      THEN coalesce(
        sum(
          CASE
            WHEN "RANKQL_GAIN" > 0
            THEN exp(
              greatest(
                coalesce("RANKQL_ARRIVAL", 0) + (
                  (
                    CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END - 1
                  ) * -0.10536051565782628
                ),
                -600
              )
            ) * (
              pow(2.0, "RANKQL_GAIN" - 4.0) - 0.0625
            ) / CASE WHEN "RANKQL_POS" <= 10.0 THEN "RANKQL_POS" ELSE NULL END
            ELSE NULL
          END
        ),
        0
      )
      ELSE NULL
    END
  END AS "ERR",
  CASE
    WHEN count("RANKQL_POS") > max("RANKQL_POS")
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN (
        0.2 * coalesce(
          sum(
            CASE
              WHEN "RANKQL_REL_3" >= 1.0
              THEN 1.0
              WHEN NOT "RANKQL_REL_3" IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN "RANKQL_POS" <= 3136.0 THEN "RANKQL_POS" - 1 ELSE NULL END)
          ),
          0
        )
      ) > 1.0000000000009095
      THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
      WHEN (
        0.2 * coalesce(
          sum(
            CASE
              WHEN "RANKQL_REL_3" >= 1.0
              THEN 1.0
              WHEN NOT "RANKQL_REL_3" IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN "RANKQL_POS" <= 3136.0 THEN "RANKQL_POS" - 1 ELSE NULL END)
          ),
          0
        )
      ) >= 0.9999999999990905
      THEN 1.0
      ELSE (
        0.2 * coalesce(
          sum(
            CASE
              WHEN "RANKQL_REL_3" >= 1.0
              THEN 1.0
              WHEN NOT "RANKQL_REL_3" IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN "RANKQL_POS" <= 3136.0 THEN "RANKQL_POS" - 1 ELSE NULL END)
          ),
          0
        )
      )
    END
  END AS "RBP",
  CASE
    WHEN count("RANKQL_POS") > max("RANKQL_POS")
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE (
      count(
        CASE
          WHEN (
            "RANKQL_POS" + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
          ) <= "RANKQL_RELEVANT"
          THEN 1
          ELSE NULL
        END
      ) / nullif(CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE), 0)
    )
  END AS "RP",
  CASE
    WHEN count(CASE WHEN "RANKQL_POS" <= 2.0 THEN "RANKQL_POS" ELSE NULL END) > max(CASE WHEN "RANKQL_POS" <= 2.0 THEN "RANKQL_POS" ELSE NULL END)
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_3" * CASE WHEN CAST("REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT "REL" IS NULL AND CAST("POS" AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST("POS" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST("POS" AS BIGINT) > 2
                    THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("POS" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                    ELSE NULL
                  END
                )
                ELSE NULL
              END
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE_2" <= 2.0
              THEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST("RANKQL_PLACE_2" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST("RANKQL_PLACE_2" AS BIGINT) > 2
                  THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("RANKQL_PLACE_2" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                  ELSE NULL
                END
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) > 1.0000000000009095
      THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
      WHEN (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_3" * CASE WHEN CAST("REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT "REL" IS NULL AND CAST("POS" AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST("POS" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST("POS" AS BIGINT) > 2
                    THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("POS" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                    ELSE NULL
                  END
                )
                ELSE NULL
              END
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE_2" <= 2.0
              THEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST("RANKQL_PLACE_2" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST("RANKQL_PLACE_2" AS BIGINT) > 2
                  THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("RANKQL_PLACE_2" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                  ELSE NULL
                END
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) >= 0.9999999999990905
      THEN 1.0
      ELSE (
        (
          coalesce(
            sum(
              (
                "RANKQL_REL_3" * CASE WHEN CAST("REL" AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT "REL" IS NULL AND CAST("POS" AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST("POS" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST("POS" AS BIGINT) > 2
                    THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("POS" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                    ELSE NULL
                  END
                )
                ELSE NULL
              END
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END > 0
              AND "RANKQL_PLACE_2" <= 2.0
              THEN CASE WHEN (
                "RANKQL_REL_3" > 0
              ) THEN CAST("REL" AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST("RANKQL_PLACE_2" AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST("RANKQL_PLACE_2" AS BIGINT) > 2
                  THEN CAST('discounts has 2 entries, but position ' || CAST(CAST("RANKQL_PLACE_2" AS BIGINT) AS VARCHAR) || ' is counted: give more, or a lower k' AS DOUBLE)
                  ELSE NULL
                END
              )
              ELSE NULL
            END
          )
        ) + 0.0
      )
    END
  END AS "BOOSTED",
  CASE
    WHEN count(CASE WHEN "RANKQL_POS" <= 5.0 THEN "RANKQL_POS" ELSE NULL END) > max(CASE WHEN "RANKQL_POS" <= 5.0 THEN "RANKQL_POS" ELSE NULL END)
    THEN CAST('several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS VARCHAR) AS DOUBLE)
    ELSE CASE
      WHEN CAST(count(CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN CASE
        WHEN count(
          (
            CASE WHEN "RANKQL_POS" <= 5.0 THEN "RANKQL_POS" ELSE NULL END + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
          )
        ) > 0
        THEN CAST(1 AS DOUBLE)
        ELSE CAST(0 AS DOUBLE)
      END
      ELSE NULL
    END
  END AS "HIT",
  coalesce(
    count(
      (
        CASE WHEN "RANKQL_POS" <= 5.0 THEN "RANKQL_POS" ELSE NULL END + CASE WHEN "RANKQL_REL_3" >= 1.0 THEN 0 ELSE NULL END
      )
    ) / greatest(
      CASE
        WHEN count(CASE WHEN "RANKQL_POS" <= 5.0 THEN "RANKQL_POS" ELSE NULL END) > 5.0 * (
          count(DISTINCT "DAY") + CASE WHEN count(*) > count("DAY") THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
        )
        THEN CAST('query must identify one ranking, but has too few values for so many items: ' || CAST((
          count(DISTINCT "DAY") + CASE WHEN count(*) > count("DAY") THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
        ) AS VARCHAR) AS DOUBLE)
        ELSE 5.0 * (
          count(DISTINCT "DAY") + CASE WHEN count(*) > count("DAY") THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
        )
      END,
      1
    ),
    0
  ) AS "MICRO",
  count(*) AS "N"
FROM "RANKQL_ROWS_3"
GROUP BY
  "USER"
ORDER BY
  "AP" DESC NULLS LAST
