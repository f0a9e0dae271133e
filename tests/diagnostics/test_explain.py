"""What each item contributes and loses: by hand, against evaluate, and on data of all kinds."""

import json
from fractions import Fraction
from itertools import pairwise
from math import fsum, log2
from random import Random

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from pytest import approx

import rankql
from rankql import RankqlError, explain
from rankql.cli.main import main
from rankql.diagnostics.explain import EXPLAINED
from support.parameters import few

WORTH = ["contribution", "ideal_contribution", "loss"]
NEAR = 1e-12


def near(value, expected):
    return abs(value - expected) <= NEAR * max(1, abs(expected))


def same(left, right):
    assert_frame_equal(left, right, abs_tol=NEAR, rel_tol=0)


def one(items, grades, metric, **options):
    """A query q with these items, best first, and one whose item is found."""
    qrels = {"q": grades, "z": {"z": 1}}
    return explain({"q": [*items], "z": ["z"]}, qrels, "q", metric, **options)


def by_item(explained, column):
    return dict(explained.positions.drop_nulls("item").select("item", column).rows())


# By hand: d and e are relevant, c is worth 3 and not retrieved, x is unjudged.
RUN, QRELS = {"q": [*"xedan"]}, {"q": {"a": 0, "c": 3, "d": 2, "e": 1}}
MORE = {**RUN, "none": ["x", "y"]}, {**QRELS, "gone": {"z": 1}, "none": {"x": 0}}
BY_HALVES = {"discounts": [1, 2, 4, 8, 16]}


def test_ndcg_by_hand():
    """Discounts 1, 2, 4: DCG = 1/2 + 2/4 = 1, IDCG = 3 + 2/2 + 1/4 = 17/4."""
    result = explain(RUN, QRELS, "q", "nDCG@3", **BY_HALVES)
    assert near(result.value, Fraction(4, 17)) and near(result.ideal, 1)
    columns = ["pos", "item", "rel", "gain", "discount", "ideal_pos", "ideal_item", "ideal_rel"]
    assert result.positions.select(columns).rows() == [
        (1, "x", None, 0, 1, None, "c", 3),
        (2, "e", 1, 1, 2, 3, "d", 2),
        (3, "d", 2, 2, 4, 2, "e", 1),
        (None, "c", 3, 3, None, 1, None, None),
    ]
    # e stands too high by (1/2 - 1/4) of 17/4: others pay for it.
    for column, parts in zip(WORTH, ([0, 2, 2, 0], [12, 4, 1], [0, -1, 2, 12]), strict=True):
        shares = [part / 17 for part in parts]
        assert result.positions[column].drop_nulls().to_list() == approx(shares, abs=NEAR)


