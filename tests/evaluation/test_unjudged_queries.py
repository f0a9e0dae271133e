"""unjudged_queries="count": users without a purchase count as 0, as if they were judged."""

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main

RUN = pl.DataFrame(
    [
        (c, f"s{(7 * c + 3 * p) % 20}", p, ["DE", "FR"][c % 2])
        for c in range(30)
        for p in range(1, 6)
    ],
    schema=["user", "item", "pos", "country"],
    orient="row",
)
BOUGHT = RUN.filter(pl.col("user") < 20, pl.col("pos") == 1 + pl.col("user") % 3)
BOUGHT = BOUGHT.select("user", "item", rel=1)
# The same, with a row of grade 0 for each other user.
WITH_ZEROS = pl.concat(
    [BOUGHT, RUN.filter(pl.col("user") > 19, pos=1).select("user", "item", rel=0)]
)
METRICS = ["nDCG@5", "RR", "R@2", "P@2", "AP"]
COUNT = {"unjudged_queries": "count"}


def means(result):
    keys = [x for x in ("system", "slice", "metric") if x in result.summary.columns]
    return result.summary.select(*keys, "mean", "queries", "missing").rows()


@pytest.mark.parametrize("text", [False, True])
def test_they_count_as_judged_with_nothing_relevant(text):
    bought = BOUGHT.with_columns(pl.col("user").cast(pl.String)) if text else BOUGHT
    expected = rankql.evaluate(RUN, WITH_ZEROS, METRICS, undefined="zero", by="country")
    result = rankql.evaluate(RUN, bought, METRICS, by="country", **COUNT)
    assert means(result) == means(expected)
    assert result["nDCG@5"] < rankql.evaluate(RUN, BOUGHT, METRICS)["nDCG@5"]
    assert "undefined=zero" in repr(result)
    assert "10 of 30 queries have no judgments and count, with nothing relevant" in repr(result)
    assert "FalseAnswer" not in repr(result)
    kept = rankql.evaluate(RUN, BOUGHT, METRICS, undefined="skip", **COUNT)
    assert kept["nDCG@5"] == rankql.evaluate(RUN, BOUGHT, METRICS)["nDCG@5"]


def test_the_attributes_come_from_the_run():
    judged = BOUGHT.join(RUN.select("user", "country").unique(), on="user")
    expected = rankql.evaluate(RUN, WITH_ZEROS, METRICS, undefined="zero", by="country")
    for run in (RUN, RUN.drop("country")):
        result = rankql.evaluate(run, judged, METRICS, by="country", **COUNT)
        if "country" in run.columns:
            assert means(result) == means(expected)
        else:
            queries = {(row[0], row[-2]) for row in means(result)}
            assert queries >= {("all", 30), ("country=DE", 10), ("country=FR", 10)}


def test_the_queries_are_those_of_all_runs():
    """A run that lacks one has it as missing."""
    runs = {"all": RUN, "few": RUN.filter(pl.col("user") < 25)}
    result = rankql.evaluate(runs, BOUGHT, "RR", **COUNT)
    expected = rankql.evaluate(runs, WITH_ZEROS, "RR", undefined="zero")
    assert means(result) == means(expected)
    assert [row[-1] for row in means(result)] == [0, 5]
    pairs = rankql.compare(runs, BOUGHT, "RR", **COUNT).pairs
    assert pairs.select("mean_a", "mean_b").row(0) == tuple(result.summary["mean"])
    gate = rankql.gate(RUN, BOUGHT, minimum=["RR>=0.1"], **COUNT)
    assert gate.table["mean"].to_list() == [result.summary["mean"][0]]


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUN.write_csv("run.csv")
    BOUGHT.write_csv("bought.csv")
    command = "eval run.csv bought.csv -m RR --unjudged-queries count --format csv"
    printed = CliRunner().invoke(main, command.split())
    expected = rankql.evaluate(RUN, BOUGHT, "RR", **COUNT)["RR"]
    assert f"RR,{expected}," in printed.stdout, printed.output


@pytest.mark.parametrize(
    ("qrels", "metric", "options", "message"),
    [
        (
            BOUGHT,
            "RR",
            {"undefined": "one"},
            "does not go with undefined='one'",
        ),
        (BOUGHT, "RR", {"conventions": "xgboost"}, "does not go with undefined='one'"),
        (BOUGHT, ["RR", "FalseAnswer"], {}, "does not support FalseAnswer"),
        (BOUGHT, "RR", {"judge": BOUGHT}, "does not support judge="),
        (BOUGHT.with_columns(pl.col("user") + 900), "RR", {}, "no query of the run is judged"),
        (None, "RR", {}, "needs judgments in a table of their own"),
        (BOUGHT, "RR", {"unjudged_queries": "zero"}, "must be 'skip' or 'count', not zero"),
    ],
)
def test_what_does_not_go_with_it(qrels, metric, options, message):
    with pytest.raises(RankqlError, match=message):
        run = RUN if qrels is not None else RUN.with_columns(rel=1)
        rankql.evaluate(run, qrels, metric, **{**COUNT, **options})


def test_a_split_log_needs_test_rows_of_each_user():
    split = BOUGHT.drop("rel").with_columns(split=pl.lit("test"))
    rest = RUN.select("user", "item", split=pl.lit("train"))
    log = pl.concat([split, rest.join(split, on=["user", "item"], how="anti")])
    with pytest.raises(RankqlError, match=r"10 of 30 queries have no row of test\. Leave them out"):
        rankql.evaluate(RUN, log, "RR", **COUNT)
