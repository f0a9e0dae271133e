"""Every plan gives the values of the readable one: a window, and one macro per metric."""

import pickle
import random

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql.evaluation import plan as plans
from rankql.evaluation.resolve import Facts
from support.parameters import cycled, slow_except
from support.plans import LargeFacts, evaluate_plan

# Many ties, infinite scores, zeros of both signs, and items without a score; or few ties.
TIED = [0.0, -0.0, 1.0, 2.0, 0.5, 1e300, float("inf"), float("-inf"), None]
SCORES = [TIED, [1.0], [*range(1000)], [None, 1.0, 2.0], [0.0, -0.0]]


def run_and_judgments(seed, scores):
    """Runs of two systems and judgments: items of either alone, queries of either alone."""
    rng = random.Random(seed)
    run = [
        (system, query, f"d{i}", rng.choice(scores))
        for system in "AB"
        for query in range(25)
        for i in rng.sample(range(40), rng.randint(0, 30))
    ]
    qrels = [
        (query, f"d{i}", rng.choice([None, 0, 0, 1, 2, 3]), query % 3)
        for query in range(2, 28)
        for i in rng.sample(range(50), 20)
    ]
    return (
        pl.DataFrame(run, ["system", "query", "item", "score"], orient="row"),
        pl.DataFrame(qrels, ["query", "item", "rel", "part"], orient="row"),
    )


def ranked_table(seed, highest, scores):
    """Rankings of 0 to 60 items with grades and scores; some are unjudged, some have no gain."""
    rng = random.Random(f"{seed} {highest}")
    rows = [
        (system, f"q{name}", f"d{i}", rng.choice(grades), score, name % 3)
        for system in "AB"
        for name in range(25)
        for grades in [[*range(highest + 1), None, 0, 0] if name % 4 else [0, None]]
        for i, score in enumerate(rng.choices(scores, k=rng.choice([1, 5, 20, 60])))
    ]
    rng.shuffle(rows)
    columns = ["system", "query", "item", ("rel", pl.Int64), ("score", pl.Float64), "segment"]
    return pl.DataFrame(rows, columns, orient="row")


def one_system(table):
    return table.filter(system="A").drop("system")


def scored_once(table):
    """The table with a score of its own for every row."""
    return table.with_columns(score=pl.int_range(pl.len()).shuffle(seed=1).cast(pl.Float64))


def drop_scores(table):
    """The table; a third of the rows have no score."""
    return table.with_columns(pl.when(pl.col("score") % 3 > 0).then("score"))


def require_same_values(run, qrels, metrics, ranker, facts=LargeFacts, last=None, **options):
    """The ranker is chosen at first, `last` at the end, and the values are those of the window."""
    first, final, values = evaluate_plan(run, qrels, metrics, facts, **options)
    assert first.ranker == ranker and final.ranker == (last or ranker)
    _, readable, expected = evaluate_plan(run, qrels, metrics, Facts, packs=False, **options)
    assert readable == readable.readable
    assert_frame_equal(values, expected, abs_tol=1e-12, rel_tol=1e-12)
    return values


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["item", "order"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("ranker", "metrics"),
    [
        ("judged", ["AP", "nDCG", "nDCG@1000", "RR"]),
        ("judged", ["Bpref", "Rprec", "AP(denominator=R)"]),
        ("judged", ["AP", "RR@10", "ERR@5", "P@5", "nDCG@10", "nDCG(gain=exp2)@3", "microF1@2"]),
        ("top", ["nDCG@10", "AP@3"]),
        ("top", ["nDCG(base=3)@5", "P@5"]),
        ("top", ["RR@1"]),
        ("top", ["Judged@10"]),
    ],
)
def test_lists_of_scores_equal_the_window(ranker, metrics, seed, ties):
    """With ties within the first items and across the last, and rankings of few items."""
    run, qrels = run_and_judgments(seed, SCORES[seed])
    require_same_values(run, qrels, metrics, ranker, ties=ties, system="system", by="part")


