"""Eight jobs of a newcomer: the call that a page suggests, on data of other names and shapes.

Where the first call is refused, its error writes the one that works. Numbers are compared with
plain Python.
"""

import json
import random
import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import ndcg_score

import rankql
from rankql import RankqlError
from support.questions import follow

IDS = [f"d{i:02}" for i in range(40)]


@pytest.fixture
def rng():
    return random.Random(4)


def test_an_analyst_writes_sql(rng):
    shown = pl.DataFrame({"session": s, "rank": i, "bought": int(rng.random() < 0.1)}
                         for s in range(60) for i in range(1, 13))  # fmt: skip
    con = duckdb.connect()
    rankql.register(con)
    con.register("shown", shown)
    by_session = 'SELECT session, {}(bought, "rank", 10) AS x FROM shown GROUP BY session'
    sql = f"SELECT avg({{}}) FROM ({by_session})"
    with pytest.raises(duckdb.Error, match=r"hit_rate .*: use avg\(hit_at\(...\)\)"):
        con.execute(sql.format("x", "hit_rate"))
    hits = shown.filter(pl.col("rank") <= 10).group_by("session").agg(pl.col("bought").max())
    buyers = shown.filter(bought=1)["session"].n_unique()
    right = pytest.approx(hits["bought"].sum() / buyers)  # those without a purchase have no value
    assert con.execute(sql.format("x", "hit_at")).fetchone()[0] == right
    zeros = con.execute(sql.format("coalesce(x, 0)", "hit_at")).fetchone()[0]
    assert zeros == hits["bought"].mean()
    assert follow(rankql.evaluate, "shown", metrics="Success@10", con=con)["Success@10"] == right


