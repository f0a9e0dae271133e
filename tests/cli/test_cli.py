"""The command line: what it prints, where, and how it ends."""

import csv
import inspect
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import termios

import click
import duckdb
import polars as pl
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import text as show
from rankql.cli.main import main
from support import other_tools
from support.paths import ROOT


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run and judgments as TREC files, a second run, and the same in Parquet."""
    folder = tmp_path_factory.mktemp("cli")
    run, qrels = other_tools.random_data(2)
    for name, sign in (("one", 1), ("two", -1)):
        lines = [
            f"{q} Q0 {d} 0 {sign * s!r} t" for q, items in run.items() for d, s in items.items()
        ]
        (folder / f"{name}.run").write_text("\n".join(lines))
    judged = [(q, d, r) for q, items in qrels.items() for d, r in items.items()]
    (folder / "qrels").write_text("\n".join(f"{q} 0 {d} {r}" for q, d, r in judged))
    frame = pl.DataFrame(judged, schema=["query", "item", "rel"], orient="row")
    frame = frame.with_columns(segment=pl.format("s{}", pl.col("query").str.len_chars()))
    frame.write_parquet(folder / "qrels.parquet")
    return folder


def run(folder, *arguments, code=0):
    """What the command prints on stdout and on stderr."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    finally:
        os.chdir(before)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    "command, option, instead",
    [("eval one.run", "interval", "auto"), ("compare one.run two.run", "test", "randomisation")],
)
def test_the_retired_bootstrap(files, command, option, instead):
    _, said = run(files, *command.split(), "qrels", f"--{option}", "bootstrap", code=2)
    assert said.count("\n") == 1
    assert f"--{option} bootstrap was removed" in said and f"--{option} {instead}" in said
    arguments = [str(files / name) for name in (*command.split()[1:], "qrels")]
    function = {"interval": rankql.evaluate, "test": rankql.compare}[option]
    with pytest.raises(rankql.RankqlError, match=f"{option}='bootstrap' was removed.*{instead}"):
        function(*arguments, **{option: "bootstrap"})


def test_one_named_input(files):
    """NAME=PATH alone is a dict of one run."""
    run(files, "eval", "one.run", "qrels", "-m", "RR@10", "--output", "one.parquet")
    out, _ = run(files, "compare", "new=one.parquet", "--format", "json")
    assert {row["system"] for row in json.loads(out)["summary"]} == {"new"}


@pytest.mark.report
def test_options_of_the_tests(files):
    """What compare takes, the command line takes."""
    common = ("--correction", "bh", "--resamples", 200, "--seed", 3)
    both = ("one=one.run", "two=two.run", "qrels", "-m", "RR@10", *common)
    out, _ = run(files, "compare", *both, "--format", "json")
    said = {"correction": "bh", "resamples": 200, "seed": 3, "bounds": None}
    assert said.items() <= json.loads(out)["settings"].items()
    run(files, "report", *both, "-o", "page.md")
    _, err = run(files, "report", *both, "-o", "page.html", "--stage", "first=one.run", code=2)
    assert "rankql report --stage was removed" in err and "Use rankql funnel" in err
    for option in (("--title", "x"), ("--texts", "item=nofile")):
        _, err = run(files, "report", *both, "-o", "page.csv", *option, code=2)
        assert f"{option[0]} is only for a report" in err
    _, err = run(files, "report", *both, "-o", "page.html", "--texts", "item=nofile", code=2)
    assert "texts['item']: file 'nofile' does not exist" in err
    _, err = run(files, "report", *both, "-o", "nowhere/page.html", code=2)
    assert "output 'nowhere/page.html': folder" in err and "Comparing" not in err
    _, err = run(files, "eval", "one.run", "qrels", "--rel", "buy=1.2.3", code=2)
    assert "--rel buy=1.2.3 is not valid SQL" in err
    _, err = run(files, "compare", *both, "--seed", -1, code=2)
    assert "seed must be a whole number" in err


