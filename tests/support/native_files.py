"""The functions of other databases as macros of dbt, as they should be."""

from rankql.core.metrics import macros
from rankql.core.metrics.all_metrics import FUNCTIONS

METRICS = [name for name, record in FUNCTIONS.items() if not record.not_native]
FOLDER = macros.sql_folder() / "dbt"
HEAD = "Written by `python tests/generate.py native` from the registry."
CALL = "{{ return(rankql.qualifier() ~ '%s(' ~ varargs | join(', ') ~ ')') }}"


def dbt_macros():
    """A macro for each function: `{{ rankql.ndcg('rel', 'pos', 10) }}`."""
    names = [*METRICS, "exp2_gain"]
    lines = [f"{{% macro {name}() %}}{CALL % name}{{% endmacro %}}" for name in names]
    pattern = f"{{% macro postgres_names() %}}{'|'.join(names)}{{% endmacro %}}"
    return "\n".join([f"{{# {HEAD} #}}", *lines, pattern, ""])


def dbt_texts():
    """What each does, for `dbt docs`."""
    lines = [
        f"  - {{name: {name}, description: {macros.literal(macros.read_comments()[name])}}}"
        for name in [*METRICS, "exp2_gain"]
    ]
    return "\n".join([f"# {HEAD}", "version: 2", "macros:", *lines, ""])


DBT_FILES = {FOLDER / "functions.sql": dbt_macros(), FOLDER / "functions.yml": dbt_texts()}