def test_a_recommender_from_a_log(rng):
    watched = {u: rng.sample(range(40), 8) for u in range(60)}
    log = pl.DataFrame({"user": f"u{u}", "movie": f"m{m}", "ts": 1000 * u + i // 2}
                       for u, movies in watched.items() for i, m in enumerate(movies))  # fmt: skip
    with pytest.raises(RankqlError, match="Pass the column as moment="):
        rankql.leave_one_out(log, time="ts")
    split = rankql.leave_one_out(log)
    test, train = (dict.fromkeys(split.filter(split=x)["user"]) for x in ("test", "train"))
    assert len(test) == len(train) == split.filter(split="test").height == 60
    counts = split.filter(split="train")["movie"].value_counts()
    popular = counts.sort("count", "movie", descending=[True, False])["movie"].to_list()
    run = pl.DataFrame({"user": u, "movie": m, "score": -i}
                       for u in test for i, m in enumerate(popular))  # fmt: skip
    rows = split.filter(split="train").group_by("user").agg("movie").iter_rows()
    seen = {u: {*movies} for u, movies in rows}
    held = dict(split.filter(split="test")["user", "movie"].rows())
    hits = [held[u] in [m for m in popular if m not in seen[u]][:10] for u in test]
    assert rankql.evaluate(run, split, "R@10", seen="drop")["R@10"] == pytest.approx(np.mean(hits))


@pytest.mark.slow
def test_rag_with_questions_that_nothing_answers(rng, tmp_path):
    rows = [
        {
            "question": f"q{i}",
            "retrieved": rng.sample(IDS, 5),
            "scores": [1 - (j + rng.random()) / 9 for j in range(5)],
            "relevant": [rng.choice(IDS)] if i % 4 else [],
        }
        for i in range(80)
    ]
    path = tmp_path / "rag.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = [x["relevant"][0] in x["retrieved"] for x in rows if x["relevant"]]
    result = rankql.evaluate(path, metrics=["R@5", "FalseAnswer"])
    assert [result["R@5"], result["FalseAnswer"]] == [pytest.approx(np.mean(found)), 1]
    assert not [x for x in rankql.check(path).findings if x.level == "error"]
    limited = rankql.min_scores(path, metrics="FalseAnswer", max_false_answer=0.2)
    (row,) = limited.table.filter(min_score=limited.chosen).rows(named=True)
    shown = [max(x["scores"]) >= row["min_score"] for x in rows if not x["relevant"]]
    assert row["FalseAnswer"] == pytest.approx(np.mean(shown))
    assert row["FalseAnswer"] <= 0.2


def test_which_stage_loses_items(rng):
    retrieved = pl.DataFrame({"qid": q, "doc": d, "bm25": rng.random()}
                             for q in range(40) for d in rng.sample(IDS, 20))  # fmt: skip
    reranked = retrieved.group_by("qid").head(10).select("qid", "doc", ce=1 - pl.col("bm25"))
    qrels = pl.DataFrame(
        {"qid": q, "doc": d, "label": 1} for q in range(40) for d in rng.sample(IDS, 2)
    )
    funnel = follow(rankql.funnel, {"retrieved": retrieved, "reranked": reranked}, qrels, k=5)
    kept = [
        qrels.join(rows, on=["qid", "doc"], how="semi").height for rows in (retrieved, reranked)
    ]
    table = funnel.table
    assert table["lost"][:2].to_list() == [80 - kept[0], kept[0] - kept[1]]
    assert table["recall"][:2].to_list() == pytest.approx([n / 80 for n in kept])
    assert "stage 'retrieved': query = qid, item = doc, score = bm25" in repr(funnel)


@pytest.mark.slow
def test_annotators_and_a_model(rng):
    pairs = [(q, d, rng.randrange(3)) for q in range(40) for d in IDS[:10]]
    labels = pl.DataFrame(pairs, ["query", "item", "ann"], orient="row").with_columns(
        bo=pl.col("ann").map_elements(lambda x: min(2, x + (rng.random() < 0.2)), pl.Int64),
        gpt=pl.col("ann").map_elements(lambda x: max(0, x - (rng.random() < 0.5)), pl.Int64),
    )
    who = {"annotators": ["ann", "bo"], "models": ["gpt"]}
    answer = rankql.judges(labels, **who)
    assert answer.title.startswith("gpt agrees with ann less than bo does")
    words = labels.with_columns(
        pl.col("ann", "bo", "gpt").replace_strict({0: "NO", 1: "MAYBE", 2: "YES"})
    )
    with pytest.raises(RankqlError, match=r"rel=\{'MAYBE': ..., 'NO': ..., 'YES': ...\}"):
        rankql.judges(words, **who)
    rel = {"NO": 0, "MAYBE": 1, "YES": 2}
    assert rankql.judges(words, rel=rel, **who).title == answer.title
    long = words.unpivot(
        ["ann", "bo", "gpt"], index=["query", "item"], variable_name="rater", value_name="label"
    )
    assert rankql.judges(long, rel=rel, **who).title == answer.title
    run = labels.select("query", "item", score=pl.lit(1.0) * pl.int_range(pl.len()))
    people = labels.with_columns(ann=pl.when(pl.col("query") < 30).then("ann"))
    result = rankql.evaluate(run, people, "P(rel=1)@5", rel="ann", judge=people, judge_rel="gpt")
    assert result.summary.select("queries", "judged").row(0) == (30, 40)


def test_a_table_for_a_paper(rng):
    one = pl.DataFrame({"query": q, "item": d, "score": rng.random()}
                       for q in range(60) for d in IDS[:10])  # fmt: skip
    better = one.with_columns(pl.col("score") + 0.3 * pl.col("item").is_in(IDS[:3]))
    runs = {"BM25": one, "Dense": better}
    qrels = one.select(
        "query", "item",
        rel=pl.col("item").is_in(IDS[:3]).replace_strict({True: 0.6, False: 0.1})
        .map_elements(lambda p: int(rng.random() < p), pl.Int64),
        country=pl.when(pl.col("query") % 2 == 1).then(pl.lit("DE")).otherwise(pl.lit("FR")),
    )  # fmt: skip
    result = rankql.compare(runs, qrels, ["nDCG@10"], by="country")
    lines = [line for line in result.to_latex().splitlines() if "country=" in line and "&" in line]
    rows = result.pairs.filter(pl.col("slice") != "all")
    for line, row in zip(lines, rows.iter_rows(named=True), strict=True):
        assert f"{row['difference']:.4f}" in line
        assert r"\dag" in line
    wide = rankql.evaluate(runs, qrels, "nDCG@10", by="country").wide().table
    assert wide.filter(country="DE")["Dense"].item() == pytest.approx(
        rows.filter(slice="country=DE")["mean_b"].item()
    )


def test_learning_to_rank_with_arrays(rng):
    sizes = [5, 8, 3] * 10
    y_true, y_score = (
        np.array([f() for _ in range(sum(sizes))]) for f in (lambda: rng.randrange(4), rng.random)
    )
    with pytest.raises(RankqlError) as refused:
        rankql.evaluate(y_true, y_score, "nDCG@10")
    call = str(refused.value).partition("Make a frame: ")[2].partition(", where")[0]
    group = np.repeat(np.arange(len(sizes)), sizes)
    frame = eval(call, {"pl": pl, "group": group, "y_true": y_true, "y_score": y_score})
    mine = rankql.evaluate(frame, metrics="nDCG@10", conventions="sklearn", gain="linear")
    own = (group == g for g in range(len(sizes)))
    theirs = [ndcg_score([y_true[rows]], [y_score[rows]], k=10) for rows in own]
    assert mine["nDCG@10"] == pytest.approx(np.mean(theirs))


@pytest.mark.slow
def test_an_installation_without_extras():
    code = "import sys; sys.modules['scipy'] = None; import rankql; rankql.{}"
    for call in ("compare({})", "evaluate({}, {}, judge={})"):
        command = [sys.executable, "-c", code.format(call)]
        run = subprocess.run(command, capture_output=True, text=True)
        assert "rankql[stats]" in run.stderr.splitlines()[-1]
