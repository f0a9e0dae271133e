"""The plain SQL of sql/textbook.sql computes what the macros do, on five engines."""

import math
import random
import re
import sqlite3
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import metric_pages
import rankql
from rankql.cli.main import main
from rankql.core.metrics.all_metrics import (
    COUNTS,
    FUNCTIONS,
    GEOMETRIC,
    MICRO,
    ORDER,
    RATING,
    RELEVANCE,
    WEIGHTED,
)
from rankql.core.metrics.conventions import Conventions
from rankql.core.metrics.metric_record import Metric
from rankql.core.metrics.parse import parse
from rankql.engines import textbook
from support import hand_cases, metric_engines, native_databases, signatures, spark_sessions
from support.components import program
from support.paths import ROOT
from support.refusals import refuses

STATEMENTS = textbook.read_textbook()
NO_METRICS = ("Positions from scores", "Mean over queries")
TITLES = [title for title in STATEMENTS if title not in NO_METRICS]


# Engines: where tables are made, and queries asked.


class Sqlite:
    def __init__(self):
        self.con = sqlite3.connect(":memory:")
        for name, count in {"ln": 1, "exp": 1, "power": 2, "sqrt": 1}.items():
            try:
                self.con.execute(f"SELECT {name}({', '.join('1' * count)})")
            except sqlite3.OperationalError:  # built without the functions of mathematics
                function = {"ln": math.log, "power": math.pow}.get(name) or getattr(math, name)
                self.con.create_function(name, count, function)

    def load(self, name, kinds, rows):
        self.con.execute(f"DROP TABLE IF EXISTS {name}")
        columns = ", ".join(f"{x} {kind}" for x, kind in kinds.items())
        self.con.execute(f"CREATE TABLE {name} ({columns})")
        self.con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(kinds))})", rows)

    def ask(self, query):
        return self.con.execute(query).fetchall()


class Duckdb(Sqlite):
    """A connection without macros."""

    def __init__(self):
        self.con = duckdb.connect()

    def load(self, name, kinds, rows):
        self.con.register("loaded", as_arrow(kinds, rows))
        self.con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM loaded")


class Postgres:
    """A server without functions of rankql."""

    def __init__(self, server):
        self.con = server.con

    def load(self, name, kinds, rows):
        columns = ", ".join(f"{x} {kind}" for x, kind in kinds.items())
        columns = columns.replace("DOUBLE", "DOUBLE PRECISION")
        self.con.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
        with self.con.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def ask(self, query):
        return self.con.execute(query).fetchall()


class Mariadb:
    """A server of its own, in a folder that is removed."""

    def __init__(self, folder):
        self.server, self.con = start_mariadb(folder)

    def load(self, name, kinds, rows):
        columns = ", ".join(f"{x} {kind}" for x, kind in kinds.items())
        columns = columns.replace("TEXT", "VARCHAR(99) COLLATE utf8mb4_bin")
        with self.con.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            places = ", ".join(["%s"] * len(kinds))
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})", rows)

    def ask(self, query):
        with self.con.cursor() as cursor:
            cursor.execute(query)
            return [*cursor.fetchall()]


def start_mariadb(folder):
    """A server that only a socket in the folder reaches, and a connection to it."""
    import pymysql

    socket, data = f"{folder}/socket", f"{folder}/data"
    own = ["--no-defaults", f"--datadir={data}", "--user=root"]
    method = "--auth-root-authentication-method=normal"
    run = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["mariadb-install-db", *own, method, "--skip-test-db"], check=True, **run)
    small = ["--skip-networking", "--innodb-buffer-pool-size=32M", f"--socket={socket}"]
    server = subprocess.Popen([program("mariadbd"), *own, *small], **run)
    while not Path(socket).exists() and server.poll() is None:
        time.sleep(0.1)
    con = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
    with con.cursor() as cursor:
        cursor.execute("CREATE DATABASE tests")
        cursor.execute("USE tests")
        cursor.execute("SET sql_mode = 'ANSI_QUOTES'")
    return server, con