def test_eval(files):
    out, err = run(files, "eval", "one.run", "qrels", "-m", "nDCG@5,10", "-m", "AP")
    expected = rankql.evaluate(files / "one.run", files / "qrels", ["nDCG@5,10", "AP"])
    assert out == repr(expected) + "\n" and err == ""
    assert [line.split()[0] for line in out.split("\n")[1:4]] == ["nDCG@5", "nDCG@10", "AP"]


def test_eval_of_small_files_spares_pyarrow(files):
    """Importing it takes time. DuckDB 1 needs it."""
    code = """
import duckdb, sys
from rankql.cli.main import main

main(["eval", "one.run", "qrels", "-m", "nDCG@5"], standalone_mode=False)
assert ("pyarrow" in sys.modules) == duckdb.__version__.startswith("1.")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=files, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout == run(files, "eval", "one.run", "qrels", "-m", "nDCG@5")[0]


def test_lists_of_ids_and_chunks(tmp_path):
    """One row per query; the last input is a run too, because it has retrieved ids."""
    for name, ids in (("old", ["b#1", "b#2", "a#3"]), ("new", ["a#3", "b#1", "b#2"])):
        row = {"question": "what?", "retrieved_ids": ids, "expected_ids": ["a"]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    collapse = ("--collapse", "#", "-m", "RR")
    out, _ = run(tmp_path, "eval", "old.jsonl", "new.jsonl", *collapse, "--format", "json")
    assert [row["mean"] for row in json.loads(out)["table"]] == [1, 0.5]
    out, _ = run(tmp_path, "compare", "old.jsonl", "new.jsonl", *collapse)
    assert out.startswith("new is best on RR")
    run(tmp_path, "gate", "old.jsonl", *collapse[:2], "--min", "RR>=0.5")
    out, _ = run(
        tmp_path, "eval", "old.jsonl", *collapse, "--positions", "keep", "--interval", "none"
    )
    assert "RR      0.3333" in out and "1 of 3 rows repeat a document" in out
    _, err = run(tmp_path, "eval", "old.jsonl", "--positions", "keep", code=2)
    assert "--positions keep is for --collapse" in err
    (tmp_path / "rows.csv").write_text("query,item\nq,x\nq,y\n")
    (tmp_path / "qrels.csv").write_text("query,item,rel\nq,y,1\n")
    out, _ = run(tmp_path, "eval", "rows.csv", "qrels.csv", "-m", "RR", "--order", "rows")
    assert "pos = order of the rows" in out


def test_formats(files):
    arguments = ["eval", "one.run", "qrels.parquet", "-m", "AP", "-m", "P@5", "--by", "segment"]
    expected = rankql.evaluate(
        files / "one.run", files / "qrels.parquet", ["AP", "P@5"], by="segment"
    )
    out, err = run(files, *arguments, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [float(row["mean"]) for row in rows] == expected.summary["mean"].to_list()
    assert err.startswith("Conventions: rankql")
    out, _ = run(files, *arguments, "--format", "json")
    assert json.loads(out)["table"] == expected.summary.to_dicts()
    out, err = run(files, *arguments, "--format", "jsonl")
    assert [json.loads(line) for line in out.splitlines()] == expected.summary.to_dicts()
    out, _ = run(files, *arguments, "--format", "markdown")
    assert out == expected.to_markdown() + "\n"


def test_per_query_and_output(files, tmp_path):
    path = tmp_path / "out.parquet"
    arguments = ["eval", "one.run", "qrels", "-m", "AP", "-q", "--format", "jsonl"]
    out, _ = run(files, *arguments, "--output", path)
    rows = [json.loads(line) for line in out.splitlines()]
    expected = rankql.evaluate(files / "one.run", files / "qrels", "AP").per_query.to_dicts()
    assert rows == expected
    assert rankql.combine([path]).per_query.to_dicts() == expected


def test_several_runs(files):
    out, _ = run(files, "eval", "one.run", "two.run", "qrels", "-m", "AP", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["system"] for row in rows] == ["one", "two"]
    out, _ = run(files, "eval", "first=one.run", "two.run", "qrels", "-m", "AP", "--format", "csv")
    assert out.count("\nfirst,") == 1 and out.count("\ntwo,") == 1
    _, err = run(files, "eval", "one.run", "./one.run", "qrels", code=2)
    assert "Two runs have the same name. Name each run: NAME=PATH" in err


def test_options_of_conventions(files):
    out, _ = run(files, "eval", "one.run", "qrels", "-m", "AP@5", "--conventions", "trec_eval")
    paths = files / "one.run", files / "qrels"
    assert out == repr(rankql.evaluate(*paths, "AP@5", conventions="trec_eval")) + "\n"
    options = ["--ties", "best", "--gain", "exp2", "--undefined", "zero", "--threshold", "2"]
    options += ["--discounts", "0.8,1.6,2,2.3,2.6"]
    out, _ = run(files, "eval", "one.run", "qrels", "-m", "nDCG@5", *options)
    chosen = {"ties": "best", "gain": "exp2", "undefined": "zero", "threshold": 2.0}
    chosen["discounts"] = [0.8, 1.6, 2.0, 2.3, 2.6]
    assert out == repr(rankql.evaluate(*paths, "nDCG@5", **chosen)) + "\n"
    out, _ = run(files, "eval", "one.run", "qrels", "-m", "P@5", "--item", "item,item")
    assert "item = item" in out


def test_one_ranked_table(files):
    table = pl.DataFrame({"user": ["a", "a"], "rel": [0, 1], "pos": [1, 2]})
    table.write_parquet(files / "ranked.parquet")
    out, _ = run(files, "eval", "ranked.parquet", "-m", "RR", "--format", "csv")
    assert next(csv.DictReader(io.StringIO(out)))["mean"] == "0.5"


def test_sql(files):
    out, _ = run(files, "sql")
    assert out == (ROOT / "sql" / "rankql.sql").read_text()
    out, _ = run(files, "sql", files / "one.run", files / "qrels", "-m", "AP")
    con = duckdb.connect()
    rankql.register(con)
    expected = rankql.evaluate(files / "one.run", files / "qrels", "AP").per_query
    found = con.sql(out).pl().drop("__rankql_missing")
    assert_frame_equal(found, expected, abs_tol=1e-12, rel_tol=0)


def test_printed_sql_has_slices_and_weights(files):
    table = pl.DataFrame({"query": ["a", "a", "b"], "rel": [0, 3, 1], "pos": [1, 2, 1]})
    table = table.with_columns(part=pl.col("query"), traffic=pl.col("query").str.len_chars())
    table.write_parquet(files / "graded.parquet")
    out, _ = run(
        files,
        "sql",
        files / "graded.parquet",
        "-m",
        "nDCG@5",
        "--by",
        "part",
        "--weight",
        "traffic",
    )
    result = rankql.evaluate(files / "graded.parquet", None, "nDCG@5", by="part", weight="traffic")
    assert out.strip() == result.sql and 'ndcg(rel, pos, 5) AS "nDCG@5"' in out


@pytest.mark.parametrize("arguments", [["compare", "one.run", "two.run"], ["eval", "one.run"]])
def test_wide_tables_have_metrics_as_columns(files, arguments):
    out, _ = run(files, *arguments, "qrels", "-m", "RR@10", "-m", "AP", "--wide")
    assert out.splitlines()[0].split()[-2:] == ["RR@10", "AP"]


def test_sql_of_other_engines(files):
    query = "SELECT ndcg(rel, pos, 10) FROM t"
    for dialect in ("clickhouse", "spark", "postgres", "trino"):
        out, _ = run(files, "sql", query, "--dialect", dialect)
        assert out == rankql.translate(query, dialect) + "\n"
    out, _ = run(files, "sql", "--dialect", "clickhouse")
    assert "\nCREATE OR REPLACE FUNCTION ndcg AS (rel, pos, k) -> " in out
    for wrong in (
        ["sql", "--dialect", "spark"],
        ["sql", "--dialect", "x"],
        ["sql", "a", "b", "--dialect", "spark"],
    ):
        run(files, *wrong, code=2)


def test_metrics(files):
    out, _ = run(files, "metrics")
    assert "nDCG" in out and "Normalised DCG" in out and "Default conventions: gain=linear" in out
    rows = json.loads(run(files, "metrics", "--format", "json")[0])
    assert {row["name"] for row in rows} >= {"nDCG", "AP", "RR", "ERR", "microF1"}
    assert max(map(len, out.splitlines())) <= 80
    for text, expected in (("recall", "microR"), ("mrr", "RR"), ("gini", "gini")):
        rows = json.loads(run(files, "metrics", text, "--format", "json")[0])
        names = {row["name"] for row in rows}
        assert expected in names and "nDCG" not in names
    assert "recalll" in run(files, "metrics", "recalll", code=2)[1]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ("eval", "one", [("one", "file")]),
        ("eval one.run", "", [("", "file")]),
        ("compare", "new=on", [("new=one.run", "plain")]),
        ("compare", "new=fold", [("new=folder/", "plain")]),
        ("compare", "day=1/", [("day=1/", "file")]),
        ("gate", "one", [("one", "file")]),
        ("convert", "one", [("one", "file")]),
        ("eval --attributes", "one", [("one", "file")]),
    ],
)
def test_the_shell_completes_paths(tmp_path, monkeypatch, words, incomplete, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.run").touch()
    (tmp_path / "folder").mkdir()
    completion = ShellComplete(main, {}, "rankql", "_RANKQL_COMPLETE")
    items = completion.get_completions(words.split(), incomplete)
    assert [(item.value, item.type) for item in items] == expected


def test_explain(files):
    out, _ = run(files, "explain", "one.run", "qrels", "-Q", "q3", "-m", "nDCG@5")
    paths = files / "one.run", files / "qrels"
    assert out == repr(rankql.explain(*paths, "q3", "nDCG@5")) + "\n"
    for worst in (1, 2):
        options = ("--worst", str(worst), "--format", "json")
        out, _ = run(files, "explain", "one.run", "qrels", *options)
        assert len(json.loads(out)["table"]) == worst


def test_check(files):
    out, _ = run(files, "check", "one.run", "qrels", "-k", "5")
    report = rankql.check(files / "one.run", files / "qrels", k=5)
    assert (
        out.startswith(f"{report.title}\n")
        and len(out.splitlines()) == repr(report).count("\n") + 1
    )
    assert "ties='expected'" in repr(report) and "--ties expected" in out
    assert "missing=." in repr(report) and "Change this with --missing." in out
    (files / "twice").write_text((files / "qrels").read_text() + "\nq3 0 d1 1\nq3 0 d1 2\n")
    out, _ = run(files, "check", "one.run", "twice", code=1)
    assert "duplicate" in out


def test_convert(files, tmp_path):
    _, err = run(files, "convert", "one.run", tmp_path / "one.parquet")
    assert str(tmp_path / "one.parquet") in err
    run(files, "convert", tmp_path / "one.parquet", tmp_path / "again.run")
    results = [
        rankql.evaluate(path, files / "qrels", ["AP", "nDCG@10"]).per_query
        for path in (files / "one.run", tmp_path / "one.parquet", tmp_path / "again.run")
    ]
    for result in results[1:]:
        assert_frame_equal(results[0], result, abs_tol=1e-12, rel_tol=0)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["eval", "no.run", "qrels"], "rankql: run: file 'no.run' does not exist"),
        (["eval", "qrels", "one.run"], "rankql: run and qrels look swapped"),
        (["eval", "one.run", "qrels", "-m", "nDGC"], "rankql: Unknown metric 'nDGC'. Did you"),
        (["eval", "one.run", "qrels", "--by", "x"], "rankql: --by x: no column of that name in "),
        (["eval", "one.run", "qrels", "--query", "x"], "rankql: --query x: no column of that name"),
        (["eval", "one.run", "qrels", "--output", "no/such/x.parquet"], "rankql: "),
        (["eval", "one.run", "qrels", "--ties", "x"], "Invalid value for '--ties'"),
        (["eval"], "Missing argument"),
        (["evla"], "No such command 'evla'"),
        (["explain", "one.run", "qrels", "-Q", "nobody"], "rankql: "),
        (["convert", "no.run", "x.parquet"], "rankql: "),
        (["check", "no.run", "qrels"], "rankql: "),
    ],
)
def test_errors(files, arguments, line):
    out, err = run(files, *arguments, code=2)
    assert line in err and out == ""
    if line.startswith("rankql"):
        assert err.count("\n") == 1


def test_without_a_command(tmp_path):
    """What to do first: each of its commands runs, in that order, as it stands there."""
    done = command(cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == b""  # as click ends without a command
    said = done.stderr.decode()
    assert len(said.splitlines()) <= 10
    commands = re.findall(r"python[\d.]* -m rankql ([^;\n]*)", said)
    assert [line.split()[0] for line in commands] == [
        "demo",
        "eval",
        "eval",
        "check",
        "--help",
        "eval",
    ]
    shop, new = "rankql-demo/shop.parquet", "rankql-demo/new.parquet"
    for line in commands:
        given = line.strip().replace("RUN", new).replace("QRELS", shop).split()
        run(tmp_path, *given)
    assert run(tmp_path, code=2)[1].count("rankql demo") == 1  # by the name that it was called by


def test_demo_says_what_is_next(tmp_path):
    _, err = run(tmp_path, "demo", "--output", "my demo", "--queries", 50)
    (line,) = re.findall(r"^Next: rankql (.*)$", err, re.MULTILINE)
    assert "segment=vip" in run(tmp_path, *shlex.split(line))[0]


def test_what_is_next_works_as_printed(tmp_path):
    """After `.venv/bin/python -m rankql demo`, and after a script that is not on the PATH."""
    root, bin_ = ROOT, tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(sys.executable)
    script = bin_ / "rankql"
    script.write_text(f"#!{sys.executable}\nfrom rankql.cli.start import run\nrun()\n")
    script.chmod(0o755)
    path = os.pathsep.join(p for p in sys.path if "site-packages" in p)
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}"}
    for called in (".venv/bin/python -m rankql", ".venv/bin/rankql"):
        command = [*called.split(), "demo", "--queries", "50"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        (line,) = re.findall(r"^Next: (.*)$", done.stderr, re.MULTILINE)
        assert line == f"{called} eval rankql-demo/shop.parquet --by segment"
    done = subprocess.run(
        shlex.split(line), cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert "segment=vip" in done.stdout


def test_names_that_duckdb_suggests(files):
    """Its errors on one line: what is wrong, and what there is; not the SQL."""
    for metric, message in {
        "x = sum(relx)": "--metric relx: no column of that name in run. Available: ",
        "x = summ(rel)": 'Function with name summ does not exist! Did you mean "sum"?',
    }.items():
        _, err = run(files, "eval", "one.run", "qrels", "-m", metric, code=2)
        assert message in err and len(err.splitlines()) == 1 and "LINE 1" not in err


def test_wide_characters_are_aligned(tmp_path):
    """A Chinese character takes two columns of a terminal, an accent by itself none."""
    rows = [("新用户", 1), ("vip", 2), ("re\u0301gulier", 1), ("ｆｕｌｌ", 1)]
    frame = pl.DataFrame(rows, schema=["客户", "pos"], orient="row").with_columns(
        query=pl.int_range(pl.len()), item=1, rel=1
    )
    frame.write_parquet(tmp_path / "shop.parquet")
    out, _ = run(tmp_path, "eval", "shop.parquet", "--by", "客户", "-m", "RR", "--interval", "none")
    lines = out.splitlines()[: len(rows) + 2]
    assert " lo " not in lines[0]
    columns = {show.display_width(line[: line.index("RR")]) for line in lines[1:]}
    assert len(columns) == 1
    assert show.display_width("客户=新用户") == 11 and show.display_width("re\u0301") == 2
    assert show.display_width("Ω→é") == 3  # whose width a Chinese font may double, a terminal not


def test_help_tells_of_every_command_in_a_line(tmp_path):
    listed = run(tmp_path, "--help")[0].partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(main.commands) and not [line for line in listed if "..." in line]


@pytest.mark.parametrize("name", main.commands)
def test_help(tmp_path, name):
    """Two or three examples that parse, then the options by group: the common ones, or all."""
    command = main.commands[name]
    lines = run(tmp_path, name, "--help")[0].splitlines()
    options = command.get_params(click.Context(command))
    listed = [line for line in lines if re.match(r"  +-", line)]
    assert len(listed) <= 18
    start = lines.index("Examples:")
    assert start <= 5 and 2 <= len(command.examples) <= 3
    for line in lines[start + 1 : start + 1 + len(command.examples)]:
        _, example, *arguments = shlex.split(line.partition(" > ")[0])
        assert example == name
        command.make_context(name, [*arguments])
    if len(options) > len(listed) + 2:
        lines = run(tmp_path, name, "--help-all")[0].splitlines()
    text = " ".join(" ".join(lines).split())
    for option in options:
        if "--" in option.opts[-1]:
            assert f"{option.opts[-1]} " in text, option.name
            assert option.help[0].isupper(), option.name


def test_help_shows_defaults(files):
    shown = " ".join(run(files, "compare", "--help-all")[0].split())
    defaults = inspect.signature(rankql.compare).parameters
    for name in ("test", "correction", "resamples", "seed", "confidence"):
        assert f"[default: {defaults[name].default}]" in shown
    assert "Repeat -m" in shown and "[default: 1]" in shown
    assert "_RANKQL_COMPLETE=zsh_source rankql" in run(files, "--help")[0]


@pytest.mark.parametrize(("terminal", "colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_on_a_terminal(files, terminal, colour):
    seen, shown = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm", **terminal}
    done = subprocess.run(
        [sys.executable, "-m", "rankql", "check", "one.run", "qrels"],
        cwd=files, stdout=shown, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    os.close(shown)
    assert done.returncode == 0 and (b"\x1b[1mCheck of" in os.read(seen, 100_000)) == colour


def test_debug_shows_where(files):
    done = CliRunner().invoke(main, ["--debug", "eval", "no.run", "qrels"])
    assert done.exit_code == 2 and "Traceback" in done.stderr and "RankqlError" in done.stderr


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "rankql", *map(str, arguments)], capture_output=True, **options
    )


def test_pipes_get_no_colour_and_no_progress(files):
    done = command("eval", "one.run", "qrels", cwd=files, env={**os.environ, "FORCE_COLOR": "1"})
    assert done.returncode == 0 and done.stderr == b"" and b"\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("text", "first"),
    [("eval one.run qrels -q | head -1", "query"), ("sql | head -c 9", "-- Helper")],
)
def test_a_closed_pipe_is_no_error(files, text, first):
    text = f"({sys.executable} -m rankql {text.replace(' |', '; echo $? >&2) |')}"
    done = subprocess.run(text, shell=True, cwd=files, capture_output=True, text=True)
    assert done.stdout.startswith(first) and done.stderr in ("0\n", "141\n")


@pytest.mark.slow
def test_progress_goes_to_a_terminal(tmp_path):
    """A bar on stderr when someone looks at it, and the data alone on stdout."""
    con = duckdb.connect()
    con.execute(f"""
        COPY (SELECT q AS query, i AS item, hash(q, i) AS score, i % 2 AS rel
              FROM range(30000) t(q), range(100) u(i)) TO '{tmp_path}/x.parquet'""")
    seen, shown = pty.openpty()
    arguments = ["eval", "x.parquet", "-m", "AP", "-m", "Bpref", "-m", "TauB", "--format", "csv"]
    done = subprocess.run(
        [sys.executable, "-m", "rankql", *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=shown, text=True,
    )  # fmt: skip
    os.close(shown)
    assert done.returncode == 0 and done.stdout.startswith("slice,metric,mean")
    shown = os.read(seen, 100_000).decode()
    assert "rankql: 2 s" in shown and "\r\x1b[KConventions" in shown  # the line is empty again


def test_temporary_files_are_removed_at_the_end(tmp_path):
    """The process ends without freeing its memory."""
    script = """