@few(2)(
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
    for item, loss in by_item(result, "loss").items():
        assert near(loss, Fraction(losses.get(item, "0"))), item


def test_items_of_equal_gain_keep_their_order():
    """Whatever their names are, and if the second position counts more."""
    losses = []
    for names in ("abcdefu", "utsrqpa"):
        grades = dict(zip(names, [1, 0, 2, 2, 1, 1, 1], strict=True))
        result = one(names[:6], grades, "nDCG@3")
        first, second, third, *_ = names
        ideal = {names[2]: 1, names[3]: 2, first: 3, second: None, third: 1}
        assert by_item(result, "ideal_pos") == ideal
        losses.append(result.positions["loss"].to_list())
    assert losses[0] == losses[1]
    swapped = one("ab", {"a": 1, "b": 1}, "nDCG", discounts=[2, 1])
    assert by_item(swapped, "loss") == {"a": 0, "b": 0}
    assert by_item(swapped, "ideal_pos") == {"a": 1, "b": 2}
    # Items that are not retrieved are ordered by name.
    result = one("x", {"a": 1, "é": 1, "b": 1}, "nDCG@2")
    assert by_item(result, "ideal_pos") == {"x": None, "é": 1, "b": 2}


def test_rows_beyond_the_cutoff_and_of_a_longer_ideal():
    """An item that belongs in the ideal top has a row at its position, others have none."""
    result = one("abcd", {"c": 1, "d": 1, "b": 0, "z": 0}, "nDCG@1")
    rows = result.positions.select("pos", "item", "contribution", "loss").rows()
    assert rows == [(1, "a", 0, 0), (3, "c", 0, 1)]
    result = one("a", {"b": 2, "c": 1}, "nDCG@10")
    assert result.positions.select("pos", "item", "ideal_item").rows() == [
        (1, "a", "b"), (2, None, "c"), (None, "b", None), (None, "c", None),
    ]  # fmt: skip


@few(2)("metric", ["P", "P(denominator=retrieved)@9", "AP(denominator=k)"])
def test_the_ideal_is_as_long_as_the_run(metric):
    """Two items are retrieved, three are relevant: the ideal has two of these."""
    result = one("xa", {"a": 1, "b": 1, "c": 1}, metric)
    assert near(result.ideal, 1) and by_item(result, "ideal_pos") == {"x": None, "a": 1, "c": 2}


@pytest.mark.slow
def test_negative_grades_lose():
    qrels = {"a": -1, "b": 2}
    for metric, options, loss in (
        ("nDCG", {}, 0), ("nDCG", {"negative": "keep"}, 0.5), ("DCG", {}, 1)
    ):  # fmt: skip
        assert by_item(one("ab", qrels, metric, **options), "loss")["a"] == loss
    assert near(one("ab", qrels, "nDCG", negative="keep").value, 1 / log2(3) - 0.5)


METRICS = [
    "nDCG", "nDCG@3", "nDCG(gain=exp2)@4", "nDCG(gain=binary)@5", "nDCG(base=10)@2",
    "nDCG(ideal=retrieved)@3", "nDCG(ideal=retrieved)", "nDCG(negative=keep)@3",
    "DCG", "DCG@3", "DCG(base=3)", "CG", "CG(gain=binary)@3",
    "AP", "AP(denominator=R)@3", "AP(denominator=found)@3", "AP(denominator=k)@3", "AP(rel=2)@4",
    "map_cut_3", "RR", "RR@2", "ARHR", "ARHR@3", "P", "P@3", "P@20", "P(rel=2)@3",
    "P(denominator=retrieved)@20", "P(denominator=min)@3", "R", "R@3", "F1", "F1@3", "Success@2",
    "Rprec", "Rprec(rel=2)", "Judged", "Judged@3", "ERR", "ERR@3", "ERR(p=0.8)@4",
    "ERR(max_rel=5)", "RBP(p=0.8)", "RBP(p=0.5)@3", "RBP(p=0.8, max_rel=4)",
]  # fmt: skip
DISCOUNTS = [1.5, 1, 1, 3, 2.5, 0.75] + [4] * 40
OPTIONS = [
    {},
    {"negative": "keep"},
    {"negative": "unjudged"},
    {"ideal": "retrieved"},
    {"unjudged": "remove"},
    {"threshold": 2},
    {"gain": "exp2"},
    {"gain": {-1: 0, 0: 0, 0.5: 1, 1: 2, 2: 3, 3: 10}},
    {"discounts": DISCOUNTS},
    {"discounts": DISCOUNTS, "ideal": "retrieved", "unjudged": "remove"},
    {"undefined": "drop", "threshold": 2},
    {"ties": "order"},
    {"conventions": "trec_eval"},
    {"conventions": "ranx", "ties": "order"},
    {"conventions": "recbole", "ties": "item"},
]


def draw(seed, queries=12, places="score"):
    """Runs with ties, gaps, unjudged and not retrieved items, and queries on one side only."""
    random = Random(seed)
    # One item of the run is always judged: none would be an error.
    run, qrels = [(99, "i0", 1 if places == "pos" else 1.0)], [(99, "i0", 1.0)]
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
    random.shuffle(run)
    return tuple(
        pl.DataFrame(rows, ["query", "item", last], orient="row")
        for rows, last in ((run, places), (qrels, "rel"))
    )


def evaluated(*args, **options):
    result = rankql.evaluate(*args, interval=None, **options)
    return dict(result.per_query.select("query", result.metrics[0]).rows()), result


def assert_consistent(result):
    """The contributions and losses of a query add up."""
    rows = result.positions
    if result.value is None:
        assert result.ideal is None and all(rows[name].null_count() == len(rows) for name in WORTH)
        return
    sums = {name: fsum(rows[name].drop_nulls()) for name in WORTH}
    assert near(sums["contribution"], result.value)
    assert near(sums["ideal_contribution"], result.ideal)
    assert near(sums["loss"], result.ideal - result.value)
    if result.metric.startswith("nDCG"):
        assert near(result.ideal, 1)
    elif not result.metric.startswith(("DCG", "CG", "ARHR")):
        assert result.ideal <= 1 + NEAR
    for row in rows.drop_nulls("item").to_dicts():
        assert row["gain"] > 0 or row["loss"] == -row["contribution"]
        if row.get("weight") is not None:
            assert near(row["contribution"] or 0, row["gain"] * row["weight"])


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_values_equal_evaluate_and_losses_add_up(metric):
    """Every query, and all together, under some of the options: all of them over the metrics."""
    step = 8 if metric.startswith("nDCG") else len(OPTIONS)
    for seed in range(METRICS.index(metric) % len(OPTIONS), len(OPTIONS), step):
        options = OPTIONS[seed]
        run, qrels = draw(f"{metric}{seed}", 2, Random(seed).choice(["score", "pos"]))
        if options.get("conventions") == "ranx":  # refuses fractions
            qrels = qrels.with_columns(pl.col("rel").ceil())
        values, result = evaluated(run, qrels, metric, **options)
        overall = explain(run, qrels, metric=metric, **options)
        name = result.metrics[0]
        assert overall.metric == name
        if result.conventions["missing"] == "skip":
            values = {query: value for query, value in values.items() if query in set(run["query"])}
        assert dict(overall.queries["query", "value"].rows()) == approx(values, abs=NEAR)
        assert overall.value == approx(result[name], abs=NEAR)
        costs = {}
        for query, _, ideal, loss in overall.queries.rows():
            single = explain(run, qrels, query, metric, **options)
            assert_consistent(single)
            assert single.query == query and single.value == approx(values[query], abs=NEAR)
            assert single.ideal == approx(ideal, abs=NEAR)
            assert (loss is None) == (values[query] is None)
            for item, cost in by_item(single, "loss").items():
                if abs(cost or 0) > NEAR:
                    costs.setdefault(item, []).append(cost)
        items = {item: (queries, loss) for item, queries, loss in overall.items.rows()}
        assert items.keys() == costs.keys()
        for item, (queries, loss) in items.items():
            assert queries == len(costs[item]) and near(loss, fsum(costs[item]))
        total = fsum(overall.queries["loss"].drop_nulls())
        assert abs(total - fsum(overall.items["loss"])) < 1e-10


def test_every_metric_is_tested():
    assert {m.split("(")[0].split("@")[0] for m in METRICS} >= set(EXPLAINED)


def test_the_largest_losses_come_first():
    overall = explain(*draw("sorted", 40), metric="AP", worst=3)
    for frame in (overall.queries, overall.items):
        losses = frame["loss"].drop_nulls().to_list()
        assert len(losses) > 3 and losses == sorted(losses, reverse=True)
    assert overall.queries["loss"][:3].null_count() == 0
    assert len(overall.to_dict()["items"]) == 3 and len(overall.items) > 3
    assert overall.queries.dtypes[1:] == [pl.Float64] * 3


@few(1)("as_column", [False, True])
def test_several_systems(as_column):
    (first, qrels), (second, _) = draw(1), draw(2)
    runs = each = {"one": first, "o'two": second}
    options = {}
    if as_column:
        runs = pl.concat([run.with_columns(engine=pl.lit(name)) for name, run in each.items()])
        options = {"system": "engine"}
    overall = explain(runs, qrels, metric="AP", **options)
    assert overall.queries.columns == ["system", "query", "value", "ideal", "loss"]
    assert overall.items.columns == ["system", "item", "queries", "loss"]
    assert overall.value is None and "AP of o'two is 0" in repr(overall)
    for name, run in each.items():
        alone = explain(run, qrels, metric="AP")
        assert overall.queries.filter(system=name).drop("system").rows() == alone.queries.rows()
        assert overall.items.filter(system=name)["item"].equals(alone.items["item"])
    # One system needs no choice; a query that it lacks has the value that evaluate gives it.
    runs = runs.filter(engine="one") if as_column else {"one": first}
    single = explain(runs, qrels, 1, "AP", **options)
    same(single.positions, explain(first, qrels, 1, "AP").positions)
    assert single.system == "one" and "one, query 1" in repr(single)
    assert explain(runs, qrels, 3, "AP", **options).value in (0, None)


def test_a_ranked_table_with_grades():
    run, qrels = draw("ranked", places="pos")
    table = run.join(qrels, on=["query", "item"], how="left")
    metric = "nDCG(ideal=retrieved)@5"
    values, _ = evaluated(table, None, metric)
    for query, value in [*values.items()][:4]:
        result = explain(table, None, query, metric)
        assert_consistent(result)
        assert result.value == value
    assert dict(explain(table, metric=metric).queries["query", "value"].rows()) == values


def test_positions_need_not_be_dense():
    """Two items at one position are refused."""
    run = pl.DataFrame({"query": "q", "item": list("abcd"), "pos": [2, 4, 5, 7]})
    result = explain(run, {"q": {"a": 1, "d": 1, "z": 1}}, "q", "nDCG@6")
    assert_consistent(result)
    assert result.positions["pos"].to_list() == [1, 2, 3, 4, 5, 7, None]
    shared = run.with_columns(pos=pl.Series([2, 2, 5, 7]))
    with pytest.raises(RankqlError, match="query 'q', pos 2"):
        explain(shared, {"q": {"a": 1, "b": 1}}, "q", "nDCG@6")


@few(1)(
    ("query", "dtype"),
    [(17, pl.UInt8), ("q'17\"; --", pl.String), ("q'17", pl.Categorical), (2**62, pl.Int64),
     ("日本\n{x}{place}%s", pl.String)],
)  # fmt: skip
def test_ids_of_any_type(query, dtype):
    odd = ["x' OR 1=1", 'it"em', "{left}", "é\n<b>"]
    key = pl.Series("query", [query], dtype=dtype).to_frame()
    run = key.join(pl.DataFrame({"item": odd, "pos": [1, 2, 3, 4]}), how="cross")
    qrels = key.join(pl.DataFrame({"item": odd[1::2], "rel": [1, 2]}), how="cross")
    for of in (query, str(query)):
        result = explain(run, qrels, of, "nDCG@2")
        assert result.query == query and result.positions["item"][:2].to_list() == odd[:2]
        assert_consistent(result)
        assert json.loads(result.to_json()) and "\n{x}" not in repr(result)
    for other in (18, "17.4", 17.4, "q17", "' OR 1=1 --", 2**62 + 1):
        with pytest.raises(RankqlError, match=r"Unknown query .*: qrels has no rows"):
            explain(run, qrels, other, "nDCG@2")
    # Ids of two types are compared as text.
    qrels = qrels.with_columns(pl.col("query").cast(pl.String))
    assert explain(run, qrels, query, "RR").value == 0.5


@pytest.mark.slow
def test_tables_of_any_name_on_a_connection_that_stays_as_it_was():
    con = duckdb.connect()
    run, qrels = draw("names")
    expected = explain(run, qrels, 1, "AP@3", con=con).positions
    assert con.execute("SHOW ALL TABLES").fetchall() == []
    names = ["run", "qrels", "ranked", "gains", "ideals", "queries", "shown", "it's", "places"]
    for name, other in pairwise(names):
        for table, frame in ((name, run), (other, qrels)):
            con.register("frame", frame)
            con.execute(f'CREATE OR REPLACE TABLE "{table}" AS FROM frame')
        same(explain(name, other, 1, "AP@3", con=con).positions, expected)
        assert explain(name, other, metric="AP@3", con=con).items.height


def test_duplicates_are_refused_in_the_query_only():
    run = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "b"], "score": [2.0, 1.0]})
    twice = pl.DataFrame({"query": ["q"] * 2, "item": ["a", "a"], "rel": [1, 2]})
    other = pl.concat([twice[:1], twice.with_columns(query=pl.lit("other"))])
    assert explain(run, other, "q", "DCG").value > 0
    for bad in ((run, twice), (pl.concat([run, run[:1].with_columns(score=0.5)]), twice[:1])):
        with pytest.raises(RankqlError, match="query 'q', item 'a'"):
            explain(*bad, "q", "DCG")


