"""What each item contributes and costs: by hand, against evaluate, and on data of all kinds."""

import json
from fractions import Fraction
from itertools import pairwise
from math import fsum, log2
from random import Random

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankql
from rankql import RankqlError
from rankql.diagnostics.contributions import EXPLAINED
from rankql.diagnostics.explain import explain

WORTH = ["contribution", "ideal_contribution", "loss"]
NEAR = 1e-12


def near(got, want):
    return abs(got - want) <= NEAR * max(1, abs(want))


def ranking(items, query="q"):
    """A run by score, its items best first."""
    scores = [float(n) for n in range(len(items), 0, -1)]
    return pl.DataFrame({"query": [query] * len(items), "item": list(items), "score": scores})


def judgments(grades, query="q"):
    return pl.DataFrame(
        {"query": [query] * len(grades), "item": [*grades], "rel": [*grades.values()]}
    )


def matched_elsewhere(run, qrels):
    """The same with another query, of which an item is found: no item in common is an error."""
    return (
        pl.concat([run, ranking("z", "other")]),
        pl.concat([qrels, judgments({"z": 1}, "other")]),
    )


def by_item(explained, column):
    rows = explained.positions.drop_nulls("item")
    return dict(rows.select("item", column).rows())


# By hand: d and e are relevant, c is worth 3 and not retrieved, x is unjudged.
RUN = ranking("xedan")
QRELS = judgments({"a": 0, "c": 3, "d": 2, "e": 1})
BY_HALVES = {"discounts": [1, 2, 4, 8, 16]}


def test_ndcg_by_hand():
    """Discounts 1, 2, 4: DCG = 1/2 + 2/4 = 1, IDCG = 3 + 2/2 + 1/4 = 17/4."""
    result = explain(RUN, QRELS, "q", "nDCG@3", **BY_HALVES)
    assert near(result.value, Fraction(4, 17)) and near(result.ideal, 1)
    rows = result.positions.select("pos", "item", "rel", "gain", "discount", "ideal_pos").rows()
    assert rows == [
        (1, "x", None, 0, 1, None),
        (2, "e", 1, 1, 2, 3),
        (3, "d", 2, 2, 4, 2),
        (None, "c", 3, 3, None, 1),
    ]
    beside = result.positions.select("ideal_item", "ideal_rel").rows()
    assert beside == [("c", 3), ("d", 2), ("e", 1), (None, None)]
    # e stands too high by (1/2 - 1/4) of 17/4: others pay for it.
    losses = {"x": 0, "e": Fraction(-1, 17), "d": Fraction(2, 17), "c": Fraction(12, 17)}
    assert by_item(result, "loss").keys() == losses.keys()
    assert all(near(loss, losses[item]) for item, loss in by_item(result, "loss").items())
    contributions = {"x": 0, "e": Fraction(2, 17), "d": Fraction(2, 17), "c": 0}
    for item, contribution in by_item(result, "contribution").items():
        assert near(contribution, contributions[item])
    ideals = [Fraction(12, 17), Fraction(4, 17), Fraction(1, 17)]
    for got, want in zip(result.positions["ideal_contribution"], ideals, strict=False):
        assert near(got, want)


