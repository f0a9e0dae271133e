"""Metrics by day: hand-checked statistics, causes, stored states, and days that cannot be right."""

from datetime import date, timedelta
from xml.etree import ElementTree

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

import rankql
from rankql.cli.main import main
from rankql.errors import RankqlError
from support import metric_engines

FIRST = date(2026, 9, 1)


def log(days=45, queries=30, broken=None, unjudged=None, ageing=False, seed=5):
    """Rankings of 6 items by day; from some day on, broken ones or items without a grade."""
    rng = np.random.default_rng(seed)
    day, query, pos = (x.ravel() for x in np.meshgrid(range(days), range(queries), range(1, 7),
                                                     indexing="ij"))  # fmt: skip
    grade = rng.integers(0, 3, len(day)) + (pos < 3) * rng.integers(0, 2, len(day)) * 2.0
    if broken is not None:
        grade[(day >= broken) & (pos < 3)] = 0
    frame = pl.DataFrame(
        {
            "day": pl.Series([FIRST + timedelta(int(d)) for d in day]),
            "query": query,
            "item": pos,
            "pos": pos,
            "rel": grade,
        }
    ).with_columns(part=pl.when(pl.col("query") % 2 == 0).then(pl.lit("a")).otherwise(pl.lit("b")))
    if unjudged is not None:
        share = 0.01 * (day - unjudged) if ageing else 0.3
        new = pl.Series(rng.random(len(day)) < share) & (
            pl.col("day") >= FIRST + timedelta(unjudged)
        )
        frame = frame.with_columns(rel=pl.when(~new).then("rel"))
    return frame  # fmt: skip


LOG = log()


def test_means_and_intervals_are_those_of_evaluate():
    result = rankql.monitor(LOG, metrics=["nDCG@3", "AP"], by="part")
    day = FIRST + timedelta(40)
    one = rankql.evaluate(
        LOG.filter(day=day).drop("day"), metrics=["nDCG@3", "AP"], by="part", interval="t"
    ).summary
    found = result.table.filter(pl.col("day") == day, kind="metric")
    found = one.select("slice", "metric").join(found, on=["slice", "metric"], maintain_order="left")
    for name in ("mean", "lo", "hi"):
        assert found[name].to_list() == pytest.approx(one[name].to_list(), abs=1e-12)
    assert result.passed and result.exit_code == 0
    assert result.title == "No alarm on 2026-10-15"


def test_statistics_by_hand():
    """z of the day, 7 and 28 days, the band and the threshold, from their definitions."""
    rng = np.random.default_rng(2)
    values, errors = rng.normal(0.5, 0.1, 70), rng.uniform(0.01, 0.2, 70)
    daily = pl.DataFrame({"day": [FIRST + timedelta(i) for i in range(70)], "value": values,
                          "error": errors})  # fmt: skip
    con = metric_engines.connect()
    con.register("daily", daily)
    found = con.sql(f"FROM monitor_days('daily', DATE '{FIRST + timedelta(27)}', error := 'error', "
                    "family := 3)").pl()  # fmt: skip
    old, weekday = slice(0, 28), np.arange(70) % 7
    expected = np.array([values[old][weekday[old] == d].mean() for d in weekday])
    loss = expected - values
    noise = (loss[old] ** 2).sum() / 21
    threshold = stats.t.isf(0.05 / 730 / 3, 21)
    extra = np.maximum(0, errors**2 - (errors[old] ** 2).mean())
    band = threshold * np.sqrt(noise * 1.25 + extra)
    resemblance = (loss[1:28] * loss[:27]).sum() / (loss[old] ** 2).sum() + 0.5 / np.sqrt(28)
    resemblance = max(0, resemblance)
    clipped = np.clip(loss, -band, band)
    last = found.row(-1, named=True)
    np.testing.assert_allclose(found["expected"], expected, rtol=1e-12)
    np.testing.assert_allclose(found["band"], band, rtol=1e-9)
    assert last["threshold"] == pytest.approx(threshold)
    assert last["z_day"] == pytest.approx(loss[-1] / np.sqrt(noise * 1.25 + extra[-1]))
    for name, days, weeks in (("z_week", 7, 1), ("z_month", 28, 4)):
        error = (noise * days + extra[-days:].sum()) + weeks * days * noise / 4
        error = np.sqrt(error * (1 + resemblance) / (1 - resemblance))
        assert last[name] == pytest.approx(clipped[-days:].sum() / error)
    assert found["z_day"].null_count() == 28 and found["z_week"].null_count() == 28 + 4
    assert found["z_month"].null_count() == 28 + 19


