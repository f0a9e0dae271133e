"""Clients over DuckDB, each in the shortest way that docs/queries.md names."""

import json
import subprocess
import sys

import duckdb
import pytest
from click.testing import CliRunner

from rankql.cli.main import main
from support import components
from support.environments import run

ROWS = "(VALUES (0, 1), (3, 2)) AS t (rel, pos)"
NDCG = 0.63093
# What a client does, in a process of its own: they register magics, events and drivers.
SCRIPT = """
import json, sys
sys.modules["pyspark"] = None  # which JupySQL would import, for seconds
import duckdb, ibis, polars as pl, rankql, sqlalchemy
from IPython.core.interactiveshell import InteractiveShell
from sql.connection import ConnectionManager

rows = "(VALUES (0, 1), (3, 2)) AS t (rel, pos)"
ours, plain = (f"SELECT {x}ndcg(rel, pos, 10) AS n FROM {rows}" for x in ("rankql.", ""))
values, errors = {}, {}

def refused(name, function, *arguments):
    try:
        values[name] = str(function(*arguments))
    except Exception as error:
        errors[name] = str(error)

con = duckdb.connect()
rankql.register(con)
refused("polars", pl.read_database, plain, con)
values["polars con.sql"] = con.sql(plain).pl()["n"].item()

backend = ibis.duckdb.connect()
rankql.register(backend)
values["ibis"] = backend.con.sql(plain).fetchall()[0][0]
backend.con.execute("CREATE TABLE run AS SELECT 'a' AS query, 'x' AS item, 1.0 AS score")
backend.con.execute("CREATE TABLE qrels AS SELECT 'a' AS query, 'x' AS item, 1 AS rel")
values["evaluate"] = rankql.evaluate("run", "qrels", "nDCG@10", con=backend)["nDCG@10"]

engine = sqlalchemy.create_engine("duckdb:///:memory:")
refused("engine", rankql.register, engine)

@sqlalchemy.event.listens_for(engine, "connect")
def attach(con, _):
    con.execute("ATTACH IF NOT EXISTS 'rankql.duckdb' AS rankql (READ_ONLY)")

for _ in range(2):
    with engine.connect() as connection:
        values["sqlalchemy"] = connection.execute(sqlalchemy.text(ours)).scalar()
        for name, inner in (("connection", connection), ("raw", connection.connection)):
            refused(name, rankql.register, inner)
engine.dispose()

shell = InteractiveShell.instance()
magic = lambda line: shell.run_line_magic("sql", line)
shell.run_line_magic("load_ext", "sql")
magic("duckdb://")
magic("ATTACH 'rankql.duckdb' AS rankql (READ_ONLY)")
refused("wrong k", magic, ours.replace("10", "0"))
refused("aborted", magic, ours)
magic("ROLLBACK")
values["duckdb://"] = magic(ours).DataFrame()["n"].item()
refused("jupysql", rankql.register, ConnectionManager.current)
own = duckdb.connect()
rankql.register(own, persist=True)
shell.push({"own": own})
magic("own --alias own")
values["own connection"] = magic(ours).DataFrame()["n"].item()
refused("jupysql own", rankql.register, ConnectionManager.current)
open("done.json", "w").write(json.dumps([values, errors]))
"""


@pytest.mark.clients
def test_clients_of_python(tmp_path):
    CliRunner().invoke(main, ["sql", "--database", str(tmp_path / "rankql.duckdb")])
    run(sys.executable, "-c", SCRIPT, cwd=tmp_path)
    values, errors = json.loads((tmp_path / "done.json").read_text())
    assert values.pop("evaluate") == 1
    assert values == {name: pytest.approx(NDCG, abs=1e-5) for name in values} and len(values) == 5
    assert "Scalar Function with name ndcg does not exist" in errors["polars"]
    for name in ("engine", "connection", "raw", "jupysql", "jupysql own"):
        assert "which has one inside. Pass frames. For the metrics in its SQL" in errors[name]
    assert "transaction is aborted" in errors["aborted"]


@pytest.mark.duckdb_cli
def test_temp_macros_in_an_init_script(tmp_path):
    """The file may be read-only, and nothing is stored in it."""
    printed = CliRunner().invoke(main, ["sql", "--temp"])
    (tmp_path / "init.sql").write_text(printed.output)
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path, config={"storage_compatibility_version": "v1.4.0"}) as con:
        con.execute("CREATE TABLE shown AS SELECT 1 AS rel, 2 AS pos")
    before = path.read_bytes()
    call = [components.program("duckdb"), "-init", "init.sql", "-csv", "-noheader"]
    call += ["-readonly", path, "SELECT rr(rel, pos) FROM shown"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.5" and path.read_bytes() == before
    done = CliRunner().invoke(main, ["sql", "--temp", "--folder"])
    assert done.exit_code == 2 and "With --temp, pass no other arguments" in done.stderr
