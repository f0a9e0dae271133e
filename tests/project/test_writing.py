"""All that writes files, against the rules of rankql/core/base/writing.py."""

import functools
import inspect
import os
import resource
import signal
import stat
import sys
from datetime import date, timedelta

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.core.base.errors import RankqlError
from rankql.core.base.writing import write_file
from support.parameters import few

DAYS = [date(2026, 9, 1) + timedelta(day) for day in range(30)]
ROWS = [(day, f"q{day}{q}", item, pos, 9 - pos, (q + pos) % 2)
        for day in DAYS for q in range(10) for pos, item in enumerate("xyz", 1)]  # fmt: skip
TABLE = pl.DataFrame(ROWS, schema=["day", "query", "item", "pos", "score", "rel"], orient="row")


def cli(*arguments):
    done = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    if done.exit_code:
        raise RankqlError(done.stderr)
    sys.stdout.buffer.write(done.stdout_bytes)


# What writes a file: its suffix or, if the function names files in a folder, its name.
WRITERS = {
    "evaluate": (".parquet", lambda run, to: rankql.evaluate(run, metrics="AP", output=to)),
    "explain": (
        ".parquet",
        lambda run, to: rankql.explain(run, missed=True, metric="R@1", output=to),
    ),
    "rankql explain": (
        ".csv",
        lambda run, to: cli("explain", run, "--missed", "-m", "R@1", "-o", to),
    ),
    "save_values": (".parquet", lambda run, to: rankql.evaluate(run, metrics="AP").save_values(to)),
    "save": (".parquet", lambda run, to: rankql.compare([run, run], metrics="AP").save(to)),
    "save text": (".csv", lambda run, to: rankql.check(run).save(to)),
    "convert": (".parquet", lambda run, to: rankql.convert(run, to, score="score")),
    "rankql convert": (".csv", lambda run, to: cli("convert", run, to, "--score", "score")),
    "rankql eval": (".parquet", lambda run, to: cli("eval", run, "--output", to)),
    "rankql report": (".csv", lambda run, to: cli("report", f"a={run}", f"b={run}", run, "-o", to)),
    "rankql funnel": (".csv", lambda run, to: cli("funnel", f"a={run}", run, "-o", to)),
    "rankql gate": (".csv", lambda run, to: cli("gate", run, "--min", "AP>=0", "--junit", to)),
    "rankql monitor": (".parquet", lambda run, to: cli("monitor", run, "-o", to)),
    "demo": ("shop.parquet", lambda run, to: cli("demo", "--queries", 9, "--output", to.parent)),
    "rankql sql": (".duckdb", lambda run, to: cli("sql", "--database", to)),
}
every_writer = pytest.mark.parametrize("name", WRITERS)


@pytest.fixture
def paths(tmp_path, name):
    """An input, and a path to write in a folder of its own."""
    suffix = WRITERS[name][0]
    run = tmp_path / ("run.csv" if suffix == ".csv" else "run.parquet")
    (TABLE.write_csv if suffix == ".csv" else TABLE.write_parquet)(run)
    (tmp_path / "out").mkdir()
    return run, tmp_path / "out" / (f"out{suffix}" if suffix.startswith(".") else suffix)


def write(name, run, to):
    WRITERS[name][1](run, to)


@pytest.mark.few(2)
@every_writer
def test_links_are_followed_and_modes_kept(name, paths, tmp_path):
    run, to = paths
    real = tmp_path / f"real{to.suffix}"
    to.symlink_to(real)
    if name not in ("rankql sql", "demo"):  # which never replace a file of others
        real.write_text("before")
        real.chmod(0o640)
        os.chown(real, os.getuid(), os.getgid())
    write(name, run, to)
    assert to.is_symlink() and real.read_bytes() not in (b"", b"before")
    assert name in ("rankql sql", "demo") or stat.S_IMODE(real.stat().st_mode) == 0o640
    assert not [*tmp_path.rglob(".rankql*")]


@pytest.mark.few(5)
@every_writer
@pytest.mark.parametrize("kind", ["same", "link", "hard link", "glob", "folder", "home"])
def test_an_input_is_never_overwritten(name, paths, kind, monkeypatch):
    run, to = paths
    if name in ("demo", "rankql sql") or (kind == "folder" and run.suffix == ".csv"):
        pytest.skip("there is no such input")
    run = run.rename(to)
    before, other = run.read_bytes(), run.parents[1] / f"other{run.suffix}"
    monkeypatch.setenv("HOME", str(run.parent))
    (other.symlink_to if kind == "link" else other.hardlink_to)(run)
    inputs = {"glob": f"{run.parent}/*{run.suffix}", "folder": str(run.parent),
              "home": f"~/{run.name}", "same": run}  # fmt: skip
    with pytest.raises(RankqlError, match="would overwrite an input"):
        write(name, inputs.get(kind, other), to)
    assert to.read_bytes() == before


QRELS = TABLE.select("query", "item", "rel")
LABELS = QRELS.filter(pl.col("query").str.contains("[1-5]$"))
VALUES = QRELS.group_by("query").agg(AP=pl.col("rel").mean(), kpi=pl.col("rel").sum())


def verify_saved(file):
    """Verify what is saved of a file."""
    rankql.evaluate(file, metrics="AP").save("saved.json")
    return rankql.verify("saved.json", file)