@pytest.mark.parametrize(
    ("metric", "value", "ideal", "losses"),
    [
        # Precisions 1/2 and 2/3, of three.
        ("AP", "7/18", "1", {"e": "1/6", "d": "1/9", "c": "1/3"}),
        ("AP(denominator=found)", "7/12", "1", {"e": "1/12", "d": "0", "c": "1/3"}),
        ("AP@2", "1/4", "1", {"e": "1/4", "d": "1/2"}),
        ("AP(denominator=k)@4", "7/24", "3/4", {"e": "1/8", "d": "1/12", "c": "1/4"}),
        ("RR", "1/2", "1", {"e": "1/2", "d": "0", "c": "0"}),
        ("RR@1", "0", "1", {"e": "1"}),
        ("Success@1", "0", "1", {"e": "1"}),
        ("Success@2", "1", "1", {"e": "0", "d": "0"}),
        ("P@2", "1/2", "1", {"e": "0", "d": "1/2"}),
        ("P", "2/5", "3/5", {"e": "0", "d": "0", "c": "1/5"}),
        ("P@10", "1/5", "3/10", {"e": "0", "d": "0", "c": "1/10"}),
        ("P(denominator=retrieved)@10", "2/5", "3/5", {"e": "0", "d": "0", "c": "1/5"}),
        ("P(denominator=min)@10", "2/3", "1", {"e": "0", "d": "0", "c": "1/3"}),
        ("R@2", "1/3", "2/3", {"e": "0", "d": "1/3"}),
        ("R", "2/3", "1", {"e": "0", "d": "0", "c": "1/3"}),
        ("F1@2", "2/5", "4/5", {"e": "0", "d": "2/5"}),
        ("Rprec", "2/3", "1", {"e": "0", "d": "0", "c": "1/3"}),
        ("ARHR", "5/6", "11/6", {"e": "1/2", "d": "1/6", "c": "1/3"}),
        ("CG@2", "1", "5", {"e": "-1", "d": "2", "c": "3"}),
        ("RBP(p=0.5)", "3/8", "7/8", {"e": "1/4", "d": "1/8", "c": "1/8"}),
        ("Judged@3", "2/3", "1", {"e": "0", "d": "0", "a": "1/3"}),
        # Stops 1/8, 3/8, 7/8: 1/8 * 1/2 + 7/8 * 3/8 / 3; ideal 7/8 + 3/128 + 5/64 * 1/8 / 3.
        ("ERR", "11/64", "1385/1536", {"e": "-91/1536", "d": "-11/128", "c": "7/8"}),
    ],
)  # fmt: skip
def test_losses_by_hand(metric, value, ideal, losses):
    result = explain(RUN, QRELS, "q", metric)
    assert near(result.value, Fraction(value)) and near(result.ideal, Fraction(ideal))
    got = by_item(result, "loss")
    for item, loss in losses.items():
        assert near(got[item], Fraction(loss)), item
    assert all(loss == 0 for item, loss in got.items() if item not in losses)


def test_dcg_of_another_base():
    result = explain(RUN, QRELS, "q", "DCG(base=4)@3")
    assert near(result.value, 2 * (1 / log2(3) + 2 / log2(4)))
    assert near(result.ideal, 2 * (3 + 2 / log2(3) + 1 / 2))


def test_nobody_is_blamed_for_a_swap_of_equals():
    run, qrels = ranking("abcdef"), judgments({"a": 1, "c": 2, "d": 2, "e": 1, "f": 1, "u": 1})
    result = explain(run, qrels, "q", "nDCG@3")
    assert by_item(result, "ideal_pos") == {"c": 1, "d": 2, "a": 3, "b": None}
    # The same rows in another order, and names that sort the other way.
    names = dict(zip("abcdefu", "utsrqpa", strict=True))
    turned = explain(
        run.with_columns(pl.col("item").replace(names)).reverse(),
        qrels.with_columns(pl.col("item").replace(names)).reverse(),
        "q",
        "nDCG@3",
    )
    assert turned.positions["loss"].to_list() == result.positions["loss"].to_list()
    # Two equals at the first two positions, of which the second is the better one.
    swapped = explain(ranking("ab"), judgments({"a": 1, "b": 1}), "q", "nDCG", discounts=[2, 1])
    assert by_item(swapped, "loss") == {"a": 0, "b": 0}
    assert by_item(swapped, "ideal_pos") == {"a": 1, "b": 2}


def test_not_retrieved_equals_are_ordered_by_item():
    run, qrels = matched_elsewhere(ranking("x"), judgments({"a": 1, "é": 1, "b": 1}))
    result = explain(run, qrels, "q", "nDCG@2")
    assert by_item(result, "ideal_pos") == {"x": None, "é": 1, "b": 2}


def test_beyond_the_cutoff():
    """An item that belongs in the ideal top is shown where it stands, one that does not is not."""
    result = explain(ranking("abcd"), judgments({"c": 1, "d": 1, "b": 0, "z": 0}), "q", "nDCG@1")
    rows = result.positions.select("pos", "item", "contribution", "loss").rows()
    assert rows == [(1, "a", 0, 0), (3, "c", 0, 1)]


