"""train=, metrics of shown items by name, seen='drop', split logs and most_popular, by definition.

RecTools 0.19 needs pandas below 3, so its formulas are written here: MeanInvUserFreq,
AvgRecPopularity, CatalogCoverage(normalize=True). Those of RecBole 1.2 are of its documentation.
"""

import random
from collections import Counter
from math import log2

import polars as pl
import pytest

import rankql
from rankql import RankqlError
from rankql.features import filters
from rankql.logs.table_macros import value_sql
from support import definitions, metric_engines
from support.parameters import few
from support.refusals import refuses

NAMES = ("Coverage", "Gini", "Entropy", "Personalisation")
LISTS = ("Popularity", "Novelty", "Serendipity", "Repeats")


def recommender(seed, users=30, items=25, length=6):
    """A run, a test and a log of training with repeated rows; some users and items are cold."""
    rng = random.Random(seed)
    ids = [f"i{item}" for item in range(items)]
    run = [(u, i, p) for u in range(users) for p, i in enumerate(rng.sample(ids, length), 1)]
    log = [(u, rng.choice(ids[:-3])) for u in range(users - 5) for _ in range(rng.randint(1, 9))]
    test = [(u, i) for u in range(users) for i in rng.sample(ids, 2)]
    schema = {"user": pl.Int64, "item": pl.String}
    return (
        pl.DataFrame(run, schema=schema | {"pos": pl.Int64}, orient="row"),
        pl.DataFrame(test, schema=schema, orient="row"),
        pl.DataFrame(log + log[:20], schema=schema, orient="row"),
    )


def popularity_of(train):
    """The number of users of each item, the most popular first, ties by item."""
    counts = Counter(item for _, item in {*train.rows()})
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def by_definition(run, test, train, k):
    """The value of each metric of all users, from the definitions."""
    popularity, pairs, relevant = popularity_of(train), {*train.rows()}, {*test.rows()}
    users, catalogue = train["user"].n_unique(), {*popularity, *test["item"]}
    rows = [(user, item) for user, item, pos in run.rows() if pos <= k]
    items, n = [(item,) for _, item in rows], len(catalogue)

    def mean(value):
        """All lists have k items, so that this is the mean over users too."""
        return sum(value(*row) for row in rows) / len(rows)

    return {
        "Coverage": len(catalogue & {item for (item,) in items}) / n,
        "Gini": definitions.gini([item for item in items if item[0] in catalogue], n),
        "Entropy": definitions.shannon_entropy(items),
        "Personalisation": definitions.personalisation(rows),
        "Popularity": mean(lambda u, i: popularity.get(i, 0)),
        "Novelty": mean(lambda u, i: log2(users / popularity.get(i, 1))),
        "Serendipity": mean(lambda u, i: (u, i) in relevant and i not in [*popularity][:k]),
        "Repeats": mean(lambda u, i: (u, i) in pairs),
    }


@few(1)("seed", [1, 2])
@pytest.mark.parametrize("form", ["positions", "scores", "systems"])
def test_values_are_the_definitions(seed, form):
    run, test, train = recommender(seed)
    expected = by_definition(run, test, train, 4) | {
        f"{name} at 6": value for name, value in by_definition(run, test, train, 6).items()
    }
    data = run
    if form == "scores":
        data = run.select("user", "item", score=-pl.col("pos"))
    elif form == "systems":
        data = {"a": run, "b": run.with_columns(pos=7 - pl.col("pos"))}
    metrics = [f"{name}@4,6" for name in (*NAMES, *LISTS)]
    result = rankql.evaluate(data, test, metrics, train=train)
    summary = result.summary.filter(system="a") if form == "systems" else result.summary
    means = dict(summary.select("metric", "mean").rows())
    for name, value in expected.items():
        metric = f"{name.partition(' ')[0]}@{6 if ' at ' in name else 4}"
        assert means[metric] == pytest.approx(value, abs=1e-12), metric
    has_interval = dict(summary.select("metric", pl.col("lo").is_not_null()).rows())
    assert [has_interval[f"{name}@4"] for name in (*NAMES, *LISTS)] == [False] * 4 + [True] * 4
    assert result.per_query.columns[-8:] == [f"{name}@{k}" for name in LISTS for k in (4, 6)]


