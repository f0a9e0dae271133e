"""Jobs around evaluate: the baseline, joins in SQL, judges, stages and words of other tools.

Each value is compared with plain Python or with the same data in its usual form.
"""

import math

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql import RankqlError
from rankql.cli.main import main
from support import metric_engines

RNG = np.random.default_rng(11)
PLAYS = pl.DataFrame(
    [
        (f"m{u}", f"t{i}", "test" if u % 4 == 0 else "train")
        for u in range(60)
        for i in RNG.choice(30, 6, replace=False)
    ],
    schema=["member_id", "track", "split"],
    orient="row",
)
SHOWN = pl.DataFrame(
    [(c, "DE" if c % 2 else "FR", f"s{s}", p) for c in range(40)
     for p, s in enumerate(RNG.choice(20, 8, replace=False), 1)],
    schema=["customer_id", "country", "sku", "slot"], orient="row",
)  # fmt: skip
BOUGHT = pl.DataFrame(
    [(c, f"s{s}") for c in range(40) for s in RNG.choice(20, 3, replace=False)],
    schema=["customer_id", "sku"], orient="row",
)  # fmt: skip


@pytest.fixture
def con():
    with metric_engines.connect() as con:
        con.register("shown", SHOWN)
        con.register("bought", BOUGHT)
        yield con


def run_cli(*arguments, code=0):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_baseline_of_a_log_that_is_split_by_users(tmp_path):
    """Users of test are nobody's train: they get the items that users of train played most."""
    PLAYS.write_csv(tmp_path / "plays.csv")
    users = PLAYS.filter(split="test").select("member_id").unique()
    users.write_csv(tmp_path / "users.csv")
    names = ["--query", "member_id", "--item", "track"]
    run = tmp_path / "base.csv"
    run_cli("popular", tmp_path / "plays.csv", "-k", 5, "--users", tmp_path / "users.csv",
            *names, "-o", run)  # fmt: skip
    counts = PLAYS.filter(split="train")["track"].value_counts()
    top = counts.sort("count", "track", descending=[True, False])["track"][:5]
    test = PLAYS.filter(split="test").drop("split")
    held = test.group_by("member_id").agg("track").rows()
    expected = np.mean([len({*top} & {*tracks}) / len(tracks) for _, tracks in held])
    test.write_csv(tmp_path / "test.csv")
    result = rankql.evaluate(run, test, "R@5", query="member_id", item="track")
    assert result["R@5"] == pytest.approx(expected) and len(held) == 15
    printed = run_cli("eval", run, tmp_path / "test.csv", "-m", "R@5", *names, "--format", "csv")
    assert f"R@5,{result['R@5']}," in printed


def test_a_mean_by_an_attribute_of_the_impressions(con):
    """ranked_table gives it to missed items; the query stays in GROUP BY, which is its ranking."""
    expected = []
    for customer in range(1, 40, 2):
        own = {*BOUGHT.filter(customer_id=customer)["sku"]}
        seen = SHOWN.filter(customer_id=customer)["sku"]
        gains = [(sku in own) / math.log2(p + 2) for p, sku in enumerate(seen)]
        expected.append(sum(gains) / sum(1 / math.log2(p + 2) for p in range(len(own))))
    table = """ranked_table('shown', 'bought', query := 'customer_id', item := 'sku', pos := 'slot',
                            "by" := ['country'])"""
    sql = f"SELECT query, country, ndcg(rel, pos, 8) AS n FROM {table} GROUP BY query, country"
    mean = f"SELECT avg(n) FROM ({sql}) WHERE country = 'DE'"
    assert con.sql(mean).fetchall()[0][0] == pytest.approx(np.mean(expected))
    pooled = sql.replace("SELECT query, ", "SELECT ").replace("BY query, ", "BY ")
    with pytest.raises(duckdb.Error, match="add the query to GROUP BY"):
        con.sql(pooled).fetchall()


def test_a_join_that_repeats_items_is_refused(con):
    con.execute("CREATE TABLE tags AS SELECT sku, t FROM bought, (VALUES ('a'), ('b')) AS tags (t)")
    sql = """SELECT hit_at(1, slot) FROM shown JOIN tags USING (sku) GROUP BY customer_id"""
    with pytest.raises(duckdb.Error, match="several items share a position"):
        con.sql(sql).fetchall()


def test_kappa_of_two_columns_of_annotators(con):
    labels = pl.DataFrame({"anna": RNG.integers(0, 2, 90), "ben": RNG.integers(0, 2, 90)})
    con.register("labels", labels)
    a, b = labels["anna"].to_numpy(), labels["ben"].to_numpy()
    chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    expected = ((a == b).mean() - chance) / (1 - chance)
    sql = "SELECT cohen_kappa FROM cohen_kappa('labels', label := ['anna', 'ben'])"
    assert con.sql(sql).fetchall()[0][0] == pytest.approx(expected)


