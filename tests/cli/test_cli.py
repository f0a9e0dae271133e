"""The command line: what it prints, where, and how it ends."""

import contextlib
import inspect
import io
import itertools
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
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql.cli import tasks
from rankql.cli.command import as_cli_options
from rankql.cli.main import main
from rankql.core.base import text
from rankql.core.metrics import macros
from support import metric_engines, samples
from support.judged_runs import simulated
from support.parameters import few, slow

QUERY = "SELECT ndcg(rel, pos, 10) FROM t"
PAIRS = [*itertools.product(range(30), range(5))]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run, its reverse and judgments as TREC files, the judgments as Parquet, and odd tables."""
    folder = tmp_path_factory.mktemp("cli")
    scores, qrels = samples.random_data(2)
    for name, sign in (("one", 1), ("two", -1)):
        lines = [f"{q} Q0 {d} 0 {sign * s!r} t" for q, x in scores.items() for d, s in x.items()]
        (folder / f"{name}.run").write_text("\n".join(lines))
    judged = [(q, d, r) for q, items in qrels.items() for d, r in items.items()]
    (folder / "qrels").write_text("\n".join(f"{q} 0 {d} {r}" for q, d, r in judged))
    frame = pl.DataFrame(judged, schema=["query", "item", "rel"], orient="row")
    frame = frame.with_columns(segment=pl.format("s{}", pl.col("query").str.len_chars()))
    frame.write_parquet(folder / "qrels.parquet")
    for name, rows in {
        "distances.csv": "query,item,distance\na,x,2\na,y,1\n",
        "judged.csv": "query,item,rel\na,x,1\na,y,0\n",
        "odd.csv": "query,item,worth\na,x,1\n",
        "twice.csv": "query,item,score\na,x,1\na,x,2\n",
        "rows.csv": "query,item\na,y\na,x\n",
        "waits.csv": "query,wait\na,1\nb,2\nc,4\n",
        "shorter.csv": "query,wait\na,2\nb,2\nc,3\n",
        "ranked.csv": "user,rel,pos,part,visits\na,0,1,x,2\na,3,2,x,2\nb,1,1,y,1\n",
        "headless.csv": "q1,d1,0.5\n",
        "reverse.csv": "query,item,score\n" + "".join(f"{q},{d},{d}\n" for q, d in PAIRS),
        "first.csv": "query,item,rel\n" + "".join(f"{q},{d},{int(d == 0)}\n" for q, d in PAIRS),
    }.items():
        (folder / name).write_text(rows)
    for name, judgments in zip(("judged", "human", "llm"), simulated()[:3], strict=True):
        judgments.write_parquet(folder / f"{name}.parquet")
    return folder


def run(folder, *arguments, code=0):
    """What the command prints on stdout and on stderr; one text is split as by a shell."""
    if len(arguments) == 1:
        arguments = shlex.split(arguments[0])
    with contextlib.chdir(folder):
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout, done.stderr


def read_json(folder, arguments):
    return json.loads(run(folder, f"{arguments} --format json")[0])


def python(folder, *arguments, **options):
    """Another Python."""
    options = {"capture_output": True, "text": True, **options}
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, **options)


def on_terminal(folder, arguments, program=("-m", "rankql"), columns=100):
    """What the command prints on a terminal."""
    reader, screen = pty.openpty()
    termios.tcsetwinsize(screen, (40, columns))
    command = [sys.executable, *program, *arguments.split()]
    done = subprocess.run(command, cwd=folder, text=True, stdout=screen, stderr=subprocess.PIPE)
    os.close(screen)
    assert done.returncode == 0, done
    parts = []
    with contextlib.suppress(OSError):  # at the end, because the other side is closed
        while part := os.read(reader, 4096):
            parts.append(part)
    return b"".join(parts).decode()


# What commands print

OPTIONS = {"ties": "best", "gain": "exp2", "undefined": "zero", "threshold": 2.0}
OPTIONS |= {"metrics": "nDCG@5", "discounts": [0.8, 1.6, 2.0, 2.3, 2.6]}
AS_WORDS = "--ties best --gain exp2 --undefined zero --threshold 2 --discounts 0.8,1.6,2,2.3,2.6"
FILES = "one.run", "qrels"
COMMANDS = [
    ("eval one.run qrels -m nDCG@5,10 -m AP", rankql.evaluate, FILES,
     {"metrics": ["nDCG@5,10", "AP"]}),
    (f"eval one.run qrels -m nDCG@5 {AS_WORDS}", rankql.evaluate, FILES, OPTIONS),
    ("explain one.run qrels -Q q3 -m nDCG@5", rankql.explain, FILES,
     {"of": "q3", "metric": "nDCG@5"}),
    ("judges bo=human.parquet gpt=llm.parquet --run x=judged.parquet --threshold 2", rankql.judges,
     ({"gpt": "llm.parquet"}, {"bo": "human.parquet"}, {"x": "judged.parquet"}), {"threshold": 2}),
    ("judges human.parquet llm.parquet", rankql.judges, ({"llm": "llm.parquet"}, "human.parquet"),
     {}),
    ("funnel first=one.run last=two.run qrels -k 3", rankql.funnel,
     ({"first": "one.run", "last": "two.run"}, "qrels", 3), {}),
]  # fmt: skip


@few(2)(("command", "function", "arguments", "options"), COMMANDS)
def test_a_command_prints_what_its_function_returns(files, command, function, arguments, options):
    with contextlib.chdir(files):
        expected = function(*arguments, **options)
    printed = repr(expected).replace("unjudged_queries='count'", "--unjudged-queries count")
    printed = printed.replace("ties='expected'", "--ties expected")
    printed = printed.replace("pass descending=False", "pass --ascending")
    assert run(files, command) == (f"{printed}\n", "")


@pytest.mark.slow
def test_formats(files):
    paths = files / "one.run", files / "qrels.parquet"
    expected = rankql.evaluate(*paths, ["AP", "P@5"], by="segment")
    printed = {
        form: run(files, f"eval one.run qrels.parquet -m AP -m P@5 --by segment --format {form}")
        for form in ("csv", "json", "jsonl", "markdown")
    }
    means = pl.read_csv(io.StringIO(printed["csv"][0]))["mean"].to_list()
    assert means == expected.summary["mean"].to_list()
    assert "\nConventions: rankql" in printed["csv"][1]
    assert json.loads(printed["json"][0])["table"] == expected.summary.to_dicts()
    assert [*map(json.loads, printed["jsonl"][0].splitlines())] == expected.summary.to_dicts()
    assert printed["markdown"][0] == expected.to_markdown() + "\n"


def test_values_per_query_are_printed_and_written(files, tmp_path):
    path = tmp_path / "out.parquet"
    out, _ = run(files, f"eval one.run qrels -m AP -q --format jsonl --output {path}")
    expected = rankql.evaluate(files / "one.run", files / "qrels", "AP").per_query.to_dicts()
    assert [json.loads(line) for line in out.splitlines()] == expected
    assert rankql.combine([path]).per_query.to_dicts() == expected
    rows = read_json(tmp_path, "compare new=out.parquet old=out.parquet")["summary"]
    assert {row["system"] for row in rows} == {"new", "old"}


@few(1)(("positions", "means"), [("renumber", [1, 0.5]), ("keep", [1, 1 / 3])])
def test_lists_of_ids_and_chunks(tmp_path, positions, means):
    """One row per query; the last input is a run too, because it has retrieved ids."""
    for name, ids in (("old", ["b#1", "b#2", "a#3"]), ("new", ["a#3", "b#1", "b#2"])):
        row = {"question": "what?", "retrieved_ids": ids, "expected_ids": ["a"]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    options = f"--collapse '#' --positions {positions} -m RR"
    rows = read_json(tmp_path, f"eval new.jsonl old.jsonl {options}")["table"]
    assert [row["mean"] for row in rows] == pytest.approx(means)


@few(2)(
    ("arguments", "mean"),
    [
        ("ranked.csv", 0.75),
        ("rows.csv judged.csv --order rows", 0.5),
        ("distances.csv judged.csv --ascending", 0.5),
        ("distances.csv judged.csv --descending", 1),
        ("distances.csv judged.csv --item item,item --ascending", 0.5),
    ],
)
def test_inputs(files, arguments, mean):
    assert read_json(files, f"eval {arguments} -m RR")["table"][0]["mean"] == mean


@few(2)(
    ("options", "float32"), [("--conventions trec_eval", True), ("--float32", True), ("", False)]
)
def test_what_is_not_set_is_not_passed(files, options, float32):
    """A profile keeps its float32, and --interval none is not the default."""
    printed = read_json(files, f"eval one.run qrels -m AP --interval none {options}")
    assert printed["conventions"]["float32"] == float32
    assert not printed["table"][0].get("lo")


def test_options_of_the_statistics(files):
    options = "one.run two.run qrels -m RR@10 --correction bh --resamples 200 --seed 3"
    settings = read_json(files, f"compare {options}")["settings"]
    expected = {"correction": "bh", "resamples": 200, "seed": 3}
    assert expected.items() <= settings.items()


@pytest.mark.slow
def test_sql(files):
    con = metric_engines.connect()
    values = con.sql(run(files, f"sql {files}/one.run {files}/qrels -m AP")[0]).pl()
    expected = rankql.evaluate(files / "one.run", files / "qrels", "AP").per_query
    assert_frame_equal(values.drop("__rankql_missing"), expected, abs_tol=1e-12, rel_tol=0)
    table = files / "ranked.csv"
    out, _ = run(files, f"sql {table} -m nDCG@5 --by part --weight visits")
    assert out.strip() == rankql.evaluate(table, None, "nDCG@5", by="part", weight="visits").sql


def test_metrics(files):
    assert max(map(len, run(files, "metrics")[0].splitlines())) <= 80
    for word, expected in (("", "nDCG"), ("recall", "microR"), ("mrr", "RR"), ("gini", "gini")):
        names = {row["name"] for row in read_json(files, f"metrics {word}")}
        assert expected in names and ("nDCG" in names) == (word == "")


def test_convert(files, tmp_path):
    (tmp_path / "a.csv").write_text("q1,d1,0.5\n")
    _, err = run(files, f"convert {tmp_path}/a.csv {tmp_path}/a.run --columns query,item,score")
    assert (tmp_path / "a.run").read_text() == "q1 Q0 d1 1 0.5 rankql\n"
    assert f"{tmp_path}/a.run" in err


JUDGE = "--judge llm.parquet"
PRINTED = {
    f"eval judged.parquet human.parquet -m P@3 {JUDGE}": "corrected by the judge",
    f"compare a=judged.parquet b=judged.parquet human.parquet -m P@3 {JUDGE}": "corrected by the",
    f"gate judged.parquet human.parquet --min P@3>=0.1 {JUDGE}": "corrected by the judge",
    "check one.run qrels -k 5": "--ties expected",
    "check one.run qrels": "Change this with --missing.",
    "check reverse.csv first.csv --descending": "pass --ascending",
    "compare waits.csv shorter.csv": "If not, set --lower-is-better\n",
    "metrics": "ndcg(rel, pos).",
    "sql": macros.read_sql,
    f"sql '{QUERY}' --dialect spark": lambda: rankql.translate(QUERY, "spark") + "\n",
    "sql --engine clickhouse": lambda: rankql.native_sql("clickhouse"),
    "sql --plain -m RR@5 shown --rel grade": lambda: rankql.plain_sql("RR@5", "shown", rel="grade"),
    "sql --engine postgres --schema shop": lambda: rankql.native_sql("postgres", schema="shop"),
    "sql shop.run shop.qrels --dialect postgres -m nDCG@5": 'ndcg(rel, pos, 5) AS "nDCG@5"',
    "sql headless.csv qrels -m RR --columns 'query, item, score'": '"score"',
}


@few(3)("command", PRINTED)
def test_a_command_prints(files, command):
    """In the words of the command line."""
    printed, text = "".join(run(files, command)), PRINTED[command]
    assert (text if isinstance(text, str) else text()) in printed
    assert "CLI" not in printed and "descending=" not in printed


def test_a_check_ends_with_1_if_it_has_errors(files):
    (files / "repeated").write_text((files / "qrels").read_text() + "\nq3 0 d1 1\nq3 0 d1 2\n")
    assert "conflicting-judgments" in run(files, "check one.run repeated", code=1)[0]


@few(2)(
    ("command", "suffix", "start"),
    [("eval", "csv", "slice,metric"), ("explain", "md", "- nDCG@10 is 0."),
     ("check", "html", "<!doctype html>"), ("gate --min AP>=0", "json", "{")],
)  # fmt: skip
def test_the_suffix_is_the_format(files, tmp_path, command, suffix, start):
    path = tmp_path / f"out.{suffix}"
    _, err = run(files, f"{command} one.run qrels -o {path}")
    assert str(path) in err and path.read_text().startswith(start)


# Errors, hints and help

ERRORS = {
    "eval no.run qrels": "run: file 'no.run' does not exist",
    "eval one.run qrels -m 'x = sum(relx)'": "--metric relx: no column of that name in run",
    "eval one.run qrels -m 'x = summ(rel)'": 'name summ does not exist! Did you mean "sum"?',
    "eval one.run qrels --by x": "--by x: no column of that name in ",
    "eval one.run qrels --query x": "--query x: no column of that name",
    "eval one.run qrels --query q,q,q": "--query q,q,q: a pair names the columns",
    "eval one.run qrels --output no/such/x.parquet": "no/such",
    "eval one.run qrels --rel buy=1.2.3": "--rel buy=1.2.3 is not valid SQL",
    "eval one.run qrels --interval bootstrap": "interval must be 'auto', 't', 'anytime' or None",
    "eval one.run qrels --ties x": "Invalid value for '--ties'",
    "eval one.run qrels --confidence 0.9?5": "Invalid value for '--confidence'",
    "eval one.run qrels --discounts 1?0,2": "'1?0,2' is not a list of numbers",
    "eval one.run qrels --weight": "Option '--weight' requires an argument",
    "eval one.run ./one.run qrels": "Name each run: NAME=PATH",
    "compare one.run two.run qrels --test student": "Unknown test 'student'",
    "eval distances.csv odd.csv": "Pass one of:\n    --descending\n    --ascending\n",
    "eval twice.csv judged.csv": "pass the column of the systems: --system. "
    "See docs/by-hand.md#key\n",
    "eval": "Missing argument",
    "eval one.run qrels -o ''": "is not a regular file",
    "eval distances.csv judged.csv nDCG@10": "file 'nDCG@10' does not exist",
    "evla": "No such command 'evla'",
    "explain one.run qrels -Q nobody": "nobody",
    "explain no.run qrels": "run: file 'no.run' does not exist",
    "funnel one.run": "The judgments are missing",
    "metrics recalll": "recalll",
    "judges human.parquet llm.parquet llm.parquet": "same name",
    "compare one.run two.run qrels --seed -1": "seed must be a whole number",
    "report one.run two.run qrels -o page.csv --title x": "--title is only for a report",
    "report one.run two.run qrels -o page.csv --texts item=no": "--texts is only for a report",
    "report one.run two.run qrels -o no/page.html": "output 'no/page.html' is in a folder that",
    "report one.run two.run qrels -o page.html --texts item=no": "file 'no' does not exist",
    "sql --dialect spark": "With --dialect, pass one QUERY",
    "sql a b --dialect spark": "With --dialect, pass one QUERY",
    "sql --engine postgress": "Did you mean 'postgres'?",
    "sql x --engine postgres": "With --engine, pass only --schema or --prefix.",
    f"sql '{QUERY}' --dialect postgres": "rankql sql --engine postgres > postgres.sql && psql",
}


@few(9)(
    "arguments",
    [pytest.param(x, marks=[pytest.mark.report] if "page.html" in x else []) for x in ERRORS],
)
def test_errors_are_one_line_in_the_words_of_the_command_line(files, arguments):
    out, err = run(files, arguments, code=2)
    assert ERRORS[arguments] in err and out == ""
    if err.startswith("rankql: "):
        words = [x for x in err.splitlines() if x and not x.startswith("    --")]
        assert len(words) <= 1 + err.count("\n    --")  # each call has a line of its own
        assert not re.search(r"\b(rel|query|system)=", err)


MISSING = {
    "compare a.run b.run qrels": "run 'a': file 'a.run' does not exist. Check its name",
    "compare one.run two.run no.qrels": "qrels: file 'no.qrels' does not exist. Check its name",
    "compare x=one.run y=no.run qrels": "run 'y': file 'no.run' does not exist. Check its name",
    "gate no.run qrels --min AP>=0.1": "run: file 'no.run' does not exist. Check its name",
    "gate one.run qrels --baseline no.run": "baseline: file 'no.run' does not exist. Check its",
    "gate one.run --qrels no --min AP>=0.1": "qrels: file 'no' does not exist. Check its name",
    "explain one.run qrels q1": "'q1' does not exist. Check its name, or pass a query as --of q1",
    "eval 'no*.run' qrels": "run: file 'no*.run' does not exist. Check its name",
}


@few(1)("arguments", MISSING)
def test_a_missing_file_is_named_before_anything_heavy_is_imported(files, arguments):
    code = (
        "import sys; from rankql.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print({'polars', 'duckdb', 'numpy', 'scipy'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code, *shlex.split(arguments)]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (2, "set()"), done.stderr
    assert MISSING[arguments] in done.stderr and done.stderr.count("\n") == 1


def test_a_traceback_on_demand(files):
    done = CliRunner().invoke(main, ["--debug", "eval", "no.run", "qrels"])
    assert done.exit_code == 2 and "Traceback" in done.stderr and "RankqlError" in done.stderr


@pytest.mark.slow
def test_without_a_command(tmp_path):
    """What to do first: each of its commands runs, in that order, as it stands there."""
    done = python(tmp_path, "-m", "rankql")
    assert (done.returncode, done.stdout) == (2, "")  # as click ends without a command
    assert len(done.stderr.splitlines()) <= 10
    commands = re.findall(r"python[\d.]* -m rankql ([^;\n]*)", done.stderr)
    names = [line.split()[0] for line in commands]
    assert names == ["demo", "eval", "eval", "check", "--help", "eval"]
    inputs = {"RUN": "rankql-demo/new.parquet", "QRELS": "rankql-demo/shop.parquet"}
    for line in commands:
        words = [inputs.get(word, word) for word in line.split()]
        run(tmp_path, *words, *(["--queries", "50"] if words == ["demo"] else []))
    assert run(tmp_path, code=2)[1].count("rankql demo") == 1  # by the name that it was called by


@pytest.mark.slow
def test_the_demo_replaces_only_its_own_files(tmp_path):
    for _ in range(2):
        run(tmp_path, "demo --output . --queries 9")
    (tmp_path / "shop.parquet").write_text("mine")
    pl.DataFrame({"query": [1]}).write_parquet(tmp_path / "new.parquet")
    for path in (tmp_path / "shop.parquet", tmp_path / "new.parquet"):
        before = path.read_bytes()
        assert path.name in run(tmp_path, "demo --output . --queries 9", code=2)[1]
        assert path.read_bytes() == before
        path.unlink()


def test_help_lists_every_command_in_a_line(tmp_path):
    out, _ = run(tmp_path, "--help")
    commands = out.partition("Commands:\n")[2].splitlines()
    assert len(commands) == len(main.commands) and not [line for line in commands if "..." in line]
    assert "_RANKQL_COMPLETE=zsh_source rankql" in out


@few(8)("name", main.commands)
def test_help(tmp_path, name):
    """Two or three examples that parse, then the options by group: the common ones, or all."""
    command = main.commands[name]
    lines = run(tmp_path, f"{name} --help")[0].splitlines()
    options = command.get_params(click.Context(command))
    listed = [line for line in lines if re.match(r"  +-", line)]
    assert len(listed) <= 20
    start = lines.index("Examples:")
    assert start <= 5 and 2 <= len(command.examples) <= 3
    for line in lines[start + 1 : start + 1 + len(command.examples)]:
        _, example, *arguments = shlex.split(line.partition(" > ")[0])
        assert example == name
        command.make_context(name, [*arguments])
    if len(options) > len(listed) + 2:
        lines = run(tmp_path, f"{name} --help-all")[0].splitlines()
    words = " ".join(" ".join(lines).split())
    for option in options:
        if "--" in option.opts[-1]:
            assert f"{option.opts[-1]} " in words, option.name
            assert option.help[0].isupper(), option.name


def test_help_shows_defaults(files):
    words = " ".join(run(files, "compare --help-all")[0].split())
    defaults = inspect.signature(rankql.compare).parameters
    for name in ("test", "correction", "resamples", "seed", "confidence"):
        assert f"[default: {defaults[name].default}]" in words
    assert "Repeat -m" in words and "[default: 1]" in words


# Terminals, pipes and processes


@pytest.mark.slow
def test_pipes_get_no_colour_and_no_progress(files):
    environment = {**os.environ, "FORCE_COLOR": "1"}
    done = python(files, "-m", "rankql", "eval", "one.run", "qrels", env=environment)
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout


@pytest.mark.slow
def test_progress_goes_to_a_terminal(tmp_path):
    """A bar where someone looks at stdout, and the data alone in a pipe."""
    (tmp_path / "x.csv").write_text("query,item,score,rel\n1,a,2,0\n1,b,1,1\n")
    # DuckDB draws it after two seconds. To set another time turns it on.
    program = tmp_path / "at_once.py"
    program.write_text("""