@few(1)("form", ["positions", "scores", "graded"])
def test_seen_items_are_dropped(form):
    run, test, train = recommender(4)
    kept = run.join(train, on=["user", "item"], how="anti", maintain_order="left")
    kept = kept.with_columns(pos=pl.col("pos").rank("ordinal").over("user"))
    metrics = ["nDCG@3", "HR@3", "Coverage@3", "Popularity@3", "Repeats@3"]
    expected = rankql.evaluate(kept, test, metrics, train=train)
    data, judged = run, test
    if form == "scores":
        data = run.select("user", "item", score=-pl.col("pos"))
    elif form == "graded":
        rows = test.with_columns(rel=1)
        data = run.join(rows, on=["user", "item"], how="full", coalesce=True)
        # A column of the user may have the name of ours.
        own = {name: pl.lit(True) for name in (filters.DROPPED, filters.LINE)}
        data, judged = data.with_columns(pl.col("rel").fill_null(0), **own), None
        catalogue = {*train["item"], *data["item"]}
        expected = rankql.evaluate(kept, test, metrics, train=train, catalogue=len(catalogue))
    result = rankql.evaluate(data, judged, metrics, train=train, seen="drop")
    assert result.summary["mean"].to_list() == pytest.approx(expected.summary["mean"].to_list())
    count = len(run) - len(kept)
    assert any(f"seen='drop': {count} of {len(run)} items" in note for note in result.notes)
    if form == "positions":
        untouched = rankql.evaluate(data, judged, metrics, train=train)
        assert any("seen='drop' removes them" in x for x in untouched.notes)


@few(2)(
    "items, seen, relevant, place",
    [("abc", "b", "c", 2), ("abcd", "b", "d", 3), ("abcd", "abc", "d", 1), ("abd", "a", "d", 2)],
)
def test_items_below_a_position_without_items_move_up(items, seen, relevant, place):
    """b and c share position 2, which is free only if both are dropped."""
    places = {"a": 1, "b": 2, "c": 2, "d": 3}
    run = pl.DataFrame({"user": 1, "item": [*items], "pos": [places[item] for item in items]})
    test = pl.DataFrame({"user": [1], "item": [relevant]})
    train = pl.DataFrame({"user": 1, "item": [*seen, "z"]})
    result = rankql.evaluate(run, test, "RR@5", train=train, seen="drop")
    assert result["RR@5"] == 1 / place


@few(1)("split", ["leave_one_out", "time_split"])
def test_a_split_log_is_judgments_and_train(split, tmp_path):
    run, _, log = recommender(6)
    log = log.unique(maintain_order=True).sample(fraction=1, shuffle=True, seed=1)
    log = log.with_columns(time=pl.int_range(pl.len()))
    log = rankql.leave_one_out(log) if split == "leave_one_out" else rankql.time_split(log, 20)
    test, train = (log.filter(split=x).drop("split") for x in ("test", "train"))
    metrics = ["HR@4", "Coverage@4", "Novelty@4"]
    expected = rankql.evaluate(run, test, metrics, train=train)
    log.write_csv(tmp_path / "log.csv")
    forms = (log.to_pandas(), tmp_path / "log.csv") if split == "time_split" else ()
    for data in (log, *forms):
        result = rankql.evaluate(run, data, metrics)
        means = result.summary["mean"].to_list()
        assert means == pytest.approx(expected.summary["mean"].to_list(), abs=1e-12)
        assert "split = test; train: query = user, split = train" in repr(result)
    for part, data in (({}, log), ({"qrels": test}, log)):
        with pytest.raises(RankqlError, match="split with train and test, and train= is passed"):
            rankql.evaluate(run, part.get("qrels", log), metrics, train=data)
    if split == "time_split":
        kinds = {finding.kind for finding in rankql.check(run, log).findings}
        assert kinds.isdisjoint({"judged-share", "few-common-items"})