def test_a_baseline_without_noise():
    """Rounding is no loss. One day sets off an alarm by itself, and weeks have no z."""
    con = metric_engines.connect()
    values = [0.3] * 40
    values[5], values[30], values[35] = 0.1 + 0.2, 0.3 - 1.1e-16, 0.2
    con.register("daily", pl.DataFrame({"day": [FIRST + timedelta(i) for i in range(40)],
                                        "value": values}))  # fmt: skip
    found = con.sql("FROM monitor_days('daily', DATE '2026-09-28')").pl()
    assert found.filter("alarm")["day"].to_list() == [date(2026, 10, 6)]
    assert found["z_day"].drop_nulls().to_list() == [*[0.0] * 7, np.inf, *[0.0] * 4]
    weeks = found.filter(pl.col("day") >= date(2026, 10, 6))
    assert weeks["z_week"].to_list() == [None] * 5 and weeks["loss_week"][0] > 0


def test_a_drop():
    result = rankql.monitor(log(broken=40), metrics="nDCG@3", by="part")
    assert not result and result.exit_code == 1
    assert result.active["cause"].to_list() == ["drop"] * 3
    assert result.active["since"].to_list() == [FIRST + timedelta(40)] * 3
    assert result.title.startswith("3 alarms on 2026-10-15: nDCG@3 (sudden drop), nDCG@3 [part=a]")
    alarm = result.active.row(0, named=True)
    assert alarm["loss"] == pytest.approx(alarm["expected"] - alarm["mean"])


@pytest.mark.slow
def test_lower_is_better():
    """An error that grows is a loss, and one that shrinks is none."""
    frame = LOG.with_columns(score=pl.col("rel") + (pl.col("query") % 7) / 7).drop("pos")
    worse = pl.when(pl.col("day") >= FIRST + timedelta(40)).then(2.0).otherwise(0.0)
    result = rankql.monitor(frame.with_columns(pl.col("score") + worse), metrics="RMSE")
    assert result.active["cause"].to_list() == ["drop"] and "above the" in result.sentences[0]
    assert (
        result.sentences[0].startswith("RMSE: sudden rise since")
        and "(sudden rise)" in result.title
    )
    assert result.active["loss"][0] == pytest.approx(
        result.active["mean"][0] - result.active["expected"][0]
    )
    start = 2 - worse
    assert rankql.monitor(frame.with_columns(pl.col("score") + start), metrics="RMSE").passed


