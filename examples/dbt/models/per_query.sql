{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='day') }}
-- One row per judged query. Days are whole: those from `since` on are computed again, by default the new ones alone.
{% set since = var('since', none) %}
{% if is_incremental() and not since %}
    {% set newest = run_query("SELECT max(day) FROM " ~ this).columns[0][0] %}
{% endif %}
-- The condition is a constant, so that the files of other days are not opened.
{% set days %}
    {% if not is_incremental() %} true
    {% elif since %} day >= DATE '{{ since }}'
    {% else %} day > DATE '{{ newest or "0001-01-01" }}'
    {% endif %}
{% endset %}

WITH judgments AS (FROM {{ source('shop', 'judgments') }} WHERE {{ days }}),
runs AS (FROM {{ source('shop', 'runs') }} WHERE {{ days }}),
scored AS (
    SELECT query, day, segment, item, rel, score
    FROM (SELECT DISTINCT query, day, segment FROM judgments)
    JOIN (
        SELECT query, item, rel, score
        FROM runs FULL JOIN judgments USING (query, item)
    ) USING (query)
)
SELECT
    day,
    query,
    segment,
    ndcg(rel, pos, 10) AS ndcg_10,
    ap(rel, pos) AS ap,
    recall_at(rel, pos, 10) AS recall_10,
    count(*) FILTER (rel >= 1 AND pos <= 10) AS found,
    count(*) FILTER (rel >= 1) AS relevant,
    count(score) = 0 AS missing
FROM ranked('scored', query := 'query')
GROUP BY ALL
