{# Each returns the rows that fail. A value that is NULL has not been shown to pass, so it fails. #}

{% test at_least(model, column_name, min, day=none) %}
FROM {{ model }}
WHERE ({{ column_name }} IS NULL OR {{ column_name }} < {{ min }}) {{ rankql.newest(model, day) }}
{% endtest %}

{% test at_most(model, column_name, max, of=none, day=none) %}
{% set value = column_name ~ (' / ' ~ of if of else '') %}
FROM {{ model }}
WHERE ({{ value }} IS NULL OR {{ value }} > {{ max }}) {{ rankql.newest(model, day) }}
{% endtest %}

{% test no_drop(model, column_name, day, by=[], max_drop=0, error=none) %}
{% set by = [by] if by is string else by %}
WITH days AS (SELECT DISTINCT {{ day }} AS day FROM {{ model }} ORDER BY day DESC LIMIT 2),
today AS (FROM {{ model }} WHERE {{ day }} = (SELECT max(day) FROM days)),
yesterday AS (
    FROM {{ model }}
    WHERE {{ day }} = (SELECT min(day) FROM days HAVING count(*) = 2) AND {{ column_name }} IS NOT NULL
)
SELECT yesterday.*, today.{{ column_name }} AS today
FROM yesterday LEFT JOIN today
    ON true {% for name in by %} AND yesterday.{{ name }} IS NOT DISTINCT FROM today.{{ name }} {% endfor %}
WHERE today.{{ column_name }} IS NULL
    OR yesterday.{{ column_name }} - today.{{ column_name }} > {{ max_drop }}
    {% if error %}
    AND yesterday.{{ column_name }} - today.{{ column_name }}
        > 1.96 * coalesce(sqrt(yesterday.{{ error }} ** 2 + today.{{ error }} ** 2), 0)
    {% endif %}
{% endtest %}

{% test once(model, key) %}
SELECT {{ key | join(', ') }}, count(*) AS rows
FROM {{ model }}
GROUP BY ALL
HAVING count(*) > 1
{% endtest %}

{% macro newest(model, day) %}
    {% if day %} AND {{ day }} = (SELECT max({{ day }}) FROM {{ model }}) {% endif %}
{% endmacro %}
