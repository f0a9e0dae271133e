"""A DuckLake as the default database: USE lake. The extension fits one version of DuckDB."""

import os
import sys

import pytest

from support import components
from support.environments import run
from support.paths import ROOT

pytestmark = pytest.mark.ducklake
VERSION = "1.5.5"
SCRIPT = r"""
import sys
from pathlib import Path
import duckdb, duckdb_extension_ducklake, rankql
from rankql.core.tables.private import write_macro_database

(extension,) = Path(duckdb_extension_ducklake.__file__).parent.rglob("*.duckdb_extension")
assert duckdb.__version__ == sys.argv[1]
con = duckdb.connect()
con.execute(f"LOAD '{extension}'; ATTACH 'ducklake:lake.ducklake' AS lake (DATA_PATH 'data')")
con.execute("USE lake; CREATE TABLE qrels AS SELECT 'a' AS query, 'y' AS item, 1 AS rel")
con.execute("CREATE TABLE run AS SELECT 'a' AS query, item, score "
            "FROM (VALUES ('x', 2.0), ('y', 1.0)) AS t (item, score)")
for _ in range(2):
    assert rankql.evaluate("run", "qrels", "RR", con=con).per_query.rows() == [("a", 0.5)]
con.execute("BEGIN; INSERT INTO qrels VALUES ('a', 'x', 1)")
assert rankql.evaluate("run", "qrels", "RR", con=con).per_query.rows() == [("a", 1.0)]
con.execute("ROLLBACK")
try:
    rankql.register(con, persist=True)
except rankql.RankqlError as error:
    print(error)
functions = "FROM duckdb_functions() WHERE database_name = 'lake'"
assert con.sql(functions).fetchall() == []
rankql.register(con)
write_macro_database("rankql.duckdb")
con.execute("ATTACH 'rankql.duckdb' AS rankql")
for call in ("rr(rel, pos)", "rankql.rr(rel, pos)"):
    rows = "(SELECT 1 AS rel, 2 AS pos)"
    assert con.sql(f"SELECT {call} FROM {rows}").fetchall() == [(0.5,)], call
"""


def test_ducklake_as_the_default_database(tmp_path):
    packages = [f"duckdb=={VERSION}", f"duckdb-extension-ducklake=={VERSION}"]
    install = [components.program("uv"), "pip", "install", "-q", "--no-deps", "--target"]
    run(*install, tmp_path / "packages", *packages)
    path = os.pathsep.join(map(str, (tmp_path / "packages", ROOT)))
    environment = os.environ | {"PYTHONPATH": path}
    printed = run(sys.executable, "-c", SCRIPT, VERSION, cwd=tmp_path, env=environment)
    assert "The current database 'lake' is of type ducklake, which cannot hold" in printed
