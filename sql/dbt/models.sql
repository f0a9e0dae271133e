{# Select statements of models. `metrics` and `more` are mappings of a name to SQL: {ndcg_10: 'ndcg(rel, pos, 10)'}. #}

{# One row per judged query. A query that the run lacks is `missing`, and its metrics are 0. Without judgments, `runs` is
   one table with grades and positions. query, item and pos name other columns; with pos, the runs have positions. #}
{% macro per_query(runs=none, judgments=none, metrics=none, by=[], where='true', query='query', item='item', pos=none) %}
{{ rankql.require('per_query', {'runs': runs, 'metrics': metrics}) }}
{% set by = [by] if by is string else by %}
{% set place = 'pos' if pos or not judgments else 'score' %}
{% set ids = {'query': query, 'item': item} if judgments else {'query': query, 'rel': 'rel'} %}
{% set runs = rankql.with_columns('the run', runs, dict(ids, **{place: pos or place}), [] if judgments else by) %}
{% set judgments = rankql.with_columns('the table of judgments', judgments, dict(ids, rel='rel'), by) if judgments else none %}
{% if target.type == 'postgres' %}
{{ rankql.postgres_per_query(runs, judgments, metrics, by, where, place) }}
{% elif not judgments %}
SELECT
    query,{% for name in by %} {{ name }},{% endfor %}
    {% for name, call in metrics.items() %}
    {{ call }} AS {{ name }},
    {% endfor %}
    count(pos) = 0 AS missing
FROM {{ runs }}
WHERE {{ where }}
GROUP BY ALL
{% else %}
WITH judgments AS (SELECT * FROM {{ judgments }} WHERE {{ where }}),
runs AS (SELECT * FROM {{ runs }} WHERE {{ where }}),
scored AS (
    SELECT query,{% for name in by %} {{ name }},{% endfor %} item, rel, {{ place }}
    FROM (SELECT DISTINCT query{% for name in by %}, {{ name }}{% endfor %} FROM judgments)
    JOIN (
        SELECT query, item, rel, {{ place }}
        FROM runs FULL JOIN judgments USING (query, item)
    ) USING (query)
    WHERE {{ rankql.no_duplicates(runs, judgments, where, place) }}
)
SELECT
    query,{% for name in by %} {{ name }},{% endfor %}
    {% for name, call in metrics.items() %}
    {{ call }} AS {{ name }},
    {% endfor %}
    count({{ place }}) = 0 AS missing
FROM {{ 'scored' if pos else "ranked('scored', query := 'query')" }}
GROUP BY ALL
{% endif %}
{% endmacro %}

{# The calls get the schema of the functions, which may not be in the search_path. #}
{% macro postgres_per_query(runs, judgments, metrics, by, where, place) %}
{% set calls = '(?<![.\\w])(' ~ rankql.postgres_names() ~ ')(?=\\s*\\()' %}
SELECT
    query,{% for name in by %} {{ name }},{% endfor %}
    {% for name, call in metrics.items() %}
    {{ modules.re.sub(calls, (rankql.qualifier() | replace('\\', '\\\\')) ~ '\\1', call) }} AS {{ name }},
    {% endfor %}
    count(pos) = 0 AS missing
{% if not judgments %}
FROM {{ runs }}
WHERE {{ where }}
{% else %}
FROM (
    SELECT coalesce(judged.query, shown.query) AS query, rel, pos
    FROM (SELECT query, item, rel FROM {{ judgments }} AS judgments WHERE {{ where }}) AS judged
    FULL JOIN (
        SELECT query, item, {{ 'pos' if place == 'pos' else 'row_number() OVER (PARTITION BY query ORDER BY score DESC, CAST(item AS TEXT) COLLATE "C" DESC) AS pos' }}
        FROM {{ runs }} AS runs
        WHERE {{ place }} IS NOT NULL AND ({{ where }})
    ) AS shown ON judged.query = shown.query AND judged.item = shown.item
    WHERE {{ rankql.no_duplicates(runs, judgments, where, place) }}
) AS ranked
JOIN (SELECT DISTINCT query{% for name in by %}, {{ name }}{% endfor %} FROM {{ judgments }} AS judgments WHERE {{ where }}) AS queries USING (query)
{% endif %}
GROUP BY query{% for name in by %}, {{ name }}{% endfor %}
{% endmacro %}

{# The table with the columns that a model reads, `names` as they are called there. A column that a relation lacks is an
   error at compile time. #}
{% macro with_columns(label, table, names, others) %}
{% set expected, renamed = (names.values() | list) + others, [] %}
{% set there = execute and table is not string and (table.external or load_relation(table) is not none) %}
{% set found = run_query('SELECT * FROM ' ~ table ~ ' LIMIT 0').column_names | list if there else [] %}
{% set lacking = expected | map('lower') | reject('in', found | map('lower') | list) | list %}
{% if found and lacking %}
    {% do exceptions.raise_compiler_error('rankql.per_query: ' ~ label ~ ' has no column ' ~ lacking | join(', ') ~ '. Expected: '
        ~ expected | join(', ') ~ '. Found: ' ~ found | join(', ') ~ '. Name others: query=, item=, pos= (the position, for score)') %}
{% endif %}
{% for name, column in names.items() if column != name %}{% do renamed.append(column ~ ' AS ' ~ name) %}{% endfor %}
{{ return('(SELECT *, ' ~ renamed | join(', ') ~ ' FROM ' ~ table ~ ')' if renamed else table) }}
{% endmacro %}

{# The condition that no item of a query stands twice. If one does, the cast fails with the text. #}
{% macro no_duplicates(runs, judgments, where, place) -%}
{% for table, value in [(runs, place), (judgments, 'rel')] %}
(SELECT CASE WHEN count(*) > 0 THEN CAST('rankql: {{ table | string | replace("'", "''") }} has duplicates: '
    || min('query ' || CAST(query AS TEXT) || ', item ' || CAST(item AS TEXT)) || '. Keep one row of each' AS INT) ELSE 0 END
FROM (
    SELECT query, item FROM {{ table }} WHERE ({{ where }}) AND {{ value }} IS NOT NULL
    GROUP BY query, item HAVING count(*) > 1
) AS twice) = 0{{ '' if loop.last else ' AND' }}
{% endfor %}
{%- endmacro %}

{# The schema of the functions of Postgres, and how a call begins. #}
{% macro functions_schema() %}{{ return(var('rankql_schema', none) or target.schema) }}{% endmacro %}

{% macro qualifier() %}{{ return(adapter.quote(rankql.functions_schema()) ~ '.' if target.type == 'postgres' else '') }}{% endmacro %}

{# Always from the queries: a mean of the means of slices weighs small slices as much as large ones. #}
{% macro means(per_query=none, metrics=none, by=[], more={}) %}
{{ rankql.needs_duckdb('means') }}
{{ rankql.require('means', {'per_query': per_query, 'metrics': metrics}) }}
{% set by = [by] if by is string else by %}
SELECT
    {% for name in by %}{{ name }}, {% endfor %}
    count(*) AS queries,
    count(*) FILTER (missing) AS missing,
    {% for name in metrics %}
    avg({{ name }}) AS {{ name }},
    stddev_samp({{ name }}) / sqrt(count({{ name }})) AS {{ name }}_error,
    count({{ name }}) AS {{ name }}_queries,
    {% endfor %}
    {% for name, call in more.items() %}
    {{ call }} AS {{ name }},
    {% endfor %}
FROM {{ per_query }}
{% if by %}
GROUP BY ALL
ORDER BY ALL
{% endif %}
{% endmacro %}

{% macro require(macro, arguments) %}
{% for name, value in arguments.items() if not value %}
    {% do exceptions.raise_compiler_error('rankql.' ~ macro ~ ': the argument ' ~ name ~ ' is missing') %}
{% endfor %}
{% endmacro %}

{% macro needs_duckdb(name) %}
{% if target.type != 'duckdb' %}
    {% do exceptions.raise_compiler_error('rankql.' ~ name ~ ' needs dbt-duckdb') %}
{% endif %}
{% endmacro %}