def test_missing_and_undefined():
    run, qrels = MORE
    gone = explain(run, qrels, "gone")
    assert (gone.value, gone.ideal) == (0, 1) and by_item(gone, "loss") == {"z": 1}
    assert any("'gone'" in note for note in gone.notes)
    none = explain(run, qrels, "none")
    assert_consistent(none)
    assert none.value is None and "nDCG@10 is undefined" in repr(none)
    assert dict(explain(run, qrels).queries["query", "loss"].rows())["none"] is None
    with pytest.raises(RankqlError, match="'gone'"):
        explain(run, qrels, missing="error")
    barren = explain(run, {"none": {"x": 0}})
    assert barren.value is None and "nDCG@10 is undefined" in repr(barren)
    assert barren.items.is_empty() and barren._repr_html_()


@few(1)("options", [{}, {"undefined": "zero"}, {"missing": "skip"}], ids=str)
def test_losses_of_queries_and_of_items_add_up_to_the_mean_loss(options):
    run, qrels = MORE
    overall = explain(run, qrels, **options)
    assert near(overall.value, evaluated(run, qrels, "nDCG@10", **options)[1]["nDCG@10"])
    losses = overall.queries["loss"].drop_nulls()
    counted = len(losses) + ("undefined" in options)
    assert near(losses.sum() / counted, overall.ideal - overall.value)
    assert near(losses.sum(), overall.items["loss"].sum())
    assert ("gone" in overall.queries["query"]) == ("missing" not in options)