import os, sys
from rankql.cli.start import run
from rankql.sources.private import private_connection
with private_connection() as con:
    con.execute("SET memory_limit = '20MB'")
    con.execute("CREATE TEMP TABLE t AS SELECT hash(i) FROM range(5_000_000) AS t (i)").fetchall()
    assert os.listdir(".tmp")
sys.argv = ["rankql", "--version"]
run()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith(b"rankql, version"), done.stderr
    assert not os.listdir(tmp_path)


def test_help_does_not_wait_for_the_engines():
    """--help imports neither duckdb nor polars."""
    script = (
        "import sys; from rankql.cli.main import main; "
        "main(['--help'], standalone_mode=False); "
        "print([name for name in ('duckdb', 'polars', 'pyarrow', 'pandas', 'scipy', 'altair') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("[]"), done.stderr
    assert command("--help").returncode == 0


def test_optional_libraries_are_imported_only_when_used(files):
    """Nothing but what duckdb and polars import themselves when they meet."""
    script = """
import sys, duckdb, polars
frame = polars.DataFrame({"x": [1]})
duckdb.sql("FROM frame").pl()
before = set(sys.modules)
import rankql
repr(rankql.evaluate("one.run", "qrels", "AP", interval=None))
optional = {"pandas", "pyarrow", "scipy", "altair", "numpy"}
print(sorted(optional & (set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=files, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_hints_name_options_of_the_command_line(tmp_path):
    """--rel COLUMN, not rel='...'; and a column named distance may hold similarities."""
    (tmp_path / "run.csv").write_text("query,item,distance\na,x,2\na,y,1\n")
    (tmp_path / "qrels.csv").write_text("query,item,rel\na,x,1\na,y,0\n")
    (tmp_path / "odd.csv").write_text("query,item,worth\na,x,1\n")
    (tmp_path / "twice.csv").write_text("query,item,score\na,x,1\na,x,2\n")
    _, error = run(tmp_path, "eval", "run.csv", "odd.csv", code=2)
    assert "--rel COLUMN" in error and "rel=" not in error
    _, error = run(tmp_path, "eval", "run.csv", "qrels.csv", "--query", "nope", code=2)
    assert error.startswith("rankql: --query nope: no column of that name")
    _, error = run(tmp_path, "eval", "run.csv", "qrels.csv", "--query", "query,query,query", code=2)
    assert error.startswith("rankql: --query query,query,query: a pair names the columns")
    _, error = run(tmp_path, "eval", "twice.csv", "qrels.csv", code=2)
    assert error.endswith("pass the column of the systems: --system\n")
    (tmp_path / "a.csv").write_text("query,wait\na,1\nb,2\nc,4\n")
    (tmp_path / "b.csv").write_text("query,wait\na,2\nb,2\nc,3\n")
    out, notes = run(tmp_path, "compare", "a.csv", "b.csv")
    assert "If not, set --lower-is-better\n" in out + notes and "CLI" not in out + notes
    for order, rr in (("--ascending", 0.5), ("--descending", 1.0)):
        options = ["-m", "RR", order, "--format", "json"]
        out, _ = run(tmp_path, "eval", "run.csv", "qrels.csv", *options)
        assert json.loads(out)["table"][0]["mean"] == rr
    rows = [(f"q{q}", f"d{d}", d) for q in range(30) for d in range(5)]
    frame = pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")
    frame.write_parquet(tmp_path / "run.parquet")
    judged = frame.select("query", "item", rel=(pl.col("score") == 0).cast(int))
    judged.write_parquet(tmp_path / "qrels.parquet")
    out, _ = run(tmp_path, "check", "run.parquet", "qrels.parquet")
    assert "pass --ascending" in out and "descending=" not in out


@pytest.mark.parametrize(("module", "code"), [("click", -2), ("polars", 130)])
def test_an_interrupt_is_quiet(files, module, code):
    """Also while modules are imported."""
    script = f"""
import os, signal, sys
from rankql.cli.start import run
class Interrupt:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["rankql", "eval", "one.run", "qrels"]
run()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=files, capture_output=True, text=True)
    assert done.returncode == code and "Traceback" not in done.stderr


