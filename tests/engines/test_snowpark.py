"""The handlers of sql/snowflake.sql, registered and run by Snowpark's local testing.

It has no GROUP BY of such functions: each sees one ranking.
"""

import pytest

from support import metric_engines
from support.environments import run_with
from support.native_databases import handlers, options_of

pytestmark = pytest.mark.warehouses
PACKAGES = ["snowflake-snowpark-python[localtest]==1.56.0"]
ROWS = [(0.0, 1.0), (3.0, 2.0), (None, 3.0), (1.0, None), (-1.0, 5.0)]
# Of different values: local testing takes equal literals as one argument.
OPTIONS = {"k": 4.0, "p": 0.5, "max_rel": 3.0, "recall": 0.5}
SCRIPT = """
from snowflake.snowpark import Session
from snowflake.snowpark.functions import lit
from snowflake.snowpark.types import FloatType, StructField, StructType

session = Session.builder.config("local_testing", True).create()
columns = StructType([StructField(name, FloatType()) for name in ("rel", "pos")])
frame = session.create_dataframe(rows, schema=columns)
values = {}
for name, (code, options) in handlers.items():
    space = {}
    exec(code, space)
    types = [FloatType()] * (2 + len(options))
    handler = space["Handler"]
    call = session.udaf.register(handler, return_type=FloatType(), input_types=types, name=name)
    ((values[name],),) = frame.select(call(frame.rel, frame.pos, *map(lit, options))).collect()
print(json.dumps(values))
"""


def test_snowpark_runs_every_handler(tmp_path):
    """It keeps a state and goes on: a state is a copy, else rows count twice."""
    codes = {name: code for name, (_, code) in handlers("snowflake").items()}
    options = {name: {x: OPTIONS[x] for x in options_of(name, "snowflake")} for name in codes}
    listed = {name: (code, [*options[name].values()]) for name, code in codes.items()}
    values = run_with(PACKAGES, SCRIPT, tmp_path, handlers=listed, rows=ROWS)
    for name, value in values.items():
        (expected,) = metric_engines.Sql().run(name, [ROWS], options[name])
        assert metric_engines.same(value, expected), name
    assert values.keys() == codes.keys()