class Spark:
    def __init__(self, session):
        self.session = session

    def load(self, name, kinds, rows):
        self.session.createDataFrame(as_arrow(kinds, rows)).createOrReplaceTempView(name)

    def ask(self, query):
        return [tuple(row) for row in self.session.sql(query.rstrip(";")).collect()]


def as_arrow(kinds, rows):
    types = {"INT": pa.int32(), "DOUBLE": pa.float64(), "TEXT": pa.string()}
    columns = zip(*rows, strict=True)
    arrays = [pa.array(x, types[kind]) for x, kind in zip(columns, kinds.values(), strict=True)]
    return pa.table(dict(zip((x.strip('`"') for x in kinds), arrays, strict=True)))


@contextmanager
def opened(name):
    if name == "Postgres":
        with native_databases.postgres() as server:
            yield Postgres(server)
    elif name == "MariaDB":
        with tempfile.TemporaryDirectory() as folder:
            engine = Mariadb(folder)
            yield engine
            engine.con.close()
            engine.server.terminate()
            engine.server.wait()
    elif name == "Spark":
        yield Spark(spark_sessions.of_process())
    else:
        yield {"DuckDB": Duckdb, "SQLite": Sqlite}[name]()


MARKS = {
    "DuckDB": [pytest.mark.slow],
    "Postgres": [pytest.mark.postgres],
    "MariaDB": [pytest.mark.mariadb],
    "Spark": [pytest.mark.spark],
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=MARKS.get(name, []), id=name)
        for name in ("DuckDB", "SQLite", "Postgres", "MariaDB", "Spark")
    ],
)
def engine(request):
    with opened(request.param) as place:
        yield place


def difference(value, expected):
    """Whether a value is not the expected one, to 1e-12, NULL where NULL."""
    return not metric_engines.same(None if value is None else float(value), expected)


# The hand-checked cases


def asked(case):
    """The metric of a case with its options, if a statement computes it."""
    record = {x.function: x for x in (*MICRO, *FUNCTIONS.values())}.get(case.metric)
    options = {x: y for x, y in case.options.items() if x not in ("k", "query")}
    if record is None or not record.name or not case.group or case.metric in signatures.BEYOND:
        return None
    if options.get("max_rel", 0) > 1000 or (
        None in [row[-1] for row in case.group] and (case.metric in signatures.MICRO)
    ):  # 2 ** max_rel is no number, or a query is NULL: the statements refuse nothing
        return None
    metric = Metric(record, case.options.get("k"), options)
    try:
        textbook.find_statement(metric)
    except rankql.RankqlError:
        return None
    return metric


CASES = [(case, metric) for case in hand_cases.ALL if (metric := asked(case))]


def test_hand_checked_cases(engine):
    """By statement and options all cases are asked at once; micro averages are of one each."""
    batches = defaultdict(list)
    for case, metric in CASES:
        alone = case.where if case.metric in signatures.MICRO else ""
        batches[metric.canonical, alone].append((case, metric))
    wrong, number = [], 0
    for cases in batches.values():
        (case, metric), *_ = cases
        place = "score" if case.metric in signatures.RATING else "pos"
        rows = [
            (row[2] if case.metric in signatures.MICRO else g, row[0], row[1])
            for g, (case, _) in enumerate(cases)
            for row in case.group
        ]
        kinds = {"query": "INT", "rel": "DOUBLE", place: "DOUBLE"}
        engine.load({"pos": "ranked", "score": "scored"}[place], kinds, rows)
        answers = engine.ask(rankql.plain_sql(metric.canonical))
        values = {row[0] if len(row) > 1 else 0: row[-1] for row in answers}
        assert len(values) == len(answers) == len(cases)
        for g, (case, _) in enumerate(cases):
            number += 1
            if difference(values[g], case.expected):
                wrong.append(f"{case.where}: {metric.canonical} of {case.group}: {values[g]}")
    assert not wrong, "\n".join(wrong)
    assert number >= 361