def test_one_outage_is_one_alarm():
    frame = LOG.with_columns(
        rel=pl.when(pl.col("day") == FIRST + timedelta(35))
        .then(pl.col("pos") // 6)
        .otherwise("rel")
    )
    alarms = rankql.monitor(frame, metrics="nDCG@3").alarms
    assert alarms.select("first", "last", "active", "days").rows() == [
        (FIRST + timedelta(35), FIRST + timedelta(35), False, 1)
    ]


def test_only_labels_age():
    """Slowly. If the share of judged items falls at once, the ranking may have changed."""
    result = rankql.monitor(log(days=70, queries=100, unjudged=32, ageing=True), metrics="CG@3")
    assert dict(result.active.select("metric", "cause").rows()) == {
        "CG@3": "labels", "Judged@3": "labels"}  # fmt: skip
    alarm = result.active.filter(metric="CG@3").row(0, named=True)
    assert alarm["judged"] < 0.9 and alarm["judged_expected"] == 1
    assert "% of the top 3 is judged instead of 100.0%; on judged items" in alarm["sentence"]
    result = rankql.monitor(log(days=45, queries=50, unjudged=35), metrics="CG@3")
    assert result.active["cause"].to_list() == ["unjudged"] * 2
    for sentence in result.sentences:
        assert ": sudden unjudged items since about 2026-10-0" in sentence
        assert "fell at once: were new items shown, are rankings shorter, or did" in sentence


def test_one_day_is_no_drift():
    rel = pl.when(pl.col("day") == FIRST + timedelta(44)).then(pl.col("pos") // 6).otherwise("rel")
    (alarm,) = rankql.monitor(LOG.with_columns(rel=rel), metrics="nDCG@3").alarms.rows(named=True)
    assert alarm["cause"] == "drop" and alarm["since"] == alarm["first"] == FIRST + timedelta(44)


def test_a_slice_that_vanishes():
    """Its alarm stays on for a week, and a note names it."""
    broken = log(queries=60, broken=40)
    gone = (pl.col("day") >= FIRST + timedelta(42)) & (pl.col("part") == "b")
    result = rankql.monitor(broken.filter(~gone), metrics="nDCG@3", by="part")
    alarm = result.active.filter(slice="part=b").row(0, named=True)
    assert alarm["last"] == FIRST + timedelta(41)
    assert "first alarm on 2026-10-11, no queries since 2026-10-12)" in alarm["sentence"]
    (note,) = [note for note in result.notes if "not compared there" in note]
    assert note.startswith("2 series have fewer than 10 queries with a value on 2026-10-15, such")
    assert "nDCG@3, part=b (last on 2026-10-12)" in note


def test_json_of_a_constant_baseline():
    rel = pl.when(pl.col("day") == FIRST + timedelta(44)).then(pl.col("pos") // 6)
    frame = LOG.with_columns(rel=rel.otherwise(7 - pl.col("pos")))
    result = rankql.monitor(frame, metrics="nDCG@3")
    assert result.table["z_day"].is_infinite().any() and "Infinity" not in result.to_json()


def test_stored_states(tmp_path):
    """Bit for bit the same, whether days come at once or one by one; a corrected day counts."""
    folder, last = tmp_path / "states", FIRST + timedelta(44)
    options = {"metrics": ["nDCG@3"], "by": "part"}
    whole = rankql.monitor(LOG, **options).table
    wrong = LOG.with_columns(rel=pl.when(pl.col("day") == last).then("pos").otherwise("rel"))
    rankql.monitor(wrong, states=folder, **options)
    merged = rankql.monitor(LOG.filter(pl.col("day") == last), states=folder, **options).table
    keys = ["day", "kind", "metric", "slice"]
    merged, whole = merged.sort(keys), whole.sort(keys)
    for name in ("mean", "lo", "hi", "error", "queries", "expected"):
        assert merged[name].equals(whole[name]), name
    np.testing.assert_allclose(merged["z_week"], whole["z_week"], rtol=1e-9)
    assert len([*folder.iterdir()]) == 45


@pytest.mark.slow
def test_stored_states_of_other_kinds(tmp_path):
    def read(days=LOG, metrics="nDCG@3", **options):
        return rankql.monitor(days, metrics=metrics, states=tmp_path, **options)

    read()
    wrong = LOG.filter(pl.col("day") == FIRST + timedelta(44))
    with pytest.raises(
        RankqlError, match=r"2026-09-01 was computed with gain='linear', not 'exp2'"
    ):
        read(wrong, gain="exp2")
    with pytest.raises(RankqlError, match=r"metrics=\['nDCG@3'\], not \['AP'\], so days cannot"):
        read(wrong, "AP")
    copy, first = tmp_path / "2026-09-01 copy.parquet", tmp_path / "2026-09-01.parquet"
    copy.write_bytes(first.read_bytes())
    with pytest.raises(RankqlError, match=r"'2026-09-01 copy.parquet' has the day 2026-09-01"):
        read(wrong)
    copy.unlink()
    second = tmp_path / "2026-09-02.parquet"
    second.write_bytes(b"damaged")
    with pytest.raises(RankqlError, match=r"2026-09-02.parquet' is damaged. Delete it, or pass"):
        read(wrong)
    read(LOG.filter(day=FIRST + timedelta(1)), conventions="rankql", query="query")
    first.unlink()
    with pytest.raises(RankqlError, match=r"2026-09-28, lacks 1 day, such as 2026-09-01"):
        read(wrong, baseline="2026-09-01:2026-09-28")
    mine = {"metrics": {"mine": "rr(rel, pos)"}, "states": tmp_path / "mine"}
    rankql.monitor(LOG, **mine)
    with pytest.raises(RankqlError, match=r"mine='rr\(rel, pos\)', not '2 \* rr"):
        rankql.monitor(wrong, **mine | {"metrics": {"mine": "2 * rr(rel, pos)"}})
    LOG.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(RankqlError, match=r"a.parquet' is not a state that monitor stored"):
        read(wrong)
    with pytest.raises(RankqlError, match=r"states= \(CLI: --states\) must be a folder"):
        rankql.monitor(LOG, states=tmp_path / "a.parquet")


@pytest.mark.slow
def test_judgments_in_another_table(tmp_path):
    """For all days, or by day; from a folder per day."""
    run, qrels = LOG.drop("rel", "part"), LOG.select("day", "query", "item", "rel")
    parts = LOG.select("query", "part").unique()
    apart = rankql.monitor(run, qrels, "nDCG@3", attributes=parts, by="part")
    own = rankql.monitor(LOG, metrics="nDCG@3", by="part")
    keys = ["day", "kind", "metric", "slice"]
    means = [r.table.sort(keys)["mean"].to_list() for r in (own, apart)]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    for (day,), rows in run.group_by("day"):
        (tmp_path / f"day={day}").mkdir()
        rows.drop("day").write_parquet(tmp_path / f"day={day}" / "part.parquet")
    first = qrels.filter(pl.col("day") == FIRST).drop("day")
    more = first.with_columns(query=pl.lit(99, pl.Int64))
    result = rankql.monitor(f"{tmp_path}/*/*.parquet", pl.concat([first, more]), "nDCG@3")
    assert result.table["queries"].max() == 30
    assert "Judged queries that a day does not have are left out" in result.notes


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (LOG.drop("day"), {}, r"days has no column 'day'.*Name the column of the day: day="),
        (LOG.with_columns(pl.col("query").alias("day")), {}, r"day: day must be a date.*not \d"),
        (LOG.filter(pl.col("day") != date(2026, 10, 3)), {}, r"^1 day of 2026-09-01 to 2026-10-15 "
         r"is missing, such as 2026-10-03. Pass it, or gaps=True"),
        (LOG.filter(pl.col("day") != date(2026, 9, 3)), {},
         r"baseline, 2026-09-01 to 2026-09-28, lacks 1 day, such as 2026-09-03"),
        (LOG, {"baseline": 45}, r"There is no day after the baseline, 2026-09-01 to 2026-10-15"),
        (LOG, {"baseline": 13}, r"baseline= .* must be a whole number of days from 14.*not 13"),
        (LOG, {"baseline": "2026-09"}, r"baseline= .* or a period such as .*not '2026-09'"),
        (LOG, {"baseline": "2026-08-01:2026-09-20"}, r"lacks 31 days, such as 2026-08-01"),
        (LOG, {"alpha": 2}, r"alpha must"),
        (LOG, {"day": 3}, r"^day= must be the name of a column, not 3"),
        (LOG, {"gaps": "no"}, r"^gaps must be true or false, not no"),
        (LOG.head(0), {}, r"^days is empty: it has no rows"),
        (LOG.rename({"query": "search"}), {}, r"^days has no column of queries. Name it: query="),
        (LOG, {"system": "part"}, r"monitor does not take system="),
        (pl.concat([LOG, LOG[:6]]), {}, r"2026-09-01 0.*Keep one row of each, .*or one system$"),
        (LOG, {"baseline": "2026-09-01:2026-09-03"}, r"at least 14 days .*to 2026-09-03"),
        (LOG, {"baseline": "2026-09-28:2026-09-01"}, r"at least 14 days .*not 2026-09-28 to"),
        (LOG.filter(pl.col("query") < 5), {}, r"No metric can be watched: .*10 queries per day"),
        (LOG.with_columns(query=pl.when(pl.col("query") != 3).then("query")), {},
         r"days: query is NULL in 270 of 8100 rows. Leave them out"),
        (LOG.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC"))), {},
         r"days: day is TIMESTAMP WITH TIME ZONE, whose day .* Cast it to DATE first"),
        (LOG, {"by": "x"}, r"by='x': no column of that name in days. .*, part$"),
        (LOG, {"by": "day"}, r"by= .* names 'day', the column of the day.*Leave it out"),
        (LOG, {"unjudged": "bounds"}, r"does not take unjudged='bounds'"),
        (LOG, {"states": ""}, r"states= .* must be the path of a folder, not ''"),
        (LOG, {"states": 5}, r"states= .* must be the path of a folder, not 5"),
        (LOG.with_columns(rel=pl.when(pl.col("day") == FIRST).then(0).otherwise("rel")), {},
         r"Day 2026-09-01: every metric is undefined, because no judged item is relevant. Check"),
        (LOG.with_columns(rel=pl.when(pl.col("day") != date(2026, 10, 3)).then("rel")), {},
         r"Day 2026-10-03 has no judgments: every metric is undefined. Add its judgments"),
    ],
)  # fmt: skip
def test_errors(frame, options, message):
    with pytest.raises(RankqlError, match=message):
        rankql.monitor(frame, metrics="nDCG@3", **options)


def test_metrics_of_the_catalogue_are_refused():
    with pytest.raises(RankqlError, match=r"cannot watch g@10, which describes all rankings"):
        rankql.monitor(LOG, metrics={"g@10": "gini(item, catalogue := 50)"})


def test_undefined_values_that_count_as_zero():
    """Without any relevant item on the last days AP is 0, of as many queries as before."""
    frame = LOG.with_columns(
        rel=pl.when(pl.col("day") < date(2026, 10, 14)).then("rel").otherwise(0)
    )
    result = rankql.monitor(frame, metrics="AP", undefined="zero")
    assert result.title == "1 alarm on 2026-10-15: AP (sudden drop)"
    last = result.table.filter(metric="AP").row(-1, named=True)
    assert last["mean"] == 0 and last["queries"] == 30


@pytest.mark.parametrize(("before", "after", "loss"), [(-20, -90, 70), (20, -30, 50)])
def test_sentences_of_negative_means(before, after, loss):
    profit = pl.when(pl.col("day") < date(2026, 10, 14)).then(before).otherwise(after)
    result = rankql.monitor(
        LOG.with_columns(profit=profit), metrics={"profit": "avg(profit)"}, higher_is_better=True
    )
    said = f"{after}.000 on one day, {loss}.000 below the {before}.000 of the same"
    assert said in result.sentences[0]


def test_plots_of_what_there_is():
    result = rankql.monitor(LOG, metrics="nDCG@3")
    with pytest.raises(RankqlError, match=r"^Unknown slice 'NL'. Available: all."):
        result.plot(slice="NL")
    with pytest.raises(RankqlError, match=r"^Unknown metric 'AP'. Available: nDCG@3, Judged@3"):
        result.plot(metric="AP")


def test_the_judged_share_alone():
    result = rankql.monitor(LOG, metrics="Judged@3")
    assert result.passed and result.table["metric"].unique().to_list() == ["Judged@3"]


@pytest.mark.slow
def test_own_metrics():
    """Their labels need no cutoff, and their direction is that of the caller."""
    frame = log(broken=40)
    own = {"mine@3": "ndcg(rel, pos, 3)", "lost gain": "1 - ndcg(rel, pos, 3)"}
    result = rankql.monitor(frame, metrics=own, higher_is_better={"lost gain": False})
    assert result.active["metric"].to_list() == ["mine@3", "lost gain"]
    assert result.active["cause"].to_list() == ["drop", "drop"]
    assert {"Judged@3", "Judged"} < {*result.table["metric"]}
    result = rankql.monitor(frame, metrics=own)
    assert result.active["metric"].to_list() == ["mine@3"]
    assert any(note.startswith("Higher mine@3 and lost gain are assumed") for note in result.notes)


@pytest.mark.slow
def test_text_tables(tmp_path):
    """CSV with the day, a folder of TREC runs per day, and judgments in TREC format."""
    options = {"metrics": "nDCG@3", "gaps": True}
    expected = rankql.monitor(LOG, **options).table["mean"].to_list()
    LOG.write_csv(tmp_path / "log.csv")
    found = rankql.monitor(tmp_path / "log.csv", **options)
    assert found.table["mean"].to_list() == pytest.approx(expected, abs=1e-12)
    qrels = LOG.filter(day=FIRST).select("query", "item", pl.col("rel").cast(int))
    lines = (f"{q} 0 {i} {r}" for q, i, r in qrels.rows())
    (tmp_path / "my.qrels").write_text("\n".join(lines))
    for (day,), rows in LOG.group_by("day"):
        (tmp_path / f"day={day}").mkdir()
        lines = (f"{q} Q0 {i} {i} {9 - i} me" for q, i in rows.select("query", "item").rows())
        (tmp_path / f"day={day}" / "my.run").write_text("\n".join(lines))
    found = rankql.monitor(f"{tmp_path}/*/my.run", tmp_path / "my.qrels", **options)
    own = rankql.monitor(LOG.drop("rel"), qrels, **options)
    assert found.table["mean"].to_list() == pytest.approx(own.table["mean"].to_list(), abs=1e-12)


def test_days_with_few_queries():
    """Equal values of few queries are not a certain mean."""
    few = (pl.col("day") < FIRST + timedelta(44)) | (pl.col("query") < 12)
    equal = (pl.col("day") < FIRST + timedelta(44)) | (pl.col("pos") == 6)
    frame = log(queries=120).filter(few).with_columns(rel=pl.when(equal).then("rel").otherwise(0))
    frame = frame.with_columns(rel=pl.when(~equal | (pl.col("pos") < 6)).then("rel").otherwise(1))
    table = rankql.monitor(frame, metrics="RR@10").table.filter(kind="metric")
    usual, band = (table["expected"] - table["band_lo"]).tail(2)
    last = table.row(-1, named=True)
    assert last["error"] < 1e-6 and last["queries"] == 12 and band > 1.5 * usual
    first = table.row(-2, named=True)
    assert first["band_hi"] == pytest.approx(min(1, first["expected"] + usual), abs=1e-12)
    assert first["band_hi"] > first["expected"]
    few = (pl.col("day") < FIRST + timedelta(44)) | (pl.col("query") < 9)
    last = rankql.monitor(frame.filter(few), metrics="RR@10").table.row(-1, named=True)
    assert last["z_day"] is None and last["alarm"] is None


def test_gaps_and_small_slices():
    frame = LOG.filter(pl.col("day") != date(2026, 10, 3)).with_columns(
        part=pl.when(pl.col("query") < 5).then(pl.lit("few")).otherwise("part")
    )
    result = rankql.monitor(frame, metrics="nDCG@3", by="part", gaps=True, baseline=21)
    assert result.passed and result.conventions["baseline"] == ["2026-09-01", "2026-09-21"]
    (note,) = [note for note in result.notes if "not watched" in note]
    assert note.startswith("2 series are not watched, such as nDCG@3, part=few")


def test_errors_in_sql():
    con = metric_engines.connect()
    twice = pl.DataFrame({"day": [FIRST, FIRST], "value": [0.1, 0.2], "s": ["a", "a"]})
    for options, message in (
        ("", "day 2026-09-01 occurs twice. Name the column of the series"),
        (", series := 's'", "day 2026-09-01 occurs twice in the series a"),
        (", alpha := 2", "alpha must lie between 0 and 1, not 2"),
        (", family := 0", "family must be a number of series from 1, not 0"),
        (", family := 'x'", "family must be a number of series from 1, not x"),
        (", family := 'nan'", "family must be a number of series from 1, not nan"),
        (", queries := 'error'", "error must not be negative, not -1"),
        (", error := 'error'", "error must not be negative, not -1"),
        (", value := 'huge'", "value is too large"),
    ):
        means = LOG.group_by("day").agg(value=pl.mean("rel"), error=pl.lit(-1))
        means = means.with_columns(huge=pl.col("value") * 1e200)
        con.register("frame", twice if "day" in message else means)
        with pytest.raises(duckdb.Error, match=message):
            con.sql(f"FROM monitor_days('frame', DATE '2026-09-28'{options})").fetchall()
    for baseline, message in (
        ("NULL", "baseline must be the last day of the baseline period, not NULL"),
        ("DATE '2026-09-05'", "the baseline up to 2026-09-05 must have each weekday twice"),
        ("DATE '2025-09-05'", "the baseline up to 2025-09-05 must have each weekday twice"),
    ):
        with pytest.raises(duckdb.Error, match=message):
            con.sql(f"FROM monitor_days('frame', {baseline})").fetchall()
    late = con.sql("SELECT count(alarm) FROM monitor_days('frame', DATE '2027-01-01')").fetchall()
    assert late == [(0,)]


def test_command_line(tmp_path):
    days = log(days=34, broken=32).drop("part")
    days.write_parquet(tmp_path / "log.parquet")
    files = [str(tmp_path / name) for name in ("log.parquet", "page.md", "junit.xml")]
    done = CliRunner().invoke(main, ["monitor", files[0], "-m", "nDCG@3", "--report", files[1],
                                     "--junit", files[2]])  # fmt: skip
    assert done.exit_code == 1 and done.stdout.startswith("1 alarm on 2026-10-04: nDCG@3 (sudden")
    assert "sudden drop since about 2026-10-03" in (tmp_path / "page.md").read_text()
    suite = ElementTree.parse(files[2]).getroot()[0]
    assert suite.attrib["failures"] == "1" and suite.attrib["tests"] == "2"
    assert [case[0].tag for case in suite] == ["failure", "system-out"]
    done = CliRunner().invoke(main, ["monitor", files[0], "--baseline", "14x"])
    assert done.exit_code == 2 and "not '14x'" in done.stderr
