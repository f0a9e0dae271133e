"""Rows that repeat another one in all columns, as logs have them after a delivery at least once."""

import re
from datetime import date, timedelta

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.cli.main import main

ROWS = [(f"u{i}", f"s{(7 * i + 3 * j) % 50}", j + 1, 9.0 - j) for i in range(30) for j in range(8)]
SHOWN = pl.DataFrame(ROWS, ["query", "item", "pos", "score"], orient="row").with_columns(
    shelf=pl.col("item").str.slice(1)  # which no metric reads
)
GOLD = pl.DataFrame(
    [(f"u{i}", f"s{(7 * i + 6 * j) % 50}", 1 + j % 2) for i in range(30) for j in range(4)],
    ["query", "item", "rel"], orient="row",
)  # fmt: skip
METRICS = ["nDCG@5", "AP", "R@8"]
NOTE = "{} rows equal to another one in all columns are left out"


def again(rows, n=5):
    """Some of the rows a second time, at the end."""
    return pl.concat([rows, rows.sample(n, seed=4)])


def drop_by_duckdb(message, path):
    """Run the statement of an error, to write another file."""
    statement = re.search(r"in DuckDB, (.*) drops them", message)[1]
    duckdb.sql(statement.replace("distinct.parquet", path))


def means(run, qrels=None, **options):
    return rankql.evaluate(run, qrels, METRICS, **options).means["mean"].to_list()


@pytest.mark.parametrize("place", ["pos", "score", "rows"])
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "table"])
def test_equal_rows_of_a_run_count_once(kind, place, tmp_path):
    """By positions, scores and the order of the rows."""
    options = {"order": "rows"} if place == "rows" else {}
    rows = SHOWN.select("query", "item", "shelf", *[place] * (place != "rows"))
    repeated, right = again(rows), means(rows, GOLD, **options)
    path = str(tmp_path / f"run.{kind}")
    if kind == "table":
        con = options["con"] = duckdb.connect()
        con.execute("CREATE TABLE shown AS FROM repeated")
    elif kind != "frame":
        getattr(repeated, f"write_{kind}")(path)
    run = {"frame": repeated, "table": "shown"}.get(kind, path)
    if (place, kind) == ("rows", "table"):  # whose rows have no order
        return
    result = rankql.evaluate(run, GOLD, METRICS, **options)
    assert result.means["mean"].to_list() == right
    assert f"run: {NOTE.format(5)}" in result.notes
    assert "GROUP BY ALL" in result.sql


def test_equal_judgments_count_once():
    result = rankql.evaluate(SHOWN, again(GOLD), METRICS)
    assert result.means["mean"].to_list() == means(SHOWN, GOLD)
    assert f"qrels: {NOTE.format(5)}" in result.notes


def test_equal_rows_of_a_log_with_grades_count_once():
    log = SHOWN.drop("score").join(GOLD, on=["query", "item"], how="left")
    log = log.with_columns(pl.col("rel").fill_null(0))
    assert means(again(log)) == means(log)
    log = pl.concat([log.with_columns(model=pl.lit(x)) for x in "ab"])
    assert means(again(log), system="model") == means(log, system="model")


def test_equal_rows_of_run_and_judgments_of_lists_count_once():
    """A row is a list, which is delivered twice."""
    lists = SHOWN.group_by("query", maintain_order=True).agg(retrieved="item")
    gold = GOLD.group_by("query", maintain_order=True).agg(relevant="item")
    rows = lists.join(gold, on="query", maintain_order="left")
    right = means(rows, item=["retrieved", "relevant"])
    assert means(again(rows, 2), item=["retrieved", "relevant"]) == right


@pytest.mark.parametrize("name", ["day", "arrived"])
def test_rows_that_an_unread_column_tells_apart_are_never_dropped(name):
    rows = SHOWN.drop("score").with_columns(pl.lit("2026-05-01").alias(name))
    other = rows.sample(5, seed=4).with_columns(pl.lit("2026-05-02").alias(name))
    with pytest.raises(RankqlError, match=rf"duplicates: (.|\n)*\['query', '{name}'\]"):
        rankql.evaluate(pl.concat([rows, other]), GOLD, METRICS)