def test_a_grade_above_the_scale_is_undefined(engine):
    """In every database, whatever its logarithm of a negative number is."""
    rows = [(1, 4.0, 1.0), (1, 1.0, 2.0), (2, 3.0, 1.0), (3, 5.0, None), (3, 1.0, 1.0)]
    engine.load("ranked", {"query": "INT", "rel": "DOUBLE", "pos": "DOUBLE"}, rows)
    values = dict(engine.ask(rankql.plain_sql("ERR(max_rel=3)@10")))
    assert values == {1: None, 2: 7 / 8, 3: None}


# Random groups, against the macros


OTHERS = {"threshold": "rel=2", "base": "base=10", "p": "p=0.35", "max_rel": "max_rel=4"}


def named(title):
    """The metric of a title at some cutoffs and, where it reads them, with other options."""
    stem, at, _ = title.partition("@")
    name, _, fixed = stem.rstrip(")").partition("(")
    parameters = {*re.findall(r"/\*(\w+)\*/", STATEMENTS[title])}
    needed = {x: f"{x}={y}" for x, y in (("p", 0.8), ("max_rel", 3)) if x in parameters}
    other = [needed | {x: OTHERS[x]} for x in sorted(parameters & OTHERS.keys())]
    cutoffs = ["@1", "@3", "@10"] if at else []
    cutoffs += [] if at and stem in STATEMENTS else [""]
    for options in [needed, *other]:
        inner = ", ".join(filter(None, [fixed, *options.values()]))
        for cutoff in cutoffs if options is needed else cutoffs[1:2] or cutoffs:
            yield f"{name}({inner}){cutoff}" if inner else f"{name}{cutoff}"


def tables(kind):
    """Ranked and scored rows: gaps, unjudged, judged and not retrieved, equal scores, no grades."""
    draw, grades = random.Random(kind), GRADES[kind]
    ranked, scored = [], []
    for query in range(150):
        shown = draw.randint(0, 14)
        places = sorted(draw.sample(range(1, shown + 5), shown))
        missing = draw.randint(0 if shown else 1, 4)
        some = draw.choice([grades, [0, None], [1, None, 0], [grades[-2], 0]])
        for i, pos in enumerate([*places, *[None] * missing]):
            rel = draw.choice([x for x in some if pos or x is not None])
            score = None if pos is None else draw.choice([0.25, 0.5, 1.75, -1.0])
            item = f"{draw.choice('abc')}{i}"
            ranked.append((query, item, rel, pos))
            scored.append((query, item, rel, score))
    draw.shuffle(ranked)
    draw.shuffle(scored)
    kinds = {"query": "INT", "item": "TEXT", "rel": kind}
    return {"ranked": (kinds | {"pos": "INT"}, ranked),
            "scored": (kinds | {"score": "DOUBLE"}, scored)}  # fmt: skip


GRADES = {"INT": [-2, -1, 0, 0, 1, 2, 3, None], "DOUBLE": [-0.5, 0, 0.5, 1, 1.25, 2.5, 3, None]}


