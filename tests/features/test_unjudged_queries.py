"""unjudged_queries="count": users without a purchase count as 0, as if they were judged."""

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support.parameters import few
from support.refusals import refuses

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


@few(1)("text", [False, True])
def test_they_count_as_judged_with_nothing_relevant(text):
    bought = BOUGHT.with_columns(pl.col("user").cast(pl.String)) if text else BOUGHT
    expected = rankql.evaluate(RUN, WITH_ZEROS, METRICS, undefined="zero", by="country")
    result = rankql.evaluate(RUN, bought, METRICS, by="country", **COUNT)
    assert means(result) == means(expected)
    assert result["nDCG@5"] < rankql.evaluate(RUN, BOUGHT, METRICS)["nDCG@5"]
    assert "undefined=zero" in repr(result)
    examples = "'20', '21', '22'" if text else "20, 21, 22"
    line = f"Queries: 10 of 30 not judged and counted with nothing relevant ({examples}, ...)"
    assert line in repr(result)
    assert "FalseAnswer" not in repr(result)


def test_the_line_of_queries_left_out_names_it():
    names_it = "10 of 30 not judged and left out (20, 21, 22, ...; unjudged_queries='count' counts"
    assert names_it in repr(rankql.evaluate(RUN, BOUGHT, "RR"))
    assert "'count'" not in repr(rankql.evaluate(RUN, BOUGHT, "RR", unjudged_queries="skip"))
    alone = RUN.join(BOUGHT, on=["user", "item"], how="left")
    own = repr(rankql.evaluate(alone, metrics="P@1"))
    assert "10 of 30 not judged and left out" in own and "'count'" not in own


@few(1)("k", ["", "@3"])
@pytest.mark.parametrize(
    "rules",
    [{}, {"unjudged": "remove"}, {"negative": "unjudged"}, {"conventions": "trec_eval"}],
)
def test_metrics_of_answers_keep_the_queries_they_have_without_it(rules, k):
    """Users 0 to 9 bought something, 10 to 14 have grades of 0 and below, others none."""
    zeros = RUN.filter(pl.col("user").is_between(10, 14), pl.col("pos") < 3)
    judged = pl.concat(
        [
            BOUGHT.filter(pl.col("user") < 10),
            zeros.select("user", "item", rel=1 - pl.col("pos").cast(pl.Int32)),
            RUN.filter(user=25, pos=1).select("user", "item", rel=pl.lit(None, pl.Int32)),
        ]
    )
    run = RUN.with_columns(pos=pl.when(pl.col("user") > 3).then("pos"))
    metrics = ["FalseAnswer", "FalseAbstention", f"Forbidden{k}", f"RR{k}", f"P{k}"]
    left_out, result = (rankql.evaluate(run, judged, metrics, **rules, **x) for x in ({}, COUNT))
    for name in metrics[:3]:
        assert result[name] == left_out[name]
        values = (each.per_query[name].count() for each in (result, left_out))
        assert len({*values}) == 1
    both = result.per_query.join(left_out.per_query, on="user", how="left", suffix="_")
    assert both.height == 30 and both[f"P{k}_"].count() == 15
    assert both.filter(pl.col("user") < 15)[f"P{k}"].equals(both[:15][f"P{k}_"])
    assert both[15:][f"P{k}"].fill_null(0).sum() == 0
    assert result[f"P{k}"] == pytest.approx(left_out[f"P{k}"] / 2)
    assert "1 of 21 rows of qrels have no grade" in repr(result)


