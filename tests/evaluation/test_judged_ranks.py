"""Positions from lists of scores equal those of the window, ties and all."""

import random

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import clauses, judged_ranks, list_choice

SCORES = [0.0, -0.0, 1.0, 2.0, 0.5, 1e300, float("inf"), float("-inf"), None]


def rankings(seed, scores):
    """Runs of two systems and judgments: items of either alone, queries of either alone."""
    rng = random.Random(seed)
    run = [
        (system, query, f"d{i}", rng.choice(scores))
        for system in "AB"
        for query in range(25)
        for i in rng.sample(range(40), rng.randint(0, 30))
    ]
    qrels = [
        (query, f"d{i}", rng.choice([None, 0, 0, 1, 2, 3]))
        for query in range(2, 28)
        for i in rng.sample(range(50), 20)
    ]
    return (
        pl.DataFrame(run, ["system", "query", "item", "score"], orient="row"),
        pl.DataFrame(qrels, ["query", "item", "rel"], orient="row"),
    )


class Runner:
    """Runs SQL on the tables of a connection, as a SqlRunner does on sources."""

    def __init__(self, con):
        self.con, self.unrounded = con, self

    def __call__(self, sql):
        return self.con.execute(sql).fetchall()


def evaluated(monkeypatch, by_lists, *args, **options):
    for suit in ("suit_lists", "suit_top_lists"):
        monkeypatch.setattr(list_choice, suit, lambda *_, **options: by_lists)
    result = rankql.evaluate(*args, interval=None, **options)
    assert ("list_position" in result.sql) == by_lists
    return result.per_query


@pytest.mark.parametrize("longest", [0, 3])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", ["item", "order"])
@pytest.mark.parametrize(
    "metrics",
    [
        ["AP", "nDCG", "nDCG@1000", "RR"],
        ["Bpref", "Rprec"],
        ["AP", "RR@10", "ERR@5", "P@5", "nDCG@10", "nDCG(gain=exp2)@3"],
    ],
)
def test_equal_to_the_window(monkeypatch, seed, ties, metrics, longest):
    """With many ties, infinite scores, zeros of both signs and items without a score."""
    monkeypatch.setattr(judged_ranks, "LONGEST", longest)
    run, qrels = rankings(seed, SCORES if seed else [*range(1000)])
    options = {"ties": ties, "system": "system"}
    window, lists = (
        evaluated(monkeypatch, by_lists, run, qrels, metrics, **options)
        for by_lists in (False, True)
    )
    assert_frame_equal(lists, window, abs_tol=1e-12, rel_tol=1e-12)