@pytest.mark.parametrize("options", [{}, {"undefined": "drop", "missing": "skip"}, {"threshold": 2},
                                     {"conventions": "trec_eval"}])  # fmt: skip
def test_lists_of_all_scores_follow_conventions(options):
    run, qrels = run_and_judgments(3, TIED)
    require_same_values(one_system(run), qrels, ["AP", "Success", "R"], "judged", **options)
    fractions = qrels.with_columns(pl.col("rel") / 2)
    require_same_values(one_system(run), fractions, ["AP"], "judged", **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"ties": "expected"}, {"ties": "expected", "missing": "skip"},
                                     {"ties": "expected", "undefined": "drop"}])  # fmt: skip
@pytest.mark.parametrize("factor", [1, 0.5])
def test_without_ties_all_orders_are_one(options, factor):
    run, qrels = run_and_judgments(1, [0.0])
    qrels = qrels.with_columns(pl.col("rel") * factor)
    metrics = ["nDCG@10", "nDCG(gain=exp2)@3", "IDCG@20", "DCG@5", "P@5", "RR@7", "AP@9"]
    options = options | {"system": "system"}
    untied = run.with_columns(score=pl.int_range(pl.len()).over("system", "query"))
    require_same_values(untied, qrels, metrics, "untied", **options)
    require_same_values(drop_scores(untied), qrels, metrics, "untied", **options)
    first_are_tied = untied.with_columns(pl.col("score") // 2)
    require_same_values(first_are_tied, qrels, metrics, "untied", last="rows", **options)


@pytest.mark.parametrize("seed", slow_except(range(3), 0))
@pytest.mark.parametrize("ties", ["item", "order", "best", "worst"])
@pytest.mark.parametrize(
    ("highest", "metrics"),
    [
        (1, ["nDCG@10", "AP@20", "RR@7", "P@10", "R@10", "F1@5"]),
        (3, ["nDCG@10,20", "nDCG(gain=exp2)@5", "IDCG@5", "ERR@10", "RBP(p=0.8)@20"]),
        (5, ["nDCG@1,12", "DCG@3", "CG@5", "Success@2", "ARHR@15"]),
    ],
)
def test_lists_of_the_best_items_equal_the_window(seed, ties, highest, metrics):
    table = ranked_table(seed, highest, TIED if seed else [*range(300), None])
    require_same_values(table, None, metrics, "best", ties=ties, system="system", by="segment")


@pytest.mark.parametrize(("highest", "k"), cycled([1, 3, 5] * 2, [-1, 0]))
def test_lists_hold_as_many_grades_as_can_be_packed(highest, k):
    k += {1: 90, 3: 30, 5: 22}[highest]
    table = ranked_table(7, highest, TIED)
    require_same_values(table, None, f"nDCG@{k}", "best", system="system")
    full = [("q", f"d{i}", highest, float(i)) for i in range(120)]
    table = pl.DataFrame(full, ["query", "item", "rel", "score"], orient="row")
    assert require_same_values(table, None, f"nDCG@{k}", "best")[f"nDCG@{k}"].to_list() == [1]


def test_lists_of_the_best_items_expect_no_ties():
    table, options = scored_once(ranked_table(1, 3, [0.0])), {"ties": "expected"}
    options |= {"system": "system", "conventions": "sklearn", "ideal": "judged"}
    metrics = ["nDCG@10,20", "nDCG(gain=exp2)@5", "IDCG@5", "P@10", "AP@9", "RR@7", "F1@5"]
    require_same_values(table, None, metrics, "best", **options)
    place = pl.col("score").rank(descending=True).over("system", "query")
    for tied_from, last in ((21, "best"), (20, "rows")):
        tied = table.with_columns(score=pl.when(place >= tied_from).then(-1.0).otherwise("score"))
        require_same_values(tied, None, ["nDCG@20", "P@5"], "best", last=last, **options)


TABLES = {
    "ranked": (ranked_table(2, 3, TIED), None),
    "joined": run_and_judgments(1, [*range(1000)]),
}


@pytest.mark.parametrize(
    ("tables", "metrics", "options"),
    [
        ("ranked", ["nDCG@10", "AP"], {}),
        ("ranked", ["nDCG@10", "microP@5"], {}),
        ("ranked", {"own": "count(score)", "second": "ndcg(rel, pos, 10)"}, {}),
        ("ranked", ["nDCG@10"], {"unjudged": "remove"}),
        ("ranked", ["nDCG@10"], {"ideal": "retrieved"}),
        ("joined", "RMSE", {}),
        ("joined", {"own": "sum(score)"}, {}),
    ],
)
def test_other_metrics_and_conventions_take_a_window(tables, metrics, options):
    run, qrels = TABLES[tables]
    require_same_values(one_system(run), qrels, metrics, "rows", **options)


def test_more_items_than_can_be_counted_take_macros():
    items = pl.select(query=1, item=pl.int_range(70_000), rel=3, score=pl.int_range(70_000) * 1.0)
    first, last, values = evaluate_plan(items, None, "nDCG@10", LargeFacts)
    assert (first.ranker, first.scale, last.scale) == ("best", 3, 0)
    assert values["nDCG@10"].to_list() == [1]
    assert rankql.evaluate(items, None, "nDCG@10", interval=None)["nDCG@10"] == 1


STEPS = ["items", "best", "tied", "tops", "least", "cuts", "sums"]


@pytest.mark.parametrize("name", slow_except(STEPS, "items", "sums"))
def test_columns_may_be_called_like_steps(name):
    table = one_system(ranked_table(2, 3, TIED)).rename({"query": name})
    table = table.with_columns(tied_cuts=pl.col("segment"))
    require_same_values(table, None, "nDCG@10", "best", query=name, by="tied_cuts")


@pytest.mark.parametrize("ranker", ["judged", "untied", "best"])
def test_user_settings_change_nothing(ranker):
    con = duckdb.connect()
    con.execute("SET default_order = 'DESC'; SET default_null_order = 'NULLS FIRST'")
    run, qrels = run_and_judgments(1, TIED)
    frames = {"run": scored_once(one_system(run)), "qrels": qrels}
    frames["t"] = scored_once(one_system(ranked_table(3, 3, TIED)))
    for name, frame in frames.items():
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE TABLE {name} AS FROM frame").fetchall()
    run, qrels = ("t", None) if ranker == "best" else ("run", "qrels")
    metric, ties = ("AP", "item") if ranker == "judged" else ("nDCG@10", "expected")
    require_same_values(run, qrels, metric, ranker, con=con, ties=ties)


FROM = plans.JUDGED_LISTS_FROM_ROWS
MANY = "i // 1000"
EXPECTED = {"metrics": "nDCG@10", "ties": "expected"}
BEST = {"metrics": "nDCG@10", "judged": 0}


@pytest.mark.parametrize(
    ("ranker", "rows", "options"),
    [
        ("judged", FROM, {}),
        ("rows", FROM // 2, {}),
        ("rows", FROM, {"score": "i // 14"}),  # too many ties
        ("rows", FROM, {"query": MANY, "judged": plans.MAX_JUDGED_ITEMS + 1}),
        ("judged", FROM, {"query": MANY, "judged": plans.MAX_JUDGED_ITEMS}),
        ("untied", 100_000, EXPECTED),
        ("rows", 90_000, EXPECTED),
        ("rows", 100_000, EXPECTED | {"score": "i // 2"}),
        ("untied", 100_000, EXPECTED | {"score": "greatest(i % 100, 50)"}),
        ("rows", 100_000, EXPECTED | {"score": "least(i % 100, 98)"}),
        ("best", 50_000, BEST | {"query": "i // 50"}),
        ("rows", 49_999, BEST | {"query": "i // 50"}),
        ("best", 60_000, BEST | {"query": "i"}),
        ("rows", 60_000, BEST | {"query": "i", "limit": "500MB"}),
        ("best", 60_000, BEST | {"query": "i // 600", "limit": "500MB"}),
    ],
)
def test_ranker_depends_on_rows_ties_and_memory(ranker, rows, options):
    """Of a table of a database with so many rows."""
    options = {"score": "i", "query": "i // 100", "metrics": "AP", "judged": 1, **options}
    query, score, judged = (options.pop(name) for name in ("query", "score", "judged"))
    con = duckdb.connect(config={"memory_limit": options.pop("limit", "8GB")})
    con.execute(f"""CREATE TABLE run AS
        SELECT {query} AS query, i AS item, 1 AS rel, {score} AS score FROM range({rows}) t(i);
        CREATE TABLE qrels AS SELECT query, item, 1 AS rel FROM run
        QUALIFY row_number() OVER (PARTITION BY query) <= {judged}""")
    plan, _, _ = evaluate_plan("run", "qrels" if judged else None, con=con, **options)
    assert plan.ranker == ranker


def test_each_step_can_be_printed_and_run():
    run, qrels = run_and_judgments(1, [*range(1000)])
    run = one_system(run)
    result = rankql.evaluate(run, qrels, "nDCG@10", interval=None)
    names = [*result.steps]
    assert names == ["run", "qrels", "cuts", "top", "queries", "ranked", "values"]
    top = result.steps.run("top")
    assert top.columns == ["query", "item", "score", "pos"] and top["pos"].max() == 10
    assert result.steps["top"].endswith("FROM top") and "ndcg" not in result.steps["top"]
    assert result.steps["values"] == result.sql
    moved = pickle.loads(pickle.dumps(rankql.evaluate(run, qrels, "AP", con=duckdb.connect())))
    with pytest.raises(rankql.RankqlError, match="another process"):
        moved.steps.run("ranked")
    difference = result.steps.run("values")["nDCG@10"] - result.per_query["nDCG@10"]
    assert difference.abs().max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["item", "order", "expected"])
@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_ideal_of_retrieved_items_is_that_of_grades_without_the_others(ties, missing):
    run, qrels = run_and_judgments(1, [0.0])
    run = scored_once(run)
    metrics = ["nDCG@10", "nDCG(gain=exp2)@3", "IDCG@20"]
    options = {"conventions": "sklearn", "ties": ties, "missing": missing, "system": "system"}
    ranker = "untied" if ties == "expected" else "top"
    for some in (run, drop_scores(run)):
        require_same_values(some, qrels, metrics, ranker, **options)
        plan, _, _ = evaluate_plan(some, qrels, metrics, LargeFacts, **options)
        assert plan.zeroes and plan.scale
    table = scored_once(ranked_table(1, 3, [0.0]))
    require_same_values(table, None, metrics, "best", **options)
    require_same_values(drop_scores(table), None, metrics, "rows", **options)


@pytest.mark.parametrize(
    ("rows", "key", "metrics", "indexed"),
    [
        (100_000, "i // 100", "nDCG@10", True),
        (99_000, "i // 100", "nDCG@10", False),
        (100_000, "'q' || i // 100", "nDCG@10", False),
        (100_000, "i // 100", ["nDCG@10", "AP"], False),
    ],
)
def test_integer_keys_of_many_rows_are_indexed(rows, key, metrics, indexed):
    con = duckdb.connect()
    con.execute(f"""CREATE TABLE t AS SELECT {key} AS query, i % 3 AS rel, i % 100 + 1 AS pos
        FROM range({rows}) t(i)""")
    plan, _, values = evaluate_plan("t", None, metrics, con=con)
    assert plan.indexes_keys == indexed
    expected = evaluate_plan("t", None, metrics, packs=False, con=con)[2]
    assert_frame_equal(values, expected, abs_tol=1e-12, rel_tol=1e-12)
    assert con.execute("SELECT current_setting('perfect_ht_threshold')").fetchall() == [(12,)]
