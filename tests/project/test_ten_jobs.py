"""Ten jobs of analysts whose columns have rare names.

Each call gives the right value, or asks, and the first call of the question gives it. What is right
is computed here, by numpy and plain Python.
"""

import operator
import re
import shlex
from datetime import date, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.questions import follow

TILES = [f"tile-{i:02}" for i in range(30)]


@pytest.fixture
def rng():
    return np.random.default_rng(129)


def lists(rng, *names, size=8):
    """Random lists of tiles: the list, the tile, and its place from 1."""
    rows = [
        (f"need {n:02}", str(tile), place)
        for n in range(40)
        for place, tile in enumerate(rng.choice(TILES, size, replace=False), 1)
    ]
    return pl.DataFrame(rows, schema=names, orient="row")


def right(run, grades, k):
    """The mean nDCG of lists (list, tile, place) by grades (list, tile, grade)."""
    known = {}
    for need, tile, grade in grades.rows():
        known.setdefault(need, {})[tile] = grade
    shown = {}
    for need, tile in run.sort(run.columns[2])[:, :2].rows():
        shown.setdefault(need, []).append(tile)
    discount = 1 / np.log2(np.arange(k) + 2)
    values = []
    for need, own in known.items():
        found = [own.get(tile, 0) for tile in shown.get(need, [])[:k]]
        best = sorted(own.values(), reverse=True)[:k]
        if sum(best):
            values.append(found @ discount[: len(found)] / (best @ discount[: len(best)]))
    return np.mean(values)


def graded(rng, *names):
    """Judgments from 0 to 3 of random tiles."""
    frame = lists(rng, *names)
    return frame.with_columns(pl.Series(names[2], rng.integers(0, 4, len(frame))))


def test_a_shop_reads_its_search_log(rng, tmp_path):
    log = lists(rng, "search_phrase", "sku", "slot", size=12)
    log = log.with_columns(ordered=pl.Series(rng.random(len(log)) < 0.1).cast(int))
    log.write_csv(tmp_path / "log.csv")
    result = follow(rankql.evaluate, tmp_path / "log.csv", metrics=["nDCG@10", "RR"])
    assert result["nDCG@10"] == pytest.approx(
        right(log, log.select("search_phrase", "sku", "ordered"), 10)
    )
    firsts = log.filter(ordered=1).group_by("search_phrase").agg(pl.col("slot").min())
    assert result["RR"] == pytest.approx((1 / firsts["slot"]).mean())


def test_a_shop_has_no_english_names(rng, tmp_path):
    log = lists(rng, "suchbegriff", "artikelnr", "platz", size=12)
    log = log.with_columns(gekauft=pl.Series(rng.random(len(log)) < 0.1).cast(int))
    log.write_csv(tmp_path / "log.csv")
    result = follow(rankql.evaluate, tmp_path / "log.csv", metrics="nDCG@10")
    assert result["nDCG@10"] == pytest.approx(
        right(log, log.select("suchbegriff", "artikelnr", "gekauft"), 10)
    )


@pytest.mark.parametrize("call", [follow, operator.call])
def test_ids_with_blanks_are_one_id(rng, call):
    log = lists(rng, "search_phrase", "sku", "slot")
    log = log.with_columns(pl.col("sku").str.replace("-", " "), ordered=pl.col("slot") % 3 == 1)
    log = log.with_columns(pl.col("ordered").cast(int))
    named = {"query": "search_phrase", "item": "sku", "pos": "slot", "rel": "ordered"}
    named = {} if call is follow else named
    result = call(rankql.evaluate, log, metrics="nDCG@10", **named)
    assert result["nDCG@10"] == pytest.approx(
        right(log, log.select("search_phrase", "sku", "ordered"), 10)
    )


@pytest.mark.parametrize(
    "names", [("prompt_text", "chunk_ref", "quality"), ("question", "chunk_id", "verdict")]
)
def test_a_golden_set_has_words_as_grades(rng, names):
    words = {"poor": 0, "fair": 1, "good": 2, "superb": 3}
    shown, gold = lists(rng, *names[:2], "slot"), graded(rng, *names)
    told = gold.with_columns(
        pl.col(names[2]).replace_strict([*words.values()], [*words], return_dtype=pl.String)
    )
    result = follow(rankql.evaluate, shown, told, "nDCG@5", words=words)
    assert result["nDCG@5"] == pytest.approx(right(shown, gold, 5))


