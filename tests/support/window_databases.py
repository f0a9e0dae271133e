"""The engines that run window queries: tables in, rows out."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pytest

from rankql.engines.windows import translate_to_windows
from rankql.macros import quote
from support import components, metric_engines, spark_sessions

NUMBERS = {pa.float64(): "DOUBLE PRECISION", pa.int64(): "BIGINT", pa.string(): "TEXT"}


def rows(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class DuckDB:
    def __init__(self):
        self.con = duckdb.connect()

    def load(self, name, table):
        self.con.register("handed", table)
        self.con.execute(f'CREATE OR REPLACE TABLE "{name}" AS FROM handed')

    def ask(self, query):
        return self.con.execute(query).fetchall()


class DataFusion:
    def __init__(self):
        import datafusion

        self.context = datafusion.SessionContext()

    def load(self, name, table):
        self.context.deregister_table(name)
        # Without a batch, no table.
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        self.context.register_record_batches(name, [batches])

    def ask(self, query):
        batches = self.context.sql(query).collect()
        return [row for batch in batches for row in rows(pa.Table.from_batches([batch]))]


class Postgres:
    def __init__(self, where, database="postgres"):
        import psycopg

        self.where = f"host={where} user=postgres dbname={database}"
        self.con = psycopg.connect(self.where, autocommit=True)

    def load(self, name, table):
        cursor = self.con.cursor()
        columns = ", ".join(f"{quote(x.name)} {NUMBERS[x.type]}" for x in table.schema)
        cursor.execute(
            f"DROP TABLE IF EXISTS {quote(name)}; CREATE TABLE {quote(name)} ({columns})"
        )
        with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in rows(table):
                copy.write_row(row)

    def ask(self, query):
        return self.con.execute(query).fetchall()


@contextmanager
def postgres():
    """A server of its own, on a socket in a folder that goes with it."""
    # As root it does not start: then as the user of Debian's package.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    user = user if os.geteuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="pg")
    if user:
        shutil.chown(folder, "postgres", "postgres")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": folder, **user}

    def run(program, *arguments):
        command = [components.program(program), "-D", f"{folder}/data", *arguments]
        subprocess.run(command, check=True, **quiet)

    # What jit compiles takes longer here than it runs.
    settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c jit=off"
    run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    run("pg_ctl", "-o", settings, "-l", f"{folder}/log", "-w", "start")
    try:
        server = Postgres(folder)
        yield server
        server.con.close()
    finally:
        run("pg_ctl", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


NAMES = ("duckdb", "datafusion", "postgres")
# The marker of tests in each of them.
MARKS = {"datafusion": "datafusion", "postgres": "postgres"}


def params(*names):
    """The engines as parameters of a fixture, with their markers."""
    marks = {name: [getattr(pytest.mark, mark)] for name, mark in MARKS.items()}
    return [pytest.param(name, marks=marks.get(name, [])) for name in names]


@contextmanager
def opened(name):
    if name == "postgres":
        with postgres() as server:
            yield server
    else:
        yield {"duckdb": DuckDB, "datafusion": DataFusion}[name]()


@dataclass
class Queries:
    """The window query that is made of SELECT g, ndcg(rel, pos, 10) FROM cases GROUP BY g"""

    name: str
    engine: object

    def many(self, metric, calls):
        selects = spark_sessions.selects(metric, calls)
        queries = [translate_to_windows(select, self.name) for select in selects]
        groups = spark_sessions.groups_of(calls)
        self.engine.load("cases", spark_sessions.table(metric, groups))
        return metric_engines.in_order(
            (row for text in queries for row in self.engine.ask(text)), groups
        )
