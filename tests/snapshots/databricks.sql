-- not executed: no test of rankql runs Databricks
WITH `rankql_rows` AS (
  SELECT
    `user` AS `user`,
    (
      pow(
        2.0,
        CASE
          WHEN abs(CAST(`rel` AS DOUBLE)) <= 1.7976931348623157e308
          THEN CAST(`rel` AS DOUBLE)
          WHEN NOT `rel` IS NULL
          THEN raise_error('rel must be a finite number, not ' || CAST(`rel` AS STRING))
          ELSE NULL
        END
      ) - 1
    ) AS `rankql_rel`,
    CASE
      WHEN CAST(`pos` AS DOUBLE) BETWEEN 1 AND 9007199254740992
      AND CAST(`pos` AS DOUBLE) = floor(CAST(`pos` AS DOUBLE))
      THEN CAST(`pos` AS DOUBLE)
      WHEN NOT `pos` IS NULL
      THEN raise_error('pos must be a whole number from 1, not ' || CAST(`pos` AS STRING))
      ELSE NULL
    END AS `rankql_pos`,
    CASE
      WHEN abs(CAST(`rel` AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST(`rel` AS DOUBLE)
      WHEN NOT `rel` IS NULL
      THEN raise_error('rel must be a finite number, not ' || CAST(`rel` AS STRING))
      ELSE NULL
    END AS `rankql_rel_3`,
    `rel` AS `rel`,
    `pos` AS `pos`,
    `day` AS `day`
  FROM `shown`
  WHERE
    `day` >= 3
), `rankql_rows_2` AS (
  SELECT
    *,
    CASE
      WHEN abs(CAST(`rankql_rel` AS DOUBLE)) <= 1.7976931348623157e308
      THEN CAST(`rankql_rel` AS DOUBLE)
      WHEN NOT `rankql_rel` IS NULL
      THEN raise_error('rel must be a finite number, not ' || CAST(`rankql_rel` AS STRING))
      ELSE NULL
    END AS `rankql_rel_2`,
    CAST(row_number() OVER (
      PARTITION BY `user`
      ORDER BY coalesce((
        `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
      ), 1e16)
    ) AS DOUBLE) AS `rankql_nth`,
    CAST(count(CASE WHEN `rankql_rel_3` < 1.0 THEN `rankql_pos` ELSE NULL END) OVER (
      PARTITION BY `user`
      ORDER BY coalesce(`rankql_pos`, 1e16), `rankql_rel_3`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS DOUBLE) AS `rankql_above`,
    CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) OVER (PARTITION BY `user`) AS DOUBLE) AS `rankql_relevant`,
    CAST(count(CASE WHEN `rankql_rel_3` < 1.0 THEN 1 ELSE NULL END) OVER (PARTITION BY `user`) AS DOUBLE) AS `rankql_nonrelevant`,
    CASE
      WHEN `rankql_rel_3` > 4.0
      THEN raise_error('rel must not exceed max_rel: ' || CAST(`rel` AS STRING) || ' is above ' || '4')
      ELSE (
        CAST(`rel` AS DOUBLE) * CASE WHEN CAST(`rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
      )
    END AS `rankql_gain`,
    CAST(row_number() OVER (
      PARTITION BY `user`
      ORDER BY CASE
        WHEN CASE WHEN (
          `rankql_rel_3` > 0
        ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END > 0
        THEN CASE WHEN (
          `rankql_rel_3` > 0
        ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END
        ELSE 0
      END DESC
    ) AS DOUBLE) AS `rankql_place_2`
  FROM `rankql_rows`
), `rankql_rows_3` AS (
  SELECT
    *,
    CAST(row_number() OVER (
      PARTITION BY `user`
      ORDER BY CASE
        WHEN CASE WHEN (
          `rankql_rel_2` > 0
        ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END > 0
        THEN CASE WHEN (
          `rankql_rel_2` > 0
        ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END
        ELSE 0
      END DESC
    ) AS DOUBLE) AS `rankql_place`,
    sum(
      CASE
        WHEN `rankql_gain` > 0
        AND CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END > 0
        THEN ln(greatest(1 - (
          pow(2.0, `rankql_gain` - 4.0) - 0.0625
        ), 1e-300))
        ELSE NULL
      END
    ) OVER (
      PARTITION BY `user`
      ORDER BY coalesce(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END, 1e16)
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS `rankql_arrival`
  FROM `rankql_rows_2`
)
SELECT
  `user`,
  CASE
    WHEN count(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END) > max(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN (
        (
          coalesce(
            sum(
              (
                `rankql_rel_2` * CASE WHEN CAST(`rankql_rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place` <= 10.0
              THEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END / (
                ln(`rankql_place` + 1) / 0.6931471805599453
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) > 1.0000000000009095
      THEN raise_error(
        'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
      )
      WHEN (
        (
          coalesce(
            sum(
              (
                `rankql_rel_2` * CASE WHEN CAST(`rankql_rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place` <= 10.0
              THEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END / (
                ln(`rankql_place` + 1) / 0.6931471805599453
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
                `rankql_rel_2` * CASE WHEN CAST(`rankql_rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / (
                ln(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END + 1) / 0.6931471805599453
              )
            ),
            0
          ) / sum(
            CASE
              WHEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place` <= 10.0
              THEN CASE WHEN (
                `rankql_rel_2` > 0
              ) THEN CAST(`rankql_rel` AS DOUBLE) ELSE NULL END / (
                ln(`rankql_place` + 1) / 0.6931471805599453
              )
              ELSE NULL
            END
          )
        ) + 0.0
      )
    END
  END AS `ndcg(exp2_gain(rel), pos, 10)`,
  CASE
    WHEN count(`rankql_pos`) > max(`rankql_pos`)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN CASE
        WHEN (
          CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            `rankql_nth` / (
              `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
            ),
            1
          ),
          0
        )
        ELSE NULL
      END > 1.0000000000009095
      THEN raise_error(
        'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
      )
      WHEN CASE
        WHEN (
          CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            `rankql_nth` / (
              `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
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
          CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) + 0.0
        ) > 0
        THEN coalesce(
          sum(
            `rankql_nth` / (
              `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
            )
          ) / greatest(
            least(
              9007199254740992.0,
              CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
            ),
            1
          ),
          0
        )
        ELSE NULL
      END
    END
  END AS `ap`,
  CASE
    WHEN count(`rankql_pos`) > max(`rankql_pos`)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN coalesce(
        sum(
          CASE
            WHEN (
              `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
            ) > 0
            THEN (
              1 - least(CAST(`rankql_above` AS DOUBLE), `rankql_relevant`) / greatest(least(`rankql_relevant`, `rankql_nonrelevant`), 1)
            )
            ELSE NULL
          END
        ),
        0
      ) / CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE)
      ELSE NULL
    END
  END AS `bpref`,
  CASE
    WHEN count(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END) > max(CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN max(`rankql_gain`) > 0
      THEN coalesce(
        sum(
          CASE
            WHEN `rankql_gain` > 0
            THEN exp(
              greatest(
                coalesce(`rankql_arrival`, 0) + (
                  (
                    CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END - 1
                  ) * -0.10536051565782628
                ),
                -600
              )
            ) * (
              pow(2.0, `rankql_gain` - 4.0) - 0.0625
            ) / CASE WHEN `rankql_pos` <= 10.0 THEN `rankql_pos` ELSE NULL END
            ELSE NULL
          END
        ),
        0
      )
      ELSE NULL
    END
  END AS `err`,
  CASE
    WHEN count(`rankql_pos`) > max(`rankql_pos`)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN (
        0.2 * coalesce(
          sum(
            CASE
              WHEN `rankql_rel_3` >= 1.0
              THEN 1.0
              WHEN NOT `rankql_rel_3` IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN `rankql_pos` <= 3136.0 THEN `rankql_pos` - 1 ELSE NULL END)
          ),
          0
        )
      ) > 1.0000000000009095
      THEN raise_error(
        'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
      )
      WHEN (
        0.2 * coalesce(
          sum(
            CASE
              WHEN `rankql_rel_3` >= 1.0
              THEN 1.0
              WHEN NOT `rankql_rel_3` IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN `rankql_pos` <= 3136.0 THEN `rankql_pos` - 1 ELSE NULL END)
          ),
          0
        )
      ) >= 0.9999999999990905
      THEN 1.0
      ELSE (
        0.2 * coalesce(
          sum(
            CASE
              WHEN `rankql_rel_3` >= 1.0
              THEN 1.0
              WHEN NOT `rankql_rel_3` IS NULL
              THEN 0.0
              ELSE NULL
            END * pow(0.8, CASE WHEN `rankql_pos` <= 3136.0 THEN `rankql_pos` - 1 ELSE NULL END)
          ),
          0
        )
      )
    END
  END AS `rbp`,
  CASE
    WHEN count(`rankql_pos`) > max(`rankql_pos`)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE (
      count(
        CASE
          WHEN (
            `rankql_pos` + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
          ) <= `rankql_relevant`
          THEN 1
          ELSE NULL
        END
      ) / nullif(CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE), 0)
    )
  END AS `rp`,
  CASE
    WHEN count(CASE WHEN `rankql_pos` <= 2.0 THEN `rankql_pos` ELSE NULL END) > max(CASE WHEN `rankql_pos` <= 2.0 THEN `rankql_pos` ELSE NULL END)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN (
        (
          coalesce(
            sum(
              (
                `rankql_rel_3` * CASE WHEN CAST(`rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT `rel` IS NULL AND CAST(`pos` AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST(`pos` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST(`pos` AS BIGINT) > 2
                    THEN raise_error(
                      'discounts has 2 entries, but position ' || CAST(CAST(`pos` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                    )
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
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place_2` <= 2.0
              THEN CASE WHEN (
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST(`rankql_place_2` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST(`rankql_place_2` AS BIGINT) > 2
                  THEN raise_error(
                    'discounts has 2 entries, but position ' || CAST(CAST(`rankql_place_2` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                  )
                  ELSE NULL
                END
              )
              ELSE NULL
            END
          )
        ) + 0.0
      ) > 1.0000000000009095
      THEN raise_error(
        'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
      )
      WHEN (
        (
          coalesce(
            sum(
              (
                `rankql_rel_3` * CASE WHEN CAST(`rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT `rel` IS NULL AND CAST(`pos` AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST(`pos` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST(`pos` AS BIGINT) > 2
                    THEN raise_error(
                      'discounts has 2 entries, but position ' || CAST(CAST(`pos` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                    )
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
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place_2` <= 2.0
              THEN CASE WHEN (
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST(`rankql_place_2` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST(`rankql_place_2` AS BIGINT) > 2
                  THEN raise_error(
                    'discounts has 2 entries, but position ' || CAST(CAST(`rankql_place_2` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                  )
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
                `rankql_rel_3` * CASE WHEN CAST(`rel` AS DOUBLE) < 0 THEN 0 ELSE 1 END
              ) / CASE
                WHEN NOT `rel` IS NULL AND CAST(`pos` AS DOUBLE) <= 2
                THEN 1 * coalesce(
                  CASE CAST(`pos` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                  CASE
                    WHEN CAST(`pos` AS BIGINT) > 2
                    THEN raise_error(
                      'discounts has 2 entries, but position ' || CAST(CAST(`pos` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                    )
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
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END > 0
              AND `rankql_place_2` <= 2.0
              THEN CASE WHEN (
                `rankql_rel_3` > 0
              ) THEN CAST(`rel` AS DOUBLE) ELSE NULL END / coalesce(
                CASE CAST(`rankql_place_2` AS BIGINT) WHEN 1 THEN 0.8 WHEN 2 THEN 1.0 END,
                CASE
                  WHEN CAST(`rankql_place_2` AS BIGINT) > 2
                  THEN raise_error(
                    'discounts has 2 entries, but position ' || CAST(CAST(`rankql_place_2` AS BIGINT) AS STRING) || ' is counted: give more, or a lower k'
                  )
                  ELSE NULL
                END
              )
              ELSE NULL
            END
          )
        ) + 0.0
      )
    END
  END AS `boosted`,
  CASE
    WHEN count(CASE WHEN `rankql_pos` <= 5.0 THEN `rankql_pos` ELSE NULL END) > max(CASE WHEN `rankql_pos` <= 5.0 THEN `rankql_pos` ELSE NULL END)
    THEN raise_error(
      'several items share a position: GROUP BY the query, or number positions with row_number()' || CAST(CASE WHEN count(*) > 0 THEN '' ELSE NULL END AS STRING)
    )
    ELSE CASE
      WHEN CAST(count(CASE WHEN `rankql_rel_3` >= 1.0 THEN 1 ELSE NULL END) AS DOUBLE) > 0
      THEN CASE
        WHEN count(
          (
            CASE WHEN `rankql_pos` <= 5.0 THEN `rankql_pos` ELSE NULL END + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
          )
        ) > 0
        THEN CAST(1 AS DOUBLE)
        ELSE CAST(0 AS DOUBLE)
      END
      ELSE NULL
    END
  END AS `hit`,
  coalesce(
    count(
      (
        CASE WHEN `rankql_pos` <= 5.0 THEN `rankql_pos` ELSE NULL END + CASE WHEN `rankql_rel_3` >= 1.0 THEN 0 ELSE NULL END
      )
    ) / greatest(
      CASE
        WHEN count(CASE WHEN `rankql_pos` <= 5.0 THEN `rankql_pos` ELSE NULL END) > 5.0 * (
          count(DISTINCT `day`) + CASE WHEN count(*) > count(`day`) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
        )
        THEN raise_error(
          'query must identify one ranking, but has too few values for so many items: ' || CAST((
            count(DISTINCT `day`) + CASE WHEN count(*) > count(`day`) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
          ) AS STRING)
        )
        ELSE 5.0 * (
          count(DISTINCT `day`) + CASE WHEN count(*) > count(`day`) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END
        )
      END,
      1
    ),
    0
  ) AS `micro`,
  count(*) AS `n`
FROM `rankql_rows_3`
GROUP BY
  `user`
ORDER BY
  `ap` DESC