@cache
def values_of_macros(kind):
    """By name of the metric, and the column of scores or None: the value by query, or of all."""
    con = metric_engines.connect()
    for name, (kinds, rows) in tables(kind).items():
        con.register("loaded", as_arrow(kinds, rows))
        con.execute(f"CREATE TABLE memory.main.{name} AS FROM loaded")
    result = {}
    for title in TITLES:
        names = [*named(title)]
        by_score = f"{parse(names[0])[0].record.function}_by_score" in signatures.SCORES
        forms = [(name, None) for name in names]
        forms += [(name, "score") for name in names[1:2] or names if by_score]
        for name, score in forms:
            (metric,) = parse(name)
            if score and (metric.record.level != "ranking" or metric.record.halves_ties):
                continue
            options = metric.arguments(vars(Conventions()))
            options |= {"gain": "exp2"} if "gain" in metric.options else {}
            function = metric.record.function
            if function in signatures.MICRO and metric.k:
                options["query"] = metric_engines.Column("query")
            columns = [x for x in metric_engines.names(function) if x != "query"]
            if score:
                function, columns = f"{function}_by_score", ["rel", "score", "item"]
            table = "scored" if "score" in columns else "ranked"
            grouped = metric.record.level == "ranking"
            text = metric_engines.call(function, columns, options)
            group = ("query", " GROUP BY query") if grouped else ("0", "")
            query = f"SELECT {group[0]}, {text} FROM {table}{group[1]}"
            result[name, score] = dict(con.execute(query).fetchall())
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRADES)
def test_random_groups(engine, kind):
    for name, (kinds, rows) in tables(kind).items():
        engine.load(name, kinds, rows)
    wrong, forms = [], [*values_of_macros(kind).items()]
    if isinstance(engine, Spark):  # half a second each: every other form of each kind
        forms = forms[kind == "INT" :: 2]
    for (name, score), expected in forms:
        answers = engine.ask(rankql.plain_sql(name, score=score))
        values = dict(row if len(row) > 1 else (0, *row) for row in answers)
        assert values.keys() == expected.keys() and len(values) == len(answers)
        wrong += [
            f"{name}, query {q}, score {score}: {values[q]}, not {expected[q]}"
            for q in expected
            if difference(values[q], expected[q])
        ][:2]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_positions_and_mean(engine):
    both = tables("INT")
    for name, (kinds, rows) in both.items():
        engine.load(name, kinds, rows)
    positions = engine.ask(STATEMENTS["Positions from scores"])
    last, expected = {}, []
    rows = sorted(both["scored"][1], key=lambda row: (row[3] or 0, row[1]), reverse=True)
    for query, item, rel, score in rows:
        last[query] = last.get(query, 0) + (score is not None)
        expected.append((query, item, rel, None if score is None else last[query]))
    assert sorted(positions, key=str) == sorted(expected, key=str)

    values = values_of_macros("INT")["RR@10", None].values()
    known = [x for x in values if x is not None]
    ((mean, *counts),) = engine.ask(STATEMENTS["Mean over queries"])
    assert not difference(mean, sum(known) / len(known))
    assert counts == [len(values), len(values) - len(known)] and counts[1] > 0


# The file


def test_every_metric_has_a_statement_or_a_reason():
    records = [*RELEVANCE, *COUNTS, *ORDER, *RATING, *MICRO, *GEOMETRIC, *WEIGHTED]
    assert {x.function for x in records} >= {*signatures.METRICS} - {*signatures.LABELS}
    names = {record.name or record.function for record in records}
    stated = {re.split(r"\W", title)[0] for title in TITLES}
    reasons = {*re.findall(r"^--   (\w+): ", textbook_text(), re.MULTILINE)}
    assert stated | reasons == names and not stated & reasons


@pytest.mark.parametrize("title", STATEMENTS)
def test_statements_are_plain(title):
    """At most twelve lines, of functions and clauses that every database has."""
    text = STATEMENTS[title]
    assert len(text.splitlines()) <= 12
    calls = {*re.findall(r"\b(\w+)\(", text)}
    words = {"AS", "OVER", "IN", "AND", "THEN", "CASE", "BY", "WHEN", "ELSE"}
    known = {"sum", "count", "min", "max", "avg", "row_number", "coalesce", "nullif"}
    known |= {"ln", "exp", "power", "sqrt", "abs"}
    assert calls - words <= known
    assert not re.search(r"\b(QUALIFY|FILTER|least|greatest|USING)\b|\[|::|:=", text)
    comment = re.search(rf"^-- {re.escape(title)}: ((?:.*\n-- )*.*)", textbook_text(), re.MULTILINE)
    rule = any(word in comment[1] for word in ("NULL", "0 if"))
    counts = ("NumRet", "NumRel", "NumRelRet", "RBPres@k", "Positions from scores")
    assert rule or title in counts, "the comment says when the value is NULL"


def textbook_text():
    return (ROOT / "sql" / "textbook.sql").read_text("utf-8")


