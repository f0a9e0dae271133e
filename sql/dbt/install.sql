{# DuckDB reads the file itself, so that dbt needs no copy of it; one transaction is quicker than one per macro. #}
{% macro install() %}
    {% if execute and target.type == 'postgres' %}
        {% set schema = rankql.functions_schema() %}
        {% if not adapter.check_schema_exists(target.database, schema) %}
            {% do adapter.create_schema(api.Relation.create(database=target.database, schema=schema)) %}
        {% endif %}
        {% set begin = 'BEGIN;\nSET LOCAL search_path TO ' ~ adapter.quote(schema) ~ ';' %}
        {% do run_query(rankql.postgres_functions() | replace('BEGIN;', begin, 1)) %}
    {% elif execute %}
        {% set file = var('rankql_sql') | replace("'", "''") %}
        {% set text = run_query("SELECT content FROM read_text('" ~ file ~ "')") %}
        {% if not text %}
            {% do exceptions.raise_compiler_error(
                "rankql: there is no file '" ~ file ~ "'; say where it is: var rankql_sql") %}
        {% endif %}
        {# Ours have a comment, a name that begins with rankql_, or only raise an error. #}
        {% set theirs = run_query("
            SELECT DISTINCT function_name FROM duckdb_functions(), read_text('" ~ file ~ "')
            WHERE database_name = current_database() AND schema_name = current_schema() AND comment IS NULL
            AND function_name[:7] <> 'rankql_' AND NOT coalesce(contains(macro_definition, 'rankql_fail'), false)
            AND contains(content, 'MACRO ' || lower(function_name) || '(')
            ORDER BY ALL") %}
        {% if theirs %}
            {% do exceptions.raise_compiler_error(
                "rankql: your macro " ~ theirs.columns[0][0] ~ " would be replaced by rankql's; rename it, or drop it") %}
        {% endif %}
        {% do run_query('BEGIN;' ~ text.columns[0][0] ~ 'COMMIT;') %}
    {% endif %}
{% endmacro %}