@pytest.mark.slow
def test_explain_check_combine_and_the_manifest_know_it():
    result = rankql.evaluate(RUN, BOUGHT, METRICS, **COUNT)
    with duckdb.connect() as con:
        rankql.register(con)
        for name, frame in (("rankql_run", RUN), ("rankql_qrels", BOUGHT)):
            con.register(name, frame)
        values = con.sql(result.sql).pl()[result.per_query.columns].sort("user")
        assert_frame_equal(values, result.per_query.sort("user"), check_dtypes=False)
    explained = rankql.explain(RUN, BOUGHT, 25, "P@2", **COUNT)
    assert explained.value == 0 and explained.positions["pos"].to_list() == [1, 2]
    found = {each.kind: each for each in rankql.check(RUN, BOUGHT, **COUNT).findings}
    assert found["unjudged-queries"].level == "note"
    assert "10 of 30 queries of the run are not judged and counted" in repr([*found.values()])
    even = pl.col("user") % 2 == 0
    halves = [
        rankql.evaluate(RUN.filter(part), BOUGHT.filter(part), METRICS, **COUNT)
        for part in (even, ~even)
    ]
    for row, same in zip(means(rankql.combine(halves)), means(result), strict=True):
        assert row == pytest.approx(same)
    with pytest.raises(RankqlError, match="undefined"):
        rankql.combine([halves[0], rankql.evaluate(RUN.filter(~even), BOUGHT, METRICS)])
    assert result.manifest()["call"]["options"]["unjudged_queries"] == "count"


def test_results_with_and_without_it_do_not_go_together(tmp_path):
    """Although their undefined values count alike."""
    both = [{"unjudged_queries": x, "undefined": "zero"} for x in ("count", None)]
    days = [RUN.filter(pl.col("user") < 15), RUN.filter(pl.col("user") >= 15)]
    count, skip = (
        rankql.evaluate(run, BOUGHT, METRICS, **x) for run, x in zip(days, both, strict=True)
    )
    skip.save_values(tmp_path / "skip.parquet")
    different = "Results have different unjudged_queries: count and None"
    for parts in ([count, skip], [count, tmp_path / "skip.parquet"]):
        with pytest.raises(RankqlError, match=different):
            rankql.combine(parts)
    with pytest.raises(RankqlError, match=different):
        rankql.combine([rankql.combine([count]), skip])
    runs = [rankql.evaluate(RUN, BOUGHT, METRICS, **x) for x in both]
    with pytest.raises(RankqlError, match=different):
        rankql.compare(dict(zip("ab", runs, strict=True)))
    gate = {"max_drop": ["RR:0.1"], **both[0]}
    with pytest.raises(RankqlError, match="different unjudged_queries: None and count"):
        rankql.gate(RUN, BOUGHT, baseline=runs[1], **gate)
    values = rankql.read_values(runs[0].per_query.select("user", "RR"))
    for known in (
        rankql.gate(RUN, BOUGHT, baseline=values, **gate),
        rankql.gate(values, baseline=runs[0], max_drop=["RR:0.1"]),
    ):
        assert known.table["difference"].to_list() == [0]


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


def test_a_funnel_has_queries_with_relevant_items_only():
    stages = {"all": RUN, "few": RUN.filter(pl.col("pos") < 3)}
    with pytest.raises(RankqlError, match="funnel has no option unjudged_queries="):
        rankql.funnel(stages, BOUGHT, **COUNT)
    assert "'count'" not in repr(rankql.funnel(stages, BOUGHT))


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUN.write_csv("run.csv")
    BOUGHT.write_csv("bought.csv")
    command = "eval run.csv bought.csv -m RR --unjudged-queries count --format csv"
    printed = CliRunner().invoke(main, command.split())
    expected = rankql.evaluate(RUN, BOUGHT, "RR", **COUNT)["RR"]
    assert f"RR,{expected}," in printed.stdout, printed.output
    printed = CliRunner().invoke(main, ["eval", "run.csv", "bought.csv", "-m", "RR"])
    assert "('20', '21', '22', ...; --unjudged-queries count counts them)" in printed.stdout
    printed = CliRunner().invoke(
        main, ["check", "run.csv", "bought.csv", "--unjudged-queries", "count"]
    )
    assert "not judged and counted with nothing relevant" in printed.stdout


test_what_does_not_go_with_it = refuses("unjudged_queries", globals(), "rankql.%s")


def test_a_split_log_needs_test_rows_of_each_user():
    split = BOUGHT.drop("rel").with_columns(split=pl.lit("test"))
    rest = RUN.select("user", "item", split=pl.lit("train"))
    log = pl.concat([split, rest.join(split, on=["user", "item"], how="anti")])
    with pytest.raises(RankqlError, match=r"10 of 30 queries have no row of test\. Leave them out"):
        rankql.evaluate(RUN, log, "RR", **COUNT)
