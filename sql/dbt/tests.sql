{# Each returns the rows that fail. A value that is NULL has not been shown to pass, so it fails. #}

{# Without `error` the means alone. With it, the rule of `rankql gate --min-bound`. #}
{% test at_least(model, column_name, min, day=none, error=none, queries=none, alpha=0.05, inconclusive='fail') %}
{% if not error %}
SELECT * FROM {{ model }}
WHERE ({{ column_name }} IS NULL OR {{ column_name }} < {{ min }}) {{ rankql.newest(model, day) }}
{% else %}
{{ rankql.needs_duckdb('at_least with error=') }}
{{ rankql.when_inconclusive(inconclusive) }}
WITH drops AS (
    SELECT
        *,
        CAST({{ column_name }} AS DOUBLE) AS __rankql_value,
        {{ min }} - __rankql_value AS __rankql_drop,
        CAST({{ error }} AS DOUBLE) AS __rankql_width,
        -- normal where the number of queries is not known
        coalesce(nullif(CAST({{ queries or 'NULL' }} AS DOUBLE) - 1, 0), 1e13) AS __rankql_df,
        abs(__rankql_drop) / __rankql_width AS __rankql_t
    FROM {{ model }}
    WHERE true {{ rankql.newest(model, day) }}
),
{{ rankql.bounds(alpha, error) }}
SELECT
    CASE
        WHEN __rankql_value IS NULL OR __rankql_drop - __rankql_reach > 1e-12 THEN 'failed'
        WHEN __rankql_drop + __rankql_reach <= 1e-12 THEN 'passed'
        ELSE 'inconclusive'
    END AS status,
    __rankql_value AS mean,
    __rankql_value - __rankql_reach AS lo,
    __rankql_value + __rankql_reach AS hi,
    CASE WHEN __rankql_tested THEN 1 - __rankql_level END AS confidence,
    COLUMNS(lambda name: NOT starts_with(name, '__rankql_'))
FROM bounds
WHERE status <> 'passed'
{% endif %}
{% endtest %}

{% test at_most(model, column_name, max, of=none, day=none) %}
{% set value = column_name ~ (' / ' ~ of if of else '') %}
SELECT * FROM {{ model }}
WHERE ({{ value }} IS NULL OR {{ value }} > {{ max }}) {{ rankql.newest(model, day) }}
{% endtest %}

{# A model of `monitor_days` has no alarm on the newest day: of its column `held`. In the baseline period all of them are NULL.
   A series that is not compared on the newest day keeps its alarm for 28 days, as in `rankql monitor`. #}
{% test no_alarm(model, column_name, day='day', series='series') %}
{{ rankql.needs_duckdb('no_alarm') }}
FROM {{ model }}
WHERE {{ column_name }} IS NOT NULL AND {{ day }} >= (SELECT max({{ day }}) - INTERVAL 28 DAYS FROM {{ model }})
QUALIFY {{ column_name }} AND {{ day }} = max({{ day }}) OVER (PARTITION BY {{ series }})
{% endtest %}

{# The rule of `rankql gate`: a limit passes if the confidence interval of the drop lies within it, fails if the interval
   lies beyond it, and is inconclusive otherwise. The two days have other queries, so the interval is Welch's. Slices
   are adjusted for their number (Holm): from the clearest to the least clear, each is held to alpha / (number left). #}
{% test no_drop(model, column_name, day, by=[], max_drop=0, error=none, queries=none, alpha=0.05, inconclusive='fail') %}
{% set by = [by] if by is string else by %}
{{ rankql.needs_duckdb('no_drop') }}
{{ rankql.when_inconclusive(inconclusive) }}
WITH rows AS (
    SELECT
        *,
        CAST({{ column_name }} AS DOUBLE) AS __rankql_value,
        CAST({{ error or 'NULL' }} AS DOUBLE) AS __rankql_error,
        CAST({{ queries or 'NULL' }} AS DOUBLE) AS __rankql_n
    FROM {{ model }}
),
days AS (SELECT DISTINCT {{ day }} AS day FROM rows ORDER BY day DESC LIMIT 2),
today AS (FROM rows WHERE {{ day }} = (SELECT max(day) FROM days)),
yesterday AS (
    FROM rows
    WHERE {{ day }} = (SELECT min(day) FROM days HAVING count(*) = 2) AND __rankql_value IS NOT NULL
),
drops AS (
    SELECT
        yesterday.* EXCLUDE (__rankql_value, __rankql_error, __rankql_n),
        yesterday.__rankql_value AS __rankql_yesterday,
        today.__rankql_value AS __rankql_today,
        yesterday.__rankql_value - today.__rankql_value AS __rankql_drop,
        yesterday.__rankql_error ** 2 AS __rankql_one,
        today.__rankql_error ** 2 AS __rankql_other,
        sqrt(__rankql_one + __rankql_other) AS __rankql_width,
        -- Welch and Satterthwaite; normal where the numbers of queries are not known
        coalesce(__rankql_width ** 4 / (
            __rankql_one ** 2 / nullif(yesterday.__rankql_n - 1, 0)
            + __rankql_other ** 2 / nullif(today.__rankql_n - 1, 0)), 1e13) AS __rankql_df,
        abs(__rankql_drop - {{ max_drop }}) / __rankql_width AS __rankql_t
    FROM yesterday LEFT JOIN today
        ON true {% for name in by %} AND yesterday.{{ name }} IS NOT DISTINCT FROM today.{{ name }} {% endfor %}
),
{{ rankql.bounds(alpha, error) }}
SELECT
    CASE
        WHEN __rankql_today IS NULL THEN 'failed'
        WHEN __rankql_drop - __rankql_reach > {{ max_drop }} + 1e-12 THEN 'failed'
        WHEN __rankql_drop + __rankql_reach <= {{ max_drop }} + 1e-12 THEN 'passed'
        WHEN {{ max_drop }} = 0 AND (__rankql_reach IS NOT NULL OR __rankql_drop <= 1e-12) THEN 'passed'
        ELSE 'inconclusive'
    END AS status,
    __rankql_yesterday AS yesterday,
    __rankql_today AS today,
    __rankql_drop AS dropped,
    CASE WHEN __rankql_tested THEN __rankql_drop - __rankql_reach END AS lo,
    CASE WHEN __rankql_tested THEN __rankql_drop + __rankql_reach END AS hi,
    CASE WHEN __rankql_tested THEN 1 - __rankql_level END AS confidence,
    COLUMNS(lambda name: NOT starts_with(name, '__rankql_'))
FROM bounds
WHERE status <> 'passed'
{% endtest %}

{% test once(model, key) %}
SELECT {{ key | join(', ') }}, count(*) AS rows
FROM {{ model }}
GROUP BY {{ key | join(', ') }}
HAVING count(*) > 1
{% endtest %}

{# At most five rows of each test of rankql that failed or warned, with their status: dbt prints only their number. #}
{% macro print_failures(results) %}
    {% for result in results or [] if execute and result.status in ['fail', 'warn'] and result.node.test_metadata
           and result.node.test_metadata.namespace == 'rankql' %}
        {% do log('rankql: ' ~ result.node.name ~ ' (' ~ result.status ~ ')', info=true) %}
        {% for row in run_query('SELECT * FROM (' ~ result.node.compiled_code ~ ') AS failed LIMIT 5') %}
            {% set cells = [] %}
            {% for name, value in row.dict().items() if value is not none %}
                {% do cells.append(name ~ ' = ' ~ value) %}
            {% endfor %}
            {% do log('  ' ~ cells | join(', '), info=true) %}
        {% endfor %}
    {% endfor %}
{% endmacro %}

{% macro newest(model, day) %}
    {% if day %} AND {{ day }} = (SELECT max({{ day }}) FROM {{ model }}) {% endif %}
{% endmacro %}

{# Tables that follow `drops`: `bounds` has the interval of each drop, of which there is a slice per row. #}
{% macro bounds(alpha, error) %}
-- The number of tests left, from the clearest drop to the least clear. Drops without a standard error are not tested.
ordered AS (
    SELECT
        *,
        __rankql_width > 0 AS __rankql_tested,
        CASE WHEN __rankql_tested THEN
            count(*) FILTER (__rankql_tested) OVER ()
            - row_number() OVER (PARTITION BY __rankql_tested ORDER BY __rankql_t DESC) + 1 END AS __rankql_left
    FROM drops
),
steps AS (
    SELECT
        *,
        bool_and(__rankql_t > rankql_t_quantile(1 - {{ alpha }} / 2 / __rankql_left, __rankql_df))
            OVER (ORDER BY __rankql_left DESC NULLS LAST) AS __rankql_decided
    FROM ordered
),
bounds AS (
    SELECT
        *,
        -- what is not decided has the level of the first step that failed
        {{ alpha }} / CASE WHEN __rankql_decided THEN __rankql_left
                           ELSE max(__rankql_left) FILTER (NOT __rankql_decided) OVER () END AS __rankql_level,
        CASE WHEN __rankql_tested
             THEN rankql_t_quantile(1 - __rankql_level / 2, __rankql_df) * __rankql_width
             WHEN __rankql_width = 0 {{ '' if error else 'OR true' }} THEN 0 END AS __rankql_reach
    FROM steps
)
{% endmacro %}

{% macro when_inconclusive(inconclusive) %}
{% if inconclusive not in ['fail', 'warn'] %}
    {% do exceptions.raise_compiler_error(
        "rankql: inconclusive must be 'fail' or 'warn', not '" ~ inconclusive ~ "'") %}
{% endif %}
{% if inconclusive == 'warn' %}
    {{ config(error_if="> count(*) FILTER (status = 'inconclusive')") }}
{% endif %}
{% endmacro %}