@few(1)("seen", ["drop", None])
def test_most_popular(seen):
    _, _, train = recommender(7)
    popular, pairs = [*popularity_of(train)], {*train.rows()}
    users = [0, 3, 29, 99]  # the last two have no row
    rows = [
        (user, item, place, 1 / place)
        for user in users
        for place, item in enumerate(
            [i for i in popular if not seen or (user, i) not in pairs][:7], 1
        )
    ]
    run = rankql.most_popular(train, 7, seen, users)
    assert run.rows() == rows and run.columns == ["user", "item", "pos", "score"]
    con = metric_engines.connect()
    con.register("train", train)
    con.register("asked", pl.DataFrame({"user": users}))
    sql = f"FROM most_popular('train', k := 7, seen := {value_sql(seen)}, users := 'asked')"
    assert con.execute(sql).fetchall() == rows
    pandas = rankql.most_popular(train.to_pandas(), 7, seen)
    every = rankql.most_popular(train, 7, seen)
    assert [*pandas.itertuples(index=False, name=None)] == every.rows()
    assert every["user"].n_unique() == train["user"].n_unique()


@pytest.mark.slow
def test_train_of_other_forms(tmp_path):
    """The same values from a file, a dict, other names, and ids of numbers as text or floats."""
    run, test, train = recommender(8)
    metrics = ["HR@4", "Coverage@4", "Repeats@4"]
    expected = rankql.evaluate(run, test, metrics, train=train).summary["mean"].to_list()
    train.write_csv(tmp_path / "train.csv")
    by_user = {u: [*{*rows["item"]}] for (u,), rows in train.group_by("user")}
    renamed = train.rename({"user": "customer_id", "item": "sku"}).with_columns(session=1)
    named = {"query": [["user"], ["customer_id"]], "item": ["item", "sku"]}
    for other, judged, options in (
        (by_user, test, {}),
        (str(tmp_path / "train.csv"), test, {}),
        (train.with_columns(pl.col("user").cast(pl.String)), test, {}),
        (train.with_columns(rating=pl.lit(0.0), user=pl.col("user").cast(pl.Float64)), test, {}),
        (renamed, test.rename({"user": "customer_id", "item": "sku"}), named),
    ):
        means = rankql.evaluate(run, judged, metrics, train=other, **options).summary["mean"]
        assert means.to_list() == pytest.approx(expected, abs=1e-12)


def test_catalogue_as_a_table_or_a_number():
    run, test, _ = recommender(9)
    some = pl.DataFrame({"id": ["i1", "i2", "unknown", "i1"]})
    result = rankql.evaluate(run, test, "Coverage@6,Gini@6", catalogue=some)
    assert result["Coverage@6"] == pytest.approx(2 / 3)
    assert any("not in the catalogue of 3 items" in note for note in result.notes)
    items = run["item"].n_unique()
    exact = rankql.evaluate(run, test, "Coverage@6,Gini@6", catalogue=2 * items)
    by_hand = rankql.gini("item", catalogue=2 * items)
    assert exact["Coverage@6"] == 0.5
    assert exact["Gini@6"] == pytest.approx(run.select(by_hand).item(), abs=1e-12)


@pytest.mark.slow
@few(1)("judged", [True, False])
def test_a_system_has_the_same_values_alone_and_beside_another(judged):
    """The catalogue is that of train, and of judgments in a table of their own."""
    run, test, train = recommender(11)
    _, _, other = recommender(12, items=40)
    metrics = ["Coverage@4", "Gini@4", "Popularity@4", "Novelty@4"]
    runs = {
        "a": run,
        "b": other.unique().with_columns(pos=pl.int_range(1, 1 + pl.len()).over("user")),
    }
    qrels = test if judged else None
    both = rankql.evaluate(runs, qrels, metrics, train=train, interval=None)
    size = len({*train["item"], *(test["item"] if judged else [])})
    assert f"items = {size} of train{' and qrels' * judged}" in repr(both)
    for name, alone in runs.items():
        values = rankql.evaluate(alone, qrels, metrics, train=train, interval=None).summary
        expected = both.summary.filter(system=name)["mean"].to_list()
        assert values["mean"].to_list() == pytest.approx(expected, abs=1e-12)


