-- Each metric against the same weekdays of the first days, four weeks that grow to twelve.
WITH days AS (FROM {{ ref('daily') }}),
watched AS (
    SELECT 'ndcg_10' AS metric, day, ndcg_10 AS value, ndcg_10_error AS error FROM days
    UNION ALL
    SELECT 'recall_10', day, recall_10, NULL FROM days
)
FROM monitor_days('watched', NULL, series := 'metric', error := 'error', grow := true)
