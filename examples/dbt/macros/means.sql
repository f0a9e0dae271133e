{# Always from the queries: a mean of the means of slices weighs small slices as much as large ones. #}
{% macro means(slice) %}
SELECT
    {{ slice | join(', ') }},
    count(*) AS queries,
    count(*) - count(ndcg_10) AS undefined,
    count(*) FILTER (missing) AS missing,
    avg(ndcg_10) AS ndcg_10,
    stddev_samp(ndcg_10) / sqrt(count(ndcg_10)) AS ndcg_10_error,
    avg(ap) AS ap,
    avg(recall_10) AS recall_10,
    sum(found) / nullif(sum(relevant), 0) AS micro_recall_10
FROM {{ ref('per_query') }}
GROUP BY ALL
ORDER BY ALL
{% endmacro %}
