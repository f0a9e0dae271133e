"""Run in a process without numpy and scipy: the examples of every public function, calls, and
commands. Prints, as JSON, what each said that is not the result that its text promises.
"""

import contextlib
import doctest
import json
import sys
from pathlib import Path

sys.modules |= dict.fromkeys(("numpy", "scipy"))  # an import of them fails

import duckdb  # noqa: E402
import polars as pl  # noqa: E402
from click import Context  # noqa: E402
from click.testing import CliRunner  # noqa: E402

import rankql  # noqa: E402
from rankql.cli.main import main  # noqa: E402

QUERIES = [f"q{n}" for n in range(12)]
RUN = pl.DataFrame({
    "query": [q for q in QUERIES for _ in "xy"], "item": [*"xy"] * 12, "score": [2.0, 1.0] * 12,
    "team": [f"t{n // 4}" for n in range(24)],
})  # fmt: skip
QRELS = pl.DataFrame({"query": QUERIES, "item": [*"xxy"] * 4, "rel": 1})
DAYS = pl.concat(
    RUN.join(QRELS, on=["query", "item"], how="left").with_columns(
        pl.col("rel").fill_null(0), day=pl.lit("2026-01-01").str.to_date() + pl.duration(days=n)
    )
    for n in range(40)
)
CALLS = {
    "evaluate": "rankql.evaluate(RUN, QRELS, 'RR').summary",
    "cluster=": "rankql.evaluate(RUN, QRELS, 'RR', by='team', cluster='team').summary",
    "mean='slices'": "rankql.evaluate(RUN, QRELS, 'RR', by='team', mean='slices').summary",
    "interval='anytime'": "rankql.evaluate(RUN, QRELS, 'RR', interval='anytime').summary",
    "judge=": "rankql.evaluate(RUN, QRELS, 'RR', judge=QRELS).summary",
    "min_scores": "rankql.min_scores(RUN, QRELS.with_columns(rel=pl.Series([1, 0, 0] * 4)))",
    "monitor": "rankql.monitor(DAYS, metrics='RR')",
    "assert_no_regression": "from rankql.testing import *; assert_no_regression(RUN, QRELS, RUN)",
    "plot": "rankql.evaluate(RUN, QRELS, ['RR', 'AP']).plot()",
}
COMMANDS = {
    "associate": "values.csv money.csv --on query", "audit": "0.5 --queries 50",
    "check": "run.csv q.csv", "compare": "run.csv old.csv q.csv", "convert": "run.csv new.run",
    "demo": "", "eval": "run.csv q.csv", "explain": "run.csv q.csv",
    "funnel": "a=run.csv b=old.csv q.csv", "gate": "run.csv q.csv --min RR>=.1",
    "judges": "q.csv q.csv", "metrics": "", "min-scores": "run.csv zeros.csv",
    "monitor": "days.csv --metric RR", "popular": "shop.csv -o popular.csv",
    "report": "run.csv old.csv q.csv -o r.html", "sql": "",
    "span-judgments": "chunks.csv spans.csv -o judged.parquet",
    "split": "shop.csv -o train.csv test.csv --last 5", "verify": "result.json run.csv q.csv",
}  # fmt: skip


def examples_of(name):
    """What the examples of a public name print that they do not promise."""
    try:
        value = getattr(rankql, name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    names = {"pl": pl, "duckdb": duckdb, "rankql": rankql, "Path": Path, **KNOWN}
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    finder = doctest.DocTestFinder(recurse=False)
    for test in finder.find(value, name, globs=names) if callable(value) else ():
        runner.run(test, out=printed.append)
    return "".join(printed).strip().rpartition("\n")[2].strip()


def result_of(code):
    """The error of a call."""
    try:
        exec(code, {**globals()})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def output_of(command, arguments):
    """The last line of a command that fails."""
    result = CliRunner().invoke(main, [command, *arguments.split()])
    if result.exception is None or isinstance(result.exception, SystemExit):
        return result.output.strip().rpartition("\n")[2] if result.exit_code > 1 else ""
    return f"{type(result.exception).__name__}: {result.exception}"


KNOWN = {}
for public in rankql.__all__:
    with contextlib.suppress(rankql.RankqlError):
        KNOWN[public] = getattr(rankql, public)
RUN.write_csv("run.csv")
RUN.reverse().write_csv("old.csv")
QRELS.write_csv("q.csv")
QRELS.with_columns(rel=pl.Series([1, 0, 0] * 4)).write_csv("zeros.csv")
DAYS.write_csv("days.csv")
shop = DAYS.select(user="query", item=pl.col("item") + pl.col("day").cast(pl.String), day="day")
shop.write_csv("shop.csv")
PLACES = pl.DataFrame({"document": [*"ab"], "start": [0, 5], "end": [9, 9]})
PLACES.write_csv("chunks.csv")
PLACES.with_columns(query=pl.Series(["q1", "q2"])).write_csv("spans.csv")
for name in ("values", "money"):
    QRELS.select("query", pl.Series(name, range(12))).write_csv(f"{name}.csv")
rankql.evaluate(RUN, QRELS, "RR").save("result.json")
with Context(main) as context:
    unknown = {*main.list_commands(context)} ^ {*COMMANDS}
print(
    json.dumps(
        {
            "names": {name: examples_of(name) for name in rankql.__all__},
            "calls": {name: result_of(code) for name, code in CALLS.items()},
            "commands": {name: output_of(name, text) for name, text in COMMANDS.items()},
            "unknown": [*unknown],
        }
    )
)
