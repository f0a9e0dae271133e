"""The matrix of faults: data with one fault each, and what every door says of it.

`cases/faults.toml` has both. A fault is SQL over the sound tables below, and a cell is one of

    refused: TEXT               an error of one line that begins so
    0.5464                      the mean of nDCG@2, or `undefined`, and no word about the data
    0.5464; noted: TEXT && TEXT the same with all notes and their beginnings
    error nan-scores of run: 1, such as query a, item y, score nan
                                of check: all findings, with a number of rows and the first of them

where {run} is the name of the run, ... any text, and {end} the end of a line. A row has a cell for
each door, one in eight also for Postgres, ClickHouse and Spark. A new fault is one entry.
"""

import json
import math
import re
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.base.errors import database_message
from support import metric_engines, native_databases
from support.paths import ROOT
from support.reading import one_line
from support.refusals import begins

PAGE = ROOT / "tests" / "cases" / "faults.toml"
METRIC, K = "nDCG@2", 2
# In the SQL of a fault, {y} is the row of query a and item y.
Y = "query = 'a' AND item = 'y'"
SOUND = """
CREATE TABLE scored AS FROM (VALUES
    ('a', 'x', 3.0::DOUBLE), ('a', 'y', 2), ('a', 'z', 1), ('b', 'x', 2), ('b', 'y', 1))
    AS t (query, item, score);
CREATE TABLE placed AS SELECT query, item,
    row_number() OVER (PARTITION BY query ORDER BY score DESC)::INT AS pos FROM scored;
CREATE TABLE judged AS FROM (VALUES
    ('a', 'x', 0), ('a', 'y', 2), ('a', 'z', 1), ('b', 'x', 1), ('b', 'y', 0), ('b', 'z', 1))
    AS t (query, item, rel)
"""
# Doors that mostly agree, under one name.
TOGETHER = {
    "tables": ("evaluate", "compare", "gate", "explain", "command"),
    "rows": ("polars", "DuckDB"),
}


@dataclass(frozen=True)
class Fault:
    """Its name, the SQL of both tables, and a cell for each door."""

    name: str
    run: str
    qrels: str
    cells: dict


@cache
def frames(*queries):
    """The tables that these queries make of the sound ones."""
    with duckdb.connect() as con:
        con.execute(SOUND)
        return [con.sql(query.replace("{y}", Y)).pl() for query in queries]


def read(name, entry):
    """A fault of the file. The cell of one door stands below that of several, and goes before."""
    run, qrels = entry.pop("run", "FROM scored"), entry.pop("qrels", "FROM judged")
    words = [(word, cell) for key, cell in entry.items() for word in key.split()]
    cells = {door: cell for word, cell in words for door in TOGETHER.get(word, (word,))}
    return Fault(name, run, qrels, cells)


FAULTS = [read(*pair) for pair in tomllib.loads(PAGE.read_text("utf-8")).items()]


def of_engine(door):
    """The faults that have a cell for another engine."""
    return [fault for fault in FAULTS if door in fault.cells]


# The doors: each returns a value and notes, or raises


def evaluate(run, qrels):
    result = rankql.evaluate(run, qrels, METRIC, interval=None)
    return result[METRIC], result.data_notes


def check(run, qrels):
    report = rankql.check(run, qrels, k=K)
    assert report.passed == all(finding.level != "error" for finding in report)
    assert not any("\n" in finding.message + finding.why for finding in report)
    lines = [f"{x.level} {x.kind} of {x.table}: {x.count}{example(x)}" for x in report]
    return " && ".join(lines) or "nothing", []


def example(finding):
    """The first example: `, such as query a, item y, score nan`."""
    row = finding.examples[0].items() if finding.examples else ()
    return ", such as " + ", ".join(f"{name} {value}" for name, value in row) if row else ""


OF_DIFFERENCES = ("Cannot be decided", "Not tested", "Rare losses may not be seen")
OF_MEANS = ("There is no confidence interval", f"{METRIC}: no query has a value")


def of_data(notes):
    """Without what is said of means and differences of two queries."""
    return [note for note in notes if not note.startswith(OF_DIFFERENCES + OF_MEANS)]


def compare(run, qrels):
    """With a sound run."""
    (old,) = frames("FROM placed" if "pos" in run.columns else "FROM scored")
    result = rankql.compare({"old": old, "new": run}, qrels, METRIC)
    ((mean,),) = result.summary.filter(system="new").select("mean").rows()
    return mean, of_data(result.notes)