def test_pages_show_each_statement_once():
    """On the generated page, which completeness.py compares, with a link from a metric's page."""
    page = (metric_pages.FOLDER / "plain-sql.md").read_text("utf-8")
    assert all(page.count(f"\n{x}\n") == 1 for x in metric_pages.plain_statements().values())
    pages = [x.read_text("utf-8") for x in sorted((ROOT / "docs" / "metrics").glob("*.md"))]
    links = [link for text in pages for link in metric_pages.LINK.findall(text)]
    assert sorted(title for title, _ in links) == sorted({*STATEMENTS} - {"Positions from scores"})
    assert all(re.sub(r"[^\w -]", "", x.lower()).replace(" ", "-") == y for x, y in links)
    assert {*metric_pages.plain_statements()} == {*STATEMENTS}
    assert STATEMENTS["nDCG@k"] in (ROOT / "docs" / "inside.md").read_text("utf-8")


def test_every_number_is_the_macro_default_or_an_example():
    """The file as it stands is nDCG@10 and so on, at the thresholds of rankql."""
    numbers = {*re.findall(r"/\*(\w+)\*/ ([\d.e]+)", textbook_text())}
    expected = {("k", "10"), ("threshold", "1"), ("base", "2"), ("max_rel", "3"), ("p", "0.8e0")}
    assert numbers == expected


# plain_sql


@pytest.mark.parametrize("place", ["pos", "score"])
def test_tables_with_other_names(engine, place):
    """Plain names, names with blanks, and names that the caller quoted, as the database does."""
    mark = "`" if isinstance(engine, Spark) else '"'
    query, rel = f"{mark}user id{mark}", f"{mark}order{mark}"
    score = {"pos": None, "score": "points"}[place]
    kinds = {query: "TEXT", "sku": "TEXT", rel: "INT", score or "pos": "INT"}
    rows = [("a", "x", 0, 1), ("a", "y", 2, 2), ("a", "z", 1, 3), ("b", "x", 1, 1)]
    engine.load("shown", kinds, rows)
    for name in [query] if isinstance(engine, Spark) else ["user id", query]:
        options = {"query": name, "item": "sku", "rel": rel, "score": score}
        text = rankql.plain_sql("RR@2", "shown", **options)
        assert dict(engine.ask(text)) == {"a": 0.5 if place == "pos" else 1.0, "b": 1.0}


def test_tables_by_path():
    con = duckdb.connect()
    con.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.ranked AS SELECT 1 AS query, 2 AS rel, 1 AS pos"
    )
    con.execute('CREATE TABLE "a.b" AS FROM shop.ranked')
    for table in ("shop.ranked", "memory.shop.ranked", '"a.b"', '"memory".shop."ranked"'):
        assert con.execute(rankql.plain_sql("CG@5", table)).fetchall() == [(1, 2)]
    assert 'FROM shop."my table" t' in rankql.plain_sql("CG@5", "shop.my table")


def test_several_metrics_are_several_statements():
    text = rankql.plain_sql(["nDCG@5,10", "map_cut_5", "MRR"])
    assert re.findall(r"^-- (.*)", text, re.MULTILINE) == ["nDCG@5", "nDCG@10", "map_cut_5", "MRR"]
    assert text.count(";") == 4 and "/*k*/ 5 " in text and "/*k*/ 1000000000" in text


test_what_plain_sql_refuses = refuses("plain_sql", globals(), "rankql.%s", light=16)


@pytest.mark.parametrize(
    "arguments", ["", "-m RR a b", "-m RR a --ties item", "-m RR a --engine postgres",
                  "-m RR a --schema x", "-m RR --dialect spark", "-m RR --folder"]
)  # fmt: skip
def test_plain_takes_no_other_options(arguments):
    done = CliRunner().invoke(main, ["sql", "--plain", *arguments.split()])
    assert done.exit_code == 2 and "With --plain, pass -m and one TABLE" in done.output


def test_the_command_prints_the_same():
    words = "sql --plain -m RR@5 -m MAP shop.shown --query user --score points --item sku"
    expected = rankql.plain_sql(
        ["RR@5", "MAP"], "shop.shown", query="user", score="points", item="sku"
    )
    assert CliRunner().invoke(main, words.split()).stdout == expected + "\n"
