"""The parts of the files of native functions that are copies of others, as they should be."""

import re

from rankql.engines.native import native_sql
from rankql.macros import sql_folder
from rankql.registry.all_metrics import FUNCTIONS

# The beginning of a handler, and what follows the part that all handlers of rankings share.
SHARED = {
    "snowflake": (r"AS \$\$\n(?=import math\nfrom array)", r"\n\nclass Handler\(Ranking\)"),
    "bigquery": (r'AS r"""\n(?=function fail)', r"\nexport function aggregate"),
}
DBT = sql_folder() / "dbt" / "postgres.sql"
METRICS = [name for name, record in FUNCTIONS.items() if not record.not_native]


def with_shared_part(engine):
    """The file with the shared part of its first handler in all of them."""
    text, (before, after) = native_sql(engine), SHARED[engine]
    pattern = re.compile(rf"({before})(.*?)({after})", re.DOTALL)
    first = pattern.search(text)[2]
    return pattern.sub(lambda part: part[1] + first + part[3], text)


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