def gate(run, qrels):
    verdict = rankql.gate(run, qrels, minimum=f"{METRIC}>=0.1")
    return verdict.table["mean"][0], of_data(verdict.notes)


def explain(run, qrels):
    result = rankql.explain(run, qrels, metric=METRIC)
    return result.value, of_data(result.notes)


def command(run, qrels):
    """Of Parquet files, which hold NULL, NaN and types as they are."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{name}.parquet")) for name in ("run", "qrels")]
        for path, frame in zip(paths, (run, qrels), strict=True):
            frame.write_parquet(path)
        arguments = ["eval", *paths, "-m", METRIC, "--interval", "none", "--format", "json"]
        done = CliRunner().invoke(main, arguments)
    if done.exit_code:
        assert done.exit_code == 2 and done.stderr.startswith("rankql: "), done.output
        raise rankql.RankqlError(done.stderr.removeprefix("rankql: ").rstrip("\n"))
    result = json.loads(done.stdout)
    return result["table"][0]["mean"], of_data(result["notes"])


# The rows of both tables, as metrics of one ranking read them
JOINED = "SELECT * FROM run FULL JOIN qrels USING (query, item)"


def call(run):
    return "ndcg(rel, pos, 2)" if "pos" in run.columns else "ndcg_by_score(rel, score, item, 2)"


def duckdb_rows(run, qrels):
    con = metric_engines.connection()
    con.register("run", run.to_arrow())
    con.register("qrels", qrels.to_arrow())
    try:
        query = f"SELECT avg(v) FROM (SELECT {call(run)} AS v FROM ({JOINED}) GROUP BY query)"
        return con.execute(query).fetchall()[0][0], []
    except duckdb.Error as error:
        raise ValueError(database_message(error)) from None


def polars_rows(run, qrels):
    rows = run.join(qrels, on=["query", "item"], how="full", coalesce=True)
    metric = rankql.ndcg if "pos" in run.columns else rankql.ndcg_by_score
    return rows.pipe(metric, k=K, by="query")[metric.__name__].mean(), []


# Of others


def in_spark(spark):
    import rankql.spark

    def evaluate(*tables):
        tables = [spark.createDataFrame(table.to_arrow()) for table in tables]
        result = rankql.spark.evaluate(*tables, METRIC)
        return result[METRIC], result.data_notes

    return evaluate


def in_database(database):
    """Of positions, which the functions of databases take."""

    def ask(run, qrels):
        number = "row_number() OVER (PARTITION BY query ORDER BY score DESC NULLS LAST)"
        place = "pos" if "pos" in run.columns else f"if(score IS NULL, NULL, {number})"
        with duckdb.connect() as con:
            rows = con.sql(f"SELECT query, rel, {place} AS pos FROM ({JOINED})").pl()
        groups = [part.rows() for part in rows.partition_by("query", include_key=False)]
        try:
            values = native_databases.Calls(database).run("ndcg", groups, {"k": K})
        except Exception as error:
            text = re.search(r"rankql: (.*?)(: while executing .*)?$", str(error), re.MULTILINE)
            raise ValueError(text[1]) from None
        return pl.Series(values, dtype=pl.Float64).mean(), []

    return ask


# Those of README's command come first.
HERE = {
    **{"evaluate": evaluate, "polars": polars_rows, "DuckDB": duckdb_rows, "check": check},
    **{"compare": compare, "gate": gate, "explain": explain, "command": command},
}
THERE = {"Postgres": in_database, "ClickHouse": in_database, "Spark": in_spark}


def is_cell(cell, value, notes):
    """Is this what the cell says of a value and its notes?"""
    expected, _, noted = cell.partition("; noted: ")
    if not isinstance(value, str):
        value = "undefined" if value is None or math.isnan(value) else f"{value:.4f}"
    patterns = noted.split(" && ") if noted else []
    return value == expected and len(notes) == len(patterns) and all(map(begins, notes, patterns))


def require(fault, door, ask):
    """The answer of a door is that of the cell."""
    cell = fault.cells[door]
    try:
        value, notes = ask(*frames(fault.run, fault.qrels))
    except Exception as error:
        text = one_line(error)
        assert cell.startswith("refused: ") and begins(text, cell.removeprefix("refused: ")), text
    else:
        assert is_cell(cell, value, notes), (value, notes, cell)