def test_random_pairs_of_a_judge_are_queries_of_their_own():
    """The recipe of the page on judges, on a judge who says yes too often."""
    pairs = pl.DataFrame(
        [(f"{q} {d}", f"d{d}", f"p{q}", int(RNG.random() < 0.4))
         for q in range(60) for d in range(30)],
        schema=["pair", "item", "prompt", "human"], orient="row",
    )  # fmt: skip
    wrong = pl.Series(RNG.random(len(pairs)) < 0.15)
    pairs = pairs.with_columns(rel=pl.when(wrong).then(1).otherwise("human"))
    people = pairs.sample(500, seed=3).select("pair", "item", rel="human")
    judge = {"qrels": people, "judge": pairs.select("pair", "item", "rel")}
    shown = pairs.select("pair", "item", "prompt", score=pl.lit(1.0))
    result = rankql.evaluate(shown, metrics="P@1", query="pair", cluster="prompt", **judge)
    row = result.summary.row(0, named=True)
    assert row["lo"] < pairs["human"].mean() < row["hi"] < pairs["rel"].mean()


@pytest.mark.slow
def test_stages_queries_and_two_scores(tmp_path):
    """One table has the stages in a column; two queries are explained; two scores are compared."""
    run = SHOWN.select("customer_id", "sku", lgb=1.0 / pl.col("slot"), xgb=pl.col("slot") / 9)
    qrels, names = BOUGHT.with_columns(rel=1), {"query": "customer_id", "item": "sku"}
    every = run.select("customer_id", "sku", score="lgb")
    stages = {"all": every, "top": every.filter(pl.col("score") > 0.2)}
    long = pl.concat(frame.with_columns(stage=pl.lit(x)) for x, frame in stages.items())
    lost = rankql.funnel(long, qrels, system="stage", **names).table["lost"].to_list()
    kept = [frame.join(qrels, on=[*names.values()]).height for frame in stages.values()]
    assert lost[:2] == [len(qrels) - kept[0], kept[0] - kept[1]]
    pair = rankql.compare(run, qrels, "RR", score=["lgb", "xgb"], **names).pairs
    each = [rankql.evaluate(run, qrels, "RR", score=x, **names)["RR"] for x in ("lgb", "xgb")]
    assert pair.select("mean_a", "mean_b").row(0) == pytest.approx(each)
    both = rankql.explain(stages["all"], qrels, [3, 4], "RR", **names)
    ones = [rankql.explain(stages["all"], qrels, x, "RR", **names).value for x in (3, 4)]
    assert both.result.frame()["RR"].to_list() == ones


@pytest.mark.slow
def test_words_of_other_tools(con, tmp_path):
    """--qrels, F2 and GAP."""
    SHOWN.write_csv(tmp_path / "run.csv")
    BOUGHT.write_csv(tmp_path / "bought.csv")
    printed = run_cli("eval", tmp_path / "run.csv", "--qrels", tmp_path / "bought.csv", "-m", "P@5",
                      "--query", "customer_id", "--format", "csv")  # fmt: skip
    hits = SHOWN.filter(pl.col("slot") <= 5).join(BOUGHT, on=["customer_id", "sku"]).height
    assert float(printed.splitlines()[1].split(",")[2]) == pytest.approx(hits / 5 / 40)
    table = "ranked_table('shown', 'bought', query := 'customer_id', item := 'sku', pos := 'slot')"
    f2 = f"""SELECT precision_at(rel, pos, 5) AS p, recall_at(rel, pos, 5) AS r,
        5 * p * r / nullif(4 * p + r, 0) AS f2 FROM {table} GROUP BY query HAVING p > 0"""
    for p, r, value in con.sql(f2).fetchall():
        assert value == pytest.approx((1 + 2**2) / (1 / p + 2**2 / r))
    rows = [
        (q, "x", int(RNG.random() < 0.5), float(RNG.random()) if q % 5 else None) for q in range(50)
    ]
    con.register("guesses", pl.DataFrame(rows, schema=["q", "item", "rel", "score"], orient="row"))
    ranked = sorted((row for row in rows if row[3] is not None), key=lambda row: -row[3])
    found = np.cumsum([row[2] for row in ranked])
    gap = sum(found[i] / (i + 1) for i, row in enumerate(ranked) if row[2])
    gap /= sum(row[2] for row in rows)
    sql = "SELECT ap_by_score(rel, score, concat(q, ' ', item)) FROM guesses"
    assert con.sql(sql).fetchall()[0][0] == pytest.approx(gap)
    for name, hint in (("GAP", "ap_by_score"), ("F2", "precision_at"), ("Hits@3", "Success@3")):
        with pytest.raises(RankqlError, match=hint):
            rankql.evaluate({"a": {"x": 1.0}}, {"a": {"x": 1}}, name)
