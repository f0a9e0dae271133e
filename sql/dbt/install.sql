{# DuckDB reads the file itself, so that dbt needs no copy of it; one transaction is quicker than one per macro. #}
{% macro install() %}
    {% if execute %}
        {% set file = var('rankql_sql') | replace("'", "''") %}
        {% set text = run_query("SELECT content FROM read_text('" ~ file ~ "')") %}
        {% if not text %}
            {% do exceptions.raise_compiler_error(
                "rankql: there is no file '" ~ file ~ "'; say where it is: var rankql_sql") %}
        {% endif %}
        {% do run_query('BEGIN;' ~ text.columns[0][0] ~ 'COMMIT;') %}
    {% endif %}
{% endmacro %}