def test_rows_without_items_are_never_dropped():
    """Two items may have one grade at one position."""
    rows = pl.DataFrame({"query": ["a"] * 20, "pos": [*range(1, 20), 2], "rel": [1] * 20})
    with pytest.raises(RankqlError, match="pos 2"):
        rankql.evaluate(rows, metrics="P@5")


def test_a_run_that_is_there_twice_is_an_error_with_the_call_that_drops_it(tmp_path):
    """Also one of several systems in one table, which have most of its rows."""
    twice = "repeat another one in all columns: pass "
    run = pl.concat([SHOWN, SHOWN])
    with pytest.raises(RankqlError, match=rf"50% of its rows {twice}run\.unique\(\)"):
        rankql.evaluate(run, GOLD, METRICS)
    assert means(run.unique(), GOLD) == means(SHOWN, GOLD)
    path, once = str(tmp_path / "run.parquet"), str(tmp_path / "once.parquet")
    run.write_parquet(path)
    with pytest.raises(RankqlError, match="drops them") as error:
        rankql.evaluate(path, GOLD, METRICS)
    drop_by_duckdb(str(error.value), once)
    assert means(once, GOLD) == means(SHOWN, GOLD)
    with pytest.raises(RankqlError, match="Keep one row of each"):
        rankql.evaluate({"a": SHOWN, "b": run}, GOLD, METRICS)
    systems = pl.concat([SHOWN.with_columns(model=pl.lit(f"m{i}")) for i in range(20)])
    one = systems.filter(model="m3")
    with pytest.raises(RankqlError, match="50% of its rows"):
        rankql.evaluate(pl.concat([systems, one]), GOLD, METRICS, system="model")


def test_sum_and_max_of_grades_see_all_rows():
    gold = again(GOLD)
    for aggregate, how in (("sum", pl.Expr.sum), ("max", pl.Expr.max)):
        grades = gold.group_by("query", "item").agg(how(pl.col("rel")))
        assert means(SHOWN, gold, rel=f"{aggregate}(rel)") == means(SHOWN, grades)


def test_events_train_catalogue_and_weights_see_all_rows():
    """Their rows are no rankings: what repeats is another event, or the same user and item."""
    bought = GOLD.drop("rel")
    assert means(SHOWN, again(bought)) == means(SHOWN, bought)
    shown = ["Popularity@5", "Coverage@5"]
    train = pl.DataFrame({"query": ["u0", "u1"] * 3, "item": ["s1"] * 4 + ["s2", "s3"]})
    first = rankql.evaluate(SHOWN, GOLD, shown, train=train, catalogue=again(train, 2))
    assert (
        first.means["mean"].to_list()
        == rankql.evaluate(SHOWN, GOLD, shown, train=train.unique(), catalogue=train)
        .means["mean"]
        .to_list()
    )
    weights = GOLD.select("query", load=pl.col("query").str.slice(1).cast(pl.Int64) + 1)
    options = {"attributes": weights, "weight": "load"}  # four rows of a query
    assert means(again(SHOWN), GOLD, **options) == means(SHOWN, GOLD, **options)
    notes = rankql.evaluate(SHOWN, again(bought), METRICS).notes
    assert not any("equal to another" in x for x in notes)


def test_labels_and_events_of_other_functions_see_all_rows():
    votes = pl.DataFrame({"item": ["a"] * 3, "rel": [0, 0, 3], "rater": ["ann", "ann", "bob"]})
    assert votes.select(grade=rankql.consensus())["grade"].item() == 1
    log = pl.DataFrame({"user": ["u"] * 3, "item": "x", "event": ["click", "click", "buy"]})
    (grade,) = log.pipe(rankql.graded, "event", {"click": 1, "buy": 3}, how="sum")["graded"]
    assert grade == 5