# What reads files, and the input that each call names: `run.parquet` if it is a run.
READERS = {
    "evaluate": lambda file: rankql.evaluate(file, metrics="AP"),
    "evaluate qrels": lambda file: rankql.evaluate(TABLE, file, "AP"),
    "evaluate train": lambda file: rankql.evaluate(TABLE, metrics="AP", train=file),
    "evaluate catalogue": lambda file: rankql.evaluate(TABLE, metrics="Coverage@3", catalogue=file),
    "evaluate judge": lambda file: rankql.evaluate(TABLE, LABELS, "AP", judge=file),
    "evaluate attributes": lambda file: rankql.evaluate(
        TABLE, metrics="AP", attributes=file, by="kpi"
    ),
    "compare": lambda file: rankql.compare({"a": file, "b": TABLE}, metrics="AP"),
    "gate": lambda file: rankql.gate(file, minimum="AP>=0"),
    "gate baseline": lambda file: rankql.gate(TABLE, baseline=file, max_drop="AP:0.1"),
    "check": rankql.check,
    "explain": rankql.explain,
    "funnel": lambda file: rankql.funnel({"a": file}, QRELS),
    "min_scores": lambda file: rankql.min_scores(
        file, QRELS.with_columns(rel=pl.col("rel") * ~pl.col("query").str.ends_with("1"))
    ),
    "monitor": lambda file: rankql.monitor(file, metrics="AP"),
    "judges": lambda file: rankql.judges({"llm": file}, QRELS),
    "read_values": rankql.read_values,
    "verify": lambda file: verify_saved(file),
    "associate": lambda file: rankql.associate(VALUES, file, on="query", outcome="kpi"),
}
ATTRIBUTES = ("evaluate attributes", "read_values", "associate")


@few(3)("name", READERS)
def test_a_result_is_not_saved_over_an_input_from_another_folder(name, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (VALUES if name in ATTRIBUTES else TABLE).write_parquet(tmp_path / "in.parquet")
    before = (tmp_path / "in.parquet").read_bytes()
    monkeypatch.chdir(tmp_path)
    result = READERS[name]("in.parquet")
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(RankqlError, match="would overwrite an input"):
        result.save("../in.parquet")
    result.save("result.parquet")
    assert (tmp_path / "in.parquet").read_bytes() == before


def test_an_audit_is_not_saved_over_its_table(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "table.csv").write_text("system,AP\na,0.31\nb,0.35\n")
    monkeypatch.chdir(tmp_path)
    result = rankql.audit(queries=50, table="table.csv")
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(RankqlError, match="would overwrite an input"):
        result.save("../table.csv")
    result.save("result.csv")


@few(2)("kind", ["qrels", "train", "catalogue", "attributes"])
def test_values_are_not_written_over_an_input(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (VALUES if kind == "attributes" else TABLE).write_parquet("in.parquet")
    over = functools.partial(rankql.evaluate, output="in.parquet")
    monkeypatch.setattr(rankql, "evaluate", over)
    with pytest.raises(RankqlError, match="would overwrite an input"):
        READERS[f"evaluate {kind}"]("in.parquet")


def test_every_function_that_reads_data_and_returns_a_result_is_tested():
    names = []
    for name in rankql.__all__:
        function = getattr(rankql, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            made = getattr(rankql, str(signature.return_annotation).partition(" | ")[0], None)
            if made is not None and hasattr(made, "save"):
                names.append(name)
    assert {*names} - {"combine", "audit"} == {name.partition(" ")[0] for name in READERS}


@pytest.mark.few(3)
@every_writer
@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_regular_files_are_written(name, paths, kind):
    run, to = paths
    if kind == "device":
        try:
            os.mknod(to, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root may make a device")
    else:
        (os.mkfifo if kind == "fifo" else os.mkdir)(to)
    before = to.stat().st_mode
    with pytest.raises(RankqlError, match=r"is not a regular file|exists and is not overwritten"):
        write(name, run, to)
    assert to.stat().st_mode == before


# Without a suffix, these write a page.
_PAGES = ("save", "rankql report")


@few(2)(
    "name",
    [
        *(name for name in WRITERS if name not in _PAGES),
        *(pytest.param(name, marks=pytest.mark.report) for name in _PAGES),
    ],
)
def test_a_dash_is_standard_output(name, paths, capfdbinary, monkeypatch, tmp_path):
    run, _ = paths
    if not WRITERS[name][0].startswith("."):
        pytest.skip("it writes a folder")
    monkeypatch.chdir(tmp_path)
    write(name, run, "-")
    out = capfdbinary.readouterr().out
    assert out and not (tmp_path / "-").exists()


@pytest.mark.few(2)
@every_writer
@pytest.mark.parametrize("how", ["interrupt", "full"])
def test_complete_or_not_at_all(name, paths, how, monkeypatch):
    """Nothing is left if an interrupt comes just before the end, or the disk is full."""
    run, to = paths
    if name == "demo":  # it replaces only its own files
        write(name, run, to)
    elif name != "rankql sql":
        to.write_text("before")
    before = [(path, path.read_bytes()) for path in to.parent.iterdir()]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    else:
        monkeypatch.setattr(os, "replace", lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises((KeyboardInterrupt, RankqlError, SystemExit)) as error:
            write(name, run, to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert how != "full" or "Cannot write" in str(error.value)
    assert [(path, path.read_bytes()) for path in to.parent.iterdir()] == before


def test_a_full_disk_is_named_with_the_file(tmp_path):
    """DuckDB names the temporary file in one version, and none in another."""
    message = 'IO Error: {"message":"Could not write file: No space left on device","errno":"28"}'
    expected = rf"^Cannot write '{tmp_path}/a.run': No space left on device$"
    with pytest.raises(RankqlError, match=expected), write_file(tmp_path / "a.run"):
        raise duckdb.IOException(message)
    assert not [*tmp_path.iterdir()]