from rankql.cli.start import run
from rankql.core.tables import private
opened = private.with_progress
def draw_at_once(con):
    (is_on,), = opened(con).execute("SELECT current_setting('enable_progress_bar')").fetchall()
    return con.execute("SET progress_bar_time = 1") if is_on else con
private.with_progress = draw_at_once
run()
""")
    command = "eval x.csv -m AP -m TauB --format csv"
    screen = on_terminal(tmp_path, command, [program])
    assert "100% " in screen and "slice,metric,mean" in screen
    done = python(tmp_path, program, *command.split())
    assert done.stdout.startswith("slice,metric,mean")


@pytest.mark.slow
def test_results_fit_a_terminal_without_broken_words(tmp_path):
    """The table of `compare` has both means, and sentences are wrapped between words."""
    for name, n in (("old", 7), ("new", 5)):
        rows = f"SELECT i AS query, hash(i) % {n} / 10.0 AS AP FROM range(40) t(i)"
        duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/{name}.csv'")
    screen = on_terminal(tmp_path, "compare old.csv new.csv", columns=80)
    lines = re.sub(r"\x1b\[\d*m", "", screen).splitlines()
    assert "95% CIs exclude 0 exactly if p is at most 0.05" in " ".join(lines)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Is new better than old? ")
    assert ["metric", "old", "new", "new", "-"] in [line.split()[:5] for line in lines]


def test_wide_characters_are_aligned(tmp_path):
    """A Chinese character takes two columns of a terminal, an accent by itself none."""
    rows = [("新用户", 1), ("vip", 2), ("re\u0301gulier", 1), ("ｆｕｌｌ", 1)]
    frame = pl.DataFrame(rows, schema=["客户", "pos"], orient="row")
    frame = frame.with_columns(query=pl.int_range(pl.len()), item=1, rel=1)
    frame.write_parquet(tmp_path / "shop.parquet")
    out, _ = run(tmp_path, "eval shop.parquet --by 客户 -m RR --interval none")
    head, *lines = out.splitlines()[: len(rows) + 2]
    assert " lo " not in head
    assert len({text.display_width(line[: line.index("RR")]) for line in lines}) == 1
    assert text.display_width("客户=新用户") == 11 and text.display_width("re\u0301") == 2
    assert text.display_width("Ω→é") == 3  # whose width a Chinese font may double, a terminal not


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "first"),
    [("eval one.run qrels -q | head -1", "query"), ("sql | head -c 9", "-- Helper")],
)
def test_a_closed_pipe_is_no_error(files, command, first):
    command = f"({sys.executable} -m rankql {command.replace(' |', '; echo $? >&2) |')}"
    done = subprocess.run(command, shell=True, cwd=files, capture_output=True, text=True)
    assert done.stdout.startswith(first) and done.stderr in ("0\n", "141\n")


def test_temporary_files_are_removed_at_the_end(tmp_path):
    """The process ends without freeing its memory."""
    script = """