def test_the_ideal_is_longer_than_the_run():
    run, qrels = matched_elsewhere(ranking("a"), judgments({"b": 2, "c": 1}))
    result = explain(run, qrels, "q", "nDCG@10")
    assert result.positions.select("pos", "item", "ideal_item").rows() == [
        (1, "a", "b"), (2, None, "c"), (None, "b", None), (None, "c", None),
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["P", "P(denominator=retrieved)@9", "AP(denominator=k)"])
def test_the_ideal_has_room_for_what_was_shown(metric):
    """Two were shown, three are relevant: the ideal shows two of these."""
    result = explain(ranking("xa"), judgments({"a": 1, "b": 1, "c": 1}), "q", metric)
    assert near(result.ideal, 1) and by_item(result, "ideal_pos") == {"x": None, "a": 1, "c": 2}


def test_negative_grades_cost():
    qrels = judgments({"a": -1, "b": 2})
    assert by_item(explain(ranking("ab"), qrels, "q", "nDCG"), "loss")["a"] == 0
    kept = explain(ranking("ab"), qrels, "q", "nDCG", negative="keep")
    assert by_item(kept, "loss")["a"] == 0.5 and near(kept.value, 1 / log2(3) - 0.5)
    assert by_item(explain(ranking("ab"), qrels, "q", "DCG"), "loss")["a"] == 1


METRICS = [
    "nDCG", "nDCG@3", "nDCG(gain=exp2)@4", "nDCG(gain=binary)@5", "nDCG(base=10)@2",
    "nDCG(ideal=retrieved)@3", "nDCG(ideal=retrieved)", "nDCG(negative=keep)@3", "ndcg_cut_5",
    "DCG", "DCG@3", "DCG(gain=exp2)@4", "DCG(base=3)", "CG", "CG@3", "CG(gain=binary)@3",
    "AP", "AP@3", "AP(denominator=R)@3", "AP(denominator=found)@3", "AP(denominator=found)",
    "AP(denominator=k)@3", "AP(denominator=k)", "AP(rel=2)@4", "AP(rel=0)", "map_cut_3",
    "RR", "RR@2", "RR(rel=2)", "recip_rank", "ARHR", "ARHR@3", "P", "P@3", "P@20", "P(rel=2)@3",
    "P(denominator=retrieved)@20", "P(denominator=retrieved)@2", "P(denominator=min)@3",
    "P(denominator=min)", "R", "R@3", "R(rel=2)@3", "F1", "F1@3", "F1@20", "Success", "Success@2",
    "Rprec", "Rprec(rel=2)", "Judged", "Judged@3", "ERR", "ERR@3", "ERR(p=0.8)@4",
    "ERR(max_rel=5)", "RBP(p=0.8)", "RBP(p=0.5)@3", "RBP(p=0.8, max_rel=4)", "RBP(p=0.8, rel=2)",
]  # fmt: skip
OPTIONS = [
    {},
    {"negative": "keep"},
    {"negative": "unjudged"},
    {"ideal": "retrieved"},
    {"unjudged": "remove"},
    {"threshold": 2},
    {"gain": "exp2"},
    {"gain": {-1: 0, 0: 0, 0.5: 1, 1: 2, 2: 3, 3: 10}},
    {"discounts": [1.5, 1, 1, 3, 2.5, 0.75] + [4] * 40},
    {"discounts": [1.5, 1, 1, 3, 2.5, 0.75] + [4] * 40, "ideal": "retrieved", "unjudged": "remove"},
    {"undefined": "drop", "threshold": 2},
    {"ties": "order"},
    {"conventions": "trec_eval"},
    {"conventions": "ranx"},
    {"conventions": "recbole"},
]


