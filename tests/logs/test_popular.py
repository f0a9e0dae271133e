"""The most popular items of a split log, of which only the rows of train count."""

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support import metric_engines
from support.parameters import few

LOG = pl.DataFrame(
    [
        *(("a", "x", "train"), ("a", "y", "test"), ("b", "y", "train"), ("b", "z", "train")),
        *(("c", "y", "train"), ("c", "x", "valid"), ("d", "w", "test"), ("e", "w", "test")),
    ],
    schema=["member_id", "track", "split"],
    orient="row",
)
NAMES = {"query": "member_id", "item": "track"}


def run_cli(*arguments, code=0):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def in_sql(log, options=""):
    con = metric_engines.connect()
    con.register("log", log)
    call = f"'log', query := 'member_id', item := 'track', k := 2{options}"
    return con.sql(f"FROM most_popular({call})").fetchall()


@few(1)(
    ("name", "values"),
    [
        ("split", {}),
        ("Split", {"train": " Training", "test": "TEST"}),
        ("fold", {"valid": "dev"}),
        ("is_test", {"train": "0", "test": "1", "valid": "true"}),
        ("isTest", {"train": False, "test": True, "valid": True}),
    ],
)
def test_only_rows_of_train_count(name, values, tmp_path):
    log = LOG.rename({"split": name})
    log = log.with_columns(pl.Series(name, [values.get(part, part) for part in log[name]]))
    train = LOG.filter(split="train").drop("split")
    expected = rankql.most_popular(train, 2, users=[*"abcde"], **NAMES).rows()
    assert {row[0] for row in expected} == {*"abcde"}
    assert rankql.most_popular(log, 2, **NAMES).rows() == expected
    assert in_sql(log) == expected
    log.write_csv(tmp_path / "log.csv")
    command = ("popular", tmp_path / "log.csv", "-k", 2, "--query", "member_id", "--item", "track")
    printed = run_cli(*command, "-o", tmp_path / "run.csv").stderr
    assert "from 4 rows of train;" in printed
    assert pl.read_csv(tmp_path / "run.csv").rows() == expected
    every = rankql.most_popular(LOG.drop("split"), 2, **NAMES).rows()
    assert rankql.most_popular(log, 2, split=None, **NAMES).rows() == every
    assert in_sql(log, ", split := NULL") == every
    printed = run_cli(*command, "--no-split", "-o", tmp_path / "run.csv").stderr
    assert "from 8 rows of TRAIN;" in printed
    assert pl.read_csv(tmp_path / "run.csv").rows() == every


def test_a_column_that_is_query_or_item_does_not_split():
    log = LOG.rename({"split": "fold"}).select("fold", "track")
    run = rankql.most_popular(log, query="fold", item="track", seen=None)
    assert {*run["fold"]} == {"train", "test", "valid"}


def test_users_of_the_test_are_listed():
    """Without them, a user that train does not have counts as 0."""
    rows = [("a", "x", "train"), ("a", "y", "train"), ("b", "x", "train"), ("b", "y", "test")]
    log = pl.DataFrame([*rows, ("c", "x", "test")], ["user", "item", "split"], orient="row")
    assert rankql.evaluate(rankql.most_popular(log, 1), log, "HR@1")["HR@1"] == 1
    train = log.filter(split="train")
    assert rankql.evaluate(rankql.most_popular(train, 1), log, "HR@1")["HR@1"] == 0.5


def test_users_are_rows_too():
    frame = pl.DataFrame({"member_id": ["d", "a"], "age": [30, 40]})
    expected = rankql.most_popular(LOG, users=frame, **NAMES).rows()
    assert {row[0] for row in expected} == {"a", "d"}
    assert rankql.most_popular(LOG, users=frame.to_dicts(), **NAMES).rows() == expected


def test_a_log_split_by_users():
    """Users of test alone count as little as rows of test, but are listed."""
    part = pl.when(pl.col("member_id") < "d").then(pl.lit("train")).otherwise(pl.lit("test"))
    log = LOG.with_columns(split=part)
    train = log.filter(split="train").drop("split")
    assert "w" not in rankql.most_popular(log, **NAMES)["track"]
    every = rankql.most_popular(train, users=[*"abcde"], **NAMES).rows()
    assert rankql.most_popular(log, **NAMES).rows() == every
    users = log.filter(split="test").select("member_id").unique()
    run = rankql.most_popular(log, 1, users=users, **NAMES)
    assert run.rows() == [("d", "y", 1, 1.0), ("e", "y", 1, 1.0)]
    result = rankql.evaluate(run, log, "HR@1", query="member_id")
    assert result.summary.select("mean", "queries", "missing").rows() == [(0, 2, 0)]
    con = metric_engines.connect()
    con.register("log", log)
    con.register("users", users)
    options = "k := 1, users := 'users', query := 'member_id', item := 'track'"
    assert con.sql(f"FROM most_popular('log', {options})").fetchall() == run.rows()


def test_other_parts_are_refused(tmp_path):
    log = LOG.rename({"split": "fold"}).with_columns(fold=pl.int_range(pl.len()) % 5 + 1)
    wrong = "log has a column fold with 1, which is not train, test or valid. {} counts all rows"
    with pytest.raises(RankqlError, match=wrong.format("split=None")):
        rankql.most_popular(log, **NAMES)
    with pytest.raises(duckdb.Error, match=wrong.format("split := NULL")):
        in_sql(log)
    log.write_csv(tmp_path / "log.csv")
    command = ("popular", tmp_path / "log.csv", "--query", "member_id", "--item", "track")
    printed = run_cli(*command, "-o", tmp_path / "run.csv", code=2).stderr
    assert wrong.format("--no-split") in printed
    with pytest.raises(RankqlError, match=r"no row of train in split\. Pass split=None"):
        rankql.most_popular(LOG.filter(split="test"), **NAMES)
    with pytest.raises(RankqlError, match="split must be 'auto' or None, not 'part'"):
        rankql.most_popular(LOG, split="part", **NAMES)
    with pytest.raises(duckdb.Error, match="split must be 'auto' or NULL, not part"):
        in_sql(LOG, ", split := 'part'")
