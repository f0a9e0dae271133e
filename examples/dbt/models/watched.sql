-- Each metric against the same weekdays of the first four weeks.
WITH days AS (FROM {{ ref('daily') }}),
first AS (SELECT min(day) + INTERVAL 27 DAYS AS last FROM days),
watched AS (
    SELECT 'ndcg_10' AS metric, day, ndcg_10 AS value, ndcg_10_error AS error FROM days
    UNION ALL
    SELECT 'recall_10', day, recall_10, NULL FROM days
)
FROM monitor_days(
    'watched', (SELECT last FROM first), series := 'metric', error := 'error')