@pytest.mark.parametrize("names", [{}, {"query": "topic_no", "item": "page", "pos": "place"}])
def test_ten_engines_are_in_one_table(rng, names):
    shown = {f"engine {n}": lists(rng, "topic_no", "page", "place") for n in range(10)}
    table = pl.concat(run.with_columns(motor=pl.lit(x)) for x, run in shown.items())
    gold = graded(rng, "topic_no", "page", "usefulness")
    found = follow(rankql.compare, table, gold, "nDCG@8", **names)
    means = {x: right(run, gold, 8) for x, run in shown.items()}
    assert dict(found.summary.select("system", "mean").rows()) == pytest.approx(means)
    best = max(means, key=means.get)
    assert found.title.startswith(f"{best} leads on nDCG@8")


def weighted_kappa(one, other):
    """Squared distances that are seen, against those of chance."""
    chance = np.subtract.outer(one, other)
    return 1 - np.mean((one - other) ** 2) / np.mean(chance**2)


def test_two_annotators_check_a_model(rng):
    n = 240
    hanna = rng.integers(0, 3, n)
    olga, robo = (
        np.where(rng.random(n) < share, hanna, rng.integers(0, 3, n)) for share in (0.8, 0.5)
    )
    labels = pl.DataFrame({
        "prompt_id": np.repeat(range(40), 6), "answer_id": [f"answer {i}" for i in range(n)],
        "hanna": hanna, "olga": olga, "robo": robo,
    })  # fmt: skip
    found = follow(rankql.judges, labels, annotators=["hanna", "olga"], models=["robo"])
    model, person = weighted_kappa(hanna, robo), weighted_kappa(hanna, olga)
    assert f"{model:.2f} against {person:.2f}" in found.title
    assert found.title.startswith("robo agrees with hanna less than olga does")


@pytest.mark.parametrize(
    ("name", "step", "call"),
    [("hit_quota", -0.2, operator.call), ("no_answer_pct", 0.2, follow)],
)
def test_days_are_watched(rng, name, step, call):
    first = date(2026, 1, 1)
    values = 0.5 + rng.normal(0, 0.01, 90) + step * (np.arange(90) >= 70)
    days = [first + timedelta(i) for i in range(90)]
    found = call(rankql.monitor, pl.DataFrame({"stamp_day": days, name: values}))
    assert (
        found.title == f"Alarm since {days[70]}: {name} (sudden {'drop' if step < 0 else 'rise'})"
    )
    last = found.table.filter(day=days[-1], metric=name)
    assert last["mean"].item() == pytest.approx(values[-1])