def test_sentences():
    result = explain(RUN, QRELS, "q", "nDCG@3", **BY_HALVES)
    text = repr(result)
    assert "nDCG@3 is 0.2353, that of the ideal ranking 1.0000.\n\nConventions: rankql" in text
    assert "query q: contribution = gain / discount / IDCG 4.25" in text
    assert text.splitlines()[0].split() == result.positions.columns
    (sentence,) = explain(RUN, QRELS, "q", "P").sentences[-1:]
    assert sentence == "P is 0.4000, that of the ideal ranking 0.6000."
    (sentence,) = explain(RUN, QRELS, metric="nDCG@3", **BY_HALVES).sentences
    assert sentence == "nDCG@3 is 0.2353, that of the ideal ranking 1.0000."
    assert result.table is result.positions and "rankql_explained AS" in result.sql


def test_several_queries_are_those_of_each(tmp_path):
    run = {"a": {"x": 2.0, "y": 1.0}, "b": {"z": 1.0}, "c": {"x": 1.0}}
    qrels = {"a": {"y": 1}, "b": {"q": 0}, "c": {"x": 2}}
    both = rankql.explain(run, qrels, ["a", "b"])
    each = [rankql.explain(run, qrels, query) for query in ("a", "b")]
    assert both.positions.columns == ["query", *each[0].positions.columns]
    for query, one in zip("ab", each, strict=True):
        assert both.positions.filter(query=query).drop("query").rows() == one.positions.rows()
    assert both.sentences == [line for one in each for line in one.sentences]
    assert both.query == ["a", "b"] and both.result["nDCG@10"] == each[0].value
    with pytest.raises(rankql.RankqlError, match="Unknown query 'w'"):
        rankql.explain(run, qrels, ["a", "w"])
    for name, table in (("run", run), ("qrels", qrels)):
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    command = ["explain", f"{tmp_path}/run.json", f"{tmp_path}/qrels.json"]
    printed = CliRunner().invoke(main, [*command, "--of", "a", "--of", "b"]).stdout
    assert printed == f"{both}\n"