def test_grades_in_a_run_add_no_item_to_the_catalogue():
    run, _, train = recommender(13)
    metrics = ["Coverage@4", "Gini@4"]
    without = rankql.evaluate(run, None, metrics, train=train).summary["mean"].to_list()
    graded = run.with_columns(rel=pl.int_range(pl.len()) % 2)
    assert rankql.evaluate(graded, None, metrics, train=train).summary["mean"].to_list() == without


RUN, LOG, TRAIN = recommender(1)
SHOWN, TEST = (x.with_columns(w=1.0) for x in (RUN, LOG))
SCORED = RUN.select("user", "item", score=-pl.col("pos"))
OTHERS = TRAIN.with_columns(item="x" + pl.col("item"))
NULLS = pl.concat([TRAIN, pl.DataFrame({"user": [1], "item": [None]}, schema=TRAIN.schema)])
test_what_is_refused = refuses("train", globals(), "rankql.%s", light=4)


# One of three tied items is in train, and another is relevant: means over the orders of the ties.
AMONG_TIES = (1 + 1 / log2(3)) / 3
DROPPED = (1 + 1 / log2(3)) / 2


@few(1)(
    ("form", "metric", "options", "value"),
    [
        ("train", "nDCG@2", {"ties": "expected"}, AMONG_TIES),
        ("split log", "nDCG@2", {"conventions": "sklearn"}, AMONG_TIES),
        ("distance", "nDCG@2", {"ties": "expected", "seen": "drop"}, DROPPED),
        ("split log", "nDCG@2", {"ties": "expected", "seen": "drop"}, DROPPED),
        ("split log", "HR@1", {"ties": "expected"}, 1 / 3),
        ("distance", "RR", {"ties": "expected"}, (1 + 1 / 2 + 1 / 3) / 3),
    ],
)
def test_ties_by_expectation_with_train(form, metric, options, value):
    """The items shown are not known, so those that may be shown are counted."""
    users = pl.DataFrame({"user": [f"u{i}" for i in range(12)]})
    run = users.join(pl.DataFrame({"item": [*"abcd"], "score": [1.0, 1.0, 1.0, 0.5]}), how="cross")
    test, train = (users.with_columns(item=pl.lit(item)) for item in "ba")
    if form == "distance":
        run = run.select("user", "item", distance=-pl.col("score"))
    tables = {"qrels": test, "train": train}
    if form == "split log":
        parts = [test.with_columns(split=pl.lit("test")), train.with_columns(split=pl.lit("train"))]
        tables = {"qrels": pl.concat(parts)}
    result = rankql.evaluate(run, metrics=metric, **tables, **options)
    assert result[metric] == pytest.approx(value, abs=1e-12)
    share = "25.0%" if metric == "RR" else "33.3%"
    noted = any(x.startswith(f"{share} of the items") for x in result.notes)
    assert noted == ("seen" not in options)
    if (form, metric) != ("split log", "nDCG@2"):
        return
    both = rankql.compare({"a": run, "b": run}, metrics=metric, **tables, **options)
    assert both.summary["mean"].to_list() == pytest.approx([value] * 2, abs=1e-12)
    gate = rankql.gate(run, minimum={metric: value - 0.01}, **tables, **options)
    assert gate.passed


@few(2)(
    ("shown", "options", "said"),
    [
        ("f", {}, "1 of 3 relevant items is in train for the same user, and no run shows one, as"),
        ("f", {"seen": "drop"}, "1 of 3 relevant items is in train for the same user, so seen="),
        ("b", {}, None),  # the run shows an item of train, though not the relevant one
    ],
)
def test_relevant_items_in_train_that_no_run_shows_are_noted(shown, options, said):
    train = pl.DataFrame({"user": [1, 1, 2], "item": [*"abc"]})
    test = pl.DataFrame({"user": [1, 1, 2], "item": [*"ade"], "rel": 1})
    run = pl.DataFrame({"user": [1, 1, 2], "item": ["d", shown, "e"], "pos": [1, 2, 1]})
    result = rankql.evaluate(run, test, "R@2", train=train, query="user", **options)
    notes = [x for x in result.notes if "relevant items is in train" in x]
    assert [x.startswith(said) for x in notes] == [True] if said else not notes