# All follow from the positions of relevant items.
HIT_METRICS = [
    ["AP"],
    ["AP(denominator=R)", "AP(denominator=found)", "RR", "R", "ARHR", "Success"],
    ["AP", "AP(denominator=k)@5", "AP(denominator=found)@5", "AP@5", "RR@3", "R@10", "ARHR@4"],
    ["AP", "P@5", "P(denominator=min)@5", "F1@7", "Success@2", "R@1"],
]
HIT_OPTIONS = [
    {},
    {"ties": "order"},
    {"conventions": "trec_eval", "system": None},
    {"undefined": "drop", "missing": "skip"},
    {"by": "part", "threshold": 0.5},
    {"unjudged": "zero", "ap_denominator": "found", "precision_denominator": "min"},
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("number", range(len(HIT_METRICS)))
def test_positions_of_relevant_items(monkeypatch, seed, shift, number):
    """Of whole grades, the window, the lists of rows and those of hits give the same."""
    metrics, options = HIT_METRICS[number], HIT_OPTIONS[(seed + shift + number) % 6]
    monkeypatch.setattr(judged_ranks, "LONGEST", seed % 2 * 3)
    scores = [SCORES, [1.0], [*range(1000)], [None, 1.0, 2.0], [2.0, 0.5, 7.0], [0.0, -0.0]][seed]
    run, qrels = rankings(seed, scores)
    qrels = qrels.with_columns(part=pl.col("query") % 3)
    options = {"system": "system"} | options
    if options["system"] is None:
        run = run.filter(system="A").drop("system")
    found = [evaluated(monkeypatch, lists, run, qrels, metrics, **options) for lists in (0, 1)]
    sql = rankql.evaluate(run, qrels, metrics, interval=None, **options).sql
    assert clauses.HITS in sql
    monkeypatch.setattr("rankql.evaluation.query.hit_values", lambda *_: {})
    found.append(evaluated(monkeypatch, True, run, qrels, metrics, **options))
    for values in found[1:]:
        assert_frame_equal(values, found[0], abs_tol=1e-12, rel_tol=1e-12)
    assert found[0].height >= 20


@pytest.mark.parametrize(
    ("metrics", "factor", "negative", "options"),
    [
        (["AP", "nDCG"], 1, 0, {}),
        (["AP", "Rprec"], 1, 0, {}),
        (["AP", "microF1@2"], 1, 0, {}),
        (["AP", "P(rel=2)@5"], 1, 0, {}),
        (["AP"], 1, 0, {"threshold": 2}),
        (["AP"], 0.5, 0, {}),
        (["AP"], 2, 0, {}),
        (["AP"], 1, 1, {}),
    ],
)
def test_more_than_positions(monkeypatch, metrics, factor, negative, options):
    """Of other metrics, micro-averages, thresholds above 1, fractions, grades beyond 0 to 5."""
    run, qrels = rankings(3, SCORES)
    qrels = qrels.with_columns(pl.col("rel") * factor - negative)
    options = {"system": "system"} | options
    window, lists = (
        evaluated(monkeypatch, by_lists, run, qrels, metrics, **options)
        for by_lists in (False, True)
    )
    assert clauses.HITS not in rankql.evaluate(run, qrels, metrics, interval=None, **options).sql
    assert_frame_equal(lists, window, abs_tol=1e-12, rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", ["item", "order"])
@pytest.mark.parametrize("metrics", [["nDCG@10", "AP@3"], ["nDCG(base=3)@5", "P@5"], ["RR@1"]])
def test_cutoffs_equal_to_the_window(monkeypatch, seed, ties, metrics):
    """With ties within the first items and across the last, zeros of both signs, few items."""
    run, qrels = rankings(seed, [SCORES, [1.0], [*range(1000)], [None, 1.0, 2.0], SCORES][seed])
    options = {"ties": ties, "system": "system", "unjudged": "zero"}
    window, lists = (
        evaluated(monkeypatch, by_lists, run, qrels, metrics, **options)
        for by_lists in (False, True)
    )
    assert_frame_equal(lists, window, abs_tol=1e-12, rel_tol=1e-12)


EXPECTED = ["nDCG@10", "nDCG(gain=exp2)@3", "IDCG@20"]
CONVENTIONS = [
    {"conventions": "sklearn"},
    {"ties": "expected"},
    {"ties": "expected", "ideal": "retrieved", "missing": "skip"},
    {"ties": "expected", "ideal": "retrieved", "undefined": "drop"},
]


def average(monkeypatch, by_lists, *args, **options):
    """The values with ties="expected", by lists if they suit."""
    monkeypatch.setattr(list_choice, "suit_untied_lists", lambda *_, **suited: by_lists)
    return rankql.evaluate(*args, interval=None, **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", CONVENTIONS)
@pytest.mark.parametrize("grades", [int, float])
def test_without_ties_all_orders_are_one(monkeypatch, seed, options, grades):
    """Lists give the average over all orders of tied items if there are none among the best."""
    run, qrels = rankings(seed, [0.0])
    qrels = qrels.with_columns(rel=pl.col("rel") / (1 if grades is int else 2))
    metrics = [*EXPECTED, *(["DCG@5", "P@5", "RR@7", "AP@9"] if seed == 1 else [])]
    # With ideal="retrieved", lists need grades that can be packed, and no metric beyond nDCG.
    suit = "retrieved" not in options.values() and "sklearn" not in options.values()
    suit |= grades is int and len(metrics) == 3 and "drop" not in options.values()
    different = pl.int_range(pl.len()).over("system", "query")
    for score, tied in ((different, False), (different.clip(0, 25), True), (different // 2, True)):
        scored = run.with_columns(score=score)
        # Scores beyond the best may be tied.
        tied &= (
            scored.group_by("system", "query")
            .agg(pl.col("score").top_k(21).is_duplicated().any())["score"]
            .any()
        )
        plain, lists = (
            average(monkeypatch, by_lists, scored, qrels, metrics, system="system", **options)
            for by_lists in (False, True)
        )
        assert "list_position" not in plain.sql
        assert ("list_position" in lists.sql) == (suit and not tied)
        assert_frame_equal(lists.per_query, plain.per_query, abs_tol=1e-12, rel_tol=1e-12)
        assert_frame_equal(lists.summary, plain.summary, abs_tol=1e-12, rel_tol=1e-12)
        assert lists.conventions == plain.conventions


def test_items_without_a_score_are_not_retrieved(monkeypatch):
    run, qrels = rankings(0, [*range(1000)])
    run = run.with_columns(score=pl.int_range(pl.len()).over("system", "query"))
    run = run.with_columns(pl.when(pl.col("score") % 3 > 0).then("score"))
    plain, lists = (
        average(monkeypatch, by_lists, run, qrels, EXPECTED, system="system", conventions="sklearn")
        for by_lists in (False, True)
    )
    assert "list_position" in lists.sql
    assert_frame_equal(lists.per_query, plain.per_query, abs_tol=1e-12, rel_tol=1e-12)


@pytest.mark.parametrize("options", CONVENTIONS)
def test_duplicates_and_nan_are_refused_with_all_orders(monkeypatch, options):
    run, qrels = rankings(0, [0.0])
    run = run.with_columns(score=pl.int_range(pl.len()).over("system", "query") + 0.5)
    judged = run.join(qrels.drop_nulls(), on=["query", "item"]).sort("score", descending=True)
    nan = run.with_columns(pl.col("score").replace(2.5, float("nan")))
    wrong = [(nan, qrels, "^run: score must be a number, not nan")]
    for rel in (0, 3):
        one = judged.filter(rel=rel).head(1).select(run.columns)
        for score in (0.25, 100.25):  # beyond the cutoff, or first
            twice = pl.concat([run, one.with_columns(score=score)])
            wrong.append((twice, qrels, "^run has duplicates"))
        more = qrels.filter(rel=rel).head(2)
        wrong.append((run, pl.concat([qrels, more]), "^qrels has duplicates.*; "))
    for *data, words in wrong:
        errors = []
        for by_lists in (False, True):
            with pytest.raises(rankql.RankqlError, match=words) as error:
                average(monkeypatch, by_lists, *data, "nDCG@10", system="system", **options)
            errors.append(str(error.value))
        assert errors[0] == errors[1]


def test_ties_in_a_transaction(monkeypatch):
    """A query that fails would end it, so it is not tried."""
    con = duckdb.connect()
    for name, frame in zip(("run", "qrels"), rankings(1, SCORES), strict=True):
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE TABLE {name} AS FROM frame").fetchall()
    con.execute("BEGIN")
    options = {"system": "system", "ties": "expected", "con": con}
    inside = average(monkeypatch, True, "run", "qrels", "nDCG@10", **options)
    con.execute("COMMIT")
    outside = average(monkeypatch, True, "run", "qrels", "nDCG@10", **options)
    assert_frame_equal(inside.per_query, outside.per_query, abs_tol=1e-12, rel_tol=1e-12)


def test_first_rows_show_ties(monkeypatch):
    """Lists are tried in large runs without ties in the first rows."""
    con = duckdb.connect()

    def suits(query, score, rows=100_000):
        con.execute(
            f"CREATE OR REPLACE TABLE run AS SELECT {query} AS query, {score} AS score "
            f"FROM range({rows}) t(i)"
        )
        ask = lambda sql: con.execute(sql).fetchall()  # noqa: E731
        return judged_ranks.suit_untied_lists(ask, rows, "query", 10)

    assert suits("i // 100", "i")
    assert not suits("i // 100", "i", 99_999)
    assert not suits("i // 100", "i // 2")
    assert suits("i // 100", "greatest(i % 100, 50)")
    assert not suits("i // 100", "least(i % 100, 98)")


def test_cutoffs_of_large_runs(monkeypatch):
    """Lists give the first positions where the run is large, and refuse NaN as the window does."""
    run, qrels = rankings(1, SCORES)
    monkeypatch.setattr(judged_ranks, "MANY_ROWS", run.height + qrels.height)
    result = rankql.evaluate(run, qrels, "nDCG@10", system="system", interval=None)
    assert "list_position" in result.sql
    less = rankql.evaluate(run, qrels[1:], "nDCG@10", system="system", interval=None)
    assert "list_position" not in less.sql
    nan = run.with_columns(pl.col("score").replace(2.0, float("nan")))
    with pytest.raises(rankql.RankqlError, match=r"^run: score must be a number, not nan"):
        rankql.evaluate(nan, qrels, "nDCG@10", system="system", interval=None)


@pytest.mark.parametrize("metrics", ["nDCG@10", {"own": "sum(score)"}, "RMSE"])
def test_other_rows_or_scores(monkeypatch, metrics):
    """nDCG@10 of a small run needs the best ten alone; others read scores."""
    run, qrels = rankings(1, [*range(1000)])
    monkeypatch.setattr(list_choice, "suit_lists", lambda *_, **options: True)
    result = rankql.evaluate(run, qrels, metrics, system="system", interval=None)
    assert "list_position" not in result.sql


def test_settings(monkeypatch):
    """The order of lists is ours, whatever the user's is."""
    run, qrels = rankings(1, SCORES)
    con = duckdb.connect()
    con.execute("SET default_order = 'DESC'; SET default_null_order = 'NULLS FIRST'")
    for name, frame in (("run", run), ("qrels", qrels)):
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE TABLE {name} AS FROM frame").fetchall()
    window, lists = (
        evaluated(monkeypatch, by_lists, "run", "qrels", "AP", system="system", con=con)
        for by_lists in (False, True)
    )
    assert_frame_equal(lists, window, abs_tol=1e-12, rel_tol=1e-12)
    values = evaluated(monkeypatch, True, run, qrels, "AP", system="system")
    assert_frame_equal(lists, values, abs_tol=1e-12, rel_tol=1e-12)


def test_duplicates_are_refused(monkeypatch):
    run, qrels = rankings(1, [*range(1000)])
    twice = pl.concat([run, run.join(qrels.drop_nulls(), on=["query", "item"], how="semi").head(1)])
    with pytest.raises(rankql.RankqlError, match=r"^run has duplicates"):
        evaluated(monkeypatch, True, twice, qrels, "AP", system="system")


def test_item_twice_but_once_with_a_score(monkeypatch):
    """The row without a score takes no position and repeats no judgment."""
    run, qrels = rankings(1, [*range(1000)])
    unscored = run.with_columns(score=pl.lit(None, pl.Int64))
    both = pl.concat([run, unscored.join(run.sample(100, seed=1), on=run.columns[:3], how="semi")])
    window, lists, alone = (
        evaluated(monkeypatch, by_lists, table, qrels, ["AP", "nDCG"], system="system")
        for table, by_lists in ((both, False), (both, True), (run, True))
    )
    assert_frame_equal(lists, window, abs_tol=1e-12, rel_tol=1e-12)
    assert_frame_equal(lists, alone, abs_tol=1e-12, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("rows", "score", "suits"),
    [
        (judged_ranks.MANY_ROWS, "i", True),
        (judged_ranks.MANY_ROWS, "CASE WHEN i % 40 > 0 THEN i END", False),
        (judged_ranks.MANY_ROWS, "i // 14", False),
        (judged_ranks.MANY_ROWS - 1, "i", False),
    ],
)
def test_large_runs_with_few_ties_suit(rows, score, suits):
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE run AS SELECT i % 7 AS query, {score} AS score FROM range({rows}) t(i)"
    )
    con.execute("CREATE TABLE qrels AS SELECT DISTINCT query, 1 AS rel FROM run")

    def found(most_rows=10**9):
        return judged_ranks.suit_lists(Runner(con), most_rows, "query", "WHERE rel > 0")

    assert found() == suits
    assert not found(most_rows=judged_ranks.MANY_ROWS - 1)
    con.execute(
        f"INSERT INTO qrels SELECT 3, i % 2 FROM range({2 * judged_ranks.MANY_JUDGED}) t(i)"
    )
    assert not found()  # more than so many for one query
    con.execute("UPDATE qrels SET rel = 0 WHERE query = 3")
    assert found() == suits


@pytest.mark.parametrize(
    ("lengths", "aggregate"),
    [
        ([100] * 40, "max(score, 100)"),
        ([100] * 20 + [20] * 40, "max(score, 100)"),
        ([100] * 2 + [20] * 40, "list_sort("),
        ([1], "max(score, 1)"),
        ([0, 0], "list_sort("),
    ],
)
def test_room_for_the_longest_ranking(lengths, aggregate):
    """Not if one ranking is much longer than most: memory would be for as many scores of each."""
    con = duckdb.connect()
    con.execute("CREATE TABLE run (query INT, score DOUBLE)")
    for query, length in enumerate(lengths):
        con.execute(f"INSERT INTO run SELECT {query}, i FROM range({length}) t(i)")
        con.execute(f"INSERT INTO run VALUES ({query}, NULL)")
    scores = judged_ranks.sorted_scores(Runner(con), "query")
    assert scores.startswith(aggregate)
    assert con.execute(f"SELECT {scores} FROM run WHERE query = 0").fetchall() == [
        ([*map(float, reversed(range(lengths[0])))] or None,)
    ]


@pytest.mark.parametrize("longest", [0, 3])
def test_nan(monkeypatch, longest):
    """In a judged query, and in one that is not."""
    monkeypatch.setattr(judged_ranks, "LONGEST", longest)
    run, qrels = rankings(1, [*range(1000)])
    for query in (0, 10):
        nan = run.with_columns(
            pl.when(pl.col("query") == query).then(float("nan")).otherwise("score").alias("score")
        )
        with pytest.raises(rankql.RankqlError, match=r"^run: score must be a number, not nan"):
            evaluated(monkeypatch, True, nan, qrels, "AP", system="system")


def test_large_run():
    """Half a million rows, some of them tied, as they come."""
    run = pl.DataFrame({"i": range(600_000)}).select(
        query=pl.col("i") // 600,
        item=pl.col("i") % 600,
        score=pl.when(pl.col("i") % 50 == 1).then(pl.col("i") - 1).otherwise("i") * 1.0,
    )
    qrels = run.filter(pl.col("item") % 7 == 1).select("query", "item", rel=pl.col("item") % 4)
    result = rankql.evaluate(run, qrels, ["AP", "RR"], interval=None)
    assert "list_position" in result.sql
    small = rankql.evaluate(
        run.filter(pl.col("query") < 300), qrels, ["AP", "RR"], missing="skip", interval=None
    )
    assert "list_position" not in small.sql
    assert_frame_equal(result.per_query.head(300), small.per_query.head(300), rel_tol=1e-12)