def test_the_demo_replaces_only_its_own_files(tmp_path):
    for _ in range(2):
        run(tmp_path, "demo", "--output", ".", "--queries", 9)
    for name, write in {
        "shop.parquet": lambda path: path.write_text("mine"),
        "new.parquet": pl.DataFrame({"query": [1]}).write_parquet,
    }.items():
        write(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        _, said = run(tmp_path, "demo", "--output", ".", "--queries", 9, code=2)
        assert name in said and (tmp_path / name).read_bytes() == before
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "option", ["--confidence 0.9_5", "--threshold 1_0", "--discounts 1_0,2", "--weight"]
)
def test_numbers_without_underscores(files, option):
    run(files, "eval", "one.run", "qrels", *option.split(), code=2)


STARTS = {"csv": "", "md": "", "json": "{", "html": "<!doctype html>"}


@pytest.mark.parametrize(
    ("command", "suffixes"),
    [
        *((command, STARTS) for command in ("eval", "explain", "limits", "check", "gate")),
        ("compare", ["csv", "md", "json"]),
        pytest.param("compare", ["html"], marks=pytest.mark.heavy),  # the report needs altair
    ],
)
def test_the_suffix_is_the_format(files, tmp_path, command, suffixes):
    """For every command with a result; eval writes the values per query to Parquet."""
    options = ["--min", "AP>=0"] * (command == "gate")
    for suffix in suffixes:
        path = tmp_path / f"out.{suffix}"
        arguments = [command, *options, str(files / "one.run"), str(files / "qrels")]
        done = CliRunner().invoke(main, [*arguments, "-o", str(path)])
        assert done.exit_code in (0, 1) and str(path) in done.stderr, done.output
        assert path.read_text().startswith(STARTS[suffix])