def cli(*arguments):
    done = CliRunner().invoke(main, [*map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.slow
def test_a_gate_in_ci(rng, tmp_path):
    old, gold = (
        lists(rng, "inquiry", "snippet", "shelf_place"),
        graded(rng, "inquiry", "snippet", "worth"),
    )
    new = old.with_columns(shelf_place=9 - pl.col("shelf_place"))
    paths = [tmp_path / f"{x}.csv" for x in ("new", "gold", "old")]
    for path, frame in zip(paths, (new, gold, old), strict=True):
        frame.write_csv(path)
    command = ["gate", *paths[:2], "--baseline", paths[2], "--min", "nDCG@5>=0.9"]
    code, output = cli(*command)
    assert code == 2
    call = shlex.split(re.search(r"\n    (--.*)\n", output)[1])
    code, output = cli(*command, *call)
    assert code == 1
    assert f"{right(new, gold, 5):.4f}" in output
    code, output = cli(*command[:-1], "nDCG@5>=0.01", *call)
    assert code == 0, output


def test_clicks_are_debiased():
    """The upper slot is seen three times as often; item one is twice as good as item two."""
    clicked = {("one", 1): 60, ("one", 2): 20, ("two", 1): 30, ("two", 2): 10}
    rows = [
        (f"need {n}", tile, shelf, int(i < count))
        for n in range(4)
        for (tile, shelf), count in clicked.items()
        for i in range(100)
    ]
    log = pl.DataFrame(rows, schema=["phrase", "tile", "shelf", "tapped"], orient="row")
    seen = follow(rankql.harvested_propensity, log)
    assert dict(seen.select("pos", "propensity").rows()) == {1: 1, 2: pytest.approx(1 / 3)}
    weighed = log.join(seen.select(shelf="pos", propensity="propensity"), on="shelf")
    grades = weighed.group_by("phrase", "tile").agg(worth=rankql.debiased("tapped", "propensity"))
    assert dict(grades.filter(phrase="need 0").select("tile", "worth").rows()) == {
        "one": pytest.approx(0.6), "two": pytest.approx(0.3)
    }  # fmt: skip


@pytest.mark.parametrize("ids", [pl.String, pl.Int64])
def test_exports_are_compared(rng, tmp_path, ids):
    one = lists(rng, "ticket", "article", "points").with_columns(points=1 / pl.col("points"))
    gold = graded(rng, "ticket", "article", "usefulness")
    one, gold = (x.with_columns(pl.col("ticket").str.slice(5).cast(ids)) for x in (one, gold))
    other = one.with_columns(points=-pl.col("points"))
    paths = [tmp_path / f"{x}.csv" for x in ("one", "other", "gold")]
    for path, frame in zip(paths, (one, other, gold), strict=True):
        frame.write_csv(path)
    found = follow(rankql.compare, {"one": paths[0], "other": paths[1]}, paths[2], "nDCG@5")
    means = [right(run.with_columns(-pl.col("points")), gold, 5) for run in (one, other)]
    row = found.pairs.row(0, named=True)
    assert [row["mean_a"], row["mean_b"]] == pytest.approx(means)
    assert row["difference"] == pytest.approx(means[1] - means[0])


@pytest.mark.slow
def test_a_warehouse_joins_and_ranks(rng):
    tiles, grades = (
        lists(rng, "visit_no", "tile", "slot_no"),
        graded(rng, "visit_no", "tile", "worth"),
    )
    with duckdb.connect() as con:
        rankql.register(con)
        con.register("tiles", tiles)
        con.register("grades", grades)
        ranked = "ranked_table('tiles', 'grades', query := 'visit_no', item := 'tile', {})"
        sql = f"""SELECT avg(x) FROM (SELECT query, ndcg(rel, pos, 5) AS x FROM {ranked}
            GROUP BY query)"""
        told = con.sql(sql.format("pos := 'slot_no', rel := 'worth'")).fetchall()[0][0]
        assert told == pytest.approx(right(tiles, grades, 5))
        with pytest.raises(duckdb.Error, match=r"rankql: ranked_table needs .*rel :="):
            con.sql(sql.format("pos := 'slot_no'")).fetchall()


def test_frames_are_grouped(rng):
    shown, grades = (
        lists(rng, "visit_no", "tile", "points"),
        graded(rng, "visit_no", "tile", "worth"),
    )
    scored = shown.with_columns(points=1 / pl.col("points"))
    table = scored.join(grades, on=["visit_no", "tile"], how="full", coalesce=True)
    by_visit = table.group_by("visit_no")
    value = by_visit.agg(x=rankql.ndcg_by_score("worth", "points", "tile", k=5))["x"].mean()
    assert value == pytest.approx(right(shown, grades, 5))
    placed = table.with_columns(
        slot=pl.col("points").rank("ordinal", descending=True).over("visit_no")
    )
    value = placed.group_by("visit_no").agg(x=rankql.ndcg("worth", "slot", k=5))["x"].mean()
    assert value == pytest.approx(right(shown, grades, 5))
    firsts = placed.filter(pl.col("worth") >= 1).group_by("visit_no").agg(pl.col("slot").min())
    value = placed.group_by("visit_no").agg(x=rankql.rr("worth", "slot"))["x"].mean()
    assert value == pytest.approx((1 / firsts["slot"]).fill_null(0).mean())
