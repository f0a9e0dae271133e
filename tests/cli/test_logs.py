"""The commands split and popular: files that evaluate reads."""

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few

LOG = pl.DataFrame(
    {
        "userId": [1, 1, 1, 2, 2, 2],
        "movieId": ["a", "b", "a", "c", "a", "b"],
        "timestamp": [f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3, 1, 2, 4)],
    }
)


def run_cli(*arguments, code=0):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@few(1)("suffix", ["csv", "parquet"])
def test_a_log_is_split_and_evaluated(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    LOG.write_csv("log.csv")
    files = f"train.{suffix}", f"test.{suffix}"
    result = run_cli("split", "log.csv", "--last", 1, "--seen", "drop", "-o", *files)
    assert result.stderr == (
        f"{files[0]}: 3 rows of train\n{files[1]}: 2 rows of test\nLeft out 1 rows of seen items\n"
    )
    expected = rankql.leave_one_out(LOG, seen="drop")
    read = pl.read_csv if suffix == "csv" else pl.read_parquet
    for name, file in zip(("train", "test"), files, strict=True):
        part = expected.filter(split=name)
        assert read(file)["movieId"].to_list() == part["movieId"].to_list()
    run_cli("popular", files[0], "-k", 2, "-o", f"popular.{suffix}")
    run = rankql.most_popular(pl.read_csv(files[0]) if suffix == "csv" else files[0], k=2)
    assert read(f"popular.{suffix}").rows() == run.rows()
    assert "R@2" in run_cli("eval", f"popular.{suffix}", files[1], "-m", "R@2").stdout


def test_users_of_whom_a_hash_chose_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = ["2026-01-01", "2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"]
    pl.DataFrame({"user": [*"aabbc"], "item": [*"xyxzz"], "time": times}).write_csv("log.csv")
    command = ("split", "log.csv", "--last", 1, "-o", "train.csv", "test.csv")
    (*_, chosen, none) = run_cli(*command).stderr.splitlines()
    assert chosen.startswith("1 of 3 users have several events at the time of one in test")
    assert none == "1 of 3 users have no row of test: nothing would be left to train on"
    (*_, none) = run_cli(*command, "--basket").stderr.splitlines()
    assert none.startswith("2 of 3 users have no row of test")
    popular = run_cli("popular", "train.csv", "-o", "popular.csv").stderr
    seen = "items that a user has in them are left out"
    assert popular == f"popular.csv: 5 rows, from 4 rows of train; {seen}\n"


def test_the_only_column_of_dates_is_the_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOG.rename({"timestamp": "watched"}).write_csv("log.csv")
    command = ("split", "log.csv", "--last", 1, "-o", "train.csv", "test.csv")
    assert run_cli(*command).stderr.startswith("Time: watched, the only column of dates\ntrain.csv")
    released = pl.lit("2026-01-0") + pl.col("movieId").rank("dense").cast(pl.String)
    LOG.with_columns(timestamp=released).rename({"timestamp": "released"}).write_csv("log.csv")
    message = run_cli(*command, code=2).stderr
    assert message.endswith("of each item. Is it the time?\n\nPass:\n    --moment released\n")
    run_cli(*command, "--moment", "released")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.csv", "b.csv"], "Pass one of --share, --since and --last"),
        (["--share", ".2", "--last", "1", "-o", "a.csv", "b.csv"], "Pass one of --share"),
        (["--share", ".2", "-o", "a.csv", "a.csv"], "two files to write"),
        (["--share", ".2", "-o", "log.csv", "b.csv"], "would overwrite an input"),
        (["--share", ".2", "-o", "a.csv", "b.txt"], "must end in one of: .parquet, .csv"),
        (["--share", "2", "-o", "a.csv", "b.csv"], "share must lie between 0 and 1, not 2"),
        (["--share", ".2", "--basket", "-o", "a.csv", "b.csv"], "--basket goes with --last"),
        (["--since", "soon", "-o", "a.csv", "b.csv"], "cannot parse the time 'soon'"),
    ],
)
def test_a_wrong_split_writes_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    LOG.write_csv("log.csv")
    result = run_cli("split", "log.csv", *arguments, code=2)
    assert message in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]
    assert pl.read_csv("log.csv").rows() == LOG.rows()