def test_all_queries_have_the_notes_of_evaluate():
    """But not the offer of ties='expected', which explain refuses."""
    run = pl.DataFrame({
        "query": [*"aabbc"], "item": ["x", "Y ", "x", "z", "x"], "score": [1.0, 1.0, 2.0, 1.0, 1.0],
    })  # fmt: skip
    qrels = pl.DataFrame({
        "query": [*"aaabb"], "item": [*"xyzxz"], "rel": [0.0, 2.0, None, 1.0, 0.5],
        "session": [*"sssss"],
    })  # fmt: skip
    explained = explain(run, qrels, metric="P@1").notes
    kinds = [note.kind for note in explained]
    assert kinds == ["unjudged-queries", "id-spelling", "null-grades", "fractions"]
    tied = qrels.with_columns(rel=pl.lit(1)).head(1)
    for judged in (qrels, tied):
        theirs = rankql.evaluate(run, judged, "P@1").notes
        ours = explain(run, judged, metric="P@1").notes
        offer = ". To average over all orders, pass ties='expected'"
        assert ours == [note.removesuffix(offer) for note in theirs]
        assert ours != theirs or judged is qrels


def test_missed_items_say_how_many_are_not_shown_and_long_ids_are_cut():
    where = "https://example.org/archive/with/a/long/path/to/document-"
    run = pl.DataFrame({"query": ["q"] * 2, "item": [f"{where}0", "x"], "score": [2.0, 1.0]})
    qrels = pl.DataFrame({"query": "q", "item": [f"{where}{i}" for i in range(14)], "rel": 2})
    missed = explain(run, qrels, metric="nDCG@5", missed=True)
    assert any("The first 10 of 13 items are shown" in x for x in missed.notes)
    shown = explain(run, qrels, metric="nDCG@5", missed=True, worst=13)
    assert not any("are shown" in x for x in shown.notes)
    for result in (missed, explain(run, qrels, "q"), explain(run, qrels)):
        lines = repr(result).split("\n")
        table = [x for x in lines if "…" in x and " = " not in x]
        assert table and max(map(len, table)) < 140
        assert any(f"{where}0" in x or f"{where}1" in x for x in lines if " = " in x)
    assert "2.0000" not in repr(missed)