import os, sys
from rankql.cli.start import run
from rankql.core.tables.private import private_connection
with private_connection() as con:
    con.execute("SET memory_limit = '20MB'")
    con.execute("CREATE TEMP TABLE t AS SELECT hash(i) FROM range(5_000_000) AS t (i)").fetchall()
    assert os.listdir(".tmp")
sys.argv = ["rankql", "--version"]
run()
"""
    done = python(tmp_path, "-c", script)
    assert done.returncode == 0 and done.stdout.startswith("rankql, version"), done.stderr
    assert not os.listdir(tmp_path)


OPTIONAL = {"pandas", "pyarrow", "scipy", "altair", "numpy"}
LATE = {"duckdb", "polars", *OPTIONAL}
# DuckDB 1 needs pyarrow, which imports numpy if it is installed.
NEEDED = {"pyarrow", "numpy"} if duckdb.__version__.startswith("1.") else set()
CALL = "from rankql.cli.main import main; main({}, standalone_mode=False)"


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        (CALL.format(["--help"]), LATE),
        slow("import rankql; rankql.__version__", LATE),
        slow(CALL.format(["eval", "one.run", "qrels", "-m", "nDCG@5"]), OPTIONAL - NEEDED),
        slow(
            "import duckdb, polars; frame = polars.DataFrame({'x': [1]}); "
            "duckdb.sql('FROM frame').pl(); before = {*sys.modules}; import rankql; "
            "repr(rankql.evaluate('one.run', 'qrels', 'AP', interval=None))",
            OPTIONAL,
        ),
    ],
)
def test_modules_are_imported_only_when_used(files, script, modules):
    """Importing takes time. What duckdb and polars import when they meet is not ours."""
    last = f"; print(sorted(({{*sys.modules}} - before) & {modules}))"
    done = python(files, "-c", f"import sys; before = set(); {script}{last}")
    assert done.stdout.splitlines()[-1:] == ["[]"], done


@few(1)(("module", "code"), [("click", -2), ("polars", 130)])
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
    done = python(files, "-c", script)
    assert done.returncode == code and "Traceback" not in done.stderr


def test_too_little_memory_is_one_line(tmp_path, monkeypatch):
    """The file may be right, so it is not called wrong; other libraries word it in their way."""
    path = tmp_path / "q.csv"
    con = duckdb.connect()
    rows = "SELECT i // 100 AS query, i AS item, 1 AS rel FROM range(300000) r(i)"
    con.execute(f"COPY ({rows}) TO '{path}'")
    config = {"memory_limit": "20MB", "threads": 1, "temp_directory": ""}
    with pytest.raises(rankql.RankqlError, match=r"^DuckDB is out of memory: .* Raise its limit"):
        rankql.evaluate({"1": {"2": 1.0}}, path, "AP", con=duckdb.connect(config=config))
    for error in (MemoryError(), pl.exceptions.ComputeError("IOError: Out of Memory Error: x")):
        raises = lambda *_, error=error, **__: raise_(error)  # noqa: E731
        monkeypatch.setattr("rankql.diagnostics.check.check", raises)
        done = CliRunner().invoke(main, ["check", str(path)])
        assert done.exit_code == 2 and "Traceback" not in done.output
        assert done.stderr.startswith("rankql: ") and done.stderr.count("\n") == 1


def raise_(error):
    raise error


def test_columns_called_like_their_role_are_not_listed():
    run = pl.DataFrame({"query": ["a", "a"], "item": ["x", "y"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": ["a"], "item": ["x"], "rel": [1]})
    both = run.with_columns(pos=pl.Series([1, 2]))
    for one, other, line in (
        (run, qrels, "as named"),
        (both, qrels, "run: pos = pos, score = score"),
        (run.rename({"item": "doc"}), qrels, "run: item = doc"),
        (run, qrels.rename({"rel": "grade", "query": "qid"}), "qrels: query = qid, rel = grade"),
    ):
        result = rankql.evaluate(one, other, "RR")
        (printed,) = (x for x in result.remarks() if x.startswith("Columns: "))
        assert printed == f"Columns: {line}"
        assert {*result.columns["run"]} == {"query", "item", "score"} | ({"pos"} & {*one.columns})


@few(2)(
    ("command", "name", "form"),
    [("eval", "Note: x", "table"), ("compare", "Columns: x", "markdown"),
     ("compare", "Method: %", "latex"), ("eval", "Queries: 1 of 9", "csv"),
     ("compare", "Queries: 1 of 9", "table")],
)  # fmt: skip
def test_quiet_keeps_the_rows_of_the_table(command, form, name, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("query,item,pos,rel\n1,a,1,1\n2,a,1,0\n")
    runs = [f"{name}={path}", f"b={path}", "-m", "P@1", "--format", form]
    done = CliRunner().invoke(main, [command, *runs, "--quiet"])
    assert done.exit_code == 0 and "Conventions" not in done.output
    assert name.replace("%", "\\%" if form == "latex" else "%") in done.output, done.output
    assert "Not tested" not in done.output.replace(name, "") or command == "eval"


def test_quiet_keeps_warnings_of_small_shares(tmp_path):
    """The fewer ids match, the more it matters; users who know the items are more than 5%."""
    queries = [f"q{i}" for i in range(300) for _ in range(10)]
    items = [f"d{i}" for i in range(3000)]
    frame = pl.DataFrame({"query": queries, "item": items, "score": [*range(10, 0, -1)] * 300})
    other = pl.when(pl.int_range(3000) >= 3).then(pl.lit("D") + pl.col("item")).otherwise("item")
    shown = frame.with_columns(item=other)
    shown.write_parquet(run := str(tmp_path / "run.parquet"))
    frame.select("query", "item", rel=1).write_parquet(qrels := str(tmp_path / "qrels.parquet"))
    shown[::5].select("query", "item").write_parquet(train := str(tmp_path / "train.parquet"))
    done = CliRunner().invoke(main, ["eval", run, qrels, "--train", train, "--quiet"])
    assert "Only 3 of 3,000 items of the run are judged" in done.output
    assert "20.0% of the items of the run in the first 100 positions are in train" in done.output
    assert "few queries for values this skewed" not in done.output


@few(2)(("form", "judged"), [("table", 39), ("table", 30), ("markdown", 39), ("latex", 30)])
def test_quiet_keeps_only_notes_of_many_queries(form, judged, tmp_path):
    queries = [f"q{i}" for i in range(40)]
    run = pl.DataFrame({"query": queries, "item": "x", "score": 1.0})
    qrels = pl.DataFrame({"query": queries[:judged], "item": "x", "rel": 1})
    paths = [str(tmp_path / f"{name}.csv") for name in ("run", "qrels")]
    for path, frame in zip(paths, (run, qrels), strict=True):
        frame.write_csv(path)
    loud, quiet = (
        CliRunner().invoke(main, ["eval", *paths, "-m", "RR", "--format", form, *more]).output
        for more in ([], ["--quiet"])
    )
    assert "Conventions: " in loud and "Columns: as named" in loud
    assert "Conventions" not in quiet and "Columns" not in quiet
    assert f"Queries: {40 - judged} of 40 not judged" in loud
    assert ("not judged and left out" in quiet) == (judged == 30)
    assert "1.0" in quiet


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("rel=('event', {'buy': 3, 'view': 1}).", "--rel event=buy:3,view:1."),
        ("rel={'buy': 3, 'view': ...}", "--rel buy=3,view=..."),
        ("outcome={'another name': 'x'}", "--outcome 'another name=x'"),
        ("part=[None, 'first']", "--part ,first"),
        ("columns=['query', 'item'] or item='...'", "--columns query,item or --item COLUMN"),
        ("item=['lower(id)', \"it's\"]", '--item "lower(id),it\'s"'),
        ("descending=False, or minimum_bound=True", "--ascending, or minimum_bound=True"),
        ("pass qrels=, or con=", "pass the judgments as the last file, or --database"),
        ("rel=[grade], k=3 and other='x'", "rel=[grade], k=3 and other='x'"),
    ],
)
def test_an_argument_is_written_as_an_option(python, command):
    with main.make_context("rankql", ["associate", "a", "b"]) as ctx:
        ctx.invoked_subcommand = "associate"
        assert as_cli_options(python) == command


def test_files_of_values_take_no_option_from_the_caller(tmp_path):
    """The columns that limits name are read, whatever their types are."""
    path = tmp_path / "shop.csv"
    path.write_text("order,country,paid\n1,de,3.5\n2,fr,4.0\n")
    options = {"query": "order", "minimum": ["country=de: paid>=1"], "system": None}
    values, rest = tasks._open_values([str(path), None], options)
    assert options == {"query": "order", "minimum": ["country=de: paid>=1"], "system": None}
    assert rest == {"minimum": options["minimum"]}
    assert values[str(path)].metrics == ["paid"] and values[str(path)].meta.by == ["country"]
    assert tasks._open_values([str(path)], {"item": "sku"}) == ({}, {"item": "sku"})


@few(1)("option", ["-m", "--metric"])
def test_gate_says_that_its_limits_name_the_metrics(option):
    result = CliRunner().invoke(main, ["gate", "a.parquet", "b.parquet", option, "nDCG@10"])
    assert result.exit_code == 2
    assert "Its limits name the metrics: --min 'nDCG@10>=0.45' or --max-drop" in result.output


def test_the_short_help_has_the_column_of_the_systems():
    for command in ("eval", "compare", "gate"):
        assert "--system" in CliRunner().invoke(main, [command, "--help"]).output