def drawn(seed, queries=12, places="score"):
    """Runs with ties, gaps, unjudged and not retrieved items, and queries on one side only."""
    random = Random(seed)
    run, qrels = [], []
    for query in range(queries):
        items = random.sample(range(40), random.randint(0, 14))
        if query % 7 != 3:
            spots = random.sample(range(1, 30), len(items))
            for item, spot in zip(items, spots, strict=True):
                place = float(random.randint(0, 6)) if places == "score" else spot
                run.append((query, f"i{item}", place))
        if query % 7 != 5:
            grades = random.choice([[-1, 0, 0.5, 1, 2, 3], [0, 1], [0], [1, 2, 3]])
            pool = random.sample(items, len(items) // 2)
            pool += random.sample(range(40, 60), random.randint(0, 4))
            qrels += [(query, f"i{item}", float(random.choice(grades))) for item in pool]
    # One item of the run is always judged: none would be an error.
    run.append((99, "i0", 1 if places == "pos" else 1.0))
    qrels.append((99, "i0", 1.0))
    random.shuffle(run)
    schema = ["query", "item"]
    return (
        pl.DataFrame(run, [*schema, places], orient="row"),
        pl.DataFrame(qrels, [*schema, "rel"], orient="row"),
    )


def same(got, want):
    """The same values of the same queries. (Two runs of one query may add up in another order.)"""
    assert got.keys() == want.keys()
    for query, value in want.items():
        assert (got[query] is None) == (value is None)
        assert value is None or near(got[query], float(value))


def random_bit(*seed):
    return Random(repr(seed)).random() < 0.5


def evaluated(*args, **options):
    result = rankql.evaluate(*args, interval=None, **options)
    return dict(result.per_query.select("query", result.metrics[0]).rows()), result


def check_one(result):
    """The contributions and losses of a query add up."""
    rows = result.positions
    if result.value is None:
        assert result.ideal is None and all(rows[name].null_count() == len(rows) for name in WORTH)
        return
    assert near(fsum(rows["contribution"].drop_nulls()), result.value)
    assert near(fsum(rows["ideal_contribution"].drop_nulls()), result.ideal)
    assert near(fsum(rows["loss"].drop_nulls()), result.ideal - result.value)
    if result.metric.startswith("nDCG"):
        assert near(result.ideal, 1)
    elif not result.metric.startswith(("DCG", "CG", "ARHR")):
        assert result.ideal <= 1 + NEAR
    for row in rows.drop_nulls("item").to_dicts():
        assert row["gain"] > 0 or row["loss"] == -row["contribution"]
        divided = row["contribution"] if row["contribution"] else 0
        if "weight" in row and row["weight"] is not None:
            assert near(divided, row["gain"] * row["weight"])


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_values_equal_evaluate_and_losses_add_up(metric):
    """Every query, and the whole run, under some of the options: all of them over the metrics."""
    step = 12 if metric.startswith("nDCG") else 20
    for seed in range(METRICS.index(metric) % step, len(OPTIONS), step):
        options = OPTIONS[seed]
        run, qrels = drawn(f"{metric}{seed}", 4, "score" if random_bit(metric, seed) else "pos")
        values, result = evaluated(run, qrels, metric, **options)
        whole = explain(run, qrels, metric=metric, **options)
        name = result.metrics[0]
        assert whole.metric == name
        if result.conventions["missing"] == "skip":
            values = {query: value for query, value in values.items() if query in set(run["query"])}
        same(dict(whole.queries["query", "value"].rows()), values)
        mean = result[name]
        assert (whole.value is None) == (mean is None) and (mean is None or near(whole.value, mean))
        costs = {}
        for query, _, ideal, loss in whole.queries.rows():
            results = explain(run, qrels, query, metric, **options)
            check_one(results)
            assert results.query == query and (results.value is None) == (values[query] is None)
            if values[query] is None:
                assert ideal is None and loss is None
                continue
            assert near(results.value, float(values[query])) and near(results.ideal, ideal)
            for item, cost in by_item(results, "loss").items():
                costs.setdefault(item, []).append(cost)
        costs = {item: [cost for cost in each if abs(cost) > NEAR] for item, each in costs.items()}
        items = {item: (queries, loss) for item, queries, loss in whole.items.rows()}
        assert items.keys() == {item for item, each in costs.items() if each}
        for item, (queries, loss) in items.items():
            assert queries == len(costs[item]) and near(loss, fsum(costs[item]))
        total = fsum(whole.queries["loss"].drop_nulls())
        assert abs(total - fsum(whole.items["loss"])) < 1e-10


IDEALS = [
    "nDCG", "nDCG@3", "DCG@3", "CG@3", "AP", "AP@3", "AP(denominator=R)@3", "RR@2", "ARHR@3", "P@3",
    "R@3", "F1@3", "Success@2", "Rprec", "ERR", "ERR(p=0.8)@4", "RBP(p=0.5)@3",
    "RBP(p=0.8, max_rel=4)", "AP(denominator=k)@3", "P(denominator=min)@3",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("metric", IDEALS)
def test_the_ideal_is_what_evaluate_makes_of_the_best_order(metric):
    """Judged items without gain stand last: where k is left out, they would not change it."""
    for seed in range(2):
        run, qrels = drawn(f"ideal {metric}{seed}")
        best = qrels.rename({"rel": "score"}).filter(pl.col("score") > 0)
        if best.is_empty():
            continue
        values, _ = evaluated(best, qrels, metric)
        for query, value, ideal in (
            explain(run, qrels, metric=metric).queries["query", "value", "ideal"].rows()
        ):
            assert (ideal is None) == (value is None)
            assert ideal is None or near(ideal, values[query])


def test_losses_of_ndcg_by_definition():
    """Once more in plain Python: the gain over the discount of the rank, before and after."""
    run, qrels = drawn("definition", 30)
    for query in qrels["query"].unique():
        result = explain(run, qrels, query, "nDCG@5")
        grades = dict(qrels.filter(pl.col("query") == query).select("item", "rel").rows())
        shown = run.filter(pl.col("query") == query).rows()
        shown = [item for _, item, _ in sorted(shown, key=lambda r: (r[2], r[1].encode()))][::-1]
        good = sorted((i for i, rel in grades.items() if rel > 0), reverse=True)
        good.sort(key=lambda i: (-grades[i], shown.index(i) if i in shown else 99))
        if not good:
            assert result.value is None
            continue
        ideal = fsum(grades[i] / log2(n + 2) for n, i in enumerate(good[:5]))
        for item, loss in by_item(result, "loss").items():
            want = grades.get(item, 0) / log2(good.index(item) + 2) if item in good[:5] else 0
            if item in shown[:5]:
                want -= max(grades.get(item, 0), 0) / log2(shown.index(item) + 2)
            assert near(loss, want / ideal)


def test_every_metric_is_tried():
    assert {m.split("(")[0].split("@")[0] for m in METRICS} >= set(EXPLAINED)


def test_values_are_floats():
    gain = {-1: 0, 0: 0, 0.5: 1, 1: 2, 2: 3, 3: 10}
    whole = explain(*drawn("floats"), metric="CG@3", gain=gain)
    assert whole.queries.dtypes[1:] == [pl.Float64] * 3
    assert type(explain(*drawn("floats"), 1, "CG@3", gain=gain).value) is float


def test_sorted_by_loss():
    whole = explain(*drawn("sorted", 40), metric="AP", worst=3)
    for frame in (whole.queries, whole.items):
        losses = frame["loss"].drop_nulls().to_list()
        assert len(losses) > 3 and all(a >= b for a, b in pairwise(losses))
    assert whole.queries["loss"][:3].null_count() == 0
    assert len(whole.to_dict()["items"]) == 3 and len(whole.items) > 3
    assert whole.table.equals(whole.queries.head(3))


@pytest.mark.parametrize("as_column", [False, True])
def test_several_systems(as_column):
    (one, qrels), (two, _) = drawn(1), drawn(2)
    runs, options = {"one": one, "o'two": two}, {}
    if as_column:
        runs = pl.concat([run.with_columns(engine=pl.lit(name)) for name, run in runs.items()])
        options = {"system": "engine"}
    whole = explain(runs, qrels, metric="AP", **options)
    assert whole.queries.columns == ["system", "query", "value", "ideal", "loss"]
    assert whole.items.columns == ["system", "item", "queries", "loss"]
    assert whole.value is None and "of o'two add up to" in repr(whole)
    for name, run in (("one", one), ("o'two", two)):
        alone = explain(run, qrels, metric="AP")
        mine = whole.queries.filter(pl.col("system") == name).drop("system")
        assert mine.rows() == alone.queries.rows()
        costs = whole.items.filter(pl.col("system") == name).drop("system")
        assert costs["item"].to_list() == alone.items["item"].to_list()
        chosen = explain(runs, qrels, metric="AP", which=name, **options)
        assert chosen.queries.rows() == alone.queries.rows() and chosen.system == name
        single = explain(runs, qrels, 1, "AP", which=name, **options)
        assert_frame_equal(
            single.positions, explain(run, qrels, 1, "AP").positions, abs_tol=1e-12, rel_tol=0
        )
        assert f"{name}, query 1" in repr(single)
        # A query that this system lacks has the value that evaluate gives it.
        assert explain(runs, qrels, 3, "AP", which=name, **options).value in (0, None)
    with pytest.raises(RankqlError, match=r"There are 2 systems. Select one with which=: "):
        explain(runs, qrels, 1, "AP", **options)
    with pytest.raises(RankqlError, match=r"Unknown system 'on'. Did you mean 'one'"):
        explain(runs, qrels, 1, "AP", which="on", **options)


def test_one_system_needs_no_name():
    run, qrels = drawn(1)
    result = explain({"one": run}, qrels, 1, "AP")
    assert result.system == "one"
    alone = explain(run, qrels, 1, "AP").positions
    assert_frame_equal(result.positions, alone, abs_tol=1e-12, rel_tol=0)
    with pytest.raises(RankqlError, match="there is only one run"):
        explain(run, qrels, 1, "AP", which="one")


def test_a_ranked_table_with_grades():
    run, qrels = drawn("ranked", places="pos")
    table = run.join(qrels, on=["query", "item"], how="left")
    values, _ = evaluated(table, None, "nDCG(ideal=retrieved)@5")
    for query, value in values.items():
        result = explain(table, None, query, "nDCG(ideal=retrieved)@5")
        check_one(result)
        assert result.value == value
    assert (
        dict(explain(table, of=None).queries["query", "value"].rows())
        == evaluated(table, None, "nDCG@10")[0]
    )
    with pytest.raises(RankqlError, match="No item column in run"):
        explain(table.drop("item"), None, 1)
    with pytest.raises(RankqlError, match="Unknown query 98: run has no rows"):
        explain(table, None, 98)


def test_positions_that_are_not_dense_or_come_twice():
    run = pl.DataFrame({"query": "q", "item": list("abcd"), "pos": [2, 2, 5, 7]})
    result = explain(run, judgments({"a": 1, "d": 1, "z": 1}), "q", "nDCG@6")
    check_one(result)
    assert result.positions["pos"].to_list() == [1, 2, 2, 3, 5, 7, None]
    with pytest.raises(RankqlError, match="run has duplicates: query 'q', pos 2"):
        explain(run, judgments({"a": 1, "b": 1}), "q", "nDCG@6")


@pytest.mark.parametrize(
    ("query", "dtype"),
    [(17, pl.UInt8), ("q'17\"; --", pl.String), ("q'17", pl.Categorical), (2**62, pl.Int64),
     ("", pl.String), ("日本\n{x}{place}%s", pl.String)],
)  # fmt: skip
def test_ids_of_any_type(query, dtype):
    odd = ["x' OR 1=1", 'it"em', "{left}", "é\n<b>"]
    run = ranking(odd).with_columns(query=pl.Series([query] * 4, dtype=dtype))
    qrels = judgments({odd[1]: 1, odd[3]: 2}).with_columns(
        query=pl.Series([query] * 2, dtype=dtype)
    )
    for of in (query, str(query)):
        result = explain(run, qrels, of, "nDCG@2")
        assert result.query == query and result.positions["item"][:2].to_list() == odd[:2]
        check_one(result)
        assert_frame_equal(
            result.positions, explain(run, qrels, of, "nDCG@2").positions, abs_tol=1e-12, rel_tol=0
        )
        json.loads(result.to_json())
    for other in (18, "17.4", 17.4, "q17", "' OR 1=1 --", 2**62 + 1):
        with pytest.raises(RankqlError, match=r"Unknown query .*: qrels has no rows"):
            explain(run, qrels, other, "nDCG@2")


def test_ids_of_two_types():
    run = ranking("ab").with_columns(query=pl.lit(7))
    qrels = judgments({"b": 1}, "7")
    assert explain(run, qrels, 7, "RR").value == explain(run, qrels, "7", "RR").value == 0.5


def test_tables_of_any_name():
    # (Of qrels that are called run evaluate makes nothing: it reads the CTE run instead.)
    con = duckdb.connect()
    run, qrels = drawn("names")
    want = explain(run, qrels, 1, "AP@3").positions
    names = ["run", "qrels", "ranked", "gains", "explained", "ideals", "queries", "shown", "it's"]
    names += ["best", "places"]
    for name, other in pairwise(names):
        con.register("given_run", run)
        con.register("given_qrels", qrels)
        con.execute(f'CREATE OR REPLACE TABLE "{name}" AS FROM given_run')
        con.execute(f'CREATE OR REPLACE TABLE "{other}" AS FROM given_qrels')
        result = explain(name, other, 1, "AP@3", con=con)
        assert_frame_equal(result.positions, want, abs_tol=1e-12, rel_tol=0)
        assert explain(name, other, metric="AP@3", con=con).items.height


def test_nothing_is_left_on_the_connection():
    con = duckdb.connect()
    explain(*drawn("left"), 1, con=con)
    assert con.sql("SHOW ALL TABLES").fetchall() == []


def test_columns_named_by_keyword():
    run = ranking("ab").rename({"query": "such", "item": "that", "score": "how much"})
    qrels = judgments({"b": 1}).rename({"query": "so", "item": "this", "rel": "grade of"})
    result = explain(
        run, qrels, "q", "RR",
        query=("such", "so"), item=("that", "this"), score="how much", rel="grade of",
    )  # fmt: skip
    assert result.value == 0.5 and "query = such" in repr(result)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (("q", "Bpref"), {}, "not support Bpref, which is not a sum over positions. Use one of: "),
        (("q", "TauB"), {}, "not support TauB, which is not a sum"),
        (("q", "microP@5"), {}, "not support microP@5, which is not a sum"),
        (("q", "IDCG"), {}, "not support IDCG, which is not a sum"),
        (("q", "mine = sum(rel)"), {}, "not support mine, which is not a sum"),
        (("q", "nDCG@5,10"), {}, "explain takes one metric, not 2: nDCG@5, nDCG@10"),
        (("q", "nDGC"), {}, "Unknown metric 'nDGC'. Did you mean 'nDCG'"),
        (("q", "RBP"), {}, "p must be given"),
        (("q",), {"ties": "expected"}, "not support ties='expected'"),
        (("q",), {"ties": "worst"}, "ties='worst'"),
        (("q",), {"conventions": "sklearn"}, "ties='expected'"),
        (("q",), {"unjudged": "bounds"}, "unjudged='bounds', which has two values"),
        (("q",), {"gains": 3}, "Unknown option 'gains'. Did you mean 'gain'"),
        (("q",), {"worst": 0}, "worst must be a whole number from 1, not 0"),
        (("q",), {"worst": True}, "worst must be a whole number from 1, not True"),
        (
            ("q2",),
            {},
            "Unknown query 'q2': qrels has no rows for it. Others, the most similar first: q",
        ),
        (("only run",), {}, "Query 'only run' is not judged"),
        (("q",), {"discounts": [1, 2]}, "discounts has 2 entries, but position 3"),
        (("q",), {"gain": {0: 0, 1: 1, 2: 3}}, "gain has no entry for grade 3"),
    ],
)  # fmt: skip
def test_options_and_queries_are_refused(args, options, message):
    run = pl.concat([RUN, ranking("a", "only run")])
    with pytest.raises(RankqlError) as caught:
        explain(run, QRELS, *args, **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_what_evaluate_refuses():
    twice = pl.concat([QRELS, QRELS[:1]])
    with pytest.raises(RankqlError, match="qrels has duplicates: query 'q', item 'a'"):
        explain(RUN, twice, "q", "DCG")
    with pytest.raises(RankqlError, match="run has duplicates: query 'q', item 'e'"):
        explain(pl.concat([RUN, RUN[1:2]]), QRELS, "q")
    with pytest.raises(RankqlError, match="item is NULL in 1 of 5 rows"):
        explain(RUN.with_columns(pl.col("item").replace("x", None)), QRELS, "q")
    # Only the rows of the query are looked at.
    other = twice.with_columns(query=pl.lit("other"))
    assert explain(RUN, pl.concat([QRELS, other]), "q", "DCG").value > 0


def test_missing_and_undefined():
    qrels = pl.concat([QRELS, judgments({"z": 1}, "gone"), judgments({"x": 0}, "none")])
    run = pl.concat([RUN, ranking("xy", "none")])
    gone = explain(run, qrels, "gone")
    assert (gone.value, gone.ideal) == (0, 1) and by_item(gone, "loss") == {"z": 1}
    assert "Note: The run has no rows for query 'gone'." in repr(gone)
    none = explain(run, qrels, "none")
    check_one(none)
    assert none.value is None and "nDCG@10 is undefined" in repr(none)
    whole = explain(run, qrels)
    assert dict(whole.queries["query", "loss"].rows())["none"] is None
    for options in ({}, {"undefined": "zero"}, {"missing": "skip"}):
        whole = explain(run, qrels, **options)
        assert near(whole.value, evaluated(run, qrels, "nDCG@10", **options)[1]["nDCG@10"])
        # The losses of queries and of items add up to the mean loss.
        losses = whole.queries["loss"].drop_nulls()
        counted = len(losses) + ("undefined" in options)
        assert near(losses.sum() / counted, whole.ideal - whole.value)
        assert near(losses.sum(), whole.items["loss"].sum())
        assert ("gone" in whole.queries["query"]) == (options != {"missing": "skip"})
    with pytest.raises(RankqlError, match="not in the run, such as 'gone'"):
        explain(run, qrels, missing="error")
    barren = explain(run, judgments({"x": 0}, "none"))
    assert barren.value is None and "nDCG@10 is undefined" in repr(barren)
    assert barren.items.is_empty() and barren._repr_html_()


def test_the_printed_result():
    result = explain(RUN, QRELS, "q", "nDCG@3", **BY_HALVES)
    text = repr(result)
    assert "Losses add up to 0.7647 = 1 - nDCG@3 0.2353\n\nConventions: rankql" in text
    assert "query q: contribution = gain / discount / IDCG 4.25" in text
    assert text.splitlines()[0].split() == result.positions.columns
    assert "Losses add up to 0.2000 = ideal 0.6000 - P 0.4000" in repr(
        explain(RUN, QRELS, "q", "P")
    )
    whole = repr(explain(RUN, QRELS, metric="nDCG@3", **BY_HALVES))
    assert (
        "The losses of 1 query add up to 0.7647. The mean loss is 0.7647 = 1 - nDCG@3 0.2353"
        in whole
    )
    assert result.table is result.positions and result.to_arrow().num_rows == 4
    assert result.to_dict()["table"] == result.positions.to_dicts()
    assert json.loads(result.to_json())["value"] == result.value
    assert "\n\n| pos | item | rel |" in result.to_markdown()
    assert "rankql_explained AS MATERIALIZED" in result.sql


def test_names_are_escaped():
    evil = "<script>alert('x')</script>|*"
    result = explain(
        ranking([evil]), judgments({evil: 1, "a\nb": 1}, evil).with_columns(query=pl.lit("q")), "q"
    )
    whole = explain(ranking([evil], evil), judgments({evil: 1, "a\nb": 1}, evil))
    named = explain({evil: ranking([evil], evil)}, judgments({evil: 1, "z": 1}, evil), evil)
    for each in (result, whole, named):
        assert "<script" not in each._repr_html_() and "&lt;script" in each._repr_html_()
        assert "<script" not in each.to_markdown()
        assert "a\nb" not in repr(each)


def test_a_long_ranking_shows_what_matters():
    run = ranking([f"i{n}" for n in range(500)])
    result = explain(run, judgments({"i3": 1, "i77": 2, "i400": 0}), "q", "nDCG")
    assert len(result.positions) == 500 and len(repr(result).splitlines()) < 15
    assert "496 positions without gain are hidden." in repr(result)
