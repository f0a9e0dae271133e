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

{{ rankql.per_query(
    source('shop', 'runs'),
    source('shop', 'judgments'),
    metrics={
        'ndcg_10': 'ndcg(rel, pos, 10)',
        'ap': 'ap(rel, pos)',
        'recall_10': 'recall_at(rel, pos, 10)',
        'found': 'count(*) FILTER (rel >= 1 AND pos <= 10)',
        'relevant': 'count(*) FILTER (rel >= 1)',
    },
    by=['day', 'segment'],
    where=days,
) }}
