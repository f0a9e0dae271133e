"""The parts of the files of native functions that are copies of others, as they should be."""

from rankql.engines.native import native_sql
from rankql.macros import sql_folder
from rankql.registry.all_metrics import FUNCTIONS

DBT = sql_folder() / "dbt" / "postgres.sql"
METRICS = [name for name, record in FUNCTIONS.items() if not record.not_native]


def dbt_macro():
    """The functions of Postgres as macros of dbt."""
    text = native_sql("postgres", schema="rankql_schema")
    return (
        "{# Written by `python tests/generate.py native` from sql/postgres.sql. #}\n"
        "{% macro postgres_functions() %}{% raw %}\n"
        f"{text}"
        "{% endraw %}{% endmacro %}\n\n"
        f"{{% macro postgres_names() %}}{'|'.join([*METRICS, 'exp2_gain'])}{{% endmacro %}}\n"
    )