def test_what_is_not_set_is_not_passed(files):
    """A profile keeps its float32, and --interval none is not the default."""
    arguments = ["eval", "one.run", "qrels", "-m", "AP", "--format", "json"]
    for options, expected in (
        (["--conventions", "trec_eval", "--interval", "none"], True),
        (["--interval", "none", "--float32"], True),
        (["--interval", "none"], False),
    ):
        printed = json.loads(run(files, *arguments, *options)[0])
        assert printed["conventions"]["float32"] == expected
        assert not printed["table"][0].get("lo")


def test_results_fit_a_terminal_without_broken_words(tmp_path):
    """The table of `compare` leaves out columns, and sentences are wrapped between words."""
    rows = "SELECT i AS query, hash(i) % 7 / 10.0 AS AP FROM range(40) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/old.csv'")
    duckdb.sql(f"COPY ({rows.replace('% 7', '% 5')}) TO '{tmp_path}/new.csv'")
    seen, shown = pty.openpty()
    termios.tcsetwinsize(shown, (40, 80))
    command = [sys.executable, "-m", "rankql", "compare", "old.csv", "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, stdout=shown, stderr=subprocess.PIPE, text=True)
    os.close(shown)
    lines = re.sub(r"\x1b\[\d*m", "", os.read(seen, 100_000).decode()).splitlines()
    assert done.returncode == 0 and "difference between new and old" in " ".join(lines)
    assert max(map(len, lines)) <= 80 and any(line.startswith("metric  a") for line in lines)