@pytest.mark.slow
def test_what_follows_an_evaluation_counts_equal_rows_once(tmp_path):
    """check, explain, the steps of a result, compare and gate."""
    run, gold = again(SHOWN), again(GOLD)
    kinds = [(x.kind, x.level) for x in rankql.check(run, gold)]
    assert kinds.count(("equal-rows", "note")) == 2
    assert not any(x.startswith("duplicate") for x, _ in kinds)
    twice = [x.kind for x in rankql.check(pl.concat([SHOWN, SHOWN]), GOLD)]
    assert "duplicate-items" in twice
    query = run.filter(pl.struct("query", "item").is_duplicated())["query"][0]
    options = {"metric": "nDCG@5"}
    explained = rankql.explain(run, gold, query, **options)
    assert explained.value == rankql.explain(SHOWN, GOLD, query, **options).value
    assert explained.table["item"].is_unique().all()
    several = rankql.explain(run, gold, **options).table
    assert several.equals(rankql.explain(SHOWN, GOLD, **options).table)
    comparison = rankql.compare({"one": SHOWN, "two": run}, gold, METRICS)
    assert comparison.pairs["difference"].drop_nulls().to_list() == [0.0] * 3
    assert rankql.gate(run, gold, minimum="R@8>=0.5").passed


@pytest.mark.slow
def test_the_command_line_and_its_sql_count_equal_rows_once(tmp_path):
    run, gold = str(tmp_path / "run.csv"), str(tmp_path / "gold.csv")
    again(SHOWN).write_csv(run)
    GOLD.write_csv(gold)
    shown = CliRunner().invoke(main, ["eval", run, gold, "-m", "nDCG@5"])
    assert shown.exit_code == 0 and NOTE.format(5) in shown.output
    printed = CliRunner().invoke(main, ["sql", run, gold, "-m", "nDCG@5"])
    con = duckdb.connect()
    rankql.register(con)
    rows = con.sql(printed.output).pl()
    assert rows["nDCG@5"].mean() == pytest.approx(means(SHOWN, GOLD)[0], abs=1e-12)
    pl.concat([SHOWN, SHOWN]).write_csv(run)
    refused = CliRunner().invoke(main, ["eval", run, gold])
    drop_by_duckdb(refused.output, once := str(tmp_path / "once.parquet"))
    assert means(once, GOLD) == means(SHOWN, GOLD)


def test_monitor_counts_equal_rows_once():
    days = [date(2026, 3, 2) + timedelta(i) for i in range(60)]
    rows = [(f"{d}.{q}", f"v{i}", i, int((q + i) % 4 == 0), d) for d in days for q in range(12)
            for i in range(1, 4)]  # fmt: skip
    log = pl.DataFrame(rows, ["query", "item", "pos", "rel", "day"], orient="row")
    watched = rankql.monitor(again(log, 20), metrics="RR@3")
    assert_frame_equal(watched.table, rankql.monitor(log, metrics="RR@3").table)
    assert any(NOTE.format(20) in x for x in watched.notes)


@pytest.mark.parametrize("name", ["revenue", "quantity", "dwell_seconds", "plays", "purchases"])
def test_equal_amounts_are_not_repeated(name):
    """Two purchases of one price are two: the caller decides, and the offered call adds them up."""
    bought = again(GOLD).rename({"rel": name})
    with pytest.raises(rankql.errors.Question, match="qrels has duplicates") as question:
        means(SHOWN, bought, rel=name)
    *_, call = question.value.calls
    assert question.value.calls == [{"rel": x} for x in ("1", f"max({name})", f"sum({name})")]
    assert "  # its rows add up" in str(question.value)
    added = bought.group_by("query", "item").agg(pl.sum(name).alias("rel"))
    assert means(SHOWN, bought, **call) == pytest.approx(means(SHOWN, added))


@pytest.mark.parametrize("name", ["clicks", "listens"])
def test_equal_rows_of_a_log_are_one(name):
    """What has a time or a position is a log, of which a row may be there twice."""
    log = again(GOLD).rename({"rel": name}).with_columns(time=pl.lit(5))
    expected = means(SHOWN, GOLD)
    assert means(SHOWN, log, rel=name) == pytest.approx(expected)


def test_a_gate_says_what_is_left_out_of_both_runs():
    verdict = rankql.gate(again(SHOWN, 3), GOLD, baseline=again(SHOWN), max_drop="nDCG@5:0.5")
    for name, n in (("run", 3), ("run 'baseline'", 5)):
        assert f"Note: {name}: {NOTE.format(n)}" in str(verdict)
